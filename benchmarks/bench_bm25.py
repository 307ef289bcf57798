"""BM25: a query's time against bm25s on numpy (and numba where it is), with the same top 10, and rank_bm25.

    python benchmarks/bench_bm25.py [--documents 100000] [--queries 50] [--rounds 7]

One process, one thread, CPU time, rounds interleaved A B C C B A. Documents and queries follow a Zipf law,
as words do. The same top 10 is asserted before anything is timed: every returned document scores what the
other one's document of that rank scores, to 1e-5; ours in the library's own variant of the formula.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import bm25s
import numpy as np

from crs_lib.retrieval.bm25 import BM25


def collection(documents: int, queries: int, seed: int = 7) -> tuple[list[list[str]], list[list[str]]]:
    """Token lists of product-like length (20 to 89 words) and queries of 3 to 8 distinct words."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 50_001) ** 1.05
    words = np.array([f"w{i}" for i in range(50_000)])
    lengths = rng.integers(20, 90, documents)
    flat = words[rng.choice(50_000, lengths.sum(), p=share / share.sum())]
    texts = [part.tolist() for part in np.split(flat, np.cumsum(lengths)[:-1])]
    known = sorted({word for text in texts[: documents // 10] for word in text}, key=lambda w: int(w[1:]))
    asked = 1 / np.arange(1, len(known) + 1) ** 0.9
    asked /= asked.sum()
    return texts, [
        rng.choice(known, rng.integers(3, 9), p=asked, replace=False).tolist() for _ in range(queries)
    ]


def same(ours: Any, ids: Any, scores: Any, factor: float = 1.0) -> bool:
    """Whether two top lists agree: equal scores rank by rank, and equal documents but for ties."""
    equal = np.allclose(ours.scores * factor, scores, rtol=1e-5)
    inner = set(ours.indices[ours.scores * factor > scores[-1] * (1 + 1e-5)].tolist())
    return bool(equal and inner <= set(np.asarray(ids).tolist()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    texts, queries = collection(args.documents, args.queries)

    start = time.process_time()
    ours = BM25(1.5, 0.75).fit(texts)
    print(f"{args.documents:,} documents; our index takes {time.process_time() - start:.1f} s")
    ways: dict[str, Callable[[list[str]], Any]] = {"ours": lambda query: ours.search(query, 10)}
    for backend in ("numpy", "numba"):
        try:
            index = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend=backend)
            index.index(texts, show_progress=False)
            index.retrieve([queries[0]], k=10, show_progress=False)
        except ImportError:
            continue
        ways[f"bm25s, {backend}"] = lambda query, index=index: index.retrieve(  # type: ignore[misc]
            [query], k=10, show_progress=False
        )
    for query in queries:
        found = ways["bm25s, numpy"](query)
        assert same(ours.search(query, 10), found.documents[0], found.scores[0]), query
    try:
        from rank_bm25 import BM25Okapi
    except ImportError:
        print("rank_bm25 is not installed; its row is left out")
    else:
        plain = BM25Okapi(texts, k1=1.5, b=0.75)
        ways["rank_bm25"] = lambda query: np.argsort(plain.get_scores(query))[::-1][:10]

    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(args.rounds):
        for name in ways if number % 2 else reversed(ways):
            asked = queries[:5] if name == "rank_bm25" else queries
            start = time.process_time()
            for query in asked:
                ways[name](query)
            spent[name].append((time.process_time() - start) / len(asked))
    base = statistics.median(spent["ours"])
    for name, seconds in spent.items():
        ratios = sorted(s / base for s in seconds)
        low, _, high = statistics.quantiles(ratios, n=4)
        middle, milliseconds = statistics.median(ratios), statistics.median(seconds) * 1e3
        print(f"{name:<14} {milliseconds:9.3f} ms a query   x {middle:8.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
