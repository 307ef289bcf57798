"""Parameters are read as Python and checked; tables are shown as what their columns hold."""

import re

import nbformat
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.notebooks.look import heading, to_html
from crs_lib.notebooks.rules import rules
from crs_lib.notebooks.runner import Parameter, check_parameters, help_text, read_parameters
from tests.helpers import books, refused

CELL = """run: str = "smoke"  # name of the run
seed: int = 7  # seed of every random choice
rate: float = 0.1  # share, in [0, 1]
quick: bool = True  # whether to hurry
systems: list[str] = [
    "tracker",
    "echo",
]  # systems, in order
note: str = "a # b = c"  # papermill's own reader would cut this default
limits: dict[str, int] = {"low": 1}  # bounds"""
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
LONG = "Follows the user's logged state and shows the films of the largest part of it that any film meets."
SOURCES = {  # the broken rule by a cell and what it holds instead
    ("work", "def f():\n    return 1"): "'def'", ("work", "class A:\n    x = 1"): "'class'",
    ("work", "try:\n    x = 1\nfinally:\n    x = 2"): "'try'", ("work", "while False:\n    x = 1"): "'while'",
    ("work", "f = lambda: 1"): "'lambda'", ("work", "%matplotlib inline"): "no magics", ("work", "!ls"): "no magics",
    ("work", "\n".join(f"x{i} = {i}" for i in range(9))): "9 lines", ("work", ""): "empty",
    ("opening", "Hello"): "starts with '# '",
    ("opening", "# 01_hello\n\nInput: none. Output: none. `papermill 01_hello.ipynb`"): "'?' is missing",
    ("opening", "# 01\n\nWhy? Input: none. Output: none. `papermill 02_other.ipynb`"): "papermill 01_hello.ipynb",
    ("reading", books.READING + " It has 2 words."): "number typed by hand",
    ("parameters", 'run: str = "smoke"'): "no trailing comment",
    ("parameters", 'run: str = "a=b"  # name'): "no '=' or '#'",
    ("parameters", "run = 1"): "expected 'name: type = literal",
    ("parameters", books.PARAMETERS + "\nspare: int = 1  # unused"): "'spare' is never used",
    ("begin", "import crs_lib"): "notebooks.begin()", ("config", "count"): "checked config",
    ("checks", "print(count)"): "must hold asserts",
}  # fmt: skip
END = {"## What we learnt": "finding", "## What this does not show": "finding"}


def by_name(cell=CELL):
    return read_parameters(cell, "03_simulate")


def test_reads_name_type_default_and_help_of_every_line():
    found = by_name()
    assert list(found) == ["run", "seed", "rate", "quick", "systems", "note", "limits"]
    assert found["systems"] == Parameter("systems", "list[str]", ["tracker", "echo"], "systems, in order")
    assert found["note"].default == "a # b = c"
    assert found["seed"].help == "seed of every random choice"
    assert (found["limits"].kind, found["limits"].inner) == ("dict", "int")


@pytest.mark.parametrize(("line", "part"), [
    ("seed = 7", "seed = 7"), ("seed: int = 3 + 4  # sum", "3 + 4"), ("seed: int = len('a')  # call", "no literal"),
    ("import os", "import os"), ("seed: Path = 'x'  # type", "'Path'"), ("seed: int = = 2", "not Python"),
    ("seed: int = 'seven'  # default of another type", "'seven'"), ("seed: int", "seed: int"),
])  # fmt: skip
def test_another_kind_of_line_is_named(line, part):
    with pytest.raises(InputError, match="03_simulate") as caught:
        read_parameters(line, "03_simulate")
    assert part in str(caught.value)


@pytest.mark.parametrize(("name", "text", "value"), [
    ("run", "007", "007"),  # a text stays a text, whatever it looks like
    ("run", "true", "true"), ("seed", "12", 12), ("rate", "1e-3", 0.001), ("rate", "2", 2.0), ("quick", "False", False),
    ("systems", "tracker, noisy:0.3", ["tracker", "noisy:0.3"]), ("systems", '["a,b"]', ["a,b"]), ("systems", "", []),
    ("limits", '{"low": 3}', {"low": 3}),
])  # fmt: skip
def test_typed_text_becomes_the_declared_type(name, text, value):
    read_value = by_name()[name].from_text(text)
    assert read_value == value and type(read_value) is type(value)


