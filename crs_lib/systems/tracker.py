"""The rule-based constraint tracker: values that a user's words add to, change in, or take from the state.

The grounder finds the values; a value after a cue such as "instead of" or "forget" is given up, a value after
"I'd like" is wanted, and "my earlier wishes no longer count" clears the earlier state.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from crs_lib.catalog.fields import PERSON_FIELDS
from crs_lib.catalog.grounder import Grounder, Match
from crs_lib.core.text import spans, words

# Cues are patterns of folded words joined by blanks, in one spelling ("don't", "dont": "do not"; "we": "i").
_POSITIVE = (
    "i d (?:still )?(?:like|rather|prefer|love)",
    "i (?:do )?want",
    "make it",
    "give me",
    "how about",
    "what about",
    "let s (?:try|do|have)",
    "keep",
    "find me",
    "show me",
    "i meant",
    "should have said",
    "i m now after",
    "i stay with",
    "for something else",
    r"(?:swap|trade|replace|exchange|switch|change) (?:\w+ ){0,12}value (?:\w+ )?(?:for|with|by|to)",
)
_NO = r"(?:not(?! (?:you|i|there|mind|wait|get enough|seen|watched)\b)|never|on no account)"
_NEGATIVE = (
    rf"{_NO}(?: (?:{'|'.join(_POSITIVE)}))?",
    "no(?! idea| still)",
    "none of",
    "whether",
    "without",
    "hates?",
    "instead of",
    "rather than",
    "other than",
    "except",
    "forget",
    "drop",
    "skip",
    "swap",
    "trade",
    "replace",
    "scrap",
    "ditch",
    "block",
    "exclude",
    "ignore",
    "avoid",
    "leave out",
    "(?<!get )enough of",
    "tired of",
    "never mind",
    "no longer",
    "away from",
    "changed my mind about",
    "anything but",
    "had enough",
    "did i say",
    "i know i said",
    "look beyond",
    "too strict about",
)
_AFTER = (  # behind a value: it is given up
    "(?:no longer|not) (?:a must|a requirement|required|needed|necessary|important)",
    "optional",
    "or not",
    "either way",
    "would still be (?:fine|welcome)",
    "or others?",
    "others (?:too|as well)",
    "others? (?:is|are|would be) (?:also |just as )?(?:fine|ok|okay|welcome|good)",
    "(?:can not stand|hates?|avoid|exclude|skip|drop|leave|none of) (?:it|them|those)",
)
_SAID = ("i (?:said|asked for|wanted|mentioned)",)  # before a value: taken back by these behind it
_TAKEN_BACK = ("mistake", "wrong", "the opposite", "mixed up", "did not mean (?:it|that|them|those)")
_GIVE_UP = (
    "(?:forget|never mind|drop|scrap|ditch|ignore|disregard|skip|leave|set aside|delete|cancel|clear|undo"
    "|throw out|done with|changed my mind|lost interest in|not need)(?: about)?"
)
_EARLIER = (
    r"(?:everything|the rest|the other \w+|what i \w+|it all|all(?: of)? (?:it|that|this|the rest|i|else)"
    r"|(?:all )?(?:of )?my (?:\w+ ){0,2}(?:wishes|requests?|criteria|conditions|stuff|things|ideas))"
)
_RESET = (  # clears the state, unless something is said to stay
    rf"{_GIVE_UP} {_EARLIER}(?! (?:as|alone|unchanged)\b)",
    "scrap (?:it|that)",
    "undo",
    "reset",
    "restart",
    rf"{_EARLIER}(?: \w+){{0,5}} (?:are|is|do|does|no longer) (?:off|unimportant|not \w+|counts?|matters?"
    "|apply)",
    "clean slate",
    rf"(?:none of {_EARLIER}|nothing (?:else )?i)(?: \w+){{0,5}} (?:counts?|matters?|appl(?:y|ies))",
    "(?:start|begin)(?: all)? (?:over|again|afresh|from zero|from scratch)",
    "(?:new|different|another) (?:topic|subject|search)",
    "somewhere else entirely",
    "anything works",
    "(?:without anything|nothing) else(?! (?:is|has|about|changes)\b)",
    "only that(?= $)",
    r"(?:only|just) (?:\w+ ){1,12}(?:again|(?:as|like) before)",
    "surprise me with anything",
    "(?:something|everything|totally|completely|entirely)(?: is| entirely| completely| totally)?"
    " (?:different|new)",
)
_YEAR = re.compile(r"\b(?:from|of|in|year) ((?:19|20)\d\d)\b(?!['’]?s)", re.IGNORECASE)
_STAYS = (
    r"(?:the rest|(?:everything|all) else|(?:my|the) other \w+)(?: still)?"
    " (?:stay|remain|stand|hold|count)s?",
)
_SPELT = {
    re.compile(rf"\b(?:{written})\b"): spelt
    for written, spelt in {
        "(do|does|did|is|are|was|were|need|would|could|should|have)(?:n t|nt)": r"\1 not",
        "can t|cant|cannot": "can not",
        "nvm": "never mind",
        "lets": "let s",
        "we|they": "i",
        "our": "my",
        "i would|id": "i d",
    }.items()
}


def _any_of(cues: Sequence[str]) -> re.Pattern[str]:
    """A pattern that finds whole cues in folded words joined by blanks, the longest first."""
    return re.compile(rf"(?<= )(?:{'|'.join(sorted(cues, key=len, reverse=True))})(?= )")


_NEGATIVE_CUE, _POSITIVE_CUE, _AFTER_CUE = _any_of(_NEGATIVE), _any_of(_POSITIVE), _any_of(_AFTER)
_SAID_CUE, _BACK_CUE = _any_of(_SAID), _any_of(_TAKEN_BACK)
_RESET_CUE, _STAYS_CUE = _any_of(_RESET), _any_of(_STAYS)
_STOPS = ".!?;:,\n"
_VALUE = " value "  # stands for a value before the one that is read
_REACH = 4


@dataclass(frozen=True)
class ConstraintUpdate:
    """The constraints of one utterance: values wanted and given up, and whether it clears the state."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    given_up: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False


