"""The forms in which a catalogue is read: JSON by title or by item id, and a film a row."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet

from crs_lib.catalog import files, lexicon, spelling
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cells import Columns, Names, service_error
from crs_lib.catalog.cleaning import Films, LeftOut, Record, clean, one_text
from crs_lib.catalog.declared import Declared
from crs_lib.catalog.fields import (
    ALL_FIELDS,
    FIELDS,
    PLOT,
    YEAR_FIELD,
    Field,
    lower_case_words,
    plot_keywords,
)
from crs_lib.core import safety, tables
from crs_lib.core.errors import InputError

_OWN = (*tables.CATALOG.columns, "plot", *(row.column for row in FIELDS.values()))
_BATCH = 10_000  # rows of a Parquet file that are read at a time
_HEAD = 1_000  # rows that tell what the columns hold
_SHOWN = 300  # characters of a record that an error shows
_MOST_KEYWORDS = 5  # of a film
_LEAST_PLOTS = 3  # that a keyword stands in
_LARGEST_SHARE = 0.1  # of the plots
_ENVELOPE = frozenset("head results data meta links errors extensions response status boolean".split())
_ITEMS = ("item", "film", "movie")  # variables of SPARQL that are films
_YEAR_ALONE = re.compile(r"\W*[(\[]\d{4}[)\]]\W*")


@dataclass(frozen=True)
class Layout:
    """What is read from a file: the catalogue's name, the fields, and the columns that the user names."""

    name: str
    rows: Mapping[str, Field]
    columns: Mapping[str, str] = field(default_factory=dict)  # field by column
    declared: Declared | None = None
    encoding: str = ""  # "" is found by the file's first bytes

    def catalog(self, films: Films, *, open_genres: bool = False, near: int = 0, form: str = "") -> Catalog:
        """The catalogue of these films; with ``open_genres`` a genre is what the file names so, and a year
        any date, one of two digits in the century closest to ``near``. ``form`` is the public form's name.
        """
        rows = dict(self.rows)
        if open_genres:
            rows["genre"] = replace(rows["genre"], clean=lexicon.open_genre)
            rows[YEAR_FIELD] = replace(rows[YEAR_FIELD], clean=partial(lexicon.any_year, near=near))
        items, report = clean(_with_keywords(films, rows), rows)
        report.form = form
        if not items:
            why = f": {report.left_out[0].reason}" if report.left_out else ""
            raise InputError(f"{self.name}: {report.films_read} records and no film{why}")
        return Catalog(items, report, self.name, self.rows, self.declared)

    def table_rows(self) -> Iterable[Field]:
        """The fields that a table is read by: those of films beside those that are asked for."""
        return {**ALL_FIELDS, **self.rows}.values()

    def names(self) -> Names:
        """What the columns of a table are called."""
        return Names(self.table_rows(), self.columns)


def read(path: Path, layout: Layout) -> Catalog:
    """The catalogue of a file; InputError naming the file, and where it applies the record and the field."""
    kind = files.ending(path)
    if kind == ".json":
        return read_json(path, layout)
    if kind == ".parquet":
        return _read_parquet(path, layout)
    return _from_rows(files.rows(path, layout.encoding), layout)


def _read_parquet(path: Path, layout: Layout) -> Catalog:
    """The catalogue of a Parquet file: one that this package wrote, with all columns of one, or a table."""
    try:
        with files.seekable(path) as file:
            table = pyarrow.parquet.ParquetFile(file)
            safety.check_table(path.name, table.metadata.num_rows, table.metadata.num_columns)
            names: list[str] = table.schema_arrow.names
            if layout.columns or not set(_OWN) <= set(names):
                return _from_rows(files.Rows(_parquet_rows(table)), layout)
            if tables.CATALOG.check(table.read(list(tables.CATALOG.columns)).to_pandas()).empty:
                raise InputError(f"{path.name} must hold at least one film")
            return _read_own(table, layout)
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name} cannot be read as a catalogue: {error}") from error


def _read_own(table: pyarrow.parquet.ParquetFile, layout: Layout) -> Catalog:
    """A catalogue that was saved; it has plot keywords as a field where it was saved with them."""
    rows = dict(layout.rows)
    plot = ALL_FIELDS[PLOT]
    if plot.column in table.schema_arrow.names:
        rows = {**FIELDS, PLOT: plot, **rows}
    films = ((str(film["title"] or ""), film) for film in _parquet_rows(table))
    return replace(layout, rows=rows).catalog(films, open_genres=True)


