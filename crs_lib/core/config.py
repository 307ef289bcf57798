"""Checked settings: frozen dataclasses whose fields declare type, bounds, choices and one line of help.

::

    @dataclass(frozen=True)
    class GateConfig(Config):
        n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy")] = 50
        convention: Annotated[str, OneOf(CONVENTIONS), Field(description="way of scoring")] = "default"

Pydantic checks each value in strict mode: true is not a number, "3" is not a whole number, nan is refused.
A list becomes a tuple; a whole number given for a float stays whole, so that manifests keep their bytes.
The command line makes its arguments from the same fields (``crs_lib.cli.options``).
"""

import collections.abc
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.core.settings import OneOf, RunName, Seed

__all__ = ["Config", "Field", "OneOf", "RunName", "Seed", "Setting", "settings_of"]

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_WORDS = {int: "a whole number", float: "a number", str: "a text", type(None): "null"}
_WORDS |= {bool: "true, false", tuple: "a list", collections.abc.Mapping: "an object"}
_ITEMS = {str: "texts", int: "whole numbers", float: "numbers"}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


class Config:
    """Base of every config. Raises InputError naming the setting, the value given and the values expected.

    ``_where`` is what error texts put before the setting's name, e.g. "llm: ". A subclass states what
    concerns several fields in ``check``.
    """

    _where: typing.ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        lines = [f"    {name}: {_help(hint)}" for name, hint in inspect.get_annotations(cls).items()]
        cls.__doc__ = "\n\n".join([inspect.cleandoc(cls.__doc__ or ""), "\n".join(["Fields:", *lines])])

    def __new__(cls, *values: Any, **given: Any) -> Self:
        """Refuse a name that is no field; a known one gets its value from the dataclass's ``__init__``."""
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in given:
            if name not in known:
                hint = f"{did_you_mean(name, known)} (known: {', '.join(known)})"
                raise InputError(f"{cls._where}unknown setting {name!r}{hint}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            value = setting.checked(getattr(self, setting.name), self._where)
            object.__setattr__(self, setting.name, value)
        self.check()

    @classmethod
    def _old_fields(cls) -> Any:
        from crs_lib.core import settings

        return tuple(
            settings.Setting(one.name, one.kind, one.default, one.required, one.help, one.marks)
            for one in settings_of(cls)
        )

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""


@dataclass(frozen=True)
class Setting:
    """One field of a config: its name, type without marks, default, help and marks."""

    name: str
    kind: Any
    default: Any
    help: str
    marks: tuple[Any, ...]
    adapter: TypeAdapter[Any]

    @property
    def required(self) -> bool:
        """Whether the field has no default."""
        return self.default is dataclasses.MISSING

    @property
    def several(self) -> bool:
        """Whether the value is a list."""
        return typing.get_origin(self.kind) in (tuple, collections.abc.Sequence)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, without their own arguments: ``int | None`` has two."""
        parts = typing.get_args(self.kind) if isinstance(self.kind, types.UnionType) else (self.kind,)
        return tuple(typing.get_origin(part) or part for part in parts)

    @property
    def items(self) -> tuple[Any, ...]:
        """The type of a list's items; empty for other values."""
        return (_plain(typing.get_args(self.kind)[0]),) if self.several else ()

    @property
    def names(self) -> OneOf | None:
        """The names that the value (each item of a list) is one of; None where any may stand."""
        if typing.get_origin(self.kind) is Literal:
            return OneOf(typing.get_args(self.kind))
        marks = (*self.marks, *(_marks(typing.get_args(self.kind)[0]) if self.several else ()))
        return next((mark for mark in marks if isinstance(mark, OneOf)), None)

    @property
    def expected(self) -> str:
        """The values that are expected, in words: "a whole number from 1 to 50"."""
        names = self.names.names() if self.names else []
        if self.several:
            items = (
                f"{self.names.kinds}, e.g. {names[:2]}" if self.names else _ITEMS.get(self.items[0], "values")
            )
            return f"a list of {items}"
        if names:
            return " or ".join(map(repr, names)) if len(names) == 2 else f"one of {', '.join(names)}"
        words = ", ".join(_WORDS.get(kind, f"a {_name(kind)}") for kind in self.kinds)
        return " or ".join(words.rsplit(", ", 1)) + _between(self.marks)

    def checked(self, value: Any, where: str = "") -> Any:
        """The value as the field holds it; InputError naming the field for a value that it cannot hold."""
        given = tuple(value) if self.several and isinstance(value, list) else value
        try:
            read = self.adapter.validate_python(given)
        except ValidationError as error:
            raise self._refused(value, error, where) from None
        if self.several and isinstance(read, list):  # a validator may return a list
            return tuple(read)
        return given if isinstance(read, float) and isinstance(given, int) else read

    def _refused(self, value: object, error: ValidationError, where: str) -> InputError:
        """The InputError of a validator, or one made of name, value and what is expected."""
        cause = error.errors()[0].get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            return InputError(f"{where}{cause}")
        wrong = cause or (value if not self.several else "")
        names = self.names.names() if self.names else []
        hint = did_you_mean(str(wrong), names)
        known = f"{hint} (known: {', '.join(names)})" if hint else f"; give {self.expected}"
        return InputError(f"{where}{self.name} is {value!r}{known}")


def settings_of(config: type[Config]) -> tuple[Setting, ...]:
    """The fields of a config, in order."""
    return _settings_of(config)  # type: ignore[arg-type]  # a class is hashable, whatever mypy holds


@functools.cache
def _settings_of(config: type) -> tuple[Setting, ...]:
    hints = typing.get_type_hints(config, include_extras=True)
    return tuple(_setting(field, hints[field.name]) for field in dataclasses.fields(config))


def _setting(field: dataclasses.Field[Any], hint: Any) -> Setting:
    made = field.default_factory
    default = field.default if made is dataclasses.MISSING else made()
    return Setting(field.name, _plain(hint), default, _help(hint), _marks(hint), _adapter(hint))


def _plain(hint: Any) -> Any:
    """A type without its marks."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _marks(hint: Any) -> tuple[Any, ...]:
    """The marks of a type, those within a ``Field`` laid open."""
    marks = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    return tuple(part for mark in marks for part in (mark, *getattr(mark, "metadata", ())))


def _help(hint: Any) -> str:
    """The line of help of a type's ``Field``; empty where there is none."""
    return next((str(mark.description) for mark in _marks(hint) if getattr(mark, "description", "")), "")


def _adapter(hint: Any) -> TypeAdapter[Any]:
    """Checks values of a type: strictly by pydantic; dataclasses as instances, configs as mappings, too."""
    kind = _plain(hint)
    if dataclasses.is_dataclass(kind):
        is_one = AfterValidator(functools.partial(_instance, kind))
        return TypeAdapter(Annotated[Any, is_one, *typing.get_args(hint)[1:]])
    return TypeAdapter(hint, config=_STRICT)


def _instance(kind: Any, value: object) -> object:
    if isinstance(value, collections.abc.Mapping) and issubclass(kind, Config):
        return kind(**value)
    if not isinstance(value, kind):
        raise ValueError(value)
    return value


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _between(marks: Sequence[Any]) -> str:
    """The bounds among the marks in words: " from 1 to 50", " >= 0"."""
    found = {name: getattr(mark, name) for mark in marks for name in _SIGNS if hasattr(mark, name)}
    if found.keys() == {"ge", "le"}:
        return f" from {found['ge']:,} to {found['le']:,}"
    return " and".join(f" {sign} {found[name]:,}" for name, sign in _SIGNS.items() if name in found)
