"""Conventions by name: every choice that changes a number, declared in one place. One with other settings
than a named one has a derived name, which can be given back: ``thesis_grounded(gamma=0.5, window=5)``.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from crs_lib.core.errors import InputError, unknown
from crs_lib.core.settings import Field, Settings

_Share = Annotated[float, Field(ge=0, le=1)]
_Empty = Literal["skip", "zero", "one"]  # skip leaves the turn out and counts it apart
_Undefined = Literal["missing", "rate_zero", "zero"]
_Scorer = Literal["items", "grounded", "legacy"]
_Cleaning = Literal["cleaned", "thesis"]
_Shifts = Literal["log", "similarity"]


class TasWeights(NamedTuple):
    """Weights of TAS = α·CC + β·CR − γ·I; all 1 in the thesis."""

    alpha: float = 1.0  # of cross coherence, CC
    beta: float = 1.0  # of context retention, CR
    gamma: float = 1.0  # of interference, I, subtracted


class ItemWeights(NamedTuple):
    """Weights of item-grounded TAS = α·S* + β·N·S − γ·L − δ·copying; α + β = 1 keeps its top at 1. γ is small
    enough that a random film is worth more than silence (docs/validity.md, section 1).
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
    """How dialogues are scored. A shift is recovered in text if CC ≥ ``recovery_cc`` or CR ≥ ``recovery_cr``
    within ``window`` replies, its own first. ``undefined``: "rate_zero" gives a session without shifts the
    rate 0 and leaves a delay without recovery missing; "zero" makes both 0, and 0 is the fastest recovery.
    """

    name: Annotated[str, Field(description="name of the convention")] = "default"
    extractor: Annotated[str, Field(description="finds the concepts of a text; none if empty")] = "words"
    empty: Annotated[_Empty, Field(description="a turn in which neither side names a concept")] = "skip"
    clip: Annotated[bool, Field(description="TAS of a turn is cut to [-1, 1]")] = False
    window: Annotated[int, Field(ge=1, description="replies within which a shift is recovered")] = 3
    within_segment: Annotated[bool, Field(description="recovery ends at the next shift")] = True
    recovery_cc: Annotated[_Share, Field(description="cross coherence that recovers a shift")] = 0.35
    recovery_cr: Annotated[_Share, Field(description="context retention that recovers a shift")] = 0.65
    tas: Annotated[TasWeights, Field(description="weights of TAS")] = TasWeights()
    items: Annotated[ItemWeights, Field(description="weights of item-grounded TAS")] = ItemWeights()
    cas: Annotated[CasWeights, Field(description="weights of CAS")] = CasWeights()
    copy_orders: Annotated[tuple[int, ...], Field(description="n-gram orders of copying")] = (3, 4)
    scorer: Annotated[_Scorer, Field(description="ours, or a version of the thesis's")] = "items"
    catalog: Annotated[_Cleaning, Field(description="whose cleaning the concepts come from")] = "cleaned"
    shift_source: Annotated[_Shifts, Field(description="the log's shifts, or those of a detector")] = "log"
    undefined: Annotated[_Undefined, Field(description="a rate or delay without shifts")] = "missing"
    similarity: Annotated[str, Field(description="similarity of texts, where one is used")] = ""
    topics: Annotated[str, Field(description="topic extractor, where one is used")] = ""
    alignment: Annotated[_Share, Field(description="agreement from which a reply has the topics")] = 0.65
    shift_similarity: Annotated[_Share, Field(description="similarity below which a text shifts")] = 0.55
    shift_jaccard: Annotated[_Share, Field(description="overlap of topics below which one shifts")] = 0.35

    def parameters(self) -> dict[str, Any]:
        """The convention as plain data, for manifests and tables."""
        return self.values() | {name: getattr(self, name)._asdict() for name in ("tas", "items", "cas")}


