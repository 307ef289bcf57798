"""Grounding: the catalogue concepts and titles that a text names, with spans, reasons and vectors.

Matching is by whole words on folded text (``crs_lib.text``): case and accents do not matter, "ger" is
not found in "danger". All overlapping matches are kept. Everyday words count under declared rules
(``movies/evidence.py``). Source: docs/metrics.md, section 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.dialogue import Dialogue, Mark
from crs_lib.movies import evidence, fields, lexicon
from crs_lib.movies.catalog import Catalog
from crs_lib.movies.fields import FIELDS, TAS_FIELDS
from crs_lib.movies.index import Codes
from crs_lib.movies.matching import Matcher
from crs_lib.text import BREAK, batches, fold_joined, words

PLOT = "plot"


class Match(NamedTuple):
    """A concept found in a text: character range, field, value, code; ``rejected`` says why not."""

    start: int
    end: int
    field: str
    value: str
    code: int
    rejected: str


class Mention(NamedTuple):
    """A title found in a text: character range, the item it resolves to, and how sure that is."""

    start: int
    end: int
    item: int
    n_same_title: int


@dataclass(frozen=True)
class Grounded:
    """The concept codes of many texts: text ``i`` has ``codes[starts[i]:starts[i + 1]]``, ascending."""

    starts: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int) -> Codes:
        return self.codes[self.starts[text] : self.starts[text + 1]]

    def sets(self) -> list[frozenset[int]]:
        """The codes of every text as a set."""
        codes, starts = self.codes.tolist(), self.starts.tolist()
        return [frozenset(codes[a:b]) for a, b in pairwise(starts)]


class Grounder:
    """Finds a catalogue's concepts and titles in text; built once per catalogue.

    ``active_fields`` are the fields that count (default: those of TAS); ``plot_keywords`` adds the
    content words of the plots as a field ``plot`` (off by default: any word of four letters counts).
    """

    def __init__(
        self,
        catalog: Catalog,
        active_fields: Sequence[str] = TAS_FIELDS,
        *,
        plot_keywords: bool = False,
    ) -> None:
        self.catalog = catalog
        self.active_fields = tuple(fields.get(name).name for name in active_fields)
        self._plot_words = sorted(catalog.plot_keywords) if plot_keywords else []
        self._everyday = catalog.everyday_words | lexicon.COMMON_WORDS
        self._codes_of_form, self._rules, forms = self._compile()
        self._matcher = Matcher(forms, self._everyday)
        self._ruled = frozenset(self._rules)

    def _compile(self) -> tuple[list[tuple[int, ...]], dict[int, list[evidence.Rule]], list[str]]:
        """Codes per form, and the rule of each code for the forms that are everyday words."""
        terms = self.catalog.vocabulary
        table: dict[str, list[tuple[int, evidence.Rule]]] = {}
        for code, (name, value) in enumerate(zip(terms.field, terms.value, strict=True)):
            if name in self.active_fields:
                row = FIELDS[name]
                for form in row.forms(value):
                    rule = evidence.value_rule(row.rule, form, self._everyday)
                    table.setdefault(form, []).append((code, rule))
        for number, word in enumerate(self._plot_words):
            table.setdefault(word, []).append((len(terms) + number, evidence.no_rule))
        forms = list(table)
        codes = [tuple(code for code, _ in table[form]) for form in forms]
        rules = {
            number: [rule for _, rule in table[form]]
            for number, form in enumerate(forms)
            if any(rule is not evidence.no_rule for _, rule in table[form])
        }
        return codes, rules, forms

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        n = len(self.catalog.vocabulary)
        return self.catalog.vocabulary.key(code) if code < n else f"{PLOT}={self._plot_words[code - n]}"

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(self.key(int(code)) for code in codes)

    def field_of(self, code: int) -> str:
        """The field of a code."""
        n = len(self.catalog.vocabulary)
        return self.catalog.vocabulary.field[code] if code < n else PLOT

    # ── concepts ───────────────────────────────────────────────────────────────────────────────
    def concepts(self, text: str) -> frozenset[int]:
        """The concept codes of one text; the empty set where nothing is named."""
        return frozenset(self._batch([text])[0])

    def ground(self, texts: Sequence[str]) -> Grounded:
        """The concept codes of many texts; equal to :meth:`concepts` of each, one pass over all."""
        found: list[list[int]] = []
        for first, last in batches(texts):
            found += self._batch(texts[first:last])
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(codes) for codes in found], out=starts[1:])
        return Grounded(starts, np.array([c for codes in found for c in codes], dtype=np.int32))

    def _batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The sorted codes of every text, from one scan over the words of all of them."""
        tokens = fold_joined(texts).split()
        rows: dict[int, set[int]] = {}
        near: evidence.Context | None = None
        for row, first, start, end, form in self._matcher.scan(tokens):
            codes = rows.setdefault(row, set())
            if form not in self._ruled:
                codes.update(self._codes_of_form[form])
                continue
            if near is None or near.text is not texts[row]:
                near = evidence.Context(texts[row], _until_break(tokens, first))
            for code, rule in zip(self._codes_of_form[form], self._rules[form], strict=True):
                if code not in codes and not rule(near, start - first, end - first):
                    codes.add(code)
        return [sorted(rows[row]) if row in rows else [] for row in range(len(texts))]

    def audit(self, text: str) -> list[Match]:
        """Every match of a text, in order, with the reason for those that were rejected."""
        near = evidence.Context(text, words(text))
        found = []
        for start, end, form in self._matcher.find(near.tokens):
            codes = self._codes_of_form[form]
            rules = self._rules.get(form, [evidence.no_rule] * len(codes))
            for code, rule in zip(codes, rules, strict=True):
                name, value = self.key(code).split("=", 1)
                if code < len(self.catalog.vocabulary):
                    value = self.catalog.vocabulary.value[code]
                reason = rule(near, start, end)
                found.append(Match(*near.span(start, end), name, value, code, reason))
        return sorted(found)

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
            found = [Mark(m.start, m.end, m.field, m.value) for m in self.audit(turn.text) if not m.rejected]
            for mention in self.titles(turn.text):
                film = self.catalog.items[mention.item]
                found.append(Mark(mention.start, mention.end, "title", film.title))
            marks.append(sorted(found))
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

    def find_plot_keywords_in_text(self, text: str, limit: int = 3) -> list[str]:
        """The text's content words that occur in a plot, in text order, at most ``limit``."""
        known = self.catalog.plot_keywords
        return [word for word in fields.plot_keywords(text) if word in known][:limit]

    # ── titles ─────────────────────────────────────────────────────────────────────────────────
    @cached_property
    def _titles(self) -> tuple[Matcher, list[tuple[int, ...]], list[evidence.Rule]]:
        forms = list(self.catalog.title_index)
        items = [self.catalog.title_index[form] for form in forms]
        everyday = self._everyday
        rules = [evidence.title_rule(self.catalog.items[found[0]].title, everyday) for found in items]
        return Matcher(forms, everyday), items, rules

    def titles(self, text: str, prefer: Iterable[int] = ()) -> list[Mention]:
        """The titles a text names, resolved to items, in text order; of two that overlap the longer.

        Of films with one title the year in brackets after it decides, then ``prefer`` (the candidates
        that a system was given), then the first in the catalogue.
        """
        matcher, items, rules = self._titles
        near = evidence.Context(text, words(text))
        hits = [hit for hit in matcher.find(near.tokens) if not rules[hit.form](near, hit.start, hit.end)]
        wanted, taken, found = frozenset(prefer), [False] * len(near.tokens), []
        for start, end, form in sorted(hits, key=lambda h: (h.start - h.end, h.start)):
            if any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            begin, stop = near.span(start, end)
            item = self._resolve(items[form], evidence.year_after(text, stop), wanted)
            found.append(Mention(begin, stop, item, len(items[form])))
        return sorted(found)

    def _resolve(self, same: Sequence[int], year: int | None, wanted: frozenset[int]) -> int:
        by_year = [i for i in same if year is not None and self.catalog.items[i].year == year]
        preferred = [i for i in same if i in wanted]
        return (by_year or preferred or list(same))[0]


def keys_by_field(grounder: Grounder, codes: Iterable[int]) -> Mapping[str, list[str]]:
    """Folded values per field of some codes, sorted; only fields that have any."""
    out: dict[str, list[str]] = {}
    for key in grounder.keys(codes):
        name, value = key.split("=", 1)
        out.setdefault(name, []).append(value)
    return out


def _until_break(tokens: Sequence[str], first: int) -> Sequence[str]:
    """The words of one text out of a list of many texts' words."""
    try:
        return tokens[first : tokens.index(BREAK, first)]
    except ValueError:
        return tokens[first:]
