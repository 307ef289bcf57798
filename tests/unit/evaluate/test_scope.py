"""Shifts that leave open what becomes of earlier constraints: their readings, how they are scored, what is said."""

import re
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest

from crs_lib import simulate
from crs_lib.catalog import lexicon
from crs_lib.core import prompts
from crs_lib.evaluate import arms
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.report import statistics
from crs_lib.simulate import planner, scenarios, users
from crs_lib.simulate.run import scenario
from crs_lib.systems import base
from crs_lib.systems.base import SystemReply
from crs_lib.systems.policies import Oracle, UserLog
from crs_lib.validity import promises
from tests.helpers.sample import SAMPLE, WORLD
from tests.helpers.wordings import expansions

RULE = conventions.get("default")
N = 48


def plans(scope, n=N, **more):
    return [planner.plan(SAMPLE, 7, i, 20, voice="critic", scope=scope, **more) for i in range(n)]


class _Reads(Oracle):
    """An oracle that takes open words in one way: ``pick`` chooses among the states at a window's place."""

    def __init__(self, *given, pick=lambda states, place: states[0]):
        super().__init__(*given)
        self.states, self.place, self.pick = [], 0, pick

    def know(self, user_meta):
        event = user_meta["shift_event_obj"]
        if event or user_meta.get("clarified"):
            self.states, self.place = list((event or {}).get("readings", {}).values()), -1
        self.place += 1
        return UserLog(**self.pick(self.states, self.place)) if self.states else super().know(user_meta)


class _KeepAll(_Reads):
    """Keeps the old value of a replaced field, too, where films have both."""

    def __init__(self, *given):
        super().__init__(*given)
        self.old = {}

    def know(self, user_meta):
        self.old = (user_meta["shift_event_obj"] or {}).get("dropped", {}) or self.old if self.states else {}
        return super().know(user_meta)

    def choose(self, constraints, avoid, draw):
        films = super().choose(constraints, avoid, draw)
        code = {SAMPLE.code(*pair) for pair in self.old.items()} if self.states else set()
        both = tuple(item for item in films if code <= SAMPLE.fact_sets[item])
        return both or films


DROP_ALL = partial(_Reads, pick=lambda states, place: states[-1])
MIXES = partial(_Reads, pick=lambda states, place: states[0 if place % 2 == 0 else -1])


class _Asks(Oracle):
    """Asks back after open words, and follows the log."""

    def reply(self, turn, text, user_meta):
        found = super().reply(turn, text, user_meta)
        asks = (user_meta["shift_event_obj"] or {}).get("readings")
        return SystemReply("Only that, or the rest as well?", (), found.constraints) if asks else found


def scores(policy):
    """The sessions and shifts of a policy's conversations, and the conversations."""
    kinds = ["refine", "replace", "switch"]
    config = simulate.SimulateConfig(systems=["oracle"], scope="open", n_turns=12, shift_types=kinds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "create", lambda _, world, seed, number, films: policy(world, seed, number, "x"))
        talks = [simulate.arms_of(WORLD, "oracle", number, config) for number in range(N)]
    windows = [talk for one in talks for kind in ("straight", "fresh") for talk in one[kind]]
    scorer = Scorer(WORLD.grounder, RULE)
    scorer.gains = arms.gains_of(windows, scorer)
    found = scorer.score_many([one["shift"][0] for one in talks])
    return [one.session for one in found], [row for one in found for row in one.shifts], talks


@pytest.fixture(scope="module")
def found():
    policies = {"log": Oracle, "replace": _Reads, "keep": _KeepAll, "drop": DROP_ALL, "mixes": MIXES}
    return {name: scores(policy) for name, policy in (policies | {"asks": _Asks}).items()}


def mean(found, name, metric):
    return float(np.nanmean([session[metric] for session in found[name][0]]))


@pytest.mark.slow
def test_who_keeps_to_any_reading_scores_the_same_who_mixes_them_less_and_a_question_costs_a_turn_only(found):
    for metric, ideal in (("open_scope_cost", 0), ("open_scope_gain", 1)):
        for name in ("log", "replace", "keep", "drop"):
            assert mean(found, name, metric) == pytest.approx(ideal, abs=0.03), (name, metric)
    assert mean(found, "mixes", "open_scope_gain") < 0.85
    assert mean(found, "mixes", "open_scope_cost") > 0.15
    for name, readings in {"drop": {"drop"}, "replace": {"keep", "replace"}}.items():
        assert {row["reading"] for row in found[name][1] if row["scope"] == "open"} == readings
    _, shifts, talks = found["asks"]
    for talk in (one["shift"][0] for one in talks):
        for event in (event for event in talk.shift_events if event["scope"] == "open"):
            asked, answered = talk.pairs()[event["turn"] - 1 : event["turn"] + 1]
            meant, meta = event["readings"][event["reading"]], answered.user.user_meta
            assert meta["clarified"] and not asked.system.meta["rec_ids"]
            assert meta["constraints"] == meant["constraints"]
    gains = [row["open_scope_gain"] for row in shifts if row["scope"] == "open"]
    # one reply of two or three gains nothing, the others all there is
    assert {round(value, 1) for value in gains if value == value} <= {0.4, 0.5, 0.6, 0.7}
    assert 0.3 < mean(found, "asks", "open_scope_cost") < 0.6


