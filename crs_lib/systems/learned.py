"""A linear state tracker on sentence vectors, trained on utterances that the templates of the user make.

Linear maps read each clause of an utterance: the values of the catalogue that it names, and what it does with
them (wants them, gives them up, starts anew). Only what each kind of template does is written by hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import fields, phrases
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import prompts, rng
from crs_lib.core.rng import one_thread
from crs_lib.retrieval.encoders import ENCODERS, Floats, sentence_vectors
from crs_lib.systems.base import SYSTEMS, World
from crs_lib.systems.policies import Recommender

UTTERANCES = 5_000  # with values, for training
_RIDGE = 0.2
_CLAUSE_END = re.compile(r"(?<=\w\w[.!?:;,])\s+")
# What utterances of each kind do with the values in $wish and $old.
_STARTS_ANEW = ("shift_switch", "shift_return")
_OTHER = ("follow_up", "follow_up_met", "follow_up_near", "follow_up_first", "hesitate", "aside")
_WITH_VALUES = (
    "initial", "refine", "insist", "nothing_named", "contradiction", "shift_refine", "shift_switch",
    "shift_return", "shift_replace", "shift_relax", "shift_contradict", "shift_contradict_new",
)  # fmt: skip
_ACTS = ("wants", "gives_up", "starts_anew")


class LabelledClause(NamedTuple):
    """A clause of a training utterance, the codes of the values in it, and what it does, by ``_ACTS``."""

    text: str
    codes: tuple[int, ...]
    acts: tuple[bool, bool, bool]


class ClauseReading(NamedTuple):
    """What a clause is read to name and to do."""

    values: Mapping[str, str]
    wants: bool
    gives_up: bool
    starts_anew: bool


def clauses(text: str) -> list[str]:
    """The clauses of an utterance: cut behind punctuation that follows a word of two letters or more."""
    return [part for part in _CLAUSE_END.split(text.strip()) if part]


def constrainable(catalog: Catalog) -> tuple[str, ...]:
    """The fields of a catalogue that users may want a value of."""
    return tuple(name for name, row in catalog.fields.items() if row.may_shift)


def training_clauses(catalog: Catalog) -> Iterator[LabelledClause]:
    """Clauses of made-up utterances about every value of the catalogue, the same for the same catalogue."""
    draw = rng.stream(0, "learned", "utterances")
    codes = [code for code, name in enumerate(catalog.vocabulary.field) if catalog.fields[name].may_shift]
    by_field = [
        [code for code in codes if catalog.vocabulary.field[code] == name] for name in constrainable(catalog)
    ]
    groups = [group for group in by_field if group]
    for _ in range(UTTERANCES):  # fields in equal numbers, whatever the number of their values
        chosen = [groups[int(draw.integers(len(groups)))] for _ in range(2)]
        first, other = (_wish(catalog, group[int(draw.integers(len(group)))], draw) for group in chosen)
        yield from _utterance(catalog, first, dict(list(other.items())[-1:]), draw)


def _wish(catalog: Catalog, code: int, draw: np.random.Generator) -> dict[str, str]:
    """The value of a code, at times with a second one of a film that has it."""
    terms = catalog.vocabulary
    film = int(draw.choice(catalog.items_with(code)))
    other = int(draw.choice(catalog.facts(film)))
    wish = {terms.field[code]: terms.value[code]}
    if draw.random() < 0.4 and catalog.fields[terms.field[other]].may_shift:
        wish = {terms.field[other]: terms.value[other], **wish}
    return wish


def _utterance(
    catalog: Catalog, wish: Mapping[str, str], old: Mapping[str, str], draw: np.random.Generator
) -> Iterator[LabelledClause]:
    """The clauses of one utterance with a constraint, now and then of one without."""
    title = catalog.items[int(draw.integers(len(catalog)))].title
    aside = phrases.noun_phrase(old, draw)
    if draw.random() < 0.15:
        kind = _OTHER[int(draw.integers(len(_OTHER)))]
        said = prompts.say("user", kind, draw, aside=aside, title=title)
        asked = phrases.question(
            list(fields.QUESTION_ACTS)[int(draw.integers(len(fields.QUESTION_ACTS)))], title, draw
        )
        for part in clauses(f"{said} {asked}"):
            yield LabelledClause(part, (), (False, False, False))
    kind = _WITH_VALUES[int(draw.integers(len(_WITH_VALUES)))]
    new, given_up = phrases.noun_phrase(wish, draw), phrases.noun_phrase(old, draw)
    named = next(iter(old.values()))
    said = prompts.say("user", kind, draw, wish=new, old=given_up, title=title, bridge=named, aside=aside)
    for part in clauses(said):
        has_new, has_old = new.lower() in part.lower(), given_up.lower() in part.lower()
        pairs = [*(wish.items() if has_new else ()), *(old.items() if has_old else ())]
        codes = tuple(code for pair in pairs if (code := catalog.code(*pair)) is not None)
        yield LabelledClause(part, codes, (has_new, has_old, kind in _STARTS_ANEW))


class LinearReader:
    """The linear maps and their thresholds, trained on one catalogue's values.

    The vector of a clause gives, each by a product with a matrix: the vector of the value that it names (the
    value with the nearest one is taken), the fields of the values, and the acts.
    """

    def __init__(self, catalog: Catalog, encoder: str) -> None:
        self.catalog, self._model = catalog, ENCODERS.create(encoder)
        self._fields = constrainable(catalog)
        terms = catalog.vocabulary
        said = [
            catalog.fields[name].in_words(value) for name, value in zip(terms.field, terms.value, strict=True)
        ]
        self._values = self._encode(said)
        self._codes = {
            name: np.array([code for code, field in enumerate(terms.field) if field == name], dtype=np.int64)
            for name in self._fields
        }
        made = list(dict.fromkeys(training_clauses(catalog)))
        clauses_of = self._with_constant([one.text for one in made])
        named = np.zeros((len(made), self._values.shape[1]), dtype=np.float32)
        fields_of = np.zeros((len(made), len(self._fields)), dtype=np.float32)
        for row, one in enumerate(made):
            named[row] = self._values[list(one.codes)].sum(axis=0)
            fields_of[row, [self._fields.index(terms.field[code]) for code in one.codes]] = 1
        acts = np.array([one.acts for one in made], dtype=np.float32)
        test = np.arange(len(made)) % 5 == 0
        flags = np.hstack([fields_of, acts])
        self._to_value, self._to_flags = _ridge(clauses_of[~test], named[~test], flags[~test])
        with one_thread():
            guessed = clauses_of[test] @ self._to_flags
        self._least = np.array(
            [_threshold(*columns) for columns in zip(guessed.T, flags[test].T, strict=True)]
        )

    def _encode(self, texts: Sequence[str]) -> Floats:
        with one_thread():
            return sentence_vectors(self._model, texts)

    def _with_constant(self, texts: Sequence[str]) -> Floats:
        """Sentence vectors, with a constant as last column."""
        found = self._encode(texts)
        return np.hstack([found, np.ones((len(found), 1), np.float32)])

    def read(self, text: str) -> list[ClauseReading]:
        """What each clause of an utterance names and does."""
        parts = clauses(text)
        if not parts:
            return []
        vectors = self._with_constant(parts)
        with one_thread():
            near = (vectors @ self._to_value) @ self._values.T
            flags = (vectors @ self._to_flags) > self._least
        return [self._reading(*row) for row in zip(near, flags, strict=True)]

    def _reading(self, near: NDArray[np.float32], flags: NDArray[np.bool_]) -> ClauseReading:
        """The nearest value of each field that the clause is read to name; its acts."""
        values = {}
        for name, named in zip(self._fields, flags, strict=False):
            codes = self._codes[name]
            if named and len(codes):
                values[name] = self.catalog.vocabulary.value[int(codes[near[codes].argmax()])]
        wants, gives_up, anew = (bool(flag) for flag in flags[len(self._fields) :])
        return ClauseReading(values, wants, gives_up, anew)


def _ridge(x: Floats, *targets: Floats) -> list[Floats]:
    """The weights of a ridge regression of each target on the same rows."""
    with one_thread():
        left = x.T.astype(np.float64) @ x + _RIDGE * np.eye(x.shape[1])
        right = [(x.T @ y).astype(np.float64) for y in targets]
        return [np.linalg.solve(left, sums).astype(np.float32) for sums in right]


def _threshold(scores: NDArray[np.float32], truth: NDArray[np.float32]) -> float:
    """The threshold, of 19 between 0.05 and 0.95, with the best F1."""
    flat, gold = scores.ravel(), truth.ravel() > 0
    best = []
    for least in np.linspace(0.05, 0.95, 19):
        said = flat > least
        best.append((2 * int((said & gold).sum()) / max(1, int(said.sum() + gold.sum())), -float(least)))
    return -max(best)[1]


@lru_cache(maxsize=2)
def reader(catalog: Catalog, encoder: str) -> LinearReader:
    """The reader of a catalogue, trained once a process."""
    return LinearReader(catalog, encoder)


def apply(state: Mapping[str, str], readings: Sequence[ClauseReading]) -> dict[str, str]:
    """The state after an utterance: cleared where it starts anew, values given up, values wanted."""
    wanted, dropped = {}, set()
    for one in readings:
        for pair in one.values.items():
            if one.gives_up and (pair in state.items() or not one.wants):
                dropped.add(pair)
            elif one.wants:
                wanted[pair[0]] = pair[1]
    anew = wanted and any(one.starts_anew for one in readings)
    kept = {} if anew else {name: value for name, value in state.items() if (name, value) not in dropped}
    return {**kept, **wanted}


def _encoder(argument: str) -> str:
    """The name of an encoder; InputError for an unknown one."""
    ENCODERS.get(argument)
    return argument


@SYSTEMS.register("learned", argument="an encoder", example="hashing", default="hashing", parse=_encoder)
class LinearTracker(Recommender):
    """A linear state tracker on sentence vectors; films are looked up for the state that it holds."""

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: str) -> None:
        super().__init__(world, seed, session, spec)
        self.reader, self.state = reader(world.catalog, argument), dict[str, str]()

    def believe(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> Any:
        """The state after this utterance."""
        self.state = apply(self.state, self.reader.read(text))
        return dict(self.state), {}
