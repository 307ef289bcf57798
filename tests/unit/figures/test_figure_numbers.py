"""The numbers behind the figures, on tables small enough to add up by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy import stats as scipy_stats

from crs_lib import figures
from crs_lib.core import rng
from crs_lib.figures import (
    NoDataError,
    ability,
    base,
    latex,
    models,
    pairs,
    recovery,
    scores,
    shifts,
    stability,
    style,
)
from crs_lib.systems.base import SYSTEMS
from tests.helpers import refused, table
from tests.helpers.fonts import contrast, luminance

NA = None
ENDS = ["mean", "low", "high"]


def turns(since, model="a", session="s", **columns):
    """The turns of a session by the turns since its last shift."""
    frame = pd.DataFrame({"model": model, "session_id": session, "turn": range(1, len(since) + 1)})
    frame["since_shift"] = pd.array(since, dtype="Int64")
    return frame.assign(**columns)


def offsets(frame):
    """The rows of aligned turns as (session, turn, offset), sorted."""
    return sorted(frame[["session_id", "turn", "offset"]].itertuples(index=False, name=None))


def test_turns_are_aligned_at_the_shift_and_never_across_another_one():
    """Shifts at turns 4 and 7: turn 5 is +1 of the first and −2 of the second, turn 4 never −3 of turn 7."""
    session = turns([NA, NA, NA, 0, 1, 2, 0, 1, 2, 3])
    aligned = recovery.around_shifts(session, before=3, after=2)
    first = [("s", turn, turn - 4) for turn in range(1, 7)]
    second = [("s", turn, turn - 7) for turn in range(5, 10)]
    assert offsets(aligned) == sorted(first + second)


def test_a_session_without_shift_has_no_aligned_turn():
    without = turns([NA, NA, NA])
    second = turns([NA, 0, 1], session="t")
    first = turns([0, 1, 2], session="u")
    frame = pd.concat([without, second, first])
    aligned = recovery.around_shifts(frame, before=3, after=1)
    at_second = [("t", 1, -1), ("t", 2, 0), ("t", 3, 1)]
    at_first = [("u", 1, 0), ("u", 2, 1)]
    assert offsets(aligned) == at_second + at_first


def test_waiting_is_censored():
    """Watched for 4 replies (0 to 3) without recovery: still waiting after reply 3; unwatched: left out."""
    frame = pd.DataFrame({"model": "a", "watched": [4, 3, 2, 0]})
    frame["delay_item"] = [np.nan, 0, 1, np.nan]
    times = recovery.waiting(frame)
    assert times["time"].tolist() == [3.0, 0.0, 1.0]
    assert times["event"].tolist() == [False, True, True]


def test_a_curve_ends_where_ten_shifts_wait():
    """Twelve at risk before reply 2, nine before reply 3; of four shifts all count."""
    many = pd.Series([0.0] * 5 + [2.0] * 3 + [3.0] * 9)
    assert recovery.followed(many) == 2
    few = pd.Series([0.0, 1.0, 4.0, 4.0])
    assert recovery.followed(few) == 0


def test_means_leave_out_what_is_missing():
    frame = pd.DataFrame({"model": [*"aaabbb"], "session_id": [*"123123"]})
    frame["score"] = [0, 1, np.nan, np.nan, np.nan, np.nan]
    some, none = base.means(frame, ["model"], "score").to_dict("records")
    assert some["mean"] == 0.5
    assert some["n"] == 2
    assert some["n_missing"] == 1
    assert np.isnan(none["mean"])
    assert none["n"] == 0


def test_means_resample_sessions_not_turns():
    """Ten equal turns of a session say no more than one: the interval is that of the session means."""
    single = pd.DataFrame({"model": "a", "session_id": range(12)})
    single["score"] = rng.stream(1, "test").random(12)
    first = base.means(single, ["model"], "score")
    second = base.means(pd.concat([single] * 10), ["model"], "score")
    assert first[ENDS].to_numpy() == pytest.approx(second[ENDS].to_numpy())
    low, high = first.loc[0, ["low", "high"]]
    assert low < single["score"].mean() < high


def test_counts_for_captions():
    nothing = {"systems": 0, "sessions": 0, "turns": 0, "shifts": 0}
    assert base.counts([]) == nothing
    other = turns([0, 1, 2], model="b")
    scored = pd.concat([turns([NA, 0, 1]), other])
    assert base.counts([scored]) == {"systems": 2, "sessions": 1, "turns": 3, "shifts": 1}
    sizes = pd.DataFrame({"n": [5, 4], "n_missing": [0, 1]})
    means = sizes.assign(model=["a", "b"], metric="x")
    assert base.counts([means]) == nothing | {"systems": 2, "sessions": 5}
    topics = pd.DataFrame({"metric": ["x", "y"], "n_topics": [3, 8], "n_missing": [1, 2]})
    assert base.counts([topics]) == nothing | {"n_topics": 8}


def test_recovery_by_type_has_wilsons_interval():
    """8 of 10: centre (0.8 + z²/20)/(1 + z²/10), half-width from the same formula, z = 1.96."""
    frame = pd.DataFrame({"model": "a", "session_id": range(12)})
    frame["type"] = ["switch"] * 10 + ["relax"] * 2
    frame["recovered_item"] = frame["session_id"].isin([*range(8), 10])
    table = shifts.recovered_by_type(frame)
    assert table["type"].tolist() == ["switch", "relax"]
    z = scipy_stats.norm.ppf(0.975)
    whole = 1 + z**2 / 10
    centre = (0.8 + z**2 / 20) / whole
    half = z * (0.8 * 0.2 / 10 + z**2 / 400) ** 0.5 / whole
    row = table.loc[0]
    assert row["share"] == pytest.approx(0.8)
    assert row["n"] == 10
    assert row["low"] == pytest.approx(centre - half)
    assert row["high"] == pytest.approx(centre + half)


def sessions(n=30, systems=("a",)):
    """Sessions in which x and y rise together, while over systems y falls where x rises."""
    draw = rng.stream(2, "test")
    parts = []
    for number, name in enumerate(systems):
        x = draw.random(n)
        y = x + draw.random(n) - 3 * number
        columns = {"model": name, "session_id": range(n), "x": x + number, "y": y, "c": 1.0}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def test_the_correlation_of_one_system_is_spearmans_and_none_is_defined_without_variation():
    frame = sessions()
    frame.loc[:4, "y"] = np.nan
    table = pairs.within_correlations(frame, ["x", "y", "c"]).set_index(["x", "y"])
    row = table.loc["x", "y"]
    both = frame[["x", "y"]].dropna()
    expected = scipy_stats.spearmanr(both["x"], both["y"]).statistic
    assert row["correlation"] == pytest.approx(expected)
    assert row["low"] < row["correlation"] < row["high"]
    assert np.isnan(table.loc[("x", "c"), "correlation"])


def test_correlations_are_those_within_systems():
    frame = sessions(systems=("a", "b", "c"))
    over_all = scipy_stats.spearmanr(frame["x"], frame["y"]).statistic
    assert over_all < 0
    within = pairs.within_correlations(frame, ["x", "y"])["correlation"].iloc[0]
    assert within > 0.4


def printed_interval(mean, low, high):
    """A mean with its interval as a LaTeX table prints it."""
    frame = pd.DataFrame([(mean, low, high)], columns=ENDS)
    return latex.intervals(frame)[0]


PRINTERS = {
    "escape": latex.escape,
    "number": latex.number,
    "interval": printed_interval,
    "signed": pairs.signed,
    "total": models.total,
}


def printed_cases():
    """The rows of the tables beside this file: printer, arguments, text."""
    cases = []
    for name in PRINTERS:
        for *arguments, text in table(__file__, name):
            cases.append((name, arguments, text))
    return cases


@pytest.mark.parametrize(("printer", "arguments", "text"), printed_cases())
def test_numbers_and_cells_are_printed_in_one_form(printer, arguments, text):
    assert PRINTERS[printer](*arguments) == text


def test_missing_columns_are_named():
    message = r"no column \['turn'\]; it has \['model'\]"
    frame = pd.DataFrame({"model": ["a"]})
    refused(message, base.require, frame, ["turn"])


def test_judges_scores_become_columns_and_nobody_judged_is_no_column():
    judgements = [{"coherence": 4, "tact": None}, None]
    frame = pd.DataFrame({"model": ["a", "b"], "judge": judgements}, index=[5, 7])
    joined, names = pairs.with_judges(frame)
    assert names == ["judge_coherence"]
    assert joined["judge_coherence"].tolist() == pytest.approx([4, np.nan], nan_ok=True)
    empty = frame.assign(judge=[{"coherence": None}] * 2)
    for unjudged in (empty, frame[["model"]]):
        _, names = pairs.with_judges(unjudged)
        assert names == []


def squared_distance(values, points):
    """Hotelling's T² of some points against the mean of the values."""
    gaps = np.atleast_2d(points) - values.mean(axis=0)
    inverse = np.linalg.inv(np.cov(values, rowvar=False))
    return len(values) * np.einsum("ij,jk,ik->i", gaps, inverse, gaps)


