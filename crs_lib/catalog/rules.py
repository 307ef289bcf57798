"""Spellings found in text, and the declared rules for everyday words: when "war" or "Sting" counts as found.

A rule looks at the original text around a match and gives a reason to reject it, or an empty text.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import cache, cached_property
from itertools import compress

from crs_lib.catalog import lexicon
from crs_lib.core.errors import unknown
from crs_lib.core.text import fold, spans, words

_OPEN = "\"'“‘«*_`[("
_CLOSE = "\"'”’»*_`])"
_YEAR_AFTER = re.compile(r"[\"'”’»*_`,!?.…]*\s*\((\d{4})\b")
_MARKS = frozenset('"“”‘«»*_`')
_SENTENCE_END = ".!?:;\n•–—"
_REACH, _ABOUT_REACH = 2, 8
_ABOUT = frozenset("about plot plots story stories theme themes involving concerning".split())
_WATCHED = frozenset("watch watched watching movie film seen try recommend suggest avoid skip called".split())
_SHORT_NAME = 4  # letters of a one-word name that may be an everyday word
_FEW_WORDS = 3  # of a title; a longer one counts in a text of one case
# Words that vouch for a weak genre beside them: film words and genres at once, another weak genre only where
# it is vouched for itself: "family history" is no genre, "a war and crime story" is two.
_LOOSE = frozenset("something anything stuff ones vibe vibes".split())


@cache
def _genre_words() -> frozenset[str]:
    return frozenset(form for form in lexicon.name_of("genres") if " " not in form)


@cache
def film_cues() -> frozenset[str]:
    """The words that vouch for a weak genre beside them, weak genres themselves left out."""
    return (lexicon.words("film words") | _LOOSE | _genre_words()) - lexicon.weak_genres()


_Places = tuple[tuple[int, int], ...]
FormMatch = tuple[int, int, int]  # a form in a word list: first word, last word + 1, the form's number


class Matcher:
    """Finds forms (folded word sequences, each once) in word lists, overlaps included, by number. A form is
    looked up under its rarest word, under an everyday one (``everyday``) only if it has no other.
    """

    def __init__(self, forms: Sequence[str], everyday: Container[str] = ()) -> None:
        frequency = Counter(word for form in forms for word in form.split(" "))  # split twice: 0.2 GB less
        self._anchors: dict[str, _Places] = {}  # word: its place in forms of what length
        self._numbers: dict[int, dict[str, int]] = {}  # by that place
        shared: dict[_Places, _Places] = {}  # most words of a million titles have the same places
        for number, form in enumerate(forms):
            parts = form.split(" ")
            offset = 0
            if len(parts) > 1:
                ranks = [(len(word) == 1, word in everyday, frequency[word]) for word in parts]
                offset = ranks.index(min(ranks))
            places = self._anchors.get(parts[offset], ())
            place = (offset, len(parts))
            if place not in places:
                places = (*places, place)
                self._anchors[parts[offset]] = shared.setdefault(places, places)
            self._numbers.setdefault(offset, {})[form] = number

    def find(self, tokens: Sequence[str]) -> list[FormMatch]:
        """All forms in a list of folded words."""
        matches = []
        anchored = map(self._anchors.__contains__, tokens)
        for position in compress(range(len(tokens)), anchored):
            word = tokens[position]
            for offset, length in self._anchors[word]:
                start = position - offset
                end = start + length
                form = word if length == 1 else " ".join(tokens[start:end])
                number = self._numbers[offset].get(form)
                if number is not None and start >= 0 and end <= len(tokens):
                    matches.append((start, end, number))
        return matches


class Context:
    """A text with its folded words (``tokens``), and their places, worked out when a rule asks for them.
    ``cues`` are the words that vouch for a weak genre: those of films, and "books" where the items are books.
    """

    def __init__(self, text: str, cues: frozenset[str] | None = None) -> None:
        self.text = text
        self.tokens = words(text)
        self.cues = film_cues() if cues is None else cues

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The character range of every word."""
        return spans(self.text)

    @cached_property
    def has_marks(self) -> bool:
        """Whether the text has any quotation or emphasis mark."""
        return not _MARKS.isdisjoint(self.text)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The character range of the words ``first`` to ``last - 1``."""
        return self.spans[first][0], self.spans[last - 1][1]

    def in_marks(self, form: str) -> bool:
        """Whether a form stands between quotation or emphasis marks: the word itself is meant."""
        if not self.has_marks:
            return False
        lower = self.text.lower()
        for match in re.finditer(re.escape(form), lower):
            before = lower[match.start() - 1 : match.start()]
            after = lower[match.end() : match.end() + 1]
            if before in _MARKS and after in _MARKS:
                return True
        return False

    def has_film_cue(self, first: int, last: int) -> bool:
        """Whether a film word, or a genre that is vouched for, stands at most two words from a run."""
        if not self.cues.isdisjoint(self._neighbours(first, last)):
            return True
        for position in self._near(first, last):
            if self.tokens[position] in _genre_words():
                for other in self._near(position, position + 1):
                    if self.tokens[other] in self.cues and not first <= other < last:
                        return True
        return False

    def _neighbours(self, first: int, last: int) -> list[str]:
        """The words at most two before and two after a run of words."""
        return self.tokens[max(0, first - _REACH) : first] + self.tokens[last : last + _REACH]

    def _near(self, first: int, last: int) -> list[int]:
        """The positions of the words at most two before and two after a run of words."""
        end = min(len(self.tokens), last + _REACH)
        return [*range(max(0, first - _REACH), first), *range(last, end)]


Rule = Callable[[Context, int, int], str]


def is_quoted(text: str, start: int, end: int) -> bool:
    """Whether the stretch stands alone between quotation or emphasis marks, or before a "(year)"."""
    before = text[start - 1 : start] if start else ""
    after = text[end : end + 1]
    if not before or not after or before not in _OPEN or after not in _CLOSE:
        return year_after(text, end) is not None
    # "She's" is no quotation: an apostrophe between two letters opens and closes nothing.
    return not (before in "'’‘" and start > 1 and text[start - 2].isalnum())


def year_after(text: str, end: int) -> int | None:
    """The year in brackets right after a stretch ("Alien" (1979)), or None."""
    match = _YEAR_AFTER.match(text, end)
    return int(match[1]) if match else None


def _starts_sentence(text: str, start: int) -> bool:
    """Whether nothing but marks stands between the stretch and the sentence's beginning."""
    before = text[:start].rstrip(" \t\"'“‘«*_`[(")
    return not before or before[-1] in _SENTENCE_END


