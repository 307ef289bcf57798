"""Products and passages ready to be searched: in memory from a folder, or from an index on disk.

``python -m crs_lib cosrec index`` writes the index once. Everything in it is memory-mapped: a product is
read from the disk when somebody asks for it, so that a million of them open in less than a second.
"""

import io
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import words
from crs_lib.cosrec.catalogue_tables import name_digest
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.encoders import ENCODERS, Dense, by_batch
from crs_lib.retrieval.fusion import RETRIEVERS, Fused, Retriever, build
from crs_lib.retrieval.store import StoredIds, mapped, new_folder, read_header

_KIND = "crs-cosrec-3"
_SPACES = re.compile(r"\s+")
Review = Mapping[str, Any]
D = TypeVar("D", "CatalogueProduct", "Passage")


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
        description, categories, reviews = row["description"], row["categories"], row["valid_reviews"] or ()
        kept = tuple(description), float(row["price"]), tuple(categories), tuple(reviews)
        return cls(str(row["parent_asin"]), str(row["title"]), *kept)

    def search_text(self) -> str:
        """The text that the product is found by."""
        return f"{self.title}\n" + "\n".join(self.description)

    def best_reviews(self, most: int) -> list[Review]:
        """The most helpful reviews, of equals the newer first."""
        return sorted(self.reviews, key=lambda r: (-r["helpful"], -r["timestamp"], r["text"]))[:most]

    def block(self, reviews: int, description: bool = True) -> str:
        """The product as a prompt shows it: title, price, description, its most helpful reviews."""
        lines = [f"{self.title}, ${self.price:.2f}"]
        lines += [f"- {part}" for part in self.description] if description else []
        lines += [f'- a buyer: "{r["title"]}. {r["text"]}"' for r in self.best_reviews(reviews)]
        return "\n".join(_SPACES.sub(" ", line) for line in lines)


class Passage(NamedTuple):
    """A passage of the document collection (``docid, title, segment``)."""

    id: str
    title: str
    text: str

    @classmethod
    def read(cls, line: bytes) -> Self:
        """The passage of a line: JSON (MS MARCO v2.1's) or ``id<TAB>text`` (v1's); errors as a product's."""
        if not line.startswith(b"{"):
            name, text = line.decode().split("\t", 1)
            return cls(name, "", text)
        row = safety.loads(line, "the line")
        return cls(str(row["docid"]), str(row.get("title") or ""), str(row["segment"]))

    def search_text(self) -> str:
        """The text that the passage is found by."""
        return f"{self.title} {self.text}"

    def block(self) -> str:
        """The passage as a prompt shows it."""
        return _SPACES.sub(" ", f"{self.title}: {self.text}" if self.title else self.text)


def _files(path: Path) -> list[Path]:
    """A file itself, and an empty folder, which is none; of a folder (MS MARCO's passages) its files."""
    return (sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else []) or [path]


def _read_lines(path: Path, kind: type[D]) -> Iterator[tuple[bytes, D]]:
    """The lines of plain, ``.gz`` or ``.zst`` files, each with the product or passage that it holds. Raises
    RunError where there is no file, InputError naming the line that is broken, or behind which the file
    breaks off.
    """
    import pyarrow as pa

    for place in _files(path):
        if not place.is_file():
            again = "make products by: python -m crs_lib cosrec catalogue"
            raise RunError(f"no file {paths.shown(place)}; {again}")
        number = 0
        stream = io.BufferedReader(pa.input_stream(str(place), compression="detect"), 1 << 18)
        with safety.unpacked(stream, place) as file:
            try:
                for line in file:
                    number += 1
                    if line.strip():
                        body = line.rstrip(b"\r\n")
                        yield body, kind.read(body)
            except OSError as error:
                raise InputError(f"{place.name} breaks off after line {number}: {error}") from error
            except (ValueError, KeyError, TypeError) as error:
                told = f"{type(error).__name__} {error}"
                raise InputError(f"{place.name}, line {number}: {told}") from error


def _file_of(folder: Path, name: str) -> Path:
    """``products.jsonl`` of a folder, the same with ``.gz`` or ``.zst``, or a folder ``products/``."""
    found = [folder / f"{name}.jsonl{ending}" for ending in ("", ".gz", ".zst")]
    return next((path for path in (*found, folder / name) if path.exists()), found[0])


