"""A few conversations held and scored in memory, for a first look; a batch that lasts is a run."""

from collections.abc import Sequence

import pandas as pd

from crs_lib import simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.run import score_all
from crs_lib.figures import layout
from crs_lib.metrics import base
from crs_lib.metrics.conventions import Convention
from crs_lib.simulate import conversation
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World


def conversations(world: World, config: SimulateConfig) -> list[Dialogue]:
    """Every session of the settings, system by system; equal to those that a run of them holds."""
    numbers = range(config.n_sessions)
    return [simulate.session(world, spec, n, config) for spec in config.systems for n in numbers]


def trial(world: World, config: SimulateConfig) -> pd.DataFrame:
    """Three turns with the first system of the settings, one of them a shift of the constraints.

    One row a turn: what the user said, the active constraints, the reply, the films that were read from it,
    and ``met``, the constraints that the best of them meets.
    """
    items = world.catalog.items
    rows = []
    for number, turn in enumerate(conversation.trial(world, config), start=1):
        films = [items[item] for item in turn.reply.items]
        met = [sum(value in film.values[name] for name, value in turn.wishes.items()) for film in films]
        rows.append({
            "turn": number, "user": turn.utterance,
            "constraints": ", ".join(f"{name} = {value}" for name, value in turn.wishes.items()),
            "reply": turn.reply.text, "films": ", ".join(film.title for film in films) or "none",
            "met": f"{max(met, default=0)} of {len(turn.wishes)}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def session_scores(dialogues: Sequence[Dialogue], world: World, convention: Convention) -> pd.DataFrame:
    """Headline scores of each session: model, session_id, a column a metric; missing where undefined."""
    names = layout.HEADLINE
    rows = [scores.session for scores in score_all(dialogues, world.grounder, convention)]
    return pd.DataFrame(rows)[["model", "session_id", *names]].astype(dict.fromkeys(names, float))


def mean_scores(results: pd.DataFrame) -> pd.DataFrame:
    """Mean headline scores of each system of :func:`session_scores`, best first by the first score.

    A session without a value is left out of a mean, and a metric without any value has no column.
    """
    names = [name for name in layout.HEADLINE if results[name].notna().any()]
    grouped = results.groupby("model", sort=False)
    means = grouped[names].mean()
    means.insert(0, "sessions", grouped.size())
    means = means.sort_values(names[0], ascending=base.get(names[0]).direction == base.LOWER, kind="stable")
    return means.rename_axis("system").reset_index()
