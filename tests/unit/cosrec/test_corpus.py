"""The loader: what it reads, what it refuses and how it says so."""

import json

import pandas as pd
import pytest

from crs_lib.core.errors import RunError
from crs_lib.cosrec import audit, corpus, evaluate
from crs_lib.cosrec.catalogue_rules import is_english, language
from crs_lib.cosrec.labels import curated_labels, majority_labels
from crs_lib.cosrec.records import IntentLabel, Utterance, conversation_number, topic, user_of
from tests.helpers import refused, table

SCORES = {"fluency": 5, "informativeness": 4, "logicality": 3, "coherence": 2}
TALK = "U: I need a tent\nS: For how many?\nU: Two. Thanks"
SEARCH = {"type": "search", "query": "q"}
RECOMMEND = {"type": "recommendation", "query": "q"}


def write(folder, **files):
    """A partition of the files, with one conversation where none is given; returns the corpus folder."""
    base = folder / "curated"
    base.mkdir(parents=True, exist_ok=True)
    files.setdefault("conversations", {"C_1": TALK})
    for name, records in files.items():
        ending = "qrels" if name == "qrels" else "jsonl"
        if isinstance(records, dict):
            lines = [json.dumps({key: value}) + "\n" for key, value in records.items()]
            records = "".join(lines)
        (base / f"{name}.{ending}").write_text(records, encoding="utf-8")
    return folder


def load(folder, **files):
    return corpus.load(write(folder, **files), "curated")


def intent(name, *variants, kind="search"):
    return {"id": name, "type": kind, "query_variants": list(variants)}


def turn_of(value):
    """A curated turn with one intent."""
    return [{"utterance": 0, "intents": [value]}]


def annotated(*cells):
    return {"C_1": [{"utterance": 0, "intent_annotations": list(cells)}]}


def test_conversations_are_sorted_by_number(tmp_path):
    read = load(tmp_path, conversations={"C_10": TALK, "C_2": "U: Hello\nS: Hi\nand welcome"})
    assert list(read.conversations) == ["C_2", "C_10"]
    assert read.conversations["C_10"].turns == [0, 2]
    assert read.conversations["C_2"].utterances[1] == Utterance("S", "Hi\nand welcome")


def test_ratings_users_and_intents_are_read(tmp_path):
    variants = intent("C_1_0_0", "tent", "light tent", "small tent")
    read = load(
        tmp_path,
        quality={"C_1": [SCORES]},
        profiles={"C_1": {"B": "likes light things"}},
        keywords={"C_1": {"A": ["cheap", ""], "B": ["light"]}},
        qrels="C_1_0_0\t0\tdoc#1_2\t2\n",
        intents={"C_1": turn_of(variants)},
    )
    assert read.ratings["C_1"][0].logicality == 3
    assert read.intents["C_1"][0].canonical == "light tent"  # as long as "small tent", but first
    first, second = read.users["C_1"]
    assert first == ("A", None, ("cheap", ""))
    assert second == ("B", "likes light things", ("light",))


def test_broken_conversations_are_named(tmp_path):
    twice = '{"C_1": "U: a"}\n{"C_1": "U: b"}\n'
    refused("line 2: conversation 'C_1' stands twice", load, tmp_path, conversations=twice)
    same_key = '{"C_1": "U: a", "C_1": "U: b"}\n'
    refused("key 'C_1' stands twice", load, tmp_path, conversations=same_key)
    two_keys = '{"C_1": "U: a", "C_2": "U: b"}\n'
    refused("as its only key", load, tmp_path, conversations=two_keys)
    refused("line 1: not JSON", load, tmp_path, conversations='{"C_1": \n')
    refused("does not start with", load, tmp_path, conversations={"C_1": "tent"})
    refused("does not end in", load, tmp_path, conversations={"C_one": "U: a"})


def test_broken_ratings_are_named(tmp_path):
    def rated(message, *ratings, name="C_1"):
        refused(message, load, tmp_path, quality={name: list(ratings)})

    rated("'C_9' is not in conversations", SCORES, name="C_9")
    rated("line 1, 0, fluency: .* equal to 5, found 6", SCORES | {"fluency": 6})
    rated("line 1, 0, fluency: .*integer, found 4.0", SCORES | {"fluency": 4.0})
    rated("line 1, 0, informativeness: Field required", {"fluency": 4})


