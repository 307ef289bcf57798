"""LaTeX cells and tables, against tables written out by hand."""

import numpy as np
import pandas as pd
import pytest

from crs_lib.figures import NoDataError, latex


@pytest.mark.parametrize(("cell", "given", "text"), [
    (latex._escape, ["slot_echo"], r"slot\_echo"), (latex._escape, ["50 % & {a}"], r"50 \% \& \{a\}"),
    (latex._escape, ["L ↓"], r"L $\downarrow$"), (latex._escape, ["a\\b"], r"a\textbackslash{}b"),
    (latex._number, [0.704], "0.70"), (latex._number, [-0.5], "$-0.50$"), (latex._number, [-0.001], "0.00"),
    (latex._number, [np.nan], "--"), (latex._number, [0], "0.00"),
    (latex._p_value, [0.0004], "$<$.001"), (latex._p_value, [0.03], ".030"), (latex._p_value, [1.0], "1.000"),
    (latex._p_value, [np.nan], "--"), (latex._p_value, [0.001], ".001"),
    (latex._within, [0.5, 0.4, 0.6], "0.50 [0.40, 0.60]"), (latex._within, [0.5, np.nan, np.nan], "0.50"),
    (latex._within, [np.nan] * 3, "--"),
])  # fmt: skip
def test_cells_are_literal_text_and_rounded_numbers(cell, given, text):
    assert cell(*given) == text


def shifts(**delays):
    rows = [
        {"model": m, "session_id": k, "watched": 3, "delay_item": d, "recovered_item": d < 2}
        for m, values in delays.items()
        for k, d in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_the_recovery_table_by_hand():
    """b: recovered at 0 and 1, two never in replies 0–2. Followed to 2: waits 0 + 1 + 2 + 2 over 4 = 1.25."""
    text = latex._table_recovery(shifts(a_=[0.0] * 4, b=[0.0, 1.0, np.nan, np.nan]))
    head, first, second = (line for line in text.splitlines() if line.endswith(r"\\"))
    assert "of 2 replies" in head
    assert first.startswith(r"a\_ & 4 & 1.00 [0.51, 1.00] & 0.00 & 0.00")
    assert second.startswith(r"b & 4 & 0.50 [0.15, 0.85] & 0.50 & 1.25 [")
    text = latex._table_recovery(shifts(a=[0.0, 0.0], b=[0.0, 0.0]))
    assert text.count(r"& -- \\") == 2


def scored(n):
    """Two systems in ``n`` scenarios; a is 0.1 above b in each."""
    rows = [(m, k, v + k / 10) for k in range(n) for m, v in (("b", 0.1), ("a", 0.2))]
    return pd.DataFrame(rows, columns=["model", "session_id", "item_tas"])


def test_the_pairwise_table_by_hand():
    """a − b is 0.1 in each of six scenarios: r = 1, and the exact Wilcoxon p is 2 / 2⁶ = .031."""
    text = latex._table_pairwise(scored(6))
    line = next(line for line in text.splitlines() if "$-$" in line)
    assert line.startswith(r"b $-$ a & $-0.10$ [$-0.10$, $-0.10$] & $-1.00$ & ")
    assert line.endswith(r" & 6 \\")
    alone = pd.DataFrame([{"model": "c", "session_id": 9, "item_tas": 0.5}])
    both = scored(4)
    text = latex._table_pairwise(pd.concat([both, alone]))
    assert [line.partition(" &")[0] for line in text.splitlines() if "$-$" in line] == ["b $-$ a"]
    with pytest.raises(NoDataError, match="same 2 scenarios"):
        latex._table_pairwise(pd.concat([both.iloc[::2], alone]))
