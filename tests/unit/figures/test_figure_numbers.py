"""The numbers behind the figures, on tables small enough to add up by hand."""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from scipy import stats as scipy_stats

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
from tests.helpers import refused
from tests.helpers.fonts import contrast, luminance

NA = None


def turns(since, model="a", session="s", **columns):
    frame = pd.DataFrame({"model": model, "session_id": session, "turn": range(1, len(since) + 1)})
    return frame.assign(since_shift=pd.array(since, dtype="Int64"), **columns)


def test_turns_are_aligned_at_the_shift_and_never_across_another_one():
    """Shifts at turns 4 and 7: turn 5 is +1 of the first and −2 of the second, turn 4 never −3 of turn 7."""
    found = recovery.around_shifts(turns([NA, NA, NA, 0, 1, 2, 0, 1, 2, 3]), before=3, after=2)
    own, next_ = zip(range(1, 7), range(-3, 3), strict=True), zip(range(5, 10), range(-2, 3), strict=True)
    assert sorted(zip(found["turn"], found["offset"], strict=True)) == sorted([*own, *next_])
    parts = [turns([NA, NA, NA]), turns([NA, 0, 1], session="t"), turns([0, 1, 2], model="b")]
    found = recovery.around_shifts(pd.concat(parts, ignore_index=True), before=3, after=1)
    keys = zip(found["model"] + found["session_id"], found["turn"], found["offset"], strict=True)
    assert sorted(keys) == [("at", 1, -1), ("at", 2, 0), ("at", 3, 1), ("bs", 1, 0), ("bs", 2, 1)]


def test_waiting_is_censored_and_a_curve_ends_where_ten_shifts_wait():
    """Watched for 4 replies (0 to 3) without recovery: still waiting after reply 3; unwatched: left out."""
    frame = pd.DataFrame({"model": "a", "watched": [4, 3, 2, 0], "delay_item": [np.nan, 0, 1, np.nan]})
    found = recovery.waiting(frame)[["time", "event"]]
    assert found.to_numpy().tolist() == [[3.0, False], [0.0, True], [1.0, True]]
    # Twelve at risk before reply 2, nine before reply 3; of four shifts all count.
    assert recovery.followed(pd.Series([0.0] * 5 + [2.0] * 3 + [3.0] * 9)) == 2
    assert recovery.followed(pd.Series([0.0, 1.0, 4.0, 4.0])) == 0


def test_means_leave_out_what_is_missing_and_resample_sessions_not_turns():
    values = {"model": [*"aaabbb"], "session_id": [*"123123"], "score": [0, 1] + [np.nan] * 4}
    found = base.means(pd.DataFrame(values), ["model"], "score").set_index("model")
    assert found.loc["a", ["mean", "n", "n_missing"]].tolist() == [0.5, 2, 1]
    assert np.isnan(found.loc["b", "mean"]) and found.loc["b", "n"] == 0
    # Ten equal turns of a session say no more than one: the interval is that of the session means.
    one = pd.DataFrame({"model": "a", "session_id": range(12), "score": rng.stream(1, "test").random(12)})
    first, second = (base.means(frame, ["model"], "score") for frame in (one, pd.concat([one] * 10)))
    ends = ["mean", "low", "high"]
    assert first[ends].to_numpy() == pytest.approx(second[ends].to_numpy())
    assert first["low"].iloc[0] < one["score"].mean() < first["high"].iloc[0]


@pytest.mark.parametrize(("frames", "counted"), [
    ([turns([NA, 0, 1]), turns([0, 1, 2], model="b")], (2, 1, 3, 1)),
    ([pd.DataFrame({"model": ["a", "b"], "metric": "x", "n": [5, 4], "n_missing": [0, 1]})], (2, 5, 0, 0)),
    ([], (0, 0, 0, 0)),
])  # fmt: skip
def test_counts_for_captions(frames, counted):
    found = base.counts([pd.concat(frames)] if frames else [])
    assert found == dict(zip(("systems", "sessions", "turns", "shifts"), counted, strict=True))


