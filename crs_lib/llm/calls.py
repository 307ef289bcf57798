"""The calls of a run: a cache of replies, and a row for each call: who asked, what it cost, how it ended."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.store import Store
from crs_lib.core.tables import fingerprint, read_jsonl, write_jsonl
from crs_lib.core.text import shorten
from crs_lib.llm.base import BACKENDS, Backend, LLMError, Reply, Request

TEXT_LIMIT = 20_000  # characters of a text in the log
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)
_OF_THE_CALL = ("cache_hit", "attempts", "tried", "waited")  # of a reply, and not stored with it
_STORED = [column.name for column in fields(Reply) if column.name not in _OF_THE_CALL]
_REPLIES = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL) WITHOUT ROWID"
_TABLE = "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, place TEXT NOT NULL, row TEXT NOT NULL)"
_INSERT = "INSERT INTO calls (place, row) VALUES (?, ?)"
_STUDY = "movies"  # of a replayed run whose spec names none
_REPLAYED = "text stop tokens_in tokens_out digest thinking probabilities".split()
_COUNTED = "calls cache_hits failed attempts tokens_in tokens_out unknown_tokens seconds".split()


def key(digest: str, settings: Mapping[str, Any], request: Request) -> str:
    """The address of a reply: weights, settings, request; equal questions of any role share an answer."""
    return fingerprint([digest, dict(settings), request.digest])


def row(
    spec: str, request: Request, outcome: Reply | LLMError, seconds: float, digest: str
) -> dict[str, Any]:
    """The record of one call, its prompt as a digest; ``seconds`` is all of it, pauses and failed attempts
    included, ``waited`` those in the server for other calls of ours, which are not in the record's
    ``seconds``; ``began`` is the clock time at which it began. Texts are bounded at 20,000 characters.
    """
    error = outcome if isinstance(outcome, LLMError) else None
    reply = Reply("", stop="", seconds=seconds, digest=digest) if isinstance(outcome, LLMError) else outcome
    record: dict[str, Any] = {name: request.tags[name] for name in sorted(request.tags)}
    record.update(role=request.role, model=spec, digest=reply.digest)
    record.update(request=request.digest, replicate=request.replicate, seed=request.seed)
    record["options"] = dict(request.options)
    record["schema"] = None if request.schema is None else fingerprint(request.schema)[:16]
    record.update(tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
    record.update(seconds=round(reply.seconds, 6), seconds_all=round(seconds, 6))
    record["waited"] = None if reply.waited is None else round(reply.waited, 6)
    record.update(began=round(time.time() - seconds, 3), cache_hit=reply.cache_hit)
    record.update(attempts=outcome.attempts, tried=list(outcome.tried))
    record.update(endpoint=reply.endpoint, stop=reply.stop or None)
    record.update(error=None, message=None)
    if error:
        record.update(error=error.kind, message=shorten(str(error), 500))
    record.update(text=shorten(outcome.text, TEXT_LIMIT), text_cut=len(outcome.text) > TEXT_LIMIT)
    record["thinking"] = shorten(reply.thinking, TEXT_LIMIT)
    if request.tools:
        record["tool_calls"] = [call._asdict() for call in reply.calls]
    if request.choices and not error:
        record["probabilities"] = dict(reply.probabilities)
    return record


class Cache(Store):
    """Replies by key in one SQLite file (not on a network drive). Errors are never stored, and the first
    reply under a key stays: the same question to the same weights is asked once, by any thread or process.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _REPLIES, "call cache")

    def get(self, address: str) -> Reply | None:
        """The stored reply, marked as a hit without costs; None for none, and a damaged one is removed."""
        rows = self.do("SELECT reply FROM replies WHERE key = ?", (address,))
        if not rows:
            return None
        try:
            record = json.loads(rows[0][0])
            stored = {name: record[name] for name in _STORED if name in record}
            stored.update(seconds=0.0, cache_hit=True, attempts=0)
            return REPLY.validate_python(stored)
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

    def add(self, record: Mapping[str, Any], tags: Mapping[str, str | int]) -> None:
        """Store a row at once; ``tags`` order the export, session 9 before session 10."""
        parts = []
        for name, value in sorted(tags.items()):
            padded = f"{value:09d}" if isinstance(value, int) else value
            parts.append(f"{name}={padded}")
        self.do(_INSERT, ("/".join(parts), json.dumps(record, ensure_ascii=True)))

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
    with ExitStack() as stack:
        recorders = [stack.enter_context(closing(Recorder(path))) for path in sorted(sources)]
        return write_jsonl(target, chain.from_iterable(recorder.rows() for recorder in recorders))


def export_all(folder: Path) -> int:
    """Write a run's ``llm_calls.jsonl`` from all call logs in its folder; returns the number of calls."""
    return export(folder.glob("llm_calls*.sqlite"), folder / "llm_calls.jsonl")


