"""Programs reached over an address, as a process and as a class: answers, failures, retries, log, no state sent."""

import json
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.__main__ import main
from crs_lib.core.errors import RunError
from crs_lib.llm import LLMError, LLMSettings, Retry
from crs_lib.metrics import conventions
from crs_lib.runs.ledger import Ledger
from crs_lib.simulate.run import conversation_id
from crs_lib.systems import base as systems
from crs_lib.systems import contract
from crs_lib.systems.base import World
from crs_lib.systems.contract import Answer
from crs_lib.systems.programs import Programs
from crs_lib.systems.servers import CHANNELS
from tests.helpers import refused
from tests.helpers.jobs import alive, wait_until
from tests.helpers.programs import NODE, SHELL, ProgramServer, odd, script
from tests.helpers.sample import GROUNDER, SAMPLE
from tests.helpers.scripted import failing

FAST = partial(Programs, None, LLMSettings(timeout=2.0), retry=Retry(waits=2, first=0.01))
ASK = contract.request("00000", 2, 3, "sample", [("USER", "A drama, please.")])
HI = {"reply": "Hi"}
ALLOWED = {"version", "session", "turn", "want", "catalog", "conversation", "role", "content"}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results" / "movies"


def config(spec, **changes):
    small = {"run": "r", "systems": [spec], "n_sessions": 4, "n_turns": 3, "arms": ["shift"]}
    return simulate.SimulateConfig(**small | changes)


def simulated(spec, **changes):
    return simulate.simulate(config(spec, **changes), progress=False)


def calls(folder):
    return [json.loads(line) for line in (folder / "llm_calls.jsonl").read_text().splitlines()]


def made(spec, programs):
    return systems.create(spec, World(SAMPLE, GROUNDER, programs=programs), 7, 0)


def keys_within(value):
    if isinstance(value, dict):
        return set(value) | {key for one in value.values() for key in keys_within(one)}
    return {key for one in value for key in keys_within(one)} if isinstance(value, list) else set()


@pytest.mark.slow
def test_a_server_gets_the_conversation_and_nothing_of_the_log(results):
    with ProgramServer(lambda _: (200, {"reply": "See Metropolis (1927)."})) as server:
        folder = simulated(server.url, n_turns=12)
    assert len(server.requests) == 4 * 12
    assert set().union(*map(keys_within, server.requests)) == ALLOWED
    said = {
        conversation_id(7, d.session_id, "shift"): [turn.text for turn in d.turns]
        for d in simulate.dialogues("r")
    }
    for request in server.requests:
        talk = [one["content"] for one in request["conversation"]]
        assert talk == said[request["session"]][: 2 * request["turn"] - 1]
        assert [one["role"] for one in request["conversation"]][::2] == ["user"] * request["turn"]
    assert [(row["model"], row["error"]) for row in calls(folder)] == [(server.url, None)] * 48
    entry = runs.finished("movies", "r", "simulate", "03_simulate")
    assert entry["inputs"][f"program {server.url}"] == f"address:{server.url}"
    assert entry["counts"]["llm_calls"] == 48
    assert entry["parameters"]["want"] == 3


def test_connection_faults_and_5xx_are_tried_again_and_4xx_and_slow_answers_are_not():
    plan = []
    with ProgramServer(lambda _: plan.pop(0) if plan else (200, HI)) as server, FAST() as programs:
        for first in ([(503, "wait")], [(None, "")], [(500, "x"), (None, "")]):
            plan[:] = first
            before = len(server.requests)
            assert programs.ask(server.url, ASK).reply == "Hi"
            assert len(server.requests) == before + len(first) + 1
        said = "no such thing"
        for answer, kind, match, asked in (
            ((503, "wait"), "busy", "said: wait", 3),
            ((None, ""), "dropped", "ended early", 3),
            *(
                ((status, said), "refused", rf"said: {said} \(HTTP {status}\)", 1)
                for status in (400, 404, 408, 429, 302)
            ),
            ((200, "<html>"), "wrong answer", "not JSON: '<html>'", 1),
            ((200, {"reply": 3}), "wrong answer", "'reply' is a number", 1),
            ((200, "x" * 1_100_000), "wrong answer", "longer than 1,000,000 bytes", 1),
        ):
            plan[:], before = [answer] * 9, len(server.requests)
            with failing(kind, match=match):
                programs.ask(server.url, ASK)
            assert len(server.requests) - before == asked
    with ProgramServer(lambda _: (200, HI), delay=0.6) as server:
        with Programs(None, LLMSettings(timeout=0.2)) as programs, failing("too slow"):
            programs.ask(server.url, ASK)
        assert len(server.requests) == 1


