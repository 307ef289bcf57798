"""Judges over a finished run: resumable, every score on record, what is missing counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as logs
from crs_lib import llm as models
from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError, match
from crs_lib.core.tables import fingerprint
from crs_lib.judge import rating
from crs_lib.judge.config import JudgeConfig
from crs_lib.judge.prompt import with_named
from crs_lib.judge.rating import COLUMNS, read_scores
from crs_lib.judge.reliability import FORGED, counted, forge_end, summary
from crs_lib.metrics import constructs
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key, Ledger

STAGE, SCORES = "judge", "judge_scores.jsonl"
ORIGINAL = "original"  # in a ledger key: the dialogue as it is, not a canary
Record = dict[str, Any]  # a line of judge_scores.jsonl
_SCORES_OF = "judge scores name a model as its log does, and stand in the order of its sessions"
_SHARED = ("trim", "rubric", "settings")  # of a record, the same for all judges


def judge_run(
    run: str,
    judges: Sequence[str],
    samples: int = 1,
    *,
    canaries: Sequence[str] = (FORGED,),
    n_canaries: int = 20,
    llm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Path:
    """Let judges score a run's dialogues into ``judge_scores.jsonl``.

    Killed and started again it continues (``ledger-judge.sqlite``); a judge that is added later neither
    repeats nor drops the others that were asked the same. A reply that stays unreadable is a missing score
    with its reason, no error.

    Parameters
    ----------
    run
        A run with finished dialogues.
    judges
        Specs of models; without any nothing is done.
    samples
        How often each judge is asked about a dialogue.
    canaries, n_canaries
        Dialogues spoilt on purpose that are judged too, of so many sessions of each system.
    llm
        Settings of the judges (:class:`crs_lib.judge.config.JudgeSettings`) and of their servers.
    progress
        Whether a bar is shown.

    Returns
    -------
    pathlib.Path
        The folder of the run.

    Raises
    ------
    RunError
        For a run without finished dialogues, models that are not there, and dialogues that could not be
        judged: they are retried at the next start.
    """
    canaries = tuple(canaries)
    config = JudgeConfig(
        run=run, judges=tuple(judges), samples=samples, canaries=canaries, n_canaries=n_canaries, llm=llm
    )
    folder = paths.run_folder(simulate.STUDY, run)
    if not config.judges:
        return folder
    simulate.run_named(run).output("simulate", "03_simulate", "dialogues.jsonl")
    inputs = _dialogues(run)
    dialogues = inputs["dialogues"]
    before = simulate.run_named(run).entry(STAGE)
    weights = _same(config, dialogues, before)  # earlier judges that were asked the same
    if not on_record(config, dialogues, before):
        weights |= jobs.checked(config.needs())
    inputs |= jobs.weights_as_inputs(weights)
    opened = runs.stage(simulate.STUDY, run, STAGE, config.parameters(), inputs, fixed=False)
    with opened as stage, stage.ledger() as ledger:
        if before.get("inputs", {}).get("dialogues") != dialogues:
            (folder / SCORES).unlink(missing_ok=True)  # about dialogues that are gone
        judging = _Judging(config, folder, dialogues, weights)
        parts = []
        for spec in config.judges:
            parts.append(runs.Part(judging.keys(spec), (spec,), spec))
        make = judging.asking
        runs.job(stage, ledger, parts, make, (), llm=config.reached, logged=True, progress=progress)
        keys = judging.finished(ledger)
        records = list(_combined(ledger, keys, judging.lines))
        _write(stage, records)
        stage.parameters["judges"] = sorted({judgement.judge for judgement in keys})
    return folder


def _dialogues(run: str) -> dict[str, str]:
    """The digest of a run's dialogues, as the input of a judgement."""
    entry = simulate.run_named(run).finished("simulate", "03_simulate")
    return {"dialogues": entry["outputs"]["dialogues.jsonl"]}


def _write(stage: runs.Stage, records: Sequence[Record]) -> None:
    """Write the records of a judgement, and count them."""
    tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
    stage.counts["dialogues"] = len(records)
    stage.counts["missing"] = sum(record["missing"] for record in records)
    stage.counts["scores"] = sum(len(record["scores"]) for record in records)


