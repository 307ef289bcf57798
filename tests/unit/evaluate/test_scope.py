"""Shifts that leave open what becomes of earlier constraints: their readings, how they are scored, what is said."""

import re
from collections import Counter
from typing import NamedTuple

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

CONVENTION = conventions.get("default")
N = 48
TYPES = planner.ALL_TYPES[::-1]  # by default the first shift states its scope


def plans(scope, n=N, **options):
    """Plans of users of one voice."""
    return [
        planner.plan(SAMPLE, 7, number, 20, voice="critic", scope=scope, **options) for number in range(n)
    ]


class Interprets(Oracle):
    """An oracle that takes open words in one way: the first interpretation of the two that are possible."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.states = []
        self.turns = 0  # since the open shift

    def know(self, user_meta):
        event = user_meta["shift_event_obj"] or {}
        if event or user_meta.get("clarified"):
            self.states = list(event.get("readings", {}).values())
            self.turns = 0
        else:
            self.turns += 1
        if not self.states:
            return super().know(user_meta)
        return UserLog(**self.states[self.choice()])

    def choice(self):
        return 0


class DropsAll(Interprets):
    """Keeps nothing of what was wanted before."""

    def choice(self):
        return -1


class Mixes(Interprets):
    """Takes the words in one way, then in the other."""

    def choice(self):
        return 0 if self.turns % 2 == 0 else -1


class KeepsAll(Interprets):
    """Keeps the old value of a replaced field, too, where films have both."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.old = {}

    def know(self, user_meta):
        dropped = (user_meta["shift_event_obj"] or {}).get("dropped")
        if not self.states:
            self.old = {}
        elif dropped:
            self.old = dropped
        return super().know(user_meta)

    def choose(self, constraints, avoid, draw):
        films = super().choose(constraints, avoid, draw)
        if not self.states:
            return films
        codes = {SAMPLE.code(field, value) for field, value in self.old.items()}
        both = tuple(film for film in films if codes <= SAMPLE.fact_sets[film])
        return both or films


class Asks(Oracle):
    """Asks back after open words, and follows the log."""

    def reply(self, turn, text, user_meta):
        answer = super().reply(turn, text, user_meta)
        event = user_meta["shift_event_obj"] or {}
        if event.get("readings"):
            return SystemReply("Only that, or the rest as well?", (), answer.constraints)
        return answer


POLICIES = {
    "log": Oracle,
    "replace": Interprets,
    "keep": KeepsAll,
    "drop": DropsAll,
    "mixes": Mixes,
    "asks": Asks,
}


class Scores(NamedTuple):
    """Sessions and shifts of a policy's conversations, and the conversations."""

    sessions: pd.DataFrame
    shifts: pd.DataFrame
    dialogues: list


def scores_of(policy):
    """The scores of a policy with users who leave the scope of their shifts open."""
    kinds = ["refine", "replace", "switch"]
    config = simulate.SimulateConfig(systems=["oracle"], scope="open", n_turns=12, shift_types=kinds)
    dialogues, windows = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "create", lambda _, world, seed, number, films: policy(world, seed, number, "x"))
        for number in range(N):
            users = simulate.arms_of(WORLD, "oracle", number, config)
            dialogues += users["shift"]
            windows += users["straight"] + users["fresh"]
    scorer = Scorer(WORLD.grounder, CONVENTION)
    scorer.gains = arms.gains_of(windows, scorer)
    sessions, shifts = [], []
    for score in scorer.score_many(dialogues):
        sessions.append(score.session)
        shifts += score.shifts
    return Scores(pd.DataFrame(sessions), pd.DataFrame(shifts), dialogues)


