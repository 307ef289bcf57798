"""Systems whose replies a language model words; wishes are read, and films looked up, by rule.

The tracker keeps the constraints and offers candidates; the model chooses among them and writes. What
it recommends is read from the ids it names (structured) or from the titles in its text (plain).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from crs_lib import prompts
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import rng
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.grounding import unknown_titles
from crs_lib.grounding.grounder import Grounder
from crs_lib.grounding.unknown_titles import Foreign
from crs_lib.llm.backends import BACKENDS
from crs_lib.llm.base import Message, Request
from crs_lib.llm.limits import room, tokens_at_most, tokens_of
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import fence, one_line
from crs_lib.systems.base import SYSTEMS, Reply, System, World, rank
from crs_lib.systems.policies import Tracker


@dataclass(frozen=True)
class Said:
    """What was made of a model's answer: text, films recommended, titles outside the catalogue.

    ``mentioned`` are catalogue films that the text names and that are not recommended.
    """

    text: str
    items: tuple[int, ...]
    foreign: tuple[Foreign, ...]
    mentioned: tuple[int, ...] = ()


class Asked(NamedTuple):
    """What a call was about: the films offered, the user's latest words, and the wishes as tracked."""

    offered: tuple[int, ...]
    heard: str
    wishes: Mapping[str, str] = MappingProxyType({})


def schema(ids: Sequence[str], most: int) -> dict[str, Any]:
    """The JSON schema of a structured reply: a text, then ids of offered films."""
    return {
        "type": "object",
        "properties": {
            "reply": {"type": "string", "minLength": 1},
            "recommended": {"type": "array", "items": {"enum": list(ids)}, "maxItems": most},
        },
        "required": ["reply", "recommended"],
        "additionalProperties": False,
    }


def read(grounder: Grounder, answer: str, asked: Asked, *, structured: bool) -> Said:
    """What a model's answer says and recommends.

    In plain text every catalogue title counts as recommended, but for films that the user's latest
    words name and that were not offered: those are answers to a question. Structured, the ids count.
    """
    record = json.loads(answer) if structured else {"reply": answer}
    text = str(record["reply"]).strip()
    mentions = grounder.titles(text, prefer=asked.offered)
    found = tuple(dict.fromkeys(mention.item for mention in mentions))
    if structured:
        by_id = {grounder.catalog.items[item].item_id: item for item in asked.offered}
        items = tuple(dict.fromkeys(by_id[one] for one in record["recommended"]))
    else:
        about = {mention.item for mention in grounder.titles(asked.heard)} - set(asked.offered)
        items = tuple(item for item in found if item not in about)
    foreign = unknown_titles.find(grounder, text, [(m.start, m.end) for m in mentions], asked.heard)
    return Said(text, items, tuple(foreign), tuple(item for item in found if item not in items))


def without_foreign(grounder: Grounder, said: Said, asked: Asked) -> Said:
    """The answer without the sentences that name titles outside the catalogue.

    What is recommended is then what the remaining text names; the titles stay on record.
    """
    text = unknown_titles.cut(said.text, said.foreign)
    left = {mention.item for mention in grounder.titles(text, prefer=asked.offered)}
    return replace(said, text=text, items=tuple(item for item in said.items if item in left))


class Worded(Tracker):
    """The tracker, its replies chosen and worded by a language model; one conversation.

    Raises LLMError where the model gives no usable reply: there is never a stand-in text.
    """

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        super().__init__(world, seed, session, spec)
        if world.llms is None:
            raise InputError(f"system {spec!r} needs language models; give the World a Pool as llms")
        self.llms, self.rule = world.llms, world.wording
        self.lines: list[Line] = []

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Reply:
        """Offer films for the tracked wishes and let the model answer."""
        draw = rng.stream(self.seed, "movies", self.session, "system", "offered", turn)
        wishes, avoid = self.believe(turn, text, user_meta)
        offered = rank(self.world.catalog, wishes, avoid, self.seen, draw, self.rule.offered)
        self.lines.append(quote(USER, text))
        said, extra = self._say(turn, Asked(offered, text, wishes))
        self.lines.append(quote(SYSTEM, said.text))
        self.seen += [item for item in said.items if item not in self.seen]
        return Reply(
            said.text, said.items, wishes, tuple(one.title for one in said.foreign),
            {"offered_ids": self._ids(offered), **extra},
        )  # fmt: skip

    def _say(self, turn: int, asked: Asked) -> tuple[Said, dict[str, Any]]:
        """The model's answer, and what the log says of it; titles enforced where the settings say so."""
        prompt = self._prompt(asked)
        answer = self.llms.complete(self.spec, self._request(turn, prompt.text, asked))
        said = read(self.world.grounder, answer.text, asked, structured=self.rule.structured)
        extra = prompt.left_out() | ({"reply_cut": True} if answer.stop == "length" else {})
        if self.rule.enforce and said.foreign:
            said, enforced = self._enforced(turn, asked, answer.text, said)
            extra |= enforced
        if said.mentioned:
            extra["mentioned_ids"] = self._ids(said.mentioned)
        return said, extra

    def _enforced(self, turn: int, asked: Asked, answer: str, said: Said) -> tuple[Said, dict[str, Any]]:
        """The answer asked for once more, as far as the context has room for that, and then cut."""
        names = tuple(one.title for one in said.foreign)
        log: dict[str, Any] = {"enforced": "cut unasked", "first_hallucinated": list(names)}
        more = (Message("assistant", shorten(answer, TURN_LIMIT)), ask_again(names))
        prompt = self._prompt(asked, spare=tokens_at_most(more))
        request = self._request(turn, prompt.text, asked, more)
        if tokens_at_most(request.messages) <= room(request.options):
            again = self.llms.complete(self.spec, request).text
            said = read(self.world.grounder, again, asked, structured=self.rule.structured)
            log["enforced"] = "cut" if said.foreign else "asked again"
        return (without_foreign(self.world.grounder, said, asked) if said.foreign else said), log

    def _prompt(self, asked: Asked, spare: int = 0) -> "Prompt":
        return build_prompt(self.world.catalog, asked.wishes, asked.offered, self.lines, self.rule, spare)

    def _request(self, turn: int, prompt: str, asked: Asked, more: tuple[Message, ...] = ()) -> Request:
        rule: LLMSettings = self.rule
        return Request(
            (Message("user", prompt), *more), "crs", options=rule.options,
            schema=schema(self._ids(asked.offered), rule.most) if rule.structured else None,
            seed=rng.address_seed(self.seed, "movies", self.session, "crs", turn),
            tags={"session": self.session, "system": self.spec, "turn": turn},
        )  # fmt: skip

    def _ids(self, items: Sequence[int]) -> list[str]:
        return [self.world.catalog.items[item].item_id for item in items]


