"""What a metric of adaptation must say of systems whose order is known.

Source: docs/validity.md, section 1. To add an ordering, add a row to ``ORDERINGS``.
"""

from typing import NamedTuple

WHOLE, AFTER, BEFORE = "whole session", "after the first shift", "before the first shift"
ABOVE, NOT_BELOW, ALIKE, RISING = "above", "not below", "alike", "rising with the dose"
DOSES = (0.9, 0.7, 0.5, 0.3, 0.1)
MARGIN = 0.1  # "alike": within this share of the distance between oracle and random
LEVEL = 0.001  # of the trend over doses


class Ordering(NamedTuple):
    """One demand: system ``a`` stands in ``relation`` to system ``b`` over a part of the session."""

    a: str
    relation: str
    b: str
    scope: str = WHOLE

    @property
    def text(self) -> str:
        """The demand in words: "tracker above sticky, after the first shift"."""
        part = "" if self.scope == WHOLE else f", {self.scope}"
        return f"{self.a} {self.relation} {self.b}{part}"


def noisy(dose: float) -> str:
    """The spec of the oracle that is random with this probability."""
    return f"noisy:{dose:g}"


# The trend runs from the highest dose of noise to the oracle, which is dose 0.
TREND = (*(noisy(dose) for dose in DOSES), "oracle")
_MUTE = ("slot_echo", "echo", "silent")
ORDERINGS: tuple[Ordering, ...] = (
    Ordering("oracle", ABOVE, "tracker"),
    Ordering("tracker", ABOVE, "amnesiac"),
    Ordering("amnesiac", NOT_BELOW, "popular"),
    Ordering("popular", ALIKE, "random"),
    *(Ordering("popular", ABOVE, mute) for mute in _MUTE),
    *(Ordering("random", ABOVE, mute) for mute in _MUTE),
    Ordering("tracker", ABOVE, "sticky", AFTER),
    Ordering("sticky", ABOVE, "amnesiac", BEFORE),
)
POLICIES = (
    "oracle", "tracker", "amnesiac", "sticky", "popular", "random", *_MUTE, *(noisy(d) for d in DOSES[::-1])
)  # fmt: skip
