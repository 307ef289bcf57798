"""Which products and reviews are kept, why the others are not, and how their texts are cleaned.

Two sets of rules with the same thresholds: the original ones, repeated exactly (``legacy``), and ours,
which also accept whole-number prices and ratings, clean all markup, and look at the language.
"""

import html
import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from crs_lib.cosrec.language import is_english, latin_share

PRODUCT_REASONS = (
    "asin", "title", "description", "details", "categories", "ratings", "store", "price", "too short",
    "language",
)  # fmt: skip
REVIEW_REASONS = (
    "asin", "not in catalogue", "user", "timestamp", "rating", "title", "text", "verified", "helpful",
    "too short", "language",
)  # fmt: skip
REVIEW_FIELDS = ("user", "timestamp", "verified purchase", "title", "text", "rating", "helpful")
_TAG = re.compile(r"<\s*/?\s*(?:br|p|b|i|em|strong|ul|li|div|span)\b[^<>]*>", re.IGNORECASE)
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), 0x2060, 0xFEFF, 0xAD, *range(9), *range(14, 32)])
_SPACES = re.compile(r"\s+")
_SURROGATE = re.compile("[\ud800-\udfff]")


_LATEST = 10**18  # later timestamps are no timestamps; they have a fixed width in the working files


class Rules(NamedTuple):
    """Thresholds: shortest text in characters, least share of Latin-1 characters in title and text."""

    legacy: bool = False
    shortest: int = 10
    title_latin: float = 0.5
    text_latin: float = 0.8


class Product(NamedTuple):
    """A kept product: its id, the number of its ratings, and its record as JSON (an open object)."""

    asin: str
    ratings: int
    body: bytes


# A kept review: timestamp, rating, and JSON, which is empty where only the rating counts (legacy).
Review = tuple[int, int, bytes]


class _Encoders(NamedTuple):
    """Compact JSON in UTF-8: of any record, and of a review's seven fields in their order."""

    record: Callable[[Any], bytes]
    review: Callable[..., bytes]


def encoders() -> _Encoders:
    """The encoders of msgspec, ten times as fast as json's."""
    import msgspec

    names = [name.replace(" ", "_") for name in REVIEW_FIELDS]
    form = msgspec.defstruct(
        "Body", [(name, Any) for name in names], rename=dict(zip(names, REVIEW_FIELDS, strict=True)), gc=False
    )
    pack = msgspec.json.Encoder().encode
    return _Encoders(pack, lambda *values: pack(form(*values)))


def clean(text: str) -> str:
    """The text without markup, entities, invisible characters and runs of white space."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if not text.isprintable():
        text = _SURROGATE.sub("\ufffd", text.translate(_INVISIBLE))
        return " ".join(text.split())
    return " ".join(text.split()) if "  " in text or text[:1] == " " or text[-1:] == " " else text


def _clean_already(text: str) -> bool:
    """Whether a text without control characters is ASCII, without markup, entity or run of blanks inside."""
    return text.isascii() and "<" not in text and "&" not in text and "  " not in text


def legacy_clean(text: str) -> str:
    """The original's cleaning: '<br />' deleted, white space collapsed; lone surrogates become U+FFFD."""
    if "<" in text:
        text = text.replace("<br />", "")
    if text.isprintable():  # then its only white space is the blank
        return " ".join(text.split()) if "  " in text or text[:1] == " " or text[-1:] == " " else text
    return _SURROGATE.sub("\ufffd", _SPACES.sub(" ", text).strip())