@pytest.mark.parametrize(("name", "text"), [
    ("seed", "ten"), ("seed", "1.5"), ("seed", "1e5"), ("seed", "1_000"), ("seed", "true"), ("seed", ""),
    ("rate", "NaN"), ("rate", "Infinity"), ("rate", "half"), ("quick", "1"), ("quick", "maybe"),
    ("systems", "[1, 2]"), ("systems", "[a, b]"), ("limits", "low"), ("limits", '{"low": "x"}'),
])  # fmt: skip
def test_mistyped_text_is_refused_with_what_was_expected(name, text):
    parameter = by_name()[name]
    with pytest.raises(InputError) as caught:
        parameter.from_text(text)
    assert repr(name) in str(caught.value) and parameter.annotation in str(caught.value)


@pytest.mark.parametrize(("parameter", "value", "says"), [
    *((by_name()["seed"], value, "whole number") for value in (True, "3", 3.0, None, [3])),
    *((Parameter("systems", "list", [], ""), value, "expected a list") for value in (("a",), {"a"}, [{1, 2}], [object()])),
])  # fmt: skip
def test_only_a_value_of_the_type_that_json_holds_is_passed(parameter, value, says):
    refused(says, parameter.checked, value)


@pytest.mark.parametrize("llm", [
    {"host": "http://me:s3cret@gpu1"}, {"host": "gpu1, me:s3cret@gpu2"}, {"host": "http://gpu1/?api_key=s3cret"},
    {"servers": ["https://s3cret@gpu1/v1"]},
])  # fmt: skip
def test_an_address_with_a_secret_is_refused_before_it_is_written(llm):
    loose = Parameter("llm", "dict", {}, "")
    with pytest.raises(InputError, match="put a key in the environment") as caught:
        loose.checked(llm)
    assert "s3cret" not in str(caught.value)
    for value in ({"host": "http://gpu1:1,gpu2"}, {"model": "replay:thesis@ollama:gemma:2b"}):
        assert loose.checked(value) == value


def test_unknown_names_get_a_suggestion_and_help_has_a_line_a_parameter():
    with pytest.raises(InputError, match="unknown parameter 'sede'; did you mean 'seed'"):
        check_parameters(by_name(), {"sede": 1}, "03_simulate")
    lines = help_text(by_name(), "03_simulate").splitlines()
    assert len(lines) == 1 + 7
    assert lines[2].split() == ["seed", "(int)", *"seed of every random choice".split(), "[7]"]
    assert lines[5].endswith('systems, in order [["tracker", "echo"]]')


@given(st.lists(_json, max_size=4))
def test_every_json_list_passes_unchanged(value):
    assert Parameter("x", "list", [], "").checked(value) == value


@given(st.text(max_size=30))
def test_a_literal_default_survives_being_written_in_a_cell(text):
    cell = f"note: str = {text!r}  # a text\nseed: int = 1  # next"
    found = by_name(cell)
    assert found["note"].default == text and found["note"].help == "a text"


def cells(frame):
    """Side and text of every cell, row by row, the heads first."""
    found = re.findall(r'<t[hd] style="text-align: (\w+);[^>]*>(.*?)</t[hd]>', to_html(frame))
    width = len(re.findall("<th ", to_html(frame)))
    return [found[start : start + width] for start in range(0, len(found), width)]


def test_text_stands_left_numbers_right_and_what_is_missing_is_a_dash():
    columns = {"system": ["a<b", LONG], "mean": [-0.0001, -0.25], "n": [12, 3], "p_holm": ["p < .001", ""]}
    rows = cells(pd.DataFrame(columns))
    assert rows[0] == [("left", "system"), ("right", "mean"), ("right", "n"), ("left", "p, Holm")]
    assert rows[1] == [("left", "a&lt;b"), ("right", "0.000"), ("right", "12"), ("left", "p &lt; .001")]
    assert rows[2][1] == ("right", "−0.250") and rows[2][0][1].startswith("Follows the user")
    assert rows[2][0][1].endswith("any film meets."), "a text is never cut off"
    rows = cells(pd.DataFrame({"statistic": [1.5, ""], "estimate": [None, 2.0], "holds": [True, False]}))
    assert [side for side, _ in rows[1]] == ["right", "right", "left"]
    assert rows[1][1][1] == "–" and rows[2][0][1] == ""
    named = pd.DataFrame({"turns": [1]}, index=pd.Index(["a"], name="system"))
    assert cells(named)[1] == [("left", "a"), ("right", "1")]
    assert "… and 40 rows more" in to_html(pd.DataFrame({"x": range(100)}))
    assert heading("session_id") == "session id"


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


