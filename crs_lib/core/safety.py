"""The door for what comes from outside: text made valid Unicode, JSON within limits, faults as sentences.

What a program, a server or a person gives is read here and nowhere else: replies of models, catalogues, logs,
chats, settings, manifests, bodies of ledgers. Each limit has a default, a unit, and a variable that raises
it: ``CRS_MOST_TURN_CHARACTERS=1000000`` in the environment raises the limit ``turn_characters``.
"""

import errno
import functools
import gzip
import inspect
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, ParamSpec, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import yaml
from pydantic_core import from_json

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import one_line, without_secrets

P = ParamSpec("P")
T = TypeVar("T")
Pairs = list[tuple[str, Any]]  # the keys and values of a JSON object, in order


class _Limit(NamedTuple):
    """The most that is accepted of something."""

    default: int
    unit: str


LIMITS = {
    "turn_characters": _Limit(2_000_000, "characters of one utterance or reply"),
    "question_characters": _Limit(50_000, "characters of one question to a chat"),
    "json_bytes": _Limit(2**28, "bytes of a text that is read in one piece"),
    "line_characters": _Limit(2**25, "characters of one line of a file"),
    "yaml_bytes": _Limit(500_000, "bytes of YAML"),
    "columns": _Limit(5_000, "columns of a table"),
    "rows": _Limit(20_000_000, "rows of a table"),
    "cells": _Limit(200_000_000, "cells of a table, rows times columns"),
    "cell_characters": _Limit(200_000, "characters of one cell"),
    "answer_bytes": _Limit(2**24, "bytes of a server's answer"),
    "unpacked_ratio": _Limit(200, "bytes out of one byte of a compressed file, beyond 64 MiB"),
    "sweep_cells": _Limit(10_000, "runs of one sweep"),
    "workers": _Limit(256, "processes or threads of one command"),
}
_PIECE = 2**26  # bytes that any compressed file may hold
_LONGEST_NUMBER = 40  # characters of a number in YAML
_LONG_NUMBER = re.compile(r"[0-9]{19}")  # may be beyond 2**63 - 1, the largest whole number of tables
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F]..|0000)|.)")
_SUSPECT = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")  # a surrogate or NUL, to be told from \\\\u
_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO)
READERS: dict[str, Callable[..., Any]] = {}


def limit_variable(name: str) -> str:
    """The environment variable that sets a limit: ``CRS_MOST_SWEEP_CELLS``."""
    return f"CRS_MOST_{name.upper()}"


def limit(name: str) -> int:
    """A limit as it stands: its default, or the whole number above 0 in its variable (else InputError)."""
    variable = limit_variable(name)
    text = os.environ.get(variable) or str(LIMITS[name].default)
    if not re.fullmatch("0*[1-9][0-9]{0,17}", text):
        raise InputError(f"{variable} is {text[:80]!r}; give a whole number above 0")
    return int(text)


def check_limit(name: str, number: int, subject: str) -> int:
    """The number if the limit allows it; else InputError: ``<subject> <number>, the limit is …``."""
    most = limit(name)
    if number > most:
        allowed = f"the limit is {most:,} {LIMITS[name].unit}"
        raise InputError(f"{subject} {number:,}, {allowed}; raise it with {limit_variable(name)}={number}")
    return number


