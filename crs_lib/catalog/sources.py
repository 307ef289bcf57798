"""Sources of catalogues: a text such as ``films.csv+plot+cast=actor`` is parsed once, into an object."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crs_lib import data as datasets
from crs_lib.catalog import files, readers
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.declared import Declared
from crs_lib.catalog.fields import ALL_FIELDS, FIELDS, Field
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.phrases import noun_phrase
from crs_lib.core import paths, prompts, rng, safety
from crs_lib.core.errors import InputError

SAMPLE = "sample"
THESIS = "thesis"
THESIS_OR_SAMPLE = "thesis-or-sample"
PLUS = "+"  # between a catalogue and what is asked for with it: sample+plot
_OPTIONAL = ALL_FIELDS.keys() - FIELDS.keys()
_TRIED = 20  # values of a declared field that are voiced and read back before a run
_YAML = ".yaml"  # of a file that declares fields, beside the catalogue or behind it: items.csv+books.yaml


@dataclass(frozen=True)
class Source:
    """Where a catalogue is read from, and what of it is asked for.

    Attributes
    ----------
    base : str
        ``sample``, ``thesis``, ``thesis-or-sample``, or a file.
    optional : tuple of str
        Fields that a catalogue has only where it is asked for them: ``plot``.
    columns : mapping of str to str
        The field that a column is, as the user says it (``+cast=actor``).
    declaration : str
        The YAML file that declares fields which films lack; "" for the one beside the catalogue.
    encoding : str
        Of a text file (``+encoding=latin-1``); "" for the one that its byte-order mark says, else UTF-8.
    """

    base: str
    optional: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    declaration: str = ""
    encoding: str = ""

    @classmethod
    def parse(cls, text: str | Path) -> "Source":
        """A source from its text; where a part behind a plus is none of these, the text names a file.

        Examples
        --------
        >>> Source.parse("films.csv+plot+cast=actor").columns
        {'cast': 'actor'}
        >>> Source.parse("a+b.json").base
        'a+b.json'
        """
        base, *parts = str(text).split(PLUS)
        optional = []
        columns = {}
        declaration = ""
        encoding = ""
        for part in parts:
            column, mark, field_name = part.partition("=")
            if mark and column == "encoding":
                encoding = field_name
            elif mark:
                columns[column] = field_name
            elif part.endswith(_YAML):
                declaration = declaration or part
            elif part in _OPTIONAL:
                optional.append(part)
            else:
                return cls(str(text))
        return cls(base, tuple(optional), columns, declaration, encoding)

    def file(self) -> Path | None:
        """The file that is read, None for our sample; InputError for the thesis's where it is not here."""
        if self.base == SAMPLE:
            return None
        if self.base not in (THESIS, THESIS_OR_SAMPLE):
            return _path(self.base)
        thesis = datasets.get("opendialkg-movies")
        path = thesis.in_mirror() or thesis.downloaded()
        if path is None and self.base == THESIS:
            again = f"python -m crs_lib data get opendialkg-movies, or give {THESIS_OR_SAMPLE!r}"
            raise InputError(f"the thesis's catalogue is not here; get it with: {again}")
        return path

    def rows(self) -> dict[str, Field]:
        """The fields of films that are asked for."""
        return {name: row for name, row in ALL_FIELDS.items() if name in FIELDS or name in self.optional}

    def load(self, spoken: bool = False) -> Catalog:
        """The catalogue; see :func:`load`."""
        path = self.file()
        rows = self.rows()
        if path is None:
            return readers.read_json(paths.samples() / "movies.json", readers.Layout(SAMPLE, rows))
        if not path.is_file():
            forms = "a .json file in the OpenDialKG form (title -> record), or a film a row as"
            formats = f"{', '.join(files.ENDINGS)}; +plot behind it adds plot keywords"
            raise InputError(f"no catalogue at {self.base!r}; give 'sample', {forms} {formats}")
        declared = self._declared(path)
        if declared:
            rows.update(declared.rows())
        layout = readers.Layout(path.name, rows, self.columns, declared, self.encoding)
        catalog = readers.read(path, layout)
        if spoken:
            check_phrases(self, catalog)
        return catalog

    def _declared(self, catalog: Path) -> Declared | None:
        """The fields that a YAML file declares; None for one that only lies beside the catalogue."""
        beside = catalog.with_suffix(_YAML)
        path = _path(self.declaration) if self.declaration else beside
        if not path.is_file() and path.stem == catalog.stem:
            return None
        options = safety.read_yaml(path)
        if isinstance(options, dict) and "fields" in options:
            return _checked(path, options)
        if path == beside:
            return None
        raise InputError(f"{path.name} declares no fields; give 'fields', each with its kind and phrases")

    def raw(self) -> bytes:
        """The bytes of a catalogue in the OpenDialKG form; empty for the sample and for any other form."""
        path = self.file()
        if path is None or path.suffix != ".json" or not path.is_file():
            return b""
        content = path.read_bytes()
        data = safety.loads(content, path.name)
        if not isinstance(data, dict) or readers.keyed_by_id(data):
            return b""
        return content


