"""The concept extractors that the thesis had or compared: ``substring`` and ``embed`` are its own. All answer
for many texts at once and see concepts as codes of one :class:`ConceptSpace`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

import ahocorasick
import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, concept
from crs_lib.catalog.rules import Matcher
from crs_lib.core.text import fold, words
from crs_lib.metrics.extractors import EXTRACTORS, WORDS, Extractor, ExtractorInputs, memoised

__all__ = ["EXTRACTORS", "ConceptSpace", "ExtractorInputs", "create", "memoised"]
Sets = list[frozenset[int]]
_IN_WORD = re.compile(r"(?<=\w)(?=\w)")
_YEAR = re.compile(r"(?:18|19|20)\d\d")
_CHUNK = 2_000  # texts whose n-grams are counted at once


@dataclass(frozen=True, eq=False)
class ConceptSpace:
    """All concepts of a catalogue under one way of cleaning; a code is its place here, a field's are
    neighbours. ``value`` is the lower-case form that text is searched for, ``films`` counts films,
    ``all_keys`` are ``field=value``.
    """

    field: tuple[str, ...]
    value: tuple[str, ...]
    films: NDArray[np.int64]
    n_films: int
    all_keys: tuple[str, ...]

    @classmethod
    def of(cls, catalog: Catalog) -> "ConceptSpace":
        """The concepts of a cleaned catalogue, under the catalogue's own codes."""
        fields = catalog.vocabulary.field
        stripped = map(str.strip, catalog.vocabulary.value)
        values = tuple(map(str.lower, stripped))
        keys = tuple(map(concept, fields, values))
        return cls(fields, values, catalog.document_frequency, len(catalog), keys)

    @cached_property
    def fields(self) -> Mapping[str, range]:
        """The codes of each field, in a row, in the order of the codes."""
        codes: dict[str, range] = {}
        for code, name in enumerate(self.field):
            first = codes[name].start if name in codes else code
            codes[name] = range(first, code + 1)
        return codes

    @cached_property
    def code_of(self) -> Mapping[tuple[str, str], int]:
        """The code of a field and a value in its searched form."""
        pairs = list(zip(self.field, self.value, strict=True))
        return dict(zip(pairs, range(len(pairs)), strict=True))

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the films: ln((1+N)/(1+df)) + 1."""
        ratio = (1 + self.n_films) / (1 + self.films)
        return np.asarray(np.log(ratio) + 1)

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(map(self.all_keys.__getitem__, codes))


class _SpaceExtractor:
    """Finds the concepts of a concept space."""

    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space: ConceptSpace = inputs.space
        if self.space is None:
            assert inputs.catalog is not None
            self.space = ConceptSpace.of(inputs.catalog)

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        raise NotImplementedError


def create(spec: str, inputs: ExtractorInputs) -> Extractor:
    """The extractor of a name, made for a concept space; InputError with a suggestion for an unknown one."""
    if spec == WORDS and inputs.catalog is None:
        return _AnyWords(inputs)
    return EXTRACTORS.create(spec, inputs=inputs)


class _AnyWords(_SpaceExtractor):
    """Whole folded words, all overlapping matches, over a vocabulary that has no rules for everyday words."""

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        forms: dict[str, list[int]] = {}
        for code, value in enumerate(self.space.value):
            forms.setdefault(fold(value), []).append(code)
        forms.pop("", None)
        self._codes = list(forms.values())
        self._matcher = Matcher(list(forms))

    def sets(self, texts: Sequence[str]) -> Sets:
        sets = []
        for text in texts:
            codes: set[int] = set()
            for *_, form in self._matcher.find(words(text)):
                codes.update(self._codes[form])
            sets.append(frozenset(codes))
        return sets


class SubstringMatcher:
    """Patterns looked for in lower-cased text, inside words too. Source: Aho and Corasick (1975), CACM 18."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for number, pattern in enumerate(patterns):
            if pattern:
                _, same_form = self._automaton.get(pattern, (0, ()))
                self._automaton.add_word(pattern, (len(pattern), (*same_form, number)))
        self._automaton.make_automaton()

    def find(self, texts: Sequence[str], *, whole: bool = False) -> Sets:
        """The numbers of the patterns in each lower-cased text; ``whole``: at word boundaries alone."""
        if not len(self._automaton):
            return [frozenset()] * len(texts)
        return [self._find(text, whole) for text in texts]

    def _find(self, text: str, whole: bool) -> frozenset[int]:
        codes: set[int] = set()
        for last, (length, numbers) in self._automaton.iter(text):
            end = last + 1
            if whole and (_IN_WORD.match(text, end - length) or _IN_WORD.match(text, end)):
                continue
            codes.update(numbers)
        return frozenset(codes)


