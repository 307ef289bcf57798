"""Features of a candidate for the re-ranker: channels, neighbours, signals, people, days, the question."""

import datetime as dt
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.channels import CHANNELS, ranking, shifted, stated_day, zscore
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.levels import COLUMNS
from crs_lib.realtalk.plan import KINDS, QueryPlan
from crs_lib.retrieval import encoders

Floats = NDArray[np.float32]
_Columns = dict[str, NDArray[Any]]
_TOP = 3  # how many of the first stage's best stand for "what an answer looks like"
_AROUND = ("fused", "tokens", "words", "second", "beside tokens", "tuned tokens")
NAMES = (
    *(f"z {name}" for name in CHANNELS),
    *(f"gap {name}" for name in CHANNELS),
    "fused", "fused rank", "fused gap", "fused margin",
    *(f"{name} {place}" for name in _AROUND for place in ("before", "after", "segment best")),
    "like the best", "like the best, tokens", "like the best one", "segment like the best",
    "covered terms", "covered rarity", "rarest term", "terms in segment", "covered with before",
    *(f"own {name}" for name in COLUMNS),
    *(f"before {name}" for name in ("question", "length", "photo", "second_person")),
    *(f"after {name}" for name in ("question", "length", "photo", "reaction")),
    "same speaker as before", "speaker fits", "speaker differs", "people named",
    "day written", "day meant", "days off", "says when", "place in chat", "place in session", "segment size",
    *(f"asks {kind}" for kind in KINDS),
    "asks photo", "asks many", "terms", "rarest asked", "parts", "best fused", "spread fused",
)  # fmt: skip


def matrix(index: ChatIndex, plan: QueryPlan, channels: Mapping[str, Floats], fused: Floats) -> Floats:
    """Features of every message for one question, (messages, len(NAMES)) float32. Everything is relative to
    the chat (z-scores, gaps to the best, ranks), so that a model learnt on some chats fits another. Nothing
    depends on annotations.
    """
    scaled = {name: zscore(values) for name, values in channels.items()}
    parts: _Columns = {
        **{f"z {name}": values for name, values in scaled.items()},
        **{f"gap {name}": values - values.max(initial=0) for name, values in scaled.items()},
        **_fused(fused), **_around(index, scaled, fused), **_like_the_best(index, fused),
        **_coverage(index, plan), **_signals(index), **_people_and_days(index, plan),
        **_question(index, plan, fused),
    }  # fmt: skip
    return np.stack([np.asarray(parts[name], dtype=np.float32) for name in NAMES], axis=1)


def _fused(fused: Floats) -> _Columns:
    order = ranking(fused)
    rank = np.empty(len(fused))
    rank[order] = np.arange(len(fused))
    top = fused[order[:10]]
    return {
        "fused": fused, "fused rank": np.log1p(rank), "fused gap": fused - (top[0] if len(top) else 0),
        "fused margin": fused - (top[-1] if len(top) else 0),
    }  # fmt: skip


def _around(index: ChatIndex, scaled: _Columns, fused: Floats) -> _Columns:
    """The neighbours' scores inside the session, and the best of the segment."""
    out: _Columns = {}
    for name in _AROUND:
        values = zscore(fused) if name == "fused" else scaled[name]
        out[f"{name} before"] = shifted(values, index.session, 1)
        out[f"{name} after"] = shifted(values, index.session, -1)
        best = np.full(len(index.segments), -np.inf)
        np.maximum.at(best, index.owner, values)
        out[f"{name} segment best"] = best[index.owner]
    return out


def _like_the_best(index: ChatIndex, fused: Floats) -> _Columns:
    """Pseudo relevance feedback: nearness to the mean of the first stage's three best, itself left out."""
    order = ranking(fused)[: _TOP + 1]
    vectors = index.vectors.sentences
    mean = vectors[order[:_TOP]].sum(axis=0)
    near = vectors @ mean / _TOP
    best = vectors @ vectors[order[0]]
    for i, place in enumerate(order[:_TOP]):  # a best message is compared with the others and the fourth
        others = [p for p in order if p != place]
        near[place] = float(vectors[place] @ vectors[others].sum(axis=0)) / max(len(others), 1)
        if i == 0 and len(order) > 1:
            best[place] = float(vectors[place] @ vectors[order[1]])
    segment = index.segment_vectors @ encoders.unit(mean[None])[0]
    return {
        "like the best": near, "like the best one": best,
        "like the best, tokens": _like(index, int(order[0])), "segment like the best": segment[index.owner],
    }  # fmt: skip


