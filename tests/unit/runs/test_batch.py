"""Batches: any number of workers, any number of kills, a full disk; nothing lost, nothing done twice."""

import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from crs_lib.core.errors import RunError
from crs_lib.llm import client
from crs_lib.llm.base import LLMError, Request
from crs_lib.runs.jobs import PATIENCE, check_failures, sessions
from crs_lib.runs.ledger import Done, Key, Ledger
from crs_lib.runs.processes import completed, submitter
from tests.helpers import jobs, refused
from tests.helpers.jobs import Dies, Draws, Refuses, alive, keys, run, stored, wait_until

JOB = Path(jobs.__file__)
WORKERS = [1, pytest.param(2, marks=pytest.mark.subprocess)]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def in_process(n, seed=5):
    """What the sessions are, made one after the other without any of the machinery."""
    make = Draws(seed)
    return [make(key) for key in keys(n)]


def start(path, n, workers, pause=0.0):
    """The job as a process of its own."""
    words = [sys.executable, str(JOB), str(path), str(n), str(workers), str(pause)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("workers", [*WORKERS, pytest.param(3, marks=pytest.mark.subprocess)])
def test_sessions_do_not_depend_on_the_number_of_workers(ledger, workers):
    assert run(ledger, keys(12), Draws, (5,), workers=workers, chunk=5) == 24
    assert list(ledger.bodies(keys(12))) == in_process(12)


def test_only_what_is_missing_is_done(ledger):
    for n, made in ((3, 6), (5, 4), (5, 0)):
        assert run(ledger, keys(n), Draws, (5,)) == made
    assert run(ledger, [], Draws, (5,), workers=2) == 0
    assert ledger.counts() == {"done": 10}


@pytest.mark.parametrize("workers", WORKERS)
def test_a_failing_session_is_tried_again_and_a_maker_that_cannot_be_made_says_so(ledger, workers):
    with pytest.raises(RunError, match=r"1 of 8 sessions failed.*session 2 of 'echo'.*no session 2"):
        run(ledger, keys(4), Draws, (5, 0, [Key("echo", 2)]), workers=workers, chunk=3)
    assert ledger.counts() == {"done": 7, "failed": 1}
    assert run(ledger, keys(4), Draws, (5,), workers=workers) == 1
    assert ledger.counts() == {"done": 8}
    assert list(ledger.bodies(keys(4))) == in_process(4)
    refused("no such catalogue", run, ledger, keys(9), Refuses, ("no such catalogue",), workers=workers)


@pytest.mark.subprocess
def test_a_worker_that_is_killed_ends_the_batch_with_advice(ledger):
    refused("ended without an answer", run, ledger, keys(2), Dies, (), workers=2, error=RunError)


@pytest.mark.parametrize("workers, says", [
    (0, "workers is 0"),
    (-1, "workers is -1"),
    (100_000, "100,000, the limit is 256 processes or threads of one command; raise it with CRS_MOST_WORKERS"),
])  # fmt: skip
def test_without_workers_nothing_can_be_done_and_not_with_any_number(ledger, workers, says):
    refused(says, run, ledger, keys(1), Draws, (5,), workers=workers)


def killed(process, path, beyond):
    """Kill the job once it has stored more than so many sessions; how many are stored then."""
    wait_until(lambda: stored(path) > beyond or process.poll() is not None)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    children = [int(child) for child in listed.read_text().split()] if listed.exists() else []
    process.kill()
    process.communicate()
    wait_until(lambda: not any(alive(child) for child in children))  # the workers end by themselves
    return stored(path)


@pytest.mark.subprocess
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(tmp_path, workers):
    path, n = tmp_path / "ledger.sqlite", 150
    reached = [0]
    for _ in range(3):
        reached.append(killed(start(path, n, workers, pause=0.02), path, reached[-1] + 20))
    assert 0 < reached[1] < reached[2] < reached[3] < 2 * n  # each start went on, none came to the end
    process = start(path, n, workers)
    assert (process.communicate()[1], process.returncode) == ("", 0)
    with Ledger(path) as ledger:
        assert list(ledger.bodies(keys(n))) == in_process(n)
        assert ledger.counts() == {"done": 2 * n}
        assert ledger.do("SELECT DISTINCT attempt FROM sessions") == [(1,)]  # nothing was stored twice


@pytest.mark.subprocess
def test_a_worker_that_is_ended_while_it_writes_holds_nobody_up(tmp_path):
    """Whoever waits for the rest of the result is interrupted, and nothing waits for the worker."""
    said, main = tmp_path / "said", threading.main_thread().ident

    def interrupt():
        wait_until(said.exists)
        signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    began = time.monotonic()
    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        with pytest.raises(KeyboardInterrupt), submitter(jobs.half_a_result, None, 1) as (submit, width):
            list(completed(submit, [said], width))
    finally:
        signal.signal(signal.SIGINT, before)
    watcher.join()
    assert time.monotonic() - began < 50
    wait_until(lambda: not multiprocessing.active_children(), seconds=20)


def test_threads_share_one_maker_work_at_the_same_time_and_give_the_same_sessions(ledger, tmp_path):
    made = []

    def make(seed):
        made.append(Draws(seed))
        return made[-1]

    assert run(ledger, keys(6), make, (5,), threads=4) == 12
    assert list(ledger.bodies(keys(6))) == in_process(6)
    assert len(made) == 1
    together = threading.Barrier(4, timeout=30)  # opens only when four sessions are under way at once

    def maker(key):
        together.wait()
        return "{}"

    with Ledger(tmp_path / "barrier.sqlite") as other:
        assert run(other, keys(4), lambda: maker, (), threads=4) == 8


def test_sessions_that_failed_before_do_not_make_the_batch_give_up(ledger):
    def maker(key):
        if key.session < 2 * PATIENCE:
            raise ValueError("no")
        return "{}"

    every = keys(2 * PATIENCE + 1)
    bad = [key for key in every if key.session < 2 * PATIENCE]
    ledger.record([Done(key, None, "ValueError: no") for key in bad])
    sessions(ledger, every, lambda: maker, (), threads=1)
    assert ledger.finished() == set(every) - set(bad)
    with pytest.raises(RunError, match=rf"{len(bad)} of {len(every)} sessions failed; .* ones, or so"):
        check_failures(ledger, every, len(bad) - 1, ", or so")
    check_failures(ledger, every, len(bad))


class Sulks:
    """A session of a system that fails with the number of the session, and of one that never does."""

    def __call__(self, key):
        if key.system == "echo":
            raise LLMError("wrong answer", f"no reply in session {key.session}", "{}")
        return "{}"


@pytest.mark.parametrize("ways", [{"threads": 2}, {"workers": 1}])
def test_three_equal_failures_of_a_system_in_a_row_end_the_batch_whatever_others_do(ledger, ways):
    each_in_turn = sorted(keys(200), key=lambda key: key.session)
    with pytest.raises(RunError, match="3 sessions of 'echo' failed in a row in the same way"):
        run(ledger, each_in_turn, Sulks, (), **ways)
    assert PATIENCE <= ledger.counts()["failed"] < PATIENCE + 10


def test_what_was_sent_and_came_back_last_is_told_where_a_batch_ends(ledger):
    def maker(key):
        request = Request.ask("crs", "a film by Lubitsch?")

        def attempt(request):
            raise LLMError("wrong answer", "no key 'reply'", '{"answer": 3}')

        client.persist(client.Retry(), request, attempt, threading.Event())

    with pytest.raises(RunError, match="no key 'reply'") as ended:
        run(ledger, keys(9), lambda: maker, (), threads=1)
    assert "sent, as message 1: a film by Lubitsch?" in str(ended.value)
    assert 'came back: {"answer": 3}' in str(ended.value)


def test_a_batch_goes_on_after_a_success_and_as_long_as_failures_are_allowed(ledger, tmp_path):
    bad = [key for key in keys(40) if key.session % 2]
    with pytest.raises(RunError, match=f"{len(bad)} of 80 sessions failed"):
        run(ledger, keys(40), Draws, (5, 0, bad), threads=1)
    assert ledger.counts() == {"done": 80 - len(bad), "failed": len(bad)}
    with Ledger(tmp_path / "allowed.sqlite") as other:
        late = [key for key in keys(8) if key.session]
        sessions(other, keys(8), Draws, (5, 0, late), threads=1, most_failed=14)
        assert other.counts() == {"done": 2, "failed": 14}


def test_a_system_that_finished_nothing_ends_a_batch_whatever_is_allowed(ledger):
    with pytest.raises(RunError, match=r"3 sessions of '\w+' failed in a row"):
        sessions(ledger, keys(8), Draws, (5, 0, keys(8)), threads=1, most_failed=100)


def test_left_early_the_sessions_under_way_are_halted(tmp_path):
    class Waits:
        """A session that ends only when it is told to."""

        def __init__(self):
            self.stop, self.models = threading.Event(), self

        def halt(self):
            self.stop.set()

        def __call__(self, key):
            if key.session == 0:
                return "{}"
            self.stop.wait(60)
            raise RuntimeError("halted")

    class Full(Ledger):
        def record(self, items):
            raise RunError("the disk is full")

    maker, started = Waits(), time.monotonic()
    with Full(tmp_path / "ledger.sqlite") as ledger, pytest.raises(RunError, match="disk is full"):
        run(ledger, keys(5), lambda: maker, (), threads=3)
    assert maker.stop.is_set()
    assert time.monotonic() - started < 50


def test_a_scheduler_is_an_address(ledger):
    pytest.importorskip("distributed", reason="needs the extra dist")
    refused("give 'local', tcp://", run, ledger, keys(1), Draws, (5,), scheduler="gpu1")
