"""Fetch external files: from the mirror where it has them, else from their pinned addresses.

A file appears under its name only when it is whole and verified; an interrupted or refused download leaves
nothing but what was finished before, and the same command goes on from there.
"""

import contextlib
import errno
import hashlib
import re
import shutil
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from crs_lib.core import hashes, paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar
from crs_lib.data import package, registry, verify
from crs_lib.data.base import Dataset, File

TIMEOUT = 30.0  # seconds without a byte
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
        _check_mirror(dataset)
        return found
    if not dataset.public:
        return registry.locate(dataset.name)  # raises, with what to do
    _sweep(paths.external())
    try:
        if dataset.members:
            _fetch_members(dataset, timeout)
        elif dataset.package and package.command() and not verify.intact(dataset):
            package.unpack(dataset, timeout)
        else:
            _fetch_files(dataset, timeout)
    except OSError as error:
        raise _disk(error) from error
    place = dataset.downloaded()
    if place is None:
        raise RunError(f"data set {dataset.name!r} vanished while it was fetched; run the command again")
    return place


def _sweep(root: Path) -> None:
    """Remove the partial files of downloads that were killed more than a day ago, never of one under way."""
    for path in list(root.rglob(".*.part")):
        if time.time() - path.stat().st_mtime > _STALE:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check_mirror(dataset: Dataset) -> None:
    root = paths.mirror() or Path()
    for file in dataset.files:
        if (root / file.path).is_file():
            refuse_other(root / file.path, file.path, file.sha256, "the mirror's copy (CRS_MIRROR)")


def refuse_other(path: Path, name: str, sha256: str | None, what: str) -> None:
    """Raise RunError unless the content of ``path`` has the checksum, where one is known."""
    found = hashes.sha256(path) if sha256 else None
    if found != sha256:
        raise RunError(
            f"{what} of {name} has another checksum: sha256 {found}, expected {sha256}; it was not used"
        )


def _fetch_files(dataset: Dataset, timeout: float) -> None:
    root, sums = paths.external(), verify.expected(dataset)
    for file in dataset.wanted:
        path, known = root / file.path, sums.get(file.path)
        if known and path.is_file() and hashes.sha256(path) == known:
            continue
        try:
            _download(dataset.address(file), path, dataset, file, timeout)
        finally:
            _prune(path.parent, root)


