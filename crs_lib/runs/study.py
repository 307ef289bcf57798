"""A study as one table of stages: the notebook, the settings, the files and the function of each.

A stage is made with :meth:`Study.run` and its tables are read with :meth:`Study.read`; both know the files
and the command that makes them from the table alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import tables
from crs_lib.core.errors import InputError, NoDataError, RunError, did_you_mean
from crs_lib.core.tables import sha256
from crs_lib.runs import folder
from crs_lib.runs.folder import Stage

_Derived = Mapping[str, Callable[..., pd.DataFrame]]
_BLANK = 2  # bytes of a CSV file without columns: a stage without data writes a line end


@dataclass(frozen=True)
class StageSpec:
    """One stage of a study.

    ``make(settings, stage)`` computes the stage: it returns its tables by the names in ``outputs`` (those
    are written, whatever else it returns is passed on) or writes files through ``stage.path(...)``.
    ``outputs`` maps a table's name to its file, ``.csv``, ``.parquet``, ``.jsonl`` or ``.json``.
    ``inputs`` are files of earlier stages ("predictions.jsonl") that must be as they were written; ``needs``
    checks the settings before anything is written and returns further inputs, a digest by name.
    ``parameters`` says which settings the manifest records. A stage is derived data: it is made anew.
    """

    name: str
    notebook: str
    settings: type | None = None
    make: Callable[[Any, Stage], Mapping[str, Any] | None] | None = None
    inputs: Sequence[str] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    needs: Callable[[Any], Mapping[str, str]] = lambda settings: {}
    parameters: Callable[[Any], Mapping[str, Any]] = methodcaller("values")
    contracts: Mapping[str, tables.Contract] = field(default_factory=dict)


class Study:
    """A study: its name (the folder under ``results/``), its stages in order, and tables derived from them.

    ``derived`` maps the name of a table that no stage writes to the function of a run that makes it from
    tables that a stage writes.
    """

    def __init__(self, name: str, stages: Iterable[StageSpec], derived: _Derived | None = None) -> None:
        self.name, self.derived = name, dict(derived or {})
        self.stages = {stage.name: stage for stage in stages}
        written = [(stage, *output) for stage in self.stages.values() for output in stage.outputs.items()]
        self._maker_of = {
            key: stage for stage, name, file in written for key in (name, file, Path(file).name)
        }

    def run(self, stage: str, settings: Any, *, variant: str = "") -> dict[str, Any]:
        """Make a stage with checked settings and write its tables; returns all that ``make`` returned.

        ``variant`` tells apart several stages of one kind in a run (scores under several conventions).
        Raises RunError as :func:`crs_lib.runs.stage`, and where an earlier stage's file is not there.
        """
        spec = self.stages[stage]
        if spec.make is None:
            raise InputError(f"stage {stage!r} of study {self.name!r} has no function that makes it")
        if spec.settings is not None and not isinstance(settings, spec.settings):
            raise InputError(f"stage {stage!r} takes {spec.settings.__name__}, not {type(settings).__name__}")
        inputs = {**spec.needs(settings)}
        inputs |= {name: sha256(self.path(settings.run, name)) for name in spec.inputs}
        called, given = f"{stage} {variant}".strip(), spec.parameters(settings)
        with folder.stage(self.name, settings.run, called, given, inputs, fixed=False) as work:
            made = dict(spec.make(settings, work) or {})
            for name, file in spec.outputs.items():
                if name in made:
                    _write(work.path(file), made[name])
                elif not any(Path(written).name == Path(file).name for written in work.outputs):
                    raise RunError(f"stage {stage!r} made no {name!r}; this is a defect, please report it")
        return made

    def finished(self, run: str, stage: str, *, variant: str = "") -> dict[str, Any]:
        """The manifest's entry of a finished stage; RunError with the command that makes it."""
        return folder.finished(self.name, run, f"{stage} {variant}".strip(), self.stages[stage].notebook)

    def path(self, run: str, table: str, *, variant: str = "") -> Path:
        """The file of a table, by the table's name or the file's, as the stage wrote it.

        Raises InputError for a name that no stage writes, RunError with the command that makes the file
        where it is gone, changed or not yet made.
        """
        if table not in self._maker_of:
            known = sorted({*self._maker_of, *self.derived})
            near = f"{did_you_mean(table, known)} (known: {', '.join(known)})"
            raise InputError(f"study {self.name!r} has no table {table!r}{near}")
        spec = self._maker_of[table]
        entry, file = self.finished(run, spec.name, variant=variant), spec.outputs.get(table, table)
        place = next((name for name in entry["outputs"] if Path(name).name == Path(file).name), file)
        return folder.as_written(self.name, run, entry, place, folder.command(spec.notebook, run))

    def read(self, run: str, table: str, *, variant: str = "", **reading: Any) -> pd.DataFrame:
        """A table of a run that a finished stage wrote, or one derived from such; raises as :meth:`path`.

        ``reading`` are ``columns`` and ``repeated`` of :func:`crs_lib.core.tables.read_table`.
        """
        if table in self.derived:
            return self.derived[table](run)
        path = self.path(run, table, variant=variant)
        contract = self._maker_of[table].contracts.get(table, tables.Contract(table, (), ()))
        if path.suffix == ".csv" and path.stat().st_size <= _BLANK:
            return pd.DataFrame()
        return tables.read_table(path, contract, **reading)

    def figure_table(self, run: str, table: str) -> pd.DataFrame:
        """As :meth:`read`; NoDataError where a run did not get that far: a figure or a page does without."""
        try:
            return self.read(run, table)
        except RunError as error:
            if folder.read_manifest(self.name, run).get("stages"):
                raise NoDataError(str(error)) from None
            raise


def _write(path: Path, made: Any) -> None:
    """Write a table in the form that its file's name says."""
    writers = {".csv": tables.write_csv, ".parquet": tables.write_parquet, ".jsonl": tables.write_jsonl}
    writers.get(path.suffix, tables.write_json)(path, made)
