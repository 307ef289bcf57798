"""The same questions with one lever set in different ways: what it does, in one table."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.realtalk import experiments, index, predictions, scoring, stages
from crs_lib.realtalk.config import RealTalkConfig

SHOWN = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "precision", "f1", "size")
LOST = ("lost at candidates", "lost at reranking", "lost at selection", "kept")


def table(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a value of the lever: means over questions, where gold ids end, narrative recall.

    Nothing is written. The test split is refused: levers are chosen on the train chats. Raises
    InputError for an unknown lever or value.
    """
    known = [f.name for f in fields(RealTalkConfig) if f.name not in ("run", "final", "force", "llm")]
    if lever not in known:
        raise InputError(f"lever {lever!r} is not known; expected one of {', '.join(known)}")
    return pd.DataFrame([_row(replace(config, **{lever: value}), lever, value) for value in values])


def _row(config: RealTalkConfig, lever: str, value: Any) -> dict[str, Any]:
    found = stages.chats(config)
    if experiments.is_test(found):
        experiments.refuse()
    told: list[dict[str, Any]] = []
    for chat in found:
        built = index.build(chat, predictions.choose_encoder(config.encoder))
        ranker = predictions.choose_ranker(config.ranker, built, teachers=config.teachers)
        told += predictions.predict(built, ranker, config.settings())
    rows = scoring.questions(told, found, config.reading)
    scoring.need_gold(rows, config.reading)
    story = scoring.narratives(told, found, stages.cases(config, found))
    return {
        lever: value,
        **scoring.means(rows, SHOWN).iloc[0].drop("questions").to_dict(),
        **{bucket: int(rows[bucket].sum()) for bucket in LOST},
        "density": float(rows["density"].mean()),
        "arc recall": float(story["global_recall"].mean()),
        "arc aligned": float(story["coverage_aligned"].mean()),
    }
