"""The rule-based user: voices a scenario, remembers what the system said, and reacts to it.

What the user wants and when it shifts is the scenario's; only the wording and the reaction depend on
the system (a user who is not served insists, a user who is asks about what was recommended).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from crs_lib.catalog import phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import rng
from crs_lib.prompts import wording
from crs_lib.simulate.scenarios import QUESTIONS, Scenario, Step, stratum

_INSISTS = 0.6  # how often an unserved user insists instead of going on
_ASKS = frozenset({"initial", "refine", "follow_up", "insist", "nothing_named"})


class Utterance(NamedTuple):
    """What the user says in a turn, the act it is, and the log of it."""

    text: str
    act: str
    meta: dict[str, Any]


class Phrasing(NamedTuple):
    """Another wording of an utterance, and what its log says of how it came about."""

    text: str
    meta: Mapping[str, Any]


class Realiser(Protocol):
    """Words an utterance; gets the template's wording and what must be voiced."""

    def __call__(self, template: str, must_voice: Sequence[tuple[str, str]], turn: int) -> Phrasing: ...


@dataclass
class Memory:
    """What the user remembers of the system: the films recommended last, and before."""

    last: tuple[int, ...] = ()
    asked_about: frozenset[int] = frozenset()


class User:
    """One simulated user. ``realise`` may word the utterance anew (an LLM); the plan stays ours."""

    def __init__(self, catalog: Catalog, scenario: Scenario, realise: Realiser | None = None) -> None:
        self.catalog = catalog
        self.scenario = scenario
        self.realise = realise
        self.memory = Memory()

    def hear(self, recommended: Sequence[int]) -> None:
        """Remember the films of a reply."""
        self.memory.last = tuple(recommended)

    def speak(self, turn: int) -> Utterance:
        """The utterance of a turn, 1-based, with its log (``user_meta``)."""
        step = self.scenario.steps[turn - 1]
        draw = rng.stream(self.scenario.seed, "movies", self.scenario.session, "words", turn)
        act = self._act(step, draw)
        text = self._words(step, act, draw)
        log = self._log(step, act)
        if self.realise is not None:
            text, added = self.realise(text, must_voice(step, act), turn)
            log |= added
        return Utterance(text, act, log)

    def _act(self, step: Step, draw: np.random.Generator) -> str:
        """The planned act, or a reaction where an ordinary turn leaves room for one."""
        reacts = draw.random() < _INSISTS
        if step.turn == 1 or step.shift is not None or step.act not in (*QUESTIONS, "follow_up"):
            return step.act
        if not self.memory.last:
            return "nothing_named" if reacts else step.act
        best = max(self._met(item, step) for item in self.memory.last)
        return "insist" if best < 1 and reacts else step.act

    def _met(self, item: int, step: Step) -> float:
        """Share of the wishes in force that a film meets."""
        values = self.catalog.items[item].values
        wishes = step.state.wishes
        return sum(value in values[name] for name, value in wishes.items()) / len(wishes)

    def _title(self, step: Step, draw: np.random.Generator) -> str:
        """The film a turn speaks of: one just recommended that was not asked about, else the anchor."""
        fresh = [item for item in self.memory.last if item not in self.memory.asked_about]
        item = fresh[int(draw.integers(len(fresh)))] if fresh else step.state.anchor
        self.memory.asked_about |= {item}
        return self.catalog.items[item].title

    def _words(self, step: Step, act: str, draw: np.random.Generator) -> str:
        slots = {"title": "", "old": "", "bridge": ""}
        wishes = dict(step.state.wishes)
        if act == "refine":
            wishes = {step.state.focus: wishes[step.state.focus]}
        elif step.shift is not None:
            wishes = dict(step.shift.added) or wishes
            slots["old"] = phrases.wish(step.shift.dropped, draw)
            slots["title"] = self.catalog.items[self._before(step)].title
            if step.shift.bridge:
                slots["bridge"] = phrases.bridge(*step.shift.bridge, draw)
        elif act == "contradiction":
            name = list(wishes)[int(draw.integers(len(wishes)))]
            wishes = {name: wishes[name]}
        elif act == "aside":
            slots["aside"] = phrases.wish(self._aside(wishes, draw), draw)
        if act in QUESTIONS:
            slots["title"] = self._title(step, draw)
        return wording.say("user", act, draw, wish=phrases.wish(wishes, draw), **slots)

    def _aside(self, wishes: Mapping[str, str], draw: np.random.Generator) -> dict[str, str]:
        """A genre or person that is no wish, mentioned in passing."""
        name = ("genre", "actor", "director")[int(draw.integers(3))]
        values = [v for v in self.catalog.values(name, 3) if v != wishes.get(name)]
        return {name: values[int(draw.integers(len(values)))]} if values else {}

    def _before(self, step: Step) -> int:
        """The film that was in mind before this turn."""
        return self.scenario.steps[max(0, step.turn - 2)].state.anchor

    def _log(self, step: Step, act: str) -> dict[str, Any]:
        state = step.state
        return {
            "turn": step.turn,
            "stage": act,
            "focus_field": state.focus,
            "focus_value": state.wishes.get(state.focus),
            "anchor_title": self.catalog.items[state.anchor].title,
            "constraints": dict(state.wishes),
            "shift_event": step.event is not None,
            "shift_event_obj": dict(step.event) if step.event else None,
            "planned_act": step.act,
            "planned_shift": step.planned or None,
            "asks": act in _ASKS or step.shift is not None,
            "avoid": dict(state.avoid),
            "n_answers": step.n_answers,
            "stratum": stratum(step.n_answers),
        }


def must_voice(step: Step, act: str) -> list[tuple[str, str]]:
    """The (field, value) pairs that the words of a turn must name for the plan to be voiced."""
    if step.shift is not None:
        return list((step.shift.added or step.shift.dropped).items())
    if act == "initial":
        return list(step.state.wishes.items())
    if act == "refine":
        return [(step.state.focus, step.state.wishes[step.state.focus])]
    return []
