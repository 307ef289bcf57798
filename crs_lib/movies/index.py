"""The inverted index of a catalogue: vocabulary of concepts, facts per item, items per concept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.text import fold
from crs_lib.movies import fields
from crs_lib.movies.cleaning import Item
from crs_lib.movies.fields import FIELDS

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Vocabulary:
    """All concepts of a catalogue; a concept's code is its place in these lists."""

    field: tuple[str, ...]
    value: tuple[str, ...]
    code_of: Mapping[str, int]

    def key(self, code: int) -> str:
        """``field=value`` of a code, folded."""
        return self.keys[code]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """``field=value`` of every code, folded, in the order of the codes."""
        return tuple(self.code_of)

    def __len__(self) -> int:
        return len(self.value)


def vocabulary(items: Sequence[Item]) -> Vocabulary:
    """All concepts of the items: by field in the order of ``FIELDS``, by folded value within it."""
    names, values = [], []
    for name in FIELDS:
        distinct = {fold(value): value for value in {v for item in items for v in item.values[name]}}
        for key in sorted(distinct):
            names.append(name)
            values.append(distinct[key])
    codes = {fields.concept(n, v): i for i, (n, v) in enumerate(zip(names, values, strict=True))}
    return Vocabulary(tuple(names), tuple(values), codes)


def item_facts(items: Sequence[Item], terms: Vocabulary) -> tuple[NDArray[np.int64], Codes]:
    """Concept codes of the items, ascending per item, laid end to end; where each item's begin."""
    places = {
        name: {
            value: code
            for code, (f, value) in enumerate(zip(terms.field, terms.value, strict=True))
            if f == name
        }
        for name in FIELDS
    }
    starts, facts = np.zeros(len(items) + 1, dtype=np.int64), []
    for i, item in enumerate(items):
        codes = sorted(places[name][value] for name in FIELDS for value in item.values[name])
        facts.extend(codes)
        starts[i + 1] = len(facts)
    return starts, np.array(facts, dtype=np.int32)


def invert(starts: NDArray[np.int64], facts: Codes, n_concepts: int) -> tuple[NDArray[np.int64], Codes]:
    """Postings of every concept: items ascending, laid end to end."""
    owner = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    order = np.argsort(facts, kind="stable")
    ends = np.zeros(n_concepts + 1, dtype=np.int64)
    np.cumsum(np.bincount(facts, minlength=n_concepts), out=ends[1:])
    return ends, owner[order]
