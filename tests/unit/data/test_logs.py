"""Logs in every form through one door, validated; their quirks named and located."""

import gzip
import importlib.util
import itertools
import json
import re
import tracemalloc
import zipfile
from collections import deque
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.__main__ import main
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.data.logs import SessionKey, session_key
from crs_lib.systems.base import World
from tests.helpers import refused

Record = dict[str, Any]
KIT = {
    "agent": {"id": "MovieBot", "type": "BOT"}, "user": {"id": "13"},
    "dialogues": [
        {"conversation_id": "c1", "metadata": {"rating": 4}, "conversation": [
            {"participant": "AGENT", "utterance": "Welcome."},
            {"participant": "USER", "utterance": "Hello,", "intent": "GREET"},
            {"participant": "USER", "utterance": "a western?"},
            {"participant": "AGENT", "utterance": "Here is one.", "text": "kept apart"},
        ]},
        {"conversation_id": "c2", "conversation": [{"participant": "USER", "utterance": "Hi"}]},
    ],
}  # fmt: skip
ODD_TEXTS = [
    (0, "What is {'name': 'Some Film', 'year': '1999'} about?", "printed record"),
    (0, 'More like { "name": "Some Film" }', "printed record"),
    (1, "Some Film (N/A) is about a lake.", "N/A in text"),
    (1, "Based on the user's preference, see it.", "speaks of the user"),
    (1, "\x1b[?25lLoading", "control character"), (1, "See Mis\ufffdre.", "lost character"), (0, " \n", "empty utterance"), (1, "", "missing reply"),
    (3, "Try number 0.", "repeated reply"),
]  # fmt: skip
PLACE = paths.samples() / "thesis"


def plain(turns=2, **more):
    """The older form: no user_meta, no shift events, no session id."""
    conversation = []
    for i in range(turns):
        reply = {"speaker": "SYSTEM", "text": f"Try number {i}.", "constraints": {"genre": "comedy"}}
        conversation += [{"speaker": "USER", "text": f"A quiet comedy, please, take {i}."}, reply]
    return {"model_name": "gemma:2b", "true_genre": "comedy", "conversation": conversation, **more}


def rich(turns=3, shift=2, session="00007"):
    """The newer form: user_meta in every user turn, titles in every reply, one shift."""
    event = {"turn": shift, "from_focus": "genre", "to_focus": "actor", "bridge_value": "x"}
    record = plain(turns, session_id=session, shift_events=[event])
    for i, entry in enumerate(record["conversation"]):
        turn, now = i // 2 + 1, i // 2 + 1 == shift
        if i % 2:
            entry["rec_titles"] = ["A", "B"]
        else:
            entry["user_meta"] = {
                "turn": turn, "constraints": {"genre": "comedy"}, "focus_field": "actor",
                "shift_event": now, "shift_event_obj": dict(event) if now else None,
            }  # fmt: skip
    return record


