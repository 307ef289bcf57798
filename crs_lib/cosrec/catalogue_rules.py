"""Which products and reviews are kept, why the others are not, and how their texts are cleaned.

Two sets of rules with the same thresholds: the original ones, repeated exactly (``legacy``), and ours,
which also accept whole-number prices and ratings, clean all markup, and look at the language.
"""

import html
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict

from crs_lib.core import prompts
from crs_lib.core.settings import Field, Settings

_TAG = re.compile(r"<\s{0,3}/?\s{0,3}(?:br|p|b|i|em|strong|ul|li|div|span)\b[^<>]*>", re.IGNORECASE)
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF, 0xAD, *range(9), *range(14, 32)])
_SURROGATE = re.compile("[\ud800-\udfff]")
_LATEST = 10**18  # later timestamps are no timestamps; they have a fixed width in the working files
_HEAD = 200  # characters whose language is looked at
_BEST = 5  # stars
_ENOUGH = 3  # distinct function words that must speak for another language

Encode = Callable[[Any], bytes]
# What becomes of a review: the reason against it ("" for none), its time, rating and JSON. By the original
# rules the rating of some dropped reviews counts: their JSON is empty. A time of -1 says that nothing counts.
ReviewVerdict = tuple[str, int, int, bytes]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0)]


class Options(Settings):
    """Settings of a catalogue; only the first six decide which products and reviews it holds."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    legacy: bool = False
    """repeat the original filters and statistics exactly"""
    shortest: _Count = 10
    """least characters of a description or review"""
    letters: Literal["latin-1", "ascii"] = "latin-1"
    """whose share is counted"""
    title_latin: _Share = 0.5
    """least share of letters in a title"""
    text_latin: _Share = 0.8
    """least share of letters in a text"""
    most_reviews: _Count = 0
    """keep the k most helpful reviews (0: all)"""
    parts: _Count = 0
    """parts of the join (0: by size; changes no result)"""
    workers: Annotated[int, Field(ge=1)] = 1
    """local processes"""
    keep_work: bool = False
    """keep the working files"""


def _letter_share(text: str, letters: str) -> float:
    """Share of characters that ``letters`` (latin-1 or ascii) holds, in [0, 1]; 1 for an empty text."""
    if text.isascii():
        return 1.0
    return len(text.encode(letters, "ignore")) / len(text)


def _foreign(title: str, text: str, options: Options) -> bool:
    if _letter_share(title, options.letters) < options.title_latin:
        return True
    return _letter_share(text, options.letters) < options.text_latin


class _FunctionWords(NamedTuple):
    """Function words by language, English first, and those that are of other languages alone."""

    by_language: dict[str, frozenset[str]]
    foreign: frozenset[str]


@cache
def _function_words() -> _FunctionWords:
    by_language = {}
    every: frozenset[str] = frozenset()
    for name, words in prompts.lists("cosrec/languages").items():
        by_language[name] = frozenset(words.split())
        every |= by_language[name]
    return _FunctionWords(by_language, every - by_language["en"])


def language(text: str) -> str:
    """The language of a text by script and function words, judged by its first 200 characters. Not English:
    under 80 % of characters are Latin-1 or typographic (``other script``); or neither "the" nor "and" stands
    among the words, at least three distinct function words are of another language only, and it has more of
    them than English (shared words count for each). A text with too little evidence, as a title often has, is
    ``unknown``.
    """
    head = text[:_HEAD]
    if not head.isascii():
        typographic = sum(head.count(sign) for sign in "’‘“”–—…™•")
        if len(head.encode("latin-1", "ignore")) + typographic < 0.8 * len(head):
            return "other script"
    if " the " in head or " and " in head:
        return "en"
    words = set(head.lower().split())
    function_words = _function_words()
    by_language = function_words.by_language
    if len(words & function_words.foreign) >= _ENOUGH:
        return max(by_language, key=lambda name: len(words & by_language[name]))  # English wins a tie
    if by_language["en"].isdisjoint(words):
        return "unknown"
    return "en"


def is_english(text: str) -> bool:
    """Whether a text is kept as English: nothing speaks for another language."""
    return language(text) in ("en", "unknown")


def clean(text: str) -> str:
    """The text without markup, entities, invisible characters and runs of white space."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if not text.isprintable():
        text = text.translate(_INVISIBLE)
    return _spaced(text)


def legacy_clean(text: str) -> str:
    """The original's cleaning: '<br />' deleted, white space collapsed; lone surrogates become U+FFFD."""
    return _spaced(text.replace("<br />", ""))


def _spaced(text: str) -> str:
    if not text.isprintable():
        return _SURROGATE.sub("\ufffd", " ".join(text.split()))
    # its only white space is the blank
    if "  " in text or text[:1] == " " or text[-1:] == " ":
        return " ".join(text.split())
    return text


def _filled(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: Any, legacy: bool) -> bool:
    """Whether a value is a finite number; the original takes no whole ones."""
    if type(value) is int and not legacy:
        return True
    return type(value) is float and math.isfinite(value)


