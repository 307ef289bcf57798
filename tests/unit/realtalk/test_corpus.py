"""Chats, their evidence and cases; what their words say: stems, names, days, plans."""

import datetime as dt
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import paths
from crs_lib.realtalk import arcs, corpus, describe, scoring, wording
from tests.helpers import refused, table

MESSAGE = {"clean_text": "hi", "speaker": "Ann", "date_time": "01.01.2024, 10:00:00", "dia_id": "D1:1"}
CHATS = paths.samples() / "realtalk"
NAMES = {"kate": "Kate", "tom": "Tom", "elise": "elise"}
DAY = dt.date(2024, 1, 10)  # a Wednesday


def chat_of(messages, qa=()):
    names = {"speaker_1": "Ann", "speaker_2": "Ben"}
    return corpus.parse_chat({"name": names, "session_1": messages, "qa": list(qa)}, "c")


def kinds(chat):
    return [quirk.kind for quirk in chat.quirks]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_sample_is_three_weeks_of_talk_with_questions(sample):
    days = (sample.messages[-1].time - sample.messages[0].time).days
    assert len(sample.messages) >= 300
    assert len(sample.position) == len(sample.messages)
    assert len(corpus.gold(sample)) >= 30
    assert 20 <= days <= 21
    assert sample.speakers == ("Mira", "Tobias")
    assert not sample.quirks


def test_sessions_are_in_order_of_their_numbers():
    record = {}
    for n in (10, 9, 2):
        record[f"session_{n}"] = [{**MESSAGE, "dia_id": f"D{n}:1", "clean_text": str(n)}]
    assert corpus.parse_chat(record, "c").texts == ["2", "9", "10"]


def test_positions_count_in_file_order(make_chat):
    chat = make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")])
    assert chat.sessions == (1, 1, 2)
    assert chat.ids([0, 1, 2]) == ["D1:1", "D1:2", "D2:1"]
    assert chat.positions(["D2:1", "D1:1"]) == [2, 0]


@pytest.mark.parametrize(("difference", "kind", "messages"), table(__file__, "broken_messages"))
def test_what_is_broken_is_reported_and_not_fatal(difference, kind, messages):
    chat = chat_of([MESSAGE, MESSAGE | json.loads(difference)])
    assert kinds(chat) == [kind]
    assert len(chat.messages) == messages


def test_an_entry_that_is_no_message_is_left_out():
    chat = chat_of([MESSAGE, "not a message"])
    assert kinds(chat) == ["no message"]
    assert len(chat.messages) == 1


def test_a_broken_time_is_that_of_the_message_before():
    second = MESSAGE | {"dia_id": "D1:2", "date_time": "never"}
    first, later = chat_of([MESSAGE, second]).messages
    assert later.time == first.time


@pytest.mark.parametrize(("content", "words"), table(__file__, "no_chats"))
def test_a_file_without_messages_is_refused(tmp_path, content, words):
    path = tmp_path / "x.json"
    path.write_text(content)
    refused(words, corpus.read_chat, path)


def test_a_hundred_thousand_brackets_and_a_missing_folder_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"qa": ' + "[" * 10**5 + "]" * 10**5 + "}")
    refused("x.json cannot be read as a chat", corpus.read_chat, path)
    refused("no chat in", corpus.read_folder, tmp_path / "nowhere")


def test_questions_that_are_none_are_left_out_and_counted():
    question = {"question": "How many?", "answer": 3, "evidence": "D1:1", "category": 1}
    chat = chat_of([MESSAGE], [question, {"answer": "x"}, "?"])
    (question,) = chat.questions
    assert question.index == 0
    assert question.answer == "3"
    assert question.evidence == ("D1:1",)
    assert kinds(chat) == ["no question"] * 2


