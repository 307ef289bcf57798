"""What the world hands in, as data: every ``cases_*.toml`` is a table of inputs, calls and right values.

A case is one ``[[case]]``:

``name``     what is special, in a few words; the name of the test
``source``   who met such an input: ``owner/repository#number`` of a public report; or, where nobody reported it,
             ``form: NAME (WHERE)``, a public form and where it is described
``call``     the name of a call; ``test_*.py`` beside the table says what it does
``input``    a text, or any other value of TOML
``file``     the name of the file that the input is written to; the call then gets its path in place of the text
``encoding`` of that file, by default ``utf-8``
``right``    what the call returns
``refused``  in place of ``right``: words of the InputError that the call ends with
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from crs_lib.core.errors import InputError

FOLDER = Path(__file__).parent
Call = Callable[[Any], object]  # from an input, or the path of its file, to a value that TOML can hold


class Case(NamedTuple):
    """An input, what is done with it, and what is right."""

    name: str
    source: str
    call: str
    input: Any
    file: str = ""
    encoding: str = "utf-8"
    right: Any = None
    refused: tuple[str, ...] = ()

    def argument(self, folder: Path) -> Any:
        """What the call gets: the input, or the path of a file that holds it."""
        if not self.file:
            return self.input
        path = folder / self.file
        path.write_bytes(self.input.encode(self.encoding))
        return path

    def check(self, calls: Mapping[str, Call], folder: Path) -> None:
        """Assert that the call returns what is right, or ends with an error of the words in ``refused``."""
        call = calls[self.call]
        argument = self.argument(folder)
        if not self.refused:
            assert call(argument) == self.right
            return
        with pytest.raises(InputError) as error:
            call(argument)
        for words in self.refused:
            assert words in str(error.value)


def cases(table: str) -> list[Any]:
    """The cases of ``cases_<table>.toml``, each a parameter of a test with its name as id."""
    content = tomllib.loads((FOLDER / f"cases_{table}.toml").read_text(encoding="utf-8"))
    parameters = []
    for row in content["case"]:
        case = Case(**row)
        parameters.append(pytest.param(case, id=case.name))
    return parameters
