import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, ndcg_score

from crs_lib.metrics import evidence

GOLD = st.sets(st.integers(0, 29), min_size=1, max_size=8)
RANKING = st.permutations(range(30))


def test_set_scores_by_hand():
    # selected 1, 2, 3, 4; gold 2, 4, 9: two hits; recall 2/3, precision 2/4, F1 = 2 * (2/3 * 1/2) / (2/3 + 1/2) = 4/7
    score = evidence.set_score([1, 2, 3, 4], [2, 4, 9])
    assert score == pytest.approx((2 / 3, 1 / 2, 4 / 7, 4))
    assert evidence.set_score([], [1]) == (0.0, 0.0, 0.0, 0)  # no precision to give away


def test_without_gold_nothing_is_scored():
    assert all(math.isnan(v) for v in evidence.set_score([1], [])[:3])
    assert all(math.isnan(v) for v in evidence.rank_scores([1, 2], []).values())
    assert math.isnan(evidence.fuzzy_recall([1], [], [1, 1]))
    assert math.isnan(evidence.arc_score([[1]], []).coverage_any)


def test_rank_scores_by_hand():
    # gold 7 stands first, gold 9 third, gold 5 nowhere
    ranked, gold = [7, 1, 9, 2], {7, 9, 5}
    # DCG = 1/log2(2) + 1/log2(4) = 1.5; ideal for three = 1 + 1/log2(3) + 1/2 = 2.1309
    assert evidence.rank_scores(ranked, gold) == pytest.approx(
        {"r@1": 1 / 3, "r@5": 2 / 3, "r@10": 2 / 3, "r@20": 2 / 3, "r@50": 2 / 3, "p@5": 2 / 5, "p@10": 2 / 10,
         "hit@10": 1, "all@10": 0, "mrr": 1, "ndcg@10": 1.5 / (1 + 1 / math.log2(3) + 0.5)}
    )  # fmt: skip
    assert evidence.rank_scores([1, 9, 7], gold)["mrr"] == pytest.approx(1 / 2)
    assert evidence.rank_scores([1], gold)["mrr"] == 0 and evidence.rank_scores([*gold], gold)["all@10"] == 1


@given(RANKING, GOLD)
def test_ndcg_agrees_with_scikit_learn(ranked, gold):
    relevance = [float(i in gold) for i in range(30)]
    scores = np.empty(30)
    scores[list(ranked)] = -np.arange(30)
    expected = ndcg_score([relevance], [scores], k=10)
    assert evidence.rank_scores(ranked, gold)["ndcg@10"] == pytest.approx(expected)


@given(st.sets(st.integers(0, 29), max_size=10), GOLD)
@pytest.mark.slow
def test_f1_agrees_with_scikit_learn(selected, gold):
    truth = [i in gold for i in range(30)]
    chosen = [i in selected for i in range(30)]
    assert evidence.set_score(selected, gold).f1 == pytest.approx(f1_score(truth, chosen, zero_division=0))


@given(RANKING, GOLD)
def test_recall_never_falls_with_depth_and_ends_at_one(ranked, gold):
    found = evidence.rank_scores(ranked, gold)
    recalls = [found[f"r@{k}"] for k in (1, 5, 10, 20, 50)]
    assert recalls == sorted(recalls) and recalls[-1] == 1


def test_fuzzy_recall_stays_inside_the_session():
    sessions = [1, 1, 1, 1, 2, 2]
    assert evidence.fuzzy_recall([0], [3], sessions) == 1  # three away
    assert evidence.fuzzy_recall([3], [4], sessions) == 0  # one away, another session
    assert evidence.fuzzy_recall([0], [4], [1] * 5) == 0  # four away


@given(st.sets(st.integers(0, 29), max_size=10), GOLD)
def test_fuzzy_recall_is_never_below_exact_recall(selected, gold):
    assert evidence.fuzzy_recall(selected, gold, [1] * 30) >= evidence.set_score(selected, gold).recall


def test_arc_scores_by_hand():
    # gold phases {1, 2}, {5}, {9}; answered {1, 5}, {9, 8}: union meets all three phases, 3 of 4 gold ids.
    # One-to-one: answered 1 goes to phase 1 or 2 (overlap 1), answered 2 to phase 3: two of three aligned.
    score = evidence.arc_score([[1, 5], [9, 8]], [[1, 2], [5], [9]])
    assert score.global_recall == pytest.approx(3 / 4) and score.global_precision == pytest.approx(3 / 4)
    assert score.coverage_any == 1 and score.coverage_aligned == pytest.approx(2 / 3)
    # recall of matched phases: either 1/2 + 0 + 1 or 0 + 1 + 1, by three
    assert score.mean_phase_recall == pytest.approx(1 / 2) or score.mean_phase_recall == pytest.approx(2 / 3)
    whole = evidence.arc_score([list(range(30))], [[1], [5], [9]])  # all in one phase: aligned with one
    assert whole.coverage_any == 1 and whole.coverage_aligned == pytest.approx(1 / 3)
    assert evidence.arc_score([], [[1], [2]])[:5] == (0, 0, 0, 0, 0)
    assert evidence.in_order([[1], [5], [9]]) == 1 and evidence.in_order([[5], [1]]) == 0
    assert math.isnan(evidence.in_order([[1]]))


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 9))
def test_every_gold_message_has_exactly_one_bucket(kept, selected, place):
    selected &= kept
    assert evidence.bucket(place, kept | {0}, kept, selected) in evidence.BUCKETS[1:]
    assert (evidence.bucket(place, kept | {0}, kept, selected) == "kept") == (place in selected)


def test_answer_f1_counts_words_with_repetition():
    # given "the red red house", expected "red house": common red, house = 2; F1 = 2 * 2 / (4 + 2)
    assert evidence.answer_f1("the red red house", "Red house!") == pytest.approx(2 / 3)
    assert math.isnan(evidence.answer_f1(None, "x")) and evidence.answer_f1("", "") == 1
    assert evidence.answer_f1("", "x") == 0
    assert evidence.answer_exact("The old lift", "an old LIFT!") == 1  # articles and case do not count
    assert evidence.answer_exact("old lift", "lift") == 0
    assert math.isnan(evidence.answer_exact(None, "x"))


def test_means_leave_missing_values_out():
    rows = [{"a": 1.0}, {"a": math.nan}, {"a": 0.0}]
    assert evidence.means(rows, ["a"]) == {"a": 0.5}
    assert math.isnan(evidence.means([{"a": math.nan}], ["a"])["a"])
