r"""Words: one tokenisation for grounding, copying and retrieval.

A word is a run of letters and digits after folding: compatibility decomposition (NFKD), case folding,
accents dropped, strokes too. "Amélie's" has the words ``amelie`` and ``s``; "ＡＢＣ" is ``abc``, "Brøndby"
is ``brondby``. An underscore is no letter: Markdown's _Alien_ is ``alien``.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

_LETTER = re.compile(r"[^\W_]")
_RUN = re.compile(r"\S+")
_ACCENTS = ("Mn", "Me")  # categories of marks that belong to the letter before
# Letters that Unicode does not decompose, as keyboards without them write them.
_PLAIN = str.maketrans("øłıđðħŧ", "oliddht") | str.maketrans({"æ": "ae", "œ": "oe", "þ": "th"})


def _fold_character(character: str) -> str:
    """What one character contributes: its folded letters, a blank, or nothing (an accent)."""
    small = unicodedata.normalize("NFKD", character).casefold()
    folded = ""
    for part in unicodedata.normalize("NFKD", small).translate(_PLAIN):
        if unicodedata.category(part) in _ACCENTS or unicodedata.combining(part):
            continue
        folded += part if _LETTER.match(part) else " "
    return folded


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
    runs = [match.span() for match in _RUN.finditer(text.translate(_TABLE))]
    if text.isascii() or all(len(_TABLE[ord(character)]) == 1 for character in set(text)):
        return runs  # positions stay the same
    origins = []  # of each folded character, the position of the one that it comes from
    for position, character in enumerate(text):
        origins += [position] * len(_TABLE[ord(character)])
    return [(origins[start], origins[end - 1] + 1) for start, end in runs]


def ngrams(tokens: Sequence[str], order: int) -> set[tuple[str, ...]]:
    """The distinct runs of ``order`` consecutive tokens; empty where the text is shorter."""
    shifted = [tokens[start:] for start in range(order)]
    return set(zip(*shifted, strict=False))


def shorten(text: str, limit: int) -> str:
    """The text cut to ``limit`` characters, with an ellipsis where something was cut."""
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 1)] + "…"


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
    return _STEERS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def one_line(text: str, limit: int = 1_000) -> str:
    r"""``printable`` on one line of at most ``limit`` characters; a line break is shown as ``\n``."""
    line = printable(text[: limit + 1]).replace("\n", "\\n")
    return shorten(line, limit)
