"""The parameters of a notebook, read from the tagged cell, and the check of values before a run.

The cell holds lines ``name: type = literal  # help`` and nothing else. The lines are parsed as Python
(``ast``): papermill's own reader does not understand a ``#`` inside a text.
"""

import ast
import io
import json
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crs_lib.core import outside
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

_AUTHORITY = re.compile(r"\w://(\S*)")
TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
    "dict": (dict, "an object"),
}


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
        return inside if inside in TYPES else None


def read(cell: str, source: str) -> list[Parameter]:
    """The parameters of a cell, in order; ``source`` names the notebook in error texts.

    Raises InputError naming the line that is anything but ``name: type = literal``.
    """
    try:
        lines = ast.parse(cell).body
    except SyntaxError as error:
        raise InputError(f"{source}: the parameters cell is not Python (line {error.lineno})") from error
    comments = _comments(cell)
    return [_parameter(line, comments, source) for line in lines]


def _comments(cell: str) -> dict[int, str]:
    """Line number to the text of the comment that ends it."""
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    return {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def _parameter(line: ast.stmt, comments: Mapping[int, str], source: str) -> Parameter:
    where = f"{source}: line {line.lineno} of the parameters cell"
    expected = "expected 'name: type = literal  # help'"
    if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name) or line.value is None:
        raise InputError(f"{where} is '{ast.unparse(line)}'; {expected}")
    try:
        default = ast.literal_eval(line.value)
    except (ValueError, SyntaxError) as error:
        raise InputError(f"{where} holds no literal: '{ast.unparse(line.value)}'; {expected}") from error
    parameter = Parameter(
        line.target.id, ast.unparse(line.annotation), default, comments.get(line.end_lineno or 0, "")
    )
    if parameter.kind not in TYPES:
        raise InputError(f"{where} has type {parameter.annotation!r}; use one of {', '.join(TYPES)}")
    try:
        checked(parameter, default)
    except InputError as error:
        raise InputError(f"{where}: the default is not of its type: {error}") from error
    return parameter


def checked(parameter: Parameter, value: object) -> Any:
    """The value, checked against the parameter's type; a whole number given for a float becomes a float.

    Numbers must be finite; lists and objects may hold only what JSON holds. Raises InputError with the value
    and the expected type. An address that could hold a password or a key is refused and not shown.
    """
    if _may_hold_secret(value):
        raise InputError(
            f"parameter {parameter.name!r} has an address with a name and password or a query, and would "
            "stand in the notebook for all to read; give the address alone, and put a key in the environment"
        )
    kind, words = TYPES[parameter.kind]
    if kind is float and _is(int, value):
        value = float(value)  # type: ignore[arg-type]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = TYPES[parameter.inner][0] if parameter.inner else object
    if not (_is(kind, value) and _is_json(value) and all(_is(inner, part) for part in parts)):
        of = f" of {parameter.inner}" if parameter.inner else ""
        raise InputError(
            f"parameter {parameter.name!r} is {value!r} ({type(value).__name__}); "
            f"expected {words}{of} ({parameter.annotation}), e.g. {parameter.default!r}"
        )
    return value


def _is(kind: type, value: object) -> bool:
    """Like isinstance, but a bool is not a number, and an int counts as a float."""
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _may_hold_secret(value: object, name: str = "") -> bool:
    """Whether an address in a value has a user part or a query; ``name`` is the key of the value."""
    if isinstance(value, dict):
        return any(_may_hold_secret(item, str(key)) for key, item in value.items())
    if isinstance(value, list):
        return any(_may_hold_secret(item, name) for item in value)
    if not isinstance(value, str):
        return False
    return any("@" in part or "?" in part for part in _AUTHORITY.findall(value)) or (
        name == "host" and ("@" in value or "?" in value)
    )


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int | bool)


def check(parameters: list[Parameter], given: Mapping[str, object], source: str) -> dict[str, Any]:
    """The given values, each checked; InputError for a name that the notebook does not have."""
    known = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in known:
            raise InputError(
                f"{source} has no parameter {name!r}{did_you_mean(name, known)} (it has: {', '.join(known)})"
            )
    return {name: checked(known[name], value) for name, value in given.items()}


def from_text(parameter: Parameter, text: str) -> Any:
    """A value from the command line, read as the parameter's type: for a text, ``007`` stays a text.

    Lists are JSON or parts between commas, objects are JSON, truth is ``true`` or ``false``.
    """
    if parameter.kind == "str":
        return text
    if parameter.kind == "list" and not text.lstrip().startswith("["):
        inner = Parameter(parameter.name, parameter.inner or "str", parameter.default, "")
        return checked(
            parameter, [from_text(inner, part.strip()) for part in text.split(",") if part.strip()]
        )
    try:
        value = outside.loads(text.lower() if parameter.kind == "bool" else text, parameter.name)
    except InputError:
        value = text
    return checked(parameter, value)


def help_text(parameters: list[Parameter], source: str) -> str:
    """The output of ``python -m crs_lib params NOTEBOOK``: one parameter a line, with its default."""
    width = max((len(f"{p.name} ({p.annotation})") for p in parameters), default=0)
    lines = [
        f"  {f'{p.name} ({p.annotation})':<{width}}  {p.help} [{json.dumps(p.default, ensure_ascii=False)}]"
        for p in parameters
    ]
    return "\n".join([f"parameters of {source}, with their defaults:", *lines])
