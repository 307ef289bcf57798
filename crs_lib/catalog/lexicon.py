"""Vocabularies written by us, and the value that a raw label of a catalogue stands for, or why it is dropped.

A label becomes a genre only as a whole (``Science Fiction`` and ``sci-fi`` are one, ``United Kingdom``
is none); nothing is ever cut out of the middle of a label. The spellings stand in ``lexicon.toml``.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from babel import Locale
from babel.core import get_global

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

NOT_A_LANGUAGE = frozenset({"language", "none", "silent", "silent film", "no dialogue", "unknown", "n a"})
NOT_A_PERSON = frozenset({"unknown", "n a", "na", "none", "various", "anonymous", "uncredited"})


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))


def spellings(table: str) -> Mapping[str, Sequence[str]]:
    """Further spellings of each name of a table of ``lexicon.toml``: "genres", "languages", "plot_words"."""
    table_of: Mapping[str, Sequence[str]] = _tables()[table]
    return table_of


def before_noun(word: str) -> str:
    """A genre in small letters as it goes before a noun: "sports" for "sport"."""
    adjective: str = _tables()["before_noun"].get(word, word)
    return adjective


@cache
def name_of(table: str) -> Mapping[str, str]:
    """The name that each folded spelling of a table stands for, the names themselves included."""
    names = {}
    for name, aliases in spellings(table).items():
        for form in (name, *aliases):
            names[fold(form)] = name
    return names


def words(name: str) -> frozenset[str]:
    """The plain words of a section of ``prompts/movies/lexicon.wording``, such as "common words"."""
    return prompts.vocabulary("lexicon", name)


def is_common(form: str) -> bool:
    """Whether a word is an everyday one: a title of such words alone needs a sign that it is meant."""
    return form in words("common words")


@cache
def weak_genres() -> frozenset[str]:
    """Genre names that are everyday nouns: found only beside a film word or another genre."""
    return words("weak genres") | {"children s", "fairy tale", "love story", "period piece", "road trip"}


FIRST_FILM_YEAR = 1900


class Cleaned(NamedTuple):
    """The value of a cleaned label, or None with the reason why the label is dropped."""

    value: str | None
    reason: str = ""


_TRAILING_MARKS = re.compile(r"(\s*(\([^()]*\)|#\d+))+\s*$")


def _without_marks(raw: str) -> str:
    """The label without trailing ``(…)`` and ``#n``, spaces single."""
    return _tidy(_TRAILING_MARKS.sub("", raw))


def _tidy(raw: str) -> str:
    return " ".join(raw.split())


def clean_name(raw: str) -> Cleaned:
    """Any name, without trailing marks such as ``(place)`` or ``#2``; a label without words is dropped."""
    name = _without_marks(raw)
    if not fold(name):
        return Cleaned(None, "empty")
    return Cleaned(name)


def clean_person(raw: str) -> Cleaned:
    """A person's name without role marks; placeholders and database keys are dropped."""
    cleaned = clean_name(raw)
    folded = fold(cleaned.value or "")
    if folded in NOT_A_PERSON or re.fullmatch(r"nm\d+", folded):
        return Cleaned(None, "no person's name")
    return cleaned


def clean_keyword(raw: str) -> Cleaned:
    """A plot keyword in small letters; a plural and its singular are one."""
    cleaned = clean_name(raw)
    if cleaned.value is None:
        return cleaned
    keyword = name_of("plot_words").get(fold(cleaned.value), cleaned.value)
    return Cleaned(keyword.lower())


_GENRE_NOUN = re.compile(r" (film|films|movie|movies|fiction)$")


def clean_genre(raw: str) -> Cleaned:
    """The genre that the whole label names; a label that names none is dropped as a theme."""
    genre_of = name_of("genres")
    for label in (raw, _TRAILING_MARKS.sub("", raw)):
        folded = fold(label)
        for form in (folded, _GENRE_NOUN.sub("", folded)):
            if form in genre_of:
                return Cleaned(genre_of[form])
    if not fold(raw):
        return Cleaned(None, "empty")
    return Cleaned(None, "no genre")


def open_genre(raw: str) -> Cleaned:
    """As :func:`clean_genre`; a label of up to three words that names no known genre is one of its own."""
    cleaned = clean_genre(raw)
    if cleaned.value is None and 0 < len(fold(raw).split()) <= 3:
        return Cleaned(_tidy(raw).title())
    return cleaned


@cache
def _language_of() -> dict[str, str]:
    """The English name of a language by its folded names and its ISO 639 codes of two and three letters."""
    english = Locale("en").languages
    names = {
        code: name for code, name in english.items() if "_" not in code
    }  # en_GB is no language of its own
    by_code = dict(names)
    for code, other in get_global("language_aliases").items():
        if other in names and "_" not in code:
            by_code.setdefault(code, names[other])
    by_name = {fold(name): name for name in names.values()}
    return {**by_code, **_tables()["language_codes"], **by_name, **name_of("languages")}


_WORD_LANGUAGE = re.compile(r"(?<!\bsign)[\s-]+languages?$", re.IGNORECASE)


def clean_language(raw: str) -> Cleaned:
    """The language's English name: "French Language", "French" and "fre" are one, "Sign Language" stays."""
    label = _without_marks(raw)
    before = ""
    while label != before:
        before = label
        label = _without_marks(_WORD_LANGUAGE.sub("", label))
    folded = fold(label)
    if not folded:
        return Cleaned(None, "empty")
    if folded in NOT_A_LANGUAGE:
        return Cleaned(None, "no language")
    return Cleaned(_language_of().get(folded, label))


def clean_year(raw: str) -> Cleaned:
    """The year as four digits, dropped before the first films; InputError for text that is no number."""
    text = raw.strip()
    if not text:
        return Cleaned(None, "empty")
    if not re.fullmatch(r"-?\d{1,4}", text):
        raise InputError(f"year {raw!r} is no number; give four digits such as 1994, or leave it empty")
    if int(text) < FIRST_FILM_YEAR:
        return Cleaned(None, f"before {FIRST_FILM_YEAR}")
    return Cleaned(str(int(text)))
