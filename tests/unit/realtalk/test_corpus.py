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
CHATS = paths.samples() / "realtalk"
NAMES = {"kate": "Kate", "tom": "Tom", "elise": "elise"}
DAY = dt.date(2024, 1, 10)  # a Wednesday


def chat_of(messages, **extra):
    names = {"speaker_1": "Ann", "speaker_2": "Ben"}
    return corpus.parse_chat({"name": names, "session_1": messages, **extra}, "c")


def test_the_sample_keeps_what_the_issue_asks_of_it(sample):
    assert len(sample.messages) >= 300
    assert len(sample.questions) >= 30
    assert len(corpus.gold(sample)) >= 30
    assert 20 <= (sample.messages[-1].time - sample.messages[0].time).days <= 21
    assert not sample.quirks
    text = (paths.samples() / "realtalk" / "Chat_0_Mira_Tobias.json").read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert json.loads(text)["name"] == {"speaker_1": "Mira", "speaker_2": "Tobias"}
    assert len(sample.position) == len(sample.messages)


def test_positions_count_in_file_order_and_sessions_by_number(make_chat):
    record = {f"session_{n}": [{**MESSAGE, "dia_id": f"D{n}:1", "clean_text": str(n)}] for n in (10, 9, 2)}
    assert [m.text for m in corpus.parse_chat(record, "c").messages] == ["2", "9", "10"]
    chat = make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")])
    assert [(m.position, m.session, m.id) for m in chat.messages] == [
        (0, 1, "D1:1"), (1, 1, "D1:2"), (2, 2, "D2:1"),
    ]  # fmt: skip


@pytest.mark.parametrize("entry, kind, kept", [
    ({**MESSAGE, "dia_id": "D1:2", "clean_text": "  "}, "empty text", True),
    ({**MESSAGE, "dia_id": "D1:2", "clean_text": None}, "empty text", True),
    ({**MESSAGE, "dia_id": "D1:2", "speaker": "Eve"}, "unknown speaker", True),
    (MESSAGE, "duplicate id", False), ({**MESSAGE, "dia_id": ""}, "missing id", False),
    ({**MESSAGE, "dia_id": "D1:2", "date_time": "99.99.2024, 10:00:00"}, "broken time", True),
    ({**MESSAGE, "dia_id": "D1:2", "date_time": "01.01.2023, 10:00:00"}, "time goes back", True),
    ("not a message", "no message", False),
])  # fmt: skip
def test_what_is_broken_is_reported_and_not_fatal(entry, kind, kept):
    chat = chat_of([MESSAGE, entry])
    assert [q.kind for q in chat.quirks] == [kind]
    assert len(chat.messages) == 1 + kept
    if kind == "broken time":  # takes the time before
        assert chat.messages[1].time == chat.messages[0].time


def test_files_without_messages_are_refused_and_questions_that_are_none_left_out(tmp_path):
    refused("no message", corpus.parse_chat, {"qa": []}, "c")
    path = tmp_path / "x.json"
    path.write_text("[1, 2")
    refused("cannot be read as a chat", corpus.read_chat, path)
    path.write_text("[]")
    refused("expected one JSON object", corpus.read_chat, path)
    path.write_text('{"qa": ' + "[" * 10**5 + "]" * 10**5 + "}")
    refused(r"x.json cannot be read as a chat", corpus.read_chat, path)
    refused("no chat in", corpus.read_folder, tmp_path / "nowhere")
    qa = [{"question": "How many?", "answer": 3, "evidence": "D1:1", "category": 1}, {"answer": "x"}, "?"]
    chat = chat_of([MESSAGE], qa=qa)
    assert [(q.index, q.answer, q.evidence) for q in chat.questions] == [(0, "3", ("D1:1",))]
    assert [q.kind for q in chat.quirks] == ["no question"] * 2


