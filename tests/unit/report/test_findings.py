"""The sentences of the notebooks follow their tables: other data, other sentences; no data, a reason."""

import re

import numpy as np
import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.report import findings, models
from crs_lib.report import tables as views

SYSTEMS = ("oracle", "tracker", "sticky")


def results(**levels):
    """Ten sessions of each system: gain and TAS about the levels given."""
    rows = [
        (name, f"{number:05d}", gain + 0.01 * (-1) ** number, tas + 0.02 * (number % 3))
        for name, (gain, tas) in levels.items()
        for number in range(10)
    ]
    return pd.DataFrame(rows, columns=["model", "session_id", "normalised_gain", "topic_adaptation_score"])


def shifts(cost=0.5, delay=2.0, ability=0.8, spread=0.01, n=10):
    """Two shifts in each of ``n`` sessions; sticky pays ``cost`` for the first, and tracker waits ``delay``."""
    rows = []
    for name in SYSTEMS:
        for number in range(n):
            for turn in (4, 8):
                off = spread * (-1) ** number
                pays = cost + off if name == "sticky" else off
                wait = {"oracle": 0.0, "tracker": delay if number % 2 else 0.0, "sticky": np.nan}[name]
                rows.append(
                    {"model": name, "session_id": f"{number:05d}", "turn": turn, "watched": 4,
                     "delay_item": wait, "recovered_item": wait == wait, "straight_gain": ability - off,
                     "shift_cost": pays, "primary": turn == 4}
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_the_plain_score_is_praised_only_where_it_agrees():
    apart = results(oracle=(1, 0.1), tracker=(0.8, 0.2), sticky=(0.4, 0.9))
    told = findings.plain_score(apart)
    assert told.startswith("TAS puts sticky first, 0.80 (too few scenarios differ) above") and told.endswith(
        "rank by gain is 3 of 3."
    )
    alike = results(oracle=(1, 0.9), tracker=(0.8, 0.2), sticky=(0.4, 0.1))
    assert findings.plain_score(alike) == "TAS and gain put the same system first, oracle."
    assert not findings.plain_score(apart.drop(columns="normalised_gain")).borne


def test_the_cost_of_a_shift_is_told_as_it_is_shown():
    """Different, equivalent, and neither: no sentence takes an interval that includes 0 for no cost."""
    told = findings.adaptation(shifts(spread=0.03))
    assert re.match(r"At a change of mind sticky, whose gain is 0\.80 .* loses 0\.50 \[0\.48, 0\.52\]", told)
    assert "tracker, the ablest other system, loses no more than 0.05 (0.00 [−0.02, 0.02])" in told
    wide = findings.adaptation(shifts(spread=0.3))
    assert "is not shown to lose anything, and could lose 0.2" in wide
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
    assert "tracker needs 1.00 [" in told and "replies more than oracle" in told
    assert "sticky does not recover within 3 replies in 100 % [72, 100] of its shifts" in told
    assert "an interval that includes 0" in findings.recovery(shifts(delay=0.0))
    assert findings._waits(shifts(delay=9.0))["wait"].max() == 3, "waits end at the horizon"
    short = shifts().assign(watched=2)
    assert findings.recovery(short) == "No finding: no shift was followed for 3 replies."


def test_the_readme_quotes_the_sentences_of_the_demo_run(tmp_path):
    """``make thesis`` writes both; a README edited by hand is found here."""
    kept = (paths.ROOT / "figures" / "movies-demo" / "findings.md").read_text(encoding="utf-8")
    page = tmp_path / "README.md"
    page.write_text((paths.ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    findings.quote(kept, page)
    assert page.read_text(encoding="utf-8") == (paths.ROOT / "README.md").read_text(encoding="utf-8")
    findings.quote("- Another sentence.", page)
    assert "- Another sentence." in page.read_text(encoding="utf-8")
    assert kept.strip() not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["no markers", "<!-- findings --> only one"])
def test_a_page_without_markers_stays_as_it_is(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    findings.quote("- x.", page)
    findings.quote("- x.", tmp_path / "none.md")
    assert page.read_text() == text


def talk(name, number, by):
    """One turn: its user worded by ``by``."""
    user = Turn("USER", "hello", {"user_meta": {"worded_by": by, "stage": "insist" if number else "ask"}})
    return Dialogue(f"{number:05d}", name, (user, Turn("SYSTEM", "hi", {})))


def test_turns_of_users_say_who_insists_and_who_words_them():
    turns = views.user_turns([talk("m", n, "llm" if n < 3 else "template") for n in range(4)])
    assert turns["insists"].tolist() == [False, True, True, True]
    assert turns["by_model"].tolist() == [True, True, True, False]
    assert views.user_turns([]).empty
