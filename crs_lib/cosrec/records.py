"""The parts of a CoSRec partition: conversations, ratings, annotated needs, users, judgments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from crs_lib.core.errors import InputError
from crs_lib.retrieval.runs import Qrels

Kind = Literal["search", "recommendation", "product_details"]
INTENTS: tuple[str, ...] = get_args(Kind)
ASPECTS = ("fluency", "informativeness", "logicality", "coherence")
MAPPINGS = ("as_documented", "zero_is_generic")
_TOPIC = re.compile(r"(([^#]*)_(\d+)_\d+)(?:#(\d+))?")  # intent, conversation, turn, user index
_Grade = Annotated[int, Field(ge=1, le=5)]


def number(conversation: str) -> int:
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
