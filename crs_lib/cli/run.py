"""Runs: notebooks, sweeps over a grid, simulation without a notebook, and judges over a finished run."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from crs_lib import notebooks
from crs_lib.cli.commands import Command, Takes, asked_again, table
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field
from crs_lib.notebooks import runner

_SIMULATE = "03_simulate"


class Run(Command):
    """Run one notebook with other parameters, show its parameters, or refresh the committed ones."""

    positional = ("notebook",)
    also: ClassVar[Mapping[str, str]] = {"parameters": "help-notebook"}
    reads = "notebook f"
    writes = "o"

    notebook: tuple[str, ...] = ()
    """03_simulate, 03_simulate.ipynb or a path"""
    p: tuple[list[str], ...] = ()
    """a parameter of the notebook; lists as a,b or JSON"""
    f: Path | None = None
    """a YAML file of parameters; -p goes before it"""
    o: Path | None = None
    """where the executed notebook goes"""
    parameters: bool = False
    """show its parameters, and do not run it"""
    refresh: bool = False
    """run committed notebooks (all by default) and store them"""

    def execute(self, settings: dict[str, Any]) -> None:
        if self.refresh:
            changed = notebooks.refresh(self.notebook)
            for path in changed:
                print(f"changed: {paths.from_here(path)}")
            if not changed:
                print("nothing changed")
            return
        if len(self.notebook) != 1:
            raise InputError("run takes one notebook, e.g. 03_simulate; more of them in order: crs sweep")
        source = notebooks.find(self.notebook[0])
        if self.parameters:
            print(runner.help_text(notebooks.parameters_of(source), source.stem))
            return
        executed = notebooks.run(source, parameter_values(source, self.p, self.f), self.o)
        print(f"{source.stem} finished: {paths.from_here(executed)}")
        for line in runner.account(executed):
            print(line)


def parameter_values(
    notebook: str | Path, pairs: Iterable[Sequence[str]], file: Path | None
) -> dict[str, Any]:
    """The parameters of a command line, each read as the type declared in the notebook."""
    declared = notebooks.parameters_of(notebook)
    values = read_parameters(file) if file else {}
    for name, text in pairs:
        values[name] = declared[name].from_text(text) if name in declared else text
    return values


@safety.reader("parameters")
def read_parameters(file: Path) -> dict[str, Any]:
    """The parameters in a YAML file."""
    values = safety.read_yaml(file)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(f"'{file}' must map names of parameters to values, one 'name: value' a line")
    return values


class Sweep(Command):
    """Run notebooks over a grid of parameters."""

    positional = ("file",)

    file: str
    """a file, or the name of one in notebooks/sweeps"""
    jobs: Annotated[int, Field(ge=1, le=64)] = 1
    """runs at once"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import evaluate
        from crs_lib.cli import show
        from crs_lib.notebooks import sweeps

        sweep = sweeps.read(self.file)
        say = partial(print, flush=True)
        try:
            table(sweeps.run(self.file, say=say, ready=evaluate.check_models, jobs=self.jobs))
        finally:
            show.finish(sweep, Path(self.file).stem)


