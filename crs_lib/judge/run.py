"""Judges over a finished run: resumable, every score on record, what is missing counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
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
from crs_lib.core.errors import RunError
from crs_lib.core.tables import fingerprint
from crs_lib.judge import rating
from crs_lib.judge.config import JudgeConfig
from crs_lib.judge.prompt import with_named
from crs_lib.judge.rating import COLUMNS, read_scores
from crs_lib.judge.reliability import CANARIES, FORGED, counted, spoil, summary
from crs_lib.metrics import constructs
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key, Ledger

STAGE, SCORES = "judge", "judge_scores.jsonl"
ORIGINAL = "original"  # in a ledger key: the dialogue as it is, not a canary


def judge_run(
    run: str, judges: Sequence[str], samples: int = 1, *, canaries: Sequence[str] = (FORGED,),
    n_canaries: int = 20, llm: Mapping[str, Any] | None = None, progress: bool = True,
) -> Path:  # fmt: skip
    """Let judges score a run's dialogues into ``judge_scores.jsonl``; returns the folder. Killed and started
    again it continues (``ledger-judge.sqlite``); a judge that is added later neither repeats nor drops the
    others that were asked the same. Without judges nothing is done. Raises RunError for a run without
    finished dialogues, models that are not there, and dialogues that could not be judged: they are retried at
    the next start. A reply that stays unreadable is a missing score with its reason, no error.
    """
    given: dict[str, Any] = {"samples": samples, "canaries": tuple(canaries), "n_canaries": n_canaries}
    config = JudgeConfig(run=run, judges=tuple(judges), llm=llm, **given)
    folder = paths.run_folder(simulate.STUDY, run)
    if not config.judges:
        return folder
    runs.output(simulate.STUDY, run, "simulate", "03_simulate", "dialogues.jsonl")
    inputs, before, given = _dialogues(run), runs.entry(simulate.STUDY, run, STAGE), config.parameters()
    weights = _same(config, inputs["dialogues"], before)  # earlier judges that were asked the same
    if not on_record(config, inputs["dialogues"], before):
        weights |= jobs.checked(config.needs())
    inputs |= jobs.weights_as_inputs(weights)
    opened = runs.stage(simulate.STUDY, run, STAGE, given, inputs, fixed=False)
    with opened as stage, stage.ledger() as ledger:
        if before.get("inputs", {}).get("dialogues") != inputs["dialogues"]:
            (folder / SCORES).unlink(missing_ok=True)  # about dialogues that are gone
        judging = _Judging(config, folder, inputs["dialogues"], weights)
        parts = [runs.Part(judging.wanted(spec), (spec,), spec) for spec in config.judges]
        how: Any = {"llm": config.reached, "logged": True, "progress": progress}
        runs.job(stage, ledger, parts, judging.asking, (), **how)
        keys = judging.finished(ledger)
        records = list(_combined(ledger, keys, judging.lines))
        tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
        stage.parameters["judges"] = sorted({one.judge for one in keys})
        _count(stage, records)
    return folder


def _dialogues(run: str) -> dict[str, str]:
    """The digest of a run's dialogues, as the input of a judgement."""
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    return {"dialogues": made["outputs"]["dialogues.jsonl"]}


def _count(stage: runs.Stage, records: Sequence[Mapping[str, Any]]) -> None:
    stage.counts |= {"dialogues": len(records), "missing": sum(row["missing"] for row in records)}
    stage.counts["scores"] = sum(len(row["scores"]) for row in records)


