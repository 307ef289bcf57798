"""Spellings found in word lists: each run once, overlaps included, and what stands near a match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog.rules import Context, Matcher

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
