"""Shift types: how a user's wishes change. Each makes the new state, or None where it cannot happen.

Source: docs/metrics.md, section 5. To add a type, register one function here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, SHIFT_FIELDS
from crs_lib.core.registry import Registry

MAX_WISHES = 3
_TRIES, _SHARED = 30, 3


@dataclass(frozen=True)
class State:
    """What the user wants now: wishes (field to value), what must not come, the film in mind."""

    wishes: Mapping[str, str]
    focus: str
    anchor: int
    avoid: Mapping[str, str] = field(default_factory=dict)
    past: tuple[tuple[str, str], ...] = ()

    def answers(self, catalog: Catalog) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The recommendable films that meet every wish and nothing to avoid."""
        items = catalog.query(self.wishes).items
        for name, value in self.avoid.items():
            code = catalog.code(name, value)
            if code is not None:
                items = catalog.without(items, code)
        return items


@dataclass(frozen=True)
class Shift:
    """A shift: the new state, and what the utterance must voice."""

    state: State
    section: str
    added: Mapping[str, str]
    dropped: Mapping[str, str]
    bridge: tuple[str, str] | None = None


SHIFTS: Registry[Shift | None] = Registry("shift type")


def propose(kind: str, catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """The shift of a type from a state, or None where the catalogue or the state does not allow it.

    What is returned always has an answer in the catalogue, and an anchor among the answers.
    """
    shift = SHIFTS.create(kind, catalog=catalog, state=state, draw=draw)
    if shift is None:
        return None
    answers = shift.state.answers(catalog)
    if not len(answers):
        return None
    anchor = shift.state.anchor
    if anchor not in answers or anchor == state.anchor:
        others = answers[answers != state.anchor]
        anchor = _one(others if len(others) else answers, draw)
    given_up = tuple((f, v) for f, v in shift.dropped.items() if (f, v) not in state.past)
    return replace(shift, state=replace(shift.state, anchor=anchor, past=(*state.past, *given_up)))


def _one(options: Any, draw: np.random.Generator) -> Any:
    picked = options[int(draw.integers(len(options)))]
    return int(picked) if isinstance(picked, np.integer) else picked


def wish_fields(draw: np.random.Generator, without: Collection[str]) -> list[str]:
    """The fields that may carry a wish, without some, in random order weighted by ``Field.weight``."""
    names = [name for name in SHIFT_FIELDS if name not in without]
    weights = np.array([FIELDS[name].weight for name in names], dtype=float)
    order = draw.choice(len(names), size=len(names), replace=False, p=weights / weights.sum())
    return [names[i] for i in order]


def _dropped(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in old.items() if new.get(name) != value}


def new_value(
    catalog: Catalog, items: Any, name: str, unlike: int | None, draw: np.random.Generator
) -> tuple[str, int] | None:
    """A value of a field and a film that has it, out of ``items``; not one that film ``unlike`` has.

    Values that three films or more have are preferred, so that a wish seldom names one film only.
    """
    had = set(catalog.items[unlike].values[name]) if unlike is not None else set()
    rare: tuple[str, int] | None = None
    for place in draw.permutation(len(items))[:_TRIES]:
        item = int(items[place])
        values = [value for value in catalog.items[item].values[name] if value not in had]
        shared = [value for value in values if catalog.support(name, value) >= _SHARED]
        if shared:
            return str(_one(shared, draw)), item
        if values and rare is None:
            rare = str(_one(values, draw)), item
    return rare


@SHIFTS.register("refine")
def refine(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """A further wish in another field; the earlier ones stay."""
    if len(state.wishes) >= MAX_WISHES:
        return None
    items = state.answers(catalog)
    for name in wish_fields(draw, state.wishes):
        found = new_value(catalog, items, name, None, draw)
        if found and len(items):
            value, anchor = found
            wishes = {**state.wishes, name: value}
            return Shift(
                replace(state, wishes=wishes, focus=name, anchor=anchor), "refine", {name: value}, {}
            )
    return None


@SHIFTS.register("switch")
def switch(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """Another field, reached over a bridge value shared with the film in mind; the rest is dropped."""
    film = catalog.items[state.anchor]
    bridges = [
        (name, value)
        for name, row in FIELDS.items()
        if row.bridge
        for value in film.values[name]
        if state.wishes.get(name) != value
    ]
    for place in draw.permutation(len(bridges)):
        name, value = bridges[place]
        items = catalog.query({name: value}).items
        items = items[items != state.anchor]
        if not len(items):
            continue
        for target in wish_fields(draw, (name, state.focus)):
            found = new_value(catalog, items, target, state.anchor, draw)
            if found:
                added = {target: found[0], name: value}
                new = State(added, target, found[1], past=state.past)
                return Shift(new, "switch", added, _dropped(state.wishes, added), (name, value))
    return None


@SHIFTS.register("replace")
def replace_value(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """Another value in a field that has a wish; the other wishes stay."""
    wished = list(state.wishes)
    for place in draw.permutation(len(wished)):
        name = wished[place]
        rest = {field: value for field, value in state.wishes.items() if field != name}
        items = replace(state, wishes=rest).answers(catalog)
        found = new_value(catalog, items, name, state.anchor, draw)
        if found and found[0] != state.wishes[name]:
            added, dropped = {name: found[0]}, {name: state.wishes[name]}
            new = replace(state, wishes=rest | added, focus=name, anchor=found[1])
            return Shift(new, "replace", added, dropped)
    return None


@SHIFTS.register("relax")
def relax(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """One wish less; at least one stays."""
    if len(state.wishes) < 2:
        return None
    name = str(_one(list(state.wishes), draw))
    rest = {field: value for field, value in state.wishes.items() if field != name}
    new = replace(state, wishes=rest, focus=next(iter(rest)))
    return Shift(new, "relax", {}, {name: state.wishes[name]})


@SHIFTS.register("contradict")
def contradict(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """What was wished is retracted and must not come; a lone wish gives way to one in another field."""
    name = str(_one(list(state.wishes), draw))
    dropped = {name: state.wishes[name]}
    rest = {field: value for field, value in state.wishes.items() if field != name}
    avoid = {**state.avoid, **dropped}
    new = replace(state, wishes=rest, avoid=avoid, focus=next(iter(rest), name))
    if rest:
        return Shift(new, "contradict", {}, dropped)
    items = new.answers(catalog)
    for target in wish_fields(draw, dropped):
        found = new_value(catalog, items, target, state.anchor, draw)
        if found:
            added = {target: found[0]}
            full = replace(new, wishes=added, focus=target, anchor=found[1])
            return Shift(full, "contradict_new", added, dropped)
    return None


@SHIFTS.register("return")
def return_to(catalog: Catalog, state: State, draw: np.random.Generator) -> Shift | None:
    """Back to a wish that was given up; the present ones are dropped."""
    earlier = [(f, v) for f, v in state.past if state.wishes.get(f) != v and state.avoid.get(f) != v]
    if not earlier:
        return None
    name, value = _one(earlier, draw)
    added = {name: value}
    new = State(added, name, state.anchor, past=state.past)
    return Shift(new, "return", added, _dropped(state.wishes, added))
