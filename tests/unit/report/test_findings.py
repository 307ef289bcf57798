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
    told = findings.plain_score(apart)
    start = "TAS, which compares words, puts sticky first, 0.80 (too few scenarios differ) above"
    assert told.startswith(start) and told.endswith("by gain sticky ranks 3 of 3.")
    alike = results(oracle=(1, 0.9), tracker=(0.8, 0.2), sticky=(0.4, 0.1))
    assert findings.plain_score(alike) == "TAS and gain put the same system first, oracle."
    assert not findings.plain_score(apart.drop(columns="normalised_gain")).borne


def test_the_cost_of_a_shift_is_told_as_it_is_shown():
    """Different, equivalent, and neither: no sentence takes an interval that includes 0 for no cost."""
    told = findings.adaptation(shifts(spread=0.03))
    start = "At a change of mind sticky, whose gain with straight users is 0.80, loses 0.50 [0.48, 0.52]"
    assert told.startswith(start)
    assert "tracker, the ablest other system, loses no more than 0.05 (0.00 [−0.02, 0.02])" in told
    wide = findings.adaptation(shifts(spread=0.3))
    assert re.search(r"is not shown to lose anything: .*, so a loss of 0\.2", str(wide))
    same = findings.adaptation(shifts(spread=0.0))
    assert "has too few differing scenarios to tell" in same
    for text in (told, wide, same):
        assert not re.search(r"no cost|indistinguishable|equal\b", text)


def test_costs_need_straight_users_and_runs_without_models_show_no_cell(capsys, tmp_path):
    assert not findings.adaptation(shifts().drop(columns="straight_gain")).borne
    assert not findings.adaptation(shifts().assign(shift_cost=np.nan)).borne
    assert not findings.adaptation(shifts(ability=0.02)).borne
    models.taking_part("nobody")
    models.taking_part("nobody", figures=True)
    assert capsys.readouterr().out == ""
    told = findings.adaptation(shifts()), findings.recovery(shifts())
    assert list(stats.learnt(*told)) == [str(one) for one in told]


def test_recovery_compares_waits_of_the_same_users_and_counts_what_is_lost():
    told = findings.recovery(shifts())
    assert "tracker takes 1.00 [" in told and "more replies than oracle" in told
    assert "sticky shows none within 3 replies after 100 % [72, 100] of the changes" in told
    assert "an interval that includes 0" in findings.recovery(shifts(delay=0.0))
    assert findings._waits(shifts(delay=9.0))["wait"].max() == 3, "waits end at the horizon"
    short = shifts().assign(watched=2)
    assert findings.recovery(short) == "No finding: no shift was followed for 3 replies."


def test_the_readme_quotes_the_sentences_of_the_demo_run(tmp_path):
    """``make thesis`` writes both; a README edited by hand is found here."""
    kept = (paths.ROOT / "figures" / "movies-demo" / "findings.md").read_text(encoding="utf-8")
    page, readme = tmp_path / "README.md", (paths.ROOT / "README.md").read_text(encoding="utf-8")
    page.write_text(readme, encoding="utf-8")
    findings.quote(kept, page)
    assert page.read_text(encoding="utf-8") == readme
    findings.quote("- Another sentence.", page)
    text = page.read_text(encoding="utf-8")
    assert "- Another sentence." in text and kept.strip() not in text
    for text in ("no markers", "<!-- findings --> only one"):
        page.write_text(text)
        findings.quote("- x.", page)
        assert page.read_text() == text
    findings.quote("- x.", tmp_path / "none.md")


def test_turns_of_users_say_who_insists_and_who_words_them():
    said = zip(["llm", "llm", "llm", "template"], ["ask", "insist", "insist", "insist"], strict=True)
    logs = [{"user_meta": {"worded_by": by, "stage": stage}} for by, stage in said]
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
    rule = "a wish holds until the user takes it back"
    table = models.habits([habits_talk((f"Well, {rule}!", [], []), (rule.rpartition(" ")[0][:-3], [], []))])
    assert table.loc["a", "copied prompt"] == 0.5
    metric = base.get("copied_prompt")
    assert (metric.low, metric.high, metric.direction) == (0, 1, base.LOWER)


def test_a_model_is_better_only_where_the_interval_leaves_out_zero():
    tenths = {"m": (5, 6, 4, 7, 5), "list": (5, 5, 5, 6, 6), "poor": (1, 1, 0, 2, 1)}
    results = (pd.DataFrame(tenths) / 10).melt(var_name="model", value_name="normalised_gain")
    results["session_id"] = [*"01234"] * 3
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
    board = statistics.board(ladder, scores, config).set_index("system")
    assert board.index.tolist() == ["oracle", "tracker", "echo"]
    assert board.loc["echo", ["tied", "rank_low"]].tolist() == ["not ranked", ""]
    assert board["straight_gain"].tolist() == [0.8, 0.8, 0.0]
    differs = "Of 1 declared contrast 1 differs; the largest difference is oracle less tracker, −0.30 ["
    assert statistics.held(ladder, config).startswith(differs)


