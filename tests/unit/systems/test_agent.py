"""Agents: models that search the catalogue, on servers that call tools well, never, endlessly, wrongly, or not at all."""

import itertools
import json

import pandas as pd
import pytest

from crs_lib import simulate
from crs_lib.llm import LLM, LLMError, Recorder
from crs_lib.llm.base import ToolCall
from crs_lib.llm.client import Pool
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems import agent
from crs_lib.systems import base as systems
from crs_lib.systems.base import World
from crs_lib.systems.settings import ModelSettings
from tests.helpers import refused, table
from tests.helpers.films import catalog as ten_films
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import GROUNDER, SAMPLE

TEN = ten_films()
WISH = "I'd like to see comedy films tonight. Any ideas?"
FILM = next(item for item in SAMPLE.items if "Comedy" in item.values["genre"] and item.year >= 1990)
WELL = [("search_films", {"genre": "comedy", "year_from": 1990})]


def ids_of(reply):
    """The ids of the films that a reply recommends."""
    return [SAMPLE.items[item].item_id for item in reply.items]


def tool_results(body):
    """The results of searches that a request holds behind the user's last words."""
    results = []
    for message in body["messages"]:
        if message["role"] == "user":
            results = []
        elif message["role"] == "tool":
            results.append(message["content"])
    return results


def well(body):
    return [] if tool_results(body) else WELL


def choose(prompt, schema, seed):
    """Recommends the first film that may be recommended; where an action is asked for, searches first."""
    if schema is None:
        return "Hello."
    if "anyOf" in schema:
        return json.dumps({"action": "search_films", "arguments": WELL[0][1]})
    films = schema["properties"]["recommended"]["items"].get("enum", [])[:1]
    reply = {"recommended": films, "reply": "This."}
    return json.dumps({"action": "reply", **reply} if "action" in schema["properties"] else reply)


def world_on(server, backend="ollama", recorder=None, **settings):
    model = LLM(f"{backend}:tiny", host=server.url, recorder=recorder)
    pool = Pool(None, models={f"{backend}:tiny": model})
    return World(SAMPLE, GROUNDER, pool, ModelSettings(retriever="bm25", **settings))


def agent_on(server, backend="ollama", **settings):
    return systems.create(f"agent:{backend}:tiny", world_on(server, backend, **settings), 7, 0)


def one_turn(tools, backend="ollama", answer=choose, **settings):
    with OllamaServer(tools=tools, answer=answer) as server:
        return agent_on(server, backend, **settings).reply(1, WISH, {}), server.bodies


def titles(outcome):
    return [TEN.items[item].title for item in outcome.items]


def search(**arguments):
    return agent.search(TEN, ToolCall("search_films", arguments), "bm25")


def test_a_search_finds_all_films_that_meet_everything_and_names_unknown_values():
    dramas = search(genre="drama", actor="ada quill")
    early = search(genre="Drama", without=["French", "War"], year_to=1960)
    nineties = search(year_from=1990, year_to=1999)
    by_plot = search(text="a clerk")
    assert set(titles(dramas)) == {"Harbour Lights", "Paper Kites"}
    assert titles(early) == ["Harbour Lights"]
    assert set(titles(nineties)) == {"1947", "Lantern Street"}
    assert len(search().items) == 9  # one of the ten is never recommended
    assert titles(by_plot)[0] == "Her"
    assert len(by_plot.items) == 9
    assert search(genre="", actor=None, without=[]).items == search().items
    outcome = search(genre="Western", actor="Ada Quill")
    assert outcome.items == ()
    assert outcome.notes == ("no movie has genre 'Western'",)
    assert not outcome.fault


@pytest.mark.parametrize(("name", "arguments", "fault"), table(__file__, "bad_calls"))
def test_a_call_that_cannot_be_understood_finds_nothing_and_says_why(name, arguments, fault):
    outcome = agent.search(TEN, ToolCall(name, arguments), "bm25")
    assert fault in outcome.fault
    assert outcome.items == ()
    assert outcome.arguments == arguments


@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_an_agent_searches_and_then_recommends_what_it_found(backend):
    reply, bodies = one_turn(well, backend)
    (call,) = reply.extra["tool_calls"]
    assert call["name"] == "search_films"
    assert call["arguments"] == WELL[0][1]
    assert call["n_found"] > 10
    assert len(call["films"]) == 10
    assert ids_of(reply) == call["films"][:1]
    assert reply.extra["tools"] == "native"
    assert reply.extra["offered_ids"] == call["films"]
    assert [bool(body.get("tools")) for body in bodies] == [True, True, False]
    film = SAMPLE.items[reply.items[0]]
    assert "Comedy" in film.values["genre"]
    assert film.year >= 1990
    result = json.loads(tool_results(bodies[1])[0])
    assert result["found"] == call["n_found"]
    assert result["movies"][0].startswith(f"[1] {film.title} ({film.year})")


