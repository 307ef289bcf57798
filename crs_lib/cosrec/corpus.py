"""Load CoSRec: typed, checked, and unrepaired; what is odd but readable is left to the quirk report."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from crs_lib.core import hashes, outside, paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec.records import (
    ASPECTS,
    INTENTS,
    AnnotatedTurn,
    Buyer,
    Conversation,
    Intent,
    IntentLabel,
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
T = TypeVar("T")


def locate(source: str = "sample") -> Path:
    """The folder of a corpus: ``sample`` (ours, committed), ``cosrec`` (the release), or a path.

    The release is looked for in ``CRS_MIRROR`` and then among the downloads. Raises RunError with the
    command that fetches it.
    """
    if source == "sample":
        return paths.samples() / "cosrec"
    mirror = paths.mirror()
    places = [folder / "cosrec" for folder in (mirror, paths.external()) if folder]
    if source != "cosrec":
        places = [paths.given(source)]
    for place in places:
        if any((place / part).is_dir() for part in PARTITIONS):
            return place
    hint = "; fetch it with: python -m crs_lib data get cosrec" if source == "cosrec" else ""
    raise RunError(f"no CoSRec corpus in {source!r} (a folder with {', '.join(PARTITIONS)}){hint}")


def load(folder: Path, name: str) -> Partition:
    """One partition. Only its conversations must be there; the rest may be absent and is named.

    Raises RunError for a missing partition, InputError (file, line, what was found) for what breaks the
    data contract: no JSON, no UTF-8, several keys in a line, an id twice or unknown, an intent type, rating
    or grade that is none, a text that is none, a turn that the conversation does not have.
    """
    if name not in PARTITIONS:
        raise InputError(f"partition {name!r} is not known; use one of {', '.join(PARTITIONS)}")
    return read_partition(folder / name)


def read_partition(base: Path) -> Partition:
    """The partition in a folder of any name; errors as those of :func:`load`."""
    name = base.name
    if not (base / "conversations.jsonl").is_file():
        raise RunError(
            f"no {name}/conversations.jsonl in the corpus"
            + (
                "; the raw partition is a separate download (python -m crs_lib data get cosrec)"
                * (name == "raw")
            )
        )
    read = _Reader(base)
    conversations = read("conversations.jsonl", lambda where, key, value: _conversation(where, key, value))
    read.known = conversations
    ratings = read(
        "quality.jsonl", lambda where, _, value: tuple(_rating(where, r) for r in _items(where, value))
    )
    annotations = read("intent_annotations.jsonl", lambda w, key, v: _annotated(w, conversations[key], v))
    intents = read("intents.jsonl", lambda where, key, value: _intents(where, conversations[key], value))
    profiles = read("profiles.jsonl", lambda where, _, value: _users(where, value, str))
    keywords = read("keywords.jsonl", lambda where, _, value: _users(where, value, list))
    users = {
        key: tuple(
            Buyer(user, profiles.get(key, {}).get(user), _keywords(keywords.get(key, {}).get(user)))
            for user in sorted({*profiles.get(key, {}), *keywords.get(key, {})})
        )
        for key in conversations
        if key in profiles or key in keywords
    }
    path = base / "qrels.qrels"
    qrels = _judgments(read_qrels(path)) if read.has(path.name) else {}
    return Partition(
        name, conversations, ratings, annotations, intents, users, qrels, tuple(read.absent), read.hashes
    )


def _judgments(qrels: Qrels) -> Qrels:
    """The judgments as they are; InputError for a topic of another form or a grade that is not 0, 1 or 2."""
    for name, grades in qrels.items():
        topic(name)
        wrong = next((item for item in grades.items() if not 0 <= item[1] <= TOP_GRADE), None)
        if wrong:
            raise InputError(
                f"qrels.qrels: grade {wrong[1]} of {wrong[0]!r} under {name!r}; they go from 0 to {TOP_GRADE}"
            )
    return qrels


def _keywords(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


class _Reader:
    """Reads the files of one folder: one object a line, one conversation id a line, sorted by number."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.absent = folder, list[str]()
        self.hashes: dict[str, str] = {}
        self.known: Mapping[str, Any] | None = None

    def has(self, name: str) -> bool:
        path = self.folder / name
        if not path.is_file():
            self.absent.append(name)
            return False
        self.hashes[name] = hashes.sha256(path)
        return True

    def __call__(self, name: str, make: Callable[[str, str, Any], T]) -> dict[str, T]:
        if not self.has(name):
            return {}
        found: dict[str, T] = {}
        for where, key, value in _lines(self.folder / name):
            if key in found:
                raise InputError(f"{where}: conversation {key!r} stands twice")
            if self.known is not None and key not in self.known:
                raise InputError(f"{where}: conversation {key!r} is not in conversations.jsonl")
            found[key] = make(where, key, value)
        return {key: found[key] for key in sorted(found, key=number)}


