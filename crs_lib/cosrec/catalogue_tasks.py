"""The first two kinds of work of the catalogue: read one category's metas, spread its reviews.

Each task reads files, writes files of its own, and marks itself done with a small JSON file that appears
last; a killed task leaves no mark and is done again. Nothing here depends on how many ranges there are.
"""

import hashlib
import json
import shutil
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.cosrec.catalogue_files import DamagedError, Watched, decoder, read_records
from crs_lib.cosrec.catalogue_rules import Rules, encoders, has_no_escape, product, review

_META_FIELDS = (
    "parent_asin", "title", "description", "features", "details", "categories", "rating_number",
    "average_rating", "store", "price",
)  # fmt: skip
_REVIEW_FIELDS = (
    "parent_asin", "user_id", "timestamp", "rating", "title", "text", "verified_purchase", "helpful_vote",
    "sort_timestamp", "helpful_votes",
)  # fmt: skip
_BUFFER = 16 * 2**20
_SAMPLE = 20_000
_SHOWN = 300  # characters of a quarantined line that are kept


class Source(NamedTuple):
    """One category: its place in the order of names, its name, and its two files."""

    place: int
    name: str
    metas: str
    reviews: str


class Job(NamedTuple):
    """What all tasks of a run share."""

    work: str
    rules: Rules
    most_reviews: int
    bounds: tuple[str, ...] = ()


Seen = Callable[[int], object]


def key(job: Job, source: int, asin: str) -> str:
    """What products are joined and sorted by: the id; in legacy mode within its category."""
    return f"{source:04d}/{asin}" if job.rules.legacy else asin.upper()


def marked(path: Path) -> dict[str, Any] | None:
    """The mark of a finished task, or None."""
    place = path.with_name(path.name + ".done.json")
    if not place.exists():
        return None
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return found


def mark(path: Path, facts: dict[str, Any]) -> None:
    """Say that a task is finished, with what it found."""
    tables.write_json(path.with_name(path.name + ".done.json"), facts)


