"""The tables of the statistics notebook: the declared plan, and the tests with the columns that are read."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import pandas as pd

from crs_lib import figures, metrics, stats
from crs_lib.core import paths, safety
from crs_lib.core.dialogue import OPEN
from crs_lib.core.errors import InputError
from crs_lib.figures import layout
from crs_lib.figures.base import NoDataError, recovered_by
from crs_lib.figures.pairs import PREFIX, with_judges
from crs_lib.figures.recovery import waiting
from crs_lib.metrics.base import LOWER
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.simulate import voices
from crs_lib.simulate.scenarios import REFINEMENT
from crs_lib.stats import Battery, Design, Estimate, mean_interval, p_in_words
from crs_lib.stats.estimate import VERDICTS, signed
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.plan import CONFIRMATORY, EXPLORATORY, Plan, read_plan
from crs_lib.stats.power import contrast_curves
from crs_lib.stats.survival import hazard_ratios

# Where power is computed: numbers of scenarios, and effects as multiples of the smallest that matters.
SCENARIOS = (5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000)
TIMES = (0.5, 1.0, 2.0)
_SURE = 0.99  # power from which more scenarios add nothing to a curve
_P = ParamSpec("_P")
_OPEN_SCOPE = {"open scope": "open_scope_cost", "gain at open scope": "open_scope_gain"}
_WHOLE = ("rank", "rank_low", "rank_high", "n", "n_pairs", "n_missing", "df1", "df2", "sessions_needed")
_RANKING = ["system", "mean", "low", "high", "rank_low", "rank_high", "tied", "n", "note"]


def _noted(make: Callable[_P, pd.DataFrame]) -> Callable[_P, pd.DataFrame]:
    """The table of a function, or a note where what it gets allows none."""

    @functools.wraps(make)
    def table(*args: _P.args, **options: _P.kwargs) -> pd.DataFrame:
        try:
            return make(*args, **options)
        except InputError as error:
            return pd.DataFrame({"note": [str(error)]})

    return table


def stats_frame(results: pd.DataFrame) -> pd.DataFrame:
    """Session scores as statistics take them: system, scenario, one column per metric that the run has.

    Judges' constructs are among the columns where any session has a score.
    """
    judged, constructs = with_judges(results)
    names = [*results.columns.intersection(metrics.scored_names(), sort=False), *constructs]
    scores = judged[["model", "session_id", *names]].astype(dict.fromkeys(names, float))
    scores = scores.rename(columns={"model": "system", "session_id": "scenario"})
    return scores.rename(columns=lambda name: name.removeprefix(PREFIX))


def plan_for(
    name: str, systems: Sequence[str], convention: str = "default", scores: pd.DataFrame | None = None
) -> Plan:
    """The declared plan ``notebooks/plans/<name>.yaml``, cut down to what is at hand.

    Contrasts are those between the ``systems``; where none is declared, all pairs, and the pairs of each
    outcome are a family (Holm). Under a convention of the thesis the outcomes are the convention's. With
    ``scores`` (a :func:`stats_frame`) outcomes without any value are left out and judges' constructs join.
    Raises InputError for a plan that does not exist or that cannot be read.
    """
    path = paths.notebooks() / "plans" / f"{name}.yaml"
    if not path.is_file():
        plans = sorted(plan.stem for plan in path.parent.glob("*.yaml"))
        raise InputError(f"no analysis plan {name!r}; give one of {', '.join(plans)}, or add {path.name}")
    plan = _with_outcomes(read_plan(safety.read_yaml(path)), convention, scores)
    contrasts = tuple(filter(set(systems).issuperset, plan.contrasts))
    if contrasts or len(systems) < 2:
        return plan.changed(contrasts=contrasts)
    pairs = tuple(itertools.combinations(systems, 2))
    return plan.changed(contrasts=pairs, families=dict.fromkeys(plan.families, "holm"), all_pairs=True)


def _with_outcomes(plan: Plan, convention: str, scores: pd.DataFrame | None) -> Plan:
    """The plan on the outcomes of a convention, those without a value left out."""
    outcomes = plan.outcomes
    if layout.is_thesis(convention):
        outcomes = layout.outcomes(convention)
    ability = plan.ability
    if scores is not None:
        present = set(scores.columns[scores.notna().any()])
        judged = [name for name in scores if name in CONSTRUCTS]
        scored = [name for name in (*outcomes, *judged) if name in present]
        outcomes = tuple(scored) or outcomes
        if ability not in scores:
            ability = ""
    lower = []
    ranges = {}
    for name in outcomes:
        metric = metrics.get(name)
        if metric.direction == LOWER:
            lower.append(name)
        limits = stats.Range(metric.low, metric.high)
        if limits.finite:
            ranges[name] = limits
    plan = plan.changed(primary_outcome=outcomes[0], secondary_outcomes=outcomes[1:], ability=ability)
    return plan.changed(lower_is_better=tuple(lower), ranges=ranges)


def plan_table(plan: Plan) -> pd.DataFrame:
    """The plan as two columns: the item declared, and its value."""
    contrasts = "; ".join(map(" against ".join, plan.contrasts))
    if plan.all_pairs:
        contrasts = f"none declared for these systems: all {len(plan.contrasts)} pairs, within each outcome"
    outcomes = ", ".join(plan.secondary_outcomes)
    rows = {"primary outcome": plan.primary_outcome, "secondary outcomes": outcomes}
    rows["contrasts"] = contrasts or "none for these systems"
    rows["correction, confirmatory"] = plan.families[CONFIRMATORY]
    rows["correction, exploratory"] = plan.families[EXPLORATORY]
    rows["smallest effect that matters"] = f"{plan.smallest_effect:g}"
    rows["level"] = f"{plan.alpha:g}"
    if "shift_cost" not in plan.outcomes:
        lack = "a shift cost needs straight users, and these scores have none"
        rows["adaptation"] = f"not tested: {lack}"
    return pd.DataFrame(rows.items(), columns=["declared", "how"])


def as_printed(frame: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A frame without empty columns: p-values (``p``, ``p_…``) in words, counts as whole numbers.

    What is missing is None, but a note is empty. ``p_best`` is no p-value but a share of draws.
    """
    chosen = [name for name in columns if name in frame]
    shown = frame[chosen] if chosen else frame  # a table that could not be made holds a note alone
    present = shown.replace("", pd.NA).dropna(axis=1, how="all")
    table = present.reset_index(drop=True)
    table = table.astype(object).where(table.notna(), None)
    for name in table.columns:
        if name == "p" or (name.startswith("p_") and name != "p_best"):
            table[name] = table[name].map(_p_cell)
        elif name in _WHOLE:
            table[name] = pd.Series(list(map(_whole_cell, table[name])), dtype=object)
        elif name == "note":
            table[name] = table[name].fillna("")
    return table


