"""System: what answers a user; the world that all systems share, and the films that answer best.

To add a system, write a class with ``reply`` and register it by name: the thesis's tracker, control
policies without a language model, and systems worded by one are such classes. Only catalogue items are ever
recommended; control policies have a known order (docs/metrics.md, section 6).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.catalog import Catalog, Codes
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.llm.base import BACKENDS
from crs_lib.systems.settings import ModelSettings

if TYPE_CHECKING:
    from crs_lib.llm.client import Pool
    from crs_lib.systems.contract import Answer

Wishes = Mapping[str, str]  # values by field
Items = tuple[int, ...]
Draw = np.random.Generator
N_ITEMS = 3
_NAME = re.compile(r"[^\W\d_][\w .+-]{0,39}")  # of a system: begins with a letter
_TIE = 0.25  # what chance adds at most: less than any difference between two films


class ProgramAsker(Protocol):
    """The programs of a run, as systems ask them (``programs.Programs``); ``name`` is the catalogue's."""

    name: str

    def ask(self, spec: str, request: Mapping[str, Any], tags: Mapping[str, Any], lane: int) -> "Answer": ...


@dataclass(frozen=True)
class World:
    """The parts that all systems of a process share: catalogue, grounder, and what some of them call.
    ``conversation`` names the conversation to programs where it is no whole session; conversations of
    different ``lane`` never meet the same process or object of a program.
    """

    catalog: Catalog
    grounder: Grounder
    llms: "Pool | None" = None
    llm: ModelSettings = field(default_factory=ModelSettings)
    programs: ProgramAsker | None = None
    conversation: str = ""
    lane: int = 0


@dataclass(frozen=True)
class SystemReply:
    """A reply: text, recommended items, constraints held, titles that the catalogue lacks, and extras."""

    text: str
    items: Items = ()
    constraints: Wishes = field(default_factory=dict)
    hallucinated: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


class System(Protocol):
    """What is tested, in one conversation. ``sees_state``: it is given the user's log (oracles only)."""

    sees_state: bool

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply: ...


ORACLE = "oracle"  # the policy; as the model of a mode: whoever knows the constraints and has the mode's list
# The control policies are known at once; the files of the others are read when one of them is asked for.
_ORDER = ("policies", "search", "worded", "programs", "modes", "agent")
SYSTEMS: Registry[System] = Registry("policy", "crs_lib.systems", _ORDER)


class NamedSpec(NamedTuple):
    """A system as a user gives it: the name by which it is called, and its spec."""

    name: str
    spec: str


def named(text: str) -> NamedSpec:
    """The name and the spec of ``Ours=exec:python mine.py``; a spec without a name of its own is its name."""
    name, equals, spec = text.partition("=")
    if equals and _NAME.fullmatch(name.strip()):
        return NamedSpec(name.strip(), spec.strip())
    return NamedSpec(text, text)


def create(spec: str, world: World, seed: int, session: int, shelf: Sequence[int] = ()) -> System:
    """The system a spec names, for one session with its ``shelf`` of films; InputError for an unknown one."""
    spec = named(spec).spec
    options: dict[str, Any] = {"world": world, "seed": seed, "session": session, "spec": spec}
    if SYSTEMS.get(spec).facts.get("shelf"):
        options["shelf"] = shelf
    return SYSTEMS.create(spec, **options)


def is_program(spec: str) -> bool:
    """Whether a spec names a program behind the contract."""
    return spec in SYSTEMS and bool(SYSTEMS.get(spec).facts.get("program"))


def model_of(spec: str) -> str:
    """The language model behind a system, as backends know it; an empty text for a system without one."""
    facts = SYSTEMS.get(spec).facts
    if not facts.get("llm"):
        return ""
    model = spec.partition(":")[2] if facts.get("mode") else spec
    return "" if model == ORACLE else model


def check_reader(spec: str) -> str:
    """The spec of a model, or ``oracle``: who reads the list of a mode; InputError for any other."""
    return spec if spec == ORACLE else check_model(spec)


def check_model(spec: str) -> str:
    """The spec of a model, if a backend knows it; InputError otherwise."""
    backend = BACKENDS.get(spec)
    argument = spec.partition(":")[2]
    if bool(backend.facts.get("argument")) != bool(argument):
        example = backend.name
        if "argument" in backend.facts:
            example = f"{backend.name}:{backend.facts['example']}"
        raise InputError(f"{spec!r} names no model; write it like {example}")
    return spec


