"""Mixed model with a random intercept for each scenario, and its cluster-robust fallback."""

import warnings
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, levels, numbers, table

_OPTIMISERS = ("bfgs", "cg", "powell")


class MixedModel(NamedTuple):
    """What a fitted model says, as tidy frames.

    ``coefficients``: a row for each term against the first level of every factor, in units of the
    value. ``terms``: a Wald test of each factor (its levels averaged over the other factors with
    equal weight) and interaction. ``means``: estimated marginal means of each factor's levels.
    ``fit``: one row with optimiser, convergence, what it warned of, variances and icc.
    """

    coefficients: pd.DataFrame
    terms: pd.DataFrame
    means: pd.DataFrame
    fit: pd.DataFrame


class _Coding(NamedTuple):
    """Treatment-coded columns of a crossed design; ``columns[j]`` is a tuple of (factor, level) codes."""

    factors: tuple[str, ...]
    names: list[list[Any]]
    columns: list[tuple[tuple[int, int], ...]]

    def matrix(self, codes: NDArray[np.intp]) -> Floats:
        """Rows of the design for (n, factors) level codes; the first column is the intercept."""
        made = [np.prod([codes[:, f] == k for f, k in column], axis=0) for column in self.columns]
        return np.column_stack([np.ones(len(codes)), *made]).astype(float)

    def labels(self) -> list[str]:
        """Printed names, such as ``system[tracker]:shift_type[replace]``."""
        parts = (
            ":".join(f"{self.factors[f]}[{self.names[f][k]}]" for f, k in column) for column in self.columns
        )
        return ["intercept", *parts]

    def cells(self) -> NDArray[np.intp]:
        """Every combination of levels."""
        return np.array(list(product(*(range(len(n)) for n in self.names))), dtype=np.intp)


class _Data(NamedTuple):
    coding: _Coding
    x: Floats
    y: Floats
    cluster: NDArray[np.intp]
    missing: int


