"""Arrays on disk: folders of an index, and the ids of its documents."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.store import locked

_HEADER = "index.json"
_MAPPED_FROM = 256  # bytes; an array without rows cannot be mapped


@contextmanager
def new_folder(folder: Path, kind: str, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill; it appears under its name, with its header, only when it is whole. A folder of the
    kind that stands there, also of an earlier number, is replaced; anything else is refused with InputError.
    What a killed process left is removed; RunError where another process fills the same one.
    """
    if folder.exists() and _without_number(_kind(folder)) != _without_number(kind):
        raise InputError(f"{folder.name!r} exists and is no index of kind {kind!r}; choose another folder")
    aside = folder.with_name(f".{folder.name}.part")
    new = aside / "new"
    before = aside / "before"
    with locked(aside, f"another process writes the index {folder.name!r}; wait for it to end"):
        try:
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(before, ignore_errors=True)
            new.mkdir()
            yield new
            header = json.dumps({"kind": kind, **facts}, indent=1, sort_keys=True)
            (new / _HEADER).write_text(header + "\n", encoding="utf-8")
            if folder.exists():
                folder.rename(before)
            new.rename(folder)
        except OSError as error:
            if before.exists() and not folder.exists():
                before.rename(folder)
            raise RunError(f"could not write the index {folder.name!r}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _without_number(kind: str) -> str:
    return kind.rstrip("0123456789")


def _kind(folder: Path) -> str:
    """The kind of an index, or an empty text where there is none."""
    try:
        return str(safety.read_object(folder / _HEADER).get("kind"))
    except InputError:
        return ""


@safety.reader("an index")
def read_header(folder: Path, kind: str) -> dict[str, Any]:
    """The header of an index; RunError where it is missing, damaged or of another kind."""
    if _kind(folder) != kind:
        raise RunError(f"no index of kind {kind!r} in {folder.name!r}; build it again")
    return safety.read_object(folder / _HEADER)


def mapped(folder: Path, name: str) -> NDArray[Any]:
    """An array of an index (``name.npy``), memory-mapped; RunError where it is missing or damaged."""
    path = folder / f"{name}.npy"
    try:
        small = path.stat().st_size <= _MAPPED_FROM
        array: NDArray[Any] = np.load(path, mmap_mode=None if small else "r", allow_pickle=False)
        return array
    except (OSError, ValueError, EOFError, RecursionError, MemoryError, SyntaxError) as error:
        fault = f"{path.name} of the index {folder.name!r} cannot be read ({error})"
        raise RunError(f"{fault}; build it again") from error


class StoredIds:
    """The ids that :meth:`save` wrote, memory-mapped; ``row`` finds the place of an id."""

    @staticmethod
    def save(folder: Path, ids: Iterable[str]) -> None:
        """Write ids as rows of UTF-8, each as wide as the longest, and their order by name."""
        encoded = [name.encode() for name in ids]
        names = np.array(encoded or np.zeros(0, "S1"))
        order = np.argsort(names, kind="stable").astype(np.int64)
        np.save(folder / "ids.npy", names)
        np.save(folder / "ids.order.npy", order)

    def __init__(self, folder: Path, rows: int) -> None:
        """Raises RunError where the files are missing or do not fit together, or are not of ``rows`` ids."""
        self._names = mapped(folder, "ids")
        self._order = mapped(folder, "ids.order")
        if not len(self._names) == len(self._order) == rows:
            raise RunError(f"the index in {folder.name!r} is damaged: its ids do not fit; build it again")

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, at: int) -> str:
        return bytes(self._names[at]).decode()

    def __iter__(self) -> Iterator[str]:
        return (name.decode() for name in self._names.tolist())

    def row(self, name: str) -> int | None:
        """The place of an id, counted from 0; None where the index does not hold it."""
        wanted = name.encode("utf-8", "replace")
        if len(wanted) > self._names.itemsize:
            return None
        key = np.bytes_(wanted)
        position = int(np.searchsorted(self._names, key, sorter=self._order))
        if position == len(self):
            return None
        row = int(self._order[position])
        return row if self._names[row] == wanted else None


Ids = Sequence[str] | StoredIds
