"""How real do the users of each template set sound, to readers and people that no set was chosen on?

People: CRSArena-Eval's users of ReDial systems, in two halves by session (the words of set C were chosen on
the first), and those of AB-ReDial, who talk to people. Readers: TF-IDF and sentence vectors (MiniLM, extra
"embed"), each with a logistic regression. Prints AUC with 95 % interval for each, and for a trivial generator
that draws from the small talk of set C. Needs the data sets crsarena, abredial and redial-movies
(docs/data.md). Run: PYTHONPATH=. python -m benchmarks.casual_users

With "gate" behind it, the gate's systems meet the users of sets A and C (sample, seed 1, 40 scenarios);
prints their means and the demands of the protocol that do not hold. The protocol itself names A and B.
"""

import hashlib
import sys
from dataclasses import replace

import pandas as pd

from crs_lib import data as datasets
from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World
from crs_lib.validity import gate, raters, realism

SESSIONS, SEED = 60, 1


def confirms(session_id):
    """Whether a session belongs to the half that no word was chosen on."""
    return int(hashlib.sha256(session_id.encode()).hexdigest(), 16) % 2 == 1


def main():
    catalog = sources.load(str(datasets.locate("redial-movies")))
    world = World(catalog, Grounder(catalog))
    arena = list(logs.read(datasets.locate("crsarena")))
    people = {
        "development half": [talk for talk in arena if not confirms(talk.session_id)],
        "confirmation half": [talk for talk in arena if confirms(talk.session_id)],
        "AB-ReDial": raters.abredial().dialogues,
    }
    people = {name: realism.user_turns(talks, world.grounder) for name, talks in people.items()}
    made, asking = {}, {}
    for name in prompts.USER_SETS:
        batch = SimulateConfig(systems=[realism.SYSTEM], seed=SEED, templates=name)
        talks = [simulate.session(world, realism.SYSTEM, number, batch) for number in range(SESSIONS)]
        made[name] = realism.user_turns(talks, world.grounder)
        asks = [pair.user.user_meta["asks"] for talk in talks for pair in talk.pairs()]
        asking[name] = sum(asks) / len(asks)
        early = [turn for talk in talks for turn in realism.user_turns([talk], world.grounder)[:5]]
        made[f"{name}, first 5 turns"] = early
    made["C, small talk only"] = realism.small_talk("C", SESSIONS, 20, SEED)
    rows = []
    for name, turns in made.items():
        row = {"users": name, "turns": len(turns)}
        row["name a value"] = realism.constraint_share(turns, world.grounder)
        for where, real in people.items():
            for reader in (realism.TFIDF, "minilm"):
                found = realism.two_sample(real, turns, reader, SEED)
                row[f"{where}, {reader}"] = "{auc:.3f} [{low:.3f}, {high:.3f}]".format(**found)
        rows.append(row)
    print(pd.DataFrame(rows).set_index("users").T.to_string())
    print(f"share of turns that ask for films: {asking}")
    for where, real in people.items():
        print(
            f"{where}: {len(real)} turns, name a value {realism.constraint_share(real, world.grounder):.3f}"
        )
        ours, theirs = realism.telling_words(real, made["C"])
        print(f"  C is told by: {', '.join(ours)}\n  people are told by: {', '.join(theirs)}")


def order():
    """The gate's systems on sets A and C: their means, and which demands hold."""
    written, means = gate.Protocol.read(), {}
    for letter in ("A", "C"):
        part = {"templates": {gate.DEVELOPMENT: letter}, "seeds": {gate.DEVELOPMENT: [SEED]}}
        protocol = replace(written, content={**written.content, **part})
        values = protocol.values(gate.DEVELOPMENT, f"casual-{letter}", "sample", 2)
        shifting = values[values["arm"] == gate.SHIFT].groupby("system")
        for metric in ("normalised_gain", "history_cost"):
            means[f"{metric}, {letter}"] = shifting[metric].mean()
        found = protocol.test(values)
        lost = found[found["verdict"] != gate.PASS]
        print(f"set {letter}: {len(found) - len(lost)} of {len(found)} demands hold")
        print(lost[["metric", "demand", "estimate", "low", "high"]].round(3).to_string(index=False))
    table = pd.DataFrame(means).sort_values("normalised_gain, A", ascending=False)
    print(table.round(3).to_string())
    print(table.corr(method="kendall").round(3).to_string())


if __name__ == "__main__":
    order() if sys.argv[1:] == ["gate"] else main()
