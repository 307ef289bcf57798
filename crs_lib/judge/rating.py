"""The rating of one dialogue: a judge scores every construct; a score that cannot be read is missing."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, Field, create_model

from crs_lib.core import paths, rng, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.judge import prompt
from crs_lib.judge.config import JudgeSettings
from crs_lib.llm import LLM
from crs_lib.llm.base import LLMError, Reply, Request, room
from crs_lib.metrics import constructs

COLUMNS = ("model", "session_id", "canary", "judge", "construct", "sample", "score", "flag", "value")


@cache
def _schema(group: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schema of a reply about constructs in one call: evidence, then the score of each."""
    lowest, highest = prompt.scale(group)
    score: Any = (int, Field(ge=lowest, le=highest))
    told = "The sentence that a score rests on, then the score."
    verdict = create_model("Verdict", __doc__=told, evidence=(str, ...), score=score)
    fields: dict[str, Any] = dict.fromkeys(group, (verdict, ...))
    made: type[BaseModel] = create_model("Judgement", **fields)
    return made.model_json_schema()


class _CheckedScore(NamedTuple):
    """A score of a construct's scale, or None with the reason in ``flag``; ``value`` is the value given."""

    score: float | None
    flag: str | None
    value: str
    evidence: str = ""


def _check_score(value: Any, construct: str) -> _CheckedScore:
    """A given value as a score: a whole number of the construct's scale, or missing with a flag. Flags:
    ``missing`` (null, NaN), ``not a number`` (also true, false and texts), ``not whole``, ``out of range``.
    """
    lowest, highest = constructs.get(construct).scale
    shown, flag = shorten(str(value), 80), None
    if value is None or value != value:
        flag = "missing"
    elif isinstance(value, bool) or not isinstance(value, int | float):
        flag = "not a number"
    elif not lowest <= value <= highest:
        flag = "out of range"
    elif value != int(value):
        flag = "not whole"
    return _CheckedScore(None if flag else int(value), flag, shown)


def _read_reply(text: str, group: Sequence[str]) -> dict[str, _CheckedScore]:
    """The score of each construct in a judge's reply; ``unreadable`` where it is not the JSON asked for."""
    record, found = None, {}
    with suppress(InputError):
        record = safety.loads(text, "the reply")
    for name in group:
        part = record.get(name) if isinstance(record, Mapping) else None
        if not isinstance(part, Mapping) or "score" not in part:
            found[name] = _CheckedScore(None, "unreadable", shorten(text, 80))
        else:
            evidence = shorten(str(part.get("evidence", "")), 500)
            found[name] = _check_score(part["score"], name)._replace(evidence=evidence)
    return found


def judge_session(
    dialogue: Dialogue, judge: str, samples: int, model: LLM, asked: JudgeSettings
) -> dict[str, Any]:
    """One dialogue as a judge sees it, asked ``samples`` times: a record that can be a line of JSON.
    ``scores`` holds every single score with its flag; ``trim`` the part of the dialogue that was shown;
    ``rubric`` the prompt's digest. A reply that cannot be read is missing and flagged. A call that failed on
    the way (no server, time-out) raises its LLMError: the session can be judged again later. The record
    depends on the dialogue, the arguments and the replies only. InputError where there is no reply.
    """
    excerpt = prompt.fit(dialogue, asked.groups, room(asked.options), asked.expected)
    places = product(asked.groups, range(samples))
    requests = [_request(dialogue, excerpt, group, sample, asked) for group, sample in places]
    answers = zip(requests, model.gather(requests), strict=True)
    scores = [row for request, answer in answers for row in _scores(judge, request, answer)]
    how = {"rubric": prompt.digest(), "settings": {"samples": samples, **asked.told}}
    return {"scores": scores, "trim": excerpt.to_json(), **how}


def _request(
    dialogue: Dialogue, excerpt: prompt.Excerpt, group: tuple[str, ...], sample: int, asked: JudgeSettings
) -> Request:
    name = "+".join(group)
    how = {"choices": tuple(prompt.LEVELS)} if asked.expected else {"schema": _schema(group)}
    return Request(
        prompt.messages(dialogue, group, excerpt, asked.expected), "judge", options=asked.options,
        seed=rng.address_seed(asked.seed, "judge", dialogue.session_id, name, sample), replicate=sample,
        tags={"session": dialogue.session_id, "system": dialogue.model_name, "construct": name}, **how,
    )  # fmt: skip


