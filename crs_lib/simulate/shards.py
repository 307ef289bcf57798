"""Parts of a run that were made apart, put together: no engine, no shared disk, only folders."""

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import calls
from crs_lib.runs.ledger import Done, Key, Ledger, pack
from crs_lib.simulate.config import STUDY
from crs_lib.simulate.run import export

_FREE = ("shard", "workers")
_BATCH = 200


@dataclass(frozen=True)
class Shard:
    """A finished part of a run: its folder, k and N, and the manifest's entry of its simulation."""

    folder: Path
    number: int
    of: int
    entry: Mapping[str, Any]

    def same(self) -> dict[str, Any]:
        """What all parts of a run have in common."""
        kept = {name: value for name, value in self.entry["parameters"].items() if name not in _FREE}
        return {"parameters": kept, "inputs": self.entry["inputs"]}


def read(folder: Path) -> Shard:
    """A shard's folder; RunError where it holds none, or one that is not finished."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise RunError(f"{paths.shown(folder)} holds no run; give the folders of the shards")
    entry = runs.manifest_at(path).get("stages", {}).get("simulate", {})
    part = str(entry.get("parameters", {}).get("shard", ""))
    if not part:
        raise RunError(f"{paths.shown(folder)} is no shard: it was made without --shard k/N")
    if entry.get("status") != "finished":
        raise RunError(
            f"shard {part} in {paths.shown(folder)} is not finished; start its command again, it continues"
        )
    number, _, of = part.partition("/")
    return Shard(folder, int(number), int(of), entry)


def merge(run: str, folders: Sequence[str | Path] = ()) -> Path:
    """Make the run whole from its shards, as if it had been made in one piece; returns its folder.

    Without ``folders`` the shards are looked for beside the run (``results/movies/<run>.shard-k-of-N``).
    Repeated, it changes nothing. Raises RunError for shards that are missing, unfinished, twice there, or
    made with different parameters, catalogues or weights.
    """
    given = [Path(folder) for folder in folders]
    beside = sorted(paths.run_folder(STUDY, run).parent.glob(f"{run}.shard-*-of-*"))
    shards = [read(folder) for folder in given or beside]
    _check(run, shards)
    common = shards[0].same()
    _freeze_catalog(run, shards[0])
    parameters, inputs = {**common["parameters"], "run": run}, common["inputs"]
    with runs.stage(STUDY, run, "simulate", parameters, inputs) as stage, stage.ledger() as ledger:
        keys = [Key(s, n) for s in parameters["systems"] for n in range(parameters["n_sessions"])]
        for shard in shards:
            _take(shard, ledger)
            _copy_logs(shard, stage.folder)
        missing = set(keys) - ledger.finished() - {key for key, _ in ledger.failures()}
        if missing:
            raise RunError(f"{len(missing)} sessions are in no shard, the first is {min(missing)}")
        if any(stage.folder.glob("llm_calls*.sqlite")):
            stage.counts["llm_calls"] = calls.export_all(stage.folder)
        export(stage, ledger, keys)
        stage.counts |= {**ledger.counts(), "shards": len(shards)}
    return stage.folder


def _check(run: str, shards: Sequence[Shard]) -> None:
    if not shards:
        raise RunError(f"no shards of run {run!r}; make them with: python -m crs_lib simulate --shard k/N")
    of = shards[0].of
    for shard in shards[1:]:
        if shard.of != of or shard.same() != shards[0].same():
            raise RunError(
                f"{paths.shown(shard.folder)} and {paths.shown(shards[0].folder)} are shards of different "
                "runs: parameters, catalogue, weights or N differ. Nothing was changed"
            )
    numbers = sorted(shard.number for shard in shards)
    if numbers != list(range(1, of + 1)):
        raise RunError(f"run {run!r} has {of} shards, found {numbers}; each is needed once")


def _freeze_catalog(run: str, shard: Shard) -> None:
    """The catalogue of a shard as the run's own."""
    inputs = {"catalog": shard.entry["inputs"]["catalog"]}
    name = {"catalog": shard.entry["parameters"]["catalog"]}
    with runs.stage(STUDY, run, "catalog", name, inputs) as stage:
        for file in ("catalog.parquet", "cleaning_report.csv"):
            if not (shard.folder / file).is_file():
                raise InputError(f"{paths.shown(shard.folder)} lacks {file}; copy the whole folder")
            with (
                (shard.folder / file).open("rb") as source,
                tables.write_aside(stage.path(file), "wb") as out,
            ):
                shutil.copyfileobj(source, out)


def _take(shard: Shard, ledger: Ledger) -> None:
    with Ledger(shard.folder / "ledger.sqlite") as source:
        keys = sorted(source.finished() - ledger.finished())
        for part in _batches(zip(keys, source.bodies(keys), strict=True)):
            ledger.record(part)
        ledger.record(Done(key, None, error) for key, error in source.failures())


def _batches(bodies: Iterable[tuple[Key, str]]) -> Iterator[list[Done]]:
    part: list[Done] = []
    for key, text in bodies:
        part.append(Done(key, pack(text), ""))
        if len(part) == _BATCH:
            yield part
            part = []
    yield part


def _copy_logs(shard: Shard, folder: Path) -> None:
    """The shard's call logs under names of their own, so that a repeated merge replaces them."""
    for log in shard.folder.glob("llm_calls*.sqlite"):
        target = folder / f"{log.stem}.shard-{shard.number}.sqlite"
        aside = target.with_suffix(".part")
        aside.unlink(missing_ok=True)
        with closing(sqlite3.connect(log)) as source, closing(sqlite3.connect(aside)) as copy:
            source.backup(copy)
        aside.replace(target)
