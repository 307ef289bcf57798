"""Search: one score a message from each channel, added without learning; then candidates ranked anew.

First stage: channels are scored, and added as z-scores (:func:`fuse`). Second stage: a ranker scores the
candidates by the first stage itself, or by features as learnt on other chats.
"""

import datetime as dt
import gzip
import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import COLUMNS, ChatIndex, Positions, grams
from crs_lib.realtalk.wording import KINDS, QueryPlan, pairs
from crs_lib.retrieval import bm25, encoders

Values = NDArray[np.floating]
Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Scores = Mapping[str, Floats]  # by channel, one a message

# ── channels ─────────────────────────────────────────────────────────────────────────────────────────

# BM25 on content stems (names left out), on neighbouring stems, on character 4-grams, and of the segment.
_OF_WORDS = ("words", "pairs", "grams", "segment words")
# Sentence vectors of the question as it stands (raw), in the first person and as the other one would ask it
# (second), and with the remark before the message (turn). Token matches (MaxSim) in the first person, with
# the remark in the second, weighted by how few messages a query token matches (telling), and the worst: is
# everything there?
_TOKENS = ("tokens", "turn tokens", "telling tokens", "weakest token")
_OF_EVERY_ENCODER = ("raw", "first", "second", "turn", *_TOKENS)
# Those of the main encoder, with its channels for the segment and for the photo's caption.
_OF_THE_MAIN_ENCODER = ("raw", "first", "second", "segment", "turn", "turn first", *_TOKENS, "caption")
_BESIDE = tuple(f"beside {name}" for name in _OF_EVERY_ENCODER)
_TUNED = tuple(f"tuned {name}" for name in _OF_EVERY_ENCODER)
CHANNELS = (*_OF_WORDS, *_OF_THE_MAIN_ENCODER, *_BESIDE, *_TUNED)
SMOOTHING = (0.1, 0.03)  # shares of the neighbours one and two messages away
SPREAD: Mapping[str, float] = {"hashing": 4.0}  # how much wider first-stage scores lie than with MiniLM
_WEIGHTS = "realtalk/fusion"  # the file of weights
_OF_PLACE = ("other speaker", "stated day")  # weights that are added behind the smoothing
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
    code = indexes.source_digest(sys.modules[__name__], indexes, wording, encoders, bm25)
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
    raw, first, second = [], [], []
    for text, plan in questions:
        raw.append(text)
        first.append(plan.first_person)
        second.append(plan.second_person)
    vectors = {}
    for role in index.encoders:
        encoded = index.encode(raw, role)
        first_encoded = index.encode(first, role)
        vectors[role] = _QuestionVectors(encoded, first_encoded, index.encode(second, role))
    tables = []
    for row, (_, plan) in enumerate(questions):
        table = np.zeros((index.size, len(CHANNELS)), dtype=np.float32)
        for name, values in _by_channel(index, plan, vectors, row):
            if name in CHANNELS:
                table[:, CHANNELS.index(name)] = values
        tables.append(table)
    return tables


def _by_channel(
    index: ChatIndex, plan: QueryPlan, vectors: Mapping[str, _QuestionVectors], row: int
) -> Iterator[tuple[str, Values]]:
    """The scores of all messages for one question (``row`` of the vectors), channel by channel."""
    main = vectors[""]
    yield "words", index.words.scores(plan.terms)
    yield "pairs", index.pairs.scores(pairs(plan.terms))
    yield "grams", index.grams.scores(grams(plan.terms))
    yield "segment words", index.by_segment.scores(plan.terms)[index.owner]
    yield "segment", (index.segment_vectors @ main.first.sentences[row])[index.owner]
    captioned = np.array([bool(message.caption) for message in index.chat.messages])
    if captioned.any():
        yield "caption", np.where(captioned, index.captions.sentences @ main.raw.sentences[row], 0)
    for role, messages in index.encoded.items():
        for name, values in _by_vectors(messages, vectors[role], row, index.before):
            yield f"{role} {name}".strip(), values


