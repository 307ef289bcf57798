"""Voicing: the values that the words of a planned turn must name, and the check that they name them."""

from crs_lib.core.errors import RunError
from crs_lib.core.text import shorten
from crs_lib.grounding.grounder import Grounder
from crs_lib.simulate.scenarios import OPENING, REFINEMENT, PlanStep
from crs_lib.simulate.shifts import SHIFTS


def must_voice(step: PlanStep, act: str) -> list[tuple[str, str]]:
    """The (field, value) pairs that the words of a turn must name; empty where the plan changes nothing."""
    if step.shift is not None:
        return SHIFTS.create(step.kind).to_voice(step.shift)
    if act == OPENING:
        return list(step.state.constraints.items())
    if act == REFINEMENT:
        return [(step.state.focus, step.state.constraints[step.state.focus])]
    return []


def check(grounder: Grounder, step: PlanStep, act: str, text: str) -> None:
    """Raise RunError if a value that a turn must name is not found in its words, read as systems read them.

    A plan that its words do not voice would be scored against a change that nobody could hear.
    """
    needed = must_voice(step, act)
    if not needed:
        return
    found = {match.code for match in grounder.audit(text) if not match.rejected}
    for field, value in needed:
        if grounder.catalog.code(field, value) not in found:
            turn = f"shift {step.kind!r}" if step.shift else f"act {act!r}"
            raise RunError(
                f"{turn} at turn {step.turn} does not voice {field} {value!r}: {shorten(text, 200)!r}; mend "
                f"the phrases of {field!r} in catalog/fields.py, or the templates [{act}] in user.wording"
            )
