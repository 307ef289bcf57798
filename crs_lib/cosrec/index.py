"""Products and passages ready to be searched: in memory from a folder, or from an index on disk.

``python -m crs_lib cosrec-index`` writes the index once. Everything in it is memory-mapped: a product is
read from the disk when somebody asks for it, so that a million of them open in less than a second.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import hashes, paths
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec import collections
from crs_lib.cosrec.collections import CatalogueProduct, Passage
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.dense import Dense
from crs_lib.retrieval.encoders import ENCODERS
from crs_lib.retrieval.fusion import Fused, Retriever, build
from crs_lib.retrieval.store import StoredIds, load_arrays, new_folder, save_folder, save_ids

_KIND, _RECORDS, _REVIEWS = "crs-cosrec-1", "crs-records-1", "crs-reviews-1"
_BATCH = 1_000
T = TypeVar("T")


class Stock(Protocol):
    """What a study takes from a shop: its products and passages, searches over both, and users' reviews."""

    @property
    def products(self) -> Mapping[str, CatalogueProduct]: ...

    @property
    def passages(self) -> Mapping[str, Passage]: ...

    def product_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        """A retriever over products, fused where several specs are given."""

    def passage_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        """A retriever over passages, as ``product_search``."""

    def title_search(self) -> Retriever:
        """BM25 over the products' titles."""

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        """A user's reviews over all products, newest first; an empty list for an unknown user."""


def _fused(specs: Sequence[str], fusion: str, one: Callable[[str], Retriever]) -> Retriever:
    if not specs:
        raise InputError("no retriever named; give at least one, e.g. bm25")
    parts = [one(spec) for spec in specs]
    return parts[0] if len(parts) == 1 else Fused(parts, fusion)


class StockInMemory:
    """The products and passages of a folder, read and indexed now."""

    def __init__(self, folder: Path, k1: float = 1.2, b: float = 0.75) -> None:
        """Reads ``products.jsonl`` and ``passages.jsonl`` (.gz, .zst); indexes are made when asked for."""
        self.products = collections.read_products(folder)
        self.passages = collections.read_passages(folder)
        self.k1, self.b = k1, b
        self._made: dict[tuple[str, str], Retriever] = {}
        self._users: dict[str, list[Mapping[str, Any]]] | None = None

    def product_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        return _fused(specs, fusion, lambda spec: self._one("products", spec))

    def passage_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        return _fused(specs, fusion, lambda spec: self._one("passages", spec))

    def title_search(self) -> Retriever:
        return self._one("titles", "bm25")

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        if self._users is None:
            self._users = collections.users_of(self.products.values())
        return self._users.get(user, [])

    def _one(self, what: str, spec: str) -> Retriever:
        if (what, spec) not in self._made:
            texts = {
                "products": lambda: {name: one.text() for name, one in self.products.items()},
                "titles": lambda: {name: one.title for name, one in self.products.items()},
                "passages": lambda: {name: one.search_text() for name, one in self.passages.items()},
            }[what]()
            plain = Lexical(texts, self.k1, self.b) if spec == "bm25" else None
            self._made[what, spec] = plain or build(spec, texts)
        return self._made[what, spec]


class Records(Mapping[str, T]):
    """Lines of JSON on disk, each read and decoded when its id is asked for."""

    def __init__(self, folder: Path, read: Callable[[bytes], T]) -> None:
        """Opens the records of an index; RunError where there are none."""
        _, arrays = load_arrays(folder, _RECORDS, ["starts"], mapped=True)
        self._starts, self._read = arrays["starts"], read
        self._bytes = np.memmap(folder / "lines.bin", np.uint8, "r") if len(self._starts) > 1 else None
        self.ids = StoredIds(folder)

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


class StockOnDisk:
    """An index that :func:`write_index` made, opened: nothing is read but the words."""

    def __init__(self, folder: Path) -> None:
        """Raises RunError where there is no such index."""
        self.folder = folder
        self.facts, _ = load_arrays(folder, _KIND, [], mapped=True)
        self.products = Records(folder / "products" / "records", collections.product)
        self.passages = Records(folder / "passages" / "records", collections.passage)
        _, users = load_arrays(folder / "products" / "reviews", _REVIEWS, ["users", "rows"], mapped=True)
        self._users, self._rows = users["users"], users["rows"]
        self._made: dict[str, Retriever] = {}

    def product_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        return _fused(specs, fusion, lambda spec: self._one("products", spec))

    def passage_search(self, specs: Sequence[str], fusion: str) -> Retriever:
        return _fused(specs, fusion, lambda spec: self._one("passages", spec))

    def title_search(self) -> Retriever:
        return self._load("products/titles", Lexical.load)

    def reviews_of(self, user: str) -> list[Mapping[str, Any]]:
        code = _code(user)
        low, high = (int(np.searchsorted(self._users, code, side)) for side in ("left", "right"))
        bought = [self.products.row(row) for row in sorted(set(self._rows[low:high].tolist()))]
        return collections.users_of(bought).get(user, [])

    def _one(self, what: str, spec: str) -> Retriever:
        if spec == "bm25":
            return self._load(f"{what}/bm25", Lexical.load)
        if spec == f"dense:{self.facts['encoder']}":
            return self._load(f"{what}/dense", Dense.load)
        raise InputError(
            f"the index {self.folder.name!r} holds bm25 and dense:{self.facts['encoder']}, not {spec!r}; "
            "make one with: python -m crs_lib cosrec-index --encoder …"
        )

    def _load(self, place: str, load: Callable[[Path], Retriever]) -> Retriever:
        if place not in self._made:
            self._made[place] = load(self.folder / place)
        return self._made[place]


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
    return {path.name: hashes.sha256(path) for path in found if path.is_file()}


