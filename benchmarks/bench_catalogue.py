"""Reviews a second: the catalogue against a plain loop in the manner of the original script.

    python benchmarks/bench_catalogue.py [--products 2000] [--reviews 96000] [--rounds 7]
    python benchmarks/bench_catalogue.py --large 2.0     # a review file of 2 GB: peak memory, kill, resume

The loop keeps everything in memory, tests every character in Python, and writes at the end; in legacy mode
both give the same products (asserted before anything is timed). One process, CPU time, rounds interleaved.
As in the full data set, a kept product has about 24 reviews, and half of all reviews are of products that
are not kept.
"""

import argparse
import hashlib
import json
import math
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from crs_lib.cosrec.catalogue import build
from crs_lib.cosrec.catalogue_rules import Options
from tests.helpers import amazon_fixture


def mostly_latin(text: str, share: float) -> bool:
    return sum(1 for character in text if ord(character) <= 255) / len(text) >= share


def tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("<br />", "")).strip()


def filled(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def number(value: Any, kind: type, low: float, high: float = math.inf) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high


def plain_product(row: dict[str, Any]) -> dict[str, Any] | None:
    if not filled(row["parent_asin"]) or not filled(row["title"]) or not filled(row["store"]):
        return None
    if not texts(row["description"]) or not texts(row["features"]):
        return None
    if not isinstance(row["details"], dict) or not row["details"]:
        return None
    if not all(isinstance(name, str) for name in row["details"]):
        return None
    if not texts(row["categories"]) or row["categories"] in ([], [""]):
        return None
    if not number(row["rating_number"], int, 1) or not number(row["average_rating"], float, 0):
        return None
    if not number(row["price"], float, 0) or not math.isfinite(row["price"]) or row["price"] == 0:
        return None
    text = " ".join(row["description"]) + " " + " ".join(row["features"])
    if len(text) < 10 or not mostly_latin(row["title"], 0.5) or not mostly_latin(text, 0.8):
        return None
    return {
        "parent_asin": row["parent_asin"],
        "title": tidy(row["title"]),
        "description": [tidy(part) for part in row["description"] + row["features"]],
        "details": row["details"],
        "categories": row["categories"],
        "store": row["store"],
        "price": row["price"],
        "num_ratings": row["rating_number"],
        "avg_ratings": row["average_rating"],
        "valid_reviews": [],
        "valid_ratings": {1: 0, 2: 0, 3: 0, 4: 0, 5: 0},
    }


def plain_loop(metas: Path, reviews: Path, out: Path) -> None:
    products: dict[str, dict[str, Any]] = {}
    with metas.open() as file:
        for line in file:
            product = plain_product(json.loads(line))
            if product is not None:
                products[product["parent_asin"]] = product
    with reviews.open() as file:
        for line in file:
            row = json.loads(line)
            product = products.get(row["parent_asin"])
            if product is None or not isinstance(row["user_id"], str):
                continue
            if not number(row["timestamp"], int, 0) or not number(row["rating"], float, 1, 5):
                continue
            rating = round(row["rating"] + 0.001)
            product["valid_ratings"][rating] += 1
            if not filled(row["title"]) or not filled(row["text"]) or len(row["text"]) < 10:
                continue
            if not isinstance(row["verified_purchase"], bool) or not number(row["helpful_vote"], int, 0):
                continue
            if not mostly_latin(row["title"], 0.5) or not mostly_latin(row["text"], 0.8):
                continue
            product["valid_reviews"].append(
                {
                    "user": row["user_id"],
                    "timestamp": row["timestamp"],
                    "verified purchase": row["verified_purchase"],
                    "title": tidy(row["title"]),
                    "text": tidy(row["text"]),
                    "rating": rating,
                    "helpful": row["helpful_vote"],
                }
            )
    with out.open("w") as file:
        for asin in sorted(products):
            product = products[asin]
            product["valid_reviews"].sort(key=lambda review: review["timestamp"])
            ratings = product["valid_ratings"]
            product["num_valid_ratings"] = len(ratings)
            product["avg_valid_ratings"] = sum(grade * n for grade, n in ratings.items()) / len(ratings)
            file.write(json.dumps(product) + "\n")
            file.flush()


def compare(products: int, reviews: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        metas, texts = amazon_fixture.write_category(folder / "in", "Home", products, reviews)
        ways = {
            "ours": lambda: build(folder / "in", folder / "in", folder / "ours.jsonl", Options()),
            "ours, legacy": lambda: build(
                folder / "in", folder / "in", folder / "legacy.jsonl", Options(legacy=True)
            ),
            "plain loop": lambda: plain_loop(metas, texts, folder / "plain.jsonl"),
        }
        for way in ways.values():
            way()
        ours, plain = (
            [json.loads(line) for line in (folder / f"{n}.jsonl").read_text().splitlines()]
            for n in ("legacy", "plain")
        )
        assert ours == plain, "legacy mode and the plain loop differ"
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            for way in ways if number % 2 else reversed(ways):
                start = time.process_time()
                ways[way]()
                spent[way].append(time.process_time() - start)
    base = statistics.median(spent["plain loop"])
    print(f"{products:,} products, {reviews:,} reviews, {rounds} rounds, CPU time")
    for way, seconds in spent.items():
        ratios = sorted(base / s for s in seconds)
        quartiles = statistics.quantiles(ratios, n=4)
        rate = reviews / statistics.median(seconds)
        print(
            f"{way:<14} {rate:>10,.0f} reviews/s   x {statistics.median(ratios):.2f} "
            f"[{quartiles[0]:.2f}, {quartiles[2]:.2f}]"
        )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def large(gigabytes: float) -> None:
    """Peak memory on a large review file; killed twice and resumed; another number of parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reviews = int(gigabytes * 1e9 / 530)
        _, texts = amazon_fixture.write_category(folder / "in", "Home", reviews // 20, reviews)
        print(f"review file: {texts.stat().st_size / 1e9:.2f} GB, {reviews:,} reviews")
        command = [sys.executable, "-m", "crs_lib", "cosrec-catalogue"]
        command += ["--metas", str(folder / "in"), "--reviews", str(folder / "in")]
        start = time.time()
        subprocess.run([*command, "--out", str(folder / "a.jsonl")], check=True, stdout=subprocess.DEVNULL)
        seconds = time.time() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"one process: {seconds:.0f} s, {reviews / seconds:,.0f} reviews/s, peak memory {peak:.0f} MB")
        again = [*command, "--out", str(folder / "b.jsonl"), "--parts", "11"]
        for share in (0.3, 0.9):
            process = subprocess.Popen(again, stdout=subprocess.DEVNULL)
            time.sleep(share * seconds)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            print(f"killed after {share * seconds:.0f} s: output there: {(folder / 'b.jsonl').exists()}")
        subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
        one, two = digest(folder / "a.jsonl"), digest(folder / "b.jsonl")
        assert one == two, f"the resumed run differs: {one}, {two}"
        print(f"sha256 of the whole run and of the one killed twice and resumed with 11 parts: {one}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=2_000)
    parser.add_argument("--reviews", type=int, default=96_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", type=float, default=0.0, help="size of the review file in GB")
    args = parser.parse_args()
    if args.large:
        large(args.large)
    else:
        compare(args.products, args.reviews, args.rounds)


if __name__ == "__main__":
    main()
