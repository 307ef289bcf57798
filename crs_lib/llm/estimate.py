"""Estimates before a run: calls, tokens and hours, from the log of an earlier one."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd


class Work(NamedTuple):
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
    """The mean cost of a call: tokens read and written, seconds until the answer is there, and how many calls
    were under way when that was measured (a server that works on one at a time lets the others wait);
    ``a_turn`` is how many calls a turn of a conversation took.
    """

    tokens_in: float
    tokens_out: float
    seconds: float
    at_once: float = 1.0
    a_turn: float = 1.0


def costs(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """The mean cost of a call by role and model, for "crs" by system, from a call log. Calls from the cache
    and failed ones are left out; a failed attempt's time is part of the cost. How many were under way is
    taken over all of the log; for what reports no tokens (which are NaN then) over its own calls.
    """
    rows = list(rows)
    sent = [row for row in rows if not row["cache_hit"]]
    together = _under_way(sent)
    made = Counter(_who(row) for row in rows if not row["error"])
    first = (row for row in rows if not row.get("step"))  # an agent's further calls of a turn have a step
    turns = Counter(_who(row) for row in first if row["error"] in (None, "no tools"))
    answered: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sent:
        if not row["error"]:
            answered[_who(row)].append(row)
    found = {}
    for who, mine in answered.items():
        counted = [row for row in mine if row["tokens_out"] is not None]
        seconds = fmean(float(row["seconds_all"]) for row in counted or mine)
        told = [[row[name] or 0 for row in counted] for name in ("tokens_in", "tokens_out")]
        read, written = (fmean(numbers) if numbers else math.nan for numbers in told)
        often = made[who] / turns[who] if turns[who] else 1.0
        found[who] = Cost(read, written, seconds, together if counted else _under_way(mine), often)
    return found


def _who(row: Mapping[str, Any]) -> tuple[str, str]:
    """Role and model of a call; the system where a system made it, whose mode is part of its cost."""
    return row["role"], str(row.get("system") or row["model"]) if row["role"] == "crs" else row["model"]


def _under_way(rows: Iterable[Mapping[str, Any]]) -> float:
    """How many calls of a log were under way on average while any was, 1 or more; 1 for an empty one."""
    spans = sorted((row["began"], row["began"] + row["seconds_all"]) for row in rows)
    busy, last = 0.0, float("-inf")
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    return max(1.0, sum(end - start for start, end in spans) / busy) if busy > 0 else 1.0


def estimate(work: Iterable[Work], known: Mapping[tuple[str, str], Cost]) -> pd.DataFrame:
    """Calls, millions of tokens and hours of a run, a row for each role and model, and one for all. Models
    are worked off one after the other, so hours add up. More calls at once than when the cost was measured
    are taken to gain nothing. ``hours`` and tokens are null where the cost of a role and model is not known,
    and so are those of the last row, where the tokens of programs do not count. Calls are always known.
    """
    rows: list[tuple[Any, ...]] = []
    totals = [0, 0.0, 0.0, 0.0]  # of all
    for part in work:
        cost = known.get((part.role, part.spec), Cost(math.nan, math.nan, math.nan))
        logged = part.turns and (part.role, part.spec) in known
        calls = round(part.turns * cost.a_turn) if logged else part.calls
        hours = calls * cost.seconds / min(part.at_once, cost.at_once) / 3600
        tokens = calls * cost.tokens_in / 1e6, calls * cost.tokens_out / 1e6
        rows.append((part.role, part.spec, calls, *tokens, hours))
        counted = tokens if part.tokens else (0.0, 0.0)
        totals = [sum(pair) for pair in zip(totals, (calls, *counted, hours), strict=True)]
    rows.append(("all", "", *totals))
    return pd.DataFrame(rows, columns=["role", "model", "calls", "tokens_in", "tokens_out", "hours"])