@pytest.fixture
def locomo():
    """A chat in LoCoMo's schema: one message with a photo, one question without answer."""
    message = {"speaker": "Ann", "dia_id": "D1:1", "text": "hi", "img_url": ["u"], "blip_caption": "a cat"}
    body = {"speaker_a": "Ann", "speaker_b": "Ben", "session_1": [message]}
    body["session_1_date_time"] = "1:56 pm on 8 May, 2023"
    question = {"question": "q?", "adversarial_answer": "no", "evidence": ["D1:1"], "category": 5}
    return corpus.parse_chat({"conversation": body, "qa": [question]}, "Chat_9_Ann_Ben")


def test_locomo_is_read_by_its_conversation_key(locomo):
    (message,) = locomo.messages
    assert locomo.schema == corpus.LOCOMO
    assert message.photo
    assert message.caption == "a cat"
    assert message.time.isoformat() == "2023-05-08T13:56:00"
    assert corpus.split_of(locomo) == "other"  # LoCoMo has no test split of ours


def test_locomos_category_5_has_no_answer_but_a_trap(locomo):
    (question,) = locomo.questions
    assert question.unanswerable
    assert question.trap == "no"
    assert question.accepted == ()


@pytest.mark.parametrize(("number", "split"), table(__file__, "splits"))
def test_the_split_follows_the_file_name(make_chat, number, split):
    assert corpus.split_of(make_chat([("Ann", "a")], name=f"Chat_{number}_A_B")) == split


def test_the_digest_depends_on_the_messages_alone(make_chat):
    question = {"question": "q?", "evidence": ["D1:1"]}
    plain = make_chat([("Ann", "a")])
    assert plain.digest == make_chat([("Ann", "a")], qa=[question], name="other").digest
    assert plain.digest != make_chat([("Ann", "b")]).digest


@pytest.mark.parametrize(("text", "time"), table(__file__, "times"))
def test_times_of_both_schemas(text, time):
    assert corpus.read_time(text).isoformat() == time


@pytest.mark.parametrize("value", ["31.02.2024, 18:05:00", None])
def test_a_time_that_cannot_be_is_none(value):
    assert corpus.read_time(value) is None


def test_the_quirk_report_counts_slips_of_the_annotation(sample):
    report = describe.quirks([sample]).set_index("quirk")["count"]
    assert report["evidence string repaired"] == 3
    assert report["evidence id of a dropped photo"] == 2
    assert report["no evidence given"] == 1


def test_half_a_character_is_replaced_and_reported_wherever_it_stands(tmp_path):
    question = {"question": "What \udfff?", "evidence": ["D1:1"], "category": 1}
    record = {"session_1": [MESSAGE | {"clean_text": "cut \ud83d off"}], "qa": [question]}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    chat = corpus.read_chat(path)
    assert chat.texts == ["cut \ufffd off"]
    assert chat.questions[0].text == "What \ufffd?"
    assert kinds(chat) == ["broken character"] * 2
    assert chat.quirks[0].place == ("session_1[0].clean_text",)
    assert chat.quirks[1].place == ("qa[0].question",)


@pytest.mark.parametrize(("annotation", "evidence", "category", "quirks"), table(__file__, "odd_annotations"))
def test_odd_annotations_are_counted_and_not_lost_in_silence(annotation, evidence, category, quirks):
    question = {"question": "Who?"} | json.loads(annotation)
    chat = chat_of([MESSAGE], [question])
    assert list(chat.questions[0].evidence) == evidence
    assert chat.questions[0].category == category
    assert kinds(chat) == quirks


# ── evidence and cases ───────────────────────────────────────────────────────────────────────────────


def chat_with(evidence, photo_at=(), missing=0):
    """Twelve messages D1:1 … D1:12, some with photo, one of them dropped; one question."""
    session = []
    for i in range(1, 13):
        message = MESSAGE | {"clean_text": f"m{i}", "dia_id": f"D1:{i}"}
        if i in photo_at:
            message["img_file"] = ["x.jpg"]
        if i != missing:
            session.append(message)
    return chat_of(session, [{"question": "q?", "evidence": evidence}])


def gold_ids(chat, reading):
    return chat.ids(corpus.evidence(chat, chat.questions[0], reading).positions)


