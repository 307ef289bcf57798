"""Every folder of the project; CRS_DATA, CRS_RESULTS, CRS_FIGURES and CRS_MIRROR set other ones.

In a checkout the folders lie in the repository. A package that was installed from a wheel brings notebooks
and samples along, and writes into the folder where the command is started.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from crs_lib.core.errors import InputError

ROOT = Path(__file__).resolve().parents[2]  # the repository; of an installed package, where packages lie
_SHIPPED = Path(__file__).resolve().parents[1] / "shipped"


def installed() -> bool:
    """Whether the package was installed from a wheel: there is no repository around it."""
    return _SHIPPED.is_dir()


def home() -> Path:
    """The folder that relative places count from: the repository, or where an installed package is used."""
    return Path.cwd() if installed() else ROOT


def _folder(variable: str, default: str) -> Path:
    """The folder that a variable of the environment names, else one at :func:`home`."""
    value = os.environ.get(variable, "")
    return given(value).resolve() if value else home() / default


def given(path: str | Path) -> Path:
    """A path that somebody named, ``~`` replaced; InputError for one that no file can have."""
    wrong = "its user does not exist here"
    try:
        found = Path(path).expanduser()
        wrong = "its name is no UTF-8"
        str(found).encode()
        wrong = "it holds a NUL character" if "\0" in str(path) else "its links lead back to itself"
        found.resolve()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{str(path)[:200]!r} is no path: {wrong}") from error
    if found.exists() and not (found.is_file() or found.is_dir()):  # it would be waited for, or never end
        raise InputError(f"{shown(found)} is a pipe or a device; name a file")
    return found


def apart(outputs: Iterable[Path], inputs: Iterable[Path], own: Path | None = None) -> None:
    """Nothing, or InputError where a command would write over what it reads or must keep, links followed.
    Kept are the committed notebooks and the files of runs, but for the command's ``own``. Of an output that
    is a folder only the files in it that ``outputs`` names are written.
    """
    read = {identity(path): path for path in inputs}
    kept = {identity(path): path for path in notebooks().glob("*.ipynb")}
    for path in outputs:
        if same := read.get(identity(path)):
            wrong = f"{shown(path)} would be written over {shown(same)}, which is read"
            raise InputError(f"{wrong}; give another output")
        if identity(path) in kept or (path != own and _of_a_run(path)):
            whose = "is a committed notebook" if identity(path) in kept else "belongs to a run"
            raise InputError(f"{shown(path)} {whose} and would be written over; give another output")


def _of_a_run(path: Path) -> bool:
    """Whether there is such a file or folder, and it is a run's: below the results, beside a manifest."""
    real, top = Path(os.path.realpath(path)), Path(os.path.realpath(results()))
    folders = [folder for folder in (real, *real.parents) if top in folder.parents]
    signs = ("manifest.json", "ledger.sqlite", ".lock")
    return real.exists() and any((folder / sign).exists() for folder in folders for sign in signs)


def identity(path: Path) -> tuple[int, int] | str:
    """The same for all names of a file: device and number, or the place of one that does not exist."""
    real = Path(os.path.realpath(path))
    return (real.stat().st_dev, real.stat().st_ino) if real.exists() else str(real)


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
    """A file name made of a spec: ``ollama:llama3:instruct`` becomes ``ollama-llama3-instruct``. Accents are
    folded, everything but letters, digits, '.' and '_' becomes '-'. Empty input gives ``unnamed``.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-.") or "unnamed"


def shown(path: Path) -> str:
    """The path for messages: relative to the repository if it lies inside, else as it is."""
    real, here = path.resolve(), home().resolve()
    return (real.relative_to(here) if real.is_relative_to(here) else path).as_posix()
