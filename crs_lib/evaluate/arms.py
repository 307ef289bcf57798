"""The other arms of a run: replies to straight and fresh users, by the shift that they mirror."""

from collections.abc import Iterable
from itertools import chain

from crs_lib import runs, simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import costs
from crs_lib.metrics.records import NONE, Text
from crs_lib.simulate.scenarios import NO_SHIFT, STRAIGHT, WINDOWS


def runs_of(run: str) -> dict[str, str]:
    """The hashes of the dialogues of a run's further arms, by arm; none of a run that has but its own."""
    outputs = runs.entry(simulate.STUDY, run, "simulate").get("outputs", {})
    hashes = {}
    for arm in WINDOWS:
        file = simulate.dialogue_file(arm)
        if file in outputs:
            hashes[arm] = str(outputs[file])
    return hashes


def gains(run: str, scorer: Scorer) -> ArmGains:
    """:func:`gains_of` the further arms of a run; empty where there is none."""
    arms = [simulate.iter_dialogues(run, arm) for arm in runs_of(run)]
    return gains_of(chain.from_iterable(arms), scorer)


def gains_of(windows: Iterable[Dialogue], scorer: Scorer) -> ArmGains:
    """The replies to straight and fresh users by their shift and by arm; ``windows`` are their dialogues."""
    gains: dict[tuple[str, str, int], dict[str, list[costs.WindowReply]]] = {}
    unread = Text((), NONE)  # no gain needs the concepts of a text
    for dialogue in windows:
        mirrored = dialogue.extra["of"]
        if mirrored["arm"] == NO_SHIFT:
            continue
        turn = int(mirrored["turn"])
        turns = scorer.prepare(dialogue, [unread] * len(dialogue.turns)).turns
        arms = gains.setdefault((dialogue.model_name, str(mirrored["session_id"]), turn), {})
        if dialogue.extra["arm"] == STRAIGHT:
            arms[costs.arm_of(mirrored.get("reading", ""))] = costs.window_replies(turns[turn - 1 :])
        else:
            arms[costs.FRESH] = costs.window_replies(turns)
    return gains
