"""The calls of a run: a cache of replies, and a row for each call: who asked, what it cost, how it ended."""

import gzip
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.core.store import Store
from crs_lib.core.tables import fingerprint, read_jsonl, write_aside, write_jsonl
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Reply, Request

TEXT_LIMIT = 20_000
_REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
_STORED = [f.name for f in fields(Reply) if f.name not in ("cache_hit", "attempts", "tried")]
_REPLIES = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
_TABLE = "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, place TEXT NOT NULL, row TEXT NOT NULL)"
_INSERT = "INSERT INTO calls (place, row) VALUES (?, ?)"


def key(digest: str, settings: Mapping[str, Any], request: Request) -> str:
    """The address of a reply: weights, backend settings, messages, seed, options, schema, replicate.

    Neither the role nor the session is part of it: equal questions share an answer.
    """
    return fingerprint([digest, dict(settings), request.digest])


def row(
    spec: str, request: Request, reply: Reply | None, error: LLMError | None, seconds: float, digest: str
) -> dict[str, Any]:
    """The record of one call; ``seconds`` is all of it, pauses and failed attempts included.

    ``began`` is the clock time at which it began, in seconds since 1970. Prompts are kept as a digest. Texts
    are bounded at 20,000 characters, and ``text_cut`` says so.
    """
    text = reply.text if reply else error.text if error else ""
    thinking = reply.thinking if reply else ""
    return {
        **{name: request.tags[name] for name in sorted(request.tags)},
        "role": request.role,
        "model": spec,
        "digest": reply.digest if reply else digest,
        "request": request.digest,
        "replicate": request.replicate,
        "seed": request.seed,
        "options": dict(request.options),
        "schema": fingerprint(request.schema)[:16] if request.schema is not None else None,
        "tokens_in": reply.tokens_in if reply else None,
        "tokens_out": reply.tokens_out if reply else None,
        "seconds": round(reply.seconds if reply else seconds, 6),
        "seconds_all": round(seconds, 6),
        "began": round(time.time() - seconds, 3),
        "cache_hit": reply.cache_hit if reply else False,
        "attempts": reply.attempts if reply else error.attempts if error else 0,
        "tried": list(reply.tried if reply else error.tried if error else ()),
        "endpoint": reply.endpoint if reply else "",
        "stop": reply.stop if reply else None,
        "error": error.kind if error else None,
        "message": shorten(str(error), 500) if error else None,
        "text": shorten(text, TEXT_LIMIT),
        "text_cut": len(text) > TEXT_LIMIT,
        "thinking": shorten(thinking, TEXT_LIMIT),
        **({"tool_calls": [one._asdict() for one in reply.calls] if reply else []} if request.tools else {}),
        **({"probabilities": dict(reply.probabilities)} if reply and request.choices else {}),
    }


