"""One contract for every retriever."""

import json
import math
import random
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import low_rank
from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval import lowrank, store
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.encoders import Dense
from crs_lib.retrieval.fusion import FUSIONS, RETRIEVERS, Fused, build, fuse
from crs_lib.retrieval.runs import Hit, ranked, read_qrels, read_run, top_k, without_ties, write_run
from crs_lib.retrieval.store import StoredIds
from tests.helpers import refused

TEXTS = {
    "tent": "A light tent for two in the mountains", "stove": "Gas stove for camping, small and light",
    "lamp": "Reading lamp with a warm light", "kettle": "Steel kettle for the camping stove",
}  # fmt: skip
DOCUMENTS = [["red", "shoe"], ["blue", "shoe", "shoe", "lace"], ["red", "hat"], []]
TOKENS = st.lists(st.sampled_from("abcdefgh"), max_size=12)
ONE = [Hit("a", 9.0), Hit("b", 5.0), Hit("c", 1.0)]
TWO = [Hit("b", 0.9), Hit("d", 0.5), Hit("a", 0.1)]
RANKING = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-10, 10), max_size=8).map(ranked)
SCORE = st.one_of(st.integers(-2, 4).map(float), st.floats(-5, 5, width=32), st.just(float("nan")))
IDS, FINITE = st.text("ab#_1", min_size=1, max_size=4), st.floats(allow_nan=False, allow_infinity=False)


def made(name, texts):
    spec = f"{name}:hashing" if RETRIEVERS.get(name).facts.get("argument") else name
    return build(spec, texts)


@pytest.mark.parametrize("name", [one.name for one in RETRIEVERS if not one.facts.get("made")])
def test_every_retriever(name):
    index = made(name, TEXTS)
    hits = index.search("camping stove", 3)
    assert {hit.id for hit in hits[:2]} == {"stove", "kettle"}
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert index.search("camping stove", 1) == hits[:1]
    assert len(index.search("camping stove", 99)) <= 4
    assert made(name, {}).search("camping", 3) == []


def test_rare_words_are_kept_ties_keep_their_order_and_lists_are_fused(monkeypatch):
    monkeypatch.setattr("crs_lib.retrieval.bm25._MOST_WORDS", 1)
    index = Lexical(TEXTS)
    # "light" is in three documents, "kettle" in one
    assert [hit.id for hit in index.search("light kettle", 4)] == ["kettle"]
    index = Dense("hashing", {"b": "same text", "a": "same text", "c": "same text"})
    assert [hit.id for hit in index.search("same", 3)] == ["b", "a", "c"]
    both = Fused([build("bm25", TEXTS), build("dense:hashing", TEXTS)], "rrf")
    assert {hit.id for hit in both.search("camping stove", 2)} == {"stove", "kettle"}
    with pytest.raises(InputError, match="holds blanks"):  # ids must fit a run file
        build("bm25", {"two words": "x"})


def slow(documents, query, k1, b):
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


def test_worked_example():
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
def test_equals_the_formula_written_as_a_loop(documents, query, k1, b):
    found = BM25(k1, b).fit(documents).scores(query)
    np.testing.assert_allclose(found, slow(documents, query, k1, b), rtol=2e-5, atol=1e-6)


@given(st.lists(TOKENS, min_size=1, max_size=12), TOKENS)
def test_order_of_query_tokens_changes_no_bit(documents, query):
    index = BM25().fit(documents)
    assert index.scores(query).tobytes() == index.scores(query[::-1]).tobytes()


def test_room_for_columns_does_not_matter(monkeypatch):
    index = BM25().fit(DOCUMENTS)
    first = index.scores(["shoe", "red", "hat", "red"])
    assert index._columns  # all words of so small a collection are common
    again = index.scores(["shoe", "red", "hat", "red"])
    monkeypatch.setattr("crs_lib.retrieval.bm25._COLUMN_BYTES", 0)
    bare = BM25().fit(DOCUMENTS)
    assert bare.scores(["shoe", "red", "hat", "red"]).tobytes() == first.tobytes() == again.tobytes()
    assert not bare._columns


def test_search_leaves_out_what_does_not_match_and_breaks_ties_by_index():
    index = BM25().fit([["x"], ["a", "b"], ["a", "c"], ["a", "d"]])
    assert index.search(["a"], 2).indices.tolist() == [1, 2]
    assert index.search(["a"], 9).indices.tolist() == [1, 2, 3]
    assert index.search(["nothing"], 9).indices.tolist() == []
    assert index.search([], 9).indices.tolist() == []
    assert len(BM25().fit([]).scores(["a"])) == 0
    assert BM25().fit([[], []]).scores(["a"]).tolist() == [0.0, 0.0]
    for k1, b in ((-1, 0.5), (1, 1.5), (float("nan"), 0.5)):
        refused("expected", BM25, k1, b)


