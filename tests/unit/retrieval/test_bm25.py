"""BM25: worked by hand, against a ten-line loop, against bm25s, saved and mapped."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.bm25 import BM25

DOCUMENTS = [["red", "shoe"], ["blue", "shoe", "shoe", "lace"], ["red", "hat"], []]
TOKENS = st.lists(st.sampled_from("abcdefgh"), max_size=12)


def slow(documents: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    n, mean = len(documents), sum(map(len, documents)) / len(documents) or 1.0
    out = []
    for tokens in documents:
        score = 0.0
        for term in query:
            df, tf = sum(term in d for d in documents), tokens.count(term)
            if tf:
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                score += idf * tf / (tf + k1 * (1 - b + b * len(tokens) / mean))
        out.append(score)
    return out


def test_worked_example() -> None:
    # 4 documents, mean length 2; "shoe" is in 2 of them: idf = ln(1 + 2.5 / 2.5) = ln 2.
    # document 0: tf 1, length 2: 1 / (1 + 1.2 * 1)                  -> ln 2 / 2.2
    # document 1: tf 2, length 4: 2 / (2 + 1.2 * (0.25 + 0.75 * 2))  -> ln 2 * 2 / 4.1
    scores = BM25(k1=1.2, b=0.75).fit(DOCUMENTS).scores(["shoe"])
    np.testing.assert_allclose(scores, [math.log(2) / 2.2, math.log(2) * 2 / 4.1, 0, 0], rtol=1e-6)
    assert scores.dtype == np.float32
    many = [["all", f"w{i % 50}", f"v{i}"] for i in range(200)]  # rare and common words add up
    found = BM25().fit(many).scores(["all", "w3", "v53"])
    np.testing.assert_allclose(found, slow(many, ["all", "w3", "v53"], 1.2, 0.75), rtol=1e-5)


@given(st.lists(TOKENS, min_size=1, max_size=12), TOKENS, st.floats(0, 3), st.floats(0, 1))
def test_equals_the_formula_written_as_a_loop(
    documents: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    found = BM25(k1, b).fit(documents).scores(query)
    np.testing.assert_allclose(found, slow(documents, query, k1, b), rtol=2e-5, atol=1e-6)


@given(st.lists(TOKENS, min_size=1, max_size=12), TOKENS)
def test_order_of_query_tokens_changes_no_bit(documents: list[list[str]], query: list[str]) -> None:
    index = BM25().fit(documents)
    assert index.scores(query).tobytes() == index.scores(query[::-1]).tobytes()


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BM25().fit(iter(DOCUMENTS))
    monkeypatch.setattr("crs_lib.retrieval.bm25._CHUNK", 1)
    parts = BM25().fit(iter(DOCUMENTS))
    assert parts.vocabulary == whole.vocabulary
    assert parts.documents.tobytes() == whole.documents.tobytes()
    assert parts.weights.tobytes() == whole.weights.tobytes()


def test_room_for_columns_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    index = BM25().fit(DOCUMENTS)
    first = index.scores(["shoe", "red", "hat", "red"])
    assert index._columns  # all words of so small a collection are common
    again = index.scores(["shoe", "red", "hat", "red"])
    monkeypatch.setattr("crs_lib.retrieval.bm25._COLUMN_BYTES", 0)
    bare = BM25().fit(DOCUMENTS)
    assert bare.scores(["shoe", "red", "hat", "red"]).tobytes() == first.tobytes() == again.tobytes()
    assert not bare._columns


def test_search_leaves_out_what_does_not_match_and_breaks_ties_by_index() -> None:
    index = BM25().fit([["x"], ["a", "b"], ["a", "c"], ["a", "d"]])
    assert index.search(["a"], 2).indices.tolist() == [1, 2]
    assert index.search(["a"], 9).indices.tolist() == [1, 2, 3]
    assert index.search(["nothing"], 9).indices.tolist() == []
    assert index.search([], 9).indices.tolist() == []
    assert len(BM25().fit([]).scores(["a"])) == 0
    assert BM25().fit([[], []]).scores(["a"]).tolist() == [0.0, 0.0]
    for k1, b in ((-1, 0.5), (1, 1.5), (float("nan"), 0.5)):
        with pytest.raises(InputError, match="expected"):
            BM25(k1, b)


def test_bm25s_agrees() -> None:
    bm25s = pytest.importorskip("bm25s")
    rng = np.random.default_rng(3)
    documents = [[f"w{t}" for t in rng.zipf(1.4, rng.integers(3, 40)) if t < 500] for _ in range(300)]
    ours = BM25(1.5, 0.75).fit(documents)
    theirs = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    theirs.index(documents, show_progress=False)
    for query in (["w1", "w7", "w20"], ["w3", "w3", "w90"], ["w400", "w2"]):
        known = [t for t in query if t in ours.vocabulary]
        np.testing.assert_allclose(ours.scores(query), theirs.get_scores(known), rtol=1e-5, atol=1e-6)


def test_saved_and_loaded(tmp_path: Path) -> None:
    index = BM25(0.9, 0.4).fit(DOCUMENTS * 50)
    index.save(tmp_path / "index")
    index.save(tmp_path / "index")  # an index may be replaced
    again = BM25.load(tmp_path / "index")
    assert isinstance(again.weights, np.memmap)
    assert (again.k1, again.b, again.size) == (0.9, 0.4, 200)
    assert again.scores(["red", "lace"]).tobytes() == index.scores(["red", "lace"]).tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["index"]
    np.save(tmp_path / "index" / "weights.npy", np.zeros(1, dtype=np.float32))
    with pytest.raises(RunError, match="damaged"):
        BM25.load(tmp_path / "index")


def test_a_folder_that_is_no_index_is_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.tex").write_text("years of work")
    with pytest.raises(InputError, match="no index"):
        BM25().fit(DOCUMENTS).save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "text.tex").read_text() == "years of work"
    with pytest.raises(RunError, match="build and save"):
        BM25.load(tmp_path / "thesis")
