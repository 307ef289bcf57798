"""Index folders: numpy arrays beside a small JSON header, written whole or not at all."""

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import outside
from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.ids import save_ids

HEADER = "index.json"


@contextmanager
def new_folder(folder: Path, kind: str, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill; it appears under its name, with its header, only when it is whole.

    A folder of the same kind that stands there is replaced; anything else is refused with InputError.
    """
    if folder.exists() and not (folder.is_dir() and _kind(folder) == kind):
        raise InputError(f"{folder.name!r} exists and is no index of kind {kind!r}; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    before = aside.with_suffix(".old.part")
    aside.mkdir()
    try:
        yield aside
        header = json.dumps({"kind": kind, **facts}, indent=1, sort_keys=True)
        (aside / HEADER).write_text(header + "\n", encoding="utf-8")
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


def save_folder(
    folder: Path,
    kind: str,
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    texts: Mapping[str, str] | None = None,
    ids: Sequence[str] | None = None,
) -> None:
    """Write arrays (``name.npy``), texts (``name.json``) and ids as a :func:`new_folder`."""
    with new_folder(folder, kind, facts) as aside:
        for name, array in arrays.items():
            np.save(aside / f"{name}.npy", array, allow_pickle=False)
        for name, text in (texts or {}).items():
            (aside / f"{name}.json").write_text(text, encoding="utf-8")
        if ids is not None:
            save_ids(aside, ids)


def _kind(folder: Path) -> str | None:
    try:
        header = outside.read_json(folder / HEADER)
    except InputError:
        return None
    kind = header.get("kind") if isinstance(header, dict) else None
    return kind if isinstance(kind, str) else None


@outside.reader("an index")
def load_arrays(
    folder: Path, kind: str, names: Sequence[str], *, mapped: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of an index folder; RunError where it is missing, damaged or of another kind."""
    if _kind(folder) != kind:
        raise RunError(f"no index of kind {kind!r} in {folder.name!r}; build and save it first")
    facts = outside.read_object(folder / HEADER)
    arrays = {}
    for name in names:
        path = folder / f"{name}.npy"
        try:
            mode: Literal["r"] | None = "r" if mapped and path.stat().st_size > 256 else None
            arrays[name] = np.load(path, mmap_mode=mode, allow_pickle=False)
        except (OSError, ValueError, EOFError, RecursionError, MemoryError, SyntaxError) as error:
            raise RunError(f"{path.name} of the index {folder.name!r} cannot be read: {error}") from error
    return facts, arrays