def test_a_server_that_is_not_there_ends_the_run_before_its_first_session(results):
    spec = "http://127.0.0.1:9/reply"
    told = r"one thing is missing:\n  - crs: no server answers at http"
    refused(f"cannot start; {told}", simulated, spec, error=RunError)
    with FAST() as programs, failing("unreachable", match="is it running"):
        programs.ask(spec, ASK)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://name:secret@host/x", "must not hold a name and password"),
        ("http:", "needs a URL after a colon"),
        ("ievalm:http://name:secret@host", "must not hold"),
        ("http://host/x?key=1", "must not hold"),
        ("exec:", "needs a command after a colon"),
        ("exec:node 'adapter", "not a command line"),
        ("python:MySystem", "write python:package.module:Class"),
        ("python:my-module:My", "write python:package.module:Class"),
    ],
)
def test_a_spec_that_cannot_be_read_is_refused_at_once(spec, message):
    refused(message, config, spec)


@pytest.mark.subprocess
def test_a_shell_script_holds_twenty_scenarios(tmp_path, results, capsys):
    adapter = script(tmp_path, "adapter.sh", SHELL)
    seen = tmp_path / "seen.jsonl"
    spec = f"exec:{adapter} {seen}"
    folder = simulated(spec, n_sessions=20, workers=2)
    requests = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(requests) == 60 == len({(one["session"], one["turn"]) for one in requests})
    assert set().union(*map(keys_within, requests)) == ALLOWED
    talks = simulate.dialogues("r")
    assert [talk.session_id for talk in talks] == [f"{n:05d}" for n in range(20)]
    logged = {"rec_ids": ["metropolis-1927"], "state": {"genre": "drama"}, "constraints": {"genre": "Drama"}}
    assert all(logged.items() <= pair.system.meta.items() for talk in talks for pair in talk.pairs())
    capsys.readouterr()
    values = ["-p", "systems", json.dumps([spec]), "-p", "n_sessions", "3600", "-p", "n_turns", "5"]
    assert main(["estimate", *values, "--log", "r"]) == 0
    *_, own, total = capsys.readouterr().out.strip().splitlines()
    assert own.split()[-4:-2] == ["18000", "-"]
    assert total.split()[:3] == ["all", "18000", "0.0"]
    assert float(total.split()[-1]) < 5
    before = (folder / "dialogues.jsonl").read_bytes()
    simulated(spec, n_sessions=20, workers=2)
    assert len(seen.read_text().splitlines()) == 60
    assert (folder / "dialogues.jsonl").read_bytes() == before
    adapter.write_text(SHELL.replace("drama", "comedy"))
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"status": "finished"', '"status": "failed"'))
    refused(r"input program exec:.* there, .* now", simulated, spec, error=RunError, n_sessions=20, workers=2)


@pytest.mark.subprocess
def test_a_node_script_answers(tmp_path):
    pytest.importorskip("shutil").which("node") or pytest.skip("no node on this machine")
    adapter = script(tmp_path, "adapter.js", NODE)
    with FAST() as programs:
        reply = made(f"exec:node {adapter}", programs).reply(1, "I like drama", {"constraints": 1})
    assert reply.constraints == {"genre": "Drama"}
    assert reply.extra["state"] == {"genre": "drama"}
    assert [SAMPLE.items[i].item_id for i in reply.items] == ["metropolis-1927"]


