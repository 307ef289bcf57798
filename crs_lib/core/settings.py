"""Checked settings: pydantic models whose fields declare type, bounds, choices and one line of help.

::

    class GateSettings(Settings):
        n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy")] = 50
        convention: Annotated[str, OneOf(CONVENTIONS), Field(description="way of scoring")] = "default"

Values are checked in strict mode: true is not a number, "3" is not a whole number, nan is refused. A list
becomes a tuple; a whole number given for a float stays whole, so that manifests keep their bytes.
Command-line options, notebook parameters and sweeps are read from the same fields (:func:`fields_of`).
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from crs_lib.core import paths, rng
from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry, did_you_mean

__all__ = ["Field", "OneOf", "RunName", "Seed", "Setting", "Settings", "fields_of"]

_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", type(None): "null"}
_WORDS |= {bool: "true, false", tuple: "a list", Sequence: "a list", Mapping: "an object"}
_ITEMS = {str: "texts", int: "whole numbers", float: "numbers"}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


@dataclass(frozen=True)
class OneOf:
    """Marks a text that names a member of a registry (a spec), or one of other known names.

    ``known`` may be a function that returns the names, for names that are costly to list. With ``optional``
    the text may be empty.
    """

    known: Registry[Any] | Iterable[str] | Callable[[], Iterable[str]]
    optional: bool = False

    @property
    def kinds(self) -> str:
        """The word for several members: that of the registry ("policies"), else "names"."""
        return re.sub("ys$", "ies", f"{self.known.kind}s") if isinstance(self.known, Registry) else "names"

    def names(self) -> list[str]:
        """The names to choose from, in their order."""
        if isinstance(self.known, Registry):
            return self.known.names()
        return list(self.known() if callable(self.known) else self.known)

    def check(self, given: str) -> str:
        """The text itself; InputError from a registry, ValueError for any other unknown name."""
        if self.optional and not given:
            return given
        if isinstance(self.known, Registry):
            self.known.get(given)
        elif given not in self.names():
            raise ValueError(given)
        return given

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return AfterValidator(self.check).__get_pydantic_core_schema__(source, handler)


RunName = Annotated[str, AfterValidator(paths.run_name)]
Seed = Annotated[int, PlainValidator(rng.check_seed)]


class Settings(BaseModel):
    """Base of all settings. Raises InputError naming the setting, the value given and the values expected.

    ``_where`` is what error texts put before the setting's name, e.g. "llm: ". A subclass states what
    concerns several fields in ``check``.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        defer_build=True,
    )
    _where: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        lines = [f"    {name}: {field.description or ''}" for name, field in cls.model_fields.items()]
        cls.__doc__ = "\n\n".join([inspect.cleandoc(cls.__doc__ or ""), "\n".join(["Fields:", *lines])])

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _sentence(type(self), given, error) from None
        self.check()

    @field_validator("*", mode="wrap")
    @classmethod
    def _kept(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """The checked value of a field: tuples for lists, whole numbers as given, settings from mappings."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, Settings):
            value = kind(**value)
        read = validate(tuple(value) if isinstance(value, list) and _is_list(kind) else value)
        if type(read) is float and type(value) is int:
            return value
        return tuple(read) if isinstance(read, list) and _is_list(kind) else read

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""

    def changed(self, **values: Any) -> Self:
        """A copy with other values of some fields, checked as a new one."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | values)

    def values(self) -> dict[str, Any]:
        """The fields as plain data, in order; nested settings as dicts."""
        found = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: value.values() if isinstance(value, Settings) else value for name, value in found}


@dataclass(frozen=True)
class Setting:
    """One field of a settings class: its name, type without marks, default, help and marks."""

    name: str
    kind: Any
    default: Any
    required: bool
    help: str
    marks: tuple[Any, ...]

    @property
    def several(self) -> bool:
        """Whether the value is a list."""
        return _is_list(self.kind)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, without their own arguments: ``int | None`` has two."""
        parts = typing.get_args(self.kind) if isinstance(self.kind, types.UnionType) else (self.kind,)
        return tuple(typing.get_origin(part) or part for part in parts)

    @property
    def items(self) -> tuple[Any, ...]:
        """The type of a list's items; empty for other values."""
        return self._item[:1]

    @property
    def _item(self) -> tuple[Any, ...]:
        """The type of a list's items and its marks; empty for other values."""
        inner = typing.get_args(self.kind)[0] if self.several else None
        return typing.get_args(inner) if typing.get_origin(inner) is Annotated else (inner,) * self.several

    @property
    def names(self) -> OneOf | None:
        """The names that the value (each item of a list) is one of; None where any may stand."""
        if typing.get_origin(self.kind) is Literal:
            return OneOf(typing.get_args(self.kind))
        return next((mark for mark in (*self.marks, *self._item[1:]) if isinstance(mark, OneOf)), None)

    @property
    def expected(self) -> str:
        """The values that are expected, in words: "a whole number from 1 to 50"."""
        names = self.names.names() if self.names else []
        if self.several:
            usual = _ITEMS.get(self.items[0], "values")
            return f"a list of {f'{self.names.kinds}, e.g. {names[:2]}' if self.names else usual}"
        if names:
            return " or ".join(map(repr, names)) if len(names) == 2 else f"one of {', '.join(names)}"
        words = (_WORDS.get(kind, f"a {getattr(kind, '__name__', kind)}") for kind in self.kinds)
        return " or ".join(", ".join(words).rsplit(", ", 1)) + _between(self.marks)


def fields_of(settings: type[Settings]) -> tuple[Setting, ...]:
    """The fields of a settings class, in order."""
    return tuple(
        Setting(
            name,
            field.annotation,
            None if field.is_required() else field.get_default(call_default_factory=True, validated_data={}),
            field.is_required(),
            field.description or "",
            tuple(field.metadata),
        )
        for name, field in settings.model_fields.items()
    )


def _sentence(settings: type[Settings], given: Mapping[str, Any], error: ValidationError) -> InputError:
    """Pydantic's error as ours: a name that is no field, or the first value that a field cannot hold."""
    fields, where = {field.name: field for field in fields_of(settings)}, settings._where
    for name in given:
        if name not in fields:
            return InputError(
                f"{where}unknown setting {name!r}{did_you_mean(name, fields)} (known: {', '.join(fields)})"
            )
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(f"{where}{cause}")
    field = fields[str(first["loc"][0])]
    if first["type"] == "missing":
        return InputError(f"{where}{field.name} is missing; give {field.expected}")
    value = given.get(field.name, field.default)
    wrong = cause or (value if not field.several else "")
    names = field.names.names() if field.names else []
    hint = did_you_mean(str(wrong), names)
    known = f"{hint} (known: {', '.join(names)})" if hint else f"; give {field.expected}"
    return InputError(f"{where}{field.name} is {value!r}{known}")


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) in (tuple, Sequence)


def _between(marks: Sequence[Any]) -> str:
    """The bounds among the marks in words: " from 1 to 50", " >= 0"."""
    found = {name: getattr(mark, name) for mark in marks for name in _SIGNS if hasattr(mark, name)}
    if found.keys() == {"ge", "le"}:
        return f" from {found['ge']:,} to {found['le']:,}"
    return " and".join(f" {sign} {found[name]:,}" for name, sign in _SIGNS.items() if name in found)