def mixed_model(
    frame: pd.DataFrame, design: Design = USUAL, *, factors: Sequence[str] = (), interaction: bool = True
) -> MixedModel:
    """Linear mixed model ``value ~ system × factors + (1 | scenario)``, by restricted maximum likelihood.

    Every row counts (turns and shift types of a scenario may repeat); rows without a value are left
    out and counted. The value is standardised for the optimiser and the results put back in its
    units. ``fit.converged`` tells whether to believe it; if not, use :func:`clustered_ols`.

    Raises InputError for a factor with one level, fewer than 2 scenarios, a value that does not
    vary, or a combination of levels that never occurs (with ``interaction``).
    Source: Laird and Ware (1982), Biometrics 38; the fit is statsmodels' MixedLM.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    data = _prepare(frame, design, (design.system, *factors), interaction)
    centre, scale = float(data.y.mean()), float(data.y.std())
    model = MixedLM((data.y - centre) / scale, data.x, data.cluster)
    for optimiser in _OPTIMISERS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = model.fit(reml=True, method=[optimiser])
        if result.converged:
            break
    between, within = float(result.cov_re[0, 0]), float(result.scale)
    beta = np.asarray(result.fe_params) * scale
    beta[0] += centre
    covariance = _fixed_covariance(data, between, within) * scale**2
    notes = sorted({" ".join(str(w.message).split()) for w in caught})
    row: dict[str, Any] = {"converged": bool(result.converged), "optimiser": optimiser}
    row |= {"warnings": "; ".join(notes), "var_scenario": between * scale**2}
    row |= {"var_residual": within * scale**2, "icc": between / (between + within)}
    row |= {"n": len(data.y), "n_missing": data.missing, "clusters": int(data.cluster.max()) + 1}
    return _report(data.coding, beta, covariance, table([row]), design.confidence)


def clustered_ols(
    frame: pd.DataFrame, design: Design = USUAL, *, factors: Sequence[str] = (), interaction: bool = True
) -> MixedModel:
    """The same fixed effects by least squares with errors robust to clustering by scenario.

    Needs no convergence and no normality, but some 40 scenarios. ``fit`` has no variances.
    Raises InputError as :func:`mixed_model`.
    Source: Liang and Zeger (1986), Biometrika 73; the fit is statsmodels' OLS.
    """
    from statsmodels.regression.linear_model import OLS

    data = _prepare(frame, design, (design.system, *factors), interaction)
    result = OLS(data.y, data.x).fit(cov_type="cluster", cov_kwds={"groups": data.cluster})
    row: dict[str, Any] = {"converged": True, "optimiser": "least squares", "warnings": ""}
    row |= {"var_scenario": np.nan, "var_residual": np.nan, "icc": np.nan}
    row |= {"n": len(data.y), "n_missing": data.missing, "clusters": int(data.cluster.max()) + 1}
    beta, covariance = np.asarray(result.params), np.asarray(result.cov_params())
    return _report(data.coding, beta, covariance, table([row]), design.confidence)


def _prepare(frame: pd.DataFrame, design: Design, factors: tuple[str, ...], interaction: bool) -> _Data:
    scenario, value = design.scenario, design.value
    check_columns(frame, *factors, scenario, value)
    y = numbers(frame, value)
    known = ~np.isnan(y)
    used, y = frame[known], y[known]
    names = [levels(used[factor]) for factor in factors]
    for factor, found in zip(factors, names, strict=True):
        if len(found) < 2:
            raise InputError(f"factor {factor!r} has levels {found}; at least 2 are needed: drop it")
    scenarios = levels(used[scenario])
    if len(scenarios) < 2:
        raise InputError(f"{len(scenarios)} scenarios with a value; at least 2 are needed")
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        raise InputError(f"{value!r} does not vary: every value is {y[0]}; there is nothing to model")
    coded = [pd.Index(n).get_indexer(used[f]) for f, n in zip(factors, names, strict=True)]
    orders = range(1, len(factors) + 1) if interaction else (1,)
    columns = [
        tuple(zip(chosen, picked, strict=True))
        for order in orders
        for chosen in combinations(range(len(factors)), order)
        for picked in product(*(range(1, len(names[f])) for f in chosen))
    ]
    coding = _Coding(factors, names, columns)
    x = coding.matrix(np.column_stack(coded))
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise InputError(
            f"some combination of {', '.join(factors)} never occurs with a value, so its effect "
            "cannot be separated; set interaction=False or leave the sparse level out"
        )
    cluster = pd.Index(scenarios).get_indexer(used[scenario])
    return _Data(coding, x, y, np.asarray(cluster, dtype=np.intp), int((~known).sum()))


def _fixed_covariance(data: _Data, between: float, within: float) -> Floats:
    """(X' V^-1 X)^-1 in closed form: no numerical Hessian, so it holds at the boundary too."""
    sums = np.zeros((int(data.cluster.max()) + 1, data.x.shape[1]))
    np.add.at(sums, data.cluster, data.x)
    size = np.bincount(data.cluster)
    shrink = between / (within + size * between)
    return np.asarray(within * np.linalg.inv(data.x.T @ data.x - (sums.T * shrink) @ sums))


def _report(
    coding: _Coding, beta: Floats, covariance: Floats, fit: pd.DataFrame, confidence: float
) -> MixedModel:
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    error = np.sqrt(np.diag(covariance))
    ratio = beta / error
    coefficients = pd.DataFrame({"term": coding.labels(), "estimate": beta, "error": error})
    coefficients = coefficients.assign(low=beta - z * error, high=beta + z * error, z=ratio)
    coefficients["p"] = 2 * scipy.stats.norm.sf(np.abs(ratio))
    cells = coding.cells()
    grid = coding.matrix(cells)
    means, terms = [], []
    for f, factor in enumerate(coding.factors):
        at = np.stack([grid[cells[:, f] == k].mean(axis=0) for k in range(len(coding.names[f]))])
        terms.append({"term": factor} | _wald(at[1:] - at[0], beta, covariance))
        for name, weights in zip(coding.names[f], at, strict=True):
            mean, spread = float(weights @ beta), float(np.sqrt(weights @ covariance @ weights))
            row = {"factor": factor, "level": name, "mean": mean, "error": spread}
            means.append(row | {"low": mean - z * spread, "high": mean + z * spread})
    for chosen in sorted({tuple(f for f, _ in c) for c in coding.columns if len(c) > 1}, key=len):
        picked = [j + 1 for j, c in enumerate(coding.columns) if tuple(f for f, _ in c) == chosen]
        name = ":".join(coding.factors[f] for f in chosen)
        terms.append({"term": name} | _wald(np.eye(len(beta))[picked], beta, covariance))
    return MixedModel(coefficients, table(terms), table(means), fit)


def _wald(contrast: Floats, beta: Floats, covariance: Floats) -> dict[str, float]:
    gap = contrast @ beta
    chi2 = float(gap @ np.linalg.solve(contrast @ covariance @ contrast.T, gap))
    return {"chi2": chi2, "df": len(contrast), "p": float(scipy.stats.chi2.sf(chi2, len(contrast)))}
