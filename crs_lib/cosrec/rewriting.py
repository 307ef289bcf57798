"""Stand-alone queries: rewrite a user turn so that it makes sense without the conversation.

Heuristics write from the user's turns. The extractor copies words: every word of the user's turns and of the
system's line before is a candidate; boosted trees say how likely an annotator copies it. Words above a
threshold are put in an order that is chosen on the same data.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.settings import Registry
from crs_lib.core.text import words
from crs_lib.cosrec.labels import Floats, shares
from crs_lib.cosrec.records import INTENTS, Conversation, Partition
from crs_lib.metrics.rewriting import SENTENCE, bleu, rouge_l
from crs_lib.stats import Design, cluster_bootstrap

Rewriter = Callable[[Sequence[str]], str]
REWRITERS: Registry[str] = Registry("rewriter")
FILLER = frozenset(
    words(
        "a an the i i'm im me my we you your it its it's this that these those is are was be been am do does "
        "did can could would should will have has had of to in on at for with and or but so if as by from "
        "about like just also hi hello hey thanks thank please yes no ok okay oh great good sounds really "
        "think want need looking look find any some there what which how who when where not more tell know "
        "let see sure that's them they one ones s m d ll ve re t perfect nice interested recommend "
        "recommendation recommendations suggest help"
    )
)


def content_words(text: str) -> list[str]:
    """The folded words of a text that are no filler, in order."""
    return [word for word in words(text) if word not in FILLER]


@REWRITERS.register("last turn")
def _last_turn(said: Sequence[str]) -> str:
    """The user's turn as it is."""
    return said[-1]


@REWRITERS.register("content words")
def _content(said: Sequence[str]) -> str:
    """The turn without filler words."""
    return " ".join(content_words(said[-1])) or said[-1]


@REWRITERS.register("first and last")
def _first_and_last(said: Sequence[str]) -> str:
    """Content words of the opening request, then those the turn adds."""
    opening = content_words(said[0])
    return " ".join([*opening, *(w for w in content_words(said[-1]) if w not in set(opening))]) or said[-1]


@REWRITERS.register("all turns")
def _all_turns(said: Sequence[str]) -> str:
    """Content words of all user turns so far, each once, in the order they first came."""
    return " ".join(dict.fromkeys(word for text in said for word in content_words(text))) or said[-1]


def rewrite(name: str, said: Sequence[str]) -> str:
    """One rewrite by a registered heuristic; InputError for an unknown name."""
    return REWRITERS.create(name, said=said)


def queries(partition: Partition, rewriters: Sequence[str]) -> pd.DataFrame:
    """One row a user turn and rewriter: conversation, turn, rewriter, query, its words."""
    rows = []
    for name, talk in partition.conversations.items():
        for turn in range(len(talk.turns)):
            for rewriter in rewriters:
                query = rewrite(rewriter, talk.said(turn))
                rows.append((name, turn, rewriter, query, len(query.split())))
    return pd.DataFrame(rows, columns=["conversation", "turn", "rewriter", "query", "words"])


def rewriting_prompt(conversation: Conversation, turn: int, intent: str) -> str:
    """The prompt that asks a language model for the stand-alone query of a turn's intent."""
    upto = conversation.utterances[: conversation.turns[turn] + 1]
    lines = "\n".join(f"{'User' if u.speaker == 'U' else 'System'}: {u.text}" for u in upto)
    return prompts.render("cosrec/rewrite", dialogue=lines, intent=intent.replace("_", " "))


def heuristic_rewrites(partition: Partition) -> dict[str, dict[str, str]]:
    """Rewrites by heuristic and intent id, for every curated intent."""
    out: dict[str, dict[str, str]] = {name: {} for name in REWRITERS.names()}
    for intent in partition.all_intents():
        conversation = partition.conversations[intent.conversation]
        said = conversation.said(intent.turn)
        for name in out:
            out[name][intent.id] = rewrite(name, said)
    return out


class _Pair(NamedTuple):
    conversation: str
    candidate: str
    canonical: str
    variants: tuple[str, ...]


