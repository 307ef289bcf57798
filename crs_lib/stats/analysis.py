"""The ladder: every declared test of a plan, from descriptive means to power, in one call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.design import Design, check_columns, levels, numbers
from crs_lib.stats.effects import partial_eta_squared, rank_biserial
from crs_lib.stats.estimates import cost_interval
from crs_lib.stats.groups import adjust, assumptions, independent_pairs, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.paired import friedman, mean_differences, rm_anova, tost_pairs, wilcoxon_pairs
from crs_lib.stats.plan import Plan, read_plan
from crs_lib.stats.power import contrast_power
from crs_lib.stats.ranking import leaderboard

APART = "systems met different users"
_Case = tuple[pd.DataFrame, list[tuple[Any, Any]], Design]


class Ladder(NamedTuple):
    """The results of a plan as tidy frames: ``pairwise`` of every outcome, the others of the primary one. A
    test that could not be made has a row without numbers and a ``note``. Where systems met different users
    the tests are those of independent samples. ``verdict`` makes sentences and letters.
    """

    means: pd.DataFrame
    omnibus: pd.DataFrame
    pairwise: pd.DataFrame
    effects: pd.DataFrame
    assumptions: pd.DataFrame
    leaderboard: pd.DataFrame
    power: pd.DataFrame
    unable: tuple[Any, ...] = ()  # systems whose ability lies below the plan's floor

    @property
    def declared(self) -> pd.DataFrame:
        """The pairs of the plan's contrasts on the primary outcome."""
        return self.pairwise[self.pairwise["family"] == "confirmatory"]


def ladder(frame: pd.DataFrame, plan: Mapping[str, Any] | Plan) -> Ladder:
    """Everything that the plan declares, on a frame with a row per session and a column per outcome. Sessions
    of a system in one scenario are averaged. Systems with fewer than two values stay in ``means`` alone,
    those not able are not ranked. The declared contrasts on the primary outcome are the confirmatory family.
    Raises InputError for an unreadable plan, absent columns, systems or primary values, or one system.
    """
    plan = read_plan(plan)
    check_columns(frame, plan.system, plan.scenario, *plan.outcomes, *filter(None, [plan.ability]))
    systems = levels(frame[plan.system])
    if len(systems) < 2:
        raise InputError(f"the frame has {len(systems)} system ({systems}); a plan compares at least 2")
    if np.isnan(numbers(frame, plan.primary_outcome)).all():
        raise InputError(f"no session has a value of {plan.primary_outcome!r}: there is nothing to test")
    unknown = {name for pair in plan.contrasts for name in pair} - set(systems)
    if unknown:
        raise InputError(f"contrasts name {sorted(unknown)}, the frame has {systems}; mend the plan")
    cases = {outcome: _case(frame, plan, outcome) for outcome in plan.outcomes}
    values, _, design = cases[plan.primary_outcome]
    omnibus = [_attempt(make, values, design, test=name) for name, make in _OMNIBUS.items()]
    columns = "test statistic df1 df2 p epsilon_gg p_gg kendall_w n n_missing note".split()
    every = [_pairwise(*case, plan) for case in cases.values()]
    unable = _unable(frame, plan)
    pairwise = _compared(_adjusted(pd.concat(every, ignore_index=True), plan), unable, plan)
    able = values[~values[plan.system].isin(unable)]
    mine = pairwise[pairwise["outcome"] == plan.primary_outcome]
    mine = mine[mine["verdict"].isin(["higher", "lower"])]
    apart = {frozenset(pair) for pair in zip(mine["a"], mine["b"], strict=True)}
    higher = plan.primary_outcome not in plan.lower_is_better
    found = {
        "means": _means(frame, design), "omnibus": pd.concat(omnibus).reindex(columns=columns),
        "effects": _effects(values, design), "assumptions": _attempt(assumptions, values, design),
        "leaderboard": _attempt(leaderboard, able, design, apart=apart, higher_is_better=higher),
        "power": _attempt(_power, values, design, plan),
    }  # fmt: skip
    for name, part in found.items():
        part.insert(0, "outcome", plan.primary_outcome)
        found[name] = part.reset_index(drop=True)
    return Ladder(pairwise=pairwise, unable=unable, **found)


def _compared(pairwise: pd.DataFrame, unable: Sequence[Any], plan: Plan) -> pd.DataFrame:
    """The pairs, those of a system that is not able without a verdict on the primary outcome."""
    mine = pairwise["outcome"] == plan.primary_outcome
    mine &= pairwise["a"].isin(unable) | pairwise["b"].isin(unable)
    pairs = pairwise.loc[mine, ["a", "b"]].to_numpy()
    lacking = [" and ".join(str(one) for one in pair if one in unable) for pair in pairs]
    pairwise.loc[mine, "note"] = [f"the gain of {names} is below {plan.able_from:g}" for names in lacking]
    pairwise.loc[mine, "verdict"] = "not compared"
    return pairwise


