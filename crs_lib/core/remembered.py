"""A mapping that makes its values when they are first asked for, and keeps a bounded number of them."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST = 65_536


class Remembered(dict[K, V]):
    """``remembered[key]`` is ``make(key)``, computed once; all values are dropped when 65,536 are kept."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        if len(self) >= MOST:
            self.clear()
        value = self[key] = self._make(key)
        return value