def _lines(path: Path) -> Iterator[tuple[str, str, Any]]:
    """Place, conversation id and value of every line; blank lines are passed over."""
    with path.open("rb") as file:
        for row, line in enumerate(file, start=1):
            where = f"{path.parent.name}/{path.name}, line {row}"
            if line.isspace():
                continue
            record = _record(where, line)
            if not isinstance(record, dict) or len(record) != 1:
                raise InputError(f"{where}: expected an object with one conversation id as its only key")
            (key, value), *_ = record.items()
            number(key)
            yield where, key, value


def _record(where: str, line: bytes) -> Any:
    try:
        return outside.loads(line.decode("utf-8-sig"), where, unique=True)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason})") from error


def _items(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, found {type(value).__name__}")
    return value


def _object(where: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: {what} must be an object, found {type(value).__name__}")
    return value


def _texts(where: str, values: Any, what: str) -> tuple[str, ...]:
    found = _items(where, values)
    wrong = [value for value in found if not isinstance(value, str)]
    if wrong:
        raise InputError(f"{where}: {what} must be texts, found {wrong[0]!r}")
    return tuple(found)


def _conversation(where: str, key: str, value: Any) -> Conversation:
    """Lines ``U: …`` and ``S: …``; a line without a speaker belongs to the utterance before it."""
    if not isinstance(value, str):
        raise InputError(f"{where}: a conversation must be a text")
    said: list[Utterance] = []
    for line in value.split("\n"):
        match = _LINE.fullmatch(line)
        if match:
            said.append(Utterance(match[1], match[2]))
        elif said:
            said[-1] = Utterance(said[-1].speaker, f"{said[-1].text}\n{line}")
        else:
            raise InputError(f"{where}: the conversation does not start with 'U: ' or 'S: '")
    return Conversation(key, tuple(said))


def _rating(where: str, value: Any) -> Rating:
    if not isinstance(value, dict) or set(value) != set(ASPECTS):
        raise InputError(f"{where}: a rating must have exactly the keys {', '.join(ASPECTS)}")
    if any(type(value[aspect]) is not int or not 1 <= value[aspect] <= 5 for aspect in ASPECTS):
        raise InputError(f"{where}: ratings must be whole numbers from 1 to 5, found {value}")
    return Rating(**value)


def _turns(where: str, conversation: Conversation, value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    last, turns = -1, len(conversation.turns)
    for record in _items(where, value):
        turn = record.get("utterance") if isinstance(record, dict) else None
        if type(turn) is not int or not last < turn < turns:
            raise InputError(f"{where}: utterance {turn!r}; expected ascending user turns below {turns}")
        last = turn
        yield turn, record


def _type(where: str, value: Any) -> str:
    if value not in INTENTS:
        raise InputError(f"{where}: intent type {value!r}; expected one of {', '.join(INTENTS)}")
    return str(value)


def _annotated(where: str, conversation: Conversation, value: Any) -> tuple[AnnotatedTurn, ...]:
    return tuple(
        AnnotatedTurn(
            turn,
            tuple(
                tuple(_need(where, need) for need in _items(where, cell))
                for cell in _items(where, record.get("intent_annotations"))
            ),
        )
        for turn, record in _turns(where, conversation, value)
    )


def _need(where: str, value: Any) -> IntentLabel:
    need = _object(where, value, "an intent")
    return IntentLabel(_type(where, need.get("type")), *_texts(where, [need.get("query")], "queries"))


def _intents(where: str, conversation: Conversation, value: Any) -> tuple[Intent, ...]:
    found = []
    for turn, record in _turns(where, conversation, value):
        for position, value in enumerate(_items(where, record.get("intents"))):
            expected = f"{conversation.id}_{turn}_{position}"
            intent = _object(where, value, "an intent")
            variants = _texts(where, intent.get("query_variants"), "query variants")
            if intent.get("id") != expected or not variants:
                raise InputError(
                    f"{where}: intent {intent.get('id')!r} should be {expected!r}, with variants"
                )
            kind, product = _type(where, intent.get("type")), intent.get("product")
            if not isinstance(product, str | None):
                raise InputError(f"{where}: product {product!r} of {expected!r} must be a text")
            found.append(Intent(expected, turn, position, kind, variants, product))
    return tuple(found)


def _users(where: str, value: Any, form: type) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(item, form) for item in value.values()):
        raise InputError(f"{where}: expected an object of user ids, each with a {form.__name__}")
    for item in value.values() if form is list else ():
        _texts(where, item, "keywords")
    return value
