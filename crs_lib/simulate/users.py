"""User: one simulated person, who voices a scenario, remembers the recommended films, and reacts to them.

The scenario fixes the constraints and the shifts; only the wording and the reaction depend on the system: a
user whose constraints are missed insists, one whose constraints are met praises now and then, and one who
has heard of every film that fits asks what comes close. Every planned constraint and shift must be voiced:
:func:`check_voiced` reads the words as systems read them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from crs_lib.catalog import phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ASIDE_FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts
from crs_lib.core.errors import RunError
from crs_lib.core.text import shorten
from crs_lib.simulate import voices
from crs_lib.simulate.scenarios import (
    CLARIFY,
    CONTRADICTION,
    EXCLUDE,
    FOLLOW_UP,
    OPENING,
    QUESTIONS,
    REFINEMENT,
    PlanStep,
    Scenario,
    stratum,
)
from crs_lib.simulate.shifts import SHIFTS, one_of
from crs_lib.systems.base import Draw, Wishes, n_met

SITUATION = "situation"  # stands for the field where an utterance must hold a situation's text
INSIST, NOTHING_NAMED = "insist", "nothing_named"  # acts of users who miss a film that fits, or any film
_PLAIN = 0.75  # at natural pace: turns in plain words, where there are some
NO_STOP, NO_MARK = 0.8, 0.25  # at natural pace: users who write no full stop, and no question mark
_SLIPS = 0.06  # at natural pace: users who slip
_PRAISES = 0.4  # how often a user who was served says so when asking for more
_ABOUT_A_REPLY = frozenset({*QUESTIONS, *voices.SMALL_TALK})  # acts whose words may name a film just shown
_ORDINARY = _ABOUT_A_REPLY | {FOLLOW_UP}  # acts that leave room for a reaction
_REQUESTS = frozenset({OPENING, REFINEMENT, EXCLUDE, CLARIFY, FOLLOW_UP, voices.ANY_FILM})
_ASKS = _REQUESTS | {INSIST, NOTHING_NAMED}

Needed = Sequence[tuple[str, str]]  # the (field, value) pairs that an utterance must name
# Words an utterance anew, given the template's wording, the values that must be voiced and the turn; says
# also what the log holds of its origin.
Phrasing = tuple[str, Mapping[str, Any]]
Realiser = Callable[[str, Needed, int], Phrasing]


def must_voice(step: PlanStep, act: str) -> list[tuple[str, str]]:
    """The (field, value) pairs that a turn must name; for a value implied its text, under ``SITUATION``."""
    if step.shift is not None:
        if step.readings:
            return list(step.shift.named.items())
        needed = SHIFTS.create(step.kind).to_voice(step.shift) + list(step.excluded.items())
        if step.situation:
            needed.remove((step.situation.field, step.situation.value))
            needed.append((SITUATION, step.situation.text))
        return needed
    if act in (OPENING, CLARIFY):
        return [*step.state.constraints.items(), *step.state.avoid.items()]
    if act == REFINEMENT:
        return [(step.state.focus, step.state.constraints[step.state.focus])]
    return list(step.excluded.items())


def check_voiced(grounder: Grounder, step: PlanStep, act: str, text: str) -> None:
    """Raise RunError if a value that a turn must name is not in its words as systems read them."""
    needed = must_voice(step, act)
    if not needed:
        return
    codes = {match.code for match in grounder.audit(text) if not match.rejected}
    for name, value in needed:
        if name == SITUATION:
            voiced = value.lower() in text.lower()
        else:
            voiced = grounder.catalog.code(name, value) in codes
        if not voiced:
            turn = f"shift {step.kind!r}" if step.shift else f"act {act!r}"
            lacks = f"{turn} at turn {step.turn} does not voice {name} {value!r}: {shorten(text, 200)!r}"
            mend = f"the phrases of {name!r} in catalog/fields.py, or the templates [{act}] in user.wording"
            raise RunError(f"{lacks}; mend {mend}")


class Utterance(NamedTuple):
    """The text of a user turn, its act, and its log as the dialogue's JSON has it (``user_meta``)."""

    text: str
    act: str
    meta: dict[str, Any]


