"""Replies from templates: films by name, and answers to what was asked."""

import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.rng import stream
from crs_lib.systems import replies
from tests.helpers.films import TITLES, catalog, grounder
from tests.helpers.wordings import every_text

TEN = grounder()
CATALOG = catalog()


def said(question, film="Paper Kites", i=0):
    return replies.answer(TEN, question, stream(i, "answer")).replace(film, "FILM")


@pytest.mark.parametrize(("question", "expected"), [
    ("Who is in Paper Kites?", {"Ada Quill"}), ("Remind me who plays in Paper Kites?", {"Ada Quill"}),
    ("Who directed Paper Kites?", {"Zoe Tarn"}), ("Who made Paper Kites?", {"Zoe Tarn"}),
    ("Paper Kites rings a bell. Who directed it?", {"Zoe Tarn"}),
    ("Who wrote Paper Kites?", {"Ivo Lund"}), ("Whose script is Paper Kites?", {"Ivo Lund"}),
    ("What tone does Paper Kites have?", {"drama", "comedy"}), ("When was Paper Kites made?", {"1962"}),
    ("How long ago was Paper Kites made?", {"1962"}), ("How old is Paper Kites?", {"1962"}),
    ("Is Paper Kites more gentle or more tense?", {"drama"}),
])  # fmt: skip
def test_a_question_gets_the_fact_it_asks_for(question, expected):
    facts = {"Ada Quill", "Zoe Tarn", "Ivo Lund", "drama", "comedy", "1962"}
    for i in range(5):
        answer = said(question, i=i)
        assert "FILM" in answer
        assert expected <= {fact for fact in facts if fact in answer} <= expected | {"drama", "comedy"}, (
            answer
        )


def test_every_question_that_a_user_can_ask_is_answered_by_its_kind():
    film = CATALOG.items[4]  # Her, which has a plot
    facts = {
        "question_cast": ["Ben Orr"], "question_maker": ["Zoe Tarn", "Mo Reed"], "question_plot": [film.plot],
        "question_mood": ["drama", "1988"],
    }  # fmt: skip
    for section, texts in every_text("fields", '"Her"').items():
        for i, text in enumerate(texts if section.split()[-1] in facts else []):
            answer = said(text, "Her", i)
            if section.endswith(" C") and "Her" not in text:  # "who is in it?" names no film to look up
                assert answer == "", text
                continue
            assert any(fact in answer for fact in facts[section.split()[-1]]), (section, text, answer)


@pytest.mark.parametrize(
    "text", ["I'd like drama films", "Who are you?", "Paper Kites, please", "More of those, please", "", "?"]
)
def test_what_is_no_question_about_a_film_gets_no_answer(text):
    assert said(text) == ""


def test_titles_ask_nothing_and_missing_facts_are_left_unsaid():
    films = Catalog.from_records(
        [("Who Wrote When", {"actor": ["Ana Bell"], "director": ["Cy Hale"], "writer": ["Mo Reed"]})]
    )
    answer = replies.answer(Grounder(films), 'Who directed "Who Wrote When"?', stream(0, "x"))
    assert "Cy Hale" in answer
    assert "Mo Reed" not in answer
    films = Catalog.from_records(
        [("Blank Page", {"actor": ["Ana Bell"]}), ("Bare Wall", {"director": ["Cy Hale"]})]
    )
    bare = Grounder(films)
    draw = stream(0, "x")
    assert "Cy Hale" in replies.answer(bare, "Who is in Bare Wall?", draw)
    assert replies.answer(bare, "What is Blank Page about?", draw) == ""
    assert replies.answer(bare, "Who directed Blank Page?", draw) == ""


def test_recommendations_name_their_films_and_no_others_and_say_when_nothing_is_found():
    for i in range(30):
        text = replies.recommend(CATALOG, [1, 5, 8], {"genre": "Drama"}, stream(i, "reply"))
        assert [m.item for m in TEN.titles(text, prefer=[8])] == [1, 5, 8], text
    films = Catalog.from_records([("Blank Page", {"actor": ["Ana Bell"]})])
    text = replies.recommend(films, [0], {}, stream(2, "reply"))
    assert "Blank Page" in text
    assert "None" not in text
    assert "()" not in text
    for i in range(20):
        said = replies.recommend(CATALOG, [], {"genre": "Drama"}, stream(i, "x"))
        assert any(cue in said for cue in ("nothing", "all I have", "no further", "run out"))


@pytest.mark.parametrize(("text", "more"), [
    ("More like that, please.", True), ("Which others would you add to these?", True), ("I'd like drama films.", True),
    ("If nothing else fits, what comes close?", True), ("Hmm, let me think.", False), ("", False),
])  # fmt: skip
def test_who_asks_for_more_is_heard(text, more):
    assert replies.wants_more(TEN, text) is more


def test_acknowledging_repeats_the_slots_and_names_no_film():
    for i in range(20):
        text = replies.acknowledge({"genre": "Drama", "actor": "Ada Quill"}, stream(i, "ack"))
        assert TEN.topic_set(text) == {"genre=drama", "actor=ada quill"}
        assert not [title for title in TITLES if title in text]
        assert TEN.topic_set(replies.acknowledge({}, stream(i, "ack"))) == set()
