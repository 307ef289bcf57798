"""A learned head for human ratings: a random forest over our metrics, reported apart from them.

It sees what was said up to a reply and never which system spoke. Stored as plain arrays, not pickled.
Source: docs/validity.md, section 5.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import tables
from crs_lib.core.errors import InputError

Floats = NDArray[np.float64]
_NOW = (
    "turn", "heard_adaptation", "defined", "n_wishes", "n_films", "n_words", "user_words", "met", "unwanted",
    "elicits", "elicited_before", "answers", "repeats", "asks_about", "question", "topic_adaptation_score",
    "satisfaction", "satisfaction_corrected", "novelty", "copying", "item_tas", "requests", "rejects",
    "accepts", "user_asks", "shared_words", "hedges", "first_person", "whole_sentence", "repeated_words",
    "listed",
)  # fmt: skip
_LATER = ("user_words", "n_wishes", "asks_about")
TREES, LEAF, SHARE, UNDEFINED = 200, 5, 0.4, -2.0
_ARRAYS = ("starts", "left", "right", "feature", "threshold", "value")


def features(rows: pd.DataFrame, *, lookahead: bool = False) -> pd.DataFrame:
    """One row per reply: its own metrics, and what the conversation's earlier replies were like.

    With ``lookahead`` the next user turn is added; without it nothing that is said later enters.
    Undefined metrics become -2, outside every range.
    """
    by = rows.groupby("conv_id", sort=False)
    found = rows[list(_NOW)].astype(float)
    score = rows["heard_adaptation"].astype(float)
    found["score_before"] = by["heard_adaptation"].transform(lambda s: s.shift().expanding().mean())
    for name in ("heard_adaptation", "user_words", "n_films", "n_words", "elicits"):
        found[f"last_{name}"] = by[name].shift()
    found["films_so_far"] = by["n_films"].cumsum() - rows["n_films"]
    found["repeats_so_far"] = by["repeats"].cumsum()
    served = (rows["n_films"] > 0).astype(float)
    found["requests_pending"] = (rows["requests"] - served).groupby(rows["conv_id"], sort=False).cumsum()
    low = (score < 0.25).astype(int)
    found["misses_so_far"] = low.groupby(rows["conv_id"], sort=False).cumsum() - low
    if lookahead:
        for name in _LATER:
            found[f"next_{name}"] = by[name].shift(-1)
    return found.fillna(UNDEFINED)


@dataclass(frozen=True)
class Head:
    """A fitted forest: the columns it takes, and its trees laid end to end."""

    columns: tuple[str, ...]
    starts: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: Floats
    value: Floats

    def predict(self, found: pd.DataFrame) -> Floats:
        """The predicted rating of every row, on the scale of the labels it was fitted to.

        Raises InputError naming the columns that are missing.
        """
        missing = [name for name in self.columns if name not in found.columns]
        if missing:
            raise InputError(f"the head needs the columns {', '.join(missing)}; score the dialogues first")
        x = found[list(self.columns)].to_numpy(dtype=np.float32)
        every, total = np.arange(len(x)), np.zeros(len(x))
        for start in self.starts:
            node = np.full(len(x), start)
            while (inner := self.left[node] >= 0).any():
                at = node[inner]
                lower = x[every[inner], self.feature[at]] <= self.threshold[at]
                node[inner] = start + np.where(lower, self.left[at], self.right[at])
            total += self.value[node]
        return np.asarray(total / len(self.starts))

    def save(self, path: Path) -> None:
        """Write the head as one ``.npz`` file of plain arrays, atomically."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        with tables.write_aside(path, "wb") as file:
            np.savez_compressed(file, columns=np.array(self.columns), **arrays)


def load(path: Path) -> Head:
    """A head that :meth:`Head.save` wrote; InputError where the file is none. Nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            columns = tuple(str(name) for name in stored["columns"])
            return Head(columns, *(stored[name] for name in _ARRAYS))
    except FileNotFoundError:
        raise InputError(
            f"no head at {path.name!r}; fit one with: score-human … --train {path.name}"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path.name} is no head ({error}); fit one with score-human and --train") from error


def fit(found: pd.DataFrame, ratings: Floats, seed: int = 0) -> Head:
    """A head fitted to the rows that have a rating; the same for the same rows and seed.

    Raises InputError for fewer than 20 ratings.
    """
    from sklearn.ensemble import RandomForestRegressor

    known = ~np.isnan(ratings)
    if known.sum() < 20:
        raise InputError(f"{int(known.sum())} rated replies; a head needs at least 20, better some hundreds")
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, max_features=SHARE, random_state=seed)
    forest.fit(found[known].to_numpy(dtype=np.float32), ratings[known])
    trees = [one.tree_ for one in forest.estimators_]
    ends = np.cumsum([0, *(tree.node_count for tree in trees)])
    left, right, feature = (
        np.concatenate([np.asarray(getattr(tree, name), dtype=np.int64) for tree in trees])
        for name in ("children_left", "children_right", "feature")
    )
    threshold = np.concatenate([tree.threshold for tree in trees]).astype(float)
    value = np.concatenate([tree.value[:, 0, 0] for tree in trees]).astype(float)
    starts = ends[:-1].astype(np.int64)
    return Head(tuple(found.columns), starts, left, right, feature, threshold, value)


def out_of_fold(
    found: pd.DataFrame, ratings: Floats, groups: pd.Series, folds: int | None = 10, seed: int = 0
) -> Floats:
    """The prediction of every rated row by heads that saw no row of its group; NaN where unrated.

    ``folds`` None leaves out one group at a time (by system: does it carry over to an unseen one?).
    Raises InputError for fewer groups than folds.
    """
    from sklearn.model_selection import GroupKFold

    known = np.flatnonzero(~np.isnan(ratings))
    owner = groups.to_numpy()[known]
    n = len(set(owner.tolist())) if folds is None else folds
    if len(set(owner.tolist())) < max(n, 2):
        raise InputError(f"{len(set(owner.tolist()))} groups for {n} folds; give at least one group a fold")
    out = np.full(len(ratings), np.nan)
    for train, test in GroupKFold(n).split(known, groups=owner):
        head = fit(found.iloc[known[train]], ratings[known[train]], seed)
        out[known[test]] = head.predict(found.iloc[known[test]])
    return out