@pytest.fixture(scope="module")
def scores():
    """The scores of each policy."""
    return {name: scores_of(policy) for name, policy in POLICIES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log", "replace", "keep", "drop"])
def test_who_keeps_to_any_interpretation_loses_nothing(scores, name):
    sessions = scores[name].sessions
    assert sessions["open_scope_cost"].mean() == pytest.approx(0, abs=0.03)
    assert sessions["open_scope_gain"].mean() == pytest.approx(1, abs=0.03)


@pytest.mark.slow
def test_who_mixes_interpretations_loses(scores):
    sessions = scores["mixes"].sessions
    assert sessions["open_scope_gain"].mean() < 0.85
    assert sessions["open_scope_cost"].mean() > 0.15


@pytest.mark.slow
@pytest.mark.parametrize(("name", "readings"), [("drop", {"drop"}), ("replace", {"keep", "replace"})])
def test_the_first_films_tell_the_interpretation(scores, name, readings):
    shifts = scores[name].shifts
    assert set(shifts.loc[shifts["scope"] == "open", "reading"]) == readings


@pytest.mark.slow
def test_a_question_is_answered_with_what_was_meant(scores):
    answered = 0
    for dialogue in scores["asks"].dialogues:
        for event in dialogue.shift_events:
            if event["scope"] != "open":
                continue
            question, answer = dialogue.pairs()[event["turn"] - 1 : event["turn"] + 1]
            assert not question.system.meta["rec_ids"]
            assert answer.user.user_meta["clarified"]
            meant = event["readings"][event["reading"]]
            assert answer.user.user_meta["constraints"] == meant["constraints"]
            answered += 1
    assert answered > 10


@pytest.mark.slow
def test_a_question_costs_its_turn_only(scores):
    shifts = scores["asks"].shifts
    gains = shifts.loc[shifts["scope"] == "open", "open_scope_gain"].dropna()
    # one reply of two or three gains nothing, the others all there is
    assert set(gains.round(1)) <= {0.4, 0.5, 0.6, 0.7}
    assert 0.3 < scores["asks"].sessions["open_scope_cost"].mean() < 0.6


@pytest.mark.parametrize("name", POLICIES)
def test_shift_cost_uses_windows_of_stated_scope_only(scores, name):
    shifts = scores[name].shifts
    is_open = shifts["scope"] == "open"
    assert not is_open.all()
    assert shifts.loc[is_open, "shift_cost"].isna().all()
    assert shifts.loc[~is_open, "open_scope_cost"].isna().all()
    assert not shifts.loc[is_open, "primary"].any()


def test_open_scope_has_a_column_of_its_own(scores):
    shifts = pd.concat([score.shifts.assign(model=name) for name, score in scores.items()])
    table = statistics.costs_by_type(shifts).set_index("system")
    (column,) = [name for name in table if name.startswith("open scope (")]
    assert table.loc["mixes", column].startswith("0.2")
    assert table.loc["asks", column].startswith("0.4")
    stated = statistics.costs_by_type(shifts[shifts["scope"] == "stated"])
    assert "open scope" not in " ".join(stated)


OPEN_OR_MIXED = pytest.mark.parametrize("scope", ["open", "mixed"])


@OPEN_OR_MIXED
def test_scope_changes_words_never_states(scope):
    for plain, other in zip(plans("stated", types=TYPES), plans(scope, types=TYPES), strict=True):
        for step, open_step in zip(plain.steps, other.steps, strict=True):
            assert step.wanted == open_step.wanted
            assert step.event is None or "scope" not in step.event.log
            assert not step.readings


@OPEN_OR_MIXED
def test_nobody_tells_what_was_meant_within_the_window(scope):
    for plan in plans(scope, types=TYPES):
        windows = {window.turn: window.length for window in scenarios.windows(plan)}
        for event in plan.events:
            if not event.open_scope:
                continue
            state = plan.steps[event.turn - 1].state
            assert len(event.interpretations) == 2
            assert event.interpretations[event.interpretation].constraints == state.constraints
            length = windows[event.turn]
            assert 2 <= length <= scenarios.FRESH_TURNS
            end = event.turn - 1 + length
            for step in plan.steps[end : end + 1]:
                assert step.act == scenarios.CLARIFY


def open_types(scope):
    """How many shifts of each type leave their scope open."""
    types = Counter()
    for plan in plans(scope, types=TYPES):
        types.update(event.type for event in plan.events if event.open_scope)
    return types


@pytest.mark.parametrize(("scope", "share"), [("open", 1.0), ("mixed", 0.5)])
def test_shifts_that_bring_a_value_leave_their_scope_open(scope, share):
    types = open_types(scope)
    assert {"refine", "replace"} <= set(types) <= {"refine", "replace", "switch"}
    assert types.total() / open_types("open").total() == pytest.approx(share, abs=0.1)


NATURAL = scenarios.Pace(natural=True)


def test_natural_users_shift_as_often_as_people():
    n = 0
    for number in range(200):
        n += len(scenarios.shift_turns(7, number, 20, NATURAL))
    assert n / (200 * 15) == pytest.approx(0.19, abs=0.03)  # turns 4 to 18
    types = Counter()
    for plan in plans("stated", 200, pace=NATURAL):
        types.update(event.log["planned_type"] for event in plan.events)
    assert types.most_common(1)[0][0] == "refine"
    assert types["return"] == 0


def test_natural_users_leave_the_scope_open_where_the_catalogue_allows():
    scopes = Counter()
    for plan in plans("mixed", 200, pace=NATURAL):
        scopes.update(event.log["scope"] for event in plan.events)
    assert scopes["open"] / scopes.total() > 0.15  # people: .92


@pytest.fixture(scope="module")
def natural():
    """The settings of natural users, and their conversations with the tracker."""
    config = simulate.SimulateConfig(systems=["tracker"], pace="natural", scope="mixed")
    return config, [simulate.session(WORLD, "tracker", number, config) for number in range(24)]


def test_natural_users_name_as_little_as_people(natural):
    _, dialogues = natural
    openings = set()
    turns = []
    for dialogue in dialogues:
        openings.add(len(dialogue.pairs()[0].user.user_meta["constraints"]))
        turns += [pair.user for pair in dialogue.pairs()[:5]]
    assert openings == {0, 1}  # people add what else they wish later: a shift
    n_naming = 0
    for turn in turns:
        assert turn.user_meta["stage"] != "contradiction"
        n_naming += any(not match.rejected for match in WORLD.grounder.audit(turn.text))
    assert 0.15 < n_naming / len(turns) < 0.35  # people: .26; users at the dense pace: .45


def test_natural_users_name_nothing_that_the_log_does_not_hold(natural):
    _, dialogues = natural
    assert not promises.unlogged(dialogues, WORLD.grounder)["unlogged"].map(bool).any()


def test_who_leaves_out_marks_does_so_in_every_turn(natural):
    config, dialogues = natural
    habits = set()
    for number, dialogue in enumerate(dialogues):
        neatness = scenario(WORLD, number, config).habits[1]
        left_out = ""
        if neatness < users.NO_MARK:
            left_out = ".!?"
        elif neatness < users.NO_STOP:
            left_out = ".!"
        habits.add(left_out)
        for pair in dialogue.pairs():
            assert pair.user.text[-1] not in left_out
    assert habits == {".!?", ".!", ""}


PLAIN = [name for name in prompts.lines("user") if name.startswith("plain") and name != "plain slips"]


@pytest.mark.parametrize("section", PLAIN)
def test_no_plain_line_stands_twice_or_doubles_a_word(section):
    lines = prompts.lines("user")[section]
    assert len(set(lines)) == len(lines)
    for template in prompts.sections("user")[section]:
        for text in expansions(template, None):
            assert not re.search(r"\b(\w+) \1\b", text, re.I)


def test_every_plain_section_is_that_of_an_act_or_a_genre():
    names = set(prompts.sections("voices/critic"))
    for genre in lexicon.spellings("genres"):
        names |= {f"noun {genre}", f"noun_one {genre}"}
    assert {section[len("plain ") :] for section in PLAIN} <= names
