"""Ranking measures: worked by hand, against ir_measures, and properties that every one keeps."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.metrics.ranking import MEASURES, _Judged, measure, random_floor, score_run
from crs_lib.retrieval.runs import Hit, ranked

# ranking: grade 1, not judged, grade 2, grade 0; the pool has another document of grade 2
CASE = _Judged([1, None, 2, 0], [1, 2, 0, 2])
IDEAL = 2 + 2 / log2(3) + 1 / log2(4)


@pytest.mark.parametrize(("spec", "expected"), [
    ("nDCG@4", (1 + 2 / log2(4)) / IDEAL),
    ("nDCG@1", 1 / 2),
    ("nDCGexp@4", (1 + 3 / log2(4)) / (3 + 3 / log2(3) + 1 / log2(4))),
    ("AP", (1 / 1 + 2 / 3) / 3),
    ("AP(rel=2)", (1 / 3) / 2),
    ("P@2", 1 / 2),
    ("P@10", 2 / 10),
    ("R@3", 2 / 3),
    ("RR", 1.0),
    ("RR(rel=2)@10", 1 / 3),
    ("RR(rel=2)@2", 0.0),
    ("ERR", 1 / 4 + (3 / 4) * (3 / 4) / 3),  # grade 1 satisfies with 1/4, grade 2 with 3/4
    ("Judged@2", 1 / 2),
    ("Judged@10", 3 / 4),
])  # fmt: skip
def test_worked_examples(spec: str, expected: float) -> None:
    assert measure(spec)(CASE) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", MEASURES)
@given(
    grades=st.lists(st.sampled_from([None, 0, 1, 2]), max_size=12),
    rest=st.lists(st.sampled_from([0, 1, 2]), max_size=5),
)
@pytest.mark.slow
def test_every_measure_is_in_the_unit_interval_and_zero_without_hits(
    name: str, grades: list[int | None], rest: list[int]
) -> None:
    pool = [g for g in grades if g is not None] + rest
    for spec in (name, f"{name}@3"):
        assert 0 <= measure(spec)(_Judged(grades, pool)) <= 1 + 1e-12
        assert measure(spec)(_Judged([], pool)) == 0.0


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in ("Judged", "P", "R")])
@given(pool=st.lists(st.sampled_from([0, 1, 2]), min_size=2, max_size=10), seed=st.integers(0, 99))
@pytest.mark.slow
def test_the_ideal_order_is_best(name: str, pool: list[int], seed: int) -> None:
    other = np.random.default_rng(seed).permutation(pool).tolist()
    best = measure(name)(_Judged(sorted(pool, reverse=True), pool))
    assert measure(name)(_Judged(other, pool)) <= best + 1e-12


def test_ir_measures_agrees() -> None:
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(5)
    qrels = {f"q{i}": {f"d{j}": int(rng.integers(0, 3)) for j in rng.permutation(60)[:30]} for i in range(12)}
    qrels = {q: {**grades, "sure": 2} for q, grades in qrels.items()}
    run = {
        q: {f"d{j}": float(s) for j, s in zip(rng.permutation(60)[:40], rng.normal(size=40), strict=False)}
        for q in qrels
    }
    specs = ["nDCG@10", "nDCG", "AP", "AP@10", "P@5", "R@10", "RR@10", "Judged@10", "P(rel=2)@5", "AP(rel=2)"]
    ours = score_run({q: ranked(scores) for q, scores in run.items()}, qrels, specs).topics
    for found in ir_measures.iter_calc([ir_measures.parse_measure(spec) for spec in specs], qrels, run):
        assert ours.loc[found.query_id, str(found.measure)] == pytest.approx(found.value, abs=1e-9)


def test_missing_topics_count_as_zero_and_unknown_ones_are_named() -> None:
    scored = score_run({"a": [Hit("d", 1.0)], "x": [Hit("d", 1.0)]}, {"a": {"d": 1}, "b": {"d": 2}}, ["P@1"])
    assert scored.topics["P@1"].tolist() == [1.0, 0.0]
    assert (scored.missing, scored.unknown) == (["b"], ["x"])


def test_random_floor_is_the_expectation() -> None:
    # P@1 of a pool with 1 relevant of 4 is 1/4; RR is (1 + 1/2 + 1/3 + 1/4) / 4
    qrels = {"a": {"w": 1, "x": 0, "y": 0, "z": 0}, "b": {"w": 1}}
    floor = random_floor(qrels, ["P@1", "RR", "Judged@4"], draws=4000).loc["a"]
    assert floor.tolist() == pytest.approx([1 / 4, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, 1], abs=0.03)
    # 1 relevant among 10: P@1 1/10, R@5 5/10, 4 of 10 judged; a topic without size is left out
    floor = random_floor(qrels, ["P@1", "R@5", "Judged@5"], draws=4000, sizes={"a": 10}, depth=5)
    assert floor.index.tolist() == ["a"]
    assert floor.loc["a"].tolist() == pytest.approx([1 / 10, 5 / 10, 4 / 10], abs=0.03)
    assert random_floor(qrels, ["P@1"], sizes={}).empty


@pytest.mark.parametrize("spec", ["NDCG@10", "nDCG@0", "P(rel=0)", "nDCG@ten", ""])
def test_unknown_measures(spec: str) -> None:
    with pytest.raises(InputError, match="unknown measure"):
        measure(spec)
