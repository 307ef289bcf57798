"""First stage: one score a message from each channel, added as z-scores without any learning."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.realtalk.index import ChatIndex, grams
from crs_lib.realtalk.plan import Plan
from crs_lib.realtalk.wording import pairs
from crs_lib.retrieval import dense

Floats = NDArray[np.float32]
CHANNELS = {
    "words": "BM25 on content stems, names left out",
    "pairs": "BM25 on neighbouring stems",
    "grams": "BM25 on character 4-grams",
    "segment words": "BM25 of the message's segment",
    "raw": "sentence vectors, question as it stands",
    "first": "sentence vectors, question in the first person",
    "second": "sentence vectors, question as the other one would ask it",
    "segment": "vector of the message's segment, question in the first person",
    "turn": "sentence vectors of message and remark before it, second person",
    "turn first": "sentence vectors of message and remark before it, first person",
    "tokens": "best token matches (MaxSim), first person",
    "turn tokens": "best token matches (MaxSim) with the remark before it, second person",
    "caption": "sentence vector of the photo's caption, question as it stands",
}
# Added z-scores: message channels first, then what makes a message likely to bear evidence at all.
WEIGHTS = {
    "words": 0.15, "raw": 0.1, "first": 0.1, "second": 0.15, "tokens": 0.4, "turn tokens": 0.4,
    "length": 0.1, "first_person": 0.15, "question": -0.6, "reaction": 0.35, "photo asked": 0.75,
    "other speaker": -2.2, "stated day": 1.3,
}  # fmt: skip
# The same for an encoder that only knows spelling: the words themselves carry the search.
SPELLING_WEIGHTS = {
    **WEIGHTS, "words": 1.0, "segment words": 0.2, "raw": 0.0, "first": 0.2, "second": 0.0, "tokens": 0.3,
    "turn tokens": 0.1,
}  # fmt: skip
SMOOTHING = (0.1, 0.03)
SPREAD = {"hashing": 4.0}  # how much wider first-stage scores lie than with MiniLM


class Query(NamedTuple):
    """A planned question with its vectors: as it stands, in the first and in the second person."""

    text: str
    plan: Plan
    raw: dense.Encoded
    first: dense.Encoded
    second: dense.Encoded
    row: int


def queries(index: ChatIndex, texts: Sequence[str], plans: Sequence[Plan]) -> list[Query]:
    """Planned questions with their vectors, encoded (and cached) together."""
    raw = index.encode(list(texts))
    first = index.encode([plan.first_person for plan in plans])
    second = index.encode([plan.second_person for plan in plans])
    return [Query(t, p, raw, first, second, i) for i, (t, p) in enumerate(zip(texts, plans, strict=True))]


def scores(index: ChatIndex, query: Query) -> dict[str, Floats]:
    """The raw score of every message in every channel of ``CHANNELS``, each (messages,) float32."""
    terms, row = query.plan.terms, query.row
    first, second = query.first.sentences[row], query.second.sentences[row]
    raw = query.raw.sentences[row]
    captioned = np.array([bool(m.caption) for m in index.chat.messages])
    found = {
        "words": index.words.scores(terms),
        "pairs": index.pairs.scores(pairs(terms)),
        "grams": index.grams.scores(grams(terms)),
        "segment words": index.by_segment.scores(terms)[index.owner],
        "raw": index.vectors.sentences @ raw,
        "first": index.vectors.sentences @ first,
        "second": index.vectors.sentences @ second,
        "segment": (index.segment_vectors @ first)[index.owner],
        "turn": index.turns.sentences @ second,
        "turn first": index.turns.sentences @ first,
        "tokens": dense.max_sim(query.first.of(row), index.vectors),
        "turn tokens": dense.max_sim(query.second.of(row), index.turns),
        "caption": np.where(captioned, index.captions.sentences @ raw, 0),
    }
    return {name: found[name].astype(np.float32) for name in CHANNELS}


def fuse(
    index: ChatIndex,
    plan: Plan,
    channels: Mapping[str, Floats],
    weights: Mapping[str, float] | None = None,
    smoothing: tuple[float, float] = SMOOTHING,
) -> Floats:
    """First-stage score of every message, (messages,): weighted z-scores, smoothed over neighbours.

    Neighbours add ``smoothing`` of their score one and two messages away, inside the session. A message
    of the other speaker loses where the question names exactly one; a message written on a stated day
    or the two after it gains. Raises InputError for a weight of an unknown name.
    """
    used = dict(default_weights(index.encoder) if weights is None else weights)
    parts = {**{name: zscore(s) for name, s in channels.items()}, **priors(index, plan)}
    unknown = sorted(used.keys() - parts.keys() - {"other speaker", "stated day"})
    if unknown:
        raise InputError(f"unknown channels {unknown}; expected some of {', '.join(sorted(parts))}")
    total = np.zeros(index.size)
    for name, weight in used.items():
        if weight and name in parts:
            total += weight * parts[name]
    total = smooth(total, index.session, smoothing)
    total += used.get("other speaker", 0.0) * other_speaker(index, plan)
    total += used.get("stated day", 0.0) * stated_day(index, plan)
    return total.astype(np.float32)


def default_weights(encoder: str) -> dict[str, float]:
    """The channel weights that go with an encoder."""
    return dict(SPELLING_WEIGHTS if encoder == "hashing" else WEIGHTS)


def priors(index: ChatIndex, plan: Plan) -> dict[str, NDArray[np.float64]]:
    """What makes a message likely to bear evidence whatever is asked; photos where they are wanted."""
    column = index.signals.column
    return {
        "length": zscore(np.log1p(column("length"))),
        "first_person": zscore(column("first_person")),
        "question": column("question").astype(float),
        "reaction": column("reaction").astype(float),
        "photo asked": column("photo").astype(float) * plan.photo,
    }


def other_speaker(index: ChatIndex, plan: Plan) -> NDArray[np.float64]:
    """1 for messages of the person the question does not name, where it names exactly one; else 0."""
    if len(plan.speakers) != 1:
        return np.zeros(index.size)
    return np.array([float(m.speaker != plan.speakers[0]) for m in index.chat.messages])


def stated_day(index: ChatIndex, plan: Plan) -> NDArray[np.float64]:
    """1 for messages written on a stated day or up to two days later (things are told afterwards)."""
    out = np.zeros(index.size)
    for first, last in plan.windows:
        start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last) + dt.timedelta(days=2)
        for i, message in enumerate(index.chat.messages):
            if message.time and start <= message.time.date() <= end:
                out[i] = 1.0
    return out


def zscore(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values in standard deviations from their mean; all 0 where they are alike."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    return (wide - wide.mean()) / spread if spread > 1e-9 else np.zeros(len(wide))


def smooth(
    values: NDArray[np.float64], session: NDArray[np.intp], shares: tuple[float, float]
) -> NDArray[np.float64]:
    """Values plus ``shares`` of the neighbours one and two places away, never across sessions."""
    out = values.copy()
    for step, share in enumerate(shares, start=1):
        if share and len(values) > step:
            same = session[step:] == session[:-step]
            out[step:] += share * values[:-step] * same
            out[:-step] += share * values[step:] * same
    return out


def ranking(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Positions from the best score to the worst; of equal scores the earlier message first."""
    return np.lexsort((np.arange(len(values)), -values))
