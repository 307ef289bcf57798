"""Logs on their way to the thesis's tables, and the parts of its numbers: the frames of notebook 07."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as datasets
from crs_lib import evaluate, judge, runs, simulate, stats
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.evaluate.run import MOVIES
from crs_lib.figures import layout
from crs_lib.figures.latex import headline_table
from crs_lib.metrics import base, conventions
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.report import statistics
from crs_lib.simulate.logged import Imported
from crs_lib.thesis import extractors
from crs_lib.thesis.catalog import ThesisCatalog

SAMPLE = "sample"


def import_config(logs: str, catalog: str, run: str) -> simulate.ImportConfig:
    """The settings of an import, checked; ``sample`` stands for our own logs."""
    own = str(_own() / "logs")
    return simulate.ImportConfig(logs=own if logs == SAMPLE else logs, run=run, catalog=catalog)


def _own() -> Path:
    return paths.samples() / "thesis"


def conventions_of(convention: str, also: Sequence[str], topics: str) -> list[str]:
    """The conventions that are scored, the chosen one first, each once; the older one with ``topics``.

    Raises InputError for an unknown convention or extractor of topics.
    """
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
    if config.logs == str(_own() / "logs"):
        judge_scores = judge_scores or str(_own() / "judge")
    if not judge_scores:
        return LoadedLogs(found, pd.DataFrame({"note": ["no judge scores given"]}))
    return LoadedLogs(found, judge.adopt(config.run, judge_scores))


def evaluate_all(run: str, names: Sequence[str]) -> pd.DataFrame:
    """Score the run under each convention; the headline of each, a row a system: mean and rank, 1 is best."""
    for name in names:
        evaluate.evaluate(evaluate.EvaluateConfig(run=run, convention=name))
    return headline_ranks(run, names)


def headline_ranks(run: str, names: Sequence[str]) -> pd.DataFrame:
    """The systems in order, and under each convention the mean of its headline with the rank in brackets."""
    columns: dict[str, pd.Series] = {}
    for name in names:
        outcome, means = _headline(run, name)
        ranks = means.rank(ascending=_lower(outcome), method="min")
        both = zip(means, ranks, strict=True)
        shown = [f"{mean:.3f} ({rank:.0f})" if mean == mean else "–" for mean, rank in both]
        columns[f"{base.get(outcome).label}, {name}"] = pd.Series(shown, means.index)
    return pd.DataFrame(columns).rename_axis("system").reset_index()


def _lower(metric: str) -> bool:
    return base.get(metric).direction == base.LOWER


def _headline(run: str, convention: str) -> tuple[str, "pd.Series[float]"]:
    """A convention's primary outcome and its mean by system."""
    table = evaluate.read(run, "model_metrics", convention)
    outcome = layout.outcomes(convention)[0]
    return outcome, table[table["metric"] == outcome].set_index("model")["mean"].astype(float)


def leaders(run: str, names: Sequence[str]) -> list[str]:
    """The system that leads each convention's headline, as "system under convention"; or none."""
    found = []
    for name in names:
        outcome, means = _headline(run, name)
        if means.notna().any():
            found.append(f"{means.idxmin() if _lower(outcome) else means.idxmax()} under {name}")
    return found


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
        theirs = published(run, name, set(means["model"]))
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
            "model": model, "turns without concepts": empty.mean(),
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
    return ThesisCatalog.load(str(MOVIES.path(run, name)))


def late(run: str) -> pd.DataFrame:
    """Recoveries that came only after the next shift, as a share of all recoveries, by version.

    A version that the run is not scored under has no row; a note where it has neither.
    """
    rows = []
    if grounded := scores(run, "thesis_grounded"):
        shifts = grounded.shifts
        coming = shifts.groupby(["model", "session_id"], sort=False)["turn"].shift(-1)
        done = shifts["recovered_combined"].fillna(False).astype(bool)
        crossed = done & (shifts["turn"] + shifts["delay_combined"] >= coming)
        rows.append(("grounded", int(done.sum()), int(crossed.sum())))
    if legacy := scores(run, "thesis_legacy"):
        old = legacy.sessions[["n_recovered_late", "n_recovered"]].sum()
        rows.append(("legacy", int(old["n_recovered"]), int(old["n_recovered_late"])))
    if not rows:
        return _none("thesis_grounded or thesis_legacy")
    table = pd.DataFrame(rows, columns=["version", "recoveries", "late"])
    return table.assign(late=table["late"] / table["recoveries"].clip(lower=1)).rename(
        columns={"late": "after the next shift"}
    )


def recovered_sessions(run: str) -> pd.DataFrame:
    """The sessions under ``thesis_legacy`` with ``never``, whether none recovers, and ``speed`` in CAS.

    The part is 1 − clamp((delay − 1)/5) in [0, 1]: 1 for a session that never recovers, whose delay is 0.
    Without rows where the run is not scored under that convention.
    """
    legacy = scores(run, "thesis_legacy")
    if legacy is None:
        return pd.DataFrame(columns=["model", "session_id", "never", "speed"])
    delay = legacy.sessions["avg_recovery_delay"]
    return legacy.sessions.assign(
        never=legacy.sessions["n_recovered"] == 0, speed=1 - ((delay - 1) / 5).clip(0, 1)
    )


def never(run: str) -> pd.DataFrame:
    """Sessions that never recover, and the part of CAS that their delay of 0 earns, by model.

    The means of :func:`recovered_sessions`; a note where the run has none.
    """
    frame = recovered_sessions(run)
    if frame.empty:
        return _none("thesis_legacy")
    rows = []
    for model, part in frame.groupby("model", sort=False):
        rows.append({
            "model": model, "sessions": len(part), "never recover": int(part["never"].sum()),
            "speed score, never": part.loc[part["never"], "speed"].mean(),
            "speed score, others": part.loc[~part["never"], "speed"].mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def retrieval(run: str) -> pd.DataFrame:
    """How the thesis's retrieval would have answered the constraints of the logged systems, in shares."""
    catalog = _catalog(run)
    asked: dict[str, list[str]] = {}
    for talk in simulate.iter_dialogues(run):
        wishes = [pair.system.meta.get("constraints") or {} for pair in talk.pairs()]
        asked.setdefault(talk.model_name, []).extend(catalog.candidates(wish).how for wish in wishes)
    hows = ("all fields", "fewer fields", "union", "catalogue")
    shares = {model: pd.Series(found).value_counts(normalize=True) for model, found in asked.items()}
    return pd.DataFrame(
        [{"model": model, **{how: share.get(how, 0.0) for how in hows}} for model, share in shares.items()]
    )


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
        lower = _lower(metric)
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
    if tables.sha256(raw) not in own:
        return {}
    content: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    found: dict[str, Any] = content.get(log, {}).get("models", {})
    tas = {"topic_adaptation_score": "context_adaptation_score"} if log == "logs_50turns" else {}
    renamed = {model: {**row, **{n: row[old] for n, old in tas.items()}} for model, row in found.items()}
    return {model: row for model, row in renamed.items() if model in systems}
