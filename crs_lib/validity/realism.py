"""Are simulated users told from real ones, and how well does the tracker follow each template set?

A classifier two-sample test: sentence vectors or TF-IDF and a logistic regression, in folds that keep a
conversation together; an AUC of 0.5 means that nobody can tell. Source: D. Lopez-Paz and M. Oquab,
"Revisiting classifier two-sample tests", ICLR 2017.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.core.config import Config, Field, OneOf, Seed
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.retrieval.encoders import ENCODERS, sentence_vectors
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.manners import MANNERS
from crs_lib.systems.base import World

TFIDF = "tfidf"
SYSTEM = "tracker"  # the system that the simulated users talk to
SMALL_TALK_ONLY = "small talk only"
_FOLDS, _RESAMPLES, _LEAST = 5, 300, 10
_A_FILM = " this film "
_DATED = re.compile(r'"[^"]{1,60}\(\d{4}\)\.?"?|"[^"]{1,60}"|[A-Z][\w:\'’ ,.-]{1,50}\(\d{4}\)')


@dataclass(frozen=True)
class RealismConfig(Config):
    """The settings of the test."""

    dialogues: Annotated[str, Field(description="a log of people with systems; without one, no AUC")] = ""
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=_LEAST, le=1_000, description="simulated sessions")] = 60
    n_turns: Annotated[int, Field(ge=1, le=1_000, description="turns of a simulated session")] = 20
    seed: Annotated[Seed, Field(description="seed of the simulated users and of the resamples")] = 1
    encoder: Annotated[
        str, OneOf([TFIDF, *ENCODERS.names()]), Field(description="vectors of the turns: tfidf or an encoder")
    ] = TFIDF


class UserTurn(NamedTuple):
    """What a user says in a turn, titles replaced, and the conversation that it stands in."""

    conversation: str
    text: str


def user_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> list[UserTurn]:
    """The user turns of conversations, film titles replaced: those tell catalogues apart, not people."""
    found = []
    for talk in dialogues:
        for pair in talk.pairs():
            text = _DATED.sub(_A_FILM, pair.user.text)
            for title in sorted(grounder.titles(text), key=lambda one: -one.start):
                text = text[: title.start] + _A_FILM + text[title.end :]
            if text.strip():
                found.append(UserTurn(f"{talk.model_name}/{talk.session_id}", " ".join(text.split())))
    return found


def small_talk(templates: str, n_sessions: int, n_turns: int, seed: int = 1) -> list[UserTurn]:
    """The turns of a trivial generator: drawn from the first words and the small talk of a set, at random.

    They state no constraint and follow no reply: an AUC that this generator reaches says nothing of use.
    """
    manner, name = MANNERS[templates], prompts.USER_SETS[templates]
    found = []
    for session in range(n_sessions):
        draw = rng.stream(seed, "realism", "small talk", templates, session)
        for turn in range(n_turns):
            acts = list(manner.small_talk if turn else manner.first_words)
            said = prompts.say(name, acts[int(draw.integers(len(acts)))], draw, title=_A_FILM.strip())
            found.append(UserTurn(f"{SMALL_TALK_ONLY}/{session}", said))
    return found


def constraint_share(turns: Sequence[UserTurn], grounder: Grounder) -> float:
    """The share of turns whose words name a value of a field as systems read them, in [0, 1]."""
    named = [any(not match.rejected for match in grounder.audit(turn.text)) for turn in turns]
    return float(np.mean(named)) if named else float("nan")


def joint_accuracy(dialogues: Sequence[Dialogue]) -> float:
    """The share of turns after which the system holds exactly the user's constraints, in [0, 1]."""
    pairs = [pair for talk in dialogues for pair in talk.pairs()]
    right = [pair.system.meta["constraints"] == pair.user.user_meta["constraints"] for pair in pairs]
    return float(np.mean(right)) if right else float("nan")


