"""The contents of a corpus: sizes, ratings, judgments, its statistics beside those the release states.

Its irregularities are named and located; nothing is repaired.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import prompts
from crs_lib.core.text import words
from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.labels import quality_agreement, shares
from crs_lib.cosrec.records import ASPECTS, AnnotatedTurn, Buyer, Conversation, Partition, topic, user_of
from crs_lib.data.logs import Quirk, quirk_counts, quirks_table
from crs_lib.stats import Design, cluster_bootstrap_correlation

GRADES = ("not relevant", "partially relevant", "highly relevant")
_WIDTH = 25  # judgments of a bin
_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5
Oddity = tuple[str, object]  # what is odd, where exactly
Located = tuple[str, str, object]  # the same, with the conversation or topic before it
Corpus = Mapping[str, Partition]


def overview(corpus: Corpus) -> pd.DataFrame:
    """Sizes of the partitions, one row a quantity, one column a partition; None where a file is absent."""
    columns = {}
    for name, partition in corpus.items():
        columns[name] = pd.Series(_sizes(partition), dtype=object)
    return pd.DataFrame(columns)


def _sizes(partition: Partition) -> dict[str, float | None]:
    lengths = []
    for talk in partition.conversations.values():
        lengths += [len(text.split()) for text in talk.texts()]
    cells: list[tuple[Any, ...]] = []
    for records in partition.annotations.values():
        for record in records:
            cells += record.cells
    kinds = Counter(topic(name).kind for name in partition.qrels)
    return {
        "conversations": len(partition.conversations),
        "utterances": len(lengths),
        "user turns": len(partition.user_turns()),
        "words per utterance, mean": round(fmean(lengths), 1),
        "rating sets": _total(partition.ratings) or None,
        "annotator views of a turn": len(cells) or None,
        "intents given by annotators": sum(map(len, cells)) or None,
        "curated intents": _total(partition.intents) or None,
        "users": _total(partition.users) or None,
        "search topics": kinds["search"] or None,
        "recommendation topics": kinds["recommendation"] or None,
        "judgments": _total(partition.qrels) or None,
    }


def _total(lists: Mapping[str, Any]) -> int:
    return sum(map(len, lists.values()))


def conversation_ratings(corpus: Corpus) -> pd.DataFrame:
    """Mean rating of each rated conversation by aspect, in [1, 5], and ``average`` over the aspects. A
    conversation whose list of ratings is empty is not rated: it has no row.
    """
    rows = []
    for name, partition in corpus.items():
        for conversation, ratings in partition.ratings.items():
            if ratings:
                means = [fmean(grades) for grades in zip(*ratings, strict=True)]
                average = sum(map(sum, ratings)) / 4 / len(ratings)
                rows.append((name, conversation, *means, average, len(ratings)))
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
    rounded = ratings[list(ASPECTS)].round().astype(int)
    bins = rounded.apply(pd.Series.value_counts).reindex(range(1, 6)).fillna(0).astype(int)
    tidy = bins.rename_axis("rating").reset_index()
    tidy = tidy.melt("rating", var_name="aspect", value_name="conversations")
    return tidy.assign(n_conversations=int(bins.sum().max()))


def _signals(talk: Conversation) -> dict[str, float]:
    """Facts of a conversation that need no rater: lengths, questions, repetition, form."""
    texts = talk.texts()
    user = talk.texts("U")
    speakers = talk.speakers
    tokens = words(" ".join(texts))
    pairs = list(pairwise(tokens))
    return {
        "lines": len(texts),
        "words per line": len(tokens) / len(texts),
        "questions by the user": sum("?" in text for text in user) / max(1, len(user)),
        "distinct words": len(set(tokens)) / max(1, len(tokens)),
        "distinct word pairs": len(set(pairs)) / max(1, len(pairs)),
        "repeated lines": 1 - len(set(texts)) / len(texts),
        "ends with the user": float(speakers.endswith("U")),
        "same speaker twice": float("UU" in speakers or "SS" in speakers),
    }


def signal_table(corpus: Corpus) -> pd.DataFrame:
    """One row a rated conversation: partition, conversation, its mean ratings, one column a signal."""
    ratings = conversation_ratings(corpus)
    rows = []
    for row in ratings.itertuples():
        rows.append(_signals(corpus[row.partition].conversations[row.conversation]))
    return pd.concat([ratings, pd.DataFrame(rows)], axis=1)


def signal_correlations(table: pd.DataFrame, **draws: Any) -> pd.DataFrame:
    """Spearman correlation in [-1, 1] of each signal with the mean rating, strongest first. Intervals of 95 %
    over conversations; NaN for a signal that does not vary.
    """
    first = table.columns.get_loc("raters") + 1
    design = Design(scenario="conversation", **draws)
    rows = []
    for name in table.columns[first:]:
        row = cluster_bootstrap_correlation(table, name, "average", design).iloc[0]
        rows.append([name, row["correlation"], row["low"], row["high"], int(row["n"])])
    frame = pd.DataFrame(rows, columns=["signal", "correlation", "low", "high", "n"])
    strength = frame["correlation"].abs().fillna(-1)
    order = strength.sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def noise_ceiling(corpus: Corpus, **draws: Any) -> pd.DataFrame:
    """The highest correlation with the mean rating that raters' own noise allows: sqrt of ICC(1,k). Beside it
    what one rater reaches against the others. A prediction above the ceiling fits noise; the ceiling is 0
    where the means of conversations differ by no more than noise. One row a partition and ceiling, and, of
    several partitions, ``both`` first: all conversations together.
    """
    parts: dict[str, Corpus] = {}
    if len(corpus) > 1:
        parts["both"] = corpus
    for name, partition in corpus.items():
        parts[name] = {name: partition}
    rows = []
    for name, part in parts.items():
        agreement = quality_agreement(part, **draws)
        average = agreement[agreement["what"] == "average"].set_index("measure")
        bounds = average[["value", "low", "high"]].astype(float)
        perfect = np.sqrt(np.maximum(bounds.loc["ICC(1,k)"], 0))
        rows.append([name, "a perfect predictor", *perfect])
        rows.append([name, "one rater", *bounds.loc["one rater against the others"]])
    return pd.DataFrame(rows, columns=["partition", "ceiling", "correlation", "low", "high"])


def judgments_per_intent(partition: Partition) -> pd.DataFrame:
    """One row an intent: judged documents by grade, the user variants of a recommendation pooled."""
    counts: dict[str, Counter[int]] = {}
    for name, grades in partition.qrels.items():
        intent = topic(name).intent
        counts.setdefault(intent, Counter()).update(grades.values())
    rows = [(intent, grades[0], grades[1], grades[2]) for intent, grades in counts.items()]
    return pd.DataFrame(rows, columns=["intent", *range(3)])


def judgment_counts(per_intent: pd.DataFrame) -> pd.DataFrame:
    """Intents by the number of their judgments, in bins of 25, and grade; ``n_intents`` is a grade's sum."""
    bins = per_intent.drop(columns="intent").set_axis(GRADES, axis=1).astype(int) // _WIDTH
    top = int(bins.to_numpy().max(initial=0))
    counts = bins.apply(pd.Series.value_counts).reindex(range(top + 1)).fillna(0).astype(int)
    counts.index = [f"{n * _WIDTH}-{(n + 1) * _WIDTH - 1}" for n in counts.index]
    tidy = counts.rename_axis("judgments").reset_index()
    tidy = tidy.melt("judgments", var_name="grade", value_name="intents")
    return tidy.assign(n_intents=int(counts.sum().max()))


