"""What CoSRec's files hold: conversations, ratings, needs, users, judgments; products and passages."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, Self, TypeVar, get_args

from pydantic import Field

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.runs import Qrels

Kind = Literal["search", "recommendation", "product_details"]
INTENTS: tuple[str, ...] = get_args(Kind)
ASPECTS = ("fluency", "informativeness", "logicality", "coherence")
MAPPINGS = ("as_documented", "zero_is_generic")
MAKE_PRODUCTS = "make products by: python -m crs_lib cosrec catalogue"
_TOPIC = re.compile(r"(([^#]*)_(\d+)_\d+)(?:#(\d+))?")  # intent, conversation, turn, user index
_SPACES = re.compile(r"\s+")
_Grade = Annotated[int, Field(ge=1, le=5)]


def conversation_number(conversation: str) -> int:
    """The number at the end of a conversation id: ids are not zero-padded, so they sort by it."""
    tail = conversation.rpartition("_")[2]
    if not tail.isdecimal():
        raise InputError(f"conversation id {conversation!r} does not end in _<number>")
    return int(tail)


class Utterance(NamedTuple):
    """One line of a conversation: speaker U or S, its text."""

    speaker: str
    text: str


class Conversation(NamedTuple):
    """A conversation as it was released; a turn is an utterance of the user, counted from 0."""

    id: str
    utterances: tuple[Utterance, ...]

    @property
    def turns(self) -> list[int]:
        """Positions of the user's utterances: ``turns[t]`` is where user turn ``t`` stands."""
        return [position for position, line in enumerate(self.utterances) if line.speaker == "U"]

    @property
    def speakers(self) -> str:
        """Who speaks in each line, U or S."""
        return "".join(line.speaker for line in self.utterances)

    def texts(self, speakers: str = "US") -> list[str]:
        """What was said, by some of the speakers, in order."""
        return [text for speaker, text in self.utterances if speaker in speakers]

    def said(self, turn: int) -> list[str]:
        """The user's turns up to and including a turn, in order."""
        return self.texts("U")[: turn + 1]

    def before(self, turn: int) -> str:
        """The line before a user turn, empty at the beginning."""
        position = self.turns[turn]
        if position == 0:
            return ""
        return self.utterances[position - 1].text


class Rating(NamedTuple):
    """One rater's view of a conversation, each aspect 1 to 5. Raters are anonymous and unlinked."""

    fluency: _Grade
    informativeness: _Grade
    logicality: _Grade
    coherence: _Grade


class IntentLabel(NamedTuple):
    """One annotator's view of a user turn: an intent and a stand-alone query for it."""

    type: Kind
    query: str


class AnnotatedTurn(NamedTuple):
    """All annotators' views of one user turn; an empty view means that the annotator saw no intent."""

    turn: int
    cells: tuple[tuple[IntentLabel, ...], ...]

    @property
    def views(self) -> list[set[str]]:
        """The intents that each annotator gave."""
        views: list[set[str]] = []
        for cell in self.cells:
            views.append({label.type for label in cell})
        return views


class Intent(NamedTuple):
    """A curated intent: ``<conversation>_<turn>_<position>``, its type, and its phrasings in file order."""

    id: str
    turn: int
    position: int
    type: str
    variants: tuple[str, ...]
    product: str | None

    @property
    def conversation(self) -> str:
        """The conversation's id; it holds an underscore itself."""
        return self.id.rsplit("_", 2)[0]

    @property
    def canonical(self) -> str:
        """The longest phrasing by characters; of equals the first in the file."""
        return max(self.variants, key=len)

    @property
    def formulations(self) -> list[str]:
        """All phrasings, each once: the canonical one, then the others in file order."""
        return list(dict.fromkeys([self.canonical, *self.variants]))


class Buyer(NamedTuple):
    """A simulated user of a conversation; None where the file has no entry for them."""

    id: str
    profile: str | None
    keywords: tuple[str, ...] | None


class Topic(NamedTuple):
    """A judged topic: a curated intent and, for recommendation (else ``kind`` is ``search``), a user index as
    released.
    """

    id: str
    intent: str
    conversation: str
    kind: str
    turn: int
    user_index: int | None


