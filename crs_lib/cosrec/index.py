"""Products and passages ready to be searched: in memory from a folder, or from an index on disk.

``python -m crs_lib cosrec index`` writes the index once. Everything in it is memory-mapped: a product is
read from the disk when somebody asks for it, so that a million of them open in less than a second.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

import numpy as np

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import words
from crs_lib.cosrec import corpus
from crs_lib.cosrec.catalogue_tables import name_digest
from crs_lib.cosrec.records import (
    MAKE_PRODUCTS,
    CatalogueProduct,
    D,
    Passage,
    Review,
    file_of,
    files_of,
    read_lines,
)
from crs_lib.retrieval.bm25 import BM25, Lexical
from crs_lib.retrieval.encoders import ENCODERS, Dense, Encoder, by_batch
from crs_lib.retrieval.fusion import RETRIEVERS, Fused, Retriever, build
from crs_lib.retrieval.store import StoredIds, mapped, new_folder, read_header

_KIND = "crs-cosrec-3"
_COLLECTIONS = ("products", "passages")


def _by_user(products: Iterable[CatalogueProduct]) -> dict[str, list[Review]]:
    """The reviews of each user over the products, newest first."""
    by_user: dict[str, list[Review]] = {}
    for product in products:
        for review in product.reviews:
            by_user.setdefault(review.user, []).append(review)
    for reviews in by_user.values():
        reviews.sort(key=lambda review: (-review.timestamp, *review[2:]))
    return by_user


class Stock:
    """The products and passages of a folder, read now, and searches over both, made when asked for."""

    products: Mapping[str, CatalogueProduct]
    passages: Mapping[str, Passage]

    def __init__(
        self, folder: Path | str, k1: float = 1.2, b: float = 0.75, needs: Sequence[str] = _COLLECTIONS
    ) -> None:
        """Reads ``products.jsonl`` and ``passages.jsonl`` (.gz, .zst); what is not there is empty, and a
        RunError where the caller ``needs`` it.
        """
        self.k1 = k1
        self.b = b
        self.products = _by_id(Path(folder), "products", CatalogueProduct, needs)
        self.passages = _by_id(Path(folder), "passages", Passage, needs)
        self._retrievers: dict[tuple[str, str], Retriever] = {}

    def records(self, collection: str) -> Mapping[str, CatalogueProduct] | Mapping[str, Passage]:
        """The records of a collection: passages; products also for ``titles``."""
        return self.passages if collection == "passages" else self.products

    def has(self, collection: str) -> bool:
        """Whether there is any record of a collection."""
        return len(self.records(collection)) > 0

    def search(self, collection: str, specs: Sequence[str] = ("bm25",), fusion: str = "stratum") -> Retriever:
        """A retriever over ``products``, ``passages`` or ``titles``, fused where several specs are given."""
        if not specs:
            raise InputError("no retriever named; give at least one, e.g. bm25")
        parts = []
        for spec in specs:
            if (collection, spec) not in self._retrievers:
                self._retrievers[collection, spec] = self._make(collection, spec)
            parts.append(self._retrievers[collection, spec])
        if len(parts) == 1:
            return parts[0]
        return Fused(parts, fusion)

    def reviews_of(self, user: str) -> list[Review]:
        """A user's reviews over all products, newest first; an empty list for an unknown user."""
        return self._users.get(user, [])

    @cached_property
    def _users(self) -> dict[str, list[Review]]:
        return _by_user(self.products.values())

    def _make(self, collection: str, spec: str) -> Retriever:
        texts = {}
        for name, record in self.records(collection).items():
            texts[name] = record.title if collection == "titles" else record.search_text()
        return build(spec, texts, k1=self.k1, b=self.b)


def _by_id(folder: Path, name: str, kind: type[D], needs: Sequence[str]) -> dict[str, D]:
    path = file_of(folder, name)
    if name not in needs and not path.exists():
        return {}
    return {record.id: record for _, record in read_lines(path, kind)}


