"""Plain scientific English: words that texts for readers do not use, wherever a reader meets them."""

import ast
import json
import re

import pytest

from crs_lib.core import paths

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
WORST = re.compile(
    r"\bwish(es)?\b|\bconstraints in force\b|\bleaves? out 0\b|\bwait alike\b|\bdiffer alike\b|"
    r"\bunder resampling\b|\balmost for nothing\b|\bpopularity of a film\b|\bnot told apart\b",
    re.IGNORECASE,
)
# What simulated users say and what models are asked, which kept samples and calls hang on.
SPOKEN = {"systems/tracker.py", "catalog/lexicon.py"}
SAID = ("earlier wishes", "my other wishes", "No wishes were recorded", "``wishes``", "$wish")


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
    assert len(files) > 100
    assert bad == []


PAGES = ("session.js", "trace.js", "trace.html", "report.html", "annotate.html", "annotate.js")
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
