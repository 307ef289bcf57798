"""Waiting times against loops, statsmodels and simulations."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp
from scipy.stats import chi2
from statsmodels.duration.hazard_regression import PHReg

from benchmarks.facets import facet_variances, scenarios_needed
from crs_lib import stats
from crs_lib.stats.agreement import masi_distance
from crs_lib.stats.bounded import Means
from crs_lib.stats.design import GAIN
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.power import contrast_curves, contrast_power
from crs_lib.stats.survival import hazard_ratios, net_incidence
from tests.helpers import refused
from tests.helpers.stats_examples import KRIPPENDORFF, matrix_frame, random_matrix, ratings, remission_frame

REMISSION = remission_frame()
TIMES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=2, max_size=20)


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_kaplan_meier_is_the_product_over_event_times(times):
    frame = pd.DataFrame(times, columns=["time", "event"]).assign(system="a")
    curve, share = stats.kaplan_meier(frame), 1.0
    for _, row in curve.iloc[1:].iterrows():
        risk = sum(t >= row["time"] for t, _ in times)
        events = sum(t == row["time"] and e for t, e in times)
        share *= 1 - events / risk
        assert (row["at_risk"], row["events"]) == (risk, events)
        assert row["survival"] == pytest.approx(share, abs=1e-12)
    assert curve["survival"].is_monotonic_decreasing
    inside = curve.dropna()[["low", "survival", "high"]].to_numpy()
    assert (np.diff(inside) >= -1e-12).all()


def ratio(frame, design=None):
    return hazard_ratios(frame, design or stats.Design()).iloc[0]


def test_robust_hazard_errors_without_ties_are_those_of_statsmodels():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"system": ["a", "b"] * 60, "scenario": np.repeat(range(40), 3)})
    frame["time"], frame["event"] = rng.exponential(size=120), True
    row = ratio(frame)
    first = (frame["system"] == "a").to_numpy(dtype=float)[:, None]
    model = PHReg(frame["time"].to_numpy(), first, status=frame["event"].to_numpy(dtype=float), ties="efron")
    again = model.fit(groups=frame["scenario"].to_numpy())
    error = (np.log(row["high"]) - np.log(row["low"])) / (2 * sp.norm.ppf(0.975))
    assert error == pytest.approx(float(again.bse[0]), rel=1e-6)
    assert np.log(row["estimate"]) == pytest.approx(float(again.params[0]), rel=1e-9)
    early = ratio(frame.assign(event=frame["time"] > 0.1))
    assert early["low"] < early["estimate"] < early["high"]  # censored before the first event


@pytest.mark.slow
def test_robust_hazard_ratios_keep_their_level_where_most_recover_at_once():
    """Two equal systems, 70 % of the shifts recovered by the first reply: 5 % of 200 tests reject."""
    rng = np.random.default_rng(5)
    scenarios, rejected = np.repeat(np.arange(40), 2), 0
    for _ in range(200):
        time = np.minimum(rng.geometric(0.7, 160) - 1, 3)
        frame = pd.DataFrame({"system": ["a"] * 80 + ["b"] * 80, "scenario": np.tile(scenarios, 2)})
        rejected += ratio(frame.assign(time=time, event=time < 3))["p"] < 0.05
    assert rejected / 200 == pytest.approx(0.05, abs=3.5 * (0.05 * 0.95 / 200) ** 0.5)


def test_no_hazard_ratio_is_made_up_and_missing_times_are_left_out_and_counted():
    shifts = pd.DataFrame({"system": ["a"] * 50 + ["b"] * 50, "scenario": [*range(50)] * 2, "event": True})
    apart, alike, late = (ratio(shifts.assign(time=[0.0] * n + [1.0] * (100 - n))) for n in (50, 100, 99))
    assert apart[["estimate", "low", "high", "p"]].isna().all()
    assert alike["estimate"] == pytest.approx(1) and alike[["low", "high", "p"]].isna().all()
    assert late["low"] < 1 < late["estimate"] < late["high"]
    turned = ratio(shifts.assign(time=[0.0] * 99 + [1.0]), stats.Design(pairs=[("b", "a")]))
    assert turned["estimate"] == pytest.approx(1 / late["estimate"], rel=1e-6)
    times = [1, 2, np.nan, 3, 4, 5]
    frame = pd.DataFrame({"system": list("aaabbb"), "time": times, "event": [True] * 3 + [False] * 3})
    curve = stats.kaplan_meier(frame)
    assert curve["system"].tolist() == ["a", "a", "a", "b"] and curve["n"].tolist() == [2, 2, 2, 3]
    assert curve["n_missing"].tolist() == [1, 1, 1, 0]
    row = ratio(frame.assign(scenario=0))
    assert np.isnan(row["estimate"]) and row[["events_a", "events_b", "n_missing"]].tolist() == [2, 0, 1]


def test_recovery_beyond_chance_is_that_of_the_cases_at_risk_and_lists_by_chance_have_none():
    """Four cases: two recover at once, one later, one never. By chance a tenth would, then a fifth."""
    frame = pd.DataFrame({"system": "s", "scenario": [*"abcdcd"], "time": [0] * 4 + [1] * 2})
    frame = frame.assign(event=[True, True, False, False, True, False], expected=[0.1] * 4 + [0.2] * 2)
    found = net_incidence(frame)
    assert (found["at_risk"].tolist(), found["events"].tolist()) == ([4, 2], [2, 1])
    assert found["incidence"].tolist() == pytest.approx([1 - 0.5 / 0.9, 1 - 0.25 / (0.9 * 0.8)])
    assert net_incidence(frame.assign(expected=1.0))["incidence"].isna().all()
    plain = net_incidence(frame.assign(expected=0.0))  # without chance: 1 − Kaplan-Meier
    assert plain["incidence"].tolist() == pytest.approx([0.5, 0.75])
    refused("whole numbers from 0 on", net_incidence, frame.assign(time=0.5))
    draw = np.random.default_rng(3)
    chance = draw.uniform(0.05, 0.6, size=(20_000, 4))
    hit = draw.random(chance.shape) < chance
    waits = np.cumsum(hit, axis=1) - hit == 0  # still at risk before the reply
    case, time = np.nonzero(waits)
    frame = pd.DataFrame({"system": "s", "scenario": case, "time": time, "event": hit[waits]})
    found = net_incidence(frame.assign(expected=chance[waits]), stats.Design(resamples=50))
    assert found["incidence"].abs().max() < 0.05  # the error of the last share is .014
    assert (found["low"] < found["incidence"]).all() and (found["incidence"] < found["high"]).all()


def crossed(seed=3, scenarios=25, drop=0):
    rng = np.random.default_rng(seed)
    keys = [list("abc"), ["none", "switch"], range(scenarios)]
    frame = pd.MultiIndex.from_product(keys, names=["system", "shift_type", "scenario"]).to_frame(index=False)
    change = (frame["shift_type"] == "switch") & (frame["system"] != "a")
    frame["value"] = frame["system"].map({"a": 0, "b": 1, "c": 2}) + 0.1 * change
    shared = rng.normal(size=scenarios)[frame["scenario"]]
    frame["value"] = 0.01 * (frame["value"] + shared + rng.normal(size=len(frame)))  # on a 0.0x scale
    return frame.drop(index=rng.choice(len(frame), drop, replace=False))


def test_balanced_model_equals_the_anova_scales_do_not_matter_and_missing_rows_are_counted():
    """Balanced data: Wald chi-square = df1 F, and the variances are the ANOVA's (Searle et al., 1992)."""
    x = random_matrix(2, 20, 4)
    frame = matrix_frame(x)
    model, anova = mixed_model(frame), rm_anova(frame).iloc[0]
    assert model.fit["converged"][0]
    assert model.terms["chi2"][0] == pytest.approx(3 * anova["statistic"], rel=1e-4)
    pilot = facet_variances(frame, {"scenario": ()}).set_index("effect")["variance"]
    assert model.fit["var_residual"][0] == pytest.approx(pilot["system × scenario"], rel=1e-4)
    assert model.fit["var_scenario"][0] == pytest.approx(pilot["scenario"], rel=1e-3)
    frame = crossed()
    moved = frame.assign(value=frame["value"] * 1e-4 + 7)
    here, there = (mixed_model(f).terms["chi2"][0] for f in (frame, moved))
    assert there == pytest.approx(here, rel=1e-4)
    frame.loc[frame.index[:7], "value"] = np.nan
    fit = mixed_model(frame).fit.iloc[0]
    assert (fit["n"], fit["n_missing"], fit["clusters"]) == (143, 7, 25)
    assert 0 <= fit["icc"] <= 1


