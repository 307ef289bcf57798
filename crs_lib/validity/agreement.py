"""How far a score agrees with ratings that people gave: Spearman with intervals over conversations."""

import math
from dataclasses import dataclass

import pandas as pd

from crs_lib import stats
from crs_lib.stats.effects import spearman


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho of ``n`` rows in [−1, 1] with its 95 % interval; NaN where it is undefined."""

    n: int
    spearman: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Lead:
    """How far the correlation of one score lies above another's on the same rows, with its 95 % interval."""

    diff: float
    diff_low: float
    diff_high: float


def rho(
    frame: pd.DataFrame, score: str, rating: str, *, minus: str = "", resamples: int = 1000
) -> Correlation:
    """Spearman of two columns with its interval over conversations (``system`` and ``conv_id``).

    With ``minus`` the interval is that of the difference to a third column's correlation.
    """
    columns = list(dict.fromkeys([score, rating, minus or score]))
    rows = frame.dropna(subset=columns).astype(dict.fromkeys(columns, float))
    estimate = Correlation(len(rows), spearman(rows[score], rows[rating]))
    if math.isnan(estimate.spearman):
        return estimate
    rows = rows.assign(conversation=rows["system"] + " " + rows["conv_id"])
    design = stats.Design(scenario="conversation", resamples=resamples)
    bootstrap = stats.cluster_bootstrap_correlation(
        rows, score, rating, design, minus=minus, method="percentile"
    )
    low, high = bootstrap.loc[0, ["low", "high"]].astype(float)
    return Correlation(estimate.n, estimate.spearman, low, high)


def lead(frame: pd.DataFrame, score: str, baseline: str, rating: str, *, resamples: int = 1000) -> Lead:
    """Spearman of a score less that of a baseline, on the rows that have both."""
    both = frame.dropna(subset=list({score, baseline, rating}))
    ours = rho(both, score, rating, minus=baseline, resamples=resamples)
    theirs = spearman(both[baseline], both[rating])
    return Lead(ours.spearman - theirs, ours.low, ours.high)


def one_against_rest(ratings: pd.DataFrame) -> pd.DataFrame:
    """The ratings of items with more than one, each with ``rest``, the mean of the others of its item."""
    by_item = ratings.groupby("item")["value"]
    n = by_item.transform("size")
    others = (by_item.transform("sum") - ratings["value"]) / (n - 1).clip(lower=1)
    return ratings.assign(rest=others)[n > 1].reset_index(drop=True)
