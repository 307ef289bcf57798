"""Arguments made from the fields of a config: name, type, default, choices and help stand in one place.

::

    options.add(parser, GateConfig)                        # --run, --catalog, --sessions, …
    options.add(parser, RealTalkConfig, "data", encoder="auto")  # two of the fields, one with its own default
    config = options.read(arguments, GateConfig)
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from crs_lib.core import outside
from crs_lib.core.config import Config, settings_of
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Setting, Settings, fields_of
from crs_lib.core.text import listing

C = TypeVar("C", bound=Config | Settings)


def _fields(config: type[Any]) -> tuple[Setting, ...]:
    if issubclass(config, Settings):
        return fields_of(config)
    return tuple(
        Setting(one.name, one.kind, one.default, one.required, one.help, one.marks)
        for one in settings_of(config)
    )


def add(parser: ArgumentParser, config: type[Any], *names: str, **defaults: Any) -> None:
    """Add an option for each of these fields, in the order of the config; all fields where none is named.

    ``defaults`` names further fields, with defaults other than the config's; None where the command must know
    whether the option was given. ``n_turns`` becomes ``--turns``, ``final: bool`` a switch ``--final``, and a
    list is written with commas between. A field without a default must be given.
    """
    wanted = {*names, *defaults} or {setting.name for setting in _fields(config)}
    for setting in _fields(config):
        if setting.name not in wanted:
            continue
        default = defaults.get(setting.name, setting.default)
        required = setting.required and setting.name not in defaults
        words: dict[str, Any] = {
            "dest": setting.name,
            "help": _help(
                setting, None if required else setting.default if default is None else default
            ).replace("%", "%%"),
        }
        if setting.kind is bool:
            words |= {"action": "store_true", "default": default}
        else:
            words |= {"default": None if required else default, "required": required}
            words |= {"metavar": _metavar(setting)}
        parser.add_argument(f"--{setting.name.removeprefix('n_').replace('_', '-')}", **words)


def read(arguments: Namespace, config: type[C], **fixed: Any) -> C:
    """The config that the arguments and ``fixed`` give; InputError for a value that it cannot hold."""
    return config(**values(arguments, config) | fixed)


def values(arguments: Namespace, config: type[Any]) -> dict[str, Any]:
    """The fields of a config that the arguments hold, each read as its type; None where it was not given."""
    names = {setting.name for setting in _fields(config)}
    return {name: typed(config, name, value) for name, value in vars(arguments).items() if name in names}


def typed(config: type[Any], name: str, value: Any) -> Any:
    """A text from the command line read as the type of a field, or itself where the config has to refuse it.

    Anything but a text, and the text of a name that is no field, comes back as given.
    """
    setting = next((setting for setting in _fields(config) if setting.name == name), None)
    if setting is None or not isinstance(value, str):
        return value
    if setting.several:
        return [_number(part.strip(), setting.items) for part in value.split(",") if part.strip()]
    if Mapping in setting.kinds:
        with suppress(InputError):
            return outside.loads(value or "{}", name)
    return _number(value, setting.kinds)


def _number(text: str, kinds: Sequence[Any]) -> Any:
    for kind in (int, float):
        if kind in kinds:
            with suppress(ValueError):
                return kind(text)
    return text


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
    for kind, word in ((int, "N"), (float, "X"), (Mapping, "JSON")):
        if kind in setting.kinds:
            return word
    return setting.name.upper().replace("_", "-")