@pytest.mark.subprocess
def test_sessions_of_a_bad_program_fail_with_the_reason_and_resume_when_it_is_mended(tmp_path, results):
    how = {0: "crash", 2: "rubbish", 3: "slow", 4: "twice", 5: "field", 6: "flood", 7: "kill"}
    spec = odd(tmp_path, how)
    own = config(spec, n_sessions=9, llm={"timeout": 1.0})
    started = time.monotonic()
    with pytest.raises(RunError, match=r"7 of 9 sessions failed; the first is session 0 .*KeyError: 'films'"):
        simulate.simulate(own, progress=False)
    assert time.monotonic() - started < 20
    with Ledger(results / "r" / "ledger.sqlite") as ledger:
        failed = {key.session: error for key, error in ledger.failures()}
    assert failed.keys() == how.keys()
    assert "ended with exit code 1 before it answered; its last words: " in failed[0]
    told = (
        "about to fail | ",
        "not JSON: 'I am no JSON'",
        "did not answer within 1 seconds",
        "more than one line answers a request",
        "'recommended' is a text",
        "longer than 1,000,000 bytes",
        "was ended by SIGKILL before it answered",
    )
    assert all(words in failed[session] for session, words in zip(how, told, strict=True))
    n_calls = len(calls(results / "r"))
    kinds = {row["error"] for row in calls(results / "r")}
    assert kinds - {None} == {"crashed", "too slow", "wrong answer"}
    (tmp_path / "mended").touch()
    folder = simulate.simulate(own, progress=False)
    assert [talk.session_id for talk in simulate.dialogues("r")] == [f"{n:05d}" for n in range(9)]
    assert len(calls(folder)) == n_calls + 7 * 3


@pytest.mark.subprocess
def test_a_run_may_do_without_a_few_sessions(tmp_path, results):
    folder = simulated(odd(tmp_path, {1: "crash"}), llm={"max_failed": 1})
    assert "KeyError: 'films'" in (folder / "failed_sessions.csv").read_text()
    assert len(simulate.dialogues("r")) == 3


@pytest.mark.subprocess
def test_a_program_is_too_slow_or_not_there_and_a_halt_ends_one_under_way(tmp_path):
    long = contract.request("00000", 1, 3, "sample", [("USER", "x" * 300_000)])
    with Programs(None, LLMSettings(timeout=0.3)) as programs:
        with failing("too slow"):
            programs.ask("exec:sleep 30", long)
        with failing("crashed", match=r"ended with exit code 0 .*; it wrote nothing to standard error"):
            programs.ask("exec:true", ASK)
        with failing("not started", match="No such file"):
            programs.ask("exec:./nothing-here", ASK)
    refused("nothing-here is not there", simulated, "exec:./nothing-here", error=RunError)
    programs = Programs(None, LLMSettings(timeout=30.0))
    threading.Timer(0.3, programs.halt).start()
    started = time.monotonic()
    refused("SIGKILL", programs.ask, "exec:sleep 30", ASK, error=LLMError)
    assert time.monotonic() - started < 5
    refused("was stopped before this call", programs.ask, "exec:sleep 30", ASK, error=RunError)


