"""Vocabularies written by us, and the value that a raw label of a catalogue stands for, or why it is dropped.

A label becomes a genre only as a whole (``Science Fiction`` and ``sci-fi`` are one, ``United Kingdom``
is none); nothing is ever cut out of the middle of a label. The spellings stand in ``lexicon.toml``.
"""

import re
import string
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
NO_LANGUAGE_CODES = frozenset({"xx", "zxx", "und", "mul", "mis", "no linguistic content", "undetermined"})
NOT_A_PERSON = frozenset(
    {"unknown", "n a", "na", "none", "various", "anonymous", "uncredited", "et al", "others"}
)


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


@cache
def articles() -> tuple[str, ...]:
    """The articles that titles carry behind a comma, as they are written, the longest first."""
    every = set()
    for written in _tables()["articles"].values():
        every.update(written.split())
    return tuple(sorted(every, key=lambda article: (-len(article), article)))


@cache
def article_words() -> frozenset[str]:
    """The folded articles."""
    return frozenset(map(fold, articles()))


@cache
def _nothing() -> frozenset[str]:
    return frozenset(_tables()["placeholders"]["any"])


@cache
def _no_title() -> frozenset[str]:
    return frozenset(_tables()["placeholders"]["title"])


def columns() -> Mapping[str, Sequence[str]]:
    """The names that the column of each key of a record may have, the best first."""
    names: Mapping[str, Sequence[str]] = _tables()["columns"]
    return names


def public_forms() -> Mapping[str, Sequence[str]]:
    """The columns by which each form of a public file is known."""
    forms: Mapping[str, Sequence[str]] = _tables()["forms"]
    return forms


def headless(form: str) -> Sequence[str]:
    """The columns of a public file without a head, and the genres of the flags in ``u.item``."""
    names: Sequence[str] = _tables()["headless"][form]
    return names


def genre_of_number(number: str) -> str:
    """The genre of one of TMDB's numbers, "" for any other."""
    name: str = _tables()["tmdb_genres"].get(number, "")
    return name


def is_placeholder(label: str) -> bool:
    r"""Whether a cell says that there is no value: "N/A", "\N", "(no genres listed)", "TBA", "0"."""
    return label.strip().casefold() in _nothing()


def names_no_film(title: str) -> bool:
    """Whether a title is a placeholder; "Unknown" and "0" are titles of films."""
    return title.strip().casefold() in _no_title()


FIRST_FILM_YEAR = 1900
_LAST_YEAR = 2100  # later ones, such as 9999, stand for nothing


class Cleaned(NamedTuple):
    """The value of a cleaned label, or None with the reason why the label is dropped."""

    value: str | None
    reason: str = ""


def _without_marks(raw: str) -> str:
    """The label without trailing ``(…)`` and ``#n``, spaces single."""
    label = _tidy(raw)
    while True:
        before, opening, inside = label.rpartition("(")
        if not (opening and inside.find(")") == len(inside) - 1):
            before = label.rstrip(string.digits)
            if not (before.endswith("#") and before != label):
                return label
        label = before.rstrip(" #")


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


_ADDRESS = re.compile(r"\s?(?:https?:|www\.)", re.IGNORECASE)
_GENRE_NOUN = re.compile(r" (film|films|movie|movies|fiction)$")


def clean_genre(raw: str) -> Cleaned:
    """The genre that the whole label names; a label that names none is dropped as a theme."""
    genre_of = name_of("genres")
    for label in (raw, _without_marks(raw)):
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
    if _ADDRESS.match(raw):
        return Cleaned(None, "an address")
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


_REGION = re.compile(r"([A-Za-z]{2,3})[-_][A-Za-z]{2,4}")
_LONGEST_CODE = 3
_WORD_LANGUAGE = re.compile(r"(?<!\bsign)[ -]languages?$", re.IGNORECASE)


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
    if folded in NOT_A_LANGUAGE or folded in NO_LANGUAGE_CODES:
        return Cleaned(None, "no language")
    language_of = _language_of()
    region = _REGION.fullmatch(label)  # en-US, pt_BR
    code = region[1].lower() if region else folded
    if code in language_of or not label.islower() or len(label) > _LONGEST_CODE:
        return Cleaned(language_of.get(code) or _autonyms().get(folded, label))
    return Cleaned(None, "no code of a language")


@cache
def _autonyms() -> dict[str, str]:
    """The English name of a language by its folded name in itself: "deutsch", "francais"."""
    english = _language_of()
    names = {}
    for code in _tables()["autonyms"]["codes"].split():
        own = Locale(code).languages.get(code, "")
        names[fold(own)] = english[code]
    return names


_DATE = re.compile(r"(\d{4})(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])")  # 19270923
_EPOCH = re.compile(r"-?\d{9,14}(?:\.\d+)?")  # seconds or milliseconds since 1970
_FOUR_DIGITS = re.compile(r"(?<!\d)\d{4}(?![\ds])")
_TWO_DIGITS = re.compile(r"\d{1,2}([/.-])(?:\d{1,2}|[a-z]{3,9})\1(\d\d)", re.IGNORECASE)
_LATEST_RELEASE = 2030  # two digits name no later year
TWO_DIGITS = "two digits: the century is assumed"  # the reason of a year
_MILLISECONDS = 10**11


def any_year(raw: str, near: int = 0) -> Cleaned:
    """The year of a date in any usual form: "1927-01-10", "19270923", "13 Mar 1927", "1927–1930" (the first).

    Of two digits ("5/11/24") it is the year closest to ``near`` and not after 2030; without ``near`` the last
    such year: 24 is 2024, 45 is 1945.
    """
    text = raw.strip().removesuffix(".0")
    if re.fullmatch(r"-?\d{1,4}", text):
        return clean_year(text)
    date = _DATE.fullmatch(text)
    if date:
        return clean_year(date[1])
    if _EPOCH.fullmatch(text):
        number = float(text)
        seconds = number / 1000 if abs(number) >= _MILLISECONDS else number
        return clean_year(str(int(1970 + seconds // 31_556_952)))
    four = _FOUR_DIGITS.search(text)
    if four:
        return clean_year(four[0])
    two = _TWO_DIGITS.fullmatch(text)
    if not two:
        return Cleaned(None, "no year" if text else "empty")
    year = int(two[2])
    years = [century + year for century in (2000, 1900) if century + year <= _LATEST_RELEASE]
    if near:
        years.sort(key=lambda candidate: abs(candidate - near))
    return Cleaned(str(years[0]), TWO_DIGITS)


def clean_year(raw: str) -> Cleaned:
    """The year as four digits, dropped before the first films; InputError for text that is no number."""
    text = raw.strip()
    if not text:
        return Cleaned(None, "empty")
    if not re.fullmatch(r"-?\d{1,4}", text):
        raise InputError(f"year {raw!r} is no number; give four digits such as 1994, or leave it empty")
    if int(text) < FIRST_FILM_YEAR:
        return Cleaned(None, f"before {FIRST_FILM_YEAR}")
    if int(text) > _LAST_YEAR:
        return Cleaned(None, f"after {_LAST_YEAR}")
    return Cleaned(str(int(text)))
