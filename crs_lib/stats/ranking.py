"""Who is ahead, and how sure is that: the leaderboard, and which systems tie."""

from collections.abc import Collection, Sequence
from itertools import combinations
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.bootstrap import bootstrap_weights
from crs_lib.stats.bounded import mean_interval
from crs_lib.stats.design import USUAL, Design, Floats, rankable


class _Draws(NamedTuple):
    """The values of every system, and their means in every bootstrap draw."""

    names: list[Any]
    samples: Sequence[Floats]
    means: Floats
    n: int
    missing: int


def leaderboard(
    frame: pd.DataFrame,
    design: Design = USUAL,
    *,
    apart: Collection[frozenset[Any]],
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Systems by mean, best first, over the scenarios of all (unless systems met different users).

    Interval of the mean, ``rank_low`` and ``rank_high`` in the design's confidence of the bootstrap draws,
    ``p_best`` the share of draws in which a system leads. Two share a letter in ``tied`` unless ``apart``
    holds the pair. Raises InputError for fewer than 2 systems or complete scenarios. Source: Hall and Miller
    (2009), Ann. Stat. 37 (ranks); Piepho (2004), JCGS 13 (letters).
    """
    draws = _apart_draws(frame, design) if design.independent(frame) else _paired_draws(frame, design)
    sign = -1.0 if higher_is_better else 1.0
    means = np.array([sample.mean() for sample in draws.samples])
    scores = rankable(sign * means)
    ranks = scipy.stats.rankdata(np.round(sign * draws.means, 12), axis=1)
    first = ranks == ranks.min(axis=1, keepdims=True)
    tails = [design.alpha / 2, 1 - design.alpha / 2]
    low, high = np.quantile(ranks, tails, axis=0, method="inverted_cdf")
    order = np.argsort(scores, kind="stable").tolist()
    differ = [frozenset(pair) in apart for pair in combinations(draws.names, 2)]
    intervals = [mean_interval(sample, design.confidence, design.limits)[:3] for sample in draws.samples]
    board = pd.DataFrame(intervals, columns=["mean", "low", "high"])
    board.insert(0, "system", draws.names)
    board["rank"] = scipy.stats.rankdata(scores)
    board["rank_low"] = low
    board["rank_high"] = high
    board["p_best"] = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    board["tied"] = _letters(differ, order)
    board["n"] = draws.n
    board["n_missing"] = draws.missing
    return board.iloc[order].reset_index(drop=True)


def _apart_draws(frame: pd.DataFrame, design: Design) -> _Draws:
    names, samples, missing = design.groups(frame)
    columns = []
    for number, sample in enumerate(samples):
        columns.append(_drawn_means(sample[:, None], design.resamples, design.seed + number))
    n = min(len(sample) for sample in samples)
    return _Draws(names, samples, np.hstack(columns), n, sum(missing))


def _paired_draws(frame: pd.DataFrame, design: Design) -> _Draws:
    paired = design.paired(frame)
    x = paired.complete()
    means = _drawn_means(x, design.resamples, design.seed)
    return _Draws(paired.systems, list(x.T), means, len(x), len(paired.values) - len(x))


def _drawn_means(x: Floats, resamples: int, seed: int) -> Floats:
    """The mean of every column in every bootstrap draw of the rows."""
    blocks = [weights @ x / len(x) for weights in bootstrap_weights(len(x), resamples, seed)]
    return np.vstack(blocks)


def _letters(differ: Sequence[bool], order: Sequence[int]) -> list[str]:
    """Letters of every system: each letter is a largest set of systems no two of which differ.

    ``differ`` says it of every pair, in the order of :func:`itertools.combinations`.
    """
    sets = [frozenset(order)]
    for (i, j), apart in zip(combinations(range(len(order)), 2), differ, strict=True):
        if apart:
            sets = _split(sets, i, j)
    rank = {system: position for position, system in enumerate(order)}
    sets.sort(key=lambda members: sorted(rank[i] for i in members))
    letters = [""] * len(order)
    for number, members in enumerate(sets):
        letter = ascii_lowercase[number % 26]
        if number >= 26:
            letter += str(number // 26)
        for i in members:
            letters[i] += letter
    return letters


def _split(sets: Sequence[frozenset[int]], i: int, j: int) -> list[frozenset[int]]:
    """Every set that holds both is split in two (insert); a set that lies in another goes (absorb)."""
    parts = []
    for members in sets:
        if not {i, j} <= members:
            parts.append(members)
    for members in sets:
        if {i, j} <= members:
            parts += [members - {i}, members - {j}]
    distinct = list(dict.fromkeys(parts))
    return [members for members in distinct if not any(members < other for other in distinct)]
