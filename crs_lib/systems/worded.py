"""Recommenders whose reply is written by a language model; tracking and retrieval stay rule-based.

The tracker keeps the constraints and offers candidates; the model chooses among them and writes. The
recommended films are read from the ids in a structured reply, or from the titles in a plain text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from crs_lib.catalog import fields, titles
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import Clause
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.titles import Foreign
from crs_lib.core import outside, prompts, rng
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.llm.base import BACKENDS, Message, Request, room, tokens_at_most, tokens_of
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import fence, one_line
from crs_lib.systems.base import SYSTEMS, System, SystemReply, World, check_model, rank
from crs_lib.systems.policies import Tracker


@dataclass(frozen=True)
class ParsedReply:
    """A model's answer, read: its text, the films recommended, the titles outside the catalogue.

    ``mentioned`` are catalogue films that the text names and that are not recommended.
    """

    text: str
    items: tuple[int, ...]
    foreign: tuple[Foreign, ...]
    mentioned: tuple[int, ...] = ()


class ReplyContext(NamedTuple):
    """The input of a reply: the films offered, the user's latest words, and the tracked constraints."""

    offered: tuple[int, ...]
    utterance: str
    constraints: Mapping[str, str] = MappingProxyType({})


def schema(ids: Sequence[str], most: int, longest: int | None = None) -> dict[str, Any]:
    """The JSON schema of a structured reply: a text (``longest`` characters at most), ids of films."""
    bound = {} if longest is None else {"maxLength": longest}
    return {
        "type": "object",
        "properties": {
            "reply": {"type": "string", "minLength": 1, **bound},
            "recommended": {"type": "array", "items": {"enum": list(ids)}, "maxItems": most},
        },
        "required": ["reply", "recommended"],
        "additionalProperties": False,
    }


def read(grounder: Grounder, answer: str, context: ReplyContext, *, structured: bool) -> ParsedReply:
    """The text, the recommended films and the other titles of a model's answer.

    In plain text every catalogue title counts as recommended, but for films that the user's latest
    words name and that were not offered: those are answers to a question. Structured, the ids count.
    """
    record = outside.loads(answer, "the reply") if structured else {"reply": answer}
    text = str(record["reply"]).strip()
    mentions = grounder.titles(text, prefer=context.offered)
    found = tuple(dict.fromkeys(mention.item for mention in mentions))
    if structured:
        by_id = {grounder.catalog.items[item].item_id: item for item in context.offered}
        items = tuple(dict.fromkeys(by_id[one] for one in record["recommended"]))
    else:
        about = {mention.item for mention in grounder.titles(context.utterance)} - set(context.offered)
        items = tuple(item for item in found if item not in about)
    foreign = grounder.unknown_titles(text, mentions, context.utterance)
    return ParsedReply(text, items, tuple(foreign), tuple(item for item in found if item not in items))


def without_foreign(grounder: Grounder, parsed: ParsedReply, context: ReplyContext) -> ParsedReply:
    """The answer without the sentences that name titles outside the catalogue.

    Films that the remaining text does not name are no longer recommended; the foreign titles stay on record.
    """
    text = titles.cut(parsed.text, parsed.foreign)
    left = {mention.item for mention in grounder.titles(text, prefer=context.offered)}
    return replace(parsed, text=text, items=tuple(item for item in parsed.items if item in left))


