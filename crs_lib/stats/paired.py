"""Paired tests: every system met the same scenarios, so each scenario is its own control."""

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.rng import stream
from crs_lib.stats.bounded import Means, mean_interval
from crs_lib.stats.design import USUAL, Design, Difference, Facts, Floats, Range, rankable
from crs_lib.stats.estimate import FEWEST

_CELLS = 4_000_000  # random numbers held at once
_NOISE = 1e-28  # sums of squares below this part of the whole are rounding
_COUNTABLE = 60  # scenarios whose sign patterns a 64-bit number can count


def rm_anova(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """F >= 0 of the one-way repeated-measures analysis of variance, over ``n`` complete scenarios; one row.

    ``epsilon_gg`` in [1/(k-1), 1] shrinks both degrees of freedom for ``p_gg``. F is NaN when nothing varies.
    InputError for fewer than 2 systems or complete scenarios. Greenhouse, Geisser (1959), Psychometrika 24.
    """
    paired = design.paired(frame)
    x = paired.complete()
    n, k = x.shape
    effects = x.mean(axis=0) - x.mean()
    ss_system = n * float((effects**2).sum())
    ss_error = float((two_way_residuals(x) ** 2).sum())
    noise = _NOISE * float((x**2).sum())
    if ss_system <= noise:
        ss_system = 0.0
    if ss_error <= noise:
        ss_error = 0.0
    df1 = k - 1
    df2 = float(df1 * (n - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(ss_system / df1, ss_error / df2))
    row: dict[str, object] = {"test": "repeated-measures ANOVA", "statistic": ratio, "df1": df1, "df2": df2}
    row["p"] = float(scipy.stats.f.sf(ratio, df1, df2))
    epsilon = _epsilon(x)
    row["epsilon_gg"] = epsilon
    row["p_gg"] = float(scipy.stats.f.sf(ratio, epsilon * df1, epsilon * df2))
    row["ss_system"] = ss_system
    row["ss_error"] = ss_error
    return paired.row(x, **row)


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
    size = float((x**2).sum()) / n
    if spread <= _NOISE * size**2:
        return math.nan
    return float(np.trace(centred) ** 2 / (k - 1) / spread)


def friedman(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Friedman's test that the systems' ranks within scenarios do not differ; one row.

    Parameters
    ----------
    frame : DataFrame
        A row a system and scenario, with the columns of the design.
    design : Design
        Its columns.

    Returns
    -------
    DataFrame
        ``statistic`` (chi-square >= 0), ``df1``, ``p``, ``kendall_w`` in [0, 1], ``n`` complete scenarios,
        ``n_missing`` others; NaN when every scenario is one tie.

    Raises
    ------
    InputError
        For fewer than 2 systems or complete scenarios.

    References
    ----------
    Friedman (1937), JASA 32; Kendall and Babington Smith (1939), Ann. Math. Stat. 10.
    """
    paired = design.paired(frame)
    x = rankable(paired.complete())
    n, k = x.shape
    ranks = scipy.stats.rankdata(x, axis=1) - (k + 1) / 2
    spread = float((ranks**2).sum())
    chi2 = math.nan
    if spread > 0:
        sums = ranks.sum(axis=0)
        chi2 = (k - 1) * float((sums**2).sum()) / spread
    row: dict[str, object] = {"test": "Friedman", "statistic": chi2, "df1": k - 1, "df2": math.nan}
    row["p"] = float(scipy.stats.chi2.sf(chi2, k - 1))
    row["kendall_w"] = chi2 / n / (k - 1)
    return paired.row(x, **row)


def mean_tests(frame: pd.DataFrame, design: Design = USUAL, *, margin: float = math.nan) -> pd.DataFrame:
    """Whether the mean of ``a - b`` differs from 0, and whether it lies within ±``margin``.

    Parameters
    ----------
    frame : DataFrame
        A row a system and scenario, with the columns of the design.
    design : Design
        Its columns, pairs, confidence and the range of a value.
    margin : float
        The smallest difference that matters.

    Returns
    -------
    DataFrame
        A row a pair: ``a``, ``b``, ``diff``, ``low``, ``high``, ``note`` (why there is no interval), ``p`` of
        a difference (below 1 − confidence where the interval excludes 0), ``p_equivalent``, ``n`` shared
        scenarios, ``n_missing`` others. No p where there are too few scenarios for an interval.

    Raises
    ------
    InputError
        For fewer than 2 shared scenarios.

    References
    ----------
    :class:`crs_lib.stats.bounded.Means`; what it errs: docs/records/error_rates.csv.
    """
    limits = design.limits.of_differences
    return design.pair_table(frame, partial(_mean_test, design=design, limits=limits, margin=margin))


def _mean_test(pair: Difference, design: Design, limits: Range, margin: float) -> Facts:
    gap = mean_interval(pair.values, design.confidence, limits)
    facts = {"diff": gap.value, "low": gap.low, "high": gap.high, "note": gap.reason}
    facts["p"] = facts["p_equivalent"] = math.nan
    if len(pair.values) >= FEWEST:
        means = Means.of(pair.values, limits)
        facts["p"] = float(means.p_differs()[0])
        facts["p_equivalent"] = float(means.p_within(margin)[0])
    return facts


def wilcoxon_pairs(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Wilcoxon's signed-rank test with Pratt's zeros, two-sided.

    Parameters
    ----------
    frame : DataFrame
        A row a system and scenario, with the columns of the design.
    design : Design
        Its columns and pairs.

    Returns
    -------
    DataFrame
        A row a pair: ``a``, ``b``, ``w_plus`` and ``w_minus`` (ranks won and lost by ``a``), ``p`` (exact up
        to 50 scenarios without ties or zeros, 13 with; 1 when all differences are 0), ``n_zero``, ``n``,
        ``n_missing``. Differences tie to 12 digits.

    Raises
    ------
    InputError
        For fewer than 2 shared scenarios.

    References
    ----------
    Wilcoxon (1945), Biometrics Bulletin 1; Pratt (1959), JASA 54.
    """
    return design.pair_table(frame, _signed_ranks)


def _signed_ranks(pair: Difference) -> Facts:
    gaps = rankable(pair.values)
    ranks = scipy.stats.rankdata(np.abs(gaps))
    plus = float(ranks[gaps > 0].sum())
    minus = float(ranks[gaps < 0].sum())
    p = 1.0
    if gaps.any():
        p = float(scipy.stats.wilcoxon(gaps, zero_method="pratt").pvalue)
    return {"w_plus": plus, "w_minus": minus, "p": p, "n_zero": int((gaps == 0).sum())}


def sign_flip_pairs(
    frame: pd.DataFrame, design: Design = USUAL, *, permutations: int = 10_000
) -> pd.DataFrame:
    """Permutation test of the mean difference, two-sided: under no effect ``a`` and ``b`` could swap.

    Parameters
    ----------
    frame : DataFrame
        A row a system and scenario, with the columns of the design.
    design : Design
        Its columns, pairs and seed.
    permutations : int
        All sign patterns where there are at most so many, else so many random ones.

    Returns
    -------
    DataFrame
        A row a pair: ``a``, ``b``, ``diff``, ``p`` (where drawn, (1 + as extreme) / (1 + permutations)),
        ``exact``, ``n``, ``n_missing``.

    Raises
    ------
    InputError
        For fewer than 2 shared scenarios.

    References
    ----------
    Fisher (1935), The Design of Experiments, section 21; Phipson and Smyth (2010), SAGMB 9.
    """
    gaps = _gaps(frame, design)
    n = len(gaps)
    exact = n < _COUNTABLE and 2**n <= permutations
    total = 2**n if exact else permutations
    sums = gaps.sum(axis=0)
    observed = np.abs(sums) - 1e-12 * np.abs(gaps).sum(axis=0)
    extreme = np.zeros(gaps.shape[1], dtype=np.int64)
    rng = stream(design.seed, "stats", "sign-flip")
    step = max(1, _CELLS // n)
    for start in range(0, total, step):
        size = min(step, total - start)
        if exact:
            flips = _all_flips(start, size, n)
        else:
            flips = rng.integers(0, 2, size=(size, n), dtype=np.int8)
        flipped = sums - 2 * (flips.astype(float) @ gaps)
        extreme += (np.abs(flipped) >= observed).sum(axis=0)
    table = design.pair_table(frame, _mean_difference)
    table.insert(3, "p", extreme / total if exact else (extreme + 1) / (total + 1))
    table.insert(4, "exact", exact)
    return table


def _mean_difference(pair: Difference) -> Facts:
    return {"diff": float(pair.values.mean())}


def _gaps(frame: pd.DataFrame, design: Design) -> Floats:
    """``a - b`` by scenario and pair; a scenario that a pair lacks adds 0 whatever its sign."""
    paired = design.paired(frame)
    left, right = np.array(paired.columns(design.pairs)).T
    return np.nan_to_num(paired.values[:, left] - paired.values[:, right])


def _all_flips(start: int, size: int, n: int) -> Any:
    """Sign patterns ``start`` to ``start + size``, as the binary digits of their number."""
    return (np.arange(start, start + size)[:, None] >> np.arange(n)) & 1
