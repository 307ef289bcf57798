"""Waiting times, mixed models, power, variance components and agreement against loops, statsmodels and simulations."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy import stats as sp
from statsmodels.duration.hazard_regression import PHReg

from benchmarks.facets import facet_variances, scenarios_needed
from crs_lib import stats
from crs_lib.stats import Design
from crs_lib.stats.agreement import masi_distance
from crs_lib.stats.bounded import Means
from crs_lib.stats.design import GAIN
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.power import contrast_curves, contrast_power
from crs_lib.stats.survival import hazard_ratios, net_incidence
from tests.helpers import refused, table
from tests.helpers.stats_examples import KRIPPENDORFF, matrix_frame, random_matrix, ratings, remission_frame


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=2, max_size=20))
def test_kaplan_meier_is_the_product_over_event_times(waits):
    frame = pd.DataFrame(waits, columns=["time", "event"]).assign(system="a")
    curve = stats.kaplan_meier(frame)
    share = 1.0
    for row in curve.iloc[1:].itertuples():
        at_risk = (frame["time"] >= row.time).sum()
        events = frame.loc[frame["time"] == row.time, "event"].sum()
        share *= 1 - events / at_risk
        assert row.at_risk == at_risk
        assert row.events == events
        assert row.survival == approx(share, abs=1e-12)
    assert curve["survival"].is_monotonic_decreasing
    ends = curve.dropna()[["low", "survival", "high"]].to_numpy()
    assert (np.diff(ends) >= -1e-12).all()


def test_missing_times_are_left_out_and_counted():
    frame = pd.DataFrame({"system": list("aaabbb"), "scenario": 0})
    frame["time"] = [1, 2, np.nan, 3, 4, 5]
    frame["event"] = frame["system"] == "a"
    curve = stats.kaplan_meier(frame)
    assert curve["system"].tolist() == ["a", "a", "a", "b"]
    assert curve["n"].tolist() == [2, 2, 2, 3]
    assert curve["n_missing"].tolist() == [1, 1, 1, 0]
    row = hazard_ratios(frame).iloc[0]
    assert np.isnan(row["estimate"])
    assert row[["events_a", "events_b", "n_missing"]].tolist() == [2, 0, 1]


def test_unreadable_times_are_refused():
    remission = remission_frame()
    refused("negative times", stats.kaplan_meier, remission.assign(time=-1.0))
    refused(r"true \(it happened\) or false", stats.kaplan_meier, remission.assign(event=2))
    refused("no column 'time'", stats.kaplan_meier, remission.rename(columns={"time": "turns"}))


@pytest.fixture
def untied():
    """Two systems in 40 scenarios, three waits each, no two of one length."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"system": ["a", "b"] * 60, "event": True})
    frame["scenario"] = np.repeat(range(40), 3)
    return frame.assign(time=rng.exponential(size=120))


def test_robust_hazard_errors_without_ties_are_those_of_statsmodels(untied):
    row = hazard_ratios(untied).iloc[0]
    first = (untied["system"] == "a").to_numpy(dtype=float)
    time = untied["time"].to_numpy()
    model = PHReg(time, first, status=np.ones(120), ties="efron")
    theirs = model.fit(groups=untied["scenario"].to_numpy())
    width = np.log(row["high"] / row["low"])
    error = width / (2 * sp.norm.ppf(0.975))
    assert error == approx(theirs.bse[0], rel=1e-6)
    logarithm = np.log(row["estimate"])
    assert logarithm == approx(theirs.params[0], rel=1e-9)


def test_a_time_may_be_censored_before_the_first_event(untied):
    censored = untied.assign(event=untied["time"] > 0.1)
    row = hazard_ratios(censored).iloc[0]
    assert row["low"] < row["estimate"] < row["high"]