@EXTRACTORS.register("substring")
class _Substring(_SpaceExtractor):
    """Every value anywhere in the lower-cased text, also inside words (the thesis's "catalog")."""

    whole = False

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._matcher = SubstringMatcher(self.space.value)

    def sets(self, texts: Sequence[str]) -> Sets:
        lowered = list(map(str.lower, texts))
        return self._matcher.find(lowered, whole=self.whole)


@EXTRACTORS.register("rules")
class _Rules(_Substring):
    """Values between word boundaries, in the form that their field declares; years as the thesis's."""

    whole = True

    def sets(self, texts: Sequence[str]) -> Sets:
        return [codes & self._declared for codes in super().sets(texts)]

    @cached_property
    def _declared(self) -> frozenset[int]:
        """The codes of values in a declared form, or of fields that declare none."""
        forms = {}
        for name, field in FIELDS.items():
            forms[name] = re.compile(field.pattern or ".*", re.DOTALL)
        forms["year"] = _YEAR
        declared = set()
        pairs = zip(self.space.field, self.space.value, strict=True)
        for code, (name, value) in enumerate(pairs):
            if forms[name].fullmatch(value):
                declared.add(code)
        return frozenset(declared)


@EXTRACTORS.register("fuzzy")
class _Fuzzy(_Substring):
    """Substrings, and values of which every word is spelt almost like a word of the text (ratio ≥ 0.88).
    The ratio is 2M/T of matching characters (Ratcliff and Obershelp), that of difflib.
    """

    threshold = 0.88

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._length = []
        self._values_of: dict[str, list[int]] = {}
        for code, value in enumerate(self.space.value):
            tokens = set(re.findall(r"\w+", value))
            self._length.append(len(tokens))
            for token in tokens:
                self._values_of.setdefault(token, []).append(code)
        self.near = lru_cache(20_000)(self._near)

    def sets(self, texts: Sequence[str]) -> Sets:
        spelt = map(self._spelt, texts)
        return list(map(frozenset.union, super().sets(texts), spelt))

    def _near(self, word: str) -> list[str]:
        """The words of values that are spelt almost like a word."""
        most = max(1, len(self._values_of))
        return get_close_matches(word, self._values_of, most, self.threshold)

    def _spelt(self, text: str) -> frozenset[int]:
        near: set[str] = set()
        for word in set(re.findall(r"\w+", text.lower())):
            near.update(self.near(word))
        n_words: Counter[int] = Counter()
        for word in near:
            n_words.update(self._values_of[word])
        return frozenset(code for code, n in n_words.items() if n == self._length[code])


