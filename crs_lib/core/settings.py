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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar

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

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Entry", "Field", "OneOf", "Registry", "RunName", "Seed", "Setting", "Settings", "fields_of"]

T = TypeVar("T")
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered member: its name, what makes it, a one-line summary, and declared facts."""

    name: str
    make: Callable[..., T]
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> float:
        """Where the member stands in a list: the fact ``place``; after all others without one."""
        return float(self.facts.get("place", math.inf))


class Registry(Generic[T]):
    """Members by name.

    ``kind`` is the word that error texts use ("policy", "figure"). ``room`` names the package whose files
    register the members: the first look for one that is not there yet, or at all, imports every file, those
    named ``first`` before the others, so that a new one needs no entry in any list; then the clients' modules
    for this kind. ``words`` gives further facts of members, by name, that stand in a file of texts. Members
    with the fact ``place`` (a number) come first, in its order; then the others as they were registered.
    Those with the fact ``hidden`` work and are not listed.
    """

    def __init__(
        self,
        kind: str,
        room: str = "",
        first: Sequence[str] = (),
        words: Callable[[], Mapping[str, Facts]] | None = None,
    ) -> None:
        self.kind = kind
        self._room = room
        self._first = first
        self._words = words
        self._clients_loaded = False
        self._entries: dict[str, Entry[T]] = {}

    def _all(self) -> dict[str, Entry[T]]:
        """Every member; the files that register them are imported once."""
        if self._room:
            self._import_room(self._room)
            self._room = ""
        if not self._clients_loaded:
            self._clients_loaded = True
            clients.load_members(self.kind)
            self._add_words()
        return self._entries

    def _import_room(self, room: str) -> None:
        package = importlib.import_module(room)
        files = [file.name for file in pkgutil.iter_modules(package.__path__)]
        for name in [*self._first, *files]:
            importlib.import_module(f"{room}.{name}")

    def _add_words(self) -> None:
        if self._words is None:
            return
        for name, facts in self._words().items():
            if name in self._entries:
                self._entries[name].facts.update(facts)

    def register(self, name: str, **facts: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator that registers a class or function; its docstring's first line is the summary."""
        if ":" in name:
            raise InputError(f"{self.kind} {name!r} holds a colon, which separates arguments")
        if name in self._entries:
            raise InputError(f"{self.kind} {name!r} is registered twice")

        def add(make: Callable[..., T]) -> Callable[..., T]:
            summary = (inspect.getdoc(make) or "").partition("\n")[0]
            self._entries[name] = Entry(name, make, summary, facts)
            return make

        return add

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self._all().values(), key=lambda entry: entry.order))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, spec: object) -> bool:
        name = str(spec).partition(":")[0]
        if name in self._entries and self._words is None:
            return True  # the others need not be imported
        return name in self._all()

    def names(self) -> list[str]:
        """All names, in the order of the members."""
        return [entry.name for entry in self]

    def own_names(self) -> list[str]:
        """The names registered so far, without looking for clients: a default does not depend on them."""
        return [entry.name for entry in sorted(self._entries.values(), key=lambda entry: entry.order)]

    def get(self, spec: str) -> Entry[T]:
        """The member that a spec names (up to its first colon); InputError with a suggestion for none."""
        if spec not in self:
            public = [entry.name for entry in self if not entry.facts.get("hidden")]
            raise unknown(self.kind, spec, public)
        return self._entries[spec.partition(":")[0]]

    def create(self, spec: str, /, **options: Any) -> T:
        """Make the member that a spec names; what follows the first colon is passed as ``argument``.

        Raises InputError for an unknown name, a missing argument, and an argument where none is taken.
        """
        entry = self.get(spec)
        argument = self.argument(spec)
        if entry.facts.get("argument"):
            options["argument"] = argument
        return entry.make(**options)

    def argument(self, spec: str) -> Any:
        """What follows a spec's first colon (else the fact ``default``), read by the member's fact ``parse``.

        None for nothing. Raises InputError as :meth:`create`, and for an argument that ``parse`` refuses.
        """
        facts = self.get(spec).facts
        name, colon, text = spec.partition(":")
        takes = facts.get("argument")
        if not takes:
            if colon:
                raise InputError(f"{self.kind} {name!r} takes no argument, got {spec!r}")
            return facts.get("default")
        argument = text if colon else facts.get("default")
        example = f"{name}:{facts.get('example', 'VALUE')}"
        if not argument:
            raise InputError(f"{self.kind} {spec!r} needs {takes} after a colon, e.g. {example}")
        if "parse" not in facts:
            return argument
        try:
            return facts["parse"](argument)
        except InputError as error:
            raise InputError(f"{name}:{argument}: {error}, e.g. {example}") from None

    def describe(self) -> "pd.DataFrame":
        """One row a member: name, summary and the declared facts, but for ``place`` and ``parse``."""
        import pandas as pd  # takes longer than the rest of a command that lists nothing

        rows = [{"name": entry.name, "summary": entry.summary, **entry.facts} for entry in self]
        return pd.DataFrame(rows).drop(columns=["place", "parse", "hidden"], errors="ignore")


