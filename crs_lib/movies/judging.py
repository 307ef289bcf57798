"""Judges over a finished run: resumable, every score on record, what is missing counted."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib import batch, paths, runs, tables
from crs_lib.dialogue import Dialogue
from crs_lib.errors import InputError, RunError
from crs_lib.ledger import Key, Ledger
from crs_lib.llm import calls
from crs_lib.llm.base import fingerprint
from crs_lib.llm.pool import Pool
from crs_lib.llm.preflight import Need, preflight
from crs_lib.movies import canaries as spoiling
from crs_lib.movies import judge, judge_prompt, simulate, sources
from crs_lib.movies.judge import Settings
from crs_lib.movies.judge_records import (
    SCORES,
    STAGE,
    add,
    records,
    score_table,
    scores_of,
    shown_scores,
    usage,
)  # fmt: skip
from crs_lib.movies.llm_roles import check_spec, stage_before
from crs_lib.movies.llm_settings import LLMSettings

__all__ = [
    "SCORES",
    "JudgeConfig",
    "add",
    "judge_run",
    "records",
    "score_table",
    "scores_of",
    "shown_scores",
    "usage",
]


class Task(NamedTuple):
    """One dialogue before one judge: its line in the file, and how it is spoilt ("" is the original)."""

    line: int
    judge: str
    canary: str


class Place(NamedTuple):
    """Where a dialogue stands in the file, and whose it is."""

    offset: int
    model: str
    session_id: str


@dataclass(frozen=True)
class JudgeConfig:
    """The effective settings of a judgement, checked.

    ``judges`` are specs of models, each asked ``samples`` times a dialogue; ``canaries`` are judged too,
    for the first ``n_canaries`` sessions of each system. ``llm`` holds host, timeout, slots and think.
    Raises InputError naming the setting, what was given and what is expected.
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
        LLMSettings.read(self.llm or {})

    def parameters(self) -> dict[str, Any]:
        """What the scores depend on, as plain data for the manifest."""
        return {
            "judges": list(self.judges), "samples": self.samples, "settings": asdict(self.settings),
            "canaries": list(self.canaries), "n_canaries": self.n_canaries, "rubric": judge_prompt.digest(),
        }  # fmt: skip


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

    Killed and started again it continues (``ledger-judge.sqlite``); a judge that is added later does not
    repeat the others. Without judges nothing is done. Raises RunError for a run without finished
    dialogues, models that are not there, and dialogues that could not be judged: they are retried at
    the next start. A reply that stays unreadable is a missing score with its reason, no error.
    """
    config = JudgeConfig(
        run, tuple(judges), samples, settings or Settings(), tuple(canaries), n_canaries, llm
    )
    folder = paths.run_folder(simulate.STUDY, run)
    if not config.judges:
        return folder
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    inputs |= _weights(config, inputs, stage_before(simulate.STUDY, run, STAGE))
    with (
        runs.stage(simulate.STUDY, run, STAGE, config.parameters(), inputs, fixed=False) as stage,
        stage.ledger() as ledger,
    ):
        places = list(_places(folder / "dialogues.jsonl"))
        try:
            keys = _work(config, folder, places, ledger, inputs, progress)
        finally:
            calls.export_all(folder)
        records = list(_combined(ledger, keys, config, places))
        tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
        stage.counts |= {"dialogues": len(records), "missing": sum(row["missing"] for row in records)}
        stage.counts |= {"scores": sum(len(row["scores"]) for row in records)}
    return folder


def _weights(config: JudgeConfig, inputs: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the judges; those on record where the same judgement is finished already."""
    names = {spec: f"weights of {spec}" for spec in config.judges}
    kept = before.get("inputs", {})
    if before.get("status") == "finished" and kept.keys() == {*inputs, *names.values()}:
        return {name: str(kept[name]) for name in names.values()}
    service = LLMSettings.read(config.llm or {}).service()
    needs = [
        Need("judge", spec, config.settings.options, 0, service.settings_for(spec)) for spec in config.judges
    ]
    return {names[row.model]: str(row.digest) for row in preflight(needs).itertuples()}


def _places(path: Path) -> Iterator[Place]:
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = json.loads(line)
            yield Place(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class _Bench:
    """The judges of a run at work: reads a dialogue, spoils it if asked, and lets one judge score it."""

    def __init__(self, config: JudgeConfig, folder: Path, places: Sequence[Place]) -> None:
        self.config, self.places = config, places
        self.path = folder / "dialogues.jsonl"
        self.pool = Pool(folder, LLMSettings.read(config.llm or {}).service())
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
            dialogue, [task.judge], self.config.samples, self.pool, self.config.settings
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
        return spoiling.spoil(found, canary, self.titles, self.config.settings.seed) if canary else found


def _work(
    config: JudgeConfig,
    folder: Path,
    places: Sequence[Place],
    ledger: Ledger,
    inputs: Mapping[str, str],
    progress: bool,
) -> dict[Task, Key]:
    """Judge what the ledger does not have, judge by judge; returns the keys of all tasks."""
    bench = _Bench(config, folder, places)
    keys: dict[Task, Key] = {}
    try:
        for spec in config.judges:
            mine = {task: _key(task, config, places, inputs) for task in _tasks(config, bench, spec)}
            keys |= mine
            if ledger.finished().issuperset(mine.values()):
                continue
            bench.tasks |= {key: task for task, key in mine.items()}
            batch.work(
                ledger, list(mine.values()), _given(bench), (), threads=bench.pool.width([spec]),
                progress=progress, label=spec,
            )  # fmt: skip
            bench.pool.unload(spec)
    finally:
        bench.pool.close()
    batch.check(ledger, list(keys.values()))
    return keys


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


def _key(task: Task, config: JudgeConfig, places: Sequence[Place], inputs: Mapping[str, str]) -> Key:
    """The ledger's key: what was asked of whom. Other dialogues, settings or weights are other keys."""
    asked = fingerprint([
        inputs["dialogues"], inputs[f"weights of {task.judge}"], config.samples, asdict(config.settings),
        judge_prompt.digest(),
    ])  # fmt: skip
    return Key(f"{asked[:12]} {task.judge} {task.canary or 'original'} {places[task.line].model}", task.line)


def _combined(
    ledger: Ledger, keys: Mapping[Task, Key], config: JudgeConfig, places: Sequence[Place]
) -> Iterator[dict[str, Any]]:
    """One record a dialogue: the scores of all judges, their means, and how many are missing."""
    for line, canary in dict.fromkeys((task.line, task.canary) for task in keys):
        mine = [keys[Task(line, spec, canary)] for spec in config.judges]
        parts = [json.loads(body) for body in ledger.bodies(mine)]
        scores = [row for part in parts for row in part["scores"]]
        yield {
            "model": places[line].model, "session_id": places[line].session_id, "canary": canary,
            "judge": judge.means(scores), "scores": scores,
            "missing": sum(row["score"] is None for row in scores),
            **{name: parts[0][name] for name in ("trim", "rubric", "settings")},
        }  # fmt: skip
