"""Cleaning with a report: every label merged or dropped is counted, nothing is edited in silence."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

import pandas as pd

from crs_lib.catalog import lexicon
from crs_lib.catalog.fields import CREDIT_FIELDS, FIELDS, Field
from crs_lib.catalog.item import Item
from crs_lib.catalog.lexicon import Cleaned
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, shorten

Record = Mapping[str, object]  # a film as a file holds it: a text, a number or a list of texts by key


class LeftOut(NamedTuple):
    """A row of a file that is no film, and why, as a clause: "it has no title"."""

    reason: str


Films = Iterable[tuple[str, Record | LeftOut]]  # the films of a file, each with its key

_IDS = ("item_id", "original_id")
_TITLES = ("name", "title")
_OTHER_KEYS = frozenset({"plot", "plot_keywords", "also", *_TITLES, *_IDS})
_PLACEHOLDER = "placeholder"
_LISTS = ("[{", "{'", '{"', "['", '["')  # as written lists of JSON and Python begin
_SUMMARY = ["field", "values before", "distinct before", "merged", "dropped", "doublets"]
_SUMMARY += ["values after", "distinct after"]
_SHARED = 3  # values; shorter lists are shared by the films that have them
_folded = lru_cache(65_536)(fold)


class Change(NamedTuple):
    """What happened to a label of a field: ``merged`` into a value, ``dropped``, or a ``doublet``."""

    field: str
    action: str
    label: str
    value: str
    reason: str


class RowNote(NamedTuple):
    """A row of the file, counted from 1, that is no film: ``merged`` into another, or ``left out``."""

    row: int
    action: str
    title: str
    film: str
    reason: str


@dataclass
class CleaningReport:
    """The record of a cleaning: counts per field before and after, every change, every row that is no film.

    ``form`` is the public form that the file was read as, "" where it is of none; ``short_rows`` are the
    numbers of rows with fewer cells than columns, whose last columns count as empty.
    """

    changes: Counter[Change] = field(default_factory=Counter)
    before: dict[str, Counter[str]] = field(default_factory=dict)
    after: dict[str, Counter[str]] = field(default_factory=dict)
    films_read: int = 0
    films_kept: int = 0
    row_notes: list[RowNote] = field(default_factory=list)
    form: str = ""
    low_information: int = 0
    ignored_keys: Counter[str] = field(default_factory=Counter)
    broken_titles: int = 0
    short_rows: Sequence[int] = ()

    @classmethod
    def empty(cls, names: Iterable[str]) -> "CleaningReport":
        """A report about these fields in which nothing is counted yet."""
        report = cls()
        for name in names:
            report.before[name] = Counter()
            report.after[name] = Counter()
        return report

    @property
    def merged_films(self) -> list[tuple[str, str]]:
        """The title of every row that was merged into a film, and that film's."""
        return [(note.title, note.film) for note in self.row_notes if note.action == "merged"]

    @property
    def left_out(self) -> list[RowNote]:
        """The rows that are no films."""
        return [note for note in self.row_notes if note.action == "left out"]

    def summary(self) -> pd.DataFrame:
        """One row a field: values and distinct values before and after, merged, dropped, doublets."""
        actions: Counter[tuple[str, str]] = Counter()
        for change, films in self.changes.items():
            actions[change.field, change.action] += films
        rows = []
        for name, before in self.before.items():
            after = self.after[name]
            done = [actions[name, action] for action in ("merged", "dropped", "doublet")]
            rows.append((name, before.total(), len(before), *done, after.total(), len(after)))
        return pd.DataFrame(rows, columns=_SUMMARY)

    def table(self, field_name: str | None = None, action: str | None = None) -> pd.DataFrame:
        """Every change, most frequent first: field, action, from, to, reason, number of films."""
        rows = []
        for change, films in self.changes.items():
            if field_name in (None, change.field) and action in (None, change.action):
                rows.append((*change, films))
        frame = pd.DataFrame(rows, columns=["field", "action", "from", "to", "reason", "films"])
        order = ["films", "field", "action", "from"]
        return frame.sort_values(order, ascending=[False, True, True, True], ignore_index=True)

    def lines(self) -> pd.DataFrame:
        """``cleaning_report.csv``: :meth:`table`, then a line a row that is no film, with its number."""
        frame = self.table().assign(row="")
        rows: list[tuple[object, ...]] = []
        if self.form:
            rows.append(("file", "read as", "", self.form, "known by its columns", self.films_read, ""))
        for note in self.row_notes:
            rows.append(("row", note.action, note.title, note.film, note.reason, 1, note.row))
        for number in self.short_rows:
            rows.append(("row", "short", "", "", "fewer cells than columns: the last are empty", 1, number))
        return pd.concat([frame, pd.DataFrame(rows, columns=frame.columns)], ignore_index=True)

    def balance(self) -> str:
        """The balance of rows as one line: read = films + merged + left out, and the placeholders."""
        read = f"{self.films_read:,} rows read" + (f" ({self.form})" if self.form else "")
        left = self.left_out
        why = f" (row {left[0].row}: {left[0].reason})" if left else ""
        parts = f"{self.films_kept:,} films + {len(self.merged_films):,} merged + {len(left):,} left out{why}"
        reasons: Counter[str] = Counter()
        for change, films in self.changes.items():
            reasons[change.reason] += films
        empty = reasons[_PLACEHOLDER]
        assumed = reasons[lexicon.TWO_DIGITS]
        short_years = f"; {assumed:,} years of two digits, whose century is assumed" if assumed else ""
        broken = f"; {self.broken_titles:,} titles have U+FFFD, decoded wrongly" if self.broken_titles else ""
        return f"{read} = {parts}; {empty:,} placeholders are no values{short_years}{broken}{self._short()}"

    def _short(self) -> str:
        """The clause that tells the rows with fewer cells than columns; empty where there is none."""
        if not self.short_rows:
            return ""
        fewer = (
            f"{len(self.short_rows):,} rows have fewer cells than columns (row {self.short_rows[0]} first)"
        )
        return f"; {fewer}, whose last columns count as empty"

    def __str__(self) -> str:
        fate = "never"
        if 0 < self.low_information == self.films_kept:
            fate = "as all are, so all may be"
        sentence = (
            f"{self.films_read:,} films read, {self.films_kept:,} kept, {len(self.merged_films)} merged; "
            f"{self.low_information} without {' and '.join(CREDIT_FIELDS)} ({fate} recommended)"
        )
        left = len(self.left_out)
        if left:
            sentence += f"; {left:,} rows left out"
        if self.broken_titles:
            cure = "the file was decoded wrongly, fetch it again or name its encoding"
            sentence += f"; {self.broken_titles:,} titles have U+FFFD: {cure}"
        sentence += self._short()
        if self.form:
            sentence += f"; read as {self.form}"
        if self.ignored_keys:
            sentence += f"; not used: {', '.join(self.ignored_keys)}"
        return sentence


