"""Independent groups: the thesis's own table (one-way ANOVA with Tukey), what it assumes, and corrections.

The same users meet every system, so these ignore the pairing; :mod:`crs_lib.stats.paired` uses it.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, Groups, check_columns, check_level, numbers, table
from crs_lib.stats.paired import sphericity_epsilons

_NODES = 9


def one_way_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way analysis of variance, one row with the sums of squares.

    NaN when no value varies at all, infinite when values differ between systems only.
    Raises InputError for fewer than 2 systems or a system with fewer than 2 values.
    Source: Fisher (1925), Statistical Methods for Research Workers.
    """
    groups = design.groups(frame)
    pooled = np.concatenate(groups.samples)
    within = sum(float(((s - s.mean()) ** 2).sum()) for s in groups.samples)
    between = sum(len(s) * float((s.mean() - pooled.mean()) ** 2) for s in groups.samples)
    noise = 1e-28 * float((pooled**2).sum())
    within, between = (0.0 if ss <= noise else ss for ss in (within, between))
    df1, df2 = len(groups.names) - 1, len(pooled) - len(groups.names)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(between / df1, within / df2))
    p = float(scipy.stats.f.sf(ratio, df1, df2))
    found = {"statistic": ratio, "df1": df1, "df2": float(df2), "p": p}
    return groups.row(test="one-way ANOVA", **found, ss_between=between, ss_within=within)


def welch_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of Welch's analysis of variance, which lets the variances differ; one row.

    NaN when a system does not vary. Raises InputError as :func:`one_way_anova`.
    Source: Welch (1951), Biometrika 38.
    """
    groups = design.groups(frame)
    row: dict[str, Any] = {"test": "Welch ANOVA", "statistic": np.nan, "df1": len(groups.names) - 1}
    row |= {"df2": np.nan, "p": np.nan}
    if all(np.ptp(sample) > 0 for sample in groups.samples):
        from statsmodels.stats.oneway import anova_oneway

        fit = anova_oneway(groups.samples, use_var="unequal", welch_correction=True)
        row |= {"statistic": float(fit.statistic), "df2": float(fit.df_denom)}
        row |= {"p": float(fit.pvalue)}
    return groups.row(**row)


def tukey_hsd(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` of every pair with simultaneous interval; p holds for the family.

    Raises InputError as :func:`one_way_anova`.
    Source: Tukey (1953), Kramer (1956) for unequal sizes.
    """
    groups = design.groups(frame)
    sizes = np.array([len(sample) for sample in groups.samples])
    df = int(sizes.sum()) - len(sizes)
    within = np.sum([sample.var(ddof=1) * (len(sample) - 1) for sample in groups.samples]) / df
    quantile = _range_quantile(design.confidence, len(sizes), df)
    rows = []
    for i, j in combinations(range(len(sizes)), 2):
        error = float(np.sqrt((1 / sizes[i] + 1 / sizes[j]) * within / 2))
        row = _pair(groups, i, j, quantile * error)
        with np.errstate(divide="ignore", invalid="ignore"):
            q = float(np.divide(abs(row["diff"]), error))
        rows.append(row | {"p": _range_tail(q, len(sizes), df)})
    return table(rows)


