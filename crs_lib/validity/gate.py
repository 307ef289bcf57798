"""The gate: which metrics order the control policies as they must, and are therefore fit to rank systems. The
metrics of the protocol (notebooks/plans/gate.yaml) carry the verdict of its confirmation: systems, seeds,
demands and margins are frozen, tested on development seeds as often as wanted, and once on others; its sha256
is in every result. Source: docs/validity.md, section 1.
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
import scipy
from numpy.typing import NDArray

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog import sources
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, RunName, Seed, Settings
from crs_lib.core.tables import sha256
from crs_lib.metrics import base
from crs_lib.metrics.base import NOT_VALID
from crs_lib.simulate.scenarios import NO_SHIFT, SHIFT, WINDOWS
from crs_lib.simulate.voices import FIRST

PASS, FAIL, UNDEFINED = "pass", "fail", "undefined"
POLICIES = (
    "oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo", "silent",
)  # fmt: skip


class GateConfig(Settings):
    """The settings of a study of the control policies, checked as those of a simulation."""

    run: Annotated[RunName, Field(description="the run's name")] = "gate"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy; intervals need 2")] = 50
    n_turns: Annotated[int, Field(ge=1, description="user turns in a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    workers: Annotated[int, Field(ge=1, description="processes")] = 1
    budget: Annotated[int, Field(ge=1, description="policies that a search for gamed scores tries")] = 150

    def check(self) -> None:
        self.simulation()

    def simulation(self, systems: Sequence[str] = POLICIES) -> simulate.SimulateConfig:
        """The batch of the control policies that the gate looks at, or of other systems; users of voice A."""
        same = ("run", "catalog", "n_sessions", "n_turns", "seed", "workers")
        given = {name: getattr(self, name) for name in same}
        return simulate.SimulateConfig(systems=systems, voices=FIRST, **given)


def verdicts() -> pd.DataFrame:
    """One row a metric of the protocol: demands of its confirmation passed and asked, mark (empty where it
    may rank systems), and what failed. Empty before the confirmation.
    """
    found = [{"metric": name, **row} for name, row in Protocol.read().verdicts().items()]
    return pd.DataFrame(found, columns=["metric", "passed", "asked", "mark", "failed"])


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
    is the metric at first shifts of that type. A demand on what a policy reads does not ``decide`` a verdict.
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
            wide = shifting.set_index(["scenario", "system"])[name].unstack()  # noqa: PD010
            part = pd.DataFrame([_tested(one, wide, plain) for one in demands]).assign(decides=decides)
            parts.append(part.assign(p_holm=stats.holm(part["p"].tolist())))
        found = pd.concat(parts, ignore_index=True)
        return found.assign(verdict=np.where(found["p_holm"] < alpha, PASS, FAIL), protocol=self.digest)


def _tested(one: _Demand, wide: pd.DataFrame, plain: pd.DataFrame) -> dict[str, Any]:
    """The row of a demand without its verdict."""
    row: dict[str, Any] = {"metric": one.metric, "demand": one.text}
    row |= dict.fromkeys(("estimate", "low", "high"), math.nan)
    if one.relation == UNDEFINED:
        n = int(plain[one.metric].notna().sum())
        return row | {"n": n, "p": float(n > 0)}
    lower = base.get(one.metric.partition(_OF_TYPE)[0]).direction == base.LOWER  # turned: higher is better
    gaps = (wide[one.a] - wide[one.b]) * (-1.0 if lower else 1.0) if one.b else wide[one.a]
    known = gaps.dropna().to_numpy()
    if len(known) < 2:
        return row | {"n": len(known), "p": 1.0}
    low, high = _p_above(known, one.value - one.margin), _p_above(-known, -one.value - one.margin)
    half = float(scipy.stats.t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / math.sqrt(len(known)))
    mean = float(known.mean())
    row |= {"estimate": mean, "low": mean - half, "high": mean + half, "n": len(known)}
    return row | {"p": max(low, high) if one.relation in ("equal", "near") else low}


def _p_above(known: NDArray[np.float64], bound: float) -> float:
    """One-sided p of the hypothesis that the mean does not lie above a bound; 0 or 1 without any spread."""
    if np.ptp(known) < 1e-12:
        return float(known[0] <= bound)
    return float(scipy.stats.ttest_1samp(known, bound, alternative="greater").pvalue)


def develop(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its development seeds, as often as wanted (:meth:`Protocol.test`)."""
    protocol = Protocol.read()
    return _written(run, DEVELOPMENT, protocol.test(protocol.values(DEVELOPMENT, run, catalog, workers)))


def confirm(run: str, catalog: str, workers: int = 2) -> pd.DataFrame:
    """The tests of the protocol on its confirmation seeds: once, and whatever comes out is logged. A line of
    ``gate.log.jsonl`` beside the protocol keeps the commit at the start, the hash, the catalogue (its file's
    name, its number of films, the sha256 of what it holds) and the verdict. Raises RunError where this
    protocol was confirmed on these films before, whatever the file's name.
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
