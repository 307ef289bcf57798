"""Rankings: a hit, the k best of many scores, and TREC files of runs and of relevance judgments."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import write_aside

if TYPE_CHECKING:
    from crs_lib.retrieval.store import Ids

N = TypeVar("N", int, float)


class Hit(NamedTuple):
    """A document id and its score; higher is better."""

    id: str
    score: float


Ranking: TypeAlias = Sequence[Hit]
Run: TypeAlias = dict[str, list[Hit]]
Qrels: TypeAlias = dict[str, dict[str, int]]


def ranked(scores: Mapping[str, float] | Iterable[tuple[str, float]], k: int | None = None) -> list[Hit]:
    """Hits by score descending, equal scores by id ascending; the first ``k`` of them, or all."""
    if isinstance(scores, Mapping):
        scores = scores.items()
    hits = [Hit(name, float(score)) for name, score in scores]
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return hits[:k]


def named(ids: "Ids", indices: NDArray[np.intp], scores: NDArray[np.float32]) -> list[Hit]:
    """Hits of document numbers: the order is kept."""
    hits = []
    for index, score in zip(indices.tolist(), scores.tolist(), strict=True):
        hits.append(Hit(ids[index], score))
    return hits


class Top(NamedTuple):
    """Document indices and their scores, best first; equal scores in the order of the index."""

    indices: NDArray[np.intp]
    scores: NDArray[np.float32]


def top_k(scores: NDArray[np.float32], k: int, *, above: float = 0.0) -> Top:
    """The ``k`` highest scores strictly above ``above``, score descending, then index ascending. Fewer than
    ``k`` come back where fewer qualify; NaN does not. Raises InputError for ``k`` below 1.
    """
    if k < 1:
        raise InputError(f"k is {k}; ask for at least one document")
    candidates = np.flatnonzero(scores > above)
    if k < len(candidates):
        values = scores[candidates]
        candidates = candidates[values >= np.partition(values, -k)[-k]]
    order = np.lexsort((candidates, -scores[candidates]))
    best = candidates[order[:k]]
    return Top(best, scores[best])


def read_run(path: Path) -> Run:
    """The rankings of a run by topic (``topic Q0 doc rank score tag``), in the order of the file's topics. As
    in trec_eval the rank column is not believed: hits are ordered by score descending, then document id
    ascending, so the order of the lines does not matter. Raises InputError naming the line for a wrong form,
    a score that is no finite number, or a document that stands twice under a topic.
    """
    scores = _by_topic(path, "topic Q0 document rank score tag", "score", float)
    return {topic: ranked(of_topic) for topic, of_topic in scores.items()}


def read_qrels(path: Path) -> Qrels:
    """Grades by topic and document. Raises InputError naming the line for a wrong form or a double pair."""
    return _by_topic(path, "topic 0 document grade", "grade", int)


def _by_topic(path: Path, form: str, what: str, kind: Callable[[str], N]) -> dict[str, dict[str, N]]:
    """The numbers of a column (``what``) by topic (first column) and document (third)."""
    if not path.is_file():
        raise RunError(f"no file {paths.shown(path)}; expected lines of the form '{form}'")
    columns = form.split()
    numbers: dict[str, dict[str, N]] = {}
    with path.open("rb") as file:
        for position, line in enumerate(file, start=1):
            try:
                cells = line.decode("utf-8").removeprefix("\ufeff").split()
                if not cells:
                    continue
                if len(cells) != len(columns):
                    raise InputError(f"{len(cells)} columns; expected '{form}'")
                topic, _, document = cells[:3]
                of_topic = numbers.setdefault(topic, {})
                if document in of_topic:
                    raise InputError(f"{document!r} stands twice under {topic!r}; remove one of the lines")
                of_topic[document] = _number(kind, what, cells[columns.index(what)])
            except UnicodeDecodeError as error:
                raise InputError(f"{path.name}, line {position}: not UTF-8 ({error.reason})") from None
            except InputError as error:
                raise InputError(f"{path.name}, line {position}: {error}") from None
    return numbers


def _number(kind: Callable[[str], N], what: str, text: str) -> N:
    """The number in a column; InputError for what is none, or not finite."""
    with suppress(ValueError):
        number = kind(text)
        if math.isfinite(number):
            return number
    raise InputError(f"{what} {text!r} is no finite number of its kind")


def write_run(path: Path, rankings: Mapping[str, Ranking], tag: str) -> int:
    """Write rankings as a run file, atomically; returns the number of lines. Scores are written so that they
    read back to the same number. Raises InputError for a topic, id or tag that a column cannot hold (blank or
    empty).
    """
    with write_aside(path) as file:
        for topic, ranking in rankings.items():
            for rank, hit in enumerate(ranked(ranking), start=1):
                score = repr(float(hit.score))
                cells = [topic, "Q0", hit.id, str(rank), score, tag]
                line = " ".join(cells)
                if line.split() != cells:
                    raise InputError(f"{cells!r} is no line of a run: no cell may be empty or hold blanks")
                file.write(line + "\n")
    return sum(map(len, rankings.values()))
