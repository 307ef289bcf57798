"""Implicit shifts: the table of situations, how a session voices them, and what the log says."""

from collections import Counter
from operator import itemgetter

import numpy as np
import pytest

from crs_lib import simulate
from crs_lib.core.errors import RunError
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.simulate import planner, user_llm, users, voices
from crs_lib.simulate.users import SITUATION
from crs_lib.validity import promises
from tests.helpers.sample import SAMPLE, WORLD

TABLE = voices.situations()


def plans(explicitness, voice="A", n=24):
    return [planner.plan(SAMPLE, 7, i, 20, explicitness=explicitness, voice=voice) for i in range(n)]


def test_there_are_enough_situations_and_half_is_for_confirmation():
    assert len({one.text for one in TABLE}) == len(TABLE) >= 120
    uses = Counter(one.use for one in TABLE)
    assert set(uses) == {"development", "confirmation"} and max(uses.values()) - min(uses.values()) <= 3
    assert {one.field for one in TABLE} == {"genre", "language", "year"}
    assert all(one.why and one.text.endswith(".") for one in TABLE)


@pytest.mark.parametrize("one", TABLE, ids=lambda one: one.text[:40])
def test_a_situation_names_neither_its_value_nor_anything_else_of_the_catalogue(one):
    assert SAMPLE.code(one.field, one.value) is not None
    assert not WORLD.grounder.concepts(one.text) and not WORLD.grounder.titles(one.text)


@pytest.mark.parametrize("voice", ["A", "quoting", "texting"])
def test_the_wishes_are_the_same_and_only_the_words_differ(voice):
    made = (plans(how, voice) for how in ("explicit", "implicit"))
    plain, implicit = ([step for plan in found for step in plan.steps] for found in made)
    assert [step.state for step in plain] == [step.state for step in implicit]
    steps = [step for step in implicit if step.situation]
    assert len(steps) >= 10
    for step in steps:
        implied = {step.situation.field: step.situation.value}
        told = {"explicitness": "implicit", "implied": implied, "situation": step.situation.text}
        assert implied.items() <= step.shift.added.items()
        assert {name: step.event.log[name] for name in told} == told
        assert step.situation.use == voices.every()[voice].use


def test_mixed_lies_between():
    found = {how: [step.situation for plan in plans(how) for step in plan.steps] for how in voices.DEGREES}
    n = {how: len(steps) - steps.count(None) for how, steps in found.items()}
    assert 0 == n["explicit"] < n["mixed"] < n["implicit"]


@pytest.mark.parametrize("voice", ["A", "quoting", "texting"])
def test_sessions_with_implicit_shifts_run_are_logged_and_scored(voice):
    config = simulate.SimulateConfig(systems=["oracle", "tracker"], explicitness="implicit", voices=voice)
    talks = [simulate.session(WORLD, spec, n, config) for spec in config.systems for n in range(10)]
    scorer = Scorer(WORLD.grounder, conventions.get("default"))
    scored = scorer.score_many(talks)
    rows = [row for scores in scored for row in scores.shifts]
    found = Counter((row["model"], row["explicitness"]) for row in rows)
    assert min(found["oracle", "implicit"], found["oracle", "explicit"]) >= 3
    assert found["oracle", "implicit"] == found["tracker", "implicit"]
    place = itemgetter("model", "session_id", "turn")
    told = {place(row) for row in rows if row["explicitness"] == "implicit"}
    gains = {spec: [] for spec in config.systems}
    for turn in (turn for one in scored for turn in one.turns if place(turn) in told):
        gains[turn["model"]].append(turn["normalised_gain"])
    # rules that look for values hear no situation
    assert np.nanmean(gains["oracle"]) > np.nanmean(gains["tracker"]) + 0.1
    for talk in talks:
        for pair in talk.pairs():
            event = pair.user.user_meta["shift_event_obj"]
            if event and event["explicitness"] == "implicit":
                assert event["situation"].lower() in pair.user.text.lower()  # small letters
                ((field, value),) = event["implied"].items()
                assert SAMPLE.code(field, value) not in WORLD.grounder.concepts(pair.user.text)
    assert promises.voiced(talks, WORLD.grounder)["voiced"].all()


def test_words_without_the_situation_are_an_error_from_models_too():
    step = next(step for plan in plans("implicit") for step in plan.steps if step.situation)
    with pytest.raises(RunError, match="does not voice situation"):
        said = [f"{value} films," for name, value in users.must_voice(step, step.act) if name != SITUATION]
        users.check_voiced(WORLD.grounder, step, step.act, " ".join(said))
    text = "The kids have just come home and want to sit with us."
    needed = [(SITUATION, text)]
    assert user_llm.fault(WORLD.grounder, f"Oh! {text}", text, needed) == ""
    assert "does not name" in user_llm.fault(WORLD.grounder, "Oh! The kids are back.", text, needed)
