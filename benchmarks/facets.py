"""Where scores vary: variance components of systems by random facets, and the scenarios that follow."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Floats, check_columns, levels, numbers

_JOIN = " × "
_SIZE = "n_"  # columns with the levels of a facet

_Effect = frozenset[str]


class _Table(NamedTuple):
    """Values with an axis a facet, the facets' names, and the facets that each is nested in."""

    names: list[str]
    nested: dict[str, _Effect]
    values: Floats

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.names, self.values.shape, strict=True))

    def cells(self, effect: _Effect) -> int:
        """How many levels a combination of facets has."""
        return math.prod(self.sizes[name] for name in effect)

    def effects(self) -> list[_Effect]:
        """Every combination of facets that holds what its members are nested in, smaller ones first."""
        effects = []
        for order in range(1, len(self.names) + 1):
            for names in itertools.combinations(self.names, order):
                effect = frozenset(names)
                if all(self.nested[name] <= effect for name in effect):
                    effects.append(effect)
        return effects

    def label(self, effect: _Effect) -> str:
        return _JOIN.join(name for name in self.names if name in effect)


def facet_variances(frame: pd.DataFrame, facets: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The variance components of a balanced design of systems by random facets.

    Parameters
    ----------
    frame : DataFrame
        A row a cell: ``system``, ``value``, and a column a facet.
    facets : mapping
        Columns with the facets that each is nested in: {"catalogue": (), "seed": (), "scenario":
        ("catalogue", "seed")}; those with one level are left out.

    Returns
    -------
    DataFrame
        A row an effect: ``effect``, ``df``, ``estimate``, ``variance`` (at least 0), ``share`` of the sum,
        ``n_<facet>`` levels. The last effect holds the error.

    Raises
    ------
    InputError
        Unless every cell has one value.

    References
    ----------
    Brennan (2001), Generalizability Theory, 3 and 7; Cornfield and Tukey (1956).
    """
    table = _table(frame, facets)
    effects = table.effects()
    estimates, freedom = _estimates(table, effects)
    whole = sum(max(0.0, estimate) for estimate in estimates.values())
    rows = []
    for effect in effects:
        variance = max(0.0, estimates[effect])
        share = variance / whole if whole > 0 else math.nan
        rows.append((table.label(effect), freedom[effect], estimates[effect], variance, share))
    components = pd.DataFrame(rows, columns=["effect", "df", "estimate", "variance", "share"])
    for name, size in table.sizes.items():
        components[f"{_SIZE}{name}"] = size
    return components


def _table(frame: pd.DataFrame, facets: Mapping[str, Sequence[str]]) -> _Table:
    system, value = USUAL.system, USUAL.value
    check_columns(frame, system, *facets, value)
    used = [name for name in facets if len(levels(frame[name])) > 1]
    nested: dict[str, _Effect] = {system: frozenset()}
    for name in used:
        nested[name] = frozenset(facets[name]) & set(used)
    codes = [_codes(frame, name, sorted(outer)) for name, outer in nested.items()]
    shape = [int(code.max()) + 1 for code in codes]
    x = np.full(shape, np.nan)
    x[tuple(codes)] = numbers(frame, value)
    empty = int(np.isnan(x).sum())
    if empty or len(frame) != x.size:
        cells = " by ".join(f"{n} {name}" for n, name in zip(shape, nested, strict=True))
        counts = f"{len(frame)} rows for {x.size} cells of {cells}, {empty} without a value"
        raise InputError(f"the design is not balanced: {counts}; give every cell one value")
    return _Table(list(nested), nested, x)


def _codes(frame: pd.DataFrame, name: str, outer: list[str]) -> "np.ndarray[tuple[int], np.dtype[np.int_]]":
    """The number of each row's level; those of a nested facet are counted from 0 within their cell."""
    if not outer:
        return np.asarray(pd.Index(levels(frame[name])).get_indexer(frame[name]))
    inside = frame.groupby(outer, sort=False)[name]
    codes = inside.transform(lambda part: pd.factorize(part, sort=True)[0])
    return np.asarray(codes, dtype=np.intp)


def _estimates(table: _Table, effects: Sequence[_Effect]) -> tuple[dict[_Effect, float], dict[_Effect, int]]:
    """The variance of every effect, which may be negative, and its degrees of freedom."""
    x = table.values
    mean: _Effect = frozenset()
    parts = {mean: x.mean(keepdims=True)}
    freedom = {mean: 1}
    for effect in effects:
        away = tuple(axis for axis, name in enumerate(table.names) if name not in effect)
        part = x.mean(axis=away, keepdims=True)
        df = table.cells(effect)
        for other in list(parts):
            if other < effect:
                part = part - parts[other]
                df -= freedom[other]
        parts[effect] = part
        freedom[effect] = df
    estimates: dict[_Effect, float] = {}
    for effect in reversed(effects):
        times = x.size / table.cells(effect)  # values behind each of the effect's levels
        square = float((parts[effect] ** 2).sum()) * times / freedom[effect]
        for other, estimate in estimates.items():
            if effect < other:
                square -= estimate * x.size / table.cells(other)
        estimates[effect] = square / times
    return estimates, freedom


def scenarios_needed(components: pd.DataFrame, precision: float, fixed: Sequence[str] = ()) -> pd.DataFrame:
    """How many scenarios a cell needs for a 95 % interval of ± ``precision`` of a difference; one row.

    Parameters
    ----------
    components : DataFrame
        Of :func:`facet_variances`.
    precision : float
        Half the width wanted, in the unit of the value.
    fixed : sequence of str
        Facets that are not generalised over.

    Returns
    -------
    DataFrame
        ``half_width`` now, 1.96·√(2σ²), σ² the components of system by facet, each over its levels;
        ``floor``: what endless scenarios leave (``scenarios`` missing where above the precision);
        ``coefficient``: σ²(system)/(σ²(system) + σ²), in [0, 1]; ``cells`` and ``sessions`` in all.

    References
    ----------
    Brennan (2001), chapter 4.
    """
    system, scenario = USUAL.system, USUAL.scenario
    sizes = {}
    for name in components:
        if str(name).startswith(_SIZE):
            sizes[str(name).removeprefix(_SIZE)] = int(components[name].iloc[0])
    own = per_scenario = others = 0.0
    for effect, variance in zip(components["effect"], components["variance"], strict=True):
        facets = set(effect.split(_JOIN))
        over = math.prod(sizes[name] for name in facets - {system, scenario})
        if facets == {system}:
            own = float(variance)
        elif system not in facets or facets - {system} <= set(fixed):
            continue
        elif scenario in facets:
            per_scenario += variance / over
        else:
            others += variance / over
    now = per_scenario / sizes[scenario] + others
    room = (precision / 1.96) ** 2 / 2 - others
    needed = float(max(1, math.ceil(per_scenario / room - 1e-9))) if room > 0 else math.nan
    cells = math.prod(size for name, size in sizes.items() if name not in (system, scenario))
    row = {
        "precision": precision,
        "fixed": ", ".join(fixed),
        "half_width": 1.96 * math.sqrt(2 * now),
        "floor": 1.96 * math.sqrt(2 * others),
        "scenarios": needed,
        "cells": cells,
        "sessions": needed * cells,
        "coefficient": own / (own + now) if own + now > 0 else math.nan,
    }
    return pd.DataFrame([row])