def test_recovery_by_type_has_wilsons_interval():
    """8 of 10: centre (0.8 + z²/20)/(1 + z²/10), half-width from the same formula, z = 1.96."""
    frame = pd.DataFrame({"model": "a", "session_id": range(12), "type": ["switch"] * 10 + ["relax"] * 2})
    frame["recovered_item"] = [True] * 8 + [False] * 2 + [True, False]
    found = shifts.recovered_by_type(frame)
    row, z = found.set_index("type").loc["switch"], scipy_stats.norm.ppf(0.975)
    centre, half = 0.8 + z**2 / 20, z * (0.8 * 0.2 / 10 + z**2 / 400) ** 0.5
    ends = (centre - half) / (1 + z**2 / 10), (centre + half) / (1 + z**2 / 10)
    assert row[["share", "n", "low", "high"]].tolist() == pytest.approx([0.8, 10, *ends])
    assert found["type"].tolist() == ["switch", "relax"]


def sessions(n=30, systems=("a",)):
    draw, parts = rng.stream(2, "test"), []
    for place, name in enumerate(systems):
        x = draw.random(n)
        y = x + draw.random(n) - 3 * place
        parts.append(pd.DataFrame({"model": name, "session_id": range(n), "x": x + place, "y": y, "c": 1.0}))
    return pd.concat(parts, ignore_index=True)


def test_correlations_are_those_within_systems():
    frame = sessions()
    frame.loc[:4, "y"] = np.nan
    found = pairs.within_correlations(frame, ["x", "y", "c"]).set_index(["x", "y"])
    both, theirs = found.loc["x", "y"], scipy_stats.spearmanr(*frame[["x", "y"]].dropna().T.values)[0]
    assert both["low"] < both["correlation"] == pytest.approx(theirs) and both["correlation"] < both["high"]
    assert np.isnan(found.loc[("x", "c"), "correlation"])
    # Within systems x and y rise together; over all sessions they fall, as the systems' means do.
    frame = sessions(systems=("a", "b", "c"))
    assert scipy_stats.spearmanr(frame["x"], frame["y"]).statistic < 0
    assert pairs.within_correlations(frame, ["x", "y"])["correlation"].iloc[0] > 0.4


def within(*row):
    return latex.intervals(pd.DataFrame([row], columns=["mean", "low", "high"]))[0]


@pytest.mark.parametrize(("printed", "given", "text"), [
    (latex.escape, ["slot_echo"], r"slot\_echo"), (latex.escape, ["50 % & {a}"], r"50 \% \& \{a\}"),
    (latex.escape, ["L ↓"], r"L $\downarrow$"), (latex.escape, ["a\\b"], r"a\textbackslash{}b"),
    (latex.number, [0.704], "0.70"), (latex.number, [-0.5], "$-0.50$"), (latex.number, [-0.001], "0.00"),
    (latex.number, [np.nan], "--"), (latex.number, [0], "0.00"),
    (within, [0.5, 0.4, 0.6], "0.50 [0.40, 0.60]"), (within, [0.5, np.nan, np.nan], "0.50"),
    (within, [np.nan] * 3, "--"),
    (pairs.signed, [0.424], ".42"), (pairs.signed, [-0.068], "−.07"), (pairs.signed, [1.0], "1.00"),
    (pairs.signed, [-1.0], "−1.00"), (pairs.signed, [-0.001], ".00"), (pairs.signed, [0.999], "1.00"),
    (models.total, [640, "tokens_in"], "640"), (models.total, [1_540, "tokens_in"], "1.5 k"),
    (models.total, [2_500_000, "tokens_out"], "2.5 M"), (models.total, [42, "seconds"], "42 s"),
    (models.total, [90, "seconds"], "1.5 min"), (models.total, [9_000, "seconds"], "2.5 h"),
])  # fmt: skip
def test_numbers_and_cells_are_printed_in_one_form(printed, given, text):
    assert printed(*given) == text


def test_missing_columns_are_named():
    told = r"no column \['turn'\]; it has \['model'\]"
    refused(told, base.require, pd.DataFrame({"model": ["a"]}), ["turn"])
    frame = pd.DataFrame({"metric": ["x", "y"], "n_topics": [3, 8], "n_missing": [1, 2]})
    assert base.counts([frame]) == {"systems": 0, "sessions": 0, "turns": 0, "shifts": 0, "n_topics": 8}


def test_judges_scores_become_columns_and_nobody_judged_is_no_column():
    frame = pd.DataFrame({"model": ["a", "b"], "judge": [{"coherence": 4, "tact": None}, None]}, index=[5, 7])
    joined, names = pairs.with_judges(frame)
    assert names == ["judge_coherence"]
    assert joined["judge_coherence"].tolist() == pytest.approx([4, np.nan], nan_ok=True)
    nobody = frame.assign(judge=[{"coherence": None}] * 2)
    assert pairs.with_judges(nobody)[1] == pairs.with_judges(frame[["model"]])[1] == []


