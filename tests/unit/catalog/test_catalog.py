"""The catalogue of ten films: every query answered on paper first; the sample and its plots."""

import contextlib
import itertools
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
from tests.helpers import refused, table
from tests.helpers.films import RECORDS, TITLES, catalog
from tests.helpers.sample import SAMPLE

TEN = catalog()
RAW = json.loads((paths.samples() / "movies.json").read_text(encoding="utf-8"))
LISTS = ("genre", "actor", "director", "writer", "language", "plot_keywords")
PLAIN = sources.load()
WITH = sources.load("sample+plot")
WORLD = World(WITH, Grounder(WITH))


def titles(answer):
    return [TITLES[item] for item in answer.items]


def bearing(*values, field="genre"):
    """A catalogue of a film a value."""
    return Catalog.from_records((f"Film {number}", {field: [value]}) for number, value in enumerate(values))


@pytest.mark.parametrize(("constraints", "films"), table(__file__, "queries"))
def test_exact_queries(constraints, films):
    answer = TEN.query(json.loads(constraints))
    assert titles(answer) == films
    assert answer.dropped == ()


@pytest.mark.parametrize("constraints", [{}, {"actor": ""}])
def test_who_wants_nothing_gets_all(constraints):
    assert titles(TEN.query(constraints)) == TITLES[:9]


@pytest.mark.parametrize(("constraints", "first", "dropped"), table(__file__, "relaxed"))
def test_relaxation_gives_up_unknown_values_and_then_the_least_kept_field(constraints, first, dropped):
    answer = TEN.query(json.loads(constraints), relax=True)
    assert titles(answer)[0] == first
    assert answer.dropped == tuple(dropped)
    assert titles(TEN.query(json.loads(constraints))) == []


def test_the_order_of_relaxation_is_that_of_the_study():
    study = ["year", "language", "writer", "actor", "director", "genre"]
    assert [name for name in fields.RELAXATION_ORDER if name in study] == study
    assert "fields.RELAXATION_ORDER" in Catalog.query.__doc__


@pytest.mark.parametrize("value", ["Drama", "", []])
def test_an_unknown_field_is_refused_whatever_its_value(value):
    refused(r"unknown field 'genres'; did you mean 'genre'\?", TEN.query, {"genres": value})


def test_what_cannot_be_a_value_is_refused_of_users_and_none_of_models():
    refused("year 'soon' is no number", TEN.query, {"year": "soon"})
    assert TEN.known_code("year", "soon") is None  # as a model may state it
    assert TEN.known_code("genre", "drama") == TEN.code("genre", "Drama")
    assert TEN.code("genre", "Drama") is not None
    refused("unknown field 'genres'", TEN.known_code, "genres", "drama")


def test_an_unknown_wish_behind_a_source_makes_it_a_file():
    refused(r"no catalogue at 'sample\+plott'.*\+plot behind it", sources.load, "sample+plott")


def test_values_and_support():
    assert TEN.values("genre") == ["Comedy", "Drama", "War"]
    assert TEN.values("genre", 3) == ["Comedy", "Drama"]
    assert TEN.values("genre", 99) == []
    assert TEN.support("genre", "Drama") == 6
    assert TEN.support("actor", "ada  QUILL") == 3
    assert TEN.support("actor", "X Y") == 0
    refused("unknown field 'rating'", TEN.values, "rating")


def test_the_thesiss_names_of_queries():
    assert TEN.genres(5) == ["Comedy", "Drama"]
    assert TEN.get_available_genres() == ["Comedy", "Drama"]
    assert TEN.get_attribute_values("language") == ["English", "French", "Polish", "Romanian"]
    assert TEN.get_attribute_values("name") == sorted(set(TITLES))
    assert TEN.get_attribute_values("title") == sorted(set(TITLES))
    assert TEN.get_attribute_values("plot") == ["clerk", "falls", "memorial", "rain", "writes"]


def test_popularity():
    # Harbour Lights: Ada Quill 3 − 1, Ben Orr 3 − 1, director Zoe Tarn 5 − 1, writer Zoe Tarn 1 − 1
    assert TEN.popularity[0] == 2 + 2 + 4 + 0
    assert TEN.popularity[9] == 4  # Mo Reed wrote five
    assert bearing("A B", field="actor").popularity.tolist() == [1]


