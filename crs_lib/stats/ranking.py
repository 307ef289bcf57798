"""Who is ahead, and how sure is that: leaderboard, agreement of rankings, ordered alternatives."""

from collections.abc import Hashable, Sequence
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.bootstrap import cluster_bootstrap
from crs_lib.stats.frames import (
    check_level,
    complete_values,
    group_samples,
    paired_values,
    rankable,
    table,
)
from crs_lib.stats.multiple import adjust
from crs_lib.stats.paired import friedman, sign_flip_pairs, wilcoxon_pairs
from crs_lib.stats.resample import bootstrap_weights

Alternative = Literal["increasing", "decreasing", "two-sided"]


def leaderboard(
    frame: pd.DataFrame,
    *,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    higher_is_better: bool = True,
    test: Literal["wilcoxon", "sign_flip"] = "wilcoxon",
    alpha: float = 0.05,
    resamples: int = 2000,
    seed: int = 0,
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
    if test not in ("wilcoxon", "sign_flip"):
        raise InputError(f"test {test!r} is not known; use 'wilcoxon' or 'sign_flip'")
    paired = paired_values(frame, system=system, scenario=scenario, value=value)
    x = complete_values(paired)
    at: dict[str, Any] = {"system": system, "scenario": scenario, "value": value}
    whole = _long(x, paired.systems, **at)
    sign = -1.0 if higher_is_better else 1.0
    scores = rankable(sign * x.mean(axis=0))
    ranks = scipy.stats.rankdata(scores)
    draws = np.vstack([w @ x / len(x) for w in bootstrap_weights(len(x), resamples, seed)])
    drawn = scipy.stats.rankdata(np.round(sign * draws, 12), axis=1)
    first = drawn == drawn.min(axis=1, keepdims=True)
    bounds = np.quantile(drawn, [alpha / 2, 1 - alpha / 2], axis=0, method="inverted_cdf")
    if test == "wilcoxon":
        tests = adjust(wilcoxon_pairs(whole, **at))
    else:
        tests = adjust(sign_flip_pairs(whole, seed=seed, **at))
    order = np.argsort(scores, kind="stable")
    letters = _tied_sets(len(x[0]), tests["p_adjusted"].to_numpy() > alpha, order.tolist())
    means = cluster_bootstrap(whole, resamples=resamples, confidence=1 - alpha, seed=seed, **at)
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


def _long(x: Any, systems: list[Any], *, system: str, scenario: str, value: str) -> pd.DataFrame:
    n, k = x.shape
    names = pd.Categorical.from_codes(np.tile(np.arange(k), n), categories=systems)
    return pd.DataFrame({system: names, scenario: np.repeat(np.arange(n), k), value: x.ravel()})


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
    frame: pd.DataFrame,
    *,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    higher_is_better: bool = True,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Mean rank in [1, systems] over complete scenarios, best first, with Nemenyi's critical difference.

    Two systems whose mean ranks differ by less than ``critical_difference`` are indistinguishable: what
    a critical-difference diagram draws. Raises InputError as :func:`friedman`.
    Source: Nemenyi (1963); Demsar (2006), JMLR 7, section 3.2.2.
    """
    check_level("alpha", alpha)
    paired = paired_values(frame, system=system, scenario=scenario, value=value)
    x = rankable(complete_values(paired))
    n, k = x.shape
    ranks = scipy.stats.rankdata(-x if higher_is_better else x, axis=1).mean(axis=0)
    q = float(scipy.stats.studentized_range.ppf(1 - alpha, k, np.inf)) / 2**0.5
    rest = {"critical_difference": q * (k * (k + 1) / (6 * n)) ** 0.5, "n": n}
    rest |= {"n_missing": len(paired.values) - n}
    order = np.argsort(ranks, kind="stable").tolist()
    return table({"system": paired.systems[j], "mean_rank": float(ranks[j]), **rest} for j in order)


def kendall_w(
    frame: pd.DataFrame, *, system: str = "system", scenario: str = "scenario", value: str = "value"
) -> pd.DataFrame:
    """Kendall's coefficient of concordance in [0, 1]: do scenarios rank the systems alike? One row.

    Corrected for ties; tested by Friedman's chi-square. NaN and errors as :func:`friedman`.
    Source: Kendall and Babington Smith (1939), Ann. Math. Stat. 10.
    """
    fit = friedman(frame, system=system, scenario=scenario, value=value)
    named = fit.rename(columns={"statistic": "chi2", "df1": "df"})
    return named[["kendall_w", "chi2", "df", "p", "n", "n_missing"]]


def page_trend(
    frame: pd.DataFrame,
    order: Sequence[Hashable],
    *,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
) -> pd.DataFrame:
    """Page's L: do the values rise along ``order`` within scenarios? One-sided, one row.

    Exact for small tables without ties, normal otherwise. At least 3 systems; ``order`` names each
    once, lowest first. Raises InputError otherwise or for fewer than 2 complete scenarios.
    Source: Page (1963), JASA 58; the test is scipy's page_trend_test.
    """
    kept = frame[frame[system].isin(list(order))] if system in frame.columns else frame
    paired = paired_values(kept, system=system, scenario=scenario, value=value)
    columns = _ordered(paired.systems, order, least=3)
    x = rankable(complete_values(paired))[:, columns]
    fit = scipy.stats.page_trend_test(x)
    row = {"test": "Page trend", "statistic": float(fit.statistic), "p": float(fit.pvalue)}
    row |= {"method": str(fit.method), "n": len(x), "n_missing": len(paired.values) - len(x)}
    return table([row])


def jonckheere_trend(
    frame: pd.DataFrame,
    order: Sequence[Hashable],
    *,
    system: str = "system",
    value: str = "value",
    alternative: Alternative = "increasing",
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
    kept = frame[frame[system].isin(list(order))] if system in frame.columns else frame
    groups = group_samples(kept, system=system, value=value, each=1)
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
    row = {"test": "Jonckheere trend", "statistic": float(rising), "z": z, "p": float(p)}
    return table([row | {"n": int(n), "n_missing": sum(groups.missing)}])


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


def _ordered(systems: list[Any], order: Sequence[Hashable], least: int) -> list[int]:
    if len(order) < least or len(set(order)) < len(order) or set(order) - set(systems):
        raise InputError(
            f"order {list(order)}: expected at least {least} different systems of {systems}, lowest first"
        )
    return [systems.index(name) for name in order]
