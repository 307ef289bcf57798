"""Load CoSRec: typed, checked, and unrepaired; what is odd but readable is left to the quirk report."""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import one_line
from crs_lib.cosrec.records import (
    AnnotatedTurn,
    Buyer,
    Conversation,
    Intent,
    IntentLabel,
    Kind,
    Partition,
    Rating,
    Utterance,
    number,
    topic,
)
from crs_lib.metrics.ranking import TOP_GRADE
from crs_lib.retrieval.runs import Qrels, read_qrels

PARTITIONS = ("raw", "crowd", "curated")
_LINE = re.compile(r"([US]): ?(.*)")
_QRELS = "qrels.qrels"
T = TypeVar("T")


class _Annotated(TypedDict):
    utterance: int
    intent_annotations: list[list[IntentLabel]]


class _Intent(TypedDict):
    id: str
    type: Kind
    query_variants: Annotated[list[str], Field(min_length=1)]
    product: NotRequired[str | None]


class _Curated(TypedDict):
    utterance: int
    intents: list[_Intent]


# What a conversation's id leads to in each file.
_FORMS: dict[str, TypeAdapter[Any]] = {
    "conversations.jsonl": TypeAdapter(str), "quality.jsonl": TypeAdapter(list[Rating]),
    "intent_annotations.jsonl": TypeAdapter(list[_Annotated]), "intents.jsonl": TypeAdapter(list[_Curated]),
    "profiles.jsonl": TypeAdapter(dict[str, str]), "keywords.jsonl": TypeAdapter(dict[str, list[str]]),
}  # fmt: skip


def locate(source: str = "sample") -> Path:
    """The folder of a corpus: ``sample`` (ours, committed), ``cosrec`` (the release), or a path. The release
    is looked for in ``CRS_MIRROR`` and then among the downloads. Raises RunError with the command that
    fetches it.
    """
    if source == "sample":
        return paths.samples() / "cosrec"
    release = [folder / "cosrec" for folder in (paths.mirror(), paths.external()) if folder]
    for place in release if source == "cosrec" else [paths.given(source)]:
        if any((place / part).is_dir() for part in PARTITIONS):
            return place
    hint = "; fetch it with: python -m crs_lib data get cosrec" if source == "cosrec" else ""
    raise RunError(f"no CoSRec corpus in {source!r} (a folder with {', '.join(PARTITIONS)}){hint}")


def _present(source: str) -> list[Path]:
    """The folders of a corpus's partitions; crowd and curated must be there, raw may be."""
    found = map(locate(source).joinpath, PARTITIONS)
    return [base for base in found if base.name != "raw" or (base / "conversations.jsonl").is_file()]


def load_all(source: str) -> dict[str, Partition]:
    """The partitions of a corpus by name; RunError and InputError as :func:`load`."""
    return {base.name: read_partition(base) for base in _present(source)}


def digests(source: str) -> dict[str, str]:
    """SHA-256 of every file of a corpus, as inputs of a stage."""
    files = [base / name for base in _present(source) for name in (*_FORMS, _QRELS)]
    return {f"{path.parent.name}/{path.name}": tables.sha256(path) for path in files if path.is_file()}


def load(folder: Path, name: str) -> Partition:
    """One partition. Only its conversations must be there; the rest may be absent and is named. Raises
    RunError for a missing partition, InputError (file, line, what was found) for what breaks the data
    contract: no JSON, no UTF-8, several keys in a line, an id twice or unknown, an intent type, rating or
    grade that is none, a text that is none, a turn that the conversation does not have.
    """
    if name not in PARTITIONS:
        raise InputError(f"partition {name!r} is not known; use one of {', '.join(PARTITIONS)}")
    return read_partition(folder / name)


def read_partition(base: Path) -> Partition:
    """The partition in a folder of any name; errors as those of :func:`load`."""
    if not (base / "conversations.jsonl").is_file():
        raw = "; the raw partition is a separate download (python -m crs_lib data get cosrec)"
        raise RunError(f"no {base.name}/conversations.jsonl in the corpus{raw if base.name == 'raw' else ''}")
    talks = _read(base / "conversations.jsonl", _conversation)
    files = {name: base / name for name in (*_FORMS, _QRELS) if (base / name).is_file()}

    def read(name: str, make: Callable[[str, Conversation, Any], T]) -> dict[str, T]:
        if name not in files:
            return {}
        return _read(files[name], lambda where, key, value: make(where, talks[key], value), talks)

    plain = partial(read, make=lambda where, talk, value: value)
    profiles, keywords = plain("profiles.jsonl"), plain("keywords.jsonl")
    named = [key for key in talks if key in profiles or key in keywords]
    return Partition(
        base.name, talks, read("quality.jsonl", lambda where, talk, value: tuple(value)),
        read("intent_annotations.jsonl", _annotated), read("intents.jsonl", _intents),
        {key: _users(profiles.get(key, {}), keywords.get(key, {})) for key in named},
        _judgments(read_qrels(files[_QRELS])) if _QRELS in files else {},
        tuple(name for name in (*_FORMS, _QRELS) if name not in files),
        {name: tables.sha256(path) for name, path in files.items()},
    )  # fmt: skip


