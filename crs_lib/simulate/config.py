"""The settings of a batch of dialogues, checked before anything starts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pandas as pd
from pydantic import AfterValidator

from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.llm.base import check_spec
from crs_lib.runs.ledger import Key
from crs_lib.simulate import scenarios
from crs_lib.simulate.scenarios import Rates
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.simulate.voices import ALL, DEGREES, EXPLICIT, MIXED, SCOPES, STATED, choices
from crs_lib.systems.base import SYSTEMS, is_program, model_of, named
from crs_lib.systems.base import check as check_systems
from crs_lib.systems.settings import ModelSettings

if TYPE_CHECKING:
    from crs_lib.llm.preflight import Need

STUDY = "movies"
FAILED = "failed_sessions.csv"
RAW_CATALOG = "catalog_source.json"  # the catalogue in the OpenDialKG form, as it was given
DEFAULT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")


class _Role(NamedTuple):
    """A model in a role: "crs", "user" or "judge"."""

    role: str
    spec: str
    system: str = ""  # the system whose model it is, for "crs"


def _waits_for(spec: str) -> str:
    """The model, address or command that the sessions of a system wait for; empty where there is none."""
    return model_of(spec) or (spec if SYSTEMS.get(spec).facts.get("apart") else "")


def needs(asked: Sequence[_Role], rule: ModelSettings, catalog: Catalog) -> "list[Need]":
    """What the preflight checks: each model with its options and its longest unbounded prompt."""
    from crs_lib.llm.preflight import Need

    found = []
    for one in asked:
        kind: Any = SYSTEMS.get(one.system).make if one.system else None
        longest = int(kind.longest(catalog, rule)) if kind else 0
        found.append(Need(one.role, one.spec, rule.options, longest, rule.settings_for(one.spec)))
    return found


def versions(programs: Sequence[str], before: Mapping[str, Any]) -> dict[str, str]:
    """The versions of programs, as inputs of the stage: a run is finished with the programs it began with.
    ``before`` is the stage's entry in the manifest. Raises one RunError for all that cannot be reached.
    """
    if not programs:
        return {}
    names = {spec: f"program {spec}" for spec in programs}
    if before.get("status") == "finished" and set(names.values()) <= set(before["inputs"]):
        return {name: before["inputs"][name] for name in names.values()}
    from crs_lib.llm.preflight import refuse
    from crs_lib.systems.programs import identity, missing

    refuse(missing(programs))
    return {name: identity(spec) for spec, name in names.items()}


def _bounds(name: str, least: int, given: Sequence[int]) -> tuple[int, int]:
    """The least and the most of a range of turns; InputError unless they are two numbers in order."""
    if len(given) != 2 or not least <= given[0] <= given[1]:
        wanted = f"two whole numbers, the least (from {least}) and the most, e.g. [{least + 2}, {least + 4}]"
        raise InputError(f"{name} is {list(given)}; give {wanted}")
    return given[0], given[1]


# Settings of today at which a run of before is the same: manifests leave them out.
_LATER = (("scope", STATED), ("pace", scenarios.DENSE))
_ARMS = (scenarios.SHIFT, scenarios.STRAIGHT, scenarios.FRESH, scenarios.NO_SHIFT, scenarios.CALM)


_Degree = Annotated[str, OneOf(DEGREES)]
_Scope = Annotated[str, OneOf(SCOPES)]
_Voices = Annotated[str, OneOf(choices)]


def _once(arms: Sequence[str]) -> Sequence[str]:
    if len(set(arms)) < len(arms) or (arms and arms[0] not in (scenarios.SHIFT, scenarios.NO_SHIFT)):
        example = "['shift', 'straight', 'fresh'] (calm: insist says the same of a whole run)"
        raise InputError(f"arms is {list(arms)}; give each arm once, shift or none first, e.g. {example}")
    return arms


class SimulateConfig(Settings):
    """The effective settings of a batch, checked; ``workers`` and ``scheduler`` never change a session."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/movies")] = "smoke"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    systems: Annotated[
        Sequence[str], AfterValidator(check_systems),
        Field(description="policies, models or programs that answer, also NAME=SPEC"),
    ] = DEFAULT_SYSTEMS  # fmt: skip
    n_sessions: Annotated[int, Field(ge=1, le=1_000_000, description="sessions of each system")] = 12
    n_turns: Annotated[int, Field(ge=1, le=1_000, description="turns of a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    workers: Annotated[int, Field(ge=1, le=256, description="processes for systems without models")] = 1
    arms: Annotated[
        Sequence[Annotated[str, OneOf(_ARMS)]], AfterValidator(_once),
        Field(min_length=1, description="shift, straight (wants at once what others shift to), fresh (new at "
              "a shift), none (no shift), calm (no insisting)"),
    ] = (scenarios.SHIFT, *scenarios.WINDOWS)  # fmt: skip
    shift_first: Annotated[
        Sequence[int], AfterValidator(partial(_bounds, "shift_first", 2)),
        Field(description="the least and the most turn of the first shift"),
    ] = scenarios.FIRST_SHIFT  # fmt: skip
    shift_gap: Annotated[
        Sequence[int], AfterValidator(partial(_bounds, "shift_gap", 1)),
        Field(description="the least and the most turns from one shift to the next"),
    ] = scenarios.GAP  # fmt: skip
    pace: Annotated[
        str, OneOf((scenarios.DENSE, scenarios.NATURAL)),
        Field(description="dense: gaps as set, types in turn; natural: as often and in the types of people"),
    ] = scenarios.DENSE  # fmt: skip
    shift_types: Annotated[
        Sequence[Annotated[str, OneOf(SHIFTS)]], Field(min_length=1, description="shift types, due in turn")
    ] = scenarios.ALL_TYPES
    rates: Annotated[
        Rates, Field(description="shares of ordinary turns: hesitation, contradiction, question")
    ] = Rates()
    explicitness: Annotated[
        _Degree, Field(description="whether a shift names its new constraint, or a situation implies it")
    ] = EXPLICIT
    scope: Annotated[
        _Scope, Field(description="whether a shift that brings a value says what becomes of earlier ones")
    ] = MIXED
    insist: Annotated[
        bool, Field(description="whether users insist where replies miss their constraints")
    ] = True
    voices: Annotated[
        _Voices, Field(description="how users talk: all, development, confirmation, one voice, or A")
    ] = ALL
    user_llm: Annotated[str, Field(description="spec of the model that words the user; none if empty")] = ""
    llm: Annotated[
        Mapping[str, Any], Field(description="settings of the models (systems.ModelSettings)")
    ] = {}
    scheduler: Annotated[str, Field(description="a Dask cluster: local, tcp://host:8786, tls://…")] = ""

    def __init__(self, fields: str = "", **given: Any) -> None:
        """``fields`` is a YAML file that declares fields of the catalogue."""
        if fields:
            given["catalog"] = sources.with_fields(given.get("catalog", sources.SAMPLE), fields)
        super().__init__(**given)

    def check(self) -> None:
        if self.user_llm:
            check_spec(self.user_llm, "user_llm")
        rule = self.llm_settings
        if any(map(model_of, self.specs.values())):
            from crs_lib.systems.search import search_kind

            search_kind(rule.retriever)

    @cached_property
    def llm_settings(self) -> ModelSettings:
        """The settings of the language models, read from ``llm``."""
        return ModelSettings(**self.llm)

    @cached_property
    def specs(self) -> dict[str, str]:
        """The specs of the systems by name; a system without a name of its own is called as its spec."""
        return dict(map(named, self.systems))

    def keys(self) -> list[Key]:
        """Every session of the batch, system by system: the order of the exported file."""
        return [Key(system, session) for system in self.specs for session in range(self.n_sessions)]

    def roles(self) -> list[_Role]:
        """The language models of the batch with their roles; empty where rules do everything."""
        found = [_Role("crs", model, spec) for spec in self.specs.values() if (model := model_of(spec))]
        return found + ([_Role("user", self.user_llm)] if self.user_llm else [])

    def programs(self) -> list[str]:
        """The specs of the systems that are programs; empty where there is none."""
        return [spec for spec in self.specs.values() if is_program(spec)]

    @property
    def calls_out(self) -> bool:
        """Whether anything but our own rules takes part: its calls are logged."""
        return bool(self.roles() or self.programs())

    @property
    def catalog_name(self) -> str:
        """The name of the catalogue as programs are told it: sample, or the file's own name."""
        return Path(self.catalog.partition(sources.PLUS)[0]).stem

    def parts(self) -> list[tuple[list[Key], tuple[str, ...]]]:
        """The batch in the order of work, each part with the models that it waits for: systems in our own
        processes scenario by scenario, planned once; the others one by one: no server swaps weights.
        """
        keys, waits = self.keys(), dict[str, tuple[str, ...]]()
        for name, spec in self.specs.items():
            waits[name] = tuple(filter(None, (_waits_for(spec), self.user_llm)))
        ruled = sorted((key for key in keys if not waits[key.system]), key=lambda key: key.session)
        alone = [name for name in waits if waits[name]]
        apart = [([key for key in keys if key.system == name], waits[name]) for name in alone]
        return [(ruled, ()), *apart] if ruled else apart

    @property
    def arm(self) -> str:
        """The first arm, whose sessions lie in the run's own folder."""
        return self.arms[0]

    @property
    def lasting(self) -> tuple[str, ...]:
        """The arms of whole sessions, each a run of its own."""
        return tuple(arm for arm in self.arms if arm not in scenarios.WINDOWS)

    def windows(self, arm: str) -> tuple[str, ...]:
        """The arms of short conversations at the shifts of a session; without shifts, fresh users."""
        of = {scenarios.SHIFT: scenarios.WINDOWS, scenarios.NO_SHIFT: (scenarios.FRESH,)}
        return tuple(one for one in of.get(arm, ()) if one in self.arms)

    def turns(self, arm: str) -> int:
        """The largest number of user turns that a system meets in an arm."""
        if arm in self.lasting:
            return self.n_sessions * self.n_turns
        pace = scenarios.Pace.of(self.shift_first, self.shift_gap, self.pace)
        shifts = [scenarios.shift_turns(self.seed, n, self.n_turns, pace) for n in range(self.n_sessions)]
        times = sum(arm in self.windows(one) for one in self.lasting)
        times *= 2 if arm == scenarios.STRAIGHT and self.scope != STATED else 1  # at most two readings
        earlier = sum(turn - 1 for turns in shifts for turn in turns) if arm == scenarios.STRAIGHT else 0
        return times * (scenarios.FRESH_TURNS * sum(map(len, shifts)) + earlier)

    def run_of(self, arm: str) -> str:
        """The name of the run that holds an arm of whole sessions: the run's own, else ``<run>-<arm>``."""
        return self.run if arm == self.arm else f"{self.run}-{arm}"

    def parameters(self, arm: str) -> dict[str, Any]:
        """The settings that decide an arm, for the manifest; those of models where one takes part."""
        apart = ("arms", "user_llm", "llm", "scheduler")
        values = {name: value for name, value in self.values().items() if name not in apart}
        values = {name: v for name, v in values.items() if (name, v) not in _LATER}
        values |= {"run": self.run_of(arm), "arm": arm, "insist": self.insist and arm != scenarios.CALM}
        values |= {"windows": list(self.windows(arm))} if self.windows(arm) else {}
        if self.programs():
            values["want"] = self.llm_settings.most
        if self.roles():
            values |= {"user_llm": self.user_llm, "llm": self.llm_settings.parameters()}
        return values


def run_folder(run: str) -> Path:
    """``results/movies/<run>``."""
    return paths.run_folder(STUDY, run)


@safety.reader("the failed sessions of a run")
def failed_sessions(run: str) -> list[dict[str, str]]:
    """The sessions that a finished run is without: model, session_id and error of each; often none."""
    if FAILED not in runs.finished(STUDY, run, "simulate", "03_simulate")["outputs"]:
        return []
    path = runs.output(STUDY, run, "simulate", "03_simulate", FAILED)
    rows: list[dict[str, str]] = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
    return rows


def dialogues(run: str) -> list[Dialogue]:
    """The finished dialogues of a run, in the order of the file; RunError names what makes them."""
    return list(iter_dialogues(run))


def dialogue_file(arm: str = "") -> str:
    """The name of the file of a run's sessions, or of the short conversations of an arm beside them."""
    return f"dialogues_{arm}.jsonl" if arm else "dialogues.jsonl"


@safety.reader("the dialogues of a run")
def iter_dialogues(run: str, arm: str = "") -> Iterator[Dialogue]:
    """The finished dialogues of a run one by one, memory flat; of straight or fresh users for such an arm."""
    path = runs.output(STUDY, run, "simulate", "03_simulate", dialogue_file(arm))
    for record in tables.read_jsonl(path):
        yield Dialogue.from_json(record, source=path.name)
