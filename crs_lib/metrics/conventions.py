"""Convention: every choice that changes a number, declared in one place and known by name. One with other
settings than a named one has a derived name, which can be given back: ``default(gamma=0.5, window=5)``.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from crs_lib.core.errors import InputError, unknown
from crs_lib.core.settings import Field, Registry, Settings

_Share = Annotated[float, Field(ge=0, le=1)]
_Empty = Literal["skip", "zero", "one"]  # skip leaves the turn out and counts it apart
_Undefined = Literal["missing", "rate_zero", "zero"]
_Shifts = Literal["log", "similarity"]
CLEANED = "cleaned"


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
    ``scorer`` names the member of the registry of scorers that computes the tables; ``catalog`` is "cleaned",
    or the name of another cleaning of the raw records.
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
    scorer: Annotated[str, Field(description="computes the tables")] = "items"
    catalog: Annotated[str, Field(description="whose cleaning the concepts come from")] = CLEANED
    shift_source: Annotated[_Shifts, Field(description="the log's shifts, or those of a detector")] = "log"
    undefined: Annotated[_Undefined, Field(description="a rate or delay without shifts")] = "missing"
    similarity: Annotated[str, Field(description="similarity of texts, where one is used")] = ""
    topics: Annotated[str, Field(description="topic extractor, where one is used")] = ""
    alignment: Annotated[_Share, Field(description="agreement from which a reply has the topics")] = 0.65
    shift_similarity: Annotated[_Share, Field(description="similarity below which a text shifts")] = 0.55
    shift_jaccard: Annotated[_Share, Field(description="overlap of topics below which one shifts")] = 0.35

    def parameters(self) -> dict[str, Any]:
        """The convention as plain data, for manifests and tables."""
        parameters = self.values()
        for name in ("tas", "items", "cas"):
            parameters[name] = getattr(self, name)._asdict()
        return parameters


_TAS, _CAS = TasWeights._fields, CasWeights._fields
_NAMES = ("extractor", "similarity", "topics")
_PLAIN = ("window", "recovery_cc", "recovery_cr", "alignment", "shift_similarity", "shift_jaccard", *_NAMES)
_DERIVED = re.compile(r"(?P<base>\w+)\((?P<settings>[^()]*)\)")

# The named conventions. Facts: ``knobs``, the settings that may be set anew, in the order of a derived name;
# ``outcomes``, the metrics that its tables and figures show, the primary one first (none: the headline).
CONVENTIONS: Registry[Convention] = Registry("convention")


@CONVENTIONS.register("default", place=0, knobs=(*_TAS, *_CAS, *_PLAIN[:3], "extractor"))
def _default() -> Convention:
    """Credit only through the items that a reply recommends, chance taken off."""
    return Convention()


def get(name: str) -> Convention:
    """The convention of a name, also of a derived one; InputError with a suggestion for an unknown one.

    Examples
    --------
    >>> get("default(window=5)").window
    5
    """
    match = _DERIVED.fullmatch(name.strip())
    if match is None:
        return _named(name)
    knobs = {}
    for part in re.findall(r"[^\s,][^,]*", match["settings"]):
        knob, _, value = part.partition("=")
        if not value.strip():
            raise InputError(f"convention {name!r}: {part!r} is no setting; expected e.g. gamma=0.5")
        knobs[knob.strip()] = _read(knob.strip(), value.strip())
    return derived(_named(match["base"]), knobs)


def _named(name: str) -> Convention:
    names = CONVENTIONS.names()
    if name not in names:
        raise unknown("convention", name, names)
    return CONVENTIONS.get(name).make()


def checked(name: str) -> str:
    """The name of a convention as it is printed; InputError as :func:`get`."""
    return get(name).name


def knobs_of(name: str) -> tuple[str, ...]:
    """The settings of a convention that may be set anew."""
    knobs: tuple[str, ...] = CONVENTIONS.get(base_of(name)).facts["knobs"]
    return knobs


def outcomes_of(name: str) -> tuple[str, ...]:
    """The metrics that a convention's tables and figures show, the primary one first; none: the headline."""
    base = base_of(name)
    if base not in CONVENTIONS:
        return ()
    return tuple(CONVENTIONS.get(base).facts.get("outcomes", ()))


def derived(base: Convention, knobs: Mapping[str, Any]) -> Convention:
    """The convention with other settings (``knobs``, of :func:`knobs_of`), named after what differs from the
    named one. Raises InputError for an unknown or unused name, and for a value out of range.
    """
    used = knobs_of(base.name)
    for name, value in knobs.items():
        _check(base, used, name, value)
    changes: dict[str, Any] = {name: value for name, value in knobs.items() if name in _PLAIN}
    changes["tas"] = base.tas._replace(**{name: knobs[name] for name in _TAS if name in knobs})
    changes["cas"] = base.cas._replace(**{name: knobs[name] for name in _CAS if name in knobs})
    convention = base.changed(**changes)
    root = _named(base_of(base.name))
    now, before = _values(convention), _values(root)
    differences = [f"{knob}={now[knob]}" for knob in used if now[knob] != before[knob]]
    if not differences:
        return convention.changed(name=root.name)
    return convention.changed(name=f"{root.name}({', '.join(differences)})")


def _check(base: Convention, used: tuple[str, ...], name: str, value: Any) -> None:
    """Raise InputError where a setting is unknown, unused, or no weight."""
    if name not in (*_TAS, *_CAS, *_PLAIN):
        raise unknown(f"setting of convention {base.name!r}", name, used)
    if name not in used:
        raise InputError(f"{name} is {value!r}; {base.name!r} does not use it: leave it out")
    is_weight = name in (*_TAS, *_CAS)
    if is_weight and not (isinstance(value, int | float) and value >= 0):
        raise InputError(f"{name} is {value!r}; give a number >= 0")


def _values(convention: Convention) -> dict[str, Any]:
    """All settings that may be set anew, weights as floats."""
    values = {}
    for weights in (convention.tas, convention.cas):
        for name, weight in weights._asdict().items():
            values[name] = float(weight)
    for name in _PLAIN:
        values[name] = getattr(convention, name)
    return values


def base_of(name: str) -> str:
    """The named convention that a name rests on: ``default`` of ``default(window=5)``."""
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
    if knob == "window" and number.is_integer():
        return int(number)
    return number