def valid(text: str) -> str:
    """The text as valid Unicode without NUL: two surrogates of one character joined, others U+FFFD."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


def loads(
    text: str | bytes,
    where: str,
    *,
    unique: bool = False,
    pairs: Callable[[Pairs], Any] | None = None,
    mend: bool = True,
) -> Any:
    """A JSON value, its texts valid (:func:`valid`). ``where`` is what an error calls its place.

    Raises InputError for what is no JSON, nested more than 200 deep, whole numbers beyond 64 bits, more bytes
    than the limit ``json_bytes``, and, with ``unique``, a key that stands twice in an object. ``pairs`` makes
    an object of its keys and values. Without ``mend`` lone surrogates stay, for a caller who reports them.
    """
    check_limit("json_bytes", len(text), f"{where}: it has")
    try:
        source = text.decode() if isinstance(text, bytes) else text
        mended = _without_surrogates(source)
        value = from_json(mended)
        if unique or pairs or not mend or _LONG_NUMBER.search(source):
            hook = _once if unique else pairs
            value = json.loads(mended if mend else source, parse_int=_whole, object_pairs_hook=hook)
        return value
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except ValueError as error:
        reason = str(error).replace("recursion limit exceeded", "nested more than 200 deep")
        raise InputError(f"{where}: not JSON that can be held ({one_line(reason, 300)})") from error


def _without_surrogates(text: str) -> str:
    """JSON whose lone surrogates and NULs are U+FFFD, those that are written as escapes, too."""
    mended = valid(text)
    if _SUSPECT.search(text):
        return _ESCAPE.sub(_mended_escape, mended)
    return mended


def _mended_escape(match: re.Match[str]) -> str:
    return "\\ufffd" if match[1] else match[0]


def _once(pairs: Pairs) -> dict[str, Any]:
    """An object none of whose keys stands twice."""
    record: dict[str, Any] = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"the key {one_line(key, 80)!r} stands twice in an object")
        record[key] = value
    return record


def _whole(digits: str) -> int:
    if len(digits) <= 20 and -(2**63) <= int(digits) < 2**63:
        return int(digits)
    size = len(digits.lstrip("-"))
    raise ValueError(f"a whole number of {size} digits; up to 2**63 - 1 is read, write longer ones as texts")


def read_text(path: Path) -> str:
    """The text of a file, valid Unicode; InputError naming the file that cannot be read or is too large."""
    try:
        size = path.stat().st_size
        if not path.is_file():  # a pipe would be waited for, and some devices never end
            raise InputError(f"{path.name}: cannot be read (it is a folder, a pipe or a device)")
        check_limit("json_bytes", size, f"{path.name}: it has")
        return valid(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise _kind(error)(f"{path.name}: cannot be read ({error.strerror or error})") from error


def _kind(error: Exception) -> type[InputError | RunError]:
    """RunError where the machine is at fault (handles, memory, space, disk): that says nothing of a file."""
    if isinstance(error, OSError) and error.errno in _MACHINE:
        return RunError
    return InputError


def read_json(path: Path) -> Any:
    """The JSON value of a file; InputError as :func:`read_text` and :func:`loads`."""
    return loads(read_text(path), path.name)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; InputError also for any other value."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path.name}: expected a JSON object, it holds a {type(value).__name__}")
    return value


class Address:
    """The address of a server as a person gave it, in full as ``url``; as a text without its secrets."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return without_secrets(self.url)

    __repr__ = __str__

    def named(self, address: str) -> "Address":
        """The address that the server names: a path, or an address of this scheme, host and port, where
        127.0.0.1 and localhost are one host. InputError with both for every other: nothing is sent there.
        """
        try:
            own = urlsplit(self.url)
            other = urlsplit(address)
            is_path = address.startswith("/") and not address.startswith("//")
            elsewhere = "@" in other.netloc + other.query + other.fragment
            is_mine = not elsewhere and _origin(other) == _origin(own)
        except ValueError:
            is_path = False
            is_mine = False
        if not (is_path or is_mine) or _NO_ADDRESS.search(address):
            raise InputError(
                f"{self} names the address {one_line(address, 200)!r}, which is not on that server; "
                "nothing was sent there: give the address itself, if it is right"
            )
        path = other._replace(scheme=own.scheme, netloc=own.netloc, fragment="")
        return Address(path.geturl())


_NO_ADDRESS = re.compile(r"[\s\\\x00-\x20\x7f-\x9f]")
_THIS_MACHINE = ("localhost", "0.0.0.0", "::1", "::")  # and 127.0.0.1
_PORTS = {"http": 80, "https": 443}


