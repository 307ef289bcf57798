"""Scores of logged conversations, and how far they agree with the ratings that people gave.

The film part of a score is the metric ``normalised_gain``, the one that ranks simulated systems; only the
state is heard instead of logged. The other half is how people take the films. The halves are choices: nothing
here is fitted to labels. Ratings are read where the conversations carry them.
Source: docs/validity.md, section 4.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, tee
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib import stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import USER, Dialogue, Pair, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words
from crs_lib.evaluate.run import score_all
from crs_lib.metrics import conventions
from crs_lib.metrics.base import HIGHER, Metric, declare
from crs_lib.metrics.records import mean_defined
from crs_lib.validity import heard
from crs_lib.validity.heard import cue

Floats = NDArray[np.float64]
_SOURCE = "docs/validity.md, section 4"
ON_PAPER, RECEIVED, REACTION = "heard_adaptation", "received_adaptation", "reaction"
declare(
    Metric(ON_PAPER, "adaptation (heard)", "turn", 0, 1, HIGHER, _SOURCE),
    Metric(RECEIVED, "adaptation (received)", "turn", 0, 1, HIGHER, _SOURCE),
)
RATING, OVERALL = "relevance", "dialogue_overall"
WHOLE = "dialogue_adaptation"  # the score of a whole dialogue, the same in each of its rows
BASELINES = ("n_words", "n_films")
_PARTS = ("normalised_gain", "satisfaction", "item_tas", "topic_adaptation_score")
SHOWN = (RECEIVED, ON_PAPER, REACTION, *_PARTS)
_HALF, _ASKING, _ANSWER_WORDS = 0.5, 0.75, 12
_EXACT = 8  # systems up to which every permutation is tried
_OTHERS = "follow_up"  # the stage in which a simulated user asks for other films


class _ReplyFeatures(NamedTuple):
    """The features of a reply, judged by what came before it only.

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


def _adaptation(reply: _ReplyFeatures, *, wishes_known: bool) -> float:
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
        gain = _HALF if math.isnan(reply.gain) else max(0.0, reply.gain)
        return (1 + gain) / 2 * (1 + reply.novel) / 2 * (1.0 if wishes_known or reply.invited else _HALF)
    if reply.elicits:
        return 0.0 if wishes_known else _ASKING * (_HALF if reply.elicited_before else 1.0)
    return _HALF if reply.answers or reply.closes else 0.0


def _received(on_paper: float, taken: float, n_films: int) -> float:
    """The mean of the score on paper and of how the person takes the films, in [0, 1].

    The score on paper alone where the reply names no film, or where the person gives no cue (``taken`` NaN).
    """
    return (on_paper + taken) / 2 if n_films and not math.isnan(taken) else on_paper


def _of_dialogue(on_paper: Sequence[float], taken: Sequence[float]) -> float:
    """A whole dialogue, in [0, 1]: the mean of its replies on paper and of how the person took them.

    The replies' mean is quadratic, so that successes count more than wasted turns; a turn without a cue
    counts ½. NaN without replies.
    """
    if not len(on_paper):
        return math.nan
    paper = float(np.sqrt(np.mean(np.square(on_paper))))
    return (paper + float(np.mean([_HALF if math.isnan(one) else one for one in taken]))) / 2


def _elicits(text: str) -> bool:
    """Whether a text asks what the person wants."""
    return "?" in text and bool(cue("elicits").search(fold(text)))


def logged(dialogue: Dialogue, grounder: Grounder, *, whole: bool = True) -> Dialogue:
    """The dialogue with the log a simulator would have kept: constraints, unwanted values, films by id.

    The log that a USER turn held already is replaced; without ``whole`` only its constraints and unwanted
    values are.
    """
    listener, turns = heard.Listener(grounder), list[Turn]()
    for turn in dialogue.turns:
        meta = dict(turn.meta)
        if turn.speaker == USER:
            state = listener.listen(turn.text)
            about = state.asks_about
            log = {"asks": not about, "asks_about": about, "requests": state.requests,
                   "stage": "" if about else _OTHERS}  # fmt: skip
            meta["user_meta"] = {**(log if whole else turn.user_meta), **state.as_logged(grounder)}
        elif whole:
            meta["rec_ids"] = [grounder.catalog.items[i].item_id for i in heard.films(grounder, turn.text)]
        turns.append(replace(turn, meta=meta))
    return replace(dialogue, turns=tuple(turns), shift_events=() if whole else dialogue.shift_events)


