"""What raters say and whether they agree: labels of an annotation page, Krippendorff's alpha, intraclass
correlation of means.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.stats.bootstrap import bootstrap_estimates
from crs_lib.stats.design import Design, Floats, check_columns, numbers

Level = Literal["nominal", "ordinal", "interval", "masi"]
RATERS = Design(system="rater", scenario="item")  # raters are compared, items resampled


class _Ratings(NamedTuple):
    """How often each item got each of the ``values``, and the pairs of its ratings that differ.

    Of a pair, ``item`` is the number of its item, ``first`` and ``second`` those of its values, ``share`` its
    weight in the item's disagreement. ``distance`` is that of every two values; ranked ones have none.
    """

    counts: Any  # a sparse table, items by values
    values: Any  # in order where they are ranked
    item: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    share: Floats
    distance: Floats


def krippendorff_alpha(
    frame: pd.DataFrame, design: Design = RATERS, *, level: Level = "ordinal"
) -> pd.DataFrame:
    """Krippendorff's alpha with its BCa interval over items, for any number of raters; one row.

    Parameters
    ----------
    frame : DataFrame
        A row a rating; items with one rating do not count.
    design : Design
        Its columns (``system`` is the rater, ``scenario`` the item), confidence, resamples and seed.
    level : {"ordinal", "interval", "nominal", "masi"}
        What ratings are; "masi" takes sets of labels.

    Returns
    -------
    DataFrame
        ``level``, ``alpha`` (at most 1, which is perfect; 0 is chance; NaN when all ratings are equal),
        ``low``, ``high``, ``n_items``, ``n_raters``, ``n_values``, ``n`` ratings used, ``n_missing`` others.

    Raises
    ------
    InputError
        For two ratings of an item by one rater, or no item with two.

    References
    ----------
    Krippendorff (2011), Computing Alpha-Reliability; Passonneau (2006), LREC.
    """
    rated = _overlapping(frame, design)
    ratings = _ratings(rated[design.scenario], rated[design.value], level)
    n_items, n_values = ratings.counts.shape
    statistic = partial(_alpha, ratings, level)
    width = 3 * max(len(ratings.item), n_values)
    alpha = bootstrap_estimates(statistic, n_items, design, width=width).first("alpha")
    row: dict[str, object] = {"level": level, **alpha, "n_items": n_items}
    row["n_raters"] = rated[design.system].nunique()
    row["n_values"] = n_values
    row["n"] = len(rated)
    row["n_missing"] = len(frame) - len(rated)
    return pd.DataFrame([row])


def _overlapping(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The ratings of items that have two or more, one a rater."""
    rater, item, value = design.system, design.scenario, design.value
    check_columns(frame, item, rater, value)
    rated = frame[frame[value].notna().to_numpy()]
    repeated = rated.loc[rated.duplicated([item, rater]), [rater, item]]
    if len(repeated):
        who, what = repeated.iloc[:1].to_dict("split")["data"][0]
        raise InputError(f"item {what!r} was rated twice by {who!r}; keep one rating")
    overlapping = rated[rated.groupby(item)[value].transform("size").to_numpy() > 1]
    if overlapping.empty:
        raise InputError("no item has two ratings or more; agreement needs overlapping raters")
    return overlapping


def _ratings(items: pd.Series, ratings: pd.Series, level: Level) -> _Ratings:
    distance = np.eye(0)
    if level in ("ordinal", "interval"):
        values, codes = np.unique(numbers(ratings.to_frame("value"), "value"), return_inverse=True)
    else:
        labels = ratings.map(frozenset) if level == "masi" else ratings
        codes, values = pd.factorize(labels)
        distance = _distances(values, level)
    unit, names = pd.factorize(items)
    shape = len(names), len(values)
    ones = np.ones(len(codes))
    counts = scipy.sparse.csr_array((ones, (unit, codes)), shape=shape)
    ratings_of_items = pd.DataFrame({"unit": unit, "code": codes})
    cells = ratings_of_items.value_counts(sort=False).rename("n").reset_index()
    pairs = cells.merge(cells, on="unit").query("code_x != code_y")
    item = pairs["unit"].to_numpy()
    others = np.bincount(unit)[item] - 1
    share = (pairs["n_x"] * pairs["n_y"]).to_numpy() / others
    first = pairs["code_x"].to_numpy()
    second = pairs["code_y"].to_numpy()
    return _Ratings(counts, values, item, first, second, share, distance)


def _alpha(ratings: _Ratings, level: Level, weights: Floats) -> Floats:
    """Alpha in every draw of the items."""
    counts = np.asarray(weights @ ratings.counts)
    if level in ("ordinal", "interval"):
        seen, expected = _ranked_disagreement(ratings, level, weights, counts)
    else:
        disagreement = ratings.distance[ratings.first, ratings.second] * ratings.share
        n_items = ratings.counts.shape[0]
        seen = weights @ np.bincount(ratings.item, weights=disagreement, minlength=n_items)
        by_chance = counts @ ratings.distance
        expected = (by_chance * counts).sum(axis=1)
    others = counts.sum(axis=1) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = 1 - others * seen / expected
    return np.where(expected > 0, alpha, np.nan)[:, None]