def test_broken_intents_are_named(tmp_path):
    def curated(message, value, utterance=0):
        turn = {"utterance": utterance, "intents": [value]}
        refused(message, load, tmp_path, intents={"C_1": [turn]})

    curated("utterance 2; expected ascending user turns below 2", intent("C_1_2_0", "q"), utterance=2)
    curated("should be 'C_1_0_0'", intent("C_1_0_1", "q"))
    curated("query_variants: .* at least 1 item", intent("C_1_0_0"))
    curated("type: .* or 'product_details', found 'chat'", intent("C_1_0_0", "q", kind="chat"))
    curated("query_variants, 1: .*string, found 7", intent("C_1_0_0", "q", 7))
    curated("product: .*string, found 7", intent("C_1_0_0", "q") | {"product": 7})
    curated("line 1, 0, intents, 0: .*dictionary, found 'search'", "search")


def test_broken_annotations_are_named(tmp_path):
    def viewed(message, need):
        refused(message, load, tmp_path, intent_annotations=annotated([need]))

    viewed("line 1, 0, intent_annotations, 0, 0, query: Field required", {"type": "search"})
    viewed("0, 0, type: Field required", {"query": "q"})
    viewed("intent_annotations, 0, 0: .*dictionary.*, found 'search'", "search")


def test_broken_keywords_are_named(tmp_path):
    def preferring(message, words):
        refused(message, load, tmp_path, keywords={"C_1": {"A": words}})

    preferring("line 1, A: .*list, found 'cheap'", "cheap")
    preferring("line 1, A, 1: .*string, found None", ["cheap", None])


def test_broken_judgments_are_named(tmp_path):
    graded = "grade 3 of 'd' under 'C_1_0_0'; they go from 0 to 2"
    refused(graded, load, tmp_path, qrels="C_1_0_0\t0\td\t3\n")
    refused("grade -1 of 'd'", load, tmp_path, qrels="C_1_0_0\t0\td\t-1\n")
    refused("topic 'C_1' has not the form", load, tmp_path, qrels="C_1\t0\td\t1\n")


@pytest.mark.parametrize("name", ["conversations.jsonl", "qrels.qrels"])
def test_another_encoding_is_named_with_its_line(tmp_path, name):
    path = write(tmp_path, qrels="C_1_0_0\t0\td\t2\n") / "curated" / name
    path.write_bytes(path.read_bytes() + b"caf\xe9\n")
    refused(f"{name}, line 2: not UTF-8", corpus.load, tmp_path, "curated")


def test_a_byte_order_mark_and_blank_lines_belong_to_no_id(tmp_path):
    write(tmp_path, qrels="C_1_0_0\t0\td\t2\n\n")
    for path in (tmp_path / "curated").iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n \n")
    read = corpus.load(tmp_path, "curated")
    assert list(read.conversations) == ["C_1"]
    assert read.qrels == {"C_1_0_0": {"d": 2}}


def test_a_silent_annotator_is_a_view(tmp_path):
    record = load(tmp_path, intent_annotations=annotated([SEARCH], [])).annotations["C_1"][0]
    assert record.turn == 0
    assert record.cells == ((IntentLabel("search", "q"),), ())


def test_what_nobody_rated_or_annotated_is_odd_and_not_fatal(tmp_path):
    read = load(tmp_path, quality={"C_1": []}, intent_annotations=annotated())
    assert audit.conversation_ratings({"curated": read}).empty
    assert not majority_labels(read)[["search", "ties"]].to_numpy().any()
    kinds = set(audit.find_quirks(read)["quirk"])
    assert {"an empty list of ratings", "a record without annotators"} <= kinds


def test_missing_partitions_name_the_command(tmp_path):
    refused("data get cosrec", corpus.load, tmp_path, "raw", error=RunError)
    refused("no cured/conversations.jsonl", corpus.load, tmp_path, "cured", error=RunError)
    refused("no CoSRec corpus", corpus.locate, str(tmp_path), error=RunError)


def test_a_corpus_without_judgments_is_audited_and_not_scored(tmp_path):
    read = load(tmp_path)
    claims = audit.readme_claims({"crowd": read, "curated": read}).set_index("claim")
    assert claims.loc["figure: judgments per intent, grade 2", "found"] == ""
    refused(r"has no judgments \(qrels.qrels\)", evaluate.score, read, {"mine": {}})


def test_topics_are_read_from_the_right():
    search = topic("CoSRec-Curated_3_12_0")
    recommendation = topic("CoSRec-Curated_3_12_0#2")
    assert (search.kind, search.conversation, search.turn) == ("search", "CoSRec-Curated_3", 12)
    assert (recommendation.kind, recommendation.intent) == ("recommendation", search.id)
    assert recommendation.user_index == 2
    assert conversation_number("CoSRec-Crowd_12") == 12


