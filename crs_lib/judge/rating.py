"""The rating of one dialogue: a judge scores every construct; a score that cannot be read is missing."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

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
_VALUE, _EVIDENCE = 80, 500  # characters of a value given and of its evidence


def reply_schema(group: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a reply about constructs in one call: evidence, then the score of each."""
    lowest, highest = constructs.get(group[0]).scale
    evidence = {"title": "Evidence", "type": "string"}
    score = {"maximum": highest, "minimum": lowest, "title": "Score", "type": "integer"}
    verdict = _object("Verdict", {"evidence": evidence, "score": score})
    verdict["description"] = "The sentence that a score rests on, then the score."
    schema = _object("Judgement", {name: {"$ref": "#/$defs/Verdict"} for name in group})
    schema["$defs"] = {"Verdict": verdict}
    return schema


def _object(title: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object that has all of these properties."""
    return {"properties": properties, "required": [*properties], "title": title, "type": "object"}


@dataclass(frozen=True)
class CheckedScore:
    """A score of a construct's scale, or None with the reason in ``flag``; ``value`` is the value given."""

    score: float | None
    flag: str | None
    value: str
    evidence: str = ""


def _check_score(value: Any, construct: str, evidence: str = "") -> CheckedScore:
    """A given value as a score: a whole number of the construct's scale, or missing with a flag. Flags:
    ``missing`` (null, NaN), ``not a number`` (also true, false and texts), ``not whole``, ``out of range``.
    """
    shown = shorten(str(value), _VALUE)
    flag = _flag(value, construct)
    if flag:
        return CheckedScore(None, flag, shown, evidence)
    return CheckedScore(int(value), None, shown, evidence)


def _flag(value: Any, construct: str) -> str | None:
    """Why a value is no score; None where it is one."""
    lowest, highest = constructs.get(construct).scale
    if value is None or value != value:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not a number"
    if not lowest <= value <= highest:
        return "out of range"
    if value != int(value):
        return "not whole"
    return None


def read_reply(text: str, group: Sequence[str]) -> dict[str, CheckedScore]:
    """The score of each construct in a judge's reply; ``unreadable`` where it is not the JSON asked for."""
    try:
        record = safety.loads(text, "the reply")
    except InputError:
        record = None
    scores = {}
    for name in group:
        part = record.get(name) if isinstance(record, Mapping) else None
        if isinstance(part, Mapping) and "score" in part:
            words = str(part.get("evidence", ""))
            evidence = shorten(words, _EVIDENCE)
            scores[name] = _check_score(part["score"], name, evidence)
        else:
            scores[name] = CheckedScore(None, "unreadable", shorten(text, _VALUE))
    return scores


def judge_session(
    dialogue: Dialogue, judge: str, samples: int, model: LLM, settings: JudgeSettings
) -> dict[str, Any]:
    """One dialogue as a judge sees it, asked ``samples`` times: a record that can be a line of JSON.
    ``scores`` holds every single score with its flag; ``trim`` the part of the dialogue that was shown;
    ``rubric`` the prompt's digest. A reply that cannot be read is missing and flagged. A call that failed on
    the way (no server, time-out) raises its LLMError: the session can be judged again later. The record
    depends on the dialogue, the arguments and the replies only. InputError where there is no reply.
    """
    most = room(settings.options)
    excerpt = prompt.fit(dialogue, settings.groups, most, settings.expected)
    requests = []
    for group, sample in product(settings.groups, range(samples)):
        requests.append(_request(dialogue, excerpt, group, sample, settings))
    scores: list[dict[str, Any]] = []
    for request, answer in zip(requests, model.gather(requests), strict=True):
        scores += _scores(judge, request, answer)
    record: dict[str, Any] = {"scores": scores}
    record["trim"] = excerpt.to_json()
    record["rubric"] = prompt.digest()
    record["settings"] = {"samples": samples, **settings.record()}
    return record


def _request(
    dialogue: Dialogue, excerpt: prompt.Excerpt, group: tuple[str, ...], sample: int, settings: JudgeSettings
) -> Request:
    name = "+".join(group)
    session = dialogue.session_id
    seed = rng.address_seed(settings.seed, "judge", session, name, sample)
    tags = {"session": session, "system": dialogue.model_name, "construct": name}
    messages = prompt.messages(dialogue, group, excerpt, settings.expected)
    request = Request(messages, "judge", seed, settings.options, replicate=sample, tags=tags)
    if settings.expected:
        return replace(request, choices=tuple(prompt.LEVELS))
    return replace(request, schema=reply_schema(group))


def _scores(judge: str, request: Request, answer: Reply | LLMError) -> list[dict[str, Any]]:
    """The rows of one call; an error that is no unusable reply is raised."""
    digest = None
    error = None
    if isinstance(answer, Reply):
        digest = answer.digest
    elif answer.unusable:
        error = str(answer)
    else:
        raise answer
    group = str(request.tags["construct"])
    if request.choices and isinstance(answer, Reply):
        scores = {group: expected_score(answer.probabilities, group)}
    else:
        scores = read_reply(answer.text, group.split("+"))
    rows = []
    for name, score in scores.items():
        row = {"judge": judge, "sample": request.replicate, "construct": name, **asdict(score)}
        row.update(digest=digest, error=error)
        rows.append(row)
    return rows


def expected_score(probabilities: Mapping[str, float], construct: str) -> CheckedScore:
    """The mean of a construct's levels by the probability of their letters, which need not sum to 1.
    ``value`` is the likeliest level, ``evidence`` the probability of all levels together; the rest are words
    that are no level. Source: Liu et al. (2023), G-Eval, section 2.
    """
    shares = {}
    for level, letter in enumerate(prompt.LEVELS, start=constructs.get(construct).lowest):
        shares[level] = probabilities[letter]
    whole = sum(shares.values())
    likeliest = max(shares, key=lambda level: shares[level])
    score = sum(level * share for level, share in shares.items()) / whole
    return CheckedScore(score, None, str(likeliest), f"a level with probability {whole:.2g}")


def means(
    scores: Sequence[Mapping[str, Any]], judges: Collection[str] | None = None
) -> dict[str, float | None]:
    """The mean of each construct over (these) judges, each the mean of its samples; None without a score."""
    samples: dict[tuple[str, str], list[float]] = {}
    for row in scores:
        judge = str(row["judge"])
        score = row["score"]
        is_counted = judges is None or judge in judges
        if score is not None and is_counted:
            samples.setdefault((row["construct"], judge), []).append(float(score))
    by_construct: dict[str, list[float]] = {name: [] for name in constructs.names()}
    for (construct, _), values in samples.items():
        by_construct[construct].append(fmean(values))
    averages: dict[str, float | None] = {}
    for name, of_judges in by_construct.items():
        averages[name] = fmean(of_judges) if of_judges else None
    return averages


@safety.reader("judge scores")
def read_scores(path: str | Path, pattern: str = "*judge*.csv", judge: str = "thesis") -> pd.DataFrame:
    """Every score of judge CSV files, checked against the scale of whole numbers from 1 to 5.

    Parameters
    ----------
    path
        One file, or a folder whose files match ``pattern``. The files name no session: the n-th row of a
        model is its session n, counted from 0, as the thesis wrote them.
    pattern
        Of the files in a folder.
    judge
        The name under which the scores go.

    Returns
    -------
    pandas.DataFrame
        A row for session and construct. ``score`` is NaN where ``flag`` says why (missing, not a number, not
        whole, out of range), and ``value`` is the text of the cell.

    Raises
    ------
    InputError
        For no file, a missing column, and a model with rows in two files.
    """
    source = paths.given(path)
    files = [source] if source.is_file() else sorted(source.glob(pattern))
    if not files:
        expected = f"expected a CSV, or a folder with {pattern}"
        raise InputError(f"no judge scores in {paths.shown(source)}; {expected}")
    rows: list[dict[str, Any]] = []
    owners: dict[str, str] = {}
    for file in files:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False)
        contract = tables.Contract(file.name, ("model", *constructs.names()), ())
        for model, part in contract.check(frame).groupby("model", sort=False):
            owner = owners.setdefault(str(model), file.name)
            if owner != file.name:
                fault = f"{file.name}: model {model!r} has rows in {owner} too"
                raise InputError(f"{fault}, so its sessions cannot be counted; choose one set of files")
            for session, texts in enumerate(part.to_dict("records")):
                head = {"model": model, "session_id": session, "judge": judge}
                rows += _cells(head, texts)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


def _cells(head: Mapping[str, Any], texts: Mapping[Any, str]) -> list[dict[str, Any]]:
    """The scores of one row of a file, a row each."""
    single = {"canary": "", "sample": 0}
    rows = []
    for name in constructs.names():
        score = _check_score(_number(texts[name]), name)
        rows.append({**head, **single, "construct": name, **asdict(score)})
    return rows


def _number(text: str) -> float | str | None:
    """The cell's number; None for an empty one; anything else as it stands, for the report to name."""
    if text.strip().lower() in ("", "nan", "none", "null"):
        return None
    try:
        return float(text)
    except ValueError:
        return text
