"""The report of an evaluated run: one page with conclusions, tables, figures and how it was made. Figures are
inside the page, so it can be sent as one file; only the links to the trace need its folder.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from crs_lib import evaluate, figures, runs, simulate, stats
from crs_lib import judge as judging
from crs_lib.core import paths, tables
from crs_lib.figures import NoDataError
from crs_lib.figures import base as registered
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.notebooks.look import heading
from crs_lib.report import figure_tables, findings, statistics
from crs_lib.report import tables as shown
from crs_lib.report.page import Link, Mean, bullets, document, figure, quiet, table
from crs_lib.stats.plan import Plan

_FIRST = ("ability_adaptation", "leaderboard")  # the figures that a reader sees first
_DESIGN = {"roles", "catalogue_fields", "shift_events"}  # tables without results


def write(run: str, plan: str = "movies", convention: str = "") -> Path:
    """Write ``report.html`` beside the scores of a convention; returns its path. Statistics follow the plan
    (``notebooks/plans/``). The same files give the same bytes. RunError without scores, InputError: no plan.
    """
    report = _Report(run, plan, convention)
    asked = "Does a recommender follow when preferences shift?"
    page = document(f"Run {run}", asked, report.lead(), report.sections())
    with runs.only_one(paths.run_folder(simulate.STUDY, run)):
        return tables.write_whole(report.folder / "report.html", page)


class _Report:
    """The tables and settings that the sections read, each once."""

    def __init__(self, run: str, plan: str, convention: str) -> None:
        self.run, self.convention = run, evaluate.convention_of(run, convention)
        self.folder = evaluate.folder_of(run, self.convention)
        self.results = evaluate.read(run, "results", self.convention)
        self.means = evaluate.read(run, "model_metrics", self.convention)
        self.scores = statistics.stats_frame(self.results)
        self.paired = figure_tables.paired_users(run)
        self.systems = list(dict.fromkeys(str(name) for name in self.results["model"]))
        self.plan: Plan = statistics.plan_for(plan, self.systems, self.convention, self.scores)
        self._read = {"results": self.results, "model_metrics": self.means}

    def sections(self) -> Iterator[tuple[str, str, str]]:
        """Title, anchor and HTML of the parts of the page, in order; empty for judges without any."""
        yield "Findings", "findings", self._findings()
        yield "Scores", "scores", self._scores()
        yield "Conclusions", "conclusions", self._conclusions()
        yield "Judges", "judges", self._judges()
        yield "Sessions to read", "sessions", self._sessions()
        yield "Figures", "figures", self._figures()
        yield "All metrics", "metrics", self._metrics()
        meaning = base.describe()[["short", "metric", "range", "direction", "mark", "source"]]
        meaning = meaning[meaning["metric"].isin(set(self.means["metric"]))]
        yield "What the metrics mean", "meaning", table(_headed(meaning))
        rule = evaluate.entry(self.run, self.convention)["parameters"]
        yield "Convention", "convention", table(_flat(rule))
        yield "How it was made", "manifest", self._made()

    def _findings(self) -> str:
        """The sentences with which notebook 05 ends, from the same tables."""
        told = findings.summary(self.run, self.convention)
        how = "scenarios are resampled as pairs" if self.paired else "systems are independent samples"
        return quiet(f"Each with its 95 % interval; {how}.") + bullets(told)

    def lead(self) -> str:
        """One sentence: systems, users, sessions and convention."""
        scenarios = self.results["session_id"].nunique()
        who = f"{len(self.systems)} systems met the same" if len(self.systems) > 1 else "One system met"
        if not self.paired:
            who = f"{len(self.systems)} systems met different users, in all"
        text = f"{who} {scenarios} simulated users: {len(self.results)} sessions, scored under the convention"
        return html.escape(f"{text} {self.convention!r}.")

    def _scores(self) -> str:
        names = [self.plan.primary_outcome, *self.plan.secondary_outcomes]
        board = shown.scoreboard(self.means, names).set_axis(["system", *map(_label, names)], axis=1)
        board[board.columns[1:]] = board[board.columns[1:]].map(_signs)
        note = "Mean with 95 % interval, scenarios resampled; best first by the first column."
        if any(base.DAGGER in base.get(name).label for name in self.means["metric"].unique()):
            note += f" {base.DAGGER_NOTE}."
        return f"{''.join(self._drawn(_FIRST))}{quiet(note)}{table(board)}"

    def _conclusions(self) -> str:
        """The plan, the conclusions of the tests in words, and the tables behind them."""
        plan = self.plan
        declared = f"<h3>Declared beforehand</h3>{table(statistics.plan_table(plan))}"
        if len(self.systems) < 2:
            return quiet("No tests: they compare systems, and the run has one.") + declared
        ladder = stats.ladder(self.scores, plan)
        leaders = statistics.tidy(ladder.leaderboard)
        note = "Generated from the tests of the declared plan. The smallest difference in "
        note += f"{_label(plan.primary_outcome)} that matters is {plan.smallest_effect:g}."
        told = quiet(note) + bullets(stats.conclusions(ladder, plan)) + declared
        contrasts = table(_headed(statistics.confirmatory(ladder.pairwise)))
        ranks = quiet("Systems that share a letter are not shown to differ.") + table(_headed(leaders))
        return f"{told}<h3>Declared contrasts</h3>{contrasts}<h3>Ranks</h3>{ranks}"

    def _judges(self) -> str:
        """Judge means with their numbers of sessions, and how far judges agree; nothing without judges."""
        judged = self.means[self.means["metric"].isin(CONSTRUCTS)]
        if judged.empty:
            return ""
        shown = judged[["model", "metric", "mean", "low", "high", "n", "n_missing", "mark"]]
        shown = shown.rename(columns={"model": "system", "metric": "construct", "n_missing": "missing"})
        note = "Means over sessions; n counts sessions with a score, the others are missing, never 0."
        means = quiet(note) + table(_headed(statistics.tidy(shown)))
        reliable = table(_headed(statistics.tidy(judging.reliability_of(self.run))))
        return f"{means}<h3>Reliability of the judges</h3>{reliable}"

    def _sessions(self) -> str:
        """For each system its lowest, middle and highest session by the primary outcome, as links."""
        outcome = self.plan.primary_outcome
        rows = []
        for system, mine in self.results.groupby("model", sort=False):
            ranked = mine[mine[outcome].notna()].sort_values([outcome, "session_id"], kind="stable")
            places = {"lowest": 0, "middle": len(ranked) // 2, "highest": -1} if len(ranked) else {}
            links = {name: _link(str(system), ranked.iloc[k], outcome) for name, k in places.items()}
            rows.append({"system": system, "lowest": None, "middle": None, "highest": None, **links})
        text = f"By {_label(outcome)}. Averages hide what a system does; "
        text += "read some sessions before trusting them."
        if not (self.folder / "trace" / "index.html").is_file():
            text += f" The links need the trace: python -m crs_lib show trace --run {self.run}"
        return quiet(text) + table(pd.DataFrame(rows))

    def _figures(self) -> str:
        known = [name for name in registered.names(simulate.STUDY) if name not in _FIRST]
        diagrams = {name for name in known if not set(figures.FIGURES.get(name).facts["tables"]) - _DESIGN}
        names = sorted(known, key=lambda name: name in diagrams)  # these hold no results
        return "\n".join(self._drawn(names)) or quiet("The run has too little data for any figure.")

    def _drawn(self, names: Sequence[str]) -> Iterator[str]:
        """The figures that the run has data for, as PNGs inside the page; the caption is their text form."""
        for name in names:
            try:
                frames = [self._table(table) for table in figures.FIGURES.get(name).facts["tables"]]
                yield figure(name, *frames)
            except NoDataError:
                continue

    def _table(self, name: str) -> pd.DataFrame:
        """A table behind a figure, read once; power and paired effects are those of the report's own plan."""
        if name not in self._read:
            self._read[name] = figure_tables.read(self.run, name, self.convention, self.plan)
        return self._read[name]

    def _metrics(self) -> str:
        """Every metric of every system, and in how many sessions it is undefined."""
        named = self.means.copy()
        named["shown"] = [Mean(*row) for row in self.means[["mean", "low", "high"]].itertuples(index=False)]
        at = {"index": "metric", "columns": "model", "values": "shown"}
        shown = named.pivot_table(**at, aggfunc="first", sort=False)[self.systems]
        shown = shown.rename(index=_label).rename_axis(columns=None).reset_index()
        gaps = self.means[self.means["n_missing"] > 0][["metric", "model", "n", "n_missing"]]
        gaps = gaps.assign(metric=[_label(name) for name in gaps["metric"]])
        gaps.columns = ["metric", "system", "sessions with a value", "without"]
        missing = f"<h3>Undefined in some sessions</h3>{table(gaps)}" if len(gaps) else ""
        note = "Mean with 95 % interval. What is undefined is left out and counted, never zero."
        return quiet(note) + table(shown) + missing

    def _made(self) -> str:
        """Stages with their parameters, counts and files; code and packages."""
        manifest, out = runs.read_manifest(simulate.STUDY, self.run), []
        stages = sorted(manifest["stages"].items(), key=lambda one: (one[1].get("started", ""), one[0]))
        for name, stage in stages:
            facts = {"status": stage["status"], **stage.get("counts", {})}
            if not name.startswith("evaluate"):  # whose parameters are a convention
                facts |= stage.get("parameters", {})
            files = pd.DataFrame(stage.get("outputs", {}).items(), columns=["file", "sha256"])
            out.append(f"<h3>{html.escape(name)}</h3>{table(_flat(facts))}{table(files)}")
        code = manifest.get("code") or {}
        packages = {"code": code.get("commit", "unknown"), "changed since": code.get("dirty", "unknown")}
        packages |= manifest.get("packages", {})
        return "".join([*out, "<h3>Code and packages</h3>", table(_flat(packages))])


