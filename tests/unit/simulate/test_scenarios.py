"""Scenarios: the same for every system, balanced, satisfiable, and with a twin that never shifts."""

import itertools
from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
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
from tests.helpers import refused, table
from tests.helpers.sample import GROUNDER, SAMPLE, WORLD

TYPES = ("refine", "switch", "replace", "relax", "contradict", "return")  # those of the study


def plans_of(n, n_turns=20, **options):
    """The plans of the first sessions of seed 7."""
    return [planner.plan(SAMPLE, 7, session, n_turns, **options) for session in range(n)]


def events_of(plans):
    """The shifts of all plans."""
    return list(itertools.chain.from_iterable(plan.events for plan in plans))


PLANS = plans_of(60, types=TYPES)


def held_before_the_first_shift(plan):
    return plan.steps[plan.events[0].turn - 2].state.constraints


EACH_PLAN = pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))


def shift_types(number):
    """The types that are planned for a session of seed 7."""
    return planner.Schedule(20, TYPES).shift_types(Streams(7, number))


@EACH_PLAN
def test_every_state_has_an_answer(plan):
    for step in plan.steps:
        answers = step.state.answers(SAMPLE)
        assert step.n_answers == len(answers) > 0
        assert step.state.anchor in answers
        assert 1 <= len(step.state.constraints) <= 3
        assert step.state.constraints.items().isdisjoint(step.state.avoid.items())


@EACH_PLAN
def test_a_step_that_states_something_has_words_to_voice(plan):
    for step in plan.steps:
        states = step.turn == 1 or step.act == "refine" or step.shift is not None
        assert bool(must_voice(step, step.act)) == states


@EACH_PLAN
def test_plans_open_with_a_genre(plan):
    first, second = plan.steps[:2]
    assert first.act == "initial"
    assert first.state.constraints == {"genre": plan.true_genre}
    assert second.act == "refine"
    assert len(held_before_the_first_shift(plan)) in (2, 3)


@EACH_PLAN
def test_shifts_have_room_around_them(plan):
    turns = [event.turn for event in plan.events]
    assert turns == scenarios.shift_turns(7, plan.session, 20)
    assert turns[0] in (4, 5, 6)
    assert turns[-1] <= 18
    for earlier, later in itertools.pairwise(turns):
        assert later - earlier in (3, 4, 5)


@pytest.mark.parametrize("block", range(20))
def test_types_are_planned_in_equal_numbers_within_a_block(block):
    counts = Counter()
    for number in range(6 * block, 6 * block + 6):
        types = shift_types(number)
        assert types[0] != "return", "nothing was given up yet"
        counts.update(types)
    assert set(counts) == set(TYPES)
    assert max(counts.values()) - min(counts.values()) <= 2  # 24 shifts, 4 of each type but for the state


def test_types_are_planned_and_happen_in_equal_numbers():
    events = events_of(PLANS)
    happened = Counter(event.type for event in events)
    planned = Counter(event.log["planned_type"] for event in events)
    total = happened.total()
    assert set(happened) == set(TYPES)
    assert min(happened.values()) > 0.14 * total
    assert max(happened.values()) < 0.21 * total
    assert max(planned.values()) - min(planned.values()) <= 0.03 * total


def test_types_that_the_catalogue_does_not_allow_are_put_off_or_replaced_and_logged():
    events = events_of(plans_of(240, types=TYPES))
    n_others = sum(event.type != event.log["planned_type"] for event in events)
    assert 0 < n_others < 0.15 * len(events)


@pytest.mark.parametrize("plan", PLANS[:15], ids=range(15))
def test_a_twin_never_shifts_and_begins_alike(plan):
    twin = planner.plan(SAMPLE, 7, plan.session, 20, arm="none")
    before = plan.events[0].turn - 1
    assert twin.events == []
    assert twin.steps[:before] == plan.steps[:before]
    for step in twin.steps:
        assert step.shift is None
    assert twin.steps[-1].state.constraints == twin.steps[before - 1].state.constraints


