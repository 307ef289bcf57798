"""Batches in threads, in parts, and on a server that is gone."""

import gc
import threading
import time

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.runs.jobs import PATIENCE, _check, sessions
from crs_lib.runs.ledger import Done, Ledger
from tests.helpers.jobs import Draws, keys, run


def test_threads_share_one_maker_and_give_the_same_sessions(tmp_path):
    made = []

    def make(seed):
        made.append(Draws(seed))
        return made[-1]

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert run(ledger, keys(6), make, (5,), threads=4) == 12
        assert list(ledger.bodies(keys(6))) == [Draws(5)(key) for key in keys(6)]
    assert len(made) == 1


def test_threads_work_at_the_same_time(tmp_path):
    together = threading.Barrier(4, timeout=30)  # opens only when four sessions are under way at once

    def maker(key):
        together.wait()
        return "{}"

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert run(ledger, keys(4), lambda: maker, (), threads=4) == 8


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.slow
def test_what_was_there_before_is_no_garbage_while_threads_work_and_may_be_afterwards(tmp_path, failing):
    seen = []

    def maker(key):
        seen.append(gc.get_freeze_count())
        if failing:
            raise ValueError("no")
        return "{}"

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        sessions(ledger, keys(4), lambda: maker, (), threads=2)
    assert len(seen) == 8
    assert min(seen) > 1_000
    assert gc.get_freeze_count() == 0


def test_sessions_that_failed_before_do_not_make_the_batch_give_up(tmp_path):
    def maker(key):
        if key.session < 2 * PATIENCE:
            raise ValueError("no")
        return "{}"

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        every = keys(2 * PATIENCE + 1)
        bad = [key for key in every if key.session < 2 * PATIENCE]
        ledger.record([Done(key, None, "ValueError: no") for key in bad])
        sessions(ledger, every, lambda: maker, (), threads=1)
        assert ledger.finished() == set(every) - set(bad)
        with pytest.raises(RunError, match=rf"{len(bad)} of {len(every)} sessions failed; .* ones, or so"):
            _check(ledger, every, len(bad) - 1, ", or so")
        _check(ledger, every, len(bad))


def test_a_batch_gives_up_when_everything_fails_and_hopes_after_a_success(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(
            RunError, match=r"sessions failed one after the other, .*last with ValueError: no"
        ):
            run(ledger, keys(200), Draws, (5, 0, keys(200)), threads=2)
        assert PATIENCE <= ledger.counts()["failed"] < 2 * PATIENCE
    bad = [key for key in keys(40) if key.session % 5]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with pytest.raises(RunError, match=f"{len(bad)} of 80 sessions failed"):
            run(ledger, keys(40), Draws, (5, 0, bad), threads=2)
        assert ledger.counts() == {"done": 80 - len(bad), "failed": len(bad)}


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


def test_a_scheduler_is_an_address(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra dist")
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        pytest.raises(InputError, match="give 'local', tcp://"),
    ):
        run(ledger, keys(1), Draws, (5,), scheduler="gpu1")
