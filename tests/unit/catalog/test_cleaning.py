"""Cleaning label by label and a whole catalogue: every edit is in the report, every bad record is named."""

import math

import pytest

from crs_lib.catalog import fields, lexicon
from crs_lib.catalog.cleaning import clean
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold

DIRTY = [
    ("Alpha", {"genre": ["Drama", "drama film", "France"], "actor": ["Ana  Bell", "ana bell", "nm123"], "year": "1980"}),
    ("ALPHA", {"genre": "Comedy", "actor": ["Cy Hale"], "year": 1980, "plot": "A plot."}),
    ("Alpha", {"director": ["Zoe Tarn"], "year": "1999"}),
    ("Beta", {"language": ["French", "French Language"], "year": "1850", "rating": 7}),
]  # fmt: skip


def test_values_are_cleaned_and_films_of_one_title_are_one_unless_their_years_differ():
    items, _ = clean(DIRTY)
    alpha = items[0]
    assert alpha.values["genre"] == ("Drama", "Comedy")  # the second record is the same film and adds a genre
    assert alpha.values["actor"] == ("Ana Bell", "Cy Hale")
    assert (alpha.title, alpha.year, alpha.plot) == ("Alpha", 1980, "A plot.")
    items, report = clean(DIRTY)
    assert [(item.title, item.year) for item in items] == [("Alpha", 1980), ("Alpha", 1999), ("Beta", None)]
    assert report.merged_films == [("ALPHA", "Alpha")]
    assert (report.films_read, report.films_kept) == (4, 3)
    records = [("Alpha", {"year": "1980"}), ("Alpha", {"year": "1999"}), ("Alpha", {"actor": ["Ana Bell"]})]
    items, _ = clean(records)
    assert [(item.year, item.values["actor"]) for item in items] == [(1980, ("Ana Bell",)), (1999, ())]
    items, report = clean([("!!!", {"actor": ["Ana Bell"]}), ("???", {"actor": ["Cy Hale"]}), ("!!!", {})])
    assert [item.title for item in items] == ["!!!", "???"]
    assert report.merged_films == [("!!!", "!!!")]


def test_the_report_counts_every_edit():
    _, report = clean(DIRTY)
    summary = report.summary().set_index("field")
    assert summary.loc["genre"].to_dict() == {
        "values before": 4, "distinct before": 4, "merged": 1, "dropped": 1, "doublets": 1, "values after": 2,
        "distinct after": 2,
    }  # fmt: skip
    # "Ana  Bell" and "ana bell" tidied and named twice, "nm123" dropped; the twin film brings "Cy Hale"
    assert summary.loc["actor", ["values before", "dropped", "doublets", "values after"]].tolist() == [
        4, 1, 1, 2,
    ]  # fmt: skip
    changes = report.table("genre", "dropped")
    assert changes.to_dict("records") == [
        {"field": "genre", "action": "dropped", "from": "France", "to": "", "reason": "no genre", "films": 1}
    ]
    assert report.table("year")["reason"].tolist() == ["before 1900"]
    assert report.ignored_keys == {"rating": 1}
    assert report.low_information == 1  # Beta
    told = (
        "4 films read, 3 kept, 1 merged; 1 without actor and director (never recommended); not used: rating"
    )
    assert str(report) == told


def test_the_most_frequent_spelling_wins_then_the_first_in_order():
    actors = ["José Gil", "Jose Gil", "José Gil", "Bo Ek", "BO EK"]
    items, report = clean([(f"Film {i}", {"actor": [name]}) for i, name in enumerate(actors)])
    assert [item.values["actor"][0] for item in items] == ["José Gil"] * 3 + ["BO EK"] * 2
    assert report.table("actor")[["from", "to"]].to_numpy().tolist() == [
        ["Bo Ek", "BO EK"],
        ["Jose Gil", "José Gil"],
    ]


def test_ids_are_kept_or_made_and_never_shared():
    records = [
        ("Alpha", {"year": "1980"}), ("Beta", {"original_id": "alpha-1980"}), ("Gamma", {"item_id": "g"}), ("…", {}), ("?", {}),
    ]  # fmt: skip
    items, _ = clean(records)
    assert [item.item_id for item in items] == ["alpha-1980-2", "alpha-1980", "g", "film", "film-2"]
    with pytest.raises(InputError, match="films 'Alpha' and 'Beta' share the id 'x'; ids must be unique"):
        clean([("Alpha", {"item_id": "x"}), ("Beta", {"item_id": "x"})])


@pytest.mark.parametrize(("key", "record", "message"), [
    ("", {"year": "1980"}, r"record 2 \(''\): field 'title' is empty; every film needs a title"),
    (" ", {"name": "  "}, r"field 'title' is empty"),
    ("Bad", {"year": "soon"}, r"record 2 \('Bad'\): field 'year': year 'soon' is no number"),
    ("Bad", {"year": 1994.5}, r"record 2 \('Bad'\): field 'year' must be a text or a list of texts, got 1994.5"),
    ("Bad", {"year": True}, r"field 'year' must be a text or a list of texts, got True"),
    ("Bad", {"actor": ["Ana Bell", None]}, r"field 'actor' must be a text or a list of texts"),
    ("Bad", {"genre": {"a": 1}}, r"field 'genre' must be a text or a list of texts"),
    ("Bad", ["Drama"], r"record 2 \('Bad'\): expected an object with the film's fields, got \['Drama'\]"),
])  # fmt: skip
def test_a_bad_record_is_named_with_its_field(key, record, message):
    with pytest.raises(InputError, match=message):
        clean([("Good", {}), (key, record)])


