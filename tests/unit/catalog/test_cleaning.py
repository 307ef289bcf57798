"""Cleaning label by label and a whole catalogue: every edit is in the report, every bad record is named."""

import csv
import json
import math
import os
import re

import pandas as pd
import pytest

from crs_lib import simulate
from crs_lib.catalog import Grounder, fields, lexicon, sources
from crs_lib.catalog.cleaning import clean
from crs_lib.catalog.sources import content_hash, load
from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold
from crs_lib.simulate import SimulateConfig
from crs_lib.systems import World
from tests.helpers import refused
from tests.helpers.sample import simulated

DIRTY = [
    ("Alpha", {"genre": ["Drama", "drama film", "France"], "actor": ["Ana  Bell", "ana bell", "nm123"], "year": "1980"}),
    ("ALPHA", {"genre": "Comedy", "actor": ["Cy Hale"], "year": 1980, "plot": "A plot."}),
    ("Alpha", {"director": ["Zoe Tarn"], "year": "1999"}),
    ("Beta", {"language": ["French", "French Language"], "year": "1850", "rating": 7}),
]  # fmt: skip
BOOKS = paths.samples() / "books.csv"
GENRE, LANGUAGE, PERSON, YEAR = (getattr(lexicon, f"clean_{n}") for n in "genre language person year".split())
HEADS = {
    "id": "item_id", "Title": "title", "Release Year": "year", "Genres": "genre", "Cast": "actor",
    "directors": "director", "Writers": "writer", "Languages": "language", "Overview": "plot",
}  # fmt: skip
MARKS = {"Genres": ", ", "Cast": "; ", "directors": "|", "Writers": " | ", "Languages": ","}


def test_values_are_cleaned_and_films_of_one_title_are_one_unless_their_years_differ():
    items, report = clean(DIRTY)
    alpha = items[0]
    assert alpha.values["genre"] == ("Drama", "Comedy")  # the second record is the same film and adds a genre
    assert (alpha.values["actor"], alpha.plot) == (("Ana Bell", "Cy Hale"), "A plot.")
    assert [(item.title, item.year) for item in items] == [("Alpha", 1980), ("Alpha", 1999), ("Beta", None)]
    assert report.merged_films == [("ALPHA", "Alpha")] and (report.films_read, report.films_kept) == (4, 3)
    items, _ = clean([("A", one) for one in ({"year": "1980"}, {"year": "1999"}, {"actor": ["Ana Bell"]})])
    assert [(item.year, item.values["actor"]) for item in items] == [
        (1980, ()),
        (1999, ()),
        (None, ("Ana Bell",)),
    ]
    items, report = clean([("!!!", {"actor": ["Ana Bell"]}), ("???", {"actor": ["Cy Hale"]}), ("!!!", {})])
    assert [item.title for item in items] == ["!!!", "???"] and report.merged_films == [("!!!", "!!!")]


def test_the_report_counts_every_edit():
    _, report = clean(DIRTY)
    summary = report.summary().set_index("field")
    assert summary.loc["genre"].to_dict() == {
        "values before": 4, "distinct before": 4, "merged": 1, "dropped": 1, "doublets": 1, "values after": 2,
        "distinct after": 2,
    }  # fmt: skip
    # "Ana  Bell" and "ana bell" tidied and named twice, "nm123" dropped; the twin film brings "Cy Hale"
    counted = ["values before", "dropped", "doublets", "values after"]
    assert summary.loc["actor", counted].tolist() == [4, 1, 1, 2]
    dropped = report.table("genre", "dropped")
    assert list(dropped) == ["field", "action", "from", "to", "reason", "films"]
    assert dropped.to_numpy().tolist() == [["genre", "dropped", "France", "", "no genre", 1]]
    assert report.table("year")["reason"].tolist() == ["before 1900"]
    assert (report.ignored_keys, report.low_information) == ({"rating": 1}, 1)  # Beta
    told = "4 films read, 3 kept, 1 merged; 1 without actor and director (never recommended); not used: "
    assert str(report) == f"{told}rating"


