"""Kills in mid-run: what a connected system has answered is not asked again, and no conversation is heard twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from crs_lib import runs, simulate
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Answers
from tests.helpers.jobs import stored, wait_until
from tests.helpers.programs import script
from tests.helpers.raw_server import Answering, Served

GOOD = "You could watch Metropolis (1927)."
MOST_IN_FLIGHT = 8  # requests under way at a kill: twice the slots of a server, or a worker's lanes
KINDS = ("http", "openai-chat", "a2a", "exec")
PROGRAM = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    with open({0!r}, "a") as log:
        log.write(request["session"] + "." + str(request["turn"]) + "\\n")
    time.sleep(0.02)
    print(json.dumps({{"reply": "You could watch Metropolis (1927)."}}), flush=True)
"""


class Counting(Served):
    """A stand-in of each protocol that counts what it is asked; ``contexts`` are the histories of an agent."""

    def __init__(self, delay=0.02, fails=0):
        self.asked = Counter()
        self.contexts = {}
        self.fails = fails  # requests from the second one on that fail
        self.guard = threading.Lock()
        super().__init__(_Counted, delay=delay, stand_in=self)

    @property
    def calls(self):
        return self.asked.total()

    def reply(self, path, request):
        """The answer to a request, which is counted."""
        with self.guard:
            if path == "/a2a":
                return self._agent(request)
            self.asked[json.dumps(request, sort_keys=True)] += 1
        if path == "/reply":
            return {"reply": GOOD}
        message = {"role": "assistant", "content": GOOD}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def _agent(self, request):
        message = request["params"]["message"]
        context = message.get("contextId") or f"of {message['messageId']}"
        self.asked[message["messageId"]] += 1
        self.contexts.setdefault(context, []).append(message["messageId"])
        parts = [{"kind": "text", "text": GOOD}]
        result = {"kind": "message", "role": "agent", "messageId": "m", "contextId": context, "parts": parts}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}


class _Counted(Answering):
    def do_POST(self):
        request = self.read()
        self.stand_in.work()
        if self.stand_in.fails and self.stand_in.calls:
            self.stand_in.fails -= 1
            self.answer("gone", 404)
        else:
            self.answer(self.stand_in.reply(self.path, request))


def spec_of(kind, server):
    path = {"http": "/reply", "openai-chat": "/chat", "a2a": "/a2a"}[kind]
    return f"{kind}:{server.url}{path}"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results" / "movies"


def batch(spec, **changes):
    llm = {"slots": 1, "timeout": 10}
    small = {"run": "r", "systems": [spec], "n_sessions": 1, "n_turns": 3, "arms": ["shift"], "llm": llm}
    return simulate.SimulateConfig(**small | changes)


@pytest.mark.parametrize("kind", ["http", "openai-chat"])
def test_a_session_goes_on_at_the_turn_that_has_no_answer(kind, results):
    with Counting(0.0, fails=1) as server:
        settings = batch(spec_of(kind, server))
        with pytest.raises(RunError, match="1 of 1 sessions failed"):
            simulate.simulate(settings, progress=False)
        folder = simulate.simulate(settings, progress=False)
    assert list(server.asked.values()) == [1, 1, 1]
    assert runs.Run("movies", "r").entry("simulate")["counts"]["asked_again"] == 1  # the turn that failed
    with Answers(folder / "ledger.sqlite") as answers:
        assert answers.asked_again() == 1


def test_an_agent_with_a_memory_hears_the_session_anew_as_another_conversation(results):
    with Counting(0.0, fails=1) as server:
        settings = batch(spec_of("a2a", server))
        with pytest.raises(RunError, match="1 of 1 sessions failed"):
            simulate.simulate(settings, progress=False)
        simulate.simulate(settings, progress=False)
    assert sorted(map(len, server.contexts.values())) == [1, 3]
    assert max(server.asked.values()) == 1
    assert runs.Run("movies", "r").entry("simulate")["counts"]["asked_again"] == 2


def test_the_settings_say_what_keeps_a_memory(results):
    with Counting(0.0, fails=1) as server:
        settings = batch(spec_of("http", server), llm={"slots": 1, "stateless": False})
        with pytest.raises(RunError, match="1 of 1 sessions failed"):
            simulate.simulate(settings, progress=False)
        simulate.simulate(settings, progress=False)
    sessions = Counter(json.loads(request)["session"] for request in server.asked)
    assert sorted(sessions.values()) == [1, 3]


