"""The loader: what it reads, what it refuses and how it says so."""

import json

import pytest

from crs_lib.core.errors import RunError
from crs_lib.cosrec import audit, corpus, evaluate
from crs_lib.cosrec.catalogue_rules import _share, is_english, language
from crs_lib.cosrec.labels import curated_labels, majority_labels
from crs_lib.cosrec.records import IntentLabel, Utterance, number, topic, user_of
from tests.helpers import refused

SCORES = {"fluency": 5, "informativeness": 4, "logicality": 3, "coherence": 2}
TALK = "U: I need a tent\nS: For how many?\nU: Two. Thanks"
SEARCH, RECOMMEND = {"type": "search", "query": "q"}, {"type": "recommendation", "query": "q"}


def write(folder, **files):
    base = folder / "curated"
    base.mkdir(parents=True, exist_ok=True)
    files = {"conversations": {"C_1": TALK}} | files
    for name, records in files.items():
        path = base / (f"{name}.qrels" if name == "qrels" else f"{name}.jsonl")
        if not isinstance(records, str):
            records = "".join(json.dumps({key: value}) + "\n" for key, value in records.items())
        path.write_text(records, encoding="utf-8")
    return folder


def intent(name, *variants, kind="search"):
    return {"id": name, "type": kind, "query_variants": list(variants)}


def given_intent(value, name="C_1"):
    return {"intents": {name: [{"utterance": 0, "intents": [value]}]}}


def annotated(*cells):
    return {"intent_annotations": {"C_1": [{"utterance": 0, "intent_annotations": list(cells)}]}}


def test_a_small_corpus(tmp_path):
    write(
        tmp_path, conversations={"C_10": TALK, "C_2": "U: Hello\nS: Hi\nand welcome"},
        quality={"C_2": [SCORES]}, profiles={"C_10": {"B": "likes light things"}},
        keywords={"C_10": {"A": ["cheap", ""], "B": ["light"]}}, qrels="C_10_0_0\t0\tdoc#1_2\t2\n",
        **given_intent(intent("C_10_0_0", "tent", "light tent", "small tent"), "C_10"),
    )  # fmt: skip
    found = corpus.load(tmp_path, "curated")
    assert list(found.conversations) == ["C_2", "C_10"]  # by number, not by letter
    assert found.conversations["C_10"].turns == [0, 2]
    assert found.conversations["C_2"].utterances[1] == Utterance("S", "Hi\nand welcome")
    assert found.ratings["C_2"][0].logicality == 3
    assert found.intents["C_10"][0].canonical == "light tent"  # as long as "small tent", but first
    assert found.users["C_10"] == (("A", None, ("cheap", "")), ("B", "likes light things", ("light",)))
    assert found.absent == ("intent_annotations.jsonl",)


@pytest.mark.parametrize(("files", "message"), [
    ({"conversations": '{"C_1": "U: a"}\n{"C_1": "U: b"}\n'}, "line 2: conversation 'C_1' stands twice"),
    ({"conversations": '{"C_1": "U: a", "C_1": "U: b"}\n'}, "key 'C_1' stands twice"),
    ({"conversations": '{"C_1": "U: a", "C_2": "U: b"}\n'}, "as its only key"),
    ({"conversations": '{"C_1": \n'}, "line 1: not JSON"), ({"conversations": {"C_1": "tent"}}, "does not start with"),
    ({"conversations": {"C_one": "U: a"}}, "does not end in"), ({"quality": {"C_9": [SCORES]}}, "'C_9' is not in conversations"),
    ({"quality": {"C_1": [SCORES | {"fluency": 6}]}}, "line 1, 0, fluency: .* equal to 5, found 6"),
    ({"quality": {"C_1": [SCORES | {"fluency": 4.0}]}}, "line 1, 0, fluency: .*integer, found 4.0"),
    ({"quality": {"C_1": [{"fluency": 4}]}}, "line 1, 0, informativeness: Field required"),
    ({"intents": {"C_1": [{"utterance": 2, "intents": []}]}}, "utterance 2; expected ascending user turns below 2"),
    (given_intent(intent("C_1_0_1", "q")), "should be 'C_1_0_0'"),
    (given_intent(intent("C_1_0_0")), "query_variants: .* at least 1 item"),
    (given_intent(intent("C_1_0_0", "q", kind="chat")), "type: .*'search', 'recommendation' or 'product_details', found 'chat'"),
    ({"keywords": {"C_1": {"A": "cheap"}}}, "line 1, A: .*list, found 'cheap'"),
    ({"keywords": {"C_1": {"A": ["cheap", None]}}}, "line 1, A, 1: .*string, found None"),
    (given_intent(intent("C_1_0_0", "q") | {"query_variants": ["q", 7]}), "query_variants, 1: .*string, found 7"),
    (given_intent(intent("C_1_0_0", "q") | {"product": 7}), "product: .*string, found 7"),
    (given_intent("search"), "line 1, 0, intents, 0: .*dictionary, found 'search'"),
    (annotated([{"type": "search"}]), "line 1, 0, intent_annotations, 0, 0, query: Field required"),
    (annotated([{"query": "q"}]), "0, 0, type: Field required"),
    (annotated(["search"]), "intent_annotations, 0, 0: .*dictionary.*, found 'search'"),
    ({"qrels": "C_1_0_0\t0\td\t3\n"}, "grade 3 of 'd' under 'C_1_0_0'; they go from 0 to 2"),
    ({"qrels": "C_1_0_0\t0\td\t-1\n"}, "grade -1 of 'd'"), ({"qrels": "C_1\t0\td\t1\n"}, "topic 'C_1' has not the form"),
])  # fmt: skip
def test_what_breaks_the_contract_is_named(tmp_path, files, message):
    refused(message, corpus.load, write(tmp_path, **files), "curated")


