"""``a2a:URL`` against an agent of the official SDK, of both versions of the protocol."""

import threading
import time
from functools import partial

import pytest

from crs_lib.llm import LLMSettings, Retry
from crs_lib.systems.programs import Programs
from tests.helpers.scripted import failing
from tests.unit.systems.test_wires import Other, conversation

pytest.importorskip("a2a", reason="the extra 'agents' is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra 'agents' is not installed")
FAST = partial(Programs, None, LLMSettings(timeout=20.0), retry=Retry(waits=5, first=0.001, longest=0.002))


def agent(compat, tasks):
    """An agent that counts the messages of each context, as a Starlette application of the SDK."""
    from a2a import helpers
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
    from starlette.applications import Starlette

    heard = {}

    class Counting(AgentExecutor):
        async def execute(self, context, event_queue):
            words = heard.setdefault(context.context_id, [])
            words.append(context.get_user_input())
            text = f"{len(words)}: {words[-1]}"
            if not tasks:
                message = helpers.new_text_message(text, context_id=context.context_id)
                return await event_queue.enqueue_event(message)
            await event_queue.enqueue_event(helpers.new_task_from_user_message(context.message))
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await updater.add_artifact([helpers.new_text_part(text)])
            return await updater.complete()

        async def cancel(self, context, event_queue):
            raise NotImplementedError

    skill = AgentSkill(id="count", name="count", description="counts", tags=["films"])
    address = AgentInterface(url="/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
    modes = {"default_input_modes": ["text"], "default_output_modes": ["text"]}
    card = AgentCard(
        name="counting",
        description="counts",
        version="1",
        capabilities=AgentCapabilities(),
        skills=[skill],
        supported_interfaces=[address],
        **modes,
    )
    handler = DefaultRequestHandler(Counting(), InMemoryTaskStore(), card)
    routes = create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=compat)
    return Starlette(routes=[*routes, *create_agent_card_routes(card)]), heard


@pytest.mark.slow
@pytest.mark.parametrize("compat", [True, False])
@pytest.mark.parametrize("tasks", [True, False])
def test_an_agent_of_the_official_sdk_keeps_each_conversation_under_its_context(compat, tasks):
    app, heard = agent(compat, tasks)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with FAST() as programs:
            words = [conversation(programs, f"a2a:http://127.0.0.1:{port}", n, 3) for n in (1, 2)]
    finally:
        server.should_exit = True
        thread.join(10)
    first, second = words
    assert first == ["1: 1, 1", "2: 1, 2", "3: 1, 3"]
    assert second == ["1: 2, 1", "2: 2, 2", "3: 2, 3"]
    assert sorted(heard.values()) == [["1, 1", "1, 2", "1, 3"], ["2, 1", "2, 2", "2, 3"]]


def test_two_hundred_messages_with_faults_lose_nothing_and_an_agents_refusal_is_told():
    def serve(path, value, cookie):
        message = value["params"]["message"]
        position = message.get("contextId") or f"c-{message['messageId']}"
        if message["parts"][0]["text"].startswith("99,"):
            return 200, {"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "no films"}}, None
        parts = [{"kind": "text", "text": f"{position}: {message['parts'][0]['text']}"}]
        result = {"kind": "message", "role": "agent", "messageId": "m", "contextId": position, "parts": parts}
        return 200, {"jsonrpc": "2.0", "id": value["id"], "result": result}, None

    internal = '{"jsonrpc": "2.0", "id": "1", "error": {"code": -32603, "message": "busy"}}'
    faults = {3: 500, 7: "reset", 11: "<html>", 13: internal, 17: '{"jsonrpc": "2.0"}', 23: 503}
    with Other(serve, faults) as server, FAST() as programs:
        spec = f"a2a:{server.url}"
        words = [conversation(programs, spec, n, 5) for n in range(40)]
        with failing("refused", match="the agent said: no films"):
            conversation(programs, spec, 99, 1)
    for n, replies in enumerate(words):
        assert replies == [f"c-{n:05d}-1: {n}, {turn}" for turn in range(1, 6)]
    assert len(server.seen) == 201
    assert server.failed > 30
