"""Language models that understand for themselves: modes ``closed``, ``rag`` and ``free`` of every backend. No
tracker takes part and no logged constraint is shown: a model reads the conversation, and the films that its
mode gives it. A spec is ``mode:backend:model``, such as ``closed:ollama:llama3:instruct``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from crs_lib.catalog import titles as written_titles
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, YEAR_FIELD
from crs_lib.core import prompts, rng, safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Message, Reply, Request, room, tokens_at_most, tokens_of
from crs_lib.llm.text import one_line
from crs_lib.systems import base, search
from crs_lib.systems.base import ORACLE, SYSTEMS, Draw, Items, System, SystemReply, Wishes, World
from crs_lib.systems.policies import Oracle
from crs_lib.systems.replies import SaidReply, Understood
from crs_lib.systems.settings import ModelSettings

if TYPE_CHECKING:
    from crs_lib.llm.client import Pool

REPLY_LIMIT, VALUE_LIMIT = 600, 80  # characters of a reply, and of a title or a constraint, in JSON
TURN_LIMIT = 2_000  # characters of one utterance that the model reads
COPIED = 8  # consecutive words of the instructions that make a reply a copied prompt
AGAIN = 0.7  # least temperature at which it is asked again: at 0 a seed changes nothing
_LINE_TOKENS = 8  # what stands around a film in a list
_WORDS, _SLOT = re.compile(r"\w+"), re.compile(r"\$\{?\w+\}?")
Schema = dict[str, Any]  # a JSON schema


class AllowedFilms(NamedTuple):
    """The films that a model may recommend (any other too if ``open``), named by ``ids``, or by numbers from
    1 without any; ``fields`` are those it may state constraints in; of more than ``most`` films the others do
    not count.
    """

    items: Items
    open: bool = False
    fields: tuple[str, ...] = tuple(FIELDS)
    ids: tuple[str, ...] = ()
    most: int | None = None
    numbered: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The films as the model names them."""
        return self.ids or tuple(str(number) for number in range(1, len(self.items) + 1))

    def lines(self, catalog: Catalog) -> str:
        """The films as a list, one a line, which begins with its title, or with its number."""
        lines = []
        for name, item in zip(self.names, self.items, strict=True):
            mark = "" if self.ids else f"[{name}] "
            lines.append(f"- {mark}{film_facts(catalog, item)}")
        return "\n".join(lines) or "- none"


@lru_cache(maxsize=8192)
def film_facts(catalog: Catalog, item: int) -> str:
    """A film on one line: title, year, then every value by its field."""
    film = catalog.items[item]
    facts = []
    for name, field in catalog.fields.items():
        if name != YEAR_FIELD and film.values[name]:
            values = ", ".join(map(field.in_words, film.values[name]))
            facts.append(f"{name} {values}")
    return " ".join(f"{titled(catalog, item)}: {'; '.join(facts)}".split())


def titled(catalog: Catalog, item: int) -> str:
    """A film's title, with the year where it is known, on one line."""
    film = catalog.items[item]
    title = f"{film.title} ({film.year})" if film.year else film.title
    return " ".join(title.split())


def object_schema(properties: Mapping[str, Any], *required: str) -> Schema:
    """The JSON schema of an object with these properties and no others."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    schema["additionalProperties"] = False
    return schema


def reply_schema(allowed: AllowedFilms, llm: ModelSettings) -> Schema:
    """The JSON schema of a reply: the stated constraints (optional), the films, the text."""
    short = {"type": "string", "maxLength": VALUE_LIMIT}
    most = llm.most
    name: Schema = {"enum": list(allowed.names)}
    if allowed.open:
        name = short
    elif not allowed.items:
        name = {"type": "string", "maxLength": 0}
        most = 0
    properties: Schema = {}
    if llm.state:
        properties["state"] = object_schema(dict.fromkeys(allowed.fields, short))
    properties["recommended"] = {"type": "array", "items": name, "maxItems": most}
    longest = llm.reply_limit or REPLY_LIMIT
    properties["reply"] = {"type": "string", "minLength": 1, "maxLength": longest}
    return object_schema(properties, "recommended", "reply")


def prompt_name(name: str, llm: ModelSettings) -> str:
    """The name of a prompt file: that of up to 0.2 where the settings ask for it and there is one."""
    described = f"movies/described/{name}"
    if llm.form == "described" and described in _prompt_names():
        return described
    return f"movies/{name}"


def form(allowed: AllowedFilms, llm: ModelSettings) -> str:
    """The last words of a prompt: the form of an answer, behind the reminder that settings may ask for."""
    reminder = ""
    if llm.latest:
        reminder = prompts.source("movies/crs_latest") + "\n\n"
    if not llm.structured:
        return reminder + prompts.source("movies/crs_form_text")
    state = ""
    if llm.state:
        fields = ", ".join(allowed.fields)
        state = prompts.render(prompt_name("crs_form_state", llm), fields=fields) + " "
    kind = "ids" if allowed.numbered else "titles"
    return reminder + prompts.render(prompt_name(f"crs_form_{kind}", llm), state=state).rstrip()


@cache
def _prompt_names() -> tuple[str, ...]:
    """The names of the recommender's prompts, of both forms."""
    return tuple(name for name in prompts.names() if "/crs_" in name)