def away(values, points):
    """Hotelling's T² of some points against the mean of the values."""
    gaps = np.atleast_2d(points) - values.mean(axis=0)
    return len(values) * np.einsum("ij,jk,ik->i", gaps, np.linalg.inv(np.cov(values, rowvar=False)), gaps)


def test_the_region_is_hotellings_and_holds_the_true_mean():
    values = rng.stream(1, "region").normal(size=(20, 2)) @ [[1, 0.5], [0, 0.3]]
    edge = 2 * 19 / 18 * scipy_stats.f.ppf(0.95, 2, 18)
    assert away(values, ability.region(values)) == pytest.approx(np.full(97, edge))
    draw = rng.stream(2, "cover")
    samples = [draw.normal(size=(12, 2)) for _ in range(400)]
    inside = [away(values, [0, 0])[0] <= away(values, ability.region(values)[0])[0] for values in samples]
    assert 0.92 < np.mean(inside) < 0.98
    values = np.column_stack([np.ones(5), [0.1, 0.2, 0.3, 0.2, 0.1]])
    assert ability.region(values)[:, 0] == pytest.approx(np.ones(97))


def four_shifts(**columns):
    rows = [{"model": "a", "session_id": str(i), "turn": 5, "type": "switch"} for i in range(4)]
    return pd.DataFrame(rows).assign(**columns)


def test_the_plane_shows_ratios_of_means_of_those_who_have_something_to_lose():
    made = {"straight_gain": [1.0, 0.5, 0.6, 0.7], "shift_cost": [0.5, 0.0, 0.3, 0.2]}
    able = four_shifts(primary=True, conversation_cost=[0.1, 0.0, 0.2, 0.3], **made)
    idle = able.assign(model="b", straight_gain=able["straight_gain"] / 10)
    later = able.assign(primary=False, shift_cost=9.0, turn=9)
    plane, beside = ability._ability_adaptation(pd.concat([able, later, idle])).axes
    middles = [line.get_xydata()[0] for line in plane.lines if len(line.get_xdata()) == 1]
    assert np.array(middles) == pytest.approx(np.array([[0.7, 0.25 / 0.7]]))
    assert sum(len(line.get_xdata()) == 1 for line in beside.lines) == 2
    lacking = four_shifts(primary=True, straight_gain=np.nan, shift_cost=np.nan, conversation_cost=np.nan)
    told = "no straight users; the arms shift and straight are needed"
    refused(told, ability._ability_adaptation, lacking, error=NoDataError)
    costs = [0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.5, np.nan]
    found = ability.by_scenario(pd.concat(four_shifts(shift_cost=c) for c in costs), "a", ["shift_cost"])
    assert found["shift_cost"].tolist() == pytest.approx([0.2, 0.3, 0.4, 0.4])


def test_the_profile_is_over_all_replies_to_a_shift():
    after = [np.nan, 0.0, 1.0, 1.0, np.nan, 0.5, 1.0, np.nan]
    frame = pd.concat([turns([NA, 0, 1, 2], session=name) for name in "01"], ignore_index=True)
    frame = frame.assign(turn=frame["turn"] + 3, uptake=after, release=np.nan, retention=np.nan)
    table = shifts.profile(frame, four_shifts().iloc[:2]).set_index(["part", "type"])["mean"]
    assert table.to_dict() == {("uptake", "switch"): 0.7, ("uptake", "all types"): 0.7}
    frame = frame.assign(uptake=np.nan)
    refused("no reply after a shift", shifts.profile, frame, four_shifts(), error=NoDataError)


def at_risk(answers, system, happened):
    """Twenty shifts at the first reply, so many of them recovered, each by chance with a tenth."""
    rows = {"model": system, "session_id": [str(n) for n in range(20)], "reply": 0, "expected": 0.1}
    return pd.DataFrame(rows | {"event": [n < happened for n in range(20)], "answers": answers})


