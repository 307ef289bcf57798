"""Straight users are shifting users who never changed their mind: nothing before the shift tells them apart."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict

from crs_lib import simulate, systems
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.conversation import conversation_id
from crs_lib.simulate.users import User
from crs_lib.stats import auc
from tests.helpers.sample import SAMPLE, WORLD

READER = "tracker"  # whose replies the users hear


def masked(text):
    """A text whose films and values are placeholders, so that only what is said of them is left."""
    spans = [(m.start, m.end, " xtitle ") for m in WORLD.grounder.titles(text)]
    inside = [(a, b) for a, b, _ in spans]
    for match in WORLD.grounder.audit(text):
        if not match.rejected and not any(a < match.end and match.start < b for a, b in inside):
            spans.append((match.start, match.end, " xvalue "))
            inside.append((match.start, match.end))
    for start, end, word in sorted(spans, reverse=True):
        text = text[:start] + word + text[end:]
    return text


def received(plan, seed, until):
    """All that a system is sent before a turn, and what it may count: one line, a word for each turn's place."""
    user = User(SAMPLE, plan)
    system = systems.base.create(READER, WORLD, seed, plan.session)
    lines = []
    for turn in range(1, until):
        said = user.speak(turn)
        reply = system.reply(turn, said.text, {})
        user.hear(reply.items)
        words = re.findall(r"\w+|[?!.,]", masked(said.text).lower())
        lines += [*words, *(f"t{turn}_{word}" for word in words), f"length_{turn}_{len(words) // 3}"]
    return " ".join([*lines, f"turns_{until}"])


def first_windows(choice, numbers, seed=31):
    """(scenario, text, straight?, values named so far, kept nothing?) of both users at each first shift."""
    config = SimulateConfig(voices=choice, n_turns=8, seed=seed)
    for number in numbers:
        plan = simulate.scenario(WORLD, number, config)
        event = next(iter(plan.events), None)
        if event is None or event["type"] in ("refine", "return"):
            continue
        turn = event["turn"]
        straight = scenarios.straight(SAMPLE, plan, turn)
        for arm, one in ((0, plan), (1, straight)):
            named = len(one.steps[turn - 2].state.constraints)
            yield f"{choice}{number}", received(one, seed, turn), arm, named


def told_apart(rows):
    """The AUC of a reader trained on other scenarios, within the number of values named; pairs weigh the same."""
    groups, texts, arms, named = map(np.array, zip(*rows, strict=True))
    features = CountVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), min_df=5, binary=True).fit_transform(
        texts
    )
    found, weights = [], []
    for stratum in np.unique(named):
        mine = named == stratum
        n = np.bincount(arms[mine], minlength=2)
        if n.min() < 30:
            continue
        reader = LogisticRegression(C=0.05, max_iter=300)
        folds = GroupKFold(5)
        score = cross_val_predict(
            reader, features[mine], arms[mine], groups=groups[mine], cv=folds, method="decision_function"
        )
        found.append(auc(score, arms[mine] == 1))
        weights.append(n.prod())
    return float(np.average(found, weights=weights)), dict(
        zip(*np.unique(arms, return_counts=True), strict=True)
    )


@pytest.mark.full
def test_a_reader_does_not_tell_straight_from_shifting_users_before_the_shift():
    """Of development voices; a switch keeps nothing, so these straight users ask openly and are told at once."""
    rows = list(first_windows("development", range(5400)))
    area, windows = told_apart([row for row in rows if row[3]])
    print(f"AUC {area:.3f} on {windows}")
    assert min(windows.values()) >= 2000
    assert 0.45 < area < 0.55


@pytest.mark.full
def test_the_reader_finds_what_there_is_to_find():
    """Users of set A begin with a genre, which straight users may never have wanted."""
    area, _ = told_apart([row for row in first_windows("A", range(1500)) if row[3]])
    assert area > 0.57


@pytest.mark.slow
def test_an_open_beginning_gives_no_arm_away():
    begun = {0: [], 1: []}
    for _, text, arm, named in first_windows("development", range(300)):
        if named == 1:
            begun[arm].append("t1_xvalue" in text)
    shifting, straight = np.mean(begun[0]), np.mean(begun[1])
    assert shifting < 0.95
    assert abs(shifting - straight) < 0.2


def test_conversation_ids_are_digits_that_never_come_twice():
    names = [
        f"{n:05d}{end}"
        for n in range(300)
        for end in ("", ".shift.05", ".straight.05", ".none.05", ".shift.09")
    ]
    ids = [conversation_id(7, name, arm) for name in names for arm in ("shift", "none", "straight", "fresh")]
    assert len(set(ids)) == len(ids)
    assert all(one.isdigit() and len(one) == 18 for one in ids)
    assert conversation_id(7, "00001", "shift") == conversation_id(7, "00001", "shift")
    assert conversation_id(7, "00001", "shift") != conversation_id(8, "00001", "shift")
