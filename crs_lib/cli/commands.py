"""Commands: a class whose fields are the options, whose docstring is the help, and which does the work.

::

    class Leaderboard(Command):
        '''Write a page that orders the systems of runs.'''

        writes = "out"

        runs: tuple[str, ...] = ("demo",)
        '''finished runs, whose systems are the baselines'''
        out: Path | None = None
        '''where the page goes (default: the first run's folder)'''

        def execute(self, settings):
            ...

``n_topics`` becomes ``--topics``, ``p`` becomes ``-p``, ``import_`` becomes ``--import``, ``final: bool`` a
switch, and a list takes several words, or one with commas.
"""

import inspect
import os
import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crs_lib import runs
from crs_lib.cli.names import PROGRAM, commands
from crs_lib.core import paths, safety
from crs_lib.core.clients import ClientCommand
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Setting, Settings, fields_of
from crs_lib.core.text import listing

if TYPE_CHECKING:
    import pandas as pd

_PAIRS = (list[str],)  # the items of an option that takes a name and a value each time
_PLACEHOLDERS: Mapping[Any, str] = {int: "N", float: "X", Mapping: "JSON", Path: "PATH"}


class Takes(NamedTuple):
    """Settings (``module:class``) whose fields are options too: those ``names`` that are given, or all."""

    settings: str
    names: str = ""


class Command(Settings):
    """A command of the command line.

    ``positional`` names the fields that are given by position. ``takes`` are settings whose fields are
    options, too, and ``usual`` their defaults here. ``also`` gives options a second name, as a published
    script has it. ``reads`` and ``writes`` name the options of files,
    none of which is written over another, a run's or a committed notebook: ``out/turns.parquet`` is a file in
    the folder that the option names, ``out`` itself a file, or a folder that is made anew.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)
    positional: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[Takes, ...]] = ()
    usual: ClassVar[Mapping[str, Any]] = {}
    also: ClassVar[Mapping[str, str]] = {}
    reads: ClassVar[str] = ""
    writes: ClassVar[str] = ""

    def execute(self, settings: dict[str, Any]) -> None:
        """Do the command; ``settings`` holds what the line says of the fields that it takes."""
        raise NotImplementedError


def command_class(command: ClientCommand) -> type[Command]:
    """The class of a command; its module is imported now."""
    kind: type[Command] = resolve_name(command.target)
    return kind


def do(command: ClientCommand, words: Sequence[str]) -> None:
    """Do a command with the words of a command line; InputError where it would write over what it reads."""
    kind = command_class(command)
    description = inspect.cleandoc(kind.__doc__ or "").partition("\n\nFields:")[0]
    parser = ArgumentParser(f"{PROGRAM} {command.name}", description=description)
    add_options(parser, kind)
    values = _parse(parser, kind, words)
    own = {}
    settings = dict(kind.usual)
    for name, value in values.items():
        if name in kind.model_fields:
            own[name] = value
        else:
            settings[name] = value
    checked = kind(**own)
    _keep_apart(kind, {**settings, **checked.values()})
    checked.execute(settings)


def options_of(kind: type[Command]) -> dict[str, Setting]:
    """All options of a command by name: the fields of the settings that it takes, and its own."""
    options = {}
    for takes in reversed(kind.takes):
        names = takes.names.split()
        for setting in fields_of(resolve_name(takes.settings)):
            if not names or setting.name in names:
                options[setting.name] = setting
    for setting in fields_of(kind):
        options[setting.name] = setting
    return options


def add_options(parser: ArgumentParser, kind: type[Command]) -> None:
    """Give a parser the options of a command; what a line does not say is absent from what it returns."""
    for setting in options_of(kind).values():
        default = kind.usual.get(setting.name, setting.default)
        if setting.name in kind.positional:
            action = _add_positional(parser, setting, default)
        else:
            action = _add_option(parser, setting, default, kind.also.get(setting.name, ""))
        if setting.names is not None:
            setattr(action, "completer", lambda names=setting.names, **_: names.names())  # noqa: B010


def _add_positional(parser: ArgumentParser, setting: Setting, default: Any) -> Action:
    number = "?"  # a required one may stand behind a list, see _parse
    if setting.several:
        number = "+" if setting.required else "*"
    return parser.add_argument(setting.name, nargs=number, default=SUPPRESS, help=_help(setting, default))


def _add_option(parser: ArgumentParser, setting: Setting, default: Any, also: str) -> Action:
    name = setting.name.rstrip("_").replace("_", "-").removeprefix("n-")
    flags = [f"--{name}"]
    if len(name) == 1:
        flags.append(f"-{name}")
    if also:
        flags.append(f"--{also}")
    words: dict[str, Any] = {"dest": setting.name, "default": SUPPRESS, "help": _help(setting, default)}
    if setting.kind is bool:
        return parser.add_argument(*flags, action="store_true", **words)
    if setting.items == _PAIRS:
        return parser.add_argument(*flags, nargs=2, action="append", metavar=("NAME", "VALUE"), **words)
    words["required"] = setting.required and default is None
    if setting.several:
        return parser.add_argument(*flags, nargs="+", action="extend", metavar="A,B", **words)
    return parser.add_argument(*flags, metavar=_placeholder(setting), **words)


def _placeholder(setting: Setting) -> str:
    for kind, word in _PLACEHOLDERS.items():
        if kind in setting.kinds:
            return word
    return setting.name.upper().rstrip("_")


def _help(setting: Setting, default: Any) -> str:
    """The field's line, the names to choose from where the line does not tell them, and the default."""
    text = setting.help
    names = setting.names.names() if setting.names else []
    others = [name for name in names if name and name not in text]
    if others and len(names) <= 12:
        text += f"; {listing(others, 'or')}"
    says_nothing = default is None or default is False or default in ("", {}, ())
    if not says_nothing and "default:" not in setting.help:
        if isinstance(default, tuple | list):
            default = ", ".join(str(item) for item in default)
        text += f" (default: {default})"
    return text.replace("%", "%%")


