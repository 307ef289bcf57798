"""Names to choose from (registries), and checked settings: pydantic models with one line of help a field.

::

    class GateSettings(Settings):
        n_sessions: Annotated[int, Field(ge=2, description="scenarios of each policy")] = 50
        convention: Annotated[str, OneOf(CONVENTIONS), Field(description="way of scoring")] = "default"

Values are checked in strict mode: true is not a number, "3" is not a whole number, nan is refused. A list
becomes a tuple; a whole number given for a float stays whole, so that manifests keep their bytes.
Command-line options, notebook parameters and sweeps are read from the same fields (:func:`fields_of`).
"""

import importlib
import inspect
import math
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
)

from crs_lib.core import clients, paths, rng
from crs_lib.core.errors import InputError, did_you_mean, unknown

__all__ = ["Entry", "Field", "OneOf", "Registry", "RunName", "Seed", "Setting", "Settings", "fields_of"]

T = TypeVar("T")
_Facts = Callable[[], Mapping[str, Mapping[str, Any]]] | None


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered member: its name, what makes it, a one-line summary, and declared facts."""

    name: str
    make: Callable[..., T]
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


class Registry(Generic[T]):
    """Members by name. ``kind`` is the word that error texts use ("policy", "figure"). ``room`` names the
    package whose files register the members: the first look for one that is not known yet, or at all, imports
    every file, those named ``first`` before the others, so that a new one needs no entry in any list.
    ``words`` gives further facts of members, by name, that stand in a file of texts. Members with the fact
    ``place`` (a number) come first, in its order; then the others as they were registered.
    """

    def __init__(self, kind: str, room: str = "", first: Sequence[str] = (), words: _Facts = None) -> None:
        self.kind = kind
        self._room, self._first, self._words = room, first, words
        self._complete = False  # whether the clients have registered theirs
        self._entries: dict[str, Entry[T]] = {}

    def _known(self) -> dict[str, Entry[T]]:
        if self._room:
            files = pkgutil.iter_modules(importlib.import_module(self._room).__path__)
            for name in [*self._first, *(file.name for file in files)]:
                importlib.import_module(f"{self._room}.{name}")
            self._room = ""
        if not self._complete:
            self._complete = True
            clients.load_members(self.kind)
            for name, facts in self._words().items() if self._words else ():
                if name in self._entries:
                    self._entries[name].facts.update(facts)
        return self._entries

    def register(self, name: str, **facts: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator that registers a class or function; its docstring's first line is the summary."""
        if ":" in name or name in self._entries:
            wrong = "holds a colon, which separates arguments" if ":" in name else "is registered twice"
            raise InputError(f"{self.kind} {name!r} {wrong}")

        def add(make: Callable[..., T]) -> Callable[..., T]:
            summary = (inspect.getdoc(make) or "").split("\n", 1)[0]
            self._entries[name] = Entry(name, make, summary, facts)
            return make

        return add

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self._known().values(), key=lambda entry: entry.facts.get("place", math.inf)))

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, spec: object) -> bool:
        name = str(spec).partition(":")[0]
        return (name in self._entries and not self._words) or name in self._known()

    def names(self) -> list[str]:
        """All names, in the order of the members."""
        return [entry.name for entry in self]

    def get(self, spec: str) -> Entry[T]:
        """The member that a spec names (up to its first colon); InputError with a suggestion for none."""
        if spec not in self:
            raise unknown(self.kind, spec, self.names())
        return self._entries[spec.partition(":")[0]]

    def create(self, spec: str, /, **options: Any) -> T:
        """Make the member that a spec names; what follows the first colon is passed as ``argument``. Raises
        InputError for an unknown name, a missing argument, and an argument where none is taken.
        """
        entry, argument = self.get(spec), self.argument(spec)
        given = {"argument": argument} if entry.facts.get("argument") else {}
        return entry.make(**options, **given)

    def argument(self, spec: str) -> Any:
        """What follows a spec's first colon (else the fact ``default``), read by the member's fact ``parse``;
        None for nothing. Raises InputError as :meth:`create`, and for an argument that ``parse`` refuses.
        """
        facts = self.get(spec).facts
        name, colon, written = spec.partition(":")
        takes, example = facts.get("argument"), f"{name}:{facts.get('example', 'VALUE')}"
        argument = written if colon else facts.get("default")
        if colon and not takes:
            raise InputError(f"{self.kind} {name!r} takes no argument, got {spec!r}")
        if takes and not argument:
            raise InputError(f"{self.kind} {spec!r} needs {takes} after a colon, e.g. {example}")
        try:
            return facts["parse"](argument) if takes and "parse" in facts else argument
        except InputError as error:
            raise InputError(f"{name}:{argument}: {error}, e.g. {example}") from None

    def describe(self) -> pd.DataFrame:
        """One row a member: name, summary and the declared facts, but for ``place`` and ``parse``."""
        rows = [{"name": e.name, "summary": e.summary, **e.facts} for e in self]
        return pd.DataFrame(rows).drop(columns=["place", "parse"], errors="ignore")


