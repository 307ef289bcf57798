"""Two one-sided tests: evidence that a difference is too small to matter, not mere lack of proof."""

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.errors import InputError
from crs_lib.stats.frames import Pairs, check_level, differences, paired_values, table


def tost_pairs(
    frame: pd.DataFrame,
    margin: float,
    *,
    pairs: Pairs | None = None,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Paired equivalence test within ``-margin .. margin`` (units of the value); a row for each pair.

    ``p`` is the larger of ``p_lower`` (the difference is at or below -margin) and ``p_upper`` (at or
    above margin); ``equivalent`` says that p < alpha, which is when the 1 - 2 alpha interval ``low ..
    high`` lies within the margin. Differences that do not vary are p 0 inside the margin, else 1.

    Raises InputError for a margin that is not above 0 or a pair with fewer than 2 shared scenarios.
    Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15; Lakens (2017), SPPS 8.
    """
    check_level("alpha", alpha)
    if not margin > 0:
        raise InputError(f"margin={margin!r}: expected the smallest difference that matters, above 0")
    rows = []
    for d in differences(paired_values(frame, system=system, scenario=scenario, value=value), pairs):
        n, mean = len(d.values), float(d.values.mean())
        error = float(d.values.std(ddof=1)) / n**0.5
        with np.errstate(divide="ignore"):
            above, below = (np.divide(mean + side * margin, error) for side in (1, -1))
        lower, upper = float(scipy.stats.t.sf(above, n - 1)), float(scipy.stats.t.cdf(below, n - 1))
        half = float(scipy.stats.t.ppf(1 - alpha, n - 1)) * error
        row = {"a": d.a, "b": d.b, "diff": mean, "low": mean - half, "high": mean + half}
        row |= {"margin": float(margin), "p_lower": lower, "p_upper": upper, "p": max(lower, upper)}
        row |= {"equivalent": max(lower, upper) < alpha, "n": n, "n_missing": d.missing}
        rows.append(row)
    return table(rows)
