"""One contract for every retriever; BM25, fusion, best hits, run files, ids on disk, low-rank updates."""

import json
import math
import random
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import low_rank
from crs_lib.core.errors import InputError, RunError
from crs_lib.retrieval import lowrank, store
from crs_lib.retrieval.bm25 import BM25
from crs_lib.retrieval.encoders import Dense
from crs_lib.retrieval.fusion import FUSIONS, RETRIEVERS, Fused, build, fuse
from crs_lib.retrieval.runs import Hit, ranked, read_qrels, read_run, top_k, without_ties, write_run
from crs_lib.retrieval.store import StoredIds
from tests.helpers import refused, table

TEXTS = {
    "tent": "A light tent for two in the mountains",
    "stove": "Gas stove for camping, small and light",
    "lamp": "Reading lamp with a warm light",
    "kettle": "Steel kettle for the camping stove",
}
DOCUMENTS = [text.split() for text in ("red shoe", "blue shoe shoe lace", "red hat", "")]
LETTERS = st.sampled_from("abcdefgh")
TOKENS = st.lists(LETTERS, max_size=12)
LISTS = st.lists(TOKENS, min_size=1, max_size=12)
ONE = [Hit("a", 9.0), Hit("b", 5.0), Hit("c", 1.0)]
TWO = [Hit("b", 0.9), Hit("d", 0.5), Hit("a", 0.1)]
RANKING = st.dictionaries(LETTERS, st.floats(-10, 10), max_size=8).map(ranked)
EQUAL_OFTEN = st.integers(-2, 4).map(float)
SCORE = EQUAL_OFTEN | st.floats(-5, 5, width=32) | st.just(math.nan)
NEAR_EACH_OTHER = st.sampled_from([2.0, 1.0, 1.0000000001, 0.0, -1e30])
IDS = st.text("ab#_1", min_size=1, max_size=4)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SEARCHING = [entry.name for entry in RETRIEVERS if not entry.facts.get("made")]


def ids_of(hits):
    return [hit.id for hit in hits]


@pytest.fixture(params=SEARCHING)
def spec(request):
    """Each retriever that searches texts itself."""
    if RETRIEVERS.get(request.param).facts.get("argument"):
        return f"{request.param}:hashing"
    return request.param


def test_every_retriever(spec):
    index = build(spec, TEXTS)
    hits = index.search("camping stove", 3)
    assert set(ids_of(hits[:2])) == {"stove", "kettle"}
    assert hits == ranked(hits)
    assert index.search("camping stove", 1) == hits[:1]
    assert len(index.search("camping stove", 99)) <= 4


def test_every_retriever_of_no_texts(spec):
    assert build(spec, {}).search("camping", 3) == []


def test_the_rarest_words_of_a_long_query_count():
    long = " ".join(f"w{number}" for number in range(70))
    texts = {"a": long, "b": "w0 w1 w2", "c": "w0"}
    hits = build("bm25", texts).search(texts["a"])  # 67 words stand in one document, of which 64 count
    assert ids_of(hits) == ["a"]


def test_equal_cosines_stand_in_the_order_of_the_documents():
    index = Dense("hashing", {"b": "same text", "a": "same text", "c": "same text"})
    assert ids_of(index.search("same", 3)) == ["b", "a", "c"]


def test_several_retrievers_are_fused():
    both = Fused([build("bm25", TEXTS), build("dense:hashing", TEXTS)], "rrf")
    assert set(ids_of(both.search("camping stove", 2))) == {"stove", "kettle"}


def test_an_id_with_blanks_fits_no_run_file():
    refused("holds blanks", build, "bm25", {"two words": "x"})


def by_loop(documents, query, k1, b):
    """BM25 as its formula reads."""
    lengths = [len(tokens) for tokens in documents]
    mean = sum(lengths) / len(documents) or 1.0
    frequency = Counter()
    for tokens in documents:
        frequency.update(set(tokens))
    scores = np.zeros(len(documents))
    for row, tokens in enumerate(documents):
        for term in query:
            times = tokens.count(term)
            if times:
                without = len(documents) - frequency[term]
                idf = math.log(1 + (without + 0.5) / (frequency[term] + 0.5))
                normal = 1 - b + b * lengths[row] / mean
                scores[row] += idf * times / (times + k1 * normal)
    return scores


