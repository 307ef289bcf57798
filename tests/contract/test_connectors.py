"""Connectors against servers that misbehave on demand: every rare answer ends in the right reply, or in one sentence."""

import json
import sys
import time
from functools import partial

import pytest

from crs_lib.core.text import fold
from crs_lib.llm import LLMError, LLMSettings, Retry
from crs_lib.systems import base as systems
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs
from crs_lib.systems.settings import ModelSettings
from tests.helpers.programs import script
from tests.helpers.raw_server import RawServer, http_answer
from tests.helpers.sample import GROUNDER, SAMPLE

DEADLINE = 5.0  # seconds that any rare answer may take
FAST = partial(Programs, None, LLMSettings(timeout=1.5), retry=Retry(waits=2, first=0.01, longest=0.02))
GOOD = "You could watch Metropolis (1927)."
THOUGHT = "Nosferatu (1922) or The Gold Rush (1925) do not fit."
FINE = "Metropolis"  # the film of the right reply
RETRIED = "answered at the second try"


def body(value, status="200 OK", *headers):
    """An HTTP answer with a JSON value, or with the bytes themselves."""
    return http_answer(value if isinstance(value, bytes | str) else json.dumps(value), status, *headers)


def statuses(good):
    """What any server may answer, whatever its protocol: the answer, and the words of the error or the film."""
    later = "Fri, 01 Jan 2027 00:00:00 GMT"
    return [
        (body("wait", "408 Request Timeout"), RETRIED),
        (body("wait", "425 Too Early"), RETRIED),
        (body("wait", "429 Too Many Requests", "retry-after: 0"), RETRIED),
        (body("wait", "429 Too Many Requests", "retry-after: 0.01"), RETRIED),
        (body("wait", "429 Too Many Requests", "retry-after-ms: 5"), RETRIED),
        (body("wait", "429 Too Many Requests", f"retry-after: {later}"), RETRIED),
        (body("wait", "429 Too Many Requests", "retry-after: soon"), RETRIED),
        (body("wait", "503 Service Unavailable", "retry-after: 0.0"), RETRIED),
        (body("<html>", "502 Bad Gateway"), RETRIED),
        (b"", RETRIED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{", RETRIED),
        (body("no key", "401 Unauthorized"), "said: no key (HTTP 401)"),
        (body("not here", "404 Not Found"), "said: not here (HTTP 404)"),
        (body("", "302 Found", "location: http://127.0.0.1:1/x"), "sends on to http://127.0.0.1:1/x: give that address"),
        (body("", "204 No Content"), "(HTTP 204)"),
        (body(good, "201 Created"), FINE),
        (body(json.dumps(good), "200 OK", "content-type: text/plain"), FINE),
        (body("\ufeff" + json.dumps(good)), FINE),
        (body(json.dumps(good).encode("utf-16")), FINE),
        (body(b'{"reply": "Am\xe9lie"}'), "not UTF-8"),
        (body("x" * 1_100_000), "longer than 1,000,000 bytes"),
    ]  # fmt: skip


def reply(text, **more):
    return {"reply": text, **more}


def choice(content, stop="stop", **more):
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"index": 0, "message": message, "finish_reason": stop}]}


def stream(*deltas, end="data: [DONE]\n\n"):
    """A completion as a stream of events, which nobody asked for."""
    pieces = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + end


def spoken(**result):
    return {"jsonrpc": "2.0", "id": "1", "result": result}


def message(*parts, **more):
    return spoken(kind="message", messageId="m", role="agent", parts=list(parts), **more)


def task(state, *parts, status=(), **more):
    status_message = {"message": {"role": "agent", "parts": list(status)}} if status else {}
    artifacts = {"artifacts": [{"artifactId": "a", "parts": list(parts)}]} if parts else {}
    return spoken(
        kind="task", id="t", contextId="c", status={"state": state, **status_message}, **artifacts, **more
    )