@pytest.mark.parametrize("code", range(len(TEN.vocabulary)))
def test_facts_and_postings_agree(code):
    items = [item for item in range(len(TEN)) if code in TEN.fact_sets[item]]
    assert items
    assert TEN.items_with(code).tolist() == items
    assert TEN.document_frequency[code] == len(items)
    field = TEN.vocabulary.field[code]
    value = TEN.vocabulary.value[code]
    assert TEN.vocabulary.keys[code] == fields.concept(field, value)
    assert TEN.code(field, value) == code


@pytest.mark.parametrize("constraints", [{}, {"genre": "Drama"}, {"genre": "Drama", "year": "1962"}])
def test_an_answer_cannot_change_the_catalogue(constraints):
    first = TEN.query(constraints).items
    before = first.tolist()
    with contextlib.suppress(ValueError):
        first[:] = 0
    assert TEN.query(constraints).items.tolist() == before


@pytest.mark.parametrize("array", [TEN.items_with(0), TEN.facts(0)])
def test_postings_and_facts_are_read_only(array):
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def dramas(films, seed):
    """The names of the dramas that a catalogue recommends."""
    return [film["name"] for film in films.recommend({"genre": "Drama"}, seed=seed)]


def test_recommend_is_deterministic_for_a_seed():
    assert dramas(TEN, 1) == dramas(catalog(), 1)
    assert dramas(TEN, 1) != dramas(TEN, 2)


def test_recommend_relaxes_and_is_never_empty():
    assert TEN.recommend({"genre": "Drama", "year": "2050"})


def test_a_record_and_the_table_have_the_form_they_came_in():
    wanted = {**RECORDS["Paper Kites"], "name": "Paper Kites", "item_id": "paper-kites-1962"}
    assert TEN.record(1).items() >= wanted.items()
    frame = TEN.frame()
    many = [name for name, row in fields.FIELDS.items() if row.many]
    assert list(frame.columns) == ["item_id", "title", "year", *many, "plot"]
    assert frame.loc[3, "actor"] == ["Ada Quill", "Cy Hale"]
    assert frame["year"].tolist()[:2] == [1951, 1962]


def test_where_nobody_acts_all_may_be_recommended():
    assert bearing("A B", "C D", field="writer").query({}).items.tolist() == [0, 1]


def test_a_genre_of_which_no_film_can_be_recommended_is_no_goal():
    records = []
    for number in range(5):
        records.append((f"Page {number}", {"genre": ["Drama"], "writer": ["A B"]}))
        records.append((f"Film {number}", {"genre": ["War"], "actor": ["C D"]}))
    films = Catalog.from_records(records)
    assert films.genres() == ["Drama", "War"]
    assert films.goal_genres == ("War",)


def test_wishes_to_try():
    comedy, actor, both = views.example_constraints(catalog())
    assert comedy == {"genre": "Comedy"}
    assert actor == {"actor": "Cy Hale"}
    assert both == {"genre": "Comedy", "actor": "Cy Hale", "year": "1900"}


def test_wishes_to_try_leave_out_what_a_catalogue_lacks():
    genres = bearing("Drama", "War")
    wishes = views.example_constraints(genres)
    assert wishes == [{"genre": "Drama"}, {"genre": "Drama", "year": "1900"}]
    assert views.query_table(genres, wishes)["exact answers"].tolist() == [1, 0]


def test_titles_alone_are_a_catalogue_without_wishes():
    bare = Catalog.from_records([("A", {})], "titles")
    assert views.example_constraints(bare) == []
    assert views.query_table(bare, []).empty
    assert str(bare.report).endswith("1 without actor and director (as all are, so all may be recommended)")


def test_the_frequent_and_the_rare_way_to_look_up_agree():
    records = []
    for number in range(400):
        genre = "Drama" if number % 3 else "War"
        records.append((f"Film {number}", {"genre": [genre], "actor": [f"P{number % 97} Q"]}))
    items = Catalog.from_records(records).query({"actor": "P7 Q", "genre": "War"}).items
    assert items.tolist() == [number for number in range(7, 400, 97) if number % 3 == 0]
    assert items.dtype == np.int32


