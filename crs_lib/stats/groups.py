"""Independent groups: the thesis's own table (one-way ANOVA with Tukey), what it assumes, and corrections.
Where the same users met every system these ignore the pairing, which :mod:`crs_lib.stats.paired` uses.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, Groups, check_columns, check_pairs, numbers
from crs_lib.stats.paired import two_way_residuals

_NAN = float("nan")


def one_way_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way analysis of variance, and omega squared in [0, 1), the share of the variance that
    systems explain; one row. NaN when no value varies at all. Raises InputError for fewer than 2 systems or
    values of one. Source: Fisher (1925), Statistical Methods; Hays (1963), Statistics for Psychologists.
    """
    groups = design.groups(frame)
    pooled = np.concatenate(groups.samples)
    within = sum(float(((s - s.mean()) ** 2).sum()) for s in groups.samples)
    between = sum(len(s) * float((s.mean() - pooled.mean()) ** 2) for s in groups.samples)
    noise = 1e-28 * float((pooled**2).sum())
    within, between = (0.0 if ss <= noise else ss for ss in (within, between))
    df1, df2 = len(groups.names) - 1, len(pooled) - len(groups.names)
    left = within / df2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(between / df1, left))
        omega = float(np.divide(between - df1 * left, between + within + left))
    p = float(scipy.stats.f.sf(ratio, df1, df2))
    found = {"statistic": ratio, "df1": df1, "df2": float(df2), "p": p, "omega_squared": max(omega, 0.0)}
    return groups.row(test="one-way ANOVA", **found)


def welch_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of Welch's analysis of variance, which lets the variances differ; one row, NaN when a system
    does not vary. Raises InputError as :func:`one_way_anova`. Source: Welch (1951), Biometrika 38.
    """
    groups = design.groups(frame)
    row = {"test": "Welch ANOVA", "statistic": _NAN, "df1": len(groups.names) - 1, "df2": _NAN, "p": _NAN}
    if all(np.ptp(sample) > 0 for sample in groups.samples):
        from statsmodels.stats.oneway import anova_oneway

        fit = anova_oneway(groups.samples, use_var="unequal", welch_correction=True)
        row |= {"statistic": float(fit.statistic), "df2": float(fit.df_denom), "p": float(fit.pvalue)}
    return groups.row(**row)


def tukey_hsd(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` of every pair with simultaneous interval; p holds for the family. Raises
    InputError as :func:`one_way_anova`. Source: Tukey (1953), Kramer (1956) for unequal sizes; scipy.
    """
    names, samples, missing = design.groups(frame)
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = scipy.stats.tukey_hsd(*samples)
    ends, rows = fit.confidence_interval(design.confidence), []
    for i, j in combinations(range(len(names)), 2):
        row = {"a": names[i], "b": names[j], "diff": fit.statistic[i, j], "low": ends.low[i, j]}
        row |= {"high": ends.high[i, j], "p": fit.pvalue[i, j], "n_a": len(samples[i])}
        rows.append(row | {"n_b": len(samples[j]), "n_missing": missing[i] + missing[j]})
    return pd.DataFrame(rows)


