"""Where catalogues come from, and every way in which a file can be wrong."""

import json
import os
import re

import pandas as pd
import pytest

from crs_lib import simulate
from crs_lib.catalog import Grounder, sources
from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.simulate import SimulateConfig
from crs_lib.systems import World


def written(folder, text, name="films.json"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(("content", "message"), [
    ("not JSON at all", r"films.json: not JSON .*line 1 column 2\); expected an object title -> record"),
    ('{"A": {"year": "1980"}', r"films.json: not JSON .*line 1 column 22"),
    ("", r"films.json: not JSON"),
    ("[]", r"must hold a film a row with at least one film"),
    ("{}", r"must hold an object title -> record with at least one film"),
    ('"Alien"', r"must hold an object title -> record"),
    ('{"A": 3}', r"record 1 \('A'\): expected an object with the film's fields, got 3"),
    ('{"A": {"year": "soon"}}', r"record 1 \('A'\): field 'year': year 'soon' is no number"),
    ('{"A": {}, "": {}}', r"record 2 \(''\): field 'title' is empty"),
    (b'{"A": "\xff"}', r"films.json: not UTF-8 text"),
    ('{"A": {"year": "1980", "year": "1981"}}', r"films.json: 'A' has the field 'year' twice; give it once"),
    ('{"1": {"name": "A"}, "1": {"name": "B"}}', r"films.json has the id '1' twice"),
])  # fmt: skip
def test_a_bad_json_file_is_refused_by_name(tmp_path, content, message):
    path = written(tmp_path, content)
    before = path.read_bytes()
    with pytest.raises(InputError, match=message):
        sources.load(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["films.json", "films.parquet", "folder"])
def test_a_missing_file_is_refused_with_what_may_be_given(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        InputError, match=r"no catalogue at .*; give 'sample', a .json .*or a film a row as .csv"
    ):
        sources.load(tmp_path / name)


def test_a_broken_parquet_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"films.parquet cannot be read as a catalogue"):
        sources.load(written(tmp_path, "no parquet", "films.parquet"))
    pd.DataFrame({"title": ["A"]}).to_parquet(tmp_path / "few.parquet")
    with pytest.raises(InputError, match=r"few.parquet: 1 records and no value of any field .*\"A\""):
        sources.load(tmp_path / "few.parquet")


def test_a_parquet_file_written_by_others_is_read(tmp_path):
    frame = pd.DataFrame(
        {
            "item_id": ["a", "b"],
            "title": ["Alpha", "Beta"],
            "year": [1980, None],
            "genre": [["Drama"], None],
            "mood": ["x", "y"],
        }
    )
    frame.to_parquet(tmp_path / "theirs.parquet")
    found = sources.load(tmp_path / "theirs.parquet")
    assert [(i.item_id, i.title, i.year, i.values["genre"]) for i in found.items] == [
        ("a", "Alpha", 1980, ("Drama",)),
        ("b", "Beta", None, ()),
    ]
    assert found.report.ignored_keys == {"mood": 2}


def test_a_json_file_is_read_with_its_own_titles_also_twice_the_same(tmp_path):
    path = written(
        tmp_path, json.dumps({"key": {"name": "Amélie", "year": 2001, "genre": "Comedy"}, "Beta": {}})
    )
    found = sources.load(path)
    assert [(item.title, item.year) for item in found.items] == [("Amélie", 2001), ("Beta", None)]
    assert found.source == "films.json"
    film = '"Solaris": {{"year": "{year}", "genre": "Drama"}}'
    films = ", ".join(film.format(year=year) for year in (1972, 2002, 2002))
    path = written(tmp_path, f"{{{films}}}")
    catalog = sources.load(path)
    assert [(item.title, item.values["year"]) for item in catalog.items] == [
        ("Solaris", ("1972",)), ("Solaris", ("2002",)),
    ]  # fmt: skip
    assert catalog.report.films_read == 3


def test_a_relative_path_is_looked_up_here_and_then_in_the_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = os.path.relpath(paths.samples() / "movies.json", paths.ROOT)
    assert len(sources.load(inside)) == len(sources.load("sample"))


def test_the_hash_depends_on_what_the_films_are_only(tmp_path):
    one = sources.load(written(tmp_path, '{"A": {"year": "1980", "actor": ["B C"]}}'))
    same = sources.load(
        written(tmp_path, '{"A": {"actor": "B  C (actor)", "year": 1980, "rating": 3}}', "other.json")
    )
    other = sources.load(written(tmp_path, '{"A": {"year": "1981", "actor": ["B C"]}}'))
    assert sources.content_hash(one) == sources.content_hash(same) != sources.content_hash(other)


BOOKS = paths.samples() / "books.csv"


def test_books_have_fields_and_words_of_their_own(tmp_path):
    loaded = sources.load(BOOKS)  # books.yaml lies beside it
    assert len(loaded) == 150
    assert loaded.support("author", "agatha christie") == 4
    assert {"author", "setting", "theme"} < set(loaded.fields)
    world = World(loaded, Grounder(loaded))
    config = SimulateConfig(systems=["tracker"], n_sessions=4, voices="all")
    talks = [simulate.session(world, "tracker", n, config) for n in range(4)]
    said = " ".join(turn.text for talk in talks for turn in talk.turns)
    assert "book" in said
    assert not re.search(r"\b(movies?|films?|watch)\b", said)
    loaded.save(tmp_path / "catalog.parquet")
    again = sources.load(tmp_path / "catalog.parquet")
    assert (sources.content_hash(again), again.words) == (sources.content_hash(loaded), loaded.words)
    assert sources.load("sample").words == {}


@pytest.mark.parametrize(("text", "message"), [
    ("other: 1", "declares no fields"),
    ("fields: {actor: {kind: person, phrases: [by $value]}}", "'actor' is known already"),
    ("fields: {author: {kind: persn, phrases: [by $value]}}", "did you mean 'person'"),
    ("fields: {author: {kind: person, phrases: [by them]}}", r"'by them' does not name \$value"),
])  # fmt: skip
def test_a_declaration_of_fields_is_checked(tmp_path, text, message):
    path = written(tmp_path, text, "mine.yaml")
    with pytest.raises(InputError, match=message):
        sources.load(sources.with_fields(BOOKS, path))
