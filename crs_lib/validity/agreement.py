"""Agreement of scores with human ratings: correlations with intervals, against baselines, at every level.

Ratings are read where the conversations carry them. Source: docs/validity.md, section 4.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.validity import scores
from crs_lib.validity.scores import ON_PAPER, REACTION, RECEIVED, Scored

Floats = NDArray[np.float64]
RATING, OVERALL = "relevance", "dialogue_overall"
WHOLE = "dialogue_adaptation"  # the score of a whole dialogue, the same in each of its rows
BASELINES = ("n_words", "n_films")
SHOWN = (
    RECEIVED,
    ON_PAPER,
    REACTION,
    "normalised_gain",
    "satisfaction",
    "item_tas",
    "topic_adaptation_score",
)
_EXACT = 8  # systems up to which every permutation is tried


def rate(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply: our scores, the human rating where there is one (else null), the dialogue's rating.

    InputError where no reply is.
    """
    return table([row for one in scores.score(dialogues, grounder) for row in rated_rows(one)])


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows of replies as a frame; InputError where there is none."""
    if not rows:
        raise InputError("no reply to score; give at least one conversation in which the system answers")
    return pd.DataFrame(rows).astype({RATING: float, OVERALL: float})


def rated_rows(scored: Scored) -> list[dict[str, Any]]:
    """The rows of a dialogue with their ratings and the dialogue's score and rating."""
    given = _ratings(scored.dialogue)
    levels = (scored.dialogue.extra.get("annotations") or {}).get("dial_level_aggregated") or {}
    whole = {OVERALL: _number(levels.get(OVERALL)), WHOLE: scored.overall}
    return [{**row, RATING: given[row["turn"]], **whole} for row in scored.rows]


def _ratings(dialogue: Dialogue) -> dict[int, float]:
    """The rating of each reply, NaN where there is none; of a merged reply the mean of its parts."""
    found = {}
    for pair in dialogue.pairs():
        parts = pair.system.meta.get("merged") or [pair.system.meta]
        given = [_number((part.get("turn_level_aggregated") or {}).get(RATING)) for part in parts]
        known = [value for value in given if not np.isnan(value)]
        found[pair.turn] = sum(known) / len(known) if known else float("nan")
    return found


