"""The rating of one dialogue: a judge scores every construct; a score that cannot be read is missing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol

import pandas as pd
from pydantic import BaseModel, Field, create_model

from crs_lib.core import paths, rng, safety
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.judge import prompt
from crs_lib.judge.config import JudgeSettings
from crs_lib.llm.base import LLMError, Reply, Request, room
from crs_lib.llm.text import likeliest
from crs_lib.metrics import constructs

COLUMNS = ("model", "session_id", "canary", "judge", "construct", "sample", "score", "flag", "value")


class _JudgeModel(Protocol):
    """A model that answers a judge's requests: an ``LLM``."""

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]: ...


@cache
def schema(group: tuple[str, ...]) -> dict[str, Any]:
    """The JSON schema of a reply about constructs that share a call: evidence, then the score of each."""
    verdict = _verdict(*prompt.scale(group))
    fields: dict[str, Any] = dict.fromkeys(group, (verdict, ...))
    made: type[BaseModel] = create_model("Judgement", **fields)
    return made.model_json_schema()


@cache
def _verdict(lowest: int, highest: int) -> type[BaseModel]:
    """The part of a reply that is about one construct. Its name and description stand in the schema."""
    fields: dict[str, Any] = {"evidence": (str, ...), "score": (int, Field(ge=lowest, le=highest))}
    made: type[BaseModel] = create_model(
        "Verdict", __doc__="The sentence that a score rests on, then the score.", **fields
    )
    return made


class _CheckedScore(NamedTuple):
    """A score of a construct's scale, or None with the reason in ``flag``; ``value`` is the value given."""

    score: float | None
    flag: str | None
    value: str
    evidence: str = ""


def check_score(value: Any, construct: str) -> _CheckedScore:
    """A given value as a score: a whole number of the construct's scale, or missing with a flag.

    Flags: ``missing`` (null, NaN), ``not a number`` (also true, false and texts), ``not whole``,
    ``out of range``.
    """
    lowest, highest = constructs.get(construct).scale
    shown = shorten(str(value), 80)
    if value is None or (isinstance(value, float) and value != value):
        return _CheckedScore(None, "missing", shown)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _CheckedScore(None, "not a number", shown)
    if not lowest <= value <= highest:
        return _CheckedScore(None, "out of range", shown)
    if value != int(value):
        return _CheckedScore(None, "not whole", shown)
    return _CheckedScore(int(value), None, shown)


def read_reply(text: str, group: Sequence[str]) -> dict[str, _CheckedScore]:
    """The score of each construct in a judge's reply; ``unreadable`` where it is not the JSON asked for."""
    try:
        record = safety.loads(text, "the reply")
    except InputError:
        record = None
    found = {}
    for name in group:
        part = record.get(name) if isinstance(record, Mapping) else None
        if not isinstance(part, Mapping) or "score" not in part:
            found[name] = _CheckedScore(None, "unreadable", shorten(text, 80))
        else:
            evidence = shorten(str(part.get("evidence", "")), 500)
            found[name] = check_score(part["score"], name)._replace(evidence=evidence)
    return found


def judge_session(
    dialogue: Dialogue,
    judges: Sequence[str],
    samples: int,
    models: Callable[[str], _JudgeModel],
    settings: JudgeSettings | None = None,
) -> dict[str, Any]:
    """One dialogue as several judges see it, each ``samples`` times: a record that can be a line of JSON.

    ``models`` gives the model of a judge's spec. ``judge`` holds the mean of each construct over judges
    (each the mean of its samples), null where all are missing; ``scores`` every single score with its flag;
    ``trim`` the part of the dialogue that was shown; ``rubric`` the prompt's digest. A reply that cannot be
    read is missing and flagged. A call that failed on the way (no server, time-out) raises its LLMError: the
    session can be judged again later.

    The record depends on the dialogue, the arguments and the replies only.
    Raises InputError for no judges, judges named twice, ``samples`` below 1, or nothing to judge.
    """
    asked = settings or JudgeSettings()
    if not judges or len(set(judges)) < len(judges):
        raise InputError(f"judges are {list(judges)}; name at least one, each once")
    if samples < 1:
        raise InputError(f"samples is {samples}; each judge is asked at least once")
    excerpt = prompt.fit(dialogue, asked.groups, room(asked.options), asked.expected)
    scores = []
    for judge in judges:
        requests = [
            _request(dialogue, excerpt, group, sample, asked)
            for group in asked.groups
            for sample in range(samples)
        ]
        for request, answer in zip(requests, models(judge).gather(requests), strict=True):
            scores += _scores(judge, request, answer)
    return {
        "session_id": dialogue.session_id,
        "model": dialogue.model_name,
        "judge": means(scores),
        "scores": scores,
        "missing": sum(row["score"] is None for row in scores),
        "trim": excerpt.to_json(),
        "rubric": prompt.digest(),
        "settings": {"samples": samples, **asked.told},
    }


def _request(
    dialogue: Dialogue,
    excerpt: prompt.Excerpt,
    group: tuple[str, ...],
    sample: int,
    asked: JudgeSettings,
) -> Request:
    name = "+".join(group)
    lowest, highest = prompt.scale(group)
    levels = tuple(str(level) for level in range(lowest, highest + 1))
    return Request(
        prompt.messages(dialogue, group, excerpt, asked.expected), "judge", options=asked.options,
        schema=None if asked.expected else schema(group), choices=levels if asked.expected else (),
        replicate=sample,
        seed=rng.address_seed(asked.seed, "judge", dialogue.session_id, name, sample),
        tags={"session": dialogue.session_id, "system": dialogue.model_name, "construct": name},
    )  # fmt: skip


