"""The thesis's tables of a run: tests of every outcome, and the best system on each, as files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import data as datasets
from crs_lib import evaluate, runs, simulate, stats
from crs_lib.core import hashes, paths, tables
from crs_lib.figures import layout
from crs_lib.figures.latex import headline_table
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report import statistics

# The logs that each convention was published on, by their name in the file of published figures.
_PUBLISHED = {"thesis_grounded": "logs_50turns", "thesis_legacy": "logs_20turns"}


def outcomes(run: str, convention: str) -> list[str]:
    """The outcomes that are tested: the convention's, then judges' constructs; those that have a value."""
    means = evaluate.read(run, "model_metrics", convention)
    known = set(means.loc[means["mean"].notna(), "metric"])
    wanted = [*layout.outcomes(convention), *CONSTRUCTS]
    return [name for name in wanted if name in known]


def write_tables(run: str, convention: str = "") -> list[Path]:
    """Write ``anova.csv``, ``tukey.csv``, ``headline.csv`` and ``headline.tex`` beside a convention's scores.

    Returns their paths. A run of one system has tests without numbers and a note. Raises RunError as
    :func:`evaluate.read`.
    """
    name = evaluate.convention_of(run, convention)
    scores = statistics.stats_frame(evaluate.read(run, "results", name))
    tested, folder = outcomes(run, name), evaluate.folder_of(run, name)
    best = best_systems(run, name)
    made = {
        "anova.csv": stats.anova_table(scores, tested),
        "tukey.csv": stats.tukey_table(scores, tested),
        "headline.csv": best,
    }
    for file, table in made.items():
        tables.write_csv(folder / file, table)
    with tables.write_aside(folder / "headline.tex") as tex:
        tex.write(headline_table(best))
    return [folder / file for file in (*made, "headline.tex")]


def best_systems(run: str, convention: str) -> pd.DataFrame:
    """The best system on each outcome, a row each: mean with interval, the second and the lead over it.

    ``published_best`` and ``published`` are the best system and its mean in the published table, for a run on
    the thesis's catalogue whose systems that table names; else missing.
    """
    means = evaluate.read(run, "model_metrics", convention)
    known = published(run, convention, set(means["model"]))
    rows = []
    for metric in outcomes(run, convention):
        lower = base.get(metric).direction == base.LOWER
        part = means[(means["metric"] == metric) & means["mean"].notna()]
        ranked = part.sort_values("mean", ascending=lower, kind="stable").reset_index(drop=True)
        first, second = ranked.iloc[0], ranked.iloc[1] if len(ranked) > 1 else None
        theirs = {model: row[metric] for model, row in known.items() if metric in row}
        top = (min if lower else max)(theirs, key=lambda model: theirs[model]) if theirs else None
        rows.append({
            "metric": metric, "best": first["model"], "mean": first["mean"], "low": first["low"],
            "high": first["high"], "n": int(first["n"]),
            "second": None if second is None else second["model"],
            "lead": float("nan") if second is None else abs(first["mean"] - second["mean"]),
            "published_best": top, "published": theirs[top] if top else float("nan"),
        })  # fmt: skip
    return pd.DataFrame(rows)


def published(run: str, convention: str, systems: set[str]) -> Mapping[str, Mapping[str, float]]:
    """The published means by system and metric, of a run's systems; empty where it is another study."""
    place = datasets.get("thesis-published").in_mirror()
    raw = paths.run_folder(simulate.STUDY, run) / simulate.RAW_CATALOG
    log = _PUBLISHED.get(convention)
    imported = runs.read_manifest(simulate.STUDY, run)["stages"]["simulate"]["parameters"].get("imported")
    if not (place and log and imported and raw.is_file()):
        return {}
    own = {file.sha256 for file in datasets.get("opendialkg-movies").files}
    if hashes.sha256(raw) not in own:
        return {}
    content: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    found: dict[str, Any] = content.get(log, {}).get("models", {})
    tas = {"topic_adaptation_score": "context_adaptation_score"} if log == "logs_50turns" else {}
    renamed = {model: {**row, **{n: row[old] for n, old in tas.items()}} for model, row in found.items()}
    return {model: row for model, row in renamed.items() if model in systems}