def test_costs_stand_by_type_of_the_first_shift_with_the_control_and_later_shifts_beside():
    frame = made(0.3, 0.2).assign(misfit=0.1, delay=0.0)
    control = frame.assign(session_id="r" + frame["session_id"], type="refine", primary=False, shift_cost=0.0)
    later = frame.assign(turn=9, type="relax", primary=False, shift_cost=0.5)
    table = statistics.costs_by_type(pd.concat([frame, control, later])).set_index("system")
    assert list(table) == ["switch (60)", "refine (60)", "misfit (60)", "later shifts (60)"]
    assert table.loc["tracker", "switch (60)"].startswith("0.30 [0.2")
    assert table.loc["tracker", "refine (60)"] == "0.00 [−0.02, 0.02]"
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
    both = [statistics.plan_for("movies", ["oracle", "tracker"], "default", one) for one in (scores, lacking)]
    told = [statistics.plan_table(plan).set_index("declared")["how"] for plan in both]
    assert [plan.primary_outcome for plan in both] == ["shift_cost", "normalised_gain"]
    assert "adaptation" not in told[0] and told[1]["adaptation"].startswith("not tested")
    assert both[1].ability == ""


CONSISTENT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "bm25", "popular", "echo")
ORDER = "{first} leads in {score} with {top}; {second} {behind}, and {last} comes last with {bottom}."
CASES = [*range(12), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(12, 200))]


def run(seed):
    """A small run of chance: costs mostly 0, wide or shifted, windows lost, systems that are not able."""
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(3, 45)), CONSISTENT_SYSTEMS[: rng.integers(2, len(CONSISTENT_SYSTEMS) + 1)]
    rows = []
    for name in names:
        zeros, level = rng.choice([0, 0.3, 0.9, 1]), rng.choice([0, 0, 0.04, 0.3])
        spread = rng.choice([0.01, 0.1, 0.4])
        ability, lost = rng.choice([0.05, 0.5, 0.9]), rng.choice([0, 0.3])
        zeros = 1 if name == "oracle" else zeros
        gain, tas, late = rng.normal(ability, 0.2, n), rng.normal(rng.random(), 0.1, n), rng.integers(0, 4, n)
        cost = np.where(rng.random(n) < zeros, 0.0, rng.normal(level, spread, n))
        cost[rng.random(n) < lost] = np.nan
        straight = np.where(np.isnan(cost), np.nan, rng.normal(ability, 0.05, n))
        keys = {"model": name, "session_id": [f"{i:05d}" for i in range(n)], "turn": 4, "type": "switch"}
        keys |= {"primary": True, "watched": 4, "recovered_item": late < 3, "shift_cost": cost}
        keys |= {"delay_item": np.where(late < 3, late, np.nan), "straight_gain": straight}
        rows.append(pd.DataFrame(keys | {"normalised_gain": gain, "topic_adaptation_score": tas}))
    return pd.concat(rows, ignore_index=True)


def sentences(table):
    """What 04, 05 and 06 say of a run, by notebook."""
    scores = table.rename(columns={"model": "system", "session_id": "scenario"})
    by, score = {"system": "model", "by": "session_id"}, {"score": "gain"}
    told = {"04": [str(stats.finding_rank(table, "normalised_gain", ORDER, **by, **score))]}
    told["05"] = [str(make(table)) for make in (findings.adaptation, findings.recovery, findings.plain_score)]
    try:
        config = statistics.plan_for("movies", table["model"].unique(), "default", scores)
        ladder = stats.ladder(scores, config.changed(resamples=100))
    except stats.InputError:
        return told | {"06": []}
    told["06"] = [*stats.conclusions(ladder, config), str(statistics.held(ladder, config))]
    return told


def names(text):
    return set(re.split(r", | and ", text))


