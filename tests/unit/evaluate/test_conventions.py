"""Conventions: what each one makes of the same small dialogues, and that tables say which it was."""

import io
import json
import math
import os
import re
import subprocess
import sys
from itertools import cycle

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib import simulate
from crs_lib.core import paths
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.evaluate import choose
from crs_lib.evaluate.run import score_all
from crs_lib.figures import layout
from crs_lib.metrics import conventions
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.grounded import ALIASES, _words_of
from crs_lib.thesis.topics import train
from tests.helpers import refused, table
from tests.helpers.films import grounder

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
    """A session of these texts, the user's first; every reply recommends One."""
    speakers = [(USER, meta), (SYSTEM, {"rec_titles": ["One"]})]
    turns = []
    for (speaker, log), text in zip(cycle(speakers), texts, strict=False):
        turns.append(Turn(speaker, text, log))
    events = tuple({"turn": turn} for turn in shifts)
    return Dialogue("1", "m", tuple(turns), shift_events=events)


def scored(catalog, talk, convention, **settings):
    """The record of a session under a convention."""
    ready = choose.ScoringConfig(catalog=catalog, convention=convention, **settings).make()
    return ready.scorer.score_many([talk])[0].session


def grounded(catalog, talk):
    """The record of a session under the thesis's convention, by whole words."""
    return scored(catalog, talk, "thesis_grounded", extractor="words")


@pytest.mark.slow
def test_silence_agrees_with_silence_in_the_thesis(catalog):
    """Turn 1: {drama} and {drama}, CC 1. Turn 2: nothing on either side."""
    talk = dialogue("A drama, please.", "Drama it is.", "Hm.", "Yes.")
    ours = scored(catalog, talk, "default")
    theirs = grounded(catalog, talk)
    assert ours["cross_coherence"] == 1.0
    assert ours["detail"]["n_both_empty_turns"] == 1
    assert theirs["detail"]["n_both_empty_turns"] == 1
    assert theirs["cross_coherence"] == 1.0
    assert theirs["context_retention"] == 0.5
    assert theirs["topic_adaptation_score"] == pytest.approx((1.0 + 1.0) / 2)


@pytest.mark.slow
def test_clipping_moves_the_mean_in_the_thesis(catalog):
    """Turn 1: 1 + 1 − 0 = 2, cut to 1. Turn 2: 1 + 0 − 0 = 1. Mean 1, not CC + CR − I = 1.5."""
    record = grounded(catalog, dialogue("Drama?", "Drama.", "Hm.", "Yes."))
    assert record["topic_adaptation_score"] == 1.0
    assert record["cross_coherence"] + record["context_retention"] - record["topic_interference"] == 1.5
    assert record["detail"]["n_clipped_turns"] == 1


LATE = ("A drama?", "Horror.", "With Maya Lind?", "Horror.", "Drama with Maya Lind?", "Drama with Maya Lind.")
NEVER = dialogue("A drama?", "Horror.", "A comedy?", "Horror.", shifts=(2,))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rate", "delay"), [("default", 0.5, 1.0), ("thesis_grounded", 1.0, 1.5)])
def test_recovery_after_the_next_shift_counts_in_the_thesis(catalog, name, rate, delay):
    """Shifts at 1 and 2; replies 1 and 2 miss, reply 3 meets. Window 3: d = 2 for the first, 1 for the second."""
    record = scored(catalog, dialogue(*LATE, shifts=(1, 2)), name, extractor="words")
    assert record["topic_recovery_rate"] == rate
    assert record["avg_recovery_delay"] == delay


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "thesis_grounded"])
def test_without_recovery_there_is_no_delay(catalog, name):
    record = scored(catalog, NEVER, name, extractor="words")
    assert record["topic_recovery_rate"] == 0
    assert math.isnan(record["avg_recovery_delay"])


