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


def results(**levels):
    """Ten sessions of each system: gain and TAS about the levels given."""
    rows = [
        (name, f"{number:05d}", gain + 0.01 * (-1) ** number, tas + 0.02 * (number % 3))
        for name, (gain, tas) in levels.items() for number in range(10)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["model", "session_id", "normalised_gain", "topic_adaptation_score"])


def shifts(cost=0.5, delay=2.0, ability=0.8, spread=0.01, n=10):
    """Two shifts in each of ``n`` sessions; sticky pays ``cost`` for the first, and tracker waits ``delay``."""
    rows = []
    for name, number, turn in itertools.product(SYSTEMS, range(n), (4, 8)):
        off = spread * (-1) ** number
        wait = {"oracle": 0.0, "tracker": delay if number % 2 else 0.0, "sticky": np.nan}[name]
        rows.append({
            "model": name, "session_id": f"{number:05d}", "turn": turn, "watched": 4, "primary": turn == 4,
            "delay_item": wait, "recovered_item": wait == wait, "straight_gain": ability - off,
            "shift_cost": cost * (name == "sticky") + off,
        })  # fmt: skip
    return pd.DataFrame(rows)


def test_the_plain_score_is_praised_only_where_it_agrees():
    apart = results(oracle=(1, 0.1), tracker=(0.8, 0.2), sticky=(0.4, 0.9))
    sentence = findings.plain_score(apart)
    start = (
        "TAS, which compares the words of user and reply, puts sticky first, 0.80 (the same for all 10) above"
    )
    assert sentence.startswith(start) and sentence.endswith("by gain sticky ranks 3 of 3.")
    alike = results(oracle=(1, 0.9), tracker=(0.8, 0.2), sticky=(0.4, 0.1))
    assert findings.plain_score(alike) == "TAS and gain put the same system first, oracle."
    lacking = findings.plain_score(apart.drop(columns="normalised_gain"))
    assert lacking == "The scores of this convention hold no gain to set beside the plain score."


def test_the_cost_of_a_shift_is_told_as_it_is_shown():
    """Different, equivalent, and neither: no sentence takes an interval that includes 0 for no cost."""
    sentence = findings.adaptation(shifts(spread=0.03, n=100))
    start = "At a change of mind sticky, whose gain with straight users is 0.80, loses 0.50 [0.48, 0.52]"
    assert sentence.startswith(start)
    assert "tracker, the ablest after oracle, loses no more than 0.05 (0.00 [−0.02, 0.02])" in sentence
    wide = findings.adaptation(shifts(spread=0.3))
    assert re.search(r"is not shown to lose anything: .*, so a loss of 0\.2", str(wide))
    same = findings.adaptation(shifts(spread=0.0))
    assert "has too few differing scenarios to tell" in same
    for text in (sentence, wide, same):
        assert not re.search(r"no cost|indistinguishable|equal\b", text)


def test_the_first_sentence_compares_the_two_best_systems_beside_the_oracle_by_gain_after_a_change():
    rows = []
    for user in range(120):
        for model, gain in (("oracle", 1.0), ("tracker", 0.9), ("sticky", 0.5), ("random", 0.0)):
            after = gain - 0.1 * (user % 2)
            rows.append((model, str(user), after, gain, gain - after, 1 - after))
    names = ["model", "session_id", "gain_after_change", "straight_gain", "shift_cost", "misfit"]
    results = pd.DataFrame(rows, columns=names)
    sentence = findings.after_change(results)
    assert sentence.startswith("tracker serves its users better than sticky")
    assert "after a change its users get 0.85, sticky's 0.45" in sentence
    few = findings.after_change(results.iloc[: 4 * 50])
    assert few == "tracker and sticky: too few users for a verdict: 50 (it takes 100)."
    lacking = "No gain after a change: it needs the arms shift and straight, which the run lacks."
    assert findings.after_change(results.drop(columns="straight_gain")) == lacking


def sessions(failed, n=20):
    """Sessions of two systems, of which the second fails in ``failed``; one has no primary window."""
    rows = []
    for model, number in itertools.product(("tracker", "own"), range(n)):
        detail = {"cost_undefined": "no primary window" if number == n - 1 else ""}
        if model == "own" and number < failed:
            detail["failed"] = f"crashed:\nKeyError {number % 2}"
        gain = np.nan if detail["cost_undefined"] else 0.5
        rows.append({"model": model, "gain_after_change": gain, "detail": detail})
    return pd.DataFrame(rows)


