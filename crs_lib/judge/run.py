"""Judges over a finished run: resumable, every score on record, what is missing counted."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.judge import canaries as spoiling
from crs_lib.judge import judge, prompt
from crs_lib.judge import ledger as judge_ledger
from crs_lib.judge import settings as judge_settings
from crs_lib.judge.ledger import Place, Sitting, Task
from crs_lib.judge.records import (
    SCORES,
    STAGE,
    add,
    read_records,
    score_table,
    scores_of,
    shown_scores,
    usage,
)
from crs_lib.judge.settings import Settings
from crs_lib.llm import calls
from crs_lib.llm.pool import Pool
from crs_lib.llm.preflight import Need, preflight
from crs_lib.llm.settings import Service
from crs_lib.runs import batch
from crs_lib.runs.ledger import Key, Ledger
from crs_lib.simulate.roles import check_spec, stage_before

_WEIGHTS = "weights of "
__all__ = [
    "SCORES",
    "JudgeConfig",
    "add",
    "judge_run",
    "read_records",
    "score_table",
    "scores_of",
    "shown_scores",
    "usage",
]


@dataclass(frozen=True)
class JudgeConfig:
    """The effective settings of a judgement, checked.

    ``judges`` are specs of models, each asked ``samples`` times a dialogue; ``canaries`` are judged too,
    for the first ``n_canaries`` sessions of each system. ``llm`` says how judges are asked and reached
    (:func:`judge_settings.read`); what it leaves out is ``settings``'. Raises InputError naming the setting,
    what was given and what is expected.
    """

    run: str
    judges: Sequence[str]
    samples: int = 1
    settings: Settings = field(default_factory=Settings)
    canaries: Sequence[str] = ()
    n_canaries: int = 20
    llm: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.judges, str) or len(set(self.judges)) < len(self.judges):
            raise InputError(f"judges is {self.judges!r}; give a list of specs, each once")
        for spec in self.judges:
            check_spec(spec, "judges")
        for name in self.canaries:
            spoiling.CANARIES.get(name)
        for name in ("samples", "n_canaries"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is {value!r}; give a whole number >= 1")
        judge_settings.read(self.llm or {}, self.settings)

    @property
    def asked(self) -> Settings:
        """How judges are asked."""
        return judge_settings.read(self.llm or {}, self.settings)[0]

    @property
    def service(self) -> Service:
        """How their models are reached."""
        return judge_settings.read(self.llm or {}, self.settings)[1]

    def question(self) -> dict[str, Any]:
        """What a judge's scores depend on beside the dialogue and its weights, as plain data."""
        return {"samples": self.samples, "settings": asdict(self.asked), "rubric": prompt.digest()}

    def parameters(self) -> dict[str, Any]:
        """What the scores depend on, as plain data for the manifest."""
        return {
            "judges": list(self.judges), **self.question(),
            "canaries": list(self.canaries), "n_canaries": self.n_canaries,
        }  # fmt: skip

    def needs(self) -> list[Need]:
        """What the preflight checks: each judge with its options and the part of a prompt that never goes."""
        asked, least = self.asked, prompt.least(self.asked.groups)
        return [
            Need("judge", spec, asked.options, least, self.service.settings_for(spec)) for spec in self.judges
        ]


