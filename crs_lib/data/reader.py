"""Read logged conversations, whatever their form, one by one: the door to the thesis's logs and to ours.

A path is a file or a folder of files: ``.json`` (one session, or a list), ``.jsonl``, either also ``.gz``.
The forms are those of :mod:`crs_lib.data.forms`; what is odd but readable is left as it is and is
reported by :func:`crs_lib.data.quirks.quirks`.
"""

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import outside, paths
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.data.forms import RecordOrigin, conversations_of, dialogue_of

_KINDS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_OWN = "dialogues.jsonl"


class SessionKey(NamedTuple):
    """What identifies a session in a table: the model's name as a file name, and the session.

    ``session`` is a whole number where the log's id is one ("00017" and 17 are both 17), else its text.
    """

    model: str
    session: int | str


def session_key(dialogue: Dialogue) -> SessionKey:
    """The key of a dialogue: ``("gemma-2b", 17)`` for session "00017" of ``gemma:2b``."""
    given = dialogue.session_id
    number = given.isascii() and given.isdigit() and len(given) <= 18
    return SessionKey(paths.slug(dialogue.model_name), int(given) if number else given)


def files(path: str | Path) -> list[Path]:
    """The log files that a path stands for, in order of their names, numbers by value (2 before 10).

    A run folder of ours stands for its ``dialogues.jsonl``. Raises InputError where there is none.
    """
    given = paths.given(path)
    if given.is_file():
        return [given]
    if (given / _OWN).is_file():
        return [given / _OWN]
    found = [p for p in given.glob("*") if _kind(p) and not p.name.startswith(".")] if given.is_dir() else []
    if not found:
        raise InputError(
            f"no log in {paths.shown(given)}; expected a file or a folder with {', '.join(_KINDS)} "
            "(the thesis's logs: python -m crs_lib data get thesis-logs-50)"
        )
    return sorted(found, key=lambda p: (_natural(p.name), p.name))


@outside.reader("a log")
def read(path: str | Path) -> Iterator[Dialogue]:
    """Every dialogue of a file or folder, in a fixed order, one at a time: memory does not grow with them.

    (A ``.json`` file that lists many sessions is parsed as a whole.) Raises InputError naming file, line and
    session where something cannot be read: no JSON, not UTF-8, a damaged archive, an unknown form, speakers
    that do not alternate, a key of another type, the same session twice.
    """
    seen: dict[SessionKey, str] = {}
    for file in files(path):
        for where, record in _records(file):
            if isinstance(record, InputError):
                raise record
            dialogue = dialogue_of(record, RecordOrigin(where, _stem(file)))
            key = session_key(dialogue)
            if key in seen:
                raise InputError(_twice(where, key, seen[key]))
            seen[key] = file.name
            yield dialogue


class Broken(NamedTuple):
    """A conversation that could not be read: its place, its system (empty where unknown), and the reason."""

    place: str
    model: str
    reason: str


@outside.reader("a log")
def readable(
    path: str | Path, broken: Callable[[Broken], object], *, system: str = "unnamed"
) -> Iterator[Dialogue]:
    """As :func:`read`, but a conversation that cannot be read goes to ``broken`` and the others follow.

    A conversation without a name of a system is one of ``system``; without a session id it is numbered by its
    place in the file. A model of a second file whose first session was read before is another system, and
    gets the file's name behind its own: ``gemma:2b (second)``; any other repetition is broken.
    """
    seen: dict[SessionKey, str] = {}
    for file in files(path):
        stem, own = _stem(file), dict[str, str]()
        for number, (where, record, alone) in enumerate(_with_company(_records(file))):
            origin = RecordOrigin(where, stem, system, stem if alone else f"{number:05d}")
            try:
                if isinstance(record, InputError):
                    raise record
                with outside.Faults("a conversation", where):
                    dialogue = dialogue_of(record, origin)
                key = session_key(dialogue)
                if key.model not in own and not alone and seen.get(key, file.name) != file.name:
                    own[key.model] = f"{dialogue.model_name} ({stem})"
                own.setdefault(key.model, dialogue.model_name)
                dialogue = replace(dialogue, model_name=own[key.model])
                key = session_key(dialogue)
                if key in seen:
                    raise InputError(_twice(where, key, seen[key]))
            except InputError as error:
                name = record.get("model_name") if isinstance(record, Mapping) else ""
                reason = str(error).removeprefix(where).lstrip(":, ")
                broken(Broken(where, name if isinstance(name, str) else "", reason))
                continue
            seen[key] = file.name
            yield dialogue


def _twice(where: str, key: SessionKey, file: str) -> str:
    return f"{where}: session {key.session!r} of {key.model!r} was already read from {file}"


def _with_company(
    records: Iterator[tuple[str, object]],
) -> Iterator[tuple[str, object, bool]]:
    """Each record of a file, and whether it is the only one."""
    first = next(records, None)
    second = next(records, None)
    for found in itertools.chain([one for one in (first, second) if one], records):
        yield (*found, second is None)


def _kind(path: Path) -> str:
    """The ending that says how to read a file; empty for other files."""
    return next((kind for kind in _KINDS if path.name.endswith(kind)), "")


def _stem(path: Path) -> str:
    return path.name.removesuffix(_kind(path))


def _natural(name: str) -> list[Any]:
    """Sorts numbers inside names by value; text and numbers alternate, so that they always compare."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]


def _records(path: Path) -> Iterator[tuple[str, object]]:
    """Each parsed record of a file with what an error calls its place; an InputError for one that is none."""
    try:
        with outside.open_text(path) as file:
            if ".jsonl" in _kind(path):
                for number, line in outside.lines(file, path.name):
                    where = f"{path.name}, line {number}"
                    yield where, _parse(line, where)
            else:
                parsed = _parse(file.read(), path.name)
                content = [parsed] if isinstance(parsed, InputError) else conversations_of(parsed)
                many = isinstance(content, list) and len(content) > 1
                for number, record in enumerate(content, start=1):
                    yield f"{path.name}, entry {number}" if many else path.name, record
    except UnicodeDecodeError as error:
        yield path.name, InputError(f"{path.name}: not UTF-8 text ({error.reason}); save it as UTF-8")
    except InputError as error:
        yield path.name, error
    except (OSError, EOFError, zlib.error) as error:
        yield path.name, InputError(f"{path.name}: cannot be read ({error}); is the file whole?")


def _parse(text: str, where: str) -> object:
    """The parsed text, or the InputError that says why it is none."""
    try:
        return outside.loads(text, where, unique=True)
    except InputError as error:
        return error
