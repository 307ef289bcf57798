"""Mode ``agent``: a model that searches the catalogue with a tool before it replies. Where a server calls
tools they are its own; elsewhere the model writes its actions as JSON. Searches and their films are logged.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import crs_lib
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, YEAR_FIELD
from crs_lib.core import prompts
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Message, Reply, ToolCall
from crs_lib.systems import modes
from crs_lib.systems import search as film_search
from crs_lib.systems.base import SYSTEMS, Items, SystemReply, World
from crs_lib.systems.modes import VALUE_LIMIT, AllowedFilms, ModelSystem, Schema
from crs_lib.systems.settings import ModelSettings

TOOL = "search_films"
SHOWN = 10  # films of a result
_AT_ONCE = 16  # calls of one answer that are looked at
_EXPECTED = {"integer": "a year as a whole number", "array": "a list of texts", "string": "one text"}
_LAST_YEAR = 9999


def parameters(names: Iterable[str] = FIELDS) -> Schema:
    """The JSON schema of the tool's arguments: these fields, bounds on the year, values to avoid, a text."""
    text = {"type": "string", "maxLength": VALUE_LIMIT}
    properties: Schema = {}
    for name in names:
        if name != YEAR_FIELD:  # which has bounds instead
            article = "an" if name[:1] in "aeiou" else "a"
            properties[name] = text | {"description": f"{article} {name} that the movies must have"}
    properties["year_from"] = {"type": "integer", "description": "the first year"}
    properties["year_to"] = {"type": "integer", "description": "the last year"}
    avoided = "values that they must not have"
    properties["without"] = {"type": "array", "items": text, "maxItems": 8, "description": avoided}
    properties["text"] = text | {"description": "words about the movies; the best matches come first"}
    return modes.object_schema(properties)


class Search(NamedTuple):
    """One call of the tool: its arguments, the films found in order, and the fault of a call that failed.
    ``notes`` name values that no film has.
    """

    name: str
    arguments: Mapping[str, Any]
    items: Items = ()
    fault: str = ""
    notes: tuple[str, ...] = ()

    @property
    def noted(self) -> dict[str, list[str]]:
        """The notes for a log; nothing where there are none."""
        return {"notes": list(self.notes)} if self.notes else {}


def search(catalog: Catalog, call: ToolCall, retriever: str) -> Search:
    """The films that a call finds: all that meet the arguments, by their text, else the best known first.
    ``fault`` says why a call could not be understood, ``notes`` names values that no film has.
    """
    arguments: dict[str, Any] = {}
    for name, value in call.arguments.items():
        if value not in ("", None, []):
            arguments[str(name)] = value
    fault = call.fault or _fault(call.name, arguments, catalog.fields)
    if fault:
        return Search(call.name, dict(call.arguments), fault=fault)
    fields = [name for name in catalog.fields if name != YEAR_FIELD]
    wanted = {name: str(arguments[name]).strip() for name in fields if name in arguments}
    notes = []
    for name, value in wanted.items():
        if catalog.code(name, value) is None:
            notes.append(f"no movie has {name} {shorten(value, VALUE_LIMIT)!r}")
    items: list[int] = []
    if not notes:
        items = _within(catalog, catalog.query(wanted).items.tolist(), arguments, fields)
    ordered = _ordered(catalog, items, str(arguments.get("text", "")), retriever)
    return Search(TOOL, arguments, tuple(ordered), notes=tuple(notes))


def _within(
    catalog: Catalog, items: Sequence[int], arguments: Mapping[str, Any], fields: Sequence[str]
) -> list[int]:
    """Those of the items that lie between the years, and have none of the values to avoid."""
    first = arguments.get("year_from")
    last = arguments.get("year_to")
    avoided: set[int] = set()
    for value in arguments.get("without", ()):
        codes = [catalog.code(name, str(value)) for name in fields]
        avoided.update(code for code in codes if code is not None)
    within = []
    for item in items:
        year = catalog.items[item].year or -1
        in_time = (first or 0) <= year <= (last or _LAST_YEAR)
        unbounded = first is None and last is None
        if (unbounded or in_time) and not avoided & catalog.fact_sets[item]:
            within.append(item)
    return within


