"""Shift detectors, held against the shifts that the simulator logged: precision, recall, F1, AUC.

A detector sees a user's utterances so far and scores each: the higher, the likelier a shift; one at or
above the fact ``usual`` is an alarm. The first two are the thesis's. The last figures stand in
docs/records/detectors.csv; of a finished run (seconds; sentence vectors need the extra embed):

    PYTHONPATH=. python -m benchmarks.detectors --run gate [--system tracker] [--encoder hashing]
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from operator import or_

import pandas as pd

from crs_lib import evaluate, simulate, stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.metrics import overlap
from crs_lib.thesis import similarity

_Gaps = Callable[[Sequence[str]], Iterable[float]]  # the score of every utterance but the first
DETECTORS: Registry[_Gaps] = Registry("detector")


def _in_space(space: similarity.SentenceSpace) -> _Gaps:
    """One minus the cosine with the utterance before, in a sentence space."""
    return lambda texts: (
        1 - similarity.cosines(space.rows(texts), range(1, len(texts)), range(len(texts) - 1))
    )


@DETECTORS.register("similarity", usual=0.7)
def _similarity(grounder: Grounder) -> _Gaps:
    """The thesis's: one minus the TF-IDF cosine with the utterance before, in [0, 1] (usual: below 0.3).
    1 where either utterance has no word of the plots.
    """
    return _in_space(similarity.TfidfSpace(item.plot or item.title for item in grounder.catalog.items))


@DETECTORS.register("jaccard", usual=0.7)
def _jaccard(grounder: Grounder) -> _Gaps:
    """The thesis's on concepts: one minus their Jaccard overlap with the utterance before, in [0, 1].
    0 where neither utterance names a concept.
    """
    return lambda texts: (1 - overlap.jaccard(a, b, empty="one") for a, b in pairwise(grounder.ground(texts)))


@DETECTORS.register("embedding", argument="an encoder", example="minilm", usual=0.7)
def _embedding(grounder: Grounder, argument: str) -> _Gaps:
    """One minus the cosine of sentence embeddings with the utterance before, in [0, 2].
    Raises InputError where the encoder is not installed.
    """
    return _in_space(similarity.EmbeddingSpace(argument))


@DETECTORS.register("new_value", usual=0.5)
def _new_value(grounder: Grounder) -> _Gaps:
    """The share of an utterance's concepts that no earlier utterance named, in [0, 1]; 0 without concepts."""

    def gaps(texts: Sequence[str]) -> Iterable[float]:
        sets = grounder.ground(texts)
        said = zip(sets[1:], accumulate(sets, or_), strict=False)
        return (len(codes - seen) / len(codes) if codes else 0.0 for codes, seen in said)

    return gaps


def scores(gaps: _Gaps, texts: Sequence[str]) -> list[float]:
    """The score of every utterance; NaN for the first: it cannot shift."""
    return [math.nan, *gaps(texts)] if texts else []


def run(names: Iterable[str], dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per detector, session and user turn from the second on: score and shift."""
    made = {name: DETECTORS.create(name, grounder=grounder) for name in names}
    rows = []
    for dialogue in dialogues:
        session, pairs = f"{dialogue.model_name} {dialogue.session_id}", dialogue.pairs()
        texts, shifts = [pair.user.text for pair in pairs], set(dialogue.shift_turns())
        for name, gaps in made.items():
            scored = zip(pairs, scores(gaps, texts), strict=True)
            rows += [(name, session, pair.turn, score, pair.turn in shifts) for pair, score in scored][1:]
    if not rows:
        raise InputError("no dialogue to detect shifts in; give at least one")
    return pd.DataFrame(rows, columns=["detector", "session", "turn", "score", "shift"])


def usual(names: Iterable[str]) -> dict[str, float]:
    """The threshold that each detector is used with."""
    return {name: float(DETECTORS.get(name).facts["usual"]) for name in names}


def quality(rows: pd.DataFrame, thresholds: dict[str, float]) -> pd.DataFrame:
    """One row per detector at its threshold: precision, recall, F1, AUC, ``alarm_rate`` (of all turns),
    ``shift_rate``, ``delay`` (mean turns to an alarm before the next shift), ``found`` (share with one).
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", default="gate")
    parser.add_argument("--system", default="tracker")
    parser.add_argument("--encoder", default="hashing")
    options = parser.parse_args()
    names = ["similarity", "jaccard", f"embedding:{options.encoder}", "new_value"]
    talks = [talk for talk in simulate.dialogues(options.run) if talk.model_name == options.system]
    alarms = run(names, talks, Grounder(evaluate.catalog_of(options.run)))
    print(quality(alarms, usual(names)).round(3).to_csv(index=False))


if __name__ == "__main__":
    main()