def judge_run(
    run: str,
    judges: Sequence[str],
    samples: int = 1,
    settings: Settings | None = None,
    *,
    canaries: Sequence[str] = (),
    n_canaries: int = 20,
    llm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Path:
    """Let judges score a run's dialogues into ``judge_scores.jsonl``; returns the folder.

    Killed and started again it continues (``ledger-judge.sqlite``); a judge that is added later neither
    repeats nor drops the others that were asked the same. Without judges nothing is done. Raises RunError
    for a run without finished dialogues, models that are not there, and dialogues that could not be judged:
    they are retried at the next start. A reply that stays unreadable is a missing score with its reason, no
    error.
    """
    config = JudgeConfig(
        run, tuple(judges), samples, settings or Settings(), tuple(canaries), n_canaries, llm
    )
    folder = paths.run_folder(simulate.STUDY, run)
    if not config.judges:
        return folder
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    before = stage_before(simulate.STUDY, run, STAGE)
    weights = _weights(config, inputs["dialogues"], before)
    inputs |= {f"{_WEIGHTS}{spec}": digest for spec, digest in weights.items()}
    with (
        runs.stage(simulate.STUDY, run, STAGE, config.parameters(), inputs, fixed=False) as stage,
        stage.ledger() as ledger,
    ):
        if before.get("inputs", {}).get("dialogues") != inputs["dialogues"]:
            (folder / SCORES).unlink(missing_ok=True)  # about dialogues that are gone
        places = list(judge_ledger.places(folder / "dialogues.jsonl"))
        sitting = Sitting.of(inputs["dialogues"], config.question(), places)
        try:
            _work(config, folder, sitting, ledger, weights, progress)
        finally:
            calls.export_all(folder)
        keys = sitting.keys(ledger, weights)
        records = list(judge_ledger.combined(ledger, keys, sitting))
        tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
        stage.parameters["judges"] = sorted({task.judge for task in keys})
        stage.counts |= {"dialogues": len(records), "missing": sum(row["missing"] for row in records)}
        stage.counts |= {"scores": sum(len(row["scores"]) for row in records)}
    return folder


def on_record(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry in the manifest says that all this was judged: no server is needed then."""
    told, now = before.get("parameters", {}), config.parameters()
    return bool(
        before.get("status") == "finished"
        and _same(config, dialogues, before)
        and {f"{_WEIGHTS}{spec}" for spec in config.judges} <= before["inputs"].keys()
        and set(now["canaries"]) <= set(told["canaries"])
        and (not now["canaries"] or now["n_canaries"] <= told["n_canaries"])
    )


def _same(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry is about the same dialogues, judged in the same way."""
    told = before.get("parameters", {})
    return bool(
        before.get("inputs", {}).get("dialogues") == dialogues
        and {name: told.get(name) for name in config.question()} == config.question()
    )


def _weights(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the judges, with those of earlier judges that were asked the same."""
    kept = {}
    if _same(config, dialogues, before):
        told = {name: str(digest) for name, digest in before["inputs"].items() if name.startswith(_WEIGHTS)}
        kept = {name.removeprefix(_WEIGHTS): digest for name, digest in told.items()}
    if on_record(config, dialogues, before):
        return kept
    return kept | {row.model: str(row.digest) for row in preflight(config.needs()).itertuples()}


class _Bench:
    """The judges of a run at work: reads a dialogue, spoils it if asked, and lets one judge score it."""

    def __init__(self, config: JudgeConfig, folder: Path, places: Sequence[Place]) -> None:
        self.config, self.places = config, places
        self.path = folder / "dialogues.jsonl"
        self.pool = Pool(folder, config.service)
        self.tasks: dict[Key, Task] = {}
        self.titles: list[str] = []
        if config.canaries:
            self.titles = [item.title for item in sources.load(folder / "catalog.parquet").items]

    def __call__(self, key: Key) -> str:
        """The record of one dialogue before one judge, as a line of JSON."""
        task = self.tasks[key]
        dialogue = self.dialogue(task.line, task.canary)
        if dialogue is None:
            raise RunError(f"the dialogue on line {task.line + 1} changed while it was judged; judge again")
        record = judge.judge_session(
            dialogue, [task.judge], self.config.samples, self.pool, self.config.asked
        )
        return tables.dumps({**record, "canary": task.canary})

    def halt(self) -> None:
        """Refuse further calls."""
        self.pool.halt()

    def dialogue(self, line: int, canary: str) -> Dialogue | None:
        """The dialogue, spoilt if asked; None where it cannot be spoilt in this way."""
        with self.path.open("rb") as file:
            file.seek(self.places[line].offset)
            found = Dialogue.from_json(json.loads(file.readline()), source=self.path.name)
        return spoiling.spoil(found, canary, self.titles, self.config.asked.seed) if canary else found


def _work(
    config: JudgeConfig,
    folder: Path,
    sitting: Sitting,
    ledger: Ledger,
    weights: Mapping[str, str],
    progress: bool,
) -> None:
    """Judge what the ledger does not have, judge by judge."""
    bench = _Bench(config, folder, sitting.places)
    asked: list[Key] = []
    try:
        for spec in config.judges:
            mine = {sitting.key(task, weights[spec]): task for task in _tasks(config, bench, spec)}
            asked += mine
            if ledger.finished().issuperset(mine):
                continue
            bench.tasks |= mine
            batch.work(
                ledger, list(mine), _given(bench), (), threads=bench.pool.width([spec]),
                progress=progress, label=spec,
            )  # fmt: skip
            bench.pool.unload(spec)
    finally:
        bench.pool.close()
    batch.check(ledger, asked)


def _given(bench: _Bench) -> Callable[[], _Bench]:
    return lambda: bench


def _tasks(config: JudgeConfig, bench: _Bench, spec: str) -> Iterator[Task]:
    """Every dialogue, then the canaries of the first sessions of each system."""
    seen: dict[str, int] = {}
    for line in range(len(bench.places)):
        yield Task(line, spec, "")
    for line, place in enumerate(bench.places):
        seen[place.model] = seen.get(place.model, 0) + 1
        if seen[place.model] <= config.n_canaries:
            for name in config.canaries:
                if bench.dialogue(line, name) is not None:
                    yield Task(line, spec, name)
