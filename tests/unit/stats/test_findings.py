"""A finding follows its data: other numbers, another sentence; no data, a reason."""

import math
import re

import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats import Estimate
from crs_lib.stats.findings import share_of


def paired(gap, noise):
    """Two systems in ten scenarios of very different height; ``a`` is ahead by ``gap``, give or take."""
    rows = [(name, n, n / 10 + (name == "a") * (gap + noise * (-1) ** n)) for n in range(10) for name in "ab"]
    return pd.DataFrame(rows, columns=["system", "scenario", "value"])


def test_the_sentence_changes_with_the_data_and_respects_the_pairing():
    """Scenarios differ by 0.9, the pairs by 0.02: only a paired interval can be this narrow."""
    template = "a is {verdict} b by {gap}{doubt}."
    for gap, noise, told in (
        (0.3, 0.01, "a is higher than b by 0.30 [0.29, 0.31]."),
        (-0.3, 0.01, "a is lower than b by 0.30 [0.29, 0.31]."),
        (0.0, 0.01, "a is equivalent to b by 0.00 [−0.01, 0.01], an interval that includes 0."),
        (0.0, 0.5, "a is not shown to differ from b by 0.00 [−0.30, 0.30], an interval that includes 0."),
    ):
        assert stats.finding_gap(paired(gap, noise), "value", "a", "b", template, smallest=0.05) == told


def test_shares_where_all_agree_keep_an_interval():
    frame = pd.DataFrame({"scenario": range(8), "hit": [True] * 8})
    assert share_of(frame, "hit").percent == "100 % [68, 100]"  # 8 / (8 + 1.96²)
    assert share_of(frame.assign(hit=False), "hit").percent == "0 % [0, 32]"
    assert math.isnan(share_of(frame.assign(hit=None), "hit").value)


def test_numbers_are_printed_in_one_form():
    assert str(Estimate(-0.004, -0.2, 0.2, 5)) == "0.00 [−0.20, 0.20]"
    assert Estimate(0.412, 0.35, 0.47, 5).percent == "41 % [35, 47]"
    assert Estimate(0.5, math.nan, math.nan, 1).percent == "50 % (no interval)"
    assert stats.listed(["a"]) == "a" and stats.listed(["a", "b", "c"]) == "a, b and c"


def test_how_a_notebook_ends():
    first, none = stats.Finding("a leads."), stats.finding_none("one session")
    assert repr(stats.learnt(first, none)) == "a leads."
    assert "no finding" in stats.learnt(none)[0]
    assert stats.not_shown("x.", "") == ("x.",)
    assert first._repr_markdown_() == "**Finding.** a leads." and none._repr_markdown_().startswith("*No")
    with pytest.raises(InputError, match="at most 3"):
        stats.learnt(*[first] * 4)
    with pytest.raises(InputError, match="full stop"):
        stats.finding_count("{n} lead", n=3)


THREE = pd.DataFrame(
    [(name, i, level + 0.01 * (-1) ** (i + k), i % 4 > 0) for k, (name, level) in enumerate(
        {"oracle": 1.0, "tracker": 0.999, "echo": 0.1}.items()
    ) for i in range(10)],
    columns=["system", "scenario", "value", "hit"],
)  # fmt: skip
RHO = pd.DataFrame({"model": ["m"], "rho": [0.3], "low": [0.1], "high": [0.5], "n": [8]})


