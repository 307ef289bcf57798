"""The tables of the thesis: whether any system differs, and which pairs do, on every outcome."""

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.cases import APART, omnibus, pairing, possible, usable
from crs_lib.stats.design import Design, levels
from crs_lib.stats.groups import adjust, independent_pairs, tukey_hsd
from crs_lib.stats.paired import mean_tests, wilcoxon_pairs

_ANOVA = "outcome test statistic df1 df2 p epsilon_gg p_gg kendall_w omega_squared n n_missing note".split()
_TUKEY = """outcome a b diff low high p paired_diff paired_low paired_high p_wilcoxon p_holm n_a n_b n_pairs
    n_missing note""".split()
_INDEPENDENT = """outcome a b diff low high p welch_low welch_high p_welch p_games_howell p_holm
    n_a n_b n_missing note""".split()


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
        values, left_out = usable(frame, design)
        for name in ("one-way ANOVA", *others):
            row: dict[str, object] = {"n": len(values), "n_missing": len(frame) - len(values)}
            row.update(omnibus(name, values, design).iloc[0])
            note = str(row["note"])
            if not note and pd.isna(row["statistic"]):
                note = "no value varies"
            elif not note and name == "one-way ANOVA":
                note = f"{APART}: independent samples" if apart else pairing(values, design)
            row["outcome"] = outcome
            row["note"] = "; ".join(filter(None, [left_out, note]))
            rows.append(row)
    return pd.DataFrame(rows, columns=_ANOVA)


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
        parts.append(_pairs(frame, Design(value=outcome)).assign(outcome=outcome))
    columns = _INDEPENDENT if Design().independent(frame) else _TUKEY
    return pd.concat(parts, ignore_index=True).reindex(columns=columns)


def _pairs(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    values, _ = usable(frame, design)
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
    design = possible(values, design, pairs)
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
