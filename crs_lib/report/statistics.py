"""The tables of the statistics notebook: the declared plan, and the tests with the columns that are read."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import pandas as pd

from crs_lib import figures, metrics, stats
from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.figures import layout
from crs_lib.figures.base import NoDataError, recovered_by
from crs_lib.figures.pairs import PREFIX, with_judges
from crs_lib.figures.recovery import waiting
from crs_lib.metrics.base import LOWER
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.simulate import voices
from crs_lib.stats import (
    Battery as Ladder,
)
from crs_lib.stats import (
    Design,
    Estimate,
    Finding,
    conclusions_by_subject,
    cost_interval,
    finding_none,
    listed,
)
from crs_lib.stats.estimate import p_in_words
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.plan import Plan, read_plan
from crs_lib.stats.power import contrast_curves
from crs_lib.stats.survival import hazard_ratios

# Where power is computed: numbers of scenarios, and effects as multiples of the smallest that matters.
SCENARIOS = (5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000)
TIMES = (0.5, 1.0, 2.0)
_P = ParamSpec("_P")
_WHOLE = ("rank", "rank_low", "rank_high", "n", "n_pairs", "n_missing", "df1", "df2", "sessions_needed")
_BOARD = ["system", "mean", "low", "high", "rank_low", "rank_high", "tied", "n", "note"]


def _noted(make: Callable[_P, pd.DataFrame]) -> Callable[_P, pd.DataFrame]:
    """The table of a function, or a note where what it is given allows none."""

    @functools.wraps(make)
    def made(*given: _P.args, **options: _P.kwargs) -> pd.DataFrame:
        try:
            return make(*given, **options)
        except InputError as error:
            return pd.DataFrame({"note": [str(error)]})

    return made


def stats_frame(results: pd.DataFrame) -> pd.DataFrame:
    """Session scores as statistics take them: system, scenario, one column per metric that the run has.
    Judges' constructs are among the columns where any session has a score.
    """
    judged, constructs = with_judges(results)
    names = [*(name for name in metrics.scored_names() if name in results), *constructs]
    found = judged[["model", "session_id", *names]].astype(dict.fromkeys(names, float))
    found.columns = pd.Index(["system", "scenario", *(name.removeprefix(PREFIX) for name in names)])
    return found


def plan_for(
    name: str, systems: Sequence[str], convention: str = "default", scores: pd.DataFrame | None = None
) -> Plan:
    """The declared plan ``notebooks/plans/<name>.yaml``, cut down to what is at hand. Contrasts are those
    between the ``systems``; where none is declared, all pairs, and the pairs of each outcome are a family
    (Holm). Under a convention of the thesis the outcomes are the convention's. With ``scores`` (a
    :func:`stats_frame`) outcomes without any value are left out and judges' constructs join. Raises
    InputError for a plan that does not exist or that cannot be read.
    """
    path = paths.notebooks() / "plans" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise InputError(f"no analysis plan {name!r}; give one of {known}, or add {path.name}")
    plan = _with_outcomes(read_plan(safety.read_yaml(path)), convention, scores)
    usable = tuple(pair for pair in plan.contrasts if set(pair) <= set(systems))
    if usable or len(systems) < 2:
        return plan.changed(contrasts=usable)
    every = tuple(itertools.combinations(systems, 2))
    return plan.changed(contrasts=every, families=dict.fromkeys(plan.families, "holm"), all_pairs=True)


def _with_outcomes(plan: Plan, convention: str, scores: pd.DataFrame | None) -> Plan:
    """The plan on the outcomes of a convention, those without a value left out."""
    declared = layout.outcomes(convention) if layout.is_thesis(convention) else plan.outcomes
    if scores is not None:
        known = [name for name in scores if scores[name].notna().any()]
        declared = (*(n for n in declared if n in known), *(n for n in known if n in CONSTRUCTS)) or declared
    lower = [name for name in declared if metrics.get(name).direction == LOWER]
    ability = plan.ability if scores is None or plan.ability in scores else ""
    return plan.changed(
        primary_outcome=declared[0], secondary_outcomes=declared[1:], lower_is_better=tuple(lower),
        ability=ability if declared[0] == plan.primary_outcome else "",
    )  # fmt: skip


def plan_table(plan: Plan) -> pd.DataFrame:
    """The plan as two columns: the item declared, and its value."""
    contrasts = "; ".join(f"{a} against {b}" for a, b in plan.contrasts) or "none for these systems"
    if plan.all_pairs:
        contrasts = f"none declared for these systems: all {len(plan.contrasts)} pairs, within each outcome"
    rows = {
        "primary outcome": plan.primary_outcome, "secondary outcomes": ", ".join(plan.secondary_outcomes),
        "contrasts": contrasts, "correction, confirmatory": plan.families["confirmatory"],
        "correction, exploratory": plan.families["exploratory"],
        "smallest effect that matters": f"{plan.smallest_effect:g}", "level": f"{plan.alpha:g}",
    }  # fmt: skip
    if plan.primary_outcome != "shift_cost":
        rows["adaptation"] = "not tested: a shift cost needs straight users, and these scores have none"
    return pd.DataFrame({"declared": list(rows), "how": list(rows.values())})


def tidy(frame: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """A frame without empty columns: p-values (``p``, ``p_…``) in words, counts as whole numbers. Notes are
    kept where there are any. ``p_best`` is no p-value but a share of draws, and stays a number.
    """
    shown = frame[list(columns)] if columns else frame
    shown = shown.replace("", pd.NA).dropna(axis=1, how="all").reset_index(drop=True)
    for name in shown.columns:
        if name == "p" or (name.startswith("p_") and name != "p_best"):
            shown[name] = ["" if pd.isna(p) else p_in_words(float(p)) for p in shown[name]]
    shown = shown.astype(object).where(shown.notna(), "")
    for name in shown.columns.intersection(_WHOLE):
        shown[name] = [int(v) if isinstance(v, float) and v.is_integer() else v for v in shown[name]]
    return shown


def confirmatory(pairwise: pd.DataFrame) -> pd.DataFrame:
    """The declared contrasts on the primary outcome: difference, interval, both tests corrected, verdict."""
    mine = pairwise[pairwise["family"] == "confirmatory"]
    tests = ["p_wilcoxon_adjusted", "p_brunner_munzel_adjusted", "p_equivalent_adjusted"]
    return tidy(mine.reindex(columns=["a", "b", "diff", "low", "high", *tests, "verdict", "n"]))


def held(ladder: Ladder, plan: Plan) -> Finding:
    """How many declared contrasts differ, are equivalent and are not settled, and the largest difference."""
    mine = ladder.declared
    if mine.empty:
        return finding_none("no declared contrast is between systems of this run")
    apart = mine[mine["verdict"].isin(["higher", "lower"])].sort_values("diff", key=abs)
    counts = {"differ/differs": len(apart)}
    counts |= {words: int((mine["verdict"] == of).sum()) for of, words in _SETTLED}
    parts = [f"{n} {words.split('/')[n == 1]}" for words, n in counts.items() if n]
    told = f"Of {len(mine)} declared contrast{'s' * (len(mine) > 1)} {listed(parts)}"
    told = told.replace("±", f"±{plan.smallest_effect:g}")
    if len(apart):
        last = apart.iloc[-1]
        told += f"; the largest difference is {last['a']} less {last['b']}, {Estimate.of(last, 'diff')}"
    return Finding(f"{told}.")


_SETTLED = (  # verdicts with their words for several contrasts and for one
    ("equivalent", "are equivalent within ±/is equivalent within ±"),
    ("not settled", "are not settled/is not settled"),
    ("not compared", "are not compared/is not compared"),
)


def board(ladder: Ladder, scores: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Systems by the primary outcome with ability, interval, ranks and letters; those not able come last.
    Ranked systems are compared over the ``n`` scenarios that all of them have.
    """
    ranked = ladder.leaderboard.reindex(columns=_BOARD)
    ranked = ranked[ranked["system"].notna()]
    rest = ladder.means[~ladder.means["system"].isin(ranked["system"])].reindex(columns=_BOARD)
    table = pd.concat([ranked, rest.assign(tied="not ranked")], ignore_index=True)
    if plan.ability:
        table.insert(1, plan.ability, table["system"].map(scores.groupby("system")[plan.ability].mean()))
    return tidy(table)


