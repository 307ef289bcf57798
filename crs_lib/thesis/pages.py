"""Logs on their way to the thesis's tables, and the parts of its numbers: the frames of notebook 07."""

import csv
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as datasets
from crs_lib import evaluate, simulate
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.figures import layout
from crs_lib.judge.run import adopt
from crs_lib.metrics import base, constructs, conventions
from crs_lib.report.outcomes import PUBLISHED, Published, published_of, write_grid
from crs_lib.simulate.logged import Imported
from crs_lib.thesis import extractors
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.views import thesis_catalog

SAMPLE = "sample"
GROUNDED = "thesis_grounded"
LEGACY = "thesis_legacy"
PUBLISHED_TURNS = {"grounded": 50, "legacy": 20}  # of the logs that each version was published on, by scorer
LEAST_SESSIONS = 100  # of a system, from which its mean stands beside a published one
NEED_TOPICS = (
    "topic_recovery_rate",
    "avg_recovery_delay",
    "topic_interference",
    "context_adaptation_score",
)
TOPICS_NOTE = (
    "The published CAS, recovery, delay and interference rest on topics that a language model (mistral:7b) "
    "named; they stand beside the convention with topics=llm alone."
)
THRESHOLDS = {
    "alignment": (0.5, 0.65, 0.8), "shift_similarity": (0.45, 0.55, 0.65),
    "shift_jaccard": (0.25, 0.35, 0.45),
}  # fmt: skip


def import_config(logs: str, catalog: str, run: str) -> simulate.ImportConfig:
    """The settings of an import, checked; ``sample`` stands for our own logs."""
    if logs == SAMPLE:
        logs = _own("logs")
    return simulate.ImportConfig(logs=logs, run=run, catalog=catalog)


def _own(name: str) -> str:
    return str(paths.samples() / "thesis" / name)


def conventions_of(convention: str, also: Sequence[str], topics: str) -> list[str]:
    """The conventions that are scored, the chosen one first; InputError for an unknown one or its topics."""
    names = []
    for chosen in (convention, *also):
        name = conventions.checked(chosen)
        if name == LEGACY and topics:
            name = conventions.checked(f"{LEGACY}(topics={topics})")
        if name not in names:
            names.append(name)
    return names


class LoadedLogs(NamedTuple):
    """An import, counts of judge scores by construct (asked, given, missing), and what of them matched."""

    imported: Imported
    judged: pd.DataFrame
    matched: str = ""


def load(config: simulate.ImportConfig, judge_scores: str = "") -> LoadedLogs:
    """The logs as a run, with the judge scores where there are any; raises as ``simulate.import_logs``."""
    imported = simulate.import_logs(config)
    if not judge_scores and config.logs == _own("logs"):
        judge_scores = _own("judge")
    if not judge_scores:
        return LoadedLogs(imported, pd.DataFrame({"note": ["no judge scores given"]}))
    return LoadedLogs(imported, *adopt(config.run, judge_scores))


class _Headline(NamedTuple):
    """A convention's primary outcome, and its mean by system."""

    outcome: str
    means: "pd.Series[float]"

    @property
    def lower_is_better(self) -> bool:
        """Whether the system with the lowest mean leads."""
        return layout.lower(self.outcome)


def _headline(run: str, convention: str) -> _Headline:
    """The primary outcome of a convention that the run is scored under."""
    table = evaluate.read(run, "model_metrics", convention)
    outcome = layout.outcomes(convention)[0]
    rows = table[table["metric"] == outcome]
    return _Headline(outcome, rows.set_index("model")["mean"].astype(float))


def evaluate_all(run: str, names: Sequence[str]) -> pd.DataFrame:
    """Score the run under each convention; the headline of each, a row a system: mean and rank, 1 is best."""
    columns: dict[str, pd.Series] = {}
    for name in names:
        evaluate.evaluate(evaluate.EvaluateConfig(run=run, convention=name))
        first = _headline(run, name)
        ranks = first.means.rank(ascending=first.lower_is_better, method="min")
        cells = first.means.map("{:.3f} ".format) + ranks.map("({:.0f})".format)
        label = base.get(first.outcome).label
        columns[f"{label}, {name}"] = cells.where(first.means.notna(), "–")
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def leaders(run: str, names: Sequence[str]) -> list[str]:
    """The system that leads each convention's headline, as "system under convention"; or none."""
    sentences = []
    for name in names:
        first = _headline(run, name)
        if not first.means.notna().any():
            continue
        best = first.means.idxmin() if first.lower_is_better else first.means.idxmax()
        sentences.append(f"{best} under {name}")
    return sentences


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
        means = evaluate.read(run, "model_metrics", name).dropna(subset="mean")
        published = published_of(run, name, set(means["model"])).means
        scored = means[means["metric"].isin(layout.outcomes(name))]
        for row in scored.itertuples():
            figure = published.get(row.model, {}).get(row.metric)
            if figure is not None:
                rows.append(_compared(name, row.metric, row.model, figure, row.mean))
    return pd.DataFrame(rows) if rows else None


