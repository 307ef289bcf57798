"""Grounding: the catalogue concepts and titles that a text names, with places, reasons and vectors.

Matching is by whole words on folded text (:mod:`crs_lib.core.text`): case and accents do not matter, and
"ger" is not found in "danger". All overlapping matches are kept. Everyday words count under declared rules
(:mod:`crs_lib.catalog.rules`). Source: docs/metrics.md, section 1.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields, lexicon, rules
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS
from crs_lib.catalog.forms import Forms, Grounded, joined
from crs_lib.catalog.matcher import Matcher
from crs_lib.core.dialogue import Dialogue, Mark
from crs_lib.core.text import batches


class Mention(NamedTuple):
    """A title found in a text: half-open character range, the item, and how many items bear the title."""

    start: int
    end: int
    item: int
    n_same_title: int


class Titles:
    """Finds a catalogue's titles in text; those of ``everyday`` words count under ``rules.title_rule``."""

    def __init__(self, catalog: Catalog, everyday: frozenset[str]) -> None:
        self.catalog = catalog
        forms = list(catalog.title_index)
        self._items = [catalog.title_index[form] for form in forms]
        titles = (catalog.items[found[0]].title for found in self._items)
        self._rules = [rules.title_rule(title, everyday) for title in titles]
        self._matcher = Matcher(forms, everyday)

    def find(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles that a text names, in text order; of two that overlap the longer.

        Among films of one title the year in brackets after it decides, then ``prefer`` (the candidates
        that a system was given), then the order of the catalogue.
        """
        near = rules.Context(text)
        hits = [
            hit
            for hit in self._matcher.find(near.tokens)
            if not self._rules[hit.form](near, hit.start, hit.end)
        ]
        wanted, taken, found = frozenset(prefer), [False] * len(near.tokens), []
        for start, end, form in sorted(hits, key=lambda h: (h.start - h.end, h.start)):
            if any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            begin, stop = near.span(start, end)
            item = self._resolve(self._items[form], rules.year_after(text, stop), wanted)
            found.append(Mention(begin, stop, item, len(self._items[form])))
        return sorted(found)

    def _resolve(self, same: Sequence[int], year: int | None, wanted: Set[int]) -> int:
        by_year = [i for i in same if year is not None and self.catalog.items[i].year == year]
        preferred = [i for i in same if i in wanted]
        return (by_year or preferred or list(same))[0]


PLOT = "plot"
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
        self._forms = Forms(self._spellings(), self._everyday, len(self._keys))

    def _spellings(self) -> dict[str, list[tuple[int, rules.Rule]]]:
        """The codes that a folded spelling stands for, each with its rule."""
        terms = self.catalog.vocabulary
        table: dict[str, list[tuple[int, rules.Rule]]] = {}
        for code, (name, value) in enumerate(zip(terms.field, terms.value, strict=True)):
            if name in self.active_fields:
                row = ALL_FIELDS[name]
                for form in row.forms(value):
                    rule = rules.value_rule(row.rule, form, self._everyday)
                    table.setdefault(form, []).append((code, rule))
        for number, word in enumerate(self._plot_words):
            table.setdefault(word, []).append((len(terms) + number, rules.no_rule))
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
        judged = self._forms.judged(rules.Context(text))
        return frozenset(code for _, _, code, reason in judged if not reason)

    def ground(self, texts: Sequence[str]) -> Grounded:
        """The concept codes of many texts: :meth:`concepts` of each, found in numpy passes over batches."""
        unique = list(dict.fromkeys(texts))
        found = joined([self._forms.ground(unique[first:last]) for first, last in batches(unique)])
        if len(unique) == len(texts):
            return found
        row_of = dict(zip(unique, range(len(unique)), strict=True))
        return found.take(np.fromiter(map(row_of.__getitem__, texts), np.int64, len(texts)))

    def audit(self, text: str) -> list[Match]:
        """Every match of a text, in order, with the reason for those that were rejected."""
        return list(self._audited(text))

    @cached_property
    def _audited(self) -> Callable[[str], tuple[Match, ...]]:
        return lru_cache(_KEPT)(self._audit)

    def _audit(self, text: str) -> tuple[Match, ...]:
        near = rules.Context(text)
        found = []
        for start, end, code, reason in self._forms.judged(near):
            name, value = self.key(code).split("=", 1)
            if code < len(self.catalog.vocabulary):
                value = self.catalog.vocabulary.value[code]
            found.append(Match(*near.span(start, end), name, value, code, reason))
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
