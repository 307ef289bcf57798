"""Grounding: the catalogue concepts and titles that a text names, with places, reasons and vectors.

Matching is by whole words on folded text (:mod:`crs_lib.core.text`): case and accents do not matter, and
"ger" is not found in "danger". All overlapping matches are kept. Everyday words count under declared rules
(:mod:`crs_lib.catalog.rules`). Source: docs/metrics.md, section 1.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields, lexicon, rules, titles
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.rules import Context, Matcher, Rule
from crs_lib.catalog.titles import Foreign
from crs_lib.core.dialogue import Dialogue, Mark
from crs_lib.core.text import fold, words

_CACHED = 1024  # texts whose matches are cached: the systems of a scenario hear mostly the same words
_LOOKED_AT = 50_000  # characters of a reply


class Mention(NamedTuple):
    """A title found in a text: its half-open character range, the item, how many bear the title, and whether
    more than one of them may be meant (``item`` is the first).
    """

    start: int
    end: int
    item: int
    n_same_title: int
    ambiguous: bool = False


class Match(NamedTuple):
    """A concept found in a text: half-open range, field, value, code, and why it is ``rejected``, if so."""

    start: int
    end: int
    field: str
    value: str
    code: int
    rejected: str

    @property
    def length(self) -> int:
        """Its number of characters."""
        return self.end - self.start


class _Titles(NamedTuple):
    """The titles of a catalogue: their forms, and by the form's number its items and the rule of it."""

    matcher: Matcher
    items: list[tuple[int, ...]]
    rules: list[Rule]


