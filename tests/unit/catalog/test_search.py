"""Queries: items in common, what is given up, and answers that are kept."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog.catalog import Catalog, _common
from tests.helpers.films import catalog

SETS = st.lists(st.sets(st.integers(0, 11)), min_size=2, max_size=2)


def array(items):
    return np.array(sorted(items), dtype=np.int32)


@given(SETS)
def test_items_in_common_stand_in_both(sets):
    one, other = sets
    found = _common(array(one), array(other))
    assert (found.tolist(), found.dtype) == (sorted(one & other), np.int32)


@given(st.lists(st.sets(st.integers(0, 11), min_size=1), min_size=1, max_size=4), st.sets(st.integers(0, 11)))
def test_every_concept_is_met_or_taken_away(sets, left):
    names = [f"Person N{number}" for number in range(len(sets))]
    films = Catalog.from_records(
        (
            f"Film {i}",
            {"actor": [n for n, one in zip(names, sets, strict=True) if i in one], "director": ["X Y"]},
        )
        for i in range(12)
    )
    codes = [films.code("actor", name) for name in names]
    assert films.query_codes(codes).tolist() == sorted(set.intersection(*sets))
    assert films.query({"actor": names}).items.tolist() == sorted(set.union(*sets))
    assert films.without(array(left), codes[0]).tolist() == sorted(left - sets[0])
    assert len(films.query_codes([])) == 12


@pytest.mark.parametrize("several", [["War", "Comedy"], ("War", "Comedy")])
def test_an_answer_is_the_same_again_and_after_it_was_forgotten(several):
    ten, wishes = catalog(), {"genre": several, "actor": "Cy Hale", "year": 1911}
    first = ten.query(wishes, relax=True)
    assert len(first.items) and first.dropped == ("year",)
    assert ten.query(wishes, relax=True) is first
    ten.forget()
    again = ten.query(wishes, relax=True)
    assert again is not first
    assert (again.items.tolist(), again.dropped) == (first.items.tolist(), first.dropped)
    with pytest.raises(ValueError, match="read-only"):
        ten.query(wishes, relax=True).items[0] = 0


def test_a_catalogue_that_was_asked_can_be_sent_to_another_process():
    ten = catalog()
    wishes = {"genre": "War", "actor": ["Cy Hale", "Stig"]}
    first = ten.query(wishes, relax=True)
    there = pickle.loads(pickle.dumps(ten))
    assert there.query(wishes, relax=True).items.tolist() == first.items.tolist()
