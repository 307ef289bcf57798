"""A dated record of runs comes back as it was, and passes over no other run of its name."""

import pytest

from crs_lib import evaluate, runs, simulate
from crs_lib.core import paths
from crs_lib.core.errors import RunError

NAMES = ["models", "models-few", "models-notes", "models-reminded", "models-roles"]


def test_the_runs_of_a_record_can_be_read_and_scored(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    assert runs.restore("movies", "models") == NAMES
    assert len(simulate.dialogues("models-notes")) == 20
    evaluate.evaluate(evaluate.EvaluateConfig(run="models-notes"))
    assert len(evaluate.read("models-notes", "results")) == 20


def test_a_second_time_changes_no_file_and_another_run_of_the_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    runs.restore("movies", "models")
    dialogues = paths.run_folder("movies", "models") / "dialogues.jsonl"
    content = dialogues.read_bytes()
    runs.restore("movies", "models")
    assert dialogues.read_bytes() == content
    dialogues.write_bytes(content[:1000])
    with pytest.raises(RunError, match="run 'models' is not that of the record; remove "):
        runs.restore("movies", "models")
