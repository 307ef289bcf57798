"""The catalogue as the thesis indexed it: its normalisation, its index with repetitions, its retrieval. Kept
only to recompute its figures; what is wrong with it is told in docs/metrics.md, section 8.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import one_text
from crs_lib.core import paths, prompts, safety
from crs_lib.core.errors import InputError
from crs_lib.thesis.extractors import ConceptSpace

CONCEPT_FIELDS = ("genre", "actor", "director", "writer", "language", "year")
FIELDS = ("name", "genre", "actor", "director", "language", "writer", "year")
_EXPECTED = "give a JSON file title -> record, as that of: python -m crs_lib data get opendialkg-movies"
_ALIASES = {"title": "name", "plot_keywords": "plot", "plot_kw": "plot"}


class Candidates(NamedTuple):
    """The answer of the thesis's retrieval: film numbers, and ``how``: "all fields", "fewer fields" (one
    without any film was ignored), "union" (no film in common), or "catalogue" (nothing was left to ask for).
    """

    films: frozenset[int]
    how: str


def normalise(field: str, value: str) -> str:
    """A value as the thesis compared it: lower case, stripped; of a year its digits. From a genre " film", "
    movie" and " fiction" are cut out anywhere ("comic book fictional" becomes "comic bookal").
    """
    text = value.lower()
    if field == "year":
        return "".join(re.findall(r"\d", text))
    if field == "genre":
        for part in (" film", " movie", " fiction"):
            text = text.replace(part, "")
    return text.strip()


class ThesisCatalog:
    """Films and the thesis's index over them. ``records`` are ``(title, record)`` in the OpenDialKG form."""

    def __init__(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self.records = tuple((title, dict(record)) for title, record in records)
        if not self.records:
            raise InputError("the catalogue holds no film")
        self.titles = tuple(str(record.get("name") or title) for title, record in self.records)
        self.index: dict[str, dict[str, list[int]]] = {name: {} for name in FIELDS}
        for number, (title, record) in enumerate(self.records):
            for name in FIELDS:
                usual = title if name == "name" else None
                for value in listed(record.get(name, usual)):
                    key = normalise(name, value)
                    if key:
                        self.index[name].setdefault(key, []).append(number)

    @classmethod
    @safety.reader("a catalogue")
    def load(cls, path: str | Path) -> "ThesisCatalog":
        """Read a JSON file ``title -> record``, "sample", or a run's Parquet file; else InputError."""
        path = sources.parted(path)[0]
        if Path(path).suffix == ".parquet":
            return cls.of(sources.load(path))
        place = paths.samples() / "movies.json" if str(path) == sources.SAMPLE else paths.given(path)
        try:
            data = safety.read_object(place)
        except InputError as error:
            raise InputError(f"{place.name} cannot be read as a catalogue ({error}); {_EXPECTED}") from error
        if not data:
            raise InputError(f"{place.name} holds no film; {_EXPECTED}")
        for title, record in data.items():
            for name in ("name", "plot") if isinstance(record, Mapping) else ():
                one_text(f"{place.name}, film {title!r:.60}", name, record.get(name))
        return cls(data.items())

    @classmethod
    def of(cls, catalog: Catalog) -> "ThesisCatalog":
        """A cleaned catalogue, indexed the thesis's way."""
        return cls((item.title, catalog.record(number)) for number, item in enumerate(catalog.items))

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def space(self) -> ConceptSpace:
        """The thesis's vocabulary: every normalised value of the six concept fields."""
        fields, values, counts = [], [], []
        for name in CONCEPT_FIELDS:
            for key, films in self.index[name].items():
                fields.append(name)
                values.append(key)
                counts.append(len(set(films)))
        keys = tuple(f"{name}={key}" for name, key in zip(fields, values, strict=True))
        films_of = np.array(counts, dtype=np.int64)
        return ConceptSpace(tuple(fields), tuple(values), films_of, len(self), keys)

    @cached_property
    def raw_codes(self) -> tuple[frozenset[int], ...]:
        """Per film, the concepts whose value equals a raw label but for case: the thesis compared constraints
        so, and "Crime Fiction" never meets ``genre=crime``.
        """
        codes = self.space.code_of
        films = []
        for _, record in self.records:
            labels = set()
            for name in CONCEPT_FIELDS:
                for value in listed(record.get(name)):
                    labels.add((name, value.strip().lower()))
            films.append(frozenset(codes[label] for label in labels if label in codes))
        return tuple(films)

    @cached_property
    def documents(self) -> list[str]:
        """What the thesis fitted its sentence space on: every title and every plot, one document each."""
        plots = [str(record.get("plot") or "") for _, record in self.records]
        return [*self.titles, *plots]

    @cached_property
    def plot_index(self) -> Mapping[str, frozenset[int]]:
        """Films by plot keyword: words of four letters or more, a short list of common ones left out."""
        table: dict[str, set[int]] = {}
        for number, (_, record) in enumerate(self.records):
            for word in plot_keywords(str(record.get("plot") or "")):
                table.setdefault(word, set()).add(number)
        return {word: frozenset(films) for word, films in table.items()}

    def lookup(self, name: str, value: str) -> frozenset[int]:
        """Films of one value: by equal form, and only where none has it by every value that contains it."""
        if name == "plot":
            return _union(self.plot_index.get(word, frozenset()) for word in plot_keywords(value))
        key = normalise(name, value)
        index = self.index[name]
        if key in index:
            return frozenset(index[key])
        if not key:
            return frozenset()
        return _union(films for other, films in index.items() if key in other)

    def candidates(self, constraints: Mapping[str, Any]) -> Candidates:
        """The pool that the thesis drew from: union within a field, intersection over fields; fields without
        a film are ignored, an empty intersection becomes the union of all.
        """
        wanted: dict[str, list[str]] = {}
        for field, value in constraints.items():
            name = _ALIASES.get(field, field)
            values = listed(value)
            if values and name in (*FIELDS, "plot"):
                wanted.setdefault(name, []).extend(values)
        pools = []
        for name, values in wanted.items():
            films = _union(self.lookup(name, single) for single in values)
            if films:
                pools.append(films)
        if not pools:
            return Candidates(frozenset(range(len(self))), "catalogue")
        common = frozenset.intersection(*pools)
        if not common:
            return Candidates(_union(pools), "union")
        return Candidates(common, "all fields" if len(pools) == len(wanted) else "fewer fields")


def _union(parts: Iterable[Iterable[int]]) -> frozenset[int]:
    return frozenset[int]().union(*parts)


def plot_keywords(text: str) -> list[str]:
    """Words of four letters a–z or more of a text, in order, each once, without the commonest."""
    common = prompts.vocabulary("thesis", "common words of plots")
    words = re.findall(r"[a-z]{4,}", text.lower())
    return list(dict.fromkeys(word for word in words if word not in common))


def listed(value: Any) -> Sequence[str]:
    """A scalar or a list as a list of its non-empty texts."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(single) for single in values if single is not None and str(single).strip()]
