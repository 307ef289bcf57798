"""The ladder: every declared test of a plan, from descriptive means to power, in one call."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Pairs, check_columns, levels, numbers, table
from crs_lib.stats.effects import omega_squared, paired_effects, partial_eta_squared
from crs_lib.stats.estimates import cluster_bootstrap, cluster_bootstrap_differences
from crs_lib.stats.groups import adjust, assumptions, games_howell, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.mixed import MixedModel, clustered_ols, mixed_model
from crs_lib.stats.paired import (
    friedman,
    mean_differences,
    rm_anova,
    sign_flip_pairs,
    tost_pairs,
    wilcoxon_pairs,
)
from crs_lib.stats.plan import Plan, read_plan
from crs_lib.stats.power import contrast_power, variance_components
from crs_lib.stats.ranking import leaderboard


class Ladder(NamedTuple):
    """The results of a plan as tidy frames; every frame has the column ``outcome``.

    A test that could not be made has a row with missing numbers and the reason in ``note``.
    """

    means: pd.DataFrame
    omnibus: pd.DataFrame
    pairwise: pd.DataFrame
    effects: pd.DataFrame
    equivalence: pd.DataFrame
    classical: pd.DataFrame
    mixed: pd.DataFrame
    mixed_fit: pd.DataFrame
    assumptions: pd.DataFrame
    leaderboard: pd.DataFrame
    power: pd.DataFrame


class _Case(NamedTuple):
    """One outcome: its rows by session and by scenario (averaged), of the usable systems only."""

    outcome: str
    rows: pd.DataFrame
    averaged: pd.DataFrame
    pairs: list[tuple[Any, Any]]
    design: Design

    @property
    def possible(self) -> Pairs:
        """The pairs with at least two scenarios in common."""
        return self.design.pairs or []


def ladder(frame: pd.DataFrame, plan: Mapping[str, Any] | Plan) -> Ladder:
    """Everything that the plan declares, on a frame with a row per session and a column per outcome.

    Several sessions of a system in one scenario are averaged for the paired tests; the mixed model sees
    every row. A system with fewer than two scenarios with a value is left out of the tests and stays in
    ``means``. The primary outcome's declared contrasts are the confirmatory family, all else exploratory.
    Equivalence and power concern the primary outcome, whose smallest effect is declared.

    Raises InputError for an unreadable plan, absent columns, systems or primary values, or one system.
    """
    plan = read_plan(plan)
    check_columns(frame, plan.system, plan.scenario, *plan.outcomes, *plan.factors)
    systems = levels(frame[plan.system])
    if len(systems) < 2:
        raise InputError(f"the frame has {len(systems)} system ({systems}); a plan compares at least 2")
    if np.isnan(numbers(frame, plan.primary_outcome)).all():
        raise InputError(f"no session has a value of {plan.primary_outcome!r}: there is nothing to test")
    unknown = {name for pair in plan.contrasts for name in pair} - set(systems)
    if unknown:
        raise InputError(f"contrasts name {sorted(unknown)}, the frame has {systems}; mend the plan")
    parts = [_climb(frame, plan, outcome) for outcome in plan.outcomes]
    joined = {
        name: pd.concat([part[name] for part in parts if name in part], ignore_index=True)
        for name in Ladder._fields
    }
    joined["pairwise"] = _adjusted(joined["pairwise"], plan)
    return Ladder(**joined)


def _climb(frame: pd.DataFrame, plan: Plan, outcome: str) -> dict[str, pd.DataFrame]:
    """Every frame of the ladder for one outcome."""
    case = _case(frame, plan, outcome)
    higher = outcome not in plan.lower_is_better
    model = _mixed(case, plan)
    found = {
        "means": _means(frame, case, plan),
        "omnibus": _omnibus(case, model),
        "pairwise": _pairwise(case, plan),
        "effects": _effects(case, plan),
        "classical": _classical(case, plan),
        "mixed": model.coefficients,
        "mixed_fit": model.fit,
        "assumptions": pd.concat([_checks(case, plan), _convergence(model)], ignore_index=True),
        "leaderboard": _attempt(
            lambda: leaderboard(case.averaged, case.design, higher_is_better=higher, alpha=plan.alpha)
        ),
    }
    if outcome == plan.primary_outcome:
        found["equivalence"] = _equivalence(case, plan)
        found["power"] = _attempt(lambda: _power(case, plan))
    for part in found.values():
        part.insert(0, "outcome", outcome)
    return found


def _means(frame: pd.DataFrame, case: _Case, plan: Plan) -> pd.DataFrame:
    """Mean over scenarios of every system, unusable ones too; ``n`` and ``n_missing`` count sessions."""
    found = cluster_bootstrap(_averaged(frame, plan, case.outcome), case.design)
    lacking = frame[case.outcome].isna().groupby(frame[plan.system], observed=True).agg(["sum", "size"])
    lacking = lacking.loc[found["system"]]
    lost = lacking["sum"].to_numpy(dtype=int)
    return found.assign(n=lacking["size"].to_numpy() - lost, n_missing=lost)


def _averaged(frame: pd.DataFrame, plan: Plan, outcome: str) -> pd.DataFrame:
    """One row for each system and scenario: the mean of its sessions that have a value."""
    clean = frame[[plan.system, plan.scenario]].assign(**{outcome: numbers(frame, outcome)})
    keys = [plan.system, plan.scenario]
    return clean.groupby(keys, observed=True, sort=False)[outcome].mean().reset_index()


def _case(frame: pd.DataFrame, plan: Plan, outcome: str) -> _Case:
    averaged = _averaged(frame, plan, outcome)
    known = averaged.set_index([plan.scenario, plan.system])[outcome].unstack().notna()  # noqa: PD010
    systems = levels(frame[plan.system])
    usable = [name for name in systems if known[name].sum() > 1]
    declared = list(plan.contrasts) if outcome == plan.primary_outcome else []
    seen = {frozenset(pair) for pair in declared}
    pairs = declared + [pair for pair in combinations(systems, 2) if frozenset(pair) not in seen]
    return _Case(
        outcome=outcome,
        rows=frame[frame[plan.system].isin(usable)],
        averaged=averaged[averaged[plan.system].isin(usable)],
        pairs=pairs,
        design=Design(
            plan.system,
            plan.scenario,
            outcome,
            pairs=[(a, b) for a, b in pairs if (known[a] & known[b]).sum() > 1],
            confidence=1 - plan.alpha,
            resamples=plan.resamples,
            seed=plan.seed,
        ),
    )


def _attempt(make: Callable[[], pd.DataFrame], **known: Any) -> pd.DataFrame:
    """The frame with an empty ``note``, or one row with the reason why it could not be made."""
    try:
        return make().assign(note="")
    except InputError as error:
        return table([known | {"note": str(error)}])


def _mixed(case: _Case, plan: Plan) -> MixedModel:
    """The mixed model; least squares with robust errors where it does not converge."""
    try:
        model = mixed_model(case.rows, case.design, factors=plan.factors)
        if not bool(model.fit["converged"].iloc[0]):
            robust = clustered_ols(case.rows, case.design, factors=plan.factors)
            fit = model.fit.assign(model="mixed model", note="did not converge: least squares shown")
            return robust._replace(fit=fit)
        return model._replace(fit=model.fit.assign(model="mixed model", note=""))
    except InputError as error:
        none = table([{"note": str(error)}])
        return MixedModel(none, none, none, none.assign(converged=None, model="mixed model"))


def _omnibus(case: _Case, model: MixedModel) -> pd.DataFrame:
    """All tests that any system differs, and of every term of the mixed model."""
    made = [
        _attempt(lambda: one_way_anova(case.averaged, case.design), test="one-way ANOVA"),
        _attempt(lambda: welch_anova(case.averaged, case.design), test="Welch ANOVA"),
        _attempt(lambda: rm_anova(case.averaged, case.design), test="repeated-measures ANOVA"),
        _attempt(lambda: friedman(case.averaged, case.design), test="Friedman"),
    ]
    terms = model.terms
    if "chi2" in terms:
        fit = model.fit.iloc[0]
        terms = terms.rename(columns={"chi2": "statistic", "df": "df1"})
        terms = terms.assign(n=int(fit["n"]), n_missing=int(fit["n_missing"]), note=str(fit["note"]))
    made.append(terms.assign(test="mixed model, Wald"))
    columns = ["test", "term", "statistic", "df1", "df2", "p", "epsilon_gg", "p_gg", "kendall_w"]
    return pd.concat(made).reindex(columns=[*columns, "n", "n_missing", "note"])


def _pairwise(case: _Case, plan: Plan) -> pd.DataFrame:
    """Difference with interval, Wilcoxon and sign-flip p of every pair, its family beside it."""
    every = pd.DataFrame(case.pairs, columns=["a", "b"])
    declared = case.outcome == plan.primary_outcome
    confirmatory = len(plan.contrasts) if declared else 0
    every["family"] = ["confirmatory"] * confirmatory + ["exploratory"] * (len(every) - confirmatory)
    if case.possible:
        means = cluster_bootstrap_differences(case.averaged, case.design).drop(columns=["error"])
        ranked = wilcoxon_pairs(case.averaged, case.design)
        flipped = sign_flip_pairs(case.averaged, case.design, permutations=plan.permutations)
        means["p_wilcoxon"], means["p_sign_flip"] = ranked["p"], flipped["p"]
        every = every.merge(means, on=["a", "b"], how="left")
    else:
        every[["diff", "low", "high", "n", "n_missing", "p_wilcoxon", "p_sign_flip"]] = np.nan
    unmade = every["p_wilcoxon"].isna()
    return every.assign(note=np.where(unmade, "fewer than 2 scenarios in common", ""))


def _adjusted(pairwise: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Both p values corrected within their family, over all outcomes of the plan or within each."""
    done = []
    for key, part in pairwise.groupby(["family", "outcome"] if plan.all_pairs else ["family"], sort=True):
        method = plan.families[str(key[0])]
        ranked = adjust(part, p="p_wilcoxon", method=method)
        flipped = adjust(part, p="p_sign_flip", method=method)["p_adjusted"]
        ranked = ranked.rename(columns={"p_adjusted": "p_wilcoxon_adjusted"})
        done.append(ranked.assign(p_sign_flip_adjusted=flipped, adjustment=method))
    whole = pd.concat(done).sort_index()
    front = ["outcome", "family", "a", "b", "diff", "low", "high", "p_wilcoxon", "p_wilcoxon_adjusted"]
    front += ["p_sign_flip", "p_sign_flip_adjusted", "adjustment", "family_size", "n", "n_missing"]
    primary = whole["outcome"] == plan.primary_outcome
    return whole[[*front, "note"]].assign(size=np.where(primary, _sizes(whole, plan.smallest_effect), ""))


