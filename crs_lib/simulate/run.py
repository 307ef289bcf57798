"""Running a batch: every system meets the same users, conversation by conversation, into a run folder."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng, safety, tables
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError, RunError
from crs_lib.llm.base import LLMError
from crs_lib.llm.client import Retry
from crs_lib.runs import jobs
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key, Ledger
from crs_lib.simulate import scenarios, voices
from crs_lib.simulate.config import (
    FAILED,
    FAILED_ARM,
    RAW_CATALOG,
    STUDY,
    SimulateConfig,
    UserModel,
    dialogue_file,
    needs,
    run_named,
    versions,
)
from crs_lib.simulate.planner import Planner
from crs_lib.simulate.scenarios import FRESH, STRAIGHT, Scenario, Streams, Window
from crs_lib.simulate.user_llm import ModelWording
from crs_lib.simulate.users import User, check_voiced
from crs_lib.systems import base as systems
from crs_lib.systems.base import SYSTEMS, SystemReply, World, is_program

if TYPE_CHECKING:
    from crs_lib.systems.programs import Programs


def scenario(world: World, number: int, config: SimulateConfig, arm: str = "") -> Scenario:
    """The scenario of a session's number under the settings of a batch, in their first arm or a named one.

    Raises
    ------
    InputError
        The catalogue has no genre with five films.
    """
    behaviour = config.behaviour(number, arm or config.arm)
    return Planner(world.catalog, Streams(config.seed, number), behaviour).plan()


class Talk(NamedTuple):
    """A conversation to be held: its id in files, the user's plan, its turns, and the window that it mirrors
    as the log names it (empty for a whole session).
    """

    name: str
    plan: Scenario
    turns: range
    window: Mapping[str, Any] = {}

    @classmethod
    def whole(cls, plan: Scenario) -> "Talk":
        """The conversation of a whole session."""
        return cls(plan.name, plan, range(1, len(plan.steps) + 1))


Talks = Mapping[str, Sequence[Talk]]  # by arm


def talks_of(catalog: Catalog, plan: Scenario, arms: Sequence[str]) -> Talks:
    """The conversations of a scenario by arm: the session, and in ``arms`` those of its windows."""
    talks = {plan.arm: [Talk.whole(plan)]}
    kinds = {FRESH: _fresh_talks, STRAIGHT: _straight_talks}
    for arm in arms:
        talks[arm] = []
        for window in scenarios.windows(plan):
            talks[arm] += kinds[arm](catalog, plan, window)
    return talks


def _fresh_talks(catalog: Catalog, plan: Scenario, window: Window) -> list[Talk]:
    """The conversation of a fresh user; none where open words are to be interpreted."""
    if plan.steps[window.turn - 1].readings:
        return []
    fresh = scenarios.fresh(catalog, plan, window.turn)
    name = f"{plan.name}.{plan.arm}.{window.turn:02d}"
    return [Talk(name, fresh, range(window.turn, window.end), _window_log(plan, window))]


def _straight_talks(catalog: Catalog, plan: Scenario, window: Window) -> list[Talk]:
    """The conversation of a straight user; of one for each interpretation of open words."""
    name = f"{plan.name}.{STRAIGHT}.{window.turn:02d}"
    log = _window_log(plan, window)
    turns = range(1, window.end)
    readings = plan.steps[window.turn - 1].readings
    if not readings:
        straight = scenarios.straight(catalog, plan, window.turn)
        return [Talk(name, straight, turns, log | _matching(plan, straight, window))]
    talks = []
    for reading, state in readings.items():
        meant = scenarios.read_as(catalog, plan, window, state)
        straight = scenarios.straight(catalog, meant, window.turn)
        of = {**log, "reading": reading, **_matching(plan, straight, window)}
        talks.append(Talk(f"{name}.{reading}", straight, turns, of))
    return talks


def _matching(plan: Scenario, straight: Scenario, window: Window) -> dict[str, Any]:
    """How many statements the straight user and the other plan before a window, and whether as many."""
    planned = scenarios.statements(straight, window.turn)
    of_shift = scenarios.statements(plan, window.turn)
    return {"planned": planned, "planned_shift": of_shift, "matched": planned == of_shift}


def _window_log(plan: Scenario, window: Window) -> dict[str, Any]:
    return {"arm": plan.arm, "session_id": plan.name, "turn": window.turn}


def session(
    world: World, spec: str, number: int, config: SimulateConfig, plan: Scenario | None = None
) -> Dialogue:
    """One dialogue between a system and the user of a scenario.

    The user's random stream leaves the system out, so every system meets the same constraints and shifts.

    Parameters
    ----------
    world
        What all systems share: catalogue and grounder.
    spec
        The system, ``SPEC`` or ``NAME=SPEC``.
    number
        The number of the session, from 0.
    config
        The settings of the batch.
    plan
        The scenario, if it was planned already.

    Raises
    ------
    RunError
        An utterance does not voice a planned constraint or shift.
    """
    talk = Talk.whole(plan or scenario(world, number, config))
    dialogue, failure = Partner(world, spec, talk.plan, config.user_model).talk(talk)
    if failure is not None:
        raise failure
    return dialogue


def arms_of(
    world: World,
    spec: str,
    number: int,
    config: SimulateConfig,
    arm: str = "",
    plan: Scenario | None = None,
) -> dict[str, list[Dialogue]]:
    """The dialogues between a system and all users of a scenario, by arm.

    Beside the session there are, at each shift, a straight user, who wants at once what the other shifts to
    (:func:`crs_lib.simulate.scenarios.straight`), and a fresh user, whose first words name everything in
    force; where a shift leaves its scope open, a straight user for each interpretation.

    Parameters
    ----------
    world, spec, number, config
        As for :func:`session`.
    arm
        That of the whole session; by default the first of the batch.
    plan
        The scenario, if it was planned already.
    """
    plan = plan or scenario(world, number, config, arm)
    return hold(world, spec, talks_of(world.catalog, plan, config.windows(plan.arm)), config.user_model)


def hold(world: World, spec: str, talks: Talks, words: UserModel) -> dict[str, list[Dialogue]]:
    """The conversations of a scenario with a system, by arm. They are held in random order, each with a
    system made anew; a program has a process or object for each of as many lanes as there are arms, drawn
    by scenario, so that none serves two arms of one scenario. Systems are told the session's turn numbers,
    so that their chance draws are the session's. The log of a straight or fresh user says as ``first``
    whether it was heard before the session (:func:`crs_lib.evaluate.memory`).
    """
    session = next(iter(talks.values()))[0].plan
    lanes = session.streams.at("lanes").permutation(len(talks)).tolist()
    queue = []
    for lane, several in zip(lanes, talks.values(), strict=True):
        partner = Partner(replace(world, lane=lane), spec, session, words)
        queue += [(partner, talk) for talk in several]
    queue.sort(key=lambda pair: session.streams.at("order of arms", pair[1].name).random())
    dialogues = {}
    failure: LLMError | None = None
    heard_session = False
    for partner, talk in queue:
        gone = failure is not None and failure.remedy == "wait"  # it did not answer, however often asked
        dialogue, error = partner.talk(talk, silent=gone)
        failure = failure or error
        if talk.window:
            dialogue = replace(dialogue, extra={**dialogue.extra, "first": not heard_session})
        else:
            heard_session = True
        dialogues[talk.name] = dialogue
    by_arm = {}
    for arm, several in talks.items():
        by_arm[arm] = [dialogues[talk.name] for talk in several]
    if failure is not None:
        raise jobs.UnansweredError(failure, _lines(by_arm)) from failure
    return by_arm


def _lines(by_arm: Mapping[str, Sequence[Dialogue]]) -> str:
    """The dialogues of a scenario as lines of JSON, arm by arm."""
    lines = []
    for dialogues in by_arm.values():
        lines += [dialogue.dumps() for dialogue in dialogues]
    return "\n".join(lines)


class Partner:
    """A system of a batch as the users of a scenario meet it: made anew for each conversation. ``session`` is
    the plan of the whole session, whose films a system with a fixed list is given; ``words`` says how
    its users are worded.
    """

    def __init__(self, world: World, spec: str, session: Scenario, words: UserModel) -> None:
        self.world = world
        self.session = session
        self.words = words
        self.name, self.spec = systems.named(spec)

    def talk(self, talk: Talk, *, silent: bool = False) -> tuple[Dialogue, LLMError | None]:
        """A conversation as a dialogue, and what failed. From a turn on that gets no usable reply the replies
        are empty, and the log says so as ``failed``; with ``silent`` all are.
        """
        catalog = self.world.catalog
        system = None if silent else self._system(talk)
        realise = self._realiser()
        user = User(catalog, talk.plan, realise)
        failure = None
        failed_at = 1 if silent else 0
        turns = []
        for number, turn in enumerate(talk.turns, start=1):
            reply = SystemReply("")
            with prompts.worded(catalog.words):
                utterance = user.speak(turn)
                step = talk.plan.steps[turn - 1]
                if "drift" not in utterance.meta:
                    check_voiced(self.world.grounder, step, utterance.act, utterance.text)
                if system is not None:
                    log = utterance.meta if system.sees_state else {}
                    try:
                        reply = system.reply(turn, utterance.text, log)
                    except LLMError as error:
                        failure, failed_at = error, number
                        system = None
            user.hear(reply.items, reply.text)
            turns.append(Turn(USER, utterance.text, {"user_meta": {**utterance.meta, "turn": number}}))
            turns.append(Turn(SYSTEM, reply.text, reply_meta(catalog, reply)))
        dialogue = self._dialogue(talk, turns)
        if failed_at:
            dialogue = replace(dialogue, extra={**dialogue.extra, "failed": failed_at})
        return dialogue, failure

    def _dialogue(self, talk: Talk, turns: Sequence[Turn]) -> Dialogue:
        plan = talk.plan
        extra: dict[str, Any] = {"seed": plan.streams.seed, "arm": plan.arm}
        if plan.voice != voices.FIRST:
            extra["voice"] = plan.voice
        events = [event.to_json() for event in plan.events]
        if talk.window:
            extra["of"] = dict(talk.window)
            events = []
        return Dialogue(talk.name, self.name, tuple(turns), plan.true_genre, tuple(events), extra)

    def _system(self, talk: Talk) -> systems.System:
        seed, session = self.session.streams
        conversation = conversation_id(seed, talk.name, talk.plan.arm)
        world = replace(self.world, conversation=conversation)
        films: Sequence[int] = ()
        if SYSTEMS.get(self.spec).facts.get("shelf"):
            films = candidate_set(world, self.session)
        return systems.create(self.spec, world, seed, session, films)

    def _realiser(self) -> ModelWording | None:
        """The model that words the user's utterances; None where the templates do."""
        model, drift = self.words
        if not model:
            return None
        world = self.world
        if world.llms is None:
            raise InputError(f"user_llm {model!r} needs language models; give the World a Pool as llms")
        address = (*self.session.streams, self.spec)
        voice = self.session.voice
        return ModelWording(world.llms, model, world.llm, world.grounder, address, voice, drift=drift)


