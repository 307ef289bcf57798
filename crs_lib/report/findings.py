"""The three sentences that a run is quoted with: cost of a shift, recovery, and where the plain score errs.
Notebook 05 shows them, the report opens with them, and the README quotes those of the demo run.
"""

import math
import re
from pathlib import Path

import pandas as pd

from crs_lib import evaluate, stats
from crs_lib.core import paths, tables
from crs_lib.figures.base import recovered_by
from crs_lib.metrics import base
from crs_lib.metrics.gain import ABLE
from crs_lib.report import figure_tables
from crs_lib.simulate import STUDY
from crs_lib.stats import Estimate, Finding
from crs_lib.stats.means import difference_of, means_of, share_of

ORACLE = "oracle"  # knows the constraints: the mark that others are held against
HORIZON = 3  # replies within which recovery is told
_AT = {"system": "model", "scenario": "session_id"}
_ARMS = ["straight_gain", "shift_cost"]
SMALLEST = 0.05  # costs up to this are called small, where the interval shows it


def adaptation(shifts: pd.DataFrame) -> Finding:
    """The largest shift cost of an able system, and that of the ablest other; one window a scenario."""
    if not {*_ARMS, "primary"} <= set(shifts) or shifts["shift_cost"].isna().all():
        return stats.finding_none("the cost of a shift needs the arms shift and straight; the run lacks them")
    known = shifts[shifts["primary"].astype(bool)].dropna(subset=_ARMS).astype({"model": str})
    found = {str(name): gain_and_cost(mine) for name, mine in known.groupby("model", sort=False)}
    ability, cost = ({name: pair[i] for name, pair in found.items()} for i in (0, 1))
    if not (able := [name for name in cost if ability[name].value >= ABLE]):
        return stats.finding_none("no system has a gain of .1 with straight users")
    worst = max(able, key=lambda name: cost[name].value)
    others = [name for name in able if name not in (worst, ORACLE)]
    sentence = f"At a change of mind {worst}, whose gain with straight users is {ability[worst].value:.2f}, "
    sentence += pays(cost[worst])
    if others:
        other = max(others, key=lambda name: ability[name].value)
        sentence += f"; {other}, the ablest other system, {pays(cost[other])} (each interval holds alone)"
    return Finding(f"{sentence}.")


def gain_and_cost(shifts: pd.DataFrame) -> tuple[Estimate, Estimate]:
    """The straight gain and the shift cost, means over a system's shifts with 95 % intervals."""
    gain, cost = (stats.cost_interval(shifts[value]) for value in _ARMS)
    return gain, cost


def pays(cost: Estimate) -> str:
    """What a cost comes to: a loss or a rise, shown to be small, or not shown at all."""
    if cost.excludes_zero:
        return f"loses {cost}" if cost.value > 0 else f"gains {cost.turned}"
    if stats.verdict(cost, SMALLEST) == "equivalent":
        return f"loses no more than {SMALLEST} ({cost})"
    if math.isnan(cost.high):
        return f"has too few differing scenarios to tell ({cost.value:.2f})".replace("-", "−")
    return f"is not shown to lose anything: {cost}, so a loss of {cost.high:.2f} is possible"


def recovery(shifts: pd.DataFrame) -> Finding:
    """Replies (to ``HORIZON``) that the quickest system waits beyond the oracle; another's lost shifts."""
    seen = _waits(shifts)
    if seen.empty:
        return stats.finding_none(f"no shift was followed for {HORIZON} replies")
    mean = means_of(seen, "wait", **_AT)
    order = sorted(mean, key=lambda name: (name != ORACLE, mean[name].value))
    if len(order) < 2:
        return stats.finding_none("a wait is compared with that of another system, and the run has one")
    mark, quick, *others = order
    more = difference_of(seen, quick, mark, "wait", **_AT)
    way = f"{more} more replies" if more.value >= 0 else f"{more.turned} fewer replies"
    sentence = f"After a change of mind {quick} takes {way} than {mark} to show a film that meets every "
    sentence += f"constraint{', an interval that includes 0' * (not more.excludes_zero)}"
    if others:
        gain = shifts.get("straight_gain", pd.Series(dtype=float)).astype(float)
        able = gain.groupby(shifts["model"]).mean()
        slow = max(others, key=lambda name: able.fillna(-1.0).get(name, -1.0))
        lost = share_of(seen[seen["model"] == slow], "lost", scenario="session_id")
        sentence += f"; {slow} shows none within {HORIZON} replies after {lost:%} of the changes"
    return Finding(f"{sentence}.")


def _waits(shifts: pd.DataFrame) -> pd.DataFrame:
    """Shifts followed for ``HORIZON`` replies: replies until recovery, at most so many; whether none came."""
    columns = ["model", "session_id", "wait", "lost"]
    if "watched" not in shifts or shifts.empty:
        return pd.DataFrame(columns=columns)
    seen = shifts[shifts["watched"] >= HORIZON].astype({"model": str})
    delay = seen[f"delay_{recovered_by(shifts)}"].astype(float)
    return seen.assign(wait=delay.where(delay < HORIZON, float(HORIZON)), lost=~(delay < HORIZON))[columns]


def plain_score(results: pd.DataFrame) -> Finding:
    """Whether the plain score, which counts words, puts first what the gain puts first."""
    gain, plain = "normalised_gain", "topic_adaptation_score"
    if gain not in results or plain not in results:
        return stats.finding_none("the scores of this convention hold no gain to set beside the plain score")
    by_gain, by_plain = _ranked(results, gain), _ranked(results, plain)
    if len(by_gain) < 2 or len(by_plain) < 2:
        return stats.finding_none("an order needs two systems with a value")
    first, best = by_plain[0], by_gain[0]
    words, films = base.get(plain).short, base.get(gain).short
    if first == best:
        return Finding(f"{words} and {films} put the same system first, {best}.")
    gap = difference_of(results, first, best, plain, **_AT)
    rank = f"{first} has no {films}"
    if first in by_gain:
        rank = f"by {films} {first} ranks {by_gain.index(first) + 1} of {len(by_gain)}"
    return Finding(f"{words}, which compares words, puts {first} first, {gap} above {best}; {rank}.")


def _ranked(results: pd.DataFrame, outcome: str) -> list[str]:
    """The systems that have a mean, the highest first."""
    means = means_of(results, outcome, **_AT)
    return sorted(means, key=lambda name: -means[name].value)


def summary(run: str, convention: str = "") -> stats.Sentences:
    """The sentences with which notebook 05 ends: the report and the README quote them."""
    name = evaluate.convention_of(run, convention)
    shifts, results = figure_tables.read(run, "shifts", name), evaluate.read(run, "results", name)
    return stats.learnt(adaptation(shifts), recovery(shifts), plain_score(results))


def write(run: str, convention: str = "") -> Path:
    """Write the sentences of :func:`summary` as a list, ``findings.md`` beside the figures of a run."""
    text = summary(run, convention)._repr_markdown_() + "\n"
    return tables.write_whole(paths.figures() / f"{STUDY}-{run}" / "findings.md", text)


def quote(text: str, page: Path) -> None:
    """Put a text between the two markers of a page; nothing happens to a page without them."""
    start, end = "<!-- findings -->", "<!-- /findings -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    told = f"{start}\n{text.strip()}\n{end}"
    new = re.sub(f"{start}.*?{end}", lambda _: told, old, flags=re.DOTALL)
    if new != old:
        tables.write_whole(page, new)
