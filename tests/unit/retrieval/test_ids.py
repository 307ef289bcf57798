"""Ids on disk: the same sequence, found by name, and damage is named."""

from pathlib import Path

import numpy as np
import pytest

from crs_lib.core.errors import RunError
from crs_lib.retrieval import ids
from crs_lib.retrieval.ids import StoredIds, save_ids


@pytest.mark.parametrize("names", [[], ["one"], ["b", "", "é€😀", "a" * 300, "B"]])
def test_ids_are_a_sequence_and_found_by_name(tmp_path: Path, names: list[str]) -> None:
    save_ids(tmp_path, names)
    stored = StoredIds(tmp_path)
    assert list(stored) == names == stored[:] == [stored[i] for i in range(len(names))]
    assert [stored.row(name) for name in names] == list(range(len(names)))
    assert stored.row("absent") is None
    with pytest.raises(IndexError):
        stored[len(names)]


def test_names_that_share_a_code_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "code_of", lambda name: 7)
    save_ids(tmp_path, ["x", "y", "z"])
    stored = StoredIds(tmp_path)
    assert [stored.row(name) for name in "zxyw"] == [2, 0, 1, None]


def test_missing_and_damaged_ids_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot be read .* build it again"):
        StoredIds(tmp_path)
    save_ids(tmp_path, ["one", "two"])
    (tmp_path / "ids.bin").write_bytes(b"one")
    with pytest.raises(RunError, match="ids do not fit; build it again"):
        StoredIds(tmp_path)
    save_ids(tmp_path, ["one", "two"])
    np.save(tmp_path / "ids.rows.npy", np.zeros(1, np.int64))
    with pytest.raises(RunError, match="ids do not fit"):
        StoredIds(tmp_path)