def conversation_id(seed: int, name: str, arm: str) -> str:
    """The id of a conversation as systems know it: digits, which tell neither the scenario nor the arm."""
    draw = rng.stream(seed, "movies", "conversation", name, arm)
    return str(draw.integers(10**17, 10**18))


def candidate_set(world: World, plan: Scenario) -> tuple[int, ...]:
    """The films of a session for systems with a fixed list: a draw with answers to each state of the user."""
    draw = plan.streams.at("answers")
    answers = {}
    for step in plan.steps:
        for state in (step.state, *step.readings.values()):
            wanted = (*state.constraints.items(), None, *state.avoid.items())
            answers[wanted] = state.answers(world.catalog)
    most = world.llm.most
    chosen = [draw.permutation(films)[:most].tolist() for films in answers.values()]
    in_turn = []
    for tier in zip_longest(*chosen):
        in_turn += [film for film in tier if film is not None]
    return systems.drawn(world.catalog, world.llm.listed, *plan.streams, in_turn)


def reply_meta(catalog: Catalog, reply: SystemReply) -> dict[str, Any]:
    """A reply as the log of its turn keeps it."""
    films = [catalog.items[item] for item in reply.items]
    log: dict[str, Any] = {"constraints": dict(reply.constraints)}
    log["rec_titles"] = [film.title for film in films]
    log["rec_ids"] = [film.item_id for film in films]
    log["hallucinated_titles"] = list(reply.hallucinated)
    log.update(reply.extra)
    return log