def test_the_region_is_hotellings():
    draw = rng.stream(1, "region")
    values = draw.normal(size=(20, 2)) @ [[1, 0.5], [0, 0.3]]
    edge = 2 * 19 / 18 * scipy_stats.f.ppf(0.95, 2, 18)
    distances = squared_distance(values, ability.region(values))
    assert distances == pytest.approx(np.full(97, edge))
    flat = np.column_stack([np.ones(5), [0.1, 0.2, 0.3, 0.2, 0.1]])
    first, _ = ability.region(flat).T
    assert first == pytest.approx(np.ones(97))


def test_the_region_holds_the_true_mean_in_95_of_100_samples():
    draw = rng.stream(2, "cover")
    n_inside = 0
    for _ in range(400):
        values = draw.normal(size=(12, 2))
        edge = ability.region(values)[0]
        truth, limit = squared_distance(values, [[0, 0], edge])
        n_inside += truth <= limit
    assert 0.92 < n_inside / 400 < 0.98


def four_shifts(**columns):
    """A shift at turn 5 in each of four sessions."""
    shift = {"model": "a", "turn": 5, "type": "switch"}
    return pd.DataFrame({"session_id": [*"0123"]}).assign(**shift, **columns)


def points(panel):
    """The single points among the lines of a panel."""
    places = []
    for line in panel.lines:
        if len(line.get_xdata()) == 1:
            places.append(line.get_xydata()[0].tolist())
    return places


