"""The state of a user as heard from the user's words alone: constraints, exclusions, questions, reactions.

Source: docs/validity.md, section 4. A value named in a field replaces the earlier ones of that field; a
value that is refused is unwanted, one that is "not required any more" is dropped, and "forget the rest" drops
all; a film named with approval stands for its genres while no constraint is stated. A year counts where a
film of that very year is asked for, not as a bound ("after 2010"). How people take a reply is read from the
cues of acceptance and rejection in what they say next; words inside film titles do not count, nor do films
that a person has not seen: "no, I have never seen it" turns nothing down.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from crs_lib.catalog.fields import ALL_FIELDS, FIELDS, GOAL_FIELD
from crs_lib.catalog.grounder import Grounder, Match
from crs_lib.core.text import fold

_FIELDS = frozenset(name for name, row in FIELDS.items() if row.people_say_values)
_OF_THE_YEAR = re.compile(r"\b(from|in|of|year|made|released)( the| year)?$")
_BOUND = re.compile(r"^(s|on|onwards|or|and|to|till|until|up)\b")
# A refusal of the value right behind it, at most so many words away.
_REFUSES = re.compile(
    r"\b(no|not|without|except|nothing|avoid|hate|hated|dislike|skip|forget|drop|less|other than|instead of"
    r"|rather than|anything but|tired of|sick of|enough of|fed up with)\b"
)
# A verb of wishing that is negated, anywhere earlier in the clause.
_UNLIKED = re.compile(
    r"\b(don t|dont|do not|didn t|did not|doesn t|does not|won t|wouldn t|can t stand|never)( \w+){0,2}? "
    r"(like|liked|love|want|enjoy|enjoyed|care|need|feel|fancy|include|have|watch)\b"
    r"|\bnot( \w+){0,2} (into|fan|fond|interested|mood)\b"
)
_POSITIVE = re.compile(
    r"\b(i want|i d like|i like|i love|looking for|give me|but|just|only|rather|prefer|how about|recommend"
    r"|suggest|maybe)\b"
)
# "Those are not comedies": what was recommended misses a constraint, which stays in force.
_CORRECTS = re.compile(
    r"\b(it|its|it s|that|that s|this|these|those|they|they re|them|which|none of \w+|neither of \w+)"
    r"( \w+)? (is|are|was|were|isn t|aren t|wasn t|isnt|arent)\b(?! (too|so)\b)"
)
_NEAR = 4
_ATTITUDES = ("wanted", "unwanted", "given up")
# All that was said before is given up; what the same turn says stays.
_RESETS = re.compile(
    r"\b(forget|drop|set aside|scrap|ignore|never mind|leave aside|cancel) (\w+ ){0,2}?(rest|everything|all"
    r"|others?|what i (asked|said|wanted)|my (other|earlier|old|previous) \w+)\b"
    r"|\b(start (over|again|afresh)|from scratch|something (else altogether|completely different|entirely"
    r" different))\b|\b(asked for|said|wanted) (so far|before|earlier) is (off|over|gone)\b"
)
# A value given up without being refused: "swap westerns for …", "… is not required any more".
_GIVES_UP_BEFORE = re.compile(
    r"\b(swap|swapping|replace|replacing|trade|exchange|instead of|rather than|enough of"
    r"|(need not|needn t|(doesn t|does not) (need|have) to|no longer has to) be)"
    r"( \w+){0,2}$"
)
_GIVES_UP_AFTER = re.compile(
    r"\b(not|no longer|isn t|aren t|never) (\w+ )?(required|needed|necessary|a must|essential|important)\b"
)
_ABOUT_A_FILM = (
    "who", "plot", "about", "ratings?", "reviews?", "synopsis", "summary", "summari[sz]e", "tell me more",
    "describe", "what is it", "when", "where", "why", "how long", "information", "info", "details?",
    "opinion",
)  # fmt: skip
_ABOUT_A_FIELD = tuple(word for row in FIELDS.values() for word in row.people_ask)
_ABOUT = re.compile(rf"\b({'|'.join((*_ABOUT_A_FILM, *_ABOUT_A_FIELD))})\b")
_ASKS = re.compile(
    r"\b(recommend\w*|recomend\w*|suggest\w*|looking for|look for|search\w*|find|give me|show me|list|want"
    r"|wanted|need|another|more|others?|else|what should i|what can i|help|ideas?|advise|tell me)\b"
    r"|\b(any|some|good|best) (\w+ ){0,2}(film|films|movie|movies|one|ones)\b"
)
_CLAUSE = re.compile(r"[.!?;:\n]| but |\b[Nn]o,")
# Words for kinds of film that are no catalogue values: the first genre that the catalogue has is meant.
_KINDS: dict[str, tuple[str, ...]] = {
    r"funny|hilarious|laughs?|humou?rous|light hearted": ("Comedy",),
    r"creepy|frightening|terrifying|spooky|chilling": ("Horror",),
    r"suspenseful|edge of my seat|gripping|tense": ("Thriller",),
    r"action packed|adrenaline|explosions?": ("Action",),
    r"adventurous|daring|quests?|expeditions?": ("Adventure",),
    r"emotional|moving|thought provoking|tear ?jerkers?|profound": ("Drama",),
    r"kids?|child|children|wholesome|daughters?|sons?|disney": ("Family", "Animation"),
    r"cartoons?|pixar": ("Animation",),
    r"super ?hero(es)?|marvel|comic books?": ("Superhero", "Action"),
    r"space|aliens?|robots?|time travel\w*|futuristic": ("Science Fiction",),
    r"military|soldiers?": ("War",),
    r"gangsters?|mob|mafia|serial killers?|heists?|criminals?|robber(y|ies)": ("Crime",),
    r"mysterious|puzzles?|whodunn?its?": ("Mystery",),
    r"cowboys?": ("Western",),
    r"date night|love stor(y|ies)|chick flicks?": ("Romance",),
    r"documentar(y|ies)": ("Documentary",),
    r"magic|magical|enchanting|wizards?|dragons?|fairy ?tales?": ("Fantasy",),
    r"inspiring|inspirational|true stor(y|ies)|real life": ("Biography",),
    r"period pieces?|historic": ("History",),
}
_KIND = re.compile("|".join(f"(?P<k{i}>\\b(?:{words})\\b)" for i, words in enumerate(_KINDS)))

_UNSEEN = re.compile(
    r"\b(no |nope |nah )?(\w+ ){0,3}?(haven t|havent|have not|never|didn t|hadn t|not) (\w+ ){0,2}?"
    r"(seen|heard|watched|see|watch)\b"
)
_REJECTS = re.compile(
    r"\b((don t|dont|do not|didn t|didnt|did not|doesn t|does not|wasn t|weren t|isn t|isnt|aren t|arent|not"
    r"|never) (\w+ ){0,3}?(like|liked|love|enjoy|enjoyed|care|want|wanted|into|interested|interest|fan|what"
    r"|good|right|helpful|suitable|great|impressed|answer\w*|sound|my|a|an|for|the|really|work|help)"
    r"|hate|hated|dislike|disliked|boring|wrong|bad|terrible|awful|poor|worse|worst|lame|stupid|useless"
    r"|horrible|ridiculous|disappoint\w+|too \w+|nah|nope|instead|no"
    r"|what does that|that s not|thats not|not what|not helpful|i (just |already )?(asked|said|meant|told)"
    r"|already (said|told|asked)|why (did|are|do|would) you|kidding|w?tf)\b"
)
_ACCEPTS = re.compile(
    r"\b(thanks?|thank you|great|awesome|perfect|loved?|nice|cool|interesting|enjoy|enjoyed|liked|wow"
    r"|excellent|favou?rites?|amazing|sounds? (good|great|fun|interesting|like a)"
    r"|good (one|choice|idea|suggestions?|pick)|check (it|that|them|those) out"
    r"|(ill|i ll|i will|will|gonna|going to) (\w+ )?(watch|check|try|give|look|add|see|rent))\b"
)


class Heard(NamedTuple):
    """One user turn: concepts wanted, unwanted and given up, films named, what it asks for.

    ``resets`` says that all earlier constraints are given up; ``asks_about`` is a question about a film,
    ``requests`` a request for films.
    """

    wanted: frozenset[int]
    unwanted: frozenset[int]
    given_up: frozenset[int]
    resets: bool
    films: tuple[int, ...]
    asks_about: bool
    requests: bool


class HeardState(NamedTuple):
    """The state after a user turn: active constraints, unwanted values, what the turn asks for."""

    constraints: frozenset[int]
    avoid: frozenset[int]
    asks_about: bool
    requests: bool = False


def films(grounder: Grounder, text: str) -> tuple[int, ...]:
    """The catalogue items whose titles a text names, each once; a year in brackets is no title."""
    found = (m for m in grounder.titles(text) if not _bracketed_year(text, m.start, m.end))
    return tuple(dict.fromkeys(mention.item for mention in found))


def _bracketed_year(text: str, start: int, end: int) -> bool:
    inside = text[max(0, start - 1) : start] in ("(", "[") and text[end : end + 1] in (")", "]")
    return inside and text[start:end].isdigit()


def as_logged(grounder: Grounder, state: HeardState) -> dict[str, Any]:
    """The constraints and unwanted values of a state, as a simulator's log has them."""
    return {
        "constraints": _values(grounder, state.constraints),
        "avoid": _values(grounder, state.avoid),
    }


