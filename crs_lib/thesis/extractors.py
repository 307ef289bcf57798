"""Concept extractors by name: which concepts of a catalogue a text is said to contain. ``words`` is ours;
``substring`` and ``embed`` are the thesis's; the others are those it compared. All answer for many texts at
once and see concepts as codes of one :class:`ConceptSpace`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import ahocorasick
import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import FIELDS, concept
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.rules import Matcher
from crs_lib.core.settings import Registry
from crs_lib.core.text import fold, words

if TYPE_CHECKING:
    from crs_lib.llm import LLM

Sets = list[frozenset[int]]
_IN_WORD = re.compile(r"(?<=\w)(?=\w)")
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
        terms, films = catalog.vocabulary, catalog.document_frequency
        values = tuple(value.strip().lower() for value in terms.value)
        return cls(terms.field, values, films, len(catalog), tuple(map(concept, terms.field, values)))

    @cached_property
    def fields(self) -> Mapping[str, range]:
        """The codes of each field, in a row, in the order of the codes."""
        ends = [last for last, name in enumerate(self.field, start=1) if name not in self.field[last:]]
        return {self.field[first]: range(first, last) for first, last in pairwise([0, *ends])}

    @cached_property
    def code_of(self) -> Mapping[tuple[str, str], int]:
        """The code of a field and a value in its searched form."""
        return {pair: code for code, pair in enumerate(zip(self.field, self.value, strict=True))}

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequency of every concept over the films: ln((1+N)/(1+df)) + 1."""
        return np.asarray(np.log((1 + self.n_films) / (1 + self.films)) + 1)

    def keys(self, codes: Iterable[int]) -> list[str]:
        """The concept keys of codes, sorted."""
        return sorted(self.all_keys[code] for code in codes)


class ExtractorInputs(NamedTuple):
    """``catalog`` is the cleaned catalogue if ``space`` holds its concepts, ``llm`` a model's name."""

    space: ConceptSpace
    catalog: Catalog | None = None
    llm: "str | LLM" = ""


class Extractor:
    """Finds concepts. ``embedder`` names the vectors that texts become; empty where strings are compared."""

    embedder = ""

    def __init__(self, inputs: ExtractorInputs) -> None:
        self.space = inputs.space

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text."""
        raise NotImplementedError


EXTRACTORS: Registry[Extractor] = Registry("concept extractor")


def create(spec: str, inputs: ExtractorInputs) -> Extractor:
    """The extractor of a name, made for a concept space; InputError with a suggestion for an unknown one."""
    return EXTRACTORS.create(spec, inputs=inputs)


def memoised(extractor: Extractor, texts: Sequence[str]) -> dict[str, frozenset[int]]:
    """The concepts of every distinct text: each is looked at once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, extractor.sets(distinct), strict=True))


@EXTRACTORS.register("words")
class _Words(Extractor):
    """Whole folded words, all overlapping matches; everyday words count under declared rules (default).
    Over the thesis's vocabulary, which has no such rules, every whole-word match counts.
    """

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._grounder = None if inputs.catalog is None else Grounder(inputs.catalog)
        forms: dict[str, list[int]] = {}
        for code, value in enumerate(self.space.value if self._grounder is None else ()):
            forms.setdefault(fold(value), []).append(code)
        forms.pop("", None)
        self._codes, self._matcher = list(forms.values()), Matcher(list(forms))

    def sets(self, texts: Sequence[str]) -> Sets:
        if self._grounder is not None:
            return self._grounder.ground(texts)
        found = (self._matcher.find(words(text)) for text in texts)
        return [frozenset(code for *_, form in row for code in self._codes[form]) for row in found]


class _SubstringMatcher:
    """Patterns looked for in lower-cased text, inside words too. Source: Aho and Corasick (1975), CACM 18."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for number, pattern in enumerate(patterns):
            if pattern:
                _, others = self._automaton.get(pattern, (0, ()))
                self._automaton.add_word(pattern, (len(pattern), (*others, number)))
        self._automaton.make_automaton()

    def find(self, texts: Sequence[str], *, whole: bool = False) -> Sets:
        """The numbers of the patterns in each lower-cased text; ``whole``: at word boundaries alone."""
        return [frozenset(chain.from_iterable(self._found(text, whole))) for text in texts]

    def _found(self, text: str, whole: bool) -> Iterator[tuple[int, ...]]:
        """The numbers of each occurrence's pattern; there may be several patterns of one form."""
        for last, (length, numbers) in self._automaton.iter(text) if len(self._automaton) else ():
            if not whole or not any(_IN_WORD.match(text, at) for at in (last + 1 - length, last + 1)):
                yield numbers


@EXTRACTORS.register("substring")
class _Substring(Extractor):
    """Every value anywhere in the lower-cased text, also inside words (the thesis's "catalog")."""

    whole = False

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._matcher = _SubstringMatcher(self.space.value)

    def sets(self, texts: Sequence[str]) -> Sets:
        return self._matcher.find([text.lower() for text in texts], whole=self.whole)


