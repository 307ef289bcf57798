"""Recommenders whose reply is written by a language model; tracking and retrieval stay rule-based. The
tracker keeps the constraints and offers candidates; the model chooses among them and writes. The recommended
films are read from the ids in a structured reply, or from the titles in a plain text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import Clause
from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.llm.base import BACKENDS, Message, room, tokens_at_most, tokens_of
from crs_lib.llm.text import fence, one_line
from crs_lib.systems import modes, tracker
from crs_lib.systems.base import SYSTEMS, SystemReply, World, rank
from crs_lib.systems.modes import TURN_LIMIT, AllowedFilms, ModelSystem, Schema
from crs_lib.systems.settings import ModelSettings

_NO_CONSTRAINT = "- nothing that is recorded yet"
_PLOT = 200  # characters of a plot in a prompt
_MARGIN = 600  # characters of a longest prompt for the constraints


@modes.register("worded")
class _Worded(ModelSystem):
    """The tracker understands and offers films; a model chooses among them and words the reply."""

    counts_calls = False

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str = "") -> None:
        super().__init__(world, seed, session, spec, argument or spec)
        self.state: dict[str, str] = {}
        self.seen: list[int] = []
        self.lines: list[str] = []  # the utterances as a prompt quotes them

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Offer films for the tracked constraints and let the model answer."""
        draw = rng.stream(self.seed, "movies", self.session, "system", "offered", turn)
        self.state = tracker.apply(self.state, tracker.read(self.world.grounder, text))
        items = rank(self.world.catalog, self.state, {}, self.seen, draw, self.llm.offered)
        self.lines.append(_quote(USER, text))
        allowed = AllowedFilms(items, ids=tuple(self.ids(items)))
        understood, log = self.answer(turn, allowed, text)
        self.lines.append(_quote(SYSTEM, understood.text))
        self.seen += [item for item in understood.items if item not in self.seen]
        return replace(self.replied(understood, allowed, log), constraints=dict(self.state))

    @classmethod
    def longest(cls, catalog: Catalog, llm: ModelSettings) -> int:
        """Tokens that the longest prompt may take, with the longest films; InputError without films."""
        if not len(catalog):
            raise InputError("the catalogue holds no film; there is nothing to recommend")
        lines = [film(catalog, item, with_id=True) for item in range(len(catalog))]
        lines.sort(key=len, reverse=True)
        films = "\n".join(lines[: llm.offered])
        text = prompts.source(_prompt(llm)) + films + "x" * (TURN_LIMIT + _MARGIN)
        return tokens_at_most([Message("user", text)])

    def schema(self, allowed: AllowedFilms) -> Schema | None:
        """The JSON schema of a structured reply: a text, ids of films."""
        if not self.llm.structured:
            return None
        text: Schema = {"type": "string", "minLength": 1}
        if self.llm.reply_limit is not None:
            text["maxLength"] = self.llm.reply_limit
        films = {"type": "array", "items": {"enum": list(allowed.ids)}, "maxItems": self.llm.most}
        return modes.object_schema({"reply": text, "recommended": films}, "reply", "recommended")

    def messages(
        self, allowed: AllowedFilms, utterance: str, more: Sequence[Message] = ()
    ) -> tuple[tuple[Message, ...], int]:
        """The prompt of a turn, the utterances in it, and ``more`` behind it. As many of the latest
        utterances as fit into the context are quoted, room left for ``more``; the last utterance always is.
        """
        values = self._values(allowed)
        empty = prompts.render(_prompt(self.llm), **values, conversation="", fence="0" * 16)
        free = room(self.llm.options) - tokens_at_most([Message("user", empty)]) - tokens_at_most(more)
        quoted = list(self.lines)
        needed = sum(tokens_of(line) + 1 for line in quoted)  # each with its line end
        while len(quoted) > 1 and needed > free:
            needed -= tokens_of(quoted.pop(0)) + 1
        conversation = "\n".join(quoted)
        text = prompts.render(_prompt(self.llm), **values, conversation=conversation, fence=fence(quoted))
        return (Message("user", text), *more), len(self.lines) - len(quoted)

    def _values(self, allowed: AllowedFilms) -> dict[str, str | int]:
        """What a prompt says of the constraints and of the films on offer."""
        films = [film(self.world.catalog, item, with_id=self.llm.structured) for item in allowed.items]
        wishes = [f"- {name}: {value}" for name, value in self.state.items()]
        return {
            "wishes": "\n".join(wishes) or _NO_CONSTRAINT,
            "candidates": "\n".join(films),
            "most": min(self.llm.most, len(allowed.items)),
        }


class _BareModel:
    """Makes the system of a model's spec without a mode before it, which is worded."""

    longest = _Worded.longest

    def __init__(self, backend: str) -> None:
        self.__doc__ = f"Mode worded: the tracker understands, {backend} chooses and words the reply."

    def __call__(self, world: World, seed: int, session: int, spec: str, argument: str = "") -> _Worded:
        return _Worded(world, seed, session, spec)


def _quote(speaker: str, text: str) -> str:
    """An utterance as one JSON string of at most 2,000 characters."""
    return f"{speaker}: {one_line(shorten(text, TURN_LIMIT))}"


def _prompt(llm: ModelSettings) -> str:
    """The name of the prompt; the plain one says nothing of a form."""
    return modes.prompt_name("crs_reply_json", llm) if llm.structured else "movies/crs_reply"


@lru_cache(maxsize=4096)
def film(catalog: Catalog, item: int, *, with_id: bool) -> str:
    """A film on offer as one line: id, title, year, then what is known of it."""
    entry = catalog.items[item]
    facts = []
    for row in fields.most_telling(catalog.fields):
        values = entry.values.get(row.name)
        if row.in_prompt and values:
            facts.append(_clause(row.in_prompt, values))
    if entry.plot:
        facts.append(shorten(entry.plot, _PLOT))
    line = f"- [{entry.item_id}] {entry.title}" if with_id else f"- {entry.title}"
    if entry.year:
        line += f" ({entry.year})"
    if facts:
        line += f": {'; '.join(facts)}"
    return " ".join(line.split())


def _clause(clause: Clause, values: Sequence[str]) -> str:
    """A clause with a film's values filled in."""
    shown = values[: clause.most]
    if "$list" in clause.text:
        return clause.text.replace("$list", ", ".join(shown))
    return clause.text.replace("$values", listing(shown))


for _backend in BACKENDS:
    _facts = {name: _backend.facts[name] for name in ("argument", "example") if name in _backend.facts}
    SYSTEMS.register(_backend.name, llm=True, **_facts)(_BareModel(_backend.name))