def score_rewrites(
    partition: Partition, rewrites: Mapping[str, Mapping[str, str]], **draws: Any
) -> pd.DataFrame:
    """ROUGE-1/2/L, chrF and BLEU in [0, 1] of rewrites by system; one row a system and kind of reference.

    ``canonical``: against the longest variant; ``any variant``: against the closest of all. An intent
    without a rewrite counts as an empty one. ``low`` and ``high`` are the 95 % interval of ROUGE-L over
    conversations.
    """
    rows = []
    for name, found in rewrites.items():
        pairs = [
            _Pair(i.conversation, found.get(i.id, ""), i.canonical, i.variants)
            for i in partition.all_intents()
        ]
        rows += _scored(name, pairs, draws)
    return pd.DataFrame(rows)


def human_rewrites(partition: Partition, **draws: Any) -> pd.DataFrame:
    """The level that people reach: every variant that is not the canonical one, held against the others.

    Against the canonical variant, and against all variants but itself; intents with one variant only,
    and exact copies of the canonical one, are left out. Columns as those of :func:`score_rewrites`.
    """
    pairs = []
    for intent in partition.all_intents():
        for i, variant in enumerate(intent.variants):
            rest = (*intent.variants[:i], *intent.variants[i + 1 :])
            if rest and variant != intent.canonical:
                pairs.append(_Pair(intent.conversation, variant, intent.canonical, rest))
    return pd.DataFrame(_scored("one annotator", pairs, draws))


