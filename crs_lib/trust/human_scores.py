"""Scores of logged conversations with people: wishes carried from what they say, credit through films.

Source: docs/validity.md, section 4. The constants are halves by choice: nothing here is fitted to labels.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from crs_lib.core.dialogue import Dialogue, Pair, Turn
from crs_lib.core.text import fold, words
from crs_lib.evaluate.run import score_all
from crs_lib.grounding.grounder import Grounder
from crs_lib.metrics import conventions, grounded
from crs_lib.metrics.base import HIGHER, Metric, declare
from crs_lib.trust import heard
from crs_lib.trust import heard as human_words

declare(Metric("heard_adaptation", "adaptation (heard)", "turn", 0, 1, HIGHER, "docs/validity.md, section 4"))
NEUTRAL, ANSWER_WORDS = 0.5, 12
PARTS = (
    "topic_adaptation_score", "satisfaction", "satisfaction_corrected", "novelty", "copying", "item_tas"
)  # fmt: skip
_ELICITS = re.compile(
    r"\b(what (kind|type|sort|genres?|movies?|films?|are you|do you)|which (genre|type|kind)"
    r"|do you (like|prefer|have|enjoy)|any (particular|specific)|preferences?|looking for|in the mood)\b"
)


class ReplyFeatures(NamedTuple):
    """What a reply does, judged by what came before it only."""

    n_films: int
    met: float
    novel: float
    unwanted: float
    elicits: bool
    elicited_before: bool
    answers: bool
    repeats: bool


def adaptation(reply: ReplyFeatures, *, wishes_known: bool) -> float:
    """How far a reply follows what the person said, in [0, 1].

    With films (1 + H)/2 · (1 + N)/2 · (1 − A): H the share that meet a wish in force (½ where none is
    known), N the share not named before, A the share with an unwanted value. Without films 1 for asking
    what is wanted while nothing is known (½ the second time), ½ for answering a question about a film,
    else 0. A reply repeated word for word is 0.
    """
    if reply.repeats:
        return 0.0
    if reply.n_films:
        met = reply.met if wishes_known else NEUTRAL
        return (1 + met) / 2 * (1 + reply.novel) / 2 * (1 - reply.unwanted)
    if reply.elicits:
        return 0.0 if wishes_known else NEUTRAL if reply.elicited_before else 1.0
    return NEUTRAL if reply.answers else 0.0


def elicits(text: str) -> bool:
    """Whether a text asks what the person wants."""
    return "?" in text and bool(_ELICITS.search(fold(text)))


def logged(dialogue: Dialogue, grounder: Grounder) -> Dialogue:
    """The dialogue with the log a simulator would have kept: wishes, unwanted values, films by id."""
    listener, turns = heard.Listener(grounder), list[Turn]()
    for place, turn in enumerate(dialogue.turns):
        if place % 2 == 0:
            state = listener.listen(turn.text)
            log = {
                "constraints": _values(grounder, state.constraints),
                "avoid": _values(grounder, state.avoid),
                "asks": not state.asks_about,
                "asks_about": state.asks_about,
            }
            turns.append(replace(turn, meta={**turn.meta, "user_meta": log}))
        else:
            ids = [grounder.catalog.items[i].item_id for i in heard.films(grounder, turn.text)]
            turns.append(replace(turn, meta={**turn.meta, "rec_ids": ids}))
    return replace(dialogue, turns=tuple(turns))


def _values(grounder: Grounder, codes: Iterable[int]) -> dict[str, list[str]]:
    terms, out = grounder.catalog.vocabulary, dict[str, list[str]]()
    for code in sorted(codes):
        out.setdefault(terms.field[code], []).append(terms.value[code])
    return out


def score(dialogues: Iterable[Dialogue], grounder: Grounder) -> Iterator[list[dict[str, Any]]]:
    """The turn rows of each dialogue: the score ``heard_adaptation``, its parts, and our other metrics.

    ``defined`` is 1 where a wish is known; elsewhere the score is the declared fallback. Every reply has
    a row; nothing in a row looks at what is said later.
    """
    kept = [logged(dialogue, grounder) for dialogue in dialogues]
    for dialogue, scores in zip(kept, score_all(kept, grounder, conventions.get("default")), strict=True):
        yield _rows(dialogue, scores.turns, grounder)


def _rows(
    dialogue: Dialogue, scored: Sequence[Mapping[str, Any]], grounder: Grounder
) -> list[dict[str, Any]]:
    before = _Before(any(elicits(str(text)) for text in dialogue.extra.get("opening", ())))
    rows = []
    for pair, metrics in zip(dialogue.pairs(), scored, strict=True):
        wishes = _codes(grounder, pair.user.user_meta["constraints"])
        reply = _reply(pair, wishes, before, grounder)
        rows.append(
            {
                "conv_id": dialogue.session_id,
                "system": dialogue.model_name,
                "turn": pair.turn,
                "heard_adaptation": adaptation(reply, wishes_known=bool(wishes)),
                "defined": int(bool(wishes)),
                "n_wishes": len(wishes),
                "n_films": reply.n_films,
                "n_words": len(words(pair.system.text)),
                "user_words": len(words(pair.user.text)),
                "met": reply.met,
                "unwanted": reply.unwanted,
                **{name: int(getattr(reply, name)) for name in _FLAGS},
                "asks_about": int(pair.user.user_meta["asks_about"]),
                "question": int("?" in pair.system.text),
                **human_words.cues(pair.user.text, pair.system.text),
                **{name: metrics[name] for name in PARTS},
            }
        )
    return rows


_FLAGS = ("elicits", "elicited_before", "answers", "repeats")


class _Before:
    """What a conversation's earlier replies did."""

    def __init__(self, elicited: bool) -> None:
        self.elicited = elicited
        self.films: set[int] = set()
        self.texts: set[str] = set()


def _reply(pair: Pair, wishes: frozenset[int], before: _Before, grounder: Grounder) -> ReplyFeatures:
    catalog, text = grounder.catalog, pair.system.text
    items = [catalog.id_index[i] for i in pair.system.meta["rec_ids"]]
    facts = [catalog.fact_sets[item] for item in items]
    avoid = _codes(grounder, pair.user.user_meta["avoid"])
    asks, said = elicits(text), fold(text)
    answered = pair.user.user_meta["asks_about"] and len(words(text)) >= ANSWER_WORDS
    found = ReplyFeatures(
        n_films=len(items),
        met=_share(facts, wishes),
        novel=grounded.novelty(items, before.films) if items else math.nan,
        unwanted=_share(facts, avoid),
        elicits=asks,
        elicited_before=before.elicited,
        answers=bool(answered),
        repeats=said in before.texts,
    )
    before.elicited |= asks
    before.films |= set(items)
    before.texts.add(said)
    return found


def _share(facts: Sequence[frozenset[int]], concepts: frozenset[int]) -> float:
    """Share of the films that have one of these concepts, in [0, 1]; 0 without films."""
    return sum(bool(one & concepts) for one in facts) / len(facts) if facts else 0.0


def _codes(grounder: Grounder, values: Mapping[str, Sequence[str]]) -> frozenset[int]:
    found = (grounder.catalog.code(name, value) for name, several in values.items() for value in several)
    return frozenset(code for code in found if code is not None)
