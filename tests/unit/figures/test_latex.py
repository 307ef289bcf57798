"""LaTeX cells and tables, against tables written out by hand."""

import numpy as np
import pandas as pd
import pytest

from crs_lib.figures import NoDataError, latex

LITERAL = {
    "slot_echo": r"slot\_echo", "50 % & {a}": r"50 \% \& \{a\}", "L ↓": r"L $\downarrow$",
    "a\\b": r"a\textbackslash{}b",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LITERAL.items())
def test_text_is_printed_literally(text, expected):
    assert latex._escape(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.704, "0.70"), (-0.5, "$-0.50$"), (-0.001, "0.00"), (np.nan, "--"), (0, "0.00")]
)
def test_numbers(value, expected):
    assert latex._number(value) == expected


@pytest.mark.parametrize(
    ("p", "expected"), [(0.0004, "$<$.001"), (0.03, ".030"), (1.0, "1.000"), (np.nan, "--"), (0.001, ".001")]
)
def test_p_values(p, expected):
    assert latex._p_value(p) == expected


def test_an_interval_is_printed_only_where_there_is_one():
    assert latex._within(0.5, 0.4, 0.6) == "0.50 [0.40, 0.60]"
    assert latex._within(0.5, np.nan, np.nan) == "0.50"
    assert latex._within(np.nan, np.nan, np.nan) == "--"


def shifts(**delays):
    rows = [
        {"model": m, "session_id": k, "watched": 3, "delay_item": d, "recovered_item": d < 2}
        for m, values in delays.items()
        for k, d in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_recovery_table_by_hand():
    """b: recovered at 0 and 1, two never in replies 0–2. Followed to 2: waits 0 + 1 + 2 + 2 over 4 = 1.25."""
    text = latex.table_recovery(shifts(a_=[0.0] * 4, b=[0.0, 1.0, np.nan, np.nan]))
    head, first, second = (line for line in text.splitlines() if line.endswith(r"\\"))
    assert "of 2 replies" in head
    assert first.startswith(r"a\_ & 4 & 1.00 [0.51, 1.00] & 0.00 & 0.00")
    assert second.startswith(r"b & 4 & 0.50 [0.15, 0.85] & 0.50 & 1.25 [")


def test_systems_that_all_recover_at_once_have_no_horizon():
    text = latex.table_recovery(shifts(a=[0.0, 0.0], b=[0.0, 0.0]))
    assert text.count(r"& -- \\") == 2


def scored(n):
    """Two systems in ``n`` scenarios; a is 0.1 above b in each."""
    rows = [(m, k, v + k / 10) for k in range(n) for m, v in (("b", 0.1), ("a", 0.2))]
    return pd.DataFrame(rows, columns=["model", "session_id", "item_tas"])


def test_the_pairwise_table_by_hand():
    """a − b is 0.1 in each of six scenarios: r = 1, and the exact Wilcoxon p is 2 / 2⁶ = .031."""
    text = latex.table_pairwise(scored(6))
    line = next(line for line in text.splitlines() if "$-$" in line)
    assert line.startswith(r"b $-$ a & $-0.10$ [$-0.10$, $-0.10$] & $-1.00$ & ")
    assert line.endswith(r" & 6 \\")


def test_a_pair_that_shares_no_scenario_does_not_take_the_others_away():
    alone = pd.DataFrame([{"model": "c", "session_id": 9, "item_tas": 0.5}])
    both = scored(4)
    text = latex.table_pairwise(pd.concat([both, alone]))
    assert [line.partition(" &")[0] for line in text.splitlines() if "$-$" in line] == ["b $-$ a"]
    with pytest.raises(NoDataError, match="same 2 scenarios"):
        latex.table_pairwise(pd.concat([both.iloc[::2], alone]))
