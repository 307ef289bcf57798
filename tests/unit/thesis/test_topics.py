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
from crs_lib.thesis.topics import STEMS, admitted
from tests.helpers import refused, table
from tests.helpers.thesis_data import choice, external, folder


def model_of(words):
    """A model of one topic over some words."""
    even = np.ones((1, len(words)), np.float32)
    return topics.TopicModel(words, even, [1] * len(words))


NO_TOKENS = "end.the sci-fi r2d2 1999 couldn't don't won't what?! to of a"


@pytest.mark.parametrize(("text", "tokens"), table(__file__, "tokens"))
def test_tokens_are_cut_as_a_treebank_tokeniser_cuts(text, tokens):
    bag = model_of([*tokens, *NO_TOKENS.split()]).bag(text)
    assert bag == tuple((number, 1) for number in range(len(tokens)))


@pytest.mark.slow
@pytest.mark.parametrize(("word", "singular"), table(__file__, "plurals"))
def test_a_plural_goes_to_the_singular_that_is_known(word, singular):
    words = ["leave", *(pair[1] for pair in table(__file__, "plurals"))]
    assert model_of(words).bag(word) == ((words.index(singular), 1),)


@pytest.mark.slow
def test_a_plural_of_a_plot_goes_to_the_singular_of_another():
    plots = ["a star"] * 6 + ["two stars"] * 6 + ["the sea"] * 12
    model = topics.train(plots, n_topics=1)
    assert "star" in model.words
    assert "stars" not in model.words


def test_topics_that_count_hint_at_films_or_feelings_and_are_not_generic():
    assert admitted(["life", " Love ", "love", "movie", "lover", "space", "x"]) == ("love", "lover", "space")
    assert len(admitted(["love", "lovers", "lovely", "loved", "loves", "lover"])) == 5


@pytest.mark.parametrize(("text", "words"), table(__file__, "heuristic"))
def test_the_heuristic_by_hand(text, words):
    assert topics.create("heuristic").topics([text]) == [tuple(words)]


def plain_heuristic(text):
    """The heuristic as a loop over words."""
    hints = ", ".join(prompts.lines("thesis")["hints"]).split(", ")
    common = topics.function_words() | prompts.vocabulary("thesis", "short words")
    scores = {}
    for word in re.sub("[^a-z0-9 -]", " ", text.lower()).split():
        if word in common:
            continue
        worth = 1
        if any(hint in word for hint in hints):
            worth += 2
        stem = STEMS.search(word)
        if stem and stem.group() != "futur":
            worth += 2
        scores[word] = scores.get(word, 0) + worth
    best = sorted(scores, key=scores.get, reverse=True)
    return tuple(best[:5])


SAID = "the of Sea sea ghost GHOSTLY sci-fi future dark love x İ Ⅸ é \x00 -- 7 in-love".split(" ")


@given(st.lists(st.sampled_from(SAID), max_size=14).map(" ".join))
def test_the_heuristic_equals_a_loop_over_words(text):
    assert topics.create("heuristic").topics([text]) == [admitted(plain_heuristic(text))]


def small_model(n_topics=4, n_words=30):
    """A model of random topics over the words wordaa, wordab, …"""
    rng = np.random.default_rng(3)
    weights = rng.gamma(0.3, 5.0, (n_topics, n_words)) + 0.02
    total = weights.sum(axis=1, keepdims=True)
    beta = np.exp(psi(weights) - psi(total)).astype(np.float32)
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = itertools.islice(itertools.product(letters, letters), n_words)
    words = [f"word{first}{second}" for first, second in pairs]
    return topics.TopicModel(words, beta, [5] * n_words)


def plain_shares(model, bag, gamma):
    """The textbook E-step for one document, in float64."""
    words, counts = np.array(bag).T
    beta = model.beta[words].astype(np.float64)
    for _ in range(50):
        theta = np.exp(psi(gamma) - psi(gamma.sum()))
        norm = beta @ theta + np.finfo(np.float32).eps
        new = model.alpha + theta * ((counts / norm) @ beta)
        change = np.abs(new - gamma).mean()
        gamma = new
        if change < 0.001:
            break
    return gamma / gamma.sum()


BAGS = [((0, 1), (3, 2)), ((5, 1),), ((1, 1), (2, 1), (9, 3)), (), ((0, 1), (3, 2))]


def test_shares_sum_to_one_and_an_empty_text_has_equal_ones():
    shares = small_model().shares(BAGS, [0, 1, 2, 3, 0])
    assert shares.shape == (5, 4)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(shares[3], np.full(4, 0.25, np.float32))
    np.testing.assert_array_equal(shares[0], shares[4])


