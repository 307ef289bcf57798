"""Logs on their way to the thesis's tables, and the parts of its numbers: the frames of notebook 07."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as datasets
from crs_lib import evaluate, judge, runs, simulate
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.figures import layout
from crs_lib.metrics import base, conventions
from crs_lib.report.outcomes import PUBLISHED, published_figures, write_grid
from crs_lib.simulate.logged import Imported
from crs_lib.thesis import extractors
from crs_lib.thesis.views import thesis_catalog

SAMPLE = "sample"
THRESHOLDS = {
    "alignment": (0.5, 0.65, 0.8), "shift_similarity": (0.45, 0.55, 0.65),
    "shift_jaccard": (0.25, 0.35, 0.45),
}  # fmt: skip


def import_config(logs: str, catalog: str, run: str) -> simulate.ImportConfig:
    """The settings of an import, checked; ``sample`` stands for our own logs."""
    return simulate.ImportConfig(logs=_own("logs") if logs == SAMPLE else logs, run=run, catalog=catalog)


def _own(name: str) -> str:
    return str(paths.samples() / "thesis" / name)


def conventions_of(convention: str, also: Sequence[str], topics: str) -> list[str]:
    """The conventions that are scored, the chosen one first; InputError for an unknown one or its topics."""
    older = f"thesis_legacy(topics={topics})" if topics else "thesis_legacy"
    names = [conventions.checked(name) for name in (convention, *also)]
    return list(dict.fromkeys(conventions.checked(older) if n == "thesis_legacy" else n for n in names))


class LoadedLogs(NamedTuple):
    """An import, and the counts of judge scores by construct: asked, given, missing."""

    imported: Imported
    judged: pd.DataFrame


def load(config: simulate.ImportConfig, judge_scores: str = "") -> LoadedLogs:
    """The logs as a run, with the judge scores where there are any; raises as ``simulate.import_logs``."""
    found = simulate.import_logs(config)
    if config.logs == _own("logs"):
        judge_scores = judge_scores or _own("judge")
    if not judge_scores:
        return LoadedLogs(found, pd.DataFrame({"note": ["no judge scores given"]}))
    return LoadedLogs(found, judge.adopt(config.run, judge_scores))


def evaluate_all(run: str, names: Sequence[str]) -> pd.DataFrame:
    """Score the run under each convention; the headline of each, a row a system: mean and rank, 1 is best."""
    columns: dict[str, pd.Series] = {}
    for name in names:
        evaluate.evaluate(evaluate.EvaluateConfig(run=run, convention=name))
        outcome, means = _headline(run, name)
        ranks = means.rank(ascending=layout.lower(outcome), method="min")
        shown = means.map("{:.3f} ".format) + ranks.map("({:.0f})".format)
        columns[f"{base.get(outcome).label}, {name}"] = shown.where(means.notna(), "–")
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def _headline(run: str, convention: str) -> tuple[str, "pd.Series[float]"]:
    """A convention's primary outcome and its mean by system."""
    table, outcome = evaluate.read(run, "model_metrics", convention), layout.outcomes(convention)[0]
    return outcome, table[table["metric"] == outcome].set_index("model")["mean"].astype(float)


def leaders(run: str, names: Sequence[str]) -> list[str]:
    """The system that leads each convention's headline, as "system under convention"; or none."""
    found = []
    for name in names:
        outcome, means = _headline(run, name)
        if means.notna().any():
            best = means.idxmin() if layout.lower(outcome) else means.idxmax()
            found.append(f"{best} under {name}")
    return found


def _tables(run: str, base_name: str, *names: str) -> list[pd.DataFrame]:
    """Tables of the run's latest convention that rests on a named one; none where it has no such one."""
    try:
        convention = evaluate.convention_of(run, base_name)
    except RunError:
        return []
    return [evaluate.read(run, name, convention) for name in names]


def side_by_side(run: str, names: Sequence[str]) -> pd.DataFrame | None:
    """Published figure, ours and the difference by convention, metric and model; None on other logs."""
    rows = []
    for name in names:
        means = evaluate.read(run, "model_metrics", name)
        theirs = published_figures(run, name, set(means["model"]))
        shown = means[means["mean"].notna() & means["metric"].isin(layout.outcomes(name))]
        for model, metric, mean in shown[["model", "metric", "mean"]].itertuples(index=False):
            if (figure := theirs.get(model, {}).get(metric)) is not None:
                apart = mean - figure
                rows.append({
                    "convention": name, "metric": base.get(metric).label, "model": model,
                    "published": f"{figure:.6f}", "ours": f"{mean:.6f}",
                    "difference": f"{0.0 if abs(apart) < 5e-10 else apart:+.1e}",
                })  # fmt: skip
    return pd.DataFrame(rows) if rows else None


def parts(run: str) -> pd.DataFrame:
    """Shares in [0, 1] of what the thesis's numbers are made of: a row each, a column a system. Rows of a
    convention that the run is not scored under are left out; NaN where there is nothing to share.
    """
    rows: dict[str, Any] = {}
    if grounded := _tables(run, "thesis_grounded", "turns", "shifts"):
        rows |= _silences(*grounded)
    if len(legacy := recovered_sessions(run)):
        by = legacy.groupby("model", sort=False)
        late = by["n_recovered_late"].sum() / by["n_recovered"].sum()
        rows["recoveries after the next shift (legacy)"] = late
        rows["sessions that never recover, scored as the fastest (legacy)"] = by["never"].mean()
    rows["concepts found inside words"] = _inside_words(run)
    rows["constraints that no film meets in full"] = _unmet(run)
    table = pd.DataFrame(rows).T.astype(float).round(3)
    return table.rename_axis(index="share of", columns=None).reset_index()