@pytest.mark.parametrize("name", ["conversations.jsonl", "qrels.qrels"])
def test_another_encoding_is_named_with_its_line(tmp_path, name):
    path = write(tmp_path, qrels="C_1_0_0\t0\td\t2\n") / "curated" / name
    path.write_bytes(path.read_bytes() + b"caf\xe9\n")
    refused(f"{name}, line 2: not UTF-8", corpus.load, tmp_path, "curated")


def test_a_byte_order_mark_and_blank_lines_belong_to_no_id(tmp_path):
    write(tmp_path, qrels="C_1_0_0\t0\td\t2\n\n")
    for path in (tmp_path / "curated").iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n \n")
    found = corpus.load(tmp_path, "curated")
    assert (list(found.conversations), found.qrels) == (["C_1"], {"C_1_0_0": {"d": 2}})


def test_what_nobody_rated_or_annotated_is_odd_and_not_fatal(tmp_path):
    write(tmp_path, **annotated([{"type": "search", "query": "q"}], []))
    record = corpus.load(tmp_path, "curated").annotations["C_1"][0]
    assert (record.turn, record.cells) == (0, ((IntentLabel("search", "q"),), ()))
    write(tmp_path, quality={"C_1": []}, **annotated())
    found = {"curated": corpus.load(tmp_path, "curated")}
    assert audit.conversation_ratings(found).empty
    assert not majority_labels(found["curated"])[["search", "ties"]].to_numpy().any()
    odd = set(audit.find_quirks(found["curated"])["quirk"])
    assert {"an empty list of ratings", "a record without annotators"} <= odd


def test_missing_partitions_name_the_command_and_a_corpus_without_judgments_is_audited(tmp_path):
    refused("data get cosrec", corpus.load, tmp_path, "raw", error=RunError)
    refused("partition 'cured'", corpus.load, tmp_path, "cured")
    refused("no CoSRec corpus", corpus.locate, str(tmp_path), error=RunError)
    found = corpus.load(write(tmp_path), "curated")
    claims = audit.readme_claims({"crowd": found, "curated": found}).set_index("claim")
    assert claims.loc["figure: judgments per intent, grade 2", "found"] == ""
    refused(r"has no judgments \(qrels.qrels\)", evaluate.score, found, {"mine": {}})


def test_topics_are_read_from_the_right():
    search, recommendation = topic("CoSRec-Curated_3_12_0"), topic("CoSRec-Curated_3_12_0#2")
    assert (search.kind, search.conversation, search.turn) == ("search", "CoSRec-Curated_3", 12)
    assert (recommendation.kind, recommendation.intent) == ("recommendation", search.id)
    assert recommendation.user_index == 2
    for bad in ("C_1", "C_1_x_0", "C_1_0_0#", "C_1_0_0#a"):
        refused("has not the form", topic, bad)
    assert number("CoSRec-Crowd_12") == 12


def test_the_user_of_an_index_is_never_guessed(tmp_path):
    # users A and B, indices 0, 1, 2: one index too many, and two readings of it
    found = corpus.load(write(tmp_path, keywords={"C_1": {"B": [], "A": []}}), "curated")

    def users(mapping: str) -> list[str | None]:
        named = [user_of(found, topic(f"C_1_0_0#{i}"), mapping) for i in range(3)]
        return [user.id if user else None for user in named]

    assert users("as_documented") == ["A", "B", None] and users("zero_is_generic") == [None, "A", "B"]
    assert user_of(found, topic("C_1_0_0"), "as_documented") is None
    refused("user mapping 'zero'", user_of, found, topic("C_1_0_0#0"), "zero")


