"""The catalogue of ten films: every query answered on paper first."""

import contextlib
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import fields, sources
from crs_lib.catalog.catalog import Catalog, _common
from crs_lib.core.errors import InputError
from crs_lib.report import tables as views
from tests.helpers.films import RECORDS, TITLES, catalog

TEN = catalog()


def names(found):
    return [TITLES[i] for i in found.items]


@pytest.mark.parametrize(("constraints", "expected"), [
    ({"genre": "Comedy"}, ["Paper Kites", "The Tin Parrot", "Lantern Street", "Lantern Street"]),
    ({"genre": "comedies", "actor": "ada quill"}, ["Paper Kites", "The Tin Parrot"]),
    ({"genre": ["War", "Comedy"], "actor": "Cy Hale"}, ["The Tin Parrot", "Iron Valley", "Lantern Street"]),
    ({"year": "1962", "language": "French Language"}, ["Paper Kites", "Cold Orchard"]),
    ({"year": 1962, "director": "Zoe Tarn"}, ["Paper Kites"]),
    ({"year": [1962, "1988"], "genre": "Drama", "actor": "Ben Orr"}, ["Her"]),
    ({"writer": "Mo Reed", "genre": "Drama"}, ["Her", "Iron Valley"]),  # Only Pages is never recommended
    ({"actor": "Nobody"}, []),
    ({"actor": ["Nobody", "Stig"]}, ["1947"]),
    ({"actor": ""}, TITLES[:9]),
    ({}, TITLES[:9]),
])  # fmt: skip
def test_exact_queries(constraints, expected):
    found = TEN.query(constraints)
    assert names(found) == expected
    assert not found.dropped


def test_relaxation_gives_up_unknown_values_and_then_the_least_kept_field():
    wishes = {"genre": "Drama", "director": "Zoe Tarn", "language": "Polish", "year": "1951"}
    assert names(TEN.query(wishes)) == []
    found = TEN.query(wishes, relax=True)
    assert (names(found), found.dropped) == (["Her"], ("year",))
    wishes = {"genre": "Comedy", "actor": "Stig", "language": "French", "year": "1990"}
    found = TEN.query(wishes, relax=True)  # year, then language, then actor: comedies are left
    assert (names(found)[:1], found.dropped) == (["Paper Kites"], ("year", "language", "actor"))
    found = TEN.query({"genre": "Drama", "director": "Nobody", "year": "1951"}, relax=True)
    assert (names(found), found.dropped) == (["Harbour Lights"], ("director",))
    found = TEN.query({"genre": "Opera"}, relax=True)
    assert (len(found.items), found.dropped) == (9, ("genre",))
    study = ["year", "language", "writer", "actor", "director", "genre"]
    assert [name for name in fields.RELAXATION_ORDER if name in study] == study
    assert "fields.RELAXATION_ORDER" in Catalog.query.__doc__


@pytest.mark.parametrize("value", ["Drama", "", []])
def test_an_unknown_field_is_refused_whatever_its_value(value):
    with pytest.raises(InputError, match=r"unknown field 'genres'; did you mean 'genre'\?"):
        TEN.query({"genres": value})


def test_a_year_that_is_no_number_is_refused():
    with pytest.raises(InputError, match="year 'soon' is no number"):
        TEN.query({"year": "soon"})
    assert TEN.known_code("year", "soon") is None  # as a model may state it
    assert TEN.known_code("genre", "drama") == TEN.code("genre", "Drama") is not None
    with pytest.raises(InputError, match="unknown field 'genres'"):
        TEN.known_code("genres", "drama")


