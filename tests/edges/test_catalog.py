"""Catalogues of the world: every public form is read as what it means, or refused with its place."""

import gzip

import pytest

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.titles import film_titled
from crs_lib.core.errors import InputError
from tests.edges.cases import cases


def films(path):
    """The films of a catalogue, a line each."""
    catalog = sources.load(path)
    lines = []
    for item in catalog.items:
        cells = [item.item_id, item.title, str(item.year or "")]
        for name in ("genre", "actor", "director", "language"):
            cells.append(", ".join(item.values[name]))
        lines.append(" | ".join(cells).rstrip(" |"))
    return lines


def rows(path):
    """The rows of a catalogue that are no films."""
    return [f"{note.row}: {note.action}, {note.reason}" for note in sources.load(path).report.row_notes]


def years(path):
    """The years of a catalogue's films, 0 for none."""
    return [item.year or 0 for item in sources.load(path).items]


def form(path):
    """The public form that a file has."""
    return sources.load(path).report.form


def also(path):
    """The further titles of a catalogue's films."""
    return [title for item in sources.load(path).items for title in item.also]


def told(path):
    """What the balance of a catalogue's rows says."""
    return sources.load(path).report.balance()


def test_a_packed_file_that_is_cut_off_says_so(tmp_path):
    path = tmp_path / "films.csv.gz"
    path.write_bytes(gzip.compress(b"title,year,genre\nAlpha,1990,Drama\n" * 99)[:-20])
    with pytest.raises(InputError, match=r"films\.csv\.gz is cut off or damaged.*again"):
        sources.load(path)


def test_a_listed_title_of_another_year_is_outside_the_catalogue(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("title,year,genre\nThe City,1927,Drama\nVampyr,,Horror\n", encoding="utf-8")
    catalog = sources.load(path)
    written = ["The City (1927)", "The City (1928)", "The City (2001)", "The City", "Vampyr (1932)"]
    assert [film_titled(catalog, title) for title in written] == [0, 0, None, 0, 1]


def named(case):
    """Whether each of some names is that of a catalogue's only film, as lists write it."""
    catalog = Catalog.from_records([(case["film"], {"genre": "Drama"})])
    return [film_titled(catalog, name) == 0 for name in case["names"]]


CALLS = {
    "named": named,
    "films": films,
    "rows": rows,
    "years": years,
    "form": form,
    "also": also,
    "told": told,
}


@pytest.mark.parametrize("case", cases("catalog"))
def test_a_catalogue_is_read_as_it_is_meant(case, tmp_path):
    case.check(CALLS, tmp_path)
