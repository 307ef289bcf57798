"""The simulated user: plan in words, reactions to the system, and a log that tells the truth."""

import math
import re

import numpy as np
import pytest

from crs_lib import simulate
from crs_lib.catalog import fields
from crs_lib.core import prompts
from crs_lib.core.errors import RunError
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.simulate import planner, run, scenarios, users, voices
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.simulate.users import User
from crs_lib.validity import promises
from tests.helpers.sample import GROUNDER, SAMPLE, WORLD

CALM = scenarios.Rates(hesitation=0, contradiction=0, question=0.5)


def plan(session=0, **options):
    return planner.plan(SAMPLE, 7, session, 20, **options)


def talk(scenario, heard=lambda step: (), **options):
    """All utterances of a session; ``heard`` gives the films recommended after each step."""
    user, said = User(SAMPLE, scenario, **options), []
    for step in scenario.steps:
        said.append(user.speak(step.turn))
        user.hear(heard(step))
    return said


def good(step):
    return tuple(int(i) for i in step.state.answers(SAMPLE)[:3])


def bad(step):
    wishes = set(step.state.constraints.items())
    return next((i,) for i, f in enumerate(SAMPLE.items) if not any(v in f.values[n] for n, v in wishes))


HEARD = {"none": lambda step: (), "bad": bad, "good": good}


def test_the_log_says_what_was_planned_and_whether_an_utterance_asks():
    scenario = plan()
    for step, said in zip(scenario.steps, talk(scenario, good), strict=True):
        state = step.state
        wanted = {
            "constraints": dict(state.constraints), "avoid": dict(state.avoid), "n_answers": step.n_answers,
            "shift_event_obj": step.event and step.event.to_json(), "shift_event": step.event is not None,
            "focus_value": state.constraints.get(state.focus), "stage": said.act, "planned_act": step.act,
        }  # fmt: skip
        assert said.meta["turn"] == step.turn
        assert {name: said.meta[name] for name in wanted} == wanted and step.n_answers > 0
        assert {"focus_field", "anchor_title"} <= set(said.meta)
    asks = {"initial", "refine", "follow_up", "insist", "nothing_named"}
    for said in (said for session in range(10) for said in talk(plan(session), good)):
        assert said.meta["asks"] is (said.meta["shift_event"] or said.act in asks)


def test_what_is_wished_never_depends_on_the_system():
    for scenario in map(plan, range(5)):
        runs = [talk(scenario, heard) for heard in HEARD.values()]
        free = ("stage", "asks")
        logs = [[{k: v for k, v in said.meta.items() if k not in free} for said in run] for run in runs]
        assert logs[0] == logs[1] == logs[2]
        shifts = [[said.text for said in run if said.meta["shift_event"]] for run in runs]
        assert shifts[0] == shifts[1] == shifts[2]


def test_a_user_who_hears_no_title_asks_who_is_not_served_insists_and_questions_are_about_films_just_named():
    scenes = [plan(session, rates=CALM) for session in range(8)]
    said = {name: [one for scene in scenes for one in talk(scene, heard)] for name, heard in HEARD.items()}
    told = {name: {one.act for one in found} & {"insist", "nothing_named"} for name, found in said.items()}
    assert told == {"none": {"nothing_named"}, "bad": {"insist"}, "good": set()}
    scenario = plan(3, arm="none", rates=scenarios.Rates(hesitation=0, contradiction=0, question=1))
    user, asked = User(SAMPLE, scenario), []
    films = good(scenario.steps[2])
    for step in scenario.steps:
        said = user.speak(step.turn)
        if said.act.startswith("question"):
            asked += [i for i in films if SAMPLE.items[i].title in said.text]
        user.hear(films)
    assert sorted(asked[: len(films)]) == sorted(films)


def test_a_realiser_words_the_plan_anew_and_is_told_what_must_be_voiced():
    told = []

    def realise(template, must_voice, turn):
        told.append((template, list(must_voice), turn))
        return f"<{turn}>", {"worded_by": "test"}

    scenario = plan()
    said = talk(scenario, good, realise=realise)
    assert [one.text for one in said] == [f"<{step.turn}>" for step in scenario.steps]
    assert all(one.meta["worded_by"] == "test" for one in said)
    assert [one.text for one in talk(scenario, good)] == [template for template, _, _ in told]
    assert told[0][1] == [("genre", scenario.true_genre)]


@pytest.mark.parametrize("arm", ["shift", "none"])
def test_no_utterance_is_empty_or_has_a_hole(arm):
    for session in range(10):
        for said in talk(plan(session, arm=arm), bad):
            assert said.text.strip() and not set("{}|") & set(said.text)
            assert "  " not in said.text and "None" not in said.text