class HeardFilms:
    """The films that a user has heard of: those of the last reply, all so far, and those asked about."""

    def __init__(self) -> None:
        self.last: tuple[int, ...] = ()
        self.all: set[int] = set()
        self.asked_about: set[int] = set()

    def hear(self, films: Sequence[int]) -> None:
        """Remember the films of a reply."""
        self.last = tuple(films)
        self.all.update(films)

    def one_of_last(self, draw: Draw) -> int:
        """A film of the last reply."""
        return one_of(self.last, draw)

    def to_ask_about(self, anchor: int, draw: Draw) -> int:
        """A film just recommended that was not asked about, else the film in mind."""
        film = anchor
        fresh = [other for other in self.last if other not in self.asked_about]
        if fresh:
            film = one_of(fresh, draw)
        self.asked_about.add(film)
        return film


class Wording:
    """Words the turns of one user; the same turn, section and films give the same words."""

    def __init__(self, catalog: Catalog, scenario: Scenario) -> None:
        self.catalog = catalog
        self.scenario = scenario
        self.voice = scenario.voice
        self.templates = prompts.USER_SETS[scenario.voice]
        self.small = scenario.small_letters

    def text(self, step: PlanStep, act: str, section: str, films: HeardFilms) -> str:
        """The words of a turn as the user types them."""
        text = self._words(step, act, section, films)
        if self.scenario.natural:
            text = self._typed(text)
        return text

    def _words(self, step: PlanStep, act: str, section: str, films: HeardFilms) -> str:
        draw = self.scenario.draws(step.turn)
        voiced = self._voiced(step, act, draw)
        slots = self._slots(step, act, films, draw)
        if act in QUESTIONS:
            slots["title"] = self._name(films.to_ask_about(step.state.anchor, draw))
        slots.update(wish=self._noun_phrase(voiced, draw))
        plain = f"plain_{section}"
        if self.scenario.natural and plain in prompts.sections("user") and draw.random() < _PLAIN:
            section = plain
        elif act in QUESTIONS:
            return phrases.question(act, slots["title"], draw, self.voice, small=self.small)
        if phrases.ONE in prompts.sections(self.templates):
            slots["one"] = self._noun_phrase(voiced, draw, phrases.ONE)
            if step.shift is not None:
                slots["old_one"] = self._noun_phrase(step.shift.dropped, draw, phrases.ONE)
        text = ""
        if act != EXCLUDE:
            text = self._say(section, draw, slots)
        if step.situation and act == REFINEMENT:
            situation = self._situation(step.situation.text)
            text = f"{text} {situation}" if voiced else situation
        excluded = step.excluded
        if act in (OPENING, CLARIFY):
            excluded = step.state.avoid
        if not excluded:
            return text
        slots["old"] = self._noun_phrase(excluded, draw)
        stop = "" if text[-1:] in ".?!" else "."
        return f"{text}{stop} {self._say('exclusion', draw, slots)}".strip()

    def _voiced(self, step: PlanStep, act: str, draw: Draw) -> dict[str, str]:
        """The constraints that the words name."""
        constraints = dict(step.state.constraints)
        if step.shift is not None:
            named = step.shift.named
            if step.situation:
                del named[step.situation.field]
                return named
            return named or constraints
        if act == REFINEMENT:
            return {step.state.focus: constraints[step.state.focus]}
        if act == CONTRADICTION:
            name = one_of(list(constraints), draw)
            return {name: constraints[name]}
        return constraints

    def _slots(self, step: PlanStep, act: str, films: HeardFilms, draw: Draw) -> dict[str, str]:
        """What fills the templates beside the constraints named."""
        slots = {"title": "", "old": "", "bridge": ""}
        if step.shift is not None:
            if step.situation:
                slots["situation"] = self._situation(step.situation.text)
            slots["old"] = self._noun_phrase(step.shift.dropped, draw)
            slots["title"] = self._name(self.scenario.before(step.turn).state.anchor)
            if step.shift.bridge:
                slots["bridge"] = phrases.bridge_phrase(
                    *step.shift.bridge, draw, self.voice, self.catalog.fields
                )
        elif act == "aside":
            slots["aside"] = self._noun_phrase(self._aside(step.state.constraints, draw), draw)
        elif act in voices.SMALL_TALK and films.last:
            slots["title"] = self._name(films.one_of_last(draw))
        return slots

    def _say(self, section: str, draw: Draw, slots: Wishes) -> str:
        return prompts.say(self.templates, section, draw, small=self.small, **slots)

    def _name(self, film: int) -> str:
        """A film's title; at natural pace none that would be read as a year."""
        title = self.catalog.items[film].title
        return "that one" if self.scenario.natural and title.isdigit() else title

    def _situation(self, text: str) -> str:
        """A situation in this user's capitals; no name begins one."""
        if not self.small:
            return text
        return re.sub(r"^[A-Z]|\bI\b", lambda capital: capital[0].lower(), text)

    def _noun_phrase(self, constraints: Wishes, draw: Draw, noun: str = "noun") -> str:
        """Constraints in words; at natural pace a lone genre in those that people use."""
        if self.scenario.natural:
            own = f"plain {noun} {'+'.join(constraints.values())}"
            if own in prompts.sections("user"):
                return prompts.phrase("user", own, draw)
        code, rows = self.catalog.code, self.catalog.fields
        return phrases.noun_phrase(constraints, draw, self.voice, noun, code, rows)

    def _aside(self, constraints: Wishes, draw: Draw) -> dict[str, str]:
        """A value that is no constraint, mentioned in passing."""
        names = [name for name in ASIDE_FIELDS if self.catalog.values(name)]
        name = one_of(names, draw)
        values = self.catalog.values(name, 3)
        others = [value for value in values if value != constraints.get(name)]
        return {name: one_of(others, draw)} if others else {}

    def _typed(self, text: str) -> str:
        """The words with the marks and slips of a user at natural pace, the same in every turn."""
        _, neat, slip = self.scenario.habits
        if neat < NO_STOP:
            text = text.rstrip(".!?" if neat < NO_MARK else ".!")
        if slip < _SLIPS:
            for line in prompts.lines("user")["plain slips"]:
                right, wrong = line.split(" = ")
                text = re.sub(rf"\b{right}\b", wrong, text)
        return text