def no_rule(near: Context, first: int, last: int) -> str:
    """Accept always."""
    return ""


def capital(near: Context, first: int, last: int) -> str:
    """A one-word name that is also an everyday word: needs a capital inside a sentence, or quotes."""
    start, end = near.span(first, last)
    letter = near.text[start]
    no_case = letter.isalpha() and not letter.isupper() and not letter.islower()  # as Chinese
    if no_case or is_quoted(near.text, start, end):
        return ""
    if not letter.isupper():
        return "everyday word, not capitalised"
    return "everyday word that opens a sentence" if _starts_sentence(near.text, start) else ""


def film_word(near: Context, first: int, last: int) -> str:
    """A genre that is also an everyday noun: needs a film word or another genre within two words."""
    if near.has_film_cue(first, last) or near.in_marks(" ".join(near.tokens[first:last])):
        return ""
    return "everyday word without a film word beside it"


def capital_or_film_word(near: Context, first: int, last: int) -> str:
    """A name that is also an everyday word ("polish"): needs a capital or a film word."""
    if near.text[near.span(first, last)[0]].isupper():
        return ""
    return film_word(near, first, last)


def about(near: Context, first: int, last: int) -> str:
    """An everyday word that plots are about: needs a word such as "about" before it in the sentence."""
    start = near.span(first, last)[0]
    for position in range(first - 1, max(-1, first - _ABOUT_REACH - 1), -1):
        between = near.text[near.spans[position][1] : start]
        if any(mark in _SENTENCE_END for mark in between):
            break
        if near.tokens[position] in _ABOUT:
            return ""
    return "everyday word without a word such as 'about' before it"


