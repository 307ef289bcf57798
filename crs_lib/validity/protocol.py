"""The gate's second edition: demands frozen in a protocol, tested on development seeds, then once on others.

The protocol (notebooks/plans/gate.yaml) names systems, seeds, demands and margins; its sha256 is in every
result.
Source: docs/validity.md, section 1.
"""

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib import evaluate, runs, simulate
from crs_lib.catalog import sources
from crs_lib.core import outside, paths, tables
from crs_lib.core.config import Config, Field, RunName
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.hashes import sha256
from crs_lib.metrics import base
from crs_lib.simulate.scenarios import FRESH, NO_SHIFT, SHIFT
from crs_lib.stats.groups import holm

FILE, LOG = "gate.yaml", "gate.log.jsonl"
DEVELOPMENT, CONFIRMATION = "development", "confirmation"
RELATIONS = ABOVE, NOT_BELOW, EQUAL, NEAR, BEYOND, UNDEFINED = (
    "above", "not_below", "equal", "near", "beyond", "undefined",
)  # fmt: skip
PASS, FAIL = "pass", "fail"


class Demand(NamedTuple):
    """One demand of the protocol; ``b`` is empty where ``a`` is held against ``value``."""

    metric: str
    relation: str
    a: str = ""
    b: str = ""
    value: float = 0.0
    margin: float = 0.0

    @property
    def text(self) -> str:
        """The demand in words: "sticky beyond 0.1"."""
        other = self.b or f"{self.value:g}"
        words = {
            EQUAL: f"{self.a} equal to {other} within {self.margin:g}",
            NEAR: f"{self.a} equal to {other} within {self.margin:g}",
            NOT_BELOW: f"{self.a} not below {other} by {self.margin:g}",
            ABOVE: f"{self.a} better than {other}",
            BEYOND: f"{self.a} beyond {other}",
            UNDEFINED: "undefined where nothing shifts",
        }
        return words[self.relation]


@dataclass(frozen=True)
class Protocol:
    """A protocol as its file has it; see :func:`read`."""

    path: Path
    content: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """The sha256 of the file."""
        return sha256(self.path)

    @property
    def demands(self) -> list[Demand]:
        """The demands in their order."""
        return [Demand(name, **one) for name, found in self.content["demands"].items() for one in found]

    def seeds(self, part: str) -> list[int]:
        """The seeds of "development" or "confirmation"."""
        return [int(seed) for seed in self.content["seeds"][part]]


def read(path: Path | None = None) -> Protocol:
    """The protocol of a file, the package's own by default; InputError for an unknown system or relation."""
    place = path or paths.notebooks() / "plans" / FILE
    found = Protocol(place, outside.read_yaml(place))
    systems = set(found.content["systems"])
    for one in found.demands:
        base.get(one.metric)
        if one.relation not in RELATIONS:
            raise InputError(f"{place.name}: relation {one.relation!r} is none of {', '.join(RELATIONS)}")
        if unknown := {name for name in (one.a, one.b) if name} - systems:
            raise InputError(f"{place.name}: {one.text!r} names {unknown.pop()!r}, which is not in systems")
    return found


@dataclass(frozen=True)
class ProtocolConfig(Config):
    """The settings of a run of the protocol; all that decides a verdict stands in the protocol itself."""

    run: Annotated[RunName, Field(description="the first part of the runs' names")] = "protocol"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    workers: Annotated[int, Field(ge=1, description="processes")] = 2

    def simulation(self, protocol: Protocol, part: str, seed: int) -> simulate.SimulateConfig:
        """The batch of one seed, in three arms."""
        return simulate.SimulateConfig(
            f"{self.run}-{seed}", self.catalog, tuple(protocol.content["systems"]),
            int(protocol.content["n_sessions"][part]), int(protocol.content["n_turns"]), seed, self.workers,
            arms=(SHIFT, NO_SHIFT, FRESH), templates=protocol.content["templates"][part],
        )  # fmt: skip


def values(config: ProtocolConfig, protocol: Protocol, part: str, *, progress: bool = False) -> pd.DataFrame:
    """Simulate and score the seeds of a part: a row for each arm, system and scenario, a column a metric.

    ``scenario`` is "<seed>/<session>". What is finished already is kept.
    """
    names = list(dict.fromkeys(one.metric for one in protocol.demands))
    frames = []
    for seed in protocol.seeds(part):
        batch = config.simulation(protocol, part, seed)
        simulate.simulate(batch, progress=progress)
        for arm in (SHIFT, NO_SHIFT):
            run = batch.run_of(arm)
            evaluate.evaluate(evaluate.EvaluateConfig(run, workers=config.workers))
            found = evaluate.read(run, "results")[["model", "session_id", *names]].astype(
                dict.fromkeys(names, float)
            )
            frames.append(found.assign(arm=arm, scenario=f"{seed}/" + found["session_id"]))
    return pd.concat(frames, ignore_index=True).rename(columns={"model": "system"})