@lru_cache(1024)  # the trackers of a scenario hear mostly the same words
def read(grounder: Grounder, text: str) -> ConstraintUpdate:
    """The constraints of an utterance by the rules of this module; a title in the text is no constraint."""
    return _Utterance(grounder, text).update()


def apply(state: Mapping[str, str], update: ConstraintUpdate) -> dict[str, str]:
    """The constraints after an utterance: cleared, given up, then set, in this order."""
    after = {}
    if not (update.reset and update.wanted):
        after = {name: value for name, value in state.items() if update.given_up.get(name) != value}
    return after | dict(update.wanted)


class _Utterance:
    """One utterance on its way to an update: its text, words, and the values that it names."""

    def __init__(self, grounder: Grounder, text: str) -> None:
        self.text = text
        self.catalog = grounder.catalog
        self.fields = grounder.catalog.fields
        self.tokens = words(text)
        self.starts = [start for start, _ in spans(text)]
        self.titles = grounder.titles(text)
        self.accepted = [match for match in grounder.audit(text) if not match.rejected]
        self.values = [match for match in self.accepted if self._counts(match)]

    def _year_without_films(self) -> str:
        """The year of this or the last century that the text asks for and no film has; empty for none."""
        if "year" not in self.fields:
            return ""
        for match in _YEAR.finditer(self.text):
            in_title = any(title.start <= match.start() < title.end for title in self.titles)
            if not in_title and self.catalog.code("year", match[1]) is None:
                return match[1]
        return ""

    def update(self) -> ConstraintUpdate:
        """The values wanted and given up, each by its last mention, and whether the state is cleared."""
        wanted: dict[str, str] = {}
        given_up: dict[str, str] = {}
        for match in self.values:
            if any(title.start <= match.start and match.end <= title.end for title in self.titles):
                continue
            own, other = wanted, given_up
            if self._is_given_up(match):
                own, other = given_up, wanted
            own[match.field] = match.value
            if other.get(match.field) == match.value:
                del other[match.field]
        year = self._year_without_films()
        if year and "year" not in wanted:
            wanted["year"] = year
        plain = _plain(self.text)
        reset = bool(_RESET_CUE.search(plain)) and not _STAYS_CUE.search(plain)
        return ConstraintUpdate(wanted, given_up, reset)

    def _is_given_up(self, match: Match) -> bool:
        """Whether cues before a value, in its clause, or behind it, up to the next value, give it up."""
        clause = _RESET_CUE.sub("", _plain(self._clause_before(match)))
        following = [other.start for other in self.values if other.start >= match.end]
        behind = _plain(self.text[match.end : min(following, default=len(self.text))])
        if -1 < _last(_NEGATIVE_CUE, clause) >= _last(_POSITIVE_CUE, clause):  # "not show me": "show me"
            return True
        if _SAID_CUE.search(clause) and _BACK_CUE.search(behind):
            return True
        return bool(_AFTER_CUE.search(behind))

    def _clause_before(self, match: Match) -> str:
        """The clause of a value up to it, other values in it replaced by a mark."""
        begin = max(self.text.rfind(stop, 0, match.start) for stop in _STOPS) + 1
        position = begin
        clause = ""
        for other in self.values:
            if begin <= other.start and other.end <= match.start:
                clause += self.text[position : other.start] + _VALUE
                position = other.end
        return clause + self.text[position : match.start]

    def _counts(self, match: Match) -> bool:
        """Whether a match lies in no longer one, and has the field that is meant of those with its value."""
        fields = []
        for other in self.accepted:
            covers = other.start <= match.start and match.end <= other.end
            if covers and other.end - other.start > match.end - match.start:
                return False
            if covers and other.start == match.start:
                fields.append(other.field)
        return match.field == self._role(fields, match)

    def _role(self, options: Sequence[str], match: Match) -> str:
        """The field that is meant of those which have a value: the one cued by the nearest word before it."""
        if len(options) == 1:
            return options[0]
        first = bisect_left(self.starts, match.start)
        before = self.tokens[max(0, first - _REACH) : first]
        for token in reversed(before):
            for name, row in self.fields.items():
                if token in row.cues and name in options:
                    return self._sharing(token, before, options) or name
        for role in PERSON_FIELDS:
            if role in options:
                return role
        return options[0]

    def _sharing(self, token: str, before: Sequence[str], options: Sequence[str]) -> str:
        """The field that shares a cue with another ("written by") and has one of its own before it."""
        for name in options:
            row = self.fields[name]
            if token in row.shared_cues and not set(row.cues).isdisjoint(before):
                return name
        return ""


def _plain(text: str) -> str:
    """Folded words with a blank around each, in the spelling of the cues."""
    plain = f" {' '.join(words(text))} "
    for written, spelt in _SPELT.items():
        plain = written.sub(spelt, plain)
    return plain


def _last(cue: re.Pattern[str], clause: str) -> int:
    """Where the last cue ends, or -1."""
    return max((match.end() for match in cue.finditer(clause)), default=-1)
