"""Lines of large compressed files, read in one pass: hashed, counted, and safe against damage."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

from crs_lib.core.errors import InputError
from crs_lib.core.tables import write_aside

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
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
