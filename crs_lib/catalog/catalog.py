"""The closed catalogue: immutable, indexed by concept, with exact queries and stated relaxation."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.catalog import fields, spelling
from crs_lib.catalog.cleaning import CleaningReport, Films, clean
from crs_lib.catalog.declared import Declared
from crs_lib.catalog.fields import CREDIT_FIELDS, FIELDS, GOAL_FIELD, YEAR_FIELD, Field
from crs_lib.catalog.item import Item
from crs_lib.core import rng, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

Codes = NDArray[np.int32]
Wanted = str | int | Sequence[str | int]
Constraints = Mapping[str, Wanted]
_CACHED_ANSWERS = 4096
_LONGEST_ANSWER = 4096  # items of an answer that is cached
_CACHED_CODES = 65_536
_SAVED = 100_000  # items that are written at a time
_MOST_RECOMMENDED = 50


@dataclass(frozen=True)
class Vocabulary:
    """All concepts of a catalogue; a concept's code is its position in these lists."""

    field: tuple[str, ...]
    value: tuple[str, ...]
    code_of: Mapping[str, int]

    @classmethod
    def of(cls, items: Sequence[Item], names: Iterable[str]) -> "Vocabulary":
        """The concepts of items: by field in the order of ``names``, by folded value within it."""
        of_field: list[str] = []
        values: list[str] = []
        for name in names:
            distinct: set[str] = set()
            for item in items:
                distinct.update(item.values[name])
            by_form = {fold(value): value for value in distinct}
            of_field += [name] * len(by_form)
            values += [by_form[form] for form in sorted(by_form)]
        codes: dict[str, int] = {}
        for code, (name, value) in enumerate(zip(of_field, values, strict=True)):
            codes[fields.concept(name, value)] = code
        return cls(tuple(of_field), tuple(values), codes)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``field=value`` of every code, folded, in the order of the codes."""
        return tuple(self.code_of)

    def __len__(self) -> int:
        return len(self.value)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The field and the value of every code, in the order of the codes."""
        return zip(self.field, self.value, strict=True)


class Answer(NamedTuple):
    """Answer of a query: item indices, ascending, and the fields that were given up to find any."""

    items: Codes
    dropped: tuple[str, ...]


class _Wish(NamedTuple):
    """The items that meet one field of a query; fields of which no value exists are given up first."""

    any_value: bool
    keep: float
    field: str
    items: Codes


class TitleVariant(NamedTuple):
    """A further spelling of the title of items, and the mark that must stand in it ("" for none)."""

    items: tuple[int, ...]
    text: str
    mark: str


