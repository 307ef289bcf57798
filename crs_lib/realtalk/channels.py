"""First stage: one score a message from each channel, added as z-scores without any learning."""

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import levels, wording
from crs_lib.realtalk.index import ChatIndex, grams
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.wording import pairs
from crs_lib.retrieval import bm25, encoders

Floats = NDArray[np.float32]
Scores = Mapping[str, Floats]  # by channel, one a message

# BM25 on content stems (names left out), on neighbouring stems, on character 4-grams, and of the segment.
_OF_WORDS = ("words", "pairs", "grams", "segment words")
# Sentence vectors of the question as it stands (raw), in the first person and as the other one would ask it
# (second), and with the remark before the message (turn). Token matches (MaxSim) in the first person, with
# the remark in the second, weighted by how few messages a query token matches (telling), and the worst: is
# everything there?
_OF_EVERY_ENCODER = (
    "raw",
    "first",
    "second",
    "turn",
    "tokens",
    "turn tokens",
    "telling tokens",
    "weakest token",
)
# Those of the main encoder, with its channels for the segment and for the photo's caption.
_OF_THE_MAIN_ENCODER = (
    "raw",
    "first",
    "second",
    "segment",
    "turn",
    "turn first",
    "tokens",
    "turn tokens",
    "telling tokens",
    "weakest token",
    "caption",
)
_OF_OTHER_ENCODERS = tuple(f"{role} {name}" for role in ("beside", "tuned") for name in _OF_EVERY_ENCODER)
CHANNELS = (*_OF_WORDS, *_OF_THE_MAIN_ENCODER, *_OF_OTHER_ENCODERS)
_WEIGHTS = "realtalk/fusion"  # the file of weights
_OF_PLACE = ("other speaker", "stated day")  # weights that are added behind the smoothing
SMOOTHING = (0.1, 0.03)  # shares of the neighbours one and two messages away
SPREAD: Mapping[str, float] = {"hashing": 4.0}  # how much wider first-stage scores lie than with MiniLM
_REMARK = 0.5  # what the remark before a message adds
_TOLD_WITHIN = 2  # days after a stated day in which things are still told


class _QuestionVectors(NamedTuple):
    """Vectors of some questions by one encoder: as they stand, in the first and in the second person."""

    raw: encoders.Encoded
    first: encoders.Encoded
    second: encoders.Encoded


def scores(index: ChatIndex, texts: Sequence[str], plans: Sequence[QueryPlan]) -> list[dict[str, Floats]]:
    """The raw score of every message in every channel of ``CHANNELS`` for each planned question.

    Each is (messages,) float32; the channels of an encoder that the index does not have are 0. What is scored
    once is kept on disk (:func:`crs_lib.realtalk.index.stored`); the other questions are encoded together.
    """
    code = indexes.source_digest(sys.modules[__name__], indexes, levels, wording, encoders, bm25)
    questions = list(zip(texts, plans, strict=True))
    keys = []
    for text, plan in questions:
        asked_as = (text, plan.terms, plan.first_person, plan.second_person)
        keys.append((code, index.chat.digest, index.encoder, index.tuned, *asked_as))
    by_question = []
    for table in indexes.stored(keys, questions, lambda missing: _score(index, missing)):
        columns = np.ascontiguousarray(table.T)
        by_question.append(dict(zip(CHANNELS, columns, strict=True)))
    return by_question


def _score(index: ChatIndex, questions: Sequence[tuple[str, QueryPlan]]) -> list[Floats]:
    """Scores of questions that were not stored, each (messages, channels)."""
    texts = [text for text, _ in questions]
    plans = [plan for _, plan in questions]
    first = [plan.first_person for plan in plans]
    second = [plan.second_person for plan in plans]
    vectors = {}
    for role in index.encoders:
        raw = index.encode(texts, role)
        vectors[role] = _QuestionVectors(raw, index.encode(first, role), index.encode(second, role))
    tables = []
    for row, plan in enumerate(plans):
        tables.append(_by_channel(index, plan, vectors, row))
    return tables


def _by_channel(
    index: ChatIndex, plan: QueryPlan, vectors: Mapping[str, _QuestionVectors], row: int
) -> Floats:
    main = vectors[""]
    raw, first = main.raw.sentences[row], main.first.sentences[row]
    by_channel: dict[str, NDArray[np.floating]] = {}
    by_channel["words"] = index.words.scores(plan.terms)
    by_channel["pairs"] = index.pairs.scores(pairs(plan.terms))
    by_channel["grams"] = index.grams.scores(grams(plan.terms))
    by_channel["segment words"] = index.by_segment.scores(plan.terms)[index.owner]
    by_channel["segment"] = (index.segment_vectors @ first)[index.owner]
    captioned = np.array([bool(message.caption) for message in index.chat.messages])
    if captioned.any():
        by_channel["caption"] = np.where(captioned, index.captions.sentences @ raw, 0)
    for role, messages in index.encoded.items():
        for name, values in _by_vectors(messages, vectors[role], row, index.before).items():
            by_channel[f"{role} {name}".strip()] = values
    nothing = np.zeros(index.size)
    columns = []
    for name in CHANNELS:
        values = by_channel.get(name, nothing)
        columns.append(np.asarray(values, dtype=np.float32))
    return np.stack(columns, axis=1)