def test_the_plane_shows_ratios_of_means_of_those_who_have_something_to_lose():
    gains = [1.0, 0.5, 0.6, 0.7]
    talk = [0.1, 0.0, 0.2, 0.3]
    costs = [0.5, 0.0, 0.3, 0.2]
    able = four_shifts(primary=True, straight_gain=gains, shift_cost=costs, conversation_cost=talk)
    idle = able.assign(model="b", straight_gain=able["straight_gain"] / 10)
    later = able.assign(primary=False, shift_cost=9.0, turn=9)
    plane, beside = figures.make("ability_adaptation", pd.concat([able, later, idle])).axes
    (share,) = points(plane)
    assert share == pytest.approx([0.7, 0.25 / 0.7])
    assert len(points(beside)) == 2


def test_without_straight_users_there_is_no_plane():
    columns = dict.fromkeys(["straight_gain", "shift_cost", "conversation_cost"], np.nan)
    lacking = four_shifts(primary=True, **columns)
    message = "no straight users; the arms shift and straight are needed"
    refused(message, figures.make, "ability_adaptation", lacking, error=NoDataError)


def test_values_by_scenario_are_means_over_its_shifts():
    first = four_shifts(shift_cost=[0.1, 0.2, 0.3, 0.4])
    second = four_shifts(shift_cost=[0.3, 0.4, 0.5, np.nan])
    table = ability.by_scenario(pd.concat([first, second]), "a", ["shift_cost"])
    assert table["shift_cost"].tolist() == pytest.approx([0.2, 0.3, 0.4, 0.4])


def test_the_profile_is_over_all_replies_to_a_shift():
    session = turns([NA, 0, 1, 2], session="0")
    frame = pd.concat([session, session.assign(session_id="1")])
    uptake = [np.nan, 0.0, 1.0, 1.0, np.nan, 0.5, 1.0, np.nan]
    frame = frame.assign(turn=frame["turn"] + 3, uptake=uptake, release=np.nan, retention=np.nan)
    table = shifts.profile(frame, four_shifts().iloc[:2])
    assert table["part"].tolist() == ["uptake", "uptake"]
    assert sorted(table["type"]) == ["all types", "switch"]
    assert table["mean"].tolist() == [0.7, 0.7]
    undefined = frame.assign(uptake=np.nan)
    refused("no reply after a shift", shifts.profile, undefined, four_shifts(), error=NoDataError)


def at_risk(answers, system, n_recovered, expected):
    """Twenty shifts at the first reply, so many of them recovered, each by chance with ``expected``."""
    numbers = np.arange(20)
    frame = pd.DataFrame({"session_id": numbers.astype(str), "event": numbers < n_recovered})
    facts = {"model": system, "reply": 0, "expected": expected, "answers": answers, "users": "Users insist"}
    return frame.assign(**facts)


