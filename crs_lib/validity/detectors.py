"""Shift detectors, held against the shifts that the simulator logged.

A detector sees a user's utterances so far and gives each a score: the higher, the more it takes the turn
for a shift. To add one, register a class here. Source: docs/validity.md, section 3.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.metrics import overlap, similarity

Floats = NDArray[np.float64]


class Detector(Protocol):
    """``usual`` is the threshold that the detector is used with: a score at or above it is an alarm."""

    usual: float

    def scores(self, texts: Sequence[str]) -> Floats: ...


DETECTORS: Registry[Detector] = Registry("detector")


def _against_last(rows: object, n: int) -> Floats:
    """1 - cosine of every text and the one before it; NaN for the first."""
    found = 1 - similarity.cosines(rows, range(1, n), range(n - 1))
    return np.concatenate([[math.nan], found])[:n]


@DETECTORS.register("similarity")
class Similarity:
    """The thesis's: one minus the TF-IDF cosine with the utterance before, in [0, 1]."""

    usual = 0.7  # an alarm below similarity 0.3

    def __init__(self, grounder: Grounder) -> None:
        self.space = similarity.TfidfSpace(item.plot or item.title for item in grounder.catalog.items)

    def scores(self, texts: Sequence[str]) -> Floats:
        """One minus cosine; 1 where either utterance has no word of the plots."""
        return _against_last(self.space.rows(texts), len(texts))


@DETECTORS.register("jaccard")
class Jaccard:
    """The thesis's on concepts: one minus their Jaccard overlap with the utterance before, in [0, 1]."""

    usual = 0.7

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder

    def scores(self, texts: Sequence[str]) -> Floats:
        """One minus Jaccard; 0 where neither utterance names a concept."""
        sets = self.grounder.ground(texts)
        gaps = [1 - overlap.jaccard(a, b, empty="one") for a, b in zip(sets[1:], sets, strict=False)]
        return np.array([math.nan, *gaps])[: len(texts)]


@DETECTORS.register("embedding", argument="an encoder", example="minilm")
class _Embedding:
    """One minus the cosine of sentence embeddings with the utterance before, in [0, 2]."""

    usual = 0.7

    def __init__(self, grounder: Grounder, argument: str = "minilm") -> None:
        self.space = similarity.EmbeddingSpace(argument)

    def scores(self, texts: Sequence[str]) -> Floats:
        """One minus cosine; raises InputError where the encoder is not installed."""
        return _against_last(self.space.rows(texts), len(texts))


@DETECTORS.register("new_value")
class _NewValue:
    """The share of an utterance's concepts that no earlier utterance named, in [0, 1]; 0 without concepts."""

    usual = 0.5

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder

    def scores(self, texts: Sequence[str]) -> Floats:
        """NaN for the first utterance: it cannot shift."""
        seen: set[int] = set()
        out = []
        for place, codes in enumerate(self.grounder.ground(texts)):
            share = len(codes - seen) / len(codes) if codes else 0.0
            out.append(share if place else math.nan)
            seen |= codes
        return np.array(out)


def run(names: Iterable[str], dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per detector, session and user turn from the second on: its score and whether it is a shift.

    Raises InputError for an unknown detector or a missing encoder.
    """
    made = {name: DETECTORS.create(name, grounder=grounder) for name in names}
    rows: list[pd.DataFrame] = []
    for dialogue in dialogues:
        pairs, shifts = dialogue.pairs(), set(dialogue.shift_turns())
        texts, turns = [pair.user.text for pair in pairs], [pair.turn for pair in pairs]
        for name, detector in made.items():
            frame = pd.DataFrame({"turn": turns, "score": detector.scores(texts)})
            session = f"{dialogue.model_name} {dialogue.session_id}"
            frame = frame.assign(detector=name, session=session, shift=frame["turn"].isin(shifts))
            rows.append(frame[frame["turn"] > 1])
    if not rows:
        raise InputError("no dialogue to detect shifts in; give at least one")
    return pd.concat(rows, ignore_index=True)[["detector", "session", "turn", "score", "shift"]]


def usual(names: Iterable[str]) -> dict[str, float]:
    """The threshold that each detector is used with."""
    return {name: float(getattr(DETECTORS.get(name).make, "usual", math.nan)) for name in names}


def quality(rows: pd.DataFrame, thresholds: dict[str, float]) -> pd.DataFrame:
    """One row per detector at its threshold: precision, recall, F1, AUC, alarm rate and delay.

    ``alarm_rate`` is the share of all turns that raise an alarm, ``shift_rate`` the share that are shifts.
    ``delay`` is the mean number of turns from a shift to the first alarm before the next shift, over the
    shifts that any alarm followed; ``found`` is the share of shifts with one. AUC needs no threshold.
    """
    out = []
    for name, mine in rows.groupby("detector", sort=False):
        alarm = mine["score"] >= thresholds[str(name)]
        hits = int((alarm & mine["shift"]).sum())
        precision, recall = _ratio(hits, int(alarm.sum())), _ratio(hits, int(mine["shift"].sum()))
        f1 = 2 * hits / max(1, int(alarm.sum()) + int(mine["shift"].sum()))
        delays = [d for _, one in mine.assign(alarm=alarm).groupby("session") for d in _delays(one)]
        seen = [d for d in delays if math.isfinite(d)]
        row = {"detector": name, "threshold": thresholds[str(name)], "precision": precision, "recall": recall}
        row |= {"f1": f1, "auc": stats.auc(mine["score"].to_numpy(), mine["shift"].to_numpy())}
        row |= {"alarm_rate": float(alarm.mean()), "shift_rate": float(mine["shift"].mean())}
        delay = float(np.mean(seen)) if seen else math.nan
        out.append(row | {"delay": delay, "found": _ratio(len(seen), len(delays)), "n": len(mine)})
    return pd.DataFrame(out)


def sweep(rows: pd.DataFrame, thresholds: Sequence[float]) -> pd.DataFrame:
    """:func:`quality` at each threshold, all detectors alike."""
    names = rows["detector"].unique()
    return pd.concat([quality(rows, dict.fromkeys(names, t)) for t in thresholds], ignore_index=True)


def _delays(session: pd.DataFrame) -> list[float]:
    """Turns from each shift of a session to the first alarm before the next one; NaN without any."""
    turns, alarms = session["turn"].to_numpy(), session["turn"].to_numpy()[session["alarm"].to_numpy()]
    starts = turns[session["shift"].to_numpy()].tolist()
    ends = [*starts[1:], math.inf][: len(starts)]
    out = []
    for start, end in zip(starts, ends, strict=True):
        after = alarms[(alarms >= start) & (alarms < end)]
        out.append(float(after[0] - start) if len(after) else math.nan)
    return out


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
