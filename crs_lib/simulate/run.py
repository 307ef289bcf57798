"""One session, and a batch of systems × seeds in which every system meets the same users."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError, RunError
from crs_lib.grounding.grounder import Grounder
from crs_lib.llm import calls
from crs_lib.llm.calls import Recorder
from crs_lib.llm.pool import LOG, Pool, drain_scratch, scratch
from crs_lib.llm.settings import LLMSettings
from crs_lib.runs import batch
from crs_lib.runs.ledger import Key, Ledger
from crs_lib.simulate import roles, scenarios
from crs_lib.simulate.config import DEFAULT_SYSTEMS, STUDY, SimulateConfig
from crs_lib.simulate.scenarios import Scenario
from crs_lib.simulate.user_llm import ModelWording
from crs_lib.simulate.users import User
from crs_lib.systems import base as systems
from crs_lib.systems.base import World

__all__ = [
    "DEFAULT_SYSTEMS", "FAILED", "STUDY", "Maker", "SimulateConfig", "dialogues", "export", "failed_sessions",
    "iter_dialogues", "prepare", "run_folder", "scenario", "session", "simulate",
]  # fmt: skip
FAILED = "failed_sessions.csv"


def scenario(world: World, number: int, config: SimulateConfig) -> Scenario:
    """The scenario of a session's number under the settings of a batch."""
    return scenarios.plan(
        world.catalog,
        config.seed,
        number,
        config.n_turns,
        arm=config.arm,
        types=tuple(config.types),
        rates=config.rates,
    )


def session(
    world: World, spec: str, number: int, config: SimulateConfig, plan: Scenario | None = None
) -> Dialogue:
    """One dialogue between a system and the scenario's user; the same for the same arguments.

    The user's stream leaves the system out, so the wishes and shifts are the same for every system.
    ``plan`` may be given to spare planning it again.
    """
    plan = plan or scenario(world, number, config)
    user = User(world.catalog, plan, _realiser(world, spec, number, config))
    system = systems.create(spec, world, config.seed, number)
    turns: list[Turn] = []
    for number_of_turn in range(1, config.n_turns + 1):
        said = user.speak(number_of_turn)
        reply = system.reply(number_of_turn, said.text, said.meta if system.sees_state else {})
        user.hear(reply.items)
        turns.append(Turn(USER, said.text, {"user_meta": said.meta}))
        turns.append(Turn(SYSTEM, reply.text, _system_meta(world.catalog, reply)))
    return Dialogue(
        session_id=f"{number:05d}",
        model_name=spec,
        turns=tuple(turns),
        true_genre=plan.true_genre,
        shift_events=tuple(plan.events),
        extra={"seed": config.seed, "arm": plan.arm},
    )


def _realiser(world: World, spec: str, number: int, config: SimulateConfig) -> ModelWording | None:
    """What words the user's utterances; None where the templates do."""
    if not config.user_llm:
        return None
    if world.llms is None:
        raise InputError(f"user_llm {config.user_llm!r} needs language models; give the World a Pool as llms")
    place = (config.seed, number, spec)
    return ModelWording(world.llms, config.user_llm, world.wording, world.grounder, place)


def _system_meta(catalog: Catalog, reply: systems.Reply) -> dict[str, Any]:
    return {
        "constraints": dict(reply.constraints),
        "rec_titles": [catalog.items[item].title for item in reply.items],
        "rec_ids": [catalog.items[item].item_id for item in reply.items],
        "hallucinated_titles": list(reply.hallucinated),
        **reply.extra,
    }


class Maker:
    """Makes the sessions of a batch in one process; the catalogue is loaded and compiled once.

    Call cache and call log lie in ``folder``; without one, where other runs of this machine find them. At the
    nth of ``starts`` n times as many seeds are tried where a model's reply cannot be used.
    """

    def __init__(self, catalog: str, config: SimulateConfig, folder: str = "", starts: int = 1) -> None:
        loaded = sources.load(catalog)
        rule = LLMSettings.read(config.llm)
        place = Path(folder) if folder else scratch(config.run)
        self.llms = Pool(place, rule.service(starts)) if config.roles() else None
        self.world = World(loaded, Grounder(loaded), self.llms, rule)
        self.config = config
        self._plan = lru_cache(maxsize=64)(lambda number: scenario(self.world, number, config))

    def __call__(self, key: Key) -> str:
        """The session as one line of JSON."""
        plan = self._plan(key.session)
        return session(self.world, key.system, key.session, self.config, plan).dumps()

    def pool(self) -> Pool:
        """The models; RunError where the batch has none."""
        if self.llms is None:
            raise RunError("this batch has no language models; this is a defect, please report it")
        return self.llms

    def halt(self) -> None:
        """Let sessions that wait for a model end at their next call."""
        if self.llms is not None:
            self.llms.halt()


def run_folder(run: str) -> Path:
    """``results/movies/<run>``."""
    return paths.run_folder(STUDY, run)


def prepare(run: str, catalog: str) -> Catalog:
    """Clean a catalogue and freeze it in a run's folder: ``catalog.parquet``, ``cleaning_report.csv``.

    Raises RunError if the run holds another catalogue.
    """
    loaded = sources.load(catalog)
    inputs = {"catalog": sources.content_hash(loaded)}
    with runs.stage(STUDY, run, "catalog", {"catalog": catalog}, inputs) as stage:
        loaded.save(stage.path("catalog.parquet"))
        tables.write_csv(stage.path("cleaning_report.csv"), loaded.report.table())
        stage.counts |= {"films": len(loaded), "concepts": len(loaded.vocabulary)}
    return loaded


