"""One progress bar for every long job: shown to a person who watches, never written into a notebook.

A bar is drawn in a terminal, in a live JupyterLab, and, while the command line runs a notebook, in the
terminal that the command was typed in. Everywhere else (nbval, papermill, pipes, log files) there is none.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from tqdm import tqdm

VARIABLE = "CRS_PROGRESS"
OFF = "off"


class Bar(Protocol):
    """What a job tells its progress to."""

    def update(self, n: float = 1) -> bool | None: ...


@contextlib.contextmanager
def bar(
    total: int | None, *, done: int = 0, label: str = "", unit: str = "it", shown: bool = True
) -> Iterator[Bar]:
    """A bar from ``done`` to ``total`` (None where the end is not known); call ``update(n)`` on it.

    ``CRS_PROGRESS`` decides where it is drawn: ``off``, the path of a terminal device, or, unset, on
    standard error when somebody can see it there. With ``shown=False`` it is never drawn.
    """
    options: dict[str, Any] = {"total": total, "initial": done, "desc": label, "unit": unit}
    with contextlib.ExitStack() as stack:
        where = os.environ.get(VARIABLE, "") if shown else OFF
        if where and where != OFF:
            try:
                options["file"] = stack.enter_context(open(where, "w", opener=_watching_only))
            except OSError:
                where = OFF
        options["disable"] = where == OFF or (not where and not watched())
        yield stack.enter_context(tqdm(**options))


def _watching_only(path: str, flags: int) -> int:
    """Open a terminal to draw on it, without becoming the process that its keys are sent to."""
    return os.open(path, flags | getattr(os, "O_NOCTTY", 0))


def watched() -> bool:
    """Whether somebody sees standard error as it is written: a terminal, or a live JupyterLab."""
    return sys.stderr.isatty() or ("JPY_SESSION_NAME" in os.environ and "ipykernel" in sys.modules)


def terminal() -> str | None:
    """The device of the terminal behind standard error, for a kernel to draw on; None without one."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, AttributeError, ValueError):
        return None
