"""Searching postings: columns and bisection, the smallest first, and what is given up."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog.index import Constraint, Found, ItemGroup, all_of, most_of
from tests.helpers.films import catalog

MANY = 5_000  # more than a small catalogue: rare concepts are looked up by bisection


def array(items):
    return np.array(sorted(items), dtype=np.int32)


def plain(sets, n):
    return sorted(set(range(n)).intersection(*sets))


SETS = st.sampled_from([12, MANY]).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.sets(st.integers(0, n - 1), max_size=6) | st.integers(2, 9).map(lambda k: set(range(0, n, k))),
            max_size=4,
        ),
    )
)


@given(SETS)
def test_all_groups_are_met(case):
    n, sets = case
    found = all_of([ItemGroup(array(one), n) for one in sets], array(range(n)))
    assert found.tolist() == plain(sets, n)
    assert found.dtype == np.int32


@given(SETS)
def test_the_lowest_ranks_are_given_up_until_an_item_is_left(case):
    n, sets = case
    wishes = [Constraint(rank, f"f{rank}", ItemGroup(array(one), n)) for rank, one in enumerate(sets)]
    kept = next(i for i in range(len(sets) + 1) if plain(sets[i:], n))
    found = most_of(wishes[::-1], array(range(n)))
    assert (found.items.tolist(), found.dropped) == (
        plain(sets[kept:], n),
        tuple(f"f{rank}" for rank in range(kept)),
    )
    assert found.exact is (kept == 0)


@given(SETS)
def test_what_must_not_come_is_taken_away(case):
    n, sets = case
    left = array(range(0, n, 2))
    for one in sets:
        left = ItemGroup(array(one), n).without(left)
    assert left.tolist() == sorted(set(range(0, n, 2)).difference(*sets))
    assert left.dtype == np.int32


def test_without_any_item_all_is_given_up():
    nothing = array([])
    assert most_of([Constraint(0, "a", ItemGroup(nothing, 0))], nothing) == Found(nothing, ("a",))
    assert all_of([], nothing).tolist() == []


@pytest.mark.parametrize("several", [["War", "Comedy"], ("War", "Comedy")])
def test_an_answer_is_the_same_again_and_after_it_was_forgotten(several):
    ten, wishes = catalog(), {"genre": several, "actor": "Cy Hale", "year": 1911}
    first = ten.query(wishes, relax=True)
    assert len(first.items) and first.dropped == ("year",)
    assert ten.query(wishes, relax=True) is first
    for forget in (ten.forget_answers, ten.forget):
        forget()
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


def test_another_thread_never_sees_a_column_that_is_not_filled_yet(monkeypatch):
    group, items, empty = ItemGroup(np.array([1, 3], np.int32), 8), np.arange(8, dtype=np.int32), np.zeros
    seen = []

    class Interrupted(np.ndarray):
        """Lets another caller have its turn before it is written to."""

        def __setitem__(self, place, value):
            monkeypatch.setattr(np, "zeros", empty)
            seen.append(group.among(items).tolist())
            super().__setitem__(place, value)

    monkeypatch.setattr(np, "zeros", lambda n, dtype: empty(n, dtype=dtype).view(Interrupted))
    assert group.among(items).tolist() == [1, 3]
    assert seen == [[1, 3]]
