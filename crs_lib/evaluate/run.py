"""Score finished dialogues: turns, shifts, session results and model metrics, each in its file. A run holds
the scores of any number of conventions: those of ``default`` in its folder, those of another in
``scores/<convention>/``.
"""

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import data, runs, simulate
from crs_lib import judge as judging
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError, unknown
from crs_lib.core.settings import Field, RunName
from crs_lib.evaluate import arms
from crs_lib.evaluate import tables as score_tables
from crs_lib.evaluate.choose import Choices, PreparedScorer, Provenance, ScoringConfig
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import base, conventions
from crs_lib.metrics.records import Scores, unscored
from crs_lib.runs import StageSpec, Study, jobs

if TYPE_CHECKING:
    from crs_lib.llm.estimate import Work

DEFAULT = "default"  # the convention whose scores lie in the run's own folder

MOVIES = Study(simulate.STUDY, [
    StageSpec("catalog", "03_simulate", outputs={"catalog": "catalog.parquet", "raw": simulate.RAW_CATALOG}),
    StageSpec("simulate", "03_simulate", outputs={"dialogues": "dialogues.jsonl"}),
    StageSpec(
        "evaluate", "04_evaluate",
        outputs={
            "turns": "turns.parquet", "shifts": "shifts.parquet", "results": "results.jsonl",
            "model_metrics": "model_metrics.csv",
        },
        contracts={
            "turns": tables.TURNS, "shifts": tables.TURNS, "results": tables.RESULTS,
            "model_metrics": tables.MODEL_METRICS,
        },
    ),
])  # fmt: skip
_STAGE = "evaluate"
_Share = Annotated[float, Field(ge=0, le=1)]
_KNOBS = ("window", "recovery_cc", "recovery_cr")


