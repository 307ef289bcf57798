"""Registries: a thing is registered once, by name, and every list, choice and test reads it there."""

import difflib
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pandas as pd

from crs_lib.core.errors import InputError

T = TypeVar("T")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """``"; did you mean 'tracker'?"`` for a near miss, else an empty string."""
    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def split_spec(spec: str) -> tuple[str, str | None]:
    """Name and argument of a spec, split at the first colon: ``ollama:llama3:instruct`` -> two parts."""
    name, colon, argument = spec.partition(":")
    return name, argument if colon else None


def import_files(room: str) -> None:
    """Import every file of a package, so that the members which its files register are known."""
    for file in pkgutil.iter_modules(importlib.import_module(room).__path__):
        importlib.import_module(f"{room}.{file.name}")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered member: its name, what makes it, a one-line summary, and declared facts."""

    name: str
    make: Callable[..., T]
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


class Registry(Generic[T]):
    """Members by name. ``kind`` is the word that error texts use ("policy", "figure").

    ``room`` names the package whose files register the members: the first look for one that is not known yet,
    or at all, imports every file, so that a new one needs no entry in any list. The files ``first`` come
    first. Members with the fact ``place`` (a number) come first, in its order; the others follow in the order
    of registration.
    """

    def __init__(self, kind: str, room: str = "", first: Sequence[str] = ()) -> None:
        self.kind = kind
        self._room, self._first = room, first
        self._entries: dict[str, Entry[T]] = {}

    def _known(self) -> dict[str, Entry[T]]:
        if self._room:
            for name in self._first:
                importlib.import_module(f"{self._room}.{name}")
            import_files(self._room)
            self._room = ""
        return self._entries

    def register(self, name: str, **facts: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorator that registers a class or function; its docstring's first line is the summary."""
        if ":" in name:
            raise InputError(f"{self.kind} name {name!r} holds a colon, which separates arguments")
        if name in self._entries:
            raise InputError(f"{self.kind} {name!r} is registered twice")

        def add(make: Callable[..., T]) -> Callable[..., T]:
            summary = (inspect.getdoc(make) or "").split("\n", 1)[0]
            self._entries[name] = Entry(name, make, summary, dict(facts))
            return make

        return add

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(sorted(self._known().values(), key=lambda entry: entry.facts.get("place", math.inf)))

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, spec: object) -> bool:
        name = split_spec(spec)[0] if isinstance(spec, str) else ""
        return name in self._entries or name in self._known()

    def names(self) -> list[str]:
        """All names, in the order of the members."""
        return [entry.name for entry in self]

    def get(self, spec: str) -> Entry[T]:
        """The member that a spec names; InputError with a suggestion if there is none."""
        name, _ = split_spec(spec)
        known = self._entries if name in self._entries else self._known()
        if name not in known:
            raise InputError(
                f"unknown {self.kind} {spec!r}{did_you_mean(name, known)} (known: {', '.join(self.names())})"
            )
        return known[name]

    def create(self, spec: str, /, **options: Any) -> T:
        """Make the member that a spec names; what follows the first colon is passed as ``argument``.

        ``create("noisy:0.3")`` calls the maker with ``argument="0.3"``; a member with the fact ``default``
        gets that where the spec has no colon. Raises InputError for an unknown name, a missing argument, or
        an argument given to a member that takes none.
        """
        entry = self.get(spec)
        argument = self.argument(spec)
        if entry.facts.get("argument"):
            options["argument"] = argument
        return entry.make(**options)

    def argument(self, spec: str) -> Any:
        """What follows the first colon of a spec, read by the member's fact ``parse``; None for no argument.

        The fact ``default`` stands in where nothing is given. Raises InputError as :meth:`create`, and for an
        argument that ``parse`` refuses.
        """
        entry = self.get(spec)
        _, argument = split_spec(spec)
        takes, example = entry.facts.get("argument"), f"{entry.name}:{_example(entry)}"
        if argument is not None and not takes:
            raise InputError(f"{self.kind} {entry.name!r} takes no argument, got {spec!r}")
        if argument is None:
            argument = entry.facts.get("default")
        if takes and not argument:
            raise InputError(f"{self.kind} {spec!r} needs {takes} after a colon, e.g. {example}")
        if not takes or "parse" not in entry.facts:
            return argument
        try:
            return entry.facts["parse"](argument)
        except InputError as error:
            raise InputError(f"{entry.name}:{argument}: {error}, e.g. {example}") from None

    def describe(self) -> pd.DataFrame:
        """One row a member: name, summary and the declared facts, but for ``place`` and ``parse``."""
        rows = [{"name": e.name, "summary": e.summary, **e.facts} for e in self]
        return pd.DataFrame(rows).drop(columns=["place", "parse"], errors="ignore")


def _example(entry: Entry[Any]) -> str:
    return str(entry.facts.get("example", "VALUE"))
