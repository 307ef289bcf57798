"""Grounding: the catalogue concepts and titles that a text names, with places, reasons and vectors.

Matching is by whole words on folded text (:mod:`crs_lib.core.text`): case and accents do not matter, and
"ger" is not found in "danger". All overlapping matches are kept. Everyday words count under declared rules
(:mod:`crs_lib.catalog.rules`). Source: docs/metrics.md, section 1.
"""

import re
from collections.abc import Container, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields, lexicon, rules
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS
from crs_lib.catalog.rules import Context, Matcher, Rule, no_rule, value_rule
from crs_lib.core.dialogue import Dialogue, Mark
from crs_lib.core.text import fold, shorten, words

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
_LONGEST = 12  # words; a longer stretch is a sentence
_LOOKED_AT = 50_000  # characters of a reply


class _Mention(NamedTuple):
    """A title found in a text: half-open character range, the item, and how many items bear the title."""

    start: int
    end: int
    item: int
    n_same_title: int


class Foreign(NamedTuple):
    """A title outside the catalogue, as a half-open character range and as it is written."""

    start: int
    end: int
    title: str


def _marked(text: str) -> list[Foreign]:
    """Stretches between quotation or emphasis marks that are written like a title."""
    out = []
    for match in _MARKED.finditer(text):
        group = match.lastindex or 1
        blank = _YEAR.sub(lambda year: " " * len(year[0]), match[group])  # places stay as they are
        inner = blank.strip(" ,.;:")
        words = inner.split()
        if not words or len(words) > _LONGEST or not (inner[0].isupper() or inner[0].isdigit()):
            continue
        if len(words) > 2 and sum(word[0].isupper() for word in words) < 2:
            continue  # a quoted sentence has one capital
        if len(words) == 1 and all(map(lexicon.is_common, fold(inner).split())):
            continue
        start = match.start(group) + blank.index(inner)
        end = start + len(inner)
        out.append(Foreign(start, end, text[start:end]))
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


