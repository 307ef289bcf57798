"""The other arms of a run: replies to straight and fresh users, by the shift that they mirror."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import NDArray

from crs_lib import simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import costs
from crs_lib.metrics.records import NONE, Text
from crs_lib.simulate.config import FAILED_ARM
from crs_lib.simulate.scenarios import NO_SHIFT, STRAIGHT, WINDOWS

_FEWEST = 10  # scenarios in each order
_ALIKE = 1e-12
_ALPHA = 0.05


def runs_of(run: str) -> dict[str, str]:
    """The hashes of the dialogues of a run's further arms, by arm, those of failed sessions among them; none
    of a run that has but its own.
    """
    outputs = simulate.run_named(run).entry("simulate").get("outputs", {})
    hashes = {}
    for arm in (*WINDOWS, FAILED_ARM):
        file = simulate.dialogue_file(arm)
        if file in outputs:
            hashes[arm] = str(outputs[file])
    return hashes


def dialogues_of(run: str) -> Iterator[Dialogue]:
    """The dialogues of the further arms of a run, failed sessions among them."""
    for arm in runs_of(run):
        yield from simulate.iter_dialogues(run, arm)


def gains_of(windows: Iterable[Dialogue], scorer: Scorer) -> ArmGains:
    """The replies to straight and fresh users by their shift and by arm; ``windows`` are their dialogues, and
    whole sessions among them are passed over.
    """
    gains: dict[tuple[str, str, int], dict[str, list[costs.WindowReply]]] = {}
    unread = Text((), NONE)  # no gain needs the concepts of a text
    for dialogue in windows:
        log = dialogue.extra
        mirrored = log.get("of", {"arm": NO_SHIFT})
        if mirrored["arm"] == NO_SHIFT:
            continue
        turn = int(mirrored["turn"])
        turns = scorer.prepare(dialogue, [unread] * len(dialogue.turns)).turns
        session = str(mirrored["session_id"])
        arms = gains.setdefault((dialogue.model_name, session, turn), {})
        first = log.get("first")
        if log["arm"] == STRAIGHT:
            arm = costs.arm_of(mirrored.get("reading", ""))
            matched = mirrored.get("matched")
            arms[arm] = costs.window_replies(turns[turn - 1 :], first, matched)
        else:
            arms[costs.FRESH] = costs.window_replies(turns, first)
    return gains


class Memory(NamedTuple):
    """What a system's costs say of memory across conversations: how much less it loses (``saved``, in gain)
    where another user of the scenario was heard before the session, its z and one-sided p, the p times the
    systems tested, and the scenarios.
    """

    system: str
    saved: float
    z: float
    p: float
    n_before: int
    n_after: int
    p_adjusted: float = math.nan

    @property
    def remembers(self) -> bool:
        """Whether a memory is shown."""
        return self.p_adjusted < _ALPHA


def memory(shifts: pd.DataFrame) -> list[Memory]:
    """The order test: arms are held in random order, so that hearing another user of a scenario first changes
    nothing for a system without memory.

    Parameters
    ----------
    shifts : pandas.DataFrame
        The table ``shifts`` of a run; its primary windows count.

    Returns
    -------
    list of Memory
        One a system. Costs are adjusted by those of the other systems at the scenario; p is that of Welch's t
        under permuted orders (randomisation test, 4,999 draws), NaN below ten scenarios on a side and
        where no cost varies. It is one-sided, as adjusting by a system with memory turns the others' sign.
    """
    windows = shifts[shifts["primary"] & shifts["other_arms"].ne("")]
    windows = windows.dropna(subset=["shift_cost"])
    costs_by_system = windows.set_index(["session_id", "model"])["shift_cost"].unstack()  # noqa: PD010
    order = windows.drop_duplicates("session_id").set_index("session_id")["other_arms"]
    results = []
    for system in costs_by_system:
        own = costs_by_system[system].dropna()
        others = costs_by_system.drop(columns=system).mean(axis=1)
        adjusted = _adjusted(own, others.reindex(own.index))
        is_before = order.reindex(own.index).eq(costs.BEFORE).to_numpy()
        before = adjusted[is_before]
        after = adjusted[~is_before]
        z, p = _welch(before, after)
        saved = math.nan
        if len(before) and len(after):
            saved = float(after.mean() - before.mean())
        results.append(Memory(str(system), saved, z, p, len(before), len(after)))
    n_tested = sum(not math.isnan(result.p) for result in results)
    adjusted_results = []
    for result in results:
        p_adjusted = min(1.0, result.p * n_tested)
        adjusted_results.append(result._replace(p_adjusted=p_adjusted))
    return adjusted_results


def _adjusted(own: pd.Series, others: pd.Series) -> NDArray[np.float64]:
    """The costs of a system less what the others' costs at the same scenarios predict."""
    values = np.asarray(own, dtype=float)
    beside = np.asarray(others.fillna(others.mean()), dtype=float)
    if np.isnan(beside).any() or np.ptp(beside) < _ALIKE:
        return values
    slope = float(np.polyfit(beside, values, 1)[0])
    return np.asarray(values - slope * (beside - beside.mean()))


def _welch(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float]:
    """Welch's t of after − before, and its p under permutation; NaN where there is too little to test."""
    untested = (math.nan, math.nan)
    if min(len(before), len(after)) < _FEWEST:
        return untested
    if np.ptp([*before, *after]) < _ALIKE:
        return untested
    draws = np.random.default_rng(0)
    method = scipy.stats.PermutationMethod(n_resamples=4_999, rng=draws)
    test = scipy.stats.ttest_ind(after, before, equal_var=False, method=method, alternative="greater")
    return float(test.statistic), float(test.pvalue)


def memory_sentence(tests: Sequence[Memory]) -> str:
    """What the order test says of a run in one sentence; a warning where a system's p, times the systems
    tested, is below .05. Empty where no order was logged.
    """
    tested = [test for test in tests if not math.isnan(test.p)]
    if not tests:
        return ""
    parts = []
    for test in tested:
        if test.remembers:
            parts.append(f"{test.system} (gain {test.saved:+.2f}, z = {test.z:.1f})")
    if parts:
        dependence = "costs depend on whether another user of the scenario was heard before"
        return f"warning: memory across conversations: {dependence}: {', '.join(parts)}"
    if not tested:
        return f"memory across conversations: not tested, fewer than {_FEWEST} scenarios in each order"
    largest = max(test.z for test in tested)
    n = max(test.n_before + test.n_after for test in tested)
    return f"memory across conversations: none seen (z at most {largest:.1f}, n = {n})"
