"""Scenarios: the same for every system, balanced, satisfiable, and with a twin that never shifts."""

import itertools
from collections import Counter

import numpy as np
import pytest

from crs_lib import evaluate, simulate
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.rng import stream
from crs_lib.evaluate import arms
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.simulate import planner, scenarios, shifts, voices
from crs_lib.simulate.run import conversation_id
from crs_lib.simulate.scenarios import Streams
from crs_lib.simulate.shifts import SHIFTS, PlannedShift, StateShape, UserState
from crs_lib.simulate.users import User, check_voiced, must_voice
from crs_lib.systems.base import World
from crs_lib.systems.contract import Answer
from tests.helpers import refused
from tests.helpers.sample import GROUNDER, SAMPLE

TYPES = ("refine", "switch", "replace", "relax", "contradict", "return")  # those of the study
PLANS = [planner.plan(SAMPLE, 7, session, 20, types=TYPES) for session in range(60)]


def test_every_state_has_an_answer_plans_open_with_a_genre_and_shifts_have_room_around_them():
    for plan in PLANS:
        for step in plan.steps:
            answers = step.state.answers(SAMPLE)
            assert step.n_answers == len(answers) > 0 and step.state.anchor in answers
            assert 1 <= len(step.state.constraints) <= 3
            assert not set(step.state.constraints.items()) & set(step.state.avoid.items())
            states = step.turn == 1 or step.act == "refine" or step.shift is not None
            assert bool(must_voice(step, step.act)) == states
        first, second = plan.steps[:2]
        assert (first.act, first.state.constraints) == ("initial", {"genre": plan.true_genre})
        assert second.act == "refine"
        assert len(plan.steps[plan.events[0].turn - 2].state.constraints) in (2, 3)
    every = [[event.turn for event in plan.events] for plan in PLANS]
    assert every == [scenarios.shift_turns(7, plan.session, 20) for plan in PLANS]
    assert {b - a for turns in every for a, b in itertools.pairwise(turns)} <= {3, 4, 5}
    assert {turns[0] for turns in every} == {4, 5, 6} and max(turns[-1] for turns in every) <= 18


def test_types_are_planned_in_equal_numbers_happen_so_and_substitutes_are_logged():
    for block in range(20):
        rows = [planner.Schedule(20, TYPES).shift_types(Streams(7, 6 * block + row)) for row in range(6)]
        given = Counter(kind for row in rows for kind in row)
        assert set(given) == set(TYPES)
        # 24 shifts, 4 of each type but for the state
        assert max(given.values()) - min(given.values()) <= 2, given
        assert all(row[0] != "return" for row in rows), "nothing was given up yet"
    happened = Counter(event.type for plan in PLANS for event in plan.events)
    total = happened.total()
    assert set(happened) == set(TYPES)
    assert all(0.14 < n / total < 0.21 for n in happened.values()), happened
    more = [*PLANS, *(planner.plan(SAMPLE, 7, session, 20, types=TYPES) for session in range(60, 240))]
    events = [event for plan in more for event in plan.events]
    other = [event for event in events if event.type != event.log["planned_type"]]
    assert 0 < len(other) < 0.15 * len(events)  # put off or replaced where the catalogue has no such change
    planned = Counter(event.log["planned_type"] for plan in PLANS for event in plan.events)
    assert max(planned.values()) - min(planned.values()) <= 0.03 * total, planned