def on_record(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry in the manifest says that all this was judged: no server is needed then."""
    if before.get("status") != "finished" or not {*config.judges} <= _same(config, dialogues, before).keys():
        return False
    earlier = before["parameters"]
    fewer = not config.canaries or config.n_canaries <= earlier["n_canaries"]
    return fewer and set(config.canaries) <= set(earlier["canaries"])


def _same(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a stage's judges, if its entry is about the same dialogues, judged in the same way."""
    earlier, inputs, question = before.get("parameters", {}), before.get("inputs", {}), config.question()
    same = inputs.get("dialogues") == dialogues and question == {n: earlier.get(n) for n in question}
    return jobs.weights_in(inputs) if same else {}


class _Judgement(NamedTuple):
    """One dialogue before one judge: its line in the file, and the canary made of it ("" is the original)."""

    line: int
    judge: str
    canary: str


class _DialogueLine(NamedTuple):
    """The place of a dialogue in its file, in bytes, and whose dialogue it is."""

    offset: int
    model: str
    session_id: str


@safety.reader("the dialogues of a run")
def _dialogue_lines(path: Path) -> Iterator[_DialogueLine]:
    """The place of every dialogue of a file, in order."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = safety.loads(line, path.name)
            yield _DialogueLine(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class _Judging:
    """Lets judges score the dialogues of a run, a judgement by its key in the ledger. A key holds the digests
    of the dialogues, of the way of asking and of the judge's weights: scores may stand side by side only
    where all of these are the same. ``weights`` are those of all judges asked the same, ever. Threads share
    it.
    """

    def __init__(self, config: JudgeConfig, folder: Path, dialogues: str, weights: Mapping[str, str]) -> None:
        self.config, self.path, self._weights = config, folder / "dialogues.jsonl", weights
        self._asked: dict[Key, _Judgement] = {}
        self.lines = list(_dialogue_lines(self.path))
        made = runs.entry(simulate.STUDY, config.run, "simulate").get("parameters", {})
        self._turns = (config.asked.wishes or ("turns" if made.get("imported") else "log")) == "turns"
        asked = [dialogues, config.question(), *(["constraints from turns"] if self._turns else [])]
        self._digest = fingerprint(asked)[:12]
        self._grounder = cache(lambda: Grounder(sources.load(folder / "catalog.parquet")))

    def key(self, one: _Judgement) -> Key:
        """The ledger's key of a judgement."""
        head = f"{self._digest} {fingerprint(self._weights[one.judge])[:12]}"
        return Key(f"{head} {one.canary or ORIGINAL} {one.judge} {self.lines[one.line].model}", one.line)

    def finished(self, ledger: Ledger) -> dict[_Judgement, Key]:
        """The finished judgements of every judge that judged all dialogues, canaries included."""
        done, found = ledger.finished(), dict[_Judgement, Key]()
        every = range(len(self.lines))
        for spec in self._weights:
            asked = (_Judgement(line, spec, name) for name in ("", *CANARIES.names()) for line in every)
            kept = {one: key for one in asked if (key := self.key(one)) in done}
            if {one.line for one in kept if not one.canary} == {*every}:
                found |= kept
        return found

    def dialogue(self, line: int, canary: str) -> Dialogue | None:
        """The dialogue, spoilt if asked; None where it cannot be spoilt in this way."""
        with self.path.open("rb") as file:
            file.seek(self.lines[line].offset)
            found = Dialogue.from_json(safety.loads(file.readline(), self.path.name), source=self.path.name)
        found = with_named(found, self._grounder, self._turns)
        return spoil(found, canary, self.config.asked.seed) if canary else found

    def wanted(self, spec: str) -> list[Key]:
        """All judgements of a judge: every dialogue, then the canaries of each system's first sessions."""
        seen, found = Counter[str](), [_Judgement(line, spec, "") for line in range(len(self.lines))]
        for line, place in enumerate(self.lines):
            seen[place.model] += 1
            for name in self.config.canaries if seen[place.model] <= self.config.n_canaries else ():
                if self.dialogue(line, name) is not None:
                    found.append(_Judgement(line, spec, name))
        keys = {self.key(one): one for one in found}
        self._asked |= keys
        return list(keys)

    def asking(self, start: runs.Start) -> "_Judging":
        """Itself, with the models of the judges."""
        self.models = start.pool(self.config.reached)
        return self

    def __call__(self, key: Key) -> str:
        """The record of one dialogue before one judge, as a line of JSON."""
        line, judge, canary = self._asked[key]
        dialogue, config = self.dialogue(line, canary), self.config
        if dialogue is None:
            raise RunError(f"the dialogue on line {line + 1} changed while it was judged; judge again")
        asked = (config.samples, self.models(judge), config.asked)
        return tables.dumps(rating.judge_session(dialogue, judge, *asked))


def _combined(
    ledger: Ledger, keys: Mapping[_Judgement, Key], lines: Sequence[_DialogueLine]
) -> Iterator[dict[str, Any]]:
    """One record a dialogue, canaries last: the scores of all judges, their means, and how many are missing.
    Neither the order in which judges were asked nor how often plays a part.
    """
    in_order = sorted(keys, key=lambda one: (bool(one.canary), one.line, one.canary, one.judge))
    for (line, canary), mine in groupby(in_order, key=lambda one: (one.line, one.canary)):
        bodies = ledger.bodies([keys[one] for one in mine])
        parts = [safety.loads(body, "a judgement in the ledger") for body in bodies]
        scores = [row for part in parts for row in part["scores"]]
        yield {
            "model": lines[line].model, "session_id": lines[line].session_id,
            "canary": canary, "judge": rating.means(scores), "scores": scores,
            "missing": sum(row["score"] is None for row in scores),
            **{name: parts[0][name] for name in ("trim", "rubric", "settings")},
        }  # fmt: skip


def read_records(run: str) -> list[dict[str, Any]]:
    """The judged dialogues of a run, canaries included; RunError if there are none, or older ones. A judge
    that is under way, or failed, takes nothing from those that ended before.
    """
    command = f"python -m crs_lib judge {run} --judges MODEL"
    if not _is_judged(run):
        raise RunError(f"run {run!r} was not judged; do it with: {command}")
    entry = runs.entry(simulate.STUDY, run, STAGE)
    if entry["inputs"]["dialogues"] != _dialogues(run)["dialogues"]:
        raise RunError(f"the judges of run {run!r} read older dialogues than it has now; judge it again")
    if entry["status"] == "finished":
        runs.as_written(simulate.STUDY, run, entry, SCORES, command)
    return list(tables.read_jsonl(paths.run_folder(simulate.STUDY, run) / SCORES))


def _is_judged(run: str) -> bool:
    """Whether a judge has ended its work on a run; its scores are in one file, which is always whole."""
    judged = bool(runs.entry(simulate.STUDY, run, STAGE))
    return judged and (paths.run_folder(simulate.STUDY, run) / SCORES).is_file()


def scores_of(run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The judges' scores of each session, by (model, session_id); empty for a run that was not judged.
    ``judge`` holds the mean of each construct over the judges that count (:func:`counted`), or None;
    ``scores`` how many were asked for, ``missing`` how many of them could not be read. Canaries are left out.
    """
    if not _is_judged(run):
        return {}
    originals = [row for row in read_records(run) if not row["canary"]]
    judges: dict[str, set[str]] = {}
    for row in originals:
        judges.setdefault(row["model"], set()).update(str(score["judge"]) for score in row["scores"])
    mine = {model: counted(model, names) for model, names in judges.items()}
    return {
        (row["model"], row["session_id"]): {
            "judge": rating.means(row["scores"], mine[row["model"]]),
            "scores": len(row["scores"]), "missing": row["missing"],
        }
        for row in originals
    }  # fmt: skip


def add_scores(
    session: Mapping[str, Any], scores: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """A session's result with its judges' means under ``judge``, and how many are missing in ``detail``.
    ``scores`` are those of :func:`scores_of`. Unchanged where the session was not judged.
    """
    found = scores.get((str(session["model"]), str(session["session_id"])))
    if found is None:
        return dict(session)
    counted = {"judge_scores": found["scores"], "judge_missing": found["missing"]}
    return {**session, "judge": dict(found["judge"]), "detail": {**session["detail"], **counted}}


def score_table(run: str) -> pd.DataFrame:
    """Every single score of a judged run, as agreement, self-preference and canary reports take them."""
    return _table_of(read_records(run))


def _table_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """All single scores, a row each; missing ones are NaN with a flag; ``canary`` is empty for originals."""
    head = ("model", "session_id", "canary")
    rows = [{name: one.get(name, "") for name in head} | score for one in records for score in one["scores"]]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


def shown_scores(run: str) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct; a note where none was.
    Canaries count too. Raises RunError for scores of older dialogues.
    """
    none = pd.DataFrame({"note": [f"run {run!r} was not judged"]})
    return flag_counts(score_table(run)) if _is_judged(run) else none


def flag_counts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct."""
    counts = pd.crosstab([scores["judge"], scores["construct"]], scores["flag"].fillna("given"))
    counts = counts.reindex(columns=["given", *sorted(counts.columns.difference(["given"]))], fill_value=0)
    counts.insert(0, "asked", counts.sum(axis=1))
    return counts.reset_index().rename_axis(columns=None)


def usage(run: str) -> pd.DataFrame:
    """Calls, tokens and time of a run's language models, a row for each role and model."""
    return models.usage(paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl")


def reliability_of(run: str) -> pd.DataFrame:
    """The :func:`summary` of a run's judge scores, a note without; RunError for those of older dialogues."""
    none = pd.DataFrame({"note": [f"run {run!r} has no judge scores to check"]})
    return summary(score_table(run)) if _is_judged(run) else none


def adopt(run: str, path: str | Path, judge: str = "thesis") -> pd.DataFrame:
    """Judge scores made elsewhere, put into a run as its own; returns how many of each flag, by construct.
    ``path`` is a file, a folder or a pattern of files, as ``scores/*judge*.csv``, each as :func:`read_scores`
    takes it; a model is recognised by the name that it has as a file. A session without a row has missing
    scores, and so has a system that no file names. Rows of other systems and sessions are left out. Raises
    RunError for a run that was judged, InputError as :func:`read_scores`.
    """
    before = runs.entry(simulate.STUDY, run, STAGE)
    if before and not before["parameters"].get("adopted"):
        raise RunError(f"run {run!r} was judged already; judge scores from elsewhere need another run")
    place = Path(path)
    several = "*" in place.name
    given = read_scores(place.parent if several else place, place.name if several else "*judge*.csv", judge)
    given["model"] = given["model"].map(lambda name: paths.slug(str(name)))
    columns = list(COLUMNS[3:])
    known = {who: part[columns] for who, part in given.groupby(["model", "session_id"], sort=False)}
    nothing = {"judge": judge, "sample": 0, "score": None, "flag": "missing", "value": ""}
    missing = pd.DataFrame([nothing | {"construct": name} for name in constructs.names()], columns=columns)
    records = []
    with runs.stage(simulate.STUDY, run, STAGE, {"adopted": judge}, _dialogues(run), fixed=False) as stage:
        for dialogue in simulate.iter_dialogues(run):
            key = logs.session_key(dialogue)
            rows = known.get((key.model, key.session), missing).to_dict("records")
            scores = [row | {"score": None if pd.isna(row["score"]) else int(row["score"])} for row in rows]
            records.append({
                "model": dialogue.model_name, "session_id": dialogue.session_id, "canary": "",
                "judge": {row["construct"]: row["score"] for row in scores}, "scores": scores,
                "missing": sum(row["score"] is None for row in scores),
            })  # fmt: skip
        tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
        _count(stage, records)
    return flag_counts(_table_of(records))