def _read(
    path: Path, make: Callable[[str, str, Any], T], known: Mapping[str, Any] | None = None
) -> dict[str, T]:
    """The values that ``make`` gives for place, conversation id and value of each line, sorted by id."""
    found: dict[str, T] = {}
    for row, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        where = f"{path.parent.name}/{path.name}, line {row}"
        if not line or line.isspace():
            continue
        record = safety.loads(line.removeprefix(codecs.BOM_UTF8), where, unique=True)
        if not isinstance(record, dict) or len(record) != 1:
            raise InputError(f"{where}: expected an object with one conversation id as its only key")
        (key, value), *_ = record.items()
        number(key)
        if key in found:
            raise InputError(f"{where}: conversation {key!r} stands twice")
        if known is not None and key not in known:
            raise InputError(f"{where}: conversation {key!r} is not in conversations.jsonl")
        try:
            found[key] = make(where, key, _FORMS[path.name].validate_python(value, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            place = ", ".join([where, *map(str, first["loc"])])
            shown = one_line(repr(first["input"]), 80)
            raise InputError(f"{place}: {first['msg']}, found {shown}") from None
    return {key: found[key] for key in sorted(found, key=number)}


def _conversation(where: str, key: str, value: str) -> Conversation:
    """Lines ``U: …`` and ``S: …``; a line without a speaker belongs to the utterance before it."""
    said: list[Utterance] = []
    for line in value.split("\n"):
        if match := _LINE.fullmatch(line):
            said.append(Utterance(match[1], match[2]))
        elif said:
            said[-1] = Utterance(said[-1].speaker, f"{said[-1].text}\n{line}")
        else:
            raise InputError(f"{where}: the conversation does not start with 'U: ' or 'S: '")
    return Conversation(key, tuple(said))


def _check_turns(where: str, talk: Conversation, rows: Sequence[Mapping[str, Any]]) -> None:
    given, turns = [row["utterance"] for row in rows], len(talk.turns)
    for last, turn in pairwise([-1, *given]):
        if not last < turn < turns:
            raise InputError(f"{where}: utterance {turn}; expected ascending user turns below {turns}")


def _annotated(where: str, talk: Conversation, rows: list[_Annotated]) -> tuple[AnnotatedTurn, ...]:
    _check_turns(where, talk, rows)
    return tuple(
        AnnotatedTurn(one["utterance"], tuple(map(tuple, one["intent_annotations"]))) for one in rows
    )


def _intents(where: str, talk: Conversation, rows: list[_Curated]) -> tuple[Intent, ...]:
    _check_turns(where, talk, rows)
    found = []
    for turn, place, one in ((row["utterance"], *both) for row in rows for both in enumerate(row["intents"])):
        if one["id"] != (expected := f"{talk.id}_{turn}_{place}"):
            raise InputError(f"{where}: intent {one['id']!r} should be {expected!r}")
        variants = tuple(one["query_variants"])
        found.append(Intent(expected, turn, place, one["type"], variants, one.get("product")))
    return tuple(found)


def _users(profiles: Mapping[str, str], keywords: Mapping[str, list[str]]) -> tuple[Buyer, ...]:
    named = {user: tuple(words) for user, words in keywords.items()}
    return tuple(Buyer(user, profiles.get(user), named.get(user)) for user in sorted({*profiles, *named}))


def _judgments(qrels: Qrels) -> Qrels:
    """The judgments as they are; InputError for a topic of another form or a grade that is not 0, 1 or 2."""
    for name, grades in qrels.items():
        topic(name)
        for document, grade in grades.items():
            if not 0 <= grade <= TOP_GRADE:
                what = f"grade {grade} of {document!r} under {name!r}"
                raise InputError(f"{_QRELS}: {what}; they go from 0 to {TOP_GRADE}")
    return qrels
