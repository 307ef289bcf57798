"""The rule-based constraint tracker: values that a user's words add to, change in, or take from the state.

The grounder finds the values; a value after a cue such as "instead of" or "forget" is given up, a value after
"I'd like" is wanted, and "my earlier wishes no longer count" clears the earlier state.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from crs_lib.catalog.fields import ALL_FIELDS, PERSON_FIELDS
from crs_lib.catalog.grounder import Grounder, Match
from crs_lib.core.text import spans, words

_NEGATIVE = (
    "not", "no", "without", "instead of", "rather than", "forget", "drop", "skip", "swap", "enough of",
    "tired of", "never mind", "no longer", "doesn t have to be", "needn t be", "don t insist on",
    "away from", "changed my mind about", "anything but", "had enough", "don t want", "did i say",
    "i know i said", "don t show me", "on no account", "look beyond", "too strict about",
    "no longer important to stick to",
)  # fmt: skip
_POSITIVE = (
    "i d like", "i d rather", "i d prefer", "i want", "i do want", "make it", "give me", "how about",
    "what about", "let s try", "keep", "find me", "show me", "i meant", "should have said", "i m now after",
    "please keep to", "i stay with", "i d still like", "for something else", "i d rather have",
)  # fmt: skip
_AFTER = (  # behind a value: it is given up
    "no longer a must", "not required any more", "fine but not required any more", "would still be fine",
    "would still be welcome",
)  # fmt: skip
_RESET = (
    "never mind the rest", "forget the rest", "forget everything else", "forget what i said",
    "never mind what i said", "never mind my earlier wishes", "start over", "leave the rest",
    "done with my earlier wishes", "anything works", "surprise me with anything",
    "earlier wishes no longer count", "earlier wishes are off", "all my earlier wishes",
    "set aside all i said before", "set aside everything i said before", "set aside my earlier wishes",
    "set aside what i asked for", "what i asked for so far is off", "what i wanted so far no longer counts",
    "somewhere else entirely", "nothing i said before counts", "my other wishes", "set aside the rest",
    "nothing else i asked for counts", "and nothing else",
)  # fmt: skip


def _any_of(cues: Sequence[str]) -> re.Pattern[str]:
    """A pattern that finds whole cues in folded words joined by blanks."""
    return re.compile(rf"(?<= )(?:{'|'.join(sorted(cues, key=len, reverse=True))})(?= )")


_NEGATIVE_CUE, _POSITIVE_CUE, _AFTER_CUE = _any_of(_NEGATIVE), _any_of(_POSITIVE), _any_of(_AFTER)
CUES = (*_NEGATIVE, *_POSITIVE, *_AFTER, *_RESET)  # all words that the rules look for
_STOPS = ".!?;:,\n"
_REACH = 4


@dataclass(frozen=True)
class _ConstraintUpdate:
    """The constraints of one utterance: values wanted and given up, and whether it clears the state."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    given_up: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False


@lru_cache(1024)  # the trackers of a scenario hear mostly the same words
def read(grounder: Grounder, text: str) -> _ConstraintUpdate:
    """The constraints of an utterance by the rules of this module; a title in the text is no constraint."""
    tokens, places = words(text), spans(text)
    titles = [(m.start, m.end) for m in grounder.titles(text)]
    padded = f" {' '.join(tokens)} "
    wanted: dict[str, str] = {}
    given_up: dict[str, str] = {}
    for match in _one_role(grounder.audit(text), tokens, places):
        if any(start <= match.start and match.end <= end for start, end in titles):
            continue
        first = next(i for i, (begin, _) in enumerate(places) if begin >= match.start)
        behind = text[match.end : _end_of_clause(text, match.end)]
        gone = _negated(text, tokens, places, first) or _AFTER_CUE.search(f" {' '.join(words(behind))} ")
        said, other = (given_up, wanted) if gone else (wanted, given_up)
        said[match.field] = match.value
        if other.get(match.field) == match.value:
            del other[match.field]
    return _ConstraintUpdate(wanted, given_up, reset=any(f" {cue} " in padded for cue in _RESET))


def apply(state: Mapping[str, str], update: _ConstraintUpdate) -> dict[str, str]:
    """The constraints after an utterance: cleared, given up, then set, in this order."""
    after = {} if update.reset and update.wanted else dict(state)
    for name, value in update.given_up.items():
        if after.get(name) == value:
            del after[name]
    return {**after, **update.wanted}


def _negated(text: str, tokens: Sequence[str], places: Sequence[tuple[int, int]], first: int) -> bool:
    """Whether the last cue before a word, within its clause, is a negative one."""
    begin = first
    while begin > 0 and not any(c in _STOPS for c in text[places[begin - 1][1] : places[begin][0]]):
        begin -= 1
    clause = f" {' '.join(tokens[begin:first])} "
    return _last(_NEGATIVE_CUE, clause) > _last(_POSITIVE_CUE, clause)


def _end_of_clause(text: str, start: int) -> int:
    """Where the clause ends that holds a place of a text."""
    return next((place for place in range(start, len(text)) if text[place] in _STOPS), len(text))


def _last(cue: re.Pattern[str], clause: str) -> int:
    """The place where the last cue begins, or -1."""
    return max((found.start() for found in cue.finditer(clause)), default=-1)


def _one_role(
    matches: Sequence[Match], tokens: Sequence[str], places: Sequence[tuple[int, int]]
) -> list[Match]:
    """Accepted matches without those inside a longer one; a value of several fields gets the cued field."""
    good = [m for m in matches if not m.rejected]
    chosen: list[Match] = []
    for match in good:
        longer = any(
            o.start <= match.start and match.end <= o.end and o.end - o.start > match.end - match.start
            for o in good
        )
        same = [o for o in good if (o.start, o.end) == (match.start, match.end)]
        if not longer and match.field == _role([o.field for o in same], match, tokens, places):
            chosen.append(match)
    return chosen


def _role(
    options: Sequence[str], match: Match, tokens: Sequence[str], places: Sequence[tuple[int, int]]
) -> str:
    """The field that is meant of those which have the value: the one cued by the nearest word before it."""
    if len(options) == 1:
        return options[0]
    first = next(i for i, (begin, _) in enumerate(places) if begin >= match.start)
    before = tokens[max(0, first - _REACH) : first]
    for token in reversed(before):
        for name, row in ALL_FIELDS.items():
            if token in row.cues and name in options:
                # "written by" and "made by": the word before "by" decides
                sharing = (other for other in options if token in ALL_FIELDS[other].shared_cues)
                return next((o for o in sharing if any(t in ALL_FIELDS[o].cues for t in before)), name)
    return next((role for role in PERSON_FIELDS if role in options), options[0])
