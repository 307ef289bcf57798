"""The declared rules for everyday words: when "war", "Sting" or the title "Her" counts as found.

Each rule looks at the original text around a match and gives a reason to reject it, or an empty text.
"""

import re
from collections.abc import Callable
from functools import cached_property

from crs_lib.catalog import lexicon
from crs_lib.catalog.matcher import cued
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.core.text import fold, spans, words

_OPEN = "\"'“‘«*_`[("
_CLOSE = "\"'”’»*_`])"
_YEAR_AFTER = re.compile(r"[\"'”’»*_`,]*\s*\((\d{4})\b")
MARKS = frozenset('"“”‘«»*_`')
_SENTENCE_END = ".!?:;\n•–—"
REACH = 2
_ABOUT_REACH = 8
_ABOUT = frozenset(
    {"about", "plot", "plots", "story", "stories", "theme", "themes", "involving", "concerning"}
)
_CUES = lexicon.FILM_WORDS | {"something", "anything", "stuff", "ones", "vibe", "vibes"}
_GENRE_WORDS = frozenset(
    word
    for name, aliases in lexicon.GENRES.items()
    for form in (name, *aliases)
    if " " not in fold(form)
    for word in (fold(form),)
)


class Context:
    """A text with its folded words and their places, each worked out when a rule first asks for it.

    ``ranges`` holds character ranges of word runs that are known already.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: dict[tuple[int, int], tuple[int, int]] = {}

    @cached_property
    def tokens(self) -> list[str]:
        """The folded words."""
        return words(self.text)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The character range of every word."""
        return spans(self.text)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The character range of the words ``first`` to ``last - 1``."""
        known = self.ranges.get((first, last))
        return known or (self.spans[first][0], self.spans[last - 1][1])


Rule = Callable[[Context, int, int], str]
# Words that vouch for a weak genre beside them: film words and genres at once (true), another weak genre
# only where it is vouched for itself (false): "family history" is no genre, "a war and crime story" is two.
FILM_CUES = dict.fromkeys(_GENRE_WORDS & lexicon.WEAK_GENRES, False) | dict.fromkeys(
    _CUES | (_GENRE_WORDS - lexicon.WEAK_GENRES), True
)


def has_marks(text: str) -> bool:
    """Whether a text has any quotation or emphasis mark."""
    return any(mark in text for mark in MARKS)


def in_marks(text: str, form: str) -> bool:
    """Whether a form stands between quotation or emphasis marks: the word itself is meant."""
    lower = text.lower()
    place = lower.find(form)
    while place >= 0:
        end = place + len(form)
        if lower[place - 1 : place] in MARKS and lower[end : end + 1] in MARKS:
            return True
        place = lower.find(form, end)
    return False


def quoted(text: str, start: int, end: int) -> bool:
    """Whether the stretch stands alone between quotation or emphasis marks, or before a "(year)"."""
    before = text[start - 1] if start else ""
    after = text[end] if end < len(text) else ""
    between = bool(before) and before in _OPEN and bool(after) and after in _CLOSE
    # "She's" is no quotation: an apostrophe between two letters opens and closes nothing.
    if between and before in "'’‘" and start > 1 and text[start - 2].isalnum():
        return False
    return between or year_after(text, end) is not None


def year_after(text: str, end: int) -> int | None:
    """The year in brackets right after a stretch ("Alien" (1979)), or None."""
    found = _YEAR_AFTER.match(text, end)
    return int(found.group(1)) if found else None


def starts_sentence(text: str, start: int) -> bool:
    """Whether nothing but marks stands between the stretch and the sentence's beginning."""
    before = text[:start].rstrip(" \t\"'“‘«*_`[(")
    return not before or before[-1] in _SENTENCE_END


def no_rule(near: Context, first: int, last: int) -> str:
    """Accept always."""
    return ""