@pytest.mark.parametrize("row", range(3))
def test_inference_equals_a_plain_loop_and_does_not_depend_on_the_batch(row):
    model = small_model()
    shares = model.shares(BAGS, [0, 1, 2, 3, 0])
    start = model.starts[row].astype(float)
    np.testing.assert_allclose(shares[row], plain_shares(model, BAGS[row], start), atol=2e-3)
    alone = model.shares([BAGS[row]], [row])
    np.testing.assert_array_equal(shares[row], alone[0])


@pytest.mark.slow
def test_of_two_topics_that_share_a_text_the_likelier_words_wins():
    """Each word belongs to one topic alone, so both topics get one count; 0.04 > 0.03 decides."""
    beta = np.array([[0.03, 1e-24, 0.9], [1e-24, 0.04, 0.9]], dtype=np.float32)
    model = topics.TopicModel(["star", "like", "sea"], beta, [5, 5, 5])
    shares = model.shares([((0, 1), (1, 1))], [7])[0]
    assert model.topics(["stars like"])[0][0] == "sea"
    assert shares[1] > shares[0]


def test_a_model_is_stored_and_read_back(tmp_path):
    model = small_model()
    model.save(tmp_path)
    again = topics.TopicModel.load(tmp_path)
    assert again.words == model.words
    assert again.document_frequency == model.document_frequency
    np.testing.assert_array_equal(again.beta, model.beta)


def test_a_model_that_is_not_there_says_how_to_train_one(tmp_path):
    refused("train one", topics.TopicModel.load, tmp_path)


@pytest.mark.parametrize(("matrix", "message"), table(__file__, "broken_matrices"))
def test_a_matrix_that_is_none_of_topics_and_words_is_refused(matrix, message):
    refused(message, topics.TopicModel, ["a"], np.array(matrix, np.float32), [1])


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Empty folders of data and mirror: those of a model trained here, and of the thesis's."""
    monkeypatch.setenv("CRS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CRS_MIRROR", str(tmp_path / "mirror"))
    return topics.trained_model(), tmp_path / "mirror" / "thesis" / "lda"


def test_without_a_topic_model_lda_says_what_to_do_and_the_heuristic_stands_in(folders, capsys):
    remedy = r"exp_elog_beta\.npy and dictionary\.tsv.*crs_lib catalog topics --catalog.*CRS_MIRROR.*topics heuristic"
    refused(remedy, topics.create, "lda")
    extractor = topics.create("lda_or_heuristic")
    assert extractor.name == "heuristic (no topic model is here)"
    assert "no topic model" in capsys.readouterr().err
    assert extractor.topics(["a lovely comedy"]) == topics.create("heuristic").topics(["a lovely comedy"])


def test_the_mirrors_model_is_found_and_one_trained_here_comes_first(folders):
    trained, mirrored = folders
    small_model().save(mirrored)
    assert topics.create("lda").folder == mirrored
    assert topics.create("lda_or_heuristic").folder == mirrored
    small_model().save(trained)
    assert topics.create("lda").folder == trained


@pytest.mark.slow
def test_training_finds_the_two_themes_and_is_reproducible():
    plots = ["ships sail the stormy sea"] * 12 + ["a ghost haunts the old castle"] * 12
    model = topics.train(plots, n_topics=2, passes=10, seed=1)
    again = topics.train(plots, n_topics=2, passes=10, seed=1)
    themes = sorted(map(sorted, model.top_words))
    assert [{"castle", "ghost"} <= set(theme) for theme in themes] == [True, False]
    assert {"sea", "stormy"} <= set(themes[1])
    np.testing.assert_array_equal(again.beta, model.beta)
    refused("too few", topics.train, ["one plot"], n_topics=2)


def love_story(request):
    """A model's answer: one topic for a text of love, none for another."""
    if "love" in request.messages[-1].content:
        return '{"topics": ["love story"]}'
    return '{"topics": []}'


@pytest.mark.parametrize("name", ["lda", "heuristic", "lda_or_heuristic", "llm"])
def test_every_topic_extractor_keeps_the_contract(name, tmp_path):
    options = {}
    if name.startswith("lda"):
        small_model().save(tmp_path)
        options["model"] = tmp_path
    if name == "llm":
        options["llm"] = LLM("scripted", answers=love_story)
    extractor = topics.create(name, **options)
    texts = ["a love story wordaa", "", "wordab wordab", "a love story wordaa"]
    lists = extractor.topics(texts)
    assert extractor.name.startswith(name.partition("_or_")[0])
    assert lists[0] == lists[3]
    assert lists[1] == ()
    assert max(map(len, lists)) <= 5
    assert set(map(type, lists)) == {tuple}
    assert extractor.topics(texts[::-1]) == lists[::-1]


