"""Mixed model with a random intercept for each scenario."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, levels, numbers

_OPTIMISERS = ("bfgs", "cg", "powell")
_SWAPS = 499  # random swaps of the systems that a p rests on


class MixedModel(NamedTuple):
    """``terms``: a test of each factor and interaction; ``fit``: convergence, variances, icc."""

    terms: pd.DataFrame
    fit: pd.DataFrame


class _Fit(NamedTuple):
    result: Any
    optimiser: str
    warnings: str


def mixed_model(frame: pd.DataFrame, design: Design = USUAL, *, factors: Sequence[str] = ()) -> MixedModel:
    """Linear mixed model ``value ~ system × factors + (1 | scenario)``, by restricted maximum likelihood.

    ``chi2`` is Wald's; ``p`` swaps the systems within scenarios, and is missing for terms without the system.
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
    codes = {name: pd.Index(levels(used[name])).get_indexer(used[name]) for name in terms}
    blocks = _sum_coded(codes)
    x = _stacked(blocks, len(y))
    if np.linalg.matrix_rank(x) < x.shape[1]:
        sparse = f"some combination of {', '.join(terms)} never occurs with a value"
        raise InputError(f"{sparse}, so its effect cannot be told: leave the sparse level or a factor out")
    cluster = pd.factorize(used[design.scenario], sort=True)[0]
    scale = float(y.std())
    scaled = (y - float(y.mean())) / scale
    fit = _first_converged(MixedLM(scaled, x, cluster))
    between = float(fit.result.cov_re[0, 0])
    within = float(fit.result.scale)
    weights = _Weights(cluster, between, within)
    rows = []
    for term in blocks:
        p = math.nan
        if design.system in term.split(":"):
            p = _swapped_p(scaled, codes, term, weights, design)
        chi2 = weights.chi2(scaled, blocks, term)
        rows.append((term, chi2, blocks[term].shape[1], p))
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
    tests = pd.DataFrame(rows, columns=["term", "chi2", "df", "p"])
    return MixedModel(tests, pd.DataFrame([row]))


class _Weights:
    """Generalised least squares where the values of a scenario share a random intercept.

    X' V^-1 X has a closed form: no numerical Hessian, so it holds at the boundary too.
    """

    def __init__(self, cluster: NDArray[np.intp], between: float, within: float) -> None:
        self.cluster = cluster
        values = np.arange(len(cluster))
        self.members = csr_array((np.ones(len(cluster)), (cluster, values)))  # scenarios by values
        self.shrink = between / (within + np.bincount(cluster) * between)
        self.within = within

    def product(self, x: Floats, y: Floats) -> Floats:
        """X' V^-1 y."""
        left, right = self.members @ x, self.members @ y
        return np.asarray((x.T @ y - (left.T * self.shrink) @ right) / self.within)

    def chi2(self, y: Floats, blocks: Mapping[str, Floats], term: str) -> float:
        """Wald's chi-square of a term beside all others."""
        x = _stacked(blocks, len(y))
        covariance = np.linalg.inv(self.product(x, x))
        beta = covariance @ self.product(x, y)
        start = 1  # behind the intercept
        for name, block in blocks.items():
            if name == term:
                break
            start += block.shape[1]
        own = slice(start, start + blocks[term].shape[1])
        return float(beta[own] @ np.linalg.solve(covariance[own, own], beta[own]))

    def residuals(self, y: Floats, x: Floats) -> Floats:
        """What the columns of ``x`` leave of ``y``."""
        beta = np.linalg.solve(self.product(x, x), self.product(x, y))
        return np.asarray(y - x @ beta)


def _swapped_p(
    y: Floats, codes: Mapping[str, NDArray[np.intp]], term: str, weights: _Weights, design: Design
) -> float:
    """The p of a term by swapping the systems of each scenario, whole sessions at a time.

    What terms without it explain is taken out first (Freedman and Lane, 1983). Wald's chi-square errs: the
    values of one session hang together more than the model allows.
    """
    blocks = _sum_coded(codes)
    factors = set(term.split(":"))
    others = {name: block for name, block in blocks.items() if not factors <= set(name.split(":"))}
    left = weights.residuals(y, _stacked(others, len(y)))
    seen = weights.chi2(left, blocks, term)
    system = codes[design.system]
    cells, row = np.unique(np.stack([weights.cluster, system]), axis=1, return_inverse=True)
    rng = stream(design.seed, "stats", "mixed", term)
    as_large = 1
    for _ in range(_SWAPS):
        order = np.lexsort((rng.random(cells.shape[1]), cells[0]))
        labels = np.empty_like(cells[1])
        labels[order] = cells[1]
        swapped = {**codes, design.system: labels[row.ravel()]}
        as_large += weights.chi2(left, _sum_coded(swapped), term) >= seen - 1e-9
    return as_large / (_SWAPS + 1)


def _stacked(blocks: Mapping[str, Floats], size: int) -> Floats:
    """The intercept and the columns of all terms, ``size`` values each."""
    return np.column_stack([np.ones(size), *blocks.values()])


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
    systems = pd.get_dummies(frame[design.system], dtype=float)
    x = pd.concat([frame[names], systems], axis=1)
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


def _sum_coded(codes: Mapping[str, NDArray[np.intp]]) -> dict[str, Floats]:
    """The columns of every factor and interaction, by name: the last level is minus all others."""
    coded = {}
    for factor, code in codes.items():
        last = int(code.max())
        coding = np.vstack([np.eye(last), -np.ones(last)])
        coded[factor] = coding[code]
    blocks = {}
    for order in range(1, len(codes) + 1):
        for crossed in combinations(codes, order):
            columns = [coded[name] for name in crossed]
            blocks[":".join(crossed)] = reduce(_crossed, columns)
    return blocks


def _crossed(a: Floats, b: Floats) -> Floats:
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
