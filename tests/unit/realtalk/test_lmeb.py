"""The terms of the public benchmark: scoring and BM25 as its code has them, and what "texts alone" leaves out."""

from dataclasses import replace

import numpy as np
import pytest

from crs_lib.cli import app
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.metrics import evidence
from crs_lib.realtalk import compare, corpus, ranker
from crs_lib.realtalk.config import RealTalkConfig

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"


def test_scores_are_those_of_the_reference_program():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(3)
    gold = {f"q{i}": {int(d) for d in rng.choice(50, rng.integers(1, 15), replace=False)} for i in range(20)}
    order = {name: rng.permutation(50).tolist() for name in gold}
    qrels = {name: {f"d{d}": 1 for d in known} for name, known in gold.items()}
    run = {name: {f"d{d}": -float(place) for place, d in enumerate(order[name])} for name in gold}
    specs = {"nDCG@10": "ndcg@10", "R@10": "r@10"}
    for found in ir_measures.iter_calc(list(map(ir_measures.parse_measure, specs)), qrels, run):
        ours = evidence.rank_scores(order[found.query_id], gold[found.query_id])[specs[str(found.measure)]]
        assert ours == pytest.approx(found.value, abs=1e-9)


def test_bm25_is_that_of_the_public_code_over_one_corpus(sample):
    bm25s, stemmer = pytest.importorskip("bm25s"), pytest.importorskip("Stemmer").Stemmer("english")
    chats = [sample, corpus.read_chat(paths.samples() / "realtalk" / "Chat_11_Noor_Felix.json")]
    asked = [chat.questions[:12] for chat in chats]
    texts = [message.text for chat in chats for message in chat.messages]
    public = bm25s.BM25()
    public.index(
        bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
    )
    ours = compare._by_bm25(chats, asked, compare._TEXT)
    start = 0
    for chat, part, ranked in zip(chats, asked, ours, strict=True):
        for question, order in zip(part, ranked, strict=True):
            words = bm25s.tokenize(
                [question.text], stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
            )[0]
            scores = public.get_scores(words)[start : start + len(chat.messages)]
            assert scores[order] == pytest.approx(np.sort(scores)[::-1], abs=1e-4)
        start += len(chat.messages)


def test_texts_alone_know_no_speaker_time_session_order_or_photo(sample):
    told = compare._texts_alone(sample)
    scrambled = [
        replace(m, position=i, session=1, speaker="X", time=None, caption="a cat", photo=True)
        for i, m in enumerate(reversed(sample.messages))
    ]
    assert compare._texts_alone(replace(sample, messages=tuple(scrambled), speakers=("X", "Y"))) == replace(
        told, speakers=()
    )
    assert sorted(told.position) == sorted(sample.position) and told.ids([0]) != sample.ids([0])
    assert corpus.evidence(told, sample.questions[0], "strict").positions != ()


@pytest.mark.slow
def test_each_question_ranks_its_own_chat_and_counts_once():
    pytest.importorskip("bm25s")
    config = RealTalkConfig(data=str(CHAT), questions=0)
    shown = compare.lmeb(config).set_index("ranker")
    chat = corpus.read_chat(CHAT)
    gold = corpus.gold(chat, "strict")
    assert set(shown["n"]) == {len(gold)}
    scored = [
        evidence.rank_scores(order, gold[q.index])
        for q, order in zip(
            [q for q in chat.questions if q.index in gold],
            compare._by_bm25([chat], [[q for q in chat.questions if q.index in gold]], compare._TEXT)[0],
            strict=True,
        )
    ]
    assert shown.loc["BM25, text", "r@10"] == pytest.approx(np.mean([one["r@10"] for one in scored]))
    assert shown.loc["ours, all that a chat shows", "r@10"] > shown.loc["ours, texts alone", "r@10"]
    assert {"multi_hop ndcg@10", "temporal_reasoning r@10", "commonsense r@10"} <= set(shown)


def test_the_test_chats_stay_unscored_and_other_protocols_are_unknown(tmp_path, make_chat, monkeypatch):
    monkeypatch.setattr(compare.study, "chats", lambda _: [make_chat([("Ann", "a")], name="Chat_9_Ann_Ben")])
    with pytest.raises(RunError, match="test split"):
        compare.lmeb(RealTalkConfig())
    with pytest.raises(InputError, match="expected lmeb"):
        app._do(*app.find(["realtalk", "evaluate", "--protocol", "beir"]))


def test_strangers_share_nobody_with_a_chat(make_chat):
    one, two = make_chat([("Ann", "a")]), make_chat([("Eve", "a")])
    other = replace(two, speakers=("Eve", "Zoe"))
    assert ranker.not_of(one, [one, other, replace(other, speakers=("Eve", "Ben"))]) == [other]