@cache
def _instructions(texts: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """Every run of ``COPIED`` words in these prompts; none goes across a slot."""
    runs: set[tuple[str, ...]] = set()
    for text in texts:
        for part in _SLOT.split(text):
            runs.update(_runs(part))
    return frozenset(runs)


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """Every run of ``COPIED`` consecutive words."""
    words = _WORDS.findall(text.lower())
    for start in range(len(words) - COPIED + 1):
        yield tuple(words[start : start + COPIED])


def copied_prompt(text: str) -> bool:
    """Whether a text repeats at least ``COPIED`` consecutive words of the recommender's instructions."""
    instructions = _instructions(tuple(map(prompts.source, _prompt_names())))
    return any(run in instructions for run in _runs(text))


class _BestOfList(Oracle):
    """The films of a list that meet most of the user's constraints: nobody can make more of the list."""

    honest = False
    listed: Items = ()

    def best(self, constraints: Wishes, avoid: Wishes, draw: Draw, n: int) -> Items:
        """At most ``n`` films of the list, all of the largest gain in it, those not shown before first."""
        stale = self.recent if self.others else ()
        met = {}
        for item in self.listed:
            if item not in stale:
                met[item] = base.n_met(self.world.catalog, item, constraints, avoid)
        top = max(met.values(), default=0)
        if top == 0:
            return ()
        films = [item for item in met if met[item] == top]
        films.sort(key=lambda item: item in self.seen)
        return tuple(films[:n])


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
        self.world = world
        self.llm = world.llm
        self.llms = cast("Pool", world.llms)  # none for oracle
        self.ceiling: _BestOfList | None = None
        if argument == ORACLE:
            self.ceiling = _BestOfList(world, seed, session, spec, world.llm.most)
        self.sees_state = self.ceiling is not None
        self.seed = seed
        self.session = session
        self.spec = spec
        self.model = argument
        self.shelf = tuple(shelf)
        self.heard: list[str] = []  # the user's words
        self.turns: list[list[Message]] = []  # what both said, turn by turn

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Let the model answer; ``user_meta`` is for ``oracle`` in its place alone."""
        self.heard.append(text)
        allowed = self.allowed_films()
        if self.ceiling:
            self.ceiling.listed = allowed.items
            return self.ceiling.reply(turn, text, user_meta)
        understood, log = self.answer(turn, allowed, text)
        # films of earlier searches are not repeated: the latest list alone counts
        self.remember([Message("user", shorten(text, TURN_LIMIT))], understood.text)
        return self.replied(understood, allowed, log)

    def remember(self, messages: Sequence[Message], text: str) -> None:
        """Keep a turn: its messages, and the reply."""
        self.turns.append([*messages, Message("assistant", text)])

    @classmethod
    def longest(cls, catalog: Catalog, llm: ModelSettings) -> int:
        """Tokens that the longest prompt may take before the context bounds it: no earlier turn in it."""
        task = prompts.source(prompt_name(cls.prompt, llm)) + form(AllowedFilms((), open=True), llm)
        films = [tokens_of(film_facts(catalog, item)) + _LINE_TOKENS for item in range(len(catalog))]
        films.sort(reverse=True)
        return tokens_at_most([Message("user", task + "x" * TURN_LIMIT)]) + sum(films[: cls.films_shown(llm)])

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """The most films in a prompt; None for all of them."""
        return llm.listed or None

    def name_films(self, items: Items, *, open: bool = False) -> AllowedFilms:
        """These films, named by title and year, which no other film shares, or by number."""
        catalog = self.world.catalog
        numbered = self.numbered or self.llm.form == "described"
        titles: tuple[str, ...] = ()
        if not open and not numbered:
            titles = tuple(titled(catalog, item) for item in items)
        return AllowedFilms(items, open, tuple(catalog.fields), titles, self.llm.most, numbered and not open)

    def allowed_films(self) -> AllowedFilms:
        """The films that the model may recommend at this turn."""
        raise NotImplementedError

    def user_message(self, text: str, allowed: AllowedFilms) -> str:
        """The user's words as the model gets them."""
        return text

    def system_message(self, allowed: AllowedFilms) -> str:
        """The task, which comes first, and a session's films with it: an engine reads them once."""
        name = prompt_name(self.prompt, self.llm)
        films = {}
        if "films" in prompts.wanted(name):
            films["films"] = allowed.lines(self.world.catalog)
        return prompts.render(name, most=self.llm.most, form=form(allowed, self.llm), **films)

    def schema(self, allowed: AllowedFilms) -> Schema | None:
        """The JSON schema of the answer; None for plain text."""
        return reply_schema(allowed, self.llm) if self.llm.structured else None

    def messages(
        self, allowed: AllowedFilms, utterance: str, more: Sequence[Message] = ()
    ) -> tuple[tuple[Message, ...], int]:
        """The messages of a turn with ``more`` behind them, and how many utterances were left out."""
        user = Message("user", self.user_message(shorten(utterance, TURN_LIMIT), allowed))
        messages, left_out = self.fitting(Message("system", self.system_message(allowed)), [user])
        return (*messages, *more), left_out

    def answer(self, turn: int, allowed: AllowedFilms, utterance: str) -> tuple[Understood, dict[str, Any]]:
        """The model's answer, and what the log says of it; titles enforced where the settings say so."""
        messages, left_out = self.messages(allowed, utterance)
        reply = self.ask(turn, messages, self.schema(allowed))
        understood = self.read(reply, allowed, utterance)
        log = self.noted(reply, left_out)
        if self.llm.enforce and understood.hallucinated:
            understood, enforced = self._enforced(turn, allowed, reply, understood, utterance)
            log |= enforced
        return understood, log

    def noted(self, reply: Reply, left_out: int) -> dict[str, Any]:
        """What the log says of a call: utterances that did not fit, and a reply cut by its length."""
        log: dict[str, Any] = {}
        if left_out:
            log["utterances_left_out"] = left_out
        if reply.stop == "length":
            log["reply_cut"] = True
        if reply.thinking:
            log["thinking"] = reply.thinking
        return log

    def read(self, reply: Reply, allowed: AllowedFilms, utterance: str) -> Understood:
        """The answer in terms of the catalogue. Structured, the films that it names (open: by title) are
        recommended; in plain text every title that the reply does not advise against, but for films not
        allowed that the user's latest words name. Titles that the catalogue lacks are hallucinated.
        """
        structured = self.llm.structured
        record: Any = safety.loads(reply.text, "the reply") if structured else {"reply": reply.text}
        text = str(record["reply"]).strip()
        heard = SaidReply(self.world.grounder, text, utterance, allowed.items, wanted=utterance)
        hallucinated = heard.unknown()
        if structured and allowed.open:
            items, unknown = written_titles.films_named(self.world.catalog, record["recommended"])
            hallucinated = list(dict.fromkeys([*unknown, *hallucinated]))
        elif structured:
            by_name = dict(zip(allowed.names, allowed.items, strict=True))
            items = tuple(dict.fromkeys(by_name[name] for name in record["recommended"]))
        else:
            items = heard.recommended()
        state = record.get("state")
        if state is not None:
            state = {name: value for name, value in state.items() if value}
        return heard.understood(items, hallucinated, allowed.most, state)

    def _enforced(
        self, turn: int, allowed: AllowedFilms, reply: Reply, first: Understood, utterance: str
    ) -> tuple[Understood, dict[str, Any]]:
        """A second answer, where the context has room; hallucinated titles, and films no longer named, go."""
        understood = first
        how = "cut unasked"
        titles = [one_line(shorten(title, 120)) for title in first.hallucinated[:10]]
        again = Message("user", prompts.render("movies/crs_again", foreign=", ".join(titles)))
        more = (Message("assistant", shorten(reply.text, TURN_LIMIT)), again)
        messages, _ = self.messages(allowed, utterance, more)
        if tokens_at_most(messages) <= room(self.llm.options):
            second = self.ask(turn, messages, self.schema(allowed), step=1)
            understood = self.read(second, allowed, utterance)
            how = "cut" if understood.hallucinated else "asked again"
        if understood.hallucinated:
            text = written_titles.cut(understood.text, understood.unknown)
            mentions = self.world.grounder.titles(text, prefer=allowed.items)
            named = {mention.item for mention in mentions}
            items = tuple(item for item in understood.items if item in named)
            understood = replace(understood, text=text, items=items)
        return understood, {"enforced": how, "first_hallucinated": list(first.hallucinated)}

    def fitting(
        self, first: Message, last: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[tuple[Message, ...], int]:
        """The messages of a call: the task, the latest turns that fit beside tools, this turn's messages; and
        how many earlier utterances did not fit.
        """
        free = room(self.llm.options) - tokens_at_most([first, *last], tools)
        shown: list[list[Message]] = []
        for turn in reversed(self.turns):
            free -= tokens_at_most(turn)
            if free < 0:
                break
            shown.insert(0, turn)
        messages = [first]
        for turn in shown:
            messages += turn
        return (*messages, *last), 2 * (len(self.turns) - len(shown))

    def ask(
        self,
        turn: int,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        step: int = 0,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:
        """One call; ``step`` counts those of a turn. A copied reply is asked for once more."""
        tags: dict[str, str | int] = {"session": self.session, "system": self.spec, "turn": turn}
        address: list[str | int] = ["movies", self.session, "crs", turn]
        if self.counts_calls:
            tags["step"] = step
            if step:
                address.append(step)
        request = Request(
            tuple(messages),
            "crs",
            seed=rng.address_seed(self.seed, *address),
            options=self.llm.options,
            schema=schema,
            tools=tuple(tools),
            tags=tags,
        )
        reply = self.llms.complete(self.model, request)
        if self.llm.form == "described" or not copied_prompt(reply.text):
            return reply
        return self._asked_again(request) or reply

    def _asked_again(self, request: Request) -> Reply | None:
        """Another reply to a request; None where there is no better one, or none that was recorded."""
        seed = rng.address_seed(request.seed or 0, "copied prompt")
        options = {**request.options, "temperature": max(AGAIN, self.llm.temperature)}
        try:
            return self.llms.complete(self.model, replace(request, seed=seed, options=options))
        except LLMError as error:
            if error.unusable or error.kind == "not recorded":
                return None
            raise

    def replied(self, understood: Understood, allowed: AllowedFilms, log: Mapping[str, Any]) -> SystemReply:
        """The reply, with what the log says of it."""
        extra: dict[str, Any] = {}
        if not allowed.open:
            extra["offered_ids"] = self.ids(allowed.items)
        if understood.mentioned:
            extra["mentioned_ids"] = self.ids(understood.mentioned)
        if copied_prompt(understood.text):
            extra["copied_prompt"] = True
        if understood.state is not None:
            extra["state"] = dict(understood.state)
        if understood.thinking:
            extra["thinking"] = understood.thinking
        if understood.ambiguous:
            extra["ambiguous_titles"] = list(understood.ambiguous)
        return SystemReply(
            understood.text,
            understood.items,
            self.world.catalog.known_values(understood.state or {}),
            understood.hallucinated,
            extra | dict(log),
        )

    def ids(self, items: Sequence[int]) -> list[str]:
        """The ids of films."""
        return [self.world.catalog.items[item].item_id for item in items]


def register(name: str, **facts: Any) -> Callable[[Callable[..., System]], Callable[..., System]]:
    """Decorator that registers a mode of every backend under its name."""
    facts = {
        "argument": "a backend and its model",
        "example": "ollama:llama3:instruct",
        "llm": True,
        "mode": True,
        "parse": base.check_model,
        **facts,
    }
    return SYSTEMS.register(name, **facts)


@register("closed", shelf=True, parse=base.check_reader)
class _Closed(ModelSystem):
    """A model with the conversation and one fixed list of films for all of it: understanding."""

    prompt = "crs_closed"

    def allowed_films(self) -> AllowedFilms:
        """The session's films: the catalogue, or a draw with answers to the user's constraints."""
        if not self.shelf:
            self.shelf = base.drawn(self.world.catalog, self.llm.listed, self.seed, self.session)
        return self.name_films(self.shelf)


@register("rag", parse=base.check_reader)
class _Rag(ModelSystem):
    """A model with the conversation and the films that a search finds for it: understanding, and choosing."""

    prompt = "crs_rag"

    def allowed_films(self) -> AllowedFilms:
        """The best films of the search in random order: its own would tell which film the search chose."""
        kind = search.search_kind(self.llm.retriever)
        hits = search.index(self.world.catalog).found(*kind, self.heard, self.llm.listed)
        draw = rng.stream(self.seed, "movies", self.session, "system", "listed", len(self.heard))
        order = draw.permutation(len(hits)).tolist()
        return self.name_films(tuple(int(hits[index].id) for index in order))

    def user_message(self, text: str, allowed: AllowedFilms) -> str:
        """The films found, then the user's words."""
        return prompts.render("movies/crs_rag_turn", films=allowed.lines(self.world.catalog), text=text)


@register("free")
class _Free(ModelSystem):
    """A model with the conversation alone: what it remembers of films, and whether they exist."""

    prompt = "crs_free"

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """No film is shown."""
        return 0

    def allowed_films(self) -> AllowedFilms:
        """Any film: titles are looked up in the catalogue afterwards."""
        return self.name_films((), open=True)