@pytest.mark.parametrize("drop", [0, 30])
def test_wald_tests_equal_sum_coded_statsmodels(drop):
    """Main effects at the average of the other factor: the tests of sum coding; also off balance."""
    frame = crossed(drop=drop)
    found = mixed_model(frame, factors=("shift_type",)).terms.set_index("term")
    scaled = frame.assign(value=frame["value"] * 100)
    formula = "value ~ C(system, Sum) * C(shift_type, Sum)"
    fit = smf.mixedlm(formula, scaled, groups=scaled["scenario"]).fit(method="bfgs")
    again = fit.wald_test_terms(scalar=True).table
    for ours, theirs in (("system", 1), ("shift_type", 2), ("system:shift_type", 3)):
        assert found.loc[ours, "chi2"] == pytest.approx(float(again["statistic"].iloc[theirs]), rel=1e-2)
        assert found.loc[ours, "df"] == int(again["df_constraint"].iloc[theirs])


@pytest.mark.full
def test_the_mixed_model_finds_no_system_where_labels_could_be_swapped():
    """A session in three fails as a whole: its two values hang together more than the model allows."""
    p, wald = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        failed = 0.3 * rng.normal(size=(3, 1, 40)) * (rng.random((3, 1, 40)) < 0.3)
        values = failed + 0.3 * rng.normal(size=40) + 0.1 * rng.normal(size=(3, 2, 40))
        frame = crossed(scenarios=40).assign(value=values.ravel())
        term = mixed_by_type(frame).terms.set_index("term").loc["system"]
        p.append(term["p"])
        wald.append(chi2.sf(term["chi2"], term["df"]))
    assert np.mean(np.array(p) <= 0.05) <= 0.1
    assert np.mean(np.array(wald) <= 0.05) > 0.1


