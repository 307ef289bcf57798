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
from typing import Annotated, Any, Literal

from crs_lib.core import prompts
from crs_lib.core.settings import Field, Settings

_TAG = re.compile(r"<\s*/?\s*(?:br|p|b|i|em|strong|ul|li|div|span)\b[^<>]*>", re.IGNORECASE)
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF, 0xAD, *range(9), *range(14, 32)])
_SURROGATE = re.compile("[\ud800-\udfff]")
_LATEST = 10**18  # later timestamps are no timestamps; they have a fixed width in the working files
_HEAD = 200  # characters whose language is looked at
_ENOUGH = 3  # distinct function words that must speak for another language

# A kept review: timestamp, rating, and JSON, which is empty where only the rating counts (legacy).
Review = tuple[int, int, bytes]
_Against = tuple[str, Review | None]
Encode = Callable[[Any], bytes]


class Options(Settings):
    """Settings of a catalogue; only the first six decide which products and reviews it holds."""

    legacy: Annotated[bool, Field(description="repeat the original filters and statistics exactly")] = False
    shortest: Annotated[int, Field(ge=0, description="least characters of a description or review")] = 10
    letters: Annotated[Literal["latin-1", "ascii"], Field(description="whose share is counted")] = "latin-1"
    title_latin: Annotated[float, Field(ge=0, le=1, description="least share of letters in a title")] = 0.5
    text_latin: Annotated[float, Field(ge=0, le=1, description="least share of letters in a text")] = 0.8
    most_reviews: Annotated[int, Field(ge=0, description="keep the k most helpful reviews (0: all)")] = 0
    parts: Annotated[int, Field(ge=0, description="parts of the join (0: by size; changes no result)")] = 0
    workers: Annotated[int, Field(ge=1, description="local processes")] = 1
    keep_work: Annotated[bool, Field(description="keep the working files")] = False


def _share(text: str, letters: str) -> float:
    """Share of characters that ``letters`` (latin-1 or ascii) holds, in [0, 1]; 1 for an empty text."""
    return 1.0 if text.isascii() else len(text.encode(letters, "ignore")) / len(text)


def _foreign(title: str, text: str, rules: Options) -> bool:
    return _share(title, rules.letters) < rules.title_latin or _share(text, rules.letters) < rules.text_latin


@cache
def _function_words() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Function words by language, English first, and those that are of other languages alone."""
    known = {name: frozenset(words.split()) for name, words in prompts.lists("cosrec/languages").items()}
    return known, frozenset[str]().union(*known.values()) - known["en"]


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
    found, (known, foreign) = set(head.lower().split()), _function_words()
    if len(found & foreign) >= _ENOUGH:
        return max(known, key=lambda name: len(found & known[name]))  # English is first and wins a tie
    return "unknown" if known["en"].isdisjoint(found) else "en"


def is_english(text: str) -> bool:
    """Whether a text is kept as English: nothing speaks for another language."""
    return language(text) in ("en", "unknown")


def encoders() -> tuple[Encode, Callable[..., bytes]]:
    """Compact JSON in UTF-8, ten times as fast as json's: of any record, and of a review's seven fields."""
    import msgspec

    names = ("user", "timestamp", "verified_purchase", "title", "text", "rating", "helpful")
    renamed = {"verified_purchase": "verified purchase"}
    form = msgspec.defstruct("Body", [(name, Any) for name in names], rename=renamed, gc=False)
    pack = msgspec.json.Encoder().encode
    return pack, lambda *values: pack(form(*values))


def clean(text: str) -> str:
    """The text without markup, entities, invisible characters and runs of white space."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    return _spaced(text if text.isprintable() else text.translate(_INVISIBLE))


def _legacy_clean(text: str) -> str:
    """The original's cleaning: '<br />' deleted, white space collapsed; lone surrogates become U+FFFD."""
    return _spaced(text.replace("<br />", "") if "<" in text else text)


def _spaced(text: str) -> str:
    if text.isprintable():  # then its only white space is the blank
        return " ".join(text.split()) if "  " in text or text[:1] == " " or text[-1:] == " " else text
    return _SURROGATE.sub("\ufffd", " ".join(text.split()))


