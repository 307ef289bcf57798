"""TREC files: runs (``topic Q0 doc rank score tag``) and relevance judgments (``topic 0 doc grade``)."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import write_aside
from crs_lib.retrieval.hits import Hit, Ranking, ranked

Run: TypeAlias = dict[str, list[Hit]]
Qrels: TypeAlias = dict[str, dict[str, int]]


def _rows(path: Path, columns: int, form: str) -> Iterator[tuple[int, list[str]]]:
    if not path.is_file():
        raise RunError(f"no file {paths.shown(path)}; expected lines of the form '{form}'")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                parts = line.decode("utf-8").removeprefix("\ufeff").split()
            except UnicodeDecodeError as error:
                raise InputError(f"{path.name}, line {number}: not UTF-8 ({error.reason})") from error
            if not parts:
                continue
            if len(parts) != columns:
                raise InputError(f"{path.name}, line {number}: {len(parts)} columns; expected '{form}'")
            yield number, parts


def read_run(path: Path) -> Run:
    """The rankings of a run by topic, in the order of the file's topics.

    As in trec_eval the rank column is not believed: hits are ordered by score descending, then document
    id ascending, so the order of the lines does not matter. Raises InputError naming the line for a
    wrong form, a score that is no finite number, or a document that stands twice under a topic.
    """
    found: dict[str, dict[str, float]] = {}
    for number, (topic, _, document, _, text, _) in _rows(path, 6, "topic Q0 document rank score tag"):
        scores = found.setdefault(topic, {})
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise InputError(f"{path.name}, line {number}: score {text!r} is no finite number")
        if document in scores:
            raise InputError(f"{path.name}, line {number}: {document!r} stands twice under {topic!r}")
        scores[document] = score
    return {topic: ranked(scores) for topic, scores in found.items()}


def write_run(path: Path, rankings: Mapping[str, Ranking], tag: str) -> int:
    """Write rankings as a run file, atomically; returns the number of lines.

    Scores are written so that they read back to the same number. Raises InputError for a topic, id or
    tag that a column cannot hold (blank or empty).
    """
    lines = 0
    with write_aside(path) as file:
        for topic, ranking in rankings.items():
            for rank, hit in enumerate(ranked(ranking), start=1):
                cells = (topic, "Q0", hit.id, str(rank), repr(float(hit.score)), tag)
                line = " ".join(cells)
                if tuple(line.split()) != cells:
                    raise InputError(
                        f"{cells!r} cannot be a line of a run: no cell may be empty or hold blanks"
                    )
                file.write(line + "\n")
                lines += 1
    return lines


def read_qrels(path: Path) -> Qrels:
    """Grades by topic and document. Raises InputError naming the line for a wrong form or a double pair."""
    found: Qrels = {}
    for number, (topic, _, document, text) in _rows(path, 4, "topic 0 document grade"):
        grades = found.setdefault(topic, {})
        try:
            grade = int(text)
        except ValueError:
            raise InputError(f"{path.name}, line {number}: grade {text!r} is no whole number") from None
        if document in grades:
            raise InputError(f"{path.name}, line {number}: {document!r} is judged twice under {topic!r}")
        grades[document] = grade
    return found


def write_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> int:
    """Write judgments, tab-separated, atomically; returns the number of lines."""
    rows = [(topic, document, grade) for topic, grades in qrels.items() for document, grade in grades.items()]
    with write_aside(path) as file:
        file.writelines(f"{topic}\t0\t{document}\t{grade}\n" for topic, document, grade in rows)
    return len(rows)