def two_sample(
    real: Sequence[UserTurn], simulated: Sequence[UserTurn], encoder: str = TFIDF, seed: int = 1
) -> dict[str, float]:
    """AUC of telling simulated from real turns, in [0, 1], with a 95 % interval over conversations.

    Raises InputError where one side has fewer than ten conversations.
    """
    both = [*real, *simulated]
    names, groups = np.unique([turn.conversation for turn in both], return_inverse=True)
    truth = np.repeat([0, 1], [len(real), len(simulated)])
    if min(len(set(groups[truth == side])) for side in (0, 1)) < _LEAST:
        raise InputError(f"real or simulated users have fewer than {_LEAST} conversations; give more")
    texts = [turn.text for turn in both]
    inputs: Any = texts if encoder == TFIDF else sentence_vectors(ENCODERS.create(encoder), texts)
    scores = cross_val_predict(
        _classifier(encoder), inputs, truth, groups=groups, cv=GroupKFold(_FOLDS), method="predict_proba"
    )[:, 1]
    draw = rng.stream(seed, "realism", "resamples")
    resample = partial(_resampled, truth, scores, groups, len(names))
    low, high = np.nanpercentile([resample(draw) for _ in range(_RESAMPLES)], [2.5, 97.5])
    return {"auc": float(roc_auc_score(truth, scores)), "low": float(low), "high": float(high)}


def _classifier(encoder: str) -> Any:
    fit = LogisticRegression(max_iter=2_000)
    if encoder != TFIDF:
        return fit
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), fit)


def _resampled(
    truth: NDArray[Any], scores: NDArray[Any], groups: NDArray[Any], n: int, draw: np.random.Generator
) -> float:
    """The AUC with conversations drawn anew."""
    weights = np.bincount(draw.integers(n, size=n), minlength=n)[groups]
    if not all(weights[truth == side].any() for side in (0, 1)):
        return float("nan")
    return float(roc_auc_score(truth, scores, sample_weight=weights))


def telling_words(
    real: Sequence[UserTurn], simulated: Sequence[UserTurn], n: int = 15
) -> tuple[list[str], list[str]]:
    """The words and pairs of words that most give away simulated and real users, the strongest first."""
    model = _classifier(TFIDF)
    model.fit([t.text for t in (*real, *simulated)], np.repeat([0, 1], [len(real), len(simulated)]))
    names, weights = model[0].get_feature_names_out(), model[1].coef_[0]
    order = np.argsort(-weights, kind="stable")
    return [str(names[i]) for i in order[:n]], [str(names[i]) for i in order[::-1][:n]]


def run(config: RealismConfig) -> pd.DataFrame:
    """One row a template set: the tracker's joint accuracy and the share of turns that name a value.

    With conversations of people: AUC, interval and telling words, too, and a row for the trivial generator of
    each set that has small talk (:func:`small_talk`).
    """
    catalog = sources.load(config.catalog)
    world = World(catalog, Grounder(catalog))
    real = user_turns(logs.read(config.dialogues), world.grounder) if config.dialogues else []
    people = constraint_share(real, world.grounder)
    rows = []
    for name in prompts.USER_SETS:
        batch = SimulateConfig(systems=[SYSTEM], seed=config.seed, templates=name, n_turns=config.n_turns)
        talks = [simulate.session(world, SYSTEM, number, batch) for number in range(config.n_sessions)]
        mine = user_turns(talks, world.grounder)
        row = {"templates": name, "joint_accuracy": joint_accuracy(talks)}
        rows.append(row | _compared(real, people, mine, world.grounder, config))
        if real and MANNERS[name].small_talk:
            chat = small_talk(name, config.n_sessions, config.n_turns, config.seed)
            row = {"templates": f"{name}, {SMALL_TALK_ONLY}"}
            rows.append(row | _compared(real, people, chat, world.grounder, config))
    return pd.DataFrame(rows)


def _compared(
    real: Sequence[UserTurn],
    people: float,
    mine: Sequence[UserTurn],
    grounder: Grounder,
    config: RealismConfig,
) -> dict[str, Any]:
    """What a template set's turns are like, beside those of people and their share that names a value."""
    row: dict[str, Any] = {"constraints": constraint_share(mine, grounder)}
    if real:
        ours, theirs = telling_words(real, mine)
        row |= two_sample(real, mine, config.encoder, config.seed)
        row |= {"real": len(real), "simulated": len(mine), "real_constraints": people}
        row |= {"tells simulated": ", ".join(ours), "tells real": ", ".join(theirs)}
    return row