def _values(grounder: Grounder, codes: Iterable[int]) -> dict[str, list[str]]:
    """Values by field."""
    terms, out = grounder.catalog.vocabulary, dict[str, list[str]]()
    for code in sorted(codes):
        out.setdefault(terms.field[code], []).append(terms.value[code])
    return out


def hear(grounder: Grounder, text: str) -> Heard:
    """Read one user turn; values inside a title, or inside a longer value, do not count."""
    titles = [m for m in grounder.titles(text) if not _bracketed_year(text, m.start, m.end)]
    matches = [m for m in grounder.audit(text) if not m.rejected and _sayable(m, text)]
    matches = [m for m in matches if not any(t.start <= m.start and m.end <= t.end for t in titles)]
    matches = [m for m in matches if not any(_inside(m, other) for other in matches)]
    matches += _kinds(
        grounder, text, [*((t.start, t.end) for t in titles), *((m.start, m.end) for m in matches)]
    )
    matches = _in_role(matches, text)
    held = {m.code: _attitude(text[: m.start], text[m.end :]) for m in sorted(matches)}  # the last one counts
    wanted, unwanted, given_up = (
        frozenset(code for code, one in held.items() if one == attitude) for attitude in _ATTITUDES
    )
    said = fold(text)
    asked = bool(_ABOUT.search(said)) and bool(titles or "?" in text)
    films_named = tuple(dict.fromkeys(t.item for t in titles))
    resets = bool(_RESETS.search(said))
    return Heard(wanted, unwanted, given_up, resets, films_named, asked, bool(_ASKS.search(said)))