def _p_cell(p: Any) -> str | None:
    return None if p is None else p_in_words(float(p))


def _whole_cell(value: Any) -> Any:
    """A float without fraction as a whole number, a shared rank as "7.5"."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else f"{value:g}"


def confirmatory(pairwise: pd.DataFrame) -> pd.DataFrame:
    """The declared contrasts on the primary outcome: difference, interval, both tests corrected, verdict."""
    declared = pairwise[pairwise["family"] == CONFIRMATORY]
    tests = ["p_adjusted", "p_equivalent_adjusted"]
    columns = ["a", "b", "diff", "low", "high", *tests, "verdict", "n"]
    return as_printed(declared.reindex(columns=columns))


def contrast_sentences(battery: Battery) -> list[str]:
    """A line for each declared contrast: its verdict, the difference, the test that it rests on."""
    sentences = []
    for row in battery.declared.to_dict("records"):
        pair = f"{row['a']} against {row['b']}: {row['verdict']}"
        note = f"; {row['note']}" if row["note"] else ""
        if pd.isna(row["diff"]) or row["verdict"] == "not compared":
            sentences.append(f"{pair}{note}.")
            continue
        different = p_in_words(row["p_adjusted"])
        alike = p_in_words(row["p_equivalent_adjusted"])
        tests = f"difference {different}, equivalence {alike}, corrected by {row['adjustment']}"
        n = int(row["n"])
        sentences.append(f"{pair}, {Estimate.of(row, 'diff')} ({tests}; {n} scenarios{note}).")
    return sentences


def verdict_counts(battery: Battery, plan: Plan) -> str:
    """How many declared contrasts have each verdict."""
    verdicts = battery.declared["verdict"]
    counts = verdicts.value_counts()
    parts = [f"{counts[word]} {word}" for word in VERDICTS if word in counts]
    words = ", ".join(parts) or "none between systems of this run"
    return f"Declared contrasts on {plan.primary_outcome}, {len(verdicts)} in all: {words}."


def ranking(battery: Battery, scores: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Systems by the primary outcome with ability, interval, ranks and letters; those not able come last.

    Ranked systems are compared over the ``n`` scenarios that all of them have; ability is over these, too.
    """
    ranked = battery.leaderboard.reindex(columns=_RANKING)
    ranked = ranked[ranked["system"].notna()]
    means = battery.means
    others = means[~means["system"].isin(ranked["system"])].reindex(columns=_RANKING)
    table = pd.concat([ranked, others.assign(tied="not ranked")], ignore_index=True)
    if plan.ability:
        of_ranked = scores[scores["system"].isin(ranked["system"])].dropna(subset=[plan.primary_outcome])
        n_systems = of_ranked.groupby("scenario")["system"].nunique()
        shared = n_systems.index[n_systems == len(ranked)]
        is_shared = scores["scenario"].isin(shared) | ranked.empty
        ability = scores[is_shared].groupby("system")[plan.ability].mean()
        table.insert(1, plan.ability, table["system"].map(ability))
    return as_printed(table)


