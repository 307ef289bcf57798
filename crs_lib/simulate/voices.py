"""Voices of simulated users: how each talks and takes part where the plan leaves it free; situations. A voice
is a person with words of its own (``prompts/movies/voices/NAME.wording``) and a row of the table beside them:
how often its users say hello or ask for any film first, and how many of the turns that change nothing are
small talk (a word of reaction, a question why). Such a turn states no constraint, and only the request for
any film asks for films. Users begin with constraints of any field in any order: two or three, or one where
types, pace or scope of shifts are set otherwise. Voice A is the
first template set, for which the tracker's rules were written: its users begin with a genre and make no small
talk. A situation entails a value without naming it: "The kids have just come home" for a family film
(``situations.tsv``); half of the situations are for the voices kept for confirmation.
"""

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from crs_lib.core import rng
from crs_lib.simulate.shifts import PlannedShift, one_of
from crs_lib.systems.base import Draw

GREETING, ANY_FILM = "greeting", "any_film"  # a first turn that states nothing: says hello, asks for any film
REACTION, WHY = "reaction", "why"  # a word about the last reply; a question about the recommendation as such
FIRST_WORDS: Final = (GREETING, ANY_FILM)
SMALL_TALK: Final = (REACTION, WHY)


def _table(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table under ``prompts/movies``; lines that begin with # are left out."""
    text = (resources.files("crs_lib") / "prompts" / "movies" / name).read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


class Voice(NamedTuple):
    """A voice: what it is for, who talks, and how often its users do what no plan asks of them. ``use`` is
    "development" or "confirmation". All shares are in [0, 1]: ``first_words`` of sessions, of those with a
    turn to spare before the first shift, that begin with a turn of each act; ``small_talk`` of ordinary turns
    (questions about a film and requests for more, but for the turn after a shift) that become a turn of each
    act; ``small_letters`` of users who type no capitals of their own.
    """

    use: str
    person: str
    first_words: Mapping[str, float]
    small_talk: Mapping[str, float]
    small_letters: float


FIRST: Final = "A"
ALL, DEVELOPMENT, CONFIRMATION = "all", "development", "confirmation"


@cache
def every() -> dict[str, Voice]:
    """All voices, by name."""
    voices = {}
    for row in _table("voices/voices.tsv"):
        voices[row["voice"]] = Voice(
            row["use"],
            row["person"],
            first_words={act: float(row[act]) for act in FIRST_WORDS},
            small_talk={act: float(row[act]) for act in SMALL_TALK},
            small_letters=float(row["small_letters"]),
        )
    return voices


def choices() -> tuple[str, ...]:
    """The names of all choices of voices."""
    return (FIRST, ALL, DEVELOPMENT, CONFIRMATION, *names(ALL))


def names(choice: str) -> list[str]:
    """The voices of a choice: "all" but A, those for "development" or "confirmation", or the one named."""
    if choice in every():
        return [choice]
    return [name for name, voice in every().items() if choice in (ALL, voice.use) and name != FIRST]


def drawn(choice: str, seed: int, session: int) -> str:
    """The voice of a session; voices are shuffled within blocks of as many sessions as there are voices."""
    options = names(choice)
    block, place_in_block = divmod(session, len(options))
    order = rng.stream(seed, "movies", "voices", block).permutation(len(options))
    return options[int(order[place_in_block])]


def picked(shares: Mapping[str, float], chance: float) -> str:
    """The act that a number in [0, 1) falls on, the shares laid end to end; "" behind the last one."""
    for act, share in shares.items():
        if chance < share:
            return act
        chance -= share
    return ""


EXPLICIT, IMPLICIT, MIXED = "explicit", "implicit", "mixed"
DEGREES: Final = (EXPLICIT, IMPLICIT, MIXED)
STATED, OPEN = "stated", "open"  # whether a shift says what becomes of earlier constraints
SCOPES: Final = (STATED, OPEN, MIXED)
SECTIONS = frozenset({"refine", "replace", "switch", "contradict_new"})  # shifts that bring a new constraint


class Situation(NamedTuple):
    """A text, the (field, value) that it entails, what it is for, and why it entails just that value."""

    field: str
    value: str
    use: str
    text: str
    why: str


@cache
def situations() -> tuple[Situation, ...]:
    """All situations, in the order of the table."""
    return tuple(Situation(**row) for row in _table("situations.tsv"))


def implied(shift: PlannedShift, explicitness: str, voice: str, draw: Draw) -> Situation | None:
    """The situation that voices one new constraint of a shift (no bridge); None where it is said plainly:
    "implicit" implies wherever the table has one, "mixed" in half of these shifts.
    """
    if explicitness == EXPLICIT or shift.section not in SECTIONS:
        return None
    if explicitness == MIXED and draw.random() < 0.5:
        return None
    use = every()[voice].use
    options = []
    for field, value in shift.added.items():
        if (field, value) != shift.bridge:
            options += [entry for entry in situations() if entry[:3] == (field, value, use)]
    return one_of(options, draw) if options else None
