"""Programs reached over an address, as a process and as a class: answers, failures, retries, log, no state sent."""

import json
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.__main__ import main
from crs_lib.core.errors import RunError
from crs_lib.llm import LLMError, LLMSettings, Retry
from crs_lib.metrics import conventions
from crs_lib.runs.ledger import Ledger
from crs_lib.simulate.run import conversation_id
from crs_lib.systems import base as systems
from crs_lib.systems import channels, contract
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs, not_isolated
from crs_lib.systems.servers import CHANNELS
from crs_lib.systems.settings import ModelSettings
from tests.helpers import refused, table
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


def create(spec, programs):
    return systems.create(spec, World(SAMPLE, GROUNDER, programs=programs), 7, 0)


def keys_within(value):
    """All names of fields in a JSON value."""
    if isinstance(value, list):
        return set().union(*map(keys_within, value))
    if isinstance(value, dict):
        return set(value).union(*map(keys_within, value.values()))
    return set()


@pytest.mark.slow
def test_a_server_gets_the_conversation_and_nothing_of_the_log(results):
    with ProgramServer(lambda _: (200, {"reply": "See Metropolis (1927)."})) as server:
        folder = simulated(server.url, n_turns=12)
    assert len(server.requests) == 4 * 12
    assert keys_within(server.requests) == ALLOWED
    texts = {}
    for dialogue in simulate.dialogues("r"):
        name = conversation_id(7, dialogue.session_id, "shift")
        texts[name] = [turn.text for turn in dialogue.turns]
    for request in server.requests:
        messages = request["conversation"]
        talk = [message["content"] for message in messages]
        assert talk == texts[request["session"]][: 2 * request["turn"] - 1]
        assert [message["role"] for message in messages][::2] == ["user"] * request["turn"]
    rows = calls(folder)
    assert len(rows) == 48
    for row in rows:
        assert row["model"] == server.url
        assert row["error"] is None
    entry = runs.Run("movies", "r").finished("simulate", "03_simulate")
    assert entry["inputs"][f"program {server.url}"] == f"address:{server.url}"
    assert entry["counts"]["llm_calls"] == 48
    assert entry["parameters"]["want"] == 3


BUSY = (503, "wait")
DROPPED = (None, "")


@pytest.mark.parametrize("faults", [[BUSY], [DROPPED], [BUSY, DROPPED]])
def test_connection_faults_and_5xx_are_tried_again(faults):
    answers = iter([*faults, (200, HI)])
    with ProgramServer(lambda _: next(answers)) as server, FAST() as programs:
        answer = programs.ask(server.url, ASK)
    assert answer.reply == "Hi"
    assert len(server.requests) == len(faults) + 1


def attempts(status, answer, kind, words):
    """How often a server is asked whose answer always fails in this way."""
    with ProgramServer(lambda _: (status, answer)) as server, FAST() as programs, failing(kind, match=words):
        programs.ask(server.url, ASK)
    return len(server.requests)


@pytest.mark.parametrize(("status", "answer", "kind", "words", "times"), table(__file__, "lasting"))
def test_wrong_answers_and_4xx_but_those_that_pass_are_not_tried_again(status, answer, kind, words, times):
    assert attempts(status, answer, kind, words) == times


def test_a_dropped_connection_is_tried_again_and_a_huge_answer_is_not():
    assert attempts(None, "", "dropped", "ended early") == 3
    assert attempts(200, "x" * 1_100_000, "wrong answer", "longer than 1,000,000 bytes") == 1


def test_a_slow_answer_is_not_asked_for_again():
    with ProgramServer(lambda _: (200, HI), delay=0.6) as server:
        with Programs(None, LLMSettings(timeout=0.2)) as programs, failing("too slow"):
            programs.ask(server.url, ASK)
        assert len(server.requests) == 1


def test_a_server_that_is_not_there_ends_the_run_before_its_first_session(results):
    spec = "http://127.0.0.1:9/reply"
    missing = r"cannot start; one thing is missing:\n  - crs: no server answers at http"
    refused(missing, simulated, spec, error=RunError)
    with FAST() as programs, failing("unreachable", match="is it running"):
        programs.ask(spec, ASK)


@pytest.mark.parametrize(("spec", "refusal"), table(__file__, "program_specs"))
def test_a_spec_that_cannot_be_read_is_refused_at_once(spec, refusal):
    refused(refusal, config, spec)


@pytest.fixture
def shell(tmp_path):
    """The spec of a shell script that answers and keeps the requests, of which this is the file."""
    adapter = script(tmp_path, "adapter.sh", SHELL)
    return f"exec:{adapter} {tmp_path / 'seen.jsonl'}"