@pytest.mark.slow
def test_robust_hazard_ratios_keep_their_level_where_most_recover_at_once():
    """Two equal systems, 70 % of the shifts recovered by the first reply: 5 % of 200 tests reject."""
    rng = np.random.default_rng(5)
    system = np.repeat(["a", "b"], 80)
    twice = np.repeat(np.arange(40), 2)
    frame = pd.DataFrame({"system": system, "scenario": np.tile(twice, 2)})
    rejected = 0
    for _ in range(200):
        waits = rng.geometric(0.7, 160) - 1
        time = np.minimum(waits, 3)
        ratios = hazard_ratios(frame.assign(time=time, event=time < 3))
        rejected += ratios["p"][0] < 0.05
    error = (0.05 * 0.95 / 200) ** 0.5
    assert rejected / 200 == approx(0.05, abs=3.5 * error)


def recovered(at_once, pairs=None):
    """The hazard ratio of two systems of 50 shifts, the first ``at_once`` of which recover at once, the others later."""
    frame = pd.DataFrame({"system": np.repeat(["a", "b"], 50), "event": True})
    frame["scenario"] = np.tile(range(50), 2)
    frame["time"] = (frame.index >= at_once).astype(float)
    ratios = hazard_ratios(frame, Design(pairs=pairs))
    return ratios.iloc[0]


def test_no_hazard_ratio_is_made_up():
    apart = recovered(50)
    assert apart[["estimate", "low", "high", "p"]].isna().all(), "all of a before all of b"
    alike = recovered(100)
    assert alike["estimate"] == approx(1)
    assert alike[["low", "high", "p"]].isna().all()
    late = recovered(99)
    assert late["low"] < 1 < late["estimate"] < late["high"]
    turned = recovered(99, [("b", "a")])
    assert turned["estimate"] == approx(1 / late["estimate"], rel=1e-6)


@pytest.fixture
def cases():
    """Four cases: two recover at once, one later, one never. By chance a tenth would, then a fifth."""
    frame = pd.DataFrame(
        table(__file__, "recovered_cases"), columns=["scenario", "time", "event", "expected"]
    )
    return frame.assign(system="s")


def test_recovery_beyond_chance_is_that_of_the_cases_at_risk(cases):
    recovery = net_incidence(cases)
    assert recovery["at_risk"].tolist() == [4, 2]
    assert recovery["events"].tolist() == [2, 1]
    first, later = recovery["incidence"]
    assert first == approx(1 - 0.5 / 0.9)
    assert later == approx(1 - 0.25 / (0.9 * 0.8))
    without_chance = net_incidence(cases.assign(expected=0.0))
    assert without_chance["incidence"].tolist() == approx([0.5, 0.75])
    by_chance_alone = net_incidence(cases.assign(expected=1.0))
    assert by_chance_alone["incidence"].isna().all()
    refused("whole numbers from 0 on", net_incidence, cases.assign(time=0.5))


def test_lists_by_chance_do_not_recover_beyond_chance():
    rng = np.random.default_rng(3)
    chance = rng.uniform(0.05, 0.6, size=(20_000, 4))
    hit = rng.random(chance.shape) < chance
    waits = np.cumsum(hit, axis=1) - hit == 0  # still at risk before the reply
    case, time = np.nonzero(waits)
    frame = pd.DataFrame({"scenario": case, "time": time})
    frame = frame.assign(system="s", event=hit[waits], expected=chance[waits])
    recovery = net_incidence(frame, Design(resamples=50))
    assert recovery["incidence"].abs().max() < 0.05, "the error of the last share is .014"
    assert (recovery["low"] < recovery["incidence"]).all()
    assert (recovery["incidence"] < recovery["high"]).all()


def crossed(scenarios=25, absent=0):
    """Three systems under two types of shift in every scenario, on a scale of hundredths; some rows may be absent."""
    rng = np.random.default_rng(3)
    keys = itertools.product("abc", ["none", "switch"], range(scenarios))
    frame = pd.DataFrame(keys, columns=["system", "shift_type", "scenario"])
    system = frame["system"]
    change = (frame["shift_type"] == "switch") & (system != "a")
    fixed = system.map({"a": 0, "b": 1, "c": 2}) + 0.1 * change
    of_scenarios = rng.normal(size=scenarios)
    shared = of_scenarios[frame["scenario"]]
    noise = rng.normal(size=len(frame))
    frame["value"] = 0.01 * (fixed + shared + noise)
    dropped = rng.choice(len(frame), absent, replace=False)
    return frame.drop(index=dropped)