def _like(index: ChatIndex, place: int) -> Floats:
    """Best token matches of one message in each; its own is that of the best other one."""

    def make(_: list[int]) -> list[Floats]:
        tokens = encoders.max_sim(index.vectors.of(place), index.vectors)
        tokens[place] = np.partition(tokens, -2)[-2] if len(tokens) > 1 else 0
        return [tokens[:, None]]

    made_by = indexes.source_digest(sys.modules[__name__], encoders)
    key = (made_by, index.chat.digest, index.encoder, place)
    return indexes.kept_arrays([key], [place], make)[0][:, 0]


def _coverage(index: ChatIndex, plan: QueryPlan) -> _Columns:
    """How many of the question's terms a message has, plain and by rarity (idf)."""
    terms = sorted(set(plan.terms))
    has = np.zeros((index.size, len(terms)))
    for j, term in enumerate(terms):
        has[index.having(term), j] = 1
    rarity = np.log1p(index.size / (1 + has.sum(axis=0))) if terms else np.zeros(0)
    total = max(float(rarity.sum()), 1e-9)
    in_segment = np.zeros((len(index.segments), len(terms)))
    np.maximum.at(in_segment, index.owner, has)
    before = shifted(has.T, index.session, 1).T
    return {
        "covered terms": has.sum(axis=1) / max(len(terms), 1),
        "covered rarity": has @ rarity / total,
        "rarest term": (has * rarity).max(axis=1, initial=0),
        "terms in segment": (in_segment @ rarity / total)[index.owner],
        "covered with before": np.maximum(has, before) @ rarity / total,
    }


def _signals(index: ChatIndex) -> _Columns:
    column = index.signals.column
    found = {f"own {name}": column(name) for name in COLUMNS}
    for side, step, more in (("before", 1, "second_person"), ("after", -1, "reaction")):
        for name in ("question", "length", "photo", more):
            found[f"{side} {name}"] = shifted(column(name), index.session, step)
    return found


def _people_and_days(index: ChatIndex, plan: QueryPlan) -> _Columns:
    messages = index.chat.messages
    names = sorted({m.speaker for m in messages})
    speaker = np.array([names.index(m.speaker) for m in messages], dtype=float)
    named = len(plan.speakers)
    fits = np.array([float(m.speaker in plan.speakers) for m in messages])
    off, meant = np.full(index.size, 9.0), np.zeros(index.size)
    for first, last in plan.windows:
        start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
        off = np.fmin(off, np.minimum(np.abs(index.days - start.toordinal()), 9.0))
        for i, spans in enumerate(index.signals.days):
            if any(s.start <= end and s.end >= start and (s.end - s.start).days < 40 for s in spans):
                meant[i] = 1.0
    _, first_of, size = np.unique(index.session, return_index=True, return_counts=True)
    sizes = np.array([float(s.end - s.start) for s in index.segments])
    return {
        "same speaker as before": shifted(speaker + 1, index.session, 1) == speaker + 1,
        "speaker fits": fits if named == 1 else np.full(index.size, 0.5),
        "speaker differs": 1 - fits if named == 1 else np.zeros(index.size),
        "people named": np.full(index.size, float(named)), "day written": stated_day(index, plan),
        "day meant": meant, "days off": off,
        "says when": index.signals.column("when_words") * (plan.kind in ("when", "how long")),
        "place in chat": np.arange(index.size) / max(index.size - 1, 1),
        "place in session": (np.arange(index.size) - np.repeat(first_of, size)) / np.repeat(size, size),
        "segment size": sizes[index.owner],
    }  # fmt: skip


def _question(index: ChatIndex, plan: QueryPlan, fused: Floats) -> _Columns:
    """Facts of the question, the same for all its candidates: the others' meaning depends on them."""
    terms = set(plan.terms)
    counts = [found for found in (len(index.having(term)) for term in terms) if found]
    facts = {
        **{f"asks {kind}": float(plan.kind == kind) for kind in KINDS}, "asks photo": float(plan.photo),
        "asks many": float(plan.many), "terms": float(len(terms)),
        "rarest asked": float(np.log1p(index.size / (1 + min(counts)))) if counts else 0.0,
        "parts": float(len(plan.parts)), "best fused": float(fused.max(initial=0)),
        "spread fused": float(fused.std()) if len(fused) else 0.0,
    }  # fmt: skip
    return {name: np.full(index.size, value) for name, value in facts.items()}
