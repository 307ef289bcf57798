"""Independent groups: the thesis's own table (one-way ANOVA with Tukey), and corrections of p values.

Where the same users met every system these ignore the pairing, which :mod:`crs_lib.stats.paired` uses.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, check_pairs, numbers

_NAN = float("nan")
_NOISE = 1e-28  # sums of squares below this part of the whole are rounding
METHODS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}  # corrections, as statsmodels calls them


def one_way_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way analysis of variance, and omega squared in [0, 1); one row.

    Omega squared is the share of the variance that systems explain. NaN when no value varies at all. Raises
    InputError for fewer than 2 systems or values of one. Source: Fisher (1925), Statistical Methods; Hays
    (1963), Statistics for Psychologists.
    """
    groups = design.groups(frame)
    pooled = np.concatenate(groups.samples)
    within = between = 0.0
    for sample in groups.samples:
        within += float(((sample - sample.mean()) ** 2).sum())
        between += len(sample) * float((sample.mean() - pooled.mean()) ** 2)
    noise = _NOISE * float((pooled**2).sum())
    if within <= noise:
        within = 0.0
    if between <= noise:
        between = 0.0
    df1 = len(groups.names) - 1
    df2 = len(pooled) - len(groups.names)
    left = within / df2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(between / df1, left))
        omega = float(np.divide(between - df1 * left, between + within + left))
    p = float(scipy.stats.f.sf(ratio, df1, df2))
    omega = max(omega, 0.0)
    return groups.row(
        test="one-way ANOVA", statistic=ratio, df1=df1, df2=float(df2), p=p, omega_squared=omega
    )


def welch_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of Welch's analysis of variance, which lets the variances differ; one row.

    NaN when a system does not vary. Raises InputError as :func:`one_way_anova`. Source: Welch (1951),
    Biometrika 38.
    """
    groups = design.groups(frame)
    statistic = df2 = p = _NAN
    if all(np.ptp(sample) > 0 for sample in groups.samples):
        from statsmodels.stats.oneway import anova_oneway

        fit = anova_oneway(groups.samples, use_var="unequal", welch_correction=True)
        statistic, df2, p = float(fit.statistic), float(fit.df_denom), float(fit.pvalue)
    return groups.row(test="Welch ANOVA", statistic=statistic, df1=len(groups.names) - 1, df2=df2, p=p)


def tukey_hsd(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` of every pair with simultaneous interval; p holds for the family.

    Raises InputError as :func:`one_way_anova`. Source: Tukey (1953), Kramer (1956) for unequal sizes; scipy.
    """
    names, samples, missing = design.groups(frame)
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = scipy.stats.tukey_hsd(*samples)
    ends = fit.confidence_interval(design.confidence)
    rows = []
    for i, j in combinations(range(len(names)), 2):
        numbers_of_pair = (fit.statistic[i, j], ends.low[i, j], ends.high[i, j], fit.pvalue[i, j])
        sizes = (len(samples[i]), len(samples[j]), missing[i] + missing[j])
        rows.append((names[i], names[j], *numbers_of_pair, *sizes))
    return pd.DataFrame(rows, columns=["a", "b", "diff", "low", "high", "p", "n_a", "n_b", "n_missing"])


def independent_pairs(frame: pd.DataFrame, design: Design = USUAL, margin: float = _NAN) -> pd.DataFrame:
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
        tests = _welch(samples[i], samples[j], design.upper, margin)
        p = _NAN if np.isnan(tests["low"]) else games_howell[i, j]
        sizes = {"n": min(len(samples[i]), len(samples[j])), "n_missing": missing[i] + missing[j]}
        rows.append({"a": names[i], "b": names[j], **tests, "p_games_howell": p, **sizes})
    return pd.DataFrame(rows)


def _welch(x: Floats, y: Floats, upper: float, margin: float) -> dict[str, float]:
    """Welch's interval of a difference of means, and the tests of two samples."""
    variances = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
    diff = float(x.mean() - y.mean())
    error = float(np.sqrt(variances.sum()))
    if not error > 0:
        return {"diff": diff, **dict.fromkeys(["low", "high", "p", "p_equivalent"], _NAN)}
    df = float(variances.sum() ** 2 / (variances**2 / (len(x) - 1, len(y) - 1)).sum())
    half = float(scipy.stats.t.ppf(upper, df)) * error
    return {
        "diff": diff,
        "low": diff - half,
        "high": diff + half,
        "p": float(2 * scipy.stats.t.sf(abs(diff) / error, df)),
        "p_equivalent": float(scipy.stats.t.sf((margin - abs(diff)) / error, df)),
    }


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