def test_a_longer_session_begins_alike():
    short = planner.plan(SAMPLE, 7, 3, 9)
    long = planner.plan(SAMPLE, 7, 3, 20)
    for step, other in zip(short.steps[:6], long.steps, strict=False):
        assert step.state.constraints == other.state.constraints


def test_seeds_give_other_plans():
    assert planner.plan(SAMPLE, 7, 0, 20, types=TYPES) == PLANS[0]
    assert planner.plan(SAMPLE, 8, 0, 20).steps != PLANS[0].steps
    goals = {frozenset(plan.steps[2].state.constraints.items()) for plan in PLANS}
    assert len(goals) > 50


@pytest.mark.parametrize("kind", TYPES)
def test_only_the_types_asked_for_happen(kind):
    due = planned = 0
    for session in range(6):
        plan = planner.plan(SAMPLE, 3, session, 20, types=(kind,))
        assert {event.type for event in plan.events} <= {kind}
        due += len(scenarios.shift_turns(3, session, 20))
        planned += sum(step.planned == kind for step in plan.steps)
    assert planned == due


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("session", range(6))
def test_what_was_due_and_could_not_happen_is_in_the_log(kind, session):
    plan = planner.plan(SAMPLE, 3, session, 20, types=(kind,))
    user = User(SAMPLE, plan)
    for step in plan.steps:
        log = user.speak(step.turn).meta
        unmet = bool(log["planned_shift"]) and not log["shift_event"]
        assert unmet == (bool(step.planned) and step.shift is None)


def steps_in_turn(plan):
    """Each step of a plan but the first, with the one before."""
    return itertools.pairwise(plan.steps)


@EACH_PLAN
def test_an_event_tells_the_whole_shift(plan):
    for before, step in steps_in_turn(plan):
        if step.event is None:
            continue
        event = step.event.log
        old, new = before.state, step.state
        assert event["turn"] == step.turn
        assert event["from_focus"] == old.focus
        assert event["to_focus"] == new.focus
        assert event["wishes"] == dict(new.constraints)
        assert event["avoid"] == dict(new.avoid)
        assert event["from_anchor"] == SAMPLE.items[old.anchor].title
        assert event["n_answers"] == step.n_answers
        assert event["stratum"] == scenarios.stratum(step.n_answers)
        assert (event["bridge_field"] is not None) == (event["type"] == "switch")


@EACH_PLAN
def test_an_event_names_what_is_added_and_dropped(plan):
    for before, step in steps_in_turn(plan):
        if step.event is not None:
            old, new = before.state.constraints, step.state.constraints
            assert new.items() <= {**old, **step.event.log["added"]}.items()
            gone = {name: value for name, value in old.items() if new.get(name) != value}
            assert step.event.log["dropped"] == gone


@EACH_PLAN
def test_retractions_stay_until_a_switch_or_a_return(plan):
    for before, step in steps_in_turn(plan):
        avoid = dict(before.state.avoid)
        if step.kind == "contradict":
            avoid |= step.event.log["dropped"]
        elif step.kind in ("switch", "return"):
            avoid = {}
        assert step.state.avoid == avoid


@EACH_PLAN
def test_a_bridge_is_shared_with_the_film_in_mind(plan):
    for before, step in steps_in_turn(plan):
        if step.shift is not None and step.shift.bridge:
            name, value = step.shift.bridge
            assert step.state.constraints[name] == value
            assert value in SAMPLE.items[before.state.anchor].values[name]


@pytest.mark.parametrize(("n", "stratum"), table(__file__, "strata"))
def test_strata_of_answers(n, stratum):
    assert scenarios.stratum(n) == stratum


@pytest.mark.parametrize(("rates", "acts"), table(__file__, "acts_by_rate"))
def test_rates_steer_the_ordinary_turns(rates, acts):
    plan = planner.plan(SAMPLE, 7, 0, 60, arm="none", rates=scenarios.Rates(**rates))
    assert {step.act for step in plan.steps[3:]} == set(acts)


