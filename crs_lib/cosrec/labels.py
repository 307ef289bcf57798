"""The annotators' labels: by majority, by what votes settle on, by the curated list; F1, and agreement.

Annotators see one conversation each and carry no name, so that a table of confusions for each of them cannot
be learned. Their types can: some call any stated constraint a search, most only a question for knowledge.
Each type has a table of confusions, learned from all conversations together with a classifier's opinion of
each turn.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.cosrec.records import ASPECTS, INTENTS, AnnotatedTurn, Partition
from crs_lib.stats import Design, bootstrap_estimates, cluster_bootstrap_correlation, krippendorff_alpha

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
_COLUMNS = ["what", "measure", "value", "low", "high", "n"]
_SETS = "set of intents"
_MOST_FOLDS = 5
_KINDS = len(INTENTS) + 1
_TYPES = 2
_ROUNDS = 10
_LEAST = 0.02  # of a classifier's share: none is impossible
_SEARCH = INTENTS.index("search")
_ADVICE = INTENTS.index("recommendation")


def shares(turn: AnnotatedTurn) -> dict[str, float]:
    """For each intent the share of annotators, in [0, 1], who gave it at least once; 0 without annotators."""
    annotators = max(1, len(turn.cells))
    parts = {}
    for kind in INTENTS:
        votes = [kind in view for view in turn.views]
        parts[kind] = sum(votes) / annotators
    return parts


def majority_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, given where more than half of the annotators gave it.
    ``recorded`` is False for a turn that the file leaves out: nobody saw an intent there, and all labels are
    0. ``ties`` counts intents that exactly half gave; a tie is not a majority. ``annotators`` is missing for
    turns without record.
    """
    rows = []
    for talk, turn in partition.user_turns():
        record = partition.records_of(talk.id).get(turn)
        parts = shares(record or AnnotatedTurn(turn, ()))
        row: dict[str, object] = {"conversation": talk.id, "turn": turn, "recorded": record is not None}
        for kind, share in parts.items():
            row[kind] = int(share > 0.5)
        row["ties"] = list(parts.values()).count(0.5)
        if record is not None:
            row["annotators"] = len(record.cells)
        rows.append(row)
    columns = ["conversation", "turn", *INTENTS, "recorded", "annotators", "ties"]
    return pd.DataFrame(rows, columns=columns).astype({"annotators": "Int64"})


def curated_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, as the curated list has it."""
    curated = {(intent.conversation, intent.turn, intent.type) for intent in partition.all_intents()}
    rows = []
    for talk, turn in partition.user_turns():
        labels = [int((talk.id, turn, kind) in curated) for kind in INTENTS]
        rows.append((talk.id, turn, *labels))
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


def grouped_folds(groups: NDArray[Any]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to learn from and rows left out, conversations together; InputError for one conversation alone."""
    from sklearn.model_selection import GroupKFold

    folds = min(_MOST_FOLDS, len(set(groups.tolist())))
    if folds < 2:
        raise InputError("a model needs turns of at least two conversations to learn from")
    return list(GroupKFold(folds).split(groups, groups=groups))


def f1_table(conversations: pd.Series, truth: Labels, guess: Labels, seed: int = 0) -> pd.DataFrame:
    """F1 of each intent, ``micro`` and ``macro``, in [0, 1], with intervals over conversations. BCa intervals
    of 95 %; ``n`` counts the turns that carry the intent.
    """
    codes, names = pd.factorize(conversations)
    tallies = np.stack([counts(truth[codes == code], guess[codes == code]) for code in range(len(names))])

    def statistic(weights: Floats) -> Floats:
        sums = np.einsum("bc,cki->kbi", weights, tallies)
        each = f1(sums)
        micro = f1(sums.sum(axis=2))
        return np.column_stack([each, micro, each.mean(axis=1)])

    scores = bootstrap_estimates(statistic, len(names), Design(seed=seed))
    positives = truth.sum(axis=0).tolist()
    table = pd.DataFrame({"intent": [*INTENTS, "micro", "macro"], "f1": scores.estimate})
    table["low"] = scores.low
    table["high"] = scores.high
    table["n"] = [*positives, sum(positives), len(truth)]
    return table


