"""``score-human``: conversations with people scored by what the person says."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from crs_lib.cli import files
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError

_SHOWN = 5  # conversations that could not be read


def score_human(parser: ArgumentParser) -> None:
    """``score-human --dialogues FILE --catalog FILE --out RUN.json [--strict]``."""
    parser.add_argument(
        "--dialogues", required=True, metavar="FILE", help="a log of any known form, e.g. CRSArena-Eval"
    )
    parser.add_argument("--catalog", required=True, metavar="FILE", help="the films that they speak of")
    parser.add_argument("--out", required=True, metavar="RUN.json", help="where the predictions go")
    parser.add_argument(
        "--strict", action="store_true", help="stop at a conversation that cannot be read or has no name"
    )
    files.declare(parser, reads=("dialogues", "catalog"), writes=("out",))
    parser.set_defaults(do=_score)


def _score(arguments: Namespace) -> None:
    from crs_lib import logs
    from crs_lib.catalog import sources
    from crs_lib.grounding.grounder import Grounder
    from crs_lib.people import agreement, scores

    broken: list[logs.Broken] = []
    paths.apart([Path(arguments.out)], [*logs.files(arguments.dialogues), Path(arguments.catalog)])
    grounder = Grounder(sources.load(arguments.catalog))
    given = arguments.dialogues
    dialogues = logs.read(given) if arguments.strict else logs.readable(given, broken.append)
    rated: list[dict[str, Any]] = []
    n_dialogues = n_replies = n_known = n_silent = 0
    with tables.write_aside(Path(arguments.out)) as file:
        for scored in scores.score(dialogues, grounder):
            entry = json.dumps(agreement.entry(scored), ensure_ascii=False, indent=1)
            file.write(("," if n_dialogues else "[") + "\n" + entry)
            n_dialogues += 1
            n_replies += len(scored.rows)
            n_known += sum(row["defined"] for row in scored.rows)
            n_silent += not scored.rows
            rows = agreement.rated_rows(scored)
            if any(row[name] == row[name] for row in rows for name in (agreement.RATING, agreement.OVERALL)):
                rated += rows
        if not n_replies:
            raise InputError(
                "no reply to score; give at least one conversation in which the system answers"
                + (f" (not read: {broken[0].place}: {broken[0].reason})" if broken else "")
            )
        file.write("\n]\n")
    print(f"{n_dialogues} dialogues, {n_replies} replies, a wish known in {n_known / n_replies:.0%}")
    if n_silent:
        print(f"{n_silent} of them without a reply: 0, a system that never answers follows nothing")
    _report(broken)
    print(f"predictions by {agreement.RECEIVED}: {paths.shown(Path(arguments.out))}")
    if rated:
        _agreement(rated)


def _report(broken: list[Any]) -> None:
    if broken:
        print(f"{len(broken)} conversations not scored; --strict stops at the first:")
    for one in broken[:_SHOWN]:
        print(f"  {one.place}: {one.reason}")
    if len(broken) > _SHOWN:
        print(f"  … and {len(broken) - _SHOWN} more")


def _agreement(rated: list[dict[str, Any]]) -> None:
    from crs_lib.people import agreement

    rows = agreement.table(rated)
    found = agreement.agreement(rows, agreement.SHOWN)
    print(found.round(3).to_string(index=False, na_rep="-"))
    whole = agreement.per_dialogue(rows, [agreement.RECEIVED])
    for frame, score, rating in (
        (rows, agreement.RECEIVED, agreement.RATING),
        (whole, agreement.WHOLE, agreement.OVERALL),
    ):
        if frame[rating].notna().any():
            print(agreement.against_baselines(frame, score, rating).round(3).to_string(index=False))
