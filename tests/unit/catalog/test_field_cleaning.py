"""Cleaning label by label: what becomes what, and why something is dropped."""

import pytest

from crs_lib.catalog import fields, lexicon
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold


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
