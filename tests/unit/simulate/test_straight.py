"""Straight users: of one mind, as long a conversation, in the words of their voice; conversations of their own."""

import itertools

import numpy as np
import pytest

from crs_lib import evaluate, simulate
from crs_lib.evaluate import arms
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.simulate import scenarios, voices
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.conversation import conversation_id
from crs_lib.simulate.users import User, check_voiced
from crs_lib.systems.base import World
from tests.helpers.sample import GROUNDER, SAMPLE


def windows(voice, sessions=range(24), **options):
    """(plan, straight plan, turn, length) of every shift."""
    for session in sessions:
        plan = scenarios.plan(SAMPLE, 7, session, 20, voice=voice, **options)
        for turn, length in scenarios.windows(plan, plan):
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
    """What is wanted only grows, one value a turn, and never holds what the other user gives up."""
    for plan, straight, turn, _ in windows(voice):
        states = [step.wanted for step in straight.steps[:turn]]
        for (wanted, avoid), (more, shunned) in itertools.pairwise(states[:-1]):
            assert wanted.items() <= more.items() and avoid.items() <= shunned.items()
            assert len(more) + len(shunned) - len(wanted) - len(avoid) <= 1
        before, after = (plan.steps[place].state.constraints.items() for place in (turn - 2, turn - 1))
        assert states[-2][0].items() == before & after
        for given_up in before - after:
            code = SAMPLE.code(*given_up)
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
            assert {step.act for step in straight.steps[:turn]}.isdisjoint(
                {"initial", "contradiction", "insist"}
            )
            heard = said(straight, turn)
            assert not any(one.meta["constraints"] for one in heard)
    assert seen > 5


@pytest.mark.parametrize("voice", ["A", "director", "texting"])
def test_a_first_refinement_is_said_by_the_same_person(voice):
    """The design's own control: who only adds is a straight user, word for word."""
    seen = 0
    for plan, straight, turn, length in windows(voice, range(40)):
        if plan.steps[turn - 1].kind == "refine" and plan.events[0]["turn"] == turn:
            seen += 1
            one, other = (said(user, turn + length) for user in (plan, straight))
            assert [a.text for a in one] == [b.text for b in other]
    assert seen >= 4


def test_users_of_every_voice_but_the_first_begin_with_one_to_three_values_of_any_field():
    for voice in ("critic", "texting"):
        plans = [scenarios.plan(SAMPLE, 7, session, 20, voice=voice) for session in range(60)]
        held = [plan.steps[plan.events[0]["turn"] - 2].state.constraints for plan in plans]
        assert {len(one) for one in held} == {1, 2, 3}
        openings = [next(step for step in plan.steps if step.act == "initial") for plan in plans]
        genres = sum("genre" in step.state.constraints for step in openings)
        assert 5 < genres < 55
        assert all(step.n_answers for plan in plans for step in plan.steps)


# ── conversations of their own ─────────────────────────────────────────────────────────────────
class Counting:
    """A program as the contract asks it; one that remembers sums up what it heard under the conversation's id."""

    name = "sample"

    def __init__(self, remembers):
        self.remembers, self.known, self.order = remembers, {}, []

    def ask(self, spec, request, tags=None, lane=0):
        from crs_lib.systems.contract import Answer

        if request["turn"] == 1:
            self.order.append(request["session"])
        heard = self.known.setdefault(request["session"], set()) if self.remembers else set()
        texts = [one["content"] for one in request["conversation"] if one["role"] == "user"]
        heard |= {code for text in texts for code in GROUNDER.concepts(text)}
        best = sorted(range(len(SAMPLE.items)), key=lambda item: -len(heard & SAMPLE.fact_sets[item]))
        ids = tuple(SAMPLE.items[item].item_id for item in best[:3])
        return Answer("Here you are.", ids)


def test_a_program_that_keeps_state_by_id_scores_as_one_that_keeps_none():
    config = SimulateConfig(systems=["http://127.0.0.1:9"], n_turns=12, seed=3)
    rule, found = conventions.get("default"), {}
    for remembers in (False, True):
        program = Counting(remembers)
        world = World(SAMPLE, GROUNDER, programs=program)
        rows = []
        for number in range(4):
            talks = simulate.arms_of(world, config.systems[0], number, config)
            gains = arms.gains_of(talks["straight"] + talks["fresh"], (), Scorer(GROUNDER, rule))
            rows += [
                row for one in evaluate.score_all(talks["shift"], GROUNDER, rule, gains) for row in one.shifts
            ]
        names = ("shift_cost", "conversation_cost", "straight_gain")
        found[remembers] = [[row[name] for name in names] for row in rows]
        assert len(set(program.order)) == len(program.order)
    assert len(found[True]) > 4
    assert np.array(found[True]) == pytest.approx(np.array(found[False]), nan_ok=True, abs=0)


def test_the_users_of_a_scenario_come_in_random_order_and_the_files_do_not_show_it():
    config = SimulateConfig(systems=["http://127.0.0.1:9"], n_turns=12, seed=3)
    orders = []
    for number in range(6):
        program = Counting(False)
        talks = simulate.arms_of(World(SAMPLE, GROUNDER, programs=program), config.systems[0], number, config)
        ids = {}
        for place, talk in enumerate(talk for several in talks.values() for talk in several):
            ids[conversation_id(3, talk.session_id, talk.extra["arm"])] = place
        orders.append([ids[one] for one in program.order])
        assert sorted(orders[-1]) == list(range(len(ids)))
        assert list(talks) == ["shift", "straight", "fresh"]
        assert [talk.session_id for talk in talks["straight"]] == sorted(
            t.session_id for t in talks["straight"]
        )
    assert sum(order[0] == 0 for order in orders) < 6
    assert any(order != sorted(order) for order in orders)
