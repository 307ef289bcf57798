"""Scores of logged conversations, and how far they agree with the ratings that people gave. The state is
heard, the film part of a score is ``normalised_gain``, the other half is how people take the films; nothing
is fitted to labels. Source: docs/validity.md, section 4.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, tee
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import USER, Dialogue, Pair, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.metrics.base import HIGHER, Metric, declare
from crs_lib.metrics.records import mean_defined
from crs_lib.stats.effects import correlation, partial_spearman, spearman
from crs_lib.validity import heard
from crs_lib.validity.heard import cue

Floats = NDArray[np.float64]
_Rows = Sequence[Mapping[str, Any]]
_SOURCE = "docs/validity.md, section 4"
ON_PAPER, RECEIVED, REACTION = "heard_relevance", "received_relevance", "reaction"
declare(
    Metric(ON_PAPER, "relevance (heard)", "turn", 0, 1, HIGHER, _SOURCE),
    Metric(RECEIVED, "relevance (received)", "turn", 0, 1, HIGHER, _SOURCE),
)
RATING, INTEREST, OVERALL = "relevance", "interestingness", "dialogue_overall"
NEXT = "satisfaction_next"  # the rating of what the person says after a reply (USS)
WHOLE = "dialogue_satisfaction"  # the score of a whole dialogue, the same in each of its rows
BASELINES = ("n_words", "n_films")
_PARTS = ("normalised_gain", "satisfaction", "item_tas", "topic_adaptation_score")
AT_REVISION = ("uptake", "release")
SHOWN = (RECEIVED, ON_PAPER, REACTION, *_PARTS)
_HALF, _ASKING, _ANSWER_WORDS = 0.5, 0.75, 12
_EARLY, _LATE = 3, 2  # replies that efficiency looks at first, reactions that tell how a conversation ends
_WEARING, _QUESTION = 0.9, 0.25  # interest left from a reply to the next, and what a question adds
_OTHERS = "follow_up"  # the stage in which a simulated user asks for other films


def _on_paper(
    wishes_known: bool, n_films: int = 0, gain: float = math.nan, novel: float = math.nan, *,
    invited: bool = True, elicits: bool = False, elicited_before: bool = False, answers: bool = False,
    closes: bool = False, repeats: bool = False,
) -> float:  # fmt: skip
    """How far a reply follows what the person said, in [0, 1]. With films (1 + G)/2 · (1 + N)/2: G the
    normalised gain for the state heard, at least 0 (½ where no constraint is known), N the share not named
    before; half of that where nothing was wished or asked for. Without films ¾ for asking what is wanted
    while nothing is known (half the second time), ½ for answering a question about a film or returning
    thanks, else 0. A reply repeated word for word is 0.
    """
    if repeats:
        return 0.0
    if n_films:
        gain = _HALF if math.isnan(gain) else max(0.0, gain)
        return (1 + gain) / 2 * (1 + novel) / 2 * (1.0 if wishes_known or invited else _HALF)
    if elicits:
        return 0.0 if wishes_known else _ASKING * (_HALF if elicited_before else 1.0)
    return _HALF if answers or closes else 0.0


def _received(on_paper: float, taken: float, n_films: int) -> float:
    """The mean of score on paper and of how the person takes the films, in [0, 1]; the former if alone."""
    return (on_paper + taken) / 2 if n_films and not math.isnan(taken) else on_paper


def _elicits(text: str) -> bool:
    """Whether a text asks what the person wants."""
    return "?" in text and bool(cue("elicits").search(fold(text)))


class Told(NamedTuple):
    """Earlier preferences that readers of a revision say the person keeps, and those dropped (codes)."""

    kept: frozenset[int]
    dropped: frozenset[int]


def logged(dialogue: Dialogue, grounder: Grounder, told: Mapping[int, Told] | None = None) -> Dialogue:
    """The dialogue with the log a simulator would have kept; ``told`` corrects turns (from 1)."""
    listener, turns, states = heard.Listener(grounder), list[Turn](), list[Any]()
    for turn in dialogue.turns:
        meta = dict(turn.meta)
        if turn.speaker == USER:
            state = listener.listen(turn.text)
            if found := (told or {}).get(len(states) + 1):
                state = listener.correct(state, found.kept, found.dropped)
            states.append((state.constraints, state.avoid))
            about = state.asks_about
            log = {"asks": not about, "asks_about": about, "requests": state.requests,
                   "stage": "" if about else _OTHERS}  # fmt: skip
            meta["user_meta"] = log | state.as_logged(grounder)
        else:
            meta["rec_ids"] = [grounder.catalog.items[i].item_id for i in heard.films(grounder, turn.text)]
        turns.append(replace(turn, meta=meta))
    changed = [{"turn": n} for n, (old, new) in enumerate(pairwise(states), start=2) if old != new]
    return replace(dialogue, turns=tuple(turns), shift_events=tuple(changed))


class _Scored(NamedTuple):
    """A conversation as it was read, and a row for every reply."""

    dialogue: Dialogue
    rows: list[dict[str, Any]]

    @property
    def overall(self) -> float:
        """The score of the whole dialogue (:func:`_whole`), NaN without replies."""
        return _whole(self.rows)

    @property
    def rated(self) -> list[dict[str, Any]]:
        """The rows with human ratings, NaN where there is none, the dialogue's, and what every rule gives."""
        given = annotations(self.dialogue, "dial_level_aggregated")
        whole = {WHOLE: self.overall} | {name: _number(given.get(name)) for name in OF_DIALOGUE}
        whole |= {name: of(self.rows) for name, of in DIALOGUE_RULES.items() if self.rows}
        pairs = zip(self.rows, self.dialogue.pairs(), strict=True)
        return [
            row | _ratings(self.dialogue, pair) | whole | {name: of(row) for name, of in REPLY_RULES.items()}
            for row, pair in pairs
        ]

    @property
    def entry(self) -> dict[str, Any]:
        """The scores as a FACE run file has them: seven aspects, for every system utterance and the whole. An
        utterance before the person spoke gets ¾ where it asks what is wanted, else 0; parts of a merged reply
        share its score; a system that never answers gets 0. ``turn_ind`` is the log's own, else the place.
        """
        opening = [_ASKING * _elicits(text) for text in _opening(self.dialogue)]
        values = [(i, dict.fromkeys(OF_REPLY, value)) for i, value in enumerate(opening)]
        place = len(values)
        for pair, row in zip(self.dialogue.pairs(), self.rows, strict=True):
            place += len(parts(pair.user))
            said = parts(pair.system)
            found = {name: of(row) for name, of in OF_REPLY.items()}
            values += [(int(part.get("turn_ind", place + i)), found) for i, part in enumerate(said)]
            place += len(said)
        turns = [{"turn_ind": i, "turn_level_pred": _rounded(found)} for i, found in values]
        whole = {name: of(self.rows) if self.rows else 0.0 for name, of in OF_DIALOGUE.items()}
        return {"conv_id": self.dialogue.session_id, "turns": turns, "dial_level_pred": _rounded(whole)}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in values.items()}