TURN_LIMIT = 2_000  # characters of one utterance that the model reads
_NOTHING = "- nothing that is recorded yet"


class Prompt(NamedTuple):
    """The text of a prompt, and how many of the oldest utterances did not fit into it."""

    text: str
    lines_left_out: int

    def left_out(self) -> dict[str, Any]:
        """The record of what was left out; empty where everything fits."""
        return {"utterances_left_out": self.lines_left_out} if self.lines_left_out else {}


class Line(NamedTuple):
    """An utterance as a prompt quotes it, and the tokens that it may take with its line end."""

    text: str
    tokens: int


def quote(speaker: str, text: str) -> Line:
    """An utterance as one JSON string of at most 2,000 characters."""
    line = f"{speaker}: {one_line(shorten(text, TURN_LIMIT))}"
    return Line(line, tokens_of(line) + 1)


def build_prompt(
    catalog: Catalog,
    wishes: Mapping[str, str],
    offered: Sequence[int],
    lines: Sequence[Line],
    rule: LLMSettings,
    spare: int = 0,
) -> Prompt:
    """The prompt for the next reply. ``lines`` are the utterances, oldest first, the user's last.

    As many of the latest utterances as fit into the context are quoted, ``spare`` tokens left free for
    further messages; the last utterance always is.
    """
    name = "movies/crs_reply_json" if rule.structured else "movies/crs_reply"
    values: dict[str, str | int] = {
        "wishes": "\n".join(f"- {name}: {value}" for name, value in wishes.items()) or _NOTHING,
        "candidates": "\n".join(film(catalog, item, with_id=rule.structured) for item in offered),
        "most": min(rule.most, len(offered)),
    }
    bare = prompts.render(name, **values, conversation="", fence="0" * 16)
    free = room(rule.options) - tokens_at_most([Message("user", bare)]) - spare
    shown, needed = len(lines), sum(line.tokens for line in lines)
    while shown > 1 and needed > free:
        needed -= lines[-shown].tokens
        shown -= 1
    kept = [line.text for line in lines[-shown:]]
    text = prompts.render(name, **values, conversation="\n".join(kept), fence=fence(kept))
    return Prompt(text, len(lines) - shown)


@lru_cache(maxsize=4096)
def film(catalog: Catalog, item: int, *, with_id: bool) -> str:
    """A film on offer as one line: id, title, year, then what is known of it."""
    one = catalog.items[item]
    values = one.values
    facts = [", ".join(values["genre"][:3])] if values["genre"] else []
    facts += [f"directed by {listing(values['director'][:2])}"] if values["director"] else []
    facts += [f"with {listing(values['actor'][:3])}"] if values["actor"] else []
    facts += [f"in {listing(values['language'][:2])}"] if values["language"] else []
    if one.plot:
        facts.append(shorten(one.plot, 200))
    head = f"- [{one.item_id}] " if with_id else "- "
    year = f" ({one.year})" if one.year else ""
    return " ".join(f"{head}{one.title}{year}{': ' if facts else ''}{'; '.join(facts)}".split())


def ask_again(foreign: Sequence[str]) -> Message:
    """What is said to a model whose reply named films outside the catalogue."""
    named = ", ".join(one_line(shorten(title, 120)) for title in foreign[:10])
    return Message("user", prompts.render("movies/crs_again", foreign=named))


def longest(catalog: Catalog, rule: LLMSettings) -> int:
    """Tokens that the longest prompt of this catalogue may take before the context bounds it.

    The longest films on offer, a wish in every field, and a question and a reply of full length. Raises
    InputError for an empty catalogue.
    """
    if not len(catalog):
        raise InputError("the catalogue holds no film; there is nothing to recommend")
    lengths = sorted(range(len(catalog)), key=lambda i: -len(film(catalog, i, with_id=True)))
    lines = "\n".join(film(catalog, i, with_id=True) for i in lengths[: rule.offered])
    bare = prompts.source("movies/crs_reply_json" if rule.structured else "movies/crs_reply")
    return tokens_at_most([Message("user", f"{bare}{lines}{'x' * (TURN_LIMIT + 600)}")])


def _register(backend: str, facts: Mapping[str, Any]) -> None:
    """Register the worded system of a model backend under the backend's own name."""

    def make(world: World, seed: int, session: int, spec: str, argument: str = "") -> System:
        return Worded(world, seed, session, spec)

    make.__doc__ = f"Films offered by the tracker; {backend} chooses and words the reply."
    SYSTEMS.register(backend, llm=True, **facts)(make)


for _row in BACKENDS:
    _register(_row.name, {name: _row.facts[name] for name in ("argument", "example") if name in _row.facts})
