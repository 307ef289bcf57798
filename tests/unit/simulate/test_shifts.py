"""The six shift types of the study: what each changes, when it can happen, and what it leaves."""

import pytest

from crs_lib.core.rng import stream
from crs_lib.simulate import scenarios, shifts
from crs_lib.simulate.shifts import SHIFTS, PlannedShift, StateShape, UserState
from tests.helpers.sample import SAMPLE

STUDY = ("refine", "switch", "replace", "relax", "contradict", "return")


def proposals(kind, n=12):
    """States as they come about, each with a shift of a type from it."""
    states = (step.state for i in range(n) for step in scenarios.plan(SAMPLE, i, i, 12).steps)
    for i, state in enumerate(states):
        shift = shifts.propose(kind, SAMPLE, state, stream(i, "types"))
        if shift is not None:
            yield state, shift


def allowed(shape):
    return {kind for kind in STUDY if SHIFTS.create(kind).allows(shape)}


def after(shape, *kinds):
    for kind in kinds:
        shape = SHIFTS.create(kind).leaves(shape)
    return shape


def test_what_can_happen_and_what_a_type_leaves():
    assert allowed(StateShape(3)) == {"switch", "replace", "relax", "contradict"}
    assert allowed(StateShape(2)) == {"refine", "switch", "replace", "relax", "contradict"}
    assert allowed(StateShape(1, given_up=True)) == {"refine", "switch", "replace", "contradict", "return"}
    three = StateShape(3)
    assert after(three, "relax") == StateShape(2, given_up=True)
    assert after(three, "contradict") == StateShape(2)  # a value to avoid cannot return
    assert after(StateShape(1), "contradict") == StateShape(1)  # a lone one gives way to another
    assert after(three, "relax", "return") == StateShape(1, given_up=True)
    assert after(three, "switch", "refine").constraints == 3
    assert after(three, "replace") == StateShape(3, given_up=True)
    assert list(shifts.stand_ins()) == ["switch", "replace", "refine"]


@pytest.mark.parametrize(("kind", "fits"), [
    ("refine", lambda old, new: new.items() > old.items()),
    ("relax", lambda old, new: new.items() < old.items()),
    ("replace", lambda old, new: new.keys() == old.keys() and len(new.items() - old.items()) == 1),
    ("return", lambda old, new: len(new) == 1),
    ("switch", lambda old, new: len(new) == 2),
])  # fmt: skip
def test_each_type_does_what_its_name_says(kind, fits):
    for before, shift in proposals(kind):
        assert fits(dict(before.constraints), dict(shift.state.constraints)), (before, shift)


def test_returns_bring_back_what_was_given_up_and_nothing_else():
    found = list(proposals("return"))
    assert found
    assert all(set(shift.added.items()) <= set(before.past) for before, shift in found)
    past = (("genre", "War"), ("genre", "Drama"), ("actor", "A B"))
    state = UserState({"genre": "Drama"}, "genre", 0, avoid={"actor": "A B"}, past=past)
    assert state.returnable == [("genre", "War")]
    assert state.shape == StateShape(1, given_up=True)
    assert state.without("genre") == {}
    shift = PlannedShift(UserState({}, "actor", 0), "switch", {"actor": "A B"}, {}, ("actor", "A B"))
    assert SHIFTS.create("switch").to_voice(shift) == [("actor", "A B")]


@pytest.mark.parametrize(("kind", "expected"), [
    ("replace", [("actor", "A B"), ("genre", "Drama"), ("year", "1990")]),
    ("switch", [("actor", "A B"), ("year", "1990")]),
    ("return", [("actor", "A B")]),
])  # fmt: skip
def test_what_an_utterance_must_name(kind, expected):
    state = UserState({"actor": "A B"}, "actor", 0)
    shift = PlannedShift(state, kind, {"actor": "A B"}, {"genre": "Drama"}, ("year", "1990"))
    assert SHIFTS.create(kind).to_voice(shift) == expected
