"""``trace`` and ``report``: the pages of a finished run, from the command line."""

from argparse import ArgumentParser, Namespace

from crs_lib.core import paths


def trace(parser: ArgumentParser) -> None:
    """``trace [--run R]``: every session of an evaluated run as a page that opens from disk."""
    parser.add_argument("--run", default="demo", help="the run to show (default: demo)")
    parser.add_argument("--convention", default="", help="whose scores, where the run has several")
    parser.set_defaults(do=_trace)


def _trace(arguments: Namespace) -> None:
    from crs_lib.report import trace as pages

    written = pages.write(arguments.run, arguments.convention)
    print(f"written: {paths.shown(written)}   open it in a browser, no server is needed")


def report(parser: ArgumentParser) -> None:
    """``report [--run R] [--plan P]``: tables, figures, convention and manifest on one page."""
    parser.add_argument("--run", default="demo", help="the run to report (default: demo)")
    parser.add_argument("--convention", default="", help="whose scores, where the run has several")
    parser.add_argument(
        "--plan", default="movies", help="declared analysis, notebooks/plans/<plan>.yaml (default: movies)"
    )
    parser.set_defaults(do=_report)


def _report(arguments: Namespace) -> None:
    from crs_lib.report import report as pages

    print(f"written: {paths.shown(pages.write(arguments.run, arguments.plan, arguments.convention))}")
