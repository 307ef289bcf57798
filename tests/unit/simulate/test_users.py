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
from tests.helpers import refused
from tests.helpers.sample import GROUNDER, SAMPLE, WORLD

CALM = scenarios.Rates(hesitation=0, contradiction=0, question=0)
ASKING = {"initial", "refine", "follow_up", "insist", "nothing_named"}


def plan(session=0, **options):
    return planner.plan(SAMPLE, 7, session, 20, **options)


def no_films(step):
    return ()


def fitting_films(step):
    return tuple(step.state.answers(SAMPLE)[:3].tolist())


def unfit_film(step):
    """The first film that meets nothing of what is wanted."""
    for number, item in enumerate(SAMPLE.items):
        if all(value not in item.values[name] for name, value in step.state.constraints.items()):
            return (number,)
    raise AssertionError("every film meets something")


REPLIES = pytest.mark.parametrize("films_of", [no_films, unfit_film, fitting_films])


def utterances(scenario, films_of=no_films, **options):
    """All utterances of a session; ``films_of`` gives the films that the reply to a step shows."""
    user = User(SAMPLE, scenario, **options)
    spoken = []
    for step in scenario.steps:
        spoken.append(user.speak(step.turn))
        user.hear(films_of(step))
    return spoken


def texts(scenario, films_of=no_films):
    return [utterance.text for utterance in utterances(scenario, films_of)]


def acts(scenario, films_of):
    return [utterance.act for utterance in utterances(scenario, films_of)]


def test_the_log_says_what_was_planned():
    scenario = plan()
    for step, utterance in zip(scenario.steps, utterances(scenario, fitting_films), strict=True):
        log = utterance.meta
        assert log["turn"] == step.turn
        assert log["constraints"] == dict(step.state.constraints)
        assert log["avoid"] == dict(step.state.avoid)
        assert log["n_answers"] == step.n_answers > 0
        assert log["shift_event"] == (step.event is not None)
        assert log["shift_event_obj"] == (step.event and step.event.to_json())
        assert log["focus_value"] == step.state.constraints.get(step.state.focus)
        assert log["stage"] == utterance.act
        assert log["planned_act"] == step.act
        assert {"focus_field", "anchor_title"} <= set(log)


@pytest.mark.parametrize("session", range(10))
def test_the_log_says_whether_an_utterance_asks_for_films(session):
    for utterance in utterances(plan(session), fitting_films):
        asks = utterance.meta["shift_event"] or utterance.act in ASKING
        assert utterance.meta["asks"] is asks


@REPLIES
@pytest.mark.parametrize("session", range(5))
def test_what_is_wished_never_depends_on_the_system(session, films_of):
    scenario = plan(session)
    for usual, other in zip(utterances(scenario), utterances(scenario, films_of), strict=True):
        assert {**usual.meta, "stage": "", "asks": ""} == {**other.meta, "stage": "", "asks": ""}
        if usual.meta["shift_event"]:
            assert usual.text == other.text


@pytest.mark.parametrize(("films_of", "reactions"), [
    (no_films, {"nothing_named"}), (unfit_film, {"insist"}), (fitting_films, set()),
])  # fmt: skip
def test_a_user_who_hears_no_title_asks_and_who_is_not_served_insists(films_of, reactions):
    seen = set()
    for session in range(8):
        scenario = plan(session, rates=scenarios.Rates(hesitation=0, contradiction=0, question=0.5))
        seen.update(acts(scenario, films_of))
    assert seen & {"insist", "nothing_named"} == reactions


def test_questions_are_about_each_of_the_films_just_named():
    scenario = plan(3, arm="none", rates=scenarios.Rates(hesitation=0, contradiction=0, question=1))
    films = fitting_films(scenario.steps[2])
    asked_about = []
    for utterance in utterances(scenario, lambda step: films):
        if utterance.act.startswith("question"):
            asked_about += [film for film in films if SAMPLE.items[film].title in utterance.text]
    assert sorted(asked_about[: len(films)]) == sorted(films)


