"""Concept overlap, worked by hand, and against scikit-learn and a plain loop."""

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score
from sklearn.metrics.pairwise import cosine_similarity

from crs_lib.metrics.overlap import agreement, idf_cosine, jaccard

USER, SYSTEM = {1, 2, 3}, {2, 3, 4, 5}


def test_jaccard_is_shared_over_all():
    assert jaccard(USER, SYSTEM) == 2 / 5  # {2, 3} of {1, 2, 3, 4, 5}
    assert jaccard({1}, {1}) == 1
    assert jaccard({1}, {2}) == jaccard({1}, set()) == jaccard(set(), {1}) == 0


@pytest.mark.parametrize(("rule", "cc", "cr"), [("zero", 0, 0), ("one", 1, 0)])
def test_two_empty_sets_follow_the_declared_rule(rule, cc, cr):
    assert jaccard(set(), set(), empty=rule) == cc
    assert idf_cosine(set(), set(), {}, empty=rule) == cr


def test_two_empty_sets_are_undefined_by_default():
    assert math.isnan(jaccard(set(), set()))
    assert math.isnan(idf_cosine(set(), set(), {}))


def test_an_unknown_empty_rule_is_no_silent_default():
    with pytest.raises(KeyError):
        jaccard(set(), set(), empty="maybe")


def test_idf_cosine_weighs_rare_concepts_more():
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
        found = agreement(user, system)
        assert found.precision == pytest.approx(precision_score(a, b), abs=1e-15)
        assert found.recall == pytest.approx(recall_score(a, b), abs=1e-15)
        assert found.f1 == pytest.approx(f1_score(a, b), abs=1e-15)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ({1, 2, 3}, {2, 3, 4, 5}, (2 / 4, 2 / 3, 4 / 7, 0)),  # 2·(1/2)(2/3) / (7/6) = 4/7
        ({1}, {1}, (1, 1, 1, 1)),
        ({1}, set(), (0, 0, 0, 0)),
        (set(), {1}, (0, 1, 0, 0)),
        (set(), set(), (1, 1, 1, 1)),
    ],
)
def test_agreement_of_two_states(gold, predicted, expected):
    assert agreement(gold, predicted) == pytest.approx(expected, abs=1e-15)
