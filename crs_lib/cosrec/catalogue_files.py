"""Large files: lines read in one pass, hashed, safe against damage; products written in any format."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

from crs_lib.core.errors import InputError
from crs_lib.core.tables import write_aside

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
OUTPUTS = (*ENDINGS, ".parquet")
_PRODUCTS = 1_000  # products in a row group: by number, so that the file does not depend on the parts
Decode = Callable[[bytes], Any]
Bad = Callable[[int, str, bytes], object]


class DamagedError(Exception):
    """A compressed file ends too early or cannot be unpacked; ``line`` is the last one that was read."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line, self.why = line, why


class Watched(io.RawIOBase):
    """A file that hashes and counts what is read from it."""

    def __init__(self, path: Path, seen: Callable[[int], object] | None = None) -> None:
        self._file, self.digest, self._seen = path.open("rb"), hashlib.sha256(), seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._file.readinto(buffer)
        self.digest.update(memoryview(buffer)[:size])
        if self._seen:
            self._seen(size)
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def ending(path: Path) -> str:
    """The known ending of a name, or ''."""
    return next((e for e in sorted(ENDINGS, key=len, reverse=True) if path.name.endswith(e)), "")


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise InputError('files that end in .zst need zstandard: pip install "crs-lib[data]"') from error
    return zstandard


class _Zst(io.RawIOBase):
    """Unpacks zstd frames one after the other; EOFError where the last one breaks off."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._zstandard = file, _zstandard()
        self._unpacker: Any = None
        self._packed, self._out = b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._out:
            self._packed = self._packed or self._file.read(1 << 17)
            if not self._packed:
                if self._unpacker is not None:
                    raise EOFError("the last zstd frame is incomplete")
                return 0
            self._unpacker = self._unpacker or self._zstandard.ZstdDecompressor().decompressobj()
            self._out = self._unpacker.decompress(self._packed)
            done = self._unpacker.eof
            self._packed = self._unpacker.unused_data if done else b""
            self._unpacker = None if done else self._unpacker
        size = min(len(buffer), len(self._out))
        buffer[:size], self._out = self._out[:size], self._out[size:]
        return size


@contextmanager
def _unpacked(raw: Watched, kind: str) -> Iterator[IO[bytes]]:
    buffered = io.BufferedReader(raw, 1 << 20)
    if kind == ".jsonl.gz":
        with gzip.GzipFile(fileobj=buffered) as file:
            yield cast(IO[bytes], file)
    elif kind == ".jsonl.zst":
        yield io.BufferedReader(_Zst(buffered), 1 << 18)
    else:
        yield buffered


def decoder(fields: tuple[str, ...]) -> Decode:
    """A function from a line to an object with these attributes, None where the line lacks one.

    With msgspec only these fields are built; both ways accept exactly what ``json`` accepts. Raises
    ValueError for what is no JSON object.
    """

    def plain(line: bytes) -> Any:
        found = json.loads(line.decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return SimpleNamespace(**{name: found.get(name) for name in fields})

    try:
        import msgspec
    except ImportError:
        return plain
    form = msgspec.defstruct("Row", [(name, Any, None) for name in fields], gc=False)
    decode = msgspec.json.Decoder(form).decode

    def fast(line: bytes) -> Any:
        try:
            return decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return plain(line)

    return fast


def read_records(path: Path, decode: Decode, raw: Watched, bad: Bad) -> Iterator[tuple[bytes, Any]]:
    """Every line with its record; blank lines are passed over, lines that cannot be read go to ``bad``.

    ``bad`` is called with the line's number from 1, what is wrong, and its bytes. Raises DamagedError where
    the compressed stream itself breaks off.
    """
    number = 0
    with _unpacked(raw, ending(path)) as file:
        lines = enumerate(file, start=1)
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                return
            except (EOFError, OSError, zlib.error) as error:
                raise DamagedError(number, str(error)) from error
            except Exception as error:  # zstandard has an error class of its own
                if type(error).__name__ != "ZstdError":
                    raise
                raise DamagedError(number, str(error)) from error
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            try:
                record = decode(line)
            except ValueError as error:  # also UnicodeDecodeError and json's
                if not line.isspace():
                    bad(
                        number,
                        "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not a JSON object",
                        line,
                    )
            except RecursionError:
                bad(number, "nested too deeply", line)
            else:
                yield line, record


@contextmanager
def writer(path: Path) -> Iterator[Callable[[bytes], object]]:
    """A function that writes to a file that appears whole, packed as its name ends; the same bytes always."""
    with write_aside(path, "wb") as file:
        if path.name.endswith(".gz"):
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
                yield packed.write
        elif path.name.endswith(".zst"):
            with _zstandard().ZstdCompressor(level=6).stream_writer(file, closefd=False) as stream:
                yield stream.write
        else:
            yield file.write


def _schema() -> Any:
    import pyarrow as pa

    review = [
        ("user", pa.string()),
        ("timestamp", pa.int64()),
        ("verified purchase", pa.bool_()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("rating", pa.int8()),
        ("helpful", pa.int64()),
    ]
    ratings = pa.struct([(str(grade), pa.int64()) for grade in range(1, 6)])
    return pa.schema(
        [
            ("parent_asin", pa.string()),
            ("title", pa.string()),
            ("description", pa.list_(pa.string())),
            ("details", pa.string()),
            ("categories", pa.list_(pa.string())),
            ("store", pa.string()),
            ("price", pa.float64()),
            ("num_ratings", pa.int64()),
            ("avg_ratings", pa.float64()),
            ("valid_reviews", pa.list_(pa.struct(review))),
            ("valid_ratings", ratings),
            ("num_valid_ratings", pa.int64()),
            ("avg_valid_ratings", pa.float64()),
        ]
    )


def _batches(files: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for path in files:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                row = json.loads(line)
                row["details"] = json.dumps(row["details"], ensure_ascii=False)
                row["avg_ratings"] = float(row["avg_ratings"])
                rows.append(row)
                if len(rows) == _PRODUCTS:
                    yield rows
                    rows = []
    if rows:
        yield rows


def write_output(out: Path, parts: Sequence[Path]) -> None:
    """Concatenate finished lines into the output, which appears whole: as lines, packed, or as Parquet.

    Parquet has one row a product, reviews as a list of structs, details as JSON text.
    """
    if not out.name.endswith(".parquet"):
        with writer(out) as write:
            for path in parts:
                with path.open("rb") as part:
                    while block := part.read(1 << 20):
                        write(block)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    with write_aside(out, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as table:
        for rows in _batches(parts):
            table.write_table(pa.Table.from_pylist(rows, schema=schema))