def _parquet_rows(table: pyarrow.parquet.ParquetFile) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a few thousand in memory at a time."""
    for batch in table.iter_batches(_BATCH):
        yield from batch.to_pylist()


def _from_rows(read_rows: files.Rows, layout: Layout) -> Catalog:
    """The catalogue of a table; InputError that shows what was read where no film has a title or a value."""
    rows = iter(read_rows.rows)
    head = list(islice(rows, _HEAD))
    objects = [row for row in head if isinstance(row, Mapping)]
    if not objects:
        first = head[0] if head else "nothing"
        shown = first.reason if isinstance(first, LeftOut) else f"{first!r:.120}"
        expected = "must hold a film a row with at least one film, each an object or a line"
        raise InputError(f"{layout.name} {expected}; of the first: {shown}")
    columns = Columns(layout.names(), objects)
    titled = any(columns.film(row)[0] for row in objects)
    if not titled:
        raise _nothing_read(layout, objects[0], len(head), "no column of titles")
    films = map(columns.film, chain(head, rows))
    form = read_rows.form or files.public_form(objects[0])
    catalog = layout.catalog(films, open_genres=True, near=columns.near, form=form)
    catalog.report.short_rows = tuple(read_rows.short)
    if not len(catalog.vocabulary):
        lacks = f"no value of any field ({', '.join(layout.rows)})"
        raise _nothing_read(layout, objects[0], catalog.report.films_read, lacks)
    return catalog


def _nothing_read(layout: Layout, first: object, films: int, lacks: str) -> InputError:
    shown = json.dumps(first, ensure_ascii=False, default=str)[:_SHOWN]
    fields = ", ".join(layout.rows)
    mend = f"Name the columns title, {fields}, or say which is which: {layout.name}+COLUMN=actor"
    return InputError(f"{layout.name}: {films} records and {lacks}; the first record is {shown}. {mend}")


def read_json(path: Path, layout: Layout) -> Catalog:
    """The catalogue of a JSON file: an object by title or by item id, or a list of films."""
    content = files.text(path, layout.encoding)
    try:
        data = safety.loads(content, path.name, pairs=_object)
    except InputError as error:
        if files.is_json_lines(content):
            return _from_rows(files.Rows(files.json_lines(StringIO(content), path.name)), layout)
        raise InputError(f"{error}; expected an object title -> record") from error
    message = service_error(data) if isinstance(data, dict) else ""
    if message:
        raise InputError(
            f"{path.name} holds no film but an error of the service: {message!r}; fetch it again"
        )
    rows = _listed_films(data, layout)
    if rows is not None:
        return _from_rows(files.Rows(rows), layout)
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path.name} must hold an object title -> record with at least one film")
    if _ENVELOPE.issuperset(data):
        keys = ", ".join(map(repr, data))
        expected = "a list of films, or an object title -> record"
        raise InputError(
            f"{path.name} holds an object of {keys} without a list of films; expected {expected}"
        )
    pairs = data.pairs if isinstance(data, _Repeated) else list(data.items())
    for title, record in pairs:
        if isinstance(record, _Repeated):
            raise InputError(f"{path.name}: {title!r} has the field {record.twice!r} twice; give it once")
    if keyed_by_id(data):
        if isinstance(data, _Repeated):
            raise InputError(f"{path.name} has the id {data.twice!r} twice; give every item its own")
        return layout.catalog(_films_by_id(data))
    if _named_as_in_tables(pairs, layout):
        return _from_rows(files.Rows(_as_row(title, film) for title, film in pairs), layout)
    return layout.catalog(map(_titled, pairs))


def _listed_films(data: object, layout: Layout) -> Sequence[object] | None:
    """The films of a list, of an object with one list of objects (``results``), or of columns; else None."""
    if isinstance(data, list):
        return data
    if not isinstance(data, dict) or isinstance(data, _Repeated):
        return None
    if isinstance(data.get("head"), dict) and isinstance(data.get("results"), dict):
        return _bindings(data["results"].get("bindings"))
    if _ENVELOPE.issuperset(data) and isinstance(data.get("data"), dict):
        data = {"data": data["data"]}
    title_keys = [key for key in data if layout.names().key(key) == "title"]
    titles = [data[key] for key in title_keys]
    if any(isinstance(title, str) for title in titles):
        return [data]
    columns = list(data.values())
    is_text = [isinstance(title, list) and isinstance((title or [0])[0], str) for title in titles]
    if any(is_text) and all(isinstance(column, list) for column in columns):
        return [dict(zip(data, cells, strict=True)) for cells in zip(*columns, strict=False)]
    if len(data) == 1 and isinstance(columns[0], dict):
        inner = _listed_films(columns[0], layout)
        if inner and isinstance(inner[0], Mapping) and _has_title(inner[0], layout):
            return inner
    if isinstance(data.get("columns"), list) and isinstance(data.get("data"), list):
        return [dict(zip(data["columns"], cells, strict=False)) for cells in data["data"]]
    lists = [part for part in data.values() if isinstance(part, list) and isinstance((part or [0])[0], dict)]
    if len(lists) == 1:
        return [_node(film) for film in lists[0]]
    names = layout.names()
    cells = [part for part in data.values() if isinstance(part, Mapping)]
    if len(cells) == len(data) > 1 and "title" in map(names.key, data) and all(map(str.isdigit, cells[0])):
        return [{column: data[column].get(number) for column in data} for number in cells[0]]
    return None


def _node(film: object) -> object:
    """A film of a list; in a connection of GraphQL it stands as the ``node`` of an edge."""
    node = film.get("node") if isinstance(film, Mapping) else None
    return node if isinstance(node, Mapping) else film


def _bindings(answers: object) -> Sequence[object] | None:
    """The rows of a SPARQL answer: labels in place of addresses, that of an item as its title."""
    if not isinstance(answers, list):
        return None
    rows = []
    for answer in answers:
        row: dict[str, object] = {}
        for variable, cell in dict(answer).items():
            row[variable] = cell.get("value") if isinstance(cell, Mapping) else cell
        for variable in list(row):
            name = variable.removesuffix("Label")
            if name == variable:
                continue
            label = row.pop(variable)
            address = str(row.pop(name, ""))
            is_item = name in _ITEMS
            row["title" if is_item else name] = label
            if is_item and address:
                row["id"] = address.rpartition("/")[2]
        rows.append(row)
    return rows


def _has_title(film: Mapping[str, Any], layout: Layout) -> bool:
    """Whether a record says a title under "title"; a person of a film has a name alone."""
    names = layout.names()
    return any(names.key(key) == "title" and "title" in key.lower() for key in film)


def _as_row(key: str, film: Mapping[str, Any]) -> dict[str, Any]:
    """A film of an object title → record as a row of a table; its own name goes before the key."""
    where = f"film {key!r:.60}"
    name = one_text(where, "name", film.get("name")) or one_text(where, "title", film.get("title"))
    return {**film, "name": "", "title": name or key}


def _titled(pair: tuple[str, Any]) -> tuple[str, Any]:
    """A film of the OpenDialKG form with its title taken apart, as in a table."""
    key, record = pair
    if not isinstance(record, Mapping):
        return pair
    named = record.get("name") or record.get("title") or key
    if not isinstance(named, str):
        return pair
    title = spelling.parse(named)
    if title.text == " ".join(named.split()):
        return pair
    also = [*title.also, *record.get("also", ())]
    return key, {**record, "name": title.text, YEAR_FIELD: title.year or record.get(YEAR_FIELD), "also": also}


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
    names = layout.names()
    named = {names.key(key) for key in keys} - keys
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


def _films_by_id(data: Mapping[str, Any]) -> Iterator[tuple[str, Record | LeftOut]]:
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
        title = spelling.parse(name)
        if not re.search(r"\w", title.text) or _YEAR_ALONE.fullmatch(name):
            yield str(key), LeftOut(f"its name {name!r} is no title")
            continue
        film: dict[str, object] = {"name": title.text, "item_id": str(key), "also": title.also}
        for field_name, row in FIELDS.items():
            film[field_name] = _listed(record, (field_name, *row.foreign_keys))
        film["plot"] = one_text(where, "plot", record.get("plot"))
        film[YEAR_FIELD] = str(record.get(YEAR_FIELD) or title.year)
        yield title.text, film


def _listed(record: Mapping[str, Any], keys: Iterable[str]) -> object:
    """What the first of these keys that holds something has; None among its values is left out."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, list) and value:
            return [label for label in value if label is not None]
        if value:
            return value
    return []