_AMOUNT = re.compile(
    r"(?P<before>(?:[^\W\d]{1,3}\.?)?[^\w.,]{0,2})"
    r"(?P<amount>\d[\d.,'’\s]*|[.,]\d+)"
    r"(?P<after>\W{0,2}[^\W\d]{0,12})\W*"
)
_OUT_OF = re.compile(r"(?<!\s)\s*(?:/|out of)\s*5(?:\.0)?(?:\s+stars?)?\s*$")
_GROUPED = re.compile(r"[1-9]\d{0,2}([.,' ])\d{3}(?:\1\d{3})*")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}")  # groups of India: 1,29,900
_MINUS = frozenset("-−–—")
_SCALES = {"k": 10**3, "thousand": 10**3, "m": 10**6, "mio": 10**6, "million": 10**6, "b": 10**9, "bn": 10**9}
_CENTS = frozenset({"¢", "c", "ct", "cts", "cent", "cents", "p", "pence"})
_STARS = ("star", "★", "⭐")  # what is counted in them is a grade


class _Amount(NamedTuple):
    """A number of a text with the signs before it and the unit behind it, in small letters."""

    before: str
    number: float
    unit: str


def _amount_in(text: str) -> _Amount | None:
    """The one number of a text, a currency or word beside it, or None: "19,99 €", "1.299,00", "$1.5K".

    A number below zero and a share ("20 %") are none.
    """
    text = text.strip()
    match = _AMOUNT.fullmatch(text)
    if text[-1:] in _MINUS and text[-2:-1].isdigit():  # "5.00-", as accounts write it
        return None
    if not match or "%" in text or not _MINUS.isdisjoint(match["before"]):
        return None
    number = _digits(match["amount"])
    if number is None:
        return None
    unit = match["after"].strip(" .,'").casefold()
    return _Amount(match["before"], round(number * _SCALES.get(unit, 1), 6), unit)


def _digits(amount: str) -> float | None:
    """The number that digits and marks write, or None where they may write several or none.

    Groups have three digits (or are India's); of comma and point the last parts the decimals, of which a
    comma has one or two. One comma before three digits groups them; one point there may do either, so "1.299"
    is none.
    """
    digits = re.sub(r"\s", " ", amount).replace("’", "'").rstrip(" .,'")
    if _whole(digits) is not None:
        is_point = "." in digits and digits.count(".") == 1
        return None if is_point else _whole(digits)
    mark = max(digits.rfind("."), digits.rfind(","))
    whole = digits[:mark] or "0"
    decimals = digits[mark + 1 :]
    number = _whole(whole)
    if mark < 0 or number is None or digits[mark] in whole or not decimals.isdecimal():
        return None
    if digits[mark] == "," and len(decimals) > 2:
        return None
    return float(f"{number:.0f}.{decimals}")


def _whole(digits: str) -> float | None:
    """A whole number, its digits in groups or not; else None."""
    is_number = digits.isdecimal() or _GROUPED.fullmatch(digits) or _LAKHS.fullmatch(digits)
    return float(re.sub(r"[.,' ]", "", digits)) if is_number else None


def _number_in(text: str) -> float | None:
    amount = _amount_in(text)
    return amount.number if amount else None


def _money_in(text: str) -> float | None:
    """The amount of money that a text says, cents as such; one in brackets is a debt and none."""
    amount = _amount_in(text)
    if amount is None or "(" in amount.before:
        return None
    return amount.number / 100 if amount.unit in _CENTS else amount.number


def price_of(value: Any, legacy: bool) -> float | None:
    """The price as a number, or None: ``19.99``, "19.99" in both; 20, "$1,299.00", "99 ct" only in ours."""
    if isinstance(value, str):
        if not legacy:
            value = _money_in(value)
        else:
            try:
                value = float(value)
            except ValueError:
                return None
    if _is_number(value, legacy) and value > 0:
        return float(value)
    return None


def _count_of(value: Any, legacy: bool) -> int | None:
    """A whole number, or None; ours reads 12.0, "12" and "1,234 ratings" too; "3 stars" are no count."""
    if type(value) is int:
        return value
    if legacy:
        return None
    if isinstance(value, str):
        is_grade = any(sign in value.casefold() for sign in _STARS)
        value = None if is_grade else _number_in(value)
    if type(value) is float and value.is_integer():
        return int(value)
    return None


def _grade_of(value: Any, legacy: bool) -> Any:
    """A grade as a number; ours reads "4,4" and "4.4 out of 5 stars" too."""
    if isinstance(value, str) and not legacy:
        return _number_in(_OUT_OF.sub("", value))
    return value


def _details(value: Any, legacy: bool) -> dict[str, Any] | None:
    if isinstance(value, str) and not legacy:
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        return value
    return None