def _by_vectors(
    messages: encoders.Encoded, vectors: _QuestionVectors, row: int, before: Positions
) -> Iterator[tuple[str, Values]]:
    """The channels of one encoder."""
    first = messages.sentences @ vectors.first.sentences[row]
    second = messages.sentences @ vectors.second.sentences[row]
    matches = encoders.best_matches(vectors.first.of(row), messages)
    asked_matches = encoders.best_matches(vectors.second.of(row), messages)
    with_remark = np.maximum(asked_matches, asked_matches[before])
    turns = np.where((before >= 0)[:, None], with_remark, asked_matches)
    excess = matches - matches.max(axis=0, initial=-1)
    yield "raw", messages.sentences @ vectors.raw.sentences[row]
    yield "first", first
    yield "second", second
    yield "turn", second + _REMARK * _of_remark(second, before)
    yield "turn first", first + _REMARK * _of_remark(first, before)
    yield "tokens", _mean_of_tokens(matches)
    yield "turn tokens", _mean_of_tokens(turns)
    yield "telling tokens", matches @ _telling(matches)
    yield "weakest token", excess.min(axis=1, initial=0)


def _mean_of_tokens(matches: Values) -> Values:
    """The mean match of the question's tokens with each message; 0 for a question without tokens."""
    if not matches.shape[1]:
        return np.zeros(len(matches))
    mean: Values = matches.mean(axis=1)
    return mean


def _telling(matches: Values) -> Values:
    """The weight of each token of the question: how much its best match exceeds its mean match, squared."""
    if not len(matches):
        return np.zeros(matches.shape[1])
    best = matches.max(axis=0, initial=0)
    excess = np.square(best - matches.mean(axis=0))
    weight: Values = excess / max(float(excess.sum()), 1e-9)
    return weight


def _of_remark(values: Floats, before: Positions) -> Floats:
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
    smooth = total.copy()
    for step, share in enumerate(smoothing, start=1):
        smooth += share * shifted(total, index.session, step)
        smooth += share * shifted(total, index.session, -step)
    if len(plan.speakers) == 1:
        smooth += weights.get("other speaker", 0.0) * (index.speakers != plan.speakers[0])
    smooth += weights.get("stated day", 0.0) * _stated_day(index, plan)
    return smooth.astype(np.float32)


@cache
def default_weights(encoder: str) -> Mapping[str, float]:
    """The channel weights that go with an encoder."""
    tables = prompts.lists(_WEIGHTS)
    weights = dict(tables["weights"])
    if encoder == "hashing":
        weights.update(tables["spelling"])
    return weights


def _priors(index: ChatIndex, plan: QueryPlan) -> dict[str, Floats64]:
    """What makes a message likely to bear evidence whatever is asked; photos where they are wanted."""
    column = index.signals.column
    priors = {"length": zscore(np.log1p(column("length")))}
    priors["first_person"] = zscore(column("first_person"))
    priors["question"] = column("question").astype(float)
    priors["reaction"] = column("reaction").astype(float)
    priors["photo asked"] = column("photo").astype(float) * plan.photo
    return priors


def _stated_day(index: ChatIndex, plan: QueryPlan) -> Floats64:
    """1 for messages written on a stated day or up to two days later (things are told afterwards)."""
    stated = np.zeros(index.size)
    for first, last in plan.windows:
        start = dt.date.fromisoformat(first).toordinal()
        end = dt.date.fromisoformat(last).toordinal() + _TOLD_WITHIN
        stated[(start <= index.days) & (index.days <= end)] = 1.0
    return stated


def zscore(values: Values) -> Floats64:
    """Values in standard deviations from their mean; all 0 where they are alike."""
    wide = values.astype(np.float64)
    spread = float(wide.std())
    if spread <= 1e-9:
        return np.zeros(len(wide))
    scaled: Floats64 = (wide - wide.mean()) / spread
    return scaled


