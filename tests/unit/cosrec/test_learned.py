"""Models learned on crowd: what annotators settle on, the router, its command."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.cosrec import corpus, intents, labels
from crs_lib.cosrec.labels import curated_labels, f1_table, human_ceiling
from crs_lib.cosrec.records import INTENTS, Conversation, Partition
from tests.helpers import refused
from tests.helpers.cosrec_data import CROWD, CURATED

SAMPLE = corpus.locate("sample")
CROWD_OF_SAMPLE = corpus.load(SAMPLE, "crowd")
CURATED_OF_SAMPLE = corpus.load(SAMPLE, "curated")


def truth_of(curated):
    return curated_labels(curated)[list(INTENTS)].to_numpy()


def test_who_disagrees_counts_less():
    agree = [1.0, 0.0, 0.0, 0.0]
    alone = [0.0, 1.0, 0.0, 0.0]
    weights = labels.trust(np.array([[agree, agree, agree, alone]] * 5))
    assert weights.sum() == pytest.approx(1)
    assert weights[3] < 0.01 < weights[0]
    assert weights[0] == pytest.approx(weights[1])
    assert labels.trust(np.array([[agree]])).tolist() == [1.0]


def test_the_largest_share_and_what_is_above_a_level_are_agreed():
    def agreed(shares, votes, level=0.5):
        return labels.agreed(np.array([shares]), np.array([votes]), level)[0].tolist()

    search = [0.4, 0.3, 0.0, 0.3]
    assert agreed(search, search[:3]) == [1, 0, 0]
    assert agreed(search, search[:3], 0.3) == [1, 0, 0]
    assert agreed(search, search[:3], 0.15) == [1, 1, 0]
    nothing = [0.1, 0.2, 0.1, 0.6]
    assert agreed(nothing, nothing[:3]) == [0, 0, 0]
    assert agreed(nothing, nothing[:3], 0.15) == [0, 1, 0]
    assert agreed([0.5, 0.5, 0.0, 0.0], [1.0, 1.0, 0.0]) == [1, 1, 0]


def planted(talks=60, length=6):
    """Votes of five annotators a conversation, two of whom call most requests for products a search."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 4, (talks, length))
    truth[:, 0] = 1
    literal = np.arange(5) >= 3
    cast = np.zeros((talks, length, 5, 4))
    for cell in np.ndindex(talks, length, 5):
        kind = truth[cell[:2]]
        if kind == 1 and literal[cell[2]] and draw.random() < 0.9:
            kind = 0
        if draw.random() < 0.1:
            kind = draw.integers(4)
        cast[cell][kind] = 1
    codes = np.repeat(np.arange(talks), length)
    return cast.reshape(-1, 5, 4), codes, truth.ravel(), literal


def undecided(codes):
    """The opinion of a classifier that knows nothing."""
    return np.full((len(codes), 4), 0.25)


def test_types_of_annotators_are_told_apart():
    cast, codes, truth, literal = planted()
    settled = labels.settle(cast, codes, undecided(codes))
    assert settled.shares.sum(axis=1) == pytest.approx(1)
    assert settled.calls.sum(axis=2) == pytest.approx(1)
    assert ((settled.types[:, :, 1] > 0.5) == literal).mean() > 0.9
    assert settled.calls[1, 1, 0] > 0.7
    assert settled.calls[0, 1, 0] < 0.2
    right = (settled.shares.argmax(axis=1) == truth).mean()
    by_majority = (cast.mean(axis=1).argmax(axis=1) == truth).mean()
    assert right > by_majority + 0.02
    assert right > 0.95


def test_an_absent_annotator_changes_nothing():
    cast, codes, _, _ = planted(20)
    absent = np.zeros((len(cast), 2, 4))
    more = np.concatenate([cast, absent], axis=1)
    alone = labels.settle(cast, codes, undecided(codes))
    padded = labels.settle(more, codes, undecided(codes))
    assert np.allclose(alone.shares, padded.shares)
    assert np.allclose(alone.calls, padded.calls)


def test_the_classifier_decides_between_annotators():
    cast = np.zeros((4, 2, 4))
    cast[:, 0, 0] = 1
    cast[:, 1, 1] = 1
    opinion = np.tile([0.1, 0.7, 0.1, 0.1], (4, 1))
    opinion[3] = [0.7, 0.1, 0.1, 0.1]
    settled = labels.settle(cast, np.array([0, 0, 1, 1]), opinion)
    assert settled.shares[[1, 3]].argmax(axis=1).tolist() == [1, 0]


def test_views_are_one_vote_an_annotator():
    data = intents.Training.of(CROWD)
    # turn 0: two R, one splits between R and S; turn 1: two S, one D; turn 2 has no record
    first, second, third = data.views()[:3].tolist()
    assert first == pytest.approx([1 / 6, 5 / 6, 0, 0])
    assert second == pytest.approx([2 / 3, 0, 1 / 3, 0])
    assert third == [0, 0, 0, 1]
    first, second, third = data.labels[:3].tolist()
    assert first == [0, 1, 0]
    assert second == [1, 0, 0]
    assert third == [0, 0, 0]


