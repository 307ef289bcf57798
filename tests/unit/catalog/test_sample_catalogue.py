"""The embedded catalogue keeps what it promises: size, span, languages, genres, people, plots, tidiness."""

import json
import re
from collections import Counter

import pytest

from crs_lib.catalog import lexicon
from crs_lib.catalog.fields import FIELDS, PERSON_FIELDS
from crs_lib.core import paths
from crs_lib.core.text import fold, words
from tests.helpers.sample import SAMPLE

RAW = json.loads((paths.samples() / "movies.json").read_text(encoding="utf-8"))
KEYS = {"name", "year", "genre", "actor", "director", "writer", "language", "plot", "plot_keywords"}
LANGUAGES = {
    "Amharic", "Arabic", "Bambara", "Bengali", "Bosnian", "Cantonese", "Czech", "Danish", "Dutch", "English", "Finnish", "French",
    "German", "Greek", "Hebrew", "Hindi", "Hokkien", "Hungarian", "Icelandic", "Indonesian", "Italian", "Japanese", "Korean",
    "Malayalam", "Mandarin", "Mixtec", "Norwegian", "Persian", "Polish", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish",
    "Tamasheq", "Tamil", "Telugu", "Thai", "Turkish", "Vietnamese", "Wayuu", "Wolof",
}  # fmt: skip


def test_films_over_a_century_with_languages_genres_and_people():
    assert len(SAMPLE) == len(RAW) >= 600
    years = Counter(item.year for item in SAMPLE.items)
    assert min(years) >= 1925
    assert max(years) <= 2024
    decades = Counter(year // 10 * 10 for year in years.elements())
    assert set(decades) == set(range(1920, 2030, 10))
    assert sum(n >= 20 for n in decades.values()) >= 9
    assert len(SAMPLE.values("language")) >= 20
    assert len(SAMPLE.genres(5)) >= 18
    films_of = Counter(
        name
        for item in SAMPLE.items
        for name in {fold(v) for field in PERSON_FIELDS for v in item.values[field]}
    )
    assert sum(n >= 3 for n in films_of.values()) >= 150


@pytest.mark.parametrize("field", sorted(KEYS))
def test_every_field_is_filled_in_every_film(field):
    assert [title for title, record in RAW.items() if not record.get(field)] == []


def test_every_record_has_the_form_and_cleaning_has_nothing_to_do():
    for title, record in RAW.items():
        assert set(record) == KEYS, title
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
    assert set(SAMPLE.values("genre")) <= set(lexicon.GENRES)
    assert set(SAMPLE.values("language")) <= LANGUAGES
    spoken = {fold(v) for v in SAMPLE.values("language")}
    genres = {fold(v) for v in SAMPLE.values("genre")}
    assert not spoken & genres
    for field in PERSON_FIELDS:
        assert not {fold(v) for v in SAMPLE.values(field)} & (spoken | genres)
    assert {name for name in FIELDS if SAMPLE.values(name)} == KEYS - {"name", "plot", "plot_keywords"}


def test_people_have_whole_names_written_in_one_way():
    spelling = {}
    for item in SAMPLE.items:
        for field in PERSON_FIELDS:
            for name in item.values[field]:
                assert spelling.setdefault(fold(name), name) == name
    one_word = {v for item in SAMPLE.items for f in PERSON_FIELDS for v in item.values[f] if " " not in v}
    assert len(one_word) <= 40, sorted(one_word)
    for item in SAMPLE.items:
        for field in PERSON_FIELDS:
            assert not [v for v in item.values[field] if re.search(r"[()#\d/;]", v)], item.title


def test_plots_are_one_or_two_sentences_that_do_not_name_the_film_s_people():
    plots = Counter(item.plot for item in SAMPLE.items)
    assert max(plots.values()) == 1
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
