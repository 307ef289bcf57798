"""Judges over a finished run: resumable, every score on record, what is missing counted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import data as logs
from crs_lib import llm as models
from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.core.tables import fingerprint
from crs_lib.judge import rating
from crs_lib.judge.config import JudgeConfig
from crs_lib.judge.rating import COLUMNS, read_scores
from crs_lib.judge.reliability import counted, spoil, summary
from crs_lib.metrics import constructs
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key, Ledger

STAGE, SCORES = "judge", "judge_scores.jsonl"
ORIGINAL = "original"  # in a ledger key: the dialogue as it is, not a canary


def judge_run(
    run: str,
    judges: Sequence[str],
    samples: int = 1,
    *,
    canaries: Sequence[str] = (),
    n_canaries: int = 20,
    llm: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Path:
    """Let judges score a run's dialogues into ``judge_scores.jsonl``; returns the folder.

    Killed and started again it continues (``ledger-judge.sqlite``); a judge that is added later neither
    repeats nor drops the others that were asked the same. Without judges nothing is done. Raises RunError
    for a run without finished dialogues, models that are not there, and dialogues that could not be judged:
    they are retried at the next start. A reply that stays unreadable is a missing score with its reason, no
    error.
    """
    config = JudgeConfig(
        run=run,
        judges=tuple(judges),
        samples=samples,
        canaries=tuple(canaries),
        n_canaries=n_canaries,
        llm=llm,
    )
    folder = paths.run_folder(simulate.STUDY, run)
    if not config.judges:
        return folder
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    runs.output(simulate.STUDY, run, "simulate", "03_simulate", "dialogues.jsonl")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    before = runs.entry(simulate.STUDY, run, STAGE)
    weights = _weights(config, inputs["dialogues"], before)
    inputs |= jobs.weights_as_inputs(weights)
    with (
        runs.stage(simulate.STUDY, run, STAGE, config.parameters(), inputs, fixed=False) as stage,
        stage.ledger() as ledger,
    ):
        if before.get("inputs", {}).get("dialogues") != inputs["dialogues"]:
            (folder / SCORES).unlink(missing_ok=True)  # about dialogues that are gone
        lines = list(dialogue_lines(folder / "dialogues.jsonl"))
        judging = _JudgingRound.of(inputs["dialogues"], config.question(), lines)
        exhibits = _Exhibits(config, folder, lines)
        wanted = {
            spec: {judging.key(one, weights[spec]): one for one in exhibits.of_judge(spec)}
            for spec in config.judges
        }
        every = {key: one for mine in wanted.values() for key, one in mine.items()}
        runs.job(
            stage, ledger, [runs.Part(list(mine), (spec,), spec) for spec, mine in wanted.items()],
            _JudgementMaker, (exhibits, every), llm=config.reached, logged=True, progress=progress,
        )  # fmt: skip
        keys = judging.keys(ledger, weights)
        records = list(combined(ledger, keys, judging))
        tables.write_jsonl(stage.path(SCORES), map(tables.dumps, records))
        stage.parameters["judges"] = sorted({judgement.judge for judgement in keys})
        stage.counts |= {"dialogues": len(records), "missing": sum(row["missing"] for row in records)}
        stage.counts |= {"scores": sum(len(row["scores"]) for row in records)}
    return folder


def on_record(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry in the manifest says that all this was judged: no server is needed then."""
    earlier, now = before.get("parameters", {}), config.parameters()
    return bool(
        before.get("status") == "finished"
        and _same(config, dialogues, before)
        and set(config.judges) <= jobs.weights_in(before["inputs"]).keys()
        and set(now["canaries"]) <= set(earlier["canaries"])
        and (not now["canaries"] or now["n_canaries"] <= earlier["n_canaries"])
    )


