"""Compare external files with their checksums: the registry's, or those recorded on the first download."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import hashes, outside, paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.data.base import Dataset

OK, DIFFERS, MISSING, ABSENT = "ok", "differs", "missing", "absent"


class Check(NamedTuple):
    """One file: ``ok``, ``differs``, ``missing`` (a download lost it), ``absent`` (not in this mirror)."""

    dataset: str
    place: str
    file: str
    status: str


def record(dataset: Dataset) -> dict[str, Any]:
    """The record of the first download; an empty dict where nothing was."""
    path = dataset.record_path()
    if not path.is_file():
        return {}
    try:
        found = outside.read_json(path)
    except InputError as error:
        raise RunError(f"{paths.shown(path)} is damaged ({error}); remove it and fetch again") from error
    return found if isinstance(found, dict) else {}


def expected(dataset: Dataset) -> dict[str, str]:
    """Path under ``data/external`` -> sha256, of everything that a download must hold; empty if unknown."""
    recorded: Mapping[str, str] = record(dataset).get("files", {})
    if dataset.members:
        return {f"{dataset.folder}/{name}": sha256 for name, sha256 in recorded.items()}
    sums = {file.path: file.sha256 or recorded.get(file.path) for file in dataset.wanted}
    return {path: sha256 for path, sha256 in sums.items() if sha256}


def intact(dataset: Dataset) -> bool:
    """Whether a download is complete and every file of it has its checksum."""
    if dataset.downloaded() is None:
        return False
    return all(check.status == OK for check in _download(dataset))


def check(dataset: Dataset) -> list[Check]:
    """The files of a data set where they are read from: the mirror's, else the download's; [] if neither."""
    if dataset.in_mirror():
        return list(_mirror(dataset, paths.mirror() or Path()))
    return list(_download(dataset)) if dataset.downloaded() else []


def _mirror(dataset: Dataset, root: Path) -> Iterator[Check]:
    for file in dataset.files:
        if file.sha256:
            yield Check(dataset.name, "mirror", file.path, _status(root / file.path, file.sha256, ABSENT))


def _download(dataset: Dataset) -> Iterator[Check]:
    for path, sha256 in expected(dataset).items():
        status = _status(paths.external() / path, sha256, MISSING)
        yield Check(dataset.name, "downloaded", path, status)


def _status(path: Path, sha256: str, without: str) -> str:
    if not path.is_file():
        return without
    return OK if hashes.sha256(path) == sha256 else DIFFERS


def summary(checks: list[Check]) -> pd.DataFrame:
    """One row a data set: where it is, and how many of its files are ok, differ, are missing or absent."""
    frame = pd.DataFrame(checks, columns=Check._fields)
    for status in (OK, DIFFERS, MISSING, ABSENT):
        frame[status] = frame["status"] == status
    groups = frame.groupby(["dataset", "place"], sort=False)
    return groups[[OK, DIFFERS, MISSING, ABSENT]].sum().reset_index()
