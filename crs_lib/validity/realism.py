"""Does the simulator keep its promises, and are its users told from real ones?

Checks of what must hold before scores mean anything (docs/validity.md, section 2), and a classifier
two-sample test: sentence vectors or TF-IDF and a logistic regression, in folds that keep a conversation
together; an AUC of 0.5 means that nobody can tell. Source: D. Lopez-Paz and M. Oquab, "Revisiting classifier
two-sample tests", ICLR 2017.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
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
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, Seed, Settings
from crs_lib.core.text import words
from crs_lib.retrieval.encoders import ENCODERS, sentence_vectors
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.voices import MANNERS
from crs_lib.systems.base import World

TFIDF = "tfidf"
SYSTEM = "tracker"  # the system that the simulated users talk to
SMALL_TALK_ONLY = "small talk only"
_FOLDS, _RESAMPLES, _LEAST = 5, 300, 10
_A_FILM = " this film "
_DATED = re.compile(r'"[^"]{1,60}\(\d{4}\)\.?"?|"[^"]{1,60}"|[A-Z][\w:\'’ ,.-]{1,50}\(\d{4}\)')


_Encoder = Annotated[str, OneOf([TFIDF, *ENCODERS.names()])]


class RealismConfig(Settings):
    """The settings of the test."""

    dialogues: Annotated[str, Field(description="a log of people with systems; without one, no AUC")] = ""
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=_LEAST, le=1_000, description="simulated sessions")] = 60
    n_turns: Annotated[int, Field(ge=1, le=1_000, description="turns of a simulated session")] = 20
    seed: Annotated[Seed, Field(description="seed of the simulated users and of the resamples")] = 1
    encoder: Annotated[_Encoder, Field(description="vectors of the turns: tfidf or an encoder")] = TFIDF


class _UserTurn(NamedTuple):
    """A user turn's words, titles replaced, and the conversation that it stands in."""

    conversation: str
    text: str


def user_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> list[_UserTurn]:
    """The user turns of conversations, film titles replaced: those tell catalogues apart, not people."""
    found = []
    for talk, pair in _pairs(dialogues):
        text = _DATED.sub(_A_FILM, pair.user.text)
        for title in sorted(grounder.titles(text), key=lambda one: -one.start):
            text = text[: title.start] + _A_FILM + text[title.end :]
        if text.strip():
            found.append(_UserTurn(f"{talk.model_name}/{talk.session_id}", " ".join(text.split())))
    return found


def _pairs(dialogues: Iterable[Dialogue]) -> Iterator[tuple[Dialogue, Pair]]:
    """Every user turn with its reply, and the conversation that they stand in."""
    return ((dialogue, pair) for dialogue in dialogues for pair in dialogue.pairs())


def small_talk(templates: str, n_sessions: int, n_turns: int, seed: int = 1) -> list[_UserTurn]:
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
            found.append(_UserTurn(f"{SMALL_TALK_ONLY}/{session}", said))
    return found


def constraint_share(turns: Sequence[_UserTurn], grounder: Grounder) -> float:
    """The share of turns whose words name a value of a field as systems read them, in [0, 1]."""
    named = [any(not match.rejected for match in grounder.audit(turn.text)) for turn in turns]
    return float(np.mean(named)) if named else float("nan")


def _joint_accuracy(dialogues: Iterable[Dialogue]) -> float:
    """The share of turns after which the system holds exactly the user's constraints, in [0, 1]."""
    logs = ((pair.system.meta, pair.user.user_meta) for _, pair in _pairs(dialogues))
    return float(np.mean([ours["constraints"] == theirs["constraints"] for ours, theirs in logs]))


def two_sample(
    real: Sequence[_UserTurn], simulated: Sequence[_UserTurn], encoder: str = TFIDF, seed: int = 1
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
    how: Any = {"groups": groups, "cv": GroupKFold(_FOLDS), "method": "predict_proba"}
    scores = cross_val_predict(_classifier(encoder), inputs, truth, **how)[:, 1]
    draw, n, drawn = rng.stream(seed, "realism", "resamples"), len(names), list[float]()
    for _ in range(_RESAMPLES):
        weights = np.bincount(draw.integers(n, size=n), minlength=n)[groups]
        if all(weights[truth == side].any() for side in (0, 1)):  # else the draw left a side out
            drawn.append(float(roc_auc_score(truth, scores, sample_weight=weights)))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"auc": float(roc_auc_score(truth, scores)), "low": float(low), "high": float(high)}


def _classifier(encoder: str) -> Any:
    """A logistic regression, over TF-IDF of words and pairs of words or over an encoder's vectors."""
    fit = LogisticRegression(max_iter=2_000)
    grams = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    return make_pipeline(grams, fit) if encoder == TFIDF else fit


