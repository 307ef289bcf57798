"""The thesis's own draws: WordNet's lemmas, the order of calls, and all its numbers where its logs are."""

import importlib.util
import itertools

import pandas as pd
import pytest

from crs_lib import data as logs
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.metrics import conventions
from crs_lib.metrics.similarity import TfidfSpace
from crs_lib.thesis import replay
from crs_lib.thesis.legacy import LegacyScorer
from tests.helpers.thesis_data import choice, external, folder
from tests.unit.thesis.test_topics import small_model


@pytest.fixture
def nouns(tmp_path, monkeypatch):
    """WordNet with nine nouns."""
    names = ("use", "us", "dog", "boss", "man", "story", "child", "mouse", "leaf")
    lines = ["  1 This line is the head of the file", *(f"{name} n 1 0 1 0 00000001" for name in names)]
    (tmp_path / "index.noun").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "noun.exc").write_text("children child\nmice mouse\nleaves leaf\n", encoding="utf-8")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    return replay._wordnet()


def test_lemmas_are_wordnets_shortest_noun(nouns):
    lemma = replay._NounLemmas.load(nouns)
    words = ["dogs", "uses", "men", "stories", "children", "mice", "boss", "survives", "leaves", "dog"]
    assert [lemma(word) for word in words] == [
        "dog", "us", "man", "story", "child", "mouse", "boss", "survives", "leaf", "dog",
    ]  # fmt: skip


def test_a_missing_wordnet_is_said_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"no WordNet \(index\.noun and noun\.exc\).*wordnet-base"):
        replay._wordnet()


def test_another_topic_model_cannot_be_replayed(tmp_path, nouns):
    small_model().save(tmp_path / "lda")
    with pytest.raises(InputError, match="thesis's own topic model"):
        replay.ReplayedLda(tmp_path / "lda")


class Words:
    """A topic extractor that does not depend on the order: a text's topics are its long words."""

    name = "words"

    def of(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word for word in text.split() if len(word) > 3))[:5]

    def topics(self, texts):
        return [self.of(text) for text in texts]

    def every(self):
        """All lists of up to five of the words that the dialogues use."""
        return [words for n in range(1, 4) for words in itertools.permutations(WORDS, n)]


WORDS = ("love", "ghost", "space", "fear")


def dialogue(number: int) -> Dialogue:
    texts = [
        "love", "ghost love", "ghost ghost", "space", "fear space", "love fear", "the", "space love ghost",
    ]  # fmt: skip
    said = (texts[(number * 3 + place * (place + number)) % len(texts)] for place in range(12))
    turns = [Turn((USER, SYSTEM)[place % 2], text) for place, text in enumerate(said)]
    return Dialogue(f"{number:05d}", "a", turns)


def test_in_order_gives_what_all_at_once_gives_where_topics_do_not_depend_on_the_order():
    rule = conventions.get("thesis_legacy")
    space = TfidfSpace(["love ghost", "space fear", "ghost space", "fear love"])
    talks = [dialogue(number) for number in range(6)]
    at_once = LegacyScorer(space, Words(), rule).score_many(talks)
    in_order = replay.ReplayedScorer(space, Words(), rule).score_many(talks)
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
    place = folder()
    ready = choice(
        "thesis_legacy(topics=lda_replayed)",
        topic_model=str(place / "lda"),
        vocabulary=str(place / "reference" / "tfidf_vocabulary_4096.txt"),
    ).make()
    first = list(itertools.islice(logs.read(place / "logs_20turns" / "gemma-2b.jsonl.gz"), 150))
    ours = pd.DataFrame([scores.session for scores in ready.scorer.score_many(first)])
    theirs = pd.read_csv(place / "reference" / "logs_20turns_lda_sessions.csv").iloc[: len(first)]
    assert list(theirs["session"]) == [int(session) for session in ours["session_id"]]
    for column in ("topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
                   "context_retention", "context_adaptation_score"):  # fmt: skip
        assert (theirs[column] - ours[column]).abs().max() < 1e-9, column
