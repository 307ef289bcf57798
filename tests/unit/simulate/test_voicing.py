"""An utterance that does not voice its plan ends the session with an error that says what is missing."""

from dataclasses import replace

import pytest

from crs_lib import simulate
from crs_lib.catalog import fields
from crs_lib.core import prompts
from crs_lib.core.errors import RunError
from crs_lib.simulate import scenarios, users
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.shifts import SHIFTS
from tests.helpers.sample import GROUNDER, SAMPLE, WORLD


def shifted(kind, session=range(30)):
    """A planned step of a shift type."""
    steps = (step for n in session for step in scenarios.plan(SAMPLE, 7, n, 20).steps)
    return next(step for step in steps if step.kind == kind)


@pytest.mark.parametrize("kind", SHIFTS.names())
def test_words_that_leave_out_a_planned_value_are_an_error(kind):
    step = shifted(kind)
    needed = users._must_voice(step, step.act)
    assert needed
    films = {"genre": " films"}  # an everyday genre counts beside a film word only
    said = [f"{value}{films.get(name, '')}" for name, value in needed]
    users.check_voiced(GROUNDER, step, step.act, ", ".join(said))
    for place, (field, value) in enumerate(needed):
        rest = ", ".join(said[:place] + said[place + 1 :])
        with pytest.raises(RunError) as caught:
            users.check_voiced(GROUNDER, step, step.act, f"Well. {rest}")
        text = str(caught.value)
        assert text.startswith(
            f"shift {kind!r} at turn {step.turn} does not voice {field} {value!r}: 'Well. {rest}'"
        )
        assert text.endswith(
            f"mend the phrases of {field!r} in catalog/fields.py, or the templates [{step.act}] in user.wording"
        )


def test_an_opening_and_a_refinement_must_be_voiced_and_an_ordinary_turn_need_not():
    first, second, *rest = scenarios.plan(SAMPLE, 7, 0, 20).steps
    for step in (first, second):
        with pytest.raises(RunError, match=rf"act '{step.act}' at turn {step.turn} does not voice"):
            users.check_voiced(GROUNDER, step, step.act, "Hello")
    ordinary = next(step for step in rest if not users._must_voice(step, step.act))
    assert ordinary.shift is None
    users.check_voiced(GROUNDER, ordinary, ordinary.act, "Hello")


def test_a_field_whose_phrases_hide_its_value_stops_the_session(monkeypatch):
    hidden = replace(fields.FIELDS["language"], phrases=("in the pre$value tongue",))
    monkeypatch.setitem(fields.FIELDS, "language", hidden)
    config = SimulateConfig(systems=["silent"], voices="A", n_turns=20)
    session = next(
        n for n in range(60)
        if any("language" in event["added"] for event in simulate.scenario(WORLD, n, config).events)
    )  # fmt: skip
    with pytest.raises(RunError, match=r"does not voice language '\w+': .*mend the phrases of 'language'"):
        simulate.session(WORLD, "silent", session, config)


def test_a_shift_type_whose_templates_forget_a_value_stops_the_session(monkeypatch):
    found = dict(prompts.sections("user"))
    found["shift_replace"] = prompts.compiled(("Let's have $wish instead.",))
    monkeypatch.setattr(prompts, "sections", lambda name, small=False: found)
    config = SimulateConfig(systems=["silent"], voices="A", n_turns=20, shift_types=["replace"])
    with pytest.raises(RunError, match=r"shift 'replace' at .*voice .*\[shift_replace\] in user.wording"):
        simulate.session(WORLD, "silent", 0, config)


def test_a_model_that_does_not_voice_the_plan_is_checked_too(monkeypatch):
    from crs_lib.simulate import conversation
    from crs_lib.simulate.users import Phrasing

    monkeypatch.setattr(
        conversation, "_realiser", lambda *given: lambda text, needed, turn: Phrasing("Hm.", {})
    )
    with pytest.raises(RunError, match=r"act 'initial' at turn 1 does not voice genre '.*': 'Hm\.'"):
        simulate.session(WORLD, "silent", 0, SimulateConfig(systems=["silent"], voices="A"))