class Simulate(Command):
    """Simulate without a notebook, also on a cluster, or estimate calls, tokens and hours."""

    takes = (Takes("crs_lib.judge.config:JudgeConfig", "judges samples"),)
    usual: ClassVar[dict[str, Any]] = {"judges": ()}

    p: tuple[list[str], ...] = ()
    """a parameter of 03_simulate; lists as a,b or JSON"""
    f: Path | None = None
    """a YAML file of parameters; -p goes before it"""
    sweep: str = ""
    """the runs of a sweep, e.g. thesis; -p goes before it"""
    estimate: bool = False
    """print calls, tokens and hours without running"""
    log: tuple[str, ...] = ()
    """a finished run, for --estimate"""
    scheduler: str = ""
    """address of a Dask scheduler"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import evaluate
        from crs_lib.simulate import run as simulation
        from crs_lib.simulate.config import SimulateConfig

        cells = self._cells()
        values = [self._values(cell) for cell in cells]
        configs = [SimulateConfig(**{**own, "scheduler": self.scheduler}) for own in values]
        if self.estimate:
            judges = {name: value for name, value in settings.items() if value}
            work: list[Any] = []
            for config, cell in zip(configs, cells, strict=True):
                work += evaluate.planned(config, {**cell, **judges})
            show_costs("movies", work, self.log, "run a few sessions")
            return
        if self.sweep:
            evaluate.check_models([(_SIMULATE, own) for own in values])
        for config in configs:
            folder = simulation.simulate(config)
            print(f"finished: {paths.from_here(folder)}{asked_again(folder.name)}")

    def _cells(self) -> list[dict[str, Any]]:
        """The parameters of each run: those of the sweep, and the line's before them."""
        from crs_lib.notebooks import sweeps

        declared = notebooks.parameters_of(_SIMULATE)
        own = runner.check_parameters(declared, parameter_values(_SIMULATE, self.p, self.f), _SIMULATE)
        if not self.sweep:
            return [own]
        replaced = {f"{_SIMULATE}.{name}" for name in own}
        cells = []
        for cell in sweeps.read(self.sweep).cells:
            others = {name: value for name, value in cell.items() if name not in replaced}
            cells.append({**others, **own})
        return cells

    def _values(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """The simulation's parameters of a run; of a sweep with the notebook's defaults."""
        from crs_lib.notebooks import sweeps

        values = sweeps.Sweep.values_for(cell, notebooks.find(_SIMULATE))
        if not self.sweep:
            return values
        declared = notebooks.parameters_of(_SIMULATE)
        defaults = {name: parameter.default for name, parameter in declared.items()}
        return {**defaults, **values}


def show_costs(study: str, work: Iterable[Any], logs: Sequence[str], try_it: str) -> None:
    """Print what planned calls cost, given the calls of finished runs of a study; InputError for no calls."""
    from crs_lib.llm import estimate as costs

    seen: dict[tuple[str, str], costs.Cost] = {}
    for run in logs:
        path = paths.run_folder(study, run) / "llm_calls.jsonl"
        if not path.exists():
            raise InputError(f"run {run!r} has no llm_calls.jsonl; name a finished run with models")
        with safety.faults("a call log", path):
            seen.update(costs.costs(tables.read_jsonl(path)))
    frame = costs.estimate(work, seen)
    if len(frame) == 1:  # the sum of nothing
        raise InputError("no model and no program takes part in this run; there is nothing to estimate")
    summed = frame.groupby(["role", "model"], sort=False, as_index=False).sum(min_count=1)
    table(summed.rename(columns={"tokens_in": "M tokens in", "tokens_out": "M tokens out"}), digits=2)
    if not logs:
        print(f"For tokens and hours {try_it} first, then add: --log RUN")


def _judged(scores: Any, where: str) -> str:
    """How many scores were read and how many are missing, why, and where the list lies."""
    missing = scores["flag"].dropna().value_counts()
    reasons = ", ".join(f"{count} {flag}" for flag, count in missing.items())
    left_out = f"{missing.sum():,} ({reasons})" if reasons else "none"
    return f"scores read: {len(scores) - missing.sum():,}; left out: {left_out}; list: {where}"


class Judge(Command):
    """Let models judge a finished run."""

    positional = ("run",)
    takes = (Takes("crs_lib.judge.config:JudgeConfig", "judges samples llm canaries"),)
    usual: ClassVar[dict[str, Any]] = {"judges": ()}

    run: str
    """a run whose dialogues are finished; with --report also a CSV of scores"""
    report: bool = False
    """print how far the scores can be trusted"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib import judge, llm

        if settings["judges"]:
            folder = judge.judge_run(self.run, **settings)
            table(llm.usage(folder / "llm_calls.jsonl"), digits=2)
            print(f"scores: {paths.from_here(folder / judge.SCORES)}")
        elif not self.report:
            raise InputError("judge needs at least one judge; name it, e.g. --judges ollama:llama3:instruct")
        if self.report:
            self._report()
        if settings["judges"]:
            print(_judged(judge.score_table(self.run), paths.from_here(folder / judge.SCORES)))

    def _report(self) -> None:
        from crs_lib import judge
        from crs_lib.judge.rating import read_scores
        from crs_lib.judge.reliability import summary
        from crs_lib.judge.run import flag_counts

        path = paths.given(self.run)
        is_file = path.is_file() or len(path.parts) > 1
        scores = read_scores(path) if is_file else judge.score_table(self.run)
        table(flag_counts(scores), "Scores asked for, given and missing")
        table(summary(scores), "How far the judges can be trusted")
        table(judge.headline(scores), "Mean scores, without judges of the system's own family")