def _scored(name: str, pairs: Sequence[_Pair], draws: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for kind in ("canonical", "any variant"):
        allowed = [[p.canonical] if kind == "canonical" else list(p.variants) for p in pairs]
        row: dict[str, Any] = {"system": name, "reference": kind}
        for measure, function in SENTENCE.items():
            each = [function(p.candidate, references) for p, references in zip(pairs, allowed, strict=True)]
            row[measure] = float(np.mean(each)) if each else float("nan")
            if measure == "rougeL" and each:
                row |= _interval(pairs, each, draws)
        row["BLEU"] = bleu([p.candidate for p in pairs], allowed) if pairs else float("nan")
        rows.append(row | {"n": len(pairs)})
    return rows


def _interval(pairs: Sequence[_Pair], each: Sequence[float], draws: Mapping[str, Any]) -> dict[str, float]:
    """``low`` and ``high`` of a mean over pairs, conversations drawn."""
    frame = pd.DataFrame({"system": "one", "conversation": [p.conversation for p in pairs], "score": each})
    found = cluster_bootstrap(frame, Design(scenario="conversation", value="score", **draws)).iloc[0]
    return {"low": float(found["low"]), "high": float(found["high"])}


_PLACES = ("last", "system", "opening", "other", "older")  # where a word stands, the order of preference
_LEVELS = np.round(np.arange(0.2, 0.62, 0.04), 2)
_ORDERS = (
    ("last", "other", "opening", "older", "system"),
    ("opening", "older", "other", "system", "last"),
    ("last", "system", "other", "opening", "older"),
    ("system", "older", "opening", "other", "last"),
)


class Task(NamedTuple):
    """One query to write: the conversation, the user turn, the intent's type, and the reference or ""."""

    conversation: Conversation
    turn: int
    intent: str
    reference: str


class _Word(NamedTuple):
    """A word where it stands: folded, place, utterance, position, form, and the words of its utterance."""

    word: str
    place: str
    utterance: int
    position: int
    capital: bool
    question: bool
    length: int


def crowd_tasks(crowd: Partition) -> list[Task]:
    """A task for each turn and intent that at least two annotators and a quarter of them gave.

    The reference is the longest of their queries, as the canonical query of a curated intent is.
    """
    found = []
    for name, records in crowd.annotations.items():
        for record in records:
            part = shares(record)
            for intent in INTENTS:
                queries = [q.query for cell in record.cells for q in cell if q.type == intent]
                if len(queries) >= 2 and part[intent] >= 0.25:
                    reference = max(queries, key=len)
                    found.append(Task(crowd.conversations[name], record.turn, intent, reference))
    return found


def curated_tasks(curated: Partition) -> dict[str, Task]:
    """The task of each curated intent, by its id."""
    return {
        intent.id: Task(
            curated.conversations[intent.conversation], intent.turn, intent.type, intent.canonical
        )
        for intent in curated.all_intents()
    }


def candidates(task: Task) -> list[_Word]:
    """The words that a query may copy: all of the user's so far, the system's line before, older names."""
    talk, turns = task.conversation, task.conversation.turns
    end = turns[task.turn]
    out: list[_Word] = []
    for number in range(end + 1):
        said = talk.utterances[number]
        if said.speaker == "U":
            place = "last" if number == end else "opening" if number == turns[0] else "other"
        else:
            place = "system" if number == end - 1 else "older"
        out += _words(said.text, place, number)
    return [word for word in out if word.place != "older" or word.capital]


def _words(text: str, place: str, number: int) -> Iterable[_Word]:
    sentence_start, found = True, []
    pieces = text.split()
    question = "?" in text
    for piece in pieces:
        capital = not sentence_start and (piece[:1].isupper() or any(c.isdigit() for c in piece))
        for word in words(piece):
            found.append((word, capital))
        sentence_start = piece[-1:] in ".!?"
    return [_Word(w, place, number, i, c, question, len(found)) for i, (w, c) in enumerate(found)]


class _Guess(NamedTuple):
    """A task, its candidates, and how likely each of them is copied."""

    task: Task
    found: list[_Word]
    likely: Floats


class QueryExtractor:
    """Copies the words of a stand-alone query from the conversation; learns from the crowd partition."""

    def fit(self, tasks: Sequence[Task]) -> "QueryExtractor":
        """Learn word habits, trees, threshold and order; InputError for fewer than two conversations."""
        from sklearn.model_selection import GroupKFold

        groups = np.array([task.conversation.id for task in tasks])
        folds = min(3, len(set(groups.tolist())))
        if folds < 2:
            raise InputError("the extractor needs queries of at least two conversations to learn from")
        found = [candidates(task) for task in tasks]
        held: list[_Guess] = []
        for train, test in GroupKFold(folds).split(groups, groups=groups):
            inner = QueryExtractor()
            inner._learn([tasks[k] for k in train], [found[k] for k in train])
            held += inner._guesses([tasks[k] for k in test], [found[k] for k in test])
        self._learn(tasks, found)
        self.choice = {intent: _best(intent, held) for intent in INTENTS}
        return self

    def _learn(self, tasks: Sequence[Task], found: Sequence[list[_Word]]) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        said, copied = Counter[str](), Counter[str]()
        for task, own in zip(tasks, found, strict=True):
            wanted = set(words(task.reference))
            here = {word.word for word in own}
            said.update(here)
            copied.update(here & wanted)
        self._said, self._copied = said, copied
        rows = [self._features(*one) for one in zip(tasks, found, strict=True)]
        labels = [_copied(own, task.reference) for task, own in zip(tasks, found, strict=True)]
        self._trees = HistGradientBoostingClassifier(
            max_iter=300, learning_rate=0.04, max_leaf_nodes=12, min_samples_leaf=40, l2_regularization=5.0,
            random_state=0, early_stopping=False,
        )  # fmt: skip
        with one_thread(None):  # threads that wait for one another cost more than they give here
            self._trees.fit(np.concatenate(rows), np.concatenate(labels))

    def _guesses(self, tasks: Sequence[Task], found: Sequence[list[_Word]]) -> list[_Guess]:
        """How likely each candidate of each task is copied, in [0, 1]."""
        rows = [self._features(*one) for one in zip(tasks, found, strict=True) if one[1]]
        with one_thread(None):
            likely = self._trees.predict_proba(np.concatenate(rows))[:, 1] if rows else np.zeros(0)
        parts = np.split(likely, np.cumsum([len(own) for own in found]))[:-1]
        return [_Guess(*one) for one in zip(tasks, found, parts, strict=True)]

    def rewrites(self, tasks: Sequence[Task]) -> list[str]:
        """The query of each task; the user's turn as it is where no word is likely enough."""
        out = []
        for task, found, likely in self._guesses(tasks, [candidates(task) for task in tasks]):
            level, order = self.choice[task.intent]
            said = task.conversation.utterances[task.conversation.turns[task.turn]].text
            out.append(written(found, likely, level, order) or said)
        return out

    def _habit(self, word: str) -> tuple[float, float]:
        """How often a word is copied where it stands, smoothed, and how common it is."""
        n = self._said[word]
        return (self._copied[word] + 1.0) / (n + 4.0), float(np.log1p(n))

    def _features(self, task: Task, found: Sequence[_Word]) -> Floats:
        """(words, 28): the word's habit and its neighbours', where and how it stands, the intent."""
        times = Counter(word.word for word in found)
        last = {word.word for word in found if word.place == "last"}
        opening = {word.word for word in found if word.place == "opening"}
        system = {word.word for word in found if word.place == "system"}
        habits = [self._habit(word.word) for word in found]
        intent = [float(task.intent == name) for name in INTENTS]
        end = found[-1].utterance if found else 0
        rows = []
        for i, one in enumerate(found):
            row = [*habits[i], float(one.word in FILLER), float(len(one.word)), float(one.capital)]
            for step in (-2, -1, 1, 2):
                j = i + step
                near = 0 <= j < len(found) and found[j].utterance == one.utterance
                row += [habits[j][0] if near else -1.0, float(near and found[j].capital)]
            row += [float(one.place == place) for place in _PLACES]
            row += [float(end - one.utterance), one.position / max(1, one.length), float(one.length)]
            row += [float(times[one.word]), float(one.word in last), float(one.word in opening)]
            row += [float(one.word in system), float(one.question), float(task.turn), *intent]
            rows.append(row)
        return np.asarray(rows)


def _copied(found: Sequence[_Word], reference: str) -> NDArray[np.int64]:
    """1 for a word of the reference; a filler word only beside another word that the reference has there."""
    text = words(reference)
    wanted, pairs = set(text), set(pairwise(text))
    out = np.zeros(len(found), dtype=np.int64)
    for i, one in enumerate(found):
        if one.word not in wanted:
            continue
        before = found[i - 1].word if i and found[i - 1].utterance == one.utterance else ""
        after = found[i + 1].word if i + 1 < len(found) and found[i + 1].utterance == one.utterance else ""
        out[i] = one.word not in FILLER or (before, one.word) in pairs or (one.word, after) in pairs
    return out


def written(found: Sequence[_Word], likely: Floats, level: float, order: Sequence[str]) -> str:
    """The words above a level, each once, place by place in an order, as they stand within a place."""
    rank = {place: i for i, place in enumerate(order)}
    chosen = [i for i in range(len(found)) if likely[i] > level]
    chosen.sort(key=lambda i: (rank[found[i].place], found[i].utterance, found[i].position))
    best: dict[str, int] = {}
    for i in chosen:  # of a word that stands in several places the likeliest one
        word = found[i].word
        if word not in best or likely[i] > likely[best[word]]:
            best[word] = i
    kept = set(best.values())
    return " ".join(found[i].word for i in chosen if i in kept)


def _best(intent: str, held: Sequence[_Guess]) -> tuple[float, tuple[str, ...]]:
    """Level and order with the best ROUGE-L on tasks that were held out; the first of equals."""
    mine = [guess for guess in held if guess.task.intent == intent] or list(held)
    quality = cache(lambda text, reference: rouge_l(text, [reference]) if text else 0.0)

    def score(level: float, order: Sequence[str]) -> float:
        texts = (written(guess.found, guess.likely, level, order) for guess in mine)
        return float(np.mean([quality(text, g.task.reference) for text, g in zip(texts, mine, strict=True)]))

    options = [(score(float(level), order), -i, float(level), order)
               for i, (level, order) in enumerate((v, o) for o in _ORDERS for v in _LEVELS)]  # fmt: skip
    _, _, level, order = max(options, key=lambda option: option[:2])
    return level, order


def extracted_rewrites(crowd: Partition, curated: Partition) -> dict[str, str]:
    """Rewrites by intent id for every curated intent, learned from the crowd partition alone."""
    model: Any = QueryExtractor().fit(crowd_tasks(crowd))
    asked = curated_tasks(curated)
    return dict(zip(asked, model.rewrites(list(asked.values())), strict=True))
