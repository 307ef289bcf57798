"""Language models that understand for themselves: modes ``closed``, ``rag`` and ``free`` of every backend. No
tracker takes part and no logged constraint is shown: a model reads the conversation, and the films that its
mode gives it. A spec is ``mode:backend:model``, such as ``closed:ollama:llama3:instruct``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from crs_lib.catalog import grounder as grounding
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, YEAR_FIELD
from crs_lib.catalog.grounder import Foreign
from crs_lib.core import prompts, rng, safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Message, Reply, Request, room, tokens_at_most, tokens_of
from crs_lib.llm.text import one_line
from crs_lib.systems import base, search
from crs_lib.systems.base import ORACLE, SYSTEMS, Draw, Items, SystemReply, Wishes, World
from crs_lib.systems.policies import Oracle
from crs_lib.systems.settings import ModelSettings

if TYPE_CHECKING:
    from crs_lib.llm.client import Pool

REPLY_LIMIT, VALUE_LIMIT = 600, 80  # characters of a reply, and of a title or a constraint, in JSON
TURN_LIMIT = 2_000  # characters of one utterance that the model reads
COPIED = 8  # consecutive words of the instructions that make a reply a copied prompt
AGAIN = 0.7  # least temperature at which it is asked again: at 0 a seed changes nothing
_WORDS, _SLOT = re.compile(r"\w+"), re.compile(r"\$\{?\w+\}?")


class Offer(NamedTuple):
    """The films that a model may recommend (any other too if ``open``), named by ``ids``, or by numbers from
    1 without any; ``fields`` are those it may state constraints in; of more than ``most`` films the others do
    not count.
    """

    items: tuple[int, ...]
    open: bool = False
    fields: tuple[str, ...] = tuple(FIELDS)
    ids: tuple[str, ...] = ()
    most: int | None = None
    numbered: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The films as the model names them."""
        return self.ids or tuple(str(place) for place in range(1, len(self.items) + 1))

    def lines(self, catalog: Catalog) -> str:
        """The films as a list, one a line, which begins with its title, or with its number."""
        marks = [""] * len(self.items) if self.ids else [f"[{name}] " for name in self.names]
        rows = zip(marks, self.items, strict=True)
        return "\n".join(f"- {mark}{film_facts(catalog, item)}" for mark, item in rows) or "- none"


class _ParsedReply(NamedTuple):
    """A model's answer: text, films recommended, foreign titles, their stretches, films only named, state."""

    text: str
    items: tuple[int, ...]
    foreign: tuple[str, ...]
    cut: tuple[Foreign, ...]
    mentioned: tuple[int, ...]
    state: Mapping[str, str] | None


@lru_cache(maxsize=8192)
def film_facts(catalog: Catalog, item: int) -> str:
    """A film on one line: title, year, then every value by its field."""
    film = catalog.items[item]
    known = [(n, row) for n, row in catalog.fields.items() if n != YEAR_FIELD and film.values[n]]
    said = [f"{name} {', '.join(map(row.in_words, film.values[name]))}" for name, row in known]
    return " ".join(f"{_titled(catalog, item)}: {'; '.join(said)}".split())


def _titled(catalog: Catalog, item: int) -> str:
    """A film's title, with the year where it is known, on one line."""
    film = catalog.items[item]
    return " ".join((f"{film.title} ({film.year})" if film.year else film.title).split())


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def reply_schema(offer: Offer, llm: ModelSettings) -> dict[str, Any]:
    """The JSON schema of a reply: the stated constraints (optional), the films, the text."""
    short = {"type": "string", "maxLength": VALUE_LIMIT}
    named: dict[str, Any] = short if offer.open else {"enum": list(offer.names)}
    if not offer.open and not offer.items:
        named = {"type": "string", "maxLength": 0}
    properties = {"state": object_schema(dict.fromkeys(offer.fields, short))} if llm.state else {}
    most = llm.most if offer.open or offer.items else 0
    properties["recommended"] = {"type": "array", "items": named, "maxItems": most}
    properties["reply"] = {"type": "string", "minLength": 1, "maxLength": llm.reply_limit or REPLY_LIMIT}
    return object_schema(properties, "recommended", "reply")


def prompt_name(name: str, llm: ModelSettings) -> str:
    """The name of a prompt file: that of up to 0.2 where the settings ask for it and there is one."""
    old = f"movies/described/{name}"
    return old if llm.form == "described" and old in _told() else f"movies/{name}"


