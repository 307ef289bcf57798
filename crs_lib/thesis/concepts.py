"""The concepts that extractors may find: ``field=value`` by code, with how many films have them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import fields
from crs_lib.catalog.catalog import Catalog


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