@_noted
def costs_by_type(shifts: pd.DataFrame) -> pd.DataFrame:
    """The shift cost of every system with its 95 % interval: by type of a session's first shift, and later.
    ``refine`` is the control of the design and no change of mind; ``misfit`` is the part of the cost at first
    shifts that replies with films explain; windows of open scope have a column of their own. In brackets the
    most scenarios of a column; no interval where too few differ (:func:`crs_lib.stats.cost_interval`). A note
    without straight users.
    """
    if "shift_cost" not in shifts or shifts["shift_cost"].isna().all():
        lack = "the run has no straight users, with whom a shift cost begins"
        raise InputError(f"{lack}: arms shift and straight")
    known = shifts.sort_values("turn").assign(first=lambda rows: ~rows.duplicated(["model", "session_id"]))
    first, later = known[known["first"]], known[~known["first"] & (known["type"] != "refine")]
    mine = first[first["primary"].astype(bool)]
    parts = {"misfit": (mine, "misfit"), "later shifts": (later, "shift_cost")}
    if "open_scope_cost" in first and first["open_scope_cost"].notna().any():
        parts["open scope"] = (first, "open_scope_cost")
    kinds = sorted(set(first["type"]), key=lambda kind: (kind == "refine", kind))
    table = pd.DataFrame(index=pd.Index(dict.fromkeys(known["model"].astype(str)), name="system"))
    by_kind = {kind: (first[first["type"] == kind], "shift_cost") for kind in kinds}
    for name, (part, value) in (by_kind | parts).items():
        by = part.assign(model=part["model"].astype(str)).groupby(["model", "session_id"])[value].mean()
        found = {model: cost_interval(of) for model, of in by.groupby(level=0)}
        n = max((one.n for one in found.values()), default=0)
        table[f"{name} ({n})"] = [_told(found.get(model)) for model in table.index]
    return table.reset_index()


