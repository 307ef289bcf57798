"""Concept extractors by name: which concepts of a catalogue a text is said to contain.

``words`` is ours; ``substring`` and ``embed`` are the thesis's; the others are those it compared.
All answer for many texts at once and see concepts as codes of one :class:`ConceptSpace`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import ahocorasick
import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.rules import Matcher
from crs_lib.core.settings import Registry
from crs_lib.core.text import fold, words

if TYPE_CHECKING:
    from crs_lib.llm import LLM

Sets = list[frozenset[int]]


_CHUNK = 2_000  # texts whose n-grams are counted at once


@dataclass(frozen=True, eq=False)
class ConceptSpace:
    """All concepts of a catalogue under one way of cleaning; a concept's code is its place here.

    ``value`` is the lower-case form that text is searched for; ``films`` counts the distinct films that
    have the concept. Concepts of one field are neighbours.
    """

    name: str
    field: tuple[str, ...]
    value: tuple[str, ...]
    films: NDArray[np.int64]
    n_films: int

    @classmethod
    def of(cls, catalog: Catalog) -> "ConceptSpace":
        """The concepts of a cleaned catalogue, under the catalogue's own codes."""
        terms = catalog.vocabulary
        values = tuple(value.strip().lower() for value in terms.value)
        return cls("cleaned", terms.field, values, catalog.document_frequency, len(catalog))

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields, in the order of their codes."""
        return tuple(name for name, _ in groupby(self.field))

    def codes_of(self, field: str) -> range:
        """The codes of a field, in a row; empty for a field without concepts."""
        first = self.field.index(field) if field in self.fields else 0
        return range(first, first + self.field.count(field))

    @cached_property
    def code_of(self) -> Mapping[tuple[str, str], int]:
        """The code of a field and a value in its searched form."""
        return {pair: code for code, pair in enumerate(zip(self.field, self.value, strict=True))}

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the films: ln((1+N)/(1+df)) + 1."""
        weights: NDArray[np.float64] = np.log((1 + self.n_films) / (1 + self.films)) + 1
        return weights

    def key(self, code: int) -> str:
        """``field=value`` of a code; for a cleaned catalogue folded, as everywhere else."""
        if self.name == "cleaned":
            return fields.concept(self.field[code], self.value[code])
        return f"{self.field[code]}={self.value[code]}"

    @cached_property
    def all_keys(self) -> tuple[str, ...]:
        """The key of every concept, by code."""
        return tuple(self.key(code) for code in range(len(self)))

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(self.key(code) for code in codes)


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
class _Words:
    """Whole folded words, all overlapping matches; everyday words count under declared rules (default).

    Over the thesis's vocabulary, which has no such rules, every whole-word match counts.
    """

    name = "words"
    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space
        self.sets: Callable[[Sequence[str]], Sets] = self._plain
        if inputs.catalog is not None:
            self.sets = Grounder(inputs.catalog).ground
            return
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


