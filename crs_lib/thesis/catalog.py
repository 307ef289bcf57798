"""The catalogue as the thesis indexed it: its normalisation, its index with repetitions, its retrieval. Kept
only to recompute its figures; what is wrong with it is told in docs/metrics.md, section 8.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.cleaning import one_text
from crs_lib.core import paths, prompts, safety
from crs_lib.core.errors import InputError
from crs_lib.metrics.extractors import Extractor
from crs_lib.thesis import extractors
from crs_lib.thesis.extractors import ConceptSpace, ExtractorInputs

CONCEPT_FIELDS = ("genre", "actor", "director", "writer", "language", "year")
TOPIC_FIELDS = CONCEPT_FIELDS  # their older name
MOST_RECOMMENDED = 50
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
        films = []
        titles = []
        self.index: dict[str, dict[str, list[int]]] = {}
        for name in FIELDS:
            self.index[name] = {}
        for number, (title, record) in enumerate(records):
            film = dict(record)
            films.append((title, film))
            titles.append(str(film.get("name") or title))
            self._add({"name": title, **film}, number)
        if not films:
            raise InputError("the catalogue holds no film")
        self.records = tuple(films)
        self.titles = tuple(titles)

    def _add(self, film: Mapping[str, Any], number: int) -> None:
        """Put a film under each of its values, once for every time that it has it."""
        for name in FIELDS:
            for value in listed(film.get(name)):
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
        file = paths.given(path)
        if str(path) == sources.SAMPLE:
            file = paths.samples() / "movies.json"
        try:
            data = safety.read_object(file)
        except InputError as error:
            raise InputError(f"{file.name} cannot be read as a catalogue ({error}); {_EXPECTED}") from error
        if not data:
            raise InputError(f"{file.name} holds no film; {_EXPECTED}")
        for title, record in data.items():
            if isinstance(record, Mapping):
                for name in ("name", "plot"):
                    one_text(f"{file.name}, film {title!r:.60}", name, record.get(name))
        return cls(data.items())

    @classmethod
    def of(cls, catalog: Catalog) -> "ThesisCatalog":
        """A cleaned catalogue, indexed the thesis's way."""
        records = []
        for number, item in enumerate(catalog.items):
            records.append((item.title, catalog.record(number)))
        return cls(records)

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def space(self) -> ConceptSpace:
        """The thesis's vocabulary: every normalised value of the six concept fields."""
        fields = []
        values = []
        keys = []
        counts = []
        for name in CONCEPT_FIELDS:
            for value, films in self.index[name].items():
                fields.append(name)
                values.append(value)
                keys.append(f"{name}={value}")
                counts.append(len(set(films)))
        films_of = np.array(counts, dtype=np.int64)
        return ConceptSpace(tuple(fields), tuple(values), films_of, len(self), tuple(keys))

    @cached_property
    def raw_codes(self) -> tuple[frozenset[int], ...]:
        """Per film, the concepts whose value equals a raw label but for case: the thesis compared constraints
        so, and "Crime Fiction" never meets ``genre=crime``.
        """
        code_of = self.space.code_of
        films = []
        for _, record in self.records:
            codes = set()
            for name in CONCEPT_FIELDS:
                for value in listed(record.get(name)):
                    label = name, value.strip().lower()
                    if label in code_of:
                        codes.add(code_of[label])
            films.append(frozenset(codes))
        return tuple(films)

    @cached_property
    def documents(self) -> list[str]:
        """What the thesis fitted its sentence space on: every title and every plot, one document each."""
        texts = list(self.titles)
        for _, record in self.records:
            texts.append(str(record.get("plot") or ""))
        return texts

    @cached_property
    def plot_index(self) -> Mapping[str, frozenset[int]]:
        """Films by plot keyword: words of four letters or more, a short list of common ones left out."""
        table: dict[str, set[int]] = {}
        for number, (_, record) in enumerate(self.records):
            for word in plot_keywords(str(record.get("plot") or "")):
                table.setdefault(word, set()).add(number)
        return dict(zip(table, map(frozenset, table.values()), strict=True))

    def lookup(self, name: str, value: str) -> frozenset[int]:
        """Films of one value: by equal form, and only where none has it by every value that contains it."""
        films: set[int] = set()
        if name == "plot":
            for word in plot_keywords(value):
                films.update(self.plot_index.get(word, ()))
            return frozenset(films)
        key = normalise(name, value)
        index = self.index[name]
        if key in index:
            return frozenset(index[key])
        if key:
            for other, bearers in index.items():
                if key in other:
                    films.update(bearers)
        return frozenset(films)

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
            films = set[int]()
            for single in values:
                films.update(self.lookup(name, single))
            if films:
                pools.append(frozenset(films))
        if not pools:
            return Candidates(frozenset(range(len(self))), "catalogue")
        common = frozenset.intersection(*pools)
        if not common:
            return Candidates(frozenset[int]().union(*pools), "union")
        if len(pools) < len(wanted):
            return Candidates(common, "fewer fields")
        return Candidates(common, "all fields")


