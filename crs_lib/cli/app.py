"""The command line: it does the command that the first words name, and returns an exit code.

Ctrl-C ends every command within two seconds, a second one at once; foreign text is escaped. A command that
has said its last word ends, whatever its threads still wait for.
"""

import contextlib
import faulthandler
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from crs_lib.cli import names
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import printable, shorten

CODE = 130  # as shells count a program that Ctrl-C ended
TIDY = 1.4  # seconds that a command has to store what is finished and to stop what it started
STOPPED = "\nstopped; what was finished is stored, the same command continues\n"
_LINGER = 3.0  # seconds that the threads of a finished command have to end


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success; 2: an error that the user can mend; 130: stopped by Ctrl-C; 141 (SIGPIPE), without a message:
    the reader of the output went away, as in ``| head``.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if "_ARGCOMPLETE" in os.environ:
        from crs_lib.cli import commands

        commands.complete()
    code = _code_of(words)
    if argv is None:
        threading.Thread(target=_end_late, args=(code,), name="end", daemon=True).start()
    return code


def _code_of(words: Sequence[str]) -> int:
    """The exit code of a command, which is done now."""
    with promptly() as interrupts, escaped():
        try:
            do(words)
            sys.stdout.flush()
        except BrokenPipeError:
            if _output_is_read():  # another pipe than standard output broke
                raise
            return 141
        except (InputError, RunError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 2
        except OSError as error:  # a name that is too long, a folder that cannot be read, no handle left
            where = f": {shorten(str(error.filename), 200)}" if error.filename else ""
            print(f"RunError: {error.strerror or error}{where}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            if interrupts.raised:
                interrupts.now()
            interrupts.say()
            return CODE
    return 0


def do(words: Sequence[str]) -> None:
    """Do the command of a line; InputError and RunError as it raises them."""
    command, options = names.find(words)
    from crs_lib.cli import commands  # takes more time than --help as a whole

    commands.do(command, options)


def _output_is_read() -> bool:
    """Whether standard output still has a reader; if not, further output goes to the null device."""
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output)
    for _, event in poll.poll(0):
        if event & select.POLLERR:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)
            return False
    return True


def _end_late(code: int) -> None:
    """End the process where its threads do not let it end; what they did is kept in a file."""
    time.sleep(_LINGER)
    path = Path(tempfile.gettempdir()) / f"crs-threads-{os.getpid()}.txt"
    with contextlib.suppress(OSError), path.open("w") as file:
        faulthandler.dump_traceback(file)
    _end(code)


def _end(code: int) -> NoReturn:
    """End everything that the command started, then the process, whatever holds up its threads: a shell that
    ends with the code takes its place.
    """
    import psutil  # part of every Jupyter kernel

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    os.execv("/bin/sh", ["sh", "-c", f"exit {code}"])


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
        """Say that the command was stopped, and end the process with everything that it started."""
        self.say()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        _end(CODE)

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
