"""Parameters are read as Python and checked; tables are shown as what their columns hold."""

import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.notebooks.look import _to_html, heading
from crs_lib.notebooks.runner import _Parameter, check_parameters, help_text, read_parameters

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


def by_name(cell=CELL):
    return {parameter.name: parameter for parameter in read_parameters(cell, "03_simulate")}


def test_reads_name_type_default_and_help_of_every_line():
    found = by_name()
    assert list(found) == ["run", "seed", "rate", "quick", "systems", "note", "limits"]
    assert found["systems"] == _Parameter("systems", "list[str]", ["tracker", "echo"], "systems, in order")
    assert found["note"].default == "a # b = c"
    assert found["seed"].help == "seed of every random choice"
    assert (found["limits"].kind, found["limits"].inner) == ("dict", "int")


@pytest.mark.parametrize(("line", "part"), [
    ("seed = 7", "seed = 7"),
    ("seed: int = 3 + 4  # sum", "3 + 4"),
    ("seed: int = len('a')  # call", "no literal"),
    ("import os", "import os"),
    ("seed: Path = 'x'  # type", "'Path'"),
    ("seed: int = 'seven'  # default of another type", "'seven'"),
    ("seed: int", "seed: int"),
    ("seed: int = = 2", "not Python"),
])  # fmt: skip
def test_another_kind_of_line_is_named(line, part):
    with pytest.raises(InputError, match="03_simulate") as caught:
        read_parameters(line, "03_simulate")
    assert part in str(caught.value)


@pytest.mark.parametrize(("name", "text", "value"), [
    ("run", "007", "007"),  # a text stays a text, whatever it looks like
    ("run", "true", "true"),
    ("seed", "12", 12),
    ("rate", "1e-3", 0.001),
    ("rate", "2", 2.0),
    ("quick", "False", False),
    ("systems", "tracker, noisy:0.3", ["tracker", "noisy:0.3"]),
    ("systems", '["a,b"]', ["a,b"]),
    ("systems", "", []),
    ("limits", '{"low": 3}', {"low": 3}),
])  # fmt: skip
def test_typed_text_becomes_the_declared_type(name, text, value):
    read_value = by_name()[name].from_text(text)
    assert read_value == value
    assert type(read_value) is type(value)


@pytest.mark.parametrize(("name", "text"), [
    ("seed", "ten"), ("seed", "1.5"), ("seed", "1e5"), ("seed", "1_000"), ("seed", "true"), ("seed", ""),
    ("rate", "NaN"), ("rate", "Infinity"), ("rate", "half"), ("quick", "1"), ("quick", "maybe"),
    ("systems", "[1, 2]"), ("systems", "[a, b]"), ("limits", "low"), ("limits", '{"low": "x"}'),
])  # fmt: skip
def test_mistyped_text_is_refused_with_what_was_expected(name, text):
    parameter = by_name()[name]
    with pytest.raises(InputError) as caught:
        parameter.from_text(text)
    assert repr(name) in str(caught.value)
    assert parameter.annotation in str(caught.value)


@pytest.mark.parametrize("value", [True, "3", 3.0, None, [3]])
def test_only_a_whole_number_is_a_whole_number(value):
    with pytest.raises(InputError, match="whole number"):
        by_name()["seed"].checked(value)


@pytest.mark.parametrize("value", [("a",), {"a"}, [{1, 2}], [object()]])
def test_only_what_json_holds_is_passed(value):
    loose = _Parameter("systems", "list", [], "")
    with pytest.raises(InputError, match="expected a list"):
        loose.checked(value)


@pytest.mark.parametrize("llm", [
    {"host": "http://me:s3cret@gpu1"}, {"host": "gpu1, me:s3cret@gpu2"}, {"host": "http://gpu1/?api_key=s3cret"},
    {"servers": ["https://s3cret@gpu1/v1"]},
])  # fmt: skip
def test_an_address_with_a_secret_is_refused_before_it_is_written(llm):
    loose = _Parameter("llm", "dict", {}, "")
    with pytest.raises(InputError, match="put a key in the environment") as caught:
        loose.checked(llm)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [{"host": "http://gpu1:1,gpu2"}, {"model": "replay:thesis@ollama:gemma:2b"}]
)
def test_an_address_without_a_secret_is_passed(value):
    assert _Parameter("llm", "dict", {}, "").checked(value) == value


def test_unknown_names_get_a_suggestion_and_help_has_a_line_a_parameter():
    with pytest.raises(InputError, match="unknown parameter 'sede'; did you mean 'seed'"):
        check_parameters(read_parameters(CELL, "03_simulate"), {"sede": 1}, "03_simulate")
    lines = help_text(read_parameters(CELL, "03_simulate"), "03_simulate").splitlines()
    assert len(lines) == 1 + 7
    assert lines[2].split() == ["seed", "(int)", *"seed of every random choice".split(), "[7]"]
    assert lines[5].endswith('systems, in order [["tracker", "echo"]]')


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(_json, max_size=4))
def test_every_json_list_passes_unchanged(value):
    assert _Parameter("x", "list", [], "").checked(value) == value


@given(st.text(max_size=30))
def test_a_literal_default_survives_being_written_in_a_cell(text):
    cell = f"note: str = {text!r}  # a text\nseed: int = 1  # next"
    found = by_name(cell)
    assert found["note"].default == text
    assert found["note"].help == "a text"


LONG = "Follows the user's logged state and shows the films of the largest part of it that any film meets."


def cells(frame):
    """Side and text of every cell, row by row, the heads first."""
    found = re.findall(r'<t[hd] style="text-align: (\w+);[^>]*>(.*?)</t[hd]>', _to_html(frame))
    width = len(re.findall("<th ", _to_html(frame)))
    return [found[start : start + width] for start in range(0, len(found), width)]


def test_text_stands_left_and_whole_numbers_right_on_their_point():
    frame = pd.DataFrame(
        {"system": ["a<b", LONG], "mean": [-0.0001, -0.25], "n": [12, 3], "p_holm": ["p < .001", ""]}
    )
    rows = cells(frame)
    assert rows[0] == [("left", "system"), ("right", "mean"), ("right", "n"), ("left", "p, Holm")]
    assert rows[1] == [("left", "a&lt;b"), ("right", "0.000"), ("right", "12"), ("left", "p &lt; .001")]
    assert rows[2][1] == ("right", "−0.250") and rows[2][0][1].startswith("Follows the user")
    assert rows[2][0][1].endswith("any film meets."), "a text is never cut off"


def test_missing_values_are_dashes_an_index_is_shown_where_it_says_something():
    rows = cells(pd.DataFrame({"statistic": [1.5, ""], "estimate": [None, 2.0], "holds": [True, False]}))
    assert [side for side, _ in rows[1]] == ["right", "right", "left"]
    assert rows[1][1][1] == "–" and rows[2][0][1] == ""
    named = pd.DataFrame({"turns": [1]}, index=pd.Index(["a"], name="system"))
    assert cells(named)[1] == [("left", "a"), ("right", "1")]
    assert "… and 40 rows more" in _to_html(pd.DataFrame({"x": range(100)}))
    assert heading("session_id") == "session id"
