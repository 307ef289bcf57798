"""Registries: a thing is registered once, by name, and every list, choice and test reads it there."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator
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


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One registered member: its name, what makes it, a one-line summary, and declared facts."""

    name: str
    make: Callable[..., T]
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


class Registry(Generic[T]):
    """Members by name. ``kind`` is the word that error texts use ("policy", "metric")."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

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
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, spec: object) -> bool:
        return isinstance(spec, str) and split_spec(spec)[0] in self._entries

    def names(self) -> list[str]:
        """All names, in the order of registration."""
        return list(self._entries)

    def get(self, spec: str) -> Entry[T]:
        """The member that a spec names; InputError with a suggestion if there is none."""
        name, _ = split_spec(spec)
        if name not in self._entries:
            raise InputError(
                f"unknown {self.kind} {spec!r}{did_you_mean(name, self._entries)} "
                f"(known: {', '.join(self._entries)})"
            )
        return self._entries[name]

    def create(self, spec: str, /, **options: Any) -> T:
        """Make the member that a spec names; what follows the first colon is passed as ``argument``.

        ``create("noisy:0.3")`` calls the maker with ``argument="0.3"``. Raises InputError for an
        unknown name, a missing argument, or an argument given to a member that takes none.
        """
        entry = self.get(spec)
        _, argument = split_spec(spec)
        takes = entry.facts.get("argument")
        if takes and not argument:
            raise InputError(
                f"{self.kind} {spec!r} needs {takes} after a colon, e.g. {entry.name}:{_example(entry)}"
            )
        if argument is not None and not takes:
            raise InputError(f"{self.kind} {entry.name!r} takes no argument, got {spec!r}")
        if takes:
            options["argument"] = argument
        return entry.make(**options)

    def describe(self) -> pd.DataFrame:
        """One row a member: name, summary and the declared facts."""
        rows = [{"name": e.name, "summary": e.summary, **e.facts} for e in self]
        return pd.DataFrame(rows)


def _example(entry: Entry[Any]) -> str:
    return str(entry.facts.get("example", "VALUE"))