def topic(name: str) -> Topic:
    """Read a topic id: ``C_3_0`` is a search topic, ``C_3_0#2`` a recommendation for user index 2. Only the
    topic is looked at: passage ids hold '#' too. Raises InputError for another form.
    """
    match = _TOPIC.fullmatch(name)
    if match is None:
        raise InputError(f"topic {name!r} has not the form <conversation>_<turn>_<position>[#<user index>]")
    intent, conversation, turn, user = match.groups()
    if user is None:
        return Topic(name, intent, conversation, "search", int(turn), None)
    return Topic(name, intent, conversation, "recommendation", int(turn), int(user))


@dataclass(frozen=True)
class Partition:
    """One of raw, crowd, curated; what its folder lacks is empty; ``hashes`` are of its files."""

    name: str
    conversations: dict[str, Conversation]
    ratings: dict[str, tuple[Rating, ...]] = field(default_factory=dict)
    annotations: dict[str, tuple[AnnotatedTurn, ...]] = field(default_factory=dict)
    intents: dict[str, tuple[Intent, ...]] = field(default_factory=dict)
    users: dict[str, tuple[Buyer, ...]] = field(default_factory=dict)
    qrels: Qrels = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)

    def all_intents(self) -> list[Intent]:
        """Every curated intent, by conversation, turn and position."""
        intents: list[Intent] = []
        for name in self.conversations:
            intents += self.intents.get(name, ())
        return intents

    def user_turns(self) -> list[tuple[Conversation, int]]:
        """Every user turn: its conversation and its number, in order."""
        turns = []
        for talk in self.conversations.values():
            for turn in range(len(talk.turns)):
                turns.append((talk, turn))
        return turns

    def records_of(self, conversation: str) -> dict[int, AnnotatedTurn]:
        """The annotated turns of a conversation by their numbers; turns without record are left out."""
        return {record.turn: record for record in self.annotations.get(conversation, ())}

    def topics(self) -> list[str]:
        """The judged topics; where nothing is judged, all intents of search, and of recommendation by user. A
        recommendation has one index more than its conversation has users, as in the release.
        """
        if self.qrels:
            return list(self.qrels)
        topics = []
        for intent in self.all_intents():
            if intent.type == "search":
                topics.append(intent.id)
            if intent.type == "recommendation":
                users = self.users.get(intent.conversation, ())
                topics += [f"{intent.id}#{index}" for index in range(len(users) + 1)]
        return topics


def balance(what: str, read: int, left_out: Mapping[str, int], where: str) -> str:
    """The line that ends a command: how many were read, how many left out and why, where the list lies."""
    reasons = [f"{number:,} {reason}" for reason, number in left_out.items() if number]
    shown = "none"
    if reasons:
        shown = f"{sum(left_out.values()):,} ({', '.join(reasons)})"
    return f"{what} read: {read:,}; left out: {shown}; list: {where}"


def user_of(partition: Partition, judged: Topic, mapping: str) -> Buyer | None:
    """The user that a topic's index stands for, or None where that is not resolved. The release does not say
    it: every intent has one index more than its conversation has users. ``as_documented`` takes the index as
    the rank of the user id (the top index has no user); ``zero_is_generic`` takes 0 as the request without a
    user and index k as user k - 1. Report results under both. Raises InputError for another mapping.
    """
    if mapping not in MAPPINGS:
        raise InputError(f"user mapping {mapping!r} is not known; use one of {', '.join(MAPPINGS)}")
    rank = judged.user_index
    if rank is None:
        return None
    if mapping == "zero_is_generic":
        rank -= 1
    users = sorted(partition.users.get(judged.conversation, ()))
    if 0 <= rank < len(users):
        return users[rank]
    return None


class Item(Protocol):
    """A product or a passage."""

    @property
    def id(self) -> str: ...

    @classmethod
    def read(cls, line: bytes) -> Self: ...

    def search_text(self) -> str: ...


D = TypeVar("D", bound=Item)


class Review(NamedTuple):
    """A buyer's review of the product with the title ``product``."""

    user: str
    timestamp: int
    product: str
    title: str
    text: str
    helpful: int


