"""The rules for committed notebooks (docs/decisions/0003-notebooks.md), checked on the stored file.

``rules(path)`` reads cells and stored outputs, executes nothing, and returns a list of broken rules.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.notebooks import parameters

LINES = 8
SHARE = (40, 50)  # per cent of the cells that are text; findings and the closing sections left out
FINDING = "finding"  # tag of a cell that shows a generated sentence
CHECKS, CLOSING = "Checks", ("What we learnt", "What this does not show")
_FORBIDDEN = {
    ast.FunctionDef: "def", ast.AsyncFunctionDef: "def", ast.ClassDef: "class", ast.Try: "try",
    ast.TryStar: "try", ast.While: "while", ast.Lambda: "lambda",
}  # fmt: skip
_VOLATILE = {
    r"0x[0-9a-fA-F]{6,}": "an object address",
    r"\b(19|20)\d\d-[01]\d-[0-3]\d[T ]\d\d:\d\d": "a date and time",
    r"(?<![\w.:/])/(home|root|tmp|Users|private|var|mnt|work)/[\w.-]": "an absolute path",
    r"\b[A-Z]:\\\w": "an absolute path",
    r"\d(it|s)/(s|it)\]": "a progress bar",
    r"#T_[0-9a-f]{5}": "a styled table with a random id",
    r"\d\.\d{7,}": "a number that is not rounded",
}


@safety.reader("a notebook")
def load(path: Path) -> Any:
    """The notebook as nbformat reads it (format 4); InputError where the file is none."""
    import nbformat

    text = safety.read_text(path)
    try:
        record = safety.loads(text, path.name)
        usable = record["nbformat"] == 4 and all(
            isinstance(cell["source"], str | list) for cell in record["cells"]
        )
    except (ValueError, TypeError, KeyError):
        usable = False
    unusable = f"{path.name} is no notebook of format 4; open it in JupyterLab and save it"
    if not usable:
        raise InputError(unusable)
    try:
        return nbformat.reads(text, as_version=4)
    except AssertionError as error:  # nbformat's word for a version that is no number
        raise InputError(unusable) from error


def cells_tagged(notebook: Any, tag: str) -> list[Any]:
    """The code cells that carry a tag, in order."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if tag in cell.metadata.get("tags", [])]


def rules(path: str | Path) -> list[str]:
    """Every rule that a notebook breaks, in words; an empty list for a good one."""
    source = Path(path)
    notebook = load(source)
    if not notebook.cells or all(cell.cell_type != "code" for cell in notebook.cells):
        return ["it has no code cell"]
    checks = (_opening, _parameters, _code, _balance, _sections, _ending, _outputs, _metadata)
    return [text for check in checks for text in check(notebook, source.stem)]


def _code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _opening(notebook: Any, name: str) -> Iterator[str]:
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith("# "):
        yield "the first cell must be text that starts with '# ' and the notebook's name"
        return
    text = first.source.lower()
    for word in ("?", "input", "output", f"papermill {name.lower()}.ipynb"):
        if word not in text:
            yield f"the first cell must state question, input, output and papermill line; {word!r} is missing"


def _parameters(notebook: Any, name: str) -> Iterator[str]:
    tagged = cells_tagged(notebook, "parameters")
    if len(tagged) != 1 or tagged[0] is not _code_cells(notebook)[0]:
        yield "exactly one cell must be tagged 'parameters', and it must be the first code cell"
        return
    try:
        declared = parameters.read(tagged[0].source, name)
    except InputError as error:
        yield str(error)
        return
    after = _code_cells(notebook)[1:]
    used = {node.id for cell in after for node in _nodes(cell.source) if isinstance(node, ast.Name)}
    for parameter in declared:
        texts = re.findall(r"[=#]", json.dumps(parameter.default))
        if not parameter.help:
            yield f"parameter {parameter.name!r} has no trailing comment"
        if texts or "|" in parameter.annotation or "Literal" in parameter.annotation:
            yield f"parameter {parameter.name!r}: no '=' or '#' in a default, no '|' or Literal in a type"
        if parameter.name not in used:
            yield f"parameter {parameter.name!r} is never used"
    start = "\n".join(cell.source for cell in after[:2])
    if "notebooks.begin()" not in start:
        yield "the cell after the parameters must import and call notebooks.begin()"
    if not re.search(r"^config = ", start, re.MULTILINE):
        yield "one of the two cells after the parameters must build the checked config ('config = …')"


def _nodes(source: str) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(source))
    except SyntaxError:
        return


def _code(notebook: Any, name: str) -> Iterator[str]:
    for number, cell in enumerate(_code_cells(notebook), start=1):
        where = f"code cell {number}"
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if not lines:
            yield f"{where} is empty"
            continue
        if len(lines) > LINES and "parameters" not in cell.metadata.get("tags", []):
            yield f"{where} has {len(lines)} lines; at most {LINES}: move work into crs_lib"
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            yield f"{where} is not plain Python (no magics, no shell lines)"
            continue
        words = {
            word for node in ast.walk(tree) for kind, word in _FORBIDDEN.items() if isinstance(node, kind)
        }
        yield from (f"{where} holds {word!r}: the library does, the notebook tells" for word in sorted(words))