@pytest.mark.slow
def test_a_delay_without_recovery_and_a_rate_without_shift_differ_by_convention(catalog):
    assert scored(catalog, NEVER, "thesis_legacy", topics="heuristic")["avg_recovery_delay"] == 0.0
    talk = dialogue("A drama?", "Horror.")
    assert math.isnan(scored(catalog, talk, "default")["topic_recovery_rate"])
    assert scored(catalog, talk, "thesis_grounded")["topic_recovery_rate"] == 0.0


@pytest.mark.slow
def test_logged_constraints_are_the_reference(catalog):
    """Wanted {drama, maya lind}; the reply names {drama, horror}: P = 1/2, R = 1/2, F1 = 1/2, joint 0."""
    wanted = {"genre": "Drama", "actor": "Maya Lind", "title": "ignored"}
    record = grounded(catalog, dialogue("Hello", "A drama or horror.", user_meta={"constraints": wanted}))
    for name in ("precision", "recall", "f1"):
        assert record[f"dst_{name}_mean"] == 0.5
    assert record["dst_joint_accuracy_mean"] == 0.0
    assert record["recommendation_satisfaction_mean"] == 1.0
    assert record["preference_coverage"] == 0.5
    for alias, name in ALIASES.items():
        assert repr(record[alias]) == repr(record[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "joint"), [({}, 1.0), ({"constraints": {}}, 0.0), ({"constraints": None}, 0.0)]
)
def test_a_log_without_constraints_is_told_from_one_with_none(catalog, log, joint):
    """No "constraints": the user's words are what is wanted. Empty ones: nothing is wanted, so nothing is met."""
    record = grounded(catalog, dialogue("A drama?", "Drama.", user_meta=log))
    assert record["dst_joint_accuracy_mean"] == joint


@pytest.mark.slow
def test_segments_begin_at_shifts(catalog):
    """Segment 2, turns 2 to 3: users {drama, horror}, replies {drama}: CC = 1/2."""
    talk = dialogue("Hm", "Hm", "A drama?", "Drama.", "Horror?", "Drama.", shifts=(2,))
    first, second = grounded(catalog, talk)["detail"]["segments"]
    assert (first["first"], first["last"]) == (1, 1)
    assert (second["first"], second["last"]) == (2, 3)
    assert first["cc"] == 1.0
    assert second["cc"] == 0.5


@pytest.mark.slow
@given(st.text(alphabet="don't I'M x7-''’ é\u212aß\n", max_size=30))
def test_words_for_copying_are_those_of_the_thesis(text):
    """A Kelvin sign is a small k once it is lower-cased; other letters beyond a–z part words."""
    assert _words_of(text) == re.findall(r"[a-z0-9]+(?:'[a-z0-9]+)?", text.lower())


@pytest.mark.slow
def test_legacy_shift_detection_recovery_and_score(catalog):
    """Four user turns about love, dark, dark, love: shifts at 2 and 4 (turn 3 repeats turn 2). The reply to
    turn 2 is about love (the old topic: a hit), that to turn 3 about dark: recovered after 2, interference
    1/2. Nothing answers turn 4 with love: 1 reply seen, 0 hits.
    """
    talk = dialogue("love", "love", "dark", "love", "dark", "dark", "love", "dark")
    session = scored(catalog, talk, "thesis_legacy", topics="heuristic")
    assert session["detail"]["shift_points"] == [2, 4]
    assert session["topic_recovery_rate"] == 0.5
    assert session["avg_recovery_delay"] == 2.0
    assert session["topic_interference"] == (1 / 2 + 1 / 1) / 2
    speed = 1 - (2 - 1) / 5
    cc = session["cross_coherence"]
    cr = session["context_retention"]
    expected = (0.01 * 0.5 + 0.02 * speed + 0.02 * (1 - 0.75) + 0.30 * cc + 0.15 * cr) / 0.50
    assert session["context_adaptation_score"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("convention", "settings", "message"), table(__file__, "unused_settings"))
def test_a_setting_that_a_convention_does_not_use_or_find_is_refused(catalog, convention, settings, message):
    refused(message, choose.ScoringConfig, catalog=catalog, convention=convention, **settings)


def test_a_topic_model_that_is_not_there_is_refused(catalog):
    config = choose.ScoringConfig(catalog=catalog, convention="thesis_legacy", topic_model="/nowhere")
    refused("python -m crs_lib catalog topics", config.make)


