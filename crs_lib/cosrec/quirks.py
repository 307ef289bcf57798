"""Irregularities of a corpus: named and located, nothing repaired."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pandas as pd

from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.labels import shares
from crs_lib.cosrec.records import AnnotatedTurn, Buyer, Conversation, Partition, topic, user_of
from crs_lib.data.logs import Quirk, quirk_counts, quirks_table

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Za-z ]*(?: \d+)?\]")
_MOST_KEYWORDS = 5
Oddity = tuple[str, object]  # what is odd, where exactly
Located = tuple[str, str, object]  # the same, with the conversation or topic before it


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
