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
from tests.helpers import refused

MESSAGE = {"clean_text": "hi", "speaker": "Ann", "date_time": "01.01.2024, 10:00:00", "dia_id": "D1:1"}
SECOND = {**MESSAGE, "dia_id": "D1:2"}
CHATS = paths.samples() / "realtalk"
NAMES = {"kate": "Kate", "tom": "Tom", "elise": "elise"}
DAY = dt.date(2024, 1, 10)  # a Wednesday


def chat_of(messages, **extra):
    names = {"speaker_1": "Ann", "speaker_2": "Ben"}
    return corpus.parse_chat({"name": names, "session_1": messages, **extra}, "c")


def kinds(chat):
    return [quirk.kind for quirk in chat.quirks]


# ── files ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_sample_is_three_weeks_of_talk_with_questions(sample):
    assert len(sample.messages) >= 300
    assert len(sample.position) == len(sample.messages)
    assert len(corpus.gold(sample)) >= 30
    assert 20 <= (sample.messages[-1].time - sample.messages[0].time).days <= 21
    assert sample.speakers == ("Mira", "Tobias")
    assert not sample.quirks


def test_positions_count_in_file_order_and_sessions_by_number(make_chat):
    record = {}
    for n in (10, 9, 2):
        record[f"session_{n}"] = [{**MESSAGE, "dia_id": f"D{n}:1", "clean_text": str(n)}]
    assert corpus.parse_chat(record, "c").texts == ["2", "9", "10"]
    chat = make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")])
    assert chat.sessions == (1, 1, 2)
    assert chat.ids([0, 1, 2]) == ["D1:1", "D1:2", "D2:1"]
    assert chat.positions(["D2:1", "D1:1"]) == [2, 0]


@pytest.mark.parametrize(("entry", "kind", "stays"), [
    ({**SECOND, "clean_text": "  "}, "empty text", True),
    ({**SECOND, "clean_text": None}, "empty text", True),
    ({**SECOND, "speaker": "Eve"}, "unknown speaker", True),
    (MESSAGE, "duplicate id", False),
    ({**MESSAGE, "dia_id": ""}, "missing id", False),
    ({**SECOND, "date_time": "99.99.2024, 10:00:00"}, "broken time", True),
    ({**SECOND, "date_time": "01.01.2023, 10:00:00"}, "time goes back", True),
    ("not a message", "no message", False),
])  # fmt: skip
def test_what_is_broken_is_reported_and_not_fatal(entry, kind, stays):
    chat = chat_of([MESSAGE, entry])
    assert kinds(chat) == [kind]
    assert len(chat.messages) == 1 + stays


def test_a_broken_time_is_that_of_the_message_before():
    chat = chat_of([MESSAGE, {**SECOND, "date_time": "never"}])
    assert chat.messages[1].time == chat.messages[0].time


@pytest.mark.parametrize(("content", "words"), [
    ("[1, 2", "cannot be read as a chat"),
    ("[]", "expected one JSON object"),
    ('{"qa": []}', "no message"),
    ('{"qa": ' + "[" * 10**5 + "]" * 10**5 + "}", "x.json cannot be read as a chat"),
])  # fmt: skip
def test_a_file_without_messages_is_refused(tmp_path, content, words):
    path = tmp_path / "x.json"
    path.write_text(content)
    refused(words, corpus.read_chat, path)
    refused("no chat in", corpus.read_folder, tmp_path / "nowhere")


def test_questions_that_are_none_are_left_out_and_counted():
    qa = [{"question": "How many?", "answer": 3, "evidence": "D1:1", "category": 1}, {"answer": "x"}, "?"]
    chat = chat_of([MESSAGE], qa=qa)
    (question,) = chat.questions
    assert (question.index, question.answer, question.evidence) == (0, "3", ("D1:1",))
    assert kinds(chat) == ["no question"] * 2


