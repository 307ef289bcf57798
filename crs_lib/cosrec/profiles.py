"""What a buyer cares about: summary and keywords from reviews, by rule or read from a model's answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.cosrec import template

MOST_REVIEWS, MOST_KEYWORDS = 10, 5


def review_texts(reviews: Sequence[Mapping[str, Any]]) -> list[str]:
    """Up to ten reviews, in the order given, each as title and text."""
    return [f"{review['title']}. {review['text']}" for review in reviews[:MOST_REVIEWS]]


def numbered(texts: Sequence[str]) -> str:
    """The reviews as a prompt shows them: one a line, counted from 1."""
    return "\n".join(f"{n}. {' '.join(text.split())}" for n, text in enumerate(texts, start=1))


def read_summary(reply: str) -> str:
    """A summary on one line; InputError for an empty reply."""
    found = " ".join(reply.split())
    if not found:
        raise InputError("expected a description, got an empty reply")
    return found


def read_keywords(reply: str) -> list[str]:
    """The keywords of a reply ``{first; second}``: in lower case, each once, at most five.

    Raises InputError where there is not exactly one pair of braces, or nothing inside.
    """
    inside = reply.partition("{")[2].partition("}")[0]
    found = list(dict.fromkeys(" ".join(part.split()).lower() for part in inside.split(";") if part.strip()))
    if reply.count("{") != 1 or reply.count("}") != 1 or not found:
        raise InputError(f"expected one pair of braces with keywords, got {reply[:80]!r}")
    return found[:MOST_KEYWORDS]


def by_rule(user: str, texts: Sequence[str]) -> dict[str, Any]:
    """Summary and keywords without a model; InputError for a user without reviews."""
    if not texts:
        raise InputError(f"user {user!r} has no reviews; a profile needs at least one")
    return {
        "user": user, "summary": template.summary(texts), "keywords": template.keywords(texts),
        "reviews": len(texts), "writer": "template",
    }  # fmt: skip