def form(offer: Offer, llm: ModelSettings) -> str:
    """The last words of a prompt: the form of an answer, behind the reminder that settings may ask for."""
    reminder = prompts.source("movies/crs_latest") + "\n\n" if llm.latest else ""
    if not llm.structured:
        return reminder + prompts.source("movies/crs_form_text")
    fields, kind = ", ".join(offer.fields), "ids" if offer.numbered else "titles"
    state = prompts.render(prompt_name("crs_form_state", llm), fields=fields) + " " if llm.state else ""
    return reminder + prompts.render(prompt_name(f"crs_form_{kind}", llm), state=state).rstrip()


@cache
def _told() -> tuple[str, ...]:
    """The names of the recommender's prompts, of both forms."""
    return tuple(name for name in prompts.names() if "/crs_" in name)


@cache
def _instructions(texts: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """Every run of ``COPIED`` words in these prompts; none goes across a slot."""
    parts = (_WORDS.findall(part.lower()) for text in texts for part in _SLOT.split(text))
    return frozenset(run for words in parts for run in _runs(words))


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + COPIED]) for start in range(len(words) - COPIED + 1))


def copied_prompt(text: str) -> bool:
    """Whether a text repeats at least ``COPIED`` consecutive words of the recommender's instructions."""
    told = _instructions(tuple(map(prompts.source, _told())))
    return any(run in told for run in _runs(_WORDS.findall(text.lower())))


class _BestOfList(Oracle):
    """The films of a list that meet most of the user's constraints: nobody can make more of the list."""

    honest = False
    listed: Items = ()

    def best(self, constraints: Wishes, avoid: Wishes, draw: Draw, n: int) -> Items:
        """At most ``n`` films of the list, all of the largest gain in it, those not shown before first."""
        stale = self.recent if self.others else ()
        films = [item for item in self.listed if item not in stale]
        met = {item: base.n_met(self.world.catalog, item, constraints, avoid) for item in films}
        top = max(met.values(), default=0)
        return tuple(sorted((i for i in met if met[i] == top > 0), key=self.seen.__contains__))[:n]


