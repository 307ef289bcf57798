"""``python -m crs_lib cosrec-catalogue``: the product catalogue from metas and reviews."""

import argparse
from pathlib import Path
from typing import Any

from crs_lib.core import paths
from crs_lib.cosrec.catalogue import Settings, build
from crs_lib.cosrec.catalogue_files import OUTPUTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.epilog = (
        "Reads Amazon-Reviews-2023 in bounded memory. A killed run continues with the same command. "
        "The filters: docs/cosrec.md."
    )
    parser.add_argument("--metas", type=Path, required=True, help="folder of meta_<category>.jsonl[.gz|.zst]")
    parser.add_argument("--reviews", type=Path, required=True, help="folder of <category>.jsonl[.gz|.zst]")
    parser.add_argument("--out", type=Path, required=True, help=f"output file ({', '.join(OUTPUTS)})")
    parser.add_argument(
        "--legacy", action="store_true", help="repeat the original filters and statistics exactly"
    )
    parser.add_argument(
        "--shortest", type=int, default=10, help="least characters of a description or review"
    )
    parser.add_argument(
        "--title-latin", type=float, default=0.5, help="least share of Latin-1 characters, title"
    )
    parser.add_argument(
        "--text-latin", type=float, default=0.8, help="least share of Latin-1 characters, text"
    )
    parser.add_argument(
        "--most-reviews", type=int, default=0, help="keep the k most helpful reviews (0: all)"
    )
    parser.add_argument(
        "--parts", type=int, default=0, help="parts of the join (0: by size; changes no result)"
    )
    parser.add_argument("--workers", type=int, default=1, help="local processes")
    parser.add_argument(
        "--scheduler", default="", help="address of a Dask scheduler instead of local processes"
    )
    parser.add_argument("--keep-work", action="store_true", help="keep the working files")
    parser.set_defaults(do=main)


def main(args: argparse.Namespace) -> None:
    """Make the catalogue and say what was kept and dropped."""
    settings = Settings(
        legacy=args.legacy,
        shortest=args.shortest,
        title_latin=args.title_latin,
        text_latin=args.text_latin,
        most_reviews=args.most_reviews,
        parts=args.parts,
        workers=args.workers,
        scheduler=args.scheduler,
        keep_work=args.keep_work,
    )
    manifest = build(args.metas, args.reviews, args.out, settings)
    print("\n".join(report(manifest)))
    beside = f"{args.out.name}.manifest.json and {args.out.name}.quarantine.jsonl"
    print(f"written: {paths.shown(args.out)}; beside it {beside}")


def report(manifest: dict[str, Any]) -> list[str]:
    """The counts of a manifest as lines to read."""
    lines = [f"products written: {manifest['products written']:,}"]
    for part, counts in manifest["totals"].items():
        lines.append(f"{part}:")
        most_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  {name:<24} {number:>14,}" for name, number in most_first]
    if manifest["without a partner"]:
        lines.append(f"ignored, one of the two files is missing: {', '.join(manifest['without a partner'])}")
    return lines
