"""The sentences of the notebooks follow their tables: other data, other sentences; no data, a reason."""

import re

import numpy as np
import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.cli import show as commands
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.report import (
    findings_dialogues,
    findings_models,
    findings_scores,
    findings_tests,
    optional,
)

SYSTEMS = ("oracle", "tracker", "sticky")


def results(**levels):
    """Ten sessions of each system: gain and TAS about the levels given."""
    rows = [
        {
            "model": name,
            "session_id": f"{number:05d}",
            "normalised_gain": gain + 0.01 * (-1) ** number,
            "topic_adaptation_score": tas + 0.02 * (number % 3),
        }
        for name, (gain, tas) in levels.items()
        for number in range(10)
    ]
    return pd.DataFrame(rows)


def shifts(cost=0.5, delay=2.0, fresh=0.8):
    """Two shifts in each of ten sessions; sticky pays ``cost`` for history, and tracker waits ``delay``."""
    rows = []
    for name in SYSTEMS:
        for number in range(10):
            for turn in (4, 8):
                off = 0.01 * (-1) ** number
                pays = cost + off if name == "sticky" else off
                wait = {"oracle": 0.0, "tracker": delay if number % 2 else 0.0, "sticky": np.nan}[name]
                rows.append(
                    {"model": name, "session_id": f"{number:05d}", "turn": turn, "watched": 4,
                     "delay_item": wait, "recovered_item": wait == wait, "fresh_gain": fresh,
                     "history_cost": pays, "placebo_cost": off}
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_who_leads_changes_with_the_scores():
    told = findings_scores.following(
        results(oracle=(1, 0.1), tracker=(0.8, 0.1), sticky=(0.4, 0.1)), "normalised_gain"
    )
    assert told.startswith("oracle leads in gain with 1.00 [")
    assert "tracker is 0.20 [0.20, 0.20] behind, and sticky comes last with 0.40" in told
    other = results(oracle=(1, 0.1), tracker=(0.3, 0.1), sticky=(0.9, 0.1))
    assert "sticky is 0.10" in findings_scores.following(other, "normalised_gain")
    assert not findings_scores.following(results(oracle=(1, 0.1)), "normalised_gain").borne


def test_the_plain_score_is_praised_only_where_it_agrees():
    apart = results(oracle=(1, 0.1), tracker=(0.8, 0.2), sticky=(0.4, 0.9))
    told = findings_scores.plain_score(apart)
    assert told.startswith("TAS puts sticky first, 0.80 [") and told.endswith("rank by gain is 3 of 3.")
    alike = results(oracle=(1, 0.9), tracker=(0.8, 0.2), sticky=(0.4, 0.1))
    assert findings_scores.plain_score(alike) == "TAS and gain put the same system first, oracle."
    assert not findings_scores.plain_score(apart.drop(columns="normalised_gain")).borne


def test_the_cost_of_history_is_named_only_where_it_is_shown():
    told = findings_scores.adaptation(shifts())
    assert re.match(r"History costs sticky 0\.50 \[0\.49, 0\.51\] of its gain of 0\.80", told)
    assert "tracker, the ablest other system, shows no cost (0.00 [−0.01, 0.01])" in told
    assert findings_scores.adaptation(shifts(cost=0.0)).startswith("No system shows a cost of history")
    assert not findings_scores.adaptation(shifts().drop(columns="fresh_gain")).borne
    assert not findings_scores.adaptation(shifts().assign(history_cost=np.nan)).borne


def test_recovery_compares_waits_of_the_same_users_and_counts_what_is_lost():
    told = findings_scores.recovery(shifts())
    assert "tracker needs 1.00 [" in told and "replies more than oracle" in told
    assert "sticky does not recover within 3 replies in 100 % [72, 100] of its shifts" in told
    assert "an interval that includes 0" in findings_scores.recovery(shifts(delay=0.0))
    assert findings_scores.waits(shifts(delay=9.0))["wait"].max() == 3, "waits end at the horizon"
    short = shifts().assign(watched=2)
    assert findings_scores.recovery(short) == "No finding: no shift was followed for 3 replies."


def test_falls_after_the_first_shift():
    rows = [
        {"model": name, "session_id": f"{n:05d}", "turn": turn, "since_shift": turn - 3 if turn > 2 else pd.NA,
         "normalised_gain": after if turn > 2 else 0.9 + 0.01 * (n % 2)}
        for name, after in (("tracker", 0.9), ("sticky", 0.3)) for n in range(8) for turn in range(1, 6)
    ]  # fmt: skip
    told = findings_scores.after_shifts(pd.DataFrame(rows))
    assert "the gain of sticky falls by 0.605 [" in told and "that of tracker falls by 0.005 [" in told
    assert not findings_scores.after_shifts(pd.DataFrame(rows).assign(since_shift=pd.NA)).borne


def test_what_turns_define_and_leave_out():
    turns = pd.DataFrame(
        {"model": ["a"] * 4 + ["b"] * 4, "session_id": ["1", "1", "2", "2"] * 2,
         "cross_coherence": [0.1, None, 0.2, 0.3, 1, 1, 1, 1],
         "missing_concepts": [[], ["x"], [], []] + [["x"]] * 4}
    )  # fmt: skip
    told = findings_scores.definedness(turns)
    assert told.startswith("CC is defined in 75 % [") and "and in 100 % [34, 100] of those of b" in told
    assert findings_scores.concepts(turns, "missing_concepts").startswith("Replies of b leave out a concept")
    assert not findings_scores.concepts(turns, "hallucinated_concepts").borne
    assert not findings_scores.definedness(turns, "copying").borne


def test_sentences_about_dialogues_and_tests_follow_their_tables():
    summary = pd.DataFrame(
        {"values before": [90, 10], "merged": [5, 0], "dropped": [0, 1], "doublets": [0, 0]}
    )
    assert findings_dialogues.cleaning(summary) == "Cleaning changed 6 of 100 labels (6.0 %)."
    assert findings_dialogues.cleaning(summary * [1, 0, 0, 0]) == "Cleaning changed none of 100 labels."
    own = results(oracle=(1, 0), tracker=(0.8, 0), sticky=(0.4, 0))
    assert findings_dialogues.own_system("sticky", own).endswith("below tracker.")
    pairs = pd.DataFrame({"outcome": "x", "p": [0.01, 0.2, 0.01], "p_holm": [0.01, 0.01, 0.2]})
    assert findings_tests.classical(pairs).endswith("the verdicts disagree on 2.")


def test_a_run_without_judges_and_models_shows_no_cell_about_them(capsys, tmp_path):
    optional.judges("nobody")
    optional.judge_figures("nobody")
    optional.model_calls("nobody", figure=True)
    assert capsys.readouterr().out == ""


def test_the_readme_quotes_the_sentences_of_the_demo_run(tmp_path):
    """``make thesis`` writes both; a README edited by hand is found here."""
    kept = (paths.ROOT / "figures" / "movies-demo" / "findings.md").read_text(encoding="utf-8")
    page = tmp_path / "README.md"
    page.write_text((paths.ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    commands.quote(kept, page)
    assert page.read_text(encoding="utf-8") == (paths.ROOT / "README.md").read_text(encoding="utf-8")
    commands.quote("- Another sentence.", page)
    assert "- Another sentence." in page.read_text(encoding="utf-8")
    assert kept.strip() not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["no markers", "<!-- findings --> only one"])
def test_a_page_without_markers_stays_as_it_is(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    commands.quote("- x.", page)
    commands.quote("- x.", tmp_path / "none.md")
    assert page.read_text() == text


def test_learnt_is_what_the_sections_said():
    told = findings_scores.adaptation(shifts()), findings_scores.recovery(shifts())
    assert list(stats.learnt(*told)) == [str(one) for one in told]


def test_a_model_counts_only_where_it_beats_every_yardstick():
    rows = [
        {
            "system": "rag:m",
            "yardstick": "rag:template",
            "difference": "+0.20 [+0.10, +0.30]",
            "shown": "better",
        },
        {"system": "rag:m", "yardstick": "bm25", "difference": "+0.01 [-0.10, +0.12]", "shown": "not better"},
    ]
    told = findings_models.beside(pd.DataFrame(rows))
    assert told.startswith("Better than every yardstick: none of 1 model under test (rag:m +0.20")
    assert findings_models.beside(pd.DataFrame(rows[:1])).startswith(
        "Better than every yardstick: rag:m of 1"
    )
    assert not findings_models.beside(pd.DataFrame()).borne


def talk(name, number, unknown, by):
    """One turn: its user worded by ``by``, its reply with ``unknown`` titles that the catalogue lacks."""
    user = Turn("USER", "hello", {"user_meta": {"worded_by": by}})
    reply = Turn("SYSTEM", "hi", {"hallucinated_titles": ["?"] * unknown})
    return Dialogue(f"{number:05d}", name, (user, reply))


def test_replies_roles_and_costs_of_a_model_follow_their_tables():
    talks = [talk("free:m", n, n % 2, "llm" if n < 3 else "template") for n in range(4)]
    assert "free:m names titles that the catalogue lacks in 50 %" in findings_models.replies(
        talks, ["free:m"]
    )
    clean = [talk("free:m", n, 0, "llm") for n in range(4)]
    told = "No reply of free:m names a title that the catalogue lacks."
    assert findings_models.replies(clean, ["free:m"]) == told
    assert not findings_models.replies(talks, ["other"]).borne
    judged = pd.DataFrame({"construct": ["coherence"] * 2, "model": ["a", "b"], "value": [2.0, 3.5]})
    voiced = findings_models.roles(talks, judged)
    assert "voices 75 %" in voiced and "b 3.50, a 2.00 points of 5, the mean of 1 construct." in voiced
    costs = pd.DataFrame({
        "role": ["crs", "judge"], "mode": ["free", ""], "calls": [3, 2], "tokens_in": [10.0, 90.0],
        "tokens_out": [5.0, 1.0], "seconds": [1.0, 4.0],
    })  # fmt: skip
    assert findings_models.costs(costs).startswith("5 calls were made; judge calls took longest, 4.0 s each")