_GROUNDED = Convention(
    name="thesis_grounded", extractor="embed", empty="one", clip=True, within_segment=False,
    scorer="grounded", catalog="thesis", undefined="rate_zero", similarity="tfidf",
)  # fmt: skip
_LEGACY = Convention(
    name="thesis_legacy", extractor="", empty="zero", within_segment=False, scorer="legacy", catalog="thesis",
    shift_source="similarity", undefined="zero", similarity="tfidf", topics="lda",
    cas=CasWeights(recovery=0.01, delay=0.02, interference=0.02, coherence=0.30, retention=0.15),
)  # fmt: skip
CONVENTIONS = {convention.name: convention for convention in (Convention(), _GROUNDED, _LEGACY)}


_WEIGHTS: dict[str, tuple[str, ...]] = {"tas": TasWeights._fields, "cas": CasWeights._fields}
_TAS, _CAS = _WEIGHTS.values()
_LIMITS = ("alignment", "shift_similarity", "shift_jaccard")
_TIMES = ("window", "recovery_cc", "recovery_cr", *_LIMITS)
_NAMES = ("extractor", "similarity", "topics")
# The settings of a convention that may be set anew, by the scorer that uses them.
KNOBS: Mapping[str, tuple[str, ...]] = {
    "items": (*_TAS, *_CAS, *_TIMES[:3], "extractor"),
    "grounded": (*_TAS, *_TIMES[:3], "extractor", "similarity"),
    "legacy": (*_CAS, "similarity", "topics", *_LIMITS),
}
_DERIVED = re.compile(r"(?P<base>\w+)\((?P<knobs>[^()]*)\)")


def get(name: str) -> Convention:
    """The convention of a name, also of a derived one; InputError with a suggestion for an unknown one."""
    found = _DERIVED.fullmatch(name.strip())
    named = found["base"] if found else name
    if named not in CONVENTIONS:
        raise unknown("convention", named, CONVENTIONS)
    knobs = dict[str, Any]()
    for part in re.findall(r"[^\s,][^,]*", found["knobs"] if found else ""):
        knob, _, value = (side.strip() for side in part.partition("="))
        if not value:
            raise InputError(f"convention {name!r}: {part!r} is no setting; expected e.g. gamma=0.5")
        knobs[knob] = _read(knob, value)
    return derived(CONVENTIONS[named], knobs)


def checked(name: str) -> str:
    """The name of a convention as it is printed; InputError as :func:`get`."""
    return get(name).name


def derived(base: Convention, knobs: Mapping[str, Any]) -> Convention:
    """The convention with other settings (``knobs``, names of ``KNOBS``), named after what differs from the
    named one. Raises InputError for an unknown or unused name, and for a value out of range.
    """
    used = KNOBS[base.scorer]
    for name, value in knobs.items():
        if name not in _values(base):
            raise unknown(f"setting of convention {base.name!r}", name, used)
        if name not in used:
            raise InputError(f"{name} is {value!r}; {base.name!r} does not use it: leave it out")
        if name in (*_TAS, *_CAS) and not (isinstance(value, int | float) and value >= 0):
            raise InputError(f"{name} is {value!r}; give a number >= 0")
    plain = {name: value for name, value in knobs.items() if name in (*_TIMES, *_NAMES)}
    weights = {
        group: getattr(base, group)._replace(**{name: knobs[name] for name in names if name in knobs})
        for group, names in _WEIGHTS.items()
    }
    made, named = base.changed(**plain, **weights), CONVENTIONS[base_of(base.name)]
    now, before = _values(made), _values(named)
    differ = ", ".join(f"{knob}={now[knob]}" for knob in used if now[knob] != before[knob])
    return made.changed(name=f"{named.name}({differ})" if differ else named.name)


def _values(rule: Convention) -> dict[str, Any]:
    """All settings that may be set anew, weights as floats."""
    weights = rule.tas._asdict() | rule.cas._asdict()
    plain = {name: getattr(rule, name) for name in (*_TIMES, *_NAMES)}
    return plain | {name: float(value) for name, value in weights.items()}


def base_of(name: str) -> str:
    """The named convention that a name rests on: ``thesis_legacy`` of ``thesis_legacy(topics=llm)``."""
    return name.partition("(")[0].strip()


def _read(knob: str, text: str) -> Any:
    """A value of a derived name: a number where the setting is one."""
    if knob in _NAMES:
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"setting {knob!r} is {text!r}; expected a finite number")
    return int(number) if knob == "window" and number.is_integer() else number
