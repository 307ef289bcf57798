"""The sentences that a run is quoted with: gain after a change, its cost, recovery, and the plain score.

Notebook 05 prints them, the report opens with them, and the README quotes those of the demo run.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import evaluate, stats
from crs_lib.core import paths, tables
from crs_lib.core.text import shorten
from crs_lib.figures.base import recovered_by
from crs_lib.metrics import base
from crs_lib.metrics.gain import ABLE
from crs_lib.report import figure_tables
from crs_lib.simulate import STUDY
from crs_lib.simulate.scenarios import REFINEMENT
from crs_lib.stats import Estimate
from crs_lib.stats.estimate import EQUIVALENT, HIGHER, LOWER, NOT_COMPARED, signed

ORACLE = "oracle"  # knows the constraints: the mark that others are held against
HORIZON = 3  # replies within which recovery is told
SMALLEST = 0.05  # costs up to this are called small, where the interval shows it
MOST_FAILED = 0.1  # of a system's sessions: above it there is no verdict
_LONGEST = 160  # characters of a message
_AT = {"system": "model", "scenario": "session_id"}
_ARMS = ["straight_gain", "shift_cost"]


class Failed(NamedTuple):
    """The sessions of a system that failed, those that were asked for, and the three commonest messages."""

    system: str
    failed: int
    sessions: int
    messages: tuple[str, ...]

    @property
    def too_many(self) -> bool:
        """Whether more than a tenth failed, so that there is no verdict."""
        return self.failed > MOST_FAILED * self.sessions

    @property
    def sentence(self) -> str:
        """What is said of them first."""
        share = f"{self.failed} of {self.sessions} sessions of {self.system} failed"
        if not self.too_many:
            return f"{share}, scored as silent from there. Commonest: {'; '.join(self.messages)}."
        cure = "more than a tenth: no verdict on it, mend this first. Commonest"
        return f"{share}, {cure}: {'; '.join(self.messages)}."


def failures(results: pd.DataFrame) -> list[Failed]:
    """The failures of every system that has any, from the session scores of a run."""
    rows = []
    for system, details in results.groupby("model", sort=False)["detail"]:
        messages = Counter[str]()
        for detail in details:
            if detail.get("failed"):
                message = " ".join(str(detail["failed"]).split())
                messages[shorten(message, _LONGEST)] += 1
        commonest = [f"{message} ({n})" for message, n in messages.most_common(3)]
        if messages:
            rows.append(Failed(str(system), messages.total(), len(details), tuple(commonest)))
    return rows


def missing(results: pd.DataFrame, metric: str) -> dict[str, str]:
    """Why sessions of each system have no value of a metric, as "3 no primary window, 1 failed"."""
    reasons: dict[str, Counter[str]] = {}
    lacking = results[results[metric].isna()]
    for row in lacking[["model", "detail"]].to_dict("records"):
        reasons.setdefault(str(row["model"]), Counter())[_reason(row["detail"], metric)] += 1
    words = {}
    for system, counts in reasons.items():
        parts = [f"{n} {reason}" for reason, n in counts.most_common()]
        words[system] = ", ".join(parts)
    return words


def _reason(detail: Mapping[str, Any], metric: str) -> str:
    """Why a session has no value of a metric."""
    if detail.get("failed"):
        return "failed"
    if base.get(metric).primary:
        return str(detail.get("cost_undefined") or "undefined")
    return "undefined"


def after_change(results: pd.DataFrame) -> str:
    """Whether the best system by gain after a change, but for the oracle, adapts better than the next one."""
    lacking = {base.PRIMARY, "misfit", *_ARMS} - set(results)
    if lacking or results[base.PRIMARY].isna().all():
        return "No gain after a change: it needs the arms shift and straight, which the run lacks."
    order = [name for name in _order(results, base.PRIMARY) if name != ORACLE]
    if len(order) < 2:
        return "No comparison of gains after a change: it needs two systems beside the oracle."
    best, second = order[:2]
    return stats.adaptation_of(results, best, second, system="model", scenario="session_id").sentence


def adaptation(shifts: pd.DataFrame) -> str:
    """The largest shift cost of an able system, and that of the ablest other; one window a scenario."""
    if not {*_ARMS, "primary"} <= set(shifts) or shifts["shift_cost"].isna().all():
        return "No cost of a shift: it needs the arms shift and straight, which the run lacks."
    first = shifts[shifts["primary"].astype(bool)].dropna(subset=_ARMS).astype({"model": str})
    gains, costs = {}, {}
    for name, part in first.groupby("model", sort=False):
        gain = stats.mean_interval(part["straight_gain"])
        if gain.value >= ABLE:
            gains[str(name)] = gain
            costs[str(name)] = stats.mean_interval(part["shift_cost"])
    if not costs:
        return f"No system has a gain of {ABLE:g} with straight users, so none has anything to lose."
    worst = max(costs, key=lambda name: costs[name].value)
    sentence = f"At a change of mind {worst}, whose gain with straight users is {gains[worst].value:.2f}, "
    sentence += pays(costs[worst])
    others = [name for name in costs if name not in (worst, ORACLE)]
    if others:
        other = max(others, key=lambda name: gains[name].value)
        rank = "the best with straight users"
        rank += f" after {ORACLE}" if ORACLE in costs else " of the others"
        sentence += f"; {other}, {rank}, {pays(costs[other])}"
    return f"{sentence}."


def pays(cost: Estimate) -> str:
    """What a cost comes to: a loss or a gain, shown to be small, or not shown at all."""
    verdict = stats.verdict(cost, SMALLEST)
    if verdict == HIGHER:
        return f"loses {cost}"
    if verdict == LOWER:
        return f"gains {cost.turned}"
    if verdict == EQUIVALENT:
        return f"loses {cost}, shown to be less than {SMALLEST}"
    if verdict == NOT_COMPARED:
        return f"has too few differing scenarios to tell ({signed(cost.value)})"
    return f"is not shown to lose anything: {cost}, so a loss of {cost.high:.2f} is possible"


def recovery(shifts: pd.DataFrame) -> str:
    """Replies (to ``HORIZON``) that the quickest system waits beyond the oracle; another's lost shifts."""
    waits = _waits(shifts)
    if waits.empty:
        return f"No recovery: no shift was followed for {HORIZON} replies."
    means = stats.means_of(waits, "wait", **_AT)
    order = sorted(means, key=lambda name: (name != ORACLE, means[name].value))
    if len(order) < 2:
        return "No recovery: a wait is compared with that of another system, and the run has one."
    mark, quick, *others = order
    more = stats.difference_of(waits, quick, mark, "wait", **_AT)
    size = f"{more} more" if more.value >= 0 else f"{more.turned} fewer"
    sentence = f"After a change of mind {quick} needs on average {size} replies than {mark} (counted up to "
    sentence += f"{HORIZON}) until a film meets every constraint"
    if not more.excludes_zero:
        sentence += ", an interval that includes 0"
    if others:
        slow = _ablest(shifts, others)
        lost = stats.share_of(waits[waits["model"] == slow], "lost", scenario="session_id")
        sentence += f"; after {lost:%} of the changes, {slow} shows no such film within {HORIZON} replies"
    return f"{sentence}."


