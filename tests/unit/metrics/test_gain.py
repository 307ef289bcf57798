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
from crs_lib.metrics import base, conventions, costs, gain, grounded
from crs_lib.metrics.costs import WindowReply
from crs_lib.metrics.records import Text
from crs_lib.systems.base import most_gain
from tests.helpers import table
from tests.helpers.films import TITLES, catalog, grounder

TEN = catalog()
WORDS = grounder()
SCORER = Scorer(WORDS, conventions.get("default"))
DRAMA = {"genre": "Drama"}
QUILL = {"genre": "Drama", "actor": "Ada Quill"}


def turn(wishes, films, *, avoid=(), stage="initial", asks=True, shift=False, text=None):
    """A user turn with its log, and the reply that shows these films."""
    if text is None:
        titles = [TITLES[film] for film in films]
        text = f"How about {', '.join(titles)}."
    log = {"stage": stage, "asks": asks, "shift_event": shift}
    log["constraints"] = dict(wishes)
    log["avoid"] = dict(avoid)
    ids = [TEN.items[film].item_id for film in films]
    user = {"speaker": "USER", "text": "…", "user_meta": log}
    return user, {"speaker": "SYSTEM", "text": text, "rec_ids": ids}


def session(*turns):
    """The record of a session of these turns, as metrics take it."""
    events = []
    for number, (user, _) in enumerate(turns, 1):
        if user["user_meta"]["shift_event"]:
            events.append({"turn": number, "type": "switch"})
    record = {"session_id": "0", "model_name": "m", "true_genre": "", "shift_events": events}
    record["conversation"] = list(chain(*turns))
    dialogue = Dialogue.from_json(record, source="test")
    texts = [Text((), WORDS.concepts(turn.text)) for turn in dialogue.turns]
    return SCORER.prepare(dialogue, texts)


def last(metric, *turns):
    """A metric of the last turn of a session."""
    return metric(session(*turns).turns[-1])


def change(wishes, films, **log):
    """A turn at which the user's constraints shift."""
    return turn(wishes, films, shift=True, **log)


def gain_of(*turns):
    """The gain of the last turn of a session."""
    return last(gain.normalised_gain, *turns)


NO_ADA = {"avoid": {"actor": "Ada Quill"}}
MORE = {"stage": "follow_up"}


@pytest.mark.parametrize(("films", "gain_of_list"), table(__file__, "gain_of_one"))
def test_gain_where_one_thing_is_wanted(films, gain_of_list):
    assert gain_of(turn(DRAMA, films)) == pytest.approx(gain_of_list, nan_ok=True)


@pytest.mark.parametrize(("films", "gain_of_list"), table(__file__, "gain_of_two"))
def test_a_longer_list_is_measured_by_the_best_list_of_its_length(films, gain_of_list):
    assert gain_of(turn(QUILL, films)) == pytest.approx(gain_of_list)


@pytest.mark.parametrize(("films", "gain_of_first"), table(__file__, "gain_of_first"))
def test_the_gain_of_the_first_film_leaves_padding_out(films, gain_of_first):
    assert last(gain.first_gain, turn(DRAMA, films)) == pytest.approx(gain_of_first)


@pytest.mark.parametrize(("films", "gain_of_list"), table(__file__, "gain_of_exclusion"))
def test_an_excluded_value_gains_nothing(films, gain_of_list):
    assert gain_of(turn(DRAMA, films, **NO_ADA)) == pytest.approx(gain_of_list)


@pytest.mark.parametrize(("film", "stage", "gain_of_list"), table(__file__, "gain_of_repeat"))
def test_a_film_shown_before_gains_nothing_where_others_are_asked_for(film, stage, gain_of_list):
    turns = turn(DRAMA, [0]), turn(DRAMA, [film], stage=stage)
    assert gain_of(*turns) == pytest.approx(gain_of_list)


def test_a_film_shown_before_the_state_changed_gains_as_a_new_one():
    assert gain_of(turn({"language": "English"}, [0]), turn(DRAMA, [0], **MORE)) == 1


def test_gain_is_undefined_where_nothing_is_wanted_or_asked():
    assert math.isnan(gain_of(turn({}, [0])))
    assert math.isnan(gain_of(turn(DRAMA, [], asks=False)))


def test_violations_are_the_share_of_films_with_an_excluded_value():
    assert last(gain.violations, turn(DRAMA, [0, 2], **NO_ADA)) == 1 / 2
    assert math.isnan(last(gain.violations, turn(DRAMA, [0, 2])))