class Worded(Tracker):
    """The tracker, its replies chosen and worded by a language model; one conversation.

    Raises LLMError where the model gives no usable reply: there is never a stand-in text.
    """

    def __init__(self, world: World, seed: int, session: int, spec: str, model: str = "") -> None:
        super().__init__(world, seed, session, spec)
        self.model = model or spec
        if world.llms is None:
            raise InputError(f"system {spec!r} needs language models; give the World a Pool as llms")
        self.llms, self.rule = world.llms, world.wording
        self.lines: list[Line] = []

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Offer films for the tracked constraints and let the model answer."""
        draw = rng.stream(self.seed, "movies", self.session, "system", "offered", turn)
        constraints, avoid = self.believe(turn, text, user_meta)
        offered = rank(self.world.catalog, constraints, avoid, self.seen, draw, self.rule.offered)
        self.lines.append(quote(USER, text))
        parsed, extra = self._say(turn, ReplyContext(offered, text, constraints))
        self.lines.append(quote(SYSTEM, parsed.text))
        self.seen += [item for item in parsed.items if item not in self.seen]
        return SystemReply(
            parsed.text, parsed.items, constraints, tuple(one.title for one in parsed.foreign),
            {"offered_ids": self._ids(offered), **extra},
        )  # fmt: skip

    def _say(self, turn: int, context: ReplyContext) -> tuple[ParsedReply, dict[str, Any]]:
        """The model's answer, and what the log says of it; titles enforced where the settings say so."""
        prompt = self._prompt(context)
        answer = self.llms.complete(self.model, self._request(turn, prompt.text, context))
        parsed = read(self.world.grounder, answer.text, context, structured=self.rule.structured)
        extra = prompt.left_out() | ({"reply_cut": True} if answer.stop == "length" else {})
        if self.rule.enforce and parsed.foreign:
            parsed, enforced = self._enforced(turn, context, answer.text, parsed)
            extra |= enforced
        if parsed.mentioned:
            extra["mentioned_ids"] = self._ids(parsed.mentioned)
        return parsed, extra

    def _enforced(
        self, turn: int, context: ReplyContext, answer: str, parsed: ParsedReply
    ) -> tuple[ParsedReply, dict[str, Any]]:
        """A second answer, where the context has room to ask again; foreign titles are cut from the last."""
        names = tuple(one.title for one in parsed.foreign)
        log: dict[str, Any] = {"enforced": "cut unasked", "first_hallucinated": list(names)}
        more = (Message("assistant", shorten(answer, TURN_LIMIT)), ask_again(names))
        prompt = self._prompt(context, spare=tokens_at_most(more))
        request = self._request(turn, prompt.text, context, more)
        if tokens_at_most(request.messages) <= room(request.options):
            again = self.llms.complete(self.model, request).text
            parsed = read(self.world.grounder, again, context, structured=self.rule.structured)
            log["enforced"] = "cut" if parsed.foreign else "asked again"
        return (without_foreign(self.world.grounder, parsed, context) if parsed.foreign else parsed), log

    def _prompt(self, context: ReplyContext, spare: int = 0) -> "Prompt":
        return build_prompt(
            self.world.catalog, context.constraints, context.offered, self.lines, self.rule, spare
        )

    def _request(
        self, turn: int, prompt: str, context: ReplyContext, more: tuple[Message, ...] = ()
    ) -> Request:
        rule: LLMSettings = self.rule
        form = schema(self._ids(context.offered), rule.most, rule.reply_limit) if rule.structured else None
        return Request(
            (Message("user", prompt), *more), "crs", options=rule.options,
            schema=form,
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
    constraints: Mapping[str, str],
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
        "wishes": "\n".join(f"- {name}: {value}" for name, value in constraints.items()) or _NOTHING,
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
    facts = [
        _clause(row.in_prompt, one.values[row.name])
        for row in fields.most_telling()
        if row.in_prompt and one.values.get(row.name)
    ]
    if one.plot:
        facts.append(shorten(one.plot, 200))
    head = f"- [{one.item_id}] " if with_id else "- "
    year = f" ({one.year})" if one.year else ""
    return " ".join(f"{head}{one.title}{year}{': ' if facts else ''}{'; '.join(facts)}".split())


def _clause(clause: Clause, values: Sequence[str]) -> str:
    """A clause with a film's values filled in."""
    slot, text = ("$list", ", ".join) if "$list" in clause.text else ("$values", listing)
    return clause.text.replace(slot, text(values[: clause.most]))


def ask_again(foreign: Sequence[str]) -> Message:
    """The message to a model whose reply named films outside the catalogue."""
    named = ", ".join(one_line(shorten(title, 120)) for title in foreign[:10])
    return Message("user", prompts.render("movies/crs_again", foreign=named))


def longest(catalog: Catalog, rule: LLMSettings) -> int:
    """Tokens that the longest prompt of this catalogue may take before the context bounds it.

    The longest films on offer, a constraint in every field, and a question and a reply of full length. Raises
    InputError for an empty catalogue.
    """
    if not len(catalog):
        raise InputError("the catalogue holds no film; there is nothing to recommend")
    lengths = sorted(range(len(catalog)), key=lambda i: -len(film(catalog, i, with_id=True)))
    lines = "\n".join(film(catalog, i, with_id=True) for i in lengths[: rule.offered])
    bare = prompts.source("movies/crs_reply_json" if rule.structured else "movies/crs_reply")
    return tokens_at_most([Message("user", f"{bare}{lines}{'x' * (TURN_LIMIT + 600)}")])


@SYSTEMS.register(
    "worded", argument="a backend and its model", example="ollama:llama3:instruct", llm=True, mode=True,
    parse=check_model,
)  # fmt: skip
def _worded(world: World, seed: int, session: int, spec: str, argument: str) -> System:
    """The tracker understands and offers films; a model chooses among them and words the reply."""
    return Worded(world, seed, session, spec, argument)


def _register(backend: str, facts: Mapping[str, Any]) -> None:
    """Register the worded system of a model backend under the backend's own name."""

    def make(world: World, seed: int, session: int, spec: str, argument: str = "") -> System:
        return Worded(world, seed, session, spec)

    make.__doc__ = f"Mode worded: the tracker understands, {backend} chooses and words the reply."
    SYSTEMS.register(backend, llm=True, **facts)(make)


for _row in BACKENDS:
    _register(_row.name, {name: _row.facts[name] for name in ("argument", "example") if name in _row.facts})
