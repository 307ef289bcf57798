"""Score finished dialogues: turns, shifts, session results and model metrics, each in its file. A run holds
the scores of any number of conventions: those of ``default`` in its folder, those of another in
``scores/<convention>/``.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import data, runs, simulate
from crs_lib import judge as judging
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, progress, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError, unknown
from crs_lib.core.settings import Field, RunName
from crs_lib.core.text import listing
from crs_lib.evaluate import arms
from crs_lib.evaluate import tables as score_tables
from crs_lib.evaluate.choose import Choices, PreparedScorer, Provenance, ScoringConfig
from crs_lib.evaluate.scorer import ArmGains, Scorer
from crs_lib.metrics import conventions
from crs_lib.metrics.records import Scores, unscored
from crs_lib.runs import StageSpec, Study, jobs

DEFAULT = "default"  # the convention whose scores lie in the run's own folder
ANSWERED = "model_metrics_answered.csv"  # without the sessions that failed
_STAGE = "evaluate"
_FILES = {
    "turns": "turns.parquet",
    "shifts": "shifts.parquet",
    "results": "results.jsonl",
    "model_metrics": "model_metrics.csv",
}
_CONTRACTS = {
    "turns": tables.TURNS,
    "shifts": tables.TURNS,
    "results": tables.RESULTS,
    "model_metrics": tables.MODEL_METRICS,
}
_CATALOG = {"catalog": "catalog.parquet", "raw": simulate.RAW_CATALOG}
_STAGES = (
    StageSpec("catalog", "03_simulate", outputs=_CATALOG),
    StageSpec("simulate", "03_simulate", outputs={"dialogues": "dialogues.jsonl"}),
    StageSpec(_STAGE, "04_evaluate", outputs=_FILES, contracts=_CONTRACTS),
)
MOVIES = Study(simulate.STUDY, _STAGES)
_Share = Annotated[float, Field(ge=0, le=1)]
_LIMITS = ("window", "recovery_cc", "recovery_cr")


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
        _check_weights("tas_weights", self.tas_weights, conventions.TasWeights._fields)
        _check_weights("cas_weights", self.cas_weights, conventions.CasWeights._fields)
        self.scoring(Path(), "", Path())

    @property
    def knobs(self) -> dict[str, Any]:
        """The chosen settings of the convention, weights and limits among them."""
        limits = {name: getattr(self, name) for name in _LIMITS if getattr(self, name)}
        return {**self.tas_weights, **self.cas_weights, **limits, **super().knobs}

    def scoring(self, catalog: Path, dialogues: str, folder: Path) -> ScoringConfig:
        """The way of scoring that the settings name, for a catalogue and the hash of the dialogues. The calls
        of a model that is asked are kept in the folder.
        """
        return ScoringConfig(
            catalog=str(catalog),
            convention=self.chosen.name,
            vocabulary=self.vocabulary,
            topic_model=self.topic_model,
            llm=self.extractor_llm,
            calls=str(folder) if self.extractor_llm else "",
            inputs={"dialogues": dialogues},
        )


def _check_weights(setting: str, weights: Mapping[str, float], names: Sequence[str]) -> None:
    for name in weights.keys() - set(names):
        raise InputError(f"{setting}: {unknown('weight', name, names)}")


def score_all(
    dialogues: Iterable[Dialogue],
    grounder: Grounder,
    convention: conventions.Convention,
    gains: ArmGains | None = None,
) -> Iterator[Scores]:
    """Score dialogues one after the other; texts are grounded in batches, memory stays flat.

    Parameters
    ----------
    dialogues : iterable of Dialogue
        Finished sessions, of any number of systems.
    grounder : Grounder
        Of the catalogue that the sessions speak of.
    convention : Convention
        How they are scored.
    gains : mapping, optional
        Replies of the other arms, from which costs are computed; without them costs are NaN.
    """
    return score_tables.stream(dialogues, Scorer(grounder, convention, gains or {}))


def evaluate(config: EvaluateConfig) -> Path:
    """Score a run's dialogues. Scores that judges gave the run (``python -m crs_lib judge``) join its
    results. A session that failed counts: its replies are empty from the turn on that got none; the means
    without such sessions lie beside those of all (``model_metrics_answered.csv``). Derived data: a repeated
    evaluation writes its files anew, atomically; other conventions' scores stay.

    Parameters
    ----------
    config : EvaluateConfig
        The run and the convention.

    Returns
    -------
    pathlib.Path
        The folder of the scores (see :func:`folder_of`).

    Raises
    ------
    RunError
        If the run has no finished dialogues, or judges read older ones.
    """
    name = config.chosen.name
    run = simulate.run_named(config.run)
    inputs = _inputs(config.run)
    out = folder_of(config.run, name)
    scoring = config.scoring(_films(config.run, config.chosen), inputs["dialogues"], out)
    ready = scoring.make(arms.dialogues_of(config.run))
    settings = {**config.chosen.parameters(), **ready.provenance._asdict()}
    opened = runs.stage(simulate.STUDY, config.run, _stage_of(name), settings, inputs, fixed=False)
    with opened as stage, _calls_of(ready, out):
        dialogues = simulate.iter_dialogues(config.run)
        scored = score_tables.stream(dialogues, ready.scorer, scoring, config.workers, ready.gains)
        failed = _failed(config.run, name, ready)
        judgements = judging.scores_of(config.run) if run.entry("judge") else {}
        means = None
        if judgements:
            scored = _judged(scored, judgements)
            means = judging.headline(judging.score_table(config.run))
        total = run.entry("simulate")["counts"].get("sessions", 0)
        counted = progress.counted(scored, total, f"scores under {name}")

        def target(file: str) -> Path:
            return stage.path((out / file).relative_to(stage.folder).as_posix())

        with tables.together():
            sessions, _ = _write(itertools.chain(counted, failed), target, ready, means)
            _write_answered(sessions, failed, target, ready)
        stage.counts["sessions"] = len(sessions)
        stage.counts["models"] = sessions["model"].nunique()
        if failed:
            stage.counts["failed"] = len(failed)
    return out


def _inputs(run: str) -> dict[str, str]:
    """The hashes of what a run's scores are computed from; RunError without finished dialogues."""
    simulated = simulate.run_named(run).finished("simulate", "03_simulate")
    inputs = _dialogue_hashes(run, simulated)
    inputs["catalog"] = simulated["inputs"]["catalog"]
    return inputs


