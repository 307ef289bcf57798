"""The test battery: every declared test of a plan, from descriptive means to power, in one call."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats import adaptation
from crs_lib.stats.bounded import mean_interval
from crs_lib.stats.design import Design, check_columns, levels, numbers
from crs_lib.stats.effects import leaderboard, rank_biserial, standardised
from crs_lib.stats.estimate import HIGHER, LOWER, NOT_COMPARED, TOO_FEW, Estimate, verdict
from crs_lib.stats.groups import adjust, assumptions, independent_pairs, one_way_anova
from crs_lib.stats.paired import mean_tests
from crs_lib.stats.plan import CONFIRMATORY, EXPLORATORY, Plan, read_plan
from crs_lib.stats.power import contrast_power
from crs_lib.stats.tables import (
    APART,
    OMNIBUS,
    averaged,
    omnibus,
    table_or_note,
    usable_values,
    with_common_scenarios,
)

_NO_PAIRS = "fewer than 2 scenarios in common"
_OMNIBUS_COLUMNS = "test statistic df1 df2 p epsilon_gg p_gg kendall_w n n_missing note".split()
_EFFECT_COLUMNS = "effect a b estimate low high n n_missing note".split()
_PAIR_COLUMNS = """outcome family a b diff low high p p_adjusted p_equivalent_adjusted adjustment family_size
    n n_missing note""".split()


class Battery(NamedTuple):
    """The results of a plan as tidy frames: ``pairwise`` of every outcome, the others of the primary one.

    A test that could not be made has a row without numbers and a ``note``. Where systems met different users
    the tests are those of independent samples. ``pairwise`` has a column ``verdict``
    (:func:`crs_lib.stats.verdict`), which letters follow. ``adaptation`` has the word and the sentence for
    every declared contrast (:func:`crs_lib.stats.adaptation_of`); it is empty without straight users.
    """

    means: pd.DataFrame
    omnibus: pd.DataFrame
    pairwise: pd.DataFrame
    effects: pd.DataFrame
    assumptions: pd.DataFrame
    leaderboard: pd.DataFrame
    power: pd.DataFrame
    adaptation: pd.DataFrame
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
    unable = _systems_below_floor(frame, plan)
    tests = pd.concat([_pair_tests(case, plan) for case in cases], ignore_index=True)
    tests = _without_unable(tests, unable, plan)
    pairwise = _with_verdicts(_with_adjusted_p(tests, plan), plan)
    ranked = values
    if plan.primary_outcome in plan.costs:
        ranked = values[~values[plan.system].isin(unable)]
    tables = {
        "means": _means(frame, design),
        "omnibus": pd.concat([omnibus(name, values, design) for name in OMNIBUS]),
        "effects": _effects(values, design),
        "assumptions": table_or_note(assumptions, values, design),
        "leaderboard": _leaderboard(ranked, pairwise, design, plan),
        "power": table_or_note(partial(_power, plan=plan), values, design),
        "adaptation": _adaptation(frame, pairwise, plan),
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
    columns = plan.system, plan.scenario, outcome
    limits = plan.range_of(outcome)
    design = Design(*columns, None, 1 - plan.alpha, plan.resamples, plan.seed, limits)
    values, _ = usable_values(frame, design)
    pairs = list(plan.contrasts) if outcome == plan.primary_outcome else []
    declared = {frozenset(pair) for pair in pairs}
    for pair in combinations(levels(frame[plan.system]), 2):
        if frozenset(pair) not in declared:
            pairs.append(pair)
    return _Case(values, pairs, with_common_scenarios(values, design, pairs))


def _systems_below_floor(frame: pd.DataFrame, plan: Plan) -> tuple[Any, ...]:
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
        own = values.loc[values[design.system] == name, design.value]
        mean = mean_interval(own, design.confidence, design.limits)
        n = int(sessions.notna().sum())
        n_missing = len(sessions) - n
        rows.append((name, *mean[:3], n, n_missing, mean.n, mean.reason))
    return pd.DataFrame(rows, columns="system mean low high n n_missing clusters note".split())


def _pair_tests(case: _Case, plan: Plan) -> pd.DataFrame:
    """Difference with interval, and p of a difference and (primary outcome) of equivalence, of every pair."""
    primary = case.outcome == plan.primary_outcome
    pairs = pd.DataFrame(case.pairs, columns=["a", "b"]).assign(outcome=case.outcome)
    declared = len(plan.contrasts) if primary else 0
    pairs["family"] = np.where(pairs.index < declared, CONFIRMATORY, EXPLORATORY)
    if not case.design.pairs:
        pairs[["diff", "low", "high", "n", "n_missing", "p", "p_equivalent"]] = np.nan
        return pairs.assign(note=_NO_PAIRS)
    margin = plan.smallest_effect if primary else np.nan
    if case.design.independent(case.values):
        tests = independent_pairs(case.values, case.design, margin).assign(note=APART)
    else:
        tests = mean_tests(case.values, case.design, margin=margin)
    table = pairs.merge(tests, on=["a", "b"], how="left")
    return table.assign(note=table["note"].fillna(_NO_PAIRS))


def _without_unable(tests: pd.DataFrame, unable: Sequence[Any], plan: Plan) -> pd.DataFrame:
    """The tests without p where a system is not able: its costs are compared with none, in no family."""
    table = tests.copy()
    for index, row in tests.iterrows():
        lacking = [str(name) for name in (row["a"], row["b"]) if name in unable]
        if lacking and row["outcome"] in plan.costs:
            table.loc[index, ["p", "p_equivalent"]] = np.nan
            table.loc[index, "note"] = f"the gain of {' and '.join(lacking)} is below {plan.able_from:g}"
    return table


def _with_adjusted_p(tests: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Both p values corrected within their family, over all outcomes of the plan or within each."""
    keys = ["family", "outcome"] if plan.all_pairs else ["family"]
    parts = []
    for key, family in tests.groupby(keys, sort=True):
        method = plan.families[str(key[0])]
        part = adjust(family, method=method)
        part["p_equivalent_adjusted"] = adjust(family, p="p_equivalent", method=method)["p_adjusted"]
        parts.append(part.assign(adjustment=method))
    return pd.concat(parts).sort_index().reindex(columns=_PAIR_COLUMNS)


