"""Load CoSRec: typed, checked, and unrepaired; what is odd but readable is left to the quirk report."""

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Generic, NamedTuple, NotRequired, TypeVar

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
    conversation_number,
    topic,
)
from crs_lib.metrics.ranking import TOP_GRADE
from crs_lib.retrieval.runs import Qrels, read_qrels

PARTITIONS = ("raw", "crowd", "curated")
_CONVERSATIONS = "conversations.jsonl"
_QUALITY = "quality.jsonl"
_ANNOTATIONS = "intent_annotations.jsonl"
_INTENTS = "intents.jsonl"
_PROFILES = "profiles.jsonl"
_KEYWORDS = "keywords.jsonl"
_QRELS = "qrels.qrels"
_FILES = (_CONVERSATIONS, _QUALITY, _ANNOTATIONS, _INTENTS, _PROFILES, _KEYWORDS, _QRELS)
_LINE = re.compile(r"([US]): ?(.*)")
T = TypeVar("T")
V = TypeVar("V")


class _AnnotatedRecord(TypedDict):
    utterance: int
    intent_annotations: list[list[IntentLabel]]


class _IntentRecord(TypedDict):
    id: str
    type: Kind
    query_variants: Annotated[list[str], Field(min_length=1)]
    product: NotRequired[str | None]


class _CuratedRecord(TypedDict):
    utterance: int
    intents: list[_IntentRecord]


# What a conversation's id leads to in each file.
_TEXT = TypeAdapter(str)
_RATED = TypeAdapter(list[Rating])
_ANNOTATED = TypeAdapter(list[_AnnotatedRecord])
_CURATED = TypeAdapter(list[_CuratedRecord])
_SUMMARIES = TypeAdapter(dict[str, str])
_WORDS = TypeAdapter(dict[str, list[str]])


class _Line(NamedTuple, Generic[T]):
    """A checked line of a file: its place for error texts, conversation, user turns (if known), value."""

    where: str
    id: str
    turns: int
    value: T


def locate(source: str = "sample") -> Path:
    """The folder of a corpus: ``sample`` (ours, committed), ``cosrec`` (the release), or a path. The release
    is looked for in ``CRS_MIRROR`` and then among the downloads. Raises RunError with the command that
    fetches it.
    """
    if source == "sample":
        return paths.samples() / "cosrec"
    folders = [paths.given(source)]
    hint = ""
    if source == "cosrec":
        parents = (paths.mirror(), paths.external())
        folders = [parent / "cosrec" for parent in parents if parent]
        hint = "; fetch it with: python -m crs_lib data get cosrec"
    for folder in folders:
        if any((folder / part).is_dir() for part in PARTITIONS):
            return folder
    raise RunError(f"no CoSRec corpus in {source!r} (a folder with {', '.join(PARTITIONS)}){hint}")


def _folders(source: str) -> list[Path]:
    """The folders of a corpus's partitions; crowd and curated must be there, raw may be."""
    raw, *others = map(locate(source).joinpath, PARTITIONS)
    if (raw / _CONVERSATIONS).is_file():
        return [raw, *others]
    return others


def load_all(source: str) -> dict[str, Partition]:
    """The partitions of a corpus by name; RunError and InputError as :func:`load`."""
    return {folder.name: load(folder.parent, folder.name) for folder in _folders(source)}


def digests(source: str) -> dict[str, str]:
    """SHA-256 of every file of a corpus, as inputs of a stage."""
    digests = {}
    for folder in _folders(source):
        for name, digest in _hashes(folder).items():
            digests[f"{folder.name}/{name}"] = digest
    return digests


def _hashes(folder: Path) -> dict[str, str]:
    return {name: tables.sha256(folder / name) for name in _FILES if (folder / name).is_file()}


def load(folder: Path | str, name: str) -> Partition:
    """The partition ``name`` of a corpus: raw, crowd, curated, or another folder.

    Only its conversations must be there; the rest may be absent. Raises
    RunError for a missing partition, InputError (file, line, what was found) for what breaks the data
    contract: no JSON, no UTF-8, several keys in a line, an id twice or unknown, an intent type, rating or
    grade that is none, a text that is none, a turn that the conversation does not have.
    """
    base = Path(folder) / name
    if not (base / _CONVERSATIONS).is_file():
        hint = ""
        if base.name == "raw":
            hint = "; it is a separate download: python -m crs_lib data get cosrec-raw"
        raise RunError(f"no {base.name}/{_CONVERSATIONS} in the corpus{hint}")
    talks = _read(base / _CONVERSATIONS, _TEXT, _conversation)
    profiles = _read(base / _PROFILES, _SUMMARIES, _value, talks)
    keywords = _read(base / _KEYWORDS, _WORDS, _value, talks)
    hashes = _hashes(base)
    qrels: Qrels = {}
    if _QRELS in hashes:
        qrels = _judgments(base / _QRELS)
    return Partition(
        base.name,
        talks,
        ratings=_read(base / _QUALITY, _RATED, _ratings, talks),
        annotations=_read(base / _ANNOTATIONS, _ANNOTATED, _annotated, talks),
        intents=_read(base / _INTENTS, _CURATED, _intents, talks),
        users=_users(talks, profiles, keywords),
        qrels=qrels,
        hashes=hashes,
    )


