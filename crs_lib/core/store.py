"""Tables on disk that survive a killed process and many writers: SQLite in WAL mode, opened here alone.

::

    store = Store(path, "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT)", "call cache")
    store.do("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, reply))
    rows = store.do("SELECT reply FROM replies WHERE key = ?", (key,))
"""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from crs_lib.core import paths
from crs_lib.core.errors import RunError


class DamageError(RunError):
    """A file is no SQLite database, or a damaged one."""


class Store:
    """One SQLite file (not on a network drive), safe for threads and processes; a fork opens its own.

    ``schema`` makes the table where it is missing, ``what`` names the file in errors ("ledger"). It is opened
    at its first use; a ``guarded`` one at once, checked for damage, and a write fails where the file was
    removed or replaced since. Raises RunError where the file cannot be used, DamageError where it is damaged.
    """

    def __init__(self, path: Path, schema: str, what: str, *, guarded: bool = False) -> None:
        self.path = Path(path)
        self._schema = schema
        self._what = what
        self._guarded = guarded
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        if guarded:
            self.do("SELECT 1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._pid == os.getpid() and self._db is not None:
            with self._lock:
                self._db.close()
                self._db = None

    def do(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows that a statement gives; what it changes is stored at once."""
        with self._using() as db:
            return db.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Do a statement for each row in one transaction: all of them or none."""
        with self._using() as db:
            if self._guarded and paths.identity(self.path) != self._opened:
                gone = f"the {self._what} {paths.shown(self.path)} was removed or replaced"
                raise RunError(f"{gone}; put the folder back, or start the same command anew")
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or rolls back
                db.executemany(statement, rows)

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows that a query gives, one at a time, over a connection of its own."""
        with self._sentence(_FAILED), closing(self._open()) as db:
            yield from db.execute(statement, values)

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone; a fork has its own, and its own lock."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._lock = threading.RLock()
            self._db = None
        with self._lock:
            if self._db is None:
                self._db = self._open()
                self._opened = paths.identity(self.path)
            with self._sentence(_FAILED):
                yield self._db

    def _open(self) -> sqlite3.Connection:
        with self._sentence(_UNUSABLE):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=NORMAL")
                if self._guarded:
                    _check(db)
                db.execute(self._schema)
            except sqlite3.DatabaseError:
                db.close()
                raise
        return db

    @contextmanager
    def _sentence(self, remedy: str) -> Iterator[None]:
        """Within, an error of SQLite is one sentence: damage, or a file that is locked, or a full disk."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            file = f"the {self._what} {paths.shown(self.path)}"
            if not isinstance(error, OSError | sqlite3.OperationalError):
                raise DamageError(f"{file} {remedy.format(error)}") from error
            if remedy == _UNUSABLE:
                remedy = _UNOPENED
            raise RunError(f"{file} {remedy.format(error)}") from error


def _check(db: sqlite3.Connection) -> None:
    """DatabaseError for a damaged file."""
    verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


_UNUSABLE = "cannot be used ({}); nothing was changed. Move it away to start afresh or restore it from a copy"
_UNOPENED = (
    "cannot be used ({}); nothing was changed. Free some space, memory or file handles, or give yourself the "
    "right to it, and start the same command again"
)
_FAILED = (
    "failed ({}); what was stored before is safe unless the file is damaged. Free some space, or move a "
    "damaged file away, and start the same command again: it continues"
)


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Lock a folder until the process ends, however it does; RunError (``busy``) where another holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(folder / ".lock", timeout=0, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise RunError(busy) from error
        remedy = "give yourself the right to, free some space, or set CRS_RESULTS to another folder"
        if not isinstance(error, OSError | sqlite3.OperationalError):
            other = "which holds nothing else, was written by something else"
            remedy = f"its file .lock, {other}; remove that file"
        raise RunError(f"{paths.shown(folder)} cannot be written ({error}); {remedy}") from error
    with closing(lock):
        yield
