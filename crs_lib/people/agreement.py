"""Agreement of scores with human ratings, and the run file of CRSArena-Eval.

Ratings are read where the dialogues carry them; everything but the agreement works without. Sources:
docs/validity.md, sections 4 and 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core import rng
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.grounding.grounder import Grounder
from crs_lib.people import head, scores
from crs_lib.people.head import Head

Floats = NDArray[np.float64]
SCORE, HEAD, RATING, OVERALL = "heard_adaptation", "learned_head", "relevance", "dialogue_overall"
BASELINES = ("n_words", "n_films")
_EXACT = 8  # systems up to which every permutation is tried


def rate(dialogues: Sequence[Dialogue], grounder: Grounder, head: Head | None = None) -> pd.DataFrame:
    """One row per reply: our scores, the human rating where there is one (else null), the dialogue's rating.

    With a ``head`` its prediction stands beside them as ``learned_head``. InputError where no reply is.
    """
    if not any(dialogue.pairs() for dialogue in dialogues):
        raise InputError("no reply to score; give at least one conversation in which the system answers")
    rows = pd.DataFrame([row for scored in scores.score(dialogues, grounder) for row in scored])
    turn, whole = _ratings(dialogues)
    rows[RATING] = pd.array(
        [turn.get(key) for key in zip(rows["conv_id"], rows["turn"], strict=True)], "Float64"
    )
    rows[OVERALL] = pd.array([whole.get(conversation) for conversation in rows["conv_id"]], "Float64")
    rows = rows.astype({RATING: float, OVERALL: float})
    if head is not None:
        rows[HEAD] = head.predict(head_model.features(rows))
    return rows


def _ratings(
    dialogues: Iterable[Dialogue],
) -> tuple[dict[tuple[str, int], float | None], dict[str, float | None]]:
    """Ratings of replies and of whole dialogues; of a merged reply the mean of its parts."""
    turns: dict[tuple[str, int], float | None] = {}
    whole: dict[str, float | None] = {}
    for dialogue in dialogues:
        levels = (dialogue.extra.get("annotations") or {}).get("dial_level_aggregated") or {}
        whole[dialogue.session_id] = levels.get(OVERALL)
        for pair in dialogue.pairs():
            parts = pair.system.meta.get("merged") or [pair.system.meta]
            given = [(part.get("turn_level_aggregated") or {}).get(RATING) for part in parts]
            known = [float(value) for value in given if value is not None]
            turns[dialogue.session_id, pair.turn] = sum(known) / len(known) if known else None
    return turns, whole


def per_dialogue(rows: pd.DataFrame, scores: Sequence[str] = (SCORE,)) -> pd.DataFrame:
    """One row per dialogue: the mean of each score over its replies, and its ratings."""
    names = [*scores, *BASELINES, RATING]
    table = rows.groupby(["system", "conv_id"], sort=False)[names].mean().reset_index()
    return table.assign(
        **{OVERALL: rows.groupby(["system", "conv_id"], sort=False)[OVERALL].first().to_numpy()}
    )


def agreement(rows: pd.DataFrame, scores: Sequence[str] = (SCORE,)) -> pd.DataFrame:
    """Pearson and Spearman of each score with human ratings, one row per score and level.

    Levels: "reply, wish known", "reply" (fallback included), "reply, within systems" (mean over systems,
    weighted by their replies), "dialogue" (with the overall rating), "system" (means of both; p is exact,
    over all permutations of up to eight systems). ``partial`` is Spearman given length and number of
    films; ``coverage`` the share of rated rows with a score. Raises InputError without ratings.
    """
    if not rows[RATING].notna().any():
        raise InputError("no reply carries a human rating; agreement needs turn_level_aggregated.relevance")
    talks = per_dialogue(rows, scores)
    systems = talks.groupby("system")[[*scores, OVERALL]].mean().reset_index()
    out = []
    for name in scores:
        out.append(_row(name, "reply, wish known", rows[rows["defined"] == 1], RATING, BASELINES))
        out.append(_row(name, "reply", rows, RATING, BASELINES))
        out.append(_within(name, rows))
        out.append(_row(name, "dialogue", talks, OVERALL, BASELINES))
        out.append(
            _row(name, "system", systems, OVERALL) | {"p_exact": exact_p(systems[name], systems[OVERALL])}
        )
    return pd.DataFrame(out)


def _row(
    score: str, level: str, frame: pd.DataFrame, rating: str, given: Sequence[str] = ()
) -> dict[str, Any]:
    rated = frame[frame[rating].notna()]
    both = rated[rated[score].notna()]
    x, y = both[score].to_numpy(float), both[rating].to_numpy(float)
    row = {"score": score, "level": level, "n": len(both), "coverage": len(both) / max(1, len(rated))}
    row |= {"pearson": correlation(x, y), "spearman": spearman(x, y)}
    return row | {"partial": partial(x, y, both[list(given)].to_numpy(float)) if given else np.nan}


def _within(score: str, rows: pd.DataFrame) -> dict[str, Any]:
    """The mean of the systems' own correlations, weighted by their replies."""
    parts = [_row(score, "", part, RATING) for _, part in rows.groupby("system")]
    parts = [part for part in parts if np.isfinite(part["spearman"])]
    weight = np.array([part["n"] for part in parts], dtype=float)
    row: dict[str, Any] = {"score": score, "level": "reply, within systems", "n": int(weight.sum())}
    for name in ("coverage", "pearson", "spearman"):
        values = np.array([part[name] for part in parts])
        row[name] = float(weight @ values / weight.sum()) if len(parts) else np.nan
    return row | {"partial": np.nan}


