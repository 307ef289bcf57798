r"""Words: one tokenisation for grounding, copying and retrieval.

A word is a run of letters and digits after folding: compatibility decomposition (NFKD), case folding,
accents dropped, strokes too. "Amélie's" has the words ``amelie`` and ``s``; "ＡＢＣ" is ``abc``, "Brøndby"
is ``brondby``. An underscore is no letter: Markdown's _Alien_ is ``alien``.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W_]")
# Letters that Unicode does not decompose, as keyboards without them write them.
_PLAIN = str.maketrans("øłıđðħŧ", "oliddht") | str.maketrans({"æ": "ae", "œ": "oe", "þ": "th"})
_RUN = re.compile(r"\S+")


def _fold_character(character: str) -> str:
    """What one character contributes: its folded letters, a blank, or nothing (an accent)."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    accents = ("Mn", "Me")
    parts = (part for part in folded.translate(_PLAIN) if unicodedata.category(part) not in accents)
    return "".join(part if _WORD.match(part) else " " for part in parts if not unicodedata.combining(part))


class _FoldTable(dict[int, str]):
    """Fills itself: ``str.translate`` asks for each code point once."""

    def __missing__(self, code: int) -> str:
        return self.setdefault(code, _fold_character(chr(code)))


_TABLE = _FoldTable()
_ASCII = bytes(ord(_fold_character(chr(code))) for code in range(128)).ljust(256)


def fold(text: str) -> str:
    """The text's words in folded form, joined by one blank: "Amélie (2001)" -> "amelie 2001"."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Folded words of a text, in order; an empty list where there is none."""
    if text.isascii():  # one byte a character, and ten times as fast
        return text.encode().translate(_ASCII).decode().split()
    return text.translate(_TABLE).split()


def spans(text: str) -> list[tuple[int, int]]:
    """The character range of every word of a text, half-open, in order."""
    if text.isascii() or all(len(_TABLE[ord(character)]) == 1 for character in set(text)):
        return [m.span() for m in _RUN.finditer(text.translate(_TABLE))]  # places stay the same
    places = [place for place, character in enumerate(text) for _ in _TABLE[ord(character)]]
    return [(places[m.start()], places[m.end() - 1] + 1) for m in _RUN.finditer(text.translate(_TABLE))]


def ngrams(tokens: Sequence[str], order: int) -> set[tuple[str, ...]]:
    """The distinct runs of ``order`` consecutive tokens; empty where the text is shorter."""
    return set(zip(*(tokens[i:] for i in range(order)), strict=False))


def shorten(text: str, limit: int) -> str:
    """The text cut to ``limit`` characters, with an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def listing(parts: Iterable[str], word: str = "and") -> str:
    """How a sentence lists things: "a", then "a and b", then "a, b and c"; empty for nothing."""
    items = list(parts)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


# C0 and C1 controls but tab and line feed, line separators, bidirectional marks, lone surrogates.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters, bidirectional marks and lone surrogates as escapes."""
    return _STEERS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, limit: int = 1_000) -> str:
    r"""``printable`` on one line of at most ``limit`` characters; a line break is shown as ``\n``."""
    plain = printable(text[: limit + 1]).replace("\n", "\\n")
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
