"""The table of commands: a function is a command once :func:`command` says its name and its options.

::

    @command("validity gate", settings("crs_lib.validity.gate:GateConfig", "run", "seed"), arg("--develop"))
    def gate(arguments: Namespace) -> None:
        # its docstring: Test which metrics order the control policies correctly.
        run(read(arguments, GateConfig))

The docstring's first line is the help. Options of settings classes have the fields' names, types, defaults,
choices and help: ``n_turns`` becomes ``--turns``, ``final: bool`` a switch ``--final``, and a list is written
with commas between.
"""

import importlib
import os
import pkgutil
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Setting, fields_of
from crs_lib.core.text import listing

PROGRAM = "python -m crs_lib"
Adder = Callable[[ArgumentParser], object]
Do = Callable[[Namespace], object]
S = TypeVar("S")


class Command(NamedTuple):
    """One command: its name, what it does, its options, and the files that it reads and writes."""

    name: str
    do: Do
    options: Sequence[Adder]
    reads: Sequence[str]
    writes: Sequence[str]
    note: str

    @property
    def help(self) -> str:
        """The first line of the function's docstring, as a line of help."""
        line = (self.do.__doc__ or "").split("\n", 1)[0].rstrip(".")
        return line[:1].lower() + line[1:]

    def parser(self) -> ArgumentParser:
        """The parser of the command's options."""
        found = ArgumentParser(prog=f"{PROGRAM} {self.name}", description=self.help, epilog=self.note)
        for add in self.options:
            add(found)
        return found

    def __call__(self, words: Sequence[str]) -> None:
        """Do it with the words of a command line; InputError where it would write over what it reads."""
        arguments = self.parser().parse_args(words)
        outputs = [path for name in self.writes for path in _named(arguments, name)]
        read = (path for name in self.reads for one in _named(arguments, name) for path in _within(one))
        paths.apart(outputs, list(read) if outputs else ())
        self.do(arguments)


COMMANDS: dict[str, Command] = {}
# Names that commands had before; they work, and print the new one.
OLD = {
    "params": "run --parameters", "refresh": "run --refresh", "estimate": "simulate --estimate",
    "try": "chat --simulated", "figures": "show figures", "trace": "show trace", "report": "show report",
    "catalog export": "data export", "logs": "data import", "import": "data import", "score": "data score",
    "data list": "data get --list", "data verify": "data get --verify", "thesis": "thesis demo",
    "thesis-tables": "thesis tables", "topics": "thesis topics", "gate": "validity gate",
    "redteam": "validity gate --redteam", "precision": "validity precision", "realism": "validity realism",
    "sensitivity": "validity sensitivity", "people": "validity people", "annotate": "validity annotate",
    "score-human": "validity people rated", "realtalk-predict": "realtalk predict",
    "realtalk-evaluate": "realtalk evaluate", "realtalk-teach": "realtalk evaluate --teach",
    "realtalk-ladder": "realtalk compare ladder", "realtalk-compare": "realtalk compare",
    "cosrec-catalogue": "cosrec catalogue", "cosrec-index": "cosrec index",
    "cosrec-generate": "cosrec generate", "cosrec-intents": "cosrec intents",
}  # fmt: skip


def command(
    name: str, *options: Adder, reads: Sequence[str] = (), writes: Sequence[str] = (), note: str = ""
) -> Callable[[Do], Do]:
    """Decorator that makes a function of the parsed arguments a command.

    ``reads`` and ``writes`` name the arguments that hold files, none of which is written over another:
    ``out/turns.parquet`` is a file in the folder that the argument names, and ``out`` itself a file, or a
    folder that is made anew.
    """

    def add(do: Do) -> Do:
        COMMANDS[name] = Command(name, do, options, reads, writes, note)
        return do

    return add