def contradictions(told):
    """The claims that cannot both be true, in words; empty where there are none."""
    notebook, found = told["06"], []
    kinds = {
        "differ": r"^(\w+) scores (?:higher|lower) than (\w+) by",
        "equivalent": r"^(\w+) and (\w+) are equivalent within",
        "not settled": r"^Whether (\w+) and (\w+) differ is not settled",
    }
    pairs = itertools.product(notebook, kinds.items())
    said = {frozenset(hit.groups()): kind for line, (kind, words) in pairs if (hit := re.match(words, line))}
    apart = [pair for pair, kind in said.items() if kind == "differ"]
    unsettled = r"The test of all .* not conclusive|Whether any system|\d+ scenarios cannot show"
    counts = {"differ": "differ", "equivalent": "(?:is|are) equi", "not settled": "(?:is|are) not s"}
    for line in notebook:
        if apart and re.match(unsettled, line):
            found.append(f"{line} / {apart}")
        if hit := re.match(r"Of \d+ declared contrasts? (.*)", line):
            for kind, words in counts.items():
                count = re.search(rf"(\d+) {words}", hit[1])
                if (int(count[1]) if count else 0) != list(said.values()).count(kind):
                    found.append(f"{line} / {said}")
        if hit := re.match(r"(\w+) has the best mean", line):
            found += against_the_leader(line, hit[1], said, notebook)
    return found + between_notebooks(told, said)


def against_the_leader(line, leader, said, notebook):
    """What the sentence on ranks says of the leader and others, against the sentences of the contrasts."""
    words = {"not settled": "not shown to differ from it: ", "equivalent": r"equivalent to it within \S+ "}
    words["better"] = "better where both have values: "
    hits = {kind: re.search(f"{text}([^;.]*)", line) for kind, text in words.items()}
    listed = {kind: names(hit[1]) if hit else set() for kind, hit in hits.items()}
    found = []
    for pair, kind in said.items():
        if leader not in pair:
            continue
        (other,) = pair - {leader}
        if kind == "differ" and (other in listed["not settled"] | listed["equivalent"]):
            found.append(f"{line} / {leader} and {other} differ")
        settled = [name for name in ("not settled", "equivalent") if other in listed[name]]
        if any(kind not in (name, "differ") for name in settled):
            found.append(f"{line} / {leader} and {other} are {kind}")
        worse = f"{leader} scores higher than {other} ", f"{other} scores lower than {leader} "
        if any(text.startswith(worse) for text in notebook) and other not in listed["better"]:
            found.append(f"{line} / {other} is better")
    return found


def between_notebooks(told, said):
    """The oracle loses nothing, so who differs from it loses, and who is equivalent to it loses little."""
    found, (rank, cost, _, plain) = [], (told["04"][0], *told["05"])
    for pair, kind in said.items():
        if "oracle" not in pair:
            continue
        (other,) = pair - {"oracle"}
        lost = re.search(rf"\b{other}, [^;]*? loses \S+ \[(\S+), ", cost)
        if lost and kind == "equivalent" and float(lost[1].replace("−", "-")) > 0.05:
            found.append(f"{cost} / oracle and {other} are equivalent")
        if kind == "differ" and re.search(rf"\b{other}, [^;]*? is not shown to lose", cost):
            found.append(f"{cost} / oracle and {other} differ")
    first = re.match(r"(\w+) leads in gain", rank)
    same = re.search(r"put the same system first, (\w+)\.", plain)
    if first and same and first[1] != same[1]:
        found.append(f"{rank} / {plain}")
    return found


@pytest.mark.parametrize("seed", CASES)
def test_no_two_sentences_contradict_one_another(seed):
    told = sentences(run(seed))
    assert contradictions(told) == []
    for line in itertools.chain(*told.values()):
        assert not re.search(r"no cost|indistinguishable|\bequal\b(?! variances)|\bnan\b", line), line


def made(difference, spread, n=60):
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


@pytest.mark.parametrize(("frame", "contrast", "cost"), [
    (made(0.0, 0.5), "Whether oracle and tracker differ is not settled", "is not shown to lose anything"),
    (made(0.0, 0.1), "oracle and tracker are equivalent within ±0.05", "loses no more than 0.05"),
    (made(0.3, 0.2), "oracle scores lower than tracker by 0.30", "loses 0.30 ["),
])  # fmt: skip
def test_no_difference_is_accepted_because_none_was_found(frame, contrast, cost):
    """Wide and not significant, equivalent, different: each frame has its own sentence, here and in 05."""
    scores = frame.rename(columns={"model": "system", "session_id": "scenario"})
    config = statistics.plan_for("movies", ["oracle", "tracker"], "default", scores)
    told = stats.conclusions_by_subject(stats.ladder(scores, config), config)["contrasts"]
    assert told[0].startswith(contrast)
    assert cost in findings.adaptation(frame)
    # the template of 04 stands here, too; a changed notebook is found
    assert ORDER in (paths.notebooks() / "04_evaluate.ipynb").read_text(encoding="utf-8")