def _unable(frame: pd.DataFrame, plan: Plan) -> tuple[Any, ...]:
    """The systems whose mean of the plan's ``ability`` lies below its floor: a low cost is no merit there."""
    if not plan.ability:
        return ()
    means = frame.groupby(plan.system, observed=True)[plan.ability].mean()
    return tuple(name for name in means.index if not means[name] >= plan.able_from)


_OMNIBUS: dict[str, Callable[[pd.DataFrame, Design], pd.DataFrame]] = {
    "one-way ANOVA": one_way_anova, "Welch ANOVA": welch_anova, "repeated-measures ANOVA": rm_anova,
    "Friedman": friedman,
}  # fmt: skip


def _attempt(make: Callable[..., pd.DataFrame], *given: Any, test: str = "", **options: Any) -> pd.DataFrame:
    """The frame with an empty ``note``, or one row with the reason why it could not be made."""
    try:
        found = make(*given, **options).assign(note="")
    except InputError as error:
        found = pd.DataFrame([{"note": str(error)}])
    return found.assign(test=test) if test else found


def _averaged(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """One row for each system and scenario: the mean of its sessions that have a value."""
    keys = [design.system, design.scenario]
    clean = frame[keys].assign(**{design.value: numbers(frame, design.value)})
    return clean.groupby(keys, observed=True, sort=False)[design.value].mean().reset_index()


def _means(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Mean over scenarios of every system, unusable ones too; ``n`` and ``n_missing`` count sessions."""
    rows, averaged = [], _averaged(frame, design)
    for name in levels(frame[design.system]):
        known = frame.loc[frame[design.system] == name, design.value].notna()
        found = cost_interval(averaged.loc[averaged[design.system] == name, design.value], design.confidence)
        rows.append((name, *found[:3], int(known.sum()), int((~known).sum()), found.n, found.reason))
    return pd.DataFrame(rows, columns="system mean low high n n_missing clusters note".split())


def _case(frame: pd.DataFrame, plan: Plan, outcome: str) -> _Case:
    """The outcome of the usable systems by scenario, all its pairs, and the design with those possible."""
    draws: dict[str, Any] = {"confidence": 1 - plan.alpha, "resamples": plan.resamples, "seed": plan.seed}
    design = Design(plan.system, plan.scenario, outcome, **draws)
    values, _ = _usable(frame, design)
    declared = list(plan.contrasts) if outcome == plan.primary_outcome else []
    seen = {frozenset(pair) for pair in declared}
    rest = combinations(levels(frame[plan.system]), 2)
    pairs = declared + [pair for pair in rest if frozenset(pair) not in seen]
    return values, pairs, _possible(values, design, pairs)


def _usable(frame: pd.DataFrame, design: Design) -> tuple[pd.DataFrame, str]:
    """The values of systems with at least two, sessions of one scenario averaged; and who is left out."""
    means, system = _averaged(frame, design), design.system
    kept = means[means.groupby(system, observed=True)[design.value].transform("count") > 1]
    out = [str(name) for name in levels(frame[system]) if name not in set(kept[system])]
    return kept.reset_index(drop=True), f"left out, with fewer than 2 values: {', '.join(out)}" if out else ""


def _possible(values: pd.DataFrame, design: Design, pairs: Iterable[tuple[Any, Any]]) -> Design:
    """The design with those of the pairs that have at least two scenarios in common."""
    asked = design.changed(pairs=[pair for pair in pairs if set(pair) <= set(values[design.system])])
    if design.independent(values):
        return asked
    shared = asked.differences(values, least=0) if asked.pairs else ()
    return design.changed(pairs=[(d.a, d.b) for d in shared if len(d.both) > 1])


def _pairwise(values: pd.DataFrame, pairs: list[tuple[Any, Any]], design: Design, plan: Plan) -> pd.DataFrame:
    """Difference with interval, and p of a difference and (primary outcome) of equivalence, of every pair."""
    every = pd.DataFrame(pairs, columns=["a", "b"]).assign(outcome=design.value)
    confirmatory = len(plan.contrasts) if design.value == plan.primary_outcome else 0
    every["family"] = np.where(every.index < confirmatory, "confirmatory", "exploratory")
    lost = "fewer than 2 scenarios in common"
    if not design.pairs:
        every[["diff", "low", "high", "n", "n_missing", "p_wilcoxon", "ranks", "p_equivalent"]] = np.nan
        return every.assign(note=lost)
    rare = design.value == plan.primary_outcome
    if design.independent(values):
        margin = plan.smallest_effect if rare else np.nan
        tests = independent_pairs(values, design, margin).assign(p_wilcoxon=np.nan, note=APART)
        return every.merge(tests.drop(columns="p_games_howell"), on=["a", "b"], how="left")
    gaps = [cost_interval(d.values, design.confidence, rare=rare) for d in design.differences(values)]
    tests = wilcoxon_pairs(values, design).rename(columns={"p": "p_wilcoxon"})
    tests[["diff", "low", "high", "n", "note"]] = gaps
    tests["ranks"] = np.sign(tests["w_plus"] - tests["w_minus"])
    tests["p_equivalent"] = tost_pairs(values, plan.smallest_effect, design)["p"] if rare else np.nan
    whole = every.merge(tests, on=["a", "b"], how="left")
    return whole.assign(note=whole["note"].where(whole["p_wilcoxon"].notna(), lost))


def _adjusted(pairwise: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Both p values corrected within their family, over all outcomes of the plan or within each; verdicts."""
    done = []
    raw = "p_brunner_munzel" if "p_brunner_munzel" in pairwise else "p_wilcoxon"
    for key, part in pairwise.groupby(["family", "outcome"] if plan.all_pairs else ["family"], sort=True):
        method = plan.families[str(key[0])]
        alike = adjust(part, p="p_equivalent", method=method)["p_adjusted"]
        ranked = adjust(part, p=raw, method=method).rename(columns={"p_adjusted": f"{raw}_adjusted"})
        done.append(ranked.assign(p_equivalent_adjusted=alike, adjustment=method))
    whole = pd.concat(done).sort_index()
    front = "outcome family a b diff low high p_wilcoxon p_wilcoxon_adjusted p_equivalent_adjusted ranks"
    columns = [*front.split(), "adjustment", "family_size", "n", "n_missing", "note"]
    columns += [raw, f"{raw}_adjusted"] if raw not in columns else []
    whole = whole.reindex(columns=columns)
    return whole.assign(verdict=[_verdict(row, plan) for row in whole.to_dict("records")])


def _verdict(row: Mapping[Any, Any], plan: Plan) -> str:
    """The verdict of a pair; a difference needs test, interval beyond 0, and ranks on one side."""
    p = row.get("p_brunner_munzel_adjusted", row["p_wilcoxon_adjusted"])
    if np.isnan(p):
        return "not compared"
    if p <= plan.alpha and row["low"] > 0 and row["ranks"] > 0:
        return "higher"
    if p <= plan.alpha and row["high"] < 0 and row["ranks"] < 0:
        return "lower"
    return "equivalent" if row["p_equivalent_adjusted"] <= plan.alpha else "not settled"


def _effects(values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Explained variance of the outcome, then, where pairs share scenarios, rank-biserial of every pair."""
    if design.independent(values):
        explained = _attempt(one_way_anova, values, design).assign(effect="omega_squared")
        made = [explained.rename(columns={"omega_squared": "estimate"})]
    else:
        made = [_attempt(partial_eta_squared, values, design).assign(effect="partial_eta_squared")]
        made += [rank_biserial(values, design).assign(note="")] if design.pairs else []
    columns = "effect a b estimate low high n n_missing note".split()
    return pd.concat([part.reindex(columns=columns) for part in made])


def _power(values: pd.DataFrame, design: Design, plan: Plan) -> pd.DataFrame:
    """Power of every contrast by its own deviation."""
    if design.independent(values):
        raise InputError(f"{APART}; power is that of paired differences")
    declared = [pair for pair in design.pairs or () if pair in plan.contrasts]
    design = design.changed(pairs=declared or design.pairs)
    if not design.pairs:
        raise InputError("no contrast has two scenarios in common")
    tests = max(1, len(plan.contrasts))
    found = contrast_power(values, plan.smallest_effect, design, power=plan.power, tests=tests)
    if not (found["sd_difference"] > 0).any():
        raise InputError("too few scenarios differ in any contrast to tell how much they vary")
    return found


_ANOVA = "outcome test statistic df1 df2 p epsilon_gg p_gg kendall_w omega_squared n n_missing note".split()
_TUKEY = "outcome a b diff low high p paired_diff paired_low paired_high p_wilcoxon p_holm n_a n_b".split()
_TUKEY += ["n_pairs", "n_missing", "note"]
_INDEPENDENT = "outcome a b diff low high p welch_low welch_high p_games_howell p_brunner_munzel".split()
_INDEPENDENT += ["p_holm", "n_a", "n_b", "n_missing", "note"]


def anova_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Whether any system differs, a row for each outcome and test: one-way ANOVA (the thesis's),
    repeated-measures ANOVA and Friedman's, or one-way and Welch's where systems met different users.
    ``frame`` has a row a session: ``system``, ``scenario``, a column an outcome. ``n`` counts sessions, or
    complete scenarios. ``note`` says why a test has no numbers, and what the thesis's ignores.
    """
    rows = []
    for outcome in outcomes:
        design = Design(value=outcome)
        values, left_out = _usable(frame, design)
        counts = {"n": len(values), "n_missing": len(frame) - len(values)}
        apart = design.independent(frame)
        others = ("Welch ANOVA",) if apart else ("repeated-measures ANOVA", "Friedman")
        for name in ("one-way ANOVA", *others):
            row = counts | _attempt(_OMNIBUS[name], values, design, test=name).iloc[0].to_dict()
            note = row["note"] or ("" if pd.notna(row["statistic"]) else "no value varies")
            if name == "one-way ANOVA" and not note:
                note = f"{APART}: independent samples" if apart else _pairing(values, design)
            rows.append(row | {"outcome": outcome, "note": "; ".join(filter(None, [left_out, note]))})
    return pd.DataFrame(rows, columns=_ANOVA)


def tukey_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Every pair of systems on every outcome: Tukey's simultaneous 95 % interval of ``diff`` with ``p``,
    beside ``paired_diff`` over shared scenarios with its t interval and ``p_holm`` (Wilcoxon); where systems
    met different users, Welch's interval, Games and Howell's p, Brunner and Munzel's (:func:`anova_table`).
    """
    parts = [_pairs(frame, Design(value=outcome)).assign(outcome=outcome) for outcome in outcomes]
    columns = _INDEPENDENT if Design().independent(frame) else _TUKEY
    return pd.concat(parts, ignore_index=True).reindex(columns=columns)


def _pairs(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    values, _ = _usable(frame, design)
    pairs = list(combinations(levels(frame["system"]), 2))
    lacking = [sorted(set(pair) - set(values["system"])) for pair in pairs]
    notes = [f"fewer than 2 values of {', '.join(names)}" if names else "" for names in lacking]
    made = pd.DataFrame(pairs, columns=["a", "b"]).assign(note=notes)
    try:
        made = made.merge(tukey_hsd(values, design).drop(columns="n_missing"), on=["a", "b"], how="left")
    except InputError as error:
        return made.assign(note=made["note"].replace("", str(error)))
    if design.independent(values):
        tests = adjust(independent_pairs(values, design), p="p_brunner_munzel")
        names = {"p_adjusted": "p_holm", "low": "welch_low", "high": "welch_high"}
        columns = ["a", "b", *names.values(), "p_games_howell", "p_brunner_munzel", "n_missing"]
        beside = tests.rename(columns=names)[columns]
        return made.merge(beside, on=["a", "b"], how="left").assign(note=made["note"].replace("", APART))
    design = _possible(values, design, pairs)
    if not design.pairs:
        return made
    gaps, tests = mean_differences(values, design), adjust(wilcoxon_pairs(values, design))
    names = {"diff": "paired_diff", "low": "paired_low", "high": "paired_high", "n": "n_pairs"}
    beside = gaps.rename(columns=names)[["a", "b", *names.values(), "n_missing"]]
    beside = beside.assign(p_wilcoxon=tests["p"], p_holm=tests["p_adjusted"])
    return made.merge(beside, on=["a", "b"], how="left")


def _pairing(values: pd.DataFrame, design: Design) -> str:
    """What ignoring that systems met the same users changes, in words; empty where no scenario is shared."""
    correlations, ratios = [], []
    for d in design.differences(values, least=0):
        varies = len(d.both) > 2 and np.ptp(d.values) > 0 and np.ptp(d.both, axis=0).all()
        if varies:
            correlations.append(np.asarray(np.corrcoef(d.both.T))[0, 1])
            spread = np.sum(np.var(d.both, axis=0, ddof=1))
            ratios.append(float(np.sqrt(spread / np.var(d.values, ddof=1))))
    if not ratios:
        return ""
    within = f"correlation within scenarios {np.mean(correlations):.2f}"
    beside = f"intervals of differences {np.mean(ratios):.2f} times as wide as with the pairs"
    return f"ignores that systems met the same users: {within}, {beside}"