def _compared(convention: str, metric: str, model: str, published: float, ours: float) -> dict[str, str]:
    return {
        "convention": convention,
        "metric": base.get(metric).label,
        "model": model,
        "published": f"{published:.4f}",
        "ours": f"{ours:.4f}",
        "difference": f"{ours - published:+z.4f}",
    }


def parts(run: str) -> pd.DataFrame:
    """Shares in [0, 1] of what the thesis's numbers are made of: a row each, a column a system. Rows of a
    convention that the run is not scored under are left out; NaN where there is nothing to share.
    """
    rows: dict[str, pd.Series] = {}
    grounded = _tables(run, GROUNDED, "turns", "shifts")
    if grounded:
        rows.update(_silences(*grounded))
    legacy = recovered_sessions(run)
    if len(legacy):
        sessions = legacy.groupby("model", sort=False)
        late = sessions["n_recovered_late"].sum() / sessions["n_recovered"].sum()
        rows["recoveries after the next shift (legacy)"] = late
        rows["sessions that never recover, scored as the fastest (legacy)"] = sessions["never"].mean()
    rows["concepts found inside words"] = _inside_words(run)
    rows.update(_unmet(run))
    table = pd.DataFrame(rows).T.astype(float).round(3)
    return table.rename_axis(index="share of", columns=None).reset_index()


def _silences(turns: pd.DataFrame, shifts: pd.DataFrame) -> dict[str, pd.Series]:
    """Shares by system of the turns in which neither side names a concept, and of late recoveries."""
    model = turns["model"]
    silent = turns["both_empty"].astype(bool)
    overlap = turns["cross_coherence"]
    silent_overlap = overlap.where(silent, 0.0).groupby(model).sum()
    clipped = turns["clipped"].astype(float)
    sessions = shifts.groupby(["model", "session_id"], sort=False)
    next_shift = sessions["turn"].shift(-1)
    recovered = shifts[shifts["recovered_combined"].fillna(False).astype(bool)]
    recovery_turn = recovered["turn"] + recovered["delay_combined"].astype(int)
    keys = ["model", "session_id", "turn"]
    silences = turns[[*keys, "both_empty"]]
    recoveries = recovered.assign(turn=recovery_turn)[keys].merge(silences, on=keys)
    silent_recovery = recoveries["both_empty"].astype(bool)
    late = recovery_turn >= next_shift[recovered.index]
    shares = {}
    shares["turns in which neither side names a concept"] = silent.groupby(model, sort=False).mean()
    shares["concept overlap that comes from such turns"] = silent_overlap / overlap.groupby(model).sum()
    shares["recoveries in such a turn"] = silent_recovery.groupby(recoveries["model"]).mean()
    shares["turns whose score is clipped"] = clipped.groupby(model).mean()
    shares["recoveries after the next shift (grounded)"] = late.groupby(recovered["model"]).mean()
    return shares


def _inside_words(run: str) -> pd.Series:
    """The share of the substring extractor's concepts that are no whole words, by system."""
    models = []
    texts = []
    for dialogue in simulate.iter_dialogues(run):
        for turn in dialogue.turns:
            models.append(dialogue.model_name)
            texts.append(turn.text)
    inputs = extractors.ExtractorInputs(thesis_catalog(run).space)
    by_substring = extractors.memoised(extractors.create("substring", inputs), texts)
    by_word = extractors.memoised(extractors.create("rules", inputs), texts)
    rows = []
    for model, text in zip(models, texts, strict=True):
        concepts = by_substring[text]
        inside = concepts - by_word[text]
        rows.append((model, len(concepts), len(inside)))
    counts = pd.DataFrame(rows, columns=["model", "concepts", "inside"])
    sums = counts.groupby("model", sort=False).sum()
    return sums["inside"] / sums["concepts"].clip(lower=1)


def recovered_sessions(run: str) -> pd.DataFrame:
    """The sessions under ``thesis_legacy`` with their recovered shifts, and ``never`` where there is none."""
    legacy = _tables(run, LEGACY, "results")
    if not legacy:
        return pd.DataFrame(columns=["model", "session_id", "never"])
    sessions = legacy[0].dropna(subset="detail")
    details = pd.DataFrame(sessions["detail"].tolist(), sessions.index)
    counts = details[["n_recovered", "n_recovered_late"]]
    return sessions.join(counts).assign(never=counts["n_recovered"] == 0)


