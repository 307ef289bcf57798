"""Shift types: how a user's constraints change, when that can happen, what it leaves, how it is voiced.
Source: docs/metrics.md, section 5. To add a type, register one class here and write its templates under
``[shift_<name>]`` in prompts/movies/user.wording (docs/context.md, section 4); no other file lists the types.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from crs_lib.catalog.catalog import Catalog
from crs_lib.core.settings import Registry

MAX_CONSTRAINTS = 3
_TRIES, _SHARED = 30, 3


class StateShape(NamedTuple):
    """The number of constraints, and whether one given up can return: these decide which types can happen."""

    constraints: int
    given_up: bool = False


@dataclass(frozen=True)
class UserState:
    """The user's state: constraints (field to value), values to avoid, the film in mind, values given up."""

    constraints: Mapping[str, str]
    focus: str
    anchor: int
    avoid: Mapping[str, str] = field(default_factory=dict)
    past: tuple[tuple[str, str], ...] = ()

    def answers(self, catalog: Catalog) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The recommendable films that meet every constraint and have no value to avoid."""
        items = catalog.query(self.constraints).items
        for name, value in self.avoid.items():
            code = catalog.code(name, value)
            if code is not None:
                items = catalog.without(items, code)
        return items

    def without(self, name: str) -> dict[str, str]:
        """The constraints but for one field."""
        return {field: value for field, value in self.constraints.items() if field != name}

    @property
    def returnable(self) -> list[tuple[str, str]]:
        """The values given up that are neither wanted again nor to be avoided."""
        return [(f, v) for f, v in self.past if self.constraints.get(f) != v and self.avoid.get(f) != v]

    @property
    def shape(self) -> StateShape:
        """The shape of the state."""
        return StateShape(len(self.constraints), bool(self.returnable))


@dataclass(frozen=True)
class PlannedShift:
    """A shift: the state that follows, its section of templates, the values added and dropped, the bridge."""

    state: UserState
    section: str
    added: Mapping[str, str]
    dropped: Mapping[str, str]
    bridge: tuple[str, str] | None = None


class ShiftType(ABC):
    """A way in which constraints change; register subclasses by name. ``sections`` of user.wording (without
    ``shift_``; by default the name) voice it, an utterance must name every value of ``voices``; ``stands_in``
    orders the types that replace one which cannot happen (0: never). From ``fewest`` constraints on it adds
    so many (``adds``), or leaves a number (``left``), and what it gives up can return (``gives_up``).
    """

    sections: ClassVar[tuple[str, ...]] = ()
    voices: ClassVar[frozenset[str]] = frozenset({"added", "dropped", "bridge"})
    stands_in: ClassVar[int] = 0
    fewest: ClassVar[int] = 1
    adds: ClassVar[int] = 0
    left: ClassVar[int] = 0
    gives_up: ClassVar[bool] = True

    def allows(self, shape: StateShape) -> bool:
        """Whether a state of this shape can shift in this way; the catalogue may still forbid it."""
        return shape.constraints >= self.fewest and shape.constraints + self.adds <= MAX_CONSTRAINTS

    def leaves(self, shape: StateShape) -> StateShape:
        """The shape of the state after a shift of this type."""
        left = self.left or max(1, shape.constraints + self.adds)
        return StateShape(left, shape.given_up or self.gives_up)

    @abstractmethod
    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        """A shift from a state that the type allows, or None where the catalogue has none."""

    def to_voice(self, shift: PlannedShift) -> list[tuple[str, str]]:
        """The (field, value) pairs that an utterance of the shift must name; added values come first."""
        parts = {"added": [*shift.added.items()], "dropped": [*shift.dropped.items()]}
        parts["bridge"] = [shift.bridge] if shift.bridge else []
        pairs = (pair for name, found in parts.items() if name in self.voices for pair in found)
        return list(dict.fromkeys(pairs))


SHIFTS: Registry[ShiftType] = Registry("shift type")


def propose(kind: str, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
    """The shift of a type from a state, with an anchor among its answers; None where there can be none."""
    made = SHIFTS.create(kind)
    shift = made.make(catalog, state, draw) if made.allows(state.shape) else None
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


def stand_ins() -> Iterator[str]:
    """The types that replace one which cannot happen, in the order in which they are tried."""
    kinds = {entry.name: SHIFTS.create(entry.name).stands_in for entry in SHIFTS}
    return iter(sorted((name for name, place in kinds.items() if place), key=lambda name: kinds[name]))


def _one(options: Any, draw: np.random.Generator) -> Any:
    picked = options[int(draw.integers(len(options)))]
    return int(picked) if isinstance(picked, np.integer) else picked


def _constraint_fields(catalog: Catalog, draw: np.random.Generator, without: Collection[str]) -> list[str]:
    """The fields that may carry a constraint, without some, in random order weighted by ``Field.weight``."""
    names = [name for name, row in catalog.fields.items() if row.may_shift and name not in without]
    weights = np.array([catalog.fields[name].weight for name in names], dtype=float)
    order = draw.choice(len(names), size=len(names), replace=False, p=weights / weights.sum())
    return [names[i] for i in order]


def _dropped(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in old.items() if new.get(name) != value}


def _new_value(
    catalog: Catalog, items: Any, name: str, unlike: int | None, draw: np.random.Generator
) -> tuple[str, int] | None:
    """A value of a field (best of three films) and a film of ``items`` with it, none of ``unlike``."""
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


def further(
    catalog: Catalog, items: Any, without: Collection[str], unlike: int | None, draw: np.random.Generator
) -> tuple[str, dict[str, str], int] | None:
    """A constraint in a field not in ``without``: the field, its value, a film (:func:`_new_value`)."""
    for name in _constraint_fields(catalog, draw, without):
        if found := _new_value(catalog, items, name, unlike, draw):
            return name, {name: found[0]}, found[1]
    return None


@SHIFTS.register("refine")
class _Refine(ShiftType):
    """A further constraint in another field; the earlier ones stay."""

    stands_in, adds, gives_up = 3, 1, False

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        """A constraint that some answer meets."""
        found = further(catalog, state.answers(catalog), state.constraints, None, draw)
        if not found:
            return None
        name, added, film = found
        new = replace(state, constraints={**state.constraints, **added}, focus=name, anchor=film)
        return PlannedShift(new, "refine", added, {})


@SHIFTS.register("switch")
class _Switch(ShiftType):
    """Another field, reached over a bridge value shared with the film in mind; the rest is dropped."""

    voices = frozenset({"added", "bridge"})  # "never mind the rest" drops the others unnamed
    stands_in, left = 1, 2

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        """A bridge of the film in mind, and a value that another film with the bridge has."""
        film = catalog.items[state.anchor]
        names = [name for name, row in catalog.fields.items() if row.bridges]
        bridges = [(n, v) for n in names for v in film.values[n] if state.constraints.get(n) != v]
        for place in draw.permutation(len(bridges)):
            name, value = bridges[place]
            items = catalog.query({name: value}).items
            items = items[items != state.anchor]
            if not len(items):
                continue
            if found := further(catalog, items, (name, state.focus), state.anchor, draw):
                target, added, film_then = found
                added = {**added, name: value}
                new = UserState(added, target, film_then, past=state.past)
                return PlannedShift(new, "switch", added, _dropped(state.constraints, added), (name, value))
        return None


@SHIFTS.register("replace")
class _Replace(ShiftType):
    """Another value in a field that has a constraint; the other constraints stay."""

    stands_in = 2

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        """A value that a film has which meets the other constraints."""
        names = list(state.constraints)
        for place in draw.permutation(len(names)):
            name = names[place]
            rest = state.without(name)
            items = replace(state, constraints=rest).answers(catalog)
            found = _new_value(catalog, items, name, state.anchor, draw)
            if found and found[0] != state.constraints[name]:
                added, dropped = {name: found[0]}, {name: state.constraints[name]}
                new = replace(state, constraints=rest | added, focus=name, anchor=found[1])
                return PlannedShift(new, "replace", added, dropped)
        return None


@SHIFTS.register("relax")
class _Relax(ShiftType):
    """One constraint less; at least one stays."""

    fewest, adds = 2, -1

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        name = str(_one(list(state.constraints), draw))
        rest = state.without(name)
        new = replace(state, constraints=rest, focus=next(iter(rest)))
        return PlannedShift(new, "relax", {}, {name: state.constraints[name]})


@SHIFTS.register("contradict")
class _Contradict(ShiftType):
    """What was wished is retracted and must not come; a lone constraint gives way to one in another field."""

    sections = ("contradict", "contradict_new")
    adds, gives_up = -1, False  # a value to avoid cannot return

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        name = str(_one(list(state.constraints), draw))
        dropped = {name: state.constraints[name]}
        rest = state.without(name)
        new = replace(state, constraints=rest, avoid={**state.avoid, **dropped}, focus=next(iter(rest), name))
        if rest:
            return PlannedShift(new, "contradict", {}, dropped)
        if not (found := further(catalog, new.answers(catalog), dropped, state.anchor, draw)):
            return None
        target, added, film = found
        full = replace(new, constraints=added, focus=target, anchor=film)
        return PlannedShift(full, "contradict_new", added, dropped)


@SHIFTS.register("return")
class _Return(ShiftType):
    """Back to a constraint that was given up; the present ones are dropped."""

    voices, left = frozenset({"added"}), 1  # "never mind the rest" drops the others unnamed

    def allows(self, shape: StateShape) -> bool:
        return shape.given_up

    def make(self, catalog: Catalog, state: UserState, draw: np.random.Generator) -> PlannedShift | None:
        name, value = _one(state.returnable, draw)
        added = {name: value}
        new = UserState(added, name, state.anchor, past=state.past)
        return PlannedShift(new, "return", added, _dropped(state.constraints, added))
