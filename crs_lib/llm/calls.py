"""The calls of a run: a cache of replies, and a row for each call: who asked, what it cost, how it ended."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.core.store import Store
from crs_lib.core.tables import fingerprint, read_jsonl, write_jsonl
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Reply, Request

TEXT_LIMIT = 20_000
_Row = dict[str, Any]
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
_STORED = [f.name for f in fields(Reply) if f.name not in ("cache_hit", "attempts", "tried")]
_REPLIES = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
_TABLE = "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, place TEXT NOT NULL, row TEXT NOT NULL)"
_INSERT = "INSERT INTO calls (place, row) VALUES (?, ?)"


def key(digest: str, settings: Mapping[str, Any], request: Request) -> str:
    """The address of a reply: weights, settings, request; equal questions of any role share an answer."""
    return fingerprint([digest, dict(settings), request.digest])


def row(spec: str, request: Request, outcome: Reply | LLMError, seconds: float, digest: str) -> _Row:
    """The record of one call, its prompt as a digest; ``seconds`` is all of it, pauses and failed attempts
    included, ``began`` the clock time at which it began. Texts are bounded at 20,000 characters.
    """
    error = outcome if isinstance(outcome, LLMError) else None
    told = Reply("", stop="", seconds=seconds, digest=digest) if isinstance(outcome, LLMError) else outcome
    record: _Row = {
        **{name: request.tags[name] for name in sorted(request.tags)},
        "role": request.role, "model": spec, "digest": told.digest,
        "request": request.digest, "replicate": request.replicate, "seed": request.seed,
        "options": dict(request.options),
        "schema": fingerprint(request.schema)[:16] if request.schema is not None else None,
        "tokens_in": told.tokens_in, "tokens_out": told.tokens_out,
        "seconds": round(told.seconds, 6), "seconds_all": round(seconds, 6),
        "began": round(time.time() - seconds, 3), "cache_hit": told.cache_hit,
        "attempts": outcome.attempts, "tried": list(outcome.tried),
        "endpoint": told.endpoint, "stop": told.stop or None,
        "error": error.kind if error else None,
        "message": shorten(str(error), 500) if error else None,
        "text": shorten(outcome.text, TEXT_LIMIT), "text_cut": len(outcome.text) > TEXT_LIMIT,
        "thinking": shorten(told.thinking, TEXT_LIMIT),
    }  # fmt: skip
    record |= {"tool_calls": [one._asdict() for one in told.calls]} if request.tools else {}
    return record | ({"probabilities": dict(told.probabilities)} if request.choices and not error else {})


class Cache(Store):
    """Replies by key in one SQLite file (not on a network drive). Errors are never stored, and the first
    reply under a key stays: the same question to the same weights is asked once, by any thread or process.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _REPLIES, "call cache")

    def get(self, address: str) -> Reply | None:
        """The stored reply, marked as a hit without costs; None for none, and a damaged one is removed."""
        if not (rows := self.do("SELECT reply FROM replies WHERE key = ?", (address,))):
            return None
        try:
            given = json.loads(rows[0][0])
            stored = {name: given[name] for name in _STORED if name in given}
            return REPLY.validate_python({**stored, "seconds": 0.0, "cache_hit": True, "attempts": 0})
        except (ValueError, TypeError, RecursionError):  # damaged; pydantic's error is a ValueError
            self.drop(address)
            return None

    def drop(self, address: str) -> None:
        """Remove a reply that cannot be used, so that the question is asked again."""
        self.do("DELETE FROM replies WHERE key = ?", (address,))

    def put(self, address: str, reply: Reply) -> None:
        """Store a reply; nothing happens where one is stored already."""
        body = json.dumps({name: getattr(reply, name) for name in _STORED})
        self.do("INSERT OR IGNORE INTO replies (key, reply) VALUES (?, ?)", (address, body))

    def __len__(self) -> int:
        return int(self.do("SELECT count(*) FROM replies")[0][0])


class Recorder(Store):
    """Keeps the rows of all calls in one SQLite file while a run works; ``export`` makes the JSON lines, also
    out of several files. Threads and processes of one machine may share a file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLE, "call log")

    def add(self, record: Mapping[str, Any], place: Mapping[str, str | int]) -> None:
        """Store a row at once; ``place`` (its tags) orders the export, session 9 before session 10."""
        tags = (f"{k}={v:09d}" if isinstance(v, int) else f"{k}={v}" for k, v in sorted(place.items()))
        self.do(_INSERT, ("/".join(tags), json.dumps(record, ensure_ascii=True)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows by place (session, turn, …), those of one place in the order in which they ended."""
        for (text,) in self.stream("SELECT row FROM calls ORDER BY place, id"):
            yield safety.loads(text, f"a row of {paths.shown(self.path)}")

    def drain(self) -> list[tuple[str, str]]:
        """All rows as they are stored, and they are gone from this file: to be put into another."""
        return self.do("DELETE FROM calls RETURNING place, row")

    def put(self, rows: Iterable[tuple[str, str]]) -> None:
        """Store what :meth:`drain` took from another file."""
        self.many(_INSERT, rows)


def export(sources: Iterable[Path], target: Path) -> int:
    """Write ``llm_calls.jsonl`` from one or more call logs, atomically; returns the number of calls."""
    with ExitStack() as opened:
        recorders = [opened.enter_context(closing(Recorder(path))) for path in sorted(sources)]
        return write_jsonl(target, chain.from_iterable(recorder.rows() for recorder in recorders))


def export_all(folder: Path) -> int:
    """Write a run's ``llm_calls.jsonl`` from all call logs in its folder; returns the number of calls."""
    return export(folder.glob("llm_calls*.sqlite"), folder / "llm_calls.jsonl")


_COUNTED = "calls cache_hits failed attempts tokens_in tokens_out unknown_tokens seconds".split()


def kept(name: str) -> Path:
    """A call log that comes with the package: ``data/samples/calls/<name>.jsonl.gz``."""
    return paths.samples() / "calls" / f"{name}.jsonl.gz"


@safety.reader("a call log")
def usage(source: Path | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Calls, cache hits, failures, tokens, seconds and tokens a second (null for none), by role and model.
    ``tokens_*`` and ``seconds`` count calls that were sent and answered; ``unknown_tokens`` those whose
    server reported none. Raises InputError for a file that is not there.
    """
    if isinstance(source, Path) and not source.exists():
        raise InputError(f"no call log {paths.shown(source)}; a run with LLM roles writes it")
    frame = pd.DataFrame(list(read_jsonl(source) if isinstance(source, Path) else source))
    if frame.empty:
        return pd.DataFrame(columns=["role", "model", *_COUNTED, "tokens_per_second"])
    sent = frame["error"].isna() & ~frame["cache_hit"].astype(bool)
    generated = sent & frame["tokens_out"].notna()
    tokens = frame[["tokens_in", "tokens_out"]].where(sent).astype(float).fillna(0).astype(int)
    frame = frame.assign(
        calls=1, cache_hits=frame["cache_hit"].astype(int), failed=frame["error"].notna().astype(int),
        unknown_tokens=(sent & ~generated).astype(int), timed=frame["seconds"].where(generated, 0.0),
        seconds=frame["seconds"].where(sent, 0.0), **tokens,
    )  # fmt: skip
    table = frame.groupby(["role", "model"], as_index=False)[[*_COUNTED, "timed"]].sum()
    rate = table["tokens_out"] / table.pop("timed").where(lambda seconds: seconds > 0)
    return table.assign(tokens_per_second=rate.where(rate > 0))
