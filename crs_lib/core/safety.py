"""The door for what comes from outside: text made valid Unicode, JSON within limits, faults as sentences.

What a program, a server or a person gives is read here and nowhere else: replies of models, catalogues, logs,
chats, settings, manifests, bodies of ledgers. Each limit has a default, a unit, and a variable that raises
it: ``CRS_MOST_TURN_CHARACTERS=1000000`` in the environment raises the limit ``turn_characters``.
"""

import functools
import gzip
import inspect
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, ParamSpec, TypeVar, cast

from crs_lib.core.errors import InputError, RunError, one_line

P = ParamSpec("P")
T = TypeVar("T")

DEPTH = 200  # objects and lists within one another
_DIGITS = 19  # of the largest whole number that tables hold, 2**63 - 1
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_PIECE = 2**26  # bytes that any compressed file may hold
READERS: dict[str, Callable[..., Any]] = {}


class Limit(NamedTuple):
    """The default of a limit and the unit of the number."""

    default: int
    unit: str


LIMITS = {
    "turn_characters": Limit(2_000_000, "characters of one utterance or reply"),
    "question_characters": Limit(50_000, "characters of one question to a chat"),
    "json_bytes": Limit(2**30, "bytes of JSON that are read in one piece"),
    "answer_bytes": Limit(2**24, "bytes of a server's answer"),
    "unpacked_ratio": Limit(200, "bytes out of one byte of a compressed file, beyond 64 MiB"),
    "sweep_cells": Limit(10_000, "runs of one sweep"),
    "workers": Limit(256, "processes or threads of one command"),
}


def limit_variable(name: str) -> str:
    """The environment variable that sets a limit: ``CRS_MOST_SWEEP_CELLS``."""
    return f"CRS_MOST_{name.upper()}"


def limit(name: str) -> int:
    """A limit as it stands: its default, or the whole number above 0 in its variable (else InputError)."""
    given = os.environ.get(limit_variable(name), "")
    if not given:
        return LIMITS[name].default
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) > 0):
        raise InputError(f"{limit_variable(name)} is {given[:80]!r}; give a whole number above 0")
    return int(given)


def check_limit(name: str, number: int, subject: str) -> int:
    """The number if the limit allows it; else InputError: ``<subject> <number>, the limit is …``."""
    if number > limit(name):
        raise InputError(
            f"{subject} {number:,}, the limit is {limit(name):,} {LIMITS[name].unit}; "
            f"raise it with {limit_variable(name)}={number}"
        )
    return number


def valid(text: str) -> str:
    """The text as valid Unicode without NUL: two surrogates of one character joined, others U+FFFD."""
    if text.isascii():
        return text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\ufffd")


Pairs = Callable[[list[tuple[str, Any]]], Any]


def loads(
    text: str | bytes, where: str, *, unique: bool = False, pairs: Pairs | None = None, mend: bool = True
) -> Any:
    """A JSON value, its texts valid (:func:`valid`). ``where`` is what an error calls its place.

    Raises InputError for what is no JSON, objects and lists more than 200 deep, whole numbers beyond 64 bits,
    more bytes than the limit ``json_bytes``, and, with ``unique``, a key that stands twice in an object.
    ``pairs`` makes an object of its keys and values, as ``object_pairs_hook`` of ``json`` does. Without
    ``mend`` lone surrogates stay, for a caller who reports them.
    """
    check_limit("json_bytes", len(text), f"{where}: it has")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    if not unique and pairs is None and "\\u0000" not in text and not _LONG_NUMBER.search(text):
        from pydantic_core import from_json

        try:
            return from_json(text)
        except (ValueError, TypeError):  # surrogates, or an error that json words better
            pass
    return _slowly(text, where, unique, pairs, valid if mend else str)


def _slowly(text: str, where: str, unique: bool, pairs: Pairs | None, made: Callable[[str], str]) -> Any:
    def once(found: list[tuple[str, Any]]) -> dict[str, Any]:
        [(key, times)] = Counter(key for key, _ in found).most_common(1) or [("", 1)]
        if times > 1:
            raise InputError(f"{where}: the key {one_line(key, 80)!r} stands twice in an object")
        return dict(found)

    def whole(digits: str) -> int:
        if len(digits) <= _DIGITS + 1 and -(2**63) <= (number := int(digits)) < 2**63:
            return number
        raise InputError(
            f"{where}: a whole number of {len(digits.lstrip('-'))} digits; numbers up to 2**63 - 1 are read, "
            "write longer ones as texts"
        )

    try:
        value = json.loads(text, parse_int=whole, object_pairs_hook=once if unique else pairs)
        return _mended(value, DEPTH, made)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise InputError(f"{where}: not JSON ({error.msg}, {line}column {error.colno})") from error
    except RecursionError as error:
        raise InputError(
            f"{where}: not JSON that can be held (objects and lists nested more than {DEPTH} deep)"
        ) from error
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from error


