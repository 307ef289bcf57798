"""Progress bars of long jobs, for a person who watches; never part of a stored notebook.

A bar is drawn in a terminal and in a live JupyterLab. While the command line runs a notebook, the bar is
drawn in the terminal of the command. Under nbval and papermill, in pipes and in log files there is no bar.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

VARIABLE = "CRS_PROGRESS"
OFF = "off"


@contextlib.contextmanager
def bar(
    total: int | None, *, done: int = 0, label: str = "", unit: str = "it", shown: bool = True
) -> Iterator["tqdm[Any]"]:
    """A bar from ``done`` to ``total`` (None where the end is not known); call ``update(n)`` on it.

    ``CRS_PROGRESS`` decides where it is drawn: ``off``, the path of a terminal device, or, unset, on
    standard error when somebody can see it there. With ``shown=False`` it is never drawn.
    """
    where, file = os.environ.get(VARIABLE, "") if shown else OFF, None
    with contextlib.ExitStack() as stack:
        if where not in ("", OFF):
            with contextlib.suppress(OSError):
                file = stack.enter_context(open(where, "w", opener=_watching_only))
        off = where == OFF or (file is None and (bool(where) or not _watched()))
        drawn = tqdm(total=total, initial=done, desc=label, unit=unit, file=file, disable=off)
        yield stack.enter_context(drawn)


def _watching_only(path: str, flags: int) -> int:
    """Open a terminal to draw on it, without becoming the process that its keys are sent to."""
    return os.open(path, flags | getattr(os, "O_NOCTTY", 0))


def _watched() -> bool:
    """Whether somebody sees standard error as it is written: a terminal, or a live JupyterLab."""
    return sys.stderr.isatty() or ("JPY_SESSION_NAME" in os.environ and "ipykernel" in sys.modules)


def terminal() -> str | None:
    """The device of the terminal behind standard error, for a kernel to draw on; None without one."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, AttributeError, ValueError):
        return None