@pytest.mark.parametrize(("sentence", "start"), [
    (lambda: stats.finding_mean(THREE, "value", "A mean of {mean} in {n:scenario}."), "A mean of 0.700 [0.698, 0.702] in 10 scenarios."),
    (lambda: stats.finding_mean(THREE, ["value", "hit"], "{value}, {hit:%}, {rows}, {x}.", x=2.5), "0.700 [0.698, 0.702], 70 % [30, 90], 30, 2.50."),
    (lambda: stats.finding_share(THREE, "hit", "{share} of {rows:query/queries}."), "70 % [30, 90] of 30 queries."),
    (lambda: stats.finding_gap(THREE, "value", "echo", "oracle", "{a} is {verdict} {b}: {gap}{doubt}."),
     "echo is lower than oracle: 0.90 [0.90, 0.90]."),
    (lambda: stats.finding_gap(THREE, "value", "oracle", "tracker", "{a} {verdict} {b}{doubt}.", smallest=0.05),
     "oracle equivalent to tracker, an interval that includes 0."),
    (lambda: stats.finding_rank(THREE, "value", "{second} {behind}; {last} {bottom}, {n}."),
     "tracker is not shown to be behind: 0.00 [−0.02, 0.02] (interval for all 3 pairs at once); echo"),
    (lambda: stats.finding_rank(THREE, "value", "{first} {second} {last} of {systems:system}.", lower=True),
     "echo tracker oracle of 3 systems."),
    (lambda: stats.finding_count("{some} of {n:metric} by {who}.", some=2, n=1200, who=["x", "y"]), "2 of 1,200 me"),
    (lambda: stats.finding_count("{model}: {rho} of {n}.", RHO, estimate="rho"), "m: 0.30 [0.10, 0.50] of 8."),
    (lambda: stats.finding_limit(THREE, "value", "With {n:scenario}, {half} are not resolved.", system="system"),
     "With 10 scenarios, 0.01 are not resolved."),
])  # fmt: skip
def test_a_sentence_is_filled_from_its_table(sentence, start):
    assert sentence().startswith(start)
    assert sentence().borne


@pytest.mark.parametrize(("sentence", "reason"), [
    (lambda: stats.finding_none("one example"), "one example"),
    (lambda: stats.finding_mean(THREE.head(0), "value", "{mean}."), "the table has no rows"),
    (lambda: stats.finding_mean(THREE.assign(value=None), "value", "{mean}."), "no row has a value of value"),
    (lambda: stats.finding_mean(THREE.drop(columns="value"), "value", "{mean}."), "the table has no value"),
    (lambda: stats.finding_share(THREE.assign(scenario=0), "hit", "{share}."), "one scenario leaves no interval"),
    (lambda: stats.finding_mean(THREE.head(1), "hit", "{mean}.", none="one chat"), "one chat"),
    (lambda: stats.finding_gap(THREE, "value", "echo", "echo", "{gap}."), "echo has nothing to be compared with"),
    (lambda: stats.finding_gap(THREE, "value", "echo", "sun", "{gap}."), "sun has no value"),
    (lambda: stats.finding_gap(THREE[THREE["scenario"] == 1], "value", "echo", "oracle", "{gap}."),
     "echo and oracle share 1 scenario, too few for an interval"),
    (lambda: stats.finding_rank(THREE.head(10), "value", "{first}."), "an order needs two systems with value, and 1"),
    (lambda: stats.finding_rank(THREE, "hit", "{first}."), "all 3 systems have the same hit, 0.70"),
    (lambda: stats.finding_count("{some}.", some=math.nan), "some is not known"),
    (lambda: stats.finding_count("{some} {of}.", some=0, of=0), "there is nothing to count"),
    (lambda: stats.finding_count("{some}.", THREE.head(0)), "the table has no rows"),
])  # fmt: skip
def test_a_table_that_bears_no_sentence_says_why(sentence, reason):
    assert sentence().startswith(f"No finding: {reason}")
    assert not sentence().borne


def test_a_limit_without_an_interval_is_empty_and_an_unknown_word_is_refused():
    assert stats.not_shown(stats.finding_limit(THREE.head(1), "value", "{half}.")) == ()
    with pytest.raises(InputError, match="asks for men; give it by keyword"):
        stats.finding_mean(THREE, "value", "{men}.")


def test_a_name_from_outside_stays_text_in_a_notebook():
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    hostile = (
        "<script>alert(1)</script>", "<img src=x onerror=y>", "![x](http://h/x.png)", "[x](javascript:y)",
        "a\n\n[r]: http://h\n\n![r][r]", "<!-- -->", "<svg/onload=x>", "</p><iframe src=//h>", "<http://h>",
    )  # fmt: skip
    for name in hostile:
        for shown in (
            stats.finding_count("{system} leads.", system=name),
            stats.Sentences([f"{name} leads."]),
        ):
            # a bare address may become a link, which loads nothing by itself
            page = markdown2html_mistune(shown._repr_markdown_())
            assert not re.search(r'<(script|img|svg|iframe|!--)|href="(?!http)', page), (name, page)
    kept = stats.finding_count("A is at 0.12 [0.08, 0.16], p < 0.001, n <3.")
    assert kept._repr_markdown_() == "**Finding.** A is at 0.12 [0.08, 0.16], p < 0.001, n <3."
