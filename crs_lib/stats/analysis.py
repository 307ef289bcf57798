"""The test battery: every declared test of a plan, from descriptive means to power, in one call."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.assumptions import assumptions
from crs_lib.stats.cases import APART, OMNIBUS, attempt, averaged, omnibus, possible, usable
from crs_lib.stats.design import Design, check_columns, levels, numbers
from crs_lib.stats.effects import partial_eta_squared, rank_biserial
from crs_lib.stats.estimate import HIGHER, LOWER, Estimate, cost_interval, verdict
from crs_lib.stats.groups import adjust, independent_pairs, one_way_anova
from crs_lib.stats.paired import tost_pairs, wilcoxon_pairs
from crs_lib.stats.plan import CONFIRMATORY, EXPLORATORY, Plan, read_plan
from crs_lib.stats.power import contrast_power
from crs_lib.stats.ranking import leaderboard

_NO_PAIRS = "fewer than 2 scenarios in common"
_OMNIBUS_COLUMNS = "test statistic df1 df2 p epsilon_gg p_gg kendall_w n n_missing note".split()
_EFFECT_COLUMNS = "effect a b estimate low high n n_missing note".split()
_PAIR_COLUMNS = """outcome family a b diff low high p_wilcoxon p_wilcoxon_adjusted p_equivalent_adjusted ranks
    adjustment family_size n n_missing note""".split()


class Battery(NamedTuple):
    """The results of a plan as tidy frames: ``pairwise`` of every outcome, the others of the primary one.

    A test that could not be made has a row without numbers and a ``note``. Where systems met different users
    the tests are those of independent samples. ``pairwise`` has a column ``verdict``
    (:func:`crs_lib.stats.verdict`), which sentences and letters follow.
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
        return self.pairwise[self.pairwise["family"] == CONFIRMATORY]


class _Case(NamedTuple):
    """An outcome: the values of the usable systems, all pairs, and the design with the pairs possible."""

    values: pd.DataFrame
    pairs: list[tuple[Any, Any]]
    design: Design

    @property
    def outcome(self) -> str:
        return self.design.value


def battery(frame: pd.DataFrame, plan: Mapping[str, Any] | Plan) -> Battery:
    """Everything that a plan declares.

    Parameters
    ----------
    frame : DataFrame
        A row a session: the plan's columns of system and scenario, and a column an outcome. Sessions of a
        system in one scenario are averaged.
    plan : Plan or mapping
        The declared analysis; contrasts on the primary outcome are the confirmatory family.

    Returns
    -------
    Battery
        Systems with fewer than two values stay in ``means`` alone, those not able are not ranked.

    Raises
    ------
    InputError
        For an unreadable plan, absent columns, systems or primary values, or one system.
    """
    plan = read_plan(plan)
    _check(frame, plan)
    cases = [_case(frame, plan, outcome) for outcome in plan.outcomes]
    values, _, design = cases[0]
    unable = _unable(frame, plan)
    tests = pd.concat([_pair_tests(case, plan) for case in cases], ignore_index=True)
    pairwise = _judged(_adjusted(tests, plan), unable, plan)
    tables = {
        "means": _means(frame, design),
        "omnibus": pd.concat([omnibus(name, values, design) for name in OMNIBUS]),
        "effects": _effects(values, design),
        "assumptions": attempt(assumptions, values, design),
        "leaderboard": _ranked(values[~values[plan.system].isin(unable)], pairwise, design, plan),
        "power": attempt(partial(_power, plan=plan), values, design),
    }
    tables["omnibus"] = tables["omnibus"].reindex(columns=_OMNIBUS_COLUMNS)
    for name in tables:
        table = tables[name].reset_index(drop=True)
        table.insert(0, "outcome", plan.primary_outcome)
        tables[name] = table
    return Battery(pairwise=pairwise, unable=unable, **tables)


ladder = battery  # the name of the test battery until 0.4


