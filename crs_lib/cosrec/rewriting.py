"""Stand-alone queries: a user turn rewritten so that it makes sense without its conversation.

Heuristics rewrite what the user said; ``canonical`` and ``variants`` take what annotators wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec.records import Intent, Partition
from crs_lib.metrics.rewriting import SENTENCE, bleu
from crs_lib.stats import Design, cluster_bootstrap

_SHOWN_WITH_INTERVAL = "rougeL"


@cache
def _filler() -> frozenset[str]:
    return frozenset(words(prompts.lists("cosrec/template")["filler"]))


def content_words(text: str) -> list[str]:
    """The folded words of a text that are no filler, in order."""
    return [word for word in words(text) if word not in _filler()]


def _last_turn(turns: Sequence[str]) -> list[str]:
    return [turns[-1]]


def _content_words(turns: Sequence[str]) -> list[str]:
    return content_words(turns[-1])


def _first_and_last(turns: Sequence[str]) -> list[str]:
    """The content words of the opening request, then those that the turn adds."""
    opening = content_words(turns[0])
    return opening + [word for word in content_words(turns[-1]) if word not in opening]


def _all_turns(turns: Sequence[str]) -> list[str]:
    """The content words of all turns, each once, as they first came."""
    return list(dict.fromkeys(content_words(" ".join(turns))))


# What the user said so far -> the words of a query.
HEURISTICS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "last turn": _last_turn,
    "content words": _content_words,
    "first and last": _first_and_last,
    "all turns": _all_turns,
}
CANONICAL = "canonical"
VARIANTS = "variants"
REWRITERS = (*HEURISTICS, CANONICAL, VARIANTS)  # the last two take what annotators wrote


def _rewrite(name: str, turns: Sequence[str]) -> str:
    """One rewrite by a heuristic; the turn as it is where no word is left."""
    return " ".join(HEURISTICS[name](turns)) or turns[-1]


def stand_alone(name: str, turns: Sequence[str], intent: Intent | None) -> list[str]:
    """The stand-alone queries of a need by a rewriter: one, or by ``variants`` all formulations of the
    intent, the canonical one first. Raises InputError where ``canonical`` and ``variants`` get no intent.
    """
    if name in HEURISTICS:
        return [_rewrite(name, turns)]
    if intent is None:
        wrong = f"rewriter {name!r} takes the formulations of intents, and a topic has none"
        raise InputError(f"{wrong}; add intents.jsonl, or name one of {', '.join(HEURISTICS)}")
    if name == CANONICAL:
        return [intent.canonical]
    return intent.formulations


def queries(partition: Partition, rewriters: Sequence[str]) -> pd.DataFrame:
    """One row a user turn and rewriter: conversation, turn, rewriter, query, its words. What annotators wrote
    is there for turns with an intent, that of the first intent.
    """
    first: dict[tuple[str, int], Intent] = {}
    for intent in partition.all_intents():
        first.setdefault((intent.conversation, intent.turn), intent)
    rows = []
    for talk, turn in partition.user_turns():
        for rewriter in rewriters:
            if rewriter in HEURISTICS or (talk.id, turn) in first:
                query = stand_alone(rewriter, talk.said(turn), first.get((talk.id, turn)))[0]
                rows.append((talk.id, turn, rewriter, query, len(query.split())))
    return pd.DataFrame(rows, columns=["conversation", "turn", "rewriter", "query", "words"])


def _heuristic_rewrites(partition: Partition) -> dict[str, dict[str, str]]:
    """Rewrites by heuristic and intent id, for every curated intent."""
    rewrites: dict[str, dict[str, str]] = {name: {} for name in HEURISTICS}
    for intent in partition.all_intents():
        turns = partition.conversations[intent.conversation].said(intent.turn)
        for name, texts in rewrites.items():
            texts[intent.id] = _rewrite(name, turns)
    return rewrites


_PAIR = ["conversation", "text", "canonical", "variants"]  # a candidate beside its references


def score_rewrites(
    partition: Partition, rewrites: Mapping[str, Mapping[str, str]] | None = None, **draws: Any
) -> pd.DataFrame:
    """ROUGE-1/2/L, chrF and BLEU in [0, 1] of rewrites by system (by default the heuristics) and intent id,
    and of ``one annotator``; one row a system and kind of reference.
    ``canonical``: against the longest variant; ``any variant``: against the closest of all. An intent without
    a rewrite counts as an empty one. ``low`` and ``high`` are the 95 % interval of ROUGE-L over
    conversations.
    """
    rows: list[dict[str, Any]] = []
    if rewrites is None:
        rewrites = _heuristic_rewrites(partition)
    for name, texts in rewrites.items():
        pairs = []
        for intent in partition.all_intents():
            text = texts.get(intent.id, "")
            pairs.append((intent.conversation, text, intent.canonical, intent.variants))
        rows += _scored(name, pd.DataFrame(pairs, columns=_PAIR), **draws)
    rows += _human_rewrites(partition, **draws)
    return pd.DataFrame(rows)


def _human_rewrites(partition: Partition, **draws: Any) -> list[dict[str, Any]]:
    """The level that people reach: every variant that is not the canonical one, held against the others.
    Against the canonical variant, and against all variants but itself; intents with one variant only, and
    exact copies of the canonical one, are left out. Columns as those of :func:`score_rewrites`.
    """
    pairs = []
    for intent in partition.all_intents():
        variants = intent.variants
        for position, variant in enumerate(variants):
            if len(variants) > 1 and variant != intent.canonical:
                others = variants[:position] + variants[position + 1 :]
                pairs.append((intent.conversation, variant, intent.canonical, others))
    return _scored("one annotator", pd.DataFrame(pairs, columns=_PAIR), **draws)


def _scored(name: str, pairs: pd.DataFrame, **draws: Any) -> list[dict[str, Any]]:
    """A row for each kind of reference."""
    canonical = pairs["canonical"].map(lambda text: [text])
    return [
        _row(name, "canonical", pairs, list(canonical), **draws),
        _row(name, "any variant", pairs, list(pairs["variants"]), **draws),
    ]


def _row(
    name: str, kind: str, pairs: pd.DataFrame, references: Sequence[Sequence[str]], **draws: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {"system": name, "reference": kind}
    if pairs.empty:
        row.update(dict.fromkeys([*SENTENCE, "BLEU"], float("nan")), n=0)
        return row
    texts = list(pairs["text"])
    for measure, function in SENTENCE.items():
        scores = list(map(function, texts, references))
        row[measure] = float(np.mean(scores))
        if measure == _SHOWN_WITH_INTERVAL:
            table = pairs.assign(system=name, score=scores)
            design = Design(scenario="conversation", value="score", **draws)
            interval = cluster_bootstrap(table, design).iloc[0]
            row["low"] = float(interval["low"])
            row["high"] = float(interval["high"])
    row["BLEU"] = bleu(texts, references)
    row["n"] = len(pairs)
    return row
