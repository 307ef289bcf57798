"""Every notebook with parameters other than its defaults, chained through the files that they write."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from crs_lib import notebooks
from crs_lib.core import paths
from crs_lib.notebooks import runner
from tests.helpers import books, refused, table

BOOKS = notebooks.committed()
pytestmark = pytest.mark.subprocess
VALUES = table(__file__, "values")
# A run for each tens digit, except for those that simulate systems of their own and for a reader of another's run.
PAPERMILL = "01_catalog"  # the one that plain papermill runs every day; all in make test-all
RUNS = {"07_thesis": "logs", "08_models": "models", "32_human_labels": "0"}


def values_for(path):
    """Values of these parameters that the notebook takes; none of them is its default."""
    parameters = notebooks.parameters_of(path)
    values = {}
    for name, value in VALUES.get(path.stem, VALUES["usual"]).items():
        if name == "data":
            value = str(paths.ROOT / value)
        if name in parameters and parameters[name].default != value:
            values[name] = value
    if "run" in parameters:
        values["run"] = f"papermill-{RUNS.get(path.stem, path.stem[0])}"
    return values


def books_of(study):
    return [path for path in BOOKS if runner.study(path) == study]


STUDIES = sorted({runner.study(path) for path in BOOKS})
IN_ONE_PROCESS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
import matplotlib
matplotlib.use("agg")
for name, cells in json.load(sys.stdin):
    shell = InteractiveShell()
    for number, cell in enumerate(cells, start=1):
        done = shell.run_cell(cell, store_history=True)
        if not done.success:
            raise SystemExit(f"{name}, code cell {number}: {done.error_before_exec or done.error_in_exec!r}")
    print(f"### {name} ran", flush=True)
"""


def cells_with(path, values):
    """The code cells of a notebook, these parameters set after the tagged cell."""
    sources = []
    for cell in books.code_cells(nbformat.read(path, as_version=4)):
        sources.append(cell.source)
        if "parameters" in cell.metadata.get("tags", []):
            sources += [f"{name} = {value!r}" for name, value in values.items()]
    return sources


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_parameters_that_can_be_swept(path):
    assert values_for(path)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_runs_with_other_parameters_each_notebook_on_the_files_of_the_one_before(study):
    cells = [(path.stem, cells_with(path, values_for(path))) for path in books_of(study)]
    command = [sys.executable, "-c", IN_ONE_PROCESS]
    process = subprocess.run(
        command, input=json.dumps(cells), capture_output=True, text=True, check=False, cwd=paths.notebooks()
    )
    assert process.returncode == 0, f"{process.stdout[-2000:]}\n{process.stderr[-4000:]}"
    for name, _ in cells:
        assert f"### {name} ran" in process.stdout


@pytest.mark.full
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_papermill_runs_it_with_other_parameters(path):
    values = values_for(path)
    out = notebooks.run(path, values)
    executed = nbformat.read(out, as_version=4)
    injected = [cell for cell in executed.cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert len(injected) == 1
    for name in values:
        assert f"{name} = " in injected[0].source
    assert all(books.code_counts(out))


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_an_unknown_parameter_is_an_error(path):
    refused(f"{path.stem}: unknown parameter 'seeed'", notebooks.run, path, {"seeed": 1})


def papermill(folder, out, name, value):
    """Plain papermill on the notebook of every day, with one parameter, started in a folder."""
    path = paths.notebooks() / f"{PAPERMILL}.ipynb"
    program = Path(sys.prefix) / "bin" / "papermill"
    command = [program, "--inject-paths", path.relative_to(folder), out, "-p", name, str(value)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("folder", [paths.notebooks(), paths.ROOT], ids=["notebooks", "root"])
def test_plain_papermill_works_from_both_folders(folder, tmp_path):
    name, value = next(iter(values_for(paths.notebooks() / f"{PAPERMILL}.ipynb").items()))
    out = tmp_path / "out.ipynb"
    process = papermill(folder, out, name, value)
    assert process.returncode == 0, process.stderr
    assert f"{name} = {value!r}" in out.read_text().replace('\\"', "'")
    wrong = papermill(folder, out, f"{name}s", value)
    assert wrong.returncode != 0
    assert f"unknown parameter '{name}s'; did you mean '{name}'?" in wrong.stderr