def test_a_realiser_words_the_plan_anew_and_is_told_what_must_be_voiced():
    calls = []

    def realise(template, must_voice, turn):
        calls.append((template, list(must_voice)))
        return f"<{turn}>", {"worded_by": "test"}

    scenario = plan()
    spoken = utterances(scenario, fitting_films, realise=realise)
    for step, utterance in zip(scenario.steps, spoken, strict=True):
        assert utterance.text == f"<{step.turn}>"
        assert utterance.meta["worded_by"] == "test"
    assert [template for template, _ in calls] == texts(scenario, fitting_films)
    assert calls[0][1] == [("genre", scenario.true_genre)]


@pytest.mark.parametrize("arm", ["shift", "none"])
@pytest.mark.parametrize("session", range(10))
def test_no_utterance_is_empty_or_has_a_hole(session, arm):
    for text in texts(plan(session, arm=arm), unfit_film):
        assert text.strip()
        assert not re.search(r"[{}|]|  |None", text)


def test_a_user_who_heard_of_all_that_fits_asks_for_what_comes_close_and_does_not_insist():
    close = 0
    for session in range(20):
        scenario = plan(session, rates=CALM)
        user = User(SAMPLE, scenario)
        heard = set()
        for step in scenario.steps:
            utterance = user.speak(step.turn)
            if heard.issuperset(step.answers.tolist()):
                assert utterance.act != "insist"
                if utterance.act == "follow_up":
                    assert re.search("close|near|next|try", utterance.text)
                    close += 1
            films = fitting_films(step) if step.n_answers <= 3 else unfit_film(step)
            heard.update(films)
            user.hear(films)
    assert close > 10


@pytest.mark.parametrize("films_of", [no_films, unfit_film])
@pytest.mark.parametrize("session", range(8))
def test_insisting_is_a_factor(session, films_of):
    scenario = plan(session, insist=False)
    assert acts(scenario, films_of) == [step.act for step in scenario.steps]


PRAISE = re.compile(
    r"\b(good|nice|great|lovely|thank(s| you)|not bad|sounds fine|that fits|had in mind)\b", re.I
)


def praises(films_of):
    """How many follow-ups of twelve sessions praise the reply."""
    count = 0
    for session in range(12):
        for utterance in utterances(plan(session, rates=CALM, insist=False), films_of):
            if utterance.act == "follow_up" and PRAISE.search(utterance.text):
                count += 1
    return count


def test_praise_comes_only_where_something_was_met():
    assert praises(fitting_films) > 5
    assert praises(unfit_film) == 0
    assert praises(no_films) == 0


@pytest.mark.parametrize("session", range(4))
def test_voices_say_the_same_plan_in_other_words(session):
    polite = plan(session, voice="polite")
    texting = plan(session, voice="texting")
    assert polite.events == texting.events
    before = polite.events[0].turn - 1
    for step, other in zip(polite.steps[before:], texting.steps[before:], strict=True):
        assert step.state == other.state
    for one, other in zip(texts(polite, fitting_films), texts(texting, fitting_films), strict=True):
        assert one != other


@pytest.mark.parametrize(("voice", "share"), [("texting", 1), ("learner", 0.3), ("polite", 0), ("A", 0)])
def test_so_many_users_of_a_voice_write_small_letters(voice, share):
    small = [plan(session, voice=voice).small_letters for session in range(48)]
    assert np.mean(small) == pytest.approx(share, abs=0.17)


def test_users_do_not_sound_alike():
    openings = set()
    for session in range(100):
        openings.add(texts(plan(session))[0])
    assert len(openings) >= 95


CASUAL = [plan(session, voice="texting") for session in range(24)]
EACH_CASUAL = pytest.mark.parametrize("casual", CASUAL, ids=range(24))


@pytest.mark.parametrize("casual", CASUAL[:4], ids=range(4))
def test_casual_users_chat_in_small_letters_but_for_titles(casual):
    for utterance in utterances(casual, fitting_films):
        chats = utterance.act in (*voices.FIRST_WORDS, voices.WHY, "hesitate")
        if chats and not GROUNDER.titles(utterance.text):
            assert utterance.text == utterance.text.lower()


@pytest.fixture
def quiet(monkeypatch):
    """A voice without first words and small talk."""
    voice = voices.every()["polite"]._replace(first_words={}, small_talk={})
    monkeypatch.setitem(voices.every(), "quiet", voice)
    return "quiet"


