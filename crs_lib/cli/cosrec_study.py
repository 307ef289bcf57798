"""The commands of the CoSRec study: index a shop, generate conversations, predict intents."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from crs_lib.cli import files, options
from crs_lib.core import paths
from crs_lib.core.errors import InputError


def index(parser: ArgumentParser) -> None:
    """``cosrec-index --products FILE --out FOLDER [--passages FILE]``."""
    parser.add_argument("--products", type=Path, required=True, help="products.jsonl[.gz|.zst]")
    parser.add_argument("--passages", type=Path, help="passages.jsonl[.gz|.zst]")
    parser.add_argument("--out", type=Path, required=True, help="folder of the index")
    parser.add_argument("--encoder", default="hashing", help="of the dense index: hashing, minilm …")
    parser.add_argument("--k1", type=float, default=1.2, help="BM25: gain of repetition")
    parser.add_argument("--b", type=float, default=0.75, help="BM25: correction for length")
    files.declare(parser, reads=("products", "passages"), writes=("out",))
    parser.set_defaults(do=_index)


def _index(arguments: Namespace) -> None:
    from crs_lib.cosrec.index import write_index

    made = write_index(
        arguments.products, arguments.out, arguments.passages, encoder=arguments.encoder,
        k1=arguments.k1, b=arguments.b, note=lambda text: print(text, flush=True),
    )  # fmt: skip
    print(f"{made.products:,} products, {made.passages:,} passages, {made.reviews:,} reviews")
    print(f"index: {paths.shown(arguments.out)}")


def generate(parser: ArgumentParser) -> None:
    """``cosrec-generate --run NAME [--writer SPEC] …``: every field of the generation as an option."""
    from crs_lib.cosrec.settings import GenerateSettings

    parser.epilog = "A killed run continues with the same command. Lists are written with commas."
    options.add(parser, GenerateSettings)
    for name, kind in (("host", str), ("timeout", float), ("slots", int)):
        parser.add_argument(f"--{name}", type=kind, help=f"{name} of the models' server, as in --llm")
    parser.add_argument(
        "--estimate", action="store_true", help="print calls, tokens and hours without running"
    )
    parser.add_argument(
        "--log", action="append", default=[], metavar="RUN", help="a finished run, for --estimate"
    )
    parser.set_defaults(do=_generate)


def _generate(arguments: Namespace) -> None:
    from crs_lib.cosrec import generate as generation
    from crs_lib.cosrec.settings import GenerateSettings

    values = options.values(arguments, GenerateSettings)
    reached = {name: getattr(arguments, name) for name in ("host", "timeout", "slots")}
    values["llm"] = {**values["llm"], **{name: value for name, value in reached.items() if value is not None}}
    config = GenerateSettings(**values)
    if arguments.estimate:
        return _estimate(config, arguments.log)
    folder = generation.generate(config)
    print(f"{config.conversations} conversations: {paths.shown(folder / 'generated.jsonl')}")
    if config.models():
        from crs_lib import llm as models

        print(models.usage(folder / "llm_calls.jsonl").round(2).to_string(index=False))
    return None


def _estimate(config: Any, logs: list[str]) -> None:
    from crs_lib.cli.models import shown
    from crs_lib.core import tables
    from crs_lib.llm import estimate as costs

    if not config.models():
        raise InputError("no language model takes part in this run; there is nothing to estimate")
    known: dict[tuple[str, str], costs.Cost] = {}
    for run in logs:
        path = paths.run_folder("cosrec", run) / "llm_calls.jsonl"
        if not path.exists():
            raise InputError(f"run {run!r} has no llm_calls.jsonl; name a finished run with models")
        known |= costs.costs(tables.read_jsonl(path))
    print(shown(costs.estimate(config.work(), known)))
    if not logs:
        print("\nFor tokens and hours generate a few conversations first, then add: --log RUN")


def intents(parser: ArgumentParser) -> None:
    """``cosrec-intents --train FOLDER --test FOLDER --out FILE``."""
    parser.add_argument("--train", type=Path, required=True, help="folder of an annotated partition (crowd)")
    parser.add_argument(
        "--test", type=Path, required=True, help="folder of the partition to predict (curated)"
    )
    parser.add_argument("--out", type=Path, required=True, help="predictions.jsonl, one line a user turn")
    parser.add_argument("--model", default="", help="intent model (default: the one that routes)")
    parser.add_argument("--seed", type=int, default=0, help="of the intervals")
    files.declare(parser, reads=("train", "test"), writes=("out",))
    parser.set_defaults(do=_intents)


def _intents(arguments: Namespace) -> None:
    from crs_lib.cosrec import intents as models

    scores = models.predict_files(**{name: getattr(arguments, name) for name in _PREDICT})
    print(f"predictions: {paths.shown(arguments.out)}")
    if scores is not None:
        print(scores.round(3).to_string(index=False))


_PREDICT = ("train", "test", "out", "model", "seed")
