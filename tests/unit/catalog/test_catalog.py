"""The catalogue of ten films: every query answered on paper first."""

import contextlib
import json
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib import simulate
from crs_lib.catalog import fields, lexicon, readers, sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, PERSON_FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.text import fold, words
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.report import tables as views
from crs_lib.systems.base import World
from tests.helpers import refused
from tests.helpers.films import RECORDS, TITLES, catalog
from tests.helpers.sample import SAMPLE

TEN = catalog()
RAW = json.loads((paths.samples() / "movies.json").read_text(encoding="utf-8"))
KEYS = {"name", "year", "genre", "actor", "director", "writer", "language", "plot", "plot_keywords"}
LANGUAGES = {
    "Amharic", "Arabic", "Bambara", "Bengali", "Bosnian", "Cantonese", "Czech", "Danish", "Dutch", "English", "Finnish", "French",
    "German", "Greek", "Hebrew", "Hindi", "Hokkien", "Hungarian", "Icelandic", "Indonesian", "Italian", "Japanese", "Korean",
    "Malayalam", "Mandarin", "Mixtec", "Norwegian", "Persian", "Polish", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish",
    "Tamasheq", "Tamil", "Telugu", "Thai", "Turkish", "Vietnamese", "Wayuu", "Wolof",
}  # fmt: skip
PLAIN, WITH = sources.load(), sources.load("sample+plot")
WORLD = World(WITH, Grounder(WITH))


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
    ({"actor": "Nobody"}, []), ({"actor": ["Nobody", "Stig"]}, ["1947"]), ({"actor": ""}, TITLES[:9]),
    ({}, TITLES[:9]),
])  # fmt: skip
def test_exact_queries(constraints, expected):
    found = TEN.query(constraints)
    assert names(found) == expected and not found.dropped


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


def test_an_unknown_field_whatever_its_value_and_a_year_that_is_no_number_are_refused():
    for value in ("Drama", "", []):
        refused(r"unknown field 'genres'; did you mean 'genre'\?", TEN.query, {"genres": value})
    refused(r"no catalogue at 'sample\+plott'.*\+plot behind it", sources.load, "sample+plott")
    refused("year 'soon' is no number", TEN.query, {"year": "soon"})
    assert TEN.known_code("year", "soon") is None  # as a model may state it
    assert TEN.known_code("genre", "drama") == TEN.code("genre", "Drama") is not None
    refused("unknown field 'genres'", TEN.known_code, "genres", "drama")


def test_values_and_support():
    assert TEN.values("genre") == ["Comedy", "Drama", "War"]
    assert TEN.values("genre", 3) == ["Comedy", "Drama"] and TEN.values("genre", 99) == []
    asked = ("genre", "Drama"), ("actor", "ada  QUILL"), ("actor", "X Y")
    assert [TEN.support(*one) for one in asked] == [6, 3, 0]
    assert TEN.genres(5) == TEN.get_available_genres() == ["Comedy", "Drama"]
    assert TEN.get_attribute_values("language") == ["English", "French", "Polish", "Romanian"]
    assert TEN.get_attribute_values("name") == TEN.get_attribute_values("title") == sorted(set(TITLES))
    assert TEN.get_attribute_values("plot") == ["clerk", "falls", "memorial", "rain", "writes"]
    refused("unknown field 'rating'", TEN.values, "rating")


def test_popularity_facts_and_postings():
    # Harbour Lights: Ada Quill 3 − 1, Ben Orr 3 − 1, director Zoe Tarn 5 − 1, writer Zoe Tarn 1 − 1
    assert TEN.popularity[0] == 2 + 2 + 4 + 0
    assert TEN.popularity[9] == 4  # Mo Reed wrote five
    assert Catalog.from_records([("Alone", {"actor": ["A B"]})]).popularity.tolist() == [1]
    for code in range(len(TEN.vocabulary)):
        items = TEN.items_with(code)
        assert items.tolist() == [i for i in range(len(TEN)) if code in TEN.fact_sets[i]]
        assert TEN.document_frequency[code] == len(items) > 0
        named = TEN.vocabulary.field[code], TEN.vocabulary.value[code]
        assert (TEN.vocabulary.keys[code], code) == (fields.concept(*named), TEN.code(*named))


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
    def told(films, seed=1):
        return [film["name"] for film in films.recommend({"genre": "Drama"}, seed=seed)]

    assert told(TEN) == told(catalog()) and len({tuple(told(TEN, seed)) for seed in range(8)}) > 1
    assert TEN.recommend({"genre": "Drama", "year": "2050"})  # relaxed, never empty