def _prune(folder: Path, root: Path) -> None:
    """Remove the folder and its parents below ``root`` as far as they are empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _download(address: str, path: Path, dataset: Dataset, file: File, timeout: float) -> None:
    """One file: written aside, checked, renamed; then recorded if its checksum was not known."""
    with tables.write_aside(path, "wb") as out:
        _pull(address, out, path.name, timeout)
        out.flush()
        aside = Path(out.name)
        refuse_other(aside, file.path, file.sha256, "the download")
        if not file.sha256:
            _refuse_page(aside, address)
            facts = _facts(dataset, {file.path: (hashes.sha256(aside), aside.stat().st_size)})
            _refuse_changed(dataset, facts)
    if not file.sha256:
        tables.write_json(dataset.record_path(), facts)


class _Watched:
    """An open file that counts what is written on a bar; to pooch it is also the bar that gets the total."""

    def __init__(self, out: IO[bytes], shown: Any) -> None:
        self.write_on, self.flush, self.shown = out.write, out.flush, shown

    @property
    def total(self) -> int | None:
        """Bytes announced by the server; None where it did not say."""
        return self.shown.total or None

    @total.setter
    def total(self, value: int) -> None:
        self.shown.total = value or None

    def write(self, part: bytes) -> int:
        self.shown.update(len(part))
        return self.write_on(part)

    def update(self, _: int) -> None:
        """Pooch counts chunks, also where the last one is shorter; :meth:`write` counts bytes."""

    def reset(self) -> None:
        """Pooch fills the bar at the end; ours is full by then."""

    def close(self) -> None:
        """File and bar are closed by whoever opened them."""


def _pull(address: str, out: IO[bytes], label: str, timeout: float) -> None:
    """Stream an address into an open file; every failure of the net becomes a RunError."""
    pooch = _pooch()
    import requests

    host = urlsplit(address).netloc
    again = f"nothing was kept; the same command tries again. Address: {address}"
    try:
        with bar(None, label=label, unit="B") as progress:
            watched = _Watched(out, progress)
            whole = {"Accept-Encoding": "identity"}  # the size that is announced is the size that comes
            options = {"chunk_size": _CHUNK, "timeout": timeout, "headers": whole}
            pooch.HTTPDownloader(progressbar=watched, **options)(address, watched, None)
    except requests.exceptions.HTTPError as error:
        answer = str(error).partition(" for url")[0]
        raise RunError(f"{host} refused {label}: {answer}; {again}") from error
    except (requests.exceptions.Timeout, TimeoutError) as error:
        raise RunError(f"{host} sent nothing of {label} for {timeout:g} s; {again}") from error
    except requests.exceptions.RequestException as error:
        raise RunError(_broken(error, out.tell(), host, label, timeout) + again) from error
    except OSError as error:
        raise _disk(error) from error


def _broken(error: Exception, received: int, host: str, label: str, timeout: float) -> str:
    if "timed out" in str(error).lower():
        return f"{host} sent nothing of {label} for {timeout:g} s; "
    if received or "Incomplete" in str(error) or "prematurely" in str(error):
        return f"the connection to {host} broke after {received} bytes of {label}; "
    return (
        f"no connection to {host} for {label} ({type(error).__name__}); check the network, or set CRS_MIRROR "
        "to a folder with a copy; "
    )


def _disk(error: OSError) -> RunError:
    why = error.strerror or str(error)
    if error.errno in _FULL:
        return RunError(
            f"no space for the download ({why}); nothing was kept. Free some, or set CRS_DATA to a folder "
            "on another disk"
        )
    return RunError(f"{paths.shown(paths.external())} cannot be written ({why}); nothing was kept")


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise InputError(
            'downloads need the package pooch: pip install "crs-lib[data]"; '
            "or set CRS_MIRROR to a folder that holds the files"
        ) from error
    return pooch


def _refuse_page(path: Path, address: str) -> None:
    """Where no checksum is known, at least the content must begin like JSON, not like an error page."""
    with path.open("rb") as file:
        start = file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"{", b"["):
        raise RunError(
            f"{address} gave something that is not JSON (it begins {start[:40]!r}); nothing was kept"
        )


def _facts(dataset: Dataset, sums: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """The content of a record: one checksum over the names and checksums of all files, in sorted order."""
    lines = "".join(f"{sha256}  {name}\n" for name, (sha256, _) in sorted(sums.items()))
    return {
        "repository": dataset.origin.repository,
        "commit": dataset.origin.commit,
        "files": {name: sha256 for name, (sha256, _) in sorted(sums.items())},
        "bytes": sum(size for _, size in sums.values()),
        "sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }


def _refuse_changed(dataset: Dataset, facts: dict[str, Any]) -> None:
    before = verify.record(dataset)
    if before.get("commit") == facts["commit"] and before.get("sha256") != facts["sha256"]:
        raise RunError(
            f"data set {dataset.name!r} is not what was recorded on its first download (sha256 "
            f"{facts['sha256']}, recorded {before.get('sha256')}); nothing was kept. If the new one is "
            f"right, remove {paths.shown(dataset.record_path())} and run the command again"
        )


def _fetch_members(dataset: Dataset, timeout: float) -> None:
    """The archive once, and out of it every data set that it holds and that is not here yet."""
    if verify.intact(dataset):
        return
    address = dataset.address()
    place = paths.external() / ".archives" / f"{dataset.origin.commit}.zip"
    try:
        if not place.is_file():
            with tables.write_aside(place, "wb") as out:
                _pull(address, out, dataset.origin.repository, timeout)
    finally:
        _prune(place.parent, paths.external())
    try:
        with zipfile.ZipFile(place) as archive:
            _extract(archive, dataset)
            for other in registry.REGISTRY.values():
                if other.members and other.address() == address and not other.downloaded():
                    with contextlib.suppress(RunError):  # asked for by name, it will say what is wrong
                        _extract(archive, other)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise RunError(
            f"the archive from {address} is damaged ({error}); nothing was kept; the same command tries again"
        ) from error
    finally:
        place.unlink(missing_ok=True)
        _prune(place.parent, paths.external())


def _extract(archive: zipfile.ZipFile, dataset: Dataset) -> None:
    """The members of one data set: unpacked aside, compared with the record, moved, recorded."""
    root = paths.external()
    folder, chosen = root / str(dataset.folder), _chosen(archive, dataset)
    with tempfile.TemporaryDirectory(prefix=f".{dataset.name}.", suffix=".part", dir=root) as aside:
        sums: dict[str, tuple[str, int]] = {}
        with bar(len(chosen), label=dataset.name, unit="files") as progress:
            for name, member in chosen.items():
                with archive.open(member) as source, Path(aside, name).open("wb") as out:
                    shutil.copyfileobj(source, out, _CHUNK)
                sums[name] = (hashes.sha256(Path(aside, name)), member.file_size)
                progress.update(1)
        facts = _facts(dataset, sums)
        _refuse_changed(dataset, facts)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            Path(aside, name).replace(folder / name)
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