@dataclass(frozen=True)
class IndexReport:
    """What an index holds, and the files that it was made of with their SHA-256."""

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
    inputs = {path.name: hashes.sha256(path) for path in (products, passages) if path}
    facts: dict[str, Any] = {"encoder": encoder, "k1": k1, "b": b, "inputs": inputs}
    with new_folder(out, _KIND, facts) as aside:
        note("reading products")
        (aside / "products").mkdir()
        reviews = _Reviews()
        _write_records(aside / "products", collections.read_lines(products, _product_and_id), reviews.add)
        stored = Records(aside / "products" / "records", collections.product)
        reviews.save(aside / "products" / "reviews")
        note(f"{len(stored):,} products: words")
        _write_lexical(aside / "products" / "bm25", stored, CatalogueProduct.text, k1, b)
        note("titles")
        _write_lexical(aside / "products" / "titles", stored, lambda one: one.title, k1, b)
        note(f"vectors ({encoder})")
        _write_dense(aside / "products" / "dense", stored, CatalogueProduct.text, encoder)
        note("passages")
        (aside / "passages").mkdir()
        found = collections.read_lines(passages, _passage_and_id) if passages else iter(())
        _write_records(aside / "passages", found, lambda row, one: None)
        texts = Records(aside / "passages" / "records", collections.passage)
        _write_lexical(aside / "passages" / "bm25", texts, Passage.search_text, k1, b)
        _write_dense(aside / "passages" / "dense", texts, Passage.search_text, encoder)
        return IndexReport(len(stored), len(texts), len(reviews), inputs)


def _product_and_id(line: bytes) -> tuple[str, CatalogueProduct]:
    found = collections.product(line)
    return found.asin, found


def _passage_and_id(line: bytes) -> tuple[str, Passage]:
    found = collections.passage(line)
    return found.id, found


def _write_records(
    folder: Path,
    rows: Iterable[tuple[bytes, tuple[str, T]]],
    seen: Callable[[int, T], None],
) -> None:
    """Lines, where each starts, and their ids; an id that is empty, holds blanks or repeats is refused."""
    ids: dict[str, None] = {}
    starts = array("q", [0])
    with new_folder(folder / "records", _RECORDS, {}) as aside:
        with (aside / "lines.bin").open("wb") as file:
            for line, (name, record) in rows:
                if len(name.split()) != 1 or name in ids:
                    raise InputError(
                        f"id {name!r} is empty, holds blanks or is there twice; ids must be unique"
                    )
                seen(len(ids), record)
                ids[name] = None
                file.write(line)
                starts.append(starts[-1] + len(line))
        np.save(aside / "starts.npy", np.frombuffer(starts, dtype=np.int64), allow_pickle=False)
        save_ids(aside, list(ids))


def _code(name: str) -> int:
    """64 bits of a name's digest; two names may share one, so that a hit is compared in full."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class _Reviews:
    """Who reviewed which line: pairs of a user's code and the line's number, sorted when saved."""

    def __init__(self) -> None:
        self._users, self._rows = array("Q"), array("i")

    def __len__(self) -> int:
        return len(self._users)

    def add(self, row: int, product: CatalogueProduct) -> None:
        for review in product.reviews:
            self._users.append(_code(str(review["user"])))
            self._rows.append(row)

    def save(self, folder: Path) -> None:
        users = np.frombuffer(self._users, dtype=np.uint64)
        rows: NDArray[np.int32] = np.frombuffer(self._rows, dtype=np.int32)
        order = np.lexsort((rows, users))
        save_folder(folder, _REVIEWS, {}, {"users": users[order], "rows": rows[order]})


def _batches(records: Records[T], text: Callable[[T], str]) -> Iterator[list[str]]:
    rows = iter(range(len(records)))
    while part := list(islice(rows, _BATCH)):
        yield [text(records.row(row)) for row in part]


def _write_lexical(folder: Path, records: Records[T], text: Callable[[T], str], k1: float, b: float) -> None:
    index = Lexical(k1=k1, b=b)
    index.ids = records.ids
    index.index.fit(words(body) for part in _batches(records, text) for body in part)
    index.save(folder)


def _write_dense(folder: Path, records: Records[T], text: Callable[[T], str], encoder: str) -> None:
    Dense.write(folder, encoder, records.ids, _batches(records, text))