def product(row: Any, options: Options, encode: Encode) -> tuple[str, int, bytes] | str:
    """A kept product's id, number of ratings and JSON, or the first reason against it: asin, title,
    description, details, categories, ratings, store, price, too short, language.
    """
    legacy = options.legacy
    tidy = legacy_clean if legacy else clean
    asin = row.parent_asin
    if not _filled(asin) or not asin.isprintable() or " " in asin:
        return "asin"
    if not _filled(row.title):
        return "title"
    title = tidy(row.title)
    if not title and not legacy:
        return "title"
    if not _texts(row.description) or not _texts(row.features):
        return "description"
    parts = [*row.description, *row.features]
    if not parts:
        return "description"
    details = _details(row.details, legacy)
    if details is None:
        return "details"
    if not _texts(row.categories) or row.categories in ([], [""]):
        return "categories"
    ratings = _count_of(row.rating_number, legacy)
    average = _grade_of(row.average_rating, legacy)
    if ratings is None or ratings <= 0:
        return "ratings"
    if not _is_number(average, legacy) or average < 0:
        return "ratings"
    if average > _BEST and not legacy:
        return "ratings"
    if not _filled(row.store):
        return "store"
    price = price_of(row.price, legacy)
    if price is None:
        return "price"
    text = " ".join(row.description) + " " + " ".join(row.features)
    if len(text if legacy else tidy(text)) < options.shortest:
        return "too short"
    if _foreign(row.title, text, options):
        return "language"
    description = [tidy(part) for part in parts]
    if not legacy:
        if not is_english(f"{row.title} {text}"):
            return "language"
        asin = asin.upper()
        description = list(filter(None, description))
    record = {
        "parent_asin": asin,
        "title": title,
        "description": description,
        "details": details,
        "categories": row.categories,
        "store": row.store,
        "price": price,
        "num_ratings": ratings,
        "avg_ratings": average,
    }
    return asin, ratings, _encoded(record, encode)


def _against(reason: str) -> ReviewVerdict:
    return reason, -1, 0, b""


def review(row: Any, options: Options, encode: Encode, plain: bool = False) -> ReviewVerdict:
    """What becomes of a review. ``plain`` says that its JSON line holds no backslash, so that no text in it
    has a control character or a surrogate; it saves time and changes nothing. The caller has checked the id:
    ``asin`` and ``not in catalogue`` come before everything else. Older dumps call two fields
    ``sort_timestamp`` and ``helpful_votes``; ours reads them too.
    """
    legacy = options.legacy
    stars = _grade_of(row.rating, legacy)
    if not isinstance(row.user_id, str):
        return _against("user")
    moment = row.timestamp
    if moment is None and not legacy:
        moment = row.sort_timestamp
    time = None if isinstance(moment, str) else _count_of(moment, legacy)
    if time is None or not 0 <= time < _LATEST:
        return _against("timestamp")
    if type(stars) is not float and (type(stars) is not int or legacy):
        return _against("rating")
    if not 1 <= stars <= 5:
        return _against("rating")
    rating = round(stars + 0.001)
    reason, title, text = _words_of_review(row, options, plain)
    if reason:
        if legacy:
            return reason, time, rating, b""
        return _against(reason)
    record = {
        "user": row.user_id,
        "timestamp": time,
        "verified purchase": row.verified_purchase,
        "title": title,
        "text": text,
        "rating": rating,
        "helpful": _helpful_votes(row, legacy),
    }
    return "", time, rating, _encoded(record, encode)


def _helpful_votes(row: Any, legacy: bool) -> int | None:
    """The number of people who called a review helpful, or None; older dumps call it ``helpful_votes``."""
    votes = row.helpful_vote
    if votes is None and not legacy:
        votes = row.helpful_votes
    return _count_of(votes, legacy)


def _words_of_review(row: Any, options: Options, plain: bool) -> tuple[str, str, str]:
    """The first reason against a review's words and votes ("" for none), its title and text, cleaned."""
    legacy = options.legacy
    title = row.title
    text = row.text
    if not isinstance(title, str) or not title:
        return "title", "", ""
    if not isinstance(text, str) or not text:
        return "text", "", ""
    if type(row.verified_purchase) is not bool:
        return "verified", "", ""
    helpful = _helpful_votes(row, legacy)
    if helpful is None or helpful < 0:
        return "helpful", "", ""
    # without control characters, ASCII, markup, entity or run of blanks inside, a text is clean already
    both = f"{title} {text}" if plain else "<"
    ascii_only = both.isascii() and "<" not in both and "&" not in both and "  " not in both
    tidy: Callable[[str], str] = str.strip
    if not ascii_only:
        tidy = legacy_clean if legacy else clean
    tidy_title = tidy(title)
    tidy_text = tidy(text)
    if len(text if legacy else tidy_text) < options.shortest:
        return "too short", "", ""
    if not ascii_only and _foreign(title, text, options):
        return "language", "", ""
    if not legacy:
        if not tidy_title:
            return "title", "", ""
        if not is_english(tidy_text):
            return "language", "", ""
    return "", tidy_title, tidy_text


def _encoded(record: dict[str, Any], encode: Encode) -> bytes:
    """The record as JSON; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return encode(record)
    except UnicodeEncodeError:
        return encode(_sound(record))


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sound(item) for item in value]
    return value