def test_the_most_frequent_spelling_wins_then_the_first_in_order():
    actors = ["José Gil", "Jose Gil", "José Gil", "Bo Ek", "BO EK"]
    items, report = clean([(f"Film {i}", {"actor": [name]}) for i, name in enumerate(actors)])
    assert [item.values["actor"][0] for item in items] == ["José Gil"] * 3 + ["BO EK"] * 2
    merged = report.table("actor")[["from", "to"]].to_numpy().tolist()
    assert merged == [["Bo Ek", "BO EK"], ["Jose Gil", "José Gil"]]


def test_ids_are_kept_or_made_and_never_shared():
    records = [
        ("Alpha", {"year": "1980"}), ("Beta", {"original_id": "alpha-1980"}), ("Gamma", {"item_id": "g"}), ("…", {}), ("?", {}),
    ]  # fmt: skip
    items, _ = clean(records)
    assert [item.item_id for item in items] == ["alpha-1980-2", "alpha-1980", "g", "film", "film-2"]
    with pytest.raises(InputError, match="films 'Alpha' and 'Beta' share the id 'x'; ids must be unique"):
        clean([("Alpha", {"item_id": "x"}), ("Beta", {"item_id": "x"})])


@pytest.mark.parametrize(("key", "record", "message"), [
    ("Bad", {"year": "soon"}, r"record 2 \('Bad'\): field 'year': year 'soon' is no number"),
    ("Bad", {"year": 1994.5}, r"record 2 \('Bad'\): field 'year' must be a text or a list of texts, got 1994.5"),
    ("Bad", {"year": True}, r"field 'year' must be a text or a list of texts, got True"),
    ("Bad", {"actor": ["Ana Bell", None]}, r"field 'actor' must be a text or a list of texts"),
    ("Bad", {"genre": {"a": 1}}, r"field 'genre' must be a text or a list of texts"),
    ("Bad", ["Drama"], r"record 2 \('Bad'\): expected an object with the film's fields, got \['Drama'\]"),
])  # fmt: skip
def test_a_bad_record_is_named_with_its_field(key, record, message):
    refused(message, clean, [("Good", {}), (key, record)])


@pytest.mark.parametrize("year", [None, "", math.nan])
def test_a_missing_year_is_missing(year):
    items, report = clean([("Alpha", {"year": year})])
    assert items[0].year is None and report.before["year"].total() == 0


def test_books_have_fields_and_words_of_their_own(tmp_path):
    loaded = load(BOOKS)  # books.yaml lies beside it
    assert len(loaded) == 150 and loaded.support("author", "agatha christie") == 4
    assert {"author", "setting", "theme"} < set(loaded.fields)
    world = World(loaded, Grounder(loaded))
    config = SimulateConfig(systems=["tracker"], n_sessions=4, voices="all")
    talks = [simulate.session(world, "tracker", n, config) for n in range(4)]
    said = " ".join(turn.text for talk in talks for turn in talk.turns)
    assert "book" in said
    with prompts.worded(loaded.words):  # what language models are told
        told = " ".join(prompts.source(name) for name in ("movies/crs_rag", "movies/user_utterance"))
    assert "looking for a book" in told and not re.search(r"\b(movies?|films?|watch)\b", said + told)
    loaded.save(tmp_path / "catalog.parquet")
    again = load(tmp_path / "catalog.parquet")
    assert (content_hash(again), again.words) == (content_hash(loaded), loaded.words)
    assert load("sample").words == {}