def _taken(rows: _Rows) -> float:
    """How the person takes the replies, in [0, 1]; ½ for one without a cue."""
    return float(np.mean([_HALF if math.isnan(row[REACTION]) else row[REACTION] for row in rows]))


def _whole(rows: _Rows) -> float:
    """A whole dialogue, in [0, 1]: the quadratic mean of its replies on paper, and how they are taken."""
    if not rows:
        return math.nan
    return (math.sqrt(np.mean([row[ON_PAPER] ** 2 for row in rows])) + _taken(rows)) / 2


def _mean(rows: _Rows) -> float:
    """The mean of the replies as received."""
    return float(np.mean([row[RECEIVED] for row in rows]))


# The candidates for an aspect, and the aspects; chosen as docs/revisions.md says, nothing is fitted.
REPLY_RULES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "received": lambda row: float(row[RECEIVED]),
    "on paper": lambda row: float(row[ON_PAPER]),
    # as received, more where it asks something, less from reply to reply as interest wears off
    "engaging": lambda row: float(
        (row[RECEIVED] + _QUESTION * row["question"]) * _WEARING ** (row["turn"] - 1)
    ),
}
DIALOGUE_RULES: dict[str, Callable[[_Rows], float]] = {
    "whole": _whole, "mean": _mean, "mean and end": lambda rows: (_mean(rows) + _taken(rows[-_LATE:])) / 2,
    "whole and start": lambda rows: (_whole(rows) + _mean(rows[:_EARLY])) / 2,
}  # fmt: skip
CHOSEN = {
    RATING: "received", INTEREST: "engaging", "understanding": "whole", "task_completion": "mean and end",
    "interest_arousal": "whole", "efficiency": "whole and start", OVERALL: "whole",
}  # fmt: skip
OF_REPLY = {name: REPLY_RULES[rule] for name, rule in CHOSEN.items() if rule in REPLY_RULES}
OF_DIALOGUE = {name: DIALOGUE_RULES[rule] for name, rule in CHOSEN.items() if rule in DIALOGUE_RULES}


def _opening(dialogue: Dialogue) -> list[str]:
    """The system's utterances before the person spoke."""
    return [str(text) for text in dialogue.extra.get("opening", ())]


def parts(turn: Turn) -> Sequence[Mapping[str, Any]]:
    """The logs of the utterances that a turn was merged of; often one."""
    found: Sequence[Mapping[str, Any]] = turn.meta.get("merged") or [turn.meta]
    return found


