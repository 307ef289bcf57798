"""Large files: read in one pass, hashed, unpacked and decoded; products written in any format."""

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from crs_lib.core.errors import InputError
from crs_lib.core.tables import write_aside

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
OUTPUTS = (*ENDINGS, ".parquet")
_PRODUCTS = 1_000  # products in a row group: by number, so that the file does not depend on the parts
Decode = Callable[[bytes], Any]


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


def unpacked(raw: Watched, kind: str) -> IO[bytes]:
    """The bytes of a plain or packed file; EOFError, OSError or zlib.error where a packed one breaks off."""
    buffered = io.BufferedReader(raw, 1 << 20)
    if kind == ".jsonl.gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered))
    if kind == ".jsonl.zst":
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd")
        return io.BufferedReader(stream, 1 << 18)
    return buffered


def check_packages() -> None:
    """InputError with the command where a package that the catalogue needs is not installed."""
    from importlib.util import find_spec

    if lacking := [name for name in ("duckdb", "msgspec", "zstandard") if not find_spec(name)]:
        raise InputError(f'the catalogue needs {", ".join(lacking)}: pip install "crs-lib[data]"')


def decoder(fields: tuple[str, ...]) -> Decode:
    """A function from a line to an object with these attributes alone, None where the line lacks one.

    It accepts exactly what ``json`` accepts. Raises ValueError for what is no JSON object.
    """
    import msgspec

    form = msgspec.defstruct("Row", [(name, Any, None) for name in fields], gc=False)
    decode = msgspec.json.Decoder(form).decode

    def read(line: bytes) -> Any:
        try:
            return decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            plain = json.loads(line.decode("utf-8"))
            if not isinstance(plain, dict):
                raise ValueError("not an object") from None
            return form(**{name: plain.get(name) for name in fields})

    return read


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[bytes], object]]:
    """A function that writes to a file that appears whole, packed as its name ends; the same bytes always."""
    with write_aside(path, "wb") as file:
        if path.name.endswith(".gz"):
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
                yield packed.write
        elif path.name.endswith(".zst"):
            import zstandard

            with zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False) as stream:
                yield stream.write
        else:
            yield file.write


def _schema() -> Any:
    import pyarrow as pa

    text, whole, real, texts = pa.string(), pa.int64(), pa.float64(), pa.list_(pa.string())
    review = {
        "user": text, "timestamp": whole, "verified purchase": pa.bool_(), "title": text, "text": text,
        "rating": pa.int8(), "helpful": whole,
    }  # fmt: skip
    product = {
        "parent_asin": text, "title": text, "description": texts, "details": text, "categories": texts,
        "store": text, "price": real, "num_ratings": whole, "avg_ratings": real,
        "valid_reviews": pa.list_(pa.struct(review)),
        "valid_ratings": pa.struct({str(grade): whole for grade in range(1, 6)}),
        "num_valid_ratings": whole, "avg_valid_ratings": real,
    }  # fmt: skip
    return pa.schema(product)


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
        with _writer(out) as write:
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
