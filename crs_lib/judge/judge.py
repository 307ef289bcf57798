"""A judge reads a finished dialogue and gives 1 to 5 for each construct; what cannot be read is missing."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple, Protocol

import pandas as pd
from pydantic import BaseModel, Field, create_model

from crs_lib.core import rng
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.judge import prompt
from crs_lib.judge.prompt import CONSTRUCTS, HIGHEST, LOWEST
from crs_lib.judge.settings import Settings
from crs_lib.llm.base import Reply, Request
from crs_lib.llm.errors import LLMError
from crs_lib.llm.limits import room

COLUMNS = ("model", "session_id", "canary", "judge", "construct", "sample", "score", "flag", "value")


class Judging(Protocol):
    """What answers a judge's requests: an ``LLM``."""

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]: ...


class Verdict(BaseModel):
    """The sentence that a score rests on, then the score."""

    evidence: str
    score: int = Field(ge=LOWEST, le=HIGHEST)


@cache
def schema(constructs: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schema of a reply about these constructs: evidence, then a whole score from 1 to 5."""
    fields: dict[str, Any] = dict.fromkeys(constructs, (Verdict, ...))
    made: type[BaseModel] = create_model("Judgement", **fields)
    return made.model_json_schema()


class Reading(NamedTuple):
    """A score, or None with the reason in ``flag``; ``value`` is what was given, for the log."""

    score: int | None
    flag: str | None
    value: str
    evidence: str = ""


def check_value(value: Any) -> Reading:
    """A given value as a score: a whole number from 1 to 5, or missing with a flag.

    Flags: ``missing`` (null, NaN), ``not a number`` (also true, false and texts), ``not whole``,
    ``out of range``.
    """
    shown = shorten(str(value), 80)
    if value is None or (isinstance(value, float) and value != value):
        return Reading(None, "missing", shown)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Reading(None, "not a number", shown)
    if not LOWEST <= value <= HIGHEST:
        return Reading(None, "out of range", shown)
    if value != int(value):
        return Reading(None, "not whole", shown)
    return Reading(int(value), None, shown)


def read_reply(text: str, constructs: Sequence[str]) -> dict[str, Reading]:
    """The reading of each construct in a judge's reply; ``unreadable`` where it is not the JSON asked for."""
    try:
        record = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        record = None
    readings = {}
    for name in constructs:
        part = record.get(name) if isinstance(record, Mapping) else None
        if not isinstance(part, Mapping) or "score" not in part:
            readings[name] = Reading(None, "unreadable", shorten(text, 80))
        else:
            readings[name] = check_value(part["score"])._replace(
                evidence=shorten(str(part.get("evidence", "")), 500)
            )
    return readings


def judge_session(
    dialogue: Dialogue,
    judges: Sequence[str],
    samples: int,
    llm_factory: Callable[[str], Judging],
    settings: Settings | None = None,
) -> dict[str, Any]:
    """One dialogue as several judges see it, each ``samples`` times: a record that can be a line of JSON.

    ``judge`` holds the mean of each construct over judges (each the mean of its samples), null where all
    are missing; ``scores`` every single score with its flag; ``trim`` what was shown; ``rubric`` the
    prompt's digest. A reply that cannot be read is missing and flagged. A call that failed on the way
    (no server, time-out) raises its LLMError: the session can be judged again later.

    The record depends on the dialogue, the arguments and the replies only.
    Raises InputError for no judges, judges named twice, ``samples`` below 1, or nothing to judge.
    """
    asked = settings or Settings()
    if not judges or len(set(judges)) < len(judges):
        raise InputError(f"judges are {list(judges)}; name at least one, each once")
    if samples < 1:
        raise InputError(f"samples is {samples}; each judge is asked at least once")
    shown = prompt.fit(dialogue, asked.groups, room(asked.options))
    scores = []
    for judge in judges:
        requests = [
            _request(dialogue, shown, group, sample, asked)
            for group in asked.groups
            for sample in range(samples)
        ]
        for request, answer in zip(requests, llm_factory(judge).gather(requests), strict=True):
            scores += _scores(judge, request, answer)
    return {
        "session_id": dialogue.session_id,
        "model": dialogue.model_name,
        "judge": means(scores),
        "scores": scores,
        "missing": sum(row["score"] is None for row in scores),
        "trim": shown.to_json(),
        "rubric": prompt.digest(),
        "settings": {"samples": samples, **asdict(asked)},
    }


def _request(
    dialogue: Dialogue,
    shown: prompt.Shown,
    group: tuple[str, ...],
    sample: int,
    asked: Settings,
) -> Request:
    name = "+".join(group)
    return Request(
        prompt.messages(dialogue, group, shown), "judge", options=asked.options,
        schema=schema(group), replicate=sample,
        seed=rng.address_seed(asked.seed, "judge", dialogue.session_id, name, sample),
        tags={"session": dialogue.session_id, "system": dialogue.model_name, "construct": name},
    )  # fmt: skip


def _scores(judge: str, request: Request, answer: Reply | LLMError) -> list[dict[str, Any]]:
    """The rows of one call; an error that is no unusable reply is raised."""
    if isinstance(answer, LLMError) and answer.remedy not in ("other seed", "more room"):
        raise answer
    constructs = str(request.tags["construct"]).split("+")
    rows = []
    for name, reading in read_reply(answer.text, constructs).items():
        rows.append({
            "judge": judge, "construct": name, "sample": request.replicate, "score": reading.score,
            "flag": reading.flag, "value": reading.value, "evidence": reading.evidence,
            "digest": answer.digest if isinstance(answer, Reply) else None,
            "error": str(answer) if isinstance(answer, LLMError) else None,
        })  # fmt: skip
    return rows


def means(scores: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of each construct over judges, each the mean of its samples; None where all are missing."""
    return {name: _mean_of_judges(scores, name) for name in CONSTRUCTS}


def _mean_of_judges(scores: Sequence[Mapping[str, Any]], construct: str) -> float | None:
    """Mean over judges of the mean over samples; None where every score is missing."""
    given: dict[str, list[int]] = {}
    for row in scores:
        if row["construct"] == construct and row["score"] is not None:
            given.setdefault(str(row["judge"]), []).append(int(row["score"]))
    return fmean(fmean(values) for values in given.values()) if given else None


def score_table(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """All single scores of judged sessions, one row each; missing scores are NaN with their flag.

    ``canary`` is empty for original dialogues.
    """
    rows = [
        {"model": r["model"], "session_id": r["session_id"], "canary": r.get("canary", ""), **score}
        for r in records
        for score in r["scores"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})
