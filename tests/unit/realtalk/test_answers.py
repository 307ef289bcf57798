"""Answers taken from the evidence, their scores, and users' own ARC cases."""

import datetime as dt
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import lmeb
from crs_lib.cli import app
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.metrics import evidence
from crs_lib.realtalk import agent, arcs, compare, corpus, index, learning, page, scoring, search, study
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.report import page as pages
from tests.helpers import refused

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"
RULES = ("--encoder", "hashing", "--ranker", "hand")


def extracted(chat, question, *places, near=0.9):
    built = index.build(chat, "hashing")
    made = built.plan(question)
    return agent.extract(built, made, places, np.full(built.size, near, np.float32))


@pytest.fixture
def chat(make_chat):
    return make_chat(
        [("Ann", "I went to the lake yesterday, it was lovely."), ("Ben", "Nice!")],
        [("Ben", "I bought three kayaks in Oslo."), ("Ann", "I never eat fish.")],
        [("Ben", "I also bought a paddle. What a week!")],
    )


@pytest.mark.parametrize(("question", "messages", "text"), [
    ("When did Ann go to the lake?", [0], "31 December 2023"),
    ("When did Ben buy kayaks?", [2], "2 January 2024"),  # no date said: the day it was written
    ("Where did Ben buy kayaks?", [2], "Oslo"), ("How many kayaks did Ben buy?", [2], "three"),
    ("Does Ann eat fish?", [3], "no"), ("Did Ben buy kayaks?", [2], "yes"),
    ("What things did Ben buy?", [2, 4], "I bought three kayaks in Oslo, I also bought a paddle"),
    ("What is Ann's salary?", [], None),
])  # fmt: skip
def test_what_is_asked_for_is_taken_from_the_messages(chat, question, messages, text):
    assert extracted(chat, question, *messages).text == text


def test_an_answer_says_its_days_its_messages_and_why_there_is_none(chat):
    assert extracted(chat, "When did Ann go to the lake?", 0).days == ("2023-12-31", "2023-12-31")
    assert extracted(chat, "What things did Ben buy?", 2, 4).ids == ("D2:1", "D3:1")
    found = extracted(chat, "What is Ann's salary?", 1, near=0.05)
    assert found.text is None
    assert "no message shares a word" in found.why


@pytest.mark.parametrize("start, end, words", [
    ("2024-01-19", "2024-01-19", "19 January 2024"), ("2024-01-01", "2024-01-31", "January 2024"),
    ("2023-01-01", "2023-12-31", "2023"),
    ("2024-01-08", "2024-01-14", "between 8 January and 14 January 2024"),
])  # fmt: skip
def test_days_are_written_as_people_write_them(start, end, words):
    assert agent.written(dt.date.fromisoformat(start), dt.date.fromisoformat(end)) == words


@pytest.mark.slow
def test_answers_are_scored_beside_the_best_message_and_unmoved_questions_sum_up(sample, predictions):
    rows = scoring.answered(predictions, [sample])
    table = scoring.answer_means(rows).set_index("category")
    assert table.loc["all", "n"] == len(rows) == table.drop("all")["n"].sum()
    assert table.loc["all", "token_f1"] > table.loc["all", "baseline_f1"]
    assert rows.loc[rows["abstained"], "token_f1"].eq(0).all()
    pairs = zip(predictions, sample.questions, strict=True)
    best = scoring.answered([{**r, "answer": {"text": q.answer, "days": None}} for r, q in pairs], [sample])
    assert best["exact"].eq(1).all()
    assert best["date_accuracy"].dropna().eq(1).all()
    table = scoring.unmoved(scoring.questions(predictions, [sample], "valid"))
    parts = table[["all gold is there", "some is missing", "nothing to rank"]].sum(axis=1)
    assert parts.tolist() == table["n"].tolist() == [37]


def case(sample, *phases):
    return {"name": "own", "chat": sample.name, "question": sample.questions[0].text,
            "phases": [{"title": "t", "ids": list(ids)} for ids in phases]}  # fmt: skip


def test_own_arc_cases_are_read_and_wrong_ones_named_by_line(sample, tmp_path):
    path = tmp_path / "own.jsonl"
    good = case(sample, ["D1:1"], ["D2:2", "D2:3"])
    path.write_text(json.dumps(good) + "\n\n" + json.dumps(good) + "\n")
    assert [c.to_json() for c in study.cases(RealTalkConfig(arc_cases=str(path)), [sample])] == [good, good]
    path.write_text("\n".join([json.dumps(good), "{", json.dumps(case(sample, ["D1:1"], ["D99:1"])), "[]"]))
    with pytest.raises(InputError) as wrong:
        arcs.read(path, [sample])
    predictions = str(wrong.value)
    assert "3 problems" in predictions
    assert "line 2 is no JSON" in predictions
    assert "line 4, case: " in predictions
    assert "line 3, phase 2: no message 'D99:1'" in predictions


