"""The kept products and reviews of Amazon files as tables on disk, and their join by DuckDB.

Reading a category makes Parquet tables of records, products and reviews apart. Joining a range of keys sorts
the records of all tables by key and time: a product (time -1) is followed by its reviews, so one pass over
the rows writes the finished lines. DuckDB sorts on disk where a range exceeds its memory. Every task marks
itself as done with a small JSON file that appears last; a killed task is done again.
"""

import codecs
import gc
import gzip
import hashlib
import heapq
import io
import json
import shutil
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, count, groupby, islice, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from crs_lib.core import safety, tables
from crs_lib.core.errors import RunError
from crs_lib.cosrec.catalogue_rules import Encode, Options, product, review

_META = "parent_asin title description features details categories rating_number average_rating store price"
_REVIEW = "parent_asin user_id timestamp rating title text verified_purchase helpful_vote"
FIELDS = {"metas": _META.split(), "reviews": [*_REVIEW.split(), "sort_timestamp", "helpful_votes"]}
KINDS = ("metas", "reviews")
MEMORY = "128MB"  # of DuckDB in one process; larger sorts go to disk
_FORM = 3  # of the tables; those of another form are made anew
_ROWS = 8_192  # records of a batch, and of a row group: a range of keys reads few row groups besides its own
_TABLE = 256 * 2**20  # bytes of a table: sorted with MEMORY, whatever the size of the category
_SAMPLE = 20_000  # records that the bounds of the ranges are taken from
_EXACT = 500_000  # keys up to this many are kept as they are, more as sorted 64-bit digests
_SOME = 100  # reviews that are written at once
LOST = "kept with U+FFFD"  # the count of records that lost a character before they came here
_LOST = "\ufffd".encode()
_SHOWN = 300  # characters of a quarantined line that are kept
_LARGEST = 2**63 - 1
_BUFFER = 1 << 18

Progress = Callable[[int], object]
# A record as it is written: key, time (a product: -1), rating (a product: 0), rank, body. ``rank`` orders
# what key and time leave equal: a product's number of ratings; with the legacy rules the place in the file.
# The body is JSON, empty for a review of which only the rating counts.
Row = tuple[str, int, int, int, bytes]
_COLUMNS = ("key", "time", "rating", "rank", "body")
Facts = dict[str, Any]  # of a finished task, as JSON


class Source(NamedTuple):
    """One category: its name and its two files."""

    name: str
    metas: str
    reviews: str

    def file(self, kind: str) -> Path:
        """The file of a kind: metas or reviews."""
        return Path(self.metas if kind == "metas" else self.reviews)

    def made_of(self, kind: str) -> list[Any]:
        """What the tables of a kind depend on besides the settings: a file's name, size and time."""
        parts: list[Any] = [_FORM]
        for path in [Path(self.metas), Path(self.reviews)][: KINDS.index(kind) + 1]:
            facts = path.stat()
            parts.append([path.name, facts.st_size, facts.st_mtime_ns])
        return parts


@dataclass(frozen=True)
class Job:
    """The settings that all tasks of a run share: work folder, filters, categories in order of name.
    ``sorted_tables``: tables are sorted by key, so that each of several ranges reads its own rows only.
    """

    work: Path
    options: Options
    sources: tuple[Source, ...]
    sorted_tables: bool = False

    def facts(self, kind: str, source: Source) -> Facts | None:
        """The facts of a category's finished tables; None where they are missing or made of other files."""
        return finished(self.work / kind, source.name, source.made_of(kind))

    def tables(self, kind: str, source: Source) -> list[str]:
        """The tables of a category's products (``metas``) or reviews."""
        return [str(path) for path in sorted((self.work / kind / source.name).glob("*.parquet"))]

    def all_tables(self) -> dict[str, int]:
        """All tables, each with the number of its category."""
        numbers = {}
        for kind in KINDS:
            for number, source in enumerate(self.sources):
                for path in self.tables(kind, source):
                    numbers[path] = number
        return numbers