class SubstringMatcher:
    """Patterns looked for in lower-cased text, also inside words; a pattern's number is its place here.

    Source: Aho and Corasick (1975), CACM 18 (the package pyahocorasick).
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for number, pattern in enumerate(patterns):
            if pattern:
                _, others = self._automaton.get(pattern, (0, ()))
                self._automaton.add_word(pattern, (len(pattern), (*others, number)))
        self._automaton.make_automaton()

    def find(self, texts: Sequence[str], *, whole: bool = False) -> list[set[int]]:
        """The numbers of the patterns that occur in each text. Nothing is folded: give both lower-cased.

        ``whole`` keeps only occurrences that begin and end at a word boundary.
        """
        if not len(self._automaton):
            return [set() for _ in texts]
        return [
            {
                number
                for last, (length, numbers) in self._automaton.iter(text)
                if not whole or _at_boundaries(text, last + 1 - length, last + 1)
                for number in numbers
            }
            for text in texts
        ]


def _at_boundaries(text: str, start: int, end: int) -> bool:
    """Whether an occurrence cuts no word in two, neither where it begins nor where it ends."""
    inside = start > 0 and _word(text[start - 1]) and _word(text[start])
    return not inside and not (end < len(text) and _word(text[end]) and _word(text[end - 1]))


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


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
class _RuleExtractor(_ByValue):
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


_LETTERS = 64
_LONGEST = 100  # letters of a word that may be near to another; comparing takes the square of them


class NearWords:
    """Known words, sorted; :meth:`of` remembers the answers of the latest 20,000 words."""

    def __init__(self, known: Sequence[str], threshold: float) -> None:
        self.known = tuple(known)
        self.threshold = threshold
        self._endless = frozenset(word for word in self.known if len(word) > _LONGEST)
        self._counts = np.array([_letters(word) for word in self.known]).reshape(-1, _LETTERS)
        self._lengths = np.array([len(word) for word in self.known], dtype=np.int64)
        self.of = lru_cache(maxsize=20_000)(self._of)

    def _of(self, word: str) -> tuple[str, ...]:
        """The known words near ``word``, in order.

        The ratio is 2M/T of matching characters (Ratcliff and Obershelp). The letters alone
        exclude most words before the ratio is computed. A word of more than 100 letters is near to
        itself alone.
        """
        if len(word) > _LONGEST:
            return (word,) if word in self._endless else ()
        shared = np.minimum(self._counts, _letters(word)).sum(axis=1)
        enough = 2 * shared >= self.threshold * (self._lengths + len(word))
        matcher, found = SequenceMatcher(b=word, autojunk=False), []
        for row in np.flatnonzero(enough & (self._lengths <= _LONGEST)).tolist():
            matcher.set_seq1(self.known[row])
            if matcher.ratio() >= self.threshold:
                found.append(self.known[row])
        return tuple(found)


def _letters(word: str) -> NDArray[np.int64]:
    """How often each class of letters occurs in a word."""
    return np.bincount([ord(character) % _LETTERS for character in word], minlength=_LETTERS)


@EXTRACTORS.register("fuzzy", embedder="", inside_words=True)
class _Fuzzy(Substring):
    """Substrings, and values of which every word is spelt almost like a word of the text (ratio ≥ 0.88)."""

    name = "fuzzy"
    threshold = 0.88

    def __init__(self, inputs: ExtractorInputs) -> None:
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
        near = {known for word in set(re.findall(r"\w+", text.lower())) for known in self._near.of(word)}
        met = Counter(code for known in near for code in self._values_of[known])
        return frozenset(code for code, n in met.items() if n == self._length[code])


@EXTRACTORS.register("embed", embedder="char_wb 3-5 TF-IDF", inside_words=True)
class _Embed:
    """Nearest values by character n-grams, as the thesis found them: a field's best three at 0.35 or more.

    The cosine is that of TF-IDF vectors over the character 3- to 5-grams of blank-padded words, the weights
    learnt from the field's own values. Of equal cosines the value that comes first in the catalogue goes
    first. A blank text has none.
    """

    name = "embed"
    threshold, top = 0.35, 3

    def __init__(self, inputs: ExtractorInputs) -> None:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        self.space = inputs.space
        self.embedder = f"char_wb 3-5 TF-IDF, top {self.top} at {self.threshold:g}"
        self._grams = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), dtype=np.float64)
        values = self._grams.fit_transform(self.space.value).tocsr()
        self._fields = []
        for name in self.space.fields:
            codes = self.space.codes_of(name)
            mine = values[codes.start : codes.stop]
            columns, weigh = np.unique(mine.indices), TfidfTransformer()
            self._fields.append(
                (codes.start, columns, weigh, weigh.fit_transform(mine[:, columns]).T.tocsr())
            )

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        found: list[set[int]] = [set() for _ in texts]
        for first in range(0, len(texts), _CHUNK):
            counts = self._counted(texts[first : first + _CHUNK])
            for start, columns, weigh, values in self._fields if counts is not None else ():
                near = (weigh.transform(counts[:, columns]) @ values).tocoo()
                sure = near.data >= self.threshold
                rows, codes, cosine = near.row[sure], near.col[sure], near.data[sure]
                order = np.lexsort((codes, -cosine, rows))
                rows, codes = rows[order], codes[order]
                best = np.arange(len(rows)) - np.searchsorted(rows, rows) < self.top
                for row, code in zip(rows[best].tolist(), codes[best].tolist(), strict=True):
                    found[first + row].add(start + code)
        return [frozenset(codes) for codes in found]

    def _counted(self, texts: Sequence[str]) -> Any:
        """How often each n-gram occurs in each text, by way of the distinct words; None without any word."""
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(tokenizer=str.split, token_pattern=None, dtype=np.float64)
        if not any(map(str.strip, texts)):
            return None
        counts = counter.fit_transform(texts)
        return (counts @ self._grams.transform(counter.get_feature_names_out())).tocsr()


@EXTRACTORS.register("hybrid", embedder="char_wb 3-5 TF-IDF", inside_words=True)
class _Hybrid:
    """``rules``; for fields still empty ``fuzzy``; for fields still empty then ``embed``."""

    name = "hybrid"

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space
        self._members = [create(name, inputs) for name in ("rules", "fuzzy", "embed")]
        self.embedder = self._members[-1].embedder

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        found: Sets = [frozenset()] * len(texts)
        for member in self._members:
            for row, codes in enumerate(member.sets(texts)):
                filled = {self.space.field[code] for code in found[row]}
                found[row] |= {code for code in codes if self.space.field[code] not in filled}
        return found


@EXTRACTORS.register("llm", embedder="", inside_words=False, needs="a model: --llm ollama:mistral:7b")
class _LlmExtractor:
    """Concepts that a model names, one call a text.

    A name counts as the catalogue's value that equals the name, else as the first value that contains the
    name or is contained in it (the thesis's rule); names that the catalogue lacks are dropped. A text in
    which the model finds nothing has no concepts. (The thesis fell back on substrings there, and so mixed two
    methods in one column.)
    """

    name = "llm"

    def __init__(self, inputs: ExtractorInputs) -> None:
        from crs_lib.thesis.asking import Asker

        self.space = inputs.space
        self._ask = Asker(inputs.llm, "concept extractor llm")
        self.embedder = self._ask.name

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text; blank texts are not asked about."""
        asked = [text for text in texts if text.strip()]
        fields = self.space.fields
        shape = json.dumps({name: ["..."] for name in fields})
        replies = self._ask.lists("movies/concepts", asked, fields, kinds=", ".join(fields), shape=shape)
        answers = iter(replies)
        found = [next(answers) if text.strip() else {} for text in texts]
        return [
            frozenset(
                code
                for name, values in answer.items()
                for value in values
                if (code := self.code(name, value)) is not None
            )
            for answer in found
        ]

    def code(self, field: str, value: str) -> int | None:
        """The concept that a name stands for, None where the catalogue has none."""
        wanted = value.strip().lower()
        if not wanted or field not in self.space.fields:
            return None
        if (field, wanted) in self.space.code_of:
            return self.space.code_of[field, wanted]
        values = self.space.value
        return next(
            (c for c in self.space.codes_of(field) if wanted in values[c] or values[c] in wanted), None
        )
