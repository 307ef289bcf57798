"""Features of a candidate for the re-ranker: channels, neighbours, signals, people, days, the question.

A new feature is one function of :class:`_Question` and its names in ``NAMES``; the learned rankers that come
with the package are then made anew (benchmarks/teach_ranker.py).
"""

import datetime as dt
import sys
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.channels import CHANNELS, Scores, ranking, shifted, stated_day, zscore
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.levels import COLUMNS
from crs_lib.realtalk.plan import KINDS, QueryPlan
from crs_lib.retrieval import encoders

Floats = NDArray[np.float32]
_Columns = dict[str, NDArray[Any]]
_TOP = 3  # how many of the first stage's best stand for "what an answer looks like"
_TENTH = 10
_FAR = 9.0  # days off, at most
_A_MONTH = 40  # days; a longer stretch names no day
_AROUND = ("fused", "tokens", "words", "second", "beside tokens", "tuned tokens")
_BEFORE = ("question", "length", "photo", "second_person")
_AFTER = ("question", "length", "photo", "reaction")


def _names() -> tuple[str, ...]:
    names = [f"z {name}" for name in CHANNELS]
    names += [f"gap {name}" for name in CHANNELS]
    names += ["fused", "fused rank", "fused gap", "fused margin"]
    for name in _AROUND:
        names += [f"{name} before", f"{name} after", f"{name} segment best"]
    names += ["like the best", "like the best, tokens", "like the best one", "segment like the best"]
    names += ["covered terms", "covered rarity", "rarest term", "terms in segment", "covered with before"]
    names += [f"own {name}" for name in COLUMNS]
    names += [f"before {name}" for name in _BEFORE]
    names += [f"after {name}" for name in _AFTER]
    names += ["same speaker as before", "speaker fits", "speaker differs", "people named"]
    names += ["day written", "day meant", "days off", "says when"]
    names += ["place in chat", "place in session", "segment size"]
    names += [f"asks {kind}" for kind in KINDS]
    names += ["asks photo", "asks many", "terms", "rarest asked", "parts", "best fused", "spread fused"]
    return tuple(names)


NAMES = _names()


