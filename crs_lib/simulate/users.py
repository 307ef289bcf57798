"""The rule-based user: voices a scenario, remembers the recommended films, and reacts to them. The scenario
fixes the constraints and the shifts; only the wording and the reaction depend on the system (a user whose
constraints are missed insists, one whose constraints are met praises now and then, and one who has heard of
every film that fits asks what comes close). Every planned constraint and shift must be voiced:
:func:`check_voiced` reads the words as systems read them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog import phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ASIDE_FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.errors import RunError
from crs_lib.core.text import shorten
from crs_lib.simulate import scenarios, voices
from crs_lib.simulate.scenarios import CLARIFY, EXCLUDE, FOLLOW_UP, OPENING, QUESTIONS, REFINEMENT, PlanStep
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.systems.base import n_met

SITUATION = "situation"  # stands for the field where an utterance must hold a situation's text


def _must_voice(step: PlanStep, act: str) -> list[tuple[str, str]]:
    """The (field, value) pairs that a turn must name; for a value implied its text, under ``SITUATION``."""
    if step.shift is not None and step.readings:
        return list(step.shift.added.items())
    if step.shift is not None:
        needed = [*SHIFTS.create(step.kind).to_voice(step.shift), *step.excluded.items()]
        if step.situation is None:
            return needed
        implied = (step.situation.field, step.situation.value)
        return [*(pair for pair in needed if pair != implied), (SITUATION, step.situation.text)]
    if act in (OPENING, CLARIFY):
        return [*step.state.constraints.items(), *step.state.avoid.items()]
    if act == REFINEMENT:
        return [(step.state.focus, step.state.constraints[step.state.focus])]
    return list(step.excluded.items())


def check_voiced(grounder: Grounder, step: PlanStep, act: str, text: str) -> None:
    """Raise RunError if a value that a turn must name is not in its words as systems read them."""
    needed = _must_voice(step, act)
    if not needed:
        return
    found = {match.code for match in grounder.audit(text) if not match.rejected}
    for field, value in needed:
        situation = field == SITUATION and value.lower() in text.lower()
        if not situation and (field == SITUATION or grounder.catalog.code(field, value) not in found):
            turn = f"shift {step.kind!r}" if step.shift else f"act {act!r}"
            told = f"{turn} at turn {step.turn} does not voice {field} {value!r}: {shorten(text, 200)!r}"
            mend = f"the phrases of {field!r} in catalog/fields.py, or the templates [{act}] in user.wording"
            raise RunError(f"{told}; mend {mend}")


_PLAIN = 0.75  # at natural pace: turns in plain words, where there are some
_NO_STOP, _NO_MARK, _SLIPS = 0.8, 0.25, 0.06  # users who write no full stop, no question mark; who slip
_PRAISES = 0.4  # how often a user who was served says so when asking for more
_ABOUT_A_REPLY = frozenset({*QUESTIONS, *voices.SMALL_TALK})  # acts whose words may name a film just shown
_ORDINARY = _ABOUT_A_REPLY | {FOLLOW_UP}  # acts that leave room for a reaction
_ASKS = frozenset(
    {OPENING, REFINEMENT, EXCLUDE, CLARIFY, FOLLOW_UP, voices.ANY_FILM, "insist", "nothing_named"}
)


class _UserUtterance(NamedTuple):
    """The text of a user turn, its act, and its log."""

    text: str
    act: str
    meta: dict[str, Any]


# Words an utterance anew, given the template's wording, the values that must be voiced and the turn; says
# also what the log holds of its origin.
Phrasing = tuple[str, Mapping[str, Any]]
_Realiser = Callable[[str, Sequence[tuple[str, str]], int], Phrasing]


class User:
    """One simulated user. ``realise`` may word the utterance anew (an LLM); the plan stays ours."""

    def __init__(
        self, catalog: Catalog, scenario: scenarios.Scenario, realise: _Realiser | None = None
    ) -> None:
        self.catalog, self.scenario, self.realise = catalog, scenario, realise
        self.last: tuple[int, ...] = ()  # the films recommended last
        self.heard = self.asked_about = frozenset[int]()  # all so far; those asked about
        self.asked = True  # whether the last words asked for films
        self.questioned = False  # whether the last reply was a question without films
        self.clarified = False  # whether open words were cleared up since the last shift

    def hear(self, recommended: Sequence[int], text: str = "") -> None:
        """Remember the films of a reply, and whether it only asks something."""
        self.questioned = not recommended and "?" in text
        self.last = tuple(recommended)
        self.heard |= frozenset(recommended)

    def speak(self, turn: int) -> _UserUtterance:
        """The utterance of a turn, 1-based, with its log (``user_meta``)."""
        step = self.scenario.steps[turn - 1]
        act, section = self._act(step)
        self.clarified = act == CLARIFY or (self.clarified and step.shift is None)
        lines = self.scenario.lines
        text = lines.get((turn, section)) or self._typed(self._words(step, act, section))
        if act not in _ABOUT_A_REPLY:
            lines[turn, section] = text
        log = self._log(step, act)
        self.asked = log["asks"]
        if self.realise is not None:
            text, added = self.realise(text, _must_voice(step, act), turn)
            log |= added
        return _UserUtterance(text, act, log)

    def _act(self, step: PlanStep) -> tuple[str, str]:
        """The planned act, or a reaction where an ordinary turn leaves room for one; and its section. Open
        words are cleared up if the system asks back; until then no reaction tells what was meant.
        """
        if step.readings and step.shift is not None:
            return step.act, "shift_open"
        if step.readings and self.questioned and not self.clarified:
            return CLARIFY, CLARIFY
        if step.act == CLARIFY and self.clarified:
            step = replace(step, act=FOLLOW_UP)
        before = self.scenario.steps[max(0, step.turn - 2)].state
        if step.act == OPENING and not before.constraints and not before.avoid:
            return OPENING, "initial_next"  # turns that stated nothing have begun the conversation
        if step.turn == 1 or step.shift is not None or step.act not in _ORDINARY:
            implied = step.situation and step.act != REFINEMENT
            return step.act, f"{step.act}_implicit" if implied else step.act
        last, mood = self.last, self.scenario.moods[step.turn - 1]
        wanted, avoid = step.wanted
        met = max((n_met(self.catalog, item, wanted, avoid) for item in last), default=0)
        best = met / max(1, len(wanted))  # the share of the constraints that the best film meets
        fits, heard = step.answers, self.heard  # it ends where every film that fits has been recommended
        ends = fits is not None and step.n_answers <= len(heard) and heard.issuperset(fits.tolist())
        if step.readings and step.act in voices.SMALL_TALK:
            return step.act, step.act if self.last else "reaction_first"
        if step.readings:
            return step.act, step.act if self.heard or step.act != FOLLOW_UP else "follow_up_first"
        if mood < self.scenario.insist and best < 1 and not ends and step.state.constraints:
            if last:
                return "insist", "insist"
            if self.asked:
                return "nothing_named", "nothing_named"
        if step.act in voices.SMALL_TALK:
            return step.act, self._small_talk(step.act, best, mood)
        if step.act != FOLLOW_UP:
            return step.act, step.act
        if ends:
            return FOLLOW_UP, "follow_up_near"
        if best == 1 and mood < _PRAISES:
            return FOLLOW_UP, "follow_up_met"
        return FOLLOW_UP, FOLLOW_UP if self.heard else "follow_up_first"

    def _small_talk(self, act: str, best: float, mood: float) -> str:
        """The section of a turn of small talk, given how well the best film of the last reply fits."""
        if not self.last:
            return "reaction_first"
        if act == voices.REACTION and best == 1 and mood < _PRAISES:
            return "reaction_met"
        return "reaction_missed" if act == voices.REACTION and best < 1 else act

    def _title(self, step: PlanStep, draw: np.random.Generator) -> str:
        """The film a turn speaks of: one just recommended that was not asked about, else the anchor."""
        fresh = [item for item in self.last if item not in self.asked_about]
        item = fresh[int(draw.integers(len(fresh)))] if fresh else step.state.anchor
        self.asked_about |= {item}
        return self._name(item)

    def _name(self, item: int) -> str:
        """A film's title; at natural pace none that would be read as a year."""
        title = self.catalog.items[item].title
        return "that one" if self.scenario.natural and title.isdigit() else title

    def _words(self, step: PlanStep, act: str, section: str) -> str:
        voice, small = self.scenario.voice, self.scenario.small_letters
        draw = self.scenario.draws(step.turn)
        draw.random()  # the mood
        slots = {"title": "", "old": "", "bridge": ""}
        situation = step.situation.text if step.situation else ""
        if small:  # no name begins a situation
            situation = re.sub(r"^[A-Z]|\bI\b", lambda found: found[0].lower(), situation)
        voiced = dict(step.state.constraints)
        excluded = step.state.avoid if act in (OPENING, CLARIFY) else step.excluded
        if act == REFINEMENT and step.shift is None:
            voiced = {step.state.focus: voiced[step.state.focus]}
        elif step.shift is not None:
            voiced = dict(step.shift.added) or voiced
            if step.situation:
                voiced.pop(step.situation.field)
                slots["situation"] = situation
            slots["old"] = self._noun_phrase(step.shift.dropped, draw)
            before = self.scenario.steps[max(0, step.turn - 2)].state.anchor
            slots["title"] = self._name(before)
            if step.shift.bridge:
                slots["bridge"] = phrases.bridge_phrase(*step.shift.bridge, draw, voice, self.catalog.fields)
        elif act == "contradiction":
            name = list(voiced)[int(draw.integers(len(voiced)))]
            voiced = {name: voiced[name]}
        elif act == "aside":
            slots["aside"] = self._noun_phrase(self._aside(voiced, draw), draw)
        elif act in voices.SMALL_TALK and self.last:
            slots["title"] = self._name(self.last[int(draw.integers(len(self.last)))])
        title = self._title(step, draw) if act in QUESTIONS else ""
        wish = self._noun_phrase(voiced, draw)
        plain = self.scenario.natural and f"plain_{section}" in prompts.sections("user")
        plain = plain and draw.random() < _PLAIN
        if title and not plain:
            return phrases.question(act, title, draw, voice, small=small)
        slots["title"] = title or slots["title"]
        words = prompts.USER_SETS[voice]
        if phrases.ONE in prompts.sections(words):
            slots["one"] = self._noun_phrase(voiced, draw, phrases.ONE)
            if step.shift is not None:
                slots["old_one"] = self._noun_phrase(step.shift.dropped, draw, phrases.ONE)
        section = f"plain_{section}" if plain else section
        said = prompts.say(words, section, draw, small=small, wish=wish, **slots) if act != EXCLUDE else ""
        if step.situation and act == REFINEMENT:
            said = f"{said} {situation}" if voiced else situation
        if not excluded:
            return said
        slots["old"] = self._noun_phrase(excluded, draw)
        stop = "" if said[-1:] in ".?!" else "."
        return f"{said}{stop} {prompts.say(words, 'exclusion', draw, small=small, **slots)}".strip()

    def _noun_phrase(
        self, constraints: Mapping[str, str], draw: np.random.Generator, noun: str = "noun"
    ) -> str:
        """Constraints in words; at natural pace a lone genre in those that people use."""
        own = f"plain {noun} {'+'.join(constraints.values())}"
        if self.scenario.natural and own in prompts.sections("user"):
            return prompts.phrase("user", own, draw)
        voice, code, rows = self.scenario.voice, self.catalog.code, self.catalog.fields
        return phrases.noun_phrase(constraints, draw, voice, noun, code, rows)

    def _typed(self, text: str) -> str:
        """The words with the marks and slips of this user, the same in every turn; at natural pace only."""
        if not self.scenario.natural:
            return text
        _, neat, slip = self.scenario.habits
        text = text.rstrip(".!?" if neat < _NO_MARK else ".!" if neat < _NO_STOP else "")
        for line in prompts.lines("user")["plain slips"] if slip < _SLIPS else ():
            right, wrong = line.split(" = ")
            text = re.sub(rf"\b{right}\b", wrong, text)
        return text

    def _aside(self, constraints: Mapping[str, str], draw: np.random.Generator) -> dict[str, str]:
        """A value that is no constraint, mentioned in passing."""
        known = [name for name in ASIDE_FIELDS if self.catalog.values(name)]
        name = known[int(draw.integers(len(known)))]
        values = [v for v in self.catalog.values(name, 3) if v != constraints.get(name)]
        return {name: values[int(draw.integers(len(values)))]} if values else {}

    def _log(self, step: PlanStep, act: str) -> dict[str, Any]:
        state = step.state
        return {
            "turn": step.turn, "stage": act, "focus_field": state.focus,
            "focus_value": state.constraints.get(state.focus),
            "anchor_title": self.catalog.items[state.anchor].title, "constraints": dict(state.constraints),
            "shift_event": step.event is not None,
            "shift_event_obj": dict(step.event) if step.event else None, "planned_act": step.act,
            "planned_shift": step.planned or None, "asks": act in _ASKS or step.shift is not None,
            "avoid": dict(state.avoid), "n_answers": step.n_answers,
            "stratum": scenarios.stratum(step.n_answers), **({"clarified": True} if act == CLARIFY else {}),
        }  # fmt: skip