def _sizes(pairs: pd.DataFrame, smallest: float) -> list[str]:
    """Each difference held against the smallest that matters, its interval where that decides; "" without."""
    found = []
    for diff, low, high in zip(pairs["diff"], pairs["low"], pairs["high"], strict=True):
        if np.isnan(diff):
            found.append("")
        elif abs(diff) < smallest:
            found.append(("" if -smallest < low and high < smallest else "estimate ") + f"below {smallest:g}")
        else:
            settled = low >= smallest or high <= -smallest
            found.append(("" if settled else "estimate ") + f"{smallest:g} or more")
    return found


def _effects(case: _Case, plan: Plan) -> pd.DataFrame:
    """Explained variance of the outcome, then three effect sizes of every pair."""
    made = [
        _attempt(lambda: omega_squared(case.averaged, case.design), effect="omega_squared"),
        _attempt(lambda: partial_eta_squared(case.averaged, case.design), effect="partial_eta_squared"),
    ]
    if case.possible:
        made.append(paired_effects(case.averaged, case.design).assign(note=""))
    columns = ["effect", "a", "b", "estimate", "low", "high", "n", "n_missing", "note"]
    return pd.concat([part.reindex(columns=columns) for part in made])


def _equivalence(case: _Case, plan: Plan) -> pd.DataFrame:
    """TOST of every pair against the smallest effect that matters."""
    return _attempt(lambda: tost_pairs(case.averaged, plan.smallest_effect, case.design, alpha=plan.alpha))


