"""Who is ahead, and how sure is that: leaderboard, agreement of rankings, ordered alternatives."""

from collections.abc import Hashable, Sequence
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_level, rankable, table
from crs_lib.stats.estimates import bootstrap_weights, cluster_bootstrap
from crs_lib.stats.groups import adjust
from crs_lib.stats.paired import wilcoxon_pairs

_Alternative = Literal["increasing", "decreasing", "two-sided"]


def leaderboard(
    frame: pd.DataFrame, design: Design = USUAL, *, higher_is_better: bool = True, alpha: float = 0.05
) -> pd.DataFrame:
    """Systems by mean, best first, with the interval of the mean, of the rank, and tied sets.

    Only scenarios that every system has count. ``rank_low`` and ``rank_high`` hold the rank in
    1 - alpha of the bootstrap draws (equal means share the middle rank); ``p_best`` is the share of
    draws in which the system leads, ties shared. Systems that share a letter in ``tied`` are not
    distinguished by the paired test after Holm over all pairs.

    Raises InputError for fewer than 2 systems or 2 complete scenarios.
    Source: Hall and Miller (2009), Ann. Stat. 37 (ranks); Piepho (2004), JCGS 13 (letters).
    """
    check_level("alpha", alpha)
    paired, every = design.paired(frame), design.changed(pairs=None, confidence=1 - alpha)
    x = paired.complete()
    whole = _long(x, paired.systems, every)
    sign = -1.0 if higher_is_better else 1.0
    scores = rankable(sign * x.mean(axis=0))
    ranks = scipy.stats.rankdata(scores)
    draws = np.vstack([w @ x / len(x) for w in bootstrap_weights(len(x), design.resamples, design.seed)])
    drawn = scipy.stats.rankdata(np.round(sign * draws, 12), axis=1)
    first = drawn == drawn.min(axis=1, keepdims=True)
    bounds = np.quantile(drawn, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    tests = adjust(wilcoxon_pairs(whole, every))
    order = np.argsort(scores, kind="stable")
    letters = _tied_sets(len(x[0]), tests["p_adjusted"].to_numpy() > alpha, order.tolist())
    means = cluster_bootstrap(whole, every)
    return table(
        {
            "system": paired.systems[j],
            "mean": float(x[:, j].mean()),
            "low": float(means["low"].iloc[j]),
            "high": float(means["high"].iloc[j]),
            "rank": float(ranks[j]),
            "rank_low": float(bounds[0, j]),
            "rank_high": float(bounds[1, j]),
            "p_best": float((first[:, j] / first.sum(axis=1)).mean()),
            "tied": letters[j],
            "n": len(x),
            "n_missing": len(paired.values) - len(x),
        }
        for j in order.tolist()
    )


def _long(x: Floats, systems: list[Any], design: Design) -> pd.DataFrame:
    n, k = x.shape
    names = pd.Categorical.from_codes(np.tile(np.arange(k), n), categories=systems)
    scenarios = np.repeat(np.arange(n), k)
    return pd.DataFrame({design.system: names, design.scenario: scenarios, design.value: x.ravel()})


def _tied_sets(k: int, alike: Any, order: list[int]) -> list[str]:
    """Letters of every system: each letter is a largest set of systems no two of which differ."""
    sets = [frozenset(range(k))]
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    for (i, j), same in zip(pairs, alike, strict=True):
        if not same:  # insert: split every set that holds both; absorb: drop what lies in another
            split = [s - {drop} for s in sets if {i, j} <= s for drop in (i, j)]
            sets = [s for s in sets if not {i, j} <= s] + split
            sets = [s for s in dict.fromkeys(sets) if not any(s < other for other in sets)]
    place = {system: position for position, system in enumerate(order)}
    sets.sort(key=lambda s: sorted(place[i] for i in s))
    return ["".join(_letter(n) for n, s in enumerate(sets) if i in s) for i in range(k)]


def _letter(n: int) -> str:
    return ascii_lowercase[n % 26] + ("" if n < 26 else str(n // 26))


def mean_ranks(
    frame: pd.DataFrame, design: Design = USUAL, *, higher_is_better: bool = True, alpha: float = 0.05
) -> pd.DataFrame:
    """Mean rank in [1, systems] over complete scenarios, best first, with Nemenyi's critical difference.

    Two systems whose mean ranks differ by less than ``critical_difference`` are indistinguishable: what
    a critical-difference diagram draws. Raises InputError as :func:`friedman`.
    Source: Nemenyi (1963); Demsar (2006), JMLR 7, section 3.2.2.
    """
    check_level("alpha", alpha)
    paired = design.paired(frame)
    x = rankable(paired.complete())
    n, k = x.shape
    ranks = scipy.stats.rankdata(-x if higher_is_better else x, axis=1).mean(axis=0)
    q = float(scipy.stats.studentized_range.ppf(1 - alpha, k, np.inf)) / 2**0.5
    rest = {"critical_difference": q * (k * (k + 1) / (6 * n)) ** 0.5, "n": n}
    rest |= {"n_missing": len(paired.values) - n}
    order = np.argsort(ranks, kind="stable").tolist()
    return table({"system": paired.systems[j], "mean_rank": float(ranks[j]), **rest} for j in order)


def page_trend(frame: pd.DataFrame, order: Sequence[Hashable], design: Design = USUAL) -> pd.DataFrame:
    """Page's L: do the values rise along ``order`` within scenarios? One-sided, one row.

    Exact for small tables without ties, normal otherwise. At least 3 systems; ``order`` names each
    once, lowest first. Raises InputError otherwise or for fewer than 2 complete scenarios.
    Source: Page (1963), JASA 58; the test is scipy's page_trend_test.
    """
    paired = design.paired(_of_systems(frame, order, design))
    columns = _ordered(paired.systems, order, least=3)
    x = rankable(paired.complete())[:, columns]
    fit = scipy.stats.page_trend_test(x)
    found = {"statistic": float(fit.statistic), "p": float(fit.pvalue), "method": str(fit.method)}
    return paired.row(x, test="Page trend", **found)


def jonckheere_trend(
    frame: pd.DataFrame,
    order: Sequence[Hashable],
    design: Design = USUAL,
    *,
    alternative: _Alternative = "increasing",
) -> pd.DataFrame:
    """Jonckheere-Terpstra J: pairs of sessions in ``order`` that rise (ties half), independent samples.

    ``statistic`` lies between 0 and the number of pairs; ``z`` is its normal score with the variance
    corrected for ties, NaN when all values are equal. One row; for paired data use
    :func:`page_trend`. Raises InputError for an ``order`` that does not name systems once each.
    Source: Jonckheere (1954), Biometrika 41; ties: Hollander and Wolfe (1999), section 6.2.
    """
    tails = {"increasing": scipy.stats.norm.sf, "decreasing": scipy.stats.norm.cdf}
    if alternative not in ("increasing", "decreasing", "two-sided"):
        raise InputError(f"alternative {alternative!r} is not known; use {', '.join(tails)} or two-sided")
    groups = design.groups(_of_systems(frame, order, design), each=1)
    samples = [groups.samples[i] for i in _ordered(groups.names, order, least=2)]
    pooled = rankable(np.concatenate(samples))
    size = np.array([len(s) for s in samples])
    ends = np.cumsum(size)
    rising = 0.0
    for i in range(1, len(samples)):
        earlier, mine = np.sort(pooled[: ends[i - 1]]), pooled[ends[i - 1] : ends[i]]
        rising += np.searchsorted(earlier, mine, "left").sum() / 2
        rising += np.searchsorted(earlier, mine, "right").sum() / 2
    ties = np.unique(pooled, return_counts=True)[1]
    n = float(size.sum())
    variance = _tied_variance(n, size.astype(float), ties.astype(float))
    centred = float(rising) - (n**2 - float((size.astype(float) ** 2).sum())) / 4
    z = centred / variance**0.5 if variance > 1e-9 else float("nan")
    p = 2 * scipy.stats.norm.sf(abs(z)) if alternative == "two-sided" else tails[alternative](z)
    return groups.row(test="Jonckheere trend", statistic=float(rising), z=z, p=float(p))


def _tied_variance(n: float, size: Any, ties: Any) -> float:
    def cube(m: Any) -> Any:
        return m * (m - 1) * (2 * m + 5)

    def triple(m: Any) -> Any:
        return (m * (m - 1) * (m - 2)).sum()

    def double(m: Any) -> Any:
        return (m * (m - 1)).sum()

    found = (cube(n) - cube(size).sum() - cube(ties).sum()) / 72
    if n > 2:
        found += triple(size) * triple(ties) / (36 * n * (n - 1) * (n - 2))
    return float(found + double(size) * double(ties) / (8 * n * (n - 1)))


def _of_systems(frame: pd.DataFrame, order: Sequence[Hashable], design: Design) -> pd.DataFrame:
    return frame[frame[design.system].isin(list(order))] if design.system in frame.columns else frame


def _ordered(systems: list[Any], order: Sequence[Hashable], least: int) -> list[int]:
    if len(order) < least or len(set(order)) < len(order) or set(order) - set(systems):
        raise InputError(
            f"order {list(order)}: expected at least {least} different systems of {systems}, lowest first"
        )
    return [systems.index(name) for name in order]