def said(text):
    return {"kind": "text", "text": text}


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}
CONTRACT = [
    (reply(f"<think>{THOUGHT}</think>{GOOD}"), FINE),
    (reply(GOOD, reasoning=THOUGHT), FINE),
    (reply([{"type": "text", "text": GOOD}]), FINE),
    (reply("Here.", recommended=["metropolis-1927"]), FINE),
    (reply(f"<think>{THOUGHT}"), "no words for the user"),
    (reply(None), "'reply' is null"),
    (reply(3), "'reply' is a number"),
    (reply("Here.", recommended=[1.5]), "'recommended[0]' is a number"),
    ('{"reply": "a\\ud800"}', "lone half of a character"),
    ({"error": "out of memory"}, "reports an error: 'out of memory'"),
    ({"detail": "no route"}, "reports an error: 'no route'"),
    (reply(GOOD, error="out of memory"), "reports an error: 'out of memory'"),
    (reply(GOOD, errors=["no model"]), "no model"),
    (reply(GOOD, success=False, message="no model"), "'success' is false: 'no model'"),
    (reply(GOOD, error=None, errors=[], ok=True), FINE),
    ("[]", "the answer is a list"),
    ("", "not JSON"),
    ("{", "not JSON"),
]
CHAT = [
    (choice(f"<think>{THOUGHT}</think>{GOOD}"), FINE),
    (choice(f"[THINK]{THOUGHT}[/THINK]{GOOD}"), FINE),
    (choice(GOOD, reasoning_content=THOUGHT), FINE),
    (choice([THINKING, {"type": "text", "text": GOOD}]), FINE),
    (choice([{"type": "output_text", "text": GOOD}]), FINE),
    (choice(None, refusal=GOOD), FINE),
    (choice(None), "answered without words"),
    (choice("", reasoning_content=THOUGHT, stop="length"), "thinking may have used up its length"),
    (choice("<think>" + THOUGHT, stop="length"), "thinking may have used up its length"),
    (choice(None, stop="tool_calls", tool_calls=[{"id": "c"}]), "it holds tool_calls"),
    (choice([{"type": "image_url", "image_url": "x"}]), "it holds image_url"),
    ({"error": {"message": "no such model", "code": 404}}, "no such model (404)"),
    ({"error": {"message": "slow down", "code": 429}}, RETRIED),
    ({"error": {"message": "full", "type": "overloaded_error"}}, RETRIED),
    ({"object": "error", "message": "no such model", "code": 404}, "no such model (404)"),
    ({"errors": [{"message": "no such model", "code": 404}]}, "no such model (404)"),
    ({"success": False, "message": "no such model"}, "answered with an error: no such model"),
    ({"choices": []}, "answered like no OpenAI-style assistant"),
    (
        {"choices": [{**choice(GOOD)["choices"][0], "error": {"message": "no such model", "code": 404}}]},
        "no such model (404)",
    ),
    (choice("See M (1931).", stop="error"), RETRIED),
    (choice("See M (1931).", stop="content_filter"), RETRIED),
    (choice(GOOD, model="another"), FINE),
    (stream({"content": GOOD[:9], "role": "assistant"}, {"content": GOOD[9:]}), FINE),
    (stream({"reasoning_content": THOUGHT}, {"content": GOOD}), FINE),
    (stream({"content": f"<think>{THOUGHT}</think>"}, {"content": GOOD}), FINE),
    (stream({"content": GOOD}).replace("\n", "\r\n"), FINE),
    (f": a comment\n\nevent: message\ndata: {json.dumps(choice(GOOD))}\n\ndata: [DONE]\n\n", FINE),
    (stream({"content": GOOD}, end=""), "ended in the middle of an answer"),
    (stream(), "answered without words"),
    ('data: {"error": {"message": "no such model", "code": 404}}\n\n', "no such model (404)"),
    ('data: {"choices": [{"error": {"message": "no such model", "code": 404}}]}\n\n', "no such model (404)"),
    ("data: {\n\ndata: [DONE]\n\n", "answered like no OpenAI-style assistant"),
]
IEVALM = [
    ({"response": f"<think>{THOUGHT}</think>{GOOD}"}, FINE),
    ({"response": GOOD, "thinking": THOUGHT}, FINE),
    ({"response": "1: Metropolis (1927)"}, FINE),
    ({"response": "1. **Metropolis** (1927) – a city of machines"}, FINE),
    ({"response": "We suggest: 1) Metropolis"}, FINE),
    ({"response": None}, "answered like no server of iEvaLM"),
    ({"error": "no context"}, "no context"),
    ({"errors": ["no context"]}, "answered with an error: no context"),
    ({"success": False, "detail": "no context"}, "answered with an error: no context"),
    ({"answer": GOOD}, "answered like no server of iEvaLM"),
    ("Model is running.", "answered like no server of iEvaLM"),
    ('data: {"response": "x"}\n\n', "it streams: let it answer whole"),
]
A2A = [
    (message(said(GOOD), contextId="c"), FINE),
    (message(said(GOOD)), FINE),
    (message(said(f"<reasoning>{THOUGHT}</reasoning>{GOOD}")), FINE),
    (message({"kind": "data", "data": {"reply": GOOD}}), FINE),
    (message({"kind": "file", "file": {"uri": "x"}}), "has no text (it holds: file)"),
    (spoken(message={"role": "ROLE_AGENT", "parts": [{"text": GOOD}]}), FINE),
    (task("completed", said(GOOD)), FINE),
    (task("completed", status=[said(GOOD)]), FINE),
    (task("input-required", status=[said(GOOD)]), FINE),
    (task("TASK_STATE_COMPLETED", {"text": GOOD}), FINE),
    (task("completed", history=[{"role": "user", "parts": [said("hi")]}, {"role": "agent", "parts": [said(GOOD)]}]), FINE),
    (task("completed", {"kind": "data", "data": {"films": ["M"]}}, status=[said(GOOD)]), FINE),
    (task("completed"), "has no text"),
    (task("failed", status=[said("no module named x")]), "ended as failed: no module named x"),
    (task("failed"), "ended as failed, without a word"),
    (task("rejected", status=[said("no films here")]), "ended as rejected: no films here"),
    (task("canceled"), "ended as canceled"),
    (task("auth-required", status=[said("sign in")]), "ended as auth-required: sign in"),
    (task("working"), "still worked on its task after 1.5 seconds"),
    (task("error", said(GOOD)), "ended as error"),
    (task("paused", said(GOOD)), "ended as paused"),
    (task(None, said(GOOD)), "ended as null"),
    (message({**said(THOUGHT), "metadata": {"adk_thought": True}}, said(GOOD)), FINE),
    ({"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "no films"}}, "the agent said: no films"),
    ({"jsonrpc": "2.0", "id": "1", "error": {"code": -32603, "message": "busy"}}, RETRIED),
    ("[]", "answered like no agent"),
]  # fmt: skip
# Of each connector: the path behind the address, a right answer, its own rare answers.
CONNECTORS = {
    "http": ("/reply", reply(GOOD), CONTRACT),
    "openai-chat": ("/chat", choice(GOOD), CHAT),
    "ievalm": ("/serve", {"response": GOOD}, IEVALM),
    "a2a": ("/rpc", message(said(GOOD)), A2A),
}


def rare(name):
    """The rare answers of a connector, each as bytes with what is right."""
    _, good, own = CONNECTORS[name]
    answers = [(body(value), right) for value, right in own]
    return answers + statuses(good)


ROWS = [(name, *row) for name in CONNECTORS for row in rare(name)]


def outcome(spec):
    """The titles of the films that a system names when it is asked, or the one line of its error."""
    with FAST() as programs:
        world = World(SAMPLE, GROUNDER, llm=ModelSettings(), programs=programs)
        try:
            answer = systems.create(spec, world, 7, 0).reply(1, "A drama, please.", {})
        except LLMError as error:
            assert "\n" not in str(error)
            return str(error)
    assert answer.hallucinated == ()
    assert "�" not in answer.text
    return [SAMPLE.items[item].title for item in answer.items]


@pytest.mark.parametrize(("name", "answer", "right"), ROWS)
def test_a_rare_answer_ends_in_the_right_reply_or_one_sentence(name, answer, right):
    path, good, _ = CONNECTORS[name]
    answers = [answer, body(good)] if right == RETRIED else [answer]
    started = time.monotonic()
    with RawServer(*answers, hang_up=True) as server:
        result = outcome(f"{name}:{server.url}{path}")
    assert time.monotonic() - started < DEADLINE
    if right in (FINE, RETRIED):
        assert result == [FINE]
    else:
        assert right in result


@pytest.mark.parametrize("name", CONNECTORS)
def test_each_connector_meets_at_least_twenty_five_rare_answers(name):
    assert len(rare(name)) >= 25


# What a program prints for a request, as Python source of bytes.
PRINTED = [
    *[(json.dumps(value) if isinstance(value, dict) else value, right) for value, right in CONTRACT if value != ""],
    (json.dumps(reply(GOOD)) + "   ", FINE),
    ("\ufeff" + json.dumps(reply(GOOD)), FINE),
    (json.dumps(reply(GOOD)) + "\r", FINE),
    (json.dumps(reply("Here.", recommended=["Metropolis (1927)"])), FINE),
    (json.dumps(reply(f"{THOUGHT}</think>{GOOD}")), FINE),
    (b'{"reply": "Am\xe9lie"}', "not UTF-8 (byte 0xe9 at 13"),
    (json.dumps(reply(GOOD)) + "\n" + json.dumps(reply(GOOD)), "more than one line"),
    ("NaN", "the answer is"),
    ("loading the model …", "not JSON"),
    (json.dumps(reply(GOOD, version=2)), "'version' is '2'"),
    (json.dumps({"recomended": [], **reply(GOOD)}), "did you mean 'recommended'"),
    ("x" * 1_100_000, "longer than 1,000,000 bytes"),
]  # fmt: skip
PROGRAM = "import sys\nsys.stdin.readline()\nsys.stdout.buffer.write(open({0!r}, 'rb').read() + b'\\n')\nsys.stdout.flush()\nsys.stdin.readline()\n"


@pytest.mark.subprocess
@pytest.mark.parametrize(("printed", "right"), PRINTED)
def test_a_rare_line_of_a_program_ends_in_the_right_reply_or_one_sentence(printed, right, tmp_path):
    line = printed if isinstance(printed, bytes) else printed.encode()
    (tmp_path / "line").write_bytes(line)
    path = script(tmp_path, "says.py", PROGRAM.format(str(tmp_path / "line")))
    result = outcome(f"exec:{sys.executable} -S {path}")
    if right == FINE:
        assert result == [FINE]
    else:
        assert right in result


def test_a_program_meets_at_least_twenty_five_rare_lines():
    assert len(PRINTED) >= 25
    assert fold(FINE) in fold(GOOD)