def test_set_scores_by_hand_and_none_without_gold():
    # selected 1, 2, 3, 4; gold 2, 4, 9: two hits; recall 2/3, precision 2/4, F1 = 2 * (2/3 * 1/2) / (2/3 + 1/2) = 4/7
    assert evidence.set_score([1, 2, 3, 4], [2, 4, 9]) == pytest.approx((2 / 3, 1 / 2, 4 / 7, 4))
    assert evidence.set_score([], [1]) == (0.0, 0.0, 0.0, 0)  # no precision to give away
    assert all(math.isnan(v) for v in evidence.set_score([1], [])[:3])
    assert all(math.isnan(v) for v in evidence.rank_scores([1, 2], []).values())
    assert math.isnan(evidence.fuzzy_recall([1], [], [1, 1]))
    assert math.isnan(evidence.arc_score([[1]], []).coverage_any)


def test_rank_scores_by_hand_and_fuzzy_recall_inside_the_session():
    # gold 7 stands first, gold 9 third, gold 5 nowhere
    ranked, gold = [7, 1, 9, 2], {7, 9, 5}
    # DCG = 1/log2(2) + 1/log2(4) = 1.5; ideal for three = 1 + 1/log2(3) + 1/2 = 2.1309
    assert evidence.rank_scores(ranked, gold) == pytest.approx(
        {"r@1": 1 / 3, "r@5": 2 / 3, "r@10": 2 / 3, "r@20": 2 / 3, "r@50": 2 / 3, "p@5": 2 / 5, "p@10": 2 / 10,
         "hit@10": 1, "all@10": 0, "mrr": 1, "ndcg@10": 1.5 / (1 + 1 / math.log2(3) + 0.5)}
    )  # fmt: skip
    assert evidence.rank_scores([1, 9, 7], gold)["mrr"] == pytest.approx(1 / 2)
    assert evidence.rank_scores([1], gold)["mrr"] == 0
    assert evidence.rank_scores([*gold], gold)["all@10"] == 1
    sessions = [1, 1, 1, 1, 2, 2]
    assert evidence.fuzzy_recall([0], [3], sessions) == 1  # three away
    assert evidence.fuzzy_recall([3], [4], sessions) == 0  # one away, another session
    assert evidence.fuzzy_recall([0], [4], [1] * 5) == 0  # four away


def test_arc_scores_by_hand():
    # gold phases {1, 2}, {5}, {9}; answered {1, 5}, {9, 8}: union meets all three phases, 3 of 4 gold ids.
    # One-to-one: answered 1 goes to phase 1 or 2 (overlap 1), answered 2 to phase 3: two of three aligned.
    score = evidence.arc_score([[1, 5], [9, 8]], [[1, 2], [5], [9]])
    assert score.global_recall == pytest.approx(3 / 4)
    assert score.global_precision == pytest.approx(3 / 4)
    assert score.coverage_any == 1
    assert score.coverage_aligned == pytest.approx(2 / 3)
    # recall of matched phases: either 1/2 + 0 + 1 or 0 + 1 + 1, by three
    assert score.mean_phase_recall == pytest.approx(1 / 2) or score.mean_phase_recall == pytest.approx(2 / 3)
    whole = evidence.arc_score([list(range(30))], [[1], [5], [9]])  # all in one phase: aligned with one
    assert whole.coverage_any == 1
    assert whole.coverage_aligned == pytest.approx(1 / 3)
    assert evidence.arc_score([], [[1], [2]])[:5] == (0, 0, 0, 0, 0)
    assert evidence.in_order([[1], [5], [9]]) == 1
    assert evidence.in_order([[5], [1]]) == 0
    assert math.isnan(evidence.in_order([[1]]))


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 9))
def test_every_gold_message_has_exactly_one_bucket(kept, selected, place):
    selected &= kept
    assert evidence.bucket(place, kept | {0}, kept, selected) in evidence.BUCKETS[1:]
    assert (evidence.bucket(place, kept | {0}, kept, selected) == "kept") == (place in selected)


