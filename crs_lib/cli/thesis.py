"""``thesis-tables``: logs to the thesis's tables and figures by one command."""

from argparse import ArgumentParser, Namespace

import pandas as pd

from crs_lib import evaluate, judge
from crs_lib.cli import logs as log_commands
from crs_lib.cli import notebooks as commands
from crs_lib.cli import options
from crs_lib.core import paths
from crs_lib.evaluate import EvaluateConfig
from crs_lib.metrics import base
from crs_lib.simulate.logged import ImportConfig, import_logs

_SCORING = (
    "convention", "topics", "similarity", "extractor", "vocabulary", "topic_model", "tas_weights",
    "cas_weights", "window", "recovery_cc", "recovery_cr", "extractor_llm",
)  # fmt: skip


def thesis_tables(parser: ArgumentParser) -> None:
    """``thesis-tables --logs PATH --catalog FILE --run NAME [--convention NAME] …``: tables and figures."""
    options.add(parser, ImportConfig)
    options.add(parser, EvaluateConfig, *_SCORING, convention="thesis_legacy", workers=2)
    parser.add_argument(
        "--judge-scores",
        default="",
        metavar="PATH",
        help="CSV files of judge scores made elsewhere: one, a folder, or a quoted pattern",
    )
    parser.set_defaults(do=_run)


def _run(arguments: Namespace) -> None:
    given = options.read(arguments, ImportConfig)
    scoring = options.read(arguments, EvaluateConfig).changed(run=given.run)
    log_commands.tell(import_logs(given), given)
    if arguments.judge_scores:
        counts = judge.adopt(given.run, arguments.judge_scores)
        print(f"\njudge scores from elsewhere\n{counts.to_string(index=False)}")
    evaluate.evaluate(scoring)
    finish(given.run, scoring.rule.name)


def finish(run: str, convention: str) -> None:
    """Write the tables of a scored convention, draw its figures, and print the best systems."""
    from crs_lib.report import thesis_tables as views

    files = views.write_tables(run, convention)
    commands.draw("movies", run, convention=convention)
    print(f"\n{_shown(views.best_systems(run, convention)).to_string(index=False, na_rep='-')}")
    names = ["model_metrics.csv", *(path.name for path in files)]
    print(f"tables:  {paths.shown(files[0].parent)}/   {', '.join(names)}")
    print(f"figures: {paths.shown(commands.figure_folder(run, convention))}/")


def _shown(best: pd.DataFrame) -> pd.DataFrame:
    """The best systems as they are printed: short names, rounded, without empty columns."""
    short = [base.get(name).label for name in best["metric"]]
    shown = best.drop(columns=["low", "high", "n"]).assign(metric=short).round(4)
    return shown.dropna(axis=1, how="all")
