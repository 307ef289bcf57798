"""Titles as replies write them, those outside the catalogue included, and the films that a system names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from crs_lib.catalog import lexicon, spelling
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.text import fold, shorten

_MARKED = re.compile(
    r"“([^“”\n]{1,120})”|\"([^\"\n]{1,120})\"|«([^«»\n]{1,120})»|‘([^‘’\n]{1,120})’(?!\w)"
    r"|\*{1,3}([^*\n]{1,120})\*{1,3}|(?<!\w)_{1,2}([^_\n]{1,120})_{1,2}(?!\w)"
)
_YEAR = re.compile(r"\s*[(\[](?:18|19|20)\d\d[)\]]")
_LAST_YEAR = re.compile(r"\s*[(\[](\d{4})[)\]]\s*$")
_SMALL = "of|the|and|a|an|in|on|at|to|for|from|with|by|or|as|de|la|le|les|du|des|el|los|y|und|der|die|das|di"
_WORD = r"[A-Z0-9À-ÖØ-Þ][\w'’.&:!?-]{0,40}(?:,(?!\s{1,3}(?:and|or)\b))?"
_BEFORE_YEAR = re.compile(
    rf"(?<!\w)({_WORD}(?:\s{{1,3}}(?:{_WORD}|(?:{_SMALL})\b|[&–-])){{0,11}})\s{{0,3}}[(\[](?:18|19|20)\d\d[)\]]"
)
_OPENERS = frozenset(
    "also and but check consider enjoy finally how if is like maybe next now or perhaps recommend see so "
    "suggest take then these this those try watch what while yes".split()
)
_SENTENCE_END = re.compile(r"[.!?…]+[\"”’»*_)]*(?=\s)|\n")
_LONGEST = 12  # words; a longer stretch is a sentence


class Foreign(NamedTuple):
    """A title outside the catalogue, as a half-open character range and as it is written."""

    start: int
    end: int
    title: str

    def overlaps(self, other: "Foreign") -> bool:
        """Whether the two share a character."""
        return other.start < self.end and self.start < other.end


def marked_or_dated(text: str) -> list[Foreign]:
    """Stretches that are written like a title: those between marks first, then those before a year."""
    return _marked(text) + _before_year(text)


def _marked(text: str) -> list[Foreign]:
    """Stretches between quotation or emphasis marks that are written like a title."""
    stretches = []
    for match in _MARKED.finditer(text):
        group = match.lastindex or 1
        blank = _YEAR.sub(lambda year: " " * len(year[0]), match[group])  # places stay as they are
        inner = blank.strip(" ,.;:")
        if _is_written_as_title(inner):
            start = match.start(group) + blank.index(inner)
            end = start + len(inner)
            stretches.append(Foreign(start, end, text[start:end]))
    return stretches


def _is_written_as_title(stretch: str) -> bool:
    """Whether a stretch begins like a title and is neither a sentence (one capital) nor an everyday word."""
    words = stretch.split()
    if not words or len(words) > _LONGEST:
        return False
    if not (stretch[0].isupper() or stretch[0].isdigit()):
        return False
    if len(words) == 1:
        return not all(lexicon.is_common(word) for word in fold(stretch).split())
    return len(words) == 2 or sum(word[0].isupper() for word in words) >= 2


def _before_year(text: str) -> list[Foreign]:
    """Runs of capitalised words right before a year in brackets, without the words that lead up to them."""
    stretches = []
    for match in _BEFORE_YEAR.finditer(text):
        run = match[1].rstrip(" ,")
        end = match.start(1) + len(run)
        while " " in run and run.split()[0].lower().strip(",") in _OPENERS:
            run = run.split(maxsplit=1)[1]
        stretches.append(Foreign(end - len(run), end, run))
    return stretches


def films_named(catalog: Catalog, names: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The films that ids and titles name (a year in brackets decides), and the names not in the catalogue."""
    items: dict[int, None] = {}
    unknown: list[str] = []
    for name in names:
        item = catalog.id_index.get(name.strip())
        if item is None:
            item = film_titled(catalog, name)
        if item is None:
            unknown.append(shorten(" ".join(name.split()), 200))
        else:
            items[item] = None
    return tuple(items), unknown


def film_titled(catalog: Catalog, name: str) -> int | None:
    """The film of a title as lists write it (a year in brackets decides); None for a title of none."""
    index = catalog.title_index
    title = spelling.parse(name)
    namesakes: tuple[int, ...] = ()
    for text in (name, title.text, *title.also):
        namesakes = namesakes or index.get(fold(text), ())
    for namesake in namesakes:
        if title.year and catalog.items[namesake].year == int(title.year):
            return namesake
    return namesakes[0] if namesakes else None


def without_year(title: str) -> str:
    """A title without the year in brackets at its end."""
    return _LAST_YEAR.sub("", title)


def cut(text: str, foreign: Sequence[Foreign]) -> str:
    """The text without the sentences that name one of these titles; empty where nothing is left."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    sentences = []
    start = 0
    for end in [*ends, len(text)]:
        sentence = Foreign(start, end, text[start:end])
        if not any(sentence.overlaps(title) for title in foreign):
            sentences.append(sentence.title)
        start = max(start, end)
    return " ".join("".join(sentences).split())