class Maker:
    """Makes the sessions of a batch in one process; ``start`` says where models' calls are kept."""

    def __init__(self, catalog: Catalog | str, config: SimulateConfig, arm: str, start: Start) -> None:
        loaded = sources.load(catalog) if isinstance(catalog, str) else catalog
        settings = config.llm_settings
        self.config = config
        self.arm = arm
        self.llms = None
        if config.roles():
            self.llms = start.pool(settings, Retry(seeds=start.starts * Retry().seeds))
        self.programs: Programs | None = None
        if config.programs():
            from crs_lib.systems import programs  # slow: it loads an HTTP client

            self.programs = programs.Programs(
                start.place,
                settings,
                loaded,
                config.catalog_name,
                fresh_server=settings.fresh_server,
                ledger=start.answers,
            )
        self._shared = [shared for shared in (self.llms, self.programs) if shared is not None]
        self.world = World(loaded, Grounder(loaded), self.llms, settings, self.programs)
        self._specs = {systems.named(spec)[0]: spec for spec in config.systems}
        self._talks = lru_cache(maxsize=64)(self._plan)

    def _plan(self, number: int) -> Talks:
        """The conversations of a session, planned once for all systems."""
        plan = scenario(self.world, number, self.config, self.arm)
        return talks_of(self.world.catalog, plan, self.config.windows(self.arm))

    def __call__(self, key: Key) -> str:
        """The session as one line of JSON, and behind it those of its windows, arm by arm."""
        talks = self._talks(key.session)
        return _lines(hold(self.world, self._specs[key.system], talks, self.config.user_model))

    @property
    def models(self) -> "Maker | None":
        """The maker itself where its sessions wait for models or programs."""
        return self if self._shared else None

    def width(self, specs: Sequence[str]) -> int:
        """How many sessions at once keep these models and programs busy; at least 1."""
        programs = [spec for spec in specs if is_program(spec)]
        if programs:
            from crs_lib.systems.programs import width  # slow: it loads an HTTP client

            settings, workers = self.config.llm_settings, self.config.workers
            return max(width(spec, settings, workers) for spec in programs)
        return self.llms.width(specs) if self.llms else 1

    def release(self, spec: str) -> None:
        """End a program that is no longer needed, or free a model's memory on its servers."""
        if self.programs is not None and is_program(spec):
            self.programs.close(spec)
        elif self.llms is not None:
            self.llms.release(spec)

    def close(self) -> None:
        """Close connections and files and end programs; using the maker afterwards opens them again."""
        for shared in self._shared:
            shared.close()

    def halt(self) -> None:
        """Let sessions that wait for a model or a program end at their next call."""
        for shared in self._shared:
            shared.halt()