def capital(near: Context, first: int, last: int) -> str:
    """A one-word name that is also an everyday word: needs a capital inside a sentence, or quotes."""
    text, (start, end) = near.text, near.span(first, last)
    if quoted(text, start, end):
        return ""
    if not text[start].isupper():
        return "everyday word, not capitalised"
    return "everyday word that opens a sentence" if starts_sentence(text, start) else ""


def film_word(near: Context, first: int, last: int) -> str:
    """A genre that is also an everyday noun: needs a film word or another genre within two words."""
    if cued(near.tokens, first, last, FILM_CUES, REACH):
        return ""
    if in_marks(near.text, " ".join(near.tokens[first:last])):
        return ""
    return "everyday word without a film word beside it"


def capital_or_film_word(near: Context, first: int, last: int) -> str:
    """A name that is also an everyday word ("polish"): needs a capital or a film word."""
    if near.text[near.span(first, last)[0]].isupper():
        return ""
    return film_word(near, first, last)


def title_rule(title: str, everyday: frozenset[str]) -> Rule:
    """The rule of a title: one word or everyday words only need quotes, a year, or the title's capitals."""
    parts = fold(title).split()
    if (
        any(part not in everyday and not part.isdigit() and len(part) > 1 for part in parts)
        and len(parts) > 1
    ):
        return no_rule
    capitals = [part[0].isupper() for part in re.findall(r"\w+", title)]
    one_word = len(parts) == 1

    def rule(near: Context, first: int, last: int) -> str:
        text, (start, end) = near.text, near.span(first, last)
        if quoted(text, start, end):
            return ""
        if one_word and (parts[0].isdigit() or len(parts[0]) == 1):
            return "number or letter without quotes or year"
        seen = [text[begin].isupper() for begin, _ in near.spans[first:last]]
        wanted = capitals if len(capitals) == len(seen) else [True, *seen[1:]]
        if seen != wanted or not any(seen):
            return "everyday words, not written as the title"
        if title.isupper() and len(title) > 1 and text[start:end] != title:
            return "everyday words, not written as the title"
        if text[start:end].isupper() and not title.isupper():
            return "everyday words, all in capitals"
        if one_word and starts_sentence(text, start) and parts[0] in everyday:
            return "everyday word that opens a sentence"
        return ""

    return rule


def _of_genre(form: str, everyday: frozenset[str]) -> Rule:
    return film_word if form in lexicon.WEAK_GENRES else no_rule


def _of_name(form: str, everyday: frozenset[str]) -> Rule:
    return capital_or_film_word if form in lexicon.COMMON_WORDS else no_rule


def about(near: Context, first: int, last: int) -> str:
    """An everyday word that plots are about: needs a word such as "about" before it in the sentence."""
    start = near.span(first, last)[0]
    for place in range(first - 1, max(-1, first - _ABOUT_REACH - 1), -1):
        if any(mark in _SENTENCE_END for mark in near.text[near.spans[place][1] : start]):
            break
        if near.tokens[place] in _ABOUT:
            return ""
    return "everyday word without a word such as 'about' before it"


def _of_plot(form: str, everyday: frozenset[str]) -> Rule:
    return no_rule if " " in form and form not in lexicon.COMMON_WORDS else about


def _of_person(form: str, everyday: frozenset[str]) -> Rule:
    return capital if " " not in form and (form in everyday or len(form) <= 4) else no_rule


# The matching rules that a field's row may name (``Field.rule``): each gives the rule of a value's form.
FIELD_RULES: dict[str, Callable[[str, frozenset[str]], Rule]] = {
    "plain": lambda form, everyday: no_rule,
    "genre": _of_genre,
    "name": _of_name,
    "person": _of_person,
    "plot": _of_plot,
}


def value_rule(field_rule: str, form: str, everyday: frozenset[str]) -> Rule:
    """The rule of a value's form, from the rule that the field names; InputError for an unknown name."""
    if field_rule not in FIELD_RULES:
        raise InputError(
            f"unknown matching rule {field_rule!r}{did_you_mean(field_rule, FIELD_RULES)} "
            f"(known: {', '.join(FIELD_RULES)})"
        )
    return FIELD_RULES[field_rule](form, everyday)
