"""The ledger of a run: one SQLite row for each session, safe when the process is killed."""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import paths
from crs_lib.core.errors import RunError


class Key(NamedTuple):
    """The identity of a session in a run: the system's spec and the scenario's number."""

    system: str
    session: int


class Done(NamedTuple):
    """A finished or failed session as a worker returns it."""

    key: Key
    body: bytes | None
    error: str


def pack(text: str) -> bytes:
    """The body of a session as the ledger stores it (compressed)."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 6)


def unpack(body: bytes) -> str:
    """The text of a stored body."""
    return zlib.decompress(body).decode("utf-8", "surrogatepass")


class Ledger:
    """One row for each session: status, attempt, body, hash. A killed process damages no row.

    The key is unique; recording a finished session again changes nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            verdict = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS sessions (system TEXT, session INTEGER, status TEXT NOT NULL,"
                " attempt INTEGER NOT NULL, body BLOB, hash TEXT, error TEXT,"
                " PRIMARY KEY (system, session)) WITHOUT ROWID"
            )
            self._opened = self._place()
        except sqlite3.DatabaseError as error:
            self._close_quietly()
            raise RunError(
                f"the ledger {paths.shown(path)} cannot be used ({error}); nothing was changed. "
                "Move it away to start afresh, or restore it from a copy"
            ) from error

    def _place(self) -> tuple[int, int] | None:
        """Device and number of the file under the ledger's name; None where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _close_quietly(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; recorded sessions stay."""
        self._db.close()

    def finished(self) -> set[Key]:
        """The keys of the sessions that are done."""
        rows = self._query("SELECT system, session FROM sessions WHERE status = 'done'")
        return {Key(*row) for row in rows}

    def counts(self) -> dict[str, int]:
        """Number of sessions by status ("done", "failed")."""
        return dict(self._query("SELECT status, count(*) FROM sessions GROUP BY status ORDER BY 1"))

    def failures(self) -> list[tuple[Key, str]]:
        """The failed sessions and the error of their last attempt, in order."""
        rows = self._query(
            "SELECT system, session, error FROM sessions WHERE status = 'failed' ORDER BY 1, 2"
        )
        return [(Key(system, session), error) for system, session, error in rows]

    def tries(self) -> int:
        """The largest number of attempts of a failed session; 0 if no session failed."""
        return int(
            self._query("SELECT coalesce(max(attempt), 0) FROM sessions WHERE status = 'failed'")[0][0]
        )

    def record(self, batch: Iterable[Done]) -> None:
        """Store finished and failed sessions in one transaction: all of the batch or none of it.

        A session that is already done keeps its first body. Raises RunError if the disk
        refuses; earlier sessions are safe and a later start continues after them. Raises RunError, too, where
        the file was removed or replaced since it was opened: what is written then is lost.
        """
        if self._place() != self._opened:
            raise RunError(
                f"the ledger {paths.shown(self.path)} was removed or replaced while the run was made; no "
                "session can be stored. Put the folder back, or start the same command again: it begins anew"
            )
        rows = [
            (
                item.key.system, item.key.session, "done" if item.body is not None else "failed",
                item.body, hashlib.sha256(item.body).hexdigest() if item.body is not None else None,
                item.error or None,
            )
            for item in batch
        ]  # fmt: skip
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "INSERT INTO sessions (system, session, status, attempt, body, hash, error)"
                " VALUES (?, ?, ?, 1, ?, ?, ?) ON CONFLICT (system, session) DO UPDATE SET"
                " status = excluded.status, attempt = attempt + 1, body = excluded.body,"
                " hash = excluded.hash, error = excluded.error WHERE sessions.status <> 'done'",
                rows,
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise RunError(
                f"could not store sessions in {paths.shown(self.path)} ({error}); the sessions stored "
                "before are safe. Free some space and start the same command again: it continues"
            ) from error

    def bodies(self, keys: Sequence[Key]) -> Iterator[str]:
        """The bodies of these sessions, in this order, one at a time.

        Raises RunError for a session that is not done or whose body does not match its hash.
        """
        for key in keys:
            row = self._db.execute(
                "SELECT body, hash FROM sessions WHERE system = ? AND session = ? AND status = 'done'",
                key,
            ).fetchone()
            body = row[0] if row else None
            if not isinstance(body, bytes) or hashlib.sha256(body).hexdigest() != row[1]:
                raise RunError(self._lost(key))
            try:
                yield unpack(body)
            except (zlib.error, ValueError) as error:
                raise RunError(self._lost(key)) from error

    def _lost(self, key: Key) -> str:
        return (
            f"session {key.session} of {key.system!r} is missing or damaged in the ledger "
            f"{paths.shown(self.path)}; "
            "move that file away and start the same command again: the sessions are made anew"
        )

    def _query(self, statement: str) -> list[Any]:
        try:
            return self._db.execute(statement).fetchall()
        except sqlite3.DatabaseError as error:
            raise RunError(f"the ledger {paths.shown(self.path)} is damaged ({error})") from error
