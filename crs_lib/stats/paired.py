"""Paired tests: every system met the same scenarios, so each scenario is its own control."""

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.rng import stream
from crs_lib.stats.design import USUAL, Design, Floats, check_pairs, rankable
from crs_lib.stats.estimates import cost_sample

_CELLS = 4_000_000  # random numbers held at once
_TRY_ALL = 13  # scenarios: with ties or zeros, scipy tries the signs of so many, and is normal beyond


def rm_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way repeated-measures analysis of variance, over ``n`` complete scenarios; one row.
    ``epsilon_gg`` in [1/(k-1), 1] shrinks both degrees of freedom for ``p_gg``. F is NaN when nothing varies.
    InputError for fewer than 2 systems or complete scenarios. Greenhouse, Geisser (1959), Psychometrika 24.
    """
    paired = design.paired(frame)
    x = paired.complete()
    n, k = x.shape
    residual = two_way_residuals(x)
    ss_system = n * float(((x.mean(axis=0) - x.mean()) ** 2).sum())
    ss_error = float((residual**2).sum())
    noise = 1e-28 * float((x**2).sum())
    ss_system, ss_error = (0.0 if ss <= noise else ss for ss in (ss_system, ss_error))
    df1, df2 = k - 1, (k - 1) * (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(ss_system / df1, ss_error / df2))
    gg = _epsilon(x)
    p, p_gg = (float(scipy.stats.f.sf(ratio, e * df1, e * df2)) for e in (1, gg))
    return paired.row(
        x, test="repeated-measures ANOVA", statistic=ratio, df1=df1, df2=float(df2), p=p, epsilon_gg=gg,
        p_gg=p_gg, ss_system=ss_system, ss_error=ss_error,
    )  # fmt: skip


def two_way_residuals(x: Floats) -> Floats:
    """What the means of scenarios (rows) and systems (columns) leave over."""
    return np.asarray(x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean())


def _epsilon(x: Floats) -> float:
    """Greenhouse-Geisser epsilon of scenarios by systems, 1 for two; NaN when differences do not vary."""
    n, k = x.shape
    if k == 2:
        return 1.0
    centred = two_way_residuals(np.cov(x, rowvar=False))
    spread = float((centred**2).sum())
    flat = spread <= 1e-28 * float((x**2).sum()) ** 2 / n**2
    return float("nan") if flat else float(np.trace(centred)) ** 2 / ((k - 1) * spread)


def friedman(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Friedman's chi-square >= 0 over complete scenarios, with Kendall's W in [0, 1]; one row, NaN when every
    scenario is one tie. Raises InputError for fewer than 2 systems or complete scenarios. Source: Friedman
    (1937), JASA 32; Kendall and Babington Smith (1939), Ann. Math. Stat. 10.
    """
    paired = design.paired(frame)
    x = rankable(paired.complete())
    n, k = x.shape
    ranks = scipy.stats.rankdata(x, axis=1) - (k + 1) / 2
    spread = float((ranks**2).sum())
    chi2 = (k - 1) * float((ranks.sum(axis=0) ** 2).sum()) / spread if spread > 0 else np.nan
    p = float(scipy.stats.chi2.sf(chi2, k - 1))
    concordance = chi2 / (n * (k - 1))
    return paired.row(x, test="Friedman", statistic=chi2, df1=k - 1, df2=np.nan, p=p, kendall_w=concordance)


