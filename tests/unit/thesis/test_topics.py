"""Topics: tokens, lemmas, the filter, inference against a plain loop, training, and every extractor's contract."""

import importlib.util
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import psi

from crs_lib import data as logs
from crs_lib.core import prompts
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.llm import LLM
from crs_lib.metrics import conventions
from crs_lib.thesis import replay, topics
from crs_lib.thesis.legacy import LegacyScorer
from crs_lib.thesis.similarity import TfidfSpace
from crs_lib.thesis.topics import STEMS, _heuristic, _lemma, _singular, _tokens, admitted
from tests.helpers import refused
from tests.helpers.thesis_data import choice, external, folder


@pytest.mark.parametrize(("text", "expected"), [
    ("The sci-fi film's end.", ["the", "film", "end"]), ("I couldn't, don't and won't", ["could", "and"]),
    ('and/or end.The (great) "plot": new--old', ["great", "plot", "new", "old"]),
    ("wait... what?! R2D2, 1999; a to of", ["wait", "what"]), ("Amélie's café", ["amélie", "café"]), ("", []),
])  # fmt: skip
def test_tokens_are_cut_as_a_treebank_tokeniser_cuts(text, expected):
    assert _tokens(text) == expected


@pytest.mark.slow
def test_plurals_go_to_the_singular_that_is_known():
    singular = {
        "wolves": "wolf", "stories": "story", "leaves": "leaf", "men": "man", "glass": "glass",
        "stars": "star", "becomes": "becomes", "children": "child", "heroes": "hero", "wives": "wife",
    }  # fmt: skip
    known = {*singular.values(), "leave"}
    assert {word: _lemma(word, known) for word in singular} == singular
    assert _lemma("unknowns", known) == "unknowns"
    assert _singular("stars", {"star", "stars"}) == "star"


def test_the_filter_and_the_heuristic_by_hand():
    assert admitted(["life", " Love ", "love", "movie", "lover", "space", "x"]) == ("love", "lover", "space")
    assert len(admitted(["love", "lovers", "lovely", "loved", "loves", "lover"])) == 5
    # house 2·1 = 2; ghost 1·(1+2+2) = 5; dark 1·(1+2) = 3; quiet 1.
    texts = ["The house, the house: a dark quiet ghost", "", "of the", "space-age\x00space"]
    best = [("ghost", "dark", "house", "quiet"), (), (), ("space-age", "space")]
    assert [_heuristic(text) for text in texts] == best


def plain_heuristic(text):
    score: dict[str, int] = {}
    for word in re.sub("[^a-z0-9 -]", " ", text.lower()).split():
        stem = STEMS.search(word)
        hinted, stemmed = any(hint in word for hint in topics._hints()), stem and stem.group() != "futur"
        worth = 1 + 2 * hinted + 2 * bool(stemmed)
        if word not in topics.function_words() | prompts.vocabulary("thesis", "short words"):
            score[word] = score.get(word, 0) + worth
    return tuple(sorted(score, key=lambda word: -score[word])[:5])


SAID = "the of Sea sea ghost GHOSTLY sci-fi future dark love x İ Ⅸ é \x00 -- 7 in-love".split(" ")
WORDS = st.sampled_from(SAID)


@given(st.lists(st.lists(WORDS, max_size=14).map(" ".join), max_size=4))
def test_many_texts_at_once_are_each_text_alone(texts):
    assert [_heuristic(text) for text in texts] == [plain_heuristic(text) for text in texts]


def small_model(n_topics=4, n_words=30):
    rng = np.random.default_rng(3)
    lam = rng.gamma(0.3, 5.0, (n_topics, n_words)) + 0.02
    beta = np.exp(psi(lam) - psi(lam.sum(axis=1, keepdims=True))).astype(np.float32)
    words = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(n_words)]
    return topics.TopicModel(words, beta, [5] * n_words)


def plain(model, bag, gamma):
    """The textbook E-step, one document, in float64."""
    beta = model.beta.astype(np.float64)[[w for w, _ in bag]]
    counts = np.array([c for _, c in bag], dtype=float)
    for _ in range(50):
        theta = np.exp(psi(gamma) - psi(gamma.sum()))
        new = model.alpha + theta * ((counts / (beta @ theta + np.finfo(np.float32).eps)) @ beta)
        if np.abs(new - gamma).mean() < 0.001:
            return new / new.sum()
        gamma = new
    return gamma / gamma.sum()


