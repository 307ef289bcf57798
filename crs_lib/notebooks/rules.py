"""Committed notebooks: run anew (:func:`refresh`), and their rules (docs/decisions/0003-notebooks.md).

``rules(path)`` reads cells and stored outputs, executes nothing, and returns a list of broken rules.
"""

import ast
import copy
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core import tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.notebooks import runner
from crs_lib.notebooks.runner import code_cells, committed, find, load, study

_LINES = 8
_SHARE = (40, 50)  # per cent of the cells that are text; findings and the closing sections left out
_FINDING = "finding"  # tag of a cell that shows a generated sentence
_CHECKS, _CLOSING = "Checks", ("What we learnt", "What this does not show")
_FORBIDDEN = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "def",
    ast.ClassDef: "class",
    ast.Try: "try",
    ast.TryStar: "try",
    ast.While: "while",
    ast.Lambda: "lambda",
}
_VOLATILE = {
    r"0x[0-9a-fA-F]{6,}": "an object address",
    r"\b(19|20)\d\d-[01]\d-[0-3]\d[T ]\d\d:\d\d": "a date and time",
    r"(?<![\w.:/])/(home|root|tmp|Users|private|var|mnt|work)/[\w.-]|\b[A-Z]:\\\w": "an absolute path",
    r"\d(it|s)/(s|it)\]": "a progress bar",
    r"#T_[0-9a-f]{5}": "a styled table with a random id",
    r"\d\.\d{7,}": "a number that is not rounded",
}


def rules(path: str | Path) -> list[str]:
    """Every rule that a notebook breaks, in words; an empty list for a good one."""
    notebook = load(Path(path))
    if not code_cells(notebook):
        return ["it has no code cell"]
    broken: list[str] = []
    for check in (_opening, _parameters, _code, _balance, _sections, _ending, _outputs, _metadata):
        broken += check(notebook, Path(path).stem)
    return broken


def _opening(notebook: Any, name: str) -> Iterator[str]:
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield "the first cell must be text that starts with '# ' and the notebook's name"
        return
    for word in ("?", "input", "output", f"papermill {name.lower()}.ipynb"):
        if word not in first.source.lower():
            yield f"the first cell must state question, input, output and papermill line; {word!r} is missing"


def _parameters(notebook: Any, name: str) -> Iterator[str]:
    tagged = code_cells(notebook, "parameters")
    code = code_cells(notebook)
    if len(tagged) != 1 or tagged[0] is not code[0]:
        yield "exactly one cell must be tagged 'parameters', and it must be the first code cell"
        return
    try:
        declared = runner.read_parameters(tagged[0].source, name)
    except InputError as error:
        yield str(error)
        return
    used: set[str] = set()
    for cell in code[1:]:
        for node in _nodes(cell.source):
            if isinstance(node, ast.Name):
                used.add(node.id)
    for parameter in declared.values():
        if not parameter.help:
            yield f"parameter {parameter.name!r} has no trailing comment"
        if re.search("[=#]", json.dumps(parameter.default)) or re.search(r"\||Literal", parameter.annotation):
            yield f"parameter {parameter.name!r}: no '=' or '#' in a default, no '|' or Literal in a type"
        if parameter.name not in used:
            yield f"parameter {parameter.name!r} is never used"
    start = "\n".join(cell.source for cell in code[1:3])
    if "notebooks.begin()" not in start:
        yield "the cell after the parameters must import and call notebooks.begin()"
    if not re.search(r"^config = ", start, re.MULTILINE):
        yield "one of the two cells after the parameters must build the checked config ('config = …')"


def _nodes(source: str) -> list[ast.AST]:
    """The parts of a cell's code; none where it is no plain Python."""
    try:
        return list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return []


