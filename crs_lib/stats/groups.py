"""Independent groups: the thesis's own table (one-way ANOVA with Tukey), its assumptions, corrections of p.

Where the same users met every system these ignore the pairing, which :mod:`crs_lib.stats.paired` uses.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, check_pairs, numbers
from crs_lib.stats.paired import two_way_residuals

METHODS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}  # corrections, as statsmodels calls them
_MOST_SHAPIRO = 5000  # values up to which Shapiro and Wilk's p is accurate
_UNKNOWN = "could not be checked (too little variation or too few scenarios); to be safe, "


def one_way_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way analysis of variance, and omega squared in [0, 1); one row.

    Omega squared is the share of the variance that systems explain. NaN when no value varies at all. Raises
    InputError for fewer than 2 systems or values of one. Source: Fisher (1925), Statistical Methods; Hays
    (1963), Statistics for Psychologists.
    """
    from statsmodels.stats.oneway import anova_oneway

    groups = design.groups(frame)
    n = sum(map(len, groups.samples))
    df1 = len(groups.names) - 1
    statistic, p = _constant(groups.samples)
    if math.isnan(p):
        with np.errstate(divide="ignore", invalid="ignore"):
            fit = anova_oneway(groups.samples, use_var="equal")
        statistic = float(fit.statistic)
        p = float(fit.pvalue)
    explained = df1 * (statistic - 1)
    omega = 1.0
    if not math.isinf(explained):
        omega = max(explained / (explained + n), 0.0)
    df2 = float(n - len(groups.names))
    return groups.row(test="one-way ANOVA", statistic=statistic, df1=df1, df2=df2, p=p, omega_squared=omega)


def _constant(samples: Sequence[Floats]) -> tuple[float, float]:
    """F and its p where no sample varies: infinite and 0 where the means differ; else NaN."""
    if any(np.ptp(sample) > 0 for sample in samples):
        return math.nan, math.nan
    if len({float(sample[0]) for sample in samples}) == 1:
        return math.nan, math.nan
    return math.inf, 0.0


def welch_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of Welch's analysis of variance, which lets the variances differ; one row.

    NaN when a system does not vary. Raises InputError as :func:`one_way_anova`. Source: Welch (1951),
    Biometrika 38.
    """
    groups = design.groups(frame)
    statistic = df2 = p = math.nan
    if min(map(np.ptp, groups.samples)) > 0:
        from statsmodels.stats.oneway import anova_oneway

        fit = anova_oneway(groups.samples, use_var="unequal", welch_correction=True)
        statistic, df2, p = float(fit.statistic), float(fit.df_denom), float(fit.pvalue)
    return groups.row(test="Welch ANOVA", statistic=statistic, df1=len(groups.names) - 1, df2=df2, p=p)


def tukey_hsd(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` of every pair with simultaneous interval; p holds for the family.

    Raises InputError as :func:`one_way_anova`. Source: Tukey (1953), Kramer (1956) for unequal sizes.
    """
    from statsmodels.stats.multicomp import pairwise_tukeyhsd

    names, samples, missing = design.groups(frame)
    numbers_of = np.repeat(range(len(names)), [len(sample) for sample in samples])
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = pairwise_tukeyhsd(np.concatenate(samples), numbers_of, 1 - design.confidence)
    rows = []
    pairs = combinations(range(len(names)), 2)
    for (i, j), gap, ends, p in zip(pairs, fit.meandiffs, fit.confint, fit.pvalues, strict=True):
        low, high = -ends[::-1]  # statsmodels has b - a
        row = {"a": names[i], "b": names[j], "diff": -gap, "low": low, "high": high, "p": p}
        row["n_a"] = len(samples[i])
        row["n_b"] = len(samples[j])
        row["n_missing"] = missing[i] + missing[j]
        rows.append(row)
    return pd.DataFrame(rows)


