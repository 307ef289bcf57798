"""Logs in the forms of others, out and in again: OpenAI's messages, DialogueKit, Inspect."""

import json

import pytest

from crs_lib import data as logs
from crs_lib.__main__ import main
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError
from tests.unit.data.test_logs import rich


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
    return {(d.model_name, d.session_id): [(t.speaker, t.text) for t in d.turns] for d in logs.read(path)}


@pytest.mark.parametrize(("to", "name"), [("openai", "o.jsonl"), ("dialoguekit", "d.json")])
def test_a_log_goes_out_and_comes_back_with_every_word_and_name(stored, to, name):
    out = converted(stored, to, name)
    assert texts(out) == texts(stored) and len(texts(out)) == 2
    again = out.parent / f"again-{name}"
    assert main(["data", "import", str(out), "--to", to, "--out", str(again)]) == 0
    assert texts(again) == texts(stored)


def test_dialoguekit_keeps_what_is_logged_of_each_turn(stored):
    out = converted(stored, "dialoguekit", "d.json")
    for old, new in zip(logs.read(stored), logs.read(out), strict=True):
        assert [dict(t.meta) | {"utterance ID": 0} for t in old.turns] == [
            dict(t.meta) | {"utterance ID": 0} for t in new.turns]  # fmt: skip
        assert new.extra["annotations"]["metadata"] == dict(old.extra)
    (record, _) = json.loads(out.read_text())
    assert set(record) == {"conversation ID", "agent", "user", "conversation", "metadata"}
    assert record["conversation"][0]["participant"] == "USER" and record["agent"]["type"] == "AGENT"


def test_messages_have_role_and_content_alone(stored):
    lines = converted(stored, "openai", "o.jsonl").read_text().splitlines()
    messages = [one for line in lines for one in json.loads(line)["messages"]]
    assert {tuple(one) for one in messages} == {("role", "content")}
    assert [one["role"] for one in messages[:2]] == ["user", "assistant"]


def test_instructions_and_tools_of_messages_are_no_turns(tmp_path):
    messages = [
        {"role": "system", "content": "You recommend films."}, {"role": "user", "content": "A western?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "[]"}, {"role": "assistant", "content": "None."},
    ]  # fmt: skip
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"id": "c1", "model": "gpt", "messages": messages}) + "\n")
    (talk,) = logs.read(path)
    assert [(t.speaker, t.text) for t in talk.turns] == [(USER, "A western?"), (SYSTEM, "None.")]
    assert (talk.model_name, talk.session_id) == ("gpt", "c1")
    assert talk.extra["instructions"] == [messages[0], messages[2], messages[3]]


def test_a_form_without_a_file_is_refused(stored, capsys):
    assert main(["data", "import", str(stored), "--to", "openai"]) == 2
    assert "--to openai --out FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_an_inspect_log_opens_with_its_own_reader(stored):
    read = pytest.importorskip("inspect_ai.log", reason="inspect_ai is not installed").read_eval_log
    log = read(str(converted(stored, "inspect", "run.eval")))
    assert log.status == "success" and log.eval.dataset.samples == 2
    found = {(one.metadata["model_name"], one.metadata["session_id"]): one.messages for one in log.samples}
    roles = {"user": USER, "assistant": SYSTEM}
    assert {key: [(roles[m.role], m.text) for m in said] for key, said in found.items()} == texts(stored)
    assert texts(converted(stored, "inspect", "run.json")) == texts(stored)


def test_an_inspect_log_as_json_is_read(tmp_path):
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A western?"},
            {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "…"},
                                              {"type": "text", "text": "Rio Bravo (1959)."}]}]  # fmt: skip
    log = {"version": 2, "status": "success", "eval": {"model": "openai/m"},
           "samples": [{"id": 4, "epoch": 2, "messages": said, "metadata": {}}]}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(log), encoding="utf-8")
    assert texts(tmp_path / "run.json") == {
        ("openai/m", "4.2"): [(USER, "A western?"), (SYSTEM, "Rio Bravo (1959).")]
    }
    (tmp_path / "run.json").write_text(json.dumps({"samples": [1, {"messages": [2]}]}), encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.json"):
        texts(tmp_path / "run.json")
