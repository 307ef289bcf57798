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


def insert(file: Path, lines: str, above: str = "") -> None:
    """Put lines above the only line that begins with a text, or at the end of a file; nothing if they are there."""
    text = file.read_text(encoding="utf-8")
    if lines.strip() in text:  # somebody followed the page in the package itself
        return
    if not above:
        file.write_text(f"{text.rstrip()}\n\n\n{lines}", encoding="utf-8")
        return
    starts = [match.start() for match in re.finditer(rf"^{re.escape(above)}", text, re.MULTILINE)]
    assert len(starts) == 1, f"{file.name} has {len(starts)} lines that begin with {above!r}"
    file.write_text(f"{text[: starts[0]]}{lines}{text[starts[0] :]}", encoding="utf-8")


def new_file(folder: Path, heading: str) -> None:
    """Step 1 of a heading whose code is a whole file, written where the page says."""
    page = PAGE.read_text(encoding="utf-8")
    part = page[page.index(f"\n### {heading}\n") :]
    path = re.search(r"`(crs_lib/[\w/]+\.py)`:\n", part)
    assert path
    (folder / path[1]).write_text(blocks(heading)[0], encoding="utf-8")


def package_with_members(folder: Path) -> Path:
    """A copy of the package and its samples with a member of each heading, to be put on PYTHONPATH."""
    without = shutil.ignore_patterns("__pycache__")
    for part in ("crs_lib", "data/samples"):
        shutil.copytree(ROOT / part, folder / part, ignore=without)
    package = folder / "crs_lib"
    (row,) = blocks("A catalogue field")
    shift, words = blocks("A shift type")
    (policy,) = blocks("A policy")
    fields = package / "catalog" / "fields.py"
    year = re.search(r"^ +Field\(\n +name=YEAR_FIELD", fields.read_text(encoding="utf-8"), re.MULTILINE)
    assert year
    insert(fields, row, above=year[0])
    insert(package / "simulate" / "shifts.py", shift)
    insert(package / "prompts" / "movies" / "user.wording", f"{words}\n", above="[noun]")
    insert(package / "systems" / "policies.py", policy)
    with (package / "data" / "registry.toml").open("a", encoding="utf-8") as registry:
        registry.write(f"\n{blocks('A data set')[0]}")
    for heading in ("A metric", "A figure", "A retriever"):
        new_file(folder, heading)
    return folder