def _parse(parser: ArgumentParser, kind: type[Command], words: Sequence[str]) -> dict[str, Any]:
    """The values of a line by the name of their option, each read as its type."""
    texts = vars(parser.parse_args(list(map(_hyphened, words))))
    options = options_of(kind)
    for name in kind.positional:
        if options[name].required and name not in texts:
            texts[name] = _last_of_a_list(texts, kind)
            if not texts[name]:
                parser.error(f"the following arguments are required: {name}")
    values = {}
    for name, text in texts.items():
        value = text
        if isinstance(text, list) and options[name].several and options[name].items != _PAIRS:
            value = _parts(text)
        values[name] = typed(options[name], value)
    return values


def _hyphened(word: str) -> str:
    """An option's name as it is declared: ``--n_sessions 5`` is ``--sessions 5``."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return re.sub("^--n-", "--", name.replace("_", "-")) + equals + value


def _parts(words: Sequence[str]) -> list[str]:
    """The items of a list, given as words or between commas; a file or a spec may hold commas itself."""
    parts: list[str] = []
    for word in words:
        is_command = ":" in word and " " in word  # exec:node mine.js a,b
        if is_command or _is_there(word):
            parts.append(word)
        else:
            parts += [part.strip() for part in word.split(",") if part.strip()]
    return parts


def _is_there(word: str) -> bool:
    """Whether a word names a file or folder."""
    try:
        return Path(word).exists()
    except (OSError, ValueError):  # a name that is too long, or none
        return False


def _last_of_a_list(texts: Mapping[str, Any], kind: type[Command]) -> str:
    """The last word of a list: ``--judges A,B RUN`` has its run there."""
    for words in texts.values():
        if isinstance(words, list) and len(words) > 1:
            return str(words.pop())
    return ""


def typed(setting: Setting, value: Any) -> Any:
    """A text from the command line read as the type of a field, or itself, which the class then refuses."""
    if isinstance(value, list) and setting.items != _PAIRS:
        return _items(setting, value)
    if not isinstance(value, str):
        return value
    if Path in setting.kinds:
        return paths.given(value)
    try:
        if Mapping in setting.kinds:
            return safety.loads(value or "{}", setting.name)
        if not setting.several:
            return TypeAdapter(setting.kind).validate_python(value)
        return _items(setting, _parts([value]))
    except (InputError, ValidationError):
        return value


def _items(setting: Setting, parts: list[str]) -> Any:
    """The items of a list as the type of its field; their text, which the class then refuses, for others."""
    kind = TypeAdapter(setting.items[0])
    try:
        return [kind.validate_python(part) for part in parts]
    except ValidationError:
        return ",".join(parts)


def _keep_apart(kind: type[Command], values: Mapping[str, Any]) -> None:
    """InputError where a command would write over what it reads, over a run or a committed notebook."""
    outputs = list(_files(values, kind.writes))
    if not outputs:
        return
    inputs: list[Path] = []
    for path in _files(values, kind.reads):
        inputs += _within(path)
        inputs += _within(Path(str(path).partition("+")[0]))  # a catalogue may be films.csv+plot
    paths.apart(outputs, inputs)


def _files(values: Mapping[str, Any], entries: str) -> Iterator[Path]:
    """The paths that the entries of ``reads`` or ``writes`` stand for."""
    for entry in entries.split():
        name, _, file = entry.partition("/")
        named = values.get(name)
        if not isinstance(named, list | tuple):
            named = [named]
        for path in named:
            if path:
                yield paths.given(path) / file


def _within(path: Path, most: int = 10_000) -> Iterator[Path]:
    """The path itself and, for a folder, the files in it and in its folders, as many as ``most``."""
    yield path
    yield from islice(_files_in(path), most)


def _files_in(folder: Path) -> Iterator[Path]:
    for inner, _, names in os.walk(folder):
        for name in names:
            yield Path(inner) / name


def table(frame: "pd.DataFrame", heading: str = "", digits: int = 3) -> None:
    """Print a table without its index, numbers rounded, missing values as a dash, and an empty line."""
    if heading:
        print(heading)
    text = frame.round(digits).to_string(index=False, na_rep="-")
    print(f"{text}\n")


def asked_again(run: str) -> str:
    """How many turns of a run connected systems were asked again, as the end of a line; empty for none."""
    counts = runs.Run("movies", run).entry("simulate").get("counts", {})
    count = counts.get("asked_again", 0)
    return f"; turns asked again after a stop or a failure: {count:,}" if count else ""


def complete() -> None:
    """Answer the shell that asks what may follow, and end; without effect where no shell asks."""
    import argcomplete

    line = os.environ.get("COMP_LINE", "")
    before = line[: int(os.environ.get("COMP_POINT", len(line)))]
    words = f"{before}|".split()[1:-1]  # the last one is being typed
    argcomplete.autocomplete(parser_after(words))


def parser_after(words: Sequence[str]) -> ArgumentParser:
    """A parser of the line that begins with these words: of their command, else of what may follow them."""
    parser = ArgumentParser(PROGRAM)
    for size in (2, 1):
        name = " ".join(words[:size])
        if name in commands():
            for word in name.split():
                parser.add_argument(word, choices=[word])
            add_options(parser, command_class(commands()[name]))
            return parser
    rows = [name.split() for name in commands()]
    if words:
        parser.add_argument("group", choices=[words[0]])
        rows = [parts[1:] for parts in rows if parts[0] == words[0]]
    parser.add_argument("command", choices=[parts[0] for parts in rows if parts])
    return parser
