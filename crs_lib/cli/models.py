"""``estimate`` and ``judge``: the cost of a run with language models, and judges over a finished run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from crs_lib import llm, notebooks
from crs_lib.cli import notebooks as commands
from crs_lib.cli import options, simulate
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.judge.config import JudgeConfig
from crs_lib.llm import estimate as costs
from crs_lib.llm.settings import LLMSettings
from crs_lib.notebooks import parameters
from crs_lib.systems.agent import most_calls
from crs_lib.systems.programs import width

_NOTEBOOK = "04_evaluate"
_TAKEN = ("judges", "samples", "llm")  # of its parameters, by a judgement


def estimate(parser: ArgumentParser) -> None:
    """``estimate -p NAME VALUE … | --sweep FILE [--judges a,b] [--log RUN]``."""
    simulate.add_values(parser)
    options.add(parser, JudgeConfig, judges=None, samples=None)
    parser.add_argument(
        "--log", action="append", default=[], metavar="RUN", help="a finished run whose calls were like these"
    )
    parser.set_defaults(do=_estimate)


def _estimate(arguments: Namespace) -> None:
    work = [row for cell in simulate.cells(arguments) for row in planned(cell, arguments)]
    if not work:
        raise InputError("no model and no program takes part in this run; there is nothing to estimate")
    known: dict[tuple[str, str], costs.Cost] = {}
    for run in arguments.log:
        path = paths.run_folder("movies", run) / "llm_calls.jsonl"
        if not path.exists():
            raise InputError(f"run {run!r} has no llm_calls.jsonl; name a finished run with models")
        known |= costs.costs(tables.read_jsonl(path))
    print(shown(costs.estimate(summed(work), known)))
    if not arguments.log:
        print("\nFor tokens and hours run a few sessions first, then add: --log RUN")


def planned(cell: Mapping[str, Any], arguments: Namespace) -> Iterator[costs.Work]:
    """The largest number of calls to each model of a run; failed and repeated calls are not counted."""
    from crs_lib.simulate.config import SimulateConfig

    config = SimulateConfig(**simulate.of_simulate(dict(cell)))
    turns = sum(config.turns(arm) for arm in config.arms)
    for spec in config.programs():
        at_once = width(spec, config.llm_settings.service(), config.workers)
        yield costs.Work("crs", spec, turns, at_once, tokens=False)
    at_once = config.llm_settings.service().at_once
    for one in config.roles():
        if one.role == "crs":
            most = most_calls(one.system, config.llm_settings)
            yield costs.Work("crs", one.system, turns * most, at_once, turns=turns if most > 1 else 0)
        else:
            yield costs.Work(one.role, one.spec, turns * len(config.systems), at_once)
    given = options.values(arguments, JudgeConfig)
    judges = given["judges"] or list(cell.get("judges") or [])
    samples = given["samples"] or int(cell.get("samples", 1))
    reached = {"slots": config.llm_settings.slots}
    asked = JudgeConfig(config.run, judges, samples, llm=cell.get(f"{_NOTEBOOK}.llm", reached))
    calls = config.n_sessions * len(config.systems) * len(asked.asked.groups) * samples
    for spec in judges:
        yield costs.Work("judge", spec, calls, asked.service.at_once)


def summed(work: list[costs.Work]) -> list[costs.Work]:
    """The same work with one row for each role and model."""
    rows: dict[tuple[str, str], costs.Work] = {}
    for row in work:
        before = rows.get((row.role, row.spec))
        if before:
            row = replace(row, calls=row.calls + before.calls, turns=row.turns + before.turns)
        rows[row.role, row.spec] = row
    return list(rows.values())


def shown(table: pd.DataFrame) -> str:
    """The table as a terminal shows it; unknown costs as a dash."""
    named = table.rename(columns={"tokens_in": "M tokens in", "tokens_out": "M tokens out"})
    return str(named.round(2).to_string(index=False, na_rep="-"))


def judge(parser: ArgumentParser) -> None:
    """``judge RUN --judges A,B [--samples K] [--llm JSON] [-p NAME VALUE] [--canaries A,B] [--report]``."""
    parser.add_argument("run", help="a run whose dialogues are finished; with --report also a CSV of scores")
    options.add(parser, JudgeConfig, judges=None, samples=None, llm=None, canaries=())
    options.add(parser, LLMSettings, host=None, slots=None)
    parser.add_argument("--report", action="store_true", help="print how far the scores can be trusted")
    parser.add_argument(
        "-p", dest="values", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help=f"the same as parameters of {_NOTEBOOK}: {', '.join(_TAKEN)}",
    )  # fmt: skip
    parser.set_defaults(do=_judge)


def _judge(arguments: Namespace) -> None:
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

    values = _judges_values(arguments)
    reached = options.values(arguments, LLMSettings)
    settings = values.get("llm", {}) | {name: value for name, value in reached.items() if value is not None}
    canaries = options.typed(JudgeConfig, "canaries", arguments.canaries)
    folder = judging.judge_run(
        arguments.run, values["judges"], values.get("samples", 1), canaries=canaries, llm=settings
    )
    print(llm.usage(folder / "llm_calls.jsonl").round(2).to_string(index=False))
    print(f"\nscores: {paths.shown(folder / judging.SCORES)}", end="\n\n" if arguments.report else "\n")


def _judges_values(arguments: Namespace) -> dict[str, Any]:
    """The parameters of 04_evaluate that a command line names, checked as the notebook's."""
    short = [[name, getattr(arguments, name)] for name in _TAKEN if getattr(arguments, name) is not None]
    given = commands.given_values(_NOTEBOOK, [*short, *arguments.values], None)
    for name in given:
        if name not in _TAKEN:
            raise InputError(f"judge takes no parameter {name!r} (it takes: {', '.join(_TAKEN)})")
    values = parameters.check(notebooks.parameters_of(_NOTEBOOK), given, _NOTEBOOK)
    if not values.get("judges"):
        raise InputError("judge needs at least one judge; name it, e.g. --judges ollama:llama3:instruct")
    return values