def correlation(x: Floats, y: Floats) -> float:
    """Pearson's correlation in [-1, 1]; NaN for fewer than three pairs or where one side does not vary."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN as :func:`correlation`."""
    return correlation(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


def partial(x: Floats, y: Floats, given: Floats) -> float:
    """Spearman's correlation in [-1, 1] of what is left after ranks of ``given`` (n, k) are regressed out."""
    if len(x) < given.shape[1] + 3:
        return float("nan")
    base = np.column_stack([np.ones(len(x)), *(scipy.stats.rankdata(column) for column in given.T)])
    left = [ranks - base @ np.linalg.lstsq(base, ranks)[0] for ranks in map(scipy.stats.rankdata, (x, y))]
    return correlation(left[0], left[1])


def exact_p(x: Sequence[float], y: Sequence[float]) -> float:
    """Two-sided p of Spearman's correlation over every order of ``y``; NaN beyond eight values."""
    a, b = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    if not 3 <= len(a) <= _EXACT:
        return float("nan")
    found = abs(correlation(a, b))
    every = [abs(correlation(a, np.array(order))) for order in permutations(b)]
    return float(np.mean([value >= found - 1e-12 for value in every]))


def against_baselines(
    rows: pd.DataFrame, score: str = SCORE, *, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Spearman of the score minus that of each baseline, with a paired 95 % interval over conversations.

    Baselines: words of the reply, films it names, and the system's identity (the mean rating of its other
    conversations). Conversations are drawn with replacement, all scores see the same draws.
    """
    rated = rows[rows[RATING].notna() & rows[score].notna()].reset_index(drop=True)
    identity = _identity(rated)
    candidates = {name: rated[name].to_numpy(float) for name in BASELINES} | {"system identity": identity}
    mine, y = rated[score].to_numpy(float), rated[RATING].to_numpy(float)
    members = list(rated.groupby("conv_id", sort=False).indices.values())
    draw = rng.stream(seed, "human", "baselines", score)
    picks = [np.concatenate([members[i] for i in draw.integers(0, len(members), len(members))])
             for _ in range(resamples)]  # fmt: skip
    own = np.array([spearman(mine[pick], y[pick]) for pick in picks])
    out = []
    for name, x in candidates.items():
        gaps = own - np.array([spearman(x[pick], y[pick]) for pick in picks])
        known = gaps[np.isfinite(gaps)]
        low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
        base = spearman(x, y)
        whole = spearman(mine, y)
        row = {"score": score, "baseline": name, "spearman": whole, "of_baseline": base}
        out.append(row | {"diff": whole - base, "low": float(low), "high": float(high)})
    return pd.DataFrame(out)


def _identity(rated: pd.DataFrame) -> Floats:
    """The mean rating of the same system in its other conversations; NaN-free: without others the mean."""
    system = rated.groupby("system")[RATING].agg(["sum", "count"])
    own = rated.groupby("conv_id")[RATING].agg(["sum", "count"])
    total = system.loc[rated["system"]].to_numpy() - own.loc[rated["conv_id"]].to_numpy()
    with np.errstate(invalid="ignore"):
        means = np.where(total[:, 1] > 0, total[:, 0] / total[:, 1], rated[RATING].mean())
    return np.asarray(means, dtype=float)


def run_file(dialogues: Sequence[Dialogue], rows: pd.DataFrame, score: str = SCORE) -> list[dict[str, Any]]:
    """The scores in CRSArena-Eval's form: one entry a dialogue, a prediction for every system utterance.

    ``turn_ind`` is the log's own, else the utterance's place. What a system says before the person spoke
    gets 1 where it asks what is wanted, else 0; parts of a merged reply share its score.
    """
    known: Mapping[Any, float] = rows.set_index(["conv_id", "turn"])[score].to_dict()
    out = []
    for dialogue in dialogues:
        opening = [str(text) for text in dialogue.extra.get("opening", ())]
        turns = [_entry(i, float(scores.elicits(text))) for i, text in enumerate(opening)]
        place, values = len(opening), []
        for pair in dialogue.pairs():
            place += len(pair.user.meta.get("merged") or [0])
            value = float(known[dialogue.session_id, pair.turn])
            values.append(value)
            for part in pair.system.meta.get("merged") or [pair.system.meta]:
                turns.append(_entry(int(part.get("turn_ind", place)), value))
                place += 1
        overall = float(np.mean(values)) if values else 0.0
        whole = {OVERALL: round(overall, 6)}
        out.append({"conv_id": dialogue.session_id, "turns": turns, "dial_level_pred": whole})
    return out


def _entry(turn: int, value: float) -> dict[str, Any]:
    return {"turn_ind": turn, "turn_level_pred": {RATING: round(value, 6)}}
