"""Progress of long jobs, for a person who waits; never part of a stored notebook.

In a terminal a bar is drawn, in JupyterLab a bar of the page; without either a line is written at the first
second and then every 30 seconds. While the command line runs a notebook, its kernel draws on the command's
terminal, or writes the lines into a file that the command reads.
"""

import contextlib
import os
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any, Self, TypeVar

from tqdm import tqdm

VARIABLE = "CRS_PROGRESS"
OFF = "off"
LINES = "lines:"  # what a file of lines begins with in the variable
_FIRST = 1.0  # seconds until the first line
_PAUSE = 30.0  # seconds from one line to the next
T = TypeVar("T")


class Bar(tqdm):  # type: ignore[type-arg]  # tqdm is generic for type checkers alone
    """What is done of a total, drawn as a bar; ``pause`` seconds without an update draw it again."""

    pause = 1.0
    interval = 0.1  # seconds between two drawings at least

    def update(self, n: float | None = 1, label: str = "") -> bool | None:
        """Count ``n`` more as done, by what ``label`` names."""
        if not self.disable and label and label != self.label:
            self.set_description_str(label, refresh=False)
        return super().update(n)

    @property
    def label(self) -> str:
        """What works now: a system, a file."""
        return str(self.desc or "").removesuffix(": ")

    def words(self) -> str:
        """The bar as a sentence."""
        facts = self.format_dict
        done = f"{self.n:,} of {self.total:,}" if self.total else f"{self.n:,}"
        text = f"{self.label or 'progress'}: {done} {self.unit}s"
        new = self.n - self.initial
        if self.total and new:
            text += f", about {facts['elapsed'] / new * (self.total - self.n):.0f} s left"
        return text


class _Lines(Bar):
    """Progress as lines of text."""

    pause = interval = _PAUSE

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line once there is something to wait for."""
        elapsed = self.format_dict["elapsed"]
        if elapsed >= _FIRST and self.n != self.total:
            self.fp.write(f"{self.words()}\n")
            self.fp.flush()

    def close(self) -> None:
        """No last line: what the job made is said by the job."""
        self.disable = True


class _Widget(Bar):
    """Progress as an element of JupyterLab's page."""

    place = ""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show how far it is, in the same place each time."""
        self._show(f'<progress value="{self.n}" max="{self.total or self.n}"></progress> {self.words()}')

    def close(self) -> None:
        """Empty the place on the page."""
        if not self.disable:
            self._show("")
        self.disable = True

    def _show(self, text: str) -> None:
        from IPython.display import HTML, display

        if self.place:
            display(HTML(text), display_id=self.place, update=True)
            return
        self.place = uuid.uuid4().hex
        display(HTML(text), display_id=self.place)


class _Ticker:
    """Draws a bar again while nothing is done, so that a slow job is seen to work."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if not self.bar.disable:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _tick(self) -> None:
        pause = _FIRST
        while not self._ended.wait(pause):
            self.bar.refresh()
            pause = self.bar.pause


@contextlib.contextmanager
def bar(
    total: int | None, *, done: int = 0, label: str = "", unit: str = "session", shown: bool = True
) -> Iterator[Bar]:
    """A bar from ``done`` to ``total`` (None where the end is not known); call ``update(n)`` on it.

    ``CRS_PROGRESS`` says where: ``off``, a terminal's device, ``lines:FILE``, or, unset, the page, terminal
    or output that somebody looks at.
    """
    place = os.environ.get(VARIABLE, "") if shown else OFF
    file = None
    with contextlib.ExitStack() as stack:
        if place not in ("", OFF):
            file = _opened(place.removeprefix(LINES))
            place = place if file else OFF
        if file is not None:
            stack.enter_context(file)
        kind = _kind(place)
        drawing = kind(
            total=total,
            initial=done,
            desc=label,
            unit=unit,
            file=file or _output(),
            disable=place == OFF,
            mininterval=kind.interval,
        )
        stack.enter_context(drawing)
        stack.enter_context(_Ticker(drawing))
        yield drawing


def counted(items: Iterable[T], total: int, label: str, unit: str = "session") -> Iterator[T]:
    """The items, with a bar that counts them as they pass."""
    with bar(total, label=label, unit=unit) as drawing:
        for item in items:
            yield item
            drawing.update()


def _kind(place: str) -> type[Bar]:
    """How progress is drawn at a place."""
    if place.startswith(LINES):
        return _Lines
    if place:
        return Bar
    if "ipykernel" in sys.modules and "JPY_SESSION_NAME" in os.environ:
        return _Widget
    return Bar if sys.stderr.isatty() else _Lines


def _output() -> IO[str] | Any:
    """Standard error; a kernel's standard output, as its errors would look like faults in the notebook."""
    is_kernel = type(sys.stderr).__module__.startswith("ipykernel")
    return sys.stdout if is_kernel else sys.stderr


def _opened(device: str) -> IO[str] | None:
    """A file or terminal to draw on, without becoming the process that its keys are sent to; None if gone."""
    try:
        handle = os.open(device, os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | os.O_APPEND, 0o666)
    except OSError:
        return None
    return os.fdopen(handle, "w")


def terminal() -> str | None:
    """The device of the terminal behind standard error, for a kernel to draw on; None without one."""
    try:
        return os.ttyname(sys.stderr.fileno())
    except (OSError, AttributeError, ValueError):
        return None
