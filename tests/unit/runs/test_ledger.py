"""The ledger: once per session, in one piece, and honest about damage."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Done, Key, Ledger, _unpack, pack

A, B, C = Key("tracker", 0), Key("tracker", 1), Key("echo", 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.sqlite"


def test_what_is_stored_comes_back_in_the_order_asked_for_from_any_process(path):
    with Ledger(path) as ledger:
        ledger.record([Done(A, pack("a"), ""), Done(B, pack("b"), ""), Done(C, pack("ç \ud800"), "")])
    with Ledger(path) as ledger:
        assert list(ledger.bodies([C, A])) == ["ç \ud800", "a"]
        assert ledger.finished() == {A, B, C}
        assert ledger.counts() == {"done": 3}
        assert ledger.failures() == []
    with Ledger(path) as one, Ledger(path) as two:
        one.record([Done(A, pack("a"), "")])
        two.record([Done(A, pack("late"), ""), Done(B, pack("b"), "")])
        assert list(one.bodies([A, B])) == ["a", "b"]


def test_a_finished_session_keeps_its_first_body(path):
    with Ledger(path) as ledger:
        ledger.record([Done(A, pack("first"), "")])
        ledger.record([Done(A, pack("second"), ""), Done(A, None, "ValueError: late")])
        assert list(ledger.bodies([A])) == ["first"]
        assert ledger.counts() == {"done": 1}


def test_a_failed_session_can_be_done_later_and_its_attempts_are_counted(path):
    with Ledger(path) as ledger:
        ledger.record([Done(A, None, "TimeoutError: slow"), Done(C, None, "TimeoutError: slow")])
        ledger.record([Done(A, None, "ValueError: odd")])
        assert ledger.failures() == [(C, "TimeoutError: slow"), (A, "ValueError: odd")]
        assert ledger.tries() == 2
        ledger.record([Done(A, pack("a"), "")])
        assert ledger.tries() == 1
        assert ledger.counts() == {"done": 1, "failed": 1}
        rows = ledger.do("SELECT attempt, error FROM sessions WHERE status = 'done'")
        assert rows == [(3, None)]


def test_a_batch_is_stored_whole_or_not_at_all(path):
    with Ledger(path) as ledger:
        ledger.do(
            "CREATE TRIGGER stop BEFORE INSERT ON sessions WHEN NEW.session = 1"
            " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        with pytest.raises(RunError, match=r"disk full.*stored before is safe"):
            ledger.record([Done(A, pack("a"), ""), Done(B, pack("b"), "")])
        assert ledger.counts() == {}
        ledger.record([Done(A, pack("a"), "")])  # and it can be used again
        assert ledger.counts() == {"done": 1}


def test_a_session_that_is_not_there_or_was_changed_is_an_error(path):
    with Ledger(path) as ledger:
        ledger.record([Done(A, None, "x"), Done(B, pack("b"), "")])
        ledger.do("UPDATE sessions SET body = ? WHERE status = 'done'", (pack("c"),))
        for key in (A, B):
            with pytest.raises(RunError, match=f"session {key.session} of 'tracker' is missing or damaged"):
                list(ledger.bodies([key]))


@pytest.mark.parametrize("page", ["damaged", "cut short"])
def test_a_damaged_page_is_noticed_and_a_file_that_is_no_ledger_left_alone(path, page):
    keys = [Key("tracker", i) for i in range(200)]
    with Ledger(path) as ledger:
        ledger.record(Done(key, pack("body " * 300), "") for key in keys)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    whole = path.read_bytes()
    damaged = whole[: 4096 * 3] + b"\xff" * 4096 + whole[4096 * 4 :]
    path.write_bytes(damaged if page == "damaged" else whole[: 4096 * 2])
    with pytest.raises(RunError, match=r"cannot be used|damaged"), Ledger(path) as ledger:
        list(ledger.bodies(keys))
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(RunError, match=r"cannot be used.*nothing was changed"):
        Ledger(path)
    assert path.read_bytes() == b"this is no database" * 100


@given(st.text())
def test_any_text_survives_packing(text):
    assert _unpack(pack(text)) == text


_events = st.lists(st.tuples(st.integers(0, 3), st.none() | st.text(max_size=5)), max_size=15)


@settings(max_examples=40, deadline=None)
@given(events=_events)
def test_any_order_of_attempts_gives_the_first_success(tmp_path_factory, events):
    bodies = {}
    for session, text in events:
        if text is not None:
            bodies.setdefault(session, text)
    failed = {session for session, _ in events} - set(bodies)
    with Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite") as ledger:
        for session, text in events:
            ledger.record([Done(Key("s", session), None if text is None else pack(text), "failed")])
        assert {key.session for key in ledger.finished()} == set(bodies)
        assert {key.session for key, _ in ledger.failures()} == failed
        found = ledger.bodies([Key("s", session) for session in sorted(bodies)])
        assert list(found) == [bodies[session] for session in sorted(bodies)]