def test_a_question_is_about_any_field_of_a_film():
    rates = scenarios.Rates(hesitation=0, contradiction=0, question=1)
    plan = planner.plan(SAMPLE, 7, 0, 60, arm="none", rates=rates)
    assert {step.act for step in plan.steps[3:]} == set(scenarios.QUESTIONS)


@pytest.mark.parametrize("session", range(12))
def test_the_pace_steers_the_shifts(session):
    pace = scenarios.Pace((8, 8), (6, 7))
    turns = scenarios.shift_turns(7, session, 40, pace)
    assert turns[0] == 8
    for earlier, later in itertools.pairwise(turns):
        assert later - earlier in (6, 7)
    plan = planner.plan(SAMPLE, 7, session, 40, pace=pace)
    events = {event.turn for event in plan.events}
    assert events <= set(turns)
    assert len(events) >= len(turns) - 1


def test_a_catalogue_without_a_genre_of_five_films_is_refused():
    record = {"genre": ["Drama"], "actor": ["A B"]}
    small = Catalog.from_records([(f"Film {number}", record) for number in range(4)])
    refused(r"has no genre with five films; .* Give a larger catalogue", planner.plan, small, 7, 0, 5)


def proposals(kind):
    """States as they come about, each with a shift of a type from it."""
    number = 0
    for session in range(12):
        for step in planner.plan(SAMPLE, session, session, 12).steps:
            shift = shifts.propose(kind, SAMPLE, step.state, stream(number, "types"))
            number += 1
            if shift is not None:
                yield step.state, shift


@pytest.mark.parametrize(("shape", "kinds"), table(__file__, "possible_types"))
def test_what_can_happen_to_a_state(shape, kinds):
    possible = [kind for kind in TYPES if SHIFTS.create(kind).allows(StateShape(*shape))]
    assert possible == kinds


@pytest.mark.parametrize(("before", "kinds", "after"), table(__file__, "shapes_after"))
def test_what_types_leave_of_a_state(before, kinds, after):
    shape = StateShape(*before)
    for kind in kinds:
        shape = SHIFTS.create(kind).leaves(shape)
    assert shape == StateShape(*after)


def test_these_types_stand_in_for_one_that_cannot_happen():
    assert list(shifts.stand_ins()) == ["switch", "replace", "refine"]


def test_returns_bring_back_what_was_given_up():
    pairs = list(proposals("return"))
    assert pairs
    for before, shift in pairs:
        assert set(shift.added.items()) <= set(before.past)


def test_what_is_wanted_now_or_was_ruled_out_cannot_return():
    past = (("genre", "War"), ("genre", "Drama"), ("actor", "A B"))
    state = UserState({"genre": "Drama"}, "genre", 0, avoid={"actor": "A B"}, past=past)
    assert state.returnable == [("genre", "War")]
    assert state.shape == StateShape(1, given_up=True)
    assert state.without("genre") == {}


def changes(kind):
    """The constraints before and after each proposed shift of a type."""
    for before, shift in proposals(kind):
        yield before.constraints, shift.state.constraints


def test_a_refinement_adds():
    for old, new in changes("refine"):
        assert new.items() > old.items()


def test_a_relaxation_drops():
    for old, new in changes("relax"):
        assert new.items() < old.items()


def test_a_replacement_changes_one_value():
    for old, new in changes("replace"):
        assert new.keys() == old.keys()
        assert len(new.items() - old.items()) == 1


@pytest.mark.parametrize(("kind", "n"), [("return", 1), ("switch", 2)])
def test_a_return_or_a_switch_leaves_so_many_constraints(kind, n):
    for _, new in changes(kind):
        assert len(new) == n


@pytest.mark.parametrize(("kind", "pairs"), table(__file__, "voiced"))
def test_what_an_utterance_must_name(kind, pairs):
    state = UserState({"actor": "A B"}, "actor", 0)
    shift = PlannedShift(state, kind, {"actor": "A B"}, {"genre": "Drama"}, ("year", "1990"))
    assert SHIFTS.create(kind).to_voice(shift) == list(map(tuple, pairs))


