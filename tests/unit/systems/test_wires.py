"""Servers of others: an OpenAI-style assistant, iEvaLM's contract, Agent2Agent; 200 requests with faults."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.llm import LLMSettings, Retry
from crs_lib.systems import base as systems
from crs_lib.systems import contract
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs, identity
from crs_lib.systems.settings import ModelSettings
from tests.helpers import table
from tests.helpers.raw_server import Answering, Served
from tests.helpers.sample import GROUNDER, SAMPLE
from tests.helpers.scripted import failing

FAST = partial(Programs, None, LLMSettings(timeout=5.0), retry=Retry(waits=5, first=0.001, longest=0.002))

# What goes wrong at the n-th of 31 requests: another status, a reset, no JSON, half an answer, JSON of another kind.
FAULTS = {
    3: 500,
    7: 503,
    11: "reset",
    13: "<html>",
    17: '{"choices": [{"mess',
    19: "[]",
    23: 502,
    29: '{"ok": true}',
}


class Other(Served):
    """A server of others: ``serve(path, value, cookie)`` gives status, JSON value and cookie; ``faults`` say which requests fail at first.

    ``seen`` are the requests served, each as its path, its value and its cookie.
    """

    def __init__(self, serve, faults=()):
        self.serve = serve
        self.faults = dict(faults)
        self.seen = []
        self.tries = {}
        self.failed = 0
        self.keys = set()
        self.lock = threading.Lock()
        super().__init__(_Handler, other=self)

    def fault(self, raw):
        """What goes wrong at this attempt: the first two of a request fail, or none."""
        with self.lock:
            position, tries = self.tries.setdefault(raw, [len(self.tries), 0])
            self.tries[raw][1] += 1
            result = self.faults.get(position % 31) if tries < 2 else None
            self.failed += result is not None
        return result


class _Handler(Answering):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        self.answer("Model is running.")

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["content-length"]))
        fault = self.other.fault(raw)
        if fault == "reset":
            self.connection.close()
        elif fault is not None:
            self.answer(*(("trouble", fault) if isinstance(fault, int) else (fault,)))
        else:
            cookie = self.headers.get("cookie")
            status, value, built = self.other.serve(self.path, json.loads(raw), cookie)
            with self.other.lock:
                self.other.seen.append((self.path, json.loads(raw), cookie))
                self.other.keys.add(self.headers.get("authorization"))
            self.answer(value, status, {"set-cookie": f"{built}; Path=/; HttpOnly"} if built else ())


def assistant(path, value, cookie):
    words = {"role": "assistant", "content": f"You said: {value['messages'][-1]['content']}"}
    return 200, {"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": words}]}, None


def ievalm(path, value, cookie):
    """iEvaLM's contract; the session cookie holds how many messages its conversation has had."""
    if "context" not in value or "message" not in value:
        return 400, "An error occurred, make sure you have provided the context and message.", None
    count = int((cookie or "session=0").partition("=")[2]) + 1
    return 200, {"response": f"You said: {value['message']}"}, f"session={count}"


def conversation(programs, spec, number, turns):
    """The answers of a conversation, the whole of it sent at every turn."""
    talk = []
    for turn in range(1, turns + 1):
        talk.append((USER, f"{number}, {turn}"))
        answer = programs.ask(spec, contract.request(f"{number:05d}", turn, 3, "sample", talk))
        talk.append((SYSTEM, answer.reply))
    return [text for _, text in talk[1::2]]


@pytest.mark.parametrize(("kind", "serve"), [("openai-chat", assistant), ("ievalm", ievalm)])
def test_two_hundred_requests_with_faults_lose_nothing(kind, serve):
    with Other(serve, FAULTS) as server, FAST() as programs:
        talk = partial(conversation, programs, f"{kind}:{server.url}", turns=5)
        with ThreadPoolExecutor(4) as threads:
            heard = list(threads.map(talk, range(40)))
    for number, replies in enumerate(heard):
        assert replies == [f"You said: {number}, {turn}" for turn in range(1, 6)]
    assert len(server.seen) == 200
    assert server.failed == 2 * 52