@EACH_CASUAL
def test_casual_users_meet_the_same_shifts_in_the_same_states(quiet, casual):
    """A voice replaces turns that change nothing: goals, shifts and their turns are those of all voices."""
    usual = plan(casual.session, voice=quiet)
    assert casual.events == usual.events
    assert [step.turn for step in casual.steps] == [step.turn for step in usual.steps]
    before = usual.events[0].turn - 1
    for step, other in zip(casual.steps[before:], usual.steps[before:], strict=True):
        assert step.state == other.state


def test_small_talk_takes_the_place_of_questions_and_follow_ups(quiet):
    replaced = []
    for casual in CASUAL:
        usual = plan(casual.session, voice=quiet)
        first = usual.events[0].turn
        for step, other in zip(casual.steps[first:], usual.steps[first:], strict=True):
            if step.act != other.act and step.act in voices.SMALL_TALK:
                replaced.append(other.act)
    assert len(replaced) > 60
    assert set(replaced) <= {*scenarios.QUESTIONS, "follow_up"}


GREETED = [casual for casual in CASUAL if casual.steps[0].act in voices.FIRST_WORDS]


def opening_of(scenario):
    """The turns before the first constraint, and the states in which the opening is stated."""
    states = [step.state.constraints for step in scenario.steps]
    late = next(number for number, constraints in enumerate(states) if constraints)
    stated = scenarios.statements(scenario, scenario.events[0].turn)
    return late, [list(constraints) for constraints in states[late : late + stated]]


def test_casual_users_begin_in_every_way():
    assert {casual.steps[0].act for casual in CASUAL} == {*voices.FIRST_WORDS, "initial"}
    assert len(GREETED) > 12


def test_first_words_put_the_opening_off_by_a_turn_or_two():
    """By one turn after a hello; who asks for any film may begin openly for another one."""
    delays = {act: set() for act in voices.FIRST_WORDS}
    for casual in GREETED:
        late, _ = opening_of(casual)
        delays[casual.steps[0].act].add(late)
    assert delays == {voices.GREETING: {1}, voices.ANY_FILM: {1, 2}}


@pytest.mark.parametrize("casual", GREETED)
def test_after_first_words_constraints_are_stated_one_by_one_before_the_shift(casual):
    late, stated = opening_of(casual)
    assert late + len(stated) < casual.events[0].turn
    assert len(stated[0]) == 1
    for names in stated:
        assert names == stated[-1][: len(names)]


@pytest.mark.parametrize("casual", GREETED)
def test_the_twin_of_a_casual_user_opens_alike(casual):
    twin = plan(casual.session, voice="texting", arm="none")
    late, stated = opening_of(casual)
    end = late + len(stated)
    assert casual.steps[:end] == twin.steps[:end]
    assert texts(casual, fitting_films)[:end] == texts(twin, fitting_films)[:end]


def chat_of(scenario, films_of):
    """The first words and the small talk of a session, each with its step."""
    for step, utterance in zip(scenario.steps, utterances(scenario, films_of), strict=True):
        if utterance.act in (*voices.FIRST_WORDS, *voices.SMALL_TALK):
            yield step, utterance


@REPLIES
def test_first_words_and_small_talk_state_nothing(films_of):
    for casual in CASUAL:
        for step, utterance in chat_of(casual, films_of):
            assert utterance.meta["asks"] == (utterance.act == voices.ANY_FILM)
            assert utterance.meta["constraints"] == dict(step.state.constraints)
            titles = GROUNDER.titles(utterance.text)
            for match in GROUNDER.audit(utterance.text):
                within = [title for title in titles if title.start <= match.start and match.end <= title.end]
                assert match.rejected or within, utterance.text


def test_all_kinds_of_first_words_and_small_talk_are_heard():
    heard = set()
    for casual in CASUAL:
        heard.update(utterance.act for _, utterance in chat_of(casual, fitting_films))
    assert heard == {*voices.FIRST_WORDS, *voices.SMALL_TALK}