def plot_keywords(text: str) -> list[str]:
    """Words of four letters a–z or more of a text, in order, each once, without the commonest."""
    common = prompts.vocabulary("thesis", "common words of plots")
    words = re.findall(r"[a-z]{4,}", text.lower())
    return list(dict.fromkeys(word for word in words if word not in common))


def listed(value: Any) -> Sequence[str]:
    """A scalar or a list as a list of its non-empty texts."""
    values = value if isinstance(value, list | tuple) else [value]
    texts = []
    for single in values:
        if single is not None and str(single).strip():
            texts.append(str(single))
    return texts


@lru_cache(maxsize=8)
def _indexed(catalog: str | Path) -> ThesisCatalog:
    return ThesisCatalog.load(catalog)


@lru_cache(maxsize=8)
def _extractor(catalog: str | Path, name: str) -> Extractor:
    return extractors.create(name, ExtractorInputs(_indexed(catalog).space))


def topic_set(text: str, catalog: str | Path = sources.SAMPLE, extractor: str = "substring") -> set[str]:
    """The concepts that a text names, as the thesis wrote them.

    Parameters
    ----------
    text
        An utterance.
    catalog
        The file of the films, "sample" for ours.
    extractor
        ``substring`` (the thesis's mode "catalog"), ``embed`` (that of its published table), or another.

    Returns
    -------
    set of str
        ``field=value``, in lower case.

    Raises
    ------
    InputError
        For an unknown extractor, and a catalogue that cannot be read.

    Examples
    --------
    >>> sorted(topic_set("A French comedy"))
    ['genre=comedy', 'language=french']
    """
    (codes,) = _extractor(catalog, extractor).sets([text])
    return set(_indexed(catalog).space.keys(codes))


def attribute_vector(
    text: str, catalog: str | Path = sources.SAMPLE, extractor: str = "substring"
) -> NDArray[np.float64]:
    """The idf weights of the concepts that a text names, 0 for the others; arguments as :func:`topic_set`.
    One number for each concept of the catalogue, in the order of ``ThesisCatalog.space.all_keys``.
    """
    space = _indexed(catalog).space
    (codes,) = _extractor(catalog, extractor).sets([text])
    vector = np.zeros(len(space.all_keys))
    named = sorted(codes)
    vector[named] = space.idf[named]
    return vector


def recommend(
    constraints: Mapping[str, Any], limit: int = 30, catalog: str | Path = sources.SAMPLE
) -> list[dict[str, Any]]:
    """The films that the thesis retrieved, in the catalogue's order (the thesis shuffled them).

    Parameters
    ----------
    constraints
        A value or a list of values by field; unknown fields are left out.
    limit
        At most so many films, 1 to 50.
    catalog
        The file of the films, "sample" for ours.

    Returns
    -------
    list of dict
        The films' records. ``relaxed`` is empty where a film meets all fields, and else says what the thesis
        did in silence: "fewer fields", "union" or "catalogue" (:class:`Candidates`).
    """
    films = _indexed(catalog)
    answer = films.candidates(constraints)
    relaxed = "" if answer.how == "all fields" else answer.how
    records = []
    for number in sorted(answer.films)[: min(MOST_RECOMMENDED, max(1, limit))]:
        records.append({**films.records[number][1], "relaxed": relaxed})
    return records
