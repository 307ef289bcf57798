"""Means, shares and differences of a tidy frame as estimates, for the sentences of a notebook.

Nothing is raised where the data hold too little: the estimate is then unknown, and its verdict
"not compared", so that a sentence is true whatever the parameters of a notebook are.
"""

import itertools
import math
from collections.abc import Hashable

import pandas as pd

from crs_lib.stats.bootstrap import cluster_bootstrap, cluster_bootstrap_differences
from crs_lib.stats.bounded import mean_interval
from crs_lib.stats.design import Design, Range, check_columns
from crs_lib.stats.estimate import Estimate, no_interval, verdict
from crs_lib.stats.groups import independent_pairs

_UNITS = {"scenario": "users", "session_id": "users"}  # what a column counts


def mean_of(frame: pd.DataFrame, value: str, *, scenario: str = "scenario") -> Estimate:
    """Mean of a column over all rows that have a value, with the 95 % interval over scenarios.

    Parameters
    ----------
    frame : DataFrame
        A row a value.
    value : str
        The column; NaN is left out.
    scenario : str
        The column of what is resampled.

    Raises
    ------
    InputError
        For a column that the frame lacks.
    """
    means = means_of(frame.assign(_all="all"), value, system="_all", scenario=scenario)
    return means.get("all", Estimate.unknown())


def means_of(
    frame: pd.DataFrame, value: str, *, system: str = "system", scenario: str = "scenario"
) -> dict[str, Estimate]:
    """:func:`mean_of` each system that has a value, by name, in the order of the frame."""
    values = _tidy(frame, value, system, scenario)
    if values.empty:
        return {}
    table = cluster_bootstrap(values, Design(system, scenario, value)).set_index("system")
    means = {}
    for name in dict.fromkeys(values[system]):
        row = table.loc[name]
        means[name] = _explained(Estimate.of(row)._replace(n=int(row["clusters"])), scenario)
    return means


def share_of(frame: pd.DataFrame, value: str, *, scenario: str = "scenario") -> Estimate:
    """Share in [0, 1] of the rows where a column is true, with the 95 % interval over scenarios.

    Parameters
    ----------
    frame, value, scenario
        As :func:`mean_of`; the column is true or false.
    """
    return mean_of(frame, value, scenario=scenario)


def difference_of(
    frame: pd.DataFrame,
    a: Hashable,
    b: Hashable,
    value: str,
    *,
    system: str = "system",
    scenario: str = "scenario",
) -> Estimate:
    """Mean of ``a`` minus mean of ``b`` over the scenarios that both have, with its 95 % interval.

    Parameters
    ----------
    frame : DataFrame
        A row a value.
    a, b : str
        Two labels of the column ``system``; unknown where one has no value, or both are the same.
    value, system, scenario : str
        The columns: the number, what is compared, what is resampled.

    Returns
    -------
    Estimate
        Of two independent samples where no systems share a scenario.
    """
    values = _tidy(frame, value, system, scenario)
    pair = (str(a), str(b))
    two = values[values[system].isin(pair)]
    if two[system].nunique() < 2:
        return Estimate.unknown()
    design = Design(system, scenario, value, [pair])
    return _explained(Estimate.of(cluster_bootstrap_differences(two, design).iloc[0], "diff"), scenario)


def order_of(
    frame: pd.DataFrame,
    value: str,
    *,
    system: str = "system",
    scenario: str = "scenario",
    lower: bool = False,
    margin: float = 0.0,
) -> pd.DataFrame:
    """The systems in the order of their means, each compared with the first.

    Parameters
    ----------
    frame : DataFrame
        A row a value.
    value, system, scenario : str
        The columns: the number (or what is true or false), what is compared, what is resampled.
    lower : bool
        Whether the smallest mean comes first.
    margin : float
        The smallest difference that matters.

    Returns
    -------
    DataFrame
        ``system``, ``mean``, ``low``, ``high``, ``n`` scenarios; ``diff`` to the first system with
        ``diff_low`` and ``diff_high``, an interval for all pairs at once as the data chose them, and the
        ``verdict`` on it. A system without a value is left out.
    """
    values = _tidy(frame, value, system, scenario)
    means = {}
    for name, part in values.groupby(system, sort=False):
        means[str(name)] = mean_of(part, value, scenario=scenario)
    sign = 1 if lower else -1
    order = sorted(means, key=lambda name: sign * means[name].value)
    wide = values.pivot_table(index=scenario, columns=system, values=value)
    confidence = 1 - 0.05 / max(1, math.comb(len(order), 2))
    rows = []
    for name in order:
        gap = _gap(wide, name, order[0], confidence)
        rows.append((name, *means[name][:4], *gap[:3], verdict(gap, margin)))
    columns = "system mean low high n diff diff_low diff_high verdict".split()
    return pd.DataFrame(rows, columns=columns)


def _gap(wide: pd.DataFrame, a: str, b: str, confidence: float) -> Estimate:
    """``a - b`` by scenario, or as independent samples where the two share none."""
    if a == b:
        return Estimate.unknown()
    gap = mean_interval(wide[a] - wide[b], confidence, Range())
    both = wide[[a, b]]
    if gap.n or both.count().min() < 2:
        return gap
    long = both.melt(ignore_index=False, var_name="system").rename_axis("scenario").reset_index()
    design = Design(pairs=[(a, b)], confidence=confidence)
    return Estimate.of(independent_pairs(long, design).iloc[0], "diff")


def resolution_of(
    frame: pd.DataFrame, value: str, *, system: str = "system", scenario: str = "scenario"
) -> Estimate:
    """How finely systems are told apart: the widest of the differences between neighbours in the order.

    Parameters
    ----------
    frame, value, system, scenario
        As :func:`difference_of`.

    Returns
    -------
    Estimate
        The least certain difference; ``half`` the width of its interval is what cannot be told apart.
    """
    means = means_of(frame, value, system=system, scenario=scenario)
    names = sorted(means, key=lambda name: -means[name].value)
    widest = Estimate.unknown()
    for a, b in itertools.pairwise(names):
        gap = difference_of(frame, a, b, value, system=system, scenario=scenario)
        if gap.has_interval and not gap.half <= widest.half:
            widest = gap
    return widest


def _explained(estimate: Estimate, scenario: str) -> Estimate:
    """The estimate with the reason why it has no interval."""
    if estimate.has_interval:
        return estimate
    return estimate._replace(reason=no_interval(estimate.n, _UNITS.get(scenario, "cases")))


def _tidy(frame: pd.DataFrame, value: str, system: str, scenario: str) -> pd.DataFrame:
    """The rows, systems as text and values as numbers, without the systems that have no value."""
    check_columns(frame, value, system, scenario)
    tidy = frame[[system, scenario]].copy()
    tidy[system] = tidy[system].astype(str)
    tidy[value] = frame[value].astype(float)
    return tidy[tidy.groupby(system)[value].transform("count") > 0]
