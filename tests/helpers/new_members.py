"""A copy of the package in which the steps of docs/context.md, section 4, were done line by line."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "context.md"


def blocks(heading: str) -> list[str]:
    """The fenced code blocks under a heading of the page, in order."""
    page = PAGE.read_text(encoding="utf-8")
    part = re.search(rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert part, f"docs/context.md has no heading {heading!r}"
    return re.findall(r"^```\w*\n(.*?)^```", part[1], re.MULTILINE | re.DOTALL)


def copy_package(folder: Path) -> Path:
    """A copy of the package and its samples in a folder; returns the folder, to be put on PYTHONPATH."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "crs_lib", folder / "crs_lib", ignore=without)
    shutil.copytree(ROOT / "data" / "samples", folder / "data" / "samples", ignore=without)
    return folder


def insert(file: Path, lines: str, above: str = "") -> None:
    """Put lines above the only line that begins with a text, or at the end of a file; nothing if they are there."""
    text = file.read_text(encoding="utf-8")
    if lines.strip() in text:  # somebody followed the page in the package itself
        return
    if not above:
        file.write_text(f"{text.rstrip()}\n\n\n{lines}", encoding="utf-8")
        return
    places = [found.start() for found in re.finditer(rf"^{re.escape(above)}", text, re.MULTILINE)]
    assert len(places) == 1, f"{file.name} has {len(places)} lines that begin with {above!r}"
    file.write_text(f"{text[: places[0]]}{lines}{text[places[0] :]}", encoding="utf-8")


def year_row(file: Path) -> str:
    """The beginning of the row of the year in fields.py, up to its name."""
    found = re.search(r"^ +Field\(\n +name=YEAR_FIELD", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[0]


def add_field(folder: Path) -> None:
    """Steps of "A catalogue field"."""
    file = folder / "crs_lib" / "catalog" / "fields.py"
    (row,) = blocks("A catalogue field")
    insert(file, row, above=year_row(file))


def add_shift_type(folder: Path) -> None:
    """Steps of "A shift type"."""
    made, words = blocks("A shift type")
    insert(folder / "crs_lib" / "simulate" / "shifts.py", made)
    insert(folder / "crs_lib" / "prompts" / "movies" / "user.wording", f"{words}\n", above="[noun]")


def add_policy(folder: Path) -> None:
    """Steps of "A policy"."""
    (made,) = blocks("A policy")
    insert(folder / "crs_lib" / "systems" / "policies.py", made)


def show_metric(folder: Path, name: str, *lists: str) -> None:
    """Step 2 of "A metric": the name stands last in these lists of ``figures/layout.py``."""
    file = folder / "crs_lib" / "figures" / "layout.py"
    text = file.read_text(encoding="utf-8")
    for one in lists:
        text, times = re.subn(rf'("{one}": \[[^]]*?),?(\s*\])', rf'\1, "{name}"\2', text)
        assert times == 1, f"layout.py has no list {one!r}"
    file.write_text(text, encoding="utf-8")


def new_file(folder: Path, heading: str) -> None:
    """Step 1 of a heading whose code is a whole file, written where the page says."""
    page = PAGE.read_text(encoding="utf-8")
    part = page[page.index(f"\n### {heading}\n") :]
    place = re.search(r"`(crs_lib/[\w/]+\.py)`:\n", part)
    assert place
    (folder / place[1]).write_text(blocks(heading)[0], encoding="utf-8")


def add_data_set(folder: Path) -> None:
    """Step 1 of "A data set"."""
    with (folder / "crs_lib" / "data" / "registry.toml").open("a", encoding="utf-8") as registry:
        registry.write(f"\n{blocks('A data set')[0]}")