def _unmet(run: str) -> dict[str, pd.Series]:
    """Shares by system of what no film meets in every field: of the users' logged constraints, and of the
    constraints that a system searched by; NaN where a log has none.
    """
    catalog = thesis_catalog(run)
    rows = []
    for dialogue in simulate.iter_dialogues(run):
        for pair in dialogue.pairs():
            wanted = _unmet_by(catalog, pair.user.state.constraints)
            searched = _unmet_by(catalog, pair.system.meta.get("constraints") or {})
            rows.append((dialogue.model_name, wanted, searched))
    turns = pd.DataFrame(rows, columns=["model", "wanted", "searched"])
    shares = turns.groupby("model", sort=False)[["wanted", "searched"]].mean()
    return {
        "constraints that no film meets in full": shares["wanted"],
        "searches by systems that no film meets in full": shares["searched"],
    }


def _unmet_by(catalog: ThesisCatalog, constraints: Mapping[str, Any]) -> float:
    """1 where no film meets all constraints, 0 where one does, NaN without any."""
    if not constraints:
        return math.nan
    return float(catalog.candidates(constraints).how != "all fields")


def write_thresholds(config: evaluate.EvaluateConfig) -> tuple[list[Path], str]:
    """Score a run under 27 settings of the thresholds; the grid's files, and the orders in words."""
    names = []
    for point in itertools.product(*THRESHOLDS.values()):
        changed = dict(zip(THRESHOLDS, point, strict=True))
        name = conventions.derived(config.chosen, changed).name
        names.append(name)
        scoring = config.changed(convention=name, topics="", similarity="", cas_weights={})
        evaluate.evaluate(scoring)
    files = write_grid(THRESHOLDS, [{"run": config.run}], f"{config.run}-thresholds", names)
    orders: Counter[str] = Counter()
    for name in names:
        means = _headline(config.run, name).means.dropna()
        ranked = means.sort_values(ascending=False, kind="stable")
        orders[" > ".join(ranked.index)] += 1
    counts = "; ".join(f"{order} in {count}" for order, count in orders.most_common())
    return files, f"order of systems under {len(names)} settings of the thresholds: {counts}"


@PUBLISHED.register("thesis")
def _published(run: str, convention: str) -> Published:
    """The means that the thesis published, beside scores that were made as its own were."""
    chosen = conventions.get(convention)
    turns = PUBLISHED_TURNS.get(chosen.scorer)
    if turns is None or not _is_of_the_thesis(run) or not _has_sessions(run, convention, turns):
        return Published({}, {})
    metrics = _comparable(chosen)
    means = {}
    with (paths.samples() / "thesis" / "published.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["turns"]) == turns:
                means[row["model"]] = _on_scale(row, metrics)
    notes = {}
    if chosen.scorer == "legacy" and chosen.topics != "llm":
        notes = dict.fromkeys(NEED_TOPICS, TOPICS_NOTE)
    return Published(means, notes)


def _comparable(convention: conventions.Convention) -> dict[str, str]:
    """The column of the published table by metric, for the metrics that a convention makes as it was made."""
    metrics = [*constructs.names()]
    overlap = ["cross_coherence", "context_retention"]
    if convention.name in (GROUNDED, f"{LEGACY}(topics=llm)"):
        metrics += [*overlap, *NEED_TOPICS]
    elif convention.scorer == "legacy" and convention.similarity == "tfidf":
        metrics += overlap
    columns = {name: name for name in metrics}
    if convention.name == GROUNDED:
        columns["topic_adaptation_score"] = "context_adaptation_score"
    return columns


def _on_scale(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, float]:
    """The published means of a system; those of judges that lie outside the scale are left out."""
    means = {}
    for metric, column in columns.items():
        mean = float(row[column])
        if metric in constructs.CONSTRUCTS:
            lowest, highest = constructs.get(metric).scale
            if not lowest <= mean <= highest:
                continue
        means[metric] = mean
    return means


def _has_sessions(run: str, convention: str, turns: int) -> bool:
    """Whether every system has sessions enough of the length of the published logs."""
    results = evaluate.read(run, "results", convention).dropna(subset="detail")
    is_of_length = results["detail"].map(lambda detail: detail.get("n_turns") == turns)
    counts = is_of_length.groupby(results["model"]).sum()
    return bool((counts >= LEAST_SESSIONS).all())


def _is_of_the_thesis(run: str) -> bool:
    """Whether a run was imported, with the catalogue of the published study."""
    raw = paths.run_folder(simulate.STUDY, run) / simulate.RAW_CATALOG
    parameters = simulate.run_named(run).entry("simulate")["parameters"]
    if not parameters.get("imported") or not raw.is_file():
        return False
    digests = [file.sha256 for file in datasets.get("opendialkg-movies").files]
    return tables.sha256(raw) in digests