def _by_user(products: Iterable[CatalogueProduct]) -> dict[str, list[Review]]:
    """The reviews of each user over the products, newest first; each with the product's title."""
    found: dict[str, list[Review]] = {}
    for bought in products:
        for review in bought.reviews:
            found.setdefault(review["user"], []).append({**review, "product": bought.title})
    for reviews in found.values():
        reviews.sort(key=lambda r: (-r["timestamp"], r["product"], json.dumps(r, sort_keys=True)))
    return found


class Stock:
    """The products and passages of a folder, read now, and searches over both, made when asked for."""

    def __init__(self, folder: Path, k1: float = 1.2, b: float = 0.75) -> None:
        """Reads ``products.jsonl`` and ``passages.jsonl`` (.gz, .zst)."""
        self.k1, self.b = k1, b
        products = _read_lines(_file_of(folder, "products"), CatalogueProduct)
        passages = _read_lines(_file_of(folder, "passages"), Passage)
        self.products: Mapping[str, CatalogueProduct] = {row.id: row for _, row in products}
        self.passages: Mapping[str, Passage] = {row.id: row for _, row in passages}
        self._made: dict[tuple[str, str], Retriever] = {}

    def search(self, collection: str, specs: Sequence[str] = ("bm25",), fusion: str = "stratum") -> Retriever:
        """A retriever over ``products``, ``passages`` or ``titles``, fused where several specs are given."""
        if not specs:
            raise InputError("no retriever named; give at least one, e.g. bm25")
        for spec in specs:
            if (collection, spec) not in self._made:
                self._made[collection, spec] = self._make(collection, spec)
        parts = [self._made[collection, spec] for spec in specs]
        return parts[0] if len(parts) == 1 else Fused(parts, fusion)

    def reviews_of(self, user: str) -> list[Review]:
        """A user's reviews over all products, newest first; an empty list for an unknown user."""
        return self._users.get(user, [])

    @cached_property
    def _users(self) -> dict[str, list[Review]]:
        return _by_user(self.products.values())

    def _make(self, collection: str, spec: str) -> Retriever:
        records = self.passages if collection == "passages" else self.products
        alone = collection == "titles"
        texts = {name: one.title if alone else one.search_text() for name, one in records.items()}
        return Lexical(texts, self.k1, self.b) if spec == "bm25" else build(spec, texts)


class _Records(Mapping[str, D], Generic[D]):
    """A collection of an index: lines of JSON on disk, each read and decoded when its id is asked for."""

    def __init__(self, folder: Path, kind: type[D]) -> None:
        """Opens the records of a collection; RunError where there are none."""
        self._kind: type[D] = kind
        self._starts = mapped(folder, "starts")
        self._bytes: Any = np.memmap(folder / "lines.bin", np.uint8, "r") if len(self._starts) > 1 else None
        self.ids = StoredIds(folder, len(self._starts) - 1)

    def __getitem__(self, name: str) -> D:
        if (row := self.ids.row(name)) is None:
            raise KeyError(name)
        return self.row(row)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def in_order(self) -> Iterator[D]:
        """All records, in the order of the lines."""
        return map(self.row, range(len(self)))

    def row(self, number: int) -> D:
        """The record of a line, counted from 0."""
        start, end = self._starts[number : number + 2].tolist()
        return self._kind.read(self._bytes[start:end].tobytes())


class StockOnDisk(Stock):
    """An index that :func:`write_index` made, opened: nothing is read but the words."""

    products: _Records[CatalogueProduct]
    passages: _Records[Passage]

    def __init__(self, folder: Path) -> None:
        """Raises RunError where there is no such index."""
        self.folder, self._made, self.facts = folder, {}, read_header(folder, _KIND)
        self.products = _Records(folder / "products", CatalogueProduct)
        self.passages = _Records(folder / "passages", Passage)

    def reviews_of(self, user: str) -> list[Review]:
        users, rows = (mapped(self.folder / "products", name) for name in ("users", "rows"))
        low, high = (int(np.searchsorted(users, name_digest(user), side)) for side in ("left", "right"))
        bought = [self.products.row(row) for row in sorted(set(rows[low:high].tolist()))]
        return _by_user(bought).get(user, [])

    def _make(self, collection: str, spec: str) -> Retriever:
        place, part = ("products", "titles") if collection == "titles" else (collection, "words")
        records: _Records[Any] = getattr(self, place)
        if RETRIEVERS.get(spec).facts.get("made"):
            return RETRIEVERS.create(spec, texts=records)
        if spec == "bm25":
            lexical = Lexical()
            lexical.ids = records.ids
            lexical.index = BM25.load(self.folder / place, part, len(records))
            return lexical
        if spec == f"dense:{self.facts['encoder']}":
            dense = Dense(self.facts["encoder"])
            dense.ids, dense.vectors = records.ids, mapped(self.folder / place, "vectors")
            return dense
        held = f"the index {self.folder.name!r} holds bm25 and dense:{self.facts['encoder']}, not {spec!r}"
        raise InputError(f"{held}; make one with: python -m crs_lib cosrec index --encoder …")


