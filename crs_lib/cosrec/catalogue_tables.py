"""The kept products and reviews of Amazon files as tables on disk, and their join by DuckDB.

Reading a category makes Parquet tables of records, products and reviews apart. Joining a range of keys sorts
the records of all tables by key and time: a product (time -1) is followed by its reviews, so one pass over
the rows writes the finished lines. DuckDB sorts on disk where a range exceeds its memory. Every task marks
itself as done with a small JSON file that appears last; a killed task is done again.
"""

import codecs
import gc
import hashlib
import heapq
import json
import shutil
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.cosrec.catalogue_files import Watched, decoder, ending, unpacked
from crs_lib.cosrec.catalogue_rules import Rules, encoders, product, review

META_FIELDS = (
    "parent_asin", "title", "description", "features", "details", "categories", "rating_number",
    "average_rating", "store", "price",
)  # fmt: skip
REVIEW_FIELDS = (
    "parent_asin", "user_id", "timestamp", "rating", "title", "text", "verified_purchase", "helpful_vote",
    "sort_timestamp", "helpful_votes",
)  # fmt: skip
KINDS = ("metas", "reviews")
MEMORY = "128MB"  # of DuckDB in one process; larger sorts go to disk
_ROWS = 8_192  # records of a batch, and of a row group: a range of keys reads few row groups besides its own
_TABLE = 256 * 2**20  # bytes of a table: sorted with MEMORY, whatever the size of the category
_SAMPLE = 20_000  # records that the bounds of the ranges are taken from
_SOME = 100  # reviews that are written at once
_SHOWN = 300  # characters of a quarantined line that are kept
_LARGEST = 2**63 - 1

Progress = Callable[[int], object]


class Source(NamedTuple):
    """One category: its name and its two files."""

    name: str
    metas: str
    reviews: str


class Job(NamedTuple):
    """The settings that all tasks of a run share: work folder, filters, categories in order of name.

    ``sorted_tables``: tables are sorted by key, so that each of several ranges reads its own rows only.
    """

    work: str
    rules: Rules
    most_reviews: int
    categories: tuple[str, ...]
    sorted_tables: bool = False

    def tables(self, kind: str, category: str) -> list[str]:
        """The tables of a category's products (``metas``) or reviews."""
        return [str(path) for path in sorted((Path(self.work) / kind / category).glob("*.parquet"))]

    def all_tables(self) -> list[tuple[int, str]]:
        """All tables, each with the place of its category."""
        places = list(enumerate(self.categories))
        return [(n, path) for kind in KINDS for n, name in places for path in self.tables(kind, name)]


# A record as it is written: key, time (a product: -1), rating (a product: 0), rank, body. ``rank`` orders
# what key and time leave equal: a product's number of ratings; with the legacy rules the place in the file.
# The body is JSON, empty for a review of which only the rating counts.
Row = tuple[str, int, int, int, bytes]
JoinedRow = tuple[bytes, int, int, int, bytes, int]  # the same, and the place of its table among all tables


def marked(folder: Path, name: str) -> dict[str, Any] | None:
    """The facts that a finished task recorded, or None where the task is not finished."""
    place = folder / f"{name}.done.json"
    if not place.exists():
        return None
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return found


def _mark(folder: Path, name: str, facts: dict[str, Any]) -> None:
    """Say that a task is finished, with what it found."""
    tables.write_json(folder / f"{name}.done.json", facts)


def forget(work: Path, category: str, kinds: Iterable[str]) -> None:
    """Remove the marks of a category's tables, so that they are made anew."""
    for kind in kinds:
        with suppress(FileNotFoundError):
            (work / kind / f"{category}.done.json").unlink()


@contextmanager
def _database(spill: Path) -> Iterator[Any]:
    """A DuckDB connection of one thread and ``MEMORY``; what exceeds it goes into the folder ``spill``."""
    import duckdb

    shutil.rmtree(spill, ignore_errors=True)
    config = {"threads": 1, "memory_limit": MEMORY, "temp_directory": str(spill)}
    connection = duckdb.connect(":memory:", config=config)
    try:
        yield connection
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