def _filled(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _number(value: Any, legacy: bool) -> bool:
    """Whether a value is a finite number; the original takes no whole ones."""
    return type(value) in ((float,) if legacy else (float, int)) and math.isfinite(value)


def _price_of(value: Any, legacy: bool) -> float | None:
    """The price as a number, or None: ``19.99``, "19.99" in both; 20, "$1,299.00" only in ours."""
    if isinstance(value, str):
        text = value if legacy else value.strip().lstrip("$").replace(",", "")
        try:
            value = float(text)
        except ValueError:
            return None
    return float(value) if _number(value, legacy) and value > 0 else None


def _details(value: Any, legacy: bool) -> dict[str, Any] | None:
    if not legacy and isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    ok = isinstance(value, dict) and value and all(isinstance(key, str) for key in value)
    return value if ok else None


def product(row: Any, rules: Options, encode: Encode) -> tuple[str, int, bytes] | str:
    """The id of a kept product, the number of its ratings and its record as JSON, or the first reason not to.
    The reasons: asin, title, description, details, categories, ratings, store, price, too short, language.
    """
    legacy = rules.legacy
    tidy = _legacy_clean if legacy else clean
    asin, title, description, features = row.parent_asin, row.title, row.description, row.features
    if not _filled(asin) or not asin.isprintable() or " " in asin:
        return "asin"
    if not _filled(title) or (not legacy and not tidy(title)):
        return "title"
    if not _texts(description) or not _texts(features) or not (description or features):
        return "description"
    if (details := _details(row.details, legacy)) is None:
        return "details"
    if not _texts(row.categories) or row.categories in ([], [""]):
        return "categories"
    number, average = row.rating_number, row.average_rating
    if type(number) is not int or number <= 0 or not _number(average, legacy) or average < 0:
        return "ratings"
    if not _filled(row.store):
        return "store"
    if (price := _price_of(row.price, legacy)) is None:
        return "price"
    text = " ".join(description) + " " + " ".join(features)
    if len(text if legacy else tidy(text)) < rules.shortest:
        return "too short"
    if _foreign(title, text, rules):
        return "language"
    if not legacy and not is_english(f"{title} {text}"):
        return "language"
    parts = [tidy(item) for item in (*description, *features)]
    body = {
        "parent_asin": asin if legacy else asin.upper(), "title": tidy(title),
        "description": parts if legacy else [part for part in parts if part], "details": details,
        "categories": row.categories, "store": row.store, "price": price, "num_ratings": number,
        "avg_ratings": average,
    }  # fmt: skip
    try:
        return body["parent_asin"], number, encode(body)
    except UnicodeEncodeError:
        return body["parent_asin"], number, encode(_sound(body))


def review(row: Any, rules: Options, encode: Callable[..., bytes], plain: bool = False) -> Review | _Against:
    """The kept review, or the first reason against it, with the rating that legacy counts all the same.
    ``plain`` says that its JSON line holds no backslash, so that no text in it has a control character or a
    surrogate; it saves time and changes nothing. The caller has checked the id: ``asin`` and ``not in
    catalogue`` come before everything else. Older dumps call two fields ``sort_timestamp`` and
    ``helpful_votes``; ours reads them too.
    """
    legacy, user, time, stars = rules.legacy, row.user_id, row.timestamp, row.rating
    if not isinstance(user, str):
        return "user", None
    if time is None and not legacy:
        time = row.sort_timestamp
    if type(time) is not int or not 0 <= time < _LATEST:
        return "timestamp", None
    if not (type(stars) is float or (type(stars) is int and not legacy)) or not 1 <= stars <= 5:
        return "rating", None
    rating = round(stars + 0.001)
    counted = (time, rating, b"") if legacy else None
    title, text, helpful = row.title, row.text, row.helpful_vote
    if not isinstance(title, str) or not title:
        return "title", counted
    if not isinstance(text, str) or not text:
        return "text", counted
    if type(row.verified_purchase) is not bool:
        return "verified", counted
    if helpful is None and not legacy:
        helpful = row.helpful_votes
    if type(helpful) is not int or helpful < 0:
        return "helpful", counted
    # without control characters, ASCII, markup, entity or run of blanks inside, a text is clean already
    both = f"{title} {text}" if plain else "<"
    ascii_only = both.isascii() and "<" not in both and "&" not in both and "  " not in both
    if ascii_only:
        kept_title, kept_text = title.strip(), text.strip()
    else:
        tidy = _legacy_clean if legacy else clean
        kept_title, kept_text = tidy(title), tidy(text)
    if len(text if legacy else kept_text) < rules.shortest:
        return "too short", counted
    if not ascii_only and _foreign(title, text, rules):
        return "language", counted
    if not legacy:
        if not kept_title:
            return "title", None
        if not is_english(kept_text):
            return "language", None
    fields = (user, time, row.verified_purchase, kept_title, kept_text, rating, helpful)
    try:
        return time, rating, encode(*fields)
    except UnicodeEncodeError:  # a lone surrogate in the user's name
        return time, rating, encode(*_sound(list(fields)))


def _sound(value: Any) -> Any:
    """The value with lone surrogates, which UTF-8 cannot hold, made U+FFFD."""
    if isinstance(value, str):
        return value if value.isprintable() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    return [_sound(item) for item in value] if isinstance(value, list) else value
