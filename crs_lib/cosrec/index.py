"""Products and passages ready to be searched: in memory from a folder, or from an index on disk.

``python -m crs_lib cosrec index`` writes the index once. Everything in it is memory-mapped: a product is
read from the disk when somebody asks for it, so that a million of them open in less than a second.
"""

import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec import collections
from crs_lib.cosrec.collections import CatalogueProduct, Passage
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.dense import Dense
from crs_lib.retrieval.encoders import ENCODERS
from crs_lib.retrieval.fusion import Fused, Retriever, build
from crs_lib.retrieval.store import StoredIds, load_arrays, new_folder, save_folder, save_ids

_KIND, _RECORDS, _REVIEWS = "crs-cosrec-2", "crs-records-2", "crs-reviews-1"
_PAIRS = ("users", "rows")
_BATCH = 1_000
T = TypeVar("T")
D = TypeVar("D", CatalogueProduct, Passage)


class Stock:
    """A shop as a study takes it: its products and passages, searches over both, and users' reviews."""

    def __init__(self, products: Mapping[str, CatalogueProduct], passages: Mapping[str, Passage]) -> None:
        self.products, self.passages = products, passages
        self._made: dict[tuple[str, str], Retriever] = {}

    def product_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        """A retriever over products, fused where several specs are given."""
        return self._fused("products", specs, fusion)

    def passage_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        """A retriever over passages, as ``product_search``."""
        return self._fused("passages", specs, fusion)

    def title_search(self) -> Retriever:
        """BM25 over the products' titles."""
        return self._one("titles", "bm25")

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        """A user's reviews over all products, newest first; an empty list for an unknown user."""
        raise NotImplementedError

    def _make(self, what: str, spec: str) -> Retriever:
        """A retriever over products, passages or titles."""
        raise NotImplementedError

    def _one(self, what: str, spec: str) -> Retriever:
        if (what, spec) not in self._made:
            self._made[what, spec] = self._make(what, spec)
        return self._made[what, spec]

    def _fused(self, what: str, specs: Sequence[str], fusion: str) -> Retriever:
        if not specs:
            raise InputError("no retriever named; give at least one, e.g. bm25")
        parts = [self._one(what, spec) for spec in specs]
        return parts[0] if len(parts) == 1 else Fused(parts, fusion)


class StockInMemory(Stock):
    """The products and passages of a folder, read and indexed now."""

    def __init__(self, folder: Path, k1: float = 1.2, b: float = 0.75) -> None:
        """Reads ``products.jsonl`` and ``passages.jsonl`` (.gz, .zst); indexes are made when asked for."""
        super().__init__(collections.read_products(folder), collections.read_passages(folder))
        self.k1, self.b = k1, b

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        return self._users.get(user, [])

    @cached_property
    def _users(self) -> dict[str, list[Mapping[str, Any]]]:
        return collections.users_of(self.products.values())

    def _make(self, what: str, spec: str) -> Retriever:
        if what == "passages":
            texts = {name: one.search_text() for name, one in self.passages.items()}
        else:
            texts = {n: one.title if what == "titles" else one.text() for n, one in self.products.items()}
        return Lexical(texts, self.k1, self.b) if spec == "bm25" else build(spec, texts)


class _Records(Mapping[str, T]):
    """Lines of JSON on disk, each read and decoded when its id is asked for."""

    def __init__(self, folder: Path, read: Callable[[bytes], T]) -> None:
        """Opens the records of an index; RunError where there are none."""
        _, arrays = load_arrays(folder, _RECORDS, ["starts"], mapped=True)
        self._starts, self._read = arrays["starts"], read
        self._bytes = np.memmap(folder / "lines.bin", np.uint8, "r") if len(self._starts) > 1 else None
        self.ids = StoredIds(folder, len(self._starts) - 1)

    def __getitem__(self, name: str) -> T:
        row = self.ids.row(name)
        if row is None:
            raise KeyError(name)
        return self.row(row)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.ids.row(name) is not None

    def row(self, number: int) -> T:
        """The record of a line, counted from 0."""
        if self._bytes is None:
            raise KeyError(number)
        start, end = self._starts[number : number + 2].tolist()
        return self._read(self._bytes[start:end].tobytes())


class StockOnDisk(Stock):
    """An index that :func:`write_index` made, opened: nothing is read but the words."""

    def __init__(self, folder: Path) -> None:
        """Raises RunError where there is no such index."""
        self.folder = folder
        self.facts, _ = load_arrays(folder, _KIND, [], mapped=True)
        products = _Records(folder / "products" / "records", collections.product)
        super().__init__(products, _Records(folder / "passages" / "records", collections.passage))
        self._product = products.row
        _, self._reviews = load_arrays(folder / "products" / "reviews", _REVIEWS, _PAIRS, mapped=True)

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        users, rows = (self._reviews[name] for name in _PAIRS)
        low, high = (int(np.searchsorted(users, _code(user), side)) for side in ("left", "right"))
        bought = [self._product(row) for row in sorted(set(rows[low:high].tolist()))]
        return collections.users_of(bought).get(user, [])

    def _make(self, what: str, spec: str) -> Retriever:
        if what == "titles":
            return Lexical.load(self.folder / "products" / "titles")
        if spec == "bm25":
            return Lexical.load(self.folder / what / "bm25")
        if spec == f"dense:{self.facts['encoder']}":
            return Dense.load(self.folder / what / "dense")
        raise InputError(
            f"the index {self.folder.name!r} holds bm25 and dense:{self.facts['encoder']}, not {spec!r}; "
            "make one with: python -m crs_lib cosrec index --encoder …"
        )


