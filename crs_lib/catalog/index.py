"""Items and their inverted index: vocabulary of concepts, facts per item, items per concept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import fields
from crs_lib.catalog.fields import ALL_FIELDS, YEAR_FIELD
from crs_lib.core.text import fold


@dataclass
class Item:
    """A film after cleaning: one value list per field, display spelling, file order, no doublets."""

    item_id: str
    title: str
    values: dict[str, tuple[str, ...]]
    plot: str = ""
    themes: tuple[str, ...] = ()

    @property
    def year(self) -> int | None:
        """Year of release, or None where the catalogue has none."""
        years = self.values.get(YEAR_FIELD, ())
        return int(years[0]) if years else None


Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Vocabulary:
    """All concepts of a catalogue; a concept's code is its place in these lists."""

    field: tuple[str, ...]
    value: tuple[str, ...]
    code_of: Mapping[str, int]

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        return self.keys[code]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``field=value`` of every code, folded, in the order of the codes."""
        return tuple(self.code_of)

    def __len__(self) -> int:
        return len(self.value)


def vocabulary(items: Sequence[Item]) -> Vocabulary:
    """All concepts of the items: by field in the order of ``ALL_FIELDS``, by folded value within it."""
    names, values = [], []
    for name in ALL_FIELDS:
        distinct = {fold(value): value for value in {v for item in items for v in item.values.get(name, ())}}
        for key in sorted(distinct):
            names.append(name)
            values.append(distinct[key])
    codes = {fields.concept(n, v): i for i, (n, v) in enumerate(zip(names, values, strict=True))}
    return Vocabulary(tuple(names), tuple(values), codes)


def item_facts(items: Sequence[Item], terms: Vocabulary) -> tuple[NDArray[np.int64], Codes]:
    """Concept codes of the items, ascending per item, laid end to end; where each item's begin."""
    places = {
        name: {
            value: code
            for code, (f, value) in enumerate(zip(terms.field, terms.value, strict=True))
            if f == name
        }
        for name in ALL_FIELDS
    }
    starts, facts = np.zeros(len(items) + 1, dtype=np.int64), []
    for i, item in enumerate(items):
        codes = sorted(places[name][value] for name, values in item.values.items() for value in values)
        facts.extend(codes)
        starts[i + 1] = len(facts)
    return starts, np.array(facts, dtype=np.int32)


def invert(starts: NDArray[np.int64], facts: Codes, n_concepts: int) -> tuple[NDArray[np.int64], Codes]:
    """Postings of every concept: items ascending, laid end to end."""
    owner = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    order = np.argsort(facts, kind="stable")
    ends = np.zeros(n_concepts + 1, dtype=np.int64)
    np.cumsum(np.bincount(facts, minlength=n_concepts), out=ends[1:])
    return ends, owner[order]


_DENSE_SHARE, _SMALL = 64, 4096  # when a concept gets a column of booleans: see ItemGroup.among


class Found(NamedTuple):
    """Answer of a query: item indices in order, and the fields that were given up to find any."""

    items: Codes
    dropped: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """True where every constraint holds for every item."""
        return not self.dropped


class ItemGroup:
    """Items that have some concept, ascending, and the test which others are among them."""

    __slots__ = ("_column", "_ended", "_n_items", "items", "size")

    def __init__(self, items: Codes, n_items: int) -> None:
        self.items, self.size, self._n_items = items, len(items), n_items
        self._column: NDArray[np.bool_] | None = None
        self._ended: Codes | None = None

    def among(self, items: Codes) -> Codes:
        """Those of these items that are in the group."""
        column = self._column
        return items[self._hits(items) if column is None else column[items]]

    def without(self, items: Codes) -> Codes:
        """Those of these items that are not in the group."""
        return items[~self._hits(items)]

    def _hits(self, items: Codes) -> NDArray[np.bool_]:
        """Which of these items are in the group.

        By a column of booleans in catalogues of at most 4,096 items and where more than one item of 64 is
        in the group; else by bisection.
        """
        if self._column is not None:
            return self._column[items]
        if self._n_items <= max(_SMALL, self.size * _DENSE_SHARE - 1):
            column = np.zeros(self._n_items, dtype=bool)
            column[self.items] = True
            self._column = column  # only now: another thread takes it as soon as it is there
            return column[items]
        if self._ended is None:  # an end that is no item, where bisection may point
            self._ended = np.append(self.items, np.int32(-1))
        hits: NDArray[np.bool_] = self._ended[self.items.searchsorted(items)] == items
        return hits


class Constraint(NamedTuple):
    """A field and the items that have one of the values asked for; the lowest ``rank`` is given up first."""

    rank: int
    field: str
    group: ItemGroup


def all_of(groups: Sequence[ItemGroup], everything: Codes) -> Codes:
    """The items of all groups, ascending; ``everything`` where there is no group. The smallest goes first."""
    if not groups:
        return everything
    first, *others = sorted(groups, key=_size)
    items = first.items
    for group in others:
        if not len(items):
            break
        items = group.among(items)
    return items


def most_of(constraints: Sequence[Constraint], everything: Codes) -> Found:
    """The items of all constraints but those of the lowest ranks, given up one by one until an item is left.

    Constraints are met from the highest rank down: the first that leaves nothing is the last to be given up.
    """
    order = sorted(constraints, reverse=True)  # no two ranks are equal
    items = everything
    for place, constraint in enumerate(order):
        group = constraint.group
        if group.size < len(items):
            met = group.items
            for kept in order[:place]:
                met = kept.group.among(met)
        else:
            met = group.among(items)
        if not len(met):
            return Found(items, tuple([given_up.field for given_up in reversed(order[place:])]))
        items = met
    return Found(items, ())


_size = attrgetter("size")


Wanted = str | int | Sequence[str | int]
Constraints = Mapping[str, Wanted]
Pair = tuple[str, Wanted]
_KEPT, _LONGEST = 4096, 4096  # how many answers, and of how many items at most


class Answers:
    """Keeps the answers of ``search``, which cannot be written to; long answers are searched for anew."""

    def __init__(self, search: Callable[[Constraints, bool], Found]) -> None:
        self._search = search
        self._kept: dict[tuple[object, ...], Found] = {}

    def __call__(self, constraints: Constraints, relax: bool) -> Found:
        key: tuple[object, ...] = (relax, *constraints, *constraints.values())
        try:
            found = self._kept.get(key)
        except TypeError:  # several values: a list has no hash
            key = (relax, *constraints, *map(_hashable, constraints.values()))
            found = self._kept.get(key)
        if found is None:
            found = self._search(constraints, relax)
            found.items.setflags(write=False)
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            if len(found.items) <= _LONGEST:
                self._kept[key] = found
        return found

    def forget(self) -> None:
        """Drop everything that is kept."""
        self._kept.clear()


def _hashable(value: Wanted) -> Wanted:
    """A key for a value or several: whole numbers and their texts are different keys."""
    return value if isinstance(value, str | int) else tuple(value or ())