def test_twins_and_longer_sessions_begin_alike_and_seeds_give_other_plans():
    for plan in PLANS[:15]:
        twin = planner.plan(SAMPLE, 7, plan.session, 20, arm="none")
        first = plan.events[0].turn
        assert twin.events == [] and twin.steps[: first - 1] == plan.steps[: first - 1]
        assert all(step.shift is None for step in twin.steps)
        assert twin.steps[-1].state.constraints == twin.steps[first - 2].state.constraints
    short, long = planner.plan(SAMPLE, 7, 3, 9), planner.plan(SAMPLE, 7, 3, 20)
    assert [s.state.constraints for s in long.steps[:6]] == [s.state.constraints for s in short.steps[:6]]
    assert planner.plan(SAMPLE, 7, 0, 20, types=TYPES) == PLANS[0]
    assert planner.plan(SAMPLE, 8, 0, 20).steps != PLANS[0].steps
    goals = {tuple(sorted(plan.steps[2].state.constraints.items())) for plan in PLANS}
    assert len(goals) > 50


@pytest.mark.parametrize("kind", TYPES)
def test_only_the_types_asked_for_happen(kind):
    plans = [planner.plan(SAMPLE, 3, session, 20, types=(kind,)) for session in range(6)]
    assert {event.type for plan in plans for event in plan.events} <= {kind}
    due = sum(len(scenarios.shift_turns(3, plan.session, 20)) for plan in plans)
    assert sum(step.planned == kind for plan in plans for step in plan.steps) == due
    for plan in plans:  # what was due and could not happen is in the log
        said = [User(SAMPLE, plan).speak(step.turn).meta for step in plan.steps]
        unmet = [log["turn"] for log in said if log["planned_shift"] and not log["shift_event"]]
        assert unmet == [step.turn for step in plan.steps if step.planned and step.shift is None]


def test_an_event_tells_the_whole_shift_bridges_are_shared_and_retractions_stay():
    for plan in PLANS:
        for before, step in itertools.pairwise(plan.steps):
            event, old, new = step.event and step.event.log, before.state, step.state
            kind = event["type"] if event else None
            shunned = {**old.avoid, **event["dropped"]} if kind == "contradict" else old.avoid
            assert new.avoid == ({} if kind in ("switch", "return") else shunned)
            if step.shift is not None and step.shift.bridge:
                name, value = step.shift.bridge
                assert new.constraints[name] == value and value in SAMPLE.items[old.anchor].values[name]
            if event is None:
                continue
            assert event["turn"] == step.turn
            assert (event["from_focus"], event["to_focus"]) == (old.focus, new.focus)
            assert (event["wishes"], event["avoid"]) == (dict(new.constraints), dict(new.avoid))
            assert event["from_anchor"] == SAMPLE.items[old.anchor].title
            n = step.n_answers
            assert (event["n_answers"], event["stratum"]) == (n, scenarios.stratum(n))
            assert {**old.constraints, **event["added"]}.items() >= new.constraints.items()
            gone = {k: v for k, v in old.constraints.items() if new.constraints.get(k) != v}
            assert event["dropped"] == gone
            assert (event["bridge_field"] is None) == (event["type"] != "switch")
    names = ["0", "1-9", "1-9", "10-49", "10-49", "50+"]
    assert [scenarios.stratum(n) for n in (0, 1, 9, 10, 49, 50)] == names


def test_rates_steer_the_ordinary_turns_and_the_pace_the_shifts():
    def acts(**rates):
        plan = planner.plan(SAMPLE, 7, 0, 60, arm="none", rates=scenarios.Rates(**rates))
        return {step.act for step in plan.steps[3:]}

    assert acts(hesitation=1, contradiction=0, question=0) == {"hesitate", "aside"}
    assert acts(hesitation=0, contradiction=1, question=0) == {"contradiction"}
    assert acts(hesitation=0, contradiction=0, question=0) == {"follow_up"}
    assert acts(hesitation=0, contradiction=0, question=1) == set(scenarios.QUESTIONS)
    pace = scenarios.Pace((8, 8), (6, 7))
    for session in range(12):
        turns = scenarios.shift_turns(7, session, 40, pace)
        assert turns[0] == 8
        assert {later - earlier for earlier, later in itertools.pairwise(turns)} <= {6, 7}
        events = [event.turn for event in planner.plan(SAMPLE, 7, session, 40, pace=pace).events]
        assert set(events) <= set(turns) and len(events) >= len(turns) - 1