class Cache:
    """Replies by key in one SQLite file (not on a network drive). Errors are never stored.

    The first reply stored under a key stays: the same question to the same weights is asked once, also by
    several threads and processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._store = Store(self.path, _REPLIES, "call cache")
        self.close = self._store.close

    def get(self, address: str) -> Reply | None:
        """The stored reply, marked as a hit, with 0 seconds and attempts; None for none.

        A damaged one is removed.
        """
        rows = self._store.do("SELECT reply FROM replies WHERE key = ?", (address,))
        if not rows:
            return None
        try:
            given = json.loads(rows[0][0])
            stored = {name: given[name] for name in _STORED if name in given}
            return _REPLY.validate_python({**stored, "seconds": 0.0, "cache_hit": True, "attempts": 0})
        except (ValueError, TypeError, RecursionError):  # damaged; pydantic's error is a ValueError
            self.drop(address)
            return None

    def drop(self, address: str) -> None:
        """Remove a reply that cannot be used, so that the question is asked again."""
        self._store.do("DELETE FROM replies WHERE key = ?", (address,))

    def put(self, address: str, reply: Reply) -> None:
        """Store a reply; nothing happens where one is stored already."""
        body = json.dumps({name: getattr(reply, name) for name in _STORED})
        self._store.do("INSERT OR IGNORE INTO replies (key, reply) VALUES (?, ?)", (address, body))

    def __len__(self) -> int:
        return int(self._store.do("SELECT count(*) FROM replies")[0][0])


class Recorder:
    """Keeps the rows of all calls in one SQLite file while a run works; ``export`` makes the JSON lines.

    Threads and processes of one machine may share the file. Where workers share no local disk each takes
    its own file, and one ``export`` joins them.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._store = Store(self.path, _TABLE, "call log")
        self.close = self._store.close

    def add(self, record: Mapping[str, Any], place: Mapping[str, str | int]) -> None:
        """Store a row at once; ``place`` (its tags) orders the export."""
        self._store.do(_INSERT, (_place(place), json.dumps(record, ensure_ascii=True)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows by place (session, turn, …), those of one place in the order in which they ended."""
        for (text,) in self._store.stream("SELECT row FROM calls ORDER BY place, id"):
            yield safety.loads(text, f"a row of {paths.shown(self.path)}")

    def drain(self) -> list[tuple[str, str]]:
        """All rows as they are stored, and they are gone from this file: to be put into another."""
        return self._store.do("DELETE FROM calls RETURNING place, row")

    def put(self, rows: Iterable[tuple[str, str]]) -> None:
        """Store what :meth:`drain` took from another file."""
        self._store.many(_INSERT, rows)


def _place(tags: Mapping[str, str | int]) -> str:
    """A sortable text: numbers are padded, so session 9 comes before session 10."""
    return "/".join(f"{k}={v:09d}" if isinstance(v, int) else f"{k}={v}" for k, v in sorted(tags.items()))


def export(sources: Iterable[Path], target: Path) -> int:
    """Write ``llm_calls.jsonl`` from one or more call logs, atomically; returns the number of calls."""
    recorders = [Recorder(path) for path in sorted(sources)]
    try:
        return write_jsonl(target, (record for recorder in recorders for record in recorder.rows()))
    finally:
        for recorder in recorders:
            recorder.close()


def export_all(folder: Path) -> int:
    """Write a run's ``llm_calls.jsonl`` from all call logs in its folder; returns the number of calls."""
    return export(folder.glob("llm_calls*.sqlite"), folder / "llm_calls.jsonl")


# What a replay needs, and what a call cost.
_KEPT = (
    "session", "system", "turn", "step", "role", "model", "digest", "request", "replicate", "tokens_in",
    "tokens_out", "seconds", "stop", "error", "text", "tool_calls", "probabilities",
)  # fmt: skip


def kept(name: str) -> Path:
    """A call log that comes with the package: ``data/samples/calls/<name>.jsonl.gz``."""
    return paths.samples() / "calls" / f"{name}.jsonl.gz"


def keep(sources: Iterable[Path], target: Path) -> int:
    """Write the answered calls of logs into one small compressed log, for ``replay:``; returns their number.

    A question that was answered from the cache is left out where its answer is there. The bytes depend on the
    rows alone.
    """
    rows: dict[str, dict[str, Any]] = {}
    for record in (record for source in sources for record in read_jsonl(source)):
        if record.get("error") in (None, "no tools"):
            address = fingerprint([record["model"], record["request"], record.get("system")])
            if address not in rows or not record.get("cache_hit"):
                rows[address] = {name: record[name] for name in _KEPT if record.get(name) is not None}
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values())
    with write_aside(target, "wb") as file:
        file.write(gzip.compress(lines.encode(), mtime=0))
    return len(rows)


@safety.reader("a call log")
def usage(source: Path | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Calls, cache hits, failures, tokens, seconds and tokens a second, a row for each role and model.

    ``tokens_*`` and ``seconds`` count calls that were sent and answered; ``unknown_tokens`` counts those
    whose server reported none. ``tokens_per_second`` is null where nothing was generated.
    Raises InputError for a file that is not there.
    """
    if isinstance(source, Path) and not source.exists():
        raise InputError(f"no call log {paths.shown(source)}; a run with LLM roles writes it")
    frame = pd.DataFrame(list(read_jsonl(source) if isinstance(source, Path) else source))
    if frame.empty:
        return pd.DataFrame(columns=_USAGE)
    rows = []
    for (role, model), calls in frame.groupby(["role", "model"], sort=True):
        sent = calls[calls["error"].isna() & ~calls["cache_hit"].astype(bool)]
        out, seconds = sent["tokens_out"].dropna().astype(float), float(sent["seconds"].sum())
        timed = float(sent.loc[out.index, "seconds"].sum())
        rows.append({
            "role": role, "model": model, "calls": len(calls), "cache_hits": int(calls["cache_hit"].sum()),
            "failed": int(calls["error"].notna().sum()),
            "attempts": int(calls["attempts"].sum()),
            "tokens_in": int(sent["tokens_in"].dropna().sum()), "tokens_out": int(out.sum()),
            "unknown_tokens": int(sent["tokens_out"].isna().sum()), "seconds": seconds,
            "tokens_per_second": float(out.sum()) / timed if timed > 0 and out.sum() > 0 else None,
        })  # fmt: skip
    return pd.DataFrame(rows, columns=_USAGE)


_USAGE = [
    "role", "model", "calls", "cache_hits", "failed", "attempts", "tokens_in", "tokens_out",
    "unknown_tokens", "seconds", "tokens_per_second",
]  # fmt: skip