def _mended(value: Any, depth: int, made: Callable[[str], str]) -> Any:
    """The value with its texts ``made`` valid; RecursionError where it is deeper than ``depth``."""
    if isinstance(value, str):
        return made(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise RecursionError
    if isinstance(value, list):
        value[:] = [_mended(item, depth - 1, made) for item in value]
        return value
    for key in list(value):
        value[key] = _mended(value[key], depth - 1, made)
    if all(made(key) == key for key in value):
        return value
    return {made(key): item for key, item in value.items()}


def read_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """The text of a file, valid Unicode; InputError naming the file that cannot be read or is too large."""
    try:
        check_limit("json_bytes", path.stat().st_size, f"{path.name}: it has")
        return valid(path.read_text(encoding=encoding))
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error


def read_json(path: Path, *, unique: bool = False) -> Any:
    """The JSON value of a file; InputError as :func:`read_text` and :func:`loads`."""
    return loads(read_text(path), path.name, unique=unique)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; InputError also for any other value."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path.name}: holds {kind_of(value)}, expected an object")
    return value


def read_yaml(path: Path) -> Any:
    """The YAML value of a file, plain data alone; InputError as :func:`read_text`, and for no YAML."""
    import yaml

    text = read_text(path)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not YAML: {one_line(str(error), 400)}") from error


def kind_of(value: object) -> str:
    """The word for a JSON value: "a list", "a text", "null"."""
    words: dict[type, str] = {
        dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
        float: "a number", type(None): "null",
    }  # fmt: skip
    return words.get(type(value), type(value).__name__)


class _Unpacked(io.RawIOBase):
    """The bytes of a compressed file as far as the limit ``unpacked_ratio`` allows; InputError beyond it."""

    def __init__(self, stream: IO[bytes], name: str, packed: int) -> None:
        self._stream, self._name, self._packed = stream, name, packed
        self._most, self._read = max(_PIECE, packed * limit("unpacked_ratio")), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._stream.read(len(buffer))
        self._read += len(part)
        if self._read > self._most:
            ratio = max(self._read // max(1, self._packed), limit("unpacked_ratio") + 1)
            what = f"{self._name}: it unpacks to more than {self._most:,} bytes, at a ratio of"
            check_limit("unpacked_ratio", ratio, what)
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def unpacked(stream: IO[bytes], path: Path) -> IO[bytes]:
    """A decompressing stream of a file, bounded by the limit ``unpacked_ratio``."""
    return cast(IO[bytes], io.BufferedReader(_Unpacked(stream, path.name, path.stat().st_size), 2**17))


def open_text(path: Path) -> IO[str]:
    """A text file to be read line by line, also ``.gz``, as UTF-8 with or without a byte-order mark."""
    if path.name.endswith(".gz"):
        packed = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115  # the caller closes it
        return io.TextIOWrapper(unpacked(packed, path), encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def lines(file: IO[str], name: str) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, with their numbers from 1.

    Raises InputError for a line beyond the limit ``json_bytes``.
    """
    most, number = limit("json_bytes"), 0
    while line := file.readline(most + 1):
        number += 1
        if len(line) > most:
            check_limit("json_bytes", len(line), f"{name}, line {number}: it has more than")
        if line.strip():
            yield number, line


def reader(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Marks a function that reads something from outside, a ``what`` ("a catalogue"), and registers it.

    Whatever goes wrong with what is read leaves the function as InputError or RunError, on one line and of at
    most 1,000 characters. The first argument names the thing, where it is a path.
    """

    def mark(function: Callable[P, T]) -> Callable[P, T]:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def reads(*given: P.args, **named: P.kwargs) -> Any:
                with Faults(what, _thing(given)):
                    yield from function(*given, **named)
        else:

            @functools.wraps(function)
            def reads(*given: P.args, **named: P.kwargs) -> Any:
                with Faults(what, _thing(given)):
                    return function(*given, **named)

        READERS[f"{function.__module__}.{function.__qualname__}"] = reads
        return cast(Callable[P, T], reads)

    return mark


def _thing(given: tuple[object, ...]) -> object:
    """The first argument that can name what is read."""
    return next((one for one in given if isinstance(one, Path | str)), "")


class Faults:
    """Within, what goes wrong with a thing from outside becomes one sentence: an InputError that names it.

    InputError and RunError keep their text, brought to one line. Errors of other kinds that runs raise
    (RuntimeError), failed assertions and missing packages pass.
    """

    def __init__(self, what: str, given: object) -> None:
        self._what, self._given = what, given

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, InputError | RunError):
            text = str(error)
            if "\n" in text or len(text) > 1_000:
                raise type(error)(one_line(text)) from error
            return
        passes = isinstance(error, RuntimeError | AssertionError | ImportError | StopIteration)
        if passes and not isinstance(error, RecursionError):
            return
        name = Path(self._given).name if isinstance(self._given, Path | str) else ""
        told = one_line(str(error), 300)
        reason = (error.strerror if isinstance(error, OSError) else "") or f"{type(error).__name__}: {told}"
        subject = one_line(name, 100) or self._what
        raise InputError(f"{subject} cannot be read as {self._what} ({reason})") from error
