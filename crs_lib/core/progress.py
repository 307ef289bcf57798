"""Progress bars of long jobs, for a person who watches; never part of a stored notebook.

A bar is drawn in a terminal and in a live JupyterLab. While the command line runs a notebook, the bar is
drawn in the terminal of the command. Under nbval and papermill, in pipes and in log files there is no bar.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from tqdm import tqdm

VARIABLE = "CRS_PROGRESS"
OFF = "off"


@contextlib.contextmanager
def bar(
    total: int | None, *, done: int = 0, label: str = "", unit: str = "it", shown: bool = True
) -> Iterator["tqdm[Any]"]:
    """A bar from ``done`` to ``total`` (None where the end is not known); call ``update(n)`` on it.

    ``CRS_PROGRESS`` says where: ``off``, a terminal's device, or, unset, standard error if somebody watches.
    """
    device = os.environ.get(VARIABLE, "") if shown else OFF
    with contextlib.ExitStack() as stack:
        terminal_file = None
        if device not in ("", OFF):
            terminal_file = _opened(device)
        if terminal_file is not None:
            stack.enter_context(terminal_file)
        visible = terminal_file is not None or (not device and _somebody_watches())
        drawing = tqdm(
            total=total, initial=done, desc=label, unit=unit, file=terminal_file, disable=not visible
        )
        yield stack.enter_context(drawing)


def _opened(device: str) -> IO[str] | None:
    """A terminal to draw on, without becoming the process that its keys are sent to; None if it is gone."""
    try:
        handle = os.open(device, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY, 0o666)
    except OSError:
        return None
    return os.fdopen(handle, "w")


def _somebody_watches() -> bool:
    in_jupyterlab = "JPY_SESSION_NAME" in os.environ and "ipykernel" in sys.modules
    return sys.stderr.isatty() or in_jupyterlab


def terminal() -> str | None:
    """The device of the terminal behind standard error, for a kernel to draw on; None without one."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, AttributeError, ValueError):
        return None