def test_a_user_who_heard_of_all_that_fits_asks_for_what_comes_close_and_does_not_insist():
    calm = scenarios.Rates(hesitation=0, contradiction=0, question=0)
    seen = 0
    for session in range(20):
        scenario = plan(session, rates=calm)
        user, heard = User(SAMPLE, scenario), set()
        for step in scenario.steps:
            said = user.speak(step.turn)
            if said.act == "follow_up" and set(step.answers.tolist()) <= heard:
                assert any(cue in said.text for cue in ("close", "near", "next", "try")), said.text
                seen += 1
            assert not (said.act == "insist" and set(step.answers.tolist()) <= heard)
            films = good(step) if step.n_answers <= 3 else bad(step)
            heard |= set(films)
            user.hear(films)
    assert seen > 10


def test_insisting_is_a_factor_and_praise_comes_only_where_something_was_met():
    for session in range(8):
        for heard in (bad, HEARD["none"]):
            acts = [said.act for said in talk(plan(session, insist=False), heard)]
            assert not {"insist", "nothing_named"} & {*acts} and acts == [s.act for s in plan(session).steps]
    cues = r"\b(good|nice|great|lovely|thank(s| you)|not bad|sounds fine|that fits|had in mind)\b"
    praise, calm = re.compile(cues, re.I), scenarios.Rates(hesitation=0, contradiction=0, question=0)
    scenes = [plan(session, rates=calm, insist=False) for session in range(12)]
    turns = {name: [one for scene in scenes for one in talk(scene, heard)] for name, heard in HEARD.items()}
    said = {name: [one.text for one in found if one.act == "follow_up"] for name, found in turns.items()}
    assert sum(bool(praise.search(text)) for text in said["good"]) > 5
    assert not [text for name in ("bad", "none") for text in said[name] if praise.search(text)]


def test_voices_say_the_same_plan_in_other_words_and_capitals_and_users_do_not_sound_alike():
    for session in range(4):
        b, c = (plan(session, voice=name) for name in ("polite", "texting"))
        assert b.events == c.events
        first = b.events[0].turn
        assert [one.state for one in b.steps[first - 1 :]] == [one.state for one in c.steps[first - 1 :]]
        said = zip(talk(b, good), talk(c, good), strict=True)
        assert sum(one.text == other.text for one, other in said) == 0
    for name, share in (("texting", 1), ("learner", 0.3), ("polite", 0), ("A", 0)):
        small = [plan(session, voice=name).small_letters for session in range(48)]
        assert abs(np.mean(small) - share) < 0.17, name
    for casual in CASUAL[:4]:
        for said in talk(casual, good):
            if said.act in (*voices.FIRST_WORDS, voices.WHY, "hesitate") and not GROUNDER.titles(said.text):
                assert said.text == said.text.lower()
    openings = [talk(plan(session))[0].text for session in range(100)]
    assert len(set(openings)) >= 95


CASUAL = [plan(session, voice="texting") for session in range(24)]


def test_casual_users_meet_the_same_shifts_in_the_same_states(monkeypatch):
    """A voice replaces turns that change nothing: goals, shifts and their turns are those of all voices."""
    quiet = voices.every()["polite"]._replace(first_words={}, small_talk={})
    monkeypatch.setitem(voices.every(), "quiet", quiet)
    chats = 0
    for casual in CASUAL:
        usual = plan(casual.session, voice="quiet")
        assert casual.events == usual.events
        first = usual.events[0].turn
        assert [s.state for s in casual.steps[first - 1 :]] == [s.state for s in usual.steps[first - 1 :]]
        assert [s.turn for s in casual.steps] == [s.turn for s in usual.steps]
        steps = zip(usual.steps[first:], casual.steps[first:], strict=True)
        changed = [(b.act, c.act) for b, c in steps if b.act != c.act]
        later = [pair for pair in changed if pair[1] in voices.SMALL_TALK]
        assert {old for old, _ in later} <= {*scenarios.QUESTIONS, "follow_up"}
        chats += len(later)
    assert chats > 60
    begun = [casual.steps[0].act for casual in CASUAL]
    assert {*voices.FIRST_WORDS, "initial"} == set(begun)


def test_first_words_put_the_opening_off_in_the_twin_as_well():
    """By one turn after a hello; who asks for any film may begin openly for another one."""
    greeted = [casual for casual in CASUAL if casual.steps[0].act in voices.FIRST_WORDS]
    delays = {act: set() for act in voices.FIRST_WORDS}
    for casual in greeted:
        twin = plan(casual.session, voice="texting", arm="none")
        opening = scenarios.statements(casual, casual.events[0].turn)
        late = next(place for place, step in enumerate(casual.steps) if step.state.constraints)
        delays[casual.steps[0].act].add(late)
        assert late + opening < casual.events[0].turn
        held = [list(step.state.constraints) for step in casual.steps[late : late + opening]]
        assert len(held[0]) == 1
        assert all(names == held[-1][: len(names)] for names in held)
        assert casual.steps[: late + opening] == twin.steps[: late + opening]
        said, other = ([one.text for one in talk(one, good)] for one in (casual, twin))
        assert said[: late + opening] == other[: late + opening]
    assert len(greeted) > 12
    assert delays == {voices.GREETING: {1}, voices.ANY_FILM: {1, 2}}