def by_type(frame):
    return mixed_model(frame, factors=("shift_type",))


def test_the_balanced_model_equals_the_analysis_of_variance():
    """Wald chi-square = df1 F, and the variances are the ANOVA's (Searle et al., 1992)."""
    frame = matrix_frame(random_matrix(2, 20, 4))
    model = mixed_model(frame)
    fit = model.fit.iloc[0]
    assert fit["converged"]
    f = rm_anova(frame)["statistic"][0]
    assert model.terms["chi2"][0] == approx(3 * f, rel=1e-4)
    components = facet_variances(frame, {"scenario": ()})
    variance = components.set_index("effect")["variance"]
    assert fit["var_residual"] == approx(variance["system × scenario"], rel=1e-4)
    assert fit["var_scenario"] == approx(variance["scenario"], rel=1e-3)


def test_scales_do_not_matter_to_the_model():
    frame = crossed()
    moved = frame.assign(value=frame["value"] * 1e-4 + 7)
    ours = mixed_model(frame).terms["chi2"]
    of_moved = mixed_model(moved).terms["chi2"]
    assert of_moved[0] == approx(ours[0], rel=1e-4)


def test_the_model_counts_missing_rows():
    frame = crossed()
    frame.loc[frame.index[:7], "value"] = np.nan
    fit = mixed_model(frame).fit.iloc[0]
    assert fit[["n", "n_missing", "clusters"]].tolist() == [143, 7, 25]
    assert 0 <= fit["icc"] <= 1


@pytest.mark.parametrize("absent", [0, 30])
def test_wald_tests_equal_sum_coded_statsmodels(absent):
    """Main effects at the average of the other factor: the tests of sum coding; also off balance."""
    frame = crossed(absent=absent)
    terms = by_type(frame).terms
    scaled = frame.assign(value=frame["value"] * 100)
    formula = "value ~ C(system, Sum) * C(shift_type, Sum)"
    fit = smf.mixedlm(formula, scaled, groups=scaled["scenario"]).fit(method="bfgs")
    tests = fit.wald_test_terms(scalar=True)
    theirs = tests.table.iloc[1:].astype(float)
    assert terms["term"].tolist() == ["system", "shift_type", "system:shift_type"]
    assert terms["chi2"].tolist() == approx(theirs["statistic"].tolist(), rel=1e-2)
    assert terms["df"].tolist() == theirs["df_constraint"].tolist()


@pytest.mark.full
def test_the_mixed_model_finds_no_system_where_labels_could_be_swapped():
    """A session in three fails as a whole: its two values hang together more than the model allows."""
    frame = crossed(scenarios=40)
    p = []
    wald = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        loss = 0.3 * rng.normal(size=(3, 1, 40))
        failed = loss * (rng.random((3, 1, 40)) < 0.3)
        shared = 0.3 * rng.normal(size=40)
        values = failed + shared + 0.1 * rng.normal(size=(3, 2, 40))
        model = by_type(frame.assign(value=values.ravel()))
        system = model.terms.set_index("term").loc["system"]
        p.append(system["p"])
        wald.append(sp.chi2.sf(system["chi2"], system["df"]))
    assert np.mean(np.array(p) <= 0.05) <= 0.1
    assert np.mean(np.array(wald) <= 0.05) > 0.1


@pytest.mark.slow
def test_no_scenario_variance_converges_at_the_boundary():
    x = np.random.default_rng(0).normal(size=(30, 3))
    centred = x - x.mean(axis=1, keepdims=True)
    model = mixed_model(matrix_frame(centred))
    fit = model.fit.iloc[0]
    assert fit["var_scenario"] == approx(0, abs=1e-3)
    assert np.isfinite(model.terms["chi2"]).all()
    assert "boundary" in fit["warnings"] or fit["converged"]


