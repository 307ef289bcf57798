"""The statistics of a CoSRec corpus, and which of the release's stated ones they reproduce."""

from collections.abc import Callable, Mapping
from statistics import fmean

import numpy as np
import pandas as pd

from crs_lib.cosrec.records import ASPECTS, INTENTS, Partition, topic

# sha256 of the released files that the stated numbers belong to (revision d2f238d)
RELEASE = {
    "crowd": "fc70cba2cbc558c2a3fcc04b6755e5d25a3a040625ee79c64727a3cd83968cf9",
    "curated": "a5b579f5128e3b55cc752d640a0caef2e695e19c9db93bd4df7515005aad24c8",
}
Corpus = Mapping[str, Partition]


def overview(corpus: Corpus) -> pd.DataFrame:
    """Sizes of the partitions, one row a quantity, one column a partition; None where a file is absent."""
    return pd.DataFrame({name: pd.Series(_sizes(p), dtype=object) for name, p in corpus.items()})


def _sizes(partition: Partition) -> dict[str, float | int | None]:
    said = [u for c in partition.conversations.values() for u in c.utterances]
    words = [len(u.text.split()) for u in said]
    topics = [topic(name) for name in partition.qrels]
    cells = [cell for r in partition.annotations.values() for record in r for cell in record.cells]
    return {
        "conversations": len(partition.conversations),
        "utterances": len(said),
        "user turns": sum(u.speaker == "U" for u in said),
        "words per utterance, mean": round(fmean(words), 1),
        "rating sets": sum(map(len, partition.ratings.values())) or None,
        "annotator views of a turn": len(cells) or None,
        "intents given by annotators": sum(map(len, cells)) or None,
        "curated intents": len(partition.all_intents()) or None,
        "users": sum(map(len, partition.users.values())) or None,
        "search topics": sum(t.kind == "search" for t in topics) or None,
        "recommendation topics": sum(t.kind == "recommendation" for t in topics) or None,
        "judgments": sum(map(len, partition.qrels.values())) or None,
    }


def intent_counts(corpus: Corpus) -> pd.DataFrame:
    """Number of intents by type: given by annotators (crowd), curated, and curated ones with judgments."""
    rows: dict[str, dict[str, int]] = {}
    for name, partition in corpus.items():
        given = [n for r in partition.annotations.values() for t in r for cell in t.cells for n in cell]
        judged = {topic(t).intent for t in partition.qrels}
        for kind in INTENTS:
            row = rows.setdefault(kind, {})
            if given:
                row[f"{name}: given"] = sum(need.type == kind for need in given)
            if partition.intents:
                mine = [i for i in partition.all_intents() if i.type == kind]
                row[f"{name}: curated"] = len(mine)
                row[f"{name}: judged"] = sum(i.id in judged for i in mine)
    return pd.DataFrame.from_dict(rows, orient="index")


def conversation_ratings(corpus: Corpus) -> pd.DataFrame:
    """Mean rating of each rated conversation by aspect, in [1, 5], and ``average`` over the aspects.

    A conversation whose list of ratings is empty is not rated: it has no row.
    """
    rows = []
    for name, partition in corpus.items():
        for key, ratings in ((k, found) for k, found in partition.ratings.items() if found):
            means = {aspect: fmean(r[i] for r in ratings) for i, aspect in enumerate(ASPECTS)}
            average = sum(sum(r) for r in ratings) / (4 * len(ratings))
            rows.append(
                {"partition": name, "conversation": key, **means, "average": average, "raters": len(ratings)}
            )
    return pd.DataFrame(rows, columns=["partition", "conversation", *ASPECTS, "average", "raters"])


def average_rating_counts(ratings: pd.DataFrame) -> pd.Series:
    """Conversations by average rating in bins of 0.5: [1, 1.5), …, [4.5, 5]; the last holds 5 itself."""
    edges = np.arange(1.0, 5.01, 0.5)
    counts, _ = np.histogram(ratings["average"], edges)
    labels = [f"{low:.1f}" for low in edges[:-1]]
    return pd.Series(counts, index=pd.Index(labels, name="average rating from"), name="conversations")


def aspect_rating_counts(ratings: pd.DataFrame) -> pd.DataFrame:
    """Conversations by their mean rating of each aspect, rounded half to even; rows 1 to 5."""
    counts = {aspect: ratings[aspect].round().astype(int).value_counts() for aspect in ASPECTS}
    return pd.DataFrame(counts).reindex(range(1, 6)).fillna(0).astype(int).rename_axis("rating")


def judgments_per_intent(partition: Partition) -> pd.DataFrame:
    """Judged documents of each intent by grade, the user variants of a recommendation pooled."""
    rows: dict[str, dict[int, int]] = {}
    for name, grades in partition.qrels.items():
        row = rows.setdefault(topic(name).intent, {0: 0, 1: 0, 2: 0})
        for grade in grades.values():
            row[grade] = row.get(grade, 0) + 1
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[0, 1, 2]).fillna(0).astype(int)
    return frame.rename_axis("intent")


