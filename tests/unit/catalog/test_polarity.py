"""Titles that a reply only names are no recommendations; unusual titles are found whatever their case."""

import csv
from pathlib import Path

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from tests import helpers

FILMS = ("Paper Kites", "Iron Valley", "Zenithar", "Heat", "Her")
NAMED = Grounder(Catalog.from_records([(title, {}) for title in FILMS], "five titles"))


@pytest.mark.parametrize(("text", "recommended"), [
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
    ("If you liked Paper Kites, try Iron Valley.", ["Iron Valley"]),
    ("You'd like Paper Kites, and Iron Valley too.", ["Paper Kites", "Iron Valley"]),
    ("Paper Kites feels like Iron Valley.", ["Paper Kites"]),
    ("There is no better film than Paper Kites.", ["Paper Kites"]),
    ("you told me about zenithar. how about paper kites?", ["Paper Kites"]),
])  # fmt: skip
def test_what_a_reply_recommends(text, recommended):
    assert [NAMED.catalog.items[item].title for item in NAMED.recommended(text)] == recommended


def read_labelled():
    """The labelled replies (tests/helpers/title_polarity.tsv): half, text, recommended, all titles named."""
    with Path(helpers.__file__).with_name("title_polarity.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        good, other = ({*filter(None, row[key].split("|"))} for key in ("recommended", "named_only"))
        yield row["split"], row["text"].replace("\\n", "\n"), good, good | other


LABELLED = list(read_labelled())
GROUNDER = Grounder(
    Catalog.from_records([(title, {}) for title in sorted(set().union(*(row[3] for row in LABELLED)))], "set")
)


def titles(items):
    return {GROUNDER.catalog.items[item].title for item in items}


def f1(half, decide):
    """Micro F1 of the decision that a title is recommended, over the titles of each reply of a half."""
    pairs = [(good, decide(text, named)) for split, text, good, named in LABELLED if split == half]
    agreed = sum(len(good & said) for good, said in pairs)
    return 2 * agreed / sum(len(good) + len(said) for good, said in pairs)


@pytest.mark.parametrize(("half", "least"), [("dev", 0.957), ("confirm", 0.811)])
def test_labelled_replies_are_read_far_better_than_by_every_title_named(half, least):
    rules = f1(half, lambda text, named: titles(GROUNDER.recommended(text)))
    assert rules >= least
    assert rules > f1(half, lambda text, named: named) + 0.1
    assert sum(split == half for split, *_ in LABELLED) == 120


def test_titles_of_labelled_replies_are_found_whatever_their_case():
    found = [titles(mention.item for mention in GROUNDER.titles(text)) for _, text, _, _ in LABELLED]
    named = [row[3] for row in LABELLED]
    assert sum(map(len, found)) >= 0.99 * sum(map(len, named))
    assert all(some <= every for some, every in zip(found, named, strict=True))
