"""Are simulated users told from people, and how does the tracker serve each voice?

A classifier two-sample test in folds that keep a conversation together; an AUC of 0.5 means that nobody can
tell. Source: D. Lopez-Paz and M. Oquab, "Revisiting classifier two-sample tests", ICLR 2017. The last
figures stand in docs/records/realism.csv and docs/records/tracker_by_voice.csv; minutes with people,
seconds without:

    PYTHONPATH=. python -m benchmarks.realism --dialogues crsarena --catalog FILMS [--encoder minilm]
    PYTHONPATH=. python -m benchmarks.realism --sessions 180 --turns 12 --seed 41123

``--dialogues`` is a rated set (crsarena, abredial, uss) or a log of any known form; without one each
voice's joint accuracy, gain and shift cost are printed. With an encoder (extra embed) sentence vectors are
a second reader.
"""

import argparse
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline, make_union

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.report import statistics
from crs_lib.retrieval.encoders import ENCODERS, sentence_vectors
from crs_lib.simulate import voices
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.scenarios import DENSE, NATURAL
from crs_lib.stats import Estimate
from crs_lib.systems.base import World
from crs_lib.validity import arms, rated

TFIDF = "tfidf"
SYSTEM = "tracker"  # the system that the simulated users talk to
SMALL_TALK_ONLY = "small talk only"
_FOLDS, _RESAMPLES, _LEAST = 4, 300, 10
_HALVES = ("even", "odd")  # by the CRC-32 of a conversation's name; users at natural pace were tuned on even
_WORDS = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
_CHARACTERS = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), min_df=3, sublinear_tf=True)
_A_FILM = " this film "
_GREETS = re.compile(r"\s*(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening|day))\b", re.IGNORECASE)
_SLIP = re.compile(r"\b(?:i|[Uu]|[Uu]r|pls|plz|thx|im|idk|(?:do|does|did|is|are|was|ca|wo)nt)\b(?!')")
_DATED = re.compile(r'"[^"]{1,60}\(\d{4}\)\.?"?|"[^"]{1,60}"|[A-Z][\w:\'’ ,.-]{1,50}\(\d{4}\)')


SETS = ("abredial", "crsarena", "uss")  # rated sets that are read by their names


@dataclass(frozen=True)
class RealismConfig:
    """The settings of the test."""

    dialogues: str = ""
    people: str = voices.ALL
    others: str = ""
    catalog: str = sources.SAMPLE
    n_sessions: int = 120
    n_turns: int = 20
    seed: int = 1
    encoder: str = TFIDF
    pace: str = DENSE
    scope: str = voices.STATED

    def batch(self, choice: str) -> SimulateConfig:
        """The settings of the users with a choice of voices."""
        people = {"voices": choice, "pace": self.pace, "scope": self.scope}
        return SimulateConfig(systems=[SYSTEM], seed=self.seed, n_turns=self.n_turns, **people)


class UserTurn(NamedTuple):
    """A user turn's words, titles replaced, the conversation that it stands in, and the user's voice."""

    conversation: str
    text: str
    voice: str = ""


def user_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> list[UserTurn]:
    """The user turns of conversations, film titles replaced: those tell catalogues apart, not people."""
    found = []
    for talk, pair in _pairs(dialogues):
        text = _DATED.sub(_A_FILM, pair.user.text)
        for title in sorted(grounder.titles(text), key=lambda one: -one.start):
            text = text[: title.start] + _A_FILM + text[title.end :]
        if text.strip():
            name, voice = f"{talk.model_name}/{talk.session_id}", str(talk.extra.get("voice", ""))
            found.append(UserTurn(name, " ".join(text.split()), voice))
    return found


def _pairs(dialogues: Iterable[Dialogue]) -> Iterator[tuple[Dialogue, Pair]]:
    """Every user turn with its reply, and the conversation that they stand in."""
    return ((dialogue, pair) for dialogue in dialogues for pair in dialogue.pairs())


def small_talk(choice: str, n_sessions: int, n_turns: int, seed: int = 1) -> list[UserTurn]:
    """The turns of a trivial generator: first words and small talk of voices, at random. They state no
    constraint and follow no reply: an AUC that this generator reaches says nothing of use.
    """
    found = []
    for session in range(n_sessions):
        voice = voices.drawn(choice, seed, session)
        draw = rng.stream(seed, "realism", "small talk", voice, session)
        for turn in range(n_turns):
            acts = voices.SMALL_TALK if turn else voices.FIRST_WORDS
            act = acts[int(draw.integers(len(acts)))]
            small = voices.every()[voice].small_letters > draw.random()
            said = prompts.say(prompts.USER_SETS[voice], act, draw, small=small, title=_A_FILM.strip())
            found.append(UserTurn(f"{SMALL_TALK_ONLY}/{session}", said, voice))
    return found


def joint_accuracy(dialogues: Iterable[Dialogue]) -> float:
    """The share of turns after which the system holds exactly the user's constraints, in [0, 1]."""
    logs = ((pair.system.meta, pair.user.user_meta) for _, pair in _pairs(dialogues))
    return float(np.mean([ours["constraints"] == theirs["constraints"] for ours, theirs in logs]))