@_noted
def costs_by_type(shifts: pd.DataFrame) -> pd.DataFrame:
    """The shift cost of every system with its 95 % interval: by type of a session's first shift, and later.

    ``refine`` is the control of the design and no change of mind; ``misfit`` is the part of the cost at first
    shifts that replies with films explain; the first windows of open scope have columns of their own, and
    windows in which the straight user plans fewer statements, where there are any. In brackets the
    most scenarios of a column; no interval where too few differ (:func:`crs_lib.stats.mean_interval`). A note
    without straight users.
    """
    if "shift_cost" not in shifts or shifts["shift_cost"].isna().all():
        raise InputError(
            "the run has no straight users, with whom a shift cost begins: arms shift and straight"
        )
    ordered = shifts.sort_values("turn", ignore_index=True).astype({"model": str})
    table = pd.DataFrame({"system": ordered["model"].unique()})
    for name, values in _cost_columns(ordered).items():
        costs = values.groupby([ordered["model"], ordered["session_id"]]).mean()
        intervals = costs.groupby(level=0).apply(mean_interval)
        n = max([interval.n for interval in intervals], default=0)
        table[f"{name} ({n})"] = list(map(_shown, map(intervals.get, table["system"])))
    return table


def _cost_columns(shifts: pd.DataFrame) -> dict[str, pd.Series]:
    """The values behind each column of :func:`costs_by_type`, of shifts in the order of their turns."""
    is_later = shifts.duplicated(["model", "session_id"])
    first = shifts[~is_later]
    primary = first[first["primary"].astype(bool)]
    columns = {}
    for kind in sorted(set(first["type"]), key=lambda kind: (kind == REFINEMENT, kind)):
        columns[kind] = first.loc[first["type"] == kind, "shift_cost"]
    columns["misfit"] = primary["misfit"]
    columns["later shifts"] = shifts.loc[is_later & (shifts["type"] != REFINEMENT), "shift_cost"]
    if "matched" in primary and primary["matched"].eq("no").any():
        columns["as many statements"] = primary.loc[primary["matched"] == "yes", "shift_cost"]
        columns["fewer statements"] = primary.loc[primary["matched"] == "no", "shift_cost"]
    for name, value in _OPEN_SCOPE.items():
        if value in shifts and shifts[value].notna().any():
            is_open = shifts["scope"] == OPEN
            columns[name] = shifts[is_open].drop_duplicates(["model", "session_id"])[value]
    return columns


