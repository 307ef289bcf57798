"""Sweeps: checked whole before anything runs, continued where they stopped."""

import json

import pytest

from crs_lib import notebooks
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.notebooks import runner, sweeps
from tests.helpers import books, refused

pytestmark = pytest.mark.slow
PLAIN = "from pathlib import Path\n\nfrom crs_lib.core import paths, tables"
SECOND = {
    "begin": PLAIN,
    "parameters": 'run: str = "smoke"  # name of the run\ncount: int = 2  # how many words\nscale: float = 1.0  # factor',
    "config": "config = dict(count=count, scale=scale)\nconfig",
    "work": """folder = paths.run_folder("movies", run)
text = (folder / "words.json").read_text()
if count == 13: raise ValueError("unlucky")
tables.write_json(folder / "second.json", {"scale": scale})
text = " ".join(["word"] * count)""",
}
WRONG = [
    ({"notebooks": ["01_frist"]}, "did you mean '01_first'"),
    ({"notebooks": []}, r"notebooks is \[\]; give a list: notebooks, in order"),
    ({"notebook": ["01_first"]}, "unknown setting 'notebook'; did you mean 'notebooks'"),
    ({"parameters": {"wieght": 1}}, "unknown parameter 'wieght'; did you mean 'weight'"),
    ({"parameters": {"weight": "heavy"}}, "'weight' is 'heavy'"),
    ({"parameters": [1]}, r"parameters is \[1\]; .* dictionary"),
    ({"parameters": {"count": 1}}, r"\['count'\] stands twice"),
    ({"parameters": {"run": "x"}}, "'run'"),
    ({"grid": {"count": 3}}, "grid is {'count': 3}; .* list"),
    ({"grid": {"count": []}}, r"grid is {'count': \[\]}; .* at least 1 item"),
    ({"grid": {"count": [2, "x"], "scale": [1]}}, "'count' is 'x'"),
    ({"grid": {"count": [2, 3], "scale": [1, 2]}, "run": "n{count}"}, "would both be run 'n2'"),
    ({"run": "n{cuont}"}, "'cuont' is no parameter of the sweep"),
    ({"run": "../{count}"}, "cannot be a folder"),
    ({"run": None}, "run is missing; give a run's name, e.g. study-"),
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two notebooks and a results folder of their own."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(paths, "notebooks", lambda: tmp_path / "notebooks")
    books.write(tmp_path / "notebooks", "01_first", replace={"begin": PLAIN})
    books.write(tmp_path / "notebooks", "02_second", replace=SECOND)
    return tmp_path


def sweep(folder, **changes):
    record = {
        "notebooks": ["01_first", "02_second"], "parameters": {"weight": 1},
        "grid": {"count": [2, 3], "scale": [0.5]}, "run": "n{count}-x{scale}", **changes,
    }  # fmt: skip
    path = folder / "sweep.yaml"
    path.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))
    return path


def test_a_grid_is_the_product_of_its_lists_which_stand_in_the_names(here):
    read = sweeps.read(sweep(here, grid={"count": [2, 3], "scale": [0.5, 1]}))
    assert [(cell["run"], cell["count"], cell["scale"]) for cell in read.cells] == [
        ("n2-x0.5", 2, 0.5), ("n2-x1", 2, 1), ("n3-x0.5", 3, 0.5), ("n3-x1", 3, 1),
    ]  # fmt: skip
    first, second = read.books
    assert read.values_for(read.cells[0], first) == {"run": "n2-x0.5", "count": 2, "weight": 1}
    assert read.values_for(read.cells[0], second) == {"run": "n2-x0.5", "count": 2, "scale": 0.5}
    path = sweep(here, grid={"parts": [["a", "b"], ["c:d"]]}, run="with-{parts}")
    assert [cell["run"] for cell in sweeps.read(path).cells] == ["with-a-b", "with-c-d"]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_wrong_sweep_is_refused_before_anything_runs(here, changes, message):
    refused(message, sweeps.run, sweep(here, **changes))
    assert not (here / "results").exists()


def test_an_unknown_sweep_gets_a_suggestion(here):
    (here / "notebooks" / "sweeps").mkdir()
    (here / "notebooks" / "sweeps" / "smoke.yaml").write_text("{}")
    refused(r"unknown sweep 'smok'; did you mean 'smoke'\? \(known: smoke\)", sweeps.read, "smok")


@pytest.mark.subprocess
def test_a_sweep_goes_on_after_a_failure_and_continues_where_it_stopped(here):
    bad = sweep(here, grid={"count": [13, 2], "scale": [0.5]})
    with pytest.raises(RunError, match="1 failed") as caught:
        sweeps.run(bad)
    assert "unlucky" in str(caught.value)
    assert (here / "results" / "movies" / "n2-x0.5" / "second.json").is_file()
    good = sweep(here, grid={"count": [2, 3], "scale": [0.5]})
    said = []
    table = sweeps.run(good, said.append, jobs=2)
    assert said[::2] == ["n3-x0.5: 01_first …", "n3-x0.5: 02_second …"]
    assert "/4 n3-x0.5: 01_first " in said[1]
    assert list(table.columns) == ["run", "count", "scale", "notebook", "status"]
    assert _statuses(table) == {
        ("n2-x0.5", "01_first"): "kept", ("n2-x0.5", "02_second"): "kept",
        ("n3-x0.5", "01_first"): "done", ("n3-x0.5", "02_second"): "done",
    }  # fmt: skip


def _statuses(table):
    return dict(zip(zip(table["run"], table["notebook"], strict=True), table["status"], strict=True))


def test_a_notebook_that_changed_or_was_cut_off_is_run_again(here, monkeypatch):
    path = sweep(here, notebooks=["01_first"], parameters={}, grid={"count": [2]}, run="n{count}")
    runs = []
    monkeypatch.setattr(runner, "run", lambda book, values: runs.append((book.stem, values)))
    assert _statuses(sweeps.run(path)) == {("n2", "01_first"): "done"}
    values = {"run": "n2", "count": 2}
    assert runs == [("01_first", values)]
    out = runner.output(notebooks.find("01_first"), values)
    book = books.book("01_first", replace={"begin": PLAIN})
    book.metadata["papermill"] = {"parameters": values, "end_time": "2026", "exception": None}
    books.save(book, out)
    assert _statuses(sweeps.run(path)) == {("n2", "01_first"): "kept"}
    whole = out.read_text()
    out.write_text(whole[:500])  # stopped while it was written
    assert _statuses(sweeps.run(path)) == {("n2", "01_first"): "done"}
    out.write_text(whole)
    assert _statuses(sweeps.run(path)) == {("n2", "01_first"): "kept"}
    changed = {"begin": PLAIN, "work": books.WORK + "\n" + "text = text.strip()"}
    books.write(here / "notebooks", "01_first", replace=changed)
    assert _statuses(sweeps.run(path)) == {("n2", "01_first"): "done"}


@pytest.mark.parametrize("name", sorted(path.name for path in (paths.notebooks() / "sweeps").glob("*.yaml")))
def test_committed_sweeps_fit_the_notebooks(name):
    runs = [cell["run"] for cell in sweeps.read(name).cells]
    least = 1 if name in ("thesis.yaml", "systems.yaml") else 2  # these are one run each
    assert len(set(runs)) == len(runs) >= least