def test_precise_is_the_share_of_films_that_meet_everything():
    assert last(gain.precise, turn(QUILL, [0, 2])) == 1 / 2
    assert math.isnan(last(gain.precise, turn(QUILL, [])))


def test_three_films_that_meet_everything_are_enough():
    assert last(gain.found_at_3, turn(DRAMA, [0, 1, 2, 4])) == 1
    assert last(gain.found_at_3, turn(QUILL, [0, 2, 5])) == 1 / 2  # two films meet both
    assert last(gain.found_at_3, turn(QUILL, [])) == 0
    assert last(gain.found_at_3, turn(QUILL, [0]), turn(QUILL, [0], **MORE)) == 0  # film 1 was left
    assert math.isnan(last(gain.found_at_3, turn({"genre": "War", "actor": "Ada Quill"}, [0])))


def test_fewer_films_than_a_list_holds_have_no_gain():
    assert math.isnan(gain.normalised(1, 3, (1, 1)))


def constraints():
    """Every field and value of the ten films that a user may ask for."""
    pairs = []
    for field in ("actor", "genre", "language", "year"):
        pairs += [(field, value) for value in TEN.values(field)]
    return st.sampled_from(pairs)


WISHES = st.lists(constraints(), min_size=1, max_size=3).map(dict)
AVOID = st.lists(constraints(), max_size=2).map(dict)


def films_up_to(most):
    return st.lists(st.integers(0, 8), unique=True, max_size=most)


def by_definition(wishes, avoid, films, stale):
    """Normalised gain from the gains of all films, as the page defines it."""
    gains = np.zeros(len(TEN))
    for field, value in wishes.items():
        gains[TEN.items_with(TEN.code(field, value))] += 1 / len(wishes)
    for field, value in avoid.items():
        gains[TEN.items_with(TEN.code(field, value))] = 0
    gains[stale] = 0
    possible = np.sort(gains[TEN.recommendable])
    k = max(1, len(films))
    best = possible[-k:].sum()
    chance = k * possible.mean()
    if best - chance < 1e-12:
        return math.nan
    return (gains[films].sum() - chance) / (best - chance)


@given(wishes=WISHES, avoid=AVOID, before=films_up_to(3), films=films_up_to(5))
def test_the_index_gives_what_the_definition_gives(wishes, avoid, before, films):
    turns = turn(wishes, before, avoid=avoid), turn(wishes, films, avoid=avoid, **MORE)
    expected = by_definition(wishes, avoid, films, before)
    assert gain_of(*turns) == pytest.approx(expected, nan_ok=True)


