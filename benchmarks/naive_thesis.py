"""The thesis's way of working, rewritten plainly: the reference that ``bench_thesis.py`` measures against.

Our own code, kept as straightforward as the original was: a loop over all values for every text, every text
extracted anew wherever it is needed (twice a turn, three times a segment, once a logged wish), dense vectors
over the whole vocabulary, one transform per pair of sentences, one inference per text. Its results are
asserted equal to the library's before anything is timed. Tokens and lemmas of the topic model are the
library's (the original's were slower).
"""

import math
import random
import re
import zlib
from collections import Counter
from itertools import pairwise

import numpy as np
from scipy.special import psi
from sklearn.feature_extraction.text import TfidfVectorizer

from crs_lib.core import prompts
from crs_lib.core.dialogue import Dialogue
from crs_lib.thesis.catalog import ThesisCatalog, normalise
from crs_lib.thesis.topics import MOST, STEMS, TopicModel, _hints, admitted, function_words

FIELDS = ("genre", "actor", "director", "writer", "language", "year")
EMPTY = function_words() | prompts.vocabulary("thesis", "short words")


class Concepts:
    """Concept sets and vectors of one text at a time; ``mode`` is "substring" or "embed"."""

    def __init__(self, catalog: ThesisCatalog, mode: str) -> None:
        self.mode = mode
        self.values = {name: list(catalog.index[name]) for name in FIELDS}
        self.terms = [f"{name}={value}" for name in FIELDS for value in self.values[name]]
        self.place = {term: i for i, term in enumerate(self.terms)}
        films = [len(set(catalog.index[name][value])) for name in FIELDS for value in self.values[name]]
        self.idf = [math.log((1 + len(catalog)) / (1 + n)) + 1 for n in films]
        if mode == "embed":
            self.models = {
                name: TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5)).fit(self.values[name])
                for name in FIELDS
            }
            self.matrices = {name: self.models[name].transform(self.values[name]) for name in FIELDS}

    def extract(self, text: str) -> set[str]:
        return {f"{name}={value}" for name, values in self.by_field(text).items() for value in values}

    def by_field(self, text: str) -> dict[str, set[str]]:
        if self.mode == "embed":
            return {name: self.nearest(name, text) for name in FIELDS}
        lowered = text.lower()
        return {name: {value for value in self.values[name] if value in lowered} for name in FIELDS}

    def nearest(self, name: str, text: str) -> set[str]:
        if not text.strip():
            return set()
        cosine = (self.models[name].transform([text]) @ self.matrices[name].T).toarray().ravel()
        order = np.argsort(-cosine, kind="stable")[:3]
        return {self.values[name][i] for i in order if cosine[i] >= 0.35}

    def vector(self, text: str) -> np.ndarray:
        vector = np.zeros(len(self.terms))
        for term in self.extract(text):
            vector[self.place[term]] = self.idf[self.place[term]]
        return vector


class Sentences:
    """TF-IDF similarity of two sentences; ``cached`` keeps every pair for ever, as the older version did."""

    def __init__(self, catalog: ThesisCatalog, vocabulary: list[str], *, cached: bool) -> None:
        self.model = TfidfVectorizer(stop_words="english", ngram_range=(1, 2), vocabulary=vocabulary)
        self.model.fit(catalog.documents)
        self.cache: dict[tuple[str, str], float] | None = {} if cached else None

    def similarity(self, a: str, b: str) -> float:
        key = (a, b) if a <= b else (b, a)
        if self.cache is not None and key in self.cache:
            return self.cache[key]
        first, second = self.model.transform([a]).toarray()[0], self.model.transform([b]).toarray()[0]
        lengths = (np.linalg.norm(first) or 1e-8) * (np.linalg.norm(second) or 1e-8)
        value = float(first @ second / lengths)
        if self.cache is not None:
            self.cache[key] = value
        return value


def jaccard(a: set[str], b: set[str]) -> float:
    return 1.0 if not a and not b else len(a & b) / len(a | b)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / lengths) if lengths else 0.0


def copied(system: str, user: str) -> float:
    pattern, best = r"[a-z0-9]+(?:'[a-z0-9]+)?", 0.0
    said, asked = re.findall(pattern, system.lower()), re.findall(pattern, user.lower())
    for n in (3, 4):
        mine = {tuple(said[i : i + n]) for i in range(len(said) - n + 1)}
        theirs = {tuple(asked[i : i + n]) for i in range(len(asked) - n + 1)}
        if mine:
            best = max(best, len(mine & theirs) / len(mine))
    return best


def grounded(dialogue: Dialogue, concepts: Concepts, sentences: Sentences) -> dict[str, float]:
    """The grounded version's session figures that the library is compared with."""
    rows = []
    for pair in dialogue.pairs():
        user, system = pair.user.text, pair.system.text
        cc = jaccard(concepts.extract(user), concepts.extract(system))
        cr = cosine(concepts.vector(user), concepts.vector(system))
        echo = copied(system, user)
        gold = set()
        for name, value in (pair.user.user_meta.get("constraints") or {}).items():
            if name in FIELDS:
                gold |= {f"{name}={v}" for v in concepts.by_field(str(value))[name]}
        predicted = concepts.extract(system)
        f1 = 2 * len(gold & predicted) / (len(gold) + len(predicted)) if gold or predicted else 1.0
        rows.append(
            (cc, cr, echo, max(-1.0, min(1.0, cc + cr - echo)), sentences.similarity(user, system), f1)
        )
    segments(dialogue, concepts)
    means = np.array(rows).mean(axis=0).tolist()
    names = ("cross_coherence", "context_retention", "topic_interference", "topic_adaptation_score",
             "semantic_similarity_mean", "dst_f1_mean")  # fmt: skip
    return dict(zip(names, means, strict=True))