def intent_agreement(crowd: Partition, **draws: Any) -> pd.DataFrame:
    """Krippendorff's alpha of the annotators: nominal for each intent, MASI for the sets; one row each. At
    most 1; 0 is chance. BCa intervals of 95 % over turns; ``n`` counts turns with two views or more. Turns
    without record are left out, since how many annotators saw them is not released. ``draws`` are
    ``resamples`` and ``seed``, here and below.
    """
    rows: list[dict[str, object]] = []
    for name, records in crowd.annotations.items():
        for record in records:
            for rater, view in enumerate(record.views):
                row = {kind: int(kind in view) for kind in INTENTS}
                rows.append({"item": f"{name}_{record.turn}", "rater": rater, _SETS: frozenset(view), **row})
    views = pd.DataFrame(rows, columns=["item", "rater", *INTENTS, _SETS])
    levels = dict.fromkeys(INTENTS, "nominal")
    levels[_SETS] = "masi"
    return alpha_table(views, levels, **draws)


def alpha_table(views: pd.DataFrame, levels: Mapping[str, Any], **draws: Any) -> pd.DataFrame:
    """Krippendorff's alpha of columns of views (item, rater, …), each at its level; one row each."""
    rows = []
    for column, level in levels.items():
        design = Design(system="rater", scenario="item", value=column, **draws)
        row = krippendorff_alpha(views, design, level=level).iloc[0]
        rows.append([column, f"alpha, {level}", row["alpha"], row["low"], row["high"], int(row["n_items"])])
    return pd.DataFrame(rows, columns=_COLUMNS)


def one_way_icc(sizes: Floats, sums: Floats, squares: Floats, weights: Floats | None = None) -> Floats:
    """ICC(1,1) and ICC(1,k), at most 1, for items with different numbers of anonymous raters: (draws, 2).
    Given for each item the number of ratings, their sum and sum of squares; ``weights`` (draws, items) counts
    how often an item is drawn. NaN where nothing varies between or within items. Source: Shrout and Fleiss
    (1979); the mean group size as in Donner (1986), Int. Stat. Rev. 54.
    """
    if weights is None:
        weights = np.ones((1, len(sizes)))
    items = weights.sum(axis=1)
    total = weights @ sizes
    per_item = weights @ (sums**2 / sizes)
    between = per_item - (weights @ sums) ** 2 / total
    within = weights @ squares - per_item
    with np.errstate(divide="ignore", invalid="ignore"):
        msb = between / (items - 1)
        msw = within / (total - items)
        size = (total - (weights @ sizes**2) / total) / (items - 1)
        single = (msb - msw) / (msb + (size - 1) * msw)
        return np.column_stack([single, (msb - msw) / msb])


def quality_agreement(corpus: Mapping[str, Partition], **draws: Any) -> pd.DataFrame:
    """For each aspect and the average: alpha (ordinal; interval for the average), ICC(1,1), ICC(1,k), one
    rater against the mean of the others (Pearson). Intervals of 95 % over conversations.
    """
    rows = []
    for partition in corpus.values():
        for name, ratings in partition.ratings.items():
            for rater, rating in enumerate(ratings):
                rows.append((name, rater, *rating, float(np.mean(rating))))
    views = pd.DataFrame(rows, columns=["item", "rater", *ASPECTS, "average"])
    tables = []
    for aspect in (*ASPECTS, "average"):
        level = "interval" if aspect == "average" else "ordinal"
        tables.append(alpha_table(views, {aspect: level}, **draws))
        tables.append(_icc_table(views, aspect, **draws))
        tables.append(_one_against_others(views, aspect, **draws))
    return pd.concat(tables, ignore_index=True)


