"""Products of shops: money and counts are read in every usual form, or the product is dropped with a reason."""

import json
from types import SimpleNamespace

import pytest

from crs_lib.core import tables
from crs_lib.cosrec.catalogue import build
from crs_lib.cosrec.catalogue_rules import Options, price_of, product
from tests.edges.cases import cases

KETTLE = {
    "parent_asin": "B000000001",
    "title": "Steel kettle with a long handle",
    "description": ["A kettle for the stove, made of steel."],
    "features": [],
    "details": {"Color": "Red"},
    "categories": ["Kitchen"],
    "rating_number": 12,
    "average_rating": 4.4,
    "store": "Acme",
    "price": 19.99,
}


def prices(texts):
    """The price that each text says, "" for none."""
    return [price_of(text, legacy=False) or "" for text in texts]


def ratings(numbers):
    """The number of ratings of a product with each of these, or the reason against it."""
    outcomes = []
    for number in numbers:
        row = SimpleNamespace(**{**KETTLE, "rating_number": number})
        result = product(row, Options(), lambda record: json.dumps(record).encode())
        outcomes.append(result if isinstance(result, str) else result[1])
    return outcomes


@pytest.fixture
def calls(tmp_path):
    """What is done with an input; the files of a catalogue stand in the test's folder."""

    def built(changes):
        products = [{**KETTLE, **change} for change in changes]
        for number, record in enumerate(products):
            record["parent_asin"] = f"B{number:09d}"
        tables.write_jsonl(tmp_path / "metas" / "meta_Kitchen.jsonl", products)
        tables.write_jsonl(tmp_path / "reviews" / "Kitchen.jsonl", [])
        return build(tmp_path / "metas", tmp_path / "reviews", tmp_path / "out.jsonl", Options())

    return {"prices": prices, "ratings": ratings, "build": built}


@pytest.mark.parametrize("case", cases("products"))
def test_a_product_of_a_shop_is_read_as_it_is_meant(case, calls, tmp_path):
    case.check(calls, tmp_path)