def readme_claims(corpus: Corpus) -> pd.DataFrame:
    """The numbers that the release states, those that its files give, and the verdict. ``reproduced``,
    ``differs``, ``not verifiable`` (the files that it would take are not released or not here), or ``another
    corpus`` where the files are not those of the release.
    """
    release = prompts.lists("cosrec/release")
    digests = {}
    for name, partition in corpus.items():
        if name in release["digests"]:
            digests[name] = partition.hashes.get("conversations.jsonl")
    released = bool(digests) and digests.items() <= release["digests"].items()
    counts = _counts(corpus)
    rows = []
    for row in release["claims"]:
        count = counts.get(row["claim"])
        verdict = "another corpus"
        if count is None:
            verdict = "not verifiable"
        elif released:
            verdict = "reproduced" if count == row["stated"] else "differs"
        rows.append((row["claim"], _shown(row["stated"]), _shown(count), verdict, row.get("note", "")))
    return pd.DataFrame(rows, columns=["claim", "stated", "found", "verdict", "note"])


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _counts(corpus: Corpus) -> dict[str, object]:
    """What the files of the partitions give, by claim."""
    counts: dict[str, object] = {}
    total = 0
    for name, partition in corpus.items():
        total += len(partition.conversations)
        counts[f"{name}: conversations"] = len(partition.conversations)
        counts[f"{name}: utterances"] = len(partition.user_turns())
    if {"raw", "crowd", "curated"} <= corpus.keys():
        counts["conversations in all"] = total
    if "curated" in corpus:
        counts |= _judgment_claims(corpus["curated"])
    if {"crowd", "curated"} <= corpus.keys():
        counts |= _rating_claims({name: corpus[name] for name in ("crowd", "curated")})
    return counts


