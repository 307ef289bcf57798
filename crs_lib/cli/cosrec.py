"""The CoSRec study: build a product catalogue, index a shop, generate conversations, predict intents."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from crs_lib.cli.app import arg, command, settings, values
from crs_lib.core import paths


@command(
    "cosrec catalogue",
    arg("--metas", type=Path, required=True, help="folder of meta_<category>.jsonl[.gz|.zst]"),
    arg("--reviews", type=Path, required=True, help="folder of <category>.jsonl[.gz|.zst]"),
    arg("--out", type=Path, required=True, help="output file (.jsonl, .jsonl.gz, .jsonl.zst or .parquet)"),
    settings("crs_lib.cosrec.catalogue_rules:Options"),
    note="Reads Amazon-Reviews-2023 in bounded memory. A killed run continues with the same command. "
    "The filters: docs/cosrec.md.",
)
def catalogue(arguments: Namespace) -> None:
    """Build products from metadata and reviews."""
    from crs_lib.cosrec.catalogue import build
    from crs_lib.cosrec.catalogue_rules import Options

    options = Options(**values(arguments, Options))
    manifest = build(arguments.metas, arguments.reviews, arguments.out, options)
    print("\n".join(_counts(manifest)))
    beside = f"{arguments.out.name}.manifest.json and {arguments.out.name}.quarantine.jsonl"
    print(f"written: {paths.shown(arguments.out)}; beside it {beside}")


def _counts(manifest: dict[str, Any]) -> list[str]:
    """The counts of a manifest as lines to read."""
    lines = [f"products written: {manifest['products written']:,}"]
    for part, counts in manifest["totals"].items():
        lines.append(f"{part}:")
        most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {name:<24} {number:>14,}" for name, number in most_first]
    if manifest["without a partner"]:
        lines.append(f"ignored, one of the two files is missing: {', '.join(manifest['without a partner'])}")
    return lines


@command(
    "cosrec index",
    arg("--products", type=Path, required=True, help="products.jsonl[.gz|.zst]"),
    arg("--passages", type=Path, help="passages.jsonl[.gz|.zst]"),
    arg("--out", type=Path, required=True, help="folder of the index"),
    arg("--encoder", default="hashing", help="of the dense index: hashing, minilm …"),
    arg("--k1", type=float, default=1.2, help="BM25: gain of repetition"),
    arg("--b", type=float, default=0.75, help="BM25: correction for length"),
    reads=("products", "passages"),
    writes=("out",),
)
def index(arguments: Namespace) -> None:
    """Index products and passages for search."""
    from crs_lib.cosrec.index import write_index

    made = write_index(
        arguments.products, arguments.out, arguments.passages, encoder=arguments.encoder,
        k1=arguments.k1, b=arguments.b, note=lambda text: print(text, flush=True),
    )  # fmt: skip
    print(f"{made.products:,} products, {made.passages:,} passages, {made.reviews:,} reviews")
    print(f"index: {paths.shown(arguments.out)}")


@command(
    "cosrec generate",
    settings("crs_lib.cosrec.settings:GenerateSettings"),
    *(
        arg(f"--{name}", type=kind, help=f"{name} of the models' server, as in --llm")
        for name, kind in (("host", str), ("timeout", float), ("slots", int))
    ),
    arg("--estimate", action="store_true", help="print calls, tokens and hours without running"),
    arg("--log", action="append", default=[], metavar="RUN", help="a finished run, for --estimate"),
    note="A killed run continues with the same command. Lists are written with commas.",
)
def generate(arguments: Namespace) -> None:
    """Generate conversations about products."""
    from crs_lib.cli.run import show_costs
    from crs_lib.cosrec import generate as generation
    from crs_lib.cosrec.settings import GenerateSettings

    given = values(arguments, GenerateSettings)
    reached = {name: getattr(arguments, name) for name in ("host", "timeout", "slots")}
    given["llm"] = {**given["llm"], **{name: value for name, value in reached.items() if value is not None}}
    config = GenerateSettings(**given)
    if arguments.estimate:
        show_costs("cosrec", config.work(), arguments.log, "generate a few conversations")
        return
    folder = generation.generate(config)
    print(f"{config.conversations} conversations: {paths.shown(folder / 'generated.jsonl')}")
    if config.models():
        from crs_lib import llm as models

        print(models.usage(folder / "llm_calls.jsonl").round(2).to_string(index=False))


@command(
    "cosrec intents",
    arg("--train", type=Path, required=True, help="folder of an annotated partition (crowd)"),
    arg("--test", type=Path, required=True, help="folder of the partition to predict (curated)"),
    arg("--out", type=Path, required=True, help="predictions.jsonl, one line a user turn"),
    arg("--model", default="", help="intent model (default: the one that routes)"),
    arg("--seed", type=int, default=0, help="of the intervals"),
    reads=("train", "test"),
    writes=("out",),
)
def intents(arguments: Namespace) -> None:
    """Predict the intents of user turns."""
    from crs_lib.cosrec import intents as models

    scores = models.predict_files(**vars(arguments))
    print(f"predictions: {paths.shown(arguments.out)}")
    if scores is not None:
        print(scores.round(3).to_string(index=False))
