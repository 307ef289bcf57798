"""The material of a conversation: the catalogue's products and the passages, read and put into words."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError

T = TypeVar("T")
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

    @property
    def id(self) -> str:
        """The name of the product in rankings: its ASIN."""
        return self.asin

    def text(self) -> str:
        """The text that the product is found by: title and description."""
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

    def search_text(self) -> str:
        """The text that the passage is found by: title and text."""
        return f"{self.title} {self.text}"

    def block(self) -> str:
        """The passage as a prompt shows it."""
        return _SPACES.sub(" ", f"{self.title}: {self.text}" if self.title else self.text)


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain, ``.gz`` or ``.zst`` file as they stand, without their ends; blank ones left out.

    Raises RunError where there is no file, InputError where it breaks off.
    """
    if not path.is_file():
        raise RunError(
            f"no file {paths.shown(path)}; products are made by: python -m crs_lib cosrec catalogue"
        )
    number = 0
    try:
        with _opened(path) as file:
            for line in file:
                number += 1
                if line.strip():
                    yield line.rstrip(b"\r\n")
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path.name} breaks off after line {number}: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return safety.unpacked(cast(IO[bytes], gzip.open(path, "rb")), path)
    if path.suffix == ".zst":
        try:
            import zstandard
        except ImportError as error:
            raise InputError('files that end in .zst need zstandard: pip install "crs-lib[data]"') from error
        return safety.unpacked(cast(IO[bytes], zstandard.open(path, "rb")), path)
    return path.open("rb")


def _object(line: bytes) -> dict[str, Any]:
    record = safety.loads(line, "the line")
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record


def product(line: bytes) -> CatalogueProduct:
    """The product of a line of JSON; ValueError (or KeyError, TypeError) where the line holds none."""
    row = _object(line)
    return CatalogueProduct(
        str(row["parent_asin"]),
        str(row["title"]),
        tuple(row["description"]),
        float(row["price"]),
        tuple(row["categories"]),
        tuple(row["valid_reviews"] or ()),
    )


def passage(line: bytes) -> Passage:
    """The passage of a line of JSON (``docid, title, segment``); else ValueError, KeyError or TypeError."""
    row = _object(line)
    return Passage(str(row["docid"]), str(row.get("title") or ""), str(row["segment"]))


def read_lines(path: Path, read: Callable[[bytes], T]) -> Iterator[tuple[bytes, T]]:
    """Each line of a file with what ``read`` makes of it; InputError naming the line that is broken."""
    for number, line in enumerate(lines(path), start=1):
        try:
            found = read(line)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path.name}, line {number}: {type(error).__name__} {error}") from error
        yield line, found


def file_of(folder: Path, name: str) -> Path:
    """``products.jsonl`` of a folder, or the same with ``.gz`` or ``.zst``."""
    found = [folder / f"{name}.jsonl{ending}" for ending in ("", ".gz", ".zst")]
    return next((path for path in found if path.is_file()), found[0])


def read_products(folder: Path) -> dict[str, CatalogueProduct]:
    """The products of ``products.jsonl`` (.gz, .zst), by id; InputError for a broken line."""
    return {row.asin: row for _, row in read_lines(file_of(folder, "products"), product)}


def read_passages(folder: Path) -> dict[str, Passage]:
    """The passages of ``passages.jsonl`` (.gz, .zst), by id: ``docid, title, headings, segment``."""
    return {row.id: row for _, row in read_lines(file_of(folder, "passages"), passage)}


def users_of(products: Iterable[CatalogueProduct]) -> dict[str, list[Mapping[str, Any]]]:
    """The reviews of each user over the products, newest first; each with the product's title."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for bought in products:
        for review in bought.reviews:
            found.setdefault(review["user"], []).append({**review, "product": bought.title})
    for reviews in found.values():
        reviews.sort(key=lambda r: (-r["timestamp"], r["product"], json.dumps(r, sort_keys=True)))
    return dict(sorted(found.items()))
