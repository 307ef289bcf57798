"""Does the simulator keep its promises (docs/validity.md, section 2), and are its users told from real ones?
A classifier two-sample test in folds that keep a conversation together; an AUC of 0.5 means that nobody can
tell. Source: D. Lopez-Paz and M. Oquab, "Revisiting classifier two-sample tests", ICLR 2017.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

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
from crs_lib.core.settings import Field, OneOf, Seed, Settings
from crs_lib.core.text import fold, words
from crs_lib.retrieval.encoders import ENCODERS, sentence_vectors
from crs_lib.simulate import voices
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.scenarios import DENSE, NATURAL
from crs_lib.stats import Estimate
from crs_lib.systems.base import World
from crs_lib.validity import arms, raters

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
_SHIFT = ("system", "session", "turn", "type")


class RealismConfig(Settings):
    """The settings of the test."""

    dialogues: Annotated[str, Field(description="a log of people, or a rated set; without one, no AUC")] = ""
    people: Annotated[str, OneOf((voices.ALL, *_HALVES)), Field(description="or half of them")] = voices.ALL
    others: Annotated[str, OneOf(raters.SETS, optional=True), Field(description="people elsewhere")] = ""
    catalog: Annotated[str, Field(description="sample, or a catalogue's file")] = sources.SAMPLE
    n_sessions: Annotated[int, Field(ge=_LEAST, le=1_000, description="simulated sessions")] = 120
    n_turns: Annotated[int, Field(ge=1, le=1_000, description="turns of a simulated session")] = 20
    seed: Annotated[Seed, Field(description="seed of the simulated users and of the resamples")] = 1
    encoder: Annotated[str, OneOf((TFIDF, *ENCODERS.names())), Field(description="a second reader")] = TFIDF
    pace: Annotated[str, OneOf((DENSE, NATURAL)), Field(description="as in 03")] = DENSE
    scope: Annotated[str, OneOf(voices.SCOPES), Field(description="as in 03")] = voices.STATED

    def batch(self, choice: str) -> SimulateConfig:
        """The settings of the users with a choice of voices."""
        people = {"voices": choice, "pace": self.pace, "scope": self.scope}
        return SimulateConfig(systems=[SYSTEM], seed=self.seed, n_turns=self.n_turns, **people)


class _UserTurn(NamedTuple):
    """A user turn's words, titles replaced, the conversation that it stands in, and the user's voice."""

    conversation: str
    text: str
    voice: str = ""


def user_turns(dialogues: Iterable[Dialogue], grounder: Grounder) -> list[_UserTurn]:
    """The user turns of conversations, film titles replaced: those tell catalogues apart, not people."""
    found = []
    for talk, pair in _pairs(dialogues):
        text = _DATED.sub(_A_FILM, pair.user.text)
        for title in sorted(grounder.titles(text), key=lambda one: -one.start):
            text = text[: title.start] + _A_FILM + text[title.end :]
        if text.strip():
            name, voice = f"{talk.model_name}/{talk.session_id}", str(talk.extra.get("voice", ""))
            found.append(_UserTurn(name, " ".join(text.split()), voice))
    return found


def _pairs(dialogues: Iterable[Dialogue]) -> Iterator[tuple[Dialogue, Pair]]:
    """Every user turn with its reply, and the conversation that they stand in."""
    return ((dialogue, pair) for dialogue in dialogues for pair in dialogue.pairs())


def small_talk(choice: str, n_sessions: int, n_turns: int, seed: int = 1) -> list[_UserTurn]:
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
            found.append(_UserTurn(f"{SMALL_TALK_ONLY}/{session}", said, voice))
    return found


def _joint_accuracy(dialogues: Iterable[Dialogue]) -> float:
    """The share of turns after which the system holds exactly the user's constraints, in [0, 1]."""
    logs = ((pair.system.meta, pair.user.user_meta) for _, pair in _pairs(dialogues))
    return float(np.mean([ours["constraints"] == theirs["constraints"] for ours, theirs in logs]))


