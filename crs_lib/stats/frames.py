"""Tidy frames in: columns checked, missing values counted, scenarios paired."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[Hashable, Hashable]]


class Groups(NamedTuple):
    """Values by system: names in order, one array without missing values each, and how many lacked."""

    names: list[Any]
    samples: list[Floats]
    missing: list[int]


class Paired(NamedTuple):
    """Scenarios by systems: ``values[i, j]`` is scenario i under system j, NaN where missing."""

    systems: list[Any]
    scenarios: list[Any]
    values: Floats


class Difference(NamedTuple):
    """``a - b`` over the scenarios that both have, and the number of scenarios left out."""

    a: Any
    b: Any
    values: Floats
    missing: int


def check_columns(frame: pd.DataFrame, *columns: str) -> None:
    """Raise InputError naming the columns that the frame lacks and those it has."""
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        raise InputError(
            f"no column {', '.join(map(repr, absent))}; the frame has "
            f"{', '.join(map(repr, frame.columns))}; name the right one by its argument"
        )


def check_level(name: str, level: float) -> float:
    """The level itself; raises InputError unless it lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(f"{name}={level!r}: expected a number between 0 and 1, such as 0.95")
    return level


def numbers(frame: pd.DataFrame, column: str) -> Floats:
    """A column as floats with NaN for what is missing; raises InputError for text or infinity."""
    try:
        values = pd.to_numeric(frame[column]).to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {column!r} holds no numbers ({error}); convert it first") from None
    if np.isinf(values).any():
        raise InputError(f"column {column!r} holds an infinite value; make it missing (NaN) or finite")
    return np.asarray(values, dtype=float)


def levels(labels: pd.Series) -> list[Any]:
    """The labels that occur, in category order if categorical, else sorted (as text if mixed)."""
    if labels.isna().any():
        raise InputError(
            f"column {labels.name!r} has {int(labels.isna().sum())} missing labels; "
            "every row needs one: fill or drop those rows"
        )
    present = labels.unique().tolist()
    if isinstance(labels.dtype, pd.CategoricalDtype):
        return [level for level in labels.cat.categories if level in set(present)]
    try:
        return sorted(present)
    except TypeError:
        return sorted(present, key=str)


def group_samples(frame: pd.DataFrame, *, system: str, value: str, least: int = 2, each: int = 2) -> Groups:
    """The values of every system, missing ones left out and counted.

    Raises InputError for fewer than ``least`` systems or a system with fewer than ``each`` values.
    """
    check_columns(frame, system, value)
    names, column, labels = levels(frame[system]), numbers(frame, value), frame[system]
    if len(names) < least:
        raise InputError(f"{len(names)} systems in {system!r}: {names}; at least {least} are needed")
    samples, missing = [], []
    for name in names:
        mine = column[(labels == name).to_numpy()]
        kept = mine[~np.isnan(mine)]
        if len(kept) < each:
            raise InputError(
                f"system {name!r} has {len(kept)} values of {value!r} ({len(mine) - len(kept)} "
                f"missing); at least {each} are needed: leave this system out or add sessions"
            )
        samples.append(kept)
        missing.append(len(mine) - len(kept))
    return Groups(names, samples, missing)


def paired_values(frame: pd.DataFrame, *, system: str, scenario: str, value: str) -> Paired:
    """Scenarios by systems, one value in each cell.

    Raises InputError for fewer than two systems, or for two rows of one system and scenario.
    """
    check_columns(frame, system, scenario, value)
    systems, scenarios = levels(frame[system]), levels(frame[scenario])
    if len(systems) < 2:
        raise InputError(f"{len(systems)} systems in {system!r}: {systems}; at least 2 are needed")
    row = pd.Index(scenarios).get_indexer(frame[scenario])
    column = pd.Index(systems).get_indexer(frame[system])
    cell = row * len(systems) + column
    if len(np.unique(cell)) < len(cell):
        twice = int(np.flatnonzero(np.bincount(cell) > 1)[0])
        who, where = systems[twice % len(systems)], scenarios[twice // len(systems)]
        raise InputError(
            f"more than one row for {system}={who!r}, {scenario}={where!r}; paired statistics need "
            f"one value each: average first with frame.groupby([{system!r}, {scenario!r}])"
        )
    values = np.full((len(scenarios), len(systems)), np.nan)
    values[row, column] = numbers(frame, value)
    return Paired(systems, scenarios, values)


def complete_values(paired: Paired, least: int = 2) -> Floats:
    """The scenarios that every system has; raises InputError if there are fewer than ``least``."""
    kept = paired.values[~np.isnan(paired.values).any(axis=1)]
    if len(kept) < least:
        lacking = np.isnan(paired.values).sum(axis=0)
        worst = paired.systems[int(lacking.argmax())]
        raise InputError(
            f"{len(kept)} of {len(paired.values)} scenarios are complete for all "
            f"{len(paired.systems)} systems, at least {least} are needed; {worst!r} lacks most "
            f"({int(lacking.max())}): leave it out or run its missing scenarios"
        )
    return np.asarray(kept)


def check_pairs(systems: list[Any], pairs: Pairs | None) -> list[tuple[int, int]]:
    """Column numbers of the pairs, all pairs for None; raises InputError for an unknown system."""
    if pairs is None:
        return list(combinations(range(len(systems)), 2))
    for pair in pairs:
        unknown = [name for name in pair if name not in systems]
        if len(pair) != 2 or unknown or pair[0] == pair[1]:
            raise InputError(f"pair {tuple(pair)!r}: expected two different systems of {systems}")
    return [(systems.index(a), systems.index(b)) for a, b in pairs]


def differences(paired: Paired, pairs: Pairs | None, least: int = 2) -> Iterator[Difference]:
    """``a - b`` for every pair, over the scenarios that both systems have.

    Raises InputError when a pair shares fewer than ``least`` scenarios.
    """
    for i, j in check_pairs(paired.systems, pairs):
        a, b = paired.systems[i], paired.systems[j]
        gaps = paired.values[:, i] - paired.values[:, j]
        kept = gaps[~np.isnan(gaps)]
        if len(kept) < least:
            raise InputError(
                f"{a!r} and {b!r} share {len(kept)} scenarios, at least {least} are needed; "
                "run the missing ones or leave the pair out"
            )
        yield Difference(a, b, kept, len(gaps) - len(kept))


def rankable(values: Floats) -> Floats:
    """Values scaled to at most 1 and rounded to 12 decimals: 0.3 - 0.1 ties with 0.2."""
    scale = float(np.max(np.abs(values), initial=0.0))
    return values if scale == 0 else np.round(values / scale, 12)


def table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a frame with a fresh index."""
    return pd.DataFrame(list(rows))
