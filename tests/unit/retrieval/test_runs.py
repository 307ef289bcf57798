"""Rankings: the k best scores, and TREC files written and read back, with errors that name the line."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.runs import Hit, ranked, read_qrels, read_run, top_k, write_run

IDS = st.text("ab#_1", min_size=1, max_size=4)
SCORES = st.lists(
    st.one_of(st.integers(-2, 4).map(float), st.floats(-5, 5, width=32), st.just(float("nan"))), max_size=700
)


@given(SCORES, st.integers(1, 40))
@pytest.mark.slow
def test_the_best_equal_a_full_sort(values, k):
    scores = np.array(values, dtype=np.float32)
    expected = sorted((-s, i) for i, s in enumerate(scores.tolist()) if s > 0)[:k]
    top = top_k(scores, k)
    assert top.indices.tolist() == [i for _, i in expected]
    assert top.scores.tolist() == [-s for s, _ in expected]


def test_ties_go_to_the_lower_index_and_the_floor_can_be_moved():
    scores = np.zeros(10_000, dtype=np.float32)
    scores[[9_999, 5, 7_000, 128, 64]] = 1.0
    scores[3_333] = 2.0
    assert top_k(scores, 3).indices.tolist() == [3_333, 5, 64]
    assert top_k(np.ones(5_000, dtype=np.float32), 4).indices.tolist() == [0, 1, 2, 3]
    scores = np.array([-1.0, -3.0, 0.0], dtype=np.float32)
    assert top_k(scores, 3, above=-np.inf).indices.tolist() == [2, 0, 1]
    assert top_k(scores, 3).indices.tolist() == []
    assert len(top_k(np.zeros(0, dtype=np.float32), 3).indices) == 0
    with pytest.raises(InputError, match="at least one"):
        top_k(np.ones(3, dtype=np.float32), 0)


@given(
    st.dictionaries(IDS, st.dictionaries(IDS, st.floats(allow_nan=False, allow_infinity=False), min_size=1))
)
@pytest.mark.slow
def test_runs_come_back(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("run") / "a.run"
    rankings = {topic: ranked(scores) for topic, scores in run.items()}
    assert write_run(path, rankings, "tag") == sum(map(len, run.values()))
    assert read_run(path) == rankings


def test_order_of_lines_does_not_matter(tmp_path):
    lines = [f"t#0 Q0 d{i} {i} {i % 3} x" for i in range(20)]
    orders = []
    for seed in range(4):
        random.Random(seed).shuffle(lines)
        (tmp_path / "a.run").write_text("\n".join(lines) + "\n")
        orders.append(read_run(tmp_path / "a.run"))
    assert all(order == orders[0] for order in orders)
    assert orders[0]["t#0"][:3] == [Hit("d11", 2.0), Hit("d14", 2.0), Hit("d17", 2.0)]


@pytest.mark.parametrize(("read", "text", "message"), [
    (read_run, "t Q0 d 1 0.5", "line 1: 5 columns"), (read_run, "t Q0 d 1 nan x", "line 1: score 'nan'"),
    (read_run, "t Q0 d 1 high x", "line 1: score 'high'"),
    (read_run, "t Q0 d 1 2 x\n\nt Q0 d 2 1 x", "line 3: 'd' stands twice"),
    (read_qrels, "t 0 d 1\nt 0 d 2\n", "line 2: 'd' stands twice"),
    (read_qrels, "t 0 d high\n", "line 1: grade 'high'"),
])  # fmt: skip
def test_bad_lines_are_named(tmp_path, read, text, message):
    (tmp_path / "a").write_text(text)
    with pytest.raises(InputError, match=f"a, {message}"):
        read(tmp_path / "a")
    with pytest.raises(RunError, match="no file"):
        read(tmp_path / "absent")


def test_ids_with_blanks_are_not_written(tmp_path):
    with pytest.raises(InputError, match="blanks"):
        write_run(tmp_path / "a.run", {"t": [Hit("a b", 1.0)]}, "tag")
    assert list(tmp_path.iterdir()) == []


def test_judgments_are_read_by_topic(tmp_path):
    (tmp_path / "q").write_text("\ufeff1_0_0\t0\tm#1_2\t2\n1_0_0 0 m#0_1 0\n\n1_0_0#0\t0\tB0\t1\n")
    assert read_qrels(tmp_path / "q") == {"1_0_0": {"m#1_2": 2, "m#0_1": 0}, "1_0_0#0": {"B0": 1}}