def _icc_table(views: pd.DataFrame, aspect: str, **draws: Any) -> pd.DataFrame:
    values = views[aspect].astype(float)
    items = pd.DataFrame({"value": values, "square": values**2}).groupby(views["item"], sort=False)
    sums = items.sum()
    sizes = items.size().to_numpy(dtype=float)
    statistic = partial(one_way_icc, sizes, sums["value"].to_numpy(), sums["square"].to_numpy())
    icc = bootstrap_estimates(statistic, len(sizes), Design(**draws))
    rows = []
    for column, measure in enumerate(("ICC(1,1)", "ICC(1,k)")):
        bounds = [icc.estimate[column], icc.low[column], icc.high[column]]
        rows.append([aspect, measure, *bounds, len(sizes)])
    return pd.DataFrame(rows, columns=_COLUMNS)


def _one_against_others(views: pd.DataFrame, aspect: str, **draws: Any) -> pd.DataFrame:
    """Correlation of a rater with the mean of the others, over conversations with two raters or more."""
    values = views[aspect].astype(float)
    groups = values.groupby(views["item"], sort=False)
    size = groups.transform("size")
    others = (groups.transform("sum") - values) / (size - 1)
    shared = views.assign(others=others)[(size > 1).to_numpy()]
    design = Design(scenario="item", **draws)
    row = cluster_bootstrap_correlation(shared, aspect, "others", design, kind="pearson").iloc[0]
    bounds = [row["correlation"], row["low"], row["high"], int(row["n"])]
    return pd.DataFrame([[aspect, "one rater against the others", *bounds]], columns=_COLUMNS)


def human_ceiling(crowd: Partition, seed: int = 0) -> pd.DataFrame:
    """F1 of one annotator against the strict majority of the others, over all annotators and turns. Turns
    without record are turns in which all annotators agreed on none. Turns with fewer than three annotators
    have no majority of others and are left out.
    """
    names, truth, guess = [], [], []
    for name, talk in crowd.conversations.items():
        records = crowd.records_of(name)
        annotators = max((len(record.cells) for record in records.values()), default=0)
        silent = AnnotatedTurn(-1, ((),) * annotators)
        for turn in range(len(talk.turns)):
            views = _views(records.get(turn, silent))
            if len(views) < 3:
                continue
            others = views.sum(axis=0) - views
            names += [name] * len(views)
            guess.append(views)
            truth.append((2 * others > len(views) - 1).astype(np.int64))
    if not names:
        raise InputError("no turn has three annotators; there is no majority to compare one of them with")
    return f1_table(pd.Series(names), np.concatenate(truth), np.concatenate(guess), seed)


def _views(record: AnnotatedTurn) -> Labels:
    """(annotators, intents) of 0 and 1."""
    rows = []
    for view in record.views:
        rows.append([int(kind in view) for kind in INTENTS])
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(INTENTS))


def votes_of(crowd: Partition, name: str) -> Floats:
    """(turns, annotators, 4): each annotator's vote, split among the intents they gave, or none. A turn
    without record counts as none by all. A record with fewer annotators than other records of the
    conversation repeats its first ones.
    """
    records = crowd.records_of(name)
    annotators = max([1, *(len(record.cells) for record in records.values())])
    votes = np.zeros((len(crowd.conversations[name].turns), annotators, _KINDS))
    votes[:, :, -1] = 1
    for turn, record in records.items():
        for annotator in range(annotators):
            if not record.cells:
                continue
            kinds = record.views[annotator % len(record.cells)]
            if kinds:
                votes[turn, annotator] = [(kind in kinds) / len(kinds) for kind in (*INTENTS, None)]
    return votes


def trust(votes: Floats) -> Floats:
    """Weights of a conversation's annotators, of sum 1: the square of how far the others agree with them.
    Agreement is the mean share of a vote that the other annotators' weighted vote has in common with it;
    three rounds from equal weights.
    """
    annotators = votes.shape[1]
    weights = np.full(annotators, 1 / annotators)
    if annotators == 1:
        return weights
    for _ in range(3):
        whole = np.einsum("tac,a->tc", votes, weights)[:, None]
        own = weights[:, None] * votes
        others = (whole - own) / np.maximum(1 - weights[:, None], 1e-9)
        agreement = (votes * others).sum(axis=2).mean(axis=0)
        weights = np.maximum(agreement, 0.02) ** 2
        weights /= weights.sum()
    return weights