def test_a_catalogue_without_a_genre_of_five_films_is_refused():
    small = Catalog.from_records([(f"Film {i}", {"genre": ["Drama"], "actor": ["A B"]}) for i in range(4)])
    refused(r"has no genre with five films; .* Give a larger catalogue", planner.plan, small, 7, 0, 5)


def proposals(kind, n=12):
    """States as they come about, each with a shift of a type from it."""
    states = (step.state for i in range(n) for step in planner.plan(SAMPLE, i, i, 12).steps)
    for i, state in enumerate(states):
        shift = shifts.propose(kind, SAMPLE, state, stream(i, "types"))
        if shift is not None:
            yield state, shift


def allowed(shape):
    return {kind for kind in TYPES if SHIFTS.create(kind).allows(shape)}


def after(shape, *kinds):
    for kind in kinds:
        shape = SHIFTS.create(kind).leaves(shape)
    return shape


def test_what_can_happen_what_a_type_leaves_and_that_returns_bring_back_what_was_given_up():
    assert allowed(StateShape(3)) == {"switch", "replace", "relax", "contradict"}
    assert allowed(StateShape(2)) == {"refine", "switch", "replace", "relax", "contradict"}
    assert allowed(StateShape(1, given_up=True)) == {"refine", "switch", "replace", "contradict", "return"}
    three = StateShape(3)
    for kinds, n in ((("relax",), 2), (("relax", "return"), 1), (("replace",), 3)):
        assert after(three, *kinds) == StateShape(n, given_up=True), kinds
    assert after(three, "contradict") == StateShape(2)  # a value to avoid cannot return
    assert after(StateShape(1), "contradict") == StateShape(1)  # a lone one gives way to another
    assert after(three, "switch", "refine").constraints == 3
    assert list(shifts.stand_ins()) == ["switch", "replace", "refine"]
    found = list(proposals("return"))
    assert found and all(set(shift.added.items()) <= set(before.past) for before, shift in found)
    past = (("genre", "War"), ("genre", "Drama"), ("actor", "A B"))
    state = UserState({"genre": "Drama"}, "genre", 0, avoid={"actor": "A B"}, past=past)
    assert state.returnable == [("genre", "War")] and state.shape == StateShape(1, given_up=True)
    assert state.without("genre") == {}
    shift = PlannedShift(UserState({}, "actor", 0), "switch", {"actor": "A B"}, {}, ("actor", "A B"))
    assert SHIFTS.create("switch").to_voice(shift) == [("actor", "A B")]


@pytest.mark.parametrize(("kind", "fits"), [
    ("refine", lambda old, new: new.items() > old.items()),
    ("relax", lambda old, new: new.items() < old.items()),
    ("replace", lambda old, new: new.keys() == old.keys() and len(new.items() - old.items()) == 1),
    ("return", lambda old, new: len(new) == 1), ("switch", lambda old, new: len(new) == 2),
])  # fmt: skip
def test_each_type_does_what_its_name_says(kind, fits):
    for before, shift in proposals(kind):
        assert fits(dict(before.constraints), dict(shift.state.constraints)), (before, shift)


@pytest.mark.parametrize(("kind", "expected"), [
    ("replace", [("actor", "A B"), ("genre", "Drama"), ("year", "1990")]),
    ("switch", [("actor", "A B"), ("year", "1990")]), ("return", [("actor", "A B")]),
])  # fmt: skip
def test_what_an_utterance_must_name(kind, expected):
    state = UserState({"actor": "A B"}, "actor", 0)
    shift = PlannedShift(state, kind, {"actor": "A B"}, {"genre": "Drama"}, ("year", "1990"))
    assert SHIFTS.create(kind).to_voice(shift) == expected


