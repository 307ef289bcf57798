"""The gate: which metrics order the control policies as they must, and are therefore fit to rank systems.

Every session metric is put through every ordering of :mod:`crs_lib.validity.gate`, with paired
95 % intervals over scenarios. Source: docs/validity.md, section 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import tables
from crs_lib.core.config import Config, Field, RunName, Seed
from crs_lib.core.errors import InputError, RunError
from crs_lib.evaluate.choose import ConventionName
from crs_lib.metrics import base
from crs_lib.metrics.base import DESCRIPTIVE, NOT_VALID

WHOLE, AFTER, BEFORE = "whole session", "after the first shift", "before the first shift"
ABOVE, NOT_BELOW, ALIKE, RISING = "above", "not below", "alike", "rising with the dose"
DOSES = (0.9, 0.7, 0.5, 0.3, 0.1)
MARGIN = 0.1  # "alike": within this share of the distance between oracle and random
LEVEL = 0.001  # of the trend over doses


class Ordering(NamedTuple):
    """One demand: system ``a`` stands in ``relation`` to system ``b`` over a part of the session."""

    a: str
    relation: str
    b: str
    scope: str = WHOLE

    @property
    def text(self) -> str:
        """The demand in words: "tracker above sticky, after the first shift"."""
        part = "" if self.scope == WHOLE else f", {self.scope}"
        return f"{self.a} {self.relation} {self.b}{part}"


def noisy(dose: float) -> str:
    """The spec of the oracle that is random with this probability."""
    return f"noisy:{dose:g}"


# The trend runs from the highest dose of noise to the oracle, which is dose 0.
TREND = (*(noisy(dose) for dose in DOSES), "oracle")
_MUTE = ("slot_echo", "echo", "silent")
ORDERINGS: tuple[Ordering, ...] = (
    Ordering("oracle", ABOVE, "tracker"),
    Ordering("tracker", ABOVE, "amnesiac"),
    Ordering("amnesiac", NOT_BELOW, "popular"),
    Ordering("popular", ALIKE, "random"),
    *(Ordering("popular", ABOVE, mute) for mute in _MUTE),
    *(Ordering("random", ABOVE, mute) for mute in _MUTE),
    Ordering("tracker", ABOVE, "sticky", AFTER),
    Ordering("sticky", ABOVE, "amnesiac", BEFORE),
)
POLICIES = (
    "oracle", "tracker", "amnesiac", "sticky", "popular", "random", *_MUTE, *(noisy(d) for d in DOSES[::-1])
)  # fmt: skip


TESTS, VERDICTS, DOSE_TABLE = "gate.csv", "gate_metrics.csv", "gate_doses.csv"
_TESTS = tables.Contract(TESTS, ("metric", "ordering", "verdict"), ("metric", "ordering"))
_VERDICTS = tables.Contract(VERDICTS, ("metric", "mark", "passed", "asked"), ("metric",))
_DOSES = tables.Contract(DOSE_TABLE, ("metric", "dose", "mean"), ("metric", "dose"))


@dataclass(frozen=True)
class GateConfig(Config):
    """The settings of a gate run, checked as those of a simulation and of an evaluation."""

    run: Annotated[RunName, Field(description="the run's name")] = "gate"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy; intervals need 2")] = 50
    n_turns: Annotated[int, Field(ge=1, description="turns of a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    convention: ConventionName = "default"
    workers: Annotated[int, Field(ge=1, description="processes")] = 1

    def check(self) -> None:
        self.simulation()
        evaluate.EvaluateConfig(self.run, self.convention)

    def simulation(self) -> simulate.SimulateConfig:
        """The batch of all control policies that the gate looks at."""
        return simulate.SimulateConfig(
            self.run, self.catalog, POLICIES, self.n_sessions, self.n_turns, self.seed, self.workers
        )


def run(config: GateConfig, *, progress: bool = True) -> Path:
    """Simulate and score the control policies, and put every metric through the gate; returns the folder."""
    simulate.simulate(config.simulation(), progress=progress)
    evaluate.evaluate(evaluate.EvaluateConfig(config.run, config.convention))
    return check(config.run)


def check(run: str) -> Path:
    """Put the metrics of an evaluated run through the gate; writes its three tables into the folder.

    Raises InputError where the run lacks a control policy, RunError where it has not been evaluated.
    """
    columns = ["model", "session_id", "since_shift", *base.scored_names(base.TURN)]
    values = session_values(evaluate.read(run, "turns", columns=columns), evaluate.read(run, "results"))
    rule = runs.finished(simulate.STUDY, run, "evaluate", "04_evaluate")
    inputs = {"results": rule["outputs"]["results.jsonl"]}
    with runs.stage(simulate.STUDY, run, "gate", {"margin": MARGIN}, inputs, fixed=False) as stage:
        tests = test_all(values)
        tables.write_csv(stage.path(TESTS), tests)
        tables.write_csv(stage.path(VERDICTS), verdicts(tests))
        tables.write_csv(stage.path(DOSE_TABLE), dose_response(values))
        stage.counts |= {"tests": len(tests), "metrics": tests["metric"].nunique()}
    return stage.folder


def session_values(turns: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """One row per metric, part of the session, system and scenario: the mean over its turns.

    Metrics of whole sessions that speak of shifts stand for the part after them and have no part before.
    """
    shifted = turns["since_shift"].notna()
    keys = ["model", "session_id"]
    parts = []
    by_turn, of_shifts = base.scored_names(base.TURN), base.scored_names(base.SHIFT, base.SESSION)
    for scope, chosen in ((AFTER, turns[shifted]), (BEFORE, turns[~shifted])):
        means = chosen.groupby(keys, sort=False)[by_turn].mean().reset_index()
        parts.append(means.melt(keys, by_turn, "metric", "value").assign(scope=scope))
    whole = results[[*keys, *by_turn, *of_shifts]]
    parts.append(whole.melt(keys, None, "metric", "value").assign(scope=WHOLE))
    parts.append(whole.melt(keys, of_shifts, "metric", "value").assign(scope=AFTER))
    frame = pd.concat(parts, ignore_index=True).astype({"value": float})
    return frame.rename(columns={"model": "system", "session_id": "scenario"})


def test_all(values: pd.DataFrame, orderings: Sequence[Ordering] = ORDERINGS) -> pd.DataFrame:
    """One row per metric and ordering: the paired difference, its 95 % interval, and the verdict.

    ``diff`` is ``a - b`` turned so that higher is better. Verdicts: "pass", "fail", or "undefined" where
    the two systems share fewer than two scenarios with a value; an ordering of a part that a metric does
    not have is left out. Raises InputError naming the policies that are missing.
    """
    missing = sorted(set(POLICIES) - set(values["system"]))
    if missing:
        raise InputError(f"the gate needs all control policies; the run lacks {', '.join(missing)}")
    rows = []
    for name in dict.fromkeys(values["metric"]):
        if base.get(name).direction == base.NEITHER:
            continue
        sign = -1.0 if base.get(name).direction == base.LOWER else 1.0
        mine = values[values["metric"] == name]
        wide = {scope: sign * _wide(part) for scope, part in mine.groupby("scope")}
        rows += [_ordered(name, one, wide[one.scope]) for one in orderings if one.scope in wide]
        rows.append(_trend(name, wide[WHOLE]))
    return pd.DataFrame(rows)


def _wide(values: pd.DataFrame) -> pd.DataFrame:
    """Scenarios by systems."""
    return values.set_index(["scenario", "system"])["value"].unstack()  # noqa: PD010


def _ordered(metric: str, one: Ordering, wide: pd.DataFrame) -> dict[str, Any]:
    """The row of one ordering; ``wide`` is scenarios by systems, higher is better."""
    row: dict[str, Any] = {"metric": metric, "ordering": one.text}
    row |= {"diff": math.nan, "low": math.nan, "high": math.nan}
    pair = wide[[one.a, one.b]].dropna()
    row |= {"p": math.nan, "n": len(pair), "n_missing": len(wide) - len(pair)}
    if len(pair) < 2:
        return row | {"verdict": "undefined"}
    frame = pair.rename_axis(columns="system").reset_index().melt("scenario", value_name="value")
    found = stats.mean_differences(frame, stats.Design(pairs=[(one.a, one.b)])).iloc[0]
    row |= {name: float(found[name]) for name in ("diff", "low", "high", "p")}
    margin = MARGIN * abs(float((wide["oracle"] - wide["random"]).mean()))
    holds = {
        ABOVE: row["low"] > 0,
        NOT_BELOW: row["high"] >= 0,
        ALIKE: -margin < row["low"] and row["high"] < margin,
    }[one.relation]
    return row | {"verdict": "pass" if holds else "fail"}


def _trend(metric: str, wide: pd.DataFrame) -> dict[str, Any]:
    """The dose-response row: Page's trend within scenarios and means that never fall decide."""
    row: dict[str, Any] = {"metric": metric, "ordering": RISING, "p": math.nan, "p_jonckheere": math.nan}
    complete = wide[list(TREND)].dropna()
    row |= {"n": len(complete), "n_missing": len(wide) - len(complete)}
    if len(complete) < 2:
        return row | {"verdict": "undefined"}
    frame = complete.rename_axis(columns="system").reset_index().melt("scenario", value_name="value")
    page = stats.page_trend(frame, TREND).iloc[0]
    jonckheere = stats.jonckheere_trend(frame, TREND).iloc[0]
    steps = complete.mean().diff().dropna()
    holds = bool(page["p"] < LEVEL and (steps >= -1e-12).all())
    row |= {"diff": float(complete["oracle"].mean() - complete[TREND[0]].mean()), "p": float(page["p"])}
    return row | {"p_jonckheere": float(jonckheere["p"]), "verdict": "pass" if holds else "fail"}


