"""Vectors kept by the text they belong to: each text is encoded once, whichever chat or question it is in."""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths

Rows = TypeVar("Rows", bound=np.floating)
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, width INTEGER, rows BLOB) WITHOUT ROWID"
_ASKED = 400


def file_of(encoder: str, folder: Path | None = None) -> Path:
    """The cache of an encoder: ``data/processed/embeddings/<encoder>.sqlite``."""
    return (folder or paths.data() / "processed" / "embeddings") / f"{paths.slug(encoder)}.sqlite"


def key(text: str) -> bytes:
    """16 bytes that the text alone decides."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def lookup(
    path: Path, texts: Sequence[str], make: Callable[[list[str]], list[NDArray[Rows]]], kind: type[Rows]
) -> list[NDArray[Rows]]:
    """The rows of each text, (rows, d) of a ``kind`` of numbers; those not stored are made.

    ``make`` gets each missing text once and its rows are stored in one transaction: a killed run leaves the
    cache as it was. A damaged cache is put aside (``.damaged``) and begun anew.
    """
    try:
        return _lookup(path, texts, make, kind)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked or no space: not damaged
            raise
        path.replace(path.with_suffix(".damaged"))
        return _lookup(path, texts, make, kind)


def _lookup(
    path: Path, texts: Sequence[str], make: Callable[[list[str]], list[NDArray[Rows]]], kind: type[Rows]
) -> list[NDArray[Rows]]:
    wanted = {key(text): text for text in texts}
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=120)) as db:
        db.execute(_SCHEMA)
        known = _stored(db, list(wanted), kind)
        missing = [name for name in wanted if name not in known]
        if missing:
            made = make([wanted[name] for name in missing])
            known |= dict(zip(missing, made, strict=True))
            with db:
                db.executemany(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                    [(n, r.shape[1], np.ascontiguousarray(r, kind).tobytes())
                     for n, r in zip(missing, made, strict=True)],
                )  # fmt: skip
    return [known[key(text)] for text in texts]


def _stored(db: sqlite3.Connection, names: list[bytes], kind: type[Rows]) -> dict[bytes, NDArray[Rows]]:
    found: dict[bytes, NDArray[Rows]] = {}
    for start in range(0, len(names), _ASKED):
        part = names[start : start + _ASKED]
        asked = f"SELECT text, width, rows FROM vectors WHERE text IN ({','.join('?' * len(part))})"
        for name, width, rows in db.execute(asked, part):
            found[name] = np.frombuffer(rows, dtype=kind).reshape(-1, width)
    return found