def test_first_words_and_small_talk_state_nothing_and_demand_no_list():
    seen = set()
    for casual in CASUAL:
        for heard in HEARD.values():
            for step, said in zip(casual.steps, talk(casual, heard), strict=True):
                if said.act not in (*voices.FIRST_WORDS, *voices.SMALL_TALK):
                    continue
                seen.add(said.act)
                assert said.meta["asks"] == (said.act == voices.ANY_FILM)
                assert said.meta["constraints"] == dict(step.state.constraints)
                if said.act in voices.FIRST_WORDS:
                    assert not said.meta["constraints"] and not said.meta["avoid"]
                titles = GROUNDER.titles(said.text)
                named = [m for m in GROUNDER.audit(said.text) if not m.rejected]
                assert all(any(t.start <= m.start and m.end <= t.end for t in titles) for m in named), said
    assert seen == {*voices.FIRST_WORDS, *voices.SMALL_TALK}
    config = simulate.SimulateConfig(systems=["silent"], voices="texting", n_turns=12)
    scorer = Scorer(GROUNDER, conventions.get("default"))
    acts = set()
    for number in range(8):
        dialogue = simulate.session(WORLD, "silent", number, config)
        rows = scorer.score_many([dialogue])[0].turns
        for pair, row in zip(dialogue.pairs(), rows, strict=True):
            act = pair.user.user_meta["stage"]
            if act in (*voices.FIRST_WORDS, *voices.SMALL_TALK):
                acts.add(act)
                assert all(
                    math.isnan(row[name]) for name in ("normalised_gain", "found_at_3", "satisfaction")
                ), act
    assert acts >= {*voices.FIRST_WORDS, voices.REACTION}


def test_casual_users_voice_every_shift_leak_none_and_state_everything_at_once_when_fresh():
    config = simulate.SimulateConfig(systems=["tracker"], voices="texting")
    talks = [simulate.session(WORLD, "tracker", number, config) for number in range(8)]
    voiced = promises.voiced(talks, GROUNDER)["voiced"]
    assert len(voiced) > 20 and voiced.all()
    assert not promises.leaks(talks, GROUNDER)["leaked"].any()
    for casual in CASUAL[:8]:
        turn = casual.events[-1].turn
        user = User(SAMPLE, scenarios.fresh(SAMPLE, casual, turn))
        said = user.speak(turn)
        state = casual.steps[turn - 1].state
        assert said.act == "initial" and said.meta["asks"]
        named = GROUNDER.topic_set(said.text)
        wanted = {*state.constraints.items(), *state.avoid.items()}
        assert {fields.concept(*pair) for pair in wanted} <= named, said.text


@pytest.mark.parametrize("kind", SHIFTS.names())
def test_words_that_leave_out_a_planned_value_are_an_error(kind):
    step = next(step for n in range(30) for step in plan(n).steps if step.kind == kind)
    needed = users.must_voice(step, step.act)
    assert needed
    films = {"genre": " films"}  # an everyday genre counts beside a film word only
    said = [f"{value}{films.get(name, '')}" for name, value in needed]
    users.check_voiced(GROUNDER, step, step.act, ", ".join(said))
    for place, (field, value) in enumerate(needed):
        rest = ", ".join(said[:place] + said[place + 1 :])
        with pytest.raises(RunError) as caught:
            users.check_voiced(GROUNDER, step, step.act, f"Well. {rest}")
        text, lost = str(caught.value), f"does not voice {field} {value!r}: 'Well. {rest}'"
        assert text.startswith(f"shift {kind!r} at turn {step.turn} {lost}")
        mend = f"mend the phrases of {field!r} in catalog/fields.py, or the templates [{step.act}]"
        assert text.endswith(f"{mend} in user.wording")


def test_templates_that_forget_a_value_and_a_model_that_does_not_voice_the_plan_stop_the_session(monkeypatch):
    found = dict(prompts.sections("user"))
    found["shift_replace"] = prompts.compiled(("Let's have $wish instead.",))
    monkeypatch.setattr(prompts, "sections", lambda name, small=False: found)
    config = simulate.SimulateConfig(systems=["silent"], voices="A", n_turns=20, shift_types=["replace"])
    with pytest.raises(RunError, match=r"shift 'replace' at .*voice .*\[shift_replace\] in user.wording"):
        simulate.session(WORLD, "silent", 0, config)
    monkeypatch.setattr(run.Partner, "_realiser", lambda partner: lambda text, needed, turn: ("Hm.", {}))
    with pytest.raises(RunError, match=r"act 'initial' at turn 1 does not voice genre '.*': 'Hm\.'"):
        simulate.session(WORLD, "silent", 0, simulate.SimulateConfig(systems=["silent"], voices="A"))