def _origin(parts: SplitResult) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address, as browsers compare them."""
    host = parts.hostname or ""
    if host in _THIS_MACHINE:
        host = "127.0.0.1"
    return parts.scheme, host, parts.port or _PORTS.get(parts.scheme)


class _PlainYaml(yaml.SafeLoader):
    """Reads plain data, each key once, and no aliases: a short file of them unpacks without end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if is_alias and node:
            raise ValueError(f"an alias of what stands in line {node.start_mark.line + 1}; write it out")
        return node

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        is_number = node.tag.endswith((":int", ":float"))
        if is_number and len(value) > _LONGEST_NUMBER:  # 1:1:1:… counts to base 60, without end
            raise ValueError(f"a number of {len(value):,} characters in line {node.start_mark.line + 1}")
        return value

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        _once([(str(key.value), None) for key, _ in node.value])
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The plain data of YAML; InputError as :func:`read_text`, for doubled keys, aliases, long numbers."""
    text = read_text(path)
    check_limit("yaml_bytes", len(text), f"{path.name}: it has")
    try:
        return yaml.load(text, _PlainYaml)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not YAML: {one_line(str(error), 400)}") from error


class _Unpacked(io.RawIOBase):
    """The bytes of a compressed file as far as the limit ``unpacked_ratio`` allows; InputError beyond it."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream = stream
        self._path = path
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self._stream.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            wrong = f"{self._path.name} is cut off or damaged ({one_line(str(error), 200)})"
            raise InputError(f"{wrong}; fetch or pack it again") from error
        self._read += len(part)
        if self._read > _PIECE:
            ratio = self._read // max(1, self._path.stat().st_size)
            check_limit("unpacked_ratio", ratio, f"{self._path.name}: it unpacks to more than its size, by")
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def unpacked(stream: IO[bytes], path: Path) -> IO[bytes]:
    """A decompressing stream of a file, bounded by the limit ``unpacked_ratio``."""
    return cast(IO[bytes], io.BufferedReader(_Unpacked(stream, path), 2**17))


def open_text(path: Path) -> IO[str]:
    """A text file to be read line by line, also ``.gz``, as UTF-8 with or without a byte-order mark."""
    if path.suffix != ".gz":
        return path.open(encoding="utf-8-sig")
    packed = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115  # the caller closes it
    return io.TextIOWrapper(unpacked(packed, path), encoding="utf-8-sig")


def lines(file: IO[str], name: str, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of a file, numbered from 1, those that are ``blank`` only where asked for.

    InputError for a line beyond the limit ``line_characters``, which is not read to its end.
    """
    most = limit("line_characters")
    for number, line in enumerate(iter(lambda: file.readline(most + 1), ""), start=1):
        if len(line) > most:
            check_limit("line_characters", len(line), f"{name}, line {number}: it has more than")
        if blank or line.strip():
            yield number, line


def check_table(name: str, rows: int, columns: int) -> None:
    """Raise InputError for a table that is larger than the limits ``columns``, ``rows`` and ``cells``."""
    check_limit("columns", columns, f"{name}: the number of its columns is")
    check_limit("rows", rows, f"{name}: the number of its rows is")
    check_limit("cells", rows * columns, f"{name}: the number of its cells is")


def reader(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Marks a function that reads something from outside, a ``what`` ("a catalogue"), and registers it.

    What goes wrong is InputError or RunError, as :func:`faults` says; the first argument names the thing.
    """

    def mark(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def read(*args: P.args, **options: P.kwargs) -> T:
            with faults(what, *args):
                return function(*args, **options)

        @functools.wraps(function)
        def stream(*args: P.args, **options: P.kwargs) -> Iterator[Any]:
            with faults(what, *args):
                yield from cast(Callable[P, Iterator[Any]], function)(*args, **options)

        is_stream = inspect.isgeneratorfunction(function)
        guarded = cast(Callable[P, T], stream if is_stream else read)
        READERS[f"{function.__module__}.{function.__qualname__}"] = guarded
        return guarded

    return mark


@contextmanager
def faults(what: str, *things: object) -> Iterator[None]:
    """Within, what goes wrong with a thing from outside becomes one sentence: an InputError that names it.

    The first path or text among ``things`` is its name. InputError and RunError keep their text, brought to
    one line. Other errors that runs raise (RuntimeError), failed assertions and missing packages pass.
    """
    try:
        yield
    except (InputError, RunError) as error:
        line = one_line(str(error))
        if line == str(error):
            raise
        raise type(error)(line) from error
    except RecursionError as error:
        raise _cannot_be_read(what, things, error) from error
    except (RuntimeError, AssertionError, ImportError):
        raise
    except Exception as error:
        raise _cannot_be_read(what, things, error) from error


def _cannot_be_read(what: str, things: tuple[object, ...], error: Exception) -> InputError | RunError:
    name = what
    for thing in things:
        if isinstance(thing, Path | str):
            name = one_line(Path(thing).name, 100) or what
            break
    reason = f"{type(error).__name__}: {one_line(str(error), 300)}"
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return _kind(error)(f"{name} cannot be read as {what} ({reason})")