def _classical(case: _Case, plan: Plan) -> pd.DataFrame:
    """The thesis's table: Tukey, and Games-Howell for unequal variances."""
    made = []
    for name, test in (("Tukey HSD", tukey_hsd), ("Games-Howell", games_howell)):
        found = _attempt(partial(test, case.averaged, case.design))
        found.insert(0, "test", name)
        made.append(found)
    return pd.concat(made)


def _checks(case: _Case, plan: Plan) -> pd.DataFrame:
    return _attempt(lambda: assumptions(case.averaged, case.design, alpha=plan.alpha))


def _convergence(model: MixedModel) -> pd.DataFrame:
    fit = model.fit.iloc[0]
    row: dict[str, Any] = {"check": "convergence", "test": "mixed model", "holds": fit["converged"]}
    if fit["converged"] is None:
        return table([row | {"follows": "there is no mixed model to read", "note": fit["note"]}])
    words = "the mixed model converged and can be read"
    if not fit["converged"]:
        words = "the mixed model did not converge: the coefficients shown are least squares, robust"
    elif fit["warnings"]:
        words += f" (with the warning: {fit['warnings']})"
    row |= {"follows": words, "n": int(fit["n"]), "n_missing": int(fit["n_missing"])}
    return table([row | {"note": ""}])


