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
from crs_lib.thesis import commands as thesis_commands
from tests.helpers import books, refused, table

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
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def lists_and_objects(inner):
    return st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)


JSON = st.recursive(SCALARS, lists_and_objects, max_leaves=12)
LONG = "Follows the user's logged state and shows the films of the largest part of it that any film meets."
END = {"## What we learnt": "finding", "## What this does not show": "finding"}


def by_name(cell=CELL):
    return read_parameters(cell, "03_simulate")


def test_reads_name_type_default_and_help_of_every_line():
    parameters = by_name()
    assert list(parameters) == ["run", "seed", "rate", "quick", "systems", "note", "limits"]
    systems = Parameter("systems", "list[str]", ["tracker", "echo"], "systems, in order")
    assert parameters["systems"] == systems
    assert parameters["note"].default == "a # b = c"
    assert parameters["seed"].help == "seed of every random choice"
    assert parameters["limits"].kind == "dict"
    assert parameters["limits"].inner == "int"


@pytest.mark.parametrize(("line", "part"), table(__file__, "refused_lines"))
def test_another_kind_of_line_is_named(line, part):
    with pytest.raises(InputError, match="03_simulate") as caught:
        read_parameters(line, "03_simulate")
    assert part in str(caught.value)


@pytest.mark.parametrize(("name", "text", "value"), table(__file__, "typed"))
def test_typed_text_becomes_the_declared_type(name, text, value):
    read_value = by_name()[name].from_text(text)
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(("name", "text"), table(__file__, "mistyped"))
def test_mistyped_text_is_refused_with_what_was_expected(name, text):
    parameter = by_name()[name]
    with pytest.raises(InputError) as caught:
        parameter.from_text(text)
    assert repr(name) in str(caught.value)
    assert parameter.annotation in str(caught.value)


@pytest.mark.parametrize("value", [True, "3", 3.0, None, [3]])
def test_only_a_whole_number_is_passed_as_one(value):
    refused("whole number", by_name()["seed"].checked, value)


@pytest.mark.parametrize("value", [("a",), {"a"}, [{1, 2}], [object()]])
def test_only_a_list_that_json_holds_is_passed_as_one(value):
    refused("expected a list", Parameter("systems", "list", [], "").checked, value)


@pytest.mark.parametrize(("llm",), table(__file__, "secrets"))
def test_an_address_with_a_secret_is_refused_before_it_is_written(llm):
    loose = Parameter("llm", "dict", {}, "")
    with pytest.raises(InputError, match="put a key in the environment") as caught:
        loose.checked(llm)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("llm", [{"host": "http://gpu1:1,gpu2"}, {"model": "replay:thesis@ollama:gemma:2b"}])
def test_an_address_without_a_secret_passes(llm):
    assert Parameter("llm", "dict", {}, "").checked(llm) == llm


def test_unknown_names_get_a_suggestion():
    message = "unknown parameter 'sede'; did you mean 'seed'"
    refused(message, check_parameters, by_name(), {"sede": 1}, "03_simulate")


def test_help_has_a_line_a_parameter():
    lines = help_text(by_name(), "03_simulate").splitlines()
    assert len(lines) == 1 + 7
    assert lines[2].split() == ["seed", "(int)", *"seed of every random choice".split(), "[7]"]
    assert lines[5].endswith('systems, in order [["tracker", "echo"]]')


@given(st.lists(JSON, max_size=4))
def test_every_json_list_passes_unchanged(value):
    assert Parameter("x", "list", [], "").checked(value) == value


@given(st.text(max_size=30))
def test_a_literal_default_survives_being_written_in_a_cell(text):
    cell = f"note: str = {text!r}  # a text\nseed: int = 1  # next"
    note = by_name(cell)["note"]
    assert note.default == text
    assert note.help == "a text"


def cells(frame):
    """Side and text of every cell, row by row, the heads first."""
    page = to_html(frame)
    pairs = re.findall(r'<t[hd] style="text-align: (\w+);[^>]*>(.*?)</t[hd]>', page)
    width = page.count("<th ")
    return [pairs[start : start + width] for start in range(0, len(pairs), width)]


def test_text_stands_left_and_numbers_right():
    columns = {"system": ["a<b", LONG], "mean": [-0.0001, -0.25], "n": [12, 3], "p_holm": ["p < .001", ""]}
    heads, first, second = cells(pd.DataFrame(columns))
    assert heads == [("left", "system"), ("right", "mean"), ("right", "n"), ("left", "p, Holm")]
    assert first == [("left", "a&lt;b"), ("right", "0.000"), ("right", "12"), ("left", "p &lt; .001")]
    assert second[1] == ("right", "−0.250")
    text = second[0][1]
    assert text.startswith("Follows the user")
    assert text.endswith("any film meets."), "a text is never cut off"


