"""First stage: one score a message from each channel, added as z-scores without any learning."""

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import levels, wording
from crs_lib.realtalk.index import ChatIndex, grams
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.wording import pairs
from crs_lib.retrieval import bm25, encoders

Floats = NDArray[np.float32]
# Of words: BM25 on content stems (names left out), on neighbouring stems, on character 4-grams, and of the
# message's segment. Of the main encoder: sentence vectors, of the question as it stands (raw), in the first
# person and as the other one would ask it (second); of the segment and of the photo's caption; of a message
# with the remark before it (turn). Token matches (MaxSim) in the first person, with the remark in the second,
# weighted by how few messages a query token matches (telling), and the worst: is everything there?
_OF_EVERY_ENCODER = (
    "raw", "first", "second", "turn", "tokens", "turn tokens", "telling tokens", "weakest token",
)  # fmt: skip
CHANNELS = (
    "words", "pairs", "grams", "segment words", "raw", "first", "second", "segment", "turn", "turn first",
    "tokens", "turn tokens", "telling tokens", "weakest token", "caption",
    *(f"{role} {name}" for role in ("beside", "tuned") for name in _OF_EVERY_ENCODER),
)  # fmt: skip
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


class _AskedVectors(NamedTuple):
    """Vectors of some questions by one encoder: as they stand, in the first and in the second person."""

    raw: encoders.Encoded
    first: encoders.Encoded
    second: encoders.Encoded


def scores(index: ChatIndex, texts: Sequence[str], plans: Sequence[QueryPlan]) -> list[dict[str, Floats]]:
    """The raw score of every message in every channel of ``CHANNELS`` for each planned question. Each is
    (messages,) float32; the channels of an encoder that the index does not have are 0. What is scored once is
    kept on disk (:func:`crs_lib.realtalk.index.kept_arrays`); the others are encoded together.
    """
    made_by = indexes.source_digest(sys.modules[__name__], indexes, levels, wording, encoders, bm25)
    chat = (made_by, index.chat.digest, index.encoder, index.tuned)
    asked = list(zip(texts, plans, strict=True))
    keys = [(*chat, text, made.terms, made.first_person, made.second_person) for text, made in asked]
    kept = indexes.kept_arrays(keys, asked, lambda missing: _scored(index, missing))
    return [dict(zip(CHANNELS, np.ascontiguousarray(rows.T), strict=True)) for rows in kept]


def _scored(index: ChatIndex, asked: Sequence[tuple[str, QueryPlan]]) -> list[Floats]:
    """Scores of questions that were not kept, each (messages, channels)."""
    texts, plans = zip(*asked, strict=True)
    forms = (texts, [plan.first_person for plan in plans], [plan.second_person for plan in plans])
    vectors = {role: _AskedVectors(*(index.encode(form, role) for form in forms)) for role in index.encoders}
    return [_by_channel(index, plan, vectors, row) for row, plan in enumerate(plans)]


def _by_channel(index: ChatIndex, plan: QueryPlan, asked: Mapping[str, _AskedVectors], row: int) -> Floats:
    terms = plan.terms
    raw, first = asked[""].raw.sentences[row], asked[""].first.sentences[row]
    captioned = np.array([bool(m.caption) for m in index.chat.messages])
    nothing = np.zeros(index.size)
    found = {
        "words": index.words.scores(terms),
        "pairs": index.pairs.scores(pairs(terms)),
        "grams": index.grams.scores(grams(terms)),
        "segment words": index.by_segment.scores(terms)[index.owner],
        "segment": (index.segment_vectors @ first)[index.owner],
        "caption": np.where(captioned, index.captions.sentences @ raw, 0) if captioned.any() else nothing,
    }
    for role, vectors in index.encoded.items():
        near = _by_vectors(vectors, asked[role], row, index.before)
        found |= {f"{role} {name}".strip(): values for name, values in near.items()}
    columns = [np.asarray(found.get(name, nothing), dtype=np.float32) for name in CHANNELS]
    return np.stack(columns, axis=1)