def test_locomo_is_read_by_its_conversation_key():
    message = {"speaker": "Ann", "dia_id": "D1:1", "text": "hi", "img_url": ["u"], "blip_caption": "a cat"}
    body = {"speaker_a": "Ann", "speaker_b": "Ben", "session_1": [message]}
    body["session_1_date_time"] = "1:56 pm on 8 May, 2023"
    question = {"question": "q?", "adversarial_answer": "no", "evidence": ["D1:1"], "category": 5}
    chat = corpus.parse_chat({"conversation": body, "qa": [question]}, "Chat_9_Ann_Ben")
    assert chat.schema == corpus.LOCOMO
    assert chat.messages[0].photo
    assert chat.messages[0].caption == "a cat"
    assert chat.messages[0].time.isoformat() == "2023-05-08T13:56:00"
    assert chat.questions[0].unanswerable
    assert chat.questions[0].trap == "no"
    assert chat.questions[0].accepted == ()
    assert corpus.split_of(chat) == "other"  # LoCoMo has no test split of ours


@pytest.mark.parametrize(
    ("number", "split"), [(1, "train"), (7, "train"), (8, "test"), (10, "test"), (11, "other"), (0, "other")]
)
def test_the_split_follows_the_file_name(make_chat, number, split):
    assert corpus.split_of(make_chat([("Ann", "a")], name=f"Chat_{number}_A_B")) == split


def test_the_digest_depends_on_the_messages_alone(make_chat):
    plain = make_chat([("Ann", "a")])
    with_questions = make_chat([("Ann", "a")], qa=[{"question": "q?", "evidence": ["D1:1"]}], name="other")
    assert plain.digest == with_questions.digest
    assert plain.digest != make_chat([("Ann", "b")]).digest


@pytest.mark.parametrize(("text", "time"), [
    ("31.01.2024, 18:05:00", "2024-01-31T18:05:00"),
    ("12:05 am on 1 June, 2023", "2023-06-01T00:05:00"),
])  # fmt: skip
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
    path = tmp_path / "c.json"
    path.write_text(
        json.dumps({"session_1": [{**MESSAGE, "clean_text": "cut \ud83d off"}], "qa": [question]})
    )
    chat = corpus.read_chat(path)
    assert chat.texts == ["cut \ufffd off"]
    assert chat.questions[0].text == "What \ufffd?"
    assert kinds(chat) == ["broken character"] * 2
    assert chat.quirks[0].place == ("session_1[0].clean_text",)
    assert chat.quirks[1].place == ("qa[0].question",)


@pytest.mark.parametrize(("annotation", "evidence", "category", "quirks"), [
    ({"evidence": ["D1:1", 7, None], "category": 2}, ("D1:1",), 2, ["evidence is no text"]),
    ({"evidence": {"id": "D1:1"}, "category": "3"}, (), 3, ["evidence is no text"]),
    ({"evidence": None, "category": "when"}, (), 0, ["unknown category"]),
    ({"evidence": "D1:1", "category": 10**30}, ("D1:1",), 0, ["unknown category"]),
    ({}, (), 0, []),
])  # fmt: skip
def test_odd_annotations_are_counted_and_not_lost_in_silence(annotation, evidence, category, quirks):
    chat = chat_of([MESSAGE], qa=[{"question": "Who?", **annotation}])
    assert chat.questions[0].evidence == evidence
    assert chat.questions[0].category == category
    assert kinds(chat) == quirks


# ── evidence and cases ───────────────────────────────────────────────────────────────────────────────


def chat_with(evidence, photo_at=(), missing=()):
    """Twelve messages D1:1 … D1:12, some with photo, some dropped; one question."""
    session = []
    for i in range(1, 13):
        if i not in missing:
            photos = ["x.jpg"] * (i in photo_at)
            session.append({**MESSAGE, "clean_text": f"m{i}", "dia_id": f"D1:{i}", "img_file": photos})
    return chat_of(session, qa=[{"question": "q?", "evidence": evidence}])


def gold_ids(chat, reading):
    return chat.ids(corpus.evidence(chat, chat.questions[0], reading).positions)


@pytest.mark.parametrize(("evidence", "strict", "valid"), [
    (["D1:2"], ["D1:2"], ["D1:2"]),
    (["D1:2", "D1:2"], ["D1:2"], ["D1:2"]),
    (["D1:2; D1:4"], [], ["D1:2", "D1:4"]),
    (["D1;5"], [], ["D1:5"]),
    (["D 1:8"], [], ["D1:8"]),
    (["1:9"], [], ["D1:9"]),
    (["D1:4. D1:5"], [], ["D1:4", "D1:5"]),
    (["D1:6."], [], ["D1:6"]),
    (["D1:05"], [], ["D1:5"]),
    (["D:1:11"], [], ["D1:11"]),
    (["D1:3-D1:5"], [], ["D1:3", "D1:4", "D1:5"]),
    (["D1:3-D1:5, D1:9"], [], ["D1:3", "D1:4", "D1:5", "D1:9"]),
])  # fmt: skip
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