def test_every_kind_of_quirk_is_found_once(tmp_path):
    write(
        tmp_path,
        conversations={
            "C_1": "U: I need a tent. Which one?\nS: The [Brand Name] one\nS: For two\nU: For two",
            "C_2": "S: Hola, ¿qué es lo que busca para la casa?\nU: Una lámpara para el salón, por favor\nS:  x",
        },
        quality={"C_1": [dict.fromkeys(SCORES, 1)]},
        intent_annotations={
            "C_1": [{"utterance": 1, "intent_annotations": [[SEARCH, SEARCH], []]}],
            "C_2": [{"utterance": 0, "intent_annotations": [[SEARCH]]}],
        },
        **given_intent(intent("C_1_0_0", "a", "bcd", "a", "efg") | {"product": "B1"}),
        profiles={"C_1": {"A": "p", "B": "p"}},
        keywords={"C_1": {"A": ["x", "", "x", "y", "z", "w"], "C": []}},
        qrels="C_1_0_0\t0\tm#1\t1\nC_1_0_0#0\t0\tb01\t1\nC_1_0_0#9\t0\tB02\t2\n",
    )
    report = audit.find_quirks(corpus.load(tmp_path, "curated"))
    found = {place: sorted(kinds) for place, kinds in report.groupby("where")["quirk"]}
    one, all_grades = ("no document of grade 0", "no document of grade 2"), ["median grade of 1"] * 4
    assert found == {
        "C_1": sorted([
            "ends with the user", "two S lines in a row", "repeated utterance", "placeholder left by the generator",
            "the same grade for all aspects", *all_grades, "question without record", "annotators split in halves",
            "an intent type twice in one annotation", "user with a profile and no keywords",
            "user with keywords and no profile", "empty keyword", "more than five keywords", "the same keyword twice",
        ]),
        "C_2": sorted([
            "does not start with the user", "empty, padded or continued line", "not English", "a single annotator",
            "conversation without users",
        ]),
        "C_1_0_0": sorted([
            "the longest variant is not the first", "two longest variants", "the same variant twice",
            "field 'product', which is not documented", *one,
        ]),
        "C_1_0_0#0": sorted(["topic without its intent", "item id in lower case", *one]),
        "C_1_0_0#9": sorted([
            "topic without its intent", "no document of grade 0", "user index without a user (as documented)",
        ]),
    }  # fmt: skip
    assert audit.quirk_summary(report)["cases"].sum() == len(report)


def test_a_clean_corpus_has_no_quirks_and_a_majority_is_more_than_half(tmp_path):
    write(tmp_path, conversations={"C_1": "U: I need a light tent\nS: Take the blue one"})
    report = audit.find_quirks(corpus.load(tmp_path, "curated"))
    assert report.empty and audit.quirk_summary(report).empty
    # turn 0: search 2 of 4 (a tie), recommendation 3 of 4; turn 1 has no record
    write(tmp_path, **annotated([SEARCH, RECOMMEND], [SEARCH], [RECOMMEND], [RECOMMEND]))
    first, second = majority_labels(corpus.load(tmp_path, "curated")).to_dict("records")
    assert (first["search"], first["recommendation"], first["ties"], first["annotators"]) == (0, 1, 1, 4)
    assert (second["recorded"], second["recommendation"], second["ties"]) == (False, 0, 0)
    write(tmp_path, intents={"C_1": [{"utterance": 1, "intents": [intent("C_1_1_0", "q")]}]})
    assert curated_labels(corpus.load(tmp_path, "curated"))["search"].tolist() == [0, 1]  # every turn


@pytest.mark.parametrize(("text", "expected", "english"), [
    ("This is the best lamp that I have ever had, and it was cheap.", "en", True),
    ("Es la mejor lámpara que he tenido, muy buena para el salón", "es", False),
    ("C'est une très bonne lampe pour le salon, mais elle est chère", "fr", False),
    ("Das ist eine sehr gute Lampe und sie war nicht teuer", "de", False), ("素敵なランプ", "other script", False),
    ("Отличная лампа for the home", "other script", False), ("Café lamp 40W (brass)", "unknown", True),
    ("La Crema candle", "unknown", True),  # one foreign word is a name, not a language
    ("It’s “great” – really…", "unknown", True), ("", "unknown", True),
])  # fmt: skip
def test_language(text, expected, english):
    assert is_english(text) is english
    assert language(text) == expected or (expected == "unknown" and language(text) == "en")
    assert [_share(one, "latin-1") for one in ("abЖЖ", "é", "")] == [0.5, 1.0, 1.0]
    assert [_share(one, "ascii") for one in ("abЖé", "é", "")] == [0.5, 0.0, 1.0]
