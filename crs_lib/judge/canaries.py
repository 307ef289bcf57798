"""Canaries: dialogues spoilt on purpose, which a usable judge must score below their originals."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from crs_lib.core import rng
from crs_lib.core.dialogue import SYSTEM, Dialogue, Turn
from crs_lib.core.registry import Registry

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
