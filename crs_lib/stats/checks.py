"""What the classical tests assume, whether it holds here, and what follows, in words."""

from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.frames import (
    Floats,
    check_level,
    complete_values,
    group_samples,
    paired_values,
    table,
)
from crs_lib.stats.paired import sphericity_epsilons


def levene(frame: pd.DataFrame, *, system: str = "system", value: str = "value") -> pd.DataFrame:
    """Levene's W >= 0 around medians (Brown-Forsythe): do the systems vary alike? One row.

    NaN when no system varies. Raises InputError for fewer than 2 systems or values.
    Source: Brown and Forsythe (1974), JASA 69; the test is scipy's levene.
    """
    groups = group_samples(frame, system=system, value=value)
    w = p = float("nan")
    if any(np.ptp(sample) > 0 for sample in groups.samples):
        with np.errstate(divide="ignore", invalid="ignore"):
            w, p = (float(x) for x in scipy.stats.levene(*groups.samples, center="median"))
    row = {"check": "equal variances", "test": "Levene", "statistic": w, "p": p}
    return table([row | {"n": sum(map(len, groups.samples)), "n_missing": sum(groups.missing)}])


def normality(
    frame: pd.DataFrame, *, system: str = "system", scenario: str = "scenario", value: str = "value"
) -> pd.DataFrame:
    """Are the residuals (scenario and system effects taken out) normal? Over complete scenarios, one row.

    Shapiro-Wilk's W in (0, 1] up to 5000 residuals, D'Agostino and Pearson's K2 >= 0 beyond, with
    ``skew`` and excess ``kurtosis``, which tell more than p when there are many. NaN when nothing
    varies. Raises InputError as :func:`rm_anova`.
    Source: Shapiro and Wilk (1965), Biometrika 52; D'Agostino and Pearson (1973), Biometrika 60.
    """
    paired = paired_values(frame, system=system, scenario=scenario, value=value)
    x = complete_values(paired)
    residual = (x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()).ravel()
    test = "Shapiro-Wilk" if len(residual) <= 5000 else "D'Agostino-Pearson"
    row: dict[str, Any] = {"check": "normal residuals", "test": test, "statistic": np.nan}
    row |= {"p": np.nan, "skew": np.nan, "kurtosis": np.nan}
    if np.ptp(residual) > 1e-12 * np.abs(x).max():
        run = scipy.stats.shapiro if len(residual) <= 5000 else scipy.stats.normaltest
        statistic, p = run(residual)
        row |= {"statistic": float(statistic), "p": float(p), "skew": float(scipy.stats.skew(residual))}
        row |= {"kurtosis": float(scipy.stats.kurtosis(residual))}
    return table([row | {"n": len(x), "n_missing": len(paired.values) - len(x)}])


def mauchly(
    frame: pd.DataFrame, *, system: str = "system", scenario: str = "scenario", value: str = "value"
) -> pd.DataFrame:
    """Mauchly's W in [0, 1]: do all differences between systems vary alike (sphericity)? One row.

    Two systems are spherical by definition (W 1, p 1). NaN with fewer complete scenarios than
    systems, or differences that do not vary. Raises InputError as :func:`rm_anova`.
    Source: Mauchly (1940), Ann. Math. Stat. 11.
    """
    paired = paired_values(frame, system=system, scenario=scenario, value=value)
    x = complete_values(paired)
    w, chi2, df, p = _mauchly(x)
    row = {"check": "sphericity", "test": "Mauchly", "statistic": w, "chi2": chi2, "df": df, "p": p}
    row |= {"epsilon_gg": sphericity_epsilons(x)[0], "n": len(x)}
    return table([row | {"n_missing": len(paired.values) - len(x)}])


def _mauchly(x: Floats) -> tuple[float, float, int, float]:
    n, k = x.shape
    df = k * (k - 1) // 2 - 1
    if k == 2:
        return 1.0, 0.0, 0, 1.0
    contrasts = np.linalg.qr(np.vander(np.arange(k), k, increasing=True).astype(float))[0][:, 1:]
    values = np.linalg.eigvalsh(np.cov(x @ contrasts, rowvar=False))
    if n < k or values.min() <= 1e-13 * values.max():
        return float("nan"), float("nan"), df, float("nan")
    m = k - 1
    w = float(np.exp(np.log(values).sum() - m * np.log(values.mean())))
    shrink = 1 - (2 * m**2 + m + 2) / (6 * m * (n - 1))
    chi2 = -shrink * (n - 1) * float(np.log(w))
    second = (m + 2) * (m - 1) * (m - 2) * (2 * m**3 + 6 * m**2 + 3 * m + 2)
    second /= 288 * (m * (n - 1) * shrink) ** 2
    tail, further = float(scipy.stats.chi2.sf(chi2, df)), float(scipy.stats.chi2.sf(chi2, df + 4))
    return w, chi2, df, min(1.0, max(0.0, tail + second * (further - tail)))


def assumptions(
    frame: pd.DataFrame,
    *,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    alpha: float = 0.05,
) -> pd.DataFrame:
    """The three checks of the classical tests with what follows from each in words; three rows.

    ``holds`` is missing where the check could not be made. Raises InputError as :func:`rm_anova`.
    Source: see :func:`levene`, :func:`normality`, :func:`mauchly`.
    """
    check_level("alpha", alpha)
    at = {"system": system, "scenario": scenario, "value": value}
    made = [levene(frame, system=system, value=value), normality(frame, **at), mauchly(frame, **at)]
    rows = []
    for check in (found.iloc[0] for found in made):
        holds = None if np.isnan(check["p"]) else bool(check["p"] >= alpha)
        row = {field: check[field] for field in ("check", "test", "statistic", "p")}
        row |= {"holds": holds, "follows": _follows(check, holds)}
        rows.append(row | {"n": int(check["n"]), "n_missing": int(check["n_missing"])})
    return table(rows)


def _follows(check: Any, holds: bool | None) -> str:
    words = {
        "equal variances": (
            "no sign of unequal variances: one-way ANOVA with Tukey can be read",
            "variances differ: read Welch's ANOVA with Games-Howell in place of one-way ANOVA with Tukey",
        ),
        "normal residuals": (
            "no sign against normal residuals: t intervals can be read",
            "residuals are not normal: read Wilcoxon, the sign-flip test and the bootstrap intervals",
        ),
        "sphericity": (
            "no sign against sphericity: the uncorrected p of the repeated-measures ANOVA can be read",
            "sphericity fails: read the Greenhouse-Geisser p of the repeated-measures ANOVA",
        ),
    }[str(check["check"])]
    if holds is None:
        return f"could not be checked (too little variation or too few scenarios): assume not; {words[1]}"
    return words[0] if holds else words[1]
