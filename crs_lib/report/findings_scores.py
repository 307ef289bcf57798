"""Findings about the scores of a run: who follows, at what price, how soon, and where numbers are missing."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from crs_lib import evaluate, stats
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.figures.base import recovered_by, systems_of
from crs_lib.metrics import base
from crs_lib.report import figure_tables
from crs_lib.simulate import STUDY
from crs_lib.stats import Estimate, Finding, finding, no_finding

ORACLE = "oracle"  # knows the constraints: the mark that others are held against
HORIZON = 3  # replies within which recovery is told
_AT = {"system": "model", "scenario": "session_id"}


def following(results: pd.DataFrame, outcome: str) -> Finding:
    """Who leads by an outcome, how far the next is behind, and who comes last."""
    means, order = _ranked(results, outcome)
    if len(order) < 2:
        return no_finding(f"a ranking by {_short(outcome)} needs two systems, and {len(order)} has a value")
    best, second, last = order[0], order[1], order[-1]
    gap = stats.difference_of(results, best, second, outcome, **_AT)
    size = gap.turned if gap.value < 0 else gap
    next_one = (
        f"{second} is {size} behind"
        if gap.excludes_zero
        else f"{second} is indistinguishable from it ({size})"
    )
    end = f", and {last} comes last with {means[last]}" if len(order) > 2 else ""
    return finding(f"{best} leads in {_short(outcome)} with {means[best]}; {next_one}{end}.")


def plain_score(results: pd.DataFrame, plain: str = "topic_adaptation_score") -> Finding:
    """Whether the plain score, which counts words, puts first what the gain puts first."""
    gain = "normalised_gain"
    if gain not in results or plain not in results:
        return no_finding("the scores of this convention hold no gain to set beside the plain score")
    _, by_gain = _ranked(results, gain)
    _, by_plain = _ranked(results, plain)
    if len(by_gain) < 2 or len(by_plain) < 2:
        return no_finding("an order needs two systems with a value")
    first, best = by_plain[0], by_gain[0]
    if first == best:
        return finding(f"{_short(plain)} and {_short(gain)} put the same system first, {best}.")
    gap = stats.difference_of(results, first, best, plain, **_AT)
    told = f"the same system has no {_short(gain)}"
    if first in by_gain:
        told = f"the same system's rank by {_short(gain)} is {by_gain.index(first) + 1} of {len(by_gain)}"
    return finding(f"{_short(plain)} puts {first} first, {gap} above {best}; {told}.")


def adaptation(shifts: pd.DataFrame) -> Finding:
    """The largest cost of history, its placebo, and the cost of the ablest other system; means over users."""
    columns = ["fresh_gain", "history_cost", "placebo_cost"]
    if not set(columns) <= set(shifts) or shifts["history_cost"].isna().all():
        return no_finding("the cost of history needs the arms shift, none and fresh, and the run lacks them")
    known = shifts.assign(model=shifts["model"].astype(str)).astype(dict.fromkeys(columns, float))
    users = known.groupby(["model", "session_id"], sort=False)[columns].mean().reset_index()
    ability, cost, placebo = (stats.means_of(users, name, **_AT) for name in columns)
    if not (both := [name for name in cost if name in ability]):
        return no_finding("no system has a shift with a fresh user")
    worst = max(both, key=lambda name: cost[name].value)
    able = [name for name in both if name not in (worst, ORACLE)]
    if cost[worst].excludes_zero and cost[worst].value > 0:
        told = f"History costs {worst} {cost[worst]} of its gain of {ability[worst]} for fresh users"
        if worst in placebo:
            told += f", and {placebo[worst]} where nothing shifts"
    else:
        told = f"No system shows a cost of history; the largest is that of {worst}, {cost[worst]}"
    if able:
        other = max(able, key=lambda name: ability[name].value)
        told += f"; {other}, the ablest other system, {_pays(cost[other])}"
    return finding(f"{told}.")


def _pays(cost: Estimate) -> str:
    if not cost.excludes_zero:
        return f"shows no cost ({cost})"
    return f"pays {cost}" if cost.value > 0 else f"gains {cost.turned}"


def after_shifts(turns: pd.DataFrame, metric: str = "normalised_gain") -> Finding:
    """How far a score falls from before the first shift to after it: most of all, and for the best system."""
    if metric not in turns or "since_shift" not in turns:
        return no_finding(f"the scores of this convention hold no {_short(metric)} by turn")
    frame = turns.assign(model=turns["model"].astype(str), value=turns[metric].astype(float))
    frame["shifted"] = frame["since_shift"].notna()
    keys = ["model", "session_id"]
    sides = frame.pivot_table(index=keys, columns="shifted", values="value", sort=False)
    if sides.shape[1] < 2 or sides.dropna().empty:
        return no_finding("no session has replies before and after a shift")
    session = sides.dropna().reset_index()
    session = session.assign(fall=session[False] - session[True], after=session[True])
    falls, later = (stats.means_of(session, name, **_AT) for name in ("fall", "after"))
    most = max(falls, key=lambda name: falls[name].value)
    told = f"From the replies before the first shift to those after it, the {_short(metric)} of {most} "
    told += _moves(falls[most])
    others = [name for name in later if name not in (most, ORACLE)]
    if others:
        best = max(others, key=lambda name: later[name].value)
        told += f", that of {best} {_moves(falls[best])}"
    return finding(f"{told}.")


def _moves(fall: Estimate) -> str:
    if not fall.excludes_zero:
        return f"does not change measurably (fall {fall})"
    return f"falls by {fall}" if fall.value > 0 else f"rises by {fall.turned}"


def recovery(shifts: pd.DataFrame, horizon: int = HORIZON) -> Finding:
    """Replies that the quickest system waits longer than the oracle, and the shifts another never recovers.

    Waits count up to ``horizon`` replies, over the shifts that were followed for so long: none is censored.
    """
    seen = waits(shifts, horizon)
    if seen.empty:
        return no_finding(f"no shift was followed for {horizon} replies")
    mean = stats.means_of(seen, "wait", **_AT)
    order = sorted(mean, key=lambda name: (name != ORACLE, mean[name].value))
    if len(order) < 2:
        return no_finding("a wait is compared with that of another system, and the run has one")
    mark, quick, *others = order
    more = stats.difference_of(seen, quick, mark, "wait", **_AT)
    way = f"{more} replies more" if more.value >= 0 else f"{more.turned} replies fewer"
    told = f"After a shift {quick} needs {way} than {mark} until one film meets every constraint{more.doubt}"
    if others:
        slow = _ablest(shifts, others)
        lost = stats.share_of(seen[seen["model"] == slow], "lost", scenario="session_id")
        told += f"; {slow} does not recover within {horizon} replies in {lost.percent} of its shifts"
    return finding(f"{told}.")


def waits(shifts: pd.DataFrame, horizon: int = HORIZON) -> pd.DataFrame:
    """Shifts followed for ``horizon`` replies: replies until recovery, at most so many; whether none came."""
    columns = ["model", "session_id", "wait", "lost"]
    if "watched" not in shifts or shifts.empty:
        return pd.DataFrame(columns=columns)
    seen = shifts[shifts["watched"] >= horizon]
    delay = seen[f"delay_{recovered_by(shifts)}"].astype(float)
    lost = ~(delay < horizon)
    frame = seen[["session_id"]].assign(model=seen["model"].astype(str), lost=lost)
    return frame.assign(wait=delay.where(~lost, float(horizon)))[columns]


def _ablest(shifts: pd.DataFrame, names: Sequence[str]) -> str:
    """Of some systems the one with the highest gain for fresh users; the first where no gain is known."""
    if "fresh_gain" not in shifts or shifts["fresh_gain"].isna().all():
        return names[0]
    gains = shifts.assign(model=shifts["model"].astype(str), fresh_gain=shifts["fresh_gain"].astype(float))
    means = gains.groupby("model")["fresh_gain"].mean()
    return max(names, key=lambda name: means.fillna(-1.0).get(name, -1.0))


def explicitness(turns: pd.DataFrame, shifts: pd.DataFrame) -> Finding:
    """What an implied shift costs against a named one, for the system that it costs most."""
    known = [] if "explicitness" not in shifts else sorted(set(shifts["explicitness"].dropna()))
    if len(known) < 2 or "normalised_gain" not in turns:
        kind = f"all shifts of this run are {known[0]}" if known else "the run does not log explicitness"
        return no_finding(f"{kind}, and a finding compares named with implied ones")
    both = shifts[["model", "session_id", "turn", "explicitness"]].merge(
        turns[["model", "session_id", "turn", "normalised_gain"]], on=["model", "session_id", "turn"]
    )
    falls = {}
    for name in systems_of(shifts):
        mine = both[both["model"].astype(str) == name]
        try:
            falls[name] = stats.difference_of(
                mine, known[0], known[1], "normalised_gain", system="explicitness", scenario="session_id"
            )
        except InputError:
            continue
    told = {name: gap for name, gap in falls.items() if gap.low == gap.low}
    if not told:
        return no_finding("no scenario has shifts of both kinds")
    most = max(told, key=lambda name: told[name].value)
    return finding(
        f"In the reply to a shift {most} gains {told[most]} more where it is {known[0]} than {known[1]}."
    )


def spread(results: pd.DataFrame, outcome: str) -> Finding:
    """The system whose sessions differ most by an outcome, and by how much."""
    found = {}
    for name in systems_of(results):
        values = results[results["model"].astype(str) == name][outcome].astype(float).dropna().to_numpy()
        if len(values) > 2:
            found[name] = stats.deviation_of(values)
    if not found:
        return no_finding(f"no system has three sessions with a {_short(outcome)}")
    widest = max(found, key=lambda name: found[name].value)
    least = min(found, key=lambda name: found[name].value)
    return finding(
        f"Sessions differ most under {widest}: the {_short(outcome)} has a standard deviation of "
        f"{found[widest]} over scenarios, against {found[least]} under {least}."
    )


def correlation(results: pd.DataFrame, a: str, b: str = "topic_adaptation_score") -> Finding:
    """Rank correlation of two session scores within systems."""
    if a not in results or b not in results or a == b:
        return no_finding("the scores of this convention hold no two metrics to correlate")
    both = results[["model", "session_id", a, b]].astype({a: float, b: float}).dropna()
    ranks = both[[a, b]].rank()
    centred = ranks - ranks.groupby(both["model"].astype(str)).transform("mean")
    if len(both) < 3 or (centred.abs().max() < 1e-9).any():
        return no_finding(f"{_short(a)} or {_short(b)} does not vary within systems")
    frame = centred.assign(scenario=both["session_id"])
    row = stats.cluster_bootstrap_correlation(frame, a, b, kind="pearson").iloc[0]
    found = Estimate(float(row["correlation"]), float(row["low"]), float(row["high"]), int(row["clusters"]))
    both_told = f"{_short(a)} and {_short(b)}"
    if not found.excludes_zero:
        return finding(f"Within systems no rank correlation of {both_told} is shown: {found}.")
    weak = "; neither stands for the other" if abs(found.value) < 0.5 else ""
    return finding(f"Within systems {both_told} have a rank correlation of {found}{weak}.")


def marks(described: pd.DataFrame) -> Finding:
    """How many metrics may rank systems, and how many only describe them."""
    free = int((described["mark"].fillna("") == "").sum())
    return finding(
        f"{free} of {stats.counted(len(described), 'metric')} may rank systems; the others carry a mark and "
        "only describe them."
    )


def definedness(turns: pd.DataFrame, metric: str = "cross_coherence") -> Finding:
    """Where a metric is defined least and most, as shares of the turns."""
    if metric not in turns:
        return no_finding(f"the scores of this convention hold no {metric} by turn")
    frame = turns.assign(defined=turns[metric].notna())
    shares = stats.shares_of(frame, "defined", **_AT)
    least = min(shares, key=lambda name: shares[name].value)
    most = max(shares, key=lambda name: shares[name].value)
    if shares[least].value == shares[most].value:
        return finding(
            f"{_short(metric)} is defined in {shares[least].percent} of the turns of every system."
        )
    return finding(
        f"{_short(metric)} is defined in {shares[least].percent} of the turns of {least}, the fewest, and in "
        f"{shares[most].percent} of those of {most}, the most."
    )


def concepts(turns: pd.DataFrame, column: str) -> Finding:
    """In how many turns replies leave out (``missing_concepts``) or add (``hallucinated_concepts``) one."""
    if column not in turns:
        return no_finding("this convention takes down no concepts")
    frame = turns.assign(any=[len(found) > 0 for found in turns[column]])
    shares = stats.shares_of(frame, "any", **_AT)
    most = max(shares, key=lambda name: shares[name].value)
    least = min(shares, key=lambda name: shares[name].value)
    does = (
        "leave out a concept that the user names"
        if column == "missing_concepts"
        else ("name a concept that the user does not")
    )
    return finding(
        f"Replies of {most} {does} in {shares[most].percent} of the turns, those of {least} in "
        f"{shares[least].percent}."
    )


def summary(run: str, convention: str = "") -> stats.Sentences:
    """The sentences with which notebook 05 ends: the report and the README quote them."""
    name = evaluate.convention_of(run, convention)
    shifts, results = figure_tables.read(run, "shifts", name), evaluate.read(run, "results", name)
    return stats.learnt(adaptation(shifts), recovery(shifts), plain_score(results))


def write(run: str, convention: str = "") -> Path:
    """Write the sentences of :func:`summary` as a list, ``findings.md`` beside the figures of a run."""
    path = paths.figures() / f"{STUDY}-{run}" / "findings.md"
    with tables.write_aside(path) as file:
        file.write(summary(run, convention)._repr_markdown_() + "\n")
    return path


def limits(results: pd.DataFrame, outcome: str, judged: bool = False) -> stats.Sentences:
    """What a run does not show: its kind of user, its catalogue, its resolution, people's opinion."""
    _, order = _ranked(results, outcome)
    gaps = [stats.difference_of(results, a, b, outcome, **_AT) for a, b in itertools.pairwise(order)]
    return stats.not_shown(
        f"Users are simulated ({stats.counted(results['session_id'].nunique(), 'scenario')}, worded by "
        "templates or a model): no person has taken part.",
        stats.resolution([gap for gap in gaps if gap.n > 1], _short(outcome)),
        "" if judged else "No judge has rated these dialogues: fluency and tone are not measured.",
    )


def _ranked(results: pd.DataFrame, outcome: str) -> tuple[dict[str, Estimate], list[str]]:
    """Means by system, and the systems with one, best first."""
    means = stats.means_of(results, outcome, **_AT)
    lower = base.get(outcome).direction == base.LOWER
    return means, sorted(means, key=lambda name: means[name].value if lower else -means[name].value)


def _short(metric: str) -> str:
    return base.get(metric).short
