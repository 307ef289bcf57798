"""The contents of a corpus: statistics beside those that the release states, and everything odd, located."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core.text import words
from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.labels import quality_agreement, shares
from crs_lib.cosrec.records import ASPECTS, Conversation, Partition, topic, user_of
from crs_lib.data.logs import Quirk, quirk_counts, quirks_table
from crs_lib.stats import Design, cluster_bootstrap_correlation

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


def conversation_ratings(corpus: Corpus) -> pd.DataFrame:
    """Mean rating of each rated conversation by aspect, in [1, 5], and ``average`` over the aspects. A
    conversation whose list of ratings is empty is not rated: it has no row.
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


def _signals(conversation: Conversation) -> dict[str, float]:
    """Facts of a conversation that need no rater: lengths, questions, repetition, form."""
    said, user = conversation.texts(), conversation.texts("U")
    speakers = [one.speaker for one in conversation.utterances]
    tokens = [word for text in said for word in words(text)]
    pairs = list(pairwise(tokens))
    return {
        "lines": len(said), "words per line": len(tokens) / len(said),
        "questions by the user": sum("?" in text for text in user) / max(1, len(user)),
        "distinct words": len(set(tokens)) / max(1, len(tokens)),
        "distinct word pairs": len(set(pairs)) / max(1, len(pairs)),
        "repeated lines": 1 - len(set(said)) / len(said), "ends with the user": float(speakers[-1] == "U"),
        "same speaker twice": float(any(a == b for a, b in pairwise(speakers))),
    }  # fmt: skip


def signal_table(corpus: Mapping[str, Partition]) -> pd.DataFrame:
    """One row a rated conversation: partition, conversation, its mean ratings, one column a signal."""
    ratings = conversation_ratings(corpus)
    talks = [corpus[row.partition].conversations[row.conversation] for row in ratings.itertuples()]
    return pd.concat([ratings, pd.DataFrame(map(_signals, talks))], axis=1)