def by_voice(results: pd.DataFrame, metric: str = "shift_cost") -> pd.DataFrame | None:
    """A metric of every system by the voice of its users, and by what voices are for; None for one voice.
    Means over scenarios with 95 % intervals; no interval where too few differ. No rule is tuned on voices for
    confirmation. Source: :func:`crs_lib.stats.cost_interval`.
    """
    if "voice" not in results or results["voice"].nunique() < 2:
        return None
    known = results[results["voice"].isin(voices.names(voices.ALL))]
    known = known.assign(use=[voices.every()[name].use for name in known["voice"]])
    rows = []
    for name, mine in itertools.chain(known.groupby("use"), known.groupby("voice")):
        row = {"voice": name, "scenarios": mine["session_id"].nunique()}
        by = mine.groupby("model", sort=False)[metric]
        rows.append(row | {model: _told(cost_interval(one.astype(float).dropna())) for model, one in by})
    return pd.DataFrame(rows).reset_index(drop=True)


def _told(found: Estimate | None) -> str:
    if not found or not found.n:
        return ""
    return f"{found.value:z.2f}".replace("-", "−") if found.reason else str(found)


def thesis_test(scores: pd.DataFrame, plan: Plan) -> str:
    """What the thesis's test says of the primary outcome, beside the tests that use the pairing."""
    tests = stats.anova_table(scores, [plan.primary_outcome]).set_index("test")
    anova, note = tests.loc["one-way ANOVA"], tests.loc["one-way ANOVA", "note"]
    if pd.isna(anova["p"]):
        return f"The thesis's test could not be made: {note}."
    others = ", ".join(f"{name} {p_in_words(tests.loc[name, 'p'])}" for name in tests.index[1:])
    told = f"One-way ANOVA: F({anova['df1']:.0f}, {anova['df2']:.0f}) = {anova['statistic']:.1f}"
    beside = "with the pairing: " * ("Friedman" in tests.index)
    return f"{told}, {p_in_words(anova['p'])}; {beside}{others}. {note.capitalize()}."


def power_by_contrast(power: pd.DataFrame) -> pd.DataFrame:
    """Power of each declared contrast by its own deviation: now, what can be found, scenarios that it takes.
    ``power`` is that of :class:`crs_lib.stats.Ladder`; a note where nothing could be estimated.
    """
    return tidy(power.drop(columns="outcome"))


