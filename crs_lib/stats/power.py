"""How much the scenarios tell: clustering, effective sample size, power and detectable effects."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.stats.frames import (
    Floats,
    Pairs,
    check_columns,
    check_level,
    check_pairs,
    complete_values,
    levels,
    numbers,
    paired_values,
    table,
)

Test = Literal["wilcoxon", "t"]
_CELLS = 2_000_000


def design_effect(
    frame: pd.DataFrame, *, system: str = "system", scenario: str = "scenario", value: str = "value"
) -> pd.DataFrame:
    """How much rows (turns) of one scenario repeat each other, for every system; a row each.

    ``icc`` at most 1 is the share of variance between scenarios (one-way ANOVA estimate; may be
    negative), ``design_effect`` = 1 + (m - 1) icc with icc at least 0 and m the row-weighted mean of
    rows per scenario, ``effective_n`` = n / design effect: the independent rows they are worth. NaN
    when no scenario has two rows or nothing varies.

    Raises InputError for an unknown column. Source: Kish (1965), Survey Sampling; Donner and Koval
    (1980), Biometrics 36 (unequal sizes).
    """
    check_columns(frame, system, scenario, value)
    rows = []
    for name in levels(frame[system]):
        part = frame[(frame[system] == name).to_numpy()]
        column = numbers(part, value)
        known = ~np.isnan(column)
        y, owner = column[known], pd.factorize(part[scenario][known])[0]
        size = np.bincount(owner) if len(y) else np.zeros(0)
        between, within, m = _components(y, owner, size)
        icc = between / (between + within) if between + within > 0 else float("nan")
        swell = 1 + (m - 1) * max(0.0, icc) if not np.isnan(icc) else float("nan")
        row = {"system": name, "icc": icc, "var_scenario": between, "var_row": within}
        row |= {"design_effect": swell, "effective_n": len(y) / swell, "n": len(y)}
        rows.append(row | {"n_missing": int((~known).sum()), "clusters": len(size)})
    return table(rows)


def _components(y: Floats, owner: Any, size: Any) -> tuple[float, float, float]:
    """Variance between and within clusters, and the row-weighted mean cluster size."""
    n, k = len(y), len(size)
    if k < 2 or n == k:
        return float("nan"), float("nan"), float("nan")
    means = np.bincount(owner, weights=y) / size
    within = float(((y - means[owner]) ** 2).sum()) / (n - k)
    between = float((size * (means - y.mean()) ** 2).sum()) / (k - 1)
    squares = float((size**2).sum())
    usual = (n - squares / n) / (k - 1)
    return (between - within) / usual, within, squares / n


def variance_components(
    frame: pd.DataFrame, *, system: str = "system", scenario: str = "scenario", value: str = "value"
) -> pd.DataFrame:
    """Pilot variances over complete scenarios: between scenarios, and left over within them; one row.

    From the two-way table of scenarios by systems: ``var_scenario`` (at least 0), ``var_residual``
    and ``sd_difference`` = sqrt(2 var_residual), the standard deviation of a paired difference,
    which is all that a paired test sees. Raises InputError as :func:`rm_anova`.
    Source: Searle, Casella and McCulloch (1992), Variance Components, chapter 4.
    """
    paired = paired_values(frame, system=system, scenario=scenario, value=value)
    x = complete_values(paired)
    n, k = x.shape
    residual = x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()
    left = float((residual**2).sum()) / ((n - 1) * (k - 1))
    among = k * float(((x.mean(axis=1) - x.mean()) ** 2).sum()) / (n - 1)
    row = {"var_scenario": max(0.0, (among - left) / k), "var_residual": left}
    row |= {"sd_difference": (2 * left) ** 0.5, "n": n, "n_missing": len(paired.values) - n}
    return table([row])


def power_curve(
    sd_difference: float,
    effects: Sequence[float],
    sessions: Sequence[int],
    *,
    test: Test = "wilcoxon",
    alpha: float = 0.05,
    tests: int = 1,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Chance in [0, 1] that a paired test finds each effect with each number of scenarios, simulated.

    Differences are normal with the given mean (``effect``, in units of the value) and standard
    deviation (:func:`variance_components`). ``tests`` is the size of the family: the level is
    alpha / tests, Holm's first step. ``error`` is the Monte Carlo standard error. The same noise
    serves all effects, so curves are smooth and rise with the effect.

    Raises InputError for a deviation that is not above 0 or fewer than 2 scenarios.
    Source: Cohen (1988), Statistical Power Analysis; simulation as in Arnold et al. (2011), BMC MRM 11.
    """
    _check_power(sd_difference, sessions, alpha, tests, simulations)
    rows = []
    for n in sessions:
        reject = _simulator(n, test, alpha / tests, simulations, seed)
        for effect in effects:
            power = reject(effect / sd_difference)
            row = {"test": test, "effect": float(effect), "sessions": int(n), "power": power}
            rows.append(row | {"error": (power * (1 - power) / simulations) ** 0.5, "alpha": alpha / tests})
    return table(rows)