def _check(frame: pd.DataFrame, plan: Plan) -> None:
    columns = [plan.system, plan.scenario, *plan.outcomes]
    if plan.ability:
        columns.append(plan.ability)
    check_columns(frame, *columns)
    systems = levels(frame[plan.system])
    if len(systems) < 2:
        raise InputError(f"the frame has {len(systems)} system ({systems}); a plan compares at least 2")
    if np.isnan(numbers(frame, plan.primary_outcome)).all():
        raise InputError(f"no session has a value of {plan.primary_outcome!r}: there is nothing to test")
    unknown = set()
    for pair in plan.contrasts:
        unknown.update(set(pair) - set(systems))
    if unknown:
        raise InputError(f"contrasts name {sorted(unknown)}, the frame has {systems}; mend the plan")


def _case(frame: pd.DataFrame, plan: Plan, outcome: str) -> _Case:
    """The plan's contrasts come first among the pairs of the primary outcome."""
    confidence = 1 - plan.alpha
    design = Design(plan.system, plan.scenario, outcome, None, confidence, plan.resamples, plan.seed)
    values, _ = usable(frame, design)
    pairs = list(plan.contrasts) if outcome == plan.primary_outcome else []
    declared = {frozenset(pair) for pair in pairs}
    for pair in combinations(levels(frame[plan.system]), 2):
        if frozenset(pair) not in declared:
            pairs.append(pair)
    return _Case(values, pairs, possible(values, design, pairs))


def _unable(frame: pd.DataFrame, plan: Plan) -> tuple[Any, ...]:
    """The systems whose mean of the plan's ``ability`` lies below its floor: a low cost is no merit there."""
    if not plan.ability:
        return ()
    means = frame.groupby(plan.system, observed=True)[plan.ability].mean()
    return tuple(name for name in means.index if not means[name] >= plan.able_from)


