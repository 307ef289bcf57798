"""The state of a user as heard from the user's words alone: constraints, exclusions, questions.

A value named in a field replaces the earlier ones; one that is refused is unwanted, one "not required any
more" is dropped, "forget the rest" drops all; a film named with approval stands for its genres while nothing
is stated; a year counts where that very year is asked for. The cues are prompts/movies/heard.wording.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from crs_lib.catalog.fields import FIELDS, GOAL_FIELD
from crs_lib.catalog.grounder import Grounder, Match, Mention
from crs_lib.core import prompts
from crs_lib.core.dialogue import USER, Dialogue, Turn
from crs_lib.core.text import fold

_SAYABLE = frozenset(name for name, field in FIELDS.items() if field.people_say_values)
_CLAUSE = re.compile(r"[.!?;:\n]| but |\b[Nn]o,")
_SENTENCE = re.compile(r"[.!?;\n]")
_BRACKETED = re.compile(r"[(\[](\d+)[)\]]")
_NEAR = 4  # words between a refusal and the value that it refuses
WANTED, UNWANTED, GIVEN_UP = "wanted", "unwanted", "given up"
_FOLLOW_UP = "follow_up"  # the stage in which a simulated user asks for other films

Span = tuple[int, int]  # start and end of a piece of text, in characters
Piece = Match | Mention
NOTHING: frozenset[int] = frozenset()


@cache
def _cue(name: str) -> re.Pattern[str]:
    """The pattern of a section of cues; those of "about" are joined by what the fields are asked with."""
    words = list(prompts.lines("heard")[name])
    if name == "about":
        for field in FIELDS.values():
            words += field.people_ask
    return re.compile(rf"\b(?:{'|'.join(words)})\b")


@cache
def _kinds() -> tuple[re.Pattern[str], dict[str, list[str]]]:
    """The words that stand for kinds of film, a named group a kind, and the genres of each group."""
    genres = {}
    alternatives = []
    for number, line in enumerate(prompts.lines("heard")["kinds"]):
        names, words = line.split(": ")
        genres[f"k{number}"] = names.split(", ")
        alternatives.append(rf"(?P<k{number}>\b(?:{words})\b)")
    return re.compile("|".join(alternatives)), genres


@dataclass(frozen=True)
class Wording:
    """One user turn: concepts by attitude, whether it takes all back, the films it names, a question."""

    wanted: frozenset[int]
    unwanted: frozenset[int]
    given_up: frozenset[int]
    resets: bool
    films: tuple[int, ...]
    asks_about: bool


@dataclass(frozen=True)
class HeardState:
    """The state after a user turn: concepts in force, unwanted ones, whether it asks about a film."""

    constraints: frozenset[int]
    avoid: frozenset[int]
    asks_about: bool


@dataclass(frozen=True)
class Correction:
    """Earlier preferences that readers of a revision say the person keeps, and those dropped (codes)."""

    still_wanted: frozenset[int]
    dropped: frozenset[int]


def films(grounder: Grounder, text: str) -> tuple[int, ...]:
    """The catalogue items whose titles a text names, each once; a year in brackets is no title."""
    items = dict.fromkeys(title.item for title in _titles(grounder, text))
    return tuple(items)


def _titles(grounder: Grounder, text: str) -> list[Mention]:
    """The titles that a text names, without the years in brackets."""
    years = [match.span(1) for match in _BRACKETED.finditer(text)]
    return [title for title in grounder.titles(text) if _span(title) not in years]


def read(grounder: Grounder, text: str) -> Wording:
    """What one user turn says; values inside a title, or inside a longer value, do not count."""
    titles = _titles(grounder, text)
    attitudes: dict[int, str] = {}  # of a value that is named twice the last one counts
    for match in sorted(_matches_in_role(_values(grounder, text, titles), text, grounder)):
        attitudes[match.code] = _attitude(text[: match.start], text[match.end :])
    folded = fold(text)
    asks_about = bool(_cue("about").search(folded)) and bool(titles or "?" in text)
    return Wording(
        wanted=_codes_with(attitudes, WANTED),
        unwanted=_codes_with(attitudes, UNWANTED),
        given_up=_codes_with(attitudes, GIVEN_UP),
        resets=bool(_cue("resets").search(folded)),
        films=films(grounder, text),
        asks_about=asks_about,
    )


def _codes_with(attitudes: Mapping[int, str], attitude: str) -> frozenset[int]:
    return frozenset(code for code, value in attitudes.items() if value == attitude)


def _values(grounder: Grounder, text: str, titles: Sequence[Mention]) -> list[Match]:
    """The values that a text names outside titles, and the genres that words for kinds of film stand for."""
    sayable = []
    for match in grounder.audit(text):
        if not match.rejected and _sayable(match, text) and not is_inside(match, titles):
            sayable.append(match)
    matches = []
    for match in sayable:
        longer = [other for other in sayable if other.length > match.length]
        if not is_inside(match, longer):
            matches.append(match)
    return matches + _genres_of_words(grounder, text, [*titles, *matches])


def _span(piece: Piece) -> Span:
    return piece.start, piece.end


def is_inside(piece: Piece, others: Iterable[Piece]) -> bool:
    """Whether a value or a title lies within one of the others of its text."""
    return any(other.start <= piece.start and piece.end <= other.end for other in others)


def _overlaps(span: Span, pieces: Iterable[Piece]) -> bool:
    """Whether a word shares a character with one of the pieces."""
    return any(piece.start < span[1] and span[0] < piece.end for piece in pieces)


def _sayable(match: Match, text: str) -> bool:
    """Whether the field is one whose values people say; a year only where that very year is meant."""
    if match.field in _SAYABLE:
        return True
    exact = _cue("of_the_year").search(fold(text[: match.start]))
    return bool(exact) and not _cue("bound").search(fold(text[match.end :]))


def _genres_of_words(grounder: Grounder, text: str, occupied: Sequence[Piece]) -> list[Match]:
    """The genres that words for kinds of film stand for, outside what is occupied already."""
    pattern, genres = _kinds()
    matches = []
    for word in pattern.finditer(text.lower().replace("-", " ")):
        if not _overlaps(word.span(), occupied):
            matches += _first_genre(grounder, word.span(), genres[str(word.lastgroup)])
    return matches


def _first_genre(grounder: Grounder, span: Span, genres: Iterable[str]) -> list[Match]:
    """The first of the genres that the catalogue has, as a match; none where it has none."""
    for genre in genres:
        code = grounder.catalog.code(GOAL_FIELD, genre)
        if code is not None:
            return [Match(*span, GOAL_FIELD, genre, code, "")]
    return []


def _matches_in_role(matches: Sequence[Match], text: str, grounder: Grounder) -> list[Match]:
    """Of a person's roles those that the words before the name tell; all where they tell none."""
    cued = []
    for match in matches:
        before = _last_clause(text[: match.start]).split()[-3:]
        if set(before) & set(grounder.catalog.fields[match.field].cues):
            cued.append(match)
    spans = set(map(_span, cued))
    return cued + [match for match in matches if _span(match) not in spans]


