"""Scores of logged conversations: the gain of the films for the heard state, and how people take them.

The film part is the metric ``normalised_gain``, the one that ranks simulated systems; only the state is
heard instead of logged. Source: docs/validity.md, section 4. The halves are choices: nothing here is fitted
to labels.
"""

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue, Pair, Turn
from crs_lib.core.text import fold, words
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.metrics.base import HIGHER, Metric, declare
from crs_lib.validity import heard
from crs_lib.validity.reactions import reaction

_SOURCE = "docs/validity.md, section 4"
declare(Metric("heard_adaptation", "adaptation (heard)", "turn", 0, 1, HIGHER, _SOURCE))
declare(Metric("received_adaptation", "adaptation (received)", "turn", 0, 1, HIGHER, _SOURCE))
ON_PAPER, RECEIVED, REACTION = "heard_adaptation", "received_adaptation", "reaction"
HALF, ASKING, ANSWER_WORDS = 0.5, 0.75, 12
PARTS = ("normalised_gain", "topic_adaptation_score", "satisfaction", "novelty", "copying", "item_tas")
OTHERS = "follow_up"  # the stage in which a simulated user asks for other films
_ELICITS = re.compile(
    r"\b(what (kind|type|sort|genres?|movies?|films?|are you|do you)|which (genre|type|kind)"
    r"|do you (like|prefer|have|enjoy)|any (particular|specific)|preferences?|looking for|in the mood)\b"
)
_PARTS_OR_THANKS = re.compile(r"\b(thanks?|thank you|thx|bye|goodbye|good night|have a (good|great|nice))\b")
_CLOSES = re.compile(
    r"\b(welcome|bye|goodbye|enjoy|glad|(great|good|nice) day|good night|take care|no problem|anytime)\b"
)


class ReplyFeatures(NamedTuple):
    """What a reply does, judged by what came before it only.

    ``gain`` is the normalised gain of its films, NaN where no constraint is known; ``novel`` the share of
    them not named before. ``invited``: the person has asked for films, or was asked what is wanted.
    """

    n_films: int
    gain: float
    novel: float
    invited: bool
    elicits: bool
    elicited_before: bool
    answers: bool
    closes: bool
    repeats: bool


def adaptation(reply: ReplyFeatures, *, wishes_known: bool) -> float:
    """How far a reply follows what the person said, in [0, 1].

    With films (1 + G)/2 · (1 + N)/2: G the normalised gain for the state heard, at least 0, and ½ where no
    constraint is known; N the share not named before; half of that where the person has neither wished nor
    asked for anything. Without films ¾ for asking what is wanted while nothing is known (half of it the
    second time), ½ for answering a question about a film and for returning thanks or a goodbye, else 0. A
    reply repeated word for word is 0.
    """
    if reply.repeats:
        return 0.0
    if reply.n_films:
        gain = HALF if math.isnan(reply.gain) else max(0.0, reply.gain)
        return (1 + gain) / 2 * (1 + reply.novel) / 2 * (1.0 if wishes_known or reply.invited else HALF)
    if reply.elicits:
        return 0.0 if wishes_known else ASKING * (HALF if reply.elicited_before else 1.0)
    return HALF if reply.answers or reply.closes else 0.0


def received(on_paper: float, taken: float, n_films: int) -> float:
    """The mean of the score on paper and of how the person takes the films, in [0, 1].

    The score on paper alone where the reply names no film, or where the person gives no cue (``taken`` NaN).
    """
    return (on_paper + taken) / 2 if n_films and not math.isnan(taken) else on_paper


def of_dialogue(on_paper: Sequence[float], taken: Sequence[float]) -> float:
    """A whole dialogue, in [0, 1]: the mean of its replies on paper and of how the person took them.

    The replies' mean is quadratic, so that successes count more than wasted turns; a turn without a cue
    counts ½. NaN without replies.
    """
    if not len(on_paper):
        return math.nan
    paper = float(np.sqrt(np.mean(np.square(on_paper))))
    return (paper + float(np.mean([HALF if math.isnan(one) else one for one in taken]))) / 2


def elicits(text: str) -> bool:
    """Whether a text asks what the person wants."""
    return "?" in text and bool(_ELICITS.search(fold(text)))


