"""Before a run: what it needs is listed at once, how long it will take, and what docs/running-llms.md says of both."""

import math
import os
import re
import subprocess
import sys

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.paths import ROOT
from crs_lib.judge.prompt import TURN_LIMITS
from crs_lib.llm import BACKENDS, LLM, Recorder, Request, Retry, http
from crs_lib.llm.base import DEFAULTS, REMEDIES
from crs_lib.llm.calls import TEXT_LIMIT
from crs_lib.llm.estimate import Cost, Work, costs, estimate, under_way
from crs_lib.llm.preflight import Need, preflight
from tests.helpers import table
from tests.helpers.ollama_server import DIGEST, OllamaServer

CALL = {"role": "crs", "model": "m", "cache_hit": False, "error": None}
ANSWERED = Cost(500.0, 60.0, 2.0, 8)
TEXT = (ROOT / "docs" / "running-llms.md").read_text(encoding="utf-8")


def hours(calls, at_once, cost):
    """The hours of the calls of one model."""
    work = [Work("crs", "m", calls, at_once)]
    return estimate(work, {("crs", "m"): cost})["hours"][0]


def test_hours_are_calls_times_seconds_over_those_really_at_once():
    assert hours(20_000, 8, ANSWERED) == pytest.approx(20_000 * 2 / 8 / 3600)
    three_waited_for_one_slot = Cost(500.0, 60.0, 3.0, 3.0)
    assert hours(3600, 1, three_waited_for_one_slot) == pytest.approx(3.0)
    assert hours(3600, 3, three_waited_for_one_slot) == pytest.approx(1.0)
    assert hours(3600, 16, three_waited_for_one_slot) == pytest.approx(1.0)


def test_the_last_row_holds_the_sum_of_all():
    prices = {("crs", "m"): ANSWERED, ("judge", "j"): Cost(2000.0, 80.0, 6.0, 9)}
    replies = Work("crs", "m", 20_000, at_once=8)
    judgements = Work("judge", "j", 3_000, at_once=5)
    table = estimate([replies, judgements], prices)
    crs, judge, everything = table.to_dict("records")
    assert judge["hours"] == pytest.approx(3_000 * 6 / 5 / 3600)
    assert everything["hours"] == pytest.approx(crs["hours"] + judge["hours"])
    assert everything["calls"] == 23_000
    assert everything["tokens_in"] == 10.0 + 6.0
    assert everything["tokens_out"] == 1.2 + 0.24


def test_what_a_model_takes_is_null_where_no_log_tells():
    work = [Work("crs", "m", 10), Work("user", "u", 5)]
    shown = estimate(work, {("crs", "m"): Cost(1, 1, 1)})
    assert shown["calls"].tolist() == [10, 5, 15]
    assert shown["hours"].isna().tolist() == [False, True, True]


def test_how_many_calls_were_under_way():
    spans = [(0.0, 2.0), (0.0, 2.0), (1.0, 2.0), (10.0, 2.0)]  # busy from 0 to 3 and from 10 to 12
    calls = [{"began": start, "seconds_all": long} for start, long in spans]
    assert under_way(calls) == 8 / 5
    assert under_way([]) == 1.0


def test_a_pilot_on_one_slot_foretells_the_whole(tmp_path):
    recorder = Recorder(tmp_path / "log.sqlite")
    requests = [Request.ask("crs", f"hello {i}") for i in range(12)]
    server = OllamaServer(delay=0.05, slots=1)
    with server, LLM("ollama:tiny", host=server.url, slots=4, recorder=recorder) as llm:
        llm.gather(requests)
    prices = costs(recorder.rows())
    work = [Work("crs", "ollama:tiny", 100, at_once=16)]
    seconds = estimate(work, prices)["hours"][0] * 3600
    assert seconds >= 0.99 * 100 * 0.05  # one call after the other takes 5 s, however many wait


def test_costs_come_from_calls_that_were_made():
    rows = [CALL | row for row in table(__file__, "logged")]
    rows[-1]["tokens_out"] = None
    assert costs(rows) == {("crs", "m"): Cost(500.0, 60.0, 3.0, 315 / 313)}


def of_agent(system, turn, step, tokens):
    """The logged call of an agent."""
    where = {"system": system, "session": 0, "turn": turn, "step": step}
    size = {"tokens_in": tokens, "tokens_out": 50, "seconds_all": 1.0, "began": 0.0}
    return CALL | where | size


@pytest.fixture
def agents():
    """The costs of an agent with two turns, and of a closed system with one."""
    rows = []
    for call in table(__file__, "calls_of_agents"):
        rows.append(of_agent(*call))
    return costs(rows)


def test_costs_are_those_of_a_mode(agents):
    agent = agents["crs", "agent:m"]
    closed = agents["crs", "closed:m"]
    assert agent.a_turn == 1.5
    assert agent.tokens_in == 200
    assert closed.a_turn == 1
    assert closed.tokens_in == 900