def test(frame: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    """One row a demand: mean, 95 % interval, one-sided p, p adjusted within the metric (Holm), verdict.

    ``estimate`` is mean(a − b), or mean(a) where a is held against a value; for metrics where lower is better
    a − b is turned, the values held against a number are not. Equivalence is two one-sided t tests at alpha.
    A demand with fewer than two scenarios fails.
    """
    alpha = float(protocol.content["alpha"])
    shifting, plain = (frame[frame["arm"] == arm] for arm in (SHIFT, NO_SHIFT))
    rows = []
    for name, demands in _by_metric(protocol.demands):
        wide = shifting.set_index(["scenario", "system"])[name].unstack()  # noqa: PD010
        found = [_row(one, wide, plain) for one in demands]
        for row, p in zip(found, holm([row["p"] for row in found]), strict=True):
            rows.append(row | {"p_holm": float(p), "verdict": PASS if p < alpha else FAIL})
    return pd.DataFrame(rows).assign(protocol=protocol.digest)


def _by_metric(demands: Sequence[Demand]) -> Iterator[tuple[str, list[Demand]]]:
    for name in dict.fromkeys(one.metric for one in demands):
        yield name, [one for one in demands if one.metric == name]


def _row(one: Demand, wide: pd.DataFrame, plain: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {"metric": one.metric, "demand": one.text}
    if one.relation == UNDEFINED:
        n = int(plain[one.metric].notna().sum())
        return row | dict.fromkeys(("estimate", "low", "high"), math.nan) | {"n": n, "p": float(n > 0)}
    sign = -1.0 if one.b and base.get(one.metric).direction == base.LOWER else 1.0
    if one.b:
        known = (sign * (wide[one.a] - wide[one.b])).dropna().to_numpy()
    else:
        known = wide[one.a].dropna().to_numpy()
    if len(known) < 2:
        return row | dict.fromkeys(("estimate", "low", "high"), math.nan) | {"n": len(known), "p": 1.0}
    mean, half = float(known.mean()), _half(known)
    low, high = _p_above(known, one.value - one.margin), _p_above(-known, -one.value - one.margin)
    p = max(low, high) if one.relation in (EQUAL, NEAR) else low
    return row | {"estimate": mean, "low": mean - half, "high": mean + half, "n": len(known), "p": p}


def _half(known: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
    """Half of the 95 % t interval of a mean."""
    from scipy import stats

    return float(stats.t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / math.sqrt(len(known)))


def _p_above(known: "np.ndarray[Any, np.dtype[np.float64]]", bound: float) -> float:
    """One-sided p of the hypothesis that the mean does not lie above a bound; 0 or 1 without any spread."""
    from scipy import stats

    if np.ptp(known) < 1e-12:
        return float(known[0] <= bound)
    return float(stats.ttest_1samp(known, bound, alternative="greater").pvalue)


def run(config: ProtocolConfig, *, progress: bool = False) -> pd.DataFrame:
    """The tests of the protocol on its development seeds, as often as wanted; see :func:`test`."""
    protocol = read()
    return _written(
        config, DEVELOPMENT, test(values(config, protocol, DEVELOPMENT, progress=progress), protocol)
    )


def confirm(config: ProtocolConfig, *, progress: bool = False) -> pd.DataFrame:
    """The tests of the protocol on its confirmation seeds: once, and whatever comes out is logged.

    A line of ``gate.log.jsonl`` beside the protocol keeps the commit at the start, the hash, the catalogue
    (its file's name, its number of films, the sha256 of what it holds) and the verdict. Raises RunError where
    this protocol was confirmed on these films before, whatever the file's name.
    """
    protocol, films, code = read(), sources.load(config.catalog), runs.code_version()
    held, name = sources.content_hash(films), Path(config.catalog).name
    for line in log(protocol):
        same = line["films_sha256"] == held if "films_sha256" in line else line["catalog"] == name
        if line["protocol"] == protocol.digest and same:
            raise RunError(
                f"this protocol was confirmed on {name!r} on {line['date']} ({line['passed']} of "
                f"{line['asked']} demands held); a protocol is confirmed once: read {LOG}"
            )
    found = test(values(config, protocol, CONFIRMATION, progress=progress), protocol)
    lost = found.loc[found["verdict"] != PASS, ["metric", "demand"]]
    record = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        **code,
        "protocol": protocol.digest,
        "catalog": name,
        "films": len(films),
        "films_sha256": held,
        "seeds": protocol.seeds(CONFIRMATION),
        "asked": len(found),
        "passed": int((found["verdict"] == PASS).sum()),
        "failed": [f"{row.metric}: {row.demand}" for row in lost.itertuples()],
        "verdict": FAIL if len(lost) else PASS,
    }
    with (protocol.path.parent / LOG).open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return _written(config, CONFIRMATION, found)


def log(protocol: Protocol) -> list[dict[str, Any]]:
    """The confirmations so far, oldest first; empty where there is none."""
    path = protocol.path.parent / LOG
    return list(tables.read_jsonl(path)) if path.exists() else []


def _written(config: ProtocolConfig, part: str, found: pd.DataFrame) -> pd.DataFrame:
    """The tests, also written beside the runs as ``<run>-<part>.csv``."""
    folder = paths.run_folder(simulate.STUDY, config.run)
    tables.write_csv(folder / f"gate_{part}.csv", found)
    return found


def verdicts(found: pd.DataFrame) -> pd.DataFrame:
    """One row a metric: demands that held of those made, and those that did not hold."""
    rows = []
    for name, mine in found.groupby("metric", sort=False):
        lost = mine.loc[mine["verdict"] != PASS, "demand"]
        rows.append({
            "metric": name, "held": len(mine) - len(lost), "asked": len(mine), "failed": "; ".join(lost),
        })  # fmt: skip
    return pd.DataFrame(rows)
