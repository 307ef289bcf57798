"""Implicit shifts: the table of situations, how a session voices them, and what the log says."""

from collections import Counter

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


def steps(explicitness, voice="A"):
    """The steps of 40 scenarios."""
    planned = []
    for session in range(40):
        scenario = planner.plan(SAMPLE, 7, session, 20, explicitness=explicitness, voice=voice)
        planned += scenario.steps
    return planned


def test_there_are_enough_situations_and_half_is_for_confirmation():
    texts = set()
    uses = Counter()
    for situation in TABLE:
        texts.add(situation.text)
        uses[situation.use] += 1
        assert situation.field in ("genre", "language", "year")
        assert situation.why
        assert situation.text.endswith(".")
    assert len(texts) == len(TABLE)
    assert len(TABLE) >= 120
    assert set(uses) == {"development", "confirmation"}
    assert max(uses.values()) - min(uses.values()) <= 3


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.text[:40])
def test_a_situation_names_neither_its_value_nor_anything_else_of_the_catalogue(situation):
    assert SAMPLE.code(situation.field, situation.value) is not None
    assert not WORLD.grounder.concepts(situation.text)
    assert not WORLD.grounder.titles(situation.text)


@pytest.mark.parametrize("voice", ["A", "quoting", "texting"])
def test_the_constraints_are_the_same_and_only_the_words_differ(voice):
    n_voiced = 0
    for plain, step in zip(steps("explicit", voice), steps("implicit", voice), strict=True):
        assert plain.state == step.state
        situation = step.situation
        if not situation:
            continue
        n_voiced += 1
        implied = {situation.field: situation.value}
        assert implied.items() <= step.shift.added.items()
        assert step.event.explicitness == "implicit"
        assert step.event.log["implied"] == implied
        assert step.event.log["situation"] == situation.text
        assert situation.use == voices.every()[voice].use
    assert n_voiced >= 10


def test_mixed_lies_between():
    n = {}
    for explicitness in voices.DEGREES:
        n[explicitness] = sum(step.situation is not None for step in steps(explicitness))
    assert 0 == n["explicit"] < n["mixed"] < n["implicit"]


def talks_of(spec, voice):
    """Ten sessions of a system with implicit shifts."""
    config = simulate.SimulateConfig(systems=[spec], explicitness="implicit", voices=voice)
    return [simulate.session(WORLD, spec, number, config) for number in range(10)]


def gains(talks):
    """The gains of the turns of implicit shifts, and how many shifts are implicit and explicit."""
    scorer = Scorer(WORLD.grounder, conventions.get("default"))
    values = []
    counts = Counter()
    for scores in scorer.score_many(talks):
        for row in scores.shifts:
            counts[row["explicitness"]] += 1
            if row["explicitness"] == "implicit":
                turn = scores.turns[row["turn"] - 1]
                values.append(turn["normalised_gain"])
    return np.nanmean(values), counts


@pytest.mark.parametrize("voice", ["A", "quoting", "texting"])
def test_sessions_with_implicit_shifts_run_are_logged_and_scored(voice):
    of_oracle = talks_of("oracle", voice)
    of_tracker = talks_of("tracker", voice)
    talks = [*of_oracle, *of_tracker]
    oracle, counts = gains(of_oracle)
    tracker, same_counts = gains(of_tracker)
    assert min(counts["implicit"], counts["explicit"]) >= 3
    assert counts == same_counts
    assert oracle > tracker + 0.1  # rules that look for values hear no situation
    for talk in talks:
        for pair in talk.pairs():
            event = pair.user.user_meta["shift_event_obj"]
            if event and event["explicitness"] == "implicit":
                assert event["situation"].lower() in pair.user.text.lower()  # small letters
                ((field, value),) = event["implied"].items()
                assert SAMPLE.code(field, value) not in WORLD.grounder.concepts(pair.user.text)
    assert promises.voiced(talks, WORLD.grounder)["voiced"].all()


def test_words_without_the_situation_are_an_error():
    step = next(step for step in steps("implicit") if step.situation)
    needed = users.must_voice(step, step.act)
    words = [f"{value} films," for name, value in needed if name != SITUATION]
    with pytest.raises(RunError, match="does not voice situation"):
        users.check_voiced(WORLD.grounder, step, step.act, " ".join(words))


def test_a_model_must_say_the_situation():
    text = "The kids have just come home and want to sit with us."
    needed = [(SITUATION, text)]
    assert user_llm.fault(WORLD.grounder, f"Oh! {text}", text, needed) == ""
    assert "does not name" in user_llm.fault(WORLD.grounder, "Oh! The kids are back.", text, needed)