def telling_words(
    real: Sequence[_UserTurn], simulated: Sequence[_UserTurn], n: int = 15
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

    def compared(templates: str, mine: Sequence[_UserTurn], **facts: float) -> dict[str, Any]:
        """A template set's turns beside those of people and their share that names a value."""
        row = {"templates": templates, **facts, "constraints": constraint_share(mine, world.grounder)}
        if real:
            ours, theirs = telling_words(real, mine)
            row |= two_sample(real, mine, config.encoder, config.seed)
            row |= {"real": len(real), "simulated": len(mine), "real_constraints": people}
            row |= {"tells simulated": ", ".join(ours), "tells real": ", ".join(theirs)}
        return row

    rows = []
    for name in prompts.USER_SETS:
        batch = SimulateConfig(systems=[SYSTEM], seed=config.seed, templates=name, n_turns=config.n_turns)
        talks = [simulate.session(world, SYSTEM, number, batch) for number in range(config.n_sessions)]
        accuracy = _joint_accuracy(talks)
        rows.append(compared(name, user_turns(talks, world.grounder), joint_accuracy=accuracy))
        if real and MANNERS[name].small_talk:
            chat = small_talk(name, config.n_sessions, config.n_turns, config.seed)
            rows.append(compared(f"{name}, {SMALL_TALK_ONLY}", chat))
    return pd.DataFrame(rows)


def _leaks(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift with new constraints: does the user name one of them before the shift?

    ``leaked`` is true where an earlier utterance names a value that the shift brings and that was no
    constraint, was not to be avoided, and had not been said as part of the plan before. A person named before
    in another role (wished for as a writer, now as a director) is no leak, nor is a word of a film's title.
    """
    rows = []
    for dialogue in dialogues:
        seen, planned = set[int](), set[str]()
        for pair in dialogue.pairs():
            log = pair.user.user_meta
            event = log.get("shift_event_obj") or {}
            added = _codes(grounder, event.get("added"))
            if new := {code for code in added if _value(grounder, code) not in planned}:
                rows.append((*_place(dialogue, pair), event["type"], bool(new & seen)))
            said = _codes(grounder, log["constraints"]) | _codes(grounder, log["avoid"])
            planned |= {_value(grounder, code) for code in said}
            if log["stage"] != "aside":  # an aside names a value on purpose, and never as a constraint
                seen |= _named(grounder, pair.user.text)
    return pd.DataFrame(rows, columns=[*_SHIFT, "leaked"])


def _voiced(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift: are the values that it brings, or else takes away, found in its utterance?"""
    rows = []
    for dialogue, pair in _pairs(dialogues):
        if event := pair.user.user_meta.get("shift_event_obj"):
            must = _codes(grounder, event["added"] or event["dropped"])
            found = must - _codes(grounder, event.get("implied")) <= grounder.concepts(pair.user.text)
            rows.append((*_place(dialogue, pair), event["type"], found))
    return pd.DataFrame(rows, columns=[*_SHIFT, "voiced"])


_SHIFT = ("system", "session", "turn", "type")


def _place(dialogue: Dialogue, pair: Pair) -> tuple[str, str, int]:
    return dialogue.model_name, dialogue.session_id, pair.turn


def _codes(grounder: Grounder, values: Mapping[str, Any] | None) -> set[int]:
    """The concept codes of ``field: value`` pairs that the catalogue has."""
    found = (grounder.catalog.known_code(name, str(value)) for name, value in (values or {}).items())
    return {code for code in found if code is not None}


def _named(grounder: Grounder, text: str) -> set[int]:
    """The concepts that a text names outside the titles of films."""
    titles, found = grounder.titles(text), (match for match in grounder.audit(text) if not match.rejected)
    return {m.code for m in found if not any(t.start <= m.start and m.end <= t.end for t in titles)}


def _value(grounder: Grounder, code: int) -> str:
    return grounder.key(code).split("=", 1)[1]


def checks(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row a check: the rule, the share found, the share expected, and whether it holds."""
    said = {(one.model_name, one.session_id): [p.user.text for p in one.pairs()] for one in dialogues}
    shared = [one for system, one in sorted(said) if system == "oracle" and ("random", one) in said]
    met = [(said["oracle", session], said["random", session]) for session in shared]
    differ = float(np.mean([np.mean([x != y for x, y in zip(*both, strict=True)]) for both in met] or np.nan))
    by_system: dict[str, list[str]] = {}
    for (system, _), texts in said.items():
        by_system.setdefault(system, []).extend(" ".join(words(text)) for text in texts)
    repeated = float(np.mean([1 - len(set(texts)) / max(1, len(texts)) for texts in by_system.values()]))
    early = float(_leaks(dialogues, grounder)["leaked"].mean())
    voices = float(_voiced(dialogues, grounder)["voiced"].mean())
    rows = [
        ("a shift's target is named before it is voiced", early, "0", early == 0),
        ("a shift's utterance voices it", voices, "1", voices == 1),
        ("user turns worded differently, oracle against random", differ, "> 0", differ > 0),
        ("user utterances repeated word for word", repeated, "< 0.5", repeated < 0.5),
    ]
    return pd.DataFrame(rows, columns=["check", "share", "expected", "holds"])
