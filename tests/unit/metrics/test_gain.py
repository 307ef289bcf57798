"""Gain on ten films: every number worked out on paper, and a second opinion from the definition."""

import math
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.dialogue import Dialogue
from crs_lib.core.rng import stream
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import base, claims, conventions, costs, gain
from crs_lib.metrics.records import Text
from crs_lib.systems.base import most_gain
from tests.helpers.films import TITLES, catalog, grounder

TEN = catalog()
WORDS = grounder()
SCORER = Scorer(WORDS, conventions.get("default"))
DRAMA, QUILL = {"genre": "Drama"}, {"genre": "Drama", "actor": "Ada Quill"}


def say(wishes, films, *, avoid=(), stage="initial", asks=True, shift=False, text=None):
    """A user turn with its log, and the reply that shows these films."""
    text = f"How about {', '.join(TITLES[i] for i in films)}." if text is None else text
    log = {"constraints": dict(wishes), "avoid": dict(avoid), "stage": stage, "asks": asks}
    log["shift_event"] = shift
    reply = {"speaker": "SYSTEM", "text": text, "rec_ids": [TEN.items[i].item_id for i in films]}
    return {"speaker": "USER", "text": "…", "user_meta": log}, reply


def session(*pairs):
    at = [number for number, (user, _) in enumerate(pairs, 1) if user["user_meta"]["shift_event"]]
    record = {"session_id": "0", "model_name": "m", "true_genre": "", "conversation": [*chain(*pairs)]}
    record["shift_events"] = [{"turn": number, "type": "switch"} for number in at]
    talk = Dialogue.from_json(record, source="test")
    texts = [Text((), WORDS.concepts(turn.text)) for turn in talk.turns]
    return SCORER.prepare(talk, texts)


def last(metric, *pairs):
    return metric(session(*pairs).turns[-1])


# Nine films may be recommended (the tenth has no credits). Drama: 0, 1, 2, 4, 5. Ada Quill: 0, 1, 3.
# Both: 0, 1; one: 2, 3, 4, 5; none: 6, 7, 8. Mean number met: (2·2 + 4·1)/9 = 8/9.
GAIN, PRECISE, FOUND = gain.normalised_gain, gain.precise, gain.found_at_3
NO_ADA, MORE = {"avoid": {"actor": "Ada Quill"}}, {"stage": "follow_up"}
NAN = math.nan


@pytest.mark.parametrize(("metric", "turns", "value"), [
        # one is the best that there is, and zero is chance: all three are dramas, of five; two of three
    (GAIN, [say(DRAMA, [0])], 1), (GAIN, [say(DRAMA, [6])], (0 - 5 / 9) / (1 - 5 / 9)),
    (GAIN, [say(DRAMA, [0, 1, 2])], 1), (GAIN, [say(DRAMA, [0, 1, 6])], (2 - 15 / 9) / (3 - 15 / 9)),
    (gain.first_gain, [say(DRAMA, [0, 6, 7])], 1),
    (gain.first_gain, [say(DRAMA, [6, 0, 1])], (0 - 5 / 9) / (1 - 5 / 9)),
        # a longer list is measured by the best list of its length: 0 and 1 meet two, the third best meets one
    (GAIN, [say(QUILL, [0, 1, 4])], 1), (GAIN, [say(QUILL, [0, 1])], 1), (GAIN, [say(QUILL, [0])], 1),
    (GAIN, [say(QUILL, [0, 1, 8])], (4 - 24 / 9) / (5 - 24 / 9)),
        # an excluded value gains nothing: dramas without Ada Quill are 2, 4, 5
    (GAIN, [say(DRAMA, [2, 4], **NO_ADA)], 1), (GAIN, [say(DRAMA, [0], **NO_ADA)], -(3 / 9) / (1 - 3 / 9)),
    (gain.violations, [say(DRAMA, [0, 2], **NO_ADA)], 1 / 2), (gain.violations, [say(DRAMA, [0, 2])], NAN),
        # a film shown before gains nothing where the user asks for others: of five dramas four are left
    (GAIN, [say(DRAMA, [0]), say(DRAMA, [0], **MORE)], -(4 / 9) / (1 - 4 / 9)),
    (GAIN, [say(DRAMA, [0]), say(DRAMA, [1], **MORE)], 1),
    (GAIN, [say(DRAMA, [0]), say(DRAMA, [0], stage="question_year")], 1),
    (GAIN, [say({"language": "English"}, [0]), say(DRAMA, [0], **MORE)], 1),  # shown before the state changed
        # a film named twice counts once; silence is worth one film without gain where films are asked for
    (GAIN, [say(DRAMA, [0, 0])], (1 - 10 / 9) / (2 - 10 / 9)),
    (GAIN, [say(DRAMA, [])], -(5 / 9) / (1 - 5 / 9)), (GAIN, [say(DRAMA, [], asks=False)], NAN),
    (GAIN, [say({}, [0])], NAN),
    (GAIN, [say(DRAMA, list(range(9)))], NAN),  # every list gains the same
        # a film that is never recommended counts if it is shown: Only Pages (9) is a drama, six of ten films
    (GAIN, [say(DRAMA, [9])], 1), (GAIN, [say(QUILL, [9])], (1 - 9 / 10) / (2 - 9 / 10)),
        # the strict pair: two films meet both, three are enough
    (PRECISE, [say(QUILL, [0, 2])], 1 / 2), (PRECISE, [say(QUILL, [])], NAN),
    (FOUND, [say(QUILL, [0, 2, 5])], 1 / 2), (FOUND, [say(DRAMA, [0, 1, 2, 4])], 1),
    (FOUND, [say(QUILL, [])], 0), (FOUND, [say({"genre": "War", "actor": "Ada Quill"}, [0])], NAN),
    (FOUND, [say(QUILL, [0]), say(QUILL, [0], **MORE)], 0),  # film 1 was left
])  # fmt: skip
def test_gain_worked_on_paper(metric, turns, value):
    assert last(metric, *turns) == pytest.approx(value, nan_ok=True)