def test_recovery_beyond_chance_is_that_at_the_last_reply_and_an_arrow_below_the_scale():
    """11 of 20 recovered where chance gives a tenth: 1 − .45/.9 = .5; none where chance gives .9: 1 − 1/.1 = −9."""
    parts = [at_risk("1 to 9", "a", 11, 0.1), at_risk("50 and more", "b", 0, 0.9)]
    few, many = figures.make("recovery_by_answers", pd.concat(parts)).axes
    assert [0.5, 0] in points(few)
    assert [-1, 1] in points(many)
    assert many.lines[-2].get_marker() == "<"


def test_equal_systems_stand_aside_of_one_another():
    aside = recovery.aside(8)
    assert len(set(aside.round(6))) == 8
    assert aside.sum() == pytest.approx(0)
    assert abs(aside).max() < 0.5


def test_seeds_are_not_joined_by_lines():
    parameters = ["seed", "seed", "n_turns", "n_turns"]
    sweep = pd.DataFrame({"parameter": parameters, "value": [*"1212"]})
    facts = {"convention": "default", "model": "a", "metric": "normalised_gain"}
    sweep = sweep.assign(**facts, mean=0.5, low=0.4, high=0.6)
    seeds, lengths = scores.sweep_outcomes(sweep).axes
    assert seeds.lines[0].get_linestyle() == "None"
    assert lengths.lines[0].get_linestyle() == "-"


# Policies of the gate and the red team, which no figure of a study shows.
SCEPTICAL = ("crs_lib.validity.controls", "tests.helpers.gamed")


def control_names():
    """The policies that need no argument and no model."""
    names = []
    for entry in SYSTEMS:
        is_plain = {"argument", "llm"}.isdisjoint(entry.facts)
        if is_plain and entry.make.__module__ not in SCEPTICAL:
            names.append(entry.name)
    return names


CONTROLS = control_names()


def test_every_system_has_a_colour_and_marker_of_its_own_that_stay():
    looks = style.looks([*CONTROLS, "noisy:0.3"])
    for name, look in looks.items():
        assert style.looks(["a", name, "b"])[name] == look
    colours = {look.colour for look in looks.values()}
    markers = {look.marker for look in looks.values()}
    assert len(colours) == len(looks)
    assert len(markers) == len(looks)
    familiar = style.looks(["oracle", "tracker", "echo"]).values()
    assert [look.colour for look in familiar] == ["#000000", "#0072B2", "#CC79A7"]


def test_variants_of_a_policy_share_its_colour():
    first, second = style.looks(["noisy:0.3", "noisy:0.6"]).values()
    assert first.colour == second.colour
    assert first.marker != second.marker


def test_systems_of_ones_own_look_like_no_policy_whatever_their_order():
    names = [f"ollama:model-{letter}" for letter in "abcdefghijkl"]
    looks = style.looks(names)
    assert looks == style.looks(names[::-1])
    assert list(looks) == names
    assert len(set(looks.values())) == len(names)
    controls = {look.colour for look in style.looks(CONTROLS).values()}
    assert controls.isdisjoint(look.colour for look in looks.values())


def test_policies_that_are_alike_in_grey_differ_in_marker_or_line():
    for first, second in itertools.combinations(style.looks(CONTROLS).values(), 2):
        if abs(luminance(first.colour) - luminance(second.colour)) < 0.1:
            assert first.marker != second.marker or str(first.line) != str(second.line)


def test_every_colour_stands_out_from_paper():
    """Contrast of at least 1.8 to 1 for lines and markers; the text is far above."""
    names = [*CONTROLS, *map("llm{}".format, range(8))]
    for look in style.looks(names).values():
        assert contrast("white", look.colour) > 1.8, look
    assert contrast("white", style.INK) > 12
    assert contrast("white", style.FAINT) > 4.5


def test_metrics_have_short_names_and_arrows():
    assert style.titled("topic_adaptation_score") == "TAS † ↑"
    assert style.titled("normalised_gain") == "gain ↑"
    assert style.titled("novelty") == "non-repetition"
    assert style.titled("topic_interference_leakage") == "leakage † ↓", "it fails orderings of the gate"


def test_long_names_are_cut_so_that_they_differ():
    assert style.labels(["tracker"]) == ["tracker"]
    names = ["ollama:llama3.1:8b-instruct", "ollama:llama3.2:8b-instruct"]
    first, second = style.labels(names, 18)
    assert first != second
    assert max(len(first), len(second)) <= 18


NAME = st.text("ab:", max_size=40)


@given(st.lists(NAME, unique=True), st.integers(8, 30))
def test_labels_keep_distinct_names_distinct(names, width):
    shortened = style.labels(names, width)
    assert len(shortened) == len(names)
    assert len(set(shortened)) == len(names)