def test_an_index_is_saved_and_loaded_and_another_folder_kept(tmp_path):
    index, place = BM25(0.9, 0.4).fit(DOCUMENTS * 50), tmp_path / "index"
    for kind in ("kind-1", "kind-2"):  # an index of an earlier number may be replaced
        with store.new_folder(place, kind, {"n": 1}) as aside:
            index.save(aside, "words")
    assert store.read_header(place, "kind-2") == {"kind": "kind-2", "n": 1}
    again = BM25.load(place, "words", 200)
    assert isinstance(again.weights, np.memmap)
    assert again.vocabulary == index.vocabulary
    assert again.scores(["red", "lace"]).tobytes() == index.scores(["red", "lace"]).tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["index"]
    np.save(place / "words.weights.npy", np.zeros(1, dtype=np.float32))
    refused("damaged", BM25.load, place, "words", 200, error=RunError)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text.tex").write_text("years of work")
    with pytest.raises(InputError, match="no index"), store.new_folder(tmp_path / "thesis", "kind-2", {}):
        pass
    assert (tmp_path / "thesis" / "text.tex").read_text() == "years of work"
    for folder in (place, tmp_path / "thesis"):
        refused("build it again", store.read_header, folder, "kind-1", error=RunError)


def test_each_fusion_by_hand():
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
@given(rankings=st.lists(RANKING, min_size=1, max_size=4), k=st.integers(1, 10))
@pytest.mark.slow
def test_every_fusion(name, rankings, k):
    fused = fuse(name, rankings)
    assert {hit.id for hit in fused} == {hit.id for ranking in rankings for hit in ranking}
    scores = np.array([hit.score for hit in fused], np.float32)  # as trec_eval orders them
    assert (np.diff(scores) <= 0).all()
    assert fuse(name, rankings, k) == fused[:k]
    # a document that every list has first stays first
    top = [[Hit("z", 99.0), *ranking] for ranking in rankings]
    assert fuse(name, top)[0].id == "z"


@pytest.mark.parametrize("name", FUSIONS.names())
def test_every_fusion_refuses_what_it_cannot_rank(name):
    refused("twice", fuse, name, [[Hit("a", 1), Hit("a", 0)]])
    refused("at least one", fuse, name, [])
    refused("did you mean 'stratum'", Fused, [], "strata")


@pytest.mark.parametrize("names", [[], ["one"], ["b", "", "é€😀", "a" * 300, "B"]])
def test_ids_are_a_sequence_and_found_by_name(tmp_path, names):
    StoredIds.save(tmp_path, names)
    stored = StoredIds(tmp_path, len(names))
    assert list(stored) == names == [stored[i] for i in range(len(names))]
    assert [stored.row(name) for name in names] == list(range(len(names)))
    assert stored.row("absent") is stored.row("a" * 301) is stored.row("zz") is None
    with pytest.raises(IndexError):
        stored[len(names)]


def test_missing_and_damaged_ids_are_named(tmp_path):
    refused("cannot be read .* build it again", StoredIds, tmp_path, 2, error=RunError)
    StoredIds.save(tmp_path, ["one", "two"])
    refused("ids do not fit; build it again", StoredIds, tmp_path, 3, error=RunError)
    (tmp_path / "ids.npy").write_bytes((tmp_path / "ids.npy").read_bytes()[:-2])
    refused("cannot be read .* build it again", StoredIds, tmp_path, 2, error=RunError)
    StoredIds.save(tmp_path, ["one", "two"])
    np.save(tmp_path / "ids.order.npy", np.zeros(1, np.int64))
    refused("ids do not fit", StoredIds, tmp_path, 2, error=RunError)


@given(st.lists(SCORE, max_size=700), st.integers(1, 40))
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
    refused("at least one", top_k, np.ones(3, dtype=np.float32), 0)