@pytest.mark.slow
def test_no_scenario_variance_converges_at_the_boundary():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    x -= x.mean(axis=1, keepdims=True)
    model = mixed_model(matrix_frame(x))
    assert model.fit["var_scenario"][0] == pytest.approx(0, abs=1e-3)
    assert np.isfinite(model.terms["chi2"]).all()
    assert "boundary" in model.fit["warnings"][0] or model.fit["converged"][0]


FRAME = crossed()
mixed_by_type = partial(mixed_model, factors=("shift_type",))


@pytest.mark.parametrize(("make", "frame", "words"), [
    (stats.kaplan_meier, REMISSION.assign(time=-1.0), "negative times"),
    (stats.kaplan_meier, REMISSION.assign(event=2), r"true \(it happened\) or false"),
    (stats.kaplan_meier, REMISSION.rename(columns={"time": "turns"}), "no column 'time'"),
    (mixed_by_type, FRAME[FRAME["shift_type"] == "none"], "'shift_type' has only the levels"),
    (mixed_by_type, FRAME[(FRAME["system"] != "b") | (FRAME["shift_type"] == "none")], "some combination of system, shift_type"),
    (mixed_model, FRAME.assign(value=0.5), "does not vary"),
    (mixed_model, FRAME[FRAME["scenario"] == 0], r"'scenario' has only the levels \[0\]"),
    (partial(mixed_model, factors=("genre",)), FRAME, "no column 'genre'"),
    (mixed_by_type, FRAME[FRAME["scenario"] == (FRAME["shift_type"] == "switch")], "too few values .* add sessions"),
])  # fmt: skip
def test_bad_input_says_what_to_do(make, frame, words):
    refused(words, make, frame)


