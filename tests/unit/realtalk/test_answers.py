"""Answers taken from the evidence, their scores, the page, and the public benchmark's way of scoring."""

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
from crs_lib.realtalk import agent, arcs, compare, corpus, index, page, scoring, search, study
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.report import page as pages
from tests.helpers import refused, table

CHAT = paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json"
OTHER = paths.samples() / "realtalk" / "Chat_11_Noor_Felix.json"
RULES = ("--encoder", "hashing", "--ranker", "hand")


def extracted(chat, question, *selected, near=0.9):
    built = index.build(chat, "hashing")
    matches = np.full(built.size, near, np.float32)
    return agent.extract(built, built.plan(question), selected, matches)


@pytest.fixture
def chat(make_chat):
    first = [("Ann", "I went to the lake yesterday, it was lovely."), ("Ben", "Nice!")]
    second = [("Ben", "I bought three kayaks in Oslo."), ("Ann", "I never eat fish.")]
    third = [("Ben", "I also bought a paddle. What a week!")]
    return make_chat(first, second, third)


@pytest.mark.parametrize(("question", "messages", "text"), table(__file__, "answers"))
def test_what_is_asked_for_is_taken_from_the_messages(chat, question, messages, text):
    assert extracted(chat, question, *messages).text == (text or None)


def test_an_answer_says_its_days_its_messages_and_why_there_is_none(chat):
    dated = extracted(chat, "When did Ann go to the lake?", 0)
    assert dated.days == ("2023-12-31", "2023-12-31")
    both = extracted(chat, "What things did Ben buy?", 2, 4)
    assert both.ids == ("D2:1", "D3:1")
    answer = extracted(chat, "What is Ann's salary?", 1, near=0.05)
    assert answer.text is None
    assert "no message shares a word" in answer.why


@pytest.mark.parametrize(("start", "end", "words"), table(__file__, "written_days"))
def test_days_are_written_as_people_write_them(start, end, words):
    assert agent.written(start, end) == words


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_answers_are_scored_beside_the_best_message(sample, predictions):
    rows = scoring.answered(predictions, [sample])
    means = scoring.answer_means(rows).set_index("category")
    every = means.loc["all"]
    assert every["n"] == len(rows)
    assert means.drop("all")["n"].sum() == len(rows)
    assert every["token_f1"] > every["baseline_f1"]
    assert (rows.loc[rows["abstained"], "token_f1"] == 0).all()


def test_the_annotated_answers_are_right(sample, predictions):
    records = []
    for record, question in zip(predictions, sample.questions, strict=True):
        records.append({**record, "answer": {"text": question.answer, "days": None}})
    rows = scoring.answered(records, [sample])
    assert set(rows["exact"]) == {1.0}
    assert set(rows["date_accuracy"].dropna()) == {1.0}


def test_unmoved_questions_sum_up(sample, predictions):
    unmoved = scoring.unmoved(scoring.questions(predictions, [sample], "valid"))
    (row,) = unmoved.to_dict("records")
    assert row["n"] == 37
    assert row["all gold is there"] + row["some is missing"] + row["nothing to rank"] == 37


def case(sample, *phases):
    """An ARC case of the sample's first question, with the ids of each phase."""
    question = sample.questions[0].text
    listed = [{"title": "t", "ids": list(ids)} for ids in phases]
    return {"name": "own", "chat": sample.name, "question": question, "phases": listed}


def test_own_arc_cases_are_read(sample, tmp_path):
    path = tmp_path / "own.jsonl"
    good = case(sample, ["D1:1"], ["D2:2", "D2:3"])
    path.write_text(f"{json.dumps(good)}\n\n{json.dumps(good)}\n")
    first, second = study.cases(RealTalkConfig(arc_cases=str(path)), [sample])
    assert first.to_json() == good
    assert second == first


def test_wrong_arc_cases_are_named_by_line(sample, tmp_path):
    path = tmp_path / "own.jsonl"
    good = json.dumps(case(sample, ["D1:1"], ["D2:2"]))
    bad = json.dumps(case(sample, ["D1:1"], ["D99:1"]))
    path.write_text(f"{good}\n{{\n{bad}\n[]")
    with pytest.raises(InputError) as error:
        arcs.read(path, [sample])
    problems = str(error.value)
    assert "3 problems" in problems
    assert "line 2 is no JSON" in problems
    assert "line 4, case: " in problems
    assert "line 3, phase 2: no message 'D99:1'" in problems