def independent_pairs(frame: pd.DataFrame, design: Design = USUAL, margin: float = _NAN) -> pd.DataFrame:
    """Two systems that met different users, a row each pair: Welch's interval of the difference,
    ``p_games_howell`` for all systems at once, ``p_brunner_munzel`` (Mann and Whitney's where the samples do
    not overlap) with its side ``ranks``, and ``p_equivalent`` within ±``margin``. NaN where neither varies.
    Source: Welch (1947), Biometrika 34; Games and Howell (1976), JES 1; Brunner and Munzel (2000), Biom. J.
    """
    names, samples, missing = design.groups(frame)
    with np.errstate(divide="ignore", invalid="ignore"):
        games_howell, rows = scipy.stats.tukey_hsd(*samples, equal_var=False).pvalue, []
    for i, j in check_pairs(names, design.pairs):
        x, y = samples[i], samples[j]
        parts = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
        diff, error = float(x.mean() - y.mean()), float(np.sqrt(parts.sum()))
        row = {"a": names[i], "b": names[j], "diff": diff, "low": _NAN, "high": _NAN, "p_games_howell": _NAN}
        row |= {"p_brunner_munzel": 1.0 if diff == 0 else _NAN, "ranks": 0.0, "p_equivalent": _NAN}
        if error > 0:
            df = float(parts.sum() ** 2 / (parts**2 / (len(x) - 1, len(y) - 1)).sum())
            half = float(scipy.stats.t.ppf((1 + design.confidence) / 2, df)) * error
            row |= {"low": diff - half, "high": diff + half, "p_games_howell": games_howell[i, j]}
            row["p_equivalent"] = float(scipy.stats.t.sf((margin - abs(diff)) / error, df))
            ahead = float(scipy.stats.mannwhitneyu(x, y).statistic) / (len(x) * len(y)) - 0.5
            test = scipy.stats.mannwhitneyu if abs(ahead) == 0.5 else scipy.stats.brunnermunzel
            row |= {"p_brunner_munzel": float(test(x, y).pvalue), "ranks": float(np.sign(ahead))}
        rows.append(row | {"n": min(len(x), len(y)), "n_missing": missing[i] + missing[j]})
    return pd.DataFrame(rows)


def holm(p: Sequence[float] | Floats) -> Floats:
    """Holm's adjusted p in [0, 1], in order; NaN does not count. Source: Holm (1979), Scand. J. Stat. 6."""
    return np.asarray(adjust(pd.DataFrame({"p": p}, dtype=float))["p_adjusted"])


def adjust(frame: pd.DataFrame, *, p: str = "p", method: str = "holm") -> pd.DataFrame:
    """The frame with ``p_adjusted`` and ``family_size`` beside the column ``p``; NaN is no member. Raises
    InputError for an unknown method or column or a p outside [0, 1].
    """
    check_columns(frame, p)
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; use one of {', '.join(METHODS)}")
    raw = numbers(frame, p)
    known = ~np.isnan(raw)
    outside = raw[known & ((raw < 0) | (raw > 1))]
    if len(outside):
        raise InputError(f"p values outside [0, 1]: {outside}")
    adjusted = np.full(len(raw), np.nan)
    if known.any():
        adjusted[known] = METHODS[method](raw[known])
    return frame.assign(p_adjusted=adjusted, family_size=int(known.sum()))


def _step_down(p: Floats) -> Floats:
    """Holm: the k-th smallest of n p values times n − k + 1, never below the one before, at most 1."""
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def _step_up(p: Floats) -> Floats:
    # Not statsmodels' multipletests, which runs the garbage collector at every call.
    from statsmodels.stats.multitest import fdrcorrection

    return np.asarray(fdrcorrection(p)[1], dtype=float)


METHODS: dict[str, Callable[[Floats], Floats]] = {"holm": _step_down, "benjamini_hochberg": _step_up}