def test_what_cannot_be_modelled_is_refused():
    frame = crossed()
    none = frame["shift_type"] == "none"
    refused("'shift_type' has only the levels", by_type, frame[none])
    refused("some combination of system, shift_type", by_type, frame[none | (frame["system"] != "b")])
    refused("does not vary", mixed_model, frame.assign(value=0.5))
    refused(r"'scenario' has only the levels \[0\]", mixed_model, frame[frame["scenario"] == 0])
    refused("no column 'genre'", mixed_model, frame, factors=("genre",))
    refused("too few values .* add sessions", by_type, frame[frame["scenario"] == 1 - none])


PAIRS = Design(pairs=[("b", "a"), ("c", "a")], limits=GAIN)


def share_that_finds(effect, sd, n):
    """The share of samples of a normal population in which the test of means finds the effect at .025."""
    samples = np.random.default_rng(1).normal(effect, sd, (4000, n))
    means = Means.of(samples, GAIN.of_differences)
    return ((means.p_differs() <= 0.025) & (means.mean > 0)).mean()


def pilot(spread):
    """400 scenarios in which b and c are .04 ahead of a, c with four times the spread of b."""
    base, noise = np.random.default_rng(6).normal(size=(2, 400))
    gap = spread * (noise - noise.mean()) / noise.std(ddof=1)
    ahead = base + 0.04
    columns = np.column_stack([base, ahead + gap, ahead + 4 * gap])
    return matrix_frame(columns, names=["a", "b", "c"])


def test_power_is_that_of_samples_drawn_from_the_population():
    power = contrast_power(pilot(0.1), 0.05, PAIRS, tests=2)
    assert power["a"].tolist() == ["b", "c"]
    assert power["sd_difference"].tolist() == approx([0.1, 0.4])
    narrow, wide = power.to_dict("records")
    share = share_that_finds(0.05, 0.4, 400)
    assert wide["power_now"] == approx(share, abs=0.05)
    needed = int(narrow["sessions_needed"])
    assert share_that_finds(0.05, 0.1, needed) == approx(0.8, abs=0.05)
    detectable = wide["detectable_effect"]
    assert share_that_finds(detectable, 0.4, 400) == approx(0.8, abs=0.05)


def test_power_curves_rise_with_effect_and_number_and_fall_with_noise():
    frame = pilot(0.1)
    curves = contrast_curves(frame, [0.05, 0.2], [10, 400], PAIRS, tests=2)
    power = curves.set_index(["a", "effect", "sessions"])["power"]
    assert len(power) == 8
    now = contrast_power(frame, 0.05, PAIRS, tests=2)["power_now"]
    assert power["b", 0.05, 400] == now[0]
    assert power["b", 0.05, 10] < power["b", 0.2, 10]
    assert power["c", 0.05, 400] < power["b", 0.05, 400]


def test_power_beyond_a_thousand_scenarios_follows_that_of_drawn_ones():
    curves = contrast_curves(pilot(0.4), [0.04], [1000, 1001], PAIRS)
    near, beyond = curves.loc[curves["a"] == "c", "power"]
    assert beyond == approx(near, abs=0.04)


def test_power_of_too_few_scenarios_is_unknown():
    values = [[1.0, 2.0, 3.0], [2.0, 3.0, np.nan]]
    frame = matrix_frame(values, names=["a", "b", "c"])
    columns = ["power_now", "detectable_effect", "sessions_needed"]
    assert contrast_power(frame, 0.05, PAIRS)[columns].isna().all(axis=None)
    assert contrast_curves(frame, [0.05], [5], PAIRS).empty


FACETS = ["system", "catalogue", "seed", "scenario"]
NESTED = {"catalogue": (), "seed": (), "scenario": ("catalogue", "seed")}


def long(x, names=FACETS):
    """A row a value of an array, its indices by facet."""
    levels = [range(size) for size in x.shape]
    index = pd.MultiIndex.from_product(levels, names=names)
    return pd.DataFrame({"value": x.ravel()}, index=index).reset_index()