def simulate(config: SimulateConfig, *, progress: bool = True) -> Path:
    """Run a batch into ``results/movies/<run>``: ledger, then ``dialogues.jsonl``; returns the folder.

    Killed at any moment and started again, it continues: nothing is lost, nothing is done twice. The
    catalogue is frozen as ``catalog.parquet``, the calls of models are listed in ``llm_calls.jsonl``. Raises
    RunError for a folder made with other parameters, a damaged ledger, a run that another process works
    on, a disk that refuses, models that are not there, and more failed sessions than ``llm`` allows
    (``max_failed``); those that failed are listed in ``failed_sessions.csv``.
    """
    name, rule = config.folder_name, LLMSettings.read(config.llm)
    catalog = prepare(name, config.catalog)
    inputs = {"catalog": sources.content_hash(catalog)}
    before = roles.stage_before(STUDY, name, "simulate")
    inputs |= roles.weights(config.roles(), rule, catalog, before)
    with runs.stage(STUDY, name, "simulate", config.parameters(), inputs) as stage, stage.ledger() as ledger:
        try:
            _work(config, stage.folder, ledger, progress)
        finally:
            if config.roles():
                stage.counts["llm_calls"] = calls.export_all(stage.folder)
            stage.counts |= ledger.counts()
        export(stage, ledger, config.keys())
    return stage.folder


def export(stage: runs.Stage, ledger: Ledger, keys: Sequence[Key]) -> None:
    """Write the finished dialogues, in the order of ``keys``, and the list of those that failed, if any."""
    asked = set(keys)
    failed = {key: error for key, error in ledger.failures() if key in asked}
    done = [key for key in keys if key not in failed]
    tables.write_jsonl(stage.path("dialogues.jsonl"), ledger.bodies(done))
    if failed:
        rows = [(key.system, f"{key.session:05d}", error) for key, error in failed.items()]
        tables.write_csv(stage.path(FAILED), pd.DataFrame(rows, columns=["model", "session_id", "error"]))
    else:
        (stage.folder / FAILED).unlink(missing_ok=True)
    stage.counts |= {"sessions": len(done), "systems": len({key.system for key in keys})}


def failed_sessions(run: str) -> list[dict[str, str]]:
    """The sessions that a finished run is without: model, session_id and error of each; often none."""
    made = runs.finished(STUDY, run, "simulate", "03_simulate")
    if FAILED not in made["outputs"]:
        return []
    frame = pd.read_csv(paths.run_folder(STUDY, run) / FAILED, dtype=str, keep_default_na=False)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]


def _given(maker: Maker) -> Callable[[], Maker]:
    return lambda: maker


def _work(config: SimulateConfig, folder: Path, ledger: Ledger, progress: bool) -> None:
    """Do what the ledger does not have, part by part; sessions that fail do not stop the next part."""
    catalog, starts = str(folder / "catalog.parquet"), 1 + ledger.tries()
    maker: Maker | None = None
    try:
        for keys, models in config.parts():
            if ledger.finished().issuperset(keys):
                continue
            if models and not config.scheduler:
                ready = maker = maker or Maker(catalog, config, str(folder), starts)
                batch.work(
                    ledger, keys, _given(ready), (), threads=ready.pool().width(models), progress=progress,
                    label=models[0],
                )  # fmt: skip
                if models[0] != config.user_llm:
                    ready.pool().unload(models[0])
            else:
                batch.work(
                    ledger, keys, Maker, (catalog, config, "", starts), workers=config.workers,
                    scheduler=config.scheduler, chunk=1 if models else 10, progress=progress,
                )  # fmt: skip
    except BaseException as error:
        with _noted(error):
            _fetch_logs(config, folder)
        raise
    finally:
        if maker is not None:
            maker.pool().close()
    _fetch_logs(config, folder)
    models_too = ", with other seeds, or let the run do without so many: llm={'max_failed': …}"
    hint = models_too if config.roles() else ""
    batch.check(ledger, config.keys(), LLMSettings.read(config.llm).max_failed, hint)


def _fetch_logs(config: SimulateConfig, folder: Path) -> None:
    """Bring the call logs of a cluster's workers into the run's folder."""
    if config.scheduler and config.roles():
        from crs_lib.runs import dask

        recorder = Recorder(folder / LOG)
        try:
            recorder.put(dask.on_every_machine(config.scheduler, drain_scratch, config.run))
        finally:
            recorder.close()


@contextmanager
def _noted(error: BaseException) -> Iterator[None]:
    """Within, a failure becomes a note on an earlier error, which is the one to be told."""
    try:
        yield
    except Exception as further:
        error.add_note(f"after it: {type(further).__name__}: {further}")


def dialogues(run: str) -> list[Dialogue]:
    """The finished dialogues of a run, in the order of the file; RunError names what makes them."""
    return list(iter_dialogues(run))


def iter_dialogues(run: str) -> Iterator[Dialogue]:
    """The finished dialogues of a run one by one, memory flat."""
    runs.finished(STUDY, run, "simulate", "03_simulate")
    path = paths.run_folder(STUDY, run) / "dialogues.jsonl"
    if not path.exists():
        again = f"python -m crs_lib run 03_simulate -p run {run}"
        raise RunError(f"{path.name} is gone from run {run!r}; export it again with: {again}")
    for record in tables.read_jsonl(path):
        yield Dialogue.from_json(record, source=path.name)
