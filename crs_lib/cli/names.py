"""The names of the commands: a light table that needs neither pandas nor pydantic, and the help over all.

A command is a class (:class:`crs_lib.cli.commands.Command`) whose module is imported when it is used. The
clients' commands stand in their ``client.py``.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NoReturn

import crs_lib
from crs_lib.core.clients import ClientCommand, clients
from crs_lib.core.errors import InputError, did_you_mean

PROGRAM = "python -m crs_lib"
_SHOW = "crs_lib.cli.show"
_RUN = "crs_lib.cli.run"
_DATA = "crs_lib.cli.data"
# The kernel's commands under the headings of the help.
_KERNEL = {
    "Compare and read": (
        ClientCommand(
            "compare", "Compare your system with baselines: one verdict, one page.", f"{_SHOW}:Compare"
        ),
        ClientCommand(
            "systems",
            "List the systems that can be compared: policies, language models, programs of your own.",
            f"{_SHOW}:Systems",
        ),
        ClientCommand(
            "leaderboard",
            "Write a page that orders the systems of runs; others drop their results.jsonl into it.",
            f"{_SHOW}:Leaderboard",
        ),
        ClientCommand(
            "show",
            "Draw the figures of a finished run, or write its report or the trace of every session.",
            f"{_SHOW}:Show",
        ),
        ClientCommand(
            "chat",
            "Talk to a system in the terminal, or watch a simulated user do it.",
            "crs_lib.cli.talk:Chat",
        ),
    ),
    "Run": (
        ClientCommand(
            "run",
            "Run one notebook with other parameters, show its parameters, or refresh the committed ones.",
            f"{_RUN}:Run",
        ),
        ClientCommand("sweep", "Run notebooks over a grid of parameters.", f"{_RUN}:Sweep"),
        ClientCommand(
            "simulate",
            "Simulate without a notebook, also on a cluster, or estimate calls, tokens and hours.",
            f"{_RUN}:Simulate",
        ),
        ClientCommand("judge", "Let models judge a finished run.", f"{_RUN}:Judge"),
    ),
    "Catalogues and logs": (
        ClientCommand("catalog", "Show a catalogue, export it, or serve it to agents.", f"{_DATA}:Catalog"),
        ClientCommand("data get", "Download, list or verify external files.", f"{_DATA}:Get"),
        ClientCommand(
            "data import",
            "Read logs of any known form: report their quirks, write them in another, or make a run of them.",
            f"{_DATA}:ImportLogs",
        ),
        ClientCommand("data score", "Score logs of any known form.", f"{_DATA}:Score"),
    ),
}
_OLD_NAMES = {
    "figures": "show figures",
    "trace": "show trace",
    "report": "show report",
    "params": "run --parameters",
    "refresh": "run --refresh",
    "estimate": "simulate --estimate",
    "try": "chat --simulated",
    "data export": "catalog export",
    "mcp": "catalog mcp",
    "logs": "data import",
    "import": "data import",
    "score": "data score",
    "data list": "data get --list",
    "data verify": "data get --verify",
}


@cache
def headings() -> Mapping[str, list[ClientCommand]]:
    """The commands of the kernel and of the clients by the heading under which the help lists them."""
    groups = {heading: list(commands) for heading, commands in _KERNEL.items()}
    for client in clients():
        groups.setdefault(client.heading, []).extend(client.commands)
    return groups


@cache
def commands() -> Mapping[str, ClientCommand]:
    """All commands by name."""
    return {command.name: command for group in headings().values() for command in group}


@cache
def old_names() -> Mapping[str, str]:
    """What is typed today, by the names that commands had before; they work, and print the new one."""
    names = dict(_OLD_NAMES)
    for client in clients():
        names.update(client.old_names)
    return names


def find(words: Sequence[str]) -> tuple[ClientCommand, Sequence[str]]:
    """The command of the first words, and the others; InputError for one that is gone, exits (2) for none."""
    for client in clients():
        for name, remedy in client.gone.items():
            if name.split() == list(words[: len(name.split())]):
                raise InputError(f"{name} is gone: {remedy}")
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in commands():
            return commands()[name], words[size:]
        if name in old_names():
            print(f"{name} is now: crs {old_names()[name]}", file=sys.stderr)
            return find([*old_names()[name].split(), *words[size:]])
    return _show_help(words)


def _show_help(words: Sequence[str]) -> NoReturn:
    """Print the commands (of a group, if the first word is one) and exit, with 2 unless help was meant."""
    group = words[0] if words else ""
    lines = _listing(f"{group} ") or _listing("")
    text = f"{crs_lib.__doc__}\n\nEvery command has --help.\n\n{lines}"
    last = "Names of the published designs, and what each is here: docs/names.md"
    parser = ArgumentParser(
        PROGRAM, f"{PROGRAM} COMMAND …", text, last, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"crs-lib {crs_lib.__version__}")
    how = 'completes commands: eval "$(crs --completion bash)"'
    parser.add_argument("--completion", choices=("bash", "zsh"), help=how)
    shell = parser.parse_known_args(words)[0].completion
    if shell:
        from argcomplete.shell_integration import shellcode

        print(shellcode(["crs"], shell=shell))
        parser.exit()
    hint = did_you_mean(group, [*commands(), *old_names()])
    parser.error(f"no command {' '.join(words[:2])!r}{hint}; they are:\n{lines}")


def _listing(beginning: str) -> str:
    """A line for each command whose name begins so, under its heading."""
    lines = []
    for heading, group in headings().items():
        rows = [f"  {row.name:<21} {row.summary}" for row in group if row.name.startswith(beginning)]
        if rows:
            lines += [f"{heading}:", *rows]
    return "\n".join(lines)
