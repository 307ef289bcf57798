"""Shift types: how a user's constraints change, when that can happen, what it leaves, how it is voiced.
Source: docs/metrics.md, section 5. To add a type, register one class here and write its templates under
``[shift_<name>]`` in prompts/movies/user.wording (docs/context.md, section 4); no other file lists the types.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from crs_lib.catalog.catalog import Catalog, Codes
from crs_lib.core.settings import Registry
from crs_lib.systems.base import Draw, Wishes

T = TypeVar("T")

MAX_CONSTRAINTS = 3
_TRIES = 30  # films that are looked at for a value
_SHARED = 3  # films with a value from which on it is no rare one


class StateShape(NamedTuple):
    """The number of constraints, and whether one given up can return: these decide which types can happen."""

    constraints: int
    given_up: bool = False


@dataclass(frozen=True)
class UserState:
    """The user's state: constraints (field to value), values to avoid, the film in mind, values given up."""

    constraints: Wishes
    focus: str
    anchor: int
    avoid: Wishes = field(default_factory=dict)
    past: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What the user wants, as the log of a shift names it."""
        return {"constraints": dict(self.constraints), "avoid": dict(self.avoid)}

    def answers(self, catalog: Catalog) -> Codes:
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
        current = {*self.constraints.items(), *self.avoid.items()}
        return [pair for pair in self.past if pair not in current]

    @property
    def shape(self) -> StateShape:
        """The shape of the state."""
        return StateShape(len(self.constraints), bool(self.returnable))


@dataclass(frozen=True)
class PlannedShift:
    """A shift: the state that follows, its section of templates, the values added and dropped, the bridge;
    ``kind`` is its type, ``repeated`` are constraints that stay and that its words name once more.
    """

    state: UserState
    section: str
    added: Wishes
    dropped: Wishes
    bridge: tuple[str, str] | None = None
    kind: str = ""
    repeated: Wishes = field(default_factory=dict)

    @property
    def named(self) -> dict[str, str]:
        """The constraints that its words name."""
        return {**self.added, **self.repeated}


class ShiftType(ABC):
    """A way in which constraints change; register subclasses by name. ``sections`` of user.wording (without
    ``shift_``; by default the name) voice it, an utterance must name every value of ``voices``; ``stands_in``
    orders the types that replace one which cannot happen (0: never). From ``fewest`` constraints on it adds
    so many (``adds``), or leaves a number (``left``), and what it gives up can return (``gives_up``).
    ``first``: it can be the change of mind that a session is measured at.
    """

    sections: ClassVar[tuple[str, ...]] = ()
    voices: ClassVar[frozenset[str]] = frozenset({"added", "dropped", "bridge"})
    stands_in: ClassVar[int] = 0
    fewest: ClassVar[int] = 1
    adds: ClassVar[int] = 0
    left: ClassVar[int] = 0
    gives_up: ClassVar[bool] = True
    first: ClassVar[bool] = True

    def allows(self, shape: StateShape) -> bool:
        """Whether a state of this shape can shift in this way; the catalogue may still forbid it."""
        return shape.constraints >= self.fewest and shape.constraints + self.adds <= MAX_CONSTRAINTS

    def can_keep(self, shape: StateShape) -> bool:
        """Whether a state of this shape can shift in this way and keep a constraint."""
        return self.allows(shape) and (self.adds > 0 or shape.constraints > 1)

    def leaves(self, shape: StateShape) -> StateShape:
        """The shape of the state after a shift of this type."""
        left = self.left or max(1, shape.constraints + self.adds)
        return StateShape(left, shape.given_up or self.gives_up)

    @abstractmethod
    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A shift from a state that the type allows, or None where the catalogue has none."""

    def make_keeping(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A shift that keeps a constraint of the state, or None."""
        shift = self.make(catalog, state, draw)
        if shift is None:
            return None
        unchanged = common(state.constraints, shift.state.constraints)
        return shift if unchanged else None

    def to_voice(self, shift: PlannedShift) -> list[tuple[str, str]]:
        """The (field, value) pairs that an utterance of the shift must name; added values come first."""
        pairs: list[tuple[str, str]] = []
        if "added" in self.voices:
            pairs += shift.named.items()
        if "dropped" in self.voices:
            pairs += shift.dropped.items()
        if "bridge" in self.voices and shift.bridge:
            pairs.append(shift.bridge)
        return list(dict.fromkeys(pairs))


SHIFTS: Registry[ShiftType] = Registry("shift type")


def propose(
    kind: str, catalog: Catalog, state: UserState, draw: Draw, *, keeping: bool = False
) -> PlannedShift | None:
    """The shift of a type from a state, with an anchor among its answers; None where there can be none.
    ``keeping``: one that keeps a constraint.
    """
    shift_type = SHIFTS.create(kind)
    if not shift_type.allows(state.shape):
        return None
    make = shift_type.make_keeping if keeping else shift_type.make
    shift = make(catalog, state, draw)
    if shift is None:
        return None
    answers = shift.state.answers(catalog)
    if not len(answers):
        return None
    anchor = shift.state.anchor
    if anchor not in answers or anchor == state.anchor:
        others = answers[answers != state.anchor].tolist()
        anchor = one_of(others or answers.tolist(), draw)
    given_up = [pair for pair in shift.dropped.items() if pair not in state.past]
    after = replace(shift.state, anchor=anchor, past=(*state.past, *given_up))
    return replace(shift, state=after, kind=kind)


def stand_ins() -> list[str]:
    """The types that replace one which cannot happen, in the order in which they are tried."""
    order = {entry.name: SHIFTS.create(entry.name).stands_in for entry in SHIFTS}
    return sorted(filter(order.get, order), key=order.__getitem__)


def one_of(options: Sequence[T], draw: Draw) -> T:
    """One of the options by chance."""
    return options[int(draw.integers(len(options)))]


def _constraint_fields(catalog: Catalog, draw: Draw, without: Collection[str]) -> list[str]:
    """The fields that may carry a constraint, without some, in random order weighted by ``Field.weight``."""
    names = [name for name, row in catalog.fields.items() if row.may_shift and name not in without]
    weights = np.array([catalog.fields[name].weight for name in names], dtype=float)
    order = draw.choice(len(names), size=len(names), replace=False, p=weights / weights.sum())
    return [names[index] for index in order]


def common(values: Wishes, others: Wishes) -> dict[str, str]:
    """The values that two states share."""
    return {name: value for name, value in values.items() if others.get(name) == value}


def _dropped(old: Wishes, new: Wishes) -> dict[str, str]:
    return {name: value for name, value in old.items() if new.get(name) != value}


class NewConstraint(NamedTuple):
    """A constraint in another field: the field, the field with its value, and a film that has it."""

    field: str
    added: dict[str, str]
    film: int


def _new_value(
    catalog: Catalog, items: Sequence[int] | Codes, name: str, unlike: int | None, draw: Draw
) -> NewConstraint | None:
    """A value of a field that a film of ``items`` has and the film ``unlike`` has not. Films are looked at in
    random order for a value that at least three share; without any, the first rarer value stands.
    """
    excluded: Sequence[str] = ()
    if unlike is not None:
        excluded = catalog.items[unlike].values[name]
    rare = None
    for index in draw.permutation(len(items))[:_TRIES]:
        film = int(items[index])
        values = [value for value in catalog.items[film].values[name] if value not in excluded]
        shared = [value for value in values if catalog.support(name, value) >= _SHARED]
        if shared:
            return NewConstraint(name, {name: one_of(shared, draw)}, film)
        if values and rare is None:
            rare = NewConstraint(name, {name: one_of(values, draw)}, film)
    return rare


def further(
    catalog: Catalog,
    items: Sequence[int] | Codes,
    without: Collection[str],
    unlike: int | None,
    draw: Draw,
) -> NewConstraint | None:
    """A constraint that a film of ``items`` meets, in a field not in ``without``."""
    for name in _constraint_fields(catalog, draw, without):
        new = _new_value(catalog, items, name, unlike, draw)
        if new:
            return new
    return None


@SHIFTS.register("refine")
class _Refine(ShiftType):
    """A further constraint in another field; the earlier ones stay."""

    stands_in = 3
    adds = 1
    gives_up = False
    first = False

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A constraint that some answer meets."""
        new = further(catalog, state.answers(catalog), state.constraints, None, draw)
        if not new:
            return None
        constraints = {**state.constraints, **new.added}
        after = replace(state, constraints=constraints, focus=new.field, anchor=new.film)
        return PlannedShift(after, "refine", new.added, {})


@SHIFTS.register("switch")
class _Switch(ShiftType):
    """Another field, reached over a bridge value shared with the film in mind; the rest is dropped."""

    voices = frozenset({"added", "bridge"})  # "never mind the rest" drops the others unnamed
    stands_in = 1
    left = 2

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A bridge of the film in mind, and a value that another film with the bridge has."""
        bridges = self._bridges(catalog, state)
        for index in draw.permutation(len(bridges)):
            name, value = bridges[index]
            items = catalog.query({name: value}).items
            items = items[items != state.anchor]
            if not len(items):
                continue
            new = further(catalog, items, (name, state.focus), state.anchor, draw)
            if new:
                added = {**new.added, name: value}
                after = UserState(added, new.field, new.film, past=state.past)
                dropped = _dropped(state.constraints, added)
                return PlannedShift(after, "switch", added, dropped, (name, value))
        return None

    def make_keeping(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A constraint of the state as the bridge, and one in a further field; the rest is dropped."""
        names = list(state.constraints)
        for index in draw.permutation(len(names)):
            name = names[index]
            repeated = {name: state.constraints[name]}
            items = catalog.query(repeated).items
            others = items[items != state.anchor]
            new = further(catalog, others, state.constraints, state.anchor, draw)
            dropped = state.without(name)
            if not new or not dropped:
                continue
            constraints = new.added | repeated
            after = UserState(constraints, new.field, new.film, past=state.past)
            bridge = None
            if catalog.fields[name].bridges:
                bridge = (name, repeated[name])
            return PlannedShift(after, "switch", new.added, dropped, bridge, repeated=repeated)
        return None

    def _bridges(self, catalog: Catalog, state: UserState) -> list[tuple[str, str]]:
        bridges = []
        for name, row in catalog.fields.items():
            if row.bridges:
                values = catalog.items[state.anchor].values[name]
                bridges += [(name, value) for value in values if state.constraints.get(name) != value]
        return bridges


@SHIFTS.register("replace")
class _Replace(ShiftType):
    """Another value in a field that has a constraint; the other constraints stay."""

    stands_in = 2

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A value that a film has which meets the other constraints."""
        names = list(state.constraints)
        for index in draw.permutation(len(names)):
            name = names[index]
            others = state.without(name)
            items = replace(state, constraints=others).answers(catalog)
            new = _new_value(catalog, items, name, state.anchor, draw)
            dropped = {name: state.constraints[name]}
            if new and new.added != dropped:
                after = replace(state, constraints=others | new.added, focus=name, anchor=new.film)
                return PlannedShift(after, "replace", new.added, dropped)
        return None


@SHIFTS.register("relax")
class _Relax(ShiftType):
    """One constraint less; at least one stays."""

    fewest = 2
    adds = -1

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        name = one_of(list(state.constraints), draw)
        others = state.without(name)
        after = replace(state, constraints=others, focus=next(iter(others)))
        return PlannedShift(after, "relax", {}, {name: state.constraints[name]})


@SHIFTS.register("contradict")
class _Contradict(ShiftType):
    """What was wished is retracted and must not come; a lone constraint gives way to one in another field."""

    sections = ("contradict", "contradict_new")
    adds = -1
    gives_up = False  # a value to avoid cannot return

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        name = one_of(list(state.constraints), draw)
        dropped = {name: state.constraints[name]}
        others = state.without(name)
        focus = next(iter(others), name)
        after = replace(state, constraints=others, avoid={**state.avoid, **dropped}, focus=focus)
        if others:
            return PlannedShift(after, "contradict", {}, dropped)
        new = further(catalog, after.answers(catalog), dropped, state.anchor, draw)
        if not new:
            return None
        after = replace(after, constraints=new.added, focus=new.field, anchor=new.film)
        return PlannedShift(after, "contradict_new", new.added, dropped)


@SHIFTS.register("return")
class _Return(ShiftType):
    """Back to a constraint that was given up; the present ones are dropped."""

    voices = frozenset({"added"})  # "never mind the rest" drops the others unnamed
    left = 1
    first = False

    def allows(self, shape: StateShape) -> bool:
        return shape.given_up

    def make(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        name, value = one_of(state.returnable, draw)
        added = {name: value}
        after = UserState(added, name, state.anchor, past=state.past)
        return PlannedShift(after, "return", added, _dropped(state.constraints, added))

    def make_keeping(self, catalog: Catalog, state: UserState, draw: Draw) -> PlannedShift | None:
        """A constraint given up, beside one of the present ones; another of these is dropped."""
        name, value = one_of(state.returnable, draw)
        added = {name: value}
        others = list(state.without(name))
        for index in draw.permutation(len(others)):
            other = others[index]
            repeated = {other: state.constraints[other]}
            constraints = added | repeated
            dropped = _dropped(state.constraints, constraints)
            after = UserState(constraints, name, state.anchor, past=state.past)
            if dropped and len(after.answers(catalog)):
                return PlannedShift(after, "return", added, dropped, repeated=repeated)
        return None