def judgment_counts(per_intent: pd.DataFrame, width: int = 25) -> pd.DataFrame:
    """Intents by the number of their judgments, in bins of ``width``, one column a grade."""
    bins = per_intent // width
    counts = {grade: bins[grade].value_counts() for grade in per_intent.columns}
    top = int(bins.to_numpy().max(initial=0))
    frame = pd.DataFrame(counts).reindex(range(top + 1)).fillna(0).astype(int)
    return frame.set_axis([f"{i * width}-{(i + 1) * width - 1}" for i in frame.index]).rename_axis(
        "judgments"
    )


def readme_claims(corpus: Corpus) -> pd.DataFrame:
    """The numbers that the release states, those that its files give, and the verdict.

    ``reproduced``, ``differs``, ``not verifiable`` (the files that it would take are not released or not
    here), or ``another corpus`` where the files are not those of the release.
    """
    released = all(
        corpus[name].hashes.get("conversations.jsonl") == digest
        for name, digest in RELEASE.items()
        if name in corpus
    ) and any(name in corpus for name in RELEASE)
    rows = []
    for claim, needs, stated, count, note in _CLAIMS:
        here = all(name in corpus for name in needs)
        found = count(corpus) if here and count else None
        if found is None:
            verdict = "not verifiable"
        elif not released:
            verdict = "another corpus"
        else:
            verdict = "reproduced" if found == stated else "differs"
        rows.append((claim, _shown(stated), _shown(found), verdict, note))
    return pd.DataFrame(rows, columns=["claim", "stated", "found", "verdict", "note"])


def _shown(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _user_turns(name: str) -> Callable[[Corpus], int]:
    return lambda corpus: sum(len(c.turns) for c in corpus[name].conversations.values())


def _rated(corpus: Corpus) -> pd.DataFrame:
    return conversation_ratings({name: corpus[name] for name in ("crowd", "curated")})


def _aspect(aspect: str) -> Callable[[Corpus], list[int]]:
    return lambda corpus: aspect_rating_counts(_rated(corpus))[aspect].tolist()


def _grade(grade: int) -> Callable[[Corpus], list[int]]:
    def counts(corpus: Corpus) -> list[int]:
        found: list[int] = judgment_counts(judgments_per_intent(corpus["curated"]))[grade].tolist()
        return found[: max((i for i, n in enumerate(found) if n), default=-1) + 1]

    return counts


def _indices(corpus: Corpus) -> list[int]:
    indices = {topic(name).user_index for name in corpus["curated"].qrels}
    return sorted(index for index in indices if index is not None)


_EXTRA = "the figure was drawn with one more conversation, rated about 1"
_BOTH = ("crowd", "curated")
_Count = Callable[[Corpus], object]
_CLAIMS: list[tuple[str, tuple[str, ...], object, _Count | None, str]] = [
    ("conversations in all", ("raw", *_BOTH), 9249,
     lambda c: sum(len(p.conversations) for p in c.values()), ""),
    ("raw: conversations", ("raw",), 8938, lambda c: len(c["raw"].conversations), ""),
    ("raw: utterances", ("raw",), 71656, _user_turns("raw"), "8.02 a conversation: user turns are counted"),
    ("crowd: conversations", ("crowd",), 291, lambda c: len(c["crowd"].conversations), ""),
    ("crowd: utterances", ("crowd",), 2329, _user_turns("crowd"), "only user turns are counted"),
    ("curated: conversations", ("curated",), 20, lambda c: len(c["curated"].conversations), ""),
    ("curated: utterances", ("curated",), 150, _user_turns("curated"), "only user turns are counted"),
    ("relevance judgments, in thousands", ("curated",), 17,
     lambda c: sum(map(len, c["curated"].qrels.values())) // 1000, "17,464 lines"),
    ("conversations rated for quality", _BOTH, 311, lambda c: len(_rated(c)), ""),
    ("annotators", (), 99, None, "annotators are anonymous and not linked across conversations"),
    ("user index of a recommendation topic", ("curated",), [0, 1, 2, 3, 4], _indices, "no index 4 occurs"),
    ("products after filtering", (), 12312760, None, "the source catalogue is not part of the release"),
    ("figure: conversations by average rating", _BOTH, [2, 2, 5, 17, 20, 62, 144, 60],
     lambda c: average_rating_counts(_rated(c)).tolist(), f"{_EXTRA}; one rounding at exactly 4.0"),
    ("figure: fluency 1 to 5", _BOTH, [2, 6, 19, 173, 112], _aspect("fluency"), _EXTRA),
    ("figure: informativeness 2 to 5", _BOTH, [10, 41, 211, 47],
     lambda c: _aspect("informativeness")(c)[1:], ""),
    ("figure: logicality 1 to 5", _BOTH, [2, 17, 64, 188, 41], _aspect("logicality"), _EXTRA),
    ("figure: coherence 1 to 5", _BOTH, [2, 15, 41, 161, 93], _aspect("coherence"), _EXTRA),
    ("figure: judgments per intent, grade 2", ("curated",), [35, 20, 13, 8, 15, 6, 4, 2, 1, 0, 1],
     _grade(2), ""),
    ("figure: judgments per intent, grade 1", ("curated",), [41, 30, 14, 9, 5, 3, 2, 1], _grade(1), ""),
    ("figure: judgments per intent, grade 0", ("curated",), [36, 29, 9, 10, 10, 4, 2, 2, 2, 1],
     _grade(0), ""),
]  # fmt: skip
