"""The copying penalty I: how much of a reply is the user's own words."""

from collections.abc import Sequence, Set

from crs_lib.core.text import ngrams, words
from crs_lib.metrics.base import LOWER, Metric, declare

ORDERS = (3, 4)
_PENALTY, _CLEAN = (f"copying {what} (docs/metrics.md, section 3)" for what in ("penalty", "without values"))
declare(
    Metric("topic_interference", "I", "turn", 0, 1, LOWER, _PENALTY, gate=False),
    Metric("copying", "copying", "turn", 0, 1, LOWER, _CLEAN, gate=False),
)


def copy_ratio(reply: str, request: str, orders: Sequence[int] = ORDERS) -> float:
    """Largest share of the reply's word n-grams that the request has too, in [0, 1]; 1 is pure echo.

    Orders longer than the reply are left out; a reply without words scores 0.
    Source: grounded evaluation, the copying penalty I (docs/metrics.md, section 3).
    """
    return copied_share(words(reply), words(request), orders)


def copied_share(
    reply: Sequence[str],
    request: Sequence[str],
    orders: Sequence[int] = ORDERS,
    ignore: Set[str] = frozenset(),
) -> float:
    """:func:`copy_ratio` of word lists; words in ``ignore`` are taken out of both first.

    With the words of the catalogue values ignored, naming the genre back is no copying.
    """
    if ignore:
        reply = [word for word in reply if word not in ignore]
        request = [word for word in request if word not in ignore]
    largest = 0.0
    for order in sorted(orders):
        said = ngrams(reply, order)
        shared = said & ngrams(request, order) if said else said
        if not shared:  # then no longer n-gram is shared either
            break
        largest = max(largest, len(shared) / len(said))
    return largest