def _code(notebook: Any, name: str) -> Iterator[str]:
    for number, cell in enumerate(code_cells(notebook), start=1):
        where = f"code cell {number}"
        nodes = _nodes(cell.source)
        lines = list(filter(str.strip, cell.source.splitlines()))
        if not lines:
            yield f"{where} is empty"
        elif not nodes:
            yield f"{where} is not plain Python (no magics, no shell lines)"
        if len(lines) > _LINES and "parameters" not in cell.metadata.get("tags", []):
            yield f"{where} has {len(lines)} lines; at most {_LINES}: move work into crs_lib"
        words = {_FORBIDDEN.get(type(node), "") for node in nodes}
        for word in sorted(words - {""}):
            yield f"{where} holds {word!r}: the library does, the notebook tells"


def _balance(notebook: Any, name: str) -> Iterator[str]:
    left_out = [*_closing(notebook), *code_cells(notebook, _FINDING)]
    kinds = []
    for cell in notebook.cells:
        if cell not in left_out:
            kinds.append(cell.cell_type)
    texts = kinds.count("markdown")
    share = round(100 * texts / max(1, len(kinds)))
    if not _SHARE[0] <= share <= _SHARE[1]:
        expected = f"{_SHARE[0]} to {_SHARE[1]} %"
        yield f"{share} % of the cells are text ({texts} of {len(kinds)}); expected {expected}"


def _parts(notebook: Any) -> list[tuple[str, list[Any]]]:
    """The sections in order: the heading of second level, and the cells from it to the next."""
    parts: list[tuple[str, list[Any]]] = []
    for cell in notebook.cells:
        heading = re.match(r"## (.+)", cell.source)
        if cell.cell_type == "markdown" and heading:
            parts.append((heading[1].strip(), []))
        if parts:
            parts[-1][1].append(cell)
    return parts


def _closing(notebook: Any) -> list[Any]:
    cells = []
    for title, own in _parts(notebook):
        if title in _CLOSING:
            cells += own
    return cells


def _sections(notebook: Any, name: str) -> Iterator[str]:
    """A finding stands at a section's end, the opening lists the questions, the end says what was shown."""
    parts = _parts(notebook)
    titles = [title for title, _ in parts]
    if tuple(titles[-3:]) != (_CHECKS, *_CLOSING):
        yield f"it must end with the sections {_CHECKS!r}, {_CLOSING[0]!r} and {_CLOSING[1]!r}"
    for title, cells in parts:
        finding = []
        for cell in cells:
            if cell.cell_type == "code":
                finding.append(_FINDING in cell.metadata.get("tags", []))
        if title in _CLOSING and not any(finding[-1:]):
            yield f"section {title!r} must end with a code cell tagged {_FINDING!r} that shows its sentence"
        if any(finding[:-1]):
            yield f"section {title!r} has a cell tagged {_FINDING!r} before its end; one, as its last"
    questions = re.findall(r"^\d+\. .*\?$", notebook.cells[0].source, re.MULTILINE)
    sections = set(titles) - {_CHECKS, *_CLOSING}
    if len(questions) != len(sections):
        counts = f"{len(questions)} questions ('1. …?') for {len(sections)} sections"
        yield f"the first cell lists {counts}; one each"


def _ending(notebook: Any, name: str) -> Iterator[str]:
    """The checks come last but for the findings, and the texts after them hold no number."""
    findings = code_cells(notebook, _FINDING)
    last = code_cells(notebook)[0]
    for cell in code_cells(notebook):
        if cell not in findings:
            last = cell
    if "checks" not in last.metadata.get("tags", []):
        yield "the last code cell before the findings must be tagged 'checks'"
    if not any(isinstance(node, ast.Assert) for node in _nodes(last.source)):
        yield "the cell of checks must hold asserts"
    texts = ""
    for cell in _closing(notebook):
        if cell.cell_type == "markdown":
            texts += f"{cell.source}\n"
    if re.search(r"\d", re.sub(r"`[^`]*`|\[[^\[\]]*\]\([^()]*\)", "", texts)):
        yield "the reading at the end holds a number typed by hand; it would be wrong for other parameters"


