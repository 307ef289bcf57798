"""Grounding in the catalogue of ten films: concepts, spans, reasons, vectors, titles."""

import math

import numpy as np
import pytest

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.errors import InputError
from tests.helpers.films import grounder

TEN = grounder()


@pytest.mark.parametrize(("text", "expected"), [
    ("A drama with ADA QUILL, in french", {"genre=drama", "actor=ada quill", "language=french"}),
    ("Zoë Tarn from 1988", {"director=zoe tarn", "writer=zoe tarn", "year=1988"}),
    ("comedies", {"genre=comedy"}),
    ("dramatically adaquill frenchman 19881", set()),
    ("a war film", {"genre=war"}),
    ("the war was long", set()),
    ("with Stig, please", {"actor=stig"}),
    ("a stig of straw", set()),
    ("polish the silver", set()),
    ("in Polish", {"language=polish"}),
    ("Ron drank rum as per habit, nor did Dan", set()),
    ("", set()),
    ("?!", set()),
])  # fmt: skip
def test_concepts_of_a_text(text, expected):
    assert TEN.topic_set(text) == expected
    assert TEN.keys(TEN.concepts(text)) == sorted(expected)


def test_names_within_names_and_ends_of_texts():
    nested = Grounder(
        Catalog.from_records([("A", {"actor": ["Ian Brook"]}), ("B", {"actor": ["Ian Brook Hale"]})])
    )
    text = "with Ian Brook Hale"
    assert nested.topic_set(text) == {"actor=ian brook", "actor=ian brook hale"}
    assert [text[m.start : m.end] for m in nested.audit(text)] == ["Ian Brook", "Ian Brook Hale"]
    assert nested.find_attribute_in_text("actor", text) == "Ian Brook Hale"
    found = TEN.ground(["a drama with Ada", "Quill in French", "", "Zoe\nTarn"])
    assert [TEN.keys(codes) for codes in found] == [
        ["genre=drama"], ["language=french"], [], ["director=zoe tarn", "writer=zoe tarn"],
    ]  # fmt: skip
    bare = Grounder(Catalog.from_records([("Alpha", {})]))
    assert bare.concepts("Alpha with anybody") == frozenset()
    assert bare.idf.shape == (0,)


def test_the_audit_shows_what_matched_where_and_why_not():
    text = "After the war, a French comedy with Stig?"
    assert TEN.audit_table(text).to_numpy().tolist() == [
        ["war", "genre", "War", 10, 13, "everyday word without a film word beside it"],
        ["French", "language", "French", 17, 23, "matched"],
        ["comedy", "genre", "Comedy", 24, 30, "matched"],
        ["Stig", "actor", "Stig", 36, 40, "matched"],
    ]
    assert TEN.audit_table("").empty


def test_idf_and_vectors_are_those_of_the_formula():
    # N = 10 films; drama occurs in 6, Stig in 1
    idf = TEN.idf
    assert idf[TEN.catalog.code("genre", "Drama")] == pytest.approx(math.log(11 / 7) + 1, abs=1e-15)
    assert idf[TEN.catalog.code("actor", "Stig")] == pytest.approx(math.log(11 / 2) + 1, abs=1e-15)
    assert idf.min() >= 1
    vector = TEN.attribute_vector("a French drama, a drama")
    named = {TEN.catalog.code("genre", "Drama"), TEN.catalog.code("language", "French")}
    assert set(np.flatnonzero(vector).tolist()) == named
    assert all(vector[code] == TEN.idf[code] for code in named)
    only = TEN.attribute_vector("a French drama", active_fields=["language"])
    assert set(np.flatnonzero(only).tolist()) == {TEN.catalog.code("language", "French")}
    assert not TEN.attribute_vector("").any()
    with pytest.raises(InputError, match="unknown field 'lang'"):
        TEN.attribute_vector("x", active_fields=["lang"])


def test_active_fields_restrict_what_is_found():
    people = grounder(active_fields=["actor", "director"])
    assert people.topic_set("a French drama with Ada Quill by Zoe Tarn") == {
        "actor=ada quill",
        "director=zoe tarn",
    }
    with pytest.raises(InputError, match="unknown field 'people'"):
        grounder(active_fields=["people"])


def test_the_words_of_plots_are_found_in_the_order_of_the_text():
    said = "Rain falls on the Memorial; a clerk writes"
    assert TEN.find_plot_keywords_in_text(said, 2) == ["rain", "falls"]
    assert TEN.find_plot_keywords_in_text(said)[:3] == ["rain", "falls", "memorial"]


def test_find_attribute_returns_the_longest_then_the_first():
    assert TEN.find_attribute_in_text("genre", "comedy, then drama") == "Comedy"
    assert TEN.find_attribute_in_text("actor", "nobody") is None
    assert TEN.find_attribute_in_text("title", "I saw Paper Kites") == "Paper Kites"
    assert TEN.find_attribute_in_text("name", "nothing") is None


def titles(text, **options):
    return [(text[m.start : m.end], m.item, m.n_same_title) for m in TEN.titles(text, **options)]


def test_titles_are_resolved_to_films_by_year_candidates_and_length():
    assert titles("Paper Kites and Iron Valley") == [("Paper Kites", 1, 1), ("Iron Valley", 5, 1)]
    assert titles("I gave her a kite") == []
    assert titles('"Her", of course') == [("Her", 4, 1)]
    assert titles("Lantern Street") == [("Lantern Street", 7, 2)]
    assert titles("Lantern Street (2015)") == [("Lantern Street", 8, 2)]
    assert titles("Lantern Street", prefer=[8]) == [("Lantern Street", 8, 2)]
    assert titles("Lantern Street (1999)", prefer=[8]) == [("Lantern Street", 7, 2)]
    assert titles("Lantern Street (1900)", prefer=[8]) == [("Lantern Street", 8, 2)]
    films = Catalog.from_records([("Kites", {}), ("Paper Kites", {}), ("Kites Fly Home", {})])
    found = Grounder(films).titles("see Paper Kites Fly Home")
    assert [films.items[m.item].title for m in found] == ["Kites Fly Home"]


def test_annotate_marks_spans_for_display_and_leaves_the_text():
    talk = Dialogue("0", "echo", (Turn("USER", "a French drama"), Turn("SYSTEM", "Paper Kites?")))
    marked = TEN.annotate(talk)
    assert [[(m.field, turn.text[m.start : m.end]) for m in turn.marks] for turn in marked.turns] == [
        [("language", "French"), ("genre", "drama")],
        [("title", "Paper Kites")],
    ]
    assert marked.to_json() == talk.to_json()
    assert "Paper Kites" in marked._repr_html_()