def test_what_is_missing_is_a_dash_and_an_empty_text_is_empty():
    frame = pd.DataFrame({"statistic": [1.5, ""], "estimate": [None, 2.0], "holds": [True, False]})
    _, first, second = cells(frame)
    assert [side for side, _ in first] == ["right", "right", "left"]
    assert first[1][1] == "–"
    assert second[0][1] == ""


def test_a_named_index_is_a_column():
    frame = pd.DataFrame({"turns": [1]}, index=pd.Index(["a"], name="system"))
    assert cells(frame)[1] == [("left", "a"), ("right", "1")]


def test_a_long_table_says_how_many_rows_follow():
    assert "… and 40 rows more" in to_html(pd.DataFrame({"x": range(100)}))


def test_a_heading_has_blanks():
    assert heading("session_id") == "session id"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A notebook with outputs, as refresh leaves it."""
    return books.save(books.executed("01_hello"), tmp_path_factory.mktemp("books") / "01_hello.ipynb")


@pytest.fixture
def notebook(good):
    """The good notebook in memory, to be changed."""
    return nbformat.read(good, as_version=4)


def cell(notebook, name):
    """The cell of a notebook with this id."""
    return {cell.id: cell for cell in notebook.cells}[name]


@pytest.fixture
def faults(good, tmp_path):
    """A function: the rules that a notebook breaks when it is saved under the good one's name."""

    def of(notebook):
        path = tmp_path / good.name
        nbformat.write(notebook, path)
        return rules(path)

    return of


def test_a_good_notebook_breaks_no_rule(good):
    assert rules(good) == []


def test_numbers_in_names_are_no_results(notebook, faults):
    cell(notebook, "reading").source = books.READING + " Next: `04_evaluate` and [05](05_analyze.ipynb)."
    assert faults(notebook) == []


@pytest.mark.parametrize(("name", "source", "fault"), table(__file__, "broken_cells"))
def test_a_cell_that_says_something_else(notebook, faults, name, source, fault):
    changed = cell(notebook, name)
    if source.startswith("+"):
        source = changed.source + source[1:]
    changed.source = source
    lines = [line for line in faults(notebook) if fault in line]
    assert lines
    if name == "work":
        assert "code cell 4" in lines[0]


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


@pytest.mark.parametrize(("text", "fault"), table(__file__, "volatile"))
def test_a_text_that_two_runs_would_show_differently(notebook, faults, text, fault):
    cell(notebook, "work").outputs.append(printed(text))
    assert fault in "\n".join(faults(notebook))


@pytest.mark.parametrize(("output", "fault"), [
    (printed("careful", "stderr"), "standard error"),
    (nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[]), "failed: ValueError"),
    (nbformat.v4.new_output("display_data", {"image/svg+xml": "<svg/>"}), "SVG"),
])  # fmt: skip
def test_an_output_that_nobody_keeps(notebook, faults, output, fault):
    cell(notebook, "work").outputs.append(output)
    assert fault in "\n".join(faults(notebook))


@pytest.mark.parametrize(
    "text", ["and/or", "3/4 of them", "see https://example.org/home/x", "0.333", "1,234"]
)
def test_a_harmless_output(notebook, faults, text):
    cell(notebook, "work").outputs.append(printed(text))
    assert faults(notebook) == []


def test_a_stripped_notebook_is_found(notebook, faults):
    for code in books.code_cells(notebook):
        code.update(execution_count=None, outputs=[])
    lines = [line for line in faults(notebook) if "refresh the notebook" in line]
    assert len(lines) == 8


def test_volatile_metadata_and_foreign_kernels_are_found(notebook, faults):
    notebook.metadata["papermill"] = {"duration": 1.0}
    notebook.metadata["kernelspec"]["name"] = "my-env"
    cell(notebook, "work").metadata["execution"] = {"shell.execute_reply": "2026"}
    lines = "\n".join(faults(notebook))
    assert "papermill, execution" in lines
    assert "must be 'python3'" in lines


def test_a_second_cell_of_parameters_is_found(notebook, faults):
    cell(notebook, "begin").metadata["tags"] = ["parameters"]
    line = "exactly one cell must be tagged 'parameters', and it must be the first code cell"
    assert line in faults(notebook)