def sessions_needed(
    sd_difference: float,
    effect: float,
    *,
    power: float = 0.8,
    test: Test = "wilcoxon",
    alpha: float = 0.05,
    tests: int = 1,
    simulations: int = 2000,
    seed: int = 0,
    most: int = 5000,
) -> pd.DataFrame:
    """Scenarios from which on the simulated power reaches ``power``; one row.

    Found by halving an interval, to 1 % or one scenario, and within Monte Carlo error.
    ``sessions`` is missing when ``most`` do not suffice.
    Raises InputError for an effect of 0 and as :func:`power_curve`.
    Source: as :func:`power_curve`.
    """
    _check_power(sd_difference, [2], alpha, tests, simulations)
    check_level("power", power)
    if effect == 0:
        raise InputError("effect=0: no number of sessions finds nothing; give the smallest that matters")

    def reached(n: int) -> float:
        return _simulator(n, test, alpha / tests, simulations, seed)(effect / sd_difference)

    guess = (_reach(power, alpha / tests) * sd_difference / effect) ** 2
    low, high = 1, int(min(max(4, 1.2 * guess), most))
    found = reached(high)
    while found < power and high < most:
        low, high = high, int(min(1.5 * high + 1, most))
        found = reached(high)
    enough = found >= power
    while enough and high - low > max(1, high // 100):
        middle = max((low + high) // 2, min(int(0.9 * guess), high - 1)) if low == 1 else (low + high) // 2
        there = reached(middle)
        if there >= power:
            high, found = middle, there
        else:
            low = middle
    row = {"test": test, "effect": float(effect), "sessions": float(high) if enough else np.nan}
    return table([row | {"power": found, "target": power, "alpha": alpha / tests}])


def minimum_detectable_effect(
    sd_difference: float,
    sessions: int,
    *,
    power: float = 0.8,
    test: Test = "wilcoxon",
    alpha: float = 0.05,
    tests: int = 1,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Smallest effect > 0 (units of the value) that ``sessions`` scenarios find with ``power``; one row.

    Missing when the test cannot reach the level at all with so few scenarios.
    Raises InputError as :func:`power_curve`. Source: Bloom (1995), Evaluation Review 19.
    """
    _check_power(sd_difference, [sessions], alpha, tests, simulations)
    check_level("power", power)
    reject = _simulator(sessions, test, alpha / tests, simulations, seed)
    guess = _reach(power, alpha / tests) / sessions**0.5
    low, high = 0.0, 1.2 * guess
    while reject(high) < power and high < 100 * guess:
        low, high = high, 2 * high
    reachable = reject(high) >= power
    while reachable and high - low > 1e-3 * high:
        middle = (low + high) / 2 if low else max(high / 2, 0.9 * guess)
        low, high = (low, middle) if reject(middle) >= power else (middle, high)
    row = {"test": test, "sessions": int(sessions), "target": power, "alpha": alpha / tests}
    row |= {"effect": high * sd_difference if reachable else np.nan}
    return table([row | {"standardised": high if reachable else np.nan}])


_WILCOXON = 3 / np.pi  # scenarios of a t test that one of Wilcoxon's is worth, for normal differences


def contrast_power(
    frame: pd.DataFrame,
    effect: float,
    *,
    pairs: Pairs | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    tests: int = 1,
    most: int = 100_000,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
) -> pd.DataFrame:
    """Power of every contrast by the deviation of its own paired differences; a row a pair.

    ``sd_difference`` is that of ``n`` common scenarios, ``power_now`` the chance in [0, 1] that a paired
    Wilcoxon test at alpha / ``tests`` finds ``effect`` with them, ``detectable_effect`` what it finds with
    ``power``, ``sessions_needed`` the scenarios that ``effect`` takes (missing above ``most``). Without any
    spread every effect is found. From the noncentral t distribution and Wilcoxon's efficiency of 3/π.

    Raises InputError for an effect that is not above 0. NaN for fewer than 2 common scenarios.
    Source: Cohen (1988), chapter 2; Lehmann (1975), Nonparametrics, section 2.4 (efficiency).
    """
    check_level("power", power)
    check_level("alpha", alpha)
    if not effect > 0 or tests < 1:
        raise InputError(f"effect={effect}, tests={tests}: give an effect above 0 and at least one test")
    rows: list[dict[str, Any]] = []
    for row in _spreads(frame, pairs, system=system, scenario=scenario, value=value):
        n, sd = row["n"], row["sd_difference"]
        row |= dict.fromkeys(("power_now", "detectable_effect", "sessions_needed"), np.nan)
        if sd > 0:
            level = alpha / tests
            row["power_now"] = _found(effect / sd, n, level)
            row["sessions_needed"] = _least(effect / sd, power, level, most)
            row["detectable_effect"] = _detectable(n, power, level) * sd
        elif sd == 0:
            row |= {"power_now": 1.0, "detectable_effect": 0.0, "sessions_needed": 2.0}
        rows.append(row)
    return table(rows)


def contrast_curves(
    frame: pd.DataFrame,
    effects: Sequence[float],
    sessions: Sequence[int],
    *,
    pairs: Pairs | None = None,
    alpha: float = 0.05,
    tests: int = 1,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
) -> pd.DataFrame:
    """Power in [0, 1] of every contrast by effect and number of scenarios, a row each.

    See :func:`contrast_power`. A contrast without any spread finds every effect; contrasts with fewer than 2
    common scenarios have no rows. Raises InputError for an effect that is not above 0, or a single scenario.
    """
    check_level("alpha", alpha)
    if not min(effects, default=0) > 0 or min(sessions, default=0) < 2 or tests < 1:
        raise InputError(
            f"effects={list(effects)}, sessions={list(sessions)}, tests={tests}: expected effects above 0, "
            "at least 2 sessions and 1 test"
        )
    rows = [
        row | {"effect": float(effect), "sessions": int(n), "alpha": alpha / tests}
        | {"power": _found(effect / sd, n, alpha / tests) if (sd := row["sd_difference"]) > 0 else 1.0}
        for row in _spreads(frame, pairs, system=system, scenario=scenario, value=value)
        if row["n"] > 1
        for n in sessions
        for effect in effects
    ]  # fmt: skip
    return table(rows)


def _spreads(frame: pd.DataFrame, pairs: Pairs | None, **at: str) -> Iterator[dict[str, Any]]:
    """Every contrast with its common scenarios and the deviation of its differences; NaN for fewer than 2."""
    paired = paired_values(frame, **at)
    for i, j in check_pairs(paired.systems, pairs):
        gaps = paired.values[:, i] - paired.values[:, j]
        gaps = gaps[~np.isnan(gaps)]
        sd = float(gaps.std(ddof=1)) if len(gaps) > 1 else np.nan
        yield {"a": paired.systems[i], "b": paired.systems[j], "n": len(gaps), "sd_difference": sd}


def _found(effect: float, n: int, alpha: float) -> float:
    """The power of Wilcoxon's paired test for a standardised effect, by what its scenarios are worth to t."""
    worth = max(n * _WILCOXON, 1.5)
    edge = scipy.stats.t.ppf(1 - alpha / 2, worth - 1)
    shift = effect * worth**0.5
    both = scipy.stats.nct.sf(edge, worth - 1, shift) + scipy.stats.nct.cdf(-edge, worth - 1, shift)
    return float(np.nan_to_num(both, nan=1.0))  # beyond what nct can hold, the power is 1


def _detectable(n: int, power: float, alpha: float) -> float:
    """The standardised effect that ``n`` scenarios find with ``power``; NaN where none is large enough."""
    high = 2 * _reach(power, alpha) / n**0.5
    while _found(high, n, alpha) < power:
        high *= 2
        if high > 1e6:
            return float("nan")
    return float(scipy.optimize.brentq(lambda effect: _found(effect, n, alpha) - power, 0, high))


def _least(effect: float, power: float, alpha: float, most: int) -> float:
    """The fewest scenarios whose power reaches ``power``; NaN above ``most``."""
    low, high = 1, 2
    while _found(effect, high, alpha) < power:
        if high >= most:
            return float("nan")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _found(effect, middle, alpha) >= power else (middle, high)
    return float(high)


def _reach(power: float, alpha: float) -> float:
    """How many standard errors from 0 a true effect must lie: the normal approximation to start from."""
    return float(scipy.stats.norm.ppf(1 - alpha / 2) + scipy.stats.norm.ppf(power))


def _check_power(sd: float, sessions: Sequence[int], alpha: float, tests: int, simulations: int) -> None:
    check_level("alpha", alpha)
    if not sd > 0:
        raise InputError(f"sd_difference={sd!r}: expected the deviation of a paired difference, above 0")
    if min(sessions, default=0) < 2 or tests < 1 or simulations < 1:
        raise InputError(
            f"sessions={list(sessions)}, tests={tests}, simulations={simulations}: expected at least "
            "2 sessions, 1 test and 1 simulation"
        )


def _simulator(n: int, test: Test, alpha: float, simulations: int, seed: int) -> Callable[[float], float]:
    """Power at ``n`` scenarios as a function of the standardised effect, all on the same noise."""
    if test not in ("wilcoxon", "t"):
        raise InputError(f"test {test!r} is not known; use 'wilcoxon' or 't'")

    def power(effect: float) -> float:
        rng, found = stream(seed, "stats", "power", n), 0
        step = max(1, _CELLS // n)
        for start in range(0, simulations, step):
            noise = rng.standard_normal((min(step, simulations - start), n)) + effect
            if test == "t":
                p = scipy.stats.ttest_1samp(noise, 0.0, axis=1).pvalue
            else:
                method = "exact" if n <= 50 else "asymptotic"
                p = scipy.stats.wilcoxon(noise, axis=1, method=method).pvalue
            found += int((np.asarray(p) <= alpha).sum())
        return found / simulations

    return power
