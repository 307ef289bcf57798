"""The statistics of a CoSRec corpus, and which of the release's stated ones they reproduce."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean

import numpy as np
import pandas as pd

from crs_lib.cosrec.records import ASPECTS, INTENTS, Partition, topic

# sha256 of the released files that the stated numbers belong to (revision d2f238d)
RELEASE = {
    "crowd": "fc70cba2cbc558c2a3fcc04b6755e5d25a3a040625ee79c64727a3cd83968cf9",
    "curated": "a5b579f5128e3b55cc752d640a0caef2e695e19c9db93bd4df7515005aad24c8",
}
GRADES = ("not relevant", "partially relevant", "highly relevant")
_WIDTH = 25  # judgments of a bin
Corpus = Mapping[str, Partition]


def overview(corpus: Corpus) -> pd.DataFrame:
    """Sizes of the partitions, one row a quantity, one column a partition; None where a file is absent."""
    return pd.DataFrame({name: pd.Series(_sizes(p), dtype=object) for name, p in corpus.items()})


def _sizes(partition: Partition) -> dict[str, float | int | None]:
    talks = partition.conversations.values()
    words = [len(text.split()) for talk in talks for text in talk.texts()]
    topics = Counter(topic(name).kind for name in partition.qrels)
    cells = [cell for turns in partition.annotations.values() for turn in turns for cell in turn.cells]
    return {
        "conversations": len(talks), "utterances": len(words),
        "user turns": sum(len(talk.turns) for talk in talks),
        "words per utterance, mean": round(fmean(words), 1),
        "rating sets": sum(map(len, partition.ratings.values())) or None,
        "annotator views of a turn": len(cells) or None,
        "intents given by annotators": sum(map(len, cells)) or None,
        "curated intents": len(partition.all_intents()) or None,
        "users": sum(map(len, partition.users.values())) or None,
        "search topics": topics["search"] or None, "recommendation topics": topics["recommendation"] or None,
        "judgments": sum(map(len, partition.qrels.values())) or None,
    }  # fmt: skip


def intent_counts(corpus: Corpus) -> pd.DataFrame:
    """Number of intents by type: given by annotators (crowd), curated, and curated ones with judgments."""
    columns: dict[str, Counter[str]] = {}
    for name, partition in corpus.items():
        turns = [turn for turns in partition.annotations.values() for turn in turns]
        if given := [label.type for turn in turns for cell in turn.cells for label in cell]:
            columns[f"{name}: given"] = Counter(given)
        if curated := partition.all_intents():
            judged = {topic(name).intent for name in partition.qrels}
            columns[f"{name}: curated"] = Counter(intent.type for intent in curated)
            columns[f"{name}: judged"] = Counter(one.type for one in curated if one.id in judged)
    table = {name: [counts[kind] for kind in INTENTS] for name, counts in columns.items()}
    return pd.DataFrame(table, index=list(INTENTS))


def conversation_ratings(corpus: Corpus) -> pd.DataFrame:
    """Mean rating of each rated conversation by aspect, in [1, 5], and ``average`` over the aspects.

    A conversation whose list of ratings is empty is not rated: it has no row.
    """
    rows = []
    for name, key, given in ((n, *one) for n, part in corpus.items() for one in part.ratings.items()):
        if given:
            means = map(fmean, zip(*given, strict=True))
            rows.append((name, key, *means, sum(map(sum, given)) / 4 / len(given), len(given)))
    return pd.DataFrame(rows, columns=["partition", "conversation", *ASPECTS, "average", "raters"])


def average_rating_counts(ratings: pd.DataFrame) -> pd.DataFrame:
    """Conversations by average rating in bins of 0.5: [1, 1.5), …, [4.5, 5]; the last holds 5 itself.

    ``n_conversations`` is their sum, here and below.
    """
    counts, edges = np.histogram(ratings["average"], np.arange(1.0, 5.01, 0.5))
    frame = pd.DataFrame({"from": [f"{low:.1f}" for low in edges[:-1]], "conversations": counts})
    return frame.assign(n_conversations=int(counts.sum()))


def aspect_rating_counts(ratings: pd.DataFrame) -> pd.DataFrame:
    """Conversations by aspect and their mean rating of it, 1 to 5, rounded half to even."""
    counts = {aspect: ratings[aspect].round().astype(int).value_counts() for aspect in ASPECTS}
    bins = pd.DataFrame(counts).reindex(range(1, 6)).fillna(0).astype(int).rename_axis("rating")
    tidy = bins.reset_index().melt("rating", var_name="aspect", value_name="conversations")
    return tidy.assign(n_conversations=int(bins.sum().max()))


def judgments_per_intent(partition: Partition) -> pd.DataFrame:
    """One row an intent: judged documents by grade, the user variants of a recommendation pooled."""
    counts: dict[str, Counter[int]] = {}
    for name, grades in partition.qrels.items():
        counts.setdefault(topic(name).intent, Counter()).update(grades.values())
    rows = [(intent, *(found[grade] for grade in range(3))) for intent, found in counts.items()]
    return pd.DataFrame(rows, columns=["intent", *range(3)])


def judgment_counts(per_intent: pd.DataFrame) -> pd.DataFrame:
    """Intents by the number of their judgments, in bins of 25, and grade; ``n_intents`` is a grade's sum."""
    bins = per_intent.drop(columns="intent").set_axis(GRADES, axis=1).astype(int) // _WIDTH
    top = int(bins.to_numpy().max(initial=0))
    counts = pd.DataFrame({grade: bins[grade].value_counts() for grade in GRADES})
    counts = counts.reindex(range(top + 1)).fillna(0).astype(int)
    counts.index = pd.Index([f"{n * _WIDTH}-{(n + 1) * _WIDTH - 1}" for n in counts.index], name="judgments")
    tidy = counts.reset_index().melt("judgments", var_name="grade", value_name="intents")
    return tidy.assign(n_intents=int(counts.sum().max()))


