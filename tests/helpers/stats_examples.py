"""Published data sets and ways to make tidy frames of them."""

import numpy as np
import pandas as pd

# Dobson (1983), An Introduction to Statistical Modelling; R's PlantGrowth.
PLANT_GROWTH = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}
# Student (1908), extra sleep of ten patients on two drugs; R's sleep.
SLEEP = {
    "drug1": [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    "drug2": [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
}
# Hollander and Wolfe (1973), p. 29: depression scale of nine patients on two visits.
DEPRESSION = {
    "first": [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
    "second": [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29],
}
# Darwin's Zea mays as in Fisher (1935), section 17: crossed minus self-fertilised, eighths of an inch.
ZEA_MAYS = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
# Hollander and Wolfe (1973), p. 140: 22 players round first base in three ways.
ROUNDING_TIMES = np.array(
    """5.40 5.50 5.55 5.85 5.70 5.75 5.20 5.60 5.50 5.55 5.50 5.40 5.90 5.85 5.70 5.45 5.55 5.60 5.40 5.40
    5.35 5.45 5.50 5.35 5.25 5.15 5.00 5.85 5.80 5.70 5.25 5.20 5.10 5.65 5.55 5.45 5.60 5.35 5.45 5.05
    5.00 4.95 5.50 5.50 5.40 5.45 5.55 5.50 5.55 5.55 5.35 5.45 5.50 5.55 5.50 5.45 5.25 5.65 5.60 5.40
    5.70 5.65 5.55 6.30 6.30 6.25""".split(),
    dtype=float,
).reshape(22, 3)
# Shrout and Fleiss (1979), table 2: six targets, four judges.
SHROUT_FLEISS = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]).T
# Krippendorff (2011), part C: four observers, twelve units.
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
    [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
])  # fmt: skip
# Freireich et al. (1963): weeks in remission, + marks censored; Kalbfleisch and Prentice (2002), p. 2.
FREIREICH = {
    "6-MP": "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+".split(),
    "placebo": "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23".split(),
}


def groups_frame(groups):
    """Independent samples as a tidy frame; every value is a scenario of its own."""
    frame = paired_frame(groups)
    return frame.assign(scenario=range(len(frame)))[["system", "value", "scenario"]]


def paired_frame(groups):
    """Samples of equal length as a tidy frame: the i-th values share scenario i."""
    rows = []
    for name, values in groups.items():
        rows += [(name, scenario, value) for scenario, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["system", "scenario", "value"])


def matrix_frame(x, names=None):
    """A matrix, scenarios by systems, as a tidy frame."""
    columns = np.asarray(x, dtype=float).T
    if names is None:
        names = [f"s{number}" for number in range(len(columns))]
    return paired_frame(dict(zip(names, columns, strict=True)))


def gaps_frame(gaps):
    """The differences of a system from one whose values are zero, as a tidy frame."""
    return matrix_frame(np.column_stack([gaps, np.zeros(len(gaps))]))


def remission_frame():
    """The weeks in remission as times and events."""
    rows = []
    for name, times in FREIREICH.items():
        rows += [(name, float(time.rstrip("+")), not time.endswith("+")) for time in times]
    return pd.DataFrame(rows, columns=["system", "time", "event"])


def random_matrix(seed, n, k, effect=0.3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, k)) + effect * np.arange(k)


def ratings(table):
    """Raters by items as a tidy frame."""
    rows = []
    for rater, values in enumerate(table):
        rows += [(item, rater, value) for item, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["item", "rater", "value"])