def test_a_failure_is_told_with_its_commonest_messages_and_above_a_tenth_ends_the_verdict():
    few, many = findings.failures(sessions(2)), findings.failures(sessions(3))
    assert [row.system for row in few] == ["own"]
    assert not few[0].too_many
    sentence = (
        "2 of 20 sessions of own failed, scored as silent from there. Commonest: crashed: KeyError 0 (1); "
    )
    assert few[0].sentence.startswith(sentence)
    assert many[0].too_many
    sentence = "3 of 20 sessions of own failed, more than a tenth: no verdict on it, mend this first. "
    assert many[0].sentence.startswith(
        f"{sentence}Commonest: crashed: KeyError 0 (2); crashed: KeyError 1 (1)."
    )
    assert findings.failures(sessions(0)) == []


def test_missing_values_are_counted_with_their_reasons():
    scores = sessions(2)
    scores.loc[scores["detail"].map(lambda detail: "failed" in detail), "gain_after_change"] = np.nan
    why = findings.missing(scores, "gain_after_change")
    assert why == {"tracker": "1 no primary window", "own": "2 failed, 1 no primary window"}


def test_costs_need_straight_users_and_runs_without_models_show_no_cell(capsys, tmp_path):
    lacking = "No cost of a shift: it needs the arms shift and straight, which the run lacks."
    assert findings.adaptation(shifts().drop(columns="straight_gain")) == lacking
    assert findings.adaptation(shifts().assign(shift_cost=np.nan)) == lacking
    assert findings.adaptation(shifts(ability=0.02)).startswith("No system has a gain of 0.1 ")
    models.taking_part("nobody")
    models.taking_part("nobody", figures=True)
    assert capsys.readouterr().out == ""


def test_recovery_compares_waits_of_the_same_users_and_counts_what_is_lost():
    sentence = findings.recovery(shifts())
    assert "tracker takes 1.00 [" in sentence and "more replies than oracle" in sentence
    assert "sticky shows none within 3 replies after 100 % (the same for all 10) of the changes" in sentence
    assert "an interval that includes 0" in findings.recovery(shifts(delay=0.0))
    assert findings._waits(shifts(delay=9.0))["wait"].max() == 3, "waits end at the horizon"
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
    wordings = zip(["llm", "llm", "llm", "template"], ["ask", "insist", "insist", "insist"], strict=True)
    logs = [{"user_meta": {"worded_by": by, "stage": stage}} for by, stage in wordings]
    pairs = [(Turn(USER, "hello", log), Turn(SYSTEM, "hi")) for log in logs]
    turns = views.user_turns([Dialogue("0", "m", pair) for pair in pairs])
    assert turns["insists"].tolist() == [False, True, True, True]
    assert turns["by_model"].tolist() == [True, True, True, False]
    assert views.user_turns([]).empty


def habits_talk(*replies):
    """The replies of system a: text, ids of its films, titles that are none."""
    turns = []
    for text, ids, foreign in replies:
        turns += [Turn(USER, "Hello"), Turn(SYSTEM, text, {"rec_ids": ids, "hallucinated_titles": foreign})]
    return Dialogue("00000", "a", tuple(turns))


def test_habits_count_films_repetitions_unknown_titles_and_eight_words_copied_from_the_instructions():
    replies = ("One.", ["x", "y"], []), ("One.", [], ["Lamps", "Lights"]), ("Two.", ["x"], [])
    row = models.habits([habits_talk(*replies), habits_talk(("One.", ["x"], []))]).loc["a"]
    # said before within the session alone; films again of the three replies with films
    shares = {"without film": 0.25, "said before": 0.25, "films again": 0.33, "unknown titles": 0.5}
    assert row[["replies", "films", *shares]].tolist() == [4, 1, *shares.values()]
    instruction = "a wish holds until the user takes it back"
    table = models.habits(
        [habits_talk((f"Well, {instruction}!", [], []), (instruction.rpartition(" ")[0][:-3], [], []))]
    )
    assert table.loc["a", "copied prompt"] == 0.5
    metric = base.get("copied_prompt")
    assert (metric.low, metric.high, metric.direction) == (0, 1, base.LOWER)


