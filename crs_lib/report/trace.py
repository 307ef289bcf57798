"""The trace: every session of an evaluated run as a page that opens from disk, and one in JupyterLab.

``write`` makes ``results/movies/<run>/trace/index.html`` with its data files beside it; a browser needs no
server and no network. ``show`` is the same view of one session, for a notebook.
"""

import html
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crs_lib import evaluate, runs
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.registry import did_you_mean
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.report.files import RunFiles, ScoredSession
from crs_lib.report.index import Index
from crs_lib.report.page import fill, hashes, part
from crs_lib.report.session import SessionView, script

PAGE_SIZE = 10  # sessions in a data file


def write(run: str, convention: str = "", *, page_size: int = PAGE_SIZE) -> Path:
    """Write the trace of an evaluated run; returns its ``index.html``. Memory stays flat.

    The trace lies beside the scores of its convention. The folder appears when it is whole; an older trace
    stays until then. Raises RunError if the run has not been evaluated or its files are out of step.
    """
    files = RunFiles(run, convention)
    with runs.only_one(files.folder):
        aside = files.scores / f".trace.{uuid.uuid4().hex[:8]}.part"
        try:
            (aside / "data").mkdir(parents=True)
            _write_data(files, aside / "data", page_size)
            page = _page(run, "browse", "crsTrace.browse();")
            (aside / "index.html").write_text(page, encoding="utf-8", newline="\n")
            _replace(aside, files.scores / "trace")
        except OSError as error:
            raise RunError(
                f"could not write the trace: {error.strerror or error}; nothing changed"
            ) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return files.scores / "trace" / "index.html"


def _replace(new: Path, old: Path) -> None:
    before = old.with_name(f".{old.name}.{uuid.uuid4().hex[:8]}.old")
    if old.exists():
        old.rename(before)
    new.rename(old)
    shutil.rmtree(before, ignore_errors=True)


def _view(files: RunFiles) -> SessionView:
    rule = conventions.get(files.convention)
    return SessionView(Scorer(Grounder(evaluate.catalog_of(files.run)), rule), files.turn_metrics())


def _write_data(files: RunFiles, folder: Path, page_size: int) -> None:
    """Write the sessions page by page, then the index."""
    view = _view(files)
    index = Index(files, view.metrics, view.scorer.convention.name, page_size, view.catalog.fields)
    waiting: list[dict[str, Any]] = []
    for scored in files:
        index.add(scored)
        waiting.append(_record(view, scored))
        if len(index) % page_size == 0:
            _write_page(folder, len(index) // page_size - 1, waiting, view)
            waiting = []
    if waiting:
        _write_page(folder, len(index) // page_size, waiting, view)
    (folder / "index.js").write_bytes(script("crsTrace.index", index.data()))


def _record(view: SessionView, scored: ScoredSession) -> dict[str, Any]:
    return view.record(scored.dialogue, scored.turns, scored.shifts, scored.judge)


def _write_page(folder: Path, page: int, sessions: list[dict[str, Any]], view: SessionView) -> None:
    content = script("crsTrace.page", page, {"sessions": sessions, "films": _films(sessions, view)})
    (folder / f"page-{page:04d}.js").write_bytes(content)


def _films(sessions: Iterable[Mapping[str, Any]], view: SessionView) -> dict[str, Any]:
    """The films that these sessions recommend, by number."""
    items = {
        film["film"] for session in sessions for turn in session["turns"] for film in turn.get("films", ())
    }
    return {str(item): view.film(item) for item in sorted(items)}


def _page(run: str, mode: str, data: str) -> str:
    css = dialogue.tint_css() + part("tables.css") + part("trace.css")
    js = part("session.js") + part("trace.js")
    return fill(part("trace.html"), {
        "run": html.escape(run), "mode": mode, "css": css, "js": js, "data": data, "styles": hashes(css),
        "scripts": hashes(js, data),
    })  # fmt: skip


@dataclass(frozen=True)
class SessionPage:
    """One session for a notebook: JupyterLab draws the page, anything else prints a line."""

    model: str
    session: str
    turns: int
    page: str
    height: int

    def __repr__(self) -> str:
        return f"session {self.session} with {self.model}: {self.turns} turns"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, which neither sees the notebook nor is seen by it."""
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(repr(self))}" '
            f'style="width:100%;height:{self.height}px;border:1px solid #8884;border-radius:6px" '
            f'srcdoc="{html.escape(self.page)}"></iframe>'
        )


def show(run: str, model: str, session: str | int, *, height: int = 640) -> SessionPage:
    """One session of an evaluated run in the look of the trace; ``session`` is "00003" or 3.

    Raises InputError with a suggestion for an unknown model, or for a session that the run does not have;
    RunError as :func:`write`.
    """
    files = RunFiles(run)
    scored = _find(files, model, f"{session:05d}" if isinstance(session, int) else session)
    view = _view(files)
    index = Index(files, view.metrics, view.scorer.convention.name, 1, view.catalog.fields)
    index.add(scored)
    record = _record(view, scored)
    calls = script("crsTrace.index", index.data()) + script(
        "crsTrace.page", 0, {"sessions": [record], "films": _films([record], view)}
    )
    page = _page(run, "single", f"{calls.decode('utf-8')}crsTrace.start();")
    return SessionPage(model, record["id"], len(record["turns"]), page, height)


def _find(files: RunFiles, model: str, session: str) -> ScoredSession:
    """The session of a run, read from its files up to there."""
    run = files.run
    if model not in files.models:
        known = ", ".join(files.models)
        raise InputError(
            f"run {run!r} has no model {model!r}{did_you_mean(model, files.models)} (known: {known})"
        )
    if (model, session) not in files.sessions:
        ids = sorted(number for name, number in files.sessions if name == model)
        raise InputError(f"run {run!r} has no session {session!r} of {model!r}; it has {ids[0]} to {ids[-1]}")
    return next(s for s in files if (s.dialogue.model_name, s.dialogue.session_id) == (model, session))
