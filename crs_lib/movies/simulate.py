"""One session, and a batch of systems × seeds in which every system meets the same users."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from crs_lib import batch, paths, rng, runs, tables
from crs_lib.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.errors import InputError, RunError
from crs_lib.ledger import Key
from crs_lib.movies import scenarios, sources, systems
from crs_lib.movies.catalog import Catalog
from crs_lib.movies.grounding import Grounder
from crs_lib.movies.scenarios import Rates, Scenario
from crs_lib.movies.shifts import SHIFTS
from crs_lib.movies.systems import World
from crs_lib.movies.users import User

STUDY = "movies"
DEFAULT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")


@dataclass(frozen=True)
class SimulateConfig:
    """The effective settings of a batch, checked; ``workers`` never changes what comes out.

    Raises InputError naming the setting, what was given and what is expected.
    """

    run: str = "smoke"
    catalog: str = sources.SAMPLE
    systems: Sequence[str] = DEFAULT_SYSTEMS
    n_sessions: int = 12
    n_turns: int = 20
    seed: int = 7
    workers: int = 1
    arm: str = "shift"
    types: Sequence[str] = scenarios.ALL_TYPES
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        object.__setattr__(self, "systems", tuple(systems.check(list(self.systems))))
        if isinstance(self.types, str) or not self.types:
            raise InputError(
                f"types is {self.types!r}; give a list of shift types, e.g. ['switch', 'refine']"
            )
        object.__setattr__(self, "types", tuple(self.types))
        rng.check_seed(self.seed)
        for name, low, high in (("n_sessions", 1, 1_000_000), ("n_turns", 1, 1_000), ("workers", 1, 256)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name} is {value!r}; give a whole number from {low} to {high:,}")
        if self.arm not in ("shift", scenarios.NO_SHIFT):
            raise InputError(f"arm is {self.arm!r}; give 'shift' or '{scenarios.NO_SHIFT}'")
        for kind in self.types:
            SHIFTS.get(kind)

    def keys(self) -> list[Key]:
        """Every session of the batch, system by system: the order of the exported file."""
        return [Key(system, session) for system in self.systems for session in range(self.n_sessions)]

    def work_order(self) -> list[Key]:
        """The order of work: scenario by scenario, so that a scenario is planned once for all systems."""
        return [Key(system, session) for session in range(self.n_sessions) for system in self.systems]

    def parameters(self) -> dict[str, Any]:
        """The settings as plain data, for the manifest."""
        return asdict(self)


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
    user = User(world.catalog, plan)
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


def _system_meta(catalog: Catalog, reply: systems.Reply) -> dict[str, Any]:
    return {
        "constraints": dict(reply.constraints),
        "rec_titles": [catalog.items[item].title for item in reply.items],
        "rec_ids": [catalog.items[item].item_id for item in reply.items],
        "hallucinated_titles": list(reply.hallucinated),
        **reply.extra,
    }


class Maker:
    """Makes the sessions of a batch in one process; the catalogue is loaded and compiled once."""

    def __init__(self, catalog: str, config: SimulateConfig) -> None:
        loaded = sources.load(catalog)
        self.world = World(loaded, Grounder(loaded))
        self.config = config
        self._plan = lru_cache(maxsize=4)(lambda number: scenario(self.world, number, config))

    def __call__(self, key: Key) -> str:
        """The session as one line of JSON."""
        plan = self._plan(key.session)
        return session(self.world, key.system, key.session, self.config, plan).dumps()


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
    catalogue is frozen as ``catalog.parquet``. Raises RunError for a folder made with other parameters,
    a damaged ledger, a run that another process works on, or a disk that refuses.
    """
    hashes = {"catalog": sources.content_hash(prepare(config.run, config.catalog))}
    with runs.stage(STUDY, config.run, "simulate", config.parameters(), hashes) as stage:
        frozen = stage.folder / "catalog.parquet"
        keys = config.keys()
        with stage.ledger() as ledger:
            batch.run(
                ledger,
                config.work_order(),
                Maker,
                (str(frozen), config),
                workers=config.workers,
                progress=progress,
                label="sessions",
            )
            tables.write_jsonl(stage.path("dialogues.jsonl"), ledger.bodies(keys))
            stage.counts |= {"sessions": len(keys), "systems": len(config.systems), **ledger.counts()}
        return stage.folder


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
