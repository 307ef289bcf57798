"""Manners: how the users of a template set take part where the plan leaves them free.

The users of sets A and B ask for something in nearly every turn. Those of set C are casual, as people are in
logs: some say hello first or ask for any film, and a part of the turns that change nothing is small talk (a
word of reaction, a question why). Such a turn states no constraint, and only the request for any film asks
for films.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

GREETING, ANY_FILM = "greeting", "any_film"  # a first turn that states nothing: says hello, asks for any film
REACTION, WHY = "reaction", "why"  # a word about the last reply; a question about the recommendation as such
FIRST_WORDS: Final = (GREETING, ANY_FILM)
SMALL_TALK: Final = (REACTION, WHY)


@dataclass(frozen=True)
class Manner:
    """How often users do what no plan asks of them; all shares are in [0, 1].

    ``first_words`` are the shares of sessions, of those with a turn to spare before the first shift, that
    begin with a turn of each act. ``small_talk`` are the shares of ordinary turns (questions about a film and
    requests for more, but for the turn after a shift) that become a turn of each act. ``small_letters`` is
    the share of users who type no capitals of their own.
    """

    first_words: Mapping[str, float] = field(default_factory=dict)
    small_talk: Mapping[str, float] = field(default_factory=dict)
    small_letters: float = 0.0


PLAIN = Manner()
_CASUAL = Manner({GREETING: 0.4, ANY_FILM: 0.6}, {REACTION: 0.35, WHY: 0.35}, 0.4)
MANNERS: Final[Mapping[str, Manner]] = {"A": PLAIN, "B": PLAIN, "C": _CASUAL}  # by template set


def picked(shares: Mapping[str, float], chance: float) -> str:
    """The act that a number in [0, 1) falls on, the shares laid end to end; "" behind the last one."""
    for act, share in shares.items():
        if chance < share:
            return act
        chance -= share
    return ""