def kept(name: str) -> Path:
    """A call log that comes with the package: ``data/samples/calls/<name>.jsonl.gz``."""
    return paths.samples() / "calls" / f"{name}.jsonl.gz"


@safety.reader("a call log")
def usage(source: Path | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Sum up the calls of a log, by role and model.

    Parameters
    ----------
    source
        The file ``llm_calls.jsonl`` of a run, or its rows.

    Returns
    -------
    pandas.DataFrame
        ``calls``, ``cache_hits``, ``failed``, ``attempts``; ``tokens_in``, ``tokens_out`` and ``seconds`` of
        the calls that were sent and answered; ``unknown_tokens``, those whose server reported none;
        ``tokens_per_second``, null where there are none.

    Raises
    ------
    InputError
        For a file that is not there.
    """
    if isinstance(source, Path):
        if not source.exists():
            raise InputError(f"no call log {paths.shown(source)}; a run with LLM roles writes it")
        source = read_jsonl(source)
    frame = pd.DataFrame(list(source))
    if frame.empty:
        return pd.DataFrame(columns=["role", "model", *_COUNTED, "tokens_per_second"])
    sent = frame["error"].isna() & ~frame["cache_hit"].astype(bool)
    counted = sent & frame["tokens_out"].notna()
    table = frame[["role", "model", "attempts"]].copy()
    table["calls"] = 1
    table["cache_hits"] = frame["cache_hit"].astype(int)
    table["failed"] = frame["error"].notna().astype(int)
    for name in ("tokens_in", "tokens_out"):
        table[name] = frame[name].where(sent).astype(float).fillna(0).astype(int)
    table["unknown_tokens"] = (sent & ~counted).astype(int)
    table["seconds"] = frame["seconds"].where(sent, 0.0)
    table["timed"] = frame["seconds"].where(counted, 0.0)
    table = table.groupby(["role", "model"], as_index=False)[[*_COUNTED, "timed"]].sum()
    seconds = table.pop("timed")
    rate = table["tokens_out"] / seconds.where(seconds > 0)
    table["tokens_per_second"] = rate.where(rate > 0)
    return table


@BACKENDS.register("replay", argument="a run", example="thesis", kind="offline", choices=True)
class ReplayBackend(Backend):
    """Answers from a run's ``llm_calls.jsonl``: ``replay:thesis``, or ``replay:realtalk/thesis``.

    Without a study it is a run of ``movies``; a name that no run has may be that of a log that comes with the
    package (``data/samples/calls``), e.g. ``replay:smollm2``. ``replay:thesis@ollama:gemma:2b``
    keeps to the calls of one spec, for a run in which several models were asked the same. Only whole texts
    are given back; a call that failed, or whose text the log had to cut, counts as not recorded.
    """

    def __init__(self, argument: str) -> None:
        self.spec = f"replay:{argument}"
        name, _, model = argument.partition("@")
        study, _, run = name.rpartition("/")
        path = paths.run_folder(study or _STUDY, run) / "llm_calls.jsonl"
        if not path.exists() and not study and kept(run).exists():
            path = kept(run)
        if not path.exists():
            writes = "a run with LLM roles writes it when its stage ends"
            raise RunError(f"no {paths.shown(path)} to replay; {writes}")
        rows = [row for row in read_jsonl(path) if not model or row.get("model") == model]
        self._replies = _replies(rows)
        self._without_tools = {row["request"] for row in rows if row.get("error") == "no tools"}

    def digest(self) -> str:
        """The name of the run; each reply carries the digest that was logged."""
        return self.spec

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """The logged reply to the same request; LLMError for none, or several where no model was named."""
        if request.tools and request.digest in self._without_tools:
            raise LLMError("no tools", f"{self.spec} holds no tool calls: the model could not make any")
        replies = self._replies.get(request.digest, {})
        if len(replies) == 1:
            return next(iter(replies.values()))
        remedy = "name one model" if replies else "seed, options and prompts must be those of the run"
        fault = f"{self.spec} holds {len(replies)} different replies to this {request.role} call"
        raise LLMError("not recorded", f"{fault}; {remedy}")


@safety.reader("a call log")
def _replies(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Reply]]:
    """Reply texts by request; equal texts of several models are one reply."""
    replies: dict[str, dict[str, Reply]] = defaultdict(dict)
    for row in rows:
        if row.get("error") or row.get("text_cut"):
            continue
        record = {name: row[name] for name in _REPLAYED if row.get(name) is not None}
        record["calls"] = row.get("tool_calls") or ()
        reply = REPLY.validate_python(record)
        content = json.dumps([row["text"], reply.calls])
        replies[row["request"]].setdefault(content, reply)
    return dict(replies)