def _filled(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _finite(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds and math.isfinite(value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def price_of(value: Any, legacy: bool) -> float | None:
    """The price as a number, or None: ``19.99``, "19.99" in both; 20, "$1,299.00" only in ours."""
    if isinstance(value, str):
        text = value if legacy else value.strip().lstrip("$").replace(",", "")
        try:
            value = float(text)
        except ValueError:
            return None
    ok = _finite(value, (float,) if legacy else (float, int)) and value > 0
    return float(value) if ok else None


def _details(value: Any, legacy: bool) -> dict[str, Any] | None:
    if not legacy and isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    ok = isinstance(value, dict) and value and all(isinstance(key, str) for key in value)
    return value if ok else None


def product(row: Any, rules: Rules, encode: _Encoders) -> Product | str:
    """The kept product, or the first reason (one of ``PRODUCT_REASONS``) against it."""
    legacy = rules.legacy
    tidy = legacy_clean if legacy else clean
    asin, title, description, features = row.parent_asin, row.title, row.description, row.features
    if not _filled(asin) or not asin.isprintable() or " " in asin:
        return "asin"
    if not _filled(title) or (not legacy and not tidy(str(title))):
        return "title"
    if not _texts(description) or not _texts(features) or not (description or features):
        return "description"
    details = _details(row.details, legacy)
    if details is None:
        return "details"
    categories = row.categories
    if not _texts(categories) or not categories or categories == [""]:
        return "categories"
    number, average = row.rating_number, row.average_rating
    if type(number) is not int or number <= 0 or not _finite(average, (float,) if legacy else (float, int)):
        return "ratings"
    if average < 0:
        return "ratings"
    if not _filled(row.store):
        return "store"
    price = price_of(row.price, legacy)
    if price is None:
        return "price"
    text = " ".join(description) + " " + " ".join(features)
    if len(text if legacy else tidy(text)) < rules.shortest:
        return "too short"
    if latin_share(str(title)) < rules.title_latin or latin_share(text) < rules.text_latin:
        return "language"
    if not legacy and not is_english(f"{title} {text}"):
        return "language"
    parts = [tidy(item) for item in (*description, *features)]
    body = {
        "parent_asin": asin if legacy else str(asin).upper(),
        "title": tidy(str(title)),
        "description": parts if legacy else [part for part in parts if part],
        "details": details,
        "categories": categories,
        "store": row.store,
        "price": price,
        "num_ratings": number,
        "avg_ratings": average,
    }
    return Product(str(body["parent_asin"]), number, _record(body, encode))


def _record(body: dict[str, Any], encode: _Encoders) -> bytes:
    """The JSON of a record; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return encode.record(body)
    except UnicodeEncodeError:
        return encode.record(_sound(body))


def review(
    row: Any, rules: Rules, encode: _Encoders, plain: bool = False
) -> Review | tuple[str, Review | None]:
    """The kept review, or the first reason against it, with the rating that legacy counts all the same.

    ``plain`` says that its JSON line holds no backslash, so that no text in it has a control character or a
    surrogate; it saves time and changes nothing.

    The caller has checked the id: ``asin`` and ``not in catalogue`` come before everything else. Older
    dumps call two fields ``sort_timestamp`` and ``helpful_votes``; ours reads them too.
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
    ascii_only = plain and _clean_already(f"{title} {text}")
    if ascii_only:
        kept_title, kept_text = title.strip(), text.strip()
    else:
        tidy = legacy_clean if legacy else clean
        kept_title, kept_text = tidy(title), tidy(text)
    if len(text if legacy else kept_text) < rules.shortest:
        return "too short", counted
    if not (ascii_only or (title.isascii() and text.isascii())) and (
        latin_share(title) < rules.title_latin or latin_share(text) < rules.text_latin
    ):
        return "language", counted
    if not legacy:
        if not kept_title:
            return "title", None
        if not is_english(kept_text):
            return "language", None
    fields = (user, time, row.verified_purchase, kept_title, kept_text, rating, helpful)
    try:
        return time, rating, encode.review(*fields)
    except UnicodeEncodeError:  # a lone surrogate in the user's name
        return time, rating, encode.review(*_sound(list(fields)))


def _sound(value: Any) -> Any:
    """The value with lone surrogates, which UTF-8 cannot hold, made U+FFFD."""
    if isinstance(value, str):
        return value if value.isprintable() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    return [_sound(item) for item in value] if isinstance(value, list) else value