def shifted(values: NDArray[Any], session: Positions, step: int) -> NDArray[Any]:
    """The value ``step`` messages before (after, where negative), along the last axis; 0 beyond a session."""
    source = np.arange(len(session)) - step
    inside = source.clip(0, len(session) - 1)
    same_session = (inside == source) & (session[inside] == session)
    return np.where(same_session, values[..., inside], 0)


def ranking(values: Values) -> Positions:
    """Positions from the best score to the worst; of equal scores the earlier message first."""
    return np.lexsort((np.arange(len(values)), -values))


# ── features of a candidate ──────────────────────────────────────────────────────────────────────────
# A new feature is a yield of ``_Question`` and its name in ``NAMES``; the learned rankers that come with the
# package are then made anew (benchmarks/teach_ranker.py).

_Columns = Iterator[tuple[str, NDArray[Any]]]
_TOP = 3  # how many of the first stage's best stand for "what an answer looks like"
_TENTH = 10
_FAR = 9.0  # days off, at most
_A_MONTH = 40  # days; a longer stretch names no day
_AROUND = ("fused", "tokens", "words", "second", "beside tokens", "tuned tokens")
_BEFORE = ("question", "length", "photo", "second_person")
_AFTER = ("question", "length", "photo", "reaction")


def _each(word: str, names: Sequence[str]) -> list[str]:
    return [f"{word} {name}" for name in names]


def _names() -> tuple[str, ...]:
    """The names of all features, in the order of their columns."""
    names = _each("z", CHANNELS) + _each("gap", CHANNELS)
    names += ["fused", "fused rank", "fused gap", "fused margin"]
    for name in _AROUND:
        names += [f"{name} before", f"{name} after", f"{name} segment best"]
    names += ["like the best", "like the best, tokens", "like the best one", "segment like the best"]
    names += ["covered terms", "covered rarity", "rarest term", "terms in segment", "covered with before"]
    names += _each("own", COLUMNS) + _each("before", _BEFORE) + _each("after", _AFTER)
    names += ["same speaker as before", "speaker fits", "speaker differs", "people named"]
    names += ["day written", "day meant", "days off", "says when"]
    names += ["place in chat", "place in session", "segment size"]
    names += _each("asks", KINDS)
    names += ["asks photo", "asks many", "terms", "rarest asked", "parts", "best fused", "spread fused"]
    return tuple(names)


NAMES = _names()


def matrix(index: ChatIndex, plan: QueryPlan, channels: Scores, fused: Floats) -> Floats:
    """Features of every message for one question, (messages, len(NAMES)) float32.

    Everything is relative to the chat (z-scores, gaps to the best, ranks), so that a model learnt on some
    chats fits another. Nothing depends on annotations.
    """
    question = _Question(index, plan, channels, fused)
    of_search = (question.channels(), question.first_stage(), question.neighbours(), question.like_the_best())
    of_words = (question.coverage(), question.signals(), question.people(), question.days())
    columns = dict(itertools.chain(*of_search, *of_words, question.positions(), question.facts()))
    table = np.empty((index.size, len(NAMES)), dtype=np.float32)
    for number, name in enumerate(NAMES):
        table[:, number] = columns[name]
    return table


