"""Servers of language models: every rare answer ends in the right reply, or in one sentence that helps.

The input of a case: ``settings`` of the model; ``answers``, one a request, each with ``status``, ``headers``,
and ``body`` (in its ``encoding``) or only the ``message`` and its ``stop``; ``facts``, what the server says at other paths; ``schema``,
whether JSON is asked for. ``refused`` are words of the LLMError, which begins with its kind.
"""

import json

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import LLM, LLMError, Request, Retry
from crs_lib.llm.preflight import Need, preflight
from tests.edges.cases import cases
from tests.helpers.raw_server import Answering, Served

QUICK = Retry(waits=1, seeds=1, first=0.0, longest=0.0)
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
OLLAMA_FACTS = {
    "/api/tags": {"models": [{"model": "m:latest", "digest": "d"}]},
    "/api/version": {"version": "0.13.0"},
    "/api/show": {"model_info": {"llama.context_length": 8192}, "capabilities": ["completion"]},
}


class Handler(Answering):
    """Says its facts, and gives the scripted answers to chats, the last one again and again."""

    def do_GET(self):
        facts = self.owner_facts
        status = 200 if self.path in facts else 404
        self.answer(facts.get(self.path, {"error": "not found"}), status)

    def do_POST(self):
        body = self.read()
        if self.path in self.owner_facts:
            return self.do_GET()
        self.asked.append({**body, "path": self.path})
        script = self.script
        answer = script.pop(0) if len(script) > 1 else script[0]
        headers = [line.split(": ", 1) for line in answer.get("headers", ())]
        body = answer["body"]
        if "encoding" in answer:
            body = body.encode(answer["encoding"])
        return self.answer(body, answer.get("status", 200), headers)


def openai_body(answer):
    message = json.loads(answer["message"])
    choice = {"index": 0, "message": message, "finish_reason": answer.get("stop", "stop")}
    return {"model": answer.get("model", "m"), "choices": [choice]}


def ollama_body(answer):
    message = {"role": "assistant", **json.loads(answer["message"])}
    record = {"model": "m", "message": message, "done": True, "done_reason": answer.get("stop", "stop")}
    if "count" in answer:
        record["prompt_eval_count"] = answer["count"]
    return record


class Talk:
    """A model on a server with the answers of a case, asked once."""

    def __init__(self, kind, case):
        build = {"openai": openai_body, "ollama": ollama_body}[kind]
        script = []
        for answer in case.get("answers", [{"message": '{"content": "Try Heat."}'}]):
            script.append(answer if "body" in answer else {**answer, "body": build(answer)})
        facts = dict(OLLAMA_FACTS) if kind == "ollama" else {}
        for path, text in case.get("facts", {}).items():
            facts[path] = json.loads(text)
        self.spec = f"{kind}:{case.get('model', 'm')}"
        self.asked = []
        self.settings = dict(case.get("settings", {}))
        self.path = case.get("path", "")
        self.schema = SCHEMA if case.get("schema") else None
        self.server = Served(Handler, script=script, asked=self.asked, owner_facts=facts)

    def reply(self):
        """The reply, with the kinds of the attempts before it."""
        request = Request.ask("crs", "A quiet drama, if you please?", system="Be kind.", schema=self.schema)
        with self.server:
            host = self.server.url + self.path
            with LLM(self.spec, host=host, retry=QUICK, timeout=5.0, **self.settings) as llm:
                try:
                    return llm.complete(request)
                except LLMError as error:
                    raise InputError(f"{error.kind}: {error} (asks for {error.pause:g} s)") from error

    def ready(self):
        """What the preflight says: "ready", or its sentences as an error."""
        tools = self.settings.pop("tools", False)
        with self.server:
            settings = {"host": self.server.url + self.path, **self.settings}
            try:
                preflight([Need("crs", self.spec, settings=settings, tools=tools)])
            except RunError as error:
                raise InputError(str(error)) from error
        return "ready"


def text(kind):
    return lambda case: Talk(kind, case).reply().text


def thinking(kind):
    def call(case):
        reply = Talk(kind, case).reply()
        return [reply.text, reply.thinking]

    return call


def tried(kind):
    def call(case):
        reply = Talk(kind, case).reply()
        return [reply.text, *reply.tried]

    return call


def ready(kind):
    return lambda case: Talk(kind, case).ready()


def sent(case):
    """What the last request to an OpenAI server held, of the fields that a case names."""
    talk = Talk("openai", case)
    talk.reply()
    return [json.dumps(talk.asked[-1].get(name)) for name in case["fields"]]


CALLS = {"sent": sent}
for name, call in {"text": text, "thinking": thinking, "tried": tried, "ready": ready}.items():
    for kind in ("openai", "ollama"):
        CALLS[f"{kind} {name}"] = call(kind)


@pytest.mark.parametrize("case", cases("llm"))
def test_a_server_is_understood_or_refused_in_one_sentence(case, tmp_path):
    case.check(CALLS, tmp_path)


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_each_connector_has_its_table_of_rare_answers(kind):
    calls = [parameter.values[0].call for parameter in cases("llm")]
    own = [call for call in calls if call.startswith(kind) or (kind == "openai" and call == "sent")]
    assert len(own) >= 25