def test_set_scores_by_hand():
    # selected 1, 2, 3, 4; gold 2, 4, 9: two hits; recall 2/3, precision 2/4, F1 = 2 * (2/3 * 1/2) / (2/3 + 1/2) = 4/7
    score = evidence.set_score([1, 2, 3, 4], [2, 4, 9])
    assert score == pytest.approx((2 / 3, 1 / 2, 4 / 7, 4))
    assert evidence.set_score([], [1]) == (0, 0, 0, 0)  # no precision to give away


def test_without_gold_nothing_is_scored():
    recall, precision, f1, _ = evidence.set_score([1], [])
    ranks = evidence.rank_scores([1, 2], [])
    fuzzy = evidence.fuzzy_recall([1], [], [1, 1])
    story = evidence.arc_score([[1]], [])
    for value in (recall, precision, f1, *ranks.values(), fuzzy, story.coverage_any):
        assert math.isnan(value)


def test_rank_scores_by_hand():
    gold = {7, 9, 5}
    scores = evidence.rank_scores([7, 1, 9, 2], gold)
    assert scores == pytest.approx(table(__file__, "rank_scores"))
    second = evidence.rank_scores([1, 9, 7], gold)
    assert second["mrr"] == 1 / 2
    nowhere = evidence.rank_scores([1], gold)
    assert nowhere["mrr"] == 0
    whole = evidence.rank_scores([5, 7, 9], gold)
    assert whole["all@10"] == 1


@pytest.mark.parametrize(("selected", "gold", "sessions", "recall"), table(__file__, "fuzzy"))
def test_fuzzy_recall_stays_inside_the_session(selected, gold, sessions, recall):
    assert evidence.fuzzy_recall([selected], [gold], sessions) == recall


def test_arc_scores_by_hand():
    # gold phases {1, 2}, {5}, {9}; answered {1, 5}, {9, 8}: union meets all three phases, 3 of 4 gold ids.
    # One-to-one: answered 1 goes to phase 1 or 2 (overlap 1), answered 2 to phase 3: two of three aligned.
    gold = [[1, 2], [5], [9]]
    score = evidence.arc_score([[1, 5], [9, 8]], gold)
    assert score.global_recall == pytest.approx(3 / 4)
    assert score.global_precision == pytest.approx(3 / 4)
    assert score.coverage_any == 1
    assert score.coverage_aligned == pytest.approx(2 / 3)
    # recall of matched phases: either 1/2 + 0 + 1 or 0 + 1 + 1, by three
    assert 3 * score.mean_phase_recall in (pytest.approx(1.5), pytest.approx(2))


def test_a_story_in_one_phase_is_aligned_with_one():
    gold = [[1], [5], [9]]
    whole = evidence.arc_score([range(30)], gold)
    none = evidence.arc_score([], gold)
    assert whole.coverage_any == 1
    assert whole.coverage_aligned == pytest.approx(1 / 3)
    assert none[:5] == (0, 0, 0, 0, 0)


def test_phases_are_in_order_or_not():
    assert evidence.in_order([[1], [5], [9]]) == 1
    assert evidence.in_order([[5], [1]]) == 0
    assert math.isnan(evidence.in_order([[1]]))


POSITIONS = st.integers(0, 9)


@given(st.sets(POSITIONS), st.sets(POSITIONS), POSITIONS)
def test_every_gold_message_has_exactly_one_bucket(reranked, selected, position):
    selected &= reranked
    bucket = evidence.bucket(position, reranked | {0}, reranked, selected)
    assert bucket in evidence.BUCKETS[1:]
    assert (bucket == "kept") == (position in selected)


def test_answer_f1_counts_words_with_repetition():
    # given "the red red house", expected "red house": common red, house = 2; F1 = 2 * 2 / (4 + 2)
    assert evidence.answer_f1("the red red house", "Red house!") == pytest.approx(2 / 3)
    assert math.isnan(evidence.answer_f1(None, "x"))
    assert evidence.answer_f1("", "") == 1
    assert evidence.answer_f1("", "x") == 0


def test_an_exact_answer_has_the_same_words_but_for_articles_and_case():
    assert evidence.answer_exact("The old lift", "an old LIFT!") == 1
    assert evidence.answer_exact("old lift", "lift") == 0
    assert math.isnan(evidence.answer_exact(None, "x"))


def test_means_leave_missing_values_out():
    missing = {"a": math.nan}
    some = evidence.means([{"a": 1.0}, missing, {"a": 0.0}], ["a"])
    assert some == {"a": 0.5}
    none = evidence.means([missing], ["a"])
    assert math.isnan(none["a"])