@pytest.mark.parametrize(("photo_at", "missing", "ids"), [
    ((2, 8), 6, ["D1:8"]),  # 8 is two away, 2 is four away
    ((4, 8), 6, ["D1:4"]),  # of two as near the earlier
    ((5,), 12, []),  # seven away
])  # fmt: skip
def test_a_missing_photo_moves_to_the_nearest_photo_only_when_repaired(photo_at, missing, ids):
    chat = chat_with([f"D1:{missing}"], photo_at, (missing,))
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


GOOD_CASE = {"name": "n", "chat": "c", "question": "q?", "phases": [{"ids": ["D1:1"]}, {"ids": ["D2:1"]}]}


def test_arc_files_round_trip(two_sessions, tmp_path):
    path = tmp_path / "arcs.json"
    arcs.write(path, [arcs.Arc(**GOOD_CASE)])
    assert arcs.read(path, [two_sessions]) == [arcs.Arc(**GOOD_CASE)]
    assert arcs.read(tmp_path, [two_sessions]) == [arcs.Arc(**GOOD_CASE)]  # c.arc.json of the folder


@pytest.mark.parametrize("fault", ["no message 'D9:9'", "stands in two phases", "not in order"])
def test_a_wrong_case_says_everything_that_is_wrong(two_sessions, fault):
    phases = [{"ids": ["D2:1", "D9:9"]}, {"ids": ["D1:1", "D2:1"]}]
    assert fault in " | ".join(arcs.check({**GOOD_CASE, "phases": phases}, [two_sessions]))
    assert arcs.check(GOOD_CASE, [two_sessions]) == []


@pytest.mark.parametrize("field", ["question", "phases.0.ids", "phases.1.ids"])
def test_a_case_without_form_names_its_fields(two_sessions, field):
    case = {"name": "n", "chat": "c", "phases": [{}, {"ids": []}]}
    assert field in " | ".join(arcs.check(case, [two_sessions]))


@pytest.mark.parametrize(("content", "words"), [
    ('{"format": "crs-arc-1", "cases": [{}]}', r"cases\[0\], name"),
    ("{}", "crs-arc-1"),
])  # fmt: skip
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
    again = sum(len(record["trace"]) > 5 for record in predictions)
    assert rows["question"].is_unique
    assert rows["given"].all()
    assert again > 0
    assert rows["again"].sum() == again
    assert rows["ids"].tolist() == [len(record["narrative"]) for record in predictions]
    assert scoring.visits([]).empty


