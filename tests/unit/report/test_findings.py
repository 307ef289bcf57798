"""The sentences of the notebooks follow their tables: other data, other sentences; no data, a reason."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core import paths
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.tables import read_jsonl
from crs_lib.llm import calls
from crs_lib.metrics import base
from crs_lib.report import findings, models, statistics
from crs_lib.report import tables as views
from crs_lib.systems.modes import copied_prompt

SYSTEMS = ("oracle", "tracker", "sticky")
AS_SCORES = {"model": "system", "session_id": "scenario"}


def results(**levels):
    """Ten sessions of each system: gain and TAS about the levels given."""
    numbers = np.arange(10)
    parts = []
    for name, (gain, tas) in levels.items():
        part = pd.DataFrame({"model": name, "session_id": numbers.astype(str)})
        part["normalised_gain"] = gain + 0.01 * (-1.0) ** numbers
        part["topic_adaptation_score"] = tas + 0.02 * (numbers % 3)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def shifts(cost=0.5, delay=2.0, ability=0.8, spread=0.01, n=10):
    """Two shifts in each of ``n`` sessions; sticky pays ``cost`` for the first, and tracker waits ``delay``."""
    waits = {"oracle": (0.0, 0.0), "tracker": (0.0, delay), "sticky": (np.nan, np.nan)}
    rows = []
    for name, number, turn in itertools.product(SYSTEMS, range(n), (4, 8)):
        off = spread * (-1) ** number
        row = {"model": name, "session_id": str(number), "turn": turn, "watched": 4, "primary": turn == 4}
        row["delay_item"] = waits[name][number % 2]
        row["straight_gain"] = ability - off
        row["shift_cost"] = cost * (name == "sticky") + off
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.assign(recovered_item=table["delay_item"].notna())


def test_the_plain_score_is_praised_only_where_it_agrees():
    apart = results(oracle=(1, 0.1), tracker=(0.8, 0.2), sticky=(0.4, 0.9))
    sentence = findings.plain_score(apart)
    start = "TAS, which compares the words of user and reply, ranks sticky first: its TAS is "
    assert sentence.startswith(f"{start}0.80 (the same for all 10) higher than that of oracle")
    assert sentence.endswith("by gain over all turns sticky ranks 3 of 3.")
    alike = results(oracle=(1, 0.9), tracker=(0.8, 0.2), sticky=(0.4, 0.1))
    assert findings.plain_score(alike) == "TAS and gain put the same system first, oracle."
    lacking = findings.plain_score(apart.drop(columns="normalised_gain"))
    assert lacking == "The scores of this convention hold no gain to set beside the plain score."


def test_the_cost_of_a_shift_is_told_as_it_is_shown():
    """Different, equivalent, and neither: no sentence takes an interval that includes 0 for no cost."""
    settled = findings.adaptation(shifts(spread=0.03, n=100))
    start = "At a change of mind sticky, whose gain with straight users is 0.80, loses 0.50 [0.48, 0.52]"
    assert settled.startswith(start)
    assert (
        "tracker, the best with straight users after oracle, loses 0.00 [−0.02, 0.02], shown to be less than 0.05"
        in settled
    )
    wide = findings.adaptation(shifts(spread=0.3))
    assert re.search(r"is not shown to lose anything: .*, so a loss of 0\.2", wide)
    same = findings.adaptation(shifts(spread=0.0))
    assert "has too few differing scenarios to tell" in same
    for text in (settled, wide, same):
        assert not re.search(r"no cost|indistinguishable|equal\b", text)


def test_the_first_sentence_compares_the_two_best_systems_beside_the_oracle_by_gain_after_a_change():
    gains = {"oracle": 1.0, "tracker": 0.9, "sticky": 0.5, "random": 0.0}
    rows = []
    for user, (model, gain) in itertools.product(range(120), gains.items()):
        after = gain - 0.1 * (user % 2)
        rows.append((model, str(user), after, gain, gain - after, 1 - after))
    names = ["model", "session_id", "gain_after_change", "straight_gain", "shift_cost", "misfit"]
    table = pd.DataFrame(rows, columns=names)
    sentence = findings.after_change(table)
    assert sentence.startswith("tracker serves its users better than sticky")
    assert "after a change its users get 0.85, sticky's 0.45" in sentence
    few = findings.after_change(table.iloc[: 4 * 50])
    assert few == "tracker and sticky: too few users for a verdict: 50 (it takes 100)."
    lacking = "No gain after a change: it needs the arms shift and straight, which the run lacks."
    assert findings.after_change(table.drop(columns="straight_gain")) == lacking


def sessions(n_failed, n=20):
    """Sessions of two systems, of which the second fails in the first ones; the last has no primary window."""
    rows = []
    for model, number in itertools.product(("tracker", "own"), range(n)):
        detail = {"cost_undefined": ""}
        gain = 0.5
        if number == n - 1:
            detail["cost_undefined"] = "no primary window"
            gain = np.nan
        if model == "own" and number < n_failed:
            detail["failed"] = f"crashed:\nKeyError {number % 2}"
        rows.append({"model": model, "gain_after_change": gain, "detail": detail})
    return pd.DataFrame(rows)


def test_a_failure_is_told_with_its_commonest_messages():
    (failed,) = findings.failures(sessions(2))
    assert failed.system == "own"
    assert not failed.too_many
    start = "2 of 20 sessions of own failed, scored as silent from there. "
    assert failed.sentence.startswith(f"{start}Commonest: crashed: KeyError 0 (1); ")
    assert findings.failures(sessions(0)) == []


def test_failures_above_a_tenth_end_the_verdict():
    (failed,) = findings.failures(sessions(3))
    assert failed.too_many
    start = "3 of 20 sessions of own failed, more than a tenth: no verdict on it, mend this first. "
    assert failed.sentence.startswith(f"{start}Commonest: crashed: KeyError 0 (2); crashed: KeyError 1 (1).")


def test_missing_values_are_counted_with_their_reasons():
    scores = sessions(2)
    scores.loc[scores["detail"].map(lambda detail: "failed" in detail), "gain_after_change"] = np.nan
    why = findings.missing(scores, "gain_after_change")
    assert why == {"tracker": "1 no primary window", "own": "2 failed, 1 no primary window"}


def test_costs_need_straight_users_and_systems_with_something_to_lose():
    lacking = "No cost of a shift: it needs the arms shift and straight, which the run lacks."
    assert findings.adaptation(shifts().drop(columns="straight_gain")) == lacking
    assert findings.adaptation(shifts().assign(shift_cost=np.nan)) == lacking
    assert findings.adaptation(shifts(ability=0.02)).startswith("No system has a gain of 0.1 ")


@pytest.mark.parametrize("figures", [False, True])
def test_a_run_without_models_shows_no_cell(figures, capsys):
    models.taking_part("nobody", figures=figures)
    assert capsys.readouterr().out == ""


def test_recovery_compares_waits_of_the_same_users_and_counts_what_is_lost():
    sentence = findings.recovery(shifts())
    assert "tracker needs on average 1.00 [" in sentence
    assert " more replies than oracle (counted up to 3)" in sentence
    assert (
        "after 100 % (the same for all 10) of the changes, sticky shows no such film within 3 replies"
        in sentence
    )
    assert "an interval that includes 0" in findings.recovery(shifts(delay=0.0))
    late = findings.recovery(shifts(delay=9.0))
    assert "tracker needs on average 1.50 [" in late, "waits end at the horizon of 3 replies"
    short = shifts().assign(watched=2)
    assert findings.recovery(short) == "No recovery: no shift was followed for 3 replies."


def test_the_readme_quotes_the_sentences_of_the_demo_run(tmp_path):
    """``make thesis`` writes both; a README edited by hand is found here."""
    stored = (paths.ROOT / "figures" / "movies-demo" / "findings.md").read_text(encoding="utf-8")
    page, readme = tmp_path / "README.md", (paths.ROOT / "README.md").read_text(encoding="utf-8")
    page.write_text(readme, encoding="utf-8")
    findings.quote(stored, page)
    assert page.read_text(encoding="utf-8") == readme
    findings.quote("- Another sentence.", page)
    text = page.read_text(encoding="utf-8")
    assert "- Another sentence." in text and stored.strip() not in text
    for text in ("no markers", "<!-- findings --> only one"):
        page.write_text(text)
        findings.quote("- x.", page)
        assert page.read_text() == text
    findings.quote("- x.", tmp_path / "none.md")


def test_turns_of_users_say_who_insists_and_who_words_them():
    wordings = [("llm", "ask"), ("llm", "insist"), ("llm", "insist"), ("template", "insist")]
    talks = []
    for worded_by, stage in wordings:
        log = {"user_meta": {"worded_by": worded_by, "stage": stage}}
        talks.append(Dialogue("0", "m", (Turn(USER, "hello", log), Turn(SYSTEM, "hi"))))
    turns = views.user_turns(talks)
    assert turns["insists"].tolist() == [False, True, True, True]
    assert turns["by_model"].tolist() == [True, True, True, False]
    assert views.user_turns([]).empty


def habits_talk(*replies):
    """The replies of system a: text, ids of its films, titles that are none."""
    turns = []
    for text, ids, unknown in replies:
        turns.append(Turn(USER, "Hello"))
        turns.append(Turn(SYSTEM, text, {"rec_ids": ids, "hallucinated_titles": unknown}))
    return Dialogue("00000", "a", tuple(turns))


def test_habits_count_films_repetitions_and_unknown_titles():
    """Said before: within the session alone; films again: of the three replies with films."""
    first = habits_talk(("One.", ["x", "y"], []), ("One.", [], ["Lamps", "Lights"]), ("Two.", ["x"], []))
    second = habits_talk(("One.", ["x"], []))
    row = models.habits([first, second]).loc["a"]
    assert row[["replies", "films"]].tolist() == [4, 1]
    assert row[["without film", "said before", "films again", "unknown titles"]].tolist() == [
        0.25,
        0.25,
        0.33,
        0.5,
    ]


def test_eight_words_of_the_instructions_are_copied_and_seven_are_not():
    instruction = "a wish holds until the user takes it back"
    shorter = "a wish holds until the user takes"
    table = models.habits([habits_talk((f"Well, {instruction}!", [], []), (shorter, [], []))])
    assert table.loc["a", "copied prompt"] == 0.5
    metric = base.get("copied_prompt")
    assert (metric.low, metric.high, metric.direction) == (0, 1, base.LOWER)


def test_a_model_is_better_only_where_the_interval_leaves_out_zero():
    tenths = {"m": (5, 6, 4, 7, 5) * 2, "list": (5, 5, 5, 6, 6) * 2, "poor": (1, 1, 0, 2, 1) * 2}
    gains = (pd.DataFrame(tenths) / 10).melt(var_name="model", value_name="normalised_gain")
    gains["session_id"] = [*"0123456789"] * 3
    table = models.against(gains, [("m", "list"), ("m", "poor"), ("m", "m"), ("poor", "m")])
    assert table["shown"].tolist() == ["not better", "better", "worse"]
    differences = table["difference"].str.split().str[0]
    assert differences.tolist() == ["+0.00", "+0.44", "-0.44"]
    assert table["gain"].tolist() == [0.54, 0.54, 0.1]
    assert table["its gain"].tolist() == [0.54, 0.1, 0.54]


def kept_replies(name):
    """The answered calls of systems in a kept log."""
    replies = []
    for row in read_jsonl(calls.kept(name)):
        if row["role"] == "crs" and not row.get("error"):
            replies.append(row)
    return replies


def test_the_kept_calls_of_the_small_model_copy_the_instructions():
    replies = kept_replies("smollm2")
    assert len(replies) == 911
    copied = [row["system"] for row in replies if copied_prompt(json.loads(row["text"])["reply"])]
    assert len(copied) == 563
    assert "worded" not in {spec.partition(":")[0] for spec in copied}


def test_the_kept_calls_of_the_larger_model_hardly_do():
    replies = kept_replies("qwen")
    assert len(replies) > 3000
    n_copied = sum(copied_prompt(row["text"]) for row in replies)
    assert n_copied <= 0.01 * len(replies)


def test_who_serves_nobody_is_not_ranked_however_little_it_loses():
    frame = two_systems(0.3, 0.2)
    idle = frame[frame["model"] == "oracle"].assign(model="echo", straight_gain=0.0)
    scores = pd.concat([frame, idle]).rename(columns=AS_SCORES)
    plan = statistics.plan_for("movies", ["oracle", "tracker", "echo"], "default", scores)
    ladder = stats.ladder(scores, plan)
    ranking = statistics.ranking(ladder, scores, plan).set_index("system")
    assert ranking.index.tolist() == ["oracle", "tracker", "echo"]
    assert ranking.loc["echo", ["tied", "rank_low"]].tolist() == ["not ranked", None]
    assert ranking["straight_gain"].tolist() == [0.8, 0.8, 0.0]
    assert statistics.contrast_sentences(ladder)[0].startswith("oracle against tracker: lower, −0.30 [")


def test_a_shared_rank_is_printed_with_its_half():
    printed = statistics.as_printed(pd.DataFrame({"rank": [1.0, 2.5], "n": [24.0, 24.0]}))
    assert printed["rank"].tolist() == [1, "2.5"]
    assert printed["n"].tolist() == [24, 24]


def test_costs_stand_by_type_of_the_first_shift_with_the_control_and_later_shifts_beside():
    frame = two_systems(0.3, 0.2).assign(misfit=0.1, delay=0.0)
    control = frame.assign(session_id="r" + frame["session_id"], type="refine", primary=False, shift_cost=0.0)
    later = frame.assign(turn=9, type="relax", primary=False, shift_cost=0.5)
    table = statistics.costs_by_type(pd.concat([frame, control, later])).set_index("system")
    assert list(table) == ["switch (120)", "refine (120)", "misfit (120)", "later shifts (120)"]
    assert table.loc["tracker", "switch (120)"].startswith("0.30 [0.2")
    assert table.loc["tracker", "refine (120)"] == "0.00"
    assert "note" in statistics.costs_by_type(frame.drop(columns="shift_cost"))


def test_a_metric_by_voice_has_rows_for_what_voices_are_for_and_none_where_one_voice_talks():
    draw = np.random.default_rng(1)
    voices = ["terse", "critic", "quoting", "chatty"]
    costs = {"terse": 0.1, "critic": 0.3, "quoting": 0.1, "chatty": 0.1}
    rows = []
    for number in range(80):
        voice = voices[number % 4]
        rows.append(("tracker", str(number), voice, costs[voice] + draw.normal(0, 0.1)))
        rows.append(("oracle", str(number), voice, draw.normal(0, 0.1)))
    frame = pd.DataFrame(rows, columns=["model", "session_id", "voice", "shift_cost"])
    table = statistics.by_voice(frame).set_index("voice")
    assert list(table.index[:2]) == ["confirmation", "development"]
    assert list(table["scenarios"]) == [40, 40, 20, 20, 20, 20]
    assert table.loc["critic", "tracker"].startswith(("0.2", "0.3"))
    assert table.loc["chatty", "tracker"].startswith(("0.0", "0.1"))
    assert statistics.by_voice(frame.assign(voice="A")) is None
    assert statistics.by_voice(frame.drop(columns="voice")) is None


def test_scores_without_straight_users_say_that_no_adaptation_is_tested():
    """Logs of the thesis and of others: the outcome is another, and the table of the plan says what is missing."""
    scores = two_systems(0.3, 0.2).rename(columns=AS_SCORES)
    plan = statistics.plan_for("movies", ["oracle", "tracker"], "default", scores)
    assert plan.primary_outcome == "shift_cost"
    assert "adaptation" not in set(statistics.plan_table(plan)["declared"])
    lacking = scores.drop(columns=["shift_cost", "straight_gain"])
    plan = statistics.plan_for("movies", ["oracle", "tracker"], "default", lacking)
    assert plan.primary_outcome == "normalised_gain"
    assert plan.ability == ""
    declared = statistics.plan_table(plan).set_index("declared")["how"]
    assert declared["adaptation"].startswith("not tested")


CONSISTENT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "bm25", "popular", "echo")
CASES = [*range(12), *[pytest.param(seed, marks=pytest.mark.full) for seed in range(12, 200)]]


def run(seed):
    """A small run of chance: costs mostly 0, wide or shifted, windows lost, systems that are not able."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 45))
    n_systems = rng.integers(2, len(CONSISTENT_SYSTEMS) + 1)
    parts = []
    for name in CONSISTENT_SYSTEMS[:n_systems]:
        zeros = 1 if name == "oracle" else rng.choice([0, 0.3, 0.9, 1])
        level = rng.choice([0, 0, 0.04, 0.3])
        spread = rng.choice([0.01, 0.1, 0.4])
        ability = rng.choice([0.05, 0.5, 0.9])
        lost = rng.choice([0, 0.3])
        late = rng.integers(0, 4, n)
        cost = np.where(rng.random(n) < zeros, 0.0, rng.normal(level, spread, n))
        cost[rng.random(n) < lost] = np.nan
        part = pd.DataFrame({"model": name, "session_id": np.arange(n).astype(str), "shift_cost": cost})
        part["straight_gain"] = np.where(np.isnan(cost), np.nan, rng.normal(ability, 0.05, n))
        part["delay_item"] = np.where(late < 3, late, np.nan)
        part["normalised_gain"] = rng.normal(ability, 0.2, n)
        part["topic_adaptation_score"] = rng.normal(rng.random(), 0.1, n)
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    recovered = table["delay_item"].notna()
    return table.assign(turn=4, type="switch", primary=True, watched=4, recovered_item=recovered)