def find(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that the first words name, and the others; of an old name the new one is printed.

    Ends the process (2) with the list of the commands for words that name none.
    """
    for module in pkgutil.iter_modules(importlib.import_module("crs_lib.cli").__path__):
        importlib.import_module(f"crs_lib.cli.{module.name}")
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in COMMANDS:
            return COMMANDS[name], words[size:]
        if name in OLD:
            print(f"{name} is now: crs {OLD[name]}", file=sys.stderr)
            return find([*OLD[name].split(), *words[size:]])
    return _unknown(words)


def _unknown(words: Sequence[str]) -> NoReturn:
    """Print the commands, or those of the group that is named; a mistake unless help was asked for."""
    group = words[0] if words else ""
    shown = [one for name, one in COMMANDS.items() if name.startswith(f"{group} ")] or [*COMMANDS.values()]
    lines = "\n".join(f"  {one.name:<21} {one.help}" for one in shown)
    parser = ArgumentParser(
        prog=PROGRAM, usage=f"{PROGRAM} COMMAND …", formatter_class=RawDescriptionHelpFormatter,
        description=f"{sys.modules['crs_lib'].__doc__}\n\ncommands (each has --help):\n{lines}",
    )  # fmt: skip
    parser.parse_args([word for word in words if word in ("-h", "--help")])
    hint = did_you_mean(group, [*COMMANDS, *OLD])
    parser.error(f"no command {' '.join(words[:2])!r}{hint}; they are:\n{lines}")


def arg(*flags: str, **words: Any) -> Adder:
    """An option as ``ArgumentParser.add_argument`` takes it."""
    return lambda parser: parser.add_argument(*flags, **words)


def settings(target: str, *names: str, **defaults: Any) -> Adder:
    """Options for fields of a settings class ``module:class``, all of them where none is named.

    ``defaults`` names further fields, with defaults other than the class's; None where the command must know
    whether the option was given. A field without a default must be given.
    """

    def add(parser: ArgumentParser) -> None:
        module, _, name = target.partition(":")
        wanted = {*names, *defaults}
        for setting in fields_of(getattr(importlib.import_module(module), name)):
            if setting.name in wanted or not wanted:
                _add(parser, setting, **{k: v for k, v in defaults.items() if k == setting.name})

    return add


def _add(parser: ArgumentParser, setting: Setting, **default: Any) -> None:
    required = setting.required and not default
    value = None if required else default.get(setting.name, setting.default)
    words: dict[str, Any] = {"dest": setting.name, "default": value}
    if setting.kind is bool:
        words["action"] = "store_true"
    else:
        words |= {"required": required, "metavar": _metavar(setting)}
    text = _help(setting, setting.default if value is None else value).replace("%", "%%")
    parser.add_argument(f"--{setting.name.removeprefix('n_').replace('_', '-')}", help=text, **words)


def _help(setting: Setting, default: Any) -> str:
    """The field's line, the names to choose from where the line does not tell them, and the default."""
    names = setting.names.names() if setting.names else []
    untold = [name for name in names if name and name not in setting.help]
    choices = f"; {listing(untold, 'or')}" if untold and len(names) <= 12 else ""
    shown = ", ".join(map(str, default)) if isinstance(default, tuple | list) else default
    told = default is None or default is False or default in ("", {}, ())
    return f"{setting.help}{choices}{'' if told else f' (default: {shown})'}"


def _metavar(setting: Setting) -> str:
    if setting.several:
        return "A,B"
    words = {int: "N", float: "X", Mapping: "JSON"}
    return next((word for kind, word in words.items() if kind in setting.kinds), setting.name.upper())


def read(arguments: Namespace, kind: type[S], **fixed: Any) -> S:
    """The settings that the arguments and ``fixed`` give; InputError for a value that they cannot hold."""
    return kind(**values(arguments, kind) | fixed)


def values(arguments: Namespace, kind: type[Any]) -> dict[str, Any]:
    """The fields that the arguments hold, each read as its type; None where it was not given."""
    names = {setting.name for setting in fields_of(kind)}
    return {name: typed(kind, name, value) for name, value in vars(arguments).items() if name in names}


def typed(kind: type[Any], name: str, value: Any) -> Any:
    """A text from the command line read as the type of a field, or itself where the class has to refuse it.

    Anything but a text, and the text of a name that is no field, comes back as given.
    """
    setting = next((setting for setting in fields_of(kind) if setting.name == name), None)
    if setting is None or not isinstance(value, str):
        return value
    if setting.several:
        return [_number(part.strip(), setting.items) for part in value.split(",") if part.strip()]
    if Mapping in setting.kinds:
        with suppress(InputError):
            return safety.loads(value or "{}", name)
    return _number(value, setting.kinds)


def _number(text: str, kinds: Sequence[Any]) -> Any:
    for kind in (int, float):
        if kind in kinds:
            with suppress(ValueError):
                return kind(text)
    return text


def _named(arguments: Namespace, name: str) -> Iterator[Path]:
    """The paths that an entry of ``reads`` or ``writes`` stands for."""
    found = re.fullmatch(r"(\w+)/?(.*)", name)
    given = getattr(arguments, found[1], None) if found else None
    for one in given if isinstance(given, list | tuple) else [given]:
        if found and one:
            yield paths.given(one) / found[2]


def _within(path: Path, most: int = 10_000) -> Iterator[Path]:
    """The path itself and, for a folder, the files in it and in its folders, about as many as ``most``."""
    yield path
    count = 0
    for folder, _, names in os.walk(path) if path.is_dir() else ():
        yield from (Path(folder) / name for name in names)
        count += len(names)
        if count > most:
            return
