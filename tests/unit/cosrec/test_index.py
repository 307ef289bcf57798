"""Products and passages: in memory and from an index on disk."""

import gzip
import json
from itertools import islice

import pytest

from crs_lib.__main__ import main
from crs_lib.core.errors import RunError
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.generate import Writer
from crs_lib.cosrec.settings import GenerateSettings
from tests.helpers import refused
from tests.helpers.cosrec_data import part_of_sample

PRODUCTS = corpus.locate("sample") / "products.jsonl.gz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A part of the sample, with its index in ``made``."""
    folder_of_part = part_of_sample(tmp_path_factory.mktemp("index"), products=120, passages=120)
    files = [
        "--products",
        str(folder_of_part / "products.jsonl"),
        "--passages",
        str(folder_of_part / "passages.jsonl"),
    ]
    assert main(["cosrec", "index", *files, "--out", str(folder_of_part / "made")]) == 0
    return folder_of_part


@pytest.fixture(scope="module")
def here(folder):
    return index.Stock(folder)


@pytest.fixture(scope="module")
def there(folder):
    return index.StockOnDisk(folder / "made")


def test_the_same_products_and_passages(here, there):
    assert list(there.products) == list(here.products)
    assert dict(there.products) == here.products
    assert dict(there.passages) == here.passages


@pytest.mark.parametrize("specs", [["bm25"], ["dense:hashing"], ["bm25", "dense:hashing"]])
@pytest.mark.parametrize("collection", ["products", "passages"])
def test_the_same_hits(here, there, collection, specs):
    query = next(iter(here.products.values())).search_text()
    expected = here.search(collection, specs, "rrf").search(query, 7)
    assert there.search(collection, specs, "rrf").search(query, 7) == expected
    titles = here.search("titles").search(query, 3)
    assert there.search("titles").search(query, 3) == titles


def test_the_same_reviews(here, there):
    users = set()
    for product in here.products.values():
        users.update(review.user for review in product.reviews)
    assert len(users) > 50
    for user in users:
        assert here.reviews_of(user) != []
        assert there.reviews_of(user) == here.reviews_of(user)
    assert there.reviews_of("nobody") == []


def test_a_writer_makes_the_same_record_from_either(folder):
    plain = Writer(GenerateSettings(conversations=2), str(folder)).record(1)
    indexed = Writer(GenerateSettings(conversations=2, index=str(folder / "made")), "").record(1)
    assert indexed == plain
    assert index.digests(folder, str(folder / "made")) == index.digests(folder)


def test_what_the_index_lacks_is_refused(folder, there):
    refused(r"holds bm25 and dense:hashing, not 'dense:minilm'", there.search, "products", ["dense:minilm"])
    refused(r"made with k1=1.2, b=0.75; asked for k1=0.9", index.opened, folder, str(folder / "made"), k1=0.9)
    refused("no index", index.StockOnDisk, folder, error=RunError)


def lines(number):
    with gzip.open(PRODUCTS, "rb") as file:
        return list(islice(file, number))


def test_a_broken_line_leaves_nothing_behind(tmp_path):
    path = tmp_path / "products.jsonl"
    first, second = lines(2)

    def broken(message, **change):
        row = json.loads(second) | change
        path.write_bytes(first + json.dumps(row).encode())
        refused(message, index.write_index, path, tmp_path / "out")
        assert list(tmp_path.iterdir()) == [path]

    broken(
        r"products\.jsonl, line 2: the id 'BS00000001' stands in an earlier line", parent_asin="BS00000001"
    )
    broken("line 2: the id 'a b' .* holds blanks", parent_asin="a b")
    broken("line 2", price="x")


@pytest.fixture
def ms_marco(tmp_path):
    """A folder of v2.1's segments and of v1's table, beside one product."""
    folder_of_part = tmp_path / "passages"
    folder_of_part.mkdir()
    rows = [
        {"title": "Tents", "url": "u", "docid": f"doc_00_{n}#0_{n}", "segment": f"tent {n}"} for n in (1, 2)
    ]
    segments = "".join(json.dumps(row) + "\n" for row in rows)
    (folder_of_part / "msmarco_v2.1_doc_segmented_00.json.gz").write_bytes(gzip.compress(segments.encode()))
    (folder_of_part / "zz_collection.tsv").write_text(
        "7\tA stove {is} hot.\n8\tno\tstove\n", encoding="utf-8"
    )
    (tmp_path / "products.jsonl").write_bytes(lines(1)[0])
    return tmp_path


def test_passages_of_ms_marco_are_read_from_their_own_files(ms_marco):
    passages = index.Stock(ms_marco).passages
    assert list(passages) == ["doc_00_1#0_1", "doc_00_2#0_2", "7", "8"]
    assert passages["doc_00_1#0_1"] == ("doc_00_1#0_1", "Tents", "tent 1")
    assert passages["7"] == ("7", "", "A stove {is} hot.")
    assert passages["8"].text == "no\tstove"
    index.write_index(ms_marco / "products.jsonl", ms_marco / "made", ms_marco / "passages")
    assert dict(index.StockOnDisk(ms_marco / "made").passages) == passages
    digests = index.digests(ms_marco)
    assert index.digests(ms_marco, str(ms_marco / "made")) == digests
    assert len(digests) == 3


def test_a_passage_with_an_id_of_another_file_is_named(ms_marco):
    (ms_marco / "passages" / "zz_collection.tsv").write_text("8\tA stove.\n8\tA tent.\n")
    refused(r"zz_collection\.tsv, line 2: the id '8' stands in an earlier line", index.Stock, ms_marco)


def test_a_shop_without_products_says_what_to_give(tmp_path):
    refused("a file of products, or a folder with products.jsonl", index.shop, str(tmp_path), error=RunError)


def test_a_broken_passage_is_named(ms_marco):
    (ms_marco / "passages" / "zz_collection.tsv").write_text("only an id\n")
    refused(r"zz_collection\.tsv, line 1", index.Stock, ms_marco)
