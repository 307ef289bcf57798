"""Document ids on disk, in order: each is read when somebody asks for it, so that millions open at once."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from crs_lib.core.errors import RunError

_TEXTS, _STARTS, _CODES, _ROWS = "ids.bin", "ids.starts.npy", "ids.codes.npy", "ids.rows.npy"


def code_of(name: str) -> int:
    """64 bits of a name's digest; two names may share one, so that a hit is compared in full."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def save_ids(folder: Path, ids: Sequence[str]) -> None:
    """Write ids as UTF-8 with their starts, and their codes in order with the row of each."""
    texts = [name.encode() for name in ids]
    codes = np.array([code_of(name) for name in ids], dtype=np.uint64)
    rows = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]).astype(np.int64)
    (folder / _TEXTS).write_bytes(b"".join(texts))
    for name, array in ((_STARTS, starts), (_CODES, codes[rows]), (_ROWS, rows)):
        np.save(folder / name, array, allow_pickle=False)


class StoredIds(Sequence[str]):
    """The ids that :func:`save_ids` wrote, memory-mapped; ``row`` finds the place of an id."""

    def __init__(self, folder: Path) -> None:
        """Raises RunError where the files are missing or do not fit together."""
        try:
            self._starts, self._codes, self._rows = (
                np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in (_STARTS, _CODES, _ROWS)
            )
            size = (folder / _TEXTS).stat().st_size
            self._texts: Any = np.memmap(folder / _TEXTS, np.uint8, "r") if size else np.zeros(0, np.uint8)
        except (OSError, ValueError, EOFError) as error:
            raise RunError(
                f"the ids of the index in {folder.name!r} cannot be read ({error}); build it again"
            ) from error
        if size != int(self._starts[-1]) or not len(self) == len(self._codes) == len(self._rows):
            raise RunError(f"the index in {folder.name!r} is damaged: its ids do not fit; build it again")

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(at)
        start, end = self._starts[place : place + 2].tolist()
        return bytes(self._texts[start:end]).decode()

    def __iter__(self) -> Iterator[str]:
        texts = bytes(self._texts)
        return (texts[start:end].decode() for start, end in pairwise(self._starts.tolist()))

    def row(self, name: str) -> int | None:
        """The place of an id, counted from 0; null where the index does not hold it."""
        code = np.uint64(code_of(name))
        low, high = (int(np.searchsorted(self._codes, code, side)) for side in ("left", "right"))
        return next((row for row in self._rows[low:high].tolist() if self[row] == name), None)
