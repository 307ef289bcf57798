"""Concept codes of many texts, laid end to end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.index import Codes


@dataclass(frozen=True)
class Grounded:
    """The concept codes of many texts: text ``i`` has ``codes[starts[i]:starts[i + 1]]``, ascending."""

    starts: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int) -> Codes:
        return self.codes[self.starts[text] : self.starts[text + 1]]

    def take(self, rows: NDArray[np.int64]) -> "Grounded":
        """The texts of these rows, in this order, repetitions included."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        place = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Grounded(starts, self.codes[place])

    def sets(self) -> list[frozenset[int]]:
        """The codes of every text as a set."""
        codes, starts = self.codes.tolist(), self.starts.tolist()
        return [frozenset(codes[a:b]) for a, b in pairwise(starts)]


def joined(parts: Sequence[Grounded]) -> Grounded:
    """Batches end to end."""
    sizes = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(part.starts) for part in parts)])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grounded(starts, np.concatenate([np.zeros(0, dtype=np.int32), *(part.codes for part in parts)]))
