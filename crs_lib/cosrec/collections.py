"""What a conversation is made of: the catalogue's products and the passages, read and put into words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec.catalogue_files import DamagedError, Watched, decoder, ending, read_records
from crs_lib.retrieval.base import Fused, Retriever, build

_PRODUCT = ("parent_asin", "title", "description", "details", "categories", "price", "valid_reviews")
_PASSAGE = ("docid", "title", "headings", "segment")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class CatalogueProduct:
    """A product of the catalogue as conversations use it."""

    asin: str
    title: str
    description: tuple[str, ...]
    price: float
    categories: tuple[str, ...]
    reviews: tuple[Mapping[str, Any], ...]

    def text(self) -> str:
        """What the product is found by: title and description."""
        return f"{self.title}\n" + "\n".join(self.description)

    def best_reviews(self, most: int) -> list[Mapping[str, Any]]:
        """The most helpful reviews, of equals the newer first."""
        return sorted(self.reviews, key=lambda r: (-r["helpful"], -r["timestamp"], r["text"]))[:most]

    def block(self, reviews: int, description: bool = True) -> str:
        """The product as a prompt shows it: title, price, description, its most helpful reviews."""
        lines = [f"{self.title}, ${self.price:.2f}"]
        if description:
            lines += [f"- {part}" for part in self.description]
        lines += [f'- a buyer: "{r["title"]}. {r["text"]}"' for r in self.best_reviews(reviews)]
        return "\n".join(_SPACES.sub(" ", line) for line in lines)


@dataclass(frozen=True)
class Passage:
    """A passage of the document collection."""

    id: str
    title: str
    text: str

    def block(self) -> str:
        """The passage as a prompt shows it."""
        return _SPACES.sub(" ", f"{self.title}: {self.text}" if self.title else self.text)


def _records(path: Path, fields: tuple[str, ...]) -> Iterator[Any]:
    if not path.is_file():
        raise RunError(f"no file {paths.shown(path)}; make it with: python -m crs_lib cosrec-catalogue")

    def bad(line: int, why: str, raw: bytes) -> None:
        raise InputError(f"{path.name}, line {line}: {why}")

    raw = Watched(path)
    try:
        for _, record in read_records(path, decoder(fields), raw, bad):
            yield record
    except DamagedError as error:
        raise InputError(f"{path.name} breaks off after line {error.line}: {error.why}") from error
    finally:
        raw.close()


def _file(folder: Path, name: str) -> Path:
    found = [path for path in sorted(folder.glob(f"{name}.jsonl*")) if ending(path)]
    return found[0] if found else folder / f"{name}.jsonl"


def read_products(folder: Path) -> dict[str, CatalogueProduct]:
    """The products of ``products.jsonl`` (.gz, .zst), by id; InputError for a broken line."""
    return {
        row.parent_asin: CatalogueProduct(
            row.parent_asin,
            row.title,
            tuple(row.description),
            float(row.price),
            tuple(row.categories),
            tuple(row.valid_reviews or ()),
        )
        for row in _records(_file(folder, "products"), _PRODUCT)
    }


def read_passages(folder: Path) -> dict[str, Passage]:
    """The passages of ``passages.jsonl`` (.gz, .zst), by id: ``docid, title, headings, segment``."""
    return {
        row.docid: Passage(row.docid, row.title or "", row.segment)
        for row in _records(_file(folder, "passages"), _PASSAGE)
    }


def product_search(products: Mapping[str, CatalogueProduct], retrievers: list[str], fusion: str) -> Retriever:
    """A retriever over products, fused where several are named (``bm25``, ``dense:minilm`` …)."""
    return _search({asin: product.text() for asin, product in products.items()}, retrievers, fusion)


def passage_search(passages: Mapping[str, Passage], retrievers: list[str], fusion: str) -> Retriever:
    """A retriever over passages, as :func:`product_search`."""
    return _search({name: f"{p.title} {p.text}" for name, p in passages.items()}, retrievers, fusion)


def _search(texts: Mapping[str, str], retrievers: list[str], fusion: str) -> Retriever:
    if not retrievers:
        raise InputError("no retriever named; give at least one, e.g. bm25")
    parts = [build(spec, texts) for spec in retrievers]
    return parts[0] if len(parts) == 1 else Fused(parts, fusion)


def users_of(products: Mapping[str, CatalogueProduct]) -> dict[str, list[Mapping[str, Any]]]:
    """The reviews of each user over all products, newest first; each with the product's title."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for product in products.values():
        for review in product.reviews:
            found.setdefault(review["user"], []).append({**review, "product": product.title})
    for reviews in found.values():
        reviews.sort(key=lambda r: (-r["timestamp"], r["product"], json.dumps(r, sort_keys=True)))
    return dict(sorted(found.items()))
