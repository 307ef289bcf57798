"""Mixed model with a random intercept for each scenario."""

import warnings
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, levels, numbers

_OPTIMISERS = ("bfgs", "cg", "powell")


class _MixedModel(NamedTuple):
    """``terms``: a Wald test of each factor and interaction; ``fit``: convergence, variances, icc."""

    terms: pd.DataFrame
    fit: pd.DataFrame


def mixed_model(frame: pd.DataFrame, design: Design = USUAL, *, factors: Sequence[str] = ()) -> _MixedModel:
    """Linear mixed model ``value ~ system × factors + (1 | scenario)``, by restricted maximum likelihood.
    Every row with a value counts; ``fit.converged`` tells whether to believe it. Raises InputError for a
    factor with one level, fewer than 2 scenarios, a value that does not vary, a combination of levels that
    never occurs, and too few values. Source: Laird and Ware (1982), Biometrics 38; statsmodels' MixedLM.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    factors = (design.system, *factors)
    check_columns(frame, *factors, design.scenario, design.value)
    y = numbers(frame, design.value)
    known = ~np.isnan(y)
    used, y = frame[known], y[known]
    for factor in (*factors, design.scenario):
        if len(found := levels(used[factor])) < 2:
            raise InputError(f"{factor!r} has only the levels {found} with a value: drop it, or add sessions")
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        raise InputError(f"{design.value!r} does not vary: every value is {y[0]}; there is nothing to model")
    blocks = _sum_coded(used, factors)
    x = np.column_stack([np.ones(len(y)), *blocks.values()])
    if np.linalg.matrix_rank(x) < x.shape[1]:
        some = f"some combination of {', '.join(factors)} never occurs with a value"
        raise InputError(f"{some}, so its effect cannot be told: leave the sparse level or a factor out")
    cluster = pd.factorize(used[design.scenario], sort=True)[0]
    scale = float(y.std())
    model = MixedLM((y - float(y.mean())) / scale, x, cluster)
    for optimiser in _OPTIMISERS:
        with warnings.catch_warnings(record=True, action="always") as caught:
            result = _fitted(model, method=[optimiser])
        if result.converged:
            break
    between, within = float(result.cov_re[0, 0]), float(result.scale)
    covariance = _fixed_covariance(x, cluster, between, within)
    notes = sorted({" ".join(str(w.message).split()) for w in caught})
    row: dict[str, Any] = {"converged": bool(result.converged), "optimiser": optimiser}
    row |= {"warnings": "; ".join(notes), "var_scenario": between * scale**2}
    row |= {"var_residual": within * scale**2, "icc": between / (between + within)}
    row |= {"n": len(y), "n_missing": int((~known).sum()), "clusters": int(cluster.max()) + 1}
    return _MixedModel(_wald(blocks, np.asarray(result.fe_params), covariance), pd.DataFrame([row]))


def mixed_slopes(frame: pd.DataFrame, terms: Sequence[str], design: Design = USUAL) -> pd.DataFrame:
    """Slopes of numeric columns with 95 % Wald intervals, a row a term, of ``value ~ terms + system + (1 |
    scenario)`` by restricted maximum likelihood. Source: as :func:`mixed_model`.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    x = pd.concat([frame[list(terms)], pd.get_dummies(frame[design.system], dtype=float)], axis=1)
    with warnings.catch_warnings():  # a variance at the edge of its range is no reason to stop
        warnings.simplefilter("ignore")
        fit = _fitted(MixedLM(frame[design.value], x, frame[design.scenario]))
    ends = fit.conf_int().loc[list(terms)].set_axis(["low", "high"], axis=1)
    return ends.assign(slope=fit.params[list(terms)], n=len(frame)).rename_axis("term").reset_index()


def _fitted(model: Any, **how: Any) -> Any:
    """A model of statsmodels, fitted; InputError where the values are too few for its matrices."""
    try:
        return model.fit(reml=True, **how)
    except np.linalg.LinAlgError as error:
        raise InputError(f"too few values for the mixed model ({error}): add sessions") from error


def _sum_coded(frame: pd.DataFrame, factors: Sequence[str]) -> dict[str, Floats]:
    """The columns of every factor and interaction, by name: the last level is minus all others."""
    coded = {}
    for factor in factors:
        names = levels(frame[factor])
        coding = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
        coded[factor] = coding[pd.Index(names).get_indexer(frame[factor])]

    def crossed(a: Floats, b: Floats) -> Floats:
        return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)

    chosen = (c for order in range(1, len(factors) + 1) for c in combinations(factors, order))
    return {":".join(names): reduce(crossed, (coded[name] for name in names)) for names in chosen}


def _fixed_covariance(x: Floats, cluster: Any, between: float, within: float) -> Floats:
    """(X' V^-1 X)^-1 in closed form: no numerical Hessian, so it holds at the boundary too."""
    sums = np.zeros((int(cluster.max()) + 1, x.shape[1]))
    np.add.at(sums, cluster, x)
    shrink = between / (within + np.bincount(cluster) * between)
    return np.asarray(within * np.linalg.inv(x.T @ x - (sums.T * shrink) @ sums))


def _wald(blocks: dict[str, Floats], beta: Floats, covariance: Floats) -> pd.DataFrame:
    rows, start = [], 1
    for term, block in blocks.items():
        mine = slice(start, start + block.shape[1])
        start = mine.stop
        chi2 = float(beta[mine] @ np.linalg.solve(covariance[mine, mine], beta[mine]))
        df = block.shape[1]
        rows.append({"term": term, "chi2": chi2, "df": df, "p": float(scipy.stats.chi2.sf(chi2, df))})
    return pd.DataFrame(rows)
