"""``logs``: conversations of any known form read and counted, and everything odd in them named."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue


def logs(parser: ArgumentParser) -> None:
    """``logs PATH [--quirks FILE]``: sessions by model and quirks by kind; every case into a file."""
    parser.add_argument("path", type=Path, help="a log file or a folder of them, of any known form")
    parser.add_argument("--quirks", type=Path, metavar="FILE", help="write every quirk to this CSV file")
    parser.set_defaults(do=_logs)


def _logs(arguments: Namespace) -> None:
    from crs_lib import logs as reader
    from crs_lib.logs import quirks

    counts: dict[str, dict[str, Any]] = {}
    report = quirks.quirks(_counted(reader.read(arguments.path), counts))
    print(pd.DataFrame(list(counts.values())).to_string(index=False))
    if report.empty:
        print("\nno quirks")
    else:
        print(f"\n{quirks.summary(report).to_string(index=False)}")
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