def independent_pairs(frame: pd.DataFrame, design: Design = USUAL, margin: float = math.nan) -> pd.DataFrame:
    """Two systems that met different users, a row each pair.

    Welch's interval of the difference with its ``p``, ``p_games_howell`` for all systems at once, and
    ``p_equivalent`` within ±``margin``. NaN where neither varies. Source: Welch (1947), Biometrika 34; Games
    and Howell (1976), JES 1.
    """
    names, samples, missing = design.groups(frame)
    with np.errstate(divide="ignore", invalid="ignore"):
        games_howell = scipy.stats.tukey_hsd(*samples, equal_var=False).pvalue
    rows = []
    for i, j in check_pairs(names, design.pairs):
        row: dict[str, Any] = {"a": names[i], "b": names[j]}
        row.update(_welch(samples[i], samples[j], design.upper, margin))
        row["p_games_howell"] = math.nan if math.isnan(row["low"]) else games_howell[i, j]
        row["n"] = min(len(samples[i]), len(samples[j]))
        row["n_missing"] = missing[i] + missing[j]
        rows.append(row)
    return pd.DataFrame(rows)


def _welch(x: Floats, y: Floats, upper: float, margin: float) -> dict[str, float]:
    """Welch's interval of a difference of means, and the tests of two samples."""
    sizes = np.array([len(x), len(y)])
    errors = np.array([x.var(ddof=1), y.var(ddof=1)]) / sizes
    diff = float(x.mean() - y.mean())
    error = float(np.sqrt(errors.sum()))
    row = {"diff": diff, **dict.fromkeys(["low", "high", "p", "p_equivalent"], math.nan)}
    if not error > 0:
        return row
    df = errors.sum() ** 2 / (errors**2 / (sizes - 1)).sum()
    t = scipy.stats.t(df)
    half = float(t.ppf(upper)) * error
    row["low"] = diff - half
    row["high"] = diff + half
    row["p"] = 2 * float(t.sf(abs(diff) / error))
    row["p_equivalent"] = float(t.sf((margin - abs(diff)) / error))
    return row


def holm(p: Sequence[float] | Floats) -> Floats:
    """Holm's adjusted p in [0, 1], in order.

    Parameters
    ----------
    p : array-like
        The p values of a family of tests; NaN is no member.

    References
    ----------
    Holm (1979), Scand. J. Stat. 6.
    """
    return np.asarray(adjust(pd.DataFrame({"p": p}, dtype=float))["p_adjusted"])


def adjust(frame: pd.DataFrame, *, p: str = "p", method: str = "holm") -> pd.DataFrame:
    """The p values of a column corrected for all that were made.

    Parameters
    ----------
    frame : DataFrame
        A row a test of the family.
    p : str
        The column of p values; NaN is no member of the family.
    method : {"holm", "benjamini_hochberg"}
        For the chance of any false finding, or for the share of false ones.

    Returns
    -------
    DataFrame
        The frame with ``p_adjusted`` and ``family_size``.

    Raises
    ------
    InputError
        For an unknown method or column or a p outside [0, 1].
    """
    check_columns(frame, p)
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; use one of {', '.join(METHODS)}")
    raw = numbers(frame, p)
    members = ~np.isnan(raw)
    outside = raw[(raw < 0) | (raw > 1)]
    if len(outside):
        raise InputError(f"p values outside [0, 1]: {outside}")
    adjusted = np.full(len(raw), np.nan)
    if members.any():
        from statsmodels.stats.multitest import multipletests

        adjusted[members] = multipletests(raw[members], method=METHODS[method])[1]
    return frame.assign(p_adjusted=adjusted, family_size=int(members.sum()))


class _Advice(NamedTuple):
    """What to read where a check holds, where it fails, and where it fails for independent samples."""

    holds: str
    fails: str
    fails_apart: str = ""


_ADVICE = {
    "equal variances": _Advice(
        "no sign of unequal variances: one-way ANOVA with Tukey can be read",
        "variances differ: read Welch's ANOVA and the paired tests in place of one-way ANOVA with Tukey",
        "variances differ: read Welch's ANOVA and Games and Howell's test "
        "in place of one-way ANOVA with Tukey",
    ),
    "normal residuals": _Advice(
        "no sign against normal residuals: t intervals can be read",
        "residuals are not normal: read the paired tests of means",
        "residuals are not normal: read Welch's test",
    ),
    "sphericity": _Advice(
        "no sign against sphericity: the uncorrected p of the repeated-measures ANOVA can be read",
        "sphericity fails: read the Greenhouse-Geisser p of the repeated-measures ANOVA",
    ),
}


