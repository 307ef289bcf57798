"""Exploitability: how far a score can be raised by a policy that is of no use to the user.

The utility of a policy is the share of turns in which it shows a new film that meets everything in force. The
same policies are drawn for every metric, so that each has the same budget. ``make test-all`` runs a short search;
a long one, whose last result stands in docs/records/redteam.csv (minutes):

    python -m tests.helpers.redteam [--budget 150] [--sessions 6] [--seed 1]
"""

import argparse
import math

import numpy as np
import pandas as pd

from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng
from crs_lib.metrics import base
from crs_lib.simulate.voices import ALL, FIRST
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs
from crs_lib.validity import arms
from crs_lib.validity.gate import GateConfig
from tests.helpers.gamed import Tricks

RAISED = 0.1  # a metric that useless policies raise so far carries the mark
MARK = "can be gamed"
IDLE = ("silent", "random")
PROGRAMS = {"cross_talk": "cross_talk=python:tests.helpers.gamed:CrossTalk"}
USUAL = GateConfig(run="redteam", n_sessions=6, seed=1)
COSTS, NEAR = ("shift_cost", "share_lost"), 0.05
TIMES, TURNS = 50, 8  # scenarios of a sleight, for each of a drawn policy; turns that hold the first window
# Policies that know neither the arm nor the log, and the honest ones that they are built on.
SLEIGHTS = {
    "sandbag_sticky": "sticky",
    "stickyk:1": "sticky",
    "stickyk:10": "sticky",
    "pad_sticky:3": "sticky",
    "one_slot_sticky": "sticky",
    "cross_talk": "sticky",
    "one_slot_tracker": "tracker",
    "wipe_at_cue": "tracker",
    "newest_wins": "tracker",
    "pad_open:0.3": "pad_sticky:3",
    "pad_open:0.03": "pad_sticky:3",
}


def drawn_tricks(budget, seed):
    """Policies by random search: the plain echo, each trick alone, then tricks off, full on or by shares."""
    names = Tricks._fields
    policies = [Tricks(abstention=1.0, echoes=1.0)]
    policies += [Tricks(**{name: 1.0}) for name in names]
    draw = rng.stream(seed, "redteam")
    while len(policies) < budget:
        kinds = draw.integers(0, 3, len(names))
        shares = draw.random(len(names))
        values = np.select([kinds == 0, kinds == 1], [0.0, 1.0], shares)
        policies.append(Tricks(*values.round(3).tolist()))
    return policies[:budget]


def search(config, budget):
    """One row a policy: its spec, its utility, and the mean of every metric over the same scenarios."""
    specs = [*IDLE, "oracle"]
    specs += [f"gamed:{tricks.argument}" for tricks in drawn_tricks(budget, config.seed)]
    specs = list(dict.fromkeys(specs))
    scores = scored(config, specs, config.n_sessions)
    rows = []
    for spec in specs:
        means = sessions(scores[spec], base.scored_names()).mean()
        useful = []
        for session in scores[spec]:
            useful += [turn["new_and_fits"] for turn in session.turns]
        rows.append({"policy": spec, "utility": float(np.mean(useful)), **means.to_dict()})
    return pd.DataFrame(rows)


def sessions(scores, names):
    """Metrics of sessions, a row a session."""
    return pd.DataFrame([session.session for session in scores])[list(names)].astype(float)


def scored(config, specs, n, voices=FIRST):
    """The scores of ``n`` sessions of each policy with users of these voices."""
    catalog = sources.load(config.catalog)
    world = World(catalog, Grounder(catalog), programs=Programs(None, catalog=catalog))
    batch = config.simulation([PROGRAMS.get(spec, spec) for spec in specs]).changed(voices=voices)
    by_system = {}
    for talk, scores in arms.scored(world, batch, n):
        by_system.setdefault(talk.model_name, []).append(scores)
    return by_system