def _with_verdicts(pairwise: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """The pairs with their verdicts: a difference needs its corrected test and an interval beyond 0."""
    verdicts = []
    for row in pairwise.to_dict("records"):
        if np.isnan(row["p_adjusted"]):
            verdicts.append(NOT_COMPARED)
        elif row["n"] < plan.fewest:
            verdicts.append(TOO_FEW)
        else:
            side = np.sign(row["diff"]) if row["p_adjusted"] <= plan.alpha else 0.0
            gap = Estimate(row["diff"], row["low"], row["high"])
            equivalent = row["p_equivalent_adjusted"] <= plan.alpha
            verdicts.append(verdict(gap, plan.smallest_effect, side=side, equivalent=equivalent))
    return pairwise.assign(verdict=verdicts)


def _adaptation(frame: pd.DataFrame, pairwise: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Who adapts better in every declared contrast; no row for scores without the columns that it takes."""
    if not {*adaptation.COLUMNS} <= set(frame):
        return pd.DataFrame()
    keys = [plan.system, plan.scenario]
    by_user = frame.groupby(keys, observed=True, sort=False, as_index=False)
    means = by_user[list(adaptation.COLUMNS)].mean()
    after = pairwise[pairwise["outcome"] == adaptation.GAIN_AFTER].set_index(["a", "b"])
    rows = []
    for a, b in plan.contrasts:
        p = float(after["p_adjusted"].get((a, b), np.nan))
        pair = adaptation.adaptation_of(
            means,
            a,
            b,
            p_gain=p,
            margin=plan.smallest_effect,
            floor=plan.able_from,
            alpha=plan.alpha,
            fewest=plan.fewest,
            system=plan.system,
            scenario=plan.scenario,
        )
        rows.append({"a": a, "b": b, **pair.row()})
    return pd.DataFrame(rows)


def _leaderboard(values: pd.DataFrame, pairwise: pd.DataFrame, design: Design, plan: Plan) -> pd.DataFrame:
    """The leaderboard, whose letters follow the verdicts on the primary outcome."""
    primary = pairwise[pairwise["outcome"] == plan.primary_outcome]
    differ = primary[primary["verdict"].isin([HIGHER, LOWER])]
    apart = {frozenset(pair) for pair in zip(differ["a"], differ["b"], strict=True)}
    higher = plan.primary_outcome not in plan.lower_is_better
    return table_or_note(partial(leaderboard, apart=apart, higher_is_better=higher), values, design)


def _effects(values: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Rank-biserial and d_z of every pair, or where systems met different users the variance they explain."""
    if design.independent(values):
        explained = table_or_note(one_way_anova, values, design).rename(columns={"omega_squared": "estimate"})
        return explained.assign(effect="omega_squared").reindex(columns=_EFFECT_COLUMNS)
    if not design.pairs:
        return pd.DataFrame(columns=_EFFECT_COLUMNS)
    parts = [rank_biserial(values, design), standardised(values, design)]
    return pd.concat(parts).assign(note="").reindex(columns=_EFFECT_COLUMNS)


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
        raise InputError("no contrast has differences that vary over scenarios")
    return table