def _with_keywords(films: Films, rows: Mapping[str, Field]) -> Films:
    """The films, ``(title, record)``, with plot keywords where ``rows`` asks for them and no film has any."""
    if PLOT not in rows:
        return films
    column = ALL_FIELDS[PLOT].column
    films = list(films)
    plots = []
    for _, record in films:
        if isinstance(record, Mapping):
            keywords = record.get(column)
            if isinstance(keywords, str | Sequence) and keywords:
                return films
            plots.append(str(record.get("plot") or ""))
    keywords_of = iter(telling_words(plots))
    completed: list[tuple[str, Record | LeftOut]] = []
    for title, record in films:
        if isinstance(record, Mapping):
            record = {**record, column: next(keywords_of)}
        completed.append((title, record))
    return completed


def telling_words(plots: Sequence[str]) -> list[list[str]]:
    """For each plot its words of the highest TF-IDF, best first, at most five; names are left out.

    A word counts that stands in three plots or more, in a tenth of them at most (in two where there are few),
    and somewhere in small letters. Empty for a plot without such a word.
    Source: Spärck Jones (1972), Journal of Documentation 28, over the catalogue's own plots.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = lower_case_words(plots)
    words_of = []
    plots_with: Counter[str] = Counter()
    for plot in plots:
        words = [word for word in plot_keywords(plot) if word in small]
        words_of.append(words)
        plots_with.update(words)
    least = min(_LEAST_PLOTS, 1 + len(plots) // 10)
    most = max(_LEAST_PLOTS, int(_LARGEST_SHARE * len(plots)))
    vocabulary = sorted(word for word, films in plots_with.items() if least <= films <= most)
    if not vocabulary:
        return [[] for _ in plots]
    best = []
    for weights in TfidfVectorizer(analyzer=list, vocabulary=vocabulary).fit_transform(words_of):
        falling = (-weights.data).tolist()
        ranked = sorted(zip(falling, weights.indices.tolist(), strict=True))
        best.append([vocabulary[word] for _, word in ranked[:_MOST_KEYWORDS]])
    return best
