"""The gate: which metrics order the control policies as they must, and are therefore fit to rank systems.

The metrics of the protocol (notebooks/plans/gate.yaml) carry the verdict of its confirmation: systems, seeds,
demands and margins are frozen, tested on development seeds as often as wanted, and once on others; its sha256
is in every result. All others are put through the orderings below in a run, with paired 95 % intervals over
scenarios. Source: docs/validity.md, section 1.
"""

import datetime as dt
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, RunName, Seed, Settings
from crs_lib.core.tables import sha256
from crs_lib.evaluate.choose import ConventionName
from crs_lib.metrics import base
from crs_lib.metrics.base import DESCRIPTIVE, NOT_VALID, UNGATED
from crs_lib.simulate.scenarios import NO_SHIFT, SHIFT, WINDOWS
from crs_lib.simulate.voices import FIRST

WHOLE, AFTER, BEFORE = "whole session", "after the first shift", "before the first shift"
ABOVE, NOT_BELOW, ALIKE, RISING = "above", "not below", "alike", "rising with the dose"
PASS, FAIL, UNDEFINED = "pass", "fail", "undefined"
DOSES = (0.9, 0.7, 0.5, 0.3, 0.1)
MARGIN = 0.1  # "alike": within this share of the distance between oracle and random
LEVEL = 0.001  # of the trend over doses


class _Ordering(NamedTuple):
    """One demand of the first edition: ``a`` stands in ``relation`` to ``b`` over a part of the session."""

    a: str
    relation: str
    b: str
    scope: str = WHOLE

    @property
    def text(self) -> str:
        """The demand in words: "tracker above sticky, after the first shift"."""
        part = "" if self.scope == WHOLE else f", {self.scope}"
        return f"{self.a} {self.relation} {self.b}{part}"


# The oracle that is random with a probability, from the highest dose of noise on; the oracle is dose 0.
NOISY = {f"noisy:{dose:g}": dose for dose in DOSES}
_TREND = (*NOISY, "oracle")
_MUTE = ("slot_echo", "echo", "silent")
ORDERINGS: tuple[_Ordering, ...] = (
    _Ordering("oracle", ABOVE, "tracker"), _Ordering("tracker", ABOVE, "amnesiac"),
    _Ordering("amnesiac", NOT_BELOW, "popular"), _Ordering("popular", ALIKE, "random"),
    *(_Ordering(system, ABOVE, mute) for system in ("popular", "random") for mute in _MUTE),
    _Ordering("tracker", ABOVE, "sticky", AFTER), _Ordering("sticky", ABOVE, "amnesiac", BEFORE),
)  # fmt: skip
POLICIES = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", *_MUTE, *reversed(NOISY))

TABLES = {
    "metrics": tables.Contract("gate_metrics.csv", ("metric", "mark", "passed", "asked"), ("metric",)),
    "tests": tables.Contract("gate.csv", ("metric", "ordering", "verdict"), ("metric", "ordering")),
    "doses": tables.Contract("gate_doses.csv", ("metric", "dose", "mean"), ("metric", "dose")),
}