@dataclass(frozen=True)
class OneOf:
    """Marks a text that names a member of a registry (a spec), or one of other names.

    With ``optional`` the text may be empty; ``choices`` may be a function, for names that are costly to list.
    """

    choices: Registry[Any] | Iterable[str] | Callable[[], Iterable[str]]
    optional: bool = False

    def names(self) -> list[str]:
        """The names to choose from, in their order."""
        if isinstance(self.choices, Registry):
            return self.choices.names()
        if callable(self.choices):
            return list(self.choices())
        return list(self.choices)

    def check(self, name: str) -> str:
        """The text itself; InputError from a registry, ValueError for any other unknown name."""
        if self.optional and not name:
            return name
        if isinstance(self.choices, Registry):
            self.choices.get(name)
        elif name not in self.names():
            raise ValueError(name)
        return name

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
        lines = [inspect.cleandoc(cls.__doc__ or ""), "", "Fields:"]
        for name, info in cls.model_fields.items():
            lines.append(f"    {name}: {info.description or ''}")
        cls.__doc__ = "\n".join(lines)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _as_input_error(type(self), values, error) from None
        self.check()

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_held(cls, value: Any, validate: Callable[[Any], Any], info: Any) -> Any:
        """The checked value of a field: tuples for lists, whole numbers as given, settings from mappings."""
        kind = cls.model_fields[info.field_name].annotation
        if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, Settings):
            value = kind(**value)
        if _is_list(kind) and isinstance(value, list | tuple):
            return tuple(validate(tuple(value)))
        checked = validate(value)
        if type(checked) is float and type(value) is int:
            return value
        return checked

    def check(self) -> None:
        """Whether the fields fit one another; InputError if not."""

    def changed(self, **values: Any) -> Self:
        """A copy with other values of some fields, checked as a new one."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        fields.update(values)
        return type(self)(**fields)

    def values(self) -> dict[str, Any]:
        """The fields as plain data, in order; nested settings as dicts."""
        plain = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Settings):
                value = value.values()
            plain[name] = value
        return plain


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) in (tuple, Sequence)


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
        return _is_list(self.kind)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, without their own arguments: ``int | None`` has two."""
        parts: tuple[Any, ...] = (self.kind,)
        if isinstance(self.kind, types.UnionType):
            parts = typing.get_args(self.kind)
        return tuple(typing.get_origin(part) or part for part in parts)

    @property
    def items(self) -> tuple[Any, ...]:
        """The type of a list's items and its marks; empty for other values."""
        if not self.several:
            return ()
        inner = typing.get_args(self.kind)[:1]
        if inner and typing.get_origin(inner[0]) is Annotated:
            return typing.get_args(inner[0])
        return inner

    @property
    def names(self) -> OneOf | None:
        """The names that the value (each item of a list) is one of; None where any may stand."""
        if typing.get_origin(self.kind) is Literal:
            return OneOf(typing.get_args(self.kind))
        for mark in (*self.marks, *self.items):
            if isinstance(mark, OneOf):
                return mark
        return None


def fields_of(settings: type[Settings]) -> tuple[Setting, ...]:
    """The fields of a settings class, in order."""
    fields = []
    for name, info in settings.model_fields.items():
        required = info.is_required()
        default = None
        if not required:
            default = info.get_default(call_default_factory=True)
        help_line = info.description or ""
        fields.append(Setting(name, info.annotation, default, required, help_line, tuple(info.metadata)))
    return tuple(fields)


def _as_input_error(
    settings: type[Settings], values: Mapping[str, Any], error: ValidationError
) -> InputError:
    """Pydantic's error as ours: a name that is no field, or the first value that a field cannot hold."""
    fields = {field.name: field for field in fields_of(settings)}
    where = settings._where
    for name in values:
        if name not in fields:
            return InputError(f"{where}{unknown('setting', name, fields)}")
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return InputError(f"{where}{cause}")
    if not first["loc"]:
        return InputError(f"{where}{first['msg']}")
    field = fields[str(first["loc"][0])]
    if first["type"] == "missing":
        return InputError(f"{where}{field.name} is missing; give {field.help or 'it'}")
    in_an_item = len(first["loc"]) > 1
    expected = _expected(field, first["msg"], str(first["input"]), in_an_item)
    value = values.get(field.name, field.default)
    return InputError(f"{where}{field.name} is {value!r}; {expected}")


def _expected(field: Setting, message: str, value: str, in_an_item: bool) -> str:
    """What a field takes: a list, one of its names, or what pydantic's message says."""
    names = field.names.names() if field.names else []
    if field.several and not (names and in_an_item):
        if names:
            return f"give a list, e.g. {names[:2]}"
        return f"give a list: {field.help}" if field.help else "give a list"
    if names:
        verb = "each must be" if field.several else "give"
        return f"{verb} one of {', '.join(names)}{did_you_mean(value, names)}"
    message = message.removeprefix("Value error, ")
    return message[0].lower() + message[1:]
