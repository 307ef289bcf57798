"""Labels of raters, and whether they agree: Krippendorff's alpha, intraclass correlation of means."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import scipy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.stats.design import Design, Floats, check_columns, numbers
from crs_lib.stats.estimates import bootstrap_estimates

Level = Literal["nominal", "ordinal", "interval", "masi"]
RATERS = Design(system="rater", scenario="item")  # raters are compared, items resampled


class _Label(BaseModel):
    """A line that an annotation page exported."""

    model_config = ConfigDict(strict=True)
    item: Annotated[str, Field(min_length=1)]
    rater: Annotated[str, Field(min_length=1)]
    value: int
    page: Annotated[str, Field(min_length=1)]
    seconds: Any = None
    words: str = ""


def read_labels(files: Iterable[str | Path], low: int = 1, high: int = 5) -> list[tuple[str, _Label]]:
    """The labels of exported files in order, each with its place, values from ``low`` to ``high``. Raises
    InputError naming file and line for what is no label, and where there is none at all.
    """
    found = []
    for path in (Path(name).expanduser() for name in files):
        for number, line in enumerate(safety.read_text(path).split("\n"), start=1):
            where = f"{path.name}, line {number}"
            try:
                label = _Label.model_validate(safety.loads(line, where)) if line.strip() else None
            except ValidationError:
                label = _Label(item="-", rater="-", value=low - 1, page="-")
            if label and not low <= label.value <= high:
                expected = f"an object with item, rater, page and a value from {low} to {high}"
                raise InputError(f"{where}: no label; expected {expected}")
            found += [(where, label)] if label else []
    if not found:
        raise InputError("no label in these files; export them with the page's button or the key E")
    return found


def krippendorff_alpha(
    frame: pd.DataFrame, design: Design = RATERS, *, level: Level = "ordinal"
) -> pd.DataFrame:
    """Krippendorff's alpha with its BCa interval over items: at most 1 (perfect), 0 is chance; one row. Any
    number of raters; items with one rating do not count (``n_missing``). NaN when all ratings are equal.
    ``level="masi"`` takes sets of labels. Raises InputError for two ratings of an item by one rater, or no
    item with two. Source: Krippendorff (2011), Computing Alpha-Reliability; Passonneau (2006), LREC.
    """
    rater, item, value = design.system, design.scenario, design.value
    check_columns(frame, item, rater, value)
    rated = frame[frame[value].notna().to_numpy()]
    twice = rated[rated.duplicated([item, rater])]
    if len(twice):
        who, where = twice[[rater, item]].iloc[:1].to_dict("split")["data"][0]
        raise InputError(f"item {where!r} was rated twice by {who!r}; keep one rating")
    kept = rated[rated.groupby(item)[value].transform("size").to_numpy() > 1]
    if kept.empty:
        raise InputError("no item has two ratings or more; agreement needs overlapping raters")
    ranked = level in ("ordinal", "interval")
    if ranked:
        values, codes = np.unique(numbers(kept, value), return_inverse=True)
    else:
        codes, values = pd.factorize(kept[value].map(frozenset) if level == "masi" else kept[value])
    unit, items = pd.factorize(kept[item])
    table = scipy.sparse.csr_array((np.ones(len(codes)), (unit, codes)), shape=(len(items), len(values)))
    times = pd.DataFrame({"unit": unit, "code": codes}).value_counts(sort=False).rename("n").reset_index()
    both = times.merge(times, on="unit").query("code_x != code_y")  # of each item, its pairs that differ
    place, first, second = (both[column].to_numpy() for column in ("unit", "code_x", "code_y"))
    share = (both["n_x"] * both["n_y"]).to_numpy() / (np.bincount(unit)[place] - 1)
    distance = np.eye(0) if ranked else 1 - np.eye(len(values))
    if level == "masi":
        distance = np.array([[_masi_distance(a, b) for b in values] for a in values])

    def alpha(weights: Floats) -> Floats:
        counts = np.asarray(weights @ table)
        total = counts.sum(axis=1)
        if ranked:  # the distance is the squared gap of values, or of midranks, which every draw has anew
            middle = np.broadcast_to(values - np.mean(values), counts.shape)
            if level == "ordinal":
                middle = np.cumsum(counts, axis=1) - counts / 2
            seen = (weights[:, place] * (middle[:, first] - middle[:, second]) ** 2) @ share
            centred = middle - ((counts * middle).sum(axis=1) / total)[:, None]
            expected = 2 * total * (counts * centred**2).sum(axis=1)
        else:
            by_item = np.bincount(place, weights=distance[first, second] * share, minlength=len(items))
            seen, expected = weights @ by_item, ((counts @ distance) * counts).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(expected > 0, 1 - (total - 1) * seen / expected, np.nan)[:, None]

    found = bootstrap_estimates(alpha, len(items), design, width=3 * max(len(place), len(values)))
    row: dict[str, Any] = {"level": level, "alpha": float(found.estimate[0]), **found.bounds()}
    row |= {"n_items": len(items), "n_raters": kept[rater].nunique(), "n_values": len(values)}
    return pd.DataFrame([row | {"n": len(kept), "n_missing": len(frame) - len(kept)}])


def _masi_distance(a: Iterable[Any], b: Iterable[Any]) -> float:
    """Distance of two sets in [0, 1]: 1 − Jaccard · monotonicity (1 if equal, 2/3 if one holds the other, 1/3
    for overlap). Source: Passonneau (2006), Measuring Agreement on Set-Valued Items (MASI), LREC.
    """
    x, y = frozenset(a), frozenset(b)
    if x == y:
        return 0.0
    monotone = 2 / 3 if x <= y or y <= x else 1 / 3
    return 1 - monotone * len(x & y) / len(x | y)


def icc(frame: pd.DataFrame, design: Design = RATERS) -> pd.DataFrame:
    """ICC(2,k), at most 1: absolute agreement of the mean of all k raters with that of k others; one row.
    Only items that all rated count; NaN when nothing varies. Raises InputError for fewer than 2 raters or 2
    such items, or two ratings of an item by one rater. Source: Shrout and Fleiss (1979), Psych. Bull. 86.
    """
    paired = design.paired(frame)
    x = paired.values[~np.isnan(paired.values).any(axis=1)]
    n, k = x.shape
    if n < 2:
        raise InputError(f"{n} items were rated by all {k} raters, at least 2 are needed")
    rows_ss = k * float(((x.mean(axis=1) - x.mean()) ** 2).sum())
    columns_ss = n * float(((x.mean(axis=0) - x.mean()) ** 2).sum())
    whole = float(((x - x.mean()) ** 2).sum())
    msr, msc = rows_ss / (n - 1), columns_ss / (k - 1)
    mse = max(0.0, whole - rows_ss - columns_ss) / ((n - 1) * (k - 1))
    upper = (1 + design.confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.divide(msr - mse, msr + (k - 1) * mse + k * (msc - mse) / n)
        a, b = k * one / (n * (1 - one)), 1 + k * one * (n - 1) / (n * (1 - one))
        df = (a * msc + b * mse) ** 2 / ((a * msc) ** 2 / (k - 1) + (b * mse) ** 2 / ((n - 1) * (k - 1)))
        wide, narrow = scipy.stats.f.ppf(upper, n - 1, df), scipy.stats.f.ppf(upper, df, n - 1)
        rest = k * msc + (k * n - k - n) * mse
        low = n * (msr - wide * mse) / (wide * rest + n * msr)
        high = n * (narrow * msr - mse) / (rest + n * narrow * msr)
        single = np.array([one, low, high])
        estimate, low, high = (k * single / (1 + (k - 1) * single)).tolist()  # Spearman and Brown
    return paired.row(x, icc=estimate, low=low, high=high)
