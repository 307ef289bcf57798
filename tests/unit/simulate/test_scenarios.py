"""Scenarios: the same for every system, balanced, satisfiable, and with a twin that never shifts."""

import itertools
from collections import Counter

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.core.errors import InputError
from crs_lib.simulate import scenarios
from crs_lib.simulate.scenarios import Rates
from crs_lib.simulate.users import User, _must_voice
from tests.helpers.sample import SAMPLE

TYPES = ("refine", "switch", "replace", "relax", "contradict", "return")  # those of the study
PLANS = [scenarios.plan(SAMPLE, 7, session, 20, types=TYPES) for session in range(60)]


def test_every_wish_set_has_an_answer_and_the_film_in_mind_is_one():
    for plan in PLANS:
        for step in plan.steps:
            answers = step.state.answers(SAMPLE)
            assert step.n_answers == len(answers) > 0
            assert step.state.anchor in answers
            assert 1 <= len(step.state.constraints) <= 3
            assert not set(step.state.constraints.items()) & set(step.state.avoid.items())


def test_plans_open_with_a_genre_and_something_must_be_voiced():
    for plan in PLANS[:10]:
        for step in plan.steps:
            if step.turn == 1 or step.act == "refine" or step.shift is not None:
                assert _must_voice(step, step.act)
            else:
                assert _must_voice(step, step.act) == []
    for plan in PLANS:
        first, second = plan.steps[:2]
        assert (first.act, dict(first.state.constraints)) == ("initial", {"genre": plan.true_genre})
        assert second.act == "refine"
        before = [step for step in plan.steps if step.turn < plan.events[0]["turn"]]
        assert len(before[-1].state.constraints) in (2, 3)


def test_shifts_come_at_random_turns_with_room_before_between_and_after():
    firsts = Counter()
    for plan in PLANS:
        turns = [event["turn"] for event in plan.events]
        assert turns == scenarios.shift_turns(7, plan.session, 20)
        gaps = [b - a for a, b in itertools.pairwise(turns)]
        assert 4 <= turns[0] <= 6
        assert set(gaps) <= {3, 4, 5}
        assert turns[-1] <= 18
        firsts[turns[0]] += 1
    assert set(firsts) == {4, 5, 6}


def test_types_are_planned_in_equal_numbers_over_every_block():
    for block in range(20):
        rows = [scenarios._type_order(7, 6 * block + row, TYPES, 20) for row in range(6)]
        given = Counter(kind for row in rows for kind in row)
        assert set(given) == set(TYPES)
        assert max(given.values()) - min(given.values()) <= 2, (
            given
        )  # 24 shifts, 4 of each type but for the state
        assert all(row[0] != "return" for row in rows), "nothing was given up yet"


def test_types_as_they_happen_are_balanced_and_substitutes_are_logged():
    happened = Counter(event["type"] for plan in PLANS for event in plan.events)
    total = happened.total()
    assert set(happened) == set(TYPES)
    assert all(0.14 < n / total < 0.21 for n in happened.values()), happened
    more = [*PLANS, *(scenarios.plan(SAMPLE, 7, session, 20, types=TYPES) for session in range(60, 240))]
    events = [event for plan in more for event in plan.events]
    other = [event for event in events if event["type"] != event["planned_type"]]
    assert 0 < len(other) < 0.15 * len(events)  # put off or replaced where the catalogue has no such change
    planned = Counter(event["planned_type"] for plan in PLANS for event in plan.events)
    assert max(planned.values()) - min(planned.values()) <= 0.03 * total, planned


def test_twins_and_longer_sessions_begin_alike_and_seeds_give_other_plans():
    for plan in PLANS[:15]:
        twin = scenarios.plan(SAMPLE, 7, plan.session, 20, arm="none")
        first = plan.events[0]["turn"]
        assert twin.events == []
        assert twin.steps[: first - 1] == plan.steps[: first - 1]
        assert all(step.shift is None for step in twin.steps)
        assert twin.steps[-1].state.constraints == twin.steps[first - 2].state.constraints
    short, long = scenarios.plan(SAMPLE, 7, 3, 9), scenarios.plan(SAMPLE, 7, 3, 20)
    assert [s.state.constraints for s in long.steps[:6]] == [s.state.constraints for s in short.steps[:6]]
    again = scenarios.plan(SAMPLE, 7, 0, 20, types=TYPES)
    assert again == PLANS[0]
    assert scenarios.plan(SAMPLE, 8, 0, 20).steps != again.steps
    goals = {tuple(sorted(plan.steps[2].state.constraints.items())) for plan in PLANS}
    assert len(goals) > 50


