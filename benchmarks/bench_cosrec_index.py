# ruff: noqa: E501
"""cosrec-index at scale: peak memory and time of building, time to open, time of a query.

    python benchmarks/bench_cosrec_index.py [--products 1000000] [--folder FOLDER]

Products have 20 to 60 words that follow a Zipf law, and up to three reviews. The index is built by the command in a
process of its own, so its peak memory is that of the command; it is opened and asked in another one.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_OPEN = """
import resource, sys, time
from pathlib import Path
from crs_lib.cosrec import index
started = time.perf_counter()
stock = index.StockOnDisk(Path(sys.argv[1]))
bm25 = stock.search("products")
dense = stock.search("products", ["dense:hashing"])
print(f"opened in {time.perf_counter() - started:.2f} s: {len(stock.products):,} products")
query = stock.products[stock.products.ids[7]].title
for name, search in (("bm25", bm25), ("dense", dense), ("dense again", dense)):
    started = time.perf_counter()
    hits = search.search(query, 10)
    print(f"{name}: {len(hits)} hits, first {hits[0].id}, {time.perf_counter() - started:.2f} s")
user = stock.products.row(5).reviews[0]["user"]
print(f"reviews of {user}: {len(stock.reviews_of(user))}")
print(f"peak memory of the reader: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
"""


def products(path: Path, count: int, seed: int = 7) -> None:
    """Write so many products, one a line."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 60_001) ** 1.05
    known = np.array([f"w{i}" for i in range(60_000)])
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 10_000):
            lengths = rng.integers(20, 61, 10_000)
            flat = known[rng.choice(60_000, lengths.sum(), p=share / share.sum())]
            for i, part in enumerate(np.split(flat, np.cumsum(lengths)[:-1])):
                if start + i >= count:
                    return
                said = part.tolist()
                reviews = [
                    {"user": f"U{rng.integers(count)}", "timestamp": 1, "title": "Good", "text": " ".join(said[:8]),
                     "rating": 5, "helpful": 0} for _ in range(1 + i % 3)
                ]  # fmt: skip
                row = {"parent_asin": f"B{start + i:09d}", "title": " ".join(said[:8]), "description": [" ".join(said[8:])],
                       "categories": ["Home"], "price": 9.5, "valid_reviews": reviews}  # fmt: skip
                file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--products", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        source, out = Path(place) / "products.jsonl", Path(place) / "index"
        products(source, given.products)
        print(f"{given.products:,} products, {source.stat().st_size / 1e6:,.0f} MB", flush=True)
        started = time.perf_counter()
        command = ["cosrec-index", "--products", str(source), "--out", str(out)]
        subprocess.run([sys.executable, "-m", "crs_lib", *command], check=True)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e9
        print(
            f"built in {time.perf_counter() - started:.0f} s, peak memory {peak:.2f} GB, {size:.2f} GB on disk",
            flush=True,
        )
        subprocess.run([sys.executable, "-c", _OPEN, str(out)], check=True)


if __name__ == "__main__":
    main()