def test_values_and_support():
    assert TEN.values("genre") == ["Comedy", "Drama", "War"]
    assert TEN.values("genre", 3) == ["Comedy", "Drama"]
    assert TEN.values("genre", 99) == []
    assert (
        TEN.support("genre", "Drama"), TEN.support("actor", "ada  QUILL"), TEN.support("actor", "X Y"),
    ) == (6, 3, 0)  # fmt: skip
    assert TEN.genres(5) == TEN.get_available_genres() == ["Comedy", "Drama"]
    assert TEN.get_attribute_values("language") == ["English", "French", "Polish", "Romanian"]
    assert TEN.get_attribute_values("name") == TEN.get_attribute_values("title") == sorted(set(TITLES))
    assert TEN.get_attribute_values("plot") == ["clerk", "falls", "memorial", "rain", "writes"]
    with pytest.raises(InputError, match="unknown field 'rating'"):
        TEN.values("rating")


def test_popularity_facts_and_postings():
    # Harbour Lights: Ada Quill 3 − 1, Ben Orr 3 − 1, director Zoe Tarn 5 − 1, writer Zoe Tarn 1 − 1
    assert TEN.popularity[0] == 2 + 2 + 4 + 0
    assert TEN.popularity[9] == 4  # Mo Reed wrote five
    assert Catalog.from_records([("Alone", {"actor": ["A B"]})]).popularity.tolist() == [1]
    for code in range(len(TEN.vocabulary)):
        items = TEN.items_with(code)
        assert items.tolist() == [i for i in range(len(TEN)) if code in TEN.fact_sets[i]]
        assert TEN.document_frequency[code] == len(items) > 0
        field, value = TEN.vocabulary.field[code], TEN.vocabulary.value[code]
        assert TEN.vocabulary.keys[code] == fields.concept(field, value)
        assert TEN.code(TEN.vocabulary.field[code], TEN.vocabulary.value[code]) == code


