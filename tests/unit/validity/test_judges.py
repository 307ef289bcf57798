"""Judges of what people rated, with answers given in advance: agreement and both biases worked out."""

import json

import numpy as np
import pytest

from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.validity import raters
from tests.helpers import scripted as _scripted  # noqa: F401


def talk(number, overall, reply):
    turns = [{"speaker": "USER", "text": "a drama"}, {"speaker": "SYSTEM", "text": reply}]
    body = {"session_id": str(number), "model_name": "s", "conversation": turns}
    rating = {"dial_level_aggregated": {"dialogue_overall": overall}} if overall is not None else {}
    return Dialogue.from_json({**body, "annotations": rating})


TALKS = [talk(i, i % 5 + 1, f"{'word ' * (5 - i % 5)}{i}") for i in range(10)]


def honest(request):
    """Scores what people think (the reply's last number tells); of a pair the first place always wins."""
    text = request.messages[-1].content
    if "Conversation A" in text:
        return json.dumps({"better": "A"})
    number = int([line for line in text.splitlines() if line.startswith("Recommender")][-1].split()[-1])
    return json.dumps({"score": number % 5 + 1})


def test_agreement_and_biases_of_a_judge(tmp_path):
    (row,) = raters.ask(TALKS, "scripted", tmp_path, {"answers": honest}).to_dict("records")
    assert (row["n"], row["unusable"]) == (10, 0)
    assert row["spearman"] == pytest.approx(1.0)
    assert row["verbosity"] == pytest.approx(0.0)  # it likes words as little as people do
    assert row["position"] == 1.0  # the first place wins in both orders


def test_answers_that_cannot_be_read_are_missing(tmp_path):
    (row,) = raters.ask(TALKS[:4], "scripted", tmp_path, {"answers": lambda request: "well"}).to_dict(
        "records"
    )
    assert row["n"] == 0 and row["unusable"] == 8 and np.isnan(row["spearman"]) and np.isnan(row["position"])


def test_only_rated_conversations_are_drawn():
    assert len(raters.chosen([*TALKS, talk(99, None, "no")], 100)) == 10
    assert raters.chosen(TALKS, 4) == raters.chosen(TALKS, 4)
    with pytest.raises(InputError, match="no conversation carries a rating"):
        raters.chosen([talk(1, None, "no")], 3)