@pytest.mark.parametrize(("in_all", "exact"), table(__file__, "unanswered"))
def test_questions_without_answer_have_columns_of_their_own(make_chat, in_all, exact):
    trap = {"question": "What did Ben buy?", "adversarial_answer": "a bicycle", "category": 5}
    question = {"question": "What did Ann buy?", "answer": "a bicycle", "category": 4}
    chat = make_chat([("Ann", "I bought a bicycle.")], qa=[question, trap, trap])
    records = []
    for number, reply in enumerate(["a bicycle", "a bicycle", None]):
        record = {"chat": chat.name, "qa_index": number, "ranked": ["D1:1"]}
        record["answer"] = {"text": reply, "days": None}
        records.append(record)
    means = scoring.answer_means(scoring.answered(records, [chat], in_all))
    assert means["exact"].tolist() == pytest.approx(exact, nan_ok=True)
    assert means["n"].tolist() == [1, 1, 0]
    assert means["unanswerable"].tolist() == [2, 0, 2]
    every, answerable, traps = means["resisted"]
    assert every == traps == 0.5
    assert math.isnan(answerable)


def test_scores_are_those_of_the_reference_program():
    ir_measures = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(3)
    columns = {"nDCG@10": "ndcg@10", "R@10": "r@10"}
    expected = {}
    qrels = {}
    run = {}
    for name in map(str, range(20)):
        gold = rng.choice(50, rng.integers(1, 15), replace=False).tolist()
        order = rng.permutation(50).tolist()
        expected[name] = evidence.rank_scores(order, gold)
        qrels[name] = {f"d{document}": 1 for document in gold}
        run[name] = {f"d{document}": -float(rank) for rank, document in enumerate(order)}
    measures = list(map(ir_measures.parse_measure, columns))
    for value in ir_measures.iter_calc(measures, qrels, run):
        column = columns[str(value.measure)]
        assert expected[value.query_id][column] == pytest.approx(value.value, abs=1e-9)


# ── asking one question, and the page ────────────────────────────────────────────────────────────────


def ask(capsys, question, *more, command="realtalk predict --ask"):
    """What is printed for a question."""
    words = [*command.split(), question, "--chat", str(CHAT)]
    app.do([*words, *RULES, *more])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", table(__file__, "commands"))
def test_an_answer_comes_with_its_messages_their_days_and_how_sure_it_is(capsys, sample, command):
    question = next(question.text for question in sample.questions if "Mira" in question.text)
    printed = ask(capsys, question, command=command)
    sure = re.search(r"^how sure: (\d+) %", printed, re.M)
    assert re.search(r"^answer: \S", printed, re.M)
    assert int(sure[1]) >= 100 * agent.SURE
    assert re.search(r"^D\d+:\d+  \d\d \w+ \d{4} \d\d:\d\d  (Mira|Tobias): ", printed, re.M)


def test_what_cannot_be_answered_is_refused_with_what_is_near(capsys, tmp_path):
    path = tmp_path / "one.jsonl"
    printed = ask(capsys, "Which instrument did Zebulon pawn in Ouagadougou?", "--out", str(path))
    assert printed.startswith("no answer in this chat\nhow sure: ")
    assert "answer: " not in printed
    assert len(path.read_text().splitlines()) == 1
    refused("--out FILE, --page FILE or --ask", app.do, ["realtalk", "predict", "--chat", str(CHAT)])


def test_names_that_a_chat_never_says_lower_the_confidence(built, predictions):
    record = next(record for record in predictions if "Mira" in record["question"])
    other = {**record, "question": record["question"].replace("Mira", "Zebulon")}
    assert 0 < agent.confidence(built, other) < agent.confidence(built, record) < 1


def test_a_question_ends_with_what_was_read_and_left_out(tmp_path, capsys):
    message = {"speaker": "Ann", "clean_text": "I baked bread.", "date_time": "yesterday", "dia_id": "D1:1"}
    path = tmp_path / "chat.json"
    messages = [message, message, "no message", message | {"dia_id": "D1:2"}]
    path.write_text(json.dumps({"session_1": messages}))
    app.do(["realtalk", "predict", "--chat", str(path), "--ask", "What did Ann bake?", *RULES])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("read: 2 messages; left out: duplicate id 1, no message 1; odd: 4")
    assert "quirks.csv of notebook 21" in last
    assert "times: 0 of 2 messages of chat have a time that can be read" in last


