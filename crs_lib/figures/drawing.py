"""Figures by name, drawn from tidy frames: one look, one registry, one command that redraws them all."""

import base64
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Entry
from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, TABLES, NoDataError, counts, words


def names(study: str | None = None) -> list[str]:
    """The registered figures, all or those of a study, in the order in which they are written."""
    return [entry.name for entry in FIGURES if study in (None, entry.facts["study"])]


def _entry(name: str) -> Entry[Any]:
    return FIGURES.get(name) if name in FIGURES else TABLES.get(name)


def make(name: str, *frames: pd.DataFrame, **options: Any) -> Any:
    """The matplotlib Figure of a registered figure; nothing is shown or written.

    ``frames`` are the tables that the registry names for it (``FIGURES.describe()``), in that order;
    ``options`` are the drawing function's own. Raises InputError for an unknown name, another number of
    frames or an unknown option, NoDataError where the frames hold nothing to draw.
    """
    entry = FIGURES.get(name)
    try:
        inspect.signature(entry.make).bind(*frames, **options)
    except TypeError as error:
        takes = ", ".join(entry.facts["tables"]) or "no table"
        raise InputError(f"figure {name!r} takes {takes}, in this order: {error}") from None
    with style.applied():
        made = entry.make(*frames, **options)
        if "note" in entry.facts:
            style.note(made, _filled(entry.facts["note"], frames))
    return made


def _filled(text: str, frames: Sequence[pd.DataFrame]) -> str:
    return text.format(**counts(frames), **words(frames))


def caption(name: str, *frames: pd.DataFrame) -> str:
    """The text to print under a figure, one sentence: its content, interval and n."""
    return _filled(_entry(name).facts["caption"], frames)


def title(name: str) -> str:
    """The heading of a figure: declared, or its name in words."""
    words = name.replace("_", " ").capitalize()
    return str(FIGURES.get(name).facts.get("title", words))


def draw(name: str, *frames: pd.DataFrame, **options: Any) -> None:
    """Draw a registered figure and show it: one PNG in a notebook, nothing elsewhere. As :func:`make`.

    The picture's text form is its caption, which is what a screen reader and a diff see.
    """
    show(make(name, *frames, **options), caption(name, *frames))


def show(made: Any, text: str) -> None:
    """Show a figure as one PNG in a notebook, with its caption as text; nothing elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is None:
        return
    from IPython.display import display

    picture = base64.b64encode(style.data(made, "png", style.NOTEBOOK_DPI)).decode("ascii")
    display({"image/png": picture, "text/plain": text}, raw=True)


def why_not(name: str, run: str, reason: InputError) -> str:
    """One line: which figure or table a run has no data for, why, and the command that makes the data."""
    made_by = _entry(name).facts.get("made_by", "")
    return f"{name}: {reason}" + (f"; make it with: {made_by.format(run=run)}" if made_by else "")


def redraw(
    run: str,
    only: str | None = None,
    study: str = "movies",
    *,
    read: Callable[[str, str], pd.DataFrame],
    left_out: Callable[[str], object] = lambda line: None,
    part: str = "",
) -> list[Path]:
    """Draw everything that a finished run has data for; returns the files, in order.

    ``read(run, table)`` is the study's reader. Each figure becomes a PNG (300 dpi) and a PDF (vector,
    fonts embedded) in ``figures/<study>-<run>/``, with the fact ``dark`` also a PNG for dark pages, each
    table a ``.tex``, and ``captions.md`` describes all of them. The same tables give the same bytes.
    ``only`` names one figure or table. A figure
    for which the run has no data is left out, and ``left_out`` gets the line of :func:`why_not`; the one
    asked for raises NoDataError with that line. ``part`` names a folder inside, for a convention's figures.

    Raises InputError for an unknown name (with a suggestion) or study, RunError from ``read``.
    """
    known = [entry.name for entry in (*FIGURES, *TABLES) if entry.facts["study"] == study]
    if not known:
        studies = {entry.facts["study"] for entry in FIGURES}
        raise InputError(f"no figures for study {study!r}{did_you_mean(study, sorted(studies))}")
    if only not in (None, *known):
        hint = f"{did_you_mean(str(only), known)} (known: {', '.join(known)})"
        raise InputError(f"unknown figure {only!r}{hint}")
    paths.run_folder(study, run)  # checks the name
    folder, done, captions = paths.figures() / f"{study}-{run}" / part, list[Path](), list[str]()
    entries = [_entry(name) for name in known if only in (None, name)]
    needed = dict.fromkeys(table for entry in entries for table in entry.facts["tables"])
    found = {table: _read(read, run, table) for table in needed}  # all before the first picture is written
    for entry in entries:
        frames = [found[table] for table in entry.facts["tables"]]
        try:
            done += _files(folder, entry, frames)
        except InputError as error:  # one figure's tables that cannot be used do not take the others away
            line = why_not(entry.name, run, error)
            if only is not None:
                raise NoDataError(line) from error
            left_out(line)
        else:
            captions.append(f"**{entry.name}.** {caption(entry.name, *frames)}\n")
    if only is None:
        done.append(tables.write_whole(folder / "captions.md", "\n".join(captions)))
    return done


def _read(read: Callable[[str, str], pd.DataFrame], run: str, table: str) -> Any:
    """A table, or the NoDataError that says why there is none."""
    try:
        return read(run, table)
    except NoDataError as error:
        return error


def _files(folder: Path, entry: Entry[Any], frames: list[Any]) -> list[Path]:
    """The files of one figure or table; NoDataError where one of its tables is such an error."""
    for missing in (frame for frame in frames if isinstance(frame, NoDataError)):
        raise missing
    name = entry.name
    if name in TABLES:
        return [tables.write_whole(folder / f"{name}.tex", entry.make(*frames))]
    made = make(name, *frames)
    files = [style.write(made, folder / f"{name}.{kind}") for kind in ("png", "pdf")]
    if entry.facts.get("dark"):
        files.append(style.write(made, folder / f"{name}-dark.png", dark=True))
    return files
