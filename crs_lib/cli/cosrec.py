"""The CoSRec study: build a product catalogue, index a shop, generate conversations, predict intents."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

from crs_lib.cli.app import command, table
from crs_lib.cli.run import show_costs
from crs_lib.core import paths


@command("cosrec catalogue", takes=["crs_lib.cosrec.catalogue_rules:Options"], writes="out")
def _catalogue(*, metas: Path, reviews: Path, out: Path, **given: Any) -> None:
    """Build products from metadata and reviews.

    Reads Amazon-Reviews-2023 in bounded memory. A killed run continues with the same command. The filters:
    docs/cosrec.md.

    metas: folder of meta_<category>.jsonl[.gz|.zst]
    reviews: folder of <category>.jsonl[.gz|.zst]
    out: output file (.jsonl, .jsonl.gz or .jsonl.zst)
    """
    from crs_lib.cosrec.catalogue import build
    from crs_lib.cosrec.catalogue_rules import Options

    made = build(metas, reviews, out, Options(**given))
    print(f"products written: {made['products written']:,}")
    for name, counts in made["totals"].items():
        print(f"{name}: {', '.join(f'{what} {n:,}' for what, n in counts.items())}")
    if made["without a partner"]:
        print(f"ignored, one of the two files is missing: {', '.join(made['without a partner'])}")
    beside = f"{out.name}.manifest.json and {out.name}.quarantine.jsonl"
    print(f"written: {paths.shown(out)}; beside it {beside}")


@command("cosrec index", reads="products passages", writes="out")
def _index(
    *, products: Path, out: Path, passages: Path | None = None, encoder: str = "hashing", k1: float = 1.2,
    b: float = 0.75,
) -> None:  # fmt: skip
    """Index products and passages for search.

    products: products.jsonl[.gz|.zst]
    out: folder of the index
    passages: passages.jsonl[.gz|.zst]
    encoder: of the dense index: hashing, minilm …
    k1: BM25: gain of repetition
    b: BM25: correction for length
    """
    from crs_lib.cosrec.index import write_index

    made = write_index(products, out, passages, encoder=encoder, k1=k1, b=b, note=partial(print, flush=True))
    print(", ".join(f"{number:,} {name}" for name, number in made.items()))
    print(f"index: {paths.shown(out)}")


@command("cosrec generate", takes=["crs_lib.cosrec.settings:GenerateSettings"])
def _generate(
    *, estimate: bool = False, log: tuple[str, ...] = (), preset: Literal["", "design"] = "", **given: Any
) -> None:
    """Generate conversations about products.

    A killed run continues with the same command. Lists are written with commas.

    preset: design: every value of the published design that no other option changes; they are printed
    estimate: print calls, tokens and hours without running
    log: a finished run, for --estimate
    """
    from crs_lib import llm as models
    from crs_lib.cosrec import generate as generation
    from crs_lib.cosrec.settings import DESIGN, GenerateSettings

    config = GenerateSettings(**(dict(DESIGN) if preset else {}) | given)
    if preset:
        print(*(f"{name}: {getattr(config, name)}" for name in DESIGN), sep="\n", end="\n\n")
    if estimate:
        show_costs("cosrec", config.work(), log, "generate a few conversations")
        return
    folder = generation.generate(config)
    print(f"{config.conversations} conversations: {paths.shown(folder / 'generated.jsonl')}")
    if config.models():
        table(models.usage(folder / "llm_calls.jsonl"), digits=2)


@command("cosrec intents", reads="train test", writes="out")
def _intents(*, train: Path, test: Path, out: Path, model: str = "", seed: int = 0) -> None:
    """Predict the intents of user turns.

    train: folder of an annotated partition (crowd)
    test: folder of the partition to predict (curated)
    out: predictions.jsonl, one line a user turn
    model: intent model (default: the one that routes)
    seed: of the intervals
    """
    from crs_lib.cosrec import intents as models

    scores = models.predict_files(train, test, out, model, seed)
    print(f"predictions: {paths.shown(out)}")
    if scores is not None:
        table(scores)