def test_each_protocol_sends_the_conversation_in_its_own_form():
    with Other(assistant) as server, FAST() as programs:
        conversation(programs, f"openai-chat:{server.url}", 1, 2)
        conversation(programs, f"openai-chat:{server.url}/deployed/chat", 2, 1)
    (path, _, _), (_, value, _), (own, _, _) = server.seen
    assert path == "/v1/chat/completions"
    assert own == "/deployed/chat"
    assert set(value) == {"model", "messages"}
    first, reply, second = value["messages"]
    assert first == {"role": "user", "content": "1, 1"}
    assert reply == {"role": "assistant", "content": "You said: 1, 1"}
    assert second == {"role": "user", "content": "1, 2"}
    with Other(ievalm) as server, FAST() as programs:
        spec = f"ievalm:{server.url}"
        for number, turns in ((1, 3), (2, 3), (1, 1)):  # the last is begun anew
            conversation(programs, spec, number, turns)
    context = ["1, 1", "You said: 1, 1", "1, 2", "You said: 1, 2"]
    assert server.seen[2][1] == {"context": context, "message": "1, 3"}
    cookies = [cookie for *_, cookie in server.seen]
    assert cookies == [None, "session=1", "session=2"] * 2 + [None]


def test_a_key_and_a_model_go_to_the_assistant_alone(monkeypatch):
    monkeypatch.setenv("CRS_CHAT_KEY", "sk-of-a-test")
    monkeypatch.setenv("CRS_CHAT_MODEL", "guide-2")
    with Other(assistant) as server, Other(ievalm) as another, FAST() as programs:
        conversation(programs, f"openai-chat:{server.url}", 1, 1)
        conversation(programs, f"ievalm:{another.url}", 1, 1)
        assert identity(f"openai-chat:{server.url}") == f"address:{server.url} model:guide-2"
    assert server.keys == {"Bearer sk-of-a-test"}
    assert another.keys == {None}
    assert server.seen[0][1]["model"] == "guide-2"


@pytest.mark.parametrize(("words", "titles", "unmapped"), table(__file__, "ievalm_items"))
def test_the_items_of_ievalm_are_mapped_by_title_and_the_unmapped_counted(words, titles, unmapped):
    always = (200, {"response": words}, None)
    with Other(lambda *_: always) as server, FAST() as programs:
        world = World(SAMPLE, GROUNDER, llm=ModelSettings(), programs=programs)
        system = systems.create(f"ievalm:{server.url}", world, 7, 0)
        reply = system.reply(1, "A comedy, please.", {})
    assert [SAMPLE.items[item].title for item in reply.items] == titles
    assert list(reply.hallucinated) == unmapped


@pytest.mark.parametrize(("value", "line"), table(__file__, "no_protocol"))
def test_an_answer_that_never_follows_the_protocol_fails_with_its_words(value, line):
    always = (200, json.loads(value), None)
    with Other(lambda *_: always) as server, FAST() as programs, failing(line):
        conversation(programs, f"openai-chat:{server.url}", 1, 1)


@pytest.mark.parametrize(("address", "path"), table(__file__, "base_addresses"))
def test_an_assistant_is_asked_below_its_base_address_and_its_version_stays(address, path):
    with Other(assistant) as server, FAST() as programs:
        conversation(programs, f"openai-chat:{server.url}{address}", 1, 1)
    assert [request[0] for request in server.seen] == [path]


def test_settings_of_servers_rename_and_leave_out_what_an_assistant_is_sent():
    def renamed(path, value, cookie):
        return assistant(path, {"messages": value["input"]}, cookie)

    llm = LLMSettings(names={"model": "", "messages": "input"})
    with Other(renamed) as server, Programs(None, llm) as programs:
        conversation(programs, f"openai-chat:{server.url}", 1, 1)
    assert set(server.seen[0][1]) == {"input"}


def replies_of_another(accepted):
    """What an assistant says whose answers name another model than the one asked for."""

    def other_name(*request):
        status, value, cookie = assistant(*request)
        return status, value | {"model": "gpt-5-mini-2026-01-01"}, cookie

    llm = LLMSettings(accept_model=accepted)
    with Other(other_name) as server, Programs(None, llm, retry=Retry(waits=0)) as programs:
        return conversation(programs, f"openai-chat:{server.url}", 1, 1)


def test_an_assistant_under_another_name_is_accepted_where_the_settings_say_so(monkeypatch):
    monkeypatch.setenv("CRS_CHAT_MODEL", "guide-2")
    for accepted in ("gpt-5-mini", "*"):
        assert replies_of_another(accepted) == ["You said: 1, 1"]
    for other in ("", "x"):
        with failing("other model", match="set accept_model to this name"):
            replies_of_another(other)


def test_an_agent_that_names_no_context_is_asked_turn_by_turn():
    def hello(path, value, cookie):
        parts = value["params"]["message"]["parts"]
        result = {"kind": "message", "role": "agent", "messageId": "m", "parts": parts}
        return 200, {"jsonrpc": "2.0", "id": value["id"], "result": result}, None

    with Other(hello) as server, FAST() as programs:
        assert conversation(programs, f"a2a:{server.url}", 1, 3) == ["1, 1", "1, 2", "1, 3"]
    for _, request, _ in server.seen:
        assert "contextId" not in request["params"]["message"]
