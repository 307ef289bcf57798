"""Situations that entail a value without naming it: "The kids have just come home" for a family film.

The table is ``prompts/movies/situations.tsv``; half of it is for development (template sets A and C),
half for confirmation (set B).
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np

from crs_lib.simulate.shifts import PlannedShift

EXPLICIT, IMPLICIT, MIXED = "explicit", "implicit", "mixed"
DEGREES: Final = (EXPLICIT, IMPLICIT, MIXED)
SECTIONS = frozenset({"refine", "replace", "switch", "contradict_new"})  # shifts that bring a new constraint
_USES = {"A": "development", "B": "confirmation", "C": "development"}  # by template set


class Situation(NamedTuple):
    """A text, the (field, value) that it entails, what it is for, and why it entails just that value."""

    field: str
    value: str
    use: str
    text: str
    why: str


@cache
def situations() -> tuple[Situation, ...]:
    """All situations, in the order of the table."""
    place = resources.files("crs_lib") / "prompts" / "movies" / "situations.tsv"
    lines = [line for line in place.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return tuple(Situation(**row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def _by_value(templates: str) -> Mapping[tuple[str, str], tuple[Situation, ...]]:
    found: dict[tuple[str, str], tuple[Situation, ...]] = {}
    for one in situations():
        if one.use == _USES[templates]:
            found[one.field, one.value] = (*found.get((one.field, one.value), ()), one)
    return found


def implied(
    shift: PlannedShift, explicitness: str, templates: str, draw: np.random.Generator
) -> Situation | None:
    """The situation that voices one new constraint of a shift; None where the shift is said in plain words.

    ``explicitness`` "implicit" implies wherever the table has a situation for a new constraint, "mixed" in
    half of these shifts. A bridge is always named.
    """
    if explicitness == EXPLICIT or shift.section not in SECTIONS:
        return None
    if explicitness == MIXED and draw.random() < 0.5:
        return None
    known = _by_value(templates)
    options = [one for pair in shift.added.items() if pair != shift.bridge for one in known.get(pair, ())]
    return options[int(draw.integers(len(options)))] if options else None
