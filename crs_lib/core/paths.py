"""Every folder of the project; CRS_DATA, CRS_RESULTS, CRS_FIGURES and CRS_MIRROR set other ones.

In a checkout the folders lie in the repository. A package that was installed from a wheel brings notebooks
and samples along, and writes into the folder where the command is started.
"""

import os
import re
import unicodedata
import zlib
from collections.abc import Iterable
from pathlib import Path

from crs_lib.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]  # the repository; of an installed package, where packages lie
_SHIPPED = Path(__file__).resolve().parents[1] / "shipped"
_SIGNS_OF_A_RUN = ("manifest.json", "ledger.sqlite", ".lock")


def installed() -> bool:
    """Whether the package was installed from a wheel: there is no repository around it."""
    return _SHIPPED.is_dir()


def home() -> Path:
    """The folder that relative places count from: the repository, or where an installed package is used."""
    return Path.cwd() if installed() else ROOT


def _folder(variable: str, default: str) -> Path:
    """The folder that a variable of the environment names, else one at :func:`home`."""
    value = os.environ.get(variable, "")
    if value:
        return given(value).resolve()
    return home() / default


def given(path: str | Path) -> Path:
    """A path that somebody named, ``~`` replaced; InputError for one that no file can have."""
    fault = "its user does not exist here"
    try:
        expanded = Path(path).expanduser()
        fault = "its name is no UTF-8"
        str(expanded).encode()
        fault = "its links lead back to itself"
        if "\0" in str(path):
            fault = "it holds a NUL character"
        expanded.resolve()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{str(path)[:200]!r} is no path: {fault}") from error
    readable = expanded.is_file() or expanded.is_dir()
    if expanded.exists() and not readable:  # it would be waited for, or never end
        raise InputError(f"{shown(expanded)} is a pipe or a device; name a file")
    return expanded


def apart(outputs: Iterable[Path], inputs: Iterable[Path], own: Path | None = None) -> None:
    """Nothing, or InputError where a command would write over what it reads or must keep, links followed.

    Kept are the committed notebooks and the files of runs, but for the command's ``own``. Of an output that
    is a folder only the files in it that ``outputs`` names are written.
    """
    read = {identity(path): path for path in inputs}
    committed = {identity(path) for path in notebooks().glob("*.ipynb")}
    for path in outputs:
        fault = ""
        if identity(path) in read:
            fault = f"would be written over {shown(read[identity(path)])}, which is read"
        elif identity(path) in committed:
            fault = "is a committed notebook and would be written over"
        elif path != own and _belongs_to_a_run(path):
            fault = "belongs to a run and would be written over"
        if fault:
            raise InputError(f"{shown(path)} {fault}; give another output")


def _belongs_to_a_run(path: Path) -> bool:
    """Whether there is such a file or folder, and it is a run's: below the results, beside a manifest."""
    real = Path(os.path.realpath(path))
    top = Path(os.path.realpath(results()))
    if not real.exists():
        return False
    for folder in (real, *real.parents):
        if top in folder.parents and any((folder / sign).exists() for sign in _SIGNS_OF_A_RUN):
            return True
    return False


def identity(path: Path) -> tuple[int, int] | str:
    """The same for all names of a file: device and number, or the place of one that does not exist."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        return str(real)
    facts = real.stat()
    return (facts.st_dev, facts.st_ino)


def data() -> Path:
    """Folder of the data files; ``CRS_DATA`` or ``data/`` (:func:`home`)."""
    return _folder("CRS_DATA", "data")


def samples() -> Path:
    """Folder of the small, self-made, committed samples (always the package's own)."""
    return _SHIPPED / "samples" if installed() else ROOT / "data" / "samples"


def external() -> Path:
    """Folder that downloads go to; never committed."""
    return data() / "external"


def mirror() -> Path | None:
    """Folder with ready copies of the external files (``CRS_MIRROR``), or None where none is named."""
    return _folder("CRS_MIRROR", "") if os.environ.get("CRS_MIRROR") else None


def results() -> Path:
    """Folder of the runs; ``CRS_RESULTS`` or ``results/`` (:func:`home`)."""
    return _folder("CRS_RESULTS", "results")


def figures() -> Path:
    """Folder that figures are written to; ``CRS_FIGURES`` or ``figures/``."""
    return _folder("CRS_FIGURES", "figures")


def notebooks() -> Path:
    """Folder of the committed notebooks."""
    return _SHIPPED / "notebooks" if installed() else ROOT / "notebooks"


def run_name(run: str) -> str:
    """The name of a run, unchanged; InputError for a name that is no plain file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run):
        allowed = "letters, digits, '.', '_' and '-', starting with a letter or digit"
        raise InputError(f"run name {run!r} cannot be a folder; use {allowed}")
    return run


def run_folder(study: str, run: str) -> Path:
    """``results/<study>/<run>``; InputError for a name of a run that cannot be a folder."""
    return results() / study / run_name(run)


def slug(name: str) -> str:
    """A file name made of a spec: ``ollama:llama3:instruct`` becomes ``ollama-llama3-instruct``.

    Accents are folded, everything but letters, digits, '.' and '_' becomes '-'. Where letters or signs
    outside ASCII are lost, a number made of the name stands at the end, so that no two names share a file.
    Empty input: ``unnamed``.
    """
    folded = unicodedata.normalize("NFKD", name)
    plain = folded.encode("ascii", "ignore").decode()
    dashed = re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-.")
    for character in folded:
        if not character.isascii() and not unicodedata.combining(character):
            number = zlib.crc32(name.encode("utf-8", "surrogatepass"))
            return f"{dashed}-{number:08x}".strip("-.")
    return dashed or "unnamed"


def shown(path: Path) -> str:
    """The path for messages: relative to the repository if it lies inside, else as it is."""
    real = path.resolve()
    here = home().resolve()
    if real.is_relative_to(here):
        return real.relative_to(here).as_posix()
    return path.as_posix()


def from_here(path: Path) -> str:
    """The path as it can be opened from the current folder: relative to it, or in full if shorter."""
    near = Path(os.path.relpath(path)).as_posix()
    return min(near, path.absolute().as_posix(), key=len)