def segments(dialogue: Dialogue, concepts: Concepts) -> list[tuple[float, float]]:
    """CC and CR of every segment: each text is extracted once more for its set and once for its vector."""
    pairs = dialogue.pairs()
    edges = [1, *(turn for turn in dialogue.shift_turns() if turn > 1), len(pairs) + 1]
    found = []
    for first, after in pairwise(edges):
        sides: list[tuple[set[str], np.ndarray]] = []
        for side in ("user", "system"):
            texts = [getattr(pair, side).text for pair in pairs[first - 1 : after - 1]]
            named = set().union(*(concepts.extract(text) for text in texts))
            sides.append((named, sum(concepts.vector(text) for text in texts)))
        found.append((jaccard(sides[0][0], sides[1][0]), cosine(sides[0][1], sides[1][1])))
    return found


def heuristic(text: str) -> list[str]:
    counts = Counter(re.sub("[^a-z0-9 -]+", " ", text.lower()).split())
    score = {}
    for word, n in counts.items():
        stem = STEMS.search(word)
        worth = 1 + 2 * any(hint in word for hint in _hints()) + 2 * bool(stem and stem.group() != "futur")
        score[word] = 0 if word in EMPTY else n * worth
    return [word for word in sorted(score, key=lambda w: -score[w])[:MOST] if score[word]]


class Topics:
    """Topics of one text at a time, cached by text; ``model`` None is the heuristic."""

    def __init__(self, model: TopicModel | None) -> None:
        self.model = model
        self.cache: dict[str, tuple[str, ...]] = {}

    def of(self, text: str) -> tuple[str, ...]:
        if text not in self.cache:
            self.cache[text] = self.infer(text) if self.model else admitted(heuristic(text))
        return self.cache[text]

    def infer(self, text: str) -> tuple[str, ...]:
        model = self.model
        bag = model.bag(text)
        if not bag:
            return ()
        beta = model.beta[[word for word, _ in bag]].T
        counts = np.array([n for _, n in bag], dtype=np.float32)
        gamma = model._starts[zlib.crc32(text.encode()) % len(model._starts)]
        theta = np.exp(psi(gamma) - psi(gamma.sum()))
        norm = theta @ beta + np.finfo(np.float32).eps
        for _ in range(50):
            before = gamma
            gamma = np.float32(model.alpha) + theta * ((counts / norm) @ beta.T)
            theta = np.exp(psi(gamma) - psi(gamma.sum()))
            norm = theta @ beta + np.finfo(np.float32).eps
            if np.abs(gamma - before).mean() < 0.001:
                break
        shares = gamma / gamma.sum()
        best = int(shares.argmax())
        return model.top_words[best] if shares[best] >= 0.1 else ()


def legacy(dialogue: Dialogue, topics: Topics, sentences: Sentences) -> dict[str, float]:
    """The older version's session figures that the library is compared with."""
    users = [turn.text for turn in dialogue.turns[0::2]]
    systems = [turn.text for turn in dialogue.turns[1::2]]
    cc = [sentences.similarity(a, b) for a, b in zip(users, systems, strict=False)]
    cr = [sentences.similarity(a, b) for a, b in pairwise(systems)]
    firsts = [0]
    for i in range(1, len(users)):
        old, new = set(topics.of(users[i - 1])), set(topics.of(users[i]))
        shared = len(old & new) / len(old | new) if old | new else 0.0
        if sentences.similarity(users[i - 1], users[i]) < 0.55 or shared < 0.35:
            firsts.append(i)
    parts = [" ".join(users[a:b]) for a, b in zip(firsts, [*firsts[1:], len(users)], strict=True)]
    named = [admitted(topics.of(part)) for part in parts]
    recovered, delays = 0, []
    for k in range(1, len(firsts)):
        for seen, reply in enumerate(systems[firsts[k] :], start=1):
            said = admitted(topics.of(reply))
            if said and named[k - 1]:
                alignment(said, named[k - 1], sentences)
            if said and named[k] and alignment(said, named[k], sentences) >= 0.65:
                recovered, delays = recovered + 1, [*delays, seen]
                break
    return {
        "cross_coherence": float(np.mean(cc)),
        "context_retention": float(np.mean(cr)) if cr else 0.0,
        "topic_recovery_rate": recovered / (len(firsts) - 1) if len(firsts) > 1 else 0.0,
        "avg_recovery_delay": float(np.mean(delays)) if delays else 0.0,
    }


def alignment(said: tuple[str, ...], wanted: tuple[str, ...], sentences: Sentences) -> float:
    share = len(set(said) & set(wanted)) / len(set(said) | set(wanted))
    return share if share >= 0.3 else sentences.similarity(" ".join(said), " ".join(wanted))


def recommend(catalog: ThesisCatalog, constraints: dict[str, object]) -> set[int]:
    """The pool of a query: a set a field, built anew; intersected, else united."""
    pools = []
    for name, value in constraints.items():
        index = catalog.index[name]
        films: set[int] = set()
        for one in value if isinstance(value, list) else [value]:
            key = normalise(name, str(one))
            films |= set(index.get(key, ()))
            if key not in index:
                films |= {n for other, numbers in index.items() if key in other for n in numbers}
        if films:
            pools.append(films)
    if not pools:
        return set(range(len(catalog)))
    return set.intersection(*pools) or set.union(*pools)


def recommend_films(catalog: ThesisCatalog, constraints: dict[str, object]) -> list[dict[str, object]]:
    """The pool, shuffled, and the records of its first thirty films, as the original answered."""
    pool = list(recommend(catalog, constraints))
    random.shuffle(pool)
    return [{"title": catalog.titles[n], **catalog.records[n][1]} for n in pool[:30]]