class Settled(NamedTuple):
    """Shares of the four kinds a turn (turns, 4), annotators' types, and what a type calls each kind.
    ``types`` is (conversations, annotators, 2), the probability of each type; ``calls`` is (2, 4, 4): type,
    true kind, kind given; rows sum to 1. The second type starts as those who call an opening a search.
    """

    shares: Floats
    types: Floats
    calls: Floats


def settle(votes: Floats, codes: NDArray[np.intp], opinion: Floats) -> Settled:
    """The kinds that votes and a classifier together make likely, by expectation and maximisation. ``votes``
    (turns, annotators, 4) have sum 1 over the intents and none, or 0 where there is no such annotator;
    ``codes`` number the turns' conversations from 0, the first row of each being its first turn; ``opinion``
    (turns, 4) is the classifier's, made without the turn's own conversation. Source: Dawid and Skene (1979),
    Applied Statistics 28(1); with a classifier: Raykar et al. (2010), JMLR.
    """
    prior = np.maximum(opinion, _LEAST)
    prior = np.log(prior / prior.sum(axis=1, keepdims=True))
    types = _first_types(votes, codes)
    calls = _first_calls()
    rates = np.full(_TYPES, 1 / _TYPES)
    present = _by_conversation(votes.sum(axis=2), codes) > 0
    for _ in range(_ROUNDS):
        likely = np.einsum("nal,kyl->naky", votes, np.log(calls))
        mixed = np.einsum("naky,nak->nay", likely, types[codes])
        evidence = prior + mixed.sum(axis=1)
        shares = _softmax(evidence)
        others = _softmax(evidence[:, None] - mixed)  # without the annotator's own vote
        fits = np.log(np.einsum("nay,naky->nak", others, np.exp(likely)))
        types = _softmax(_by_conversation(fits, codes) + np.log(rates))
        calls = 1 + 3 * np.eye(_KINDS) + np.einsum("ny,nal,nak->kyl", shares, votes, types[codes])
        calls /= calls.sum(axis=2, keepdims=True)
        rates = 1 + types[present].sum(axis=0)
        rates /= rates.sum()
    return Settled(shares, types, calls)


def _first_types(votes: Floats, codes: NDArray[np.intp]) -> Floats:
    """Types by who calls the opening a search."""
    first = np.unique(codes, return_index=True)[1]
    literal = votes[first][:, :, _SEARCH] > 0
    return np.where(literal[:, :, None], [0.1, 0.9], [0.9, 0.1])


def _first_calls() -> Floats:
    """Tables of confusions: nobody errs often, but the second type calls requests for products a search."""
    calls = np.full((_TYPES, _KINDS, _KINDS), 0.1) + 0.6 * np.eye(_KINDS)
    calls[1, _ADVICE] = 0.05
    calls[1, _ADVICE, _SEARCH] = 0.5
    calls[1, _ADVICE, _ADVICE] = 0.4
    return calls


def _by_conversation(rows: Floats, codes: NDArray[np.intp]) -> Floats:
    """Sums of rows by conversation."""
    sums = np.zeros((int(codes.max()) + 1, *rows.shape[1:]))
    np.add.at(sums, codes, rows)
    return sums


def _softmax(logarithms: Floats) -> Floats:
    likely = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=-1, keepdims=True))


def agreed(shares: Floats, given_shares: Floats, level: float = 0.5) -> Labels:
    """0/1 for each intent: that of the largest share, and every intent given above a level. ``shares``
    (turns, 4) are of the intents and none, ``given_shares`` (turns, 3) the part who gave each intent.
    """
    largest = shares.argmax(axis=1)[:, None] == np.arange(len(INTENTS))
    return np.asarray((given_shares > level) | largest, dtype=np.int64)
