"""A cluster that is not as it should be: no scheduler, a worker that does not see the results folder."""

import time

import pytest

from crs_lib import simulate
from crs_lib.core.errors import InputError, RunError
from crs_lib.runs import dask
from crs_lib.runs.ledger import Ledger
from tests.helpers.jobs import Draws, keys, run
from tests.helpers.raw_server import RawServer, http_answer


@pytest.mark.parametrize(
    "scheduler", ["nope", "nope://", "tcp://", "tcp://host", "tcp://host:x", "http://host:1"]
)
def test_what_is_no_address_of_a_scheduler_is_refused_before_anything_starts(scheduler):
    with pytest.raises(InputError, match="give 'local', tcp://host:8786"):
        simulate.SimulateConfig(scheduler=scheduler)


@pytest.mark.parametrize(
    "scheduler", ["tcp://me:s3cret@host:1", "s3cret:x@host:1", "tcp://host:1?key=s3cret"]
)
def test_a_password_in_the_address_of_a_scheduler_is_refused_and_not_shown(scheduler):
    with pytest.raises(InputError, match="holds a name, a password or a query") as refusal:
        dask.check(scheduler)
    assert "s3cret" not in str(refusal.value)


def test_a_scheduler_that_is_not_there_is_said_at_once():
    pytest.importorskip("distributed", reason="needs the extra dist")
    started = time.monotonic()
    with (
        pytest.raises(RunError, match="no Dask scheduler answers at"),
        dask.connected("tcp://127.0.0.1:9", 1),
    ):
        pass
    assert time.monotonic() - started < dask.ANSWERS_WITHIN + 5


@pytest.mark.full
def test_a_server_that_is_no_scheduler_is_said():
    pytest.importorskip("distributed", reason="needs the extra dist")
    with RawServer(http_answer("{}")) as server:
        address = server.url.replace("http", "tcp")
        with pytest.raises(RunError, match="no Dask scheduler answers at"), dask.connected(address, 1):
            pass


@pytest.mark.full
@pytest.mark.subprocess
def test_a_worker_that_does_not_see_the_results_folder_is_named(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra dist")
    missing = (5, 0.0, str(tmp_path / "catalog.parquet"))
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(RunError, match=r"the Dask worker .* does not see .*catalog\.parquet") as refusal:
            run(ledger, keys(2), Draws, missing, scheduler="local")
        assert "share the results folder" in str(refusal.value)
        assert ledger.counts() == {}
