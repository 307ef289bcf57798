"""Logs in every form through one door, validated; their quirks named and located."""

import functools
import gzip
import importlib.util
import itertools
import json
import operator
import re
import tracemalloc
import zipfile
from collections import deque

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
from tests.helpers import refused, table

FIRST = {
    "conversation_id": "c1",
    "metadata": {"rating": 4},
    "conversation": [
        {"participant": "AGENT", "utterance": "Welcome."},
        {"participant": "USER", "utterance": "Hello,", "intent": "GREET"},
        {"participant": "USER", "utterance": "a western?"},
        {"participant": "AGENT", "utterance": "Here is one.", "text": "kept apart"},
    ],
}
SECOND = {"conversation_id": "c2", "conversation": [{"participant": "USER", "utterance": "Hi"}]}
KIT = {
    "agent": {"id": "MovieBot", "type": "BOT"},
    "user": {"id": "13"},
    "dialogues": [FIRST, SECOND],
}
MESSAGES = [{"role": "user", "content": "A western?"}, {"role": "assistant", "content": "Rio Bravo (1959)."}]
SPOKEN = [(USER, "A western?"), (SYSTEM, "Rio Bravo (1959).")]
THESIS = paths.samples() / "thesis"


def plain(turns=2, **more):
    """A session in the older form: no user_meta, no shift events, no session id."""
    conversation = []
    for number in range(turns):
        request = {"speaker": "USER", "text": f"A quiet comedy, please, take {number}."}
        reply = {"speaker": "SYSTEM", "text": f"Try number {number}.", "constraints": {"genre": "comedy"}}
        conversation += [request, reply]
    return {"model_name": "gemma:2b", "true_genre": "comedy", "conversation": conversation, **more}


def rich(turns=3, shift=2, session="00007"):
    """A session in the newer form: user_meta in every user turn, titles in every reply, one shift."""
    event = {"turn": shift, "from_focus": "genre", "to_focus": "actor", "bridge_value": "x"}
    record = plain(turns, session_id=session, shift_events=[event])
    for number in range(turns):
        user, system = record["conversation"][2 * number : 2 * number + 2]
        system["rec_titles"] = ["A", "B"]
        shifts = number + 1 == shift
        state = {"turn": number + 1, "constraints": {"genre": "comedy"}, "focus_field": "actor"}
        user["user_meta"] = {**state, "shift_event": shifts, "shift_event_obj": event if shifts else None}
    return json.loads(json.dumps(record))


def edited(location, action, value=""):
    """A session in the newer form with one edit, as ``cases.toml`` describes edits."""
    record = rich()
    *outer, key = [int(name) if name.isdigit() else name for name in location.split(".")]
    parent = functools.reduce(operator.getitem, outer, record)
    if action == "remove":
        del parent[key]
    elif action == "set":
        parent[key] = json.loads(value)
    elif action == "append":
        parent[key].append(json.loads(value))
    else:
        parent[key].append(parent[key][0])
    return record


def write(path, content):
    """A JSON file, or lines of JSON for a list under a .jsonl name; compressed where the name says so."""
    text = json.dumps(content)
    if ".jsonl" in path.name and isinstance(content, list):
        text = "".join(f"{json.dumps(record)}\n" for record in content)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path):
    return list(logs.read(path))


def spoken(dialogue):
    """Who says what."""
    return [(turn.speaker, turn.text) for turn in dialogue.turns]


def quirks(*records):
    """The oddities of some sessions, as turn, speaker and kind."""
    dialogues = map(Dialogue.from_json, records)
    return logs.log_quirks(dialogues)[["turn", "speaker", "quirk"]].values.tolist()


def test_the_older_form_keeps_what_it_says_and_its_record_names_the_system(tmp_path):
    [dialogue] = read(write(tmp_path / "gemma-2b_session_gemma-2b_17.json", plain()))
    assert dialogue.model_name == "gemma:2b"
    assert session_key(dialogue) == SessionKey("gemma-2b", 17)
    assert [turn.speaker for turn in dialogue.turns] == [USER, SYSTEM] * 2
    assert dialogue.turns[1].meta == {"constraints": {"genre": "comedy"}}