def _two_sample(
    real: Sequence[_UserTurn], simulated: Sequence[_UserTurn], encoder: str = TFIDF, seed: int = 1
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


def _folds(turns: Sequence[_UserTurn], seed: int) -> list[int]:
    """The fold of each turn: voices stay together where there are several, else conversations do."""
    several = len({turn.voice for turn in turns}) >= _FOLDS
    units = [turn.voice if several else turn.conversation for turn in turns]
    order = rng.stream(seed, "realism", "folds").permutation(len(set(units))).tolist()
    fold = {unit: place % _FOLDS for unit, place in zip(sorted(set(units)), order, strict=True)}
    return [fold[unit] for unit in units]


def _whole(turns: Sequence[_UserTurn]) -> list[_UserTurn]:
    """Conversations as one text each."""
    found: dict[str, list[_UserTurn]] = {}
    for turn in turns:
        found.setdefault(turn.conversation, []).append(turn)
    return [of[0]._replace(text=" | ".join(turn.text for turn in of)) for of in found.values()]


def _as_long(turns: Sequence[_UserTurn], real: Sequence[_UserTurn], seed: int) -> list[_UserTurn]:
    """Simulated conversations cut to lengths drawn from those of people."""
    lengths = list(Counter(turn.conversation for turn in real).values())
    draw, names = rng.stream(seed, "realism", "lengths"), pd.Series([turn.conversation for turn in turns])
    most = {name: lengths[int(draw.integers(len(lengths)))] for name in names.unique()}
    places = names.groupby(names).cumcount()
    return [turn for turn, place in zip(turns, places, strict=True) if place < most[turn.conversation]]


def _telling_words(
    real: Sequence[_UserTurn], simulated: Sequence[_UserTurn], n: int = 15
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
    read = raters.conversations if config.dialogues in raters.SETS else logs.read
    every = user_turns(read(config.dialogues), world.grounder) if config.dialogues else []
    halves = [[t for t in every if zlib.crc32(t.conversation.encode()) % 2 == half] for half in (0, 1)]
    real = dict(zip(_HALVES, halves, strict=True)).get(config.people, every)

    def compared(name: str, mine: Sequence[_UserTurn], people: Sequence[_UserTurn], **facts: float) -> Any:
        """The turns of some users beside those of people."""
        row: dict[str, Any] = {"users": name, **facts, **_manner(mine, world.grounder)}
        if people:
            for reader in dict.fromkeys((TFIDF, config.encoder)):
                by = "" if reader == TFIDF else f" by {reader}"
                whole = _two_sample(_whole(people), _whole(mine), reader, config.seed)
                each = _two_sample(people, mine, reader, config.seed)
                row |= {f"{key}{by}": value for key, value in each.items()}
                row |= {f"{key} of dialogues{by}": value for key, value in whole.items()}
            row |= {"real": len(people), "simulated": len(mine)}
            ours, theirs = _telling_words(people, mine)
            row |= {"tells simulated": ", ".join(ours), "tells real": ", ".join(theirs)}
        return row

    rows = []
    for name in (voices.FIRST, voices.ALL, voices.DEVELOPMENT, voices.CONFIRMATION):
        batch = config.batch(name)
        talks = [simulate.session(world, SYSTEM, number, batch) for number in range(config.n_sessions)]
        turns, accuracy = user_turns(talks, world.grounder), _joint_accuracy(talks)
        mine = _as_long(turns, real, config.seed) if real else turns
        rows.append(compared(name, mine, real, joint_accuracy=accuracy))
    if real:
        chat = small_talk(voices.ALL, config.n_sessions, config.n_turns, config.seed)
        rows.append(compared(SMALL_TALK_ONLY, _as_long(chat, real, config.seed), real))
        rows.append(compared("people, one half against the other", *halves))
        if config.others:
            others = user_turns(raters.conversations(config.others), world.grounder)
            rows.append(compared(f"people of {config.others}", others, real))
        rows.append({"users": "people", **_manner(real, world.grounder)})
    return pd.DataFrame(rows)


def _manner(turns: Sequence[_UserTurn], grounder: Grounder) -> dict[str, str]:
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
    normalised gain, shift cost), for :func:`crs_lib.report.statistics.by_voice`.
    """
    catalog = sources.load(config.catalog)
    batch = config.batch(voices.ALL)
    rows = []
    for talk, scores in arms.scored(World(catalog, Grounder(catalog)), batch, config.n_sessions):
        found = {name: scores.session[name] for name in ("normalised_gain", "shift_cost")}
        for name, value in ({"joint accuracy": _joint_accuracy([talk])} | found).items():
            rows.append((talk.extra["voice"], talk.session_id, name, value))
    return pd.DataFrame(rows, columns=["voice", "session_id", "model", "value"])


def _leaks(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per shift with new constraints: ``leaked`` where an earlier utterance names a value that the
    shift brings, unless it was a constraint, to be avoided, planned, or a word of a title.
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


def unlogged(dialogues: Iterable[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per user turn: the values named that are not wanted, given up, to be avoided or an aside's.
    What stands in a film's title, or in the name of a value that the log holds, is not counted.
    """
    rows = []
    for dialogue, pair in _pairs(dialogues):
        log = pair.user.user_meta
        event = log.get("shift_event_obj") or {}
        held = [log["constraints"], log["avoid"], event.get("added"), event.get("dropped")]
        known = {fold(str(value)) for part in held for value in (part or {}).values()}
        found = [match for match in grounder.audit(pair.user.text) if not match.rejected]
        inside = [(m.start, m.end) for m in found if fold(m.value) in known]
        inside += [(title.start, title.end) for title in grounder.titles(pair.user.text)]
        more = {m.value for m in found if not any(a <= m.start and m.end <= b for a, b in inside)}
        shown = [] if log["stage"] == "aside" else sorted(more)
        rows.append((*_place(dialogue, pair), log["stage"], shown))
    return pd.DataFrame(rows, columns=[*_SHIFT[:3], "stage", "unlogged"])


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
    voiced = float(_voiced(dialogues, grounder)["voiced"].mean())
    stated = float(unlogged(dialogues, grounder)["unlogged"].map(bool).mean())
    rows = [
        ("a shift's target is named before it is voiced", early, "0", early == 0),
        ("a shift's utterance voices it", voiced, "1", voiced == 1),
        ("user turns that name a value the log does not hold", stated, "0", stated == 0),
        ("user turns worded differently, oracle against random", differ, "> 0", differ > 0),
        ("user utterances repeated word for word", repeated, "< 0.5", repeated < 0.5),
    ]
    return pd.DataFrame(rows, columns=["check", "share", "expected", "holds"])
