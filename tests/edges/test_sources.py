"""Every case has a public source, a name of its own, and either a right value or words of a refusal."""

import re

import pytest

from tests.edges.cases import FOLDER, cases

TABLES = sorted(path.stem.removeprefix("cases_") for path in FOLDER.glob("cases_*.toml"))
SOURCE = r"[\w.-]+/[\w.-]+#\d+|form: .+"


@pytest.mark.parametrize("table", TABLES)
def test_every_case_says_where_it_is_from_and_what_is_right(table):
    names = set()
    for parameter in cases(table):
        (case,) = parameter.values
        assert re.fullmatch(SOURCE, case.source), f"{case.name}: {case.source!r} is no public source"
        assert (case.right is None) == bool(case.refused), f"{case.name}: give right, or refused"
        assert case.name not in names
        names.add(case.name)
