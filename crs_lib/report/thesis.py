"""Logs on their way to the thesis's figures, and the parts of its numbers: small frames for notebook 07."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import pandas as pd

from crs_lib import evaluate, judge, runs, simulate
from crs_lib.catalog import sources
from crs_lib.core import paths
from crs_lib.core.config import Config, Field, RunName
from crs_lib.core.errors import RunError
from crs_lib.evaluate.choose import ConventionName, Topics
from crs_lib.figures import layout
from crs_lib.metrics import base, conventions
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report import thesis_tables
from crs_lib.simulate.logged import Imported
from crs_lib.thesis import extractors
from crs_lib.thesis.catalog import ThesisCatalog

SAMPLE = "sample"


@dataclass(frozen=True)
class ThesisConfig(Config):
    """The settings of notebook 07, checked; the sample brings logs, catalogue and judge scores."""

    logs: Annotated[
        str, Field(description="sample, or a log file or a folder of them, of any known form")
    ] = SAMPLE
    catalog: Annotated[str, Field(description="sample, or the file of the films that the systems had")] = (
        sources.SAMPLE
    )
    convention: ConventionName = "thesis_grounded"
    also: Annotated[Sequence[ConventionName], Field(description="conventions scored beside it")] = ()
    topics: Topics = "heuristic"
    judge_scores: Annotated[str, Field(description="CSV files of judge scores: one, a folder, a pattern")] = (
        ""
    )
    run: Annotated[RunName, Field(description="run that the logs become")] = "logs"

    @property
    def conventions(self) -> list[str]:
        """The conventions that are scored, the chosen one first, each once; the older one with ``topics``."""
        names = [conventions.checked(name) for name in (self.convention, *self.also)]
        chosen = f"thesis_legacy(topics={self.topics})" if self.topics else "thesis_legacy"
        return list(dict.fromkeys(conventions.checked(chosen) if n == "thesis_legacy" else n for n in names))


class LoadedLogs(NamedTuple):
    """An import, and the counts of judge scores by construct: asked, given, missing."""

    imported: Imported
    judged: pd.DataFrame


def load(config: ThesisConfig) -> LoadedLogs:
    """The logs as a run, with the judge scores where there are any; raises as ``simulate.import_logs``."""
    own = paths.samples() / "thesis"
    mine = config.logs == SAMPLE
    logs, scores = (str(own / "logs"), str(own / "judge")) if mine else (config.logs, config.judge_scores)
    found = simulate.import_logs(simulate.ImportConfig(logs=logs, run=config.run, catalog=config.catalog))
    scores = config.judge_scores or scores
    judged = judge.adopt(config.run, scores) if scores else pd.DataFrame({"note": ["no judge scores given"]})
    return LoadedLogs(found, judged)


def evaluate_all(config: ThesisConfig) -> pd.DataFrame:
    """Score the run under each convention; the headline of each, a row a system: mean and rank, 1 is best."""
    for name in config.conventions:
        evaluate.evaluate(evaluate.EvaluateConfig(run=config.run, convention=name))
    return headline_ranks(config.run, config.conventions)


def headline_ranks(run: str, names: Sequence[str]) -> pd.DataFrame:
    """The systems in order, and under each convention the mean of its headline with the rank in brackets."""
    columns: dict[str, pd.Series] = {}
    for name in names:
        outcome, means = _headline(run, name)
        ranks = means.rank(ascending=base.get(outcome).direction == base.LOWER, method="min")
        shown = [
            f"{mean:.3f} ({rank:.0f})" if mean == mean else "–"
            for mean, rank in zip(means, ranks, strict=True)
        ]
        columns[f"{base.get(outcome).label}, {name}"] = pd.Series(shown, means.index)
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def _headline(run: str, convention: str) -> tuple[str, "pd.Series[float]"]:
    """A convention's primary outcome and its mean by system."""
    table = evaluate.read(run, "model_metrics", convention)
    outcome = layout.outcomes(convention)[0]
    return outcome, table[table["metric"] == outcome].set_index("model")["mean"].astype(float)


