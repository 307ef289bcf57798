"""Run folders: the parameters of each stage, the stages that are finished, and the lock of the folder.

``results/<study>/<run>/`` holds a ledger for each stage that works session by session (the only file that is
written during the stage), the files exported from the ledgers, and one ``manifest.json`` for all stages.

A study is one table of stages: the notebook, the settings, the files and the function of each. A stage is
made with :meth:`Study.run` and its tables are read with :meth:`Study.read`; both know the files and the
command that makes them from the table alone.
"""

import datetime as dt
import functools
import importlib.metadata
import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ValidationError

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, NoDataError, RunError, unknown
from crs_lib.core.store import locked
from crs_lib.core.tables import sha256
from crs_lib.runs.ledger import Ledger

_PACKAGES = (
    "crs-lib numpy pandas scipy scikit-learn statsmodels seaborn matplotlib papermill nbval ollama pyarrow"
).split()
_FREE = {"workers", "scheduler", "progress"}  # these change no result and may differ when a run continues


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock a run's folder, and remove what a killed process left; RunError where another process holds it."""
    busy = f"another process is working on run {folder.name!r}; wait for it or use another run name"
    with locked(folder, busy):
        for leftover in [*folder.glob(".*.part"), *folder.glob("scores/*/.*.part")]:
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        yield


@dataclass
class Stage:
    """One stage of a run at work: its folder, and its entry in the manifest."""

    run: str
    name: str
    folder: Path
    parameters: dict[str, Any]
    inputs: dict[str, str] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def path(self, filename: str) -> Path:
        """The path of a file that this stage writes; the manifest records the file's hash."""
        if filename not in self.outputs:
            self.outputs.append(filename)
        return self.folder / filename

    def ledger(self, filename: str = "") -> Ledger:
        """The stage's ledger, opened (a context manager); ``ledger-<stage>.sqlite`` unless named."""
        return Ledger(self.folder / (filename or f"ledger-{self.name}.sqlite"))


class _Entry(BaseModel):
    """The parts of a stage in the manifest that later stages read."""

    parameters: dict[str, Any] = {}
    inputs: dict[str, str] = {}
    outputs: dict[str, str] = {}
    counts: dict[str, Any] = {}
    status: str = ""


class _Manifest(BaseModel):
    stages: dict[str, _Entry] = {}
    packages: dict[str, Any] = {}
    code: dict[str, Any] | None = None


def manifest_at(path: Path) -> dict[str, Any]:
    """The manifest in a file, its stages with the parts that later ones read; RunError for a damaged one."""
    try:
        record = safety.read_object(path)
        manifest = _Manifest.model_validate(record, strict=True)
    except (InputError, ValidationError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{paths.shown(path)} is damaged ({reason}); restore it or remove it") from error
    stages = {}
    for name, checked in manifest.stages.items():
        stages[name] = {**record["stages"][name], **checked.model_dump()}
    return {**record, "stages": stages}


def restore(study: str, name: str) -> list[str]:
    """Unpack the dated record ``data/samples/records/<name>.tar.xz`` into the results of a study.

    Files that are there already stay. RunError where a run of that name holds other dialogues.

    Returns
    -------
    list of str
        The runs that the record holds.
    """
    top = paths.run_folder(study, name).parent
    runs: dict[str, None] = {}
    with tarfile.open(paths.samples() / "records" / f"{name}.tar.xz") as record:
        for member in record:
            run, _, file = member.name.partition("/")
            runs[run] = None
            path = top / member.name
            if not path.exists():
                record.extract(member, top, filter="data")
                continue
            content = record.extractfile(member)
            if file.startswith("dialogues") and content and content.read() != path.read_bytes():
                raise RunError(f"run {run!r} is not that of the record; remove {paths.shown(path.parent)}")
    return list(runs)


def command(notebook: str, run: str) -> str:
    """The command that makes a stage of a run."""
    return f"python -m crs_lib run {notebook} -p run {run}"


@dataclass(frozen=True)
class Run:
    """A folder with one set of parameters: dialogues, tables, and a manifest that says how each was made."""

    study: str
    name: str

    @property
    def folder(self) -> Path:
        """Where the run lies; it need not be there."""
        return paths.run_folder(self.study, self.name)

    def manifest(self) -> dict[str, Any]:
        """The manifest; an empty dict for a run without one, RunError for a damaged one."""
        path = self.folder / "manifest.json"
        return manifest_at(path) if path.exists() else {}

    def entry(self, stage: str) -> dict[str, Any]:
        """The manifest's entry of a stage as it stands; empty where there is none."""
        stages = self.manifest().get("stages", {})
        return dict(stages.get(stage, {}))

    def finished(self, stage: str, notebook: str) -> dict[str, Any]:
        """The entry of a finished stage; RunError with the command that makes it, if there is none."""
        present = self.entry(stage)
        if present.get("status") != "finished":
            again = command(notebook, self.name)
            raise RunError(f"no finished {notebook} in run {self.name!r}; make it with: {again}")
        return present

    def output(self, stage: str, notebook: str, file: str) -> Path:
        """A file as a finished stage wrote it; RunError with the command that makes it where it is not so."""
        written = self.finished(stage, notebook)
        return self.as_written(written, file, command(notebook, self.name))

    def as_written(self, written: Mapping[str, Any], file: str, again: str) -> Path:
        """A file of a stage with the entry ``written``; RunError with the command ``again`` for another."""
        path = self.folder / file
        fault = ""
        if not path.is_file():
            fault = "is gone"
        elif _digest_now(path) != written["outputs"].get(file, ""):
            fault = "is not as it was written"
        if fault:
            raise RunError(
                f"{file} of run {self.name!r} {fault}; make it anew, with the run's own parameters: {again}"
            )
        return path


def _digest_now(path: Path) -> str:
    facts = path.stat()
    return _digest(path, facts.st_size, facts.st_mtime_ns, facts.st_ino)


@functools.lru_cache(maxsize=256)
def _digest(path: Path, *_: int) -> str:
    """The digest of a file, read once for as long as its size, time and number stay."""
    return sha256(path)


@contextmanager
def stage(
    study: str,
    run: str,
    name: str,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, str] | None = None,
    *,
    fixed: bool = True,
    grows: Sequence[str] = (),
) -> Iterator[Stage]:
    """Open one stage of a run: lock the folder, check the parameters, write the manifest.

    ``inputs`` are names and hashes of the files that the stage reads. With ``fixed``, a folder that holds
    this stage with other parameters or inputs is refused (RunError naming each difference), but for
    parameters that ``grows`` names, of which a run that continues may have more, never less; without, the
    stage is derived data and is made anew. After an error the manifest says "failed" and no file is removed.
    """
    folder = paths.run_folder(study, run)
    with only_one(folder):
        manifest = Run(study, run).manifest()
        plain = json.loads(json.dumps(tables.finite(dict(parameters))))
        work = Stage(run, name, folder, plain, dict(inputs or {}))
        stages = manifest.setdefault("stages", {})
        if fixed and name in stages:
            _refuse_other(work, stages[name], grows)
        manifest.update(study=study, run=run, code=code_version(), packages=dict(versions()))
        stages[name] = {
            "parameters": plain,
            "inputs": work.inputs,
            "counts": work.counts,
            "started": _now(),
        }
        _write(manifest, work, status="running")
        try:
            yield work
        except BaseException as error:
            _write(manifest, work, status="failed", error=f"{type(error).__name__}: {error}"[:2000])
            raise
        _write(manifest, work, status="finished")


