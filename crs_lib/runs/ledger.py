"""The ledger of a run: one SQLite row for each session, safe when the process is killed."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.core.store import Store


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


_TABLE = (
    "CREATE TABLE IF NOT EXISTS sessions (system TEXT, session INTEGER, status TEXT NOT NULL,"
    " attempt INTEGER NOT NULL, body BLOB, hash TEXT, error TEXT,"
    " PRIMARY KEY (system, session)) WITHOUT ROWID"
)
_BODY = "SELECT body, hash FROM sessions WHERE system = ? AND session = ? AND status = 'done'"
_RECORD = (
    "INSERT INTO sessions (system, session, status, attempt, body, hash, error) VALUES (?, ?, ?, 1, ?, ?, ?)"
    " ON CONFLICT (system, session) DO UPDATE SET status = excluded.status, attempt = attempt + 1,"
    " body = excluded.body, hash = excluded.hash, error = excluded.error WHERE sessions.status <> 'done'"
)


class Ledger(Store):
    """One row for each session: status, attempt, body, hash. A killed process damages no row. The key is
    unique; recording a finished session again changes nothing. A damaged file is refused, and so is one that
    was removed or replaced while the run was made: what is written then is lost.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLE, "ledger", guarded=True)

    def finished(self) -> set[Key]:
        """The keys of the sessions that are done."""
        rows = self.do("SELECT system, session FROM sessions WHERE status = 'done'")
        return {Key(*row) for row in rows}

    def counts(self) -> dict[str, int]:
        """Number of sessions by status ("done", "failed")."""
        return dict(self.do("SELECT status, count(*) FROM sessions GROUP BY status ORDER BY 1"))

    def failures(self) -> list[tuple[Key, str]]:
        """The failed sessions and the error of their last attempt, in order."""
        rows = self.do("SELECT system, session, error FROM sessions WHERE status = 'failed' ORDER BY 1, 2")
        return [(Key(system, session), error) for system, session, error in rows]

    def tries(self) -> int:
        """The largest number of attempts of a failed session; 0 if no session failed."""
        return int(self.do("SELECT coalesce(max(attempt), 0) FROM sessions WHERE status = 'failed'")[0][0])

    def record(self, batch: Iterable[Done]) -> None:
        """Store finished and failed sessions, all or none; a session that is done keeps its first body.
        Raises RunError if the disk refuses; earlier sessions are safe and a later start continues after them.
        """
        self.many(_RECORD, (_row(item) for item in batch))

    def bodies(self, keys: Sequence[Key]) -> Iterator[str]:
        """The bodies of these sessions, in this order; RunError for one that is missing or damaged."""
        for key in keys:
            body, digest = next(iter(self.do(_BODY, key)), (b"", ""))
            try:
                if hashlib.sha256(body).hexdigest() != digest:
                    raise ValueError("another body")
                yield zlib.decompress(body).decode("utf-8", "surrogatepass")
            except (zlib.error, ValueError, TypeError) as error:
                place = f"in the ledger {paths.shown(self.path)}"
                better = "move that file away and start the same command again: the sessions are made anew"
                told = f"session {key.session} of {key.system!r} is missing or damaged {place}; {better}"
                raise RunError(told) from error


def _row(item: Done) -> tuple[Any, ...]:
    """A session as the table holds it."""
    if item.body is None:
        return (*item.key, "failed", None, None, item.error or None)
    return (*item.key, "done", item.body, hashlib.sha256(item.body).hexdigest(), item.error or None)