def _checked(path: Path, options: Mapping[str, Any]) -> Declared:
    """The fields that a file declares; InputError names the file, and the line of the field."""
    declared = None
    try:
        declared = Declared(**options)
        declared.rows()
    except InputError as error:
        where = paths.shown(path)
        for name in options["fields"] or ():
            part = {**options, "fields": {name: options["fields"][name]}}
            if not _is_sound(part):
                where = _place(path, name)
        raise InputError(f"{where}: {error}") from error
    return declared


def _place(path: Path, name: str, text: str = "") -> str:
    """File and line of a field, or of a text behind its name, as messages say it."""
    number = 0
    for line_number, line in enumerate(safety.read_text(path).splitlines(), start=1):
        if line.strip().startswith(f"{name}:"):
            number = line_number
        if number and text and text in line:
            number = line_number
            break
    line_of = f", line {number} (field {name!r})" if number else ""
    return f"{paths.shown(path)}{line_of}"


def _is_sound(options: Mapping[str, Any]) -> bool:
    try:
        Declared(**options).rows()
    except InputError:
        return False
    return True


def _path(text: str) -> Path:
    path = paths.given(text)
    return path if path.is_absolute() or path.exists() else paths.home() / path


@safety.reader("a catalogue")
def load(source: str | Path = SAMPLE, *, spoken: bool = False) -> Catalog:
    """Load a catalogue: ``sample`` (ours), ``thesis`` (where it is here), or a file.

    A JSON object maps titles to records (the OpenDialKG form; a title may come twice, for two films) or item
    ids to records (that of iEvaLM). CSV, TSV, JSON lines, a JSON list, Parquet and Excel hold a film a row;
    columns are known by name (Title, Genres, Cast, Release Year …), public forms as they are (docs/data.md).

    Parameters
    ----------
    source : str or Path
        ``+cast=actor`` behind a file says which field another column is, ``+encoding=latin-1`` how its text
        is encoded; a YAML file behind it declares
        fields that films lack (``items.csv+books.yaml``; one of the catalogue's own name beside it needs no
        mention: docs/data.md); ``+plot`` asks for the films' ``plot_keywords``, or where no film has any, for
        words of their plots.
    spoken : bool
        Whether users will speak of the films, so that every declared phrase must be read back
        (:func:`check_phrases`).

    Raises
    ------
    InputError
        Naming the file, and where it applies the record and the field.

    Examples
    --------
    >>> load("sample+plot").support("plot", "prison") > 3
    True
    """
    return Source.parse(source).load(spoken)


@safety.reader("a catalogue")
def raw(source: str | Path) -> bytes:
    """The bytes of a catalogue in the OpenDialKG form; empty for the sample and for any other form."""
    return Source.parse(source).raw()


def with_fields(source: str | Path, declared: str | Path = "") -> str:
    """A source with the YAML file that declares its fields, if there is one."""
    return f"{source}{PLUS}{declared}" if declared else str(source)


def parted(source: str | Path) -> tuple[str, dict[str, Field]]:
    """A source without what is asked for with it, and the fields of films that it asks for."""
    parsed = Source.parse(source)
    return parsed.base, parsed.rows()


def check_phrases(source: Source, catalog: Catalog) -> None:
    """Voice up to twenty values of every declared field in each of its phrases, and read them back.

    InputError for a phrase whose value is not read: the file, the line, what was said, and the reason.
    """
    if catalog.declared is None:
        return
    path = Path(source.declaration or Path(source.base).with_suffix(_YAML))
    grounder = Grounder(catalog)
    draw = rng.stream(0, "catalog", "phrases")
    for name, row in catalog.declared.rows().items():
        values = list(catalog.values(name))
        for phrase in row.phrases:
            rows = {name: replace(row, phrases=(phrase,))}
            where = _place(_path(str(path)), name, phrase)
            for value in values[:: 1 + len(values) // _TRIED]:
                try:
                    with prompts.worded(catalog.words):
                        text = f"I want {noun_phrase({name: value}, draw, rows=rows)}"
                except InputError as error:
                    raise InputError(f"{where}: {error}") from error
                reason = _unread(grounder, text, name, value)
                if reason:
                    fault = f"{text!r} is not read as {name} {value!r}: {reason}"
                    raise InputError(f"{where}: {fault}; reword {phrase!r}, or drop the value from the items")


def _unread(grounder: Grounder, text: str, name: str, value: str) -> str:
    """Why a text does not name a value; empty where it does."""
    reason = "the words are those of no value"
    code = grounder.catalog.code(name, value)
    for match in grounder.audit(text):
        if match.code == code and not match.rejected:
            return ""
        if match.code == code:
            reason = match.rejected
        elif reason.startswith("the words"):
            reason = f"it names {match.field} {match.value!r}"
    return reason


def content_hash(catalog: Catalog) -> str:
    """Hex digest of what a catalogue holds: equal for equal films, wherever they were read from."""
    declared = json.dumps(catalog.declared.values(), sort_keys=True) if catalog.declared else ""
    digest = hashlib.sha256(declared.encode())
    for item in range(len(catalog)):
        record = json.dumps(catalog.record(item), ensure_ascii=False, sort_keys=True)
        digest.update(record.encode())
    return digest.hexdigest()