def judge_table(run: str, convention: str) -> pd.DataFrame:
    """Mean, interval, n and missing of each construct by system; a note where nobody judged."""
    table = evaluate.read(run, "model_metrics", convention)
    found = table[table["metric"].isin(list(CONSTRUCTS))]
    if found.empty:
        return pd.DataFrame({"note": [f"run {run!r} has no judge scores"]})
    columns = ["metric", "model", "mean", "low", "high", "n", "n_missing"]
    return found[columns].sort_values("metric", kind="stable").reset_index(drop=True)


class ThesisScores(NamedTuple):
    """A convention's tables: a row per session (with the detail), per turn, and per shift."""

    sessions: pd.DataFrame
    turns: pd.DataFrame
    shifts: pd.DataFrame


def scores(run: str, base_name: str) -> ThesisScores | None:
    """The tables of the run's latest convention that rests on a named one; None where it has none."""
    try:
        name = evaluate.convention_of(run, base_name)
    except RunError:
        return None
    sessions = evaluate.read(run, "results", name)
    sessions = sessions[sessions["detail"].notna()]
    detail = pd.DataFrame(sessions["detail"].tolist(), index=sessions.index)
    return ThesisScores(
        sessions.drop(columns="detail").join(detail.drop(columns=[n for n in detail if n in sessions])),
        evaluate.read(run, "turns", name),
        evaluate.read(run, "shifts", name),
    )


def _none(convention: str) -> pd.DataFrame:
    return pd.DataFrame({"note": [f"the run is not scored under {convention}"]})


def side_by_side(run: str, names: Sequence[str]) -> pd.DataFrame:
    """Published figure, ours and the difference by convention, metric and model.

    A note for a run on other logs than the thesis's, or without its published figures (the mirror has them).
    """
    rows = []
    for name in names:
        means = evaluate.read(run, "model_metrics", name)
        theirs = thesis_tables.published(run, name, set(means["model"]))
        for row in means[means["mean"].notna()].itertuples():
            figure = theirs.get(str(row.model), {}).get(str(row.metric))
            if figure is not None and row.metric in layout.outcomes(name):
                apart = float(row.mean) - figure
                rows.append({
                    "convention": name, "metric": base.get(str(row.metric)).label, "model": row.model,
                    "published": f"{figure:.6f}", "ours": f"{row.mean:.6f}",
                    "difference": f"{0.0 if abs(apart) < 5e-10 else apart:+.1e}",
                })  # fmt: skip
    return pd.DataFrame(rows) if rows else pd.DataFrame({"note": ["nothing is published on these logs"]})


