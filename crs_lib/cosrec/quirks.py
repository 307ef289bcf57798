"""The quirk report: everything odd in a partition, named and located, and nothing repaired."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pandas as pd

from crs_lib.cosrec.labels import shares
from crs_lib.cosrec.language import language
from crs_lib.cosrec.records import Partition, topic, user_of
from crs_lib.data.quirks import Quirk, quirk_counts, quirks_table

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5
_Found = Iterator[tuple[str, str, object]]  # conversation or topic, what is odd, where exactly


def report(partition: Partition) -> pd.DataFrame:
    """Every quirk, one row each: partition, file, where, quirk, detail; in file order."""
    odd = (
        Quirk(kind, (partition.name, file, where), str(detail))
        for file, check in _CHECKS
        for where, kind, detail in check(partition)
    )
    return quirks_table(odd, ["partition", "file", "where"])


def summary(report: pd.DataFrame) -> pd.DataFrame:
    """Number of cases and of places for each quirk, with one example, most frequent first."""
    by, ties = ("partition", "file"), ("file", "quirk")
    return quirk_counts(report, by, "where", ("cases", "places"), "where", ties)


def _conversations(partition: Partition) -> _Found:
    for name, conversation in partition.conversations.items():
        said = conversation.utterances
        speakers = "".join(u.speaker for u in said)
        if speakers[0] != "U":
            yield name, "does not start with the user", speakers[:4]
        if speakers[-1] == "U":
            yield name, "ends with the user", f"line {len(said)}"
        for i in range(1, len(said)):
            if speakers[i] == speakers[i - 1]:
                yield name, f"two {speakers[i]} lines in a row", f"lines {i} and {i + 1}"
        for text, times in Counter(u.text for u in said).items():
            if times > 1:
                yield name, "repeated utterance", f"{times} times, {len(text)} characters"
        for i, (_, text) in enumerate(said, start=1):
            for match in _PLACEHOLDER.findall(text):
                yield name, "placeholder left by the generator", f"line {i}: {match}"
            if not text.strip() or text != text.strip() or "\n" in text:
                yield name, "empty, padded or continued line", f"line {i}"
        verdict = language(" ".join(u.text for u in said))
        if not verdict.english:
            yield name, "not English", verdict.language


def _quality(partition: Partition) -> _Found:
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


def _annotations(partition: Partition) -> _Found:
    for name, records in partition.annotations.items():
        conversation = partition.conversations[name]
        seen = {record.turn for record in records}
        for turn, position in enumerate(conversation.turns):
            if turn not in seen:
                asks = "?" in conversation.utterances[position].text
                kind = "question without record" if asks else "user turn without record"
                yield name, kind, f"turn {turn} of {len(conversation.turns)}"
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


def _intents(partition: Partition) -> _Found:
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


def _profiles(partition: Partition) -> _Found:
    for name, users in partition.users.items():
        for user in users:
            if user.profile is None:
                yield name, "user with keywords and no profile", user.id


def _keywords(partition: Partition) -> _Found:
    for name, users in partition.users.items():
        for user in users:
            if user.keywords is None:
                yield name, "user with a profile and no keywords", user.id
                continue
            if "" in user.keywords:
                yield name, "empty keyword", user.id
            if len(user.keywords) > _MOST_KEYWORDS:
                yield name, "more than five keywords", f"{user.id}: {len(user.keywords)}"
            if len(set(user.keywords)) < len(user.keywords):
                yield name, "the same keyword twice", user.id
    if partition.users:
        for name in (c for c in partition.conversations if c not in partition.users):
            yield name, "conversation without users", ""


def _qrels(partition: Partition) -> _Found:
    known = {intent.id: intent.type for intent in partition.all_intents()}
    for name, grades in partition.qrels.items():
        judged = topic(name)
        if known.get(judged.intent) != judged.kind:
            yield name, "topic without its intent", known.get(judged.intent)
        for grade in (0, 2):
            if grade not in grades.values():
                yield name, f"no document of grade {grade}", f"{len(grades)} judged"
        if judged.user_index is not None and user_of(partition, judged, "as_documented") is None:
            yield name, "user index without a user (as documented)", judged.user_index
        for document in grades:
            if judged.kind == "recommendation" and document != document.upper():
                yield name, "item id in lower case", document


_CHECKS: tuple[tuple[str, Callable[[Partition], _Found]], ...] = (
    ("conversations.jsonl", _conversations),
    ("quality.jsonl", _quality),
    ("intent_annotations.jsonl", _annotations),
    ("intents.jsonl", _intents),
    ("profiles.jsonl", _profiles),
    ("keywords.jsonl", _keywords),
    ("qrels.qrels", _qrels),
)