def _refuse_other(work: Stage, before: Mapping[str, Any], grows: Sequence[str]) -> None:
    """RunError that names each parameter and input that differs from those that the folder was made with."""
    old = _identity(before["parameters"], before["inputs"])
    new = _identity(work.parameters, work.inputs)
    differences = []
    for key in sorted({*old, *new} - _FREE):
        grown = key in grows and key in old and key in new and _has_all(new[key], old[key])
        if not grown and old.get(key) != new.get(key):
            differences.append(f"{key}: {old.get(key)!r} there, {new.get(key)!r} now")
    if differences:
        raise RunError(
            f"run {work.run!r} holds a {work.name!r} stage made with other parameters "
            f"({'; '.join(differences)}); nothing was changed. Use another run name, or remove that folder"
        )


def _identity(parameters: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """What makes a stage another one: its parameters, and its inputs by the beginning of their digests."""
    identity = dict(parameters)
    for name, digest in inputs.items():
        identity[f"input {name}"] = digest[:12]
    return identity


def _has_all(more: Any, less: Any) -> bool:
    """Whether a number is at least another, or a list has all of another."""
    if isinstance(less, list):
        return set(more) >= set(less)
    return bool(more >= less)


def _write(manifest: dict[str, Any], work: Stage, **facts: str) -> None:
    """Write the manifest with the present state of a stage; a stage that ended names its outputs' hashes."""
    record = manifest["stages"][work.name]
    record.update(facts)
    if facts["status"] != "running":
        record["ended"] = _now()
        record["outputs"] = {}
        for name in sorted(work.outputs):
            path = work.folder / name
            if path.is_file():
                record["outputs"][name] = sha256(path)
    tables.write_json(work.folder / "manifest.json", manifest)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


@functools.cache
def versions() -> Mapping[str, str]:
    """The version of Python, and of each package that results depend on, where it is installed."""
    installed = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def code_version() -> dict[str, Any]:
    """Git commit and dirty flag of the repository; empty outside git and for an installed package."""
    if paths.installed():
        return {}
    words = ["git", "-C", str(paths.ROOT), "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = done.stdout.splitlines()
    return {"commit": lines[0].split()[-1], "dirty": not lines[-1].startswith("#")}


_WRITERS: Mapping[str, Callable[[Path, Any], Any]] = {
    ".csv": tables.write_csv,
    ".parquet": tables.write_parquet,
    ".jsonl": tables.write_jsonl,
    ".json": tables.write_json,
}
_BLANK = 2  # bytes of a CSV file without columns: a stage without data writes a line end


class StageSpec(NamedTuple):
    """One stage of a study.

    ``make(settings, stage)`` computes the stage: it returns its tables by the names in ``outputs`` (those are
    written, whatever else it returns is passed on) or writes files through ``stage.path(...)``. ``outputs``
    maps a table's name to its file, ``.csv``, ``.parquet``, ``.jsonl`` or ``.json``. ``inputs`` are files of
    earlier stages ("predictions.jsonl") that must be as they were written; ``needs`` checks the settings
    before anything is written and returns further inputs, a digest by name. ``parameters`` says which
    settings the manifest records. A stage is derived data: it is made anew.
    """

    name: str
    notebook: str
    settings: type | None = None
    make: Callable[[Any, Stage], Mapping[str, Any] | None] | None = None
    inputs: Sequence[str] = ()
    outputs: Mapping[str, str] = {}
    needs: Callable[[Any], Mapping[str, str]] = lambda settings: {}
    parameters: Callable[[Any], Mapping[str, Any]] = methodcaller("values")
    contracts: Mapping[str, tables.Contract] = {}


class Study:
    """A study: its folder under ``results/``, its stages in order, and ``derived`` tables, by functions."""

    def __init__(
        self,
        name: str,
        stages: Iterable[StageSpec],
        derived: Mapping[str, Callable[..., pd.DataFrame]] | None = None,
    ) -> None:
        self.name = name
        self.derived = dict(derived or {})
        self.stages: dict[str, StageSpec] = {}
        self._maker_of: dict[str, StageSpec] = {}  # the stage of a table, by its name and by its file's
        for spec in stages:
            self.stages[spec.name] = spec
            for table, file in spec.outputs.items():
                for key in (table, file, Path(file).name):
                    self._maker_of[key] = spec

    def run(self, name: str, settings: Any) -> dict[str, Any]:
        """Make a stage with checked settings and write its tables; returns all that ``make`` returned.

        Raises RunError as :func:`crs_lib.runs.stage`, and where an earlier stage's file is not there.
        """
        spec = self.stages[name]
        if spec.make is None:
            raise InputError(f"stage {name!r} of study {self.name!r} has no function that makes it")
        if spec.settings is not None and not isinstance(settings, spec.settings):
            raise InputError(f"stage {name!r} takes {spec.settings.__name__}, not {type(settings).__name__}")
        inputs = dict(spec.needs(settings))
        for file in spec.inputs:
            inputs[file] = sha256(self.path(settings.run, file))
        with stage(self.name, settings.run, name, spec.parameters(settings), inputs, fixed=False) as work:
            results = dict(spec.make(settings, work) or {})
            for table, file in spec.outputs.items():
                if table in results:
                    path = work.path(file)
                    _WRITERS[path.suffix](path, results[table])
                elif Path(file).name not in [Path(written).name for written in work.outputs]:
                    raise RunError(f"stage {name!r} made no {table!r}; this is a defect, please report it")
        return results

    def finished(self, run: str, name: str, *, variant: str = "") -> dict[str, Any]:
        """The manifest's entry of a finished stage (of several, the ``variant``); RunError for none."""
        return Run(self.name, run).finished(f"{name} {variant}".strip(), self.stages[name].notebook)

    def path(self, run: str, table: str, *, variant: str = "") -> Path:
        """The file of a table, by the table's name or the file's, as the stage wrote it.

        InputError for an unknown name, RunError with the command that makes a file that is gone, changed or
        not yet made.
        """
        if table not in self._maker_of:
            raise unknown(f"{self.name} table", table, sorted({*self._maker_of, *self.derived}))
        spec = self._maker_of[table]
        written = self.finished(run, spec.name, variant=variant)
        file = spec.outputs.get(table, table)
        for name in written["outputs"]:  # a variant's lies in a folder of its own
            if Path(name).name == Path(file).name:
                file = name
                break
        return Run(self.name, run).as_written(written, file, command(spec.notebook, run))

    def read(self, run: str, table: str, *, variant: str = "", **reading: Any) -> pd.DataFrame:
        """A table of a run, written or derived; raises as :meth:`path`. ``reading`` is ``read_table``'s."""
        if table in self.derived:
            return self.derived[table](run)
        path = self.path(run, table, variant=variant)
        if path.suffix == ".csv" and path.stat().st_size <= _BLANK:
            return pd.DataFrame()
        contract = self._maker_of[table].contracts.get(table, tables.Contract(table, (), ()))
        return tables.read_table(path, contract, **reading)

    def figure_table(self, run: str, table: str) -> pd.DataFrame:
        """As :meth:`read`; NoDataError where a run did not get that far: a figure or a page does without."""
        try:
            return self.read(run, table)
        except RunError as error:
            if Run(self.name, run).manifest().get("stages"):
                raise NoDataError(str(error)) from None
            raise
