"""The k best scores: against a full sort, with ties, NaN and short inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.retrieval.hits import top_k

SCORES = st.lists(
    st.one_of(st.integers(-2, 4).map(float), st.floats(-5, 5, width=32), st.just(float("nan"))), max_size=700
)


@given(SCORES, st.integers(1, 40))
@pytest.mark.slow
def test_equals_a_full_sort(values: list[float], k: int) -> None:
    scores = np.array(values, dtype=np.float32)
    expected = sorted((-s, i) for i, s in enumerate(scores.tolist()) if s > 0)[:k]
    top = top_k(scores, k)
    assert top.indices.tolist() == [i for _, i in expected]
    assert top.scores.tolist() == [-s for s, _ in expected]


def test_ties_go_to_the_lower_index_also_across_blocks() -> None:
    scores = np.zeros(10_000, dtype=np.float32)
    scores[[9_999, 5, 7_000, 128, 64]] = 1.0
    scores[3_333] = 2.0
    assert top_k(scores, 3).indices.tolist() == [3_333, 5, 64]


def test_many_equal_scores_are_cut_by_index() -> None:
    assert top_k(np.ones(5_000, dtype=np.float32), 4).indices.tolist() == [0, 1, 2, 3]


def test_floor_can_be_moved() -> None:
    scores = np.array([-1.0, -3.0, 0.0], dtype=np.float32)
    assert top_k(scores, 3, above=-np.inf).indices.tolist() == [2, 0, 1]
    assert top_k(scores, 3).indices.tolist() == []


def test_empty_and_bad_k() -> None:
    assert len(top_k(np.zeros(0, dtype=np.float32), 3).indices) == 0
    with pytest.raises(InputError, match="at least one"):
        top_k(np.ones(3, dtype=np.float32), 0)
