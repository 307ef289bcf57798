"""The annotators' labels: intents by majority and by the curated list, F1, and how far people agree.

Annotators see one conversation each and carry no name.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.cosrec.records import ASPECTS, INTENTS, AnnotatedTurn, Partition
from crs_lib.stats import Design, bootstrap_estimates, cluster_bootstrap_correlation, krippendorff_alpha

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
_COLUMNS = ["what", "measure", "value", "low", "high", "n"]


def shares(turn: AnnotatedTurn) -> dict[str, float]:
    """For each intent the share of annotators, in [0, 1], who gave it at least once; 0 without annotators."""
    n = max(1, len(turn.cells))
    return {kind: sum(any(need.type == kind for need in cell) for cell in turn.cells) / n for kind in INTENTS}


def majority_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, given where more than half of the annotators gave it.
    ``recorded`` is False for a turn that the file leaves out: nobody saw an intent there, and all labels are
    0. ``ties`` counts intents that exactly half gave; a tie is not a majority. ``annotators`` is missing for
    turns without record.
    """
    rows = []
    for name, conversation in partition.conversations.items():
        records = {record.turn: record for record in partition.annotations.get(name, ())}
        for turn in range(len(conversation.turns)):
            record = records.get(turn)
            given = list(shares(record or AnnotatedTurn(turn, ())).values())
            ties, annotators = sum(share == 0.5 for share in given), len(record.cells) if record else None
            majority = [int(share > 0.5) for share in given]
            rows.append((name, turn, *majority, record is not None, annotators, ties))
    columns = ["conversation", "turn", *INTENTS, "recorded", "annotators", "ties"]
    return pd.DataFrame(rows, columns=columns).astype({"annotators": "Int64"})


def curated_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, as the curated list has it."""
    given = {(one.conversation, one.turn, one.type) for one in partition.all_intents()}
    rows = [
        (name, turn, *(int((name, turn, kind) in given) for kind in INTENTS))
        for name, conversation in partition.conversations.items()
        for turn in range(len(conversation.turns))
    ]
    return pd.DataFrame(rows, columns=["conversation", "turn", *INTENTS])


def counts(truth: Labels, guess: Labels) -> Floats:
    """(3 kinds of count, intents): true positives, false positives, false negatives."""
    cells = np.stack([truth * guess, (1 - truth) * guess, truth * (1 - guess)])
    return np.asarray(cells.sum(axis=1), dtype=float)


def f1(counts: Floats) -> Floats:
    """F1 from (3, …) counts; 0 where there is neither truth nor guess."""
    hits, wrong, missed = counts
    total = 2 * hits + wrong + missed
    return np.asarray(np.divide(2 * hits, total, out=np.zeros_like(total), where=total > 0))


def grouped_folds(groups: NDArray[Any], most: int = 5) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to learn from and rows held out, conversations together; InputError for one conversation alone."""
    from sklearn.model_selection import GroupKFold

    folds = min(most, len(set(groups.tolist())))
    if folds < 2:
        raise InputError("a model needs turns of at least two conversations to learn from")
    return list(GroupKFold(folds).split(groups, groups=groups))


def f1_table(conversations: pd.Series, truth: Labels, guess: Labels, seed: int = 0) -> pd.DataFrame:
    """F1 of each intent, ``micro`` and ``macro``, in [0, 1], with intervals over conversations. BCa intervals
    of 95 %; ``n`` counts the turns that carry the intent.
    """
    codes, names = pd.factorize(conversations)
    tallies = np.stack([counts(truth[codes == c], guess[codes == c]) for c in range(len(names))])

    def statistic(weights: Floats) -> Floats:
        drawn = np.einsum("bc,cki->kbi", weights, tallies)
        each = f1(drawn)
        return np.column_stack([each, f1(drawn.sum(axis=2)), each.mean(axis=1)])

    found = bootstrap_estimates(statistic, len(names), Design(seed=seed))
    kinds, positives = [*INTENTS, "micro", "macro"], truth.sum(axis=0).tolist()
    table = {"intent": kinds, "f1": found.estimate, "low": found.low, "high": found.high}
    return pd.DataFrame(table | {"n": [*positives, sum(positives), len(truth)]})


def intent_agreement(crowd: Partition, **draws: Any) -> pd.DataFrame:
    """Krippendorff's alpha of the annotators: nominal for each intent, MASI for the sets; one row each. At
    most 1; 0 is chance. BCa intervals of 95 % over turns; ``n`` counts turns with two views or more. Turns
    without record are left out, since how many annotators saw them is not released. ``draws`` are
    ``resamples`` and ``seed``, here and below.
    """
    views = (
        (f"{name}_{record.turn}", rater, frozenset(label.type for label in cell))
        for name, records in crowd.annotations.items()
        for record in records
        for rater, cell in enumerate(record.cells)
    )
    rows = [(item, rater, *(int(kind in kinds) for kind in INTENTS), kinds) for item, rater, kinds in views]
    frame = pd.DataFrame(rows, columns=["item", "rater", *INTENTS, "set of intents"])
    levels = dict.fromkeys(INTENTS, "nominal") | {"set of intents": "masi"}
    return alpha_table(frame, levels, **draws)


