"""The quirk report: everything odd in a partition, named and located, and nothing repaired."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pandas as pd

from crs_lib.cosrec.labels import shares
from crs_lib.cosrec.language import language
from crs_lib.cosrec.records import Partition, topic, user_of

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5


class CorpusQuirk(NamedTuple):
    """One oddity: the file, the conversation or topic, what is odd, and where exactly."""

    file: str
    where: str
    quirk: str
    detail: str


def report(partition: Partition) -> pd.DataFrame:
    """Every quirk, one row each: partition, file, where, quirk, detail; in file order."""
    rows = [{"partition": partition.name, **q._asdict()} for check in _CHECKS for q in check(partition)]
    return pd.DataFrame(rows, columns=["partition", *CorpusQuirk._fields])


def summary(report: pd.DataFrame) -> pd.DataFrame:
    """Number of cases and of places for each quirk, with one example, most frequent first."""
    if report.empty:
        return pd.DataFrame(columns=["partition", "file", "quirk", "cases", "places", "example"])
    groups = report.groupby(["partition", "file", "quirk"], sort=False)
    out = groups.agg(cases=("where", "size"), places=("where", "nunique"), example=("where", "first"))
    return out.reset_index().sort_values(
        ["cases", "file", "quirk"], ascending=[False, True, True], ignore_index=True
    )


def _conversations(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "conversations.jsonl"
    for name, conversation in partition.conversations.items():
        said = conversation.utterances
        speakers = "".join(u.speaker for u in said)
        if speakers[0] != "U":
            yield CorpusQuirk(file, name, "does not start with the user", speakers[:4])
        if speakers[-1] == "U":
            yield CorpusQuirk(file, name, "ends with the user", f"line {len(said)}")
        for i in range(1, len(said)):
            if speakers[i] == speakers[i - 1]:
                yield CorpusQuirk(file, name, f"two {speakers[i]} lines in a row", f"lines {i} and {i + 1}")
        for text, times in Counter(u.text for u in said).items():
            if times > 1:
                yield CorpusQuirk(file, name, "repeated utterance", f"{times} times, {len(text)} characters")
        for i, (_, text) in enumerate(said, start=1):
            for match in _PLACEHOLDER.findall(text):
                yield CorpusQuirk(file, name, "placeholder left by the generator", f"line {i}: {match}")
            if not text.strip() or text != text.strip() or "\n" in text:
                yield CorpusQuirk(file, name, "empty, padded or continued line", f"line {i}")
        verdict = language(" ".join(u.text for u in said))
        if not verdict.english:
            yield CorpusQuirk(file, name, "not English", verdict.language)


def _quality(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "quality.jsonl"
    for name, ratings in partition.ratings.items():
        if not ratings:
            yield CorpusQuirk(file, name, "an empty list of ratings", "")
        for i, rating in enumerate(ratings):
            if len(set(rating)) == 1:
                yield CorpusQuirk(file, name, "the same grade for all aspects", f"rater {i}: {rating[0]}")
        for aspect in range(4):
            grades = sorted(r[aspect] for r in ratings)
            if grades and grades[(len(grades) - 1) // 2] == 1:
                yield CorpusQuirk(file, name, "median grade of 1", ratings[0]._fields[aspect])


def _annotations(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "intent_annotations.jsonl"
    for name, records in partition.annotations.items():
        conversation = partition.conversations[name]
        seen = {record.turn for record in records}
        for turn, position in enumerate(conversation.turns):
            if turn not in seen:
                asks = "?" in conversation.utterances[position].text
                kind = "question without record" if asks else "user turn without record"
                yield CorpusQuirk(file, name, kind, f"turn {turn} of {len(conversation.turns)}")
        if {len(record.cells) for record in records} == {1}:
            yield CorpusQuirk(file, name, "a single annotator", f"{len(records)} turns")
        for record in records:
            if not record.cells:
                yield CorpusQuirk(file, name, "a record without annotators", f"turn {record.turn}")
            for kind, share in shares(record).items():
                if share == 0.5:
                    yield CorpusQuirk(file, name, "annotators split in halves", f"turn {record.turn}: {kind}")
            for i, cell in enumerate(record.cells):
                if len({need.type for need in cell}) < len(cell):
                    yield CorpusQuirk(
                        file, name, "an intent type twice in one annotation", f"turn {record.turn}, #{i}"
                    )


def _intents(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "intents.jsonl"
    for intent in partition.all_intents():
        lengths = sorted(map(len, intent.variants))
        if intent.variants[0] != intent.canonical:
            yield CorpusQuirk(
                file, intent.id, "the longest variant is not the first", str(len(intent.variants))
            )
        if len(lengths) > 1 and lengths[-1] == lengths[-2]:
            yield CorpusQuirk(file, intent.id, "two longest variants", f"{lengths[-1]} characters")
        if len(set(intent.variants)) < len(intent.variants):
            yield CorpusQuirk(file, intent.id, "the same variant twice", str(len(intent.variants)))
        if intent.product is not None:
            yield CorpusQuirk(file, intent.id, "field 'product', which is not documented", intent.product)


def _users(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "keywords.jsonl"
    for name, users in partition.users.items():
        for user in users:
            if user.profile is None:
                yield CorpusQuirk("profiles.jsonl", name, "user with keywords and no profile", user.id)
            if user.keywords is None:
                yield CorpusQuirk(file, name, "user with a profile and no keywords", user.id)
                continue
            if "" in user.keywords:
                yield CorpusQuirk(file, name, "empty keyword", user.id)
            if len(user.keywords) > _MOST_KEYWORDS:
                yield CorpusQuirk(file, name, "more than five keywords", f"{user.id}: {len(user.keywords)}")
            if len(set(user.keywords)) < len(user.keywords):
                yield CorpusQuirk(file, name, "the same keyword twice", user.id)
    if partition.users:
        for name in (c for c in partition.conversations if c not in partition.users):
            yield CorpusQuirk(file, name, "conversation without users", "")


def _qrels(partition: Partition) -> Iterator[CorpusQuirk]:
    file = "qrels.qrels"
    known = {intent.id: intent.type for intent in partition.all_intents()}
    for name, grades in partition.qrels.items():
        judged = topic(name)
        if known.get(judged.intent) != judged.kind:
            yield CorpusQuirk(file, name, "topic without its intent", str(known.get(judged.intent)))
        for grade in (0, 2):
            if grade not in grades.values():
                yield CorpusQuirk(file, name, f"no document of grade {grade}", f"{len(grades)} judged")
        if judged.user_index is not None and user_of(partition, judged, "as_documented") is None:
            yield CorpusQuirk(file, name, "user index without a user (as documented)", str(judged.user_index))
        for document in grades:
            if judged.kind == "recommendation" and document != document.upper():
                yield CorpusQuirk(file, name, "item id in lower case", document)


_CHECKS: tuple[Callable[[Partition], Iterator[CorpusQuirk]], ...] = (
    _conversations,
    _quality,
    _annotations,
    _intents,
    _users,
    _qrels,
)
