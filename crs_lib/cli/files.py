"""The files that a command reads and writes, declared with its arguments; none is written over another.

::

    files.declare(parser, reads=("logs", "catalog"), writes=("out/turns.parquet", "out/results.jsonl"))

A name is that of an argument. ``out/turns.parquet`` is a file in the folder that the argument names,
``out+.manifest.json`` a file beside it, and ``out`` itself a file, or a folder that is made anew.
"""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from crs_lib.core import paths

_NAME = re.compile(r"(\w+)([/+]?)(.*)")
_MOST = 10_000  # files of an input folder that are compared


def declare(parser: ArgumentParser, *, reads: Sequence[str], writes: Sequence[str]) -> None:
    """State which arguments name files or folders that are read, and which name those that are written."""
    parser.set_defaults(reads=tuple(reads), writes=tuple(writes))


def check(arguments: Namespace) -> None:
    """InputError where the command would write over a file that it reads; nothing is opened before."""
    outputs = [path for name in getattr(arguments, "writes", ()) for path in _named(arguments, name)]
    if outputs:
        inputs = [
            path for name in arguments.reads for one in _named(arguments, name) for path in _within(one)
        ]
        paths.apart(outputs, inputs)


def _named(arguments: Namespace, name: str) -> Iterator[Path]:
    found = _NAME.fullmatch(name)
    given = getattr(arguments, found[1], None) if found else None
    for one in given if isinstance(given, list | tuple) else [given]:
        if found and one:
            path = paths.given(one)
            yield path / found[3] if found[2] == "/" else path.with_name(path.name + found[3])


def _within(path: Path) -> Iterator[Path]:
    """The path itself and, for a folder, the files in it, those in its folders included."""
    yield path
    if path.is_dir():
        count = 0
        for folder, _, names in os.walk(path):
            for name in names:
                yield Path(folder) / name
                count += 1
            if count > _MOST:
                return
