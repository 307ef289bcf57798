"""pyproject.toml, environment.yml and constraints.txt name the same packages and agree on versions."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]
CONDA_NAMES = {"ollama-python": "ollama"}  # where conda-forge calls a package otherwise
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(lines):
    """Package name to its version specifier, as one comparable text."""
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(item.name): str(item.specifier) for item in parsed}


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_conda_and_pip_ask_for_the_same_packages():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    plain = [line for line in listed if isinstance(line, str) and line != "pip"]
    python = [line for line in plain if re.match(r"python\b(?!-)", line)]
    conda = requirements(line for line in plain if line not in python)
    renamed = {CONDA_NAMES.get(name, name): versions for name, versions in conda.items()}

    assert renamed == requirements(PROJECT["dependencies"])
    assert python == [f"python{PROJECT['requires-python']}"]
    assert {"pip": ["-e ."]} in listed


def test_constraints_are_exact_versions_without_addresses():
    assert [line for line in pinned() if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.+!]+", line)] == []
    names = [canonicalize_name(line.partition("==")[0]) for line in pinned()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("group", ["core", *PROJECT["optional-dependencies"]])
def test_every_dependency_is_pinned_within_its_range(group):
    lines = PROJECT["dependencies"] if group == "core" else PROJECT["optional-dependencies"][group]
    versions = {canonicalize_name(name): Version(v) for name, v in (line.split("==") for line in pinned())}
    for item in map(Requirement, lines):
        assert canonicalize_name(item.name) in versions, f"{item.name} has no line in constraints.txt"
        assert versions[canonicalize_name(item.name)] in item.specifier


def test_every_dependency_has_a_reason():
    """docs/decisions/0002 gives one table row a package, and no row for one that is gone."""
    text = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    rows = {canonicalize_name(name) for name in re.findall(r"^\| `([\w.-]+)` \|", text, re.MULTILINE)}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    assert rows == {name for group in groups for name in requirements(group)}
