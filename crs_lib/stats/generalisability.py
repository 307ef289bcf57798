"""Where scores vary, by facets such as scenario and catalogue, and how many scenarios a precision needs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.frames import Floats, check_columns, levels, numbers, table

Facets = Mapping[str, Sequence[str]]
_JOIN = " × "


def facet_variances(
    frame: pd.DataFrame, facets: Facets, *, system: str = "system", value: str = "value"
) -> pd.DataFrame:
    """The variance components of a balanced design of systems by random facets; a row an effect.

    ``facets`` names the columns beside the system, each with the facets that it is nested in: {"catalogue":
    (), "seed": (), "scenario": ("catalogue", "seed")}. Facets with one level are left out. ``variance`` is at
    least 0 (``estimate`` before that), ``share`` its part of the sum; the last effect holds the error. The
    columns ``n_<facet>`` are the levels of the design, those of a nested facet in one cell.

    Raises InputError unless every cell has one value.
    Source: Brennan (2001), Generalizability Theory, chapters 3 and 7; Cornfield and Tukey (1956), expected
    mean squares.
    """
    check_columns(frame, system, *facets, value)
    used = [name for name in facets if len(levels(frame[name])) > 1]
    nested = {system: frozenset[str](), **{name: frozenset(facets[name]) & set(used) for name in used}}
    names = [system, *used]
    x = _array(frame, names, nested, value)
    sizes = dict(zip(names, x.shape, strict=True))
    effects = sorted(
        {
            frozenset(chosen).union(*(nested[name] for name in chosen))
            for order in range(1, len(names) + 1)
            for chosen in itertools.combinations(names, order)
        },
        key=lambda effect: (len(effect), [names.index(name) for name in sorted(effect, key=names.index)]),
    )
    squares, freedom = _sums(x, names, effects)
    found: dict[frozenset[str], float] = {}
    for effect in reversed(effects):
        rest = sum(
            found[other] * math.prod(sizes[name] for name in names if name not in other)
            for other in found
            if effect < other
        )
        scale = math.prod(sizes[name] for name in names if name not in effect)
        found[effect] = (squares[effect] / freedom[effect] - rest) / scale
    kept = {effect: max(0.0, found[effect]) for effect in effects}
    whole = sum(kept.values())
    rows = [
        {
            "effect": _JOIN.join(name for name in names if name in effect), "df": freedom[effect],
            "estimate": found[effect], "variance": kept[effect],
            "share": kept[effect] / whole if whole > 0 else math.nan,
            **{f"n_{name}": sizes[name] for name in names},
        }
        for effect in effects
    ]  # fmt: skip
    return table(rows)


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
    place = tuple(codes[name] for name in names)
    x[place] = numbers(frame, value)
    if np.isnan(x).any() or len(frame) != x.size:
        raise InputError(
            f"the design is not balanced: {len(frame)} rows for {x.size} cells of "
            f"{' by '.join(f'{n} {name}' for n, name in zip(shape, names, strict=True))}, "
            f"{int(np.isnan(x).sum())} without a value; give every cell one value"
        )
    return x


def _sums(
    x: Floats, names: Sequence[str], effects: Sequence[frozenset[str]]
) -> tuple[dict[frozenset[str], float], dict[frozenset[str], int]]:
    """Sum of squares and degrees of freedom of every effect, lower effects taken out."""
    squares: dict[frozenset[str], float] = {}
    freedom: dict[frozenset[str], int] = {}
    for effect in effects:
        away = tuple(k for k, name in enumerate(names) if name not in effect)
        means = x.mean(axis=away)
        whole = float(((means - x.mean()) ** 2).sum()) * x.size / max(1, means.size)
        lower = [other for other in squares if other < effect]
        squares[effect] = max(0.0, whole - sum(squares[other] for other in lower))
        freedom[effect] = means.size - 1 - sum(freedom[other] for other in lower)
    return squares, freedom


def scenarios_needed(
    components: pd.DataFrame,
    precision: float,
    *,
    system: str = "system",
    scenario: str = "scenario",
    fixed: Sequence[str] = (),
) -> pd.DataFrame:
    """How many scenarios a cell needs for a 95 % interval of ± ``precision`` of a difference; one row.

    ``components`` are those of :func:`facet_variances`; the other facets keep their levels. Facets that are
    ``fixed`` are not generalised over: the statement holds for these catalogues, wordings or seeds.
    ``half_width`` is the present one, 1.96·√(2σ²), σ² the sum of all components of system by facet, each
    over the levels that it is averaged over; ``floor`` is what remains with endless scenarios, ``scenarios``
    missing where that is more than the precision. ``coefficient`` is σ²(system)/(σ²(system) + σ²), in [0, 1].

    Raises InputError for a precision that is not above 0, or components without a scenario.
    Source: Brennan (2001), chapter 4 (decision studies).
    """
    if not precision > 0:
        raise InputError(f"precision={precision}: give the half width of an interval, above 0")
    sizes = {name[2:]: int(components[name].iloc[0]) for name in components if str(name).startswith("n_")}
    if scenario not in sizes:
        raise InputError(f"the components have no facet {scenario!r}; they have {', '.join(sizes)}")
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
    row: dict[str, Any] = {"precision": precision, "fixed": ", ".join(fixed)}
    row |= {"half_width": 1.96 * math.sqrt(2 * now), "floor": 1.96 * math.sqrt(2 * others)}
    row |= {"scenarios": float(max(1, math.ceil(per_scenario / room - 1e-9))) if room > 0 else math.nan}
    cells = math.prod(n for name, n in sizes.items() if name not in (system, scenario))
    row |= {"cells": cells, "sessions": row["scenarios"] * cells}
    return table([row | {"coefficient": own / (own + now) if own + now > 0 else math.nan}])