def _power(case: _Case, plan: Plan) -> pd.DataFrame:
    """Power of every contrast by its own deviation, beside the variances of all systems together."""
    pilot = variance_components(case.averaged, case.design).iloc[0]
    whole = float(pilot["var_scenario"] + pilot["var_residual"])
    pairs = [pair for pair in case.possible if pair in plan.contrasts] or case.possible
    if not pairs:
        raise InputError("no contrast has two scenarios in common")
    found = contrast_power(
        case.averaged, plan.smallest_effect, case.design.changed(pairs=pairs), power=plan.power,
        alpha=plan.alpha, tests=max(1, len(plan.contrasts)),
    )  # fmt: skip
    if not (found["sd_difference"] > 0).any():
        raise InputError("no contrast has a difference that varies over scenarios: power is 0 or 1")
    shared = {"var_scenario": pilot["var_scenario"], "var_residual": pilot["var_residual"]}
    shared |= {"icc": float(pilot["var_scenario"]) / whole if whole > 0 else np.nan, "power": plan.power}
    return found.assign(smallest_effect=plan.smallest_effect, **shared)


# ── the tests of the thesis, and the paired ones beside them ───────────────────────────────────
_ANOVA = (
    "outcome", "test", "statistic", "df1", "df2", "p", "epsilon_gg", "p_gg", "kendall_w", "omega_squared",
    "n", "n_missing", "note",
)  # fmt: skip
_TUKEY = (
    "outcome", "a", "b", "diff", "low", "high", "p", "paired_diff", "paired_low", "paired_high", "p_wilcoxon",
    "p_holm", "n_a", "n_b", "n_pairs", "n_missing", "note",
)  # fmt: skip