@EACH_CASUAL
def test_first_words_hold_no_constraint(casual):
    for _, utterance in chat_of(casual, no_films):
        if utterance.act in voices.FIRST_WORDS:
            assert utterance.meta["constraints"] == {}
            assert utterance.meta["avoid"] == {}


def test_silence_at_first_words_and_small_talk_has_no_score():
    config = simulate.SimulateConfig(systems=["silent"], voices="texting", n_turns=12)
    scorer = Scorer(GROUNDER, conventions.get("default"))
    seen = set()
    for number in range(8):
        dialogue = simulate.session(WORLD, "silent", number, config)
        rows = scorer.score_many([dialogue])[0].turns
        for pair, row in zip(dialogue.pairs(), rows, strict=True):
            act = pair.user.user_meta["stage"]
            if act in (*voices.FIRST_WORDS, *voices.SMALL_TALK):
                seen.add(act)
                for name in ("normalised_gain", "found_at_3", "satisfaction"):
                    assert math.isnan(row[name])
    assert seen >= {*voices.FIRST_WORDS, voices.REACTION}


def test_casual_users_voice_every_shift_and_leak_none():
    config = simulate.SimulateConfig(systems=["tracker"], voices="texting")
    dialogues = [simulate.session(WORLD, "tracker", number, config) for number in range(8)]
    voiced = promises.voiced(dialogues, GROUNDER)["voiced"]
    assert len(voiced) > 20
    assert voiced.all()
    assert not promises.leaks(dialogues, GROUNDER)["leaked"].any()


@pytest.mark.parametrize("casual", CASUAL[:8], ids=range(8))
def test_a_casual_fresh_user_states_everything_at_once(casual):
    turn = casual.events[-1].turn
    utterance = User(SAMPLE, scenarios.fresh(SAMPLE, casual, turn)).speak(turn)
    state = casual.steps[turn - 1].state
    assert utterance.act == "initial"
    assert utterance.meta["asks"]
    wanted = {fields.concept(*pair) for pair in (*state.constraints.items(), *state.avoid.items())}
    assert wanted <= GROUNDER.topic_set(utterance.text)


@pytest.mark.parametrize("kind", SHIFTS.names())
def test_words_that_leave_out_a_planned_value_are_an_error(kind):
    steps = (step for number in range(30) for step in plan(number).steps)
    step = next(step for step in steps if step.kind == kind)
    needed = users.must_voice(step, step.act)
    assert needed
    words = []
    for name, value in needed:
        words.append(f"{value} films" if name == "genre" else value)  # a genre counts beside a film word
    users.check_voiced(GROUNDER, step, step.act, ", ".join(words))
    for number, (name, value) in enumerate(needed):
        others = ", ".join(words[:number] + words[number + 1 :])
        with pytest.raises(RunError) as caught:
            users.check_voiced(GROUNDER, step, step.act, f"Well. {others}")
        message = str(caught.value)
        lost = f"shift {kind!r} at turn {step.turn} does not voice {name} {value!r}: 'Well. {others}'"
        assert message.startswith(lost)
        cure = f"mend the phrases of {name!r} in catalog/fields.py, or the templates [{step.act}] in user.wording"
        assert message.endswith(cure)


def test_templates_that_forget_a_value_stop_the_session(monkeypatch):
    sections = dict(prompts.sections("user"))
    sections["shift_replace"] = prompts.compiled(("Let's have $wish instead.",))
    monkeypatch.setattr(prompts, "sections", lambda name, small=False: sections)
    config = simulate.SimulateConfig(systems=["silent"], voices="A", n_turns=20, shift_types=["replace"])
    message = r"shift 'replace' at .*voice .*\[shift_replace\] in user.wording"
    refused(message, simulate.session, WORLD, "silent", 0, config, error=RunError)


def test_a_model_that_does_not_voice_the_plan_stops_the_session(monkeypatch):
    monkeypatch.setattr(run.Partner, "_realiser", lambda partner: lambda text, needed, turn: ("Hm.", {}))
    config = simulate.SimulateConfig(systems=["silent"], voices="A")
    message = r"act 'initial' at turn 1 does not voice genre '.*': 'Hm\.'"
    refused(message, simulate.session, WORLD, "silent", 0, config, error=RunError)
