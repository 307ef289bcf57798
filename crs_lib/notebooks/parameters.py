"""The parameters of a notebook, read from the tagged cell, and the check of values before a run.

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
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError, did_you_mean

_AUTHORITY = re.compile(r"\w://(\S*)")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SCALARS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "an object",
}  # fmt: skip


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
        outer = {"list": list[inner], "dict": dict[str, inner]}  # type: ignore[valid-type]
        return TypeAdapter(_SCALARS.get(self.kind) or outer[self.kind], config=_STRICT)

    def checked(self, value: object) -> Any:
        """The value, checked against the type; a whole number given for a float becomes a float.

        Numbers must be finite; lists and objects may hold only what JSON holds. Raises InputError with the
        value and the expected type. An address that could hold a password or a key is refused and not shown.
        """
        if _may_hold_secret(value):
            raise InputError(
                f"parameter {self.name!r} has an address with a name and password or a query, and would "
                "stand in the notebook for all to read; give the address alone, and put a key in the "
                "environment"
            )
        try:
            read = self._adapter.validate_python(value)
        except ValidationError:
            of = f" of {self.inner}" if self.inner else ""
            raise InputError(
                f"parameter {self.name!r} is {value!r} ({type(value).__name__}); "
                f"expected {_WORDS[self.kind]}{of} ({self.annotation}), e.g. {self.default!r}"
            ) from None
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
            value = safety.loads(text.lower() if self.kind == "bool" else text, self.name)
        except InputError:
            value = text
        return self.checked(value)


def read(cell: str, source: str) -> list[Parameter]:
    """The parameters of a cell, in order; ``source`` names the notebook in error texts.

    Raises InputError naming the line that is anything but ``name: type = literal``.
    """
    try:
        lines = ast.parse(cell).body
    except SyntaxError as error:
        raise InputError(f"{source}: the parameters cell is not Python (line {error.lineno})") from error
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ").rstrip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    return [_parameter(line, comments.get(line.end_lineno or 0, ""), source) for line in lines]


def _parameter(line: ast.stmt, comment: str, source: str) -> Parameter:
    where = f"{source}: line {line.lineno} of the parameters cell"
    expected = "expected 'name: type = literal  # help'"
    if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name) or line.value is None:
        raise InputError(f"{where} is '{ast.unparse(line)}'; {expected}")
    try:
        default = ast.literal_eval(line.value)
    except (ValueError, SyntaxError) as error:
        raise InputError(f"{where} holds no literal: '{ast.unparse(line.value)}'; {expected}") from error
    parameter = Parameter(line.target.id, ast.unparse(line.annotation), default, comment)
    if parameter.kind not in _WORDS:
        raise InputError(f"{where} has type {parameter.annotation!r}; use one of {', '.join(_WORDS)}")
    try:
        parameter.checked(default)
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
    for name in given:
        if name not in known:
            raise InputError(
                f"{source} has no parameter {name!r}{did_you_mean(name, known)} (it has: {', '.join(known)})"
            )
    return {name: known[name].checked(value) for name, value in given.items()}


def help_text(parameters: list[Parameter], source: str) -> str:
    """The parameters of a notebook to read: one a line, with its default."""
    width = max((len(f"{p.name} ({p.annotation})") for p in parameters), default=0)
    lines = [
        f"  {f'{p.name} ({p.annotation})':<{width}}  {p.help} [{json.dumps(p.default, ensure_ascii=False)}]"
        for p in parameters
    ]
    return "\n".join([f"parameters of {source}, with their defaults:", *lines])
