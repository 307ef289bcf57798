"""Estimates before a run: calls, tokens and hours, from a few trial calls or from an earlier log."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.llm.base import Request
from crs_lib.llm.client import LLM


@dataclass(frozen=True)
class Work:
    """The calls of one model or program in one role of a run, of which ``at_once`` are under way at any time.

    ``tokens`` is false for a program, whose tokens nobody counts. ``turns`` is given where a model may be
    asked several times a turn (an agent): a log that knows how often then says so, ``calls`` are the most.
    """

    role: str
    spec: str
    calls: int
    at_once: int = 4
    tokens: bool = True
    turns: int = 0


class Cost(NamedTuple):
    """The mean cost of a call: tokens read and written, and seconds until the answer is there.

    ``at_once`` is how many calls were under way on average when that was measured, 1 or more: a server that
    works on one call at a time lets the others wait, so seconds alone say nothing about its speed. ``a_turn``
    is how many calls a turn of a conversation took on average.
    """

    tokens_in: float
    tokens_out: float
    seconds: float
    at_once: float = 1.0
    a_turn: float = 1.0


def probe(llm: LLM, requests: Sequence[Request]) -> Cost:
    """The mean cost of these calls, which are really made, all slots busy; the first only warms up.

    Takes an LLM without a cache. Raises InputError for one with a cache, for fewer than two requests, and
    where the server reports no tokens; LLMError where a call fails.
    """
    if llm.cache is not None or len(requests) < 2:
        raise InputError("a probe needs an LLM without a cache and at least two requests, one to warm up")
    llm.complete(requests[0])
    replies = []
    began = time.perf_counter()
    answers = llm.gather(requests[1:])
    spent = time.perf_counter() - began
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
        replies.append(answer)
    counts = [(reply.tokens_in, reply.tokens_out) for reply in replies]
    read = [float(used) for used, _ in counts if used is not None]
    written = [float(made) for _, made in counts if made is not None]
    if not read or not written:
        raise InputError(f"{llm.spec} reports no tokens; nothing can be estimated from it")
    seconds = [reply.seconds for reply in replies]
    return Cost(fmean(read), fmean(written), fmean(seconds), max(1.0, sum(seconds) / spent))


def costs(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """The mean cost of a call by role and model, for "crs" by system, from the rows of a call log.

    Calls from the cache and failed ones are left out. A failed attempt's time is part of the cost: it
    will happen again. How many calls were under way is taken over all of the log; for what reports no tokens
    (a program, some servers) over its own calls, and its tokens are NaN.
    """
    rows = list(rows)
    sent = [row for row in rows if not row["cache_hit"]]
    made = Counter(_who(row) for row in rows if not row["error"])
    first = (row for row in rows if not row.get("step"))  # an agent's further calls of a turn have a step
    turns = Counter(_who(row) for row in first if row["error"] in (None, "no tools"))
    often = {who: count / turns[who] for who, count in made.items() if turns[who]}
    found: dict[tuple[str, str], list[Cost]] = {}
    together = under_way(sent)
    for row in sent:
        if not row["error"] and row["tokens_out"] is not None:
            seconds = float(row["seconds_all"])
            tokens = float(row["tokens_in"] or 0), float(row["tokens_out"])
            found.setdefault(_who(row), []).append(
                Cost(*tokens, seconds, together, often.get(_who(row), 1.0))
            )
    uncounted: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sent:
        if not row["error"] and _who(row) not in found:
            uncounted.setdefault(_who(row), []).append(row)
    known = {key: Cost(*map(fmean, zip(*calls, strict=True))) for key, calls in found.items()}
    for key, mine in uncounted.items():
        seconds = fmean(float(row["seconds_all"]) for row in mine)
        known[key] = Cost(math.nan, math.nan, seconds, under_way(mine), often.get(key, 1.0))
    return known


def _who(row: Mapping[str, Any]) -> tuple[str, str]:
    """Role and model of a call; the system where a system made it, whose mode is part of its cost."""
    return row["role"], str(row.get("system") or row["model"]) if row["role"] == "crs" else row["model"]


def under_way(rows: Iterable[Mapping[str, Any]]) -> float:
    """How many calls of a log were under way on average while any was, 1 or more; 1 for an empty one."""
    spans = sorted((row["began"], row["began"] + row["seconds_all"]) for row in rows)
    busy = 0.0
    last = float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    return max(1.0, sum(end - start for start, end in spans) / busy) if busy > 0 else 1.0


def estimate(work: Iterable[Work], known: Mapping[tuple[str, str], Cost]) -> pd.DataFrame:
    """Calls, millions of tokens and hours of a run, a row for each role and model, and one for all.

    Models are worked off one after the other, so hours add up. More calls at once than when the cost was
    measured are taken to gain nothing. ``hours`` and tokens are null where the cost of a role and model is
    not known, and so are those of the last row, where the tokens of programs do not count. Calls are always
    known.
    """
    rows: list[dict[str, Any]] = []
    work = list(work)
    for part in work:
        cost = known.get((part.role, part.spec))
        calls = round(part.turns * cost.a_turn) if part.turns and cost else part.calls
        row: dict[str, Any] = {"role": part.role, "model": part.spec, "calls": calls}
        row |= dict.fromkeys(("tokens_in", "tokens_out", "hours"), float("nan"))
        if cost:
            row["tokens_in"] = calls * cost.tokens_in / 1e6
            row["tokens_out"] = calls * cost.tokens_out / 1e6
            row["hours"] = calls * cost.seconds / min(part.at_once, cost.at_once) / 3600
        rows.append(row)
    columns = ["role", "model", "calls", "tokens_in", "tokens_out", "hours"]
    frame = pd.DataFrame(rows, columns=columns)
    total: dict[str, Any] = {"role": "all", "model": "", "calls": int(frame["calls"].sum())}
    counted = frame[[part.tokens for part in work]] if len(frame) else frame
    total |= {name: float(counted[name].sum(skipna=False)) for name in ("tokens_in", "tokens_out")}
    total["hours"] = float(frame["hours"].sum(skipna=False))
    return pd.DataFrame([*rows, total], columns=columns)
