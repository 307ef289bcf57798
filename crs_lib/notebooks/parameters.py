"""Notebooks as files: their cells, and the parameters of the tagged cell, checked before a run.

The cell holds lines ``name: type = literal  # help`` and nothing else. The lines are parsed as Python
(``ast``): papermill's own reader does not understand a ``#`` inside a text. Values are checked by pydantic in
strict mode, as all settings are.
"""

import ast
import io
import json
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError, unknown

_AUTHORITY = re.compile(r"\w://(\S*)")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SCALARS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "an object",
}  # fmt: skip


@safety.reader("a notebook")
def load(path: Path) -> Any:
    """The notebook as nbformat reads it (format 4); InputError where the file is none."""
    import nbformat

    text = safety.read_text(path)
    try:
        record = safety.loads(text, path.name)
        if record["nbformat"] == 4 and all(
            isinstance(cell["source"], str | list) for cell in record["cells"]
        ):
            return nbformat.reads(text, as_version=4)
    except (ValueError, TypeError, KeyError, AssertionError):  # the last for a version that is no number
        pass
    raise InputError(f"{path.name} is no notebook of format 4; open it in JupyterLab and save it")


def cells_tagged(notebook: Any, tag: str) -> list[Any]:
    """The code cells that carry a tag, in order."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if tag in cell.metadata.get("tags", [])]


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell; ``kind`` names the outer type, ``inner`` that of the items."""

    name: str
    annotation: str
    default: Any
    help: str

    @property
    def kind(self) -> str:
        return self.annotation.partition("[")[0]

    @property
    def inner(self) -> str | None:
        """The type of a list's items or a dict's values; None where any type is allowed."""
        inside = self.annotation.partition("[")[2].rstrip("]").rpartition(",")[2].strip()
        return inside if inside in _WORDS else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        inner = _SCALARS.get(self.inner or "", JsonValue)
        kinds = _SCALARS | {"list": list[inner], "dict": dict[str, inner]}  # type: ignore[valid-type]
        return TypeAdapter(kinds[self.kind], config=_STRICT)

    def checked(self, value: object) -> Any:
        """The value, checked against the type; a whole number given for a float becomes a float.

        Numbers must be finite; lists and objects may hold only what JSON holds. Raises InputError with the
        value and the expected type. An address that could hold a password or a key is refused and not shown.
        """
        if _may_hold_secret(value):
            raise InputError(
                f"parameter {self.name!r} has an address with a name and password or a query, which would "
                "stand in the notebook; give the address alone, and put a key in the environment"
            )
        try:
            read = self._adapter.validate_python(value)
        except ValidationError:
            expected = f"{_WORDS[self.kind]} ({self.annotation}), e.g. {self.default!r}"
            raise InputError(f"parameter {self.name!r} is {value!r}; expected {expected}") from None
        return read if self.kind == "float" else value

    def from_text(self, text: str) -> Any:
        """A value from the command line, read as the type: for a text, ``007`` stays a text.

        Lists are JSON or parts between commas, objects are JSON, truth is ``true`` or ``false``.
        """
        if self.kind == "str":
            return text
        if self.kind == "list" and not text.lstrip().startswith("["):
            item = Parameter(self.name, self.inner or "str", self.default, "")
            return self.checked([item.from_text(part.strip()) for part in text.split(",") if part.strip()])
        try:
            return self.checked(safety.loads(text.lower() if self.kind == "bool" else text, self.name))
        except InputError:
            return self.checked(text)


def read(cell: str, source: str) -> list[Parameter]:
    """The parameters of a cell, in order; ``source`` names the notebook in error texts.

    Raises InputError naming the line that is anything but ``name: type = literal``.
    """
    try:
        lines = ast.parse(cell).body
    except SyntaxError as error:
        raise InputError(f"{source}: the parameters cell is not Python (line {error.lineno})") from error
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    helps = {one.start[0]: one.string.lstrip("# ").rstrip() for one in tokens if one.type == tokenize.COMMENT}
    return [_parameter(line, helps.get(line.end_lineno or 0, ""), source) for line in lines]


def _parameter(line: Any, comment: str, source: str) -> Parameter:
    where = f"{source}: line {line.lineno} of the parameters cell"
    try:
        name, annotation = line.target.id, ast.unparse(line.annotation)
        parameter = Parameter(name, annotation, ast.literal_eval(line.value), comment)
    except (AttributeError, ValueError) as error:
        wrong = f"'{ast.unparse(line)}', expected 'name: type = literal  # help' (no literal is computed)"
        raise InputError(f"{where} is {wrong}") from error
    if parameter.kind not in _WORDS:
        raise InputError(f"{where} has type {annotation!r}; use one of {', '.join(_WORDS)}")
    try:
        parameter.checked(parameter.default)
    except InputError as error:
        raise InputError(f"{where}: the default is not of its type: {error}") from error
    return parameter


def _may_hold_secret(value: object, name: str = "") -> bool:
    """Whether an address in a value has a user part or a query; ``name`` is the key of the value."""
    if isinstance(value, dict):
        return any(_may_hold_secret(item, str(key)) for key, item in value.items())
    if isinstance(value, list):
        return any(_may_hold_secret(item, name) for item in value)
    parts = [value, *_AUTHORITY.findall(value)][name != "host" :] if isinstance(value, str) else ()
    return any("@" in part or "?" in part for part in parts)


def check(parameters: list[Parameter], given: Mapping[str, object], source: str) -> dict[str, Any]:
    """The given values, each checked; InputError for a name that the notebook does not have."""
    known = {parameter.name: parameter for parameter in parameters}
    if wrong := [name for name in given if name not in known]:
        raise InputError(f"{source}: {unknown('parameter', wrong[0], known)}")
    return {name: known[name].checked(value) for name, value in given.items()}


def help_text(parameters: list[Parameter], source: str) -> str:
    """The parameters of a notebook to read: one a line, with its default."""
    heads = [f"{p.name} ({p.annotation})" for p in parameters]
    lines = [
        f"  {head:<{max(map(len, heads))}}  {p.help} [{json.dumps(p.default, ensure_ascii=False)}]"
        for head, p in zip(heads, parameters, strict=True)
    ]
    return "\n".join([f"parameters of {source}, with their defaults:", *lines])
