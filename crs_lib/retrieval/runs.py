"""Rankings: a hit, the k best of many scores, and TREC files of runs and of relevance judgments."""

import gzip
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import write_aside

if TYPE_CHECKING:
    from crs_lib.retrieval.store import Ids

N = TypeVar("N", int, float)
_RUN = "topic Q0 document rank score tag"
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


class Hit(NamedTuple):
    """A document id and its score; higher is better."""

    id: str
    score: float


Ranking: TypeAlias = Sequence[Hit]
Run: TypeAlias = dict[str, list[Hit]]
Qrels: TypeAlias = dict[str, dict[str, int]]


def ranked(scores: Mapping[str, float] | Iterable[tuple[str, float]], k: int | None = None) -> list[Hit]:
    """Hits in trec_eval's order, the first ``k`` of them, or all: by score as a 32-bit number descending,
    then by document id descending. The scores themselves stay as they are.
    """
    if isinstance(scores, Mapping):
        scores = scores.items()
    hits = [Hit(name, float(score)) for name, score in scores]
    hits.sort(key=lambda hit: hit.id, reverse=True)
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite, as in trec_eval
        singles = np.array([hit.score for hit in hits], dtype=float).astype(np.float32)
    order = np.argsort(-singles, kind="stable")
    return [hits[index] for index in order[:k]]


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


@safety.reader("a run")
def read_run(path: Path | str) -> Run:
    """The rankings of a run by topic (``topic Q0 doc rank score tag``), in the order of the file's topics;
    also ``.gz``. As in trec_eval the rank column is not believed (:func:`ranked`), so the order of the lines
    does not matter. Raises InputError naming the line for a wrong form, a score that is no finite number, or
    a document that stands twice under a topic.
    """
    scores = _by_topic(Path(path), _RUN, "score", float)
    return {topic: ranked(of_topic) for topic, of_topic in scores.items()}


class RunFolder(NamedTuple):
    """The runs of a folder by name, and the names of the files that are none."""

    runs: dict[str, Run]
    unread: list[str]


@safety.reader("run files")
def read_folder(folder: Path | str) -> RunFolder:
    """Every run of a folder by the file's name without its ending, sorted: each ``.run`` or ``.run.gz``, and
    whatever else begins like a run. Raises InputError for a broken run, and two files of one name.
    """
    folder = Path(folder)
    runs: dict[str, Run] = {}
    unread = []
    for path in sorted(folder.iterdir()):
        name = Path(path.name.removesuffix(".gz"))
        if path.name.startswith("."):
            continue
        if path.is_dir() or (name.suffix != ".run" and not _begins_like_a_run(path)):
            unread.append(path.name)
        elif name.stem in runs:
            raise InputError(f"{folder.name}: two files are called {name.stem!r}; rename or remove one")
        else:
            runs[name.stem] = read_run(path)
    return RunFolder(runs, unread)


def _begins_like_a_run(path: Path) -> bool:
    """Whether the first line has the columns of a run."""
    try:
        for _, cells in _rows(path):
            return len(cells) == len(_RUN.split()) and bool(_NUMBER.fullmatch(cells[4]))
    except (InputError, OSError, EOFError):
        return False
    return False


@safety.reader("judgments")
def read_qrels(path: Path | str) -> Qrels:
    """Grades by topic and document, also ``.gz``. Raises InputError naming the line for a wrong form or a
    double pair.
    """
    return _by_topic(Path(path), "topic 0 document grade", "grade", int)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not blank, with its number from 1."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                cells = line.decode("utf-8").removeprefix("\ufeff").split()
            except UnicodeDecodeError as error:
                raise InputError(f"{path.name}, line {number}: not UTF-8 ({error.reason})") from None
            if cells:
                yield number, cells


def _opened(path: Path) -> IO[bytes]:
    if path.suffix != ".gz":
        return path.open("rb")
    packed = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115  # the caller closes it
    return safety.unpacked(packed, path)


def _by_topic(path: Path, form: str, what: str, kind: Callable[[str], N]) -> dict[str, dict[str, N]]:
    """The numbers of a column (``what``) by topic (first column) and document (third)."""
    if not path.is_file():
        raise RunError(f"no file {paths.shown(path)}; expected lines of the form '{form}'")
    columns = form.split()
    numbers: dict[str, dict[str, N]] = {}
    for line, cells in _rows(path):
        where = f"{path.name}, line {line}"
        if len(cells) != len(columns):
            raise InputError(f"{where}: {len(cells)} columns; expected '{form}'")
        topic, _, document = cells[:3]
        of_topic = numbers.setdefault(topic, {})
        if document in of_topic:
            raise InputError(f"{where}: {document!r} stands twice under {topic!r}; remove one of the lines")
        of_topic[document] = _number(kind, f"{where}: {what}", cells[columns.index(what)])
    return numbers


def _number(kind: Callable[[str], N], what: str, text: str) -> N:
    """The number in a column; InputError for what is none, or not finite."""
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{what} {text!r} is no finite number; write it as 12.5 or 1.25e1")
    try:
        number = kind(text)
    except ValueError:
        raise InputError(f"{what} {text!r} is no whole number") from None
    if not math.isfinite(number):
        raise InputError(f"{what} {text!r} is no finite number; it is too large")
    return number


def write_run(path: Path | str, rankings: Mapping[str, Ranking], tag: str) -> int:
    """Write rankings as a run file, atomically; returns the number of lines. Scores read back to the same
    number, but equal ones are told apart (:func:`without_ties`). Raises InputError for a topic, id or tag
    that a column cannot hold (blank or empty).
    """
    with write_aside(Path(path)) as file:
        for topic, ranking in rankings.items():
            for rank, hit in enumerate(without_ties(ranking), start=1):
                cells = [topic, "Q0", hit.id, str(rank), repr(hit.score), tag]
                line = " ".join(cells)
                if line.split() != cells:
                    raise InputError(f"{cells!r} is no line of a run: no cell may be empty or hold blanks")
                file.write(line + "\n")
    return sum(map(len, rankings.values()))


def without_ties(ranking: Ranking) -> list[Hit]:
    """The hits in trec_eval's order; a score that equals the one before as a 32-bit number is lowered by the
    least step of such numbers, so that every program reads this order, however it breaks ties.
    """
    lowest = np.finfo(np.float32).min
    last = np.float32(math.inf)
    hits = []
    for hit in ranked(ranking):
        score = hit.score
        with np.errstate(over="ignore"):
            single = np.float32(score)
            if single >= last > lowest:
                single = np.nextafter(last, lowest)
                score = float(single)
        last = single
        hits.append(Hit(hit.id, score))
    return hits
