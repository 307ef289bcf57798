"""The other arms of a run: gains of fresh users and of placebo windows, by the shift that they mirror."""

from collections.abc import Iterable, Mapping
from typing import Any

from crs_lib import runs, simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import gain
from crs_lib.metrics.records import Text, TurnRecord
from crs_lib.simulate.scenarios import FRESH, NO_SHIFT, SHIFT

_FREE = ("run", "arm", "workers", "windows_of")
_NAMES = {SHIFT: gain.FRESH, NO_SHIFT: gain.PLACEBO_FRESH}


def runs_of(run: str) -> dict[str, str]:
    """The hashes of the dialogues of a run's further arms, by arm; often none is simulated.

    Raises RunError for an arm that was made with other settings than the run.
    """
    own = runs.read_manifest(simulate.STUDY, run).get("stages", {}).get("simulate", {})
    found = {}
    for arm in (NO_SHIFT, FRESH):
        entry = runs.read_manifest(simulate.STUDY, f"{run}-{arm}").get("stages", {}).get("simulate", {})
        if entry.get("status") != "finished" or entry["parameters"].get("arm") != arm:
            continue
        if _settings(entry) != _settings(own):
            raise RunError(
                f"runs {run!r} and '{run}-{arm}' were made with different settings, so they are no arms of "
                f"one batch; give one of them another name, or simulate '{run}-{arm}' anew"
            )
        found[arm] = str(entry["outputs"]["dialogues.jsonl"])
    return found


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in entry["parameters"].items() if name not in _FREE}
    return {**kept, "inputs": entry["inputs"]}


def gains(run: str, scorer: Scorer) -> dict[tuple[str, str, int], dict[str, list[float]]]:
    """:func:`gains_of` the further arms of a run; empty where no fresh users were simulated."""
    arms = runs_of(run)
    if FRESH not in arms:
        return {}
    twins = simulate.iter_dialogues(f"{run}-{NO_SHIFT}") if NO_SHIFT in arms else ()
    return gains_of(simulate.iter_dialogues(f"{run}-{FRESH}"), twins, scorer)


def gains_of(
    fresh: Iterable[Dialogue], twins: Iterable[Dialogue], scorer: Scorer
) -> dict[tuple[str, str, int], dict[str, list[float]]]:
    """Normalised gain of every reply to fresh users and in placebo windows, by their shift and by arm.

    ``twins`` are the sessions that never shift; without them there are no placebo windows.
    """
    found: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    windows: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for talk in fresh:
        of = talk.extra["of"]
        place = (talk.model_name, str(of["session_id"]), int(of["turn"]))
        values = gain.window_gains(_turns(scorer, talk))
        found.setdefault(place, {})[_NAMES[of["arm"]]] = values
        if of["arm"] == NO_SHIFT:
            windows.setdefault(place[:2], []).append((place[2], len(values)))
    for talk in twins:
        turns = _turns(scorer, talk)
        for turn, length in windows.get((talk.model_name, talk.session_id), ()):
            values = gain.window_gains(turns[turn - 1 : turn - 1 + length])
            found[talk.model_name, talk.session_id, turn][gain.PLACEBO] = values
    return found


def _turns(scorer: Scorer, talk: Dialogue) -> list[TurnRecord]:
    """The records of a dialogue's turns, without the concepts of their texts, which no gain needs."""
    nothing = Text((), frozenset())
    return list(scorer.prepare(talk, [nothing] * len(talk.turns)).turns)
