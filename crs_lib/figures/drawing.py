"""Figures by name, drawn from tidy frames: one look, one registry, one command that redraws them all."""

import base64
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, TABLES, NoDataError, counts, words


def names(study: str | None = None) -> list[str]:
    """The registered figures, all or those of a study, in the order in which they are written."""
    return [entry.name for entry in FIGURES if study in (None, entry.facts["study"])]


def make(name: str, *frames: pd.DataFrame, **options: Any) -> Any:
    """The matplotlib Figure of a registered figure; nothing is shown or written.

    ``frames`` are the tables that the registry names for it (``FIGURES.describe()``), in that order;
    ``options`` are the drawing function's own. Raises InputError for an unknown name, another number of
    frames or an unknown option, NoDataError where the frames hold nothing to draw.
    """
    entry = FIGURES.get(name)
    wanted = entry.facts["tables"]
    if len(frames) != len(wanted):
        takes = ", ".join(wanted) or "no table"
        raise InputError(f"figure {name!r} takes {takes}, in this order; {len(frames)} were given")
    known = [p.name for p in inspect.signature(entry.make).parameters.values() if p.kind == p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise InputError(
                f"figure {name!r} has no option {option!r}{did_you_mean(option, known)} "
                f"(known: {', '.join(known) or 'none'})"
            )
    with style.applied():
        return entry.make(*frames, **options)


def caption(name: str, *frames: pd.DataFrame) -> str:
    """The text to print under a figure, one sentence: its content, interval and n."""
    text: str = FIGURES.get(name).facts["caption"]
    return text.format(**counts(frames), **words(frames))


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
    entry = FIGURES.get(name) if name in FIGURES else TABLES.get(name)
    made_by = entry.facts.get("made_by", "")
    return f"{name}: {reason}" + (f"; make it with: {made_by.format(run=run)}" if made_by else "")


def redraw(
    run: str,
    only: str | None = None,
    study: str = "movies",
    *,
    read: Callable[[str, str], pd.DataFrame],
    left_out: Callable[[str], object] | None = None,
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
        studies = sorted({entry.facts["study"] for entry in FIGURES})
        raise InputError(f"no figures for study {study!r}{did_you_mean(study, studies)}")
    if only is not None and only not in known:
        raise InputError(f"unknown figure {only!r}{did_you_mean(only, known)} (known: {', '.join(known)})")
    paths.run_folder(study, run)  # checks the name
    folder, done, captions = paths.figures() / f"{study}-{run}" / part, list[Path](), list[str]()
    wanted = known if only is None else [only]
    entries = [FIGURES.get(name) if name in FIGURES else TABLES.get(name) for name in wanted]
    needed = dict.fromkeys(table for entry in entries for table in entry.facts["tables"])
    found = {table: _read(read, run, table) for table in needed}  # all before the first picture is written
    for entry in entries:
        name = entry.name
        try:
            frames = [_known(found[table]) for table in entry.facts["tables"]]
            done += _files(folder, name, frames)
        except InputError as error:  # one figure's tables that cannot be used do not take the others away
            line = why_not(name, run, error)
            if only is not None:
                raise NoDataError(line) from error
            if left_out:
                left_out(line)
            continue
        captions.append(f"**{name}.** {entry.facts['caption'].format(**counts(frames), **words(frames))}\n")
    if only is None:
        with tables.write_aside(folder / "captions.md") as file:
            file.write("\n".join(captions))
        done.append(folder / "captions.md")
    return done


def _read(read: Callable[[str, str], pd.DataFrame], run: str, table: str) -> pd.DataFrame | NoDataError:
    try:
        return read(run, table)
    except NoDataError as error:
        return error


def _known(found: pd.DataFrame | NoDataError) -> pd.DataFrame:
    if isinstance(found, NoDataError):
        raise found
    return found


def _files(folder: Path, name: str, frames: list[pd.DataFrame]) -> list[Path]:
    if name in TABLES:
        text = TABLES.get(name).make(*frames)
        with tables.write_aside(folder / f"{name}.tex") as file:
            file.write(text)
        return [folder / f"{name}.tex"]
    made = make(name, *frames)
    files = [style.write(made, folder / f"{name}.{kind}") for kind in ("png", "pdf")]
    if FIGURES.get(name).facts.get("dark"):
        files.append(style.write(made, folder / f"{name}-dark.png", dark=True))
    return files
