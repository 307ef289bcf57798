"""Plain scientific English: words that texts for readers do not use, wherever a reader meets them."""

import ast
import functools
import importlib.metadata
import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from crs_lib import figures, metrics, notebooks
from crs_lib.cli import commands, names
from crs_lib.cli.app import main
from crs_lib.core import paths
from tests.helpers import licences

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
WORST = re.compile(
    r"\bwish(es)?\b|\bconstraints in force\b|\bleaves? out 0\b|\bwait alike\b|\bdiffer alike\b|"
    r"\bunder resampling\b|\balmost for nothing\b|\bpopularity of a film\b|\bnot told apart\b",
    re.IGNORECASE,
)

# What simulated users say and what models are asked, which kept samples and calls hang on.
SPOKEN = {"systems/tracker.py", "catalog/lexicon.py"}
SAID = ("earlier wishes", "my other wishes", "No wishes were recorded", "``wishes``", "$wish")
FIT = (
    "MIT", "BSD-3-Clause", "BSD License", "Apache-2.0 OR GPL-3.0-only", "MPL-2.0 AND (Apache-2.0 OR MIT)",
    "Mozilla Public License 2.0", "Python Software Foundation License", "Apache-2.0 WITH LLVM-exception",
    "MIT License; BSD License", "ISC License", "0BSD AND Zlib",
)  # fmt: skip
DO_NOT = (
    "", "GPL-3.0-or-later", "GNU General Public License v3", "AGPL-3.0", "MIT AND GPL-2.0-only", "Proprietary",
    "MIT License; GNU General Public License v2", "CC-BY-NC-4.0", "LGPL-3.0", "UNKNOWN", "SSPL-1.0",
)  # fmt: skip
NAMES = (paths.home() / "docs" / "names.md").read_text(encoding="utf-8")
QUOTED = (
    "compute_tas copy_ratio topic_set attribute_vector recommend TOPIC_FIELDS TOPIC_EXTRACTOR_MODE SIM_TOPIC_SHIFT "
    "TOPIC_JACCARD_SHIFT PEPPER CONCEPT_FIELDS FeaturizerConfig.topic_fields MOVIE_DB ALIGNMENT_THRESHOLD EVAL_MODE "
    "plot_kw= metric_<name>_bar.png fig_dataset_pipeline metrics_correlation_heatmap.png llm_judge_radar.png "
    "minilm_or_tfidf catalogue_size create_output_file"
)
ROOT = Path(__file__).resolve().parents[3]
CONDA_NAMES = {"ollama-python": "ollama"}  # where conda-forge calls a package otherwise
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def found(text):
    for said in SAID:
        text = text.replace(said, "")
    return [match[0] for match in WORST.finditer(text)]