def test_locomo_is_read_by_its_conversation_key():
    said = {"speaker": "Ann", "dia_id": "D1:1", "text": "hi", "img_url": ["u"], "blip_caption": "a cat"}
    opened = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [said]}
    record = {
        "conversation": {"speaker_a": "Ann", "speaker_b": "Ben", **opened},
        "qa": [{"question": "q?", "adversarial_answer": "no", "evidence": ["D1:1"], "category": 5}],
    }
    chat = corpus.parse_chat(record, "Chat_9_Ann_Ben")
    assert chat.schema == corpus.LOCOMO
    assert chat.messages[0].photo
    assert chat.messages[0].caption == "a cat"
    assert chat.messages[0].time.isoformat() == "2023-05-08T13:56:00"
    assert chat.questions[0].unanswerable
    assert chat.questions[0].trap == "no"
    assert chat.questions[0].accepted == ()
    assert corpus.split_of(chat) == "other"  # LoCoMo has no test split of ours


def test_the_split_follows_the_file_name_and_the_digest_the_messages(make_chat):
    split = {n: corpus.split_of(make_chat([("Ann", "a")], name=f"Chat_{n}_A_B")) for n in (1, 7, 8, 10, 11)}
    assert split == {1: "train", 7: "train", 8: "test", 10: "test", 11: "other"}
    plain = make_chat([("Ann", "a")])
    asked = make_chat([("Ann", "a")], qa=[{"question": "q?", "evidence": ["D1:1"]}], name="other")
    assert plain.digest == asked.digest != make_chat([("Ann", "b")]).digest


def test_times_of_both_schemas():
    assert corpus.read_time("31.01.2024, 18:05:00").isoformat() == "2024-01-31T18:05:00"
    assert corpus.read_time("12:05 am on 1 June, 2023").isoformat() == "2023-06-01T00:05:00"
    assert corpus.read_time("31.02.2024, 18:05:00") is None
    assert corpus.read_time(None) is None
    found = wording.find_dates("in January 2024, Sept 2023, xyz 2 or ma 3", dt.date(2024, 5, 1))
    assert [str(span.start) for span in found] == ["2024-01-01", "2023-09-01"]


def test_the_quirk_report_counts_slips_of_the_annotation(sample):
    report = describe.quirks([sample]).set_index("quirk")["count"]
    assert report["evidence string repaired"] == 3
    assert report["evidence id of a dropped photo"] == 2
    assert report["no evidence given"] == 1


