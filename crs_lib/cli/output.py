"""Foreign text in printed output: what would steer a terminal is shown as an escape; our colours stay."""

import contextlib
import secrets
import sys
from collections.abc import Iterator
from typing import Any

from crs_lib.core.errors import printable


class _Escaping:
    """A text stream whose texts are made printable; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._mark = secrets.token_hex(8)  # no foreign text can know it

    def coloured(self, code: str, text: str) -> str:
        """The text so that :meth:`write` shows it in a colour of ours."""
        return f"\x1b{self._mark}[{code}m{text}\x1b{self._mark}[0m"

    def write(self, text: str) -> int:
        """Write the text with control characters as escapes; what the output cannot encode, too."""
        plain = printable(text).replace(f"\\x1b{self._mark}[", "\x1b[")
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


def coloured(code: str, text: str) -> str:
    """The text in a colour of the terminal (an SGR code), as standard output takes it now."""
    stream = sys.stdout
    return stream.coloured(code, text) if isinstance(stream, _Escaping) else f"\x1b[{code}m{text}\x1b[0m"
