"""Models learned on crowd: the router and its command."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crs_lib.__main__ import main
from crs_lib.core.errors import InputError
from crs_lib.cosrec import corpus, intents, votes
from crs_lib.cosrec.labels import curated_labels
from tests.helpers import refused

SAMPLE = corpus.locate("sample")
KNOWN, ASKED = corpus.load(SAMPLE, "crowd"), corpus.load(SAMPLE, "curated")


def test_who_disagrees_counts_less_and_the_largest_share_and_every_majority_is_agreed():
    agree, alone = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    weights = votes.trust(np.array([[agree, agree, agree, alone]] * 5))
    assert weights.sum() == pytest.approx(1) and weights[3] < 0.01 < weights[0] == pytest.approx(weights[1])
    assert votes.trust(np.array([[agree]])).tolist() == [1.0]
    shares = np.array([[0.4, 0.3, 0.0, 0.3], [0.1, 0.2, 0.1, 0.6], [0.5, 0.5, 0.0, 0.0]])
    given = np.array([[0.4, 0.3, 0.0], [0.1, 0.2, 0.1], [1.0, 1.0, 0.0]])
    assert votes.agreed(shares, given).tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]
    assert votes.agreed(shares, given, 0.3).tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]
    assert votes.agreed(shares, given, 0.15).tolist() == [[1, 1, 0], [0, 1, 0], [1, 1, 0]]


def planted(talks=60, length=6):
    """Votes of five annotators a conversation, two of whom call most requests for products a search."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 4, (talks, length))
    truth[:, 0] = 1
    literal = np.arange(5) >= 3
    cast = np.zeros((talks, length, 5, 4))
    for place in np.ndindex(talks, length, 5):
        kind = truth[place[:2]]
        kind = 0 if kind == 1 and literal[place[2]] and draw.random() < 0.9 else kind
        cast[place][draw.integers(4) if draw.random() < 0.1 else kind] = 1
    return cast.reshape(-1, 5, 4), np.repeat(np.arange(talks), length), truth.ravel(), literal


def test_types_of_annotators_are_told_apart_and_who_is_absent_changes_nothing():
    cast, codes, truth, literal = planted()
    found = votes.settle(cast, codes, np.full((len(truth), 4), 0.25))
    assert found.shares.sum(axis=1) == pytest.approx(1) and found.calls.sum(axis=2) == pytest.approx(1)
    assert ((found.types[:, :, 1] > 0.5) == literal).mean() > 0.9
    assert found.calls[1, 1, 0] > 0.7 > 0.2 > found.calls[0, 1, 0]
    right = (found.shares.argmax(axis=1) == truth).mean()
    assert right > (cast.mean(axis=1).argmax(axis=1) == truth).mean() + 0.02 and right > 0.95
    cast, codes, _, _ = planted(20)
    prior = np.full((len(codes), 4), 0.25)
    more = np.concatenate([cast, np.zeros((len(cast), 2, 4))], axis=1)
    alone, padded = (votes.settle(given, codes, prior) for given in (cast, more))
    assert np.allclose(alone.shares, padded.shares) and np.allclose(alone.calls, padded.calls)
    cast = np.zeros((4, 2, 4))
    cast[:, 0, 0] = cast[:, 1, 1] = 1
    codes, prior = np.array([0, 0, 1, 1]), np.tile([0.1, 0.7, 0.1, 0.1], (4, 1))
    prior[3] = [0.7, 0.1, 0.1, 0.1]
    assert votes.settle(cast, codes, prior).shares[[1, 3]].argmax(axis=1).tolist() == [1, 0]


@pytest.mark.slow
def test_the_command_writes_a_line_a_turn_and_learns_something(tmp_path, capsys):
    out = tmp_path / "predictions.jsonl"
    folders = ["--train", str(SAMPLE / "crowd"), "--test", str(SAMPLE / "curated")]
    assert main(["cosrec-intents", *folders, "--out", str(out), "--model", "views"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == sum(len(talk.turns) for talk in ASKED.conversations.values())
    assert all(0 <= share <= 1 for row in rows for share in row["probabilities"].values())
    assert set(rows[0]) == {"conversation", "turn", "intents", "probabilities"}
    assert "micro" in capsys.readouterr().out
    assert main(["cosrec-intents", "--train", str(SAMPLE / "curated"), *folders[2:], "--out", str(out)]) == 2


@pytest.mark.slow
def test_a_crowd_that_says_nothing_and_one_that_is_tested_on_itself_are_refused(tmp_path):
    mute = {name: [one._replace(cells=()) for one in found] for name, found in KNOWN.annotations.items()}
    refused("no annotator of 'crowd' names an intent", intents.Training.of, replace(KNOWN, annotations=mute))
    with pytest.raises(InputError, match="60 conversations stand in 'crowd' and in 'crowd'"):
        intents.predict_files(SAMPLE / "crowd", SAMPLE / "crowd", tmp_path / "out.jsonl")


@pytest.mark.slow
def test_the_router_beats_the_most_frequent_intent_on_the_sample():
    data, frame = intents.Training.of(KNOWN), intents.turns(ASKED)
    model = intents.MODELS.create("annotators").fit(data)
    truth = curated_labels(ASKED)[list(intents.INTENTS)].to_numpy()
    right = (model.predict(frame) == truth).mean()
    assert right > (np.eye(3)[data.labels.sum(axis=0).argmax()] == truth).mean() + 0.1
    one = (frame["conversation"] == "Sample-Curated_7").to_numpy()
    assert np.allclose(model.scores(frame[one]), model.scores(frame)[one])