def windows(voice, sessions=range(24), **options):
    for session in sessions:
        plan = planner.plan(SAMPLE, 7, session, 20, voice=voice, **options)
        for turn, length in scenarios.windows(plan):
            yield plan, scenarios.straight(SAMPLE, plan, turn), turn, length


def said(plan, until):
    user = User(SAMPLE, plan)
    return [user.speak(turn) for turn in range(1, until)]


@pytest.mark.parametrize("voice", ["A", "director", "texting"])
@pytest.mark.parametrize("explicitness", ["explicit", "implicit"])
def test_from_the_shift_on_both_users_want_the_same_and_say_so(voice, explicitness):
    for plan, straight, turn, length in windows(voice, explicitness=explicitness):
        assert [step.turn for step in straight.steps] == list(range(1, 21))
        for step, other in zip(straight.steps[turn - 1 :], plan.steps[turn - 1 :], strict=True):
            assert step.wanted == other.wanted
        assert straight.steps[turn:] == plan.steps[turn:]
        assert not any(step.event for step in straight.steps[:turn])
        for step, one in zip(straight.steps, said(straight, turn + length), strict=False):
            check_voiced(GROUNDER, step, one.act, one.text)
            assert not one.meta["shift_event"]


@pytest.mark.parametrize("voice", ["A", "director", "texting"])
def test_a_straight_user_is_never_of_another_mind(voice):
    """What is wanted only grows and never holds what the other user gives up."""
    for plan, straight, turn, _ in windows(voice):
        states = [step.wanted for step in straight.steps[:turn]]
        for (wanted, avoid), (more, shunned) in itertools.pairwise(states[:-1]):
            assert wanted.items() <= more.items() and avoid.items() <= shunned.items()
        before, after = (plan.steps[place].state.constraints.items() for place in (turn - 2, turn - 1))
        assert states[-2][0].items() == before & after
        for given_up in before - after:
            code = SAMPLE.code(*given_up)
            if given_up[1] in states[-2][0].values():
                continue  # the same person in another field
            texts = [one for one in said(straight, turn) if one.act not in ("aside", "contradiction")]
            named = [match for one in texts for match in GROUNDER.audit(one.text) if match.code == code]
            titled = [one for one in texts if GROUNDER.titles(one.text)]
            assert not named or titled  # but inside a title


def test_who_keeps_nothing_asks_openly():
    seen = 0
    for plan, straight, turn, _ in windows("A"):
        if plan.steps[turn - 1].kind == "switch" and not straight.steps[turn - 2].state.constraints:
            seen += 1
            assert straight.steps[0].act == voices.ANY_FILM
            assert not {step.act for step in straight.steps[:turn]} & {"initial", "contradiction", "insist"}
            assert not any(one.meta["constraints"] for one in said(straight, turn))
    assert seen > 5


@pytest.mark.parametrize("voice", ["A", "director", "texting"])
def test_a_first_refinement_is_said_by_the_same_person(voice):
    """The design's own control: who only adds is a straight user, word for word."""
    seen = 0
    for plan, straight, turn, length in windows(voice, range(40), types=("refine",)):
        if plan.steps[turn - 1].kind == "refine" and plan.events[0].turn == turn:
            seen += 1
            one, other = (said(user, turn + length) for user in (plan, straight))
            assert [a.text for a in one] == [b.text for b in other]
    assert seen >= 4


def held_before_the_first_shift(plan):
    return plan.steps[plan.events[0].turn - 2].state.constraints


@pytest.mark.parametrize("voice", ["critic", "texting"])
@pytest.mark.parametrize(("options", "numbers"), [
    ({}, {2, 3}), ({"scope": "mixed"}, {2, 3}), ({"scope": "open"}, {1, 2, 3}),
    ({"types": TYPES[::-1]}, {1, 2, 3}),
])  # fmt: skip
def test_users_of_every_voice_but_the_first_begin_with_values_of_any_field(voice, options, numbers):
    plans = [planner.plan(SAMPLE, 7, session, 20, voice=voice, **options) for session in range(60)]
    assert {len(held_before_the_first_shift(plan)) for plan in plans} == numbers
    openings = [next(step for step in plan.steps if step.act == "initial") for plan in plans]
    genres = sum("genre" in step.state.constraints for step in openings)
    assert 5 < genres < 55
    assert all(step.n_answers for plan in plans for step in plan.steps)


