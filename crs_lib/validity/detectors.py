"""Shift detectors, held against the shifts that the simulator logged. A detector sees a user's utterances so
far and scores each: the higher, the likelier a shift. To add one, register a class. Source: docs/validity.md,
section 3.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import or_

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


class _Detector:
    """``usual`` is the threshold that the detector is used with: a score at or above it is an alarm."""

    usual = 0.7

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder

    def scores(self, texts: Sequence[str]) -> Floats:
        """The score of every utterance; NaN for the first: it cannot shift."""
        return np.array([math.nan, *self.gaps(texts)] if len(texts) else [])

    def gaps(self, texts: Sequence[str]) -> Iterable[float]:
        """The score of every utterance but the first."""
        raise NotImplementedError


DETECTORS: Registry[_Detector] = Registry("detector")


class _InSpace(_Detector):
    """One minus the cosine with the utterance before, in a sentence space."""

    space: similarity.SentenceSpace

    def gaps(self, texts: Sequence[str]) -> Iterable[float]:
        return 1 - similarity.cosines(self.space.rows(texts), range(1, len(texts)), range(len(texts) - 1))


@DETECTORS.register("similarity")
class _Similarity(_InSpace):
    """The thesis's: one minus the TF-IDF cosine with the utterance before, in [0, 1] (usual: below 0.3).
    1 where either utterance has no word of the plots.
    """

    def __init__(self, grounder: Grounder) -> None:
        self.space = similarity.TfidfSpace(item.plot or item.title for item in grounder.catalog.items)


@DETECTORS.register("jaccard")
class _Jaccard(_Detector):
    """The thesis's on concepts: one minus their Jaccard overlap with the utterance before, in [0, 1].
    0 where neither utterance names a concept.
    """

    def gaps(self, texts: Sequence[str]) -> Iterable[float]:
        return (1 - overlap.jaccard(a, b, empty="one") for a, b in pairwise(self.grounder.ground(texts)))


@DETECTORS.register("embedding", argument="an encoder", example="minilm")
class _Embedding(_InSpace):
    """One minus the cosine of sentence embeddings with the utterance before, in [0, 2].
    Raises InputError where the encoder is not installed.
    """

    def __init__(self, grounder: Grounder, argument: str = "minilm") -> None:
        self.space = similarity.EmbeddingSpace(argument)


@DETECTORS.register("new_value")
class _NewValue(_Detector):
    """The share of an utterance's concepts that no earlier utterance named, in [0, 1]; 0 without concepts."""

    usual = 0.5

    def gaps(self, texts: Sequence[str]) -> Iterable[float]:
        sets = self.grounder.ground(texts)
        said = zip(sets[1:], accumulate(sets, or_), strict=False)
        return (len(codes - seen) / len(codes) if codes else 0.0 for codes, seen in said)


def run(names: Iterable[str], dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per detector, session and user turn from the second on: score and shift."""
    made = {name: DETECTORS.create(name, grounder=grounder) for name in names}
    rows = []
    for dialogue in dialogues:
        session, pairs = f"{dialogue.model_name} {dialogue.session_id}", dialogue.pairs()
        texts, shifts = [pair.user.text for pair in pairs], set(dialogue.shift_turns())
        for name, detector in made.items():
            scored = zip(pairs, detector.scores(texts), strict=True)
            rows += [(name, session, pair.turn, score, pair.turn in shifts) for pair, score in scored][1:]
    if not rows:
        raise InputError("no dialogue to detect shifts in; give at least one")
    return pd.DataFrame(rows, columns=["detector", "session", "turn", "score", "shift"])


def usual(names: Iterable[str]) -> dict[str, float]:
    """The threshold that each detector is used with."""
    return {name: float(getattr(DETECTORS.get(name).make, "usual", math.nan)) for name in names}


def quality(rows: pd.DataFrame, thresholds: dict[str, float]) -> pd.DataFrame:
    """One row per detector at its threshold: precision, recall, F1, AUC, ``alarm_rate`` (of all turns),
    ``shift_rate``, ``delay`` (mean turns to the first alarm before the next shift) and ``found``, the share
    with one.
    """
    out = []
    for name, mine in rows.groupby("detector", sort=False):
        threshold, shift = thresholds[str(name)], mine["shift"]
        alarm = mine["score"] >= threshold
        hits, alarms, shifts = (int(one.sum()) for one in (alarm & shift, alarm, shift))
        delays = _delays(mine.assign(alarmed=mine["turn"].where(alarm)))
        row = {"detector": name, "threshold": threshold}
        row |= {"precision": hits / (alarms or math.nan), "recall": hits / (shifts or math.nan)}
        row |= {"f1": 2 * hits / max(1, alarms + shifts)}
        row |= {"auc": stats.auc(mine["score"].to_numpy(), shift.to_numpy())}
        row |= {"alarm_rate": float(alarm.mean()), "shift_rate": float(shift.mean())}
        out.append(row | {"delay": delays.mean(), "found": delays.notna().mean(), "n": len(mine)})
    return pd.DataFrame(out)


def _delays(turns: pd.DataFrame) -> pd.Series:
    """Turns from each shift to the first alarm before the session's next shift; NaN without any."""
    since = turns.groupby("session")["shift"].cumsum()
    first = turns[since > 0].groupby(["session", since])[["turn", "alarmed"]].min()
    return first["alarmed"] - first["turn"]
