"""Catalogues in the usual forms of tables: the same films, whatever the file and its names of columns."""

import csv
import json

import pandas as pd
import pytest

from crs_lib import simulate
from crs_lib.catalog.sources import content_hash, load
from crs_lib.core.errors import InputError
from crs_lib.simulate import SimulateConfig

HEADS = {
    "id": "item_id", "Title": "title", "Release Year": "year", "Genres": "genre", "Cast": "actor",
    "directors": "director", "Writers": "writer", "Languages": "language", "Overview": "plot",
}  # fmt: skip
MARKS = {"Genres": ", ", "Cast": "; ", "directors": "|", "Writers": " | ", "Languages": ","}


@pytest.fixture(scope="module")
def films():
    """Forty films, two of whose directors are written in scripts without or with other letters."""
    found = [film for film in load().export() if film["recommendable"]][:40]
    for place, film in enumerate(found):
        film["item_id"] = f"film-{place}"
        film["director"] = [["李小龍"], ["Андрей Тарковский"], film["director"]][place % 3]
    found[0]["genre"] = [*found[0]["genre"], "Bollywood Noir"]
    return found


@pytest.fixture(scope="module")
def rows(films):
    texts = []
    for film in films:
        row = {head: film[name] for head, name in HEADS.items()}
        texts.append(
            {head: MARKS[head].join(v) if isinstance(v, list) else str(v or "") for head, v in row.items()}
        )
    return texts


@pytest.fixture(scope="module")
def files(films, rows, tmp_path_factory):
    """The same films as CSV, TSV, JSON lines, a JSON list and Parquet."""
    folder = tmp_path_factory.mktemp("films")
    for name, mark in (("films.csv", ","), ("films.tsv", "\t")):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(HEADS), delimiter=mark)
            writer.writeheader()
            writer.writerows(rows)
    lists = [{head: film[name] for head, name in HEADS.items()} for film in films]
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in lists)
    (folder / "films.jsonl").write_text(lines, encoding="utf-8")
    (folder / "films.json").write_text(json.dumps(lists, ensure_ascii=False), encoding="utf-8")
    pd.DataFrame(lists).to_parquet(folder / "films.parquet")
    return folder


@pytest.mark.parametrize("name", ["films.tsv", "films.jsonl", "films.json", "films.parquet"])
def test_every_form_gives_the_same_films(files, name):
    first = load(files / "films.csv")
    assert len(first) == 40
    assert content_hash(load(files / name)) == content_hash(first)


def test_any_script_and_any_genre_reach_the_end(files):
    films = load(files / "films.csv")
    assert {"李小龍", "Андрей Тарковский"} <= set(films.get_attribute_values("director"))
    assert "Bollywood Noir" in films.get_attribute_values("genre")
    config = SimulateConfig(
        run="films-of-a-table",
        catalog=str(files / "films.csv"),
        systems=("oracle", "tracker"),
        n_sessions=12,
        n_turns=8,
    )
    folder = simulate.simulate(config, progress=False)
    assert len(simulate.dialogues(config.run)) == 24
    assert content_hash(load(folder / "catalog.parquet")) == content_hash(films)


def test_a_column_of_another_name_is_said_to_be_a_field(files):
    text = (files / "films.csv").read_text(encoding="utf-8").replace("Cast", "Players of it", 1)
    path = files / "other.csv"
    path.write_text(text, encoding="utf-8")
    assert "not used: Players of it" in str(load(path).report)
    assert content_hash(load(f"{path}+Players of it=actor")) == content_hash(load(files / "films.csv"))


def test_what_an_export_writes_is_read_again(tmp_path):
    path, films = tmp_path / "sample.jsonl", load()
    path.write_text("\n".join(json.dumps(film) for film in films.export()), encoding="utf-8")
    assert content_hash(load(path)) == content_hash(films)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("bare.csv", "Name,mood\nMetropolis,dark\n", "the first record is"),
        ("untitled.csv", "thing,Genre\nMetropolis,War\n", "no column of titles; the first record is"),
        ("empty.jsonl", "", "at least one film"),
        ("numbers.json", "[1, 2]", "a film a row"),
    ],
)
def test_a_table_without_films_shows_what_was_read(tmp_path, name, text, word):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=word):
        load(path)


def test_a_spreadsheets_semicolons_are_read_and_another_encoding_is_named(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("Title;Year;Genre\nAmélie;2001;Comedy, Romance\n", encoding="utf-8-sig")
    assert [film["genre"] for film in load(path).export()] == [["Comedy", "Romance"]]
    path.write_text("Title;Year;Genre\nAmélie;2001;Comedy\n", encoding="latin-1")
    with pytest.raises(InputError, match=r"films\.csv is not in UTF-8 .*; save it as CSV UTF-8"):
        load(path)
