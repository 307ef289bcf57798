"""How much the scenarios tell: power, detectable effects, and where scores vary by facet."""

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, levels, numbers
from crs_lib.stats.estimates import bootstrap_estimates, cost_sample

_JOIN = " × "
_WILCOXON = 3 / np.pi  # scenarios of a t test that one of Wilcoxon's is worth, for normal differences
_MOST = 100_000  # scenarios
_POWER = ("power_now", "detectable_effect", "sessions_needed", "needed_low", "needed_high")


def smallest_p(n: int, tests: int = 1) -> float:
    """The smallest two-sided p that ``n`` scenarios reach in Wilcoxon's test after Holm over ``tests``."""
    return float(min(1.0, tests * 2.0 ** (1 - n)))


def least_scenarios(tests: int, alpha: float = 0.05) -> int:
    """The fewest scenarios with which the first of ``tests`` can reach ``alpha``: 10 for 15 pairs at .05."""
    return math.ceil(1 + math.log2(tests / alpha))


def contrast_power(
    frame: pd.DataFrame, effect: float, design: Design = USUAL, *, power: float = 0.8, tests: int = 1
) -> pd.DataFrame:
    """Power of every contrast by the deviation of its own paired differences (``sd_difference``); a row a
    pair. ``power_now``: the chance in [0, 1] that a paired Wilcoxon test at the design's alpha / ``tests``
    finds ``effect`` with ``n`` scenarios; ``detectable_effect``: what they find with ``power``;
    ``sessions_needed`` (missing above 100,000) with ``needed_low``, ``needed_high`` for the deviation's
    interval. NaN where too few differ. Source: Cohen (1988), chapter 2; Lehmann (1975), section 2.4 (3/π).
    """
    rows, level = [], design.alpha / tests
    for row, wide in _spreads(frame, design):
        found = dict.fromkeys(_POWER, np.nan)
        if (sd := row["sd_difference"]) > 0:
            spread = bootstrap_estimates(partial(_deviation, wide), len(wide), design, method="percentile")
            low, high = (_least(effect / end, power, level) for end in (spread.low[0], spread.high[0]))
            now, needed = _wilcoxon_power(effect / sd, row["n"], level), _least(effect / sd, power, level)
            detectable = _detectable(row["n"], power, level) * sd
            found = dict(zip(_POWER, (now, detectable, needed, low, high), strict=True))
        rows.append(row | found)
    return pd.DataFrame(rows)


def _deviation(values: Floats, weights: Floats) -> Floats:
    """The standard deviation of the values in every draw."""
    total = weights.sum(axis=1)
    square = (weights @ values**2 - (weights @ values) ** 2 / total) / (total - 1)
    return np.asarray(np.sqrt(np.maximum(square, 1e-12))[:, None])


def reliability(alpha: float, raters: float) -> float:
    """Reliability of the mean of raters, in [0, 1]: Spearman and Brown's formula on alpha; NaN without it."""
    return math.nan if math.isnan(alpha) else max(0.0, raters * alpha / (1 + (raters - 1) * alpha))


def correlation_power(n_items: Sequence[int], reliable: float) -> pd.DataFrame:
    """The smallest correlation that a number of items finds with a power of 0.8 at the level 0.05:
    ``detectable`` as values are (Fisher's z, variance of ranks 1.06), ``true_detectable`` without noise.
    """
    z = scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8)
    n = pd.Series(n_items, dtype=float)
    seen = np.tanh(z * np.sqrt(1.06 / (n - 3).where(n > 3)))
    true = seen / math.sqrt(reliable) if reliable > 0 else seen * math.nan
    frame = pd.DataFrame({"n": n_items, "detectable": seen, "reliability": reliable})
    return frame.assign(true_detectable=true.where(true <= 1))


