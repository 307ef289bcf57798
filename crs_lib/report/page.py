"""Pages of HTML: templates of this room, filled with everything from a run escaped, and what they show."""

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from crs_lib import figures
from crs_lib.core import tables
from crs_lib.figures import base as registered
from crs_lib.figures import style
from crs_lib.stats.estimate import signed

DPI = 150
MISSING = "–"  # in every table
_FOLDER = Path(__file__).resolve().parent
_LONG = 30  # characters of a cell that asks for room


class Link(NamedTuple):
    """A table cell that leads somewhere: a text and a relative address."""

    text: str
    address: str


class Mean(NamedTuple):
    """A table cell with a mean and its interval under it."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """The mean with its interval, if it has one, in brackets."""
        if pd.isna(self.low):
            return _text(self.mean)
        return f"{_text(self.mean)} [{_text(self.low)}, {_text(self.high)}]"


class Section(NamedTuple):
    """A part of a page: its title, the anchor that leads to it, and its body, which is HTML."""

    title: str
    anchor: str
    body: str


class _Cell(NamedTuple):
    """A table cell as it is drawn: its text and style, where it leads, and what stands under the text."""

    text: str
    kind: str
    address: str = ""
    ends: str | None = None


class _Figure(NamedTuple):
    """A figure inside a page: a PNG in base 64, its caption as text form, and its data as CSV in base 64."""

    name: str
    title: str
    png: str
    caption: str
    csv: str = ""


def read_part(name: str) -> Markup:
    """The text of a style sheet or a script of this room."""
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(_FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(checksum=_checksum, inert=_inert, rows=_rows)
    environment.tests["numeric_column"] = _is_numeric
    return environment


def render(
    template: str,
    title: str,
    styles: Iterable[str],
    *,
    css_first: str = "",
    script: str = "",
    allow: str = "",
    **facts: object,
) -> str:
    """A page from a template of this room.

    Its policy allows the style sheet (``css_first`` and the ``styles``, files of this room) and the script by
    checksum, what ``allow`` says behind the script's, and nothing else.
    """
    sheets = [Markup(css_first)]
    sheets += [read_part(name) for name in styles]
    css = Markup("").join(sheets)
    page = _environment().get_template(template)
    return page.render(title=title, css=css, js=Markup(script), allow=Markup(allow), **facts)


def _checksum(text: str) -> Markup:
    """The text of an inline script or style as a source of a Content-Security-Policy: its SHA-256."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup("'sha256-{}'").format(digest)


def _inert(data: Mapping[str, Any]) -> Markup:
    """Data as JSON in an element that never runs, which nothing in it can close."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(text)


def document(
    title: str,
    question: str,
    lead: str,
    sections: Iterable[tuple[str, str, str]],
    *styles: str,
    script: str = "",
) -> str:
    """A page to read, its contents first.

    Sections are (title, anchor, HTML), those without HTML left out, ``lead`` is HTML. Its policy allows the
    ``styles`` and the ``script`` of this room and nothing else.
    """
    shown = []
    for heading, anchor, body in sections:
        if body:
            shown.append(Section(heading, anchor, Markup(body)))
    sheets = ["tables.css", "report.css", *styles]
    return render(
        "report.html",
        title,
        sheets,
        script=read_part(script) if script else "",
        allow="; img-src data:",
        asked=question,
        lead=Markup(lead),
        sections=shown,
    )


def scripted(name: str, title: str, styles: Iterable[str], data: Mapping[str, Any]) -> str:
    """A page of this room with its script, its styles and its data."""
    return render(f"{name}.html", title, styles, script=read_part(f"{name}.js"), data=data)


def question_page(data: Mapping[str, Any]) -> str:
    """The annotation page: questions to people, whose labels stay in the browser until they are exported.

    ``data``: the digest of the page, title, text, scale (its first value is ``first``, else 1), ``before``
    (the heading of earlier lines), ``words`` (what else is asked for), and questions: id, earlier, sides of
    lines (kind, who, text), and a text of their own where they have one.
    """
    return scripted("annotate", data["title"], ["annotate.css"], data)


def _block(name: str, *parts: object) -> Markup:
    """A part of a page, drawn by a macro of ``blocks.html``."""
    macro = getattr(_environment().get_template("blocks.html").module, name)
    return Markup(macro(*parts))


def quiet(text: str) -> Markup:
    """A quiet paragraph."""
    return _block("quiet", text)


def bullets(sentences: Iterable[str]) -> Markup:
    """Sentences as a list."""
    return _block("bullets", sentences)


def subheading(text: str) -> Markup:
    """A heading within a section."""
    return Markup("<h3>{}</h3>").format(text)


def table(frame: pd.DataFrame) -> Markup:
    """A frame as an HTML table; wide ones scroll; a sentence where it has no rows."""
    return _block("table", frame)


def figure(name: str, *frames: pd.DataFrame, data: pd.DataFrame | None = None) -> Markup:
    """A figure as a PNG inside the page, its caption as text form; NoDataError where it has no data.

    ``data`` is what it shows, to be downloaded as CSV.
    """
    picture = style.data(figures.make(name, *frames), "png", DPI)
    csv = "" if data is None else _encoded(tables.csv_of(data).encode())
    caption = registered.caption(name, *frames)
    return _block("figure", _Figure(name, registered.title(name), _encoded(picture), caption, csv))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def verbatim(text: str) -> Markup:
    """A text as it is written, line by line."""
    return Markup("<pre>{}</pre>").format(text)


def _rows(frame: pd.DataFrame) -> Iterator[tuple[_Cell, ...]]:
    """The cells of a table, row by row."""
    columns = []
    for number in range(frame.shape[1]):
        columns.append(_cells(frame.iloc[:, number]))
    return zip(*columns, strict=True)


def _is_numeric(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _cells(column: "pd.Series[Any]") -> list[_Cell]:
    """The cells of a column: numbers to the right, whole ones where all are whole."""
    kind = ""
    places = 3
    if _is_numeric(column):
        kind = "value"
        present = column.dropna().astype(float)
        if (present == present.round()).all():
            places = 0
    return [_cell_of(value, kind, places) for value in column]


def _cell_of(value: object, kind: str, places: int) -> _Cell:
    if isinstance(value, Link):
        return _Cell(value.text, kind, address=value.address)
    if isinstance(value, Mean):
        ends = ""
        if not pd.isna(value.low):
            ends = f"{_text(value.low)} to {_text(value.high)}"
        return _Cell(_text(value.mean), kind, ends=ends)
    text = _text(value, places)
    if not kind and len(text) > _LONG:
        kind = "long"
    return _Cell(text, kind)


def _text(value: object, places: int = 3) -> str:
    """A value as it is printed; a dash for what is missing."""
    if value is None or value is pd.NA or value is pd.NaT:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return signed(value, 0)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return MISSING
    if value.is_integer() and abs(value) >= 10:
        places = 0
    return signed(value, places)