def two_sample(
    real: Sequence[UserTurn], simulated: Sequence[UserTurn], encoder: str = TFIDF, seed: int = 1
) -> dict[str, float]:
    """AUC of telling simulated from real turns, in [0, 1], with a 95 % interval over conversations; tested on
    conversations (of several voices: on voices) never seen. A logistic regression reads TF-IDF of words,
    pairs of words and characters, or vectors. InputError below ten conversations a side.
    """
    both = [*real, *simulated]
    names, groups = np.unique([turn.conversation for turn in both], return_inverse=True)
    truth = np.repeat([0, 1], [len(real), len(simulated)])
    if min(len(set(groups[truth == side])) for side in (0, 1)) < _LEAST:
        raise InputError(f"real or simulated users have fewer than {_LEAST} conversations; give more")
    inputs: Any = [turn.text for turn in both]
    reader: Any = make_pipeline(make_union(_WORDS, _CHARACTERS), LogisticRegression(max_iter=2_000))
    if encoder != TFIDF:
        inputs, reader = sentence_vectors(ENCODERS.create(encoder), inputs), reader[-1]
    folds = PredefinedSplit([*_folds(real, seed), *_folds(simulated, seed)])
    scores = cross_val_predict(reader, inputs, truth, cv=folds, method="predict_proba")[:, 1]
    draw, n, drawn = rng.stream(seed, "realism", "resamples"), len(names), list[float]()
    for _ in range(_RESAMPLES):
        weights = np.bincount(draw.integers(n, size=n), minlength=n)[groups]
        if all(weights[truth == side].any() for side in (0, 1)):  # else the draw left a side out
            drawn.append(float(roc_auc_score(truth, scores, sample_weight=weights)))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"auc": float(roc_auc_score(truth, scores)), "low": float(low), "high": float(high)}


def _folds(turns: Sequence[UserTurn], seed: int) -> list[int]:
    """The fold of each turn: voices stay together where there are several, else conversations do."""
    several = len({turn.voice for turn in turns}) >= _FOLDS
    units = [turn.voice if several else turn.conversation for turn in turns]
    order = rng.stream(seed, "realism", "folds").permutation(len(set(units))).tolist()
    fold = {unit: place % _FOLDS for unit, place in zip(sorted(set(units)), order, strict=True)}
    return [fold[unit] for unit in units]


def _whole(turns: Sequence[UserTurn]) -> list[UserTurn]:
    """Conversations as one text each."""
    found: dict[str, list[UserTurn]] = {}
    for turn in turns:
        found.setdefault(turn.conversation, []).append(turn)
    return [of[0]._replace(text=" | ".join(turn.text for turn in of)) for of in found.values()]


def _as_long(turns: Sequence[UserTurn], real: Sequence[UserTurn], seed: int) -> list[UserTurn]:
    """Simulated conversations cut to lengths drawn from those of people."""
    lengths = list(Counter(turn.conversation for turn in real).values())
    draw, names = rng.stream(seed, "realism", "lengths"), pd.Series([turn.conversation for turn in turns])
    most = {name: lengths[int(draw.integers(len(lengths)))] for name in names.unique()}
    places = names.groupby(names).cumcount()
    return [turn for turn, place in zip(turns, places, strict=True) if place < most[turn.conversation]]


def telling_words(
    real: Sequence[UserTurn], simulated: Sequence[UserTurn], n: int = 15
) -> tuple[list[str], list[str]]:
    """The words and pairs of words that most give away simulated and real users, the strongest first."""
    model = make_pipeline(_WORDS, LogisticRegression(max_iter=2_000))
    model.fit([t.text for t in (*real, *simulated)], np.repeat([0, 1], [len(real), len(simulated)]))
    names, weights = model[0].get_feature_names_out(), model[1].coef_[0]
    order = np.argsort(-weights, kind="stable")
    return [str(names[i]) for i in order[:n]], [str(names[i]) for i in order[::-1][:n]]