class _StoredRecords(Mapping[str, D], Generic[D]):
    """A collection of an index: lines of JSON on disk, each read and decoded when its id is asked for."""

    def __init__(self, folder: Path, kind: type[D]) -> None:
        """Opens the records of a collection; RunError where there are none."""
        self._kind = kind
        self._starts = mapped(folder, "starts")
        self._bytes = np.zeros(0, np.uint8)
        if len(self._starts) > 1:
            self._bytes = np.memmap(folder / "lines.bin", np.uint8, "r")
        self.ids = StoredIds(folder, len(self._starts) - 1)

    def __getitem__(self, name: str) -> D:
        row = self.ids.row(name)
        if row is None:
            raise KeyError(name)
        return self.row(row)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def in_order(self) -> Iterator[D]:
        """All records, in the order of the lines."""
        return map(self.row, range(len(self)))

    def texts(self) -> Iterator[str]:
        """The texts by which all records are found, in order."""
        return (record.search_text() for record in self.in_order())

    def row(self, number: int) -> D:
        """The record of a line, counted from 0."""
        start, end = self._starts[number : number + 2].tolist()
        return self._kind.read(self._bytes[start:end].tobytes())


class StockOnDisk(Stock):
    """An index that :func:`write_index` made, opened: nothing is read but the words."""

    products: _StoredRecords[CatalogueProduct]
    passages: _StoredRecords[Passage]

    def __init__(self, folder: Path) -> None:
        """Raises RunError where there is no such index."""
        self.folder = folder
        self.facts = read_header(folder, _KIND)
        self.products = _StoredRecords(folder / "products", CatalogueProduct)
        self.passages = _StoredRecords(folder / "passages", Passage)
        self._retrievers = {}

    def reviews_of(self, user: str) -> list[Review]:
        """As that of a stock in memory; only the user's products are read."""
        users = mapped(self.folder / "products", "users")
        rows = mapped(self.folder / "products", "rows")
        digest = name_digest(user)
        low = np.searchsorted(users, digest, "left")
        high = np.searchsorted(users, digest, "right")
        products = [self.products.row(row) for row in sorted(set(rows[low:high].tolist()))]
        return _by_user(products).get(user, [])

    def _make(self, collection: str, spec: str) -> Retriever:
        records: _StoredRecords[Any] = self.products
        folder = self.folder / "products"
        if collection == "passages":
            records = self.passages
            folder = self.folder / "passages"
        if RETRIEVERS.get(spec).facts.get("made"):
            return RETRIEVERS.create(spec, texts=records, k1=self.facts["k1"], b=self.facts["b"])
        encoder = self.facts["encoder"]
        if spec == "bm25":
            lexical = Lexical()
            lexical.ids = records.ids
            part = "titles" if collection == "titles" else "words"
            lexical.index = BM25.load(folder, part, len(records))
            return lexical
        if spec == f"dense:{encoder}":
            dense = Dense(encoder)
            dense.ids = records.ids
            dense.vectors = mapped(folder, "vectors")
            return dense
        holds = f"the index {self.folder.name!r} holds bm25 and dense:{encoder}, not {spec!r}"
        raise InputError(f"{holds}; make one with: python -m crs_lib cosrec index --encoder …")


def opened(
    folder: Path | str,
    index: str = "",
    k1: float = 1.2,
    b: float = 0.75,
    needs: Sequence[str] = _COLLECTIONS,
) -> Stock:
    """The stock of a corpus folder, or of an index where one is named. Raises RunError where the folder lacks
    what the caller ``needs``, InputError where the index was made with another ``k1`` or ``b``.
    """
    if not index:
        return Stock(folder, k1, b, needs)
    stock = StockOnDisk(paths.given(index))
    own_k1 = stock.facts["k1"]
    own_b = stock.facts["b"]
    if (own_k1, own_b) != (k1, b):
        raise InputError(f"the index was made with k1={own_k1}, b={own_b}; asked for k1={k1}, b={b}")
    return stock


