"""``python -m crs_lib COMMAND``: run notebooks, sweeps and the rest without leaving the terminal."""

import os
import select
import sys
from collections.abc import Sequence

from crs_lib.cli import app, terminal
from crs_lib.core.errors import InputError, RunError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: success; 2: an error that the user can mend; 130: stopped by Ctrl-C; 141 (SIGPIPE), without a message:
    the reader of the output went away, as in ``| head``.
    """
    with terminal.promptly() as interrupts, terminal.escaped():
        try:
            app.do(*app.find(list(sys.argv[1:] if argv is None else argv)))
            sys.stdout.flush()
        except BrokenPipeError:
            if _output_is_read():  # another pipe than standard output broke
                raise
            return 141
        except (InputError, RunError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            if interrupts.raised:
                interrupts.now()
            interrupts.say()
            return terminal.CODE
    return 0


def _output_is_read() -> bool:
    """Whether standard output still has a reader; if not, further output goes to the null device."""
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