@pytest.fixture(scope="module", params=intents.MODELS.names())
def fitted(request):
    """A model of each name, trained on the small crowd."""
    return intents.MODELS.create(request.param).fit(intents.Training.of(CROWD))


@pytest.mark.slow
def test_every_model_scores_and_decides(fitted):
    data = intents.Training.of(CROWD)
    scores = fitted.scores(data.turns)
    guess = fitted.predict(data.turns)
    assert scores.shape == guess.shape == data.labels.shape
    assert ((scores >= 0) & (scores <= 1)).all()
    assert set(guess.ravel().tolist()) <= {0, 1}
    assert scores[:2, :2].argmax(axis=1).tolist() == [1, 0]  # opening: recommendation, then search


@pytest.mark.slow
def test_no_model_sees_the_future_of_a_conversation(fitted):
    whole = intents.turns(CURATED)
    openings = {}
    for name, talk in CURATED.conversations.items():
        openings[name] = Conversation(name, talk.utterances[:1])
    first = intents.turns(Partition("curated", openings))
    scores = fitted.scores(whole)[whole["turn"] == 0]
    assert scores.tolist() == fitted.scores(first).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", intents.MODELS.names())
def test_a_model_learns_the_same_again_and_needs_two_conversations(name):
    data = intents.Training.of(CROWD)
    first = intents.MODELS.create(name).fit(data).scores(data.turns)
    second = intents.MODELS.create(name).fit(data).scores(data.turns)
    assert first.tobytes() == second.tobytes()
    refused("at least two conversations", intents.MODELS.create(name).fit, data.take(np.arange(3)))


@pytest.mark.slow
def test_the_command_writes_a_line_a_turn(tmp_path, capsys):
    out = tmp_path / "predictions.jsonl"
    test = ["--test", str(SAMPLE / "curated"), "--out", str(out)]
    assert main(["cosrec-intents", "--train", str(SAMPLE / "crowd"), *test, "--model", "views"]) == 0
    assert "micro" in capsys.readouterr().out
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len(CURATED_OF_SAMPLE.user_turns())
    for row in rows:
        assert set(row) == {"conversation", "turn", "intents", "probabilities"}
        assert all(0 <= share <= 1 for share in row["probabilities"].values())
    assert main(["cosrec-intents", "--train", str(SAMPLE / "curated"), *test]) == 2


@pytest.mark.slow
def test_a_crowd_that_says_nothing_and_one_that_is_tested_on_itself_are_refused(tmp_path):
    mute = {}
    for name, records in CROWD_OF_SAMPLE.annotations.items():
        mute[name] = [record._replace(cells=()) for record in records]
    silent = replace(CROWD_OF_SAMPLE, annotations=mute)
    refused("no annotator of 'crowd' names an intent", intents.Training.of, silent)
    crowd = SAMPLE / "crowd"
    same = "60 conversations stand in 'crowd' and in 'crowd'"
    refused(same, intents.predict_files, crowd, crowd, tmp_path / "out.jsonl")


@pytest.mark.slow
def test_the_router_beats_the_most_frequent_intent_on_the_sample():
    data = intents.Training.of(CROWD_OF_SAMPLE)
    frame = intents.turns(CURATED_OF_SAMPLE)
    model = intents.MODELS.create("annotators").fit(data)
    truth = truth_of(CURATED_OF_SAMPLE)
    right = (model.predict(frame) == truth).mean()
    frequent = np.eye(3)[data.labels.sum(axis=0).argmax()]
    assert right > (frequent == truth).mean() + 0.1
    alone_rows = (frame["conversation"] == "Sample-Curated_7").to_numpy()
    assert np.allclose(model.scores(frame[alone_rows]), model.scores(frame)[alone_rows])


@pytest.mark.external
def test_intents_on_the_release():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "cosrec" / "crowd").is_dir():
        pytest.skip("the CoSRec release is not here; name its parent folder in CRS_MIRROR")
    crowd = corpus.load(mirror / "cosrec", "crowd")
    curated = corpus.load(mirror / "cosrec", "curated")
    frame = intents.turns(curated)
    least = {"views": (0.74, 0.73), "annotators": (0.79, 0.78)}
    for name, (micro, macro) in least.items():
        guess = intents.learned(crowd, name, "none").predict(frame)
        scores = f1_table(frame["conversation"], truth_of(curated), guess).set_index("intent")["f1"]
        assert scores["micro"] >= micro
        assert scores["macro"] >= macro
    ceiling = human_ceiling(crowd).set_index("intent")
    assert ceiling.loc["micro", "f1"] == pytest.approx(0.667, abs=0.001)