def test_a_catalogue_answers_in_another_process():
    assert TEN.code("genre", "comedy") is not None
    sent = pickle.loads(pickle.dumps(TEN))
    assert titles(sent.query({"genre": "comedy"})) == titles(TEN.query({"genre": "comedy"}))


@given(st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4), st.sets(st.integers(0, 11)))
def test_every_concept_is_met_or_taken_away(casts, items):
    """``casts``: the films, among twelve, that each of some people plays in, writes and directs."""
    people = {f"Person N{number}": cast for number, cast in enumerate(casts)}
    films = []
    for number in range(12):
        names = [name for name, cast in people.items() if number in cast] or ["X Y"]
        films.append((f"{number}", {"actor": names, "writer": names, "director": names}))
    twelve = Catalog.from_records(films)
    wishes = dict(zip(("actor", "writer", "director"), people, strict=False))
    assert twelve.query(wishes).items.tolist() == sorted(set.intersection(*casts[:3]))
    assert twelve.query({"actor": list(people)}).items.tolist() == sorted(set.union(*casts))
    others = twelve.without(np.array(sorted(items), np.int32), twelve.code("actor", "Person N0"))
    assert others.tolist() == sorted(items - casts[0])
    assert len(twelve.query({}).items) == 12


def people_of(item):
    """The folded names of everybody who took part in a film."""
    names = set()
    for field in PERSON_FIELDS:
        names.update(map(fold, item.values[field]))
    return names


