"""Many tests at once: a declared family, a declared correction, raw and adjusted p side by side."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.frames import Floats, check_columns, numbers


def holm(p: Sequence[float] | Floats) -> Floats:
    """Holm's adjusted p values in [0, 1], in the order given; NaN stays NaN and does not count.

    Rejecting where they are at most alpha keeps the chance of any false rejection at alpha.
    Source: Holm (1979), Scand. J. Stat. 6.
    """
    return _adjusted(p, "holm")


def benjamini_hochberg(p: Sequence[float] | Floats) -> Floats:
    """Benjamini-Hochberg adjusted p values in [0, 1], in the order given; NaN stays NaN.

    Rejecting where they are at most alpha keeps the expected share of false rejections at alpha.
    Source: Benjamini and Hochberg (1995), JRSS B 57.
    """
    return _adjusted(p, "benjamini_hochberg")


def adjust(
    frame: pd.DataFrame, *, p: str = "p", family: str | None = None, method: str = "holm"
) -> pd.DataFrame:
    """The frame with ``p_adjusted`` and ``family_size`` beside ``p``, row order kept.

    ``family`` names the column that tells the families apart (None: one family). Tests without a p
    (NaN) are no members. Raises InputError for an unknown method or column or a p outside [0, 1].
    """
    check_columns(frame, *([p] if family is None else [p, family]))
    raw = numbers(frame, p)
    code = np.zeros(len(raw), dtype=np.intp)
    if family is not None:
        code = np.asarray(pd.factorize(frame[family], use_na_sentinel=False)[0], dtype=np.intp)
    adjusted, size = np.full(len(raw), np.nan), np.zeros(len(raw), dtype=int)
    for k in np.unique(code):
        mine = code == k
        adjusted[mine] = _adjusted(raw[mine], method)
        size[mine] = int((~np.isnan(raw[mine])).sum())
    return frame.assign(p_adjusted=adjusted, family_size=size)


def _adjusted(p: Sequence[float] | Floats, method: str) -> Floats:
    if method not in METHODS:
        raise InputError(f"method {method!r} is not known; use one of {', '.join(METHODS)}")
    raw = np.asarray(p, dtype=float)
    known = ~np.isnan(raw)
    if ((raw[known] < 0) | (raw[known] > 1)).any():
        raise InputError(f"p values outside [0, 1]: {raw[known][(raw[known] < 0) | (raw[known] > 1)]}")
    adjusted = np.full(len(raw), np.nan)
    if known.any():
        adjusted[known] = METHODS[method](raw[known])
    return adjusted


def _step_down(p: Floats) -> Floats:
    """Holm: the k-th smallest of n p values times n − k + 1, never below the one before, at most 1."""
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def _step_up(p: Floats) -> Floats:
    # Not statsmodels' multipletests, which runs the garbage collector at every call.
    from statsmodels.stats.multitest import fdrcorrection

    return np.asarray(fdrcorrection(p)[1], dtype=float)


METHODS: dict[str, Callable[[Floats], Floats]] = {"holm": _step_down, "benjamini_hochberg": _step_up}
