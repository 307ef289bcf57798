"""The judges' scores of a run: read from its folder, as a table, beside the run's results."""

import re
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import pandas as pd

from crs_lib import llm, runs, simulate
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.metrics import constructs

STAGE, SCORES = "judge", "judge_scores.jsonl"
COLUMNS = ("model", "session_id", "canary", "judge", "construct", "sample", "score", "flag", "value")


def read_records(run: str) -> list[dict[str, Any]]:
    """The judged dialogues of a run, canaries included; RunError if there are none, or older ones.

    A judge that is under way, or failed, takes nothing from those that ended before.
    """
    if not is_judged(run):
        raise RunError(
            f"run {run!r} was not judged; do it with: python -m crs_lib judge {run} --judges MODEL"
        )
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    entry = runs.entry(simulate.STUDY, run, STAGE)
    if entry["inputs"]["dialogues"] != made["outputs"]["dialogues.jsonl"]:
        raise RunError(f"the judges of run {run!r} read older dialogues than it has now; judge it again")
    if entry["status"] == "finished":
        runs.as_written(simulate.STUDY, run, entry, SCORES, f"python -m crs_lib judge {run} --judges MODEL")
    return list(tables.read_jsonl(paths.run_folder(simulate.STUDY, run) / SCORES))


def is_judged(run: str) -> bool:
    """Whether a judge has ended its work on a run; its scores are in one file, which is always whole."""
    judged = bool(runs.entry(simulate.STUDY, run, STAGE))
    return judged and (paths.run_folder(simulate.STUDY, run) / SCORES).is_file()


def scores_of(run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The judges' scores of each session, by (model, session_id); empty for a run that was not judged.

    ``judge`` holds the mean of each construct over the judges that count (:func:`counted`), or None;
    ``scores`` how many were asked for, ``missing`` how many of them could not be read. Canaries are left out.
    """
    if not is_judged(run):
        return {}
    originals = [row for row in read_records(run) if not row["canary"]]
    judges: dict[str, set[str]] = {}
    for row in originals:
        judges.setdefault(row["model"], set()).update(str(score["judge"]) for score in row["scores"])
    mine = {model: counted(model, names) for model, names in judges.items()}
    return {
        (row["model"], row["session_id"]): {
            "judge": _means(row["scores"], mine[row["model"]]),
            "scores": len(row["scores"]), "missing": row["missing"],
        }
        for row in originals
    }  # fmt: skip


def _means(scores: Iterable[Mapping[str, Any]], judges: frozenset[str]) -> dict[str, float | None]:
    """The mean of each construct over these judges, each the mean of its samples; None without a score."""
    given: dict[str, dict[str, list[float]]] = {name: {} for name in constructs.names()}
    for row in scores:
        if row["score"] is not None and row["judge"] in judges and row["construct"] in given:
            given[row["construct"]].setdefault(str(row["judge"]), []).append(float(row["score"]))
    return {
        name: fmean(fmean(values) for values in mine.values()) if mine else None
        for name, mine in given.items()
    }


def family(spec: str) -> str:
    """The family of a model: the letters its name starts with, "llama" for ``ollama:llama3:instruct``.

    An organisation before a slash is left out; a spec without a model (``template``) is its own family.
    """
    served = re.search(r"(?:^|:)(?:ollama|openai|local):(.+)$", spec)
    model = (served[1] if served else spec).rsplit("/", 1)[-1]
    found = re.match(r"[A-Za-z]+", model)
    return found[0].lower() if found else model.lower()


def counted(model: str, judges: Iterable[str]) -> frozenset[str]:
    """The judges whose scores of a system count: those of other families, all of them where there is none."""
    every = frozenset(map(str, judges))
    return frozenset(judge for judge in every if family(judge) != family(model)) or every


def add_scores(
    session: Mapping[str, Any], scores: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """A session's result with its judges' means under ``judge``, and how many are missing in ``detail``.

    ``scores`` are those of :func:`scores_of`. Unchanged where the session was not judged.
    """
    found = scores.get((str(session["model"]), str(session["session_id"])))
    if found is None:
        return dict(session)
    counted = {"judge_scores": found["scores"], "judge_missing": found["missing"]}
    return {**session, "judge": dict(found["judge"]), "detail": {**session["detail"], **counted}}


def score_table(run: str) -> pd.DataFrame:
    """Every single score of a judged run, as agreement, self-preference and canary reports take them."""
    return table_of(read_records(run))


def table_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """All single scores of judged sessions, one row each; missing scores are NaN with their flag.

    ``canary`` is empty for original dialogues.
    """
    rows = [
        {"model": r["model"], "session_id": r["session_id"], "canary": r.get("canary", ""), **score}
        for r in records
        for score in r["scores"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


def shown_scores(run: str) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct; a note where none was.

    Canaries count too. Raises RunError for scores of older dialogues.
    """
    if not is_judged(run):
        return pd.DataFrame({"note": [f"run {run!r} was not judged"]})
    return flag_counts(score_table(run))


def flag_counts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct."""
    flagged = scores.assign(flag=scores["flag"].fillna("given"))
    counts = flagged.groupby(["judge", "construct", "flag"]).size()
    counts = counts.unstack("flag", fill_value=0)  # noqa: PD010 -- it is a count already
    counts.insert(0, "asked", counts.sum(axis=1))
    if "given" not in counts:
        counts.insert(1, "given", 0)
    rest = sorted(set(counts.columns) - {"asked", "given"})
    return counts[["asked", "given", *rest]].reset_index().rename_axis(columns=None)


def usage(run: str) -> pd.DataFrame:
    """Calls, tokens and time of a run's language models, a row for each role and model."""
    return llm.usage(paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl")