def clean(records: Films, rows: Mapping[str, Field] = FIELDS) -> tuple[list[Item], CleaningReport]:
    """Clean films given as ``(key, record)``, the OpenDialKG form.

    Returns items with the fields of ``rows``, and the report. Films of one folded title are merged where they
    are of one year, or one is of none and no other film has the title; the first one's spelling stays. Films
    of two ids are two. A film without title is left out. Raises InputError naming record and field for a
    title or plot that is not one text, a field that is no text or list of texts, or a year that is no number.
    """
    cleaning = _Cleaning(rows)
    for key, record in records:
        cleaning.add(key, record)
    return cleaning.finish(), cleaning.report


class _Cleaning:
    """The films that were read so far, and their report."""

    def __init__(self, rows: Mapping[str, Field]) -> None:
        self.report = CleaningReport.empty(rows)
        self._rows = rows
        self._cleaners: dict[str, Callable[[str], Cleaned]] = {}
        self._columns = [(name, row, row.column) for name, row in rows.items()]
        for name, row in rows.items():
            self._cleaners[name] = cache(row.clean)
        self._items: list[Item] = []
        self._row_of = array("L")  # of the items
        self._positions: dict[str, tuple[int, ...]] = {}  # of the films of a title
        self._foreign_ids: set[str] = set()  # of another database: they do not tell films of one title apart

    def add(self, key: str, record: Record | LeftOut) -> None:
        """Clean the next film, and merge it with an earlier one of its title, and its id or year."""
        self.report.films_read += 1
        row = self.report.films_read
        item: Item | LeftOut
        if isinstance(record, LeftOut):
            item = record
        else:
            item = self._cleaned(f"record {row} ({shorten(str(key), 60)!r})", key, record)
        if isinstance(item, LeftOut):
            self.report.row_notes.append(RowNote(row, "left out", key, "", item.reason))
            return
        title = fold(item.title) or item.title  # "!!!" and "???" have no words
        namesakes = self._positions.get(title, ())
        for position in namesakes:
            if self._is_same(self._items[position], item):
                self._merge(position, item, row, "the same title, and year or id")
                return
        self._positions[title] = (*namesakes, len(self._items))
        self._items.append(item)
        self._row_of.append(row)

    def _is_same(self, first: Item, second: Item) -> bool:
        """Whether two records of one title are of one film: of one id, or where an id lacks, of one year."""
        ids = (first.item_id, second.item_id)
        years = (first.year, second.year)
        if all(ids) and self._foreign_ids.isdisjoint(ids):
            return ids[0] == ids[1] and (years[0] == years[1] or None in years)
        return years[0] == years[1]

    def _merge(self, position: int, item: Item, row: int, why: str) -> None:
        earlier = self._items[position]
        reason = f"{why}, as row {self._row_of[position]}"
        self.report.row_notes.append(RowNote(row, "merged", item.title, earlier.title, reason))
        self._items[position] = self._merged(earlier, item)

    def _merge_undated(self) -> None:
        """Merge films without a year into the one film of their title; one of several is not chosen."""
        gone = set()
        for positions in self._positions.values():
            if len(positions) != 2:
                continue
            first, second = positions
            years = (self._items[first].year, self._items[second].year)
            ids = (self._items[first].item_id, self._items[second].item_id)
            if None in years and not (all(ids) and self._foreign_ids.isdisjoint(ids)):
                why = "the same title, and no other film has it"
                self._merge(first, self._items[second], self._row_of[second], why)
                gone.add(second)
        if gone:
            self._items = [item for position, item in enumerate(self._items) if position not in gone]

    def _cleaned(self, where: str, key: str, record: Record) -> Item | LeftOut:
        if not isinstance(record, Mapping):
            raise InputError(f"{where}: expected an object with the film's fields, got {record!r:.80}")
        title = " ".join((_first_text(where, _TITLES, record) or key).split())
        if not title:
            return LeftOut("it has no title")
        self.report.broken_titles += "\ufffd" in title
        for name in record:
            if name not in self._cleaners and name not in _OTHER_KEYS:
                self.report.ignored_keys[name] += 1
        values: dict[str, tuple[str, ...]] = {}
        for name, row, column in self._columns:
            raw = record.get(column)
            is_empty = raw is None or raw == ""
            values[name] = () if is_empty else self._values(where, row, raw)
        item_id = _item_id(where, record)
        if item_id and not record.get("item_id"):
            self._foreign_ids.add(item_id)
        plot = one_text(where, "plot", record.get("plot"))
        if lexicon.is_placeholder(plot):
            if plot:
                self.report.changes[Change("plot", "dropped", plot, "", _PLACEHOLDER)] += 1
            plot = ""
        also = _other_titles(title, _labels(where, "also", record.get("also")))
        return Item(item_id, title, values, plot, also)

    def _values(self, where: str, row: Field, raw: object) -> tuple[str, ...]:
        """The clean values of a field, each once; what was changed or dropped goes to the report."""
        name = row.name
        changes = self.report.changes
        values: dict[str, str] = {}
        for label in _labels(where, row.column, raw):
            self.report.before[name][label] += 1
            try:
                value, reason = self._cleaners[name](label)
            except InputError as error:
                raise InputError(f"{where}: field {name!r}: {error}") from error
            if lexicon.is_placeholder(label) and reason != "empty":
                value = None
                reason = _PLACEHOLDER
            elif label[:2] in _LISTS:
                value = None
                reason = "a list that is cut off or not well-formed"
            if value is None:
                changes[Change(name, "dropped", label, "", reason)] += 1
                continue
            if value != label:
                changes[Change(name, "merged", label, value, reason or "same meaning")] += 1
            form = _folded(value)
            if form in values:
                changes[Change(name, "doublet", label, values[form], "named twice")] += 1
            values.setdefault(form, value)
        if len(values) > 1 and not row.many:
            first, *others = values.values()
            for value in others:
                changes[
                    Change(name, "dropped", value, first, "the other one is the title's, or comes first")
                ] += 1
        return _as_many(row, values)

    def _merged(self, first: Item, second: Item) -> Item:
        """Two records of one film: the values of both, in the first one's spelling."""
        values = {}
        for name, row in self._rows.items():
            by_form: dict[str, str] = {}
            for value in first.values[name] + second.values[name]:
                by_form.setdefault(fold(value), value)
            values[name] = _as_many(row, by_form)
        also = _other_titles(first.title, (*first.also, *second.also))
        return Item(first.item_id or second.item_id, first.title, values, first.plot or second.plot, also)

    def finish(self) -> list[Item]:
        """The films, with one spelling a value and an id each; the report is complete then."""
        self._merge_undated()
        for name in self._rows:
            self._spell_alike(name)
        _give_ids(self._items)
        self.report.films_kept = len(self._items)
        shared: dict[
            tuple[str, ...], tuple[str, ...]
        ] = {}  # films of one genre, language or year hold one tuple
        for item in self._items:
            for name, values in item.values.items():
                self.report.after[name].update(values)
                if len(values) < _SHARED:
                    item.values[name] = shared.setdefault(values, values)
            if not any(item.values.get(name) for name in CREDIT_FIELDS):
                self.report.low_information += 1
        return self._items

    def _spell_alike(self, name: str) -> None:
        """One display spelling per folded value of a field: the most frequent, then the first in order."""
        spellings: dict[str, Counter[str]] = {}
        for item in self._items:
            for value in item.values[name]:
                spellings.setdefault(_folded(value), Counter())[value] += 1
        best: dict[str, str] = {}
        for counts in spellings.values():
            if len(counts) == 1:
                continue
            chosen = min(counts, key=lambda spelling: (-counts[spelling], spelling))
            for spelling, films in counts.items():
                if spelling != chosen:
                    best[spelling] = chosen
                    self.report.changes[
                        Change(name, "merged", spelling, chosen, "same spelling, folded")
                    ] += films
        if not best:
            return
        for item in self._items:
            values = item.values[name]
            item.values[name] = tuple(best.get(value, value) for value in values)