def test_recovery_beyond_chance_is_that_at_the_last_reply_an_arrow_below_the_scale_and_equals_stand_aside():
    """11 of 20 recovered where chance gives a tenth: 1 − .45/.9 = .5; none where chance gives .9: 1 − 1/.1 = −9."""
    certain = at_risk("50 and more", "b", 0).assign(expected=0.9)
    frame = pd.concat([at_risk("1 to 9", "a", 11), certain]).assign(users="Users insist")
    few, many = recovery._recovery_by_answers(frame).axes
    assert any(list(line.get_xdata()) == [pytest.approx(0.5)] for line in few.lines)
    assert [line.get_marker() for line in many.lines if list(line.get_xdata()) == [-1]] == ["<"]
    aside = recovery.aside(8)
    assert len(set(aside.round(6))) == 8 and aside.sum() == pytest.approx(0) and abs(aside).max() < 0.5


def test_seeds_are_not_joined_by_lines():
    rows = pd.DataFrame({"parameter": ["seed"] * 2 + ["n_turns"] * 2, "value": [*"1212"]})
    facts = {"convention": "default", "model": "a", "metric": "normalised_gain"}
    seeds, lengths = scores.sweep_outcomes(rows.assign(**facts, mean=0.5, low=0.4, high=0.6)).axes
    assert seeds.lines[0].get_linestyle() == "None" and lengths.lines[0].get_linestyle() == "-"


SCEPTICAL = (
    "crs_lib.validity.controls",
    "tests.helpers.gamed",
)  # policies of the gate and the red team, which no figure of a study shows
PLAIN = [one for one in SYSTEMS if not {"argument", "llm"} & {*one.facts}]
CONTROLS = [one.name for one in PLAIN if one.make.__module__ not in SCEPTICAL]


def test_every_system_has_a_look_of_its_own_that_stays_and_is_told_apart_in_grey_and_from_white():
    looks = style.looks([*CONTROLS, "noisy:0.3"])
    assert all(style.looks(["a", name, "b"])[name] == look for name, look in looks.items())
    colours, markers = ({getattr(look, part) for look in looks.values()} for part in ("colour", "marker"))
    assert len(colours) == len(markers) == len(looks)
    looks = style.looks(["oracle", "tracker", "echo"])
    assert [look.colour for look in looks.values()] == ["#000000", "#0072B2", "#CC79A7"]
    alone = style.looks(["tracker"])["tracker"]
    assert style.looks(["ollama:a", "echo", "tracker"])["tracker"] == alone
    first, second = style.looks(["noisy:0.3", "noisy:0.6"]).values()
    assert first.colour == second.colour and first.marker != second.marker
    names = [f"ollama:model-{letter}" for letter in "abcdefghijkl"]
    looks = style.looks(names)
    assert looks == style.looks(names[::-1])
    assert list(looks) == names and len(set(looks.values())) == len(names)
    controls = {look.colour for look in style.looks(CONTROLS).values()}
    assert controls.isdisjoint(look.colour for look in looks.values())
    for first, second in itertools.combinations(style.looks(CONTROLS).values(), 2):
        if abs(luminance(first.colour) - luminance(second.colour)) < 0.1:
            assert (first.marker, str(first.line)) != (second.marker, str(second.line))
    # Contrast of at least 1.8 to 1 on paper for lines and markers; the text is in INK, far above.
    for look in style.looks([*CONTROLS, *(f"llm{k}" for k in range(8))]).values():
        assert contrast("white", look.colour) > 1.8, look
    assert contrast("white", style.INK) > 12 and contrast("white", style.FAINT) > 4.5


def test_metrics_have_short_names_and_long_names_are_cut_so_that_they_differ():
    assert style.short("topic_adaptation_score") == "TAS" and style.labels(["tracker"]) == ["tracker"]
    titles = {"normalised_gain": "gain ↑", "novelty": "non-repetition"}
    titles["topic_interference_leakage"] = "leakage † ↓"  # fails orderings of the gate
    assert {name: style.titled(name) for name in titles} == titles
    cut = style.labels(["ollama:llama3.1:8b-instruct", "ollama:llama3.2:8b-instruct"], 18)
    assert cut[0] != cut[1] and max(map(len, cut)) <= 18


@given(st.lists(st.text("ab:", max_size=40), unique=True), st.integers(8, 30))
def test_labels_keep_distinct_names_distinct(names, width):
    cut = style.labels(names, width)
    assert len(cut) == len(set(cut)) == len(names)


