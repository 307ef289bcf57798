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
    changes = replace or {}
    new_cell = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for key, kind, source, tag in cells:
        if key in drop:
            continue
        cell = new_cell[kind](changes.get(key, source), id=key)
        if tag:
            cell.metadata["tags"] = [tag]
        notebook.cells.append(cell)
    return notebook


def write(folder, name, **changes):
    return save(book(name, **changes), Path(folder) / f"{name}.ipynb")


def executed(name):
    """The notebook as ``notebooks.refresh`` leaves it: counted, with outputs."""
    notebook = book(name)
    shown = {"config": "{'count': 2, 'weight': 0.500}", "work": "'hello there'"}
    for count, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = count
        if cell.id in shown:
            data = {"text/plain": shown[cell.id]}
            cell.outputs = [nbformat.v4.new_output("execute_result", data, execution_count=count)]
    return notebook


def save(notebook, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def code_cells(notebook):
    """The code cells of a notebook, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def code_counts(path):
    """The execution counts of the code cells of a notebook's file."""
    return [cell.execution_count for cell in code_cells(nbformat.read(path, as_version=4))]
