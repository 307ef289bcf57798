"""The index on disk: the same hits as in memory, read lazily, whole or not at all."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from crs_lib.__main__ import main
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec import corpus, index
from crs_lib.cosrec.generate import _Writer
from crs_lib.cosrec.settings import GenerateSettings

SAMPLE = corpus.locate("sample")
FILES = {name: SAMPLE / f"{name}.jsonl.gz" for name in ("products", "passages")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the first products and passages of the sample."""
    place = tmp_path_factory.mktemp("index")
    for name, path in FILES.items():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            (place / f"{name}.jsonl").write_text("".join(next(file) for _ in range(120)), encoding="utf-8")
    given = {name: str(place / f"{name}.jsonl") for name in FILES}
    command = ["cosrec", "index", "--products", given["products"], "--passages", given["passages"]]
    assert main([*command, "--out", str(place / "made")]) == 0
    return place


def test_the_same_products_hits_and_reviews_as_in_memory(folder: Path) -> None:
    here, there = index.Stock(folder), index.StockOnDisk(folder / "made")
    assert list(there.products) == list(here.products)
    assert dict(there.passages) == here.passages
    query = next(iter(here.products.values())).search_text()
    for collection, text in (("products", query), ("passages", "clean it")):
        for specs in (["bm25"], ["dense:hashing"], ["bm25", "dense:hashing"]):
            one, two = (stock.search(collection, specs, "rrf") for stock in (here, there))
            assert one.search(text, 7) == two.search(text, 7)
    assert there.search("titles").search(query, 3) == here.search("titles").search(query, 3)
    users = {review["user"] for product in here.products.values() for review in product.reviews}
    assert len(users) > 50
    assert all(there.reviews_of(user) == here.reviews_of(user) != [] for user in users)
    assert there.reviews_of("nobody") == []


def test_a_writer_makes_the_same_record_from_either(folder: Path) -> None:
    plain = _Writer(GenerateSettings(conversations=2), str(folder)).record(1)
    assert _Writer(GenerateSettings(conversations=2, index=str(folder / "made")), "").record(1) == plain
    assert index.digests(folder, str(folder / "made")) == index.digests(folder)


def test_what_the_index_does_not_hold_is_refused(folder: Path) -> None:
    stock = index.StockOnDisk(folder / "made")
    with pytest.raises(InputError, match=r"holds bm25 and dense:hashing, not 'dense:minilm'"):
        stock.search("products", ["dense:minilm"])
    with pytest.raises(InputError, match=r"made with k1=1.2, b=0.75; asked for k1=0.9"):
        index.opened(folder, str(folder / "made"), k1=0.9)
    with pytest.raises(RunError, match="no index"):
        index.StockOnDisk(folder)


@pytest.mark.parametrize(("change", "what"), [
    ({"parent_asin": "BS00000001"}, "there twice"), ({"parent_asin": "a b"}, "holds blanks"),
    ({"price": "x"}, "line 2"),
])  # fmt: skip
def test_a_broken_line_leaves_nothing_behind(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    with gzip.open(FILES["products"], "rt", encoding="utf-8") as file:
        first, second = json.loads(next(file)), json.loads(next(file))
    rows = [json.dumps(first), json.dumps(second | change)]
    (tmp_path / "products.jsonl").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(InputError, match=what):
        index.write_index(tmp_path / "products.jsonl", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["products.jsonl"]


def test_passages_of_ms_marco_are_read_from_their_own_files(tmp_path: Path) -> None:
    """A folder of v2.1's segments and of v1's table, by name; both make an index."""
    (place := tmp_path / "passages").mkdir()
    segments = [
        {"docid": f"msmarco_v2.1_doc_00_{n}#0_{n}", "title": "Tents", "segment": f"tent {n}", "url": "u"}
        for n in (1, 2)
    ]
    with gzip.open(place / "msmarco_v2.1_doc_segmented_00.json.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in segments)
    (place / "zz_collection.tsv").write_text("7\tA stove {is} hot.\n8\tno\tstove\n", encoding="utf-8")
    with gzip.open(FILES["products"], "rb") as file:
        (tmp_path / "products.jsonl").write_bytes(next(file))
    stock = index.Stock(tmp_path)
    assert [(p.id, p.title, p.text) for p in stock.passages.values()] == [
        (segments[0]["docid"], "Tents", "tent 1"), (segments[1]["docid"], "Tents", "tent 2"),
        ("7", "", "A stove {is} hot."), ("8", "", "no\tstove"),
    ]  # fmt: skip
    index.write_index(tmp_path / "products.jsonl", tmp_path / "made", place)
    assert dict(index.StockOnDisk(tmp_path / "made").passages) == stock.passages
    assert index.digests(tmp_path, str(tmp_path / "made")) == index.digests(tmp_path)
    assert set(index.digests(tmp_path)) == {"products.jsonl", *(path.name for path in place.iterdir())}
    (place / "zz_collection.tsv").write_text("only an id\n")
    with pytest.raises(InputError, match=r"zz_collection\.tsv, line 1"):
        index.Stock(tmp_path)
