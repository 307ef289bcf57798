"""The thesis's tests of every outcome, and the paired ones beside them: two tidy tables.

The thesis tested with a one-way analysis of variance and Tukey's HSD, as if every system had met users of its
own. All systems meet the same users, so the paired tests hold; a note says what ignoring the pairs changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.effects import omega_squared
from crs_lib.stats.frames import levels, numbers, paired_values
from crs_lib.stats.groups import one_way_anova, tukey_hsd
from crs_lib.stats.multiple import adjust
from crs_lib.stats.paired import friedman, mean_differences, rm_anova, wilcoxon_pairs

_ANOVA = (
    "outcome", "test", "statistic", "df1", "df2", "p", "epsilon_gg", "p_gg", "kendall_w", "omega_squared",
    "n", "n_missing", "note",
)  # fmt: skip
_TUKEY = (
    "outcome", "a", "b", "diff", "low", "high", "p", "paired_diff", "paired_low", "paired_high", "p_wilcoxon",
    "p_holm", "n_a", "n_b", "n_pairs", "n_missing", "note",
)  # fmt: skip


def anova_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Whether any system differs, a row for each outcome and test.

    Tests: one-way ANOVA (the thesis's), repeated-measures ANOVA and Friedman's. ``frame`` has the columns
    ``system``, ``scenario`` and one an outcome, a row a session. ``n`` counts sessions, or complete scenarios
    of the paired tests. A test that cannot be made has a row without numbers; ``note`` says why, and what the
    thesis's test ignores. Systems with fewer than two values are left out, and named there.
    """
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        values, left_out = _usable(frame, outcome)
        tests: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
            "one-way ANOVA": one_way_anova,
            "repeated-measures ANOVA": rm_anova,
            "Friedman": friedman,
        }
        for name, make in tests.items():
            row: dict[str, Any] = {"outcome": outcome, "test": name}
            try:
                row |= make(values).iloc[0].to_dict()
                notes = [left_out, _constant(row)]
            except InputError as error:
                row |= {"n": len(values), "n_missing": len(frame) - len(values)}
                notes = [left_out, str(error)]
            if name == "one-way ANOVA" and not notes[-1]:
                row["omega_squared"] = float(omega_squared(values)["estimate"].iloc[0])
                notes.append(pairing(values))
            rows.append(row | {"note": "; ".join(filter(None, notes))})
    return pd.DataFrame(rows, columns=list(_ANOVA))


def tukey_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Every pair of systems on every outcome, a row each: Tukey's HSD beside the paired comparison.

    ``diff`` is the difference of means ``a - b`` with Tukey's simultaneous 95 % interval and ``p``;
    ``paired_diff`` that over the scenarios both have, with its t interval; ``p_holm`` is Wilcoxon's p after
    Holm over the pairs of the outcome. Input as :func:`anova_table`; what cannot be tested has a ``note``.
    """
    return pd.concat([_pairs(frame, outcome) for outcome in outcomes], ignore_index=True)[list(_TUKEY)]


def _pairs(frame: pd.DataFrame, outcome: str) -> pd.DataFrame:
    systems = levels(frame["system"])
    values, _ = _usable(frame, outcome)
    every = pd.DataFrame(
        [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]], columns=["a", "b"]
    )
    made = every.assign(outcome=outcome).reindex(columns=list(_TUKEY)).assign(note="")
    usable = set(levels(values["system"])) if len(values) else set()
    made["note"] = [
        "" if {a, b} <= usable else f"fewer than 2 values of {', '.join(sorted({a, b} - usable))}"
        for a, b in zip(made["a"], made["b"], strict=True)
    ]
    try:
        classical = tukey_hsd(values).drop(columns="n_missing")
    except InputError as error:
        return made.assign(note=[note or str(error) for note in made["note"]])
    made = made.drop(columns=["diff", "low", "high", "p", "n_a", "n_b"]).merge(
        classical, on=["a", "b"], how="left"
    )
    paired = paired_values(values, system="system", scenario="scenario", value="value")
    known = {name: ~np.isnan(paired.values[:, i]) for i, name in enumerate(paired.systems)}
    possible = [
        (a, b)
        for a, b in zip(made["a"], made["b"], strict=True)
        if {a, b} <= usable and (known[a] & known[b]).sum() > 1
    ]
    if not possible:
        return made
    gaps = mean_differences(values, pairs=possible)
    tests = adjust(wilcoxon_pairs(values, pairs=possible), method="holm")
    beside = gaps[["a", "b"]].assign(
        paired_diff=gaps["diff"], paired_low=gaps["low"], paired_high=gaps["high"], n_pairs=gaps["n"],
        n_missing=gaps["n_missing"], p_wilcoxon=tests["p"], p_holm=tests["p_adjusted"],
    )  # fmt: skip
    return made.drop(columns=[*beside.columns[2:]]).merge(beside, on=["a", "b"], how="left")


def pairing(values: pd.DataFrame) -> str:
    """What ignoring that systems met the same users changes, in words; empty where no scenario is shared.

    The correlation of systems within scenarios, and the standard error of a difference without the pairs as a
    multiple of that with them, each the mean over pairs.
    """
    paired = paired_values(values, system="system", scenario="scenario", value="value")
    correlations, ratios = [], []
    for i in range(len(paired.systems)):
        for j in range(i + 1, len(paired.systems)):
            both: NDArray[np.float64] = paired.values[:, [i, j]]
            both = both[~np.isnan(both).any(axis=1)]
            apart = both[:, 0] - both[:, 1] if len(both) > 2 else np.zeros(1)
            if np.ptp(apart) > 0 and bool(np.all(both.max(axis=0) > both.min(axis=0))):
                correlations.append(float(np.asarray(np.corrcoef(both.T))[0, 1]))
                spread = np.sum(np.var(both, axis=0, ddof=1))
                ratios.append(float(np.sqrt(spread / np.var(apart, ddof=1))))
    if not ratios:
        return ""
    wider = f"{np.mean(ratios):.2f} times as wide as with the pairs"
    return (
        "ignores that systems met the same users: correlation within scenarios "
        f"{np.mean(correlations):.2f}, intervals of differences {wider}"
    )


def _usable(frame: pd.DataFrame, outcome: str) -> tuple[pd.DataFrame, str]:
    """The values of systems with at least two, sessions of one scenario averaged; and who is left out."""
    clean = frame[["system", "scenario"]].assign(value=numbers(frame, outcome))
    order = levels(frame["system"])
    clean = clean[clean["value"].notna()]
    means = clean.groupby(["system", "scenario"], sort=False, observed=True)["value"].mean().reset_index()
    counts = means["system"].value_counts()
    out = [str(name) for name in order if counts.get(name, 0) < 2]
    kept = means[~means["system"].astype(str).isin(out)]
    words = f"left out, with fewer than 2 values: {', '.join(out)}" if out else ""
    return kept.reset_index(drop=True), words


def _constant(row: Mapping[str, Any]) -> str:
    return "" if pd.notna(row["statistic"]) else "no value varies"