@pytest.mark.parametrize("seed", CASES)
def test_sentences_tables_and_letters_follow_one_verdict(seed):
    table = run(seed)
    scores = table.rename(columns=AS_SCORES)
    plan = statistics.plan_for("movies", table["model"].unique(), "default", scores)
    try:
        battery = stats.battery(scores, plan.changed(resamples=100))
    except stats.InputError:
        return
    adaptation = findings.adaptation(table)
    contrasts = statistics.contrast_sentences(battery)
    for line in (adaptation, findings.recovery(table), findings.plain_score(table), *contrasts):
        assert not re.search(r"no cost|indistinguishable|\bequal\b|\bnan\b", line), line
    declared = battery.declared
    for row, line in zip(declared.to_dict("records"), contrasts, strict=True):
        assert line.startswith(f"{row['a']} against {row['b']}: {row['verdict']}")
    assert (declared.loc[declared["verdict"] == "higher", "low"] > 0).all()
    assert (declared.loc[declared["verdict"] == "lower", "high"] < 0).all()
    equivalent = declared[declared["verdict"] == "equivalent"]
    assert (equivalent["p_equivalent_adjusted"] <= plan.alpha).all()
    for name in declared.query("a == 'oracle' and verdict == 'lower'")["b"]:
        assert not re.search(rf"\b{name}, [^;]*? is not shown to lose", adaptation)


