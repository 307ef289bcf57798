"""Judge scores that were made elsewhere, the thesis's CSV files among them, checked against the scale."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.judge.rating import check_score
from crs_lib.judge.records import COLUMNS
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
