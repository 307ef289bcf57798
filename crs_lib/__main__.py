"""``python -m crs_lib COMMAND``: run notebooks, sweeps and the rest without leaving the terminal.

A command is one row of ``COMMANDS`` and one function that fills an argparse parser and sets ``do``. The
function's module is imported when the command is used.
"""

import argparse
import importlib
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from crs_lib.cli import ending, files, output
from crs_lib.core.errors import InputError, RunError


class Command(NamedTuple):
    """One command: its name, its line of help, and the ``module:function`` that fills its parser."""

    name: str
    help: str
    target: str


COMMANDS = (
    Command("run", "run one notebook with other parameters", "crs_lib.cli.notebooks:run"),
    Command("params", "show the parameters of a notebook", "crs_lib.cli.notebooks:params"),
    Command("sweep", "run notebooks over a grid of parameters", "crs_lib.cli.sweep:sweep"),
    Command("simulate", "simulate without a notebook, also on a cluster", "crs_lib.cli.simulate:simulate"),
    Command(
        "try", "hold three turns with a system and show what it understood", "crs_lib.cli.talk:try_system"
    ),
    Command("chat", "talk to a system in the terminal", "crs_lib.cli.talk:chat"),
    Command("catalog", "write a catalogue as JSON lines", "crs_lib.cli.catalog:catalog"),
    Command("estimate", "calls, tokens and hours of a run with models", "crs_lib.cli.models:estimate"),
    Command("judge", "let models judge a finished run", "crs_lib.cli.models:judge"),
    Command("gate", "test which metrics order the control policies correctly", "crs_lib.cli.trust:gate"),
    Command(
        "redteam",
        "search for policies that raise a score without use to the user",
        "crs_lib.cli.trust:redteam",
    ),
    Command(
        "precision", "estimate variance components and the scenarios needed", "crs_lib.cli.trust:precision"
    ),
    Command("realism", "compare simulated with real user turns", "crs_lib.cli.trust:realism"),
    Command(
        "sensitivity", "test how far a ranking depends on the convention", "crs_lib.cli.trust:sensitivity"
    ),
    Command("figures", "draw the figures of a finished run", "crs_lib.cli.notebooks:figures"),
    Command("trace", "write every session of a run as a page to browse", "crs_lib.cli.pages:trace"),
    Command("report", "write a run's tables and figures as one page", "crs_lib.cli.pages:report"),
    Command(
        "thesis", "run notebooks 01 to 06, from the catalogue to the figures", "crs_lib.cli.notebooks:thesis"
    ),
    Command("score", "score logs of any known form", "crs_lib.cli.score:add_arguments"),
    Command("logs", "read logs of any known form and report their quirks", "crs_lib.cli.logs:logs"),
    Command("import", "turn logs of any known form into a run", "crs_lib.cli.logs:import_run"),
    Command(
        "thesis-tables", "make the thesis's tables and figures from logs", "crs_lib.cli.thesis:thesis_tables"
    ),
    Command("topics", "train a topic model on a catalogue's plots", "crs_lib.cli.score:topics"),
    Command(
        "realtalk-predict", "find the evidence for every question of a chat", "crs_lib.cli.realtalk:predict"
    ),
    Command("realtalk-evaluate", "score chats, the test split once", "crs_lib.cli.realtalk:evaluate"),
    Command("realtalk-teach", "train the ranker of the package", "crs_lib.cli.realtalk:teach"),
    Command("realtalk-ladder", "score the retrievers from BM25 to the fusion", "crs_lib.cli.realtalk:ladder"),
    Command("score-human", "score conversations that people rated", "crs_lib.cli.people:score_human"),
    Command("people", "compare scores with raters, success and judges", "crs_lib.cli.people:people"),
    Command(
        "annotate", "make a page of questions about a run, or read its labels", "crs_lib.cli.people:annotate"
    ),
    Command("realtalk-compare", "compare settings of one component", "crs_lib.cli.realtalk:compare"),
    Command(
        "cosrec-catalogue", "build products from metadata and reviews", "crs_lib.cli.cosrec:add_arguments"
    ),
    Command("cosrec-index", "index products and passages for search", "crs_lib.cli.cosrec_study:index"),
    Command("cosrec-generate", "generate conversations about products", "crs_lib.cli.cosrec_study:generate"),
    Command("cosrec-intents", "predict the intents of user turns", "crs_lib.cli.cosrec_study:intents"),
    Command("data", "list, download or verify external files", "crs_lib.cli.datasets:data"),
    Command("refresh", "run the committed notebooks again and store them", "crs_lib.cli.notebooks:refresh"),
)


def parser(chosen: str = "") -> argparse.ArgumentParser:
    """The parser of all commands, with the arguments of the chosen command only."""
    main = argparse.ArgumentParser(prog="python -m crs_lib", description=__doc__.split("\n", 1)[0])
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        if command.name == chosen:
            load(command)(sub)
    return main


def load(command: Command) -> Callable[[argparse.ArgumentParser], None]:
    """Imports and returns the function that adds a command's arguments and sets ``do``."""
    module, _, function = command.target.partition(":")
    found: Callable[[argparse.ArgumentParser], None] = getattr(importlib.import_module(module), function)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success; 2: an error that the user can mend; 130: stopped by Ctrl-C; 141 (SIGPIPE), without a message:
    the reader of the output went away, as in ``| head``.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    with ending.promptly() as interrupts, output.escaped():
        try:
            arguments = parser(given[0] if given else "").parse_args(given)
            files.check(arguments)
            arguments.do(arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            if _output_is_read():  # another pipe than standard output broke
                raise
            return 141
        except (InputError, RunError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            if interrupts.raised:
                interrupts.now()
            interrupts.say()
            return ending.CODE
    return 0


def _output_is_read() -> bool:
    """Whether standard output still has a reader; if not, further output goes to the null device."""
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