def contrast_curves(
    frame: pd.DataFrame, effects: Sequence[float], sessions: Sequence[int], design: Design, tests: int = 1
) -> pd.DataFrame:
    """Power in [0, 1] of every contrast by effect and number of scenarios, as :func:`contrast_power`."""
    rows, level = [], design.alpha / tests
    for row, wide in _spreads(frame, design):
        for n, effect in itertools.product(sessions, effects) if len(wide) else ():
            power = _wilcoxon_power(effect / row["sd_difference"], n, level)
            rows.append(row | {"effect": float(effect), "sessions": n, "alpha": level, "power": power})
    return pd.DataFrame(rows)


def _spreads(frame: pd.DataFrame, design: Design) -> Iterator[tuple[dict[str, Any], Floats]]:
    """Every contrast with its common scenarios and the deviation of its differences, and the sample of it."""
    for d in design.differences(frame, least=0):
        wide = cost_sample(d.values)
        sd = float(wide.std(ddof=1)) if len(wide) > 1 else math.nan
        yield {"a": d.a, "b": d.b, "n": len(d.both), "sd_difference": sd}, wide


def _wilcoxon_power(effect: float, n: int, alpha: float) -> float:
    """The power of Wilcoxon's paired test for a standardised effect, by what its scenarios are worth to t."""
    worth = max(n * _WILCOXON, 1.5)
    edge = scipy.stats.t.ppf(1 - alpha / 2, worth - 1)
    shift = effect * worth**0.5
    both = scipy.stats.nct.sf(edge, worth - 1, shift) + scipy.stats.nct.cdf(-edge, worth - 1, shift)
    return float(np.nan_to_num(both, nan=1.0))  # beyond what nct can hold, the power is 1


def _detectable(n: int, power: float, alpha: float) -> float:
    """The standardised effect that ``n`` scenarios find with ``power``; NaN where none is large enough."""
    high = 1.0
    while _wilcoxon_power(high, n, alpha) < power:
        high *= 2
        if high > 1e6:
            return float("nan")
    return float(scipy.optimize.brentq(lambda effect: _wilcoxon_power(effect, n, alpha) - power, 0, high))


def _least(effect: float, power: float, alpha: float) -> float:
    """The fewest scenarios whose power reaches ``power``; NaN above 100,000."""
    if _wilcoxon_power(effect, _MOST, alpha) < power:
        return float("nan")
    enough = range(2, _MOST + 1)
    return float(enough[bisect.bisect_left(enough, power, key=lambda n: _wilcoxon_power(effect, n, alpha))])


