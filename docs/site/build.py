"""Builds the documentation site into build/site: texts, notebooks as executed, and the API from docstrings.

    python docs/site/build.py

Pages keep their places in the repository, so its links work on the site. A broken link is an error.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
STAGE = ROOT / "build" / "docs"
TITLES = {
    "Start": ["index.md", "notebooks/00_start.ipynb"],
    "How to": [
        "docs/your-system.md",
        "docs/systems.md",
        "docs/running-llms.md",
        "docs/data.md",
        "docs/thesis.md",
        "docs/scale.md",
        "docs/robustness.md",
    ],
    "Measures": [
        "docs/metrics.md",
        "docs/validity.md",
        "docs/revisions.md",
        "docs/records/README.md",
        "docs/footguns.md",
    ],
    "Other studies": ["docs/cosrec.md", "docs/realtalk.md"],
    "Developers": ["docs/context.md", "docs/names.md", "CONTRIBUTING.md", "CHANGELOG.md"],
}


def stage() -> None:
    """Copy the texts, notebooks and figures that the site shows."""
    shutil.rmtree(STAGE, ignore_errors=True)
    kinds = [
        "*.md",
        "docs/**/*.md",
        "docs/**/*.png",
        "docs/records/*.csv",
        "notebooks/*.ipynb",
        "figures/**/*.png",
        "*.cff",
        "LICENSE",
    ]
    for path in sorted({path for kind in kinds for path in ROOT.glob(kind)}):
        place = STAGE / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    (STAGE / "README.md").rename(STAGE / "index.md")
    shutil.copyfile(ROOT / "docs" / "site" / "site.css", STAGE / "site.css")


def documented(path: Path) -> bool:
    """Whether a file of the package defines anything with a docstring under a public name."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    named = (ast.FunctionDef, ast.ClassDef)
    return any(isinstance(n, named) and n.name[0] != "_" and ast.get_docstring(n) for n in body)


def api() -> list[dict[str, str]]:
    """One page a room; every file of the room that defines public names is a section."""
    pages = []
    for front in sorted((ROOT / "crs_lib").glob("*/__init__.py")):
        room = front.parent.name
        files = [path.stem for path in sorted(front.parent.glob("[!_]*.py")) if documented(path)]
        if not files:
            continue
        text = ast.get_docstring(ast.parse(front.read_text(encoding="utf-8"))) or ""
        parts = [f"# {room}\n\n{text}\n", *(f"::: crs_lib.{room}.{name}\n" for name in files)]
        (STAGE / "api").mkdir(exist_ok=True)
        (STAGE / "api" / f"{room}.md").write_text("\n".join(parts), encoding="utf-8")
        pages.append({room: f"api/{room}.md"})
    return pages


def title(path: Path) -> str:
    """The first heading of a text or notebook."""
    found = re.search(r"^\s*\"?# (.+?)(?:\\n)?\"?,?$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].replace("`", "") if found else path.stem


def navigation() -> list[dict[str, object]]:
    """The sections of the site; texts that no section names follow their siblings."""
    sections: list[dict[str, object]] = []
    for name, pages in TITLES.items():
        there = [page for page in pages if (STAGE / page).is_file()]
        sections.append({name: [{title(STAGE / page): page} for page in there]})
    books = sorted((STAGE / "notebooks").glob("[0-9]*.ipynb"))
    sections.insert(2, {"Notebooks": [{title(book): f"notebooks/{book.name}"} for book in books]})
    decisions = sorted((STAGE / "docs" / "decisions").glob("*.md"))
    sections.append({"Decisions": [{title(one): f"docs/decisions/{one.name}"} for one in decisions]})
    sections.append({"API": api()})
    return sections


def main() -> None:
    """Stage and build; the exit status is that of MkDocs, which counts a broken link as an error."""
    stage()
    settings = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))
    for key in ("docs_dir", "site_dir"):
        settings[key] = str((ROOT / "docs" / "site" / settings[key]).resolve())
    settings["plugins"][-1]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT)]
    settings["nav"] = navigation()
    file = ROOT / "build" / "mkdocs.yml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    sys.exit(
        subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(file)], check=False
        ).returncode
    )


if __name__ == "__main__":
    main()
