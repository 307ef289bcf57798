"""The forms in which a catalogue is read: JSON by title or by item id, and a film a row."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet

from crs_lib.catalog import lexicon
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import Films, Record, clean, one_text
from crs_lib.catalog.declared import Declared
from crs_lib.catalog.fields import ALL_FIELDS, FIELDS, PLOT, YEAR_FIELD, Field
from crs_lib.catalog.keywords import with_keywords
from crs_lib.core import safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

_COLUMNS = {
    "title": ("name", "movie", "film", "movie title", "original title", "primary title"),
    "plot": ("overview", "description", "synopsis", "summary", "storyline"),
    "item_id": ("id", "movie id", "film id", "imdb id", "tconst", "original_id"),
}
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_SEPARATORS = ("|", ";", ",")  # the first of these that a text holds parts its values
_BATCH = 10_000  # rows of a Parquet file that are read at a time
_SHOWN = 300  # characters of a record that an error shows
_YEAR = re.compile(r"\b\d{4}\b")
_YEAR_AT_END = re.compile(r"\s*\((\d{4})\)\s*$")


@dataclass(frozen=True)
class Layout:
    """What is read from a file: the catalogue's name, the fields, and the columns that the user names."""

    name: str
    rows: Mapping[str, Field]
    columns: Mapping[str, str] = field(default_factory=dict)  # field by column
    declared: Declared | None = None

    def catalog(self, films: Films, *, open_genres: bool = False) -> Catalog:
        """The catalogue of these films; with ``open_genres`` a genre is what the file names so."""
        rows = dict(self.rows)
        if open_genres:
            rows["genre"] = replace(rows["genre"], clean=lexicon.open_genre)
        items, report = clean(with_keywords(films, rows), rows)
        return Catalog(items, report, self.name, self.rows, self.declared)

    def table_rows(self) -> Iterable[Field]:
        """The fields that a table is read by: those of films beside those that are asked for."""
        return {**ALL_FIELDS, **self.rows}.values()

    def known_columns(self) -> dict[str, str]:
        """The key of a record by the folded name of a column, plurals included."""
        names = dict(_COLUMNS)
        for row in self.table_rows():
            names[row.column] = row.foreign_keys
        key_of: dict[str, str] = {}
        for key, aliases in names.items():
            for alias in (key, *aliases):
                key_of[fold(alias)] = key
        for alias, key in list(key_of.items()):
            key_of.setdefault(f"{alias}s", key)
        for column, key in self.columns.items():
            key_of[fold(column)] = key
        return key_of


def read(path: Path, layout: Layout) -> Catalog:
    """The catalogue of a file; InputError naming the file, and where it applies the record and the field."""
    if path.suffix == ".parquet" and not layout.columns:
        names = _parquet_columns(path)
        if set(tables.CATALOG.columns) <= set(names):
            return _read_own(path, layout, names)
    if path.suffix.lower() in _TABLES:
        return _from_rows(_rows(path), layout)
    return read_json(path, layout)


def _parquet_columns(path: Path) -> list[str]:
    """The columns of a Parquet file; where they are those that this package writes, they are checked."""
    own = list(tables.CATALOG.columns)
    try:
        names: list[str] = pyarrow.parquet.read_schema(path).names
        empty = set(own) <= set(names) and tables.CATALOG.check(pd.read_parquet(path, columns=own)).empty
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} cannot be read as a catalogue: {error}") from error
    if empty:
        raise InputError(f"{path.name} must hold at least one film")
    return names


def _read_own(path: Path, layout: Layout, columns: Sequence[str]) -> Catalog:
    """A catalogue that was saved; it has plot keywords as a field where it was saved with them."""
    rows = dict(layout.rows)
    plot = ALL_FIELDS[PLOT]
    if plot.column in columns:
        rows = {**FIELDS, PLOT: plot, **rows}
    films = ((str(film["title"] or ""), film) for film in _parquet_rows(path))
    return replace(layout, rows=rows).catalog(films, open_genres=True)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a table, or JSON lines, one by one."""
    kind = path.suffix.lower()
    if kind == ".jsonl":
        return tables.read_jsonl(path)
    if kind == ".parquet":
        return _parquet_rows(path)
    return _text_rows(path, "\t" if kind == ".tsv" else ",;\t")


def _text_rows(path: Path, separators: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV or TSV file; the separator is the one that its head has most often."""
    with path.open("rb") as file:
        head = file.readline(10_000).decode(errors="replace")
    separator = max(separators, key=head.count)
    try:
        frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not in UTF-8 ({error}); save it as CSV UTF-8") from error
    names = [str(name) for name in frame.columns]
    for cells in frame.itertuples(index=False, name=None):
        yield dict(zip(names, cells, strict=True))


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a few thousand in memory at a time."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH):
            yield from batch.to_pylist()


def _from_rows(rows: Iterable[object], layout: Layout) -> Catalog:
    """The catalogue of a table; InputError that shows what was read where no film has a title or a value."""
    rows = iter(rows)
    first = next(rows, None)
    naming = _Naming(layout)
    films = map(naming.film, chain([first], rows))
    head = []
    for film in films:  # as far as the first that has a title; the others are read one by one
        head.append(film)
        if film[0]:
            break
    if not head[-1][0]:
        raise _nothing_read(layout, first, len(head), "no column of titles")
    catalog = layout.catalog(chain(head, films), open_genres=True)
    if not len(catalog.vocabulary):
        lacks = f"no value of any field ({', '.join(layout.rows)})"
        raise _nothing_read(layout, first, catalog.report.films_read, lacks)
    return catalog