def _fault(tool: str, arguments: Mapping[str, Any], fields: Iterable[str]) -> str:
    """Why a call cannot be understood; empty where it can."""
    if tool != TOOL:
        return f"there is no tool {shorten(tool, VALUE_LIMIT)!r}; the only one is {TOOL}"
    properties = parameters(fields)["properties"]
    for name, value in arguments.items():
        if name not in properties:
            wrong = f"{shorten(name, VALUE_LIMIT)!r}{did_you_mean(name, properties)}"
            return f"{TOOL} takes no {wrong} (it takes: {', '.join(properties)})"
        kind = properties[name]["type"]
        if not _fits(value, kind):
            return f"{name} is {shorten(str(value), VALUE_LIMIT)!r}; give {_EXPECTED[kind]}"
    first = arguments.get("year_from")
    last = arguments.get("year_to")
    if first is not None and last is not None and first > last:
        return f"year_from {first} lies after year_to {last}, so that no movie can fit; exchange them"
    return ""


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a JSON type; true and false are no whole numbers, a year may stand for a text."""
    if kind == "integer":
        return type(value) is int
    if kind == "array":
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    return isinstance(value, str | int)


def _ordered(catalog: Catalog, items: Sequence[int], text: str, retriever: str) -> list[int]:
    """Items by how well they match the text, the others behind them, the best known first."""
    chosen = set(items)
    ordered = []
    if text:
        hits = film_search.index(catalog).found(*film_search.search_kind(retriever), [text])
        ordered = [int(hit.id) for hit in hits]
    ordered += catalog.popular_first
    return [item for item in dict.fromkeys(ordered) if item in chosen]


@modes.register("agent")
class Agent(ModelSystem):
    """A model with the conversation and a tool that searches the catalogue: acting."""

    prompt = "crs_agent"
    numbered = True  # a number stands for a film of any search

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str) -> None:
        super().__init__(world, seed, session, spec, argument)
        self.numbers: dict[int, int] = {}  # of the films of all searches, from 1
        self.native = self.llm.tools != "json"
        self.searches: list[Search] = []  # of this turn
        self.calls = 0  # of the model in this turn
        self.left_out = 0  # utterances of earlier turns that did not fit

    @classmethod
    def films_shown(cls, llm: ModelSettings) -> int | None:
        """Those of all results of a turn."""
        return SHOWN * llm.searches

    def allowed_films(self) -> AllowedFilms:
        """The films that searches have found so far."""
        return self.name_films(tuple(self.numbers))

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Let the model search and answer; ``user_meta`` is not looked at."""
        self.searches = []
        self.calls = 0
        self.left_out = 0
        messages = [Message("user", shorten(text, modes.TURN_LIMIT))]
        reply = self.by_tools(turn, messages) if self.native else self.by_json(turn, messages)
        understood = self.read(reply, self.allowed_films(), text)
        self.remember(messages, understood.text)
        log: dict[str, Any] = {"tools": "native" if self.native else "json"}
        log["tool_calls"] = [self.logged(done) for done in self.searches]
        log |= self.noted(reply, self.left_out)
        return self.replied(understood, self.allowed_films(), log)

    def by_tools(self, turn: int, messages: list[Message]) -> Reply:
        """Searches through the server's own tools, which join ``messages``, then the reply."""
        last: list[Message] = []
        while len(self.searches) < self.llm.searches:
            try:
                reply = self.call(turn, messages, None, [self._tool()])
            except LLMError as error:
                if error.kind != "no tools" or self.llm.tools == "native":
                    raise
                self.native = False
                return self.by_json(turn, messages)
            if not reply.calls:
                if not self.llm.structured:
                    return reply
                last = [Message("assistant", shorten(reply.text, modes.TURN_LIMIT))]
                break
            calls = reply.calls[:_AT_ONCE]
            messages.append(Message("assistant", reply.text, calls))
            for call in calls:
                messages.append(Message("tool", self.result(call), answers=call))
        allowed = self.allowed_films()
        demand = prompts.render("movies/crs_agent_reply", form=modes.form(allowed, self.llm))
        return self.call(turn, [*messages, *last, Message("user", demand)], self.schema(allowed))

    def _tool(self) -> Schema:
        """The tool as a server is told of it."""
        description = prompts.source("movies/crs_tool")
        schema = parameters(self.world.catalog.fields)
        function = {"name": TOOL, "description": description, "parameters": schema}
        return {"type": "function", "function": function}

    def by_json(self, turn: int, messages: list[Message]) -> Reply:
        """Searches as JSON actions, which join ``messages``, then the reply: for servers without tools."""
        while True:
            may_search = len(self.searches) < self.llm.searches
            schema = self._action_schema(self.allowed_films(), may_search=may_search)
            reply = self.call(turn, messages, schema)
            record = json.loads(reply.text)
            if record.pop("action") == "reply":
                text = json.dumps(record) if self.llm.structured else record["reply"]
                return replace(reply, text=text)
            result = self.result(ToolCall(TOOL, record.get("arguments", {})))
            messages.append(Message("assistant", reply.text))
            messages.append(Message("user", prompts.render("movies/crs_agent_result", result=result)))

    def _action_schema(self, allowed: AllowedFilms, *, may_search: bool) -> Schema:
        """The JSON schema of an action: a search, where one is left, or the reply."""
        reply = modes.reply_schema(allowed, self.llm)
        properties = reply["properties"]
        required = reply["required"]
        if not self.llm.structured:
            properties = {"reply": properties["reply"]}
            required = ["reply"]
        answer = modes.object_schema({"action": {"const": "reply"}, **properties}, "action", *required)
        if not may_search:
            return answer
        action = {"action": {"const": TOOL}, "arguments": parameters(allowed.fields)}
        return {"anyOf": [modes.object_schema(action, "action", "arguments"), answer]}

    def call(
        self,
        turn: int,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:
        """One call: the task, the latest turns that the context window holds, and this turn's messages, which
        always go in. ``left_out`` is the most earlier utterances that any call had to leave out.
        """
        task = Message("system", self.system_message(self.allowed_films()))
        whole, left_out = self.fitting(task, messages, tools)
        self.left_out = max(self.left_out, left_out)
        self.calls += 1
        return self.ask(turn, whole, schema, self.calls - 1, tools)

    def system_message(self, allowed: AllowedFilms) -> str:
        """The task; without the server's own tools also how to act."""
        name = modes.prompt_name(self.prompt, self.llm)
        task = prompts.render(name, most=self.llm.most, searches=self.llm.searches)
        if self.native:
            return task
        lines = []
        for argument, schema in parameters(allowed.fields)["properties"].items():
            lines.append(f"- {argument}: {schema['description']}")
        form = modes.form(allowed, self.llm)
        how = prompts.render("movies/crs_agent_json", arguments="\n".join(lines), form=form)
        return f"{task}\n\n{how}"

    def result(self, call: ToolCall) -> str:
        """What the model is told of a search, which is done and logged here."""
        if len(self.searches) >= self.llm.searches:
            done = Search(call.name, dict(call.arguments), fault="no search is left in this turn")
        else:
            done = search(self.world.catalog, call, self.llm.retriever)
        self.searches.append(done)
        if done.fault:
            return json.dumps({"error": done.fault}, ensure_ascii=False)
        lines = []
        for item in done.items[:SHOWN]:
            number = self.numbers.setdefault(item, len(self.numbers) + 1)
            lines.append(f"[{number}] {modes.film_facts(self.world.catalog, item)}")
        result = {"found": len(done.items), "movies": lines, **done.noted}
        return json.dumps(result, ensure_ascii=False)

    def logged(self, done: Search) -> dict[str, Any]:
        """A search as the log of the turn holds it; texts of a model are bounded."""
        arguments = {}
        for name, value in done.arguments.items():
            written = json.dumps(value, ensure_ascii=False, default=str)
            longest = 2 * VALUE_LIMIT
            arguments[shorten(str(name), VALUE_LIMIT)] = (
                value if len(written) <= longest else shorten(written, longest)
            )
        record: dict[str, Any] = {"name": shorten(done.name, VALUE_LIMIT), "arguments": arguments}
        if done.fault:
            return record | {"error": done.fault}
        films = self.ids(done.items[:SHOWN])
        return record | {"n_found": len(done.items), "films": films, **done.noted}


def most_calls(system: str, llm: ModelSettings) -> int:
    """The most calls that a system makes to its model in a turn: an agent's searches and its reply."""
    if SYSTEMS.get(system).make is not Agent:
        return 1
    last = llm.searches > 0 and llm.structured  # a text that ends the searches is asked for as JSON
    return llm.searches + 1 + last


class FilmTools:
    """The catalogue as a server of the Model Context Protocol: tools ``search_films`` and ``film``, whose
    arguments have a JSON schema. InputError where the package mcp is not there.
    """

    def __init__(self, catalog: Catalog, retriever: str) -> None:
        try:
            from mcp import types
            from mcp.server.lowlevel import Server
        except ImportError as error:
            raise InputError("the package mcp is not there; pip install 'crs-lib[agents]'") from error
        self.catalog = catalog
        self.retriever = retriever
        self._rows = {row["id"]: row for row in catalog.export()}
        self._types: Any = types
        tools = {"on_list_tools": self._list, "on_call_tool": self._call}
        self._server: Any = Server("crs-lib", version=crs_lib.__version__, title="Films", **tools)

    def run(self) -> None:
        """Serve over standard input and output, until the client ends it."""
        import anyio

        anyio.run(self._run)

    async def _run(self) -> None:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (incoming, outgoing):
            options = self._server.create_initialization_options()
            await self._server.run(incoming, outgoing, options)

    async def _list(self, _context: Any, _request: Any) -> Any:
        by_id = modes.object_schema({"id": {"type": "string"}}, "id")
        tools = [
            (TOOL, prompts.source("movies/crs_tool"), parameters(self.catalog.fields)),
            ("film", "All that is known of a film, by its id.", by_id),
        ]
        listed = []
        for name, description, schema in tools:
            tool = {"name": name, "description": description, "input_schema": schema}
            meta = {"version": crs_lib.__version__}
            listed.append(self._types.Tool(**tool, output_schema={"type": "object"}, meta=meta))
        return self._types.ListToolsResult(tools=listed)

    async def _call(self, _context: Any, request: Any) -> Any:
        arguments = request.arguments or {}
        try:
            answer = (
                self._film(arguments) if request.name == "film" else self._search(request.name, arguments)
            )
        except InputError as error:
            text = self._types.TextContent(type="text", text=str(error))
            return self._types.CallToolResult(content=[text], is_error=True)
        text = self._types.TextContent(type="text", text=json.dumps(answer, ensure_ascii=False))
        return self._types.CallToolResult(content=[text], structured_content=answer)

    def _search(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The films that a call of the tool finds, with notes; InputError for one that is not understood."""
        done = search(self.catalog, ToolCall(name, arguments), self.retriever)
        if done.fault:
            raise InputError(done.fault)
        films = [self._rows[self.catalog.items[item].item_id] for item in done.items[:SHOWN]]
        return {"found": len(done.items), "films": films, "notes": list(done.notes)}

    def _film(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The film of an id with all its values; InputError for other arguments and an unknown id."""
        wrong = [shorten(str(name), VALUE_LIMIT) for name in arguments if name != "id"]
        if wrong or "id" not in arguments:
            fault = f"takes no {wrong[0]!r}" if wrong else "needs an id"
            raise InputError(f"film {fault} (it takes: id)")
        film = str(arguments["id"])
        if film not in self._rows:
            near = did_you_mean(film, self._rows)
            raise InputError(f"no film has the id {shorten(film, VALUE_LIMIT)!r}{near}")
        return dict(self._rows[film])
