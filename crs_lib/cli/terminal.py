"""Ctrl-C ends every command within two seconds, a second one at once; foreign text is escaped."""

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crs_lib.core.text import printable

CODE = 130  # as shells count a program that Ctrl-C ended
TIDY = 1.4  # seconds that a command has to store what is finished and to stop what it started
STOPPED = "\nstopped; what was finished is stored, the same command continues\n"


@contextlib.contextmanager
def promptly() -> Iterator["Interrupts"]:
    """Within, the first Ctrl-C raises KeyboardInterrupt; a second one, or ``TIDY`` seconds, end the process.
    The signals are watched by a thread of their own, which no long computation and no waiting server holds
    up. Without effect outside the main thread, and where the signal is ignored (a background job).
    """
    seen = Interrupts()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield seen
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.signal(signal.SIGINT, seen.interrupt)
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    watch = threading.Thread(target=seen.watch, args=(read,), name="interrupts", daemon=True)
    watch.start()
    try:
        yield seen
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, before)
        os.close(write)
        watch.join(1)
        os.close(read)


class Interrupts:
    """The interrupts that arrived while a command worked."""

    def __init__(self) -> None:
        self.count = 0
        self.raised = False
        self._said = threading.Lock()

    def interrupt(self, number: int, frame: object) -> None:
        """The handler of the signal in the main thread: KeyboardInterrupt."""
        self.raised = True
        raise KeyboardInterrupt

    def watch(self, pipe: int) -> None:
        """Read the numbers of signals until the pipe is closed; end the process when it is time to."""
        while True:
            ready = select.select([pipe], [], [], TIDY if self.count else None)[0]
            number = os.read(pipe, 1) if ready else b""
            if ready and not number:
                return
            self.count += number == bytes([signal.SIGINT])
            if not ready or self.count > 1:
                self.now()

    def now(self) -> None:
        """Say that the command was stopped, end everything that it started, and end the process."""
        self.say()
        import psutil  # part of every Jupyter kernel

        with contextlib.suppress(psutil.Error):
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(CODE)

    def say(self) -> None:
        """Say once that the command was stopped, past all locks of the output."""
        if self._said.acquire(blocking=False):
            try:
                print(STOPPED, end="", file=sys.stderr, flush=True)
            except (OSError, ValueError, RuntimeError):
                os.write(2, STOPPED.encode())


class _Escaping:
    """A text stream whose texts are made printable; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text with control characters as escapes; what the output cannot encode, too."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return int(self._stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding)))

    def writelines(self, texts: Any) -> None:
        """Write texts one after the other."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def escaped() -> Iterator[None]:
    """Within, what is printed on standard output is made printable; without an output it goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the start
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # to the end
    with contextlib.redirect_stdout(_Escaping(sys.stdout)):
        yield