def logged(dialogue: Dialogue, grounder: Grounder) -> Dialogue:
    """The dialogue with the log a simulator would have kept: constraints, unwanted values, films by id.

    What the log of a USER turn held already is replaced.
    """
    listener, turns = heard.Listener(grounder), list[Turn]()
    for place, turn in enumerate(dialogue.turns):
        if place % 2 == 0:
            state = listener.listen(turn.text)
            log = {
                "constraints": heard.values(grounder, state.constraints),
                "avoid": heard.values(grounder, state.avoid),
                "asks": not state.asks_about,
                "asks_about": state.asks_about,
                "requests": state.requests,
                "stage": "" if state.asks_about else OTHERS,
            }
            turns.append(replace(turn, meta={**turn.meta, "user_meta": log}))
        else:
            ids = [grounder.catalog.items[i].item_id for i in heard.films(grounder, turn.text)]
            turns.append(replace(turn, meta={**turn.meta, "rec_ids": ids}))
    return replace(dialogue, turns=tuple(turns), shift_events=())


class Scored(NamedTuple):
    """A conversation as it was read, and a row for every reply."""

    dialogue: Dialogue
    rows: list[dict[str, Any]]

    @property
    def overall(self) -> float:
        """The score of the whole dialogue (:func:`of_dialogue`), NaN without replies."""
        return of_dialogue([row[ON_PAPER] for row in self.rows], [row[REACTION] for row in self.rows])


def score(dialogues: Iterable[Dialogue], grounder: Grounder) -> Iterator[Scored]:
    """Every dialogue with its rows, one at a time: our scores, their parts, and other metrics.

    Memory stays flat. ``defined`` is 1 where a constraint is known; elsewhere the score is the declared
    fallback. Every reply has a row. Only ``reaction`` and ``received_adaptation`` look at what is said next.
    """
    waiting = deque[tuple[Dialogue, Dialogue]]()

    def heard_logs() -> Iterator[Dialogue]:
        for dialogue in dialogues:
            waiting.append((dialogue, logged(dialogue, grounder)))
            yield waiting[-1][1]

    for scores in score_all(heard_logs(), grounder, conventions.get("default")):
        dialogue, log = waiting.popleft()
        yield Scored(dialogue, _rows(log, scores.turns, grounder))


def _rows(
    dialogue: Dialogue, scored: Sequence[Mapping[str, Any]], grounder: Grounder
) -> list[dict[str, Any]]:
    before = _Before(any(elicits(str(text)) for text in dialogue.extra.get("opening", ())))
    rows = []
    for pair, metrics in zip(dialogue.pairs(), scored, strict=True):
        log = pair.user.user_meta
        known = bool(log["constraints"])
        reply = _reply(pair, metrics, before)
        following = dialogue.turns[2 * pair.turn : 2 * pair.turn + 1]
        taken = _reaction(following[0].text, grounder) if following else math.nan
        on_paper = adaptation(reply, wishes_known=known)
        rows.append(
            {
                "conv_id": dialogue.session_id,
                "system": dialogue.model_name,
                "turn": pair.turn,
                ON_PAPER: on_paper,
                RECEIVED: received(on_paper, taken, reply.n_films),
                REACTION: taken,
                "defined": int(known),
                "n_wishes": sum(map(len, log["constraints"].values())),
                "n_films": reply.n_films,
                "n_words": len(words(pair.system.text)),
                **{name: int(getattr(reply, name)) for name in _FLAGS},
                **{name: metrics[name] for name in PARTS},
            }
        )
    return rows


_FLAGS = ("invited", "elicits", "elicited_before", "answers", "closes", "repeats")


def _reaction(text: str, grounder: Grounder) -> float:
    return reaction(text, [(mention.start, mention.end) for mention in grounder.titles(text)])


class _Before:
    """What a conversation's earlier turns did."""

    def __init__(self, elicited: bool) -> None:
        self.elicited = elicited
        self.asked = False
        self.texts: set[str] = set()


def _reply(pair: Pair, metrics: Mapping[str, Any], before: _Before) -> ReplyFeatures:
    text, log = pair.system.text, pair.user.user_meta
    asks, said = elicits(text), fold(text)
    before.asked |= bool(log["requests"])
    thanks = bool(_PARTS_OR_THANKS.search(fold(pair.user.text))) and not log["requests"]
    found = ReplyFeatures(
        n_films=len(pair.system.meta["rec_ids"]),
        gain=metrics["normalised_gain"],
        novel=metrics["novelty"],
        invited=before.asked or before.elicited,
        elicits=asks,
        elicited_before=before.elicited,
        answers=bool(log["asks_about"]) and len(words(text)) >= ANSWER_WORDS,
        closes=thanks and bool(_CLOSES.search(said)),
        repeats=said in before.texts,
    )
    before.elicited |= asks
    before.texts.add(said)
    return found