def anova_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Whether any system differs, a row for each outcome and test.

    Tests: one-way ANOVA (the thesis's), repeated-measures ANOVA and Friedman's. ``frame`` has the columns
    ``system``, ``scenario`` and one an outcome, a row a session. ``n`` counts sessions, or complete scenarios
    of the paired tests. A test that cannot be made has a row without numbers; ``note`` says why, and what the
    thesis's test ignores. Systems with fewer than two values are left out, and named there.
    """
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        values, left_out = _usable(frame, outcome)
        tests: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
            "one-way ANOVA": one_way_anova,
            "repeated-measures ANOVA": rm_anova,
            "Friedman": friedman,
        }
        for name, make in tests.items():
            row: dict[str, Any] = {"outcome": outcome, "test": name}
            try:
                row |= make(values).iloc[0].to_dict()
                notes = [left_out, _constant(row)]
            except InputError as error:
                row |= {"n": len(values), "n_missing": len(frame) - len(values)}
                notes = [left_out, str(error)]
            if name == "one-way ANOVA" and not notes[-1]:
                row["omega_squared"] = float(omega_squared(values)["estimate"].iloc[0])
                notes.append(pairing(values))
            rows.append(row | {"note": "; ".join(filter(None, notes))})
    return pd.DataFrame(rows, columns=list(_ANOVA))


def tukey_table(frame: pd.DataFrame, outcomes: Sequence[str]) -> pd.DataFrame:
    """Every pair of systems on every outcome, a row each: Tukey's HSD beside the paired comparison.

    ``diff`` is the difference of means ``a - b`` with Tukey's simultaneous 95 % interval and ``p``;
    ``paired_diff`` that over the scenarios both have, with its t interval; ``p_holm`` is Wilcoxon's p after
    Holm over the pairs of the outcome. Input as :func:`anova_table`; what cannot be tested has a ``note``.
    """
    return pd.concat([_pairs(frame, outcome) for outcome in outcomes], ignore_index=True)[list(_TUKEY)]


def _pairs(frame: pd.DataFrame, outcome: str) -> pd.DataFrame:
    systems = levels(frame["system"])
    values, _ = _usable(frame, outcome)
    every = pd.DataFrame(
        [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]], columns=["a", "b"]
    )
    made = every.assign(outcome=outcome).reindex(columns=list(_TUKEY)).assign(note="")
    usable = set(levels(values["system"])) if len(values) else set()
    made["note"] = [
        "" if {a, b} <= usable else f"fewer than 2 values of {', '.join(sorted({a, b} - usable))}"
        for a, b in zip(made["a"], made["b"], strict=True)
    ]
    try:
        classical = tukey_hsd(values).drop(columns="n_missing")
    except InputError as error:
        return made.assign(note=[note or str(error) for note in made["note"]])
    made = made.drop(columns=["diff", "low", "high", "p", "n_a", "n_b"]).merge(
        classical, on=["a", "b"], how="left"
    )
    paired = USUAL.paired(values)
    known = {name: ~np.isnan(paired.values[:, i]) for i, name in enumerate(paired.systems)}
    possible = [
        (a, b)
        for a, b in zip(made["a"], made["b"], strict=True)
        if {a, b} <= usable and (known[a] & known[b]).sum() > 1
    ]
    if not possible:
        return made
    design = Design(pairs=possible)
    gaps = mean_differences(values, design)
    tests = adjust(wilcoxon_pairs(values, design), method="holm")
    beside = gaps[["a", "b"]].assign(
        paired_diff=gaps["diff"], paired_low=gaps["low"], paired_high=gaps["high"], n_pairs=gaps["n"],
        n_missing=gaps["n_missing"], p_wilcoxon=tests["p"], p_holm=tests["p_adjusted"],
    )  # fmt: skip
    return made.drop(columns=[*beside.columns[2:]]).merge(beside, on=["a", "b"], how="left")


def pairing(values: pd.DataFrame) -> str:
    """What ignoring that systems met the same users changes, in words; empty where no scenario is shared.

    The correlation of systems within scenarios, and the standard error of a difference without the pairs as a
    multiple of that with them, each the mean over pairs.
    """
    paired = USUAL.paired(values)
    correlations, ratios = [], []
    for i in range(len(paired.systems)):
        for j in range(i + 1, len(paired.systems)):
            both = paired.values[:, [i, j]]
            both = both[~np.isnan(both).any(axis=1)]
            apart = both[:, 0] - both[:, 1] if len(both) > 2 else np.zeros(1)
            if np.ptp(apart) > 0 and bool(np.all(both.max(axis=0) > both.min(axis=0))):
                correlations.append(float(np.asarray(np.corrcoef(both.T))[0, 1]))
                spread = np.sum(np.var(both, axis=0, ddof=1))
                ratios.append(float(np.sqrt(spread / np.var(apart, ddof=1))))
    if not ratios:
        return ""
    wider = f"{np.mean(ratios):.2f} times as wide as with the pairs"
    return (
        "ignores that systems met the same users: correlation within scenarios "
        f"{np.mean(correlations):.2f}, intervals of differences {wider}"
    )


def _usable(frame: pd.DataFrame, outcome: str) -> tuple[pd.DataFrame, str]:
    """The values of systems with at least two, sessions of one scenario averaged; and who is left out."""
    clean = frame[["system", "scenario"]].assign(value=numbers(frame, outcome))
    order = levels(frame["system"])
    clean = clean[clean["value"].notna()]
    means = clean.groupby(["system", "scenario"], sort=False, observed=True)["value"].mean().reset_index()
    counts = means["system"].value_counts()
    out = [str(name) for name in order if counts.get(name, 0) < 2]
    kept = means[~means["system"].astype(str).isin(out)]
    words = f"left out, with fewer than 2 values: {', '.join(out)}" if out else ""
    return kept.reset_index(drop=True), words


def _constant(row: Mapping[str, Any]) -> str:
    return "" if pd.notna(row["statistic"]) else "no value varies"