class Part(NamedTuple):
    """The keys from ``low`` up to, not including, ``high`` (None: to the end), and what they are made of.
    ``name`` is that of the file of finished lines.
    """

    name: str
    low: str
    high: str | None
    of: str


def finished(folder: Path, name: str, of: Any) -> Facts | None:
    """The facts that a finished task recorded; None where it is not, or was made ``of`` something else."""
    path = folder / f"{name}.done.json"
    if not path.exists():
        return None
    facts: Facts = json.loads(path.read_text(encoding="utf-8"))
    return facts if facts.get("of") == of else None


def _finish(folder: Path, name: str, of: Any, facts: Facts) -> Facts:
    """Say that a task is finished, with its facts."""
    tables.write_json(folder / f"{name}.done.json", {"of": of, **facts})
    return facts


@contextmanager
def _database(spill: Path) -> Iterator[Any]:
    """A DuckDB connection of one thread and ``MEMORY``; what exceeds it goes into the folder ``spill``."""
    import duckdb

    shutil.rmtree(spill, ignore_errors=True)
    config = {"threads": 1, "memory_limit": MEMORY, "temp_directory": str(spill)}
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            yield connection
    finally:
        shutil.rmtree(spill, ignore_errors=True)


@contextmanager
def _uncollected() -> Iterator[None]:
    """The cyclic garbage collector paused: rows of plain values make no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_uncollected()
def read_category(job: Job, source: Source, progress: Progress | None = None) -> None:
    """Make the tables of a category's kept products and reviews, those that are not finished yet. Blank lines
    are passed over, lines that cannot be read go to quarantine. Raises RunError for a damaged file.
    """
    for kind in KINDS:
        if job.facts(kind, source) is None:
            _read_file(job, source, kind, progress)


def _read_file(job: Job, source: Source, kind: str, progress: Progress | None) -> None:
    folder = job.work / kind
    path = source.file(kind)
    of = source.made_of(kind)
    reader = _LineReader(path, FIELDS[kind], progress)
    counts: Counter[str] = Counter()
    rows = _products(job, source, reader, counts)
    if kind == "reviews":
        rows = _reviews(job, source, reader, counts)
    try:
        _write_tables(folder / source.name, rows, job.sorted_tables)
    finally:
        tables.write_jsonl(folder / f"{source.name}.quarantine.jsonl", reader.unreadable)
    counts["unreadable"] = len(reader.unreadable)
    positive = {name: count for name, count in counts.items() if count}
    _finish(folder, source.name, of, {"counts": positive, "sha256": tables.sha256(path)})


class _LineReader:
    """The readable lines of a plain or packed file, with their objects; the others are ``unreadable``."""

    def __init__(self, path: Path, fields: Sequence[str], progress: Progress | None = None) -> None:
        self.unreadable: list[dict[str, Any]] = []
        self._path = path
        self._decode = decoder(fields)
        self._progress = progress

    def __iter__(self) -> Iterator[tuple[bytes, Any]]:
        import pyarrow as pa

        raw = pa.OSFile(str(self._path))
        packing = {".gz": "gzip", ".zst": "zstd"}.get(self._path.suffix)
        stream = io.BufferedReader(pa.input_stream(raw, compression=packing), _BUFFER)
        number = seen = 0
        with safety.unpacked(stream, self._path) as file:
            try:
                for number, line in enumerate(file, start=1):
                    record = self._record(number, line)
                    if record is not None:
                        yield line, record
                    if self._progress and number % _ROWS == 0:
                        self._progress(raw.tell() - seen)
                        seen = raw.tell()
            except OSError as error:
                self._quarantine(number, f"file damaged: {error}", b"")
                damage = f"{self._path.name} breaks off after line {number} ({error})"
                raise RunError(f"{damage}; replace it and start again: what is finished is kept") from error
        if self._progress:
            self._progress(self._path.stat().st_size - seen)

    def _record(self, number: int, line: bytes) -> Any:
        """The object of a line; None for one that is blank or cannot be read."""
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            return self._decode(line)
        except RecursionError:
            self._quarantine(number, "nested too deeply", line)
        except UnicodeDecodeError:
            self._quarantine(number, "not UTF-8", line)
        except ValueError:  # also json's
            if not line.isspace():
                self._quarantine(number, "not a JSON object", line)
        return None

    def _quarantine(self, number: int, why: str, line: bytes) -> None:
        start = line[:_SHOWN].decode("utf-8", "replace").rstrip("\r\n")
        self.unreadable.append({"file": self._path.name, "line": number, "why": why, "start": start})


def decoder(fields: Sequence[str]) -> Callable[[bytes], Any]:
    """A function from a line to an object with these attributes alone, None where the line lacks one. It
    accepts exactly what ``json`` accepts. Raises ValueError for what is no JSON object. The class is made
    here since msgspec is optional; a dataclass in its place costs a sixth of the time of a build.
    """
    import msgspec

    form = msgspec.defstruct("Row", [(name, Any, None) for name in fields], gc=False)
    decode = msgspec.json.Decoder(form).decode

    def read(line: bytes) -> Any:
        try:
            return decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            plain = json.loads(line.decode("utf-8"))
            if not isinstance(plain, dict):
                raise ValueError("not an object") from None
            return form(**{name: plain.get(name) for name in fields})

    return read


def encoder() -> Encode:
    """Compact JSON in UTF-8, ten times as fast as json's."""
    import msgspec

    encode: Encode = msgspec.json.Encoder().encode
    return encode


