"""The other arms of a run: replies to straight and fresh users and in placebo windows, by shift."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from crs_lib import runs, simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import gain
from crs_lib.metrics.records import Text, TurnRecord
from crs_lib.simulate.scenarios import FRESH, NO_SHIFT, STRAIGHT, WINDOWS

_FREE = ("run", "arm", "workers", "windows")


def runs_of(run: str) -> dict[str, str]:
    """The hashes of the dialogues of a run's further arms, by arm; none of a run that has but its own. Raises
    RunError for an arm that was made with other settings than the run.
    """
    own, twin = (runs.entry(simulate.STUDY, name, "simulate") for name in (run, f"{run}-{NO_SHIFT}"))
    found = _windows(own)
    if twin.get("status") == "finished" and twin["parameters"].get("arm") == NO_SHIFT:
        if _settings(twin) != _settings(own):
            told = f"runs {run!r} and '{run}-{NO_SHIFT}' were made with different settings"
            better = f"give one of them another name, or simulate '{run}-{NO_SHIFT}' anew"
            raise RunError(f"{told}, so they are no arms of one batch; {better}")
        found[NO_SHIFT] = str(twin["outputs"]["dialogues.jsonl"])
        found |= {f"{NO_SHIFT}, {arm}": digest for arm, digest in _windows(twin).items()}
    return found


def _windows(entry: Mapping[str, Any]) -> dict[str, str]:
    made = entry.get("outputs", {})
    files = {arm: simulate.dialogue_file(arm) for arm in WINDOWS}
    return {arm: str(made[file]) for arm, file in files.items() if file in made}


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in entry["parameters"].items() if name not in _FREE}
    return {**kept, "inputs": entry["inputs"]}


def gains(run: str, scorer: Scorer) -> ArmGains:
    """:func:`gains_of` the further arms of a run; empty where there is none."""
    arms, twin = runs_of(run), f"{run}-{NO_SHIFT}"
    short = [simulate.iter_dialogues(run, arm) for arm in WINDOWS if arm in arms]
    short += [simulate.iter_dialogues(twin, FRESH)] if f"{NO_SHIFT}, {FRESH}" in arms else []
    twins = simulate.iter_dialogues(twin) if FRESH in arms and NO_SHIFT in arms else ()
    return gains_of(chain.from_iterable(short), twins, scorer)


def gains_of(windows: Iterable[Dialogue], twins: Iterable[Dialogue], scorer: Scorer) -> ArmGains:
    """The replies to straight and fresh users and in placebo windows, by their shift and by arm. ``windows``
    are the dialogues of such users; ``twins`` are the sessions that never shift, for placebo windows.
    """
    found: dict[tuple[str, str, int], dict[str, list[Any]]] = {}
    placebos: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for talk in windows:
        of = talk.extra["of"]
        place = (talk.model_name, str(of["session_id"]), int(of["turn"]))
        turns, arms = _turns(scorer, talk), found.setdefault(place, {})
        if talk.extra["arm"] == STRAIGHT:
            named = f"{gain.STRAIGHT} {of.get('reading', '')}".strip()
            arms[named] = gain.window_replies(turns[place[2] - 1 :])
        elif of["arm"] == NO_SHIFT:
            arms[gain.PLACEBO_FRESH] = gain.window_gains(turns)
            placebos.setdefault(place[:2], []).append((place[2], len(turns)))
        else:
            arms[gain.FRESH], arms[gain.FRESH_V2] = gain.window_replies(turns), gain.window_gains(turns)
    for talk in twins:
        turns = _turns(scorer, talk)
        for turn, length in placebos.get((talk.model_name, talk.session_id), ()):
            values = gain.window_gains(turns[turn - 1 : turn - 1 + length])
            found[talk.model_name, talk.session_id, turn][gain.PLACEBO] = values
    return found


def _turns(scorer: Scorer, talk: Dialogue) -> list[TurnRecord]:
    """The records of a dialogue's turns, without the concepts of their texts, which no gain needs."""
    return list(scorer.prepare(talk, [Text((), frozenset())] * len(talk.turns)).turns)