def test_a_record_and_the_table_have_the_form_they_came_in():
    wanted = RECORDS["Paper Kites"] | {"name": "Paper Kites", "item_id": "paper-kites-1962"}
    assert TEN.record(1).items() >= wanted.items()
    frame = TEN.frame()
    many = [name for name, row in fields.FIELDS.items() if row.many]
    assert list(frame.columns) == ["item_id", "title", "year", *many, "plot"]
    assert frame.loc[3, "actor"] == ["Ada Quill", "Cy Hale"] and frame["year"].tolist()[:2] == [1951, 1962]


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
    assert views.example_constraints(bare) == [] and views.query_table(bare, []).empty
    assert str(bare.report).endswith("1 without actor and director (as all are, so all may be recommended)")


def test_the_frequent_and_the_rare_way_to_look_up_agree_also_in_another_process():
    records = ({"genre": [("War", "Drama")[i % 3 > 0]], "actor": [f"P{i % 97} Q"]} for i in range(400))
    films = Catalog.from_records((f"Film {i}", record) for i, record in enumerate(records))
    found = films.query({"actor": "P7 Q", "genre": "War"}).items
    assert found.tolist() == [i for i in range(400) if i % 97 == 7 and i % 3 == 0]
    assert found.dtype == np.int32
    assert TEN.code("genre", "comedy") is not None
    sent = pickle.loads(pickle.dumps(TEN))
    assert sent.query({"genre": "comedy"}).items.tolist() == TEN.query({"genre": "comedy"}).items.tolist()


@given(st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4), st.sets(st.integers(0, 11)))
def test_every_concept_is_met_or_taken_away(sets, left):
    names = [f"Person N{number}" for number in range(len(sets))]
    casts = [[name for name, one in zip(names, sets, strict=True) if i in one] for i in range(12)]
    films = Catalog.from_records((f"{i}", {"actor": c, "director": ["X Y"]}) for i, c in enumerate(casts))
    every = films._search([("actor", name) for name in names], relax=False).items
    assert every.tolist() == sorted(set.intersection(*sets))
    assert films.query({"actor": names}).items.tolist() == sorted(set.union(*sets))
    kept = films.without(np.array(sorted(left), np.int32), films.code("actor", names[0]))
    assert kept.tolist() == sorted(left - sets[0])
    assert len(films.query({}).items) == 12