def by_voice(results: pd.DataFrame, metric: str = "shift_cost") -> pd.DataFrame | None:
    """A metric of every system by the voice of its users, and by what voices are for; None for one voice.

    Means over scenarios with 95 % intervals; no interval where too few differ. No rule is tuned on voices for
    confirmation. Source: :func:`crs_lib.stats.mean_interval`.
    """
    if "voice" not in results or results["voice"].nunique() < 2:
        return None
    voiced = results[results["voice"].isin(voices.names(voices.ALL))]
    uses = voiced["voice"].map(lambda name: voices.every()[name].use)
    rows = []
    for name, part in itertools.chain(voiced.groupby(uses), voiced.groupby("voice")):
        row: dict[str, object] = {"voice": name, "scenarios": part["session_id"].nunique()}
        for model, values in part.groupby("model", sort=False)[metric]:
            row[str(model)] = _shown(mean_interval(values.astype(float)))
        rows.append(row)
    return pd.DataFrame(rows).reset_index(drop=True)


def _shown(mean: Estimate | None) -> str | None:
    """A mean as a cell shows it: with its interval if there is one; None without any value."""
    if mean is None or mean.n == 0:
        return None
    return signed(mean.value) if mean.reason else str(mean)


def thesis_test(scores: pd.DataFrame, plan: Plan) -> str:
    """What the thesis's test says of the primary outcome, beside the tests that use the pairing."""
    tests = stats.anova_table(scores, [plan.primary_outcome]).set_index("test")
    anova = tests.loc["one-way ANOVA"]
    if pd.isna(anova["p"]):
        return f"The thesis's test could not be made: {anova['note']}."
    others = [f"{name} {p_in_words(p)}" for name, p in tests["p"].iloc[1:].items()]
    beside = ", ".join(others)
    if "Friedman" in tests.index:
        beside = f"with the pairing: {beside}"
    ratio = f"F({anova['df1']:.0f}, {anova['df2']:.0f}) = {anova['statistic']:.1f}"
    first = f"One-way ANOVA: {ratio}, {p_in_words(anova['p'])}"
    pairing = f" The one-way ANOVA {anova['note']}." if anova["note"] else ""
    return f"{first}; {beside}.{pairing}"


def power_by_contrast(power: pd.DataFrame) -> pd.DataFrame:
    """Power of each declared contrast by its own deviation: now, what can be found, scenarios that it takes.

    ``power`` is that of :class:`crs_lib.stats.Battery`; a note where nothing could be estimated.
    """
    return as_printed(power.drop(columns="outcome", errors="ignore"))


