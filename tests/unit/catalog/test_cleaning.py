"""Cleaning label by label and a whole catalogue: every edit is in the report, every bad record is named."""

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
from crs_lib.core.text import fold
from crs_lib.simulate import SimulateConfig
from crs_lib.systems import World
from tests.helpers import refused, table
from tests.helpers.sample import simulated

ALPHA = {
    "genre": ["Drama", "drama film", "France"],
    "actor": ["Ana  Bell", "ana bell", "nm123"],
    "year": "1980",
}
ALPHA_AGAIN = {"genre": "Comedy", "actor": ["Cy Hale"], "year": 1980, "plot": "A plot."}
DIRTY = [
    ("Alpha", ALPHA),
    ("ALPHA", ALPHA_AGAIN),
    ("Alpha", {"director": ["Zoe Tarn"], "year": "1999"}),
    ("Beta", {"language": ["French", "French Language"], "year": "1850", "rating": 7}),
]
BOOKS = paths.samples() / "books.csv"
CLEANERS = {
    "genre": lexicon.clean_genre,
    "language": lexicon.clean_language,
    "person": lexicon.clean_person,
    "name": lexicon.clean_name,
    "year": lexicon.clean_year,
}
HEADS = {
    "id": "item_id",
    "Title": "title",
    "Release Year": "year",
    "Genres": "genre",
    "Cast": "actor",
    "directors": "director",
    "Writers": "writer",
    "Languages": "language",
    "Overview": "plot",
}
MARKS = {"Genres": ", ", "Cast": "; ", "directors": "|", "Writers": " | ", "Languages": ","}
FILM_WORDS = (
    r"\b(movies?|films?|watch\w*|cinema|screens?|popcorn|actors?|actress|directors?|starring|tv|seen|saw)\b"
)
GENRES = ("Adventure", "Fantasy", "Horror", "Mystery", "Science Fiction")
STUDIOS = ("Lantern Forge", "Blue Harbour", "Nine Foxes", "Paper Moon")
THEMES = ("dragons", "pirates", "robots", "islands", "castles")


def written(folder, text, name="films.json"):
    """The path of a file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def dated(items):
    """Title and year of each film."""
    return [(item.title, item.year) for item in items]


def test_values_are_cleaned_and_rows_of_one_film_are_merged():
    items, report = clean(DIRTY)
    assert dated(items) == [("Alpha", 1980), ("Alpha", 1999), ("Beta", None)]
    assert items[0].values["genre"] == ("Drama", "Comedy")  # the second record adds a genre
    assert items[0].values["actor"] == ("Ana Bell", "Cy Hale")
    assert items[0].plot == "A plot."
    assert report.merged_films == [("ALPHA", "Alpha")]
    assert report.films_read == 4
    assert report.films_kept == 3


def test_a_film_without_a_year_is_merged_into_no_one_of_two():
    items, _ = clean([("A", {"year": "1980"}), ("A", {"year": "1999"}), ("A", {"actor": ["Ana Bell"]})])
    assert dated(items) == [("A", 1980), ("A", 1999), ("A", None)]
    assert items[2].values["actor"] == ("Ana Bell",)


def test_titles_without_words_are_told_apart():
    items, report = clean([("!!!", {"actor": ["Ana Bell"]}), ("???", {"actor": ["Cy Hale"]}), ("!!!", {})])
    assert [item.title for item in items] == ["!!!", "???"]
    assert report.merged_films == [("!!!", "!!!")]


def test_the_report_counts_every_edit():
    _, report = clean(DIRTY)
    summary = report.summary().set_index("field")
    assert summary.loc["genre"].tolist() == [4, 4, 1, 1, 1, 2, 2]
    # "Ana  Bell" and "ana bell" tidied and named twice, "nm123" dropped; the twin film brings "Cy Hale"
    counted = ["values before", "dropped", "doublets", "values after"]
    assert summary.loc["actor", counted].tolist() == [4, 1, 1, 2]
    dropped = report.table("genre", "dropped")
    assert list(dropped) == ["field", "action", "from", "to", "reason", "films"]
    assert dropped.to_numpy().tolist() == [["genre", "dropped", "France", "", "no genre", 1]]
    assert report.table("year")["reason"].tolist() == ["before 1900"]
    assert report.ignored_keys == {"rating": 1}
    assert report.low_information == 1  # Beta
    counts = "4 films read, 3 kept, 1 merged; 1 without actor and director (never recommended)"
    assert str(report) == f"{counts}; not used: rating"


def test_the_most_frequent_spelling_wins_then_the_first_in_order():
    actors = ["José Gil", "Jose Gil", "José Gil", "Bo Ek", "BO EK"]
    items, report = clean((f"Film {number}", {"actor": [name]}) for number, name in enumerate(actors))
    assert [item.values["actor"] for item in items] == [("José Gil",)] * 3 + [("BO EK",)] * 2
    merged = report.table("actor")
    assert merged["from"].tolist() == ["Bo Ek", "Jose Gil"]
    assert merged["to"].tolist() == ["BO EK", "José Gil"]


def test_ids_are_kept_or_made_and_never_shared():
    with_ids = [("Beta", {"original_id": "alpha-1980"}), ("Gamma", {"item_id": "g"})]
    items, _ = clean([("Alpha", {"year": "1980"}), *with_ids, ("…", {}), ("?", {})])
    assert [item.item_id for item in items] == ["alpha-1980-2", "alpha-1980", "g", "film", "film-2"]
    shared = [("Alpha", {"item_id": "x"}), ("Beta", {"item_id": "x"})]
    refused("films 'Alpha' and 'Beta' share the id 'x'; ids must be unique", clean, shared)


@pytest.mark.parametrize(("record", "message"), table(__file__, "bad_records"))
def test_a_bad_record_is_named_with_its_field(record, message):
    refused(message, clean, [("Good", {}), ("Bad", json.loads(record))])


@pytest.mark.parametrize("year", [None, "", math.nan])
def test_a_missing_year_is_missing(year):
    items, report = clean([("Alpha", {"year": year})])
    assert items[0].year is None
    assert report.before["year"].total() == 0


def utterances(world, sessions):
    """What users and a tracker say in some sessions, each speaker's turns in a list."""
    config = SimulateConfig(systems=["tracker"], n_sessions=sessions, voices="all")
    users = []
    systems = []
    for number in range(sessions):
        for pair in simulate.session(world, "tracker", number, config).pairs():
            users.append(pair.user.text)
            systems.append(pair.system.text)
    return users, systems


