"""``exec:COMMAND``: a program that is started here; JSON lines go to its input and come from its output."""

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from crs_lib.core import hashes
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError
from crs_lib.systems import contract
from crs_lib.systems.programs import PROGRAMS

_LAST_LINES = 8  # of standard error that a failure quotes
_PIECE = 65_536


def command(argument: str) -> list[str]:
    """The words of a command line, read as a shell reads them; InputError where there is none."""
    try:
        found = shlex.split(argument)
    except ValueError as error:
        raise InputError(f"not a command line ({error}); quote it as for a shell") from error
    if not found:
        raise InputError("no command; give one")
    return found


def ready(argument: str) -> None:
    """Raise LLMError where the command is not there or may not be executed; nothing is started."""
    name = command(argument)[0]
    if shutil.which(name) is None:
        reason = "is not executable (chmod +x)" if Path(name).is_file() else "is not there"
        raise LLMError(
            "not started", f"exec:{argument}: {name} {reason}; relative paths begin in {Path.cwd().name}/"
        )


def identity(argument: str) -> str:
    """A digest of the words and of the program: a script, or the first file after its interpreter.

    Files behind it are the program's data, which it may write.
    """
    words = command(argument)
    found = shutil.which(words[0])
    script = bool(found) and Path(str(found)).read_bytes()[:2] == b"#!"
    named = [str(found)] if script else [word for word in words[1:] if Path(word).is_file()]
    return hashes.fingerprint([words, *(hashes.sha256(Path(name)) for name in named[:1])])


@PROGRAMS.register(
    "exec", argument="a command", example="node adapter.js",
    check=command, ready=ready, identity=identity, shared=False, apart=True,
)  # fmt: skip
class Process:
    """A running program: one JSON line in, one JSON line out, as docs/your-system.md describes.

    A failure ends the process; the next request starts a new one.
    """

    def __init__(self, argument: str, *, timeout: float = 300.0, catalog: Any = None) -> None:
        self.argument, self.timeout = argument, timeout
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._buffer = bytearray()
        try:
            self._process = subprocess.Popen(
                command(argument), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LLMError(
                "not started",
                f"exec:{argument} cannot be started ({error.strerror or error}); relative paths begin in "
                f"{Path.cwd().name}/",
            ) from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._reader = threading.Thread(target=self._read_errors, name="stderr", daemon=True)
        self._reader.start()

    def ask(self, request: Mapping[str, Any]) -> object:
        """Write the request as a line and read the line that answers it."""
        line = json.dumps(request, ensure_ascii=True).encode() + b"\n"
        text = self._exchange(line).decode("utf-8", "replace")
        answer = contract.parse(text)
        if self._buffer.strip():
            raise LLMError(
                "wrong answer",
                "more than one line answers a request; print one line, and anything else to standard error",
                text=text,
            )
        return answer

    def usable(self) -> bool:
        """Whether the program runs and has written nothing unasked."""
        return self._process.poll() is None and not _ready(0.0, self._out)

    def halt(self) -> None:
        """End the program and what it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the program and what it started, and close its pipes."""
        self.halt()
        self._process.wait()
        self._reader.join(1.0)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _exchange(self, line: bytes) -> bytes:
        """Write all of ``line`` while reading, until a line has come back."""
        deadline, left = time.monotonic() + self.timeout, memoryview(line)
        while b"\n" not in self._buffer:
            pause = deadline - time.monotonic()
            able = _ready(max(0.0, pause), self._out, self._in if left else None)
            if self._out in able:
                piece = os.read(self._out, _PIECE)
                if not piece:
                    raise self._ended()
                self._buffer += piece
                if len(self._buffer) > contract.LONGEST:
                    raise LLMError("wrong answer", f"the answer is longer than {contract.LONGEST:,} bytes")
            elif self._in in able:
                try:
                    left = left[os.write(self._in, left[:_PIECE]) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._ended() from error
            elif pause <= 0:
                raise LLMError("too slow", f"the program did not answer within {self.timeout:g} seconds")
        found, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return found

    def _ended(self) -> LLMError:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return LLMError(
                "crashed", f"the program closed its output before it answered{self._last_lines()}"
            )
        self._reader.join(1.0)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return LLMError("crashed", f"the program {how} before it answered{self._last_lines()}")

    def _last_lines(self) -> str:
        said = " | ".join(self._said)
        return f"; its last words: {shorten(said, 1000)}" if said else "; it wrote nothing to standard error"

    def _read_errors(self) -> None:
        """Keep the last lines of standard error, so that the program never waits for a reader."""
        pipe = self._process.stderr
        assert pipe is not None
        with suppress(OSError, ValueError):
            rest = b""
            while piece := os.read(pipe.fileno(), _PIECE):
                *lines, rest = (rest + piece)[-_PIECE:].split(b"\n")
                self._keep(lines)
            self._keep([rest])

    def _keep(self, lines: list[bytes]) -> None:
        texts = (line.decode("utf-8", "replace").strip() for line in lines)
        self._said.extend(shorten(text, 300) for text in texts if text.strip("~^ "))


def _ready(seconds: float, reads: int, writes: int | None = None) -> set[int]:
    """The file descriptors that can be read, or written, or whose other end is gone, after a wait."""
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    if writes is not None:
        poll.register(writes, select.POLLOUT)
    return {found for found, _ in poll.poll(seconds * 1000)}
