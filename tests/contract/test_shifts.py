"""The contract of every shift type, in our catalogue and in a tiny one."""

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.core import prompts
from crs_lib.core.rng import stream
from crs_lib.simulate import planner, shifts
from crs_lib.simulate.shifts import SHIFTS, StateShape, UserState
from tests.helpers.sample import SAMPLE

SMALL = Catalog.from_records(
    (f"Film {i}", {"genre": [("Drama", "War")[i % 2]], "actor": [f"A{i % 3} B"], "director": [f"C{i % 4} D"], "year": str(1990 + i % 2)})
    for i in range(12)
)  # fmt: skip
EACH = pytest.mark.parametrize("kind", SHIFTS.names())


def states(catalog, n):
    """States as they come about: an opening, refined once or twice, with something given up."""
    for i in range(n):
        yield from (step.state for step in planner.plan(catalog, i, i, 12).steps)


def proposals(kind, catalog, n=12):
    for i, state in enumerate(states(catalog, n)):
        shift = shifts.propose(kind, catalog, state, stream(i, "contract"))
        if shift is not None:
            yield state, shift


@EACH
@pytest.mark.parametrize("catalog", [SAMPLE, SMALL], ids=["sample", "small"])
def test_a_shift_leaves_a_state_that_can_be_met_with_a_film_in_mind(kind, catalog):
    found = list(proposals(kind, catalog))
    assert found, "this type never happens"
    for before, shift in found:
        answers = shift.state.answers(catalog)
        assert len(answers) and shift.state.anchor in answers
        assert 1 <= len(shift.state.constraints) <= shifts.MAX_CONSTRAINTS
        assert shift.state.focus in shift.state.constraints
        assert shift.state.constraints != before.constraints or shift.state.avoid != before.avoid


@EACH
def test_a_shift_says_exactly_what_it_changed_and_leaves_the_shape_that_its_type_says(kind):
    made = SHIFTS.create(kind)
    for before, shift in proposals(kind, SAMPLE):
        old, new = dict(before.constraints), dict(shift.state.constraints)
        assert {k: v for k, v in old.items() if new.get(k) != v} == dict(shift.dropped)
        assert new.items() - old.items() <= shift.added.items() <= new.items()
        assert set(shift.dropped.items()) <= set(shift.state.past)
        assert set(before.past) <= set(shift.state.past) and not shift.state.avoid.items() & new.items()
        assert made.allows(before.shape)
        after = made.leaves(before.shape)
        assert after.constraints == len(shift.state.constraints)
        assert after.given_up or not shift.state.returnable


@EACH
def test_a_shift_repeats_leaves_the_old_state_alone_and_is_none_where_it_cannot_happen(kind):
    for i, state in enumerate(states(SAMPLE, 2)):
        before = repr(state)
        first = shifts.propose(kind, SAMPLE, state, stream(i, "again"))
        assert shifts.propose(kind, SAMPLE, state, stream(i, "again")) == first and repr(state) == before
    bare = Catalog.from_records([("Alone", {"genre": ["Drama"], "actor": ["A B"]})])
    found = shifts.propose(kind, bare, UserState({"genre": "Drama"}, "genre", 0), stream(1, "x"))
    assert found is None or len(found.state.answers(bare))


@EACH
def test_a_type_has_templates_that_its_shifts_use_and_that_voice_what_it_promises(kind):
    made = SHIFTS.create(kind)
    sections = made.sections or (kind,)
    assert all(prompts.sections("user")[f"shift_{section}"] for section in sections)
    assert {shift.section for _, shift in proposals(kind, SAMPLE)} <= set(sections)
    slots = {"title": "Qzvx", "wish": "", "old": "", "bridge": ""}
    for _, shift in proposals(kind, SAMPLE, 4):
        slots["wish"] = " and ".join(shift.added.values())
        slots["old"] = " and ".join(shift.dropped.values())
        slots["bridge"] = shift.bridge[1] if shift.bridge else ""
        slots |= {"one": slots["wish"], "old_one": slots["old"]}
        files = map(prompts.sections, prompts.USER_SETS.values())
        lines = [line for found in files for line in found.get(f"shift_{shift.section}", ())]
        for i, template in enumerate(lines):
            said = prompts.fill((template,), stream(i, "contract"), kind, **slots)
            for _, value in made.to_voice(shift):
                assert value in said, (shift.section, said)


@EACH
def test_a_type_is_never_proposed_where_it_is_not_allowed(kind):
    made = SHIFTS.create(kind)
    shapes = [StateShape(n, up) for n in range(1, shifts.MAX_CONSTRAINTS + 1) for up in (True, False)]
    allowed = [shape for shape in shapes if made.allows(shape)]
    assert allowed
    for shape in allowed:
        assert 1 <= made.leaves(shape).constraints <= shifts.MAX_CONSTRAINTS
    for i, state in enumerate(states(SAMPLE, 6)):
        if not made.allows(state.shape):
            assert shifts.propose(kind, SAMPLE, state, stream(i, "never")) is None


def test_a_type_says_what_it_is_and_those_that_stand_in_are_tried_in_their_order():
    assert all(entry.summary.endswith(".") for entry in SHIFTS)
    places = {entry.name: SHIFTS.create(entry.name).stands_in for entry in SHIFTS}
    used = [place for place in places.values() if place]
    assert len(set(used)) == len(used), "two types claim the same place"
    assert [places[name] for name in shifts.stand_ins()] == sorted(used)
