"""Runs: notebooks, sweeps over a grid, simulation without a notebook, and judges over a finished run."""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib import llm, notebooks
from crs_lib.cli.app import arg, command, read, settings, typed, values
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.notebooks import parameters

_NAMES = "a parameter of the notebook; lists as a,b or JSON"
_VALUE = arg(
    "-p", dest="values", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help=_NAMES
)
_FILE = arg("-f", dest="file", metavar="FILE", help="a YAML file of parameters; -p goes before it")
_LOG = arg("--log", action="append", default=[], metavar="RUN", help="a finished run, for --estimate")
_SIMULATE, _EVALUATE = "03_simulate", "04_evaluate"
_TAKEN = ("judges", "samples", "llm")  # of its parameters, by a judgement


@command(
    "run",
    arg("notebooks", nargs="*", metavar="NOTEBOOK", help="03_simulate, 03_simulate.ipynb or a path"),
    _VALUE,
    _FILE,
    arg("-o", dest="out", metavar="OUT", help="where the executed notebook goes"),
    arg("--parameters", action="store_true", help="show its parameters, and do not run it"),
    arg("--refresh", action="store_true", help="run committed notebooks (all by default) and store them"),
    reads=("notebooks", "file"),
    writes=("out",),
)
def run(arguments: Namespace) -> None:
    """Run one notebook with other parameters, show its parameters, or refresh the committed ones."""
    if arguments.refresh:
        changed = notebooks.refresh(arguments.notebooks)
        print("\n".join(f"changed: {paths.shown(path)}" for path in changed) or "nothing changed")
        return
    if len(arguments.notebooks) != 1:
        raise InputError("run takes one notebook, e.g. 03_simulate; more of them in order: crs sweep")
    notebook = notebooks.find(arguments.notebooks[0])
    if arguments.parameters:
        print(parameters.help_text(notebooks.parameters_of(notebook), notebook.stem))
        return
    out = notebooks.run(notebook, given_values(notebook, arguments.values, arguments.file), arguments.out)
    print(f"{notebook.stem} finished: {paths.shown(out)}")


def given_values(notebook: str | Path, pairs: list[list[str]], file: str | None) -> dict[str, Any]:
    """The parameters of a command line, each read as the type declared in the notebook."""
    declared = {parameter.name: parameter for parameter in notebooks.parameters_of(notebook)}
    values = _yaml(file) if file else {}
    for name, text in pairs:
        known = declared.get(name)
        values[name] = known.from_text(text) if known else text
    return values