def sleights(config):
    """One row a cost: how far a policy as able as its honest base with straight users lowers it, all voices.

    ``exploitability`` is the base's cost less its own, at least 0, over the policies of SLEIGHTS that are as able;
    ``n`` counts these. Who gives straight gain away lowers both costs by arithmetic: as able is a straight gain
    within .05 of the base's for shift cost, within 5 % of it for the share, which is a ratio. ``low`` and ``high``:
    the 95 % interval of the worst one's difference; scenarios, not it, are resampled.
    """
    specs = list(dict.fromkeys([*SLEIGHTS, *SLEIGHTS.values()]))
    scores = scored(config.changed(n_turns=TURNS), specs, TIMES * config.n_sessions, ALL)
    values = {spec: sessions(scores[spec], ["shift_cost", "straight_gain"]).to_numpy() for spec in specs}
    draw = rng.stream(config.seed, "redteam", "scenarios")
    n = len(values[specs[0]])
    picks = [np.arange(n)]
    picks += [draw.integers(0, n, n) for _ in range(1000)]
    return pd.DataFrame([cost_row(name, values, picks) for name in COSTS])


def cost_row(name, values, picks):
    costs = {spec: resampled_costs(values[spec], picks, name) for spec in values}
    rises = {}
    for spec, honest in SLEIGHTS.items():
        able, able_honest = (np.nanmean(values[policy][:, 1]) for policy in (spec, honest))
        near = NEAR * able_honest if name == "share_lost" else NEAR
        if abs(able - able_honest) <= near:
            rises[spec] = costs[honest] - costs[spec]
    worst = max(rises, key=lambda spec: rises[spec][0], default="")
    rise = rises.get(worst, np.array([math.nan, 0.0]))
    low, high = np.nanquantile(rise[1:], (0.025, 0.975))
    row = exploit(name, float(np.maximum(0.0, rise[0])), worst, len(rises))
    return {**row, "near_misses": math.nan, "oracle": 0.0, "low": low, "high": high}


def resampled_costs(values, picks, name):
    """The mean shift cost, or the share lost, in samples of the scenarios; columns: cost, straight gain."""
    means = np.array([np.nanmean(values[pick], axis=0) for pick in picks])
    costs = means[:, 0]
    if name == "share_lost":
        return costs / means[:, 1]
    return costs


def exploit(name, rise, worst, n):
    return {
        "metric": name,
        "exploitability": rise,
        "mark": MARK if rise >= RAISED else "",
        "worst": worst,
        "n": n,
    }


def exploitability(policies, metrics=()):
    """One row a metric with a direction: how far useless policies raise it, the mark, and the worst policy.

    ``exploitability`` is the best value of a policy of utility 0, less the better of silence and chance, at least 0;
    ``near_misses`` is the same for policies that are of no use only because they withhold every film that fits and
    show the next best. Values are turned: higher is better. Metrics undefined are left out.
    """
    names = list(metrics)
    if not names:
        names = [m.name for m in base.scored() if m.direction != base.NEITHER and not m.primary]
    table = policies.set_index("policy")
    gamed = table[table.index.str.startswith("gamed:")]
    useless = gamed[gamed["utility"] == 0]
    withheld = useless.index.str.rsplit("/", n=1).str[-1].astype(float) >= 0.5
    rows = []
    for name in names:
        sign = -1.0 if base.get(name).direction == base.LOWER else 1.0
        idle = (sign * table.loc[list(IDLE), name]).max()
        plain = (sign * useless.loc[~withheld, name]).dropna()
        near = (sign * useless.loc[withheld, name]).dropna()
        if plain.empty or math.isnan(idle):
            continue
        row = exploit(name, max(0.0, float(plain.max() - idle)), plain.idxmax(), len(plain))
        row["near_misses"] = max(0.0, float(near.max() - idle)) if len(near) else math.nan
        rows.append({**row, "oracle": float(table.loc["oracle", name])})
    return pd.DataFrame(rows).sort_values("exploitability", ascending=False, ignore_index=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=int, default=150)
    parser.add_argument("--sessions", type=int, default=USUAL.n_sessions)
    parser.add_argument("--seed", type=int, default=USUAL.seed)
    options = parser.parse_args()
    config = USUAL.changed(n_sessions=options.sessions, seed=options.seed)
    table = pd.concat([exploitability(search(config, options.budget)), sleights(config)], ignore_index=True)
    print(table.to_csv(index=False))


if __name__ == "__main__":
    main()