def _scores(judge: str, request: Request, answer: Reply | LLMError) -> list[dict[str, Any]]:
    """The rows of one call; an error that is no unusable reply is raised."""
    if isinstance(answer, LLMError) and not answer.unusable:
        raise answer
    rows = []
    for name, found in _read(answer, request).items():
        rows.append({
            "judge": judge, "construct": name, "sample": request.replicate, "score": found.score,
            "flag": found.flag, "value": found.value, "evidence": found.evidence,
            "digest": answer.digest if isinstance(answer, Reply) else None,
            "error": str(answer) if isinstance(answer, LLMError) else None,
        })  # fmt: skip
    return rows


def _read(answer: Reply | LLMError, request: Request) -> dict[str, _CheckedScore]:
    """The score of each construct of a call, read from the reply's words or from its probabilities."""
    name = str(request.tags["construct"])
    if not request.choices:
        return read_reply(answer.text, name.split("+"))
    if isinstance(answer, LLMError):
        return {name: _CheckedScore(None, "unreadable", shorten(answer.text, 80))}
    return {name: expected_score(answer.probabilities)}


def expected_score(probabilities: Mapping[str, float]) -> _CheckedScore:
    """The mean of the levels by their probability, which need not sum to 1; no whole number.

    ``value`` is the likeliest level, ``evidence`` the probability of all levels together; the rest are words
    that are no level.
    Source: Liu et al. (2023), G-Eval, section 2: scores weighted by the probabilities of their tokens.
    """
    whole = sum(probabilities.values())
    score = sum(int(level) * share for level, share in probabilities.items()) / whole
    return _CheckedScore(score, None, likeliest(probabilities), f"a level with probability {whole:.2g}")


def means(scores: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of each construct over judges, each the mean of its samples; None where all are missing."""
    return {name: _mean_of_judges(scores, name) for name in constructs.names()}


def _mean_of_judges(scores: Sequence[Mapping[str, Any]], construct: str) -> float | None:
    """Mean over judges of the mean over samples; None where every score is missing."""
    given: dict[str, list[float]] = {}
    for row in scores:
        if row["construct"] == construct and row["score"] is not None:
            given.setdefault(str(row["judge"]), []).append(float(row["score"]))
    return fmean(fmean(values) for values in given.values()) if given else None


def validate(records: Iterable[Mapping[str, Any]], judge: str = "given") -> pd.DataFrame:
    """The judge scores of result records from anywhere, checked: a row for session and construct.

    Reads ``model``, ``session_id`` and ``judge`` (constructs to values) of each record. ``score`` is NaN
    where ``flag`` says why: ``missing``, ``not a number``, ``not whole``, ``out of range``; ``value`` is
    the value given. Every construct has a row. Source: the rubric's scale, whole numbers from 1 to 5.
    """
    rows = []
    for record in records:
        given = record.get("judge")
        values = given if isinstance(given, Mapping) else {}
        for construct in constructs.names():
            found = check_score(values.get(construct), construct)
            rows.append({
                "model": record.get("model"), "session_id": record.get("session_id"), "canary": "",
                "judge": judge, "construct": construct, "sample": 0, "score": found.score,
                "flag": found.flag, "value": found.value,
            })  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


@safety.reader("judge scores")
def read_scores(path: str | Path, pattern: str = "*judge*.csv", judge: str = "thesis") -> pd.DataFrame:
    """Every score of judge CSV files, checked against the scale: a row for session and construct.

    ``path`` is one file, or a folder whose files match ``pattern``. The files name no session: the n-th
    row of a model is its session n, counted from 0, as the thesis wrote them; ``session_id`` is that whole
    number. ``score`` is NaN where ``flag`` says why (missing, not a number, not whole, out of range), and
    ``value`` is the text of the cell; columns as in :func:`validate`.

    Raises InputError for no file, a missing column, and a model with rows in two files.
    """
    records: list[dict[str, Any]] = []
    owner: dict[str, str] = {}
    for file in _files(paths.given(path), pattern):
        for model, part in _table_of(file).groupby("model", sort=False):
            if str(model) in owner:
                raise InputError(
                    f"{file.name}: model {model!r} has rows in {owner[str(model)]} too, so its sessions "
                    "cannot be counted; choose one set of files with pattern"
                )
            owner[str(model)] = file.name
            for session, row in enumerate(part.to_dict("records")):
                given = {name: _number(row[name]) for name in constructs.names()}
                records.append({"model": model, "session_id": session, "judge": given})
    return validate(records, judge)


def _files(path: Path, pattern: str) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.glob(pattern)) if path.is_dir() else []
    if not found:
        raise InputError(
            f"no judge scores in {paths.shown(path)}; expected a CSV, or a folder with {pattern}"
        )
    return found


def _table_of(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{path.name} cannot be read as a CSV: {error}") from error
    missing = [name for name in ("model", *constructs.names()) if name not in frame.columns]
    if missing:
        raise InputError(f"{path.name}: columns {missing} are missing; it has {list(frame.columns)[:20]}")
    return frame


def _number(text: str) -> float | str | None:
    """The cell's number; None for an empty one; anything else as it stands, for the report to name."""
    if text.strip().lower() in ("", "nan", "none", "null"):
        return None
    try:
        return float(text)
    except ValueError:
        return text
