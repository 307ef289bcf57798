"""The ledger of a run: one SQLite row for each session, and one for each turn that a connected system was
asked, both safe when the process is killed.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.core.store import Store


class Key(NamedTuple):
    """The identity of a session in a run: the system's spec and the scenario's number."""

    system: str
    session: int


class Done(NamedTuple):
    """A finished or failed session as a worker returns it. ``exchange``: what was sent and came back last;
    ``partial``: what a failed session came to without the replies that failed, where that is known.
    """

    key: Key
    body: bytes | None
    error: str
    exchange: str = ""
    partial: bytes | None = None


def pack(text: str) -> bytes:
    """The body of a session as the ledger stores it (compressed)."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 6)


def _unpack(body: bytes) -> str:
    return zlib.decompress(body).decode("utf-8", "surrogatepass")


_TABLE = (
    "CREATE TABLE IF NOT EXISTS sessions (system TEXT, session INTEGER, status TEXT NOT NULL,"
    " attempt INTEGER NOT NULL, body BLOB, hash TEXT, error TEXT,"
    " PRIMARY KEY (system, session)) WITHOUT ROWID"
)
_BODY = "SELECT body, hash FROM sessions WHERE system = ? AND session = ?"
_PARTIAL = "SELECT system, session FROM sessions WHERE status = 'failed' AND body IS NOT NULL ORDER BY 1, 2"
_RECORD = (
    "INSERT INTO sessions (system, session, status, attempt, body, hash, error) VALUES (?, ?, ?, 1, ?, ?, ?)"
    " ON CONFLICT (system, session) DO UPDATE SET status = excluded.status, attempt = attempt + 1,"
    " body = excluded.body, hash = excluded.hash, error = excluded.error WHERE sessions.status <> 'done'"
)
_Row = tuple[str, int, str, bytes | None, str | None, str | None]


class Ledger(Store):
    """One row for each session: status, attempt, body, hash. A killed process damages no row.

    The key is unique; recording a finished session again changes nothing. A damaged file is refused, and so
    is one that was removed or replaced while the run was made: what is written then is lost.
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
        rows = self.do("SELECT coalesce(max(attempt), 0) FROM sessions WHERE status = 'failed'")
        return int(rows[0][0])

    def record(self, batch: Iterable[Done]) -> None:
        """Store finished and failed sessions, all or none; a session that is done keeps its first body.

        Raises RunError if the disk refuses; earlier sessions are safe and a later start continues after them.
        """
        self.many(_RECORD, map(_row, batch))

    def partial(self) -> list[Key]:
        """The failed sessions that have a body, without the replies that failed."""
        return [Key(*row) for row in self.do(_PARTIAL)]

    def bodies(self, keys: Sequence[Key]) -> Iterator[str]:
        """The bodies of these sessions, in this order; RunError for one that is missing or damaged."""
        for key in keys:
            yield self._body(key)

    def _body(self, key: Key) -> str:
        rows = self.do(_BODY, key)
        try:
            body, digest = rows[0]
            if hashlib.sha256(body).hexdigest() != digest:
                raise ValueError("another body")
            return _unpack(body)
        except (zlib.error, ValueError, TypeError, IndexError) as error:
            raise RunError(
                f"session {key.session} of {key.system!r} is missing or damaged in the ledger "
                f"{paths.shown(self.path)}; move that file away and start the same command again: "
                "the sessions are made anew"
            ) from error


def _row(session: Done) -> _Row:
    """A session as the table holds it."""
    error = session.error or None
    if session.body is not None:
        return (*session.key, "done", session.body, hashlib.sha256(session.body).hexdigest(), error)
    if session.partial is not None:
        return (*session.key, "failed", session.partial, hashlib.sha256(session.partial).hexdigest(), error)
    return (*session.key, "failed", None, None, error)


class Turn(NamedTuple):
    """A turn of a conversation with a connected system; ``attempt`` counts how often it was asked, from 1."""

    system: str
    conversation: str
    turn: int
    attempt: int


_ANSWERS = (
    "CREATE TABLE IF NOT EXISTS answers (system TEXT, conversation TEXT, turn INTEGER, attempt INTEGER,"
    " request TEXT NOT NULL, answer TEXT, PRIMARY KEY (system, conversation, turn, attempt)) WITHOUT ROWID"
)
_ANSWER = (
    "SELECT answer FROM answers WHERE system = ? AND conversation = ? AND turn = ? AND request = ?"
    " AND answer IS NOT NULL ORDER BY attempt LIMIT 1"
)
_LAST_OF_TURN = (
    "SELECT coalesce(max(attempt), 0) FROM answers WHERE system = ? AND conversation = ? AND turn = ?"
)
_LAST = "SELECT coalesce(max(attempt), 0) FROM answers WHERE system = ? AND conversation = ?"
_KEEP = "UPDATE answers SET answer = ? WHERE system = ? AND conversation = ? AND turn = ? AND attempt = ?"
_AGAIN = "SELECT count(*) - count(DISTINCT system || char(0) || conversation || char(0) || turn) FROM answers"


class Answers(Store):
    """The answers of connected systems, each stored before it is used, in the file of a run's ledger. A turn
    is noted before it is asked, so that what is asked twice is counted, whatever ends the process.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _ANSWERS, "ledger")

    def find(self, system: str, conversation: str, turn: int, request: str) -> str | None:
        """The answer to a request (its digest) that an earlier start was given; None where there is none."""
        rows = self.do(_ANSWER, (system, conversation, turn, request))
        return rows[0][0] if rows else None

    def attempts(self, system: str, conversation: str, turn: int | None = None) -> int:
        """How often a conversation, or one turn of it, was begun so far."""
        if turn is None:
            rows = self.do(_LAST, (system, conversation))
        else:
            rows = self.do(_LAST_OF_TURN, (system, conversation, turn))
        return int(rows[0][0])

    def note(self, turn: Turn, request: str) -> None:
        """Note that a turn is about to be asked."""
        self.do("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, NULL)", (*turn, request))

    def keep(self, turn: Turn, answer: str) -> None:
        """Store the answer to a turn."""
        self.do(_KEEP, (answer, *turn))

    def asked_again(self) -> int:
        """How many turns were asked more often than once, counted each time."""
        return int(self.do(_AGAIN)[0][0])