@pytest.mark.parametrize(
    ("calls", "allowed", "done", "denied", "requests", "films"), table(__file__, "searches")
)
def test_an_agent_searches_so_often_as_it_may(calls, allowed, done, denied, requests, films):
    reply, bodies = one_turn(lambda body: WELL * calls, searches=allowed)
    errors = [call.get("error") for call in reply.extra["tool_calls"]]
    assert errors == [None] * done + ["no search is left in this turn"] * denied
    assert len(bodies) == requests
    assert len(reply.items) == films
    assert not bodies[-1].get("tools") or not calls


def test_a_conversation_that_outgrows_the_context_leaves_room_for_the_tools():
    with OllamaServer(tools=well, answer=choose) as server:
        system = agent_on(server, num_ctx=4096)
        replies = [system.reply(turn, WISH * 9, {}) for turn in range(1, 12)]
    assert replies[0].items
    assert replies[-1].extra["utterances_left_out"] > 0


@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_wrong_names_and_unknown_arguments_are_told_and_logged(backend):
    wrong = iter([("find_movies", {"q": "x"}), ("search_films", {"mood": "dark", "genre": "war"})])
    reply, bodies = one_turn(lambda body: list(itertools.islice(wrong, 1)), backend)
    first, second = reply.extra["tool_calls"]
    assert first["error"].startswith("there is no tool 'find_movies'")
    assert "takes no 'mood'" in second["error"]
    assert "there is no tool" in tool_results(bodies[1])[0]
    assert reply.items == ()


def test_arguments_that_are_no_json_or_huge_are_told_logged_and_bounded():
    broken = iter([("search_films", '{"genre": '), ("search_films", '["war"]')])
    reply, _ = one_turn(lambda body: list(itertools.islice(broken, 1)), "openai")
    first, second = reply.extra["tool_calls"]
    assert first["error"].startswith("the arguments are not JSON (")
    assert second["error"].startswith("the arguments are no JSON object")
    huge = iter([("search_films", {"genre": "x" * 9000})])
    reply, _ = one_turn(lambda body: list(huge))
    (call,) = reply.extra["tool_calls"]
    assert len(json.dumps(call)) < 600
    assert call["n_found"] == 0


def test_films_keep_their_numbers_over_the_turns_and_plain_text_is_the_reply():
    with OllamaServer(tools=well, answer=choose) as server:
        system = agent_on(server)
        first = system.reply(1, WISH, {})
        second = system.reply(2, "More of them, please.", {})
    assert second.extra["offered_ids"] == first.extra["offered_ids"]
    assert second.items == first.items
    roles = [message["role"] for message in server.bodies[-1]["messages"]]
    assert roles == ["system", *["user", "assistant", "tool", "assistant"] * 2, "user"]
    reply, bodies = one_turn(well, answer=lambda *_: f"See {FILM.title} ({FILM.year}).", structured=False)
    assert [SAMPLE.items[i] for i in reply.items] == [FILM]
    assert len(bodies) == 2


@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_where_a_server_has_no_tools_actions_are_json(backend, tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    with OllamaServer(tools=None, answer=choose) as server:
        system = agent_on(server, backend, recorder=recorder)
        reply = system.reply(1, WISH, {})
        system.reply(2, "More, please.", {})
    rows = pd.DataFrame(recorder.rows())
    recorder.close()
    calls = reply.extra["tool_calls"]
    assert reply.extra["tools"] == "json"
    assert len(calls) == 4  # it searches while it may
    assert ids_of(reply) == calls[0]["films"][:1]
    assert (rows["error"] == "no tools").sum() == 1
    assert len(rows) == 11
    assert rows["tool_calls"][0] == []
    assert rows.loc[rows["turn"] == 2, "step"].tolist() == [0, 1, 2, 3, 4]


def test_json_actions_are_a_setting_demanded_tools_must_be_there_and_a_text_ends_them():
    with OllamaServer(tools=well, answer=choose) as server:
        reply = agent_on(server, tools="json").reply(1, WISH, {})
    assert reply.extra["tools"] == "json"
    for body in server.bodies:
        assert not body.get("tools")
    with OllamaServer(tools=None, answer=choose) as server:
        native = agent_on(server, tools="native")
        refused("does not support tools", native.reply, 1, WISH, {}, error=LLMError)

    def answer(prompt, schema, seed):
        if "anyOf" in schema and "Result of" not in prompt:
            return json.dumps({"action": "search_films", "arguments": {}})
        return json.dumps({"action": "reply", "reply": f"See {FILM.title} ({FILM.year})."})

    reply, _ = one_turn(None, answer=answer, structured=False)
    assert [SAMPLE.items[i] for i in reply.items] == [FILM]
    assert len(reply.extra["tool_calls"]) == 1


def test_a_whole_session_repeats_to_the_byte():
    def session():
        with OllamaServer(tools=well, answer=choose) as server:
            world = world_on(server)
            talk = simulate.session(world, "agent:ollama:tiny", 0, SimulateConfig(n_turns=4))
        return talk.dumps()

    assert session() == session()