def test_answer_f1_counts_words_with_repetition_and_means_leave_missing_values_out():
    # given "the red red house", expected "red house": common red, house = 2; F1 = 2 * 2 / (4 + 2)
    assert evidence.answer_f1("the red red house", "Red house!") == pytest.approx(2 / 3)
    assert math.isnan(evidence.answer_f1(None, "x"))
    assert evidence.answer_f1("", "") == 1
    assert evidence.answer_f1("", "x") == 0
    assert evidence.answer_exact("The old lift", "an old LIFT!") == 1  # articles and case do not count
    assert evidence.answer_exact("old lift", "lift") == 0
    assert math.isnan(evidence.answer_exact(None, "x"))
    assert evidence.means([{"a": 1.0}, {"a": math.nan}, {"a": 0.0}], ["a"]) == {"a": 0.5}
    assert math.isnan(evidence.means([{"a": math.nan}], ["a"])["a"])


def ask(question, *more, words="realtalk predict --ask"):
    app.do([*words.split(), question, "--chat", str(CHAT), *RULES, *more])


@pytest.mark.parametrize("words", ["realtalk predict --ask", "realtalk-answer", "realtalk answer"])
def test_an_answer_comes_with_its_messages_their_days_and_how_sure_it_is(capsys, sample, words):
    question = next(q for q in sample.questions if "Mira" in q.text)
    ask(question.text, words=words)
    said = capsys.readouterr().out
    assert re.search(r"^answer: \S", said, re.M)
    assert int(re.search(r"^how sure: (\d+) %", said, re.M)[1]) >= 100 * agent.SURE
    shown = re.findall(r"^(D\d+:\d+)  (\d\d \w+ \d{4} \d\d:\d\d)  (Mira|Tobias): ", said, re.M)
    assert shown
    assert all(sample.messages[sample.position[name]].time for name, _, _ in shown)


def test_what_cannot_be_answered_is_refused_with_what_is_near(capsys, tmp_path):
    ask("Which instrument did Zebulon pawn in Ouagadougou?", "--out", str(tmp_path / "one.jsonl"))
    said = capsys.readouterr().out
    assert said.startswith("no answer in this chat\nhow sure: ")
    assert "answer: " not in said
    assert len((tmp_path / "one.jsonl").read_text().splitlines()) == 1
    with pytest.raises(InputError, match="--out FILE, --page FILE or --ask"):
        app.do(["realtalk", "predict", "--chat", str(CHAT)])


def test_names_that_a_chat_never_says_lower_the_confidence(built, predictions):
    record = next(one for one in predictions if "Mira" in one["question"])
    other = {**record, "question": record["question"].replace("Mira", "Zebulon")}
    assert 0 < agent.confidence(built, other) < agent.confidence(built, record) < 1


def test_the_page_holds_every_message_and_each_link_leads_somewhere(tmp_path, sample):
    path = tmp_path / "chat.html"
    app.do(["realtalk", "predict", "--chat", str(CHAT), "--page", str(path), *RULES])
    text = path.read_text(encoding="utf-8")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {message.id for message in sample.messages} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "<script" not in text
    assert text.count('<div class="segment"') == len(index.build(sample, "hashing").segments)
    assert "default-src 'none'; connect-src 'none'; style-src 'sha256-" in text


def test_texts_of_a_chat_cannot_break_its_page(make_chat):
    said = [("Ann", "<script>alert(1)</script>"), ("Ben", "</li>&\"'")]
    built = index.build(make_chat(said, qa=[{"question": "<b>Who?</b>"}]), "hashing")
    parts = page.sections(built, list(agent.predict(built, search.Hand())))
    text = pages.document("<i>", "?", "", parts, "chat.css")
    assert "<script" not in text
    assert "<b>Who" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


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
    how = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
    public = bm25s.BM25()
    public.index(bm25s.tokenize(texts, **how), show_progress=False)
    ours = iter(
        lmeb.by_bm25([lmeb.ChatQuestions(*pair, {}) for pair in zip(chats, asked, strict=True)], lmeb.plain)
    )
    start = 0
    for chat, part in zip(chats, asked, strict=True):
        for question, order in zip(part, ours, strict=False):
            (words,) = bm25s.tokenize([question.text], return_ids=False, **how)
            scores = public.get_scores(words)[start : start + len(chat.messages)]
            assert scores[order] == pytest.approx(np.sort(scores)[::-1], abs=1e-4)
        start += len(chat.messages)


