"""The trace: every session of an evaluated run as a page that opens from disk. ``write`` makes
``results/movies/<run>/trace/index.html`` with its data files; a browser needs neither server nor network.
"""

import html
import itertools
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

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
from crs_lib.report.page import fill, part, shell
from crs_lib.report.session import TITLE, SessionView, number, script

Key = tuple[str, str]  # model, session_id
_Plot = tuple[str, tuple[int, ...], str]
_Entry = tuple[Key, _Plot]
PAGE_SIZE = 10  # sessions in a data file


class _ScoredSession(NamedTuple):
    """A dialogue with its rows of the scored tables."""

    dialogue: Dialogue
    turns: list[dict[str, Any]]
    shifts: list[dict[str, Any]]
    session: dict[str, Any]
    judge: Mapping[str, Any] | None


class _RunFiles:
    """An evaluated run, opened for reading; RunError names what is missing or out of step."""

    def __init__(self, run: str, convention: str = "") -> None:
        self.run, self.convention = run, evaluate.convention_of(run, convention)
        self.folder = paths.run_folder(simulate.STUDY, run)
        self.scores = evaluate.folder_of(run, self.convention)
        results = evaluate.read(run, "results", self.convention)
        scores = [name for name in results if name in base.METRICS]
        numeric = results[scores].apply(pd.to_numeric, errors="coerce")
        self.session_metrics = [str(name) for name in numeric if numeric[name].notna().any()]
        self.sessions = {_key(row): row for row in _records(results)}
        self.models = list(dict.fromkeys(model for model, _ in self.sessions))
        shifts = figure_tables.read(run, "shifts", self.convention)
        self.types = sorted({str(kind) for kind in shifts["type"] if kind})
        by_session = itertools.groupby(sorted(_records(shifts), key=_key), key=_key)
        self._shifts = {key: list(rows) for key, rows in by_session}
        judged = runs.entry(simulate.STUDY, run, judge_records.STAGE).get("status") == "finished"
        records = judge_records.read_records(run) if judged else ()
        self._judged = {_key(row): row for row in records if not row["canary"]}

    def turn_metrics(self) -> list[str]:
        """The metrics that every turn has a score of, in the order of the table."""
        import pyarrow.parquet as pq

        path = self.scores / "turns.parquet"
        with safety.faults("a table of turns", path):
            schema = pq.read_schema(path)
        numeric = [name for name, kind in zip(schema.names, schema.types, strict=True) if kind == "double"]
        return [name for name in numeric if name in base.METRICS]

    def __iter__(self) -> Iterator[_ScoredSession]:
        """Every session, in the order of the run; memory stays flat. One without a reply has no turns."""
        rows = _turn_groups(self.scores / "turns.parquet")
        for dialogue in simulate.iter_dialogues(self.run):
            key = (dialogue.model_name, dialogue.session_id)
            found, turns = next(rows, (None, [])) if dialogue.pairs() else (key, [])
            if found != key or key not in self.sessions:
                again = f"python -m crs_lib run 04_evaluate -p run {self.run}"
                raise RunError(f"the scores of run {self.run!r} miss session {key}; score again: {again}")
            session, shifts = self.sessions[key], self._shifts.get(key, [])
            yield _ScoredSession(dialogue, turns, shifts, session, self._judged.get(key) or session)


def _turn_groups(path: Path) -> Iterator[tuple[Key, list[dict[str, Any]]]]:
    """The rows of each session, sessions in the order of the file."""
    import pyarrow.parquet as pq

    with safety.faults("a table of turns", path), pq.ParquetFile(path) as file:
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(4000))
        for key, group in itertools.groupby(rows, key=_key):
            yield key, list(group)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _key(row: Mapping[str, Any]) -> Key:
    return str(row["model"]), str(row["session_id"])


def _index(files: _RunFiles, view: SessionView, page_size: int, sessions: Sequence[_Entry]) -> dict[str, Any]:
    """The input of the page: what the run has, and its sessions; what all systems share is stored once."""
    looks, keys = style.looks(files.models), [key for key, _ in sessions]
    plots = {plot: place for place, plot in enumerate(dict.fromkeys(plot for _, plot in sessions))}
    return {
        "run": files.run, "convention": view.scorer.convention.name, "page_size": page_size,
        "models": [{"name": name, "colour": looks[name].colour} for name in files.models],
        "types": files.types,
        "fields": {name: dialogues.tint_place(name, TINTED) for name in (*view.catalog.fields, TITLE)},
        "turn_metrics": [_described(name) for name in view.metrics],
        "session_metrics": [_described(name) for name in files.session_metrics],
        "model": [files.models.index(model) for model, _ in keys], "id": [session for _, session in keys],
        "plot": [plots[plot] for _, plot in sessions], "plots": list(plots),
        "scores": {n: [number(files.sessions[key].get(n)) for key in keys] for n in files.session_metrics},
    }  # fmt: skip


