"""The contract of every shift type, in our catalogue and in a tiny one."""

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.core import prompts
from crs_lib.core.rng import stream
from crs_lib.simulate import planner, shifts
from crs_lib.simulate.shifts import SHIFTS, StateShape, UserState
from tests.helpers.sample import SAMPLE


def small_catalog():
    """Twelve films of two genres."""
    records = []
    for number in range(12):
        film = {"genre": [("Drama", "War")[number % 2]], "year": str(1990 + number % 2)}
        film["actor"] = [f"A{number % 3} B"]
        film["director"] = [f"C{number % 4} D"]
        records.append((f"Film {number}", film))
    return Catalog.from_records(records)


EACH = pytest.mark.parametrize("kind", SHIFTS.names())


def states(catalog, n):
    """States as they come about: an opening, refined once or twice, with something given up."""
    for number in range(n):
        for step in planner.plan(catalog, number, number, 12).steps:
            yield step.state


def proposals(kind, catalog, n=12):
    """States, each with a shift of a type from it."""
    for number, state in enumerate(states(catalog, n)):
        shift = shifts.propose(kind, catalog, state, stream(number, "contract"))
        if shift is not None:
            yield state, shift


@EACH
@pytest.mark.parametrize("catalog", [SAMPLE, small_catalog()], ids=["sample", "small"])
def test_a_shift_leaves_a_state_that_can_be_met_with_a_film_in_mind(kind, catalog):
    pairs = list(proposals(kind, catalog))
    assert pairs, "this type never happens"
    for before, shift in pairs:
        after = shift.state
        assert after.anchor in after.answers(catalog)
        assert 1 <= len(after.constraints) <= shifts.MAX_CONSTRAINTS
        assert after.focus in after.constraints
        assert (after.constraints, after.avoid) != (before.constraints, before.avoid)


@EACH
def test_a_shift_says_exactly_what_it_changed(kind):
    for before, shift in proposals(kind, SAMPLE):
        old = dict(before.constraints)
        new = dict(shift.state.constraints)
        gone = {name: value for name, value in old.items() if new.get(name) != value}
        assert dict(shift.dropped) == gone
        assert new.items() - old.items() <= shift.added.items()
        assert shift.added.items() <= new.items()
        assert set(shift.dropped.items()) <= set(shift.state.past)
        assert set(before.past) <= set(shift.state.past)
        assert not shift.state.avoid.items() & new.items()


@EACH
def test_a_shift_leaves_the_shape_that_its_type_says(kind):
    shift_type = SHIFTS.create(kind)
    for before, shift in proposals(kind, SAMPLE):
        assert shift.kind == kind
        assert shift_type.allows(before.shape)
        after = shift_type.leaves(before.shape)
        assert after.constraints == len(shift.state.constraints)
        assert after.given_up or not shift.state.returnable


@EACH
def test_a_shift_repeats_and_leaves_the_old_state_alone(kind):
    for number, state in enumerate(states(SAMPLE, 2)):
        before = repr(state)
        first = shifts.propose(kind, SAMPLE, state, stream(number, "again"))
        assert shifts.propose(kind, SAMPLE, state, stream(number, "again")) == first
        assert repr(state) == before


@EACH
def test_a_shift_is_none_where_it_cannot_happen(kind):
    bare = Catalog.from_records([("Alone", {"genre": ["Drama"], "actor": ["A B"]})])
    shift = shifts.propose(kind, bare, UserState({"genre": "Drama"}, "genre", 0), stream(1, "x"))
    assert shift is None or len(shift.state.answers(bare))


@EACH
def test_a_type_has_templates_that_its_shifts_use(kind):
    sections = SHIFTS.create(kind).sections or (kind,)
    for section in sections:
        assert prompts.sections("user")[f"shift_{section}"]
    used = {shift.section for _, shift in proposals(kind, SAMPLE)}
    assert used <= set(sections)


@EACH
def test_templates_voice_what_a_type_promises(kind):
    files = [prompts.sections(name) for name in prompts.USER_SETS.values()]
    for _, shift in proposals(kind, SAMPLE, 4):
        needed = SHIFTS.create(kind).to_voice(shift)
        added = " and ".join(shift.added.values())
        dropped = " and ".join(shift.dropped.values())
        bridge = shift.bridge[1] if shift.bridge else ""
        slots = {"title": "Qzvx", "wish": added, "old": dropped, "bridge": bridge}
        slots |= {"one": added, "old_one": dropped}
        for sections in files:
            for number, template in enumerate(sections.get(f"shift_{shift.section}", ())):
                text = prompts.fill((template,), stream(number, "contract"), kind, **slots)
                for _, value in needed:
                    assert value in text, shift.section


@EACH
def test_a_type_is_allowed_somewhere_and_leaves_a_shape_that_there_can_be(kind):
    shift_type = SHIFTS.create(kind)
    shapes = []
    for constraints in range(1, shifts.MAX_CONSTRAINTS + 1):
        shapes += [StateShape(constraints, True), StateShape(constraints)]
    allowed = [shape for shape in shapes if shift_type.allows(shape)]
    assert allowed
    for shape in allowed:
        assert 1 <= shift_type.leaves(shape).constraints <= shifts.MAX_CONSTRAINTS


@EACH
def test_a_type_is_never_proposed_where_it_is_not_allowed(kind):
    shift_type = SHIFTS.create(kind)
    for number, state in enumerate(states(SAMPLE, 6)):
        if not shift_type.allows(state.shape):
            assert shifts.propose(kind, SAMPLE, state, stream(number, "never")) is None


def test_a_type_says_what_it_is_and_those_that_stand_in_are_tried_in_their_order():
    order = {}
    for entry in SHIFTS:
        assert entry.summary.endswith(".")
        order[entry.name] = SHIFTS.create(entry.name).stands_in
    used = [number for number in order.values() if number]
    assert len(set(used)) == len(used), "two types claim the same place"
    assert [order[name] for name in shifts.stand_ins()] == sorted(used)
