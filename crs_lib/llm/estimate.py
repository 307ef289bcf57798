"""Estimates before a run: calls, tokens and hours, from the log of an earlier one."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

_Rows = Sequence[Mapping[str, Any]]


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


_UNKNOWN = Cost(math.nan, math.nan, math.nan)


def costs(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """The mean cost of a call by role and model, for "crs" by system, from a call log. Calls from the cache
    and failed ones are left out; a failed attempt's time is part of the cost. How many were under way is
    taken over all of the log; for what reports no tokens (which are NaN then) over its own calls.
    """
    rows = list(rows)
    sent = [row for row in rows if not row["cache_hit"]]
    at_once = under_way(sent)
    calls: Counter[tuple[str, str]] = Counter()
    turns: Counter[tuple[str, str]] = Counter()
    for row in rows:
        calls[_who(row)] += not row["error"]
        first = not row.get("step")  # an agent's further calls of a turn have a step
        turns[_who(row)] += first and row["error"] in (None, "no tools")
    answered: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sent:
        if not row["error"]:
            answered[_who(row)].append(row)
    by_model = {}
    for who, group in answered.items():
        cost = _mean_cost(group, at_once)
        if turns[who]:
            cost = cost._replace(a_turn=calls[who] / turns[who])
        by_model[who] = cost
    return by_model


def _mean_cost(rows: _Rows, at_once: float) -> Cost:
    """The mean cost of the calls that report tokens, of which ``at_once`` were under way; else of all."""
    counted = [row for row in rows if row["tokens_out"] is not None]
    if not counted:
        return Cost(math.nan, math.nan, _mean(rows, "seconds_all"), under_way(rows))
    return Cost(
        _mean(counted, "tokens_in"), _mean(counted, "tokens_out"), _mean(counted, "seconds_all"), at_once
    )


def _mean(rows: _Rows, column: str) -> float:
    return fmean(float(row[column] or 0) for row in rows)


def _who(row: Mapping[str, Any]) -> tuple[str, str]:
    """Role and model of a call; the system where a system made it, whose mode is part of its cost."""
    model = row["model"]
    if row["role"] == "crs":
        model = row.get("system") or model
    return str(row["role"]), str(model)


def under_way(rows: Iterable[Mapping[str, Any]]) -> float:
    """How many calls of a log were under way on average while any was, 1 or more; 1 for an empty one."""
    spans = sorted((row["began"], row["began"] + row["seconds_all"]) for row in rows)
    busy = 0.0
    total = 0.0
    last = -math.inf
    for start, end in spans:
        busy += max(0.0, end - max(start, last))
        total += end - start
        last = max(last, end)
    return max(1.0, total / busy) if busy > 0 else 1.0


def estimate(work: Iterable[Work], prices: Mapping[tuple[str, str], Cost]) -> pd.DataFrame:
    """Calls, millions of tokens and hours of a run.

    Parameters
    ----------
    work
        What is to be done; models are worked off one after the other, so hours add up.
    prices
        The costs of a call by role and model. More calls at once than when a cost was measured are taken to
        gain nothing.

    Returns
    -------
    pandas.DataFrame
        A row for each role and model, and one for all. ``hours`` and tokens are null where the cost of a role
        and model is not known, and so are those of the last row, where the tokens of programs do not count.
        Calls are always known.
    """
    rows = []
    tokens_in = 0.0
    tokens_out = 0.0
    for part in work:
        row = _estimated(part, prices.get((part.role, part.spec)))
        if part.tokens:
            tokens_in += row["tokens_in"]
            tokens_out += row["tokens_out"]
        rows.append(row)
    calls = sum(row["calls"] for row in rows)
    hours = 0.0 + sum(row["hours"] for row in rows)
    total = {"role": "all", "model": "", "calls": calls, "hours": hours}
    total.update(tokens_in=tokens_in, tokens_out=tokens_out)
    rows.append(total)
    return pd.DataFrame(rows, columns=["role", "model", "calls", "tokens_in", "tokens_out", "hours"])


def _estimated(part: Work, cost: Cost | None) -> dict[str, Any]:
    """The row of one role and model."""
    calls = part.calls
    if cost is not None and part.turns:
        calls = round(part.turns * cost.a_turn)
    cost = cost or _UNKNOWN
    return {
        "role": part.role,
        "model": part.spec,
        "calls": calls,
        "tokens_in": calls * cost.tokens_in / 1e6,
        "tokens_out": calls * cost.tokens_out / 1e6,
        "hours": calls * cost.seconds / min(part.at_once, cost.at_once) / 3600,
    }
