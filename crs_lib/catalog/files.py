"""Files of catalogues as rows: endings and packing, encodings, separators, public forms without a head."""

import codecs
import csv
import gzip
import io
import itertools
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import pyarrow as pa

from crs_lib.catalog import lexicon
from crs_lib.catalog.cells import compact
from crs_lib.catalog.cleaning import LeftOut
from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import one_line

ENDINGS = (".csv", ".tsv", ".dat", ".item", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
PACKINGS = (".gz", ".zst", ".zip")
_SEPARATORS = ",;\t|^"  # the one that the head has most often
_BOMS = {  # the longest first: that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_MARKED = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_BEFORE_HEAD = 20  # lines or rows among which the head is looked for
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?')  # Excel's
_WINDOWS = re.compile(r"[\x80-\x9f]")  # marks in Windows-1252, control characters in Latin-1
_LARGE = 2**26  # bytes that an Excel file may unpack to in any case
_HEAD = 65_536  # characters or bytes that tell the form
_FEW_ZEROS = 10  # a text in UTF-16 has more zero bytes than one of ten
_FLAGS_FROM = 5  # column of u.item


class Rows(NamedTuple):
    """The rows of a file, each an object by column or :class:`LeftOut`, and the public form, if known. While
    they are read, the numbers of those with fewer cells than columns are added to ``short``.
    """

    rows: Iterable[object]
    form: str = ""
    short: Sequence[int] = ()


def ending(path: Path) -> str:
    """The ending that says how a file is read, without its packing; InputError with the list for others."""
    name = path.name.lower()
    suffix = Path(name).suffix
    if suffix in PACKINGS:
        suffix = Path(name.removesuffix(suffix)).suffix
        if not suffix and name.endswith(".zip"):
            suffix = Path(_member(path)).suffix.lower()
    if suffix in ENDINGS:
        return suffix
    kinds = f"{', '.join(ENDINGS)}, each also {', '.join(PACKINGS)}"
    raise InputError(f"{path.name}: the ending {suffix or 'of no kind'} is no catalogue's; read are {kinds}")


def _member(path: Path) -> str:
    """The one file of a zip archive that can be a catalogue; InputError for none or several."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if Path(name).suffix.lower() in ENDINGS]
    names = [name for name in names if not name.startswith("__MACOSX")]
    films = [
        name for name in names if Path(name).stem.lower() in ("movies", "films", "u", "items", "catalog")
    ]
    if len(films) == 1:
        return films[0]
    if len(names) != 1:
        listed = f"holds {', '.join(names[:10])}" if names else f"holds none of {', '.join(ENDINGS)}"
        raise InputError(f"{path.name} {listed}; unpack it and name the file of films")
    return names[0]


def opened(path: Path) -> IO[bytes]:
    """A file's bytes, unpacked where its name says that it is packed."""
    packing = path.suffix.lower()
    if packing not in PACKINGS:
        return path.open("rb")
    stream: Any
    if packing == ".gz":
        stream = gzip.open(path, "rb")  # noqa: SIM115  # the caller closes it
    elif packing == ".zst":
        stream = io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    else:
        stream = zipfile.ZipFile(path).open(_member(path))  # noqa: SIM115
    return safety.unpacked(cast(IO[bytes], stream), path)


def seekable(path: Path) -> IO[bytes]:
    """As :func:`opened`, for readers that jump about: what is packed is read whole."""
    if path.suffix.lower() not in PACKINGS:
        return path.open("rb")
    with opened(path) as file:
        return io.BytesIO(file.read())


def _encoding(path: Path, named: str, otherwise: str = "utf-8") -> str:
    """The encoding of a file: as named, else by its byte-order mark, else ``otherwise``."""
    if named:
        try:
            return codecs.lookup(named).name
        except LookupError as error:
            raise InputError(
                f"{path.name}: no encoding {named!r}; give utf-8, latin-1, cp1252, utf-16 …"
            ) from error
    with opened(path) as file:
        head = file.read(_HEAD)
    for mark, encoding in _BOMS.items():
        if head.startswith(mark):
            return encoding
    if 0 < head.count(0) * _FEW_ZEROS < len(head):
        line = head[: head.index(0)].count(b"\n") + 1
        raise InputError(f"{path.name}, line {line}: a zero byte, which no text has; delete it")
    if b"\0" in head:
        raise InputError(
            f"{path.name}: it has zero bytes, as UTF-16 without a mark; say {path.name}+encoding=utf-16-le"
        )
    return otherwise


def text(path: Path, encoding: str = "") -> str:
    """The whole text of a file; InputError where it cannot be read or is too large."""
    if path.suffix.lower() not in PACKINGS and not encoding:
        with path.open("rb") as file:
            if not file.read(4).startswith(_MARKED):
                return safety.read_text(path)
    with _lines(path, _encoding(path, encoding)) as file:
        content = file.read()
    safety.check_limit("json_bytes", len(content), f"{path.name}: it has")
    return safety.valid(content)


def _lines(path: Path, encoding: str) -> IO[str]:
    return io.TextIOWrapper(opened(path), encoding=encoding, newline="")


def rows(path: Path, encoding: str = "") -> Rows:
    """The rows of a table that is no Parquet file, one by one."""
    kind = ending(path)
    if kind == ".xlsx":
        return Rows(_excel(path))
    if kind in (".jsonl", ".ndjson"):
        file = _lines(path, _encoding(path, encoding))
        return Rows(_decoded(json_lines(file, path.name), path, encoding))
    return _text_rows(path, kind, encoding)


def json_lines(file: IO[str], name: str) -> Iterator[object]:
    """The objects of JSON lines; InputError names a line that is broken."""
    for number, line in safety.lines(file, name):
        yield safety.loads(line, f"{name}, line {number}")


def is_json_lines(content: str) -> bool:
    """Whether a text that is no JSON begins with a line that is an object."""
    first, _, others = content.lstrip().partition("\n")
    return bool(others.strip()) and first.startswith("{") and first.rstrip().endswith("}")


def _excel(path: Path) -> Iterator[object]:
    """The rows below the row of names, by these names, of the first sheet that names a column of titles; of
    the first sheet where none does. A sheet without a cell has no rows.
    """
    try:
        import openpyxl  # type: ignore[import-untyped]
    except ImportError as error:
        raise InputError(
            f"{path.name}: Excel files need openpyxl: pip install 'crs-lib[data]', or save it as CSV"
        ) from error
    with seekable(path) as file:
        _check_unpacked(file, path)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet = next(filter(_has_head, book.worksheets), book.worksheets[0])
        rows = sheet.iter_rows(values_only=True)
        first = list(itertools.islice(rows, _BEFORE_HEAD))
        head = _head_at(first)
        if head < len(first):
            names = _distinct(["" if cell is None else str(cell) for cell in first[head]])
            safety.check_table(path.name, 0, len(names))
            for row in itertools.chain(first[head + 1 :], rows):
                if any(cell is not None for cell in row):
                    yield dict(zip(names, row, strict=False))


def _check_unpacked(file: IO[bytes], path: Path) -> None:
    """Raise InputError for an Excel file whose parts unpack beyond the limit ``unpacked_ratio``."""
    with zipfile.ZipFile(file) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > _LARGE:
        ratio = size // path.stat().st_size
        safety.check_limit("unpacked_ratio", ratio, f"{path.name}: it unpacks to more than its size, by")


def _has_head(sheet: Any) -> bool:
    """Whether the first rows of a sheet name a column of titles."""
    rows = sheet.iter_rows(max_row=_BEFORE_HEAD, values_only=True)
    return any(map(_known_names, rows))


def _head_at(rows: Sequence[Sequence[object]]) -> int:
    """The place of the row of names: that with most known names, a title's among them, else the first with a
    cell.
    """
    best = max(rows, key=_known_names, default=())
    if _known_names(best):
        return rows.index(best)
    for number, row in enumerate(rows):
        if any(row):
            return number
    return len(rows)


def _known_names(cells: Sequence[object]) -> int:
    """How many names of columns a row has; 0 where it has no title's, or nothing beside it."""
    names = {compact(cell) for cell in cells if isinstance(cell, str)}
    columns = lexicon.columns()
    if len(names) < 2 or names.isdisjoint(map(compact, columns["title"])):
        return 0
    return sum(not names.isdisjoint(map(compact, spellings)) for spellings in columns.values())


def _distinct(names: Sequence[str]) -> list[str]:
    """The names of columns, a repeated one with its number behind it."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return distinct


class _Form(NamedTuple):
    """How a text file is read: the form's name, its columns ((): the first row has them), separator."""

    name: str
    columns: Sequence[str]
    separator: str
    quoted: bool  # whether cells may stand in quotation marks
    encoding: str = "utf-8"  # where no mark says another
    skip: int = 0  # lines before the head

    @property
    def quoting(self) -> Literal[0, 3]:
        """How Python's csv module calls it."""
        return csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE


def _form(head: str, kind: str) -> _Form:
    """The form of a text file by its first lines."""
    lines = [line for line in head.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if "::" in first and kind == ".dat":
        return _Form("MovieLens (.dat)", lexicon.headless("movielens"), "::", False, "latin-1")
    cells = first.split("|")
    if len(cells) > _FLAGS_FROM and cells[0].isdigit() and cells[-1].strip() in ("0", "1"):
        columns = lexicon.headless("movielens_100k")
        return _Form("MovieLens 100K (u.item)", columns, "|", False, "latin-1")
    if first.split("\t")[1:2] and first.split("\t")[1].startswith("/m/"):
        return _Form("CMU Movie Summary Corpus", lexicon.headless("cmu"), "\t", False)
    every = head.splitlines()
    excel = _SEPARATOR_LINE.fullmatch(first)
    if excel:
        return _Form("", (), excel[1], True, skip=every.index(first) + 1)
    parted = [line.split(_separator(line, kind)) for line in every[:_BEFORE_HEAD]]
    skip = _head_at(parted)
    skip = skip if parted and _known_names(parted[skip]) else 0
    separator = _separator(every[skip] if skip else first, kind)
    names = first.split(separator)
    if first.startswith("Letterboxd list export"):
        return _Form("Letterboxd list", (), separator, True, skip=skip)
    if all(":" in name for name in names):
        return _Form("RecBole (.item)", (), separator, False)
    is_imdb = "tconst" in names or "titleId" in names
    other = "latin-1" if kind == ".dat" else "utf-8"
    return _Form("", (), separator, not is_imdb and kind != ".dat", other, skip)


def _separator(line: str, kind: str) -> str:
    """What parts the cells of a line."""
    if kind in (".tsv", ".item") and "\t" in line:
        return "\t"
    return max(_SEPARATORS, key=_unquoted(line).count)


def _unquoted(line: str) -> str:
    """A line without what stands between quotation marks."""
    return "".join(line.split('"')[::2])


def public_form(row: Mapping[str, object]) -> str:
    """The name of the public form that has the columns of a row; "" for none."""
    names = {compact(str(name)) for name in row}
    for form, columns in lexicon.public_forms().items():
        if names.issuperset(map(compact, columns)):
            return form
    return ""


def _text_rows(path: Path, kind: str, named: str) -> Rows:
    """The rows of a text file with a separator."""
    first = _encoding(path, named, "latin-1")
    with _lines(path, first) as file:
        form = _form(file.read(_HEAD), kind)
    encoding = _encoding(path, named, form.encoding)
    if encoding == "latin-1" and not named and _is_utf8(path):
        encoding = "utf-8"
    short: list[int] = []
    return Rows(_decoded(_records(path, form, encoding, short), path, encoding), form.name, short)


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as file:
        try:
            while part := file.read(_HEAD):
                decoder.decode(part)
        except UnicodeDecodeError:
            return False
    return True


def _records(path: Path, form: _Form, encoding: str, short: list[int]) -> Iterator[object]:
    """The rows of a text file by the names of their columns; numbers of short ones are added to ``short``."""
    with _lines(path, encoding) as file:
        numbered = safety.lines(file, path.name, blank=True)
        lines = (line for _, line in itertools.islice(numbered, form.skip, None))
        if form.separator == "::":
            table: Iterator[list[str]] = (line.rstrip("\r\n").split("::") for line in lines)
        else:
            csv.field_size_limit(safety.limit("line_characters"))  # a cell beyond its own limit costs its row
            table = csv.reader(_closed(lines, path, form), delimiter=form.separator, quoting=form.quoting)
        columns = _distinct(form.columns or _stripped(next(filter(None, _checked(table, path)), [])))
        size = len(columns)
        safety.check_table(path.name, 0, size)
        number = 0
        for cells in filter(None, _checked(table, path)):
            number += 1
            if len(cells) == size:
                yield dict(zip(columns, cells, strict=True))
                continue
            row = _uneven(cells, columns, form)
            if len(cells) < size and not isinstance(row, LeftOut):
                short.append(number)
            yield row


def _closed(lines: Iterable[str], path: Path, form: _Form) -> Iterator[str]:
    """The lines; InputError at the end where a quotation mark opens a cell that no other closes."""
    opened_in = 0
    starts = ('"', f'{form.separator}"')
    for number, line in enumerate(lines, start=1):
        if form.quoted and '"' in line and line.count('"') % 2:
            opened_in = 0 if opened_in else number * any(start in f"\n{line}" for start in starts)
        yield line
    if opened_in:
        cure = "close it, or write it twice where it is a letter"
        raise InputError(
            f"{path.name}, line {opened_in}: a quotation mark opens a cell and none closes it; {cure}"
        )


def _stripped(names: Sequence[str]) -> list[str]:
    return [name.strip().strip('"\ufeff') for name in names]


def _checked(table: Iterator[list[str]], path: Path) -> Iterator[list[str]]:
    """The cells of every row; InputError where a quotation mark that opens a cell is never closed."""
    number = 0
    try:
        for cells in table:
            number += 1
            yield cells
    except csv.Error as error:
        fault = f"{path.name}, row {number + 1}: {error}"
        if "field limit" in str(error):
            raise InputError(f"{fault}: shorten the cell, or close its quotation mark") from error
        cure = "a quotation mark that opens a cell is not closed: close it, or write it twice"
        raise InputError(f"{fault}; {cure}") from error


def _uneven(cells: Sequence[str], columns: Sequence[str], form: _Form) -> object:
    """A row with more or fewer cells than columns: the last ones are empty, or it is left out; so is one that
    another separator parts.
    """
    size = len(columns)
    if form.name.startswith("MovieLens 100K") and len(cells) > _FLAGS_FROM:
        flags = zip(lexicon.headless("flags"), cells[_FLAGS_FROM:], strict=False)
        genres = [genre for genre, flag in flags if flag.strip() == "1"]
        return {**dict(zip(columns, cells, strict=False)), "genres": "|".join(genres)}
    if len(cells) > size and any(map(str.strip, cells[size:])):
        cure = "put quotation marks around a cell that holds the separator"
        return LeftOut(f"it has {len(cells)} cells under {size} columns ({one_line(str(cells), 80)}); {cure}")
    if len(cells) == 1 and len(cells[0]) > size > 1:
        for separator in _SEPARATORS:
            if cells[0].count(separator) == size - 1 and separator not in ('"', form.separator):
                parted = f"its cells are parted by {separator!r}, those of the file by {form.separator!r}"
                return LeftOut(f"{parted} ({one_line(cells[0], 80)!r})")
    return dict(zip(columns, cells, strict=False))


def _decoded(rows: Iterator[object], path: Path, encoding: str) -> Iterator[object]:
    """The rows; InputError with the line that is not in the encoding."""
    try:
        yield from rows
    except UnicodeDecodeError as error:
        with opened(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode(encoding or "utf-8")
                except UnicodeDecodeError:
                    raise _not_utf8(path, number, line) from error
        raise InputError(f"{path.name} is not in {encoding} ({error.reason}); save it as UTF-8") from error


def _not_utf8(path: Path, number: int, line: bytes) -> InputError:
    """The error for a line that is not UTF-8: what it is in the likeliest other encoding, and the cure."""
    name, encoding = "Latin-1", "latin-1"
    if _WINDOWS.search(line.decode("latin-1")):
        name, encoding = "Windows-1252", "cp1252"
    shown = one_line(line.decode(encoding, "replace").strip(), 80)
    wrong = f"{path.name}, line {number} is not in UTF-8; in {name} it is {shown!r}"
    cure = f"if that is right, say {path.name}+encoding={encoding}; else save the file as UTF-8"
    return InputError(f"{wrong}; {cure}")
