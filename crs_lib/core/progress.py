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
    ``CRS_PROGRESS`` says where: ``off``, a terminal's device, or, unset, standard error if somebody watches.
    """
    where, file = os.environ.get(VARIABLE, "") if shown else OFF, None
    with contextlib.ExitStack() as stack:
        if where not in ("", OFF):
            with contextlib.suppress(OSError):
                # Drawn on, without becoming the process that the terminal's keys are sent to.
                device = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY, 0o666)
                file = stack.enter_context(os.fdopen(device, "w"))
        watched = sys.stderr.isatty() or ("JPY_SESSION_NAME" in os.environ and "ipykernel" in sys.modules)
        off = where == OFF or (file is None and (bool(where) or not watched))
        drawn = tqdm(total=total, initial=done, desc=label, unit=unit, file=file, disable=off)
        yield stack.enter_context(drawn)


def terminal() -> str | None:
    """The device of the terminal behind standard error, for a kernel to draw on; None without one."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, AttributeError, ValueError):
        return None
