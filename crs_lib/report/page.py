"""The pages, style sheets and scripts in this room, and how they are put together."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import scipy.stats

from crs_lib import evaluate, figures
from crs_lib.core import prompts, tables
from crs_lib.core.errors import InputError
from crs_lib.figures import base as registered
from crs_lib.figures import style
from crs_lib.metrics.gain import ABLE
from crs_lib.stats.estimate import ALIKE, ENOUGH, FEW, REACH
from crs_lib.validity import labels
from crs_lib.validity.labels import AskConfig, Question

DPI = 150
_FOLDER = Path(__file__).resolve().parent
_LONG = 60  # characters


@cache
def part(name: str) -> str:
    """The text of a file in this room: a page, a style sheet or a script."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def fill(page: str, parts: Mapping[str, str]) -> str:
    """A page with each ``{{name}}`` replaced, in one pass; KeyError for a name without a part."""
    head, *rest = page.split("{{")
    out = [head]
    for piece in rest:
        name, _, after = piece.partition("}}")
        out += [parts[name], after]
    return "".join(out)


def hashes(*texts: str) -> str:
    """The texts of inline scripts or styles as sources of a Content-Security-Policy: their SHA-256."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def shell(title: str, body: str, css: str, js: str = "", allow: str = "") -> str:
    """A page around its body (HTML): its policy allows this style sheet and this script by checksum, what
    ``allow`` says behind the script's checksum, and nothing else.
    """
    known = hashes(js) if js else "'none'"
    policy = f"style-src {hashes(css)}; script-src {known}{allow}"
    slots = {"policy": policy, "title": html.escape(title), "css": css, "body": body}
    return fill(part("page.html"), slots | {"script": f"<script>{js}</script>\n" if js else ""})


def document(
    title: str, asked: str, lead: str, sections: Iterable[tuple[str, str, str]], *styles: str
) -> str:
    """A page without scripts, its contents first; sections are (title, anchor, HTML), those without HTML left
    out, ``lead`` is HTML. Its policy allows the ``styles`` of this room and nothing else, by checksum.
    """
    named = [(html.escape(name), anchor, body) for name, anchor, body in sections if body]
    entries = "".join(f'<li><a href="#{anchor}">{name}</a></li>' for name, anchor, _ in named)
    parts = [f'<section id="{at}"><h2>{name}</h2>\n{body}</section>' for name, at, body in named]
    heads = {"title": html.escape(title), "asked": html.escape(asked), "lead": lead, "contents": entries}
    body = fill(part("report.html"), heads | {"sections": "\n".join(parts)})
    css = "".join(map(part, ("tables.css", "report.css", *styles)))
    return shell(title, body, css, allow="; img-src data:")


def quiet(text: str) -> str:
    """A quiet paragraph."""
    return f'<p class="quiet">{html.escape(text)}</p>'


def bullets(told: Iterable[str]) -> str:
    """Sentences as a list."""
    return f"<ul>{''.join(f'<li>{html.escape(sentence)}</li>' for sentence in told)}</ul>"


def figure(name: str, *frames: pd.DataFrame) -> str:
    """A figure as a PNG inside the page, its caption as text form; NoDataError where it has no data."""
    heading = html.escape(registered.title(name))
    data = base64.b64encode(style.data(figures.make(name, *frames), "png", DPI)).decode("ascii")
    caption = html.escape(registered.caption(name, *frames))
    return (
        f'<figure id="figure-{name}"><h3>{heading}</h3>'
        f'<div class="wide" role="group" tabindex="0" aria-label="Figure: {heading}">'
        f'<img src="data:image/png;base64,{data}" alt="{caption}"></div></figure>'
    )


class Link(NamedTuple):
    """A table cell that leads somewhere: a text and a relative address."""

    text: str
    address: str


class Mean(NamedTuple):
    """A table cell with a mean and its interval under it."""

    mean: float
    low: float
    high: float


def _cell(value: Any) -> str:
    """A value as HTML: text escaped, floats with three decimals, a dash for what is missing."""
    if isinstance(value, Link):
        return f'<a href="{html.escape(value.address)}">{html.escape(value.text)}</a>'
    if isinstance(value, Mean):
        ends = f"{_cell(value.low)} to {_cell(value.high)}" if value.low == value.low else ""
        return f"{_cell(value.mean)}<small>{ends}</small>"
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return "–"
    if isinstance(value, float):
        return html.escape(f"{value:z.3f}".replace("-", "−"))
    return html.escape(str(value))


def table(frame: pd.DataFrame) -> str:
    """A frame as an HTML table: everything escaped, wide ones scroll; a sentence where it has no rows."""
    if frame.empty:
        return '<p class="quiet">Nothing to show.</p>'
    marks = [' class="value"' if pd.api.types.is_numeric_dtype(frame[name]) else "" for name in frame]
    names = [html.escape(str(name)) for name in frame]
    head = "".join(f'<th scope="col"{mark}>{name}</th>' for name, mark in zip(names, marks, strict=True))
    body = ""
    for row in frame.itertuples(index=False, name=None):
        cells = ""
        for one, mark in zip(row, marks, strict=True):
            wide = ' class="long"' if isinstance(one, str) and len(one) > _LONG else ""
            cells += f"<td{mark or wide}>{_cell(one)}</td>"
        body += f"<tr>{cells}</tr>"
    named = html.escape(f"Table: {', '.join(map(str, frame))}", quote=True)
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" role="group" tabindex="0" aria-label="{named}">{inner}</div>'


def write_questions(config: AskConfig, out: Path | None = None) -> Path:
    """Write the page that asks people about a run (no system is named, labels stay in the browser), and the
    run's key; returns the page. Raises InputError and RunError as :func:`crs_lib.validity.labels.sample`.
    """
    asked = labels.sample(config)
    path = out or labels.folder(config.run) / "annotate.html"
    labels.write_key(config.run, config.kind, asked)
    return tables.write_whole(path, question_page(_shown(asked, config.kind)))


def _shown(asked: Sequence[Question], kind: str) -> dict[str, Any]:
    """What a page of questions about a run shows: the question, its five answers, and the turns."""
    told = prompts.lists("movies/annotation")
    sides = [[[line for turn in side for line in _lines(turn)] for side in one.sides] for one in asked]
    shown = [{"id": q.id, "earlier": q.earlier, "sides": s} for q, s in zip(asked, sides, strict=True)]
    return {"page": labels.digest(asked), **told["page"], **told[kind], "questions": shown}


def _lines(turn: Mapping[str, Any]) -> list[dict[str, str]]:
    """A turn as the page draws it: who speaks, what is said, and the style of its box."""
    kind, who = ("user shift", f"Person – {turn['shift']}") if turn["shift"] else ("user", "Person")
    user = {"kind": kind, "who": who, "text": turn["user"]}
    return [user, {"kind": "system", "who": "Assistant", "text": turn["system"]}]


def question_page(data: Mapping[str, Any]) -> str:
    """One file for a browser: scripts and styles are allowed by checksum only, data never runs. ``data``: the
    digest of the page, title, text, scale (its first value is ``first``, else 1), ``before`` (the heading of
    earlier lines), ``words`` (what else is asked for), and questions: id, earlier, sides of lines (kind, who,
    text), and a text of their own where they have one.
    """
    return _scripted("annotate", part("annotate.css"), data)


def leaderboard(runs: Sequence[str], out: Path) -> Path:
    """Write a page of the systems of runs, ordered by shift cost; a run's ``results.jsonl`` is dropped there.
    Raises RunError for a run without scores and InputError for one without straight users.
    """
    shown = {run: _costs(run) for run in runs}
    quantiles = scipy.stats.t.ppf(0.975, range(1, 500)).round(4).tolist()
    rule = {"able": ABLE, "few": FEW, "enough": ENOUGH, "alike": ALIKE, "reach": REACH, "t": quantiles}
    data = {"title": "Who follows? A leaderboard", "runs": shown, "rule": rule}
    return tables.write_whole(out, _scripted("leaderboard", part("tables.css") + part("report.css"), data))


def _costs(run: str) -> list[list[Any]]:
    """A row a session: system, user, voice with the number of shifts, gain, cost, the catalogue's hash."""
    found = evaluate.read(run, "results")
    if "shift_cost" not in found or found["shift_cost"].isna().all():
        raise InputError(f"run {run!r} has no shift cost: it has no straight users")
    voices = found["voice"].astype(str) if "voice" in found else ""
    shifts = voices + found["detail"].map(lambda one: f" {one['n_shifts']}")
    rows = found[["model", "session_id"]].assign(users=shifts, **found[["straight_gain", "shift_cost"]])
    rows["films"] = found["input_hash"].str.extract(r"catalog (\w+)")[0]
    return list(json.loads(rows.to_json(orient="values")))


def _scripted(name: str, css: str, data: Mapping[str, Any]) -> str:
    """A page of this room with its script, its styles and its data."""
    inert = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing closes it
    held = f'<script type="application/json" id="data">{inert}</script>\n'
    return shell(data["title"], part(f"{name}.html") + held, css, part(f"{name}.js"))
