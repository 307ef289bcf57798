"""The values of an outcome that tests can use, and tests that may be impossible."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.design import Design, levels, numbers
from crs_lib.stats.groups import one_way_anova, welch_anova
from crs_lib.stats.paired import friedman, rm_anova

APART = "systems met different users"
Test = Callable[[pd.DataFrame, Design], pd.DataFrame]
OMNIBUS: dict[str, Test] = {
    "one-way ANOVA": one_way_anova,
    "Welch ANOVA": welch_anova,
    "repeated-measures ANOVA": rm_anova,
    "Friedman": friedman,
}


def averaged(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """One row for each system and scenario: the mean of its sessions that have a value."""
    keys = [design.system, design.scenario]
    tidy = frame[keys].assign(**{design.value: numbers(frame, design.value)})
    return tidy.groupby(keys, observed=True, sort=False)[design.value].mean().reset_index()


def usable(frame: pd.DataFrame, design: Design) -> tuple[pd.DataFrame, str]:
    """The values of systems with at least two, sessions of a scenario averaged; who is left out, in words."""
    means = averaged(frame, design)
    counts = means.groupby(design.system, observed=True)[design.value].transform("count")
    values = means[counts > 1].reset_index(drop=True)
    present = set(values[design.system])
    absent = [str(name) for name in levels(frame[design.system]) if name not in present]
    left_out = ""
    if absent:
        left_out = f"left out, with fewer than 2 values: {', '.join(absent)}"
    return values, left_out


def possible(values: pd.DataFrame, design: Design, pairs: Iterable[tuple[Any, Any]]) -> Design:
    """The design with those of the pairs that have at least two scenarios in common."""
    systems = set(values[design.system])
    present = [pair for pair in pairs if set(pair) <= systems]
    if not present or design.independent(values):
        return design.changed(pairs=present)
    shared = []
    for pair in design.changed(pairs=present).differences(values, least=0):
        if len(pair.both) > 1:
            shared.append((pair.a, pair.b))
    return design.changed(pairs=shared)


def attempt(test: Test, values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The table with an empty ``note``, or one row with the reason why it could not be made."""
    try:
        return test(values, design).assign(note="")
    except InputError as error:
        return pd.DataFrame({"note": [str(error)]})


def omnibus(name: str, values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """A test of all systems by its name, or a row with the reason why it could not be made."""
    return attempt(OMNIBUS[name], values, design).assign(test=name)


def pairing(values: pd.DataFrame, design: Design) -> str:
    """What ignoring that systems met the same users changes, in words; empty where no scenario is shared."""
    correlations, ratios = [], []
    for pair in design.differences(values, least=0):
        if len(pair.both) > 2 and np.ptp(pair.values) > 0 and np.ptp(pair.both, axis=0).all():
            correlations.append(np.asarray(np.corrcoef(pair.both.T))[0, 1])
            spread = np.sum(np.var(pair.both, axis=0, ddof=1))
            ratios.append(np.sqrt(spread / np.var(pair.values, ddof=1)))
    if not ratios:
        return ""
    within = f"correlation within scenarios {np.mean(correlations):.2f}"
    beside = f"intervals of differences {np.mean(ratios):.2f} times as wide as with the pairs"
    return f"ignores that systems met the same users: {within}, {beside}"