def power_table(scores: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Power in [0, 1] of every declared contrast by effect and number of scenarios, a row each. Paired
    Wilcoxon tests at the level that Holm gives the first of the plan's contrasts, each by the deviation of
    its own paired differences (``sd_difference``); all pairs where the plan declares none. Effects are half,
    once and twice the smallest that matters (``smallest``); ``target`` is the plan's power, ``n`` the
    scenarios at hand. Scenarios go up to where every contrast all but surely finds the smallest effect.
    Raises NoDataError where no contrast varies over scenarios.
    """
    outcome = plan.primary_outcome
    known = scores[scores[outcome].notna()]
    pairs = [pair for pair in plan.contrasts if set(pair) <= set(known[plan.system])]
    effects = [times * plan.smallest_effect for times in TIMES]
    design = Design(plan.system, plan.scenario, outcome, pairs or None, 1 - plan.alpha)
    tests = max(1, len(plan.contrasts))
    try:
        if design.independent(known):
            raise InputError("systems met different users")
        curves = contrast_curves(known, effects, SCENARIOS, design, tests=tests)
        if curves.empty or not (curves["sd_difference"] > 0).any():
            raise InputError("no contrast has a difference that varies over scenarios")
    except InputError as error:
        raise NoDataError(f"no power without a variance of paired differences: {error}") from error
    worst = curves[curves["effect"] == plan.smallest_effect].groupby("sessions")["power"].min()
    enough = worst.index[(worst > 0.99) & (worst.index > curves["n"].max())]
    shown = curves[curves["sessions"] <= enough.min()] if len(enough) else curves
    facts: dict[str, Any] = {"outcome": outcome, "smallest": plan.smallest_effect, "target": plan.power}
    facts |= {"n_sessions": int(curves["n"].max()), "n_systems": scores[plan.system].nunique()}
    return shown.assign(**facts, n_contrasts=len(curves[["a", "b"]].drop_duplicates()))


@_noted
def recovery_ratios(shifts: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Hazard ratios of recovery for the declared contrasts, 0 or more: above 1, ``a`` recovers sooner. Errors
    are robust to both systems having met the same scenarios. Empty where one of the two never recovers
    (``events_a``, ``events_b``: recoveries). A note where there is nothing to compare. Source:
    :func:`crs_lib.figures.recovery.waiting`; :func:`crs_lib.stats.hazard_ratios`.
    """
    if not plan.contrasts:
        raise InputError("no declared contrast is between systems of this run")
    times = waiting(shifts, recovered_by(shifts)).assign(scenario=shifts["session_id"])
    found = hazard_ratios(times, Design(pairs=plan.contrasts, scenario="scenario"))
    return tidy(found, ["a", "b", "estimate", "low", "high", "p", "events_a", "events_b"])


def _shift_scores(turns: pd.DataFrame, shifts: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row a shift: system, scenario, shift type, and the metric, or its mean from the shift to the next.
    Turns in which the metric is undefined are left out of the mean; NaN where all are. Of scores that shifts
    have themselves the control ``refine`` is left out.
    """
    names = {"model": "system", "session_id": "scenario", "type": "shift_type"}
    if metric not in turns:
        mine = shifts[shifts["type"] != "refine"].rename(columns={**names, metric: "value"})
        return mine[["system", "scenario", "turn", "value", "shift_type"]].astype({"system": str})
    after = turns[turns["since_shift"].notna()]
    after = after.assign(turn=after["turn"] - after["since_shift"].astype(int))
    keys = ["model", "session_id", "turn"]
    means = after.groupby(keys, sort=False)[metric].mean().rename("value").reset_index()
    return means.merge(shifts[[*keys, "type"]], on=keys).rename(columns=names)


@_noted
def shift_model(turns: pd.DataFrame, shifts: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Wald tests of ``value ~ system * shift_type + (1 | scenario)``, a row each; a note where not fitted.
    The values are those of :func:`_shift_scores`. The interaction tests whether the differences between
    systems depend on the type of shift. Source: :func:`crs_lib.stats.mixed_model`.
    """
    if metric not in turns and metric not in shifts:
        raise InputError(f"{metric} has no value by turn, so none by type of shift")
    model = mixed_model(_shift_scores(turns, shifts, metric), factors=("shift_type",))
    fit = model.fit.iloc[0]
    note = "" if fit["converged"] else "did not converge: do not read it"
    return tidy(model.terms.assign(n=int(fit["n"]), scenarios=int(fit["clusters"]), note=note))


def conclusion(ladder: Ladder, plan: Plan, subject: str) -> Finding:
    """What the tests bear on a subject: data, systems, ranking or power."""
    if not (told := conclusions_by_subject(ladder, plan)[subject]):
        return finding_none(f"the tests of this run bear no sentence on {subject}")
    text = " ".join(told).replace(plan.primary_outcome, metrics.get(plan.primary_outcome).short)
    return finding_none(text) if "could not be" in text else Finding(text)


def draw_power(scores: pd.DataFrame, plan: Plan) -> None:
    """Draw the power of a plan's tests by number of scenarios, or print why the scores allow no estimate."""
    try:
        figures.draw("power_curve", power_table(scores, plan))
    except NoDataError as error:
        print(f"power_curve: {error}")