def test_films_over_a_century():
    assert len(SAMPLE) == len(RAW)
    assert len(SAMPLE) >= 600
    years = [item.year for item in SAMPLE.items]
    assert min(years) >= 1925
    assert max(years) <= 2024
    decades = Counter(year // 10 * 10 for year in years)
    assert sorted(decades) == list(range(1920, 2030, 10))
    assert sum(films >= 20 for films in decades.values()) >= 9


def test_languages_genres_and_people_in_several_films():
    assert len(SAMPLE.values("language")) >= 20
    assert len(SAMPLE.genres(5)) >= 18
    films = Counter()
    for item in SAMPLE.items:
        films.update(people_of(item))
    assert sum(times >= 3 for times in films.values()) >= 150


def test_every_record_has_the_form():
    for title, record in RAW.items():
        assert set(record) == {"name", "year", "plot", *LISTS}, title
        assert all(record.values()), title
        assert re.fullmatch(r"\d{4}", str(record["year"])), title
        for field in LISTS:
            values = record[field]
            assert isinstance(values, list), title
            assert list(map(str.strip, values)) == values, title
            assert len(set(map(fold, values))) == len(values), title


def test_cleaning_has_nothing_to_do():
    films = Counter((fold(record["name"]), str(record["year"])) for record in RAW.values())
    assert max(films.values()) == 1
    report = SAMPLE.report
    assert report.table().empty
    assert report.merged_films == []
    assert report.low_information == 0
    assert not report.ignored_keys
    assert set(SAMPLE.values("genre")) <= set(lexicon.spellings("genres"))
    assert set(SAMPLE.values("language")) <= set(table(__file__, "languages"))


def test_every_field_has_values_and_none_shares_them():
    assert all(SAMPLE.values(name) for name in FIELDS)
    languages = set(map(fold, SAMPLE.values("language")))
    genres = set(map(fold, SAMPLE.values("genre")))
    assert not languages & genres
    for field in PERSON_FIELDS:
        assert not (languages | genres).intersection(map(fold, SAMPLE.values(field)))


def test_names_are_whole_and_spelled_in_one_way():
    spelling = {}
    for field in PERSON_FIELDS:
        for name in SAMPLE.values(field):
            assert spelling.setdefault(fold(name), name) == name
            assert not re.search(r"[()#\d/;]", name)
    assert sum(" " not in name for name in spelling.values()) <= 40


def test_a_plot_is_one_or_two_sentences_without_names():
    for item in SAMPLE.items:
        text = re.sub(r"\b(Dr|Mr|Mrs|Ms|St|Jr|[A-Z])\.", r"\1", item.plot)
        sentences = re.split(r"(?<=[.!?])[\"'”’)]?\s+(?=[A-Z\"“])", text)
        assert len(sentences) in (1, 2), item.title
        assert item.plot[-1] in ".!?", item.title
        assert 5 <= len(words(item.plot)) <= 60, item.title
        folded = f" {fold(item.plot)} "
        for name in people_of(item):
            assert " " not in name or f" {name} " not in folded, item.title


def test_no_two_films_share_a_plot():
    assert len({item.plot for item in SAMPLE.items}) == len(SAMPLE)


def test_keywords_are_a_field_only_where_asked_for():
    assert list(PLAIN.fields) == list(FIELDS)
    assert list(WITH.fields) == [*FIELDS, "plot"]
    assert PLAIN.values("plot") == []
    assert "plot_keywords" not in PLAIN.frame()
    record = WITH.record(0)
    assert record.pop("plot_keywords")
    assert record == PLAIN.record(0)


def test_keywords_are_shared_by_films_and_clean():
    assert all(item.values["plot"] for item in WITH.items)
    assert min(WITH.support("plot", value) for value in WITH.values("plot")) >= 3
    assert WITH.report.table("plot").empty
    items = WITH.query({"plot": "madness", "genre": "Thriller"}).items
    assert "Gaslight" in [WITH.items[item].title for item in items]


def test_another_catalogue_gets_the_words_that_tell_its_plots_apart(tmp_path):
    films = {}
    for number in range(4):
        films[f"sea {number}"] = {"genre": ["Drama"], "plot": f"A keeper tends a lighthouse. Also {number}."}
        films[f"tent {number}"] = {
            "genre": ["Drama"],
            "plot": f"A clown joins a circus with Bonzo. {number}.",
        }
    for number in range(40):
        films[f"empty {number}"] = {"genre": ["Drama"], "plot": ""}
    (tmp_path / "films.json").write_text(json.dumps(films))
    told_apart = sources.load(f"{tmp_path / 'films.json'}+plot")
    assert set(told_apart.items[0].values["plot"]) == {"keeper", "tends", "lighthouse"}
    assert told_apart.items[-1].values["plot"] == ()
    assert "bonzo" not in told_apart.values("plot")  # a name
    assert readers.telling_words([]) == []


def test_plot_words_are_found_whole():
    text = "a crime film about love, death, prison and a bank"
    assert WORLD.grounder.find_plot_keywords_in_text(text) == ["crime", "love", "death", "prison", "bank"]
    concepts = {"genre=crime", "plot=love", "plot=death", "plot=prison", "plot=banks"}
    assert WORLD.grounder.topic_set(text) == concepts
    assert Grounder(PLAIN).topic_set(text) == {"genre=crime"}


@pytest.mark.parametrize(
    "text", ["I'd love a comedy.", "What is that about? I love it.", "Films about gloves and imprisonment"]
)
def test_everyday_words_are_plot_words_only_where_a_plot_is_spoken_of(text):
    assert not [key for key in WORLD.grounder.topic_set(text) if key.startswith("plot=")]


@pytest.fixture(scope="module")
def plotted():
    """Twelve conversations of each of three systems whose users also want plots."""
    systems = ("tracker", "amnesiac", "oracle")
    config = simulate.SimulateConfig(catalog="sample+plot", systems=systems, n_turns=12)
    dialogues = {}
    for name in systems:
        dialogues[name] = [simulate.session(WORLD, name, number, config) for number in range(12)]
    return dialogues


def test_plot_constraints_are_simulated(plotted):
    shifts_to_plots = 0
    for dialogue in itertools.chain(*plotted.values()):
        for event in dialogue.shift_events:
            shifts_to_plots += "plot" in (event.get("added") or {})
    assert shifts_to_plots >= 6


def test_plot_constraints_are_voiced_and_tracked(plotted):
    for dialogue in plotted["tracker"]:
        for pair in dialogue.pairs():
            wishes = pair.user.user_meta["constraints"]
            if "plot" in wishes and pair.user.user_meta["shift_event"]:
                assert pair.system.meta["constraints"].get("plot") == wishes["plot"]


def test_plot_constraints_are_scored(plotted):
    scorer = Scorer(WORLD.grounder, conventions.get("default"))
    gains = {}
    for name, dialogues in plotted.items():
        scores = scorer.score_many(dialogues)
        gains[name] = np.mean([score.session["normalised_gain"] for score in scores])
    assert gains["oracle"] == pytest.approx(1)
    assert gains["tracker"] > gains["amnesiac"] + 0.2