def test_inference_equals_a_plain_loop_and_does_not_depend_on_the_batch():
    model = small_model()
    bags = [((0, 1), (3, 2)), ((5, 1),), ((1, 1), (2, 1), (9, 3)), (), ((0, 1), (3, 2))]
    shares = model.shares(bags, [0, 1, 2, 3, 0])
    assert shares.shape == (5, 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(shares[3], np.full(4, 0.25, np.float32))
    np.testing.assert_array_equal(shares[0], shares[4])
    for row in range(3):
        expected = plain(model, bags[row], model._starts[row].astype(float))
        np.testing.assert_allclose(shares[row], expected, atol=2e-3)
        np.testing.assert_array_equal(model.shares([bags[row]], [row])[0], shares[row])


@pytest.mark.slow
def test_of_two_topics_that_share_a_text_the_likelier_words_wins():
    """Each word belongs to one topic alone, so both topics get one count; 0.04 > 0.03 decides."""
    beta = np.array([[0.03, 1e-24, 0.9], [1e-24, 0.04, 0.9]], dtype=np.float32)
    model = topics.TopicModel(["star", "like", "rest"], beta, [5, 5, 5])
    assert model.topics(["stars like"])[0][0] == "rest"
    shares = model.shares([((0, 1), (1, 1))], [7])[0]
    assert shares[1] > shares[0]


def test_a_model_is_stored_and_read_back(tmp_path):
    model = small_model()
    model.save(tmp_path)
    again = topics.TopicModel.load(tmp_path)
    assert again.words == model.words
    assert again.document_frequency == model.document_frequency
    np.testing.assert_array_equal(again.beta, model.beta)
    refused("train one", topics.TopicModel.load, tmp_path / "none")
    refused("shape", topics.TopicModel, ["a"], np.zeros((2, 3), np.float32), [1])
    for odd in (np.nan, np.inf, -1):
        with pytest.raises(InputError, match="holds NaN, infinite or negative"):
            topics.TopicModel(["a"], np.array([[0.5], [odd]], np.float32), [1])


def test_a_mirrors_model_is_found_and_without_any_the_heuristic_when_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path / "mirror"))
    helps = r"exp_elog_beta\.npy and dictionary\.tsv.*crs_lib catalog topics --catalog.*CRS_MIRROR.*topics heuristic"
    refused(helps, topics.create, "lda")
    small_model().save(tmp_path / "mirror" / "thesis" / "lda")
    assert topics.create("lda").name == topics.create("lda", model=tmp_path / "mirror/thesis/lda").name
    trained = tmp_path / "data" / "processed" / "models" / "topics"
    small_model().save(trained)
    assert topics._default_model() == trained  # one trained here comes first
    monkeypatch.delenv("CRS_MIRROR", raising=False)
    monkeypatch.setattr(topics, "trained_model", lambda: tmp_path / "none")
    extractor = topics.create("lda_or_heuristic")
    assert extractor.name == "heuristic (no topic model is here)"
    assert "no topic model" in capsys.readouterr().err
    assert extractor.topics(["a lovely comedy"]) == topics.create("heuristic").topics(["a lovely comedy"])
    refused("no topic model", topics.create, "lda")


@pytest.mark.slow
def test_training_finds_the_two_themes_and_is_reproducible():
    plots = ["ships sail the stormy sea"] * 12 + ["a ghost haunts the old castle"] * 12
    model = topics.train(plots, n_topics=2, passes=10, seed=1)
    themes = [set(words) for words in model.top_words]
    assert any({"stormy", "sea"} <= theme for theme in themes)
    assert any({"ghost", "castle"} <= theme for theme in themes)
    again = topics.train(plots, n_topics=2, passes=10, seed=1)
    np.testing.assert_array_equal(again.beta, model.beta)
    refused("too few", topics.train, ["one plot"], n_topics=2)


@pytest.mark.parametrize("name", [n for n in topics.TOPICS.names() if n != "lda_replayed"])  # test_replay.py
def test_every_topic_extractor_keeps_the_contract(name, tmp_path):
    small_model().save(tmp_path)
    options = {name_of: {"model": tmp_path} for name_of in ("lda", "lda_or_heuristic")}
    topic = {True: '{"topics": ["love story"]}', False: '{"topics": []}'}
    loving = LLM("scripted", answers=lambda request: topic["love" in request.messages[-1].content])
    options |= {"llm": {"llm": loving}}
    extractor = topics.create(name, **options.get(name, {}))
    texts = ["a love story wordaa", "", "wordab wordab", "a love story wordaa"]
    topics_of = extractor.topics(texts)
    assert extractor.name.startswith(name.partition("_or_")[0])
    assert len(topics_of) == 4
    assert topics_of[0] == topics_of[3]
    assert topics_of[1] == ()
    assert all(isinstance(words, tuple) and len(words) <= 5 for words in topics_of)
    assert extractor.topics(texts[::-1]) == topics_of[::-1]


