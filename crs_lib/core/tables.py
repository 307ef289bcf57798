"""Tables and records on disk: column contracts, atomic writes, and hashes of files."""

import csv
import hashlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, NamedTuple

import pandas as pd
from pydantic_core import to_jsonable_python

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError


class Contract(NamedTuple):
    """What a table must have: required columns, and the columns that make a row unique."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame itself if it keeps the contract; else InputError that names what is missing."""
        missing = [column for column in self.columns if column not in frame.columns]
        if missing:
            raise InputError(f"{self.name}: columns {missing} are missing; it has {list(frame.columns)[:20]}")
        if not self.key:
            return frame
        key = list(self.key)
        repeated = frame.duplicated(key)
        if repeated.any():
            row = frame.loc[repeated, key].iloc[0].to_dict()
            raise InputError(f"{self.name}: two rows for {row}; each {self.key} must occur once")
        return frame


CATALOG = Contract("catalog.parquet", ("item_id", "title", "year"), ("item_id",))
TURNS = Contract("turns.parquet", ("model", "session_id", "turn"), ("model", "session_id", "turn"))
RESULTS = Contract("results.jsonl", ("model", "session_id"), ("model", "session_id"))
MODEL_METRICS = Contract("model_metrics.csv", ("model", "metric", "mean"), ("model", "metric"))

# How a cell begins that a spreadsheet runs, behind the apostrophes that make it a text.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")

_NAMES: Mapping[Any, Any] = {"model": str, "system": str}  # columns whose numbers are names

# The files that wait for their names within :func:`together`: written aside → the name.
_WAITING: ContextVar[dict[Path, Path] | None] = ContextVar("files that wait for their names", default=None)


@contextmanager
def write_aside(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when it is whole: written aside, synced, renamed.

    Within :func:`together` it is renamed at its end. On an error what stood under the name is untouched.
    """
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    waiting = _WAITING.get()
    try:
        with _could_write(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _open_to_write(aside, mode) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if waiting is None:
                aside.replace(path)
            else:
                waiting[aside] = path
    finally:
        if waiting is None or aside not in waiting:
            _remove([aside])


def _open_to_write(path: Path, mode: str) -> IO[Any]:
    if "b" in mode:
        return path.open(mode)
    return path.open(mode, encoding="utf-8", newline="\n")


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a text or bytes with :func:`write_aside`; returns the path."""
    mode = "wb" if isinstance(content, bytes) else "w"
    with write_aside(path, mode) as file:
        file.write(content)
    return path


@contextmanager
def together() -> Iterator[None]:
    """Within, no file that is written replaces another until all are complete; on an error none does."""
    if _WAITING.get() is not None:
        yield
        return
    waiting: dict[Path, Path] = {}
    token = _WAITING.set(waiting)
    try:
        yield
        for aside, path in waiting.items():
            with _could_write(path):
                aside.replace(path)
    finally:
        _WAITING.reset(token)
        _remove(waiting)


@contextmanager
def _could_write(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"could not write {path.name}: {error.strerror or error}; nothing changed") from error


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError):  # a folder that could not be made holds nothing to remove
            file.unlink(missing_ok=True)