PAIRS = stats.Design(pairs=[("b", "a"), ("c", "a")])


def drawn(sd, effect, n, level, draws=4000):
    """The share of samples of a normal population in which the test of means finds the effect."""
    noise = np.random.default_rng(1).normal(effect, sd, (draws, n))
    means = Means.of(noise, GAIN.of_differences)
    return ((means.p_differs() <= level) & (means.mean > 0)).mean()


def pilot_frame(spread, n=400):
    base, noise = np.random.default_rng(6).normal(size=(2, n))
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    columns = [base, base + 0.04 + spread * noise, base + 0.04 + 4 * spread * noise]
    return matrix_frame(np.column_stack(columns), names=["a", "b", "c"])


BOUNDED = PAIRS.changed(limits=GAIN)


def test_power_is_that_of_samples_drawn_from_the_population():
    power = contrast_power(pilot_frame(0.1), 0.05, BOUNDED, tests=2).set_index("a")
    assert power["sd_difference"].tolist() == pytest.approx([0.1, 0.4])
    assert power.loc["c", "power_now"] == pytest.approx(drawn(0.4, 0.05, 400, 0.025), abs=0.05)
    needed = int(power.loc["b", "sessions_needed"])
    assert drawn(0.1, 0.05, needed, 0.025) == pytest.approx(0.8, abs=0.05)
    detectable = power.loc["c", "detectable_effect"]
    assert drawn(0.4, detectable, 400, 0.025) == pytest.approx(0.8, abs=0.05)


def test_power_curves_rise_with_effect_and_number_and_fall_with_noise():
    curves = contrast_curves(pilot_frame(0.1), [0.05, 0.2], [10, 400], BOUNDED, tests=2)
    power = curves.set_index(["a", "effect", "sessions"])["power"]
    assert len(power) == 8
    table = contrast_power(pilot_frame(0.1), 0.05, BOUNDED, tests=2)
    assert power["b", 0.05, 400] == table["power_now"][0]
    assert power["b", 0.05, 10] < power["b", 0.2, 10]
    assert power["c", 0.05, 400] < power["b", 0.05, 400]


def test_power_beyond_a_thousand_scenarios_follows_that_of_drawn_ones():
    curves = contrast_curves(pilot_frame(0.4), [0.04], [1000, 1001], BOUNDED)
    near, beyond = curves.loc[curves["a"] == "c", "power"]
    assert beyond == pytest.approx(near, abs=0.04)


def test_power_of_too_few_scenarios_is_unknown():
    frame = matrix_frame(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, np.nan]]), names=["a", "b", "c"])
    columns = ["power_now", "detectable_effect", "sessions_needed"]
    assert contrast_power(frame, 0.05, PAIRS)[columns].isna().all(axis=None)
    assert contrast_curves(frame, [0.05], [5], PAIRS).empty


FACETS = ["system", "catalogue", "seed", "scenario"]
NESTED = {"catalogue": (), "seed": (), "scenario": ("catalogue", "seed")}


def long(x, names):
    index = pd.MultiIndex.from_product([range(n) for n in x.shape], names=names)
    return pd.DataFrame({"value": x.ravel()}, index=index).reset_index()


