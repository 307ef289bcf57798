"""The page that asks people about a run: one self-contained file for a browser, no server, no network.

Labels stay in the browser until they are exported; the page names no system
(:mod:`crs_lib.validity.labels`).
"""

import json
from collections.abc import Sequence
from pathlib import Path

from crs_lib.core import prompts, tables
from crs_lib.report.page import fill, hashes, part
from crs_lib.validity import labels
from crs_lib.validity.labels import AskConfig, Question


def write(config: AskConfig, out: Path | None = None) -> Path:
    """Write the page and the run's key; returns the page, by default in the run's folder.

    Raises InputError and RunError as :func:`crs_lib.validity.labels.sample`.
    """
    asked = labels.sample(config)
    path = out or labels.folder(config.run) / "annotate.html"
    labels.write_key(config.run, config.kind, asked)
    return tables.write_whole(path, _page(asked, config.kind))


def _page(asked: Sequence[Question], kind: str) -> str:
    """The page: scripts and styles are allowed by checksum only, data is text that nothing executes."""
    css, js = part("annotate.css"), part("annotate.js")
    shown = [{"id": one.id, "earlier": one.earlier, "sides": one.sides} for one in asked]
    scale = prompts.lists("movies/annotation")[kind]  # the question, and its five answers
    data = {"page": labels.digest(asked), **scale, "questions": shown}
    inert = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing can close its element
    parts = {"css": css, "js": js, "css_hash": hashes(css), "js_hash": hashes(js), "data": inert}
    return fill(part("annotate.html"), parts)
