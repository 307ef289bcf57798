"""Foreign text in printed output: what would steer a terminal is shown as an escape."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from crs_lib.core.printable import printable


class _Escaping:
    """A text stream whose texts are made printable; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text with control characters as escapes; what the output cannot encode, too."""
        plain = printable(text)
        try:
            return int(self._stream.write(plain))
        except UnicodeEncodeError:
            encoding = getattr(self._stream, "encoding", None) or "ascii"
            return int(self._stream.write(plain.encode(encoding, "backslashreplace").decode(encoding)))

    def writelines(self, texts: Any) -> None:
        """Write texts one after the other."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def escaped() -> Iterator[None]:
    """Within, what is printed on standard output is made printable."""
    with contextlib.redirect_stdout(_Escaping(sys.stdout)):
        yield