def silence(run: str) -> pd.DataFrame:
    """How much of the concept overlap comes from turns in which neither side names a concept, by model.

    Of the scores under ``thesis_grounded``; a note where the run has none.
    """
    scored = scores(run, "thesis_grounded")
    if scored is None:
        return _none("thesis_grounded")
    rows = []
    for model, turns in scored.turns.groupby("model", sort=False):
        empty, total = turns["both_empty"].astype(bool), turns["cross_coherence"].sum()
        rows.append({
            "model": model,
            "turns without concepts": empty.mean(),
            "overlap from them": turns.loc[empty, "cross_coherence"].sum() / total if total else 0.0,
            "overlap elsewhere": turns.loc[~empty, "cross_coherence"].mean(),
            "recovered by silence": _silent(scored.shifts[scored.shifts["model"] == model], turns),
            "clipped turns": turns["clipped"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _silent(shifts: pd.DataFrame, turns: pd.DataFrame) -> float:
    """Share of the recovered shifts whose recovering turn names no concept on either side."""
    done = shifts[shifts["recovered_combined"].fillna(False).astype(bool)]
    quiet = turns["both_empty"].astype(bool)
    empty = set(map(tuple, turns.loc[quiet, ["session_id", "turn"]].to_numpy().tolist()))
    where = zip(done["session_id"], done["turn"] + done["delay_combined"].astype(int), strict=True)
    return sum(pair in empty for pair in where) / len(done) if len(done) else 0.0


def inside_words(run: str, n: int = 5) -> pd.DataFrame:
    """Substring matches that are no whole words: their share by speaker, and the most frequent concepts."""
    catalog = _catalog(run)
    made = extractors.ExtractorInputs(catalog.space)
    anywhere, whole = (extractors.create(name, made) for name in ("substring", "rules"))
    said: dict[str, list[str]] = {"USER": [], "SYSTEM": []}
    for dialogue in simulate.iter_dialogues(run):
        for turn in dialogue.turns:
            said[turn.speaker].append(turn.text)
    rows = []
    for speaker, texts in said.items():
        loose, strict = extractors.memoised(anywhere, texts), extractors.memoised(whole, texts)
        wrong = pd.Series(
            [key for t in texts for key in catalog.space.keys(loose[t] - strict[t])], dtype=object
        )
        counts = wrong.value_counts().reset_index()
        counts.columns = ["concept", "n"]
        top = counts.sort_values(["n", "concept"], ascending=[False, True])["concept"].head(n)
        total = sum(len(loose[text]) for text in texts)
        share = len(wrong) / total if total else 0.0
        rows.append({"speaker": speaker, "inside words": share, "most often": ", ".join(top)})
    return pd.DataFrame(rows)


def _catalog(run: str) -> ThesisCatalog:
    """The run's catalogue as the thesis read it."""
    folder = paths.run_folder(simulate.STUDY, run)
    raw = folder / simulate.RAW_CATALOG
    name = raw.name if raw.is_file() else "catalog.parquet"
    return ThesisCatalog.load(str(runs.output(simulate.STUDY, run, "catalog", "03_simulate", name)))


def late(run: str) -> pd.DataFrame:
    """Recoveries that came only after the next shift, as a share of all recoveries, by version.

    A version that the run is not scored under has no row; a note where it has neither.
    """
    rows = []
    if grounded := scores(run, "thesis_grounded"):
        crossed = 0
        for _, shifts in grounded.shifts.groupby(["model", "session_id"], sort=False):
            for now, after in pairwise(shifts.to_dict("records")):
                crossed += (
                    bool(now["recovered_combined"]) and now["turn"] + now["delay_combined"] >= after["turn"]
                )
        rows.append(("grounded", int(grounded.shifts["recovered_combined"].sum()), crossed))
    if legacy := scores(run, "thesis_legacy"):
        old = legacy.sessions[["n_recovered_late", "n_recovered"]].sum()
        rows.append(("legacy", int(old["n_recovered"]), int(old["n_recovered_late"])))
    if not rows:
        return _none("thesis_grounded or thesis_legacy")
    return pd.DataFrame(
        [
            {"version": version, "recoveries": total, "after the next shift": crossed / max(1, total)}
            for version, total, crossed in rows
        ]
    )


def never(run: str) -> pd.DataFrame:
    """Sessions that never recover, and the part of CAS that their delay of 0 earns, by model.

    The part is 1 − clamp((delay − 1)/5) in [0, 1]: 1 for a session that never recovers. Of the scores under
    ``thesis_legacy``; a note where the run has none.
    """
    legacy = scores(run, "thesis_legacy")
    if legacy is None:
        return _none("thesis_legacy")
    frame = legacy.sessions.assign(
        never=legacy.sessions["n_recovered"] == 0,
        speed=1 - ((legacy.sessions["avg_recovery_delay"] - 1) / 5).clip(0, 1),
    )
    rows = []
    for model, part in frame.groupby("model", sort=False):
        rows.append({
            "model": model,
            "sessions": len(part),
            "never recover": int(part["never"].sum()),
            "speed score, never": part.loc[part["never"], "speed"].mean(),
            "speed score, others": part.loc[~part["never"], "speed"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def retrieval(run: str) -> pd.DataFrame:
    """How the thesis's retrieval would have answered the constraints of the logged systems, in shares."""
    catalog = _catalog(run)
    asked: dict[str, list[str]] = {}
    for dialogue in simulate.iter_dialogues(run):
        found = asked.setdefault(dialogue.model_name, [])
        found += [
            catalog.candidates(pair.system.meta.get("constraints") or {}).how for pair in dialogue.pairs()
        ]
    hows = ("all fields", "fewer fields", "union", "catalogue")
    shares = {model: pd.Series(found).value_counts(normalize=True) for model, found in asked.items()}
    return pd.DataFrame(
        [{"model": model, **{how: share.get(how, 0.0) for how in hows}} for model, share in shares.items()]
    )
