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
    assert made(name, {}).search("camping", 3) == []


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
