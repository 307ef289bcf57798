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
def said(folder):
    """400 texts of the thesis's logs, a fixed draw."""
    paths_ = sorted(folder.glob("logs_*/*.jsonl.gz"))
    if not paths_:
        pytest.skip("the mirror has no thesis logs")
    talks = (talk for path in paths_ for talk in itertools.islice(logs.read(path), 3))
    texts = {turn.text for talk in talks for turn in talk.turns}
    return random.Random(5).sample(sorted(texts), min(400, len(texts)))


def test_the_report_names_what_was_dropped_merged_and_set_aside(films):
    dropped = films.report.table("genre", "dropped").set_index("from")
    for label in ("United Kingdom", "George W. Bush", "Fiction", "Film adaptation"):
        assert dropped.loc[label, "reason"] == "no genre"
        assert label not in films.values("genre")
    assert dropped.loc["United Kingdom", "films"] == 45
    assert 20 <= len(films.genres()) <= 50
    summary = films.report.summary().set_index("field")
    assert summary.loc["actor", "doublets"] >= 2761  # as counted on the raw file, before names were tidied
    assert summary.loc["language", "doublets"] > 0
    assert not [v for v in films.values("language") if v.endswith("anguage") and "Sign" not in v]
    merged = films.report.table("language", "merged").set_index("from")["to"]
    assert (merged["English Language"], merged["Standard Chinese"]) == ("English", "Mandarin")
    assert films.report.table("actor", "dropped")["from"].tolist() == ["nm1157013"]
    assert {fold(a) for a, _ in films.report.merged_films} == {"from dusk till dawn", "xxx", "megamind"}
    assert films.report.films_read == 2164
    assert films.report.low_information == 383 == int((~films.recommendable).sum())
    assert films.report.table("year", "dropped")["films"].sum() == 49


def test_no_match_in_the_thesis_logs_lies_inside_a_word(world, said):
    matches = 0
    for text in said:
        for match in world.grounder.audit(text):
            piece = text[match.start : match.end]
            assert words(text[: match.start]) + words(piece) + words(text[match.end :]) == words(text)
            matches += not match.rejected
    assert matches > 100
    assert world.grounder.ground(said) == [world.grounder.concepts(text) for text in said]
    fooled = "What kind of story could you discover? I'm interested, my preference is just more of that, whatever you like."
    assert world.grounder.topic_set(fooled) == set()
    assert world.grounder.titles(fooled) == []


def test_users_of_this_catalogue_are_satisfiable_and_voice_their_plan(films, world):
    for session in range(30):
        plan = planner.plan(films, 1, session, 20)
        user = User(films, plan)
        for step in plan.steps:
            assert step.n_answers > 0
            utterance = user.speak(step.turn)
            found = world.grounder.concepts(utterance.text)
            for wish in must_voice(step, utterance.act):
                assert films.code(*wish) in found, (utterance.text, wish)