def test_films_over_a_century_with_languages_genres_and_people():
    assert len(SAMPLE) == len(RAW) >= 600
    years = [item.year for item in SAMPLE.items]
    assert 1925 <= min(years) <= max(years) <= 2024
    decades = Counter(year // 10 * 10 for year in years)
    assert set(decades) == set(range(1920, 2030, 10)) and sum(n >= 20 for n in decades.values()) >= 9
    assert len(SAMPLE.values("language")) >= 20 and len(SAMPLE.genres(5)) >= 18
    casts = ({fold(v) for field in PERSON_FIELDS for v in item.values[field]} for item in SAMPLE.items)
    assert sum(n >= 3 for n in Counter(name for cast in casts for name in cast).values()) >= 150


def test_every_record_has_the_form_and_cleaning_has_nothing_to_do():
    for title, record in RAW.items():
        assert set(record) == KEYS and all(record.values()), title
        assert re.fullmatch(r"\d{4}", str(record["year"])), title
        for field in ("genre", "actor", "director", "writer", "language", "plot_keywords"):
            assert isinstance(record[field], list), title
            assert all(isinstance(value, str) and value == value.strip() for value in record[field]), title
            assert len(set(map(fold, record[field]))) == len(record[field]), title
    pairs = Counter((fold(record["name"]), str(record["year"])) for record in RAW.values())
    assert [pair for pair, n in pairs.items() if n > 1] == []
    report = SAMPLE.report
    assert report.table().empty
    assert (report.merged_films, report.low_information, dict(report.ignored_keys)) == ([], 0, {})
    assert set(SAMPLE.values("genre")) <= set(lexicon.spellings("genres"))
    assert set(SAMPLE.values("language")) <= LANGUAGES
    spoken = {fold(v) for v in SAMPLE.values("language")}
    genres = {fold(v) for v in SAMPLE.values("genre")}
    assert not spoken & genres
    for field in PERSON_FIELDS:
        assert not {fold(v) for v in SAMPLE.values(field)} & (spoken | genres)
    assert {name for name in FIELDS if SAMPLE.values(name)} == KEYS - {"name", "plot", "plot_keywords"}


def test_names_are_whole_and_plots_one_or_two_sentences_without_them():
    names, spelling = {v for item in SAMPLE.items for f in PERSON_FIELDS for v in item.values[f]}, {}
    for name in names:
        assert spelling.setdefault(fold(name), name) == name
        assert not re.search(r"[()#\d/;]", name)
    assert len([name for name in names if " " not in name]) <= 40
    assert max(Counter(item.plot for item in SAMPLE.items).values()) == 1
    for item in SAMPLE.items:
        text = re.sub(r"\b(Dr|Mr|Mrs|Ms|St|Jr|[A-Z])\.", r"\1", item.plot)
        sentences = [part for part in re.split(r"(?<=[.!?])[\"'”’)]?\s+(?=[A-Z\"“])", text) if part]
        assert 1 <= len(sentences) <= 2, (item.title, item.plot)
        assert item.plot[-1] in ".!?", item.title
        assert 5 <= len(words(item.plot)) <= 60, item.title
    for item in SAMPLE.items:
        told = f" {fold(item.plot)} "
        people = {fold(v) for field in PERSON_FIELDS for v in item.values[field]}
        assert not [name for name in people if " " in name and f" {name} " in told], item.title


def test_keywords_are_a_field_only_where_asked_for_shared_by_films_and_clean():
    assert list(PLAIN.fields) == list(FIELDS) and list(WITH.fields) == [*FIELDS, "plot"]
    assert PLAIN.values("plot") == []
    assert "plot_keywords" not in PLAIN.frame() and "plot_keywords" not in PLAIN.record(0)
    assert WITH.record(0) | {"plot_keywords": None} == PLAIN.record(0) | {"plot_keywords": None}
    assert all(item.values["plot"] for item in WITH.items)
    assert min(WITH.support("plot", value) for value in WITH.values("plot")) >= 3
    assert WITH.report.table("plot").empty
    found = WITH.query({"plot": "madness", "genre": "Thriller"}).items
    assert "Gaslight" in {WITH.items[i].title for i in found}


def test_another_catalogue_gets_the_words_that_tell_its_plots_apart(tmp_path):
    themes = {"lighthouse": "A keeper tends a lighthouse.", "circus": "A clown joins a circus with Bonzo."}
    films = {
        f"{word} {n}": {"year": "2000", "genre": ["Drama"], "actor": ["A B"], "plot": f"{plot} Also {n}."}
        for word, plot in themes.items()
        for n in range(4)
    } | {f"empty {n}": {"year": "2001", "genre": ["Drama"], "actor": ["A B"], "plot": ""} for n in range(40)}
    (tmp_path / "films.json").write_text(json.dumps(films))
    made = sources.load(f"{tmp_path / 'films.json'}+plot")
    assert set(made.items[0].values["plot"]) == {"keeper", "tends", "lighthouse"}
    assert made.items[-1].values["plot"] == ()
    assert "bonzo" not in made.values("plot")  # a name
    assert readers.telling_words([]) == []


def test_plot_words_are_found_whole_and_everyday_ones_where_a_plot_is_spoken_of():
    text = "a crime film about love, death, prison and a bank"
    assert WORLD.grounder.find_plot_keywords_in_text(text) == ["crime", "love", "death", "prison", "bank"]
    concepts = {"genre=crime", "plot=love", "plot=death", "plot=prison", "plot=banks"}
    assert WORLD.grounder.topic_set(text) == concepts
    assert Grounder(PLAIN).topic_set(text) == {"genre=crime"}
    about = "What is that about? I love it."
    for said in ("I'd love a comedy.", about, "Films about gloves and imprisonment"):
        assert not [key for key in WORLD.grounder.topic_set(said) if key.startswith("plot=")], said


def test_plot_constraints_are_simulated_voiced_tracked_and_scored():
    systems = ("tracker", "amnesiac", "oracle")
    config = simulate.SimulateConfig(catalog="sample+plot", systems=systems, n_turns=12)
    scorer = Scorer(WORLD.grounder, conventions.get("default"))
    moved, gains = 0, {}
    for name in config.systems:
        found = [simulate.session(WORLD, name, number, config) for number in range(12)]
        for dialogue in found:
            moved += sum(bool((event.get("added") or {}).get("plot")) for event in dialogue.shift_events)
            for pair in dialogue.pairs():
                wish = pair.user.user_meta["constraints"]
                if name == "tracker" and "plot" in wish and pair.user.user_meta["shift_event"]:
                    assert pair.system.meta["constraints"].get("plot") == wish["plot"]
        scored = scorer.score_many(found)
        gains[name] = sum(one.session["normalised_gain"] for one in scored) / len(scored)
    assert moved >= 6
    assert gains["oracle"] == pytest.approx(1) and gains["tracker"] > gains["amnesiac"] + 0.2
