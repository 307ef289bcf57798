"""Search systems: films found by the user's words or vectors, without a language model and without an oracle.
They fail in different ways: one that adds up all turns never forgets a constraint that was given up, one that
reads the last turn alone forgets those that still hold, and one that filters depends on its tracker.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog import lexicon
from crs_lib.catalog.catalog import Catalog
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.text import words
from crs_lib.retrieval.bm25 import Lexical
from crs_lib.retrieval.encoders import ENCODERS, Floats, sentence_vectors
from crs_lib.retrieval.fusion import fuse
from crs_lib.retrieval.runs import Hit, named, top_k
from crs_lib.systems.base import N_ITEMS, SYSTEMS, Draw, Items, Wishes, World, share
from crs_lib.systems.policies import Recommender, Tracker

DEPTH = 100  # films of each ranking that a fusion looks at
DECAY, ENCODER = 0.7, "minilm"


class _VectorSearch(NamedTuple):
    """How turns become one vector: the encoder, and the weight of a turn for each later one."""

    encoder: str
    decay: float = DECAY


def _vector_search(argument: str) -> _VectorSearch:
    """``minilm`` or ``minilm@0.7`` read; InputError for an unknown encoder or a weight outside 0 to 1."""
    name, at, weight = argument.partition("@")
    ENCODERS.get(name)
    try:
        return _VectorSearch(name, share(weight) if at else DECAY)
    except InputError:
        told = f"give the weight of earlier turns as a number from 0 to 1, as in {name}@{DECAY}"
        raise InputError(told) from None


def _values(catalog: Catalog, item: int) -> str:
    """The values of a film in words, field by field."""
    found = catalog.items[item].values
    said = [", ".join(row.in_words(value) for value in found[name]) for name, row in catalog.fields.items()]
    return ". ".join(part for part in said if part)


class _FilmIndex:
    """The recommendable films by number: titles, values and plots as words, titles and values as vectors."""

    def __init__(self, catalog: Catalog) -> None:
        self.texts: dict[str, str] = {}
        weighted: dict[str, str] = {}  # a word of a value counts as three words of the title or the plot
        for item in np.flatnonzero(catalog.recommendable).tolist():
            film, said = catalog.items[item], _values(catalog, item)
            self.texts[str(item)] = f"{film.title}. {said}"
            weighted[str(item)] = f"{film.title}. {said} {said} {said} {film.plot}"
        self._ids, self._lexical = list(self.texts), Lexical(weighted)
        named = (words(value) for value in catalog.vocabulary.value)
        self._everyday = lexicon.words("common words").difference(*named)
        self._vectors: dict[str, Floats] = {}

    def by_words(self, query: str, k: int) -> list[Hit]:
        """The ``k`` best films by BM25; everyday words of the query count only if some value has them."""
        return self._lexical.search(" ".join(w for w in words(query) if w not in self._everyday), k)

    def by_vector(self, turns: Sequence[str], how: _VectorSearch, k: int) -> list[Hit]:
        """The ``k`` nearest films to the turns' vectors, a turn's weight falling with every later one."""
        query = np.zeros(1, np.float32)
        for later, turn in zip(reversed(range(len(turns))), turns, strict=True):
            query = query + np.float32(how.decay**later) * _vector(how.encoder, turn)
        with one_thread():
            if how.encoder not in self._vectors:
                self._vectors[how.encoder] = sentence_vectors(_model(how.encoder), list(self.texts.values()))
            cosines = (self._vectors[how.encoder] @ query).astype(np.float32)
        return named(self._ids, *top_k(cosines, k, above=-np.inf))

    def found(self, kind: str, how: _VectorSearch, turns: Sequence[str], k: int = 0) -> list[Hit]:
        """The ``k`` best films (0: all) by bm25, dense vectors, or both (hybrid), fused by their ranks."""
        k = k or len(self.texts)
        depth = max(k, DEPTH) if kind == "hybrid" else k
        rankings = [self.by_words("\n".join(turns), depth)] if kind != "dense" else []
        rankings += [self.by_vector(turns, how, depth)] if kind != "bm25" else []
        return fuse("rrf", rankings, k) if kind == "hybrid" else rankings[0]


def search_kind(spec: str) -> tuple[str, _VectorSearch]:
    """The kind and the vectors of ``bm25``, ``dense:<encoder>`` or ``hybrid:<encoder>``; else InputError."""
    kind, _, argument = spec.partition(":")
    if kind not in ("bm25", "dense", "hybrid") or bool(argument) != (kind != "bm25"):
        raise InputError(f"retriever {spec!r} is not known; give bm25, dense:<encoder> or hybrid:<encoder>")
    return kind, _vector_search(argument or "hashing")


index = lru_cache(maxsize=4)(_FilmIndex)  # of a catalogue, made once
_model = lru_cache(maxsize=None)(ENCODERS.create)


@lru_cache(maxsize=4096)  # the systems of a scenario hear mostly the same words
def _vector(encoder: str, text: str) -> Floats:
    with one_thread():
        vector: Floats = sentence_vectors(_model(encoder), [text])[0]
    return vector


class _TurnSearch(Recommender):
    """Base of the systems that search with the user's turns; a film named before comes after new ones."""

    kind = "dense"

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: Any) -> None:
        super().__init__(world, seed, session, spec)
        self.index, self.argument = index(world.catalog), argument
        self.turns: list[str] = []

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        """Nothing: the turns themselves are the query."""
        self.turns.append(text)
        return {}, {}

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The best films of the search; those that were recommended before fill up what is missing."""
        return _unseen_first(self.search(N_ITEMS + len(self.seen)), self.seen)

    def search(self, k: int) -> list[Hit]:
        """The ``k`` best films for the conversation so far; 0: all."""
        return self.index.found(self.kind, self.argument, self.turns, k)


def _unseen_first(hits: Sequence[Hit], seen: Sequence[int]) -> tuple[int, ...]:
    """The items of the best hits, those not seen before the others, each in the order of the hits."""
    items = [int(hit.id) for hit in hits]
    return tuple(sorted(items, key=lambda item: item in seen)[:N_ITEMS])


def _turns(argument: str) -> str:
    if argument not in ("all", "last"):
        raise InputError("give the turns to search with, all or last")
    return argument


@SYSTEMS.register("bm25", argument="the turns, all or last", example="last", default="all", parse=_turns)
class _BM25Search(_TurnSearch):
    """BM25 over all that the user said, or with ``bm25:last`` over the last turn alone."""

    def search(self, k: int) -> list[Hit]:
        return self.index.by_words("\n".join(self.turns if self.argument == "all" else self.turns[-1:]), k)


@SYSTEMS.register("dense", argument="an encoder", example="hashing@0.7", parse=_vector_search)
class _DenseSearch(_TurnSearch):
    """Films near the turns' sentence vectors; the last turn counts 1, each earlier one less (@0.7)."""


@SYSTEMS.register("hybrid", argument="an encoder", example="hashing", default=ENCODER, parse=_vector_search)
class _HybridSearch(_TurnSearch):
    """BM25 over all turns and ``dense``, fused by reciprocal ranks."""

    kind = "hybrid"


@SYSTEMS.register(
    "filter+dense", argument="an encoder", example="hashing", default=ENCODER, parse=_vector_search
)
class _FilteredSearch(_TurnSearch, Tracker):
    """Films that meet all tracked constraints, as far as any does, in the order of ``dense``."""

    honest = False

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> tuple[Wishes, Wishes]:
        """The tracked state; the turns order the films."""
        super().believe(turn, text, user_meta)
        return Tracker.believe(self, turn, text, user_meta)

    def choose(self, constraints: Wishes, avoid: Wishes, draw: Draw) -> Items:
        """The nearest of the films that meet the constraints, relaxed where none does."""
        kept = set(self.world.catalog.query(constraints, relax=True).items.tolist())
        hits = self.search(0)
        return _unseen_first([hit for hit in hits if int(hit.id) in kept], self.seen)
