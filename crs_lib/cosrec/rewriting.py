"""Stand-alone queries: rewrite a user turn so that it makes sense without the conversation.

Heuristics write from the user's turns. The extractor copies words: every word of the user's turns and of the
system's line before is a candidate; boosted trees say how likely an annotator copies it. Words above a
threshold are put in an order that is chosen on the same data.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.rng import one_thread
from crs_lib.core.text import words
from crs_lib.cosrec.labels import Floats, grouped_folds, shares
from crs_lib.cosrec.records import INTENTS, Conversation, Partition
from crs_lib.metrics.rewriting import SENTENCE, bleu, rouge_l
from crs_lib.stats import Design, cluster_bootstrap


@cache
def _filler() -> frozenset[str]:
    return frozenset(words(prompts.lists("cosrec/template")["filler"]))


def content_words(text: str) -> list[str]:
    """The folded words of a text that are no filler, in order."""
    return [word for word in words(text) if word not in _filler()]


def _first_and_last(said: Sequence[str]) -> list[str]:
    opening = content_words(said[0])
    return [*opening, *(word for word in content_words(said[-1]) if word not in set(opening))]


# What the user said so far -> the words of a query: the turn, its content words, those of the opening request
# and then those that the turn adds, those of all turns, each once, as they first came.
REWRITERS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "last turn": lambda said: said[-1:],
    "content words": lambda said: content_words(said[-1]),
    "first and last": _first_and_last,
    "all turns": lambda said: list(dict.fromkeys(word for text in said for word in content_words(text))),
}


def rewrite(name: str, said: Sequence[str]) -> str:
    """One rewrite by a heuristic; the turn as it is where no word is left."""
    return " ".join(REWRITERS[name](said)) or said[-1]


def queries(partition: Partition, rewriters: Sequence[str]) -> pd.DataFrame:
    """One row a user turn and rewriter: conversation, turn, rewriter, query, its words."""
    rows = [
        (name, turn, rewriter, rewrite(rewriter, talk.said(turn)))
        for name, talk in partition.conversations.items()
        for turn, rewriter in product(range(len(talk.turns)), rewriters)
    ]
    frame = pd.DataFrame(rows, columns=["conversation", "turn", "rewriter", "query"])
    return frame.assign(words=[len(query.split()) for query in frame["query"]])


def heuristic_rewrites(partition: Partition) -> dict[str, dict[str, str]]:
    """Rewrites by heuristic and intent id, for every curated intent."""
    said = {i.id: partition.conversations[i.conversation].said(i.turn) for i in partition.all_intents()}
    return {name: {key: rewrite(name, lines) for key, lines in said.items()} for name in REWRITERS}


# Conversation, candidate, canonical reference, all references.
_Pair = tuple[str, str, str, Sequence[str]]
_Rewrites = Mapping[str, Mapping[str, str]]  # by system and intent id


def score_rewrites(partition: Partition, rewrites: _Rewrites, **draws: Any) -> pd.DataFrame:
    """ROUGE-1/2/L, chrF and BLEU in [0, 1] of rewrites by system; one row a system and kind of reference.
    ``canonical``: against the longest variant; ``any variant``: against the closest of all. An intent without
    a rewrite counts as an empty one. ``low`` and ``high`` are the 95 % interval of ROUGE-L over
    conversations.
    """
    rows: list[dict[str, Any]] = []
    for name, found in rewrites.items():
        asked = partition.all_intents()
        pairs = [(i.conversation, found.get(i.id, ""), i.canonical, i.variants) for i in asked]
        rows += _scored(name, pairs, draws)
    return pd.DataFrame(rows)


def human_rewrites(partition: Partition, **draws: Any) -> pd.DataFrame:
    """The level that people reach: every variant that is not the canonical one, held against the others.
    Against the canonical variant, and against all variants but itself; intents with one variant only, and
    exact copies of the canonical one, are left out. Columns as those of :func:`score_rewrites`.
    """
    pairs: list[_Pair] = [
        (intent.conversation, variant, intent.canonical, (*intent.variants[:i], *intent.variants[i + 1 :]))
        for intent in partition.all_intents()
        for i, variant in enumerate(intent.variants)
        if len(intent.variants) > 1 and variant != intent.canonical
    ]
    return pd.DataFrame(_scored("one annotator", pairs, draws))


def _scored(name: str, pairs: Sequence[_Pair], draws: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    texts = [candidate for _, candidate, _, _ in pairs]
    references = {
        "canonical": [[canonical] for *_, canonical, _ in pairs],
        "any variant": [list(variants) for *_, variants in pairs],
    }
    for kind, allowed in references.items():
        row: dict[str, Any] = {"system": name, "reference": kind}
        for measure, function in SENTENCE.items():
            each = [function(text, several) for text, several in zip(texts, allowed, strict=True)]
            row[measure] = float(np.mean(each)) if each else float("nan")
            if measure == "rougeL" and each:
                talks = [pair[0] for pair in pairs]
                frame = pd.DataFrame({"system": "one", "conversation": talks, "score": each})
                found = cluster_bootstrap(frame, Design(scenario="conversation", value="score", **draws))
                row |= found.iloc[0][["low", "high"]].astype(float).to_dict()
        row["BLEU"] = bleu(texts, allowed) if pairs else float("nan")
        yield row | {"n": len(pairs)}


_PLACES = ("last", "system", "opening", "other", "older")  # where a word stands, the order of preference
_LEVELS = np.round(np.arange(0.2, 0.62, 0.04), 2).tolist()
_ORDERS = (
    ("last", "other", "opening", "older", "system"), ("opening", "older", "other", "system", "last"),
    ("last", "system", "other", "opening", "older"), ("system", "older", "opening", "other", "last"),
)  # fmt: skip


class _Word(NamedTuple):
    """A word where it stands: folded, place, utterance, position, form, and the words of its utterance."""

    word: str
    place: str
    utterance: int
    position: int
    capital: bool
    question: bool
    length: int


class _Task(NamedTuple):
    """One query to write: the user turn, the intent's type, the reference or "", and the candidate words. A
    query may copy all words of the user so far, those of the system's line before, and older names.
    """

    conversation: str
    turn: int
    said: str
    intent: str
    reference: str
    words: list[_Word]

    @classmethod
    def of(cls, talk: Conversation, turn: int, intent: str, reference: str = "") -> "_Task":
        """The task of a user turn of a conversation."""
        end, opening = talk.turns[turn], talk.turns[0]
        found: list[_Word] = []
        for number, (speaker, text) in enumerate(talk.utterances[: end + 1]):
            if speaker == "U":
                place = "last" if number == end else "opening" if number == opening else "other"
            else:
                place = "system" if number == end - 1 else "older"
            found += (word for word in _words(text, place, number) if place != "older" or word.capital)
        return cls(talk.id, turn, talk.utterances[end].text, intent, reference, found)


def _words(text: str, place: str, number: int) -> list[_Word]:
    sentence_start, found = True, []
    for piece in text.split():
        capital = not sentence_start and (piece[:1].isupper() or any(c.isdigit() for c in piece))
        found += [(word, capital) for word in words(piece)]
        sentence_start = piece[-1:] in ".!?"
    return [_Word(w, place, number, i, c, "?" in text, len(found)) for i, (w, c) in enumerate(found)]


def _crowd_tasks(crowd: Partition) -> list[_Task]:
    """A task for each turn and intent that at least two annotators and a quarter of them gave. The reference
    is the longest of their queries, as the canonical query of a curated intent is.
    """
    found = []
    for name, turns in crowd.annotations.items():
        for record, intent in product(turns, INTENTS):
            asked = [label.query for cell in record.cells for label in cell if label.type == intent]
            if len(asked) >= 2 and shares(record)[intent] >= 0.25:
                found.append(_Task.of(crowd.conversations[name], record.turn, intent, max(asked, key=len)))
    return found


class _QueryExtractor:
    """Copies the words of a stand-alone query from the conversation; learns from the crowd partition."""

    def fit(self, tasks: Sequence[_Task]) -> "_QueryExtractor":
        """Learn word habits, trees, threshold and order; InputError for fewer than two conversations."""
        groups, held = np.array([task.conversation for task in tasks]), list[tuple[_Task, Floats]]()
        for train, test in grouped_folds(groups, 3):
            inner = _QueryExtractor()
            inner._learn([tasks[k] for k in train])
            held += inner._likely([tasks[k] for k in test])
        self._learn(tasks)
        self.choice = {intent: _best(intent, held) for intent in INTENTS}
        return self

    def _learn(self, tasks: Sequence[_Task]) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        self._said, self._copied = Counter[str](), Counter[str]()
        for task in tasks:
            here = {one.word for one in task.words}
            self._said.update(here)
            self._copied.update(here.intersection(words(task.reference)))
        rows, labels = [self._features(task) for task in tasks], [_copied(task) for task in tasks]
        self._trees = HistGradientBoostingClassifier(
            max_iter=300, learning_rate=0.04, max_leaf_nodes=12, min_samples_leaf=40, l2_regularization=5.0,
            random_state=0, early_stopping=False,
        )  # fmt: skip
        with one_thread(None):  # threads that wait for one another cost more than they give here
            self._trees.fit(np.concatenate(rows), np.concatenate(labels))

    def _likely(self, tasks: Sequence[_Task]) -> list[tuple[_Task, Floats]]:
        """How likely each candidate of each task is copied, in [0, 1]."""
        rows = [self._features(task) for task in tasks if task.words]
        with one_thread(None):
            likely = self._trees.predict_proba(np.concatenate(rows))[:, 1] if rows else np.zeros(0)
        parts = np.split(likely, np.cumsum([len(task.words) for task in tasks]))[:-1]
        return list(zip(tasks, parts, strict=True))

    def rewrites(self, tasks: Sequence[_Task]) -> list[str]:
        """The query of each task; the user's turn as it is where no word is likely enough."""
        guesses = self._likely(tasks)
        return [_written(task, likely, *self.choice[task.intent]) or task.said for task, likely in guesses]

    def _features(self, task: _Task) -> Floats:
        """(words, 28): the word's habit and its neighbours', where and how it stands, the intent."""
        found = task.words
        times = Counter(one.word for one in found)
        at = {place: {one.word for one in found if one.place == place} for place in _PLACES}
        # how often a word is copied where it stands, smoothed, and how common it is
        said = [self._said[one.word] for one in found]
        habits = [(self._copied[one.word] + 1.0) / (n + 4.0) for one, n in zip(found, said, strict=True)]
        end = found[-1].utterance if found else 0
        rows = []
        for i, one in enumerate(found):
            row = [habits[i], np.log1p(said[i]), one.word in _filler(), len(one.word), one.capital]
            for j in (i - 2, i - 1, i + 1, i + 2):
                near = 0 <= j < len(found) and found[j].utterance == one.utterance
                row += [habits[j] if near else -1.0, near and found[j].capital]
            row += [one.place == place for place in _PLACES]
            row += [end - one.utterance, one.position / max(1, one.length), one.length, times[one.word]]
            row += [one.word in at["last"], one.word in at["opening"], one.word in at["system"]]
            row += [one.question, task.turn, *(task.intent == name for name in INTENTS)]
            rows.append(row)
        return np.asarray(rows, dtype=np.float64)


