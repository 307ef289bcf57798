"""What a catalogue keeps of earlier queries: in a conversation the same wishes return again and again."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from crs_lib.movies.search import Found

Wanted = str | int | Sequence[str | int]
Constraints = Mapping[str, Wanted]
Pair = tuple[str, Wanted]
K = TypeVar("K")
V = TypeVar("V")
_KEPT, _LONGEST = 4096, 4096  # how many answers, and of how many items at most
_REMEMBERED = 65_536


class Answers:
    """Remembers what ``search`` found; answers cannot be written to. Long ones are searched for anew."""

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


class Remembered(dict[K, V]):
    """What ``make`` makes of a key, made when first asked for; all of it is dropped once it is much."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        if len(self) >= _REMEMBERED:
            self.clear()
        value = self[key] = self._make(key)
        return value


def _hashable(value: Wanted) -> Wanted:
    """A key for a value or several: whole numbers and their texts are different keys."""
    return value if isinstance(value, str | int) else tuple(value or ())