def test_a_note_keeps_numbers_with_their_unit():
    with style.applied():
        made, _ = style.figure(1)
    style.note(made, "word " * 20 + "a 95 % interval " + "word " * 5)
    _, second = made.get_supxlabel().split("\n")
    assert not second.startswith("%")


@pytest.mark.parametrize("ends", [(float("nan"), 1.0), (0.0, float("nan"))])
def test_an_interval_that_is_not_defined_is_not_drawn(ends):
    _, axes = style.figure(1)
    style.interval(axes[0][0], 0, *ends, "black", caps=0.2)
    assert len(axes[0][0].lines) == 0
    style.interval(axes[0][0], 0, 0.0, 1.0, "black", caps=0.2)
    assert len(axes[0][0].lines) == 3


def test_no_ink_is_left_on_a_dark_page_whatever_ticks_come_later():
    made, axes = style.figure(2)
    panel = axes[0][0]
    panel.plot([0, 0.97], [0, 0.97], color=style.INK)
    (oracle,) = panel.plot(0.5, 0.5, "*", color="black")
    systems = [
        panel.plot([0, 1], [0, 1], color=colour)[0] for colour in (*style.colours(14), "#0072B2", "#E69F00")
    ]
    panel.grid(True)
    style.darken(made)
    papers = {matplotlib.colors.to_hex(patch.get_facecolor()) for patch in (made.patch, panel.patch)}
    assert papers == {"#16181b"}
    assert matplotlib.colors.to_hex(oracle.get_markerfacecolor()) == "#ffffff"
    made.set_size_inches(12, 8)  # as another resolution does, too: more room, more ticks
    made.canvas.draw()
    texts = [one for one in made.findobj(Text) if one.get_text() and one.get_visible()]
    light = {matplotlib.colors.to_hex(one.get_color()) for one in texts}
    assert len(texts) > 12 and light == {"#e6e8eb"}
    assert all(contrast(line.get_color(), "#16181b") >= 3 for line in systems)
    assert [matplotlib.colors.to_hex(line.get_color()) for line in systems[-2:]] == ["#0072b2", "#e69f00"]


def three_systems():
    """Scored turns of three systems: a meets wishes, b is fresh, c copies."""
    parts = ["satisfaction_corrected", "novelty", "satisfaction", "topic_interference_leakage", "copying"]
    rows = {"a": (0.9, 0.0, 0.9, 0.0, 0.0), "b": (0.5, 1.0, 0.6, 0.1, 0.0), "c": (0.4, 0.5, 0.5, 0.0, 1.0)}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=parts)
    return table.rename_axis("model").reset_index().assign(session_id="0")


def test_the_weights_map_on_paper():
    table = stability.weights(three_systems())
    # default: a 0.54, b 0.3 + 0.24 - 0.05 = 0.49, c 0.24 + 0.1 - 0.5 = -0.16
    assert table.loc[0, ["best", "tau"]].tolist() == ["a", 1.0]
    assert table.index[table["is_default"]].tolist() == [0]
    weighted = table.set_index(["alpha", "beta", "gamma", "delta"])
    # S* 1/4, freshness 3/4: b 0.575, c 0.2875, a 0.225: of the pairs ab, ac, bc only bc is as in the default
    assert weighted.loc[(0.25, 0.75, 0, 0), ["best", "tau"]].tolist() == ["b", pytest.approx(-1 / 3)]
    assert weighted.loc[(1, 0, 0, 0), ["best", "tau"]].tolist() == ["a", 1.0]


def test_the_weights_fill_the_simplex():
    grid = stability.weightings()
    assert len(grid) == 35 - 15  # C(7, 3) points, less those without weight on S*: C(6, 2)
    assert [sum(weighting) for weighting in grid] == pytest.approx([1] * 20)
    assert min(weighting.alpha for weighting in grid) > 0


def test_tau_agrees_with_scipy_and_needs_two_systems():
    a = pd.Series([1.0, 2, 3, 3], list("wxyz"))
    b = pd.Series([2.0, 1, 3, 4], list("wxyz"))
    assert stability.tau(a, b) == pytest.approx(scipy_stats.kendalltau(a, b).statistic)
    assert pd.isna(stability.tau(a[:1], b))


def test_without_corrected_satisfaction_no_weighting_has_a_best_system():
    table = stability.weights(three_systems().assign(satisfaction_corrected=float("nan")))
    assert table["tau"].isna().all()
    assert set(table["best"]) == {""}