def _silences(turns: pd.DataFrame, shifts: pd.DataFrame) -> dict[str, Any]:
    """Shares by system of the turns in which neither side names a concept, and of late recoveries."""
    silent, overlap, by = turns["both_empty"].astype(bool), turns["cross_coherence"], turns["model"]
    coming = shifts.groupby(["model", "session_id"], sort=False)["turn"].shift(-1)
    done = shifts[shifts["recovered_combined"].fillna(False).astype(bool)]
    at = done["turn"] + done["delay_combined"].astype(int)
    keys = ["model", "session_id", "turn"]
    when = done.assign(turn=at)[keys].merge(turns[[*keys, "both_empty"]], on=keys)
    late = at >= coming[done.index]
    return {
        "turns in which neither side names a concept": silent.groupby(by, sort=False).mean(),
        "concept overlap that comes from such turns": overlap.where(silent, 0.0).groupby(by).sum()
        / overlap.groupby(by).sum(),
        "recoveries in such a turn": when["both_empty"].astype(bool).groupby(when["model"]).mean(),
        "turns whose score is clipped": turns["clipped"].astype(float).groupby(by).mean(),
        "recoveries after the next shift (grounded)": late.groupby(done["model"]).mean(),
    }


def _inside_words(run: str) -> pd.Series:
    """The share of the substring extractor's concepts that are no whole words, by system."""
    made = extractors.ExtractorInputs(thesis_catalog(run).space)
    said = [(talk.model_name, turn.text) for talk in simulate.iter_dialogues(run) for turn in talk.turns]
    named = (extractors.create(name, made) for name in ("substring", "rules"))
    loose, strict = (extractors.memoised(one, [text for _, text in said]) for one in named)
    rows = [(model, len(loose[text]), len(loose[text] - strict[text])) for model, text in said]
    sums = pd.DataFrame(rows, columns=["model", "found", "wrong"]).groupby("model", sort=False).sum()
    return sums["wrong"] / sums["found"].clip(lower=1)


def recovered_sessions(run: str) -> pd.DataFrame:
    """The sessions under ``thesis_legacy`` with their recovered shifts, and ``never`` where there is none."""
    if not (legacy := _tables(run, "thesis_legacy", "results")):
        return pd.DataFrame(columns=["model", "session_id", "never"])
    sessions = legacy[0].dropna(subset="detail")
    counts = pd.DataFrame(sessions["detail"].tolist(), sessions.index)[["n_recovered", "n_recovered_late"]]
    return sessions.join(counts).assign(never=counts["n_recovered"] == 0)


def _unmet(run: str) -> pd.Series:
    """The share of the logged constraints that no film meets in every field, by system."""
    catalog = thesis_catalog(run)
    rows = [
        (talk.model_name, catalog.candidates(pair.system.meta.get("constraints") or {}).how != "all fields")
        for talk in simulate.iter_dialogues(run) for pair in talk.pairs()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["model", "unmet"]).groupby("model", sort=False)["unmet"].mean()


# The logs that each convention was published on, by their name in the file of published figures.
_TAS = "topic_adaptation_score"
_LOGS = {"thesis_grounded": "logs_50turns", "thesis_legacy": "logs_20turns"}


def write_thresholds(config: evaluate.EvaluateConfig) -> tuple[list[Path], str]:
    """Score a run under 27 settings of the thresholds; the grid's files, and the orders found in words."""
    names = []
    for point in itertools.product(*THRESHOLDS.values()):
        names.append(conventions.derived(config.chosen, dict(zip(THRESHOLDS, point, strict=True))).name)
        evaluate.evaluate(config.changed(convention=names[-1], topics="", similarity="", cas_weights={}))
    files = write_grid(THRESHOLDS, [{"run": config.run}], f"{config.run}-thresholds", names)
    orders = Counter(" > ".join(_headline(config.run, name)[1].nlargest(99).index) for name in names)
    told = "; ".join(f"{order} in {n}" for order, n in orders.most_common())
    return files, f"order of systems under {len(names)} settings of the thresholds: {told}"


@PUBLISHED.register("thesis")
def _published(run: str, convention: str) -> Mapping[str, Mapping[str, float]]:
    """The means that the thesis published, by system and metric; empty where a run is another study."""
    place = datasets.get("thesis-published").in_mirror()
    raw = paths.run_folder(simulate.STUDY, run) / simulate.RAW_CATALOG
    log = _LOGS.get(convention)
    imported = runs.entry(simulate.STUDY, run, "simulate")["parameters"].get("imported")
    if not (place and log and imported and raw.is_file()):
        return {}
    if tables.sha256(raw) not in {file.sha256 for file in datasets.get("opendialkg-movies").files}:
        return {}
    content: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    found: dict[str, Any] = content.get(log, {}).get("models", {})
    if log == "logs_50turns":
        found = {name: {**row, _TAS: row["context_adaptation_score"]} for name, row in found.items()}
    return found