def test_a_model_is_better_only_where_the_interval_leaves_out_zero():
    tenths = {"m": (5, 6, 4, 7, 5) * 2, "list": (5, 5, 5, 6, 6) * 2, "poor": (1, 1, 0, 2, 1) * 2}
    results = (pd.DataFrame(tenths) / 10).melt(var_name="model", value_name="normalised_gain")
    results["session_id"] = [*"0123456789"] * 3
    table = models.against(results, [("m", "list"), ("m", "poor"), ("m", "m"), ("poor", "m")])
    assert table["shown"].tolist() == ["not better", "better", "worse"]
    assert [text.split()[0] for text in table["difference"]] == ["+0.00", "+0.44", "-0.44"]
    assert table[["gain", "its gain"]].to_numpy().tolist() == [[0.54, 0.54], [0.54, 0.1], [0.1, 0.54]]


def test_the_kept_calls_of_the_small_model_are_counted():
    rows = [row for row in read_jsonl(calls.kept("smollm2")) if row["role"] == "crs" and not row.get("error")]
    copied = [row["system"] for row in rows if copied_prompt(json.loads(row["text"])["reply"])]
    assert len(rows) == 911 and len(copied) == 563
    assert not [spec for spec in copied if spec.partition(":")[0] == "worded"]
    rows = [row for row in read_jsonl(calls.kept("qwen")) if row["role"] == "crs" and not row["error"]]
    assert len(rows) > 3000 and sum(copied_prompt(row["text"]) for row in rows) <= 0.01 * len(rows)


def test_who_serves_nobody_is_not_ranked_however_little_it_loses():
    frame = made(0.3, 0.2)
    idle = frame[frame["model"] == "oracle"].assign(model="echo", straight_gain=0.0)
    scores = pd.concat([frame, idle]).rename(columns={"model": "system", "session_id": "scenario"})
    config = statistics.plan_for("movies", ["oracle", "tracker", "echo"], "default", scores)
    ladder = stats.ladder(scores, config)
    board = statistics.ranking(ladder, scores, config).set_index("system")
    assert board.index.tolist() == ["oracle", "tracker", "echo"]
    assert board.loc["echo", ["tied", "rank_low"]].tolist() == ["not ranked", None]
    assert board["straight_gain"].tolist() == [0.8, 0.8, 0.0]
    assert statistics.contrast_sentences(ladder)[0].startswith("oracle against tracker: lower, −0.30 [")


def test_costs_stand_by_type_of_the_first_shift_with_the_control_and_later_shifts_beside():
    frame = made(0.3, 0.2).assign(misfit=0.1, delay=0.0)
    control = frame.assign(session_id="r" + frame["session_id"], type="refine", primary=False, shift_cost=0.0)
    later = frame.assign(turn=9, type="relax", primary=False, shift_cost=0.5)
    table = statistics.costs_by_type(pd.concat([frame, control, later])).set_index("system")
    assert list(table) == ["switch (120)", "refine (120)", "misfit (120)", "later shifts (120)"]
    assert table.loc["tracker", "switch (120)"].startswith("0.30 [0.2")
    assert table.loc["tracker", "refine (120)"] == "0.00"
    assert "note" in statistics.costs_by_type(frame.drop(columns="shift_cost"))


def test_a_metric_by_voice_has_rows_for_what_voices_are_for_and_none_where_one_voice_talks():
    draw = np.random.default_rng(1)
    names = ["terse", "critic", "quoting", "chatty"]
    rows = [
        (system, f"{n:05d}", names[n % 4], cost + draw.normal(0, 0.1))
        for n in range(80) for system, cost in (("tracker", 0.3 if n % 4 == 1 else 0.1), ("oracle", 0.0))
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["model", "session_id", "voice", "shift_cost"])
    table = statistics.by_voice(frame).set_index("voice")
    assert list(table.index[:2]) == ["confirmation", "development"]
    assert list(table["scenarios"]) == [40] * 2 + [20] * 4
    assert table.loc["critic", "tracker"].startswith(("0.2", "0.3"))
    assert table.loc["chatty", "tracker"].startswith(("0.0", "0.1"))
    assert statistics.by_voice(frame.assign(voice="A")) is None
    assert statistics.by_voice(frame.drop(columns="voice")) is None


def test_scores_without_straight_users_say_that_no_adaptation_is_tested():
    """Logs of the thesis and of others: the outcome is another, and the table of the plan says what is missing."""
    scores = made(0.3, 0.2).rename(columns={"model": "system", "session_id": "scenario"})
    lacking = scores.drop(columns=["shift_cost", "straight_gain"])
    both = [
        statistics.plan_for("movies", ["oracle", "tracker"], "default", scored)
        for scored in (scores, lacking)
    ]
    sentence = [statistics.plan_table(plan).set_index("declared")["how"] for plan in both]
    assert [plan.primary_outcome for plan in both] == ["shift_cost", "normalised_gain"]
    assert "adaptation" not in sentence[0] and sentence[1]["adaptation"].startswith("not tested")
    assert both[1].ability == ""


