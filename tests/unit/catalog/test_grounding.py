"""Grounding in the catalogue of ten films: concepts, spans, reasons, vectors, titles."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import rules
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.rules import Context, Matcher
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.text import words
from tests import helpers
from tests.helpers import refused, table
from tests.helpers.films import grounder

TEN = grounder()
EVERYDAY = frozenset({"her", "sting", "red", "the", "war", "of", "roses", "x", "polish"})
FORMS = ["ab", "a", "b", "aa", "ba", "bab", "a b", "ab a", "a ba", "aa b", "a ab", "a a a"]


def of_titles(titles):
    """A grounder in films of these titles."""
    return Grounder(Catalog.from_records((title, {}) for title in titles))


NAMED = of_titles(["Paper Kites", "Iron Valley", "Zenithar", "Heat", "Her"])


@pytest.mark.parametrize(("text", "keys"), table(__file__, "concepts"))
def test_concepts_of_a_text(text, keys):
    assert TEN.topic_set(text) == set(keys)
    assert TEN.keys(TEN.concepts(text)) == sorted(keys)


def test_a_name_within_a_name_is_named_as_well():
    names = ("Ian Brook", "Ian Brook Hale")
    nested = Grounder(Catalog.from_records((name, {"actor": [name]}) for name in names))
    text = "with Ian Brook Hale"
    assert nested.topic_set(text) == {"actor=ian brook", "actor=ian brook hale"}
    assert [text[match.start : match.end] for match in nested.audit(text)] == list(names)
    assert nested.find_attribute_in_text("actor", text) == "Ian Brook Hale"


def test_no_name_reaches_over_the_end_of_a_text():
    grounded = TEN.ground(["a drama with Ada", "Quill in French", "", "Zoe\nTarn"])
    first, second, third, fourth = map(TEN.keys, grounded)
    assert first == ["genre=drama"]
    assert second == ["language=french"]
    assert third == []
    assert fourth == ["director=zoe tarn", "writer=zoe tarn"]


def test_a_catalogue_without_values_names_nothing():
    bare = of_titles(["Alpha"])
    assert bare.concepts("Alpha with anybody") == frozenset()
    assert bare.idf.shape == (0,)


def test_the_audit_shows_what_matched_where_and_why_not():
    shown = TEN.audit_table("After the war, a French comedy with Stig?").to_numpy().tolist()
    assert shown == [
        ["war", "genre", "War", 10, 13, "everyday word without a film word beside it"],
        ["French", "language", "French", 17, 23, "matched"],
        ["comedy", "genre", "Comedy", 24, 30, "matched"],
        ["Stig", "actor", "Stig", 36, 40, "matched"],
    ]
    assert TEN.audit_table("").empty


def test_idf_is_that_of_the_formula():
    # N = 10 films; drama occurs in 6, Stig in 1
    idf = TEN.idf
    assert idf[TEN.catalog.code("genre", "Drama")] == pytest.approx(math.log(11 / 7) + 1, abs=1e-15)
    assert idf[TEN.catalog.code("actor", "Stig")] == pytest.approx(math.log(11 / 2) + 1, abs=1e-15)
    assert idf.min() >= 1


def test_vectors_hold_the_idf_of_what_is_named():
    drama = TEN.catalog.code("genre", "Drama")
    french = TEN.catalog.code("language", "French")
    vector = TEN.attribute_vector("a French drama, a drama")
    assert np.flatnonzero(vector).tolist() == sorted([drama, french])
    assert vector[drama] == TEN.idf[drama]
    assert vector[french] == TEN.idf[french]
    only = TEN.attribute_vector("a French drama", active_fields=["language"])
    assert np.flatnonzero(only).tolist() == [french]
    assert not TEN.attribute_vector("").any()
    refused("unknown field 'lang'", TEN.attribute_vector, "x", active_fields=["lang"])


def test_active_fields_restrict_what_is_found():
    people = grounder(active_fields=["actor", "director"])
    keys = people.topic_set("a French drama with Ada Quill by Zoe Tarn")
    assert keys == {"actor=ada quill", "director=zoe tarn"}
    refused("unknown field 'people'", grounder, active_fields=["people"])


def test_a_letter_in_quotes_before_a_year_is_no_title_of_others():
    text = "'X' (2015) and 'Nowhere Lamps' (1999)"
    [title] = TEN.unknown_titles(text, [])
    assert text[title.start : title.end] == "Nowhere Lamps'"


def test_plot_words_keep_the_order_of_the_text():
    text = "Rain falls on the Memorial; a clerk writes"
    assert TEN.find_plot_keywords_in_text(text, 2) == ["rain", "falls"]
    assert TEN.find_plot_keywords_in_text(text)[:3] == ["rain", "falls", "memorial"]


def test_an_attribute_is_the_longest_then_the_first():
    assert TEN.find_attribute_in_text("genre", "comedy, then drama") == "Comedy"
    assert TEN.find_attribute_in_text("actor", "nobody") is None
    assert TEN.find_attribute_in_text("title", "I saw Paper Kites") == "Paper Kites"
    assert TEN.find_attribute_in_text("name", "nothing") is None


@pytest.mark.parametrize(("text", "prefer", "title", "item", "namesakes"), table(__file__, "named_titles"))
def test_a_title_is_that_of_its_year_then_of_what_is_preferred(text, prefer, title, item, namesakes):
    [mention] = TEN.titles(text, prefer=prefer)
    assert text[mention.start : mention.end] == title
    assert mention.item == item
    assert mention.n_same_title == namesakes


def test_titles_stand_in_the_order_of_the_text():
    assert [mention.item for mention in TEN.titles("Paper Kites and Iron Valley")] == [1, 5]
    assert TEN.titles("I gave her a kite") == []


def test_of_titles_that_overlap_the_longest_counts():
    kites = of_titles(["Kites", "Paper Kites", "Kites Fly Home"])
    [mention] = kites.titles("see Paper Kites Fly Home")
    assert kites.catalog.items[mention.item].title == "Kites Fly Home"


def test_annotate_marks_spans_for_display_and_leaves_the_text():
    talk = Dialogue("0", "echo", (Turn("USER", "a French drama"), Turn("SYSTEM", "Paper Kites?")))
    annotated = TEN.annotate(talk)
    marks = []
    for turn in annotated.turns:
        marks += [(mark.field, turn.text[mark.start : mark.end]) for mark in turn.marks]
    assert marks == [("language", "French"), ("genre", "drama"), ("title", "Paper Kites")]
    assert annotated.to_json() == talk.to_json()
    assert "Paper Kites" in annotated._repr_html_()


def verdict(judge, text, phrase):
    """The verdict of a rule on the first place where the phrase's words stand in the text."""
    tokens = words(text)
    wanted = words(phrase)
    first = 0
    while tokens[first : first + len(wanted)] != wanted:
        first += 1
    return judge(Context(text), first, first + len(wanted))