def _other_titles(title: str, titles: Iterable[str]) -> tuple[str, ...]:
    """Titles without placeholders and repetitions of each other or of the main one."""
    by_form = {fold(title): title}
    for other in titles:
        if not lexicon.names_no_film(other):
            by_form.setdefault(fold(other), other)
    return tuple(by_form.values())[1:]


def _as_many(row: Field, values: Mapping[str, str]) -> tuple[str, ...]:
    """All values of a field, or the first where a film has one only."""
    several = tuple(values.values())
    return several if row.many else several[:1]


def _first_text(where: str, keys: Iterable[str], record: Record) -> str:
    """The text of the first of these keys that has one, or an empty text."""
    for key in keys:
        text = one_text(where, key, record.get(key))
        if text:
            return text
    return ""


def _item_id(where: str, record: Record) -> str:
    for key in _IDS:
        if one_text(where, key, record.get(key)):
            return str(record[key])
    return ""


def one_text(where: str, name: str, raw: object) -> str:
    """A text or number that a film has once, spaces single; "" for none; InputError for anything else."""
    if raw is None or (isinstance(raw, float) and raw != raw):
        return ""
    if isinstance(raw, str | int | float) and not isinstance(raw, bool):
        return " ".join(str(raw).split())
    raise InputError(f"{where}: field {name!r} must be one text, got {raw!r:.80}")