def games_howell(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """As :func:`tukey_hsd` where the variances may differ; goes with Welch's ANOVA.

    p and interval of a pair of systems that both do not vary are NaN.
    Source: Games and Howell (1976), Journal of Educational Statistics 1.
    """
    groups = design.groups(frame)
    pairs = list(combinations(range(len(groups.names)), 2))
    share = np.array([sample.var(ddof=1) / len(sample) for sample in groups.samples])
    free = np.array([len(sample) - 1 for sample in groups.samples])
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    total = share[left] + share[right]
    with np.errstate(divide="ignore", invalid="ignore"):
        df = total**2 / (share[left] ** 2 / free[left] + share[right] ** 2 / free[right])
    error = np.sqrt(total / 2)
    half = _range_quantiles(design.confidence, len(groups.names), df) * error
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


def holm(p: Sequence[float] | Floats) -> Floats:
    """Holm's adjusted p values in [0, 1], in the order given; NaN stays NaN and does not count.

    Rejecting where they are at most alpha keeps the chance of any false rejection at alpha.
    Source: Holm (1979), Scand. J. Stat. 6.
    """
    return _adjusted(p, "holm")


def adjust(
    frame: pd.DataFrame, *, p: str = "p", family: str | None = None, method: str = "holm"
) -> pd.DataFrame:
    """The frame with ``p_adjusted`` and ``family_size`` beside ``p``, row order kept.

    ``family`` names the column that tells the families apart (None: one family). Tests without a p
    (NaN) are no members. Raises InputError for an unknown method or column or a p outside [0, 1].
    """
    check_columns(frame, *([p] if family is None else [p, family]))
    raw = numbers(frame, p)
    code = np.zeros(len(raw), dtype=np.intp)
    if family is not None:
        code = np.asarray(pd.factorize(frame[family], use_na_sentinel=False)[0], dtype=np.intp)
    adjusted, size = np.full(len(raw), np.nan), np.zeros(len(raw), dtype=int)
    for k in np.unique(code):
        mine = code == k
        adjusted[mine] = _adjusted(raw[mine], method)
        size[mine] = int((~np.isnan(raw[mine])).sum())
    return frame.assign(p_adjusted=adjusted, family_size=size)


def _adjusted(p: Sequence[float] | Floats, method: str) -> Floats:
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; use one of {', '.join(METHODS)}")
    raw = np.asarray(p, dtype=float)
    known = ~np.isnan(raw)
    if ((raw[known] < 0) | (raw[known] > 1)).any():
        raise InputError(f"p values outside [0, 1]: {raw[known][(raw[known] < 0) | (raw[known] > 1)]}")
    adjusted = np.full(len(raw), np.nan)
    if known.any():
        adjusted[known] = METHODS[method](raw[known])
    return adjusted


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


def levene(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Levene's W >= 0 around medians (Brown-Forsythe): do the systems vary alike? One row.

    NaN when no system varies. Raises InputError for fewer than 2 systems or values.
    Source: Brown and Forsythe (1974), JASA 69; the test is scipy's levene.
    """
    groups = design.groups(frame)
    w = p = float("nan")
    if any(np.ptp(sample) > 0 for sample in groups.samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            w, p = (float(x) for x in scipy.stats.levene(*groups.samples, center="median"))
    return groups.row(check="equal variances", test="Levene", statistic=w, p=p)


def normality(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Are the residuals (scenario and system effects taken out) normal? Over complete scenarios, one row.

    Shapiro-Wilk's W in (0, 1] up to 5000 residuals, D'Agostino and Pearson's K2 >= 0 beyond, with
    ``skew`` and excess ``kurtosis``, which tell more than p when there are many. NaN when nothing
    varies. Raises InputError as :func:`rm_anova`.
    Source: Shapiro and Wilk (1965), Biometrika 52; D'Agostino and Pearson (1973), Biometrika 60.
    """
    paired = design.paired(frame)
    x = paired.complete()
    residual = (x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()).ravel()
    test = "Shapiro-Wilk" if len(residual) <= 5000 else "D'Agostino-Pearson"
    row: dict[str, Any] = {"check": "normal residuals", "test": test, "statistic": np.nan}
    row |= {"p": np.nan, "skew": np.nan, "kurtosis": np.nan}
    if np.ptp(residual) > 1e-12 * np.abs(x).max():
        run = scipy.stats.shapiro if len(residual) <= 5000 else scipy.stats.normaltest
        statistic, p = run(residual)
        row |= {"statistic": float(statistic), "p": float(p), "skew": float(scipy.stats.skew(residual))}
        row |= {"kurtosis": float(scipy.stats.kurtosis(residual))}
    return paired.row(x, **row)


def mauchly(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mauchly's W in [0, 1]: do all differences between systems vary alike (sphericity)? One row.

    Two systems are spherical by definition (W 1, p 1). NaN with fewer complete scenarios than
    systems, or differences that do not vary. Raises InputError as :func:`rm_anova`.
    Source: Mauchly (1940), Ann. Math. Stat. 11.
    """
    paired = design.paired(frame)
    x = paired.complete()
    w, chi2, df, p = _mauchly(x)
    found = {"statistic": w, "chi2": chi2, "df": df, "p": p, "epsilon_gg": sphericity_epsilons(x)[0]}
    return paired.row(x, check="sphericity", test="Mauchly", **found)


def _mauchly(x: Floats) -> tuple[float, float, int, float]:
    n, k = x.shape
    df = k * (k - 1) // 2 - 1
    if k == 2:
        return 1.0, 0.0, 0, 1.0
    contrasts = np.linalg.qr(np.vander(np.arange(k), k, increasing=True).astype(float))[0][:, 1:]
    values = np.linalg.eigvalsh(np.cov(x @ contrasts, rowvar=False))
    if n < k or values.min() <= 1e-13 * values.max():
        return float("nan"), float("nan"), df, float("nan")
    m = k - 1
    w = float(np.exp(np.log(values).sum() - m * np.log(values.mean())))
    shrink = 1 - (2 * m**2 + m + 2) / (6 * m * (n - 1))
    chi2 = -shrink * (n - 1) * float(np.log(w))
    second = (m + 2) * (m - 1) * (m - 2) * (2 * m**3 + 6 * m**2 + 3 * m + 2)
    second /= 288 * (m * (n - 1) * shrink) ** 2
    tail, further = float(scipy.stats.chi2.sf(chi2, df)), float(scipy.stats.chi2.sf(chi2, df + 4))
    return w, chi2, df, min(1.0, max(0.0, tail + second * (further - tail)))


def assumptions(frame: pd.DataFrame, design: Design = USUAL, *, alpha: float = 0.05) -> pd.DataFrame:
    """The three checks of the classical tests with what follows from each in words; three rows.

    ``holds`` is missing where the check could not be made. Raises InputError as :func:`rm_anova`.
    Source: see :func:`levene`, :func:`normality`, :func:`mauchly`.
    """
    check_level("alpha", alpha)
    rows = []
    for check in (make(frame, design).iloc[0] for make in (levene, normality, mauchly)):
        holds = None if np.isnan(check["p"]) else bool(check["p"] >= alpha)
        row = {field: check[field] for field in ("check", "test", "statistic", "p")}
        row |= {"holds": holds, "follows": _follows(check, holds)}
        rows.append(row | {"n": int(check["n"]), "n_missing": int(check["n_missing"])})
    return table(rows)


def _follows(check: Any, holds: bool | None) -> str:
    words = {
        "equal variances": (
            "no sign of unequal variances: one-way ANOVA with Tukey can be read",
            "variances differ: read Welch's ANOVA with Games-Howell in place of one-way ANOVA with Tukey",
        ),
        "normal residuals": (
            "no sign against normal residuals: t intervals can be read",
            "residuals are not normal: read Wilcoxon, the sign-flip test and the bootstrap intervals",
        ),
        "sphericity": (
            "no sign against sphericity: the uncorrected p of the repeated-measures ANOVA can be read",
            "sphericity fails: read the Greenhouse-Geisser p of the repeated-measures ANOVA",
        ),
    }[str(check["check"])]
    if holds is None:
        return f"could not be checked (too little variation or too few scenarios): assume not; {words[1]}"
    return words[0] if holds else words[1]