def verdicts(tests: pd.DataFrame) -> pd.DataFrame:
    """One row per metric: how many orderings it passed of those asked, what it failed, and its mark.

    The mark is empty for a metric that passed all. Metrics without direction are not tested.
    """
    rows = []
    for name, mine in tests.groupby("metric", sort=False):
        lost = mine[mine["verdict"] != "pass"]
        failed = "; ".join(f"{o} ({v})" if v == "undefined" else o
                           for o, v in zip(lost["ordering"], lost["verdict"], strict=True))  # fmt: skip
        passed = len(mine) - len(lost)
        mark = NOT_VALID if len(lost) else ""
        rows.append({"metric": name, "passed": passed, "asked": len(mine), "mark": mark, "failed": failed})
    for name in base.scored_names():
        if base.get(name).direction == base.NEITHER:
            rows.append({"metric": name, "passed": 0, "asked": 0, "mark": DESCRIPTIVE, "failed": ""})
    return pd.DataFrame(rows)


def dose_response(values: pd.DataFrame, *, resamples: int = 2000) -> pd.DataFrame:
    """Mean and 95 % cluster-bootstrap interval of every metric by dose of noise; 0 is the oracle."""
    dose = {"oracle": 0.0} | {noisy(d): d for d in DOSES}
    kept = values[(values["scope"] == WHOLE) & values["system"].isin(list(dose))]
    parts = []
    for name, mine in kept.groupby("metric", sort=False):
        known = mine.dropna(subset="value")
        if known.empty:
            continue
        found = stats.cluster_bootstrap(known, stats.Design(resamples=resamples))
        parts.append(found.assign(metric=name, dose=found["system"].map(dose)))
    table = pd.concat(parts, ignore_index=True).sort_values(["metric", "dose"], ignore_index=True)
    return table[["metric", "dose", "mean", "low", "high", "n"]]