class User:
    """One simulated user. ``realise`` may word the utterance anew (an LLM); the plan stays ours."""

    def __init__(self, catalog: Catalog, scenario: Scenario, realise: Realiser | None = None) -> None:
        self.catalog = catalog
        self.scenario = scenario
        self.realise = realise
        self.wording = Wording(catalog, scenario)
        self.films = HeardFilms()
        self.asked_for_films = True  # whether the last words asked for films
        self.questioned = False  # whether the last reply was a question without films
        self.clarified = False  # whether open words were cleared up since the last shift

    def hear(self, recommended: Sequence[int], text: str = "") -> None:
        """Remember the films of a reply, and whether it only asks something."""
        self.questioned = not recommended and "?" in text
        self.films.hear(recommended)

    def speak(self, turn: int) -> Utterance:
        """The utterance of a turn, 1-based, with its log (``user_meta``)."""
        step = self.scenario.steps[turn - 1]
        act, section = self._act(step)
        self.clarified = act == CLARIFY or (self.clarified and step.shift is None)
        text = self._text(step, act, section)
        self.asked_for_films = act in _ASKS or step.shift is not None
        log = self._log(step, act)
        if self.realise is not None:
            text, origin = self.realise(text, must_voice(step, act), turn)
            log.update(origin)
        return Utterance(text, act, log)

    def _log(self, step: PlanStep, act: str) -> dict[str, Any]:
        """What the log says of a turn: the thesis's keys first, then ours."""
        state = step.state
        log: dict[str, Any] = {"turn": step.turn, "stage": act, "focus_field": state.focus}
        log["focus_value"] = state.constraints.get(state.focus)
        log["anchor_title"] = self.catalog.items[state.anchor].title
        log["constraints"] = dict(state.constraints)
        log["shift_event"] = step.event is not None
        log["shift_event_obj"] = step.event.to_json() if step.event else None
        log["planned_act"] = step.act
        log["planned_shift"] = step.planned or None
        log["asks"] = self.asked_for_films
        log["avoid"] = dict(state.avoid)
        log["n_answers"] = step.n_answers
        log["stratum"] = stratum(step.n_answers)
        if act == CLARIFY:
            log["clarified"] = True
        return log

    def _text(self, step: PlanStep, act: str, section: str) -> str:
        """The words of a turn; those that no reply changes are made once for all systems."""
        lines = self.scenario.lines
        text = lines.get((step.turn, section))
        if text is None:
            text = self.wording.text(step, act, section, self.films)
            if act not in _ABOUT_A_REPLY:
                lines[step.turn, section] = text
        return text

    def _act(self, step: PlanStep) -> tuple[str, str]:
        """The planned act, or a reaction where an ordinary turn leaves room for one; and its section. Open
        words are cleared up if the system asks back; until then no reaction tells what was meant.
        """
        if step.readings and step.shift is not None:
            return step.act, "shift_open"
        if step.readings and self.questioned and not self.clarified:
            return CLARIFY, CLARIFY
        act = step.act
        if act == CLARIFY and self.clarified:
            act = FOLLOW_UP
        if act == OPENING and not any(self.scenario.before(step.turn).wanted):
            return OPENING, "initial_next"  # turns that stated nothing have begun the conversation
        if step.turn > 1 and step.shift is None and act in _ORDINARY:
            return self._ordinary(step, act)
        implied = step.situation and act != REFINEMENT
        return act, f"{act}_implicit" if implied else act

    def _ordinary(self, step: PlanStep, act: str) -> tuple[str, str]:
        """The act and the section of a turn that changes nothing, given the replies so far."""
        if step.readings:
            return act, self._open_section(act)
        wanted, avoid = step.wanted
        met = max((n_met(self.catalog, film, wanted, avoid) for film in self.films.last), default=0)
        best = met / max(1, len(wanted))  # the share of the constraints that the best film meets
        mood = self.scenario.moods[step.turn - 1]
        ended = self._heard_of_all(step)
        if mood < self.scenario.insist and best < 1 and not ended and wanted:
            if self.films.last:
                return INSIST, INSIST
            if self.asked_for_films:
                return NOTHING_NAMED, NOTHING_NAMED
        praises = best == 1 and mood < _PRAISES
        if act in voices.SMALL_TALK:
            return act, self._small_talk(act, praises, best < 1)
        if act != FOLLOW_UP:
            return act, act
        if ended:
            return act, "follow_up_near"
        if praises:
            return act, "follow_up_met"
        return act, FOLLOW_UP if self.films.all else "follow_up_first"

    def _heard_of_all(self, step: PlanStep) -> bool:
        """Whether every film that fits has been recommended."""
        heard = self.films.all
        return step.n_answers <= len(heard) and heard.issuperset(step.answers.tolist())

    def _open_section(self, act: str) -> str:
        """The section of a turn that tells nothing of what open words meant."""
        if act in voices.SMALL_TALK and not self.films.last:
            return "reaction_first"
        if act == FOLLOW_UP and not self.films.all:
            return "follow_up_first"
        return act

    def _small_talk(self, act: str, praises: bool, missed: bool) -> str:
        """The section of a turn of small talk, given how well the best film of the last reply fits."""
        if not self.films.last:
            return "reaction_first"
        if act != voices.REACTION:
            return act
        if praises:
            return "reaction_met"
        return "reaction_missed" if missed else act