def finite(value: Any) -> Any:
    """The value as JSON can hold it: NaN and infinities become None, numpy numbers plain ones."""
    return to_jsonable_python(value, inf_nan_mode="null", fallback=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.item()


def dumps(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON; what is not finite becomes null."""
    return json.dumps(finite(record), ensure_ascii=False)


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any] | str]) -> int:
    """Write one JSON object a line, atomically; returns the number of lines. Strings go as they are."""
    count = 0
    with write_aside(path) as file:
        for record in records:
            line = record if isinstance(record, str) else dumps(record)
            file.write(line + "\n")
            count += 1
    return count


@safety.reader("JSON lines")
def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file (``.gz`` too), one by one; InputError names a line that is broken."""
    with safety.open_text(path) as file:
        for number, line in safety.lines(file, path.name):
            record = safety.loads(line, f"{path.name}, line {number}")
            if not isinstance(record, dict):
                raise InputError(f"{path.name}, line {number}: expected an object")
            yield record


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write one JSON object, indented and sorted by key, atomically."""
    text = json.dumps(finite(record), ensure_ascii=False, indent=1, sort_keys=True)
    write_whole(path, text + "\n")


def as_text(cell: Any) -> Any:
    """A cell that no spreadsheet runs: text that begins as a formula does gets an apostrophe in front.

    Numbers stay numbers. :func:`as_it_was` takes the apostrophe away.
    """
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return cell


def as_it_was(cell: Any) -> Any:
    """A cell that :func:`as_text` made, as it was before."""
    if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell):
        return cell[1:]
    return cell


def csv_of(frame: pd.DataFrame, separator: str = ",") -> str:
    """A frame as CSV with 10 significant digits, every text as :func:`as_text`; no index."""
    safe = frame.set_axis([as_text(name) for name in frame.columns], axis=1)
    for number in range(frame.shape[1]):
        column = frame.iloc[:, number]
        if not pd.api.types.is_numeric_dtype(column):
            safe.isetitem(number, column.astype(object).map(as_text))
    form: dict[str, Any] = {"sep": separator, "float_format": "%.10g", "lineterminator": "\n"}
    text: str = safe.to_csv(index=False, **form)
    if "\r" in text:  # which ends a line where it is not quoted
        text = safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, **form)
    return text


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write :func:`csv_of` a frame, atomically: the same frame gives the same bytes."""
    write_whole(path, csv_of(frame))


def read_csv(path: Path, columns: Sequence[str] | None = None, dtype: Any = _NAMES) -> pd.DataFrame:
    """A table that :func:`write_csv` wrote, or those of its columns; every text as it was."""
    frame = pd.read_csv(path, usecols=columns, dtype=dtype, keep_default_na=False, na_values=[""])
    for name in frame.select_dtypes(["object", "string"]):
        frame[name] = frame[name].map(as_it_was)
    return frame.set_axis([as_it_was(name) for name in frame.columns], axis=1)


def write_parquet(path: Path, frames: pd.DataFrame | Iterable[pd.DataFrame]) -> int:
    """Write frames of equal columns as one Parquet file, atomically; the rows. InputError for none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(frames, pd.DataFrame):
        frames = [frames]
    parts = iter(frames)
    first = next(parts, None)
    if first is None:
        raise InputError(f"there is nothing to write into {path.name}; nothing changed")
    schema = _schema(pa.Table.from_pandas(first, preserve_index=False).schema)
    rows = 0
    with write_aside(path, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for frame in itertools.chain([first], parts):
            writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))
            rows += len(frame)
    return rows


def _schema(schema: Any) -> Any:
    """A schema of Arrow in which lists that are all empty in the first frame hold texts: later ones do."""
    import pyarrow as pa

    for number, name in enumerate(schema.names):
        if schema.types[number] == pa.list_(pa.null()):
            schema = schema.set(number, pa.field(name, pa.list_(pa.string())))
    return schema


@safety.reader("a table")
def read_table(
    path: Path, contract: Contract, *, columns: Sequence[str] | None = None, repeated: Sequence[str] = ()
) -> pd.DataFrame:
    """Read a Parquet, CSV or JSON-lines table and check its contract, or that of ``columns`` if only these
    are read.

    The values of ``repeated`` columns are kept once each (as categories), which takes less room. Raises
    RunError naming the file that is missing, InputError for a column that is not there.
    """
    if not path.exists():
        raise RunError(f"no {path.name} in {path.parent.name!r}")
    if not columns:
        return contract.check(_read_columns(path, None, repeated))
    needed = tuple(dict.fromkeys((*contract.key, *columns)))
    frame = _read_columns(path, needed, repeated)
    contract._replace(columns=needed).check(frame)
    return frame[list(columns)]


def _read_columns(path: Path, columns: Sequence[str] | None, repeated: Sequence[str]) -> pd.DataFrame:
    """These columns of a table (None: all), as far as it has them."""
    if path.suffix == ".csv":
        return read_csv(path, columns)
    if path.suffix == ".parquet":
        return _read_parquet(path, columns, repeated)
    rows = Rows()
    texts: dict[Any, Any] = {}  # of texts that repeat one is kept
    for record in read_jsonl(path):
        row = record
        if columns is not None:
            row = {name: record.get(name) for name in columns}
        for name in repeated:
            if name in row:
                row[name] = texts.setdefault(row[name], row[name])
        rows.add(row)
    return rows.frame(repeated)


def _read_parquet(path: Path, columns: Sequence[str] | None, repeated: Sequence[str]) -> pd.DataFrame:
    import pyarrow.parquet as pq

    present = None
    if columns is not None:
        present = [name for name in pq.read_schema(path).names if name in columns]
    table = pq.read_table(path, columns=present, read_dictionary=list(repeated))
    return table.to_pandas(split_blocks=True, self_destruct=True)


class Rows:
    """Rows kept column by column, in a fraction of the room of as many dicts; what a row lacks is None."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        for name in row:
            if name not in self._columns:
                self._columns[name] = [None] * self._count
        for name, column in self._columns.items():
            column.append(row.get(name))
        self._count += 1

    def frame(self, repeated: Sequence[str] = ()) -> pd.DataFrame:
        """The rows as a frame; columns of ``repeated`` values as categories."""
        columns: dict[str, Any] = dict(self._columns)
        for name in repeated:
            if name in columns:
                columns[name] = pd.Categorical(columns[name])
        return pd.DataFrame(columns)


_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def fingerprint(value: Any) -> str:
    """Hex SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(_SORTED.encode(value).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Hex digest of a file's content; InputError where a file that is there cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error


def of_files(files: Iterable[Path]) -> str:
    """One hex digest of several files: names and contents, in order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{sha256(path)}\n".encode())
    return digest.hexdigest()