def test_a_bridge_that_is_added_is_named_once():
    shift = PlannedShift(UserState({}, "actor", 0), "switch", {"actor": "A B"}, {}, ("actor", "A B"))
    assert SHIFTS.create("switch").to_voice(shift) == [("actor", "A B")]


class Pair(NamedTuple):
    """A shifting user's plan and the straight user's of one of its windows."""

    plan: scenarios.Scenario
    straight: scenarios.Scenario
    turn: int  # of the shift
    length: int  # of the window, in turns

    @property
    def shift(self):
        """The step at which the one user changes their mind."""
        return self.plan.steps[self.turn - 1]

    @property
    def before(self):
        """What the one user wants before."""
        return self.plan.before(self.turn).state.constraints


def pairs_of(voice, sessions=range(24), **options):
    """A pair of users for every window of some sessions."""
    for session in sessions:
        plan = planner.plan(SAMPLE, 7, session, 20, voice=voice, **options)
        for turn, length in scenarios.windows(plan):
            yield Pair(plan, scenarios.straight(SAMPLE, plan, turn), turn, length)


def spoken(plan, until):
    """What a user says before a turn to a system that shows no film."""
    user = User(SAMPLE, plan)
    return [user.speak(turn) for turn in range(1, until)]


VOICES = pytest.mark.parametrize("voice", ["A", "director", "texting"])
EXPLICITNESS = pytest.mark.parametrize("explicitness", ["explicit", "implicit"])


@VOICES
@EXPLICITNESS
def test_from_the_shift_on_both_users_want_the_same(voice, explicitness):
    for pair in pairs_of(voice, explicitness=explicitness):
        assert len(pair.straight.steps) == 20
        assert pair.straight.steps[pair.turn - 1].wanted == pair.shift.wanted
        assert pair.straight.steps[pair.turn :] == pair.plan.steps[pair.turn :]


@VOICES
@EXPLICITNESS
def test_a_straight_user_says_what_is_planned_and_never_shifts(voice, explicitness):
    for pair in pairs_of(voice, explicitness=explicitness):
        end = pair.turn + pair.length
        for step, utterance in zip(pair.straight.steps, spoken(pair.straight, end), strict=False):
            check_voiced(GROUNDER, step, utterance.act, utterance.text)
            assert not utterance.meta["shift_event"]
        for step in pair.straight.steps[: pair.turn]:
            assert step.event is None


@VOICES
def test_what_a_straight_user_wants_only_grows(voice):
    for pair in pairs_of(voice):
        states = [step.wanted for step in pair.straight.steps[: pair.turn - 1]]
        for (wanted, avoid), (later_wanted, later_avoid) in itertools.pairwise(states):
            assert wanted.items() <= later_wanted.items()
            assert avoid.items() <= later_avoid.items()


@VOICES
def test_a_straight_user_wants_what_the_shift_keeps(voice):
    for pair in pairs_of(voice):
        wanted, _ = pair.straight.steps[pair.turn - 2].wanted
        assert wanted.items() == pair.before.items() & pair.shift.state.constraints.items()


@VOICES
def test_a_straight_user_never_names_what_the_other_gives_up_but_in_a_title(voice):
    for pair in pairs_of(voice):
        wanted, _ = pair.straight.steps[pair.turn - 2].wanted
        for field, value in pair.before.items() - pair.shift.state.constraints.items():
            if value in wanted.values():
                continue  # the same person in another field
            code = SAMPLE.code(field, value)
            for utterance in spoken(pair.straight, pair.turn):
                names = [match for match in GROUNDER.audit(utterance.text) if match.code == code]
                chats = utterance.act in ("aside", "contradiction")
                assert chats or not names or GROUNDER.titles(utterance.text)


def test_who_keeps_nothing_asks_openly():
    seen = 0
    for pair in pairs_of("A"):
        if pair.shift.kind != "switch" or pair.straight.steps[pair.turn - 2].state.constraints:
            continue
        seen += 1
        steps = pair.straight.steps[: pair.turn]
        assert steps[0].act == voices.ANY_FILM
        for step in steps:
            assert step.act not in ("initial", "contradiction", "insist")
        for utterance in spoken(pair.straight, pair.turn):
            assert utterance.meta["constraints"] == {}
    assert seen > 5


