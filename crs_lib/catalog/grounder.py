"""Grounding: the catalogue concepts and titles that a text names, with places, reasons and vectors.

Matching is by whole words on folded text (:mod:`crs_lib.core.text`): case and accents do not matter, and
"ger" is not found in "danger". All overlapping matches are kept. Everyday words count under declared rules
(:mod:`crs_lib.catalog.rules`). Source: docs/metrics.md, section 1.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields, lexicon
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS, PLOT
from crs_lib.catalog.rules import Context, Matcher, Rule, no_rule, value_rule
from crs_lib.catalog.titles import Foreign, Mention, Titles, written_as_titles
from crs_lib.core.dialogue import Dialogue, Mark
from crs_lib.core.text import fold

_KEPT = 1024  # texts whose matches are kept: the systems of a scenario hear mostly the same words


class Match(NamedTuple):
    """A concept found in a text: half-open character range, field, value, code.

    ``rejected`` is the reason why the match does not count, empty where it counts.
    """

    start: int
    end: int
    field: str
    value: str
    code: int
    rejected: str


class Grounder:
    """Finds a catalogue's concepts and titles in texts; built once per catalogue.

    ``active_fields`` are the fields that count (default: those of the catalogue that TAS scores);
    ``plot_keywords`` adds the content words of the plots as a field ``plot`` (any word of four letters that
    is no everyday word), unless the catalogue has that field.
    Raises InputError for an unknown field.
    """

    def __init__(
        self,
        catalog: Catalog,
        active_fields: Sequence[str] | None = None,
        *,
        plot_keywords: bool = False,
    ) -> None:
        self.catalog = catalog
        scored = [name for name, row in catalog.fields.items() if row.in_tas]
        wanted = scored if active_fields is None else active_fields
        self.active_fields = tuple(fields.get(name).name for name in wanted)
        self._plot_words = (
            sorted(catalog.plot_keywords) if plot_keywords and PLOT not in catalog.fields else []
        )
        self._everyday = catalog.everyday_words | lexicon.COMMON_WORDS
        spellings = self._spellings()
        self._matcher = Matcher(list(spellings), self._everyday)
        self._meanings = list(spellings.values())

    def _spellings(self) -> dict[str, list[tuple[int, Rule]]]:
        """The codes that a folded spelling stands for, each with its rule."""
        terms = self.catalog.vocabulary
        table: dict[str, list[tuple[int, Rule]]] = {}
        for code, (name, value) in enumerate(zip(terms.field, terms.value, strict=True)):
            if name in self.active_fields:
                row = ALL_FIELDS[name]
                for form in row.forms(value):
                    rule = value_rule(row.rule, form, self._everyday)
                    table.setdefault(form, []).append((code, rule))
        for number, word in enumerate(self._plot_words):
            table.setdefault(word, []).append((len(terms) + number, no_rule))
        return table

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        return self._keys[code]

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(map(self._keys.__getitem__, codes))

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        return (*self.catalog.vocabulary.keys, *(f"{PLOT}={word}" for word in self._plot_words))

    def field_of(self, code: int) -> str:
        """The field of a code."""
        n = len(self.catalog.vocabulary)
        return self.catalog.vocabulary.field[code] if code < n else PLOT

    # ── concepts ───────────────────────────────────────────────────────────────────────────────
    def concepts(self, text: str) -> frozenset[int]:
        """The concept codes of one text; the empty set where nothing is named."""
        near = Context(text)
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

    @cached_property
    def _audited(self) -> Callable[[str], tuple[Match, ...]]:
        return lru_cache(_KEPT)(self._audit)

    def _audit(self, text: str) -> tuple[Match, ...]:
        near = Context(text)
        found = []
        for start, end, form in self._matcher.find(near.tokens):
            for code, rule in self._meanings[form]:
                name, value = self.key(code).split("=", 1)
                if code < len(self.catalog.vocabulary):
                    value = self.catalog.vocabulary.value[code]
                found.append(Match(*near.span(start, end), name, value, code, rule(near, start, end)))
        return tuple(sorted(found))

    def audit_table(self, text: str) -> pd.DataFrame:
        """:meth:`audit` as a table: text, field, value, from, to, verdict."""
        rows = [
            {
                "text": text[m.start : m.end],
                "field": m.field,
                "value": m.value,
                "from": m.start,
                "to": m.end,
                "verdict": m.rejected or "matched",
            }
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
        return dialogue.with_marks(marks)

    # ── vectors ────────────────────────────────────────────────────────────────────────────────
    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the catalogue: ln((1+N)/(1+df)) + 1."""
        df = self.catalog.document_frequency
        if self._plot_words:
            place = {word: i for i, word in enumerate(self._plot_words)}
            counts = np.zeros(len(place), dtype=np.int64)
            for item in self.catalog.items:
                for word in fields.plot_keywords(item.plot):
                    counts[place[word]] += 1
            df = np.concatenate([df, counts])
        weights: NDArray[np.float64] = np.log((1 + len(self.catalog)) / (1 + df)) + 1
        return weights

    def attribute_vector(self, text: str, active_fields: Sequence[str] | None = None) -> NDArray[np.float64]:
        """The idf-weighted presence vector of a text over all concepts; zeros where none is named.

        ``active_fields`` restricts it; InputError for an unknown field.
        """
        vector = np.zeros(len(self.idf))
        allowed = None if active_fields is None else {fields.get(name).name for name in active_fields}
        for code in self.concepts(text):
            if allowed is None or self.field_of(code) in allowed:
                vector[code] = self.idf[code]
        return vector

    # ── names that users of the original know ──────────────────────────────────────────────────
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
        known = self.catalog.plot_keywords
        return [word for word in fields.plot_keywords(text) if word in known][:limit]

    def titles(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles a text names, resolved to items, in text order (:meth:`Titles.find`)."""
        preferred = frozenset(prefer)
        return self._titles.find(text, preferred) if preferred else list(self._titled(text))

    @cached_property
    def _titles(self) -> Titles:
        return Titles(self.catalog, self._everyday)

    @cached_property
    def _titled(self) -> Callable[[str], tuple[Mention, ...]]:
        return lru_cache(_KEPT)(lambda text: tuple(self._titles.find(text)))

    def unknown_titles(self, text: str, mentions: Sequence[Mention], said: str = "") -> list[Foreign]:
        """The titles outside the catalogue that a text names, in order, each stretch once.

        ``mentions`` are the catalogue's titles in the text. These do not count, nor do catalogue values (a
        genre, a person) and the user's own words (``said``). Only the first 50,000 characters are read.
        """
        found: list[Foreign] = []
        heard = f" {fold(said)} "
        for one in written_as_titles(text):
            overlaps = any(other.start < one.end and one.start < other.end for other in found)
            if not overlaps and f" {fold(one.title)} " not in heard and not self._known(one, mentions):
                found.append(one)
        return sorted(found)

    def _known(self, one: Foreign, mentions: Sequence[Mention]) -> bool:
        """Whether a stretch is a catalogue title or value, or ends as one that was found there."""
        folded = fold(one.title)
        if not folded or folded in self.catalog.title_index:
            return True
        if any(one.start < mention.end and abs(mention.end - one.end) <= 1 for mention in mentions):
            return True
        values = [match.end - match.start for match in self.audit(one.title) if not match.rejected]
        return max(values, default=0) >= len(one.title) - 2