def check(specs: Sequence[str]) -> list[str]:
    """The specs themselves, if each names a registered system once, with a usable argument. A system may have
    a name of its own, ``Ours=tracker``, which no other system has.
    """
    if isinstance(specs, str) or not specs:
        raise InputError(f"systems is {specs!r}; give a list of policies, e.g. ['tracker', 'Ours=oracle']")
    names = []
    for name, spec in map(named, specs):
        SYSTEMS.argument(spec)
        if name != spec and name in SYSTEMS:
            raise InputError(f"{name!r} is a system of the library; give {spec!r} another name")
        names.append(name)
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise InputError(f"systems names {sorted(doubles)} more than once; each may occur once")
    return list(specs)


def number(least: int, most: int) -> Callable[[str], int]:
    """The reader of an argument that is a whole number of this range; InputError for any other."""

    def read(argument: str) -> int:
        if argument not in map(str, range(least, most + 1)):
            raise InputError(f"give a whole number from {least} to {most}")
        return int(argument)

    return read


def share(argument: str) -> float:
    """The argument as a share; InputError unless it is a number between 0 and 1."""
    try:
        value = float(argument)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError("give a share between 0 and 1")
    return value


def rank(
    catalog: Catalog, constraints: Wishes, avoid: Wishes, seen: Sequence[int], draw: Draw, n: int = N_ITEMS
) -> Items:
    """The ``n`` films that meet most constraints, earlier ones half a constraint less, unwanted ones last."""
    tie = draw.random(len(catalog)) * _TIE
    items = catalog.query(constraints).items
    unwanted = _codes(catalog, avoid)
    for code in unwanted:
        items = catalog.without(items, code)
    new = np.ones(len(catalog), dtype=bool)
    new[list(seen)] = False
    items = items[new[items]]
    if len(items) >= n:  # enough new films meet every constraint: no other film can come before them
        return _best(items, len(constraints) + tie[items], n)
    score = np.zeros(len(catalog))
    for films in with_any(catalog, constraints):
        score[films] += 1
    for code in unwanted:
        score[catalog.items_with(code)] -= len(constraints) + 1
    score[~new] -= 0.5
    return _best_of_all(catalog, score + tie, n)


def most_gain(
    catalog: Catalog,
    constraints: Wishes,
    avoid: Wishes,
    stale: Sequence[int],
    seen: Sequence[int],
    draw: Draw,
    n: int = N_ITEMS,
) -> Items:
    """The ``n`` films of the largest gain (:mod:`crs_lib.metrics.gain`): no list of that length gains more.
    Of one gain those not ``seen`` come first, ``stale`` ones and those to avoid last; then chance decides.
    """
    score = np.zeros(len(catalog))
    for films in with_any(catalog, constraints):
        score[films] += 1
    tie = draw.random(len(catalog)) * _TIE
    tie[list(seen)] -= _TIE
    for films in (*with_any(catalog, avoid), np.array(stale, dtype=np.int32)):
        score[films] = 0
        tie[films] = -2 * _TIE
    return _best_of_all(catalog, score + tie, n)


def n_met(catalog: Catalog, item: int, constraints: Wishes, avoid: Wishes) -> int:
    """The number of constraints that a film meets; 0 if it has a value to avoid."""
    values = catalog.items[item].values
    for name, value in avoid.items():
        if value in values[name]:
            return 0
    met = 0
    for name, value in constraints.items():
        met += value in values[name]
    return met


def with_any(catalog: Catalog, values: Wishes) -> list[Codes]:
    """The films with each of the values that the catalogue knows."""
    return [catalog.items_with(code) for code in _codes(catalog, values)]


def _codes(catalog: Catalog, values: Wishes) -> list[int]:
    codes = [catalog.code(name, value) for name, value in values.items()]
    return [code for code in codes if code is not None]


def _best_of_all(catalog: Catalog, score: NDArray[np.float64], n: int) -> Items:
    items = catalog.query({}).items
    return _best(items, score[items], min(n, len(items)))


def _best(items: Codes, score: NDArray[np.float64], n: int) -> Items:
    """The ``n`` items of the highest score, the best first."""
    top = (-score).argpartition(n - 1)[:n]
    pairs = zip(score[top].tolist(), items[top].tolist(), strict=True)
    best = sorted(pairs, key=itemgetter(0), reverse=True)
    return tuple([item for _, item in best])


def drawn(catalog: Catalog, n: int, seed: int, session: int, answers: Sequence[int] = ()) -> Items:
    """The candidate set of a session: ``n`` films (0: all) in random order, ``answers`` among them; every
    system meets the same.
    """
    films: list[int] = catalog.query({}).items.tolist()
    if not n or n >= len(films):
        return tuple(films)
    draw = rng.stream(seed, "movies", session, "shelf")
    chosen = list(dict.fromkeys(answers))[:n]
    others = [film for film in films if film not in chosen]
    chosen += [others[index] for index in draw.permutation(len(others))[: n - len(chosen)]]
    return tuple(chosen[index] for index in draw.permutation(len(chosen)))
