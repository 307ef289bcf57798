"""The clients can be removed: the kernel works in a copy of the package without their folders."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.helpers.house import PACKAGE, ROOT

CLIENTS = ("thesis", "cosrec", "realtalk", "validity")
IMPORTS = """
import importlib, pkgutil, crs_lib
for module in pkgutil.walk_packages(crs_lib.__path__, "crs_lib."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
# An editable install finds the removed folders in the checkout: its finder is taken out.
WITHOUT_CHECKOUT = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A copy of the package and of the movies' notebooks, without clients."""
    root = tmp_path_factory.mktemp("kernel")
    shutil.copytree(PACKAGE, root / "crs_lib", ignore=shutil.ignore_patterns("__pycache__"))
    for client in CLIENTS:
        shutil.rmtree(root / "crs_lib" / client)
    for study in ("cosrec", "realtalk"):
        shutil.rmtree(root / "crs_lib" / "prompts" / study)
    shutil.copytree(ROOT / "data" / "samples", root / "data" / "samples")
    notebooks = root / "notebooks"
    shutil.copytree(ROOT / "notebooks", notebooks)
    for notebook in notebooks.glob("*.ipynb"):
        if not "00" <= notebook.stem[:2] <= "06":
            notebook.unlink()
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "sitecustomize.py").write_text(WITHOUT_CHECKOUT, encoding="utf-8")
    return root


def run(root, *words):
    """A Python in the copy: what it printed; fails with what it said where it did not end well."""
    results = {"CRS_RESULTS": str(root / "results"), "CRS_FIGURES": str(root / "figures")}
    env = {**os.environ, **results, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.subprocess
def test_every_module_of_the_kernel_is_imported_without_the_clients(kernel):
    run(kernel, "-c", IMPORTS)


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_kernel_lists_its_own_commands_and_systems(kernel):
    commands = run(kernel, "-m", "crs_lib", "--help")
    assert "compare" in commands
    assert "realtalk" not in commands
    assert "tracker" in run(kernel, "-m", "crs_lib", "systems")


@pytest.mark.full
@pytest.mark.subprocess
def test_the_kernel_compares_two_systems(kernel):
    assert "tracker" in run(
        kernel, "-m", "crs_lib", "compare", "Ours=sticky", "--against", "tracker", "--n", "12"
    )


@pytest.mark.full
@pytest.mark.subprocess
@pytest.mark.parametrize(
    "notebook", ["01_catalog", "02_grounding", "03_simulate", "04_evaluate", "05_analyze", "06_stats"]
)
def test_the_kernel_runs_the_notebooks_of_the_movies(kernel, notebook):
    run(kernel, "-m", "crs_lib", "run", notebook)


@pytest.mark.full
@pytest.mark.subprocess
def test_the_kernel_runs_the_first_notebook(kernel):
    run(kernel, "-m", "crs_lib", "run", "00_start")
