"""The judges' ledger: under which key a judgement lies, and the records of all judges of the same sitting."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core.hashes import fingerprint
from crs_lib.judge import judge
from crs_lib.runs.ledger import Key, Ledger

ORIGINAL = "original"


class Task(NamedTuple):
    """One dialogue before one judge: its line in the file, and how it is spoilt ("" is the original)."""

    line: int
    judge: str
    canary: str


class Place(NamedTuple):
    """Where a dialogue stands in the file, and whose it is."""

    offset: int
    model: str
    session_id: str


def places(path: Path) -> Iterator[Place]:
    """The place of every dialogue of a file, in order."""
    with path.open("rb") as file:
        offset = 0
        for line in file:
            record = json.loads(line)
            yield Place(offset, str(record["model_name"]), str(record["session_id"]))
            offset += len(line)


class Sitting(NamedTuple):
    """What judges share whose scores may stand side by side: the dialogues, and how they are asked.

    ``digest`` stands for both; other dialogues, settings or samples are another sitting.
    """

    digest: str
    places: Sequence[Place]

    @classmethod
    def of(cls, dialogues: str, asked: Mapping[str, Any], places: Sequence[Place]) -> "Sitting":
        """The sitting of a file of dialogues (its hash) and the parameters of the question."""
        return cls(fingerprint([dialogues, dict(asked)])[:12], places)

    def key(self, task: Task, weights: str) -> Key:
        """The ledger's key of a judgement; another digest of the judge's weights is another key."""
        name = f"{self._head(weights)} {task.canary or ORIGINAL} {task.judge} {self.places[task.line].model}"
        return Key(name, task.line)

    def _head(self, weights: str) -> str:
        return f"{self.digest} {fingerprint(weights)[:12]}"

    def keys(self, ledger: Ledger, weights: Mapping[str, str]) -> dict[Task, Key]:
        """The finished judgements of every judge of this sitting, under one digest of its weights each.

        Taken are the weights given here; a judge that is not named counts with those that judged all
        dialogues, and is left out where there is no such digest, or more than one.
        """
        found: dict[tuple[str, str], dict[Task, Key]] = {}
        for key in sorted(ledger.finished()):
            if key.system.startswith(f"{self.digest} "):
                sitting, digest, canary, rest = key.system.split(" ", 3)
                spec = rest.removesuffix(f" {self.places[key.session].model}")
                task = Task(key.session, spec, "" if canary == ORIGINAL else canary)
                found.setdefault((spec, f"{sitting} {digest}"), {})[task] = key
        whole = [
            who for who, mine in found.items() if len({t for t in mine if not t.canary}) == len(self.places)
        ]
        chosen: dict[Task, Key] = {}
        for spec in dict.fromkeys(spec for spec, _ in whole):
            heads = [head for name, head in whole if name == spec]
            known = self._head(weights[spec]) if spec in weights else ""
            if known in heads or len(heads) == 1:
                chosen |= found[spec, known if known in heads else heads[0]]
        return chosen


def combined(ledger: Ledger, keys: Mapping[Task, Key], sitting: Sitting) -> Iterator[dict[str, Any]]:
    """One record a dialogue, canaries last: the scores of all judges, their means, and how many are missing.

    Neither the order in which judges were asked nor how often plays a part.
    """
    judges: dict[tuple[str, int], list[str]] = {}
    for line, spec, canary in sorted(keys, key=lambda task: task.judge):
        judges.setdefault((canary, line), []).append(spec)
    for canary, line in sorted(judges, key=lambda one: (bool(one[0]), one[1], one[0])):
        mine = [keys[Task(line, spec, canary)] for spec in judges[canary, line]]
        parts = [json.loads(body) for body in ledger.bodies(mine)]
        scores = [row for part in parts for row in part["scores"]]
        yield {
            "model": sitting.places[line].model, "session_id": sitting.places[line].session_id,
            "canary": canary, "judge": judge.means(scores), "scores": scores,
            "missing": sum(row["score"] is None for row in scores),
            **{name: parts[0][name] for name in ("trim", "rubric", "settings")},
        }  # fmt: skip
