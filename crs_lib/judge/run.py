"""Judges over a finished run: resumable, every score on record, what is missing counted."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.core import outside, paths, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.core.hashes import fingerprint
from crs_lib.judge import canaries as spoiling
from crs_lib.judge import rating
from crs_lib.judge.config import JudgeConfig, JudgeSettings
from crs_lib.judge.records import SCORES, STAGE
from crs_lib.runs import jobs
from crs_lib.runs.ledger import Key, Ledger

ORIGINAL = "original"  # in a ledger key: the dialogue as it is, not a canary


def judge_run(
    run: str,
    judges: Sequence[str],
    samples: int = 1,
    settings: JudgeSettings | None = None,
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
        run, tuple(judges), samples, settings or JudgeSettings(), tuple(canaries), n_canaries, llm
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
        judging = JudgingRound.of(inputs["dialogues"], config.question(), lines)
        exhibits = Exhibits(config, folder, lines)
        wanted = {
            spec: {judging.key(one, weights[spec]): one for one in exhibits.of_judge(spec)}
            for spec in config.judges
        }
        every = {key: one for mine in wanted.values() for key, one in mine.items()}
        runs.job(
            stage, ledger, [runs.Part(list(mine), (spec,), spec) for spec, mine in wanted.items()],
            JudgementMaker, (exhibits, every), llm=config.reached, logged=True, progress=progress,
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


class DialogueLine(NamedTuple):
    """The place of a dialogue in its file, in bytes, and whose dialogue it is."""

    offset: int
    model: str
    session_id: str


@outside.reader("the dialogues of a run")
def dialogue_lines(path: Path) -> Iterator[DialogueLine]:
    """The place of every dialogue of a file, in order."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = outside.loads(line, path.name)
            yield DialogueLine(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class JudgingRound(NamedTuple):
    """The judgements whose scores may stand side by side: the same dialogues, judges asked the same.

    ``digest`` stands for both; other dialogues, settings or samples are another round.
    """

    digest: str
    lines: Sequence[DialogueLine]

    @classmethod
    def of(cls, dialogues: str, asked: Mapping[str, Any], lines: Sequence[DialogueLine]) -> "JudgingRound":
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
    ledger: Ledger, keys: Mapping[Judgement, Key], judging: JudgingRound
) -> Iterator[dict[str, Any]]:
    """One record a dialogue, canaries last: the scores of all judges, their means, and how many are missing.

    Neither the order in which judges were asked nor how often plays a part.
    """
    judges: dict[tuple[str, int], list[str]] = {}
    for line, spec, canary in sorted(keys, key=lambda judgement: judgement.judge):
        judges.setdefault((canary, line), []).append(spec)
    for canary, line in sorted(judges, key=lambda one: (bool(one[0]), one[1], one[0])):
        mine = [keys[Judgement(line, spec, canary)] for spec in judges[canary, line]]
        parts = [outside.loads(body, "a judgement in the ledger") for body in ledger.bodies(mine)]
        scores = [row for part in parts for row in part["scores"]]
        yield {
            "model": judging.lines[line].model, "session_id": judging.lines[line].session_id,
            "canary": canary, "judge": rating.means(scores), "scores": scores,
            "missing": sum(row["score"] is None for row in scores),
            **{name: parts[0][name] for name in ("trim", "rubric", "settings")},
        }  # fmt: skip


class Exhibits:
    """The dialogues of a run as judges are shown them, as they are or spoilt."""

    def __init__(self, config: JudgeConfig, folder: Path, lines: Sequence[DialogueLine]) -> None:
        self.config, self.lines = config, lines
        self.path = folder / "dialogues.jsonl"
        self.titles: list[str] = []
        if config.canaries:
            self.titles = [item.title for item in sources.load(folder / "catalog.parquet").items]

    def dialogue(self, line: int, canary: str) -> Dialogue | None:
        """The dialogue, spoilt if asked; None where it cannot be spoilt in this way."""
        with self.path.open("rb") as file:
            file.seek(self.lines[line].offset)
            found = Dialogue.from_json(outside.loads(file.readline(), self.path.name), source=self.path.name)
        return spoiling.spoil(found, canary, self.titles, self.config.asked.seed) if canary else found

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


class JudgementMaker:
    """Lets one judge score one dialogue, given by ledger key. Threads share a maker."""

    def __init__(self, exhibits: Exhibits, judgements: Mapping[Key, Judgement], start: runs.Start) -> None:
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