class CatalogueProduct(NamedTuple):
    """A product of the catalogue as conversations use it; its id is the ASIN."""

    id: str
    title: str
    description: tuple[str, ...]
    price: float
    categories: tuple[str, ...]
    reviews: tuple[Review, ...]

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The product of a line; ValueError, KeyError or TypeError where the line holds none."""
        row = safety.loads(line, "the line")
        title = str(row["title"])
        reviews = []
        for entry in row["valid_reviews"] or ():
            text = entry["title"], entry["text"]
            reviews.append(Review(entry["user"], entry["timestamp"], title, *text, entry["helpful"]))
        description = tuple(row["description"])
        categories = tuple(row["categories"])
        return cls(
            str(row["parent_asin"]), title, description, float(row["price"]), categories, tuple(reviews)
        )

    def search_text(self) -> str:
        """The text that the product is found by."""
        return f"{self.title}\n" + "\n".join(self.description)

    def best_reviews(self, most: int) -> list[Review]:
        """The most helpful reviews, of equals the newer first."""
        return sorted(self.reviews, key=lambda review: (-review.helpful, -review.timestamp, review.text))[
            :most
        ]

    def block(self, reviews: int, description: bool = True) -> str:
        """The product as a prompt shows it: title, price, description, its most helpful reviews."""
        lines = [f"{self.title}, ${self.price:.2f}"]
        if description:
            lines += [f"- {part}" for part in self.description]
        for review in self.best_reviews(reviews):
            lines.append(f'- a buyer: "{review.title}. {review.text}"')
        return "\n".join(_SPACES.sub(" ", line) for line in lines)


def _text(row: Any, key: str) -> str:
    """A text of a line; ValueError where there is none."""
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key!r} is {value!r}; expected a text")
    return value


class Passage(NamedTuple):
    """A passage of the document collection (``docid, title, segment``)."""

    id: str
    title: str
    text: str

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The passage of a line: JSON (MS MARCO v2.1's) or ``id<TAB>text`` (v1's); errors as a product's."""
        if not line.startswith(b"{"):
            name, tab, text = line.decode().partition("\t")
            if not tab:
                raise ValueError("neither JSON with docid and segment, nor an id, a tab and a text")
            return cls(name, "", text)
        row = safety.loads(line, "the line")
        return cls(_text(row, "docid"), str(row.get("title") or ""), _text(row, "segment"))

    def search_text(self) -> str:
        """The text that the passage is found by."""
        return f"{self.title} {self.text}"

    def block(self) -> str:
        """The passage as a prompt shows it."""
        text = self.text
        if self.title:
            text = f"{self.title}: {text}"
        return _SPACES.sub(" ", text)


def file_of(folder: Path, name: str) -> Path:
    """``products.jsonl`` of a folder, the same with ``.gz`` or ``.zst``, or a folder ``products/``. Where a
    file is named in place of the folder it holds the products, and what else there is lies beside it.
    """
    if folder.is_file():
        if name == "products":
            return folder
        folder = folder.parent
    usual = folder / f"{name}.jsonl"
    for path in (usual, folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl.zst", folder / name):
        if path.exists():
            return path
    return usual


def files_of(path: Path) -> list[Path]:
    """The files of a folder (MS MARCO's passages); of a file, and of an empty folder, the path itself."""
    files = []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
    return files or [path]


def read_lines(path: Path, kind: type[D]) -> Iterator[tuple[bytes, D]]:
    """The lines of plain, ``.gz`` or ``.zst`` files, each with the product or passage that it holds. Raises
    RunError where there is no file, InputError naming the line that is broken, has no id of one word or that
    of an earlier line, or behind which the file breaks off.
    """
    import pyarrow as pa

    seen: set[str] = set()
    for file in files_of(path):
        if not file.is_file():
            raise RunError(f"no file {paths.shown(file)}; {MAKE_PRODUCTS}")
        stream = io.BufferedReader(pa.input_stream(str(file), compression="detect"), 1 << 18)
        with safety.unpacked(stream, file) as lines:
            yield from _read(lines, kind, file.name, seen)


def _read(lines: Iterable[bytes], kind: type[D], name: str, seen: set[str]) -> Iterator[tuple[bytes, D]]:
    number = 0
    try:
        for line in lines:
            number += 1
            if line.strip():
                body = line.rstrip(b"\r\n")
                record = kind.read(body)
                _check_id(record.id, seen)
                yield body, record
    except OSError as error:
        raise InputError(f"{name} breaks off after line {number}: {error}") from error
    except KeyError as error:
        raise InputError(f"{name}, line {number}: {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}, line {number}: {error}") from error


def _check_id(name: str, seen: set[str]) -> None:
    """ValueError for an id that is not one word, or one of an earlier line."""
    if len(name.split()) != 1:
        raise ValueError(f"the id {name!r} is empty or holds blanks")
    if name in seen:
        raise ValueError(f"the id {name!r} stands in an earlier line, too; keep one of them")
    seen.add(name)