def _judgment_claims(curated: Partition) -> dict[str, object]:
    indices = {topic(name).user_index for name in curated.qrels}
    counts: dict[str, object] = {
        "relevance judgments, in thousands": _total(curated.qrels) // 1000,
        "user index of a recommendation topic": sorted(index for index in indices if index is not None),
    }
    bins = judgment_counts(judgments_per_intent(curated))
    for grade, label in enumerate(GRADES):
        intents = bins.loc[bins["grade"] == label, "intents"].tolist()
        while intents and intents[-1] == 0:
            intents.pop()
        counts[f"figure: judgments per intent, grade {grade}"] = intents
    return counts


def _rating_claims(corpus: Corpus) -> dict[str, object]:
    ratings = conversation_ratings(corpus)
    averages = average_rating_counts(ratings)["conversations"].tolist()
    counts: dict[str, object] = {
        "conversations rated for quality": len(ratings),
        "figure: conversations by average rating": averages,
    }
    bins = aspect_rating_counts(ratings).set_index(["aspect", "rating"])["conversations"]
    for aspect in ASPECTS:
        counts[f"figure: {aspect} 1 to 5"] = bins[aspect].tolist()
        counts[f"figure: {aspect} 2 to 5"] = bins[aspect].tolist()[1:]
    return counts


# ── irregularities ──────────────────────────────────────────────────────────────────────────────────


def find_quirks(partition: Partition) -> pd.DataFrame:
    """Every quirk, one row each: partition, file, where, quirk, detail; in file order."""
    quirks = []
    for file, check in _CHECKS.items():
        for where, kind, detail in check(partition):
            quirks.append(Quirk(kind, (partition.name, file, where), str(detail)))
    return quirks_table(quirks, ["partition", "file", "where"])


def quirk_summary(report: pd.DataFrame) -> pd.DataFrame:
    """Number of cases and of places for each quirk, with one example, most frequent first."""
    names = ("cases", "places")
    return quirk_counts(report, ("partition", "file"), "where", names, "where", ("file", "quirk"))


def _conversations(partition: Partition) -> Iterator[Located]:
    for name, talk in partition.conversations.items():
        for kind, detail in (*_of_form(talk), *_of_texts(talk.texts())):
            yield name, kind, detail


def _of_form(talk: Conversation) -> Iterator[Oddity]:
    speakers = talk.speakers
    if not speakers.startswith("U"):
        yield "does not start with the user", speakers[:4]
    if speakers.endswith("U"):
        yield "ends with the user", f"line {len(speakers)}"
    for line in range(1, len(speakers)):
        if speakers[line] == speakers[line - 1]:
            yield f"two {speakers[line]} lines in a row", f"lines {line} and {line + 1}"


def _of_texts(texts: list[str]) -> Iterator[Oddity]:
    for text, times in Counter(texts).items():
        if times > 1:
            yield "repeated utterance", f"{times} times, {len(text)} characters"
    for line, text in enumerate(texts, start=1):
        for match in _PLACEHOLDER.findall(text):
            yield "placeholder left by the generator", f"line {line}: {match}"
        if not text or text != text.strip() or "\n" in text:
            yield "empty, padded or continued line", f"line {line}"
    whole = " ".join(texts)
    if not is_english(whole):
        yield "not English", language(whole)


