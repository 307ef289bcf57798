"""What every shift type must keep, in our catalogue and in a tiny one."""

import pytest

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.prompts import wording
from crs_lib.simulate import scenarios, shifts
from crs_lib.simulate.shifts import SHIFTS, State

SAMPLE = sources.load()
SMALL = Catalog.from_records(
    (f"Film {i}", {"genre": [("Drama", "War")[i % 2]], "actor": [f"A{i % 3} B"], "director": [f"C{i % 4} D"], "year": str(1990 + i % 2)})
    for i in range(12)
)  # fmt: skip
EACH = pytest.mark.parametrize("kind", SHIFTS.names())


def states(catalog, n):
    """Wish states as they come about: an opening, refined once or twice, with something given up."""
    for i in range(n):
        plan = scenarios.plan(catalog, i, i, 12)
        yield from (step.state for step in plan.steps)


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
        assert len(answers)
        assert shift.state.anchor in answers
        assert 1 <= len(shift.state.wishes) <= shifts.MAX_WISHES
        assert shift.state.focus in shift.state.wishes
        assert shift.state.wishes != before.wishes or shift.state.avoid != before.avoid


@EACH
def test_a_shift_says_exactly_what_it_changed(kind):
    for before, shift in proposals(kind, SAMPLE):
        old, new = dict(before.wishes), dict(shift.state.wishes)
        assert {k: v for k, v in old.items() if new.get(k) != v} == dict(shift.dropped)
        assert new.items() - old.items() <= shift.added.items() <= new.items()
        assert set(shift.dropped.items()) <= set(shift.state.past)
        assert set(before.past) <= set(shift.state.past)
        assert not shift.state.avoid.items() & new.items()


@EACH
def test_a_shift_repeats_and_leaves_the_old_state_alone(kind):
    for i, state in enumerate(states(SAMPLE, 2)):
        before = repr(state)
        first = shifts.propose(kind, SAMPLE, state, stream(i, "again"))
        assert shifts.propose(kind, SAMPLE, state, stream(i, "again")) == first
        assert repr(state) == before


@EACH
def test_a_shift_can_be_put_into_words(kind):
    for _, shift in proposals(kind, SAMPLE, 4):
        assert wording.sections("user")[f"shift_{shift.section}"]


@EACH
def test_a_shift_that_cannot_happen_is_none_not_an_error(kind):
    bare = Catalog.from_records([("Alone", {"genre": ["Drama"], "actor": ["A B"]})])
    found = shifts.propose(kind, bare, State({"genre": "Drama"}, "genre", 0), stream(1, "x"))
    assert found is None or len(found.state.answers(bare))


def test_the_types_are_those_of_the_study():
    assert set(SHIFTS.names()) >= {"refine", "switch", "replace", "relax", "contradict", "return"}
    assert all(entry.summary.endswith(".") for entry in SHIFTS)


def test_an_unknown_type_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown shift type 'refin'; did you mean 'refine'\?"):
        SHIFTS.get("refin")


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("refine", lambda old, new: new.items() > old.items()),
        ("relax", lambda old, new: new.items() < old.items()),
        ("replace", lambda old, new: new.keys() == old.keys() and len(new.items() - old.items()) == 1),
        ("return", lambda old, new: len(new) == 1),
        ("switch", lambda old, new: len(new) == 2),
    ],
)
def test_each_type_does_what_its_name_says(kind, fits):
    for before, shift in proposals(kind, SAMPLE):
        assert fits(dict(before.wishes), dict(shift.state.wishes)), (before, shift)
    if kind == "return":
        assert all(set(shift.added.items()) <= set(before.past) for before, shift in proposals(kind, SAMPLE))
