"""The thesis's own catalogue, where it is at hand: what cleaning reports, and that its users can be served."""

import itertools
import random

import pytest

from crs_lib import data as logs
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.text import fold, words
from crs_lib.simulate import planner
from crs_lib.simulate.users import User, must_voice
from crs_lib.systems.base import World

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def folder():
    mirror = paths.mirror()
    if mirror is None or not (mirror / "thesis" / "opendialkg_movie_data.json").exists():
        pytest.skip("CRS_MIRROR names no folder with thesis/opendialkg_movie_data.json")
    return mirror / "thesis"


@pytest.fixture(scope="module")
def films(folder):
    return sources.load(folder / "opendialkg_movie_data.json")


@pytest.fixture(scope="module")
def world(films):
    return World(films, Grounder(films))


@pytest.fixture(scope="module")
def texts(folder):
    """400 texts of the thesis's logs, a fixed draw."""
    texts = set()
    for path in sorted(folder.glob("logs_*/*.jsonl.gz")):
        for talk in itertools.islice(logs.read(path), 3):
            texts.update(turn.text for turn in talk.turns)
    if not texts:
        pytest.skip("the mirror has no thesis logs")
    return random.Random(5).sample(sorted(texts), min(400, len(texts)))


@pytest.mark.parametrize("label", ["United Kingdom", "George W. Bush", "Fiction", "Film adaptation"])
def test_a_label_that_is_no_genre_is_dropped_and_the_report_says_so(films, label):
    dropped = films.report.table("genre", "dropped").set_index("from")
    assert dropped.loc[label, "reason"] == "no genre"
    assert label not in films.values("genre")


def test_the_report_counts_what_was_dropped(films):
    genres = films.report.table("genre", "dropped").set_index("from")
    assert genres.loc["United Kingdom", "films"] == 45
    assert films.report.table("actor", "dropped")["from"].tolist() == ["nm1157013"]
    assert films.report.table("year", "dropped")["films"].sum() == 49
    assert 20 <= len(films.genres()) <= 50


def test_the_report_names_what_was_merged(films):
    merged = films.report.table("language", "merged").set_index("from")["to"]
    summary = films.report.summary().set_index("field")
    assert merged["English Language"] == "English"
    assert merged["Standard Chinese"] == "Mandarin"
    assert summary.loc["actor", "doublets"] >= 2761  # as counted on the raw file, before names were tidied
    assert summary.loc["language", "doublets"] > 0
    films_merged = {fold(title) for title, _ in films.report.merged_films}
    assert films_merged == {"from dusk till dawn", "xxx", "megamind"}


def test_no_language_is_left_with_the_word_language_but_those_of_signs(films):
    for language in films.values("language"):
        assert not language.endswith("anguage") or "Sign" in language


def test_films_of_which_little_is_told_are_set_aside(films):
    assert films.report.films_read == 2164
    assert films.report.low_information == 383
    assert (~films.recommendable).sum() == 383


def test_no_match_in_the_thesis_logs_lies_inside_a_word(world, texts):
    accepted = 0
    for text in texts:
        for match in world.grounder.audit(text):
            before = words(text[: match.start])
            after = words(text[match.end :])
            assert before + words(text[match.start : match.end]) + after == words(text)
            accepted += not match.rejected
    assert accepted > 100


def test_many_texts_at_once_are_each_text_alone(world, texts):
    assert world.grounder.ground(texts) == list(map(world.grounder.concepts, texts))


def test_everyday_words_name_no_concept_and_no_film(world):
    text = "What kind of story could you discover? I'm interested, my preference is just more of that, whatever you like."
    assert world.grounder.topic_set(text) == set()
    assert world.grounder.titles(text) == []


@pytest.mark.parametrize("session", range(30))
def test_users_of_this_catalogue_are_satisfiable_and_voice_their_plan(films, world, session):
    plan = planner.plan(films, 1, session, 20)
    user = User(films, plan)
    for step in plan.steps:
        utterance = user.speak(step.turn)
        concepts = world.grounder.concepts(utterance.text)
        assert step.n_answers > 0
        for field, value in must_voice(step, utterance.act):
            assert films.code(field, value) in concepts, utterance.text
