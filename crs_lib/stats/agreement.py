"""Do raters agree? Krippendorff's alpha for any level of measurement, and the intraclass correlations."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.design import Design, Floats, check_columns, numbers, table
from crs_lib.stats.estimates import bootstrap_estimates

Level = Literal["nominal", "ordinal", "interval", "ratio", "masi"]
RATERS = Design(system="rater", scenario="item")  # raters are compared, items resampled


def krippendorff_alpha(
    frame: pd.DataFrame, design: Design = RATERS, *, level: Level = "ordinal"
) -> pd.DataFrame:
    """Krippendorff's alpha, at most 1 (perfect); 0 is chance, below 0 systematic disagreement; one row.

    1 minus observed over expected disagreement; any number of raters, missing ratings allowed. Only
    items with at least two ratings count (``n_items``); ``n_missing`` counts ratings left out. BCa
    interval over items. NaN when all ratings are equal: nothing can be told from no variation.
    ``level="masi"`` takes sets (frozenset, or any iterable but text) and Passonneau's distance.

    Raises InputError for two ratings of one item by one rater, no item with two ratings, an unknown
    level, or a negative value at level ratio.
    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability; Passonneau (2006), LREC.
    """
    rater, item, value = design.system, design.scenario, design.value
    check_columns(frame, item, rater, value)
    if level not in get_args(Level):
        raise InputError(f"level {level!r} is not known; use one of {', '.join(get_args(Level))}")
    rated = frame[frame[value].notna().to_numpy()]
    if rated.duplicated([item, rater]).any():
        twice = rated.loc[rated.duplicated([item, rater]), [item, rater]].iloc[0].tolist()
        raise InputError(f"item {twice[0]!r} was rated twice by {twice[1]!r}; keep one rating")
    kept = rated[rated.groupby(item)[value].transform("size").to_numpy() > 1]
    if kept.empty:
        raise InputError("no item has two ratings or more; agreement needs overlapping raters")
    codes, values = _coded(kept, value, level)
    unit, items = pd.factorize(kept[item])
    shape = (len(items), len(values))
    counts = scipy.sparse.csr_array((np.ones(len(codes)), (unit, codes)), shape=shape)
    pairs = _pairs_within(unit, codes)
    alpha = _ordinal_alpha(pairs) if level == "ordinal" else _fixed_alpha(pairs, values, level, len(items))

    def statistic(weights: Floats) -> Floats:
        return alpha(weights, np.asarray(weights @ counts))[:, None]

    width = 3 * max(len(pairs.weight), len(values))
    found = bootstrap_estimates(statistic, len(items), design, width=width)
    row: dict[str, Any] = {"level": level, "alpha": float(found.estimate[0]), **found.bounds()}
    row |= {"n_items": len(items), "n_raters": int(kept[rater].nunique())}
    row |= {"n_values": len(values), "n": len(kept), "n_missing": len(frame) - len(kept)}
    return table([row])


def _coded(frame: pd.DataFrame, value: str, level: Level) -> tuple[Any, list[Any]]:
    if level in ("nominal", "masi"):
        labels = frame[value].map(_as_set) if level == "masi" else frame[value]
        codes, values = pd.factorize(labels)
        return codes, list(values)
    found, codes = np.unique(numbers(frame, value), return_inverse=True)
    if level == "ratio" and found[0] < 0:
        raise InputError(f"level 'ratio' needs values of at least 0, found {found[0]}; use 'interval'")
    return codes, list(found)


def _as_set(value: Any) -> frozenset[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"level 'masi' needs sets of labels, found {value!r}; wrap it: frozenset([..])")
    return frozenset(value)


class _Pairs(NamedTuple):
    """Every ordered pair of ratings of one item: its item, two value codes, and 1 / (ratings - 1)."""

    unit: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    weight: Floats


def _pairs_within(unit: Any, codes: Any) -> _Pairs:
    frame = pd.DataFrame({"unit": unit, "code": codes, "rating": np.arange(len(unit))})
    both = frame.merge(frame, on="unit")
    both = both[both["rating_x"] != both["rating_y"]]
    size = np.bincount(unit)
    place, first, second = (both[column].to_numpy() for column in ("unit", "code_x", "code_y"))
    return _Pairs(place, first, second, 1.0 / (size[place] - 1))


def _ordinal_alpha(pairs: _Pairs) -> Callable[[Floats, Floats], Floats]:
    """The ordinal distance is the squared gap of midranks, which every draw of items has anew."""

    def alpha(weights: Floats, counts: Floats) -> Floats:
        middle = np.cumsum(counts, axis=1) - counts / 2
        gap = (middle[:, pairs.first] - middle[:, pairs.second]) ** 2
        seen = (weights[:, pairs.unit] * gap) @ pairs.weight
        return _one_minus(seen, _squares(counts, middle), counts)

    return alpha


def _fixed_alpha(
    pairs: _Pairs, values: list[Any], level: Level, items: int
) -> Callable[[Floats, Floats], Floats]:
    """Levels whose distances do not depend on the draw: one sum for each item serves them all."""
    if level == "nominal":
        gap = (pairs.first != pairs.second).astype(float)
    elif level == "interval":
        v = np.asarray(values, dtype=float) - float(np.mean(values))
        gap = (v[pairs.first] - v[pairs.second]) ** 2
    else:
        distance = _distances(values, level)
        gap = distance[pairs.first, pairs.second]
    seen = np.bincount(pairs.unit, weights=gap * pairs.weight, minlength=items)

    def alpha(weights: Floats, counts: Floats) -> Floats:
        if level == "nominal":
            expected = counts.sum(axis=1) ** 2 - (counts**2).sum(axis=1)
        elif level == "interval":
            expected = _squares(counts, v)
        else:
            expected = ((counts @ distance) * counts).sum(axis=1)
        return _one_minus(weights @ seen, expected, counts)

    return alpha


def _squares(counts: Floats, v: Floats) -> Floats:
    """Squared gaps of v over all ordered pairs of ratings, for counts (draws, values)."""
    total = counts.sum(axis=1)
    centred = v - ((counts * v).sum(axis=1) / total)[:, None]
    return np.asarray(2 * total * (counts * centred**2).sum(axis=1))


def _one_minus(seen: Floats, expected: Floats, counts: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (counts.sum(axis=1) - 1) * seen / expected
    return np.where(expected > 0, 1 - ratio, np.nan)


def _distances(values: list[Any], level: Level) -> Floats:
    if level == "masi":
        return np.array([[masi_distance(a, b) for b in values] for a in values])
    v = np.asarray(values, dtype=float)
    gap, both = v[:, None] - v, v[:, None] + v
    return np.asarray(np.divide(gap, both, out=np.zeros_like(gap), where=both > 0) ** 2)


def masi_distance(a: Iterable[Any], b: Iterable[Any]) -> float:
    """Distance of two sets in [0, 1]: 1 minus Jaccard times monotonicity; 0 for equal (also empty) sets.

    Monotonicity is 1 for equal sets, 2/3 when one holds the other, 1/3 for mere overlap, else 0.
    Source: Passonneau (2006), Measuring Agreement on Set-Valued Items (MASI), LREC.
    """
    x, y = frozenset(a), frozenset(b)
    if x == y:
        return 0.0
    common = x & y
    if not common:
        return 1.0
    monotone = 2 / 3 if x <= y or y <= x else 1 / 3
    return 1 - monotone * len(common) / len(x | y)


def icc(frame: pd.DataFrame, design: Design = RATERS) -> pd.DataFrame:
    """The six intraclass correlations of Shrout and Fleiss, at most 1, with F test and interval.

    A row each: (1,1) random raters for each item, (2,1) the same random raters (absolute agreement),
    (3,1) these very raters (consistency); with k, the same for the mean of all k raters. Items that
    some rater left out are dropped and counted. NaN when nothing varies; no interval at an icc of 1.

    Raises InputError for fewer than 2 raters or 2 complete items, or two ratings of one item by one
    rater. Source: Shrout and Fleiss (1979), Psych. Bull. 86; McGraw and Wong (1996), Psych. Methods 1.
    """
    paired = design.paired(frame)
    x = paired.values[~np.isnan(paired.values).any(axis=1)]
    n, k = x.shape
    if n < 2:
        raise InputError(f"{n} items were rated by all {k} raters, at least 2 are needed")
    rows_ss = k * float(((x.mean(axis=1) - x.mean()) ** 2).sum())
    columns_ss = n * float(((x.mean(axis=0) - x.mean()) ** 2).sum())
    whole = float(((x - x.mean()) ** 2).sum())
    error_df = (n - 1) * (k - 1)
    msr, msc = rows_ss / (n - 1), columns_ss / (k - 1)
    mse, msw = max(0.0, whole - rows_ss - columns_ss) / error_df, (whole - rows_ss) / (n * (k - 1))
    upper = (1 + design.confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        f1, f3 = np.divide(msr, msw), np.divide(msr, mse)
        one = np.divide(msr - msw, msr + (k - 1) * msw)
        two = np.divide(msr - mse, msr + (k - 1) * mse + k * (msc - mse) / n)
        three = np.divide(msr - mse, msr + (k - 1) * mse)
        low1, high1 = _consistency_interval(f1, n - 1, n * (k - 1), k, upper)
        low2, high2 = _agreement_interval(two, msr, msc, mse, n, k, upper)
        low3, high3 = _consistency_interval(f3, n - 1, error_df, k, upper)
    singles = {
        "1": (one, low1, high1, f1, n * (k - 1)),
        "2": (two, low2, high2, f3, error_df),
        "3": (three, low3, high3, f3, error_df),
    }
    made = []
    for kind, (estimate, low, high, ratio, df2) in singles.items():
        test = {"f": float(ratio), "df1": n - 1, "df2": df2}
        test |= {"p": float(scipy.stats.f.sf(ratio, n - 1, df2)), "n": n, "n_missing": len(paired.values) - n}
        for raters, name in ((1, "1"), (k, "k")):
            bounds = (_stepped_up(float(v), raters) for v in (estimate, low, high))
            row = dict(zip(("icc", "low", "high"), bounds, strict=True))
            made.append({"type": f"ICC({kind},{name})", "raters": raters, **row, **test})
    return table(made)


def _stepped_up(single: float, raters: int) -> float:
    """Spearman-Brown: the reliability of the mean of several raters."""
    return float(np.divide(raters * single, 1 + (raters - 1) * single))


def _consistency_interval(ratio: Any, df1: int, df2: int, k: int, upper: float) -> tuple[float, float]:
    low = ratio / scipy.stats.f.ppf(upper, df1, df2)
    high = ratio * scipy.stats.f.ppf(upper, df2, df1)
    return float((low - 1) / (low + k - 1)), float((high - 1) / (high + k - 1))


def _agreement_interval(
    single: Any, msr: float, msc: float, mse: float, n: int, k: int, upper: float
) -> tuple[float, float]:
    a, b = k * single / (n * (1 - single)), 1 + k * single * (n - 1) / (n * (1 - single))
    df = (a * msc + b * mse) ** 2 / ((a * msc) ** 2 / (k - 1) + (b * mse) ** 2 / ((n - 1) * (k - 1)))
    wide, narrow = scipy.stats.f.ppf(upper, n - 1, df), scipy.stats.f.ppf(upper, df, n - 1)
    rest = k * msc + (k * n - k - n) * mse
    low = n * (msr - wide * mse) / (wide * rest + n * msr)
    high = n * (narrow * msr - mse) / (rest + n * narrow * msr)
    return float(low), float(high)
