"""Conventions by name: every choice that changes a number, declared in one place.

A table carries the name of its convention, so that two ways of counting cannot be confused. A convention with
other settings than a named one has a derived name that says so and can be given back:
``thesis_grounded(gamma=0.5, window=5)``.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, Settings


class TasWeights(NamedTuple):
    """Weights of TAS = α·CC + β·CR − γ·I; all 1 in the thesis."""

    alpha: float = 1.0  # of cross coherence, CC
    beta: float = 1.0  # of context retention, CR
    gamma: float = 1.0  # of interference, I, subtracted


class ItemWeights(NamedTuple):
    """Weights of item-grounded TAS = α·S* + β·N·S − γ·L − δ·copying; α + β = 1 keeps its top at 1.

    γ is small enough that a random film is worth more than silence (docs/validity.md, section 1).
    """

    alpha: float = 0.6  # of corrected satisfaction, S*
    beta: float = 0.4  # of new films that satisfy, N·S
    gamma: float = 0.25  # of leakage, L, subtracted
    delta: float = 0.5  # of copying, subtracted


class CasWeights(NamedTuple):
    """Weights of CAS: recovery rate, speed of recovery, little interference, coherence, retention."""

    recovery: float = 0.25
    delay: float = 0.20
    interference: float = 0.20
    coherence: float = 0.20
    retention: float = 0.15


class Convention(Settings):
    """How dialogues are scored.

    A shift is recovered in text if CC ≥ ``recovery_cc`` or CR ≥ ``recovery_cr`` within ``window`` replies;
    the reply to the shift is number 0. ``undefined``: "rate_zero" gives a session without shifts the rate 0
    and leaves a delay without recovery missing; "zero" makes both 0, and 0 is the fastest recovery.
    """

    name: Annotated[str, Field(description="name of the convention")] = "default"
    extractor: Annotated[str, Field(description="finds the concepts of a text; none if empty")] = "words"
    empty: Annotated[
        Literal["skip", "zero", "one"],
        Field(description="value of a turn in which neither side names a concept; skip counts it apart"),
    ] = "skip"
    clip: Annotated[bool, Field(description="TAS of a turn is cut to [0, 1]")] = False
    window: Annotated[int, Field(ge=1, description="replies within which a shift is recovered")] = 3
    within_segment: Annotated[bool, Field(description="recovery ends at the next shift")] = True
    recovery_cc: Annotated[float, Field(ge=0, le=1, description="cross coherence that recovers a shift")] = (
        0.35
    )
    recovery_cr: Annotated[
        float, Field(ge=0, le=1, description="context retention that recovers a shift")
    ] = 0.65
    tas: Annotated[TasWeights, Field(description="weights of TAS")] = TasWeights()
    items: Annotated[ItemWeights, Field(description="weights of item-grounded TAS")] = ItemWeights()
    cas: Annotated[CasWeights, Field(description="weights of CAS")] = CasWeights()
    copy_orders: Annotated[tuple[int, ...], Field(description="n-gram orders of copying")] = (3, 4)
    scorer: Annotated[
        Literal["items", "grounded", "legacy"], Field(description="ours, or a version of the thesis's")
    ] = "items"
    catalog: Annotated[
        Literal["cleaned", "thesis"], Field(description="whose cleaning the concepts come from")
    ] = "cleaned"
    shift_source: Annotated[
        Literal["log", "similarity"], Field(description="the log's shifts, or those of a detector")
    ] = "log"
    undefined: Annotated[
        Literal["missing", "rate_zero", "zero"],
        Field(description="a rate without shifts, and a delay without recovery"),
    ] = "missing"
    similarity: Annotated[str, Field(description="similarity of texts, where one is used")] = ""
    topics: Annotated[str, Field(description="topic extractor, where one is used")] = ""

    def parameters(self) -> dict[str, Any]:
        """The convention as plain data, for manifests and tables."""
        weights = {name: getattr(self, name)._asdict() for name in ("tas", "items", "cas")}
        return self.values() | weights


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


_TAS, _CAS = TasWeights._fields, CasWeights._fields
_TIMES = ("window", "recovery_cc", "recovery_cr")
# The settings of a convention that may be set anew, by the scorer that uses them.
KNOBS: Mapping[str, tuple[str, ...]] = {
    "items": (*_TAS, *_CAS, *_TIMES, "extractor"),
    "grounded": (*_TAS, *_TIMES, "extractor", "similarity"),
    "legacy": (*_CAS, "similarity", "topics"),
}
_DERIVED = re.compile(r"(?P<base>\w+)\((?P<knobs>[^()]*)\)")


def get(name: str) -> Convention:
    """The convention of a name, also of a derived one; InputError with a suggestion for an unknown one."""
    found = _DERIVED.fullmatch(name.strip())
    if found is None:
        return _named(name)
    base, knobs = _named(found["base"]), dict[str, Any]()
    for part in filter(None, (part.strip() for part in found["knobs"].split(","))):
        knob, sign, value = (side.strip() for side in part.partition("="))
        if not sign or not value:
            raise InputError(f"convention {name!r}: {part!r} is no setting; expected e.g. gamma=0.5")
        knobs[knob] = _read(knob, value)
    return derived(base, knobs)


def checked(name: str) -> str:
    """The name of a convention as it is printed; InputError as :func:`get`."""
    return get(name).name


def derived(base: Convention, knobs: Mapping[str, Any]) -> Convention:
    """The convention with other settings, named after what differs from the named one that it rests on.

    ``knobs`` are names of ``KNOBS`` with their values. Raises InputError with a suggestion for an unknown
    name, for one that the convention does not use, and for a value out of range.
    """
    every = tuple(dict.fromkeys(name for names in KNOBS.values() for name in names))
    for name in knobs:
        if name not in every:
            raise InputError(
                f"unknown setting {name!r} of convention {base.name!r}{did_you_mean(name, every)} "
                f"(known: {', '.join(KNOBS[base.scorer])})"
            )
        if name not in KNOBS[base.scorer]:
            raise InputError(
                f"{name} is {knobs[name]!r}, but convention {base.name!r} does not use it; leave it out"
            )
        if name in (*_TAS, *_CAS) and not (isinstance(knobs[name], int | float) and knobs[name] >= 0):
            raise InputError(f"{name} is {knobs[name]!r}; give a number >= 0")
    plain = {name: value for name, value in knobs.items() if name not in (*_TAS, *_CAS)}
    weights: dict[str, Any] = {}
    for group, names in (("tas", _TAS), ("cas", _CAS)):
        given = {name: value for name, value in knobs.items() if name in names}
        weights[group] = getattr(base, group)._replace(**given)
    made = base.changed(**plain, **weights)
    return made.changed(name=_name(made))


def base_of(name: str) -> str:
    """The named convention that a name rests on: ``thesis_legacy`` of ``thesis_legacy(topics=llm)``."""
    return name.partition("(")[0].strip()


def _named(name: str) -> Convention:
    if name not in CONVENTIONS:
        known = ", ".join(CONVENTIONS)
        raise InputError(f"unknown convention {name!r}{did_you_mean(name, CONVENTIONS)} (known: {known})")
    return CONVENTIONS[name]


def _name(rule: Convention) -> str:
    base = CONVENTIONS[base_of(rule.name)]
    now, before = _values(rule), _values(base)
    differ = [f"{knob}={now[knob]}" for knob in KNOBS[rule.scorer] if now[knob] != before[knob]]
    return f"{base.name}({', '.join(differ)})" if differ else base.name


def _values(rule: Convention) -> dict[str, Any]:
    values = {name: getattr(rule, name) for name in (*_TIMES, "extractor", "similarity", "topics")}
    values |= rule.tas._asdict() | rule.cas._asdict()
    return {name: float(v) if name in (*_TAS, *_CAS) else v for name, v in values.items()}


def _read(knob: str, text: str) -> Any:
    """A value of a derived name: a number where the setting is one."""
    if knob in ("extractor", "similarity", "topics"):
        return text
    try:
        number = float(text)
    except ValueError as error:
        raise InputError(f"setting {knob!r} is {text!r}; expected a number") from error
    if not math.isfinite(number):
        raise InputError(f"setting {knob!r} is {text!r}; expected a finite number")
    return int(number) if knob == "window" and number.is_integer() else number
