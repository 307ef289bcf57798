"""The table of commands: a typed function is a command, and its parameters are the options.

::

    @command("validity gate", takes=["crs_lib.validity.gate:GateConfig"])
    def _gate(*, develop: bool = False, **given: Any) -> None:
        '''Test which metrics order the control policies correctly.

        develop: test the protocol's requirements on its development seeds
        '''
        run(GateConfig(**given))

Parameters before the star are positional, ``n_topics`` becomes ``--topics``, ``p`` becomes ``-p``,
``import_`` becomes ``--import``, ``final: bool`` a switch, and a tuple takes several words. The docstring is
the help. ``given`` holds those fields of the settings that the command line gives, each read as its type; a
list among them is written with commas.
"""

import inspect
import itertools
import os
import re
import select
import sys
from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError, create_model

import crs_lib
from crs_lib.cli import terminal
from crs_lib.core import paths, prompts, safety
from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.core.settings import Entry, Field, Registry, Setting, Settings, fields_of
from crs_lib.core.text import listing, shorten

PROGRAM = "python -m crs_lib"
COMMANDS: Registry[object] = Registry("command", "crs_lib.cli")
command = COMMANDS.register
# The first words of commands by the heading under which the help lists them.
_GROUPS = {
    "Compare and read": "compare leaderboard show chat systems", "Run": "run sweep simulate judge",
    "Catalogues and logs": "catalog data", "May the numbers be believed": "validity",
    "The thesis": "thesis", "The other studies": "cosrec realtalk",
}  # fmt: skip
_PAIRS = (list[str],)  # the items of an option that takes a name and a value each time
_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
_OPTION = re.compile(r"^(\w+): (.+)\n?", re.MULTILINE)  # a parameter's line in a docstring


def find(words: Sequence[str]) -> tuple[Entry[object], Sequence[str]]:
    """The command of the first words (an old name prints the new one), and the others; exits (2) for none."""
    old, gone = prompts.lists("old_commands"), prompts.lists("gone_commands")
    for size in (3, 2, 1):
        if where := gone.get(" ".join(words[:size])):
            raise InputError(f"{' '.join(words[:size])} is gone: {where}")
    for name, rest in ((" ".join(words[:size]), words[size:]) for size in (2, 1)):
        if name in COMMANDS.names():
            return COMMANDS.get(name), rest
        if name in old:
            print(f"{name} is now: crs {old[name]}", file=sys.stderr)
            return find([*old[name].split(), *rest])
    group = words[0] if words else ""
    shown = [one for one in COMMANDS if one.name.startswith(f"{group} ")] or COMMANDS
    rows = {one.name: f"  {one.name:<21} {one.summary}" for one in shown}
    parts = []
    for heading, groups in _GROUPS.items():
        found = [row for name, row in rows.items() if name.split()[0] in groups.split()]
        parts += [f"{heading}:", *found] if found else []
    lines = "\n".join(parts)
    text = f"{crs_lib.__doc__}\n\nEvery command has --help.\n\n{lines}"
    form = RawDescriptionHelpFormatter
    parser = ArgumentParser(PROGRAM, f"{PROGRAM} COMMAND …", text, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"crs-lib {crs_lib.__version__}")
    told = 'completes commands: eval "$(crs --completion bash)"'
    parser.add_argument("--completion", choices=("bash", "zsh"), help=told)
    if shell := parser.parse_known_args(words)[0].completion:
        print(_completion(shell))
        parser.exit()
    hint = did_you_mean(group, [*COMMANDS.names(), *old])
    return parser.error(f"no command {' '.join(words[:2])!r}{hint}; they are:\n{lines}")


