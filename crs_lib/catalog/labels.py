"""Cleaning of single labels: the value that a raw label of a catalogue stands for, or why it is dropped."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

FIRST_FILM_YEAR = 1900


class Cleaned(NamedTuple):
    """The value of a cleaned label, or None with the reason why the label is dropped."""

    value: str | None
    reason: str = ""


def _without_suffix(raw: str) -> str:
    """The label without trailing ``(…)`` and ``#n`` marks."""
    return re.sub(r"(\s*(\([^()]*\)|#\d+))+\s*$", "", raw).strip()


def _tidy(raw: str) -> str:
    return " ".join(raw.split())


def clean_name(raw: str) -> Cleaned:
    """Any name, without trailing marks such as ``(place)`` or ``#2``; a label without words is dropped."""
    name = _tidy(_without_suffix(raw))
    return Cleaned(name) if fold(name) else Cleaned(None, "empty")


def cleaner(aliases: Mapping[str, tuple[str, ...]]) -> Callable[[str], Cleaned]:
    """A cleaning rule for names with aliases: every alias becomes the value that it stands for."""
    value_of = {fold(form): value for value, others in aliases.items() for form in (value, *others)}

    def clean(raw: str) -> Cleaned:
        found = clean_name(raw)
        return found if found.value is None else Cleaned(value_of.get(fold(found.value), found.value))

    return clean


def clean_person(raw: str) -> Cleaned:
    """A person's name without role marks; placeholders and database keys are dropped."""
    name = _tidy(_without_suffix(raw))
    folded = fold(name)
    if not folded:
        return Cleaned(None, "empty")
    if folded in lexicon.NOT_A_PERSON or re.fullmatch(r"nm\d+", folded):
        return Cleaned(None, "no person's name")
    return Cleaned(name)


_PLOT_WORD = cleaner(lexicon.PLOT_WORDS)


def clean_keyword(raw: str) -> Cleaned:
    """A plot keyword in small letters; a plural and its singular are one."""
    found = _PLOT_WORD(raw)
    return found if found.value is None else Cleaned(found.value.lower())


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
