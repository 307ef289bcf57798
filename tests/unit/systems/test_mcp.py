"""``crs catalog mcp``: the catalogue as the official client of the Model Context Protocol sees it, over stdio."""

import asyncio
import json
import sys
import time

import pytest

import crs_lib
from tests.helpers.sample import SAMPLE

DEADLINE = 5.0  # seconds that any call of a tool may take
pytest.importorskip("mcp", reason="the extra 'agents' is not installed")


async def seen(*requests):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = ["-m", "crs_lib", "catalog", "mcp", "--catalog", "sample"]
    command = StdioServerParameters(command=sys.executable, args=words)
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        started = await session.initialize()
        assert started.server_info.version == crs_lib.__version__
        tools = (await session.list_tools()).tools
        results = []
        for name, values in requests:
            began = time.monotonic()
            results.append(await session.call_tool(name, values))
            assert time.monotonic() - began < DEADLINE, (name, values)
        return tools, results


@pytest.mark.slow
@pytest.mark.subprocess
def test_an_agent_finds_films_through_two_tools_with_schemas_and_structured_results():
    tools, result = asyncio.run(
        seen(
            ("search_films", {"genre": "comedy", "year_to": 1930}),
            ("search_films", {"genre": "cookery"}),
            ("film", {"id": "metropolis-1927"}),
            ("film", {"id": "metropolis"}),
            ("search_films", {"year_to": "early"}),
        )
    )
    schemas = {tool.name: {*tool.input_schema["properties"]} for tool in tools}
    more = {"year_from", "year_to", "without", "text"}
    assert [tool.meta["version"] for tool in tools] == [crs_lib.__version__] * 2
    assert not any(tool.input_schema["additionalProperties"] for tool in tools)
    actor = tools[0].input_schema["properties"]["actor"]["description"]
    assert actor == "an actor that the movies must have"
    assert schemas.keys() == {"search_films", "film"}
    assert schemas["search_films"] == {*SAMPLE.fields} - {"year"} | more
    comedies, none, film, unknown, wrong = result
    items = [SAMPLE.items[i] for i in SAMPLE.query({"genre": "Comedy"}).items.tolist()]
    wanted = {item.item_id for item in items if item.year <= 1930}
    assert comedies.structured_content["found"] == len(wanted) > 0
    assert {entry["id"] for entry in comedies.structured_content["films"]} == wanted
    assert none.structured_content["films"] == []
    assert "no movie has genre" in none.structured_content["notes"][0]
    assert film.structured_content["title"] == "Metropolis" == json.loads(film.content[0].text)["title"]
    assert unknown.is_error
    assert "did you mean 'metropolis-1927'" in unknown.content[0].text
    assert wrong.is_error


# Rare arguments of agents: tool, arguments, and words of the refusal; none where the call is answered.
RARE = [
    ("search_films", {}, ""),
    ("search_films", {"genre": ""}, ""),
    ("search_films", {"genre": None}, ""),
    ("search_films", {"genre": "COMEDY"}, ""),
    ("search_films", {"genre": "cookery"}, ""),
    ("search_films", {"year_from": 1990, "year_to": 1990}, ""),
    ("search_films", {"without": []}, ""),
    ("search_films", {"text": "a city of machines"}, ""),
    ("search_films", {"text": 7}, ""),
    ("search_films", {"year_from": 1999, "year_to": 1990}, "exchange them"),
    ("search_films", {"year_from": "1990"}, "give a year as a whole number"),
    ("search_films", {"year_from": 1990.5}, "give a year as a whole number"),
    ("search_films", {"year_to": True}, "give a year as a whole number"),
    ("search_films", {"genres": "war"}, "did you mean 'genre'"),
    ("search_films", {"Genre": "war"}, "takes no 'Genre'"),
    ("search_films", {"year": 1990}, "takes no 'year'"),
    ("search_films", {"limit": 5}, "takes no 'limit'"),
    ("search_films", {"genre": ["war"]}, "give one text"),
    ("search_films", {"genre": {"is": "war"}}, "give one text"),
    ("search_films", {"without": "war"}, "give a list of texts"),
    ("search_films", {"without": [1]}, "give a list of texts"),
    ("find_films", {}, "there is no tool 'find_films'"),
    ("film", {"id": "metropolis-1927"}, ""),
    ("film", {"id": "metropolis"}, "did you mean 'metropolis-1927'"),
    ("film", {}, "film needs an id"),
    ("film", {"id": 7}, "no film has the id '7'"),
    ("film", {"id": "metropolis-1927", "year": 1927}, "film takes no 'year'"),
    ("film", {"title": "Metropolis"}, "film takes no 'title'"),
]


@pytest.mark.slow
@pytest.mark.subprocess
def test_rare_arguments_are_answered_or_refused_in_one_sentence_that_the_agent_reads():
    assert len(RARE) >= 25
    _, results = asyncio.run(seen(*[(name, arguments) for name, arguments, _ in RARE]))
    for (name, arguments, refusal), result in zip(RARE, results, strict=True):
        text = result.content[0].text
        assert bool(result.is_error) == bool(refusal), (name, arguments, text)
        assert refusal in text
        assert "\n" not in text