def test_fewer_films_than_a_list_holds_have_no_gain():
    assert math.isnan(gain.normalised(1, 3, (1, 1)))


PAIRS = sorted({(f, v) for f in ("genre", "actor", "language", "year") for v in TEN.values(f)})
WISHES = st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3).map(dict)
AVOID = st.lists(st.sampled_from(PAIRS), max_size=2).map(dict)


def films_up_to(most):
    return st.lists(st.integers(0, 8), unique=True, max_size=most)


def by_definition(wishes, avoid, films, stale):
    """Normalised gain from the gains of all films, as the page defines it."""
    met, broken = np.zeros(len(TEN)), np.zeros(len(TEN), dtype=bool)
    for pair in wishes.items():
        met[TEN.items_with(TEN.code(*pair))] += 1
    for pair in avoid.items():
        broken[TEN.items_with(TEN.code(*pair))] = True
    gains = np.where(broken, 0, met / len(wishes))
    gains[list(stale)] = 0
    there = gains[TEN.recommendable]
    k = max(1, len(films))
    best, chance = np.sort(there)[len(there) - k :].sum(), k * there.mean()
    return (gains[list(films)].sum() - chance) / (best - chance) if best - chance > 1e-12 else math.nan


@given(wishes=WISHES, avoid=AVOID, before=films_up_to(3), films=films_up_to(5))
def test_the_index_gives_what_the_definition_gives(wishes, avoid, before, films):
    first, then = say(wishes, before, avoid=avoid), say(wishes, films, avoid=avoid, stage="follow_up")
    found = last(gain.normalised_gain, first, then)
    assert found == pytest.approx(by_definition(wishes, avoid, films, before), nan_ok=True)