def strings(path):
    """Every text of a file with more than one word: docstrings, messages, captions, help."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def test_texts_of_the_package_use_none_of_them():
    files = [p for p in sorted((paths.ROOT / "crs_lib").rglob("*.py")) if "prompts" not in p.parts]
    bad = [
        f"{path.relative_to(paths.ROOT)}:{line}: {words}"
        for path in files
        if path.relative_to(paths.ROOT / "crs_lib").as_posix() not in SPOKEN
        for line, text in strings(path)
        if (words := found(text))
    ]
    assert len(files) > 100 and bad == []


PAGES = (
    "session.js", "trace.js", "trace.html", "report.html", "base.html", "annotate.html", "annotate.js",
    "leaderboard.html", "leaderboard.js",
)  # fmt: skip
READ = [paths.ROOT / "README.md", paths.ROOT / "CONTRIBUTING.md", *sorted((paths.ROOT / "docs").glob("*.md"))]
READ += [paths.ROOT / "crs_lib" / "report" / name for name in PAGES]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_documents_and_pages_use_none_of_them(path):
    text = path.read_text(encoding="utf-8")
    assert found(CODE.sub("", text) if path.suffix == ".md" else text) == []


@pytest.mark.parametrize("path", sorted((paths.ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_tell_without_them(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    told = [CODE.sub("", "".join(c["source"])) for c in cells if c["cell_type"] == "markdown"]
    told += ["\n".join(re.findall(r"#.*", "".join(c["source"]))) for c in cells if c["cell_type"] == "code"]
    assert found("\n".join(told)) == []


@pytest.mark.parametrize("licence", [*FIT, *DO_NOT])
def test_what_fits(licence):
    assert licences.fits(licence) == licences.Licence("p", "1", licence).fits == (licence in FIT)


def test_all_dependencies_fit_and_a_wrong_one_fails_the_list(monkeypatch, capsys):
    assert licences.main() == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{listed}" for name in ("numpy", "pandas", "httpcore"))  # of others, too
    real = importlib.metadata.distribution

    class Changed:
        def __init__(self, name):
            self.metadata = real(name).metadata
            self.version, self.requires = "1", []
            if name == "numpy":
                del self.metadata["License-Expression"]
                self.metadata["License-Expression"] = "GPL-3.0-only"

    monkeypatch.setattr(importlib.metadata, "distribution", Changed)
    assert licences.main() == 1
    assert "numpy names GPL-3.0-only, which does not fit" in capsys.readouterr().err


def rows_of_names():
    """The rows of docs/names.md: what a design calls a thing, what it is here, how it is set."""
    rows = []
    for line in NAMES.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[1] not in ("here", "---"):
            rows.append(cells)
    return rows


def imported(name):
    """The object that a target names; a field of settings is its declaration."""
    module, _, path = name.partition(":")
    target = import_module(module)
    for part in filter(None, path.split(".")):
        fields = getattr(target, "model_fields", {})
        target = fields[part] if part in fields else getattr(target, part)
    return target


def has_command(line):
    """Whether a command line names a command and options that it has."""
    command, words = names.find(line.split()[1:])
    options = {"-p", "--parameters"}
    for setting in commands.options_of(commands.command_class(command)):
        options.add("--" + setting.rstrip("_").replace("_", "-").removeprefix("n-"))
    return {word for word in words if word.startswith("-")} <= options


def has_parameter(number, name):
    """Whether the notebook of a number has a parameter of a name."""
    (notebook,) = [path for path in notebooks.committed() if path.stem.startswith(number)]
    return name in notebooks.parameters_of(notebook)


@functools.cache
def sources():
    """The text of the package, where the names of files and keys that it writes stand."""
    files = sorted((paths.ROOT / "crs_lib").rglob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def is_here(word):
    """Whether what a word in backticks stands for is there; None for a word that stands for nothing."""
    kind, _, name = word.partition(":")
    if word.startswith("crs_lib."):
        return imported(word) is not None
    if word.startswith("crs "):
        return has_command(word)
    if re.fullmatch(r"\d\d", kind):
        return has_parameter(kind, name)
    if kind == "figure":
        return name in figures.FIGURES
    if kind == "metric":
        return metrics.get(name).name == name
    if kind == "file":
        return (paths.ROOT / name).is_file()
    if kind == "written":
        stem = re.escape(name.partition(".")[0])
        return re.search(rf"\b{re.escape(name)}\b|\"{stem}\"", sources()) is not None
    return None


@pytest.mark.parametrize("row", rows_of_names(), ids=lambda row: row[0][:40])
def test_what_the_page_of_names_says_is_here_is_here(row):
    design, here, how = row
    words = re.findall(r"`([^`]+)`", here)
    if here == "unchanged":
        words = [f"written:{name}" for name in re.findall(r"`([^`]+)`", design)]
    assert [word for word in words if not is_here(word)] == []
    assert words or (here == "not here:" and how), f"{design}: neither here nor a reason"
    assert [word for word in re.findall(r"`([^`]+)`", how) if is_here(word) is False] == []


def test_the_page_of_names_has_every_name_and_a_link_from_where_a_reader_looks():
    designs = " ".join(row[0] for row in rows_of_names())
    assert [name for name in QUOTED.split() if name not in designs] == []
    for page in ("README.md", "docs/thesis.md", "docs/cosrec.md", "docs/realtalk.md", "docs/context.md"):
        text = (paths.ROOT / page).read_text(encoding="utf-8")
        assert "names.md)" in text, page


def test_the_last_line_of_the_help_names_the_page_of_names(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "docs/names.md" in capsys.readouterr().out.strip().splitlines()[-1]


def test_every_row_names_tests_and_every_named_test_is_there():
    page = (paths.ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 18
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, name in named:
            text = (paths.ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), (file, name)


def requirements(lines):
    """Package name to its version specifier, as one comparable text."""
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(item.name): str(item.specifier) for item in parsed}


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_conda_and_pip_ask_for_the_same_packages_and_constraints_are_exact_versions():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    plain = [line for line in listed if isinstance(line, str) and line != "pip"]
    python = [line for line in plain if re.match(r"python\b(?!-)", line)]
    conda = requirements(line for line in plain if line not in python)
    renamed = {CONDA_NAMES.get(name, name): versions for name, versions in conda.items()}
    assert renamed == requirements(PROJECT["dependencies"])
    assert python == [f"python{PROJECT['requires-python']}"]
    assert {"pip": ["-e ."]} in listed
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
    """docs/decisions/0002 gives one line a package, and none for one that is gone."""
    text = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    rows = {canonicalize_name(name) for name in re.findall(r"^- `([\w.-]+)`:", text, re.MULTILINE)}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    assert rows == {name for group in groups for name in requirements(group)}


def nouns():
    """The table that opens docs/context.md: each noun and the file that says what it is."""
    page = (ROOT / "docs" / "context.md").read_text(encoding="utf-8").partition("## 1.")[0]
    return re.findall(r"^\| (\w+) \| .* \| `([\w/.]+)` \|$", page, re.MULTILINE)


def test_a_newcomer_needs_twelve_nouns():
    assert len(nouns()) == 12


@pytest.mark.parametrize(("noun", "file"), nouns())
def test_each_noun_is_one_public_class_whose_docstring_says_what_it_is(noun, file):
    module = ast.parse((ROOT / "crs_lib" / file).read_text(encoding="utf-8"))
    (definition,) = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == noun]
    assert ast.get_docstring(definition)