def _sayable(match: Match, text: str) -> bool:
    """Whether the field is one whose values people say; a year only where that very year is meant."""
    if match.field in _FIELDS:
        return True
    exact = _OF_THE_YEAR.search(fold(text[: match.start])) is not None
    return exact and _BOUND.search(fold(text[match.end :])) is None


def _in_role(matches: list[Match], text: str) -> list[Match]:
    """Of a person's roles those that the words before the name tell; all where they tell none."""
    roles: dict[tuple[int, int], list[Match]] = {}
    for match in matches:
        roles.setdefault((match.start, match.end), []).append(match)
    out = []
    for (start, _), same in roles.items():
        near = fold(_CLAUSE.split(text[:start])[-1]).split()[-3:]
        cued = [m for m in same if set(near) & set(ALL_FIELDS[m.field].cues)]
        out += cued if cued and len(same) > 1 else same
    return out


def _attitude(before: str, after: str) -> str:
    """What a person says of a value: wanted, unwanted, or given up without being refused."""
    given_up = _GIVES_UP_BEFORE.search(fold(_CLAUSE.split(before)[-1]))
    if given_up or _GIVES_UP_AFTER.search(fold(re.split(r"[.!?;\n]", after)[0])):
        return "given up"
    return "unwanted" if _negated(before) else "wanted"