def test_bm25_by_hand():
    # 4 documents, mean length 2; "shoe" is in 2 of them: idf = ln(1 + 2.5 / 2.5) = ln 2.
    # document 0: tf 1, length 2: 1 / (1 + 1.2 * 1)                  -> ln 2 / 2.2
    # document 1: tf 2, length 4: 2 / (2 + 1.2 * (0.25 + 0.75 * 2))  -> ln 2 * 2 / 4.1
    scores = BM25(k1=1.2, b=0.75).fit(DOCUMENTS).scores(["shoe"])
    shares = scores / math.log(2)
    assert shares.tolist() == pytest.approx([1 / 2.2, 2 / 4.1, 0, 0])
    assert scores.dtype == np.float32


def test_rare_and_common_words_add_up():
    documents = [["all", f"w{number % 50}", f"v{number}"] for number in range(200)]
    query = ["all", "w3", "v53"]
    scores = BM25().fit(documents).scores(query)
    np.testing.assert_allclose(scores, by_loop(documents, query, 1.2, 0.75), rtol=1e-5)


K1 = st.floats(0, 3)
B = st.floats(0, 1)


@given(LISTS, TOKENS, K1, B)
def test_bm25_equals_the_formula_written_as_a_loop(documents, query, k1, b):
    scores = BM25(k1, b).fit(documents).scores(query)
    expected = by_loop(documents, query, k1, b)
    np.testing.assert_allclose(scores, expected, rtol=2e-5, atol=1e-6)


@given(LISTS, TOKENS)
def test_the_order_of_query_tokens_changes_no_bit(documents, query):
    index = BM25().fit(documents)
    backwards = index.scores(query[::-1])
    assert index.scores(query).tobytes() == backwards.tobytes()


def test_room_for_columns_does_not_matter(monkeypatch):
    query = ["shoe", "red", "hat", "red"]  # all words of so small a collection are common
    index = BM25().fit(DOCUMENTS)
    first = index.scores(query).tobytes()
    assert index.scores(query).tobytes() == first
    monkeypatch.setattr("crs_lib.retrieval.bm25._COLUMN_BYTES", 0)
    assert BM25().fit(DOCUMENTS).scores(query).tobytes() == first


@pytest.mark.parametrize(("query", "k", "documents"), table(__file__, "matches"))
def test_bm25_leaves_out_what_does_not_match(query, k, documents):
    index = BM25().fit([["x"], ["a", "b"], ["a", "c"], ["a", "d"]])
    assert index.search(query, k).indices.tolist() == documents


