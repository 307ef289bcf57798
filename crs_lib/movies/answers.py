"""The latest answers of a catalogue, kept: in a conversation the same wishes return again and again."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from crs_lib.movies.index import Codes

Constraints = Mapping[str, str | int | Sequence[str | int]]
_KEPT, _LONGEST = 4096, 4096  # how many answers, and of how many items at most


class Found(NamedTuple):
    """Answer of a query: item indices in order, and the fields that were given up to find any."""

    items: Codes
    dropped: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """True where every constraint holds for every item."""
        return not self.dropped


class Answers:
    """Remembers what ``search`` found; answers cannot be written to. Long ones are searched for anew."""

    def __init__(self, search: Callable[[Constraints, bool], Found]) -> None:
        self._search = search
        self._kept: dict[tuple[object, ...], Found] = {}

    def __call__(self, constraints: Constraints, relax: bool) -> Found:
        key = (relax, *((name, _hashable(value)) for name, value in constraints.items()))
        found = self._kept.get(key)
        if found is None:
            found = self._search(constraints, relax)
            found.items.flags.writeable = False
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            if len(found.items) <= _LONGEST:
                self._kept[key] = found
        return found

    def forget(self) -> None:
        """Drop everything that is kept."""
        self._kept.clear()


def _hashable(value: str | int | Sequence[str | int]) -> object:
    """A key for a value or several: whole numbers and their texts are different keys."""
    return value if isinstance(value, str | int) else tuple(value or ())