def _last_clause(text: str) -> str:
    """The clause in which a text ends, folded."""
    return fold(_CLAUSE.split(text)[-1])


def _attitude(before: str, after: str) -> str:
    """The attitude to a value between two texts: wanted, unwanted, or given up without being refused."""
    clause = _last_clause(before)
    behind = fold(_SENTENCE.split(after)[0])
    if _cue("gives_up_before").search(clause) or _cue("gives_up_after").search(behind):
        return GIVEN_UP
    if _negated(_cue("resets").sub(" ", clause)):
        return UNWANTED
    return WANTED


def _negated(clause: str) -> bool:
    """Whether the clause before a value refuses it: the last cue is a refusal near by, or a dislike."""
    if _cue("corrects").search(clause):
        return False
    refusals = [cue.start() for cue in _cue("unliked").finditer(clause)]
    for cue in _cue("refuses").finditer(clause):
        if clause[cue.end() :].count(" ") <= _NEAR:
            refusals.append(cue.start())
    outside = _cue("unliked").sub(lambda cue: "#" * len(cue.group()), clause)
    wishes = [cue.start() for cue in _cue("positive").finditer(outside)]
    return max(refusals, default=-1) > max(wishes, default=-1)


class Listener:
    """Carries the constraints of one conversation over its user turns."""

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder
        self._stated = NOTHING
        self._avoid = NOTHING
        self._alike = NOTHING  # the genres of films named with approval

    def listen(self, text: str) -> HeardState:
        """The state after one more user turn."""
        turn = read(self.grounder, text)
        if turn.resets:
            self._stated = self._avoid = self._alike = NOTHING
        field_of = self.grounder.field_of
        replaced = set(map(field_of, turn.wanted))
        unchanged = {code for code in self._stated if field_of(code) not in replaced}
        self._stated = (turn.wanted | unchanged) - turn.unwanted - turn.given_up
        self._avoid = (self._avoid | turn.unwanted) - turn.wanted - turn.given_up
        if turn.films and not turn.asks_about:
            self._alike = self._genres_of(turn.films)
        elif turn.wanted:
            self._alike = NOTHING
        return HeardState(self._stated or self._alike, self._avoid, turn.asks_about)

    def _genres_of(self, items: Iterable[int]) -> frozenset[int]:
        genres = set()
        for item in items:
            for code in self.grounder.catalog.fact_sets[item]:
                if self.grounder.field_of(code) == GOAL_FIELD:
                    genres.add(code)
        return frozenset(genres)

    def correct(self, state: HeardState, correction: Correction) -> HeardState:
        """The state with values that are known to be kept or dropped; what follows builds on it."""
        self._stated = (self._stated | correction.still_wanted) - correction.dropped
        self._avoid = self._avoid - correction.still_wanted
        constraints = (state.constraints | correction.still_wanted) - correction.dropped
        return replace(state, constraints=constraints, avoid=self._avoid)


