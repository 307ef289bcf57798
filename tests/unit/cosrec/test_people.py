"""F1, agreement, rewriting, quality: worked examples and second opinions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crs_lib.cosrec import audit, labels, rewriting
from crs_lib.cosrec.records import Conversation, Partition, Rating
from tests.helpers.cosrec_data import CROWD, CURATED, talk
from tests.helpers.stats_examples import SHROUT_FLEISS

pytestmark = pytest.mark.slow


def intent_rows(text):
    """A row of 0 and 1 for each turn: search, recommendation, product details."""
    return np.array([list(map(int, turn)) for turn in text.split()])


def test_f1_by_hand_and_by_sklearn():
    from sklearn.metrics import f1_score

    truth = intent_rows("100 101 001 010")
    guess = intent_rows("100 011 100 010")
    talks = pd.Series(list("aabb"))
    table = labels.f1_table(talks, truth, guess).set_index("intent")["f1"]
    # search 1 hit, 1 wrong, 1 missed; recommendation 1, 1, 0; details 1, 0, 1
    assert table["search"] == pytest.approx(1 / 2)
    assert table["recommendation"] == pytest.approx(2 / 3)
    assert table["product_details"] == pytest.approx(2 / 3)
    assert table["micro"] == pytest.approx(f1_score(truth, guess, average="micro"))
    assert table["macro"] == pytest.approx(f1_score(truth, guess, average="macro"))


def test_human_ceiling_by_hand():
    ceiling = labels.human_ceiling(CROWD).set_index("intent")["f1"]
    # recommendation: every annotator gives it in turn 0, as the others do
    assert ceiling["recommendation"] == 1.0
    # search, against both others: turn 0 has one wrong guess (the splitter); in turn 1 the two S have a rest
    # of one S and one D (no majority): two wrong; the D has a rest of two S: one missed. No hit.
    assert ceiling["search"] == 0.0


def test_one_way_icc_by_hand():
    # items (9, 7) and (1, 3): means 8 and 2, between = 2 * (3^2 + 3^2) = 36 over 1; within = 2 + 2 over 2
    sums = np.array([16.0, 4])
    squares = np.array([130.0, 10])
    single, mean = labels.one_way_icc(np.full(2, 2.0), sums, squares)[0]
    assert single == pytest.approx((36 - 2) / (36 + 2))
    assert mean == pytest.approx((36 - 2) / 36)


def test_one_way_icc_of_shrout_and_fleiss():
    ratings = SHROUT_FLEISS  # Shrout and Fleiss (1979), table 4: ICC(1,1) .17, ICC(1,4) .44
    squares = (ratings**2).sum(axis=1)
    icc = labels.one_way_icc(np.full(6, 4.0), ratings.sum(axis=1), squares)
    assert icc[0].tolist() == pytest.approx([0.17, 0.44], abs=5e-3)


def test_quality_agreement_and_its_ceiling():
    table = labels.quality_agreement({"crowd": CROWD}, resamples=50)
    assert len(table) == 5 * 4
    assert (table["value"] > 0.6).all()  # the made-up raters agree closely
    average = table[table["what"] == "average"].set_index("measure")["value"]
    ceiling = audit.noise_ceiling({"crowd": CROWD}, resamples=50).set_index("ceiling")["correlation"]
    assert ceiling["a perfect predictor"] == pytest.approx(average["ICC(1,k)"] ** 0.5)


def test_of_several_partitions_the_ceiling_of_both_is_first():
    poor = Rating(1, 1, 1, 1)
    ratings = {"K_9": CROWD.ratings["K_1"], "K_10": (poor, poor, poor)}
    other = Partition("again", {}, ratings=ratings)
    table = audit.noise_ceiling({"crowd": CROWD, "again": other}, resamples=50)
    assert list(dict.fromkeys(table["partition"])) == ["both", "crowd", "again"]


def test_signals_by_hand():
    request, reply = talk("C_1", "a b?", "a b").utterances
    lines = (request, reply, reply, *talk("C_1", "c").utterances)
    conversations = {"C_1": Conversation("C_1", lines)}
    rated = replace(CROWD, conversations=conversations, ratings={"C_1": CROWD.ratings["K_1"]})
    signals = audit.signal_table({"crowd": rated}).iloc[0]
    assert signals["lines"] == 4
    assert signals["words per line"] == 7 / 4
    assert signals["questions by the user"] == 1 / 2
    assert signals["distinct words"] == 3 / 7
    assert signals["repeated lines"] == 1 / 4
    assert signals["ends with the user"] == 1
    assert signals["same speaker twice"] == 1


def test_heuristic_rewrites_by_hand():
    turns = ["I need a light tent for two", "What does waterproof mean?"]
    assert rewriting.stand_alone("last turn", turns, None) == ["What does waterproof mean?"]
    assert rewriting.stand_alone("content words", turns, None) == ["waterproof mean"]
    assert rewriting.stand_alone("first and last", turns, None) == ["light tent two waterproof mean"]


@pytest.mark.parametrize("name", rewriting.HEURISTICS)
def test_no_query_is_empty(name):
    assert rewriting.stand_alone(name, ["Thanks!"], None) == ["Thanks!"]


def test_rewrites_are_scored_against_the_canonical_and_the_closest():
    answers = {"C_1_0_0": "light tent", "C_1_1_0": "waterproof", "C_2_0_0": "camping stove"}
    scores = rewriting.score_rewrites(CURATED, {"ours": answers})
    table = scores[scores["system"] == "ours"].set_index("reference")
    # ROUGE-1: "light tent" against "a light tent for two" 4/7, "waterproof" against "meaning of waterproof"
    # 2/4, equal 1, and a missing rewrite 0
    canonical = (4 / 7 + 2 / 4 + 1 + 0) / 4
    assert table.loc["canonical", "rouge1"] == pytest.approx(canonical)
    assert table.loc["any variant", "rouge1"] == pytest.approx(3 / 4)


def test_people_reach_each_other_so_far():
    table = rewriting.score_rewrites(CURATED, {}).set_index("reference")
    assert table["n"].tolist() == [2, 2]
    assert table.loc["canonical", "rouge1"] == pytest.approx((4 / 7 + 2 / 4) / 2)
