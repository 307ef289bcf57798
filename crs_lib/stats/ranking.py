"""Who is ahead, and how sure is that: the leaderboard, and which systems tie."""

from collections.abc import Collection
from itertools import combinations
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.design import USUAL, Design, Floats, rankable
from crs_lib.stats.estimates import bootstrap_weights, cost_interval


def leaderboard(
    frame: pd.DataFrame, design: Design = USUAL, *, apart: Collection[frozenset[Any]],
    higher_is_better: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """Systems by mean, best first, over the scenarios of all (unless systems met different users): interval
    of the mean, ``rank_low`` and ``rank_high`` in the design's confidence of the bootstrap draws, ``p_best``
    the share of draws in which a system leads. Two share a letter in ``tied`` unless ``apart`` holds the
    pair. Raises InputError for fewer than 2 systems or complete scenarios. Source: Hall and Miller (2009),
    Ann. Stat. 37 (ranks); Piepho (2004), JCGS 13 (letters).
    """
    if design.independent(frame):
        names, samples, missing = design.groups(frame)
        each = [_drawn(x[:, None], design.resamples, seed) for seed, x in enumerate(samples, design.seed)]
        draws, n, lost = np.hstack(each), min(map(len, samples)), sum(missing)
    else:
        paired = design.paired(frame)
        x = paired.complete()
        names, samples = paired.systems, list(x.T)
        n, lost = len(x), len(paired.values) - len(x)
        draws = _drawn(x, design.resamples, design.seed)
    sign, k = -1.0 if higher_is_better else 1.0, len(samples)
    scores = rankable(sign * np.array([sample.mean() for sample in samples]))
    drawn = scipy.stats.rankdata(np.round(sign * draws, 12), axis=1)
    first = drawn == drawn.min(axis=1, keepdims=True)
    low, high = np.quantile(drawn, [design.alpha / 2, 1 - design.alpha / 2], axis=0, method="inverted_cdf")
    alike = [frozenset(pair) not in apart for pair in combinations(names, 2)]
    order = np.argsort(scores, kind="stable").tolist()
    means = [cost_interval(column, design.confidence)[:3] for column in samples]
    board = pd.DataFrame(means, columns=["mean", "low", "high"]).assign(
        rank=scipy.stats.rankdata(scores), rank_low=low, rank_high=high,
        p_best=(first / first.sum(axis=1, keepdims=True)).mean(axis=0),
        tied=_tied_sets(k, alike, order), n=n, n_missing=lost,
    )  # fmt: skip
    board.insert(0, "system", names)
    return board.iloc[order].reset_index(drop=True)


def _drawn(x: Floats, resamples: int, seed: int) -> Floats:
    """The mean of every column in every bootstrap draw of the rows."""
    return np.vstack([weights @ x / len(x) for weights in bootstrap_weights(len(x), resamples, seed)])


def _tied_sets(k: int, alike: Any, order: list[int]) -> list[str]:
    """Letters of every system: each letter is a largest set of systems no two of which differ."""
    sets = [frozenset(range(k))]
    for (i, j), same in zip(combinations(range(k), 2), alike, strict=True):
        if not same:  # insert: split every set that holds both; absorb: drop what lies in another
            split = [s - {drop} for s in sets if {i, j} <= s for drop in (i, j)]
            sets = [s for s in sets if not {i, j} <= s] + split
            sets = [s for s in dict.fromkeys(sets) if not any(s < other for other in sets)]
    place = {system: position for position, system in enumerate(order)}
    sets.sort(key=lambda s: sorted(place[i] for i in s))
    letters = [ascii_lowercase[n % 26] + ("" if n < 26 else str(n // 26)) for n in range(len(sets))]
    return ["".join(letter for letter, s in zip(letters, sets, strict=True) if i in s) for i in range(k)]
