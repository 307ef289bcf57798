"""Grounding in the catalogue of ten films: concepts, spans, reasons, vectors, titles."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import rules as evidence
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.rules import Context, Matcher
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.text import words
from tests import helpers
from tests.helpers import refused
from tests.helpers.films import grounder

TEN = grounder()
EVERYDAY = frozenset({"her", "sting", "red", "the", "war", "of", "roses", "x", "polish"})
FORMS = ["ab", "a", "b", "aa", "ba", "bab", "a b", "ab a", "a ba", "aa b", "a ab", "a a a"]


@pytest.mark.parametrize(("text", "expected"), [
    ("A drama with ADA QUILL, in french", {"genre=drama", "actor=ada quill", "language=french"}),
    ("Zoë Tarn from 1988", {"director=zoe tarn", "writer=zoe tarn", "year=1988"}),
    ("comedies", {"genre=comedy"}), ("dramatically adaquill frenchman 19881", set()),
    ("a war film", {"genre=war"}), ("the war was long", set()), ("with Stig, please", {"actor=stig"}),
    ("a stig of straw", set()), ("polish the silver", set()), ("in Polish", {"language=polish"}),
    ("Ron drank rum as per habit, nor did Dan", set()), ("", set()), ("?!", set()),
])  # fmt: skip
def test_concepts_of_a_text(text, expected):
    assert TEN.topic_set(text) == expected and TEN.keys(TEN.concepts(text)) == sorted(expected)


def test_names_within_names_and_ends_of_texts():
    names = ("Ian Brook", "Ian Brook Hale")
    nested = Grounder(Catalog.from_records([(name, {"actor": [name]}) for name in names]))
    text = "with Ian Brook Hale"
    assert nested.topic_set(text) == {"actor=ian brook", "actor=ian brook hale"}
    assert [text[m.start : m.end] for m in nested.audit(text)] == ["Ian Brook", "Ian Brook Hale"]
    assert nested.find_attribute_in_text("actor", text) == "Ian Brook Hale"
    found = TEN.ground(["a drama with Ada", "Quill in French", "", "Zoe\nTarn"])
    assert [TEN.keys(codes) for codes in found] == [
        ["genre=drama"], ["language=french"], [], ["director=zoe tarn", "writer=zoe tarn"],
    ]  # fmt: skip
    bare = of_titles(["Alpha"])
    assert bare.concepts("Alpha with anybody") == frozenset() and bare.idf.shape == (0,)


def test_the_audit_shows_what_matched_where_and_why_not():
    text = "After the war, a French comedy with Stig?"
    assert TEN.audit_table(text).to_numpy().tolist() == [
        ["war", "genre", "War", 10, 13, "everyday word without a film word beside it"],
        ["French", "language", "French", 17, 23, "matched"],
        ["comedy", "genre", "Comedy", 24, 30, "matched"],
        ["Stig", "actor", "Stig", 36, 40, "matched"],
    ]
    assert TEN.audit_table("").empty


def test_idf_and_vectors_are_those_of_the_formula():
    # N = 10 films; drama occurs in 6, Stig in 1
    idf = TEN.idf
    assert idf[TEN.catalog.code("genre", "Drama")] == pytest.approx(math.log(11 / 7) + 1, abs=1e-15)
    assert idf[TEN.catalog.code("actor", "Stig")] == pytest.approx(math.log(11 / 2) + 1, abs=1e-15)
    assert idf.min() >= 1
    vector = TEN.attribute_vector("a French drama, a drama")
    named = {TEN.catalog.code("genre", "Drama"), TEN.catalog.code("language", "French")}
    assert set(np.flatnonzero(vector).tolist()) == named
    assert all(vector[code] == TEN.idf[code] for code in named)
    only = TEN.attribute_vector("a French drama", active_fields=["language"])
    assert set(np.flatnonzero(only).tolist()) == {TEN.catalog.code("language", "French")}
    assert not TEN.attribute_vector("").any()
    refused("unknown field 'lang'", TEN.attribute_vector, "x", active_fields=["lang"])


def test_active_fields_restrict_what_is_found():
    people = grounder(active_fields=["actor", "director"])
    found = people.topic_set("a French drama with Ada Quill by Zoe Tarn")
    assert found == {"actor=ada quill", "director=zoe tarn"}
    refused("unknown field 'people'", grounder, active_fields=["people"])


def test_a_letter_in_quotes_before_a_year_is_no_title_of_others():
    text = "'X' (2015) and 'Nowhere Lamps' (1999)"
    assert [text[title.start : title.end] for title in TEN.unknown_titles(text, [])] == ["Nowhere Lamps'"]


def test_plot_words_keep_the_order_of_the_text_and_an_attribute_is_the_longest_then_the_first():
    said = "Rain falls on the Memorial; a clerk writes"
    assert TEN.find_plot_keywords_in_text(said, 2) == ["rain", "falls"]
    assert TEN.find_plot_keywords_in_text(said)[:3] == ["rain", "falls", "memorial"]
    assert TEN.find_attribute_in_text("genre", "comedy, then drama") == "Comedy"
    assert TEN.find_attribute_in_text("actor", "nobody") is None
    assert TEN.find_attribute_in_text("title", "I saw Paper Kites") == "Paper Kites"
    assert TEN.find_attribute_in_text("name", "nothing") is None


def titles(text, **options):
    return [(text[m.start : m.end], m.item, m.n_same_title) for m in TEN.titles(text, **options)]


def test_titles_are_resolved_to_films_by_year_candidates_and_length():
    assert titles("Paper Kites and Iron Valley") == [("Paper Kites", 1, 1), ("Iron Valley", 5, 1)]
    assert titles("I gave her a kite") == [] and titles('"Her", of course') == [("Her", 4, 1)]
    assert titles("Lantern Street") == [("Lantern Street", 7, 2)]
    assert titles("Lantern Street (2015)") == [("Lantern Street", 8, 2)]
    assert titles("Lantern Street", prefer=[8]) == [("Lantern Street", 8, 2)]
    assert titles("Lantern Street (1999)", prefer=[8]) == [("Lantern Street", 7, 2)]
    assert titles("Lantern Street (1900)", prefer=[8]) == [("Lantern Street", 8, 2)]
    kites = of_titles(("Kites", "Paper Kites", "Kites Fly Home"))
    found = [kites.catalog.items[m.item].title for m in kites.titles("see Paper Kites Fly Home")]
    assert found == ["Kites Fly Home"]


def test_annotate_marks_spans_for_display_and_leaves_the_text():
    talk = Dialogue("0", "echo", (Turn("USER", "a French drama"), Turn("SYSTEM", "Paper Kites?")))
    marked = TEN.annotate(talk)
    shown = [[(m.field, turn.text[m.start : m.end]) for m in turn.marks] for turn in marked.turns]
    assert shown == [[("language", "French"), ("genre", "drama")], [("title", "Paper Kites")]]
    assert marked.to_json() == talk.to_json() and "Paper Kites" in marked._repr_html_()


def verdict(rule, text, phrase):
    """The rule's verdict on the first place where the phrase's words stand in the text."""
    tokens, wanted = words(text), words(phrase)
    first = next(i for i in range(len(tokens)) if tokens[i : i + len(wanted)] == wanted)
    return rule(evidence.Context(text), first, first + len(wanted))


@pytest.mark.parametrize(("text", "reason"), [
    ("a film with Sting, please", ""), ("a bee can sting you", "everyday word, not capitalised"),
    ("Sting is what bees do", "everyday word that opens a sentence"),
    ("Stop. Sting is what bees do", "everyday word that opens a sentence"),
    ('"Sting" is what I mean', ""), ("*sting* is what I mean", ""),
])  # fmt: skip
def test_a_one_word_name_needs_its_capital_inside_a_sentence_or_quotes(text, reason):
    assert verdict(evidence.capital, text, "sting") == reason


@pytest.mark.parametrize(("rule", "phrase", "text", "accepted"), [
    *((evidence.film_word, "war", text, accepted) for text, accepted in (
        ("a war film", True), ("films about war", True), ("films about the war", False), ("something with war", True),
        ("a war and crime story", True), ("they went to war", False), ("the war was long", False), ('I said "war"', True),
        ("a film on the long cold war", False), ("comedy or war", True), ("a family war", False), ("war and mystery", False),
        ("my family history of war", False), ("war or crime, no story", True), ("war or mystery or comedy", True),
    )),
    *((evidence.capital_or_film_word, "polish", text, accepted) for text, accepted in (
        ("in Polish", True), ("polish films", True), ("polish the silver", False), ("Polish the silver", True),
    )),
])  # fmt: skip
def test_a_weak_genre_needs_a_film_word_and_a_name_that_is_a_verb_a_capital(rule, phrase, text, accepted):
    assert (verdict(rule, text, phrase) == "") is accepted


@pytest.mark.parametrize(("title", "text", "reason"), [
    ("Her", "I liked Her very much", ""),
    ("Her", "I liked her very much", "everyday words, not written as the title"),
    ("Her", "Her brother is late", "everyday word that opens a sentence"),
    ("Her", 'I liked "her" (2013)', ""), ("Her", "her (2013) is fine", ""),
    ("Her", "I liked HER very much", "everyday words, all in capitals"),
    ("Her", "It's 'her' that I mean", ""),
    ("Sting", "Sting's brother", "everyday word that opens a sentence"), ("RED", "I saw RED twice", ""),
    ("RED", "I saw Red twice", "everyday words, not written as the title"),
    ("1917", "in 1917 they met", "number or letter without quotes or year"),
    ("1917", '"1917" is long', ""), ("1917", "1917 (2019) is long", ""),
    ("X", "letter X here", "number or letter without quotes or year"),
    ("War of the Roses", "the War of the Roses tonight", ""),
    ("War of the Roses", "I saw the war of the roses", "everyday words, not written as the title"),
    ("War of the Roses", "i saw the war of the roses", ""),
    ("War of Her", "i like the war of her", "everyday words, not written as the title"),
])  # fmt: skip
def test_titles_of_everyday_words_must_be_written_as_titles(title, text, reason):
    assert verdict(evidence.title_rule(title, EVERYDAY), text, title) == reason
    assert evidence.title_rule("War of the Kumquats", EVERYDAY) is evidence.no_rule  # a rare word


@pytest.mark.parametrize(("text", "start", "end", "expected"), [
    ('see "Her" now', 5, 8, True), ("see (Her) now", 5, 8, True), ("see _Her_ now", 5, 8, True), ("see Her now", 4, 7, False),
    ("s'he's", 2, 4, False), ("Her (2013)", 0, 3, True), ("Her", 0, 3, False),
])  # fmt: skip
def test_quoted_means_that_marks_stand_on_both_sides_or_a_year_follows(text, start, end, expected):
    assert evidence.is_quoted(text, start, end) is expected


@pytest.mark.parametrize(("text", "end", "year"), [
    ("Alien (1979)", 5, 1979), ('Alien" (1979, UK)', 5, 1979), ("Alien 1979", 5, None), ("Alien (197)", 5, None),
    ("Alien", 5, None),
])  # fmt: skip
def test_the_year_in_brackets_after_a_title(text, end, year):
    assert evidence.year_after(text, end) == year


@pytest.mark.parametrize(("field_rule", "form", "rule"), [
    ("genre", "war", evidence.film_word), ("genre", "drama", evidence.no_rule), ("genre", "war film", evidence.no_rule),
    ("name", "polish", evidence.capital_or_film_word), ("name", "french", evidence.no_rule),
    ("person", "sting", evidence.capital), ("person", "cher", evidence.capital), ("person", "madonna", evidence.no_rule),
    ("person", "will red", evidence.no_rule), ("plain", "1999", evidence.no_rule),
])  # fmt: skip
def test_which_value_gets_which_rule(field_rule, form, rule):
    assert evidence.value_rule(field_rule, form, EVERYDAY) is rule


@given(st.lists(st.sampled_from(["a", "b", "aa", "ab", "ba", "bab", "x"]), max_size=12))
def test_every_run_of_words_that_is_a_form_is_found_once(tokens):
    runs = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)]
    named = [(i, j, FORMS.index(" ".join(tokens[i:j]))) for i, j in runs if " ".join(tokens[i:j]) in FORMS]
    for everyday in ((), {"a", "ab"}):
        assert sorted(Matcher(FORMS, everyday).find(tokens)) == named


@pytest.mark.parametrize(("text", "first", "near"), [
    ("war", 0, False), ("film war", 1, True), ("war x film", 0, True), ("war x x film", 0, False),
    ("crime war", 1, False), ("war crime film", 0, True), ("war crime x film", 0, True),
    ("war crime x x film", 0, False), ("war x drama", 0, True), ("film war film", 1, True),
])  # fmt: skip
def test_cues_count_within_reach_weak_ones_where_they_are_vouched_for(text, first, near):
    assert Context(text).has_film_cue(first, first + 1) is near
    assert not Context("crime love story").has_film_cue(1, 3)  # the words of a match do not vouch beside it


@pytest.mark.parametrize("text", ["\ud800 a", "㍿ a", "\0a\0", "a\u0301", "\ue000a\ue001", "ⓐ", "ａ", "𝕒"])
def test_any_character_is_read(text):
    near = Context(text)
    (start, end, form) = Matcher(["a"]).find(near.tokens)[0]
    first, last = near.span(start, end)
    assert (form, near.tokens[start:end]) == (0, ["a"])
    assert 0 <= first < last <= len(text)


def of_titles(titles):
    return Grounder(Catalog.from_records([(title, {}) for title in titles]))


NAMED = of_titles(("Paper Kites", "Iron Valley", "Zenithar", "Heat", "Her"))


@pytest.mark.parametrize(("text", "recommended"), [
    ("I would not recommend Paper Kites; avoid it. Try Iron Valley.", ["Iron Valley"]),
    ("Avoid Paper Kites and Iron Valley.", []),
    ("Watch Iron Valley instead of Paper Kites.", ["Iron Valley"]),
    ("Instead of Paper Kites, watch Iron Valley.", ["Iron Valley"]),
    ("Rather than Iron Valley I would go with Paper Kites.", ["Paper Kites"]),
    ("Paper Kites isn't for you, but Iron Valley is.", ["Iron Valley"]),
    ("Skip Paper Kites, try Iron Valley.", ["Iron Valley"]),
    ("Not Paper Kites, I suggest Iron Valley.", ["Iron Valley"]),
    ("I don't think Paper Kites fits.", []), ("Don't miss Paper Kites!", ["Paper Kites"]),
    ("You can't go wrong with Paper Kites.", ["Paper Kites"]), ("Why not Paper Kites?", ["Paper Kites"]),
    ("Paper Kites, which isn't violent, fits.", ["Paper Kites"]),
    ("There is no blood in Paper Kites.", ["Paper Kites"]),
    ("You wanted no horror, so Paper Kites it is.", ["Paper Kites"]),
    ("Try zenithar tonight, or ZENITHAR again.", ["Zenithar"]),
    ("You could watch heat.", ["Heat"]), ("I like the heat, and I would watch her.", []),
    ("If you liked Paper Kites, try Iron Valley.", ["Iron Valley"]),
    ("You'd like Paper Kites, and Iron Valley too.", ["Paper Kites", "Iron Valley"]),
    ("Paper Kites feels like Iron Valley.", ["Paper Kites"]),
    ("There is no better film than Paper Kites.", ["Paper Kites"]),
    ("you told me about zenithar. how about paper kites?", ["Paper Kites"]),
])  # fmt: skip
def test_what_a_reply_recommends(text, recommended):
    assert [NAMED.catalog.items[item].title for item in NAMED.recommended(text)] == recommended


def labelled():
    """The labelled replies (tests/helpers/title_polarity.tsv): half, text, recommended, all titles named."""
    with Path(helpers.__file__).with_name("title_polarity.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        good, other = ({*filter(None, row[key].split("|"))} for key in ("recommended", "named_only"))
        yield row["split"], row["text"].replace("\\n", "\n"), good, good | other


LABELLED = list(labelled())
GROUNDER = of_titles(sorted(set().union(*(row[3] for row in LABELLED))))


def polarity_titles(items):
    return {GROUNDER.catalog.items[item].title for item in items}


def f1(half, decide):
    """Micro F1 of the decision that a title is recommended, over the titles of each reply of a half."""
    pairs = [(good, decide(text, named)) for split, text, good, named in LABELLED if split == half]
    agreed = sum(len(good & said) for good, said in pairs)
    return 2 * agreed / sum(len(good) + len(said) for good, said in pairs)


@pytest.mark.parametrize(("half", "least"), [("dev", 0.957), ("confirm", 0.811)])
def test_labelled_replies_are_read_far_better_than_by_every_title_named(half, least):
    rules = f1(half, lambda text, named: polarity_titles(GROUNDER.recommended(text)))
    assert rules >= least and rules > f1(half, lambda text, named: named) + 0.1
    assert sum(split == half for split, *_ in LABELLED) == 120


def test_titles_of_labelled_replies_are_found_whatever_their_case():
    found = [polarity_titles(mention.item for mention in GROUNDER.titles(text)) for _, text, _, _ in LABELLED]
    named = [row[3] for row in LABELLED]
    assert sum(map(len, found)) >= 0.99 * sum(map(len, named))
    assert all(some <= every for some, every in zip(found, named, strict=True))


def test_of_two_films_of_one_title_the_year_decides_then_what_is_asked_and_else_the_mention_is_ambiguous():
    records = [
        ("Emilia", {"item_id": "1", "year": "1996", "genre": ["Comedy"]}),
        ("Emilia", {"item_id": "2", "year": "1996", "genre": ["Romance"]}),
        ("Emilia", {"item_id": "3", "year": "1979", "genre": ["Romance"]}),
    ]
    grounder = Grounder(Catalog.from_records(records))

    def meant(text, **options):
        (mention,) = grounder.titles(text, **options)
        return grounder.catalog.items[mention.item].item_id, mention.ambiguous

    assert meant("Watch Emilia (1979).") == ("3", False)
    assert meant("Watch Emilia (1996).") == ("1", True)
    assert meant("Watch Emilia (1996).", wanted="a romance movie, please") == ("2", False)
    assert meant("Watch Emilia (1996).", prefer=[1]) == ("2", False)
    assert meant("Watch Emilia.", wanted="a romance movie, please") == ("2", True)


@pytest.mark.parametrize(("title", "text"), [
    ("The Third Man", "Third Man, The (1949)"), ("L'Avventura", "Avventura, L'"), ("Rocky II", "Rocky 2"),
    ("Romeo & Juliet", "Romeo and Juliet"), ("Pride and Prejudice", "Pride & Prejudice"), ("The Godfather: Part 2", "The Godfather: Part II"),
])  # fmt: skip
def test_a_title_is_found_in_its_other_spellings(title, text):
    grounder = Grounder(
        Catalog.from_records([(title, {"genre": ["Drama"]}), ("Other", {"genre": ["Drama"]})])
    )
    assert [mention.item for mention in grounder.titles(f'You could watch "{text}".')] == [0]


def test_an_article_behind_needs_its_comma_and_an_ampersand_its_sign():
    grounder = Grounder(Catalog.from_records([("The General", {}), ("Pride and Prejudice", {})]))
    assert grounder.titles("I met a general the other day, out of pride, prejudice or both.") == []
