"""How many scenarios a precision needs: a generalisability study of the same systems over catalogues,
wordings, seeds and scenarios. Source: docs/validity.md, section 5; Brennan (2001), Generalizability Theory.
"""

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any, Final, NamedTuple

import pandas as pd

from crs_lib import simulate, stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.metrics import base
from crs_lib.simulate.voices import STATED, choices
from crs_lib.systems.base import SYSTEMS, World
from crs_lib.validity import arms

FACETS: Final = {"catalogue": (), "wording": (), "seed": (), "scenario": ("catalogue", "seed")}
# What a statement holds for, each a facet further than the one before.
SCOPES: Final = {
    "scenario": "other scenarios", "seed": "and other seeds", "wording": "and other wordings",
    "catalogue": "and other catalogues",
}  # fmt: skip
_CONTROLS = ("oracle_lag:1", "tracker", "amnesiac", "sticky", "popular")
_VOICED = ("texting", "polite")
_Some = Annotated[Sequence[str], Field(min_length=1)]
_Systems = Annotated[Sequence[Annotated[str, OneOf(SYSTEMS)]], Field(min_length=2)]
_Voices = Annotated[Sequence[Annotated[str, OneOf(choices)]], Field(min_length=1)]


class PrecisionConfig(Settings):
    """The settings of a study, checked."""

    run: Annotated[RunName, Field(description="the run's name")] = "precision"
    catalogs: Annotated[_Some, Field(description="sample, or catalogues' files")] = (sources.SAMPLE,)
    systems: Annotated[_Systems, Field(description="control policies")] = _CONTROLS
    seeds: Annotated[Sequence[Seed], Field(min_length=1, description="seeds of the users")] = (1, 2, 3)
    n_sessions: Annotated[int, Field(ge=2, description="scenarios, of each catalogue and seed")] = 8
    n_turns: Annotated[int, Field(ge=1, description="user turns in a session")] = 20
    voices: Annotated[_Voices, Field(description="voices of the users, one wording each")] = _VOICED
    metric: Annotated[str, Field(description="a session metric, e.g. shift_cost")] = "normalised_gain"
    precision: Annotated[float, Field(gt=0, description="half width of a difference's 95 % interval")] = 0.05

    def check(self) -> None:
        base.get(self.metric)


class _Precision(NamedTuple):
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
                run=config.run, catalog=catalog, systems=tuple(config.systems), n_sessions=config.n_sessions,
                n_turns=config.n_turns, seed=seed, voices=voice, scope=STATED,
            )  # fmt: skip
            cell, found = (catalog, voice, seed), arms.scored(world, batch, config.n_sessions)
            rows += [(t.model_name, *cell, t.session_id, s.session[config.metric]) for t, s in found]
    columns = "system catalogue wording seed scenario value".split()
    return pd.DataFrame(rows, columns=columns).astype({"value": float})


def _balanced(frame: pd.DataFrame) -> pd.DataFrame:
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


def run(config: PrecisionConfig) -> _Precision:
    """Simulate, score and take the variance apart; both tables are written into the run's folder."""
    components = stats.facet_variances(_balanced(_scores(config)), FACETS)
    rows = []
    for place, (facet, scope) in enumerate(SCOPES.items(), start=1):
        if f"n_{facet}" in components:
            one = stats.scenarios_needed(components, config.precision, fixed=list(SCOPES)[place:])
            rows.append(one.assign(holds_for=scope))
    needed = pd.concat(rows, ignore_index=True).drop(columns="fixed")
    needed = needed[["holds_for", *needed.columns.drop("holds_for")]].assign(metric=config.metric)
    folder = paths.run_folder(simulate.STUDY, config.run)
    tables.write_csv(folder / "precision_components.csv", components)
    tables.write_csv(folder / "precision.csv", needed)
    return _Precision(components, needed)
