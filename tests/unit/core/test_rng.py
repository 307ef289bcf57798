"""Randomness has an address: the same everywhere, independent of order, distinct between addresses."""

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crs_lib.core.errors import InputError
from crs_lib.core.rng import address_seed, check_seed, stream
from tests.helpers import hash_seeds

NAMES = st.lists(st.text(max_size=8) | st.integers(-5, 10**6), max_size=4)


def test_the_numbers_are_fixed_and_hashed_as_the_documentation_says():
    """A change here changes every published result: the streams are part of the file formats."""
    assert stream(7, "movies", 3, "user").integers(0, 1000, 5).tolist() == [656, 809, 753, 886, 949]
    assert address_seed(7, "movies") == 459369972
    digest = hashlib.sha256(b'[7, "movies", 3, "user"]').digest()
    expected = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    assert (stream(7, "movies", 3, "user").random(4) == expected.random(4)).all()
    assert check_seed(np.int32(5)) == 5
    assert stream(np.int64(5), "x").random() == stream(5, "x").random()
    # 500 neighbours: under independence |r| exceeds 0.15 in fewer than 1 of 1,000 draws.
    draws = np.array([stream(1, "movies", session, "user").random() for session in range(501)])
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.15
    assert 0.45 < draws.mean() < 0.55


@given(seed=st.integers(0, 2**70), names=NAMES)
def test_an_address_gives_the_same_stream_whatever_came_before(seed, names):
    first = stream(seed, *names).random(3)
    stream(seed, "something", "else").random(100)
    np.random.default_rng(0).random(10)
    assert (stream(seed, *names).random(3) == first).all()


@example(7, ["a", "b"], ["ab"])
@example(7, ["a", "b"], ["b", "a"])
@example(7, [1], ["1"])
@example(7, [], [""])
@example(7, ["a", ""], ["a"])
@given(seed=st.integers(0, 2**40), one=NAMES, two=NAMES)
@pytest.mark.slow
def test_other_addresses_give_other_streams(seed, one, two):
    same = [(type(name), name) for name in one] == [(type(name), name) for name in two]
    assert (stream(seed, *one).integers(0, 2**63) == stream(seed, *two).integers(0, 2**63)) == same


@pytest.mark.subprocess
def test_another_process_with_another_hash_seed_draws_the_same():
    code = "from crs_lib.core.rng import stream; print(stream(7, 'é', 3).random(4).tolist())"
    assert hash_seeds.printed(code) == str(stream(7, "é", 3).random(4).tolist())


@given(st.integers(0, 2**70), NAMES)
def test_plain_seeds_fit_in_31_bits_and_follow_the_address(seed, names):
    assert 0 <= address_seed(seed, *names) == address_seed(seed, *names) < 2**31 - 1


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True, np.float64(2)])
def test_a_seed_is_a_whole_number_from_zero(seed):
    with pytest.raises(InputError, match="give a whole number >= 0"):
        stream(seed, "x")