def _products(job: Job, source: Source, lines: _LineReader, counts: Counter[str]) -> Iterator[Row]:
    encode = encoder()
    for _, row in lines:
        counts["read"] += 1
        result = product(row, job.options, encode)
        if isinstance(result, str):
            counts[f"dropped: {result}"] += 1
            continue
        counts["kept"] += 1
        asin, ratings, body = result
        counts[LOST] += _LOST in body
        key = asin.upper()
        rank = min(ratings, _LARGEST)
        if job.options.legacy:
            key = f"{source.name}\t{asin}"
            rank = counts["kept"]
        yield key, -1, 0, rank, body


def _reviews(job: Job, source: Source, lines: _LineReader, counts: Counter[str]) -> Iterator[Row]:
    encode = encoder()
    options = job.options
    legacy = options.legacy
    prefix = f"{source.name}\t"  # legacy joins within a category only
    keys = known_keys(job.tables("metas", source))
    read = valid = unknown = lost = 0
    for line, row in lines:
        read += 1
        asin = row.parent_asin
        if not isinstance(asin, str):
            counts["dropped: asin"] += 1
            continue
        key = prefix + asin if legacy else asin.upper()
        if key not in keys:
            unknown += 1
            continue
        reason, time, rating, body = review(row, options, encode, b"\\" not in line)
        if reason:
            counts[f"dropped: {reason}"] += 1
        else:
            valid += 1
            lost += _LOST in body
        if time >= 0:
            yield key, time, rating, read if legacy else 0, body
    counts.update({"read": read, "kept": valid, "dropped: not in catalogue": unknown, LOST: lost})


def _write_tables(folder: Path, rows: Iterator[Row], in_order: bool) -> None:
    """Write the rows as tables of about ``_TABLE`` bytes, sorted by key where asked."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    number = 0
    size = _TABLE
    while size >= _TABLE:
        path = folder / f"{number:05d}.parquet"
        size = _write_table(path, rows)
        if in_order:
            _sort_table(path)
        number += 1


def _write_table(path: Path, rows: Iterator[Row]) -> int:
    """Write rows until the table is full or none is left; returns its bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = (pa.string(), pa.int64(), pa.int8(), pa.int64(), pa.string())
    schema = pa.schema(list(zip(_COLUMNS, kinds, strict=True)))
    size = 0
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as table:
        while size < _TABLE:
            batch = list(islice(rows, _ROWS))
            if not batch:
                break
            records = pa.record_batch(list(zip(*batch, strict=True)), schema=schema)
            table.write_batch(records)
            size += records.nbytes
    return size


