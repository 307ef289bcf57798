"""``logs`` and ``import``: conversations of any known form, counted with what is odd in them, or as a run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.cli import files, options
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.simulate.logged import SKIPPED, ImportConfig, Imported, import_logs


def logs(parser: ArgumentParser) -> None:
    """``logs PATH [--quirks FILE]``: sessions by model and quirks by kind; every case into a file."""
    parser.add_argument("path", type=Path, help="a log file or a folder of them, of any known form")
    parser.add_argument("--quirks", type=Path, metavar="FILE", help="write every quirk to this CSV file")
    files.declare(parser, reads=("path",), writes=("quirks",))
    parser.set_defaults(do=_logs)


def _logs(arguments: Namespace) -> None:
    from crs_lib import data

    counts: dict[str, dict[str, Any]] = {}
    report = data.log_quirks(_counted(data.read(arguments.path), counts))
    print(pd.DataFrame(list(counts.values())).to_string(index=False))
    if report.empty:
        print("\nno quirks")
    else:
        print(f"\n{data.log_quirk_counts(report).to_string(index=False)}")
    if arguments.quirks:
        tables.write_csv(arguments.quirks, report)
        print(f"\nevery case: {paths.shown(arguments.quirks)}")


def _counted(dialogues: Iterable[Dialogue], counts: dict[str, dict[str, Any]]) -> Iterator[Dialogue]:
    """The dialogues, one at a time; ``counts`` gets sessions, turns and shifts by model."""
    for dialogue in dialogues:
        name = dialogue.model_name
        mine = counts.setdefault(name, {"model": name, "sessions": 0, "turns": 0, "shifts": 0})
        mine["sessions"] += 1
        mine["turns"] += len(dialogue.pairs())
        mine["shifts"] += len(dialogue.shift_turns())
        yield dialogue


def import_run(parser: ArgumentParser) -> None:
    """``import --logs PATH --run NAME [--catalog FILE] [--system NAME] [--strict]``: logs as a run."""
    options.add(parser, ImportConfig)
    parser.set_defaults(do=_import)


def _import(arguments: Namespace) -> None:
    config = options.read(arguments, ImportConfig)
    tell(import_logs(config), config)
    print(f"next: python -m crs_lib run 04_evaluate -p run {config.run}")


def tell(found: Imported, config: ImportConfig) -> None:
    """Print an import: sessions by system, what was skipped and why, and how far the catalogue goes."""
    print(found.systems.to_string(index=False))
    if len(found.skipped):
        print(f"\n{len(found.skipped)} conversations could not be read and are left out; the first:")
        for row in found.skipped.head(3).itertuples():
            print(f"  {row.place}: {row.reason}")
        print(f"all of them: {paths.shown(found.folder / SKIPPED)}")
    for name in found.systems.loc[found.systems["turns"] == 0, "system"]:
        print(f"no usable session: {name}")
    if found.known.foreign:
        print(
            f"\nonly {100 * found.known.share:.0f} % of {found.known.of} ({found.known.n}) the catalogue "
            f"{config.catalog!r} {found.known.says}; scores of films say little: give the catalogue that the "
            "systems had (--catalog FILE)"
        )
    print(f"\nrun: {paths.shown(found.folder)}/")
