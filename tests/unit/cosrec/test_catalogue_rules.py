"""Every dirty row yields its stated reason; cleaning and prices by hand; with and without msgspec."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from crs_lib.cosrec.catalogue_files import Watched, decoder, read_records
from crs_lib.cosrec.catalogue_rules import (
    Rules,
    clean,
    encoders,
    legacy_clean,
    price_of,
    product,
    review,
)
from crs_lib.cosrec.catalogue_tables import META_FIELDS, REVIEW_FIELDS
from tests.helpers import amazon_fixture as fixture

PRODUCT = fixture.asin(1)


def outcome(line: bytes, fields: tuple[str, ...], tmp_path: Path, legacy: bool) -> str:
    """What becomes of one line: kept, a reason, unreadable, or nothing."""
    path = tmp_path / "one.jsonl"
    path.write_bytes(line + b"\n")
    bad: list[str] = []
    rules, encode = Rules(legacy), encoders()
    for raw, row in read_records(path, decoder(fields), Watched(path), lambda *found: bad.append(found[1])):
        if "description" in fields:
            found: Any = product(row, rules, encode)
            return found if isinstance(found, str) else "kept"
        if not isinstance(row.parent_asin, str):
            return "asin"
        if row.parent_asin != PRODUCT:
            return "not in catalogue"
        found = review(row, rules, encode, b"\\" not in raw)
        assert found == review(row, rules, encode), "the short cut changes the result"
        return found[0] if isinstance(found[0], str) else "kept"
    return "unreadable" if bad else ""


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_metas(), ids=lambda row: row.about)
def test_dirty_products(row: fixture.Dirty, legacy: bool, tmp_path: Path) -> None:
    assert outcome(row.line, META_FIELDS, tmp_path, legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize("legacy", [False, True], ids=["ours", "legacy"])
@pytest.mark.parametrize("row", fixture.dirty_reviews(PRODUCT), ids=lambda row: row.about)
def test_dirty_reviews(row: fixture.Dirty, legacy: bool, tmp_path: Path) -> None:
    assert outcome(row.line, REVIEW_FIELDS, tmp_path, legacy) == (row.legacy if legacy else row.ours)


@pytest.mark.parametrize(
    ("text", "ours", "legacy"),
    [
        ("Mug<br>and<br/>pan<br />set", "Mug and pan set", "Mug<br>and<br/>panset"),
        ("salt &amp; pepper", "salt & pepper", "salt &amp; pepper"),
        (" a\u00a0b\t\n c ", "a b c", "a b c"),
        ("ze\u200bro\ufeff width", "zero width", "ze\u200bro\ufeff width"),
        ("5 < 6 and 7 > 6", "5 < 6 and 7 > 6", "5 < 6 and 7 > 6"),
        ("half \ud83d pair", "half \ufffd pair", "half \ufffd pair"),
        ("<p class='x'>text</p>", "text", "<p class='x'>text</p>"),
        ("\U0001f600 ok", "\U0001f600 ok", "\U0001f600 ok"),
        ("", "", ""),
    ],
)
def test_cleaning(text: str, ours: str, legacy: str) -> None:
    assert clean(text) == ours
    assert clean(clean(text)) == ours
    assert legacy_clean(text) == legacy


@pytest.mark.parametrize(
    ("value", "ours", "legacy"),
    [
        (19.99, 19.99, 19.99),
        (20, 20.0, None),
        ("$1,299.00", 1299.0, None),
        (" 5 ", 5.0, 5.0),
        ("from 5", None, None),
        (-1.0, None, None),
        (True, None, None),
        (float("inf"), None, None),
        (None, None, None),
    ],
)
def test_prices(value: object, ours: float | None, legacy: float | None) -> None:
    assert price_of(value, legacy=False) == ours
    assert price_of(value, legacy=True) == legacy


def test_msgspec_changes_speed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("msgspec")
    lines = [row.line for row in fixture.dirty_metas()]
    lines += [json.dumps(fixture.meta(7, title="Ünï “code” \u007f \x01 /\\ \ud800")).encode()]
    path = tmp_path / "metas.jsonl"
    path.write_bytes(b"\n".join(lines))

    def everything() -> list[Any]:
        bad: list[Any] = []
        encode = encoders()
        rows = read_records(path, decoder(META_FIELDS), Watched(path), lambda *found: bad.append(found))
        kept = [product(row, Rules(), encode) for _, row in rows]
        one = encode.review("ü\x1f\x7f", 5, True, "t", "x", 4, 2)
        return [kept, bad, one]

    fast = everything()
    real = builtins.__import__
    monkeypatch.delitem(sys.modules, "msgspec")
    monkeypatch.setattr(
        builtins,
        "__import__",
        lambda n, *a, **k: (_ for _ in ()).throw(ImportError(n)) if n == "msgspec" else real(n, *a, **k),
    )
    assert everything() == fast
