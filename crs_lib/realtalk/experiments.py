"""The log of experiments, and the test split, which is scored once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError
from crs_lib.realtalk import corpus
from crs_lib.realtalk.config import COMMAND, STUDY, TRADEOFF, RealTalkConfig
from crs_lib.realtalk.corpus import Chat

COLUMNS = ("experiment_id", "date", "train_recall", "test_recall", "config_changes")
FACTS = ("encoder", "ranker", "split", "repeated", "commit", "against", "tradeoff", "verdict")
MEASURES = (
    "n",
    "recall",
    "precision",
    "f1",
    "fuzzy_recall",
    "size",
    "r@5",
    "r@10",
    "r@20",
    "r@50",
    "mrr",
    "ndcg@10",
    "arc global_recall",
    "arc coverage_any",
    "arc coverage_aligned",
    "lost at candidates",
    "lost at reranking",
    "lost at selection",
    "density",
)
_ROUNDING = 1e-9
_NO_CHANGES = ("run", "against", "tradeoff")  # settings that are no change of an experiment


class _Evaluation(NamedTuple):
    """A finished evaluation: its run, when it ended, the commit, its settings, and what it counted."""

    run: str
    ended: str
    commit: str
    settings: Mapping[str, Any]
    counts: Mapping[str, Any]


def _evaluations() -> Iterator[_Evaluation]:
    """Every finished evaluation, by run name."""
    for path in sorted((paths.results() / STUDY).glob("*/manifest.json")):
        manifest = runs.manifest_at(path)
        entry = manifest.get("stages", {}).get("evaluate", {})
        if entry.get("status") == "finished":
            commit = str(manifest.get("code", {}).get("commit", ""))[:12]
            ended = entry.get("ended", "")
            yield _Evaluation(path.parent.name, ended, commit, entry["parameters"], entry["counts"])


def log() -> pd.DataFrame:
    """One row a finished evaluation, oldest first: the four thesis columns, then the measures.

    Everything is read off the runs' manifests, so the log cannot disagree with them. A recall stands under
    the split it was measured on and nowhere else (null there); ``config_changes`` names the levers that
    differ from the defaults, ``encoder`` and ``ranker`` what "auto" stood for. Choose by ``train_recall``,
    never by ``test_recall``.
    """
    evaluations = list(_evaluations())
    counts = {evaluation.run: evaluation.counts for evaluation in evaluations}
    rows = [_row(evaluation, counts) for evaluation in evaluations]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *FACTS, *MEASURES])
    return frame.sort_values(["date", "experiment_id"], kind="stable").reset_index(drop=True)


def _row(evaluation: _Evaluation, others: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A line of the log. ``others`` are the counts of all evaluations by run, to hold a trade-off against."""
    counts, settings = evaluation.counts, evaluation.settings
    split = settings["split"] if settings["data"] == "realtalk" else "other"
    against = str(settings.get("against", ""))
    declared = str(settings.get("tradeoff", ""))
    row = {name: counts.get(name) for name in MEASURES}
    row["experiment_id"] = evaluation.run
    row["date"] = evaluation.ended
    if split in (corpus.TRAIN, corpus.TEST):
        row[f"{split}_recall"] = counts["recall"]
    row["config_changes"] = _changes(settings)
    row["encoder"] = counts.get("encoder", "")
    row["ranker"] = counts.get("ranker", "")
    row["split"] = split
    row["repeated"] = bool(counts.get("repeated"))
    row["commit"] = evaluation.commit
    row["against"] = against
    row["tradeoff"] = declared
    row["verdict"] = tradeoff_verdict(declared, others.get(against, {}), counts)
    return row


def _changes(settings: Mapping[str, Any]) -> str:
    """Every setting that differs from the command's defaults, ``name=value``, or "defaults"."""
    usual = RealTalkConfig(**COMMAND).values()
    changes = []
    for name in sorted(settings.keys() & usual.keys()):
        if name not in _NO_CHANGES and settings[name] != tables.finite(usual[name]):
            changes.append(f"{name}={settings[name]}")
    return " ".join(changes) or "defaults"


def is_test(chats: Sequence[Chat]) -> bool:
    """Whether any of the chats belongs to the test split, whatever folder it was read from."""
    return any(corpus.split_of(chat) == corpus.TEST for chat in chats)


def check_test_split(config: RealTalkConfig) -> bool:
    """Whether this is a repeated scoring of the test split; RunError where it is not allowed.

    Without ``final`` the test split is not scored at all. With it, the same levers are scored once; a second
    time needs ``force`` and is marked. Other splits pass freely.
    """
    if config.data != "realtalk" or config.split == corpus.TRAIN:
        return False
    if not config.final:
        refuse_test_split()
    levers = tables.finite(config.levers())
    for run, _, _, settings, _ in _evaluations():
        used = {name: settings.get(name) for name in levers}
        if not settings.get("final") or used != levers:
            continue
        if config.force:
            return True
        wrong = f"the test split was already scored with these levers (run {run!r})"
        cure = "Score it again with force=true (--force) only if you must: it will be marked as repeated"
        raise RunError(f"{wrong}; the result is in its manifest. {cure}")
    return False


def refuse_test_split() -> NoReturn:
    """Say why the test split is not scored."""
    raise RunError(
        "chats 8 to 10 are the test split; scoring them needs final=true (--final), once, after all choices "
        "were made on the train split (split=train, --train-only)"
    )


def tradeoff_verdict(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Whether measures keep a trade-off such as ``f1 -0.01 for recall +0.02``.

    ``kept``, ``broken``, or empty where none is declared or a measure is missing.
    """
    match = TRADEOFF.fullmatch(text)
    if not match:
        return ""
    loss, gain = match["loss"], match["gain"]
    fall = before.get(loss, math.nan) - after.get(loss, math.nan)
    rise = after.get(gain, math.nan) - before.get(gain, math.nan)
    if math.isnan(fall) or math.isnan(rise):
        return ""
    within = fall <= float(match["most"]) + _ROUNDING and rise >= float(match["least"]) - _ROUNDING
    return "kept" if within else "broken"
