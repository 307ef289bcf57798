"""Mixed model with a random intercept for each scenario."""

import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, levels, numbers

_OPTIMISERS = ("bfgs", "cg", "powell")


class MixedModel(NamedTuple):
    """``terms``: a Wald test of each factor and interaction; ``fit``: convergence, variances, icc."""

    terms: pd.DataFrame
    fit: pd.DataFrame


class _Fit(NamedTuple):
    result: Any
    optimiser: str
    warnings: str


def mixed_model(frame: pd.DataFrame, design: Design = USUAL, *, factors: Sequence[str] = ()) -> MixedModel:
    """Linear mixed model ``value ~ system × factors + (1 | scenario)``, by restricted maximum likelihood.

    Every row with a value counts; ``fit.converged`` tells whether to believe it. Raises InputError for a
    factor with one level, fewer than 2 scenarios, a value that does not vary, a combination of levels that
    never occurs, and too few values. Source: Laird and Ware (1982), Biometrics 38; statsmodels' MixedLM.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    terms = (design.system, *factors)
    check_columns(frame, *terms, design.scenario, design.value)
    values = numbers(frame, design.value)
    present = ~np.isnan(values)
    used = frame[present]
    y = values[present]
    _check_variation(used, y, design, terms)
    blocks = _sum_coded(used, terms)
    x = np.column_stack([np.ones(len(y)), *blocks.values()])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        sparse = f"some combination of {', '.join(terms)} never occurs with a value"
        raise InputError(f"{sparse}, so its effect cannot be told: leave the sparse level or a factor out")
    cluster = pd.factorize(used[design.scenario], sort=True)[0]
    scale = float(y.std())
    fit = _first_converged(MixedLM((y - float(y.mean())) / scale, x, cluster))
    between, within = float(fit.result.cov_re[0, 0]), float(fit.result.scale)
    covariance = _fixed_covariance(x, cluster, between, within)
    row = {
        "converged": bool(fit.result.converged),
        "optimiser": fit.optimiser,
        "warnings": fit.warnings,
        "var_scenario": between * scale**2,
        "var_residual": within * scale**2,
        "icc": between / (between + within),
        "n": len(y),
        "n_missing": len(frame) - len(y),
        "clusters": int(cluster.max()) + 1,
    }
    return MixedModel(_wald(blocks, np.asarray(fit.result.fe_params), covariance), pd.DataFrame([row]))


def _check_variation(frame: pd.DataFrame, y: Floats, design: Design, factors: Sequence[str]) -> None:
    for column in (*factors, design.scenario):
        present = levels(frame[column])
        if len(present) < 2:
            few = f"{column!r} has only the levels {present} with a value"
            raise InputError(f"{few}: drop it, or add sessions")
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        raise InputError(f"{design.value!r} does not vary: every value is {y[0]}; there is nothing to model")


def _first_converged(model: Any) -> _Fit:
    """The fit of the first optimiser that converges, else of the last."""
    for optimiser in _OPTIMISERS:
        with warnings.catch_warnings(record=True, action="always") as caught:
            result = _fitted(model, method=[optimiser])
        if result.converged:
            break
    notes = {" ".join(str(warning.message).split()) for warning in caught}
    return _Fit(result, optimiser, "; ".join(sorted(notes)))


def mixed_slopes(frame: pd.DataFrame, terms: Sequence[str], design: Design = USUAL) -> pd.DataFrame:
    """Slopes of numeric columns with 95 % Wald intervals, a row a term.

    The model is ``value ~ terms + system + (1 | scenario)``, by restricted maximum likelihood. Source: as
    :func:`mixed_model`.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    names = list(terms)
    x = pd.concat([frame[names], pd.get_dummies(frame[design.system], dtype=float)], axis=1)
    with warnings.catch_warnings():  # a variance at the edge of its range is no reason to stop
        warnings.simplefilter("ignore")
        fit = _fitted(MixedLM(frame[design.value], x, frame[design.scenario]))
    table = fit.conf_int().loc[names].set_axis(["low", "high"], axis=1)
    table["slope"] = fit.params[names]
    return table.assign(n=len(frame)).rename_axis("term").reset_index()


def _fitted(model: Any, **options: Any) -> Any:
    """A model of statsmodels, fitted; InputError where the values are too few for its matrices."""
    try:
        return model.fit(reml=True, **options)
    except np.linalg.LinAlgError as error:
        raise InputError(f"too few values for the mixed model ({error}): add sessions") from error


def _sum_coded(frame: pd.DataFrame, factors: Sequence[str]) -> dict[str, Floats]:
    """The columns of every factor and interaction, by name: the last level is minus all others."""
    coded = {}
    for factor in factors:
        names = levels(frame[factor])
        coding = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
        coded[factor] = coding[pd.Index(names).get_indexer(frame[factor])]
    blocks = {}
    for order in range(1, len(factors) + 1):
        for crossed in combinations(factors, order):
            blocks[":".join(crossed)] = reduce(_crossed, [coded[name] for name in crossed])
    return blocks


def _crossed(a: Floats, b: Floats) -> Floats:
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def _fixed_covariance(x: Floats, cluster: NDArray[np.intp], between: float, within: float) -> Floats:
    """(X' V^-1 X)^-1 in closed form: no numerical Hessian, so it holds at the boundary too."""
    sums = np.zeros((int(cluster.max()) + 1, x.shape[1]))
    np.add.at(sums, cluster, x)
    shrink = between / (within + np.bincount(cluster) * between)
    return np.asarray(within * np.linalg.inv(x.T @ x - (sums.T * shrink) @ sums))


def _wald(blocks: Mapping[str, Floats], beta: Floats, covariance: Floats) -> pd.DataFrame:
    rows = []
    start = 1  # behind the intercept
    for term, block in blocks.items():
        df = block.shape[1]
        own = slice(start, start + df)
        start += df
        chi2 = float(beta[own] @ np.linalg.solve(covariance[own, own], beta[own]))
        rows.append((term, chi2, df, float(scipy.stats.chi2.sf(chi2, df))))
    return pd.DataFrame(rows, columns=["term", "chi2", "df", "p"])
