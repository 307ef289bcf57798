"""Conventions: what each one makes of the same small dialogues, and that tables say which it was."""

import json
import math
import os
import re
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib import simulate
from crs_lib.core import paths
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.evaluate import choose
from crs_lib.metrics import conventions
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.grounded import ALIASES, _words_of
from crs_lib.thesis.topics import train

pytestmark = pytest.mark.slow
RECORDS = {
    "One": {"genre": ["Drama"], "actor": ["Maya Lind"], "plot": "A quiet love story at sea."},
    "Two": {"genre": ["Horror"], "actor": ["Tomas Berg"], "plot": "A dark house and a ghost."},
    "Three": {"genre": ["Drama", "Comedy"], "director": ["Ida Holm"], "plot": "A comedy of errors."},
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    path = tmp_path_factory.mktemp("catalogue") / "films.json"
    path.write_text(json.dumps(RECORDS), encoding="utf-8")
    return str(path)


def dialogue(*texts, shifts=(), **meta):
    turns = [
        Turn(USER, text, meta) if i % 2 == 0 else Turn(SYSTEM, text, {"rec_titles": ["One"]})
        for i, text in enumerate(texts)
    ]
    return Dialogue("1", "m", tuple(turns), shift_events=tuple({"turn": turn} for turn in shifts))


def scored(catalog, one, convention, **settings):
    ready = choose.ScoringConfig(catalog=catalog, convention=convention, **settings).make()
    return ready.scorer.score_many([one])[0]


def test_silence_agrees_with_silence_and_clipping_moves_the_mean_in_the_thesis(catalog):
    """Turn 1: {drama} and {drama}, CC 1. Turn 2: nothing on either side."""
    one = dialogue("A drama, please.", "Drama it is.", "Hm.", "Yes.")
    ours = scored(catalog, one, "default").session
    theirs = scored(catalog, one, "thesis_grounded", extractor="words").session
    assert ours["cross_coherence"] == 1.0
    assert ours["detail"]["n_both_empty_turns"] == theirs["detail"]["n_both_empty_turns"] == 1
    assert theirs["cross_coherence"] == 1.0
    assert theirs["context_retention"] == 0.5
    assert math.isclose(theirs["topic_adaptation_score"], (1.0 + 1.0) / 2)
    # Turn 1: 1 + 1 − 0 = 2, cut to 1. Turn 2: 1 + 0 − 0 = 1. Mean 1, not CC + CR − I = 1.5.
    one = dialogue("Drama?", "Drama.", "Hm.", "Yes.")
    record = scored(catalog, one, "thesis_grounded", extractor="words").session
    assert record["topic_adaptation_score"] == 1.0
    assert record["cross_coherence"] + record["context_retention"] - record["topic_interference"] == 1.5
    assert record["detail"]["n_clipped_turns"] == 1


def test_recovery_may_come_after_the_next_shift_only_in_the_thesis(catalog):
    """Shifts at 1 and 2; replies 1 and 2 miss, reply 3 meets. Window 3: d = 2 for the first, 1 for the second."""
    one = dialogue(
        "A drama?", "Horror.", "With Maya Lind?", "Horror.", "Drama with Maya Lind?", "Drama with Maya Lind.",
        shifts=(1, 2),
    )  # fmt: skip
    theirs = scored(catalog, one, "thesis_grounded", extractor="words")
    ours = scored(catalog, one, "default")
    assert theirs.session["topic_recovery_rate"] == 1.0
    assert theirs.session["avg_recovery_delay"] == 1.5
    assert ours.session["topic_recovery_rate"] == 0.5
    assert ours.session["avg_recovery_delay"] == 1.0


def test_rates_and_delays_without_recovery_or_shift_differ_by_convention(catalog):
    one = dialogue("A drama?", "Horror.", "A comedy?", "Horror.", shifts=(2,))
    for name in ("default", "thesis_grounded"):
        record = scored(catalog, one, name, extractor="words").session
        assert record["topic_recovery_rate"] == 0.0
        assert math.isnan(record["avg_recovery_delay"]), name
    legacy = scored(catalog, one, "thesis_legacy", topics="heuristic").session
    assert legacy["avg_recovery_delay"] == 0.0
    one = dialogue("A drama?", "Horror.")
    assert math.isnan(scored(catalog, one, "default").session["topic_recovery_rate"])
    assert scored(catalog, one, "thesis_grounded").session["topic_recovery_rate"] == 0.0


def test_logged_wishes_are_the_reference_and_a_log_without_any_is_told_apart(catalog):
    """Wishes {drama, maya lind}; the reply names {drama, horror}: P = 1/2, R = 1/2, F1 = 1/2, joint 0."""
    wishes = {"constraints": {"genre": "Drama", "actor": "Maya Lind", "title": "ignored"}}
    one = dialogue("Hello", "A drama or horror.", user_meta=wishes)
    record = scored(catalog, one, "thesis_grounded", extractor="words").session
    assert [record[f"dst_{name}_mean"] for name in ("precision", "recall", "f1")] == [0.5, 0.5, 0.5]
    assert record["dst_joint_accuracy_mean"] == 0.0
    assert record["recommendation_satisfaction_mean"] == 1.0
    assert record["preference_coverage"] == 0.5
    assert all(repr(record[alias]) == repr(record[name]) for alias, name in ALIASES.items())
    # No "constraints": the user's words are the wishes. Empty ones: nothing is wished, so nothing is met.
    for meta, joint in (({}, 1.0), ({"constraints": {}}, 0.0), ({"constraints": None}, 0.0)):
        one = dialogue("A drama?", "Drama.", user_meta=meta)
        record = scored(catalog, one, "thesis_grounded", extractor="words").session
        assert record["dst_joint_accuracy_mean"] == joint
    # Segment 2, turns 2 to 3: users {drama, horror}, replies {drama}: CC = 1/2.
    one = dialogue("Hm", "Hm", "A drama?", "Drama.", "Horror?", "Drama.", shifts=(2,))
    parts = scored(catalog, one, "thesis_grounded", extractor="words").session["detail"]["segments"]
    assert [(p["first"], p["last"]) for p in parts] == [(1, 1), (2, 3)]
    assert parts[0]["cc"] == 1.0 and parts[1]["cc"] == 0.5


@given(st.text(alphabet="don't I'M x7-''’ é\u212aß\n", max_size=30))
def test_words_for_copying_are_those_of_the_thesis(text):
    """A Kelvin sign is a small k once it is lower-cased; other letters beyond a–z part words."""
    assert _words_of(text) == re.findall(r"[a-z0-9]+(?:'[a-z0-9]+)?", text.lower())


def test_legacy_shift_detection_recovery_and_score(catalog):
    """Four user turns about love, dark, dark, love: shifts at 2 and 4 (turn 3 repeats turn 2).

    The reply to turn 2 is about love (the old topic: a hit), that to turn 3 about dark: recovered after 2,
    interference 1/2. Nothing answers turn 4 with love: 1 reply seen, 0 hits.
    """
    one = dialogue("love", "love", "dark", "love", "dark", "dark", "love", "dark")
    record = scored(catalog, one, "thesis_legacy", topics="heuristic")
    session = record.session
    assert session["detail"]["shift_points"] == [2, 4]
    assert session["topic_recovery_rate"] == 0.5
    assert session["avg_recovery_delay"] == 2.0
    assert session["topic_interference"] == (1 / 2 + 1 / 1) / 2
    speed = 1 - (2 - 1) / 5
    cc, cr = session["cross_coherence"], session["context_retention"]
    expected = (0.01 * 0.5 + 0.02 * speed + 0.02 * (1 - 0.75) + 0.30 * cc + 0.15 * cr) / 0.50
    assert math.isclose(session["context_adaptation_score"], expected)


def test_settings_that_a_convention_does_not_use_or_find_are_errors(catalog):
    for wrong in ({"topics": "lda"}, {"similarity": "tfidf"}, {"vocabulary": "x.txt"}, {"topic_model": "x"}):
        with pytest.raises(InputError, match="leave it out"):
            choose.ScoringConfig(catalog=catalog, convention="default", **wrong)
    with pytest.raises(InputError, match="leave it out"):
        choose.ScoringConfig(catalog=catalog, convention="thesis_legacy", extractor="words")
    with pytest.raises(InputError, match="did you mean 'thesis_legacy'"):
        choose.ScoringConfig(catalog=catalog, convention="thesis_legcy")
    with pytest.raises(InputError, match="did you mean 'tfidf'"):
        choose.ScoringConfig(catalog=catalog, convention="thesis_grounded", similarity="tfid")
    with pytest.raises(InputError, match="python -m crs_lib thesis topics"):
        choose.ScoringConfig(catalog=catalog, convention="thesis_legacy", topic_model="/nowhere").make()


@pytest.mark.parametrize("name", conventions.CONVENTIONS)
def test_every_convention_is_named_and_scores_an_odd_log(catalog, name):
    settings = {"topics": "heuristic"} if conventions.get(name).topics else {}
    one = Dialogue("1", "m", (Turn(USER, "A drama?"), Turn(SYSTEM, ""), Turn(USER, "and then")))
    alone = Dialogue("2", "m", (Turn(USER, "hi"),))
    ready = choose.ScoringConfig(catalog=catalog, convention=name, **settings).make()
    together = ready.scorer.score_many([one, alone])
    printed = f"{name}(topics=heuristic)" if settings else name
    assert [s.session["convention"] for s in together] == [printed, printed]
    assert set(ready.metrics) <= set(together[0].session)
    for part, whole in zip((one, alone), together, strict=True):
        single = ready.scorer.score_many([part])[0].session
        assert json.dumps(single) == json.dumps(whole.session)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Our own logs of the sample catalogue, and a topic model of its plots."""
    folder = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder / "results"))
        config = simulate.SimulateConfig(run="small", systems=("tracker", "echo"), n_sessions=4, n_turns=8)
        logs = simulate.simulate(config, progress=False)
    catalog = ThesisCatalog.load("sample")
    train(catalog.documents[len(catalog) :], n_topics=8, passes=2, least=3).save(folder / "topics")
    return folder, logs / "dialogues.jsonl"


SETTINGS = {
    "default": (), "thesis_grounded": ("--extractor", "embed"), "thesis_legacy": ("--topic-model", "topics"),
}  # fmt: skip
COMMANDS = (
    "import json, sys; from crs_lib.__main__ import main; sys.exit(max(map(main, json.loads(sys.argv[1]))))"
)


def tables_of(written, place, hash_seed, threads, workers):
    """The bytes of all tables that the command writes under each convention, in one fresh interpreter."""
    folder, logs = written
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
        "PYTHONPATH": str(paths.ROOT),
    }  # fmt: skip
    lines = [
        ["score", "--logs", str(logs), "--catalog", "sample", "--convention", name, "--workers", workers,
         "--out", str(folder / place / name), *(str(folder / part) if part == "topics" else part for part in given)]
        for name, given in SETTINGS.items()
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(lines)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {
        name: {path.name: path.read_bytes() for path in sorted((folder / place / name).iterdir())}
        for name in SETTINGS
    }


@pytest.fixture(scope="module")
def twice(written):
    """What the command writes under each convention, twice: other hash seed, other threads, other workers."""
    return tables_of(written, "a", "0", "1", "1"), tables_of(written, "b", "1", "2", "2")


@pytest.mark.subprocess
@pytest.mark.parametrize("name", SETTINGS)
def test_the_command_writes_the_same_bytes_whatever_the_hash_seed_and_threads(written, twice, name):
    first, second = (tables[name] for tables in twice)
    assert sorted(first) == ["model_metrics.csv", "results.jsonl", "shifts.parquet", "turns.parquet"]
    assert second == first
    made = written[0] / "a" / name
    told = {"convention", "extractor", "embedder", "weights", "versions", "input_hash"}
    for table in ("turns.parquet", "shifts.parquet"):
        frame = pd.read_parquet(made / table)
        assert told <= set(frame.columns) and set(frame["convention"]) == {name}
    metrics = pd.read_csv(made / "model_metrics.csv")
    assert metrics[sorted(told)].notna().all(axis=None)
    line = json.loads(first["results.jsonl"].splitlines()[0])
    assert told <= set(line) and line["weights"] and "dialogues" not in line["versions"]
    for key in ("cross_coherence", "context_retention", "topic_recovery_rate", "avg_recovery_delay",
                "topic_interference", "context_adaptation_score", "judge", "detail"):  # fmt: skip
        assert key in line