def mean_differences(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mean of ``a - b`` per scenario with its t interval and paired t test, a row a pair; t and p are NaN
    when nothing varies. InputError for fewer than 2 shared scenarios. Source: Student (1908), Biometrika 6.
    """
    rows = []
    for d in design.differences(frame):
        n, mean = len(d.both), float(d.values.mean())
        error = float(d.values.std(ddof=1)) / n**0.5
        t = mean / error if error > 1e-14 * float(np.abs(d.values).max()) else float("nan")
        half = float(scipy.stats.t.ppf((1 + design.confidence) / 2, n - 1)) * error
        p = float(2 * scipy.stats.t.sf(abs(t), n - 1))
        rows.append(d.row(diff=mean, low=mean - half, high=mean + half, t=t, p=p))
    return pd.DataFrame(rows)


def wilcoxon_pairs(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Wilcoxon's signed-rank test with Pratt's zeros, two-sided, a row a pair: ``w_plus`` and ``w_minus`` sum
    the ranks won and lost by ``a``. Exact up to 50 scenarios without ties or zeros (13 with), normal beyond;
    p is 1 when all differences are 0, which tie to 12 digits. Raises InputError for fewer than 2 shared
    scenarios. Source: Wilcoxon (1945), Biometrics Bulletin 1; Pratt (1959), JASA 54.
    """
    rows = []
    for d in design.differences(frame):
        gaps = rankable(d.values)
        ranks = scipy.stats.rankdata(np.abs(gaps))
        plus, minus = (float(ranks[won].sum()) for won in (gaps > 0, gaps < 0))
        p = _wilcoxon(tuple(gaps.tolist())) if gaps.any() else 1.0
        rows.append(d.row(w_plus=plus, w_minus=minus, p=p, n_zero=int((gaps == 0).sum())))
    return pd.DataFrame(rows)


@lru_cache(maxsize=4096)  # several tables of a plan hold the same comparisons
def _wilcoxon(differences: tuple[float, ...]) -> float:
    """``scipy.stats.wilcoxon``'s p; where that tries all signs, by the same test with all of them at once."""
    gaps = np.array(differences)
    if len(gaps) > _TRY_ALL or (len(np.unique(np.abs(gaps))) == len(gaps) and gaps.all()):
        return float(scipy.stats.wilcoxon(gaps, zero_method="pratt").pvalue)
    ranks = scipy.stats.rankdata(np.abs(gaps))

    def won(flipped: Floats, axis: int) -> Any:
        return ((flipped > 0) * ranks).sum(axis)

    every: dict[str, Any] = {"permutation_type": "samples", "n_resamples": np.inf, "vectorized": True}
    return float(scipy.stats.permutation_test((gaps,), won, **every).pvalue)


def sign_flip_pairs(
    frame: pd.DataFrame, design: Design = USUAL, *, permutations: int = 10_000
) -> pd.DataFrame:
    """Permutation test of the mean difference, two-sided: under no effect ``a`` and ``b`` could swap. All
    sign patterns (``exact``) where there are at most ``permutations``, else so many random ones with p = (1 +
    as extreme) / (1 + permutations). Raises InputError for fewer than 2 shared scenarios. Source: Fisher
    (1935), The Design of Experiments, section 21; Phipson and Smyth (2010), SAGMB 9.
    """
    paired, kept = design.paired(frame), list(design.differences(frame))
    columns = check_pairs(paired.systems, design.pairs)
    gaps = np.stack([paired.values[:, i] - paired.values[:, j] for i, j in columns], axis=1)
    gaps = np.nan_to_num(gaps)  # a scenario that a pair lacks adds 0 whatever its sign
    n = len(gaps)
    exact = n < 60 and 2**n <= permutations
    total = 2**n if exact else permutations
    observed = np.abs(gaps.sum(axis=0)) - 1e-12 * np.abs(gaps).sum(axis=0)
    extreme = np.zeros(len(columns), dtype=np.int64)
    rng = stream(design.seed, "stats", "sign-flip")
    for start in range(0, total, max(1, _CELLS // n)):
        size = min(max(1, _CELLS // n), total - start)
        if exact:
            flips = (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
        else:
            flips = rng.integers(0, 2, size=(size, n), dtype=np.int8)
        sums = gaps.sum(axis=0) - 2 * (flips.astype(float) @ gaps)
        extreme += (np.abs(sums) >= observed).sum(axis=0)
    p = extreme / total if exact else (extreme + 1) / (total + 1)
    rows = [d.row(diff=float(d.values.mean()), p=float(q), exact=exact) for d, q in zip(kept, p, strict=True)]
    return pd.DataFrame(rows)


def tost_pairs(frame: pd.DataFrame, margin: float, design: Design = USUAL) -> pd.DataFrame:
    """Paired equivalence test within ±``margin``, a row a pair: the larger ``p`` of two one-sided tests, by
    the spread of :func:`cost_sample` (NaN where there are too few). Raises InputError for fewer than 2 shared
    scenarios. Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15; Lakens (2017), SPPS 8.
    """
    rows = []
    for d in design.differences(frame):
        wide, p = cost_sample(d.values), float("nan")
        mean = float(d.values.mean())
        if len(wide):
            error = wide.std(ddof=1) / len(wide) ** 0.5
            p = float(scipy.stats.t.sf((margin - abs(mean)) / error, len(wide) - 1))
        rows.append(d.row(diff=mean, p=p))
    return pd.DataFrame(rows)
