"""Independent groups: the thesis's own table (one-way ANOVA with Tukey) and its unequal-variance twin.

The same users meet every system, so these ignore the pairing; :mod:`crs_lib.stats.paired` uses it.
"""

from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.frames import Floats, Groups, check_level, group_samples, table

_NODES = 9


def one_way_anova(frame: pd.DataFrame, *, system: str = "system", value: str = "value") -> pd.DataFrame:
    """F >= 0 of the one-way analysis of variance, one row with the sums of squares.

    NaN when no value varies at all, infinite when values differ between systems only.
    Raises InputError for fewer than 2 systems or a system with fewer than 2 values.
    Source: Fisher (1925), Statistical Methods for Research Workers.
    """
    groups = group_samples(frame, system=system, value=value)
    pooled = np.concatenate(groups.samples)
    within = sum(float(((s - s.mean()) ** 2).sum()) for s in groups.samples)
    between = sum(len(s) * float((s.mean() - pooled.mean()) ** 2) for s in groups.samples)
    if within <= 1e-28 * float((pooled**2).sum()):
        within = 0.0
    if between <= 1e-28 * float((pooled**2).sum()):
        between = 0.0
    df1, df2 = len(groups.names) - 1, len(pooled) - len(groups.names)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(between / df1, within / df2))
    row = {"test": "one-way ANOVA", "statistic": ratio, "df1": df1, "df2": float(df2)}
    row |= {"p": float(scipy.stats.f.sf(ratio, df1, df2))}
    row |= {"ss_between": between, "ss_within": within}
    return table([row | _counts(groups)])


def welch_anova(frame: pd.DataFrame, *, system: str = "system", value: str = "value") -> pd.DataFrame:
    """F >= 0 of Welch's analysis of variance, which lets the variances differ; one row.

    NaN when a system does not vary. Raises InputError as :func:`one_way_anova`.
    Source: Welch (1951), Biometrika 38.
    """
    groups = group_samples(frame, system=system, value=value)
    row: dict[str, Any] = {"test": "Welch ANOVA", "statistic": np.nan, "df1": len(groups.names) - 1}
    row |= {"df2": np.nan, "p": np.nan}
    if all(np.ptp(sample) > 0 for sample in groups.samples):
        from statsmodels.stats.oneway import anova_oneway

        fit = anova_oneway(groups.samples, use_var="unequal", welch_correction=True)
        row |= {"statistic": float(fit.statistic), "df2": float(fit.df_denom)}
        row |= {"p": float(fit.pvalue)}
    return table([row | _counts(groups)])


def tukey_hsd(
    frame: pd.DataFrame,
    *,
    system: str = "system",
    value: str = "value",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Difference of means ``a - b`` of every pair with simultaneous interval; p holds for the family.

    Raises InputError as :func:`one_way_anova`.
    Source: Tukey (1953), Kramer (1956) for unequal sizes.
    """
    check_level("confidence", confidence)
    groups = group_samples(frame, system=system, value=value)
    sizes = np.array([len(sample) for sample in groups.samples])
    df = int(sizes.sum()) - len(sizes)
    within = np.sum([sample.var(ddof=1) * (len(sample) - 1) for sample in groups.samples]) / df
    quantile = _range_quantile(confidence, len(sizes), df)
    rows = []
    for i, j in combinations(range(len(sizes)), 2):
        error = float(np.sqrt((1 / sizes[i] + 1 / sizes[j]) * within / 2))
        row = _pair(groups, i, j, quantile * error)
        with np.errstate(divide="ignore", invalid="ignore"):
            q = float(np.divide(abs(row["diff"]), error))
        rows.append(row | {"p": _range_tail(q, len(sizes), df)})
    return table(rows)


def games_howell(
    frame: pd.DataFrame,
    *,
    system: str = "system",
    value: str = "value",
    confidence: float = 0.95,
) -> pd.DataFrame:
    """As :func:`tukey_hsd` where the variances may differ; goes with Welch's ANOVA.

    p and interval of a pair of systems that both do not vary are NaN.
    Source: Games and Howell (1976), Journal of Educational Statistics 1.
    """
    check_level("confidence", confidence)
    groups = group_samples(frame, system=system, value=value)
    pairs = list(combinations(range(len(groups.names)), 2))
    share = np.array([sample.var(ddof=1) / len(sample) for sample in groups.samples])
    free = np.array([len(sample) - 1 for sample in groups.samples])
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    total = share[left] + share[right]
    with np.errstate(divide="ignore", invalid="ignore"):
        df = total**2 / (share[left] ** 2 / free[left] + share[right] ** 2 / free[right])
    error = np.sqrt(total / 2)
    half = _range_quantiles(confidence, len(groups.names), df) * error
    rows = []
    for k, (i, j) in enumerate(pairs):
        row = _pair(groups, i, j, float(half[k])) | {"p": float("nan"), "df": float(df[k])}
        if total[k] > 0:
            q = abs(row["diff"]) / error[k]
            row["p"] = _range_tail(float(q), len(groups.names), float(df[k]))
        rows.append(row)
    return table(rows)


def _range_quantiles(level: float, groups: int, df: Floats) -> Floats:
    """Quantiles of the studentized range; many are interpolated in 1 / df, as one alone takes 0.1 s."""
    known = np.isfinite(df)
    ends = (1 / df[known].max(), 1 / df[known].min()) if known.any() else (0.0, 0.0)
    if known.sum() <= _NODES or ends[1] - ends[0] < 1e-12:
        return np.array([_range_quantile(level, groups, float(d)) for d in df])
    angle = np.cos(np.pi * (2 * np.arange(_NODES) + 1) / (2 * _NODES))
    nodes = (ends[0] + ends[1]) / 2 + angle * (ends[1] - ends[0]) / 2
    exact = [_range_quantile(level, groups, float(1 / node)) for node in nodes]
    return np.where(known, scipy.interpolate.BarycentricInterpolator(nodes, exact)(1 / df), np.nan)


@lru_cache(maxsize=1024)  # a plan's tables ask for the same ones again, and each is a double integral
def _range_quantile(level: float, groups: int, df: float) -> float:
    return float(scipy.stats.studentized_range.ppf(level, groups, df))


@lru_cache(maxsize=4096)
def _range_tail(q: float, groups: int, df: float) -> float:
    """The probability of a studentized range above ``q``; NaN for NaN."""
    return float(scipy.stats.studentized_range.sf(q, groups, df))


def _pair(groups: Groups, i: int, j: int, half: float) -> dict[str, Any]:
    diff = float(groups.samples[i].mean() - groups.samples[j].mean())
    row = {"a": groups.names[i], "b": groups.names[j], "diff": diff, "low": diff - half}
    row |= {"high": diff + half, "n_a": len(groups.samples[i]), "n_b": len(groups.samples[j])}
    return row | {"n_missing": groups.missing[i] + groups.missing[j]}


def _counts(groups: Groups) -> dict[str, int]:
    return {"n": sum(map(len, groups.samples)), "n_missing": sum(groups.missing)}
