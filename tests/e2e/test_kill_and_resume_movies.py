"""A real batch, killed without warning, short of disk, or met by a second one: it goes on and ends the same."""

import resource
import signal
import subprocess
import sys

import pytest

from crs_lib import runs, simulate
from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Ledger
from crs_lib.simulate.config import SimulateConfig
from tests.helpers.jobs import stored, wait_until

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.subprocess]
SETTINGS = {"systems": ["tracker", "random", "echo"], "n_sessions": 80, "n_turns": 10, "seed": 5}
TOTAL = 3 * 80
SCRIPT = f"""
import sys
from crs_lib.core.errors import RunError
from crs_lib import simulate
from crs_lib.simulate.config import SimulateConfig
config = SimulateConfig(run=sys.argv[1], workers=int(sys.argv[2]), **{SETTINGS!r})
try:
    simulate.simulate(config, progress=False)
except RunError as error:
    sys.exit(f"RunError: {{error}}")
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("results")
    patch.setenv("CRS_RESULTS", str(folder))
    yield folder / "movies"
    patch.undo()


@pytest.fixture(scope="module")
def expected(results):
    """The bytes of a batch that nobody disturbed."""
    folder = simulate.simulate(SimulateConfig(run="whole", **SETTINGS), progress=False)
    return (folder / "dialogues.jsonl").read_bytes()


def start(run, workers=1, limit=None):
    """The batch as a process group of its own; with a limit no file can grow beyond that many bytes."""

    def bound():
        if limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, run, str(workers)], stderr=subprocess.PIPE, text=True, preexec_fn=bound
    )


def finished(folder):
    return stored(folder / "ledger.sqlite")


def kill_at(process, folder, n):
    """Kill the batch without warning once it has stored n sessions; returns how many there are then."""
    wait_until(lambda: finished(folder) >= n or process.poll() is not None)
    process.kill()
    process.communicate()
    return finished(folder)


@pytest.mark.parametrize(("workers", "shares"), [(1, (1, 60)), (2, (30,))])
def test_killed_and_started_again_it_ends_with_the_same_bytes(results, expected, workers, shares):
    run = f"killed-{workers}"
    folder, counts = results / run, []
    for share in shares:
        counts.append(kill_at(start(run, workers), folder, share))
        assert not (folder / "dialogues.jsonl").exists()  # never half a file
    assert counts == sorted(set(counts))  # each start went on where the last one was
    assert 0 < counts[0] <= counts[-1] < TOTAL
    assert runs.read_manifest("movies", run)["stages"]["simulate"]["status"] == "running"
    with pytest.raises(RunError, match=f"no finished 03_simulate in run '{run}'"):
        simulate.dialogues(run)
    before = attempts(folder)
    last = start(run, workers)
    assert (last.communicate(timeout=300)[1], last.returncode) == ("", 0)
    assert (folder / "dialogues.jsonl").read_bytes() == expected
    after = attempts(folder)
    assert len(after) == TOTAL
    assert set(after.values()) == {1}  # nothing was done twice
    assert before.items() <= after.items()


def attempts(folder):
    with Ledger(folder / "ledger.sqlite") as ledger:
        rows = ledger.do("SELECT system, session, attempt FROM sessions")
    return {(system, session): attempt for system, session, attempt in rows}


def test_a_full_disk_in_mid_batch_says_so_and_the_batch_goes_on_later(results, expected):
    folder = results / "full"
    process = start("full", limit=400_000)
    message = process.communicate(timeout=300)[1]
    assert process.returncode == 1
    assert "RunError: the ledger" in message and "Free some space" in message
    assert not (folder / "dialogues.jsonl").exists()
    kept = finished(folder)
    assert 0 < kept < TOTAL
    done = start("full")
    assert (done.communicate(timeout=300)[1], done.returncode) == ("", 0)
    assert (folder / "dialogues.jsonl").read_bytes() == expected
