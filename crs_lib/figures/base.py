"""The registry of figures: what each may expect of its tables, its caption, and how it is drawn and written.

To add a figure, write a function of tidy frames in this room (or in a client's) that returns a matplotlib
Figure::

    @figure()
    def _waiting(shifts: pd.DataFrame) -> Any:
        '''How long the user waits.

        Caption: Replies until recovery by system (n = {sessions} sessions per system).
        Note: n = {sessions} sessions.
        '''

Its name is the function's, its tables are the parameters, keyword-only parameters are options. The docstring
has the words: the caption (one sentence), where the users are not paired another one (``Unpaired``), and the
small print (``Note``); they may name what :func:`counts` and :func:`words` give.
"""

import base64
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths
from crs_lib.core import tables as files
from crs_lib.core.errors import InputError, NoDataError, did_you_mean, unknown
from crs_lib.core.settings import Entry, Registry
from crs_lib.figures import layout, style
from crs_lib.metrics import base as metrics
from crs_lib.stats import Design, cluster_bootstrap

__all__ = ["FIGURES", "TABLES", "NoDataError"]  # the error is what a drawing function raises, too

Draw = TypeVar("Draw", bound=Callable[..., Any])
Reader = Callable[[str, str], pd.DataFrame]
# The files of the room in the order in which pages show their figures; those of clients come last.
_CHAPTERS = (
    "ability",
    "diagrams",
    "pairs",
    "scores",
    "models",
    "stability",
    "shifts",
    "recovery",
    "latex",
)
_WORDS = re.compile(r"^(Caption|Unpaired|Note): (.*?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)

# Functions of tidy frames that return a matplotlib Figure (a LaTeX ``tabular``), by name. Facts: ``study``,
# ``tables`` (the frames it takes, in order), ``caption``, ``note``, ``metrics`` (those it shows unless others
# are asked for), ``place`` (its number on pages) and, where the stages of every run do not make its data,
# ``made_by``: the command that does (may name {run}). ``dark``: a PNG for dark pages, too. ``title``: its
# heading where the name in words is none.
FIGURES: Registry[Any] = Registry("figure", room="crs_lib.figures", first=_CHAPTERS)
TABLES: Registry[str] = Registry("table", room="crs_lib.figures", first=_CHAPTERS)


def figure(*, registry: Registry[Any] = FIGURES, **facts: Any) -> Callable[[Draw], Draw]:
    """Decorator that registers a figure of the study movies, unless ``study`` is among the facts."""

    def add(make: Draw) -> Draw:
        name = make.__name__.removeprefix("_")
        declared: dict[str, Any] = {"study": "movies", "tables": _tables_of(make)}
        declared.update(_place(make))
        declared.update(_words_of(make))
        declared.update(facts)
        registry.register(name, **declared)(make)
        return make

    return add


def _tables_of(make: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a drawing function's tables: its parameters before the star."""
    tables = []
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            tables.append(name)
    return tuple(tables)


def _place(make: Callable[..., Any]) -> dict[str, int]:
    """The number of a figure on pages: its chapter, then its line there; none for a client's."""
    room, _, chapter = make.__module__.rpartition(".")
    if room == __name__.rpartition(".")[0] and chapter in _CHAPTERS:
        return {"place": 10_000 * _CHAPTERS.index(chapter) + make.__code__.co_firstlineno}
    return {}


def _words_of(make: Callable[..., Any]) -> dict[str, str]:
    """Caption and small print as the docstring has them."""
    texts = {}
    for name, text in _WORDS.findall(inspect.getdoc(make) or ""):
        texts[name.lower()] = " ".join(text.split())
    return texts


def convention_of(frame: pd.DataFrame) -> str:
    """The convention that a table's scores were counted under; ``default`` where it does not say."""
    if "convention" in frame and len(frame):
        return str(frame["convention"].iloc[0])
    return "default"


def primary(frame: pd.DataFrame) -> str:
    """The outcome that leads a figure: the convention's first that has a value here; NoDataError without."""
    convention = convention_of(frame)
    usual = [*layout.outcomes(convention), *layout.CORRELATED]
    long = {"metric", "mean"} <= set(frame)
    if frame.empty or not (long or set(usual) & set(frame)):
        with_rows(frame, ["session_id", usual[0]])
    scored = set(frame.columns[frame.notna().any()])
    if long:
        scored = set(frame.loc[frame["mean"].notna(), "metric"])
    for name in usual:
        if name in scored:
            return name
    raise NoDataError(f"the run has no outcome of convention {convention!r}")


# What may count as recovered: the suffix of the columns of ``shifts``, and the words of captions.
_RECOVERED = {
    "item": "one recommended item meets every constraint",
    "combined": "the reply overlaps with the utterance as the convention asks",
    "text": "the reply shares a topic with the new constraints",
}


def recovered_by(shifts: pd.DataFrame) -> str:
    """The criterion of recovery that a table of shifts has; errors as :func:`with_rows` where it has none."""
    for kind in _RECOVERED:
        if f"delay_{kind}" in shifts:
            return kind
    with_rows(shifts, ["delay_item"])
    return "item"


def systems_of(frame: pd.DataFrame) -> list[str]:
    """The systems in the order of the table, which is the order of the run."""
    return [str(name) for name in frame["model"].unique()]


def of_systems(frame: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """The rows of these systems; all where none is named, or where the table has no column of systems.
    InputError for a system that the table lacks.
    """
    if not systems or "model" not in frame:
        return frame
    present = systems_of(frame)
    for name in systems:
        if name not in present:
            hint = f"{did_you_mean(name, present)} (it has {', '.join(present)})"
            raise InputError(f"no system {name!r} in this run{hint}")
    return frame[frame["model"].astype(str).isin(systems)]


def shown_in(name: str, frame: pd.DataFrame, chosen: Sequence[str] = ()) -> list[str]:
    """The metrics of a figure: those chosen (InputError for an unknown one), else those that it declares."""
    if chosen:
        return [metrics.get(metric).name for metric in chosen]
    declared: Sequence[str] = _entry(name).facts["metrics"]
    present = set(frame.get("metric", frame.columns))
    return layout.shown(convention_of(frame), declared, present) or list(declared)


def with_rows(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The frame itself if it has these columns and rows.

    InputError for a missing column; NoDataError for one that the convention does not give, and without rows.
    """
    absent = [column for column in columns if column not in frame.columns]
    convention = convention_of(frame)
    if absent and layout.is_thesis(convention):
        raise NoDataError(f"convention {convention!r} gives no {', '.join(absent)}")
    if absent:
        raise InputError(f"the table has no column {absent}; it has {list(frame.columns)[:20]}")
    if frame.empty:
        raise NoDataError("the table has no rows; there is nothing to draw")
    return frame


def require(frame: pd.DataFrame, columns: Sequence[str], *, sessions: int = 1) -> pd.DataFrame:
    """The frame itself if it has these columns and so many sessions; else InputError or NoDataError."""
    with_rows(frame, ["model", *columns])
    n = counts([frame])["sessions"]
    if "session_id" in frame and n < sessions:
        raise NoDataError(f"the run has {n} sessions a system; at least {sessions} are needed")
    return frame


def means(frame: pd.DataFrame, by: Sequence[str], value: str, *, resamples: int = 1000) -> pd.DataFrame:
    """Mean of a column in every cell of ``by`` with its 95 % interval, sessions drawn whole; a row a cell.

    NaN without any value. One draw resamples the same scenarios for all systems.
    """
    keys = list(by)
    cells = frame.groupby(keys, sort=False, observed=True).ngroup()
    values = frame[value].astype(float)
    work = pd.DataFrame({"system": cells, "scenario": frame["session_id"], "value": values})
    intervals = cluster_bootstrap(work, Design(resamples=resamples))
    names = frame[keys].assign(system=cells).drop_duplicates("system")
    return names.merge(intervals, on="system").drop(columns="system")


def words(frames: Sequence[pd.DataFrame]) -> dict[str, str]:
    """The words for captions: {primary}, the outcome that leads, and {recovered}, what counts as such."""
    texts = {"primary": "the first score", "recovered": _RECOVERED["item"]}
    for frame in frames:
        with suppress(InputError):
            leading = frame["outcome"].iloc[0] if "outcome" in frame and len(frame) else primary(frame)
            texts["primary"] = metrics.get(str(leading)).short
        if "watched" in frame:
            with suppress(InputError):
                texts["recovered"] = _RECOVERED[recovered_by(frame)]
    return texts


def counts(frames: Sequence[pd.DataFrame]) -> dict[str, int]:
    """The counts for captions: systems, sessions, turns, shifts (0: unknown), the largest ``n_…`` of all."""
    numbers = dict.fromkeys(("systems", "sessions", "turns", "shifts"), 0)
    for frame in frames:
        if frame.empty:
            continue
        for name in frame.columns:
            if str(name).startswith("n_") and name != "n_missing":
                numbers[name] = max(numbers.get(name, 0), int(frame[name].max()))
        if "model" in frame:
            numbers.update(_of_systems(frame))
    return numbers


def _of_systems(frame: pd.DataFrame) -> dict[str, int]:
    """The counts of a table with systems."""
    n_systems = frame["model"].nunique()
    numbers = {"systems": n_systems}
    if "session_id" in frame:
        numbers["sessions"] = int(frame.groupby("model")["session_id"].nunique().max())
    elif {"n", "n_missing"} <= set(frame):
        numbers["sessions"] = int((frame["n"] + frame["n_missing"]).max())
    if "since_shift" in frame:
        numbers["turns"] = int(frame["turn"].max())
        numbers["shifts"] = int((frame["since_shift"] == 0).sum()) // n_systems
    elif "watched" in frame:
        numbers["shifts"] = len(frame) // n_systems
    return numbers


def names(study: str | None = None) -> list[str]:
    """The registered figures, all or those of a study, in the order in which they are written."""
    listed = [entry for entry in FIGURES if not entry.facts.get("hidden")]
    return [entry.name for entry in listed if study in (None, entry.facts["study"])]


def _entry(name: str) -> Entry[Any]:
    return TABLES.get(name) if name in TABLES else FIGURES.get(name)


def make(name: str, *frames: pd.DataFrame, **options: Any) -> Any:
    """Make a registered figure.

    Parameters
    ----------
    name : str
        A name in ``FIGURES``.
    *frames : pandas.DataFrame
        The tables that the registry names for it, in that order.
    **options
        The drawing function's own, e.g. ``metrics=["item_tas"]``.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        For an unknown name or option, or another number of frames.
    NoDataError
        Where the frames hold nothing to draw.
    """
    entry = FIGURES.get(name)
    try:
        inspect.signature(entry.make).bind(*frames, **options)
    except TypeError as error:
        takes = ", ".join(entry.facts["tables"]) or "no table"
        raise InputError(f"figure {name!r} takes {takes}, in this order: {error}") from None
    with style.applied():
        drawing = entry.make(*frames, **options)
        if "note" in entry.facts:
            style.note(drawing, _fill(entry.facts["note"], frames))
    return drawing


def _fill(text: str, frames: Sequence[pd.DataFrame]) -> str:
    return text.format(**counts(frames), **words(frames))


def caption(name: str, *frames: pd.DataFrame) -> str:
    """The text to print under a figure, one sentence: its content, interval and n."""
    facts = _entry(name).facts
    if "unpaired" in facts and any(map(_unpaired, frames)):
        return _fill(facts["unpaired"], frames)
    return _fill(facts["caption"], frames)


def _unpaired(frame: pd.DataFrame) -> bool:
    """Whether the systems of a table met different users: so they say, or so their sessions show."""
    if "paired" in frame and not frame["paired"].all():
        return True
    design = Design(system="model", scenario="session_id")
    return {"model", "session_id"} <= set(frame) and design.independent(frame)


def title(name: str) -> str:
    """The heading of a figure: declared, or its name in words."""
    in_words = name.replace("_", " ").capitalize()
    return str(FIGURES.get(name).facts.get("title", in_words))


def draw(name: str, *frames: pd.DataFrame, **options: Any) -> None:
    """Draw a registered figure and show it as one PNG, its caption as text; arguments as :func:`make`."""
    show(make(name, *frames, **options), caption(name, *frames))


def show(drawing: Any, text: str) -> None:
    """Show a figure as one PNG in a notebook, with a caption as its text form; nothing elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is None:
        return
    from IPython.display import display

    picture = base64.b64encode(style.data(drawing, "png", style.NOTEBOOK_DPI)).decode("ascii")
    display({"image/png": picture, "text/plain": text}, raw=True)


def why_not(name: str, run: str, reason: InputError) -> str:
    """One line: which figure a run has no data for, why, and the command that makes it (none for logs)."""
    made_by = _entry(name).facts.get("made_by", "")
    simulated = runs.Run("movies", run).entry("simulate").get("parameters", {})
    if simulated.get("imported") and ("04_evaluate" not in made_by or "03_simulate" in made_by):
        made_by = ""
    line = f"{name}: {reason}"
    return f"{line}; make it with: {made_by.format(run=run)}" if made_by else line


def redraw(
    run: str,
    only: str | None = None,
    study: str = "movies",
    *,
    read: Reader,
    left_out: Callable[[str], object] = lambda line: None,
    part: str = "",
) -> list[Path]:
    """Draw everything that a finished run has data for, into ``figures/<study>-<run>/``.

    Each figure becomes a PNG (300 dpi; ``dark`` ones also for dark pages) and a PDF, each table a ``.tex``,
    and ``captions.md`` says what they show and how to cite them; the same tables give the same bytes.

    Parameters
    ----------
    run : str
        A finished run.
    only : str, optional
        One figure or table by name.
    study : str
        The study of the run.
    read : callable
        The study's reader of a table: ``read(run, table)``.
    left_out : callable
        Gets the line of :func:`why_not` for what the run has no data for; where a figure was asked for by
        name, NoDataError is raised instead.
    part : str
        A folder below.

    Returns
    -------
    list of pathlib.Path
        The files, in order.

    Raises
    ------
    InputError
        For an unknown name or study.
    RunError
        From ``read``.
    """
    entries = _chosen(study, only)
    paths.run_folder(study, run)  # checks the name
    folder = paths.figures() / f"{study}-{run}" / part
    frames = _read_all(entries, run, read)  # all before the first picture is written
    written: list[Path] = []
    captions = []
    for entry in entries:
        try:
            tables = [_usable(frames[table]) for table in entry.facts["tables"]]
            written += _files(folder, entry, tables)
        except InputError as error:  # one figure's tables that cannot be used do not take the others away
            line = why_not(entry.name, run, error)
            if only is not None:
                raise NoDataError(line) from error
            left_out(line)
        else:
            text = caption(entry.name, *tables)
            captions.append(f"**{entry.name}.** {text} {_source(entry, run)}\n")
    if only is None:
        written.append(files.write_whole(folder / "captions.md", "\n".join(captions)))
    return written


def _chosen(study: str, only: str | None) -> list[Entry[Any]]:
    """The figures and tables of a study, or the one of a name; InputError for an unknown study or name."""
    entries = [entry for entry in (*FIGURES, *TABLES) if entry.facts["study"] == study]
    if not entries:
        studies = sorted({entry.facts["study"] for entry in FIGURES})
        raise InputError(f"no figures for study {study!r}{did_you_mean(study, studies)}")
    for entry in entries:
        if entry.name == only:
            return [entry]
    listed = [entry for entry in entries if not entry.facts.get("hidden")]
    if only is None:
        return listed
    raise unknown("figure", only, [entry.name for entry in listed])


def _read_all(entries: Sequence[Entry[Any]], run: str, read: Reader) -> dict[str, pd.DataFrame | NoDataError]:
    """The tables of some figures by name, or the error that says why there is none."""
    frames: dict[str, pd.DataFrame | NoDataError] = {}
    for entry in entries:
        for table in entry.facts["tables"]:
            if table not in frames:
                try:
                    frames[table] = read(run, table)
                except NoDataError as error:
                    frames[table] = error
    return frames


def _usable(frame: pd.DataFrame | NoDataError) -> pd.DataFrame:
    if isinstance(frame, NoDataError):
        raise frame
    return frame


def _source(entry: Entry[Any], run: str) -> str:
    """How to cite a figure: its file, the tables it draws, the command; the run's manifest has the commit."""
    kind = "tex" if entry.name in TABLES else "png"
    drawn_from = f"`{entry.name}.{kind}`, from {', '.join(entry.facts['tables'])}"
    command = f"crs show figures --study {entry.facts['study']} --run {run} --only {entry.name}"
    return f"({drawn_from}: `{command}`.)"


def _files(folder: Path, entry: Entry[Any], frames: Sequence[pd.DataFrame]) -> list[Path]:
    """The files of one figure or table."""
    name = entry.name
    if name in TABLES:
        return [files.write_whole(folder / f"{name}.tex", entry.make(*frames))]
    drawing = make(name, *frames)
    written = [style.write(drawing, folder / f"{name}.{kind}") for kind in ("png", "pdf")]
    if entry.facts.get("dark"):
        written.append(style.write(drawing, folder / f"{name}-dark.png", dark=True))
    return written
