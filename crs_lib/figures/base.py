"""The registry of figures: what each may expect of its tables, its caption, and how it is drawn and written.
One look, one registry, one command that redraws them all.
"""

import base64
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, prompts
from crs_lib.core import tables as files
from crs_lib.core.errors import InputError, NoDataError, did_you_mean, unknown
from crs_lib.core.settings import Entry, Registry
from crs_lib.figures import layout, style
from crs_lib.metrics import base as metrics
from crs_lib.stats import Design, cluster_bootstrap

__all__ = ["FIGURES", "TABLES", "NoDataError"]  # the error is what a drawing function raises, too

Draw = TypeVar("Draw", bound=Callable[..., Any])
_YES = pd.Series([True])  # that systems met the same users, where a table does not say


def _captions() -> dict[str, dict[str, Any]]:
    """The words of figures, ``crs_lib/prompts/<study>/captions.toml``; their order there is that of pages."""
    texts = {study: prompts.lists(f"{study}/captions") for study in ("movies", "cosrec", "realtalk")}
    rows = [(study, name, facts) for study, found in texts.items() for name, facts in found.items()]
    return {name: {"study": study, **facts, "place": i} for i, (study, name, facts) in enumerate(rows)}


# Functions of tidy frames that return a matplotlib Figure (a LaTeX ``tabular``), by name. Facts: ``study``,
# ``tables`` (the frames it takes, in order), ``caption``, ``note`` (the small print under it; both may name
# what :func:`counts` and :func:`words` give), ``place`` (its number on pages) and, where the stages of
# every run do not make its data, ``made_by``: the command that does (may name {run}). ``dark``: a PNG for
# dark pages, too. ``title``: its heading where the name in words is none.
FIGURES: Registry[Any] = Registry("figure", room="crs_lib.figures", words=_captions)
TABLES: Registry[str] = Registry("table", room="crs_lib.figures", words=_captions)


def figure(caption: str = "", *, registry: Registry[Any] = FIGURES, **facts: Any) -> Callable[[Draw], Draw]:
    """Decorator that registers a figure: the function's name without a first ``_``; its parameters are its
    tables, keyword-only ones options. The words are those of ``captions.toml``; a figure that stands in none
    brings its own, ``study`` (movies, unless said) among them, and comes last.
    """

    def add(make: Draw) -> Draw:
        name, taken = make.__name__.removeprefix("_"), inspect.signature(make).parameters.values()
        tables = tuple(one.name for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD)
        registry.register(name, tables=tables, **{"study": "movies", "caption": caption} | facts)(make)
        return make

    return add


def convention_of(frame: pd.DataFrame) -> str:
    """The convention that a table's scores were counted under; ``default`` where it does not say."""
    return str(frame["convention"].iloc[0]) if "convention" in frame and len(frame) else "default"


def primary(frame: pd.DataFrame) -> str:
    """The outcome that leads a figure: the convention's first that has a value here; NoDataError without."""
    convention, long = convention_of(frame), {"metric", "mean"} <= set(frame)
    usual = (*layout.outcomes(convention), *layout.SHOWN["correlation_heatmap"])
    if frame.empty or not (long or set(usual) & set(frame)):
        filled(frame, ["session_id", usual[0]])
    known = frame.loc[frame["mean"].notna(), "metric"] if long else frame.columns[frame.notna().any()]
    for name in usual:
        if name in set(known):
            return name
    raise NoDataError(f"the run has no outcome of convention {convention!r}")


# What may count as recovered: the suffix of the columns of ``shifts``, and the words of captions.
_RECOVERED = {
    "item": "one recommended item meets every constraint",
    "combined": "the reply overlaps with the utterance as the convention asks",
    "text": "the reply shares a topic with the new constraints",
}


def recovered_by(shifts: pd.DataFrame) -> str:
    """The criterion of recovery that a table of shifts has; errors as :func:`filled` where it has none."""
    for kind in _RECOVERED:
        if f"delay_{kind}" in shifts:
            return kind
    filled(shifts, ["delay_item"])
    return "item"


