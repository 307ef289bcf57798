"""A few conversations held and scored in memory, for a first look; a batch that lasts is a run."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.run import score_all
from crs_lib.score.conventions import Convention
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

COLUMNS = ("item_tas", "satisfaction_corrected", "item_recovery_rate", "topic_adaptation_score")


def conversations(world: World, config: SimulateConfig) -> list[Dialogue]:
    """Every session of the settings, system by system; equal to those that a run of them holds."""
    numbers = range(config.n_sessions)
    return [simulate.session(world, spec, n, config) for spec in config.systems for n in numbers]


def mean_scores(dialogues: Sequence[Dialogue], world: World, convention: Convention) -> pd.DataFrame:
    """Mean scores of each system, best first by item TAS: system, sessions, the four headline scores.

    A session without a value is left out of a mean; a mean without any is missing.
    """
    rows = [scores.session for scores in score_all(dialogues, world.grounder, convention)]
    frame = pd.DataFrame(rows).astype(dict.fromkeys(COLUMNS, float))
    grouped = frame.groupby("model", sort=False)
    means = grouped[list(COLUMNS)].mean()
    means.insert(0, "sessions", grouped.size())
    means = means.sort_values(COLUMNS[0], ascending=False, kind="stable")
    return means.rename_axis("system").reset_index()
