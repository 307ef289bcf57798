"""``simulate``: batches without a notebook, on one machine or on a cluster."""

from argparse import ArgumentParser, Namespace
from typing import Any

from crs_lib import notebooks
from crs_lib.cli import notebooks as commands
from crs_lib.cli import options
from crs_lib.core import paths
from crs_lib.notebooks import parameters, sweeps
from crs_lib.simulate.config import SimulateConfig

NOTEBOOK = "03_simulate"


def add_values(parser: ArgumentParser) -> None:
    """``-p NAME VALUE``, ``-f FILE``, ``--sweep FILE``: the parameters of 03_simulate."""
    parser.add_argument(
        "-p", dest="values", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help=f"a parameter of {NOTEBOOK}; lists as a,b or JSON",
    )  # fmt: skip
    parser.add_argument(
        "-f", dest="file", metavar="FILE", help="a YAML file of parameters; -p goes before it"
    )
    parser.add_argument("--sweep", metavar="FILE", help="the runs of a sweep, e.g. thesis; -p goes before it")


def cells(arguments: Namespace) -> list[dict[str, Any]]:
    """The parameters of each run, checked against the notebooks that take them."""
    given = commands.given_values(NOTEBOOK, arguments.values, arguments.file)
    if not arguments.sweep:
        return [parameters.check(notebooks.parameters_of(NOTEBOOK), given, NOTEBOOK)]
    own = {f"{NOTEBOOK}.{name}" for name in given}
    found = ({k: v for k, v in cell.items() if k not in own} for cell in sweeps.read(arguments.sweep).cells)
    return [{**cell, **given} for cell in found]


def of_simulate(cell: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a cell that 03_simulate takes."""
    return sweeps.Sweep.values_for(cell, notebooks.find(NOTEBOOK))


def simulate(parser: ArgumentParser) -> None:
    """``simulate -p NAME VALUE … [--sweep FILE] [--scheduler ADDRESS]``."""
    add_values(parser)
    options.add(parser, SimulateConfig, "scheduler")
    parser.set_defaults(do=_simulate)


def _simulate(arguments: Namespace) -> None:
    from crs_lib.cli import ready
    from crs_lib.simulate.run import simulate

    found = cells(arguments)
    if arguments.sweep:
        ready.check((NOTEBOOK, of_simulate(cell)) for cell in found)
    for cell in found:
        config = options.read(arguments, SimulateConfig, **of_simulate(cell))
        print(f"finished: {paths.shown(simulate(config))}")