def two_systems(difference, spread, n=120):
    """Two systems of which tracker costs ``difference`` more than oracle, give or take."""
    noise = np.random.default_rng(1).normal(size=n)
    noise = (noise - noise.mean()) / noise.std() * spread
    free = pd.DataFrame({"model": "oracle", "session_id": np.arange(n).astype(str), "shift_cost": 0.0})
    costly = free.assign(model="tracker", shift_cost=difference + noise)
    facts = {"primary": True, "straight_gain": 0.8, "turn": 4, "type": "switch", "normalised_gain": 0.5}
    return pd.concat([free, costly], ignore_index=True).assign(**facts)


VERDICTS = [
    (0.0, 0.5, "not settled", "is not shown to lose anything"),
    (0.0, 0.1, "equivalent", ", shown to be less than 0.05"),
    (0.3, 0.2, "lower", "loses 0.30 ["),
]


@pytest.mark.parametrize(("difference", "spread", "verdict", "cost"), VERDICTS)
def test_no_difference_is_accepted_because_none_was_found(difference, spread, verdict, cost):
    """Wide and not significant, equivalent, different: each frame has its own verdict, here and in 05."""
    frame = two_systems(difference, spread)
    scores = frame.rename(columns=AS_SCORES)
    plan = statistics.plan_for("movies", ["oracle", "tracker"], "default", scores)
    battery = stats.battery(scores, plan)
    assert statistics.contrast_sentences(battery)[0].startswith(f"oracle against tracker: {verdict}")
    assert cost in findings.adaptation(frame)
