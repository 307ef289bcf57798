r"""Foreign text made fit to be printed: what steers a terminal is shown as an escape, never obeyed."""

import re

# C0 and C1 controls but tab and line feed, line separators, bidirectional marks, lone surrogates.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text with control characters, bidirectional marks and lone surrogates as escapes (``\x1b``)."""
    return _STEERS.sub(_escaped, text)


def one_line(text: str, limit: int = 1_000) -> str:
    r"""``printable`` on one line of at most ``limit`` characters; a line break is shown as ``\n``."""
    plain = printable(text[: limit + 1]).replace("\n", "\\n")
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
