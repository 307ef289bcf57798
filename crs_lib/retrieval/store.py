"""Arrays on disk: folders of an index, document ids, and vectors kept by the text they belong to."""

import fcntl
import glob
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.store import DamageError, Store

Rows = TypeVar("Rows", bound=np.floating)
_Arrays = dict[str, NDArray[Any]]
_Facts = Mapping[str, Any]
_HEADER = "index.json"
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, width INTEGER, rows BLOB) WITHOUT ROWID"
_STORED = "SELECT width, rows FROM vectors WHERE text = ?"


@contextmanager
def new_folder(folder: Path, kind: str, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill; it appears under its name, with its header, only when it is whole. A folder of the
    same kind that stands there is replaced; anything else is refused with InputError. What a killed process
    left is removed, what another one fills is not.
    """
    if folder.exists() and not (folder.is_dir() and _kind(folder) == kind):
        raise InputError(f"{folder.name!r} exists and is no index of kind {kind!r}; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*.part"):
        with suppress(OSError), _held(left):
            shutil.rmtree(left)
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    before = aside.with_suffix(".old.part")
    aside.mkdir()
    try:
        with ExitStack() as held:
            with suppress(OSError):  # a file system without locks
                held.enter_context(_held(aside))
            yield aside
            header = json.dumps({"kind": kind, **facts}, indent=1, sort_keys=True)
            (aside / _HEADER).write_text(header + "\n", encoding="utf-8")
            if folder.exists():
                folder.rename(before)
            aside.rename(folder)
    except OSError as error:
        if before.exists() and not folder.exists():
            before.rename(folder)
        raise RunError(f"could not write the index {folder.name!r}: {error.strerror or error}") from error
    finally:
        for rest in (aside, before):
            shutil.rmtree(rest, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Within, a folder is locked, until the process ends; OSError where another one holds it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def save_folder(
    folder: Path, kind: str, facts: _Facts, arrays: _Arrays, texts: _Facts | None = None,
    ids: "Ids | None" = None,
) -> None:  # fmt: skip
    """Write arrays (``name.npy``), texts (``name.json``) and ids as a :func:`new_folder`."""
    with new_folder(folder, kind, facts) as aside:
        for name, array in arrays.items():
            np.save(aside / f"{name}.npy", array, allow_pickle=False)
        for name, text in (texts or {}).items():
            (aside / f"{name}.json").write_text(text, encoding="utf-8")
        if ids is not None:
            save_ids(aside, ids)


def _kind(folder: Path) -> object:
    try:
        return safety.read_object(folder / _HEADER).get("kind")
    except InputError:
        return None


@safety.reader("an index")
def load_arrays(folder: Path, kind: str, names: Sequence[str]) -> tuple[dict[str, Any], _Arrays]:
    """Header and mapped arrays of an index; RunError where it is missing, damaged or of another kind."""
    if _kind(folder) != kind:
        raise RunError(f"no index of kind {kind!r} in {folder.name!r}; build and save it first")
    return safety.read_object(folder / _HEADER), {name: _array(folder, name) for name in names}


def _array(folder: Path, name: str) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        mode: Literal["r"] | None = "r" if path.stat().st_size > 256 else None
        return np.load(path, mmap_mode=mode, allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError, EOFError, RecursionError, MemoryError, SyntaxError) as error:
        told = f"{path.name} of the index {folder.name!r} cannot be read ({error})"
        raise RunError(f"{told}; build it again") from error


def save_ids(folder: Path, ids: Iterable[str]) -> None:
    """Write ids as rows of UTF-8, each as wide as the longest, and their order by name."""
    names = np.array([name.encode() for name in ids] or np.zeros(0, "S1"))
    np.save(folder / "ids.npy", names, allow_pickle=False)
    np.save(folder / "ids.order.npy", np.argsort(names, kind="stable").astype(np.int64), allow_pickle=False)


class StoredIds:
    """The ids that :func:`save_ids` wrote, memory-mapped; ``row`` finds the place of an id."""

    def __init__(self, folder: Path, rows: int | None = None) -> None:
        """Raises RunError where the files are missing or do not fit together, or are not of ``rows`` ids."""
        self._names, self._order = (_array(folder, name) for name in ("ids", "ids.order"))
        if not len(self._names) == len(self._order) == (len(self._order) if rows is None else rows):
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
        place = int(np.searchsorted(self._names, np.bytes_(wanted), sorter=self._order))
        row = int(self._order[place]) if place < len(self) else None
        return row if row is not None and self._names[row] == wanted else None


Ids = Sequence[str] | StoredIds


def vectors(
    path: Path, texts: Sequence[str], make: Callable[[list[str]], list[NDArray[Rows]]], kind: type[Rows]
) -> list[NDArray[Rows]]:
    """The rows of each text, (rows, d) of a ``kind`` of numbers; those not stored are made. ``make`` gets
    each missing text once and its rows are stored in one transaction: a killed run leaves the cache as it
    was. A damaged cache is put aside (``.damaged``) and begun anew.
    """
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16] for text in texts]
    wanted = dict(zip(keys, texts, strict=True))
    with Store(path, _SCHEMA, "vector cache") as cache:
        try:
            found = ((key, *row) for key in wanted for row in cache.do(_STORED, (key,)))
            known = {key: np.frombuffer(rows, kind).reshape(-1, width) for key, width, rows in found}
        except DamageError:
            cache.close()
            path.replace(path.with_suffix(".damaged"))
            known = {}
        if missing := [key for key in wanted if key not in known]:
            made = dict(zip(missing, make([wanted[key] for key in missing]), strict=True))
            rows = [(key, r.shape[1], np.ascontiguousarray(r, kind).tobytes()) for key, r in made.items()]
            cache.many("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            known |= made
    return [known[key] for key in keys]
