"""Canaries: dialogues spoilt on purpose, which a usable judge must score below their originals."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from crs_lib.core import rng
from crs_lib.core.dialogue import SYSTEM, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry


class Canary(Protocol):
    """Spoils a dialogue: new texts of its SYSTEM turns, or None where this dialogue cannot be spoilt so."""

    def __call__(
        self, replies: Sequence[Turn], titles: Sequence[str], draw: np.random.Generator
    ) -> list[str] | None: ...


CANARIES: Registry[list[str] | None] = Registry("canary")


@CANARIES.register("shuffled", aimed_at="coherence")
def shuffled(replies: Sequence[Turn], titles: Sequence[str], draw: np.random.Generator) -> list[str] | None:
    """Replies stand under other turns than their own; needs two different replies."""
    texts = [reply.text for reply in replies]
    if len(set(texts)) < 2:
        return None
    order = list(draw.permutation(len(texts)))
    moved = [texts[order[(order.index(i) + 1) % len(order)]] for i in range(len(texts))]  # one cycle
    return moved if moved != texts else None


@CANARIES.register("wrong_movies", aimed_at="personalization")
def wrong_movies(
    replies: Sequence[Turn], titles: Sequence[str], draw: np.random.Generator
) -> list[str] | None:
    """Every recommended title is another one, drawn from the catalogue; needs replies that name titles."""
    named = {str(title) for reply in replies for title in reply.meta.get("rec_titles") or () if title}
    others = [title for title in titles if title not in named]
    if not named or not others:
        return None
    other = {title.lower(): others[int(draw.integers(len(others)))] for title in sorted(named)}
    longest = sorted(named, key=lambda title: (-len(title), title))
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)", re.IGNORECASE)
    spoilt = [pattern.sub(lambda m: other.get(m[0].lower(), m[0]), reply.text) for reply in replies]
    return spoilt if spoilt != [reply.text for reply in replies] else None


@CANARIES.register("sticky", aimed_at="personalization")
def sticky(replies: Sequence[Turn], titles: Sequence[str], draw: np.random.Generator) -> list[str] | None:
    """The first reply is given at every turn, whatever was asked; needs two different replies."""
    texts = [reply.text for reply in replies]
    return [texts[0]] * len(texts) if len(set(texts)) > 1 else None


def spoil(dialogue: Dialogue, name: str, titles: Sequence[str], seed: int) -> Dialogue | None:
    """The dialogue as the canary ``name`` has it (key ``canary`` in its record); None where it cannot.

    ``titles`` are the catalogue's. The same dialogue and seed give the same canary.
    """
    entry = CANARIES.get(name)
    draw = rng.stream(seed, "canary", name, dialogue.session_id, dialogue.model_name)
    replies = [turn for turn in dialogue.turns if turn.speaker == SYSTEM]
    texts = entry.make(replies, titles, draw)
    if texts is None:
        return None
    left = iter(texts)
    turns = tuple(
        replace(turn, text=next(left), marks=()) if turn.speaker == SYSTEM else turn
        for turn in dialogue.turns
    )
    return replace(dialogue, turns=turns, extra={**dialogue.extra, "canary": name})


_NEEDED = ("model", "session_id", "canary", "judge", "construct", "score")


def canary_report(scores: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """How often a judge scored a canary below its original, in [0, 1]; a row for judge, canary, construct.

    A pair is one dialogue and its canary, each the mean of the judge's samples; a tie is not below.
    ``low`` and ``high`` bound the share (Clopper and Pearson); ``usable`` is true where ``low`` is above
    one half, and null for constructs that the canary is not ``aimed`` at. ``n_missing`` counts dialogues
    of which one side has no score. Empty where there are no canaries.

    ``scores`` is a :func:`crs_lib.judge.judge.score_table` of originals and canaries.
    """
    from scipy.stats import binomtest

    from crs_lib.stats.frames import check_level

    check_level("confidence", confidence)
    missing = [column for column in _NEEDED if column not in scores.columns]
    if missing:
        raise InputError(f"judge scores: columns {missing} are missing; make them with score_table")
    by = ["model", "session_id", "judge", "construct"]
    means = scores.groupby([*by, "canary"], sort=True)["score"].mean()
    means = means.unstack("canary")  # noqa: PD010 -- a pivot table would drop dialogues without a score
    rows: list[Mapping[str, Any]] = []
    for name in [column for column in means.columns if column != ""]:
        for (judge, construct), part in means.groupby(["judge", "construct"], sort=True):
            asked = part[scores_asked(scores, name, part.index)]
            both = asked[[name, ""]].dropna()
            below = int((both[name] < both[""]).sum())
            aimed = CANARIES.get(str(name)).facts["aimed_at"] == construct
            row = {"judge": judge, "canary": name, "construct": construct, "aimed": aimed, "n": len(both)}
            row |= {"n_missing": len(asked) - len(both), "below": below}
            row |= {"tied": int((both[name] == both[""]).sum())}
            if len(both):
                share = binomtest(below, len(both)).proportion_ci(confidence, method="exact")
                row |= {"share": below / len(both), "low": float(share.low), "high": float(share.high)}
            row["usable"] = bool(row.get("low", 0.0) > 0.5) if aimed else None
            rows.append(row)
    return pd.DataFrame(rows, columns=_REPORT)


def scores_asked(scores: pd.DataFrame, canary: str, index: pd.MultiIndex) -> list[bool]:
    """Which dialogues have this canary at all, scored or not."""
    asked = scores[scores["canary"] == canary]
    keys = set(zip(asked["model"], asked["session_id"], strict=True))
    return [(key[0], key[1]) in keys for key in index]


_REPORT = [
    "judge", "canary", "construct", "aimed", "share", "low", "high", "below", "tied", "n", "n_missing",
    "usable",
]  # fmt: skip