class _Question:
    """One planned question to one chat, with its scores of the first stage."""

    def __init__(self, index: ChatIndex, plan: QueryPlan, channels: Scores, fused: Floats) -> None:
        self.index = index
        self.plan = plan
        self.fused = fused
        self.order = ranking(fused)
        self.scaled = {name: zscore(values) for name, values in channels.items()}

    def channels(self) -> _Columns:
        for name, values in self.scaled.items():
            yield f"z {name}", values
            yield f"gap {name}", values - values.max(initial=0)

    def first_stage(self) -> _Columns:
        """The fused score of each message, its rank, and its distance from the first and the tenth."""
        rank = np.empty(len(self.fused))
        rank[self.order] = np.arange(len(self.fused))
        top = self.fused[self.order[:_TENTH]]
        yield "fused", self.fused
        yield "fused rank", np.log1p(rank)
        yield "fused gap", self.fused - top[0]
        yield "fused margin", self.fused - top[-1]

    def neighbours(self) -> _Columns:
        """The neighbours' scores inside the session, and the best of the segment."""
        index = self.index
        scaled = self.scaled | {"fused": zscore(self.fused)}
        for name in _AROUND:
            values = scaled[name]
            best = np.full(len(index.segments), -np.inf)
            np.maximum.at(best, index.owner, values)
            yield f"{name} before", shifted(values, index.session, 1)
            yield f"{name} after", shifted(values, index.session, -1)
            yield f"{name} segment best", best[index.owner]

    def like_the_best(self) -> _Columns:
        """Pseudo relevance feedback: nearness to the mean of the first stage's three best without itself."""
        index = self.index
        best = self.order[: _TOP + 1]
        vectors = index.vectors.sentences
        mean = vectors[best[:_TOP]].sum(axis=0)
        near_all = vectors @ mean / _TOP
        for position in best[:_TOP]:  # a best message is compared with the others and the fourth
            others = best[best != position]
            nearness = float(vectors[position] @ vectors[others].sum(axis=0))
            near_all[position] = nearness / max(len(others), 1)
        near_first = vectors @ vectors[best[0]]
        if len(best) > 1:
            near_first[best[0]] = float(vectors[best[0]] @ vectors[best[1]])
        near_segment = index.segment_vectors @ encoders.unit(mean[None])[0]
        yield "like the best", near_all
        yield "like the best one", near_first
        yield "like the best, tokens", _token_matches(index, int(best[0]))
        yield "segment like the best", near_segment[index.owner]

    def coverage(self) -> _Columns:
        """How many of the question's terms a message has, plain and by rarity (idf)."""
        index = self.index
        terms = sorted(set(self.plan.terms))
        has = np.zeros((index.size, len(terms)))
        for column, term in enumerate(terms):
            has[index.having(term), column] = 1
        rarity = np.log1p(index.size / (1 + has.sum(axis=0)))
        total = max(float(rarity.sum()), 1e-9)
        in_segment = np.zeros((len(index.segments), len(terms)))
        np.maximum.at(in_segment, index.owner, has)
        with_before = np.maximum(has, shifted(has.T, index.session, 1).T)
        yield "covered terms", has.sum(axis=1) / max(len(terms), 1)
        yield "covered rarity", has @ rarity / total
        yield "rarest term", (has * rarity).max(axis=1, initial=0)
        yield "terms in segment", (in_segment @ rarity / total)[index.owner]
        yield "covered with before", with_before @ rarity / total

    def signals(self) -> _Columns:
        """The signals of each message and some of those before and after it."""
        column = self.index.signals.column
        session = self.index.session
        for name in COLUMNS:
            yield f"own {name}", column(name)
        for name in _BEFORE:
            yield f"before {name}", shifted(column(name), session, 1)
        for name in _AFTER:
            yield f"after {name}", shifted(column(name), session, -1)

    def people(self) -> _Columns:
        """Whether the person whom the question names wrote the message."""
        index, speakers = self.index, self.plan.speakers
        _, number = np.unique(index.speakers, return_inverse=True)
        fits, differs = np.full(index.size, 0.5), np.zeros(index.size)
        if len(speakers) == 1:
            fits = (index.speakers == speakers[0]).astype(float)
            differs = 1 - fits
        yield "same speaker as before", shifted(number + 1, index.session, 1) == number + 1
        yield "speaker fits", fits
        yield "speaker differs", differs
        yield "people named", np.full(index.size, float(len(speakers)))

    def days(self) -> _Columns:
        """How far the day of a message, and the days that it speaks of, lie from those of the question."""
        index, plan = self.index, self.plan
        off, meant = np.full(index.size, _FAR), np.zeros(index.size)
        for first, last in plan.windows:
            start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
            distance = np.abs(index.days - start.toordinal())
            off = np.fmin(off, np.minimum(distance, _FAR))
            for position, spans in enumerate(index.signals.days):
                for span in spans:
                    overlaps = span.start <= end and span.end >= start
                    if overlaps and (span.end - span.start).days < _A_MONTH:
                        meant[position] = 1.0
        asks_when = plan.kind in ("when", "how long")
        yield "day written", _stated_day(index, plan)
        yield "day meant", meant
        yield "days off", off
        yield "says when", index.signals.column("when_words") * asks_when

    def positions(self) -> _Columns:
        """Where a message stands in its chat and session, and how long its segment is."""
        index = self.index
        _, first, sizes = np.unique(index.session, return_index=True, return_counts=True)
        start, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
        segment_sizes = np.bincount(index.owner).astype(float)
        yield "place in chat", np.arange(index.size) / max(index.size - 1, 1)
        yield "place in session", (np.arange(index.size) - start) / size
        yield "segment size", segment_sizes[index.owner]

    def facts(self) -> _Columns:
        """Facts of the question, the same for all candidates: the meaning of the others depends on them."""
        plan = self.plan
        for name, fact in self._facts().items():
            yield name, np.full(self.index.size, float(fact))
        for kind in KINDS:
            yield f"asks {kind}", np.full(self.index.size, float(plan.kind == kind))

    def _facts(self) -> dict[str, float]:
        """The facts of the question by name."""
        plan = self.plan
        terms = set(plan.terms)
        counts = [len(self.index.having(term)) for term in terms]
        rarest = min(filter(None, counts), default=0)
        rarity = float(np.log1p(self.index.size / (1 + rarest)))
        facts: dict[str, float] = {"asks photo": plan.photo, "asks many": plan.many}
        facts["terms"] = len(terms)
        facts["rarest asked"] = rarity if rarest else 0.0
        facts["parts"] = len(plan.parts)
        facts["best fused"] = self.fused.max(initial=0)
        facts["spread fused"] = self.fused.std()
        return facts


