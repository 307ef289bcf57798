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
from numpy.typing import NDArray

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import words
from crs_lib.cosrec.catalogue_tables import name_digest
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.encoders import ENCODERS, Dense
from crs_lib.retrieval.fusion import RETRIEVERS, Fused, Retriever, build
from crs_lib.retrieval.store import StoredIds, load_arrays, new_folder, save_folder, save_ids

_KIND, _RECORDS, _REVIEWS = "crs-cosrec-2", "crs-records-2", "crs-reviews-1"
_PAIRS = ("users", "rows")
_BATCH = 1_000
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
    """Lines of JSON on disk, each read and decoded when its id is asked for."""

    def __init__(self, folder: Path, kind: type[D]) -> None:
        """Opens the records of an index; RunError where there are none."""
        _, arrays = load_arrays(folder, _RECORDS, ["starts"])
        self._starts = arrays["starts"]
        self._kind: type[D] = kind
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

    def row(self, number: int) -> D:
        """The record of a line, counted from 0."""
        start, end = self._starts[number : number + 2].tolist()
        return self._kind.read(self._bytes[start:end].tobytes())


class StockOnDisk(Stock):
    """An index that :func:`write_index` made, opened: nothing is read but the words."""

    def __init__(self, folder: Path) -> None:
        """Raises RunError where there is no such index."""
        self.folder, self._made = folder, {}
        self.facts, _ = load_arrays(folder, _KIND, [])
        self.products = records = _Records(folder / "products" / "records", CatalogueProduct)
        self.passages = _Records(folder / "passages" / "records", Passage)
        self._row = records.row
        _, self._reviews = load_arrays(folder / "products" / "reviews", _REVIEWS, _PAIRS)

    def reviews_of(self, user: str) -> list[Review]:
        users, rows = (self._reviews[name] for name in _PAIRS)
        low, high = (int(np.searchsorted(users, name_digest(user), side)) for side in ("left", "right"))
        bought = [self._row(row) for row in sorted(set(rows[low:high].tolist()))]
        return _by_user(bought).get(user, [])

    def _make(self, collection: str, spec: str) -> Retriever:
        if spec == "bm25":
            titles = collection == "titles"
            return Lexical.load(self.folder / ("products/titles" if titles else f"{collection}/bm25"))
        if RETRIEVERS.get(spec).facts.get("made"):
            return RETRIEVERS.create(spec, texts=self.passages if collection == "passages" else self.products)
        if spec == f"dense:{self.facts['encoder']}":
            return Dense.load(self.folder / collection / "dense")
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


class _IndexReport(NamedTuple):
    """The contents of an index."""

    products: int
    passages: int
    reviews: int


def write_index(
    products: Path, out: Path, passages: Path | None = None, *, encoder: str = "hashing", k1: float = 1.2,
    b: float = 0.75, note: Callable[[str], object] = lambda text: None,
) -> _IndexReport:  # fmt: skip
    """Index a file of products, and one of passages where it is given, in bounded memory. The folder appears
    whole or not at all; an older index there is replaced. ``note`` is told what is being done. Raises
    InputError for a broken line, an id that is there twice or holds blanks, or another folder in the way;
    RunError where a file is missing.
    """
    ENCODERS.get(encoder)
    BM25(k1, b)
    given = [path for one in (products, passages) if one for path in _files(one)]
    inputs = {path.name: tables.sha256(path) for path in given}
    with new_folder(out, _KIND, {"encoder": encoder, "k1": k1, "b": b, "inputs": inputs}) as aside:

        def write(
            name: str, path: Path | None, kind: type[D], seen: Callable[[int, D], object]
        ) -> _Records[D]:
            note(f"reading {name}")
            (aside / name).mkdir()
            _write_records(aside / name / "records", _read_lines(path, kind) if path else (), seen)
            stored = _Records(aside / name / "records", kind)
            note(f"{len(stored):,} {name}: words, vectors ({encoder})")
            _write_lexical(aside / name / "bm25", stored, kind.search_text, k1, b)
            Dense.write(aside / name / "dense", encoder, stored.ids, _batches(stored, kind.search_text))
            return stored

        def review(row: int, one: CatalogueProduct) -> None:
            users.extend(name_digest(str(review["user"])) for review in one.reviews)
            rows.extend([row] * len(one.reviews))

        users, rows = array("Q"), array("i")
        shop = write("products", products, CatalogueProduct, review)
        _write_lexical(aside / "products" / "titles", shop, lambda one: one.title, k1, b)
        codes, numbers = np.array(users, np.uint64), np.array(rows, np.int32)
        order = np.lexsort((numbers, codes))  # who reviewed which line: a user's code and the line's number
        pairs: dict[str, NDArray[Any]] = {"users": codes[order], "rows": numbers[order]}
        save_folder(aside / "products" / "reviews", _REVIEWS, {}, pairs)
        texts = write("passages", passages, Passage, lambda row, one: None)
        return _IndexReport(len(shop), len(texts), len(users))


def _write_records(folder: Path, rows: Iterable[tuple[bytes, D]], seen: Callable[[int, D], object]) -> None:
    """Write lines, where each starts, and their ids; ``seen`` is told each record with its number. An id that
    is empty, holds blanks or repeats is refused.
    """
    ids: dict[str, None] = {}
    starts = array("q", [0])
    with new_folder(folder, _RECORDS, {}) as aside:
        with (aside / "lines.bin").open("wb") as file:
            for line, record in rows:
                if len(record.id.split()) != 1 or record.id in ids:
                    raise InputError(f"id {record.id!r} is empty, holds blanks or is there twice")
                seen(len(ids), record)
                ids[record.id] = None
                file.write(line)
                starts.append(starts[-1] + len(line))
        np.save(aside / "starts.npy", np.frombuffer(starts, dtype=np.int64), allow_pickle=False)
        save_ids(aside, list(ids))


def _batches(records: _Records[D], text: Callable[[D], str]) -> Iterator[list[str]]:
    for start in range(0, len(records), _BATCH):
        yield [text(records.row(row)) for row in range(start, min(start + _BATCH, len(records)))]


def _write_lexical(folder: Path, records: _Records[D], text: Callable[[D], str], k1: float, b: float) -> None:
    index = Lexical(k1=k1, b=b)
    index.ids = records.ids
    index.index.fit(words(body) for part in _batches(records, text) for body in part)
    index.save(folder)