class Grounder:
    """Finds the titles and concepts of a catalogue in texts.

    Parameters
    ----------
    catalog : Catalog
        Whose concepts and titles are looked for.
    active_fields : sequence of str, optional
        The fields whose values count; by default those of the topic adaptation score.

    Raises
    ------
    InputError
        For a field that there is none of.

    Examples
    --------
    >>> from crs_lib.catalog import sources
    >>> sorted(Grounder(sources.load()).topic_set("a French comedy"))
    ['genre=comedy', 'language=french']
    """

    def __init__(self, catalog: Catalog, active_fields: Sequence[str] | None = None) -> None:
        self.catalog = catalog
        if active_fields is None:
            active_fields = [name for name, row in catalog.fields.items() if row.in_tas]
        self.active_fields = tuple(catalog.field(name).name for name in active_fields)
        self._everyday = catalog.everyday_words | lexicon.words("common words")
        own_words = words(" ".join(catalog.words.values()))
        self._cues = rules.film_cues().union(own_words)
        spellings = self._spellings()
        self._matcher = Matcher(list(spellings), self._everyday)
        self._meanings = list(spellings.values())
        self._audited = lru_cache(_CACHED)(self._audit)
        self._titled = lru_cache(_CACHED)(self._find_titles)

    def _spellings(self) -> dict[str, list[tuple[int, Rule]]]:
        """The codes that a folded spelling stands for, each with its rule."""
        table = defaultdict(list)
        for code, (name, value) in enumerate(self.catalog.vocabulary.pairs()):
            if name not in self.active_fields:
                continue
            row = self.catalog.fields[name]
            for form in row.forms(value):
                accept = rules.value_rule(row.rule, form, self._everyday)
                table[form].append((code, accept))
        return table

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        return self.catalog.vocabulary.keys[code]

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(self.key(code) for code in codes)

    def field_of(self, code: int) -> str:
        """The field of a code."""
        return self.catalog.vocabulary.field[code]

    def concepts(self, text: str) -> frozenset[int]:
        """The concept codes of one text; the empty set where nothing is named."""
        near = Context(text, self._cues)
        codes = set()
        for start, end, form in self._matcher.find(near.tokens):
            for code, accept in self._meanings[form]:
                if accept is rules.no_rule or not accept(near, start, end):
                    codes.add(code)
        return frozenset(codes)

    def ground(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The concept codes of many texts: :meth:`concepts` of each distinct one."""
        concepts = {text: self.concepts(text) for text in set(texts)}
        return [concepts[text] for text in texts]

    def audit(self, text: str) -> list[Match]:
        """Every match of a text, in order, with the reason for those that were rejected."""
        return list(self._audited(text))

    def _audit(self, text: str) -> tuple[Match, ...]:
        near = Context(text, self._cues)
        vocabulary = self.catalog.vocabulary
        matches = []
        for first, last, form in self._matcher.find(near.tokens):
            start, end = near.span(first, last)
            for code, accept in self._meanings[form]:
                rejected = accept(near, first, last)
                match = Match(start, end, vocabulary.field[code], vocabulary.value[code], code, rejected)
                matches.append(match)
        return tuple(sorted(matches))

    def _matched(self, text: str) -> list[Match]:
        return [match for match in self._audited(text) if not match.rejected]

    def audit_table(self, text: str) -> pd.DataFrame:
        """:meth:`audit` as a table: text, field, value, from, to, verdict."""
        frame = pd.DataFrame(self.audit(text), columns=["from", "to", "field", "value", "code", "verdict"])
        frame["text"] = [text[match.start : match.end] for match in self.audit(text)]
        frame["verdict"] = frame["verdict"].replace("", "matched")
        return frame[["text", "field", "value", "from", "to", "verdict"]]

    def annotate(self, dialogue: Dialogue) -> Dialogue:
        """A copy of the dialogue whose turns carry the matched spans, titles included, for display."""
        marks = []
        for turn in dialogue.turns:
            marks.append(self._marks(turn.text))
        return dialogue.with_marks(marks, fields.TINTED)

    def _marks(self, text: str) -> list[Mark]:
        matches = self._matched(text)
        matches.sort(
            key=lambda match: (match.start, self.idf[match.code])
        )  # of two roles the likelier is shown
        marks = [Mark(match.start, match.end, match.field, match.value) for match in matches]
        for mention in self.titles(text):
            title = self.catalog.items[mention.item].title
            marks.append(Mark(mention.start, mention.end, "title", title))
        return marks

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the catalogue: ln((1+N)/(1+df)) + 1."""
        ratio = (1 + len(self.catalog)) / (1 + self.catalog.document_frequency)
        return np.asarray(np.log(ratio) + 1)

    def attribute_vector(self, text: str, active_fields: Sequence[str] | None = None) -> NDArray[np.float64]:
        """The idf-weighted presence vector of a text over all concepts, or those of ``active_fields``."""
        if active_fields is None:
            active_fields = self.active_fields
        wanted = {self.catalog.field(name).name for name in active_fields}
        vector = np.zeros(len(self.idf))
        for code in self.concepts(text):
            if self.field_of(code) in wanted:
                vector[code] = self.idf[code]
        return vector

    def topic_set(self, text: str) -> set[str]:
        """The concept keys ``field=value`` of a text."""
        return set(self.keys(self.concepts(text)))

    def find_attribute_in_text(self, field: str, text: str) -> str | None:
        """The value of a field that a text names: the longest, then the first; None if there is none."""
        if field in fields.TITLE_NAMES:
            mentions = self.titles(text)
            return self.catalog.items[mentions[0].item].title if mentions else None
        name = self.catalog.field(field).name
        longest = None
        for match in self._matched(text):
            if match.field == name and (longest is None or match.length > longest.length):
                longest = match
        return longest.value if longest else None

    def find_plot_keywords_in_text(self, text: str, limit: int = 5) -> list[str]:
        """The text's whole words that say what some plot is about, in text order, at most ``limit``."""
        keywords = fields.plot_keywords(text)
        return [word for word in keywords if word in self.catalog.plot_keywords][:limit]

    def titles(self, text: str, prefer: Iterable[int] = (), wanted: str = "") -> list[Mention]:
        """The titles that a text names, in text order; of two that overlap the longer, of one title the film
        of the year in brackets, of ``prefer``, with most of the concepts that the words ``wanted`` name, or
        the catalogue's first; where several are left, the mention is ambiguous.
        """
        preferred = frozenset(prefer)
        if preferred or wanted:
            return self._find_titles(text, preferred, wanted)
        return list(self._titled(text))

    def _find_titles(self, text: str, preferred: Collection[int] = (), wanted: str = "") -> list[Mention]:
        near = Context(text)
        index = self._titles
        hits = []
        for first, last, form in index.matcher.find(near.tokens):
            if not index.rules[form](near, first, last):
                hits.append((first - last, first, last, form))
        free = [True] * len(near.tokens)
        mentions = []
        for _, first, last, form in sorted(hits):
            if all(free[first:last]):
                free[first:last] = [False] * (last - first)
                start, end = near.span(first, last)
                namesakes = index.items[form]
                meant: Sequence[int] = namesakes
                if len(namesakes) > 1:
                    meant = self._films_meant(namesakes, rules.year_after(text, end), preferred, wanted)
                mentions.append(Mention(start, end, meant[0], len(namesakes), len(meant) > 1))
        return sorted(mentions)

    def _films_meant(
        self, namesakes: Sequence[int], year: int | None, preferred: Collection[int], wanted: str
    ) -> Sequence[int]:
        """Of the films of the year, or else all: the preferred ones, then those that fit ``wanted`` best."""
        items = self.catalog.items
        of_year = [item for item in namesakes if year is not None and items[item].year == year]
        films = of_year or namesakes
        films = [item for item in films if item in preferred] or films
        if len(films) > 1 and wanted:
            codes = self.concepts(wanted)
            fits = [len(codes & self.catalog.fact_sets[item]) for item in films]
            films = [item for item, fit in zip(films, fits, strict=True) if fit == max(fits)]
        return films

    @cached_property
    def _titles(self) -> _Titles:
        index = self.catalog.title_index
        variants = self.catalog.title_variants
        title_rules = []
        for form, items in index.items():
            variant = variants.get(form)
            if variant is None:
                rule = rules.title_rule(self.catalog.items[items[0]].title, self._everyday)
            else:
                rule = rules.variant_rule(variant.text, variant.mark, self._everyday)
            title_rules.append(rule)
        return _Titles(Matcher(list(index), self._everyday), list(index.values()), title_rules)

    def recommended(self, text: str, mentions: Sequence[Mention] | None = None) -> list[int]:
        """The items, each once, whose titles (``mentions``, if known) a text recommends, in text order."""
        if mentions is None:
            mentions = self.titles(text)
        spans = [mention[:2] for mention in mentions]
        items: dict[int, None] = {}
        for mention, only_named in zip(mentions, titles.only_named(text, spans), strict=True):
            if not only_named:
                items[mention.item] = None
        return list(items)

    def unknown_titles(self, text: str, mentions: Sequence[Mention], user_text: str = "") -> list[Foreign]:
        """The titles outside the catalogue (not in ``mentions``, no value, nor words of ``user_text``)
        that the first 50,000 characters name, in order, each stretch once.
        """
        user_words = f" {fold(user_text)} "
        unknown: list[Foreign] = []
        for stretch in titles.marked_or_dated(text[:_LOOKED_AT]):
            if any(stretch.overlaps(other) for other in unknown):
                continue
            if f" {fold(stretch.title)} " not in user_words and not self._is_known(stretch, mentions):
                unknown.append(stretch)
        return sorted(unknown)

    def _is_known(self, stretch: Foreign, mentions: Sequence[Mention]) -> bool:
        """Whether a stretch is a catalogue title or value, or ends as one that was found there."""
        folded = fold(stretch.title)
        if not folded or folded in self.catalog.title_index:
            return True
        for mention in mentions:
            if stretch.start < mention.end and abs(mention.end - stretch.end) <= 1:
                return True
            behind = stretch.title[mention.end - stretch.start :]
            if stretch.start <= mention.start < stretch.end and behind.startswith((" by ", ", by ")):
                return True
        longest = max((match.length for match in self._matched(stretch.title)), default=0)
        return longest >= len(stretch.title) - 2  # so one or two characters are no title of others
