"""Twins, what must hold of the simulator, and that nothing tells straight users apart before a shift."""

import itertools
import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from crs_lib import simulate, systems
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.run import conversation_id
from crs_lib.simulate.users import User
from crs_lib.stats import auc
from crs_lib.validity import arms, promises
from tests.helpers import refused
from tests.helpers.sample import GROUNDER, SAMPLE, WORLD


def test_the_twin_has_its_own_run_and_no_shift():
    twin = arms.twin(SimulateConfig(run="thesis", n_sessions=2))
    assert (twin.run, twin.arm) == ("thesis-none", "none")
    refused("has no shifts itself", arms.twin, twin)


@pytest.fixture(scope="module")
def talks():
    config = SimulateConfig(systems=("oracle", "random"), n_sessions=6, n_turns=16)
    keys = config.keys()
    return [simulate.session(WORLD, key.system, key.session, config) for key in keys]


@pytest.fixture(scope="module")
def shifting(talks):
    """A conversation and the turn of a shift that adds a constraint."""
    for talk in talks:
        for event in talk.shift_events:
            if event["added"]:
                return talk, event["turn"]
    raise AssertionError("no shift adds a constraint")


def with_turn(talk, place, **changes):
    turns = list(talk.turns)
    turns[place] = replace(turns[place], **changes)
    return replace(talk, turns=tuple(turns))


def test_the_simulator_keeps_its_promises(talks):
    assert promises.checks(talks, GROUNDER)["holds"].tolist() == [True] * 5


def test_a_leak_is_found(shifting):
    talk, turn = shifting
    early = f"{talk.turns[0].text} {talk.turns[2 * turn - 2].text}"
    leaks = promises.leaks([with_turn(talk, 0, text=early)], GROUNDER).set_index("turn")
    assert leaks.loc[turn, "leaked"]


def test_an_unvoiced_shift_is_found(shifting):
    talk, turn = shifting
    silent = with_turn(talk, 2 * turn - 2, text="Something else, please.")
    voiced = promises.voiced([silent], GROUNDER).set_index("turn")
    assert not voiced.loc[turn, "voiced"]


def test_repetitions_are_found_whatever_their_marks(talks):
    marks = itertools.cycle(["A b!", "a b"])
    turns = []
    for turn in talks[0].turns:
        turns.append(replace(turn, text=next(marks)) if turn.speaker == "USER" else turn)
    table = promises.checks([replace(talks[0], turns=tuple(turns))], GROUNDER).set_index("check")
    row = table.loc["user utterances repeated word for word"]
    assert row["share"] == 1 - 1 / 16
    assert not row["holds"]


READER = "tracker"  # whose replies the users hear


def masked(text):
    """A text whose films and values are placeholders, so that only what is said of them is left."""
    spans = [(title.start, title.end, " xtitle ") for title in GROUNDER.titles(text)]
    for match in GROUNDER.audit(text):
        inside = any(start < match.end and match.start < end for start, end, _ in spans)
        if not match.rejected and not inside:
            spans.append((match.start, match.end, " xvalue "))
    for start, end, word in sorted(spans, reverse=True):
        text = text[:start] + word + text[end:]
    return text


def received(plan, seed, until):
    """All that a system is sent before a turn, and what it may count: one line, a word for each turn's place."""
    user = User(SAMPLE, plan)
    system = systems.base.create(READER, WORLD, seed, plan.session)
    words = []
    for turn in range(1, until):
        utterance = user.speak(turn)
        user.hear(system.reply(turn, utterance.text, {}).items)
        spoken = re.findall(r"\w+|[?!.,]", masked(utterance.text).lower())
        words += spoken
        words += [f"t{turn}_{word}" for word in spoken]
        words.append(f"length_{turn}_{len(spoken) // 3}")
    return " ".join([*words, f"turns_{until}"])


class Window(NamedTuple):
    """What a system received of a user before a first shift: straight or not, how many values were named."""

    scenario: str
    text: str
    straight: int
    named: int


def first_windows(choice, numbers, seed=31):
    """The windows of both users at each first shift."""
    config = SimulateConfig(voices=choice, n_turns=8, seed=seed)
    for number in numbers:
        plan = simulate.scenario(WORLD, number, config)
        event = next(iter(plan.events), None)
        if event is None or event.type in ("refine", "return"):
            continue
        turn = event.turn
        straight = scenarios.straight(SAMPLE, plan, turn)
        for arm, user in enumerate((plan, straight)):
            named = len(user.steps[turn - 2].state.constraints)
            yield Window(f"{choice}{number}", received(user, seed, turn), arm, named)


def told_apart(windows):
    """The AUC of a reader trained on other scenarios, within the number of values named; pairs weigh the same."""
    groups, texts, straight, named = map(np.array, zip(*windows, strict=True))
    words = CountVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), min_df=5, binary=True)
    features = words.fit_transform(texts)
    areas, weights = [], []
    for stratum in np.unique(named):
        rows = named == stratum
        n = np.bincount(straight[rows], minlength=2)
        if n.min() < 30:
            continue
        reader = LogisticRegression(C=0.05, max_iter=300)
        folds = {"groups": groups[rows], "cv": GroupKFold(5), "method": "decision_function"}
        score = cross_val_predict(reader, features[rows], straight[rows], **folds)
        areas.append(auc(score, straight[rows] == 1))
        weights.append(n.prod())
    return float(np.average(areas, weights=weights)), np.bincount(straight)


@pytest.mark.full
def test_a_reader_does_not_tell_straight_from_shifting_users():
    """Of development voices; a switch keeps nothing, so these straight users ask openly and are told at once."""
    area, windows = told_apart([w for w in first_windows("development", range(5400)) if w.named])
    assert windows.min() >= 2000
    assert 0.45 < area < 0.55


@pytest.mark.full
def test_the_reader_finds_what_there_is_to_find():
    """Users of set A begin with a genre, which straight users may never have wanted."""
    area, _ = told_apart([window for window in first_windows("A", range(1500)) if window.named])
    assert area > 0.57


@pytest.mark.slow
def test_an_open_beginning_gives_no_arm_away():
    begun = {0: [], 1: []}
    for window in first_windows("development", range(300)):
        if window.named == 1:
            begun[window.straight].append("t1_xvalue" in window.text)
    shifting, straight = np.mean(begun[0]), np.mean(begun[1])
    assert shifting < 0.95
    assert abs(shifting - straight) < 0.2


def test_conversation_ids_are_digits_that_never_come_twice():
    ends = ("", ".shift.05", ".straight.05", ".none.05", ".shift.09")
    names = [f"{number:05d}{end}" for number in range(300) for end in ends]
    keys = list(itertools.product((7, 8), names, ("shift", "none", "straight", "fresh")))
    ids = [conversation_id(*key) for key in keys]
    assert len(set(ids)) == len(ids)
    assert ids == [conversation_id(*key) for key in keys]
    assert {len(name) for name in ids} == {18}
    assert "".join(ids).isdigit()
