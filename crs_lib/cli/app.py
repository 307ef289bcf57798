"""The command line: it does the command that the first words name, and returns an exit code."""

import os
import select
import sys
from collections.abc import Sequence

from crs_lib.cli import names, terminal
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import shorten


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success; 2: an error that the user can mend; 130: stopped by Ctrl-C; 141 (SIGPIPE), without a message:
    the reader of the output went away, as in ``| head``.
    """
    if "_ARGCOMPLETE" in os.environ:
        from crs_lib.cli import completion

        completion.complete()
    words = sys.argv[1:] if argv is None else list(argv)
    with terminal.promptly() as interrupts, terminal.escaped():
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
            return terminal.CODE
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
