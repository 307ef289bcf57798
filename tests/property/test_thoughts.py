"""A reply with a thought, in whatever mark, is read exactly as the same reply without it, whoever carries it."""

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crs_lib import evaluate
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.data import logs
from crs_lib.llm import LLMSettings
from crs_lib.llm.client import Pool
from crs_lib.metrics import conventions
from crs_lib.systems import base as systems
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs
from crs_lib.systems.settings import ModelSettings
from tests.helpers.programs import script
from tests.helpers.raw_server import Answering, Served
from tests.helpers.sample import GROUNDER, SAMPLE

PLAIN = ModelSettings(structured=False)
MARKS = {
    "think": "<think>{}</think>\n\n{}",
    "thinking": "<thinking>{}</thinking>{}",
    "thought": "<thought>{}</thought> {}",
    "reasoning": "<reasoning>\n{}\n</reasoning>\n{}",
    "bracket": "[THINK]{}[/THINK]{}",
    "escaped": "&lt;think&gt;{}&lt;/think&gt;{}",
    "summary": "<details><summary>Reasoning</summary>{}</details>{}",
    "react": "Thought: {}\nFinal Answer: {}",
    "channels": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "closing alone": "{}</think>\n{}",
}
TITLES = st.sampled_from([f"{film.title} ({film.year})" for film in SAMPLE.items])
REPLIES = st.builds("How about {} or {}?".format, TITLES, TITLES)
THOUGHTS = st.builds("{} or {}? No: they are no dramas, and the year\nis wrong.".format, TITLES, TITLES)
SAYS = """import json, sys
for line in sys.stdin:
    print(json.dumps({"reply": open(sys.argv[1]).read()}), flush=True)
"""
PROPERTY = settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Anything(Answering):
    """Every protocol at once: whatever is asked, the owner's text is the answer."""

    def do_GET(self):
        models = {"object": "list", "data": [{"id": "m"}]}
        tags = {"models": [{"name": "m:latest", "model": "m:latest", "digest": "5" * 64}]}
        known = {"/v1/models": models, "/api/tags": tags, "/api/version": {"version": "0.9.0"}}
        self.answer(known.get(self.path, {}), 200 if self.path in known else 404)

    def do_POST(self):
        request = self.read()
        text = self.owner.text
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        part = {"kind": "text", "text": text}
        if "jsonrpc" in request:
            self.answer({"result": {"kind": "message", "role": "agent", "parts": [part]}})
        elif "version" in request:
            self.answer({"reply": text})
        elif "context" in request:
            self.answer({"response": text})
        else:
            self.answer({"model": "m", "choices": [choice], "message": message, "done": True})


@pytest.fixture(scope="module")
def server():
    with Served(Anything) as served:
        yield served


def spec_of(kind, server, folder):
    """The spec of a system that says the server's text."""
    if kind in ("openai", "ollama"):
        return f"free:{kind}:m"
    if kind == "exec":
        return f"exec:{sys.executable} -S {script(folder, 'says.py', SAYS)} {folder / 'text'}"
    return f"{kind}:{server.url}/x"


def heard(spec, world):
    """What is scored of a reply, and whether a thought stands beside it."""
    reply = systems.create(spec, world, 7, 0).reply(1, "A drama, please.", {})
    extra = dict(reply.extra)
    thinking = extra.pop("thinking", "")
    return replace(reply, extra=extra), bool(thinking)


PROGRAM = pytest.param("exec", marks=pytest.mark.subprocess)


@pytest.mark.parametrize("kind", ["openai", "ollama", "openai-chat", "http", PROGRAM, "ievalm", "a2a"])
def test_a_thought_changes_nothing_that_is_scored(kind, server, tmp_path):
    spec = spec_of(kind, server, tmp_path)
    llm = LLMSettings(timeout=10.0, host=server.url)
    with Programs(None, llm) as programs, Pool(None, llm) as pool:
        world = World(SAMPLE, GROUNDER, llms=pool, llm=PLAIN, programs=programs)

        def said(text):
            server.text = text
            (tmp_path / "text").write_text(text, encoding="utf-8")
            return heard(spec, world)

        @PROPERTY
        @given(text=REPLIES, thought=THOUGHTS, mark=st.sampled_from(list(MARKS.values())))
        def holds(text, thought, mark):
            without, _ = said(text)
            within, thinking = said(mark.format(thought, text))
            assert within == without
            assert thinking

        holds()


def record(replies):
    turns = []
    for reply in replies:
        turns += [{"role": "user", "content": "A drama, please."}, {"role": "assistant", "content": reply}]
    return {"id": "1", "model": "m", "messages": turns}


def scores(path, *replies):
    """The scores of an imported conversation."""
    path.write_text(json.dumps(record(replies)), encoding="utf-8")
    (dialogue,) = logs.read(path)
    (result,) = evaluate.score_all([dialogue], GROUNDER, conventions.get("default"))
    return dialogue, result


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
@PROPERTY
@given(text=REPLIES, more=REPLIES, thought=THOUGHTS)
def test_an_imported_log_with_thoughts_scores_as_without(mark, tmp_path, text, more, thought):
    path = tmp_path / "log.jsonl"
    without, expected = scores(path, text, more)
    within, result = scores(path, mark.format(thought, text), mark.format(thought, more))
    assert repr(result) == repr(expected)
    assert [turn.text for turn in within.turns] == [turn.text for turn in without.turns]
    assert [bool(turn.meta.get("thinking")) for turn in within.turns] == [False, True, False, True]
    assert {turn.speaker for turn in within.turns} == {USER, SYSTEM}