def _token_matches(index: ChatIndex, position: int) -> Floats:
    """Best token matches of one message in each; its own is that of the best other one."""

    def make(_: list[int]) -> list[Floats]:
        matches = encoders.max_sim(index.vectors.of(position), index.vectors)
        matches[position] = np.partition(matches, -2)[-2] if len(matches) > 1 else 0
        return [matches[:, None]]

    code = indexes.source_digest(sys.modules[__name__], encoders)
    key = (code, index.chat.digest, index.encoder, position)
    return indexes.stored([key], [position], make)[0][:, 0]


# ── rankers ──────────────────────────────────────────────────────────────────────────────────────────

SHIPPED = Path(__file__).with_name("rankers.json.gz")
SHARE, LEAST = 0.25, 60  # of a chat's messages: the share that becomes candidates, at least so many
FURTHEST = 4.0  # standard deviations that a feature counts at most


class Ranker(Protocol):
    """Scores candidates of a question by features, first-stage scores or texts. ``name`` says what it is,
    ``origin`` what it was learnt from, ``unit`` the difference of scores that selection counts as one step.
    """

    name: str
    origin: str
    unit: float

    def score(self, features: Floats, fused: Floats, question: str, texts: Sequence[str], /) -> Floats: ...


class Hand:
    """The first stage's own order: no learning."""

    name, origin, unit = "hand", "no training data", 0.75

    def score(self, features: Floats, fused: Floats, *_: object) -> Floats:
        """The first-stage scores as they are, (candidates,)."""
        return fused


@dataclass(frozen=True)
class LinearModel:
    """A logistic regression on standardised features: (features,) each, and the bias of the log-odds."""

    mean: Floats64
    scale: Floats64
    weights: Floats64
    bias: float

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "LinearModel":
        """The model of its record of numbers."""
        mean, scale, weights = (np.asarray(record[name]) for name in ("mean", "scale", "weights"))
        return cls(mean, scale, weights, float(record["bias"]))

    def standardised(self, features: Floats) -> Floats64:
        """Features in standard deviations from the mean, in [-FURTHEST, FURTHEST]: a message unlike any that
        was learnt from must not win by one huge feature.
        """
        deviations = (features.astype(np.float64) - self.mean) / self.scale
        return np.clip(deviations, -FURTHEST, FURTHEST)

    def log_odds(self, features: Floats) -> Floats64:
        """The log-odds of each candidate, (candidates,)."""
        return self.standardised(features) @ self.weights + self.bias