def _same(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> bool:
    """Whether a stage's entry is about the same dialogues, judged in the same way."""
    earlier = before.get("parameters", {})
    return bool(
        before.get("inputs", {}).get("dialogues") == dialogues
        and {name: earlier.get(name) for name in config.question()} == config.question()
    )


def _weights(config: JudgeConfig, dialogues: str, before: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the judges, with those of earlier judges that were asked the same."""
    kept = jobs.weights_in(before["inputs"]) if _same(config, dialogues, before) else {}
    return kept if on_record(config, dialogues, before) else kept | jobs.checked(config.needs())


class Judgement(NamedTuple):
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
def dialogue_lines(path: Path) -> Iterator[_DialogueLine]:
    """The place of every dialogue of a file, in order."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = safety.loads(line, path.name)
            yield _DialogueLine(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class _JudgingRound(NamedTuple):
    """The judgements whose scores may stand side by side: the same dialogues, judges asked the same.

    ``digest`` stands for both; other dialogues, settings or samples are another round.
    """

    digest: str
    lines: Sequence[_DialogueLine]

    @classmethod
    def of(cls, dialogues: str, asked: Mapping[str, Any], lines: Sequence[_DialogueLine]) -> "_JudgingRound":
        """The round of a file of dialogues (its hash) and the parameters of the question."""
        return cls(fingerprint([dialogues, dict(asked)])[:12], lines)

    def key(self, judgement: Judgement, weights: str) -> Key:
        """The ledger's key of a judgement; another digest of the judge's weights is another key."""
        line, judge, canary = judgement
        return Key(f"{self._head(weights)} {canary or ORIGINAL} {judge} {self.lines[line].model}", line)

    def _head(self, weights: str) -> str:
        return f"{self.digest} {fingerprint(weights)[:12]}"

    def keys(self, ledger: Ledger, weights: Mapping[str, str]) -> dict[Judgement, Key]:
        """The finished judgements of every judge of this round, under one digest of its weights each.

        Taken are the weights given here; a judge that is not named counts with those that judged all
        dialogues, and is left out where there is no such digest, or more than one.
        """
        found: dict[tuple[str, str], dict[Judgement, Key]] = {}
        for key in sorted(ledger.finished()):
            if key.system.startswith(f"{self.digest} "):
                digest, of_weights, canary, rest = key.system.split(" ", 3)
                spec = rest.removesuffix(f" {self.lines[key.session].model}")
                judgement = Judgement(key.session, spec, "" if canary == ORIGINAL else canary)
                found.setdefault((spec, f"{digest} {of_weights}"), {})[judgement] = key
        whole = [
            who
            for who, mine in found.items()
            if len({judgement for judgement in mine if not judgement.canary}) == len(self.lines)
        ]
        chosen: dict[Judgement, Key] = {}
        for spec in dict.fromkeys(spec for spec, _ in whole):
            heads = [head for name, head in whole if name == spec]
            known = self._head(weights[spec]) if spec in weights else ""
            if known in heads or len(heads) == 1:
                chosen |= found[spec, known if known in heads else heads[0]]
        return chosen


def combined(
    ledger: Ledger, keys: Mapping[Judgement, Key], judging: _JudgingRound
) -> Iterator[dict[str, Any]]:
    """One record a dialogue, canaries last: the scores of all judges, their means, and how many are missing.

    Neither the order in which judges were asked nor how often plays a part.
    """
    judges: dict[tuple[str, int], list[str]] = {}
    for line, spec, canary in sorted(keys, key=lambda judgement: judgement.judge):
        judges.setdefault((canary, line), []).append(spec)
    for canary, line in sorted(judges, key=lambda one: (bool(one[0]), one[1], one[0])):
        mine = [keys[Judgement(line, spec, canary)] for spec in judges[canary, line]]
        parts = [safety.loads(body, "a judgement in the ledger") for body in ledger.bodies(mine)]
        scores = [row for part in parts for row in part["scores"]]
        yield {
            "model": judging.lines[line].model, "session_id": judging.lines[line].session_id,
            "canary": canary, "judge": rating.means(scores), "scores": scores,
            "missing": sum(row["score"] is None for row in scores),
            **{name: parts[0][name] for name in ("trim", "rubric", "settings")},
        }  # fmt: skip


class _Exhibits:
    """The dialogues of a run as judges are shown them, as they are or spoilt."""

    def __init__(self, config: JudgeConfig, folder: Path, lines: Sequence[_DialogueLine]) -> None:
        self.config, self.lines = config, lines
        self.path = folder / "dialogues.jsonl"
        self.titles: list[str] = []
        if config.canaries:
            self.titles = [item.title for item in sources.load(folder / "catalog.parquet").items]

    def dialogue(self, line: int, canary: str) -> Dialogue | None:
        """The dialogue, spoilt if asked; None where it cannot be spoilt in this way."""
        with self.path.open("rb") as file:
            file.seek(self.lines[line].offset)
            found = Dialogue.from_json(safety.loads(file.readline(), self.path.name), source=self.path.name)
        return spoil(found, canary, self.titles, self.config.asked.seed) if canary else found

    def of_judge(self, spec: str) -> Iterator[Judgement]:
        """All judgements of a judge: every dialogue, then the canaries of each system's first sessions."""
        seen: dict[str, int] = {}
        for line in range(len(self.lines)):
            yield Judgement(line, spec, "")
        for line, place in enumerate(self.lines):
            seen[place.model] = seen.get(place.model, 0) + 1
            if seen[place.model] <= self.config.n_canaries:
                for name in self.config.canaries:
                    if self.dialogue(line, name) is not None:
                        yield Judgement(line, spec, name)


class _JudgementMaker:
    """Lets one judge score one dialogue, given by ledger key. Threads share a maker."""

    def __init__(self, exhibits: _Exhibits, judgements: Mapping[Key, Judgement], start: runs.Start) -> None:
        self.exhibits, self.judgements = exhibits, judgements
        self.models = start.pool(exhibits.config.reached)

    def __call__(self, key: Key) -> str:
        """The record of one dialogue before one judge, as a line of JSON."""
        line, judge, canary = self.judgements[key]
        dialogue, config = self.exhibits.dialogue(line, canary), self.exhibits.config
        if dialogue is None:
            raise RunError(f"the dialogue on line {line + 1} changed while it was judged; judge again")
        record = rating.judge_session(dialogue, [judge], config.samples, self.models, config.asked)
        return tables.dumps({**record, "canary": canary})


def read_records(run: str) -> list[dict[str, Any]]:
    """The judged dialogues of a run, canaries included; RunError if there are none, or older ones.

    A judge that is under way, or failed, takes nothing from those that ended before.
    """
    if not is_judged(run):
        raise RunError(
            f"run {run!r} was not judged; do it with: python -m crs_lib judge {run} --judges MODEL"
        )
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    entry = runs.entry(simulate.STUDY, run, STAGE)
    if entry["inputs"]["dialogues"] != made["outputs"]["dialogues.jsonl"]:
        raise RunError(f"the judges of run {run!r} read older dialogues than it has now; judge it again")
    if entry["status"] == "finished":
        runs.as_written(simulate.STUDY, run, entry, SCORES, f"python -m crs_lib judge {run} --judges MODEL")
    return list(tables.read_jsonl(paths.run_folder(simulate.STUDY, run) / SCORES))


def is_judged(run: str) -> bool:
    """Whether a judge has ended its work on a run; its scores are in one file, which is always whole."""
    judged = bool(runs.entry(simulate.STUDY, run, STAGE))
    return judged and (paths.run_folder(simulate.STUDY, run) / SCORES).is_file()


def scores_of(run: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The judges' scores of each session, by (model, session_id); empty for a run that was not judged.

    ``judge`` holds the mean of each construct over the judges that count (:func:`counted`), or None;
    ``scores`` how many were asked for, ``missing`` how many of them could not be read. Canaries are left out.
    """
    if not is_judged(run):
        return {}
    originals = [row for row in read_records(run) if not row["canary"]]
    judges: dict[str, set[str]] = {}
    for row in originals:
        judges.setdefault(row["model"], set()).update(str(score["judge"]) for score in row["scores"])
    mine = {model: counted(model, names) for model, names in judges.items()}
    return {
        (row["model"], row["session_id"]): {
            "judge": _means(row["scores"], mine[row["model"]]),
            "scores": len(row["scores"]), "missing": row["missing"],
        }
        for row in originals
    }  # fmt: skip


def _means(scores: Iterable[Mapping[str, Any]], judges: frozenset[str]) -> dict[str, float | None]:
    """The mean of each construct over these judges, each the mean of its samples; None without a score."""
    given: dict[str, dict[str, list[float]]] = {name: {} for name in constructs.names()}
    for row in scores:
        if row["score"] is not None and row["judge"] in judges and row["construct"] in given:
            given[row["construct"]].setdefault(str(row["judge"]), []).append(float(row["score"]))
    return {
        name: fmean(fmean(values) for values in mine.values()) if mine else None
        for name, mine in given.items()
    }


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
    return table_of(read_records(run))


def table_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """All single scores of judged sessions, one row each; missing scores are NaN with their flag.

    ``canary`` is empty for original dialogues.
    """
    rows = [
        {"model": r["model"], "session_id": r["session_id"], "canary": r.get("canary", ""), **score}
        for r in records
        for score in r["scores"]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"score": float})


def shown_scores(run: str) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct; a note where none was.

    Canaries count too. Raises RunError for scores of older dialogues.
    """
    if not is_judged(run):
        return pd.DataFrame({"note": [f"run {run!r} was not judged"]})
    return flag_counts(score_table(run))


def flag_counts(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores asked for, given and missing by reason, a row for judge and construct."""
    flagged = scores.assign(flag=scores["flag"].fillna("given"))
    counts = flagged.groupby(["judge", "construct", "flag"]).size()
    counts = counts.unstack("flag", fill_value=0)  # noqa: PD010 -- it is a count already
    counts.insert(0, "asked", counts.sum(axis=1))
    if "given" not in counts:
        counts.insert(1, "given", 0)
    rest = sorted(set(counts.columns) - {"asked", "given"})
    return counts[["asked", "given", *rest]].reset_index().rename_axis(columns=None)


def usage(run: str) -> pd.DataFrame:
    """Calls, tokens and time of a run's language models, a row for each role and model."""
    return models.usage(paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl")


def reliability_of(run: str) -> pd.DataFrame:
    """The :func:`summary` of a run's judge scores; a note where the run was not judged.

    Raises RunError for scores of older dialogues.
    """
    if not is_judged(run):
        return pd.DataFrame({"note": [f"run {run!r} has no judge scores to check"]})
    return summary(score_table(run))


def adopt(run: str, path: str | Path, judge: str = "thesis") -> pd.DataFrame:
    """Judge scores made elsewhere, put into a run as its own; returns how many of each flag, by construct.

    ``path`` is a file, a folder or a pattern of files, as ``scores/*judge*.csv``, each as
    :func:`read_scores` takes it; a model is recognised by the name that it has as a file. A
    session without a row has missing scores, and so has a system that no file names. Rows of other systems
    and sessions are left out. Raises RunError for a run that was judged, InputError as :func:`read_scores`.
    """
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    before = runs.entry(simulate.STUDY, run, STAGE)
    if before and not before["parameters"].get("adopted"):
        raise RunError(f"run {run!r} was judged already; judge scores from elsewhere need another run")
    place = Path(path)
    several = "*" in place.name
    given = read_scores(place.parent if several else place, place.name if several else "*judge*.csv", judge)
    given["model"] = given["model"].map(lambda name: paths.slug(str(name)))
    known = dict(iter(given.groupby(["model", "session_id"], sort=False)))
    with runs.stage(simulate.STUDY, run, STAGE, {"adopted": judge}, inputs, fixed=False) as stage:
        lines, rows = list[str](), list[dict[str, Any]]()
        for dialogue in simulate.iter_dialogues(run):
            key = logs.session_key(dialogue)
            scores = _scores_of(known.get((key.model, key.session)), judge)
            rows += scores
            means = {row["construct"]: row["score"] for row in scores}
            record = {
                "model": dialogue.model_name, "session_id": dialogue.session_id, "canary": "", "judge": means,
                "scores": scores, "missing": sum(row["score"] is None for row in scores),
            }  # fmt: skip
            lines.append(tables.dumps(record))
        tables.write_jsonl(stage.path(SCORES), lines)
        stage.counts |= {"dialogues": len(lines), "scores": len(rows)}
    frame = pd.DataFrame(rows, columns=["judge", "construct", "sample", "score", "flag", "value"])
    return flag_counts(frame)


def _scores_of(part: pd.DataFrame | None, judge: str) -> list[dict[str, Any]]:
    """The scores of a session, one a construct; missing where no file has the session."""
    if part is None:
        return [
            {"judge": judge, "construct": name, "sample": 0, "score": None, "flag": "missing", "value": ""}
            for name in constructs.names()
        ]
    return [
        {
            "judge": judge, "construct": row.construct, "sample": 0,
            "score": None if pd.isna(row.score) else int(row.score), "flag": row.flag, "value": row.value,
        }
        for row in part.itertuples()
    ]  # fmt: skip
