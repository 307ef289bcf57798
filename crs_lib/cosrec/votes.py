"""Annotators' votes on a turn's intents, and what they settle on.

Annotators see one conversation each and carry no name, so that a table of confusions for each of them cannot
be learned. Their types can: some call any stated constraint a search, most only a question for knowledge.
Each type has a table of confusions, learned from all conversations together with a classifier's opinion of
each turn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.cosrec.labels import Floats, Labels
from crs_lib.cosrec.records import INTENTS, Partition

_KINDS = len(INTENTS) + 1
_TYPES = 2
_ROUNDS = 10
_LEAST = 0.02  # of a classifier's share: none is impossible
_SEARCH = INTENTS.index("search")
_ADVICE = INTENTS.index("recommendation")


def of_conversation(crowd: Partition, name: str) -> Floats:
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
