"""The settings of a batch, checked before anything starts, and the dialogues of a finished one."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.llm.base import check_spec
from crs_lib.runs import dask
from crs_lib.runs.ledger import Key
from crs_lib.simulate import scenarios
from crs_lib.simulate.planner import ALL_TYPES, Behaviour
from crs_lib.simulate.scenarios import Pace, Rates
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.simulate.voices import ALL, DEGREES, EXPLICIT, MIXED, SCOPES, STATED, choices, drawn
from crs_lib.systems.base import SYSTEMS, is_program, model_of, named
from crs_lib.systems.base import check as check_systems
from crs_lib.systems.settings import ModelSettings

if TYPE_CHECKING:
    from crs_lib.llm.preflight import Need

STUDY = "movies"
FAILED = "failed_sessions.csv"
FAILED_ARM = "failed"  # the arm in the name of the file with the dialogues of failed sessions
RAW_CATALOG = "catalog_source.json"  # the catalogue in the OpenDialKG form, as it was given
DEFAULT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")


class Role(NamedTuple):
    """A language model in a role: "crs" for the model of a system, or "user"."""

    role: str
    spec: str
    system: str = ""


class UserModel(NamedTuple):
    """The model that words the users, by its spec, and whether it may drift from the plan; the templates word
    them where ``spec`` is empty.
    """

    spec: str = ""
    drift: bool = False


def needs(roles: Sequence[Role], settings: ModelSettings, catalog: Catalog) -> "list[Need]":
    """What the preflight checks: each model with its options and its longest unbounded prompt."""
    from crs_lib.llm.preflight import Need  # slow: it loads the clients of models
    from crs_lib.systems.agent import most_calls

    checks = []
    for role in roles:
        longest = 0
        if role.system:
            kind: Any = SYSTEMS.get(role.system).make
            longest = int(kind.longest(catalog, settings))
        reached = settings.settings_for(role.spec)
        tools = settings.tools == "native" and bool(role.system) and most_calls(role.system, settings) > 1
        checks.append(Need(role.role, role.spec, settings.options, longest, reached, tools))
    return checks


def versions(programs: Sequence[str], before: Mapping[str, Any], fresh_server: str = "") -> dict[str, str]:
    """The versions of programs, as inputs of the stage: a run is finished with the programs it began with.
    ``before`` is the stage's entry in the manifest. Raises one RunError for all that cannot be reached.
    """
    if not programs:
        return {}
    names = {spec: f"program {spec}" for spec in programs}
    if before.get("status") == "finished" and set(names.values()) <= set(before["inputs"]):
        return {name: before["inputs"][name] for name in names.values()}
    from crs_lib.llm.preflight import refuse
    from crs_lib.systems.programs import identity, missing  # slow: they load an HTTP client

    refuse(missing(programs, fresh_server))
    return {name: identity(spec) for spec, name in names.items()}


# Settings of today at which a run of before is the same: manifests leave them out.
_LATER = (("scope", STATED), ("pace", scenarios.DENSE), ("drift", False))
_APART = ("arms", "user_llm", "llm", "scheduler")  # settings that manifests have in another form
_ARMS = (scenarios.SHIFT, scenarios.STRAIGHT, scenarios.FRESH, scenarios.NO_SHIFT, scenarios.CALM)
_VERSION = 2  # of users: 1 straight users said less, and a first shift could be a refinement (before 0.4)
_PACES = (scenarios.DENSE, scenarios.NATURAL)


class SimulateConfig(Settings):
    """The effective settings of a batch, checked; ``workers`` and ``scheduler`` never change a session."""

    run: Annotated[RunName, Field(description="name of the run, its folder under results/movies")] = "smoke"
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    systems: Annotated[
        Sequence[str], Field(description="policies, models or programs that answer, also NAME=SPEC")
    ] = DEFAULT_SYSTEMS
    n_sessions: Annotated[int, Field(ge=1, le=1_000_000, description="sessions of each system")] = 12
    n_turns: Annotated[int, Field(ge=1, le=1_000, description="turns of a session")] = 20
    seed: Annotated[Seed, Field(description="seed of every random choice")] = 7
    workers: Annotated[int, Field(ge=1, le=256, description="processes for systems without models")] = 1
    arms: Annotated[
        Sequence[Annotated[str, OneOf(_ARMS)]],
        Field(
            min_length=1,
            description="shift, straight (wants at once what others shift to), fresh (new at "
            "a shift), none (no shift), calm (no insisting)",
        ),
    ] = (scenarios.SHIFT, *scenarios.WINDOWS)
    shift_first: Annotated[
        Sequence[int], Field(description="the least and the most turn of the first shift")
    ] = scenarios.FIRST_SHIFT
    shift_gap: Annotated[
        Sequence[int], Field(description="the least and the most turns from one shift to the next")
    ] = scenarios.GAP
    pace: Annotated[
        str,
        OneOf(_PACES),
        Field(description="dense: gaps as set, types in turn; natural: as often and in the types of people"),
    ] = scenarios.DENSE
    shift_types: Annotated[
        Sequence[Annotated[str, OneOf(SHIFTS)]], Field(min_length=1, description="shift types, due in turn")
    ] = ALL_TYPES
    rates: Annotated[
        Rates, Field(description="shares of ordinary turns: hesitation, contradiction, question")
    ] = Rates()
    explicitness: Annotated[
        str,
        OneOf(DEGREES),
        Field(description="whether a shift names its new constraint, or a situation implies it"),
    ] = EXPLICIT
    scope: Annotated[
        str,
        OneOf(SCOPES),
        Field(description="whether a shift that brings a value says what becomes of earlier ones"),
    ] = MIXED
    insist: Annotated[
        bool, Field(description="whether users insist where replies miss their constraints")
    ] = True
    voices: Annotated[
        str,
        OneOf(choices),
        Field(description="how users talk: all, development, confirmation, one voice, or A"),
    ] = ALL
    user_llm: Annotated[str, Field(description="spec of the model that words the user; none if empty")] = ""
    drift: Annotated[
        bool, Field(description="user_llm may name other values than planned; the log has both")
    ] = False
    llm: Annotated[
        Mapping[str, Any], Field(description="settings of the models (systems.ModelSettings)")
    ] = {}
    scheduler: Annotated[str, Field(description="a Dask cluster: local, tcp://host:8786, tls://…")] = ""

    def __init__(self, fields: str = "", **settings: Any) -> None:
        """``fields`` is a YAML file that declares fields of the catalogue."""
        if fields:
            settings["catalog"] = sources.with_fields(settings.get("catalog", sources.SAMPLE), fields)
        super().__init__(**settings)

    def check(self) -> None:
        check_systems(self.systems)
        if self.scheduler:
            dask.check(self.scheduler)
        twice = len(set(self.arms)) < len(self.arms)
        if twice or self.arm not in (scenarios.SHIFT, scenarios.NO_SHIFT):
            example = "['shift', 'straight', 'fresh'] (calm: insist says the same of a whole run)"
            raise InputError(
                f"arms is {list(self.arms)}; give each arm once, shift or none first, e.g. {example}"
            )
        _check_range("shift_first", 2, self.shift_first)
        _check_range("shift_gap", 1, self.shift_gap)
        if self.user_llm:
            check_spec(self.user_llm, "user_llm")
        elif self.drift:
            raise InputError("drift is for users worded by a model; name one in user_llm, e.g. ollama:MODEL")
        retriever = self.llm_settings.retriever
        if any(role.system for role in self.roles()):
            from crs_lib.systems.search import search_kind  # slow: it loads encoders

            search_kind(retriever)

    @cached_property
    def llm_settings(self) -> ModelSettings:
        """The settings of the language models, read from ``llm``."""
        return ModelSettings(**self.llm)

    @cached_property
    def specs(self) -> dict[str, str]:
        """The specs of the systems by name; a system without a name of its own is called as its spec."""
        return dict(map(named, self.systems))

    @property
    def user_model(self) -> UserModel:
        """How users are worded."""
        return UserModel(self.user_llm, self.drift)

    @cached_property
    def models(self) -> dict[str, str]:
        """The spec of each system's model, by the system's name; empty for rules and programs."""
        return {name: model_of(spec) for name, spec in self.specs.items()}

    def behaviour(self, session: int, arm: str) -> Behaviour:
        """How the user of a session behaves in an arm."""
        return Behaviour(
            n_turns=self.n_turns,
            arm=arm,
            types=tuple(self.shift_types),
            rates=self.rates,
            pace=Pace.of(self.shift_first, self.shift_gap, self.pace),
            voice=drawn(self.voices, self.seed, session),
            insist=self.insist,
            explicitness=self.explicitness,
            scope=self.scope,
        )

    def keys_of(self, system: str) -> list[Key]:
        """The sessions of a system."""
        return [Key(system, session) for session in range(self.n_sessions)]

    def keys(self) -> list[Key]:
        """Every session of the batch, system by system: the order of the exported file."""
        keys: list[Key] = []
        for system in self.specs:
            keys += self.keys_of(system)
        return keys

    def roles(self) -> list[Role]:
        """The language models of the batch with their roles; empty where rules do everything."""
        roles = [Role("crs", model, self.specs[name]) for name, model in self.models.items() if model]
        if self.user_llm:
            roles.append(Role("user", self.user_llm))
        return roles

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

    def parts(self) -> list[runs.Part]:
        """The batch in the order of work, each part with the models, addresses or commands that it waits for:
        systems in our own processes scenario by scenario, planned once; the others one by one, so that no
        server swaps weights.
        """
        ruled: list[Key] = []
        parts = []
        for name, spec in self.specs.items():
            own = self.models[name]
            if SYSTEMS.get(spec).facts.get("apart"):
                own = own or spec
            waits_for = tuple(filter(None, (own, self.user_llm)))
            if waits_for:
                parts.append(runs.Part(self.keys_of(name), waits_for))
            else:
                ruled += self.keys_of(name)
        if ruled:
            ruled.sort(key=attrgetter("session"))
            parts.insert(0, runs.Part(ruled))
        return parts

    @property
    def arm(self) -> str:
        """The first arm, whose sessions lie in the run's own folder."""
        return self.arms[0]

    @property
    def lasting(self) -> tuple[str, ...]:
        """The arms of whole sessions, each a run of its own."""
        return tuple(arm for arm in self.arms if arm not in scenarios.WINDOWS)

    def windows(self, arm: str) -> list[str]:
        """The arms of short conversations at the shifts of a session; none without shifts."""
        return [window for window in scenarios.WINDOWS if window in self.arms and arm == scenarios.SHIFT]

    def turns(self, arm: str) -> int:
        """The largest number of user turns that a system meets in an arm."""
        if arm in self.lasting:
            return self.n_sessions * self.n_turns
        pace = Pace.of(self.shift_first, self.shift_gap, self.pace)
        turns = 0
        if scenarios.SHIFT not in self.arms:
            return turns
        for session in range(self.n_sessions):
            for shift in scenarios.shift_turns(self.seed, session, self.n_turns, pace):
                turns += scenarios.FRESH_TURNS
                if arm == scenarios.STRAIGHT:
                    turns += shift - 1
        if arm == scenarios.STRAIGHT and self.scope != STATED:
            turns *= 2  # at most two interpretations
        return turns

    def run_of(self, arm: str) -> str:
        """The name of the run that holds an arm of whole sessions: the run's own, else ``<run>-<arm>``."""
        return self.run if arm == self.arm else f"{self.run}-{arm}"

    def parameters(self, arm: str) -> dict[str, Any]:
        """The settings that decide an arm, for the manifest; those of models where one takes part."""
        parameters = {}
        for name, value in self.values().items():
            if name not in _APART and (name, value) not in _LATER:
                parameters[name] = value
        parameters["run"] = self.run_of(arm)
        parameters["arm"] = arm
        parameters["insist"] = self.insist and arm != scenarios.CALM
        if self.windows(arm) or self.behaviour(0, arm).comparable:
            parameters["arms_version"] = _VERSION
        if self.windows(arm):
            parameters["windows"] = self.windows(arm)
        if self.programs():
            parameters["want"] = self.llm_settings.most
            if self.llm_settings.fresh_server:
                parameters["fresh_server"] = self.llm_settings.fresh_server
        if self.roles():
            parameters |= {"user_llm": self.user_llm, "llm": self.llm_settings.parameters()}
        return parameters