def signal_correlations(table: pd.DataFrame, **draws: Any) -> pd.DataFrame:
    """Spearman correlation in [-1, 1] of each signal with the mean rating, strongest first. Intervals of 95 %
    over conversations; NaN for a signal that does not vary.
    """
    first, design = list(table.columns).index("raters") + 1, Design(scenario="conversation", **draws)
    rows = []
    for name in table.columns[first:]:
        found = cluster_bootstrap_correlation(table, name, "average", design).iloc[0]
        rows.append([name, found["correlation"], found["low"], found["high"], int(found["n"])])
    frame = pd.DataFrame(rows, columns=["signal", "correlation", "low", "high", "n"])
    order = frame["correlation"].abs().fillna(-1).sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def noise_ceiling(corpus: Mapping[str, Partition], **draws: Any) -> pd.DataFrame:
    """The highest correlation with the mean rating that raters' own noise allows: sqrt of ICC(1,k). Beside it
    what one rater reaches against the others. A prediction above the ceiling fits noise; the ceiling is 0
    where the means of conversations differ by no more than noise. One row a partition and ceiling, and, of
    several partitions, ``both`` first: all conversations together.
    """
    parts = {name: {name: partition} for name, partition in corpus.items()}
    rows = []
    for held, part in ({"both": dict(corpus)} | parts if len(corpus) > 1 else parts).items():
        found = quality_agreement(part, **draws)
        average = found[found["what"] == "average"].set_index("measure")[["value", "low", "high"]]
        perfect = np.sqrt(np.maximum(average.loc["ICC(1,k)"].to_numpy(dtype=float), 0))
        rows.append([held, "a perfect predictor", *perfect.tolist()])
        rows.append([held, "one rater", *average.loc["one rater against the others"].astype(float)])
    return pd.DataFrame(rows, columns=["partition", "ceiling", "correlation", "low", "high"])


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
    """The numbers that the release states, those that its files give, and the verdict. ``reproduced``,
    ``differs``, ``not verifiable`` (the files that it would take are not released or not here), or ``another
    corpus`` where the files are not those of the release.
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


def _size(corpus: Corpus, name: str, quantity: str) -> object:
    return _sizes(corpus[name])[quantity]


def _rated(corpus: Corpus) -> pd.DataFrame:
    return conversation_ratings({name: corpus[name] for name in ("crowd", "curated")})


def _aspect(corpus: Corpus, aspect: str, first: int = 1) -> list[int]:
    bins = aspect_rating_counts(_rated(corpus))
    return list(bins.loc[(bins["aspect"] == aspect) & (bins["rating"] >= first), "conversations"])


def _grade(corpus: Corpus, grade: int) -> list[int]:
    bins = judgment_counts(judgments_per_intent(corpus["curated"]))
    found = list(bins.loc[bins["grade"] == GRADES[grade], "intents"])
    return found[: max((i for i, n in enumerate(found) if n), default=-1) + 1]


_MORE = "the figure was drawn with one more conversation, rated about 1"
_USER, _BOTH = "only user turns are counted", "crowd curated"
# What is stated, the partitions that it takes, the numbers stated, those of the files, and a note.
_CLAIMS: list[tuple[str, str, object, Callable[[Corpus], object] | None, str]] = [
    ("conversations in all", "raw crowd curated", 9249,
     lambda c: sum(len(partition.conversations) for partition in c.values()), ""),
    ("raw: conversations", "raw", 8938, lambda c: _size(c, "raw", "conversations"), ""),
    ("raw: utterances", "raw", 71656, lambda c: _size(c, "raw", "user turns"),
     "8.02 a conversation: user turns are counted"),
    ("crowd: conversations", "crowd", 291, lambda c: _size(c, "crowd", "conversations"), ""),
    ("crowd: utterances", "crowd", 2329, lambda c: _size(c, "crowd", "user turns"), _USER),
    ("curated: conversations", "curated", 20, lambda c: _size(c, "curated", "conversations"), ""),
    ("curated: utterances", "curated", 150, lambda c: _size(c, "curated", "user turns"), _USER),
    ("relevance judgments, in thousands", "curated", 17,
     lambda c: sum(map(len, c["curated"].qrels.values())) // 1000, "17,464 lines"),
    ("conversations rated for quality", _BOTH, 311, lambda c: len(_rated(c)), ""),
    ("annotators", "", 99, None, "annotators are anonymous and not linked across conversations"),
    ("user index of a recommendation topic", "curated", [0, 1, 2, 3, 4],
     lambda c: sorted({i for one in map(topic, c["curated"].qrels) if (i := one.user_index) is not None}),
     "no index 4 occurs"),
    ("products after filtering", "", 12312760, None, "the source catalogue is not part of the release"),
    ("figure: conversations by average rating", _BOTH, [2, 2, 5, 17, 20, 62, 144, 60],
     lambda c: list(average_rating_counts(_rated(c))["conversations"]),
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


# ── irregularities: named and located, nothing repaired ─────────────────────────────────────────────

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5
_Odd = Iterator[tuple[str, str, object]]  # conversation or topic, what is odd, where exactly


def find_quirks(partition: Partition) -> pd.DataFrame:
    """Every quirk, one row each: partition, file, where, quirk, detail; in file order."""
    odd = (
        Quirk(kind, (partition.name, file, where), str(detail))
        for file, check in _CHECKS.items()
        for where, kind, detail in check(partition)
    )
    return quirks_table(odd, ["partition", "file", "where"])


def quirk_summary(report: pd.DataFrame) -> pd.DataFrame:
    """Number of cases and of places for each quirk, with one example, most frequent first."""
    by, ties = ("partition", "file"), ("file", "quirk")
    return quirk_counts(report, by, "where", ("cases", "places"), "where", ties)


def _conversations(partition: Partition) -> _Odd:
    for name, conversation in partition.conversations.items():
        texts = conversation.texts()
        speakers = "".join(u.speaker for u in conversation.utterances)
        if speakers[0] != "U":
            yield name, "does not start with the user", speakers[:4]
        if speakers[-1] == "U":
            yield name, "ends with the user", f"line {len(texts)}"
        for i in range(1, len(texts)):
            if speakers[i] == speakers[i - 1]:
                yield name, f"two {speakers[i]} lines in a row", f"lines {i} and {i + 1}"
        for text, times in Counter(texts).items():
            if times > 1:
                yield name, "repeated utterance", f"{times} times, {len(text)} characters"
        for i, text in enumerate(texts, start=1):
            for match in _PLACEHOLDER.findall(text):
                yield name, "placeholder left by the generator", f"line {i}: {match}"
            if not text.strip() or text != text.strip() or "\n" in text:
                yield name, "empty, padded or continued line", f"line {i}"
        if not is_english(" ".join(texts)):
            yield name, "not English", language(" ".join(texts))


def _quality(partition: Partition) -> _Odd:
    for name, ratings in partition.ratings.items():
        if not ratings:
            yield name, "an empty list of ratings", ""
        for i, rating in enumerate(ratings):
            if len(set(rating)) == 1:
                yield name, "the same grade for all aspects", f"rater {i}: {rating[0]}"
        for aspect in range(4):
            grades = sorted(r[aspect] for r in ratings)
            if grades and grades[(len(grades) - 1) // 2] == 1:
                yield name, "median grade of 1", ratings[0]._fields[aspect]


def _annotations(partition: Partition) -> _Odd:
    for name, records in partition.annotations.items():
        texts, seen = partition.conversations[name].texts("U"), {record.turn for record in records}
        for turn in (turn for turn in range(len(texts)) if turn not in seen):
            kind = "question without record" if "?" in texts[turn] else "user turn without record"
            yield name, kind, f"turn {turn} of {len(texts)}"
        if {len(record.cells) for record in records} == {1}:
            yield name, "a single annotator", f"{len(records)} turns"
        for record in records:
            if not record.cells:
                yield name, "a record without annotators", f"turn {record.turn}"
            for intent, share in shares(record).items():
                if share == 0.5:
                    yield name, "annotators split in halves", f"turn {record.turn}: {intent}"
            for i, cell in enumerate(record.cells):
                if len({need.type for need in cell}) < len(cell):
                    yield name, "an intent type twice in one annotation", f"turn {record.turn}, #{i}"


def _intents(partition: Partition) -> _Odd:
    for intent in partition.all_intents():
        lengths = sorted(map(len, intent.variants))
        if intent.variants[0] != intent.canonical:
            yield intent.id, "the longest variant is not the first", len(intent.variants)
        if len(lengths) > 1 and lengths[-1] == lengths[-2]:
            yield intent.id, "two longest variants", f"{lengths[-1]} characters"
        if len(set(intent.variants)) < len(intent.variants):
            yield intent.id, "the same variant twice", len(intent.variants)
        if intent.product is not None:
            yield intent.id, "field 'product', which is not documented", intent.product


def _profiles(partition: Partition) -> _Odd:
    for name, users in partition.users.items():
        for user in (user for user in users if user.profile is None):
            yield name, "user with keywords and no profile", user.id


def _keywords(partition: Partition) -> _Odd:
    for name, users in partition.users.items():
        for user in users:
            if (words := user.keywords) is None:
                yield name, "user with a profile and no keywords", user.id
                continue
            if "" in words:
                yield name, "empty keyword", user.id
            if len(words) > _MOST_KEYWORDS:
                yield name, "more than five keywords", f"{user.id}: {len(words)}"
            if len(set(words)) < len(words):
                yield name, "the same keyword twice", user.id
    if partition.users:
        for name in (c for c in partition.conversations if c not in partition.users):
            yield name, "conversation without users", ""


def _qrels(partition: Partition) -> _Odd:
    known = {intent.id: intent.type for intent in partition.all_intents()}
    for name, grades in partition.qrels.items():
        judged = topic(name)
        if known.get(judged.intent) != judged.kind:
            yield name, "topic without its intent", known.get(judged.intent)
        for grade in sorted({0, 2}.difference(grades.values())):
            yield name, f"no document of grade {grade}", f"{len(grades)} judged"
        if judged.user_index is not None and user_of(partition, judged, "as_documented") is None:
            yield name, "user index without a user (as documented)", judged.user_index
        for document in grades:
            if judged.kind == "recommendation" and document != document.upper():
                yield name, "item id in lower case", document


_CHECKS: dict[str, Callable[[Partition], _Odd]] = {
    "conversations.jsonl": _conversations, "quality.jsonl": _quality,
    "intent_annotations.jsonl": _annotations, "intents.jsonl": _intents, "profiles.jsonl": _profiles,
    "keywords.jsonl": _keywords, "qrels.qrels": _qrels,
}  # fmt: skip