def logged(
    dialogue: Dialogue, grounder: Grounder, corrections: Mapping[int, Correction] | None = None
) -> Dialogue:
    """The dialogue with the log that a simulator would have kept; ``corrections`` by turn, from 1."""
    listener = Listener(grounder)
    states: list[HeardState] = []
    turns = []
    for turn in dialogue.turns:
        if turn.speaker == USER:
            states.append(listener.listen(turn.text))
            correction = (corrections or {}).get(len(states))
            if correction:
                states[-1] = listener.correct(states[-1], correction)
            turns.append(_with_meta(turn, user_meta=_log(states[-1], grounder)))
        else:
            items = [grounder.catalog.items[item].item_id for item in films(grounder, turn.text)]
            turns.append(_with_meta(turn, rec_ids=items))
    changes = []
    for number, (before, after) in enumerate(pairwise(states), start=2):
        if (before.constraints, before.avoid) != (after.constraints, after.avoid):
            changes.append({"turn": number})
    return replace(dialogue, turns=tuple(turns), shift_events=tuple(changes))


def _with_meta(turn: Turn, **meta: object) -> Turn:
    return replace(turn, meta={**turn.meta, **meta})


def _log(state: HeardState, grounder: Grounder) -> dict[str, object]:
    """The state as a simulator's log has it: constraints and unwanted values by field."""
    return {
        "asks": not state.asks_about,
        "asks_about": state.asks_about,
        "stage": "" if state.asks_about else _FOLLOW_UP,
        "constraints": _by_field(state.constraints, grounder),
        "avoid": _by_field(state.avoid, grounder),
    }


def _by_field(codes: Iterable[int], grounder: Grounder) -> dict[str, list[str]]:
    terms = grounder.catalog.vocabulary
    values: dict[str, list[str]] = {}
    for code in sorted(codes):
        values.setdefault(terms.field[code], []).append(terms.value[code])
    return values
