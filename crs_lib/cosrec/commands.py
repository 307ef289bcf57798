"""The CoSRec study: build a product catalogue, index a shop, generate conversations, predict intents."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

from crs_lib.cli.commands import Command, Takes, table
from crs_lib.cli.run import show_costs
from crs_lib.core import paths


class Catalogue(Command):
    """Build products from metadata and reviews.

    Reads Amazon-Reviews-2023 in bounded memory. A killed run continues with the same command. The filters:
    docs/cosrec.md.
    """

    takes = (Takes("crs_lib.cosrec.catalogue_rules:Options"),)
    writes = "out"

    metas: Path
    """folder of meta_<category>.jsonl[.gz|.zst]"""
    reviews: Path
    """folder of <category>.jsonl[.gz|.zst]"""
    out: Path
    """output file (.jsonl, .jsonl.gz or .jsonl.zst)"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec.catalogue import build
        from crs_lib.cosrec.catalogue_rules import Options

        report = build(self.metas, self.reviews, self.out, Options(**settings))
        print(f"products written: {report['products written']:,}")
        for name, counts in report["totals"].items():
            parts = [f"{what} {count:,}" for what, count in counts.items()]
            print(f"{name}: {', '.join(parts)}")
        if report["without a partner"]:
            print(f"ignored, one of the two files is missing: {', '.join(report['without a partner'])}")
        print(f"written: {paths.shown(self.out)}; beside it {self.out.name}.manifest.json")
        products = report["totals"]["products"]
        left_out = products["read"] - report["products written"]
        where = f"the counts above, and unreadable lines in {self.out.name}.quarantine.jsonl"
        print(f"products read: {products['read']:,}; left out: {left_out:,}; list: {where}")


class Index(Command):
    """Index products and passages for search."""

    reads = "products passages"
    writes = "out"

    products: Path
    """products.jsonl[.gz|.zst]"""
    out: Path
    """folder of the index"""
    passages: Path | None = None
    """passages.jsonl[.gz|.zst]"""
    encoder: str = "hashing"
    """of the dense index: hashing, minilm …"""
    k1: float = 1.2
    """BM25: gain of repetition"""
    b: float = 0.75
    """BM25: correction for length"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec.index import write_index

        note = partial(print, flush=True)
        counts = write_index(
            self.products, self.out, self.passages, encoder=self.encoder, k1=self.k1, b=self.b, note=note
        )
        print(", ".join(f"{number:,} {name}" for name, number in counts.items()))
        print(f"index: {paths.shown(self.out)}")


class Generate(Command):
    """Generate conversations about products.

    A killed run continues with the same command. Lists are written with commas.
    """

    takes = (Takes("crs_lib.cosrec.settings:GenerateSettings"),)

    estimate: bool = False
    """print calls, tokens and hours without running"""
    log: tuple[str, ...] = ()
    """a finished run, for --estimate"""
    preset: Literal["", "design"] = ""
    """design: every value of the published design that no other option changes; they are printed"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import llm
        from crs_lib.cosrec import generate
        from crs_lib.cosrec.settings import DESIGN, GenerateSettings

        preset = dict(DESIGN) if self.preset else {}
        config = GenerateSettings(**{**preset, **settings})
        for name in preset:
            print(f"{name}: {getattr(config, name)}")
        if preset:
            print()
        if self.estimate:
            show_costs("cosrec", config.work(), self.log, "generate a few conversations")
            return
        folder = generate.generate(config)
        print(f"{config.conversations} conversations: {paths.shown(folder / 'generated.jsonl')}")
        if config.models():
            table(llm.usage(folder / "llm_calls.jsonl"), digits=2)


class Intents(Command):
    """Predict the intents of user turns."""

    reads = "train test"
    writes = "out"

    train: Path
    """folder of an annotated partition (crowd)"""
    test: Path
    """folder of the partition to predict (curated)"""
    out: Path
    """predictions.jsonl, one line a user turn"""
    model: str = ""
    """intent model (default: the one that routes)"""
    seed: int = 0
    """of the intervals"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.cosrec import intents

        scores = intents.predict_files(self.train, self.test, self.out, self.model, self.seed)
        print(f"predictions: {paths.shown(self.out)}")
        if scores is not None:
            table(scores)