@pytest.mark.parametrize("constraints", [{}, {"genre": "Drama"}, {"genre": "Drama", "year": "1962"}])
def test_an_answer_cannot_change_the_catalogue(constraints):
    first = TEN.query(constraints).items
    before = first.tolist()
    with contextlib.suppress(ValueError):
        first[:] = 0
    assert TEN.query(constraints).items.tolist() == before
    for array in (TEN.items_with(0), TEN.facts(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_recommend_is_deterministic_for_a_seed_and_clamps_its_limit():
    wishes = {"genre": "Drama"}
    first = [film["name"] for film in TEN.recommend(wishes, seed=1)]
    assert first == [film["name"] for film in catalog().recommend(wishes, seed=1)]
    assert sorted(first) == sorted(names(TEN.query(wishes)))
    orders = {tuple(f["name"] for f in TEN.recommend(wishes, seed=seed)) for seed in range(8)}
    assert len(orders) > 1
    assert len(TEN.recommend(wishes, limit=0)) == 1
    assert len(TEN.recommend({}, limit=99)) == 9
    assert TEN.recommend({"genre": "Drama", "year": "2050"})  # relaxed, never empty


def test_a_record_and_the_table_have_the_form_they_came_in():
    record = TEN.record(1)
    given = RECORDS["Paper Kites"]
    assert {key: record[key] for key in given} == given
    assert (record["name"], record["item_id"]) == ("Paper Kites", "paper-kites-1962")
    frame = TEN.frame()
    many = [name for name, row in fields.FIELDS.items() if row.many]
    assert list(frame.columns) == ["item_id", "title", "year", *many, "plot"]
    assert frame.loc[3, "actor"] == ["Ada Quill", "Cy Hale"]
    assert frame["year"].tolist()[:2] == [1951, 1962]


def test_a_saved_catalogue_reads_back_equal(tmp_path):
    path = tmp_path / "catalog.parquet"
    TEN.save(path)
    back = sources.load(path)
    assert [dataclasses.asdict(item) for item in back.items] == [
        dataclasses.asdict(item) for item in TEN.items
    ]
    assert sources.content_hash(back) == sources.content_hash(TEN)
    assert back.report.table().empty
    again = tmp_path / "again.parquet"
    back.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_who_may_be_recommended_and_which_genre_may_be_a_goal():
    books = Catalog.from_records([("One", {"writer": ["A B"]}), ("Two", {"writer": ["C D"]})])
    assert books.query({}).items.tolist() == [0, 1]
    records = [(f"Page {i}", {"genre": ["Drama"], "writer": ["A B"]}) for i in range(5)]
    records += [(f"Film {i}", {"genre": ["War"], "actor": ["C D"]}) for i in range(5)]
    both = Catalog.from_records(records)
    assert (both.genres(), both.goal_genres) == (["Drama", "War"], ("War",))


def test_wishes_to_try_leave_out_what_a_catalogue_lacks():
    """The ten films, then titles with a genre only, then titles only: notebook 01 runs on each."""
    constraints = views.example_constraints(catalog())
    assert constraints == [
        {"genre": "Comedy"}, {"actor": "Cy Hale"}, {**constraints[0], **constraints[1], "year": "1900"},
    ]  # fmt: skip
    genres = Catalog.from_records([("A", {"genre": ["Drama"]}), ("B", {"genre": ["War"]})], "genres")
    assert views.example_constraints(genres) == [{"genre": "Drama"}, {"genre": "Drama", "year": "1900"}]
    assert views.query_table(genres, views.example_constraints(genres))["exact answers"].tolist() == [1, 0]
    bare = Catalog.from_records([("A", {})], "titles")
    assert views.example_constraints(bare) == []
    assert views.query_table(bare, []).empty
    assert str(bare.report).endswith("1 without actor and director (as all are, so all may be recommended)")


def test_the_frequent_and_the_rare_way_to_look_up_agree():
    records = [
        (f"Film {i}", {"genre": ["Drama"] if i % 3 else ["War"], "actor": [f"P{i % 97} Q"]})
        for i in range(400)
    ]
    many = Catalog.from_records(records)
    found = many.query({"actor": "P7 Q", "genre": "War"}).items
    assert found.tolist() == [i for i in range(400) if i % 97 == 7 and i % 3 == 0]
    assert found.dtype == np.int32


SETS = st.lists(st.sets(st.integers(0, 11)), min_size=2, max_size=2)


def array(items):
    return np.array(sorted(items), dtype=np.int32)


@given(SETS)
def test_items_in_common_stand_in_both(sets):
    one, other = sets
    found = _common(array(one), array(other))
    assert (found.tolist(), found.dtype) == (sorted(one & other), np.int32)


@given(st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4), st.sets(st.integers(0, 11)))
def test_every_concept_is_met_or_taken_away(sets, left):
    names = [f"Person N{number}" for number in range(len(sets))]
    films = Catalog.from_records(
        (
            f"Film {i}",
            {"actor": [n for n, one in zip(names, sets, strict=True) if i in one], "director": ["X Y"]},
        )
        for i in range(12)
    )
    codes = [films.code("actor", name) for name in names]
    assert films.query_codes(codes).tolist() == sorted(set.intersection(*sets))
    assert films.query({"actor": names}).items.tolist() == sorted(set.union(*sets))
    assert films.without(array(left), codes[0]).tolist() == sorted(left - sets[0])
    assert len(films.query_codes([])) == 12


@pytest.mark.parametrize("several", [["War", "Comedy"], ("War", "Comedy")])
def test_an_answer_is_the_same_again_and_after_it_was_forgotten(several):
    ten, wishes = catalog(), {"genre": several, "actor": "Cy Hale", "year": 1911}
    first = ten.query(wishes, relax=True)
    assert len(first.items) and first.dropped == ("year",)
    assert ten.query(wishes, relax=True) is first
    ten.forget()
    again = ten.query(wishes, relax=True)
    assert again is not first
    assert (again.items.tolist(), again.dropped) == (first.items.tolist(), first.dropped)
    with pytest.raises(ValueError, match="read-only"):
        ten.query(wishes, relax=True).items[0] = 0


def test_a_catalogue_that_was_asked_can_be_sent_to_another_process():
    ten = catalog()
    wishes = {"genre": "War", "actor": ["Cy Hale", "Stig"]}
    first = ten.query(wishes, relax=True)
    there = pickle.loads(pickle.dumps(ten))
    assert there.query(wishes, relax=True).items.tolist() == first.items.tolist()