@pytest.mark.parametrize(("cell", "source"), SOURCES)
def test_a_cell_that_says_something_else(good, tmp_path, cell, source):
    found = changed(good, tmp_path, lambda cells, _: cells[cell].update(source=source))
    named = [text for text in found if SOURCES[cell, source] in text]
    assert named and (cell != "work" or "code cell 4" in named[0]), found


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


@pytest.mark.parametrize(("output", "rule"), [
    (printed("<object at 0x7f3a2b1c4d5e>"), "an object address"), (printed("C:\\Users\\ada"), "an absolute path"),
    (printed("/home/ada/results/x.csv"), "an absolute path"), (printed("2026-11-02 10:15:00"), "a date and time"),
    (printed("100%|###| 3/3 [00:01<00:00, 2.50it/s]"), "a progress bar"), (printed("#T_8a7b6 td"), "a styled table"),
    (printed("0.3333333333"), "not rounded"), (printed("careful", "stderr"), "standard error"),
    (nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[]), "failed: ValueError"),
    (nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"}), "SVG"),
    *((printed(harmless), "") for harmless in ("and/or", "3/4 of them", "see https://example.org/home/x", "0.333", "1,234")),
])  # fmt: skip
def test_outputs_that_two_runs_would_show_differently_or_nobody_keeps(good, tmp_path, output, rule):
    found = changed(good, tmp_path, lambda cells, _: cells["work"].outputs.append(output))
    assert [line for line in found if rule in line] if rule else found == [], found


def test_a_stripped_notebook_is_found(good, tmp_path):
    def strip(_, notebook):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.update(execution_count=None, outputs=[])

    assert sum("refresh the notebook" in line for line in changed(good, tmp_path, strip)) == 8


def test_volatile_metadata_foreign_kernels_and_a_second_cell_of_parameters_are_found(good, tmp_path):
    def change(cells, notebook):
        notebook.metadata["papermill"] = {"duration": 1.0}
        notebook.metadata["kernelspec"]["name"] = "my-env"
        cells["work"].metadata["execution"] = {"shell.execute_reply": "2026"}

    found = changed(good, tmp_path, change)
    assert any("papermill, execution" in line for line in found)
    assert any("must be 'python3'" in line for line in found)

    def twice(cells, _):
        cells["begin"].metadata["tags"] = ["parameters"]

    found = changed(good, tmp_path, twice)
    assert "exactly one cell must be tagged 'parameters', and it must be the first code cell" in found


def test_too_much_code_and_too_much_text(good, tmp_path):
    few = changed(good, tmp_path, lambda cells, book: book.cells.remove(cells["config-text"]))
    # 3 texts of 8 cells are 37.5 %, rounded 38
    assert few == ["38 % of the cells are text (3 of 8); expected 40 to 50 %"]
    more = [nbformat.v4.new_markdown_cell("More.") for _ in range(3)]
    many = changed(good, tmp_path, lambda _, book: book.cells.__setitem__(slice(3, 3), more))
    assert many == ["58 % of the cells are text (7 of 12); expected 40 to 50 %"]


def told(good, folder, sections, questions="1. Who?"):
    """The broken rules of a notebook whose sections end with a code cell of a tag each."""

    def change(cells, notebook):
        asked = "1. How many words does a greeting have?"
        cells["opening"].source = cells["opening"].source.replace(asked, questions)
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
    double = {"## Who?": "finding", "And then?": "finding", "## Checks": "checks", **END}
    [line] = told(good, tmp_path, double)
    assert line.startswith("section 'Who?' has a cell tagged 'finding' before its end")
    end = "it must end with the sections 'Checks', 'What we learnt' and 'What this does not show'"
    early = {"## Checks": "checks", "## Who?": "finding", **END}
    older = {"## Who?": "finding", "## Checks": "checks", "## Reading the result": "finding"}
    assert end in told(good, tmp_path, early) and end in told(good, tmp_path, older)
    two = told(good, tmp_path, sections, "1. Who?\n2. When?")
    assert "the first cell lists 2 questions ('1. …?') for 1 sections; one each" in two


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"cells": 3}'])
def test_a_file_that_is_no_notebook(tmp_path, content):
    path = tmp_path / "01_broken.ipynb"
    path.write_text(content)
    refused("no notebook", rules, path)


@pytest.mark.parametrize("path", sorted(paths.notebooks().glob("*.ipynb")), ids=lambda path: path.stem)
def test_committed_notebooks_keep_the_rules_and_say_what_they_showed(path):
    assert rules(path) == []
    cells = nbformat.read(path, as_version=4).cells
    headings = [cell.source.splitlines()[0] for cell in cells if cell.source.startswith("## ")]
    assert headings[-2:] == [*END]
