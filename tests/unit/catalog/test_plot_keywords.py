"""Plot keywords: an optional field that users ask for, systems track and scores count, where it is asked for."""

import json

import pytest

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.fields import FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.errors import InputError
from crs_lib.evaluate.scorer import ItemsScorer
from crs_lib.metrics import conventions
from crs_lib.systems.base import World

PLAIN, WITH = sources.load(), sources.load("sample+plot")
WORLD = World(WITH, Grounder(WITH))


def test_a_catalogue_has_the_field_only_where_it_is_asked_for():
    assert list(PLAIN.fields) == list(FIELDS)
    assert list(WITH.fields) == [*FIELDS, "plot"]
    assert PLAIN.values("plot") == []
    assert "plot_keywords" not in PLAIN.frame() and "plot_keywords" not in PLAIN.record(0)
    assert WITH.record(0) | {"plot_keywords": None} == PLAIN.record(0) | {"plot_keywords": None}


def test_the_samples_keywords_are_shared_by_films_and_clean():
    assert all(item.values["plot"] for item in WITH.items)
    assert min(WITH.support("plot", value) for value in WITH.values("plot")) >= 3
    assert WITH.report.table("plot").empty
    assert "Gaslight" in {
        WITH.items[i].title for i in WITH.query({"plot": "madness", "genre": "Thriller"}).items
    }


def test_a_misspelt_field_is_told():
    with pytest.raises(InputError, match=r"no catalogue at 'sample\+plott'.*\+plot behind it"):
        sources.load("sample+plott")


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
    assert sources._extracted([]) == []


def test_plot_words_are_found_whole_and_everyday_ones_where_a_plot_is_spoken_of():
    text = "a crime film about love, death, prison and a bank"
    assert WORLD.grounder.find_plot_keywords_in_text(text) == ["crime", "love", "death", "prison", "bank"]
    concepts = {"genre=crime", "plot=love", "plot=death", "plot=prison", "plot=banks"}
    assert WORLD.grounder.topic_set(text) == concepts
    assert Grounder(PLAIN).topic_set(text) == {"genre=crime"}
    for said in (
        "I'd love a comedy.",
        "What is that about? I love it.",
        "Films about gloves and imprisonment",
    ):
        assert not [key for key in WORLD.grounder.topic_set(said) if key.startswith("plot=")], said


def test_plot_constraints_are_simulated_voiced_tracked_and_scored():
    config = simulate.SimulateConfig(
        catalog="sample+plot", systems=("tracker", "amnesiac", "oracle"), n_turns=12
    )
    scorer = ItemsScorer(WORLD.grounder, conventions.get("default"))
    moved, gains = 0, {}
    for name in config.systems:
        found = []
        for number in range(12):
            dialogue = simulate.session(WORLD, name, number, config)
            found.append(dialogue)
            moved += sum(bool((event.get("added") or {}).get("plot")) for event in dialogue.shift_events)
            for pair in dialogue.pairs():
                wish = pair.user.user_meta["constraints"]
                if name == "tracker" and "plot" in wish and pair.user.user_meta["shift_event"]:
                    assert pair.system.meta["constraints"].get("plot") == wish["plot"]
        scored = scorer.score_many(found)
        gains[name] = sum(one.session["normalised_gain"] for one in scored) / len(scored)
    assert moved >= 6
    assert gains["oracle"] == pytest.approx(1) and gains["tracker"] > gains["amnesiac"] + 0.2