class _CategoryFile:
    """One input file on its way into a table: its counts, its unreadable lines, its hash."""

    def __init__(self, job: Job, kind: str, category: str, path: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._folder, self._category, self._path = Path(job.work) / kind, category, path
        self._sorted = job.sorted_tables
        self._sha256 = ""
        self._unreadable: list[dict[str, Any]] = []

    def _quarantine(self, line: int, why: str, raw: bytes) -> None:
        start = raw[:_SHOWN].decode("utf-8", "replace").rstrip("\r\n")
        self._unreadable.append({"file": self._path.name, "line": line, "why": why, "start": start})

    def lines(self, fields: tuple[str, ...], progress: Progress | None) -> Iterator[tuple[bytes, Any]]:
        """The readable lines of the file and their objects; RunError where the file is damaged.

        Blank lines are passed over, lines that cannot be read go to quarantine.
        """
        raw, decode, number = Watched(self._path, progress), decoder(fields), 0
        try:
            for number, line in enumerate(unpacked(raw, ending(self._path)), start=1):
                try:
                    record = decode(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
                except RecursionError:
                    self._quarantine(number, "nested too deeply", line)
                except ValueError as error:  # also UnicodeDecodeError and json's
                    if not line.isspace():
                        encoding = isinstance(error, UnicodeDecodeError)
                        self._quarantine(number, "not UTF-8" if encoding else "not a JSON object", line)
                else:
                    yield line, record
            self._sha256 = raw.digest.hexdigest()
        except (EOFError, OSError, zlib.error) as error:
            self._quarantine(number, f"file damaged: {error}", b"")
            raise RunError(
                f"{self._path.name} breaks off after line {number} ({error}); replace the file and start "
                "the same command again: what is finished is kept"
            ) from error
        finally:
            raw.close()
            tables.write_jsonl(self._folder / f"{self._category}.quarantine.jsonl", self._unreadable)

    def write(self, rows: Iterator[Row]) -> None:
        """Write the rows as tables of about ``_TABLE`` bytes, and mark the category as finished."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            "key": pa.string(), "time": pa.int64(), "rating": pa.int8(), "rank": pa.int64(),
            "body": pa.string(),
        }  # fmt: skip
        schema, folder = pa.schema(columns), self._folder / self._category
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        filled, number = True, 0
        while filled:
            path, size = folder / f"{number:05d}.parquet", 0
            with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as table:
                while size < _TABLE and (batch := list(islice(rows, _ROWS))):
                    records = pa.record_batch(list(zip(*batch, strict=True)), schema=schema)
                    table.write_batch(records)
                    size += records.nbytes
            if self._sorted:
                _sort(path)
            filled, number = size >= _TABLE, number + 1
        self.counts["unreadable"] = len(self._unreadable)
        counts = {name: n for name, n in self.counts.items() if n}
        _mark(self._folder, self._category, {"counts": counts, "sha256": self._sha256})


def _sort(table: Path) -> None:
    """Sort a table by key, so that a range of keys reads few of its row groups."""
    aside = table.with_suffix(".sorted")
    with _database(table.with_suffix(".spill")) as connection:
        rows = connection.sql("SELECT * FROM read_parquet($1) ORDER BY key, time", params=[str(table)])
        rows.write_parquet(str(aside), compression="lz4_raw", row_group_size=_ROWS)
    aside.replace(table)


@contextmanager
def _uncollected() -> Iterator[None]:
    """The cyclic garbage collector paused: rows of plain values make no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@_uncollected()
def read_category(job: Job, source: Source, progress: Progress | None = None) -> None:
    """Make the tables of a category's kept products and reviews, those that are not finished yet."""
    prefix = f"{source.name}\t" if job.rules.legacy else ""  # legacy joins within a category only
    if marked(Path(job.work) / "metas", source.name) is None:
        metas = _CategoryFile(job, "metas", source.name, Path(source.metas))
        metas.write(_products(job, metas, prefix, progress))
    if marked(Path(job.work) / "reviews", source.name) is None:
        known = known_keys(job.tables("metas", source.name))
        reviews = _CategoryFile(job, "reviews", source.name, Path(source.reviews))
        reviews.write(_reviews(job, reviews, prefix, known, progress))


def _products(job: Job, file: _CategoryFile, prefix: str, progress: Progress | None) -> Iterator[Row]:
    counts, encode, legacy = file.counts, encoders(), job.rules.legacy
    for _, row in file.lines(META_FIELDS, progress):
        counts["read"] += 1
        kept = product(row, job.rules, encode)
        if isinstance(kept, str):
            counts[f"dropped: {kept}"] += 1
            continue
        counts["kept"] += 1
        rank = counts["kept"] if legacy else min(kept.ratings, _LARGEST)
        yield prefix + kept.asin if legacy else kept.asin.upper(), -1, 0, rank, kept.body


def _reviews(
    job: Job, file: _CategoryFile, prefix: str, known: Container[str], progress: Progress | None
) -> Iterator[Row]:
    counts, encode, rules, legacy = file.counts, encoders(), job.rules, job.rules.legacy
    read = kept = unknown = 0
    for line, row in file.lines(REVIEW_FIELDS, progress):
        read += 1
        asin = row.parent_asin
        if not isinstance(asin, str):
            counts["dropped: asin"] += 1
            continue
        key = prefix + asin if legacy else asin.upper()
        if key not in known:
            unknown += 1
            continue
        found = review(row, rules, encode, b"\\" not in line)
        if len(found) == 2:
            counts[f"dropped: {found[0]}"] += 1
            if found[1] is None:
                continue
            found = found[1]
        else:
            kept += 1
        time, rating, body = found
        yield key, time, rating, read if legacy else 0, body
    counts.update({"read": read, "kept": kept, "dropped: not in catalogue": unknown})


_EXACT = 500_000  # keys up to this many are kept as they are, more as sorted 64-bit digests


class _Digests:
    """Keys by their digests, 8 bytes each; two of 48 million keys share one with probability 1 in 16,000."""

    def __init__(self, keys: Iterable[str]) -> None:
        import numpy as np

        made = np.unique(np.fromiter(map(_digest, keys), dtype=np.uint64))
        self._digests = array("Q", made.tobytes())

    def __contains__(self, key: object) -> bool:
        wanted = _digest(str(key))
        place = bisect_right(self._digests, wanted)
        return place > 0 and self._digests[place - 1] == wanted


def known_keys(products: Sequence[str]) -> Container[str]:
    """The keys of a category's kept products, in memory that stays bounded."""
    import pyarrow.parquet as pq

    files = [pq.ParquetFile(path) for path in products]
    keys = (
        key
        for file in files
        for batch in file.iter_batches(_ROWS, columns=["key"])
        for key in batch.column(0).to_pylist()
    )
    return _Digests(keys) if sum(file.metadata.num_rows for file in files) > _EXACT else set(keys)


def _digest(key: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


class KeyRange(NamedTuple):
    """The keys from ``low`` up to, not including, ``high`` (None: to the end); ``number`` counts from 0."""

    number: int
    low: str
    high: str | None

    @property
    def name(self) -> str:
        """The name of the range's file of finished lines."""
        return f"{self.number:05d}"


def key_ranges(bounds: Iterable[str]) -> list[KeyRange]:
    """The ranges that the bounds cut the keys into."""
    cuts = ["", *bounds, None]
    return [KeyRange(n, low or "", high) for n, (low, high) in enumerate(pairwise(cuts))]


def bounds(job: Job, parts: int) -> list[str]:
    """Keys that cut the records into at most so many parts of about equal size, in order."""
    if parts == 1:
        return []
    with _database(Path(job.work) / "bounds.spill") as connection:
        sample = f"SELECT key FROM read_parquet($1) USING SAMPLE reservoir({_SAMPLE} ROWS) REPEATABLE (1)"
        paths = [path for _, path in job.all_tables()]
        keys = sorted(key for (key,) in connection.execute(sample, [paths]).fetchall())
    return sorted({keys[len(keys) * n // parts] for n in range(1, parts)} if keys else ())


_RECORDS = """
SELECT key, time, rating, rank, body, file_index FROM read_parquet($1)
WHERE key >= $2 AND ($3 IS NULL OR key < $3) ORDER BY {order}
"""
_ORDER = {False: "key, time, rating", True: "key, time, rank"}  # legacy: equal times as in the file


@_uncollected()
def join(job: Job, keys: KeyRange, progress: Progress | None = None) -> None:
    """Join one range: its products with their reviews, sorted by key, one finished JSON line each."""
    folder, name = Path(job.work) / "joined", keys.name
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    query = _RECORDS.format(order=_ORDER[job.rules.legacy])
    places, paths = zip(*job.all_tables(), strict=True)
    with _database(folder / f"{name}.spill") as connection, (folder / name).open("wb") as file:
        found = connection.sql(query, params=[list(paths), keys.low, keys.high]).to_arrow_reader(_ROWS)
        rows = (zip(*map(_values, batch.columns), strict=True) for batch in found)
        for _, group in groupby(chain.from_iterable(rows), key=itemgetter(0)):
            same, reviews = _products_and_reviews(group)
            if same:  # else two keys share a digest, and the one without a product ends here
                counts["duplicate products"] += len(same) - 1
                counts["products"] += 1
                _write_line(file, job, _chosen(job, same, places), reviews, counts)
    _mark(folder, name, {"counts": dict(counts)})
    if progress:
        progress(1)


def _values(column: Any) -> list[Any]:
    """A column's values; texts as UTF-8, which is what goes out."""
    import pyarrow as pa

    if pa.types.is_string(column.type):
        return list(column.cast(pa.binary()).to_pylist())
    return list(column.to_numpy().tolist())


def _products_and_reviews(group: Iterator[JoinedRow]) -> tuple[list[JoinedRow], Iterator[JoinedRow]]:
    products: list[JoinedRow] = []
    for row in group:
        if row[1] >= 0:
            return products, chain((row,), group)
        products.append(row)
    return products, iter(())


def _chosen(job: Job, same: list[JoinedRow], places: Sequence[int]) -> bytes:
    """The body of a product given several times: the last (legacy), or the first category's most rated."""
    if job.rules.legacy:
        return same[-1][4]
    first = min(places[table] for *_, table in same)
    return max((rank, body) for _, _, _, rank, body, table in same if places[table] == first)[1]


def _write_line(
    file: IO[bytes], job: Job, body: bytes, rows: Iterator[JoinedRow], counts: Counter[str]
) -> None:
    """Write a product's line with its reviews by time and the statistics of its ratings."""
    stars = [0] * 6
    kept = _all(rows, stars) if job.rules.legacy else _distinct(rows, stars, counts)
    shown = _most_helpful(kept, job.most_reviews, counts) if job.most_reviews else kept
    file.write(body[:-1] + b',"valid_reviews":[')
    texts, written = filter(None, shown), 0
    while some := list(islice(texts, _SOME)):
        file.write(b",%b" % b",".join(some) if written else b",".join(some))
        written += len(some)
    if written:
        counts["reviews"] += written
    total = 5 if job.rules.legacy else sum(stars)
    average = sum(grade * n for grade, n in enumerate(stars)) / total if total else None
    histogram = b'{"1":%d,"2":%d,"3":%d,"4":%d,"5":%d}' % tuple(stars[1:])
    numbers = b'"num_valid_ratings":%d,"avg_valid_ratings":%b' % (total, json.dumps(average).encode())
    file.write(b'],"valid_ratings":%b,%b}\n' % (histogram, numbers))


def _all(rows: Iterator[JoinedRow], stars: list[int]) -> Iterator[bytes]:
    """The bodies of reviews, their ratings counted."""
    for _, _, rating, _, body, _ in rows:
        stars[rating] += 1
        yield body


def _distinct(rows: Iterator[JoinedRow], stars: list[int], counts: Counter[str]) -> Iterator[bytes]:
    """The bodies of reviews without copies, their ratings counted; of equal time and rating in order of text.

    Of reviews that differ in their votes alone, the one with most is kept.
    """
    for (_, rating), same in groupby(rows, key=itemgetter(1, 2)):
        bodies = [row[4] for row in same]
        if len(bodies) > 1:
            by_text = {_before_votes(body): body for body in sorted(bodies, key=_votes)}
            if len(by_text) < len(bodies):
                counts["duplicate reviews"] += len(bodies) - len(by_text)
            bodies = sorted(by_text.values())
        stars[rating] += len(bodies)
        yield from bodies


def _before_votes(body: bytes) -> bytes:
    return body[: body.rindex(b":")]


def _votes(body: bytes) -> int:
    """The number of people who found a review helpful: the last field of its JSON."""
    return int(body[body.rindex(b":") + 1 : -1])


def _most_helpful(bodies: Iterator[bytes], most: int, counts: Counter[str]) -> list[bytes]:
    """The reviews with most votes, of equals the newer; in the order of time as before."""
    passed = 0

    def texts() -> Iterator[tuple[int, int, bytes]]:
        nonlocal passed
        for place, body in enumerate(bodies):
            if body:
                passed += 1
                yield _votes(body), place, body

    best = heapq.nlargest(most, texts())
    counts["reviews over the limit"] += passed - len(best)
    return [body for _, _, body in sorted(best, key=lambda item: item[1])]
