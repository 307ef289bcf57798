"""The closed movie catalogue: immutable, indexed by concept, with exact queries and stated relaxation."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields
from crs_lib.catalog.cleaning import CleaningReport, Item, clean
from crs_lib.catalog.fields import ALL_FIELDS, CREDIT_FIELDS, FIELDS, GOAL_FIELD, YEAR_FIELD, Field
from crs_lib.core import rng, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

Codes = NDArray[np.int32]
Wanted = str | int | Sequence[str | int]
Constraints = Mapping[str, Wanted]
_KEPT, _LONGEST = 4096, 4096  # how many answers are kept, and of how many items at most
_MOST_CODES = 65_536
_SAVED = 100_000  # films that are written at a time


class _Found(NamedTuple):
    """Answer of a query: item indices in order, and the fields that were given up to find any."""

    items: Codes
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class _Vocabulary:
    """All concepts of a catalogue; a concept's code is its place in these lists."""

    field: tuple[str, ...]
    value: tuple[str, ...]
    code_of: Mapping[str, int]

    @classmethod
    def of(cls, items: Sequence[Item]) -> "_Vocabulary":
        """The concepts of items: by field in the order of ``ALL_FIELDS``, by folded value within it."""
        names, values = [], []
        for name in ALL_FIELDS:
            distinct = {fold(v): v for v in {v for item in items for v in item.values.get(name, ())}}
            names += [name] * len(distinct)
            values += [distinct[key] for key in sorted(distinct)]
        codes = {fields.concept(n, v): i for i, (n, v) in enumerate(zip(names, values, strict=True))}
        return cls(tuple(names), tuple(values), codes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``field=value`` of every code, folded, in the order of the codes."""
        return tuple(self.code_of)

    def __len__(self) -> int:
        return len(self.value)


def _common(one: Codes, other: Codes) -> Codes:
    """The items that stand in two ascending lists, ascending: the shorter is looked up in the longer."""
    few, many = sorted((one, other), key=len)
    return few[many.take(many.searchsorted(few), mode="clip") == few] if len(few) else few


class Catalog:
    """Films, their concepts, and the inverted index; made by ``sources.load`` or :meth:`from_records`."""

    def __init__(self, items: Sequence[Item], report: CleaningReport, source: str = "") -> None:
        self.items: tuple[Item, ...] = tuple(items)
        self.report = report
        self.source = source
        self.declared: fields.Declared | None = None  # fields that films lack, and the words of their users
        held = set(self.items[0].values) if self.items else set(FIELDS)
        self.fields: Mapping[str, Field] = {name: row for name, row in ALL_FIELDS.items() if name in held}
        self.vocabulary = _Vocabulary.of(self.items)
        self._starts, self._facts = self._laid_out()
        # The postings of every concept: items ascending, laid end to end; where each concept's begin.
        owner = np.repeat(np.arange(len(self.items), dtype=np.int32), np.diff(self._starts))
        counts = np.bincount(self._facts, minlength=len(self.vocabulary))
        self._ends = np.append(0, np.cumsum(counts))
        self._postings = owner[np.argsort(self._facts, kind="stable")]
        credited = [any(item.values[name] for name in CREDIT_FIELDS) for item in self.items]
        self.recommendable: NDArray[np.bool_] = np.array(credited, dtype=bool)
        if len(self.items) and not self.recommendable.any():
            self.recommendable[:] = True
        self._answers: dict[tuple[object, ...], _Found] = {}
        self._codes: dict[tuple[str, str], int | None] = {}
        for array in (self._starts, self._facts, self._ends, self._postings, self.recommendable):
            array.flags.writeable = False

    @classmethod
    def from_records(
        cls, records: Iterable[tuple[str, Mapping[str, Any]]], source: str = "",
        rows: Mapping[str, Field] = FIELDS,
    ) -> "Catalog":  # fmt: skip
        """Clean and index films given as ``(title, record)``, with these fields; raises as cleaning does."""
        return cls(*clean(records, rows), source=source)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Catalog({len(self):,} films, {len(self.vocabulary):,} concepts, source={self.source!r})"

    def _laid_out(self) -> tuple[NDArray[np.int64], Codes]:
        """Concept codes of the items, ascending per item, laid end to end; where each item's begin."""
        terms, facts = self.vocabulary, list[int]()
        code_of = {pair: code for code, pair in enumerate(zip(terms.field, terms.value, strict=True))}
        starts = np.zeros(len(self.items) + 1, dtype=np.int64)
        for place, item in enumerate(self.items, start=1):
            facts += sorted(code_of[name, value] for name, values in item.values.items() for value in values)
            starts[place] = len(facts)
        return starts, np.array(facts, dtype=np.int32)

    def facts(self, item: int) -> Codes:
        """The concept codes of an item, ascending."""
        return self._facts[self._starts[item] : self._starts[item + 1]]

    @cached_property
    def fact_sets(self) -> tuple[frozenset[int], ...]:
        """The concept codes of every item, as sets."""
        return tuple(frozenset(self.facts(i).tolist()) for i in range(len(self)))

    def items_with(self, code: int) -> Codes:
        """The items that have a concept, ascending."""
        return self._postings[self._ends[code] : self._ends[code + 1]]

    @cached_property
    def document_frequency(self) -> NDArray[np.int64]:
        """Number of distinct items per concept, by code."""
        return np.diff(self._ends)

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """The number of other credits of each item's people, at least 1: there are no audience figures."""
        person = np.array([ALL_FIELDS[f].rule == "person" for f in self.vocabulary.field], dtype=bool)
        weight = np.where(person, self.document_frequency - 1, 0).astype(float)
        sums = np.zeros(len(self))
        np.add.at(sums, np.repeat(np.arange(len(self)), np.diff(self._starts)), weight[self._facts])
        return np.maximum(1.0, sums)

    @cached_property
    def popular_first(self) -> tuple[int, ...]:
        """All items by descending connectedness; equal ones in the catalogue's order."""
        return tuple(np.argsort(-self.popularity, kind="stable").tolist())

    def code(self, field: str, value: str) -> int | None:
        """The code of ``field=value`` in any spelling, or None; InputError for no field or no year."""
        known, pair = self._codes, (field, value)
        if pair not in known:
            row, code_of = fields.get(field), self.vocabulary.code_of
            found = code_of.get(fields.concept(field, value))
            if found is None and (cleaned := row.clean(value).value) is not None:
                found = code_of.get(fields.concept(field, cleaned))
            if len(known) >= _MOST_CODES:
                known = self._codes = {}  # another thread may still read the old one
            known[pair] = found
        return known[pair]

    def known_code(self, field: str, value: str) -> int | None:
        """As :meth:`code`, and None for what cannot be a value; for what models, programs and logs state."""
        try:
            return self.code(field, value)
        except InputError:
            fields.get(field)
            return None

    def known_values(self, state: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
        """The part of a stated state that the catalogue has: one value a field, in its spelling."""
        found: dict[str, str] = {}
        for name, values in state.items():
            for value in [values] if isinstance(values, str) else values:
                code = self.known_code(name, value) if name in ALL_FIELDS else None
                if code is not None:
                    found.setdefault(name, self.vocabulary.value[code])
        return found

    def support(self, field: str, value: str) -> int:
        """The number of distinct films that have ``field=value``; 0 where none has."""
        code = self.code(field, value)
        return 0 if code is None else int(self.document_frequency[code])

    def values(self, field: str, min_items: int = 1) -> list[str]:
        """The values of a field that at least ``min_items`` distinct films have, sorted."""
        fields.get(field)
        return [value for value, n in self._values_of[field] if n >= min_items]

    @cached_property
    def _values_of(self) -> Mapping[str, list[tuple[str, int]]]:
        """Every field's values with their numbers of films, sorted by value."""
        table: dict[str, list[tuple[str, int]]] = {name: [] for name in ALL_FIELDS}
        terms, counts = self.vocabulary, self.document_frequency.tolist()
        for name, value, n in zip(terms.field, terms.value, counts, strict=True):
            table[name].append((value, n))
        return {name: sorted(pairs) for name, pairs in table.items()}

    def genres(self, min_items: int = 5) -> list[str]:
        """The genres with support: at least ``min_items`` distinct films, sorted."""
        return self.values(GOAL_FIELD, min_items)

    @cached_property
    def goal_genres(self) -> tuple[str, ...]:
        """The genres with support of which a film can be recommended, sorted: those a user may open with."""
        return tuple(genre for genre in self.genres() if len(self.query({GOAL_FIELD: genre}).items))

    @cached_property
    def title_index(self) -> Mapping[str, tuple[int, ...]]:
        """Folded title to the items that bear it (remakes share one)."""
        index: dict[str, tuple[int, ...]] = {}
        for i, item in enumerate(self.items):
            title = fold(item.title)
            index[title] = (*index.get(title, ()), i)
        index.pop("", None)  # a title without words
        return index

    @cached_property
    def id_index(self) -> Mapping[str, int]:
        """Item id to item index."""
        return {item.item_id: i for i, item in enumerate(self.items)}

    def frame(self, part: slice = slice(None)) -> pd.DataFrame:
        """A table of item_id, title, year, a column a field (lists where it is ``many``), and plot."""
        items = self.items[part]
        held = {name: row.column for name, row in self.fields.items() if name != YEAR_FIELD}
        columns = {column: [_written(item, name) for item in items] for name, column in held.items()}
        years = pd.array([item.year for item in items], dtype="Int64")
        ids, titles = [item.item_id for item in items], [item.title for item in items]
        head, plots = {"item_id": ids, "title": titles}, [item.plot for item in items]
        return pd.DataFrame({**head, YEAR_FIELD: years, **columns, "plot": plots})

    def query(self, constraints: Constraints, *, relax: bool = False) -> _Found:
        """The recommendable items that meet all constraints: any value within a field, all fields. With
        ``relax`` fields are given up in the order of ``fields.RELAXATION_ORDER``, values that no film has
        first, until an item is found (``dropped``). Raises InputError for an unknown field.
        """
        pairs = tuple((n, w if isinstance(w, str | int) else tuple(w or ())) for n, w in constraints.items())
        key = (relax, pairs)
        found = self._answers.get(key)
        if found is None:
            found = self._search(pairs, relax)
            found.items.setflags(write=False)
            if len(self._answers) >= _KEPT:
                self._answers.clear()
            if len(found.items) <= _LONGEST:
                self._answers[key] = found
        return found

    def _search(self, pairs: Iterable[tuple[str, Wanted]], relax: bool) -> _Found:
        """:meth:`query` uncached: from the highest rank down; the first that leaves nothing goes last."""
        groups: list[tuple[bool, float, str, Codes]] = []  # values that no film has rank last
        for name, wanted in pairs:
            if (row := fields.get(name)) and wanted:
                several = (wanted,) if isinstance(wanted, str | int) else wanted
                codes = {code for one in several if (code := self.code(name, str(one))) is not None}
                parts = [self._recommendable_with(code) for code in codes] or [np.zeros(0, np.int32)]
                mine = parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
                groups.append((bool(codes), row.keep, name, mine))
        order, items = sorted(groups, key=lambda group: group[:2], reverse=True), self._recommendable_items
        for place, (_, _, _, mine) in enumerate(order):
            met = _common(items, mine)
            if not len(met):
                dropped = tuple(name for _, _, name, _ in reversed(order[place:]))
                return _Found(items, dropped) if relax else _Found(met, ())
            items = met
        return _Found(items, ())

    def without(self, items: Codes, code: int) -> Codes:
        """These items but for those that have a concept, in their order."""
        gone = self.items_with(code)
        kept: Codes = items[gone.take(gone.searchsorted(items), mode="clip") != items]
        return kept

    def _recommendable_with(self, code: int) -> Codes:
        ends, items = self._recommendable_postings
        return items[ends[code] : ends[code + 1]]

    @cached_property
    def _recommendable_postings(self) -> tuple[NDArray[np.int64], Codes]:
        """The postings without the items that are never recommended, and where each concept's end."""
        kept = self.recommendable[self._postings]
        items = self._postings[kept]
        items.flags.writeable = False
        return np.append(0, np.cumsum(kept))[self._ends], items

    @cached_property
    def _recommendable_items(self) -> Codes:
        return np.flatnonzero(self.recommendable).astype(np.int32)

    def recommend(self, constraints: Constraints, limit: int = 30, seed: int = 0) -> list[dict[str, Any]]:
        """At most ``limit`` (1 to 50) films for the constraints, relaxed as :meth:`query`; deterministic."""
        found = self.query(constraints, relax=True).items
        order = rng.stream(seed, "recommend").permutation(len(found))[: min(50, max(1, limit))]
        return [self.record(int(found[i])) for i in order]

    get_available_genres = genres

    def get_attribute_values(self, field: str, min_count: int = 1) -> list[str]:
        """The sorted values of a field, ``title``/``name`` and the words of plots (``plot``) included."""
        if field in fields.TITLE_NAMES:
            return sorted({item.title for item in self.items})
        if field in fields.PLOT_NAMES:
            return sorted(self.plot_keywords)
        return self.values(field, min_count)

    @cached_property
    def plot_keywords(self) -> frozenset[str]:
        """Every content word of four letters or more that occurs in a plot."""
        return frozenset(word for item in self.items for word in fields.plot_keywords(item.plot))

    @cached_property
    def everyday_words(self) -> frozenset[str]:
        """Words that occur in lower case in the plots: they name things, not only films or people."""
        return fields.lower_case_words(item.plot for item in self.items)

    def record(self, item: int) -> dict[str, Any]:
        """One film in the OpenDialKG form: name, year, the other fields, plot; a missing text is empty."""
        film = self.items[item]
        values = self._values(film)
        year = str(film.year) if film.year else ""
        return {"name": film.title, YEAR_FIELD: year, **values, "plot": film.plot, "item_id": film.item_id}

    def _values(self, film: Item) -> dict[str, list[str] | str]:
        """A film's values by the keys that files have, but for the year."""
        return {row.column: _written(film, n) for n, row in self.fields.items() if n != YEAR_FIELD}

    def export(self) -> Iterator[dict[str, Any]]:
        """Films for others: id, title, year (or null), fields, plot, ``recommendable`` (may be wanted)."""
        for place, film in enumerate(self.items):
            values = self._values(film)
            head = {"id": film.item_id, "title": film.title, YEAR_FIELD: film.year or None}
            yield {**head, **values, "plot": film.plot, "recommendable": bool(self.recommendable[place])}

    def save(self, path: Path) -> None:
        """Write Parquet that ``sources.load`` reads back, and declared fields to a YAML file of its name."""
        starts = range(0, max(1, len(self)), _SAVED)
        tables.write_parquet(path, (self.frame(slice(start, start + _SAVED)) for start in starts))
        if self.declared:
            tables.write_whole(path.with_suffix(".yaml"), json.dumps(self.declared.values(), indent=1))

    @property
    def words(self) -> Mapping[str, str]:
        """Words of the templates with those that users say in their place: "book" for "movie"."""
        return self.declared.words if self.declared else {}

    @property
    def relaxation_order(self) -> list[str]:
        """The fields in the order in which a query gives them up."""
        return sorted(self.fields, key=lambda name: self.fields[name].keep)

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """The acts of users who ask about a film, of those fields (and the plot) that any film has."""
        plots = any(item.plot for item in self.items)
        known = {name for name in self.fields if self.values(name)} | ({fields.PLOT} if plots else set())
        return tuple(one.act for name, one in fields.QUESTIONS.items() if one.act and name in known)


def _written(item: Item, field: str) -> list[str] | str:
    """A film's values of a field as files hold them: a list, or one text where a film has one value."""
    values = item.values[field]
    return list(values) if ALL_FIELDS[field].many else "".join(values)
