"""The design of a comparison: its columns, checked and paired, and how it is resampled."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[Hashable, Hashable]]
Facts = Mapping[str, object]


class Range(NamedTuple):
    """The smallest and the largest value that a quantity can have; without limits by default."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def of_differences(self) -> "Range":
        """The range of a difference of two such quantities."""
        return Range(self.low - self.high, self.high - self.low)

    @property
    def finite(self) -> bool:
        """Whether both ends are."""
        return math.isfinite(self.high - self.low)


ANY = Range()
SHARE = Range(0.0, 1.0)
GAIN = Range(-1.0, 1.0)
COST = GAIN.of_differences


class Groups(NamedTuple):
    """Values by system: names in order, one array without missing values each, and how many lacked."""

    names: list[Any]
    samples: list[Floats]
    missing: list[int]

    def row(self, **facts: object) -> pd.DataFrame:
        """One row of a test of all systems, with the values that it used and those that lacked."""
        n = sum(len(sample) for sample in self.samples)
        return pd.DataFrame([{**facts, "n": n, "n_missing": sum(self.missing)}])


class Paired(NamedTuple):
    """Scenarios by systems: ``values[i, j]`` is scenario i under system j, NaN where missing."""

    systems: list[Any]
    values: Floats

    def complete(self) -> Floats:
        """The scenarios that every system has; raises InputError if there are fewer than two."""
        missing = np.isnan(self.values)
        complete = self.values[~missing.any(axis=1)]
        if len(complete) < 2:
            lacking = missing.sum(axis=0)
            worst = self.systems[int(lacking.argmax())]
            counts = (
                f"{len(complete)} of {len(self.values)} scenarios are complete for all {lacking.size} systems"
            )
            mend = f"{worst!r} lacks most ({lacking.max()}): leave it out or run its missing scenarios"
            raise InputError(f"{counts}, at least 2 are needed; {mend}")
        return complete

    def columns(self, pairs: Pairs | None) -> list[tuple[int, int]]:
        """Column numbers of the pairs, all pairs for None; raises InputError for an unknown system."""
        return check_pairs(self.systems, pairs)

    def row(self, complete: Floats, **facts: object) -> pd.DataFrame:
        """One row of a test of the complete scenarios, which it counts with the incomplete ones."""
        n = len(complete)
        return pd.DataFrame([{**facts, "n": n, "n_missing": len(self.values) - n}])


class Difference(NamedTuple):
    """Two systems in the scenarios that both have (rows), and the number of scenarios left out."""

    a: Any
    b: Any
    both: Floats
    missing: int

    @property
    def values(self) -> Floats:
        """``a - b`` in each scenario."""
        return np.asarray(self.both[:, 0] - self.both[:, 1])


