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
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, count, groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from crs_lib.core import safety, tables
from crs_lib.core.errors import RunError
from crs_lib.cosrec.catalogue_rules import Options, encoders, product, review

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
_SHOWN = 300  # characters of a quarantined line that are kept
_LARGEST = 2**63 - 1

Progress = Callable[[int], object]
# A record as it is written: key, time (a product: -1), rating (a product: 0), rank, body. ``rank`` orders
# what key and time leave equal: a product's number of ratings; with the legacy rules the place in the file.
# The body is JSON, empty for a review of which only the rating counts.
Row = tuple[str, int, int, int, bytes]
Counts = Counter[str]
_Lines = Iterator[tuple[bytes, Any]]  # readable lines and their objects


class Source(NamedTuple):
    """One category: its name and its two files."""

    name: str
    metas: str
    reviews: str

    def made_of(self, kind: str) -> list[Any]:
        """What the tables of a kind depend on besides the settings: a file's name, size and time."""
        files = [Path(self.metas)] if kind == "metas" else [Path(self.metas), Path(self.reviews)]
        return [_FORM, *([path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files)]


class Job(NamedTuple):
    """The settings that all tasks of a run share: work folder, filters, categories in order of name.
    ``sorted_tables``: tables are sorted by key, so that each of several ranges reads its own rows only.
    """

    work: Path
    options: Options
    sources: tuple[Source, ...]
    sorted_tables: bool = False

    def facts(self, kind: str, source: Source) -> dict[str, Any] | None:
        """The facts of a category's finished tables; None where they are missing or made of other files."""
        return finished(self.work / kind, source.name, source.made_of(kind))

    def tables(self, kind: str, source: Source) -> list[str]:
        """The tables of a category's products (``metas``) or reviews."""
        return [str(path) for path in sorted((self.work / kind / source.name).glob("*.parquet"))]

    def all_tables(self) -> list[tuple[int, str]]:
        """All tables, each with the place of its category."""
        places = list(enumerate(self.sources))
        return [(n, path) for kind in KINDS for n, source in places for path in self.tables(kind, source)]


class Part(NamedTuple):
    """The keys from ``low`` up to, not including, ``high`` (None: to the end), and what they are made of.
    ``name`` is that of the file of finished lines.
    """

    name: str
    low: str
    high: str | None
    of: str


def finished(folder: Path, name: str, of: Any) -> dict[str, Any] | None:
    """The facts that a finished task recorded; None where it is not, or was made ``of`` something else."""
    place = folder / f"{name}.done.json"
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return found if found.get("of") == of else None


def _finish(folder: Path, name: str, of: Any, facts: dict[str, Any]) -> dict[str, Any]:
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
    for kind, path, read in (("metas", source.metas, _products), ("reviews", source.reviews, _reviews)):
        if job.facts(kind, source) is not None:
            continue
        folder, counts, unreadable = job.work / kind, Counter[str](), list[dict[str, Any]]()
        of = source.made_of(kind)
        try:
            lines = _lines(Path(path), FIELDS[kind], unreadable, progress)
            _write_tables(folder / source.name, read(job, source, lines, counts), job.sorted_tables)
        finally:
            tables.write_jsonl(folder / f"{source.name}.quarantine.jsonl", unreadable)
        counts["unreadable"] = len(unreadable)
        facts = {"counts": {name: n for name, n in counts.items() if n}, "sha256": tables.sha256(Path(path))}
        _finish(folder, source.name, of, facts)


def _lines(path: Path, fields: Sequence[str], unreadable: list[Any], progress: Progress | None) -> _Lines:
    """The readable lines of a plain or packed file and their objects; the others are added to a list."""
    import pyarrow as pa

    decode, number, seen = _decoder(fields), 0, 0

    def quarantine(why: str, raw: bytes) -> None:
        start = raw[:_SHOWN].decode("utf-8", "replace").rstrip("\r\n")
        unreadable.append({"file": path.name, "line": number, "why": why, "start": start})

    raw = pa.OSFile(str(path))
    packed = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    stream = io.BufferedReader(pa.input_stream(raw, compression=packed), 1 << 18)
    with safety.unpacked(stream, path) as file:
        try:
            for number, line in enumerate(file, start=1):
                try:
                    record = decode(line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
                except RecursionError:
                    quarantine("nested too deeply", line)
                except ValueError as error:  # also UnicodeDecodeError and json's
                    if not line.isspace():
                        encoding = isinstance(error, UnicodeDecodeError)
                        quarantine("not UTF-8" if encoding else "not a JSON object", line)
                else:
                    yield line, record
                if progress and number % _ROWS == 0:
                    progress(raw.tell() - seen)
                    seen = raw.tell()
        except OSError as error:
            quarantine(f"file damaged: {error}", b"")
            told = f"{path.name} breaks off after line {number} ({error})"
            raise RunError(f"{told}; replace it and start again: what is finished is kept") from error
    if progress:
        progress(path.stat().st_size - seen)


def _decoder(fields: Sequence[str]) -> Callable[[bytes], Any]:
    """A function from a line to an object with these attributes alone, None where the line lacks one. It
    accepts exactly what ``json`` accepts. Raises ValueError for what is no JSON object.
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


def _products(job: Job, source: Source, lines: _Lines, counts: Counts) -> Iterator[Row]:
    (encode, _), legacy = encoders(), job.options.legacy
    for _, row in lines:
        counts["read"] += 1
        kept = product(row, job.options, encode)
        if isinstance(kept, str):
            counts[f"dropped: {kept}"] += 1
            continue
        counts["kept"] += 1
        asin, ratings, body = kept
        rank = counts["kept"] if legacy else min(ratings, _LARGEST)
        yield f"{source.name}\t{asin}" if legacy else asin.upper(), -1, 0, rank, body


def _reviews(job: Job, source: Source, lines: _Lines, counts: Counts) -> Iterator[Row]:
    (_, encode), options, legacy = encoders(), job.options, job.options.legacy
    prefix = f"{source.name}\t"  # legacy joins within a category only
    known = _known_keys(job.tables("metas", source))
    read = kept = unknown = 0
    for line, row in lines:
        read += 1
        asin = row.parent_asin
        if not isinstance(asin, str):
            counts["dropped: asin"] += 1
            continue
        key = prefix + asin if legacy else asin.upper()
        if key not in known:
            unknown += 1
            continue
        found = review(row, options, encode, b"\\" not in line)
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


def _write_tables(folder: Path, rows: Iterator[Row], in_order: bool) -> None:
    """Write the rows as tables of about ``_TABLE`` bytes, sorted by key where asked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("key", "time", "rating", "rank", "body")
    kinds = (pa.string(), pa.int64(), pa.int8(), pa.int64(), pa.string())
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    size = _TABLE
    for number in count():
        if size < _TABLE:
            return
        path, size = folder / f"{number:05d}.parquet", 0
        with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as table:
            while size < _TABLE and (batch := list(islice(rows, _ROWS))):
                records = pa.record_batch(list(zip(*batch, strict=True)), schema=schema)
                table.write_batch(records)
                size += records.nbytes
        if in_order:
            aside = path.with_suffix(".sorted")
            in_order_of = "SELECT * FROM read_parquet($1) ORDER BY key, time"
            with _database(path.with_suffix(".spill")) as connection:
                found = connection.sql(in_order_of, params=[str(path)])
                found.write_parquet(str(aside), compression="lz4_raw", row_group_size=_ROWS)
            aside.replace(path)


class _Digests:
    """Keys by their digests, 8 bytes each; two of 48 million keys share one with probability 1 in 16,000."""

    def __init__(self, keys: Iterable[str]) -> None:
        import numpy as np

        self._digests = array("Q", np.unique(np.fromiter(map(name_digest, keys), dtype=np.uint64)).tobytes())

    def __contains__(self, key: object) -> bool:
        wanted = name_digest(str(key))
        place = bisect_right(self._digests, wanted)
        return place > 0 and self._digests[place - 1] == wanted


def name_digest(key: str) -> int:
    """64 bits of a name's digest; two names may share one."""
    raw = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


def _known_keys(products: Sequence[str]) -> Container[str]:
    """The keys of a category's kept products, in memory that stays bounded."""
    import pyarrow.parquet as pq

    files = [pq.ParquetFile(path) for path in products]
    batches = (batch for file in files for batch in file.iter_batches(_ROWS, columns=["key"]))
    keys = chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
    return _Digests(keys) if sum(file.metadata.num_rows for file in files) > _EXACT else set(keys)


def parts_of(job: Job, parts: int, of: str) -> list[Part]:
    """Ranges of keys, in order, that cut the records into at most so many parts of about equal size."""
    if (kept := finished(job.work, "bounds", [of, parts])) is None:
        sample = f"SELECT key FROM read_parquet($1) USING SAMPLE reservoir({_SAMPLE} ROWS) REPEATABLE (1)"
        keys: list[str] = []
        if parts > 1:
            with _database(job.work / "bounds.spill") as connection:
                found = connection.execute(sample, [[path for _, path in job.all_tables()]])
                keys = sorted(key for (key,) in found.fetchall())
        bounds = sorted({keys[len(keys) * n // parts] for n in range(1, parts)} if keys else ())
        kept = _finish(job.work, "bounds", [of, parts], {"bounds": bounds})
    cuts = ["", *kept["bounds"], None]
    of = tables.fingerprint([of, cuts])
    return [Part(f"{n:05d}", low, high, of) for n, (low, high) in enumerate(pairwise(cuts))]


_Joined = Iterator[tuple[Any, ...]]
# Rows as they are joined: key, time, rating, rank, body, and the place of the table among all tables. Equal
# times stand in the order of the ratings, or (legacy) as in the file.
_RECORDS = """
SELECT encode(key), time, rating, rank, encode(body), file_index FROM read_parquet($1) AS records
WHERE key >= $2 AND ($3 IS NULL OR key < $3) ORDER BY key, time, {tie}
"""


@_uncollected()
def join(job: Job, part: Part, progress: Progress | None = None) -> None:
    """Join one range: its products with their reviews, sorted by key, one finished JSON line each."""
    folder, counts, legacy = job.work / "joined", Counter[str](), job.options.legacy
    folder.mkdir(parents=True, exist_ok=True)
    query = _RECORDS.format(tie="rank" if legacy else "rating")
    places, paths = zip(*job.all_tables(), strict=True)
    with _database(folder / f"{part.name}.spill") as connection, (folder / part.name).open("wb") as file:
        found = connection.sql(query, params=[list(paths), part.low, part.high]).to_arrow_reader(_ROWS)
        for _, rows in groupby(chain.from_iterable(map(_plain, found)), key=itemgetter(0)):
            products: list[tuple[int, int, bytes]] = []
            for row in rows:
                if row[1] >= 0:
                    rows = chain((row,), rows)
                    break
                products.append((-places[row[5]], row[3], row[4]))
            if products:  # else two keys share a digest, and the one without a product ends here
                counts["duplicate products"] += len(products) - 1
                counts["products"] += 1
                # given several times: the last, or the first category's most rated
                body = products[-1][2] if legacy else max(products)[2]
                _write_line(file, job.options, body, rows, counts)
    _finish(folder, part.name, part.of, {"counts": dict(counts)})
    if progress:
        progress(1)


def _plain(batch: Any) -> _Joined:
    """The rows of a batch as plain values."""
    return zip(*(column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns), strict=True)


def _write_line(file: IO[bytes], options: Options, body: bytes, rows: _Joined, counts: Counts) -> None:
    """Write a product's line with its reviews by time and the statistics of its ratings."""
    stars = [0] * 6
    kept = _all(rows, stars) if options.legacy else _distinct(rows, stars, counts)
    if options.most_reviews:
        kept = _most_helpful(kept, options.most_reviews, counts)
    file.write(body[:-1] + b',"valid_reviews":[')
    texts, written = filter(None, kept), 0
    while some := list(islice(texts, _SOME)):
        file.write(b",%b" % b",".join(some) if written else b",".join(some))
        written += len(some)
    if written:
        counts["reviews"] += written
    total = 5 if options.legacy else sum(stars)
    average = sum(grade * n for grade, n in enumerate(stars)) / total if total else None
    histogram = b'{"1":%d,"2":%d,"3":%d,"4":%d,"5":%d}' % tuple(stars[1:])
    numbers = b'"num_valid_ratings":%d,"avg_valid_ratings":%b' % (total, json.dumps(average).encode())
    file.write(b'],"valid_ratings":%b,%b}\n' % (histogram, numbers))


def _all(rows: _Joined, stars: list[int]) -> Iterator[bytes]:
    """The bodies of reviews, their ratings counted."""
    for row in rows:
        stars[row[2]] += 1
        yield row[4]


def _distinct(rows: _Joined, stars: list[int], counts: Counts) -> Iterator[bytes]:
    """The bodies of reviews without copies, their ratings counted; of equal time and rating in order of text.
    Of reviews that differ in their votes alone, the one with most is kept.
    """
    for (_, rating), same in groupby(rows, key=itemgetter(1, 2)):
        bodies = [row[4] for row in same]
        if len(bodies) > 1:
            by_text = {body[: body.rindex(b":")]: body for body in sorted(bodies, key=_votes)}
            if len(by_text) < len(bodies):
                counts["duplicate reviews"] += len(bodies) - len(by_text)
            bodies = sorted(by_text.values())
        stars[rating] += len(bodies)
        yield from bodies


def _votes(body: bytes) -> int:
    """The number of people who found a review helpful: the last field of its JSON."""
    return int(body[body.rindex(b":") + 1 : -1])


def _most_helpful(bodies: Iterator[bytes], most: int, counts: Counts) -> Iterator[bytes]:
    """The reviews with most votes, of equals the newer; in the order of time as before."""
    places = count()
    best = heapq.nlargest(most, ((_votes(body), next(places), body) for body in bodies if body))
    counts["reviews over the limit"] += next(places) - len(best)
    return (body for *_, body in sorted(best, key=itemgetter(1)))


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