class ModelSystem:
    """One conversation of a language model without tracked state; LLMError where it gives no usable reply."""

    prompt: ClassVar[str] = ""
    counts_calls: ClassVar[bool] = True  # whether each call of a turn has a seed of its own, and a tag
    numbered: ClassVar[bool] = False  # whether films have numbers in place of titles

    def __init__(
        self, world: World, seed: int, session: int, spec: str, argument: str, shelf: Sequence[int] = ()
    ) -> None:
        if world.llms is None and argument != ORACLE:
            raise InputError(f"system {spec!r} needs language models; give the World a Pool as llms")
        self.world, self.llm = world, world.llm
        self.llms = cast("Pool", world.llms)  # none for oracle
        self.ceiling = _BestOfList(world, seed, session, spec, world.llm.most) if argument == ORACLE else None
        self.sees_state = self.ceiling is not None
        self.seed, self.session, self.spec, self.model = seed, session, spec, argument
        self.shelf = tuple(shelf)
        self.said: list[str] = []
        self.turns: list[list[Message]] = []  # what was said, turn by turn

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Let the model answer; ``user_meta`` is for ``oracle`` in its place alone."""
        self.said.append(text)
        offer = self.offer()
        if self.ceiling:
            self.ceiling.listed = offer.items
            return self.ceiling.reply(turn, text, user_meta)
        parsed, extra = self.answer(turn, offer, text)
        # films of earlier searches are not repeated: the latest list alone counts
        self.turns.append([Message("user", shorten(text, TURN_LIMIT)), Message("assistant", parsed.text)])
        return self.replied(parsed, offer, extra)

    @classmethod
    def longest(cls, catalog: Catalog, llm: ModelSettings) -> int:
        """Tokens that the longest prompt may take before the context bounds it: no earlier turn in it."""
        lengths = sorted((tokens_of(film_facts(catalog, i)) + 8 for i in range(len(catalog))), reverse=True)
        task = prompts.source(prompt_name(cls.prompt, llm))
        said = task + form(Offer((), open=True), llm) + "x" * TURN_LIMIT
        most = cls.films_shown(llm)
        return tokens_at_most([Message("user", said)]) + sum(lengths if most is None else lengths[:most])

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """The most films in a prompt; None for all of them."""
        return llm.listed or None

    def offered(self, items: tuple[int, ...], *, open: bool = False) -> Offer:
        """An offer of these films, named by title and year, which no other film shares, or by number."""
        catalog, numbered = self.world.catalog, self.numbered or self.llm.form == "described"
        titles = () if open or numbered else tuple(_titled(catalog, item) for item in items)
        return Offer(items, open, tuple(catalog.fields), titles, self.llm.most, numbered and not open)

    def offer(self) -> Offer:
        """The films that the model may recommend at this turn."""
        raise NotImplementedError

    def user_message(self, text: str, offer: Offer) -> str:
        """The user's words as the model gets them."""
        return text

    def system_message(self, offer: Offer) -> str:
        """The task, which comes first, and a session's films with it: an engine reads them once."""
        name = prompt_name(self.prompt, self.llm)
        films = {"films": offer.lines(self.world.catalog)} if "films" in prompts.wanted(name) else {}
        return prompts.render(name, most=self.llm.most, form=form(offer, self.llm), **films)

    def schema(self, offer: Offer) -> dict[str, Any] | None:
        """The JSON schema of the answer; None for plain text."""
        return reply_schema(offer, self.llm) if self.llm.structured else None

    def messages(
        self, offer: Offer, utterance: str, more: Sequence[Message] = ()
    ) -> tuple[tuple[Message, ...], dict[str, Any]]:
        """The messages of a turn with ``more`` behind them, and what the log says of those left out."""
        asked = Message("user", self.user_message(shorten(utterance, TURN_LIMIT), offer))
        messages, left_out = self.fitting(Message("system", self.system_message(offer)), [asked])
        return (*messages, *more), left_out

    def answer(self, turn: int, offer: Offer, utterance: str) -> tuple[_ParsedReply, dict[str, Any]]:
        """The model's answer, and what the log says of it; titles enforced where the settings say so."""
        messages, extra = self.messages(offer, utterance)
        said = self.ask(turn, messages, self.schema(offer))
        parsed = self.read(said, offer, utterance)
        extra |= {"reply_cut": True} if said.stop == "length" else {}
        if self.llm.enforce and parsed.foreign:
            parsed, log = self._enforced(turn, offer, said, parsed, utterance)
            extra |= log
        return parsed, extra

    def read(self, said: Reply, offer: Offer, utterance: str) -> _ParsedReply:
        """The answer in terms of the catalogue. Structured, the names on offer (open: the titles) are
        recommended; in plain text every title that the reply does not advise against, but for films not
        offered that the user's latest words name. Titles that the catalogue lacks are foreign.
        """
        grounder, structured = self.world.grounder, self.llm.structured
        record: Any = safety.loads(said.text, "the reply") if structured else {"reply": said.text}
        text = str(record["reply"]).strip()
        mentions = grounder.titles(text, prefer=offer.items)
        cut = grounder.unknown_titles(text, mentions, utterance)
        foreign = [one.title for one in cut]
        if structured and offer.open:
            items, others = grounding.films_named(grounder.catalog, record["recommended"])
            foreign = list(dict.fromkeys([*others, *foreign]))
        elif structured:
            by_name = dict(zip(offer.names, offer.items, strict=True))
            items = tuple(dict.fromkeys(by_name[one] for one in record["recommended"]))
        else:
            about = {mention.item for mention in grounder.titles(utterance)} - set(offer.items)
            items = tuple(item for item in grounder.recommended(text, mentions) if item not in about)
        stated = record.get("state")
        state = None if stated is None else {name: value for name, value in stated.items() if value}
        items = items[: offer.most]
        mentioned = tuple(dict.fromkeys(one.item for one in mentions if one.item not in items))
        return _ParsedReply(text, items, tuple(foreign), tuple(cut), mentioned, state)

    def _enforced(
        self, turn: int, offer: Offer, said: Reply, parsed: _ParsedReply, utterance: str
    ) -> tuple[_ParsedReply, dict[str, Any]]:
        """A second answer, where the context has room; foreign titles and films no longer named are cut."""
        log = {"enforced": "cut unasked", "first_hallucinated": list(parsed.foreign)}
        named = ", ".join(one_line(shorten(title, 120)) for title in parsed.foreign[:10])
        again = Message("user", prompts.render("movies/crs_again", foreign=named))
        more = (Message("assistant", shorten(said.text, TURN_LIMIT)), again)
        messages, _ = self.messages(offer, utterance, more)
        if tokens_at_most(messages) <= room(self.llm.options):
            parsed = self.read(self.ask(turn, messages, self.schema(offer), step=1), offer, utterance)
            log["enforced"] = "cut" if parsed.foreign else "asked again"
        if parsed.foreign:
            text = grounding.cut(parsed.text, parsed.cut)
            left = {mention.item for mention in self.world.grounder.titles(text, prefer=offer.items)}
            parsed = parsed._replace(text=text, items=tuple(item for item in parsed.items if item in left))
        return parsed, log

    def fitting(
        self, first: Message, last: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[tuple[Message, ...], dict[str, Any]]:
        """The messages of a call: the task, the latest turns that fit beside tools, this turn's messages."""
        free = room(self.llm.options) - tokens_at_most([first, *last], tools)
        kept: list[Message] = []
        shown = 0
        for turn in reversed(self.turns):
            free -= tokens_at_most(turn)
            if free < 0:
                break
            kept, shown = [*turn, *kept], shown + 1
        left_out = 2 * (len(self.turns) - shown)
        return (first, *kept, *last), ({"utterances_left_out": left_out} if left_out else {})

    def ask(
        self, turn: int, messages: Sequence[Message], schema: Mapping[str, Any] | None, step: int = 0,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:  # fmt: skip
        """One call; ``step`` counts those of a turn. A copied reply is asked for once more."""
        counted = {"step": step} if self.counts_calls else {}
        place = ("crs", turn, step) if step and counted else ("crs", turn)
        request = Request(
            tuple(messages), "crs", options=self.llm.options, schema=schema, tools=tuple(tools),
            seed=rng.address_seed(self.seed, "movies", self.session, *place),
            tags={"session": self.session, "system": self.spec, "turn": turn, **counted},
        )  # fmt: skip
        said = self.llms.complete(self.model, request)
        if self.llm.form == "described" or not copied_prompt(said.text):
            return said
        seed = rng.address_seed(request.seed or 0, "copied prompt")
        options = {**request.options, "temperature": max(AGAIN, self.llm.temperature)}
        try:
            return self.llms.complete(self.model, replace(request, seed=seed, options=options))
        except LLMError as error:  # no better words, or none kept: the first ones stay, and are counted
            if not (error.unusable or error.kind == "not recorded"):
                raise
            return said

    def replied(self, parsed: _ParsedReply, offer: Offer, extra: Mapping[str, Any]) -> SystemReply:
        """The reply, with what the log says of it."""
        log: dict[str, Any] = {} if offer.open else {"offered_ids": self.ids(offer.items)}
        if parsed.mentioned:
            log["mentioned_ids"] = self.ids(parsed.mentioned)
        if copied_prompt(parsed.text):
            log["copied_prompt"] = True
        if parsed.state is not None:
            log["state"] = dict(parsed.state)
        held = self.world.catalog.known_values(parsed.state or {})
        return SystemReply(parsed.text, parsed.items, held, parsed.foreign, log | dict(extra))

    def ids(self, items: Sequence[int]) -> list[str]:
        """The ids of films."""
        return [self.world.catalog.items[item].item_id for item in items]


# Registers a mode of every backend under its name.
register = partial(
    SYSTEMS.register, argument="a backend and its model", example="ollama:llama3:instruct",
    llm=True, mode=True, parse=base.check_model,
)  # fmt: skip


@register("closed", shelf=True, parse=base.check_reader)
class _Closed(ModelSystem):
    """A model with the conversation and one fixed list of films for all of it: understanding."""

    prompt = "crs_closed"

    def offer(self) -> Offer:
        """The session's films: the catalogue, or a draw with answers to the user's constraints."""
        if not self.shelf:
            self.shelf = base.drawn(self.world.catalog, self.llm.listed, self.seed, self.session)
        return self.offered(self.shelf)


@register("rag", parse=base.check_reader)
class _Rag(ModelSystem):
    """A model with the conversation and the films that a search finds for it: understanding, and choosing."""

    prompt = "crs_rag"

    def offer(self) -> Offer:
        """The best films of the search in random order: its own would tell which film the search chose."""
        how = search.search_kind(self.llm.retriever)
        hits = search.index(self.world.catalog).found(*how, self.said, self.llm.listed)
        draw = rng.stream(self.seed, "movies", self.session, "system", "listed", len(self.said))
        return self.offered(tuple(int(hits[place].id) for place in draw.permutation(len(hits)).tolist()))

    def user_message(self, text: str, offer: Offer) -> str:
        """The films found, then the user's words."""
        return prompts.render("movies/crs_rag_turn", films=offer.lines(self.world.catalog), text=text)


@register("free")
class _Free(ModelSystem):
    """A model with the conversation alone: what it remembers of films, and whether they exist."""

    prompt = "crs_free"

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """No film is shown."""
        return 0

    def offer(self) -> Offer:
        """Any film: titles are looked up in the catalogue afterwards."""
        return self.offered((), open=True)
