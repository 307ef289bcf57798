"""Recommenders whose reply is written by a language model; tracking and retrieval stay rule-based. The
tracker keeps the constraints and offers candidates; the model chooses among them and writes. The recommended
films are read from the ids in a structured reply, or from the titles in a plain text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

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
from crs_lib.systems.modes import TURN_LIMIT, ModelSystem, Offer
from crs_lib.systems.settings import ModelSettings

_NOTHING = "- nothing that is recorded yet"


@modes.register("worded")
class _Worded(ModelSystem):
    """The tracker understands and offers films; a model chooses among them and words the reply."""

    bare: ClassVar[bool] = False  # the spec is that of the model, without a mode before it
    counts_calls = False

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str = "") -> None:
        super().__init__(world, seed, session, spec, spec if self.bare else argument)
        self.state: dict[str, str] = {}
        self.seen: list[int] = []
        self.lines: list[str] = []  # the utterances as a prompt quotes them

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Offer films for the tracked constraints and let the model answer."""
        draw = rng.stream(self.seed, "movies", self.session, "system", "offered", turn)
        self.state = tracker.apply(self.state, tracker.read(self.world.grounder, text))
        items = rank(self.world.catalog, self.state, {}, self.seen, draw, self.llm.offered)
        self.lines.append(_quote(USER, text))
        offer = Offer(items, ids=tuple(self.ids(items)))
        parsed, extra = self.answer(turn, offer, text)
        self.lines.append(_quote(SYSTEM, parsed.text))
        self.seen += [item for item in parsed.items if item not in self.seen]
        return replace(self.replied(parsed, offer, extra), constraints=dict(self.state))

    @classmethod
    def longest(cls, catalog: Catalog, llm: ModelSettings) -> int:
        """Tokens that the longest prompt may take, with the longest films; InputError without films."""
        if not len(catalog):
            raise InputError("the catalogue holds no film; there is nothing to recommend")
        films = sorted((film(catalog, i, with_id=True) for i in range(len(catalog))), key=len, reverse=True)
        lines = "\n".join(films[: llm.offered])
        bare = prompts.source(_prompt(llm))
        return tokens_at_most([Message("user", f"{bare}{lines}{'x' * (TURN_LIMIT + 600)}")])

    def schema(self, offer: Offer) -> dict[str, Any] | None:
        """The JSON schema of a structured reply: a text, ids of films."""
        if not self.llm.structured:
            return None
        bound = {} if self.llm.reply_limit is None else {"maxLength": self.llm.reply_limit}
        text = {"type": "string", "minLength": 1, **bound}
        films = {"type": "array", "items": {"enum": list(offer.ids)}, "maxItems": self.llm.most}
        return modes.object_schema({"reply": text, "recommended": films}, "reply", "recommended")

    def messages(
        self, offer: Offer, utterance: str, more: Sequence[Message] = ()
    ) -> tuple[tuple[Message, ...], dict[str, Any]]:
        """The prompt of a turn, the utterances in it, and ``more`` behind it. As many of the latest
        utterances as fit into the context are quoted, room left for ``more``; the last utterance always is.
        """
        llm, lines = self.llm, self.lines
        known = (film(self.world.catalog, item, with_id=llm.structured) for item in offer.items)
        values: dict[str, str | int] = {
            "wishes": "\n".join(f"- {name}: {value}" for name, value in self.state.items()) or _NOTHING,
            "candidates": "\n".join(known), "most": min(llm.most, len(offer.items)),
        }  # fmt: skip
        bare = prompts.render(_prompt(llm), **values, conversation="", fence="0" * 16)
        free = room(llm.options) - tokens_at_most([Message("user", bare)]) - tokens_at_most(more)
        shown, needed = len(lines), sum(tokens_of(line) + 1 for line in lines)  # each with its line end
        while shown > 1 and needed > free:
            needed -= tokens_of(lines[-shown]) + 1
            shown -= 1
        kept = lines[-shown:]
        text = prompts.render(_prompt(llm), **values, conversation="\n".join(kept), fence=fence(kept))
        left_out = len(lines) - shown
        return (Message("user", text), *more), {"utterances_left_out": left_out} if left_out else {}


def _quote(speaker: str, text: str) -> str:
    """An utterance as one JSON string of at most 2,000 characters."""
    return f"{speaker}: {one_line(shorten(text, TURN_LIMIT))}"


def _prompt(llm: ModelSettings) -> str:
    """The name of the prompt; the plain one says nothing of a form."""
    return modes.prompt_name("crs_reply_json", llm) if llm.structured else "movies/crs_reply"


@lru_cache(maxsize=4096)
def film(catalog: Catalog, item: int, *, with_id: bool) -> str:
    """A film on offer as one line: id, title, year, then what is known of it."""
    one = catalog.items[item]
    known = ((row.in_prompt, one.values.get(row.name)) for row in fields.most_telling())
    facts = [_clause(clause, values) for clause, values in known if clause and values]
    if one.plot:
        facts.append(shorten(one.plot, 200))
    head = f"- [{one.item_id}] " if with_id else "- "
    year = f" ({one.year})" if one.year else ""
    return " ".join(f"{head}{one.title}{year}{': ' if facts else ''}{'; '.join(facts)}".split())


def _clause(clause: Clause, values: Sequence[str]) -> str:
    """A clause with a film's values filled in."""
    slot, text = ("$list", ", ".join) if "$list" in clause.text else ("$values", listing)
    return clause.text.replace(slot, text(values[: clause.most]))


for _row in BACKENDS:
    _summary = f"Mode worded: the tracker understands, {_row.name} chooses and words the reply."
    _facts = {name: _row.facts[name] for name in ("argument", "example") if name in _row.facts}
    _system: Any = type(f"Worded{_row.name.title()}", (_Worded,), {"__doc__": _summary, "bare": True})
    SYSTEMS.register(_row.name, llm=True, **_facts)(_system)