def run(config: RealismConfig) -> pd.DataFrame:
    """One row a choice of voices: the tracker's joint accuracy, the shares of turns that name a value or ask.
    With conversations of people also AUC for turns and whole dialogues, telling words, and the yardsticks:
    the trivial generator (:func:`small_talk`), people against people, and those of the data set ``others``.
    """
    catalog = sources.load(config.catalog)
    world = World(catalog, Grounder(catalog))
    read = rated.conversations if config.dialogues in SETS else logs.read
    every = user_turns(read(config.dialogues), world.grounder) if config.dialogues else []
    halves = [[t for t in every if zlib.crc32(t.conversation.encode()) % 2 == half] for half in (0, 1)]
    real = dict(zip(_HALVES, halves, strict=True)).get(config.people, every)

    def compared(name: str, mine: Sequence[UserTurn], people: Sequence[UserTurn], **facts: float) -> Any:
        """The turns of some users beside those of people."""
        row: dict[str, Any] = {"users": name, **facts, **manner(mine, world.grounder)}
        if people:
            for reader in dict.fromkeys((TFIDF, config.encoder)):
                by = "" if reader == TFIDF else f" by {reader}"
                whole = two_sample(_whole(people), _whole(mine), reader, config.seed)
                each = two_sample(people, mine, reader, config.seed)
                row |= {f"{key}{by}": value for key, value in each.items()}
                row |= {f"{key} of dialogues{by}": value for key, value in whole.items()}
            row |= {"real": len(people), "simulated": len(mine)}
            ours, theirs = telling_words(people, mine)
            row |= {"tells simulated": ", ".join(ours), "tells real": ", ".join(theirs)}
        return row

    rows = []
    for name in (voices.FIRST, voices.ALL, voices.DEVELOPMENT, voices.CONFIRMATION):
        batch = config.batch(name)
        talks = [simulate.session(world, SYSTEM, number, batch) for number in range(config.n_sessions)]
        turns, accuracy = user_turns(talks, world.grounder), joint_accuracy(talks)
        mine = _as_long(turns, real, config.seed) if real else turns
        rows.append(compared(name, mine, real, joint_accuracy=accuracy))
    if real:
        chat = small_talk(voices.ALL, config.n_sessions, config.n_turns, config.seed)
        rows.append(compared(SMALL_TALK_ONLY, _as_long(chat, real, config.seed), real))
        rows.append(compared("people, one half against the other", *halves))
        if config.others:
            others = user_turns(rated.conversations(config.others), world.grounder)
            rows.append(compared(f"people of {config.others}", others, real))
        rows.append({"users": "people", **manner(real, world.grounder)})
    return pd.DataFrame(rows)


def manner(turns: Sequence[UserTurn], grounder: Grounder) -> dict[str, str]:
    """Shares of turns that name a value, ask, greet or slip, in [0, 1], and words a turn, each with a 95 %
    interval over conversations; a slip is a contraction without its mark, "u", "pls" or a small "i".
    """
    found = [grounder.audit(turn.text) for turn in turns]
    each = {
        "constraints": [any(not match.rejected for match in of) for of in found],
        "questions": ["?" in turn.text for turn in turns],
        "greetings": [bool(_GREETS.match(turn.text)) for turn in turns],
        "slips": [bool(_SLIP.search(turn.text)) for turn in turns],
        "words": [len(words(turn.text)) for turn in turns],
    }
    by = pd.DataFrame(each).astype(float).groupby([turn.conversation for turn in turns])
    sums, n, draw = by.sum().to_numpy(), by.size().to_numpy(), rng.stream(1, "realism", "manner")
    picks = draw.integers(len(n), size=(_RESAMPLES, len(n)))
    low, high = np.percentile(sums[picks].sum(1) / n[picks].sum(1, keepdims=True), [2.5, 97.5], axis=0)
    told = zip(each, sums.sum(0) / n.sum(), low, high, strict=True)
    return {name: str(Estimate(mean, least, most, len(n))) for name, mean, least, most in told}


def by_voice(config: RealismConfig) -> pd.DataFrame:
    """How the tracker serves each voice: a row a session and ``model``, the quantity (joint accuracy,
    normalised gain, shift cost), for crs_lib.report.statistics.by_voice.
    """
    catalog = sources.load(config.catalog)
    batch = config.batch(voices.ALL)
    rows = []
    for talk, scores in arms.scored(World(catalog, Grounder(catalog)), batch, config.n_sessions):
        found = {name: scores.session[name] for name in ("normalised_gain", "shift_cost")}
        for name, value in ({"joint accuracy": joint_accuracy([talk])} | found).items():
            rows.append((talk.extra["voice"], talk.session_id, name, value))
    return pd.DataFrame(rows, columns=["voice", "session_id", "model", "value"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dialogues", default="", help="a log of people, or a rated set")
    parser.add_argument(
        "--people", choices=(voices.ALL, *_HALVES), default=voices.ALL, help="or half of them"
    )
    parser.add_argument("--others", choices=("", *SETS), default="", help="people elsewhere")
    parser.add_argument("--catalog", default=sources.SAMPLE)
    parser.add_argument("--sessions", dest="n_sessions", type=int, default=120)
    parser.add_argument("--turns", dest="n_turns", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--encoder", choices=(TFIDF, *ENCODERS.names()), default=TFIDF, help="a second reader"
    )
    parser.add_argument("--pace", choices=(DENSE, NATURAL), default=DENSE)
    parser.add_argument("--scope", choices=voices.SCOPES, default=voices.STATED)
    config = RealismConfig(**vars(parser.parse_args()))
    pd.set_option("display.width", 250, "display.max_columns", None, "display.max_colwidth", 80)
    if config.dialogues:
        print(run(config).round(3).T.to_string())
    else:
        print(statistics.by_voice(by_voice(config), "value").to_string())


if __name__ == "__main__":
    main()
