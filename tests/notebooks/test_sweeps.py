"""Sweeps: checked whole before anything runs, continued where they stopped."""

import json

import pandas as pd
import pytest

from crs_lib import notebooks
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.notebooks import runner, sweeps
from tests.helpers import books, refused, table

pytestmark = pytest.mark.slow
SECOND = table(__file__, "second")
PLAIN = SECOND["begin"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two notebooks and a results folder of their own."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(paths, "notebooks", lambda: tmp_path / "notebooks")
    books.write(tmp_path / "notebooks", "01_first", replace={"begin": PLAIN})
    books.write(tmp_path / "notebooks", "02_second", replace=SECOND)
    return tmp_path


USUAL = {
    "notebooks": ["01_first", "02_second"],
    "parameters": {"weight": 1},
    "grid": {"count": [2, 3], "scale": [0.5]},
    "run": "n{count}-x{scale}",
}


def sweep(folder, **changes):
    """A sweep's file; a run that is None is left out."""
    settings = {**USUAL, **changes}
    if settings["run"] is None:
        del settings["run"]
    path = folder / "sweep.yaml"
    path.write_text(json.dumps(settings))
    return path


def test_a_grid_is_the_product_of_its_lists(here):
    cells = pd.DataFrame(sweeps.read(sweep(here, grid={"count": [2, 3], "scale": [0.5, 1]})).cells)
    assert list(cells["run"]) == ["n2-x0.5", "n2-x1", "n3-x0.5", "n3-x1"]
    assert list(cells["count"]) == [2, 2, 3, 3]
    assert list(cells["scale"]) == [0.5, 1, 0.5, 1]


def test_a_notebook_gets_the_parameters_that_it_has(here):
    read = sweeps.read(sweep(here))
    first, second = read.books
    cell = read.cells[0]
    assert read.values_for(cell, first) == {"run": "n2-x0.5", "count": 2, "weight": 1}
    assert read.values_for(cell, second) == {"run": "n2-x0.5", "count": 2, "scale": 0.5}


def test_a_list_stands_in_a_name_with_dashes(here):
    path = sweep(here, grid={"parts": [["a", "b"], ["c:d"]]}, run="with-{parts}")
    assert [cell["run"] for cell in sweeps.read(path).cells] == ["with-a-b", "with-c-d"]


@pytest.mark.parametrize(("changes", "message"), table(__file__, "wrong_sweeps"))
def test_a_wrong_sweep_is_refused_before_anything_runs(here, changes, message):
    refused(message, sweeps.run, sweep(here, **changes))
    assert not (here / "results").exists()


def test_a_sweep_without_names_of_runs_is_refused(here):
    refused("run is missing; give a run's name, e.g. study-", sweeps.run, sweep(here, run=None))


def test_an_unknown_sweep_gets_a_suggestion(here):
    (here / "notebooks" / "sweeps").mkdir()
    (here / "notebooks" / "sweeps" / "smoke.yaml").write_text("{}")
    refused(r"unknown sweep 'smok'; did you mean 'smoke'\? \(known: smoke\)", sweeps.read, "smok")


@pytest.mark.subprocess
def test_a_sweep_goes_on_after_a_failure_and_continues_where_it_stopped(here):
    unlucky = sweep(here, grid={"count": [13, 2], "scale": [0.5]})
    with pytest.raises(RunError, match="1 failed") as caught:
        sweeps.run(unlucky)
    assert "unlucky" in str(caught.value)
    assert (here / "results" / "movies" / "n2-x0.5" / "second.json").is_file()
    lines = []
    table = sweeps.run(sweep(here), lines.append, jobs=2)
    assert lines[::2] == ["n3-x0.5: 01_first …", "n3-x0.5: 02_second …"]
    assert "/4 n3-x0.5: 01_first " in lines[1]
    assert list(table.columns) == ["run", "count", "scale", "notebook", "status"]
    assert list(table["run"]) == ["n2-x0.5", "n2-x0.5", "n3-x0.5", "n3-x0.5"]
    assert list(table["notebook"]) == ["01_first", "02_second"] * 2
    assert list(table["status"]) == ["kept", "kept", "done", "done"]


VALUES = {"run": "n2", "count": 2}


@pytest.fixture
def status(here, monkeypatch):
    """A function: what a sweep of one run does with its only notebook; nothing is really executed."""
    monkeypatch.setattr(runner, "run", lambda book, values: None)
    path = sweep(here, notebooks=["01_first"], parameters={}, grid={"count": [2]}, run="n{count}")
    return lambda: sweeps.run(path)["status"].item()


@pytest.fixture
def output(status):
    """The notebook as papermill leaves it when it has run to its end."""
    notebook = books.book("01_first", replace={"begin": PLAIN})
    notebook.metadata["papermill"] = {"parameters": VALUES, "end_time": "2026", "exception": None}
    return books.save(notebook, runner.output(notebooks.find("01_first"), VALUES))


def test_a_notebook_without_output_is_run(status):
    assert status() == "done"


def test_a_notebook_that_ran_to_its_end_is_kept(status, output):
    assert status() == "kept"


def test_a_notebook_that_was_cut_off_is_run_again(status, output):
    output.write_text(output.read_text()[:500])  # stopped while it was written
    assert status() == "done"


def test_a_notebook_that_changed_is_run_again(here, status, output):
    changed = {"begin": PLAIN, "work": books.WORK + "\ntext = text.strip()"}
    books.write(here / "notebooks", "01_first", replace=changed)
    assert status() == "done"


@pytest.mark.parametrize("name", sorted(path.name for path in (paths.notebooks() / "sweeps").glob("*.yaml")))
def test_committed_sweeps_fit_the_notebooks(name):
    runs = [cell["run"] for cell in sweeps.read(name).cells]
    assert len(set(runs)) == len(runs)
    one_run = name in ("thesis.yaml", "thesis-often.yaml", "systems.yaml")
    assert one_run or len(runs) > 1
