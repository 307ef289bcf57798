"""The wheel holds all that a run needs: installed where no checkout is, it makes the main job at its smallest."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from crs_lib.core.paths import ROOT

pytestmark = [pytest.mark.full, pytest.mark.subprocess, pytest.mark.slow]
PARTS = ("crs_lib", "notebooks", "data/samples", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def run(words, folder):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("CRS_", "PYTHON"))}
    done = subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the checkout without any download."""
    pytest.importorskip("setuptools", minversion="77")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        place = ROOT / part
        target = source / part
        target.parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__", ".*", "shipped")
        shutil.copytree(place, target, ignore=ignored) if place.is_dir() else shutil.copy(place, target)
    words = [
        sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-q",
        "-w", str(out),
    ]  # fmt: skip
    run(words, source)
    (made,) = out.glob("crs_lib-*.whl")
    return made


def test_it_holds_notebooks_samples_prompts_and_pages(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind, folder in (("notebooks", "notebooks"), ("samples", "data/samples")):
        ours = [p.relative_to(ROOT / folder).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()]
        kept = [name for name in ours if "/." not in f"/{name}" and ".failed." not in name]
        assert {f"crs_lib/shipped/{kind}/{name}" for name in kept} <= names
    for name in (
        "py.typed", "report/trace.html", "report/session.js", "prompts/movies/user.wording",
        "core/__init__.py",
    ):  # fmt: skip
        assert f"crs_lib/{name}" in names
    assert not [name for name in names if name.startswith(("tests/", "notebooks/", "data/"))]


def test_installed_without_a_checkout_it_makes_the_main_job(wheel, tmp_path):
    place, home = tmp_path / "environment", tmp_path / "empty"
    home.mkdir()
    run([sys.executable, "-m", "venv", "--without-pip", str(place)], home)
    program = place / "bin" / "python"
    found = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = run([str(program), "-c", found], home).strip()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # The dependencies of this environment, without what its own .pth files add (an editable install of ours).
    with open(f"{packages}/dependencies.pth", "w") as file:
        file.write(sysconfig.get_path("purelib") + "\n")
    assert run([str(program), "-c", "import crs_lib; print(crs_lib.__file__)"], home).startswith(str(place))
    said = run([str(program), "-m", "crs_lib", "thesis", "--sessions", "2", "--turns", "4"], home)
    assert "topic_adaptation_score" in said or "TAS" in said
    made = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    for name in (
        "dialogues.jsonl", "turns.parquet", "model_metrics.csv", "report.html", "trace/index.html",
        "manifest.json",
    ):  # fmt: skip
        assert f"results/movies/demo/{name}" in made
    assert any(name.startswith("figures/movies-demo/") for name in made)
    assert "03_simulate.ipynb" in {path.name for path in (place.rglob("*.ipynb"))}