@safety.reader("parameters")
def _yaml(file: str) -> dict[str, Any]:
    try:
        values = safety.read_yaml(paths.given(file))
    except InputError as error:
        raise InputError(f"could not read parameters from {file!r}: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(f"{file!r} must map names of parameters to values, one 'name: value' a line")
    return values


@command("sweep", arg("file", help="a file, or the name of one in notebooks/sweeps"))
def sweep(arguments: Namespace) -> None:
    """Run notebooks over a grid of parameters."""
    from crs_lib.cli import show
    from crs_lib.notebooks import sweeps

    found = sweeps.read(arguments.file)
    try:
        print(sweeps.run(arguments.file, say=print, ready=_preflight).to_string(index=False))
    finally:
        show.finish(found, Path(arguments.file).stem)


@command(
    "simulate",
    _VALUE,
    _FILE,
    arg("--sweep", metavar="FILE", help="the runs of a sweep, e.g. thesis; -p goes before it"),
    settings("crs_lib.simulate.config:SimulateConfig", "scheduler"),
    arg("--estimate", action="store_true", help="print calls, tokens and hours without running"),
    settings("crs_lib.judge.config:JudgeConfig", judges=None, samples=None),
    _LOG,
)
def simulate(arguments: Namespace) -> None:
    """Simulate without a notebook, also on a cluster, or estimate calls, tokens and hours."""
    from crs_lib.simulate import run as simulation
    from crs_lib.simulate.config import SimulateConfig

    found = _cells(arguments)
    if arguments.estimate:
        work = _summed([row for cell in found for row in planned(cell, arguments)])
        show_costs("movies", work, arguments.log, "run a few sessions")
        return
    if arguments.sweep:
        _preflight([(_SIMULATE, _of_simulate(cell)) for cell in found])
    for cell in found:
        config = read(arguments, SimulateConfig, **_of_simulate(cell))
        print(f"finished: {paths.shown(simulation.simulate(config))}")


def _cells(arguments: Namespace) -> list[dict[str, Any]]:
    """The parameters of each run, checked against the notebooks that take them."""
    from crs_lib.notebooks import sweeps

    given = given_values(_SIMULATE, arguments.values, arguments.file)
    if not arguments.sweep:
        return [parameters.check(notebooks.parameters_of(_SIMULATE), given, _SIMULATE)]
    own = {f"{_SIMULATE}.{name}" for name in given}
    found = ({k: v for k, v in cell.items() if k not in own} for cell in sweeps.read(arguments.sweep).cells)
    return [{**cell, **given} for cell in found]


def _of_simulate(cell: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a cell that 03_simulate takes."""
    from crs_lib.notebooks import sweeps

    return sweeps.Sweep.values_for(cell, notebooks.find(_SIMULATE))


def show_costs(study: str, work: Sequence[Any], logs: Sequence[str], try_it: str) -> None:
    """Print what planned calls cost, given the calls of finished runs of a study; InputError for no calls."""
    from crs_lib.llm import estimate as costs

    if not work:
        raise InputError("no model and no program takes part in this run; there is nothing to estimate")
    known: dict[tuple[str, str], costs.Cost] = {}
    for run in logs:
        path = paths.run_folder(study, run) / "llm_calls.jsonl"
        if not path.exists():
            raise InputError(f"run {run!r} has no llm_calls.jsonl; name a finished run with models")
        known |= costs.costs(tables.read_jsonl(path))
    table = costs.estimate(work, known)
    named = table.rename(columns={"tokens_in": "M tokens in", "tokens_out": "M tokens out"})
    print(named.round(2).to_string(index=False, na_rep="-"))
    if not logs:
        print(f"\nFor tokens and hours {try_it} first, then add: --log RUN")


def planned(cell: Mapping[str, Any], arguments: Namespace) -> Iterator[Any]:
    """The largest number of calls to each model of a run; failed and repeated calls are not counted."""
    from crs_lib.judge.config import JudgeConfig
    from crs_lib.llm import estimate as costs
    from crs_lib.simulate.config import SimulateConfig
    from crs_lib.systems.agent import most_calls
    from crs_lib.systems.programs import width

    config = SimulateConfig(**_of_simulate(dict(cell)))
    turns = sum(config.turns(arm) for arm in config.arms)
    for spec in config.programs():
        at_once = width(spec, config.llm_settings, config.workers)
        yield costs.Work("crs", spec, turns, at_once, tokens=False)
    at_once = config.llm_settings.at_once
    for one in config.roles():
        if one.role == "crs":
            most = most_calls(one.system, config.llm_settings)
            yield costs.Work("crs", one.system, turns * most, at_once, turns=turns if most > 1 else 0)
        else:
            yield costs.Work(one.role, one.spec, turns * len(config.systems), at_once)
    given = values(arguments, JudgeConfig)
    judges = given["judges"] or list(cell.get("judges") or [])
    samples = given["samples"] or int(cell.get("samples", 1))
    reached = {"slots": config.llm_settings.slots}
    asked = JudgeConfig(
        run=config.run, judges=judges, samples=samples, llm=cell.get(f"{_EVALUATE}.llm", reached)
    )
    calls = config.n_sessions * len(config.systems) * len(asked.asked.groups) * samples
    for spec in judges:
        yield costs.Work("judge", spec, calls, asked.reached.at_once)


def _summed(work: list[Any]) -> list[Any]:
    """The same work with one row for each role and model."""
    from dataclasses import replace

    rows: dict[tuple[str, str], Any] = {}
    for row in work:
        before = rows.get((row.role, row.spec))
        if before:
            row = replace(row, calls=row.calls + before.calls, turns=row.turns + before.turns)
        rows[row.role, row.spec] = row
    return list(rows.values())


@command(
    "judge",
    arg("run", help="a run whose dialogues are finished; with --report also a CSV of scores"),
    settings("crs_lib.judge.config:JudgeConfig", judges=None, samples=None, llm=None, canaries=()),
    settings("crs_lib.llm.settings:LLMSettings", host=None, slots=None),
    arg("--report", action="store_true", help="print how far the scores can be trusted"),
    _VALUE,
)
def judge(arguments: Namespace) -> None:
    """Let models judge a finished run."""
    from crs_lib import judge as judging

    asked = arguments.judges or any(name == "judges" for name, _ in arguments.values)
    if asked or not arguments.report:
        _ask_judges(arguments)
    if arguments.report:
        elsewhere = paths.given(arguments.run)
        is_file = elsewhere.is_file() or len(elsewhere.parts) > 1
        scores = judging.read_scores(elsewhere) if is_file else judging.score_table(arguments.run)
        for heading, table in (
            ("Scores asked for, given and missing", judging.flag_counts(scores)),
            ("How far the judges can be trusted", judging.summary(scores)),
            ("Mean scores, without judges of the system's own family", judging.headline(scores)),
        ):
            print(f"{heading}\n{table.round(3).to_string(index=False, na_rep='–')}\n")


def _ask_judges(arguments: Namespace) -> None:
    from crs_lib import judge as judging
    from crs_lib.judge.config import JudgeConfig
    from crs_lib.llm.settings import LLMSettings

    given = _judges_values(arguments)
    reached = values(arguments, LLMSettings)
    settings = given.get("llm", {}) | {name: value for name, value in reached.items() if value is not None}
    canaries = typed(JudgeConfig, "canaries", arguments.canaries)
    folder = judging.judge_run(
        arguments.run, given["judges"], given.get("samples", 1), canaries=canaries, llm=settings
    )
    print(llm.usage(folder / "llm_calls.jsonl").round(2).to_string(index=False))
    print(f"\nscores: {paths.shown(folder / judging.SCORES)}", end="\n\n" if arguments.report else "\n")


def _judges_values(arguments: Namespace) -> dict[str, Any]:
    """The parameters of 04_evaluate that a command line names, checked as the notebook's."""
    short = [[name, getattr(arguments, name)] for name in _TAKEN if getattr(arguments, name) is not None]
    given = given_values(_EVALUATE, [*short, *arguments.values], None)
    for name in given:
        if name not in _TAKEN:
            raise InputError(f"judge takes no parameter {name!r} (it takes: {', '.join(_TAKEN)})")
    checked = parameters.check(notebooks.parameters_of(_EVALUATE), given, _EVALUATE)
    if not checked.get("judges"):
        raise InputError("judge needs at least one judge; name it, e.g. --judges ollama:llama3:instruct")
    return checked


def _preflight(work: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check once that every model and program of these notebooks, as (name, parameters), is there.

    Models are the recommenders and the user of ``03_simulate`` and the judges of ``04_evaluate``. A finished
    stage needs no model, and without models no server is contacted. Raises one RunError that lists every
    missing model, and InputError for invalid settings.
    """
    from crs_lib.llm.preflight import preflight, refuse

    asked: dict[str, Any] = {}
    absent: list[str] = []
    for notebook, given in work:
        if notebook == _SIMULATE:
            found = _models_of_simulation(given, absent)
        elif notebook == _EVALUATE and given.get("judges"):
            found = _models_of_judges(given)
        else:
            continue
        for need in found:
            key = [need.role, need.spec, dict(need.options), need.prompt, dict(need.settings)]
            asked.setdefault(tables.fingerprint(key), need)
    refuse(absent)
    preflight(asked.values())


def _models_of_simulation(given: Mapping[str, Any], absent: list[str]) -> Iterator[Any]:
    """The models of a simulation that is not finished; programs that are not there go to ``absent``."""
    from crs_lib import runs
    from crs_lib.catalog import sources
    from crs_lib.simulate import roles
    from crs_lib.simulate.config import STUDY, SimulateConfig
    from crs_lib.systems import programs

    config = SimulateConfig(**given)
    before = (runs.entry(STUDY, config.run_of(arm), "simulate") for arm in config.arms)
    if all(entry.get("status") == "finished" for entry in before):
        return
    absent += programs.missing(config.programs())
    if config.roles():
        yield from roles.needs(config.roles(), config.llm_settings, sources.load(config.catalog))


def _models_of_judges(given: Mapping[str, Any]) -> Iterator[Any]:
    from crs_lib import judge as judging
    from crs_lib import runs
    from crs_lib.judge.config import JudgeConfig
    from crs_lib.judge.run import STAGE
    from crs_lib.simulate.config import STUDY

    config = JudgeConfig(**{name: given[name] for name in ("run", *_TAKEN) if name in given})
    made = runs.entry(STUDY, config.run, "simulate")
    dialogues = made["outputs"]["dialogues.jsonl"] if made.get("status") == "finished" else ""
    if not judging.on_record(config, dialogues, runs.entry(STUDY, config.run, STAGE)):
        yield from config.needs()