class Catalog:
    """Items, the fields they have, their concepts, and the inverted index.

    A concept is a value of a field (``actor=penelope cruz``); it has a code, an item has an index. Nothing in
    a catalogue changes after it is made, and two catalogues share nothing. Made by ``sources.load`` or
    :meth:`from_records`.

    Attributes
    ----------
    items : tuple of Item
        In the order of the file.
    fields : mapping of str to Field
        What every item has, by name.
    vocabulary : Vocabulary
        The concepts by code.
    recommendable : ndarray of bool, shape (n_items,)
        Items with a credit (actor or director); all, where none has one.
    report : CleaningReport
        What was merged or dropped when the file was read.
    source : str
        Where it was read from.
    declared : Declared or None
        The fields that films lack, as the catalogue's YAML file declares them.
    """

    def __init__(
        self,
        items: Sequence[Item],
        report: CleaningReport,
        source: str = "",
        rows: Mapping[str, Field] = FIELDS,
        declared: Declared | None = None,
    ) -> None:
        self.items: tuple[Item, ...] = tuple(items)
        self.report = report
        self.source = source
        self.declared = declared
        self.fields: Mapping[str, Field] = dict(rows)
        self.vocabulary = Vocabulary.of(self.items, self.fields)
        self._starts, self._facts = self._facts_of_items()
        # The postings of every concept: items ascending, laid end to end; where each concept's end.
        indices = np.arange(len(self.items), dtype=np.int32)
        owner = np.repeat(indices, np.diff(self._starts))
        counts = np.bincount(self._facts, minlength=len(self.vocabulary))
        self._ends = np.append(0, np.cumsum(counts))
        self._postings = owner[np.argsort(self._facts, kind="stable")]
        self.recommendable = self._with_credit()
        self._answers: dict[tuple[object, ...], Answer] = {}
        self._codes: dict[tuple[str, str], int | None] = {}
        for array in (self._starts, self._facts, self._ends, self._postings, self.recommendable):
            array.flags.writeable = False

    @classmethod
    def from_records(cls, records: Films, source: str = "", rows: Mapping[str, Field] = FIELDS) -> "Catalog":
        """Clean and index films.

        Parameters
        ----------
        records : iterable of (str, mapping)
            Titles and records in the OpenDialKG form: lists of texts, or one text, by field.
        source : str
            What the catalogue says it was read from.
        rows : mapping of str to Field
            The fields to read.

        Raises
        ------
        InputError
            For a record without a title or with a value that its field cannot have.

        Examples
        --------
        >>> films = Catalog.from_records([("Alien", {"genre": ["Horror"], "year": "1979"})])
        >>> films.values("genre")
        ['Horror']
        """
        items, report = clean(records, rows)
        return cls(items, report, source, rows)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Catalog({len(self):,} films, {len(self.vocabulary):,} concepts, source={self.source!r})"

    def _facts_of_items(self) -> tuple[NDArray[np.int64], Codes]:
        """Where each item's concept codes begin, and the codes, ascending per item, laid end to end."""
        code_of = {pair: code for code, pair in enumerate(self.vocabulary.pairs())}
        facts: list[int] = []
        starts = np.zeros(len(self.items) + 1, dtype=np.int64)
        for number, item in enumerate(self.items, start=1):
            codes = [code_of[name, value] for name, values in item.values.items() for value in values]
            codes.sort()
            facts += codes
            starts[number] = len(facts)
        return starts, np.array(facts, dtype=np.int32)

    def _with_credit(self) -> NDArray[np.bool_]:
        credited = np.zeros(len(self.items), dtype=bool)
        for index, item in enumerate(self.items):
            credited[index] = any(item.values.get(name) for name in CREDIT_FIELDS)
        if not credited.any():
            credited[:] = True
        return credited

    def field(self, name: str) -> Field:
        """A field of this catalogue, or one that films may have; InputError with a suggestion for another."""
        return fields.get(name, self.fields)

    def facts(self, item: int) -> Codes:
        """The concept codes of an item, ascending."""
        return self._facts[self._starts[item] : self._starts[item + 1]]

    @cached_property
    def fact_sets(self) -> tuple[frozenset[int], ...]:
        """The concept codes of every item, as sets."""
        sets = []
        for item in range(len(self)):
            sets.append(frozenset(self.facts(item).tolist()))
        return tuple(sets)

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
        people = [name for name, row in self.fields.items() if row.rule == "person"]
        of_person = np.isin(self.vocabulary.field, people)
        others = self.document_frequency - 1
        weights = np.where(of_person, others, 0).astype(float)
        owner = np.repeat(np.arange(len(self)), np.diff(self._starts))
        sums = np.zeros(len(self))
        np.add.at(sums, owner, weights[self._facts])
        return np.maximum(1.0, sums)

    @cached_property
    def popular_first(self) -> tuple[int, ...]:
        """All items by descending connectedness; equal ones in the catalogue's order."""
        return tuple(np.argsort(-self.popularity, kind="stable").tolist())

    def code(self, field: str, value: str) -> int | None:
        """The code of ``field=value`` in any spelling, or None; InputError for no field or no year."""
        codes = self._codes
        key = (field, value)
        if key not in codes:
            code = self._look_up(field, value)
            if len(codes) >= _CACHED_CODES:
                codes = self._codes = {}  # another thread may still read the old one
            codes[key] = code
        return codes[key]

    def _look_up(self, field: str, value: str) -> int | None:
        row = self.field(field)
        code = self.vocabulary.code_of.get(fields.concept(field, value))
        if code is None:
            cleaned = row.clean(value).value
            if cleaned is not None:
                code = self.vocabulary.code_of.get(fields.concept(field, cleaned))
        return code

    def known_code(self, field: str, value: str) -> int | None:
        """As :meth:`code`, and None for what cannot be a value; for what models, programs and logs state."""
        try:
            return self.code(field, value)
        except InputError:
            self.field(field)
            return None

    def known_values(self, state: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
        """The part of a stated state that the catalogue has: one value a field, in its spelling."""
        first_values: dict[str, str] = {}
        for name, values in state.items():
            if name not in self.fields:
                continue
            for value in [values] if isinstance(values, str) else values:
                code = self.known_code(name, value)
                if code is not None:
                    first_values.setdefault(name, self.vocabulary.value[code])
        return first_values

    def support(self, field: str, value: str) -> int:
        """The number of distinct films that have ``field=value``; 0 where none has."""
        code = self.code(field, value)
        return 0 if code is None else int(self.document_frequency[code])

    def values(self, field: str, min_items: int = 1) -> list[str]:
        """The values of a field that at least ``min_items`` distinct films have, sorted."""
        self.field(field)
        return [value for value, films in self._films_by_value.get(field, ()) if films >= min_items]

    @cached_property
    def _films_by_value(self) -> Mapping[str, list[tuple[str, int]]]:
        """Every field's values with their numbers of films, sorted by value."""
        table = defaultdict(list)
        counts = self.document_frequency.tolist()
        for (name, value), films in zip(self.vocabulary.pairs(), counts, strict=True):
            table[name].append((value, films))
        for pairs in table.values():
            pairs.sort()
        return table

    def genres(self, min_items: int = 5) -> list[str]:
        """The genres with support: at least ``min_items`` distinct films, sorted."""
        return self.values(GOAL_FIELD, min_items)

    @cached_property
    def goal_genres(self) -> tuple[str, ...]:
        """The genres with support of which a film can be recommended, sorted: those a user may open with."""
        goals = []
        for genre in self.genres():
            if len(self.query({GOAL_FIELD: genre}).items):
                goals.append(genre)
        return tuple(goals)

    @cached_property
    def title_index(self) -> Mapping[str, tuple[int, ...]]:
        """Every folded spelling of a title to the items that bear it (remakes share one). What is one item's
        title itself is no further spelling or other title of another.
        """
        index = self._by_title
        own = frozenset(index)
        for form, variant in self.title_variants.items():
            if form not in own:
                index[form] = variant.items
        index.pop("", None)  # a title without words
        return index

    @cached_property
    def _by_title(self) -> dict[str, tuple[int, ...]]:
        index: dict[str, tuple[int, ...]] = {}
        for position, item in enumerate(self.items):
            title = fold(item.title)
            index[title] = (*index.get(title, ()), position)
        return index

    @cached_property
    def title_variants(self) -> Mapping[str, TitleVariant]:
        """Other titles and further spellings, none an item's own title, by their folded form."""
        own = self._by_title
        variants: dict[str, TitleVariant] = {}
        for position, item in enumerate(self.items):
            for title in (item.title, *item.also):
                for text, mark in spelling.spellings(title):
                    form = fold(text)
                    if form and form not in own:
                        earlier = variants.get(form)
                        items = (*earlier.items, position) if earlier else (position,)
                        variants[form] = TitleVariant(items, text, mark)
        return variants

    @cached_property
    def id_index(self) -> Mapping[str, int]:
        """Item id to item index."""
        return {item.item_id: index for index, item in enumerate(self.items)}

    def query(self, constraints: Constraints, *, relax: bool = False) -> Answer:
        """The recommendable items that meet all constraints: any value within a field, all fields.

        Parameters
        ----------
        constraints : mapping of str to str, int or sequence of these
            Wanted values by field; an empty value wants nothing.
        relax : bool
            Give up fields in the order of ``fields.RELAXATION_ORDER``, values that no film has first, until
            an item is found.

        Returns
        -------
        Answer
            The items, ascending, and the fields that were given up.

        Raises
        ------
        InputError
            For an unknown field.
        """
        pairs: list[tuple[str, Wanted]] = []
        for name, wanted in constraints.items():
            if not isinstance(wanted, str | int):
                wanted = tuple(wanted or ())
            pairs.append((name, wanted))
        key = (relax, tuple(pairs))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._search(pairs, relax)
            answer.items.setflags(write=False)
            if len(self._answers) >= _CACHED_ANSWERS:
                self._answers.clear()
            if len(answer.items) <= _LONGEST_ANSWER:
                self._answers[key] = answer
        return answer

    def _search(self, pairs: Iterable[tuple[str, Wanted]], relax: bool) -> Answer:
        """:meth:`query` uncached: from the highest rank down; the first that leaves nothing goes last."""
        wishes = []
        for name, wanted in pairs:
            row = self.field(name)
            if wanted:
                wishes.append(self._wish(row, wanted))
        wishes.sort(key=lambda wish: wish[:2], reverse=True)
        items = self._recommendable_items
        for position, wish in enumerate(wishes):
            common = _common(items, wish.items)
            if len(common):
                items = common
            elif relax:
                dropped = [late.field for late in reversed(wishes[position:])]
                return Answer(items, tuple(dropped))
            else:
                return Answer(common, ())
        return Answer(items, ())

    def _wish(self, row: Field, wanted: Wanted) -> _Wish:
        """The recommendable items with any of the wanted values of a field."""
        parts = []
        for value in (wanted,) if isinstance(wanted, str | int) else wanted:
            code = self.code(row.name, str(value))
            if code is not None:
                parts.append(self._recommendable_with(code))
        items: Codes = np.zeros(0, np.int32)
        if len(parts) == 1:
            items = parts[0]
        elif parts:
            items = np.unique(np.concatenate(parts))
        return _Wish(bool(parts), row.keep, row.name, items)

    def without(self, items: Codes, code: int) -> Codes:
        """These items but for those that have a concept, in their order."""
        gone = self.items_with(code)
        nearest = gone.take(gone.searchsorted(items), mode="clip")
        left: Codes = items[nearest != items]
        return left

    def _recommendable_with(self, code: int) -> Codes:
        ends, items = self._recommendable_postings
        return items[ends[code] : ends[code + 1]]

    @cached_property
    def _recommendable_postings(self) -> tuple[NDArray[np.int64], Codes]:
        """Where each concept's postings end, and the postings; items never recommended are left out."""
        chosen = self.recommendable[self._postings]
        items = self._postings[chosen]
        items.flags.writeable = False
        ends = np.append(0, np.cumsum(chosen))
        return ends[self._ends], items

    @cached_property
    def _recommendable_items(self) -> Codes:
        return np.flatnonzero(self.recommendable).astype(np.int32)

    def recommend(self, constraints: Constraints, limit: int = 30, seed: int = 0) -> list[dict[str, Any]]:
        """At most ``limit`` (1 to 50) films for the constraints, relaxed as :meth:`query`; deterministic.

        ``relaxed`` of each film names the fields that were given up, none where it meets all.
        """
        answer = self.query(constraints, relax=True)
        draw = rng.stream(seed, "recommend")
        order = draw.permutation(len(answer.items))
        limit = min(_MOST_RECOMMENDED, max(1, limit))
        records = []
        for item in answer.items[order[:limit]]:
            records.append({**self.record(int(item)), "relaxed": list(answer.dropped)})
        return records

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
        keywords: set[str] = set()
        for item in self.items:
            keywords.update(fields.plot_keywords(item.plot))
        return frozenset(keywords)

    @cached_property
    def everyday_words(self) -> frozenset[str]:
        """Words that occur in lower case in the plots: they name things, not only films or people."""
        return fields.lower_case_words(item.plot for item in self.items)

    def _by_column(self, item: Item) -> dict[str, list[str] | str]:
        """An item's values by the keys of files, but for the year: a list where it may have several."""
        columns: dict[str, list[str] | str] = {}
        for name, row in self.fields.items():
            if name != YEAR_FIELD:
                values = item.values[name]
                columns[row.column] = list(values) if row.many else "".join(values)
        return columns

    def record(self, item: int) -> dict[str, Any]:
        """One film in the OpenDialKG form: name, year, the other fields, plot; a missing text is empty."""
        film = self.items[item]
        record: dict[str, Any] = {"name": film.title, YEAR_FIELD: str(film.year or "")}
        record.update(self._by_column(film))
        if film.also:
            record["also"] = list(film.also)
        return {**record, "plot": film.plot, "item_id": film.item_id}

    def export(self) -> Iterator[dict[str, Any]]:
        """Films for others: id, title, year (or null), fields, plot, ``recommendable`` (may be wanted)."""
        for film, recommendable in zip(self.items, self.recommendable.tolist(), strict=True):
            record: dict[str, Any] = {"id": film.item_id, "title": film.title, YEAR_FIELD: film.year or None}
            record.update(self._by_column(film))
            if film.also:
                record["also"] = list(film.also)
            yield {**record, "plot": film.plot, "recommendable": recommendable}

    def frame(self) -> pd.DataFrame:
        """A table of item_id, title, year, a column a field (lists where it is ``many``), and plot."""
        return self._frame(self.items)

    def _frame(self, items: Sequence[Item]) -> pd.DataFrame:
        rows = []
        for item in items:
            values = self._by_column(item).values()
            rows.append((item.item_id, item.title, item.year, *values, item.plot))
        many = [row.column for name, row in self.fields.items() if name != YEAR_FIELD]
        frame = pd.DataFrame(rows, columns=["item_id", "title", YEAR_FIELD, *many, "plot"])
        frame[YEAR_FIELD] = frame[YEAR_FIELD].astype("Int64")
        if self._has_other_titles:
            frame["also"] = [list(item.also) for item in items]
        return frame

    @cached_property
    def _has_other_titles(self) -> bool:
        return any(item.also for item in self.items)

    def save(self, path: Path) -> None:
        """Write Parquet that ``sources.load`` reads back, and declared fields to a YAML file of its name."""
        tables.write_parquet(path, self._frames())
        if self.declared:
            text = json.dumps(self.declared.values(), indent=1)
            tables.write_whole(path.with_suffix(".yaml"), text)

    def _frames(self) -> Iterator[pd.DataFrame]:
        for start in range(0, max(1, len(self)), _SAVED):
            yield self._frame(self.items[start : start + _SAVED])

    @property
    def words(self) -> Mapping[str, str]:
        """Words of the templates with those that users say in their place: "book" for "movie"."""
        return self.declared.words if self.declared else {}

    @property
    def relaxation_order(self) -> list[str]:
        """The fields in the order in which a query gives them up."""
        return list(fields.relaxation_order(self.fields))

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """The acts of users who ask about a film, of those fields (and the plot) that any film has."""
        answerable = {name for name in self.fields if self.values(name)}
        if any(item.plot for item in self.items):
            answerable.add(fields.PLOT)
        acts = []
        for name, question in fields.QUESTIONS.items():
            if question.act and name in answerable:
                acts.append(question.act)
        return tuple(acts)


def _common(some: Codes, others: Codes) -> Codes:
    """The items that stand in two ascending lists, ascending: the shorter is looked up in the longer."""
    few, many = sorted((some, others), key=len)
    if not len(few):
        return few
    nearest = many.take(many.searchsorted(few), mode="clip")
    common: Codes = few[nearest == few]
    return common
