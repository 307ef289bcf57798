"""Runs: notebooks, sweeps over a grid, simulation without a notebook, and judges over a finished run."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from crs_lib import llm, notebooks
from crs_lib.cli.app import command, table
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field
from crs_lib.notebooks import runner

_Pairs = tuple[list[str], ...]
_NOBODY: dict[str, Any] = {"judges": ()}
_SIMULATE, _EVALUATE = "03_simulate", "04_evaluate"


@command("run", reads="notebook f", writes="o")
def _run(
    notebook: tuple[str, ...] = (), *, p: _Pairs = (), f: Path | None = None, o: Path | None = None,
    parameters: bool = False, refresh: bool = False,
) -> None:  # fmt: skip
    """Run one notebook with other parameters, show its parameters, or refresh the committed ones.

    notebook: 03_simulate, 03_simulate.ipynb or a path
    p: a parameter of the notebook; lists as a,b or JSON
    f: a YAML file of parameters; -p goes before it
    o: where the executed notebook goes
    parameters: show its parameters, and do not run it
    refresh: run committed notebooks (all by default) and store them
    """
    if refresh:
        changed = notebooks.refresh(notebook)
        print("\n".join(f"changed: {paths.shown(path)}" for path in changed) or "nothing changed")
        return
    if len(notebook) != 1:
        raise InputError("run takes one notebook, e.g. 03_simulate; more of them in order: crs sweep")
    found = notebooks.find(notebook[0])
    if parameters:
        print(runner.help_text(notebooks.parameters_of(found), found.stem))
        return
    print(f"{found.stem} finished: {paths.shown(notebooks.run(found, _given_values(found, p, f), o))}")


def _given_values(notebook: str | Path, pairs: Iterable[Sequence[str]], file: Path | None) -> dict[str, Any]:
    """The parameters of a command line, each read as the type declared in the notebook."""
    known = notebooks.parameters_of(notebook)
    read = {name: known[name].from_text(text) if name in known else text for name, text in pairs}
    return (_yaml(file) if file else {}) | read


@safety.reader("parameters")
def _yaml(file: Path) -> dict[str, Any]:
    values = safety.read_yaml(file)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(f"'{file}' must map names of parameters to values, one 'name: value' a line")
    return values


@command("sweep")
def _sweep(file: str, *, jobs: Annotated[int, Field(ge=1, le=64)] = 1) -> None:
    """Run notebooks over a grid of parameters.

    file: a file, or the name of one in notebooks/sweeps
    jobs: runs at once
    """
    from crs_lib import evaluate
    from crs_lib.cli import show
    from crs_lib.notebooks import sweeps

    found = sweeps.read(file)
    try:
        table(sweeps.run(file, say=partial(print, flush=True), ready=evaluate.check_models, jobs=jobs))
    finally:
        show.finish(found, Path(file).stem)


@command("simulate", takes=["crs_lib.judge.config:JudgeConfig judges samples"], defaults=_NOBODY)
def _simulate(
    *, p: _Pairs = (), f: Path | None = None, sweep: str = "", estimate: bool = False,
    log: tuple[str, ...] = (), scheduler: str = "", **judged: Any,
) -> None:  # fmt: skip
    """Simulate without a notebook, also on a cluster, or estimate calls, tokens and hours.

    p: a parameter of 03_simulate; lists as a,b or JSON
    f: a YAML file of parameters; -p goes before it
    sweep: the runs of a sweep, e.g. thesis; -p goes before it
    estimate: print calls, tokens and hours without running
    log: a finished run, for --estimate
    scheduler: address of a Dask scheduler
    """
    from crs_lib import evaluate
    from crs_lib.notebooks import sweeps
    from crs_lib.simulate import run as simulation
    from crs_lib.simulate.config import SimulateConfig

    known = notebooks.parameters_of(_SIMULATE)
    given = runner.check_parameters(known, _given_values(_SIMULATE, p, f), _SIMULATE)
    own = {f"{_SIMULATE}.{name}" for name in given}
    swept: Iterable[Mapping[str, Any]] = sweeps.read(sweep).cells if sweep else [{}]
    cells = [{name: value for name, value in cell.items() if name not in own} | given for cell in swept]
    usual = {name: one.default for name, one in known.items()} if sweep else {}
    asked = [usual | sweeps.Sweep.values_for(cell, notebooks.find(_SIMULATE)) for cell in cells]
    configs = [SimulateConfig(**one | {"scheduler": scheduler}) for one in asked]
    if estimate:
        judged = {name: value for name, value in judged.items() if value}
        pairs = zip(configs, cells, strict=True)
        work = [row for config, cell in pairs for row in evaluate.planned(config, cell | judged)]
        show_costs("movies", work, log, "run a few sessions")
        return
    if sweep:
        evaluate.check_models([(_SIMULATE, one) for one in asked])
    for config in configs:
        print(f"finished: {paths.shown(simulation.simulate(config))}")


def show_costs(study: str, work: Iterable[Any], logs: Sequence[str], try_it: str) -> None:
    """Print what planned calls cost, given the calls of finished runs of a study; InputError for no calls."""
    from crs_lib.llm import estimate as costs

    known: dict[tuple[str, str], costs.Cost] = {}
    for run in logs:
        path = paths.run_folder(study, run) / "llm_calls.jsonl"
        if not path.exists():
            raise InputError(f"run {run!r} has no llm_calls.jsonl; name a finished run with models")
        with safety.faults("a call log", path):
            known |= costs.costs(tables.read_jsonl(path))
    found = costs.estimate(work, known)
    if len(found) == 1:  # the sum of nothing
        raise InputError("no model and no program takes part in this run; there is nothing to estimate")
    summed = found.groupby(["role", "model"], sort=False, as_index=False).sum(min_count=1)
    table(summed.rename(columns={"tokens_in": "M tokens in", "tokens_out": "M tokens out"}), digits=2)
    if not logs:
        print(f"For tokens and hours {try_it} first, then add: --log RUN")


@command("judge", takes=["crs_lib.judge.config:JudgeConfig judges samples llm canaries"], defaults=_NOBODY)
def _judge(run: str, *, report: bool = False, **given: Any) -> None:
    """Let models judge a finished run.

    run: a run whose dialogues are finished; with --report also a CSV of scores
    report: print how far the scores can be trusted
    """
    from crs_lib import judge as judging

    if given["judges"]:
        folder = judging.judge_run(run, **given)
        table(llm.usage(folder / "llm_calls.jsonl"), digits=2)
        print(f"scores: {paths.shown(folder / judging.SCORES)}")
    elif not report:
        raise InputError("judge needs at least one judge; name it, e.g. --judges ollama:llama3:instruct")
    if report:
        place = paths.given(run)
        is_file = place.is_file() or len(place.parts) > 1
        scores = judging.read_scores(place) if is_file else judging.score_table(run)
        table(judging.flag_counts(scores), "Scores asked for, given and missing")
        table(judging.summary(scores), "How far the judges can be trusted")
        table(judging.headline(scores), "Mean scores, without judges of the system's own family")