def _do(one: Entry[object], words: Sequence[str]) -> None:
    """Do a command with the words of a command line; InputError where it would write over what it reads. Its
    facts: ``takes``, settings as ``module:class`` with names of fields behind where not all are taken;
    ``defaults`` of such fields; ``reads`` and ``writes``, the options that hold files, none of which is
    written over another, a run's or a committed notebook: ``out/turns.parquet`` is a file in the folder that
    the option names, ``out`` itself a file, or a folder that is made anew.
    """
    doc, parameters = inspect.getdoc(one.make) or "", inspect.signature(one.make).parameters
    usual = one.facts.get("defaults", {})
    parser = ArgumentParser(f"{PROGRAM} {one.name}", description=_OPTION.sub("", doc))
    own, known = _known(one)
    options = {field.name: field for field in fields_of(own)}
    for name, field in known.items():
        positional = name in options and parameters[name].kind is _POSITIONAL
        _add(parser, field, usual.get(name, field.default), own=name in options, positional=positional)
    told = vars(parser.parse_args([re.sub("^--n-", "--", word) for word in words]))
    told = {name: typed(known[name], text) for name, text in told.items()}
    checked = own(**{name: value for name, value in told.items() if name in options})
    given = {**usual, **told, **{name: getattr(checked, name) for name in options}}
    outputs, inputs = (list(_named(given, one.facts.get(way, ""))) for way in ("writes", "reads"))
    inputs += [Path(str(place).partition("+")[0]) for place in inputs]  # of catalogues: films.csv+plot
    paths.apart(outputs, [path for place in inputs for path in _within(place)] if outputs else ())
    one.make(**given)


def _known(one: Entry[object]) -> tuple[type[Settings], dict[str, Setting]]:
    """A command's own parameters as settings, and all fields that it takes, by name."""
    lines = dict(_OPTION.findall(inspect.getdoc(one.make) or ""))
    fields: dict[str, Any] = {}
    for name, given in inspect.signature(one.make).parameters.items():
        if given.kind is not given.VAR_KEYWORD:
            default = ... if given.default is given.empty else given.default
            fields[name] = (Annotated[given.annotation, Field(description=lines.get(name, ""))], default)
    own, known = create_model("Options", __base__=Settings, **fields), dict[str, Setting]()
    for source in reversed(one.facts.get("takes", ())):
        place, *names = source.split()
        known |= {f.name: f for f in fields_of(resolve_name(place)) if not names or f.name in names}
    return own, known | {field.name: field for field in fields_of(own)}


def _completion(shell: str) -> str:
    """The script that completes commands and options: ``eval "$(crs --completion bash)"``."""
    words: dict[str, dict[str, None]] = {"": {}}  # what may follow, by the words before
    for one in COMMANDS:
        parameters = inspect.signature(one.make).parameters
        for place, word in enumerate(parts := one.name.split()):
            words.setdefault(" ".join(parts[:place]), {})[word] = None
        for name, field in _known(one)[1].items():
            positional = name in parameters and parameters[name].kind is _POSITIONAL
            flag = f"--{_flag(name)}" if len(_flag(name)) > 1 else f"-{name}"
            found = (field.names.names() if field.names else []) if positional else [flag]
            words.setdefault(one.name, {}).update(dict.fromkeys(found))
    cases = "\n".join(
        f'    "{name} "*) words="{" ".join(found)}";;'
        for name, found in sorted(words.items(), key=lambda pair: -len(pair[0].split()))
    ).replace('" "*', "*")
    head = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return f"""{head}_crs() {{
  local words
  case "${{COMP_WORDS[*]:1}} " in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _crs crs"""


def _flag(name: str) -> str:
    return name.rstrip("_").replace("_", "-").removeprefix("n-")


def table(frame: Any, heading: str = "", digits: int = 3) -> None:
    """Print a table without its index, numbers rounded, missing values as a dash, and an empty line."""
    text = frame.round(digits).to_string(index=False, na_rep="-")
    print(f"{heading}\n{text}\n" if heading else f"{text}\n")


def part(given: Mapping[str, Any], kind: type[Settings]) -> dict[str, Any]:
    """Those of the given values that are fields of a settings class."""
    return {name: value for name, value in given.items() if name in kind.model_fields}