def _levene(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Levene's test around medians (Brown-Forsythe): do the systems vary alike? NaN when none varies."""
    groups = design.groups(frame)
    statistic = p = _NAN
    if any(np.ptp(sample) > 0 for sample in groups.samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic, p = scipy.stats.levene(*groups.samples, center="median")
    return groups.row(check="equal variances", test="Levene", statistic=statistic, p=p)


def _normality(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Are the residuals (scenario and system effects taken out) normal? NaN when nothing varies."""
    made: Any
    if design.independent(frame):
        made = design.groups(frame)
        x = np.concatenate(made.samples)
        residual = np.concatenate([sample - sample.mean() for sample in made.samples])
    else:
        made = design.paired(frame)
        x = made.complete()
        residual = two_way_residuals(x).ravel()
    few = len(residual) <= 5000
    statistic = p = _NAN
    if np.ptp(residual) > 1e-12 * np.abs(x).max():
        statistic, p = scipy.stats.shapiro(residual) if few else scipy.stats.normaltest(residual)
    test = "Shapiro-Wilk" if few else "D'Agostino-Pearson"
    facts = {"check": "normal residuals", "test": test, "statistic": statistic, "p": p}
    return made.row(**facts) if isinstance(made, Groups) else made.row(x, **facts)


def _sphericity(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Mauchly's W with the second-order term of p: do all differences between systems vary alike? 1 for two
    systems, NaN with fewer complete scenarios than systems or without variation.
    """
    paired = design.paired(frame)
    x = paired.complete()
    (n, k), w, p = x.shape, 1.0, 1.0
    if k > 2:
        contrasts = np.linalg.qr(np.vander(np.arange(k), k, increasing=True).astype(float))[0][:, 1:]
        values = np.linalg.eigvalsh(np.cov(x @ contrasts, rowvar=False))
        w = p = _NAN
    if k > 2 and n >= k and values.min() > 1e-13 * values.max():
        m, df = k - 1, k * (k - 1) // 2 - 1
        w = float(np.exp(np.log(values).sum() - m * np.log(values.mean())))
        shrink = 1 - (2 * m**2 + m + 2) / (6 * m * (n - 1))
        chi2 = -shrink * (n - 1) * float(np.log(w))
        second = (m + 2) * (m - 1) * (m - 2) * (2 * m**3 + 6 * m**2 + 3 * m + 2)
        second /= 288 * (m * (n - 1) * shrink) ** 2
        tail, further = (float(scipy.stats.chi2.sf(chi2, d)) for d in (df, df + 4))
        p = min(1.0, max(0.0, tail + second * (further - tail)))
    return paired.row(x, check="sphericity", test="Mauchly", statistic=w, p=p)


_FOLLOWS = {  # of each check: where it holds, and where it fails
    "equal variances": (
        "no sign of unequal variances: one-way ANOVA with Tukey can be read",
        "variances differ: read Welch's ANOVA and the paired tests in place of one-way ANOVA with Tukey",
    ),
    "normal residuals": (
        "no sign against normal residuals: t intervals can be read",
        "residuals are not normal: read Wilcoxon's test",
    ),
    "sphericity": (
        "no sign against sphericity: the uncorrected p of the repeated-measures ANOVA can be read",
        "sphericity fails: read the Greenhouse-Geisser p of the repeated-measures ANOVA",
    ),
}


_UNKNOWN = "could not be checked (too little variation or too few scenarios); to be safe, "


def assumptions(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """The checks of the classical tests with what follows from each in words: three rows, two for independent
    samples; ``holds`` is missing where a check could not be made. Raises InputError as :func:`rm_anova`.
    Source: Brown and Forsythe (1974), JASA 69; Shapiro and Wilk (1965), Biometrika 52; D'Agostino and Pearson
    (1973), Biometrika 60; Mauchly (1940), Ann. Math. Stat. 11.
    """
    apart = design.independent(frame)
    checks = (_levene, _normality) if apart else (_levene, _normality, _sphericity)
    found = pd.concat([make(frame, design) for make in checks], ignore_index=True)
    holds = [None if np.isnan(p) else bool(p >= design.alpha) for p in found["p"]]
    texts = [(_FOLLOWS[check][not held], held) for check, held in zip(found["check"], holds, strict=True)]
    words = [text if held is not None else _UNKNOWN + text.split(": ")[1] for text, held in texts]
    if apart:
        words = [text.replace("the paired tests", "Games and Howell's test") for text in words]
        words = [text.replace("Wilcoxon's", "Brunner and Munzel's") for text in words]
    counts = found[["n", "n_missing"]]
    return found.drop(columns=["n", "n_missing"]).assign(holds=holds, follows=words).join(counts)
