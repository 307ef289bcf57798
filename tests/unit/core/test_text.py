"""Words: folded, whole, with their places; the fast batch form agrees with the plain one."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.core.text import fold, listing, ngrams, shorten, spans, words


def second_opinion(text):
    """The definition, step by step: decompose, fold case, drop accents and strokes, find runs of letters."""
    plainer = {"ø": "o", "ł": "l", "ı": "i", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t"}
    plainer |= {"æ": "ae", "œ": "oe", "þ": "th", "_": " "}
    out = []
    for character in text:
        plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        kept = (
            c for c in plain if not unicodedata.combining(c) and unicodedata.category(c) not in ("Mn", "Me")
        )
        out.append("".join(plainer.get(c, c) for c in kept))
    return re.findall(r"\w+", "".join(out))


ODD = st.text(
    st.sampled_from("aBé Ǆß ﬁ²½\u0301\u0345\u200d\u2028\x1e\x1c\n\t\r_-'’·。ΣςİıŉΐøÆŁÞㅎ각😀\ud800")
    | st.characters(codec="utf-8"),
    max_size=40,
)


@pytest.mark.parametrize(("text", "expected"), [
    ("Amélie's", ["amelie", "s"]),
    ("ＡＢＣ", ["abc"]),
    ("Straße", ["strasse"]),
    ("ﬁlm noir", ["film", "noir"]),
    ("sci-fi/thriller", ["sci", "fi", "thriller"]),
    ("_Alien_ and snake_case 2001", ["alien", "and", "snake", "case", "2001"]),
    ("Łódź, Søren, Æsop, Þór", ["lodz", "soren", "aesop", "thor"]),
    ("e\u0301té", ["ete"]),
    ("½", ["1", "2"]),
    ("", []),
    (" \t\n", []),
    ("…!?", []),
])  # fmt: skip
def test_worked_examples(text, expected):
    assert words(text) == expected
    assert fold(text) == " ".join(expected)


@given(ODD)
def test_words_are_what_the_definition_says_folded_once_or_twice_with_spans(text):
    # NFKD of a character may hold a blank or another sign that breaks a word; the definition does the same
    assert words(text) == second_opinion(text)
    assert words(fold(text)) == words(text)
    found = spans(text)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert found == sorted(found)
    for word, (start, end) in zip(words(text), found, strict=True):
        assert word in words(text[start:end])


def test_spans_cover_letters_with_accents_and_ngrams_are_distinct_runs():
    text = "Ah, Ame\u0301lie!"
    assert words(text) == ["ah", "amelie"]
    assert [text[start:end] for start, end in spans(text)] == ["Ah", "Ame\u0301lie"]
    tokens = ["a", "b", "a", "b", "c"]
    assert ngrams(tokens, 2) == {("a", "b"), ("b", "a"), ("b", "c")}
    assert ngrams(tokens, 5) == {tuple(tokens)}
    assert ngrams(tokens, 6) == set()
    assert ngrams([], 1) == set()


@given(st.text(max_size=20), st.integers(1, 25))
def test_shortening_keeps_the_limit_and_shows_the_cut(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


@pytest.mark.parametrize(
    ("parts", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_listings_read_like_a_sentence(parts, text):
    assert listing(parts) == text
