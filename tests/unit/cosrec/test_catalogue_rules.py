"""Every dirty row yields its stated reason; cleaning and prices by hand; lines read as json reads them."""

import math
from typing import Any

import pytest

from crs_lib.cosrec.catalogue_rules import Options, _legacy_clean, _price_of, clean, encoders, product, review
from crs_lib.cosrec.catalogue_tables import FIELDS, _decoder
from tests.helpers import amazon_fixture as fixture

PRODUCT = fixture.asin(1)


def outcome(line: bytes, kind: str, legacy: bool) -> str:
    """What becomes of one line: kept, a reason, unreadable, or nothing."""
    rules, (pack, encode) = Options(legacy=legacy), encoders()
    try:
        row = _decoder(FIELDS[kind])(line)
    except ValueError:
        return "unreadable" if line.strip() else ""
    if kind == "metas":
        found: Any = product(row, rules, pack)
        return found if isinstance(found, str) else "kept"
    if not isinstance(row.parent_asin, str):
        return "asin"
    if row.parent_asin != PRODUCT:
        return "not in catalogue"
    found = review(row, rules, encode, b"\\" not in line)
    assert found == review(row, rules, encode), "the short cut changes the result"
    return found[0] if isinstance(found[0], str) else "kept"


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_metas(), ids=lambda row: row.about)
def test_dirty_products(row: fixture.Dirty, legacy: bool) -> None:
    assert outcome(row.line, "metas", legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_reviews(PRODUCT), ids=lambda row: row.about)
def test_dirty_reviews(row: fixture.Dirty, legacy: bool) -> None:
    assert outcome(row.line, "reviews", legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize(("text", "ours", "legacy"), [
    ("Mug<br>and<br/>pan<br />set", "Mug and pan set", "Mug<br>and<br/>panset"),
    ("salt &amp; pepper", "salt & pepper", "salt &amp; pepper"), (" a\u00a0b\t\n c ", "a b c", "a b c"),
    ("ze\u200bro\ufeff width", "zero width", "ze\u200bro\ufeff width"),
    ("5 < 6 and 7 > 6", "5 < 6 and 7 > 6", "5 < 6 and 7 > 6"),
    ("half \ud83d pair", "half \ufffd pair", "half \ufffd pair"),
    ("<p class='x'>text</p>", "text", "<p class='x'>text</p>"),
    ("\U0001f600 ok", "\U0001f600 ok", "\U0001f600 ok"), ("", "", ""),
])  # fmt: skip
def test_cleaning(text: str, ours: str, legacy: str) -> None:
    assert clean(text) == ours
    assert clean(clean(text)) == ours
    assert _legacy_clean(text) == legacy


@pytest.mark.parametrize(("value", "ours", "legacy"), [
    (19.99, 19.99, 19.99), (20, 20.0, None), ("$1,299.00", 1299.0, None), (" 5 ", 5.0, 5.0),
    ("from 5", None, None), (-1.0, None, None), (True, None, None), (float("inf"), None, None),
    (None, None, None),
])  # fmt: skip
def test_prices(value: object, ours: float | None, legacy: float | None) -> None:
    assert _price_of(value, legacy=False) == ours
    assert _price_of(value, legacy=True) == legacy


def test_lines_are_accepted_as_json_accepts_them() -> None:
    read = _decoder(("parent_asin", "price"))
    assert math.isnan(read(b'{"parent_asin": "\\ud83d", "price": NaN, "other": [1]}').price)
    assert read(b'{"price": 1e400}').price == math.inf and read(b"{}").parent_asin is None
    for line in (b"[1]", b'{"price": ', b'{"parent_asin": "\xff"}', b""):
        with pytest.raises(ValueError):
            read(line)
    body = encoders()[1]("ü\x1f\x7f", 5, True, "t", "x", 4, 2)
    assert body.startswith('{"user":"ü\\u001f\x7f",'.encode())