def _link(system: str, row: pd.Series, outcome: str) -> Link:
    """A session in the trace, named with its score."""
    address = urlencode({"session": row["session_id"], "model": system})
    return Link(_signs(f"{row['session_id']} ({row[outcome]:.2f})"), f"trace/index.html#{address}")


def _label(metric: str) -> str:
    """The metric's name in a table: its short name if that has three letters or more, with its dagger."""
    facts = base.get(metric)
    words = facts.short if len(facts.short) > 2 else metric.replace("_", " ")
    return facts.label.replace(facts.short, words, 1).replace(f" {base.DAGGER}", f"\u00a0{base.DAGGER}")


def _headed(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of statistics as a person reads it: columns in words, numbers to the right."""
    shown = frame.infer_objects()
    if "outcome" in shown:
        shown["outcome"] = [_label(v) if v in base.METRICS else v for v in shown["outcome"]]
    return shown.rename(columns=heading)


def _signs(text: str) -> str:
    """Numbers in a text with true minus signs, and none before a zero."""
    return text.replace("-0.000", "0.000").replace("-", "−")


def _flat(facts: Mapping[str, Any]) -> pd.DataFrame:
    """Settings as two columns; lists and groups in words."""
    return pd.DataFrame({"setting": list(facts), "value": [in_words(value) for value in facts.values()]})


def in_words(value: Any, empty: str = "none") -> str:
    """A setting's value as a table or an axis shows it; ``empty`` stands for a group without entries."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {in_words(part)}" for name, part in value.items()) or empty
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"
