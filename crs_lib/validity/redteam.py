"""Exploitability: how far a score can be raised by a policy that is of no use to the user. The utility of a
policy is the share of turns in which it shows a new film that meets everything in force. The same policies
are drawn for every metric, so that each has the same budget. Source: docs/validity.md, section 1.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, rng, tables
from crs_lib.core.errors import RunError
from crs_lib.metrics import base
from crs_lib.metrics.records import Scores
from crs_lib.simulate.voices import ALL, FIRST
from crs_lib.systems.base import World
from crs_lib.systems.gamed import Tricks
from crs_lib.systems.programs import Programs
from crs_lib.validity import arms
from crs_lib.validity.gate import GateConfig

RAISED = 0.1  # a metric that useless policies raise so far carries the mark
TABLE = "redteam.csv"
# The settings of a search that differ from those of the gate; ``n_sessions`` scenarios meet every policy.
USUAL = {"run": "redteam", "n_sessions": 6, "seed": 1}
_CONTRACT = tables.Contract(TABLE, ("metric", "exploitability"), ("metric",))
_IDLE = ("silent", "random")
_PROGRAMS = {"cross_talk": "cross_talk=python:crs_lib.systems.gamed:CrossTalk"}


def _drawn(budget: int, seed: int) -> list[Tricks]:
    """Policies by random search: the plain echo, each trick alone, then tricks off, full on or by shares."""
    names = Tricks._fields
    found = [Tricks(abstention=1.0, echoes=1.0), *(Tricks(**{name: 1.0}) for name in names)]
    draw = rng.stream(seed, "redteam")
    while len(found) < budget:
        kinds, shares = draw.integers(0, 3, len(names)), draw.random(len(names))
        found.append(Tricks(*np.select([kinds == 0, kinds == 1], [0.0, 1.0], shares).round(3).tolist()))
    return found[:budget]


def search(config: GateConfig) -> pd.DataFrame:
    """One row a policy: its spec, its utility, and the mean of every metric over the same scenarios."""
    gamed = (f"gamed:{tricks.argument}" for tricks in _drawn(config.budget, config.seed))
    specs = list(dict.fromkeys([*_IDLE, "oracle", *gamed]))
    found = _scored(config, specs, config.n_sessions)
    names, rows = base.scored_names(), []
    for spec in specs:
        means = _sessions(found[spec], names).mean()
        useful = [row["new_and_fits"] for one in found[spec] for row in one.turns]
        rows.append({"policy": spec, "utility": float(np.mean(useful)), **means.to_dict()})
    return pd.DataFrame(rows)


def _sessions(found: Sequence[Scores], names: Sequence[str]) -> pd.DataFrame:
    """Metrics of sessions, a row a session."""
    return pd.DataFrame([one.session for one in found])[list(names)].astype(float)


def _scored(config: GateConfig, specs: Sequence[str], n: int, voices: str = FIRST) -> dict[str, list[Scores]]:
    """The scores of ``n`` sessions of each policy with users of these voices."""
    catalog, found = sources.load(config.catalog), dict[str, list[Scores]]()
    world = World(catalog, Grounder(catalog), programs=Programs(None, catalog=catalog))
    asked = config.simulation([_PROGRAMS.get(spec, spec) for spec in specs]).changed(voices=voices)
    for talk, scores in arms.scored(world, asked, n):
        found.setdefault(talk.model_name, []).append(scores)
    return found


# Policies that know neither the arm nor the log, and the honest ones that they are built on.
_OF_STICKY = ("sandbag_sticky", "stickyk:1", "stickyk:10", "pad_sticky:3", "one_slot_sticky", "cross_talk")
_OF_TRACKER = ("one_slot_tracker", "wipe_at_cue", "newest_wins")
SLEIGHTS = {
    **dict.fromkeys(_OF_STICKY, "sticky"), **dict.fromkeys(_OF_TRACKER, "tracker"),
    **dict.fromkeys(("pad_open:0.3", "pad_open:0.03"), "pad_sticky:3"),
}  # fmt: skip
COSTS, _NEAR = ("shift_cost", "share_lost"), 0.05
_TIMES, _TURNS = 50, 8  # scenarios of a sleight, for each of a drawn policy; turns that hold the first window


def _sleights(config: GateConfig) -> pd.DataFrame:
    """One row a cost: how far a policy as able as its honest base with straight users lowers it, all voices.
    ``exploitability`` is the base's cost less its own, at least 0, over the policies of SLEIGHTS that are as
    able; ``n`` counts these. Who gives straight gain away lowers both costs by arithmetic: as able is a
    straight gain within .05 of the base's for shift cost, within 5 % of it for the share, which is a ratio.
    ``low`` and ``high``: the 95 % interval of the worst one's difference; scenarios, not it, are resampled.
    """
    specs = list(dict.fromkeys([*SLEIGHTS, *SLEIGHTS.values()]))
    found = _scored(config.changed(n_turns=_TURNS), specs, _TIMES * config.n_sessions, ALL)
    values = {spec: _sessions(found[spec], ["shift_cost", "straight_gain"]).to_numpy() for spec in specs}
    straight = {spec: np.nanmean(values[spec][:, 1]) for spec in specs}
    drawn = rng.stream(config.seed, "redteam", "scenarios")
    n = len(values[specs[0]])
    picks = [np.arange(n), *(drawn.integers(0, n, n) for _ in range(1000))]
    rows = []
    for name in COSTS:
        costs = {spec: _costs(values[spec], picks, name) for spec in specs}
        rises = dict[str, NDArray[np.float64]]()
        for spec, honest in SLEIGHTS.items():
            near = _NEAR * (straight[honest] if name == "share_lost" else 1)
            if abs(straight[spec] - straight[honest]) <= near:
                rises[spec] = costs[honest] - costs[spec]
        worst = max(rises, key=lambda spec: rises[spec][0], default="")
        rise = rises.get(worst, np.array([math.nan, 0.0]))
        most, (low, high) = float(np.maximum(0.0, rise[0])), np.nanquantile(rise[1:], (0.025, 0.975))
        rows.append({
            "metric": name, "exploitability": most, "mark": "can be gamed" if most >= RAISED else "",
            "near_misses": math.nan, "oracle": 0.0, "worst": worst, "n": len(rises), "low": low, "high": high,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _costs(values: NDArray[np.float64], picks: Sequence[NDArray[np.intp]], name: str) -> NDArray[np.float64]:
    """The mean shift cost, or the share lost, in samples of the scenarios; columns: cost, straight gain."""
    means = np.array([np.nanmean(values[pick], axis=0) for pick in picks])
    return means[:, 0] / (means[:, 1] if name == "share_lost" else 1)


def _exploitability(policies: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """One row a metric with a direction: how far useless policies raise it, the mark, and the worst policy.
    ``exploitability`` is the best value of a policy of utility 0, less the better of silence and chance, at
    least 0; ``near_misses`` is the same for policies that are of no use only because they withhold every film
    that fits and show the next best. Values are turned: higher is better. Metrics undefined are left out.
    """
    asked = [one for one in base.scored() if one.direction != base.NEITHER and not one.primary]
    names = list(metrics) or [one.name for one in asked]
    table = policies.set_index("policy")
    gamed = table[table.index.str.startswith("gamed:")]
    useless = gamed[gamed["utility"] == 0]
    withheld = useless.index.str.rsplit("/", n=1).str[-1].astype(float) >= 0.5
    rows = []
    for name in names:
        sign = -1.0 if base.get(name).direction == base.LOWER else 1.0
        idle = (sign * table.loc[list(_IDLE), name]).max()
        plain = (sign * useless.loc[~withheld, name]).dropna()
        near = (sign * useless.loc[withheld, name]).dropna()
        if not len(plain) or math.isnan(idle):
            continue
        rise = max(0.0, float(plain.max() - idle))
        rows.append({
            "metric": name, "exploitability": rise, "mark": "can be gamed" if rise >= RAISED else "",
            "near_misses": max(0.0, float(near.max() - idle)) if len(near) else math.nan,
            "oracle": float(table.loc["oracle", name]), "worst": plain.idxmax(), "n": len(plain),
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values("exploitability", ascending=False, ignore_index=True)


def run(config: GateConfig) -> pd.DataFrame:
    """Search, and write ``redteam.csv`` into the run's folder; returns :func:`_exploitability`."""
    asked = {"budget": config.budget, "seed": config.seed, "n_sessions": config.n_sessions}
    found = pd.concat([_exploitability(search(config)), _sleights(config)], ignore_index=True).assign(**asked)
    tables.write_csv(paths.run_folder(simulate.STUDY, config.run) / TABLE, found)
    return found


def stored(run: str = "redteam") -> pd.DataFrame:
    """The table of a finished search; RunError with the command that makes it."""
    path = paths.run_folder(simulate.STUDY, run) / TABLE
    if not path.exists():
        raise RunError(f"no {TABLE} yet; make it: python -m crs_lib validity gate --redteam --run {run}")
    return tables.read_table(path, _CONTRACT)
