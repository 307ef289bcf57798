"""Titles that a reply advises against are no recommendations; unusual titles are found whatever their case."""

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder

FILMS = ("Paper Kites", "Iron Valley", "Zenithar", "Heat", "Her")
NAMED = Grounder(Catalog.from_records([(title, {}) for title in FILMS], "five titles"))


@pytest.mark.parametrize(
    ("text", "recommended"),
    [
        ("I would not recommend Paper Kites; avoid it. Try Iron Valley.", ["Iron Valley"]),
        ("Avoid Paper Kites and Iron Valley.", []),
        ("Watch Iron Valley instead of Paper Kites.", ["Iron Valley"]),
        ("Instead of Paper Kites, watch Iron Valley.", ["Iron Valley"]),
        ("Rather than Iron Valley I would go with Paper Kites.", ["Paper Kites"]),
        ("Paper Kites isn't for you, but Iron Valley is.", ["Iron Valley"]),
        ("Skip Paper Kites, try Iron Valley.", ["Iron Valley"]),
        ("Not Paper Kites, I suggest Iron Valley.", ["Iron Valley"]),
        ("I don't think Paper Kites fits.", []),
        ("Don't miss Paper Kites!", ["Paper Kites"]),
        ("You can't go wrong with Paper Kites.", ["Paper Kites"]),
        ("Why not Paper Kites?", ["Paper Kites"]),
        ("Paper Kites, which isn't violent, fits.", ["Paper Kites"]),
        ("There is no blood in Paper Kites.", ["Paper Kites"]),
        ("You wanted no horror, so Paper Kites it is.", ["Paper Kites"]),
        ("Try zenithar tonight, or ZENITHAR again.", ["Zenithar"]),
        ("You could watch heat.", ["Heat"]),
        ("I like the heat, and I would watch her.", []),
    ],
)
def test_what_a_reply_recommends(text, recommended):
    assert [NAMED.catalog.items[item].title for item in NAMED.recommended(text)] == recommended
