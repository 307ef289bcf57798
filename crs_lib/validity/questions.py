"""The page that asks people about a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core import prompts, tables
from crs_lib.report import page
from crs_lib.validity import labels
from crs_lib.validity.labels import AskConfig, Question


def write_page(config: AskConfig, out: Path | None = None) -> Path:
    """Write the page that asks people about a run, and the run's key; returns the page.

    No system is named, and labels stay in the browser. Raises InputError and RunError as
    :func:`crs_lib.validity.labels.sample`.
    """
    questions = labels.sample(config)
    path = out or labels.folder(config.run) / "annotate.html"
    labels.write_key(config.run, config.kind, questions)
    return tables.write_whole(path, page.question_page(page_data(questions, config.kind)))


def page_data(questions: Sequence[Question], kind: str) -> dict[str, Any]:
    """What a page of questions about a run shows: the question, its five answers, and the turns."""
    texts = prompts.lists("movies/annotation")
    shown = []
    for question in questions:
        sides = [_lines(side) for side in question.sides]
        shown.append({"id": question.id, "earlier": question.earlier, "sides": sides})
    return {"page": labels.digest(questions), **texts["page"], **texts[kind], "questions": shown}


def _lines(side: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The turns of a side as the page draws them: who speaks, what is said, and the style of the box."""
    lines = []
    for turn in side:
        user = {"kind": "user", "who": "Person", "text": turn["user"]}
        if turn["shift"]:
            user.update(kind="user shift", who=f"Person – {turn['shift']}")
        lines += [user, {"kind": "system", "who": "Assistant", "text": turn["system"]}]
    return lines
