"""``crs catalog mcp``: the catalogue as the official client of the Model Context Protocol sees it, over stdio."""

import asyncio
import json
import sys
import time

import pytest

import crs_lib
from tests.helpers import table
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
            assert time.monotonic() - began < DEADLINE
        return tools, results


@pytest.fixture(scope="module")
def catalog_server():
    """The tools of the server, and its results for five calls."""
    return asyncio.run(
        seen(
            ("search_films", {"genre": "comedy", "year_to": 1930}),
            ("search_films", {"genre": "cookery"}),
            ("film", {"id": "metropolis-1927"}),
            ("film", {"id": "metropolis"}),
            ("search_films", {"year_to": "early"}),
        )
    )


pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


def test_two_tools_say_their_version_and_what_they_take(catalog_server):
    (search, film), _ = catalog_server
    for tool in (search, film):
        assert tool.meta["version"] == crs_lib.__version__
        assert tool.input_schema["additionalProperties"] is False
    fields = search.input_schema["properties"]
    assert search.name == "search_films"
    assert film.name == "film"
    assert fields["actor"]["description"] == "an actor that the movies must have"
    assert {*fields} == {*SAMPLE.fields} - {"year"} | {"year_from", "year_to", "without", "text"}


def test_an_agent_finds_films_with_structured_results(catalog_server):
    _, (comedies, none, film, unknown, wrong) = catalog_server
    expected = set()
    for position in SAMPLE.query({"genre": "Comedy"}).items.tolist():
        item = SAMPLE.items[position]
        if item.year <= 1930:
            expected.add(item.item_id)
    ids = {entry["id"] for entry in comedies.structured_content["films"]}
    assert ids == expected
    assert comedies.structured_content["found"] == len(expected)
    assert none.structured_content["films"] == []
    assert "no movie has genre" in none.structured_content["notes"][0]
    assert film.structured_content["title"] == "Metropolis"
    assert json.loads(film.content[0].text)["title"] == "Metropolis"
    assert unknown.is_error
    assert "did you mean 'metropolis-1927'" in unknown.content[0].text
    assert wrong.is_error


def test_rare_arguments_are_answered_or_refused_in_one_sentence_that_the_agent_reads():
    rare = table(__file__, "rare_calls")
    calls = [(name, json.loads(arguments)) for name, arguments, _ in rare]
    _, results = asyncio.run(seen(*calls))
    for (_, _, refusal), result in zip(rare, results, strict=True):
        text = result.content[0].text
        assert bool(result.is_error) == bool(refusal)
        assert refusal in text
        assert "\n" not in text