def _ranked_disagreement(
    ratings: _Ratings, level: Level, weights: Floats, counts: Floats
) -> tuple[Floats, Floats]:
    """Disagreement seen and by chance: squared gaps of values, or of midranks, which every draw has anew."""
    total = counts.sum(axis=1)
    middle = np.broadcast_to(ratings.values - np.mean(ratings.values), counts.shape)
    if level == "ordinal":
        middle = np.cumsum(counts, axis=1) - counts / 2
    gaps = middle[:, ratings.first] - middle[:, ratings.second]
    seen = (weights[:, ratings.item] * gaps**2) @ ratings.share
    mean = (counts * middle).sum(axis=1) / total
    centred = middle - mean[:, None]
    squares = (counts * centred**2).sum(axis=1)
    return seen, 2 * total * squares


def _distances(values: Sequence[Any], level: Level) -> Floats:
    """The distance of every two values, in [0, 1]."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    distances = np.zeros((len(values), len(values)))
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            distances[i, j] = masi_distance(a, b)
    return distances


def masi_distance(a: Iterable[Any], b: Iterable[Any]) -> float:
    """Distance of two sets in [0, 1]: 1 − Jaccard · monotonicity.

    Monotonicity is 1 if they are equal, 2/3 if one holds the other, 1/3 for overlap. Source: Passonneau
    (2006), Measuring Agreement on Set-Valued Items (MASI), LREC.
    """
    x, y = frozenset(a), frozenset(b)
    if x == y:
        return 0.0
    monotone = 2 / 3 if x <= y or y <= x else 1 / 3
    return 1 - monotone * len(x & y) / len(x | y)


def icc(frame: pd.DataFrame, design: Design = RATERS) -> pd.DataFrame:
    """ICC(2,k): absolute agreement of the mean of all k raters with that of k others; one row.

    Parameters
    ----------
    frame : DataFrame
        A row a rating; only items that all rated count.
    design : Design
        Its columns (``system`` is the rater, ``scenario`` the item) and confidence.

    Returns
    -------
    DataFrame
        ``icc`` (at most 1; NaN when nothing varies), ``low``, ``high``, ``n`` items, ``n_missing`` others.

    Raises
    ------
    InputError
        For fewer than 2 raters or 2 such items, or two ratings of an item by one rater.

    References
    ----------
    Shrout and Fleiss (1979), Psych. Bull. 86.
    """
    paired = design.paired(frame)
    x = paired.values[~np.isnan(paired.values).any(axis=1)]
    n, k = x.shape
    if n < 2:
        raise InputError(f"{n} items were rated by all {k} raters, at least 2 are needed")
    centred = x - x.mean()
    rows_ss = k * float((centred.mean(axis=1) ** 2).sum())
    columns_ss = n * float((centred.mean(axis=0) ** 2).sum())
    error_ss = max(0.0, float((centred**2).sum()) - rows_ss - columns_ss)
    msr = rows_ss / (n - 1)
    msc = columns_ss / (k - 1)
    mse = error_ss / (n - 1) / (k - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = _single_icc(msr, msc, mse, n, k, design.upper)
        of_means = k * single / (1 + (k - 1) * single)  # Spearman and Brown
    estimate, low, high = of_means.tolist()
    return paired.row(x, icc=estimate, low=low, high=high)


def _single_icc(msr: float, msc: float, mse: float, n: int, k: int, upper: float) -> Floats:
    """ICC(2,1) and its interval, of the mean squares of rows, columns and error."""
    total = msr + (k - 1) * mse + k * (msc - mse) / n
    icc1 = np.divide(msr - mse, total)
    scale = n * (1 - icc1)
    of_raters = k * icc1 / scale * msc
    of_error = (1 + k * icc1 * (n - 1) / scale) * mse
    spread_of_raters = of_raters**2 / (k - 1)
    spread_of_error = of_error**2 / ((n - 1) * (k - 1))
    df = (of_raters + of_error) ** 2 / (spread_of_raters + spread_of_error)
    wide = scipy.stats.f.ppf(upper, n - 1, df)
    narrow = scipy.stats.f.ppf(upper, df, n - 1)
    noise = k * msc + (k * n - k - n) * mse
    low = n * (msr - wide * mse) / (wide * noise + n * msr)
    high = n * (narrow * msr - mse) / (noise + n * narrow * msr)
    return np.array([icc1, low, high])


_Name = Annotated[str, Field(min_length=1)]


class _Label(BaseModel):
    """A line that an annotation page exported."""

    model_config = ConfigDict(strict=True)
    item: _Name
    rater: _Name
    value: int
    page: _Name
    seconds: Any = None
    words: str = ""


class ReadLabel(NamedTuple):
    """A label and where it stands: the file and line, for messages."""

    where: str
    label: _Label


def read_labels(files: Iterable[str | Path], low: int = 1, high: int = 5) -> list[ReadLabel]:
    """The labels of exported files in order, values from ``low`` to ``high``.

    Raises InputError naming file and line for what is no label, and where there is none at all.
    """
    labels = []
    for file in files:
        path = Path(file).expanduser()
        for number, line in enumerate(safety.read_text(path).split("\n"), start=1):
            if line.strip():
                where = f"{path.name}, line {number}"
                labels.append(ReadLabel(where, _read(line, where, low, high)))
    if not labels:
        raise InputError("no label in these files; export them with the page's button or the key E")
    return labels


def _read(line: str, where: str, low: int, high: int) -> _Label:
    expected = f"an object with item, rater, page and a value from {low} to {high}"
    try:
        label = _Label.model_validate(safety.loads(line, where))
    except ValidationError:
        raise InputError(f"{where}: no label; expected {expected}") from None
    if not low <= label.value <= high:
        raise InputError(f"{where}: no label; expected {expected}")
    return label
