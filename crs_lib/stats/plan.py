"""The analysis plan: what was declared before the numbers were seen."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from crs_lib.core import safety
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.stats.groups import METHODS

_REQUIRED = ("primary_outcome", "contrasts", "smallest_effect")


class Plan(NamedTuple):
    """A declared analysis; the fields are the keys of the plan file.

    ``contrasts`` are the confirmatory pairs (a, b), read as "a against b", on the primary outcome.
    ``families`` names the correction of the confirmatory family and of all other comparisons.
    ``smallest_effect`` is the smallest difference that matters, in units of the primary outcome.
    ``factors`` (such as ``shift_type``) join the system in the mixed model. With ``all_pairs`` no contrast
    was declared: ``contrasts`` are all pairs, and the pairs of each outcome are a family of their own.
    """

    primary_outcome: str
    contrasts: tuple[tuple[str, str], ...]
    smallest_effect: float
    secondary_outcomes: tuple[str, ...] = ()
    families: Mapping[str, str] = {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}
    alpha: float = 0.05
    power: float = 0.8
    factors: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    system: str = "system"
    scenario: str = "scenario"
    resamples: int = 2000
    permutations: int = 10_000
    seed: int = 0
    all_pairs: bool = False

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The primary outcome and then the secondary ones."""
        return (self.primary_outcome, *self.secondary_outcomes)


@safety.reader("a plan of the analysis")
def read_plan(plan: Mapping[str, Any] | Plan) -> Plan:
    """The plan with its defaults filled in and every entry checked.

    Raises InputError for a missing, unknown or unusable key, saying which and what is expected.
    """
    if isinstance(plan, Plan):
        return plan
    for key in plan:
        if key not in Plan._fields:
            raise InputError(f"plan key {key!r} is not known{did_you_mean(key, Plan._fields)}")
    absent = [key for key in _REQUIRED if key not in plan]
    if absent:
        raise InputError(f"the plan lacks {', '.join(absent)}; it needs {', '.join(_REQUIRED)}")
    made = dict(plan)
    made["contrasts"] = tuple(_contrast(pair) for pair in plan["contrasts"])
    for key in ("secondary_outcomes", "factors", "lower_is_better"):
        given = plan.get(key, ())
        if isinstance(given, str):
            raise InputError(f"plan key {key!r} is the text {given!r}; expected a list of columns")
        made[key] = tuple(given)
    read = Plan(**{**made, "families": {**Plan._field_defaults["families"], **plan.get("families", {})}})
    _check(read)
    return read


def _contrast(pair: Any) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
        raise InputError(f"contrast {pair!r}: expected two different systems, such as [tracker, amnesiac]")
    return pair[0], pair[1]


def _check(plan: Plan) -> None:
    if not plan.contrasts:
        raise InputError("the plan declares no contrasts; name at least one pair of systems")
    if not plan.smallest_effect > 0:
        raise InputError(f"smallest_effect={plan.smallest_effect!r}: expected a number above 0")
    for key in ("alpha", "power"):
        if not 0 < getattr(plan, key) < 1:
            raise InputError(f"{key}={getattr(plan, key)!r}: expected a number between 0 and 1")
    for family, method in plan.families.items():
        if family not in ("confirmatory", "exploratory") or method not in METHODS:
            raise InputError(
                f"family {family!r} with {method!r}: expected confirmatory or exploratory with one of "
                f"{', '.join(METHODS)}"
            )
    if len(set(plan.outcomes)) < len(plan.outcomes):
        raise InputError(f"outcomes {plan.outcomes}: each may be named once")
    stray = set(plan.lower_is_better) - set(plan.outcomes)
    if stray:
        raise InputError(f"lower_is_better names {sorted(stray)}, which are no outcomes of the plan")
