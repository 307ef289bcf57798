"""How long a run will take: from a log, from a probe, and what is not known stays unknown."""

import math

import pytest

from crs_lib.llm import LLM, Recorder, Request
from crs_lib.llm.estimate import Cost, Work, _under_way, costs, estimate
from tests.helpers.ollama_server import OllamaServer

ROW = {"role": "crs", "model": "m", "cache_hit": False, "error": None, "tokens_in": 400, "tokens_out": 50}


def test_hours_are_calls_times_seconds_over_those_really_at_once():
    known = {("crs", "m"): Cost(500.0, 60.0, 2.0, 8), ("judge", "j"): Cost(2000.0, 80.0, 6.0, 9)}
    work = [Work("crs", "m", 20_000, at_once=8), Work("judge", "j", 3_000, at_once=5)]
    crs, judge, everything = estimate(work, known).to_dict("records")
    assert crs["hours"] == pytest.approx(20_000 * 2 / 8 / 3600)  # 1.39
    assert judge["hours"] == pytest.approx(3_000 * 6 / 5 / 3600)  # 1.00
    assert everything["hours"] == pytest.approx(crs["hours"] + judge["hours"])
    assert (everything["calls"], everything["tokens_in"], everything["tokens_out"]) == (
        23_000, 10.0 + 6.0, 1.2 + 0.24,
    )  # fmt: skip
    three_waited_for_one_slot = {("crs", "m"): Cost(500.0, 60.0, 3.0, 3.0)}
    hours = [estimate([Work("crs", "m", 3600, n)], three_waited_for_one_slot)["hours"][0] for n in (1, 3, 16)]
    assert hours == pytest.approx([3.0, 1.0, 1.0])
    spans = [(0.0, 2.0), (0.0, 2.0), (1.0, 2.0), (10.0, 2.0)]  # busy from 0 to 3 and from 10 to 12
    assert _under_way({"began": start, "seconds_all": long} for start, long in spans) == 8 / 5
    assert _under_way([]) == 1.0
    table = estimate([Work("crs", "m", 10), Work("user", "u", 5)], {("crs", "m"): Cost(1, 1, 1)})
    assert table["calls"].tolist() == [10, 5, 15]
    assert [math.isnan(hours) for hours in table["hours"]] == [False, True, True]


def test_a_pilot_on_one_slot_foretells_the_whole(tmp_path):
    recorder, requests = (
        Recorder(tmp_path / "log.sqlite"),
        [Request.ask("crs", f"hello {i}") for i in range(12)],
    )
    server = OllamaServer(delay=0.05, slots=1)
    with server, LLM("ollama:tiny", host=server.url, slots=4, recorder=recorder) as llm:
        llm.gather(requests)
    known = costs(recorder.rows())
    seconds = estimate([Work("crs", "ollama:tiny", 100, at_once=16)], known)["hours"][0] * 3600
    assert seconds >= 0.99 * 100 * 0.05  # one call after the other takes 5 s, however many wait


def test_costs_come_from_calls_that_were_made():
    rows = [
        {**ROW, "seconds_all": 2.0, "began": 0.0},
        {**ROW, "tokens_in": 600, "tokens_out": 70, "seconds_all": 4.0, "began": 0.0},
        {**ROW, "cache_hit": True, "seconds_all": 0.0, "began": 1.0},
        {**ROW, "error": "timeout", "seconds_all": 300.0, "began": 10.0},
        {**ROW, "tokens_out": None, "seconds_all": 9.0, "began": 400.0},
    ]
    assert costs(rows) == {("crs", "m"): Cost(500.0, 60.0, 3.0, 315 / 313)}


def test_an_agents_calls_are_taken_from_the_log_and_costs_are_those_of_a_mode():
    rows = [
        {**ROW, "model": "m", "system": system, "session": 0, "turn": turn, "step": step, "tokens_in": tokens,
         "seconds_all": 1.0, "began": 0.0}
        for system, turn, step, tokens in [
            ("agent:m", 1, 0, 100), ("agent:m", 1, 1, 300), ("agent:m", 2, 0, 200), ("closed:m", 1, 0, 900),
        ]
    ]  # fmt: skip
    known = costs(rows)
    assert known["crs", "agent:m"].a_turn == 1.5 and known["crs", "agent:m"].tokens_in == 200
    assert known["crs", "closed:m"].a_turn == 1 and known["crs", "closed:m"].tokens_in == 900
    table = estimate([Work("crs", "agent:m", 600, turns=100), Work("crs", "free:m", 100)], known)
    assert list(table["calls"]) == [150, 100, 250]  # of at most 600
    assert table["tokens_in"][0] == 150 * 200 / 1e6 and math.isnan(table["hours"][1])
    assert list(estimate([Work("crs", "agent:m", 600, turns=100)], {})["calls"]) == [600, 600]
