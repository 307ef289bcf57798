"""Re-rank the head of a ranking by looking at query and text together."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry
from crs_lib.core.text import words
from crs_lib.retrieval.hits import Hit, Ranking


class PairScorer(Protocol):
    """Scores texts for a query; higher is better, any range."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score a text, in order."""


RERANKERS: Registry[PairScorer] = Registry("re-ranker")


def rerank(
    query: str, ranking: Ranking, texts: Mapping[str, str], scorer: PairScorer, depth: int = 50
) -> list[Hit]:
    """The ranking with its first ``depth`` hits in the scorer's order; the rest follows unchanged.

    Equal scores keep their order. Scores become 1, 1/2, 1/3 … so that the two parts fit together.
    Raises InputError for a hit without text, or a scorer that returns another number of scores.
    """
    head, tail = list(ranking[:depth]), list(ranking[depth:])
    lacking = [hit.id for hit in head if hit.id not in texts]
    if lacking:
        raise InputError(f"no text for {len(lacking)} documents to re-rank, first {lacking[0]!r}")
    scores = list(scorer.score(query, [texts[hit.id] for hit in head])) if head else []
    if len(scores) != len(head):
        raise InputError(f"the re-ranker gave {len(scores)} scores for {len(head)} texts")
    order = sorted(range(len(head)), key=lambda i: -float(scores[i]))
    joined = [head[i] for i in order] + tail
    return [Hit(hit.id, 1 / place) for place, hit in enumerate(joined, start=1)]


@RERANKERS.register("coverage")
class Coverage:
    """Share of the query's distinct words that a text holds, in [0, 1]: the baseline to beat."""

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """1 where all words occur; 0 for a query without words."""
        wanted = set(words(query))
        return [len(wanted & set(words(text))) / len(wanted) if wanted else 0.0 for text in texts]


@RERANKERS.register("cross-encoder", argument="a model name or folder", example="my-model-folder")
class CrossEncoder:
    """A cross-encoder of the sentence-transformers package (not a dependency; loaded when made)."""

    def __init__(self, argument: str) -> None:
        """``argument`` is what the package accepts: a model name or a folder."""
        try:
            from sentence_transformers import CrossEncoder as Model  # type: ignore[import-not-found]
        except ImportError as error:
            raise InputError(
                "re-ranker 'cross-encoder' needs sentence-transformers: pip install sentence-transformers"
            ) from error
        self._model = Model(argument)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """The model's relevance of each (query, text) pair."""
        return [float(value) for value in self._model.predict([(query, text) for text in texts])]