def shop(source: str) -> Path:
    """Where products and passages are: a corpus, a folder with ``products.jsonl``, or a file of products.
    RunError where there is neither.
    """
    if source in ("sample", "cosrec"):
        return corpus.locate(source)
    path = paths.given(source)
    if path.is_file() or file_of(path, "products").exists():
        return path
    forms = "a file of products, or a folder with products.jsonl and passages.jsonl (.gz, .zst)"
    raise RunError(f"no products in {source!r}; give {forms}; {MAKE_PRODUCTS}")


def digests(folder: Path, index: str = "") -> dict[str, str]:
    """Names and SHA-256 of the files that a stock comes from, as inputs of a stage."""
    if index:
        return dict(StockOnDisk(paths.given(index)).facts["inputs"])
    files: list[Path] = []
    for name in _COLLECTIONS:
        files += filter(Path.is_file, files_of(file_of(folder, name)))
    return _digests(files)


def _digests(files: Iterable[Path]) -> dict[str, str]:
    return {path.name: tables.sha256(path) for path in files}


def write_index(
    products: Path | str,
    out: Path | str,
    passages: Path | str | None = None,
    *,
    encoder: str = "hashing",
    k1: float = 1.2,
    b: float = 0.75,
    note: Callable[[str], object] = lambda text: None,
) -> dict[str, int]:
    """Index a file of products, and one of passages where it is given, in bounded memory; returns how many of
    each and of reviews. The folder appears whole or not at all; an older index there is replaced. ``note`` is
    told what is being done. Raises InputError for a broken line, an id that is there twice or holds blanks,
    or another folder in the way; RunError where a file is missing.
    """
    products = Path(products)
    model = ENCODERS.create(encoder)
    bm25 = BM25(k1, b)
    files = files_of(products)
    if passages:
        passages = Path(passages)
        files += files_of(passages)
    inputs = _digests(files)  # before anything is written: what cannot be read is refused first
    counts = {}
    with new_folder(Path(out), _KIND, {"encoder": encoder, "k1": k1, "b": b, "inputs": inputs}) as aside:
        note("reading products")
        _write_lines(aside / "products", read_lines(products, CatalogueProduct))
        shop = _StoredRecords(aside / "products", CatalogueProduct)
        counts["products"] = len(shop)
        note(f"{len(shop):,} products: words, vectors ({encoder})")
        _write_searches(shop, aside / "products", bm25, model)
        bm25.fit(words(product.title) for product in shop.in_order()).save(aside / "products", "titles")
        note("reading passages")
        _write_lines(aside / "passages", read_lines(passages, Passage) if passages else ())
        documents = _StoredRecords(aside / "passages", Passage)
        counts["passages"] = len(documents)
        note(f"{len(documents):,} passages: words, vectors ({encoder})")
        _write_searches(documents, aside / "passages", bm25, model)
        counts["reviews"] = len(mapped(aside / "products", "users"))
    return counts


def _write_lines(folder: Path, lines: Iterable[tuple[bytes, D]]) -> None:
    """Write lines, where each starts, their ids, and who reviewed which line: a user's code and the line's
    number.
    """
    ids: list[str] = []
    starts = array("q", [0])
    users = array("Q")
    rows = array("i")
    folder.mkdir()
    with (folder / "lines.bin").open("wb") as file:
        for line, record in lines:
            for review in getattr(record, "reviews", ()):
                users.append(name_digest(str(review.user)))
                rows.append(len(ids))
            ids.append(record.id)
            file.write(line)
            starts.append(starts[-1] + len(line))
    order = np.lexsort((rows, users))
    np.save(folder / "users.npy", np.array(users)[order])
    np.save(folder / "rows.npy", np.array(rows)[order])
    np.save(folder / "starts.npy", starts)
    StoredIds.save(folder, ids)


def _write_searches(records: _StoredRecords[D], folder: Path, bm25: BM25, model: Encoder) -> None:
    """Write the words and the vectors of a collection."""
    bm25.fit(map(words, records.texts())).save(folder, "words")
    batches = by_batch(model, records.texts())
    shape = (len(records), next(batches).shape[1])
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.dtype("<f4"), shape)
    start = 0
    for batch in batches:
        vectors[start : start + len(batch)] = batch
        start += len(batch)
    vectors.flush()
