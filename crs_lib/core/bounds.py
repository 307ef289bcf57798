"""Limits on what comes from outside: each has a default, a unit, and a variable that raises it.

``CRS_MOST_TURN_CHARACTERS=1000000`` in the environment raises the limit ``turn_characters``.
"""

import os
from typing import NamedTuple

from crs_lib.core.errors import InputError


class Bound(NamedTuple):
    """A limit: its default and the unit of the number."""

    default: int
    unit: str


BOUNDS = {
    "turn_characters": Bound(2_000_000, "characters of one utterance or reply"),
    "question_characters": Bound(50_000, "characters of one question to a chat"),
    "json_bytes": Bound(2**30, "bytes of JSON that are read in one piece"),
    "answer_bytes": Bound(2**24, "bytes of a server's answer"),
    "unpacked_ratio": Bound(200, "bytes out of one byte of a compressed file, beyond 64 MiB"),
    "sweep_cells": Bound(10_000, "runs of one sweep"),
    "workers": Bound(256, "processes or threads of one command"),
}


def variable(name: str) -> str:
    """The environment variable that sets a limit: ``CRS_MOST_SWEEP_CELLS``."""
    return f"CRS_MOST_{name.upper()}"


def most(name: str) -> int:
    """A limit as it stands: its default, or the whole number above 0 in its variable (else InputError)."""
    given = os.environ.get(variable(name), "")
    if not given:
        return BOUNDS[name].default
    if not (given.isascii() and given.isdigit() and len(given) <= 18 and int(given) > 0):
        raise InputError(f"{variable(name)} is {given[:80]!r}; give a whole number above 0")
    return int(given)


def check(name: str, number: int, what: str) -> int:
    """The number itself if the limit allows it; else InputError: ``<what> <number>, the limit is …``."""
    if number > most(name):
        raise InputError(
            f"{what} {number:,}, the limit is {most(name):,} {BOUNDS[name].unit}; "
            f"raise it with {variable(name)}={number}"
        )
    return number
