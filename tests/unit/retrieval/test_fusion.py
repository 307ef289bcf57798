"""Fusion: worked by hand, deterministic under any hash seed, one contract for every member."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.retrieval.fusion import FUSIONS, Fused, fuse
from crs_lib.retrieval.runs import Hit, ranked
from tests.helpers import hash_seeds

ONE = [Hit("a", 9.0), Hit("b", 5.0), Hit("c", 1.0)]
TWO = [Hit("b", 0.9), Hit("d", 0.5), Hit("a", 0.1)]
RANKINGS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-10, 10), max_size=8).map(ranked),
    min_size=1,
    max_size=4,
)


def test_each_fusion_by_hand() -> None:
    # ranks (missing = 4): a (1, 3), b (2, 1), c (3, 4), d (4, 2)
    # sorted strata: b (1, 2), a (1, 3), d (2, 4), c (3, 4)
    assert [hit.id for hit in fuse("stratum", [ONE, TWO])] == ["b", "a", "d", "c"]
    # a (1, 2) and b (2, 1) are one stratum: the first list's first wins
    crossed = [[Hit("b", 2), Hit("a", 1)], [Hit("a", 2), Hit("b", 1)]]
    assert [hit.id for hit in fuse("stratum", crossed)] == ["b", "a"]
    # reciprocal ranks: a 1/61 + 1/63, b 1/62 + 1/61
    rrf = dict(fuse("rrf", [ONE, TWO]))
    assert (rrf["a"], rrf["b"]) == (pytest.approx(1 / 61 + 1 / 63), pytest.approx(1 / 62 + 1 / 61))


@pytest.mark.parametrize("name", FUSIONS.names())
@given(rankings=RANKINGS, k=st.integers(1, 10))
@pytest.mark.slow
def test_every_fusion(name: str, rankings: list[list[Hit]], k: int) -> None:
    fused = fuse(name, rankings)
    assert {hit.id for hit in fused} == {hit.id for ranking in rankings for hit in ranking}
    assert [h.score for h in fused] == sorted((h.score for h in fused), reverse=True)
    assert fuse(name, rankings, k) == fused[:k]
    # a document that every list has first stays first
    top = [[Hit("z", 99.0), *ranking] for ranking in rankings]
    assert fuse(name, top)[0].id == "z"


@pytest.mark.parametrize("name", FUSIONS.names())
def test_every_fusion_refuses_what_it_cannot_rank(name: str) -> None:
    with pytest.raises(InputError, match="twice"):
        fuse(name, [[Hit("a", 1), Hit("a", 0)]])
    with pytest.raises(InputError, match="at least one"):
        fuse(name, [])
    with pytest.raises(InputError, match="did you mean 'stratum'"):
        Fused([], "strata")


@pytest.mark.subprocess
def test_hash_seed_changes_nothing() -> None:
    code = (
        "from crs_lib.retrieval.fusion import FUSIONS, fuse\n"
        "from crs_lib.retrieval.runs import Hit\n"
        "lists = [[Hit(f'd{(i * s) % 97}', 1.0 / (1 + i // 3)) for i in range(40)] for s in (5, 7, 11)]\n"
        "print([fuse(name, lists) for name in FUSIONS.names()])\n"
    )
    assert "d5" in hash_seeds.printed(code)