class GateConfig(Settings):
    """The settings of a gate run, checked as those of a simulation and of an evaluation."""

    run: Annotated[RunName, Field(description="the run's name")] = "gate"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy; intervals need 2")] = 50
    n_turns: Annotated[int, Field(ge=1, description="user turns in a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    convention: ConventionName = "default"
    workers: Annotated[int, Field(ge=1, description="processes")] = 1
    budget: Annotated[int, Field(ge=1, description="policies that a search for gamed scores tries")] = 150

    def check(self) -> None:
        self.simulation()
        self.evaluation()

    def simulation(self, systems: Sequence[str] = POLICIES) -> simulate.SimulateConfig:
        """The batch of the control policies that the gate looks at, or of other systems; users of voice A."""
        same = ("run", "catalog", "n_sessions", "n_turns", "seed", "workers")
        given = {name: getattr(self, name) for name in same}
        return simulate.SimulateConfig(systems=systems, voices=FIRST, **given)

    def evaluation(self) -> evaluate.EvaluateConfig:
        """The scoring of that batch."""
        return evaluate.EvaluateConfig(run=self.run, convention=self.convention)


def run(config: GateConfig, *, progress: bool = True) -> Path:
    """Simulate and score the control policies, and put every metric through the gate; returns the folder."""
    simulate.simulate(config.simulation(), progress=progress)
    evaluate.evaluate(config.evaluation())
    return _check(config.run)


def _check(run: str) -> Path:
    """Put the metrics of an evaluated run through the gate; writes its three tables into the folder. Raises
    InputError where the run lacks a control policy, RunError where it has not been evaluated.
    """
    columns = ["model", "session_id", "since_shift", *base.scored_names(base.TURN)]
    values = _session_values(evaluate.read(run, "turns", columns=columns), evaluate.read(run, "results"))
    rule = runs.finished(simulate.STUDY, run, "evaluate", "04_evaluate")
    inputs = {"results": rule["outputs"]["results.jsonl"]}
    with runs.stage(simulate.STUDY, run, "gate", {"margin": MARGIN}, inputs, fixed=False) as stage:
        tests = _test_all(values)
        found = {"tests": tests, "metrics": _verdicts(tests), "doses": _dose_response(values)}
        for name, table in found.items():
            tables.write_csv(stage.path(TABLES[name].name), table)
        stage.counts |= {"tests": len(tests), "metrics": tests["metric"].nunique()}
    return stage.folder


def _session_values(turns: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """One row per metric, part of the session, system and scenario: the mean over its turns. Metrics of whole
    sessions that speak of shifts stand for the part after them and have no part before.
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


def _test_all(values: pd.DataFrame, orderings: Sequence[_Ordering] = ORDERINGS) -> pd.DataFrame:
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
        mine = values[values["metric"] == name]
        wide = {scope: _sign(name) * _wide(part, "value") for scope, part in mine.groupby("scope")}
        rows += [_ordered(name, one, wide[one.scope]) for one in orderings if one.scope in wide]
        rows.append(_rising(name, wide[WHOLE]))
    return pd.DataFrame(rows)


def _sign(metric: str) -> float:
    """The factor that turns a metric so that higher is better; a type of shift may stand behind its name."""
    return -1.0 if base.get(metric.partition(_OF_TYPE)[0]).direction == base.LOWER else 1.0


def _wide(values: pd.DataFrame, column: str) -> pd.DataFrame:
    """Scenarios by systems."""
    return values.set_index(["scenario", "system"])[column].unstack()  # noqa: PD010


def _complete(wide: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """The scenarios in which all these systems have a value, in long form."""
    both = wide[list(systems)].dropna()
    return both.rename_axis(columns="system").reset_index().melt("scenario", value_name="value")


def _ordered(metric: str, one: _Ordering, wide: pd.DataFrame) -> dict[str, Any]:
    """The row of one ordering; ``wide`` is scenarios by systems, higher is better."""
    row: dict[str, Any] = {"metric": metric, "ordering": one.text}
    row |= dict.fromkeys(("diff", "low", "high", "p"), math.nan)
    pair = _complete(wide, (one.a, one.b))
    n = len(pair) // 2
    row |= {"n": n, "n_missing": len(wide) - n}
    if n < 2:
        return row | {"verdict": UNDEFINED}
    found = stats.mean_differences(pair, stats.Design(pairs=[(one.a, one.b)])).iloc[0]
    row |= {name: float(found[name]) for name in ("diff", "low", "high", "p")}
    margin = MARGIN * abs(float((wide["oracle"] - wide["random"]).mean()))
    low, high = row["low"], row["high"]
    holds = {ABOVE: low > 0, NOT_BELOW: high >= 0, ALIKE: -margin < low and high < margin}[one.relation]
    return row | {"verdict": PASS if holds else FAIL}


def _rising(metric: str, wide: pd.DataFrame) -> dict[str, Any]:
    """The dose-response row: Page's trend within scenarios and means that never fall decide."""
    row: dict[str, Any] = {"metric": metric, "ordering": RISING, "p": math.nan}
    complete = wide[list(_TREND)].dropna()
    row |= {"n": len(complete), "n_missing": len(wide) - len(complete)}
    if len(complete) < 2:
        return row | {"verdict": UNDEFINED}
    p = float(stats.page_trend(_complete(wide, _TREND), _TREND)["p"].iloc[0])
    means = complete.mean()
    holds = bool(p < LEVEL and (means.diff().dropna() >= -1e-12).all())
    gap = float(means["oracle"] - means[_TREND[0]])
    return row | {"diff": gap, "p": p, "verdict": PASS if holds else FAIL}


def _verdicts(tests: pd.DataFrame) -> pd.DataFrame:
    """One row per metric: how many demands it met of those asked, what it failed, and its mark. The mark is
    empty for a metric that met all. Metrics of the protocol have the verdict of its confirmation, or are not
    gated where there is none; metrics without direction are not tested.
    """
    rows, protocol = [], Protocol.read()
    confirmed = protocol.verdicts()
    for name, mine in tests.groupby("metric", sort=False):
        if name in protocol.metrics:
            found = {"passed": 0, "asked": 0, "mark": UNGATED, "failed": "", **confirmed.get(name, {})}
            rows.append({"metric": name, **found})
            continue
        lost = mine[mine["verdict"] != PASS]
        why = lost["ordering"].where(lost["verdict"] != UNDEFINED, lost["ordering"] + f" ({UNDEFINED})")
        row = {"metric": name, "passed": len(mine) - len(lost), "asked": len(mine)}
        rows.append(row | {"mark": NOT_VALID if len(lost) else "", "failed": "; ".join(why)})
    for name in base.scored_names():
        if base.get(name).direction == base.NEITHER:
            rows.append({"metric": name, "passed": 0, "asked": 0, "mark": DESCRIPTIVE, "failed": ""})
    return pd.DataFrame(rows)


def _dose_response(values: pd.DataFrame, *, resamples: int = 2000) -> pd.DataFrame:
    """Mean and 95 % cluster-bootstrap interval of every metric by dose of noise; 0 is the oracle."""
    dose = {"oracle": 0.0} | NOISY
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
    """A table of a finished gate: "metrics" (verdicts), "tests" or "doses". Raises InputError for another
    name, RunError with the command that makes it.
    """
    if table not in TABLES:
        raise InputError(f"no table {table!r}; give one of {', '.join(TABLES)}")
    again = f"python -m crs_lib validity gate --run {run}"
    entry = runs.read_manifest(simulate.STUDY, run).get("stages", {}).get("gate", {})
    if entry.get("status") != "finished":
        raise RunError(f"no finished gate in run {run!r}; make it with: {again}")
    path = runs.as_written(simulate.STUDY, run, entry, TABLES[table].name, again)
    return tables.read_table(path, TABLES[table])


def marks(run: str = "gate") -> dict[str, str]:
    """The gate's mark of each metric: empty where it may rank systems, else why it may not. Raises RunError
    with the command that makes the gate, where the run has none.
    """
    found = read(run)
    return dict(zip(found["metric"], found["mark"].fillna(""), strict=True))


def unlike(marks: Mapping[str, str]) -> dict[str, str]:
    """The metrics whose mark is not the declared one, which tables show; with the declared one."""
    declared = {name: base.get(name).mark for name in marks}
    return {name: mark for name, mark in declared.items() if marks[name] != mark}


FILE, LOG = "gate.yaml", "gate.log.jsonl"
DEVELOPMENT, CONFIRMATION = "development", "confirmation"
_WORDS = {
    "above": "{a} better than {b}", "not_below": "{a} not below {b} by {margin:g}",
    "equal": "{a} equal to {b} within {margin:g}", "near": "{a} equal to {b} within {margin:g}",
    "beyond": "{a} beyond {b}", UNDEFINED: "undefined where nothing shifts",
}  # fmt: skip


_OF_TYPE = ", "


def _by_type(run: str, names: Sequence[str]) -> pd.DataFrame:
    """The values of metrics at first shifts of a type, a column for each name like "shift_cost, relax"."""
    shifts = evaluate.read(run, "shifts").drop_duplicates(["model", "session_id"])
    found = shifts[["model", "session_id"]].copy()
    for name in names:
        metric, of, kind = name.partition(_OF_TYPE)
        if of:
            found[name] = shifts[metric].where(shifts["type"] == kind)
    return found


class _Demand(NamedTuple):
    """One demand of the protocol; ``b`` is empty where ``a`` is held against ``value``. "shift_cost, relax"
    is the metric at first shifts of that type. A demand on what a policy reads does not ``decide`` a metric's
    verdict.
    """

    metric: str
    relation: str
    a: str = ""
    b: str = ""
    value: float = 0.0
    margin: float = 0.0
    decides: bool = True

    @property
    def text(self) -> str:
        """The demand in words: "sticky beyond 0.1"."""
        return _WORDS[self.relation].format(a=self.a, b=self.b or f"{self.value:g}", margin=self.margin)


@dataclass(frozen=True)
class Protocol:
    """A protocol as its file has it."""

    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | None = None) -> "Protocol":
        """A file's, by default the package's own; InputError for an unknown metric, system or relation."""
        place = path or paths.notebooks() / "plans" / FILE
        found = cls(place, safety.read_yaml(place))
        systems = set(found.content["systems"])
        for one in found.demands:
            base.get(one.metric.partition(_OF_TYPE)[0])
            if one.relation not in _WORDS:
                raise InputError(f"{place.name}: relation {one.relation!r} is none of {', '.join(_WORDS)}")
            if unknown := {name for name in (one.a, one.b) if name} - systems:
                named = f"{one.text!r} names {unknown.pop()!r}"
                raise InputError(f"{place.name}: {named}, which is not in systems")
        return found

    @cached_property
    def digest(self) -> str:
        """The sha256 of the file."""
        return sha256(self.path)

    @property
    def demands(self) -> list[_Demand]:
        """The demands in their order, those that decide first."""
        blocks = {True: self.content["demands"], False: self.content.get("of_readers", {})}
        named = ((name, decides, found) for decides, block in blocks.items() for name, found in block.items())
        return [_Demand(name, **one, decides=decides) for name, decides, found in named for one in found]

    @property
    def metrics(self) -> set[str]:
        """The metrics that the protocol decides."""
        return {name.partition(_OF_TYPE)[0] for name in self.content["demands"]}

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """By metric: demands passed and asked, mark and failed demands of the last confirmation, if any."""
        lines = [line["metrics"] for line in self.log() if line["protocol"] == self.digest]
        return dict(lines[-1]) if lines else {}

    def seeds(self, part: str) -> list[int]:
        """The seeds of "development" or "confirmation"."""
        return [int(seed) for seed in self.content["seeds"][part]]

    def log(self) -> list[dict[str, Any]]:
        """The confirmations so far, oldest first; empty where there is none."""
        path = self.path.parent / LOG
        return list(tables.read_jsonl(path)) if path.exists() else []

    def batch(self, part: str, seed: int, run: str, catalog: str, workers: int) -> simulate.SimulateConfig:
        """The sessions of one seed, in all arms."""
        sizes, voices = self.content["n_sessions"], self.content["voices"]
        return simulate.SimulateConfig(
            run=f"{run}-{seed}", catalog=catalog, systems=tuple(self.content["systems"]),
            n_sessions=int(sizes[part]), n_turns=int(self.content["n_turns"]), seed=seed, workers=workers,
            arms=(SHIFT, *WINDOWS, NO_SHIFT), voices=voices[part],
        )  # fmt: skip

    def values(self, part: str, run: str, catalog: str, workers: int) -> pd.DataFrame:
        """Simulate and score the seeds of a part: a row for each arm, system and scenario, a column a metric.
        ``scenario`` is "<seed>/<session>". What is finished already is kept. Of a ratio of means a scenario
        has the linear part, so that the mean over scenarios is the ratio.
        """
        names = list(dict.fromkeys(one.metric for one in self.demands))
        ratios = {name: ratio for name in names if _OF_TYPE not in name and (ratio := base.get(name).ratio)}
        plain = [name for name in names if _OF_TYPE not in name]
        kept = list(dict.fromkeys([*plain, *(part for ratio in ratios.values() for part in ratio)]))
        frames = []
        for seed in self.seeds(part):
            batch = self.batch(part, seed, run, catalog, workers)
            simulate.simulate(batch, progress=False)
            for arm in (SHIFT, NO_SHIFT):
                scored = batch.run_of(arm)
                evaluate.evaluate(evaluate.EvaluateConfig(run=scored, workers=workers))
                found = evaluate.read(scored, "results")[["model", "session_id", *kept]]
                found = found.astype(dict.fromkeys(kept, float))
                if arm == SHIFT and len(plain) < len(names):
                    found = found.merge(_by_type(scored, names), how="left", on=["model", "session_id"])
                frames.append(found.assign(arm=arm, scenario=f"{seed}/" + found["session_id"]))
        frame = pd.concat(frames, ignore_index=True).rename(columns={"model": "system"})
        for name, (top, bottom) in ratios.items():
            known = frame[frame["arm"] == SHIFT].dropna(subset=[top, bottom])
            means = known.groupby("system")[[top, bottom]].mean().reindex(frame["system"])
            ratio, scale = (means[top] / means[bottom]).to_numpy(), means[bottom].to_numpy()
            frame[name] = ratio + (frame[top] - ratio * frame[bottom]) / scale
        return frame

    def test(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One row a demand: mean, 95 % interval, one-sided p, p adjusted within the metric (Holm), verdict.

        ``estimate`` is mean(a − b), or mean(a) where a is held against a value; for metrics where lower is
        better a − b is turned, the values held against a number are not. Equivalence is two one-sided t tests
        at alpha. A demand with fewer than two scenarios fails.
        """
        alpha = float(self.content["alpha"])
        shifting, plain = (frame[frame["arm"] == arm] for arm in (SHIFT, NO_SHIFT))
        parts = []
        groups = itertools.groupby(self.demands, lambda one: (one.decides, one.metric))
        for (decides, name), demands in groups:
            wide = _wide(shifting, name)
            part = pd.DataFrame([_tested(one, wide, plain) for one in demands]).assign(decides=decides)
            parts.append(part.assign(p_holm=stats.holm(part["p"].tolist())))
        found = pd.concat(parts, ignore_index=True)
        verdict = np.where(found["p_holm"] < alpha, PASS, FAIL)
        return found.assign(verdict=verdict, protocol=self.digest)


def _tested(one: _Demand, wide: pd.DataFrame, plain: pd.DataFrame) -> dict[str, Any]:
    """The row of a demand without its verdict."""
    row: dict[str, Any] = {"metric": one.metric, "demand": one.text}
    row |= dict.fromkeys(("estimate", "low", "high"), math.nan)
    if one.relation == UNDEFINED:
        n = int(plain[one.metric].notna().sum())
        return row | {"n": n, "p": float(n > 0)}
    gaps = _sign(one.metric) * (wide[one.a] - wide[one.b]) if one.b else wide[one.a]
    known = gaps.dropna().to_numpy()
    if len(known) < 2:
        return row | {"n": len(known), "p": 1.0}
    low, high = _p_above(known, one.value - one.margin), _p_above(-known, -one.value - one.margin)
    mean, half = float(known.mean()), _half(known)
    row |= {"estimate": mean, "low": mean - half, "high": mean + half, "n": len(known)}
    return row | {"p": max(low, high) if one.relation in ("equal", "near") else low}


def _half(known: NDArray[np.float64]) -> float:
    """Half of the 95 % t interval of a mean."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / math.sqrt(len(known)))


def _p_above(known: NDArray[np.float64], bound: float) -> float:
    """One-sided p of the hypothesis that the mean does not lie above a bound; 0 or 1 without any spread."""
    from scipy.stats import ttest_1samp

    if np.ptp(known) < 1e-12:
        return float(known[0] <= bound)
    return float(ttest_1samp(known, bound, alternative="greater").pvalue)


def develop(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its development seeds, as often as wanted (:meth:`Protocol.test`)."""
    protocol = Protocol.read()
    return _written(run, DEVELOPMENT, protocol.test(protocol.values(DEVELOPMENT, run, catalog, workers)))


def confirm(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its confirmation seeds: once, and whatever comes out is logged.

    A line of ``gate.log.jsonl`` beside the protocol keeps the commit at the start, the hash, the catalogue
    (its file's name, its number of films, the sha256 of what it holds) and the verdict. Raises RunError where
    this protocol was confirmed on these films before, whatever the file's name.
    """
    protocol, films, code = Protocol.read(), sources.load(catalog), runs.code_version()
    held, name = sources.content_hash(films), Path(catalog).name
    for line in protocol.log():
        same = line["films_sha256"] == held if "films_sha256" in line else line["catalog"] == name
        if line["protocol"] == protocol.digest and same:
            when = f"{line['date']} ({line['passed']} of {line['asked']} demands held)"
            once = f"a protocol is confirmed once: read {LOG}"
            raise RunError(f"this protocol was confirmed on {name!r} on {when}; {once}")
    found = protocol.test(protocol.values(CONFIRMATION, run, catalog, workers))
    lost = found[found["verdict"] != PASS]
    record = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(), **code, "protocol": protocol.digest,
        "catalog": name, "films": len(films), "films_sha256": held, "seeds": protocol.seeds(CONFIRMATION),
        "asked": len(found), "passed": len(found) - len(lost),
        "failed": list(lost["metric"] + ": " + lost["demand"]), "verdict": FAIL if len(lost) else PASS,
        "metrics": _by_metric(found),
    }  # fmt: skip
    with (protocol.path.parent / LOG).open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return _written(run, CONFIRMATION, found)


def _written(run: str, part: str, found: pd.DataFrame) -> pd.DataFrame:
    """The tests, also written beside the runs as ``<run>/gate_<part>.csv``."""
    tables.write_csv(paths.run_folder(simulate.STUDY, run) / f"gate_{part}.csv", found)
    return found


def _by_metric(found: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """:meth:`Protocol.verdicts` of tests: the demands that decide, a metric's types of shifts with it."""
    deciding = found[found["decides"]]
    table = board(deciding.assign(metric=deciding["metric"].str.partition(_OF_TYPE)[0]))
    rows = table.rename(columns={"held": "passed"}).drop(columns="decides").to_dict("records")
    return {row.pop("metric"): row | {"mark": NOT_VALID if row["failed"] else ""} for row in rows}


def board(found: pd.DataFrame) -> pd.DataFrame:
    """One row a metric of the protocol: demands that held of those made, and those that did not hold."""
    rows = []
    for (decides, name), mine in found.groupby(["decides", "metric"], sort=False):
        lost: Iterable[str] = mine.loc[mine["verdict"] != PASS, "demand"]
        held, failed = int((mine["verdict"] == PASS).sum()), "; ".join(lost)
        rows.append({"metric": name, "held": held, "asked": len(mine), "failed": failed, "decides": decides})
    return pd.DataFrame(rows)
