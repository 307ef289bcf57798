"""The rules for everyday words, one reason at a time, and spellings found in word lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import rules as evidence
from crs_lib.catalog.rules import Context, Matcher
from crs_lib.core.text import words

EVERYDAY = frozenset({"her", "sting", "red", "the", "war", "of", "roses", "x", "polish"})


def verdict(rule, text, phrase):
    """The rule's verdict on the first place where the phrase's words stand in the text."""
    tokens, wanted = words(text), words(phrase)
    first = next(i for i in range(len(tokens)) if tokens[i : i + len(wanted)] == wanted)
    return rule(evidence.Context(text), first, first + len(wanted))


@pytest.mark.parametrize(("text", "reason"), [
    ("a film with Sting, please", ""),
    ("a bee can sting you", "everyday word, not capitalised"),
    ("Sting is what bees do", "everyday word that opens a sentence"),
    ("Stop. Sting is what bees do", "everyday word that opens a sentence"),
    ('"Sting" is what I mean', ""),
    ("*sting* is what I mean", ""),
])  # fmt: skip
def test_a_one_word_name_needs_its_capital_inside_a_sentence_or_quotes(text, reason):
    assert verdict(evidence._capital, text, "sting") == reason


@pytest.mark.parametrize(("text", "accepted"), [
    ("a war film", True), ("films about war", True), ("films about the war", False), ("something with war", True), ("a war and crime story", True),
    ("they went to war", False), ("the war was long", False), ("a film on the long cold war", False), ('I said "war"', True),
    ("comedy or war", True), ("a family war", False), ("my family history of war", False),
    ("war or crime, no story", True), ("war and mystery", False), ("war or mystery or comedy", True),
])  # fmt: skip
def test_a_weak_genre_needs_a_film_word_within_two_words(text, accepted):
    assert (verdict(evidence._film_word, text, "war") == "") is accepted


@pytest.mark.parametrize(
    ("text", "accepted"),
    [("in Polish", True), ("polish films", True), ("polish the silver", False), ("Polish the silver", True)],
)
def test_a_name_that_is_a_verb_needs_a_capital_or_a_film_word(text, accepted):
    assert (verdict(evidence._capital_or_film_word, text, "polish") == "") is accepted


@pytest.mark.parametrize(("title", "text", "reason"), [
    ("Her", "I liked Her very much", ""),
    ("Her", "I liked her very much", "everyday words, not written as the title"),
    ("Her", "Her brother is late", "everyday word that opens a sentence"),
    ("Her", 'I liked "her" (2013)', ""),
    ("Her", "her (2013) is fine", ""),
    ("Her", "I liked HER very much", "everyday words, all in capitals"),
    ("Her", "It's 'her' that I mean", ""),
    ("Sting", "Sting's brother", "everyday word that opens a sentence"),
    ("RED", "I saw RED twice", ""),
    ("RED", "I saw Red twice", "everyday words, not written as the title"),
    ("1917", "in 1917 they met", "number or letter without quotes or year"),
    ("1917", '"1917" is long', ""),
    ("1917", "1917 (2019) is long", ""),
    ("X", "letter X here", "number or letter without quotes or year"),
    ("War of the Roses", "the War of the Roses tonight", ""),
    ("War of the Roses", "I saw the war of the roses", "everyday words, not written as the title"),
    ("War of the Roses", "i saw the war of the roses", ""),
    ("War of Her", "i like the war of her", "everyday words, not written as the title"),
])  # fmt: skip
def test_titles_of_everyday_words_must_be_written_as_titles(title, text, reason):
    assert verdict(evidence.title_rule(title, EVERYDAY), text, title) == reason


def test_a_title_with_a_rare_word_needs_nothing():
    assert evidence.title_rule("War of the Kumquats", EVERYDAY) is evidence.no_rule


@pytest.mark.parametrize(("text", "start", "end", "expected"), [
    ('see "Her" now', 5, 8, True), ("see (Her) now", 5, 8, True), ("see _Her_ now", 5, 8, True), ("see Her now", 4, 7, False),
    ("s'he's", 2, 4, False), ("Her (2013)", 0, 3, True), ("Her", 0, 3, False),
])  # fmt: skip
def test_quoted_means_that_marks_stand_on_both_sides_or_a_year_follows(text, start, end, expected):
    assert evidence._quoted(text, start, end) is expected


@pytest.mark.parametrize(("text", "end", "year"), [
    ("Alien (1979)", 5, 1979), ('Alien" (1979, UK)', 5, 1979), ("Alien 1979", 5, None), ("Alien (197)", 5, None),
    ("Alien", 5, None),
])  # fmt: skip
def test_the_year_in_brackets_after_a_title(text, end, year):
    assert evidence.year_after(text, end) == year


@pytest.mark.parametrize(("field_rule", "form", "rule"), [
    ("genre", "war", evidence._film_word), ("genre", "drama", evidence.no_rule), ("genre", "war film", evidence.no_rule),
    ("name", "polish", evidence._capital_or_film_word), ("name", "french", evidence.no_rule),
    ("person", "sting", evidence._capital), ("person", "cher", evidence._capital), ("person", "madonna", evidence.no_rule),
    ("person", "will red", evidence.no_rule), ("plain", "1999", evidence.no_rule),
])  # fmt: skip
def test_which_value_gets_which_rule(field_rule, form, rule):
    assert evidence.value_rule(field_rule, form, EVERYDAY) is rule


FORMS = ["ab", "a", "b", "aa", "ba", "bab", "a b", "ab a", "a ba", "aa b", "a ab", "a a a"]


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


def test_the_words_of_a_match_do_not_vouch_for_the_genre_beside_them():
    assert not Context("crime love story").has_film_cue(1, 3)


@pytest.mark.parametrize(
    "text", ["\ud800 a", "㍿ a", "\x00a\x00", "a\u0301", "\ue000a\ue001", "ⓐ", "ａ", "𝕒"]
)
def test_any_character_is_read(text):
    near = Context(text)
    (start, end, form) = Matcher(["a"]).find(near.tokens)[0]
    first, last = near.span(start, end)
    assert (form, near.tokens[start:end]) == (0, ["a"])
    assert 0 <= first < last <= len(text)