@pytest.mark.subprocess
def test_a_shell_script_holds_twenty_scenarios(tmp_path, shell, capsys):
    batch = {"n_sessions": 20, "workers": 2}
    folder = simulated(shell, **batch)
    seen = tmp_path / "seen.jsonl"
    requests = [json.loads(line) for line in seen.read_text().splitlines()]
    assert len(requests) == 60
    assert len({(request["session"], request["turn"]) for request in requests}) == 60
    assert keys_within(requests) == ALLOWED
    talks = simulate.dialogues("r")
    assert [talk.session_id for talk in talks] == [f"{n:05d}" for n in range(20)]
    logged = {"rec_ids": ["metropolis-1927"], "state": {"genre": "drama"}, "constraints": {"genre": "Drama"}}
    for talk in talks:
        for pair in talk.pairs():
            assert logged.items() <= pair.system.meta.items()
    capsys.readouterr()
    values = ["-p", "systems", json.dumps([shell]), "-p", "n_sessions", "3600", "-p", "n_turns", "5"]
    assert main(["estimate", *values, "--log", "r"]) == 0
    *_, own, total = capsys.readouterr().out.strip().splitlines()
    assert own.split()[-4:-2] == ["18000", "-"]
    assert total.split()[:3] == ["all", "18000", "0.0"]
    assert float(total.split()[-1]) < 5
    before = (folder / "dialogues.jsonl").read_bytes()
    simulated(shell, **batch)
    assert len(seen.read_text().splitlines()) == 60
    assert (folder / "dialogues.jsonl").read_bytes() == before
    (tmp_path / "adapter.sh").write_text(SHELL.replace("drama", "comedy"))
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"status": "finished"', '"status": "failed"'))
    refused(r"input program exec:.* there, .* now", simulated, shell, error=RunError, **batch)


@pytest.mark.subprocess
def test_a_node_script_answers(tmp_path):
    pytest.importorskip("shutil").which("node") or pytest.skip("no node on this machine")
    adapter = script(tmp_path, "adapter.js", NODE)
    with FAST() as programs:
        reply = create(f"exec:node {adapter}", programs).reply(1, "I like drama", {"constraints": 1})
    assert reply.constraints == {"genre": "Drama"}
    assert reply.extra["state"] == {"genre": "drama"}
    assert [SAMPLE.items[i].item_id for i in reply.items] == ["metropolis-1927"]


@pytest.mark.subprocess
def test_sessions_of_a_bad_program_fail_with_the_reason_and_resume_when_it_is_mended(tmp_path, results):
    failures = table(__file__, "failures")
    spec = odd(tmp_path, {session: how for session, how, _ in failures})
    batch = config(spec, n_sessions=9, llm={"timeout": 1.0})
    started = time.monotonic()
    with pytest.raises(RunError, match=r"7 of 9 sessions failed; the first is session 0 .*KeyError: 'films'"):
        simulate.simulate(batch, progress=False)
    assert time.monotonic() - started < 20
    with Ledger(results / "r" / "ledger.sqlite") as ledger:
        failed = {key.session: error for key, error in ledger.failures()}
    assert len(failed) == len(failures)
    for session, _, words in failures:
        assert words in failed[session]
    rows = calls(results / "r")
    assert {row["error"] for row in rows} - {None} == {"crashed", "too slow", "wrong answer"}
    (tmp_path / "mended").touch()
    folder = simulate.simulate(batch, progress=False)
    assert [talk.session_id for talk in simulate.dialogues("r")] == [f"{n:05d}" for n in range(9)]
    assert len(calls(folder)) == len(rows) + 7 * 2  # their first turns had an answer, which is stored


@pytest.mark.subprocess
def test_a_run_may_do_without_a_few_sessions(tmp_path, results):
    folder = simulated(odd(tmp_path, {1: "crash"}), llm={"max_failed": 1})
    assert "KeyError: 'films'" in (folder / "failed_sessions.csv").read_text()
    assert len(simulate.dialogues("r")) == 3


@pytest.mark.subprocess
def test_a_program_is_too_slow_or_not_there(tmp_path):
    long = contract.request("00000", 1, 3, "sample", [("USER", "x" * 300_000)])
    with Programs(None, LLMSettings(timeout=0.3)) as programs:
        with failing("too slow"):
            programs.ask("exec:sleep 30", long)
        with failing("crashed", match=r"ended with exit code 0 .*; it wrote nothing to standard error"):
            programs.ask("exec:true", ASK)
        with failing("not started", match="No such file"):
            programs.ask("exec:./nothing-here", ASK)
    refused("nothing-here is not there", simulated, "exec:./nothing-here", error=RunError)


@pytest.mark.subprocess
def test_a_halt_ends_a_program_under_way():
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


@pytest.mark.subprocess
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
    for name, message in table(__file__, "lacking"):
        refused(message, simulated, f"python:{name}", error=RunError, run="lacking")