USUAL = [planner.plan(SAMPLE, 7, session, 20, voice="critic", scope="mixed") for session in range(120)]


def test_by_default_every_first_shift_is_a_change_of_mind_of_stated_scope():
    kinds = Counter()
    for plan in USUAL:
        first = plan.events[0]
        kinds[first.type] += 1
        assert not first.open_scope
        assert first.turn == scenarios.shift_turns(7, plan.session, 20)[0]
    assert set(kinds) == {"switch", "replace", "relax", "contradict"}
    assert min(kinds.values()) > 12


def test_refinements_returns_and_open_scope_come_later():
    later = [event for plan in USUAL for event in plan.events[1:]]
    kinds = Counter(event.type for event in later)
    assert set(kinds) == set(TYPES)
    assert kinds["refine"] > 40
    assert sum(event.open_scope for event in later) > 40


def test_by_default_every_shift_keeps_a_constraint_and_names_what_it_brings_or_keeps():
    for plan in USUAL:
        for step in plan.shifts:
            before = plan.before(step.turn).state.constraints
            assert shifts.common(before, step.state.constraints)
            assert step.shift.named.items() <= step.state.constraints.items()
            if step.kind in ("switch", "return"):
                assert step.shift.named == step.state.constraints


def test_a_first_refinement_can_be_asked_for():
    plans = [planner.plan(SAMPLE, 7, n, 8, voice="critic", types=("refine",)) for n in range(30)]
    assert {event.type for plan in plans for event in plan.events} == {"refine"}
    assert sum(bool(plan.events) for plan in plans) > 15


@pytest.mark.parametrize("voice", ["critic", "texting", "A"])
def test_a_straight_user_plans_as_many_statements_at_the_same_turns(voice):
    """At every window before which something is kept; for voice A not at all others."""
    for plan, straight, turn, _ in windows(voice, scope="stated"):
        if not shifts.common(plan.before(turn).state.constraints, plan.steps[turn - 1].state.constraints):
            assert voice == "A"
            continue
        stating = [step.turn for step in plan.steps[:turn] if step.states]
        assert [step.turn for step in straight.steps[:turn] if step.states] == stating
        assert scenarios.statements(straight, turn) == len(stating) - 1


@pytest.mark.parametrize("voice", ["critic", "texting"])
def test_a_straight_user_says_what_is_kept_at_the_same_turn_and_else_says_it_again(voice):
    for plan, straight, turn, _ in windows(voice, scope="stated"):
        for step, other in zip(straight.steps[: turn - 1], plan.steps, strict=False):
            assert step.act == other.act or other.shift or step.shift or "exclude" in step.act
            name, value = other.state.focus, other.state.constraints.get(other.state.focus)
            kept = straight.steps[turn - 2].state.constraints.get(name) == value
            if step.act == "refine" and other.act == "refine" and kept:
                assert step.state.focus == name


def test_the_log_of_a_window_says_how_many_statements_both_users_planned():
    config = simulate.SimulateConfig(systems=["tracker"], n_turns=12, seed=3)
    for number in range(6):
        plan = simulate.scenario(World(SAMPLE, GROUNDER), number, config)
        talks = simulate.arms_of(World(SAMPLE, GROUNDER), "tracker", number, config, plan=plan)
        for talk in talks["straight"]:
            of = talk.extra["of"]
            assert of["planned_shift"] == scenarios.statements(plan, of["turn"])
            assert of["matched"] == (of["planned"] == of["planned_shift"])
        assert talks["straight"][0].extra["of"]["matched"]
        assert all("matched" not in talk.extra["of"] for talk in talks["fresh"])


