"""The sample chats: made by their generator, and counted question by question."""

import json
import os
import subprocess
import sys

import pytest

from crs_lib.core import paths
from crs_lib.realtalk import corpus, describe, scoring

CHATS = paths.samples() / "realtalk"


def test_questions_are_counted_as_their_tables_say(sample, make_chat):
    rows = describe.questions([sample])
    gold = corpus.gold(sample)
    assert len(rows) == len(sample.questions) and (rows["gold"] > 0).sum() == len(gold)
    assert rows["apart"].sum() == sum(len(corpus.sessions_of(sample, sorted(p))) > 1 for p in gold.values())
    odd = sum(not q.evidence or any(e not in sample.position for e in q.evidence) for q in sample.questions)
    assert rows["odd"].sum() == odd == 6
    own = describe.spoken(rows)
    assert len(own) == rows.loc[rows["named"] == 1, "gold"].sum()
    assert describe.questions([make_chat([("Ann", "Hello")])]).empty


def test_visits_say_what_the_agent_did(told):
    rows = scoring.visits(told)
    assert rows["question"].is_unique and rows["given"].all()
    assert rows["again"].sum() == sum(len(record["trace"]) > 5 for record in told) > 0
    assert rows["ids"].tolist() == [len(record["narrative"]) for record in told]
    assert scoring.visits([]).empty


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
