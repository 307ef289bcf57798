"""Replies on disk: the same question to the same weights is asked once, also by several processes."""

import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.core.hashes import fingerprint
from crs_lib.llm.base import Reply, Request

_REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
_KEPT = [f.name for f in fields(Reply) if f.name not in ("cache_hit", "attempts", "tried")]


def key(digest: str, settings: Mapping[str, Any], request: Request) -> str:
    """The address of a reply: weights, backend settings, messages, seed, options, schema, replicate.

    Neither the role nor the session is part of it: equal questions share an answer.
    """
    return fingerprint([digest, dict(settings), request.digest])


def open_wal(path: Path, schema: str, what: str) -> sqlite3.Connection:
    """An SQLite file in WAL mode that several processes may write; RunError where it cannot be used."""
    db: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(schema)
    except (OSError, sqlite3.DatabaseError) as error:
        if db is not None:
            db.close()
        raise RunError(
            f"the {what} {paths.shown(path)} cannot be used ({error}); nothing was changed. "
            "Move it away to start afresh"
        ) from error
    return db


class Cache:
    """Replies by key in one SQLite file (not on a network drive). Errors are never stored.

    The first reply stored under a key stays. Safe for threads and processes; a fork opens its own
    connection.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._pid = 0

    def get(self, address: str) -> Reply | None:
        """The stored reply, marked as a hit, with 0 seconds and attempts; None for none.

        A damaged one is removed.
        """
        rows = self._do("SELECT reply FROM replies WHERE key = ?", (address,))
        if not rows:
            return None
        try:
            given = json.loads(rows[0][0])
            stored = {name: given[name] for name in _KEPT if name in given}
            return _REPLY.validate_python({**stored, "seconds": 0.0, "cache_hit": True, "attempts": 0})
        except (ValueError, TypeError, RecursionError):  # damaged; pydantic's error is a ValueError
            self.drop(address)
            return None

    def drop(self, address: str) -> None:
        """Remove a reply that cannot be used, so that the question is asked again."""
        self._do("DELETE FROM replies WHERE key = ?", (address,))

    def put(self, address: str, reply: Reply) -> None:
        """Store a reply; nothing happens where one is stored already."""
        body = {name: getattr(reply, name) for name in _KEPT}
        self._do("INSERT OR IGNORE INTO replies (key, reply) VALUES (?, ?)", (address, json.dumps(body)))

    def __len__(self) -> int:
        return int(self._do("SELECT count(*) FROM replies", ())[0][0])

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _do(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock:
            if self._db is None or self._pid != os.getpid():
                self._db, self._pid = open_wal(self.path, _TABLE, "call cache"), os.getpid()
            try:
                return self._db.execute(statement, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise RunError(
                    f"the call cache {paths.shown(self.path)} failed ({error}); what it holds is safe if the "
                    "disk is full. Free some space, or move the file away, and start the same command again"
                ) from error


_TABLE = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
