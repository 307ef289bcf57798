"""The last kind of work of the catalogue: join one range of products with its reviews."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from crs_lib.cosrec.catalogue_tasks import Job, Seen, mark

_START = 64  # bytes that tell most reviews apart: time, rating, and the user's name
_HEAD = 19  # a review's time (18 digits) and rating (1), before its JSON


def join(job: Job, number: int, seen: Seen | None = None) -> dict[str, Any]:
    """Join one range: its products with their reviews, sorted by key, one finished JSON line each."""
    work = Path(job.work)
    out = work / "joined" / f"{number:05d}"
    out.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    reviews: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for line in _lines(work / "reviews", number):
        name, _, row = line.partition(b"\t")
        reviews[name].append(row)
    products = [line.split(b"\t", 3) for line in _lines(work / "products", number)]
    products.sort(key=lambda row: row[0])
    with out.open("wb") as file:
        for name, group in groupby(products, key=lambda row: row[0]):
            same = list(group)
            counts["duplicate products"] += len(same) - 1
            counts["products"] += 1
            file.write(_joined(job, _chosen(job, same), reviews.pop(name, []), counts))
    facts = {"counts": dict(counts)}
    mark(out, facts)
    if seen:
        seen(1)
    return facts


def _lines(folder: Path, number: int) -> Iterator[bytes]:
    """The lines of a range from all categories, in the order of the categories."""
    for path in sorted(folder.glob(f"*/{number:05d}")):
        with path.open("rb") as file:
            for line in file:
                yield line[:-1]


def _chosen(job: Job, same: list[list[bytes]]) -> bytes:
    """The record of a product given several times: the last (legacy), or the first category's most rated."""
    if job.rules.legacy:
        return same[-1][3]
    first = min(int(row[1]) for row in same)
    return max((int(row[2]), row[3]) for row in same if int(row[1]) == first)[1]


def _joined(job: Job, body: bytes, rows: list[bytes], counts: Counter[str]) -> bytes:
    """The product's line with its reviews by time and the statistics of its ratings."""
    legacy = job.rules.legacy
    kept = sorted(rows, key=_time) if legacy else _distinct(sorted(rows))
    counts["duplicate reviews"] += len(rows) - len(kept)
    ratings = bytes([row[_HEAD - 1] for row in kept])
    stars = [ratings.count(digit) for digit in b"12345"]
    shown = [row[_HEAD:] for row in kept if len(row) > _HEAD]
    counts["reviews"] += len(shown)
    if job.most_reviews and len(shown) > job.most_reviews:
        counts["reviews over the limit"] += len(shown) - job.most_reviews
        shown = _most_helpful(shown, job.most_reviews)
    total = 5 if legacy else len(kept)
    average = (sum(ratings) - 48 * len(kept)) / total if total else None
    numbers = b'"num_valid_ratings":%d,"avg_valid_ratings":%b' % (total, json.dumps(average).encode())
    histogram = b'{"1":%d,"2":%d,"3":%d,"4":%d,"5":%d}' % tuple(stars)
    texts = b",".join(shown)
    return b'%b,"valid_reviews":[%b],"valid_ratings":%b,%b}\n' % (body[:-1], texts, histogram, numbers)


def _time(row: bytes) -> bytes:
    """A review's time; equal times stay in the order of the file."""
    return row[: _HEAD - 1]


def _votes(row: bytes) -> int:
    """How many found it helpful: the last field of a review's JSON."""
    return int(row[row.rindex(b":") + 1 : -1])


def _distinct(rows: list[bytes]) -> list[bytes]:
    """Sorted reviews without copies; of reviews that differ in their votes alone, the one with most."""
    kept: list[bytes] = []
    last = b""
    for row in rows:
        if row[:_START] == last[:_START] and row[: row.rindex(b":")] == last[: last.rindex(b":")]:
            kept[-1] = max(last, row, key=_votes)
        else:
            kept.append(row)
        last = kept[-1]
    return kept


def _most_helpful(shown: list[bytes], most: int) -> list[bytes]:
    """The reviews with most votes, of equals the newer; in the order of time as before."""
    order = sorted(range(len(shown)), key=lambda i: (-_votes(shown[i]), -i))[:most]
    return [shown[i] for i in sorted(order)]