def alpha_table(views: pd.DataFrame, levels: Mapping[str, Any], **draws: Any) -> pd.DataFrame:
    """Krippendorff's alpha of columns of views (item, rater, …), each at its level; one row each."""
    rows = []
    for column, level in levels.items():
        design = Design(system="rater", scenario="item", value=column, **draws)
        one = krippendorff_alpha(views, design, level=level).iloc[0]
        rows.append([column, f"alpha, {level}", one["alpha"], one["low"], one["high"], int(one["n_items"])])
    return pd.DataFrame(rows, columns=_COLUMNS)


def _one_way_icc(sizes: Floats, sums: Floats, squares: Floats, weights: Floats | None = None) -> Floats:
    """ICC(1,1) and ICC(1,k), at most 1, for items with different numbers of anonymous raters: (draws, 2).
    Given for each item the number of ratings, their sum and sum of squares; ``weights`` (draws, items) counts
    how often an item is drawn. NaN where nothing varies between or within items. Source: Shrout and Fleiss
    (1979); the mean group size as in Donner (1986), Int. Stat. Rev. 54.
    """
    w = np.ones((1, len(sizes))) if weights is None else weights
    items, total = w.sum(axis=1), w @ sizes
    between = w @ (sums**2 / sizes) - (w @ sums) ** 2 / total
    within = w @ squares - w @ (sums**2 / sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        msb, msw = between / (items - 1), within / (total - items)
        size = (total - (w @ sizes**2) / total) / (items - 1)
        return np.column_stack([(msb - msw) / (msb + (size - 1) * msw), (msb - msw) / msb])


def quality_agreement(corpus: Mapping[str, Partition], **draws: Any) -> pd.DataFrame:
    """For each aspect and the average: alpha (ordinal; interval for the average), ICC(1,1), ICC(1,k), one
    rater against the mean of the others (Pearson). Intervals of 95 % over conversations.
    """
    given = [
        (key, i, *rating, float(np.mean(rating)))
        for partition in corpus.values()
        for key, ratings in partition.ratings.items()
        for i, rating in enumerate(ratings)
    ]
    views, rows = pd.DataFrame(given, columns=["item", "rater", *ASPECTS, "average"]), list[list[Any]]()
    for aspect in (*ASPECTS, "average"):
        level = "interval" if aspect == "average" else "ordinal"
        rows += alpha_table(views, {aspect: level}, **draws).values.tolist()
        groups = views.astype({aspect: float}).groupby("item", sort=False)[aspect]
        hows = ("size", "sum", lambda part: (part**2).sum())
        sums = [groups.agg(how).to_numpy(dtype=float) for how in hows]
        icc = bootstrap_estimates(partial(_one_way_icc, *sums), len(sums[0]), Design(**draws))
        for j, measure in enumerate(("ICC(1,1)", "ICC(1,k)")):
            rows.append([aspect, measure, icc.estimate[j], icc.low[j], icc.high[j], len(sums[0])])
        size, total = groups.transform("size"), groups.transform("sum")
        kept = views.assign(rest=(total - views[aspect]) / (size - 1))[(size > 1).to_numpy()]
        design = Design(scenario="item", **draws)
        one = cluster_bootstrap_correlation(kept, aspect, "rest", design, kind="pearson").iloc[0]
        others = [one["correlation"], one["low"], one["high"], int(one["n"])]
        rows.append([aspect, "one rater against the others", *others])
    return pd.DataFrame(rows, columns=_COLUMNS)


def human_ceiling(crowd: Partition, seed: int = 0) -> pd.DataFrame:
    """F1 of one annotator against the strict majority of the others, over all annotators and turns. Turns
    without record are turns in which all annotators agreed on none. Turns with fewer than three annotators
    have no majority of others and are left out.
    """
    names, truth, guess = [], [], []
    for name, conversation in crowd.conversations.items():
        cells = {record.turn: record.cells for record in crowd.annotations.get(name, ())}
        raters = max(map(len, cells.values()), default=0)
        for turn in range(len(conversation.turns)):
            views = cells.get(turn, ((),) * raters)
            if len(views) < 3:
                continue
            kinds = [{need.type for need in cell} for cell in views]
            given = np.array([[kind in some for kind in INTENTS] for some in kinds], dtype=int)
            names += [name] * len(views)
            guess.append(given)
            truth.append((2 * (given.sum(axis=0) - given) > len(views) - 1).astype(np.int64))
    if not names:
        raise InputError("no turn has three annotators; there is no majority to compare one of them with")
    return f1_table(pd.Series(names), np.concatenate(truth), np.concatenate(guess), seed)