MINE = """
class Mine:
    def __init__(self, catalog):
        self.size = len(catalog)

    def reply(self, request):
        request["conversation"].clear()
        if self.size and request["turn"] == FAILS:
            raise ValueError("no more")
        return {"reply": f"Film {request['turn']} of {self.size}: Metropolis (1927)."}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda text: (tmp_path / "mine_of_test.py").write_text(text)
    sys.modules.pop("mine_of_test", None)


@pytest.mark.slow
def test_a_class_in_the_current_folder_is_a_system_its_changes_count_and_its_lack_is_said(module):
    spec = "python:mine_of_test:Mine"
    module(MINE.replace("FAILS", "99"))
    simulated(spec)
    reply = simulate.dialogues("r")[0].turns[3]
    assert reply.text == "Film 2 of 770: Metropolis (1927)."
    assert reply.meta["rec_titles"] == ["Metropolis"]
    module(MINE.replace("FAILS", "2"))
    with pytest.raises(RunError, match=r"reply raised ValueError: no more \(mine_of_test.py, line 9\)"):
        simulated(spec, run="changed")
    module("class Mine:\n    pass\n")
    for name, message in (
        ("mine_of_test:Mine", "Mine has no method reply"),
        ("mine_of_test:Other", r"mine_of_test has no class Other \(it has: Mine\)"),
        ("no_such_module:Mine", r"no_such_module cannot be imported \(ModuleNotFoundError"),
    ):
        refused(message, simulated, f"python:{name}", error=RunError, run="lacking")


FIVE = [item.item_id for item in SAMPLE.items[:5]]


@pytest.mark.parametrize(
    ("answer", "items", "foreign"),
    [
        ({"reply": "Metropolis and Modern Times."}, ["metropolis-1927", "modern-times-1936"], ()),
        (
            {"reply": "Hm.", "recommended": ["metropolis-1927", "Modern Times", "METROPOLIS (1927)"]},
            ["metropolis-1927", "modern-times-1936"],
            (),
        ),
        (
            {"reply": "See “Lamps of Nowhere”.", "recommended": ["Lamps of Nowhere", "Ape Days (1990)"]},
            [],
            ("Lamps of Nowhere", "Ape Days (1990)"),
        ),
        ({"reply": "Metropolis (1927) is old.", "recommended": []}, [], ()),
        ({"reply": "See *Lamps of Nowhere*."}, [], ("Lamps of Nowhere",)),
        ({"reply": "Five.", "recommended": FIVE}, FIVE[:3], ()),  # no more count than were wanted
    ],
)
def test_films_are_read_by_id_title_or_from_the_reply_and_no_more_than_wanted(answer, items, foreign):
    with ProgramServer(lambda _: (200, answer)) as server, FAST() as programs:
        reply = made(server.url, programs).reply(1, "A film, please", {})
    assert [SAMPLE.items[i].item_id for i in reply.items] == items
    assert reply.hallucinated == foreign
    assert reply.extra.get("films_beyond", 0) == 2 * (items == FIVE[:3])


def test_a_stated_state_is_scored_against_the_wishes_in_force():
    def answer(request):
        genre = "comedy" if request["turn"] % 2 else "no such genre"
        return 200, {"reply": "Hm.", "state": {"genre": genre, "mood": "gay"}}

    with ProgramServer(answer) as server, FAST() as programs:
        own = World(SAMPLE, GROUNDER, programs=programs)
        talk = simulate.session(own, server.url, 3, config(server.url, n_turns=6))
    (scores,) = evaluate.score_all([talk], GROUNDER, conventions.get("default"))
    for pair, row in zip(talk.pairs(), scores.turns, strict=True):
        wishes = pair.user.user_meta["constraints"]
        right = pair.turn % 2 and wishes.get("genre") == "Comedy"
        assert row["state_joint"] == float(bool(right) and len(wishes) == 1)
        assert row["state_f1"] == pytest.approx(2 / (1 + len(wishes)) if right else 0.0)


def test_a_request_is_the_documented_object():
    talk = [("USER", "Hello"), ("SYSTEM", "Hi"), ("USER", "Films?")]
    assert contract.request("00012", 3, 3, "sample", talk) == {
        "version": 1,
        "session": "00012",
        "turn": 3,
        "want": 3,
        "catalog": "sample",
        "conversation": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "Films?"},
        ],
    }


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (HI, Answer("Hi")),
        ({"reply": ""}, Answer("")),
        (HI | {"recommended": []}, Answer("Hi", ())),
        ({"reply": "Hi", "recommended": ["a", "b"], "version": 1}, Answer("Hi", ("a", "b"))),
        (HI | {"recommended": None, "state": None}, Answer("Hi")),
        (HI | {"state": {}}, Answer("Hi", None, {})),
        (
            {"reply": "Hi", "state": {"genre": "comedy", "year": 1994, "actor": None, "writer": ["A", "B"]}},
            Answer("Hi", None, {"genre": "comedy", "year": "1994", "writer": ["A", "B"]}),
        ),
        (
            {"reply": "H\ud83d\ude00\ud800\0", "state": {"genre": "\ud800"}},
            Answer("H😀��", None, {"genre": "�"}),
        ),
        ({"reply": "Hi", "debug": 1, "seconds": 0.3}, Answer("Hi")),
    ],
)
def test_an_answer_is_read(values, read):
    assert contract.read(values) == read


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["Hi"], r"the answer is a list \('\[\"Hi\"\]'\), expected an object like"),
        (None, "the answer is null, expected an object"),
        ({"reply": None}, "'reply' is null, expected a text"),
        ({}, "'reply' is missing, expected a text; the answer has no field"),
        ({"text": "Hi"}, "'reply' is missing, expected a text; the answer has 'text'"),
        ({"reply": 3}, r"'reply' is a number \('3'\), expected a text"),
        (HI | {"state": {"year": 3.5}}, "'state.year' is a number"),
        (HI | {"recommended": "Alien"}, "'recommended' is a text .*, expected a list of film ids"),
        (HI | {"recommended": ["a", 7]}, r"'recommended\[1\]' is a number \('7'\), expected a film"),
        (HI | {"recommended": [{"id": 1}]}, r"'recommended\[0\]' is an object"),
        (HI | {"state": ["genre"]}, "'state' is a list .*, expected an object like"),
        (HI | {"state": {"genre": {"x": 1}}}, "'state.genre' is an object .*, expected a text"),
        (HI | {"state": {"genre": True}}, "'state.genre' is true or false"),
        (HI | {"version": 2}, "'version' is '2', expected 1 or no such field"),
        (HI | {"recomended": []}, "'recomended' is no field of an answer; did you mean 'recommended'"),
    ],
)
def test_a_wrong_field_is_named(values, message):
    with failing("wrong answer", match=message):
        contract.read(values)


@pytest.mark.parametrize("text", ["", "Hello", '{"reply": ', "[" * 100_000])
def test_what_is_not_json_is_said_with_its_beginning(text):
    refused(r"the answer is not JSON: '.*'; expected one object like", contract.parse, text, error=LLMError)


@pytest.mark.subprocess
def test_a_program_that_a_signal_without_a_name_ends(tmp_path):
    path = script(tmp_path, "ends.py", "import os\ninput()\nos.kill(os.getpid(), 40)\n")
    channel = CHANNELS["exec"](f"{sys.executable} -S {path}", 30.0)
    refused("was ended by signal 40 before it answered", channel.ask, {"conversation": []}, error=LLMError)
    channel.close()


@pytest.mark.subprocess
@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="only Linux tells a process's environment"
)
def test_what_a_program_started_ends_with_it_in_a_session_of_its_own_too(tmp_path):
    talks = """(setsid sleep 77 & echo $! > pid); while read -r line; do echo '{"reply": "Heat."}'; done"""
    with FAST() as programs:
        assert programs.ask(f"exec:sh {script(tmp_path, 'talks.sh', talks)}", ASK).reply == "Heat."
        child = int((tmp_path / "pid").read_text())
        wait_until(lambda: b"sleep" in Path(f"/proc/{child}/cmdline").read_bytes())
    wait_until(lambda: not alive(child))


NOTING = """
import os
class Noting:
    def __init__(self, catalog):
        self.name = f"{os.getpid()}.{id(self)}"

    def reply(self, request):
        print(self.name, request["session"], file=open("heard", "a"))
        return {"reply": "How about Metropolis (1927)?"}
