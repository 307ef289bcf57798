"""One contract for every retriever."""

from pathlib import Path

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval.bm25 import Lexical
from crs_lib.retrieval.encoders import Dense
from crs_lib.retrieval.fusion import RETRIEVERS, Fused, build

TEXTS = {
    "tent": "A light tent for two in the mountains", "stove": "Gas stove for camping, small and light",
    "lamp": "Reading lamp with a warm light", "kettle": "Steel kettle for the camping stove",
}  # fmt: skip


def made(name: str, texts: dict[str, str]) -> object:
    spec = f"{name}:hashing" if RETRIEVERS.get(name).facts.get("argument") else name
    return build(spec, texts)


@pytest.mark.parametrize("name", [one.name for one in RETRIEVERS if not one.facts.get("made")])
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
    assert made(name, {}).search("camping", 3) == []


def test_runs_of_pyserini_are_a_retriever(tmp_path: Path) -> None:
    """A run file for products and one for passages: of both what the collection holds; two for one are fused."""
    (tmp_path / "topics.tsv").write_text("1\tcamping  stove\n2\tnothing\n")
    (tmp_path / "run.products.txt").write_text("1 Q0 stove 1 9.5 Anserini\n1 Q0 kettle 2 7 Anserini\n")
    (tmp_path / "passages.run").write_text("1 Q0 msmarco#7 1 3.5 Anserini\n")
    found = build(f"pyserini:{tmp_path}", TEXTS)
    assert [tuple(hit) for hit in found.search("camping stove")] == [("stove", 9.5), ("kettle", 7.0)]
    assert found.search("camping stove", 1) == found.search("camping stove")[:1]
    assert found.search("nothing") == []
    with pytest.raises(InputError, match="lacks the query 'tent'"):
        found.search("tent")
    (tmp_path / "other.trec").write_text("1 Q0 lamp 1 2 x\n1 Q0 stove 2 1 x\n")
    fused = build(f"pyserini:{tmp_path}", TEXTS).search("camping stove")
    assert [hit.id for hit in fused] == ["stove", "lamp", "kettle"]
    (tmp_path / "index").mkdir()
    with pytest.raises(InputError, match=r"no topics\.tsv"):
        build(f"pyserini:{tmp_path / 'index'}", TEXTS)
    (tmp_path / "index" / "segments_1").touch()
    with pytest.raises(InputError, match="pip install pyserini"):
        build(f"pyserini:{tmp_path / 'index'}", TEXTS)


def test_long_queries_keep_their_rarest_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crs_lib.retrieval.bm25._MOST_WORDS", 1)
    index = Lexical(TEXTS)
    # "light" is in three documents, "kettle" in one
    assert [hit.id for hit in index.search("light kettle", 4)] == ["kettle"]


def test_dense_ties_keep_the_order_of_the_documents() -> None:
    index = Dense("hashing", {"b": "same text", "a": "same text", "c": "same text"})
    assert [hit.id for hit in index.search("same", 3)] == ["b", "a", "c"]


def test_fused_retriever() -> None:
    both = Fused([build("bm25", TEXTS), build("dense:hashing", TEXTS)], "rrf")
    assert {hit.id for hit in both.search("camping stove", 2)} == {"stove", "kettle"}
    with pytest.raises(InputError, match="holds blanks"):  # ids must fit a run file
        build("bm25", {"two words": "x"})