def _labels(where: str, name: str, raw: object) -> list[str]:
    """A field's raw labels; a single text or number counts as a list of one."""
    if raw is None or (isinstance(raw, float) and raw != raw):
        return []
    if isinstance(raw, str):
        return [raw] if raw else []
    whole = isinstance(raw, int) or (isinstance(raw, float) and raw.is_integer())
    if whole and not isinstance(raw, bool):
        return [str(int(raw))]  # type: ignore[call-overload]
    if isinstance(raw, Iterable) and not isinstance(raw, Mapping):
        labels = list(raw)
        if all(isinstance(label, str) for label in labels):
            return labels
    raise InputError(f"{where}: field {name!r} must be a text or a list of texts, got {raw!r:.80}")


def _give_ids(items: list[Item]) -> None:
    """Give films without an id one made of title and year; InputError where two films share an id."""
    title_of: dict[str, str] = {}
    for item in items:
        if item.item_id in title_of:
            both = f"films {title_of[item.item_id]!r} and {item.title!r}"
            raise InputError(
                f"{both} share the id {item.item_id!r}; ids must be unique: mend them, or rename the column"
            )
        if item.item_id:
            title_of[item.item_id] = item.title
    for item in items:
        if not item.item_id:
            item.item_id = _free_id(item, title_of)
            title_of[item.item_id] = item.title


def _free_id(item: Item, title_of: Mapping[str, str]) -> str:
    words = fold(item.title).split()
    base = "-".join([*words, str(item.year or "")]).strip("-") or "film"
    if base not in title_of:
        return base
    number = 2
    while f"{base}-{number}" in title_of:
        number += 1
    return f"{base}-{number}"