def opened(folder: Path, index: str = "", k1: float = 1.2, b: float = 0.75) -> Stock:
    """The stock of a corpus folder, or of an index where one is named. Raises InputError where the index was
    made with another ``k1`` or ``b``.
    """
    if not index:
        return Stock(folder, k1, b)
    found = StockOnDisk(paths.given(index))
    made = (found.facts["k1"], found.facts["b"])
    if made != (k1, b):
        raise InputError(f"the index was made with k1={made[0]}, b={made[1]}; asked for k1={k1}, b={b}")
    return found


def digests(folder: Path, index: str = "") -> dict[str, str]:
    """Names and SHA-256 of the files that a stock comes from, as inputs of a stage."""
    if index:
        return dict(StockOnDisk(paths.given(index)).facts["inputs"])
    found = [_file_of(folder, name) for name in ("products", "passages")]
    return {path.name: tables.sha256(path) for one in found for path in _files(one) if path.is_file()}


def write_index(
    products: Path, out: Path, passages: Path | None = None, *, encoder: str = "hashing", k1: float = 1.2,
    b: float = 0.75, note: Callable[[str], object] = lambda text: None,
) -> dict[str, int]:  # fmt: skip
    """Index a file of products, and one of passages where it is given, in bounded memory; returns how many of
    each and of reviews. The folder appears whole or not at all; an older index there is replaced. ``note`` is
    told what is being done. Raises InputError for a broken line, an id that is there twice or holds blanks,
    or another folder in the way; RunError where a file is missing.
    """
    model = ENCODERS.create(encoder)
    BM25(k1, b)
    given = [path for one in (products, passages) if one for path in _files(one)]
    inputs = {path.name: tables.sha256(path) for path in given}
    with new_folder(out, _KIND, {"encoder": encoder, "k1": k1, "b": b, "inputs": inputs}) as aside:

        def write(name: str, path: Path | None, kind: type[D]) -> _Records[D]:
            note(f"reading {name}")
            _write_lines(aside / name, _read_lines(path, kind) if path else ())
            stored = _Records(aside / name, kind)
            note(f"{len(stored):,} {name}: words, vectors ({encoder})")
            BM25(k1, b).fit(words(one.search_text()) for one in stored.in_order()).save(aside / name, "words")
            rows = by_batch(model, (one.search_text() for one in stored.in_order()))
            with (aside / name / "vectors.npy").open("wb") as file:
                shape = (len(stored), next(rows).shape[1])
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": shape}
                )
                file.writelines(part.astype("<f4").tobytes() for part in rows)
            return stored

        shop = write("products", products, CatalogueProduct)
        BM25(k1, b).fit(words(one.title) for one in shop.in_order()).save(aside / "products", "titles")
        texts = write("passages", passages, Passage)
        reviews = mapped(aside / "products", "users")
        return {"products": len(shop), "passages": len(texts), "reviews": len(reviews)}


def _write_lines(folder: Path, rows: Iterable[tuple[bytes, D]]) -> None:
    """Write lines, where each starts, their ids, and who reviewed which line: a user's code and the line's
    number. An id that is empty, holds blanks or repeats is refused.
    """
    ids, starts, users, numbers = dict[str, None](), array("q", [0]), array("Q"), array("i")
    folder.mkdir()
    with (folder / "lines.bin").open("wb") as file:
        for line, record in rows:
            if len(record.id.split()) != 1 or record.id in ids:
                raise InputError(f"id {record.id!r} is empty, holds blanks or is there twice")
            for review in getattr(record, "reviews", ()):
                users.append(name_digest(str(review["user"])))
                numbers.append(len(ids))
            ids[record.id] = None
            file.write(line)
            starts.append(starts[-1] + len(line))
    order = np.lexsort((numbers, users))
    np.save(folder / "users.npy", np.array(users)[order])
    np.save(folder / "rows.npy", np.array(numbers)[order])
    np.save(folder / "starts.npy", starts)
    StoredIds.save(folder, ids)
