"""The analysis plan: what was declared before the numbers were seen."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, Settings
from crs_lib.stats.groups import METHODS


def _pair(pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list | tuple) or len(set(map(str, pair))) != 2 or len(pair) != 2:
        raise InputError(f"contrast {pair!r}: expected two different systems, such as [tracker, amnesiac]")
    return str(pair[0]), str(pair[1])


Pair = Annotated[tuple[str, str], PlainValidator(_pair)]
Share = Annotated[float, Field(gt=0, lt=1)]
_FAMILIES = {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}


class Plan(Settings):
    """A declared analysis; the fields are the keys of the plan file.

    ``contrasts`` are the confirmatory pairs (a, b), read as "a against b", on the primary outcome.
    ``families`` names the correction of the confirmatory family and of all other comparisons.
    ``smallest_effect`` is the smallest difference that matters, in units of the primary outcome.
    ``factors`` (such as ``shift_type``) join the system in the mixed model. With ``all_pairs`` no contrast
    was declared: ``contrasts`` are all pairs, and the pairs of each outcome are a family of their own.
    """

    _where = "plan: "

    primary_outcome: str
    contrasts: tuple[Pair, ...]
    smallest_effect: Annotated[float, Field(gt=0)]
    secondary_outcomes: tuple[str, ...] = ()
    families: dict[str, str] = _FAMILIES
    alpha: Share = 0.05
    power: Share = 0.8
    factors: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    system: str = "system"
    scenario: str = "scenario"
    resamples: Annotated[int, Field(ge=1)] = 2000
    permutations: Annotated[int, Field(ge=1)] = 10_000
    seed: int = 0
    all_pairs: bool = False

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The primary outcome and then the secondary ones."""
        return (self.primary_outcome, *self.secondary_outcomes)

    def check(self) -> None:
        """Outcomes are named once, and each family has a correction."""
        for family, method in self.families.items():
            if family not in _FAMILIES or method not in METHODS:
                known = f"{' or '.join(_FAMILIES)} with one of {', '.join(METHODS)}"
                raise InputError(f"plan: families has {family!r} with {method!r}; expected {known}")
        if len(set(self.outcomes)) < len(self.outcomes):
            raise InputError(f"plan: outcomes {self.outcomes}: each may be named once")
        if stray := set(self.lower_is_better) - set(self.outcomes):
            raise InputError(
                f"plan: lower_is_better names {sorted(stray)}, which are no outcomes of the plan"
            )


@safety.reader("a plan of the analysis")
def read_plan(plan: Mapping[str, Any] | Plan) -> Plan:
    """The plan with its defaults filled in and every entry checked.

    Raises InputError for a missing, unknown or unusable key, saying which and what is expected.
    """
    if isinstance(plan, Plan):
        return plan
    read = Plan(**{**plan, "families": _FAMILIES | dict(plan.get("families", {}))})
    if not read.contrasts:
        raise InputError("plan: contrasts is empty; name at least one pair of systems")
    return read