def films_named(catalog: Catalog, names: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The films that ids and titles name (a year in brackets decides), and the names not in the catalogue."""
    items: dict[int, None] = {}
    unknown: list[str] = []
    for name in names:
        item = catalog.id_index.get(name.strip())
        if item is None:
            index, year = catalog.title_index, _LAST_YEAR.search(name)
            same = index.get(fold(name)) or index.get(fold(without_year(name)), ())
            of_year = (one for one in same if year and catalog.items[one].year == int(year[1]))
            item = next(of_year, same[0] if same else None)
        if item is None:
            unknown.append(shorten(" ".join(name.split()), 200))
        else:
            items[item] = None
    return tuple(items), unknown


def without_year(title: str) -> str:
    """A title without the year in brackets at its end."""
    return _LAST_YEAR.sub("", title)


def cut(text: str, foreign: Sequence[Foreign]) -> str:
    """The text without the sentences that name one of these titles; empty where nothing is left."""
    kept, position = [], 0
    for end in [*(m.end() for m in re.finditer(r"[.!?…]+[\"”’»*_)]*(?=\s)|\n", text)), len(text)]:
        if not any(one.start < end and position < one.end for one in foreign):
            kept.append(text[position:end])
        position = max(position, end)
    return " ".join("".join(kept).split())


_KEPT = 1024  # texts whose matches are kept: the systems of a scenario hear mostly the same words


class Match(NamedTuple):
    """A concept found in a text: half-open range, field, value, code, and why it is ``rejected``, if so."""

    start: int
    end: int
    field: str
    value: str
    code: int
    rejected: str


class Grounder:
    """Finds titles and concepts (of ``active_fields``: those of TAS) in texts; InputError for no field."""

    def __init__(self, catalog: Catalog, active_fields: Sequence[str] | None = None) -> None:
        self.catalog = catalog
        scored = [name for name, row in catalog.fields.items() if row.in_tas]
        wanted = scored if active_fields is None else active_fields
        self.active_fields = tuple(fields.get(name).name for name in wanted)
        self._everyday = catalog.everyday_words | lexicon.words("common words")
        self._cues = rules.film_cues().union(words(" ".join(catalog.words.values())))
        spellings = self._spellings()
        self._matcher = Matcher(list(spellings), self._everyday)
        self._meanings = list(spellings.values())
        self._audited = lru_cache(_KEPT)(self._audit)
        self._titled = lru_cache(_KEPT)(self._find_titles)

    def _spellings(self) -> dict[str, list[tuple[int, Rule]]]:
        """The codes that a folded spelling stands for, each with its rule."""
        terms = self.catalog.vocabulary
        table: dict[str, list[tuple[int, Rule]]] = {}
        for code, (name, value) in enumerate(zip(terms.field, terms.value, strict=True)):
            if name in self.active_fields:
                row = ALL_FIELDS[name]
                for form in row.forms(value):
                    table.setdefault(form, []).append((code, value_rule(row.rule, form, self._everyday)))
        return table

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        return self.catalog.vocabulary.keys[code]

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(map(self.catalog.vocabulary.keys.__getitem__, codes))

    def field_of(self, code: int) -> str:
        """The field of a code."""
        return self.catalog.vocabulary.field[code]

    def concepts(self, text: str) -> frozenset[int]:
        """The concept codes of one text; the empty set where nothing is named."""
        near = Context(text, self._cues)
        return frozenset(
            code
            for start, end, form in self._matcher.find(near.tokens)
            for code, rule in self._meanings[form]
            if rule is no_rule or not rule(near, start, end)
        )

    def ground(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The concept codes of many texts: :meth:`concepts` of each distinct one."""
        found = {text: self.concepts(text) for text in dict.fromkeys(texts)}
        return [found[text] for text in texts]

    def audit(self, text: str) -> list[Match]:
        """Every match of a text, in order, with the reason for those that were rejected."""
        return list(self._audited(text))

    def _audit(self, text: str) -> tuple[Match, ...]:
        near, terms = Context(text, self._cues), self.catalog.vocabulary
        found = []
        for start, end, form in self._matcher.find(near.tokens):
            for code, rule in self._meanings[form]:
                name, value = terms.field[code], terms.value[code]
                found.append(Match(*near.span(start, end), name, value, code, rule(near, start, end)))
        return tuple(sorted(found))

    def audit_table(self, text: str) -> pd.DataFrame:
        """:meth:`audit` as a table: text, field, value, from, to, verdict."""
        rows = [
            (text[m.start : m.end], m.field, m.value, m.start, m.end, m.rejected or "matched")
            for m in self.audit(text)
        ]
        return pd.DataFrame(rows, columns=["text", "field", "value", "from", "to", "verdict"])

    def annotate(self, dialogue: Dialogue) -> Dialogue:
        """A copy of the dialogue whose turns carry the matched spans, titles included, for display."""
        marks = []
        for turn in dialogue.turns:
            good = [m for m in self.audit(turn.text) if not m.rejected]
            good.sort(key=lambda m: (m.start, self.idf[m.code]))  # of two roles the likelier is shown
            found = [Mark(m.start, m.end, m.field, m.value) for m in good]
            for mention in self.titles(turn.text):
                film = self.catalog.items[mention.item]
                found.append(Mark(mention.start, mention.end, "title", film.title))
            marks.append(found)
        return dialogue.with_marks(marks, fields.TINTED)

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the catalogue: ln((1+N)/(1+df)) + 1."""
        return np.asarray(np.log((1 + len(self.catalog)) / (1 + self.catalog.document_frequency)) + 1)

    def attribute_vector(self, text: str, active_fields: Sequence[str] | None = None) -> NDArray[np.float64]:
        """The idf-weighted presence vector of a text over all concepts, or those of ``active_fields``."""
        wanted = ALL_FIELDS if active_fields is None else [fields.get(name).name for name in active_fields]
        codes = [code for code in self.concepts(text) if self.field_of(code) in wanted]
        vector = np.zeros(len(self.idf))
        vector[codes] = self.idf[codes]
        return vector

    def topic_set(self, text: str) -> set[str]:
        """The concept keys ``field=value`` of a text."""
        return {self.key(code) for code in self.concepts(text)}

    def find_attribute_in_text(self, field: str, text: str) -> str | None:
        """The value of a field that a text names: the longest, then the first; None if there is none."""
        if field in fields.TITLE_NAMES:
            mentions = self.titles(text)
            return self.catalog.items[mentions[0].item].title if mentions else None
        name = fields.get(field).name
        found = [m for m in self.audit(text) if m.field == name and not m.rejected]
        return min(found, key=lambda m: (m.start - m.end, m.start)).value if found else None

    def find_plot_keywords_in_text(self, text: str, limit: int = 5) -> list[str]:
        """The text's whole words that say what some plot is about, in text order, at most ``limit``."""
        return [word for word in fields.plot_keywords(text) if word in self.catalog.plot_keywords][:limit]

    def titles(self, text: str, prefer: Iterable[int] = ()) -> list[_Mention]:
        """The titles that a text names, in text order; of two that overlap the longer, of one title the film
        of the year in brackets, of ``prefer``, or the catalogue's first.
        """
        preferred = frozenset(prefer)
        return self._find_titles(text, preferred) if preferred else list(self._titled(text))

    def _find_titles(self, text: str, wanted: Container[int] = ()) -> list[_Mention]:
        near, (matcher, items, rule_of) = Context(text), self._titles
        hits = [
            (start - end, start, end, form)
            for start, end, form in matcher.find(near.tokens)
            if not rule_of[form](near, start, end)
        ]
        taken, found = [False] * len(near.tokens), []
        for _, start, end, form in sorted(hits):
            if any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            begin, stop = near.span(start, end)
            same, year = items[form], rules.year_after(text, stop)
            of_year = [i for i in same if year is not None and self.catalog.items[i].year == year]
            item = (of_year or [i for i in same if i in wanted] or same)[0]
            found.append(_Mention(begin, stop, item, len(same)))
        return sorted(found)

    @cached_property
    def _titles(self) -> tuple[Matcher, list[tuple[int, ...]], list[Rule]]:
        """The titles' folded forms, the items of each, and the rule by which it counts."""
        forms, items = list(self.catalog.title_index), list(self.catalog.title_index.values())
        titles = (self.catalog.items[same[0]].title for same in items)
        return Matcher(forms, self._everyday), items, [rules.title_rule(t, self._everyday) for t in titles]

    def recommended(self, text: str, mentions: Sequence[_Mention] | None = None) -> list[int]:
        """The items, each once, whose titles (``mentions``, if known) a text recommends, in text order."""
        mentions = self.titles(text) if mentions is None else mentions
        named = rules.only_named(text, [(m.start, m.end) for m in mentions])
        return list(dict.fromkeys(m.item for m, only in zip(mentions, named, strict=True) if not only))

    def unknown_titles(self, text: str, mentions: Sequence[_Mention], said: str = "") -> list[Foreign]:
        """The titles outside the catalogue (not in ``mentions``, no value, nor words of the user, ``said``)
        that the first 50,000 characters name, in order, each stretch once.
        """
        found: list[Foreign] = []
        heard, read = f" {fold(said)} ", text[:_LOOKED_AT]
        for one in (*_marked(read), *_before_year(read)):
            overlaps = any(other.start < one.end and one.start < other.end for other in found)
            if not overlaps and f" {fold(one.title)} " not in heard and not self._known(one, mentions):
                found.append(one)
        return sorted(found)

    def _known(self, one: Foreign, mentions: Sequence[_Mention]) -> bool:
        """Whether a stretch is a catalogue title or value, or ends as one that was found there."""
        folded = fold(one.title)
        if not folded or folded in self.catalog.title_index:
            return True
        if any(one.start < mention.end and abs(mention.end - one.end) <= 1 for mention in mentions):
            return True
        values = [match.end - match.start for match in self.audit(one.title) if not match.rejected]
        return max(values, default=0) >= len(one.title) - 2