@dataclass(frozen=True)
class OneOf:
    """Marks a text that names a member of a registry (a spec), or one of other known names. With ``optional``
    the text may be empty; ``known`` may be a function, for names that are costly to list.
    """

    known: Registry[Any] | Iterable[str] | Callable[[], Iterable[str]]
    optional: bool = False

    def names(self) -> list[str]:
        """The names to choose from, in their order."""
        if isinstance(self.known, Registry):
            return self.known.names()
        return list(self.known() if callable(self.known) else self.known)

    def check(self, given: str) -> str:
        """The text itself; InputError from a registry, ValueError for any other unknown name."""
        if isinstance(self.known, Registry) and (given or not self.optional):
            self.known.get(given)
        elif given not in self.names() and not (self.optional and not given):
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
        frozen=True, strict=True, extra="forbid", validate_default=True, allow_inf_nan=False,
        arbitrary_types_allowed=True, defer_build=True,
    )  # fmt: skip
    _where: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        lines = [f"    {name}: {field.description or ''}" for name, field in cls.model_fields.items()]
        cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), "", "Fields:", *lines])

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _sentence(type(self), given, error) from None
        self.check()

    @field_validator("*", mode="wrap")
    @classmethod
    def _kept(cls, value: Any, validate: Callable[[Any], Any], info: Any) -> Any:
        """The checked value of a field: tuples for lists, whole numbers as given, settings from mappings."""
        kind = cls.model_fields[info.field_name].annotation
        if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, Settings):
            value = kind(**value)
        several = typing.get_origin(kind) in (tuple, Sequence) and isinstance(value, list | tuple)
        read = validate(tuple(value) if several else value)
        if type(read) is float and type(value) is int:
            return value
        return tuple(read) if several else read

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""

    def changed(self, **values: Any) -> Self:
        """A copy with other values of some fields, checked as a new one."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | values)

    def values(self) -> dict[str, Any]:
        """The fields as plain data, in order; nested settings as dicts."""
        own = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: value.values() if isinstance(value, Settings) else value for name, value in own}


class Setting(NamedTuple):
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
        return typing.get_origin(self.kind) in (tuple, Sequence)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, without their own arguments: ``int | None`` has two."""
        parts = typing.get_args(self.kind) if isinstance(self.kind, types.UnionType) else (self.kind,)
        return tuple(typing.get_origin(part) or part for part in parts)

    @property
    def items(self) -> tuple[Any, ...]:
        """The type of a list's items and its marks; empty for other values."""
        inner = typing.get_args(self.kind)[:1] if self.several else ()
        return typing.get_args(inner[0]) if inner and typing.get_origin(inner[0]) is Annotated else inner

    @property
    def names(self) -> OneOf | None:
        """The names that the value (each item of a list) is one of; None where any may stand."""
        if typing.get_origin(self.kind) is Literal:
            return OneOf(typing.get_args(self.kind))
        return next((mark for mark in (*self.marks, *self.items) if isinstance(mark, OneOf)), None)


def fields_of(settings: type[Settings]) -> tuple[Setting, ...]:
    """The fields of a settings class, in order."""
    found = list[Setting]()
    for name, row in settings.model_fields.items():
        needed, help_, marks = row.is_required(), row.description or "", tuple(row.metadata)
        default = None if needed else row.get_default(call_default_factory=True)
        found.append(Setting(name, row.annotation, default, needed, help_, marks))
    return tuple(found)


def _sentence(settings: type[Settings], given: Mapping[str, Any], error: ValidationError) -> InputError:
    """Pydantic's error as ours: a name that is no field, or the first value that a field cannot hold."""
    fields, where = {field.name: field for field in fields_of(settings)}, settings._where
    for name in given.keys() - fields.keys():
        return InputError(f"{where}{unknown('setting', name, fields)}")
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(f"{where}{cause}")
    field, said = fields[str(first["loc"][0])], first["msg"].removeprefix("Value error, ")
    told = said[0].lower() + said[1:]
    if first["type"] == "missing":
        return InputError(f"{where}{field.name} is missing; give {field.help or 'it'}")
    names = field.names.names() if field.names else []
    if field.several and not (names and first["loc"][1:]):
        belongs = f", e.g. {names[:2]}" if names else field.help and f": {field.help}"
        told = f"give a list{belongs}"
    elif names:
        told = f"{'each must be' if field.several else 'give'} one of {', '.join(names)}"
        told += did_you_mean(str(first["input"]), names)
    return InputError(f"{where}{field.name} is {given.get(field.name, field.default)!r}; {told}")
