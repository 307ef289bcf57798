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
from tests.helpers.house import MODULES, PACKAGE

QUOTATION = re.compile(r"`([^`]+)`")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
WORST = re.compile(
    r"\bwish(es)?\b|\bconstraints in force\b|\bleaves? out 0\b|\bwait alike\b|\bdiffer alike\b|"
    r"\bunder resampling\b|\balmost for nothing\b|\bpopularity of a film\b|\bnot told apart\b",
    re.IGNORECASE,
)

# What simulated users say and what models are asked, which kept samples and calls hang on.
SPOKEN = {"systems/tracker.py", "catalog/lexicon.py"}
SPOKEN_WORDS = ("earlier wishes", "my other wishes", "No wishes were recorded", "``wishes``", "$wish")
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


def worst_words(text):
    """The words of a text that no reader should meet, those of kept samples and calls left out."""
    for quotation in SPOKEN_WORDS:
        text = text.replace(quotation, "")
    return [match[0] for match in WORST.finditer(text)]


def strings(path):
    """Every text of a file with more than one word: docstrings, messages, captions, help."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def test_texts_of_the_package_use_none_of_them():
    faults = []
    for path in MODULES.values():
        if path.relative_to(PACKAGE).as_posix() in SPOKEN:
            continue
        for line, text in strings(path):
            faults += [f"{path.name}:{line}: {word}" for word in worst_words(text)]
    assert len(MODULES) > 100
    assert faults == []


PAGES = (
    "session.js", "trace.js", "trace.html", "report.html", "base.html", "annotate.html", "annotate.js",
    "leaderboard.html", "leaderboard.js",
)  # fmt: skip
READ = [paths.ROOT / "README.md", paths.ROOT / "CONTRIBUTING.md", *sorted((paths.ROOT / "docs").glob("*.md"))]
READ += [paths.ROOT / "crs_lib" / "report" / name for name in PAGES]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_documents_and_pages_use_none_of_them(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = CODE.sub("", text)
    assert worst_words(text) == []


@pytest.mark.parametrize("path", sorted((paths.ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebooks_tell_without_them(path):
    words = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            words.append(CODE.sub("", source))
        else:
            words += re.findall(r"#.*", source)
    assert worst_words("\n".join(words)) == []


@pytest.mark.parametrize("licence", FIT)
def test_a_licence_that_fits(licence):
    assert licences.Licence("p", "1", licence).fits


@pytest.mark.parametrize("licence", DO_NOT)
def test_a_licence_that_does_not_fit(licence):
    assert not licences.Licence("p", "1", licence).fits


def test_all_dependencies_fit(capsys):
    assert licences.main() == 0
    packages = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"numpy", "pandas", "httpcore"} <= packages  # httpcore is a dependency of others


def test_a_dependency_of_another_licence_fails_the_list(monkeypatch, capsys):
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
    written = [word for word in words if word.startswith("-")]
    return options.issuperset(written)


def has_parameter(number, name):
    """Whether the notebook of a number has a parameter of a name."""
    (notebook,) = paths.notebooks().glob(f"{number}_*.ipynb")
    return name in notebooks.parameters_of(notebook)


@functools.cache
def sources():
    """The text of the package, where the names of files and keys that it writes stand."""
    return "\n".join(path.read_text(encoding="utf-8") for path in MODULES.values())


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
    words = QUOTATION.findall(here)
    if here == "unchanged":
        words = [f"written:{name}" for name in QUOTATION.findall(design)]
    assert [word for word in words if not is_here(word)] == []
    assert words or (here == "not here:" and how), f"{design}: neither here nor a reason"
    assert [word for word in QUOTATION.findall(how) if is_here(word) is False] == []


def test_the_page_of_names_has_every_name():
    designs = " ".join(row[0] for row in rows_of_names())
    assert [name for name in QUOTED.split() if name not in designs] == []


@pytest.mark.parametrize(
    "page", ["README.md", "docs/thesis.md", "docs/cosrec.md", "docs/realtalk.md", "docs/context.md"]
)
def test_the_page_of_names_is_linked_from_where_a_reader_looks(page):
    assert "names.md)" in (paths.ROOT / page).read_text(encoding="utf-8")


def test_the_last_line_of_the_help_names_the_page_of_names(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "docs/names.md" in capsys.readouterr().out.strip().splitlines()[-1]


def promises():
    """The rows of docs/robustness.md."""
    page = (paths.ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    return re.findall(r"^\| .*", page, re.MULTILINE)[1:]


def test_robustness_is_promised():
    assert len(promises()) >= 18


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise[2:42])
def test_every_promise_names_tests_that_are_there(promise):
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", promise)
    assert tests
    for file, name in tests:
        text = (paths.ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), (file, name)


def requirements(lines):
    """Package name to its version specifier, as one comparable text."""
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): str(requirement.specifier) for requirement in parsed}


def pinned():
    """Package name to the exact version that constraints.txt gives it."""
    versions = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            assert re.fullmatch(r"[A-Za-z0-9._-]+==[\w.+!]+", line), line
            name, version = line.split("==")
            assert canonicalize_name(name) not in versions, f"{name} has two lines"
            versions[canonicalize_name(name)] = Version(version)
    return versions


def test_conda_and_pip_ask_for_the_same_packages():
    lines = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    python = f"python{PROJECT['requires-python']}"
    for line in (python, "pip", {"pip": ["-e ."]}):
        lines.remove(line)
    conda = {}
    for name, versions in requirements(lines).items():
        conda[CONDA_NAMES.get(name, name)] = versions
    assert conda == requirements(PROJECT["dependencies"])


@pytest.mark.parametrize("group", ["core", *PROJECT["optional-dependencies"]])
def test_every_dependency_is_pinned_within_its_range(group):
    groups = {"core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    versions = pinned()
    for requirement in map(Requirement, groups[group]):
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{requirement.name} has no line in constraints.txt"
        assert versions[name] in requirement.specifier


def test_every_dependency_has_a_reason():
    """docs/decisions/0002 gives one line a package, and none for one that is gone."""
    text = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    rows = {canonicalize_name(name) for name in re.findall(r"^- `([\w.-]+)`:", text, re.MULTILINE)}
    names = set()
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        names.update(requirements(group))
    assert rows == names


def nouns():
    """The table that opens docs/context.md: each noun and the file that says what it is."""
    page = (ROOT / "docs" / "context.md").read_text(encoding="utf-8").partition("## 1.")[0]
    return re.findall(r"^\| (\w+) \| .* \| `([\w/.]+)` \|$", page, re.MULTILINE)


def test_a_newcomer_needs_twelve_nouns():
    assert len(nouns()) == 12


@pytest.mark.parametrize(("noun", "file"), nouns())
def test_each_noun_is_one_public_class_whose_docstring_says_what_it_is(noun, file):
    module = ast.parse((ROOT / "crs_lib" / file).read_text(encoding="utf-8"))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    assert ast.get_docstring(classes[noun])