_GROWS = ("n_sessions", "systems")  # more of these changes no session that there is


def prepare(run: str, catalog: str) -> Catalog:
    """Clean a catalogue and freeze it in a run's folder (``catalog.parquet``, ``cleaning_report.csv``, and a
    file in the OpenDialKG form as it is).

    Parameters
    ----------
    run
        Name of the run, a folder under results/movies.
    catalog
        ``sample``, or a catalogue's file.

    Returns
    -------
    Catalog
        The cleaned catalogue.

    Raises
    ------
    RunError
        The run holds another catalogue.
    """
    loaded = sources.load(catalog)
    _freeze(run, catalog, loaded)
    return loaded


def _freeze(run: str, catalog: str, loaded: Catalog) -> str:
    """Store a loaded catalogue in a run's folder as :func:`prepare` does; returns its hash."""
    digest = sources.content_hash(loaded)
    with runs.stage(STUDY, run, "catalog", {"catalog": catalog}, {"catalog": digest}) as stage:
        loaded.save(stage.path("catalog.parquet"))
        if loaded.declared:
            stage.path("catalog.yaml")
        source = sources.raw(catalog)
        if source:
            tables.write_whole(stage.path(RAW_CATALOG), source)
        tables.write_csv(stage.path("cleaning_report.csv"), loaded.report.lines())
        stage.counts |= {"films": len(loaded), "concepts": len(loaded.vocabulary)}
    return digest


def simulate(config: SimulateConfig, *, progress: bool = True) -> Path:
    """Run a batch into ``results/movies/<run>``: ledger, then ``dialogues.jsonl``.

    The conversations of straight and fresh users lie beside it (``dialogues_<arm>.jsonl``), further arms of
    whole sessions in runs ``<run>-<arm>``. Killed at any moment and started again, it continues. The
    catalogue is frozen as ``catalog.parquet``, models' calls are in ``llm_calls.jsonl``, failed sessions in
    ``failed_sessions.csv``.

    Parameters
    ----------
    config
        The settings of the batch.
    progress
        Whether bars show what is done.

    Returns
    -------
    Path
        The folder of the first arm.

    Raises
    ------
    RunError
        A folder made with other parameters, a damaged ledger, a run that another process works on, a disk
        that refuses, models that are not there, or more failed sessions than ``llm`` allows (``max_failed``).
    """
    catalog = sources.load(config.catalog, spoken=True)
    folders = [_simulate_arm(config, arm, catalog, progress) for arm in config.lasting]
    return folders[0]


