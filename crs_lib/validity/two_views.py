"""The bridge between simulation and people: a run scored with the logged state and with the state heard.

The score is the same metric; only the state differs. Source: docs/validity.md, section 4.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.validity import agreement, heard

METRIC = "normalised_gain"
LOGGED, HEARD = "logged", "heard"


def turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per turn: the gain for the logged and for the heard state, and how far the two states agree.

    ``joint`` is 1 where constraints and exclusions are heard exactly; ``precision`` and ``recall`` are those
    of the values heard, NaN without any. A person's roles count as one value: words do not tell them apart.
    """
    kept = list(dialogues)
    found = [_with_heard(dialogue, grounder) for dialogue in kept]
    rule = conventions.get("default")
    rows: list[dict[str, Any]] = []
    for dialogue, other, with_log, with_words in zip(
        kept, found, score_all(kept, grounder, rule), score_all(found, grounder, rule), strict=True
    ):
        scored = zip(dialogue.pairs(), other.pairs(), with_log.turns, with_words.turns, strict=True)
        for pair, twin, mine, theirs in scored:
            row = {"system": dialogue.model_name, "conv_id": dialogue.session_id, "turn": pair.turn}
            row |= {LOGGED: mine[METRIC], HEARD: theirs[METRIC]}
            rows.append(row | _agreement(_state(pair.user.user_meta), _state(twin.user.user_meta)))
    return pd.DataFrame(rows)


def _with_heard(dialogue: Dialogue, grounder: Grounder) -> Dialogue:
    """The dialogue with the heard constraints and exclusions in its log, all else as it was."""
    listener, out = heard.Listener(grounder), []
    for place, turn in enumerate(dialogue.turns):
        if place % 2:
            out.append(turn)
            continue
        state = listener.listen(turn.text)
        log = dict(turn.user_meta) | {
            "constraints": heard.values(grounder, state.constraints),
            "avoid": heard.values(grounder, state.avoid),
        }
        out.append(replace(turn, meta={**turn.meta, "user_meta": log}))
    return replace(dialogue, turns=tuple(out))


def _state(log: Any) -> frozenset[tuple[bool, str]]:
    """The values of a log, each with whether it is wanted."""
    return frozenset(
        (wanted, str(value))
        for key, wanted in (("constraints", True), ("avoid", False))
        for given in (log.get(key) or {}).values()
        for value in ([given] if isinstance(given, str | int) else given)
    )


def _agreement(logged: frozenset[Any], found: frozenset[Any]) -> dict[str, float]:
    both = len(logged & found)
    return {
        "joint": float(logged == found),
        "precision": both / len(found) if found else np.nan,
        "recall": both / len(logged) if logged else np.nan,
    }


def bridge(rows: pd.DataFrame, *, resamples: int = 500, seed: int = 0) -> pd.DataFrame:
    """One row per system: both views' mean gain, their Spearman, and the agreement of the states.

    "all" comes first; its last column is the Spearman of the two views over systems. ``low`` and ``high`` are
    the 95 % interval of Spearman over turns, sessions drawn with replacement.
    """
    return pd.DataFrame(list(_bridge(rows, resamples, seed)))


def _bridge(rows: pd.DataFrame, resamples: int, seed: int) -> Iterator[dict[str, Any]]:
    names = [LOGGED, HEARD]
    for system, part in [("all", rows), *rows.groupby("system", sort=False)]:
        both = part[part[names].notna().all(axis=1)]
        talks = part.groupby(["system", "conv_id"])[names].mean().dropna()
        means = part.groupby("system")[names].mean()
        row: dict[str, Any] = {"system": system, "n": len(both), **part[names].mean().to_dict()}
        row["spearman, turns"] = _rho(both)
        row |= agreement.interval(part, LOGGED, HEARD, resamples=resamples, seed=seed)
        row |= {"spearman, sessions": _rho(talks), "spearman, systems": _rho(means)}
        yield row | part[["joint", "precision", "recall"]].mean().to_dict()


def _rho(frame: pd.DataFrame) -> float:
    return agreement.spearman(frame[LOGGED].to_numpy(float), frame[HEARD].to_numpy(float))