def test_a_bare_list_of_turns_is_named_by_its_file(tmp_path):
    bare = write(tmp_path / "llama3:instruct_session_00042.json", plain()["conversation"])
    assert session_key(read(bare)[0]) == SessionKey("llama3-instruct", 42)


def test_the_newer_form_comes_through_whole_with_or_without_a_byte_order_mark(tmp_path):
    record = rich()
    [dialogue] = read(write(tmp_path / "anything.json", record))
    assert dialogue.to_json() == record
    assert session_key(dialogue) == SessionKey("gemma-2b", 7)
    assert dialogue.shift_turns() == [2]
    (tmp_path / "marked.json").write_text(json.dumps(record), encoding="utf-8-sig")
    assert read(tmp_path / "marked.json") == [dialogue]


@pytest.mark.parametrize(("model", "session", "key"), table(__file__, "keys"))
def test_keys_are_file_names_and_whole_numbers(tmp_path, model, session, key):
    record = plain(model_name=model, session_id=json.loads(session))
    [dialogue] = read(write(tmp_path / "a.json", record))
    assert session_key(dialogue) == tuple(key)
    assert dialogue.model_name == model


def test_our_own_dialogues_come_through_unchanged(tmp_path):
    ours = Dialogue.from_json({**rich(), "seed": 3, "arm": "shift"})
    (tmp_path / "dialogues.jsonl").write_text(f"{ours.dumps()}\n", encoding="utf-8")
    write(tmp_path / "results.jsonl", [{"model": "gemma:2b"}])  # a run folder holds other files too
    assert read(tmp_path) == [ours]


def test_dialoguekit_is_merged_and_opened_by_stated_rules(tmp_path):
    first, second = read(write(tmp_path / "export.json", KIT))
    assert spoken(first) == [(USER, "Hello,\na western?"), (SYSTEM, "Here is one.")]
    assert first.turns[0].meta["merged"] == [{"text": "Hello,", "intent": "GREET"}, {"text": "a western?"}]
    assert first.turns[1].meta == {"original_text": "kept apart"}
    annotations = {"user": {"id": "13"}, "metadata": {"rating": 4}}
    assert first.extra.pop("annotations") == annotations
    assert first.extra == {"source_form": "dialoguekit", "opening": ["Welcome."], "merged_utterances": 1}
    assert session_key(first) == SessionKey("MovieBot", "c1")
    assert spoken(second) == [(USER, "Hi")]


def test_what_was_merged_and_opened_is_stored_and_told(tmp_path):
    first, second = read(write(tmp_path / "export.json", KIT))
    (tmp_path / "stored.jsonl").write_text(f"{first.dumps()}\n", encoding="utf-8")
    assert read(tmp_path / "stored.jsonl") == [first]
    report = logs.log_quirks([first, second])
    assert report["session"].tolist() == ["c1", "c1", "c2"]
    assert report["quirk"].tolist() == ["merged utterances", "opening left out", "missing reply"]


@given(
    st.lists(st.sampled_from(["USER", "AGENT"]), min_size=1, max_size=12).filter(lambda who: "USER" in who)
)
def test_no_word_is_lost_in_merging(speakers):
    entries = []
    words = []
    for number, speaker in enumerate(speakers):
        words.append(f"w{number}")
        entries.append({"participant": speaker, "utterance": words[-1]})
    record = {"conversation_id": "c", "agent": "bot", "conversation": entries}
    dialogue = dialogue_of(record, RecordOrigin("here"))
    heard = list(dialogue.extra.get("opening", []))
    for turn in dialogue.turns:
        heard += turn.text.split("\n")
    assert heard == words
    changes = sum(before != after for before, after in itertools.pairwise(speakers))
    assert len(dialogue.turns) == changes + 1 - (speakers[0] == "AGENT")


def test_arena_dialogues_keep_their_ratings(tmp_path):
    request = {"turn_ind": 0, "role": "USER", "utterance": "Something sad?"}
    reply = {"turn_ind": 1, "role": "ASST", "utterance": "", "turn_level_aggregated": {"relevance": 2}}
    rated = {"conv_id": "some_crs_0a1b-22", "dial_level_aggregated": {"understanding": 1}}
    [dialogue] = read(write(tmp_path / "arena.json", [{**rated, "dialogue": [request, reply]}]))
    assert session_key(dialogue) == SessionKey("some_crs", "some_crs_0a1b-22")
    assert dialogue.turns[1].meta["turn_level_aggregated"] == {"relevance": 2}
    assert dialogue.extra["annotations"] == {"dial_level_aggregated": {"understanding": 1}}
    assert logs.log_quirks([dialogue])["quirk"].tolist() == ["missing reply"]


