"""What a shop holds: products with their reviews, and passages of knowledge, read from lines of JSON."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError

_SPACES = re.compile(r"\s+")


class Item(Protocol):
    """A product or a passage."""

    @property
    def id(self) -> str: ...

    @classmethod
    def read(cls, line: bytes) -> Self: ...

    def search_text(self) -> str: ...


D = TypeVar("D", bound=Item)


class Review(NamedTuple):
    """A buyer's review of the product with the title ``product``."""

    user: str
    timestamp: int
    product: str
    title: str
    text: str
    helpful: int


class CatalogueProduct(NamedTuple):
    """A product of the catalogue as conversations use it; its id is the ASIN."""

    id: str
    title: str
    description: tuple[str, ...]
    price: float
    categories: tuple[str, ...]
    reviews: tuple[Review, ...]

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The product of a line; ValueError, KeyError or TypeError where the line holds none."""
        row = safety.loads(line, "the line")
        title = str(row["title"])
        reviews = []
        for entry in row["valid_reviews"] or ():
            text = entry["title"], entry["text"]
            reviews.append(Review(entry["user"], entry["timestamp"], title, *text, entry["helpful"]))
        description = tuple(row["description"])
        categories = tuple(row["categories"])
        return cls(
            str(row["parent_asin"]), title, description, float(row["price"]), categories, tuple(reviews)
        )

    def search_text(self) -> str:
        """The text that the product is found by."""
        return f"{self.title}\n" + "\n".join(self.description)

    def best_reviews(self, most: int) -> list[Review]:
        """The most helpful reviews, of equals the newer first."""
        return sorted(self.reviews, key=lambda review: (-review.helpful, -review.timestamp, review.text))[
            :most
        ]

    def block(self, reviews: int, description: bool = True) -> str:
        """The product as a prompt shows it: title, price, description, its most helpful reviews."""
        lines = [f"{self.title}, ${self.price:.2f}"]
        if description:
            lines += [f"- {part}" for part in self.description]
        for review in self.best_reviews(reviews):
            lines.append(f'- a buyer: "{review.title}. {review.text}"')
        return "\n".join(_SPACES.sub(" ", line) for line in lines)


def _text(row: Any, key: str) -> str:
    """A text of a line; ValueError where there is none."""
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key!r} is {value!r}; expected a text")
    return value


class Passage(NamedTuple):
    """A passage of the document collection (``docid, title, segment``)."""

    id: str
    title: str
    text: str

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The passage of a line: JSON (MS MARCO v2.1's) or ``id<TAB>text`` (v1's); errors as a product's."""
        if not line.startswith(b"{"):
            name, tab, text = line.decode().partition("\t")
            if not tab:
                raise ValueError(
                    "neither JSON with docid and segment, nor an id, a tab and a text"
                )
            return cls(name, "", text)
        row = safety.loads(line, "the line")
        return cls(_text(row, "docid"), str(row.get("title") or ""), _text(row, "segment"))

    def search_text(self) -> str:
        """The text that the passage is found by."""
        return f"{self.title} {self.text}"

    def block(self) -> str:
        """The passage as a prompt shows it."""
        text = self.text
        if self.title:
            text = f"{self.title}: {text}"
        return _SPACES.sub(" ", text)


def file_of(folder: Path, name: str) -> Path:
    """``products.jsonl`` of a folder, the same with ``.gz`` or ``.zst``, or a folder ``products/``. Where a
    file is named in place of the folder it holds the products, and what else there is lies beside it.
    """
    if folder.is_file():
        if name == "products":
            return folder
        folder = folder.parent
    usual = folder / f"{name}.jsonl"
    for path in (usual, folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl.zst", folder / name):
        if path.exists():
            return path
    return usual


def files_of(path: Path) -> list[Path]:
    """The files of a folder (MS MARCO's passages); of a file, and of an empty folder, the path itself."""
    files = []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
    return files or [path]


def read_lines(path: Path, kind: type[D]) -> Iterator[tuple[bytes, D]]:
    """The lines of plain, ``.gz`` or ``.zst`` files, each with the product or passage that it holds. Raises
    RunError where there is no file, InputError naming the line that is broken, or behind which the file
    breaks off.
    """
    import pyarrow as pa

    for file in files_of(path):
        if not file.is_file():
            again = "make products by: python -m crs_lib cosrec catalogue"
            raise RunError(f"no file {paths.shown(file)}; {again}")
        stream = io.BufferedReader(pa.input_stream(str(file), compression="detect"), 1 << 18)
        with safety.unpacked(stream, file) as lines:
            yield from _read(lines, kind, file.name)


def _read(lines: Iterable[bytes], kind: type[D], name: str) -> Iterator[tuple[bytes, D]]:
    number = 0
    try:
        for line in lines:
            number += 1
            if line.strip():
                body = line.rstrip(b"\r\n")
                yield body, kind.read(body)
    except OSError as error:
        raise InputError(f"{name} breaks off after line {number}: {error}") from error
    except KeyError as error:
        raise InputError(f"{name}, line {number}: {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}, line {number}: {error}") from error
