"""Conventions by name: every choice that changes a number, declared in one place.

A table carries the name of its convention, so that two ways of counting cannot be confused.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

EMPTY_RULES = ("skip", "zero", "one")


@dataclass(frozen=True)
class TasWeights:
    """Weights of TAS = α·CC + β·CR − γ·I; all 1 in the thesis."""

    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = 1.0


@dataclass(frozen=True)
class ItemWeights:
    """Weights of item-grounded TAS = α·S* + β·N·S − γ·L − δ·copying; α + β = 1 keeps its top at 1.

    γ is small enough that a random film is worth more than silence (docs/validity.md, section 1).
    """

    alpha: float = 0.6
    beta: float = 0.4
    gamma: float = 0.25
    delta: float = 0.5


@dataclass(frozen=True)
class CasWeights:
    """Weights of CAS: recovery, speed, little interference, cross coherence, context retention."""

    recovery: float = 0.25
    delay: float = 0.20
    interference: float = 0.20
    coherence: float = 0.20
    retention: float = 0.15


@dataclass(frozen=True)
class Convention:
    """How dialogues are scored.

    ``empty`` is the value of a turn in which neither side names a concept ("skip" leaves it out and
    counts it). A shift is recovered in text if CC ≥ ``recovery_cc`` or CR ≥ ``recovery_cr`` within
    ``window`` replies, the reply to the shift being number 0; ``within_segment`` stops at the next shift.

    ``scorer`` is "items" (ours), "grounded" or "legacy" (the thesis's two versions); ``catalog`` says whose
    cleaning the concepts come from, "cleaned" or "thesis". ``shift_source`` is "log", or "similarity" where
    a shift is whatever a detector takes for one. ``undefined`` is what becomes of a rate without shifts and
    of a delay without recovery: "missing", "rate_zero" (rate 0, delay missing) or "zero" (both 0, and the
    delay 0 counts as the fastest). ``similarity`` and ``topics`` name the text similarity and the topic
    extractor where one is used.
    """

    name: str = "default"
    extractor: str = "words"
    empty: str = "skip"
    clip: bool = False
    window: int = 3
    within_segment: bool = True
    recovery_cc: float = 0.35
    recovery_cr: float = 0.65
    tas: TasWeights = field(default_factory=TasWeights)
    items: ItemWeights = field(default_factory=ItemWeights)
    cas: CasWeights = field(default_factory=CasWeights)
    copy_orders: tuple[int, ...] = (3, 4)
    scorer: str = "items"
    catalog: str = "cleaned"
    shift_source: str = "log"
    undefined: str = "missing"
    similarity: str = ""
    topics: str = ""

    def __post_init__(self) -> None:
        if self.empty not in EMPTY_RULES:
            raise InputError(f"empty rule {self.empty!r} is unknown; give one of {', '.join(EMPTY_RULES)}")
        if self.window < 1:
            raise InputError(f"recovery window is {self.window}; give at least 1 reply")

    def parameters(self) -> dict[str, Any]:
        """The convention as plain data, for manifests and tables."""
        return asdict(self)


_GROUNDED = Convention(
    name="thesis_grounded",
    extractor="embed",
    empty="one",
    clip=True,
    within_segment=False,
    scorer="grounded",
    catalog="thesis",
    undefined="rate_zero",
    similarity="tfidf",
)
_LEGACY = Convention(
    name="thesis_legacy",
    extractor="",
    empty="zero",
    within_segment=False,
    cas=CasWeights(recovery=0.01, delay=0.02, interference=0.02, coherence=0.30, retention=0.15),
    scorer="legacy",
    catalog="thesis",
    shift_source="similarity",
    undefined="zero",
    similarity="tfidf",
    topics="lda",
)
CONVENTIONS: dict[str, Convention] = {
    convention.name: convention for convention in (Convention(), _GROUNDED, _LEGACY)
}


def get(name: str) -> Convention:
    """The convention of a name; InputError with a suggestion for an unknown one."""
    if name not in CONVENTIONS:
        known = ", ".join(CONVENTIONS)
        raise InputError(f"unknown convention {name!r}{did_you_mean(name, CONVENTIONS)} (known: {known})")
    return CONVENTIONS[name]