@pytest.mark.parametrize("name", ["many.jsonl", "many.jsonl.gz", "many.json", "many.json.gz"])
def test_one_file_of_many_sessions_is_read_in_its_order(tmp_path, name):
    numbers = ["00003", "00001", "00002"]
    records = [rich(session=number) for number in numbers]
    dialogues = read(write(tmp_path / name, records))
    assert [dialogue.session_id for dialogue in dialogues] == numbers


def test_a_folder_is_read_by_name_numbers_by_value(tmp_path):
    for number in (10, 9, 1, 100):
        write(tmp_path / f"m_session_m_{number}.json", plain(model_name="m"))
    write(tmp_path / ".m_session_m_2.json", plain())  # hidden: half-written by somebody else
    (tmp_path / "m_judge_scores.csv").write_text("model\n")
    assert [session_key(dialogue).session for dialogue in read(tmp_path)] == [1, 9, 10, 100]


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
    sizes = {"few": 50, "many": 1000}
    peaks = {}
    for name, sessions in sizes.items():
        records = [rich(20, session=str(number)) for number in range(sessions)]
        path = write(tmp_path / f"{name}.jsonl", records)
        peak(path)  # what is imported and cached once
        peaks[name] = peak(path)
    keys_alone = 0.05 * path.stat().st_size  # those of 950 sessions, not their text
    assert peaks["many"] - peaks["few"] < keys_alone


@pytest.mark.parametrize(("location", "action", "value", "message"), table(__file__, "broken_sessions"))
def test_a_broken_session_is_refused_with_its_place(tmp_path, location, action, value, message):
    path = write(tmp_path / "odd.json", edited(location, action, value))
    refused(rf"^odd\.json.*{message}", read, path)


@pytest.mark.parametrize(("content", "message"), table(__file__, "broken_records"))
def test_what_breaks_the_form_is_refused_with_its_place(tmp_path, content, message):
    path = write(tmp_path / "odd.json", json.loads(content))
    refused(rf"^odd\.json.*{message}", read, path)


@pytest.mark.parametrize(("name", "content", "message"), table(__file__, "damaged_files"))
def test_a_damaged_file_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    refused(message, read, path)


def test_brackets_without_end_are_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[" * 200_000)
    refused(r"^a\.json: not (a log|JSON)", read, path)


def test_a_packed_file_that_is_cut_off_is_named(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:-20])
    refused(r"^a\.jsonl\.gz is cut off or damaged .*fetch or pack it again", read, path)


def test_a_session_twice_is_refused(tmp_path):
    write(tmp_path / "a.jsonl", [rich(session="00007")])
    write(tmp_path / "b.jsonl", [plain(session_id=7)])
    refused(r"b\.jsonl, line 1: session 7 of 'gemma-2b' was already read from a\.jsonl", read, tmp_path)


@pytest.mark.parametrize("name", ["empty", "absent"])
def test_a_folder_without_logs_says_what_was_expected(tmp_path, name):
    (tmp_path / "empty").mkdir()
    refused(r"no log in .*\.jsonl\.gz.*data get thesis-logs-50", read, tmp_path / name)


@pytest.mark.parametrize("record", [rich(), plain(session_id=1)])
def test_a_session_that_is_well_has_no_quirk(record):
    assert quirks(record) == []


def test_without_sessions_there_are_no_quirks():
    report = logs.log_quirks([])
    assert report.empty
    assert logs.log_quirk_counts(report).empty


def worded(index, text):
    """A session in which one turn says something else."""
    return edited(f"conversation.{index}.text", "set", json.dumps(text))


