"""The gate: which metrics order the control policies as they must, and are therefore fit to rank systems.

The metrics of the protocol (notebooks/plans/gate.yaml) carry the verdict of its confirmation: systems, seeds,
demands and margins are frozen, tested on development seeds as often as wanted, and once on others; its sha256
is in every result. Source: docs/validity.md.
"""

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, RunName, Seed, Settings
from crs_lib.metrics import base
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.scenarios import NO_SHIFT, SHIFT, WINDOWS
from crs_lib.simulate.voices import FIRST

PASS, FAIL, UNDEFINED = "pass", "fail", "undefined"
FILE, LOG = "gate.yaml", "gate.log.jsonl"
DEVELOPMENT, CONFIRMATION = "development", "confirmation"
POLICIES = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo", "silent")
_WORDS = {
    "above": "{a} better than {b}",
    "not_below": "{a} not below {b} by {margin:g}",
    "equal": "{a} equal to {b} within {margin:g}",
    "near": "{a} equal to {b} within {margin:g}",
    "beyond": "{a} beyond {b}",
    UNDEFINED: "undefined where nothing shifts",
}
_OF_TYPE = ", "  # "shift_cost, relax" is a metric at first shifts of a type
_BY = ["model", "session_id"]
_CONTROL = "refine"  # the type of shift of the stratum beside: it only adds, and costs nothing by design