def _dialogue_hashes(run: str, simulated: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a run's dialogues, those of its further arms among them."""
    hashes = {"dialogues": simulated["outputs"]["dialogues.jsonl"]}
    for arm, digest in arms.runs_of(run).items():
        hashes[f"dialogues of {arm}"] = digest
    return hashes


def _films(run: str, convention: conventions.Convention) -> Path:
    """The catalogue that a convention reads: that of the run, or its raw records for another cleaning."""
    raw = paths.run_folder(simulate.STUDY, run) / simulate.RAW_CATALOG
    if convention.catalog != conventions.CLEANED and raw.is_file():
        return raw
    return MOVIES.path(run, "catalog")


def _failed(run: str, convention: str, ready: PreparedScorer) -> list[Scores]:
    """The scores of the sessions that failed: with empty replies from the turn on that got none. Where no
    dialogue was kept, a row of nulls.
    """
    talks = simulate.failed_dialogues(run)
    scores_of: dict[tuple[str, str], Scores] = {}
    for talk, scores in zip(talks, ready.scorer.score_many(talks), strict=True):
        scores_of[talk.model_name, talk.session_id] = scores
    failed = []
    for row in simulate.failed_sessions(run):
        model = row["model"]
        session_id = row["session_id"]
        reason = row["error"]
        nothing = unscored(model, session_id, convention, ready.metrics, reason)
        scores = scores_of.get((model, session_id), nothing)
        scores.session["detail"]["failed"] = reason
        failed.append(scores)
    return failed


def _judged(scored: Iterable[Scores], judgements: Mapping[Any, Any]) -> Iterator[Scores]:
    """The scores with those of judges."""
    for scores in scored:
        yield scores._replace(session=judging.add_scores(scores.session, judgements))


def score_logs(log: str | Path, config: ScoringConfig, out: Path, workers: int = 1) -> pd.DataFrame:
    """Score a log into a folder; files appear whole. Where a model is asked, a preflight comes first and its
    calls are kept in the folder, so that the same command continues.

    Parameters
    ----------
    log : path
        A log file or a folder of them, of any known form.
    config : ScoringConfig
        The catalogue and the way of scoring.
    out : path
        The folder of the tables.
    workers : int
        Processes; the scores do not depend on their number.

    Returns
    -------
    pandas.DataFrame
        The model metrics, a row a model and metric.

    Raises
    ------
    InputError
        For logs or settings that cannot be used.
    RunError
        For a model that cannot be asked.
    """
    if config.asking is not None and config.llm:
        need = config.asking.need(config.llm, config.model_settings)
        weights = jobs.weights_as_inputs(jobs.checked([need]))
        config = config.changed(inputs={**config.inputs, **weights}, calls=str(out))
    ready = config.make()
    with _calls_of(ready, out), tables.together():
        scored = score_tables.stream(data.read(log), ready.scorer, config, workers)
        _, means = _write(scored, out.joinpath, ready)
    return means


def _write(
    scored: Iterator[Scores],
    target: Callable[[str], Path],
    ready: PreparedScorer,
    judged: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write the scores and their means, with those of judges; returns the sessions and the means."""
    sessions = score_tables.write(scored, target, ready.provenance)
    means = score_tables.model_metrics(sessions, ready.metrics, ready.provenance._asdict())
    if judged is not None:
        means = score_tables.with_judges(means, judged, sessions)
    tables.write_csv(target("model_metrics.csv"), means)
    return sessions, means


def _write_answered(
    sessions: pd.DataFrame, failed: Sequence[Scores], target: Callable[[str], Path], ready: PreparedScorer
) -> None:
    """Write the means without the sessions that failed, beside those of all; no such file where none did."""
    if not failed:
        target(ANSWERED).unlink(missing_ok=True)
        return
    names = ["model", "session_id"]
    gone = pd.DataFrame([scores.session for scores in failed])
    keys = pd.MultiIndex.from_frame(sessions[names])
    has_failed = keys.isin(pd.MultiIndex.from_frame(gone[names]))
    answered = sessions[~has_failed]
    if len(answered):
        means = score_tables.model_metrics(answered, ready.metrics, ready.provenance._asdict())
        tables.write_csv(target(ANSWERED), means)


@contextlib.contextmanager
def _calls_of(ready: PreparedScorer, folder: Path) -> Iterator[None]:
    """At the end, close the connections to the extractors' model, where one is asked, and write down what
    was asked.
    """
    try:
        yield
    finally:
        close = getattr(ready.scorer, "close", None)
        if close is not None:
            from crs_lib.llm import calls  # no model is asked as a rule

            close()
            calls.export_all(folder)


def _stage_of(convention: str) -> str:
    """The name of a convention's evaluation among the stages of a run."""
    return _STAGE if convention == DEFAULT else f"{_STAGE} {convention}"


def folder_of(run: str, convention: str) -> Path:
    """The folder of a convention's scores: the run's own for ``default``, else ``scores/<convention>``."""
    folder = paths.run_folder(simulate.STUDY, run)
    return folder if convention == DEFAULT else folder / "scores" / paths.slug(convention)


class RunTables(NamedTuple):
    """The tables of an evaluated run: a row a turn, a session, and a model and metric."""

    turns: pd.DataFrame
    results: pd.DataFrame
    means: pd.DataFrame


def scored(run: str, convention: str = "") -> RunTables:
    """The tables of an evaluated run under a convention, as :func:`read`.

    Parameters
    ----------
    run : str
        An evaluated run.
    convention : str
        As :func:`convention_of`.

    Returns
    -------
    RunTables
        ``turns``, ``results`` and ``means``.
    """
    turns = read(run, "turns", convention)
    results = read(run, "results", convention)
    means = read(run, "model_metrics", convention)
    return RunTables(turns, results, means)


def read(run: str, table: str, convention: str = "", columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A table of an evaluated run.

    Parameters
    ----------
    run : str
        An evaluated run.
    table : str
        "turns", "shifts", "results" or "model_metrics".
    convention : str
        As :func:`convention_of`.
    columns : sequence of str, optional
        The columns to read; all without them.

    Raises
    ------
    InputError
        For another table or an unknown column.
    RunError
        If the run has not been evaluated, not under this convention, or if its dialogues are newer than its
        scores.
    """
    name = convention_of(run, convention)
    entry(run, name)
    variant = "" if name == DEFAULT else name
    return MOVIES.read(run, table, variant=variant, columns=columns, repeated=Provenance._fields)


def conventions_of(run: str) -> list[str]:
    """The conventions that a run is scored under, ``default`` first and then the latest; often one."""
    ended = {}
    stages = simulate.run_named(run).manifest().get("stages", {})
    for name, stage in stages.items():
        is_scoring = name == _STAGE or name.startswith(f"{_STAGE} ")
        if is_scoring and stage.get("status") == "finished":
            convention = str(stage["parameters"]["name"])
            ended[convention] = str(stage.get("ended", ""))
    latest = sorted(ended, key=lambda name: ended[name], reverse=True)
    return sorted(latest, key=lambda name: name != DEFAULT)


def convention_of(run: str, convention: str = "") -> str:
    """The convention of a run's scores that is meant by a name. No name means ``default``, and the latest
    where the run has no scores under it; a convention that the run has only with other settings means the
    latest of those. Raises RunError where there is none.
    """
    scored_under = conventions_of(run)
    name = conventions.checked(convention) if convention else ""
    wanted = name or DEFAULT
    if not scored_under or wanted in scored_under:
        stage = _stage_of(wanted) if scored_under else _STAGE
        simulate.run_named(run).finished(stage, "04_evaluate")
        return wanted
    if not name:
        return scored_under[0]
    for other in scored_under:
        if conventions.base_of(other) == name:
            return other
    problem = f"run {run!r} is scored under {', '.join(scored_under)}, not under {name!r}"
    raise RunError(f"{problem}; make it with: {_again(run, name)}")


def _again(run: str, convention: str) -> str:
    """The command that scores a run under a convention."""
    return f"python -m crs_lib run 04_evaluate -p run {run} -p convention '{convention}'"


def entry(run: str, convention: str = "") -> dict[str, Any]:
    """The manifest's entry of an evaluation; RunError where there is none, or one of older dialogues."""
    name = convention_of(run, convention)
    evaluated = simulate.run_named(run).entry(_stage_of(name))
    simulated = simulate.run_named(run).finished("simulate", "03_simulate")
    for source, digest in _dialogue_hashes(run, simulated).items():
        if evaluated["inputs"].get(source) != digest:
            problem = f"the scores of run {run!r} are older than its dialogues"
            raise RunError(f"{problem}; score again: {_again(run, name)}")
    return evaluated


def memory_sentences(run: str, convention: str = "") -> list[str]:
    """What a run tells of memory across conversations, for its page: none, one or two sentences.

    Parameters
    ----------
    run : str
        An evaluated run.
    convention : str
        As :func:`convention_of`.

    Returns
    -------
    list of str
        The order test (:func:`memory_sentence`): "none seen", a warning, or that it was not tested; nothing
        where no order was logged. Then which systems were one program for all users of a scenario.
    """
    sentences = []
    order = arms.memory_sentence(arms.memory(read(run, "shifts", convention)))
    if order:
        sentences.append(order)
    counts = simulate.run_named(run).entry("simulate").get("counts", {})
    shared = counts.get("not_isolated", [])
    if shared:
        verb = "is" if len(shared) == 1 else "are"
        one_for_all = f"{listing(shared)} {verb} one program for all users of a scenario"
        sentences.append(f"not isolated: {one_for_all}; what it keeps of one can reach another")
    return sentences


def catalog_of(run: str) -> Catalog:
    """The catalogue that a run was made with, frozen in its folder."""
    simulate.run_named(run).finished("simulate", "03_simulate")
    return sources.load(MOVIES.path(run, "catalog"))