def test_the_page_holds_every_message_and_each_link_leads_somewhere(tmp_path, sample, built):
    path = tmp_path / "chat.html"
    app.do(["realtalk", "predict", "--chat", str(CHAT), "--page", str(path), *RULES])
    text = path.read_text(encoding="utf-8")
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(sample.position) <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "<script" not in text
    assert text.count('<div class="segment"') == len(built.segments)
    assert "default-src 'none'; connect-src 'none'; style-src 'sha256-" in text


def test_texts_of_a_chat_cannot_break_its_page(make_chat):
    talk = [("Ann", "<script>alert(1)</script>"), ("Ben", "</li>&\"'")]
    built = index.build(make_chat(talk, qa=[{"question": "<b>Who?</b>"}]), "hashing")
    parts = page.sections(built, list(agent.predict(built, search.Hand())))
    text = pages.document("<i>", "?", "", parts, "chat.css")
    for markup in ("<script", "<b>Who", "<i>"):
        assert markup not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


# ── the public benchmark ─────────────────────────────────────────────────────────────────────────────


def asked_of(chat, count=None):
    return lmeb.ChatQuestions(chat, chat.questions[:count], {})


def test_bm25_is_that_of_the_public_code_over_one_corpus(sample):
    bm25s, stemming = pytest.importorskip("bm25s"), pytest.importorskip("Stemmer")
    tokens = {"stopwords": "en", "stemmer": stemming.Stemmer("english"), "show_progress": False}
    chats = [sample, corpus.read_chat(OTHER)]
    texts = bm25s.tokenize(chats[0].texts + chats[1].texts, **tokens)
    public = bm25s.BM25()
    public.index(texts, show_progress=False)
    orders = iter(lmeb.by_bm25([asked_of(chat, 12) for chat in chats], lmeb.plain))
    start = 0
    for chat in chats:
        end = start + len(chat.messages)
        for question in chat.questions[:12]:
            (words,) = bm25s.tokenize([question.text], return_ids=False, **tokens)
            scores = public.get_scores(words)[start:end]
            falling = np.sort(scores)[::-1]
            assert scores[next(orders)] == pytest.approx(falling, abs=1e-4)
        start = end


def test_texts_alone_know_no_speaker_time_session_order_or_photo(sample):
    alone = lmeb.texts_alone(sample)
    scrambled = []
    for i, message in enumerate(reversed(sample.messages)):
        bare = message._replace(position=i, session=1, speaker="X", time=None)
        scrambled.append(bare._replace(caption="a cat", photo=True))
    other = replace(sample, messages=tuple(scrambled), speakers=("X", "Y"))
    assert lmeb.texts_alone(other) == replace(alone, speakers=())
    assert sorted(alone.position) == sorted(sample.position)
    assert alone.ids([0]) != sample.ids([0])
    assert corpus.evidence(alone, sample.questions[0], "strict").positions != ()


@pytest.mark.slow
def test_each_question_ranks_its_own_chat_and_counts_once(sample):
    pytest.importorskip("bm25s")
    config = RealTalkConfig(data=str(CHAT), questions=0)
    ranks = lmeb.measure(config).set_index("ranker")
    gold = corpus.gold(sample, "strict")
    questions = [question for question in sample.questions if question.index in gold]
    orders = lmeb.by_bm25([lmeb.ChatQuestions(sample, questions, gold)], lmeb.plain)
    recalls = []
    for question, order in zip(questions, orders, strict=True):
        recalls.append(evidence.rank_scores(order, gold[question.index])["r@10"])
    recall = ranks["r@10"]
    assert set(ranks["n"]) == {len(gold)}
    assert recall["BM25, text"] == pytest.approx(np.mean(recalls))
    assert recall["ours, all that a chat shows"] > recall["ours, texts alone"]
    assert {"multi_hop ndcg@10", "temporal_reasoning r@10", "commonsense r@10"} <= set(ranks)


def test_the_test_chats_stay_unscored_and_scripts_that_moved_are_named(make_chat, monkeypatch):
    chat = make_chat([("Ann", "a")], name="Chat_9_Ann_Ben")
    monkeypatch.setattr(compare.study, "chats", lambda _: [chat])
    refused("test split", lmeb.measure, RealTalkConfig(), error=RunError)
    refused("benchmarks/lmeb.py", app.do, ["realtalk", "evaluate", "--protocol", "lmeb"])
    refused("benchmarks/teach_ranker.py", app.do, ["realtalk", "evaluate", "--teach"])