@pytest.mark.parametrize(("evidence", "strict", "valid"), table(__file__, "slips"))
def test_slips_are_repaired_by_valid_and_not_by_strict(evidence, strict, valid):
    chat = chat_with(evidence)
    assert gold_ids(chat, corpus.STRICT) == strict
    assert gold_ids(chat, corpus.VALID) == valid
    assert corpus.evidence(chat, chat.questions[0]).unresolved == ()


@pytest.mark.parametrize("reading", corpus.READINGS)
@pytest.mark.parametrize("text", ["", "D:56", "D58", "somewhere"])
def test_what_names_no_message_is_counted_and_not_scored(text, reading):
    chat = chat_with([text])
    gold = corpus.evidence(chat, chat.questions[0], reading)
    assert gold == ((), (text,))
    assert corpus.gold(chat) == {}


@pytest.mark.parametrize(("photo_at", "missing", "ids"), table(__file__, "photos"))
def test_a_missing_photo_moves_to_the_nearest_photo_only_when_repaired(photo_at, missing, ids):
    chat = chat_with([f"D1:{missing}"], photo_at, missing)
    assert gold_ids(chat, corpus.VALID) == []
    assert gold_ids(chat, corpus.REPAIRED) == ids
    refused("strict, valid, repaired", gold_ids, chat, "loose")


def test_derived_arcs_are_questions_over_three_sessions(make_chat):
    long = {"question": "long?", "evidence": ["D3:1", "D1:1", "D2:2", "D1:2"]}
    short = {"question": "short?", "evidence": ["D1:1", "D2:1"]}
    sessions = [[("Ann", "a"), ("Ben", "b")]] * 3
    (case,) = arcs.derive(make_chat(*sessions, qa=[long, short]))
    assert [phase.ids for phase in case.phases] == [("D1:1", "D1:2"), ("D2:2",), ("D3:1",)]


@pytest.fixture
def two_sessions(make_chat):
    return make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")], name="c")


CASE = {"name": "n", "chat": "c", "question": "q?"}
GOOD_CASE = CASE | {"phases": [{"ids": ["D1:1"]}, {"ids": ["D2:1"]}]}


def test_arc_files_round_trip(two_sessions, tmp_path):
    path = tmp_path / "arcs.json"
    case = arcs.Arc(**GOOD_CASE)
    arcs.write(path, [case])
    assert arcs.read(path, [two_sessions]) == [case]
    assert arcs.read(tmp_path, [two_sessions]) == [case]  # c.arc.json of the folder


def test_a_wrong_case_says_everything_that_is_wrong(two_sessions):
    wrong = CASE | {"phases": [{"ids": ["D2:1", "D9:9"]}, {"ids": ["D1:1", "D2:1"]}]}
    faults = " | ".join(arcs.check(wrong, [two_sessions]))
    assert "no message 'D9:9'" in faults
    assert "stands in two phases" in faults
    assert "not in order" in faults
    assert arcs.check(GOOD_CASE, [two_sessions]) == []


def test_a_case_without_form_names_its_fields(two_sessions):
    case = {"name": "n", "chat": "c", "phases": [{}, {"ids": []}]}
    faults = " | ".join(arcs.check(case, [two_sessions]))
    for field in ("question", "phases.0.ids", "phases.1.ids"):
        assert field in faults


@pytest.mark.parametrize(("content", "words"), table(__file__, "no_cases"))
def test_a_file_that_holds_no_cases_is_refused(two_sessions, tmp_path, content, words):
    path = tmp_path / "arcs.json"
    path.write_text(content)
    refused(words, arcs.read, path, [two_sessions])


def test_tables_count_questions_as_the_chat_has_them(sample, make_chat):
    rows = describe.questions([sample])
    gold = corpus.gold(sample)
    apart = 0
    for positions in gold.values():
        apart += len(sample.sessions_of(positions)) > 1
    assert len(rows) == len(sample.questions)
    assert (rows["gold"] > 0).sum() == len(gold)
    assert rows["apart"].sum() == apart
    assert rows["odd"].sum() == 6
    assert len(describe.spoken(rows)) == rows.loc[rows["named"] == 1, "gold"].sum()
    assert describe.questions([make_chat([("Ann", "Hello")])]).empty


