"""The design of a comparison: its columns, checked and paired, and how it is resampled."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
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

    def row(self, **facts: Any) -> pd.DataFrame:
        """One row of a test of all systems, with the values that it used and those that lacked."""
        return pd.DataFrame([{**facts, "n": sum(map(len, self.samples)), "n_missing": sum(self.missing)}])


class _Paired(NamedTuple):
    """Scenarios by systems: ``values[i, j]`` is scenario i under system j, NaN where missing."""

    systems: list[Any]
    values: Floats

    def complete(self) -> Floats:
        """The scenarios that every system has; raises InputError if there are fewer than two."""
        kept = self.values[~np.isnan(self.values).any(axis=1)]
        if len(kept) < 2:
            lacking = np.isnan(self.values).sum(axis=0)
            worst = self.systems[int(lacking.argmax())]
            told = f"{len(kept)} of {len(self.values)} scenarios are complete for all {lacking.size} systems"
            mend = f"{worst!r} lacks most ({int(lacking.max())}): leave it out or run its missing scenarios"
            raise InputError(f"{told}, at least 2 are needed; {mend}")
        return np.asarray(kept)

    def row(self, x: Floats, **facts: Any) -> pd.DataFrame:
        """One row of a test of the complete scenarios ``x``, which it counts with the incomplete ones."""
        return pd.DataFrame([{**facts, "n": len(x), "n_missing": len(self.values) - len(x)}])


class _Difference(NamedTuple):
    """Two systems in the scenarios that both have (rows), and the number of scenarios left out."""

    a: Any
    b: Any
    both: Floats
    missing: int

    @property
    def values(self) -> Floats:
        """``a - b`` in each scenario."""
        return np.asarray(self.both[:, 0] - self.both[:, 1])

    def row(self, **facts: Any) -> dict[str, Any]:
        """A row about the pair, with the scenarios that it shares and those left out."""
        return {"a": self.a, "b": self.b, **facts, "n": len(self.both), "n_missing": self.missing}


@dataclass(frozen=True)
class Design:
    """The columns of a comparison, the pairs that are compared, and how intervals are made: ``system`` is
    compared, ``scenario`` resampled, ``value`` the number; ``pairs`` are (a, b), "a against b", None for all.
    """

    system: str = "system"
    scenario: str = "scenario"
    value: str = "value"
    pairs: Pairs | None = None
    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            expected = "expected a number between 0 and 1, such as 0.95"
            raise InputError(f"confidence={self.confidence!r}: {expected}")
        if self.resamples < 1:
            raise InputError(f"resamples={self.resamples}: at least 1 is needed, 2000 is usual")

    @property
    def alpha(self) -> float:
        """The level of tests, 1 − confidence."""
        return round(1 - self.confidence, 12)

    def changed(self, **fields: Any) -> "Design":
        """A copy with other fields."""
        return replace(self, **fields)

    def groups(self, frame: pd.DataFrame) -> Groups:
        """The values of every system, missing ones counted; InputError for one system, or too few values."""
        check_columns(frame, self.system, self.value)
        labels, column = frame[self.system], numbers(frame, self.value)
        names = _two_levels(labels)
        every = [column[(labels == name).to_numpy()] for name in names]
        samples = [mine[~np.isnan(mine)] for mine in every]
        missing = [len(mine) - len(kept) for mine, kept in zip(every, samples, strict=True)]
        for name, kept in zip(names, samples, strict=True):
            if len(kept) < 2:
                few = f"system {name!r} has {len(kept)} values of {self.value!r}, at least 2 are needed"
                raise InputError(f"{few}: leave this system out or add sessions")
        return Groups(names, samples, missing)

    def independent(self, frame: pd.DataFrame) -> bool:
        """Whether no two systems share a scenario: each met its own users, and nothing is paired."""
        cells = frame[[self.system, self.scenario]].drop_duplicates()
        return len(cells[self.system].unique()) > 1 and not bool(cells[self.scenario].duplicated().any())

    def paired(self, frame: pd.DataFrame) -> _Paired:
        """Scenarios by systems, one value in each cell; InputError for one system, or two rows of a cell."""
        system, scenario = self.system, self.scenario
        check_columns(frame, system, scenario, self.value)
        systems, scenarios = _two_levels(frame[system]), levels(frame[scenario])
        twice = frame[frame.duplicated([system, scenario]).to_numpy()]
        if len(twice):
            who, where = twice[[system, scenario]].iloc[:1].to_dict("split")["data"][0]
            told = f"more than one row for {system}={who!r}, {scenario}={where!r}"
            mend = f"average first with frame.groupby([{system!r}, {scenario!r}])"
            raise InputError(f"{told}; paired statistics need one value each: {mend}")
        values = np.full((len(scenarios), len(systems)), np.nan)
        row = pd.Index(scenarios).get_indexer(frame[scenario])
        values[row, pd.Index(systems).get_indexer(frame[system])] = numbers(frame, self.value)
        return _Paired(systems, values)

    def differences(self, frame: pd.DataFrame, least: int = 2) -> Iterator[_Difference]:
        """``a - b`` for every pair, over the scenarios of both; InputError for fewer than ``least``."""
        paired = self.paired(frame)
        for i, j in check_pairs(paired.systems, self.pairs):
            a, b = paired.systems[i], paired.systems[j]
            both = paired.values[:, [i, j]]
            kept = both[~np.isnan(both).any(axis=1)]
            if len(kept) < least:
                few = f"{a!r} and {b!r} share {len(kept)} scenarios, at least {least} are needed"
                raise InputError(f"{few}; run the missing ones or leave the pair out")
            yield _Difference(a, b, kept, len(both) - len(kept))


def check_columns(frame: pd.DataFrame, *columns: str) -> None:
    """Raise InputError naming the columns that the frame lacks and those it has."""
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        known = f"the frame has {', '.join(map(repr, frame.columns))}; name the right one by its argument"
        raise InputError(f"no column {', '.join(map(repr, absent))}; {known}")


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
        lack = f"column {labels.name!r} has {int(labels.isna().sum())} missing labels"
        raise InputError(f"{lack}; every row needs one: fill or drop those rows")
    present = labels.unique().tolist()
    if isinstance(labels.dtype, pd.CategoricalDtype):
        return [level for level in labels.cat.categories if level in set(present)]
    try:
        return sorted(present)
    except TypeError:
        return sorted(present, key=str)


def _two_levels(labels: pd.Series) -> list[Any]:
    found = levels(labels)
    if len(found) < 2:
        raise InputError(f"{len(found)} systems in {labels.name!r}: {found}; at least 2 are needed")
    return found


def check_pairs(systems: list[Any], pairs: Pairs | None) -> list[tuple[int, int]]:
    """Column numbers of the pairs, all pairs for None; raises InputError for an unknown system."""
    if pairs is None:
        return list(combinations(range(len(systems)), 2))
    for pair in pairs:
        unknown = [name for name in pair if name not in systems]
        if len(pair) != 2 or unknown or pair[0] == pair[1]:
            raise InputError(f"pair {tuple(pair)!r}: expected two different systems of {systems}")
    return [(systems.index(a), systems.index(b)) for a, b in pairs]


def rankable(values: Floats) -> Floats:
    """Values scaled to at most 1 and rounded to 12 decimals: 0.3 - 0.1 ties with 0.2."""
    scale = float(np.max(np.abs(values), initial=0.0))
    return values if scale == 0 else np.round(values / scale, 12)


USUAL = Design()
