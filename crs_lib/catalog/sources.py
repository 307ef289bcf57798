"""Sources of catalogues: our sample, JSON in the OpenDialKG form or keyed by id, and a film a row."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet

from crs_lib import data as datasets
from crs_lib.catalog import fields, lexicon
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import one_text
from crs_lib.catalog.fields import ALL_FIELDS, FIELDS, OPTIONAL_FIELDS, PLOT, YEAR_FIELD, Field
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

SAMPLE = "sample"
THESIS, THESIS_OR_SAMPLE = "thesis", "thesis-or-sample"
PLUS = "+"  # between a catalogue and the optional fields that are asked for: sample+plot
_Fields = Mapping[str, Field]
_Names = Mapping[str, str]  # of fields, by the names of columns
_YAML = ".yaml"  # of a file that declares fields, beside the catalogue or behind it: items.csv+books.yaml


@safety.reader("a catalogue")
def load(source: str | Path = SAMPLE) -> Catalog:
    """Load a catalogue: ``sample`` (ours), ``thesis`` (where it is here), or a file.

    A JSON object maps titles to records (the OpenDialKG form; a title may come twice, for two films) or item
    ids to records (that of iEvaLM). CSV, TSV, JSON lines, a JSON list and Parquet hold a film a row; columns
    are known by name (Title, Genres, Cast, Release Year …), and ``+cast=actor`` behind the file says which
    field another column is. A YAML file declares fields that films lack (``items.csv+books.yaml``; one of
    the catalogue's own name beside it needs no mention): docs/data.md. ``+plot`` asks for the optional
    field of that name: the films' ``plot_keywords``, or where no film has any, words of their plots. Raises
    InputError naming the file, and where it applies the record and the field.
    """
    bare, rows = parted(source)
    asked = str(source)[len(bare) :].split(PLUS)
    columns = dict(one.split("=", 1) for one in asked if "=" in one)
    source = _resolved(bare)
    if str(source) == SAMPLE:
        return _from_json(paths.samples() / "movies.json", SAMPLE, rows)
    path = _path(source)
    if not path.is_file():
        forms = "a .json file in the OpenDialKG form (title -> record), or a film a row as .csv, .tsv, .jsonl"
        told = f"no catalogue at {str(source)!r}; give 'sample', {forms}"
        raise InputError(f"{told}, .json or .parquet; +plot behind it adds plot keywords")
    given = next((_path(one) for one in asked if one.endswith(_YAML)), path.with_suffix(_YAML))
    declared = _declared(given, path) if given.is_file() or given.stem != path.stem else None
    if declared:
        rows = {**rows, **{name: ALL_FIELDS[name] for name in declared.fields}}
    made = _read(path, rows, columns)
    made.declared = declared
    return made


def _read(path: Path, rows: Mapping[str, Field], columns: Mapping[str, str]) -> Catalog:
    if path.suffix == ".parquet" and not columns:
        try:
            names, own = pyarrow.parquet.read_schema(path).names, list(tables.CATALOG.columns)
            ours = set(own) <= set(names)  # the columns that this package writes
            empty = ours and tables.CATALOG.check(pd.read_parquet(path, columns=own)).empty
        except (OSError, ValueError) as error:
            raise InputError(f"{path.name} cannot be read as a catalogue: {error}") from error
        if empty:
            raise InputError(f"{path.name} must hold at least one film")
        if ours:
            held = {name for name, row in OPTIONAL_FIELDS.items() if row.column in names}
            rows = {name: row for name, row in ALL_FIELDS.items() if name in rows or name in held}
            films = ((str(film["title"] or ""), film) for film in _parquet_rows(path))
            return Catalog.from_records(_with_keywords(films, rows), path.name, _open(rows))
    if path.suffix.lower() in _TABLES:
        return _from_table(path.name, _table(path), rows, columns)
    return _from_json(path, path.name, rows, columns)


def _declared(path: Path, catalog: Path) -> fields.Declared | None:
    """The fields that a YAML file declares; None for one that only lies beside the catalogue."""
    given = safety.read_yaml(path)
    if isinstance(given, dict) and "fields" in given:
        return fields.declare(given)
    if path == catalog.with_suffix(_YAML):
        return None
    raise InputError(f"{path.name} declares no fields; give 'fields', each with its kind and phrases")


def with_fields(source: str | Path, declared: str | Path = "") -> str:
    """A source with the YAML file that declares its fields, if there is one."""
    return f"{source}{PLUS}{declared}" if declared else str(source)


def parted(source: str | Path) -> tuple[str, dict[str, Field]]:
    """A source without its optional fields, and all fields that it asks for; ``a+b.json`` is a file."""
    bare, *asked = str(source).split(PLUS)
    known = {*OPTIONAL_FIELDS, *(one for one in asked if one.partition("=")[1] or one.endswith(_YAML))}
    if not asked or not set(asked) <= known:
        return str(source), FIELDS
    return bare, {name: row for name, row in ALL_FIELDS.items() if name in FIELDS or name in asked}


def _resolved(source: str | Path) -> str | Path:
    """The file that a named catalogue stands for: that of ``thesis`` and of ``thesis-or-sample``. The second
    is the sample where the thesis's catalogue is not here; the first raises InputError then. Any other source
    is returned as given.
    """
    if str(source) not in (THESIS, THESIS_OR_SAMPLE):
        return source
    found = datasets.get("opendialkg-movies")
    if place := found.in_mirror() or found.downloaded():
        return place
    if str(source) == THESIS_OR_SAMPLE:
        return SAMPLE
    again = f"python -m crs_lib data get opendialkg-movies, or give {THESIS_OR_SAMPLE!r}"
    raise InputError(f"the thesis's catalogue is not here; get it with: {again}")


@safety.reader("a catalogue")
def raw(source: str | Path) -> bytes:
    """The bytes of a catalogue in the OpenDialKG form; empty for the sample and for any other form."""
    source = _resolved(parted(source)[0])
    path = _path(source)
    if str(source) == SAMPLE or path.suffix != ".json" or not path.is_file():
        return b""
    content = path.read_bytes()
    data = safety.loads(content, path.name)
    return b"" if not isinstance(data, dict) or _keyed_by_id(data) else content


def _path(source: str | Path) -> Path:
    path = paths.given(source)
    return path if path.is_absolute() or path.exists() else paths.home() / path


def _from_json(path: Path, name: str, rows: _Fields, columns: _Names | None = None) -> Catalog:
    try:
        data = safety.loads(safety.read_text(path), path.name, pairs=_object)
    except InputError as error:
        raise InputError(f"{error}; expected an object title -> record") from error
    if isinstance(data, list):
        return _from_table(name, data, rows, columns or {})
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path.name} must hold an object title -> record with at least one film")
    pairs = data.pairs if isinstance(data, _Repeated) else list(data.items())
    for title, record in pairs:
        if isinstance(record, _Repeated):
            raise InputError(f"{path.name}: {title!r} has the field {record.twice!r} twice; give it once")
    if not _keyed_by_id(data):
        if _named_as_in_tables([record for _, record in pairs], rows, columns or {}):
            return _from_table(name, ({"title": title} | film for title, film in pairs), rows, columns or {})
        return Catalog.from_records(_with_keywords(pairs, rows), name, rows)
    if isinstance(data, _Repeated):
        raise InputError(f"{path.name} has the id {data.twice!r} twice; give every item its own")
    return Catalog.from_records(_with_keywords(list(records(data)), rows), name, rows)


class _Repeated(dict[str, Any]):
    """A JSON object with a key that comes twice: ``pairs`` has all of them, the mapping the last."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        self.twice = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Repeated(pairs)


_COLUMNS: dict[str, tuple[str, ...]] = {
    "title": ("name", "movie", "film", "movie title", "original title", "primary title"),
    "plot": ("overview", "description", "synopsis", "summary", "storyline"),
    "item_id": ("id", "movie id", "film id", "imdb id", "tconst", "original_id"),
    YEAR_FIELD: ("release year", "released", "release date", "start year"),
    **{row.column: row.foreign_keys for row in ALL_FIELDS.values() if row.name != YEAR_FIELD},
}
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_PARTS = ("|", ";", ",")  # the first of these that a text holds parts its values
_ROWS = 10_000  # of a Parquet file that are read at a time
_SHOWN = 300  # characters of a record that an error shows


def _table(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a table, or JSON lines, one by one."""
    kind = path.suffix.lower()
    if kind == ".jsonl":
        return tables.read_jsonl(path)
    if kind == ".parquet":
        return _parquet_rows(path)
    with path.open("rb") as file:
        head = file.readline(10_000).decode(errors="replace")
    mark = max("\t" if kind == ".tsv" else ",;\t", key=head.count)
    try:
        frame = pd.read_csv(path, sep=mark, dtype=str, keep_default_na=False)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not in UTF-8 ({error}); save it as CSV UTF-8") from error
    names = list(map(str, frame.columns))
    return (dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None))


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a few thousand in memory at a time."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            yield from batch.to_pylist()


def _from_table(name: str, found: Iterable[Any], rows: _Fields, columns: _Names) -> Catalog:
    """The catalogue of a table; InputError that shows what was read where no film has a title or a value."""
    known = _known(rows, columns)
    several = {row.column for row in ALL_FIELDS.values() if row.many}
    first, records = next(rest := iter(found), None), list[tuple[str, dict[str, Any]]]()
    films = (_named(_mapping(row, name), known, several) for row in chain([first], rest))
    for film in films:  # as far as the first that has a title; the others are read one by one
        records.append(film)
        if film[0]:
            break
    titled = bool(records[-1][0])
    every = _with_keywords(chain(records, films), rows)
    made = Catalog.from_records(every, name, _open(rows)) if titled else None
    if made is None or not len(made.vocabulary):
        shown = json.dumps(first, ensure_ascii=False, default=str)[:_SHOWN]
        lacks = f"no value of any field ({', '.join(rows)})" if titled else "no column of titles"
        mend = f"Name the columns title, {', '.join(rows)}, or say which is which: {name}+COLUMN=actor"
        read = made.report.films_read if made else len(records)
        raise InputError(f"{name}: {read} records and {lacks}; the first record is {shown}. {mend}")
    return made


def _known(rows: Mapping[str, Field], columns: Mapping[str, str]) -> dict[str, str]:
    """The fields by the names of columns, folded; ``columns`` are those that the user names."""
    own = {row.column: row.foreign_keys for row in rows.values() if row.column not in _COLUMNS}
    known = {fold(word): field for field, words in (_COLUMNS | own).items() for word in (field, *words)}
    plural = {f"{word}s": field for word, field in known.items()}
    return plural | known | {fold(column): field for column, field in columns.items()}


def _named_as_in_tables(films: Sequence[Any], rows: Mapping[str, Field], columns: Mapping[str, str]) -> bool:
    """Whether films name a field only as tables do ("Genres"), which the thesis's form does not know."""
    if not all(isinstance(film, Mapping) for film in films):
        return False
    keys, known = {key for film in films for key in film}, _known(rows, columns)
    told = {known.get(fold(key)) for key in keys}
    return any(row.column in told and row.column not in keys for row in rows.values())


def _mapping(row: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise InputError(f"{name} must hold a film a row with at least one film, each an object or a line")
    return row


def _named(row: Mapping[str, Any], known: _Names, several: Container[str]) -> tuple[str, dict[str, Any]]:
    """A row as ``(title, record)`` under the names of the fields; columns of no field keep their own."""
    record: dict[str, Any] = {}
    for column, value in row.items():
        field = known.get(fold(column), column)
        if field in several and isinstance(value, str):
            mark = next((mark for mark in _PARTS if mark in value), "\n")
            value = [part.strip() for part in value.split(mark) if part.strip()]
        if field == YEAR_FIELD:
            value = next(iter(re.findall(r"\b\d{4}\b", str(value))), "")
        if value is not None and field != "recommendable":
            record.setdefault(field, value)
    return str(record.get("title") or ""), record


def _open(rows: Mapping[str, Field]) -> dict[str, Field]:
    """The fields with genres as they are named, known or not."""
    return {**rows, "genre": replace(rows["genre"], clean=lexicon.open_genre)}


def content_hash(catalog: Catalog) -> str:
    """Hex digest of what a catalogue holds: equal for equal films, wherever they were read from."""
    declared = json.dumps(catalog.declared.values(), sort_keys=True) if catalog.declared else ""
    digest = hashlib.sha256(declared.encode())
    for i in range(len(catalog)):
        digest.update(json.dumps(catalog.record(i), ensure_ascii=False, sort_keys=True).encode())
    return digest.hexdigest()


_YEAR = re.compile(r"\s*\((\d{4})\)\s*$")


def _keyed_by_id(data: Mapping[str, Any]) -> bool:
    """Whether a parsed catalogue is keyed by item id: records with a ``star``, or numbers as keys."""
    records = [record for record in data.values() if isinstance(record, Mapping)]
    if any("star" in record for record in records):
        return True
    numbered = bool(data) and all(str(key).isdigit() for key in data)
    return numbered and len(records) == len(data) and all("name" in record for record in records)


def records(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each film as ``(title, record)`` of the OpenDialKG form; the key becomes the item id. A year in
    brackets at the end of the name is the film's year. A name without any letter or digit but that year names
    no film and is left out.
    """
    for key, record in data.items():
        if not isinstance(record, Mapping):
            yield str(key), record  # the cleaning says what is wrong with it
            continue
        where = f"item {key!r:.60}"
        name = one_text(where, "name", record.get("name")) or one_text(where, "title", record.get("title"))
        title, year = _YEAR.sub("", name), _YEAR.search(name)
        if not re.search(r"\w", title):
            continue
        found = {name: _listed(record, (name, *row.foreign_keys)) for name, row in FIELDS.items()}
        given = str(record.get(YEAR_FIELD) or (year[1] if year else ""))
        plot = one_text(where, "plot", record.get("plot"))
        yield title, found | {"name": title, YEAR_FIELD: given, "plot": plot, "item_id": str(key)}


def _listed(record: Mapping[str, Any], names: tuple[str, ...]) -> object:
    """The first of these keys that holds something; None among its values is left out."""
    value: Any = next((record[name] for name in names if record.get(name)), [])
    return [one for one in value if one is not None] if isinstance(value, list) else value


_MOST = 5  # plot keywords of a film
_LEAST, _SHARE = 3, 0.1  # a keyword stands in so many plots at least, and in this share at most

Films = Iterable[tuple[str, Mapping[str, Any]]]


def _with_keywords(films: Films, rows: Mapping[str, Field]) -> Films:
    """The films, ``(title, record)``, with plot keywords where ``rows`` asks for them and no film has any."""
    if PLOT not in rows:
        return films
    key, films = OPTIONAL_FIELDS[PLOT].column, list(films)
    records = [record for _, record in films if isinstance(record, Mapping)]
    if any(_has_values(record.get(key)) for record in records):
        return films
    found = iter(_extracted([str(record.get("plot") or "") for record in records]))
    return [(title, {**one, key: next(found)} if isinstance(one, Mapping) else one) for title, one in films]


def _has_values(value: object) -> bool:
    return value is not None and not isinstance(value, float) and bool(len(value))  # type: ignore[arg-type]


def _extracted(plots: Sequence[str]) -> list[list[str]]:
    """For each plot its words of the highest TF-IDF, best first, at most five; names are left out. Source:
    Spärck Jones (1972), Journal of Documentation 28, over the catalogue's own plots. A word counts that
    stands in three plots or more, in a tenth of them at most (in two where there are few), and somewhere in
    small letters. Empty for a plot without such a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = fields.lower_case_words(plots)
    most = max(_LEAST, int(_SHARE * len(plots)))
    words = [[word for word in fields.plot_keywords(plot) if word in small] for plot in plots]
    counts = Counter(word for found in words for word in found)
    kept = sorted(word for word, n in counts.items() if min(_LEAST, 1 + len(plots) // 10) <= n <= most)
    if not kept:
        return [[] for _ in plots]
    best = []
    for part in TfidfVectorizer(analyzer=list, vocabulary=kept).fit_transform(words):
        pairs = zip((-part.data).tolist(), part.indices.tolist(), strict=True)
        best.append([kept[place] for _, place in sorted(pairs)[:_MOST]])
    return best