@pytest.mark.parametrize(("name", "options", "message"), [
    ("heuristics", {}, "did you mean 'heuristic'"),
    ("heuristic", {"model": "here"}, "takes no topic model"), ("llm", {}, "needs a model"),
])  # fmt: skip
def test_topic_extractors_refuse_what_they_cannot_use(name, options, message):
    refused(message, topics.create, name, **options)


@pytest.fixture
def nouns(tmp_path, monkeypatch):
    names = ("use", "us", "dog", "boss", "man", "story", "child", "mouse", "leaf")
    lines = ["  1 This line is the head of the file", *(f"{name} n 1 0 1 0 00000001" for name in names)]
    (tmp_path / "index.noun").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "noun.exc").write_text("children child\nmice mouse\nleaves leaf\n", encoding="utf-8")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    return replay._wordnet()


def test_lemmas_are_wordnets_and_another_topic_model_or_no_wordnet_is_said(nouns, tmp_path, monkeypatch):
    lemma = replay._noun_lemmas(nouns)
    words = "dogs uses men stories children mice boss survives leaves dog"
    assert " ".join(map(lemma, words.split())) == "dog us man story child mouse boss survives leaf dog"
    small_model().save(tmp_path / "lda")
    refused("thesis's own topic model", replay.ReplayedLda, tmp_path / "lda")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "none"))
    refused(r"no WordNet \(index\.noun and noun\.exc\).*wordnet-base", replay._wordnet)


class Words:
    """A topic extractor that does not depend on the order: a text's topics are its long words."""

    name = "words"

    def of(self, text):
        return tuple(dict.fromkeys(word for word in text.split() if len(word) > 3))[:5]

    def topics(self, texts):
        return [self.of(text) for text in texts]

    def every(self):
        """All lists of up to five of the words that the dialogues use."""
        return [words for n in range(1, 4) for words in itertools.permutations(REPLAY_WORDS, n)]


REPLAY_WORDS = ("love", "ghost", "space", "fear")


def dialogue(number):
    texts = "love|ghost love|ghost ghost|space|fear space|love fear|the|space love ghost".split("|")
    words = (texts[(number * 3 + position * (position + number)) % len(texts)] for position in range(12))
    turns = [Turn((USER, SYSTEM)[position % 2], text) for position, text in enumerate(words)]
    return Dialogue(f"{number:05d}", "a", turns)


def test_in_order_gives_what_all_at_once_gives_where_topics_do_not_depend_on_the_order():
    convention = conventions.get("thesis_legacy")
    space = TfidfSpace(["love ghost", "space fear", "ghost space", "fear love"])
    talks = [dialogue(number) for number in range(6)]
    at_once = LegacyScorer(space, Words(), convention).score_many(talks)
    in_order = replay.ReplayedScorer(space, Words(), convention).score_many(talks)
    assert in_order == at_once
    assert sum(scores.session["detail"]["n_recovered"] for scores in at_once) > 3


@pytest.mark.slow
@external[0]
@external[1]
@pytest.mark.skipif(importlib.util.find_spec("nltk") is None, reason="needs NLTK: pip install nltk")
def test_every_number_of_the_first_sessions_is_the_originals():
    try:
        replay._wordnet()
    except InputError as error:
        pytest.skip(str(error))
    files_of = folder()
    words = str(files_of / "reference" / "tfidf_vocabulary_4096.txt")
    files = {"topic_model": str(files_of / "lda"), "vocabulary": words}
    ready = choice("thesis_legacy(topics=lda_replayed)", **files).make()
    first = list(itertools.islice(logs.read(files_of / "logs_20turns" / "gemma-2b.jsonl.gz"), 150))
    ours = pd.DataFrame([scores.session for scores in ready.scorer.score_many(first)])
    theirs = pd.read_csv(files_of / "reference" / "logs_20turns_lda_sessions.csv").iloc[: len(first)]
    assert list(theirs["session"]) == [int(session) for session in ours["session_id"]]
    for column in ("topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
                   "context_retention", "context_adaptation_score"):  # fmt: skip
        assert (theirs[column] - ours[column]).abs().max() < 1e-9, column
