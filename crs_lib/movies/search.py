"""Searching the postings: the items that meet every wish, and which wishes to give up to find any."""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.movies.index import Codes

_DENSE_SHARE, _SMALL = 64, 4096  # when a concept gets a column of booleans: see Group.among


class Found(NamedTuple):
    """Answer of a query: item indices in order, and the fields that were given up to find any."""

    items: Codes
    dropped: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """True where every constraint holds for every item."""
        return not self.dropped


class Group:
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


class Wish(NamedTuple):
    """A field and the items that have one of the values wished; of several the lowest ``rank`` goes first."""

    rank: int
    field: str
    group: Group


def all_of(groups: Sequence[Group], everything: Codes) -> Codes:
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


def most_of(wishes: Sequence[Wish], everything: Codes) -> Found:
    """The items of all wishes but those of the lowest ranks, given up one by one until an item is left.

    Wishes are met from the highest rank down: the first that leaves nothing is the last to be given up.
    """
    order = sorted(wishes, reverse=True)  # no two ranks are equal
    items = everything
    for place, wish in enumerate(order):
        group = wish.group
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