def _scores(judge: str, request: Request, answer: Reply | LLMError) -> list[dict[str, Any]]:
    """The rows of one call; an error that is no unusable reply is raised."""
    told: dict[str, str | None] = {"digest": None, "error": str(answer)}
    if isinstance(answer, Reply):
        told = {"digest": answer.digest, "error": None}
    elif not answer.unusable:
        raise answer
    group = str(request.tags["construct"])
    if request.choices and isinstance(answer, Reply):
        read = {group: _expected_score(answer.probabilities, group)}
    else:
        read = _read_reply(answer.text, group.split("+"))
    head = {"judge": judge, "sample": request.replicate}
    return [head | {"construct": name} | found._asdict() | told for name, found in read.items()]


def _expected_score(probabilities: Mapping[str, float], construct: str) -> _CheckedScore:
    """The mean of a construct's levels by the probability of their letters, which need not sum to 1.
    ``value`` is the likeliest level, ``evidence`` the probability of all levels together; the rest are words
    that are no level. Source: Liu et al. (2023), G-Eval, section 2.
    """
    shares = dict(enumerate(map(probabilities.__getitem__, prompt.LEVELS), constructs.get(construct).lowest))
    whole, likely = sum(shares.values()), max(shares, key=shares.__getitem__)
    score = sum(level * share for level, share in shares.items()) / whole
    return _CheckedScore(score, None, str(likely), f"a level with probability {whole:.2g}")


def means(
    scores: Sequence[Mapping[str, Any]], judges: Collection[str] | None = None
) -> dict[str, float | None]:
    """The mean of each construct over (these) judges, each the mean of its samples; None without a score."""
    given: dict[str, dict[str, list[float]]] = {name: {} for name in constructs.names()}
    for row in scores:
        counts = judges is None or row["judge"] in judges
        if row["score"] is not None and counts and row["construct"] in given:
            given[row["construct"]].setdefault(str(row["judge"]), []).append(float(row["score"]))
    return {name: fmean(map(fmean, mine.values())) if mine else None for name, mine in given.items()}


@safety.reader("judge scores")
def read_scores(path: str | Path, pattern: str = "*judge*.csv", judge: str = "thesis") -> pd.DataFrame:
    """Every score of judge CSV files, checked against the scale: a row for session and construct.
    ``path`` is one file, or a folder whose files match ``pattern``. The files name no session: the n-th row
    of a model is its session n, counted from 0, as the thesis wrote them; ``session_id`` is that whole
    number. ``score`` is NaN where ``flag`` says why (missing, not a number, not whole, out of range), and
    ``value`` is the text of the cell. Source: the rubric's scale, whole numbers from 1 to 5. Raises
    InputError for no file, a missing column, and a model with rows in two files.
    """
    rows: list[dict[str, Any]] = []
    owner: dict[str, str] = {}
    place = paths.given(path)
    files = [place] if place.is_file() else sorted(place.glob(pattern))
    if not files:
        expected = f"expected a CSV, or a folder with {pattern}"
        raise InputError(f"no judge scores in {paths.shown(place)}; {expected}")
    for file in files:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        contract = tables.Contract(file.name, ("model", *constructs.names()), ())
        for model, part in contract.check(frame).groupby("model", sort=False):
            if str(model) in owner:
                told = f"{file.name}: model {model!r} has rows in {owner[str(model)]} too"
                raise InputError(f"{told}, so its sessions cannot be counted; choose one set of files")
            owner[str(model)] = file.name
            for session, texts in enumerate(part.to_dict("records")):
                head = {"model": model, "session_id": session, "canary": "", "judge": judge, "sample": 0}
                for name in constructs.names():
                    found = _check_score(_number(texts[name]), name)
                    rows.append(head | {"construct": name} | found._asdict())
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


def _number(text: str) -> float | str | None:
    """The cell's number; None for an empty one; anything else as it stands, for the report to name."""
    if text.strip().lower() in ("", "nan", "none", "null"):
        return None
    try:
        return float(text)
    except ValueError:
        return text
