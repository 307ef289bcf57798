"""Tables and records on disk: column contracts, atomic writes, and hashes of files."""

import hashlib
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError


@dataclass(frozen=True)
class Contract:
    """What a table must have: required columns, and the columns that make a row unique."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame itself if it keeps the contract; else InputError that names what is missing."""
        missing = [column for column in self.columns if column not in frame.columns]
        if missing:
            raise InputError(f"{self.name}: columns {missing} are missing; it has {list(frame.columns)[:20]}")
        if self.key and frame.duplicated(list(self.key)).any():
            row = frame.loc[frame.duplicated(list(self.key)), list(self.key)].iloc[0].to_dict()
            raise InputError(f"{self.name}: two rows for {row}; each {self.key} must occur once")
        return frame


CATALOG = Contract("catalog.parquet", ("item_id", "title", "year"), ("item_id",))
TURNS = Contract("turns.parquet", ("model", "session_id", "turn"), ("model", "session_id", "turn"))
RESULTS = Contract("results.jsonl", ("model", "session_id"), ("model", "session_id"))
MODEL_METRICS = Contract("model_metrics.csv", ("model", "metric", "mean"), ("model", "metric"))


@contextmanager
def write_aside(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its name only when it is whole: written aside, synced, renamed.

    On any error the aside file is removed and what stood under the name before is untouched. Within
    :func:`together` the name changes at its end.
    """
    waiting = _WAITING.get()
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open(mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        if waiting is None:
            aside.replace(path)
        else:
            waiting.append((aside, path))
    except OSError as error:
        raise RunError(f"could not write {path.name}: {error.strerror or error}; nothing changed") from error
    finally:
        if waiting is None or (aside, path) not in waiting:
            with suppress(OSError):  # a folder that could not be made holds nothing to remove
                aside.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a text or bytes with :func:`write_aside`; returns the path."""
    with write_aside(path, "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)
    return path


_WAITING: ContextVar[list[tuple[Path, Path]] | None] = ContextVar(
    "files that wait for their names", default=None
)


@contextmanager
def together() -> Iterator[None]:
    """Within, no file that is written replaces another until all are complete; on an error none does."""
    if _WAITING.get() is not None:
        yield
        return
    waiting: list[tuple[Path, Path]] = []
    token = _WAITING.set(waiting)
    try:
        yield
        for aside, path in waiting:
            try:
                aside.replace(path)
            except OSError as error:
                raise RunError(f"could not write {path.name}: {error.strerror or error}") from error
    finally:
        _WAITING.reset(token)
        for aside, _ in waiting:
            with suppress(OSError):
                aside.unlink(missing_ok=True)


def finite(value: Any) -> Any:
    """The value as JSON can hold it: NaN and infinities become None, numpy numbers plain ones."""
    kind = value.__class__
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
    with write_aside(path) as file:
        file.write(json.dumps(finite(record), ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a CSV with 10 significant digits, atomically: the same frame gives the same bytes."""
    with write_aside(path) as file:
        frame.to_csv(file, index=False, float_format="%.10g", lineterminator="\n")


def write_parquet(path: Path, frames: pd.DataFrame | Iterable[pd.DataFrame]) -> int:
    """Write one Parquet file atomically, from a frame or from frames of equal columns; returns rows.

    Raises InputError where there is no frame at all: an empty file is no table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [frames] if isinstance(frames, pd.DataFrame) else frames
    rows, writer = 0, None
    with write_aside(path, "wb") as file:
        try:
            for frame in parts:
                schema = writer.schema if writer else None
                table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
                writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
                writer.write_table(table)
                rows += len(frame)
        finally:
            if writer:
                writer.close()
        if not writer:
            raise InputError(f"there is nothing to write into {path.name}; nothing changed")
    return rows


@safety.reader("a table")
def read_table(
    path: Path,
    contract: Contract,
    make_it: Callable[[], str] | str = "",
    *,
    columns: Sequence[str] | None = None,
    repeated: Sequence[str] = (),
) -> pd.DataFrame:
    """Read a Parquet, CSV or JSON-lines table and check its contract.

    With ``columns`` only these are read, and the contract is that of the file. The values of ``repeated``
    columns are kept once each (as categories): a long text that is the same in all rows takes no room. Raises
    RunError naming the file and, where given, the command that makes it, InputError for a column that is not
    there.
    """
    _check_there(path, make_it)
    if path.suffix == ".csv":
        return contract.check(pd.read_csv(path, usecols=list(columns) if columns else None))
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        known = pq.read_schema(path).names
        wanted = [*dict.fromkeys((*contract.key, *_known(path, columns, known)))] if columns else None
        kept = [name for name in repeated if name in (wanted or known)]
        table = pq.read_table(path, columns=wanted, read_dictionary=kept)
        frame = table.to_pandas(split_blocks=True, self_destruct=True)
        del table
    else:
        frame = _from_lines(path, columns and (*contract.key, *columns), repeated)
    if columns:
        Contract(contract.name, contract.key, contract.key).check(frame)
        return frame[list(columns)]
    return contract.check(frame)


def read_pieces(
    path: Path, columns: Sequence[str] | None = None, rows: int = 100_000, make_it: str = ""
) -> Iterator[pd.DataFrame]:
    """The rows of a Parquet table in their order, in frames of at most ``rows``: memory stays flat.

    Raises as :func:`read_table`.
    """
    import pyarrow.parquet as pq

    _check_there(path, make_it)
    with pq.ParquetFile(path) as file:
        wanted = _known(path, columns, file.schema_arrow.names) if columns else None
        for batch in file.iter_batches(batch_size=rows, columns=wanted):
            yield batch.to_pandas()


def _check_there(path: Path, make_it: Callable[[], str] | str) -> None:
    if not path.exists():
        hint = make_it() if callable(make_it) else make_it
        raise RunError(f"no {path.name} in {path.parent.name!r}{'; make it with: ' + hint if hint else ''}")


def _known(path: Path, columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    missing = [name for name in columns or () if name not in known]
    if missing:
        raise InputError(f"{path.name} has no columns {missing}; it has {list(known)[:40]}")
    return list(columns or ())


class Rows:
    """Rows kept column by column: a million of them take a fraction of what as many dicts take.

    A row that lacks a column has None there.
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row."""
        for name, value in row.items():
            column = self._columns.setdefault(name, [])
            column.extend([None] * (self._count - len(column)))
            column.append(value)
        self._count += 1

    def frame(self, repeated: Sequence[str] = ()) -> pd.DataFrame:
        """The rows as a frame; columns of ``repeated`` values as categories."""
        for column in self._columns.values():
            column.extend([None] * (self._count - len(column)))
        made = {n: pd.Categorical(c) if n in repeated else c for n, c in self._columns.items()}
        return pd.DataFrame(made)


def _from_lines(path: Path, columns: Sequence[str] | None, repeated: Sequence[str]) -> pd.DataFrame:
    """A JSON-lines table; of values that repeat one is kept."""
    rows, same = Rows(), dict[Any, Any]()
    for row in read_jsonl(path):
        wanted = row if columns is None else {name: row.get(name) for name in columns}
        once = {name: same.setdefault(wanted[name], wanted[name]) for name in repeated if name in wanted}
        rows.add({**wanted, **once})
    return rows.frame(repeated)


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