@EXTRACTORS.register("rules")
class _Rules(_Substring):
    """Values between word boundaries, in the form that their field declares; years as the thesis's."""

    whole = True

    def sets(self, texts: Sequence[str]) -> Sets:
        return [codes & self._declared for codes in super().sets(texts)]

    @cached_property
    def _declared(self) -> frozenset[int]:
        """The codes of values in a declared form, or of fields that declare none."""
        form = {name: re.compile(row.pattern or ".*", re.DOTALL) for name, row in FIELDS.items()}
        form["year"] = re.compile(r"(?:18|19|20)\d\d")
        pairs = zip(self.space.field, self.space.value, strict=True)
        return frozenset(code for code, (name, value) in enumerate(pairs) if form[name].fullmatch(value))


@EXTRACTORS.register("fuzzy")
class _Fuzzy(_Substring):
    """Substrings, and values of which every word is spelt almost like a word of the text (ratio ≥ 0.88).
    The ratio is 2M/T of matching characters (Ratcliff and Obershelp), that of difflib.
    """

    threshold = 0.88

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        spelt = [set(re.findall(r"\w+", value)) for value in self.space.value]
        self._length = [len(tokens) for tokens in spelt]
        self._values_of: dict[str, list[int]] = {}
        for code, tokens in enumerate(spelt):
            for word in tokens:
                self._values_of.setdefault(word, []).append(code)
        most = max(1, len(self._values_of))  # the known words near a word:
        self._near = lru_cache(20_000)(
            lambda word: get_close_matches(word, self._values_of, most, self.threshold)
        )

    def sets(self, texts: Sequence[str]) -> Sets:
        return [codes | self._spelt(text) for codes, text in zip(super().sets(texts), texts, strict=True)]

    def _spelt(self, text: str) -> frozenset[int]:
        near = {known for word in set(re.findall(r"\w+", text.lower())) for known in self._near(word)}
        met = Counter(code for known in near for code in self._values_of[known])
        return frozenset(code for code, n in met.items() if n == self._length[code])


@EXTRACTORS.register("embed")
class _Embed(Extractor):
    """Nearest values by character n-grams, as the thesis found them: a field's best three at 0.35 or more.
    The cosine is that of TF-IDF vectors over the character 3- to 5-grams of blank-padded words, the weights
    learnt from the field's own values. Of equal cosines the value that comes first in the catalogue goes
    first. A blank text has none.
    """

    threshold, top = 0.35, 3
    embedder = f"char_wb 3-5 TF-IDF, top {top} at {threshold:g}"

    def __init__(self, inputs: ExtractorInputs) -> None:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        super().__init__(inputs)
        self._grams = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), dtype=np.float64)
        values = self._grams.fit_transform(self.space.value).tocsr()
        self._fields = []
        for codes in self.space.fields.values():
            mine = values[codes.start : codes.stop]
            columns, weigh = np.unique(mine.indices), TfidfTransformer()
            weighted = weigh.fit_transform(mine[:, columns]).T.tocsr()
            self._fields.append((codes.start, columns, weigh, weighted))

    def sets(self, texts: Sequence[str]) -> Sets:
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


@EXTRACTORS.register("hybrid")
class _Hybrid(Extractor):
    """``rules``; for fields still empty ``fuzzy``; for fields still empty then ``embed``."""

    embedder = _Embed.embedder

    def __init__(self, inputs: ExtractorInputs) -> None:
        super().__init__(inputs)
        self._members = [create(name, inputs) for name in ("rules", "fuzzy", "embed")]

    def sets(self, texts: Sequence[str]) -> Sets:
        found, field = [frozenset[int]()] * len(texts), self.space.field
        for member in self._members:
            for row, codes in enumerate(member.sets(texts)):
                filled = {field[code] for code in found[row]}
                found[row] |= {code for code in codes if field[code] not in filled}
        return found


@EXTRACTORS.register("llm")
class _Llm(Extractor):
    """Concepts that a model names, one call a text.
    A name counts as the catalogue's value that equals the name, else as the first value that contains the
    name or is contained in it (the thesis's rule); names that the catalogue lacks are dropped. A text in
    which the model finds nothing has no concepts. (The thesis fell back on substrings there, and so mixed two
    methods in one column.)
    """

    def __init__(self, inputs: ExtractorInputs) -> None:
        from crs_lib.thesis.asking import Asker

        super().__init__(inputs)
        self._ask = Asker(inputs.llm, "concept extractor llm")
        self.embedder = self._ask.name

    def sets(self, texts: Sequence[str]) -> Sets:
        """The codes of every text; blank texts are not asked about."""
        fields, asked = list(self.space.fields), [text for text in texts if text.strip()]
        shape = json.dumps({name: ["..."] for name in fields})
        replies = self._ask.lists("movies/concepts", asked, fields, kinds=", ".join(fields), shape=shape)
        answers = dict(zip(asked, replies, strict=True))
        return [frozenset(self._codes(answers.get(text, {}))) for text in texts]

    def _codes(self, answer: Mapping[str, Sequence[str]]) -> Iterator[int]:
        """The concepts that the names of an answer stand for."""
        values, codes = self.space.value, self.space.fields
        for name, given in answer.items():
            for wanted in filter(None, (one.strip().lower() for one in given)):
                mine = codes.get(name, ())
                near = (code for code in mine if wanted in values[code] or values[code] in wanted)
                equal = self.space.code_of.get((name, wanted))
                code = next(near, None) if equal is None else equal
                if code is not None:
                    yield code
