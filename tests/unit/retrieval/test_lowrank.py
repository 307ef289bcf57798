import numpy as np
import pytest

from crs_lib.core.errors import InputError
from crs_lib.retrieval import lowrank


def made(seed, inputs=6, outputs=4, rank=2):
    rng = np.random.default_rng(seed)
    shapes = {"a.weight": (inputs, outputs), "b.weight": (outputs, inputs)}
    return {
        name: (rng.normal(size=(m, rank)).astype(np.float32), rng.normal(size=(rank, n)).astype(np.float32))
        for name, (m, n) in shapes.items()
    }


def test_factors_come_back_to_a_254th_of_their_largest_and_bytes_are_equal(tmp_path):
    updates = {"one": made(0), "two": made(1)}
    record = {"updates": {"one": {"taught by": ["x"]}, "two": {"taught by": []}}, "licence": "none"}
    for name in ("first.npz", "again.npz"):
        lowrank.write(tmp_path / name, updates, record)
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    found = lowrank.read(tmp_path / "first.npz")
    assert found.names == ["one", "two"] and found.record["licence"] == "none" and found.record["rank"] == 2
    assert found.record["updates"]["one"]["taught by"] == ["x"]
    assert found.record["updates"]["one"]["digest"] != found.record["updates"]["two"]["digest"]
    for name, factors in updates.items():
        for weight, (one, two) in found.factors(name).items():
            first, second = factors[weight]
            assert np.all(np.abs(one - first) <= np.abs(first).max(axis=0) / 253)
            assert np.all(np.abs(two - second) <= np.abs(second).max(axis=1, keepdims=True) / 253)
    with pytest.raises(InputError, match=r"no update 'three'; expected one, two"):
        found.factors("three")


def test_no_file_is_none_and_a_damaged_one_is_named(tmp_path):
    assert lowrank.read(tmp_path / "none.npz") is None
    (tmp_path / "bad.npz").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match=r"bad.npz cannot be read"):
        lowrank.read(tmp_path / "bad.npz")


def test_numbers_that_are_not_those_of_the_record_are_refused(tmp_path):
    place = tmp_path / "one.npz"
    lowrank.write(place, {"one": made(0)}, {"updates": {"one": {}}})
    with np.load(place) as stored:
        arrays = dict(stored)
    np.savez_compressed(tmp_path / "zeros.npz", **{**arrays, "one codes": arrays["one codes"] * 0})
    with pytest.raises(InputError, match=r"zeros.npz .*another sha256"):
        lowrank.read(tmp_path / "zeros.npz").factors("one")
    np.savez_compressed(tmp_path / "short.npz", **{**arrays, "record": np.array("{}")})
    with pytest.raises(InputError, match=r"short.npz .*lacks updates"):
        lowrank.read(tmp_path / "short.npz")
    whole = place.read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut.npz cannot be read"):
        lowrank.read(tmp_path / "cut.npz")


def test_an_update_is_added_to_the_weights_that_it_names_and_must_fit():
    factors = made(0)
    weights = {"a.weight": np.ones((6, 4), np.float32), "c": np.ones(3, np.float32)}
    out = lowrank.added(weights, {"a.weight": factors["a.weight"]})
    one, two = factors["a.weight"]
    assert np.allclose(out["a.weight"], 1 + one @ two) and out["c"] is weights["c"]
    assert weights["a.weight"].sum() == 24
    with pytest.raises(InputError, match=r"weight 'b\.weight'"):
        lowrank.added(weights, factors)
