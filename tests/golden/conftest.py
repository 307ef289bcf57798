"""The session records of a thesis log are kept for the tests of one file."""

import pytest

from tests.helpers import thesis_data


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """Thousands of nested records slow the garbage collector for all that follows."""
    yield
    thesis_data.sessions.cache_clear()
