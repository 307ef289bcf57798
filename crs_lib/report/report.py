"""The report of an evaluated run: one page with conclusions, tables, figures and how it was made.

Figures are inside the page, so it can be sent as one file; only the links to the trace need its folder. Its
sections are registered: a client adds one of its own with :data:`SECTIONS`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
from markupsafe import Markup, escape

from crs_lib import evaluate, figures, runs, simulate, stats
from crs_lib import judge as judging
from crs_lib.core import paths, tables
from crs_lib.core.settings import Registry
from crs_lib.figures import NoDataError
from crs_lib.figures import base as registered
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.notebooks.look import heading
from crs_lib.report import figure_tables, findings, statistics
from crs_lib.report.page import Link, Mean, Section, bullets, document, figure, quiet, subheading, table
from crs_lib.stats.estimate import signed
from crs_lib.stats.plan import Plan

_FIRST = ("ability_adaptation", "leaderboard")  # the figures that a reader sees first
_DESIGN = {"roles", "catalogue_fields", "shift_events"}  # tables without results
_QUESTION = "Does a recommender follow when preferences shift?"

SECTIONS: Registry[str] = Registry("report section")


class Report:
    """What the sections of a report read: the scores of a run under a convention, and its plan."""

    def __init__(self, run: str, plan: str = "movies", convention: str = "") -> None:
        self.run = run
        self.convention = evaluate.convention_of(run, convention)
        self.folder = evaluate.folder_of(run, self.convention)
        self.results = evaluate.read(run, "results", self.convention)
        self.means = evaluate.read(run, "model_metrics", self.convention)
        self.scores = statistics.stats_frame(self.results)
        self.paired = figure_tables.paired_users(run)
        self.systems = list(dict.fromkeys(str(name) for name in self.results["model"]))
        self.plan: Plan = statistics.plan_for(plan, self.systems, self.convention, self.scores)
        self._tables = {"results": self.results, "model_metrics": self.means}

    @cached_property
    def battery(self) -> stats.Battery:
        """The tests of the plan."""
        return stats.battery(self.scores, self.plan)

    def table(self, name: str) -> pd.DataFrame:
        """A table behind a figure, read once; power and paired effects are those of the report's own plan."""
        if name not in self._tables:
            self._tables[name] = figure_tables.read(self.run, name, self.convention, self.plan)
        return self._tables[name]

    def means_table(self, means: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
        """Systems by metrics, a mean with its interval a cell; None where a metric has none."""
        rows: dict[str, dict[str, object]] = {name: {"system": name} for name in self.systems}
        for mean in means[means["metric"].isin(metrics)].itertuples():
            row = rows[str(mean.model)]
            row[label(str(mean.metric))] = Mean(mean.mean, mean.low, mean.high)
        return pd.DataFrame(rows.values(), columns=["system", *map(label, metrics)])

    def figures(self, names: Sequence[str]) -> Markup:
        """The figures that the run has data for, as PNGs inside the page; the caption is their text form."""
        parts = []
        for name in names:
            try:
                frames = [self.table(table) for table in figures.FIGURES.get(name).facts["tables"]]
                parts.append(figure(name, *frames))
            except NoDataError:
                continue
        return Markup("\n").join(parts)

    def lead(self) -> str:
        """One sentence: systems, users, sessions and convention."""
        users = f"{self.results['session_id'].nunique()} simulated users"
        who = f"{len(self.systems)} systems met the same {users}"
        if not self.paired:
            who = f"{len(self.systems)} systems met different users, in all {users}"
        elif len(self.systems) == 1:
            who = f"One system met {users}"
        return f"{who}: {len(self.results)} sessions, scored under the convention {self.convention!r}."

    def sections(self) -> Iterator[Section]:
        """The parts of the page in order; the body of one that the run has nothing for is empty."""
        for entry in SECTIONS:
            make: Callable[[Report], str] = entry.make
            yield Section(entry.facts["title"], entry.name, make(self))


def write(run: str, plan: str = "movies", convention: str = "") -> Path:
    """Write ``report.html`` beside the scores of a convention; returns its path.

    Statistics follow the plan (``notebooks/plans/``). The same files give the same bytes. RunError without
    scores, InputError: no plan.
    """
    report = Report(run, plan, convention)
    page = document(f"Run {run}", _QUESTION, str(escape(report.lead())), report.sections())
    with runs.only_one(paths.run_folder(simulate.STUDY, run)):
        return tables.write_whole(report.folder / "report.html", page)


@SECTIONS.register("findings", title="Findings", place=1)
def _findings(report: Report) -> str:
    """What failed first; then the sentences with which notebook 05 ends, from the same tables."""
    units = "scenarios are resampled as pairs" if report.paired else "systems are independent samples"
    sentences = [row.sentence for row in findings.failures(report.results)]
    sentences += findings.summary(report.run, report.convention)
    sentences += evaluate.memory_sentences(report.run, report.convention)
    return quiet(f"Each with its 95 % interval; {units}.") + bullets(sentences)


@SECTIONS.register("scores", title="Scores", place=2)
def _scores(report: Report) -> str:
    """The outcomes of the plan, best system first, behind the first figures."""
    first = report.plan.primary_outcome
    scores = report.means_table(report.means, report.plan.outcomes)
    means = report.means[report.means["metric"] == first].set_index("model")["mean"]
    lower = first in report.plan.lower_is_better
    order = scores["system"].map(means).sort_values(ascending=lower, kind="stable").index
    note = "Mean with 95 % interval, scenarios resampled; best first by the first column."
    labels = [base.get(name).label for name in report.means["metric"].unique()]
    if base.DAGGER in "".join(labels):
        note += f" {base.DAGGER_NOTE}."
    body = report.figures(_FIRST) + quiet(note) + table(scores.loc[order])
    answered = report.folder / evaluate.ANSWERED
    if answered.is_file():
        finished = report.means_table(tables.read_csv(answered), report.plan.outcomes)
        body += subheading("Without the sessions that failed") + table(finished.loc[order])
    return body


@SECTIONS.register("conclusions", title="Conclusions", place=3)
def _conclusions(report: Report) -> str:
    """The plan, the verdicts on its contrasts, and the tables behind them."""
    plan = report.plan
    declared = subheading("Declared beforehand") + table(statistics.plan_table(plan))
    if len(report.systems) < 2:
        return quiet("No tests: they compare systems, and the run has one.") + declared
    battery = report.battery
    matters = (
        f"The smallest difference in {label(plan.primary_outcome)} that matters is {plan.smallest_effect:g}."
    )
    verdicts = quiet(f"The verdict on each declared contrast, from the tests of the plan. {matters}")
    contrasts = statistics.confirmatory(battery.pairwise)
    ranks = statistics.as_printed(battery.leaderboard)
    shared = "Systems that share a letter are not shown to differ."
    parts = [verdicts, bullets(statistics.contrast_sentences(battery)), declared]
    parts.append(_titled("Declared contrasts", contrasts))
    parts.append(_titled("All systems at once", statistics.as_printed(battery.omnibus)))
    parts.append(_titled("Ranks", ranks, note=shared))
    parts.append(_titled("What the tests assume", statistics.as_printed(battery.assumptions)))
    parts.append(_titled("What so many scenarios can show", statistics.power_by_contrast(battery.power)))
    return Markup().join(parts)


@SECTIONS.register("judges", title="Judges", place=4)
def _judges(report: Report) -> str:
    """Judge means with their numbers of sessions, and how far judges agree; nothing without judges."""
    means = report.means[report.means["metric"].isin(CONSTRUCTS)]
    if means.empty:
        return ""
    means = means[["model", "metric", "mean", "low", "high", "n", "n_missing", "mark"]]
    means = means.rename(columns={"model": "system", "metric": "construct", "n_missing": "missing"})
    note = quiet("Means over sessions; n counts sessions with a score, the others are missing, never 0.")
    reliability = statistics.as_printed(judging.reliability_of(report.run))
    return (
        note
        + table(_headed(statistics.as_printed(means)))
        + _titled("Reliability of the judges", reliability)
    )


@SECTIONS.register("sessions", title="Sessions to read", place=5)
def _sessions(report: Report) -> str:
    """For each system its lowest, middle and highest session by the primary outcome, as links."""
    outcome = report.plan.primary_outcome
    rows = []
    for system, sessions in report.results.groupby("model", sort=False):
        scored = sessions[sessions[outcome].notna()].sort_values([outcome, "session_id"], kind="stable")
        row: dict[str, object] = {"system": system, "lowest": None, "middle": None, "highest": None}
        if len(scored):
            row["lowest"] = _link(scored.iloc[0], outcome)
            row["middle"] = _link(scored.iloc[len(scored) // 2], outcome)
            row["highest"] = _link(scored.iloc[-1], outcome)
        rows.append(row)
    note = f"By {label(outcome)}. Averages hide what a system does; read some sessions before trusting them."
    if not (report.folder / "trace" / "index.html").is_file():
        note += f" The links need the trace: python -m crs_lib show trace --run {report.run}"
    return quiet(note) + table(pd.DataFrame(rows))


@SECTIONS.register("figures", title="Figures", place=6)
def _figures(report: Report) -> str:
    """Every other figure, those without results last."""
    names = [name for name in registered.names(simulate.STUDY) if name not in _FIRST]
    names.sort(key=lambda name: set(figures.FIGURES.get(name).facts["tables"]) <= _DESIGN)
    return report.figures(names) or quiet("The run has too little data for any figure.")


@SECTIONS.register("metrics", title="All metrics", place=7)
def _metrics(report: Report) -> str:
    """Every metric of every system, in how many sessions it is undefined, and why."""
    names = list(dict.fromkeys(report.means["metric"]))
    by_system = report.means_table(report.means, names).set_index("system")
    by_metric = by_system.T.rename_axis("metric").reset_index()
    note = quiet("Mean with 95 % interval. What is undefined is left out and counted, never zero.")
    rows = []
    for name in names:
        reasons = findings.missing(report.results, name) if name in report.results else {}
        for mean in report.means[report.means["metric"] == name].itertuples():
            if mean.n_missing:
                reason = reasons.get(str(mean.model))
                rows.append([label(name), mean.model, mean.n, mean.n_missing, reason])
    shown = note + table(by_metric)
    if not rows:
        return shown
    columns = ["metric", "system", "sessions with a value", "without", "because"]
    return shown + _titled("Undefined in some sessions", pd.DataFrame(rows, columns=columns))


@SECTIONS.register("meaning", title="What the metrics mean", place=8)
def _meaning(report: Report) -> str:
    """Range, direction and source of every metric of the run."""
    meaning = base.describe()[["short", "metric", "range", "direction", "mark", "source"]]
    return table(_headed(meaning[meaning["metric"].isin(set(report.means["metric"]))]))


@SECTIONS.register("convention", title="Convention", place=9)
def _convention(report: Report) -> str:
    """The settings of the convention."""
    return table(_flat(evaluate.entry(report.run, report.convention)["parameters"]))


@SECTIONS.register("manifest", title="How it was made", place=10)
def _made(report: Report) -> str:
    """Stages with their parameters, counts and files; code and packages."""
    manifest = simulate.run_named(report.run).manifest()
    parts = []
    for name, stage in sorted(manifest["stages"].items(), key=_began):
        settings = {"status": stage["status"], **stage.get("counts", {})}
        if not name.startswith("evaluate"):  # whose parameters are a convention
            settings.update(stage.get("parameters", {}))
        files = pd.DataFrame(stage.get("outputs", {}).items(), columns=["file", "sha256"])
        parts += [_titled(name, _flat(settings)), table(files)]
    code = manifest.get("code") or {}
    packages = {"code": code.get("commit", "unknown"), "changed since": code.get("dirty", "unknown")}
    packages.update(manifest.get("packages", {}))
    parts.append(_titled("Code and packages", _flat(packages)))
    return Markup().join(parts)


def _began(stage: tuple[str, Mapping[str, Any]]) -> tuple[str, str]:
    """When a stage began, and its name."""
    name, facts = stage
    return facts.get("started", ""), name


def _link(session: "pd.Series[Any]", outcome: str) -> Link:
    """A session in the trace, named with its score."""
    address = urlencode({"session": session["session_id"], "model": session["model"]})
    return Link(f"{session['session_id']} ({signed(session[outcome])})", f"trace/index.html#{address}")


def label(metric: str) -> str:
    """The metric's name in a table: its short name if that has three letters or more, with its dagger."""
    facts = base.get(metric)
    words = facts.short if len(facts.short) > 2 else metric.replace("_", " ")
    return facts.label.replace(facts.short, words, 1).replace(f" {base.DAGGER}", f"\u00a0{base.DAGGER}")


def _titled(title: str, frame: pd.DataFrame, note: str = "") -> Markup:
    """A heading, a note if there is one, and a table."""
    parts = [subheading(title)]
    if note:
        parts.append(quiet(note))
    parts.append(table(_headed(frame)))
    return Markup().join(parts)


def _headed(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as a person reads it: columns in words, numbers to the right."""
    shown = frame.infer_objects()
    if "outcome" in shown:
        shown["outcome"] = [label(name) if name in base.METRICS else name for name in shown["outcome"]]
    return shown.rename(columns=heading)


def _flat(settings: Mapping[str, Any]) -> pd.DataFrame:
    """Settings as two columns; lists and groups in words."""
    values = [in_words(value) for value in settings.values()]
    return pd.DataFrame({"setting": list(settings), "value": values})


def in_words(value: Any, empty: str = "none") -> str:
    """A setting's value as a table or an axis shows it; ``empty`` stands for a group without entries."""
    if isinstance(value, Mapping):
        parts = [f"{name} {in_words(part)}" for name, part in value.items()]
        return ", ".join(parts) or empty
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) or "none"
