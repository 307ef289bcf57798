"""Conversations that people rated, as dialogues: CRSArena-Eval, AB-ReDial and USS (docs/revisions.md)."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pandas as pd

from crs_lib import data as datasets
from crs_lib.core import safety
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.errors import InputError, joined
from crs_lib.core.text import fold, one_line
from crs_lib.data.forms import RecordOrigin, dialogue_of
from crs_lib.metrics.records import mean_defined

RELEVANCE, INTEREST, SATISFACTION = "relevance", "interestingness", "satisfaction"
TURNS, DIALOGUES = "annotated_turns.csv", "annotated_dialogues.csv"  # the two tables of AB-ReDial
_SYSTEM = "human"  # where a person recommends
_RATED = {2: "1", 6: "2", 10: "3"}  # AB-ReDial's rated utterances, and their columns' numbers


class _Utterance(NamedTuple):
    """An utterance and the ratings that it was given, by construct."""

    speaker: str
    text: str
    ratings: Mapping[str, Sequence[float]]

    def record(self, index: int) -> dict[str, Any]:
        """The utterance in CRSArena-Eval's form, with the mean ratings that it has."""
        means = {name: float(np.mean(values)) for name, values in self.ratings.items() if values}
        role = "USER" if self.speaker == "USER" else "ASST"
        record: dict[str, Any] = {"turn_ind": index, "role": role, "utterance": self.text}
        if means:
            record["turn_level_aggregated"] = means
        return record


def _record(name: str, utterances: Sequence[_Utterance]) -> dict[str, Any]:
    """A conversation in CRSArena-Eval's form."""
    turns = [utterance.record(index) for index, utterance in enumerate(utterances)]
    return {"conv_id": name, "model_name": _SYSTEM, "dialogue": turns}


def _uss(path: Path) -> Iterator[dict[str, Any]]:
    """USS: blocks of tab-separated lines; its conversations have no names, so they get hashes of the text."""
    for block in safety.read_text(path).strip().split("\n\n"):
        texts = []
        utterances = []
        for line in block.splitlines():
            if not line.strip():
                continue
            row = line.split("\t")
            if row[1] != "OVERALL":
                ratings = [float(value) for value in row[3].split(",") if value]
                texts.append(row[1])
                utterances.append(_Utterance(row[0], unquote(row[1]), {SATISFACTION: ratings}))
        yield _record(hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12], utterances)


def _abredial(folder: Path) -> Iterator[dict[str, Any]]:
    """AB-ReDial: the whole conversations; the ratings of a turn belong to the utterance of the same words."""
    turns = _table(folder / TURNS, "relevance1")
    wholes = _table(folder / DIALOGUES, "dialogue-overall")
    strangers: list[str] = []
    n_matched = 0
    for name, rows in turns.groupby("ConvId", sort=False):
        if name not in set(wholes["ConvId"]):
            strangers += _ratings_by_text(rows)
    for name, rows in wholes.groupby("ConvId", sort=False):
        ratings = _ratings_by_text(turns[turns["ConvId"] == name])
        utterances = []
        for column, cell in rows.iloc[0].items():
            if not str(column).startswith("utterance"):
                continue
            speaker, text = _words(cell)
            if text:
                n_matched += fold(text) in ratings
                utterances.append(_Utterance(speaker, text, ratings.pop(fold(text), {})))
        strangers += ratings
        yield _record(str(name), utterances)
    joined(f"rated utterances of {TURNS} in {DIALOGUES}", n_matched, strangers, ())


def _ratings_by_text(rows: pd.DataFrame) -> dict[str, dict[str, list[float]]]:
    """The ratings of a conversation's rated utterances by their folded words; a row a rater."""
    ratings = {}
    for index, number in _RATED.items():
        cell = rows.iloc[0].get(f"utterance{index}", "") if len(rows) else ""
        text = fold(_words(cell)[1])
        if text:
            relevance = _numbers(rows, f"{RELEVANCE}{number}")
            ratings[text] = {RELEVANCE: relevance, INTEREST: _numbers(rows, f"{INTEREST}{number}")}
    return ratings


def _table(path: Path, column: str) -> pd.DataFrame:
    """A table of AB-ReDial; InputError naming the file and what is wrong with it."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").fillna("")
    except (OSError, ValueError) as error:
        reason = one_line(str(error), 200)
        raise InputError(f"{path.name}: cannot be read as a table ({reason})") from error
    for name in ("ConvId", "utterance0", column):
        if name not in table:
            raise InputError(f"{path.name}: no column {name!r}; expected AB-ReDial's {path.name}")
    return table


def _words(cell: str) -> tuple[str, str]:
    """Speaker and words of an utterance; in some rows a blank stands for the tab between them."""
    separator = "\t" if "\t" in cell.strip() else " "
    speaker, _, text = cell.strip().partition(separator)
    return speaker.strip(), text.strip()


def _numbers(rows: pd.DataFrame, column: str) -> list[float]:
    return [float(value) for value in rows.get(column, ()) if value]


_READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {"abredial": _abredial, "uss": _uss}


def conversations(name: str, path: Path | None = None) -> Iterator[Dialogue]:
    """The conversations of a rated set, by default from where the data set of this name lies.

    Raises RunError with the command that fetches it where it is not here, InputError for what is no such set.
    """
    path = path or datasets.locate(name)
    reader = _READERS.get(name)
    if reader is None:
        yield from datasets.readable(path, lambda broken: None)
        return
    try:
        for record in reader(path):
            yield dialogue_of(record, RecordOrigin(path.name))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = one_line(repr(error), 100)
        raise InputError(f"{path.name}: not the data set {name!r} ({reason})") from error


def parts(turn: Turn) -> Sequence[Mapping[str, Any]]:
    """The logs of the utterances that a turn was merged of; often one."""
    merged: Sequence[Mapping[str, Any]] = turn.meta.get("merged") or [turn.meta]
    return merged


def rating(turns: Sequence[Turn], construct: str) -> float:
    """The rating of a turn, NaN where there is none; of merged utterances the mean of their parts."""
    values = []
    for turn in turns:
        for part in parts(turn):
            value = (part.get("turn_level_aggregated") or {}).get(construct)
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.append(float(value))
    return mean_defined(values)


def share_of(conversation: str, n_parts: int) -> int:
    """The part, from 0, to which a conversation belongs: its name's SHA-256 modulo the number of parts."""
    return int(hashlib.sha256(conversation.encode()).hexdigest(), 16) % n_parts