def _ablest(shifts: pd.DataFrame, names: list[str]) -> str:
    """The system with the highest gain with straight users; the first where none is known."""
    if "straight_gain" not in shifts:
        return names[0]
    gains = shifts["straight_gain"].astype(float).groupby(shifts["model"].astype(str)).mean().fillna(-1.0)
    return max(names, key=lambda name: gains.get(name, -1.0))


def _waits(shifts: pd.DataFrame) -> pd.DataFrame:
    """Changes of mind, so no refinements, followed for ``HORIZON`` replies: replies until recovery, at most
    so many; whether none came.
    """
    columns = ["model", "session_id", "wait", "lost"]
    if "watched" not in shifts or shifts.empty:
        return pd.DataFrame(columns=columns)
    watched = shifts[shifts["watched"] >= HORIZON].astype({"model": str})
    if "type" in watched:
        watched = watched[watched["type"] != REFINEMENT]
    delay = watched[f"delay_{recovered_by(shifts)}"].astype(float)
    in_time = delay < HORIZON
    return watched.assign(wait=delay.where(in_time, float(HORIZON)), lost=~in_time)[columns]


def plain_score(results: pd.DataFrame) -> str:
    """Whether the plain score, which counts words, puts first what the gain puts first."""
    gain, plain = "normalised_gain", "topic_adaptation_score"
    if gain not in results or plain not in results:
        return "The scores of this convention hold no gain to set beside the plain score."
    by_gain, by_plain = _order(results, gain), _order(results, plain)
    if len(by_gain) < 2 or len(by_plain) < 2:
        return "No order of systems: it needs two with a value."
    first, best = by_plain[0], by_gain[0]
    words, films = base.get(plain).short, base.get(gain).short
    if first == best:
        return f"{words} and {films} put the same system first, {best}."
    gap = stats.difference_of(results, first, best, plain, **_AT)
    rank = f"{first} has no {films}"
    if first in by_gain:
        rank = f"by {films} over all turns {first} ranks {by_gain.index(first) + 1} of {len(by_gain)}"
    sentence = f"{words}, which compares the words of user and reply, ranks {first} first: "
    sentence += f"its {words} is {gap} higher than that of {best}"
    return f"{sentence}; {rank}."


def _order(results: pd.DataFrame, outcome: str) -> list[str]:
    """The systems that have a mean, the highest first."""
    means = stats.means_of(results, outcome, **_AT)
    return sorted(means, key=lambda name: -means[name].value)


def summary(run: str, convention: str = "") -> list[str]:
    """The sentences with which notebook 05 ends: the report and the README quote them."""
    name = evaluate.convention_of(run, convention)
    shifts = figure_tables.read(run, "shifts", name)
    results = evaluate.read(run, "results", name)
    return [after_change(results), adaptation(shifts), recovery(shifts), plain_score(results)]


def write(run: str, convention: str = "") -> Path:
    """Write the sentences of :func:`summary` as a list, ``findings.md`` beside the figures of a run."""
    lines = [f"- {_escaped(sentence)}\n" for sentence in summary(run, convention)]
    return tables.write_whole(paths.figures() / f"{STUDY}-{run}" / "findings.md", "".join(lines))


def _escaped(sentence: str) -> str:
    """The sentence for Markdown: a name from outside in it makes no element, link, image or line."""
    text = re.sub(r"<(?=[A-Za-z!/?])", "&lt;", sentence)
    return " ".join(text.replace("](", "]\\(").replace("][", "]\\[").splitlines())


def quote(text: str, page: Path) -> None:
    """Put a text between the two markers of a page; nothing happens to a page without them."""
    start, end = "<!-- findings -->", "<!-- /findings -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    head, _, after = old.partition(start)
    _, closing, tail = after.partition(end)
    new = f"{head}{start}\n{text.strip()}\n{end}{tail}"
    if closing and new != old:
        tables.write_whole(page, new)
