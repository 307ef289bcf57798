"""Concept extractors by name: which concepts of a catalogue a text is said to contain.

``words`` is ours; ``substring`` and ``embed`` are the thesis's; the others are those it compared.
All answer for many texts at once and see concepts as codes of one :class:`ConceptSpace`.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.rules import Matcher
from crs_lib.core.registry import Registry
from crs_lib.core.text import fold, words
from crs_lib.thesis.concepts import ConceptSpace
from crs_lib.thesis.substrings import SubstringMatcher

if TYPE_CHECKING:
    from crs_lib.llm import LLM

Sets = list[frozenset[int]]


class ExtractorInputs(NamedTuple):
    """The inputs of an extractor. ``catalog`` is the cleaned catalogue if ``space`` holds its concepts.

    ``llm`` names a model as in ``ollama:mistral:7b``; only the extractor ``llm`` needs it.
    """

    space: ConceptSpace
    catalog: Catalog | None = None
    llm: "str | LLM" = ""


class Extractor(Protocol):
    """Finds concepts. ``embedder`` names the vectors that texts become; empty where strings are compared."""

    name: str
    embedder: str
    space: ConceptSpace

    def sets(self, texts: Sequence[str]) -> Sets: ...


EXTRACTORS: Registry[Extractor] = Registry("concept extractor")


def create(spec: str, inputs: ExtractorInputs) -> Extractor:
    """The extractor of a name, made for a concept space; InputError with a suggestion for an unknown one."""
    return EXTRACTORS.create(spec, inputs=inputs)


def memoised(extractor: Extractor, texts: Sequence[str]) -> dict[str, frozenset[int]]:
    """The concepts of every distinct text: each is looked at once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, extractor.sets(distinct), strict=True))


@EXTRACTORS.register("words", embedder="", inside_words=False)
class Words:
    """Whole folded words, all overlapping matches; everyday words count under declared rules (default).

    Over the thesis's vocabulary, which has no such rules, every whole-word match counts.
    """

    name = "words"
    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space
        self._find: Callable[[Sequence[str]], Sets]
        if inputs.catalog is not None:
            grounder = Grounder(inputs.catalog)
            self._find = lambda texts: grounder.ground(texts)
        else:
            self._compile()
            self._find = self._plain

    def _compile(self) -> None:
        forms: dict[str, list[int]] = {}
        for code, value in enumerate(self.space.value):
            if form := fold(value):
                forms.setdefault(form, []).append(code)
        self._codes = list(forms.values())
        self._matcher = Matcher(list(forms))

    def _plain(self, texts: Sequence[str]) -> Sets:
        return [
            frozenset(code for *_, form in self._matcher.find(words(text)) for code in self._codes[form])
            for text in texts
        ]

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        return self._find(texts)


class _ByValue:
    """Common to the extractors that look for the values themselves: one pattern per distinct value."""

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space
        codes: dict[str, list[int]] = {}
        for code, value in enumerate(self.space.value):
            codes.setdefault(value, []).append(code)
        self._codes = [tuple(found) for found in codes.values()]
        self._matcher = SubstringMatcher(list(codes))

    def _sets(self, texts: Sequence[str], *, whole: bool) -> Sets:
        found = self._matcher.find([text.lower() for text in texts], whole=whole)
        return [frozenset(chain.from_iterable(map(self._codes.__getitem__, row))) for row in found]


@EXTRACTORS.register("substring", embedder="", inside_words=True)
class Substring(_ByValue):
    """Every value anywhere in the lower-cased text, also inside words (the thesis's "catalog")."""

    name = "substring"
    embedder = ""

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        return self._sets(texts, whole=False)


@EXTRACTORS.register("rules", embedder="", inside_words=False)
class RuleExtractor(_ByValue):
    """Values between word boundaries, in the form that their field declares (years: 19xx or 20xx)."""

    name = "rules"
    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._forms = {name: re.compile(row.pattern) for name, row in FIELDS.items() if row.pattern}

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        field, value = self.space.field, self.space.value
        return [
            frozenset(
                c for c in codes if field[c] not in self._forms or self._forms[field[c]].fullmatch(value[c])
            )
            for codes in self._sets(texts, whole=True)
        ]


@EXTRACTORS.register("fuzzy", embedder="", inside_words=True)
class Fuzzy(Substring):
    """Substrings, and values of which every word is spelt almost like a word of the text (ratio ≥ 0.88)."""

    name = "fuzzy"
    threshold = 0.88

    def __init__(self, inputs: ExtractorInputs) -> None:
        from crs_lib.thesis.substrings import NearWords

        super().__init__(inputs)
        tokens = [tuple(dict.fromkeys(re.findall(r"\w+", value))) for value in self.space.value]
        self._near = NearWords(sorted({word for words in tokens for word in words}), self.threshold)
        self._values_of: dict[str, list[int]] = {}
        self._length = [len(found) for found in tokens]
        for code, found in enumerate(tokens):
            for word in found:
                self._values_of.setdefault(word, []).append(code)

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        plain = super().sets(texts)
        return [codes | self._spelt(text) for codes, text in zip(plain, texts, strict=True)]

    def _spelt(self, text: str) -> frozenset[int]:
        words = set(re.findall(r"\w+", text.lower()))
        near = {known for word in sorted(words) for known in self._near.of(word)}
        met: dict[int, int] = {}
        for known in near:
            for code in self._values_of[known]:
                met[code] = met.get(code, 0) + 1
        return frozenset(code for code, n in met.items() if n == self._length[code])


@EXTRACTORS.register("embed", embedder="char_wb 3-5 TF-IDF", inside_words=True)
def embed(inputs: ExtractorInputs) -> Extractor:
    """Nearest values by character n-grams: the best three per field with cosine ≥ 0.35 (published table)."""
    from crs_lib.thesis.embed import Embed

    return Embed(inputs.space)


@EXTRACTORS.register("hybrid", embedder="char_wb 3-5 TF-IDF", inside_words=True)
class Hybrid:
    """``rules``; for fields still empty ``fuzzy``; for fields still empty then ``embed``."""

    name = "hybrid"

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space
        self._members = [create(name, inputs) for name in ("rules", "fuzzy", "embed")]
        self.embedder = self._members[-1].embedder

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        found: list[frozenset[int]] = [frozenset()] * len(texts)
        for member in self._members:
            for row, codes in enumerate(member.sets(texts)):
                filled = {self.space.field[code] for code in found[row]}
                found[row] |= {code for code in codes if self.space.field[code] not in filled}
        return found


@EXTRACTORS.register("llm", embedder="", inside_words=False, needs="a model: --llm ollama:mistral:7b")
def llm(inputs: ExtractorInputs) -> Any:
    """One LLM call a text; names that the catalogue has count."""
    from crs_lib.thesis.asking import LlmExtractor

    return LlmExtractor(inputs.space, inputs.llm)