@pytest.mark.parametrize(("index", "text", "quirk"), table(__file__, "odd_texts"))
def test_odd_texts_are_named(index, text, quirk):
    speaker = SYSTEM if index % 2 else USER
    assert quirks(worded(index, text)) == [[index // 2 + 1, speaker, quirk]]


@pytest.mark.parametrize(("index", "text"), table(__file__, "plain_texts"))
def test_ordinary_texts_are_not_odd(index, text):
    assert quirks(worded(index, text)) == []


@pytest.mark.parametrize(
    ("location", "action", "value", "turn", "speaker", "quirk"), table(__file__, "odd_logs")
)
def test_logs_that_disagree_with_themselves_are_named(location, action, value, turn, speaker, quirk):
    assert quirks(edited(location, action, value))[-1] == [turn, speaker, quirk]


def test_an_edit_of_a_log_shows_no_other_quirk():
    alone = [row[:3] for row in table(__file__, "odd_logs") if row[-1] != "nothing but thought"]
    for location, action, value in alone:
        assert len(quirks(edited(location, action, value))) == 1, location


def test_lengths_and_gaps_show_beside_other_sessions():
    records = [rich(3, session=number) for number in ("0", "1", "5")]
    dialogues = map(Dialogue.from_json, [*records, rich(2, session="6")])
    report = logs.log_quirks(dialogues)
    assert report["session"].tolist() == [6, None]
    assert report["quirk"].tolist() == ["other length", "missing sessions"]
    assert report["detail"].tolist() == ["2 turns, most have 3", "3: 2, 3, 4"]
    assert logs.log_quirk_counts(report)["cases"].tolist() == [1, 1]


def test_every_kind_of_quirk_is_declared_and_tested():
    tested = {"merged utterances", "opening left out", "other length", "missing sessions"}
    for name in ("odd_texts", "odd_logs"):
        tested.update(row[-1] for row in table(__file__, name))
    declared = re.findall(r"^        (\S+(?: \S+)*)  +", str(logs.log_quirks.__doc__), re.MULTILINE)
    assert sorted(declared) == sorted(tested)


def real(*parts):
    root = paths.mirror()
    if not root or not root.joinpath(*parts).exists():
        pytest.skip(f"no {'/'.join(parts)} in a mirror of the external data (CRS_MIRROR)")
    return root.joinpath(*parts)


@pytest.fixture(scope="module", params=[20, 50])
def thesis(request):
    """The dialogues of a folder of the thesis's logs, their records, and the sessions of its tables."""
    turns = request.param
    folder = real("thesis", f"logs_{turns}turns")
    kind = "lda" if turns == 20 else "embed"
    sessions = pd.read_csv(real("thesis", "reference") / f"logs_{turns}turns_{kind}_sessions.csv")
    records = []
    for path in sorted(folder.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            records += map(json.loads, lines)
    models = {path.name.removesuffix(".jsonl.gz") for path in folder.glob("*.jsonl.gz")}
    slugs = sessions["model"].str.replace(":", "-")
    return turns, read(folder), records, sessions.assign(model=slugs)[slugs.isin(models)]


@pytest.mark.external
def test_the_thesis_logs_load_whole(thesis):
    turns, dialogues, records, sessions = thesis
    keys = list(map(session_key, dialogues))
    assert keys == sorted(keys)
    assert set(keys) == set(zip(sessions["model"], sessions["session"], strict=True))
    for dialogue, record in zip(dialogues, records, strict=True):
        again = dialogue.to_json()
        assert len(dialogue.pairs()) == turns
        assert again["conversation"] == record["conversation"]
        assert again["shift_events"] == record.get("shift_events", [])
        assert dialogue.session_id == str(record["session_id"])


@pytest.mark.external
def test_the_quirks_of_the_thesis_logs_are_those_of_a_plain_loop(thesis):
    _, dialogues, records, _ = thesis
    report = logs.log_quirks(dialogues)
    printed = missing = 0
    for record in records:
        texts = [turn["text"] for turn in record["conversation"]]
        printed += sum("{'" in text for text in texts[::2])
        missing += sum("N/A" in text for text in texts)
    of_users = report[report["speaker"] == USER]
    assert (of_users["quirk"] == "printed record").sum() == printed
    assert (report["quirk"] == "N/A in text").sum() == missing
    never = {"other length", "missing sessions", "shift not listed", "shift not flagged"}
    assert never.isdisjoint(report["quirk"])


@pytest.fixture
def stored(tmp_path):
    """A file of ours with two conversations of two systems."""
    return write(tmp_path / "own.jsonl", [rich(), {**rich(session="00008"), "model_name": "other"}])


def converted(log, form, name):
    """The file that ``data import --to`` makes of a log."""
    out = log.parent / name
    assert main(["data", "import", str(log), "--to", form, "--out", str(out)]) == 0
    return out


def texts(path):
    """What is said in each session of a file."""
    by_session = {}
    for dialogue in logs.read(path):
        by_session[dialogue.model_name, dialogue.session_id] = spoken(dialogue)
    return by_session


@pytest.mark.parametrize(("form", "name"), [("openai", "o.jsonl"), ("dialoguekit", "d.json")])
def test_a_log_goes_out_and_comes_back_with_every_word_and_name(stored, form, name):
    out = converted(stored, form, name)
    again = converted(out, form, f"again-{name}")
    assert len(texts(stored)) == 2
    assert texts(out) == texts(stored)
    assert texts(again) == texts(stored)


def test_dialoguekits_file_keeps_each_turn(stored):
    out = converted(stored, "dialoguekit", "d.json")
    for old, new in zip(logs.read(stored), logs.read(out), strict=True):
        for before, after in zip(old.turns, new.turns, strict=True):
            assert after.meta.pop("utterance ID")
            assert after.meta == before.meta
        assert new.extra["annotations"]["metadata"] == dict(old.extra)
    record = json.loads(out.read_text())[0]
    assert set(record) == {"conversation ID", "agent", "user", "conversation", "metadata"}
    assert record["conversation"][0]["participant"] == "USER"
    assert record["agent"]["type"] == "AGENT"


def test_a_file_of_messages_holds_roles_and_contents_alone(stored):
    out = converted(stored, "openai", "o.jsonl")
    for line in out.read_text().splitlines():
        messages = json.loads(line)["messages"]
        assert [message["role"] for message in messages[:2]] == ["user", "assistant"]
        for message in messages:
            assert list(message) == ["role", "content"]


def test_a_conversion_needs_the_name_of_a_file(stored, capsys):
    assert main(["data", "import", str(stored), "--to", "openai"]) == 2
    assert "--to openai --out FILE" in capsys.readouterr().err


def test_instructions_and_tools_of_messages_are_no_turns(tmp_path):
    system = {"role": "system", "content": "You recommend films."}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    answer = {"role": "tool", "tool_call_id": "1", "content": "[]"}
    record = {"id": "c1", "model": "gpt", "messages": [system, MESSAGES[0], call, answer, MESSAGES[1]]}
    [talk] = read(write(tmp_path / "m.jsonl", [record]))
    assert spoken(talk) == SPOKEN
    assert (talk.model_name, talk.session_id) == ("gpt", "c1")
    assert talk.extra["instructions"] == [system, call, answer]


@pytest.mark.slow
def test_an_inspect_log_opens_with_its_own_reader(stored):
    inspect = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed")
    log = inspect.read_eval_log(str(converted(stored, "inspect", "run.eval")))
    assert log.status == "success"
    assert log.eval.dataset.samples == 2
    speakers = {"user": USER, "assistant": SYSTEM}
    heard = {}
    for sample in log.samples:
        names = (sample.metadata["model_name"], sample.metadata["session_id"])
        heard[names] = [(speakers[message.role], message.text) for message in sample.messages]
    assert heard == texts(stored)
    assert texts(converted(stored, "inspect", "run.json")) == texts(stored)


def test_an_inspect_log_as_json_is_read(tmp_path):
    thought = {"type": "reasoning", "reasoning": "…"}
    words = {"type": "text", "text": "Rio Bravo (1959)."}
    messages = [MESSAGES[0], {"role": "assistant", "content": [thought, words]}]
    samples = [{"id": 4, "epoch": 2, "messages": messages, "metadata": {}}]
    log = write(tmp_path / "run.json", {"version": 2, "eval": {"model": "openai/m"}, "samples": samples})
    assert texts(log) == {("openai/m", "4.2"): SPOKEN}


def test_a_broken_inspect_log_is_named(tmp_path):
    log = write(tmp_path / "run.json", {"samples": [1, {"messages": [2]}]})
    refused(r"run\.json", texts, log)


@pytest.mark.parametrize(("form", "content", "model", "session"), table(__file__, "other_tools"))
def test_logs_of_other_tools_are_read_and_the_name_of_the_system_is_heard(
    form, content, model, session, tmp_path
):
    path = tmp_path / "log.json"
    path.write_text(content.replace("MESSAGES", json.dumps(MESSAGES)), encoding="utf-8")
    [talk] = logs.readable(path, pytest.fail, system="mine")
    assert spoken(talk) == SPOKEN, form
    assert (talk.model_name, talk.session_id) == (model, session)


def test_an_inspect_archive_is_read(tmp_path):
    path = tmp_path / "run.eval"
    sample = {"id": 4, "epoch": 2, "messages": MESSAGES}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "openai/m"}}))
        archive.writestr("samples/4_epoch_2.json", json.dumps(sample))
    assert texts(path) == {("openai/m", "4.2"): SPOKEN}