@given(wishes=WISHES, avoid=AVOID, before=films_up_to(4), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_the_films_of_the_largest_gain_score_one_whatever_their_number(wishes, avoid, before, k, seed):
    films = most_gain(TEN, wishes, avoid, before, before, stream(seed, "x"), k)
    found = last(GAIN, say(wishes, before, avoid=avoid), say(wishes, films, avoid=avoid, **MORE))
    assert found == 1 or math.isnan(found)


WAR = say({"genre": "War", "year": "1988"}, [5])  # Iron Valley
KEPT = {"genre": "Drama", "year": "1988"}  # drama instead of war, still from 1988: films 4 and 5


def test_uptake_retention_and_release_and_where_they_are_undefined():
    sticky = say(KEPT, [6], shift=True)  # 1947: war, not from 1988, no drama
    assert last(gain.uptake, WAR, sticky) == pytest.approx(-(5 / 9) / (4 / 9))
    assert last(gain.retention, WAR, sticky) == pytest.approx(-(2 / 9) / (7 / 9))
    assert last(gain.release, WAR, sticky) == 0
    # 5 is a war film, too, but meets all that is wanted now; 6 is the only film of the state before
    assert last(gain.release, WAR, say(KEPT, [5], shift=True)) == 1
    assert last(gain.release, WAR, say(KEPT, [5, 6], shift=True)) == pytest.approx((1 / 2) / (8 / 9))
    good = say(KEPT, [4], shift=True)
    assert [last(one, WAR, good) for one in (gain.uptake, gain.retention, gain.release)] == [1, 1, 1]
    shift = say({"genre": "Drama"}, [0, 2], avoid={"actor": "Ada Quill"}, shift=True)
    # three of nine films break it
    assert last(gain.release, say(QUILL, [0]), shift) == pytest.approx((1 / 2) / (6 / 9))
    added = say(QUILL, [0], shift=True)
    assert last(gain.uptake, say(DRAMA, [0]), added) == 1
    assert math.isnan(last(gain.release, say(DRAMA, [0]), added))  # nothing was dropped
    relaxed = say(DRAMA, [0], shift=True)
    assert math.isnan(last(gain.uptake, say(QUILL, [0]), relaxed))  # nothing was added
    for metric in (gain.uptake, gain.retention, gain.release):
        assert math.isnan(last(metric, say(QUILL, [0])))  # before the first shift
        later = [say(DRAMA, [0]) for _ in range(3)]  # replies 1, 2 and 3 after the shift
        assert math.isnan(last(metric, say(QUILL, [0]), added, *later))


def test_no_list_meets_more_of_a_part_than_the_whole_of_the_constraints_allows():
    wishes = {"genre": "War", "actor": "Ada Quill"}  # no film has both, so the best list keeps one of the two
    turns = [(say({"genre": "War"}, [2]), say(wishes, [film], shift=True)) for film in range(9)]
    for metric in (gain.uptake, gain.retention):
        assert np.nanmax([last(metric, *pair) for pair in turns]) <= 1


@pytest.mark.parametrize(("text", "false"), [
    ("For drama films, try Cold Orchard.", 0), ("For drama films, try The Tin Parrot.", 1),
    ("For drama films, try Cold Orchard or The Tin Parrot.", 1),
    ("You want drama films. Try The Tin Parrot.", 1), ("Try The Tin Parrot, a drama, or Cold Orchard.", 1),
    ("Try The Tin Parrot or Cold Orchard, a drama.", 0), ("No drama is left; there is The Tin Parrot.", 0),
    ("Nothing fits drama. The nearest is The Tin Parrot.", 0),
    ("Try The Tin Parrot, a comedy.", 0),  # comedy was not asked for
    ("Try The Tin Parrot. Then there is drama.", 0),  # of which film is not said
])  # fmt: skip
def test_a_claim_ties_a_constraint_to_a_film(text, false):
    assert last(claims.false_claims, say(DRAMA, [3], text=text)) == false
    assert math.isnan(last(claims.false_claims, say(DRAMA, [], text="Drama it is.")))  # nothing is claimed


def fair(*pairs):
    """The exposure-fair gains of a session whose window begins with its shift."""
    return [one.gain for one in costs.window_replies(session(*pairs).shifts[0].replies)]


def test_fair_gains_are_those_of_the_films_that_a_window_could_show():
    # of nine films 0 is gone; film 1 meets two, four others one: mean 6/8, where all nine have 8/9
    assert fair(say(DRAMA, [0]), say(QUILL, [1], shift=True)) == [1]
    assert fair(say(DRAMA, [0]), say(QUILL, [2], shift=True)) == [pytest.approx((1 - 0.75) / (2 - 0.75))]
    assert fair(say(DRAMA, [0]), say(QUILL, [8], shift=True)) == [pytest.approx(-0.75 / (2 - 0.75))]
    # 0 and 1 are gone: the best left meets one, and four of seven films do
    assert math.isnan(fair(say(DRAMA, [0, 1]), say(QUILL, [2], shift=True))[0])
    before, shifted = say(DRAMA, [0, 1, 2]), say(QUILL, [0], shift=True)
    assert fair(before, say(QUILL, [0, 1], shift=True)) == [1]  # a repeat is back in the best list
    assert fair(before, say(QUILL, [3, 4], shift=True)) == [1]  # the best of those not shown
    assert fair(before, say(QUILL, [0, 8], shift=True))[0] < 1
    more, again = (fair(say(DRAMA, [2]), shifted, say(QUILL, [film], **MORE))[1] for film in (1, 0))
    assert more == 1 and again < 0
    # 8 meets nothing and is shown twice: it stays one of eight films (7 is gone), and chance is 8/8
    nothing = say(DRAMA, [7]), say(QUILL, [8], shift=True), say(QUILL, [8], **MORE)
    assert fair(*nothing)[1] == pytest.approx(-1 / (2 - 1))
    early = say(QUILL, [2], stage="follow_up", shift=True)  # shown before the window only
    assert fair(say(DRAMA, [2]), early) == fair(say(DRAMA, [2]), say(QUILL, [2], shift=True))


def told(*pairs, kind="switch"):
    shift = session(*pairs).shifts[0]
    shift.event = replace(shift.event, type=kind)
    return shift


REPLY = costs.WindowReply


def test_costs_compare_the_replies_that_all_arms_have_and_without_films_or_an_arm_there_is_none():
    shift = told(say(DRAMA, [0]), say(QUILL, [2], shift=True), say(QUILL, [1]), say(QUILL, [0]))
    own = [one.gain for one in costs.window_replies(shift.replies)]
    assert own == pytest.approx([0.2, 1, 1])
    straight = [REPLY(0.8, True), REPLY(math.nan, True), REPLY(0.4, False)]
    shift.arms = {costs.STRAIGHT: straight, costs.FRESH: [REPLY(gained, True) for gained in (1.0, 1.0, 0.6)]}
    assert costs.straight_gain(shift) == pytest.approx(0.6)  # the second reply has no gain in one arm
    assert costs.fresh_gain(shift) == pytest.approx(0.8)
    mine = (own[0] + own[2]) / 2
    assert costs.gain_after_change(shift) == pytest.approx(mine)
    assert costs.gain_over(shift) == "all arms"
    assert costs.shift_cost(shift) == pytest.approx(0.6 - mine)
    assert costs.conversation_cost(shift) == pytest.approx(0.2)
    assert costs.history_cost(shift) == pytest.approx(0.2 + 0.6 - mine)  # the sum of both
    assert costs.misfit(shift) == pytest.approx(0.8 - mine)  # the straight user's third reply shows no film
    assert costs.delay(shift) == pytest.approx(0.6 - 0.8)
    assert costs.cost_undefined(shift) == ""
    assert math.isnan(costs.share_lost(shift))  # a ratio of means, of a system
    shift = told(say(DRAMA, [0]), say(QUILL, [0], shift=True))
    shift.arms = {costs.STRAIGHT: [REPLY(-0.1, False)], costs.FRESH: [REPLY(1.0, True)]}
    assert costs.shift_cost(shift) == pytest.approx(-1.1)
    assert math.isnan(costs.misfit(shift)) and math.isnan(costs.delay(shift))
    assert costs.cost_undefined(shift) == "misfit, delay: an arm shows no films"
    shift = session(say(DRAMA, [0]), say(QUILL, [2], shift=True)).shifts[0]
    assert costs.cost_undefined(shift) == "no straight users were simulated"
    assert costs.gain_after_change(shift) == pytest.approx(0.2)
    assert costs.gain_over(shift) == "own replies"
    for metric in (costs.shift_cost, costs.misfit, costs.conversation_cost, costs.fresh_gain):
        assert math.isnan(metric(shift))


def test_the_first_shift_is_primary_but_for_a_refinement_or_a_return():
    pairs = say(DRAMA, [0]), say(QUILL, [0], shift=True), say(DRAMA, [0], shift=True)
    assert [costs.primary(shift) for shift in session(*pairs).shifts] == [True, False]
    assert not any(costs.primary(told(*pairs, kind=kind)) for kind in ("refine", "return"))


def test_gain_after_a_refinement_is_that_of_sessions_that_refine_first():
    pairs = say(DRAMA, [0]), say(QUILL, [2], shift=True), say(DRAMA, [0], shift=True)
    first, later = session(*pairs).shifts
    assert math.isnan(costs.refine_gain(first))  # a switch
    later.event = replace(later.event, type="refine")
    assert math.isnan(costs.refine_gain(later))
    assert costs.refine_gain(told(*pairs, kind="refine")) == pytest.approx(0.2)


@pytest.mark.parametrize(("name", "high"), [(base.PRIMARY, 1), ("straight_gain", 1), ("shift_cost", 2)])
def test_a_gain_lies_within_one_of_chance_and_a_cost_within_two(name, high):
    declared = base.get(name)
    assert (declared.low, declared.high) == (-high, high)


def test_films_that_miss_fit_the_state_before_or_neither_against_chance():
    # before: Drama (0, 1, 2, 4, 5); now: Ada Quill (0, 1, 3). Misses that fit before: 2, 4, 5; neither: 6, 7, 8
    now = {"actor": "Ada Quill"}
    shift = told(say(DRAMA, [6]), say(now, [2, 3], shift=True), say(now, [7]))
    assert costs.stale_share(shift) == pytest.approx(1 / 3 - 3 / 9)
    assert costs.wrong_share(shift) == pytest.approx(1 / 3 - 3 / 9)
    assert costs.stale_share(told(say(DRAMA, [6]), say(now, [2, 4], shift=True))) == pytest.approx(1 - 3 / 9)
    assert math.isnan(costs.stale_share(told(say(DRAMA, [6]), say(now, [], shift=True))))