def _plot(dialogue: Dialogue, types: Sequence[str]) -> _Plot:
    """The parts of a session that all systems share: goal, shifts, and the words that it is searched by."""
    kinds = tuple(types.index(str(e["type"])) for e in dialogue.shift_events if e.get("type"))
    words = {fold(str(value)) for e in dialogue.shift_events for value in _values(e)}
    return dialogue.true_genre or "", kinds, " ".join(sorted(filter(None, words)))


def _described(name: str) -> dict[str, Any]:
    """A metric as the page describes it: names, range, direction and source."""
    metric = base.get(name)
    return {
        "name": name, "short": metric.short, "low": number(metric.low), "high": number(metric.high),
        "direction": metric.direction, "source": metric.source, "headline": name in layout.HEADLINE,
    }  # fmt: skip


def _values(event: Mapping[str, Any]) -> list[Any]:
    """The searchable parts of a shift: constraints, values added and dropped, and the films in mind."""
    values = [v for key in ("wishes", "added", "dropped") for v in (event.get(key) or {}).values()]
    return [*values, *(event.get(key) or "" for key in ("from_anchor", "to_anchor", "bridge_value"))]


def write(run: str, convention: str = "", *, page_size: int = PAGE_SIZE) -> Path:
    """Write the trace of an evaluated run; returns its ``index.html``. Memory stays flat. The trace lies
    beside the scores of its convention. The folder appears when it is whole; an older trace stays until then.
    Raises RunError if the run has not been evaluated or its files are out of step.
    """
    files = _RunFiles(run, convention)
    with runs.only_one(files.folder):
        aside = files.scores / f".trace.{uuid.uuid4().hex[:8]}.part"
        try:
            (aside / "data").mkdir(parents=True)
            _write_data(files, aside / "data", page_size)
            (aside / "index.html").write_text(_page(run), encoding="utf-8", newline="\n")
            _replace(aside, files.scores / "trace")
        except OSError as error:
            told = f"could not write the trace: {error.strerror or error}; nothing changed"
            raise RunError(told) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return files.scores / "trace" / "index.html"


def _page(run: str) -> str:
    css = dialogues.tint_css() + part("tables.css") + part("trace.css")
    js = f"{part('session.js')}{part('trace.js')}crsTrace.browse();\n"
    body = fill(part("trace.html"), {"run": html.escape(run)})
    return shell(f"Trace of {run}", body, css, js, " 'strict-dynamic'; img-src data:")


def _replace(new: Path, old: Path) -> None:
    before = old.with_name(f".{old.name}.{uuid.uuid4().hex[:8]}.part")
    if old.exists():
        old.rename(before)
    new.rename(old)
    shutil.rmtree(before, ignore_errors=True)


def _write_data(files: _RunFiles, folder: Path, page_size: int) -> None:
    """Write the sessions page by page, with the films that they recommend by number; then the index."""
    scorer = Scorer(Grounder(evaluate.catalog_of(files.run)), conventions.get(files.convention))
    view = SessionView(scorer, files.turn_metrics())
    rest, known = iter(files), list[_Entry]()
    for page, batch in enumerate(iter(lambda: list(itertools.islice(rest, page_size)), [])):
        known += [(_key(one.session), _plot(one.dialogue, files.types)) for one in batch]
        sessions = [view.record(one.dialogue, one.turns, one.shifts, one.judge) for one in batch]
        turns = [turn for session in sessions for turn in session["turns"]]
        items = sorted({film["film"] for turn in turns for film in turn.get("films", ())})
        shown = {"sessions": sessions, "films": {str(item): view.film(item) for item in items}}
        (folder / f"page-{page:04d}.js").write_bytes(script("crsTrace.page", page, shown))
    (folder / "index.js").write_bytes(script("crsTrace.index", _index(files, view, page_size, known)))
