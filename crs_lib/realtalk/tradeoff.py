"""A declared trade-off between two measures: what one may lose if the other gains."""

import re
from collections.abc import Mapping
from math import isnan, nan
from typing import Any

TRADEOFF = re.compile(r"(?P<loss>.+) -(?P<most>[\d.]+) for (?P<gain>.+) \+(?P<least>[\d.]+)")
_ROUNDING = 1e-9


def verdict(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Whether measures keep a trade-off such as ``f1 -0.01 for recall +0.02``.

    ``kept``, ``broken``, or empty where none is declared or a measure is missing.
    """
    match = TRADEOFF.fullmatch(text)
    if not match:
        return ""
    loss, gain = match["loss"], match["gain"]
    fall = before.get(loss, nan) - after.get(loss, nan)
    rise = after.get(gain, nan) - before.get(gain, nan)
    if isnan(fall) or isnan(rise):
        return ""
    within = fall <= float(match["most"]) + _ROUNDING and rise >= float(match["least"]) - _ROUNDING
    return "kept" if within else "broken"
