"""Made-up metas and reviews in the exact schema of Amazon-Reviews-2023: clean at any size, and dirty rows.
Every dirty row says what the two sets of rules make of it, so the expectation stands beside the input.
"""

import gzip
import json
from typing import Any, NamedTuple

import numpy as np

from crs_lib.core.rng import stream

KEPT = "kept"
_NOUNS = "tent lamp kettle stove bottle blanket chair table clock mug pan knife rug shelf basket mirror".split()  # fmt: skip
_KINDS = "light sturdy small large red blue folding steel wooden quiet bright warm classic compact".split()
_OPEN = ("I bought this for my kitchen", "We use it every day", "This was a gift for my brother", "It arrived on time")  # fmt: skip
_MIDDLE = ("and it works as described", "but the handle is a little loose", "and the colour is nice", "and I would buy it again")  # fmt: skip
_END = ("The price was fair.", "It is easy to clean.", "It feels solid in the hand.", "Not bad for what it is.")  # fmt: skip


def asin(number):
    digits = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    out = ""
    for _ in range(8):
        number, rest = divmod(number * 7 + 3, len(digits))
        out += digits[rest]
    return "BX" + out


def meta(number, **changes):
    """A valid product record; ``changes`` replace fields, and the value ``...`` removes one."""
    noun, kind = _NOUNS[number % len(_NOUNS)], _KINDS[number % len(_KINDS)]
    record = {
        "main_category": "Home", "title": f"The {kind} {noun} number {number}", "average_rating": 4.5,
        "rating_number": 3 + number % 40,
        "features": [f"A {kind} design for the home", "Easy to clean and to store"],
        "description": [f"This {noun} is made for people who like {kind} things."],
        "price": 9.99 + number % 90,
        "images": [{"thumb": "t.jpg", "large": "l.jpg", "hi_res": None, "variant": "MAIN"}], "videos": [],
        "store": f"Store {number % 7}", "categories": ["Home", noun.title()],
        "details": {"Material": "Steel", "Best Sellers Rank": {"Home": number}},
        "parent_asin": asin(number), "bought_together": None,
    }  # fmt: skip
    return {name: value for name, value in {**record, **changes}.items() if value is not ...}


def review(number, product, **changes):
    """A valid review record; ``changes`` as in :func:`meta`."""
    text = f"{_OPEN[number % 4]}, {_MIDDLE[number // 4 % 4]}. {_END[number // 16 % 4]}"
    record = {
        "rating": float(1 + number * 7 % 5), "title": f"Review number {number} of this",
        "text": text * (1 + number % 5), "images": [], "asin": product, "parent_asin": product,
        "user_id": f"A{number % 100003:027d}", "timestamp": 1_500_000_000_000 + number * 997 % 10**10,
        "helpful_vote": number % 13, "verified_purchase": number % 3 > 0,
    }  # fmt: skip
    return {name: value for name, value in {**record, **changes}.items() if value is not ...}


class Dirty(NamedTuple):
    """A dirty row: what it is about, its line, and the outcome under our rules and the original's."""

    about: str
    line: bytes
    ours: str
    legacy: str


def _line(record, about, ours, legacy=None):
    return Dirty(about, json.dumps(record).encode(), ours, legacy or ours)


def dirty_metas():
    """One row for each way in which a product record can be odd; the original's outcome is given where it differs."""
    cases: list[tuple[Any, ...]] = [
        ("valid", {}, KEPT), ("extra key", {"subtitle": "x"}, KEPT),
        ("price a whole number", {"price": 20}, KEPT, "price"), ("price a text", {"price": "19.99"}, KEPT),
        ("price with dollar sign and comma", {"price": "$1,299.00"}, KEPT, "price"),
        ("price a range", {"price": "from 5"}, "price"), ("price a dash", {"price": "—"}, "price"),
        ("price the word None", {"price": "None"}, "price"), ("price null", {"price": None}, "price"),
        ("price 0", {"price": 0.0}, "price"), ("price the text nan", {"price": "nan"}, "price"),
        ("price the text inf", {"price": "inf"}, "price"), ("price true", {"price": True}, "price"),
        ("no description, no features", {"description": [], "features": []}, "description"),
        ("description only ['']", {"description": [""], "features": []}, "too short"),
        ("description a text", {"description": "a text of some length"}, "description"),
        ("9 characters", {"description": ["12345678"], "features": []}, "too short"),
        ("10 characters", {"description": ["A fine mug"], "features": []}, KEPT),
        ("10 characters before cleaning", {"description": ["Mug<br />x"], "features": []}, "too short", KEPT),
        ("title Chinese", {"title": "折叠帐篷双人防水"}, "language"),
        ("title half Cyrillic", {"title": "Палатка tent abc"}, KEPT),
        ("title accented Latin", {"title": "Café crème mug"}, KEPT),
        ("text Spanish", {"description": ["Una mesa para el salón, muy bonita y con las patas de madera"], "features": []}, "language", KEPT),
        ("details empty", {"details": {}}, "details"),
        ("details as JSON text", {"details": '{"Material": "Steel"}'}, KEPT, "details"),
        ("details broken text", {"details": "{Material"}, "details"),
        ("categories empty", {"categories": []}, "categories"),
        ("categories ['']", {"categories": [""]}, "categories"), ("store null", {"store": None}, "store"),
        ("store empty", {"store": ""}, "store"),
        ("average a whole number", {"average_rating": 5}, KEPT, "ratings"),
        ("average negative", {"average_rating": -1.0}, "ratings"),
        ("no ratings", {"rating_number": 0}, "ratings"),
        ("ratings a fraction", {"rating_number": 3.5}, "ratings"), ("title missing", {"title": ...}, "title"),
        ("title only blanks", {"title": "   "}, "title", KEPT), ("asin missing", {"parent_asin": ...}, "asin"),
        ("asin empty", {"parent_asin": ""}, "asin"), ("asin with a tab", {"parent_asin": "BX\t1"}, "asin"),
        ("asin in lower case", {"parent_asin": "bxlower001"}, KEPT),
        ("asin an ISBN", {"parent_asin": "0306406152"}, KEPT),
        ("markup", {"title": "Mug<br>and<br/>pan<br />set &amp; more"}, KEPT),
        ("odd spaces", {"title": "Mug\u00a0with\u200b lid\n now"}, KEPT),
        ("emoji", {"title": "Mug \U0001f600 for tea"}, KEPT),
        ("lone surrogate", {"title": "Mug \ud83d for tea"}, KEPT),
    ]  # fmt: skip
    rows = [_line(meta(9000 + i, **row), about, *found) for i, (about, row, *found) in enumerate(cases)]
    return rows + [
        Dirty("not JSON", b'{"parent_asin": "BX", ', "unreadable", "unreadable"),
        Dirty("not an object", b'["BX"]', "unreadable", "unreadable"),
        Dirty("not UTF-8", b'{"parent_asin": "\xff\xfe"}', "unreadable", "unreadable"),
        Dirty("price NaN", json.dumps(meta(9500, price=float("nan"))).encode(), "price", "price"),
        Dirty("blank line", b"   ", "", ""),
    ]