LANES = """
import os

class Lane:
    def __init__(self, catalog):
        print("no answer")

    def reply(self, request):
        return {"reply": str(os.getpid())}
"""


def processes_of(spec):
    """The processes that each scenario met, an arm each."""
    simulated(spec, arms=["shift", "straight", "fresh"], n_turns=8, n_sessions=6)
    processes = {}
    for arm in ("", "straight", "fresh"):
        for dialogue in simulate.iter_dialogues("r", arm):
            scenario = dialogue.session_id.split(".")[0]
            replies = {turn.text for turn in dialogue.turns[1::2]}
            processes.setdefault(scenario, []).append(replies)
    return processes


@pytest.mark.subprocess
@pytest.mark.slow
def test_no_process_hears_two_arms_of_a_scenario_and_there_is_one_a_lane(module):
    module(LANES)
    processes = processes_of("python:mine_of_test:Lane")
    everyone = set()
    for arms in processes.values():
        met = set.union(*arms)
        for replies in arms:
            assert len(replies) == 1
        assert len(met) == len(arms)
        everyone |= met
    assert max(map(len, processes.values())) == 3
    assert len(everyone) == 3


@pytest.mark.subprocess
def test_a_function_runs_as_a_copy_and_prints_no_answer(monkeypatch):
    seen = []

    def remembering(messages):
        print("no answer")
        seen.append(messages[-1]["content"])
        return f"{os.getpid()} {len(seen)}"

    monkeypatch.setitem(channels.FUNCTIONS, "mine", remembering)
    with FAST() as programs:
        answers = [programs.ask("function:mine", ASK, lane=lane) for lane in (0, 0, 1)]
    processes, counts = zip(*[answer.reply.split() for answer in answers], strict=True)
    assert counts == ("1", "2", "1")
    assert len(set(processes)) == 2
    assert seen == []
    assert not_isolated(["function:mine"]) == []


def test_a_function_that_cannot_be_copied_runs_together_and_is_listed(monkeypatch):
    lock = threading.Lock()

    def locked(messages):
        with lock:
            return str(os.getpid())

    monkeypatch.setitem(channels.FUNCTIONS, "mine", locked)
    with FAST() as programs:
        assert programs.ask("function:mine", ASK, lane=1).reply == str(os.getpid())
    assert not_isolated(["function:mine", "exec:x"]) == ["function:mine"]


@pytest.mark.subprocess
def test_what_a_function_raises_is_said_with_its_line(monkeypatch):
    def raising(messages):
        raise ValueError("no more")

    monkeypatch.setitem(channels.FUNCTIONS, "mine", raising)
    with FAST() as programs, failing("crashed", match=r"the function raised ValueError: no more \("):
        programs.ask("function:mine", ASK)


def reply_to(answer):
    """The reply that is read of a server's answer, and the ids of its films."""
    with ProgramServer(lambda _: (200, answer)) as server, FAST() as programs:
        reply = create(server.url, programs).reply(1, "A film, please", {})
    return reply, [SAMPLE.items[item].item_id for item in reply.items]


@pytest.mark.parametrize(("answer", "films", "hallucinated"), table(__file__, "films_read"))
def test_films_are_read_by_id_title_or_from_the_reply(answer, films, hallucinated):
    reply, ids = reply_to(answer)
    assert ids == films
    assert list(reply.hallucinated) == hallucinated
    assert "films_beyond" not in reply.extra


def test_no_more_films_count_than_were_wanted():
    five = [item.item_id for item in SAMPLE.items[:5]]
    reply, ids = reply_to({"reply": "Five.", "recommended": five})
    assert ids == five[:3]
    assert reply.extra["films_beyond"] == 2


def test_a_stated_state_is_scored_against_the_wishes_in_force():
    def answer(request):
        genre = "comedy" if request["turn"] % 2 else "no such genre"
        return 200, {"reply": "Hm.", "state": {"genre": genre, "mood": "gay"}}

    with ProgramServer(answer) as server, FAST() as programs:
        world = World(SAMPLE, GROUNDER, programs=programs)
        talk = simulate.session(world, server.url, 3, config(server.url, n_turns=6))
    (scores,) = evaluate.score_all([talk], GROUNDER, conventions.get("default"))
    for pair, row in zip(talk.pairs(), scores.turns, strict=True):
        wishes = pair.user.user_meta["constraints"]
        right = bool(pair.turn % 2 and wishes.get("genre") == "Comedy")
        assert row["state_joint"] == float(right and len(wishes) == 1)
        assert row["state_f1"] == pytest.approx(2 / (1 + len(wishes)) if right else 0.0)