class Learned:
    """The mean of boosted trees that order candidates (LambdaMART, four seeds) and a logistic regression.

    The two err differently: together they rank better than either. Without LightGBM the regression stands
    alone, and ``name`` says so. The trees' scores of the same candidates are kept on disk, so that a second
    run does without LightGBM. ``models`` are LightGBM's model texts; ``origin`` says in words what all was
    learnt from. Source: Burges (2010), From RankNet to LambdaRank to LambdaMART; Ke et al. (2017), LightGBM.
    """

    unit = 1.0

    def __init__(self, linear: LinearModel, models: Sequence[str], origin: str) -> None:
        self.name = "learned" if models else "linear"
        self.origin = origin
        self._linear = linear
        self._models = tuple(models)

    def score(self, features: Floats, fused: Floats, *_: object) -> Floats:
        """Scores of candidates, (candidates,); comparable inside one question only."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        by_line = self._linear.log_odds(features)
        if not self._models:
            return by_line.astype(np.float32)
        candidates = hashlib.sha256(features.tobytes()).hexdigest()
        key = ("trees", self._digest, candidates)
        (by_trees,) = indexes.stored([key], [features], self._by_trees)
        return ((by_line + by_trees[:, 0]) / 2).astype(np.float32)

    def _by_trees(self, tables: Sequence[Floats]) -> list[Floats]:
        """The trees' mean for each table of features, (candidates, 1)."""
        means = []
        for features in tables:
            by_seed = [booster.predict(features, num_threads=1) for booster in self._boosters]
            mean = np.stack(by_seed, axis=1).mean(axis=1, keepdims=True)
            means.append(mean.astype(np.float32))
        return means

    @cached_property
    def _boosters(self) -> list[Any]:
        lightgbm = need_trees()
        return [lightgbm.Booster(model_str=text) for text in self._models]

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self._models).encode()).hexdigest()


class ShippedRanker(NamedTuple):
    """A ranker that comes with the package and the sketches of the chats that taught it. It holds numbers
    only: weights and thresholds of features, no word of any chat.
    """

    ranker: Learned
    sketches: Sequence[Sequence[int]]

    def knows(self, chat: Chat) -> bool:
        """Whether the chat was among those that taught it."""
        return any(corpus.resembles(chat.sketch, sketch) for sketch in self.sketches)


def shipped(encoder: str) -> ShippedRanker | None:
    """The ranker that comes with the package for an encoder; None where there is none for this encoder, or
    the features have changed since it was made.
    """
    if not SHIPPED.is_file():
        return None
    record = json.loads(gzip.decompress(SHIPPED.read_bytes()))
    weights = record["rankers"].get(encoder)
    if weights is None or record["features"] != features_key():
        return None
    models = weights["models"] if has_trees() else []
    ranker = Learned(LinearModel.from_json(weights["linear"]), models, record["origin"])
    return ShippedRanker(ranker, record["sketches"])


def features_key() -> str:
    """16 hex digits of the names of all features, in order."""
    return hashlib.sha256("\n".join(NAMES).encode()).hexdigest()[:16]


def has_trees() -> bool:
    """Whether LightGBM is installed."""
    return find_spec("lightgbm") is not None


def need_trees() -> Any:
    """LightGBM; InputError where it is not installed."""
    try:
        import lightgbm
    except ImportError as error:
        raise InputError('the learned ranker needs LightGBM; pip install "crs-lib[memory]"') from error
    return lightgbm


def depth(messages: int, share: float = SHARE) -> int:
    """How many candidates a chat of so many messages gives: a quarter of it, at least 60, at most all."""
    return min(messages, max(LEAST, int(share * messages)))
