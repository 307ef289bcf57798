"""A few conversations held and scored in memory, for a first look; a batch that lasts is a run."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.run import score_all
from crs_lib.metrics.base import LOWER, get, headline
from crs_lib.metrics.conventions import Convention
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World


def conversations(world: World, config: SimulateConfig) -> list[Dialogue]:
    """Every session of the settings, system by system; equal to those that a run of them holds."""
    numbers = range(config.n_sessions)
    return [simulate.session(world, spec, n, config) for spec in config.systems for n in numbers]


def mean_scores(dialogues: Sequence[Dialogue], world: World, convention: Convention) -> pd.DataFrame:
    """Mean headline scores of each system with its number of sessions, best first by the first score.

    A session without a value is left out of a mean; a mean without any is missing.
    """
    names = headline()
    rows = [scores.session for scores in score_all(dialogues, world.grounder, convention)]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(names, float))
    grouped = frame.groupby("model", sort=False)
    means = grouped[names].mean()
    means.insert(0, "sessions", grouped.size())
    means = means.sort_values(names[0], ascending=get(names[0]).direction == LOWER, kind="stable")
    return means.rename_axis("system").reset_index()
