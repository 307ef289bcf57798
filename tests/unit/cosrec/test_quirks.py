"""The quirk report, majority labels and the language check, on small made-up cases."""

from pathlib import Path

import pytest

from crs_lib.cosrec import audit, corpus
from crs_lib.cosrec.catalogue_rules import _share, is_english, language
from crs_lib.cosrec.labels import curated_labels, majority_labels

from .test_corpus import intent, write

ALL_ONES = {"fluency": 1, "informativeness": 1, "logicality": 1, "coherence": 1}
SEARCH, RECOMMEND = {"type": "search", "query": "q"}, {"type": "recommendation", "query": "q"}


def test_every_kind_of_quirk_is_found_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        conversations={
            "C_1": "U: I need a tent. Which one?\nS: The [Brand Name] one\nS: For two\nU: For two",
            "C_2": "S: Hola, ¿qué es lo que busca para la casa?\nU: Una lámpara para el salón, por favor\nS:  x",
        },
        quality={"C_1": [ALL_ONES]},
        intent_annotations={
            "C_1": [{"utterance": 1, "intent_annotations": [[SEARCH, SEARCH], []]}],
            "C_2": [{"utterance": 0, "intent_annotations": [[SEARCH]]}],
        },
        intents={
            "C_1": [
                {"utterance": 0, "intents": [intent("C_1_0_0", "a", "bcd", "a", "efg") | {"product": "B1"}]}
            ]
        },
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


def test_a_clean_corpus_has_no_quirks_and_a_majority_is_more_than_half(tmp_path: Path) -> None:
    write(tmp_path, conversations={"C_1": "U: I need a light tent\nS: Take the blue one"})
    report = audit.find_quirks(corpus.load(tmp_path, "curated"))
    assert report.empty and audit.quirk_summary(report).empty
    write(
        tmp_path,
        intent_annotations={
            # turn 0: search 2 of 4 (a tie), recommendation 3 of 4; turn 1 has no record
            "C_1": [
                {
                    "utterance": 0,
                    "intent_annotations": [[SEARCH, RECOMMEND], [SEARCH], [RECOMMEND], [RECOMMEND]],
                }
            ]
        },
    )
    first, second = majority_labels(corpus.load(tmp_path, "curated")).to_dict("records")
    assert (first["search"], first["recommendation"], first["ties"], first["annotators"]) == (0, 1, 1, 4)
    assert (second["recorded"], second["recommendation"], second["ties"]) == (False, 0, 0)
    write(tmp_path, intents={"C_1": [{"utterance": 1, "intents": [intent("C_1_1_0", "q")]}]})
    assert curated_labels(corpus.load(tmp_path, "curated"))["search"].tolist() == [0, 1]  # every turn


@pytest.mark.parametrize(
    ("text", "expected", "english"),
    [
        ("This is the best lamp that I have ever had, and it was cheap.", "en", True),
        ("Es la mejor lámpara que he tenido, muy buena para el salón", "es", False),
        ("C'est une très bonne lampe pour le salon, mais elle est chère", "fr", False),
        ("Das ist eine sehr gute Lampe und sie war nicht teuer", "de", False),
        ("Отличная лампа for the home", "other script", False),
        ("素敵なランプ", "other script", False),
        ("Café lamp 40W (brass)", "unknown", True),
        ("La Crema candle", "unknown", True),  # one foreign word is a name, not a language
        ("It’s “great” – really…", "unknown", True),
        ("", "unknown", True),
    ],
)
def test_language(text: str, expected: str, english: bool) -> None:
    assert is_english(text) is english
    assert language(text) == expected or (expected == "unknown" and language(text) == "en")
    assert [_share(one, "latin-1") for one in ("abЖЖ", "é", "")] == [0.5, 1.0, 1.0]
    assert [_share(one, "ascii") for one in ("abЖé", "é", "")] == [0.5, 0.0, 1.0]