class _Books:
    """What happens while one file is read: counts, quarantine, the file's hash."""

    def __init__(self, out: Path, path: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.sha256 = ""
        self._out, self._path = out, path
        self._bad: list[dict[str, Any]] = []

    def bad(self, line: int, why: str, raw: bytes) -> None:
        """Put a line into quarantine."""
        start = raw[:_SHOWN].decode("utf-8", "replace").rstrip("\r\n")
        self._bad.append({"file": self._path.name, "line": line, "why": why, "start": start})

    def records(self, fields: tuple[str, ...], seen: Seen | None) -> Iterator[tuple[bytes, Any]]:
        """The readable lines of the file and their records; RunError where the file is damaged."""
        raw = Watched(self._path, seen)
        try:
            yield from read_records(self._path, decoder(fields), raw, self.bad)
            self.sha256 = raw.digest.hexdigest()
        except DamagedError as error:
            self.bad(error.line, f"file damaged: {error.why}", b"")
            raise RunError(
                f"{self._path.name} breaks off after line {error.line} ({error.why}); replace the file and "
                "start the same command again: what is finished is kept"
            ) from error
        finally:
            raw.close()
            tables.write_jsonl(Path(f"{self._out}.quarantine.jsonl"), self._bad)

    def close(self, **more: Any) -> dict[str, Any]:
        """Mark the task as finished; returns what the mark says."""
        self.counts["unreadable"] = len(self._bad)
        facts = {"counts": {k: n for k, n in self.counts.items() if n}, "sha256": self.sha256, **more}
        mark(self._out, facts)
        return facts


def read_metas(job: Job, source: Source, seen: Seen | None = None) -> dict[str, Any]:
    """Filter one category's products into ``metas/<name>``; returns counts and a sample of the keys."""
    out = Path(job.work) / "metas" / source.name
    out.parent.mkdir(parents=True, exist_ok=True)
    books, encode = _Books(out, Path(source.metas)), encoders()
    counts = books.counts
    sample: list[tuple[int, str, int]] = []
    with out.open("wb") as file:
        for _, row in books.records(_META_FIELDS, seen):
            counts["read"] += 1
            kept = product(row, job.rules, encode)
            if isinstance(kept, str):
                counts[f"dropped: {kept}"] += 1
                continue
            counts["kept"] += 1
            name = key(job, source.place, kept.asin)
            file.write(f"{name}\t{source.place}\t{kept.ratings}\t".encode() + kept.body + b"\n")
            sample.append((zlib.crc32(name.encode()), name, kept.ratings + 1))
            if len(sample) > 2 * _SAMPLE:
                sample = sorted(sample)[:_SAMPLE]
    return books.close(sample=sorted(sample)[:_SAMPLE])


_EXACT = 2_000_000  # ids up to this many are kept as they are, more as sorted 64-bit digests


class _Digests:
    """Ids by their digests, 8 bytes each; two of 48 million ids share one with probability 1 in 16,000."""

    def __init__(self, digests: "array[int]") -> None:
        self._digests = digests

    def __contains__(self, name: object) -> bool:
        wanted = _digest(str(name))
        place = bisect_right(self._digests, wanted)
        return place > 0 and self._digests[place - 1] == wanted


def known_ids(path: Path) -> Container[str]:
    """The ids of a category's kept products, in memory that stays bounded."""
    names: set[str] = set()
    digests = array("Q")
    with path.open("rb") as file:
        for line in file:
            names.add(line.partition(b"\t")[0].decode())
            if len(names) > _EXACT:
                digests.extend(map(_digest, names))
                names = set()
    if not digests:
        return names
    import numpy as np

    digests.extend(map(_digest, names))
    return _Digests(array("Q", np.unique(np.frombuffer(digests, dtype=np.uint64)).tobytes()))


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


class _Spread:
    """Appends lines to one file a range; lines are held back until there are enough to write."""

    def __init__(self, folder: Path, bounds: tuple[str, ...]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder, self._bounds = folder, bounds
        self._held: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
        self._size = 0

    def add(self, name: str, line: bytes) -> None:
        self._held[bisect_right(self._bounds, name)].append(line)
        self._size += len(line) + 90
        if self._size > _BUFFER:
            self.flush()

    def flush(self) -> None:
        for number, lines in enumerate(self._held):
            if lines:
                with (self._folder / f"{number:05d}").open("ab") as file:
                    file.write(b"".join(lines))
                lines.clear()
        self._size = 0


def spread(job: Job, source: Source, seen: Seen | None = None) -> dict[str, Any]:
    """Filter one category's reviews, and cut them and its products into ranges of the key.

    A review's line is its key, a tab, the time in 18 digits, the rating, and its JSON: sorting the lines
    sorts the reviews.
    """
    out, metas = Path(job.work) / "reviews" / source.name, Path(job.work) / "metas" / source.name
    products = _Spread(Path(job.work) / "products" / source.name, job.bounds)
    with metas.open("rb") as file:
        for line in file:
            products.add(line.partition(b"\t")[0].decode(), line)
    products.flush()
    known, reviews = known_ids(metas), _Spread(out, job.bounds)
    books, encode, rules = _Books(out, Path(source.reviews)), encoders(), job.rules
    counts, prefix, legacy = books.counts, key(job, source.place, ""), job.rules.legacy
    read = kept = 0
    for line, row in books.records(_REVIEW_FIELDS, seen):
        read += 1
        asin = row.parent_asin
        if not isinstance(asin, str):
            counts["dropped: asin"] += 1
            continue
        name = prefix + asin if legacy else asin.upper()
        if name not in known:
            counts["dropped: not in catalogue"] += 1
            continue
        found = review(row, rules, encode, has_no_escape(line))
        if len(found) == 2:
            counts[f"dropped: {found[0]}"] += 1
            if found[1] is None:
                continue
            found = found[1]
        else:
            kept += 1
        time, rating, body = found
        reviews.add(name, f"{name}\t{time:018d}{rating}".encode() + body + b"\n")
    reviews.flush()
    counts.update(read=read, kept=kept)
    return books.close()


def forget(work: Path, source: Source, parts: tuple[str, ...]) -> None:
    """Remove what a task of a category left, so that it is done anew."""
    for part in parts:
        path = work / part / source.name
        with suppress(FileNotFoundError):
            Path(f"{path}.done.json").unlink()