def test_a_damaged_inspect_archive_is_named_with_its_converter(tmp_path, capsys):
    path = tmp_path / "run.eval"
    path.write_bytes(b"PK no archive")
    assert main(["data", "import", str(path)]) == 2
    assert "inspect log convert LOG.eval --to json" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--strict"], ["--to", "openai", "--out", "o.jsonl"]])
def test_the_name_of_a_system_is_heard_whatever_is_done_with_the_logs(more, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.jsonl", [{"id": "c1", "messages": MESSAGES}])
    assert main(["data", "import", "log.jsonl", "--system", "mine", *more]) == 0
    shown = (tmp_path / "o.jsonl").read_text() if "--to" in more else capsys.readouterr().out
    assert "mine" in shown


def test_a_name_that_no_conversation_needs_is_said(tmp_path, capsys):
    log = write(tmp_path / "log.jsonl", [{"id": "c1", "model": "gpt", "messages": MESSAGES}])
    assert main(["data", "import", str(log), "--system", "mine"]) == 0
    unused = "--system mine names no conversation: the logs say which system spoke (gpt)"
    assert unused in capsys.readouterr().out


def test_a_file_of_another_kind_is_told_what_to_write(tmp_path, capsys):
    talk = tmp_path / "talk.txt"
    talk.write_text("User: hello\nAssistant: hello\n", encoding="utf-8")
    assert main(["data", "import", str(talk)]) == 2
    assert 'write each as {"messages": [{"role": "user"' in capsys.readouterr().err


@pytest.fixture(scope="module")
def sample():
    """The script beside the thesis's sample, as a module."""
    spec = importlib.util.spec_from_file_location("make_sample", THESIS / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_model_met_the_same_users_in_the_thesiss_form(sample):
    dialogues = read(THESIS / "logs")
    assert {dialogue.model_name for dialogue in dialogues} == set(sample.MODELS)
    assert len(dialogues) == len(sample.MODELS) * sample.SESSIONS
    keys = {"session_id", "model_name", "true_genre", "conversation", "shift_events"}
    openings = {}
    for dialogue in dialogues:
        assert set(dialogue.to_json()) == keys
        assert len(dialogue.pairs()) == sample.TURNS
        for pair in dialogue.pairs():
            assert set(pair.user.user_meta) <= set(sample.USER_META)
            assert set(pair.system.meta) <= set(sample.SYSTEM)
        first = openings.setdefault(dialogue.session_id, dialogue.turns[0].text)
        assert dialogue.turns[0].text == first


def test_the_generator_makes_these_sessions(sample):
    catalog = sources.load()
    config = simulate.SimulateConfig(n_sessions=1, n_turns=sample.TURNS, systems=("tracker",), voices="A")
    session = simulate.session(World(catalog, Grounder(catalog)), "tracker", 0, config)
    dialogues = read(THESIS / "logs")
    first = next(dialogue for dialogue in dialogues if dialogue.model_name == "wren:13b")
    assert json.loads(first.dumps()) == sample.log_record(session.to_json(), "wren:13b")


def test_some_scores_of_the_sample_are_of_no_use(sample):
    files = sorted((THESIS / "judge").glob("*.csv"))
    assert len(files) == len(sample.MODELS)
    frames = list(map(pd.read_csv, files))
    assert {len(frame) for frame in frames} == {sample.SESSIONS}
    scores = pd.concat(frames)[list(sample.CONSTRUCTS)]
    assert scores.isna().any(axis=None)
    assert (scores > 5).any(axis=None)
