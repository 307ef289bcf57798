"""Do simulated users state nothing but what the log holds? Every value found in their words.

    PYTHONPATH=. python -m benchmarks.voiced [--turns 20000] [--voices all] [--pace dense] [--scope stated]

A value may be wanted, given up, to be avoided, or belong to a film or an aside. Prints the turns read, by
voice, and those that name another value.
"""

import argparse

import pandas as pd

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World
from crs_lib.validity import promises


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--turns", type=int, default=20_000)
    asked.add_argument("--voices", default="all")
    asked.add_argument("--pace", default="dense")
    asked.add_argument("--scope", default="stated")
    asked.add_argument("--catalog", default=sources.SAMPLE)
    given = asked.parse_args()
    catalog = sources.load(given.catalog)
    world = World(catalog, Grounder(catalog))
    users = {"voices": given.voices, "pace": given.pace, "scope": given.scope, "catalog": given.catalog}
    batch = SimulateConfig(systems=["tracker"], **users, seed=1)
    turns, number, said, wrong = 0, 0, {}, []
    while turns < given.turns:
        made = simulate.arms_of(world, "tracker", number, batch)
        talks = [talk for several in made.values() for talk in several]
        found = promises.unlogged(talks, world.grounder)
        voice = talks[0].extra.get("voice", batch.voices)
        said[voice] = said.get(voice, 0) + len(found)
        texts = [pair.user.text for talk in talks for pair in talk.pairs()]
        found = found.assign(voice=voice, text=texts)
        wrong.append(found[found["unlogged"].map(bool)])
        turns, number = turns + len(found), number + 1
    print(f"{turns} user turns of {number} scenarios: {said}")
    print(pd.concat(wrong).drop_duplicates("text").to_string(max_colwidth=160))


if __name__ == "__main__":
    main()