def test_a_note_keeps_numbers_with_their_unit():
    with style.applied():
        drawing, _ = style.figure(1)
    words = "word " * 20
    style.note(drawing, f"{words}a 95 % interval word word word word word ")
    _, second = drawing.get_supxlabel().split("\n")
    assert not second.startswith("%")


@pytest.mark.parametrize(("low", "high", "lines"), table(__file__, "drawn"))
def test_an_interval_that_is_not_defined_is_not_drawn(low, high, lines):
    _, panel = style.single(1)
    style.interval(panel, 0, low, high, "black", caps=0.2)
    assert len(panel.lines) == lines


@pytest.fixture
def dark_panel():
    """A panel on dark paper: a line of ink, the oracle's star, a line of each colour; a grid."""
    drawing, panel = style.single(2)
    panel.plot([0, 0.97], [0, 0.97], color=style.INK)
    panel.plot(0.5, 0.5, "*", color="black")
    for colour in (*style.colours(14), "#0072B2", "#E69F00"):
        panel.plot([0, 1], [0, 1], color=colour)
    panel.grid(True)
    style.darken(drawing)
    return panel


def test_no_ink_is_left_on_a_dark_page_whatever_ticks_come_later(dark_panel):
    drawing = dark_panel.figure
    assert to_hex(drawing.patch.get_facecolor()) == "#16181b"
    assert to_hex(dark_panel.patch.get_facecolor()) == "#16181b"
    drawing.set_size_inches(12, 8)  # as another resolution does, too: more room, more ticks
    drawing.canvas.draw()
    visible = [text for text in drawing.findobj(Text) if text.get_visible()]
    texts = [text for text in visible if text.get_text()]
    assert len(texts) > 12
    for text in texts:
        assert to_hex(text.get_color()) == "#e6e8eb"


def test_systems_keep_their_hue_on_a_dark_page_and_stand_out(dark_panel):
    _, oracle, *systems = dark_panel.lines
    assert to_hex(oracle.get_markerfacecolor()) == "#ffffff"
    for line in systems:
        assert contrast(line.get_color(), "#16181b") >= 3
    assert to_hex(systems[-2].get_color()) == "#0072b2"
    assert to_hex(systems[-1].get_color()) == "#e69f00"


PARTS = ["satisfaction_corrected", "novelty", "satisfaction", "topic_interference_leakage", "copying"]


@pytest.fixture
def three_systems():
    """Scored turns of three systems: a meets wishes, b is fresh, c copies."""
    rows = table(__file__, "three_systems")
    return pd.DataFrame(rows, columns=["model", *PARTS]).assign(session_id="0")


def test_the_weights_map_on_paper(three_systems):
    weights = stability.weights(three_systems)
    default = weights.loc[0]  # a 0.54, b 0.3 + 0.24 - 0.05 = 0.49, c 0.24 + 0.1 - 0.5 = -0.16
    assert default["best"] == "a"
    assert default["tau"] == 1
    assert weights.index[weights["is_default"]].tolist() == [0]
    weighted = weights.set_index(["alpha", "beta", "gamma", "delta"])
    # S* 1/4, freshness 3/4: b 0.575, c 0.2875, a 0.225: of the pairs ab, ac, bc only bc is as in the default
    fresh = weighted.loc[(0.25, 0.75, 0, 0)]
    assert fresh["best"] == "b"
    assert fresh["tau"] == pytest.approx(-1 / 3)
    corrected = weighted.loc[(1, 0, 0, 0)]
    assert corrected["best"] == "a"
    assert corrected["tau"] == 1


def test_the_weights_fill_the_simplex():
    grid = stability.weightings()
    assert len(grid) == 35 - 15  # C(7, 3) points, less those without weight on S*: C(6, 2)
    assert set(map(sum, grid)) == {1}
    assert min(weighting.alpha for weighting in grid) > 0


def test_tau_agrees_with_scipy_and_needs_two_systems():
    a = pd.Series([1.0, 2, 3, 3], list("wxyz"))
    b = pd.Series([2.0, 1, 3, 4], list("wxyz"))
    assert stability.tau(a, b) == pytest.approx(scipy_stats.kendalltau(a, b).statistic)
    assert pd.isna(stability.tau(a[:1], b))


def test_without_corrected_satisfaction_no_weighting_has_a_best_system(three_systems):
    table = stability.weights(three_systems.assign(satisfaction_corrected=np.nan))
    assert table["tau"].isna().all()
    assert set(table["best"]) == {""}