def test_books_have_fields_of_their_own(tmp_path):
    books = load(BOOKS)  # books.yaml lies beside it
    assert len(books) == 150
    assert books.support("author", "agatha christie") == 4
    assert {"author", "setting", "theme"} < set(books.fields)
    books.save(tmp_path / "catalog.parquet")
    again = load(tmp_path / "catalog.parquet")
    assert content_hash(again) == content_hash(books)
    assert again.words == books.words
    assert load("sample").words == {}


def test_books_are_talked_of_as_books():
    books = load(BOOKS)
    users, systems = utterances(World(books, Grounder(books)), 4)
    with prompts.worded(books.words):  # what language models are asked
        tasks = [prompts.source(name) for name in ("movies/crs_rag", "movies/user_utterance")]
    assert "looking for a book" in " ".join(tasks)
    assert "book" in " ".join(users)
    assert not re.search(r"\b(movies?|films?|watch)\b", " ".join([*users, *systems, *tasks]))


@pytest.mark.parametrize(("text", "message"), table(__file__, "declarations"))
def test_a_declaration_of_fields_is_checked(tmp_path, text, message):
    declared = written(tmp_path, text, "mine.yaml")
    refused(message, load, sources.with_fields(BOOKS, declared))


def test_the_games_of_the_page_of_data_are_talked_of_without_a_film_word(tmp_path):
    page = (paths.ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    block = page.partition("<!-- games -->")[2].partition("<!-- /games -->")[0]
    declared = written(tmp_path, block.strip().strip("`").removeprefix("yaml"), "games.yaml")
    lines = ["Title,Year,Genres,Studio,Platform,Themes"]
    for number in range(90):
        genre = GENRES[number % 5]
        studio = STUDIOS[number // 3 % 4]
        theme = THEMES[number // 5 % 5]
        lines.append(f"Tale {number},{1990 + number % 30},{genre},{studio},Lumina,{theme}")
    source = sources.with_fields(written(tmp_path, "\n".join(lines), "items.csv"), declared)
    games = load(source, spoken=True)
    users, _ = utterances(World(games, Grounder(games)), 3)
    assert len(users) == 60
    assert [text for text in users if re.search(FILM_WORDS, text, re.IGNORECASE)] == []


@pytest.mark.parametrize(("phrase", "reason"), table(__file__, "phrases"))
def test_a_phrase_that_is_not_read_back_is_refused_with_file_line_and_reason(tmp_path, phrase, reason):
    text = f"fields:\n  theme:\n    kind: topic\n    phrases: ['about $value', '{phrase}']\n"
    source = sources.with_fields(BOOKS, written(tmp_path, text, "mine.yaml"))
    refused(rf"mine.yaml, line 4 \(field 'theme'\): .*{reason}", load, source, spoken=True)


@pytest.mark.parametrize(("kind", "label", "name"), table(__file__, "labels"))
def test_a_label_gets_its_one_name(kind, label, name):
    assert CLEANERS[kind](label) == (name, "")


@pytest.mark.parametrize(("kind", "label", "reason"), table(__file__, "dropped"))
def test_a_label_that_names_nothing_is_dropped_with_a_reason(kind, label, reason):
    assert CLEANERS[kind](label) == (None, reason)


@pytest.mark.parametrize("label", ["MCMXCIV", "c. 1994", "1994-95", "19940", "1994.5"])
def test_a_year_that_is_no_number_is_refused(label):
    refused("is no number; give four digits such as 1994, or leave it empty", lexicon.clean_year, label)


@pytest.mark.parametrize(("name", "content", "message"), table(__file__, "bad_files"))
def test_a_bad_file_is_refused_by_name_and_left_alone(tmp_path, name, content, message):
    path = written(tmp_path, content, name)
    refused(message, load, path)
    assert path.read_text(encoding="utf-8") == content


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "films.json"
    path.write_bytes(b'{"A": "\xff"}')
    refused(r"films.json: not UTF-8 text", load, path)


def test_weak_genres_are_genres():
    assert lexicon.name_of("genres").keys() >= lexicon.weak_genres()


@pytest.mark.parametrize("kind", ["genres", "languages"])
def test_a_spelling_belongs_to_one_name_only(kind):
    owner = {}
    for name, aliases in lexicon.spellings(kind).items():
        for form in map(fold, [name, *aliases]):
            assert form
            assert owner.setdefault(form, name) == name


def test_plots_keep_their_longer_words():
    text = "A smuggler crosses the border; the SMUGGLER and his wife hide 1234 emeralds from them."
    assert fields.plot_keywords(text) == ["smuggler", "crosses", "border", "wife", "hide", "emeralds"]
    assert fields.plot_keywords("a film about love, death and a bank") == ["love", "death", "bank"]
    assert fields.plot_keywords("") == []


@pytest.mark.parametrize("name", ["films.json", "films.parquet", "folder"])
def test_a_missing_file_is_refused_with_what_may_be_given(tmp_path, name):
    (tmp_path / "folder").mkdir()
    refused(r"no catalogue at .*; give 'sample', a .json .*or a film a row as .csv", load, tmp_path / name)


def test_a_parquet_file_written_by_others_is_read(tmp_path):
    films = {"item_id": ["a", "b"], "title": ["Alpha", "Beta"], "year": [1980, None]}
    frame = pd.DataFrame({**films, "genre": [["Drama"], None], "mood": ["x", "y"]})
    frame.to_parquet(tmp_path / "theirs.parquet")
    catalog = load(tmp_path / "theirs.parquet")
    assert dated(catalog.items) == [("Alpha", 1980), ("Beta", None)]
    assert [item.item_id for item in catalog.items] == ["a", "b"]
    assert [item.values["genre"] for item in catalog.items] == [("Drama",), ()]
    assert catalog.report.ignored_keys == {"mood": 2}


def test_a_parquet_file_without_fields_is_refused(tmp_path):
    pd.DataFrame({"title": ["A"]}).to_parquet(tmp_path / "few.parquet")
    refused(r"few.parquet: 1 records and no value of any field .*\"A\"", load, tmp_path / "few.parquet")


def test_a_name_goes_before_the_key_of_a_json_file(tmp_path):
    films = {"key": {"name": "Amélie", "year": 2001, "genre": "Comedy"}, "Beta": {}}
    catalog = load(written(tmp_path, json.dumps(films)))
    assert dated(catalog.items) == [("Amélie", 2001), ("Beta", None)]
    assert catalog.source == "films.json"


def test_a_title_may_be_a_key_twice(tmp_path):
    films = []
    for year in (1972, 2002, 2002):
        films.append(f'"Solaris": {{"year": "{year}", "genre": "Drama"}}')
    catalog = load(written(tmp_path, f"{{{', '.join(films)}}}"))
    assert dated(catalog.items) == [("Solaris", 1972), ("Solaris", 2002)]
    assert catalog.report.films_read == 3


def test_a_relative_path_counts_from_here_or_from_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = os.path.relpath(paths.samples() / "movies.json", paths.ROOT)
    assert len(load(relative)) == len(load("sample"))


def test_the_hash_depends_on_what_the_films_are_only(tmp_path):
    first = load(written(tmp_path, '{"A": {"year": "1980", "actor": ["B C"]}}'))
    same = load(
        written(tmp_path, '{"A": {"actor": "B  C (actor)", "year": 1980, "rating": 3}}', "other.json")
    )
    other = load(written(tmp_path, '{"A": {"year": "1981", "actor": ["B C"]}}'))
    assert content_hash(first) == content_hash(same)
    assert content_hash(first) != content_hash(other)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Forty films as CSV, TSV, JSON lines, a JSON list, a JSON object by title, and Parquet; two thirds of
    their directors are written in scripts without or with other letters.
    """
    films = [film for film in load().export() if film["recommendable"]][:40]
    rows = []
    for number, film in enumerate(films):
        directors = (["李小龍"], ["Андрей Тарковский"], film["director"])
        film.update(item_id=f"film-{number}", director=directors[number % 3])
        rows.append({head: film[name] for head, name in HEADS.items()})
    rows[0]["Genres"] = [*rows[0]["Genres"], "Bollywood Noir"]
    folder = tmp_path_factory.mktemp("films")
    frame = pd.DataFrame(rows)
    frame.to_parquet(folder / "films.parquet")
    frame.to_json(folder / "films.jsonl", orient="records", lines=True, force_ascii=False)
    frame.to_json(folder / "films.json", orient="records", force_ascii=False)
    by_title = {row["Title"]: row for row in rows}
    written(folder, json.dumps(by_title, ensure_ascii=False), "by_title.json")
    joined = frame.assign(**{head: frame[head].map(mark.join) for head, mark in MARKS.items()})
    joined.to_csv(folder / "films.csv", index=False)
    joined.to_csv(folder / "films.tsv", index=False, sep="\t")
    return folder


@pytest.mark.parametrize("name", ["films.tsv", "films.jsonl", "films.json", "by_title.json", "films.parquet"])
def test_every_form_gives_the_same_films(files, name):
    films = load(files / "films.csv")
    assert len(films) == 40
    assert content_hash(load(files / name)) == content_hash(films)


def test_any_script_reaches_the_end(files):
    films = load(files / "films.csv")
    assert {"李小龍", "Андрей Тарковский"} <= set(films.values("director"))
    assert "Bollywood Noir" in films.values("genre")
    settings = {"systems": ("oracle", "tracker"), "n_sessions": 12, "n_turns": 8}
    folder = simulated(run="films-of-a-table", catalog=str(files / "films.csv"), **settings)
    assert len(simulate.dialogues("films-of-a-table")) == 24
    assert content_hash(load(folder / "catalog.parquet")) == content_hash(films)


def test_a_column_of_another_name_is_said_to_be_a_field(files):
    text = (files / "films.csv").read_text(encoding="utf-8").replace("Cast", "Players of it", 1)
    path = written(files, text, "other.csv")
    assert "not used: Players of it" in str(load(path).report)
    assert content_hash(load(f"{path}+Players of it=actor")) == content_hash(load(files / "films.csv"))


def test_an_export_is_read_back(tmp_path):
    films = load()
    path = written(tmp_path, "\n".join(map(json.dumps, films.export())), "sample.jsonl")
    assert content_hash(load(path)) == content_hash(films)


def test_a_spreadsheets_semicolons_are_read(tmp_path):
    path = written(tmp_path, "\ufeffTitle;Year;Genre\nAmélie;2001;Comedy, Romance\n", "films.csv")
    [film] = load(path).export()
    assert film["genre"] == ["Comedy", "Romance"]


def test_another_encoding_is_named(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("Title;Year;Genre\nAmélie;2001;Comedy\n", encoding="latin-1")
    refused(r"films\.csv, line 2 is not in UTF-8; in Latin-1 it is 'Amélie;2001;Comedy'", load, path)
    assert load(f"{path}+encoding=latin-1").items[0].title == "Amélie"


def test_two_catalogues_with_a_field_of_one_name_do_not_touch_one_another(tmp_path):
    declared = {
        "a": "fields: {shelf: {kind: topic, phrases: [on the $value shelf], keep: 2}}",
        "b": "fields: {shelf: {kind: name, phrases: [from shelf $value], keep: 5}}\nwords: {movie: disc}",
    }
    catalogs = {}
    for name, declaration in declared.items():
        written(tmp_path, declaration, f"{name}.yaml")
        catalogs[name] = load(written(tmp_path, "title,genre,shelf\nAlpha,Drama,Dreams\n", f"{name}.csv"))
    first, second = catalogs.values()
    assert first.fields["shelf"].phrases == ("on the $value shelf",)
    assert second.fields["shelf"].phrases == ("from shelf $value",)
    assert first.values("shelf") == ["dreams"]
    assert second.values("shelf") == ["Dreams"]
    assert first.words == {}
    assert second.words == {"movie": "disc"}
    assert first.relaxation_order.index("shelf") < second.relaxation_order.index("shelf")


def test_the_sample_has_no_field_that_another_catalogue_declares():
    assert "shelf" not in load("sample").fields
    refused("unknown field 'shelf'", load("sample").values, "shelf")
