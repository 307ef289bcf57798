"""The trace: every session of an evaluated run as a page that opens from disk.

``write`` makes ``results/movies/<run>/trace/index.html`` with its data files; a browser needs neither server
nor network.
"""

import itertools
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from crs_lib import evaluate, runs, simulate
from crs_lib.catalog.fields import TINTED
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import dialogue as dialogues
from crs_lib.core import paths, safety
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.core.text import fold
from crs_lib.evaluate.scorer import Scorer
from crs_lib.figures import layout, style
from crs_lib.judge import run as judge_records
from crs_lib.metrics import base, conventions
from crs_lib.report import figure_tables
from crs_lib.report.page import read_part, render
from crs_lib.report.session import TITLE, SessionView, number, script

PAGE_SIZE = 10  # sessions in a data file
_BATCH = 4000  # rows of turns read at once
_STYLES = ("tables.css", "trace.css")

Row = dict[str, Any]


class Key(NamedTuple):
    """What a session is told by."""

    model: str
    session_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Key":
        """The key of a scored row."""
        return cls(str(row["model"]), str(row["session_id"]))


class ScoredSession(NamedTuple):
    """A dialogue with its rows of the scored tables."""

    key: Key
    dialogue: Dialogue
    turns: list[Row]
    shifts: list[Row]
    judge: Mapping[str, Any]


class Plot(NamedTuple):
    """The parts of a session that all systems share: goal, shifts, and the words that it is searched by."""

    genre: str
    shifts: tuple[int, ...]
    words: str


class RunFiles:
    """An evaluated run, opened for reading; RunError names what is missing or out of step."""

    def __init__(self, run: str, convention: str = "") -> None:
        self.run = run
        self.convention = evaluate.convention_of(run, convention)
        self.folder = paths.run_folder(simulate.STUDY, run)
        self.scores = evaluate.folder_of(run, self.convention)
        results = evaluate.read(run, "results", self.convention)
        self.session_metrics = _scored_columns(results)
        self.sessions = {Key.of(row): row for row in _records(results)}
        self.models = list(dict.fromkeys(key.model for key in self.sessions))
        shifts = figure_tables.read(run, "shifts", self.convention)
        self.types = sorted(set(shifts["type"].dropna().astype(str)) - {""})
        self._shifts: dict[Key, list[Row]] = {}
        for row in _records(shifts):
            self._shifts.setdefault(Key.of(row), []).append(row)
        self._judged: dict[Key, Mapping[str, Any]] = {}
        if simulate.run_named(run).entry(judge_records.STAGE).get("status") == "finished":
            for record in judge_records.read_records(run):
                if not record["canary"]:
                    self._judged[Key.of(record)] = record

    def turn_metrics(self) -> list[str]:
        """The metrics that every turn has a score of, in the order of the table."""
        import pyarrow.parquet as pq

        path = self.scores / "turns.parquet"
        with safety.faults("a table of turns", path):
            schema = pq.read_schema(path)
        names = []
        for name, kind in zip(schema.names, schema.types, strict=True):
            if kind == "double" and name in base.METRICS:
                names.append(name)
        return names

    def __iter__(self) -> Iterator[ScoredSession]:
        """Every session, in the order of the run; memory stays flat. One without a reply has no turns."""
        rows = _turn_groups(self.scores / "turns.parquet")
        for dialogue in simulate.iter_dialogues(self.run):
            key = Key(dialogue.model_name, dialogue.session_id)
            scored: Key | None = key
            turns = list[Row]()
            if dialogue.pairs():
                scored, turns = next(rows, (None, []))
            if scored != key or key not in self.sessions:
                again = f"python -m crs_lib run 04_evaluate -p run {self.run}"
                session = tuple(key)
                raise RunError(f"the scores of run {self.run!r} miss session {session}; score again: {again}")
            judge = self._judged.get(key) or self.sessions[key]
            yield ScoredSession(key, dialogue, turns, self._shifts.get(key, []), judge)


def _scored_columns(results: pd.DataFrame) -> list[str]:
    """The metrics that any session has a score of."""
    names = []
    for name in results:
        if name in base.METRICS and pd.to_numeric(results[name], errors="coerce").notna().any():
            names.append(str(name))
    return names


def _turn_groups(path: Path) -> Iterator[tuple[Key | None, list[Row]]]:
    """The rows of each session, sessions in the order of the file."""
    import pyarrow.parquet as pq

    with safety.faults("a table of turns", path), pq.ParquetFile(path) as file:
        batches = (batch.to_pylist() for batch in file.iter_batches(_BATCH))
        for key, rows in itertools.groupby(itertools.chain.from_iterable(batches), key=Key.of):
            yield key, list(rows)


