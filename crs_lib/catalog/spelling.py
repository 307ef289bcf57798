"""Titles as files write them (``General, The (1926)``), and the spellings under which texts name a film."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from crs_lib.catalog import lexicon
from crs_lib.core.text import fold

_YEAR = re.compile(r"[(\[] ?(\d{4}) ?(?:[-–—] ?(?:\d{2,4})?|/[IVXLC]{1,9})? ?[)\]]$")  # of single blanks
_KIND = re.compile(
    r"[(\[](?:(\d{4}) )?(?:[\w-]+ ){0,2}?(?:film|movie|tv|v|vg|tv series|miniseries)(?: (\d{4}))?[)\]]$", re.I
)
_SERIES = re.compile(r" ?\([^()#]*#\s?\d[^()]*\)$")  # Goodreads: "(Dune, #1)"
_BRACKET = re.compile(r" ?\(([^()]+)\)$")
_ENDS = frozenset("]）］】>†‡")
_HTML = re.compile(r"</?[a-z]{1,9}/?>", re.I)
_WIDE = str.maketrans("（）［］【】", "()[][]")
_FOOTNOTE = re.compile(r"(?: ?\[(?:\d{1,2}|[a-z]|note \d{1,2})\]| ?[†‡])")
_ALSO = re.compile(r"^\s*(?:a\.\s?k\.\s?a\.?|aka|also known as|alternative titles?)\b[.:]?\s*", re.I)
_ALSO_INSIDE = re.compile(r",? (?:a\. ?k\. ?a\.?|also known as)[: ] ?", re.I)
# What in brackets belongs to the title: "(Part 2)", "(II)", "(Director's Cut)".
_PART = re.compile(
    r"^(?:parts?|vol|volume|episode|chapter|season|series|no|the movie|director'?s cut|extended|uncut)\b"
    r"|^(?:3-?d|imax)$"
    r"|^#?\d+$|^[ivxlc]+$",
    re.I,
)
_GOES_ON = re.compile(
    r"(?:[:&/–-]|(?<!,) (?:or|and|the|an?|of|in|to|with))$", re.I
)  # what follows is the title's
_NUMBER = re.compile(r"(?<=\s)(?:[ivx]+|\d{1,2})\b", re.I)
_NUMBERED = re.compile(r"\b(?:part|episode|chapter|volume|vol\.?|act)\s$", re.I)
_ROMAN = ("i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx").split()
_LETTERS = frozenset("ivx")  # numbers of one letter, which may also be words
_ELIDED = re.compile(r"(\w{1,2}['’])(\S.*)")  # L'Avventura
_AND = re.compile(r"\band\b", re.I)
_HALF_SIGN = re.compile(r" ?½")
_HALF = re.compile(r" ?\b1/2\b")
_DIGIT_INSIDE = re.compile(r"(?<=[a-z])[013457](?=[a-z])", re.I)  # "Se7en", "S1m0ne"
_LETTERS_OF = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "v"}


class Title(NamedTuple):
    """A title as people say it, its year as four digits ("" where none is written), and its other titles."""

    text: str
    year: str = ""
    also: tuple[str, ...] = ()


def parse(written: str) -> Title:
    """What a written title says: year in brackets, article behind, second titles in brackets, "a.k.a.".

    Other brackets are second titles before a year, and where an article stands behind, as MovieLens writes
    them; else they are the title's. Marks of HTML and of footnotes ("[2]", "†") are no part of it.

    Examples
    --------
    >>> parse("City of Lost Children, The (Cité des enfants perdus, La) (1995)")
    Title(text='The City of Lost Children', year='1995', also=('La Cité des enfants perdus',))
    """
    text = " ".join(written.split())
    year = ""
    also: list[str] = []
    if text[-1:] in _ENDS or text[:1] == "<":
        text = " ".join(plain(text).split()) or text
    if text[-1:] in (")", "]"):
        text = _SERIES.sub("", text) or text
        text, year = _without_year(text)
        if text[-1:] == ")":
            text, also = _without_brackets(text, bool(year))
    if "k" in text and _ALSO_INSIDE.search(text):
        text, *others = _ALSO_INSIDE.split(text)
        also = others + also
    if "," in text:
        text = _article_first(text)
    titles = tuple(_article_first(other) for other in also)
    return Title(text, year, titles)


def plain(text: str) -> str:
    """A text without marks of HTML and footnotes ("[2]", "†"), East Asian brackets as others."""
    return _FOOTNOTE.sub("", _HTML.sub("", text).translate(_WIDE))


def _without_year(text: str) -> tuple[str, str]:
    """A title without what says its kind and year in brackets at its end, and the year."""
    year = ""
    kind = _KIND.search(text)
    if kind and kind.start():
        text = text[: kind.start()].rstrip()
        year = kind[1] or kind[2] or ""
    match = None if year else _YEAR.search(text)
    if match and match.start():
        text = text[: match.start()].rstrip()
        year = match[1]
    return text, year


def _without_brackets(text: str, dated: bool) -> tuple[str, list[str]]:
    """A title without second titles in brackets at its end, and those titles in their order."""
    also: list[str] = []
    while match := _BRACKET.search(text):
        before = text[: match.start()]
        named = _ALSO.match(match[1])
        second = named or dated or any(_article_behind(title) for title in (before, match[1]))
        if not before or not second or _GOES_ON.search(before) or _PART.match(match[1]):
            break
        others = _ALSO.sub("", match[1])
        also = [other.strip() for other in re.split(r"\s/\s|;|\ba\.k\.a\.", others)] + also
        text = before
    return text, list(filter(None, also))


def _article_behind(title: str) -> re.Match[str] | None:
    """The name and the article of a title with its article behind; None for any other title."""
    return _behind().match(title) if "," in title else None


def _article_first(title: str) -> str:
    """A title with its article in front: ``Misérables, Les`` is "Les Misérables"."""
    match = _article_behind(title)
    if not match:
        return title
    article = match["article"]
    joint = "" if article[-1] in "'’-" else " "
    return article[0].upper() + article[1:] + joint + match["name"] + match["end"]


@cache
def _behind() -> re.Pattern[str]:
    """The form of a title with an article behind, before a subtitle too."""
    articles = "|".join(map(re.escape, lexicon.articles()))
    form = rf"(?P<name>.+?), ?(?P<article>{articles})(?P<end>(?:\s?[:–]\s.+|\s-\s.+)?)$"
    return re.compile(form.replace("'", "['’]"), re.I)


def spellings(title: str) -> Iterator[tuple[str, str]]:
    """The ways to write a title, itself first: article behind, "&" or "and", roman or arabic numbers, halves
    ("8½"), digits in place of letters ("Se7en").

    With each goes the mark that must stand in it: "," before an article behind, "&", or none.
    """
    written = [(title, ""), *_articles_behind(title)]
    for text, mark in list(written):
        if "&" in text:
            written.append((text.replace("&", " and "), mark))
        elif _AND.search(text):
            written.append((_AND.sub("&", text), "&"))
    if "½" in title or "1/2" in title:
        written.append((_HALF_SIGN.sub(" 1/2", title) if "½" in title else _HALF.sub("½", title), ""))
    lettered = _DIGIT_INSIDE.sub(_letter, title)
    if lettered != title:
        written.append((lettered, ""))
    for text, mark in written:
        yield text, mark
        numbered = _NUMBER.sub(_other_number, text)
        if numbered != text:
            yield numbered, mark


def _articles_behind(title: str) -> Iterator[tuple[str, str]]:
    first, blank, name = title.partition(" ")
    elided = _ELIDED.match(title)
    if elided:
        first, name = elided.groups()
    elif not blank:
        return
    if fold(first) not in lexicon.article_words():
        return
    yield f"{name}, {first}", ","
    main, colon, subtitle = name.partition(": ")
    if colon:
        yield f"{main}, {first}: {subtitle}", ","


def _other_number(match: re.Match[str]) -> str:
    """A roman number in digits, or the other way round; 1 and letters inside a title only behind "part"."""
    word = match[0].lower()
    before = match.string[: match.start()]
    last = match.end() == len(match.string)
    if not _NUMBERED.search(before) and (word in ("i", "1") or (word in _LETTERS and not last)):
        return match[0]
    if word in _ROMAN:
        return str(_ROMAN.index(word) + 1)
    if word.isdigit() and 0 < int(word) <= len(_ROMAN):
        return _ROMAN[int(word) - 1].upper()
    return match[0]


def _letter(match: re.Match[str]) -> str:
    """The letter that a digit inside a word stands for."""
    return _LETTERS_OF[match[0]]