def test_crossed_components_have_their_closed_form():
    """The system by scenario design: Searle et al. (1992), chapter 4."""
    noise = np.random.default_rng(1).normal(size=(4, 30))
    x = noise + np.arange(4)[:, None]
    frame = long(x, ["system", "scenario"])
    components = facet_variances(frame, {"scenario": ()})
    variance = components.set_index("effect")["variance"]
    by_scenario = x.mean(axis=0)
    around = x - by_scenario
    residuals = around - around.mean(axis=1, keepdims=True)
    left = (residuals**2).sum() / (3 * 29)
    assert variance["system × scenario"] == approx(left)
    between = by_scenario.var(ddof=1) - left / 4
    assert variance["scenario"] == approx(max(0, between))
    needed = scenarios_needed(components, 0.1).iloc[0]
    assert needed["half_width"] == approx(1.96 * (2 * left / 30) ** 0.5)
    assert needed["scenarios"] == np.ceil(2 * left * (1.96 / 0.1) ** 2)
    assert needed["floor"] == 0


@pytest.fixture(scope="module")
def nested():
    """The components of twelve systems, nine catalogues, eight seeds, seven scenarios each."""
    rng = np.random.default_rng(2)
    x = np.zeros((12, 9, 8, 7))
    for shape, sd in table(__file__, "components_drawn"):
        x = x + sd * rng.normal(size=shape)
    return facet_variances(long(x), NESTED).set_index("effect")


@pytest.mark.parametrize("effect, variance, error", table(__file__, "components"))
def test_nested_components_are_those_drawn(nested, effect, variance, error):
    assert nested.loc[effect, "variance"] == approx(variance, rel=error)


def test_nested_components_add_up(nested):
    assert abs(nested.loc["system × catalogue × seed", "estimate"]) < 0.02
    assert nested["df"].sum() == 12 * 9 * 8 * 7 - 1
    assert nested["share"].sum() == approx(1)


def test_what_few_catalogues_leave_open_no_scenario_closes():
    rng = np.random.default_rng(4)
    of_catalogues = rng.normal(size=(6, 3, 1, 1))
    x = of_catalogues + 0.1 * rng.normal(size=(6, 3, 4, 5))
    components = facet_variances(long(x), NESTED)
    new = scenarios_needed(components, 0.05).iloc[0]
    assert np.isnan(new["scenarios"])
    assert new["floor"] > 0.5
    same = scenarios_needed(components, 0.05, fixed=["catalogue", "seed"]).iloc[0]
    assert same["floor"] == 0
    assert same["scenarios"] < 20
    assert same["cells"] == 12


def test_facets_of_one_level_go_and_gaps_are_named():
    x = np.random.default_rng(5).normal(size=(3, 1, 2, 4))
    frame = long(x)
    components = facet_variances(frame, NESTED)
    assert components["effect"].tolist() == [
        "system",
        "seed",
        "system × seed",
        "seed × scenario",
        "system × seed × scenario",
    ]
    words = "not balanced: 23 rows for 24 cells of 3 system by 2 seed by 4 scenario, 1 "
    refused(words, facet_variances, frame.iloc[1:], NESTED)


def alpha(frame, level="ordinal", resamples=50):
    design = Design(system="rater", scenario="item", resamples=resamples)
    return stats.krippendorff_alpha(frame, design, level=level).iloc[0]


def alpha_by_pairs(units, distance):
    """Definition by pairs: within items over m - 1, and over all pairable ratings."""
    pairable = [unit for unit in units if len(unit) > 1]
    within = 0.0
    for unit in pairable:
        for a, b in itertools.permutations(unit, 2):
            within += distance(a, b) / (len(unit) - 1)
    ratings_of_all = list(itertools.chain(*pairable))
    by_chance = 0.0
    for a, b in itertools.permutations(ratings_of_all, 2):
        by_chance += distance(a, b) / (len(ratings_of_all) - 1)
    return 1 - within / by_chance if by_chance else np.nan


def units_of(ratings_by_rater):
    """The ratings of each item, missing ones left out."""
    columns = np.transpose(ratings_by_rater)
    return [column[~np.isnan(column)].tolist() for column in columns]