def _read(
    path: Path,
    form: TypeAdapter[T],
    make: Callable[[_Line[T]], V],
    talks: Mapping[str, Conversation] | None = None,
) -> dict[str, V]:
    """What ``make`` gives for each line of a file, sorted by conversation; empty where there is no file."""
    values = {}
    if path.is_file():
        for line in _lines(path, form, talks):
            values[line.id] = make(line)
    return {name: values[name] for name in sorted(values, key=conversation_number)}


def _lines(path: Path, form: TypeAdapter[T], talks: Mapping[str, Conversation] | None) -> Iterator[_Line[T]]:
    """The lines of a file: one conversation id each, which ``talks`` must hold where they are given."""
    seen = set()
    for row, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not raw.strip():
            continue
        where = f"{path.parent.name}/{path.name}, line {row}"
        record = safety.loads(raw.removeprefix(codecs.BOM_UTF8), where, unique=True)
        if not isinstance(record, dict) or len(record) != 1:
            raise InputError(f"{where}: expected an object with one conversation id as its only key")
        [(name, value)] = record.items()
        conversation_number(name)
        if name in seen:
            raise InputError(f"{where}: conversation {name!r} stands twice")
        seen.add(name)
        turns = 0
        if talks is not None:
            if name not in talks:
                raise InputError(f"{where}: conversation {name!r} is not in {_CONVERSATIONS}")
            turns = len(talks[name].turns)
        yield _Line(where, name, turns, _checked(where, form, value))


def _checked(where: str, form: TypeAdapter[T], value: object) -> T:
    """The value of a line in its form; InputError names the first part that has not."""
    try:
        return form.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        location = ", ".join([where, *map(str, first["loc"])])
        shown = one_line(repr(first["input"]), 80)
        raise InputError(f"{location}: {first['msg']}, found {shown}") from None


def _value(line: _Line[T]) -> T:
    return line.value


def _ratings(line: _Line[list[Rating]]) -> tuple[Rating, ...]:
    return tuple(line.value)


def _conversation(line: _Line[str]) -> Conversation:
    """Lines ``U: …`` and ``S: …``; a line without a speaker belongs to the utterance before it."""
    utterances: list[Utterance] = []
    for text in line.value.split("\n"):
        match = _LINE.fullmatch(text)
        if match:
            utterances.append(Utterance(match[1], match[2]))
        elif utterances:
            last = utterances[-1]
            utterances[-1] = Utterance(last.speaker, f"{last.text}\n{text}")
        else:
            raise InputError(f"{line.where}: the conversation does not start with 'U: ' or 'S: '")
    return Conversation(line.id, tuple(utterances))


def _check_turns(line: _Line[list[_AnnotatedRecord]] | _Line[list[_CuratedRecord]]) -> None:
    turns = [record["utterance"] for record in line.value]
    for last, turn in pairwise([-1, *turns]):
        if not last < turn < line.turns:
            expected = f"expected ascending user turns below {line.turns}"
            raise InputError(f"{line.where}: utterance {turn}; {expected}")


def _annotated(line: _Line[list[_AnnotatedRecord]]) -> tuple[AnnotatedTurn, ...]:
    _check_turns(line)
    turns = []
    for record in line.value:
        cells = tuple(map(tuple, record["intent_annotations"]))
        turns.append(AnnotatedTurn(record["utterance"], cells))
    return tuple(turns)


def _intents(line: _Line[list[_CuratedRecord]]) -> tuple[Intent, ...]:
    _check_turns(line)
    intents = []
    for record in line.value:
        turn = record["utterance"]
        for position, entry in enumerate(record["intents"]):
            name = f"{line.id}_{turn}_{position}"
            if entry["id"] != name:
                raise InputError(f"{line.where}: intent {entry['id']!r} should be {name!r}")
            variants = tuple(entry["query_variants"])
            intents.append(Intent(name, turn, position, entry["type"], variants, entry.get("product")))
    return tuple(intents)


def _users(
    talks: Mapping[str, Conversation],
    profiles: Mapping[str, dict[str, str]],
    keywords: Mapping[str, dict[str, list[str]]],
) -> dict[str, tuple[Buyer, ...]]:
    """The users of each conversation that has any, sorted by id."""
    users = {}
    for name in talks:
        if name not in profiles and name not in keywords:
            continue
        summaries = profiles.get(name, {})
        lists = {user: tuple(words) for user, words in keywords.get(name, {}).items()}
        buyers = [Buyer(user, summaries.get(user), lists.get(user)) for user in sorted({*summaries, *lists})]
        users[name] = tuple(buyers)
    return users


def _judgments(path: Path) -> Qrels:
    """The judgments as they are; InputError for a topic of another form or a grade that is not 0, 1 or 2."""
    qrels = read_qrels(path)
    for name, grades in qrels.items():
        topic(name)
        for document, grade in grades.items():
            if not 0 <= grade <= TOP_GRADE:
                wrong = f"grade {grade} of {document!r} under {name!r}"
                raise InputError(f"{_QRELS}: {wrong}; they go from 0 to {TOP_GRADE}")
    return qrels