def test_too_much_code_is_found(notebook, faults):
    notebook.cells.remove(cell(notebook, "config-text"))
    # 3 texts of 8 cells are 37.5 %, rounded 38
    assert faults(notebook) == ["38 % of the cells are text (3 of 8); expected 40 to 50 %"]


def test_too_much_text_is_found(notebook, faults):
    notebook.cells[3:3] = [nbformat.v4.new_markdown_cell("More.") for _ in range(3)]
    assert faults(notebook) == ["58 % of the cells are text (7 of 12); expected 40 to 50 %"]


@pytest.fixture
def faults_of_sections(notebook, faults):
    """A function: the broken rules of a notebook whose sections end with a code cell of a tag each."""

    def of(sections, questions="1. Who?"):
        opening = cell(notebook, "opening")
        opening.source = opening.source.replace("1. How many words does a greeting have?", questions)
        del notebook.cells[5:]
        for title, tag in sections.items():
            code = nbformat.v4.new_code_cell("assert count", metadata={"tags": [tag]})
            notebook.cells += [nbformat.v4.new_markdown_cell(title), code]
        for number, code in enumerate(books.code_cells(notebook), start=1):
            code.execution_count = number
        return [line for line in faults(notebook) if not re.search("% of the cells|is never used", line)]

    return of


SECTIONS = {"## Who?": "finding", "## Checks": "checks", **END}
ENDS = "it must end with the sections 'Checks', 'What we learnt' and 'What this does not show'"


def test_sections_end_with_a_finding_or_without(faults_of_sections):
    assert faults_of_sections(SECTIONS) == []
    assert faults_of_sections({**SECTIONS, "## Who?": "other"}) == []


def test_what_we_learnt_ends_with_a_finding(faults_of_sections):
    lines = faults_of_sections({**SECTIONS, "## What we learnt": "other"})
    assert "section 'What we learnt' must end with a code cell tagged 'finding'" in "\n".join(lines)


def test_a_finding_ends_its_section(faults_of_sections):
    double = {"## Who?": "finding", "And then?": "finding", "## Checks": "checks", **END}
    [line] = faults_of_sections(double)
    assert line.startswith("section 'Who?' has a cell tagged 'finding' before its end")


@pytest.mark.parametrize("sections", [
    {"## Checks": "checks", "## Who?": "finding", **END},
    {"## Who?": "finding", "## Checks": "checks", "## Reading the result": "finding"},
])  # fmt: skip
def test_a_notebook_ends_with_what_it_showed(faults_of_sections, sections):
    assert ENDS in faults_of_sections(sections)


def test_each_question_has_a_section(faults_of_sections):
    lines = faults_of_sections(SECTIONS, "1. Who?\n2. When?")
    assert "the first cell lists 2 questions ('1. …?') for 1 sections; one each" in lines


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"cells": 3}'])
def test_a_file_that_is_no_notebook(tmp_path, content):
    path = tmp_path / "01_broken.ipynb"
    path.write_text(content)
    refused("no notebook", rules, path)


@pytest.mark.parametrize("path", sorted(paths.notebooks().glob("*.ipynb")), ids=lambda path: path.stem)
def test_committed_notebooks_keep_the_rules_and_say_what_they_showed(path):
    assert rules(path) == []
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    headings = re.findall("^## .*", text, re.MULTILINE)
    assert headings[-2:] == list(END)


def test_the_readme_s_findings_are_the_sentences_that_notebook_05_shows():
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    quoted = readme.partition("<!-- findings -->")[2].partition("<!-- /findings -->")[0].strip().splitlines()
    shown = ""
    for code in books.code_cells(nbformat.read(paths.notebooks() / "05_analyze.ipynb", as_version=4)):
        for output in code.outputs:
            shown += output.get("text", "")
    assert len(quoted) == 4
    assert [line for line in quoted if line.removeprefix("- ") not in shown] == []


@pytest.mark.parametrize("name", ["05_analyze", "06_stats"])
def test_the_run_that_a_notebook_makes_is_that_of_the_thesis_command(name):
    size = thesis_commands.Demo().n_sessions
    cells = [cell.source for cell in nbformat.read(paths.notebooks() / f"{name}.ipynb", as_version=4).cells]
    assert f"SimulateConfig(run=run, n_sessions={size}, workers=2)" in "\n".join(cells)
    assert read_parameters(cells[1], name)["run"].default == "demo"
