"""Titles that a reply names and the catalogue lacks: found by how titles are written.

A stretch counts as a title when it is written like one and stands in quotation or emphasis marks, or right
before a year in brackets. A bare name in running text is not found, so counts are lower bounds.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.text import fold

_MARKED = re.compile(
    r"“([^“”\n]{1,120})”|\"([^\"\n]{1,120})\"|«([^«»\n]{1,120})»|‘([^‘’\n]{1,120})’(?!\w)"
    r"|\*{1,3}([^*\n]{1,120})\*{1,3}|(?<!\w)_{1,2}([^_\n]{1,120})_{1,2}(?!\w)"
)
_YEAR = re.compile(r"\s*[(\[](?:18|19|20)\d\d[)\]]")
_SMALL = "of|the|and|a|an|in|on|at|to|for|from|with|by|or|as|de|la|le|les|du|des|el|los|y|und|der|die|das|di"
_WORD = r"[A-Z0-9À-ÖØ-Þ][\w'’.&:!?-]{0,40}(?:,(?!\s{1,3}(?:and|or)\b))?"
_BEFORE_YEAR = re.compile(
    rf"(?<!\w)({_WORD}(?:\s{{1,3}}(?:{_WORD}|(?:{_SMALL})\b|[&–-])){{0,11}})\s{{0,3}}[(\[](?:18|19|20)\d\d[)\]]"
)
_OPENERS = frozenset(
    "also and but check consider enjoy finally how if is like maybe next now or perhaps recommend see so "
    "suggest take then these this those try watch what while yes".split()
)
_LONGEST = 12  # words; a longer stretch is a sentence
_LOOKED_AT = 50_000  # characters of a reply


class Foreign(NamedTuple):
    """A title outside the catalogue, as a half-open character range and as it is written."""

    start: int
    end: int
    title: str


def find(grounder: Grounder, text: str, named: Sequence[tuple[int, int]], said: str = "") -> list[Foreign]:
    """The titles outside the catalogue that a text names, in order, each stretch once.

    ``named`` are the character ranges of the catalogue titles in the text. These do not count, nor do
    catalogue values (a genre, a person) and the user's own words (``said``). Only the first 50,000 characters
    are read.
    """
    found: list[Foreign] = []
    heard = f" {fold(said)} "
    text = text[:_LOOKED_AT]
    for one in [*_marked(text), *_before_year(text)]:
        overlaps = any(other.start < one.end and one.start < other.end for other in found)
        if not overlaps and f" {fold(one.title)} " not in heard and not _known(grounder, one, named):
            found.append(one)
    return sorted(found)


def _marked(text: str) -> list[Foreign]:
    """Stretches between quotation or emphasis marks that are written like a title."""
    out = []
    for match in _MARKED.finditer(text):
        group = match.lastindex or 1
        inner = _YEAR.sub("", match[group]).strip(" ,.;:")
        words = inner.split()
        if not words or len(words) > _LONGEST or not (inner[0].isupper() or inner[0].isdigit()):
            continue
        if len(words) > 2 and sum(word[0].isupper() for word in words) < 2:
            continue  # a quoted sentence has one capital
        if len(words) == 1 and all(word in lexicon.COMMON_WORDS for word in fold(inner).split()):
            continue
        start = match.start(group) + match[group].index(inner)
        out.append(Foreign(start, start + len(inner), inner))
    return out


def _before_year(text: str) -> list[Foreign]:
    """Runs of capitalised words right before a year in brackets, without the words that lead up to them."""
    out = []
    for match in _BEFORE_YEAR.finditer(text):
        run = match[1].rstrip(" ,")
        end = match.start(1) + len(run)
        while " " in run and run.split()[0].lower().strip(",") in _OPENERS:
            run = run.split(maxsplit=1)[1]
        out.append(Foreign(end - len(run), end, run))
    return out


def _known(grounder: Grounder, one: Foreign, named: Sequence[tuple[int, int]]) -> bool:
    """Whether a stretch is a catalogue title or value, or ends as one that was found there."""
    folded = fold(one.title)
    if not folded or folded in grounder.catalog.title_index:
        return True
    if any(one.start < end and abs(end - one.end) <= 1 for _, end in named):
        return True
    values = [match.end - match.start for match in grounder.audit(one.title) if not match.rejected]
    return max(values, default=0) >= len(one.title) - 2


def cut(text: str, foreign: Sequence[Foreign]) -> str:
    """The text without the sentences that name one of these titles; empty where nothing is left."""
    kept, position = [], 0
    for end in [*(m.end() for m in re.finditer(r"[.!?…]+[\"”’»*_)]*(?=\s)|\n", text)), len(text)]:
        if not any(one.start < end and position < one.end for one in foreign):
            kept.append(text[position:end])
        position = max(position, end)
    return " ".join("".join(kept).split())