def on_record(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry in the manifest says that all this was judged: no server is needed then."""
    judged = _same(config, dialogues, before).keys()
    if before.get("status") != "finished" or not judged >= {*config.judges}:
        return False
    earlier = before["parameters"]
    enough = not config.canaries or config.n_canaries <= earlier["n_canaries"]
    return enough and set(config.canaries) <= set(earlier["canaries"])


def _same(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a stage's judges, if its entry is about the same dialogues, judged in the same way."""
    inputs = before.get("inputs", {})
    if inputs.get("dialogues") != dialogues:
        return {}
    earlier = before.get("parameters", {})
    for name, value in config.question().items():
        if earlier.get(name) != value:
            return {}
    return jobs.weights_in(inputs)


class Judgement(NamedTuple):
    """One dialogue before one judge: its line in the file, and the canary made of it ("" is the original)."""

    line: int
    judge: str
    canary: str


class DialogueLine(NamedTuple):
    """The place of a dialogue in its file, in bytes, and whose dialogue it is."""

    offset: int
    model: str
    session_id: str


@safety.reader("the dialogues of a run")
def _dialogue_lines(path: Path) -> Iterator[DialogueLine]:
    """The place of every dialogue of a file, in order."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = safety.loads(line, path.name)
            yield DialogueLine(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class _Judging:
    """Lets judges score the dialogues of a run, a judgement by its key in the ledger. A key holds the digests
    of the dialogues, of the way of asking and of the judge's weights: scores may stand side by side only
    where all of these are the same. ``weights`` are those of all judges asked the same, ever. Threads share
    it.
    """

    models: models.Pool

    def __init__(self, config: JudgeConfig, folder: Path, dialogues: str, weights: Mapping[str, str]) -> None:
        self.config = config
        self.folder = folder
        self.path = folder / "dialogues.jsonl"
        self.lines = list(_dialogue_lines(self.path))
        self._weights = weights
        self._judgements: dict[Key, Judgement] = {}
        simulated = simulate.run_named(config.run).entry("simulate")
        wishes = config.asked.wishes
        if not wishes and simulated.get("parameters", {}).get("imported"):
            wishes = "turns"
        self._from_turns = wishes == "turns"
        question: list[Any] = [dialogues, config.question()]
        if self._from_turns:
            question.append("constraints from turns")
        self._digest = fingerprint(question)[:12]

    @cached_property
    def _grounder(self) -> Grounder:
        return Grounder(sources.load(self.folder / "catalog.parquet"))

    def key(self, judgement: Judgement) -> Key:
        """The ledger's key of a judgement."""
        line, judge, canary = judgement
        weights = fingerprint(self._weights[judge])[:12]
        model = self.lines[line].model
        return Key(f"{self._digest} {weights} {canary or ORIGINAL} {judge} {model}", line)

    def keys(self, judge: str) -> list[Key]:
        """All judgements of a judge: every dialogue, then the canaries of each system's first sessions."""
        originals = []
        canaries = []
        sessions: Counter[str] = Counter()
        for number, line in enumerate(self.lines):
            originals.append(Judgement(number, judge, ""))
            sessions[line.model] += 1
            if sessions[line.model] <= self.config.n_canaries:
                canaries += [Judgement(number, judge, name) for name in self.config.canaries]
        keys = []
        for judgement in [*originals, *canaries]:
            key = self.key(judgement)
            keys.append(key)
            self._judgements[key] = judgement
        return keys

    def finished(self, ledger: Ledger) -> dict[Judgement, Key]:
        """The finished judgements of every judge that judged all dialogues, canaries included."""
        done = ledger.finished()
        finished: dict[Judgement, Key] = {}
        n_lines = len(self.lines)
        for judge in self._weights:
            judged = {}
            for line, canary in product(range(n_lines), ("", FORGED)):
                judgement = Judgement(line, judge, canary)
                key = self.key(judgement)
                if key in done:
                    judged[judgement] = key
            originals = [judgement for judgement in judged if not judgement.canary]
            if len(originals) == n_lines:
                finished.update(judged)
        return finished

    def dialogue(self, line: int, *, forged: bool) -> Dialogue:
        """The dialogue on a line of the file, with a forged end where one is asked for."""
        with self.path.open("rb") as file:
            file.seek(self.lines[line].offset)
            record = safety.loads(file.readline(), self.path.name)
        dialogue = Dialogue.from_json(record, source=self.path.name)
        dialogue = with_named(dialogue, lambda: self._grounder, self._from_turns)
        if forged:
            return forge_end(dialogue)
        return dialogue

    def asking(self, start: runs.Start) -> "_Judging":
        """Itself, with the models of the judges."""
        self.models = start.pool(self.config.reached)
        return self

    def __call__(self, key: Key) -> str:
        """The record of one dialogue before one judge, as a line of JSON."""
        line, judge, canary = self._judgements[key]
        dialogue = self.dialogue(line, forged=bool(canary))
        model = self.models(judge)
        samples = self.config.samples
        record = rating.judge_session(dialogue, judge, samples, model, self.config.asked)
        return tables.dumps(record)


def _combined(
    ledger: Ledger, keys: Mapping[Judgement, Key], lines: Sequence[DialogueLine]
) -> Iterator[Record]:
    """One record a dialogue, canaries last: the scores of all judges, their means, and how many are missing.
    Neither the order in which judges were asked nor how often plays a part.
    """
    ordered = sorted(keys, key=attrgetter("canary", "line", "judge"))
    for (canary, number), group in groupby(ordered, key=attrgetter("canary", "line")):
        scores: list[dict[str, Any]] = []
        own = [keys[judgement] for judgement in group]
        for body in ledger.bodies(own):
            part = safety.loads(body, "a judgement in the ledger")
            scores += part["scores"]
        line = lines[number]
        means = rating.means(scores)
        record = _record(line.model, line.session_id, canary, scores, means)
        for name in _SHARED:
            record[name] = part[name]
        yield record


def _record(
    model: str,
    session: str,
    canary: str,
    scores: Sequence[Mapping[str, Any]],
    means: Mapping[str, float | None],
) -> Record:
    """A judged dialogue as a line of the file."""
    record: Record = {"model": model, "session_id": session, "canary": canary}
    record.update(judge=means, scores=scores)
    record["missing"] = sum(row["score"] is None for row in scores)
    return record


def read_records(run: str) -> list[Record]:
    """The judged dialogues of a run, canaries included; RunError if there are none, or older ones. A judge
    that is under way, or failed, takes nothing from those that ended before.
    """
    command = f"python -m crs_lib judge {run} --judges MODEL"
    if not _is_judged(run):
        raise RunError(f"run {run!r} was not judged; do it with: {command}")
    entry = simulate.run_named(run).entry(STAGE)
    if entry["inputs"]["dialogues"] != _dialogues(run)["dialogues"]:
        raise RunError(f"the judges of run {run!r} read older dialogues than it has now; judge it again")
    if entry["status"] == "finished":
        simulate.run_named(run).as_written(entry, SCORES, command)
    return list(tables.read_jsonl(paths.run_folder(simulate.STUDY, run) / SCORES))


def _is_judged(run: str) -> bool:
    """Whether a judge has ended its work on a run; its scores are in one file, which is always whole."""
    entry = simulate.run_named(run).entry(STAGE)
    return bool(entry) and (paths.run_folder(simulate.STUDY, run) / SCORES).is_file()


def scores_of(run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The judges' scores of each session, by (model, session_id); empty for a run that was not judged.
    ``judge`` holds the mean of each construct over the judges that count (:func:`counted`), or None;
    ``scores`` how many were asked for, ``missing`` how many of them could not be read. Canaries are left out.
    """
    if not _is_judged(run):
        return {}
    originals = [record for record in read_records(run) if not record["canary"]]
    judges: dict[str, set[str]] = {}
    for record in originals:
        names = judges.setdefault(record["model"], set())
        names.update(str(score["judge"]) for score in record["scores"])
    sessions = {}
    for record in originals:
        model = record["model"]
        scores = record["scores"]
        means = rating.means(scores, counted(model, judges[model]))
        session = {"judge": means, "scores": len(scores), "missing": record["missing"]}
        sessions[model, record["session_id"]] = session
    return sessions


def add_scores(
    session: Mapping[str, Any], scores: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """A session's result with its judges' means under ``judge``, and how many are missing in ``detail``.
    ``scores`` are those of :func:`scores_of`. Unchanged where the session was not judged.
    """
    result = dict(session)
    judged = scores.get((str(session["model"]), str(session["session_id"])))
    if judged is not None:
        result["judge"] = dict(judged["judge"])
        counts = {"judge_scores": judged["scores"], "judge_missing": judged["missing"]}
        result["detail"] = {**session["detail"], **counts}
    return result


def score_table(run: str) -> pd.DataFrame:
    """Every single score of a judged run, as agreement, self-preference and canary reports take them."""
    return table_of(read_records(run))


def table_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """All single scores, a row each; missing ones are NaN with a flag; ``canary`` is empty for originals."""
    rows = []
    for record in records:
        head = {name: record.get(name, "") for name in COLUMNS[:3]}
        rows += [head | score for score in record["scores"]]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"score": float})


def shown_scores(run: str) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct; a note where none was.
    Canaries count too. Raises RunError for scores of older dialogues.
    """
    if not _is_judged(run):
        return pd.DataFrame({"note": [f"run {run!r} was not judged"]})
    return flag_counts(score_table(run))


def flag_counts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct."""
    outcomes = scores["flag"].fillna("given")
    counts = pd.crosstab([scores["judge"], scores["construct"]], outcomes)
    flags = sorted(counts.columns.difference(["given"]))
    counts = counts.reindex(columns=["given", *flags], fill_value=0)
    counts.insert(0, "asked", counts.sum(axis=1))
    return counts.reset_index().rename_axis(columns=None)


def usage(run: str) -> pd.DataFrame:
    """Calls, tokens and time of a run's language models, a row for each role and model."""
    return models.usage(paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl")


def reliability_of(run: str) -> pd.DataFrame:
    """The :func:`summary` of a run's judge scores, a note without; RunError for those of older dialogues."""
    if not _is_judged(run):
        return pd.DataFrame({"note": [f"run {run!r} has no judge scores to check"]})
    return summary(score_table(run))


def adopt(run: str, path: str | Path, judge: str = "thesis") -> tuple[pd.DataFrame, str]:
    """Judge scores made elsewhere, put into a run as its own.

    Parameters
    ----------
    run
        A run that was not judged.
    path
        A file, a folder or a pattern of files, as ``scores/*judge*.csv``, each as :func:`read_scores` takes
        it. A model is recognised by the name that it has as a file. A session without a row has missing
        scores, and so has a system that no file names; rows of other systems and sessions are left out.
    judge
        The name under which the scores go.

    Returns
    -------
    tuple of pandas.DataFrame and str
        How many of each flag there are, by construct; and how many sessions of the run have scores.

    Raises
    ------
    RunError
        For a run that was judged.
    InputError
        As :func:`read_scores`, and where no session of the run has scores.
    """
    before = simulate.run_named(run).entry(STAGE)
    if before and not before["parameters"].get("adopted"):
        raise RunError(f"run {run!r} was judged already; judge scores from elsewhere need another run")
    by_session = _adopted(Path(path), judge)
    missing = []
    for name in constructs.names():
        row: dict[str, Any] = {"judge": judge, "construct": name, "sample": 0}
        row.update(score=None, flag="missing", value="")
        missing.append(row)
    records = []
    sessions = []
    inputs = _dialogues(run)
    with runs.stage(simulate.STUDY, run, STAGE, {"adopted": judge}, inputs, fixed=False) as stage:
        for dialogue in simulate.iter_dialogues(run):
            key = logs.session_key(dialogue)
            sessions.append(f"{key.model} {key.session}")
            scores = by_session.get((key.model, key.session), missing)
            means = {row["construct"]: row["score"] for row in scores}
            records.append(_record(dialogue.model_name, dialogue.session_id, "", scores, means))
        scored = dict.fromkeys(f"{model} {session}" for model, session in by_session)
        matched = match("sessions with judge scores", sessions, scored, _SCORES_OF)
        _write(stage, records)
    return flag_counts(table_of(records)), matched.sentence


def _adopted(path: Path, judge: str) -> dict[tuple[str, Any], list[dict[str, Any]]]:
    """The rows of judge files by the model's name as a file, and session."""
    if "*" in path.name:
        frame = read_scores(path.parent, path.name, judge)
    else:
        frame = read_scores(path, judge=judge)
    by_session: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for entry in frame.to_dict("records"):
        row = {str(name): entry[name] for name in COLUMNS[3:]}
        score = entry["score"]
        row["score"] = None if pd.isna(score) else int(score)
        model = paths.slug(str(entry["model"]))
        key = (model, entry["session_id"])
        by_session.setdefault(key, []).append(row)
    return by_session
