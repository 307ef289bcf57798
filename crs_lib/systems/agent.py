"""Mode ``agent``: a model that searches the catalogue with a tool before it replies. Where a server calls
tools they are its own; elsewhere the model writes its actions as JSON. Searches and their films are logged.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, YEAR_FIELD
from crs_lib.core import prompts
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Message, Reply, ToolCall
from crs_lib.systems import modes
from crs_lib.systems import search as film_search
from crs_lib.systems.base import SYSTEMS, SystemReply, World
from crs_lib.systems.modes import ModelSystem, Offer
from crs_lib.systems.settings import ModelSettings

TOOL = "search_films"
SHOWN = 10  # films of a result
_AT_ONCE = 16  # calls of one answer that are looked at
_BOUNDS = ("year_from", "year_to")
_EXPECTED = {"integer": "a year as a whole number", "array": "a list of texts", "string": "one text"}


def parameters(names: Iterable[str] = FIELDS) -> dict[str, Any]:
    """The JSON schema of the tool's arguments: these fields, bounds on the year, values to avoid, a text."""
    text = {"type": "string", "maxLength": modes.VALUE_LIMIT}
    told = {name: text | {"description": f"a {name} that the movies must have"} for name in names}
    told.pop(YEAR_FIELD, None)  # which has bounds instead
    for name, end in zip(_BOUNDS, ("first", "last"), strict=True):
        told[name] = {"type": "integer", "description": f"the {end} year"}
    avoided = "values that they must not have"
    told["without"] = {"type": "array", "items": text, "maxItems": 8, "description": avoided}
    told["text"] = text | {"description": "words about the movies; the best matches come first"}
    return modes.object_schema(told)


class _Search(NamedTuple):
    """One call of the tool: its arguments, the films found in order, and the fault of a call that failed."""

    name: str
    arguments: Mapping[str, Any]
    items: tuple[int, ...] = ()
    fault: str = ""
    notes: tuple[str, ...] = ()

    @property
    def noted(self) -> dict[str, list[str]]:
        """The notes for a log; nothing where there are none."""
        return {"notes": list(self.notes)} if self.notes else {}


def search(catalog: Catalog, call: ToolCall, retriever: str) -> _Search:
    """The films that a call finds: all that meet the arguments, by their text, else the best known first.
    ``fault`` says why a call could not be understood, ``notes`` names values that no film has.
    """
    told = {str(name): value for name, value in call.arguments.items() if value not in ("", None, [])}
    exact = [name for name in catalog.fields if name != YEAR_FIELD]
    fault = call.fault or _fault(call.name, told, catalog.fields)
    if fault:
        return _Search(call.name, dict(call.arguments), fault=fault)
    wanted = {name: str(told[name]).strip() for name in exact if name in told}
    foreign = {name: value for name, value in wanted.items() if catalog.code(name, value) is None}
    notes = [f"no movie has {name} {shorten(v, modes.VALUE_LIMIT)!r}" for name, v in foreign.items()]
    items = [] if notes else catalog.query(wanted).items.tolist()
    first, last = (told.get(name) for name in _BOUNDS)
    if first is not None or last is not None:
        items = [i for i in items if (first or 0) <= (catalog.items[i].year or -1) <= (last or 9999)]
    avoided = {code for value in told.get("without", ()) for name in exact
               if (code := catalog.code(name, str(value))) is not None}  # fmt: skip
    items = [item for item in items if not avoided & catalog.fact_sets[item]]
    ordered = _ordered(catalog, items, str(told.get("text", "")), retriever)
    return _Search(TOOL, told, tuple(ordered), notes=tuple(notes))


def _fault(name: str, told: Mapping[str, Any], names: Iterable[str]) -> str:
    """Why a call cannot be understood; empty where it can."""
    if name != TOOL:
        return f"there is no tool {shorten(name, modes.VALUE_LIMIT)!r}; the only one is {TOOL}"
    known = parameters(names)["properties"]
    for given, value in told.items():
        if given not in known:
            wrong = f"{shorten(given, modes.VALUE_LIMIT)!r}{did_you_mean(given, known)}"
            return f"{TOOL} takes no {wrong} (it takes: {', '.join(known)})"
        kind, of = known[given]["type"], type(value)
        texts = of is list and all(isinstance(one, str) for one in value)
        fits = {"integer": of is int, "array": texts, "string": isinstance(value, str | int)}
        if not fits[kind]:
            return f"{given} is {shorten(str(value), modes.VALUE_LIMIT)!r}; give {_EXPECTED[kind]}"
    return ""