def _ratings(dialogue: Dialogue, pair: Pair) -> dict[str, float]:
    """The ratings of a reply, NaN where there is none; of merged utterances the mean of their parts."""
    after = [part for turn in dialogue.turns[2 * pair.turn : 2 * pair.turn + 1] for part in parts(turn)]
    asked = {name: (parts(pair.system), name) for name in OF_REPLY} | {NEXT: (after, "satisfaction")}
    return {
        name: mean_defined([_number((part.get("turn_level_aggregated") or {}).get(key)) for part in said])
        for name, (said, key) in asked.items()
    }


def annotations(dialogue: Dialogue, name: str) -> Mapping[str, Any]:
    """A part of what a conversation's log says that people or judges gave; empty where there is none."""
    return (dialogue.extra.get("annotations") or {}).get(name) or {}


def _number(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(str(value)) if usable else math.nan


def score(
    dialogues: Iterable[Dialogue], grounder: Grounder, told: Mapping[str, Mapping[int, Told]] | None = None
) -> Iterator[_Scored]:
    """Every dialogue with its rows, one at a time, a row a reply: our scores, their parts, and other metrics.
    ``defined``: 1 where a constraint is known, else the score is the fallback. ``told``: :func:`logged`.
    """
    given, heard_from = tee(dialogues)
    logs, scored = tee(logged(one, grounder, (told or {}).get(one.session_id)) for one in heard_from)
    scores = score_all(scored, grounder, conventions.get("default"))
    for dialogue, log, found in zip(given, logs, scores, strict=True):
        yield _Scored(dialogue, _rows(log, found.turns, grounder))


def _rows(dialogue: Dialogue, scored: _Rows, grounder: Grounder) -> list[dict[str, Any]]:
    """The rows of a conversation's replies, from its log as heard and the metrics of its turns."""
    elicited, asked = any(map(_elicits, _opening(dialogue))), False
    rows, before = [], set[str]()
    for pair, metrics in zip(dialogue.pairs(), scored, strict=True):
        log, text = pair.user.user_meta, pair.system.text
        said, n_words, elicits = fold(text), len(words(text)), _elicits(text)
        asked |= bool(log["requests"])
        thanks = bool(cue("thanks").search(fold(pair.user.text))) and not log["requests"]
        n_films = len(pair.system.meta["rec_ids"])
        on_paper = _on_paper(
            bool(log["constraints"]), n_films, metrics["normalised_gain"], metrics["novelty"],
            invited=asked or elicited, elicits=elicits, elicited_before=elicited,
            answers=bool(log["asks_about"]) and n_words >= _ANSWER_WORDS,
            closes=thanks and bool(cue("closes").search(said)), repeats=said in before,
        )  # fmt: skip
        elicited |= elicits
        before.add(said)
        said_next = "".join(turn.text for turn in dialogue.turns[2 * pair.turn : 2 * pair.turn + 1])
        taken = heard.reaction(said_next, grounder.titles(said_next))
        row = {"conv_id": dialogue.session_id, "system": dialogue.model_name, "turn": pair.turn}
        row |= {ON_PAPER: on_paper, RECEIVED: _received(on_paper, taken, n_films), REACTION: taken}
        row |= {"defined": int(bool(log["constraints"])), "n_films": n_films, "n_words": n_words}
        row |= {"question": int("?" in text)}
        rows.append(row | {name: metrics[name] for name in (*_PARTS, *AT_REVISION)})
    return rows


def rate(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply: our scores, the human rating if any, the dialogue's; InputError without reply."""
    return table([row for one in score(dialogues, grounder) for row in one.rated])


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows of replies as a frame; InputError where there is none."""
    if not rows:
        raise InputError("no reply to score; give at least one conversation in which the system answers")
    return pd.DataFrame(rows).astype(dict.fromkeys((*OF_REPLY, *OF_DIALOGUE), float))


def _per_dialogue(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """One row per dialogue: its score and rating, and the means of others over its replies."""
    by = rows.groupby(["system", "conv_id"], sort=False)
    means = by[list(dict.fromkeys([*names, *BASELINES, RATING, REACTION]))].mean()
    return means.join(by[[WHOLE, OVERALL]].first()).reset_index()


def agreement(
    rows: pd.DataFrame, names: Sequence[str] = (RECEIVED,), *, resamples: int = 1000
) -> pd.DataFrame:
    """Pearson and Spearman of each score with human ratings, one row per score and level: "reply, constraint
    known", "reply", "reply, within systems" (weighted mean), "dialogue" (with the overall rating), "system".
    ``low`` and ``high``: 95 % interval of Spearman over conversations; ``partial``: given length and films;
    ``coverage``: share of rated rows with a score; ``diff``: less that of the number of films. InputError
    without ratings.
    """
    if not rows[[RATING, OVERALL]].notna().any(axis=None):
        raise InputError("no reply carries a human rating; agreement needs turn_level_aggregated.relevance")
    talks, sure, out = _per_dialogue(rows, names), rows[rows["defined"] == 1], []
    for place, name in enumerate(names):
        whole = WHOLE if place == 0 else name
        systems = talks.groupby("system")[[whole, OVERALL]].mean().reset_index()
        levels: list[tuple[str, pd.DataFrame, str, str, int]] = [
            ("reply, constraint known", sure, name, RATING, 0), ("reply", rows, name, RATING, resamples),
            ("dialogue", talks, whole, OVERALL, resamples), ("system", systems, whole, OVERALL, 0),
        ]  # fmt: skip
        for level, frame, score, rating, draws in levels:
            if rows[rating].notna().any():
                out.append({"score": score, "level": level} | _both(frame, score, rating, draws))
        if rows[RATING].notna().any():
            out.append({"score": name, "level": "reply, within systems"} | _within(rows, name))
    return pd.DataFrame(out)


def _both(frame: pd.DataFrame, score: str, rating: str, resamples: int = 0) -> dict[str, Any]:
    """How a score agrees with a rating over the rows of a frame; no interval where nothing is drawn."""
    known = frame[frame[[score, rating]].notna().all(axis=1)]
    x, y = known[score].to_numpy(float), known[rating].to_numpy(float)
    row: dict[str, Any] = {"n": len(known), "coverage": len(known) / max(1, int(frame[rating].notna().sum()))}
    row |= {"pearson": correlation(x, y)} | rho(frame, score, rating, resamples=resamples)
    given = [name for name in BASELINES if name in known]
    row |= {"partial": partial_spearman(x, y, known[given].to_numpy(float)) if given else math.nan}
    return row | (lead(known, score, BASELINES[1], rating, resamples=resamples) if resamples else {})


def _within(rows: pd.DataFrame, score: str) -> dict[str, Any]:
    """The mean of the systems' own correlations, weighted by their replies."""
    parts = pd.DataFrame([_both(part, score, RATING) for _, part in rows.groupby("system")])
    parts = parts[np.isfinite(parts["spearman"])]
    weight, names = parts["n"].to_numpy(float), ["coverage", "pearson", "spearman"]
    means = weight @ parts[names].to_numpy() / weight.sum() if len(parts) else [np.nan] * len(names)
    return {"n": int(weight.sum()), **dict(zip(names, map(float, means), strict=True)), "partial": np.nan}


def rho(
    frame: pd.DataFrame, score: str, rating: str, *, minus: str = "", resamples: int = 1000
) -> dict[str, Any]:
    """Spearman of two columns with its 95 % interval over conversations (``system`` and ``conv_id``): n,
    spearman, low, high; NaN without ``resamples``. With ``minus`` that of the difference to a third column's.
    """
    columns = [score, rating, *([minus] if minus else [])]
    known = frame[frame[columns].notna().all(axis=1)].astype(dict.fromkeys(columns, float))
    row = {"n": len(known), "spearman": spearman(known[score], known[rating])}
    if not resamples or math.isnan(row["spearman"]):
        return row | {"low": math.nan, "high": math.nan}
    known = known.assign(conversation=known["system"] + " " + known["conv_id"])
    design = stats.Design(scenario="conversation", resamples=resamples)
    how: Any = {"minus": minus, "method": "percentile"}
    found = stats.cluster_bootstrap_correlation(known, score, rating, design, **how)
    low, high = found.loc[0, ["low", "high"]].astype(float)
    return row | {"low": low, "high": high}


def lead(
    rows: pd.DataFrame, score: str, baseline: str, rating: str, *, resamples: int = 1000
) -> dict[str, float]:
    """Spearman of a score less that of a baseline, with a paired 95 % interval: diff, diff_low, diff_high."""
    both = rows.dropna(subset=list(dict.fromkeys([score, baseline, rating])))
    found = rho(both, score, rating, minus=baseline, resamples=resamples)
    diff = found["spearman"] - spearman(both[baseline], both[rating])
    return {"diff": diff, "diff_low": found["low"], "diff_high": found["high"]}


def one_against_rest(ratings: pd.DataFrame) -> pd.DataFrame:
    """The ratings of items with more than one, each with ``rest``, the mean of the others of its item."""
    by = ratings.groupby("item")["value"]
    n, total = by.transform("size"), by.transform("sum")
    shared = ratings.assign(rest=(total - ratings["value"]) / (n - 1).clip(lower=1))
    return shared[n > 1].reset_index(drop=True)