CONSISTENT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "bm25", "popular", "echo")
CASES = [*range(12), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(12, 200))]


def run(seed):
    """A small run of chance: costs mostly 0, wide or shifted, windows lost, systems that are not able."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 45))
    rows = []
    for name in CONSISTENT_SYSTEMS[: rng.integers(2, len(CONSISTENT_SYSTEMS) + 1)]:
        zeros = 1 if name == "oracle" else rng.choice([0, 0.3, 0.9, 1])
        level, spread = rng.choice([0, 0, 0.04, 0.3]), rng.choice([0.01, 0.1, 0.4])
        ability, lost = rng.choice([0.05, 0.5, 0.9]), rng.choice([0, 0.3])
        late = rng.integers(0, 4, n)
        cost = np.where(rng.random(n) < zeros, 0.0, rng.normal(level, spread, n))
        cost[rng.random(n) < lost] = np.nan
        part = pd.DataFrame({"model": name, "session_id": [f"{i:05d}" for i in range(n)], "turn": 4})
        part["straight_gain"] = np.where(np.isnan(cost), np.nan, rng.normal(ability, 0.05, n))
        part["delay_item"] = np.where(late < 3, late, np.nan)
        part["normalised_gain"] = rng.normal(ability, 0.2, n)
        part["topic_adaptation_score"] = rng.normal(rng.random(), 0.1, n)
        rows.append(part.assign(shift_cost=cost, recovered_item=late < 3))
    table = pd.concat(rows, ignore_index=True)
    return table.assign(type="switch", primary=True, watched=4)


@pytest.mark.parametrize("seed", CASES)
def test_sentences_tables_and_letters_follow_one_verdict(seed):
    table = run(seed)
    sentences = [findings.adaptation(table), findings.recovery(table), findings.plain_score(table)]
    scores = table.rename(columns={"model": "system", "session_id": "scenario"})
    config = statistics.plan_for("movies", table["model"].unique(), "default", scores)
    try:
        battery = stats.battery(scores, config.changed(resamples=100))
    except stats.InputError:
        return
    contrasts = statistics.contrast_sentences(battery)
    for line in (*sentences, *contrasts):
        assert not re.search(r"no cost|indistinguishable|\bequal\b|\bnan\b", line), line
    declared = battery.declared.to_dict("records")
    assert len(declared) == len(contrasts)
    for row, line in zip(declared, contrasts, strict=True):
        assert line.startswith(f"{row['a']} against {row['b']}: {row['verdict']}")
        if row["verdict"] == "higher":
            assert row["low"] > 0
        if row["verdict"] == "lower":
            assert row["high"] < 0
        if row["verdict"] == "equivalent":
            assert row["p_equivalent_adjusted"] <= config.alpha
    oracle = battery.declared[battery.declared["a"] == "oracle"]
    lower = oracle.loc[oracle["verdict"] == "lower", "b"]
    for name in lower:
        assert not re.search(rf"\b{name}, [^;]*? is not shown to lose", sentences[0])


def made(difference, spread, n=120):
    """Two systems of which one costs ``difference`` more, give or take."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=n)
    noise = (noise - noise.mean()) / noise.std() * spread
    rows = [
        {"model": name, "session_id": f"{i:05d}", "primary": True, "straight_gain": 0.8, "turn": 4, "type": "switch",
         "shift_cost": (name == "tracker") * (difference + noise[i]), "normalised_gain": 0.5}
        for name in ("oracle", "tracker") for i in range(n)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("frame", "verdict", "cost"), [
    (made(0.0, 0.5), "not settled", "is not shown to lose anything"),
    (made(0.0, 0.1), "equivalent", "loses no more than 0.05"),
    (made(0.3, 0.2), "lower", "loses 0.30 ["),
])  # fmt: skip
def test_no_difference_is_accepted_because_none_was_found(frame, verdict, cost):
    """Wide and not significant, equivalent, different: each frame has its own verdict, here and in 05."""
    scores = frame.rename(columns={"model": "system", "session_id": "scenario"})
    config = statistics.plan_for("movies", ["oracle", "tracker"], "default", scores)
    battery = stats.battery(scores, config)
    assert statistics.contrast_sentences(battery)[0].startswith(f"oracle against tracker: {verdict}")
    assert cost in findings.adaptation(frame)