"""


NOTES = """#!/bin/sh
while read -r line; do
    echo "$$ $(echo "$line" | grep -oE '[0-9]{18}')" >> heard
    printf '{"reply": "How about Metropolis (1927)?"}\\n'
done
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("spec", ["exec:./notes.sh", "python:mine_of_test:Noting"])
def test_no_process_or_object_serves_two_arms_of_a_scenario(module, results, spec):
    """They serve different arms of different scenarios, so that none can tell an arm by its place."""
    module(NOTING)
    script(".", "notes.sh", NOTES)
    arms = ["shift", "straight", "fresh"]
    simulated(spec, n_turns=7, n_sessions=8, workers=2, arms=arms)
    expected = {}
    for arm in arms:
        for talk in simulate.iter_dialogues("r", "" if arm == "shift" else arm):
            expected[conversation_id(7, talk.session_id, talk.extra["arm"])] = (talk.session_id[:5], arm)
    served = {}
    for line in results.parents[1].joinpath("heard").read_text().splitlines():
        one, session = line.split()
        scenario, arm = expected[session]
        served.setdefault(one, {}).setdefault(scenario, set()).add(arm)
    assert 3 <= len(served) <= 6
    assert all(len(met) == 1 for one in served.values() for met in one.values())
    assert any(len(set().union(*one.values())) > 1 for one in served.values())
