"""How many scenarios a precision needs: the same systems over catalogues, wordings, seeds and scenarios.

Source: Brennan (2001), Generalizability Theory. The last figures stand in docs/records/precision.csv;
minutes:

    PYTHONPATH=. python -m benchmarks.precision [--catalogs FILE …] [--sessions 8] [--metric NAME]
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

import pandas as pd

from benchmarks.facets import facet_variances, scenarios_needed
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.errors import InputError
from crs_lib.simulate.voices import STATED
from crs_lib.systems.base import World
from crs_lib.validity import arms

FACETS: Final = {"catalogue": (), "wording": (), "seed": (), "scenario": ("catalogue", "seed")}
# What a statement holds for, each a facet further than the one before.
SCOPES: Final = {
    "scenario": "other scenarios", "seed": "and other seeds", "wording": "and other wordings",
    "catalogue": "and other catalogues",
}  # fmt: skip
_CONTROLS = ("oracle_lag:1", "tracker", "amnesiac", "sticky", "popular")
_VOICED = ("texting", "polite")


@dataclass(frozen=True)
class PrecisionConfig:
    """The settings of a study."""

    catalogs: Sequence[str] = (sources.SAMPLE,)
    systems: Sequence[str] = _CONTROLS
    seeds: Sequence[int] = (1, 2, 3)
    n_sessions: int = 8
    n_turns: int = 20
    voices: Sequence[str] = _VOICED
    metric: str = "normalised_gain"
    precision: float = 0.05


class Precision(NamedTuple):
    """The variance components, and the scenarios that the precision needs by what is generalised over."""

    components: pd.DataFrame
    needed: pd.DataFrame


def _scores(config: PrecisionConfig) -> pd.DataFrame:
    """One row a session: system, catalogue, wording, seed, scenario and ``value``, the metric."""
    rows = list[tuple[Any, ...]]()
    for catalog in config.catalogs:
        loaded = sources.load(catalog)
        world = World(loaded, Grounder(loaded))
        for voice, seed in product(config.voices, config.seeds):
            batch = simulate.SimulateConfig(
                catalog=catalog, systems=tuple(config.systems), n_sessions=config.n_sessions,
                n_turns=config.n_turns, seed=seed, voices=voice, scope=STATED,
            )  # fmt: skip
            cell, found = (catalog, voice, seed), arms.scored(world, batch, config.n_sessions)
            rows += [(t.model_name, *cell, t.session_id, s.session[config.metric]) for t, s in found]
    columns = "system catalogue wording seed scenario value".split()
    return pd.DataFrame(rows, columns=columns).astype({"value": float})


def balanced(frame: pd.DataFrame) -> pd.DataFrame:
    """The scenarios that have a value for every system and wording, equally many a catalogue and seed. The
    first ones of each cell are kept. Raises InputError where a cell has fewer than two.
    """
    cell = ["catalogue", "seed"]
    whole = frame.groupby([*cell, "scenario"], sort=False)["value"].transform(lambda part: part.notna().all())
    kept = frame[whole]
    counts = kept.groupby(cell)["scenario"].nunique()
    least = int(counts.min()) if len(counts) == frame.groupby(cell).ngroups else 0
    if least < 2:
        few = f"a catalogue and seed has {least} scenarios with a value for every system and wording"
        raise InputError(f"{few}; at least 2 are needed: give more sessions")
    place = kept.groupby(cell, sort=False)["scenario"].transform(lambda part: pd.factorize(part)[0])
    return kept[place < least].reset_index(drop=True)


def run(config: PrecisionConfig) -> Precision:
    """Simulate, score and take the variance apart."""
    components = facet_variances(balanced(_scores(config)), FACETS)
    rows = []
    for place, (facet, scope) in enumerate(SCOPES.items(), start=1):
        if f"n_{facet}" in components:
            one = scenarios_needed(components, config.precision, fixed=list(SCOPES)[place:])
            rows.append(one.assign(holds_for=scope))
    needed = pd.concat(rows, ignore_index=True).drop(columns="fixed")
    needed = needed[["holds_for", *needed.columns.drop("holds_for")]].assign(metric=config.metric)
    return Precision(components, needed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--catalogs", nargs="+", default=[sources.SAMPLE])
    parser.add_argument("--sessions", dest="n_sessions", type=int, default=8)
    parser.add_argument("--metric", default="normalised_gain")
    for table in run(PrecisionConfig(**vars(parser.parse_args()))):
        print(table.round(5).to_csv(index=False))


if __name__ == "__main__":
    main()
