"""What the classical tests assume, checked, with what follows from each check in words."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.design import USUAL, Design, Floats
from crs_lib.stats.paired import two_way_residuals

_NAN = float("nan")
_MOST_SHAPIRO = 5000  # values up to which Shapiro and Wilk's p is accurate
_UNKNOWN = "could not be checked (too little variation or too few scenarios); to be safe, "


class _Advice(NamedTuple):
    """What to read where a check holds, where it fails, and where it fails for independent samples."""

    holds: str
    fails: str
    fails_apart: str = ""


_ADVICE = {
    "equal variances": _Advice(
        "no sign of unequal variances: one-way ANOVA with Tukey can be read",
        "variances differ: read Welch's ANOVA and the paired tests in place of one-way ANOVA with Tukey",
        "variances differ: read Welch's ANOVA and Games and Howell's test "
        "in place of one-way ANOVA with Tukey",
    ),
    "normal residuals": _Advice(
        "no sign against normal residuals: t intervals can be read",
        "residuals are not normal: read the tests of means",
        "residuals are not normal: read Welch's test",
    ),
    "sphericity": _Advice(
        "no sign against sphericity: the uncorrected p of the repeated-measures ANOVA can be read",
        "sphericity fails: read the Greenhouse-Geisser p of the repeated-measures ANOVA",
    ),
}


def assumptions(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """The checks of the classical tests: three rows, two for independent samples.

    ``holds`` is missing where a check could not be made; ``follows`` says what to read. Raises InputError as
    :func:`rm_anova`. Source: Brown and Forsythe (1974), JASA 69; Shapiro and Wilk (1965), Biometrika 52;
    D'Agostino and Pearson (1973), Biometrika 60; Mauchly (1940), Ann. Math. Stat. 11.
    """
    apart = design.independent(frame)
    parts = [_levene(frame, design)]
    if apart:
        parts.append(_normality_apart(frame, design))
    else:
        parts.append(_normality(frame, design))
        parts.append(_sphericity(frame, design))
    table = pd.concat(parts, ignore_index=True)
    holds: list[bool | None] = []
    follows = []
    for check, p in zip(table["check"], table["p"], strict=True):
        advice = _ADVICE[check]
        fails = advice.fails_apart if apart else advice.fails
        verdict = None if np.isnan(p) else bool(p >= design.alpha)
        holds.append(verdict)
        if verdict is None:
            follows.append(_UNKNOWN + fails.split(": ")[1])
        else:
            follows.append(advice.holds if verdict else fails)
    table.insert(4, "holds", holds)
    table.insert(5, "follows", follows)
    return table


def _levene(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Levene's test around medians (Brown-Forsythe): do the systems vary alike? NaN when none varies."""
    groups = design.groups(frame)
    statistic = p = _NAN
    if any(np.ptp(sample) > 0 for sample in groups.samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic, p = scipy.stats.levene(*groups.samples, center="median")
    return groups.row(check="equal variances", test="Levene", statistic=statistic, p=p)


def _normality(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Are the residuals normal, scenario and system effects taken out?"""
    paired = design.paired(frame)
    complete = paired.complete()
    return paired.row(complete, **_normal_test(complete, two_way_residuals(complete).ravel()))


def _normality_apart(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Are the residuals of independent samples normal, system effects taken out?"""
    groups = design.groups(frame)
    residuals = [sample - sample.mean() for sample in groups.samples]
    return groups.row(**_normal_test(np.concatenate(groups.samples), np.concatenate(residuals)))


def _normal_test(values: Floats, residuals: Floats) -> dict[str, object]:
    """The test by the number of residuals; NaN when nothing varies."""
    few = len(residuals) <= _MOST_SHAPIRO
    test = "Shapiro-Wilk" if few else "D'Agostino-Pearson"
    statistic = p = _NAN
    if np.ptp(residuals) > 1e-12 * np.abs(values).max():
        statistic, p = scipy.stats.shapiro(residuals) if few else scipy.stats.normaltest(residuals)
    return {"check": "normal residuals", "test": test, "statistic": statistic, "p": p}


def _sphericity(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Mauchly's test: do all differences between systems vary alike?"""
    paired = design.paired(frame)
    complete = paired.complete()
    w, p = _mauchly(complete)
    return paired.row(complete, check="sphericity", test="Mauchly", statistic=w, p=p)


def _mauchly(x: Floats) -> tuple[float, float]:
    """Mauchly's W and its p with the second-order term; 1 for two systems, NaN with fewer complete scenarios
    than systems or without variation.
    """
    n, k = x.shape
    if k == 2:
        return 1.0, 1.0
    polynomials = np.vander(np.arange(k), k, increasing=True).astype(float)
    contrasts = np.linalg.qr(polynomials)[0][:, 1:]
    values = np.linalg.eigvalsh(np.cov(x @ contrasts, rowvar=False))
    if n < k or not values.min() > 1e-13 * values.max():
        return _NAN, _NAN
    m = k - 1
    df = k * (k - 1) // 2 - 1
    w = float(np.exp(np.log(values).sum() - m * np.log(values.mean())))
    shrink = 1 - (2 * m**2 + m + 2) / (6 * m * (n - 1))
    chi2 = -shrink * (n - 1) * float(np.log(w))
    second = (m + 2) * (m - 1) * (m - 2) * (2 * m**3 + 6 * m**2 + 3 * m + 2)
    second /= 288 * (m * (n - 1) * shrink) ** 2
    tail = float(scipy.stats.chi2.sf(chi2, df))
    further = float(scipy.stats.chi2.sf(chi2, df + 4))
    return w, min(1.0, max(0.0, tail + second * (further - tail)))
