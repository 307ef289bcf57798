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

    ``schema`` makes the table where it is missing, ``what`` is the file's name in error texts ("ledger").
    The file is opened at its first use. A ``guarded`` one is opened and checked for damage at once, and a
    write to it fails where the file was removed or replaced since: what is written then would be lost.

    Raises RunError where the file cannot be opened, read or written, DamageError where it is damaged.
    """

    def __init__(self, path: Path, schema: str, what: str, *, guarded: bool = False) -> None:
        self.path = Path(path)
        self._schema, self._what, self._guarded = schema, what, guarded
        self._locks = (os.getpid(), threading.RLock())
        self._db: sqlite3.Connection | None = None
        self._pid = 0
        self._opened: tuple[int, int] | None = None
        if guarded:
            self._connection()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def do(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows that a statement gives; what it changes is stored at once."""
        with self._lock, self._told():
            return self._connection().execute(statement, values).fetchall()

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Do a statement for each row in one transaction: all of them or none."""
        with self._lock, self._told():
            db = self._connection()
            self._check_place()
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany(statement, rows)
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def stream(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows that a query gives, one at a time, over a connection of its own."""
        with self._told(), closing(self._open()) as db:
            yield from db.execute(statement, values)

    @property
    def _lock(self) -> threading.RLock:
        """The lock of this process: a fork may copy the parent's while a thread holds it."""
        if self._locks[0] != os.getpid():
            self._locks = (os.getpid(), threading.RLock())
        return self._locks[1]

    def _connection(self) -> sqlite3.Connection:
        if self._db is None or self._pid != os.getpid():
            self._db, self._pid, self._opened = self._open(), os.getpid(), _place(self.path)
        return self._db

    def _open(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0] if self._guarded else "ok"
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            db.execute(self._schema)
        except (OSError, sqlite3.DatabaseError) as error:
            if db is not None:
                db.close()
            raise _kind(error)(
                f"the {self._what} {paths.shown(self.path)} cannot be used ({error}); nothing was changed. "
                "Move it away to start afresh, or restore it from a copy"
            ) from error
        return db

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Within, an error of SQLite is one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise _kind(error)(
                f"the {self._what} {paths.shown(self.path)} failed ({error}); what was stored before is "
                "safe unless the file is damaged. Free some space, or move a damaged file away, and start "
                "the same command again: it continues"
            ) from error

    def _check_place(self) -> None:
        if self._guarded and _place(self.path) != self._opened:
            raise RunError(
                f"the {self._what} {paths.shown(self.path)} was removed or replaced while it was written; "
                "nothing more can be stored. Put the folder back, or start the same command again: it begins "
                "anew"
            )


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Lock a folder for this process; the lock ends with the process, also when it is killed.

    Raises RunError: ``busy`` for a folder that another process holds, and for one that cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(folder / ".lock", timeout=0, isolation_level=None)
    except (OSError, sqlite3.OperationalError) as error:
        raise _unwritable(folder, error) from error
    with closing(lock):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise RunError(busy) from error
            raise _unwritable(folder, error) from error
        yield


def _unwritable(folder: Path, error: Exception) -> RunError:
    return RunError(
        f"{paths.shown(folder)} cannot be written ({error}); give yourself the right to, free some space, or "
        "set CRS_RESULTS to another folder"
    )


def _kind(error: Exception) -> type[RunError]:
    """DamageError for a damaged file; RunError for one that is locked, or a disk that is full."""
    damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    return DamageError if damaged else RunError


def _place(path: Path) -> tuple[int, int] | None:
    """Device and number of the file under a name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