FIELD_RULES = (
    "plain",
    "genre",
    "name",
    "person",
    "plot",
)  # those that a field's row may name (``Field.rule``)


def value_rule(field_rule: str, form: str, everyday: frozenset[str]) -> Rule:
    """The rule of a value's form, from the rule that the field names; InputError for an unknown name."""
    if field_rule not in FIELD_RULES:
        raise unknown("matching rule", field_rule, FIELD_RULES)
    one_word = " " not in form
    if field_rule == "genre" and form in lexicon.weak_genres():
        return film_word
    if field_rule == "name" and lexicon.is_common(form):
        return capital_or_film_word
    if field_rule == "person" and one_word and (form in everyday or len(form) <= _SHORT_NAME):
        return capital
    if field_rule == "plot" and (one_word or lexicon.is_common(form)):
        return about
    return no_rule


def title_rule(title: str, everyday: frozenset[str]) -> Rule:
    """The rule of a title: one word or everyday words only need quotes, a year, or the title's capitals.
    Otherwise they count behind a word such as "watch" ("watch heat", not "watch her"), rare words in
    capitals, in a text of one case alone rare words and titles of four words or more, and in one of capitals
    titles with two words that tell something.
    """
    parts = fold(title).split()
    rare = any(part not in everyday and not part.isdigit() and len(part) > 1 for part in parts)
    if rare and len(parts) > 1:
        return no_rule
    return _TitleRule(title, parts, rare, everyday).verdict


def variant_rule(text: str, mark: str, everyday: frozenset[str]) -> Rule:
    """The rule of a further spelling of a title: as :func:`title_rule`, and ``mark`` must stand in it."""
    rule = title_rule(text, everyday)
    if not mark:
        return rule

    def with_mark(near: Context, first: int, last: int) -> str:
        start, end = near.span(first, last)
        if mark not in near.text[start:end]:
            return f"without the {mark!r} of that spelling"
        return rule(near, first, last)

    return with_mark


class _TitleRule:
    """How a title of everyday words, or of one word, must be written to count."""

    def __init__(self, title: str, parts: Sequence[str], rare: bool, everyday: frozenset[str]) -> None:
        empty = lexicon.words("no plot words")
        self._title = title
        self._rare = rare
        self._one_word = len(parts) == 1
        self._long = len(parts) > _FEW_WORDS
        self._number_or_letter = self._one_word and (parts[0].isdigit() or len(parts[0]) == 1)
        self._everyday_word = self._one_word and parts[0] in everyday
        telling_words = [part for part in parts if len(part) > 3 and part not in empty]
        self._two_telling = len(telling_words) > 1
        self._telling = all(len(part) > 3 and part.isalpha() and part not in empty for part in parts)
        self._capitals = [part[0].isupper() for part in re.findall(r"\w+", title)]

    def verdict(self, near: Context, first: int, last: int) -> str:
        start, end = near.span(first, last)
        if is_quoted(near.text, start, end):
            return ""
        if self._number_or_letter:
            return "number or letter without quotes or year"
        if self._counts_in_any_case(near, first, near.text[start:end]):
            return ""
        return self._as_written(near, first, last)

    def _counts_in_any_case(self, near: Context, first: int, written: str) -> bool:
        if first and self._telling and near.tokens[first - 1] in _WATCHED:
            return True
        one_case = near.text.islower() or near.text.isupper()
        if one_case and (self._long or (self._rare and self._telling)):
            return True
        if self._two_telling and near.text.isupper():
            return True
        return self._rare and written.isupper()

    def _as_written(self, near: Context, first: int, last: int) -> str:
        start, end = near.span(first, last)
        written = near.text[start:end]
        seen = [near.text[begin].isupper() for begin, _ in near.spans[first:last]]
        wanted = self._capitals
        if len(wanted) != len(seen):
            wanted = [True, *seen[1:]]
        initials = self._title.isupper() and len(self._title) > 1
        if seen != wanted or not any(seen) or (initials and written != self._title):
            return "everyday words, not written as the title"
        if written.isupper() and not self._title.isupper():
            return "everyday words, all in capitals"
        if self._everyday_word and _starts_sentence(near.text, start):
            return "everyday word that opens a sentence"
        return ""
