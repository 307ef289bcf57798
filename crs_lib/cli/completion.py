"""Completion in a shell: ``eval "$(crs --completion bash)"``, done by argcomplete."""

import os
from argparse import ArgumentParser
from collections.abc import Sequence

import argcomplete

from crs_lib.cli import names
from crs_lib.cli.commands import add_options, command_class


def complete() -> None:
    """Answer the shell that asks what may follow, and end; without effect where no shell asks."""
    line = os.environ.get("COMP_LINE", "")
    before = line[: int(os.environ.get("COMP_POINT", len(line)))]
    words = f"{before}|".split()[1:-1]  # the last one is being typed
    argcomplete.autocomplete(parser_after(words))


def parser_after(words: Sequence[str]) -> ArgumentParser:
    """A parser of the line that begins with these words: of their command, else of what may follow them."""
    parser = ArgumentParser(names.PROGRAM)
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in names.commands():
            for word in name.split():
                parser.add_argument(word, choices=[word])
            add_options(parser, command_class(names.commands()[name]))
            return parser
    rows = [name.split() for name in names.commands()]
    if words:
        parser.add_argument("group", choices=[words[0]])
        rows = [parts[1:] for parts in rows if parts[0] == words[0]]
    parser.add_argument("command", choices=[parts[0] for parts in rows if parts])
    return parser