def opened(folder: Path, index: str = "", k1: float = 1.2, b: float = 0.75) -> Stock:
    """The stock of a corpus folder, or of an index where one is named.

    Raises InputError where the index was made with another ``k1`` or ``b``.
    """
    if not index:
        return StockInMemory(folder, k1, b)
    found = StockOnDisk(paths.given(index))
    made = (found.facts["k1"], found.facts["b"])
    if made != (k1, b):
        raise InputError(f"the index was made with k1={made[0]}, b={made[1]}; asked for k1={k1}, b={b}")
    return found


def digests(folder: Path, index: str = "") -> dict[str, str]:
    """Names and SHA-256 of the files that a stock comes from, as inputs of a stage."""
    if index:
        return dict(StockOnDisk(paths.given(index)).facts["inputs"])
    found = [collections.file_of(folder, name) for name in ("products", "passages")]
    return {path.name: tables.sha256(path) for path in found if path.is_file()}


@dataclass(frozen=True)
class IndexReport:
    """The contents of an index, and the files that it was made of with their SHA-256."""

    products: int
    passages: int
    reviews: int
    inputs: dict[str, str]


def write_index(
    products: Path,
    out: Path,
    passages: Path | None = None,
    *,
    encoder: str = "hashing",
    k1: float = 1.2,
    b: float = 0.75,
    note: Callable[[str], object] = lambda text: None,
) -> IndexReport:
    """Index a file of products, and one of passages where it is given, in bounded memory.

    The folder appears whole or not at all; an older index there is replaced. ``note`` is told what is
    being done. Raises InputError for a broken line, an id that is there twice or holds blanks, or another
    folder in the way; RunError where a file is missing.
    """
    ENCODERS.get(encoder)
    BM25(k1, b)
    inputs = {path.name: tables.sha256(path) for path in (products, passages) if path}
    facts: dict[str, Any] = {"encoder": encoder, "k1": k1, "b": b, "inputs": inputs}
    with new_folder(out, _KIND, facts) as aside:
        note("reading products")
        (aside / "products").mkdir()
        users, rows = array("Q"), array("i")
        for row, one in _write_records(
            aside / "products", collections.read_lines(products, collections.product)
        ):
            users.extend(_code(str(review["user"])) for review in one.reviews)
            rows.extend([row] * len(one.reviews))
        stored = _Records(aside / "products" / "records", collections.product)
        _write_reviews(aside / "products" / "reviews", users, rows)
        note(f"{len(stored):,} products: words")
        _write_lexical(aside / "products" / "bm25", stored, CatalogueProduct.text, k1, b)
        note("titles")
        _write_lexical(aside / "products" / "titles", stored, lambda one: one.title, k1, b)
        note(f"vectors ({encoder})")
        _write_dense(aside / "products" / "dense", stored, CatalogueProduct.text, encoder)
        note("passages")
        (aside / "passages").mkdir()
        found = collections.read_lines(passages, collections.passage) if passages else iter(())
        deque(_write_records(aside / "passages", found), maxlen=0)
        texts = _Records(aside / "passages" / "records", collections.passage)
        _write_lexical(aside / "passages" / "bm25", texts, Passage.search_text, k1, b)
        _write_dense(aside / "passages" / "dense", texts, Passage.search_text, encoder)
        return IndexReport(len(stored), len(texts), len(users), inputs)


def _write_records(folder: Path, rows: Iterable[tuple[bytes, D]]) -> Iterator[tuple[int, D]]:
    """Write lines, where each starts, and their ids; yields each record with its number.

    An id that is empty, holds blanks or repeats is refused.
    """
    ids: dict[str, None] = {}
    starts = array("q", [0])
    with new_folder(folder / "records", _RECORDS, {}) as aside:
        with (aside / "lines.bin").open("wb") as file:
            for line, record in rows:
                if len(record.id.split()) != 1 or record.id in ids:
                    raise InputError(
                        f"id {record.id!r} is empty, holds blanks or is there twice; ids must be unique"
                    )
                yield len(ids), record
                ids[record.id] = None
                file.write(line)
                starts.append(starts[-1] + len(line))
        np.save(aside / "starts.npy", np.frombuffer(starts, dtype=np.int64), allow_pickle=False)
        save_ids(aside, list(ids))


def _code(name: str) -> int:
    """64 bits of a name's digest; two names may share one, so that a hit is compared in full."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _write_reviews(folder: Path, users: "array[int]", rows: "array[int]") -> None:
    """Who reviewed which line: pairs of a user's code and the line's number, sorted."""
    codes = np.frombuffer(users, dtype=np.uint64)
    numbers: NDArray[np.int32] = np.frombuffer(rows, dtype=np.int32)
    order = np.lexsort((numbers, codes))
    save_folder(folder, _REVIEWS, {}, {"users": codes[order], "rows": numbers[order]})


def _batches(records: _Records[T], text: Callable[[T], str]) -> Iterator[list[str]]:
    rows = iter(range(len(records)))
    while part := list(islice(rows, _BATCH)):
        yield [text(records.row(row)) for row in part]


def _write_lexical(folder: Path, records: _Records[T], text: Callable[[T], str], k1: float, b: float) -> None:
    index = Lexical(k1=k1, b=b)
    index.ids = records.ids
    index.index.fit(words(body) for part in _batches(records, text) for body in part)
    index.save(folder)


def _write_dense(folder: Path, records: _Records[T], text: Callable[[T], str], encoder: str) -> None:
    Dense.write(folder, encoder, records.ids, _batches(records, text))