def _check_range(name: str, least: int, turns: Sequence[int]) -> None:
    if len(turns) != 2 or not least <= turns[0] <= turns[1]:
        form = f"two whole numbers, the least (from {least}) and the most, e.g. [{least + 2}, {least + 4}]"
        raise InputError(f"{name} is {list(turns)}; give {form}")


def run_named(name: str) -> runs.Run:
    """A run of the study of movies."""
    return runs.Run(STUDY, name)


def run_folder(run: str) -> Path:
    """``results/movies/<run>``."""
    return paths.run_folder(STUDY, run)


@safety.reader("the failed sessions of a run")
def failed_sessions(run: str) -> list[dict[str, str]]:
    """The sessions of a finished run that failed: model, session_id and error of each; often none."""
    if not _has(run, FAILED):
        return []
    path = run_named(run).output("simulate", "03_simulate", FAILED)
    rows: list[dict[str, str]] = tables.read_csv(path, dtype=str).fillna("").to_dict("records")
    return rows


def failed_dialogues(run: str) -> list[Dialogue]:
    """The failed sessions of a run, in which replies are empty from the turn on that got none; none for runs
    of before, which did not keep them.
    """
    if not _has(run, dialogue_file(FAILED_ARM)):
        return []
    return [talk for talk in iter_dialogues(run, FAILED_ARM) if "of" not in talk.extra]


def _has(run: str, file: str) -> bool:
    """Whether a finished run wrote a file."""
    return file in run_named(run).finished("simulate", "03_simulate")["outputs"]


def dialogues(run: str) -> list[Dialogue]:
    """The finished dialogues of a run, in the order of the file; RunError names what makes them."""
    return list(iter_dialogues(run))


def dialogue_file(arm: str = "") -> str:
    """The name of the file of a run's sessions, or of the short conversations of an arm beside them."""
    return f"dialogues_{arm}.jsonl" if arm else "dialogues.jsonl"


@safety.reader("the dialogues of a run")
def iter_dialogues(run: str, arm: str = "") -> Iterator[Dialogue]:
    """The finished dialogues of a run one by one, memory flat; of straight or fresh users for such an arm."""
    path = run_named(run).output("simulate", "03_simulate", dialogue_file(arm))
    for record in tables.read_jsonl(path):
        yield Dialogue.from_json(record, source=path.name)
