"""Spellings of concepts, compiled: which codes the spellings found in a text stand for, under their rules."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.text import words
from crs_lib.grounding import hashing, scan_numba, scan_numpy
from crs_lib.grounding import rules as evidence
from crs_lib.grounding.grounded import Grounded
from crs_lib.grounding.hashing import Hits, Tables
from crs_lib.grounding.matcher import Hit, Matcher, cued


class Forms:
    """Folded spellings ("forms"), each with the codes that it stands for and their rules.

    Codes are numbers below ``n_codes``. ``everyday`` words are looked up last (:class:`Matcher`).
    ``compiled=False`` leaves the extra ``fast`` aside; what is found is the same.
    """

    def __init__(
        self,
        spellings: Mapping[str, Sequence[tuple[int, evidence.Rule]]],
        everyday: Container[str],
        n_codes: int,
        *,
        compiled: bool = True,
    ) -> None:
        self._texts = list(spellings)
        self._codes = [tuple(code for code, _ in pairs) for pairs in spellings.values()]
        self._rules = {
            number: [rule for _, rule in pairs]
            for number, pairs in enumerate(spellings.values())
            if any(rule is not evidence.no_rule for _, rule in pairs)
        }
        self._matcher = Matcher(self._texts, everyday)
        self._n_codes, self._compiled = max(1, n_codes), compiled

    def judged(self, near: evidence.Context) -> Iterator[tuple[int, int, int, str]]:
        """Every match in a text: its first and last + 1 word, its code, and why it does not count ("")."""
        for start, end, form in self._matcher.find(near.tokens):
            codes = self._codes[form]
            rules = self._rules.get(form, [evidence.no_rule] * len(codes))
            for code, rule in zip(codes, rules, strict=True):
                yield start, end, code, rule(near, start, end)

    def ground(self, texts: Sequence[str]) -> Grounded:
        """The codes that every text names: forms without a rule all at once, the others one by one."""
        hits = self._scan(texts)
        film = self._film[hits.form]
        free = ~self._has_rule[hits.form] | (film & (hits.near == 1))  # a film word is near: their only rule
        forms = hits.form[free]
        sizes = self._form_ends[forms + 1] - self._form_ends[forms]
        place = np.repeat(self._form_ends[forms + 1] - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        keys = np.repeat(hits.text[free].astype(np.int64), sizes) * self._n_codes + self._form_codes[place]
        marked = np.zeros(len(texts), dtype=bool)  # without a film word, only marks say that one is meant
        doubtful = np.unique(hits.text[film & ~free])
        marked[doubtful] = [evidence.has_marks(texts[row]) for row in doubtful.tolist()]
        ruled = ~free & (~film | marked[hits.text])
        accepted = np.fromiter(self._accepted(texts, hits.take(ruled)), np.int64)
        keys = np.sort(np.concatenate([keys, accepted]))
        rows, codes = np.divmod(keys[np.diff(keys, prepend=-1) > 0], self._n_codes)
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        return Grounded(starts.astype(np.int64), codes.astype(np.int32))

    def _accepted(self, texts: Sequence[str], hits: Hits) -> Iterator[int]:
        """``text * (number of codes) + code`` of the forms with a rule that their rules accept."""
        near: evidence.Context | None = None
        for row, start, end, form, _ in zip(*(column.tolist() for column in hits), strict=True):
            text = texts[row]
            if form in self._film_forms:  # no film word is near, or it would not be here
                if evidence.in_marks(text, self._texts[form]):
                    yield from (row * self._n_codes + code for code in self._codes[form])
                continue
            if near is None or near.text is not text:
                near = evidence.Context(text, words(text))
            for code, rule in zip(self._codes[form], self._rules[form], strict=True):
                if not rule(near, start, end):
                    yield row * self._n_codes + code

    def _scan(self, texts: Sequence[str]) -> Hits:
        """The hits of a batch; a single text is no reason to compile, nor for numpy."""
        if len(texts) > 1:
            return self._kernel(texts, self._tables)
        found = [
            (row, *hit, hit.form in self._film_forms and self._film_word_near(tokens, hit))
            for row, tokens in enumerate(map(words, texts))
            for hit in self._matcher.find(tokens)
        ]
        return Hits(*np.array(found, dtype=np.int32).reshape(-1, 5).T)

    @staticmethod
    def _film_word_near(tokens: Sequence[str], hit: Hit) -> bool:
        return cued(tokens, hit.start, hit.end, evidence.FILM_CUES, evidence.REACH)

    @cached_property
    def _kernel(self) -> Callable[[Sequence[str], Tables], Hits]:
        """The compiled one where the extra ``fast`` is installed."""
        return scan_numba.scan if self._compiled and scan_numba.available() else scan_numpy.scan

    @cached_property
    def _tables(self) -> Tables:
        return hashing.tables(self._matcher, self._film_forms, evidence.FILM_CUES, evidence.REACH)

    @cached_property
    def _film(self) -> NDArray[np.bool_]:
        """Which forms have the one rule that a film word is near."""
        return self._flags(self._film_forms)

    @cached_property
    def _film_forms(self) -> frozenset[int]:
        return frozenset(f for f, rules in self._rules.items() if set(rules) == {evidence.film_word})

    @cached_property
    def _has_rule(self) -> NDArray[np.bool_]:
        return self._flags(self._rules)

    def _flags(self, forms: Iterable[int]) -> NDArray[np.bool_]:
        flags = np.zeros(len(self._codes), dtype=bool)
        flags[list(forms)] = True
        return flags

    @cached_property
    def _form_ends(self) -> NDArray[np.int64]:
        """Where each form's codes begin in ``_form_codes``."""
        return np.concatenate([[0], np.cumsum([len(codes) for codes in self._codes])]).astype(np.int64)

    @cached_property
    def _form_codes(self) -> NDArray[np.int64]:
        return np.array([code for codes in self._codes for code in codes], dtype=np.int64)