def dirty_reviews(product):
    """One row for each way in which a review of a kept product can be odd."""
    cases: list[tuple[Any, ...]] = [
        ("valid", {}, KEPT), ("unknown product", {"parent_asin": "BXUNKNOWN1"}, "not in catalogue"),
        ("asin a number", {"parent_asin": 12}, "asin"),
        ("asin differs from parent", {"asin": "BXCHILD001"}, KEPT),
        ("rating a whole number", {"rating": 5}, KEPT, "rating"), ("rating 0", {"rating": 0.0}, "rating"),
        ("rating 6", {"rating": 6.0}, "rating"), ("rating 4.5", {"rating": 4.5}, KEPT),
        ("rating null", {"rating": None}, "rating"), ("user missing", {"user_id": ...}, "user"),
        ("timestamp negative", {"timestamp": -1}, "timestamp"),
        ("timestamp a text", {"timestamp": "2020"}, "timestamp"),
        ("older field names", {"timestamp": ..., "sort_timestamp": 5, "helpful_vote": ..., "helpful_votes": 2}, KEPT, "timestamp"),
        ("title empty", {"title": ""}, "title"), ("text empty", {"text": ""}, "text"),
        ("text of 9 characters", {"text": "123456789"}, "too short"),
        ("text of 10 characters", {"text": "It is good"}, KEPT),
        ("text Spanish", {"text": "Es muy bonita pero la calidad no es lo que esperaba"}, "language", KEPT),
        ("text Cyrillic", {"text": "Очень хорошая палатка"}, "language"),
        ("helpful -1", {"helpful_vote": -1}, "helpful"),
        ("verified a text", {"verified_purchase": "yes"}, "verified"),
    ]  # fmt: skip
    numbered = enumerate(cases, 70_000)
    rows = [_line(review(n, product, **row), about, *found) for n, (about, row, *found) in numbered]
    return rows + [Dirty("cut off", b'{"rating": 5.0, "title": "go', "unreadable", "unreadable")]


def write_category(folder, name, products, reviews, *, seed=0, first=0, packed=False):
    """Write clean ``meta_<name>.jsonl`` and ``<name>.jsonl`` (packed: .gz); returns the two paths. Reviews go
    to products as a Zipf law has it, as in real catalogues. Half of the reviews are of products that the
    metas lack: of real items only a quarter passes the filters.
    """
    rng = stream(seed, "cosrec", "catalogue fixture", name)
    known = [asin(first + i) for i in range(products)]
    ends = ".jsonl.gz" if packed else ".jsonl"
    paths = folder / f"meta_{name}{ends}", folder / f"{name}{ends}"
    folder.mkdir(parents=True, exist_ok=True)

    def review_rows():
        for start in range(0, reviews, 10_000):
            size = min(10_000, reviews - start)
            places = (np.minimum(rng.zipf(1.3, size) - 1, 10**9) * 7919 % max(1, products)).tolist()
            lacking = (rng.random(size) < 0.5).tolist()
            for number, (place, absent) in enumerate(zip(places, lacking, strict=True), start):
                yield review(number, asin(10**7 + place) if absent else known[place])

    for path, rows in zip(paths, ((meta(first + i) for i in range(products)), review_rows()), strict=True):
        with path.open("wb") as file, gzip.GzipFile("", "wb", 1, file, mtime=0) if packed else file as out:
            out.writelines(json.dumps(row).encode() + b"\n" for row in rows)
    return paths
