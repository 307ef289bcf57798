"""Every case has a public report or a described form, a name of its own, and a right value or words of a refusal."""

import re

import pytest

from tests.edges.cases import FOLDER, cases

TABLES = sorted(path.stem.removeprefix("cases_") for path in FOLDER.glob("cases_*.toml"))
REPORT = r"[\w.-]+/[\w.-]+#\d+"
FORM = r"form: .+ \(.+\)"  # which nobody reported: what it is, and where it is described


@pytest.mark.parametrize("table", TABLES)
def test_every_case_says_where_it_is_from_and_what_is_right(table):
    names = set()
    for parameter in cases(table):
        (case,) = parameter.values
        assert re.fullmatch(f"{REPORT}|{FORM}", case.source), (
            f"{case.name}: {case.source!r} is no public source"
        )
        assert (case.right is None) == bool(case.refused), f"{case.name}: give right, or refused"
        assert case.name not in names
        names.add(case.name)