def readme_claims(corpus: Corpus) -> pd.DataFrame:
    """The numbers that the release states, those that its files give, and the verdict.

    ``reproduced``, ``differs``, ``not verifiable`` (the files that it would take are not released or not
    here), or ``another corpus`` where the files are not those of the release.
    """
    hashes = {name: corpus[name].hashes.get("conversations.jsonl") for name in RELEASE if name in corpus}
    released = bool(hashes) and all(RELEASE[name] == digest for name, digest in hashes.items())
    rows = []
    for claim, needs, stated, count, note in _CLAIMS:
        here = all(name in corpus for name in needs.split())
        found = count(corpus) if here and count else None
        verdict = "reproduced" if found == stated else "differs"
        verdict = "not verifiable" if found is None else verdict if released else "another corpus"
        rows.append((claim, _shown(stated), _shown(found), verdict, note))
    return pd.DataFrame(rows, columns=["claim", "stated", "found", "verdict", "note"])


def _shown(value: object) -> str:
    return "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _talks(corpus: Corpus, *names: str) -> int:
    return sum(len(corpus[name].conversations) for name in names)


def _user_turns(corpus: Corpus, name: str) -> int:
    return sum(len(talk.turns) for talk in corpus[name].conversations.values())


def _rated(corpus: Corpus) -> pd.DataFrame:
    return conversation_ratings({name: corpus[name] for name in ("crowd", "curated")})


def _averages(corpus: Corpus) -> list[int]:
    return list(average_rating_counts(_rated(corpus))["conversations"])


def _aspect(corpus: Corpus, aspect: str, first: int = 1) -> list[int]:
    bins = aspect_rating_counts(_rated(corpus))
    return list(bins.loc[(bins["aspect"] == aspect) & (bins["rating"] >= first), "conversations"])


def _grade(corpus: Corpus, grade: int) -> list[int]:
    bins = judgment_counts(judgments_per_intent(corpus["curated"]))
    found = list(bins.loc[bins["grade"] == GRADES[grade], "intents"])
    return found[: max((i for i, n in enumerate(found) if n), default=-1) + 1]


def _indices(corpus: Corpus) -> list[int]:
    indices = {topic(name).user_index for name in corpus["curated"].qrels}
    return sorted(index for index in indices if index is not None)


_MORE = "the figure was drawn with one more conversation, rated about 1"
_USER, _BOTH = "only user turns are counted", "crowd curated"
# What is stated, the partitions that it takes, the numbers stated, those of the files, and a note.
_CLAIMS: list[tuple[str, str, object, Callable[[Corpus], object] | None, str]] = [
    ("conversations in all", "raw crowd curated", 9249, lambda c: _talks(c, *c), ""),
    ("raw: conversations", "raw", 8938, lambda c: _talks(c, "raw"), ""),
    ("raw: utterances", "raw", 71656, partial(_user_turns, name="raw"),
     "8.02 a conversation: user turns are counted"),
    ("crowd: conversations", "crowd", 291, lambda c: _talks(c, "crowd"), ""),
    ("crowd: utterances", "crowd", 2329, partial(_user_turns, name="crowd"), _USER),
    ("curated: conversations", "curated", 20, lambda c: _talks(c, "curated"), ""),
    ("curated: utterances", "curated", 150, partial(_user_turns, name="curated"), _USER),
    ("relevance judgments, in thousands", "curated", 17,
     lambda c: sum(map(len, c["curated"].qrels.values())) // 1000, "17,464 lines"),
    ("conversations rated for quality", _BOTH, 311, lambda c: len(_rated(c)), ""),
    ("annotators", "", 99, None, "annotators are anonymous and not linked across conversations"),
    ("user index of a recommendation topic", "curated", [0, 1, 2, 3, 4], _indices, "no index 4 occurs"),
    ("products after filtering", "", 12312760, None, "the source catalogue is not part of the release"),
    ("figure: conversations by average rating", _BOTH, [2, 2, 5, 17, 20, 62, 144, 60], _averages,
     f"{_MORE}; one rounding at exactly 4.0"),
    ("figure: fluency 1 to 5", _BOTH, [2, 6, 19, 173, 112], partial(_aspect, aspect="fluency"), _MORE),
    ("figure: informativeness 2 to 5", _BOTH, [10, 41, 211, 47],
     partial(_aspect, aspect="informativeness", first=2), ""),
    ("figure: logicality 1 to 5", _BOTH, [2, 17, 64, 188, 41], partial(_aspect, aspect="logicality"), _MORE),
    ("figure: coherence 1 to 5", _BOTH, [2, 15, 41, 161, 93], partial(_aspect, aspect="coherence"), _MORE),
    ("figure: judgments per intent, grade 2", "curated", [35, 20, 13, 8, 15, 6, 4, 2, 1, 0, 1],
     partial(_grade, grade=2), ""),
    ("figure: judgments per intent, grade 1", "curated", [41, 30, 14, 9, 5, 3, 2, 1],
     partial(_grade, grade=1), ""),
    ("figure: judgments per intent, grade 0", "curated", [36, 29, 9, 10, 10, 4, 2, 2, 2, 1],
     partial(_grade, grade=0), ""),
]  # fmt: skip
