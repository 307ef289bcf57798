"""Answers taken from the evidence, their scores, and users' own ARC cases."""

import datetime as dt
import json

import numpy as np
import pytest

from crs_lib.core.errors import InputError
from crs_lib.realtalk import answers, arcs, index, plan, scoring, study
from crs_lib.realtalk.config import RealTalkConfig


def extracted(chat, question, *places, near=0.9):
    built = index.build(chat, "hashing")
    made = plan.make(question, built.names, built.today)
    return answers.extract(built, made, places, {"tokens": np.full(built.size, near, np.float32)})


@pytest.fixture
def chat(make_chat):
    return make_chat(
        [("Ann", "I went to the lake yesterday, it was lovely."), ("Ben", "Nice!")],
        [("Ben", "I bought three kayaks in Oslo."), ("Ann", "I never eat fish.")],
        [("Ben", "I also bought a paddle. What a week!")],
    )


def test_days_are_counted_from_the_message(chat):
    found = extracted(chat, "When did Ann go to the lake?", 0)
    assert (found.text, found.days) == ("31 December 2023", ("2023-12-31", "2023-12-31"))
    assert (
        extracted(chat, "When did Ben buy kayaks?", 2).text == "2 January 2024"
    )  # no date said: the day it was written


def test_places_numbers_and_yes_or_no(chat):
    assert extracted(chat, "Where did Ben buy kayaks?", 2).text == "Oslo"
    assert extracted(chat, "How many kayaks did Ben buy?", 2).text == "three"
    assert extracted(chat, "Does Ann eat fish?", 3).text == "no"
    assert extracted(chat, "Did Ben buy kayaks?", 2).text == "yes"


def test_a_list_has_a_part_of_each_message(chat):
    found = extracted(chat, "What things did Ben buy?", 2, 4)
    assert found.text == "I bought three kayaks in Oslo, I also bought a paddle" and found.ids == (
        "D2:1",
        "D3:1",
    )


def test_nothing_found_is_no_answer(chat):
    assert extracted(chat, "What is Ann's salary?").text is None
    found = extracted(chat, "What is Ann's salary?", 1, near=0.05)
    assert found.text is None and "no message shares a word" in found.why


@pytest.mark.parametrize("start, end, words", [
    ("2024-01-19", "2024-01-19", "19 January 2024"), ("2024-01-01", "2024-01-31", "January 2024"),
    ("2023-01-01", "2023-12-31", "2023"),
    ("2024-01-08", "2024-01-14", "between 8 January and 14 January 2024"),
])  # fmt: skip
def test_days_are_written_as_people_write_them(start, end, words):
    assert answers._spoken(dt.date.fromisoformat(start), dt.date.fromisoformat(end)) == words


@pytest.mark.slow
def test_answers_are_scored_beside_the_best_message(sample, told):
    rows = scoring.answered(told, [sample])
    table = scoring.answer_means(rows).set_index("category")
    assert table.loc["all", "n"] == len(rows) == table.drop("all")["n"].sum()
    assert table.loc["all", "token_f1"] > table.loc["all", "baseline_f1"]
    assert rows.loc[rows["abstained"], "token_f1"].eq(0).all()
    perfect = [
        {**r, "answer": {"text": q.answer, "days": None}} for r, q in zip(told, sample.questions, strict=True)
    ]
    best = scoring.answered(perfect, [sample])
    assert best["exact"].eq(1).all() and best["date_accuracy"].dropna().eq(1).all()


@pytest.mark.slow
def test_unmoved_questions_sum_to_all_that_are_scored(sample, told):
    table = scoring.unmoved(scoring.questions(told, [sample], "valid"))
    parts = table[["all gold is there", "some is missing", "nothing to rank"]].sum(axis=1)
    assert parts.tolist() == table["n"].tolist() == [37]


def case(sample, *phases):
    return {"name": "own", "chat": sample.name, "question": sample.questions[0].text,
            "phases": [{"title": "t", "ids": list(ids)} for ids in phases]}  # fmt: skip


def test_own_arc_cases_are_read_and_wrong_ones_named_by_line(sample, tmp_path):
    path = tmp_path / "own.jsonl"
    good = case(sample, ["D1:1"], ["D2:2", "D2:3"])
    path.write_text(json.dumps(good) + "\n\n" + json.dumps(good) + "\n")
    config = RealTalkConfig(arc_cases=str(path))
    assert [c.to_json() for c in study.cases(config, [sample])] == [good, good]
    path.write_text("\n".join([json.dumps(good), "{", json.dumps(case(sample, ["D1:1"], ["D99:1"])), "[]"]))
    with pytest.raises(InputError) as wrong:
        arcs.read(path, [sample])
    told = str(wrong.value)
    assert "3 problems" in told and "line 2 is no JSON" in told and "line 4, case: " in told
    assert "line 3, phase 2: no message 'D99:1'" in told
