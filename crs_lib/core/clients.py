"""The clients of the kernel: packages that register members and commands of their own and can be removed.

A client is found by its entry point in the group ``crs_lib.clients``; the kernel never names one::

    [project.entry-points."crs_lib.clients"]
    thesis = "crs_lib.thesis.client:CLIENT"

The module of an entry point imports nothing but this file, so that finding the clients costs nothing.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "crs_lib.clients"


@dataclass(frozen=True)
class ClientCommand:
    """A command: its name, one line of help, and its class (``module:class``), imported when it is used."""

    name: str
    summary: str
    target: str


@dataclass(frozen=True)
class Client:
    """What a client adds to the kernel.

    ``commands`` stand in the help under ``heading``. ``old_names`` maps former names of commands to what is
    typed today, ``gone`` commands that ended to where their work went. ``members`` are the modules to import
    by kind of registry ("metric"). ``notebooks`` maps the tens digit of its notebooks to the study whose
    folder they write, ``tables`` a study to the function (``module:function``) that reads its tables.
    """

    name: str
    heading: str = ""
    commands: tuple[ClientCommand, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notebooks: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)


@cache
def clients() -> tuple[Client, ...]:
    """The clients that are here, by name; one whose package was removed is left out."""
    present = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        client = _load(entry)
        if client is not None:
            present.append(client)
    return tuple(present)


def _load(entry: EntryPoint) -> Client | None:
    package = entry.module.rpartition(".")[0]
    try:
        client: Client = entry.load()
    except ModuleNotFoundError as error:
        if error.name in (package, entry.module):
            return None
        raise
    return client


def load_members(kind: str) -> None:
    """Import what the clients register in the registry of this kind."""
    for client in clients():
        for module in client.members.get(kind, ()):
            importlib.import_module(module)