@pytest.mark.parametrize(("text", "reason"), table(__file__, "capitals"))
def test_a_one_word_name_needs_its_capital_inside_a_sentence_or_quotes(text, reason):
    assert verdict(rules.capital, text, "sting") == reason


@pytest.mark.parametrize(("text", "accepted"), table(__file__, "film_words"))
def test_a_weak_genre_needs_a_film_word(text, accepted):
    assert (verdict(rules.film_word, text, "war") == "") is accepted


@pytest.mark.parametrize(("text", "accepted"), table(__file__, "capitals_or_film_words"))
def test_a_name_that_is_a_verb_needs_a_capital_or_a_film_word(text, accepted):
    assert (verdict(rules.capital_or_film_word, text, "polish") == "") is accepted


@pytest.mark.parametrize(("title", "text", "reason"), table(__file__, "everyday_titles"))
def test_titles_of_everyday_words_must_be_written_as_titles(title, text, reason):
    assert verdict(rules.title_rule(title, EVERYDAY), text, title) == reason


def test_a_title_with_a_rare_word_needs_no_rule():
    assert rules.title_rule("War of the Kumquats", EVERYDAY) is rules.no_rule


@pytest.mark.parametrize(("text", "start", "end", "marked"), table(__file__, "quoted"))
def test_quoted_means_that_marks_stand_on_both_sides_or_a_year_follows(text, start, end, marked):
    assert rules.is_quoted(text, start, end) is marked


@pytest.mark.parametrize(("text", "year"), table(__file__, "years"))
def test_the_year_in_brackets_after_a_title(text, year):
    assert rules.year_after(text, len("Alien")) == year


@pytest.mark.parametrize(("text",), table(__file__, "no_years"))
def test_what_is_no_year_in_brackets(text):
    assert rules.year_after(text, len("Alien")) is None


@pytest.mark.parametrize(("field_rule", "form", "name"), table(__file__, "value_rules"))
def test_which_value_gets_which_rule(field_rule, form, name):
    assert rules.value_rule(field_rule, form, EVERYDAY) is getattr(rules, name)


@given(st.lists(st.sampled_from(["a", "b", "aa", "ab", "ba", "bab", "x"]), max_size=12))
def test_every_run_of_words_that_is_a_form_is_found_once(tokens):
    runs = []
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            form = " ".join(tokens[start:end])
            if form in FORMS:
                runs.append((start, end, FORMS.index(form)))
    assert sorted(Matcher(FORMS, ()).find(tokens)) == runs
    assert sorted(Matcher(FORMS, {"a", "ab"}).find(tokens)) == runs


