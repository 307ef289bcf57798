"""The analysis plan: what was declared before the numbers were seen."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, Settings
from crs_lib.stats.design import Range
from crs_lib.stats.estimate import ENOUGH
from crs_lib.stats.groups import METHODS

CONFIRMATORY, EXPLORATORY = "confirmatory", "exploratory"
_FAMILIES = {CONFIRMATORY: "holm", EXPLORATORY: "benjamini_hochberg"}
_NO_RANGES: dict[str, Range] = {}
_COSTS = ("shift_cost", "conversation_cost", "history_cost", "misfit", "delay", "share_lost")


def _pair(pair: Any) -> tuple[str, str]:
    names = [str(name) for name in pair] if isinstance(pair, list | tuple) else []
    if len(names) != 2 or names[0] == names[1]:
        raise InputError(f"contrast {pair!r}: expected two different systems, such as [tracker, amnesiac]")
    return names[0], names[1]


Pair = Annotated[tuple[str, str], PlainValidator(_pair)]
Share = Annotated[float, Field(gt=0, lt=1)]


class Plan(Settings):
    """A declared analysis; the fields are the keys of the plan file."""

    _where = "plan: "

    primary_outcome: Annotated[str, Field(description="the outcome that the contrasts test")]
    contrasts: Annotated[tuple[Pair, ...], Field(description="confirmatory pairs (a, b): a against b")]
    smallest_effect: Annotated[float, Field(gt=0, description="smallest difference that matters")]
    secondary_outcomes: Annotated[tuple[str, ...], Field(description="outcomes tested besides")] = ()
    families: Annotated[dict[str, str], Field(description="correction of each family of tests")] = _FAMILIES
    alpha: Annotated[Share, Field(description="level of the tests")] = 0.05
    power: Annotated[Share, Field(description="chance wanted to find the smallest effect")] = 0.8
    lower_is_better: Annotated[tuple[str, ...], Field(description="outcomes of which less is better")] = ()
    system: Annotated[str, Field(description="column of the system")] = "system"
    scenario: Annotated[str, Field(description="column of the scenario")] = "scenario"
    resamples: Annotated[int, Field(ge=1, description="resamples of the intervals")] = 2000
    seed: Annotated[int, Field(description="seed of the resamples")] = 0
    ability: Annotated[str, Field(description="score below whose floor no cost is compared")] = ""
    able_from: Annotated[float, Field(description="floor of the mean ability")] = 0.1
    costs: Annotated[tuple[str, ...], Field(description="outcomes that only able systems have")] = _COSTS
    fewest: Annotated[int, Field(ge=2, description="scenarios below which no verdict is given")] = ENOUGH
    ranges: Annotated[dict[str, Range], Field(description="range of outcomes: [low, high]")] = _NO_RANGES
    all_pairs: Annotated[bool, Field(description="all pairs, each outcome a family: none declared")] = False

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The primary outcome and then the secondary ones."""
        return (self.primary_outcome, *self.secondary_outcomes)

    def range_of(self, outcome: str) -> Range:
        """The range of an outcome; without limits where the plan names none."""
        return Range(*self.ranges.get(outcome, Range()))

    def check(self) -> None:
        """Outcomes are named once, and each family has a correction."""
        for family, method in self.families.items():
            if family not in _FAMILIES or method not in METHODS:
                expected = f"{' or '.join(_FAMILIES)} with one of {', '.join(METHODS)}"
                raise InputError(f"plan: families has {family!r} with {method!r}; expected {expected}")
        if len(set(self.outcomes)) < len(self.outcomes):
            raise InputError(f"plan: outcomes {self.outcomes}: each may be named once")
        stray = set(self.lower_is_better) - set(self.outcomes)
        if stray:
            raise InputError(
                f"plan: lower_is_better names {sorted(stray)}, which are no outcomes of the plan"
            )


@safety.reader("a plan of the analysis")
def read_plan(plan: Mapping[str, Any] | Plan) -> Plan:
    """The plan with its defaults, every entry checked; InputError for a missing, unknown or unusable key."""
    if isinstance(plan, Plan):
        return plan
    families = _FAMILIES | dict(plan.get("families", {}))
    checked = Plan(**{**plan, "families": families})
    if not checked.contrasts:
        raise InputError("plan: contrasts is empty; name at least one pair of systems")
    return checked
