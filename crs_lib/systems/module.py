"""``python:package.module:Class``: a class of the user's own; ``Class(catalog).reply(request)`` answers."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crs_lib.core import hashes, paths
from crs_lib.core.errors import InputError
from crs_lib.llm.base import LLMError
from crs_lib.systems.programs import PROGRAMS

_READ: dict[str, str] = {}  # the digest of each module's file when it was read


def parts(argument: str) -> tuple[str, str]:
    """Module and class of ``package.module:Class``; InputError where it is not written so."""
    module, colon, name = argument.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InputError("no class; write python:package.module:Class")
    return module, name


def load(argument: str) -> type[Any]:
    """The class, imported from the current folder, from notebooks/ or any other place of Python's path.

    A module whose file was changed is read again. Raises LLMError where it cannot be imported.
    """
    module, name = parts(argument)
    for place in (Path.cwd(), paths.notebooks()):
        if str(place) not in sys.path:
            sys.path.append(str(place))
    try:
        importlib.invalidate_caches()
        found = importlib.import_module(module)
        digest = _digest(found.__file__)
        if _READ.setdefault(module, digest) != digest:
            found, _READ[module] = importlib.reload(found), digest
    except Exception as error:
        raise LLMError(
            "not started",
            f"python:{argument}: {module} cannot be imported ({_told(error)}); it is looked for in "
            f"{Path.cwd().name}/, in notebooks/ and in Python's path",
        ) from error
    made = getattr(found, name, None)
    if not isinstance(made, type):
        known = [other for other, value in vars(found).items() if isinstance(value, type)]
        raise LLMError(
            "not started", f"python:{argument}: {module} has no class {name} (it has: {', '.join(known)})"
        )
    if not callable(getattr(made, "reply", None)):
        raise LLMError("not started", f"python:{argument}: {name} has no method reply(request)")
    return made


def ready(argument: str) -> None:
    """Raise LLMError where the class cannot be imported or has no ``reply``."""
    load(argument)


def identity(argument: str) -> str:
    """The digest of the file that holds the class."""
    try:
        return _digest(inspect.getsourcefile(load(argument)))
    except TypeError:
        return _digest(None)


def _digest(path: str | None) -> str:
    return hashes.sha256(Path(path)) if path and Path(path).is_file() else "no file"


@PROGRAMS.register(
    "python", argument="a module and a class", example="my_system:MySystem",
    check=parts, ready=ready, identity=identity, shared=False, apart=False,
)  # fmt: skip
class Instance:
    """An object of the user's class, as docs/your-system.md describes; one for each worker."""

    def __init__(self, argument: str, *, timeout: float = 300.0, catalog: Any = None) -> None:
        self.argument = argument
        made = load(argument)
        try:
            self._object = made(catalog)
        except Exception as error:
            raise LLMError("crashed", f"{made.__name__}(catalog) raised {_told(error)}") from error

    def ask(self, request: Mapping[str, Any]) -> object:
        """What ``reply`` returns."""
        try:
            answer: object = self._object.reply(dict(request))
        except Exception as error:
            raise LLMError("crashed", f"reply raised {_told(error)}") from error
        return answer

    def usable(self) -> bool:
        """Always."""
        return True

    def halt(self) -> None:
        """Nothing: Python cannot end a call of another thread."""

    def close(self) -> None:
        """Call the object's own ``close``, if it has one."""
        ending = getattr(self._object, "close", None)
        if callable(ending):
            ending()


def _told(error: BaseException) -> str:
    """An error with the line of the user's file where it came up."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {error}{where}"
