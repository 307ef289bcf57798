"""Agents: models that search the catalogue, on servers that call tools well, never, endlessly, wrongly, or not at all."""

import json

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
from tests.helpers import refused
from tests.helpers.films import catalog as ten_films
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import GROUNDER, SAMPLE

TEN = ten_films()
WISH = "I'd like to see comedy films tonight. Any ideas?"
FILM = next(item for item in SAMPLE.items if "Comedy" in item.values["genre"] and item.year >= 1990)
WELL = [("search_films", {"genre": "comedy", "year_from": 1990})]


def tool_results(body):
    last = max(i for i, message in enumerate(body["messages"]) if message["role"] == "user")
    return [message["content"] for message in body["messages"][last:] if message["role"] == "tool"]


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
    pool = Pool(None, models={f"{backend}:tiny": LLM(f"{backend}:tiny", host=server.url, recorder=recorder)})
    return World(SAMPLE, GROUNDER, pool, ModelSettings(**{"retriever": "bm25", **settings}))


def made(server, backend="ollama", **settings):
    return systems.create(f"agent:{backend}:tiny", world_on(server, backend, **settings), 7, 0)


def one_turn(tools, backend="ollama", answer=choose, **settings):
    with OllamaServer(tools=tools, answer=answer) as server:
        return made(server, backend, **settings).reply(1, WISH, {}), server.bodies


def titles(outcome):
    return [TEN.items[item].title for item in outcome.items]


def search(**arguments):
    return agent.search(TEN, ToolCall("search_films", arguments), "bm25")


def test_a_search_finds_all_films_that_meet_everything_and_names_unknown_values():
    assert set(titles(search(genre="drama", actor="ada quill"))) == {"Harbour Lights", "Paper Kites"}
    assert titles(search(genre="Drama", without=["French", "War"], year_to=1960)) == ["Harbour Lights"]
    assert set(titles(search(year_from=1990, year_to=1999))) == {"1947", "Lantern Street"}
    assert len(search().items) == 9  # one of the ten is never recommended
    assert titles(search(text="a clerk"))[0] == "Her"
    assert len(search(text="a clerk").items) == 9
    assert search(genre="", actor=None, without=[]).items == search().items
    outcome = search(genre="Western", actor="Ada Quill")
    assert outcome.items == ()
    assert outcome.notes == ("no movie has genre 'Western'",)
    assert not outcome.fault


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("find", {}, "there is no tool 'find'; the only one is search_films"),
        ("search_films", {"genres": "war"}, "search_films takes no 'genres'; did you mean 'genre'?"),
        ("search_films", {"year_from": "1990s"}, "year_from is '1990s'; give a year as a whole number"),
        ("search_films", {"without": "war"}, "without is 'war'; give a list of texts"),
        ("search_films", {"genre": ["war", "drama"]}, "give one text"),
        ("search_films", {"year_to": True}, "give a year as a whole number"),
        ("search_films", {"year_from": 1999, "year_to": 1990}, "lies after year_to 1990, so that no movie"),
    ],
)
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
    assert call["n_found"] > 10 == len(call["films"])
    assert [SAMPLE.items[i].item_id for i in reply.items] == call["films"][:1]
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
    ("calls", "settings", "made", "refused", "requests", "films"),
    [
        ([], {}, 0, 0, 2, 0),
        (WELL, {}, 4, 0, 5, 1),  # it searches without end
        (
            WELL * 7,
            {"searches": 3},
            3,
            4,
            2,
            1,
        ),  # calls beyond the limit are answered and logged, but not made
        (WELL, {"searches": 0}, 0, 0, 1, 0),
    ],
)
def test_an_agent_searches_so_often_as_it_may(calls, settings, made, refused, requests, films):
    reply, bodies = one_turn(lambda body: calls, **settings)
    errors = [call.get("error") for call in reply.extra["tool_calls"]]
    assert errors == [None] * made + ["no search is left in this turn"] * refused
    assert len(bodies) == requests
    assert len(reply.items) == films
    assert not bodies[-1].get("tools") or not calls


def test_a_conversation_that_outgrows_the_context_leaves_room_for_the_tools():
    with OllamaServer(tools=well, answer=choose) as server:
        system = made(server, num_ctx=4096)
        replies = [system.reply(turn, WISH * 9, {}) for turn in range(1, 12)]
    assert replies[0].items
    assert replies[-1].extra["utterances_left_out"] > 0


@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_wrong_names_and_foreign_arguments_are_told_and_logged(backend):
    wrong = iter([[("find_movies", {"q": "x"})], [("search_films", {"mood": "dark", "genre": "war"})]])
    reply, bodies = one_turn(lambda body: next(wrong, []), backend)
    faults = [call["error"] for call in reply.extra["tool_calls"]]
    assert faults[0].startswith("there is no tool 'find_movies'")
    assert "takes no 'mood'" in faults[1]
    assert "there is no tool" in tool_results(bodies[1])[0]
    assert reply.items == ()


def test_arguments_that_are_no_json_or_huge_are_told_logged_and_bounded():
    broken = iter([[("search_films", '{"genre": ')], [("search_films", '["war"]')]])
    reply, _ = one_turn(lambda body: next(broken, []), "openai")
    errors = [call["error"].split(" (")[0] for call in reply.extra["tool_calls"]]
    assert errors == ["the arguments are not JSON", "the arguments are no JSON object"]
    reply, _ = one_turn(lambda body: [] if tool_results(body) else [("search_films", {"genre": "x" * 9000})])
    (call,) = reply.extra["tool_calls"]
    assert len(json.dumps(call)) < 600
    assert call["n_found"] == 0


def test_films_keep_their_numbers_over_the_turns_and_plain_text_is_the_reply():
    with OllamaServer(tools=well, answer=choose) as server:
        system = made(server)
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
        system = made(server, backend, recorder=recorder)
        reply = system.reply(1, WISH, {})
        _ = system.reply(2, "More, please.", {})
    assert reply.extra["tools"] == "json"
    assert len(reply.extra["tool_calls"]) == 4  # it searches while it may
    assert [SAMPLE.items[i].item_id for i in reply.items] == reply.extra["tool_calls"][0]["films"][:1]
    rows = list(recorder.rows())
    recorder.close()
    assert [row["error"] for row in rows].count("no tools") == 1
    assert len(rows) == 11
    assert rows[0]["tool_calls"] == []
    assert [row["step"] for row in rows if row["turn"] == 2] == [0, 1, 2, 3, 4]


def test_json_actions_are_a_setting_demanded_tools_must_be_there_and_a_text_ends_them():
    with OllamaServer(tools=well, answer=choose) as server:
        reply = made(server, tools="json").reply(1, WISH, {})
    assert reply.extra["tools"] == "json"
    assert not any(body.get("tools") for body in server.bodies)
    with OllamaServer(tools=None, answer=choose) as server:
        native = made(server, tools="native")
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
            return simulate.session(
                world_on(server), "agent:ollama:tiny", 0, SimulateConfig(n_turns=4)
            ).dumps()

    assert session() == session()