@dataclass(frozen=True)
class Design:
    """The columns of a comparison, the pairs that are compared, and how intervals are made.

    Parameters
    ----------
    system, scenario, value : str
        The columns: what is compared, what is resampled (all systems meet the same scenarios), the number.
    pairs : sequence of (a, b), optional
        The pairs that are compared, "a against b"; all without it.
    confidence : float
        Of intervals, between 0 and 1.
    resamples : int
        Draws of a bootstrap.
    seed : int
        Of whatever is drawn.
    limits : Range
        The range of a value, which no interval leaves.

    Raises
    ------
    InputError
        For a confidence outside (0, 1) or fewer than one draw.
    """

    system: str = "system"
    scenario: str = "scenario"
    value: str = "value"
    pairs: Pairs | None = None
    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0
    limits: Range = ANY

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

    @property
    def upper(self) -> float:
        """The upper quantile of an interval, (1 + confidence) / 2."""
        return (1 + self.confidence) / 2

    def changed(self, **fields: Any) -> "Design":
        """A copy with other fields."""
        return replace(self, **fields)

    def groups(self, frame: pd.DataFrame) -> Groups:
        """The values of every system, missing ones counted; InputError for one system, or too few values."""
        check_columns(frame, self.system, self.value)
        labels = frame[self.system]
        column = numbers(frame, self.value)
        groups = Groups(_two_levels(labels), [], [])
        for name in groups.names:
            values = column[(labels == name).to_numpy()]
            sample = values[~np.isnan(values)]
            if len(sample) < 2:
                few = f"system {name!r} has {len(sample)} values of {self.value!r}, at least 2 are needed"
                raise InputError(f"{few}: leave this system out or add sessions")
            groups.samples.append(sample)
            groups.missing.append(len(values) - len(sample))
        return groups

    def independent(self, frame: pd.DataFrame) -> bool:
        """Whether no two systems share a scenario: each met its own users, and nothing is paired."""
        cells = frame[[self.system, self.scenario]].drop_duplicates()
        shared = bool(cells[self.scenario].duplicated().any())
        return len(cells[self.system].unique()) > 1 and not shared

    def paired(self, frame: pd.DataFrame) -> Paired:
        """Scenarios by systems, one value in each cell; InputError for one system, or two rows of a cell."""
        check_columns(frame, self.system, self.scenario, self.value)
        systems = _two_levels(frame[self.system])
        scenarios = levels(frame[self.scenario])
        self._check_single(frame)
        values = np.full((len(scenarios), len(systems)), np.nan)
        row = pd.Index(scenarios).get_indexer(frame[self.scenario])
        column = pd.Index(systems).get_indexer(frame[self.system])
        values[row, column] = numbers(frame, self.value)
        return Paired(systems, values)

    def _check_single(self, frame: pd.DataFrame) -> None:
        keys = [self.system, self.scenario]
        repeated = frame.loc[frame.duplicated(keys).to_numpy(), keys]
        if len(repeated):
            system, scenario = repeated.iloc[:1].to_dict("split")["data"][0]
            cell = f"more than one row for {self.system}={system!r}, {self.scenario}={scenario!r}"
            mend = f"average first with frame.groupby({keys!r})"
            raise InputError(f"{cell}; paired statistics need one value each: {mend}")

    def differences(self, frame: pd.DataFrame, least: int = 2) -> Iterator[Difference]:
        """``a - b`` for every pair, over the scenarios of both; InputError for fewer than ``least``."""
        paired = self.paired(frame)
        for i, j in paired.columns(self.pairs):
            a, b = paired.systems[i], paired.systems[j]
            values = paired.values[:, [i, j]]
            both = values[~np.isnan(values).any(axis=1)]
            if len(both) < least:
                few = f"{a!r} and {b!r} share {len(both)} scenarios, at least {least} are needed"
                raise InputError(f"{few}; run the missing ones or leave the pair out")
            yield Difference(a, b, both, len(values) - len(both))

    def pair_table(self, frame: pd.DataFrame, test: Callable[[Difference], Facts]) -> pd.DataFrame:
        """A row a pair: the two systems, what the test says of their difference, the scenarios it used."""
        rows = []
        for pair in self.differences(frame):
            row = {"a": pair.a, "b": pair.b, **test(pair), "n": len(pair.both), "n_missing": pair.missing}
            rows.append(row)
        return pd.DataFrame(rows)


def check_columns(frame: pd.DataFrame, *columns: str) -> None:
    """Raise InputError naming the columns that the frame lacks and those it has."""
    absent = [repr(column) for column in columns if column not in frame.columns]
    if absent:
        present = ", ".join(map(repr, frame.columns))
        raise InputError(
            f"no column {', '.join(absent)}; the frame has {present}; name the right one by its argument"
        )


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
        lack = f"column {labels.name!r} has {labels.isna().sum()} missing labels"
        raise InputError(f"{lack}; every row needs one: fill or drop those rows")
    present = labels.unique().tolist()
    if isinstance(labels.dtype, pd.CategoricalDtype):
        return [level for level in labels.cat.categories if level in set(present)]
    try:
        return sorted(present)
    except TypeError:
        return sorted(present, key=str)


def _two_levels(labels: pd.Series) -> list[Any]:
    systems = levels(labels)
    if len(systems) < 2:
        raise InputError(f"{len(systems)} systems in {labels.name!r}: {systems}; at least 2 are needed")
    return systems


def check_pairs(systems: list[Any], pairs: Pairs | None) -> list[tuple[int, int]]:
    """Column numbers of the pairs, all pairs for None; raises InputError for an unknown system."""
    if pairs is None:
        return list(combinations(range(len(systems)), 2))
    columns = []
    for pair in pairs:
        unknown = [name for name in pair if name not in systems]
        if len(pair) != 2 or unknown or pair[0] == pair[1]:
            raise InputError(f"pair {tuple(pair)!r}: expected two different systems of {systems}")
        columns.append((systems.index(pair[0]), systems.index(pair[1])))
    return columns


def rankable(values: Floats) -> Floats:
    """Values scaled to at most 1 and rounded to 12 decimals: 0.3 - 0.1 ties with 0.2."""
    scale = float(np.max(np.abs(values), initial=0.0))
    return values if scale == 0 else np.round(values / scale, 12)


USUAL = Design()