def systems_of(frame: pd.DataFrame) -> list[str]:
    """The systems in the order of the table, which is the order of the run."""
    return [str(name) for name in dict.fromkeys(frame["model"])]


def of_systems(frame: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """The rows of these systems, all where none is named; InputError for one that the table lacks."""
    if not systems or "model" not in frame:
        return frame
    known = systems_of(frame)
    for name in [name for name in systems if name not in known]:
        hint = f"{did_you_mean(name, known)} (it has {', '.join(known)})"
        raise InputError(f"no system {name!r} in this run{hint}")
    return frame[frame["model"].astype(str).isin(systems)]


def shown_in(name: str, frame: pd.DataFrame, asked: Sequence[str] = ()) -> list[str]:
    """The metrics of a figure: those asked for (InputError for an unknown one), else those declared."""
    if asked:
        return [metrics.get(metric).name for metric in asked]
    known = set(frame.get("metric", frame.columns))
    return layout.shown(convention_of(frame), name, known) or layout.SHOWN[name]


def filled(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The frame itself if it has these columns (else InputError) and rows (else NoDataError)."""
    absent = [column for column in columns if column not in frame.columns]
    if absent and layout.is_thesis(convention_of(frame)):
        raise NoDataError(f"convention {convention_of(frame)!r} gives no {', '.join(absent)}")
    if absent:
        raise InputError(f"the table has no column {absent}; it has {list(frame.columns)[:20]}")
    if frame.empty:
        raise NoDataError("the table has no rows; there is nothing to draw")
    return frame


def require(frame: pd.DataFrame, columns: Sequence[str], *, sessions: int = 1) -> pd.DataFrame:
    """The frame itself if it has these columns and so many sessions; else InputError or NoDataError."""
    filled(frame, ["model", *columns])
    if "session_id" in frame and (n := counts([frame])["sessions"]) < sessions:
        raise NoDataError(f"the run has {n} sessions a system; at least {sessions} are needed")
    return frame


def means(frame: pd.DataFrame, by: Sequence[str], value: str, *, resamples: int = 1000) -> pd.DataFrame:
    """Mean of a column in every cell of ``by`` with its 95 % interval, sessions drawn whole; a row a cell,
    NaN without any value. One draw resamples the same scenarios for all systems.
    """
    cells = frame.groupby(list(by), sort=False, observed=True).ngroup()
    work = pd.DataFrame({"system": cells, "scenario": frame["session_id"]})
    work["value"] = frame[value].astype(float)
    found = cluster_bootstrap(work, Design(resamples=resamples))
    keys = frame[list(by)].assign(system=cells).drop_duplicates("system")
    return keys.merge(found, on="system").drop(columns="system")


def words(frames: Sequence[pd.DataFrame]) -> dict[str, str]:
    """The words for captions: {primary}, the outcome that leads, and {recovered}, what counts as such."""
    found = {"primary": "the first score", "recovered": _RECOVERED["item"]}
    for frame in frames:
        with suppress(InputError):
            leads = str(frame["outcome"].iloc[0]) if "outcome" in frame and len(frame) else primary(frame)
            found["primary"] = metrics.get(leads).short
        if "watched" in frame:
            with suppress(InputError):
                found["recovered"] = _RECOVERED[recovered_by(frame)]
    return found


def counts(frames: Sequence[pd.DataFrame]) -> dict[str, int]:
    """The counts for captions: systems, sessions, turns, shifts (0: unknown), and the largest ``n_…``."""
    found = dict.fromkeys(("systems", "sessions", "turns", "shifts"), 0)
    for frame in frames:
        if frame.empty:
            continue
        counted = [name for name in frame.columns if str(name).startswith("n_") and name != "n_missing"]
        found |= {name: int(frame[name].max()) for name in counted}
        if "model" in frame:
            found["systems"] = frame["model"].nunique()
            if "session_id" in frame:
                found["sessions"] = int(frame.groupby("model")["session_id"].nunique().max())
            elif {"n", "n_missing"} <= set(frame):
                found["sessions"] = int((frame["n"] + frame["n_missing"]).max())
            if "since_shift" in frame:
                found["turns"] = int(frame["turn"].max())
                found["shifts"] = int((frame["since_shift"] == 0).sum()) // found["systems"]
            elif "watched" in frame:
                found["shifts"] = len(frame) // found["systems"]
    return found


def names(study: str | None = None) -> list[str]:
    """The registered figures, all or those of a study, in the order in which they are written."""
    return [entry.name for entry in FIGURES if study in (None, entry.facts["study"])]


def _entry(name: str) -> Entry[Any]:
    return FIGURES.get(name) if name in FIGURES else TABLES.get(name)


def make(name: str, *frames: pd.DataFrame, **options: Any) -> Any:
    """The matplotlib Figure of a registered figure, from the tables that the registry names for it, in that
    order; ``options`` are the drawing function's own. Raises InputError for an unknown name or option or
    another number of frames, NoDataError where these hold nothing to draw.
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
    facts, design = _entry(name).facts, Design(system="model", scenario="session_id")
    sessions = [frame for frame in frames if {"model", "session_id"} <= set(frame)]
    apart = any(map(design.independent, sessions)) or any(not f.get("paired", _YES).all() for f in frames)
    return _filled(facts["unpaired"] if apart and "unpaired" in facts else facts["caption"], frames)


def title(name: str) -> str:
    """The heading of a figure: declared, or its name in words."""
    return str(FIGURES.get(name).facts.get("title", name.replace("_", " ").capitalize()))


def draw(name: str, *frames: pd.DataFrame, **options: Any) -> None:
    """Draw a registered figure and show it as one PNG, its caption as text form. As :func:`make`."""
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
    """One line: which figure a run has no data for, why, and the command that makes it (none for logs)."""
    made_by = _entry(name).facts.get("made_by", "")
    if runs.entry("movies", run, "simulate").get("parameters", {}).get("imported"):
        made_by = made_by if "04_evaluate" in made_by and "03_simulate" not in made_by else ""
    return f"{name}: {reason}" + (f"; make it with: {made_by.format(run=run)}" if made_by else "")


def redraw(
    run: str, only: str | None = None, study: str = "movies", *, read: Callable[[str, str], pd.DataFrame],
    left_out: Callable[[str], object] = lambda line: None, part: str = "",
) -> list[Path]:  # fmt: skip
    """Draw everything that a finished run has data for; returns the files, in order. ``read(run, table)`` is
    the study's reader. In ``figures/<study>-<run>/`` (and its folder ``part``) each figure becomes a PNG (300
    dpi; ``dark`` ones also for dark pages) and a PDF, each table a ``.tex``, and ``captions.md`` says what
    they show and how to cite them; the same tables give the same bytes. ``only`` names one. For what the run
    has no data, ``left_out`` gets the line of :func:`why_not`, or NoDataError is raised if asked for. Raises
    InputError for an unknown name or study, RunError from ``read``.
    """
    known = [entry.name for entry in (*FIGURES, *TABLES) if entry.facts["study"] == study]
    if not known:
        studies = {entry.facts["study"] for entry in FIGURES}
        raise InputError(f"no figures for study {study!r}{did_you_mean(study, sorted(studies))}")
    if only not in (None, *known):
        raise unknown("figure", only, known)
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
            captions.append(f"**{entry.name}.** {caption(entry.name, *frames)} {_source(entry, run)}\n")
    if only is None:
        done.append(files.write_whole(folder / "captions.md", "\n".join(captions)))
    return done


def _source(entry: Entry[Any], run: str) -> str:
    """How to cite a figure: its file, the tables it draws, the command; the run's manifest has the commit."""
    name, study = entry.name, entry.facts["study"]
    drawn = f"`{name}.{'tex' if name in TABLES else 'png'}`, from {', '.join(entry.facts['tables'])}"
    return f"({drawn}: `crs show figures --study {study} --run {run} --only {name}`.)"


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
        return [files.write_whole(folder / f"{name}.tex", entry.make(*frames))]
    made = make(name, *frames)
    written = [style.write(made, folder / f"{name}.{kind}") for kind in ("png", "pdf")]
    if entry.facts.get("dark"):
        written.append(style.write(made, folder / f"{name}-dark.png", dark=True))
    return written
