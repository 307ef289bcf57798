"""The last kind of work of the catalogue: join one range of products with its reviews.

Reviews come as one sorted stream, sorted on disk where a range is large, and go out one by one: neither
many products nor one product with very many reviews takes much memory.
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from crs_lib.cosrec.catalogue_tasks import Job, Seen, mark

_SORTED = 32 * 2**20  # bytes of reviews that are sorted in memory
_HEAD = 19  # a review's time (18 digits) and rating (1), before its JSON
_START = 64  # bytes that tell most reviews apart: time, rating, and the user's name


def join(job: Job, number: int, seen: Seen | None = None) -> dict[str, Any]:
    """Join one range: its products with their reviews, sorted by key, one finished JSON line each."""
    work = Path(job.work)
    out = work / "joined" / f"{number:05d}"
    out.parent.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    products = [line.split(b"\t", 3) for line in _lines(work / "products", number)]
    products.sort(key=lambda row: row[0])
    with ExitStack() as stack, out.open("wb") as file:
        order = _name_and_time if job.rules.legacy else None
        reviews = _Reviews(_in_order(_lines(work / "reviews", number), out, order, stack))
        for name, group in groupby(products, key=lambda row: row[0]):
            same = list(group)
            counts["duplicate products"] += len(same) - 1
            counts["products"] += 1
            _write(file, job, _chosen(job, same), reviews.of(name), counts)
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


def _name_and_time(line: bytes) -> bytes:
    """What legacy sorts by: equal times stay in the order of the file."""
    return line[: line.index(b"\t") + _HEAD]


def _in_order(
    lines: Iterable[bytes], aside: Path, order: Callable[[bytes], bytes] | None, stack: ExitStack
) -> Iterator[bytes]:
    """The lines sorted; more than fits is sorted in pieces that are written aside and merged."""
    pieces: list[Iterator[bytes]] = []
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > _SORTED:
            held.sort(key=order)
            pieces.append(_aside(held, aside.with_name(f"{aside.name}.sorted-{len(pieces)}"), stack))
            held, size = [], 0
    held.sort(key=order)
    return heapq.merge(*pieces, held, key=order) if pieces else iter(held)


def _aside(lines: list[bytes], path: Path, stack: ExitStack) -> Iterator[bytes]:
    """Write sorted lines and read them back one by one; the file goes when the range is joined."""
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in lines)
    stack.callback(path.unlink)
    return (line[:-1] for line in stack.enter_context(path.open("rb")))


class _Reviews:
    """A sorted stream of reviews, asked for one product after the other."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._next = next(lines, b"")

    def of(self, name: bytes) -> Iterator[bytes]:
        """The reviews of a product, without its name; those of products before it are passed over."""
        head = name + b"\t"
        skip, lines, line = len(head), self._lines, self._next
        while line and line < head:
            line = next(lines, b"")
        while line.startswith(head):
            yield line[skip:]
            line = next(lines, b"")
        self._next = line


def _chosen(job: Job, same: list[list[bytes]]) -> bytes:
    """The record of a product given several times: the last (legacy), or the first category's most rated."""
    if job.rules.legacy:
        return same[-1][3]
    first = min(int(row[1]) for row in same)
    return max((int(row[2]), row[3]) for row in same if int(row[1]) == first)[1]


def _write(file: IO[bytes], job: Job, body: bytes, rows: Iterator[bytes], counts: Counter[str]) -> None:
    """Write a product's line with its reviews by time and the statistics of its ratings."""
    stars = [0] * 6
    kept = _counted(rows if job.rules.legacy else _distinct(rows, counts), stars)
    shown = _most_helpful(kept, job.most_reviews, counts) if job.most_reviews else kept
    file.write(body[:-1] + b',"valid_reviews":[')
    between = b""
    for row in shown:
        if len(row) > _HEAD:
            file.write(between + row[_HEAD:])
            between = b","
            counts["reviews"] += 1
    total = 5 if job.rules.legacy else sum(stars)
    average = sum(grade * n for grade, n in enumerate(stars)) / total if total else None
    histogram = b'{"1":%d,"2":%d,"3":%d,"4":%d,"5":%d}' % tuple(stars[1:])
    numbers = b'"num_valid_ratings":%d,"avg_valid_ratings":%b' % (total, json.dumps(average).encode())
    file.write(b'],"valid_ratings":%b,%b}\n' % (histogram, numbers))


def _counted(rows: Iterator[bytes], stars: list[int]) -> Iterator[bytes]:
    """The rows as they pass by, their ratings counted."""
    for row in rows:
        stars[row[_HEAD - 1] - 48] += 1
        yield row


def _votes(row: bytes) -> int:
    """How many found it helpful: the last field of a review's JSON."""
    return int(row[row.rindex(b":") + 1 : -1])


def _distinct(rows: Iterator[bytes], counts: Counter[str]) -> Iterator[bytes]:
    """Sorted reviews without copies; of reviews that differ in their votes alone, the one with most."""
    last = next(rows, b"")
    for row in rows:
        if row[:_START] == last[:_START] and row[: row.rindex(b":")] == last[: last.rindex(b":")]:
            counts["duplicate reviews"] += 1
            last = max(last, row, key=_votes)
        else:
            yield last
            last = row
    if last:
        yield last


def _most_helpful(rows: Iterator[bytes], most: int, counts: Counter[str]) -> list[bytes]:
    """The reviews with most votes, of equals the newer; in the order of time as before."""
    passed = 0

    def texts() -> Iterator[tuple[int, int, bytes]]:
        nonlocal passed
        for place, row in enumerate(rows):
            if len(row) > _HEAD:
                passed += 1
                yield _votes(row), place, row

    best = heapq.nlargest(most, texts())
    counts["reviews over the limit"] += passed - len(best)
    return [row for _, _, row in sorted(best, key=lambda item: item[1])]