def test_bm25_of_nothing():
    no_documents = BM25().fit([])
    empty_ones = BM25().fit([[], []])
    assert no_documents.scores(["a"]).tolist() == []
    assert empty_ones.scores(["a"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("k1", "b"), table(__file__, "bm25_out_of_range"))
def test_bm25_refuses_what_is_out_of_range(k1, b):
    refused("expected", BM25, k1, b)


@pytest.fixture
def saved(tmp_path):
    """An index of words, and its folder, which an index of an earlier number stood in."""
    index = BM25(0.9, 0.4).fit(DOCUMENTS * 50)
    folder = tmp_path / "index"
    for kind in ("kind-1", "kind-2"):
        with store.new_folder(folder, kind, {"n": 1}) as aside:
            index.save(aside, "words")
    return index, folder


def test_an_index_is_saved_and_loaded(saved):
    index, folder = saved
    assert store.read_header(folder, "kind-2") == {"kind": "kind-2", "n": 1}
    again = BM25.load(folder, "words", 200)
    assert isinstance(again.weights, np.memmap)
    assert again.vocabulary == index.vocabulary
    query = ["red", "lace"]
    assert again.scores(query).tobytes() == index.scores(query).tobytes()
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_a_damaged_index_is_named(saved):
    folder = saved[1]
    np.save(folder / "words.weights.npy", np.zeros(1, dtype=np.float32))
    refused("damaged", BM25.load, folder, "words", 200, error=RunError)
    refused("build it again", store.read_header, folder, "kind-1", error=RunError)


def test_a_folder_that_is_no_index_is_kept(tmp_path):
    (tmp_path / "text.tex").write_text("years of work")
    with pytest.raises(InputError, match="no index"), store.new_folder(tmp_path, "kind-2", {}):
        pass
    assert (tmp_path / "text.tex").read_text() == "years of work"
    refused("build it again", store.read_header, tmp_path, "kind-1", error=RunError)


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / ".ix.part" / "new" / "x"
    left.mkdir(parents=True)
    with store.new_folder(tmp_path / "ix", "kind", {}):
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["ix"]


def test_a_folder_that_another_process_fills_is_not_touched(tmp_path):
    folder = tmp_path / "ix"
    with store.new_folder(folder, "kind", {}) as aside:
        with pytest.raises(RunError, match="another process"), store.new_folder(folder, "kind", {}):
            pass
        assert aside.exists()


def test_stratum_by_hand():
    # ranks (missing = 4): a (1, 3), b (2, 1), c (3, 4), d (4, 2)
    # sorted strata: b (1, 2), a (1, 3), d (2, 4), c (3, 4)
    assert ids_of(fuse("stratum", [ONE, TWO])) == ["b", "a", "d", "c"]


def test_one_stratum_goes_to_the_first_list():
    first = ranked({"b": 2, "a": 1})
    second = ranked({"a": 2, "b": 1})
    assert ids_of(fuse("stratum", [first, second])) == ["b", "a"]


def test_reciprocal_ranks_by_hand():
    rrf = dict(fuse("rrf", [ONE, TWO]))
    assert rrf["a"] == pytest.approx(1 / 61 + 1 / 63)
    assert rrf["b"] == pytest.approx(1 / 62 + 1 / 61)


EVERY_FUSION = pytest.mark.parametrize("name", FUSIONS.names())
RANKINGS = st.lists(RANKING, min_size=1, max_size=4)


@pytest.mark.slow
@EVERY_FUSION
@given(rankings=RANKINGS, k=st.integers(1, 10))
def test_every_fusion(name, rankings, k):
    documents = set()
    for ranking in rankings:
        documents.update(ids_of(ranking))
    fused = fuse(name, rankings)
    assert set(ids_of(fused)) == documents
    singles = np.array([hit.score for hit in fused], np.float32)  # as trec_eval orders them
    assert (np.diff(singles) <= 0).all()
    assert fuse(name, rankings, k) == fused[:k]
    top = [[Hit("z", 99.0), *ranking] for ranking in rankings]
    assert fuse(name, top)[0].id == "z"  # what every list has first stays first


@EVERY_FUSION
def test_every_fusion_refuses_what_it_cannot_rank(name):
    twice = [Hit("a", 1), Hit("a", 0)]
    refused("twice", fuse, name, [twice])
    refused("at least one", fuse, name, [])


def test_an_unknown_fusion_is_refused():
    refused("did you mean 'stratum'", Fused, [], "strata")


@pytest.mark.parametrize("names", table(__file__, "ids"))
def test_ids_are_a_sequence_and_looked_up_by_name(tmp_path, names):
    StoredIds.save(tmp_path, names)
    stored = StoredIds(tmp_path, len(names))
    assert list(stored) == names
    for row, name in enumerate(names):
        assert stored[row] == name
        assert stored.row(name) == row
    with pytest.raises(IndexError):
        stored[len(names)]


@pytest.mark.parametrize("name", ["absent", "a" * 301, "zz"])
def test_an_id_that_is_not_stored_has_no_row(tmp_path, name):
    StoredIds.save(tmp_path, ["b", "a" * 300])
    assert StoredIds(tmp_path, 2).row(name) is None


def test_missing_and_damaged_ids_are_named(tmp_path):
    refused("cannot be read .* build it again", StoredIds, tmp_path, 2, error=RunError)
    StoredIds.save(tmp_path, ["one", "two"])
    refused("ids do not fit; build it again", StoredIds, tmp_path, 3, error=RunError)
    np.save(tmp_path / "ids.order.npy", np.zeros(1, np.int64))
    refused("ids do not fit", StoredIds, tmp_path, 2, error=RunError)
    (tmp_path / "ids.npy").write_bytes((tmp_path / "ids.npy").read_bytes()[:-2])
    refused("cannot be read .* build it again", StoredIds, tmp_path, 2, error=RunError)


@pytest.mark.slow
@given(st.lists(SCORE, max_size=700), st.integers(1, 40))
def test_the_best_equal_a_full_sort(values, k):
    scores = np.array(values, dtype=np.float32)
    positive = np.flatnonzero(scores > 0)
    order = positive[np.lexsort((positive, -scores[positive]))][:k]
    top = top_k(scores, k)
    assert top.indices.tolist() == order.tolist()
    assert top.scores.tolist() == scores[order].tolist()


def test_ties_go_to_the_lower_index():
    scores = np.zeros(10_000, dtype=np.float32)
    scores[[9_999, 5, 7_000, 128, 64]] = 1.0
    scores[3_333] = 2.0
    best = top_k(scores, 3)
    assert best.indices.tolist() == [3_333, 5, 64]
    of_equals = top_k(np.ones(5_000, dtype=np.float32), 4)
    assert of_equals.indices.tolist() == [0, 1, 2, 3]


def test_the_floor_can_be_moved():
    scores = np.array([-1.0, -3.0, 0.0], dtype=np.float32)
    everything = top_k(scores, 3, above=-np.inf)
    assert everything.indices.tolist() == [2, 0, 1]
    assert not top_k(scores, 3).indices.size
    assert not top_k(scores[:0], 3).indices.size
    refused("at least one", top_k, scores, 0)


@pytest.mark.slow
@given(st.dictionaries(IDS, st.dictionaries(IDS, FINITE, min_size=1)))
def test_runs_come_back(tmp_path_factory, run):
    path = tmp_path_factory.mktemp("run") / "a.run"
    rankings = {topic: without_ties(ranked(scores)) for topic, scores in run.items()}
    assert write_run(path, rankings, "tag") == sum(map(len, run.values()))
    assert read_run(str(path)) == rankings


@given(st.dictionaries(IDS, NEAR_EACH_OTHER, min_size=1))
def test_what_is_written_has_the_order_of_trec_eval_and_no_ties(scores):
    hits = without_ties(ranked(scores))
    singles = np.array([hit.score for hit in hits], np.float32)
    assert ids_of(hits) == ids_of(ranked(scores))
    assert (np.diff(singles) < 0).all()
    before = [scores[name] for name in ids_of(hits)]
    np.testing.assert_allclose(singles, before, rtol=1e-5, atol=1e-40)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_lines_does_not_matter(tmp_path, seed):
    lines = [f"t#0 Q0 d{number} {number} {number % 3} x" for number in range(20)]
    random.Random(seed).shuffle(lines)
    (tmp_path / "a.run").write_text("\n".join(lines) + "\n")
    hits = [Hit(f"d{number}", float(number % 3)) for number in range(20)]
    hits.sort(key=lambda hit: (hit.score, hit.id), reverse=True)
    assert read_run(tmp_path / "a.run") == {"t#0": hits}


@pytest.mark.parametrize(("text", "message"), table(__file__, "bad_runs"))
def test_bad_lines_of_runs_are_named(tmp_path, text, message):
    (tmp_path / "a").write_text(text)
    refused(f"a, {message}", read_run, tmp_path / "a")


@pytest.mark.parametrize(("text", "message"), table(__file__, "bad_judgments"))
def test_bad_lines_of_judgments_are_named(tmp_path, text, message):
    (tmp_path / "a").write_text(text)
    refused(f"a, {message}", read_qrels, tmp_path / "a")


def test_files_that_are_not_there_are_named(tmp_path):
    refused("no file", read_run, tmp_path / "absent", error=RunError)
    refused("no file", read_qrels, tmp_path / "absent", error=RunError)


def test_ids_with_blanks_are_not_written(tmp_path):
    refused("blanks", write_run, tmp_path / "a.run", {"t": [Hit("a b", 1.0)]}, "tag")
    assert list(tmp_path.iterdir()) == []


def test_judgments_are_read_by_topic(tmp_path):
    (tmp_path / "q").write_text("\ufeff1_0_0\t0\tm#1_2\t2\n1_0_0 0 m#0_1 0\n\n1_0_0#0\t0\tB0\t1\n")
    judgments = read_qrels(tmp_path / "q")
    assert list(judgments) == ["1_0_0", "1_0_0#0"]
    assert judgments["1_0_0"] == {"m#1_2": 2, "m#0_1": 0}
    assert judgments["1_0_0#0"] == {"B0": 1}


SHAPES = {"a.weight": (6, 4), "b.weight": (4, 6)}


def factors(seed):
    """Random factors of rank 2 by the name of their weight."""
    rng = np.random.default_rng(seed)
    pairs = {}
    for name, (inputs, outputs) in SHAPES.items():
        left = rng.normal(size=(inputs, 2)).astype(np.float32)
        right = rng.normal(size=(2, outputs)).astype(np.float32)
        pairs[name] = left, right
    return pairs


@pytest.fixture
def updates(tmp_path):
    """A file of two updates."""
    teachers = {"one": {"taught by": ["x"]}, "two": {"taught by": []}}
    record = {"updates": teachers, "licence": "none"}
    both = {"one": factors(0), "two": factors(1)}
    for name in ("updates.npz", "again.npz"):
        low_rank.write(tmp_path / name, both, record)
    return tmp_path / "updates.npz"


def test_updates_of_equal_numbers_have_equal_bytes(updates):
    assert updates.read_bytes() == updates.with_name("again.npz").read_bytes()


def test_the_record_of_updates_comes_back(updates):
    file = lowrank.read(updates)
    assert file.names == ["one", "two"]
    assert file.record["licence"] == "none"
    assert file.record["rank"] == 2
    first, second = file.record["updates"].values()
    assert first["taught by"] == ["x"]
    assert first["digest"] != second["digest"]
    refused(r"no update 'three'; expected one, two", file.factors, "three")


@pytest.mark.parametrize("seed", [0, 1])
def test_factors_come_back_to_a_254th_of_their_largest(updates, seed):
    before = factors(seed)
    name = ("one", "two")[seed]
    for weight, (left, right) in lowrank.read(updates).factors(name).items():
        first, second = before[weight]
        of_columns = np.abs(first).max(axis=0)
        of_rows = np.abs(second).max(axis=1, keepdims=True)
        assert (np.abs(left - first) <= of_columns / 253).all()
        assert (np.abs(right - second) <= of_rows / 253).all()


def test_no_file_is_none_and_a_damaged_one_is_named(updates):
    assert lowrank.read(updates.with_name("none.npz")) is None
    whole = updates.read_bytes()
    for content in (b"not a zip file", whole[: len(whole) // 2]):
        bad = updates.with_name(f"bad{len(content)}.npz")
        bad.write_bytes(content)
        refused(r"bad\d+.npz cannot be read", lowrank.read, bad)


def factors_where(updates, array, content):
    """The factors of a file of updates one of whose arrays is another."""
    with np.load(updates) as stored:
        arrays = dict(stored)
    changed = updates.with_name(f"changed-{array}.npz")
    np.savez_compressed(changed, **arrays | {array: content})
    return lowrank.read(changed).factors("one")


def test_numbers_that_are_not_those_of_the_record_are_refused(updates):
    codes = np.zeros(40, np.int8)
    refused("changed-one codes.npz .*another sha256", factors_where, updates, "one codes", codes)
    refused("changed-record.npz .*lacks updates", factors_where, updates, "record", np.array("{}"))


def test_an_update_is_added_to_the_weights_that_it_names():
    left, right = factors(0)["a.weight"]
    ones = np.ones((6, 4), np.float32)
    weights = {"a.weight": ones, "c": ones[0]}
    sums = lowrank.added(weights, {"a.weight": (left, right)})
    assert np.allclose(sums["a.weight"], 1 + left @ right)
    assert sums["c"] is weights["c"]
    assert weights["a.weight"].sum() == 24
    refused(r"weight 'b\.weight'", lowrank.added, weights, factors(0))


def test_runs_of_pyserini_are_a_retriever(tmp_path):
    """A run file for products and one for passages: of both what the collection holds; two for one are fused."""
    (tmp_path / "queries.tsv").write_text("1\tcamping  stove\n2\tnothing\n")
    (tmp_path / "run.products.txt").write_text("1 Q0 stove 1 9.5 Anserini\n1 Q0 kettle 2 7 Anserini\n")
    (tmp_path / "passages.run").write_text("1 Q0 msmarco#7 1 3.5 Anserini\n")
    stored = build(f"pyserini:{tmp_path}", TEXTS)
    assert stored.search("camping stove") == [Hit("stove", 9.5), Hit("kettle", 7.0)]
    assert stored.search("camping stove", 1) == [Hit("stove", 9.5)]
    assert stored.search("nothing") == []
    refused("queries.tsv of .* lacks the query 'tent'", stored.search, "tent")
    (tmp_path / "other.trec").write_text("1 Q0 lamp 1 2 x\n1 Q0 stove 2 1 x\n")
    fused = build(f"pyserini:{tmp_path}", TEXTS)
    assert ids_of(fused.search("camping stove")) == ["stove", "lamp", "kettle"]


def test_without_a_collection_every_hit_of_pyserini_counts(tmp_path):
    (tmp_path / "topics.tsv").write_text("1\tcamping stove\n")  # as notebook 13 wrote it before 0.4
    (tmp_path / "passages.run").write_text("1 Q0 msmarco#7 1 3.5 Anserini\n")
    hits = build(f"pyserini:{tmp_path}", {}).search("camping stove")
    assert ids_of(hits) == ["msmarco#7"]


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
    assert ids_of(lucene.search("stove")) == ids_of(ours.search("stove"))