def _number(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(str(value)) if usable else float("nan")


def per_dialogue(rows: pd.DataFrame, names: Sequence[str] = (ON_PAPER,)) -> pd.DataFrame:
    """One row per dialogue: its score and rating, and the means of others over its replies."""
    by = rows.groupby(["system", "conv_id"], sort=False)
    means = by[list(dict.fromkeys([*names, *BASELINES, RATING, REACTION]))].mean()
    return means.assign(**{name: by[name].first() for name in (WHOLE, OVERALL)}).reset_index()


def agreement(
    rows: pd.DataFrame, names: Sequence[str] = (RECEIVED,), *, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Pearson and Spearman of each score with human ratings, one row per score and level.

    Levels: "reply, constraint known", "reply" (fallback included), "reply, within systems" (mean over
    systems, weighted by their replies), "dialogue" (with the overall rating; the first score is that of whole
    dialogues, the others are means over replies), "system" (means of both; p is exact, over all permutations
    of up to eight systems). ``low`` and ``high`` are the 95 % interval of Spearman over conversations;
    ``partial`` is Spearman given length and number of films; ``coverage`` the share of rated rows with a
    score. Raises InputError without ratings.
    """
    known = {level: bool(rows[level].notna().any()) for level in (RATING, OVERALL)}
    if not any(known.values()):
        raise InputError("no reply carries a human rating; agreement needs turn_level_aggregated.relevance")
    talks = per_dialogue(rows, names)
    out = []
    for place, name in enumerate(names):
        if known[RATING]:
            out.append(_row(name, "reply, constraint known", rows[rows["defined"] == 1], RATING, BASELINES))
            out.append(_row(name, "reply", rows, RATING, BASELINES))
            out[-1] |= interval(rows, name, RATING, resamples=resamples, seed=seed)
            out.append(_within(name, rows))
        if known[OVERALL]:
            whole = WHOLE if place == 0 else name
            systems = talks.groupby("system")[[whole, OVERALL]].mean().reset_index()
            out.append(_row(whole, "dialogue", talks, OVERALL, BASELINES))
            out[-1] |= interval(talks, whole, OVERALL, resamples=resamples, seed=seed)
            exact = exact_p(systems[whole], systems[OVERALL])
            out.append(_row(whole, "system", systems, OVERALL) | {"p_exact": exact})
    return pd.DataFrame(out)


def _row(
    score: str, level: str, frame: pd.DataFrame, rating: str, given: Sequence[str] = ()
) -> dict[str, Any]:
    rated = frame[frame[rating].notna()]
    both = rated[rated[score].notna()]
    x, y = both[score].to_numpy(float), both[rating].to_numpy(float)
    row = {"score": score, "level": level, "n": len(both), "coverage": len(both) / max(1, len(rated))}
    row |= {"pearson": correlation(x, y), "spearman": spearman(x, y), "low": np.nan, "high": np.nan}
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


def draws(groups: pd.Series, key: str, resamples: int, seed: int) -> list[NDArray[np.int64]]:
    """Rows of conversations drawn with replacement, one array a draw; the same for the same key and seed."""
    members = list(groups.groupby(groups, sort=False).indices.values())
    draw = rng.stream(seed, "people", key)
    return [
        np.concatenate([members[i] for i in draw.integers(0, len(members), len(members))])
        for _ in range(resamples)
    ]


def limits(values: Iterable[float]) -> dict[str, float]:
    """The 95 % percentile interval of draws, ``low`` and ``high``; NaN where no draw gives a value."""
    known = np.array([value for value in values if np.isfinite(value)])
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    return {"low": float(low), "high": float(high)}


def interval(
    frame: pd.DataFrame, score: str, rating: str, *, resamples: int = 1000, seed: int = 0
) -> dict[str, float]:
    """The 95 % interval of Spearman's correlation; conversations (``conv_id``) are drawn with replacement."""
    both = frame[frame[[score, rating]].notna().all(axis=1)].reset_index(drop=True)
    if both.empty:
        return limits(())
    x, y = both[score].to_numpy(float), both[rating].to_numpy(float)
    picks = draws(both["system"] + both["conv_id"], f"interval {score}", resamples, seed)
    return limits(spearman(x[pick], y[pick]) for pick in picks)


def against_baselines(
    rows: pd.DataFrame, score: str = RECEIVED, rating: str = RATING, *, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Spearman of the score minus that of each baseline, with a paired 95 % interval over conversations.

    Baselines: words and films of the reply (of a dialogue: their means), and the system's identity (the mean
    rating of its other conversations). All scores see the same draws. ``rows`` are replies, or dialogues.
    """
    rated = rows[rows[rating].notna() & rows[score].notna()].reset_index(drop=True)
    candidates = {name: rated[name].to_numpy(float) for name in BASELINES}
    if len(set(rated["system"])) > 1:
        candidates["system identity"] = _identity(rated, rating)
    mine, y = rated[score].to_numpy(float), rated[rating].to_numpy(float)
    picks = draws(rated["system"] + rated["conv_id"], f"baselines {score}", resamples, seed)
    own = np.array([spearman(mine[pick], y[pick]) for pick in picks])
    out = []
    for name, x in candidates.items():
        gaps = own - np.array([spearman(x[pick], y[pick]) for pick in picks])
        base, whole = spearman(x, y), spearman(mine, y)
        row = {"score": score, "baseline": name, "spearman": whole, "of_baseline": base}
        out.append(row | {"diff": whole - base} | limits(gaps))
    return pd.DataFrame(out)


def _identity(rated: pd.DataFrame, rating: str) -> Floats:
    """The mean rating of the same system in its other conversations; NaN-free: without others the mean."""
    system = rated.groupby("system")[rating].agg(["sum", "count"])
    own = rated.groupby(["system", "conv_id"])[rating].agg(["sum", "count"])
    mine = own.loc[list(zip(rated["system"], rated["conv_id"], strict=True))].to_numpy()
    total = system.loc[rated["system"]].to_numpy() - mine
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(total[:, 1] > 0, total[:, 0] / total[:, 1], rated[rating].mean())
    return np.asarray(means, dtype=float)


def entry(scored: Scored, score: str = RECEIVED) -> dict[str, Any]:
    """A dialogue's scores in CRSArena-Eval's form: a prediction for every system utterance and for the whole.

    ``turn_ind`` is the log's own, else the utterance's place. An utterance before the person spoke gets ¾
    where it asks what is wanted, else 0; parts of a merged reply share its score. A system that never answers
    follows nothing: 0.
    """
    dialogue = scored.dialogue
    known: Mapping[int, float] = {row["turn"]: row[score] for row in scored.rows}
    opening = [str(text) for text in dialogue.extra.get("opening", ())]
    turns = [_entry(i, scores.ASKING * scores.elicits(text)) for i, text in enumerate(opening)]
    place = len(opening)
    for pair in dialogue.pairs():
        place += len(pair.user.meta.get("merged") or [0])
        for part in pair.system.meta.get("merged") or [pair.system.meta]:
            turns.append(_entry(int(part.get("turn_ind", place)), known[pair.turn]))
            place += 1
    whole = {OVERALL: round(scored.overall, 6) if scored.rows else 0.0}
    return {"conv_id": dialogue.session_id, "turns": turns, "dial_level_pred": whole}


def _entry(turn: int, value: float) -> dict[str, Any]:
    return {"turn_ind": turn, "turn_level_pred": {RATING: round(value, 6)}}