class BetweenRanks:
    """Krippendorff's ordinal metric written as he does: ratings between a and b, ends half."""

    def __init__(self, units):
        pairable = [unit for unit in units if len(unit) > 1]
        self.ratings = np.concatenate(pairable)

    def __call__(self, a, b):
        low, high = sorted([a, b])
        between = ((self.ratings >= low) & (self.ratings <= high)).sum()
        at_low = (self.ratings == low).sum()
        at_high = (self.ratings == high).sum()
        return (between - (at_low + at_high) / 2) ** 2


def unequal(a, b):
    return a != b


def squared_gap(a, b):
    return (a - b) ** 2


CELL = st.sampled_from([1.0, 2.0, 3.0, 4.0, np.nan])
RATERS = st.lists(st.tuples(CELL, CELL, CELL), min_size=2, max_size=4)


@settings(max_examples=25, deadline=None)
@given(RATERS)
def test_alpha_is_the_loop_over_pairs(ratings_by_rater):
    units = units_of(ratings_by_rater)
    if max(map(len, units)) < 2:
        return
    distances = {"nominal": unequal, "interval": squared_gap, "ordinal": BetweenRanks(units)}
    for level, distance in distances.items():
        ours = alpha(ratings(ratings_by_rater), level, resamples=5)["alpha"]
        assert ours == approx(alpha_by_pairs(units, distance), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("a, b, distance", table(__file__, "masi"))
def test_masi_is_passonneaus_distance(a, b, distance):
    """Passonneau (2006): Jaccard times 1, 2/3 (one holds the other), 1/3 (overlap) or 0 (disjoint)."""
    assert masi_distance(a, b) == approx(distance)


def coded(sets):
    """Krippendorff's example with sets of labels for values."""
    frame = ratings(KRIPPENDORFF).dropna()
    return frame.assign(value=frame["value"].map(sets))


def test_masi_of_single_labels_is_nominal():
    singles = coded({value: frozenset([value]) for value in range(1, 6)})
    of_sets = alpha(singles, "masi")
    nominal = alpha(ratings(KRIPPENDORFF), "nominal")
    assert of_sets["alpha"] == approx(nominal["alpha"])


def test_masi_of_sets_is_the_loop_over_pairs():
    sets = {1: {"a"}, 2: {*"ab"}, 3: {*"bc"}, 4: set(), 5: {*"abc"}}

    def distance(a, b):
        return masi_distance(sets[a], sets[b])

    expected = alpha_by_pairs(units_of(KRIPPENDORFF), distance)
    of_sets = alpha(coded(sets), "masi")
    assert of_sets["alpha"] == approx(expected)


def test_perfect_and_constant_ratings():
    perfect = ratings([[1, 2, 3], [1, 2, 3]])
    assert alpha(perfect)["alpha"] == 1
    assert stats.icc(perfect)["icc"][0] == approx(1)
    constant = ratings([[1, 1], [1, 1]])
    assert np.isnan(alpha(constant)["alpha"])
    assert np.isnan(stats.icc(constant)["icc"][0])
    refused("item 0 was rated twice by 0", alpha, pd.concat([perfect, perfect]))
    refused("no item has two ratings", alpha, perfect[perfect["rater"] == 0])
    refused("1 items were rated by all 2", stats.icc, ratings([[1], [2]]))


def test_items_that_a_rater_lacks_are_counted():
    holed = ratings(KRIPPENDORFF[:2])
    row = stats.icc(holed).iloc[0]
    assert row[["n", "n_missing"]].tolist() == [9, 3]


@pytest.mark.parametrize("level", ["interval", "ordinal"])
def test_many_items_have_a_narrow_interval(level):
    shared = np.random.default_rng(1).normal(size=(1, 600))
    own = np.random.default_rng(2).normal(size=(3, 600))
    row = alpha(ratings(shared + own), level, resamples=40)
    assert row["low"] < row["alpha"] < row["high"]
    assert row["alpha"] == approx(0.5, abs=0.1)
