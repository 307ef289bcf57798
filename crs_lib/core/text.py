r"""Words: one tokenisation for grounding, copying and retrieval.

A word is a run of letters and digits after folding: compatibility decomposition (NFKD), case folding,
accents dropped, strokes too. "Amélie's" has the words ``amelie`` and ``s``; "ＡＢＣ" is ``abc``, "Brøndby"
is ``brondby``. An underscore is no letter: Markdown's _Alien_ is ``alien``.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]")
# Letters that Unicode does not decompose, as keyboards without them write them.
_PLAIN = str.maketrans(
    {"ø": "o", "ł": "l", "ı": "i", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th"}
)
_RUN = re.compile(r"\S+")
BREAK = "\ue000"  # a private character: no white space to split(), and no text's own after folding
_LONG, _UNKNOWN = 0xFFFFFFFF, 0xFFFFFFFE
_LOOKUP: list[NDArray[np.uint32]] = []


def _fold_character(character: str) -> str:
    """What one character contributes: its folded letters, a blank, or nothing (an accent)."""
    out = []
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    for part in folded.translate(_PLAIN):
        if unicodedata.combining(part) or unicodedata.category(part) in ("Mn", "Me"):
            continue
        out.append(part if _WORD.match(part) else " ")
    return "".join(out)


class _FoldTable(dict[int, str]):
    """Fills itself: ``str.translate`` asks for each code point once."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        self[code] = folded
        return folded


_TABLE = _FoldTable()


def fold(text: str) -> str:
    """The text's words in folded form, joined by one blank: "Amélie (2001)" -> "amelie 2001"."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Folded words of a text, in order; an empty list where there is none."""
    return text.translate(_TABLE).split()


def spans(text: str) -> list[tuple[int, int]]:
    """The character range of every word of a text, half-open, in order."""
    if text.isascii() or all(len(_TABLE[ord(character)]) == 1 for character in set(text)):
        return [m.span() for m in _RUN.finditer(text.translate(_TABLE))]  # places stay the same
    found: list[tuple[int, int]] = []
    start = end = -1
    for position, character in enumerate(text):
        for part in _TABLE[ord(character)]:
            if part == " ":
                if start >= 0:
                    found.append((start, end))
                start = -1
            else:
                start = position if start < 0 else start
                end = position + 1
    if start >= 0:
        found.append((start, end))
    return found


def batches(texts: Sequence[str], characters: int = 200_000) -> Iterator[tuple[int, int]]:
    """Index ranges of consecutive texts of about so many characters: memory stays flat."""
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) + 1)
    start, before = 0, 0
    while start < len(texts):
        end = max(start + 1, int(np.searchsorted(ends, before + characters + 1, side="right")))
        yield start, end
        start, before = end, int(ends[end - 1])


def words_of_many(texts: Sequence[str]) -> list[list[str]]:
    """:func:`words` of every text; folds all characters at once through one lookup table."""
    out: list[list[str]] = []
    for start, end in batches(texts):
        folded = folded_codes(texts[start:end]).tobytes().decode("utf-32-le", "surrogatepass")
        out.extend(part.split() for part in folded.split(BREAK))
    return out


def folded_codes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """The code points of all texts folded, with ``BREAK`` between them (a word of its own)."""
    return folded_with_places(texts)[0]


def folded_with_places(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64] | None]:
    """:func:`folded_codes`, and the place of each code point's character in the texts joined by " | ".

    The places are None where every character folds to exactly one: then a place is its own.
    """
    between = f" {BREAK} "
    joined = between.join(texts)
    if joined.count(BREAK) != max(0, len(texts) - 1):
        joined = between.join(text.replace(BREAK, " ") for text in texts)
    codes = code_points(joined)
    folded, places = _folded(codes), None
    if folded.max(initial=0) == _LONG:  # few characters fold to several letters: ß, ligatures, fractions
        sizes = np.ones(len(codes), dtype=np.int64)
        for code in np.unique(codes[folded == _LONG]).tolist():
            sizes[codes == code] = len(_TABLE[code])
            joined = joined.replace(chr(code), _TABLE[code])
        folded, places = _folded(code_points(joined)), np.repeat(np.arange(len(codes)), sizes)
    if folded.all():
        return folded, places
    kept = np.flatnonzero(folded)
    return folded[kept], kept if places is None else places[kept]


def _folded(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The folded code point of each, 0 for an accent, ``_LONG`` for a character that folds to several.

    The table of all code points fills itself: characters that it lacks are folded and added.
    """
    if not _LOOKUP:
        _LOOKUP.append(np.full(0x110000, _UNKNOWN, dtype=np.uint32))
        _LOOKUP[0][ord(BREAK)] = ord(BREAK)
    table = _LOOKUP[0]
    folded: NDArray[np.uint32] = table.take(codes, mode="clip")  # no code point is out of bounds
    if (folded == _UNKNOWN).any():
        for code in np.unique(codes[folded == _UNKNOWN]).tolist():
            letters = _TABLE[code]
            if letters and not letters.strip():
                letters = " "  # an ellipsis is three points, and no word
            table[code] = _LONG if len(letters) > 1 else ord(letters) if letters else 0
        folded = table.take(codes, mode="clip")
    return folded


def code_points(text: str) -> NDArray[np.uint32]:
    """The code point of every character, lone surrogates included, as a read-only array."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


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