class EvaluateConfig(Choices):
    """The effective settings of an evaluation, checked; 0 or nothing takes the convention's own setting."""

    run: Annotated[RunName, Field(description="a run whose dialogues are finished")] = "smoke"
    tas_weights: Annotated[Mapping[str, float], Field(description="weights of TAS: alpha, beta, gamma")] = {}
    cas_weights: Annotated[
        Mapping[str, float],
        Field(description="weights of CAS: recovery, delay, interference, coherence, retention"),
    ] = {}
    window: Annotated[int, Field(ge=0, description="replies within which a shift is recovered")] = 0
    recovery_cc: Annotated[_Share, Field(description="cross coherence that recovers a shift")] = 0.0
    recovery_cr: Annotated[_Share, Field(description="context retention that recovers a shift")] = 0.0
    workers: Annotated[int, Field(ge=1, le=256, description="processes; the scores do not depend on it")] = 1
    extractor_llm: Annotated[str, Field(description="model of the extractors called llm")] = ""

    def check(self) -> None:
        for name, kind in (("tas_weights", conventions.TasWeights), ("cas_weights", conventions.CasWeights)):
            for key in getattr(self, name).keys() - {*kind._fields}:
                raise InputError(f"{name}: {unknown('weight', key, kind._fields)}")
        self.scoring("")

    @property
    def knobs(self) -> dict[str, Any]:
        """The chosen settings of the convention, weights and limits among them."""
        limits = {name: getattr(self, name) for name in _KNOBS if getattr(self, name)}
        return {**self.tas_weights, **self.cas_weights, **limits, **super().knobs}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The session metrics that the convention gives, in the order of its tables."""
        from crs_lib.thesis import grounded, legacy

        given = {"grounded": grounded.METRICS, "legacy": legacy.METRICS}
        return given.get(self.rule.scorer) or tuple(base.scored_names())

    def scoring(self, catalog: str, dialogues: str = "", calls: str = "") -> ScoringConfig:
        """The way of scoring that the settings name, for a catalogue and the hash of the dialogues."""
        given: dict[str, Any] = {"vocabulary": self.vocabulary, "topic_model": self.topic_model}
        given |= {"llm": self.extractor_llm, "calls": calls, "inputs": {"dialogues": dialogues}}
        return ScoringConfig(catalog=catalog, convention=self.rule.name, **given)


def score_all(
    dialogues: Iterable[Dialogue], grounder: Grounder, convention: conventions.Convention,
    gains: ArmGains | None = None,
) -> Iterator[Scores]:  # fmt: skip
    """Score dialogues one after the other; texts are grounded in batches, memory stays flat."""
    return score_tables.stream(dialogues, Scorer(grounder, convention, gains or {}))


def evaluate(config: EvaluateConfig) -> Path:
    """Score a run's dialogues; returns the folder of the scores (see :func:`folder_of`). Scores that judges
    gave the run (``python -m crs_lib judge``) join its results; a session that failed has a row of nulls.
    Raises RunError if the run has no finished dialogues, or judges read older ones. Derived data: a repeated
    evaluation writes its files anew, atomically; other conventions' scores stay.
    """
    made = runs.finished(simulate.STUDY, config.run, "simulate", "03_simulate")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"], "catalog": made["inputs"]["catalog"]}
    inputs |= {f"dialogues of {arm}": digest for arm, digest in arms.runs_of(config.run).items()}
    name = config.rule.name
    out = folder_of(config.run, name)
    raw = paths.run_folder(simulate.STUDY, config.run) / simulate.RAW_CATALOG
    films = raw.name if config.rule.catalog == "thesis" and raw.is_file() else "catalog.parquet"
    calls = str(out) if config.extractor_llm else ""
    scoring = config.scoring(str(MOVIES.path(config.run, films)), inputs["dialogues"], calls)
    gains: ArmGains = {}
    if scoring.rule.scorer == "items":
        gains = arms.gains(config.run, Scorer(Grounder(catalog_of(config.run)), scoring.rule))
    ready = scoring.make(gains)
    settings = scoring.rule.parameters() | ready.provenance._asdict()
    with runs.stage(simulate.STUDY, config.run, _stage_of(name), settings, inputs, fixed=False) as stage:

        def target(file: str) -> Path:
            return stage.path((out / file).relative_to(stage.folder).as_posix())

        judged = judging.scores_of(config.run) if runs.entry(simulate.STUDY, config.run, "judge") else {}
        try:
            dialogues = simulate.iter_dialogues(config.run)
            scored = score_tables.stream(dialogues, ready.scorer, scoring, config.workers, gains)
            if judged:
                scored = (one._replace(session=judging.add_scores(one.session, judged)) for one in scored)
            lost = [
                unscored(row["model"], row["session_id"], scoring.rule.name, ready.metrics, row["error"])
                for row in simulate.failed_sessions(config.run)
            ]
            means = judging.headline(judging.score_table(config.run)) if judged else None
            with tables.together():
                sessions, _ = _write(itertools.chain(scored, lost), target, ready, means)
        finally:
            _end_calls(ready, out)
        stage.counts |= {"sessions": len(sessions), "models": sessions["model"].nunique()}
        stage.counts |= {"failed": len(lost)} if lost else {}
    return out


def score_logs(log: str | Path, config: ScoringConfig, out: Path, workers: int = 1) -> pd.DataFrame:
    """Score a log into a folder; returns the table of model metrics. Where a model is asked, a preflight
    comes first and its calls are kept in the folder, so that the same command continues. Raises InputError
    for logs or settings that cannot be used, RunError for a model that cannot be asked. Files appear whole.
    """
    if config.asks and config.llm:
        from crs_lib.thesis import asking

        digests = jobs.checked([asking.need(config.llm, config.model_settings)])
        config = config.changed(inputs={**config.inputs, **jobs.weights_as_inputs(digests)}, calls=str(out))
    ready = config.make()
    try:
        with tables.together():
            scored = score_tables.stream(data.read(log), ready.scorer, config, workers)
            return _write(scored, lambda name: out / name, ready)[1]
    finally:
        _end_calls(ready, out)


def _write(
    scored: Iterator[Scores], target: Callable[[str], Path], ready: PreparedScorer,
    judged: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Write the scores and their means, with those of judges; returns the sessions and the means."""
    sessions = score_tables.write(scored, target, ready.provenance)
    means = score_tables.model_metrics(sessions, ready.metrics, ready.provenance._asdict())
    if judged is not None:
        means = score_tables.with_judges(means, judged, sessions)
    tables.write_csv(target("model_metrics.csv"), means)
    return sessions, means


