"""The copying penalty I: how much of a reply is the user's own words."""

from collections.abc import Sequence, Set

from crs_lib.core.remembered import Remembered
from crs_lib.core.text import ngrams, words
from crs_lib.metrics.base import LOWER, TURN, metric
from crs_lib.metrics.inputs import Background, TurnRecord

ORDERS = (3, 4)


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
        shared = ngrams(request, order).intersection(zip(*(reply[i:] for i in range(order)), strict=False))
        if not shared:  # then no longer n-gram is shared either
            break
        largest = max(largest, len(shared) / len(ngrams(reply, order)))
    return largest


@metric(
    "topic_interference", "I", TURN, 0, 1, LOWER, gate=False, place=3,
    source="copying penalty (docs/metrics.md, section 3)",
    shown_in={"turn_table": 3, "metric_bars": 10, "correlation_heatmap": 10},
)  # fmt: skip
def interference(turn: TurnRecord) -> float:
    """I: :func:`copied_share` of the reply, in [0, 1]."""
    return copied_share(turn.system.words, turn.user.words, turn.rule.copy_orders)


@metric(
    "copying", "copying", TURN, 0, 1, LOWER, gate=False, place=17,
    source="copying without values (docs/metrics.md, section 3)",
    shown_in={"metric_bars": 6, "correlation_heatmap": 5, "component_radar": 4},
)  # fmt: skip
def copying_without_values(turn: TurnRecord) -> float:
    """:func:`copied_share` without the words of the catalogue values that either side names, in [0, 1]."""
    words_of = turn.background.once(_words_of_values)
    ignore = {word for code in turn.user.concepts | turn.system.concepts for word in words_of[code]}
    return copied_share(turn.system.words, turn.user.words, turn.rule.copy_orders, ignore)


def _words_of_values(background: Background) -> Remembered[int, list[str]]:
    """The words of each concept's value, by code."""
    key = background.concepts.key
    return Remembered(lambda code: key(code).split("=", 1)[1].split(" "))