@pytest.mark.parametrize("year", [None, "", math.nan])
def test_a_missing_year_is_missing(year):
    items, report = clean([("Alpha", {"year": year})])
    assert items[0].year is None
    assert report.before["year"].total() == 0


@pytest.mark.parametrize(("raw", "value"), [
    ("Drama", "Drama"), ("drama film", "Drama"), ("Sci-Fi", "Science Fiction"), ("SCIENCE  fiction", "Science Fiction"),
    ("Family (Film genre) #395", "Family"), ("Crime Fiction", "Crime"), ("zombie (media genre)", "Zombie"),
    ("Thriller Movies", "Thriller"), ("film-noir", "Film Noir"),
])  # fmt: skip
def test_a_label_that_names_a_genre_becomes_that_genre(raw, value):
    assert lexicon.clean_genre(raw) == (value, "")


@pytest.mark.parametrize(
    "raw", ["United Kingdom", "George W. Bush", "Transformers (comic book)", "Fiction", "Film"]
)
def test_a_label_that_names_no_genre_is_dropped_with_a_reason(raw):
    assert lexicon.clean_genre(raw) == (None, "no genre")


def test_spellings_codes_and_weak_genres_of_the_lexicon():
    assert lexicon.clean_genre("Drama of the Sea").value is None
    assert lexicon.clean_language("Languages of Love").value == "Languages of Love"
    spoken = {form for name in lexicon.LANGUAGES for form in fields.FIELDS["language"].forms(name)}
    assert not spoken & set(lexicon.LANGUAGE_CODES)
    assert all(lexicon.clean_language(code).value == name for code, name in lexicon.LANGUAGE_CODES.items())
    forms = {fold(form) for name, aliases in lexicon.GENRES.items() for form in (name, *aliases)}
    assert forms >= lexicon.WEAK_GENRES


@pytest.mark.parametrize(("raw", "value"), [
    ("French", "French"), ("French Language", "French"), ("fre", "French"), ("fra", "French"), ("french-language", "French"),
    ("Standard Chinese", "Mandarin"), ("Farsi", "Persian"), ("Klingon LANGUAGE", "Klingon"), ("Foo language languages", "Foo"),
    ("Foo (x) language", "Foo"), ("American Sign Language", "American Sign Language"), ("sign language", "sign language"),
])  # fmt: skip
def test_a_language_has_one_name(raw, value):
    assert lexicon.clean_language(raw).value == value


@pytest.mark.parametrize("raw", ["Language", "silent film", "Unknown language", "none"])
def test_what_is_no_language_is_dropped(raw):
    assert lexicon.clean_language(raw) == (None, "no language")


@pytest.mark.parametrize(("raw", "value"), [
    ("George Miller (Director)", "George Miller"), ("Todd  Edwards (actor) #1", "Todd Edwards"), ("Stig", "Stig"),
    ("D'Arcy O'Neill", "D'Arcy O'Neill"), ("(x)", None), ("nm1157013", None), ("Unknown", None), ("  ", None), ("?!", None),
])  # fmt: skip
def test_a_person_keeps_the_name_and_loses_the_marks(raw, value):
    assert lexicon.clean_person(raw).value == value


@pytest.mark.parametrize(("raw", "value", "reason"), [
    ("1994", "1994", ""), (" 2001 ", "2001", ""), ("1900", "1900", ""), ("1899", None, "before 1900"),
    ("-50", None, "before 1900"), ("975", None, "before 1900"), ("", None, "empty"), ("１９９４", "1994", ""),
])  # fmt: skip
def test_years_are_numbers_from_1900_on(raw, value, reason):
    assert lexicon.clean_year(raw) == (value, reason)


@pytest.mark.parametrize("raw", ["MCMXCIV", "c. 1994", "1994-95", "19940", "1994.5"])
def test_a_year_that_is_no_number_is_an_error(raw):
    with pytest.raises(InputError, match="is no number; give four digits such as 1994, or leave it empty"):
        lexicon.clean_year(raw)


def test_an_unknown_field_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown field 'actors'; did .*'actor'\? \(known: genre, actor"):
        fields.get("actors")


@pytest.mark.parametrize("table", [lexicon.GENRES, lexicon.LANGUAGES])
def test_a_spelling_belongs_to_one_name_only(table):
    owner = {}
    for name, aliases in table.items():
        for form in {fold(name), *map(fold, aliases)}:
            assert owner.setdefault(form, name) == name, form
    assert all(owner)


def test_any_name_keeps_its_words_and_aliases_become_their_value():
    assert lexicon.clean_name("  New   Zealand (country) #2") == ("New Zealand", "")
    assert lexicon.clean_name("?!") == (None, "empty")
    clean = lexicon._cleaner({"United States": ("USA", "U.S.")})
    assert [clean(raw).value for raw in ("usa", "U.S. (country)", "united states", "Chile", "")] == [
        "United States", "United States", "United States", "Chile", None,
    ]  # fmt: skip


def test_plot_keywords_are_longer_words_once_in_order_without_function_words():
    text = "A smuggler crosses the border; the SMUGGLER and his wife hide 1234 emeralds from them."
    assert fields.plot_keywords(text) == ["smuggler", "crosses", "border", "wife", "hide", "emeralds"]
    assert fields.plot_keywords("a film about love, death and a bank") == ["love", "death", "bank"]
    assert fields.plot_keywords("") == []
