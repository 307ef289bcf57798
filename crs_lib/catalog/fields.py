"""One row per catalogue field: it drives cleaning, matching, wording, vocabulary and shifts.

To add a field, add a row to ``FIELDS``; nothing else lists fields by hand.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.core.text import fold, words

FIRST_FILM_YEAR = 1900


class Cleaned(NamedTuple):
    """What cleaning makes of a raw label: the value, or None with the reason why it was dropped."""

    value: str | None
    reason: str = ""


@dataclass(frozen=True)
class Field:
    """A catalogue field and everything that depends on it.

    ``rule`` names the matching rule of :mod:`crs_lib.grounding.grounder` for everyday words; ``keep``
    is the place in the relaxation order (the smallest is given up first); ``weight`` is how often
    users wish for the field.
    """

    name: str
    clean: Callable[[str], Cleaned]
    rule: str
    keep: int
    in_tas: bool = True
    may_shift: bool = True
    many: bool = True
    bridge: bool = True
    weight: int = 1
    aliases: Mapping[str, tuple[str, ...]] | None = None

    def forms(self, value: str) -> tuple[str, ...]:
        """The folded spellings under which a clean value is found in text, its own first."""
        others = (self.aliases or {}).get(value, ())
        return tuple(dict.fromkeys(folded for form in (value, *others) if (folded := fold(form))))


def _without_suffix(raw: str) -> str:
    """The label without trailing ``(…)`` and ``#n`` marks."""
    return re.sub(r"(\s*(\([^()]*\)|#\d+))+\s*$", "", raw).strip()


def _tidy(raw: str) -> str:
    return " ".join(raw.split())


def clean_person(raw: str) -> Cleaned:
    """A person's name without role marks; placeholders and database keys are dropped."""
    name = _tidy(_without_suffix(raw))
    folded = fold(name)
    if not folded:
        return Cleaned(None, "empty")
    if folded in lexicon.NOT_A_PERSON or re.fullmatch(r"nm\d+", folded):
        return Cleaned(None, "no person's name")
    return Cleaned(name)


_GENRE_OF = {fold(form): genre for genre, aliases in lexicon.GENRES.items() for form in (genre, *aliases)}
_LANGUAGE_OF = lexicon.LANGUAGE_CODES | {
    fold(form): language for language, aliases in lexicon.LANGUAGES.items() for form in (language, *aliases)
}
_WORD_LANGUAGE = re.compile(r"(?<!\bsign)[\s-]+languages?$", re.IGNORECASE)


def clean_genre(raw: str) -> Cleaned:
    """The genre that the whole label names; a label that names none is dropped as a theme."""
    for label in (raw, _without_suffix(raw)):
        folded = fold(label)
        for candidate in (folded, re.sub(r" (film|films|movie|movies|fiction)$", "", folded)):
            if candidate in _GENRE_OF:
                return Cleaned(_GENRE_OF[candidate])
    return Cleaned(None, "empty" if not fold(raw) else "no genre")


def clean_language(raw: str) -> Cleaned:
    """The language's English name: "French Language", "French" and "fre" are one.

    The word "language" goes, except where it belongs to the name ("American Sign Language").
    """
    label, before = _tidy(_without_suffix(raw)), ""
    while label != before:
        before, label = label, _without_suffix(_WORD_LANGUAGE.sub("", label))
    folded = fold(label)
    if not folded or folded in lexicon.NOT_A_LANGUAGE:
        return Cleaned(None, "empty" if not folded else "no language")
    return Cleaned(_LANGUAGE_OF.get(folded, label))


def clean_year(raw: str) -> Cleaned:
    """The year as four digits; years before 1900 are a source's, not a film's, and are dropped.

    Raises InputError for text that is no number.
    """
    text = raw.strip()
    if not text:
        return Cleaned(None, "empty")
    if not re.fullmatch(r"-?\d{1,4}", text):
        raise InputError(f"year {raw!r} is no number; give four digits such as 1994, or leave it empty")
    if int(text) < FIRST_FILM_YEAR:
        return Cleaned(None, f"before {FIRST_FILM_YEAR}")
    return Cleaned(str(int(text)))


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("genre", clean_genre, "genre", 6, aliases=lexicon.GENRES, bridge=False, weight=4),
        Field("actor", clean_person, "person", 4, weight=4),
        Field("director", clean_person, "person", 5, weight=3),
        Field("writer", clean_person, "person", 3),
        Field("language", clean_language, "language", 2, aliases=lexicon.LANGUAGES),
        Field("year", clean_year, "year", 1, many=False, bridge=False),
    )
}
TAS_FIELDS: tuple[str, ...] = tuple(field.name for field in FIELDS.values() if field.in_tas)
SHIFT_FIELDS: tuple[str, ...] = tuple(field.name for field in FIELDS.values() if field.may_shift)
PERSON_FIELDS: tuple[str, ...] = tuple(f.name for f in FIELDS.values() if f.rule == "person")
RELAXATION_ORDER: tuple[str, ...] = tuple(sorted(FIELDS, key=lambda name: FIELDS[name].keep))
TITLE_NAMES = ("title", "name")
PLOT_NAMES = ("plot", "plot_keywords", "plot_kw")


def get(name: str) -> Field:
    """The row of a field; InputError with a suggestion for a name that is none."""
    if name not in FIELDS:
        raise InputError(f"unknown field {name!r}{did_you_mean(name, FIELDS)} (known: {', '.join(FIELDS)})")
    return FIELDS[name]


def concept(field: str, value: str) -> str:
    """The key of a concept, ``field=value`` with the value folded: ``actor=penelope cruz``."""
    return f"{field}={fold(value)}"


def plot_keywords(text: str) -> list[str]:
    """The content words of a plot or utterance: four letters or more, no everyday word, in order."""
    found = (w for w in words(text) if len(w) >= 4 and w.isalpha() and w not in lexicon.COMMON_WORDS)
    return list(dict.fromkeys(found))


def lower_case_words(texts: Iterable[str]) -> frozenset[str]:
    """The folded words that occur in texts with a small first letter."""
    parts = (part for text in texts for part in text.split() if part[:1].islower())
    return frozenset(word for part in parts for word in words(part))
