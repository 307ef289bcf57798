"""Each static rule: a notebook that keeps them all, and one change at a time that breaks one."""

import nbformat
import pytest

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.notebooks.rules import rules
from tests.helpers import books


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A notebook with outputs, as refresh leaves it."""
    return books.save(books.executed("01_hello"), tmp_path_factory.mktemp("books") / "01_hello.ipynb")


def changed(good, folder, change):
    """A copy of the good notebook after ``change(cells by id, notebook)``."""
    notebook = nbformat.read(good, as_version=4)
    change({cell.id: cell for cell in notebook.cells}, notebook)
    path = folder / good.name
    nbformat.write(notebook, path)
    return rules(path)


def test_a_good_notebook_breaks_no_rule_and_numbers_in_names_are_no_results(good, tmp_path):
    assert rules(good) == []
    text = books.READING + " Next: `04_evaluate` and [05](05_analyze.ipynb)."
    assert changed(good, tmp_path, lambda cells, _: cells["reading"].update(source=text)) == []


CODE = {
    "def f():\n    return 1": "'def'", "class A:\n    x = 1": "'class'",
    "try:\n    x = 1\nfinally:\n    x = 2": "'try'", "while False:\n    x = 1": "'while'",
    "f = lambda: 1": "'lambda'", "%matplotlib inline": "no magics", "!ls": "no magics",
    "\n".join(f"x{i} = {i}" for i in range(9)): "9 lines", "": "empty",
}  # fmt: skip


@pytest.mark.parametrize("source", CODE)
def test_code_that_belongs_in_the_library(good, tmp_path, source):
    found = changed(good, tmp_path, lambda cells, _: cells["work"].update(source=source))
    assert [text for text in found if CODE[source] in text and "code cell 4" in text], found


TEXT = {
    ("opening", "Hello"): "starts with '# '",
    ("opening", "# 01_hello\n\nInput: none. Output: none. `papermill 01_hello.ipynb`"): "'?' is missing",
    (
        "opening",
        "# 01\n\nWhy? Input: none. Output: none. `papermill 02_other.ipynb`",
    ): "papermill 01_hello.ipynb",
    ("reading", books.READING + " It has 2 words."): "number typed by hand",
    ("parameters", 'run: str = "smoke"'): "no trailing comment",
    ("parameters", 'run: str = "a=b"  # name'): "no '=' or '#'",
    ("parameters", "run = 1"): "expected 'name: type = literal",
    ("parameters", books.PARAMETERS + "\nspare: int = 1  # unused"): "'spare' is never used",
    ("begin", "import crs_lib"): "notebooks.begin()",
    ("config", "count"): "checked config",
    ("checks", "print(count)"): "must hold asserts",
}


@pytest.mark.parametrize(("cell", "source"), TEXT)
def test_a_cell_that_says_something_else(good, tmp_path, cell, source):
    found = changed(good, tmp_path, lambda cells, _: cells[cell].update(source=source))
    assert [text for text in found if TEXT[cell, source] in text], found


SHOWN = {
    "<object at 0x7f3a2b1c4d5e>": "an object address",
    "/home/ada/results/x.csv": "an absolute path",
    "C:\\Users\\ada": "an absolute path",
    "2026-11-02 10:15:00": "a date and time",
    "100%|###| 3/3 [00:01<00:00, 2.50it/s]": "a progress bar",
    "#T_8a7b6 td": "a styled table",
    "0.3333333333": "not rounded",
}


@pytest.mark.parametrize("text", SHOWN)
def test_what_two_runs_would_show_differently(good, tmp_path, text):
    out = nbformat.v4.new_output("stream", name="stdout", text=text)
    found = changed(good, tmp_path, lambda cells, _: cells["work"].outputs.append(out))
    assert [line for line in found if SHOWN[text] in line], found


@pytest.mark.parametrize(
    "text", ["and/or", "3/4 of them", "see https://example.org/home/x", "0.333", "1,234"]
)
def test_harmless_output_is_not_suspected(good, tmp_path, text):
    out = nbformat.v4.new_output("stream", name="stdout", text=text)
    assert changed(good, tmp_path, lambda cells, _: cells["work"].outputs.append(out)) == []


OUTPUTS = {
    "standard error": nbformat.v4.new_output("stream", name="stderr", text="careful"),
    "failed: ValueError": nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[]),
    "SVG": nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"}),
}


@pytest.mark.parametrize("rule", OUTPUTS)
def test_outputs_that_are_not_kept(good, tmp_path, rule):
    found = changed(good, tmp_path, lambda cells, _: cells["work"].outputs.append(OUTPUTS[rule]))
    assert [line for line in found if rule in line], found


def test_a_stripped_notebook_is_found(good, tmp_path):
    def strip(_, notebook):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.update(execution_count=None, outputs=[])

    assert sum("refresh the notebook" in line for line in changed(good, tmp_path, strip)) == 8


def test_volatile_metadata_and_foreign_kernels_are_found(good, tmp_path):
    def change(cells, notebook):
        notebook.metadata["papermill"] = {"duration": 1.0}
        notebook.metadata["kernelspec"]["name"] = "my-env"
        cells["work"].metadata["execution"] = {"shell.execute_reply": "2026"}

    found = changed(good, tmp_path, change)
    assert any("papermill, execution" in line for line in found)
    assert any("must be 'python3'" in line for line in found)


def test_too_much_code_and_too_much_text(good, tmp_path):
    few = changed(good, tmp_path, lambda cells, book: book.cells.remove(cells["config-text"]))
    # 3 texts of 8 cells are 37.5 %, rounded 38
    assert few == ["38 % of the cells are text (3 of 8); expected 40 to 50 %"]
    many = changed(good, tmp_path, lambda _, book: book.cells.__setitem__(slice(3, 3), _texts(3)))
    assert many == ["58 % of the cells are text (7 of 12); expected 40 to 50 %"]


END = {"## What we learnt": "finding", "## What this does not show": "finding"}


def told(good, folder, sections, questions="1. Who?"):
    """The broken rules of a notebook whose sections end with a code cell of a tag each."""

    def change(cells, notebook):
        cells["opening"].source = cells["opening"].source.replace(
            "1. How many words does a greeting have?", questions
        )
        del notebook.cells[5:]
        for title, tag in sections.items():
            notebook.cells.append(nbformat.v4.new_markdown_cell(title))
            made = nbformat.v4.new_code_cell("assert count", execution_count=len(notebook.cells))
            made.metadata["tags"] = [tag]
            notebook.cells.append(made)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for number, cell in enumerate(code, start=1):
            cell.execution_count = number

    other = ("% of the cells", "is never used")
    return [line for line in changed(good, folder, change) if not any(text in line for text in other)]


def test_sections_end_with_findings_and_the_notebook_with_what_it_showed(good, tmp_path):
    sections = {"## Who?": "finding", "## Checks": "checks", **END}
    assert told(good, tmp_path, sections) == []
    assert told(good, tmp_path, {**sections, "## Who?": "other"}) == []
    learnt = {**sections, "## What we learnt": "other"}
    must = "section 'What we learnt' must end with a code cell tagged 'finding'"
    assert any(line.startswith(must) for line in told(good, tmp_path, learnt))
    [line] = told(
        good, tmp_path, {"## Who?": "finding", "And then?": "finding", "## Checks": "checks", **END}
    )
    assert line.startswith("section 'Who?' has a cell tagged 'finding' before its end")
    end = "it must end with the sections 'Checks', 'What we learnt' and 'What this does not show'"
    early = {"## Checks": "checks", "## Who?": "finding", **END}
    older = {"## Who?": "finding", "## Checks": "checks", "## Reading the result": "finding"}
    assert end in told(good, tmp_path, early) and end in told(good, tmp_path, older)
    assert "the first cell lists 2 questions ('1. …?') for 1 sections; one each" in told(
        good, tmp_path, sections, "1. Who?\n2. When?"
    )


def _texts(n):
    return [nbformat.v4.new_markdown_cell("More.") for _ in range(n)]


def test_the_parameters_come_first_and_once(good, tmp_path):
    def twice(cells, _):
        cells["begin"].metadata["tags"] = ["parameters"]

    found = changed(good, tmp_path, twice)
    assert "exactly one cell must be tagged 'parameters', and it must be the first code cell" in found


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"cells": 3}'])
def test_a_file_that_is_no_notebook(tmp_path, content):
    path = tmp_path / "01_broken.ipynb"
    path.write_text(content)
    with pytest.raises(InputError, match="no notebook"):
        rules(path)


@pytest.mark.parametrize("path", sorted(paths.notebooks().glob("*.ipynb")), ids=lambda path: path.stem)
def test_committed_notebooks_keep_the_rules_and_say_what_they_showed(path):
    assert rules(path) == []
    cells = nbformat.read(path, as_version=4).cells
    headings = [cell.source.splitlines()[0] for cell in cells if cell.source.startswith("## ")]
    assert headings[-2:] == [*END]
