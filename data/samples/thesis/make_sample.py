"""Makes ``data/samples/thesis``: made-up conversations and judge scores in the form of the thesis's logs.

    python data/samples/thesis/make_sample.py [--out data/samples/thesis] [--seed 7]

Our simulated user talks with four control policies about the films of the sample catalogue. Each policy goes
by the name of a model that does not exist, so that tables, figures and tests look as those of real logs do.
The policies (``MODELS``) differ in ways that are known, so what the scores say of them can be checked.

The files hold the thesis's keys and no others; every tenth score of the scripted judge is off the scale or
empty, as it happens with real judges. Everything follows from the seed, byte for byte. CC0.
"""

import argparse
import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from crs_lib import judge, simulate
from crs_lib.core import tables

# The made-up model, and the control policy behind it.
MODELS = {"kea:2b": "slot_echo", "lark:7b": "amnesiac", "myna:7b": "sticky", "wren:13b": "tracker"}
SESSIONS, TURNS = 8, 16
USER_META = (
    "turn", "stage", "focus_field", "focus_value", "anchor_title", "constraints", "shift_event",
    "shift_event_obj",
)  # fmt: skip
EVENT = ("turn", "from_focus", "to_focus", "bridge_field", "bridge_value", "from_anchor", "to_anchor")
SYSTEM = ("constraints", "rec_titles")
CONSTRUCTS = ("proactiveness", "coherence", "personalization")


def log_record(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A conversation of ours with the keys of the thesis's logs, under a model's name."""
    turns = [_turn(turn) for turn in record["conversation"]]
    events = [_only(event, EVENT) for event in record["shift_events"]]
    return {
        "session_id": record["session_id"], "model_name": name, "true_genre": record["true_genre"],
        "conversation": turns, "shift_events": events,
    }  # fmt: skip


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    said = {"speaker": turn["speaker"], "text": turn["text"]}
    if turn["speaker"] == "SYSTEM":
        return said | _only(turn, SYSTEM)
    meta = _only(turn["user_meta"], USER_META)
    if event := meta.get("shift_event_obj"):
        meta["shift_event_obj"] = _only(event, EVENT)
    return said | {"user_meta": meta}


def _only(record: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}


def scores(run: str, policy: str) -> pd.DataFrame:
    """The scripted judge's scores of a policy's sessions, one row each, every tenth value spoilt in turn."""
    table = judge.score_table(run)
    wide = table[table["model"] == policy].pivot_table("score", "session_id", "construct")
    found = wide.sort_index()[list(CONSTRUCTS)].astype(int).astype(str)
    for place in range(len(MODELS) + len(policy) % 3, found.size, 10):
        row, column = divmod(place, len(CONSTRUCTS))
        found.iloc[row, column] = "7" if place % 4 else ""
    return found


def make(out: Path, seed: int) -> None:
    """Write ``logs/<model>.jsonl.gz`` and ``judge/<model>_judge.csv`` for each model."""
    config = simulate.SimulateConfig(
        run="sample-logs", systems=tuple(MODELS.values()), n_sessions=SESSIONS, n_turns=TURNS, seed=seed,
        voices="A",
    )  # fmt: skip
    simulate.simulate(config)
    judge.judge_run(config.run, ["template"], 1)
    records = [dialogue.to_json() for dialogue in simulate.iter_dialogues(config.run)]
    for folder in (out / "logs", out / "judge"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, policy in MODELS.items():
        stem = name.replace(":", "-")
        mine = [log_record(record, name) for record in records if record["model_name"] == policy]
        text = "".join(f"{tables.dumps(record)}\n" for record in mine)
        (out / "logs" / f"{stem}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        found = scores(config.run, policy)
        found.insert(0, "model", name)
        (out / "judge" / f"{stem}_judge.csv").write_text(found.to_csv(index=False, lineterminator="\n"))


def main() -> None:
    """Make the files in a results folder that goes away again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        os.environ["CRS_RESULTS"] = folder
        make(given.out, given.seed)


if __name__ == "__main__":
    main()
