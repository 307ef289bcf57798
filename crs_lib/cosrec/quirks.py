"""The quirk report: everything odd in a partition, named and located, and nothing repaired."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pandas as pd

from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.labels import shares
from crs_lib.cosrec.records import Partition, topic, user_of
from crs_lib.data.logs import Quirk, quirk_counts, quirks_table

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5
_Odd = Iterator[tuple[str, str, object]]  # conversation or topic, what is odd, where exactly


def report(partition: Partition) -> pd.DataFrame:
    """Every quirk, one row each: partition, file, where, quirk, detail; in file order."""
    odd = (
        Quirk(kind, (partition.name, file, where), str(detail))
        for file, check in _CHECKS.items()
        for where, kind, detail in check(partition)
    )
    return quirks_table(odd, ["partition", "file", "where"])


def summary(report: pd.DataFrame) -> pd.DataFrame:
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
            words = user.keywords
            if words is None:
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