@given(st.dictionaries(IDS, st.dictionaries(IDS, FINITE, min_size=1)))
@pytest.mark.slow
def test_runs_come_back(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("run") / "a.run"
    rankings = {topic: without_ties(ranked(scores)) for topic, scores in run.items()}
    assert write_run(path, rankings, "tag") == sum(map(len, run.values()))
    assert read_run(path) == rankings


@given(st.dictionaries(IDS, st.sampled_from([2.0, 1.0, 1.0000000001, 0.0, -1e30]), min_size=1))
def test_what_is_written_has_the_order_of_trec_eval_and_no_ties(scores):
    hits = without_ties(ranked(scores))
    singles = np.array([hit.score for hit in hits], np.float32)
    assert [hit.id for hit in hits] == [hit.id for hit in ranked(scores)]
    assert (np.diff(singles) < 0).all()
    np.testing.assert_allclose(singles, [scores[hit.id] for hit in hits], rtol=1e-5, atol=1e-40)


def test_order_of_lines_does_not_matter(tmp_path):
    lines = [f"t#0 Q0 d{i} {i} {i % 3} x" for i in range(20)]
    every = [Hit(f"d{i}", float(i % 3)) for i in range(20)]
    every.sort(key=lambda hit: (hit.score, hit.id), reverse=True)
    for seed in range(4):
        random.Random(seed).shuffle(lines)
        (tmp_path / "a.run").write_text("\n".join(lines) + "\n")
        assert read_run(tmp_path / "a.run") == {"t#0": every}


@pytest.mark.parametrize(("read", "text", "message"), [
    (read_run, "t Q0 d 1 0.5", "line 1: 5 columns"), (read_run, "t Q0 d 1 nan x", "line 1: score 'nan'"),
    (read_run, "t Q0 d 1 high x", "line 1: score 'high'"),
    (read_run, "t Q0 d 1 2 x\n\nt Q0 d 2 1 x", "line 3: 'd' stands twice"),
    (read_qrels, "t 0 d 1\nt 0 d 2\n", "line 2: 'd' stands twice"),
    (read_qrels, "t 0 d high\n", "line 1: grade 'high'"),
])  # fmt: skip
def test_bad_lines_are_named(tmp_path, read, text, message):
    (tmp_path / "a").write_text(text)
    refused(f"a, {message}", read, tmp_path / "a")
    refused("no file", read, tmp_path / "absent", error=RunError)


def test_ids_with_blanks_are_not_written_and_judgments_are_read_by_topic(tmp_path):
    refused("blanks", write_run, tmp_path / "a.run", {"t": [Hit("a b", 1.0)]}, "tag")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "q").write_text("\ufeff1_0_0\t0\tm#1_2\t2\n1_0_0 0 m#0_1 0\n\n1_0_0#0\t0\tB0\t1\n")
    assert read_qrels(tmp_path / "q") == {"1_0_0": {"m#1_2": 2, "m#0_1": 0}, "1_0_0#0": {"B0": 1}}


def lowrank_made(seed, inputs=6, outputs=4, rank=2):
    rng = np.random.default_rng(seed)
    shapes = {"a.weight": (inputs, outputs), "b.weight": (outputs, inputs)}
    return {
        name: (rng.normal(size=(m, rank)).astype(np.float32), rng.normal(size=(rank, n)).astype(np.float32))
        for name, (m, n) in shapes.items()
    }


def test_factors_come_back_to_a_254th_of_their_largest_and_bytes_are_equal(tmp_path):
    updates = {"one": lowrank_made(0), "two": lowrank_made(1)}
    record = {"updates": {"one": {"taught by": ["x"]}, "two": {"taught by": []}}, "licence": "none"}
    for name in ("first.npz", "again.npz"):
        low_rank.write(tmp_path / name, updates, record)
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    found = lowrank.read(tmp_path / "first.npz")
    assert found.names == ["one", "two"]
    assert found.record["licence"] == "none"
    assert found.record["rank"] == 2
    assert found.record["updates"]["one"]["taught by"] == ["x"]
    assert found.record["updates"]["one"]["digest"] != found.record["updates"]["two"]["digest"]
    for name, factors in updates.items():
        for weight, (one, two) in found.factors(name).items():
            first, second = factors[weight]
            assert np.all(np.abs(one - first) <= np.abs(first).max(axis=0) / 253)
            assert np.all(np.abs(two - second) <= np.abs(second).max(axis=1, keepdims=True) / 253)
    refused(r"no update 'three'; expected one, two", found.factors, "three")


def test_no_file_is_none_and_a_damaged_one_is_named(tmp_path):
    assert lowrank.read(tmp_path / "none.npz") is None
    (tmp_path / "bad.npz").write_bytes(b"not a zip file")
    refused(r"bad.npz cannot be read", lowrank.read, tmp_path / "bad.npz")