def _ordered(catalog: Catalog, items: Sequence[int], text: str, retriever: str) -> list[int]:
    """Items by how well they match the text, the others behind them, the best known first."""
    kept = set(items)
    by_fame = [item for item in catalog.popular_first if item in kept]
    if not text:
        return by_fame
    hits = film_search.index(catalog).found(*film_search.search_kind(retriever), [text])
    matching = [item for hit in hits if (item := int(hit.id)) in kept]
    return list(dict.fromkeys([*matching, *by_fame]))


@modes.register("agent")
class _Agent(ModelSystem):
    """A model with the conversation and a tool that searches the catalogue: acting."""

    prompt, numbered = "crs_agent", True  # a number stands for a film of any search

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str) -> None:
        super().__init__(world, seed, session, spec, argument)
        self.found: dict[int, None] = {}  # films of all searches; their place is their number
        self.native = self.llm.tools != "json"
        self.searches: list[_Search] = []  # of this turn
        self.calls, self.left_out = 0, 0  # of this turn: calls of the model, utterances that did not fit

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """Those of all results of a turn."""
        return SHOWN * llm.searches

    def offer(self) -> Offer:
        """The films that searches have found so far."""
        return self.offered(tuple(self.found))

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Let the model search and answer; ``user_meta`` is not looked at."""
        self.said.append(text)
        self.searches, self.calls, self.left_out = [], 0, 0
        asked = [Message("user", shorten(text, modes.TURN_LIMIT))]
        said = self.by_tools(turn, asked) if self.native else self.by_json(turn, asked)
        read = self.read(said, self.offer(), text)
        self.turns.append([*asked, Message("assistant", read.text)])
        log: dict[str, Any] = {"tools": "native" if self.native else "json"}
        log["tool_calls"] = [self.logged(one) for one in self.searches]
        log |= {"reply_cut": True} if said.stop == "length" else {}
        log |= {"utterances_left_out": self.left_out} if self.left_out else {}
        return self.replied(read, self.offer(), log)

    def by_tools(self, turn: int, asked: list[Message]) -> Reply:
        """Searches through the server's own tools, which join ``asked``, then the reply."""
        last, known = list[Message](), parameters(self.world.catalog.fields)
        told = {"name": TOOL, "description": prompts.source("movies/crs_tool"), "parameters": known}
        while len(self.searches) < self.llm.searches:
            try:
                said = self.call(turn, asked, None, [{"type": "function", "function": told}])
            except LLMError as error:
                if error.kind != "no tools" or self.llm.tools == "native":
                    raise
                self.native = False
                return self.by_json(turn, asked)
            if not said.calls:
                if not self.llm.structured:
                    return said
                last = [Message("assistant", shorten(said.text, modes.TURN_LIMIT))]
                break
            calls = said.calls[:_AT_ONCE]
            asked.append(Message("assistant", said.text, calls))
            asked += [Message("tool", self.result(call), answers=call) for call in calls]
        offer = self.offer()
        end = Message("user", prompts.render("movies/crs_agent_reply", form=modes.form(offer, self.llm)))
        schema = modes.reply_schema(offer, self.llm) if self.llm.structured else None
        return self.call(turn, [*asked, *last, end], schema)

    def by_json(self, turn: int, asked: list[Message]) -> Reply:
        """Searches as JSON actions, which join ``asked``, then the reply."""
        while True:
            offer, left = self.offer(), self.llm.searches - len(self.searches)
            said = self.call(turn, asked, _action_schema(offer, self.llm, search_too=left > 0))
            record = json.loads(said.text)
            if record.pop("action") == "reply":
                return replace(said, text=json.dumps(record) if self.llm.structured else record["reply"])
            call = ToolCall(TOOL, record.get("arguments", {}))
            asked.append(Message("assistant", said.text))
            asked.append(Message("user", prompts.render("movies/crs_agent_result", result=self.result(call))))

    def call(
        self, turn: int, asked: Sequence[Message], schema: Mapping[str, Any] | None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:  # fmt: skip
        """One call with the conversation, as far as it fits, and this turn's messages."""
        messages, left_out = self.fitting(Message("system", self.system_message(self.offer())), asked, tools)
        self.left_out = max(self.left_out, left_out.get("utterances_left_out", 0))
        self.calls += 1
        return self.ask(turn, messages, schema, self.calls - 1, tools)

    def system_message(self, offer: Offer) -> str:
        """The task; without the server's own tools also how to act."""
        name = modes.prompt_name(self.prompt, self.llm)
        task = prompts.render(name, most=self.llm.most, searches=self.llm.searches)
        if self.native:
            return task
        known = parameters(offer.fields)["properties"]
        arguments = "\n".join(f"- {name}: {told['description']}" for name, told in known.items())
        how = prompts.render("movies/crs_agent_json", arguments=arguments, form=modes.form(offer, self.llm))
        return f"{task}\n\n{how}"

    def result(self, call: ToolCall) -> str:
        """What the model is told of a search, which is done and logged here."""
        if len(self.searches) >= self.llm.searches:
            done = _Search(call.name, dict(call.arguments), fault="no search is left in this turn")
        else:
            done = search(self.world.catalog, call, self.llm.retriever)
        self.searches.append(done)
        if done.fault:
            return json.dumps({"error": done.fault}, ensure_ascii=False)
        shown = done.items[:SHOWN]
        self.found |= dict.fromkeys(item for item in shown if item not in self.found)
        number = {item: place for place, item in enumerate(self.found, start=1)}
        lines = [f"[{number[item]}] {modes.film_facts(self.world.catalog, item)}" for item in shown]
        return json.dumps({"found": len(done.items), "movies": lines, **done.noted}, ensure_ascii=False)

    def logged(self, done: _Search) -> dict[str, Any]:
        """A search as the log of the turn holds it; texts of a model are bounded."""
        most, bounded = modes.VALUE_LIMIT, dict[str, Any]()
        for name, value in done.arguments.items():
            written = json.dumps(value, ensure_ascii=False, default=str)
            kept = value if len(written) <= 2 * most else shorten(written, 2 * most)
            bounded[shorten(str(name), most)] = kept
        told: dict[str, Any] = {"name": shorten(done.name, most), "arguments": bounded}
        if done.fault:
            return told | {"error": done.fault}
        return told | {"n_found": len(done.items), "films": self.ids(done.items[:SHOWN]), **done.noted}


def _action_schema(offer: Offer, llm: ModelSettings, *, search_too: bool) -> dict[str, Any]:
    """The JSON schema of an action: a search, where one is left, or the reply."""
    own = modes.reply_schema(offer, llm)
    names = {one: own["properties"][one] for one in (own["properties"] if llm.structured else ("reply",))}
    needed = own["required"] if llm.structured else ("reply",)
    reply = modes.object_schema({"action": {"const": "reply"}, **names}, "action", *needed)
    if not search_too:
        return reply
    properties = {"action": {"const": TOOL}, "arguments": parameters(offer.fields)}
    return {"anyOf": [modes.object_schema(properties, "action", "arguments"), reply]}


def serve(catalog: Catalog, retriever: str) -> Any:
    """The catalogue as a server of the Model Context Protocol: tools ``search_films`` and ``film``. Arguments
    and results of both have a JSON schema. Raises InputError where the package mcp is not there.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise InputError("the package mcp is not there; pip install 'crs-lib[agents]'") from error
    rows = {row["id"]: row for row in catalog.export()}

    def search_films(**given: Any) -> dict[str, Any]:
        told = {name: value for name, value in given.items() if value is not None}
        done = search(catalog, ToolCall(TOOL, told), retriever)
        if done.fault:
            raise ToolError(done.fault)
        films = [rows[catalog.items[item].item_id] for item in done.items[:SHOWN]]
        return {"found": len(done.items), "films": films, "notes": list(done.notes)}

    def film(id: str) -> dict[str, Any]:
        """All that is known of a film, by its id."""
        if id not in rows:
            raise ToolError(f"no film has the id {shorten(id, modes.VALUE_LIMIT)!r}{did_you_mean(id, rows)}")
        return dict(rows[id])

    kinds = {"string": str, "integer": int, "array": list[str]}
    given, by_name = list[Parameter](), Parameter.KEYWORD_ONLY
    for name, told in parameters(catalog.fields)["properties"].items():
        kind, field = kinds[told["type"]], Field(description=told["description"])
        given.append(Parameter(name, by_name, default=None, annotation=Annotated[kind | None, field]))
    made = Signature(given, return_annotation=dict[str, Any])
    search_films.__signature__ = made  # type: ignore[attr-defined]
    server = MCPServer("crs-lib")
    server.tool(description=prompts.source("movies/crs_tool"))(search_films)
    server.tool()(film)
    return server


def most_calls(system: str, llm: ModelSettings) -> int:
    """The most calls that a system makes to its model in a turn: an agent's searches and its reply."""
    if SYSTEMS.get(system).make is not _Agent:
        return 1
    return llm.searches + 1 + (llm.searches > 0 and llm.structured)
