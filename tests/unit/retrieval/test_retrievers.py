"""One contract for every retriever, and the re-rankers."""

import sys
from pathlib import Path

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.base import RETRIEVERS, Fused
from crs_lib.retrieval.build import build
from crs_lib.retrieval.hits import Hit
from crs_lib.retrieval.lexical import Lexical
from crs_lib.retrieval.rerank import RERANKERS, Coverage, rerank
from crs_lib.retrieval.vectors import Dense

TEXTS = {
    "tent": "A light tent for two in the mountains",
    "stove": "Gas stove for camping, small and light",
    "lamp": "Reading lamp with a warm light",
    "kettle": "Steel kettle for the camping stove",
}
build("bm25", {})  # registers all members
PACKAGES = {"tantivy": "tantivy", "faiss": "faiss"}


def made(name: str, texts: dict[str, str]) -> object:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    spec = f"{name}:hashing" if RETRIEVERS.get(name).facts.get("argument") else name
    return build(spec, texts)


@pytest.mark.parametrize("name", RETRIEVERS.names())
def test_every_retriever(name: str, tmp_path: Path) -> None:
    index = made(name, TEXTS)
    hits = index.search("camping stove", 3)
    assert {hit.id for hit in hits[:2]} == {"stove", "kettle"}
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert index.search("camping stove", 1) == hits[:1]
    assert len(index.search("camping stove", 99)) <= 4
    index.save(tmp_path / "index")
    again = RETRIEVERS.get(name).make.load(tmp_path / "index")
    assert again.search("camping stove", 3) == hits
    with pytest.raises(RunError, match="no index"):
        RETRIEVERS.get(name).make.load(tmp_path / "none")


@pytest.mark.parametrize("name", RETRIEVERS.names())
def test_every_retriever_with_nothing_to_find(name: str) -> None:
    assert made(name, {}).search("camping", 3) == []


def test_lexical_equals_tantivy_where_lengths_are_exact() -> None:
    pytest.importorskip("tantivy")
    ours, theirs = (
        build("bm25", TEXTS).search("light camping", 4),
        build("tantivy", TEXTS).search("light camping", 4),
    )
    assert [h.id for h in ours] == [h.id for h in theirs]
    # tantivy multiplies by k1 + 1 = 2.2; lengths up to 40 words fit its byte exactly
    assert [2.2 * h.score for h in ours] == pytest.approx([h.score for h in theirs], rel=1e-5)


def test_long_queries_keep_their_rarest_words() -> None:
    index = Lexical(TEXTS, max_words=1)
    # "light" is in three documents, "kettle" in one
    assert [hit.id for hit in index.search("light kettle", 4)] == ["kettle"]


def test_ids_must_fit_a_run_file() -> None:
    with pytest.raises(InputError, match="holds blanks"):
        build("bm25", {"two words": "x"})


def test_dense_ties_keep_the_order_of_the_documents() -> None:
    index = Dense("hashing", {"b": "same text", "a": "same text", "c": "same text"})
    assert [hit.id for hit in index.search("same", 3)] == ["b", "a", "c"]


def test_fused_retriever() -> None:
    both = Fused([build("bm25", TEXTS), build("dense:hashing", TEXTS)], "rrf")
    assert {hit.id for hit in both.search("camping stove", 2)} == {"stove", "kettle"}


@pytest.mark.parametrize("name", [e.name for e in RERANKERS if not e.facts.get("argument")])
def test_every_reranker_scores_each_text(name: str) -> None:
    scores = RERANKERS.create(name).score("camping stove", list(TEXTS.values()))
    assert len(scores) == 4
    assert max(range(4), key=lambda i: scores[i]) in (1, 3)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sentence_transformers", "tantivy", "faiss"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match="pip install sentence-transformers"):
        RERANKERS.create("cross-encoder:any")
    with pytest.raises(InputError, match=r"crs-lib\[retrieval\]"):
        build("tantivy", TEXTS)
    with pytest.raises(InputError, match=r"crs-lib\[faiss\]"):
        build("faiss:hashing", TEXTS)


def test_rerank_moves_only_the_head() -> None:
    hits = [Hit("lamp", 3), Hit("kettle", 2), Hit("stove", 1), Hit("tent", 0.5)]
    found = rerank("gas stove for camping", hits, TEXTS, Coverage(), depth=3)
    # coverage of the four words: lamp 0, kettle 3/4, stove 1; the tent stays where it was
    assert found == [Hit("stove", 1), Hit("kettle", 1 / 2), Hit("lamp", 1 / 3), Hit("tent", 1 / 4)]


def test_rerank_refuses_what_does_not_fit() -> None:
    class Short:
        def score(self, query: str, texts: object) -> list[float]:
            return []

    with pytest.raises(InputError, match="no text for 1 documents"):
        rerank("x", [Hit("unknown", 1)], TEXTS, Coverage())
    with pytest.raises(InputError, match="0 scores for 1 texts"):
        rerank("x", [Hit("lamp", 1)], TEXTS, Short())
    assert rerank("x", [], TEXTS, Short()) == []