def test_shift_cost_uses_windows_of_stated_scope_only_and_open_ones_have_a_column_of_their_own(found):
    for sessions, shifts, _ in found.values():
        assert any(row["scope"] == "stated" for row in shifts)
        for row in shifts:
            other = "shift_cost" if row["scope"] == "open" else "open_scope_cost"
            assert np.isnan(row[other]), row
            assert not (row["primary"] and row["scope"] == "open")
        assert not any(one["shift_cost"] == one["open_scope_cost"] for one in sessions)
    shifts = pd.concat([pd.DataFrame(rows).assign(model=name) for name, (_, rows, _) in found.items()])
    table = statistics.costs_by_type(shifts).set_index("system")
    (column,) = (name for name in table if name.startswith("open scope ("))
    assert table.loc["mixes", column].startswith("0.2") and table.loc["asks", column].startswith("0.4")
    stated = shifts[shifts["scope"] == "stated"]
    assert not any(name.startswith("open") for name in statistics.costs_by_type(stated))


@pytest.mark.parametrize("scope", ["open", "mixed"])
def test_scope_changes_words_never_states_and_nobody_tells_what_was_meant_within_the_window(scope):
    kinds = Counter()
    set_types = {"types": planner.ALL_TYPES[::-1]}  # by default the first shift states its scope
    for plain, other in zip(plans("stated", **set_types), plans(scope, **set_types), strict=True):
        assert [step.wanted for step in plain.steps] == [step.wanted for step in other.steps]
        for step, twin in zip(plain.steps, other.steps, strict=True):
            assert step.event is None or "scope" not in step.event.log
            assert not step.readings
            if twin.event and twin.event.open_scope:
                kinds[twin.kind] += 1
                told = twin.event.interpretations
                assert (
                    len(told) == 2 and told[twin.event.interpretation].constraints == step.state.constraints
                )
                window = next(one for one in scenarios.windows(other) if one.turn == twin.turn)
                assert 2 <= window.length <= scenarios.FRESH_TURNS
                after = other.steps[twin.turn - 1 + window.length :][:1]
                assert [one.act for one in after] in ([], [scenarios.CLARIFY])
            elif twin.event:
                kinds["stated"] += 1
    assert {"refine", "replace", "stated"} <= set(kinds) <= {"refine", "replace", "switch", "stated"}
    share = {"open": 1.0, "mixed": 0.5}[scope]
    every = [event.log for plan in plans("open", **set_types) for event in plan.events if event.open_scope]
    n = sum(kinds.values()) - kinds["stated"]
    assert n / len(every) == pytest.approx(share, abs=0.1)


def test_natural_users_shift_as_often_as_people_talk_as_plainly_and_name_as_little():
    pace = scenarios.Pace(natural=True)
    made = plans("stated", 200, pace=pace)
    n = sum(len(scenarios.shift_turns(7, i, 20, pace)) for i in range(200))
    assert n / (200 * 15) == pytest.approx(0.19, abs=0.03)  # turns 4 to 18
    types = Counter(event.log["planned_type"] for plan in made for event in plan.events)
    assert types.most_common(1)[0][0] == "refine" and not types["return"]
    opened = [event.log["scope"] for plan in plans("mixed", 200, pace=pace) for event in plan.events]
    assert opened.count("open") / len(opened) > 0.15  # people: .92, where the catalogue allows
    batch = simulate.SimulateConfig(systems=["tracker"], pace="natural", scope="mixed")
    talks = [simulate.session(WORLD, "tracker", n, batch) for n in range(24)]
    firsts = [dict(talk.pairs()[0].user.user_meta["constraints"]) for talk in talks]
    assert {len(first) for first in firsts} == {0, 1}  # people add what else they wish later: a shift
    turns = [pair.user for talk in talks for pair in talk.pairs()[:5]]
    named = [any(not one.rejected for one in WORLD.grounder.audit(turn.text)) for turn in turns]
    assert 0.15 < sum(named) / len(named) < 0.35  # people: .26; users at the dense pace: .45
    assert not {turn.user_meta["stage"] for turn in turns} & {"contradiction"}
    assert not promises.unlogged(talks, WORLD.grounder)["unlogged"].map(bool).any()
    kinds = Counter()  # who leaves out marks does so in every turn
    for number, talk in enumerate(talks):
        neat = scenario(WORLD, number, batch).habits[1]
        left_out = ".!?" if neat < users.NO_MARK else ".!" if neat < users.NO_STOP else ""
        assert not {pair.user.text[-1] for pair in talk.pairs()} & set(left_out)
        kinds[left_out] += 1
    assert set(kinds) == {".!?", ".!", ""}


def test_no_plain_line_stands_twice_doubles_a_word_or_is_for_nothing():
    known = {
        *prompts.sections("voices/critic"),
        *(f"noun{one} {g}" for one in ("", "_one") for g in lexicon.spellings("genres")),
    }
    for section, lines in prompts.lines("user").items():
        if section.startswith("plain") and section != "plain slips":
            assert section[6:] in known, section
            assert len(set(lines)) == len(lines), section
            said = [text for line in prompts.sections("user")[section] for text in expansions(line, None)]
            assert not [text for text in said if re.search(r"\b(\w+) \1\b", text, re.I)], section