def typed(setting: Setting, value: Any) -> Any:
    """A text from the command line read as the type of a field, or itself, which the class then refuses."""
    if not isinstance(value, str):
        return value
    if Path in setting.kinds:
        return paths.given(value)
    try:
        if Mapping in setting.kinds:
            return safety.loads(value or "{}", setting.name)
        parts = [one.strip() for one in value.split(",") if one.strip()] if setting.several else [value]
        kind = TypeAdapter(setting.items[0] if setting.several else setting.kind)
        read = [kind.validate_python(one) for one in parts]
        return read if setting.several else read[0]
    except (InputError, ValidationError):
        return value


def _add(parser: ArgumentParser, setting: Setting, default: Any, *, own: bool, positional: bool) -> None:
    """Add the option of a field; what is not given is absent from what the parser returns."""
    name = _flag(setting.name)
    words: dict[str, Any] = {"default": SUPPRESS, "help": _help(setting, default).replace("%", "%%")}
    if positional and (setting.several or not setting.required):
        words["nargs"] = ("+" if setting.required else "*") if setting.several else "?"
    elif setting.kind is bool:
        words["action"] = "store_true"
    elif setting.items == _PAIRS:
        words |= {"nargs": 2, "action": "append", "metavar": ("NAME", "VALUE")}
    elif not positional:
        kinds = {int: "N", float: "X", Mapping: "JSON", Path: "PATH"}
        value = next((word for kind, word in kinds.items() if kind in setting.kinds), setting.name.upper())
        value = "A,B" if setting.several and not own else value.rstrip("_")
        words |= {"required": setting.required and default is None, "metavar": value}
        words |= {"nargs": "+", "action": "extend"} if own and setting.several else {}
    if positional:
        parser.add_argument(setting.name, **words)
    else:
        parser.add_argument(f"--{name}", *[f"-{name}"] * (len(name) == 1), dest=setting.name, **words)


def _help(setting: Setting, default: Any) -> str:
    """The field's line, the names to choose from where the line does not tell them, and the default."""
    names = setting.names.names() if setting.names else []
    untold = [name for name in names if name and name not in setting.help]
    choices = f"; {listing(untold, 'or')}" if untold and len(names) <= 12 else ""
    shown = ", ".join(map(str, default)) if isinstance(default, tuple | list) else default
    told = default is None or default is False or default in ("", {}, ()) or "default:" in setting.help
    return f"{setting.help}{choices}{'' if told else f' (default: {shown})'}"


def _named(given: Mapping[str, Any], entries: str) -> Iterator[Path]:
    """The paths that the entries of ``reads`` or ``writes`` stand for."""
    for name, _, file in (entry.partition("/") for entry in entries.split()):
        found = given.get(name)
        places = found if isinstance(found, list | tuple) else [found]
        yield from (paths.given(one) / file for one in places if one)


def _within(path: Path, most: int = 10_000) -> Iterator[Path]:
    """The path itself and, for a folder, the files in it and in its folders, about as many as ``most``."""
    yield path
    found = ((folder, names) for folder, _, names in os.walk(path))
    yield from itertools.islice((Path(folder) / name for folder, names in found for name in names), most)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. 0: success; 2: an error that the user can mend; 130: stopped by
    Ctrl-C; 141 (SIGPIPE), without a message: the reader of the output went away, as in ``| head``.
    """
    with terminal.promptly() as interrupts, terminal.escaped():
        try:
            _do(*find(list(sys.argv[1:] if argv is None else argv)))
            sys.stdout.flush()
        except BrokenPipeError:
            if _output_is_read():  # another pipe than standard output broke
                raise
            return 141
        except (InputError, RunError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 2
        except OSError as error:  # a name that is too long, a folder that cannot be read, no handle left
            where = f": {shorten(str(error.filename), 200)}" if error.filename else ""
            print(f"RunError: {error.strerror or error}{where}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            if interrupts.raised:
                interrupts.now()
            interrupts.say()
            return terminal.CODE
    return 0


def _output_is_read() -> bool:
    """Whether standard output still has a reader; if not, further output goes to the null device."""
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        return False
    return True
