"""Made-up metas and reviews in the exact schema of Amazon-Reviews-2023: clean at any size, and dirty rows.
Every dirty row says what the two sets of rules make of it, so the expectation stands beside the input.
"""

import gzip
import json
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

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


class _Cases(list[Dirty]):
    """Dirty rows, each made by a maker of clean ones with a number of its own."""

    def __init__(self, make, first):
        super().__init__()
        self.make = make
        self.first = first

    def add(self, about, ours, legacy="", **changes):
        """A row with some fields changed, and its outcome; the original's where it differs."""
        record = self.make(self.first + len(self), **changes)
        self.append(Dirty(about, json.dumps(record).encode(), ours, legacy or ours))


def dirty_metas():
    """One row for each way in which a product record can be odd."""
    cases = _Cases(meta, 9000)
    add = cases.add
    add("valid", KEPT)
    add("extra key", KEPT, subtitle="x")
    add("price a whole number", KEPT, "price", price=20)
    add("price a text", KEPT, price="19.99")
    add("price with dollar sign and comma", KEPT, "price", price="$1,299.00")
    add("price a range", "price", price="from 5")
    add("price a dash", "price", price="—")
    add("price the word None", "price", price="None")
    add("price null", "price", price=None)
    add("price 0", "price", price=0.0)
    add("price the text nan", "price", price="nan")
    add("price the text inf", "price", price="inf")
    add("price true", "price", price=True)
    add("no description, no features", "description", description=[], features=[])
    add("description only ['']", "too short", description=[""], features=[])
    add("description a text", "description", description="a text of some length")
    add("9 characters", "too short", description=["12345678"], features=[])
    add("10 characters", KEPT, description=["A fine mug"], features=[])
    add("10 characters before cleaning", "too short", KEPT, description=["Mug<br />x"], features=[])
    add("title Chinese", "language", title="折叠帐篷双人防水")
    add("title half Cyrillic", KEPT, title="Палатка tent abc")
    add("title accented Latin", KEPT, title="Café crème mug")
    add(
        "text Spanish",
        "language",
        KEPT,
        description=["Una mesa para el salón, muy bonita y con las patas de madera"],
        features=[],
    )
    add("details empty", "details", details={})
    add("details as JSON text", KEPT, "details", details='{"Material": "Steel"}')
    add("details broken text", "details", details="{Material")
    add("categories empty", "categories", categories=[])
    add("categories ['']", "categories", categories=[""])
    add("store null", "store", store=None)
    add("store empty", "store", store="")
    add("average a whole number", KEPT, "ratings", average_rating=5)
    add("average negative", "ratings", average_rating=-1.0)
    add("no ratings", "ratings", rating_number=0)
    add("ratings a fraction", "ratings", rating_number=3.5)
    add("title missing", "title", title=...)
    add("title only blanks", "title", KEPT, title="   ")
    add("asin missing", "asin", parent_asin=...)
    add("asin empty", "asin", parent_asin="")
    add("asin with a tab", "asin", parent_asin="BX\t1")
    add("asin in lower case", KEPT, parent_asin="bxlower001")
    add("asin an ISBN", KEPT, parent_asin="0306406152")
    add("markup", KEPT, title="Mug<br>and<br/>pan<br />set &amp; more")
    add("odd spaces", KEPT, title="Mug\u00a0with\u200b lid\n now")
    add("emoji", KEPT, title="Mug \U0001f600 for tea")
    add("lone surrogate", KEPT, title="Mug \ud83d for tea")
    not_a_number = json.dumps(meta(9500, price=float("nan"))).encode()
    cases += [
        Dirty("not JSON", b'{"parent_asin": "BX", ', "unreadable", "unreadable"),
        Dirty("not an object", b'["BX"]', "unreadable", "unreadable"),
        Dirty("not UTF-8", b'{"parent_asin": "\xff\xfe"}', "unreadable", "unreadable"),
        Dirty("price NaN", not_a_number, "price", "price"),
        Dirty("blank line", b"   ", "", ""),
    ]
    return cases


def dirty_reviews(product):
    """One row for each way in which a review of a kept product can be odd."""
    cases = _Cases(partial(_review_of, product), 70_000)
    add = cases.add
    add("valid", KEPT)
    add("unknown product", "not in catalogue", parent_asin="BXUNKNOWN1")
    add("asin a number", "asin", parent_asin=12)
    add("asin differs from parent", KEPT, asin="BXCHILD001")
    add("rating a whole number", KEPT, "rating", rating=5)
    add("rating 0", "rating", rating=0.0)
    add("rating 6", "rating", rating=6.0)
    add("rating 4.5", KEPT, rating=4.5)
    add("rating null", "rating", rating=None)
    add("user missing", "user", user_id=...)
    add("timestamp negative", "timestamp", timestamp=-1)
    add("timestamp a text", "timestamp", timestamp="2020")
    add(
        "older field names",
        KEPT,
        "timestamp",
        timestamp=...,
        sort_timestamp=5,
        helpful_vote=...,
        helpful_votes=2,
    )
    add("title empty", "title", title="")
    add("text empty", "text", text="")
    add("text of 9 characters", "too short", text="123456789")
    add("text of 10 characters", KEPT, text="It is good")
    add("text Spanish", "language", KEPT, text="Es muy bonita pero la calidad no es lo que esperaba")
    add("text Cyrillic", "language", text="Очень хорошая палатка")
    add("helpful -1", "helpful", helpful_vote=-1)
    add("verified a text", "verified", verified_purchase="yes")
    cases.append(Dirty("cut off", b'{"rating": 5.0, "title": "go', "unreadable", "unreadable"))
    return cases


def _review_of(product, number, **changes):
    return review(number, product, **changes)


def write_category(folder, name, products, reviews, *, seed=0, first=0, packed=False):
    """Write clean ``meta_<name>.jsonl`` and ``<name>.jsonl`` (packed: .gz); returns the two paths. Reviews go
    to products as a Zipf law has it, as in real catalogues. Half of the reviews are of products that the
    metas lack: of real items only a quarter passes the filters.
    """
    ends = ".jsonl.gz" if packed else ".jsonl"
    paths = folder / f"meta_{name}{ends}", folder / f"{name}{ends}"
    folder.mkdir(parents=True, exist_ok=True)
    _write(paths[0], map(meta, range(first, first + products)))
    draw = stream(seed, "cosrec", "catalogue fixture", name)
    _write(paths[1], _reviews(draw, reviews, first, products))
    return paths


def _reviews(draw, reviews, first, products):
    for start in range(0, reviews, 10_000):
        size = min(10_000, reviews - start)
        ranks = np.minimum(draw.zipf(1.3, size) - 1, 10**9)
        numbers = (ranks * 7919 % max(1, products)).tolist()
        lacking = (draw.random(size) < 0.5).tolist()
        for row, (number, absent) in enumerate(zip(numbers, lacking, strict=True), start):
            product = 10**7 if absent else first
            yield review(row, asin(product + number))


def _write(path, rows):
    with path.open("wb") as file, _packed(file, path.suffix) as out:
        for row in rows:
            out.write(json.dumps(row).encode() + b"\n")


def _packed(file, suffix):
    """The file, packed as its name ends; the same bytes always."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 1, file, mtime=0)
    return nullcontext(file)