def matrix(index: ChatIndex, plan: QueryPlan, channels: Scores, fused: Floats) -> Floats:
    """Features of every message for one question, (messages, len(NAMES)) float32.

    Everything is relative to the chat (z-scores, gaps to the best, ranks), so that a model learnt on some
    chats fits another. Nothing depends on annotations.
    """
    question = _Question(index, plan, channels, fused)
    columns = question.channels()
    columns.update(question.first_stage())
    columns.update(question.around())
    columns.update(question.like_the_best())
    columns.update(question.coverage())
    columns.update(question.signals())
    columns.update(question.people())
    columns.update(question.days())
    columns.update(question.positions())
    columns.update(question.facts())
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
        self.scaled = {name: zscore(values) for name, values in channels.items()}

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Positions in the order of the first stage."""
        return ranking(self.fused)

    def channels(self) -> _Columns:
        columns: _Columns = {}
        for name, values in self.scaled.items():
            columns[f"z {name}"] = values
            columns[f"gap {name}"] = values - values.max(initial=0)
        return columns

    def first_stage(self) -> _Columns:
        fused = self.fused
        rank = np.empty(len(fused))
        rank[self.order] = np.arange(len(fused))
        top = fused[self.order[:_TENTH]]
        columns: _Columns = {}
        columns["fused"] = fused
        columns["fused rank"] = np.log1p(rank)
        columns["fused gap"] = fused - top[0]
        columns["fused margin"] = fused - top[-1]
        return columns

    def around(self) -> _Columns:
        """The neighbours' scores inside the session, and the best of the segment."""
        index = self.index
        scaled = self.scaled | {"fused": zscore(self.fused)}
        columns: _Columns = {}
        for name in _AROUND:
            values = scaled[name]
            best = np.full(len(index.segments), -np.inf)
            np.maximum.at(best, index.owner, values)
            columns[f"{name} before"] = shifted(values, index.session, 1)
            columns[f"{name} after"] = shifted(values, index.session, -1)
            columns[f"{name} segment best"] = best[index.owner]
        return columns

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
        columns: _Columns = {}
        columns["like the best"] = near_all
        columns["like the best one"] = near_first
        columns["like the best, tokens"] = _token_matches(index, int(best[0]))
        columns["segment like the best"] = near_segment[index.owner]
        return columns

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
        columns: _Columns = {}
        columns["covered terms"] = has.sum(axis=1) / max(len(terms), 1)
        columns["covered rarity"] = has @ rarity / total
        columns["rarest term"] = (has * rarity).max(axis=1, initial=0)
        columns["terms in segment"] = (in_segment @ rarity / total)[index.owner]
        columns["covered with before"] = with_before @ rarity / total
        return columns

    def signals(self) -> _Columns:
        column = self.index.signals.column
        session = self.index.session
        columns: _Columns = {}
        for name in COLUMNS:
            columns[f"own {name}"] = column(name)
        for name in _BEFORE:
            columns[f"before {name}"] = shifted(column(name), session, 1)
        for name in _AFTER:
            columns[f"after {name}"] = shifted(column(name), session, -1)
        return columns

    def people(self) -> _Columns:
        index, speakers = self.index, self.plan.speakers
        messages = index.chat.messages
        names = np.array([message.speaker for message in messages])
        _, number = np.unique(names, return_inverse=True)
        same = (shifted(number + 1, index.session, 1) == number + 1).astype(float)
        fits, differs = np.full(index.size, 0.5), np.zeros(index.size)
        if len(speakers) == 1:
            fits = (names == speakers[0]).astype(float)
            differs = 1 - fits
        columns: _Columns = {}
        columns["same speaker as before"] = same
        columns["speaker fits"] = fits
        columns["speaker differs"] = differs
        columns["people named"] = np.full(index.size, float(len(speakers)))
        return columns

    def days(self) -> _Columns:
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
        columns: _Columns = {}
        columns["day written"] = stated_day(index, plan)
        columns["day meant"] = meant
        columns["days off"] = off
        columns["says when"] = index.signals.column("when_words") * asks_when
        return columns

    def positions(self) -> _Columns:
        index = self.index
        _, first, sizes = np.unique(index.session, return_index=True, return_counts=True)
        start, size = np.repeat(first, sizes), np.repeat(sizes, sizes)
        segment_sizes = np.bincount(index.owner).astype(float)
        columns: _Columns = {}
        columns["place in chat"] = np.arange(index.size) / max(index.size - 1, 1)
        columns["place in session"] = (np.arange(index.size) - start) / size
        columns["segment size"] = segment_sizes[index.owner]
        return columns

    def facts(self) -> _Columns:
        """Facts of the question, the same for all candidates: the meaning of the others depends on them."""
        index, plan = self.index, self.plan
        terms = set(plan.terms)
        counts = [len(index.having(term)) for term in terms]
        rarest = min(filter(None, counts), default=0)
        rarity = float(np.log1p(index.size / (1 + rarest)))
        facts: dict[str, float] = {}
        for kind in KINDS:
            facts[f"asks {kind}"] = float(plan.kind == kind)
        facts["asks photo"] = float(plan.photo)
        facts["asks many"] = float(plan.many)
        facts["terms"] = float(len(terms))
        facts["rarest asked"] = rarity if rarest else 0.0
        facts["parts"] = float(len(plan.parts))
        facts["best fused"] = float(self.fused.max(initial=0))
        facts["spread fused"] = float(self.fused.std())
        return {name: np.full(index.size, value) for name, value in facts.items()}


def _token_matches(index: ChatIndex, position: int) -> Floats:
    """Best token matches of one message in each; its own is that of the best other one."""

    def make(_: list[int]) -> list[Floats]:
        matches = encoders.max_sim(index.vectors.of(position), index.vectors)
        matches[position] = np.partition(matches, -2)[-2] if len(matches) > 1 else 0
        return [matches[:, None]]

    code = indexes.source_digest(sys.modules[__name__], encoders)
    key = (code, index.chat.digest, index.encoder, position)
    return indexes.stored([key], [position], make)[0][:, 0]
