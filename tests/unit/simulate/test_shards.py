"""A run in parts, put together: the same bytes as in one piece."""

import json
import shutil
import sqlite3

import pytest

from crs_lib import simulate
from crs_lib.core.errors import RunError
from crs_lib.simulate import shards
from crs_lib.simulate.config import SimulateConfig

pytestmark = pytest.mark.slow  # they share runs that take seconds

BATCH = {"systems": ["tracker", "popular", "template"], "n_sessions": 4, "n_turns": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run in one piece and the same run in three parts, made once."""
    folder = tmp_path_factory.mktemp("shards")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        simulate.simulate(SimulateConfig("whole", **BATCH), progress=False)
        for k in (1, 2, 3):
            simulate.simulate(SimulateConfig("parts", **BATCH, shard=f"{k}/3"), progress=False)
    return folder


@pytest.fixture
def results(made, tmp_path, monkeypatch):
    """A copy to spoil."""
    shutil.copytree(made, tmp_path / "results")
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results" / "movies"


def test_merged_shards_equal_the_run_in_one_piece(results):
    sizes = [
        len((results / f"parts.shard-{k}-of-3/dialogues.jsonl").read_text().splitlines()) for k in (1, 2, 3)
    ]
    assert sum(sizes) == 12
    folder = shards.merge("parts")
    whole = (results / "whole" / "dialogues.jsonl").read_bytes()
    assert (folder / "dialogues.jsonl").read_bytes() == whole
    calls = (folder / "llm_calls.jsonl").read_text().splitlines()
    assert len(calls) == 12  # four sessions of the worded system, three turns
    assert simulate.dialogues("parts") == simulate.dialogues("whole")
    assert (folder / "catalog.parquet").read_bytes() == (results / "whole" / "catalog.parquet").read_bytes()

    shards.merge("parts")
    assert (folder / "dialogues.jsonl").read_bytes() == whole
    assert len((folder / "llm_calls.jsonl").read_text().splitlines()) == 12
    assert (
        simulate.simulate(SimulateConfig("parts", **BATCH), progress=False) == folder
    )  # it is a run like any


def test_a_session_that_a_shard_did_without_is_listed_for_the_whole(results):
    with sqlite3.connect(results / "parts.shard-2-of-3" / "ledger.sqlite") as ledger:
        ledger.execute(
            "UPDATE sessions SET status = 'failed', error = 'BadReply: no', body = NULL"
            " WHERE session = 1 AND system = 'template'"
        )
    folder = shards.merge("parts")
    assert len(simulate.dialogues("parts")) == 11
    assert simulate.failed_sessions("parts") == [
        {"model": "template", "session_id": "00001", "error": "BadReply: no"}
    ]
    simulate.simulate(SimulateConfig("parts", **BATCH), progress=False)  # tried again, it comes out well
    assert (folder / "dialogues.jsonl").read_bytes() == (results / "whole" / "dialogues.jsonl").read_bytes()
    assert simulate.failed_sessions("parts") == []


def test_shards_may_come_from_anywhere(results, tmp_path):
    elsewhere = [shutil.move(results / f"parts.shard-{k}-of-3", tmp_path / f"node{k}") for k in (3, 1, 2)]
    folder = shards.merge("parts", elsewhere)
    assert (folder / "dialogues.jsonl").read_bytes() == (results / "whole" / "dialogues.jsonl").read_bytes()


def test_a_missing_shard_is_said(results):
    shutil.rmtree(results / "parts.shard-2-of-3")
    with pytest.raises(RunError, match=r"has 3 shards, found \[1, 3\]"):
        shards.merge("parts")
    assert not (results / "parts").exists()


def test_the_same_shard_twice_is_said(results):
    folders = [results / f"parts.shard-{k}-of-3" for k in (1, 2, 2)]
    with pytest.raises(RunError, match=r"found \[1, 2, 2\]"):
        shards.merge("parts", folders)


@pytest.mark.parametrize(("name", "value"), [("seed", 8), ("n_turns", 4), ("shard", "3/4")])
def test_shards_of_different_runs_are_refused(results, name, value):
    path = results / "parts.shard-3-of-3" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["stages"]["simulate"]["parameters"][name] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="shards of different runs"):
        shards.merge("parts")
    assert not (results / "parts").exists()


def test_an_unfinished_shard_is_said(results):
    path = results / "parts.shard-1-of-3" / "manifest.json"
    path.write_text(path.read_text().replace('"finished"', '"running"'))
    with pytest.raises(RunError, match=r"shard 1/3 .*is not finished; start its command again"):
        shards.merge("parts")


def test_what_is_no_shard_is_said(results):
    with pytest.raises(RunError, match="is no shard"):
        shards.merge("parts", [results / "whole"])
    with pytest.raises(RunError, match="holds no run"):
        shards.merge("parts", [results])
    with pytest.raises(RunError, match="no shards of run 'other'"):
        shards.merge("other")


def test_a_damaged_session_does_not_pass(results):
    from crs_lib.runs.ledger import Ledger

    with Ledger(results / "parts.shard-1-of-3" / "ledger.sqlite") as ledger:
        ledger._db.execute("UPDATE sessions SET body = x'00'")
    with pytest.raises(RunError, match="missing or damaged"):
        shards.merge("parts")