class GateConfig(Settings):
    """The settings of a batch of control policies, checked as those of a simulation."""

    run: Annotated[RunName, Field(description="the run's name")] = "gate"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy; intervals need 2")] = 50
    n_turns: Annotated[int, Field(ge=1, description="user turns in a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    workers: Annotated[int, Field(ge=1, description="processes")] = 1

    def check(self) -> None:
        self.simulation()

    def simulation(self, systems: Sequence[str] = POLICIES) -> SimulateConfig:
        """The batch of the control policies, or of other systems; users of voice A."""
        return SimulateConfig(systems=systems, voices=FIRST, **self.values())


@dataclass(frozen=True)
class Verdict:
    """What the demands on a metric came to: how many hold, and whether the metric may rank systems.

    ``failed`` lists the demands that do not hold; ``mark`` is empty where the metric may rank.
    """

    passed: int
    asked: int
    failed: str
    mark: str


@dataclass(frozen=True)
class Demand:
    """One demand of the protocol: ``a`` in relation to ``b``, or to ``value`` where ``b`` is empty.

    A demand on what a policy reads does not ``decide`` a verdict.
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
        bound = self.b or f"{self.value:g}"
        return _WORDS[self.relation].format(a=self.a, b=bound, margin=self.margin)

    @property
    def outcome(self) -> str:
        """The metric without a type of shift."""
        return _outcome(self.metric)

    @property
    def of_control(self) -> bool:
        """Whether it is a demand on the sessions that refine first."""
        return self.metric == f"{_CONTROL}_gain" or self.metric.endswith(f"{_OF_TYPE}{_CONTROL}")

    @property
    def named(self) -> list[str]:
        """The systems that it names."""
        return [name for name in (self.a, self.b) if name]


def _outcome(metric: str) -> str:
    return metric.partition(_OF_TYPE)[0]


@dataclass(frozen=True)
class Protocol:
    """A protocol as its file has it."""

    path: Path
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | None = None) -> "Protocol":
        """A file's, by default the package's own; InputError for an unknown metric, system or relation."""
        path = path or paths.notebooks() / "plans" / FILE
        protocol = cls(path, safety.read_yaml(path))
        for demand in protocol.demands:
            protocol.check(demand)
        return protocol

    def check(self, demand: Demand) -> None:
        """Raise InputError for a demand that names an unknown metric, relation or system."""
        base.get(demand.outcome)
        if demand.relation not in _WORDS:
            relations = ", ".join(_WORDS)
            raise InputError(f"{self.path.name}: relation {demand.relation!r} is none of {relations}")
        for system in demand.named:
            if system not in self.systems:
                wrong = f"{demand.text!r} names {system!r}, which is not in systems"
                raise InputError(f"{self.path.name}: {wrong}")

    @cached_property
    def digest(self) -> str:
        """The sha256 of the file."""
        return tables.sha256(self.path)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that every seed simulates."""
        return tuple(self.content["systems"])

    @property
    def demands(self) -> list[Demand]:
        """The demands in their order, those that decide first."""
        deciding = self._block("demands", decides=True)
        return deciding + self._block("of_readers", decides=False)

    def _block(self, key: str, *, decides: bool) -> list[Demand]:
        demands = []
        for metric, rows in self.content.get(key, {}).items():
            demands += [Demand(metric, **row, decides=decides) for row in rows]
        return demands

    @property
    def metrics(self) -> set[str]:
        """The metrics that the protocol decides."""
        return {_outcome(name) for name in self.content["demands"]}

    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts of the last confirmation by metric; empty before it."""
        verdicts: dict[str, Verdict] = {}
        for line in self.log():
            if line["protocol"] == self.digest:
                verdicts = {name: Verdict(**row) for name, row in line["metrics"].items()}
        return verdicts

    def seeds(self, part: str) -> list[int]:
        """The seeds of "development" or "confirmation"."""
        return [int(seed) for seed in self.content["seeds"][part]]

    def log(self) -> list[dict[str, Any]]:
        """The confirmations so far, oldest first; empty where there is none."""
        path = self.path.parent / LOG
        return list(tables.read_jsonl(path)) if path.exists() else []

    def batch(self, part: str, seed: int, run: str, catalog: str, workers: int) -> SimulateConfig:
        """The sessions of one seed, in all arms."""
        return SimulateConfig(
            run=f"{run}-{seed}",
            catalog=catalog,
            systems=self.systems,
            n_sessions=int(self.content["n_sessions"][part]),
            n_turns=int(self.content["n_turns"]),
            seed=seed,
            workers=workers,
            arms=(SHIFT, *WINDOWS, NO_SHIFT),
            voices=self.content["voices"][part],
        )

    def control(self, batch: SimulateConfig) -> SimulateConfig:
        """The sessions beside a batch that refine first, of the systems with a demand on them."""
        systems: dict[str, None] = {}
        for demand in self.demands:
            if demand.of_control:
                systems.update(dict.fromkeys(demand.named))
        run = f"{batch.run}-{_CONTROL}"
        arms = (SHIFT, *WINDOWS)
        return batch.changed(run=run, systems=tuple(systems), arms=arms, shift_types=(_CONTROL,))

    def values(self, part: str, run: str, catalog: str, workers: int) -> pd.DataFrame:
        """Simulate and score the seeds of a part: a row an arm, system and scenario, a column a metric.

        ``scenario`` is "<seed>/<session>". What is finished already is kept. Of a ratio of means a scenario
        has the linear part, so that the mean over scenarios is the ratio. First refinements come from a
        stratum of their own ("<seed>/refine/<session>"), as no default user refines first.
        """
        columns = _Columns(dict.fromkeys(demand.metric for demand in self.demands))
        of_control = [demand.metric for demand in self.demands if demand.of_control]
        frames = []
        for seed in self.seeds(part):
            batch = self.batch(part, seed, run, catalog, workers)
            simulate.simulate(batch, progress=False)
            for arm in (SHIFT, NO_SHIFT):
                scored = columns.read(batch.run_of(arm), workers)
                frames.append(scored.assign(arm=arm, scenario=f"{seed}/" + scored["session_id"]))
            if of_control:
                beside = self.control(batch)
                simulate.simulate(beside, progress=False)
                scored = columns.read(beside.run, workers)[[*_BY, *dict.fromkeys(of_control)]]
                scenarios = f"{seed}/{_CONTROL}/" + scored["session_id"]
                frames.append(scored.assign(arm=SHIFT, scenario=scenarios))
        frame = pd.concat(frames, ignore_index=True).rename(columns={"model": "system"})
        return columns.with_ratios(frame)

    def test(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One row a demand: mean, 95 % interval, one-sided p, p adjusted within the metric (Holm), verdict.

        ``estimate`` is mean(a − b), or mean(a) where a is held against a value; for metrics where lower is
        better a − b is turned, the values held against a number are not. Equivalence is two one-sided t tests
        at alpha. A demand with fewer than two scenarios fails.
        """
        rows = [_test_row(demand, frame) for demand in self.demands]
        tests = pd.DataFrame(rows)
        families = tests.groupby(["decides", "metric"], sort=False)["p"]
        tests["p_holm"] = families.transform(lambda p: stats.holm(p.tolist()))
        below = tests["p_holm"] < float(self.content["alpha"])
        return tests.assign(verdict=np.where(below, PASS, FAIL), protocol=self.digest)


class _Columns:
    """The columns of a protocol's table: metrics, metrics at first shifts of a type, parts of ratios."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self.of_types = [name for name in names if _OF_TYPE in name]
        self.plain = [name for name in names if _OF_TYPE not in name]
        self.ratios: dict[str, tuple[str, str]] = {}
        for name in self.plain:
            ratio = base.get(name).ratio
            if ratio:
                self.ratios[name] = ratio

    def read(self, run: str, workers: int) -> pd.DataFrame:
        """Score a run, and its sessions' values; those at first shifts of a type are empty at other types."""
        evaluate.evaluate(evaluate.EvaluateConfig(run=run, workers=workers))
        names = dict.fromkeys(self.plain)
        for parts in self.ratios.values():
            names.update(dict.fromkeys(parts))
        scored = evaluate.read(run, "results")[[*_BY, *names]].astype(dict.fromkeys(names, float))
        shifts = evaluate.read(run, "shifts").drop_duplicates(_BY)
        values = shifts[_BY].copy()
        for name in self.of_types:
            metric, _, kind = name.partition(_OF_TYPE)
            values[name] = shifts[metric].where(shifts["type"] == kind)
        return scored.merge(values, how="left", on=_BY)

    def with_ratios(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with the linear part of every ratio of means: ratio + (top − ratio · bottom) / mean."""
        for name, (top, bottom) in self.ratios.items():
            shifting = frame[frame["arm"] == SHIFT].dropna(subset=[top, bottom])
            means = shifting.groupby("system")[[top, bottom]].mean().reindex(frame["system"])
            scale = means[bottom].to_numpy()
            ratio = (means[top] / means[bottom]).to_numpy()
            frame[name] = ratio + (frame[top] - ratio * frame[bottom]) / scale
        return frame


def _test_row(demand: Demand, frame: pd.DataFrame) -> dict[str, Any]:
    """The row of a demand: the test of its gaps, without an adjusted p and a verdict."""
    row: dict[str, Any] = {"metric": demand.metric, "demand": demand.text, "decides": demand.decides}
    row.update(estimate=math.nan, low=math.nan, high=math.nan)
    if demand.relation == UNDEFINED:
        plain = frame.loc[frame["arm"] == NO_SHIFT, demand.metric]
        n = int(plain.notna().sum())
        return {**row, "n": n, "p": float(n > 0)}
    gaps = _values_tested(demand, frame)
    if len(gaps) < 2:
        return {**row, "n": len(gaps), "p": 1.0}
    p = _p_above(gaps, demand.value - demand.margin)
    if demand.relation in ("equal", "near"):
        p = max(p, _p_above(-gaps, -demand.value - demand.margin))
    mean = float(gaps.mean())
    quantile = scipy.stats.t.ppf(0.975, len(gaps) - 1)
    half = float(quantile * scipy.stats.sem(gaps))
    row.update(estimate=mean, low=mean - half, high=mean + half)
    return {**row, "n": len(gaps), "p": p}


def _values_tested(demand: Demand, frame: pd.DataFrame) -> NDArray[np.float64]:
    """What a demand tests, a number a scenario: a, or a − b turned so that higher is better."""
    shifting = frame[frame["arm"] == SHIFT]
    by_system = shifting.set_index(["scenario", "system"])[demand.metric].unstack()  # noqa: PD010
    gaps = by_system[demand.a]
    if demand.b:
        gaps = gaps - by_system[demand.b]
        if base.get(demand.outcome).direction == base.LOWER:
            gaps = -gaps
    return np.asarray(gaps.dropna(), dtype=float)


def _p_above(values: NDArray[np.float64], bound: float) -> float:
    """One-sided p of the hypothesis that the mean does not lie above a bound; 0 or 1 without any spread."""
    if np.ptp(values) < 1e-12:
        return float(values[0] <= bound)
    return float(scipy.stats.ttest_1samp(values, bound, alternative="greater").pvalue)


def verdicts() -> pd.DataFrame:
    """One row a metric of the protocol, from its confirmation; empty before it.

    Returns
    -------
    pandas.DataFrame
        ``metric``, the demands ``passed`` of those ``asked``, ``mark`` (empty where the metric may rank
        systems) and the demands that ``failed``.
    """
    rows = []
    for metric, verdict in Protocol.read().verdicts().items():
        rows.append({"metric": metric, **asdict(verdict)})
    return pd.DataFrame(rows, columns=["metric", "passed", "asked", "mark", "failed"])


def develop(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its development seeds, as often as wanted (:meth:`Protocol.test`)."""
    protocol = Protocol.read()
    tests = protocol.test(protocol.values(DEVELOPMENT, run, catalog, workers))
    return _write_tests(run, DEVELOPMENT, tests)


def confirm(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its confirmation seeds: once, and whatever comes out is logged.

    A line of ``gate.log.jsonl`` beside the protocol keeps the commit at the start, the hash, the catalogue
    (its file's name, its number of films, the sha256 of what it holds) and the verdict. Raises RunError where
    this protocol was confirmed on these films before, whatever the file's name.
    """
    protocol = Protocol.read()
    films = sources.load(catalog)
    code = runs.code_version()
    record = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        **code,
        "protocol": protocol.digest,
        "catalog": Path(catalog).name,
        "films": len(films),
        "films_sha256": sources.content_hash(films),
        "seeds": protocol.seeds(CONFIRMATION),
    }
    for line in protocol.log():
        _refuse_repetition(line, record)
    tests = protocol.test(protocol.values(CONFIRMATION, run, catalog, workers))
    _log(protocol, record, tests)
    return _write_tests(run, CONFIRMATION, tests)


def _refuse_repetition(line: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """RunError where a line of the log confirms the same protocol on the same films."""
    key = "films_sha256" if "films_sha256" in line else "catalog"
    if (line["protocol"], line[key]) == (record["protocol"], record[key]):
        when = f"{line['date']} ({line['passed']} of {line['asked']} demands held)"
        once = f"a protocol is confirmed once: read {LOG}"
        raise RunError(f"this protocol was confirmed on {record['catalog']!r} on {when}; {once}")


def _log(protocol: Protocol, record: Mapping[str, Any], tests: pd.DataFrame) -> None:
    lost = tests[tests["verdict"] != PASS]
    metrics = {name: asdict(verdict) for name, verdict in metric_verdicts(tests).items()}
    outcome = {
        "asked": len(tests),
        "passed": len(tests) - len(lost),
        "failed": list(lost["metric"] + ": " + lost["demand"]),
        "verdict": FAIL if len(lost) else PASS,
        "metrics": metrics,
    }
    with (protocol.path.parent / LOG).open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps({**record, **outcome}, ensure_ascii=False) + "\n")


def _write_tests(run: str, part: str, tests: pd.DataFrame) -> pd.DataFrame:
    """The tests, also written beside the runs as ``<run>/gate_<part>.csv``."""
    tables.write_csv(paths.run_folder(simulate.STUDY, run) / f"gate_{part}.csv", tests)
    return tests


def metric_verdicts(tests: pd.DataFrame) -> dict[str, Verdict]:
    """The verdicts by metric from the tests that decide; types of shifts count for their metric."""
    deciding = tests[tests["decides"]]
    table = demands_held(deciding.assign(metric=deciding["metric"].map(_outcome)))
    verdicts = {}
    for row in table.itertuples(index=False):
        mark = base.NOT_VALID if row.failed else ""
        verdicts[str(row.metric)] = Verdict(row.held, row.asked, row.failed, mark)
    return verdicts


def demands_held(tests: pd.DataFrame) -> pd.DataFrame:
    """One row a metric of the protocol: demands that held of those made, and those that did not hold."""
    rows = []
    for (decides, metric), part in tests.groupby(["decides", "metric"], sort=False):
        lost = part.loc[part["verdict"] != PASS, "demand"]
        row = {"metric": metric, "held": len(part) - len(lost), "asked": len(part)}
        rows.append({**row, "failed": "; ".join(lost), "decides": decides})
    return pd.DataFrame(rows)