def _balance(notebook: Any, name: str) -> Iterator[str]:
    closing = [cell for title, cells in _parts(notebook) if title in CLOSING for cell in cells]
    told = [*closing, *cells_tagged(notebook, FINDING)]
    counted = [cell for cell in notebook.cells if cell not in told]
    texts, cells = sum(cell.cell_type == "markdown" for cell in counted), len(counted)
    share = round(100 * texts / max(1, cells))
    if not SHARE[0] <= share <= SHARE[1]:
        of = f"{texts} of {cells}"
        yield f"{share} % of the cells are text ({of}); expected {SHARE[0]} to {SHARE[1]} %"


def _parts(notebook: Any) -> list[tuple[str, list[Any]]]:
    """The sections in order: the heading of second level, and the cells from it to the next."""
    parts: list[tuple[str, list[Any]]] = []
    for cell in notebook.cells:
        heading = re.match(r"## (.+)", cell.source) if cell.cell_type == "markdown" else None
        if heading:
            parts.append((heading[1].strip(), []))
        if parts:
            parts[-1][1].append(cell)
    return parts


def _sections(notebook: Any, name: str) -> Iterator[str]:
    """A finding stands at a section's end, the opening lists the questions, the end says what was shown."""
    parts = _parts(notebook)
    titles = [title for title, _ in parts]
    if tuple(titles[-3:]) != (CHECKS, *CLOSING):
        yield f"it must end with the sections {CHECKS!r}, {CLOSING[0]!r} and {CLOSING[1]!r}"
    for title, cells in parts:
        code = [cell for cell in cells if cell.cell_type == "code"]
        finding = [FINDING in cell.metadata.get("tags", []) for cell in code]
        if title in CLOSING and not (finding and finding[-1]):
            yield f"section {title!r} must end with a code cell tagged {FINDING!r} that shows its sentence"
        if any(finding[:-1]):
            yield f"section {title!r} has a cell tagged {FINDING!r} before its end; one, as its last"
    asked = re.findall(r"^\d+\. .*\?$", notebook.cells[0].source, re.MULTILINE)
    told = [title for title in titles if title not in (CHECKS, *CLOSING)]
    if len(asked) != len(told):
        yield f"the first cell lists {len(asked)} questions ('1. …?') for {len(told)} sections; one each"


def _ending(notebook: Any, name: str) -> Iterator[str]:
    """The checks come last but for the findings, and the texts after them hold no number."""
    told = cells_tagged(notebook, FINDING)
    last = [cell for cell in _code_cells(notebook) if cell not in told][-1]
    if "checks" not in last.metadata.get("tags", []):
        yield "the last code cell before the findings must be tagged 'checks'"
    if not any(isinstance(node, ast.Assert) for node in _nodes(last.source)):
        yield "the cell of checks must hold asserts"
    closing = [cell for title, cells in _parts(notebook) if title in CLOSING for cell in cells]
    texts = "\n".join(cell.source for cell in closing if cell.cell_type == "markdown")
    if re.search(r"\d", re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)", "", texts)):
        yield "the reading at the end holds a number typed by hand; it would be wrong for other parameters"


def _outputs(notebook: Any, name: str) -> Iterator[str]:
    for number, cell in enumerate(_code_cells(notebook), start=1):
        where = f"code cell {number}"
        if cell.execution_count != number:
            yield f"{where} carries the count {cell.execution_count}; refresh the notebook"
        for item in cell.outputs:
            if item.output_type == "error":
                yield f"{where} failed: {item.ename}"
            if item.get("name") == "stderr":
                yield f"{where} wrote to standard error"
            if item.output_type == "update_display_data" or item.get("transient"):
                yield f"{where} updates a display; nbval ignores that"
            if "image/svg+xml" in item.get("data", {}):
                yield f"{where} shows an SVG figure, which holds a date; use PNG"
            yield from (f"{where} shows {what}" for what in _volatile(item))


def _volatile(item: Any) -> list[str]:
    shown = [str(value) for kind, value in item.get("data", {}).items() if not kind.startswith("image/")]
    text = "\n".join([*shown, str(item.get("text", ""))])
    return sorted({what for pattern, what in _VOLATILE.items() if re.search(pattern, text)})


def _metadata(notebook: Any, name: str) -> Iterator[str]:
    extra = sorted({"papermill", "language_info", "widgets"} & set(notebook.metadata))
    extra += sorted({key for cell in notebook.cells for key in cell.metadata} & {"papermill", "execution"})
    if extra:
        yield f"it carries volatile metadata ({', '.join(extra)}); refresh it"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernel must be 'python3'"
    identities = [cell.get("id") for cell in notebook.cells]
    if None in identities or len(set(identities)) < len(identities):
        yield "every cell needs an id of its own"
