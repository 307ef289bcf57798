"""Showing a figure: one picture with its caption in a notebook, nothing elsewhere; and the command."""

import base64
import subprocess
import sys
from types import SimpleNamespace

import IPython
import IPython.display
import pandas as pd
import pytest

from crs_lib import figures
from crs_lib.__main__ import main
from crs_lib.figures import base as registered
from tests.helpers import refused
from tests.helpers.sample import scored, simulated

pytestmark = pytest.mark.slow  # they share runs that take seconds


@pytest.fixture
def design():
    """The shifts of a run: two of one type at one turn."""
    shift = {"type": "switch", "turn": 4, "n": 2, "systems": "a\nb"}
    return pd.DataFrame([shift]).assign(n_systems=2, n_sessions=3, n_turns=6)


def test_outside_a_notebook_nothing_is_shown(design, capsys):
    assert figures.draw("experimental_design", design) is None
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_one_picture_is_shown_with_its_caption(design, monkeypatch):
    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append((data, raw)))
    assert figures.draw("experimental_design", design) is None
    ((data, raw),) = shown
    assert raw
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == registered.caption("experimental_design", design)


DRAWING = """
import sys
import pandas as pd
from crs_lib import figures

roles = "catalogue user system log judge grounding metrics statistics".split()
table = pd.DataFrame({"role": roles, "lines": ""})
figures.draw("system_overview", table.assign(n_systems=1, n_sessions=2))
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.subprocess
def test_drawing_needs_no_window_and_no_global_state():
    command = [sys.executable, "-W", "error", "-c", DRAWING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    sizes = {"n_sessions": 4, "n_turns": 8, "arms": ("shift", "straight", "fresh", "none")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        scored(run="tiny", systems=("oracle", "tracker", "sticky", "random", "echo"), **sizes)
        simulated(run="unscored", n_sessions=1, n_turns=2, systems=("echo",))
    return folder


@pytest.fixture
def folders(results, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path))
    return tmp_path


def test_the_command_draws_a_finished_run(folders, capsys):
    assert main(["figures", "--run", "tiny", "--only", "leaderboard"]) == 0
    names = ["leaderboard.png", "leaderboard.pdf"]
    assert sorted(path.name for path in (folders / "movies-tiny").iterdir()) == sorted(names)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line, name in zip(lines, names, strict=True):
        assert line.startswith("drawn: ")
        assert line.endswith(f"/{name}")


REFUSED = {
    "--run tiny --only leaderbord": "did you mean 'leaderboard'",
    "--run unscored": "run 04_evaluate -p run unscored",
    "--run none": "run 04_evaluate -p run none",
    "--run ../x": "cannot be a folder",
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.items())
def test_the_command_says_what_is_missing_and_draws_nothing(arguments, message, folders, capsys):
    assert main(["figures", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(folders.iterdir()) == []


def test_systems_are_chosen_by_name():
    frame = pd.DataFrame({"model": ["a", "b", "a"], "value": [1, 2, 3]})
    assert registered.of_systems(frame, ["a"])["value"].tolist() == [1, 3]
    assert registered.of_systems(frame, []) is frame
    refused(r"no system 'c' in this run.*\(it has a, b\)", registered.of_systems, frame, ["c"])
    without_systems = frame[["value"]]
    assert len(registered.of_systems(without_systems, ["a"])) == 3
