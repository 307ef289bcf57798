"""Findings of the RealTalk notebooks follow their tables: other numbers, another sentence; none, a reason."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from crs_lib.core import paths
from crs_lib.realtalk import describe, findings, readings

CHATS = paths.samples() / "realtalk"


def scored(*rows):
    """Questions of one chat from (category, gold, r@10, recall, precision, lost at selection, kept)."""
    names = ["category", "gold", "r@10", "recall", "precision", "lost at selection", "kept"]
    frame = pd.DataFrame(rows, columns=names)
    rest = {"unresolvable": 0, "lost at candidates": 0, "lost at reranking": 0, "size": 2.0, "density": 0.25}
    return frame.assign(chat="c", qa_index=range(len(frame)), **rest)


ROWS = scored((1, 2, 0.5, 0.5, 0.25, 1, 1), (1, 2, 0.0, 0.0, 0.0, 2, 0), (2, 1, 1.0, 1.0, 1.0, 0, 1))


def test_scores_are_told_with_intervals_and_the_hardest_category():
    assert findings.ranking(ROWS).startswith("The first ten messages hold 50 % [0, ")
    assert "category 1 (lists and facts from several places), 25 %" in findings.ranking(ROWS)
    assert "Most lost evidence is lost at selection: 60 %" in findings.losses(ROWS)  # 3 of 5 ids
    assert "100 %" in findings.unmoved(ROWS)
    assert findings.sets(ROWS) != findings.sets(ROWS.assign(recall=1.0))
    nothing = ROWS.assign(**{"lost at selection": 0})
    assert findings.losses(nothing) == "No finding: no annotated id was lost."


def test_a_lever_is_compared_question_by_question():
    both = pd.concat([ROWS.assign(way="old", f1=[0.1, 0.2, 0.9]), ROWS.assign(way="new", f1=[0.3, 0.4, 1.0])])
    told = findings.selections(both, "way")
    assert told.startswith("The f1 of the way “new” is higher than that of “old” by 0.1")
    same = findings.selections(both.assign(f1=[0.1, 0.5, 0.2, 0.3, 0.1, 0.3]), "way")
    assert "is not settled" in same


def test_threads_are_told_from_chance_only_with_evidence_for_it():
    pairs = pd.DataFrame({"question": range(12), "joined": [1.0] * 11 + [0.0], "by_chance": 0.1})
    assert "A thread joins 92 %" in findings.threads(pairs) and "more than chance" in findings.threads(pairs)
    assert "not settled" in findings.threads(pairs.assign(joined=[1.0] + [0.0] * 11))
    assert not findings.threads(pairs.head(0)).borne


def test_one_chat_or_case_has_no_interval(sample, built):
    assert not findings.size([sample]).borne and not findings.segments([built]).borne
    assert not findings.stories([]).borne
    assert not findings.narratives(pd.DataFrame({"global_recall": [0.5]})).borne
    assert not findings.answers(pd.DataFrame()).borne
    limits = findings.limits([sample], findings.recall_at_ten(ROWS))
    assert "The chats are made up" in limits[1] and "With 3 questions, differences in r@10 below" in limits[2]


def test_what_is_told_of_a_chat_is_what_its_tables_count(sample, make_chat):
    gold = readings.gold(sample)
    apart = sum(len(readings.sessions_of(sample, sorted(places))) > 1 for places in gold.values())
    assert f"{100 * apart / len(gold):.0f} % [" in findings.spread([sample], "valid")
    spoken = describe.regularities([sample]).set_index("regularity")["value"]
    share = spoken["evidence by the one speaker named, %"]
    assert f"that person speaks {share:.0f} % [" in findings.speakers([sample])
    assert not findings.speakers([make_chat([("Ann", "Hello")])]).borne
    odd = sum(not q.evidence or any(e not in sample.position for e in q.evidence) for q in sample.questions)
    assert f"{100 * odd / len(sample.questions):.0f} % [" in findings.slips([sample])


@pytest.mark.subprocess
def test_the_sample_is_what_its_generator_makes(tmp_path):
    command = [sys.executable, str(CHATS / "make_sample.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, env=dict(os.environ) | {"PYTHONPATH": str(paths.ROOT)})
    made = sorted(tmp_path.iterdir())
    assert [path.name for path in made] == [
        "Chat_11_Noor_Felix.json", "Chat_12_Ayo_Greta.json", "Chat_13_Lucia_Hendrik.json", "arcs.json",
    ]  # fmt: skip
    for path in made:
        assert path.read_bytes() == (CHATS / path.name).read_bytes()
        assert "{" not in "".join(text for text in _texts(json.loads(path.read_text())))


def _texts(value):
    """Every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
