"""How far do people agree on CoSRec's intents and quality: alpha, ICC, and what one rater can reach."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.cosrec.labels import Floats, f1_table
from crs_lib.cosrec.records import ASPECTS, INTENTS, Partition
from crs_lib.stats import Design, bootstrap_estimates, krippendorff_alpha

_COLUMNS = ["what", "measure", "value", "low", "high", "n"]


def intent_views(crowd: Partition) -> pd.DataFrame:
    """One row a view of a recorded turn: conversation, item, rater, a 0/1 column an intent, the label set.

    ``rater`` is a position within the conversation: annotators are anonymous. Turns without record are
    left out, since how many annotators saw them is not released.
    """
    rows = []
    for name, records in crowd.annotations.items():
        for record in records:
            for rater, cell in enumerate(record.cells):
                kinds = frozenset(need.type for need in cell)
                given = {kind: int(kind in kinds) for kind in INTENTS}
                item = f"{name}_{record.turn}"
                rows.append({"conversation": name, "item": item, "rater": rater, **given, "labels": kinds})
    return pd.DataFrame(rows)


def intent_agreement(crowd: Partition, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Krippendorff's alpha of the annotators: nominal for each intent, MASI for the sets; one row each.

    At most 1; 0 is chance. BCa intervals of 95 % over turns; ``n`` counts turns with two views or more.
    """
    views = intent_views(crowd)
    kinds = [(kind, "nominal", kind) for kind in INTENTS] + [("set of intents", "masi", "labels")]
    rows = []
    for what, level, column in kinds:
        found = krippendorff_alpha(
            views,
            Design(system="rater", scenario="item", value=column, resamples=resamples, seed=seed),
            level=level,  # type: ignore[arg-type]
        ).iloc[0]
        row = {"what": what, "measure": f"alpha, {level}", "value": found["alpha"]}
        rows.append(row | {"low": found["low"], "high": found["high"], "n": int(found["n_items"])})
    return pd.DataFrame(rows, columns=_COLUMNS)


def one_way_icc(sizes: Floats, sums: Floats, squares: Floats, weights: Floats | None = None) -> Floats:
    """ICC(1,1) and ICC(1,k), at most 1, for items with different numbers of anonymous raters: (draws, 2).

    Given for each item the number of ratings, their sum and sum of squares; ``weights`` (draws, items)
    counts how often an item is drawn. NaN where nothing varies between or within items.
    Source: Shrout and Fleiss (1979); the mean group size as in Donner (1986), Int. Stat. Rev. 54.
    """
    w = np.ones((1, len(sizes))) if weights is None else weights
    items, total = w.sum(axis=1), w @ sizes
    between = w @ (sums**2 / sizes) - (w @ sums) ** 2 / total
    within = w @ squares - w @ (sums**2 / sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        msb, msw = between / (items - 1), within / (total - items)
        size = (total - (w @ sizes**2) / total) / (items - 1)
        return np.column_stack([(msb - msw) / (msb + (size - 1) * msw), (msb - msw) / msb])


def quality_views(corpus: Mapping[str, Partition]) -> pd.DataFrame:
    """One row a rater's view of a conversation: partition, item, rater, the four aspects, their mean."""
    rows = [
        {"partition": name, "item": key, "rater": i, **rating._asdict(), "average": float(np.mean(rating))}
        for name, partition in corpus.items()
        for key, ratings in partition.ratings.items()
        for i, rating in enumerate(ratings)
    ]
    return pd.DataFrame(rows, columns=["partition", "item", "rater", *ASPECTS, "average"])


def quality_agreement(
    corpus: Mapping[str, Partition], *, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """For each aspect and the average: alpha (ordinal; interval for the average), ICC(1,1), ICC(1,k), one
    rater against the mean of the others (Pearson). Intervals of 95 % over conversations.
    """
    views = quality_views(corpus)
    rows: list[dict[str, Any]] = []
    for aspect in (*ASPECTS, "average"):
        level: Any = "interval" if aspect == "average" else "ordinal"
        alpha = krippendorff_alpha(
            views,
            Design(system="rater", scenario="item", value=aspect, resamples=resamples, seed=seed),
            level=level,
        ).iloc[0]
        rows.append({"what": aspect, "measure": f"alpha, {level}", "value": alpha["alpha"]})
        rows[-1] |= {"low": alpha["low"], "high": alpha["high"], "n": int(alpha["n_items"])}
        groups = views.groupby("item", sort=False)[aspect]
        sizes, sums = (groups.agg(f).to_numpy(dtype=float) for f in ("size", "sum"))
        squares = groups.agg(lambda g: float((g.astype(float) ** 2).sum())).to_numpy(dtype=float)
        icc = bootstrap_estimates(
            partial(one_way_icc, sizes, sums, squares), len(sizes), Design(resamples=resamples, seed=seed)
        )
        for j, measure in enumerate(("ICC(1,1)", "ICC(1,k)")):
            row = {"what": aspect, "measure": measure, "value": icc.estimate[j], "low": icc.low[j]}
            rows.append(row | {"high": icc.high[j], "n": len(sizes)})
        rows.append(_against_the_rest(views, aspect, resamples, seed))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _against_the_rest(views: pd.DataFrame, aspect: str, resamples: int, seed: int) -> dict[str, Any]:
    from crs_lib.stats import cluster_bootstrap_correlation

    groups = views.groupby("item", sort=False)[aspect]
    size, total = groups.transform("size"), groups.transform("sum")
    kept = views.assign(rest=(total - views[aspect]) / (size - 1))[(size > 1).to_numpy()]
    found = cluster_bootstrap_correlation(
        kept, aspect, "rest", Design(scenario="item", resamples=resamples, seed=seed), kind="pearson"
    ).iloc[0]
    row = {"what": aspect, "measure": "one rater against the others", "value": found["correlation"]}
    return row | {"low": found["low"], "high": found["high"], "n": int(found["n"])}


def human_ceiling(crowd: Partition, seed: int = 0) -> pd.DataFrame:
    """F1 of one annotator against the strict majority of the others, over all annotators and turns.

    Turns without record are turns in which all annotators agreed on none. Turns with fewer than three
    annotators have no majority of others and are left out.
    """
    names, truth, guess = [], [], []
    records: Mapping[tuple[str, int], Any] = {
        (name, r.turn): r for name, found in crowd.annotations.items() for r in found
    }
    for name, conversation in crowd.conversations.items():
        cells = {
            turn: records[name, turn].cells
            for turn in range(len(conversation.turns))
            if (name, turn) in records
        }
        raters = max(map(len, cells.values()), default=0)
        for turn in range(len(conversation.turns)):
            views = cells.get(turn, ((),) * raters)
            given = np.array(
                [[any(n.type == kind for n in cell) for kind in INTENTS] for cell in views], dtype=int
            )
            if len(views) < 3:
                continue
            names.extend([name] * len(views))
            guess.append(given)
            truth.append((2 * (given.sum(axis=0) - given) > len(views) - 1).astype(np.int64))
    if not names:
        raise InputError("no turn has three annotators; there is no majority to compare one of them with")
    return f1_table(pd.Series(names), np.concatenate(truth), np.concatenate(guess), seed)