@pytest.mark.parametrize("kind", TYPES)
def test_only_the_types_asked_for_happen(kind):
    plans = [scenarios.plan(SAMPLE, 3, session, 20, types=(kind,)) for session in range(6)]
    assert {event["type"] for plan in plans for event in plan.events} <= {kind}
    due = sum(len(scenarios.shift_turns(3, plan.session, 20)) for plan in plans)
    assert sum(step.planned == kind for plan in plans for step in plan.steps) == due
    for plan in plans:  # what was due and could not happen is in the log
        said = [User(SAMPLE, plan).speak(step.turn).meta for step in plan.steps]
        unmet = [log["turn"] for log in said if log["planned_shift"] and not log["shift_event"]]
        assert unmet == [step.turn for step in plan.steps if step.planned and step.shift is None]


def test_an_event_tells_the_whole_shift():
    for plan in PLANS[:20]:
        for before, step in itertools.pairwise(plan.steps):
            if step.event is None:
                continue
            event, old, new = step.event, before.state, step.state
            assert event["turn"] == step.turn
            assert (event["from_focus"], event["to_focus"]) == (old.focus, new.focus)
            assert (event["wishes"], event["avoid"]) == (dict(new.constraints), dict(new.avoid))
            assert event["from_anchor"] == SAMPLE.items[old.anchor].title
            assert event["n_answers"] == step.n_answers
            assert event["stratum"] == scenarios.stratum(step.n_answers)
            assert {**old.constraints, **event["added"]}.items() >= new.constraints.items()
            gone = {k: v for k, v in old.constraints.items() if new.constraints.get(k) != v}
            assert event["dropped"] == gone
            assert (event["bridge_field"] is None) == (event["type"] != "switch")


def test_bridges_are_shared_and_what_was_retracted_stays_so():
    for plan in PLANS:
        for before, step in itertools.pairwise(plan.steps):
            if step.shift is not None and step.shift.bridge:
                name, value = step.shift.bridge
                assert value in SAMPLE.items[before.state.anchor].values[name]
                assert step.state.constraints[name] == value
    for plan in PLANS:
        for before, step in itertools.pairwise(plan.steps):
            kind = step.event["type"] if step.event else None
            if kind in ("switch", "return"):
                assert not step.state.avoid
            elif kind == "contradict":
                assert step.state.avoid == {**before.state.avoid, **step.event["dropped"]}
            else:
                assert step.state.avoid == before.state.avoid


@pytest.mark.parametrize(
    ("n", "name"), [(0, "0"), (1, "1-9"), (9, "1-9"), (10, "10-49"), (49, "10-49"), (50, "50+")]
)
def test_strata(n, name):
    assert scenarios.stratum(n) == name


def test_rates_steer_the_ordinary_turns():
    def acts(**rates):
        plan = scenarios.plan(SAMPLE, 7, 0, 60, arm="none", rates=Rates(**rates))
        return {step.act for step in plan.steps[3:]}

    assert acts(hesitation=1, contradiction=0, question=0) == {"hesitate", "aside"}
    assert acts(hesitation=0, contradiction=1, question=0) == {"contradiction"}
    assert acts(hesitation=0, contradiction=0, question=0) == {"follow_up"}
    assert acts(hesitation=0, contradiction=0, question=1) == set(scenarios.QUESTIONS)


def test_a_catalogue_without_a_genre_of_five_films_is_refused():
    small = Catalog.from_records([(f"Film {i}", {"genre": ["Drama"], "actor": ["A B"]}) for i in range(4)])
    with pytest.raises(InputError, match=r"has no genre with five films; .* Give a larger catalogue"):
        scenarios.plan(small, 7, 0, 5)


def test_the_pace_says_when_wishes_shift():
    pace = scenarios.Pace((8, 8), (6, 7))
    for session in range(12):
        turns = scenarios.shift_turns(7, session, 40, pace)
        assert turns[0] == 8
        assert {later - earlier for earlier, later in itertools.pairwise(turns)} <= {6, 7}
        events = [event["turn"] for event in scenarios.plan(SAMPLE, 7, session, 40, pace=pace).events]
        assert set(events) <= set(turns)
        assert len(events) >= len(turns) - 1