def _end_calls(ready: PreparedScorer, folder: Path) -> None:
    """Close the connections to the extractors' model, where one is asked, and write down what was asked."""
    close = getattr(ready.scorer, "close", None)
    if close is not None:
        from crs_lib.llm import calls

        close()
        calls.export_all(folder)


def check_models(work: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check once that every model and program of these notebooks, as (name, parameters), is there. Models are
    the recommenders and the user of ``03_simulate`` and the judges of ``04_evaluate``. A finished stage needs
    no model, and without models no server is contacted. Raises one RunError for all that is missing,
    InputError for settings.
    """
    from crs_lib.llm.preflight import preflight, refuse
    from crs_lib.simulate.config import needs as models_of
    from crs_lib.systems import programs

    needs, absent = list[Any](), list[str]()
    for notebook, given in work:
        if notebook == "04_evaluate" and given.get("judges"):
            needs += _judges(given)
        elif notebook == "03_simulate":
            config = simulate.SimulateConfig(**given)
            made = (runs.entry(simulate.STUDY, config.run_of(arm), "simulate") for arm in config.lasting)
            if any(entry.get("status") != "finished" for entry in made):
                absent += programs.missing(config.programs())
                roles = config.roles()
                needs += models_of(roles, config.llm_settings, sources.load(config.catalog)) if roles else []
    refuse(absent)
    preflight({repr(need): need for need in needs}.values())


def planned(config: simulate.SimulateConfig, judged: Mapping[str, Any]) -> "Iterator[Work]":
    """The largest number of calls to each model of a run; failed and repeated calls are not counted.
    ``judged`` holds the parameters of the judgement that follows.
    """
    from crs_lib.judge.config import JudgeConfig
    from crs_lib.llm.estimate import Work
    from crs_lib.systems.agent import most_calls
    from crs_lib.systems.programs import width

    turns, llm = sum(config.turns(arm) for arm in config.arms), config.llm_settings
    for spec in config.programs():
        yield Work("crs", spec, turns, width(spec, llm, config.workers), tokens=False)
    for one in config.roles():
        crs = one.role == "crs"
        most = most_calls(one.system, llm) if crs else len(config.systems)
        several = turns if crs and most > 1 else 0
        yield Work(one.role, one.system or one.spec, turns * most, llm.at_once, turns=several)
    own = {name: judged[name] for name in ("judges", "samples") if name in judged}
    reached = judged.get("04_evaluate.llm", {"slots": llm.slots})
    asked = JudgeConfig(**{"judges": (), **own}, run=config.run, llm=reached)
    spoilt = len(asked.canaries) * min(asked.n_canaries, config.n_sessions)
    calls = (config.n_sessions + spoilt) * len(config.systems) * len(asked.asked.groups) * asked.samples
    for spec in asked.judges:
        yield Work("judge", spec, calls, asked.reached.at_once)


def _judges(given: Mapping[str, Any]) -> list[Any]:
    """The models of a judgement with these parameters; none where all was judged before."""
    from crs_lib.judge import config, run

    taken = ("run", "judges", "samples", "llm")
    judged = config.JudgeConfig(**{name: given[name] for name in taken if name in given})
    of = runs.entry(simulate.STUDY, judged.run, "simulate")
    dialogues = of["outputs"]["dialogues.jsonl"] if of.get("status") == "finished" else ""
    before = runs.entry(simulate.STUDY, judged.run, run.STAGE)
    return [] if run.on_record(judged, dialogues, before) else judged.needs()


def _stage_of(convention: str) -> str:
    """The name of a convention's evaluation among the stages of a run."""
    return _STAGE if convention == DEFAULT else f"{_STAGE} {convention}"


def folder_of(run: str, convention: str) -> Path:
    """The folder of a convention's scores: the run's own for ``default``, else ``scores/<convention>``."""
    folder = paths.run_folder(simulate.STUDY, run)
    return folder if convention == DEFAULT else folder / "scores" / paths.slug(convention)


class _RunTables(NamedTuple):
    """The tables of an evaluated run: a row a turn, a session, and a model and metric."""

    turns: pd.DataFrame
    results: pd.DataFrame
    means: pd.DataFrame


def scored(run: str, convention: str = "") -> _RunTables:
    """The tables of an evaluated run under a convention, as :func:`read`."""
    return _RunTables(*(read(run, table, convention) for table in ("turns", "results", "model_metrics")))


def read(run: str, table: str, convention: str = "", columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A table of an evaluated run: "turns", "shifts", "results" or "model_metrics". The convention is that of
    :func:`convention_of`. With ``columns`` only these are read. Raises InputError for another table or an
    unknown column, RunError if the run has not been evaluated, not under this convention, or if its dialogues
    are newer than its scores.
    """
    name = convention_of(run, convention)
    entry(run, name)
    variant = "" if name == DEFAULT else name
    return MOVIES.read(run, table, variant=variant, columns=columns, repeated=Provenance._fields)


def conventions_of(run: str) -> list[str]:
    """The conventions that a run is scored under, ``default`` first and then the latest; often one."""
    stages = runs.read_manifest(simulate.STUDY, run).get("stages", {})
    done = {
        str(stage["parameters"]["name"]): str(stage.get("ended", ""))
        for name, stage in stages.items()
        if (name == _STAGE or name.startswith(f"{_STAGE} ")) and stage.get("status") == "finished"
    }
    latest = sorted(done, key=lambda name: done[name], reverse=True)
    return sorted(latest, key=lambda name: name != DEFAULT)


def convention_of(run: str, asked: str = "") -> str:
    """The convention of a run's scores that is meant by ``asked``. Nothing means ``default``, and the latest
    where the run has no scores under it; a convention that the run has only with other settings means the
    latest of those. Raises RunError where there is none.
    """
    known = conventions_of(run)
    name = conventions.checked(asked) if asked else ""
    if not known or (not name and DEFAULT in known) or name in known:
        runs.finished(simulate.STUDY, run, _stage_of(name) if known and name else _STAGE, "04_evaluate")
        return name or DEFAULT
    near = [one for one in known if conventions.base_of(one) == name] if name else known
    if not near:
        again = f"python -m crs_lib run 04_evaluate -p run {run} -p convention '{name}'"
        told = f"run {run!r} is scored under {', '.join(known)}, not under {name!r}"
        raise RunError(f"{told}; make it with: {again}")
    return near[0]


def entry(run: str, convention: str = "") -> dict[str, Any]:
    """The manifest's entry of an evaluation; RunError where there is none, or one of older dialogues."""
    name = convention_of(run, convention)
    found = runs.entry(simulate.STUDY, run, _stage_of(name))
    if found["parameters"]["scorer"] != "items":
        importlib.import_module("crs_lib.thesis.tables")  # declares the metrics of its tables
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    now = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    now |= {f"dialogues of {arm}": digest for arm, digest in arms.runs_of(run).items()}
    if any(found["inputs"].get(name) != digest for name, digest in now.items()):
        again = f"python -m crs_lib run 04_evaluate -p run {run} -p convention '{name}'"
        raise RunError(f"the scores of run {run!r} are older than its dialogues; score again: {again}")
    return found


def catalog_of(run: str) -> Catalog:
    """The catalogue that a run was made with, frozen in its folder."""
    runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    return sources.load(MOVIES.path(run, "catalog"))