def test_a_request_is_the_documented_object():
    talk = [("USER", "Hello"), ("SYSTEM", "Hi"), ("USER", "Films?")]
    request = contract.request("00012", 3, 4, "sample", talk)
    messages = request.pop("conversation")
    assert request == {"version": 1, "session": "00012", "turn": 3, "want": 4, "catalog": "sample"}
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [message["content"] for message in messages] == ["Hello", "Hi", "Films?"]


@pytest.mark.parametrize(("values", "fields"), table(__file__, "answers"))
def test_an_answer_is_read(values, fields):
    answer = contract.read(json.loads(values))
    films = fields.get("recommended")
    assert answer.reply == fields.get("reply", "Hi")
    assert answer.recommended == (films if films is None else tuple(films))
    assert answer.state == fields.get("state")
    assert answer.thinking == fields.get("thinking", "")


def test_values_of_numpy_bytes_and_halves_of_a_pair_are_read():
    films = contract.read(HI | {"recommended": (np.str_("Metropolis"), np.float64(4))})
    ids = contract.read(HI | {"recommended": np.array([3, 12])})
    state = contract.read(HI | {"state": {"year": np.int64(1927), "writer": np.array(["A", "B"])}})
    assert films.recommended == ("Metropolis", "4")
    assert ids.recommended == ("3", "12")
    assert state.state == {"year": "1927", "writer": ["A", "B"]}
    assert contract.read({"reply": "Amélie".encode()}).reply == "Amélie"
    assert contract.read({"reply": "H\ud83d\ude00"}).reply == "H😀"


@pytest.mark.parametrize(("values", "words"), table(__file__, "wrong_answers"))
def test_a_wrong_field_is_named(values, words):
    with failing("wrong answer", match=words):
        contract.read(json.loads(values))


def test_bytes_that_are_no_utf_8_are_named():
    latin = {"reply": "Amélie".encode("latin-1")}
    with failing("wrong answer", match="not UTF-8 .byte 0xe9 at 2, after 'Am'"):
        contract.read(latin)


@pytest.mark.parametrize("text", ["", "Hello", '{"reply": ', "[" * 100_000])
def test_what_is_not_json_is_said_with_its_beginning(text):
    refused(r"the answer is not JSON: '.*'; expected one object like", contract.parse, text, error=LLMError)


@pytest.mark.subprocess
def test_a_program_that_a_signal_without_a_name_ends(tmp_path):
    path = script(tmp_path, "ends.py", "import os\ninput()\nos.kill(os.getpid(), 40)\n")
    channel = CHANNELS["exec"](f"{sys.executable} -S {path}", LLMSettings(timeout=30.0))
    refused("was ended by signal 40 before it answered", channel.ask, {"conversation": []}, error=LLMError)
    channel.close()


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's environment")
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
    """They serve different arms of different scenarios, so that none can tell an arm by its position."""
    module(NOTING)
    script(".", "notes.sh", NOTES)
    arms = ["shift", "straight", "fresh"]
    simulated(spec, n_turns=7, n_sessions=8, workers=2, arms=arms)
    sessions = {}
    for arm in arms:
        for talk in simulate.iter_dialogues("r", "" if arm == "shift" else arm):
            name = conversation_id(7, talk.session_id, talk.extra["arm"])
            sessions[name] = (talk.session_id[:5], arm)
    served = {}  # arms by program and scenario
    for line in results.parents[1].joinpath("heard").read_text().splitlines():
        program, session = line.split()
        scenario, arm = sessions[session]
        served.setdefault(program, {}).setdefault(scenario, set()).add(arm)
    assert 3 <= len(served) <= 6
    arms_of = []
    for scenarios in served.values():
        for arms in scenarios.values():
            assert len(arms) == 1
        arms_of.append(set().union(*scenarios.values()))
    assert max(map(len, arms_of)) > 1


COUNTING = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

heard = set()


class Counting(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        heard.add(request["session"])
        body = json.dumps({"reply": f"{len(heard)} heard"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Counting).serve_forever()
"""


@pytest.mark.subprocess
def test_a_server_that_a_command_starts_anew_hears_one_user_of_a_scenario(results, tmp_path):
    command = f"{sys.executable} -S {script(tmp_path, 'counting.py', COUNTING)} {{port}}"
    arms = ["shift", "straight", "fresh"]
    nowhere = "http://127.0.0.1:1/reply"  # nothing need run at the address itself
    simulated(nowhere, n_sessions=1, n_turns=7, arms=arms, llm={"fresh_server": command})
    for arm in ("", "straight", "fresh"):
        (talk,) = simulate.iter_dialogues("r", arm)
        assert talk.turns[-1].text == "1 heard"
    assert runs.Run("movies", "r").entry("simulate")["counts"]["not_isolated"] == []


def test_a_command_of_a_server_says_where_its_port_goes():
    refused("say where its port goes, e.g. 'python", ModelSettings, fresh_server="python server.py")