def _sort_table(path: Path) -> None:
    aside = path.with_suffix(".sorted")
    query = "SELECT * FROM read_parquet($1) ORDER BY key, time"
    with _database(path.with_suffix(".spill")) as connection:
        table = connection.sql(query, params=[str(path)])
        table.write_parquet(str(aside), compression="lz4_raw", row_group_size=_ROWS)
    aside.replace(path)


class _Digests:
    """Keys by their digests, 8 bytes each; two of 48 million keys share one with probability 1 in 16,000."""

    def __init__(self, keys: Iterable[str]) -> None:
        digests = np.unique(np.fromiter(map(name_digest, keys), dtype=np.uint64))
        self._digests = array("Q", digests.tobytes())

    def __contains__(self, key: object) -> bool:
        digest = name_digest(str(key))
        position = bisect_left(self._digests, digest)
        return position < len(self._digests) and self._digests[position] == digest


def name_digest(key: str) -> int:
    """64 bits of a name's digest; two names may share one."""
    raw = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


def known_keys(products: Sequence[str]) -> Container[str]:
    """The keys of a category's kept products, in memory that stays bounded."""
    import pyarrow.parquet as pq

    files = [pq.ParquetFile(path) for path in products]
    if sum(file.metadata.num_rows for file in files) > _EXACT:
        return _Digests(_keys(files))
    return set(_keys(files))


def _keys(files: Iterable[Any]) -> Iterator[str]:
    for file in files:
        for batch in file.iter_batches(_ROWS, columns=["key"]):
            yield from batch.column(0).to_pylist()


