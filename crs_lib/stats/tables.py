"""The tables of the thesis: whether any system differs, and which pairs do, on every outcome.

Beside them what they and the battery share: the values that tests can use, and tests that may be impossible.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.design import Design, levels, numbers
from crs_lib.stats.groups import adjust, independent_pairs, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.paired import friedman, mean_tests, rm_anova, wilcoxon_pairs

_ANOVA = "outcome test statistic df1 df2 p epsilon_gg p_gg kendall_w omega_squared n n_missing note".split()
_TUKEY = """outcome a b diff low high p paired_diff paired_low paired_high p_wilcoxon p_holm n_a n_b n_pairs
    n_missing note""".split()
_INDEPENDENT = """outcome a b diff low high p welch_low welch_high p_welch p_games_howell p_holm
    n_a n_b n_missing note""".split()
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
    tidy = frame[keys].copy()
    tidy[design.value] = numbers(frame, design.value)
    return tidy.groupby(keys, observed=True, sort=False, as_index=False).mean()


def usable_values(frame: pd.DataFrame, design: Design) -> tuple[pd.DataFrame, str]:
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


def with_common_scenarios(values: pd.DataFrame, design: Design, pairs: Iterable[tuple[Any, Any]]) -> Design:
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


def table_or_note(test: Test, values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The table with an empty ``note``, or one row with the reason why it could not be made."""
    try:
        return test(values, design).assign(note="")
    except InputError as error:
        return pd.DataFrame({"note": [str(error)]})


def omnibus(name: str, values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """A test of all systems by its name, or a row with the reason why it could not be made."""
    return table_or_note(OMNIBUS[name], values, design).assign(test=name)


def anova_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Whether any system differs, a row for each outcome and test.

    Parameters
    ----------
    frame : DataFrame
        A row a session: ``system``, ``scenario``, a column an outcome.
    outcomes : sequence of str
        The columns to test.

    Returns
    -------
    DataFrame
        One-way ANOVA (the thesis's), repeated-measures ANOVA and Friedman's, or one-way and Welch's where
        systems met different users. ``n`` counts sessions, or complete scenarios. ``note`` says why a test
        has no numbers, and what the thesis's ignores.
    """
    apart = Design().independent(frame)
    others = ["Welch ANOVA"] if apart else ["repeated-measures ANOVA", "Friedman"]
    rows = []
    for outcome in outcomes:
        design = Design(value=outcome)
        values, left_out = usable_values(frame, design)
        for name in ("one-way ANOVA", *others):
            row: dict[str, object] = {"n": len(values), "n_missing": len(frame) - len(values)}
            row.update(omnibus(name, values, design).iloc[0])
            note = str(row["note"])
            if not note and pd.isna(row["statistic"]):
                note = "no value varies"
            elif not note and name == "one-way ANOVA":
                note = f"{APART}: independent samples" if apart else _note_on_pairing(values, design)
            row["outcome"] = outcome
            row["note"] = "; ".join(filter(None, [left_out, note]))
            rows.append(row)
    return pd.DataFrame(rows, columns=_ANOVA)


def _note_on_pairing(values: pd.DataFrame, design: Design) -> str:
    """What ignoring that systems met the same users changes, in words; empty where no scenario is shared."""
    correlations = []
    ratios = []
    for pair in design.differences(values, least=0):
        vary = len(pair.both) > 2 and np.ptp(pair.values) > 0
        if vary and np.ptp(pair.both, axis=0).all():
            matrix = np.asarray(np.corrcoef(pair.both.T))
            correlations.append(matrix[0, 1])
            apart = np.var(pair.both, axis=0, ddof=1).sum()
            ratios.append(np.sqrt(apart / np.var(pair.values, ddof=1)))
    if not ratios:
        return ""
    within = f"their scores correlate by {np.mean(correlations):.2f} within scenarios"
    beside = f"its intervals of differences are {np.mean(ratios):.2f} times as wide as paired ones"
    return f"ignores that systems met the same users: {within}, and {beside}"


def tukey_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Which pairs of systems differ, a row for each outcome and pair.

    Parameters
    ----------
    frame, outcomes
        As :func:`anova_table`.

    Returns
    -------
    DataFrame
        Tukey's simultaneous 95 % interval of ``diff`` with ``p``, beside ``paired_diff`` over shared ones
        with its t interval and ``p_holm`` (Wilcoxon); where systems met different users, Welch's interval and
        p, and Games and Howell's p.
    """
    parts = []
    for outcome in outcomes:
        parts.append(_pair_table(frame, Design(value=outcome)).assign(outcome=outcome))
    columns = _INDEPENDENT if Design().independent(frame) else _TUKEY
    return pd.concat(parts, ignore_index=True).reindex(columns=columns)


def _pair_table(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    values, _ = usable_values(frame, design)
    present = set(values["system"])
    pairs = list(combinations(levels(frame["system"]), 2))
    table = pd.DataFrame(pairs, columns=["a", "b"])
    notes = []
    for pair in pairs:
        lacking = sorted(set(pair) - present)
        notes.append(f"fewer than 2 values of {', '.join(lacking)}" if lacking else "")
    table["note"] = notes
    try:
        tukey = tukey_hsd(values, design).drop(columns="n_missing")
    except InputError as error:
        return table.assign(note=table["note"].replace("", str(error)))
    table = table.merge(tukey, on=["a", "b"], how="left")
    if design.independent(values):
        table["note"] = table["note"].replace("", APART)
        return table.merge(_apart_tests(values, design), on=["a", "b"], how="left")
    design = with_common_scenarios(values, design, pairs)
    if not design.pairs:
        return table
    return table.merge(_paired_tests(values, design), on=["a", "b"], how="left")


def _apart_tests(values: pd.DataFrame, design: Design) -> pd.DataFrame:
    tests = adjust(independent_pairs(values, design))
    names = {"p": "p_welch", "p_adjusted": "p_holm", "low": "welch_low", "high": "welch_high"}
    columns = "a b p_holm welch_low welch_high p_games_howell p_welch n_missing".split()
    return tests.rename(columns=names)[columns]


def _paired_tests(values: pd.DataFrame, design: Design) -> pd.DataFrame:
    names = {"diff": "paired_diff", "low": "paired_low", "high": "paired_high", "n": "n_pairs"}
    gaps = mean_tests(values, design).rename(columns=names)
    tests = adjust(wilcoxon_pairs(values, design))
    gaps["p_wilcoxon"] = tests["p"]
    gaps["p_holm"] = tests["p_adjusted"]
    return gaps[["a", "b", *names.values(), "n_missing", "p_wilcoxon", "p_holm"]]