@pytest.mark.parametrize("name", ["C_1", "C_1_x_0", "C_1_0_0#", "C_1_0_0#a"])
def test_a_topic_of_another_form_is_refused(name):
    refused("has not the form", topic, name)


# Users A and B, indices 0, 1, 2: one index too many, and two readings of it.
READINGS = {"as_documented": ["A", "B", None], "zero_is_generic": [None, "A", "B"]}


@pytest.mark.parametrize(("mapping", "expected"), READINGS.items())
def test_the_user_of_an_index_is_never_guessed(tmp_path, mapping, expected):
    read = load(tmp_path, keywords={"C_1": {"B": [], "A": []}})
    users = [user_of(read, topic(f"C_1_0_0#{index}"), mapping) for index in range(3)]
    assert [user.id if user else None for user in users] == expected
    assert user_of(read, topic("C_1_0_0"), mapping) is None
    refused("user mapping 'zero'", user_of, read, topic("C_1_0_0#0"), "zero")


def quirks(folder, **files):
    """The kinds of quirks that are reported, by place."""
    report = audit.find_quirks(load(folder, **files))
    assert audit.quirk_summary(report)["cases"].sum() == len(report)
    return {where: sorted(kinds) for where, kinds in report.groupby("where")["quirk"]}


@pytest.mark.parametrize("case", table(__file__, "quirks"))
def test_quirks_are_reported_by_place(tmp_path, case):
    assert quirks(tmp_path, **case["files"]) == case["kinds"]


def test_quirks_of_intents_and_judgments(tmp_path):
    needs = intent("C_1_0_0", "a", "bcd", "a", "efg") | {"product": "B1"}
    judged = "C_1_0_0\t0\tm#1\t1\nC_1_0_0#0\t0\tb01\t1\nC_1_0_0#9\t0\tB02\t2\n"
    users = {"keywords": {"C_1": {"A": ["x"]}}, "profiles": {"C_1": {"A": "p"}}}
    odd = quirks(tmp_path, intents={"C_1": turn_of(needs)}, qrels=judged, **users)
    no_grades = ["no document of grade 0", "no document of grade 2"]
    assert odd["C_1_0_0"] == [
        "field 'product', which is not documented",
        *no_grades,
        "the longest variant is not the first",
        "the same variant twice",
        "two longest variants",
    ]
    assert odd["C_1_0_0#0"] == ["item id in lower case", *no_grades, "topic without its intent"]
    unresolved = "user index without a user (as documented)"
    assert odd["C_1_0_0#9"] == ["no document of grade 0", "topic without its intent", unresolved]


def test_a_majority_is_more_than_half(tmp_path):
    # turn 0: search 2 of 4 (a tie), recommendation 3 of 4; turn 1 has no record
    cells = [SEARCH, RECOMMEND], [SEARCH], [RECOMMEND], [RECOMMEND]
    labels = majority_labels(load(tmp_path, intent_annotations=annotated(*cells)))
    columns = ["search", "recommendation", "ties", "recorded"]
    assert labels[columns].values.tolist() == [[0, 1, 1, True], [0, 0, 0, False]]
    assert labels["annotators"].tolist() == [4, pd.NA]


def test_every_turn_has_a_curated_label(tmp_path):
    second = [{"utterance": 1, "intents": [intent("C_1_1_0", "q")]}]
    labels = curated_labels(load(tmp_path, intents={"C_1": second}))
    assert labels["search"].tolist() == [0, 1]


def test_english_texts():
    plain = "This is the best lamp that I have ever had, and it was cheap."
    assert language(plain) == "en"
    for text in ("Café lamp 40W (brass)", "La Crema candle", ""):  # a foreign word is a name, no language
        assert language(text) == "unknown"
        assert is_english(text)


def test_other_languages():
    assert language("Es la mejor lámpara que he tenido, muy buena para el salón") == "es"
    assert language("C'est une très bonne lampe pour le salon, mais elle est chère") == "fr"
    assert language("Das ist eine sehr gute Lampe und sie war nicht teuer") == "de"
    assert language("素敵なランプ") == "other script"
    assert language("Отличная лампа for the home") == "other script"
    assert not is_english("Отличная лампа for the home")
    assert not is_english("Das ist eine sehr gute Lampe und sie war nicht teuer")


def test_typographic_signs_are_no_other_script():
    assert is_english("It’s “great” – really…")
