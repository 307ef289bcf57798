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


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable, "")
    return given(value).resolve() if value else default


def given(path: str | Path) -> Path:
    """A path that somebody named, ``~`` replaced; InputError for one that no file can have."""
    if "\0" in str(path):
        raise InputError(f"{str(path)[:200]!r} is no path: it holds a NUL character")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{str(path)[:200]!r} names the folder of a user who does not exist here") from error


def apart(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Nothing, or InputError where a command would write over what it reads, links followed.

    An output is a file, or a folder whose files are written; an input below such a folder is not touched by
    it, unless one of the ``outputs`` names it.
    """
    read = {os.path.realpath(path): path for path in inputs}
    for path in outputs:
        same = read.get(os.path.realpath(path))
        if same is None and path.exists():
            same = next((one for one in read.values() if one.exists() and path.samefile(one)), None)
        if same is not None:
            raise InputError(
                f"{shown(path)} would be written over {shown(same)}, which is read; give another output"
            )


def data() -> Path:
    """Folder of the data files; ``CRS_DATA`` or ``data/`` (:func:`home`)."""
    return _folder("CRS_DATA", home() / "data")


def samples() -> Path:
    """Folder of the small, self-made, committed samples (always the package's own)."""
    return _SHIPPED / "samples" if installed() else ROOT / "data" / "samples"


def external() -> Path:
    """Folder that downloads go to; never committed."""
    return data() / "external"


def mirror() -> Path | None:
    """Folder with ready copies of the external files (``CRS_MIRROR``), or None where none is named."""
    value = os.environ.get("CRS_MIRROR", "")
    return given(value).resolve() if value else None


def results() -> Path:
    """Folder of the runs; ``CRS_RESULTS`` or ``results/`` (:func:`home`)."""
    return _folder("CRS_RESULTS", home() / "results")


def figures() -> Path:
    """Folder that ``python -m crs_lib show figures`` writes to; ``CRS_FIGURES`` or ``figures/``."""
    return _folder("CRS_FIGURES", home() / "figures")


def notebooks() -> Path:
    """Folder of the committed notebooks."""
    return _SHIPPED / "notebooks" if installed() else ROOT / "notebooks"


def run_name(run: str) -> str:
    """The name of a run, unchanged.

    Raises InputError for a name that is no plain file name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run):
        raise InputError(
            f"run name {run!r} cannot be a folder; "
            "use letters, digits, '.', '_' and '-', starting with a letter or digit"
        )
    return run


def run_folder(study: str, run: str) -> Path:
    """``results/<study>/<run>``; InputError for a name of a run that cannot be a folder."""
    return results() / study / run_name(run)


def slug(name: str) -> str:
    """A file name made of a spec: ``ollama:llama3:instruct`` becomes ``ollama-llama3-instruct``.

    Accents are folded, everything but letters, digits, '.' and '_' becomes '-'. Empty input gives
    ``unnamed``.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-.") or "unnamed"


def shown(path: Path) -> str:
    """The path for messages: relative to the repository if it lies inside, else as it is."""
    try:
        return path.resolve().relative_to(home().resolve()).as_posix()
    except ValueError:
        return path.as_posix()