def _by_vectors(
    messages: encoders.Encoded, vectors: _QuestionVectors, row: int, before: NDArray[np.intp]
) -> dict[str, NDArray[np.floating]]:
    """The channels of one encoder."""
    first = messages.sentences @ vectors.first.sentences[row]
    second = messages.sentences @ vectors.second.sentences[row]
    matches = encoders.best_matches(vectors.first.of(row), messages)
    asked_matches = encoders.best_matches(vectors.second.of(row), messages)
    has_remark = (before >= 0)[:, None]
    with_remark = np.maximum(asked_matches, asked_matches[before])
    turns = np.where(has_remark, with_remark, asked_matches)
    excess = matches - matches.max(axis=0, initial=-1)
    channels: dict[str, NDArray[np.floating]] = {"first": first, "second": second}
    channels["raw"] = messages.sentences @ vectors.raw.sentences[row]
    channels["turn"] = second + _REMARK * _of_remark(second, before)
    channels["turn first"] = first + _REMARK * _of_remark(first, before)
    channels["tokens"] = _mean_of_tokens(matches)
    channels["turn tokens"] = _mean_of_tokens(turns)
    channels["telling tokens"] = matches @ _telling(matches)
    channels["weakest token"] = excess.min(axis=1, initial=0)
    return channels


def _mean_of_tokens(matches: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mean match of the question's tokens with each message; 0 for a question without tokens."""
    if not matches.shape[1]:
        return np.zeros(len(matches))
    mean: NDArray[np.floating] = matches.mean(axis=1)
    return mean


def _telling(matches: NDArray[np.floating]) -> NDArray[np.floating]:
    """The weight of each token of the question: how much its best match exceeds its mean match, squared."""
    if not len(matches):
        return np.zeros(matches.shape[1])
    best = matches.max(axis=0, initial=0)
    excess = np.square(best - matches.mean(axis=0))
    weight: NDArray[np.floating] = excess / max(float(excess.sum()), 1e-9)
    return weight


def _of_remark(values: Floats, before: NDArray[np.intp]) -> Floats:
    """The value of the remark before each message; the message's own where there is none."""
    remarks: Floats = np.where(before >= 0, values[before], values)
    return remarks


def fuse(
    index: ChatIndex,
    plan: QueryPlan,
    channels: Scores,
    weights: Mapping[str, float] | None = None,
    smoothing: tuple[float, float] = SMOOTHING,
) -> Floats:
    """First-stage score of every message, (messages,): weighted z-scores, smoothed over neighbours.

    Neighbours add ``smoothing`` of their score one and two messages away, inside the session. A message of
    the other speaker loses where the question names exactly one; a message written on a stated day or the two
    after it gains. Raises InputError for a weight of an unknown name.
    """
    if weights is None:
        weights = default_weights(index.encoder)
    parts = {name: zscore(values) for name, values in channels.items()}
    parts.update(_priors(index, plan))
    unknown = sorted(weights.keys() - parts.keys() - set(_OF_PLACE))
    if unknown:
        raise InputError(f"unknown channels {unknown}; expected some of {', '.join(sorted(parts))}")
    total = np.zeros(index.size)
    for name, weight in weights.items():
        if weight and name in parts:
            total += weight * parts[name]
    total = _smooth(total, index.session, smoothing)
    if len(plan.speakers) == 1:
        speakers = np.array([message.speaker for message in index.chat.messages])
        others = (speakers != plan.speakers[0]).astype(float)
        total += weights.get("other speaker", 0.0) * others
    total += weights.get("stated day", 0.0) * stated_day(index, plan)
    return total.astype(np.float32)


@cache
def default_weights(encoder: str) -> Mapping[str, float]:
    """The channel weights that go with an encoder."""
    tables = prompts.lists(_WEIGHTS)
    weights = dict(tables["weights"])
    if encoder == "hashing":
        weights.update(tables["spelling"])
    return weights


def _priors(index: ChatIndex, plan: QueryPlan) -> dict[str, NDArray[np.float64]]:
    """What makes a message likely to bear evidence whatever is asked; photos where they are wanted."""
    column = index.signals.column
    priors = {"length": zscore(np.log1p(column("length")))}
    priors["first_person"] = zscore(column("first_person"))
    priors["question"] = column("question").astype(float)
    priors["reaction"] = column("reaction").astype(float)
    priors["photo asked"] = column("photo").astype(float) * plan.photo
    return priors


def stated_day(index: ChatIndex, plan: QueryPlan) -> NDArray[np.float64]:
    """1 for messages written on a stated day or up to two days later (things are told afterwards)."""
    stated = np.zeros(index.size)
    for first, last in plan.windows:
        start = dt.date.fromisoformat(first).toordinal()
        end = dt.date.fromisoformat(last).toordinal() + _TOLD_WITHIN
        stated[(start <= index.days) & (index.days <= end)] = 1.0
    return stated


def zscore(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values in standard deviations from their mean; all 0 where they are alike."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    if spread <= 1e-9:
        return np.zeros(len(wide))
    scaled: NDArray[np.float64] = (wide - wide.mean()) / spread
    return scaled


def shifted(values: NDArray[Any], session: NDArray[np.intp], step: int) -> NDArray[Any]:
    """The value ``step`` messages before (after, where negative), along the last axis; 0 beyond a session."""
    source = np.arange(len(session)) - step
    inside = source.clip(0, len(session) - 1)
    same_session = (inside == source) & (session[inside] == session)
    return np.where(same_session, values[..., inside], 0)


def _smooth(
    values: NDArray[np.float64], session: NDArray[np.intp], shares: tuple[float, float]
) -> NDArray[np.float64]:
    """Values plus ``shares`` of the neighbours one and two messages away, never across sessions."""
    smooth = values.copy()
    for step, share in enumerate(shares, start=1):
        smooth += share * shifted(values, session, step)
        smooth += share * shifted(values, session, -step)
    return smooth


def ranking(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Positions from the best score to the worst; of equal scores the earlier message first."""
    return np.lexsort((np.arange(len(values)), -values))