def _outputs(notebook: Any, name: str) -> Iterator[str]:
    for number, cell in enumerate(code_cells(notebook), start=1):
        if cell.execution_count != number:
            yield f"code cell {number} carries the count {cell.execution_count}; refresh the notebook"
        for item in cell.outputs:
            for fault in _output(item):
                yield f"code cell {number} {fault}"


def _output(item: Any) -> Iterator[str]:
    """What is wrong with one output of a cell."""
    data = item.get("data", {})
    if item.output_type == "error":
        yield f"failed: {item.get('ename')}"
    if item.get("name") == "stderr":
        yield "wrote to standard error"
    if "update" in item.output_type or "transient" in item:
        yield "updates a display; nbval ignores that"
    if "image/svg+xml" in data:
        yield "shows an SVG figure, which holds a date; use PNG"
    texts = [str(value) for kind, value in data.items() if not kind.startswith("image/")]
    text = "\n".join([*texts, str(item.get("text", ""))])
    for pattern, what in _VOLATILE.items():
        if re.search(pattern, text):
            yield f"shows {what}"


def _metadata(notebook: Any, name: str) -> Iterator[str]:
    extra = sorted({"papermill", "language_info", "widgets"} & set(notebook.metadata))
    extra += sorted({key for cell in notebook.cells for key in cell.metadata} & {"papermill", "execution"})
    if extra:
        yield f"it carries volatile metadata ({', '.join(extra)}); refresh it"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernel must be 'python3'"
    identities = {cell.get("id") for cell in notebook.cells} - {None}
    if len(identities) < len(notebook.cells):
        yield "every cell needs an id of its own"


def refresh(names: Sequence[str | Path] = ()) -> list[Path]:
    """Run notebooks (all by default) with their defaults and rewrite them in place; returns the files that
    changed. Those of a study run in order over a temporary results folder, including those before a named
    one, and are written only when all of it ran. The same code gives the same bytes. Raises RunError with the
    rules that a refreshed notebook breaks.
    """
    chosen = sorted({find(name) for name in names or committed()}, key=lambda path: (_line(path), path))
    changed: list[Path] = []
    for (folder, group), wanted in itertools.groupby(chosen, _line):
        for path, text in _fresh(folder, group, list(wanted)).items():
            if path.read_text(encoding="utf-8") != text:
                changed.append(tables.write_whole(path, text))
    if broken := [f"{path.name}: {text}" for path in chosen for text in rules(path)]:
        raise RunError("refreshed, but these rules are broken:\n  " + "\n  ".join(broken))
    return changed


def _line(path: Path) -> tuple[Path, str]:
    """The folder and the study whose notebooks run in one line."""
    return path.parent, study(path)


def _fresh(folder: Path, group: str, wanted: Sequence[Path]) -> dict[Path, str]:
    """The new text of each wanted notebook, after running its study up to the last wanted one."""
    line = [path for path in sorted(folder.glob("*.ipynb")) if study(path) == group and path <= wanted[-1]]
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="crs-refresh-") as temporary:
        away = {"CRS_RESULTS": f"{temporary}/results", "CRS_FIGURES": f"{temporary}/figures"}
        for path in wanted if group == "other" else line:  # others are no pipeline: each stands for itself
            out = Path(temporary) / "executed" / path.name
            runner.execute(path, out, {}, away, folder)
            if path in wanted:
                # A path that a cell prints is stored as it will be, into the project's results.
                text = clean(load(out)).replace(os.path.relpath(temporary, folder), "..")
                texts[path] = text.replace(f"{temporary}/", "")
    return texts


def clean(notebook: Any) -> str:
    """The notebook as committed: counts from 1, no volatile metadata."""
    import nbformat

    book = copy.deepcopy(notebook)
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in book.cells:
        cell.metadata = {"tags": tags} if (tags := cell.metadata.get("tags")) else {}
    for count, cell in enumerate(code_cells(book), start=1):
        cell.execution_count = count
        for item in cell.outputs:
            if "execution_count" in item:
                item.execution_count = count
    return str(nbformat.writes(nbformat.from_dict(book), version=4)) + "\n"
