"""Search systems: films found by the user's words, without a language model and without an oracle.

They fail in different ways: one that adds up all turns never forgets a constraint that was given up, one that
reads the last turn alone forgets those that still hold, and one that filters depends on its tracker.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crs_lib.core.errors import InputError
from crs_lib.retrieval.runs import Hit
from crs_lib.systems import film_search
from crs_lib.systems.base import N_ITEMS, SYSTEMS, World
from crs_lib.systems.film_search import VectorSearch, vector_search
from crs_lib.systems.policies import Recommender, Tracker

ENCODER = "minilm"


class TurnSearch(Recommender):
    """Base of the systems that search with the user's turns; a film named before comes after new ones."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: Any) -> None:
        super().__init__(world, seed, session, spec)
        self.index, self.argument = film_search.index(world.catalog), argument
        self.turns: list[str] = []

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """Nothing: the turns themselves are the query."""
        self.turns.append(text)
        return {}, {}

    def choose(self, constraints: Any, avoid: Any, draw: np.random.Generator) -> tuple[int, ...]:
        """The best films of the search; those that were recommended before fill up what is missing."""
        return unseen_first(self.search(N_ITEMS + len(self.seen)), self.seen)

    def search(self, k: int) -> list[Hit]:
        """The ``k`` best films for the conversation so far."""
        raise NotImplementedError


def unseen_first(hits: Sequence[Hit], seen: Sequence[int]) -> tuple[int, ...]:
    """The items of the best hits, those not seen before the others, each in the order of the hits."""
    items = [int(hit.id) for hit in hits]
    return tuple(sorted(items, key=lambda item: item in seen)[:N_ITEMS])


def _turns(argument: str) -> str:
    if argument not in ("all", "last"):
        raise InputError("give the turns to search with, all or last")
    return argument


@SYSTEMS.register("bm25", argument="the turns, all or last", example="last", default="all", parse=_turns)
class BM25Search(TurnSearch):
    """BM25 over all that the user said, or with ``bm25:last`` over the last turn alone."""

    def search(self, k: int) -> list[Hit]:
        """Films that share words with the turns."""
        return self.index.by_words("\n".join(self.turns if self.argument == "all" else self.turns[-1:]), k)


@SYSTEMS.register("dense", argument="an encoder", example="hashing@0.7", parse=vector_search)
class DenseSearch(TurnSearch):
    """Films near the turns' sentence vectors; the last turn counts 1, each earlier one less (@0.7)."""

    def search(self, k: int) -> list[Hit]:
        """The nearest films."""
        return self.index.by_vector(self.turns, self.how, k)

    @property
    def how(self) -> VectorSearch:
        """Encoder and decay."""
        found: VectorSearch = self.argument
        return found


@SYSTEMS.register("hybrid", argument="an encoder", example="hashing", default=ENCODER, parse=vector_search)
class HybridSearch(DenseSearch):
    """BM25 over all turns and ``dense``, fused by reciprocal ranks."""

    def search(self, k: int) -> list[Hit]:
        """The best films of both rankings."""
        return self.index.by_both(self.turns, self.how, k)


@SYSTEMS.register(
    "filter+dense", argument="an encoder", example="hashing", default=ENCODER, parse=vector_search
)
class FilteredSearch(Tracker):
    """Films that meet all tracked constraints, as far as any does, in the order of ``dense``."""

    honest = False

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: VectorSearch) -> None:
        super().__init__(world, seed, session, spec)
        self.index, self.how = film_search.index(world.catalog), argument
        self.turns: list[str] = []

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The tracked state; the turns order the films."""
        self.turns.append(text)
        return super().believe(turn, text, user_meta)

    def choose(
        self, constraints: Mapping[str, str], avoid: Mapping[str, str], draw: np.random.Generator
    ) -> tuple[int, ...]:
        """The nearest of the films that meet the constraints, relaxed where none does."""
        kept = set(self.world.catalog.query(constraints, relax=True).items.tolist())
        hits = self.index.by_vector(self.turns, self.how, len(self.index.texts))
        return unseen_first([hit for hit in hits if int(hit.id) in kept], self.seen)