class _Scored(NamedTuple):
    """A conversation as it was read, and a row for every reply."""

    dialogue: Dialogue
    rows: list[dict[str, Any]]

    @property
    def overall(self) -> float:
        """The score of the whole dialogue (:func:`_of_dialogue`), NaN without replies."""
        return _of_dialogue([row[ON_PAPER] for row in self.rows], [row[REACTION] for row in self.rows])

    @property
    def rated(self) -> list[dict[str, Any]]:
        """The rows with their human ratings, NaN where there is none, and the dialogue's score and rating."""
        whole = {OVERALL: overall_rating(self.dialogue), WHOLE: self.overall}
        ratings = {pair.turn: _rating(pair) for pair in self.dialogue.pairs()}
        return [{**row, RATING: ratings[row["turn"]], **whole} for row in self.rows]

    @property
    def entry(self) -> dict[str, Any]:
        """The scores in CRSArena-Eval's form: a prediction for every system utterance and for the whole.

        ``turn_ind`` is the log's own, else the utterance's place. An utterance before the person spoke gets ¾
        where it asks what is wanted, else 0; parts of a merged reply share its score. A system that never
        answers follows nothing: 0.
        """
        values = [(i, _ASKING * _elicits(text)) for i, text in enumerate(_opening(self.dialogue))]
        place = len(values)
        for pair, row in zip(self.dialogue.pairs(), self.rows, strict=True):
            place += len(pair.user.meta.get("merged") or [0])
            parts = merged(pair)
            values += [(int(part.get("turn_ind", place + i)), row[RECEIVED]) for i, part in enumerate(parts)]
            place += len(parts)
        turns = [{"turn_ind": i, "turn_level_pred": {RATING: round(value, 6)}} for i, value in values]
        whole = {OVERALL: round(self.overall, 6) if self.rows else 0.0}
        return {"conv_id": self.dialogue.session_id, "turns": turns, "dial_level_pred": whole}


def _opening(dialogue: Dialogue) -> list[str]:
    """The system's utterances before the person spoke."""
    return [str(text) for text in dialogue.extra.get("opening", ())]


def merged(pair: Pair) -> Sequence[Mapping[str, Any]]:
    """The logs of the utterances that a reply was merged of; often one."""
    parts: Sequence[Mapping[str, Any]] = pair.system.meta.get("merged") or [pair.system.meta]
    return parts


def _rating(pair: Pair) -> float:
    """The rating of a reply, NaN where there is none; of a merged reply the mean of its parts."""
    given = [_number((part.get("turn_level_aggregated") or {}).get(RATING)) for part in merged(pair)]
    return mean_defined(given)


def annotations(dialogue: Dialogue, name: str) -> Mapping[str, Any]:
    """A part of what a conversation's log says that people or judges gave; empty where there is none."""
    return (dialogue.extra.get("annotations") or {}).get(name) or {}


def overall_rating(dialogue: Dialogue) -> float:
    """The rating that people gave the whole conversation; NaN where there is none."""
    return _number(annotations(dialogue, "dial_level_aggregated").get(OVERALL))