def facet_variances(frame: pd.DataFrame, facets: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The variance components of a balanced design of systems by random facets; a row an effect. ``facets``
    names columns with the facets that each is nested in: {"catalogue": (), "seed": (), "scenario":
    ("catalogue", "seed")}; those with one level are left out. ``variance`` is at least 0, ``share`` its part
    of the sum; the last effect holds the error; ``n_<facet>`` are levels. Raises InputError unless every cell
    has one value. Source: Brennan (2001), Generalizability Theory, 3 and 7; Cornfield and Tukey (1956).
    """
    system, value = USUAL.system, USUAL.value
    check_columns(frame, system, *facets, value)
    used = [name for name in facets if len(levels(frame[name])) > 1]
    nested = {system: frozenset[str](), **{name: frozenset(facets[name]) & set(used) for name in used}}
    names = [system, *used]
    x = _array(frame, names, nested, value)
    sizes = dict(zip(names, x.shape, strict=True))
    chosen = [c for order in range(1, len(names) + 1) for c in itertools.combinations(names, order)]
    effects = [frozenset(some) for some in chosen if all(nested[name] <= set(some) for name in some)]
    parts, freedom = {frozenset[str](): x.mean(keepdims=True)}, {frozenset[str](): 1}
    for effect in effects:
        away = tuple(axis for axis, name in enumerate(names) if name not in effect)
        lower = [other for other in parts if other < effect]
        parts[effect] = x.mean(axis=away, keepdims=True) - sum(parts[other] for other in lower)
        freedom[effect] = math.prod(sizes[name] for name in effect) - sum(freedom[other] for other in lower)
    found: dict[frozenset[str], float] = {}
    for effect in reversed(effects):
        over = {other: x.size / math.prod(sizes[name] for name in other) for other in (effect, *found)}
        square = float((parts[effect] ** 2).sum()) * over[effect] / freedom[effect]
        rest = sum(found[other] * over[other] for other in found if effect < other)
        found[effect] = (square - rest) / over[effect]
    whole = sum(max(0.0, estimate) for estimate in found.values())
    rows = [
        {
            "effect": _JOIN.join(name for name in names if name in effect), "df": freedom[effect],
            "estimate": found[effect], "variance": max(0.0, found[effect]),
            "share": max(0.0, found[effect]) / whole if whole > 0 else math.nan,
            **{f"n_{name}": size for name, size in sizes.items()},
        }
        for effect in effects
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _array(frame: pd.DataFrame, names: Sequence[str], nested: Mapping[str, Any], value: str) -> Floats:
    """The values with an axis a facet; levels of a nested facet are counted from 0 within their cell."""
    codes = {}
    for name in names:
        if not nested[name]:
            codes[name] = pd.Index(levels(frame[name])).get_indexer(frame[name])
            continue
        inside = frame.groupby([n for n in names if n in nested[name]], sort=False)[name]
        codes[name] = inside.transform(lambda part: pd.factorize(part, sort=True)[0]).to_numpy(dtype=int)
    shape = [int(codes[name].max()) + 1 for name in names]
    x = np.full(shape, np.nan)
    x[tuple(codes[name] for name in names)] = numbers(frame, value)
    if np.isnan(x).any() or len(frame) != x.size:
        cells = " by ".join(f"{n} {name}" for n, name in zip(shape, names, strict=True))
        told = f"{len(frame)} rows for {x.size} cells of {cells}, {int(np.isnan(x).sum())} without a value"
        raise InputError(f"the design is not balanced: {told}; give every cell one value")
    return x


def scenarios_needed(components: pd.DataFrame, precision: float, fixed: Sequence[str] = ()) -> pd.DataFrame:
    """How many scenarios a cell needs for a 95 % interval of ± ``precision`` of a difference; one row.
    ``components`` are those of :func:`facet_variances`; what is ``fixed`` is not generalised over.
    ``half_width`` is now 1.96·√(2σ²), σ² the components of system by facet, each over its levels; ``floor``
    what endless scenarios leave (``scenarios`` missing where above the precision); ``coefficient`` is
    σ²(system)/(σ²(system) + σ²), in [0, 1]. Source: Brennan (2001), chapter 4.
    """
    system, scenario = USUAL.system, USUAL.scenario
    sizes = {name[2:]: int(components[name].iloc[0]) for name in components if str(name).startswith("n_")}
    own, per_scenario, others = 0.0, 0.0, 0.0
    for effect, variance in zip(components["effect"], components["variance"], strict=True):
        parts = set(effect.split(_JOIN))
        if parts == {system}:
            own = float(variance)
        elif system in parts and not parts - {system} <= set(fixed):
            over = math.prod(sizes[name] for name in parts - {system, scenario})
            if scenario in parts:
                per_scenario += variance / over
            else:
                others += variance / over
    now = per_scenario / sizes[scenario] + others
    room = (precision / 1.96) ** 2 / 2 - others
    needed = float(max(1, math.ceil(per_scenario / room - 1e-9))) if room > 0 else math.nan
    cells = math.prod(n for name, n in sizes.items() if name not in (system, scenario))
    row = {"precision": precision, "fixed": ", ".join(fixed), "half_width": 1.96 * math.sqrt(2 * now)}
    row |= {"floor": 1.96 * math.sqrt(2 * others), "scenarios": needed, "cells": cells}
    row |= {"sessions": needed * cells, "coefficient": own / (own + now) if own + now > 0 else math.nan}
    return pd.DataFrame([row])
