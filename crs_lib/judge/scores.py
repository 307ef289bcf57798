"""What judge scores are worth: validity of foreign ones, agreement, self-preference, fair means."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.core.registry import split_spec
from crs_lib.judge.judge import check_value
from crs_lib.judge.prompt import CONSTRUCTS

_NEEDED = ("model", "session_id", "judge", "construct", "sample", "score")


def validate(records: Iterable[Mapping[str, Any]], judge: str = "given") -> pd.DataFrame:
    """The judge scores of result records from anywhere, checked: a row for session and construct.

    Reads ``model``, ``session_id`` and ``judge`` (constructs to values) of each record. ``score`` is NaN
    where ``flag`` says why: ``missing``, ``not a number``, ``not whole``, ``out of range``; ``value`` is
    what was given. Every construct has a row. Source: the rubric's scale, whole numbers from 1 to 5.
    """
    rows = []
    for record in records:
        given = record.get("judge")
        values = given if isinstance(given, Mapping) else {}
        for construct in CONSTRUCTS:
            reading = check_value(values.get(construct))
            rows.append({
                "model": record.get("model"), "session_id": record.get("session_id"), "canary": "",
                "judge": judge, "construct": construct, "sample": 0, "score": reading.score,
                "flag": reading.flag, "value": reading.value,
            })  # fmt: skip
    columns = ["model", "session_id", "canary", "judge", "construct", "sample", "score", "flag", "value"]
    return pd.DataFrame(rows, columns=columns).astype({"score": float})


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


def family(spec: str) -> str:
    """The family of a model: the letters its name starts with, "llama" for ``ollama:llama3:instruct``.

    An organisation before a slash is left out; a spec without a model (``template``) is its own family.
    """
    name, argument = split_spec(spec)
    model = (argument if argument and name in ("ollama", "openai") else spec).rsplit("/", 1)[-1]
    found = re.match(r"[A-Za-z]+", model)
    return found[0].lower() if found else model.lower()


def agreement(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How far judges agree with one another and with themselves, a row for construct and measure.

    ``alpha`` is Krippendorff's ordinal alpha over judges (each the median of its samples), ``icc`` the
    intraclass correlation ICC(2,k) of their mean, ``retest`` the ordinal alpha over the samples of one
    judge. All are at most 1, which is perfect. ``value`` is NaN with a ``reason`` where it is undefined;
    ``n`` counts dialogues. Canaries are left out.
    """
    originals = _originals(scores)
    rows = []
    for construct, part in originals.groupby("construct", sort=True):
        item = part["model"].astype(str) + "\n" + part["session_id"].astype(str)
        rated = part.assign(item=item).groupby(["item", "judge"], as_index=False)["score"].median()
        rows.append({"construct": construct, "measure": "alpha", "judge": "all",
                     **_alpha(rated, "judge", resamples, seed)})  # fmt: skip
        rows.append({"construct": construct, "measure": "icc", "judge": "all", **_icc(rated)})
        for judge, own in part.assign(item=item).groupby("judge", sort=True):
            rows.append({"construct": construct, "measure": "retest", "judge": judge,
                         **_alpha(own, "sample", resamples, seed)})  # fmt: skip
    columns = ["construct", "measure", "judge", "value", "low", "high", "n", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _alpha(frame: pd.DataFrame, rater: str, resamples: int, seed: int) -> dict[str, Any]:
    from crs_lib.stats import krippendorff_alpha

    if frame[rater].nunique() < 2:
        return {"value": float("nan"), "n": 0, "reason": f"fewer than two {rater}s"}
    try:
        found = krippendorff_alpha(frame, rater=rater, value="score", resamples=resamples, seed=seed).iloc[0]
    except InputError as error:
        return {"value": float("nan"), "n": 0, "reason": str(error)}
    reason = "all scores are equal" if pd.isna(found["alpha"]) else None
    return {"value": found["alpha"], "low": found["low"], "high": found["high"],
            "n": int(found["n_items"]), "reason": reason}  # fmt: skip


def _icc(frame: pd.DataFrame) -> dict[str, Any]:
    from crs_lib.stats import icc

    try:
        table = icc(frame, rater="judge", value="score").set_index("type")
    except InputError as error:
        return {"value": float("nan"), "n": 0, "reason": str(error)}
    found = table.loc["ICC(2,k)"]
    reason = "the dialogues do not differ" if pd.isna(found["icc"]) else None
    return {"value": found["icc"], "low": found["low"], "high": found["high"], "n": int(found["n"]),
            "reason": reason}  # fmt: skip


def self_preference(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How much a judge favours systems of its own family, in score points; a row for construct and family.

    The contrast of judge family and system family within a session (the same user met by every system):
    what judges of the family give its systems over other systems, less what the other judges do. 0 is no
    preference; ``low`` and ``high`` from a bootstrap over sessions. A session counts only where all four
    means exist; ``value`` is NaN with a ``reason`` where none does. Canaries are left out.
    """
    from crs_lib.stats import cluster_bootstrap

    frame = _originals(scores)
    frame = frame.assign(by=frame["judge"].map(family), of=frame["model"].map(family))
    shared = sorted(set(frame["by"]) & set(frame["of"]))
    rows = []
    for construct, part in frame.groupby("construct", sort=True):
        for name in shared:
            cells = part.assign(by=part["by"] == name, of=part["of"] == name)
            means = cells.groupby(["session_id", "by", "of"])["score"].mean()
            means = means.unstack(["by", "of"])  # noqa: PD010 -- means already
            wide = means.reindex(columns=[(b, o) for b in (True, False) for o in (True, False)]).dropna()
            row: dict[str, Any] = {"construct": construct, "family": name, "n": len(wide)}
            if wide.empty:
                row |= {"value": float("nan"), "reason": "no session with all four means"}
            else:
                gap = wide[True, True] - wide[True, False] - (wide[False, True] - wide[False, False])
                tidy = pd.DataFrame({"system": name, "scenario": wide.index, "value": gap.to_numpy()})
                found = cluster_bootstrap(tidy, resamples=resamples, seed=seed).iloc[0]
                row |= {"value": found["mean"], "low": found["low"], "high": found["high"]}
            rows.append(row)
    return pd.DataFrame(rows, columns=["construct", "family", "value", "low", "high", "n", "reason"])


def headline(scores: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Mean score of each system without judges of its own family, from 1 to 5; a row for system, construct.

    A session's value is the mean over judges of the mean over samples; ``low`` and ``high`` from a
    bootstrap over sessions. ``judges`` says who counted; NaN with a ``reason`` where nobody could.
    """
    from crs_lib.stats import cluster_bootstrap

    frame = _originals(scores)
    foreign = frame[frame["judge"].map(family) != frame["model"].map(family)]
    rows = []
    for (model, construct), _ in frame.groupby(["model", "construct"], sort=True):
        part = foreign[(foreign["model"] == model) & (foreign["construct"] == construct)]
        row: dict[str, Any] = {"model": model, "construct": construct}
        row["judges"] = ", ".join(sorted(part["judge"].unique()))
        if part["score"].notna().any():
            by_judge = part.groupby(["session_id", "judge"])["score"].mean()
            value = by_judge.groupby("session_id").mean().rename("value").reset_index()
            tidy = value.rename(columns={"session_id": "scenario"}).assign(system=model)
            found = cluster_bootstrap(tidy, resamples=resamples, seed=seed).iloc[0]
            row |= {"value": found["mean"], "low": found["low"], "high": found["high"], "n": int(found["n"])}
        else:
            own = "every judge is of its own family" if part.empty else "every score is missing"
            row |= {"value": float("nan"), "n": 0, "reason": own}
        rows.append(row)
    columns = ["model", "construct", "value", "low", "high", "n", "judges", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _originals(scores: pd.DataFrame) -> pd.DataFrame:
    missing = [column for column in _NEEDED if column not in scores.columns]
    if missing:
        raise InputError(f"judge scores: columns {missing} are missing; make them with score_table")
    return scores[scores["canary"] == ""] if "canary" in scores.columns else scores


def judge_scores(path: str | Path, pattern: str = "*judge*.csv", judge: str = "thesis") -> pd.DataFrame:
    """Every score of judge CSV files, checked against the scale: a row for session and construct.

    ``path`` is one file, or a folder whose files match ``pattern``. The files name no session: the n-th
    row of a model is its session n, counted from 0, as the thesis wrote them; ``session_id`` is that whole
    number. ``score`` is NaN where ``flag`` says why (missing, not a number, not whole, out of range), and
    ``value`` is what stood there; columns as in :func:`crs_lib.judge.scores.validate`.

    Raises InputError for no file, a missing column, and a model with rows in two files.
    """
    records: list[dict[str, Any]] = []
    owner: dict[str, str] = {}
    for file in _files(Path(path).expanduser(), pattern):
        for model, part in _read(file).groupby("model", sort=False):
            if str(model) in owner:
                raise InputError(
                    f"{file.name}: model {model!r} has rows in {owner[str(model)]} too, so its sessions "
                    "cannot be counted; choose one set of files with pattern"
                )
            owner[str(model)] = file.name
            for session, row in enumerate(part.to_dict("records")):
                given = {name: _number(row[name]) for name in CONSTRUCTS}
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
    missing = [name for name in ("model", *CONSTRUCTS) if name not in frame.columns]
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
