"""Ids on disk: the same sequence, found by name, and damage is named."""

import numpy as np
import pytest

from crs_lib.core.errors import RunError
from crs_lib.retrieval import store
from crs_lib.retrieval.store import StoredIds, save_ids


@pytest.mark.parametrize("names", [[], ["one"], ["b", "", "é€😀", "a" * 300, "B"]])
def test_ids_are_a_sequence_and_found_by_name(tmp_path, names):
    save_ids(tmp_path, names)
    stored = StoredIds(tmp_path, len(names))
    assert list(stored) == names == [stored[i] for i in range(len(names))]
    assert [stored.row(name) for name in names] == list(range(len(names)))
    assert stored.row("absent") is stored.row("a" * 301) is stored.row("zz") is None
    with pytest.raises(IndexError):
        stored[len(names)]


def test_missing_and_damaged_ids_are_named(tmp_path):
    with pytest.raises(RunError, match=r"cannot be read .* build it again"):
        StoredIds(tmp_path)
    save_ids(tmp_path, ["one", "two"])
    (tmp_path / "ids.npy").write_bytes((tmp_path / "ids.npy").read_bytes()[:-2])
    with pytest.raises(RunError, match=r"cannot be read .* build it again"):
        StoredIds(tmp_path)
    save_ids(tmp_path, ["one", "two"])
    with pytest.raises(RunError, match="ids do not fit; build it again"):
        StoredIds(tmp_path, 3)
    np.save(tmp_path / "ids.order.npy", np.zeros(1, np.int64))
    with pytest.raises(RunError, match="ids do not fit"):
        StoredIds(tmp_path)


def test_what_a_killed_process_left_is_removed_and_what_another_one_fills_is_not(tmp_path):
    dead, filling = (tmp_path / f".ix.{name}.part" for name in ("12ab", "34cd"))
    for one in (dead, filling):
        (one / "x").mkdir(parents=True)
    with store._held(filling), store.new_folder(tmp_path / "ix", "kind", {}):
        assert not dead.exists() and filling.exists()
    assert {path.name for path in tmp_path.iterdir()} == {filling.name, "ix"}