@pytest.mark.parametrize(("text", "message"), [
    ("other: 1", "declares no fields"),
    ("fields: {actor: {kind: person, phrases: [by $value]}}", "'actor' is known already"),
    ("fields: {author: {kind: persn, phrases: [by $value]}}", "did you mean 'person'"),
    ("fields: {author: {kind: person, phrases: [by them]}}", r"'by them' does not name \$value"),
])  # fmt: skip
def test_a_declaration_of_fields_is_checked(tmp_path, text, message):
    refused(message, load, sources.with_fields(BOOKS, written(tmp_path, text, "mine.yaml")))


FILM_WORDS = (
    r"\b(movies?|films?|watch\w*|cinema|screens?|popcorn|actors?|actress|directors?|starring|tv|seen|saw)\b"
)


def test_the_games_of_the_page_of_data_are_talked_of_without_a_film_word(tmp_path):
    page = (paths.ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    declared = page.partition("<!-- games -->")[2].partition("<!-- /games -->")[0].strip().strip("`")
    games = ["Title,Year,Genres,Studio,Platform,Themes"]
    for number in range(90):
        genre = ("Adventure", "Fantasy", "Horror", "Mystery", "Science Fiction")[number % 5]
        studio = ("Lantern Forge", "Blue Harbour", "Nine Foxes", "Paper Moon")[number // 3 % 4]
        theme = ("dragons", "pirates", "robots", "islands", "castles")[number // 5 % 5]
        games.append(f"Tale {number},{1990 + number % 30},{genre},{studio},Lumina,{theme}")
    csv = written(tmp_path, "\n".join(games), "items.csv")
    source = sources.with_fields(csv, written(tmp_path, declared.removeprefix("yaml"), "games.yaml"))
    catalog = load(source)
    sources.check_phrases(source, catalog)
    world = World(catalog, Grounder(catalog))
    config = SimulateConfig(systems=["tracker"], n_sessions=3, voices="all")
    utterances = []
    for number in range(3):
        for pair in simulate.session(world, "tracker", number, config).pairs():
            utterances.append(pair.user.text)
    assert len(utterances) == 60
    assert [text for text in utterances if re.search(FILM_WORDS, text, re.IGNORECASE)] == []


@pytest.mark.parametrize(("phrase", "reason"), [
    ("with no $value", "everyday word without a word such as 'about' before it"),
    ("like a $values story", r"a template needs \$values"),
])  # fmt: skip
def test_a_phrase_that_is_not_read_back_is_refused_with_file_line_and_reason(tmp_path, phrase, reason):
    text = f"fields:\n  theme:\n    kind: topic\n    phrases: ['about $value', '{phrase}']\n"
    source = sources.with_fields(BOOKS, written(tmp_path, text, "mine.yaml"))
    refused(rf"mine.yaml, line 4 \(field 'theme'\): .*{reason}", sources.check_phrases, source, load(source))


@pytest.mark.parametrize(("clean_one", "raw", "value", "reason"), [
    *((GENRE, raw, value, "") for raw, value in (
        ("Drama", "Drama"), ("drama film", "Drama"), ("Sci-Fi", "Science Fiction"), ("SCIENCE  fiction", "Science Fiction"),
        ("Family (Film genre) #395", "Family"), ("Crime Fiction", "Crime"), ("zombie (media genre)", "Zombie"),
        ("Thriller Movies", "Thriller"), ("film-noir", "Film Noir"),
    )),
    *((GENRE, raw, None, "no genre") for raw in (
        "United Kingdom", "George W. Bush", "Transformers (comic book)", "Fiction", "Film",
    )),
    *((LANGUAGE, raw, value, "") for raw, value in (
        ("French", "French"), ("French Language", "French"), ("fre", "French"), ("fra", "French"), ("french-language", "French"),
        ("Standard Chinese", "Mandarin"), ("Farsi", "Persian"), ("Klingon LANGUAGE", "Klingon"), ("Foo language languages", "Foo"),
        ("Foo (x) language", "Foo"), ("American Sign Language", "American Sign Language"), ("sign language", "sign language"),
    )),
    *((LANGUAGE, raw, None, "no language") for raw in ("Language", "silent film", "Unknown language", "none")),
    *((PERSON, raw, value, "") for raw, value in (
        ("George Miller (Director)", "George Miller"), ("Todd  Edwards (actor) #1", "Todd Edwards"), ("Stig", "Stig"),
        ("D'Arcy O'Neill", "D'Arcy O'Neill"),
    )),
    *((PERSON, raw, None, "empty") for raw in ("(x)", "  ", "?!")),
    *((PERSON, raw, None, "no person's name") for raw in ("nm1157013", "Unknown")),
    (YEAR, "1994", "1994", ""), (YEAR, " 2001 ", "2001", ""), (YEAR, "1900", "1900", ""), (YEAR, "１９９４", "1994", ""),
    *((YEAR, raw, None, "before 1900") for raw in ("1899", "-50", "975")), (YEAR, "", None, "empty"),
])  # fmt: skip
def test_a_label_gets_its_one_name_or_is_dropped_with_a_reason(clean_one, raw, value, reason):
    assert clean_one(raw) == (value, reason)


@pytest.mark.parametrize(("name", "content", "message"), [
    *(("films.json", content, message) for content, message in (
        ("not JSON at all", r"films.json: not JSON .*line 1 column 2\); expected an object title -> record"),
        ('{"A": {"year": "1980"}', r"films.json: not JSON .*line 1 column 22"), ("", r"films.json: not JSON"),
        ("[]", r"must hold a film a row with at least one film"), ("[1, 2]", "a film a row"),
        ("{}", r"must hold an object title -> record with at least one film"),
        ('"Alien"', r"must hold an object title -> record"),
        ('{"A": 3}', r"record 1 \('A'\): expected an object with the film's fields, got 3"),
        ('{"A": {"year": "soon"}}', r"record 1 \('A'\): field 'year': year 'soon' is no number"),
        ('{"": {}}', r"films.json: 1 records and no film: it has no title"), (b'{"A": "\xff"}', r"films.json: not UTF-8 text"),
        ('{"A": {"year": "1980", "year": "1981"}}', r"films.json: 'A' has the field 'year' twice; give it once"),
        ('{"1": {"name": "A"}, "1": {"name": "B"}}', r"films.json has the id '1' twice"),
    )),
    ("films.parquet", "no parquet", r"films.parquet cannot be read as a catalogue"),
    ("bare.csv", "Name,mood\nMetropolis,dark\n", "the first record is"),
    ("untitled.csv", "thing,Genre\nMetropolis,War\n", "no column of titles; the first record is"),
    ("empty.jsonl", "", "at least one film"),
])  # fmt: skip
def test_a_bad_file_is_refused_by_name(tmp_path, name, content, message):
    path = written(tmp_path, content, name)
    before = path.read_bytes()
    refused(message, load, path)
    assert path.read_bytes() == before


def test_spellings_codes_weak_genres_and_years_of_the_lexicon():
    assert lexicon.clean_genre("Drama of the Sea").value is None
    assert lexicon.clean_language("Languages of Love").value == "Languages of Love"
    codes = {"fre": "French", "fra": "French", "fr": "French", "cmn": "Mandarin", "hbs": "Serbo-Croatian"}
    assert {code: lexicon.clean_language(code).value for code in codes} == codes
    assert lexicon.name_of("genres").keys() >= lexicon.weak_genres()
    for raw in ("MCMXCIV", "c. 1994", "1994-95", "19940", "1994.5"):
        refused("is no number; give four digits such as 1994, or leave it empty", lexicon.clean_year, raw)


@pytest.mark.parametrize("table", ["genres", "languages"])
def test_a_spelling_belongs_to_one_name_only(table):
    owner = {}
    for name, aliases in lexicon.spellings(table).items():
        for form in {fold(name), *map(fold, aliases)}:
            assert owner.setdefault(form, name) == name, form
    assert all(owner)


def test_names_keep_their_words_and_plots_their_longer_ones():
    assert lexicon.clean_name("  New   Zealand (country) #2") == ("New Zealand", "")
    assert lexicon.clean_name("?!") == (None, "empty")
    text = "A smuggler crosses the border; the SMUGGLER and his wife hide 1234 emeralds from them."
    assert fields.plot_keywords(text) == ["smuggler", "crosses", "border", "wife", "hide", "emeralds"]
    assert fields.plot_keywords("a film about love, death and a bank") == ["love", "death", "bank"]
    assert fields.plot_keywords("") == []


def written(folder, text, name="films.json"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["films.json", "films.parquet", "folder"])
def test_a_missing_file_is_refused_with_what_may_be_given(tmp_path, name):
    (tmp_path / "folder").mkdir()
    refused(r"no catalogue at .*; give 'sample', a .json .*or a film a row as .csv", load, tmp_path / name)


def test_a_parquet_file_written_by_others_is_read_and_one_without_fields_refused(tmp_path):
    frame = pd.DataFrame({"item_id": ["a", "b"], "title": ["Alpha", "Beta"], "year": [1980, None]})
    frame = frame.assign(genre=[["Drama"], None], mood=["x", "y"])
    frame.to_parquet(tmp_path / "theirs.parquet")
    found = load(tmp_path / "theirs.parquet")
    read = [(i.item_id, i.title, i.year, i.values["genre"]) for i in found.items]
    assert read == [("a", "Alpha", 1980, ("Drama",)), ("b", "Beta", None, ())]
    assert found.report.ignored_keys == {"mood": 2}
    pd.DataFrame({"title": ["A"]}).to_parquet(tmp_path / "few.parquet")
    refused(r"few.parquet: 1 records and no value of any field .*\"A\"", load, tmp_path / "few.parquet")


def test_a_json_file_is_read_with_its_own_titles_and_a_relative_path_here_or_there(tmp_path, monkeypatch):
    films = {"key": {"name": "Amélie", "year": 2001, "genre": "Comedy"}, "Beta": {}}
    found = load(written(tmp_path, json.dumps(films)))
    assert [(item.title, item.year) for item in found.items] == [("Amélie", 2001), ("Beta", None)]
    assert found.source == "films.json"
    film = '"Solaris": {{"year": "{year}", "genre": "Drama"}}'
    films = ", ".join(film.format(year=year) for year in (1972, 2002, 2002))
    catalog = load(written(tmp_path, f"{{{films}}}"))
    read = [(item.title, item.values["year"]) for item in catalog.items]
    assert read == [("Solaris", ("1972",)), ("Solaris", ("2002",))]
    assert catalog.report.films_read == 3
    monkeypatch.chdir(tmp_path)
    assert len(load(os.path.relpath(paths.samples() / "movies.json", paths.ROOT))) == len(load("sample"))


def test_the_hash_depends_on_what_the_films_are_only(tmp_path):
    one = load(written(tmp_path, '{"A": {"year": "1980", "actor": ["B C"]}}'))
    again = '{"A": {"actor": "B  C (actor)", "year": 1980, "rating": 3}}'
    same = load(written(tmp_path, again, "other.json"))
    other = load(written(tmp_path, '{"A": {"year": "1981", "actor": ["B C"]}}'))
    assert content_hash(one) == content_hash(same) != content_hash(other)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Forty films as CSV, TSV, JSON lines, a JSON list, a JSON object by title, and Parquet; two of their
    directors are written in scripts without or with other letters.
    """

    def cell(head, value):
        return MARKS[head].join(value) if isinstance(value, list) else str(value or "")

    films = [film for film in load().export() if film["recommendable"]][:40]
    for place, film in enumerate(films):
        film["item_id"] = f"film-{place}"
        film["director"] = [["李小龍"], ["Андрей Тарковский"], film["director"]][place % 3]
    films[0]["genre"] = [*films[0]["genre"], "Bollywood Noir"]
    rows = [{head: cell(head, film[name]) for head, name in HEADS.items()} for film in films]
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
    named = {one["Title"]: one for one in lists}
    (folder / "by_title.json").write_text(json.dumps(named, ensure_ascii=False), encoding="utf-8")
    pd.DataFrame(lists).to_parquet(folder / "films.parquet")
    return folder


@pytest.mark.parametrize("name", ["films.tsv", "films.jsonl", "films.json", "by_title.json", "films.parquet"])
def test_every_form_gives_the_same_films(files, name):
    first = load(files / "films.csv")
    assert len(first) == 40 and content_hash(load(files / name)) == content_hash(first)


def test_any_script_reaches_the_end_and_a_column_of_another_name_is_said_to_be_a_field(files):
    films = load(files / "films.csv")
    assert {"李小龍", "Андрей Тарковский"} <= set(films.get_attribute_values("director"))
    assert "Bollywood Noir" in films.get_attribute_values("genre")
    settings = {"systems": ("oracle", "tracker"), "n_sessions": 12, "n_turns": 8}
    folder = simulated(run="films-of-a-table", catalog=str(files / "films.csv"), **settings)
    assert len(simulate.dialogues("films-of-a-table")) == 24
    assert content_hash(load(folder / "catalog.parquet")) == content_hash(films)
    text = (files / "films.csv").read_text(encoding="utf-8").replace("Cast", "Players of it", 1)
    path = written(files, text, "other.csv")
    assert "not used: Players of it" in str(load(path).report)
    assert content_hash(load(f"{path}+Players of it=actor")) == content_hash(load(files / "films.csv"))


def test_an_export_and_a_spreadsheets_semicolons_are_read_and_another_encoding_is_named(tmp_path):
    films = load()
    path = written(tmp_path, "\n".join(json.dumps(film) for film in films.export()), "sample.jsonl")
    assert content_hash(load(path)) == content_hash(films)
    path = tmp_path / "films.csv"
    path.write_text("Title;Year;Genre\nAmélie;2001;Comedy, Romance\n", encoding="utf-8-sig")
    assert [film["genre"] for film in load(path).export()] == [["Comedy", "Romance"]]
    path.write_text("Title;Year;Genre\nAmélie;2001;Comedy\n", encoding="latin-1")
    refused(r"films\.csv, line 2 is not in UTF-8; in Latin-1 it is 'Amélie;2001;Comedy'", load, path)
    assert load(f"{path}+encoding=latin-1").items[0].title == "Amélie"


FIELD_OF_A = "fields: {shelf: {kind: topic, phrases: [on the $value shelf], keep: 2}}"
FIELD_OF_B = "fields: {shelf: {kind: name, phrases: [from shelf $value], keep: 5}}\nwords: {movie: disc}"


def test_two_catalogues_with_a_field_of_one_name_do_not_touch_one_another(tmp_path):
    table = "title,genre,shelf\nAlpha,Drama,Dreams\n"
    for name, declaration in (("a", FIELD_OF_A), ("b", FIELD_OF_B)):
        written(tmp_path, table, f"{name}.csv")
        written(tmp_path, declaration, f"{name}.yaml")
    first = load(tmp_path / "a.csv")
    phrases_before = first.fields["shelf"].phrases
    second = load(tmp_path / "b.csv")
    assert first.fields["shelf"].phrases == phrases_before == ("on the $value shelf",)
    assert second.fields["shelf"].phrases == ("from shelf $value",)
    assert (first.values("shelf"), second.values("shelf")) == (["dreams"], ["Dreams"])
    assert first.words == {}
    assert second.words == {"movie": "disc"}
    assert first.relaxation_order.index("shelf") < second.relaxation_order.index("shelf")
    assert "shelf" not in load("sample").fields
    refused("unknown field 'shelf'", load("sample").values, "shelf")
