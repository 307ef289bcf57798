"""``catalog export``: the films of a run or of a catalogue's file as JSON lines, for one's own system."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError


def catalog(parser: ArgumentParser) -> None:
    """``catalog export (--run R | --catalog FILE) --out films.jsonl``."""
    parser.add_argument("action", choices=["export"], help="export: write the films, a JSON object a line")
    parser.add_argument("--run", help="the catalogue that this run was made with")
    parser.add_argument("--catalog", metavar="FILE", help="sample, or a catalogue's file")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    parser.set_defaults(do=_export)


def _export(arguments: Namespace) -> None:
    from crs_lib.catalog import sources

    if bool(arguments.run) == bool(arguments.catalog):
        raise InputError("name the catalogue: --run NAME for a run's, or --catalog sample (or a file)")
    source = arguments.catalog
    if arguments.run:
        source = paths.run_folder("movies", arguments.run) / "catalog.parquet"
        if not source.is_file():
            raise InputError(
                f"run {arguments.run!r} has no catalogue; make it with: python -m crs_lib run 03_simulate "
                f"-p run {arguments.run}"
            )
    films = sources.load(source)
    count = tables.write_jsonl(arguments.out, films.export())
    print(f"{count:,} films: {paths.shown(arguments.out)}")