def test_a_manifest_says_which_users_a_run_met():
    def version(**settings):
        return (
            simulate.SimulateConfig(systems=["tracker"], **settings).parameters("shift").get("arms_version")
        )

    assert version() == 2
    assert version(arms=["shift"]) == 2
    assert version(arms=["shift"], voices="A") is None  # these users are as before
    assert version(arms=["shift"], pace="natural") is None


def test_where_something_is_only_dropped_a_straight_user_says_again_what_stays():
    seen = 0
    for plan, straight, turn, _ in windows("critic", scope="stated"):
        if plan.steps[turn - 1].kind == "relax":
            seen += 1
            step = straight.steps[turn - 1]
            assert step.act == "refine"
            assert step.state.focus in plan.before(turn).state.constraints
    assert seen > 5


def test_users_of_two_constraints_state_something_as_often_as_users_of_three():
    counts = {2: [], 3: []}
    for plan in USUAL:
        turn = plan.events[0].turn
        counts[len(held_before_the_first_shift(plan))].append(scenarios.statements(plan, turn))
    assert set(counts[2]) == set(counts[3]) == {3, 4}
    assert abs(np.mean(counts[2]) - np.mean(counts[3])) < 0.25


class Counting:
    """A program as the contract asks it; one that remembers sums up what it heard under the conversation's id."""

    name = "sample"

    def __init__(self, remembers):
        self.remembers, self.known, self.order = remembers, {}, []

    def ask(self, spec, request, tags=None, lane=0):
        if request["turn"] == 1:
            self.order.append(request["session"])
        heard = self.known.setdefault(request["session"], set()) if self.remembers else set()
        texts = [one["content"] for one in request["conversation"] if one["role"] == "user"]
        heard |= {code for text in texts for code in GROUNDER.concepts(text)}
        best = sorted(range(len(SAMPLE.items)), key=lambda item: -len(heard & SAMPLE.fact_sets[item]))
        ids = tuple(SAMPLE.items[item].item_id for item in best[:3])
        return Answer("Here you are.", ids)


def talks_with(program, number):
    config = simulate.SimulateConfig(systems=["http://127.0.0.1:9"], n_turns=12, seed=3)
    return simulate.arms_of(World(SAMPLE, GROUNDER, programs=program), config.systems[0], number, config)


def test_a_program_that_keeps_state_by_id_scores_as_one_that_keeps_none():
    rule, found = conventions.get("default"), {}
    for remembers in (False, True):
        program, rows = Counting(remembers), []
        for talks in (talks_with(program, number) for number in range(4)):
            gains = arms.gains_of(talks["straight"] + talks["fresh"], Scorer(GROUNDER, rule))
            for one in evaluate.score_all(talks["shift"], GROUNDER, rule, gains):
                rows += one.shifts
        names = ("shift_cost", "conversation_cost", "straight_gain")
        found[remembers] = [[row[name] for name in names] for row in rows]
        assert len(set(program.order)) == len(program.order)
    assert len(found[True]) > 4
    assert np.array(found[True]) == pytest.approx(np.array(found[False]), nan_ok=True, abs=0)


def test_the_users_of_a_scenario_come_in_random_order_and_the_files_do_not_show_it():
    orders = []
    for number in range(6):
        program = Counting(False)
        talks = talks_with(program, number)
        every = itertools.chain.from_iterable(talks.values())
        names = [conversation_id(3, talk.session_id, talk.extra["arm"]) for talk in every]
        orders.append([names.index(one) for one in program.order])
        assert sorted(orders[-1]) == list(range(len(names))) and list(talks) == ["shift", "straight", "fresh"]
        turns = [talk.session_id.split(".")[2] for talk in talks["straight"]]
        assert turns == sorted(turns)
    assert sum(order[0] == 0 for order in orders) < 6
    assert any(order != sorted(order) for order in orders)