def _simulate_arm(config: SimulateConfig, arm: str, catalog: Catalog, progress: bool) -> Path:
    run = config.run_of(arm)
    digest = _freeze(run, config.catalog, catalog)
    inputs = {"catalog": digest, **_reached(config, run, catalog)}
    opened = runs.stage(STUDY, run, "simulate", config.parameters(arm), inputs, grows=_GROWS)
    with opened as stage, stage.ledger("ledger.sqlite") as ledger:
        near = config.workers == 1 and not config.scheduler
        shared = catalog if near else str(stage.folder / "catalog.parquet")
        runs.job(
            stage,
            ledger,
            config.parts(),
            Maker,
            (shared, config, arm),
            llm=config.llm_settings,
            workers=config.workers,
            scheduler=config.scheduler,
            logged=config.calls_out,
            most_failed=config.llm_settings.max_failed,
            hint=_hint(config),
            progress=progress,
        )
        _export(stage, ledger, config.keys(), config.windows(arm))
        if config.programs():
            from crs_lib.systems import programs  # slow: it loads an HTTP client

            fresh_server = config.llm_settings.fresh_server
            stage.counts["not_isolated"] = programs.not_isolated(config.programs(), fresh_server)
    return stage.folder


def _reached(config: SimulateConfig, run: str, catalog: Catalog) -> dict[str, str]:
    """The models and programs of a batch, as inputs of the stage; RunError for those that are not there."""
    before = run_named(run).entry("simulate")
    roles = config.roles()
    specs = [role.spec for role in roles]
    weights = jobs.weights(before, specs, lambda: needs(roles, config.llm_settings, catalog))
    return {**weights, **versions(config.programs(), before, config.llm_settings.fresh_server)}


def _hint(config: SimulateConfig) -> str:
    """What may help where sessions failed that wait for models or programs."""
    if not config.calls_out:
        return ""
    seeds = ", with other seeds" if config.roles() else ""
    return f"{seeds}, or let the run do without so many: llm={{'max_failed': …}}"


def _export(stage: runs.Stage, ledger: Ledger, keys: Sequence[Key], windows: Sequence[str]) -> None:
    """Write the dialogues, in the order of ``keys`` (arms of ``windows`` into their files), and failures."""
    asked_for = set(keys)
    failures = {key: error for key, error in ledger.failures() if key in asked_for}
    done = [key for key in keys if key not in failures]
    with contextlib.ExitStack() as stack:
        files = {}
        for arm in ("", *windows):
            files[arm] = stack.enter_context(tables.write_aside(stage.path(dialogue_file(arm))))
        for key, body in zip(done, ledger.bodies(done), strict=True):
            for dialogue, line in _dialogues(key, body):
                arm = dialogue.extra["arm"] if "of" in dialogue.extra else ""
                files.get(arm, files[""]).write(line + "\n")
    _export_failures(stage, ledger, failures)
    names = {key.system for key in keys}
    stage.counts |= {"sessions": len(done), "systems": len(names)}


def _export_failures(stage: runs.Stage, ledger: Ledger, failures: Mapping[Key, str]) -> None:
    """Write why sessions failed, and the dialogues in which their replies are empty from then on."""
    partial = dialogue_file(FAILED_ARM)
    if not failures:
        for name in (FAILED, partial):
            (stage.folder / name).unlink(missing_ok=True)
        return
    rows = [(key.system, f"{key.session:05d}", error) for key, error in failures.items()]
    table = pd.DataFrame(rows, columns=["model", "session_id", "error"])
    tables.write_csv(stage.path(FAILED), table)
    failed = [key for key in ledger.partial() if key in failures]
    with tables.write_aside(stage.path(partial)) as file:
        for body in ledger.bodies(failed):
            file.write(body + "\n")


def _dialogues(key: Key, body: str) -> Iterator[tuple[Dialogue, str]]:
    """The dialogues of a body, each with its line; RunError where a line is none, whatever its hash says."""
    for line in filter(None, body.split("\n")):
        try:
            record = safety.loads(line, "the body")
            dialogue = Dialogue.from_json(record, source="the ledger")
        except (InputError, AttributeError, TypeError) as error:
            wrong = f"session {key.session} of {key.system!r} in the ledger is no dialogue ({error})"
            remedy = "move the ledger away and start the same command again: the sessions are made anew"
            raise RunError(f"{wrong}; {remedy}") from error
        yield dialogue, line