def _copied(task: _Task) -> NDArray[np.int64]:
    """1 for a word of the reference; a filler word only beside another word that the reference has there."""
    text, found = words(task.reference), task.words
    wanted, near = set(text), set(pairwise(text))
    pairs = [(a.word, b.word) in near and a.utterance == b.utterance for a, b in pairwise(found)]
    beside = [before or after for before, after in pairwise([False, *pairs, False])]
    pairs_of = zip([one.word for one in found], beside, strict=False)
    return np.array([word in wanted and (word not in _filler() or by) for word, by in pairs_of], np.int64)


def _written(task: _Task, likely: Floats, level: float, order: Sequence[str]) -> str:
    """The words above a level, each once, place by place in an order, as they stand within a place."""
    found = task.words
    chosen = [i for i in range(len(found)) if likely[i] > level]
    chosen.sort(key=lambda i: (order.index(found[i].place), found[i].utterance, found[i].position))
    best: dict[str, int] = {}
    for i in chosen:  # of a word that stands in several places the likeliest one
        word = found[i].word
        if word not in best or likely[i] > likely[best[word]]:
            best[word] = i
    kept = set(best.values())
    return " ".join(found[i].word for i in chosen if i in kept)


def _best(intent: str, held: Sequence[tuple[_Task, Floats]]) -> tuple[float, tuple[str, ...]]:
    """Level and order with the best ROUGE-L on tasks that were held out; the first of equals."""
    mine = [guess for guess in held if guess[0].intent == intent] or list(held)
    quality = cache(lambda text, reference: rouge_l(text, [reference]) if text else 0.0)

    def score(choice: tuple[tuple[str, ...], float]) -> float:
        order, level = choice
        return float(np.mean([quality(_written(*guess, level, order), guess[0].reference) for guess in mine]))

    order, level = max(product(_ORDERS, _LEVELS), key=score)
    return level, order


def extracted_rewrites(crowd: Partition, curated: Partition) -> dict[str, str]:
    """Rewrites by intent id for every curated intent, learned from the crowd partition alone."""
    talks, intents = curated.conversations, curated.all_intents()
    asked = [_Task.of(talks[i.conversation], i.turn, i.type, i.canonical) for i in intents]
    made = _QueryExtractor().fit(_crowd_tasks(crowd)).rewrites(asked)
    return dict(zip([intent.id for intent in intents], made, strict=True))
