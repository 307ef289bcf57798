"""A metric, a figure, a retriever and a data set added as docs/context.md says, each taken all the way.

The very lines of the page are written into a copy of the package, and used there by its commands.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import new_members

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the job prints in a copy of the package with the four files."""
    folder = tmp_path_factory.mktemp("new")
    root = new_members.copy_package(folder / "copy")
    for heading in ("A metric", "A figure", "A retriever"):
        new_members.new_file(root, heading)
    new_members.show_metric(root, "first_film_met", "metric_bars", "turn_table")
    new_members.add_data_set(root)
    job = Path(new_members.__file__).with_name("new_file_job.py")
    places = {"PYTHONPATH": root, "CRS_RESULTS": folder / "results", "CRS_FIGURES": folder / "figures"}
    done = subprocess.run(
        [sys.executable, str(job)], capture_output=True, text=True, cwd=folder, check=False,
        env=os.environ | {name: str(place) for name, place in places.items()} | {"CRS_DATA": str(root / "data")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_metric_is_scored_tabled_and_drawn(found):
    metric = found["metric"]
    silent = metric["by_turn"]["silent"]
    assert silent == [None] * len(silent)
    for name in ("oracle", "random"):
        by_turn = metric["by_turn"][name]
        assert set(by_turn) <= {0.0, 1.0, None}
        sessions = [[value for value in by_turn[at : at + 8] if value is not None] for at in (0, 8)]
        mean = sum(sum(one) / len(one) for one in sessions) / 2
        assert metric["means"][name] == pytest.approx(mean, abs=1e-9)
    assert metric["means"]["random"] < metric["means"]["oracle"]
    assert metric["table"][-1] == "first_film_met"
    assert "first film ↑" in metric["bars"]
    code, shown = metric["command"]
    assert code == 0 and "metric_bars.png" in shown


def test_the_figure_is_drawn_by_the_command(found):
    figure = found["figure"]
    code, shown = figure["command"]
    assert code == 0 and "novelty_by_system.pdf" in shown
    assert {"novelty_by_system.pdf", "novelty_by_system.png"} <= set(figure["files"])
    assert figure["last"] == "novelty_by_system"


def test_the_retriever_serves_a_retrieval_run_by_its_spec(found):
    retriever = found["retriever"]
    assert retriever["hits"] == [["lamp", 2 / 3], ["tent", 2 / 3]]
    assert retriever["again"] == retriever["hits"]
    names = {name.rpartition(".")[0] for name in retriever["runs"]}
    assert {"coverage-last-turn", "bm25-coverage-last-turn"} <= names


def test_the_data_set_is_listed_found_in_a_mirror_and_verified(found):
    data_set = found["data_set"]
    (code, shown), (verified, report) = data_set["list"], data_set["verify"]
    assert code == verified == 0
    assert any(line.split()[:3] == ["film-talks", "movies", "mirror"] for line in shown.splitlines())
    assert report.split()[-6:] == ["film-talks", "mirror", "1", "0", "0", "0"]
    assert data_set["place"] == "talks"
