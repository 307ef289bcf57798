"""Cleaning a whole catalogue: every edit is in the report, every bad record is named."""

import math

import pytest

from crs_lib.catalog.cleaning import clean
from crs_lib.core.errors import InputError

DIRTY = [
    ("Alpha", {"genre": ["Drama", "drama film", "France"], "actor": ["Ana  Bell", "ana bell", "nm123"], "year": "1980"}),
    ("ALPHA", {"genre": "Comedy", "actor": ["Cy Hale"], "year": 1980, "plot": "A plot."}),
    ("Alpha", {"director": ["Zoe Tarn"], "year": "1999"}),
    ("Beta", {"language": ["French", "French Language"], "year": "1850", "rating": 7}),
]  # fmt: skip


def test_values_are_cleaned_in_order_and_doublets_go():
    items, _ = clean(DIRTY)
    alpha = items[0]
    assert alpha.values["genre"] == ("Drama", "Comedy")  # the second record is the same film and adds a genre
    assert alpha.values["actor"] == ("Ana Bell", "Cy Hale")
    assert (alpha.title, alpha.year, alpha.plot) == ("Alpha", 1980, "A plot.")


def test_films_of_one_title_are_one_unless_their_years_differ():
    items, report = clean(DIRTY)
    assert [(item.title, item.year) for item in items] == [("Alpha", 1980), ("Alpha", 1999), ("Beta", None)]
    assert report.merged_films == [("ALPHA", "Alpha")]
    assert (report.films_read, report.films_kept) == (4, 3)


def test_a_film_without_a_year_joins_the_first_of_its_title():
    records = [("Alpha", {"year": "1980"}), ("Alpha", {"year": "1999"}), ("Alpha", {"actor": ["Ana Bell"]})]
    items, _ = clean(records)
    assert [(item.year, item.values["actor"]) for item in items] == [(1980, ("Ana Bell",)), (1999, ())]


def test_titles_without_words_are_told_apart():
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


def test_ids_are_kept_or_made_of_title_and_year_and_never_clash():
    records = [
        ("Alpha", {"year": "1980"}), ("Beta", {"original_id": "alpha-1980"}), ("Gamma", {"item_id": "g"}), ("…", {}), ("?", {}),
    ]  # fmt: skip
    items, _ = clean(records)
    assert [item.item_id for item in items] == ["alpha-1980-2", "alpha-1980", "g", "film", "film-2"]


def test_two_films_with_one_id_are_refused():
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