@pytest.mark.subprocess
def test_the_sample_is_what_its_generator_makes(tmp_path):
    command = [sys.executable, str(CHATS / "make_sample.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(paths.ROOT)})
    files = sorted(tmp_path.iterdir())
    names = ["Chat_11_Noor_Felix.json", "Chat_12_Ayo_Greta.json", "Chat_13_Lucia_Hendrik.json", "arcs.json"]
    assert [path.name for path in files] == names
    for path in files:
        assert path.read_bytes() == (CHATS / path.name).read_bytes()
        assert "{" not in "".join(texts_in(json.loads(path.read_text())))  # no slot is left open


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts_in(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("question", "kind", "first"), [
    ("When did Kate start skiing?", "when", "I start skiing"),
    ("What are Kate's hobbies?", "list", "my hobbies"),
    ("Which cities have both, Kate and Tom, been to?", "list", "cities we been to"),
    ("How many cats does Tom have?", "count", "cats I have"),
    ("How long has Kate lived in Rome?", "how long", "I lived in Rome"),
    ("Does Kate like her job?", "yes-no", "I like my job"),
    ("Where is Tom from?", "where", "I from"),
    ("Why did Tom leave?", "why", "I leave"),
    ("Who is Kate's sister?", "who", "my sister"),
    ("What did Tom buy?", "what", "I buy"),
])  # fmt: skip
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
    both = wording.plan("What do Kate and Tom cook?", NAMES, DAY)
    assert both.speakers == ("Kate", "Tom")
    assert both.many
    assert wording.plan("Which pets are there?", NAMES, DAY).speakers == ()


def test_a_name_is_learnt_from_three_calls(make_chat):
    calls = [("Ben", "Hey Katie! How are you?"), ("Ann", "Good, and you?")] * 3
    assert wording.learn_names(make_chat(calls))["katie"] == "Ann"
    assert "katie" not in wording.learn_names(make_chat([*calls, ("Ann", "a katie is a kind of bird")]))
    assert "katie" not in wording.learn_names(make_chat(calls[:4]))  # twice is not enough


@pytest.mark.parametrize(("word", "speaker"), [
    ("Kate", "Kate"), ("Kate's", "Kate"), ("Elisa", "elise"), ("elise", "elise"), ("Berlin", None), ("Ka", None),
])  # fmt: skip
def test_a_word_means_a_speaker_by_name_or_near_spelling(word, speaker):
    assert wording.speaker_of(word, NAMES) == speaker


def test_a_word_without_end_is_like_no_name():
    name = "E" + "l" * 100_000
    assert wording.speaker_of(name, {"elise": "Elise", f"{name.lower()}k": "K"}) is None
    assert wording.speaker_of(name, {name.lower(): "K"}) == "K"


@pytest.mark.parametrize(("text", "start", "end"), [
    ("on 31.12.2023", "2023-12-31", "2023-12-31"),
    ("2024-02-01", "2024-02-01", "2024-02-01"),
    ("5 January", "2024-01-05", "2024-01-05"),
    ("December 30th", "2023-12-30", "2023-12-30"),  # the nearest year
    ("January 5th, 2021", "2021-01-05", "2021-01-05"),
    ("yesterday", "2024-01-09", "2024-01-09"),
    ("last night", "2024-01-09", "2024-01-09"),
    ("tomorrow", "2024-01-11", "2024-01-11"),
    ("three days ago", "2024-01-07", "2024-01-07"),
    ("last friday", "2024-01-05", "2024-01-05"),
    ("next monday", "2024-01-15", "2024-01-15"),
    ("New Year's eve", "2023-12-31", "2023-12-31"),
    ("in two weeks", "2024-01-21", "2024-01-27"),
    ("last week", "2024-01-01", "2024-01-07"),
    ("next week", "2024-01-15", "2024-01-21"),
    ("this weekend", "2024-01-13", "2024-01-14"),
    ("last month", "2023-12-01", "2023-12-31"),
    ("last summer", "2023-06-01", "2023-08-31"),
    ("in the spring of 2024", "2024-03-01", "2024-05-31"),
    ("a few years ago", "2021-01-01", "2021-12-31"),
    ("in November 2022", "2022-11-01", "2022-11-30"),
    ("Sept 2023", "2023-09-01", "2023-09-30"),
    ("in 2019", "2019-01-01", "2019-12-31"),
])  # fmt: skip
def test_date_expressions_become_day_ranges(text, start, end):
    (span,) = wording.find_dates(text, DAY)
    assert span.start.isoformat() == start
    assert span.end.isoformat() == end


@pytest.mark.parametrize("text", ["31.02.2024", "99.99.2024", "may be", "room 101", "version 1.2.3456", ""])
def test_what_is_no_date_is_none(text):
    assert not any(span.exact for span in wording.find_dates(text, DAY))


@given(st.text(max_size=60), st.dates(dt.date(1990, 1, 1), dt.date(2090, 1, 1)))
def test_ranges_never_end_before_they_start(text, today):
    for span in wording.find_dates(text + " last week 3 days ago", today):
        assert span.start <= span.end


@pytest.mark.parametrize("group", [
    ["study", "studies", "studied", "studying"], ["ski", "skiing"], ["city", "cities"], ["run", "running"],
    ["watch", "watches"],
])  # fmt: skip
def test_inflected_forms_share_a_stem(group):
    assert len(set(wording.content_words(" ".join(group)))) == 1


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=15))
def test_stems_are_never_empty_and_short_words_stay(word):
    for stem in wording.content_words(word):
        assert stem
        assert len(word) > 3 or stem == word