def read(run: str, table: str = "metrics") -> pd.DataFrame:
    """A table of a finished gate: "metrics" (verdicts), "tests" or "doses".

    Raises InputError for another name, RunError with the command that makes it.
    """
    files = {"metrics": _VERDICTS, "tests": _TESTS, "doses": _DOSES}
    if table not in files:
        raise InputError(f"no table {table!r}; give one of {', '.join(files)}")
    entry = runs.read_manifest(simulate.STUDY, run).get("stages", {}).get("gate", {})
    if entry.get("status") != "finished":
        raise RunError(f"no finished gate in run {run!r}; make it with: python -m crs_lib gate --run {run}")
    again = f"python -m crs_lib gate --run {run}"
    path = runs.as_written(simulate.STUDY, run, entry, files[table].name, again)
    return tables.read_table(path, files[table])


def marks(run: str = "gate") -> dict[str, str]:
    """What the gate of a run says of each metric: empty where it may rank systems, else why it may not.

    Raises RunError with the command that makes the gate, where the run has none.
    """
    found = read(run)
    return dict(zip(found["metric"], found["mark"].fillna(""), strict=True))


def unlike(marks: Mapping[str, str]) -> dict[str, str]:
    """The metrics whose mark is not the declared one, which tables show; with the declared one.

    Metrics for which no gate is declared are left out.
    """
    declared = {name: base.get(name) for name in marks if base.get(name).gate is not None}
    return {name: one.mark for name, one in declared.items() if marks[name] != one.mark}
