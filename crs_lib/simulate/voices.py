"""How users of a template set take part where the plan leaves them free; situations that imply a value.

The users of sets A and B ask for something in nearly every turn; some of set B ask for any film first. Those
of set C are casual, as people are in logs: some say hello first or ask for any film, and a part of the turns
that change nothing is small talk (a word of reaction, a question why). Such a turn states no constraint, and
only the request for any film asks for films. The users of sets B and C begin with one to three constraints in
any order, those of set A with a genre. A situation entails a value without naming it: "The kids have just
come home" for a family film. The table of situations is ``prompts/movies/situations.tsv``; half of it is for
development (template sets A and C), half for confirmation (set B).
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np

from crs_lib.simulate.shifts import PlannedShift

GREETING, ANY_FILM = "greeting", "any_film"  # a first turn that states nothing: says hello, asks for any film
REACTION, WHY = "reaction", "why"  # a word about the last reply; a question about the recommendation as such
FIRST_WORDS: Final = (GREETING, ANY_FILM)
SMALL_TALK: Final = (REACTION, WHY)


class _Manner(NamedTuple):
    """How often users do what no plan asks of them; all shares are in [0, 1].

    ``first_words`` are the shares of sessions, of those with a turn to spare before the first shift, that
    begin with a turn of each act. ``small_talk`` are the shares of ordinary turns (questions about a film and
    requests for more, but for the turn after a shift) that become a turn of each act. ``small_letters`` is
    the share of users who type no capitals of their own. ``any_order`` says whether they begin with
    constraints of any field, one to three, instead of a genre and one or two more.
    """

    first_words: Mapping[str, float] = {}
    small_talk: Mapping[str, float] = {}
    small_letters: float = 0.0
    any_order: bool = False


PLAIN = _Manner()
_OPEN = _Manner({ANY_FILM: 0.3}, any_order=True)
_CASUAL = _Manner({GREETING: 0.4, ANY_FILM: 0.6}, {REACTION: 0.35, WHY: 0.35}, 0.4, any_order=True)
MANNERS: Final[Mapping[str, _Manner]] = {"A": PLAIN, "B": _OPEN, "C": _CASUAL}  # by template set


def picked(shares: Mapping[str, float], chance: float) -> str:
    """The act that a number in [0, 1) falls on, the shares laid end to end; "" behind the last one."""
    for act, share in shares.items():
        if chance < share:
            return act
        chance -= share
    return ""


EXPLICIT, IMPLICIT, MIXED = "explicit", "implicit", "mixed"
DEGREES: Final = (EXPLICIT, IMPLICIT, MIXED)
SECTIONS = frozenset({"refine", "replace", "switch", "contradict_new"})  # shifts that bring a new constraint
_USES = {"A": "development", "B": "confirmation", "C": "development"}  # by template set


class Situation(NamedTuple):
    """A text, the (field, value) that it entails, what it is for, and why it entails just that value."""

    field: str
    value: str
    use: str
    text: str
    why: str


@cache
def _situations() -> tuple[Situation, ...]:
    """All situations, in the order of the table."""
    place = resources.files("crs_lib") / "prompts" / "movies" / "situations.tsv"
    lines = [line for line in place.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return tuple(Situation(**row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def _by_value(templates: str) -> Mapping[tuple[str, str], tuple[Situation, ...]]:
    found: dict[tuple[str, str], tuple[Situation, ...]] = {}
    for one in _situations():
        if one.use == _USES[templates]:
            found[one.field, one.value] = (*found.get((one.field, one.value), ()), one)
    return found


def implied(
    shift: PlannedShift, explicitness: str, templates: str, draw: np.random.Generator
) -> Situation | None:
    """The situation that voices one new constraint of a shift; None where the shift is said in plain words.

    ``explicitness`` "implicit" implies wherever the table has a situation for a new constraint, "mixed" in
    half of these shifts. A bridge is always named.
    """
    if explicitness == EXPLICIT or shift.section not in SECTIONS:
        return None
    if explicitness == MIXED and draw.random() < 0.5:
        return None
    known = _by_value(templates)
    options = [one for pair in shift.added.items() if pair != shift.bridge for one in known.get(pair, ())]
    return options[int(draw.integers(len(options)))] if options else None