def _records(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame."""
    rows: list[Any] = frame.to_dict("records")
    return rows


def _plot_of(dialogue: Dialogue, types: Sequence[str]) -> Plot:
    """The plot of a session; shifts are numbers of ``types``."""
    kinds = []
    words = set[str]()
    for event in dialogue.shift_events:
        if event.get("type"):
            kinds.append(types.index(str(event["type"])))
        for value in _searched(event):
            words.add(fold(str(value)))
    words.discard("")
    return Plot(dialogue.true_genre or "", tuple(kinds), " ".join(sorted(words)))


def _searched(event: Mapping[str, Any]) -> list[Any]:
    """The searchable parts of a shift: constraints, values added and dropped, and the films in mind."""
    values: list[Any] = []
    for name in ("wishes", "added", "dropped"):
        values += (event.get(name) or {}).values()
    for name in ("from_anchor", "to_anchor", "bridge_value"):
        values.append(event.get(name) or "")
    return values


def index_of(files: RunFiles, view: SessionView, page_size: int, plots: Mapping[Key, Plot]) -> Row:
    """The input of the page: what the run has, and its sessions; what all systems share is stored once."""
    distinct: dict[Plot, int] = {}
    models: list[int] = []
    ids: list[str] = []
    numbers: list[int] = []
    for key, plot in plots.items():
        models.append(files.models.index(key.model))
        ids.append(key.session_id)
        numbers.append(distinct.setdefault(plot, len(distinct)))
    scores = {}
    for name in files.session_metrics:
        scores[name] = [number(files.sessions[key].get(name)) for key in plots]
    index: Row = {"run": files.run, "convention": view.scorer.convention.name, "page_size": page_size}
    looks = style.looks(files.models)
    index["models"] = [{"name": name, "colour": looks[name].colour} for name in files.models]
    index["types"] = files.types
    fields = (*view.catalog.fields, TITLE)
    index["fields"] = {name: dialogues.tint_place(name, TINTED) for name in fields}
    index["turn_metrics"] = list(map(_described, view.metrics))
    index["session_metrics"] = list(map(_described, files.session_metrics))
    index["model"] = models
    index["id"] = ids
    index["plot"] = numbers
    index["plots"] = list(distinct)
    index["scores"] = scores
    return index


def _described(name: str) -> Row:
    """A metric as the page describes it: names, range, direction and source."""
    metric = base.get(name)
    facts: Row = {"name": name, "short": metric.short, "low": number(metric.low), "high": number(metric.high)}
    facts["direction"] = metric.direction
    facts["source"] = metric.source
    facts["headline"] = name in layout.HEADLINE
    return facts


def write(run: str, convention: str = "", *, page_size: int = PAGE_SIZE) -> Path:
    """Write the trace of an evaluated run; returns its ``index.html``.

    Memory stays flat. The trace lies beside the scores of its convention. The folder appears when it is
    whole; an older trace stays until then. Raises RunError if the run has not been evaluated or its files are
    out of step.
    """
    files = RunFiles(run, convention)
    with runs.only_one(files.folder):
        aside = files.scores / f".trace.{uuid.uuid4().hex[:8]}.part"
        try:
            (aside / "data").mkdir(parents=True)
            _write_data(files, aside / "data", page_size)
            (aside / "index.html").write_text(_page(run), encoding="utf-8", newline="\n")
            _replace(aside, files.scores / "trace")
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"could not write the trace: {reason}; nothing changed") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return files.scores / "trace" / "index.html"


def _page(run: str) -> str:
    script = read_part("session.js") + read_part("trace.js") + Markup("crsTrace.browse();\n")
    policy = {"css_first": Markup(dialogues.tint_css()), "allow": " 'strict-dynamic'; img-src data:"}
    return render("trace.html", f"Trace of {run}", _STYLES, script=script, run=run, **policy)


def _replace(new: Path, old: Path) -> None:
    before = old.with_name(f".{old.name}.{uuid.uuid4().hex[:8]}.part")
    if old.exists():
        old.rename(before)
    new.rename(old)
    shutil.rmtree(before, ignore_errors=True)


def _write_data(files: RunFiles, folder: Path, page_size: int) -> None:
    """Write the sessions page by page, with the films that they recommend by number; then the index."""
    scorer = Scorer(Grounder(evaluate.catalog_of(files.run)), conventions.get(files.convention))
    view = SessionView(scorer, files.turn_metrics())
    plots: dict[Key, Plot] = {}
    sessions = iter(files)
    for page in itertools.count():
        batch = list(itertools.islice(sessions, page_size))
        if not batch:
            break
        for session in batch:
            plots[session.key] = _plot_of(session.dialogue, files.types)
        (folder / f"page-{page:04d}.js").write_bytes(script("crsTrace.page", page, _page_data(view, batch)))
    index = index_of(files, view, page_size, plots)
    (folder / "index.js").write_bytes(script("crsTrace.index", index))


def _page_data(view: SessionView, batch: Sequence[ScoredSession]) -> Row:
    """The records of some sessions, and the films that occur in them."""
    records = []
    items = set[int]()
    for session in batch:
        record = view.record(session.dialogue, session.turns, session.shifts, session.judge)
        records.append(record)
        for turn in record["turns"]:
            items.update(film["film"] for film in turn.get("films", ()))
    films = {str(item): view.film(item) for item in sorted(items)}
    return {"sessions": records, "films": films}
