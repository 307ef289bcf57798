"""A real Dask scheduler and two worker processes on loopback, one of them killed in mid-batch."""

import json
import os
import signal
import subprocess
import sys

import pytest

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Ledger
from tests.helpers import refused
from tests.helpers.jobs import Draws, Refuses, keys, run, wait_until
from tests.helpers.sample import simulated

pytestmark = pytest.mark.full

pytest.importorskip("distributed", reason="needs the extra dist")


def start(folder, *words):
    environment = {
        **os.environ, "PYTHONPATH": str(paths.ROOT),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "30s",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", *words], cwd=folder, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    scheduler = start(
        folder, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
        "--scheduler-file", str(file),
    )  # fmt: skip
    workers = [
        start(
            folder, "distributed.cli.dask_worker", "--scheduler-file", str(file), "--host", "127.0.0.1",
            "--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard",
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        told = lambda: json.loads(file.read_text() or "{}").get("address")  # noqa: E731
        yield wait_until(lambda: file.exists() and told()), workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.subprocess
def test_a_killed_worker_costs_no_session(cluster, tmp_path):
    import distributed

    address, workers = cluster
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=90)

    class Watched(Ledger):
        """Kills a worker as soon as a quarter of the sessions is stored."""

        def record(self, items):
            super().record(items)
            if workers[0].poll() is None and self.counts().get("done", 0) >= 20:
                os.kill(workers[0].pid, signal.SIGKILL)
                workers[0].wait()

    with Watched(tmp_path / "ledger.sqlite") as ledger:
        assert run(ledger, keys(40), Draws, (5, 0.02), scheduler=address, chunk=2) == 80
        assert workers[0].poll() == -signal.SIGKILL
        assert ledger.counts() == {"done": 80}
        assert list(ledger.bodies(keys(40))) == [Draws(5)(key) for key in keys(40)]
        assert run(ledger, keys(40), Draws, (5, 0.02), scheduler=address) == 0


def test_sessions_that_fail_on_a_worker_are_said_and_a_maker_that_cannot_be_made_too(cluster, tmp_path):
    address, _ = cluster
    bad = keys(3)[:1]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(RunError, match=r"1 of 6 sessions failed.*no session 0"):
            run(ledger, keys(3), Draws, (5, 0, bad), scheduler=address)
        assert ledger.counts() == {"done": 5, "failed": 1}
        refused("no such catalogue", run, ledger, keys(9), Refuses, ("no such catalogue",), scheduler=address)


def test_the_same_sessions_as_on_one_machine(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    monkeypatch.setenv("CRS_SCRATCH", str(tmp_path / "scratch"))
    size = {"systems": ["tracker", "template"], "n_sessions": 2, "n_turns": 3}
    here, there = simulated(run="here", **size), simulated(run="there", **size, scheduler=cluster[0])
    assert (there / "dialogues.jsonl").read_bytes() == (here / "dialogues.jsonl").read_bytes()
    assert len((there / "llm_calls.jsonl").read_text().splitlines()) == 6


def test_no_scheduler_is_said(tmp_path, monkeypatch):
    import distributed

    from crs_lib.runs import dask

    def refuse(*_, **options):
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refuse)
    told = pytest.raises(RunError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9")
    with told, dask.connected("tcp://127.0.0.1:9", 1):
        pass