@VOICES
def test_a_first_refinement_is_said_by_the_same_person(voice):
    """The design's own control: who only adds is a straight user, word for word."""
    seen = 0
    for pair in pairs_of(voice, range(40), types=("refine",)):
        if pair.shift.kind == "refine" and pair.plan.events[0].turn == pair.turn:
            seen += 1
            end = pair.turn + pair.length
            for utterance, other in zip(spoken(pair.plan, end), spoken(pair.straight, end), strict=True):
                assert utterance.text == other.text
    assert seen >= 4


@pytest.mark.parametrize("voice", ["critic", "texting"])
@pytest.mark.parametrize(("options", "numbers"), table(__file__, "opening_sizes"))
def test_users_of_every_voice_but_the_first_begin_with_values_of_any_field(voice, options, numbers):
    types = tuple(options.get("types", planner.ALL_TYPES))
    plans = plans_of(60, voice=voice, **{**options, "types": types})
    assert {len(held_before_the_first_shift(plan)) for plan in plans} == set(numbers)
    genres = 0
    for plan in plans:
        opening = next(step for step in plan.steps if step.act == "initial")
        genres += "genre" in opening.state.constraints
        assert min(step.n_answers for step in plan.steps) > 0
    assert 5 < genres < 55


USUAL = plans_of(120, voice="critic", scope="mixed")


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
    plans = plans_of(30, 8, voice="critic", types=("refine",))
    assert {event.type for event in events_of(plans)} == {"refine"}
    assert sum(bool(plan.events) for plan in plans) > 15


def stating(plan, until):
    """The turns up to one at which a user plans to state something."""
    return [step.turn for step in plan.steps[:until] if step.states]


@pytest.mark.parametrize("voice", ["critic", "texting", "A"])
def test_a_straight_user_plans_as_many_statements_at_the_same_turns(voice):
    """At every window before which something is kept; for voice A not at all others."""
    for pair in pairs_of(voice, scope="stated"):
        if not shifts.common(pair.before, pair.shift.state.constraints):
            assert voice == "A"
            continue
        turns = stating(pair.plan, pair.turn)
        assert stating(pair.straight, pair.turn) == turns
        assert scenarios.statements(pair.straight, pair.turn) == len(turns) - 1


@pytest.mark.parametrize("voice", ["critic", "texting"])
def test_a_straight_user_says_what_is_kept_at_the_same_turn(voice):
    for pair in pairs_of(voice, scope="stated"):
        kept_at_the_end = pair.straight.steps[pair.turn - 2].state.constraints
        for step, other in zip(pair.straight.steps[: pair.turn - 1], pair.plan.steps, strict=False):
            focus = other.state.focus
            kept = kept_at_the_end.get(focus) == other.state.constraints.get(focus)
            if kept and step.act == other.act == "refine":
                assert step.state.focus == focus


@pytest.mark.parametrize("voice", ["critic", "texting"])
def test_before_a_shift_both_users_do_the_same(voice):
    for pair in pairs_of(voice, scope="stated"):
        for step, other in zip(pair.straight.steps[: pair.turn - 1], pair.plan.steps, strict=False):
            if not (step.shift or other.shift or "exclude" in step.act):
                assert step.act == other.act


@pytest.mark.parametrize("number", range(6))
def test_the_log_of_a_window_says_how_many_statements_both_users_planned(number):
    config = simulate.SimulateConfig(systems=["tracker"], n_turns=12, seed=3)
    plan = simulate.scenario(WORLD, number, config)
    dialogues = simulate.arms_of(WORLD, "tracker", number, config, plan=plan)
    for dialogue in dialogues["straight"]:
        window = dialogue.extra["of"]
        assert window["planned_shift"] == scenarios.statements(plan, window["turn"])
        assert window["matched"] == (window["planned"] == window["planned_shift"])
    assert dialogues["straight"][0].extra["of"]["matched"]
    for dialogue in dialogues["fresh"]:
        assert "matched" not in dialogue.extra["of"]