def _by_vectors(
    messages: encoders.Encoded, asked: _AskedVectors, row: int, before: NDArray[np.intp]
) -> dict[str, NDArray[np.floating]]:
    """The channels of one encoder."""
    raw, first, second = (form.sentences[row] for form in asked)
    own_first, own_second = messages.sentences @ first, messages.sentences @ second
    told = encoders.best_matches(asked.first.of(row), messages)
    best = encoders.best_matches(asked.second.of(row), messages)
    turned = np.where((before >= 0)[:, None], np.maximum(best, best[before]), best)  # or of the remark before
    gap = told - told.max(axis=0, initial=-1)
    telling = np.square(told.max(axis=0, initial=0) - told.mean(axis=0)) if len(told) else np.zeros(0)
    weight = telling / max(float(telling.sum()), 1e-9)
    return {
        "raw": messages.sentences @ raw, "first": own_first, "second": own_second,
        "turn": own_second + 0.5 * _of_remark(own_second, before),
        "turn first": own_first + 0.5 * _of_remark(own_first, before),
        "tokens": told.mean(axis=1) if told.shape[1] else np.zeros(len(told)),
        "turn tokens": turned.mean(axis=1) if turned.shape[1] else np.zeros(len(turned)),
        "telling tokens": told @ weight, "weakest token": gap.min(axis=1, initial=0),
    }  # fmt: skip


def _of_remark(values: Floats, before: NDArray[np.intp]) -> Floats:
    """The value of the remark before each message; the message's own where there is none."""
    out: Floats = np.where(before >= 0, values[before], values)
    return out


def fuse(
    index: ChatIndex, plan: QueryPlan, channels: Mapping[str, Floats],
    weights: Mapping[str, float] | None = None, smoothing: tuple[float, float] = SMOOTHING,
) -> Floats:  # fmt: skip
    """First-stage score of every message, (messages,): weighted z-scores, smoothed over neighbours.
    Neighbours add ``smoothing`` of their score one and two messages away, inside the session. A message of
    the other speaker loses where the question names exactly one; a message written on a stated day or the two
    after it gains. Raises InputError for a weight of an unknown name.
    """
    used = default_weights(index.encoder) if weights is None else weights
    parts = {**{name: zscore(s) for name, s in channels.items()}, **_priors(index, plan)}
    if unknown := sorted(used.keys() - parts.keys() - {"other speaker", "stated day"}):
        raise InputError(f"unknown channels {unknown}; expected some of {', '.join(sorted(parts))}")
    total = np.zeros(index.size)
    for name, weight in used.items():
        if weight and name in parts:
            total += weight * parts[name]
    total = _smooth(total, index.session, smoothing)
    if len(plan.speakers) == 1:
        others = np.array([float(m.speaker != plan.speakers[0]) for m in index.chat.messages])
        total += used.get("other speaker", 0.0) * others
    total += used.get("stated day", 0.0) * stated_day(index, plan)
    return total.astype(np.float32)


def default_weights(encoder: str) -> Mapping[str, float]:
    """The channel weights that go with an encoder."""
    return SPELLING_WEIGHTS if encoder == "hashing" else WEIGHTS


def _priors(index: ChatIndex, plan: QueryPlan) -> dict[str, NDArray[np.float64]]:
    """What makes a message likely to bear evidence whatever is asked; photos where they are wanted."""
    column = index.signals.column
    return {
        "length": zscore(np.log1p(column("length"))), "first_person": zscore(column("first_person")),
        "question": column("question").astype(float), "reaction": column("reaction").astype(float),
        "photo asked": column("photo").astype(float) * plan.photo,
    }  # fmt: skip


def stated_day(index: ChatIndex, plan: QueryPlan) -> NDArray[np.float64]:
    """1 for messages written on a stated day or up to two days later (things are told afterwards)."""
    out = np.zeros(index.size)
    for first, last in plan.windows:
        start, end = (dt.date.fromisoformat(day).toordinal() for day in (first, last))
        out[(start <= index.days) & (index.days <= end + 2)] = 1.0
    return out


def zscore(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values in standard deviations from their mean; all 0 where they are alike."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    return (wide - wide.mean()) / spread if spread > 1e-9 else np.zeros(len(wide))


def shifted(values: NDArray[Any], session: NDArray[np.intp], step: int) -> NDArray[Any]:
    """The value ``step`` messages before (after, where negative), along the last axis; 0 beyond a session."""
    place = np.arange(len(session)) - step
    inside = place.clip(0, len(session) - 1)
    return np.where((inside == place) & (session[inside] == session), values[..., inside], 0)


def _smooth(
    values: NDArray[np.float64], session: NDArray[np.intp], shares: tuple[float, float]
) -> NDArray[np.float64]:
    """Values plus ``shares`` of the neighbours one and two places away, never across sessions."""
    out = values.copy()
    for step, share in enumerate(shares, start=1):
        out += share * shifted(values, session, step)
        out += share * shifted(values, session, -step)
    return out


def ranking(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Positions from the best score to the worst; of equal scores the earlier message first."""
    return np.lexsort((np.arange(len(values)), -values))
