"""The CoSRec sample: do BM25, dense and fusion differ on it, whatever the generator's seed?

    python benchmarks/cosrec_sample.py [--seeds 7 8 9 10 11]

Makes the sample from each seed in a folder of its own, which goes afterwards, and prints nDCG@10 with 95 %
intervals over conversations, every pair's difference, and whether all differ. The query is "first and last".
Seed 7 is the one that is shipped.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from crs_lib.core import paths
from crs_lib.cosrec import corpus, evaluate, index
from crs_lib.cosrec.records import Partition, topic
from crs_lib.cosrec.rewriting import stand_alone
from crs_lib.retrieval.runs import Run

MAKE = paths.samples() / "cosrec" / "make_sample.py"
SPECS = ("bm25", "dense:hashing", "bm25+dense:hashing")
MEASURE = "nDCG@10"


def ranked(folder: Path, fusion: str = "stratum") -> tuple[Partition, dict[str, Run]]:
    """The curated partition, and each system's hundred best for every judged topic."""
    curated, stock = corpus.load(folder, "curated"), index.opened(folder, "", 1.2, 0.75)
    found: dict[str, Run] = {}
    for spec in SPECS:
        parts = spec.split("+")
        searches = {
            "recommendation": stock.search("products", parts, fusion),
            "search": stock.search("passages", parts, fusion),
        }
        run: Run = {}
        for name in curated.qrels:
            asked = topic(name)
            said = curated.conversations[asked.conversation].said(asked.turn)
            run[name] = searches[asked.kind].search(stand_alone("first and last", said, None)[0], 100)
        found[spec] = run
    return curated, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9, 10, 11])
    for seed in parser.parse_args().seeds:
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(
                [sys.executable, MAKE, "--out", place, "--seed", str(seed)], check=True, capture_output=True
            )
            curated, runs = ranked(Path(place))
        scores = evaluate.score(curated, runs, [MEASURE])
        floored = evaluate.with_floors(curated, scores, [MEASURE], draws=20)
        gaps = evaluate.differences(scores, MEASURE)
        apart = ((gaps["low"] > 0) | (gaps["high"] < 0)).all()
        print(f"seed {seed}: {'all pairs differ' if apart else 'NOT all pairs differ'}")
        columns = ["kind", "system", "mean", "low", "high", "n"]
        print(evaluate.means(floored, [MEASURE])[columns].round(3).to_string(index=False))
        print(gaps[["kind", "a", "b", "diff", "low", "high"]].round(3).to_string(index=False))


if __name__ == "__main__":
    main()