def parts_of(job: Job, number: int, of: str) -> list[Part]:
    """Ranges of keys, in order, that cut the records into at most so many parts of about equal size."""
    facts = finished(job.work, "bounds", [of, number])
    if facts is None:
        bounds: set[str] = set()
        if number > 1:
            keys = _sampled_keys(job)
            bounds = {keys[len(keys) * part // number] for part in range(1, number) if keys}
        facts = _finish(job.work, "bounds", [of, number], {"bounds": sorted(bounds)})
    cuts = ["", *facts["bounds"], None]
    fingerprint = tables.fingerprint([of, cuts])
    parts: list[Part] = []
    for low, high in pairwise(cuts):
        parts.append(Part(f"{len(parts):05d}", low, high, fingerprint))
    return parts


def _sampled_keys(job: Job) -> list[str]:
    query = f"SELECT key FROM read_parquet($1) USING SAMPLE reservoir({_SAMPLE} ROWS) REPEATABLE (1)"
    with _database(job.work / "bounds.spill") as connection:
        rows = connection.execute(query, [list(job.all_tables())]).fetchall()
    return sorted(key for (key,) in rows)


class Joined(NamedTuple):
    """A row as it is joined: a record, and the place of its table among all tables."""

    key: bytes
    time: int
    rating: int
    rank: int
    body: bytes
    table: int


# Equal times stand in the order of the ratings, or (legacy) as in the file.
_RECORDS = """
SELECT encode(key), time, rating, rank, encode(body), file_index FROM read_parquet($1) AS records
WHERE key >= $2 AND ($3 IS NULL OR key < $3) ORDER BY key, time, {tie}
"""


@_uncollected()
def join(job: Job, part: Part, progress: Progress | None = None) -> None:
    """Join one range: its products with their reviews, sorted by key, one finished JSON line each."""
    folder = job.work / "joined"
    counts: Counter[str] = Counter()
    legacy = job.options.legacy
    folder.mkdir(parents=True, exist_ok=True)
    query = _RECORDS.format(tie="rank" if legacy else "rating")
    places = job.all_tables()
    categories = list(places.values())
    with _database(folder / f"{part.name}.spill") as connection, (folder / part.name).open("wb") as file:
        batches = connection.sql(query, params=[list(places), part.low, part.high]).to_arrow_reader(_ROWS)
        for _, rows in groupby(joined_rows(batches), key=attrgetter("key")):
            products, reviews = _split(rows)
            if not products:  # two keys share a digest, and the one without a product ends here
                continue
            counts["duplicate products"] += len(products) - 1
            counts["products"] += 1
            if legacy:
                chosen = products[-1]
            else:  # the first category's most rated
                chosen = max(products, key=lambda row: (-categories[row.table], row.rank, row.body))
            _write_line(file, job.options, chosen.body, reviews, counts)
    _finish(folder, part.name, part.of, {"counts": dict(counts)})
    if progress:
        progress(1)


def joined_rows(batches: Iterable[Any]) -> Iterator[Joined]:
    """The rows of record batches as plain values."""
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns]
        yield from map(Joined._make, zip(*columns, strict=True))


def _split(rows: Iterator[Joined]) -> tuple[list[Joined], Iterator[Joined]]:
    """The products of a key, which stand first, and its reviews."""
    products: list[Joined] = []
    for row in rows:
        if row.time >= 0:
            return products, chain([row], rows)
        products.append(row)
    return products, rows


def _write_line(
    file: IO[bytes], options: Options, body: bytes, reviews: Iterator[Joined], counts: Counter[str]
) -> None:
    """Write a product's line with its reviews by time and the statistics of its ratings."""
    stars = [0] * 6
    if options.legacy:
        bodies = _all(reviews, stars)
    else:
        bodies = _distinct(reviews, stars, counts)
    if options.most_reviews:
        bodies = _most_helpful(bodies, options.most_reviews, counts)
    file.write(body[:-1] + b',"valid_reviews":[')
    texts = filter(None, bodies)
    written = 0
    while some := list(islice(texts, _SOME)):
        if written:
            file.write(b",")
        file.write(b",".join(some))
        written += len(some)
    if written:
        counts["reviews"] += written
    total = 5 if options.legacy else sum(stars)
    average = None
    if total:
        average = sum(grade * number for grade, number in enumerate(stars)) / total
    histogram = {str(grade): stars[grade] for grade in range(1, 6)}
    numbers = {"valid_ratings": histogram, "num_valid_ratings": total, "avg_valid_ratings": average}
    ending = json.dumps(numbers, separators=(",", ":"))
    file.write(b"]," + ending[1:].encode() + b"\n")


def _all(reviews: Iterable[Joined], stars: list[int]) -> Iterator[bytes]:
    """The bodies of reviews, their ratings counted."""
    for row in reviews:
        stars[row.rating] += 1
        yield row.body


def _distinct(reviews: Iterable[Joined], stars: list[int], counts: Counter[str]) -> Iterator[bytes]:
    """The bodies of reviews without copies, their ratings counted; of equal time and rating in order of text.
    Of reviews that differ in their votes alone, the one with most is kept.
    """
    for (_, rating), same in groupby(reviews, key=attrgetter("time", "rating")):
        bodies = [row.body for row in same]
        if len(bodies) > 1:
            by_text = {body[: body.rindex(b":")]: body for body in sorted(bodies, key=_votes)}
            copies = len(bodies) - len(by_text)
            if copies:
                counts["duplicate reviews"] += copies
            bodies = sorted(by_text.values())
        stars[rating] += len(bodies)
        yield from bodies


def _votes(body: bytes) -> int:
    """The number of people who called a review helpful: the last field of its JSON."""
    return int(body[body.rindex(b":") + 1 : -1])


def _most_helpful(bodies: Iterable[bytes], most: int, counts: Counter[str]) -> Iterator[bytes]:
    """The reviews with most votes, of equals the newer; in the order of time as before."""
    places = count()
    votes = ((_votes(body), next(places), body) for body in bodies if body)
    best = heapq.nlargest(most, votes)
    counts["reviews over the limit"] += next(places) - len(best)
    for _, _, body in sorted(best, key=itemgetter(1)):
        yield body


def write_output(out: Path, parts: Sequence[Path]) -> None:
    """Concatenate finished lines into the output, which appears whole, packed as its name ends."""
    with tables.write_aside(out, "wb") as file, _packed(file, out.suffix) as packed:
        for path in parts:
            with path.open("rb") as part:
                shutil.copyfileobj(part, packed, 1 << 20)


def _packed(file: IO[bytes], suffix: str) -> Any:
    """The file to write to, packed as the name ends; the same bytes always."""
    if suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False)
    return nullcontext(file)