def assumptions(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """The checks of the classical tests: three rows, two for independent samples.

    ``holds`` is missing where a check could not be made; ``follows`` says what to read. Raises InputError as
    :func:`rm_anova`. Source: Brown and Forsythe (1974), JASA 69; Shapiro and Wilk (1965), Biometrika 52;
    D'Agostino and Pearson (1973), Biometrika 60; Mauchly (1940), Ann. Math. Stat. 11.
    """
    apart = design.independent(frame)
    checks = [_levene, _normality_apart] if apart else [_levene, _normality, _sphericity]
    table = pd.concat([check(frame, design) for check in checks], ignore_index=True)
    verdicts: list[bool | None] = []
    follows = []
    for check, p in zip(table["check"], table["p"], strict=True):
        advice = _ADVICE[check]
        fails = advice.fails_apart if apart else advice.fails
        if math.isnan(p):
            verdicts.append(None)
            follows.append(_UNKNOWN + fails.split(": ")[1])
        else:
            holds = bool(p >= design.alpha)
            verdicts.append(holds)
            follows.append(advice.holds if holds else fails)
    table.insert(4, "holds", verdicts)
    table.insert(5, "follows", follows)
    return table


def _levene(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Levene's test around medians (Brown-Forsythe): do the systems vary alike? NaN when none varies."""
    groups = design.groups(frame)
    statistic = p = math.nan
    if any(np.ptp(sample) > 0 for sample in groups.samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic, p = scipy.stats.levene(*groups.samples, center="median")
    return groups.row(check="equal variances", test="Levene", statistic=statistic, p=p)


def _normality(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Are the residuals normal, scenario and system effects taken out?"""
    paired = design.paired(frame)
    complete = paired.complete()
    residuals = two_way_residuals(complete).ravel()
    return paired.row(complete, **_normal_test(complete, residuals))


def _normality_apart(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Are the residuals of independent samples normal, system effects taken out?"""
    groups = design.groups(frame)
    residuals = [sample - sample.mean() for sample in groups.samples]
    return groups.row(**_normal_test(np.concatenate(groups.samples), np.concatenate(residuals)))


def _normal_test(values: Floats, residuals: Floats) -> dict[str, object]:
    """The test by the number of residuals; NaN when nothing varies."""
    name, test = "Shapiro-Wilk", scipy.stats.shapiro
    if len(residuals) > _MOST_SHAPIRO:
        name, test = "D'Agostino-Pearson", scipy.stats.normaltest
    statistic = p = math.nan
    if np.ptp(residuals) > 1e-12 * np.abs(values).max():
        statistic, p = test(residuals)
    return {"check": "normal residuals", "test": name, "statistic": statistic, "p": p}


def _sphericity(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Mauchly's test: do all differences between systems vary alike?"""
    paired = design.paired(frame)
    complete = paired.complete()
    w, p = _mauchly(complete)
    return paired.row(complete, check="sphericity", test="Mauchly", statistic=w, p=p)


def _mauchly(x: Floats) -> tuple[float, float]:
    """Mauchly's W and its p with the second-order term; 1 for two systems, NaN with fewer complete scenarios
    than systems or without variation.
    """
    n, k = x.shape
    if k == 2:
        return 1.0, 1.0
    polynomials = np.vander(np.arange(k), k, increasing=True).astype(float)
    contrasts = np.linalg.qr(polynomials)[0][:, 1:]
    variances = np.linalg.eigvalsh(np.cov(x @ contrasts, rowvar=False))
    if n < k or not variances.min() > 1e-13 * variances.max():
        return math.nan, math.nan
    m = k - 1
    df = k * m // 2 - 1
    log_w = float(np.log(variances).sum() - m * np.log(variances.mean()))
    w = math.exp(log_w)
    shrink = 1 - (2 * m**2 + m + 2) / (6 * m * (n - 1))
    chi2 = -shrink * (n - 1) * log_w
    cubic = 2 * m**3 + 6 * m**2 + 3 * m + 2
    second = (m + 2) * (m - 1) * (m - 2) * cubic
    second /= 288 * (m * (n - 1) * shrink) ** 2
    tail = float(scipy.stats.chi2.sf(chi2, df))
    further = float(scipy.stats.chi2.sf(chi2, df + 4))
    p = tail + second * (further - tail)
    return w, min(1.0, max(0.0, p))