def test_texts_alone_know_no_speaker_time_session_order_or_photo(sample):
    predictions = lmeb.texts_alone(sample)
    scrambled = [
        m._replace(position=i, session=1, speaker="X", time=None, caption="a cat", photo=True)
        for i, m in enumerate(reversed(sample.messages))
    ]
    other = replace(sample, messages=tuple(scrambled), speakers=("X", "Y"))
    assert lmeb.texts_alone(other) == replace(predictions, speakers=())
    assert sorted(predictions.position) == sorted(sample.position)
    assert predictions.ids([0]) != sample.ids([0])
    assert corpus.evidence(predictions, sample.questions[0], "strict").positions != ()


@pytest.mark.slow
def test_each_question_ranks_its_own_chat_and_counts_once():
    pytest.importorskip("bm25s")
    shown = lmeb.measure(RealTalkConfig(data=str(CHAT), questions=0)).set_index("ranker")
    chat = corpus.read_chat(CHAT)
    gold = corpus.gold(chat, "strict")
    assert set(shown["n"]) == {len(gold)}
    asked = [q for q in chat.questions if q.index in gold]
    orders = lmeb.by_bm25([lmeb.ChatQuestions(chat, asked, gold)], lmeb.plain)
    scored = [evidence.rank_scores(order, gold[q.index]) for q, order in zip(asked, orders, strict=True)]
    assert shown.loc["BM25, text", "r@10"] == pytest.approx(np.mean([one["r@10"] for one in scored]))
    assert shown.loc["ours, all that a chat shows", "r@10"] > shown.loc["ours, texts alone", "r@10"]
    assert {"multi_hop ndcg@10", "temporal_reasoning r@10", "commonsense r@10"} <= set(shown)


def test_the_test_chats_stay_unscored_and_other_protocols_are_unknown(tmp_path, make_chat, monkeypatch):
    monkeypatch.setattr(compare.study, "chats", lambda _: [make_chat([("Ann", "a")], name="Chat_9_Ann_Ben")])
    refused("test split", lmeb.measure, RealTalkConfig(), error=RunError)
    refused("benchmarks/lmeb.py", app.do, ["realtalk", "evaluate", "--protocol", "lmeb"])
    refused("benchmarks/teach_ranker.py", app.do, ["realtalk", "evaluate", "--teach"])


def test_strangers_share_nobody_with_a_chat(make_chat):
    one, two = make_chat([("Ann", "a")]), make_chat([("Eve", "a")])
    other = replace(two, speakers=("Eve", "Zoe"))
    assert learning.not_of(one, [one, other, replace(other, speakers=("Eve", "Ben"))]) == [other]


def test_questions_without_answer_have_columns_of_their_own_and_are_not_among_all(make_chat):
    qa = [
        {"question": "What did Ann buy?", "answer": "a bicycle", "category": 4, "evidence": ["D1:1"]},
        {
            "question": "What did Ben buy?",
            "adversarial_answer": "a bicycle",
            "category": 5,
            "evidence": ["D1:1"],
        },
        {"question": "What did Ben sell?", "adversarial_answer": "a bicycle", "category": 5},
    ]
    chat = make_chat([("Ann", "I bought a bicycle.")], qa=qa)
    records = []
    for number, reply in enumerate(["a bicycle", "a bicycle", None]):
        answer = {"text": reply, "days": None}
        records.append({"chat": chat.name, "qa_index": number, "answer": answer, "ranked": ["D1:1"]})
    means = scoring.answer_means(scoring.answered(records, [chat])).set_index("category")
    assert means.loc["all", ["n", "exact", "unanswerable", "resisted"]].tolist() == [1, 1.0, 2, 0.5]
    assert means.loc["5", ["n", "unanswerable", "resisted"]].tolist() == [0, 2, 0.5]
    counted = scoring.answer_means(scoring.answered(records, [chat], with_unanswerable=True))
    assert counted["exact"].tolist() == pytest.approx([2 / 3, 1.0, 0.5])


def test_a_question_ends_with_what_was_read_and_left_out(tmp_path, capsys):
    said = {"speaker": "Ann", "clean_text": "I baked two loaves of bread.", "date_time": "yesterday"}
    messages = [
        {**said, "dia_id": "D1:1"},
        {**said, "dia_id": "D1:1"},
        "no message",
        {**said, "dia_id": "D1:2"},
    ]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"session_1": messages}))
    app.do(["realtalk", "predict", "--chat", str(path), "--ask", "What did Ann bake?", *RULES])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("read: 2 messages; left out: duplicate id 1, no message 1; odd: 4")
    assert "quirks.csv of notebook 21" in last
    assert "times: 0 of 2 messages of chat have a time that can be read" in last