def test_visits_count_searches_answers_and_narratives(predictions):
    rows = scoring.visits(predictions)
    again = 0
    sizes = []
    for record in predictions:
        again += len(record["trace"]) > 5
        sizes.append(len(record["narrative"]))
    assert rows["question"].is_unique
    assert rows["given"].all()
    assert again > 0
    assert rows["again"].sum() == again
    assert rows["ids"].tolist() == sizes
    assert scoring.visits([]).empty


@pytest.mark.subprocess
def test_the_sample_is_what_its_generator_makes(tmp_path):
    command = [sys.executable, str(CHATS / "make_sample.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(paths.ROOT)})
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == table(__file__, "generated")
    for path in files:
        content = path.read_bytes()
        assert content == (CHATS / path.name).read_bytes()
        assert "{" not in "".join(texts_in(json.loads(content)))  # no slot is left open


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts_in(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("question", "kind", "first"), table(__file__, "questions"))
def test_kind_and_first_person(question, kind, first):
    plan = wording.plan(question, NAMES, DAY)
    assert plan.kind == kind
    assert plan.first_person == first


def test_a_plan_names_people_days_photos_and_terms():
    plan = wording.plan("What photo did Kate send on 05.01.2024?", NAMES, DAY)
    assert plan.speakers == ("Kate",)
    assert plan.photo
    assert plan.windows == (("2024-01-05", "2024-01-05"),)
    assert plan.terms == ("photo", "send")


def test_a_question_about_two_people_wants_many_messages_and_one_about_none_names_nobody():
    both = wording.plan("What do Kate and Tom cook?", NAMES, DAY)
    assert both.speakers == ("Kate", "Tom")
    assert both.many
    assert wording.plan("Which pets are there?", NAMES, DAY).speakers == ()


def test_a_name_is_learnt_from_three_calls(make_chat):
    calls = [("Ben", "Hey Katie! How are you?"), ("Ann", "Good, and you?")] * 3
    assert wording.learn_names(make_chat(calls))["katie"] == "Ann"
    assert "katie" not in wording.learn_names(make_chat([*calls, ("Ann", "a katie is a kind of bird")]))
    assert "katie" not in wording.learn_names(make_chat(calls[:4]))  # twice is not enough


@pytest.mark.parametrize(("word", "speaker"), table(__file__, "names"))
def test_a_word_means_a_speaker_by_name_or_near_spelling(word, speaker):
    assert wording.speaker_of(word, NAMES) == (speaker or None)


def test_a_word_without_end_is_like_no_name():
    name = "E" + "l" * 100_000
    assert wording.speaker_of(name, {"elise": "Elise", f"{name.lower()}k": "K"}) is None
    assert wording.speaker_of(name, {name.lower(): "K"}) == "K"


@pytest.mark.parametrize(("text", "start", "end"), table(__file__, "days"))
def test_date_expressions_become_day_ranges(text, start, end):
    (span,) = wording.find_dates(text, DAY)
    assert span.start.isoformat() == start
    assert span.end.isoformat() == end


@pytest.mark.parametrize("text", table(__file__, "no_days"))
def test_what_is_no_date_is_none(text):
    for span in wording.find_dates(text, DAY):
        assert not span.exact


@given(st.text(max_size=60), st.dates(dt.date(1990, 1, 1), dt.date(2090, 1, 1)))
def test_ranges_never_end_before_they_start(text, today):
    for span in wording.find_dates(text + " last week 3 days ago", today):
        assert span.start <= span.end


@pytest.mark.parametrize("forms", table(__file__, "same_stem"))
def test_inflected_forms_share_a_stem(forms):
    assert len(set(wording.content_words(forms))) == 1


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=15))
def test_stems_are_never_empty_and_short_words_stay(word):
    for stem in wording.content_words(word):
        assert stem
        assert len(word) > 3 or stem == word
