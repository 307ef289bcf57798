"""The turns at which the users of a batch shift, at random, and the types of shifts, in equal numbers.

Source: docs/metrics.md, section 5.
"""

from collections import Counter
from functools import lru_cache

import numpy as np

from crs_lib.core import rng
from crs_lib.simulate.shifts import SHIFTS, StateShape

_FIRST_SHIFT, _GAP = (4, 6), (3, 5)  # inclusive bounds, in turns
_TURNS_AFTER = 2  # a shift is planned only where so many turns follow it


def refinements(seed: int, session: int) -> int:
    """The number of constraints that a user adds to the first before anything shifts: 1 or 2."""
    return int(rng.stream(seed, "movies", session, "refinements").integers(1, 3))


def shift_turns(seed: int, session: int, n_turns: int) -> list[int]:
    """The turns at which a session shifts: random first turn, random gaps, none near the end."""
    draw = rng.stream(seed, "movies", session, "shift-turns")
    turns, turn = [], int(draw.integers(_FIRST_SHIFT[0], _FIRST_SHIFT[1] + 1))
    while turn + _TURNS_AFTER <= n_turns:
        turns.append(turn)
        turn += int(draw.integers(_GAP[0], _GAP[1] + 1))
    return turns


def type_order(seed: int, session: int, types: tuple[str, ...], n_turns: int) -> list[str]:
    """The types of a session's shifts, in order.

    Sessions are planned in blocks of as many as there are types, turn by turn: each shift gets the type
    that came least often in the block so far, of those that can happen there (``ShiftType.allows``); draws
    break ties. A longer session begins like a shorter one.
    """
    if not types:
        return []
    block, row = divmod(session, len(types))
    return list(_block(seed, block, types, n_turns)[row])


@lru_cache(maxsize=256)
def _block(seed: int, block: int, types: tuple[str, ...], n_turns: int) -> list[list[str]]:
    """The types of the shifts of every session of a block."""
    sessions = range(block * len(types), (block + 1) * len(types))
    draw = rng.stream(seed, "movies", "shift-types", block)
    order = draw.permutation(len(types)).tolist()
    shapes = [StateShape(1 + refinements(seed, session)) for session in sessions]
    due = [
        (turn, order[row], row) for row, s in enumerate(sessions) for turn in shift_turns(seed, s, n_turns)
    ]
    given: Counter[str] = Counter()
    kinds: list[list[str]] = [[] for _ in sessions]
    for _, _, row in sorted(due):
        kind = _rarest(types, shapes[row], given, draw)
        given[kind] += 1
        shapes[row] = SHIFTS.create(kind).leaves(shapes[row])
        kinds[row].append(kind)
    return kinds


def _rarest(types: tuple[str, ...], shape: StateShape, given: Counter[str], draw: np.random.Generator) -> str:
    """The type given least often that can happen; where none can, of all."""
    options = [kind for kind in types if SHIFTS.create(kind).allows(shape)] or list(types)
    drawn = (options[place] for place in draw.permutation(len(options)).tolist())
    rarest: str = min(drawn, key=lambda kind: given[kind])
    return rarest
