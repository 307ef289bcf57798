"""Hashes of runs: the quick form is the plain one, tables give back what they hold, nothing is mixed up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.catalog import forms as scanning
from crs_lib.catalog.forms import form_tables, hash_table, scan
from crs_lib.catalog.matcher import Matcher
from crs_lib.catalog.rules import Context
from crs_lib.core.errors import RunError

KEYS = st.integers(0, 2**64 - 1)
PIECES = st.sampled_from(
    ["a", "b", "b a", "A\u0301", "STRASSE", "stra\u00dfe", "\u2474", "\u00bd", "\u2026", "\ufb01", "\u0301", " ", ", ", "\ue000", "\ue001", "\ud800", "1"]
)  # fmt: skip
WORDS = ["ab", "a", "b", "aa", "ba", "bab"]


@given(st.lists(KEYS, min_size=1, max_size=20), st.data())
def test_running_sums_give_the_hash_of_every_run(values, data):
    start = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(max(start, 1), len(values)))
    found = scanning.run_hashes(
        np.array(values, dtype=np.uint64), np.array([start]), np.array([end]), scanning.WORDS
    )
    assert found.tolist() == [scanning.run_hash(values[start:end], scanning.WORDS)]


@given(st.sets(KEYS, max_size=60), st.lists(KEYS, max_size=20))
def test_a_table_finds_its_keys_and_no_others(held, others):
    keys = sorted(held)
    table = hash_table(keys, range(len(keys)))
    asked = [*keys, *others]
    expected = [keys.index(key) if key in held else -1 for key in asked]
    assert table.find(np.array(asked, dtype=np.uint64)).tolist() == expected


def test_keys_of_one_slot_are_told_apart():
    keys = np.arange(1, 400, dtype=np.uint64)
    slots = (keys * scanning.SPREAD) >> np.uint64(60)
    alike = keys[slots == slots[0]][:4]
    table = hash_table(alike[:3].tolist(), [7, 8, 9])
    assert table.shift == 60
    assert table.find(alike).tolist() == [7, 8, 9, -1]


def test_two_values_with_one_hash_are_refused():
    with pytest.raises(RunError, match="share a 64-bit hash"):
        hash_table([5, 6, 5], [0, 1, 2])


def test_where_one_word_ends_and_the_next_begins_matters_and_each_run_is_found_once():
    forms = [*WORDS, "a b", "ab a", "a ba", "aa b", "a ab"]
    matcher = Matcher(forms)
    tables = form_tables(matcher, (), {}, 0)
    for number, form in enumerate(forms):
        hits = scan([form, "", "nothing", form], tables)
        whole = [
            (text, hit) for text, start, end, hit, *_ in zip(*hits, strict=True)
            if start == 0 and end == len(form.split())
        ]  # fmt: skip
        assert whole == [(0, number), (3, number)], form
        assert sorted(zip(hits.start, hits.end, hits.form, strict=True)) == sorted(
            2 * matcher.find(form.split())
        )


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("war", 0),
        ("film war", 1),
        ("war x film", 1),
        ("war x x film", 0),
        ("crime war", 0),
        ("war crime film", 1),
        ("war crime x film", 1),
        ("war crime x x film", 0),
        ("drama x drama", 0),
    ],
)
def test_cues_count_within_reach_weak_ones_where_they_are_vouched_for(text, near):
    tables = form_tables(Matcher(["war", "drama"]), {0}, {"film": True, "crime": False}, 2)
    hits = scan(["film", text, "film"], tables)
    assert set(hits.near.tolist()) == {near}


def test_more_hits_than_expected_of_so_many_letters():
    tables = form_tables(Matcher(["a", "a a", "a a a"]), (), {}, 0)
    text = "a " * 3000
    hits = scan([text, text], tables)
    assert len(hits.form) == 2 * (3000 + 2999 + 2998)


@pytest.mark.parametrize(
    "text", ["\ud800 a", "𝕒", "㍿ a", "\x00a\x00", "a\u0301", "\ue000a\ue001", "ⓐ", "ａ"]
)
def test_any_character_is_read(text):
    tables = form_tables(Matcher(["a"]), (), {}, 0)
    assert scan(["", text, "é"], tables).text.tolist() == [1]


@given(st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=4))
def test_a_hit_tells_the_words_and_the_characters_of_its_text(texts):
    tables = form_tables(Matcher(["a", "b a", "strasse", "1"]), (), {}, 0)
    hits = scan(texts, tables)
    for text, start, end, form, _, first, last in zip(*(c.tolist() for c in hits), strict=True):
        near = Context(texts[text])
        assert near.tokens[start:end] == ["a", "b a", "strasse", "1"][form].split()
        assert near.span(start, end) == (first, last)