def test_half_a_character_is_replaced_and_reported_wherever_it_stands(tmp_path):
    record = {
        "session_1": [{**MESSAGE, "clean_text": "cut \ud83d off"}],
        "qa": [{"question": "What \udfff?", "evidence": ["D1:1"], "category": 1}],
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    chat = corpus.read_chat(path)
    assert (chat.messages[0].text, chat.questions[0].text) == ("cut \ufffd off", "What \ufffd?")
    places = [("session_1[0].clean_text",), ("qa[0].question",)]
    assert [(q.kind, q.place) for q in chat.quirks] == [("broken character", place) for place in places]
    chat.questions[0].text.encode("utf-8")


@pytest.mark.parametrize("given, evidence, category, kinds", [
    ({"evidence": ["D1:1", 7, None], "category": 2}, ("D1:1",), 2, ["evidence is no text"]),
    ({"evidence": {"id": "D1:1"}, "category": "3"}, (), 3, ["evidence is no text"]),
    ({"evidence": None, "category": "when"}, (), 0, ["unknown category"]),
    ({"evidence": "D1:1", "category": 10**30}, ("D1:1",), 0, ["unknown category"]), ({}, (), 0, []),
])  # fmt: skip
def test_odd_annotations_are_counted_and_not_lost_in_silence(given, evidence, category, kinds):
    chat = chat_of([MESSAGE], qa=[{"question": "Who?", **given}])
    found = chat.questions[0]
    assert (found.evidence, found.category, [q.kind for q in chat.quirks]) == (evidence, category, kinds)


def chat_with(evidence, photo_at=(), missing=()):
    """Twelve messages D1:1 … D1:12, some with photo, some dropped; one question."""
    session = [
        MESSAGE | {"clean_text": f"m{i}", "dia_id": f"D1:{i}", "img_file": ["x.jpg"] * (i in photo_at)}
        for i in range(1, 13)
        if i not in missing
    ]
    return chat_of(session, qa=[{"question": "q?", "evidence": evidence}])


def ids(chat, reading):
    found = corpus.evidence(chat, chat.questions[0], reading)
    return chat.ids(found.positions), list(found.unresolved)


@pytest.mark.parametrize("evidence, strict, valid", [
    (["D1:2"], ["D1:2"], ["D1:2"]), (["D1:2", "D1:2"], ["D1:2"], ["D1:2"]),
    (["D1:2; D1:4"], [], ["D1:2", "D1:4"]), (["D1;5"], [], ["D1:5"]), (["D 1:8"], [], ["D1:8"]),
    (["1:9"], [], ["D1:9"]), (["D1:4. D1:5"], [], ["D1:4", "D1:5"]), (["D1:6."], [], ["D1:6"]),
    (["D1:05"], [], ["D1:5"]), (["D:1:11"], [], ["D1:11"]), (["D1:3-D1:5"], [], ["D1:3", "D1:4", "D1:5"]),
    (["D1:3-D1:5, D1:9"], [], ["D1:3", "D1:4", "D1:5", "D1:9"]),
])  # fmt: skip
def test_slips_are_repaired_by_valid_and_not_by_strict(evidence, strict, valid):
    chat = chat_with(evidence)
    assert ids(chat, corpus.STRICT)[0] == strict
    assert ids(chat, corpus.VALID) == (valid, [])


@pytest.mark.parametrize("text", ["", "D:56", "D58", "somewhere"])
def test_what_names_no_message_is_counted_and_not_scored(text):
    chat = chat_with([text])
    for reading in corpus.READINGS:
        assert ids(chat, reading) == ([], [text])
    assert corpus.gold(chat) == {}


def test_a_missing_photo_moves_to_the_nearest_photo_only_when_repaired():
    chat = chat_with(["D1:6"], photo_at=(2, 8), missing=(6,))
    assert ids(chat, corpus.VALID) == ([], ["D1:6"])
    assert ids(chat, corpus.REPAIRED) == (["D1:8"], [])  # 8 is two away, 2 is four away
    between = chat_with(["D1:6"], (4, 8), (6,))
    assert ids(between, corpus.REPAIRED)[0] == ["D1:4"]  # of two as near the earlier
    assert ids(chat_with(["D1:12"], (5,), (12,)), corpus.REPAIRED)[0] == []  # seven away
    refused("strict, valid, repaired", ids, chat, "loose")


def test_derived_arcs_are_questions_over_three_sessions(make_chat):
    qa = [
        {"question": "long?", "evidence": ["D3:1", "D1:1", "D2:2", "D1:2"]},
        {"question": "short?", "evidence": ["D1:1", "D2:1"]},
    ]
    (case,) = arcs.derive(make_chat(*[[("Ann", "a"), ("Ben", "b")]] * 3, qa=qa))
    assert [phase.ids for phase in case.phases] == [("D1:1", "D1:2"), ("D2:2",), ("D3:1",)]


def test_arc_files_round_trip_and_say_everything_that_is_wrong(make_chat, tmp_path):
    chat = make_chat([("Ann", "a"), ("Ben", "b")], [("Ann", "c")], name="c")
    good = {"name": "n", "chat": "c", "question": "q?", "phases": [{"ids": ["D1:1"]}, {"ids": ["D2:1"]}]}
    assert arcs.check(good, [chat]) == []
    bad = good | {"phases": [{"ids": ["D2:1", "D9:9"]}, {"ids": ["D1:1", "D2:1"]}]}
    problems = " | ".join(arcs.check(bad, [chat]))
    assert all(part in problems for part in ("no message 'D9:9'", "stands in two phases", "not in order"))
    formless = " | ".join(arcs.check({"name": "n", "chat": "c", "phases": [{}, {"ids": []}]}, [chat]))
    assert all(part in formless for part in ("question", "phases.0.ids", "phases.1.ids"))
    path = tmp_path / "arcs.json"
    arcs.write(path, [arcs.Arc(**good)])
    assert arcs.read(path, [chat]) == [arcs.Arc(**good)]
    path.write_text('{"format": "crs-arc-1", "cases": [{}]}')
    refused(r"cases\[0\], name", arcs.read, path, [chat])
    path.write_text("{}")
    refused("crs-arc-1", arcs.read, path, [chat])


def test_questions_and_visits_are_counted_as_their_tables_say(sample, make_chat, told):
    rows = describe.questions([sample])
    gold = corpus.gold(sample)
    assert len(rows) == len(sample.questions)
    assert (rows["gold"] > 0).sum() == len(gold)
    assert rows["apart"].sum() == sum(len(corpus.sessions_of(sample, sorted(p))) > 1 for p in gold.values())
    odd = sum(not q.evidence or any(e not in sample.position for e in q.evidence) for q in sample.questions)
    assert rows["odd"].sum() == odd == 6
    assert len(describe.spoken(rows)) == rows.loc[rows["named"] == 1, "gold"].sum()
    assert describe.questions([make_chat([("Ann", "Hello")])]).empty
    rows = scoring.visits(told)
    assert rows["question"].is_unique
    assert rows["given"].all()
    assert rows["again"].sum() == sum(len(record["trace"]) > 5 for record in told) > 0
    assert rows["ids"].tolist() == [len(record["narrative"]) for record in told]
    assert scoring.visits([]).empty


@pytest.mark.subprocess
def test_the_sample_is_what_its_generator_makes(tmp_path):
    command = [sys.executable, str(CHATS / "make_sample.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, env=dict(os.environ) | {"PYTHONPATH": str(paths.ROOT)})
    made = sorted(tmp_path.iterdir())
    assert [path.name for path in made] == [
        "Chat_11_Noor_Felix.json", "Chat_12_Ayo_Greta.json", "Chat_13_Lucia_Hendrik.json", "arcs.json",
    ]  # fmt: skip
    for path in made:
        assert path.read_bytes() == (CHATS / path.name).read_bytes()
        assert "{" not in "".join(text for text in _texts(json.loads(path.read_text())))


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


@pytest.mark.parametrize("question, kind, first", [
    ("When did Kate start skiing?", "when", "I start skiing"),
    ("What are Kate's hobbies?", "list", "my hobbies"),
    ("Which cities have both, Kate and Tom, been to?", "list", "cities we been to"),
    ("How many cats does Tom have?", "count", "cats I have"),
    ("How long has Kate lived in Rome?", "how long", "I lived in Rome"),
    ("Does Kate like her job?", "yes-no", "I like my job"), ("Where is Tom from?", "where", "I from"),
    ("Why did Tom leave?", "why", "I leave"), ("Who is Kate's sister?", "who", "my sister"),
    ("What did Tom buy?", "what", "I buy"),
])  # fmt: skip
def test_kind_and_first_person(question, kind, first):
    made = wording.plan(question, NAMES, DAY)
    assert (made.kind, made.first_person) == (kind, first)


def test_a_plan_names_people_days_photos_and_terms_and_learns_names_from_calls(make_chat):
    made = wording.plan("What photo did Kate send on 05.01.2024?", NAMES, DAY)
    assert made.speakers == ("Kate",)
    assert made.photo
    assert made.windows == (("2024-01-05", "2024-01-05"),)
    assert "kate" not in made.terms
    assert "photo" in made.terms
    assert "2024" not in " ".join(made.terms)
    both = wording.plan("What do Kate and Tom cook?", NAMES, DAY)
    assert both.speakers == ("Kate", "Tom")
    assert both.many
    assert wording.plan("Which pets are there?", NAMES, DAY).speakers == ()
    calls = [("Ben", "Hey Katie! How are you?"), ("Ann", "Good, and you?")] * 3
    assert wording.learn_names(make_chat(calls))["katie"] == "Ann"
    assert "katie" not in wording.learn_names(make_chat([*calls, ("Ann", "a katie is a kind of bird")]))
    assert "katie" not in wording.learn_names(make_chat(calls[:4]))  # twice is not enough


@pytest.mark.parametrize("word, speaker", [
    ("Kate", "Kate"), ("Kate's", "Kate"), ("Elisa", "elise"), ("elise", "elise"), ("Berlin", None),
    ("Ka", None),
])  # fmt: skip
def test_a_word_means_a_speaker_by_name_or_near_spelling(word, speaker):
    assert wording.speaker_of(word, NAMES) == speaker


def test_a_word_without_end_is_like_no_name():
    name = "E" + "l" * 100_000
    assert wording.speaker_of(name, {"elise": "Elise", f"{name.lower()}k": "K"}) is None
    assert wording.speaker_of(name, {name.lower(): "K"}) == "K"


@pytest.mark.parametrize(("text", "start", "end"), [
    *((text, day, day) for text, day in (
        ("on 31.12.2023", "2023-12-31"), ("2024-02-01", "2024-02-01"), ("5 January", "2024-01-05"),
        ("December 30th", "2023-12-30"),  # the nearest year
        ("January 5th, 2021", "2021-01-05"), ("yesterday", "2024-01-09"), ("last night", "2024-01-09"),
        ("tomorrow", "2024-01-11"), ("three days ago", "2024-01-07"), ("last friday", "2024-01-05"),
        ("next monday", "2024-01-15"), ("New Year's eve", "2023-12-31"),
    )),
    ("in two weeks", "2024-01-21", "2024-01-27"), ("last week", "2024-01-01", "2024-01-07"),
    ("next week", "2024-01-15", "2024-01-21"), ("this weekend", "2024-01-13", "2024-01-14"),
    ("last summer", "2023-06-01", "2023-08-31"), ("in the spring of 2024", "2024-03-01", "2024-05-31"),
    ("a few years ago", "2021-01-01", "2021-12-31"), ("in November 2022", "2022-11-01", "2022-11-30"),
    ("in 2019", "2019-01-01", "2019-12-31"),
])  # fmt: skip
def test_date_expressions_become_day_ranges(text, start, end):
    (span,) = wording.find_dates(text, DAY)
    assert (span.start.isoformat(), span.end.isoformat()) == (start, end)


@pytest.mark.parametrize("text", ["31.02.2024", "99.99.2024", "may be", "room 101", "version 1.2.3456", ""])
def test_what_is_no_date_is_none(text):
    assert [s for s in wording.find_dates(text, DAY) if s.exact] == []


@given(st.text(max_size=60), st.dates(dt.date(1990, 1, 1), dt.date(2090, 1, 1)))
def test_ranges_never_end_before_they_start(text, today):
    assert all(span.start <= span.end for span in wording.find_dates(text + " last week 3 days ago", today))


@pytest.mark.parametrize("group", [
    ["study", "studies", "studied", "studying"], ["ski", "skiing"], ["city", "cities"], ["run", "running"],
    ["watch", "watches"],
])  # fmt: skip
def test_inflected_forms_share_a_stem(group):
    assert len({wording._stem(word) for word in group}) == 1


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=15))
def test_stems_are_never_empty_and_short_words_stay(word):
    assert wording._stem(word)
    assert len(word) > 3 or wording._stem(word) == word
