"""What replies are like, and whether a model beats its yardstick."""

import json

import pandas as pd

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.tables import read_jsonl
from crs_lib.llm import calls
from crs_lib.metrics import base
from crs_lib.report import models
from crs_lib.systems.modes import copied_prompt


def talk(model, *replies):
    turns = []
    for text, ids, foreign, user in replies:
        turns.append(Turn(USER, "Hello", {"user_meta": user}))
        turns.append(Turn(SYSTEM, text, {"rec_ids": ids, "hallucinated_titles": foreign}))
    return Dialogue("00000", model, tuple(turns))


def test_habits_count_films_repetitions_and_unknown_titles():
    films = ["x", "y"]
    first = talk("a", ("One.", films, [], {}), ("One.", [], ["Lamps", "Lights"], {}), ("Two.", ["x"], [], {}))
    second = talk("a", ("One.", ["x"], [], {}))
    table = models.habits([first, second])
    row = table.loc["a"]
    assert row["replies"] == 4 and row["films"] == 1 and row["without film"] == 0.25
    assert row["said before"] == 0.25  # within the session alone
    assert row["unknown titles"] == 0.5


def test_a_model_is_better_only_where_the_interval_leaves_out_zero():
    gains = {
        "m": (0.5, 0.6, 0.4, 0.7, 0.5), "list": (0.5, 0.5, 0.5, 0.6, 0.6), "poor": (0.1, 0.1, 0, 0.2, 0.1),
    }  # fmt: skip
    rows = [(name, f"{i:05d}", value) for name, values in gains.items() for i, value in enumerate(values)]
    results = pd.DataFrame(rows, columns=["model", "session_id", "normalised_gain"])
    table = models.against(results, [("m", "list"), ("m", "poor"), ("m", "m"), ("poor", "m")])
    assert table["shown"].tolist() == ["not better", "better", "worse"]
    assert [text.split()[0] for text in table["difference"]] == ["+0.00", "+0.44", "-0.44"]
    assert table[["gain", "its gain"]].to_numpy().tolist() == [[0.54, 0.54], [0.54, 0.1], [0.1, 0.54]]


def test_a_reply_that_repeats_eight_words_of_the_instructions_is_a_copied_prompt():
    rule = "a wish holds until the user takes it back"
    table = models.habits(
        [talk("a", (f"Well, {rule}!", [], [], {}), (rule.rpartition(" ")[0][:-3], [], [], {}))]
    )
    assert table.loc["a", "copied prompt"] == 0.5
    metric = base.get("copied_prompt")
    assert (metric.low, metric.high, metric.direction) == (0, 1, base.LOWER)


def test_the_kept_calls_of_the_small_model_are_counted():
    rows = [row for row in read_jsonl(calls.kept("smollm2")) if row["role"] == "crs" and not row.get("error")]
    copied = [
        row["system"].partition(":")[0] for row in rows if copied_prompt(json.loads(row["text"])["reply"])
    ]
    assert len(rows) == 911 and len(copied) == 563
    assert "worded" not in copied
