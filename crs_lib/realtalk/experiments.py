"""The log of experiments, read off the manifests, and the guard of the test split."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from crs_lib.core import outside, paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.realtalk import corpus
from crs_lib.realtalk.config import STUDY, RealTalkConfig
from crs_lib.realtalk.corpus import Chat

COLUMNS = ("experiment_id", "date", "train_recall", "test_recall", "config_changes")
MEASURES = (
    "n", "recall", "precision", "f1", "fuzzy_recall", "size", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10",
    "arc global_recall", "arc coverage_any", "arc coverage_aligned",
    "lost at candidates", "lost at reranking", "lost at selection", "density",
)  # fmt: skip
_FREE = ("split", "final", "force", "engine")


def log() -> pd.DataFrame:
    """One row a finished evaluation, oldest first: the four thesis columns, then the measures.

    Everything is read off the runs' manifests, so the log cannot disagree with them. A recall stands under
    the split it was measured on and nowhere else (null there); ``config_changes`` names the levers that
    differ from the defaults. Choose by ``train_recall``, never by ``test_recall``.
    """
    rows = [_row(run, entry, manifest) for run, entry, manifest in _evaluations()]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "split", "repeated", "commit", *MEASURES])
    return frame.sort_values(["date", "experiment_id"], kind="stable").reset_index(drop=True)


def write_log() -> Path:
    """Write ``results/realtalk/experiments.csv`` anew from the manifests; returns its path."""
    path = paths.results() / STUDY / "experiments.csv"
    tables.write_csv(path, log())
    return path


def best(frame: pd.DataFrame) -> pd.Series:
    """The row with the highest train recall, the earliest of equals; RunError where no run has one."""
    known = frame[frame["train_recall"].notna()]
    if known.empty:
        raise RunError("no evaluation on the train split yet; run 22 and 23 with data=realtalk split=train")
    return known.loc[known["train_recall"].idxmax()]


def _row(run: str, entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    counts, asked = entry["counts"], entry["parameters"]
    split = asked["split"] if asked["data"] == "realtalk" else "other"
    return {
        "experiment_id": run,
        "date": entry.get("ended", ""),
        "train_recall": counts["recall"] if split == corpus.TRAIN else None,
        "test_recall": counts["recall"] if split == corpus.TEST else None,
        "config_changes": changes(asked),
        "split": split,
        "repeated": bool(counts.get("repeated")),
        "commit": str(manifest.get("code", {}).get("commit", ""))[:12],
        **{name: counts.get(name) for name in MEASURES},
    }


def changes(asked: Mapping[str, Any]) -> str:
    """The levers that differ from the defaults, ``name=value`` joined by blanks, else "defaults"."""
    usual = RealTalkConfig()
    found = [
        f"{name}={asked[name]}"
        for name in sorted(asked)
        if name not in _FREE and hasattr(usual, name) and asked[name] != getattr(usual, name)
    ]
    return " ".join(found) or "defaults"


def is_test(chats: Sequence[Chat]) -> bool:
    """Whether any of the chats belongs to the test split, whatever folder it was read from."""
    return any(corpus.split_of(chat) == corpus.TEST for chat in chats)


def check_test_split(data: str, split: str, levers: Mapping[str, Any], final: bool, force: bool) -> bool:
    """Whether this is a repeated scoring of the test split; RunError where it is not allowed.

    Without ``final`` the test split is not scored at all. With it, the same levers are scored once; a
    second time needs ``force`` and is marked. Other splits pass freely.
    """
    if data != "realtalk" or split == corpus.TRAIN:
        return False
    if not final:
        refuse()
    done = [
        run for run, entry, _ in _evaluations() if entry["parameters"].get("final") and _same(entry, levers)
    ]
    if done and not force:
        raise RunError(
            f"the test split was already scored with these levers (run {done[0]!r}); the result is in its "
            "manifest. Score it again with force=true only if you must: it will be marked as repeated"
        )
    return bool(done)


def refuse() -> NoReturn:
    """Say why the test split is not scored."""
    raise RunError(
        "chats 8 to 10 are the test split; scoring them needs final=true, once, after all choices were made "
        "on the train split (split=train)"
    )


def _same(entry: Mapping[str, Any], levers: Mapping[str, Any]) -> bool:
    asked = {name: entry["parameters"].get(name) for name in levers}
    return digest(asked) == digest(levers)


def digest(levers: Mapping[str, Any]) -> str:
    """Hex SHA-256 of a configuration, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(tables.finite(dict(levers)), sort_keys=True).encode()).hexdigest()


def _evaluations() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Run, stage entry and manifest of every finished evaluation, by run name."""
    found = []
    for path in sorted((paths.results() / STUDY).glob("*/manifest.json")):
        try:
            manifest = outside.read_object(path)
        except InputError as error:
            raise RunError(f"{paths.shown(path)} is damaged ({error}); restore it or remove it") from error
        entry = manifest.get("stages", {}).get("evaluate", {})
        if entry.get("status") == "finished":
            found.append((path.parent.name, entry, manifest))
    return found
