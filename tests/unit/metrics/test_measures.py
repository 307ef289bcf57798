"""Item-grounded parts, recovery as a censored time, and composites: every weight, clipping and missing part written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score
from sklearn.metrics.pairwise import cosine_similarity

from crs_lib.core.text import words
from crs_lib.metrics import base
from crs_lib.metrics.composite import after_shifts, cas, item_tas, mean_delay, rate, tas
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.grounded import beyond_chance
from crs_lib.metrics.overlap import agreement, copied_share, idf_cosine, jaccard
from crs_lib.metrics.ranking import Judged, measure, random_floor, score_run
from crs_lib.metrics.rewriting import SENTENCE, bleu, chrf, rouge_l, rouge_n
from crs_lib.retrieval.runs import Hit, ranked, without_ties
from tests.helpers import refused, table


@pytest.mark.parametrize(("parts", "weights", "value"), table(__file__, "tas"))
def test_tas_written_out(parts, weights, value):
    assert tas(*parts, TasWeights(*weights)) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("parts", "weights", "value"), table(__file__, "clipped_tas"))
def test_the_older_tas_is_clipped(parts, weights, value):
    assert tas(*parts, TasWeights(*weights), clip=True) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("parts", "value"), table(__file__, "item_tas"))
def test_item_tas_written_out(parts, value):
    assert item_tas(*parts, ItemWeights()) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("parts", "value"), table(__file__, "cas"))
def test_cas_written_out(parts, value):
    assert cas(*parts, CasWeights()) == pytest.approx(value, nan_ok=True)


def test_the_weights_of_cas_add_up_to_one():
    assert sum(CasWeights()) == pytest.approx(1)


@pytest.mark.parametrize(("observed", "chance", "value"), table(__file__, "beyond_chance"))
def test_beyond_chance_is_zero_at_chance(observed, chance, value):
    assert beyond_chance(observed, chance) == pytest.approx(value, nan_ok=True)


# turn:   1      2     3      4      5     6      7      8
MET = [True, False, False, True, False, False, False, True]


def test_a_mean_delay_leaves_censored_shifts_out():
    recoveries = after_shifts([2, 5, 6], MET)
    assert rate(recoveries) == 2 / 3
    assert mean_delay(recoveries) == (2 + 2) / 2  # which is why the mean is biased
    censored = after_shifts([5], MET[:7])
    assert rate(censored) == 0
    assert math.isnan(mean_delay(censored))


def test_a_session_without_shifts_has_no_rate():
    assert math.isnan(rate([]))
    assert math.isnan(mean_delay([]))


@pytest.mark.parametrize(("shifts", "n_replies", "options", "expected"), table(__file__, "recoveries"))
def test_what_was_not_seen_is_not_counted_as_fast(shifts, n_replies, options, expected):
    recoveries = after_shifts(shifts, MET[:n_replies], **options)
    assert len(recoveries) == len(expected)
    for recovery, row in zip(recoveries, expected, strict=True):
        assert recovery == pytest.approx(row, nan_ok=True)


USER = {1, 2, 3}
SYSTEM = {2, 3, 4, 5}


@pytest.mark.parametrize(("rule", "of_jaccard"), [("zero", 0), ("one", 1)])
def test_two_empty_sets_follow_the_rule(rule, of_jaccard):
    assert jaccard(set(), set(), empty=rule) == of_jaccard
    assert idf_cosine(set(), set(), {}, empty=rule) == 0


def test_two_empty_sets_are_undefined_without_a_rule():
    assert math.isnan(jaccard(set(), set()))
    assert math.isnan(idf_cosine(set(), set(), {}))
    refused("maybe", jaccard, set(), set(), empty="maybe", error=KeyError)


def test_idf_cosine_weighs_rare_concepts():
    idf = {1: 2.0, 2: 1.0, 3: 3.0, 4: 1.0, 5: 2.0}
    # shared 2 and 3: 1·1 + 3·3 = 10; norms: 4 + 1 + 9 = 14 and 1 + 9 + 1 + 4 = 15
    assert idf_cosine(USER, SYSTEM, idf) == pytest.approx(10 / math.sqrt(14 * 15), abs=1e-15)
    assert idf_cosine(USER, {9}, idf) == 0
    assert idf_cosine(USER, set(), idf) == 0
    assert idf_cosine(USER, USER, idf) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("seed", range(50))
def test_scikit_learn_agrees_on_overlaps(seed):
    draw = np.random.default_rng(seed)
    idf = draw.uniform(1, 8, 12)
    has_user, has_system = draw.random((2, 12)) < 0.4
    has_user[0] = True
    has_system[1] = True  # neither is empty
    user = set(np.flatnonzero(has_user).tolist())
    system = set(np.flatnonzero(has_system).tolist())
    assert jaccard(user, system) == pytest.approx(jaccard_score(has_user, has_system), abs=1e-15)
    cosine = cosine_similarity([has_user * idf], [has_system * idf])[0, 0]
    assert idf_cosine(user, system, idf.tolist()) == pytest.approx(cosine, abs=1e-12)
    ours = agreement(user, system)
    assert ours.precision == pytest.approx(precision_score(has_user, has_system), abs=1e-15)
    assert ours.recall == pytest.approx(recall_score(has_user, has_system), abs=1e-15)
    assert ours.f1 == pytest.approx(f1_score(has_user, has_system), abs=1e-15)


@pytest.mark.parametrize(("gold", "predicted", "expected"), table(__file__, "agreement"))
def test_agreement_of_two_states(gold, predicted, expected):
    assert agreement(set(gold), set(predicted)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("reply", "utterance", "orders", "share"), table(__file__, "copied"))
def test_copying_is_the_larger_share_of_shared_ngrams(reply, utterance, orders, share):
    assert copied_share(words(reply), words(utterance), orders) == share


CAT = "the cat sat on the mat"
TEXT = st.lists(st.sampled_from(["red", "blue", "tent", "for", "two", "light"]), max_size=8).map(" ".join)


def test_rouge_worked_by_hand():
    # Lin (2004): 3 of 4 words, longest common subsequence 3, bigrams (the gunman) 1 of 3
    candidate = "police kill the gunman"
    references = ["police killed the gunman"]
    assert rouge_n(candidate, references) == pytest.approx(3 / 4)
    assert rouge_n(candidate, references, 2) == pytest.approx(1 / 3)
    assert rouge_l(candidate, references) == pytest.approx(3 / 4)
    assert rouge_l("the gunman kill police", references) == pytest.approx(2 / 4)
    assert rouge_n("Tent, red!", ["nothing", "red tent"]) == 1.0


def test_bleu_clips_words_as_papineni_et_al_do():
    # "the" occurs at most twice in a reference: 2 of 7; no bigram matches: 2/7, 1/(2*6), 1/(4*5), 1/(8*4)
    score = bleu(["the the the the the the the"], [[CAT, "there is a cat on the mat"]])
    assert score == pytest.approx((2 / 7 / 12 / 20 / 32) ** 0.25)


@pytest.mark.parametrize(
    ("candidate", "score"), [("the cat sat on", math.exp(1 - 6 / 4)), (CAT, 1), ("cat", 0)]
)
def test_bleu_punishes_brevity(candidate, score):
    assert bleu([candidate], [[CAT]]) == pytest.approx(score, abs=0)


def test_sacrebleu_gave_the_same():
    # sacrebleu 2.6.0: sentence_chrf(...).score / 100 and corpus_bleu(..., tokenize="none").score / 100
    first = "light tent for two people"
    second = "red camping stove with gas"
    references = [["a light tent for two people"], ["red gas stove for camping", "a red camping stove"]]
    assert chrf(first, ["a light tent for 2 people"]) == pytest.approx(0.7224911196939356, abs=1e-9)
    assert bleu([first, second], references) == pytest.approx(0.6231838376616488, abs=1e-9)


@pytest.mark.parametrize("name", SENTENCE)
@given(candidate=TEXT, references=st.lists(TEXT, min_size=1, max_size=3))
@pytest.mark.slow
def test_every_measure(name, candidate, references):
    score = SENTENCE[name](candidate, references)
    refused("at least one", SENTENCE[name], candidate, [])
    assert 0 <= score <= 1 + 1e-12
    assert score >= SENTENCE[name](candidate, references[:1])  # more references never hurt
    if len(candidate.split()) > 1:
        assert SENTENCE[name](candidate, [*references, candidate]) == pytest.approx(1.0)


# ranking: grade 1, not judged, grade 2, grade 0; the pool has another document of grade 2
CASE = Judged([1, None, 2, 0], [1, 2, 0, 2])


@pytest.mark.parametrize(("spec", "expected"), table(__file__, "ranking"))
def test_worked_examples(spec, expected):
    assert measure(spec)(CASE) == pytest.approx(expected, abs=1e-12)


SPECS = ["nDCG@10", "nDCG", "AP", "AP@10", "P@5", "R@10", "RR", "P(rel=2)@5", "AP(rel=2)"]


def judged_runs(rng):
    """Judgments and a run of many ties; topics are missing on either side, one has nothing relevant."""
    documents = [f"d{number}" for number in range(60)]
    qrels = {}
    run = {}
    for number in range(12):
        topic = f"q{number}"
        judged = rng.permutation(documents)[:30]
        listed = rng.permutation(documents)[:40]
        grades = rng.integers(0, 3, 30).tolist()
        scores = rng.integers(-3, 4, 40).astype(float).tolist()
        qrels[topic] = dict(zip(judged, grades, strict=True))
        run[topic] = dict(zip(listed, scores, strict=True))
    qrels["nothing relevant"] = {"d1": 0}
    qrels["not in the run"] = {"d1": 1}
    run["nothing relevant"] = {"d1": 1.0}
    run["not judged"] = {"d1": 1.0}
    return qrels, run


def rankings(run):
    return {topic: ranked(scores) for topic, scores in run.items()}


def assert_equal_to_ir_measures(qrels, run, specs):
    ir_measures = pytest.importorskip("ir_measures")
    ours = score_run(rankings(run), qrels, specs).topics
    measures = map(ir_measures.parse_measure, specs)
    theirs = list(ir_measures.iter_calc(measures, qrels, run))
    assert {score.query_id for score in theirs} >= set(qrels)
    for score in theirs:
        assert ours.loc[score.query_id, str(score.measure)] == pytest.approx(score.value, abs=1e-9)


def test_ir_measures_agrees_with_many_ties_and_topics_missing_on_either_side():
    qrels, run = judged_runs(np.random.default_rng(5))
    assert_equal_to_ir_measures(qrels, run, SPECS)


@pytest.mark.parametrize("scores", table(__file__, "hard_scores"))
def test_ir_measures_agrees_on_hard_scores(scores):
    run = {"q": dict(zip("badc", *scores, strict=True))}
    for relevant in "abcd":
        grades = dict.fromkeys("abcd", 0)
        grades[relevant] = 1
        assert_equal_to_ir_measures({"q": grades}, run, SPECS)


def test_programs_that_break_ties_otherwise_agree_on_what_is_written():
    """ir_measures scores RR@10 and Judged@10 by programs that take the lower id of equal scores."""
    qrels, run = judged_runs(np.random.default_rng(6))
    written = {topic: dict(without_ties(ranked(scores))) for topic, scores in run.items()}
    assert_equal_to_ir_measures(qrels, written, [*SPECS, "RR@10", "Judged@10"])


def test_pytrec_eval_agrees_on_the_rank_of_the_first():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels, run = judged_runs(np.random.default_rng(7))
    names = {"recip_rank": "RR", "map": "AP", "ndcg_cut_10": "nDCG@10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    ours = score_run(rankings(run), qrels, list(names.values())).topics
    assert len(theirs) == 13
    for topic, scores in theirs.items():
        for name, spec in names.items():
            assert ours.loc[topic, spec] == pytest.approx(scores[name], abs=1e-9)


def test_missing_topics_count_as_zero_and_unknown_ones_are_named():
    run = {"a": [Hit("d", 1.0)], "x": [Hit("d", 1.0)]}
    scores = score_run(run, {"a": {"d": 1}, "b": {"d": 2}}, ["P@1"])
    assert scores.topics["P@1"].tolist() == [1.0, 0.0]
    assert scores.missing == ["b"]
    assert scores.unknown == ["x"]


@pytest.mark.parametrize("spec", ["NDCG@10", "nDCG@0", "P(rel=0)", "nDCG@ten", ""])
def test_an_unknown_measure_is_refused(spec):
    refused("unknown measure", measure, spec)


POOLS = {"a": {"w": 1, "x": 0, "y": 0, "z": 0}, "b": {"w": 1}}


def test_the_random_floor_of_a_pool_is_the_expectation():
    # P@1 of a pool with 1 relevant of 4 is 1/4; RR is (1 + 1/2 + 1/3 + 1/4) / 4
    floor = random_floor(POOLS, ["P@1", "RR", "Judged@4"], draws=4000).loc["a"]
    assert floor.tolist() == pytest.approx([1 / 4, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, 1], abs=0.03)


def test_the_random_floor_of_a_collection_is_the_expectation():
    # 1 relevant among 10: P@1 1/10, R@5 5/10, 4 of 10 judged; a topic without size is left out
    floor = random_floor(POOLS, ["P@1", "R@5", "Judged@5"], draws=4000, sizes={"a": 10}, depth=5)
    assert floor.index.tolist() == ["a"]
    assert floor.loc["a"].tolist() == pytest.approx([1 / 10, 5 / 10, 4 / 10], abs=0.03)
    assert random_floor(POOLS, ["P@1"], sizes={}).empty


def test_metrics_are_described():
    rows = base.describe()
    assert sorted(rows["metric"]) == sorted(base.METRICS.names())
    row = rows.set_index("metric").loc["topic_adaptation_score"]
    assert row["range"] == "[-1, 2]"
    assert row["short"] == "TAS"
    assert row["direction"] == base.HIGHER
    assert row["mark"] == base.NOT_VALID


@pytest.mark.parametrize(("name", "mark", "label"), table(__file__, "marks"))
def test_metrics_are_marked_by_the_gate(name, mark, label):
    metric = base.get(name)
    assert metric.mark == mark
    assert metric.label == label