def _kinds(grounder: Grounder, text: str, taken: list[tuple[int, int]]) -> list[Match]:
    """The genres that words for kinds of film stand for, outside what is taken already."""
    found = []
    for match in _KIND.finditer(text.lower().replace("-", " ")):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        for genre in tuple(_KINDS.values())[int(str(match.lastgroup)[1:])]:
            code = grounder.catalog.code(GOAL_FIELD, genre)
            if code is not None:
                found.append(Match(match.start(), match.end(), GOAL_FIELD, genre, code, ""))
                break
    return found


def _inside(match: Match, other: Match) -> bool:
    shorter = match.end - match.start < other.end - other.start
    return shorter and other.start <= match.start and match.end <= other.end


def _negated(before: str) -> bool:
    """Whether the clause before a value refuses it: the last cue is a refusal near by, or a dislike."""
    clause = _RESETS.sub(" ", fold(_CLAUSE.split(before)[-1]))
    if _CORRECTS.search(clause):
        return False
    refused = [
        found.start() for found in _REFUSES.finditer(clause) if clause[found.end() :].count(" ") <= _NEAR
    ]
    disliked = [found.start() for found in _UNLIKED.finditer(clause)]
    return max([*refused, *disliked], default=-1) > _last_outside(clause)


def _last_outside(clause: str) -> int:
    """Where the last positive cue stands that is no part of a dislike; -1 without one."""
    return max((found.start() for found in _POSITIVE.finditer(_UNLIKED.sub(_blank, clause))), default=-1)


def _blank(found: re.Match[str]) -> str:
    return "#" * len(found.group())


class Listener:
    """Carries the constraints of one conversation over its user turns."""

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder
        self._stated: dict[str, frozenset[int]] = {}
        self._avoid: frozenset[int] = frozenset()
        self._alike: frozenset[int] = frozenset()

    def listen(self, text: str) -> HeardState:
        """The state after one more user turn."""
        heard = hear(self.grounder, text)
        if heard.resets:
            self._stated, self._avoid, self._alike = {}, frozenset(), frozenset()
        for name in {self.grounder.field_of(code) for code in heard.wanted}:
            self._stated[name] = frozenset(c for c in heard.wanted if self.grounder.field_of(c) == name)
        self._avoid = (self._avoid | heard.unwanted) - heard.wanted - heard.given_up
        self._stated = {
            name: kept
            for name, codes in self._stated.items()
            if (kept := codes - heard.unwanted - heard.given_up)
        }
        if heard.films and not heard.asks_about:
            self._alike = self._genres(heard.films)
        elif heard.wanted:
            self._alike = frozenset()
        stated = frozenset().union(*self._stated.values()) if self._stated else frozenset()
        return HeardState(stated or self._alike, self._avoid, heard.asks_about, heard.requests)

    def _genres(self, items: tuple[int, ...]) -> frozenset[int]:
        facts = self.grounder.catalog.fact_sets
        return frozenset(c for item in items for c in facts[item] if self.grounder.field_of(c) == GOAL_FIELD)


def reaction(text: str, titles: Sequence[tuple[int, int]] = ()) -> float:
    """Share of acceptance among the cues of what a person says after a reply, in [0, 1]; NaN without a cue.

    ``titles`` are the character ranges of film titles, which are passed over.
    """
    for start, end in sorted(titles, reverse=True):
        text = f"{text[:start]} {text[end:]}"
    said = _UNSEEN.sub(" ", fold(text))
    rejects = len(_REJECTS.findall(said))
    accepts = len(_ACCEPTS.findall(_REJECTS.sub(" # ", said)))
    return accepts / (accepts + rejects) if accepts or rejects else math.nan


def reaction_to(text: str, grounder: Grounder) -> float:
    """:func:`reaction` of a text, the titles of the catalogue's films passed over."""
    return reaction(text, [(mention.start, mention.end) for mention in grounder.titles(text)])
