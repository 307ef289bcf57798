"""What a buyer cares about: a summary and keywords from their reviews, by template or by a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.rng import address_seed
from crs_lib.cosrec import template

MOST_REVIEWS, MOST_KEYWORDS = 10, 5


def review_texts(reviews: Sequence[Mapping[str, Any]]) -> list[str]:
    """Up to ten reviews, newest first, each as title and text."""
    return [f"{review['title']}. {review['text']}" for review in reviews[:MOST_REVIEWS]]


def busiest(users: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The user with most reviews, of equals the first by id; InputError where there is none."""
    if not users:
        raise InputError("no product has a review; profiles need at least one")
    return min(users, key=lambda user: (-len(users[user]), user))


def read_keywords(reply: str) -> list[str]:
    """The keywords of a reply ``{first; second}``: in lower case, each once, at most five.

    Raises InputError where there is not exactly one pair of braces, or nothing inside.
    """
    inside = reply.partition("{")[2].partition("}")[0]
    found = list(dict.fromkeys(" ".join(part.split()).lower() for part in inside.split(";") if part.strip()))
    if reply.count("{") != 1 or reply.count("}") != 1 or not found:
        raise InputError(f"expected one pair of braces with keywords, got {reply[:80]!r}")
    return found[:MOST_KEYWORDS]


def profile(
    user: str, reviews: Sequence[Mapping[str, Any]], llm: Any = None, seed: int = 0
) -> dict[str, Any]:
    """Summary and keywords of one user, with the writer's name.

    ``llm`` is an ``crs_lib.llm.LLM``; None takes the template. Raises InputError for a user without
    reviews or a reply without keywords, LLMError where a call fails.
    """
    texts = review_texts(reviews)
    if not texts:
        raise InputError(f"user {user!r} has no reviews; a profile needs at least one")
    if llm is None:
        summary, keywords, writer = template.summary(texts), template.keywords(texts), "template"
    else:
        from crs_lib.llm import Request

        numbered = "\n".join(f"{n}. {text}" for n, text in enumerate(texts, start=1))

        def ask(name: str) -> str:
            prompt = prompts.render(f"cosrec/{name}", reviews=numbered)
            request = Request.ask(f"cosrec {name}", prompt, seed=address_seed(seed, "cosrec", name, user))
            return str(llm.complete(request).text)

        summary, keywords, writer = (
            " ".join(ask("user_summary").split()),
            read_keywords(ask("user_keywords")),
            llm.spec,
        )
    return {"user": user, "summary": summary, "keywords": keywords, "reviews": len(texts), "writer": writer}