def test_crossed_components_are_those_of_the_two_way_table_and_nested_ones_are_found():
    """The system by scenario design has a closed form (Searle et al. 1992, chapter 4)."""
    x = np.random.default_rng(1).normal(size=(4, 30)) + np.arange(4)[:, None]
    frame = long(x, ["system", "scenario"])
    found = facet_variances(frame, {"scenario": ()}).set_index("effect")["variance"]
    left = ((x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()) ** 2).sum() / (3 * 29)
    assert found["system × scenario"] == pytest.approx(left)
    assert found["scenario"] == pytest.approx(max(0, (4 * x.mean(axis=0).var(ddof=1) - left) / 4))
    row = scenarios_needed(facet_variances(frame, {"scenario": ()}), 0.1).iloc[0]
    assert row["half_width"] == pytest.approx(1.96 * (2 * left / 30) ** 0.5)
    assert row["scenarios"] == np.ceil(2 * left * (1.96 / 0.1) ** 2) and row["floor"] == 0
    draw, (p, c, s, i) = np.random.default_rng(2), (12, 9, 8, 7)
    parts = {(p, 1, 1, 1): 1.0, (p, c, 1, 1): 0.5, (p, 1, s, 1): 0.3, (1, c, s, i): 0.8, (p, c, s, i): 0.6}
    x = sum(sd * draw.normal(size=shape) for shape, sd in parts.items())
    found = facet_variances(long(x, FACETS), NESTED).set_index("effect")
    for effect, variance, error in (
        ("system × catalogue", 0.25, 0.3), ("system × seed", 0.09, 0.35),
        ("catalogue × seed × scenario", 0.64, 0.15), ("system × catalogue × seed × scenario", 0.36, 0.05),
    ):  # fmt: skip
        assert found.loc[effect, "variance"] == pytest.approx(variance, rel=error)
    assert abs(found.loc["system × catalogue × seed", "estimate"]) < 0.02
    assert found["df"].sum() == x.size - 1 and found["share"].sum() == pytest.approx(1)


def test_what_few_catalogues_leave_open_no_scenario_closes_facets_of_one_level_go_and_gaps_are_named():
    draw = np.random.default_rng(4)
    x = draw.normal(size=(6, 3, 1, 1)) + 0.1 * draw.normal(size=(6, 3, 4, 5))
    components = facet_variances(long(x, FACETS), NESTED)
    new = scenarios_needed(components, 0.05).iloc[0]
    assert np.isnan(new["scenarios"]) and new["floor"] > 0.5
    these = scenarios_needed(components, 0.05, fixed=["catalogue", "seed"]).iloc[0]
    assert these["floor"] == 0 and these["scenarios"] < 20 and these["cells"] == 12
    frame = long(np.random.default_rng(5).normal(size=(3, 1, 2, 4)), FACETS)
    effects = facet_variances(frame, NESTED)["effect"].tolist()
    assert effects == ["system", "seed", "system × seed", "seed × scenario", "system × seed × scenario"]
    told = "not balanced: 23 rows for 24 cells of 3 system by 2 seed by 4 scenario, 1 "
    refused(told, facet_variances, frame.iloc[1:], NESTED)


def alpha(frame, level="ordinal", **draws):
    design = stats.Design(system="rater", scenario="item", **{"resamples": 50, **draws})
    return stats.krippendorff_alpha(frame, design, level=level).iloc[0]


def slow_alpha(table, distance):
    """Definition by pairs: within items over m - 1, and over all pairable ratings."""
    units = [[v for v in column if not np.isnan(v)] for column in np.transpose(table)]
    units = [u for u in units if len(u) > 1]
    every = [v for u in units for v in u]
    n = len(every)
    seen = sum(distance(a, b) / (len(u) - 1) for u in units for a, b in itertools.permutations(u, 2)) / n
    by_chance = sum(distance(a, b) for a, b in itertools.permutations(every, 2)) / (n * (n - 1))
    return np.nan if by_chance == 0 else 1 - seen / by_chance


