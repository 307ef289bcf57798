"""Spellings of concepts ("forms") and their rules: the codes of the concepts that texts name."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.index import Codes
from crs_lib.grounding import rules as evidence
from crs_lib.grounding.matcher import Matcher
from crs_lib.grounding.scan import FormHits, FormTables, form_tables, scan


@dataclass(frozen=True)
class Grounded:
    """The concept codes of many texts: text ``i`` has ``codes[starts[i]:starts[i + 1]]``, ascending."""

    starts: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int) -> Codes:
        return self.codes[self.starts[text] : self.starts[text + 1]]

    def take(self, rows: NDArray[np.int64]) -> "Grounded":
        """The texts of these rows, in this order, repetitions included."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        place = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Grounded(starts, self.codes[place])

    def sets(self) -> list[frozenset[int]]:
        """The codes of every text as a set."""
        codes, starts = self.codes.tolist(), self.starts.tolist()
        return [frozenset(codes[a:b]) for a, b in pairwise(starts)]


def joined(parts: Sequence[Grounded]) -> Grounded:
    """Batches end to end."""
    sizes = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(part.starts) for part in parts)])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grounded(starts, np.concatenate([np.zeros(0, dtype=np.int32), *(part.codes for part in parts)]))


class Forms:
    """Folded spellings ("forms"), each with the codes of its concepts and their rules.

    Codes are numbers below ``n_codes``. ``everyday`` words are looked up last (:class:`Matcher`).
    """

    def __init__(
        self,
        spellings: Mapping[str, Sequence[tuple[int, evidence.Rule]]],
        everyday: Container[str],
        n_codes: int,
    ) -> None:
        self._texts = list(spellings)
        self._codes = [tuple(code for code, _ in pairs) for pairs in spellings.values()]
        self._rules = {
            number: [rule for _, rule in pairs]
            for number, pairs in enumerate(spellings.values())
            if any(rule is not evidence.no_rule for _, rule in pairs)
        }
        self._matcher = Matcher(self._texts, everyday)
        self._n_codes = max(1, n_codes)

    def judged(self, near: evidence.Context) -> Iterator[tuple[int, int, int, str]]:
        """Every match in a text: first word, last word + 1, code, and the reason for a rejection or ""."""
        for start, end, form in self._matcher.find(near.tokens):
            codes = self._codes[form]
            rules = self._rules.get(form)
            if rules is None:
                yield from ((start, end, code, "") for code in codes)
                continue
            for code, rule in zip(codes, rules, strict=True):
                yield start, end, code, rule(near, start, end)

    def ground(self, texts: Sequence[str]) -> Grounded:
        """The codes that each text names, the same as :meth:`judged` accepts.

        Forms without a rule count at once, for all texts together. So do genres with a film word beside them,
        which is their only rule. The other forms are judged one by one.
        """
        hits = scan(texts, self._tables)
        film = self._film[hits.form]
        free = ~self._has_rule[hits.form] | (film & (hits.near == 1))
        forms = hits.form[free]
        sizes = self._form_ends[forms + 1] - self._form_ends[forms]
        place = np.repeat(self._form_ends[forms + 1] - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        keys = np.repeat(hits.text[free].astype(np.int64), sizes) * self._n_codes + self._form_codes[place]
        # Without a film word a genre counts only between marks: texts without any mark need no further look.
        marked = np.zeros(len(texts), dtype=bool)
        doubtful = np.unique(hits.text[film & ~free])
        marked[doubtful] = [evidence.has_marks(texts[row]) for row in doubtful.tolist()]
        ruled = ~free & (~film | marked[hits.text])
        accepted = np.fromiter(self._accepted(texts, hits.take(ruled)), np.int64)
        keys = np.sort(np.concatenate([keys, accepted]))
        rows, codes = np.divmod(keys[np.diff(keys, prepend=-1) > 0], self._n_codes)
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        return Grounded(starts.astype(np.int64), codes.astype(np.int32))

    def _accepted(self, texts: Sequence[str], hits: FormHits) -> Iterator[int]:
        """``text * (number of codes) + code`` for every code whose rule accepts the form."""
        near: evidence.Context | None = None
        for row, start, end, form, _, first, last in zip(*(column.tolist() for column in hits), strict=True):
            text = texts[row]
            if form in self._film_forms:  # no film word stands near: those forms were counted before
                if evidence.in_marks(text, self._texts[form]):
                    yield from (row * self._n_codes + code for code in self._codes[form])
                continue
            if near is None or near.text is not text:
                near = evidence.Context(text)
            near.ranges[start, end] = first, last
            for code, rule in zip(self._codes[form], self._rules[form], strict=True):
                if not rule(near, start, end):
                    yield row * self._n_codes + code

    @cached_property
    def _tables(self) -> FormTables:
        return form_tables(self._matcher, self._film_forms, evidence.FILM_CUES, evidence.REACH)

    @cached_property
    def _film(self) -> NDArray[np.bool_]:
        """The forms whose only rule is that a film word stands near."""
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