class _FieldVectors:
    """The values of a field as TF-IDF vectors, with weights learnt from these values."""

    def __init__(self, codes: range, counts: Any) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        own = counts[codes.start : codes.stop]
        self.first = codes.start
        self._columns = np.unique(own.indices)
        self._weigh = TfidfTransformer()
        values = self._weigh.fit_transform(own[:, self._columns])
        self._values = values.T.tocsr()

    def nearest(self, counts: Any, threshold: float, top: int) -> list[tuple[int, int]]:
        """The best values of each text, as (text, code); of equal cosines the first in the catalogue."""
        texts = self._weigh.transform(counts[:, self._columns])
        cosines = (texts @ self._values).tocoo()
        sure = cosines.data >= threshold
        rows = cosines.row[sure]
        columns = cosines.col[sure]
        order = np.lexsort((columns, -cosines.data[sure], rows))
        rows = rows[order]
        columns = columns[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        best = rank < top
        codes = columns[best] + self.first
        return list(zip(rows[best].tolist(), codes.tolist(), strict=True))


@EXTRACTORS.register("embed")
class _Embed(_SpaceExtractor):
    """Nearest values by character n-grams, as the thesis found them: a field's best three at 0.35 or more.
    The cosine is that of TF-IDF vectors over the character 3- to 5-grams of blank-padded words, the weights
    learnt from the field's own values. Of equal cosines the value that comes first in the catalogue goes
    first. A blank text has none.
    """

    threshold, top = 0.35, 3
    embedder = f"char_wb 3-5 TF-IDF, top {top} at {threshold:g}"

    def __init__(self, inputs: ExtractorInputs) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        super().__init__(inputs)
        self._grams = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), dtype=np.float64)
        counts = self._grams.fit_transform(self.space.value).tocsr()
        self._fields = [_FieldVectors(codes, counts) for codes in self.space.fields.values()]

    def sets(self, texts: Sequence[str]) -> Sets:
        sets: Sets = []
        for first in range(0, len(texts), _CHUNK):
            sets += self._nearest(texts[first : first + _CHUNK])
        return sets

    def _nearest(self, texts: Sequence[str]) -> Sets:
        """The codes of some texts, whose n-grams are counted at once."""
        counts = self._counted(texts)
        codes: dict[int, set[int]] = {}
        if counts is not None:
            for field in self._fields:
                for row, code in field.nearest(counts, self.threshold, self.top):
                    codes.setdefault(row, set()).add(code)
        return [frozenset(codes.get(row, ())) for row in range(len(texts))]

    def _counted(self, texts: Sequence[str]) -> Any:
        """How often each n-gram occurs in each text, by way of the distinct words; None without any word."""
        from sklearn.feature_extraction.text import CountVectorizer

        if not any(map(str.strip, texts)):
            return None
        counter = CountVectorizer(tokenizer=str.split, token_pattern=None, dtype=np.float64)
        counts = counter.fit_transform(texts)
        grams = self._grams.transform(counter.get_feature_names_out())
        return (counts @ grams).tocsr()


@EXTRACTORS.register("hybrid")
class _Hybrid(_SpaceExtractor):
    """``rules``; for fields still empty ``fuzzy``; for fields still empty then ``embed``."""

    embedder = _Embed.embedder

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        shared = inputs._replace(space=self.space)
        self._members = [_Rules(shared), _Fuzzy(shared), _Embed(shared)]

    def sets(self, texts: Sequence[str]) -> Sets:
        field = self.space.field
        sets: Sets = [frozenset()] * len(texts)
        for member in self._members:
            for row, codes in enumerate(member.sets(texts)):
                filled = set(map(field.__getitem__, sets[row]))
                sets[row] |= {code for code in codes if field[code] not in filled}
        return sets


@EXTRACTORS.register("llm", asks="crs_lib.thesis.asking")
class _Llm(_SpaceExtractor):
    """Concepts that a model names, one call a text.
    A name counts as the catalogue's value that equals the name, else as the first value that contains the
    name or is contained in it (the thesis's rule); names that the catalogue lacks are dropped. A text in
    which the model finds nothing has no concepts. (The thesis fell back on substrings there, and so mixed two
    methods in one column.)
    """

    def __init__(self, inputs: ExtractorInputs) -> None:
        from crs_lib.thesis.asking import Asker  # brings the clients of model servers

        super().__init__(inputs)
        self._asker = Asker(inputs.llm, "concept extractor llm")
        self.embedder = self._asker.name

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text; blank texts are not asked about."""
        fields = list(self.space.fields)
        to_read = list(filter(str.strip, texts))
        shape = json.dumps({name: ["..."] for name in fields})
        kinds = ", ".join(fields)
        replies = self._asker.lists("movies/concepts", to_read, fields, kinds=kinds, shape=shape)
        answers = dict(zip(to_read, replies, strict=True))
        return [self._codes(answers.get(text, {})) for text in texts]

    def _codes(self, answer: Mapping[str, Sequence[str]]) -> frozenset[int]:
        """The concepts that the names of an answer stand for."""
        codes = set()
        for field, names in answer.items():
            for name in names:
                code = self._code(field, name.strip().lower())
                if code is not None:
                    codes.add(code)
        return frozenset(codes)

    def _code(self, field: str, name: str) -> int | None:
        if not name:
            return None
        equal = self.space.code_of.get((field, name))
        if equal is not None:
            return equal
        for code in self.space.fields.get(field, ()):
            value = self.space.value[code]
            if name in value or value in name:
                return code
        return None