@pytest.mark.full
@pytest.mark.subprocess
@pytest.mark.parametrize(("kind", "again"), [("http", 1), ("a2a", 2)])
def test_a_cluster_on_this_machine_keeps_answers_as_a_run_without_one_does(kind, again, results):
    pytest.importorskip("distributed", reason="needs the extra dist")
    with Counting(0.0, fails=1) as server:
        settings = batch(spec_of(kind, server), scheduler="local", workers=1)
        with pytest.raises(RunError, match="1 of 1 sessions failed"):
            simulate.simulate(settings, progress=False)
        simulate.simulate(settings, progress=False)
    assert max(server.asked.values()) == 1
    assert runs.Run("movies", "r").entry("simulate")["counts"]["asked_again"] == again


def without_override(words):
    """A command line without root's right to write where the mode of a folder forbids it."""
    if os.geteuid() != 0:
        return words
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", *words]


def simulated_by_a_user(folder, run):
    """Eighty sessions of the tracker, made by a process that has no right of root's."""
    words = [sys.executable, "-m", "crs_lib", "simulate", "-p", "run", run, "-p", "systems", "tracker"]
    words += ["-p", "n_sessions", "80", "-p", "n_turns", "8"]
    environment = {**os.environ, "CRS_RESULTS": str(folder), "PYTHONPATH": str(paths.ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        without_override(words), env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.full
@pytest.mark.subprocess
def test_a_folder_that_loses_its_permission_in_mid_run_costs_no_session(tmp_path):
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("needs setpriv to give up root's rights")
    folder = tmp_path / "movies" / "x"
    process = simulated_by_a_user(tmp_path, "x")
    wait_until(lambda: stored(folder / "ledger.sqlite") > 5)
    folder.chmod(0o555)
    output = process.communicate(timeout=300)[0]
    folder.chmod(0o755)
    assert process.returncode == 2, output
    assert "Permission denied" in output
    assert "Traceback" not in output
    assert not (folder / "dialogues.jsonl").exists()
    before = stored(folder / "ledger.sqlite")
    assert before > 5
    for run in ("x", "whole"):
        process = simulated_by_a_user(tmp_path, run)
        assert process.wait(300) == 0, process.stdout.read()
    whole = (tmp_path / "movies" / "whole" / "dialogues.jsonl").read_bytes()
    assert (folder / "dialogues.jsonl").read_bytes() == whole


def compare(spec, results, seed):
    """A comparison with the spec as it is started from a shell."""
    words = [
        "compare",
        f"Ours={spec}",
        "--against",
        "random",
        "--n",
        "6",
        "--run",
        "c",
        "--seed",
        str(seed),
    ]
    environment = {**os.environ, "CRS_RESULTS": str(results), "PYTHONPATH": str(paths.ROOT)}
    with (results.parent / "output.txt").open("a") as output:
        command = [sys.executable, "-m", "crs_lib", *words]
        return subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def killed(spec, results, calls, kills):
    """Kill a comparison after some calls, again and again; then let it end."""
    for number in range(kills):
        process = compare(spec, results, 7)
        wanted = calls() + 5 + 7 * number
        while calls() < wanted and process.poll() is None:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert compare(spec, results, 7).wait(300) == 0, (results.parent / "output.txt").read_text()


def talks(results):
    return (results / "movies" / "c" / "dialogues.jsonl").read_text().replace("\r", "")


@pytest.mark.full
@pytest.mark.subprocess
@pytest.mark.parametrize("kind", KINDS)
def test_kills_of_compare_ask_nothing_twice_that_was_answered(kind, tmp_path):
    kills = int(os.environ.get("CRS_KILLS", "5"))
    log = tmp_path / "asked.txt"
    log.touch()
    results = tmp_path / "results"
    results.mkdir()
    with Counting() as server:
        if kind == "exec":
            spec = f"exec:{sys.executable} -S {script(tmp_path, 'says.py', PROGRAM.format(str(log)))}"
        else:
            spec = spec_of(kind, server)
        killed(spec, results, lambda: server.calls + len(log.read_text().splitlines()), kills)
        requests = server.asked + Counter(log.read_text().splitlines())
        unbroken = tmp_path / "unbroken" / "results"
        unbroken.mkdir(parents=True)
        assert compare(spec, unbroken, 7).wait(300) == 0
    assert talks(results) == talks(unbroken)
    if kind == "a2a":
        assert max(requests.values()) == 1
        histories = server.contexts.values()
        assert all(len({number.rpartition("-")[0] for number in history}) == 1 for history in histories)
    else:
        assert requests.total() <= len(requests) + kills * MOST_IN_FLIGHT