def _number(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(str(value)) if usable else math.nan


def score(dialogues: Iterable[Dialogue], grounder: Grounder) -> Iterator[_Scored]:
    """Every dialogue with its rows, one at a time: our scores, their parts, and other metrics.

    Memory stays flat. ``defined`` is 1 where a constraint is known; elsewhere the score is the declared
    fallback. Every reply has a row. Only ``reaction`` and ``received_adaptation`` look at what is said next.
    """
    given, heard_from = tee(dialogues)
    logs, scored = tee(logged(dialogue, grounder) for dialogue in heard_from)
    scores = score_all(scored, grounder, conventions.get("default"))
    for dialogue, log, found in zip(given, logs, scores, strict=True):
        yield _Scored(dialogue, _rows(log, found.turns, grounder))


def _rows(
    dialogue: Dialogue, scored: Sequence[Mapping[str, Any]], grounder: Grounder
) -> list[dict[str, Any]]:
    """The rows of a conversation's replies, from its log as heard and the metrics of its turns."""
    elicited, asked = any(map(_elicits, _opening(dialogue))), False
    rows, before = [], set[str]()
    for pair, metrics in zip(dialogue.pairs(), scored, strict=True):
        log, text = pair.user.user_meta, pair.system.text
        said, n_words, elicits = fold(text), len(words(text)), _elicits(text)
        asked |= bool(log["requests"])
        thanks = bool(cue("thanks").search(fold(pair.user.text))) and not log["requests"]
        reply = _ReplyFeatures(
            len(pair.system.meta["rec_ids"]), gain=metrics["normalised_gain"], novel=metrics["novelty"],
            invited=asked or elicited, elicits=elicits, elicited_before=elicited,
            answers=bool(log["asks_about"]) and n_words >= _ANSWER_WORDS,
            closes=thanks and bool(cue("closes").search(said)), repeats=said in before,
        )  # fmt: skip
        elicited |= elicits
        before.add(said)
        said_next = "".join(turn.text for turn in dialogue.turns[2 * pair.turn : 2 * pair.turn + 1])
        taken = heard.reaction(said_next, grounder.titles(said_next))
        on_paper = _adaptation(reply, wishes_known=bool(log["constraints"]))
        row = {"conv_id": dialogue.session_id, "system": dialogue.model_name, "turn": pair.turn}
        row |= {ON_PAPER: on_paper, RECEIVED: _received(on_paper, taken, reply.n_films), REACTION: taken}
        row |= {"defined": int(bool(log["constraints"])), "n_films": reply.n_films, "n_words": n_words}
        rows.append(row | {name: metrics[name] for name in _PARTS})
    return rows


def rate(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per reply: our scores, the human rating where there is one (else null), the dialogue's rating.

    InputError where no reply is.
    """
    return table([row for one in score(dialogues, grounder) for row in one.rated])


def table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows of replies as a frame; InputError where there is none."""
    if not rows:
        raise InputError("no reply to score; give at least one conversation in which the system answers")
    return pd.DataFrame(rows).astype({RATING: float, OVERALL: float})


def per_dialogue(rows: pd.DataFrame, names: Sequence[str] = (ON_PAPER,)) -> pd.DataFrame:
    """One row per dialogue: its score and rating, and the means of others over its replies."""
    by = rows.groupby(["system", "conv_id"], sort=False)
    means = by[list(dict.fromkeys([*names, *BASELINES, RATING, REACTION]))].mean()
    return means.join(by[[WHOLE, OVERALL]].first()).reset_index()


def agreement(
    rows: pd.DataFrame, names: Sequence[str] = (RECEIVED,), *, resamples: int = 1000
) -> pd.DataFrame:
    """Pearson and Spearman of each score with human ratings, one row per score and level.

    Levels: "reply, constraint known", "reply" (fallback included), "reply, within systems" (mean over
    systems, weighted by their replies), "dialogue" (with the overall rating; the first score is that of whole
    dialogues, the others are means over replies), "system" (means of both; p is exact, over all permutations
    of up to eight systems). ``low`` and ``high`` are the 95 % interval of Spearman over conversations;
    ``partial`` is Spearman given length and number of films; ``coverage`` the share of rated rows with a
    score. Raises InputError without ratings.
    """
    known = {level: bool(rows[level].notna().any()) for level in (RATING, OVERALL)}
    if not any(known.values()):
        raise InputError("no reply carries a human rating; agreement needs turn_level_aggregated.relevance")
    talks = per_dialogue(rows, names)
    sure, out = rows[rows["defined"] == 1], []
    for place, name in enumerate(names):
        if known[RATING]:
            out.append({"score": name, "level": "reply, constraint known"} | _both(sure, name, RATING))
            out.append({"score": name, "level": "reply"} | _both(rows, name, RATING, resamples))
            out.append({"score": name, "level": "reply, within systems"} | _within(rows, name))
        if known[OVERALL]:
            whole = WHOLE if place == 0 else name
            systems = talks.groupby("system")[[whole, OVERALL]].mean().reset_index()
            exact = {"partial": np.nan, "p_exact": _exact_p(systems[whole], systems[OVERALL])}
            out.append({"score": whole, "level": "dialogue"} | _both(talks, whole, OVERALL, resamples))
            out.append({"score": whole, "level": "system"} | _both(systems, whole, OVERALL) | exact)
    return pd.DataFrame(out)


def _both(frame: pd.DataFrame, score: str, rating: str, resamples: int = 0) -> dict[str, Any]:
    """How a score agrees with a rating over the rows of a frame; no interval where nothing is drawn."""
    known = frame[frame[[score, rating]].notna().all(axis=1)]
    x, y = known[score].to_numpy(float), known[rating].to_numpy(float)
    row: dict[str, Any] = {"n": len(known), "coverage": len(known) / max(1, int(frame[rating].notna().sum()))}
    row |= {"pearson": _correlation(x, y)} | rho(frame, score, rating, resamples=resamples)
    given = [name for name in BASELINES if name in known]
    return row | {"partial": _partial(x, y, known[given].to_numpy(float)) if given else np.nan}


def _within(rows: pd.DataFrame, score: str) -> dict[str, Any]:
    """The mean of the systems' own correlations, weighted by their replies."""
    parts = pd.DataFrame([_both(part, score, RATING) for _, part in rows.groupby("system")])
    parts = parts[np.isfinite(parts["spearman"])]
    weight, names = parts["n"].to_numpy(float), ["coverage", "pearson", "spearman"]
    means = weight @ parts[names].to_numpy() / weight.sum() if len(parts) else [np.nan] * len(names)
    return {"n": int(weight.sum()), **dict(zip(names, map(float, means), strict=True)), "partial": np.nan}


def _correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation in [-1, 1]; NaN for fewer than three pairs or where one side does not vary."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN as :func:`_correlation`."""
    return _correlation(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


def _partial(x: Floats, y: Floats, given: Floats) -> float:
    """Spearman's correlation in [-1, 1] of what is left after ranks of ``given`` (n, k) are regressed out."""
    if len(x) < given.shape[1] + 3:
        return math.nan
    base = np.column_stack([np.ones(len(x)), *(scipy.stats.rankdata(column) for column in given.T)])
    left = [ranks - base @ np.linalg.lstsq(base, ranks)[0] for ranks in map(scipy.stats.rankdata, (x, y))]
    return _correlation(left[0], left[1])


def _exact_p(x: ArrayLike, y: ArrayLike) -> float:
    """Two-sided p of Spearman's correlation over every order of ``y``; NaN beyond eight values."""
    a, b = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    if not 3 <= len(a) <= _EXACT:
        return math.nan
    least = abs(_correlation(a, b)) - 1e-12
    return float(np.mean([abs(_correlation(a, np.array(order))) >= least for order in permutations(b)]))


def rho(
    frame: pd.DataFrame, score: str, rating: str, *, minus: str = "", resamples: int = 1000
) -> dict[str, Any]:
    """Spearman of two columns with its 95 % interval: n, spearman, low, high.

    Conversations (``system`` and ``conv_id``) are drawn with replacement; without ``resamples`` the interval
    is NaN. With ``minus`` the interval is that of the difference to a third column's correlation.
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


def against_baselines(
    rows: pd.DataFrame, score: str = RECEIVED, rating: str = RATING, *, resamples: int = 1000
) -> pd.DataFrame:
    """Spearman of the score minus that of each baseline, with a paired 95 % interval over conversations.

    Baselines: words and films of the reply (of a dialogue: their means), and the system's identity (the mean
    rating of its other conversations). All scores see the same draws. ``rows`` are replies, or dialogues.
    """
    rated = rows.dropna(subset=[rating, score], ignore_index=True)
    rated["system identity"] = _identity(rated, rating)
    out = []
    for name in (*BASELINES, *(["system identity"] if len(set(rated["system"])) > 1 else [])):
        found = rho(rated, score, rating, minus=name, resamples=resamples)
        base = spearman(rated[name], rated[rating])
        row = {"score": score, "baseline": name, "spearman": found["spearman"], "of_baseline": base}
        out.append(row | {"diff": found["spearman"] - base, "low": found["low"], "high": found["high"]})
    return pd.DataFrame(out)


def _identity(rated: pd.DataFrame, rating: str) -> Floats:
    """The mean rating of the same system in its other conversations; NaN-free: without others the mean."""
    ratings = rated[rating]
    count, total = (ratings.groupby(rated["system"]).transform(how) for how in ("size", "sum"))
    own = ratings.groupby([rated["system"], rated["conv_id"]])
    count, total = count - own.transform("size"), total - own.transform("sum")
    return np.asarray((total / count).where(count > 0, ratings.mean()), dtype=float)


def one_against_rest(ratings: pd.DataFrame) -> pd.DataFrame:
    """The ratings of items with more than one, each with ``rest``, the mean of the others of its item."""
    by = ratings.groupby("item")["value"]
    n, total = by.transform("size"), by.transform("sum")
    shared = ratings.assign(rest=(total - ratings["value"]) / (n - 1).clip(lower=1))
    return shared[n > 1].reset_index(drop=True)
