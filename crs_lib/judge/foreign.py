"""Judge scores that were made elsewhere, the thesis's CSV files among them, checked against the scale."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import data as logs
from crs_lib import runs, simulate
from crs_lib.core import outside, paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.judge.rating import check_score
from crs_lib.judge.records import COLUMNS, SCORES, STAGE, flag_counts
from crs_lib.metrics import constructs


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


@outside.reader("judge scores")
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
        for model, part in _read(file).groupby("model", sort=False):
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


def adopt(run: str, path: str | Path, judge: str = "thesis") -> pd.DataFrame:
    """Judge scores made elsewhere, put into a run as its own; returns how many of each flag, by construct.

    ``path`` is a file, a folder or a pattern of files, as ``scores/*judge*.csv``, each as
    :func:`read_scores` takes it; a model is recognised by the name that it has as a file. A
    session without a row has missing scores, and so has a system that no file names. Rows of other systems
    and sessions are left out. Raises RunError for a run that was judged, InputError as :func:`read_scores`.
    """
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    before = runs.entry(simulate.STUDY, run, STAGE)
    if before and not before["parameters"].get("adopted"):
        raise RunError(f"run {run!r} was judged already; judge scores from elsewhere need another run")
    place = Path(path)
    several = "*" in place.name
    given = read_scores(place.parent if several else place, place.name if several else "*judge*.csv", judge)
    given["model"] = given["model"].map(lambda name: paths.slug(str(name)))
    known = dict(iter(given.groupby(["model", "session_id"], sort=False)))
    with runs.stage(simulate.STUDY, run, STAGE, {"adopted": judge}, inputs, fixed=False) as stage:
        lines, rows = list[str](), list[dict[str, Any]]()
        for dialogue in simulate.iter_dialogues(run):
            key = logs.session_key(dialogue)
            scores = _scores_of(known.get((key.model, key.session)), judge)
            rows += scores
            means = {row["construct"]: row["score"] for row in scores}
            record = {
                "model": dialogue.model_name, "session_id": dialogue.session_id, "canary": "", "judge": means,
                "scores": scores, "missing": sum(row["score"] is None for row in scores),
            }  # fmt: skip
            lines.append(tables.dumps(record))
        tables.write_jsonl(stage.path(SCORES), lines)
        stage.counts |= {"dialogues": len(lines), "scores": len(rows)}
    frame = pd.DataFrame(rows, columns=["judge", "construct", "sample", "score", "flag", "value"])
    return flag_counts(frame)


def _scores_of(part: pd.DataFrame | None, judge: str) -> list[dict[str, Any]]:
    """The scores of a session, one a construct; missing where no file has the session."""
    if part is None:
        return [
            {"judge": judge, "construct": name, "sample": 0, "score": None, "flag": "missing", "value": ""}
            for name in constructs.names()
        ]
    return [
        {
            "judge": judge, "construct": row.construct, "sample": 0,
            "score": None if pd.isna(row.score) else int(row.score), "flag": row.flag, "value": row.value,
        }
        for row in part.itertuples()
    ]  # fmt: skip


def _files(path: Path, pattern: str) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.glob(pattern)) if path.is_dir() else []
    if not found:
        raise InputError(
            f"no judge scores in {paths.shown(path)}; expected a CSV, or a folder with {pattern}"
        )
    return found


def _read(path: Path) -> pd.DataFrame:
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
