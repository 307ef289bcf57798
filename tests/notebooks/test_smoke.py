"""Every notebook with parameters other than its defaults, chained through the files that they write."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from crs_lib import notebooks
from crs_lib.core import paths
from crs_lib.core.errors import InputError

BOOKS = notebooks.committed()
CHAT = str(paths.samples() / "realtalk" / "Chat_13_Lucia_Hendrik.json")
OTHER = {
    "n_sessions": 4, "n_turns": 6, "seed": 11, "workers": 2, "top": 3, "sessions": 4, "n_boot": 200, "samples": 1,
    "judges": ["template"],
}  # fmt: skip
pytestmark = pytest.mark.subprocess
FULL = {
    "08_models": {
        "live": True,
        "model": "template",
        "n_sessions": 4,
        "n_turns": 6,
    },  # no calls of these are kept
    "07_thesis": {"convention": "default", "also": ["thesis_grounded"], "topics": ""},
    "32_human_labels": {
        "n_questions": 6,
        "n_scripted": 2,
        "seed": 11,
    },  # of the few sessions that 03 simulated
    "21_realtalk_corpus": {"data": CHAT, "reading": "strict"},  # one chat leaves no intervals over chats
    "22_realtalk_query": {"data": CHAT, "most": 5},
    "31_metric_validity": {
        "seed": 3,
        "n_sessions": 24,
        "n_turns": 12,
    },  # orderings take more than four sessions
}

# A run for each tens digit, except for those that simulate systems of their own and for a reader of another's run.
RUNS = {"07_thesis": "logs", "08_models": "models", "32_human_labels": "0"}


def values_for(path):
    """Values of these parameters that the notebook takes; none of them is its default."""
    defaults = {parameter.name: parameter.default for parameter in notebooks.parameters_of(path)}
    other = FULL.get(path.stem, OTHER)
    values = {name: value for name, value in other.items() if name in defaults and defaults[name] != value}
    run = f"papermill-{RUNS.get(path.stem, path.stem[0])}"
    return values | ({"run": run} if "run" in defaults else {})


def grouped(cases):
    """One group a study, so that its notebooks run one after the other in one process."""
    return [
        pytest.param(path, marks=pytest.mark.xdist_group(notebooks.study(path)), id=path.stem)
        for path in cases
    ]


@pytest.mark.parametrize("path", grouped(BOOKS))
def test_runs_with_other_parameters_on_the_files_of_the_one_before(path):
    values = values_for(path)
    assert values, "a notebook without parameters can be neither swept nor smoked"
    out = notebooks.run(path, values)
    executed = nbformat.read(out, as_version=4)
    injected = [cell for cell in executed.cells if "injected-parameters" in cell.metadata.get("tags", [])]
    assert len(injected) == 1
    assert all(f"{name} = " in injected[0].source for name in values)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)


@pytest.mark.parametrize("path", grouped(BOOKS))
def test_an_unknown_parameter_is_an_error(path):
    with pytest.raises(InputError, match=f"{path.stem} has no parameter 'seeed'"):
        notebooks.run(path, {"seeed": 1})


@pytest.mark.parametrize("folder", [paths.notebooks(), paths.ROOT], ids=["notebooks", "root"])
@pytest.mark.parametrize("path", grouped(BOOKS[:1]))
def test_plain_papermill_works_from_both_folders(path, folder, tmp_path):
    name, value = next((name, value) for name, value in values_for(path).items())
    command = [
        str(Path(sys.prefix) / "bin" / "papermill"),
        str(path.relative_to(folder)),
        str(tmp_path / "out.ipynb"),
    ]
    done = subprocess.run(
        [*command, "-p", name, str(value)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{name} = {value!r}" in (tmp_path / "out.ipynb").read_text().replace('\\"', "'")
