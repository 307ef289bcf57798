"""Text of others inside a prompt: quoted so that it can neither end the quotation nor forge a line."""

import hashlib
import json
from collections.abc import Iterable

# Not escaped by JSON, and read as line ends by some.
_BREAKS = str.maketrans({"\x7f": "\\u007f", "\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def one_line(text: str) -> str:
    """The text as a JSON string, on one line whatever it holds; quotes inside are escaped."""
    return json.dumps(text, ensure_ascii=False).translate(_BREAKS)


def fence(texts: Iterable[str]) -> str:
    """A code of 16 hex digits that occurs in none of the texts; the same for the same texts.

    It is made from the texts themselves, so nothing in them can know it.
    """
    whole = "\x00".join(texts)
    code = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]
    while code in whole:
        code = hashlib.sha256(code.encode()).hexdigest()[:16]
    return code