def test_every_topic_extractor_has_a_test_of_the_contract():
    assert set(topics.TOPICS.names()) == {"lda", "heuristic", "lda_or_heuristic", "llm", replay.NAME}


@pytest.mark.parametrize(("name", "options", "message"), table(__file__, "refused_topics"))
def test_topic_extractors_refuse_what_they_cannot_use(name, options, message):
    refused(message, topics.create, name, **options)


NOUNS = "use us dog boss man story child mouse leaf"


@pytest.fixture
def wordnet(tmp_path, monkeypatch):
    """A small WordNet."""
    lines = ["  1 This line is the head of the file"]
    for noun in NOUNS.split():
        lines.append(f"{noun} n 1 0 1 0 00000001")
    (tmp_path / "index.noun").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "noun.exc").write_text("children child\nmice mouse\nleaves leaf\n", encoding="utf-8")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))


@pytest.mark.usefixtures("wordnet")
def test_lemmas_are_wordnets():
    words = "dogs uses men stories children mice boss survives leaves dog"
    lemmas = map(replay.noun_lemmas(), words.split())
    assert list(lemmas) == "dog us man story child mouse boss survives leaf dog".split()


def test_another_topic_model_or_no_wordnet_is_said(tmp_path, monkeypatch):
    small_model().save(tmp_path)
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "none"))
    refused("thesis's own topic model", replay.ReplayedLda, tmp_path)
    refused(r"no WordNet \(index\.noun and noun\.exc\).*wordnet-base", replay.noun_lemmas)


class LongWords:
    """A topic extractor that does not depend on the order: a text's topics are its long words."""

    name = "long words"

    def of(self, text):
        long = [word for word in text.split() if len(word) > 3]
        return tuple(dict.fromkeys(long))[:5]

    def topics(self, texts):
        return list(map(self.of, texts))

    def every(self):
        """All lists of up to three of the words that the dialogues use."""
        lists = []
        for length in (1, 2, 3):
            lists += itertools.permutations(("love", "ghost", "space", "fear"), length)
        return lists


def dialogue(number):
    """A dialogue of twelve turns about love, ghosts, space and fear."""
    texts = "love|ghost love|ghost ghost|space|fear space|love fear|the|space love ghost".split("|")
    turns = []
    for position in range(12):
        text = texts[(number * 3 + position * (position + number)) % len(texts)]
        turns.append(Turn((USER, SYSTEM)[position % 2], text))
    return Dialogue(f"{number:05d}", "a", turns)


def test_in_order_gives_what_all_at_once_gives_where_topics_do_not_depend_on_the_order():
    convention = conventions.get("thesis_legacy")
    space = TfidfSpace(["love ghost", "space fear", "ghost space", "fear love"])
    talks = list(map(dialogue, range(6)))
    at_once = LegacyScorer(space, LongWords(), convention).score_many(talks)
    in_order = replay.ReplayedScorer(space, LongWords(), convention).score_many(talks)
    recovered = [scores.session["detail"]["n_recovered"] for scores in at_once]
    assert in_order == at_once
    assert sum(recovered) > 3


@pytest.fixture(scope="module")
def first_sessions():
    """Our session scores of the thesis's first 150 sessions, and the original's."""
    try:
        replay.noun_lemmas()
    except InputError as error:
        pytest.skip(str(error))
    mirrored = folder()
    vocabulary = str(mirrored / "reference" / "tfidf_vocabulary_4096.txt")
    files = {"topic_model": str(mirrored / "lda"), "vocabulary": vocabulary}
    ready = choice("thesis_legacy(topics=lda_replayed)", **files).make()
    talks = list(itertools.islice(logs.read(mirrored / "logs_20turns" / "gemma-2b.jsonl.gz"), 150))
    ours = pd.DataFrame([scores.session for scores in ready.scorer.score_many(talks)])
    theirs = pd.read_csv(mirrored / "reference" / "logs_20turns_lda_sessions.csv").iloc[: len(talks)]
    return ours, theirs


COLUMNS = """topic_recovery_rate avg_recovery_delay topic_interference cross_coherence context_retention
context_adaptation_score"""


@pytest.mark.slow
@external[0]
@external[1]
@pytest.mark.skipif(importlib.util.find_spec("nltk") is None, reason="needs NLTK: pip install nltk")
@pytest.mark.parametrize("column", COLUMNS.split())
def test_every_number_of_the_first_sessions_is_the_originals(column, first_sessions):
    ours, theirs = first_sessions
    assert list(theirs["session"]) == list(map(int, ours["session_id"]))
    assert (theirs[column] - ours[column]).abs().max() < 1e-9
