"""Concept overlap and copied words, worked by hand, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score
from sklearn.metrics.pairwise import cosine_similarity

from crs_lib.core.text import words
from crs_lib.metrics.overlap import agreement, copied_share, idf_cosine, jaccard

USER, SYSTEM = {1, 2, 3}, {2, 3, 4, 5}


def test_idf_cosine_weighs_rare_concepts_and_empty_sets_follow_the_rule():
    for rule, cc, cr in (("zero", 0, 0), ("one", 1, 0)):
        assert (jaccard(set(), set(), empty=rule), idf_cosine(set(), set(), {}, empty=rule)) == (cc, cr)
    assert math.isnan(jaccard(set(), set())) and math.isnan(idf_cosine(set(), set(), {}))
    with pytest.raises(KeyError):
        jaccard(set(), set(), empty="maybe")
    idf = {1: 2.0, 2: 1.0, 3: 3.0, 4: 1.0, 5: 2.0}
    # shared 2 and 3: 1·1 + 3·3 = 10; norms: 4 + 1 + 9 = 14 and 1 + 9 + 1 + 4 = 15
    assert idf_cosine(USER, SYSTEM, idf) == pytest.approx(10 / math.sqrt(14 * 15), abs=1e-15)
    assert idf_cosine(USER, {9}, idf) == idf_cosine(USER, set(), idf) == 0
    assert idf_cosine(USER, USER, idf) == pytest.approx(1, abs=1e-15)


def test_scikit_learn_agrees_on_random_sets():
    draw = np.random.default_rng(5)
    idf = draw.uniform(1, 8, 12)
    for _ in range(50):
        a, b = draw.random((2, 12)) < 0.4
        if not (a.any() and b.any()):
            continue
        user, system = set(np.flatnonzero(a).tolist()), set(np.flatnonzero(b).tolist())
        assert jaccard(user, system) == pytest.approx(jaccard_score(a, b), abs=1e-15)
        cosine = cosine_similarity([a * idf], [b * idf])[0, 0]
        assert idf_cosine(user, system, idf.tolist()) == pytest.approx(cosine, abs=1e-12)
        theirs = [score(a, b) for score in (precision_score, recall_score, f1_score)]
        assert agreement(user, system)[:3] == pytest.approx(theirs, abs=1e-15)


@pytest.mark.parametrize(("gold", "predicted", "expected"), [
    ({1, 2, 3}, {2, 3, 4, 5}, (2 / 4, 2 / 3, 4 / 7, 0)),  # 2·(1/2)(2/3) / (7/6) = 4/7
    ({1}, {1}, (1, 1, 1, 1)),
    ({1}, set(), (0, 0, 0, 0)),
    (set(), {1}, (0, 1, 0, 0)),
    (set(), set(), (1, 1, 1, 1)),
])  # fmt: skip
def test_agreement_of_two_states(gold, predicted, expected):
    assert agreement(gold, predicted) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("reply", "request_", "orders", "share"), [
    ("Show me quiet films, please", "show me QUIET films please!", (3, 4), 1),  # an echo
    ("", "show me quiet films", (3, 4), 0),
    ("show me quiet films", "", (3, 4), 0),
        # order 3: abc bcd cdy dyz -> 2 of 4; order 4: abcd bcdy cdyz -> 1 of 3
    ("a b c d y z", "a b c d x", (3, 4), 1 / 2),
    ("a b c d y z", "a b c d x", (4,), 1 / 3),
    ("a b c d y z", "a b c d x", (3,), 1 / 2),
    ("a b c", "a b c d", (3, 4), 1),  # one 3-gram, no 4-gram
    ("a b", "a b", (3, 4), 0),  # neither
    ("a b", "a b", (1,), 1),
    ("a b", "a b", (1, 5), 1),
    ("a a a a a b", "a a a", (3,), 1 / 2),  # aaa (three times) and aab: one of two is shared
    ("J'aime Amélie, beaucoup", "j aime amelie beaucoup", (3, 4), 1),
])  # fmt: skip
def test_copying_is_the_larger_share_of_shared_ngrams(reply, request_, orders, share):
    assert copied_share(words(reply), words(request_), orders) == share


def test_words_of_values_are_no_copying():
    request, reply = "films by jane campion".split(), "great films by jane campion".split()
    # all words: 3-grams 2 of 3, 4-grams 1 of 2 -> 2/3; without the name: "great films by" is not in "films by"
    assert copied_share(reply, request) == 2 / 3
    assert copied_share(reply, request, ignore=frozenset({"jane", "campion"})) == 0
    assert (
        copied_share("films by jane".split(), request, ignore=frozenset({"jane"})) == 0
    )  # two words are left