def _means(frame: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Mean over scenarios of every system, unusable ones too; ``n`` and ``n_missing`` count sessions."""
    values = averaged(frame, design)
    rows = []
    for name in levels(frame[design.system]):
        sessions = frame.loc[frame[design.system] == name, design.value]
        mean = cost_interval(values.loc[values[design.system] == name, design.value], design.confidence)
        n = int(sessions.notna().sum())
        rows.append((name, mean.value, mean.low, mean.high, n, len(sessions) - n, mean.n, mean.reason))
    return pd.DataFrame(rows, columns="system mean low high n n_missing clusters note".split())


def _pair_tests(case: _Case, plan: Plan) -> pd.DataFrame:
    """Difference with interval, and p of a difference and (primary outcome) of equivalence, of every pair."""
    primary = case.outcome == plan.primary_outcome
    pairs = pd.DataFrame(case.pairs, columns=["a", "b"]).assign(outcome=case.outcome)
    declared = len(plan.contrasts) if primary else 0
    pairs["family"] = np.where(pairs.index < declared, CONFIRMATORY, EXPLORATORY)
    if not case.design.pairs:
        pairs[["diff", "low", "high", "n", "n_missing", "p_wilcoxon", "ranks", "p_equivalent"]] = np.nan
        return pairs.assign(note=_NO_PAIRS)
    if case.design.independent(case.values):
        margin = plan.smallest_effect if primary else np.nan
        tests = independent_pairs(case.values, case.design, margin).drop(columns="p_games_howell")
        return pairs.merge(tests.assign(p_wilcoxon=np.nan, note=APART), on=["a", "b"], how="left")
    table = pairs.merge(_paired_tests(case, plan, primary), on=["a", "b"], how="left")
    table.loc[table["p_wilcoxon"].isna(), "note"] = _NO_PAIRS
    return table


def _paired_tests(case: _Case, plan: Plan, primary: bool) -> pd.DataFrame:
    values, _, design = case
    tests = wilcoxon_pairs(values, design).rename(columns={"p": "p_wilcoxon"})
    gaps = []
    for pair in design.differences(values):
        gaps.append(cost_interval(pair.values, design.confidence, rare=primary))
    tests[["diff", "low", "high", "n", "note"]] = gaps
    tests["ranks"] = np.sign(tests["w_plus"] - tests["w_minus"])
    tests["p_equivalent"] = np.nan
    if primary:
        tests["p_equivalent"] = tost_pairs(values, plan.smallest_effect, design)["p"]
    return tests


def _adjusted(tests: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Both p values corrected within their family, over all outcomes of the plan or within each."""
    raw = _raw(tests)
    adjusted = f"{raw}_adjusted"
    keys = ["family", "outcome"] if plan.all_pairs else ["family"]
    parts = []
    for key, family in tests.groupby(keys, sort=True):
        method = plan.families[str(key[0])]
        part = adjust(family, p=raw, method=method).rename(columns={"p_adjusted": adjusted})
        part["p_equivalent_adjusted"] = adjust(family, p="p_equivalent", method=method)["p_adjusted"]
        parts.append(part.assign(adjustment=method))
    columns = list(_PAIR_COLUMNS)
    if raw not in columns:
        columns += [raw, adjusted]
    return pd.concat(parts).sort_index().reindex(columns=columns)


def _raw(tests: pd.DataFrame) -> str:
    """The column of the test of a difference: Wilcoxon's, or that of independent samples."""
    return "p_brunner_munzel" if "p_brunner_munzel" in tests else "p_wilcoxon"


def _judged(pairwise: pd.DataFrame, unable: Sequence[Any], plan: Plan) -> pd.DataFrame:
    """The pairs with their verdicts: a difference needs test, interval beyond 0, and ranks on one side.

    On the primary outcome a pair with a system that is not able is not compared.
    """
    adjusted = f"{_raw(pairwise)}_adjusted"
    notes, verdicts = [], []
    for row in pairwise.to_dict("records"):
        lacking = [str(name) for name in (row["a"], row["b"]) if name in unable]
        side = 0.0 if row[adjusted] > plan.alpha else row["ranks"]
        note = row["note"]
        if lacking and row["outcome"] == plan.primary_outcome:
            side = np.nan
            note = f"the gain of {' and '.join(lacking)} is below {plan.able_from:g}"
        elif np.isnan(row[adjusted]):
            side = np.nan
        gap = Estimate(row["diff"], row["low"], row["high"])
        equivalent = row["p_equivalent_adjusted"] <= plan.alpha
        verdicts.append(verdict(gap, plan.smallest_effect, side=side, equivalent=equivalent))
        notes.append(note)
    return pairwise.assign(note=notes, verdict=verdicts)


def _ranked(values: pd.DataFrame, pairwise: pd.DataFrame, design: Design, plan: Plan) -> pd.DataFrame:
    """The leaderboard, whose letters follow the verdicts on the primary outcome."""
    primary = pairwise[pairwise["outcome"] == plan.primary_outcome]
    differ = primary[primary["verdict"].isin([HIGHER, LOWER])]
    apart = {frozenset(pair) for pair in zip(differ["a"], differ["b"], strict=True)}
    higher = plan.primary_outcome not in plan.lower_is_better
    return attempt(partial(leaderboard, apart=apart, higher_is_better=higher), values, design)


def _effects(values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Explained variance of the outcome, then, where pairs share scenarios, rank-biserial of every pair."""
    if design.independent(values):
        explained = attempt(one_way_anova, values, design).rename(columns={"omega_squared": "estimate"})
        return explained.assign(effect="omega_squared").reindex(columns=_EFFECT_COLUMNS)
    parts = [attempt(partial_eta_squared, values, design).assign(effect="partial_eta_squared")]
    if design.pairs:
        parts.append(rank_biserial(values, design).assign(note=""))
    return pd.concat([part.reindex(columns=_EFFECT_COLUMNS) for part in parts])


def _power(values: pd.DataFrame, design: Design, plan: Plan) -> pd.DataFrame:
    """Power of every contrast by its own deviation."""
    if design.independent(values):
        raise InputError(f"{APART}; power is that of paired differences")
    pairs = design.pairs or ()
    declared = [pair for pair in pairs if pair in plan.contrasts]
    design = design.changed(pairs=declared or pairs)
    if not design.pairs:
        raise InputError("no contrast has two scenarios in common")
    tests = max(1, len(plan.contrasts))
    table = contrast_power(values, plan.smallest_effect, design, power=plan.power, tests=tests)
    if not (table["sd_difference"] > 0).any():
        raise InputError("too few scenarios differ in any contrast to tell how much they vary")
    return table