def test_an_agents_calls_are_taken_from_the_log(agents):
    work = Work("crs", "agent:m", 600, turns=100)
    shown = estimate([work, Work("crs", "free:m", 100)], agents)
    assert shown["calls"].tolist() == [150, 100, 250]  # of at most 600
    assert shown["tokens_in"][0] == 150 * 200 / 1e6
    assert math.isnan(shown["hours"][1])
    assert estimate([work], {})["calls"].tolist() == [600, 600]


@pytest.fixture
def server():
    with OllamaServer(["gemma:2b", "qwen"], context=4096) as running:
        yield running


def test_all_is_well(server):
    host = {"host": server.url}
    crs = Need("crs", "ollama:gemma:2b", {"num_ctx": 4096}, prompt=1000, settings=host)
    judge = Need("judge", "openai:qwen", {"num_ctx": 2048}, settings=host)
    digests = preflight([crs, judge, Need("user", "template")])
    assert digests == {"ollama:gemma:2b": DIGEST, "openai:qwen": "model:qwen", "template": "template-1"}
    assert server.chats == 0


@pytest.mark.parametrize("spec", ["ollama:gemma:2b", "openai:qwen"])
def test_a_server_says_the_context_of_a_model(spec, server):
    assert LLM(spec, host=server.url).backend.context_limit() == 4096


def test_a_template_has_no_context():
    assert LLM("template").backend.context_limit() is None


def test_all_that_is_missing_is_said_at_once(server):
    with OllamaServer(version="0.3.14") as old:
        hosts = {"running": server.url, "old": old.url, "nobody": "127.0.0.1:1"}
        needs = []
        for host, *need in table(__file__, "needs"):
            needs.append(Need(*need, settings={"host": hosts[host]}))
        with pytest.raises(RunError) as caught:
            preflight(needs)
    sentence = str(caught.value)
    for words in table(__file__, "missing"):
        assert words in sentence
    assert len(sentence.splitlines()) == 8


@pytest.mark.parametrize(("hosts", "addresses"), table(__file__, "addresses"))
def test_addresses_are_read_as_people_write_them(hosts, addresses):
    assert http.parse(hosts, port=11434, variable="OLLAMA_HOST") == tuple(addresses)


@pytest.mark.parametrize(("hosts",), table(__file__, "bad_addresses"))
def test_addresses_that_cannot_be_used_are_refused(hosts):
    with pytest.raises(InputError) as caught:
        http.parse(hosts, port=11434, variable="OLLAMA_HOST")
    assert "s3cret" not in str(caught.value)


@pytest.mark.subprocess
def test_a_list_of_servers_in_the_environment_reaches_all_of_them():
    ask = "from crs_lib.llm.preflight import Need, preflight; print(len(preflight([Need('crs', 'ollama:tiny')])))"
    with OllamaServer() as first, OllamaServer() as two:
        hosts = {"OLLAMA_HOST": f"{first.url},{two.url}".replace("http://", "")}
        command = [sys.executable, "-c", ask]
        output = subprocess.check_output(command, env=os.environ | hosts, text=True)
    assert output == "1\n"


def rows_of_table(section):
    """The cells of a Markdown table below its head."""
    rows = []
    for line in section.splitlines():
        if line.startswith("|"):
            cells = line.strip("|").split("|")
            rows.append([cell.strip() for cell in cells])
    return rows[2:]


def test_the_table_of_errors_is_that_of_the_code():
    after = TEXT.partition("## What is tried again")[2]
    section = after.partition("\n## ")[0]
    remedies = [(row[0], row[2]) for row in rows_of_table(section)]
    assert remedies == list(REMEDIES.items())[: len(remedies)]
    assert list(REMEDIES)[len(remedies) :] == ["wrong answer", "crashed", "too slow", "not started"]


def test_the_backends_are_those_of_the_code():
    before = TEXT.partition("## What each role does")[0]
    specs = re.findall(r"^\| `([^`:]+)", before, re.MULTILINE)
    assert {*specs, "scripted"} == set(BACKENDS.names())  # scripted is that of the tests


POLICY = Retry()
PAUSES = f"after pauses of {POLICY.first} s that double up to {POLICY.longest:g} s"


@pytest.mark.parametrize(
    "sentence",
    [
        f"up to {POLICY.waits} more times, {PAUSES}",
        f"at once, up to {POLICY.seeds} more times",
        f"`num_ctx` is {DEFAULTS['num_ctx']} unless",
        f"bounded at {TEXT_LIMIT:,} characters",
        f"shortened at {TURN_LIMITS[0]:,} characters",
    ],
)
def test_numbers_of_the_page_are_those_of_the_code(sentence):
    assert sentence in " ".join(TEXT.split())