@given(wishes=WISHES, avoid=AVOID, before=films_up_to(4), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_the_films_of_the_largest_gain_score_one_whatever_their_number(wishes, avoid, before, k, seed):
    films = most_gain(TEN, wishes, avoid, before, before, stream(seed, "x"), k)
    turns = turn(wishes, before, avoid=avoid), turn(wishes, films, avoid=avoid, **MORE)
    score = gain_of(*turns)
    assert score == 1 or math.isnan(score)


WAR = turn({"genre": "War", "year": "1988"}, [5])  # Iron Valley
CHANGED = {"genre": "Drama", "year": "1988"}  # drama instead of war, still from 1988: films 4 and 5
EACH = pytest.mark.parametrize("metric", [gain.uptake, gain.retention, gain.release])


def after_war(metric, *films):
    """A metric of a reply with these films at the change from war to drama."""
    return last(metric, WAR, change(CHANGED, films))


@EACH
def test_a_reply_that_meets_everything_follows_the_change(metric):
    assert after_war(metric, 4) == 1


def test_a_reply_that_clings_loses_what_was_added_and_what_was_kept():
    # 1947 (6): war, not from 1988, no drama
    assert after_war(gain.uptake, 6) == pytest.approx(-(5 / 9) / (4 / 9))
    assert after_war(gain.retention, 6) == pytest.approx(-(2 / 9) / (7 / 9))
    assert after_war(gain.release, 6) == 0


def test_a_film_of_the_state_before_that_meets_everything_now_is_released():
    assert after_war(gain.release, 5) == 1  # a war film, too
    assert after_war(gain.release, 5, 6) == pytest.approx((1 / 2) / (8 / 9))


def test_a_film_with_a_value_that_was_ruled_out_is_not_released():
    retracted = change(DRAMA, [0, 2], **NO_ADA)
    # three of nine films break it
    assert last(gain.release, turn(QUILL, [0]), retracted) == pytest.approx((1 / 2) / (6 / 9))


def test_without_a_dropped_constraint_there_is_no_release():
    turns = turn(DRAMA, [0]), change(QUILL, [0])
    assert last(gain.uptake, *turns) == 1
    assert math.isnan(last(gain.release, *turns))


def test_without_an_added_constraint_there_is_no_uptake():
    assert math.isnan(last(gain.uptake, turn(QUILL, [0]), change(DRAMA, [0])))


@EACH
def test_a_change_is_followed_in_three_replies(metric):
    assert math.isnan(last(metric, turn(QUILL, [0])))  # before the first shift
    later = [turn(DRAMA, [0])] * 3  # replies 1, 2 and 3 after the shift
    assert math.isnan(last(metric, turn(QUILL, [0]), change(QUILL, [0]), *later))


@pytest.mark.parametrize("metric", [gain.uptake, gain.retention])
@pytest.mark.parametrize("film", range(9))
def test_no_list_meets_more_of_a_part_than_the_whole_of_the_constraints_allows(metric, film):
    wishes = {"genre": "War", "actor": "Ada Quill"}  # no film has both, so the best list keeps one of the two
    share = last(metric, turn({"genre": "War"}, [2]), change(wishes, [film]))
    assert math.isnan(share) or share <= 1


@pytest.mark.parametrize(("text", "false"), table(__file__, "claims"))
def test_a_claim_ties_a_constraint_to_a_film(text, false):
    assert last(grounded.false_claims, turn(DRAMA, [3], text=text)) == false


def test_a_reply_without_films_claims_nothing():
    assert math.isnan(last(grounded.false_claims, turn(DRAMA, [], text="Drama it is.")))


def fair(*turns):
    """The exposure-fair gains of a session whose window begins with its shift."""
    shift = session(*turns).shifts[0]
    return [reply.gain for reply in costs.window_replies(shift.replies)]


@pytest.mark.parametrize(("film", "fair_gain"), table(__file__, "gain_of_window"))
def test_films_shown_before_are_not_among_those_that_a_window_could_show(film, fair_gain):
    assert fair(turn(DRAMA, [0]), change(QUILL, [film])) == [pytest.approx(fair_gain)]


def test_a_gain_of_which_chance_is_more_than_half_is_undefined():
    # 0 and 1 are gone: the best left meets one, and four of seven films do
    [score] = fair(turn(DRAMA, [0, 1]), change(QUILL, [2]))
    assert math.isnan(score)


@pytest.mark.parametrize("films", [[0, 1], [3, 4]], ids=["a repeat is back", "the best not shown"])
def test_the_best_list_holds_what_is_repeated(films):
    assert fair(turn(DRAMA, [0, 1, 2]), change(QUILL, films)) == [1]


def test_padding_lowers_a_fair_gain():
    [score] = fair(turn(DRAMA, [0, 1, 2]), change(QUILL, [0, 8]))
    assert score < 1


def test_a_repeat_within_the_window_gains_nothing():
    turns = turn(DRAMA, [2]), change(QUILL, [0])
    assert fair(*turns, turn(QUILL, [1], **MORE))[1] == 1
    assert fair(*turns, turn(QUILL, [0], **MORE))[1] < 0


def test_a_film_that_is_shown_twice_stays_one_of_those_that_could_be():
    # 8 meets nothing: it stays one of eight films (7 is gone), and chance is 8/8
    turns = turn(DRAMA, [7]), change(QUILL, [8]), turn(QUILL, [8], **MORE)
    assert fair(*turns)[1] == pytest.approx(-1 / (2 - 1))


def test_a_film_shown_before_the_window_only_is_no_repeat():
    early = change(QUILL, [2], **MORE)
    assert fair(turn(DRAMA, [2]), early) == fair(turn(DRAMA, [2]), change(QUILL, [2]))


def first_shift(*turns, kind="switch"):
    """The first shift of a session, of a type."""
    shift = session(*turns).shifts[0]
    shift.event = replace(shift.event, type=kind)
    return shift


@pytest.fixture
def shift():
    """A shift with three replies in each arm; the second has no gain in one of them."""
    turns = turn(DRAMA, [0]), change(QUILL, [2]), turn(QUILL, [1]), turn(QUILL, [0])
    shift = first_shift(*turns)
    straight = [WindowReply(0.8, True), WindowReply(math.nan, True), WindowReply(0.5, False)]
    fresh = [WindowReply(1.0, True), WindowReply(1.0, True), WindowReply(0.6, True)]
    shift.arms = {costs.STRAIGHT: straight, costs.FRESH: fresh}
    return shift


def test_gains_are_over_the_replies_that_all_arms_have(shift):
    assert [reply.gain for reply in costs.window_replies(shift.replies)] == pytest.approx([0.2, 1, 1])
    assert costs.gain_after_change(shift) == pytest.approx((0.2 + 1) / 2)
    assert costs.straight_gain(shift) == pytest.approx((0.8 + 0.5) / 2)
    assert costs.fresh_gain(shift) == pytest.approx(0.8)
    assert costs.gain_over(shift) == "all arms"


def test_costs_are_differences_of_gains(shift):
    assert costs.shift_cost(shift) == pytest.approx(0.65 - 0.6)
    assert costs.conversation_cost(shift) == pytest.approx(0.8 - 0.65)
    assert costs.history_cost(shift) == pytest.approx(0.2)  # the sum of both
    assert costs.misfit(shift) == pytest.approx(0.8 - 0.6)  # the straight user's third reply shows no film
    assert costs.delay(shift) == pytest.approx(0.05 - 0.2)
    assert costs.cost_undefined(shift) == ""
    assert math.isnan(costs.share_lost(shift))  # a ratio of means, of a system


def test_without_films_in_an_arm_there_is_no_misfit():
    shift = first_shift(turn(DRAMA, [0]), change(QUILL, [0]))
    shift.arms = {costs.STRAIGHT: [WindowReply(-0.1, False)], costs.FRESH: [WindowReply(1.0, True)]}
    assert costs.shift_cost(shift) == pytest.approx(-1.1)
    assert math.isnan(costs.misfit(shift))
    assert math.isnan(costs.delay(shift))
    assert costs.cost_undefined(shift) == "misfit, delay: an arm shows no films"


@pytest.fixture
def alone():
    """A shift without straight and fresh users."""
    return first_shift(turn(DRAMA, [0]), change(QUILL, [2]))


def test_without_straight_users_the_gain_is_over_own_replies(alone):
    assert costs.gain_after_change(alone) == pytest.approx(0.2)
    assert costs.gain_over(alone) == "own replies"


@pytest.mark.parametrize(
    "metric", [costs.shift_cost, costs.misfit, costs.conversation_cost, costs.fresh_gain]
)
def test_without_straight_users_there_is_no_cost(alone, metric):
    assert math.isnan(metric(alone))
    assert costs.cost_undefined(alone) == "no straight users were simulated"


def test_the_first_shift_is_primary_but_for_a_refinement_or_a_return():
    turns = turn(DRAMA, [0]), change(QUILL, [0]), change(DRAMA, [0])
    first, later = session(*turns).shifts
    assert costs.primary(first)
    assert not costs.primary(later)
    assert not costs.primary(first_shift(*turns, kind="refine"))
    assert not costs.primary(first_shift(*turns, kind="return"))


def test_gain_after_a_refinement_is_that_of_sessions_that_refine_first():
    pairs = turn(DRAMA, [0]), change(QUILL, [2]), change(DRAMA, [0])
    first, later = session(*pairs).shifts
    assert math.isnan(costs.refine_gain(first))  # a switch
    later.event = replace(later.event, type="refine")
    assert math.isnan(costs.refine_gain(later))
    assert costs.refine_gain(first_shift(*pairs, kind="refine")) == pytest.approx(0.2)


@pytest.mark.parametrize(("name", "high"), table(__file__, "bounds"))
def test_a_gain_lies_within_one_of_chance_and_a_cost_within_two(name, high):
    declared = base.get(name)
    assert declared.low == -high
    assert declared.high == high


def test_films_that_miss_fit_the_state_before_or_neither_against_chance():
    # before: Drama (0, 1, 2, 4, 5); now: Ada Quill (0, 1, 3). Misses that fit before: 2, 4, 5; neither: 6, 7, 8
    now = {"actor": "Ada Quill"}
    shift = first_shift(turn(DRAMA, [6]), change(now, [2, 3]), turn(now, [7]))
    assert costs.stale_share(shift) == pytest.approx(1 / 3 - 3 / 9)
    assert costs.wrong_share(shift) == pytest.approx(1 / 3 - 3 / 9)
    stale = first_shift(turn(DRAMA, [6]), change(now, [2, 4]))
    assert costs.stale_share(stale) == pytest.approx(1 - 3 / 9)
    silent = first_shift(turn(DRAMA, [6]), change(now, []))
    assert math.isnan(costs.stale_share(silent))