def _nothing_read(layout: Layout, first: object, films: int, lacks: str) -> InputError:
    shown = json.dumps(first, ensure_ascii=False, default=str)[:_SHOWN]
    fields = ", ".join(layout.rows)
    mend = f"Name the columns title, {fields}, or say which is which: {layout.name}+COLUMN=actor"
    return InputError(f"{layout.name}: {films} records and {lacks}; the first record is {shown}. {mend}")


class _Naming:
    """Names the cells of a row as the fields that they hold."""

    def __init__(self, layout: Layout) -> None:
        self._name = layout.name
        self._known = layout.known_columns()
        self._several = set()
        for row in layout.table_rows():
            if row.many:
                self._several.add(row.column)
        self._key_of: dict[str, str] = {}  # by column as it is written

    def film(self, row: object) -> tuple[str, dict[str, object]]:
        """A row as ``(title, record)`` under the names of the fields; columns of no field keep their own."""
        if not isinstance(row, Mapping):
            raise InputError(
                f"{self._name} must hold a film a row with at least one film, each an object or a line"
            )
        record: dict[str, object] = {}
        for column, cell in row.items():
            key = self._key(column)
            value = self._value(key, cell)
            if value is not None and key != "recommendable":
                record.setdefault(key, value)
        return str(record.get("title") or ""), record

    def _key(self, column: str) -> str:
        key = self._key_of.get(column)
        if key is None:
            key = self._key_of[column] = self._known.get(fold(column), column)
        return key

    def _value(self, key: str, cell: object) -> object:
        if key == YEAR_FIELD:
            year = _YEAR.search(str(cell))
            return year[0] if year else ""
        if key not in self._several or not isinstance(cell, str):
            return cell
        present = [separator for separator in _SEPARATORS if separator in cell]
        parts = cell.split(present[0] if present else "\n")
        return list(filter(None, map(str.strip, parts)))


def read_json(path: Path, layout: Layout) -> Catalog:
    """The catalogue of a JSON file: an object by title or by item id, or a list of films."""
    try:
        data = safety.loads(safety.read_text(path), path.name, pairs=_object)
    except InputError as error:
        raise InputError(f"{error}; expected an object title -> record") from error
    if isinstance(data, list):
        return _from_rows(data, layout)
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path.name} must hold an object title -> record with at least one film")
    pairs = data.pairs if isinstance(data, _Repeated) else list(data.items())
    for title, record in pairs:
        if isinstance(record, _Repeated):
            raise InputError(f"{path.name}: {title!r} has the field {record.twice!r} twice; give it once")
    if keyed_by_id(data):
        if isinstance(data, _Repeated):
            raise InputError(f"{path.name} has the id {data.twice!r} twice; give every item its own")
        return layout.catalog(_films_by_id(data))
    if _named_as_in_tables(pairs, layout):
        return _from_rows(({"title": title, **film} for title, film in pairs), layout)
    return layout.catalog(pairs)


class _Repeated(dict[str, Any]):
    """A JSON object with a key that comes twice: ``pairs`` has all of them, the mapping the last."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        counts = Counter(key for key, _ in pairs)
        self.twice = next(key for key, times in counts.items() if times > 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(pairs)
    return once if len(once) == len(pairs) else _Repeated(pairs)


def _named_as_in_tables(pairs: Sequence[tuple[str, Any]], layout: Layout) -> bool:
    """Whether films name a field only as tables do ("Genres"), which the thesis's form does not know."""
    keys: set[str] = set()
    for _, film in pairs:
        if not isinstance(film, Mapping):
            return False
        keys.update(film)
    key_of = layout.known_columns()
    named = {key_of.get(fold(key)) for key in keys} - keys
    return any(row.column in named for row in layout.rows.values())


def keyed_by_id(data: Mapping[str, Any]) -> bool:
    """Whether a parsed catalogue is keyed by item id: records with a ``star``, or numbers as keys."""
    named = 0
    for record in data.values():
        if isinstance(record, Mapping):
            if "star" in record:
                return True
            named += "name" in record
    return bool(data) and named == len(data) and all(map(str.isdigit, data))


def _films_by_id(data: Mapping[str, Any]) -> Iterator[tuple[str, Record]]:
    """Each film as ``(title, record)`` of the OpenDialKG form; the key becomes the item id.

    A year in brackets at the end of the name is the film's year. A name without any letter or digit but that
    year names no film and is left out.
    """
    for key, record in data.items():
        if not isinstance(record, Mapping):
            yield str(key), record  # the cleaning says what is wrong with it
            continue
        where = f"item {key!r:.60}"
        name = one_text(where, "name", record.get("name")) or one_text(where, "title", record.get("title"))
        title = _YEAR_AT_END.sub("", name)
        if not re.search(r"\w", title):
            continue
        film: dict[str, object] = {"name": title, "item_id": str(key)}
        for field_name, row in FIELDS.items():
            film[field_name] = _listed(record, (field_name, *row.foreign_keys))
        film["plot"] = one_text(where, "plot", record.get("plot"))
        year = _YEAR_AT_END.search(name)
        film[YEAR_FIELD] = str(record.get(YEAR_FIELD) or (year[1] if year else ""))
        yield title, film


def _listed(record: Mapping[str, Any], keys: Iterable[str]) -> object:
    """What the first of these keys that holds something has; None among its values is left out."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, list) and value:
            return [label for label in value if label is not None]
        if value:
            return value
    return []