def test_numbers_that_are_not_those_of_the_record_are_refused(tmp_path):
    place = tmp_path / "one.npz"
    low_rank.write(place, {"one": lowrank_made(0)}, {"updates": {"one": {}}})
    with np.load(place) as stored:
        arrays = dict(stored)
    np.savez_compressed(tmp_path / "zeros.npz", **{**arrays, "one codes": arrays["one codes"] * 0})
    refused(r"zeros.npz .*another sha256", lowrank.read(tmp_path / "zeros.npz").factors, "one")
    np.savez_compressed(tmp_path / "short.npz", **{**arrays, "record": np.array("{}")})
    refused(r"short.npz .*lacks updates", lowrank.read, tmp_path / "short.npz")
    whole = place.read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    refused(r"cut.npz cannot be read", lowrank.read, tmp_path / "cut.npz")


def test_an_update_is_added_to_the_weights_that_it_names_and_must_fit():
    factors = lowrank_made(0)
    weights = {"a.weight": np.ones((6, 4), np.float32), "c": np.ones(3, np.float32)}
    out = lowrank.added(weights, {"a.weight": factors["a.weight"]})
    one, two = factors["a.weight"]
    assert np.allclose(out["a.weight"], 1 + one @ two)
    assert out["c"] is weights["c"]
    assert weights["a.weight"].sum() == 24
    refused(r"weight 'b\.weight'", lowrank.added, weights, factors)


def test_what_a_killed_process_left_is_removed_and_what_another_one_fills_is_not(tmp_path):
    left = tmp_path / ".ix.part" / "new" / "x"
    left.mkdir(parents=True)
    with store.new_folder(tmp_path / "ix", "kind", {}) as aside:
        assert not left.exists()
        with pytest.raises(RunError, match="another process"), store.new_folder(tmp_path / "ix", "kind", {}):
            pass
        assert aside.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["ix"]


def test_runs_of_pyserini_are_a_retriever(tmp_path):
    """A run file for products and one for passages: of both what the collection holds; two for one are fused."""
    (tmp_path / "queries.tsv").write_text("1\tcamping  stove\n2\tnothing\n")
    (tmp_path / "run.products.txt").write_text("1 Q0 stove 1 9.5 Anserini\n1 Q0 kettle 2 7 Anserini\n")
    (tmp_path / "passages.run").write_text("1 Q0 msmarco#7 1 3.5 Anserini\n")
    found = build(f"pyserini:{tmp_path}", TEXTS)
    assert [tuple(hit) for hit in found.search("camping stove")] == [("stove", 9.5), ("kettle", 7.0)]
    assert found.search("camping stove", 1) == found.search("camping stove")[:1]
    assert found.search("nothing") == []
    refused("queries.tsv of .* lacks the query 'tent'", found.search, "tent")
    (tmp_path / "other.trec").write_text("1 Q0 lamp 1 2 x\n1 Q0 stove 2 1 x\n")
    fused = build(f"pyserini:{tmp_path}", TEXTS).search("camping stove")
    assert [hit.id for hit in fused] == ["stove", "lamp", "kettle"]


def test_without_a_collection_every_hit_of_pyserini_counts(tmp_path):
    (tmp_path / "topics.tsv").write_text("1\tcamping stove\n")  # as notebook 13 wrote it before 0.4
    (tmp_path / "passages.run").write_text("1 Q0 msmarco#7 1 3.5 Anserini\n")
    hits = build(f"pyserini:{tmp_path}", {}).search("camping stove")
    assert [hit.id for hit in hits] == ["msmarco#7"]


def test_what_is_no_folder_of_pyserini_is_refused(tmp_path):
    refused(r"no queries\.tsv", build, f"pyserini:{tmp_path}", TEXTS)
    (tmp_path / "segments_1").touch()
    if find_spec("pyserini") is None:
        refused("pip install pyserini==0.22.1, and Java", build, f"pyserini:{tmp_path}", TEXTS)


@pytest.mark.skipif(find_spec("pyserini") is None, reason="pyserini and Java are not installed")
def test_an_index_of_lucene_is_searched(tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    lines = [json.dumps({"id": name, "contents": text}) for name, text in TEXTS.items()]
    (documents / "all.jsonl").write_text("\n".join(lines))
    files = ["--input", str(documents), "--index", str(tmp_path / "index")]
    program = [sys.executable, "-m", "pyserini.index.lucene", "--collection", "JsonCollection"]
    subprocess.run([*program, "--generator", "DefaultLuceneDocumentGenerator", *files], check=True)
    lucene = build(f"pyserini:{tmp_path / 'index'}", TEXTS, k1=1.2, b=0.75)
    ours = build("bm25", TEXTS)
    assert [hit.id for hit in lucene.search("stove")] == [hit.id for hit in ours.search("stove")]