@pytest.mark.parametrize(("settings", "version"), [
    ({}, 2), ({"arms": ["shift"]}, 2),
    ({"arms": ["shift"], "voices": "A"}, None), ({"arms": ["shift"], "pace": "natural"}, None),  # as before
])  # fmt: skip
def test_a_manifest_says_which_users_a_run_met(settings, version):
    config = simulate.SimulateConfig(systems=["tracker"], **settings)
    assert config.parameters("shift").get("arms_version") == version


def test_where_something_is_only_dropped_a_straight_user_says_again_what_stays():
    seen = 0
    for pair in pairs_of("critic", scope="stated"):
        if pair.shift.kind == "relax":
            seen += 1
            step = pair.straight.steps[pair.turn - 1]
            assert step.act == "refine"
            assert step.state.focus in pair.before
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
        self.remembers = remembers
        self.heard = {}
        self.order = []

    def ask(self, spec, request, tags=None, lane=0):
        name = request["session"]
        if request["turn"] == 1:
            self.order.append(name)
        codes = self.heard.setdefault(name, set()) if self.remembers else set()
        for message in request["conversation"]:
            if message["role"] == "user":
                codes |= GROUNDER.concepts(message["content"])
        numbers = sorted(range(len(SAMPLE.items)), key=lambda item: -len(codes & SAMPLE.fact_sets[item]))
        return Answer("Here you are.", tuple(SAMPLE.items[number].item_id for number in numbers[:3]))


def dialogues_with(program, number):
    config = simulate.SimulateConfig(systems=["http://127.0.0.1:9"], n_turns=12, seed=3)
    world = World(SAMPLE, GROUNDER, programs=program)
    return simulate.arms_of(world, config.systems[0], number, config)


def costs_of(program):
    """Costs and straight gain of the shifts of four scenarios."""
    convention = conventions.get("default")
    rows = []
    for number in range(4):
        dialogues = dialogues_with(program, number)
        windows = dialogues["straight"] + dialogues["fresh"]
        gains = arms.gains_of(windows, Scorer(GROUNDER, convention))
        for score in evaluate.score_all(dialogues["shift"], GROUNDER, convention, gains):
            rows += score.shifts
    return pd.DataFrame(rows)[["shift_cost", "conversation_cost", "straight_gain"]].astype(float)


def test_a_program_that_keeps_state_by_id_scores_as_one_that_keeps_none():
    forgetful = costs_of(Counting(remembers=False))
    assert len(forgetful) > 4
    pd.testing.assert_frame_equal(costs_of(Counting(remembers=True)), forgetful)


def test_every_conversation_has_an_id_of_its_own():
    program = Counting(remembers=False)
    for number in range(4):
        dialogues_with(program, number)
    assert len(set(program.order)) == len(program.order)


def order_of(number):
    """The places in which the users of a scenario were heard."""
    program = Counting(remembers=False)
    ids = []
    for dialogues in dialogues_with(program, number).values():
        ids += [conversation_id(3, talk.session_id, talk.extra["arm"]) for talk in dialogues]
    return [ids.index(name) for name in program.order]


def test_the_users_of_a_scenario_come_in_random_order():
    n_session_first = 0
    n_in_order = 0
    for number in range(6):
        order = order_of(number)
        in_order = list(range(len(order)))
        assert sorted(order) == in_order
        n_session_first += order[0] == 0
        n_in_order += order == in_order
    assert n_session_first < 6
    assert n_in_order < 6


@pytest.mark.parametrize("number", range(6))
def test_the_files_do_not_show_the_order_in_which_users_were_heard(number):
    dialogues = dialogues_with(Counting(remembers=False), number)
    assert list(dialogues) == ["shift", "straight", "fresh"]
    turns = [dialogue.session_id.split(".")[2] for dialogue in dialogues["straight"]]
    assert turns == sorted(turns)
