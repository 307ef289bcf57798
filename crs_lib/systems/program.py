"""Systems that are programs of others behind the contract: ``http:URL``, ``exec:COMMAND``, ``python:Class``.

The program gets the conversation and nothing else. Films are read from ids or titles in its answer, or from
the titles in its reply; titles that the catalogue lacks are counted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import ALL_FIELDS
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, shorten
from crs_lib.systems import contract
from crs_lib.systems.base import SYSTEMS, System, SystemReply, World
from crs_lib.systems.contract import Answer
from crs_lib.systems.programs import PROGRAMS

_YEAR = re.compile(r"\s*[(\[](\d{4})[)\]]\s*$")


class Program:
    """One conversation of a program, which is sent all of it at every turn.

    Raises LLMError where the program gives no usable answer: there is never a stand-in text.
    """

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str) -> None:
        if world.programs is None:
            raise InputError(f"system {spec!r} is a program; give the World a Programs as programs")
        self.world, self.spec, self.session = world, spec, session
        self.programs, self.want = world.programs, world.wording.most
        self.conversation: list[tuple[str, str]] = []

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Ask the program for the reply; ``user_meta`` is not looked at."""
        self.conversation.append((USER, text))
        name, place = self.world.conversation or f"{self.session:05d}", (len(self.conversation) + 1) // 2
        request = contract.request(name, place, self.want, self.programs.name, self.conversation)
        tags: dict[str, str | int] = {"session": self.session, "system": self.spec, "turn": turn}
        answer = self.programs.ask(self.spec, request, tags)
        self.conversation.append((SYSTEM, answer.reply))
        return self._understood(answer, text)

    def _understood(self, answer: Answer, utterance: str) -> SystemReply:
        """The answer in terms of the catalogue; at most as many films as were wanted count."""
        grounder, catalog = self.world.grounder, self.world.catalog
        mentions = grounder.titles(answer.reply)
        named = tuple(dict.fromkeys(mention.item for mention in mentions))
        foreign: list[str] = []
        if answer.recommended is None:
            about = {mention.item for mention in grounder.titles(utterance)}
            found = tuple(item for item in named if item not in about)
        else:
            found, foreign = films(catalog, answer.recommended)
        foreign += [one.title for one in grounder.unknown_titles(answer.reply, mentions, utterance)]
        items = found[: self.want]
        extra: dict[str, Any] = {}
        if beyond := len(found) - len(items):
            extra["films_beyond"] = beyond
        if mentioned := [catalog.items[item].item_id for item in named if item not in items]:
            extra["mentioned_ids"] = mentioned
        if answer.state is not None:
            extra["state"] = dict(answer.state)
        once = {fold(_YEAR.sub("", title)): title for title in reversed(foreign)}
        hallucinated = tuple(title for title in dict.fromkeys(foreign) if title in once.values())
        return SystemReply(answer.reply, items, known(catalog, answer.state or {}), hallucinated, extra)


def films(catalog: Catalog, named: Sequence[str]) -> tuple[tuple[int, ...], list[str]]:
    """The films that ids and titles name, each once, and the names that the catalogue lacks.

    Among films of one title a year in brackets decides, then the order of the catalogue.
    """
    items: dict[int, None] = {}
    foreign: list[str] = []
    for one in named:
        item = catalog.id_index.get(one.strip())
        item = _by_title(catalog, one) if item is None else item
        if item is None:
            foreign.append(shorten(" ".join(one.split()), 200))
        else:
            items[item] = None
    return tuple(items), foreign


def _by_title(catalog: Catalog, title: str) -> int | None:
    same = catalog.title_index.get(fold(title))
    year = _YEAR.search(title)
    if same is None and year:
        same = catalog.title_index.get(fold(title[: year.start()]))
    if not same:
        return None
    return next((item for item in same if year and catalog.items[item].year == int(year[1])), same[0])


def known(catalog: Catalog, state: Mapping[str, str | list[str]]) -> dict[str, str]:
    """The part of a stated state that the catalogue has: one value a field, as the catalogue writes it."""
    found: dict[str, str] = {}
    for name, values in state.items():
        for value in [values] if isinstance(values, str) else values:
            code = catalog.known_code(name, value) if name in ALL_FIELDS else None
            if code is not None:
                found.setdefault(name, catalog.vocabulary.value[code])
    return found


def _register(name: str, summary: str, facts: Mapping[str, Any]) -> None:
    def make(world: World, seed: int, session: int, spec: str, argument: Any = None) -> System:
        return Program(world, seed, session, spec)

    make.__doc__ = summary
    told = {fact: facts[fact] for fact in ("argument", "example")}
    SYSTEMS.register(name, program=True, parse=facts["check"], **told)(make)


for _row in PROGRAMS:
    _register(_row.name, _row.summary, _row.facts)
