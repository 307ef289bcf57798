"""Small notebooks in the form of the committed ones, written by the tests that need them."""

from pathlib import Path

import nbformat

OPENING = """# {name}

Does a greeting have as many words as were asked for? The question, a section each:

1. How many words does a greeting have?

Input: none. Output: `words.json` in the run's folder.

`papermill {name}.ipynb out.ipynb -p count 3`"""
PARAMETERS = """run: str = "smoke"  # name of the run
count: int = 2  # how many words
weight: float = 0.5  # weight of a word
loud: bool = False  # whether to shout
parts: list[str] = ["hello", "there"]  # words to use, in turn
options: dict = {}  # further settings"""
BEGIN = """from pathlib import Path

from crs_lib import notebooks
from crs_lib.core import paths, tables
notebooks.begin()"""
CONFIG = """config = dict(count=count, weight=weight, loud=loud, parts=parts, options=options)
config"""
WORK = """text = " ".join((parts * count)[:count])
folder = paths.run_folder("movies", run)
tables.write_json(folder / "words.json", {"text": text, **config})
text.upper() if loud else text"""
CHECKS = """assert len(text.split()) == count
assert (folder / "words.json").is_file()"""
FINDING = 'f"{count} words were asked for."'
READING = "## What this does not show\n\nWhether anybody feels greeted."


def book(name, *, replace=None, drop=()):
    """A notebook that keeps every rule; ``replace`` gives other sources by the cell's key."""
    cells = [
        ("opening", "markdown", OPENING.format(name=name), ""), ("parameters", "code", PARAMETERS, "parameters"),
        ("begin", "code", BEGIN, ""), ("config-text", "markdown", "The settings, as they are checked.", ""),
        ("config", "code", CONFIG, ""),
        ("work-text", "markdown", "## How many words?\n\nThe words are written to a file.", ""),
        ("work", "code", WORK, ""), ("said", "code", FINDING, "finding"), ("checks-text", "markdown", "## Checks", ""),
        ("checks", "code", CHECKS, "checks"), ("learnt-text", "markdown", "## What we learnt", ""),
        ("learnt", "code", FINDING, "finding"), ("reading", "markdown", READING, ""),
        ("limits", "code", FINDING, "finding"),
    ]  # fmt: skip
    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for key, kind, source, tag in (cell for cell in cells if cell[0] not in drop):
        new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        facts = {"metadata": {"tags": [tag]}} if tag else {}
        made.cells.append(new((replace or {}).get(key, source), id=key, **facts))
    return made


def write(folder, name, **changes):
    return save(book(name, **changes), Path(folder) / f"{name}.ipynb")


def executed(name):
    """The notebook as ``notebooks.refresh`` leaves it: counted, with outputs."""
    made = book(name)
    shown = {"config": "{'count': 2, 'weight': 0.500}", "work": "'hello there'"}
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        cell.execution_count = count
        if cell.id in shown:
            data = {"text/plain": shown[cell.id]}
            cell.outputs = [nbformat.v4.new_output("execute_result", data, execution_count=count)]
    return made


def save(notebook, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def code_counts(path):
    cells = nbformat.read(path, as_version=4).cells
    return [cell.execution_count for cell in cells if cell.cell_type == "code"]