def write(path, content):
    """A JSON file, or lines of JSON for a list under a .jsonl name; compressed where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    many = ".jsonl" in path.name and isinstance(content, list)
    text = "".join(json.dumps(r) + "\n" for r in content) if many else json.dumps(content)  # type: ignore[attr-defined]
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path):
    return list(logs.read(path))


def said(dialogue):
    return [(turn.speaker, turn.text) for turn in dialogue.turns]


def test_both_forms_of_a_session_keep_what_they_say(tmp_path):
    (dialogue,) = read(write(tmp_path / "gemma-2b_session_gemma-2b_17.json", plain()))
    assert (dialogue.model_name, dialogue.session_id) == ("gemma:2b", "17")  # the record's name wins
    assert session_key(dialogue) == SessionKey("gemma-2b", 17)
    assert [turn.speaker for turn in dialogue.turns] == [USER, SYSTEM] * 2
    assert dialogue.turns[1].meta == {"constraints": {"genre": "comedy"}}
    bare = write(tmp_path / "llama3:instruct_session_00042.json", plain()["conversation"])  # a list of turns
    assert session_key(read(bare)[0]) == SessionKey("llama3-instruct", 42)
    record = rich()
    (dialogue,) = read(write(tmp_path / "anything.json", record))
    assert dialogue.to_json() == record and session_key(dialogue) == SessionKey("gemma-2b", 7)
    assert dialogue.shift_turns() == [2]
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(record).encode())
    assert read(tmp_path / "marked.json") == [dialogue]  # a byte-order mark is no content


@pytest.mark.parametrize(("model", "session", "key"), [
    ("ollama:llama3:instruct", "00000", ("ollama-llama3-instruct", 0)),
    ("../odd name/é:1b", 12, ("odd-name-e-1b", 12)), ("m", "a-7", ("m", "a-7")),
    ("m", "٣", ("m", "٣")),  # a digit, but no number as the tables write it
])  # fmt: skip
def test_keys_are_file_names_and_whole_numbers(tmp_path, model, session, key):
    (dialogue,) = read(write(tmp_path / "a.json", plain(model_name=model, session_id=session)))
    assert session_key(dialogue) == SessionKey(*key)  # type: ignore[arg-type]
    assert dialogue.model_name == model


def test_our_own_dialogues_come_through_unchanged(tmp_path):
    ours = Dialogue.from_json({**rich(), "seed": 3, "arm": "shift"})
    (tmp_path / "dialogues.jsonl").write_text(ours.dumps() + "\n", encoding="utf-8")
    write(tmp_path / "results.jsonl", [{"model": "gemma:2b"}])  # a run folder holds other files too
    (found,) = read(tmp_path)
    assert found == ours


def test_dialoguekit_is_merged_and_opened_by_stated_rules(tmp_path):
    first, second = read(write(tmp_path / "export.json", KIT))
    assert said(first) == [(USER, "Hello,\na western?"), (SYSTEM, "Here is one.")]
    assert first.turns[0].meta["merged"] == [{"text": "Hello,", "intent": "GREET"}, {"text": "a western?"}]
    assert first.turns[1].meta == {"original_text": "kept apart"}
    assert first.extra == {
        "source_form": "dialoguekit", "opening": ["Welcome."], "merged_utterances": 1,
        "annotations": {"user": {"id": "13"}, "metadata": {"rating": 4}},
    }  # fmt: skip
    assert session_key(first) == SessionKey("MovieBot", "c1")
    assert said(second) == [(USER, "Hi")]
    (tmp_path / "stored.jsonl").write_text(first.dumps() + "\n", encoding="utf-8")
    assert read(tmp_path / "stored.jsonl") == [first]
    report = logs.log_quirks([first, second])
    assert report[["session", "quirk"]].values.tolist() == [
        ["c1", "merged utterances"], ["c1", "opening left out"], ["c2", "missing reply"],
    ]  # fmt: skip


@given(st.lists(st.sampled_from(["USER", "AGENT"]), min_size=1, max_size=12).filter(lambda s: "USER" in s))
def test_no_word_is_lost_in_merging(speakers):
    entries = [{"participant": s, "utterance": f"w{i}"} for i, s in enumerate(speakers)]
    record = {"conversation_id": "c", "agent": "bot", "conversation": entries}
    dialogue = dialogue_of(record, RecordOrigin("here"))
    turns = [word for turn in dialogue.turns for word in turn.text.split("\n")]
    assert [*dialogue.extra.get("opening", []), *turns] == [f"w{i}" for i in range(len(speakers))]
    changes = sum(a != b for a, b in itertools.pairwise(speakers))
    assert len(dialogue.turns) == changes + 1 - (speakers[0] == "AGENT")


def test_arena_dialogues_keep_their_ratings(tmp_path):
    record = {"conv_id": "some_crs_0a1b-22", "dial_level_aggregated": {"understanding": 1}, "dialogue": [
        {"turn_ind": 0, "role": "USER", "utterance": "Something sad?"},
        {"turn_ind": 1, "role": "ASST", "utterance": "", "turn_level_aggregated": {"relevance": 2}},
    ]}  # fmt: skip
    (dialogue,) = read(write(tmp_path / "arena.json", [record]))
    assert session_key(dialogue) == SessionKey("some_crs", "some_crs_0a1b-22")
    assert dialogue.turns[1].meta["turn_level_aggregated"] == {"relevance": 2}
    assert dialogue.extra["annotations"] == {"dial_level_aggregated": {"understanding": 1}}
    assert logs.log_quirks([dialogue])["quirk"].tolist() == ["missing reply"]


@pytest.mark.parametrize("name", ["many.jsonl", "many.jsonl.gz", "many.json", "many.json.gz"])
def test_one_file_of_many_sessions(tmp_path, name):
    found = read(write(tmp_path / name, [rich(session=f"{i:05d}") for i in (3, 1, 2)]))
    assert [d.session_id for d in found] == ["00003", "00001", "00002"]  # as the file has them


def test_a_folder_is_read_by_name_numbers_by_value(tmp_path):
    for i in (10, 9, 1, 100):
        write(tmp_path / f"m_session_m_{i}.json", plain(model_name="m"))
    write(tmp_path / ".m_session_m_2.json", plain())  # hidden: half-written by somebody else
    (tmp_path / "m_judge_scores.csv").write_text("model\n")
    assert [session_key(d).session for d in read(tmp_path)] == [1, 9, 10, 100]


def test_sessions_come_before_the_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "broken_later.jsonl"
    path.write_text(json.dumps(rich()) + "\n{broken\n")
    stream = logs.read(path)
    assert next(stream).session_id == "00007"
    refused("line 2", next, stream)


def peak(path):
    """Largest number of bytes that Python objects held while a file was read through."""
    tracemalloc.start()
    deque(logs.read(path), maxlen=0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_the_number_of_sessions(tmp_path):
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    for path, n in ((few, 50), (many, 1000)):
        path.write_text("\n".join(json.dumps(rich(20, session=str(i))) for i in range(n)))
    peak(few)  # what is imported and cached once
    assert peak(many) - peak(few) < 0.05 * many.stat().st_size  # the keys of 950 sessions, not their text


def change(edit):
    record = rich()
    edit(record)
    return record


@pytest.mark.parametrize(("record", "message"), [
        (change(lambda r: r["conversation"].pop(0)), r"session '00007': turn 1 is spoken by 'SYSTEM', expected USER"),
        (change(lambda r: r["conversation"].insert(2, r["conversation"][1])), r"turn 3 is spoken by 'SYSTEM'"),
        (change(lambda r: r.update(conversation=[])), "'conversation' must be a list of turns, and not empty"),
        (change(lambda r: r["conversation"][2].pop("text")), "turn 3 must be an object with a text"),
        (change(lambda r: r.pop("conversation")), r"no known form of a conversation \(keys \['model_name'"),
        (change(lambda r: r.pop("model_name")), r"\(model_name\) is None, expected a name"),
        (change(lambda r: r.pop("session_id")), r"'session_id' is None, expected .*_session_<number>"),
        (change(lambda r: r.update(session_id=1.5)), "'session_id' is 1.5"),
        (change(lambda r: r.update(session_id=True)), "'session_id' is True"),
        (change(lambda r: r.update(true_genre=["comedy"])), r"true_genre is \['comedy'\]: .*string"),
        (change(lambda r: r.update(shift_events={"turn": 1})), "'shift_events' is .* expected a list"),
        (change(lambda r: r["shift_events"][0].update(turn="2")), "shift_events 1 turn is '2': .*integer"),
        (change(lambda r: r["shift_events"][0].update(turn=0)), "shift_events 1 turn is 0: .*greater than or equal to 1"),
        (change(lambda r: r["conversation"][0].update(user_meta=[1])), r"turn 1 user_meta is \[1\]: .*dictionary"),
        (change(lambda r: r["conversation"][3].update(rec_titles="A")), "turn 4 rec_titles is 'A': .*list"),
        ([1, 2], "entry 1: holds int, expected one conversation"),
        ({"conversation_id": "c", "agent": "b", "conversation": [{"participant": "ROBOT", "utterance": ""}]},
         "utterance 1: 'participant' is 'ROBOT', expected one of USER"),
        ({"conversation_id": "c", "agent": "b", "conversation": [{"participant": "USER", "utterance": None}]},
         "utterance 1: must be an object with an 'utterance'"),
        ({"conversation_id": "c", "agent": "b", "conversation": [{"participant": "AGENT", "utterance": "x"}]},
         "session 'c': the user says nothing"),
        ({"conversation_id": "c", "conversation": [{"participant": "USER", "utterance": "x"}]},
         "the system's name .* is None"),
])  # fmt: skip
def test_what_breaks_the_form_is_refused_with_its_place(tmp_path, record, message):
    refused(rf"^odd\.json.*{message}", read, write(tmp_path / "odd.json", record))


@pytest.mark.parametrize(("name", "data", "message"), [
    ("a.jsonl", b'{"a": 1}\n{"b"\n', r"^a\.jsonl, line 1: no known form"),
    ("a.jsonl", b"\n\n{x\n", r"^a\.jsonl, line 3: not JSON .*column 2"),
    ("a.json", b"\xff\xfe{}", r"^a\.json: not UTF-8 text"), ("a.json", b"", r"^a\.json: not JSON"),
    ("a.json", b"[" * 200_000, r"^a\.json: not (a log|JSON)"), ("a.jsonl.gz", b"plain text", r"^a\.jsonl\.gz is cut off or damaged"),
    ("a.jsonl.gz", gzip.compress(b"x" * 1000, mtime=0)[:-20], r"^a\.jsonl\.gz is cut off or damaged .*fetch or pack it again"),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    refused(message, read, tmp_path / name)


def test_a_session_twice_is_refused_and_an_empty_place_says_what_was_expected(tmp_path):
    write(tmp_path / "a.jsonl", [rich(session="00007")])
    write(tmp_path / "b.jsonl", [plain(session_id=7)])
    refused(r"b\.jsonl, line 1: session 7 of 'gemma-2b' was already read from a\.jsonl", read, tmp_path)
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "absent"):
        refused(r"no log in .*\.jsonl\.gz.*data get thesis-logs-50", read, place)


def odd(edit=lambda r: None, **how):
    """The quirks of one edited session, as rows of turn, speaker, quirk."""
    record = rich(**how)
    edit(record)
    return logs.log_quirks([Dialogue.from_json(record)])[["turn", "speaker", "quirk"]].values.tolist()


def say(index, text):
    return lambda record: record["conversation"][index].update(text=text)


def test_a_plain_session_has_no_quirk_and_no_session_none():
    report = logs.log_quirks([])
    assert report.empty and logs.log_quirk_counts(report).empty and odd() == []
    assert logs.log_quirks([Dialogue.from_json(plain(session_id=1))]).empty  # no user_meta anywhere: a form


@pytest.mark.parametrize(("index", "text", "quirk"), [
    *ODD_TEXTS, (0, "I am the user of a {small} shop: 'yes'", ""), (1, "See it at N/ABC or M/N/A.", ""),
    (1, "Your preference:\ta\nb", ""),
])  # fmt: skip
def test_odd_texts_are_named_and_ordinary_ones_are_not(index, text, quirk):
    speaker = (USER, SYSTEM)[index % 2]
    assert odd(say(index, text)) == ([[index // 2 + 1, speaker, quirk]] if quirk else [])


def meta(index, **values):
    return lambda record: record["conversation"][index]["user_meta"].update(values)


ODD_LOGS: list[tuple[Callable[[Record], object], list[list[Any]]]] = [
    (meta(2, shift_event=False, shift_event_obj=None), [[2, USER, "shift not flagged"]]),
    (meta(4, shift_event=True, shift_event_obj={"turn": 3}), [[3, USER, "shift not listed"]]),
    (meta(2, shift_event_obj=None), [[2, USER, "shift without event"]]),
    (meta(2, shift_event_obj={"turn": 2}), [[2, USER, "shift differs"]]),
    (lambda r: r["shift_events"].append({"turn": 9}), [[9, USER, "shift after the end"]]),
    (lambda r: r["shift_events"].append(r["shift_events"][0]), [[2, USER, "shift listed twice"]]),
    (meta(4, turn=2), [[3, USER, "turn number off"]]),
    (lambda r: r["conversation"][4].pop("user_meta"), [[3, USER, "missing user_meta"]]),
    (lambda r: r["conversation"][1].update(rec_titles=[]), [[1, SYSTEM, "missing rec_titles"]]),
    (lambda r: r["conversation"][1].pop("constraints"), [[1, SYSTEM, "missing constraints"]]),
    (lambda r: r["conversation"].pop(), [[3, SYSTEM, "missing reply"]]),
    (lambda r: r["conversation"][1].update(thinking="Not Heat."), [[1, SYSTEM, "thought aloud"]]),
    (
        lambda r: r["conversation"][1].update(thinking="Not Heat.", text=""),
        [[1, SYSTEM, "missing reply"], [1, SYSTEM, "nothing but thought"]],
    ),
    (lambda r: r["conversation"][1].update(parts=["image_url"]), [[1, SYSTEM, "parts without text"]]),
    (lambda r: r["conversation"][1].update(text="Try @112."), [[1, SYSTEM, "id for a title"]]),
    (lambda r: r["conversation"][0].update(text="More in the mood of Her."), [[1, USER, "everyday title"]]),
    (lambda r: r["conversation"][1].update(ambiguous_titles=["Emma"]), [[1, SYSTEM, "ambiguous title"]]),
]


@pytest.mark.parametrize(("edit", "found"), ODD_LOGS)
def test_logs_that_disagree_with_themselves_are_named(edit, found):
    assert odd(edit) == found


def test_lengths_and_gaps_show_beside_other_sessions():
    many = [Dialogue.from_json(rich(3, session=str(i))) for i in (0, 1, 5)]
    report = logs.log_quirks([*many, Dialogue.from_json(rich(2, session="6"))])
    assert report[["session", "quirk", "detail"]].values.tolist() == [
        [6, "other length", "2 turns, most have 3"], [None, "missing sessions", "3: 2, 3, 4"],
    ]  # fmt: skip
    assert logs.log_quirk_counts(report)["cases"].tolist() == [1, 1]


def test_every_kind_of_quirk_is_declared_and_can_be_found(tmp_path):
    seen = {row[2] for index, text, _ in ODD_TEXTS for row in odd(say(index, text))}
    seen |= {row[2] for edit, _ in ODD_LOGS for row in odd(edit)}
    seen |= set(logs.log_quirks(read(write(tmp_path / "export.json", KIT)))["quirk"])
    sessions = [Dialogue.from_json(rich(n, session=str(i))) for i, n in ((0, 3), (1, 3), (5, 2))]
    seen |= set(logs.log_quirks(sessions)["quirk"])
    declared = re.findall(r"^        (\S+(?: \S+)*)  +", str(logs.log_quirks.__doc__), re.MULTILINE)
    assert seen == set(declared) and len(declared) == len(seen)


def real(*parts):
    root = paths.mirror()
    if not root or not root.joinpath(*parts).exists():
        pytest.skip(f"no {'/'.join(parts)} in a mirror of the external data (CRS_MIRROR)")
    return root.joinpath(*parts)


@pytest.mark.external
@pytest.mark.parametrize(("folder", "turns"), [("logs_20turns", 20), ("logs_50turns", 50)])
def test_the_thesis_logs_load_whole_and_match_a_plain_loop(folder, turns):
    place = real("thesis", folder)
    dialogues = read(place)
    assert {len(d.pairs()) for d in dialogues} == {turns}
    keys = [session_key(d) for d in dialogues]
    name = "logs_20turns_lda_sessions.csv" if turns == 20 else "logs_50turns_embed_sessions.csv"
    table = pd.read_csv(real("thesis", "reference") / name)
    expected = set(zip(table["model"].str.replace(":", "-"), table["session"], strict=True))
    here = {path.name.removesuffix(".jsonl.gz") for path in place.glob("*.jsonl.gz")}
    assert set(keys) == {key for key in expected if key[0] in here}  # session ids are the tables' own
    assert keys == sorted(keys)
    bodies = (gzip.decompress(path.read_bytes()) for path in sorted(place.glob("*.gz")))
    raw = [json.loads(line) for body in bodies for line in body.splitlines()]
    for dialogue, record in zip(dialogues, raw, strict=True):
        again = dialogue.to_json()
        assert again["conversation"] == record["conversation"]
        assert again["shift_events"] == record.get("shift_events", [])
        assert str(record["session_id"]) == dialogue.session_id
    report = logs.log_quirks(dialogues)
    users = [turn["text"] for record in raw for turn in record["conversation"][0::2]]
    printed = report[(report["quirk"] == "printed record") & (report["speaker"] == USER)]
    assert len(printed) == sum("{'" in text for text in users)
    texts = [turn["text"] for record in raw for turn in record["conversation"]]
    assert (report["quirk"] == "N/A in text").sum() == sum("N/A" in text for text in texts)
    never = {"other length", "missing sessions", "shift not listed", "shift not flagged"}
    assert never.isdisjoint(report["quirk"])


@pytest.fixture
def stored(tmp_path):
    """A file of ours with two conversations of two systems."""
    path = tmp_path / "own.jsonl"
    first, second = rich(session="00007"), rich(session="00008") | {"model_name": "other"}
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n", encoding="utf-8")
    return path


def converted(stored, to, name):
    out = stored.parent / name
    assert main(["data", "import", str(stored), "--to", to, "--out", str(out)]) == 0
    return out


def texts(path):
    return {(d.model_name, d.session_id): said(d) for d in logs.read(path)}


@pytest.mark.parametrize(("to", "name"), [("openai", "o.jsonl"), ("dialoguekit", "d.json")])
def test_a_log_goes_out_and_comes_back_with_every_word_and_name(stored, to, name):
    out = converted(stored, to, name)
    assert texts(out) == texts(stored) and len(texts(out)) == 2
    again = out.parent / f"again-{name}"
    assert main(["data", "import", str(out), "--to", to, "--out", str(again)]) == 0
    assert texts(again) == texts(stored)


def test_dialoguekit_keeps_each_turn_and_messages_role_and_content_alone_in_a_file(stored, capsys):
    out = converted(stored, "dialoguekit", "d.json")
    for old, new in zip(logs.read(stored), logs.read(out), strict=True):
        before, after = ([{**t.meta, "utterance ID": 0} for t in one.turns] for one in (old, new))
        assert before == after
        assert new.extra["annotations"]["metadata"] == dict(old.extra)
    (record, _) = json.loads(out.read_text())
    assert set(record) == {"conversation ID", "agent", "user", "conversation", "metadata"}
    assert record["conversation"][0]["participant"] == "USER" and record["agent"]["type"] == "AGENT"
    lines = converted(stored, "openai", "o.jsonl").read_text().splitlines()
    messages = [one for line in lines for one in json.loads(line)["messages"]]
    assert {tuple(one) for one in messages} == {("role", "content")}
    assert [one["role"] for one in messages[:2]] == ["user", "assistant"]
    assert main(["data", "import", str(stored), "--to", "openai"]) == 2
    assert "--to openai --out FILE" in capsys.readouterr().err


def test_instructions_and_tools_of_messages_are_no_turns(tmp_path):
    messages = [
        {"role": "system", "content": "You recommend films."}, {"role": "user", "content": "A western?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "[]"}, {"role": "assistant", "content": "None."},
    ]  # fmt: skip
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"id": "c1", "model": "gpt", "messages": messages}) + "\n")
    (talk,) = logs.read(path)
    assert said(talk) == [(USER, "A western?"), (SYSTEM, "None.")]
    assert (talk.model_name, talk.session_id) == ("gpt", "c1")
    assert talk.extra["instructions"] == [messages[0], messages[2], messages[3]]


@pytest.mark.slow
def test_an_inspect_log_opens_with_its_own_reader(stored):
    read = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed").read_eval_log
    log = read(str(converted(stored, "inspect", "run.eval")))
    assert log.status == "success" and log.eval.dataset.samples == 2
    found = {(one.metadata["model_name"], one.metadata["session_id"]): one.messages for one in log.samples}
    roles = {"user": USER, "assistant": SYSTEM}
    assert {key: [(roles[m.role], m.text) for m in all_of] for key, all_of in found.items()} == texts(stored)
    assert texts(converted(stored, "inspect", "run.json")) == texts(stored)


def test_an_inspect_log_as_json_is_read(tmp_path):
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A western?"},
            {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "…"},
                                              {"type": "text", "text": "Rio Bravo (1959)."}]}]  # fmt: skip
    log = {"version": 2, "status": "success", "eval": {"model": "openai/m"},
           "samples": [{"id": 4, "epoch": 2, "messages": told, "metadata": {}}]}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(log), encoding="utf-8")
    expected = [(USER, "A western?"), (SYSTEM, "Rio Bravo (1959).")]
    assert texts(tmp_path / "run.json") == {("openai/m", "4.2"): expected}
    (tmp_path / "run.json").write_text(json.dumps({"samples": [1, {"messages": [2]}]}), encoding="utf-8")
    refused(r"run\.json", texts, tmp_path / "run.json")


MESSAGES = [{"role": "user", "content": "A western?"}, {"role": "assistant", "content": "Rio Bravo (1959)."}]
SPOKEN = [(USER, "A western?"), (SYSTEM, "Rio Bravo (1959).")]
LANGCHAIN = [("human", "HumanMessage", "A western?"), ("ai", "AIMessage", "Rio Bravo (1959).")]


def node(role, text, parent, **more):
    content = {"content_type": "text", "parts": [text]}
    return {"message": {"author": {"role": role}, "content": content, **more}, "parent": parent}


CHATGPT = {
    "conversation_id": "abc",
    "title": "films",
    "current_node": "c",
    "mapping": {
        "root": {"message": None, "parent": None},
        "a": node("user", "A western?", "root"),
        "b": node("assistant", "An answer that was made anew.", "a"),
        "c": node("assistant", "Rio Bravo (1959).", "a", metadata={"model_slug": "gpt-4o"}),
    },
}
# Forms of other tools: what a file holds, and the names of system and session that it gives.
OF_OTHERS = {
    "LangChain, messages_to_dict": ([{"type": t, "data": {"content": c}} for t, _, c in LANGCHAIN], "mine", "log"),
    "LangChain, dumpd": ({"messages": [{"lc": 1, "id": ["langchain", k], "kwargs": {"content": c}} for _, k, c in LANGCHAIN]}, "mine", "log"),
    "LangChain, model_dump": ([{"type": t, "content": c} for t, _, c in LANGCHAIN], "mine", "log"),
    "ChatGPT's export": ([CHATGPT], "gpt-4o", "abc"),
    "tau-bench": ([{"task_id": 3, "trial": 1, "reward": 1.0, "traj": MESSAGES}], "mine", "3.1"),
    "tau2-bench": ({"info": {"agent_info": {"llm": "m"}}, "simulations": [{"id": "u", "messages": MESSAGES}]}, "m", "u"),
    "DeepEval, test run": ({"testCases": [], "conversationalTestCases": [{"name": "n", "turns": MESSAGES}]}, "mine", "log"),
    "DeepEval, goldens": ([{"scenario": "s", "turns": json.dumps(MESSAGES)}], "mine", "log"),
    "DeepEval, one turn": ([{"input": "A western?", "actual_output": "Rio Bravo (1959)."}], "mine", "log"),
    "ShareGPT": ([{"id": "7", "conversations": [{"from": "human", "value": "A western?"}, {"from": "gpt", "value": "Rio Bravo (1959)."}]}], "mine", "7"),
    "OpenAI's messages": (MESSAGES, "mine", "log"),
}  # fmt: skip


@pytest.mark.parametrize("form", OF_OTHERS)
def test_logs_of_other_tools_are_read_and_the_name_of_the_system_is_heard(form, tmp_path):
    content, model, session = OF_OTHERS[form]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    (talk,) = logs.readable(path, pytest.fail, system="mine")
    assert said(talk) == SPOKEN
    assert (talk.model_name, talk.session_id) == (model, session)


def test_an_inspect_archive_is_read_or_named_with_its_converter(tmp_path, capsys):
    path = tmp_path / "run.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "openai/m"}}))
        archive.writestr("samples/4_epoch_2.json", json.dumps({"id": 4, "epoch": 2, "messages": MESSAGES}))
    assert texts(path) == {("openai/m", "4.2"): SPOKEN}
    path.write_bytes(b"PK no archive")
    assert main(["data", "import", str(path)]) == 2
    assert "inspect log convert LOG.eval --to json" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--strict"], ["--to", "openai", "--out", "o.jsonl"]])
def test_the_name_of_a_system_is_heard_whatever_is_done_with_the_logs(more, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = {"id": "c1", "messages": MESSAGES}
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert main(["data", "import", "log.jsonl", "--system", "mine", *more]) == 0
    shown = (tmp_path / "o.jsonl").read_text() if "--to" in more else capsys.readouterr().out
    assert "mine" in shown


def test_a_name_that_no_conversation_needs_is_said(tmp_path, capsys):
    record = {"id": "c1", "model": "gpt", "messages": MESSAGES}
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert main(["data", "import", str(log), "--system", "mine"]) == 0
    assert (
        "--system mine names no conversation: the logs say which system spoke (gpt)"
        in capsys.readouterr().out
    )


def test_a_file_of_another_kind_is_told_what_to_write(tmp_path, capsys):
    talk = tmp_path / "talk.txt"
    talk.write_text("User: hello\nAssistant: hello\n", encoding="utf-8")
    assert main(["data", "import", str(talk)]) == 2
    assert 'write each as {"messages": [{"role": "user"' in capsys.readouterr().err


def generator():
    """The script beside the sample, as a module."""
    spec = importlib.util.spec_from_file_location("make_sample", PLACE / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_model_met_the_same_users_in_the_thesiss_form():
    made, found = generator(), list(logs.read(PLACE / "logs"))
    assert {one.model_name for one in found} == set(made.MODELS)
    assert len(found) == len(made.MODELS) * made.SESSIONS
    openings = {}
    for one in found:
        record = one.to_json()
        assert {"session_id", "model_name", "true_genre", "conversation", "shift_events"} == set(record)
        assert len(one.pairs()) == made.TURNS
        for pair in one.pairs():
            assert set(pair.user.user_meta) <= set(made.USER_META)
            assert set(pair.system.meta) <= set(made.SYSTEM)
        openings.setdefault(one.session_id, set()).add(one.turns[0].text)
    assert {len(texts) for texts in openings.values()} == {1}


def test_the_generator_makes_these_sessions_and_scores_of_judges_some_of_no_use():
    made = generator()
    catalog = sources.load()
    config = simulate.SimulateConfig(n_sessions=1, n_turns=made.TURNS, systems=("tracker",), voices="A")
    ours = simulate.session(World(catalog, Grounder(catalog)), "tracker", 0, config)
    stored = next(one for one in logs.read(PLACE / "logs") if one.model_name == "wren:13b")
    assert json.loads(stored.dumps()) == made.log_record(ours.to_json(), "wren:13b")
    frames = [pd.read_csv(path) for path in sorted((PLACE / "judge").glob("*.csv"))]
    assert [len(frame) for frame in frames] == [made.SESSIONS] * len(made.MODELS)
    values = pd.concat(frames)[list(made.CONSTRUCTS)]
    assert values.isna().sum().sum() > 0 and (values > 5).sum().sum() > 0