def between_ranks(table):
    """Krippendorff's ordinal metric written as he does: ratings between c and k, ends half."""
    kept = table[:, (~np.isnan(table)).sum(axis=0) > 1]
    count = {v: int((kept == v).sum()) for v in np.unique(kept[~np.isnan(kept)])}

    def distance(a, b):
        low, high = min(a, b), max(a, b)
        return (sum(n for v, n in count.items() if low <= v <= high) - (count[a] + count[b]) / 2) ** 2

    return distance


CELL = st.one_of(st.integers(1, 4).map(float), st.just(float("nan")))
ROWS = {n: st.lists(CELL, min_size=n, max_size=n) for n in (2, 3, 4)}
TABLES = st.sampled_from([2, 3, 4]).flatmap(lambda n: st.lists(ROWS[n], min_size=2, max_size=4))


@settings(max_examples=25, deadline=None)
@given(TABLES)
def test_alpha_is_the_loop_over_pairs(table):
    x = np.array(table)
    if ((~np.isnan(x)).sum(axis=0) > 1).any():
        gaps = {"nominal": lambda a, b: a != b, "interval": lambda a, b: (a - b) ** 2}
        for level, distance in {**gaps, "ordinal": between_ranks(x)}.items():
            found = alpha(ratings(x), level, resamples=5)["alpha"]
            assert found == pytest.approx(slow_alpha(x, distance), abs=1e-12, nan_ok=True)


def test_masi_is_passonneaus_distance_and_nominal_for_single_labels():
    """Passonneau (2006): Jaccard times 1, 2/3 (one holds the other), 1/3 (overlap) or 0 (disjoint)."""
    cases = [({1, 2}, {1, 2}, 0), ({1, 2}, {1, 2, 3, 4}, 2 / 3), ({1, 2}, {2, 3}, 8 / 9), ({1}, {2}, 1)]
    for a, b, distance in [*cases, ([], [], 0), ([], [1], 1)]:
        assert masi_distance(a, b) == pytest.approx(distance)
    singles = ratings(KRIPPENDORFF)
    sets = singles.assign(value=[None if v != v else frozenset([v]) for v in singles["value"]])
    assert alpha(sets, "masi")["alpha"] == pytest.approx(alpha(singles, "nominal")["alpha"])
    coded = {1.0: {"a"}, 2.0: {"a", "b"}, 3.0: {"b", "c"}, 4.0: set(), 5.0: {"a", "b", "c"}}
    mixed = singles.assign(value=[None if v != v else coded[v] for v in singles["value"]])
    expected = slow_alpha(KRIPPENDORFF, lambda a, b: masi_distance(coded[a], coded[b]))
    assert alpha(mixed, "masi")["alpha"] == pytest.approx(expected)


def test_extremes_errors_and_many_items():
    same = ratings([[1, 2, 3], [1, 2, 3]])
    assert alpha(same)["alpha"] == 1.0
    assert np.isnan(alpha(ratings([[1, 1], [1, 1]]))["alpha"])
    refused("item 0 was rated twice by 0", alpha, pd.concat([same, same]))
    refused("no item has two ratings", alpha, same[same["rater"] == 0])
    assert stats.icc(ratings([[1, 2, 3], [1, 2, 3]]))["icc"].to_numpy() == pytest.approx(1.0)
    assert stats.icc(ratings([[1, 1], [1, 1]]))["icc"].isna().all()
    holed = [[9, 6, 8, 7, 10, 6], [np.nan, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4]]
    assert stats.icc(ratings(holed)).iloc[0][["n", "n_missing"]].tolist() == [5, 1]
    refused("1 items were rated by all 2", stats.icc, ratings([[1], [2]]))
    x = np.random.default_rng(1).normal(size=(1, 600)) + np.random.default_rng(2).normal(size=(3, 600))
    for level in ("interval", "ordinal"):
        row = alpha(ratings(x), level, resamples=40)
        assert row["low"] < row["alpha"] < row["high"] and row["alpha"] == pytest.approx(0.5, abs=0.1)