def test_a_convention_out_of_range_is_refused():
    refused("empty is 'half'; give one of skip, zero, one", conventions.Convention, empty="half")
    refused("window is 0; input should be greater than or equal to 1", conventions.Convention, window=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", conventions.CONVENTIONS.names())
def test_every_convention_is_named_and_scores_an_odd_log(catalog, name):
    settings = {"topics": "heuristic"} if conventions.get(name).topics else {}
    printed = f"{name}(topics=heuristic)" if settings else name
    odd = Dialogue("1", "m", (Turn(USER, "A drama?"), Turn(SYSTEM, ""), Turn(USER, "and then")))
    alone = Dialogue("2", "m", (Turn(USER, "hi"),))
    ready = choose.ScoringConfig(catalog=catalog, convention=name, **settings).make()
    together = ready.scorer.score_many([odd, alone])
    assert len(together) == 2
    for talk, scores in zip((odd, alone), together, strict=True):
        single = ready.scorer.score_many([talk])[0]
        assert scores.session["convention"] == printed
        assert set(ready.metrics) <= set(scores.session)
        assert json.dumps(single.session) == json.dumps(scores.session)


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
    "default": [],
    "thesis_grounded": ["--extractor", "embed"],
    "thesis_legacy": ["--topic-model", "topics"],
}
COMMANDS = (
    "import json, sys; from crs_lib.__main__ import main; sys.exit(max(map(main, json.loads(sys.argv[1]))))"
)


