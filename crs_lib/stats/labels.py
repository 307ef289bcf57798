"""Labels that people give on an annotation page, read back from its exported files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError

_Name = Annotated[str, Field(min_length=1)]


class Label(BaseModel):
    """A line that an annotation page exported."""

    model_config = ConfigDict(strict=True)
    item: _Name
    rater: _Name
    value: int
    page: _Name
    seconds: Any = None
    words: str = ""


class ReadLabel(NamedTuple):
    """A label and where it stands: the file and line, for messages."""

    place: str
    label: Label


def read_labels(files: Iterable[str | Path], low: int = 1, high: int = 5) -> list[ReadLabel]:
    """The labels of exported files in order, values from ``low`` to ``high``.

    Raises InputError naming file and line for what is no label, and where there is none at all.
    """
    labels = []
    for file in files:
        path = Path(file).expanduser()
        for number, line in enumerate(safety.read_text(path).split("\n"), start=1):
            if line.strip():
                where = f"{path.name}, line {number}"
                labels.append(ReadLabel(where, _label(line, where, low, high)))
    if not labels:
        raise InputError("no label in these files; export them with the page's button or the key E")
    return labels


def _label(line: str, where: str, low: int, high: int) -> Label:
    expected = f"an object with item, rater, page and a value from {low} to {high}"
    try:
        label = Label.model_validate(safety.loads(line, where))
    except ValidationError:
        raise InputError(f"{where}: no label; expected {expected}") from None
    if not low <= label.value <= high:
        raise InputError(f"{where}: no label; expected {expected}")
    return label
