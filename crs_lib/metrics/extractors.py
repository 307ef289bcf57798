"""Concept extractors by name: which concepts of a catalogue a text is said to contain. ``words`` is ours;
others are registered by clients. All answer for many texts at once.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.settings import Registry

if TYPE_CHECKING:
    from crs_lib.llm import LLM

WORDS = "words"


class ExtractorInputs(NamedTuple):
    """What an extractor is made of: the cleaned catalogue whose concepts it finds, or concepts cleaned in
    another way (``space``, of a client); ``llm`` is a model, or its name.
    """

    space: Any = None
    catalog: Catalog | None = None
    llm: "str | LLM" = ""


class Extractor(Protocol):
    """Finds concepts. ``embedder`` names the vectors that texts become; empty where strings are compared."""

    embedder: str

    def sets(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The codes of every text."""


EXTRACTORS: Registry[Extractor] = Registry("concept extractor")


@EXTRACTORS.register(WORDS, place=0)
class Words:
    """Whole folded words, all overlapping matches; everyday words count under declared rules (default)."""

    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        assert inputs.catalog is not None
        self._grounder = Grounder(inputs.catalog)

    def sets(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The codes of every text."""
        return self._grounder.ground(texts)


def memoised(extractor: Extractor, texts: Sequence[str]) -> dict[str, frozenset[int]]:
    """The concepts of every distinct text: each is looked at once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, extractor.sets(distinct), strict=True))
