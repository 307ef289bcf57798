"""Catalogues of the world: every public form is read as what it means, or refused with its place."""

import pytest

from crs_lib.catalog import sources
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


CALLS = {"films": films, "rows": rows, "years": years, "form": form, "also": also}


@pytest.mark.parametrize("case", cases("catalog"))
def test_a_catalogue_is_read_as_it_is_meant(case, tmp_path):
    case.check(CALLS, tmp_path)