@pytest.mark.parametrize(("text", "first", "near"), table(__file__, "cues"))
def test_cues_count_within_reach_weak_ones_where_they_are_vouched_for(text, first, near):
    assert Context(text).has_film_cue(first, first + 1) is near


def test_the_words_of_a_match_do_not_vouch_beside_it():
    assert not Context("crime love story").has_film_cue(1, 3)


@pytest.mark.parametrize("text", ["\ud800 a", "㍿ a", "\0a\0", "a\u0301", "\ue000a\ue001", "ⓐ", "ａ", "𝕒"])
def test_any_character_is_read(text):
    context = Context(text)
    [(start, end, form), *_] = Matcher(["a"]).find(context.tokens)
    assert form == 0
    assert context.tokens[start:end] == ["a"]
    first, last = context.span(start, end)
    assert 0 <= first < last <= len(text)


def recommended(films, text):
    """The titles that a reply recommends."""
    return [films.catalog.items[item].title for item in films.recommended(text)]


@pytest.mark.parametrize(("text", "titles"), table(__file__, "recommended"))
def test_what_a_reply_recommends(text, titles):
    assert recommended(NAMED, text) == titles


@pytest.fixture(scope="module")
def labelled():
    """The labelled replies (tests/helpers/title_polarity.tsv), each with two lists of titles."""
    path = Path(helpers.__file__).with_name("title_polarity.tsv")
    with path.open(encoding="utf-8", newline="") as file:
        replies = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for reply in replies:
        reply["text"] = reply["text"].replace("\\n", "\n")
        reply["recommended"] = set(filter(None, reply["recommended"].split("|")))
        reply["named"] = reply["recommended"].union(filter(None, reply["named_only"].split("|")))
    return replies


@pytest.fixture(scope="module")
def films(labelled):
    """A grounder in the films of the labelled replies."""
    return of_titles(sorted(set().union(*[reply["named"] for reply in labelled])))


def micro_f1(pairs):
    """Micro F1 of sets of titles against those that are right."""
    agreed = total = 0
    for right, guess in pairs:
        agreed += len(right & guess)
        total += len(right) + len(guess)
    return 2 * agreed / total


@pytest.mark.parametrize(("half", "least"), [("dev", 0.957), ("confirm", 0.811)])
def test_labelled_replies_are_read_far_better_than_by_every_title_named(half, least, labelled, films):
    replies = [reply for reply in labelled if reply["split"] == half]
    assert len(replies) == 120
    ours = [(reply["recommended"], set(recommended(films, reply["text"]))) for reply in replies]
    every = [(reply["recommended"], reply["named"]) for reply in replies]
    assert micro_f1(ours) >= least
    assert micro_f1(ours) > micro_f1(every) + 0.1


def test_titles_of_labelled_replies_are_found_whatever_their_case(labelled, films):
    mentions = named = 0
    for reply in labelled:
        titles = {films.catalog.items[mention.item].title for mention in films.titles(reply["text"])}
        assert titles <= reply["named"]
        mentions += len(titles)
        named += len(reply["named"])
    assert mentions >= 0.99 * named


def emilia(number, year, genre):
    """One of several films of a title."""
    return "Emilia", {"item_id": str(number), "year": year, "genre": [genre]}


SAME_TITLE = Grounder(
    Catalog.from_records(
        [emilia(1, "1996", "Comedy"), emilia(2, "1996", "Romance"), emilia(3, "1979", "Romance")]
    )
)
ROMANCE = {"wanted": "a romance movie, please"}


@pytest.mark.parametrize(
    ("text", "options", "item_id", "ambiguous"),
    [
        ("Watch Emilia (1979).", {}, "3", False),
        ("Watch Emilia (1996).", {}, "1", True),
        ("Watch Emilia (1996).", ROMANCE, "2", False),
        ("Watch Emilia (1996).", {"prefer": [1]}, "2", False),
        ("Watch Emilia.", ROMANCE, "2", True),
    ],
)
def test_of_two_films_of_one_title_the_year_decides_then_what_is_asked(text, options, item_id, ambiguous):
    [mention] = SAME_TITLE.titles(text, **options)
    assert SAME_TITLE.catalog.items[mention.item].item_id == item_id
    assert mention.ambiguous is ambiguous


@pytest.mark.parametrize(("title", "text"), table(__file__, "spellings"))
def test_a_title_is_found_in_its_other_spellings(title, text):
    [mention] = of_titles([title, "Other"]).titles(f'You could watch "{text}".')
    assert mention.item == 0


def test_an_article_behind_needs_its_comma_and_an_ampersand_its_sign():
    text = "I met a general the other day, out of pride, prejudice or both."
    assert of_titles(["The General", "Pride and Prejudice"]).titles(text) == []