def tables_of(written, place, hash_seed, threads):
    """The bytes of all tables that the command writes under each convention, in one fresh interpreter."""
    folder, logs = written
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(paths.ROOT)}
    environment["OMP_NUM_THREADS"] = threads
    environment["OPENBLAS_NUM_THREADS"] = threads
    out = folder / place
    lines = []
    for name, settings in SETTINGS.items():
        line = ["score", "--logs", str(logs), "--catalog", "sample", "--convention", name]
        line += ["--workers", threads, "--out", str(out / name), *settings]
        lines.append(line)
    command = [sys.executable, "-c", COMMANDS, json.dumps(lines)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert process.returncode == 0, process.stderr
    tables = {}
    for file in sorted(out.glob("*/*")):
        tables.setdefault(file.parent.name, {})[file.name] = file.read_bytes()
    return tables


@pytest.fixture(scope="module")
def twice(written):
    return tables_of(written, "a", "0", "1"), tables_of(written, "b", "1", "2")


PROVENANCE = ["convention", "embedder", "extractor", "input_hash", "versions", "weights"]


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("name", SETTINGS)
def test_the_command_writes_the_same_bytes_whatever_the_hash_seed_and_threads(twice, name):
    first, second = twice
    assert list(first[name]) == ["model_metrics.csv", "results.jsonl", "shifts.parquet", "turns.parquet"]
    assert second[name] == first[name]


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("name", SETTINGS)
def test_every_table_says_how_it_was_scored(twice, name):
    files = twice[0][name]
    for file in ("turns.parquet", "shifts.parquet"):
        frame = pd.read_parquet(io.BytesIO(files[file]))
        assert set(PROVENANCE) <= set(frame.columns)
        assert set(frame["convention"]) == {name}
    means = pd.read_csv(io.BytesIO(files["model_metrics.csv"]))
    assert means[PROVENANCE].notna().all(axis=None)
    record = json.loads(files["results.jsonl"].splitlines()[0])
    assert set(PROVENANCE) <= set(record)
    assert record["weights"]
    assert "dialogues" not in record["versions"]
    assert set(table(__file__, "result_keys")) <= set(record)


TEN = grounder()
HARBOUR, KITES, ORCHARD = "harbour-lights-1951", "paper-kites-1962", "cold-orchard-1962"


def user(text, wanted, *, asks=True, avoid=None, shift=False):
    log = {"constraints": wanted, "avoid": avoid or {}, "asks": asks, "shift_event": shift}
    return Turn("USER", text, {"user_meta": log})


def system(text, *ids):
    return Turn("SYSTEM", text, {"rec_ids": list(ids), "rec_titles": []})


def on_paper(*turns, events=(), **settings):
    """The scores of a session of these turns about the ten films."""
    convention = conventions.Convention(**settings)
    (scores,) = score_all([Dialogue("00000", "hand", turns, shift_events=events)], TEN, convention)
    return scores


def first_turn(*turns):
    return on_paper(*turns).turns[0]


def column(name, scores):
    return [row[name] for row in scores.turns]


OLD = {"genre": "Drama", "actor": "Ada Quill"}
NEW = {"genre": "Comedy", "actor": "Ada Quill"}
DRAMA = {"genre": "Drama"}
COMEDY = {"genre": "Comedy"}
TALK = (
    user("I'd like drama films with Ada Quill", OLD),
    system("How about Harbour Lights (1951)?", HARBOUR),
    user("Instead of drama films I'd like comedy films", NEW, shift=True),
    system("Harbour Lights, a drama, or Paper Kites, a comedy.", HARBOUR, KITES),
    user("More like that, please", NEW),
    system("See Cold Orchard.", ORCHARD),
)
EVENT = {"turn": 2, "type": "replace"}


@pytest.fixture(scope="module")
def talk():
    """The scores of three turns with a change at the second."""
    return on_paper(*TALK, events=(EVENT,))


def approx(value):
    return pytest.approx(value, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(("name", "values"), table(__file__, "text_scores") + table(__file__, "item_scores"))
def test_scores_turn_by_turn(talk, name, values):
    defined = [math.nan if value is None else value for value in column(name, talk)]
    assert defined == approx(values)


@pytest.mark.parametrize(("name", "values"), table(__file__, "concepts"))
def test_concepts_turn_by_turn(talk, name, values):
    assert column(name, talk) == values


def test_silence_that_agrees_with_silence_counts_one():
    scores = on_paper(*TALK, events=(EVENT,), empty="one")
    assert column("cross_coherence", scores) == [0, 1, 1]
    assert column("context_retention", scores) == approx([0, 1, 0])
    assert column("topic_adaptation_score", scores) == approx([0, 2, 1])


def test_silence_that_agrees_with_nothing_counts_zero():
    assert on_paper(*TALK, empty="zero").session["cross_coherence"] == approx(1 / 3)


def test_satisfaction_beyond_chance_and_item_tas_turn_by_turn(talk):
    # of the nine films that can be recommended 5 are dramas, 4 comedies, 3 with Ada Quill
    chance = (4 / 9 + 3 / 9) / 2
    second = (3 / 4 - chance) / (1 - chance)
    third = -chance / (1 - chance)
    assert column("satisfaction_corrected", talk) == approx([1, second, third])
    item = [0.6 + 0.4, 0.6 * second + 0.4 * (1 / 2) * (3 / 4), 0.6 * third - 0.25]
    assert column("item_tas", talk) == approx(item)


def test_chance_by_popularity(talk):
    popularity = TEN.catalog.popularity[:9]
    drama = popularity[[0, 1, 2, 4, 5]].sum() / popularity.sum()
    ada = popularity[[0, 1, 3]].sum() / popularity.sum()
    chance = (drama + ada) / 2
    assert talk.turns[0]["satisfaction_popular"] == approx(1)
    one_of_two = first_turn(user("x", OLD), system("x", ORCHARD))
    assert one_of_two["satisfaction_popular"] == approx((0.5 - chance) / (1 - chance))


@pytest.mark.parametrize(("name", "value"), table(__file__, "session_scores"))
def test_the_session_is_the_mean_of_what_is_defined(talk, name, value):
    assert talk.session[name] == approx(value)


def test_a_session_counts_turns_shifts_and_concepts(talk):
    assert talk.session["judge"] == {"proactiveness": None, "coherence": None, "personalization": None}
    detail = talk.session["detail"]
    assert detail["n_turns"] == 3
    assert detail["n_shifts"] == 1
    assert detail["n_both_empty_turns"] == 1
    assert detail["missing_concepts"] == 2
    assert detail["hallucinated_concepts"] == 1
    assert detail["defined_turns"]["cross_coherence"] == 2
    assert detail["defined_turns"]["satisfaction"] == 3


def test_a_shift_has_a_row(talk):
    (row,) = talk.shifts
    assert row["model"] == "hand"
    assert row["session_id"] == "00000"
    assert row["turn"] == 2
    assert row["type"] == "replace"
    assert row["watched"] == 2
    assert row["delay_item"] == 0
    assert row["recovered_item"] is True
    assert row["delay_text"] == 0
    assert row["recovered_text"] is True


UNASKED = user("Well", OLD, asks=False)


def test_silence_satisfies_nothing_where_films_are_asked_for():
    scores = on_paper(user("I'd like drama films", OLD), system("Noted."), UNASKED, system("Yes."))
    assert column("satisfaction", scores) == approx([0, math.nan])
    assert column("novelty", scores) == approx([math.nan, math.nan])
    assert column("item_tas", scores) == approx([0.6 * -(4 / 9) / (5 / 9), math.nan])


def test_what_is_offered_counts_also_where_it_is_not_asked_for():
    assert first_turn(UNASKED, system("x", HARBOUR))["satisfaction"] == 1


def test_constraints_that_the_catalogue_lacks_are_left_out():
    row = first_turn(user("x", {"genre": "Drama", "actor": "Nobody", "mood": "dark"}), system("x", ORCHARD))
    assert row["n_wishes"] == 1
    assert row["satisfaction"] == 1


def test_an_empty_reply_scores_zero():
    row = first_turn(user("drama films", DRAMA), system(""))
    assert row["cross_coherence"] == 0
    assert row["topic_interference"] == 0
    assert row["satisfaction"] == 0


def test_a_log_without_constraints_is_scored_by_the_words():
    scores = on_paper(Turn("USER", "a drama"), Turn("SYSTEM", "a drama, yes"))
    (row,) = scores.turns
    assert row["cross_coherence"] == 1
    assert row["slot_f1"] == 1
    assert math.isnan(row["satisfaction"])
    assert scores.shifts == []
    assert math.isnan(scores.session["topic_recovery_rate"])


STUCK = (
    *TALK[:2],
    user("not films with Ada Quill", COMEDY, avoid={"actor": "Ada Quill"}, shift=True),
    system("Paper Kites", KITES),
)


def test_a_film_with_a_retracted_value_is_no_recovery():
    assert on_paper(*STUCK).session["item_recovery_rate"] == 0
    # turn 2: Paper Kites is a comedy with Ada Quill; turn 3, where nothing is to be avoided, is one without
    scores = on_paper(*STUCK, user("x", COMEDY), system("x", "lantern-street-1999"))
    assert scores.shifts[0]["delay_item"] == 1
    assert scores.shifts[0]["recovered_item"] is True
    assert scores.turns[1]["satisfaction"] == 1  # a constraint is met all the same


def test_a_constraint_that_is_in_force_again_does_not_leak():
    """At the end drama is in force again, and what is dropped by then (comedy) the film does not have."""
    reply = system("x", ORCHARD)
    turns = [user("drama films", DRAMA), reply, user("comedy films", COMEDY, shift=True), reply]
    turns += [user("drama films", DRAMA, shift=True), reply]
    assert column("topic_interference_leakage", on_paper(*turns)) == approx([math.nan, 1, 0])


@pytest.mark.parametrize(("text", "log", "n_items"), [
    ("Paper Kites", {"rec_ids": [ORCHARD, "nowhere"], "rec_titles": ["Her"]}, 1),
    ("Paper Kites", {"rec_titles": ["cold orchard", "Unknown"]}, 1),
    ("Paper Kites or Cold Orchard", {}, 2),
    ("x", {"rec_titles": None}, 0),
])  # fmt: skip
def test_recommended_items_come_from_ids_then_titles_then_the_text(text, log, n_items):
    assert first_turn(user("x", DRAMA), Turn("SYSTEM", text, log))["n_items"] == n_items


def test_copying_leaves_the_values_out_and_interference_does_not():
    row = first_turn(
        user("films with Ada Quill", {"actor": "Ada Quill"}), system("Fine films with Ada Quill", HARBOUR)
    )
    # 3-grams of the reply: 2 of 3 are the user's, 4-grams 1 of 2; without the name "fine films with" is left
    assert row["topic_interference"] == 2 / 3
    assert row["copying"] == 0


@pytest.fixture
def late():
    """A change and four replies, of which the last meets it: delay 3."""
    war = {"genre": "War"}
    turns = [user("war films", war, shift=True), system("x", ORCHARD)]
    for film in (ORCHARD, ORCHARD, "iron-valley-1988"):
        turns += [user("x", war), system("x", film)]
    return turns


def test_a_recovery_window_counts_replies(late):
    row = on_paper(*late).shifts[0]
    assert row["delay_item"] == 3
    assert row["recovered_item"] is False
    assert row["watched"] == 4
    assert on_paper(*late, window=4).shifts[0]["recovered_item"] is True


def test_a_shift_is_watched_until_the_next(late):
    late[4] = user("x", {"genre": "War"}, shift=True)
    first, second = on_paper(*late).shifts
    assert first["watched"] == 2
    assert second["watched"] == 2
    assert on_paper(*late, window=4, within_segment=False).shifts[0]["recovered_item"] is True


GROUNDED = conventions.get("thesis_grounded")


def test_a_changed_setting_stands_in_the_name():
    convention = conventions.derived(GROUNDED, {"gamma": 0.5, "alpha": 1, "window": 3})
    assert convention.name == "thesis_grounded(gamma=0.5)"
    assert convention.tas.gamma == 0.5
    assert convention.tas.alpha == 1
    assert convention.window == 3
    default = conventions.get("default")
    assert conventions.derived(default, {}) == default


def test_changed_settings_add_up():
    convention = conventions.derived(conventions.get("thesis_grounded(gamma=0.5)"), {"window": 5})
    assert convention.name == "thesis_grounded(gamma=0.5, window=5)"
    assert conventions.derived(convention, {"gamma": 1.0}).name == "thesis_grounded(window=5)"


def test_a_setting_out_of_range_in_a_name_is_refused():
    refused("recovery_cc is 3", conventions.get, "thesis_grounded(recovery_cc=3)")
    refused("expected a finite number", conventions.get, "thesis_grounded(gamma=nan)")


def test_a_convention_is_led_by_its_own_score():
    tas = "topic_adaptation_score"
    cas = "context_adaptation_score"
    assert layout.outcomes("thesis_grounded(gamma=0.5)")[0] == tas
    assert layout.outcomes("thesis_legacy")[0] == cas
    assert layout.outcomes("default")[0] not in (tas, cas)
    assert layout.shown("thesis_legacy", "metric_bars", ["cross_coherence"]) == ["cross_coherence"]


VALUES = {
    "window": st.integers(1, 50),
    "extractor": st.sampled_from(["words", "fuzzy"]),
    "similarity": st.sampled_from(["tfidf", "minilm"]),
    "topics": st.sampled_from(["lda", "heuristic"]),
}
SHARES = ("recovery_cc", "recovery_cr", "alignment", "shift_similarity", "shift_jaccard")


def values(knob):
    """What a setting may be."""
    if knob in SHARES:
        return st.floats(0, 1)
    return VALUES.get(knob, st.floats(0, 10, allow_nan=False))


@given(name=st.sampled_from(conventions.CONVENTIONS.names()), data=st.data())
@pytest.mark.slow
def test_every_derived_name_parses_back(name, data):
    knobs = st.sampled_from(sorted(conventions.knobs_of(name)))
    settings = {}
    for knob in sorted(data.draw(st.sets(knobs))):
        settings[knob] = data.draw(values(knob))
    convention = conventions.derived(conventions.get(name), settings)
    assert conventions.get(convention.name) == convention
    assert conventions.base_of(convention.name) == name