def _quality(partition: Partition) -> Iterator[Located]:
    for name, ratings in partition.ratings.items():
        if not ratings:
            yield name, "an empty list of ratings", ""
            continue
        for rater, rating in enumerate(ratings):
            if len(set(rating)) == 1:
                yield name, "the same grade for all aspects", f"rater {rater}: {rating[0]}"
        middle = (len(ratings) - 1) // 2
        for aspect, grades in zip(ratings[0]._fields, zip(*ratings, strict=True), strict=True):
            if sorted(grades)[middle] == 1:
                yield name, "median grade of 1", aspect


def _annotations(partition: Partition) -> Iterator[Located]:
    for name, records in partition.annotations.items():
        texts = partition.conversations[name].texts("U")
        recorded = {record.turn for record in records}
        for turn, text in enumerate(texts):
            if turn not in recorded:
                kind = "question without record" if "?" in text else "user turn without record"
                yield name, kind, f"turn {turn} of {len(texts)}"
        if {len(record.cells) for record in records} == {1}:
            yield name, "a single annotator", f"{len(records)} turns"
        for record in records:
            for kind, detail in _of_record(record):
                yield name, kind, f"turn {record.turn}{detail}"


def _of_record(record: AnnotatedTurn) -> Iterator[Oddity]:
    if not record.cells:
        yield "a record without annotators", ""
    for intent, share in shares(record).items():
        if share == 0.5:
            yield "annotators split in halves", f": {intent}"
    for annotator, view in enumerate(record.views):
        if len(view) < len(record.cells[annotator]):
            yield "an intent type twice in one annotation", f", #{annotator}"


def _intents(partition: Partition) -> Iterator[Located]:
    for intent in partition.all_intents():
        variants = intent.variants
        lengths = [len(variant) for variant in variants]
        if variants[0] != intent.canonical:
            yield intent.id, "the longest variant is not the first", len(variants)
        if lengths.count(max(lengths)) > 1:
            yield intent.id, "two longest variants", f"{max(lengths)} characters"
        if len(set(variants)) < len(variants):
            yield intent.id, "the same variant twice", len(variants)
        if intent.product is not None:
            yield intent.id, "field 'product', which is not documented", intent.product


def _profiles(partition: Partition) -> Iterator[Located]:
    for name, users in partition.users.items():
        for user in users:
            if user.profile is None:
                yield name, "user with keywords and no profile", user.id


def _keywords(partition: Partition) -> Iterator[Located]:
    for name, users in partition.users.items():
        for user in users:
            for kind, detail in _of_keywords(user):
                yield name, kind, detail
    if partition.users:
        for name in partition.conversations:
            if name not in partition.users:
                yield name, "conversation without users", ""


def _of_keywords(user: Buyer) -> Iterator[Oddity]:
    words = user.keywords
    if words is None:
        yield "user with a profile and no keywords", user.id
        return
    if "" in words:
        yield "empty keyword", user.id
    if len(words) > _MOST_KEYWORDS:
        yield "more than five keywords", f"{user.id}: {len(words)}"
    if len(set(words)) < len(words):
        yield "the same keyword twice", user.id


def _qrels(partition: Partition) -> Iterator[Located]:
    kinds = {intent.id: intent.type for intent in partition.all_intents()}
    for name, grades in partition.qrels.items():
        judged = topic(name)
        if kinds.get(judged.intent) != judged.kind:
            yield name, "topic without its intent", kinds.get(judged.intent)
        for grade in (0, 2):
            if grade not in grades.values():
                yield name, f"no document of grade {grade}", f"{len(grades)} judged"
        if judged.user_index is not None and user_of(partition, judged, "as_documented") is None:
            yield name, "user index without a user (as documented)", judged.user_index
        for document in grades:
            if judged.kind == "recommendation" and document != document.upper():
                yield name, "item id in lower case", document


_CHECKS: dict[str, Callable[[Partition], Iterator[Located]]] = {
    "conversations.jsonl": _conversations,
    "quality.jsonl": _quality,
    "intent_annotations.jsonl": _annotations,
    "intents.jsonl": _intents,
    "profiles.jsonl": _profiles,
    "keywords.jsonl": _keywords,
    "qrels.qrels": _qrels,
}