def power_table(scores: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Power in [0, 1] of every declared contrast by effect and number of scenarios, a row each.

    Tests of means at the level that Holm gives the first of the plan's contrasts, by samples drawn from its
    own paired differences; all pairs where the plan declares none. Effects are
    half, once and twice the smallest that matters (``smallest``); ``target`` is the plan's power, ``n`` the
    scenarios at hand. Scenarios go up to where every contrast all but surely finds the smallest effect.
    Raises NoDataError where no contrast varies over scenarios.
    """
    try:
        curves = _power_curves(scores, plan)
    except InputError as error:
        raise NoDataError(f"no power without a variance of paired differences: {error}") from error
    n = int(curves["n"].max())
    smallest = curves[curves["effect"] == plan.smallest_effect]
    weakest = smallest.groupby("sessions")["power"].min()
    enough = weakest.index[(weakest > _SURE) & (weakest.index > n)]
    if len(enough):
        curves = curves[curves["sessions"] <= enough.min()]
    facts = {"outcome": plan.primary_outcome, "smallest": plan.smallest_effect, "target": plan.power}
    n_systems = scores[plan.system].nunique()
    n_contrasts = len(curves[["a", "b"]].drop_duplicates())
    return curves.assign(**facts, n_sessions=n, n_systems=n_systems, n_contrasts=n_contrasts)


def _power_curves(scores: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    outcome = plan.primary_outcome
    values = scores[scores[outcome].notna()]
    systems = set(values[plan.system])
    pairs = [pair for pair in plan.contrasts if set(pair) <= systems]
    design = Design(plan.system, plan.scenario, outcome, pairs or None, 1 - plan.alpha)
    if design.independent(values):
        raise InputError("systems met different users")
    effects = [times * plan.smallest_effect for times in TIMES]
    tests = max(1, len(plan.contrasts))
    curves = contrast_curves(values, effects, SCENARIOS, design, tests=tests)
    if not (curves["sd_difference"] > 0).any():
        raise InputError("no contrast has a difference that varies over scenarios")
    return curves


@_noted
def recovery_ratios(shifts: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Hazard ratios of recovery for the declared contrasts, 0 or more: above 1, ``a`` recovers sooner.

    Errors are robust to both systems having met the same scenarios. Empty where one of the two never recovers
    (``events_a``, ``events_b``: recoveries). A note where there is nothing to compare. Source:
    :func:`crs_lib.figures.recovery.waiting`; :func:`crs_lib.stats.survival.hazard_ratios`.
    """
    if not plan.contrasts:
        raise InputError("no declared contrast is between systems of this run")
    times = waiting(shifts, recovered_by(shifts)).assign(scenario=shifts["session_id"])
    ratios = hazard_ratios(times, Design(pairs=plan.contrasts))
    return as_printed(ratios, ["a", "b", "estimate", "low", "high", "p", "events_a", "events_b"])


def _shift_scores(turns: pd.DataFrame, shifts: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row a shift: system, scenario, shift type, and the metric, or its mean from the shift to the next.

    Turns in which the metric is undefined are left out of the mean; NaN where all are. Of scores that shifts
    have themselves the control ``refine`` is left out.
    """
    names = {"model": "system", "session_id": "scenario", "type": "shift_type"}
    if metric not in turns:
        scored = shifts[shifts["type"] != REFINEMENT].rename(columns={**names, metric: "value"})
        return scored[["system", "scenario", "turn", "value", "shift_type"]].astype({"system": str})
    after = turns[turns["since_shift"].notna()]
    after = after.assign(turn=after["turn"] - after["since_shift"].astype(int))
    keys = ["model", "session_id", "turn"]
    means = after.groupby(keys, sort=False)[metric].mean().rename("value").reset_index()
    return means.merge(shifts[[*keys, "type"]], on=keys).rename(columns=names)


@_noted
def shift_model(turns: pd.DataFrame, shifts: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Wald tests of ``value ~ system * shift_type + (1 | scenario)``, a row each; a note where not fitted.

    The values are those from each shift to the next. The interaction tests whether the differences between
    systems depend on the type of shift. Source: :func:`crs_lib.stats.mixed.mixed_model`.
    """
    if metric not in turns and metric not in shifts:
        raise InputError(f"{metric} has no value by turn, so none by type of shift")
    model = mixed_model(_shift_scores(turns, shifts, metric), factors=("shift_type",))
    fit = model.fit.iloc[0]
    terms = model.terms.assign(n=int(fit["n"]), scenarios=int(fit["clusters"]))
    terms["note"] = "" if fit["converged"] else "did not converge: do not read it"
    return as_printed(terms)


def draw_power(scores: pd.DataFrame, plan: Plan) -> None:
    """Draw the power of a plan's tests by number of scenarios, or print why the scores allow no estimate."""
    try:
        figures.draw("power_curve", power_table(scores, plan))
    except NoDataError as error:
        print(f"power_curve: {error}")
